"""What a sequence program is made of: values that every position holds, and selections.

A value is a token, a number or nothing (None) at each position of a word. A selection says, for
each position ("here"), which positions ("there") it looks at. Both are trees of frozen nodes whose
identity is the object; their meaning is `_interpreter`.

    s = Sequence()
    same = there(s.tokens) == s.tokens        # positions that hold the token held here
    same.count()                              # a histogram
    s.tokens.at(s.length - 1 - s.index)       # reversal
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from hardmax._errors import RequestError
from hardmax.core import plain
from hardmax.languages.programs._items import Item, exact_number, item
from hardmax.languages.programs._machines import Machine

_Key = TypeVar("_Key", bound=Hashable)
GIVEN = ("tokens", "index", "length")
LONGEST_NAME = 60
KINDS = ("only", "mean", "sum", "count", "min", "max")


class Value:
    """Something that every position of a word holds; arithmetic and comparisons make new ones.

    >>> program(lambda s: (s.index + 1) * 2 > 3)("abc")
    [0, 1, 1]
    """

    given_name: str | None = None  # of the step, in legends, traces and interventions
    __hash__ = object.__hash__

    def named(self, name: str) -> Value:
        """The same step under a name of its own: a new value, to be used in place of this one.

        >>> back = (Sequence().length - 1 - Sequence().index).named("back")
        >>> hm.program(lambda s: s.tokens.at(back))("abc")
        ['c', 'b', 'a']
        """
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST_NAME:
            raise RequestError(f"A name is a text of 1 to {LONGEST_NAME} letters, not {name!r}.")
        if isinstance(self, Given) or name in GIVEN:
            raise RequestError(f"The names {', '.join(GIVEN)} belong to what a word has; {name!r}.")
        made = copy.copy(self)
        object.__setattr__(made, "given_name", name)
        return made

    def __add__(self, other: Operand) -> Value:
        return combination([(1, self), (1, other)])

    def __radd__(self, other: Operand) -> Value:
        return combination([(1, other), (1, self)])

    def __sub__(self, other: Operand) -> Value:
        return combination([(1, self), (-1, other)])

    def __rsub__(self, other: Operand) -> Value:
        return combination([(1, other), (-1, self)])

    def __neg__(self) -> Value:
        return combination([(-1, self)])

    def __mul__(self, other: Operand) -> Value:
        if isinstance(other, Value):
            return apply(operator.mul, self, other, text="{} * {}")
        return combination([(other, self)])

    def __rmul__(self, other: Operand) -> Value:
        return combination([(other, self)])

    def __truediv__(self, other: Operand) -> Value:
        return apply(_quotient, self, other, text="{} / {}")

    def __rtruediv__(self, other: Operand) -> Value:
        return apply(_quotient, other, self, text="{} / {}")

    def __floordiv__(self, other: Operand) -> Value:
        return apply(operator.floordiv, self, other, text="{} // {}")

    def __mod__(self, other: Operand) -> Value:
        return apply(operator.mod, self, other, text="{} % {}")

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return apply(operator.eq, self, as_value(other), text="{} == {}")

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return apply(operator.ne, self, as_value(other), text="{} != {}")

    def __lt__(self, other: Operand) -> Value:
        return apply(operator.lt, self, other, text="{} < {}")

    def __le__(self, other: Operand) -> Value:
        return apply(operator.le, self, other, text="{} <= {}")

    def __gt__(self, other: Operand) -> Value:
        return apply(operator.gt, self, other, text="{} > {}")

    def __ge__(self, other: Operand) -> Value:
        return apply(operator.ge, self, other, text="{} >= {}")

    def __and__(self, other: Operand) -> Value:
        return apply(_both, self, other, text="{} and {}")

    def __or__(self, other: Operand) -> Value:
        return apply(_either, self, other, text="{} or {}")

    def __invert__(self) -> Value:
        return apply(operator.not_, self, text="not {}")

    def __bool__(self) -> bool:
        raise RequestError(
            "A value differs from position to position and is neither true nor false. Use "
            "where(condition, a, b) for a choice, and & | ~ for and, or, not."
        )

    def map(self, function: Callable[..., Item] | Mapping[_Key, Item]) -> Value:
        """A function of what is held here; a table (dict) gives None for what it does not list."""
        if isinstance(function, Mapping):
            return apply(dict(function).get, self, text=f"table of {len(function)} at {{}}")
        return apply(function, self)

    def at(self, position: Operand, default: Item = None) -> Value:
        """What is held at a computed position (the default where there is no such position)."""
        return (there(_INDEX) == position).only(self, default)

    def shifted(self, by: int, default: Item = None) -> Value:
        """What is held `by` positions to the left."""
        return self.at(_INDEX - by, default)


Operand = Value | Item  # what arithmetic and comparisons take beside a value


@dataclass(frozen=True, eq=False)
class Given(Value):
    """What a position holds before any step: its token, its index from 0, the word's length."""

    what: str  # tokens | index | length

    def __post_init__(self) -> None:
        if self.what not in GIVEN:
            raise RequestError(f"A word has tokens, index and length, but no {self.what!r}.")


