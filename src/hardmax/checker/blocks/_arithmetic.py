"""Linear maps of balls as a float format computes them, and exponentials of score gaps."""

from __future__ import annotations

import math

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, charge
from hardmax.checker.blocks._reading import lost_in_frame
from hardmax.checker.blocks._sets import Unproved
from hardmax.checker.blocks._unrounded import Balls as Balls
from hardmax.checker.blocks._unrounded import adds_without_rounding, read_as_one_float
from hardmax.numerics import FLOAT64, Format, inflate, is_power_of_two, lowest_bit, stray


def check_sizes(format: Format, size: np.ndarray | float) -> None:
    if not format.fits(size):
        raise Unproved(f"In {format.name} a number may be too large.")


def check_weights(format: Format, weights: np.ndarray) -> None:
    check_sizes(format, np.abs(weights))
    if ((np.abs(weights) < format.normal) & (weights != 0.0)).any():
        raise Unproved(f"In {format.name} a weight is too small.")


def lost_in(terms: np.ndarray, size: np.ndarray, format: Format) -> np.ndarray:
    """What a sum strays by, here where middles are computed and in the format.

    Two roundings more than terms: a weight is cast, and a bias is added.
    """
    return np.asarray(stray(terms + 2, size) + stray(terms + 2, size, format))


