"""Programs written with Tracr's RASP classes, read by class name and fields.

Nothing is imported: a tree is whatever has the names that Tracr gives to its nodes. It means what
Tracr's evaluator says. None goes through maps; a predicate that is a function sees it, and a
comparison fails on it. Functions get the ints, floats and bools that others returned, so that
str(1.0) is not str(1). An aggregate of whole numbers is the float nearest to their mean; of
anything else it is what the one position selected holds, None included, and fails if there are
several.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hardmax._errors import RequestError
from hardmax.languages.programs._items import Item, Kept
from hardmax.languages.programs._nodes import (
    Aggregated,
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
    found = _Reader(causal).value(expression)
    if not _is_whole(expression):
        found = apply(_number, found, text="{}")
    label = getattr(expression, "name", None) or "rasp"
    return Program(found, str(label) if name is None else name)


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
                return _applied(node.f, self.value(node.inner))
            case "SequenceMap":
                return _applied(node.f, self.value(node.fst), self.value(node.snd))
            case "LinearSequenceMap":
                return self._linear(node, self.value(node.fst), self.value(node.snd))
            case "Full":
                return Constant(_kept(node.fill))
            case "ConstantSOp":
                return _constant(node.value)
            case "SelectorWidth":
                return self.selection(node.selector).count()
            case "Aggregate":
                chosen, held = self.selection(node.selector), self.value(node.sop)
                return _aggregated(chosen, held, getattr(node, "default", None))
        raise RequestError(f"{kind} is not one of the RASP values that are known.")

    def _linear(self, node: Any, first: Value, second: Value) -> Value:
        """Whole numbers are combined exactly; floats as Python's floats are."""
        a, b = node.fst_fac, node.snd_fac
        if _is_whole(node):
            return combination([(a, first), (b, second)])
        return _applied(lambda x, y: a * x + b * y, first, second)

    def _selection(self, node: Any) -> Selection:
        kind = _kind(node)
        match kind:
            case "Select":
                keys, queries = self.value(node.keys), self.value(node.queries)
                found = select(keys, queries, _relation(node.predicate), nothing=True)
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

        def holds(key: int, query: int, length: int) -> bool:
            _check_length(length, len(table))
            return bool(table[query][key])

        s = Sequence()
        found = select(s.index, (s.index, s.length), holds, text="stated({}, {}, {})")
        return found.causal() if self.causal else found


def _constant(value: Any) -> Value:
    """One item everywhere, or a list with one for each position."""
    if not isinstance(value, list | tuple):
        return Constant(_kept(value))
    items = list(map(_kept, value))

    def at(index: int, length: int) -> Item:
        _check_length(length, len(items))
        return items[index]

    return apply(at, Sequence().index, Sequence().length, text="stated({}, {})")


def _check_length(length: int, wanted: int) -> None:
    if length != wanted:
        raise ValueError(f"a constant of length {wanted} on a word of length {length}")


# ---- what Python's functions see ----------------------------------------------------------------


def _is_whole(node: Any) -> bool:
    """Whether a node holds symbols and ints alone, whatever the word."""
    match _kind(node):
        case "TokensType" | "IndicesType" | "LengthType" | "SelectorWidth":
            return True
        case "LinearSequenceMap":
            factors = type(node.fst_fac) is int and type(node.snd_fac) is int
            return factors and _is_whole(node.fst) and _is_whole(node.snd)
    return False


def _applied(function: Callable[..., Any], *sources: Value) -> Value:
    def seen(*held: Item) -> Item:
        return _kept(function(*map(_python, held)))

    seen.__name__ = getattr(function, "__name__", "function")
    return apply(seen, *sources)


def _python(one: Item) -> Any:
    """An item as the function that made it returned it: numbers that are not whole are floats."""
    if isinstance(one, Kept):
        return one.seen
    return float(one) if isinstance(one, Fraction) else one


def _kept(found: Any) -> Item:
    """What a function returned; floats that are whole, and bools, are told from ints."""
    if found is None or isinstance(found, str) or type(found) is int:
        return found
    return found if type(found) is float and not found.is_integer() else Kept(found)


def _number(one: Item) -> Item:
    """The number itself, whatever it was seen as."""
    return Fraction(one) if isinstance(one, Kept) else one


def _aggregated(chosen: Selection, held: Value, default: Any) -> Value:
    """None, if one holds it; else the mean as a float, or what is not a number as it is.

    An int or bool as the default stays one, and is put in afterwards: means are floats.
    """
    is_late = isinstance(default, int)
    nones = chosen.sum(apply(_is_nothing, held, nothing=True, text="{} is None"))
    found = Aggregated(chosen, "mean", held, None if is_late else default, _check_mean)

    def answer(mean: Item, count: int) -> Item:
        if count:
            return None
        if mean is None:
            return _kept(default)
        return _kept(float(mean)) if isinstance(mean, int | Fraction) else mean

    return apply(answer, found, nones, text="{}, unless {}", nothing=True)


def _is_nothing(one: Item) -> bool:
    return one is None


def _check_mean(*selected: Item) -> None:
    """Fails where RASP has no answer: several that are neither ints nor bools, or None among them.

    Also where Python's sum of floats is rounded on the way, so that it is not the nearest to the
    mean.
    """
    held = [_python(one) for one in selected]
    if len(held) > 1 and not isinstance(held[0], int):
        raise ValueError(f"several positions are selected, and they hold {held}")
    if held and isinstance(held[0], int):
        mean = sum(map(Fraction, selected), Fraction(0)) / len(held)
        if sum(held) / len(held) != float(mean):
            raise ValueError(f"the sum of the floats {held} is rounded on the way")


def _relation(predicate: Any) -> Callable[[Any, Any], bool]:
    label = getattr(predicate, "name", None)
    if isinstance(label, str) and label in _COMPARISONS:
        return _compared(label)
    if callable(predicate):
        return lambda key, query: bool(predicate(_python(key), _python(query)))
    raise RequestError(
        f"A RASP predicate is a comparison ({', '.join(_COMPARISONS)}) or a function of key and "
        f"query, not {predicate!r}."
    )


def _compared(label: str) -> Callable[[Any, Any], bool]:
    """A comparison, which is not for None."""
    relation = _COMPARISONS[label]

    def holds(key: Item, query: Item) -> bool:
        if key is None or query is None:
            raise ValueError(f"{label} compares None")
        return relation(_python(key), _python(query))

    return holds


def _kind(node: Any) -> str:
    return type(node).__name__
