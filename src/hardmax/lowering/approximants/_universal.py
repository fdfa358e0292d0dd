"""Any Lipschitz function on a box by one head over a grid of anchors, counted beforehand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil, exp, floor, frexp, inf, ldexp, log, prod, sqrt

import numpy as np

from hardmax._errors import DomainError, PrecisionError, RequestError
from hardmax.lowering.approximants._grid_means import (
    closest_mean_difference,
    closest_mean_distance,
    furthest_move,
)
from hardmax.numerics import FLOAT64, Format, inflate, stray

FLATNESS = 16.0  # coldness * spacing^2: 0.08% above the hard limit, by `mean_distance`
COARSE_FLATNESS = 4.001  # 3.7% above, with a quarter of the logits: they round by their sizes
_COLD = 15.0  # flatness from which the bounds in closed form are good enough
_FEWEST_DIGITS = 9  # of a spacing that is not what was asked: 0.4% more anchors at most


@dataclass(frozen=True)
class GridFit:
    """One head over `count` anchors, one in the middle of each cell, within `error` of f.

    `axes` holds (first anchor, spacing, number) of each coordinate. The values are f at
    `points()`; nothing is evaluated or listed before that is called.
    """

    axes: tuple[tuple[float, float, int], ...]
    coldness: float
    error: float
    spread: float = inf  # sum_jk p_j p_k sum_i L_i |e_j - e_k|_i at most, at any x
    slopes: tuple[float, ...] = ()  # L_i

    def __repr__(self) -> str:
        sizes = " x ".join(str(number) for _, _, number in self.axes)
        return f"GridFit({sizes} = {self.count} anchors, error <= {self.error:.3g})"

    @property
    def count(self) -> int:
        return prod(number for _, _, number in self.axes)

    def moved(self, off: float, apart: Sequence[float], fading: float) -> float:
        """How far rounding moves the head's mean, as in `moved_by_rounding`, axis by axis."""
        total = 0.0
        for (_, spacing, number), slope, shift in zip(self.axes, self.slopes, apart, strict=True):
            if number > 1 and slope:
                total += slope * moved_by_rounding(spacing, self.coldness, off, shift, fading)
        return float(inflate(total, len(self.slopes) + 2))

    def heavy(self, format: Format) -> int:
        """As many anchors that all others together weigh less than the format's unit roundoff.

        With d <= theta/4, as `moved_by_rounding` wants it, weights are off by e^(theta/2) at most.
        Those beyond j anchors of a side weigh at most 1.01 exp(-theta j^2/2) of the nearest.
        """
        count = 1
        for _, spacing, number in self.axes:
            theta = self.coldness * spacing**2
            least = -log(format.unit / 8.0) + log(len(self.axes)) + theta / 2.0
            reach = sqrt(2.0 * least / theta) if theta > 0.0 else inf  # theta may underflow
            count *= min(number, 2 * ceil(min(reach, number)))
        return count

    @property
    def middle(self) -> np.ndarray:
        """The anchor in the middle."""
        return np.array([first + spacing * (number // 2) for first, spacing, number in self.axes])

    def places(self) -> np.ndarray:
        """The anchors as seen from the middle: multiples of the spacings, listed as `points`."""
        return _rows(D * (np.arange(n) - n // 2) for _, D, n in self.axes)

    def points(self) -> np.ndarray:
        """The anchors, one a row, the last coordinate running fastest."""
        return _rows(first + D * np.arange(n) for first, D, n in self.axes)


def _rows(axes: Iterable[np.ndarray]) -> np.ndarray:
    lists = list(axes)
    return np.stack(np.meshgrid(*lists, indexing="ij"), axis=-1).reshape(-1, len(lists))


def mean_distance(spacing: float, coldness: float) -> float:
    """A bound of sum_k p_k |x - e_k| for all x at most spacing/2 outside the anchors.

    Anchors at equal spacing D, weights p_k ~ exp(-coldness (x - e_k)^2 / 2), theta = coldness D^2.
    Let the nearest anchor be at distance r <= D/2 and the next on the other side at D - r. If
    there were only these two, the mean would be r + g sigmoid(-theta g / (2 D)) with
    g = D - 2r >= 0, that is D/2 - (g/2) tanh(theta g / (4 D)) <= D/2. An anchor at distance d adds
    at most (d - r) exp(-coldness (d - r)(d + r) / 2), its weight being below its ratio to the
    nearest one's. On the near side d = r + jD and on the far side d - r = (j + 1)D - 2r >= jD and
    d + r = (j + 1)D, for j = 1, 2, ...; u exp(-coldness (j + 1) D u / 2) falls for u >= jD once
    theta >= 1. So the mean is at most

        D/2 + D sum_j j (exp(-theta j^2 / 2) + exp(-theta j (j + 1) / 2)),

    and at most D/2 + 1.15 D exp(-theta / 2) for theta >= 4: the sum divided by exp(-theta / 2)
    falls with theta and is 1.1405 at 4. If some anchors are missing beyond the ends, the same
    terms are fewer. Between two anchors of an endless grid it is at least D/2.
    """
    theta = coldness * spacing**2
    if not theta >= 4.0:
        raise RequestError(f"coldness * spacing^2 must be 4 or more, but is {theta:.3g}.")
    return float(inflate(spacing * (0.5 + 1.15 * exp(-theta / 2.0)), 16))


def moved_by_rounding(
    spacing: float, coldness: float, off: float, apart: float, fading: float
) -> float:
    """How far sum_k p_k v_k moves for values of slope 1, if logits are off by at most `off`.

    Their differences besides by the share `fading` of what they are, and the question by `apart`.
    Errors of logits move the mean by at most D times `furthest_move`, with equality for two anchors
    that tie and small errors d. A question that is off by a moves logits by coldness a (e_k - x),
    and the mean by coldness a times the covariance of values and anchors, which is at most the
    variance of the anchors. That is at most E (e_k - c)^2 for the middle c between the two next to
    x, or half a spacing outside the last one: D^2/4 and 2 j D^2 for being beyond j anchors of a
    side. By weights that have grown by e^(2 d) at most this is

        D^2 (1/4 + e^(2 d) sum_j j (j + 1) (exp(-theta j^2/2) + exp(-theta j (j + 1)/2))),

    and the sum is below 2.5 exp(-theta/2), of which it is 2.29 at theta = 4, and less beyond.
    Differences of logits that matter are 16 theta at most: it takes six spacings to be further
    behind, with a weight of e^(-16 theta). QED
    """
    theta = coldness * spacing**2
    d = off + 16.0 * theta * fading
    if not (theta >= 4.0 and 4.0 * d <= theta):
        return inf
    variance = 0.25 + 2.5 * exp(2.0 * d - theta / 2.0)
    return float(inflate(spacing * furthest_move(theta, d) + theta * variance * apart, 32))


def mean_difference(spacing: float, coldness: float) -> float:
    """A bound of sum_jk p_j p_k |e_j - e_k| for all x at most spacing/2 outside the anchors."""
    theta = coldness * spacing**2
    if theta >= _COLD:  # q, the weight beyond the two next to x, pairs with all: 8.3 q
        return float(inflate(spacing * (0.5 + 8.3 * 1.15 * exp(-theta / 2.0)), 16))
    return float(inflate(spacing * closest_mean_difference(theta), 16))


def least_distance(spacing: float, coldness: float) -> float:
    """The smaller bound of sum_k p_k |x - e_k|: `mean_distance` if the grid is cold."""
    if coldness * spacing**2 >= _COLD:
        return mean_distance(spacing, coldness)
    closely = float(inflate(spacing * closest_mean_distance(coldness * spacing**2), 16))
    return min(mean_distance(spacing, coldness), closely)


def grid_for(
    low: Sequence[float],
    high: Sequence[float],
    lipschitz: Sequence[float],
    error: float,
    *,
    flatness: float = FLATNESS,
    format: Format = FLOAT64,
) -> GridFit:
    """The grid for |f(x) - f(y)| <= sum_i L_i |x_i - y_i| on a box of one to three dimensions.

    One head with scores coldness (x.e - |e|^2 / 2) over the product grid: the weights are a
    product of one weight per axis, so |sum_k p_k f(e_k) - f(x)| <= sum_k p_k |f(e_k) - f(x)| is at
    most sum_i L_i E_i, with E_i the mean distance along axis i. With n_i cells of width
    W_i / n_i this is about sum_i L_i W_i / (2 n_i). The product of the n_i is smallest when all
    axes err alike; the integers next to that are all tried. The hard limit cannot be beaten for
    one dimension: a zigzag of slope L that vanishes at the anchors is L D/2 away from 0.

    In a coarse format the spacings have so few digits that their multiples are its numbers, and
    keys need not be rounded. The number of anchors is known before anything is evaluated.
    """
    width, slope = _checked(low, high, lipschitz, error)
    reach = [max(abs(float(a)), abs(float(b))) for a, b in zip(low, high, strict=True)]
    # anchors are floats: an end, half a spacing, a multiple of it and their sums are rounded
    rounding = float(stray(8, 2.0 * sum(L * x for L, x in zip(slope, reach, strict=True))))
    allowed = error * (1.0 - 1e-9) - rounding
    if not allowed > 0.0:
        raise PrecisionError(
            f"Anchors rounded to float64 cost {rounding:.3g}, but an error of {error:.3g} was "
            "asked. Ask for a larger error, or shrink the domain."
        )
    share = least_distance(1.0, flatness) / allowed
    numbers = _fewest([L * W * share for L, W in zip(slope, width, strict=True)])
    spacings = [W / n for W, n in zip(width, numbers, strict=True)]
    if format.is_coarse:
        pairs = zip(spacings, numbers, strict=True)
        spacings = [_with_few_digits(D, n, format) for D, n in pairs]
        exact = zip(low, high, spacings, strict=True)
        numbers = [ceil((Fraction(b) - Fraction(a)) / Fraction(D)) for a, b, D in exact]
    moving = [D for D, n in zip(spacings, numbers, strict=True) if n > 1] or [max(spacings)]
    square = min(moving) ** 2
    if not square > flatness / FLOAT64.largest:
        raise PrecisionError(
            f"A grid with anchors {min(moving):.3g} apart needs a coldness beyond all floats. Take "
            "another route, or scale the domain up."
        )
    coldness = flatness / square
    axes, total, spread = [], rounding, 0.0
    for a, D, L, n in zip(low, spacings, slope, numbers, strict=True):
        axes.append((float(a) + 0.5 * D, D, n))
        total += L * (least_distance(D, coldness) if n > 1 else 0.5 * D)
        spread += L * mean_difference(D, coldness) if n > 1 else 0.0
    ends = float(inflate(total, 16)), float(inflate(spread, 16))
    return GridFit(tuple(axes), coldness, *ends, tuple(slope))


def _with_few_digits(spacing: float, number: int, format: Format) -> float:
    """At most this and next to it, and a multiple of it by up to `number` / 2 is in the format."""
    kept = format.digits - (number // 2 + 2).bit_length()
    if kept < _FEWEST_DIGITS:
        return spacing
    significand, exponent = frexp(spacing)
    return ldexp(floor(ldexp(significand, kept)), exponent - kept)


def _checked(
    low: Sequence[float], high: Sequence[float], lipschitz: Sequence[float], error: float
) -> tuple[list[float], list[float]]:
    if not (1 <= len(low) == len(high) == len(lipschitz) <= 3):
        raise DomainError(
            "A grid needs one to three dimensions, and low, high and a slope for each, but got "
            f"{len(low)}, {len(high)} and {len(lipschitz)}."
        )
    width = [float(b) - float(a) for a, b in zip(low, high, strict=True)]
    if not all(0.0 < w < inf for w in width):
        raise DomainError("A grid needs finite ends with low < high along every axis.")
    if not (error > 0.0 and all(0.0 <= L < inf for L in lipschitz)):
        raise RequestError("A grid needs a positive error and finite slopes.")
    return width, [float(L) for L in lipschitz]


def _fewest(loads: list[float]) -> list[int]:
    """Integers n_i of least product with sum_i loads_i / n_i <= 1.

    At the real optimum every term is 1/d. All but the last axis are tried around it, and the last
    one takes what is left.
    """
    best, numbers = inf, list[int]()
    even = [len(loads) * load for load in loads[:-1]]
    ranges = [sorted({max(1, ceil(n) + k) for k in range(-8, 25)} | {1}) for n in even]
    for head in product(*ranges):
        rest = 1.0 - sum(load / n for load, n in zip(loads[:-1], head, strict=True))
        if rest > 0.0:
            last = max(1, ceil(loads[-1] / rest))
            if prod(head) * last < best:
                best, numbers = prod(head) * last, [*head, last]
    return numbers