def affine(
    x: Balls, matrix: np.ndarray, bias: np.ndarray | None, format: Format
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Middles of matrix @ x + bias, what the radii become, and what is rounded: cases x rows.

    A row whose numbers are exact multiples of one power of two, and small, is not rounded.
    """
    middle, radius = x
    charge(60 * CALL + ENTRY * (middle.size + len(middle) * matrix.size // 8))
    bias = np.zeros(len(matrix)) if bias is None else bias
    check_weights(format, matrix)
    check_weights(format, bias)
    sizes = np.abs(matrix)
    found = middle @ matrix.T + bias
    size = inflate((np.abs(middle) + radius) @ sizes.T + np.abs(bias), matrix.shape[1] + 8)
    spread = inflate(radius @ sizes.T, matrix.shape[1] + 8)
    there = ((np.abs(middle) + radius) > 0.0).any(axis=0)  # the others add exact zeros
    weighed = (matrix != 0.0) & there
    terms = weighed.sum(axis=1) + (bias != 0.0)
    grid = _grid(middle, matrix, bias)
    held = format.holds(matrix).all(axis=1) & format.holds(bias)
    sharp = (radius @ (sizes != 0.0).T == 0.0) & held & _exact(format, size, grid)
    lost = np.where(sharp, 0.0, lost_in(terms, size, format))
    lone = (weighed.sum(axis=1) <= 1) & is_power_of_two(matrix * there).all(axis=1) & held
    lost = np.where(lone, np.minimum(lost, _lost_once(np.abs(found) + spread, format)), lost)
    lost = lost + lost_in_frame(matrix, bias, format)
    check_sizes(format, size + lost)
    return found, spread, lost


def _lost_once(result: np.ndarray, format: Format) -> np.ndarray:
    """What one addition of two floats rounds: a unit roundoff of its result, and nothing is tiny.

    So it is of a coordinate times a power of two, and a bias. Sums do not underflow, but products
    may, by the smallest number.
    """
    both = (format.unit + FLOAT64.unit) * result + format.smallest + FLOAT64.smallest
    return np.asarray(inflate(both * (1.0 + 4.0 * format.unit), 8))


def _exact(format: Format, size: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Exact in the format, and here."""
    return np.asarray(format.is_exact(size, grid) & FLOAT64.is_exact(size, grid))


def _grid(middle: np.ndarray, matrix: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """For each row the power of two of which all its terms are multiples, in all cases."""
    columns = lowest_bit(middle).min(axis=0, initial=np.inf)
    columns = np.where(np.isinf(columns), 0.0, columns)
    weights = np.where(matrix != 0.0, lowest_bit(matrix), np.inf)
    grid = (weights + columns).min(axis=1, initial=np.inf)
    grid = np.minimum(grid, np.where(bias != 0.0, lowest_bit(bias), np.inf))
    return np.where(np.isinf(grid), 0.0, grid)


def products(query: Balls, key: Balls, format: Format) -> tuple[Balls, np.ndarray]:
    """query . key for every pair: queries x keys.

    Also how far two products of one query with one key can be apart, whatever the query is: by what
    the key is off, and by rounding. A single product with a power of two is not rounded. A sum of
    two such products rounds once, whatever comes first: with one key, to the last digit, it is the
    same float.
    """
    (q, qr), (k, kr) = query, key
    charge(60 * CALL + ENTRY * len(q) * len(k))
    size = inflate((np.abs(q) + qr) @ (np.abs(k) + kr).T, q.shape[1] + 8)
    spread = inflate(qr @ (np.abs(k) + kr).T + np.abs(q) @ kr.T, 2 * q.shape[1] + 8)
    bits = [np.where(m != 0.0, lowest_bit(m), np.inf).min(initial=np.inf) for m in (q, k)]
    grid = np.array(0.0 if math.isinf(sum(bits)) else sum(bits))
    sharp = (spread == 0.0) & _exact(format, size, grid) & (not qr.any()) & (not kr.any())
    terms = (np.abs(q) + qr > 0.0).astype(float) @ (np.abs(k) + kr > 0.0).T.astype(float)
    plain = is_power_of_two(k).all(axis=1) & ~kr.any(axis=1)
    lone = (terms <= 1.0) & plain
    lost = np.where(sharp | lone, 0.0, lost_in(terms, size, format))
    check_sizes(format, size + lost)
    once = (terms <= 2.0) & ~kr.any(axis=1)
    again = np.where((_uneven(query, key) == 0.0) & (once | (terms <= 1.0)), 0.0, lost)
    own = inflate((np.abs(q) + qr) @ kr.T, q.shape[1] + 8) + again
    return Balls(q @ k.T, spread + lost), own


def _uneven(query: Balls, key: Balls) -> np.ndarray:
    """How many terms of each product multiply two numbers of which neither is a power of two."""
    uneven = [
        (~is_power_of_two(middle) | (radius > 0.0)).astype(float) for middle, radius in (query, key)
    ]
    return np.asarray(uneven[0] @ uneven[1].T)


def biased(x: Balls, bias: np.ndarray, format: Format) -> Balls:
    """Scores with each of several biases added, along a new last axis.

    Adding 0 rounds nothing, nor does a sum of exact multiples of one power of two that is small.
    """
    middle = x.middle[..., None] + bias
    size = inflate((np.abs(x.middle) + x.radius)[..., None] + np.abs(bias), 4)
    bits = [np.where(m != 0.0, lowest_bit(m), np.inf).min(initial=np.inf) for m in (x.middle, bias)]
    grid = np.array(0.0 if math.isinf(min(bits)) else min(bits))
    sharp = (x.radius == 0.0)[..., None] & format.holds(bias) & _exact(format, size, grid)
    lost = inflate(2.0 * (format.unit + FLOAT64.unit) * size + format.smallest, 8)
    lost = np.where(sharp | (bias == 0.0), 0.0, lost)
    check_sizes(format, size + lost)
    radius = np.where(lost > 0.0, inflate(x.radius[..., None] + lost, 4), x.radius[..., None])
    return Balls(middle, radius)


def fed_forward(
    x: Balls, inner: np.ndarray, bias: np.ndarray, outer: np.ndarray, format: Format
) -> Balls:
    """outer @ relu(inner @ x + bias) for balls: cases x outputs.

    Units that are active on the whole of a ball are linear there, and what they pass on is the
    product of their matrices: two units that make a step cancel beyond it, be they ever so steep.
    Silent units give 0, exactly. Units that read one number may round nothing (`_unrounded.py`).
    """
    made, spread, lost = affine(x, inner, bias, format)
    units = read_as_one_float(x, inner, bias, format)
    lost = np.where(units.sharp, 0.0, lost)
    away = spread + lost
    check_weights(format, outer)
    active, silent = made - away >= 0.0, made + away <= 0.0
    hidden = np.maximum(made, 0.0)
    hidden_away = np.where(silent, 0.0, away)
    outer_sizes = np.abs(outer)
    passed = inflate(hidden_away @ outer_sizes.T, outer.shape[1] + 8)
    if passed.any() and _affords(x, outer, inner):
        rest = np.where(silent, 0.0, np.where(active, lost, away)) @ outer_sizes.T
        linear = _through(active & ~silent, x.radius, inner, outer)
        passed = np.minimum(passed, inflate(rest + linear, outer.shape[1] + 12))
    unrounded = adds_without_rounding(units, active, silent, outer, format)
    rounded = np.where(unrounded, 0.0, _outer_lost(hidden, hidden_away, outer, format))
    return Balls(hidden @ outer.T, passed + rounded)


def _lowest(weights: np.ndarray) -> np.ndarray:
    return np.where(weights != 0.0, lowest_bit(weights), np.inf)


_LARGEST_PRODUCT = 2**28


def _affords(x: Balls, outer: np.ndarray, inner: np.ndarray) -> bool:
    return len(x.middle) * outer.size * inner.shape[1] <= _LARGEST_PRODUCT


def _through(
    active: np.ndarray, radius: np.ndarray, inner: np.ndarray, outer: np.ndarray
) -> np.ndarray:
    """|outer_A inner_A| @ radius, A being the active units of each case; rounding included."""
    charge(60 * CALL + ENTRY * len(active) * outer.size * inner.shape[1] // 8)
    found = np.empty((len(active), len(outer)))
    sizes, strayed = np.abs(outer), np.abs(inner)
    grid = _lowest(outer).min(axis=1, initial=np.inf) + _lowest(inner).min(initial=np.inf)
    grid = np.where(np.isinf(grid), 0.0, grid)
    step = max(1, 2**23 // max(1, outer.size))
    for start in range(0, len(active), step):
        some = slice(start, start + step)
        masked = active[some, None, :] * outer[None]
        matrix = np.abs(masked @ inner)
        size = (active[some, None, :] * sizes[None]) @ strayed
        rounded = np.where(
            FLOAT64.is_exact(inflate(size, len(inner) + 2), grid[:, None]),
            0.0,
            stray(inner.shape[0] + 1, size),
        )
        found[some] = np.einsum("coi,ci->co", matrix + rounded, radius[some])
    return inflate(found, inner.shape[1] + 8)


def _outer_lost(
    hidden: np.ndarray, away: np.ndarray, outer: np.ndarray, format: Format
) -> np.ndarray:
    """What the outer sums round; a single term times a power of two is not rounded at all."""
    size = inflate((hidden + away) @ np.abs(outer).T, outer.shape[1] + 8)
    check_sizes(format, size)
    there = (hidden + away > 0.0).astype(float)
    terms = there @ (outer != 0.0).T.astype(float)
    lone = (terms <= 1.0) & is_power_of_two(outer).all(axis=1)
    grid = _grid(hidden, outer, np.zeros(len(outer)))
    loose = (away > 0.0).astype(float) @ (outer != 0.0).T.astype(float)
    sharp = (loose == 0.0) & format.holds(outer).all(axis=1) & _exact(format, size, grid)
    return np.where(lone | sharp, 0.0, lost_in(terms, size, format))


def power(gap: float, coldness: float, format: Format, tokens: int) -> float:
    """The most that exp(-coldness * gap) can be, over the reals and in the format."""
    if not gap > 0.0:
        return math.inf
    units = 1.0 + format.power_units(tokens) * format.unit
    exponent = max(-coldness * gap, -700.0)
    found = inflate(math.exp(exponent), 24) * units + format.smallest
    return float(inflate(max(found, format.vanished), 4))


def growth(spread: float, coldness: float, format: Format, tokens: int) -> float:
    """How far weights of scores that differ by up to `spread` differ, relatively; 0 if they do not.

    Powers of equal scores are all exp(0) = 1.
    """
    if spread == 0.0:
        return 0.0
    exponent = coldness * spread
    if exponent > 1.0:
        return math.inf
    units = 4.0 * format.power_units(tokens) * format.unit
    return float(inflate(math.expm1(exponent) * (1.0 + units) + units, 24))
