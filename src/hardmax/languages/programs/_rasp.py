"""Programs written with Tracr's RASP classes, read by class name and fields.

Nothing is imported: a tree is whatever has the names that Tracr gives to its nodes. It means what
Tracr's evaluator says. None goes through maps; a predicate that is a function sees it, and a
comparison fails on it. Functions get the ints, floats and bools that others returned, so that
str(1.0) is not str(1). An aggregate is what the one position selected holds, None included; of
several numbers it is their mean, a float, and of several that are not all numbers it fails. All
parts of a selector are worked out: one that fails does so even where the others decide.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Protocol, TypeVar, cast

from hardmax._errors import RequestError
from hardmax.languages.programs._items import Item, Kept, exact_number
from hardmax.languages.programs._nodes import (
    Aggregated,
    Constant,
    Joined,
    Selection,
    Sequence,
    Value,
    apply,
    combination,
    select,
)
from hardmax.languages.programs._program import Program

_COMPARISONS: dict[str, Callable[..., bool]] = {
    "EQ": operator.eq,
    "NEQ": operator.ne,
    "LT": operator.lt,
    "LEQ": operator.le,
    "GT": operator.gt,
    "GEQ": operator.ge,
    "TRUE": lambda key, query: True,
    "FALSE": lambda key, query: False,
}
_Made = TypeVar("_Made", Value, Selection)
_GIVEN = {"TokensType": "tokens", "IndicesType": "index", "LengthType": "length"}


class RaspNode(Protocol):
    """Whatever has the names that Tracr gives to its nodes: each kind of node has some of them."""

    name: str
    f: Callable[..., object]
    inner: RaspNode
    fst: RaspNode
    snd: RaspNode
    fst_fac: float
    snd_fac: float
    fill: object
    value: object
    selector: RaspNode
    sop: RaspNode
    keys: RaspNode
    queries: RaspNode
    predicate: object


def from_rasp(expression: object, *, causal: bool = False, name: str | None = None) -> Program:
    """The program that a tree of RASP nodes means.

    `causal` restricts every selection to the positions up to here, as Tracr's argument of the same
    name does at compile time.

        from tracr.rasp import rasp
        reverse = rasp.Aggregate(rasp.Select(...), rasp.tokens)
        hm.compile(hm.programs.from_rasp(reverse), alphabet="abc", length=8)

    >>> class TokensType:  # as Tracr calls it
    ...     name = "tokens"
    >>> from_rasp(TokensType())("ab")
    ['a', 'b']
    """
    root = cast(RaspNode, expression)
    found = _TreeReader(causal, _looked_at(root)).value(root)
    if not _is_whole(root):
        found = apply(_number, found, text="{}")
    label = getattr(expression, "name", None) or "rasp"
    return Program(found, str(label) if name is None else name)


class _TreeReader:
    """Each node of the tree once: its identity is the object, not its name."""

    def __init__(self, causal: bool, seen: set[int]) -> None:
        self.causal = causal
        self._seen = seen  # the nodes of which a function sees what they hold
        self._known: dict[int, tuple[RaspNode, Value | Selection]] = {}
        self._open: set[int] = set()

    def value(self, node: RaspNode) -> Value:
        return self._once(node, self._value)

    def selection(self, node: RaspNode) -> Selection:
        return self._once(node, self._selection)

    def _once(self, node: RaspNode, make: Callable[[RaspNode], _Made]) -> _Made:
        if id(node) in self._open:
            raise RequestError(f"The definition of {_kind(node)} is cyclic: it reads itself.")
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = node, make(node)  # kept alive, so that no other has its id
            self._open.discard(id(node))
        return cast(_Made, self._known[id(node)][1])

    def _value(self, node: RaspNode) -> Value:
        kind = _kind(node)
        match kind:
            case "TokensType" | "IndicesType" | "LengthType":
                return getattr(Sequence(), _GIVEN[kind])
            case "Map":
                return _apply_python(node.f, self.value(node.inner))
            case "SequenceMap":
                return _apply_python(node.f, self.value(node.fst), self.value(node.snd))
            case "LinearSequenceMap":
                return self._linear(node, self.value(node.fst), self.value(node.snd))
            case "Full":
                return Constant(_item_of_python(node.fill))
            case "ConstantSOp":
                return _constant(node.value)
            case "SelectorWidth":
                return self.selection(node.selector).count()
            case "Aggregate":
                return self._aggregate(node, self.selection(node.selector), self.value(node.sop))
        raise RequestError(f"{kind} is not one of the RASP values that are known.")

    def _linear(self, node: RaspNode, first: Value, second: Value) -> Value:
        """Whole numbers are combined exactly; floats as Python's floats are."""
        a, b = node.fst_fac, node.snd_fac
        if _is_whole(node):
            return combination([(a, first), (b, second)])
        return _apply_python(lambda x, y: a * x + b * y, first, second)

    def _aggregate(self, node: RaspNode, chosen: Selection, held: Value) -> Value:
        default = getattr(node, "default", None)
        if _selects_one_at_most(node.selector):
            return _only(chosen, held, default)
        if id(node) in self._seen:
            return _seen_mean(chosen, held, default, _is_whole(node.sop))
        return _mean(chosen, held, default)

    def _selection(self, node: RaspNode) -> Selection:
        kind = _kind(node)
        match kind:
            case "Select":
                keys, queries = self.value(node.keys), self.value(node.queries)
                selection = select(keys, queries, _relation(node.predicate), nothing=True)
                return selection.causal() if self.causal else selection
            case "SelectorAnd":
                return Joined("and", self._both(node), is_strict=True)
            case "SelectorOr":
                return Joined("or", self._both(node), is_strict=True)
            case "SelectorNot":
                selection = ~self.selection(node.inner)
                return selection.causal() if self.causal else selection
            case "ConstantSelector":
                return self._selection_of_rows(cast(Iterable[Iterable[object]], node.value))
        raise RequestError(f"{kind} is not one of the RASP selectors that are known.")

    def _both(self, node: RaspNode) -> tuple[Selection, Selection]:
        return self.selection(node.fst), self.selection(node.snd)

    def _selection_of_rows(self, rows: Iterable[Iterable[object]]) -> Selection:
        """Rows of queries, columns of keys, written out for words of that length."""
        table = [list(row) for row in rows]

        def holds(key: int, query: int, length: int) -> bool:
            _check_length(length, len(table))
            return bool(table[query][key])

        s = Sequence()
        selection = select(s.index, (s.index, s.length), holds, text="stated({}, {}, {})")
        return selection.causal() if self.causal else selection


