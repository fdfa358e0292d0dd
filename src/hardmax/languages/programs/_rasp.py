"""Programs written with Tracr's RASP classes, read by class name and fields.

Nothing is imported: a tree is whatever has the names that Tracr gives to its nodes. None is
"nothing" here as there: it goes through maps, and an aggregate of nothing is its default.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from hardmax._errors import RequestError
from hardmax.languages.programs._nodes import (
    Constant,
    Selection,
    Sequence,
    Value,
    apply,
    combination,
    select,
)
from hardmax.languages.programs._program import Program

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LEQ": operator.le,
    "GT": operator.gt,
    "GEQ": operator.ge,
    "TRUE": lambda key, query: True,
    "FALSE": lambda key, query: False,
}
_GIVEN = {"TokensType": "tokens", "IndicesType": "index", "LengthType": "length"}


def from_rasp(expression: Any, *, causal: bool = False, name: str | None = None) -> Program:
    """The program that a tree of RASP nodes means.

    `causal` restricts every selection to the positions up to here, as Tracr's argument of the same
    name does at compile time.

        from tracr.rasp import rasp
        reverse = rasp.Aggregate(rasp.Select(...), rasp.tokens)
        hm.compile(hm.programs.from_rasp(reverse), alphabet="abc", length=8)
    """
    reader = _Reader(causal)
    label = getattr(expression, "name", None) or "rasp"
    return Program(reader.value(expression), str(label) if name is None else name)


class _Reader:
    """Each node of the tree once: its identity is the object, not its name."""

    def __init__(self, causal: bool) -> None:
        self.causal = causal
        self._known: dict[int, tuple[Any, Any]] = {}
        self._open: set[int] = set()

    def value(self, node: Any) -> Value:
        return self._once(node, self._value)

    def selection(self, node: Any) -> Selection:
        return self._once(node, self._selection)

    def _once(self, node: Any, make: Callable[[Any], Any]) -> Any:
        if id(node) in self._open:
            raise RequestError(f"The definition of {_kind(node)} is cyclic: it reads itself.")
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = node, make(node)  # kept alive, so that no other has its id
            self._open.discard(id(node))
        return self._known[id(node)][1]

    def _value(self, node: Any) -> Value:
        kind = _kind(node)
        match kind:
            case "TokensType" | "IndicesType" | "LengthType":
                return getattr(Sequence(), _GIVEN[kind])
            case "Map":
                return apply(node.f, self.value(node.inner))
            case "SequenceMap":
                return apply(node.f, self.value(node.fst), self.value(node.snd))
            case "LinearSequenceMap":
                terms = [(node.fst_fac, self.value(node.fst)), (node.snd_fac, self.value(node.snd))]
                return combination(terms)
            case "Full":
                return Constant(node.fill)
            case "ConstantSOp":
                return _constant(node.value)
            case "SelectorWidth":
                return self.selection(node.selector).count()
            case "Aggregate":
                chosen, held = self.selection(node.selector), self.value(node.sop)
                return chosen.mean(held, default=getattr(node, "default", None))
        raise RequestError(f"{kind} is not one of the RASP values that are known.")

    def _selection(self, node: Any) -> Selection:
        kind = _kind(node)
        match kind:
            case "Select":
                keys, queries = self.value(node.keys), self.value(node.queries)
                found = select(keys, queries, _relation(node.predicate))
                return found.causal() if self.causal else found
            case "SelectorAnd":
                return self.selection(node.fst) & self.selection(node.snd)
            case "SelectorOr":
                return self.selection(node.fst) | self.selection(node.snd)
            case "SelectorNot":
                found = ~self.selection(node.inner)
                return found.causal() if self.causal else found
            case "ConstantSelector":
                return self._stated(node.value)
        raise RequestError(f"{kind} is not one of the RASP selectors that are known.")

    def _stated(self, rows: Any) -> Selection:
        """Rows of queries, columns of keys, written out for words of that length."""
        table = [list(row) for row in rows]

        def holds(key: int, query: int) -> bool:
            return query < len(table) and key < len(table[query]) and bool(table[query][key])

        index = Sequence().index
        found = select(index, index, holds, text="stated({}, {})")
        return found.causal() if self.causal else found


def _constant(value: Any) -> Value:
    """One item everywhere, or a list with one for each position."""
    if not isinstance(value, list | tuple):
        return Constant(value)
    items = list(value)
    return apply(
        lambda i: items[i] if i < len(items) else None, Sequence().index, text=f"{items}[{{}}]"
    )


def _relation(predicate: Any) -> Callable[[Any, Any], bool]:
    label = getattr(predicate, "name", None)
    if isinstance(label, str) and label in _COMPARISONS:
        return _COMPARISONS[label]
    if callable(predicate):
        return lambda key, query: bool(predicate(key, query))
    raise RequestError(
        f"A RASP predicate is a comparison ({', '.join(_COMPARISONS)}) or a function of key and "
        f"query, not {predicate!r}."
    )


def _kind(node: Any) -> str:
    return type(node).__name__
