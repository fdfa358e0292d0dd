"""A Transformer drawn in registers: what each holds is decided first, where it lies afterwards.

A register is one number that every token holds. Forms are affine functions of registers. Sublayer
2 l is the attention of layer l, sublayer 2 l + 1 its feed-forward part. Everything is additive:
a register begins with what the embedding puts there and grows by what sublayers write.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Weighting, Words
from hardmax.lowering.programs._lookup import misfit

_SHARPEST = 5040.0  # weights of combinations are multiples of its inverse


@dataclass(eq=False)
class Register:
    """One number per token: what the embedding gives symbols, places and the start token."""

    name: str
    symbols: np.ndarray
    places: np.ndarray
    start: float = 0.0
    bound: float = 0.0  # on the absolute value, at every symbol
    beyond: float = 0.0  # at the start token, if that may be more; no bound if it is wild
    is_wild: bool = False  # at the start token, where sums may become multiples of themselves
    written: int = -1  # the last sublayer that writes to it
    everywhere: bool = False  # the start token holds it as symbols do, and strays no further

    def open_to(self, inner: Form, weight: float) -> None:
        """At the start token a unit that reads this form may be on, and write to the register."""
        self.is_wild |= any(one.is_wild for one in inner.terms)
        self.beyond += abs(weight) * inner.widest

    def __repr__(self) -> str:
        return f"Register({self.name})"


@dataclass(frozen=True, eq=False)
class Form:
    """constant + sum of multiples of registers; what it stands for is at most `off` away.

    At every symbol that is at most `most` in absolute value: less than the terms add up to where
    they cancel, as in a step that is a sum of many peaks.
    """

    terms: Mapping[Register, float] = field(default_factory=dict)
    constant: float = 0.0
    off: float = 0.0
    most: float = math.inf

    def __add__(self, other: Form | float) -> Form:
        if not isinstance(other, Form):
            other = Form({}, other)
        terms = dict(self.terms)
        for register, weight in other.terms.items():
            terms[register] = terms.get(register, 0.0) + weight
        kept = {register: weight for register, weight in terms.items() if weight != 0.0}
        most = self.bound + other.bound
        return Form(kept, self.constant + other.constant, self.off + other.off, most)

    def __mul__(self, factor: float) -> Form:
        if factor == 0.0:
            return Form()
        terms = {r: w * factor for r, w in self.terms.items()}
        size = abs(factor)
        return Form(terms, self.constant * factor, self.off * size, self.most * size)

    def looser(self, off: float) -> Form:
        """The same form for what is so much further away."""
        return replace(self, off=self.off + off) if off else self

    def within(self, most: float) -> Form:
        """The same form, of which is known how large it is at symbols."""
        return replace(self, most=most) if most < self.bound else self

    def __sub__(self, other: Form) -> Form:
        return self + other * -1.0

    @property
    def bound(self) -> float:
        """On the absolute value, at every symbol."""
        terms = abs(self.constant) + sum(abs(w) * r.bound for r, w in self.terms.items())
        return min(terms, self.most)

    @property
    def widest(self) -> float:
        """On the absolute value, at every token, the start token among them."""
        widest = sum(abs(w) * max(r.bound, r.beyond) for r, w in self.terms.items())
        return abs(self.constant) + widest

    @property
    def key(self) -> tuple:
        """Equal for equal forms."""
        return (self.constant, frozenset((id(r), w) for r, w in self.terms.items()))


@dataclass(eq=False)
class HeadSketch:
    """A head in forms; row i of the value is added to its register times its weight.

    What it does decides how far it strays (`_straying`): "mean" over the places that win by the
    gap; "choice" where all of them hold the same; "sum" over all symbols by weights of e^-score;
    "fetch", a choice of places that the start token makes, too.
    """

    step: str  # which step of the program it does
    query: list[Form]
    key: list[Form]
    value: list[Form]
    output: list[tuple[Register, float]]
    weighting: Weighting
    causal: bool = False
    bias: np.ndarray | None = None
    does: str = "mean"
    gap: float = 1.0  # of the scores

    def join(self, other: HeadSketch) -> None:
        """Bring the values of a head that attends alike, too."""
        self.value += other.value
        self.output += other.output
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
class Unit:
    """One hidden unit: relu(inner), added to registers times weights; and what is known of it."""

    step: str
    inner: Form
    outer: dict[Register, float]
    law: Law = None


def spanned(basis: list[np.ndarray], wanted: np.ndarray) -> tuple[list[float], float] | None:
    """The weights with which independent vectors add up to another one, and how far they miss it.

    None if they miss it by more than floats explain.
    """
    if not basis:
        return None
    matrix = np.stack(basis, axis=1)
    found = np.linalg.lstsq(matrix, wanted, rcond=None)[0]
    for weights in (np.round(found * _SHARPEST) / _SHARPEST, found):
        off = misfit(matrix @ weights, wanted, 1e-12 * len(wanted))
        if off is not None:
            return [float(weight) for weight in weights], off
    return None


def position_columns(positions: str, longest: int) -> list[np.ndarray]:
    """What the positions hold whether or not it is needed: any function of the index is linear.

    One-hot: one column for each place but the first, where all are 0. Sinusoidal: sines and
    cosines of the multiples of one angle, which are orthogonal.
    """
    places = np.arange(longest)
    if positions == "one-hot":
        return [(places == place).astype(float) for place in range(1, longest)]
    if positions != "sinusoidal":
        return []
    waves = []
    for k in range(1, longest // 2 + 1):
        angle = 2 * np.pi * k * places / longest
        waves += [np.cos(angle)] if 2 * k == longest else [np.cos(angle), np.sin(angle)]
    return waves


class Sketch:
    """Registers, heads and hidden units of a Transformer of words."""

    def __init__(self, words: Words, positions: str = "scalar") -> None:
        self.words, self.positions = words, positions
        self.sane_start = (
            False  # whether the start token, too, gets sums, and not multiples of them
        )
        self.registers: list[Register] = []
        self.heads: dict[int, list[HeadSketch]] = {}
        self.units: dict[int, list[Unit]] = {}
        self.needs_start = False
        self._units: dict[tuple[int, tuple], Unit] = {}
        self._columns: list[tuple[Register, np.ndarray]] = []
        self._token: Register | None = None
        self._one: Register | None = None
        for number, places in enumerate(position_columns(positions, words.longest)):
            register = self.register(f"position {number}", float(np.abs(places).max()))
            register.places = places - places[0]
            empty = np.zeros(len(words.alphabet))
            self._columns.append((register, np.concatenate([empty, register.places])))

    # ---- registers ---------------------------------------------------------------------------

    def register(self, name: str, bound: float) -> Register:
        """A register that is empty at first."""
        empty = np.zeros(len(self.words.alphabet)), np.zeros(self.words.longest)
        self.registers.append(Register(name, *empty, bound=bound))
        return self.registers[-1]

    def _check_index(self, name: str) -> None:
        if self.positions in ("relative", "none"):
            known = "No positions are" if self.positions == "none" else "Only relative biases are"
            raise RequestError(
                f"{known} asked for, but the step {name} needs the index itself. Use "
                f'positions="scalar".'
            )

    def check_order(self, step: str) -> None:
        """A mask or a bias tells positions apart: not without positions."""
        if self.positions == "none":
            raise RequestError(
                f"No positions are asked for, but the step {step} selects by the index. Use "
                f'positions="scalar".'
            )

    def column(self, name: str, symbols: np.ndarray, places: np.ndarray) -> Form:
        """symbols[token] + places[index]: an affine function of a register, 0 at the start token.

        A combination of columns that are there needs no register of its own.
        """
        if symbols.any() and places.any() and self.positions != "scalar":
            nowhere, nothing = np.zeros(len(places)), np.zeros(len(symbols))
            return self.column(name, symbols, nowhere) + self.column(name, nothing, places)
        base = float(symbols[0] + places[0])
        symbols, places = symbols - symbols[0], places - places[0]
        if places.any():
            self._check_index(name)
        if not (symbols.any() or places.any()):
            return Form({}, base)
        together = np.concatenate([symbols, places])
        known = spanned([column for _, column in self._columns], together)
        if known is None:
            register = self.register(name, float(np.abs(symbols[:, None] + places).max()))
            register.symbols, register.places = symbols, places
            self._columns.append((register, together))
            return Form({register: 1.0}, base)
        weights, off = known
        registers = [register for register, _ in self._columns]
        terms = {r: w for r, w in zip(registers, weights, strict=True) if w}
        return Form(terms, base, 2.0 * off)  # a symbol's and a place's

    @property
    def token(self) -> Form:
        """1 at every symbol, 0 at the start token."""
        if self._token is None:
            self._token = self.register("token", 1.0)
            self._token.symbols = np.ones(len(self.words.alphabet))
        return Form({self._token: 1.0})

    @property
    def one(self) -> Form:
        """1 at every token, the start token among them."""
        if self._one is None:
            self._one = self.register("one", 1.0)
            self._one.symbols, self._one.start = np.ones(len(self.words.alphabet)), 1.0
        return Form({self._one: 1.0})

    @property
    def token_register(self) -> Register | None:
        """The register behind `token`, if it was needed."""
        return self._token

    def token_weight(self, form: Form) -> float:
        """What the token register adds to a form, at every symbol."""
        return 0.0 if self._token is None else form.terms.get(self._token, 0.0)

    def linear(self, form: Form) -> Form:
        """The same at every symbol, without a constant: 0 where the registers are."""
        if form.constant == 0.0:
            return form
        return replace(Form(form.terms, 0.0, form.off) + self.token * form.constant, most=form.most)

    # ---- sublayers ---------------------------------------------------------------------------

    def head(self, sublayer: int, head: HeadSketch) -> HeadSketch:
        self.heads.setdefault(sublayer, []).append(head)
        for register, _ in head.output:
            register.written = sublayer
        return head

    def unit(
        self,
        sublayer: int,
        step: str,
        inner: Form,
        outer: Mapping[Register, float],
        law: Law = None,
    ) -> None:
        """relu(inner) into registers; one unit for everybody who needs the same."""
        key = (sublayer, inner.key)
        if key not in self._units:
            self._units[key] = Unit(step, inner, {}, law)
            self.units.setdefault(sublayer, []).append(self._units[key])
        unit = self._units[key]
        unit.inner = unit.inner.looser(max(inner.off - unit.inner.off, 0.0))
        if not (law is unit.law or (isinstance(law, Levels) and isinstance(unit.law, Levels))):
            unit.law = None  # of two laws neither is about all that the unit writes
        for register, weight in outer.items():
            unit.outer[register] = unit.outer.get(register, 0.0) + weight
            register.written = sublayer

    @property
    def sublayers(self) -> list[int]:
        return sorted({*self.heads, *self.units})