@dataclass(frozen=True, eq=False)
class Constant(Value):
    """The same everywhere."""

    item: Item

    def __post_init__(self) -> None:
        object.__setattr__(self, "item", item(self.item))


@dataclass(frozen=True, eq=False)
class Applied(Value):
    """A pure function of what this position holds; nothing in, nothing out, unless it says so."""

    function: Callable[..., Item]
    sources: tuple[Value, ...]
    text: str  # with one {} for each source
    takes_nothing: bool = False  # whether it is called with None, too


@dataclass(frozen=True, eq=False)
class Combined(Value):
    """constant + sum_i weights[i] * sources[i]: numbers alone."""

    sources: tuple[Value, ...]
    weights: tuple[Fraction, ...]
    constant: Fraction


@dataclass(frozen=True, eq=False)
class Aggregated(Value):
    """What the only position selected holds, or the mean, sum, count, min or max over all of them.

    Nothing there counts as not selected. A sum or a count of nothing is 0, anything else of nothing
    is the default. Where only one is meant, several must agree; a mean of equal symbols is that
    symbol, and of different ones there is none. A check is called with all that is selected, from
    left to right, and fails where there is to be no answer.
    """

    selection: Selection
    kind: str
    value: Value | None  # a count needs none
    default: Item = None
    check: Callable[..., object] | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise RequestError(f"There is no aggregate {self.kind!r}; there are {list(KINDS)}.")
        object.__setattr__(self, "default", item(self.default))


@dataclass(frozen=True, eq=False)
class Ranked(Value):
    """Of the numbers or symbols selected, in order, the one with a given rank, from 0.

    Equal ones count as often as they are there; nothing is not selected. The default where the
    rank is below 0 or beyond the last.
    """

    selection: Selection
    value: Value
    rank: Value
    default: Item = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "default", item(self.default))


@dataclass(frozen=True, eq=False)
class Scanned(Value):
    """The number of the state that a machine is in after it has read everything up to here."""

    source: Value
    machine: Machine


@dataclass(frozen=True, eq=False)
class Memorised(Value):
    """A table from whole words to what their positions hold; off its rows the same everywhere."""

    source: Value
    rows: Mapping[tuple[Item, ...], tuple[Item, ...]]
    otherwise: Item = None

    def __post_init__(self) -> None:
        kept = {tuple(word): tuple(map(item, held)) for word, held in self.rows.items()}
        object.__setattr__(self, "rows", MappingProxyType(kept))
        object.__setattr__(self, "otherwise", item(self.otherwise))


