"""x, and x^2, as sums of hyperbolic tangents: what a warm softmax multiplies with."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from hardmax._errors import PrecisionError
from hardmax.lowering.approximants._supremum import supremum
from hardmax.numerics import precision

if TYPE_CHECKING:
    from flint import arb

_BITS = 400  # the system is ill-conditioned

# Ratios of the coldnesses of 1, 2, 3 heads. Rounding grows with sum |k_i|; for a given error it is
# smallest near these (found by a scan, flat around the optimum).
_RATIOS = {1: (1.0,), 2: (0.4, 1.0), 3: (0.25, 0.6, 1.0)}
_WARMEST, _COLDEST = 2.0**-20, 8.0


@dataclass(frozen=True)
class TanhSum:
    """scale * sum_i (shares[i]/2) tanh(coldness[i] x / 2), plus `constant` or times x.

    `identity` approximates x on [-1, 1], `square` (multiplied by x, constant added) x^2. The
    shares add up to 2 exactly, so that -scale + scale * sum_i shares[i] sigmoid(coldness[i] x) is
    the sum, and nothing of its linear term is left over by rounding. `error` is proved for exactly
    these numbers.
    """

    coldness: tuple[float, ...]
    scale: float
    shares: tuple[float, ...]
    constant: float
    error: float

    @property
    def heads(self) -> int:
        return len(self.coldness)


@lru_cache(maxsize=256)
def identity_by_tanh(heads: int, error: float) -> TanhSum:
    """The warmest-possible error, turned around: the coldest sum for x that stays within `error`.

    tanh(b x/2) 2/b = x - b^2 x^3/12 + b^4 x^5/120 - ..., odd in x. With H free weights the terms
    up to x^(2H-1) can be matched and the next one is best spread by the Chebyshev polynomial
    T_(2H+1), whose leading coefficient is 2^(2H): the error is that of matching (Richardson)
    divided by 4^H. One head: b^2/48 instead of b^2/12; so b is twice as large for one error, and
    the rounding, which grows as 1/b, half as large.

    The weights solve the equioscillation equations at the extrema of T_(2H+1); the error of the
    rounded weights is then proved by `supremum`.
    """
    return _coldest(heads, error, square=False)


@lru_cache(maxsize=256)
def square_by_tanh(heads: int, error: float) -> TanhSum:
    """x^2 = constant + x sum_i k_i tanh(b_i x/2), as for x; even, so T_(2H+2): b^2/96 for one."""
    return _coldest(heads, error, square=True)


def _coldest(heads: int, error: float, *, square: bool) -> TanhSum:
    cold = 1.0 if heads == 1 else 2.0
    best: TanhSum | None = None
    for _ in range(12):
        trial = _sum_at(heads, cold, error, square=square)
        if trial.error <= error and (best is None or trial.coldness[-1] > best.coldness[-1]):
            best = trial
        if best is not None and best.error >= 0.97 * error:
            break
        step = (0.985 * error / trial.error) ** (0.5 / heads)
        cold = min(max(cold * min(max(step, 0.02), 4.0), _WARMEST), _COLDEST)
        if cold == _COLDEST and best is not None and best.coldness[-1] == _COLDEST:
            break
    if best is None:
        raise PrecisionError(
            f"A product to within {error:.3g} of its factors' ranges is beyond float64; ask for "
            "1e-12 of them or more."
        )
    return best


def _sum_at(heads: int, cold: float, error: float, *, square: bool) -> TanhSum:
    bits = 21 if error >= 2e-6 else 50  # few bits where they suffice: float32 then holds them
    coldness = tuple(float(Fraction(round(r * cold * 2**40), 2**40)) for r in _RATIOS[heads])
    weights, constant = _equioscillating(coldness, square=square)
    total = sum(weights, Fraction(0))
    scale = _rounded(total, bits)
    shares = [Fraction(round(2 * w / total * 2**bits), 2**bits) for w in weights[:-1]]
    shares.append(2 - sum(shares, Fraction(0)))
    middle = _rounded(constant, 50)

    def difference(x: arb) -> arb:
        from flint import arb, fmpq

        result = (x * x - arb(middle)) if square else x
        for share, b in zip(shares, coldness, strict=True):
            weight = Fraction(scale) * share / 2
            factor = arb(fmpq(weight.numerator, weight.denominator))
            # tanh(y) = 1 - 2/(1 + e^(2y))
            bend = 1 - 2 / (1 + (x * arb(b)).exp())
            result = result - factor * (bend * x if square else bend)
        return result

    proved = supremum(difference, 0.0, 1.0, tolerance=0.005)[1]
    return TanhSum(coldness, scale, tuple(map(float, shares)), middle, proved)


def _rounded(number: Fraction, bits: int) -> float:
    """To a float of so many significant bits."""
    if number == 0:
        return 0.0
    exponent = abs(number).numerator.bit_length() - number.denominator.bit_length()
    unit = Fraction(2) ** (exponent - bits)
    return float(round(number / unit) * unit)


def _equioscillating(
    coldness: tuple[float, ...], *, square: bool
) -> tuple[list[Fraction], Fraction]:
    """Weights whose error takes +-E in turn at the extrema of the Chebyshev polynomial."""
    from flint import arb, arb_mat

    heads = len(coldness)
    degree = 2 * heads + (2 if square else 1)
    points = heads + (2 if square else 1)
    with precision(_BITS):
        nodes = [(arb.pi() * j / degree).cos() for j in range(points)]
        rows = []
        for j, x in enumerate(nodes):
            bends = [(arb(b) * x / 2).tanh() for b in coldness]
            row = [bend * x for bend in bends] + [arb(1)] if square else bends
            rows.append([*row, arb((-1) ** j)])
        right = arb_mat([[x * x if square else x] for x in nodes])
        solution = arb_mat(rows).solve(right)
        numbers = [_fraction(solution[i, 0]) for i in range(points)]
    return numbers[:heads], numbers[heads] if square else Fraction(0)


def _fraction(ball: arb) -> Fraction:
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
