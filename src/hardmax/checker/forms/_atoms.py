"""The kinds of atoms: what a Transformer and its target do beyond affine maps; and their ranges.

Ranges of forms and atoms are on the whole domain, outward rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.checker._budget import ENTRY, RANGE, charge
from hardmax.checker.forms._coefficients import nearest
from hardmax.checker.forms._forms import Form
from hardmax.numerics import TINY, Interval, pair_radius, record_of, sigmoid, sum_up

Ends = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Variable:
    """A free number within its range: an input, or what a verified coordinate holds."""

    number: int


@dataclass(frozen=True, eq=False)
class Gate:
    """sigmoid(logit) * value: a softmax over two tokens, relative to the other token."""

    logit: Form
    value: Form


@dataclass(frozen=True, eq=False)
class Mean:
    """sum_j w_j values_j, w the softmax of the logits and of one more token.

    That token has logit 0 and value 0: logits and values are relative to it.
    """

    logits: tuple[Form, ...]
    values: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class HardMean:
    """The same for a hardmax: the mean of the values whose scores are largest."""

    scores: tuple[Form, ...]
    values: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class Relu:
    """max(argument, 0), the argument's first coefficient being 1 or -1."""

    argument: Form


@dataclass(frozen=True, eq=False)
class Maximum:
    """max(0, arguments...), two of them at least."""

    arguments: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class Times:
    """The product of two forms."""

    first: Form
    second: Form


@dataclass(frozen=True, eq=False)
class Apply:
    """A named function of one variable; the exponent belongs to `power`."""

    name: str
    exponent: float | Fraction
    argument: Form


Atom = Variable | Gate | Mean | HardMean | Relu | Maximum | Times | Apply


def arguments(atom: Atom) -> tuple[Form, ...]:
    """The forms that an atom reads."""
    match atom:
        case Variable():
            return ()
        case Gate(logit=logit, value=value):
            return (logit, value)
        case Mean(logits=logits, values=values):
            return logits + values
        case HardMean(scores=scores, values=values):
            return scores + values
        case Relu(argument=argument) | Apply(argument=argument):
            return (argument,)
        case Maximum(arguments=forms):
            return forms
        case Times(first=first, second=second):
            return (first, second)


# ---- ranges --------------------------------------------------------------------------------------


class Bounds:
    """The ranges of atoms, by their numbers."""

    def __init__(self) -> None:
        self.low, self.high = np.full(64, -np.inf), np.full(64, np.inf)
        self.count = 0

    def append(self, low: float, high: float) -> None:
        self.set(self.count, low, high)

    def set(self, atom: int, low: float, high: float) -> None:
        """The range of an atom; those before it that have none are unbounded."""
        self._reach(atom)
        self.low[atom], self.high[atom] = low, high
        self.count = max(self.count, atom + 1)

    def _reach(self, atom: int) -> None:
        while atom >= len(self.low):
            self.low = np.concatenate([self.low, np.full(len(self.low), -np.inf)])
            self.high = np.concatenate([self.high, np.full(len(self.high), np.inf)])

    def __getitem__(self, atom: int) -> Ends:
        self._reach(atom)
        return float(self.low[atom]), float(self.high[atom])

    def sizes(self, atoms: np.ndarray) -> np.ndarray:
        """The largest absolute values of some atoms."""
        self._reach(int(atoms.max()))
        return np.asarray(np.maximum(np.abs(self.low[atoms]), np.abs(self.high[atoms])))

    def range(self, form: Form) -> Ends:
        """The range of a form.

        Each coefficient is rounded three times at most, each product once, and each of the n sums
        and the last step outward once. A coefficient that underflows loses the smallest number,
        times a bound.
        """
        if form.is_zero:
            return 0.0, 0.0
        bottom = top = nearest(form.constant)
        size, wide = abs(bottom), 0.0
        count = form.body.count
        if count:
            charge(RANGE + 8 * ENTRY * count)
            alone = form.float_alone if form.body.atom >= 0 else None
            ends = None if alone is None else self._scaled(alone, form.body.atom)
            low, high, sizes, wide = ends or self._sums(*form.floats)
            bottom, top, size = bottom + low, top + high, size + sizes
        slack = pair_radius(wide * TINY, size, count + 5)
        low, high = bottom - slack, top + slack
        return (low, high) if low <= high else (-np.inf, np.inf)  # nan compares false

    def _scaled(self, c: float, atom: int) -> tuple[float, float, float, float] | None:
        """The same as `_sums`, of one term; None for what is not known to be in order."""
        low, high = self[atom]
        if not low <= high:  # nan compares false
            return None
        one, other = c * low, c * high
        return min(one, other), max(one, other), max(abs(one), abs(other)), max(abs(low), abs(high))

    def _sums(self, atoms: np.ndarray, c: np.ndarray) -> tuple[float, float, float, float]:
        """The least and the largest sum, that of the sizes of terms, and that of the atoms'."""
        self._reach(int(atoms.max()))
        with np.errstate(all="ignore"):
            low, high = self.low[atoms], self.high[atoms]
            ends = c * low, c * high
            least, most = float(np.minimum(*ends).sum()), float(np.maximum(*ends).sum())
            size = float(np.maximum(*map(np.abs, ends)).sum())
            return least, most, size, float(np.maximum(np.abs(low), np.abs(high)).sum())


def gate_range(logit: Ends, value: Ends) -> Ends:
    """sigmoid(logit) value with logit and value taken as independent."""
    product = sigmoid(_interval(logit)) * _interval(value)
    return float(product.lo), float(product.hi)


def hull_with_zero(ranges: Sequence[Ends]) -> Ends:
    return min(0.0, *(low for low, _ in ranges)), max(0.0, *(high for _, high in ranges))


def mean_range(logits: Sequence[Ends], values: Sequence[Ends]) -> Ends:
    """sum_j w_j v_j with w_j <= sigmoid(l_j) (the reference token alone does that), in the hull."""
    low, high = hull_with_zero(values)
    if len(values) > 64:
        return low, high
    terms = [
        gate_range((-np.inf, top), value) for (_, top), value in zip(logits, values, strict=True)
    ]
    bottom = sum_up(np.array([max(-a, 0.0) for a, _ in terms]))
    top = sum_up(np.array([max(b, 0.0) for _, b in terms]))
    return max(low, -float(bottom)), min(high, float(top))


def univariate_range(name: str, argument: Ends, exponent: float | Fraction) -> Ends:
    result = record_of(name, exponent).intervals(_interval(argument))
    return float(result.lo), float(result.hi)


def _interval(ends: Ends) -> Interval:
    return Interval(np.array(ends[0]), np.array(ends[1]))