class Selection:
    """For each position, the positions that it looks at; & | ~ join selections.

    >>> program(lambda s: (there(s.tokens) == s.tokens).causal().count())("aab")
    [1, 2, 1]
    """

    def __and__(self, other: Selection) -> Selection:
        return Joined("and", (self, other))

    def __or__(self, other: Selection) -> Selection:
        return Joined("or", (self, other))

    def __invert__(self) -> Selection:
        return Joined("not", (self,))

    def __bool__(self) -> bool:
        raise RequestError("A selection is neither true nor false. Join selections by & | ~.")

    def count(self) -> Value:
        return Aggregated(self, "count", None)

    def mean(self, value: Operand, default: Item = None) -> Value:
        """The mean of what is held there; what one position holds, if it is the only one."""
        return Aggregated(self, "mean", as_value(value), default)

    def only(self, value: Operand, default: Item = None) -> Value:
        """What the one position selected holds; where there are several, they must agree."""
        return Aggregated(self, "only", as_value(value), default)

    def sum(self, value: Operand) -> Value:
        return Aggregated(self, "sum", as_value(value))

    def min(self, value: Operand, default: Item = None) -> Value:
        return Aggregated(self, "min", as_value(value), default)

    def max(self, value: Operand, default: Item = None) -> Value:
        return Aggregated(self, "max", as_value(value), default)

    def ranked(self, value: Operand, rank: Operand, default: Item = None) -> Value:
        """Of what is held there, in order, that with the given rank: 0 is the least."""
        return Ranked(self, as_value(value), as_value(rank), default)

    def any(self, condition: Operand = True) -> Value:
        """Whether the condition holds at some position selected."""
        held = apply(bool, as_value(condition), text="bool({})")
        return Aggregated(self, "sum", held) > 0

    def all(self, condition: Operand) -> Value:
        """Whether it holds at every position selected: also where none is."""
        fails = apply(operator.not_, as_value(condition), text="not {}")
        return Aggregated(self, "sum", fails) == 0

    def first(self, value: Operand, default: Item = None) -> Value:
        """What the leftmost position selected holds."""
        return as_value(value).at(self.min(_INDEX), default)

    def last(self, value: Operand, default: Item = None) -> Value:
        """What the rightmost position selected holds."""
        return as_value(value).at(self.max(_INDEX), default)

    def causal(self) -> Selection:
        """Without the positions to the right of here."""
        return self & (there(_INDEX) <= _INDEX)


@dataclass(frozen=True, eq=False)
class Related(Selection):
    """The positions whose keys stand in a relation to the queries here: relation(*keys, *queries).

    Nothing stands in no relation, unless the relation says so.
    """

    keys: tuple[Value, ...]
    queries: tuple[Value, ...]
    relation: Callable[..., object]  # true or false to Python
    text: str  # with one {} for each key and each query
    takes_nothing: bool = False  # whether it is called with None, too


@dataclass(frozen=True, eq=False)
class Joined(Selection):
    """and, or, not of selections; strict if a part fails even where the others decide."""

    how: str
    parts: tuple[Selection, ...]
    is_strict: bool = False


@dataclass(frozen=True, eq=False)
class There:
    """A value as it is held elsewhere; compared with a value here it selects positions."""

    value: Value
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Selection:  # type: ignore[override]
        return self._relate(operator.eq, other, "==")

    def __ne__(self, other: object) -> Selection:  # type: ignore[override]
        return self._relate(operator.ne, other, "!=")

    def __lt__(self, other: Operand) -> Selection:
        return self._relate(operator.lt, other, "<")

    def __le__(self, other: Operand) -> Selection:
        return self._relate(operator.le, other, "<=")

    def __gt__(self, other: Operand) -> Selection:
        return self._relate(operator.gt, other, ">")

    def __ge__(self, other: Operand) -> Selection:
        return self._relate(operator.ge, other, ">=")

    def _relate(self, relation: Callable[..., object], here: object, sign: str) -> Selection:
        if isinstance(here, There):
            raise RequestError("A selection compares what is held there with what is held here.")
        return Related((self.value,), (as_value(here),), relation, f"there {{}} {sign} {{}}")


@dataclass(frozen=True)
class Sequence:
    """The word that a program reads.

    >>> program(lambda s: s.everywhere.count())("abc")
    [3, 3, 3]
    """

    @property
    def tokens(self) -> Value:
        return _TOKENS

    @property
    def index(self) -> Value:
        return _INDEX

    @property
    def length(self) -> Value:
        return _LENGTH

    @property
    def everywhere(self) -> Selection:
        return select((), (), lambda: True, text="everywhere")


