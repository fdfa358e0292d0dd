"""How far the scores of a head can be from where they are computed to be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._stream import OWN, OWN_UNIT, Arithmetic, lowest_bit
from hardmax.core import Head
from hardmax.numerics import inflate, is_power_of_two
from hardmax.numerics import stray as stray_of

EXP_ULPS = 4  # what NumPy documents of its exp, and what is assumed of any other
EXP_UNITS = 2 * EXP_ULPS  # an ulp is at most two unit roundoffs


class Asks(NamedTuple):
    """Queries or keys: bounds on their sizes and radii, tokens x key width, and their grid."""

    size: np.ndarray
    radius: np.ndarray
    grid: np.ndarray


def is_hard(head: Head) -> bool:
    return bool(np.isinf(head.coldness))


def score_radius(
    asking: Asks, asked: Asks, stream: np.ndarray, head: Head, arithmetic: Arithmetic
) -> np.ndarray:
    """The radius of the scores query . key + bias, times the coldness; asking token x token asked.

    |q k - q' k'| <= |q| |k - k'| + |q - q'| |k'|, term by term, and one more sum in any order. The
    coldness may also be folded into the query weights. Unless it is a power of two that rounds
    them, and relative errors of the weights pass through all sums; unless it is such a power from 1
    on, products with them may underflow where others do not. `stream` bounds |x|.
    """
    tokens = stream.shape[-2]
    k, rk = asked.size.swapaxes(-1, -2), asked.radius.swapaxes(-1, -2)
    radius = asking.size @ rk + asking.radius @ (k + rk)
    size = (asking.size + asking.radius) @ (k + rk)
    grid = np.min(asking.grid + asked.grid, initial=np.inf)
    terms, cold = head.key_width, 1.0 if is_hard(head) else head.coldness
    bias = np.zeros((tokens, tokens))
    if head.position_bias is not None:
        bias = head.position_bias[:tokens, :tokens]
        grid, terms = min(grid, float(lowest_bit(bias).min(initial=np.inf))), terms + 1
    kept = arithmetic.holds(bias)
    size = inflate(size + np.abs(bias), terms + 8)
    tight = radius == 0.0
    lost = np.where(tight & OWN.is_exact(size, grid), 0.0, stray_of(terms + 3, size, OWN_UNIT))
    exactly = tight & kept & arithmetic.is_exact(size, grid)
    lost = lost + np.where(exactly, 0.0, stray_of(terms + 3, size, arithmetic.unit))
    radius = inflate(radius + lost, terms + 8)
    arithmetic.check((size + radius) * max(cold, 1.0))  # the coldness may also come last
    radius = radius * cold
    _check_folded(stream, head.query, cold, arithmetic)
    if is_power_of_two(np.asarray(cold)) and cold >= 1.0:
        return np.asarray(radius)
    full = (stream @ np.abs(head.query).T) @ (stream @ np.abs(head.key).T).swapaxes(-1, -2)
    steps = 2 * head.width + terms + 8
    full = inflate(full + np.abs(bias), steps) * cold
    lost = stray_of(steps, full, arithmetic.unit) + stray_of(2, size * cold, OWN_UNIT)
    faint = 2.0**arithmetic.smallest * head.width * (k + rk).sum(axis=-2, keepdims=True)
    return np.asarray(inflate(radius + lost + np.where(full > 0.0, faint, 0.0), terms + 8))


def _check_folded(
    stream: np.ndarray, query: np.ndarray, cold: float, arithmetic: Arithmetic
) -> None:
    """Refuse queries that may overflow once the coldness is multiplied into their weights."""
    with np.errstate(over="ignore"):
        folded = query * cold
    arithmetic.check_weights(folded)
    size = inflate(stream @ np.abs(folded).T, query.shape[1] + 8)
    arithmetic.check(size + stray_of(query.shape[1] + 3, size, arithmetic.unit))


def underflow(arithmetic: Arithmetic) -> tuple[float, float]:
    """What an exponential may gain and lose in the format where it underflows, or is flushed."""
    smallest = max(arithmetic.smallest, OWN.smallest)
    normal = max(arithmetic.smallest + arithmetic.digits, OWN.smallest + OWN.digits) - 1
    return EXP_UNITS * 2.0**smallest, EXP_UNITS * 2.0**normal