def _constant(value: object) -> Value:
    """One item everywhere, or a list with one for each position."""
    if not isinstance(value, list | tuple):
        return Constant(_item_of_python(value))
    items = list(map(_item_of_python, value))

    def at(index: int, length: int) -> Item:
        _check_length(length, len(items))
        return items[index]

    return apply(at, Sequence().index, Sequence().length, text="stated({}, {})")


def _check_length(length: int, wanted: int) -> None:
    if length != wanted:
        raise ValueError(f"a constant of length {wanted} on a word of length {length}")


# ---- what Python's functions see ----------------------------------------------------------------


def _is_whole(node: RaspNode) -> bool:
    """Whether a node holds symbols and ints alone, whatever the word."""
    match _kind(node):
        case "TokensType" | "IndicesType" | "LengthType" | "SelectorWidth":
            return True
        case "LinearSequenceMap":
            factors = type(node.fst_fac) is int and type(node.snd_fac) is int
            return factors and _is_whole(node.fst) and _is_whole(node.snd)
    return False


def _apply_python(function: Callable[..., object], *sources: Value) -> Value:
    def answer(*held: Item) -> Item:
        return _item_of_python(function(*map(_item_to_python, held)))

    answer.__name__ = getattr(function, "__name__", "function")
    return apply(answer, *sources)


def _item_to_python(one: Item) -> str | float | None:
    """An item as the function that made it returned it: numbers that are not whole are floats."""
    if isinstance(one, Kept):
        return one.seen
    return float(one) if isinstance(one, Fraction) else one


def _item_of_python(found: object) -> Item:
    """What a function returned; floats that are whole, and bools, are told from ints."""
    if found is None or isinstance(found, str) or type(found) is int:
        return found
    return found if type(found) is float and not found.is_integer() else Kept(cast(float, found))


def _number(one: Item) -> Item:
    """The number itself, whatever it was seen as."""
    return Fraction(one) if isinstance(one, Kept) else one


def _looked_at(expression: RaspNode) -> set[int]:
    """The nodes, by identity, of which a function sees what they hold: an int, a float or a bool.

    Comparisons and the answer itself take numbers for what they are.
    """
    known: set[tuple[int, bool]] = set()
    stack = [(expression, False)]
    while stack:
        node, is_seen = stack.pop()
        if (id(node), is_seen) not in known:
            known.add((id(node), is_seen))
            stack += _read_by(node, is_seen)
    return {name for name, is_seen in known if is_seen}


def _read_by(node: RaspNode, is_seen: bool) -> list[tuple[RaspNode, bool]]:
    """What a node reads, and whether a function sees it."""
    match _kind(node):
        case "Map":
            return [(node.inner, True)]
        case "SequenceMap" | "LinearSequenceMap":
            return [(node.fst, True), (node.snd, True)]
        case "Aggregate":
            return [(node.selector, False), (node.sop, is_seen)]
        case "SelectorWidth":
            return [(node.selector, False)]
        case "Select":
            by_function = _comparison(node.predicate) is None
            return [(node.keys, by_function), (node.queries, by_function)]
        case "SelectorAnd" | "SelectorOr":
            return [(node.fst, False), (node.snd, False)]
        case "SelectorNot":
            return [(node.inner, False)]
    return []


# ---- aggregates ---------------------------------------------------------------------------------