_TOKENS, _INDEX, _LENGTH = Given("tokens"), Given("index"), Given("length")


def there(value: Operand) -> There:
    """What is held elsewhere, to be compared with what is held here.

    >>> program(lambda s: (there(s.index) < s.index).count())("abc")
    [0, 1, 2]
    """
    return There(as_value(value))


def select(
    keys: Operand | tuple[Operand, ...] | list[Operand],
    queries: Operand | tuple[Operand, ...] | list[Operand],
    relation: Callable[..., object],
    *,
    text: str | None = None,
    nothing: bool = False,
) -> Selection:
    """Positions by any relation of finitely many values there and here: relation(*keys, *queries).

    `nothing=True` if it is to see None, too.

    select(s.tokens, s.tokens, lambda key, query: key == query)

    >>> vowels = program(lambda s: select(s.tokens, (), lambda key: key in "aeiou").count())
    >>> vowels("ideal")
    [3, 3, 3, 3, 3]
    """
    own, asked = _values(keys), _values(queries)
    name = getattr(relation, "__name__", "relation").replace("<lambda>", "relation")
    holes = ", ".join(["there {}"] * len(own) + ["{}"] * len(asked))
    shown = f"{name}({holes})" if text is None else text
    return Related(own, asked, relation, shown, nothing)


def apply(
    function: Callable[..., Item], *sources: Operand, text: str | None = None, nothing: bool = False
) -> Value:
    """A function of several values held here; `nothing=True` if it is to see None, too.

    >>> program(lambda s: apply(max, s.index, 1))("abc")
    [1, 1, 2]
    """
    name = getattr(function, "__name__", "function").replace("<lambda>", "function")
    holes = ", ".join(["{}"] * len(sources))
    written = f"{name}({holes})" if text is None else text
    return Applied(function, tuple(map(as_value, sources)), written, nothing)


def where(condition: Operand, then: Operand, otherwise: Operand) -> Value:
    """`then` at positions at which the condition holds, else `otherwise`.

    >>> program(lambda s: where(s.tokens == "a", "b", s.tokens))("abc")
    ['b', 'b', 'c']
    """
    return apply(_either_of, condition, then, otherwise, text="{1} if {0} else {2}", nothing=True)


def or_else(value: Operand, default: Item) -> Value:
    """The value, and the default where there is nothing.

    >>> program(lambda s: or_else(s.tokens.shifted(1), "-"))("abc")
    ['-', 'a', 'b']
    """
    shown = repr(default).replace("{", "{{").replace("}", "}}")
    return apply(
        lambda v: default if v is None else v, value, text=f"{{}} or {shown}", nothing=True
    )


def combination(terms: Iterable[tuple[Operand, Operand]]) -> Value:
    """Multiples of values and numbers, added up."""
    constant, sources, weights = Fraction(0), [], []
    for weight, term in terms:
        if isinstance(term, Value):
            sources.append(term)
            weights.append(exact_number(weight))
        else:
            constant += exact_number(weight) * exact_number(term)
    return Combined(tuple(sources), tuple(weights), constant)


def as_value(given: object) -> Value:
    if isinstance(given, There | Selection):
        raise RequestError(
            f"A value is needed here, but this is a {type(given).__name__.lower()}: "
            f"aggregate it first, for example by .count() or .mean(value)."
        )
    return given if isinstance(given, Value) else Constant(item(given))


def _values(given: Operand | tuple[Operand, ...] | list[Operand]) -> tuple[Value, ...]:
    return tuple(map(as_value, given if isinstance(given, tuple | list) else (given,)))


def _quotient(a: int | Fraction, b: int | Fraction) -> Item:
    return None if b == 0 else plain(Fraction(a) / Fraction(b))


def _both(a: object, b: object) -> bool:
    return bool(a) and bool(b)


def _either(a: object, b: object) -> bool:
    return bool(a) or bool(b)


def _either_of(condition: Item, then: Item, otherwise: Item) -> Item:
    return None if condition is None else then if condition else otherwise
