"""How numbers are held: as floats of a format, as balls, and in arrays that check themselves.

Floats: what a binary format holds, how it rounds, and what is assumed of its exp. Everything that
this package says about floats is derived from the numbers in this file. Two of them per format
cannot be derived, because exp is not correctly rounded anywhere; they are assumptions, named in
every certificate that rests on them.

Balls of python-flint: the precision they are computed with, and the way back to floats.

Arrays: finite, float64, read-only; and their exact rational twins.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError, ShapeError

if TYPE_CHECKING:
    from flint import arb

BLOCK = 512  # tokens that PyTorch's fused attention takes together
_ACCUMULATED = (2.0 - 2.0**-23) * 2.0**127  # the largest float32

# Just below a power of two: arb rounds radii up to 30 bits, and a power of two to the next number.
_JUST_BELOW = 1.0 - 2.0**-31


# ---- floats --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Format:
    """Binary floats of so many digits, rounded to nearest, with subnormal numbers.

    Without `gradual` underflow a number below `normal` may be taken for 0 wherever it is stored,
    read or computed. PyTorch's products of bfloat16 do that on processors with instructions for
    them (seen with AVX-512 BF16, from 4096 multiplications on); of the other formats nobody does.

    `exp_units` and `exp_vanishes` are the two assumptions. For exp_vanishes <= x < 0 exp(x) is off
    by at most so many unit roundoffs of its value and one smallest number; exp(0) is 1; and below
    `exp_vanishes` it may be anything from 0 to `vanished`. See `assumption`.

    Measured on NumPy 2 and PyTorch 2.13 (x86, AVX2): float64 1 unit, float16 and bfloat16 computed
    in float32 and rounded. PyTorch's fused attention takes a polynomial in float32, once it has a
    vector of tokens: off by 6.5 units near -86, which is 5.5 units in the last place, and 0 below
    -125.5 log 2 = -86.99, where its power of two underflows. Our own evaluator cuts logits at -500.
    """

    name: str
    digits: int  # of the significand, the leading one included
    least: int  # exponent of the smallest positive number
    largest: float
    exp_units: int
    exp_vanishes: float
    gradual: bool = True

    @cached_property
    def unit(self) -> float:
        """The unit roundoff u: |fl(x) - x| <= u |x| unless x is tiny. 0 for the reals."""
        return 2.0**-self.digits

    @property
    def is_coarse(self) -> bool:
        """Whether it has fewer digits than float64, whose rounding is next to nothing."""
        return self.digits < 53

    @cached_property
    def _kept(self) -> int:
        """Multiples of 2 to this power that have few enough digits are kept."""
        return self.least if self.gradual else self.least + self.digits - 1

    @cached_property
    def smallest(self) -> float:
        """The smallest number that is kept: what a product may lose besides its relative error."""
        return 2.0**self._kept

    @cached_property
    def flushed(self) -> float:
        """Numbers below may be read as 0, and sums below computed as 0; 0 if there are none."""
        return 0.0 if self.gradual else self.normal

    @cached_property
    def normal(self) -> float:
        """The smallest number with all digits."""
        return 2.0 ** (self.least + self.digits - 1)

    @cached_property
    def sheltered(self) -> Format:
        """A gradual format that loses no less than this one, for numbers up to 2^60.

        A term of a sum loses most where both of its factors are read as 0, the product vanishes,
        and the sum with it: 2^60 (2 f) + 2 f < 2^62 f, f being `flushed`. With 2^62 f for the
        smallest number each term is charged as much, and every result once more: that covers a
        result that somebody reads as 0 and somebody else as it is. Multiples of 2^62 f are normal.
        """
        if self.gradual:
            return self
        return replace(self, least=self._kept + 62, largest=2.0**60, gradual=True)

    def power_units(self, tokens: int) -> int:
        """The relative error assumed of a softmax's powers exp(l - max l), in unit roundoffs.

        Fused kernels take the tokens in blocks; where a later block has a larger maximum, what
        they have so far is multiplied by another exponential, once for each block.
        """
        return self.exp_units * -(-tokens // BLOCK)

    @cached_property
    def vanished(self) -> float:
        """The most that an exponential below the edge gains or loses: exp of it, rounded up."""
        return math.exp(self.exp_vanishes) * (1.0 + 2.0**-40)

    @property
    def assumption(self) -> str:
        """The sentence for a certificate."""
        return (
            f"{self.name}: exp is good to {self.exp_units} units (per {BLOCK} tokens), "
            f"and may be 0 below {self.exp_vanishes:g}."
        )

    def holds(self, values: ArrayLike) -> np.ndarray:
        """Which float64 numbers the format stores without rounding."""
        values = np.asarray(values)
        if self.digits >= 53 and self.least <= -1074:
            return np.ones(np.shape(values), dtype=bool)
        fine = (lowest_bit(values) >= self.least) & (np.abs(values) <= self.largest)
        fine &= (np.abs(values) >= self.flushed) | (values == 0.0)
        return np.asarray(fine & self.has_digits_for(values))

    def has_digits_for(self, values: ArrayLike) -> np.ndarray:
        """Which float64 numbers have so few digits that they fit, whatever their exponent."""
        if self.digits >= 53:
            return np.ones(np.shape(values), dtype=bool)
        mantissa, _ = np.frexp(values)
        scaled = mantissa * 2.0**self.digits
        return np.asarray(scaled == np.round(scaled))

    def is_exact(self, size: float | np.ndarray, grid: float | np.ndarray) -> np.ndarray:
        """Where sums of multiples of 2^grid are not rounded, |terms| adding up to `size`.

        Every partial sum is a multiple of 2^grid of at most 2^digits times 2^grid, so it has at
        most `digits` digits: the format holds it, whatever the order.
        """
        with np.errstate(over="ignore", under="ignore"):
            return np.asarray((size <= np.exp2(self.digits + grid)) & (grid >= self._kept))

    def finest(self, least: ArrayLike) -> np.ndarray:
        """The e for which all its numbers of at least this size are multiples of 2^e.

        A number of 2^k and more, below 2^(k + 1), is a multiple of 2^(k + 1 - digits).
        """
        _, exponent = np.frexp(least)
        return np.maximum(exponent - self.digits, self._kept).astype(float)

    def fits(self, size: ArrayLike) -> bool:
        """Whether no number of these sizes exceeds the largest of the format; nan does."""
        return bool((np.asarray(size) <= self.largest).all())

    def accumulates(self, size: ArrayLike, tokens: int) -> bool:
        """Whether a softmax has room for |values| of so many tokens that add up to `size`.

        Fused attention adds powers times values before it divides by the sum of the powers, so
        that it needs room for the sum over the tokens and not for the mean alone. It does so in
        float32 if the format is smaller. Products and sums are rounded, each by a factor 1 + u at
        most, of which a term meets no more than n + 1. Not a number is no room.
        """
        room = max(self.largest, _ACCUMULATED) * math.exp(-2.0 * (tokens + 1) * self.unit)
        return tokens == 1 or bool((np.asarray(size) <= room).all())

    def stored(self, values: np.ndarray) -> np.ndarray:
        """The float64 numbers rounded to nearest, ties to even, as float64.

        The quantum of a number is 2^(exponent - digits), or the smallest number; dividing by it
        and multiplying with it round nothing. What may be taken for 0 is 0 here.
        """
        if self.digits >= 53:
            return values
        _, exponent = np.frexp(values)
        quantum = np.ldexp(1.0, np.maximum(exponent - self.digits, self.least))
        rounded = np.rint(values / quantum) * quantum
        return np.where(np.abs(rounded) < self.flushed, 0.0, rounded)


def lowest_bit(values: ArrayLike) -> np.ndarray:
    """The largest e for which the number is a multiple of 2^e; infinite for 0."""
    mantissa, exponent = np.frexp(values)
    whole = np.abs(mantissa * 2.0**53).astype(np.int64)
    with np.errstate(divide="ignore"):
        trailing = np.log2((whole & -whole).astype(np.float64))
    return np.where(whole == 0, np.inf, exponent - 53 + trailing)


FLOAT64 = Format("float64", 53, -1074, float(np.finfo(np.float64).max), 8, -500.0)
FLOAT32 = Format("float32", 24, -149, _ACCUMULATED, 8, -86.0)
FLOAT16 = Format("float16", 11, -24, 65504.0, 8, -16.0)
BFLOAT16 = Format("bfloat16", 8, -133, (2.0 - 2.0**-7) * 2.0**127, 8, -86.0, gradual=False)
REALS = Format("reals", 2**11, -(2**12), FLOAT64.largest, 0, -math.inf)  # nothing rounds

FORMATS = {format.name: format for format in (FLOAT64, FLOAT32, FLOAT16, BFLOAT16)}


def format_named(name: object) -> Format:
    """The format of that name; whatever is none is refused with the names that there are."""
    if not isinstance(name, str) or name not in FORMATS:
        raise RequestError(
            f"There is no float format {name!r}; choose one of {', '.join(FORMATS)}."
        )
    return FORMATS[name]


def about_underflow() -> str:
    """The sentence for a certificate that speaks of floats."""
    abrupt = [f"in {f.name} below {f.normal:.3g}" for f in FORMATS.values() if not f.gradual]
    return f"Underflow is gradual, but {' and '.join(abrupt)} numbers may be taken for 0."


# ---- balls ---------------------------------------------------------------------------------------


@contextmanager
def precision(bits: int, cap: int | None = None) -> Iterator[None]:
    """Precision and series length are global to the process: set here, and put back."""
    from flint import ctx

    before = ctx.prec, ctx.cap
    ctx.prec, ctx.cap = bits, before[1] if cap is None else cap
    try:
        yield
    finally:
        ctx.prec, ctx.cap = before


def ball_around(middle: arb | float, radius: float) -> arb:
    """A ball that holds [middle - radius, middle + radius], and no more for a power of two.

    The radius is rounded up to 30 bits, and a power of two steps to the next number, too. A number
    just below lands on the power of two exactly. Then a ball that ends where sqrt begins does not
    reach beyond.
    """
    from flint import arb

    snug = arb(middle, radius * _JUST_BELOW)
    return snug if snug.rad() >= radius else arb(middle, radius)


def ball_between(low: float, high: float) -> arb:
    """A ball that holds [low, high]: exactly that when the width is a power of two."""
    from flint import arb

    half = (arb(high) - arb(low)) / 2
    radius = float(half)
    if not arb(radius) >= half:
        radius = math.nextafter(radius, math.inf)
    return ball_around((arb(low) + arb(high)) / 2, radius)


def ball_size_up(ball: arb) -> float:
    """A float that is at least |x| for every x in the ball; infinite when nothing is known."""
    size = float(ball.abs_upper())
    return math.nextafter(size, math.inf) if math.isfinite(size) else math.inf


def ball_size_down(ball: arb) -> float:
    """A float that is at most |x| for every x in the ball, and not negative.

    Beyond all floats that is the largest one; nan, of which nothing is known, is not above 0.
    """
    return max(0.0, math.nextafter(float(ball.abs_lower()), -math.inf))


def ball_ends(ball: arb) -> tuple[float, float]:
    """Floats lo, hi with lo <= x <= hi for every x in the ball; an exact float stays."""
    if not ball.is_finite():
        return -math.inf, math.inf
    low, high = float(ball.lower()), float(ball.upper())
    below = low if low <= ball else math.nextafter(low, -math.inf)
    return below, high if ball <= high else math.nextafter(high, math.inf)


# ---- arrays --------------------------------------------------------------------------------------


def finite_array(values: object, name: str, *, ndim: int | None = None) -> np.ndarray:
    """A read-only float64 copy of `values`, refused if it holds anything but finite numbers."""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers")
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ShapeError(
            f"{name} must be a rectangular array of real numbers, but it could not be read as one."
        ) from reason
    if ndim is not None and array.ndim != ndim:
        raise ShapeError(
            f"{name} must have {ndim} dimension{'s' * (ndim != 1)}, but its shape is {array.shape}."
        )
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ShapeError(f"{name} must be finite, but entry {bad} is {array[bad]}.")
    return frozen_array(array)


def frozen_array(array: np.ndarray) -> np.ndarray:
    """`array` itself if nobody can write to it, else a read-only copy."""
    if not array.flags.writeable and array.base is None:
        return array
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


_to_fraction = np.frompyfunc(Fraction, 1, 1)


def exact(array: object) -> np.ndarray:
    """The same numbers as an object array of `Fraction`: a float64 is a dyadic rational."""
    return np.asarray(_to_fraction(np.asarray(array)), dtype=object)
