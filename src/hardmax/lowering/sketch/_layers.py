"""What every sketch is made of: registers, forms, heads, hidden units; and their way to weights.

Sublayer 2 l is the attention of layer l, sublayer 2 l + 1 its feed-forward part; the embedding is
sublayer -1. Everything is additive: a register begins with what the embedding puts there and grows
by what sublayers write. What is written at a sublayer can be read after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    Head,
    Holding,
    ReadOut,
    SequenceInput,
    Sublayer,
    Transformer,
    VectorInput,
    Weighting,
)

EMBEDDING = -1
EXCLUDED = 64.0  # score by which a masked place trails


class Register(Protocol):
    """One number that every token holds; the same object is the same register."""

    @property
    def name(self) -> str: ...

    @property
    def bound(self) -> float:
        """On the absolute value, where the computation is done."""
        ...

    @property
    def beyond(self) -> float:
        """On the absolute value at other tokens, a sink or a start token, if that may be more."""
        ...


R = TypeVar("R", bound=Register)
N = TypeVar("N", Fraction, float)


@dataclass(frozen=True, eq=False)
class Form(Generic[R, N]):
    """constant + sum of terms[register] * register, as every query, value and read-out reads it.

    Affine operations on values are therefore free: they cost no head and no layer.

    A form with a Fraction as its constant is *exact*: every number that enters it becomes a
    Fraction, and is rounded to a float where it is read, which is where that is accounted for.
    (Mixing floats in would turn Fractions into floats without a word.) Any other form is of
    floats, and `off` says how far it may be from what it stands for.

    Its absolute value is at most `most`: less than the terms add up to where they cancel, as in a
    step that is a sum of many peaks.
    """

    terms: Mapping[R, N] = field(default_factory=dict)
    constant: N = 0.0  # type: ignore[assignment]  # exact forms say theirs
    off: float = 0.0
    most: float = math.inf

    def __add__(self, other: Form[R, N] | Fraction | float) -> Form[R, N]:
        if not isinstance(other, Form):
            other = Form({}, self._number(other))
        terms = dict(self.terms)
        for register, weight in other.terms.items():
            terms[register] = terms[register] + weight if register in terms else weight
        kept = {register: weight for register, weight in terms.items() if weight}
        is_exact = isinstance(self.constant, Fraction)  # ranges are found once all is drawn
        most = math.inf if is_exact else self.bound + other.bound
        return Form(kept, self.constant + other.constant, self.off + other.off, most)

    def __mul__(self, factor: Fraction | float) -> Form[R, N]:
        by = self._number(factor)
        if not by:
            return Form({}, by)
        size = abs(by)
        return Form(
            {register: weight * by for register, weight in self.terms.items()},
            self.constant * by,
            self.off * float(size) if self.off else 0.0,
            self.most * float(size) if self.most < math.inf else math.inf,
        )

    def __neg__(self) -> Form[R, N]:
        return self * -1

    def __sub__(self, other: Form[R, N]) -> Form[R, N]:
        return self + -other

    def _number(self, number: Fraction | float) -> N:
        """In the numbers of this form."""
        if isinstance(self.constant, Fraction):
            return Fraction(number)
        return number  # type: ignore[return-value]

    def looser(self, off: float) -> Form[R, N]:
        """The same form for what is so much further away."""
        return replace(self, off=self.off + off) if off else self

    def within(self, most: float) -> Form[R, N]:
        """The same form, of which is known how large it is."""
        return replace(self, most=most) if most < self.bound else self

    @property
    def bound(self) -> float:
        """On the absolute value, where the computation is done."""
        terms = abs(self.constant) + sum(abs(w) * r.bound for r, w in self.terms.items())
        return min(float(terms), self.most)

    @property
    def widest(self) -> float:
        """On the absolute value, at every token."""
        widest = sum(abs(w) * max(r.bound, r.beyond) for r, w in self.terms.items())
        return float(abs(self.constant) + widest)

    def __repr__(self) -> str:
        """As in Form(+2 token -0.5 index +3)."""
        parts = [f"{float(w):+.4g} {r.name or 'register'} " for r, w in self.terms.items()]
        return f"Form({''.join(parts)}{float(self.constant):+.4g})"

    @property
    def key(self) -> tuple[N, frozenset[tuple[R, N]]]:
        """Equal keys mean equal forms."""
        return self.constant, frozenset(self.terms.items())


@dataclass(eq=False)
class HeadSketch(Generic[R, N]):
    """A head in forms; row i of the value is added to registers times the weights of output[i].

    What it does decides how far it strays (`_straying`): "mean" over the places that win by the
    gap; "choice" where all of them hold the same; "sum" over all symbols by weights of e^-score;
    "fetch", a choice of places that the start token makes, too.
    """

    step: str  # which step of the source it does
    query: list[Form[R, N]]
    key: list[Form[R, N]]
    value: list[Form[R, N]]
    output: list[dict[R, N]]
    weighting: Weighting
    causal: bool = False
    bias: np.ndarray | None = None
    does: str = "mean"
    gap: float = 1.0  # of the scores
    brings: list[str] = field(default_factory=list)  # what values are called, if they are many

    @property
    def forms(self) -> list[Form[R, N]]:
        """All that it reads."""
        return self.query + self.key + self.value

    @property
    def told(self) -> str:
        """What it does; the names of its values where they are many."""
        return self.step if len(self.brings) < 2 else ", ".join(dict.fromkeys(self.brings))

    def join(self, other: HeadSketch[R, N]) -> None:
        """Bring the values of a head that attends alike, too."""
        self.value += other.value
        self.output += other.output
        self.brings += other.brings
        self.gap = min(self.gap, other.gap)
        self.does = self.does if self.does == other.does else "mean"
        for own, others in ((self.query, other.query), (self.key, other.key)):
            for row, (form, alike) in enumerate(zip(own, others, strict=True)):
                own[row] = form.looser(max(alike.off - form.off, 0.0))


@dataclass(frozen=True, eq=False)
class Levels:
    """What the inner form of a unit, less its constant, may be at a symbol: a look-up."""

    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class OneOf:
    """Of the units with this law at most one is on; the others are off by the margin at least."""

    margin: float


@dataclass(frozen=True, eq=False)
class Ladder:
    """Pairs relu(z_t) - relu(z_t - C) with z_t = g_t + C (a - t), 0 <= g_t <= C: a multiplexer."""

    rung: float  # C


Law = Levels | OneOf | Ladder | None


@dataclass(eq=False)
class UnitSketch(Generic[R, N]):
    """One hidden unit: relu(inner), added to registers times weights; and what is known of it.

    With a `factor` it is gated: relu(inner) factor.
    """

    step: str
    inner: Form[R, N]
    outer: dict[R, N]
    law: Law = None
    factor: Form[R, N] | None = None

    @property
    def told(self) -> str:
        """What it does."""
        return self.step

    @property
    def forms(self) -> list[Form[R, N]]:
        """All that it reads."""
        return [self.inner] if self.factor is None else [self.inner, self.factor]


@dataclass(eq=False)
class Layers(Generic[R, N]):
    """The heads and the hidden units of each sublayer; offsets are added whatever units do."""

    heads: dict[int, list[HeadSketch[R, N]]] = field(default_factory=dict)
    units: dict[int, list[UnitSketch[R, N]]] = field(default_factory=dict)
    offsets: dict[int, dict[R, N]] = field(default_factory=dict)

    @property
    def sublayers(self) -> list[int]:
        return sorted({*self.heads, *self.units})

    @property
    def all_heads(self) -> list[HeadSketch[R, N]]:
        return [head for heads in self.heads.values() for head in heads]

    @property
    def all_units(self) -> list[UnitSketch[R, N]]:
        return [unit for units in self.units.values() for unit in units]

    @property
    def forms(self) -> list[Form[R, N]]:
        """All that units and heads read."""
        found = [form for unit in self.all_units for form in unit.forms]
        for head in self.all_heads:
            found += head.forms
        return found

    def written(self, sublayer: int) -> list[dict[R, N]]:
        """To which registers a sublayer writes each of its values, times which weights."""
        found = [column for head in self.heads.get(sublayer, []) for column in head.output]
        return found + [unit.outer for unit in self.units.get(sublayer, [])]

    def parts(self, sublayer: int) -> Sequence[HeadSketch[R, N] | UnitSketch[R, N]]:
        return self.units[sublayer] if sublayer % 2 else self.heads[sublayer]


def attention_from(sublayer: int) -> int:
    """The first attention sublayer from a sublayer on."""
    return sublayer + sublayer % 2


def feed_forward_from(sublayer: int) -> int:
    """The first feed-forward sublayer from a sublayer on."""
    return sublayer + 1 - sublayer % 2


# ---- weights ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Assembly(Generic[R, N]):
    """Layers whose registers have coordinates; every number is rounded once, to float64.

    Two registers may share a coordinate one after the other. The later one finds there what the
    earlier one left: `above` says how much, and whoever reads it takes that off.

    What heads read has no constants: these are held by some register, which every kind of sketch
    chooses for itself, because a constant must not reach a sink or a start token.
    """

    layers: Layers[R, N]
    place: Mapping[R, int]
    width: int
    above: Mapping[R, float] = field(default_factory=dict)

    def transformer(
        self, source: VectorInput | SequenceInput, answers: Sequence[Form[R, N]], token: int | None
    ) -> Transformer:
        """The weights; answers are read at a token, or at every symbol."""
        sublayers: list[Sublayer] = []
        for number in self.layers.sublayers:
            if number % 2:
                sublayers.append(self._feed_forward(number))
            else:
                sublayers.append(Attention(map(self._head, self.layers.heads[number])))
        readout = ReadOut(self._rows(answers), self.constants(answers), token)
        return Transformer(source, sublayers, readout)

    def holding(
        self,
        form: Form[R, N],
        value: int,
        component: int = 0,
        *,
        after: int,
        token: int = -1,
        error: float = 0.0,
    ) -> Holding | None:
        """That a form holds a value of the steps after a sublayer; None if it was not kept."""
        if not all(register in self.place for register in form.terms):
            return None
        places = sorted((self.place[r], float(w)) for r, w in form.terms.items())
        return Holding(
            sublayer=sum(other <= after for other in self.layers.sublayers) - 1,
            token=token,
            coordinates=np.array([place for place, _ in places], dtype=np.int64),
            value=value,
            components=np.array([[component]]),
            errors=np.array([error]),
            weights=np.array([[weight for _, weight in places]]),
            constants=self.constants([form]),
        )

    def _rows(self, forms: Sequence[Form[R, N]]) -> np.ndarray:
        return np.ascontiguousarray(self._columns([form.terms for form in forms]).T)

    def _columns(self, weights: Sequence[Mapping[R, N]]) -> np.ndarray:
        columns = np.zeros((self.width, len(weights)))
        for column, own in enumerate(weights):
            for register, weight in own.items():
                columns[self.place[register], column] += float(weight)
        return columns

    def constants(self, forms: Sequence[Form[R, N]]) -> np.ndarray:
        """What is added to the rows: less what a coordinate holds beyond its register."""
        return np.array(
            [
                float(form.constant)
                - sum(float(w) * self.above[r] for r, w in form.terms.items() if r in self.above)
                for form in forms
            ]
        )

    def _head(self, head: HeadSketch[R, N]) -> Head:
        query, key, value = (self._rows(forms) for forms in (head.query, head.key, head.value))
        output = self._columns(head.output)
        return Head(query, key, value, output, head.weighting, head.causal, head.bias)

    def _feed_forward(self, number: int) -> FeedForward | GatedFeedForward:
        """Gated as soon as one unit is: the others' second factor is the constant 1 then."""
        units = self.layers.units[number]
        inner = [unit.inner for unit in units]
        gated = any(unit.factor is not None for unit in units)
        outer = self._columns([unit.outer for unit in units])
        (added,) = self._columns([self.layers.offsets.get(number, {})]).T
        read = self._rows(inner), self.constants(inner)
        if not gated:
            return FeedForward(*read, outer, added)
        factors: list[Form[R, N]] = [unit.factor or unit.inner * 0 + 1 for unit in units]
        return GatedFeedForward(*read, self._rows(factors), self.constants(factors), outer, added)