def _selects_one_at_most(selector: RaspNode) -> bool:
    """Whether it is plain to see that no position selects two: there are no equal indices."""
    match _kind(selector):
        case "Select":
            return _kind(selector.keys) == "IndicesType" and _comparison(selector.predicate) == "EQ"
        case "SelectorAnd":
            return _selects_one_at_most(selector.fst) or _selects_one_at_most(selector.snd)
    return False


def _only(chosen: Selection, held: Value, default: object) -> Value:
    """What the one position selected holds; the default where there is none."""
    found = Aggregated(chosen, "only", held, _item_of_python(default))
    return found if default is None else _unless_none(found, chosen, held)


def _unless_none(found: Value, chosen: Selection, held: Value) -> Value:
    """None where it is selected, which is the only one then."""
    nones = chosen.sum(apply(lambda one: one is None, held, nothing=True, text="{} is None"))

    def answer(one: Item, count: int) -> Item:
        return None if count else one

    return apply(answer, found, nones, text="{}, unless {}", nothing=True)


def _mean(chosen: Selection, held: Value, default: object) -> Value:
    """The mean as a number, of which nobody sees whether it is a float.

    A mean that is whole and beyond floats is that of one (`_check_mean`): it is not rounded.
    """
    aggregate = Aggregated(chosen, "mean", held, None, _check_mean)

    def answer(mean: Item) -> Item:
        if mean is None:
            return _item_of_python(default)
        return float(mean) if isinstance(mean, Fraction) else mean

    number = apply(answer, aggregate, text="{}", nothing=True)
    return number if default is None else _unless_none(number, chosen, held)


def _seen_mean(chosen: Selection, held: Value, default: object, is_whole: bool) -> Value:
    """The mean of several as a float; what one position holds as what it is."""
    aggregate = Aggregated(chosen, "mean", held, None, _check_mean)
    look: Value = Constant(0) if is_whole else chosen.max(apply(_look, held, text="look of {}"))

    def answer(found: Item, look: int | None, count: int) -> Item:
        if count == 0 or found is None:
            return None if count else _item_of_python(default)
        if isinstance(found, str):
            return found
        return _item_of_python(float(found)) if count > 1 else _seen_as(exact_number(found), look)

    return apply(answer, aggregate, look, chosen.count(), text="{} as {} of {}", nothing=True)


def _look(one: Item) -> int:
    """As what a function sees an item: 0 an int (or a symbol), 1 a float, 2 a bool, 3 is -0.0."""
    seen = _item_to_python(one)
    if isinstance(seen, str) or type(seen) is int:
        return 0
    if type(seen) not in (float, bool):
        raise TypeError(f"a function returned {seen!r}, which is no int, float or bool")
    return 2 if type(seen) is bool else 3 if str(seen) == "-0.0" else 1


def _seen_as(found: Fraction, look: int | None) -> Item:
    """The item of a number with this look."""
    items = [int(found), float(found), bool(found), -0.0]
    item = items[0 if look is None else look]
    if item != found:
        raise ValueError(f"{found} is no {type(item).__name__}")  # they never come together
    return _item_of_python(item)


def _check_mean(*selected: Item) -> None:
    """Fails where RASP has no answer: several that are not all numbers.

    Also where Python's sum is rounded on the way, so that it is not the nearest to the mean, and
    where the mean of several is whole and no float is equal to it.
    """
    seen = [_item_to_python(one) for one in selected]
    if len(seen) < 2:
        return
    held = [one for one in seen if isinstance(one, int | float)]
    if len(held) < len(seen):
        raise ValueError(f"several positions are selected, and they hold {seen}")
    mean = sum(map(exact_number, selected), Fraction(0)) / len(held)
    is_long = mean.denominator == 1 and mean != float(mean)
    if is_long or sum(held) / len(held) != float(mean):
        raise ValueError(f"the sum of {held} is rounded on the way")


def _relation(predicate: object) -> Callable[..., bool]:
    label = _comparison(predicate)
    if label is not None:
        return _comparison_called(label)
    if callable(predicate):
        return lambda key, query: bool(predicate(_item_to_python(key), _item_to_python(query)))
    raise RequestError(
        f"A RASP predicate is a comparison ({', '.join(_COMPARISONS)}) or a function of key and "
        f"query, not {predicate!r}."
    )


def _comparison(predicate: object) -> str | None:
    """The name of a comparison; None for anything else."""
    label = getattr(predicate, "name", None)
    return label if isinstance(label, str) and label in _COMPARISONS else None


def _comparison_called(label: str) -> Callable[..., bool]:
    """A comparison, which is not for None."""
    relation = _COMPARISONS[label]

    def holds(key: Item, query: Item) -> bool:
        if key is None or query is None:
            raise ValueError(f"{label} compares None")
        return relation(_item_to_python(key), _item_to_python(query))

    return holds


def _kind(node: RaspNode) -> str:
    return type(node).__name__
