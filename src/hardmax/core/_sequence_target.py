"""What a claim about sequences is about: a function from words to rows of numbers.

Languages implement `SequenceTarget`. A target may open itself up as `SequenceSteps`, a
straight-line program of values that every position holds; its meaning is `SequenceSteps.values`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

from hardmax._errors import ShapeError
from hardmax.core._target import EncodedTarget

Number = int | float | Fraction  # exact: a float is the dyadic rational that it is

SYMBOL, INDEX, LENGTH = 0, 1, 2  # the values that are there before any step
GIVEN = 3
KINDS = ("mean", "sum", "count", "min", "max")


def plain(number: Fraction) -> int | Fraction:
    """A whole number as such: it can then be an index."""
    return number.numerator if number.denominator == 1 else number


@dataclass(frozen=True, eq=False)
class Pointwise:
    """At every position, a function of the values that the position holds.

    The function is pure: it depends on its arguments alone, and is exact.
    """

    sources: tuple[int, ...]
    function: Callable[..., Number]


@dataclass(frozen=True, eq=False)
class Picked:
    """At every position, the one of several values whose number another value says, from 0."""

    number: int
    options: tuple[int, ...]

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.number, *self.options)


@dataclass(frozen=True, eq=False)
class Recalled:
    """What a table of words says: rows[word][position], the word being that of a value.

    A word that is no row has the same answer at every position.
    """

    value: int
    rows: Mapping[tuple[Number, ...], tuple[Number, ...]]
    otherwise: Number

    @property
    def sources(self) -> tuple[int, ...]:
        return (self.value,)


@dataclass(frozen=True, eq=False)
class Combination:
    """At every position, constant + sum_i weights[i] * sources[i]; the weights are exact."""

    sources: tuple[int, ...]
    weights: tuple[Number, ...]
    constant: Number = 0

    def __post_init__(self) -> None:
        if len(self.sources) != len(self.weights):
            raise ShapeError(
                f"A combination of {len(self.sources)} values has {len(self.weights)} weights."
            )


@dataclass(frozen=True, eq=False)
class Selection:
    """Position t selects the positions j, or j <= t if causal, for which the relation holds.

    The relation is called with the keys of j and then the queries of t.
    """

    keys: tuple[int, ...]
    queries: tuple[int, ...]
    relation: Callable[..., bool]
    causal: bool = False


@dataclass(frozen=True, eq=False)
class Aggregate:
    """At every position, the mean, sum, count, min or max of a value over its selection.

    A mean, min or max over nothing is the default; a sum or a count over nothing is 0. Where the
    values are to `agree`, the step has a meaning only if all that are selected are the same.
    """

    selection: Selection
    kind: str
    value: int | None = None  # a count needs none
    default: Number = 0
    agree: bool = False

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ShapeError(f"There is no aggregate {self.kind!r}; there are {list(KINDS)}.")
        if (self.value is None) != (self.kind == "count"):
            raise ShapeError("A count aggregates no value; every other aggregate needs one.")

    @property
    def sources(self) -> tuple[int, ...]:
        own = () if self.value is None else (self.value,)
        return self.selection.keys + self.selection.queries + own

    def over(self, values: Sequence[Any]) -> Any:
        """The aggregate of the values selected."""
        if self.kind == "count":
            return len(values)
        if self.kind == "sum":
            return plain(sum(map(Fraction, values), Fraction(0)))
        if not values:
            return self.default
        if self.kind == "mean":
            return plain(sum(map(Fraction, values), Fraction(0)) / len(values))
        return min(values) if self.kind == "min" else max(values)


SequenceStep = Pointwise | Picked | Recalled | Combination | Aggregate


@dataclass(frozen=True)
class StepNote:
    """What a step is called, what it does, and what its numbers are shown as."""

    name: str
    text: str
    labels: Mapping[Number, str]


@dataclass(frozen=True, eq=False)
class SequenceSteps:
    """A straight-line program in which every position of the word holds every value.

    Value 0 is the symbol's number in the alphabet, value 1 the index (from 0), value 2 the
    length; step i makes value i + 3. The answer is the row of `outputs`, at every position or,
    if `at` is not None, at that one alone (negative counts from the end). Values may have notes,
    which circuits repeat.
    """

    steps: tuple[SequenceStep, ...]
    outputs: tuple[int, ...]
    at: int | None = None
    notes: Mapping[int, StepNote] = field(default_factory=dict)

    def __init__(
        self,
        steps: Iterable[SequenceStep],
        outputs: Iterable[int],
        at: int | None = None,
        notes: Mapping[int, StepNote] | None = None,
    ) -> None:
        object.__setattr__(self, "steps", tuple(steps))
        object.__setattr__(self, "outputs", tuple(outputs))
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "notes", dict(notes or {}))
        for number, step in enumerate(self.steps):
            if not all(0 <= source < number + GIVEN for source in step.sources):
                raise ShapeError(f"Step {number} reads a value that is not there yet.")
        if not all(0 <= value < len(self.steps) + GIVEN for value in self.outputs):
            raise ShapeError("An output is a value that no step makes.")

    def values(self, numbers: Sequence[int]) -> list[list[Any]]:
        """Every value at every position, for a word given by its symbols' numbers."""
        length = len(numbers)
        values: list[list[Any]] = [list(numbers), list(range(length)), [length] * length]
        for step in self.steps:
            values.append([_at(step, values, t) for t in range(length)])
        return values

    def rows(self, numbers: Sequence[int]) -> list[list[Any]]:
        """The answer: one row of outputs per position, or one row."""
        values = self.values(numbers)
        places = range(len(numbers)) if self.at is None else (self.at,)
        return [[values[output][t] for output in self.outputs] for t in places]


def _at(step: SequenceStep, values: list[list[Any]], t: int) -> Any:
    match step:
        case Pointwise(sources=sources, function=function):
            return function(*[values[source][t] for source in sources])
        case Picked(number=number, options=options):
            return values[options[values[number][t]]][t]
        case Recalled(value=value, rows=rows, otherwise=otherwise):
            row = rows.get(tuple(values[value]))
            return otherwise if row is None else row[t]
        case Combination(sources=sources, weights=weights, constant=constant):
            terms = (
                Fraction(w) * Fraction(values[s][t]) for w, s in zip(weights, sources, strict=True)
            )
            return plain(sum(terms, Fraction(constant)))
        case Aggregate(selection=selection, value=value):
            queries = [values[query][t] for query in selection.queries]
            seen = range(t + 1) if selection.causal else range(len(values[SYMBOL]))
            chosen = [
                j
                for j in seen
                if selection.relation(*[values[key][j] for key in selection.keys], *queries)
            ]
            return step.over([0 if value is None else values[value][j] for j in chosen])


@runtime_checkable
class SequenceTarget(Protocol):
    """A function from words to rows of real numbers that means the same to everybody."""

    @property
    def outputs(self) -> int: ...

    @property
    def each_symbol(self) -> bool:
        """Whether every symbol has a row of its own; otherwise the word has one row."""

    @property
    def parameters(self) -> int | None:
        """How many numbers the source itself stores; None where that has no meaning."""

    def __call__(self, word: Sequence[str | int], /) -> Sequence[Sequence[Number]]:
        """The rows for a word, exactly: whole numbers, Fractions, or floats as they are."""

    def steps(self) -> SequenceSteps | None:
        """The straight-line program behind the function, if it has one."""

    def encode(self) -> EncodedTarget | None:
        """How a file holds it; None for an opaque target."""
