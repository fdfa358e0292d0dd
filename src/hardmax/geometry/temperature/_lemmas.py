"""What a gap guarantees of a softmax, and the temperature at which a guarantee is reached.

Throughout, token i is the winner among N visible tokens, every other score lies at least `gap`
below its own, beta is the coldness (1/temperature), and r = e^{-beta gap}. All bounds are rounded
up, all temperatures down; of NumPy's exp and log is assumed what `numerics` assumes of float64. An
infinite coldness means a hardmax, for which r is 0, or 1 in a tie.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError
from hardmax.numerics import FLOAT64, STEP, TINY, UNIT, down, inflate, product_up, up


def weight_bound(gap: ArrayLike, tokens: ArrayLike, coldness: ArrayLike) -> np.ndarray:
    """The most weight that the losers can share: 1 - p_i <= (N-1) r / (1 + (N-1) r).

    Proof. The losers' powers relative to the winner's are w_j = e^{-beta (s_i - s_j)} <= r, and
    1 - p_i = sum w / (1 + sum w) grows with every w_j. Attained when all losers sit at the gap.

    The soft weights p and the hard weights e_i differ by 1 - p_i in the largest entry and in
    total variation, by twice that in the 1-norm. A negative gap is allowed, where the winner is
    only known up to rounding: the proof never used that r <= 1. In a tie (gap 0) the bound is
    (N-1)/N at every temperature: there is no hard limit. For N = 1 it is 0.
    """
    exponent, count = exponent_of(gap, coldness), np.asarray(tokens, dtype=np.float64) - 1.0
    with np.errstate(under="ignore", over="ignore", divide="ignore", invalid="ignore"):
        small = count * np.exp(-np.maximum(exponent, 0.0))
        large = np.exp(np.minimum(exponent, 0.0)) / count
        share = np.where(exponent >= 0.0, small / (1.0 + small), 1.0 / (1.0 + large))
        above = from_above(share, exponent, 3) + vanishing(exponent, count)
    return np.where(count > 0.0, np.minimum(above, 1.0), 0.0)


def value_bound(gap: ArrayLike, tokens: ArrayLike, coldness: ArrayLike) -> np.ndarray:
    """How far log-sum-exp lies above the maximum: at most log(1 + (N-1) r) / beta.

    Proof. (1/beta) log sum_j e^{beta s_j} - s_i = (1/beta) log(1 + sum w), w_j <= r as above.
    Attained when all losers sit at the gap.
    """
    count = np.asarray(tokens, dtype=np.float64) - 1.0
    exponent = exponent_of(gap, coldness)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        height = np.log1p(count * np.exp(-exponent)) / np.asarray(coldness, dtype=np.float64)
        lost = inflate(vanishing(exponent, count) / np.asarray(coldness, dtype=np.float64))
        above = from_above(height, exponent, 2 + FLOAT64.exp_units) + lost + TINY
    return np.where((count > 0.0) & np.isfinite(coldness), above, 0.0)


def gradient_bound(gap: ArrayLike, tokens: ArrayLike, coldness: ArrayLike) -> np.ndarray:
    """The 1-norm between the gradients of log-sum-exp and max: at most 2(N-1) r / (1 + (N-1) r).

    Proof. The gradients are p and e_i, and |p - e_i|_1 = (1 - p_i) + sum_{j != i} p_j
    = 2 (1 - p_i); attained with `weight_bound`. The simpler 2 (N-1) r is above it, and meets it
    only as r goes to 0.
    """
    return 2.0 * weight_bound(gap, tokens, coldness)


def output_bound(
    gap: ArrayLike, tokens: ArrayLike, coldness: ArrayLike, radius: ArrayLike
) -> np.ndarray:
    """How far the soft output lies from the winner's value: |Z - v_i| <= eps max_j |v_j - v_i|.

    Here eps is `weight_bound` and `radius` the largest distance of a visible value to v_i, which
    is at most the diameter of the values. Proof. Z - v_i = sum_{j != i} p_j (v_j - v_i), and
    these p_j add up to 1 - p_i <= eps. Attained when all losers sit at the gap and hold one
    value at distance `radius`; then the radius is the diameter, so eps diam V is attained too.
    """
    share, radius = weight_bound(gap, tokens, coldness), np.asarray(radius, dtype=np.float64)
    return np.asarray(product_up(share, radius))


def temperature_for_weights(tolerance: ArrayLike, gap: ArrayLike, tokens: ArrayLike) -> np.ndarray:
    """The temperature up to which `weight_bound` is at most `tolerance`.

    The bound is at most eta iff (N-1) r <= eta/(1-eta), that is beta gap >= ln((N-1)(1-eta)/eta),
    and it falls with beta when gap > 0: so every temperature up to gap / ln((N-1)(1-eta)/eta)
    will do, and no higher one. Any temperature will do (infinity) if N = 1, or if the logarithm
    is not positive and gap >= 0: then eta >= (N-1)/N, which already the uniform weights keep. In
    a tie otherwise none will do (0).
    """
    eta = np.asarray(tolerance, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return _temperature((1.0 - eta) / eta, gap, tokens)


def temperature_for_outputs(
    error: ArrayLike, gap: ArrayLike, tokens: ArrayLike, radius: ArrayLike
) -> np.ndarray:
    """The temperature up to which `output_bound` is at most `error`.

    `temperature_for_weights` at eta = error/radius, where (1-eta)/eta = radius/error - 1. Any
    temperature will do where the radius is at most the error.
    """
    error, radius = np.asarray(error, dtype=np.float64), np.asarray(radius, dtype=np.float64)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        found = _temperature((radius - error) / error, gap, tokens)
    return np.where(radius <= error, np.inf, found)


def distance_for_error(
    error: float, *, diameter: float, tokens: int, temperature: float, separation: float
) -> float:
    """How far from its walls a query must be for the output error to be guaranteed.

    A query at distance t from the wall between k_i and k_j has s_i - s_j = t |k_i - k_j|. So at
    distance ln((N-1)(diam V/error - 1)) temperature/separation from all walls of its cell,
    where `separation` is the least |k_i - k_j|, the gap is at least temperature times that
    logarithm, and `temperature_for_outputs` gives the error. Attained with `output_bound` when
    all losers share one key and one value. 0 if the error needs no gap.
    """
    given = {"error": error, "temperature": temperature, "separation": separation}
    for name, number in given.items():
        if not 0.0 < number < np.inf:
            raise RequestError(f"The {name} must be a finite number > 0, but it is {number!r}.")
    if tokens <= 1 or diameter <= error:
        return 0.0
    odds = float(_log_up((tokens - 1) * ((diameter - error) / error)))
    return up(product_up(odds, temperature) / separation) + TINY if odds > 0.0 else 0.0


def _temperature(odds: np.ndarray, gap: ArrayLike, tokens: ArrayLike) -> np.ndarray:
    """gap / ln((N-1) odds), rounded down; infinity and 0 where no or every temperature fails."""
    gap, count = np.asarray(gap, dtype=np.float64), np.asarray(tokens, dtype=np.float64) - 1.0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        needed = _log_up(count * np.maximum(odds, 0.0))
        found = np.where(gap > 0.0, np.where(np.isinf(gap), gap, down(gap / needed)), 0.0)
    harmless = (count <= 0.0) | ((needed <= 0.0) & (gap >= 0.0))
    return np.where(harmless, np.inf, np.where(needed > 0.0, found, 0.0))


def _log_up(x: ArrayLike) -> np.ndarray:
    """ln x rounded up, for an x that is itself off by 4 roundings; log is trusted as exp is."""
    with np.errstate(divide="ignore"):
        log = np.log(np.asarray(x, dtype=np.float64))
    finite = np.isfinite(log)
    off = inflate(UNIT * (4.0 + FLOAT64.exp_units * np.where(finite, np.abs(log), 0.0)))
    return np.where(finite, up(log + off), log)


def from_above(bound: np.ndarray, exponent: np.ndarray, roundings: int) -> np.ndarray:
    """A bound made of one exp(-exponent) and so many roundings, from above.

    The exponent beta gap is rounded once, by u of it, which the exponential turns into a factor
    of at most 1 + 2 u |exponent|. Beyond 10,000 exponentials have vanished.
    """
    shaken = 1.0 + STEP * np.minimum(np.abs(exponent), 1e4)
    return np.asarray(inflate(bound * shaken, FLOAT64.exp_units + roundings + 3))


def vanishing(exponent: np.ndarray, count: ArrayLike) -> np.ndarray:
    """What so many exponentials of -exponent may lose by vanishing; a hardmax has lost nothing."""
    far = np.isfinite(exponent) & (exponent > -FLOAT64.exp_vanishes)
    return np.where(far, inflate(FLOAT64.vanished * np.asarray(count)), 0.0)


def exponent_of(gap: ArrayLike, coldness: ArrayLike) -> np.ndarray:
    """beta gap; 0 in a tie, however cold.

    A product that overflows is the largest float: infinite ones belong to hard heads and to winners
    that are alone, which lose nothing, while a soft head's losers keep some weight.
    """
    gap, coldness = np.asarray(gap, dtype=np.float64), np.asarray(coldness, dtype=np.float64)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        exponent = np.where(gap == 0.0, 0.0, gap * coldness)
    soft = np.isfinite(gap) & np.isfinite(coldness)
    return np.where(soft, np.clip(exponent, -FLOAT64.largest, FLOAT64.largest), exponent)
