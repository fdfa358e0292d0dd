"""Hidden units that read one float, and round nothing of what they make of it.

Lemma (one float). Let z be a number of the format with |z| >= l > 0, and 2^e the power of two of
which all such numbers are multiples (`Format.finest`). Let m be a power of two, c a multiple of
m 2^e, and |m z + c| at most 2^digits m 2^e. Then the format holds m z + c: it is a multiple of
m 2^e that has no more digits than there are. (Sterbenz: l/2 <= -c/m <= 2 l is such a case.) So

- a unit whose row is a power of two s times z, and one more number b, rounds nothing if s z + b is
  such a number: the product is none, and there is one addition;
- active units of that kind, weighted by powers of two, are added up without rounding, in whatever
  order, if every subset of them adds up to such a number, or to a number without z that is held.

Middles are numbers of float64, which has as many digits or more, so that their images are computed
without rounding, too. What comes out is linear in z then; and if the slopes add up to 0, as those
of a jump do, it is one number, exactly, whatever z is in its ball.

So relu(s z - t) - relu(s z - t - 1) is 0 or 1 with no error at all, for t > 0 of few digits, as
long as z keeps away from the jump: s z - t is below s times the next power of two above z. The sum
of one such jump upwards and one downwards, with one slope, is as exact: subsets have the slopes 0,
s and 2 s alone. With two slopes, or with more jumps, they have others, and digits are lost. Counted
from above, relu(t + 1 - s z) - relu(t - s z) has no such luck where z is small: z has digits then
that t + 1 - s z has no place for.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker.blocks._reading import Turned
from hardmax.numerics import FLOAT64, Format, down, inflate, is_power_of_two, lowest_bit

_MOST_UNITS = 6  # that sound in a coordinate, whose subsets are gone through
_LARGEST = 2**25  # subsets of all coordinates in all cases


class Balls(NamedTuple):
    """Middles, and how far numbers over the reals and in the format may be from them."""

    middle: np.ndarray
    radius: np.ndarray


class OneFloat(NamedTuple):
    """Units as s z + b, where they read one number that strays, or none: then s is 0."""

    sharp: np.ndarray  # cases x units: whether the format holds s z + b, wherever z is in its ball
    slope: np.ndarray  # of each unit
    rest: np.ndarray  # cases x units
    column: np.ndarray  # which number each unit reads
    finest: np.ndarray  # cases x columns: the exponent e of each
    x: Balls


def read_as_one_float(x: Balls, inner: np.ndarray, bias: np.ndarray, format: Format) -> OneFloat:
    """The lemma's first half, for balls of numbers of the format; a turned stream holds others."""
    loose = (x.radius > 0.0).any(axis=0)
    column = (inner * loose != 0.0).argmax(axis=1)
    slope = (inner * loose)[np.arange(len(inner)), column]
    least = down(np.abs(x.middle) - x.radius)
    finest = np.where(least > 0.0, format.finest(np.maximum(least, 0.0)), np.inf)
    rest = (x.middle * ~loose) @ inner.T + bias
    terms = (x.middle * ~loose != 0.0).astype(float) @ (inner != 0.0).T.astype(float)
    held = format.holds(inner).all(axis=1) & format.holds(bias) & (not isinstance(format, Turned))
    held = held & ((inner * loose != 0.0).sum(axis=1) <= 1) & is_power_of_two(slope)
    known = (terms + (bias != 0.0) <= 1.0) & format.holds(rest)
    found = OneFloat(np.ones(rest.shape, dtype=bool), slope, rest, column, finest, x)
    fits = _is_held(found, slope[None], rest, column[None], format)
    return found._replace(sharp=held & known & fits)


def _is_held(
    one: OneFloat, slope: np.ndarray, rest: np.ndarray, column: np.ndarray, format: Format
) -> np.ndarray:
    """Whether slope z + rest is a number of the format, for every z of the ball: cases x sums."""
    rows = np.arange(len(rest))[:, None]
    middle, radius = one.x.middle[rows, column], one.x.radius[rows, column]
    size = np.abs(slope)
    grid = np.log2(np.where(size > 0.0, size, 1.0)) + one.finest[rows, column]
    reach = inflate(np.abs(slope * middle + rest) + size * radius, 8)
    reach += inflate(2.0 * FLOAT64.unit * (size * np.abs(middle) + np.abs(rest)), 8)
    whole = np.isfinite(grid) & (lowest_bit(rest) >= grid) & is_power_of_two(slope)
    whole &= format.is_exact(reach, np.where(np.isfinite(grid), grid, 0.0))
    return np.where(size > 0.0, whole, format.holds(rest))


def adds_without_rounding(
    one: OneFloat, active: np.ndarray, silent: np.ndarray, outer: np.ndarray, format: Format
) -> np.ndarray:
    """The lemma's second half: which sums of units are not rounded, cases x outputs."""
    found = np.zeros((len(active), len(outer)), dtype=bool)
    if not (one.x.radius > 0.0).any() or found.size * 2**_MOST_UNITS > _LARGEST:
        return found
    sounds = active & ~silent
    fine = silent | (active & one.sharp)
    for row, weights in enumerate(outer):
        own = np.flatnonzero(weights)
        if is_power_of_two(weights[own]).all() and format.holds(weights[own]).all():
            found[:, row] = fine[:, own].all(axis=1) & _sums(one, sounds, own, weights, format)
    return found


def _sums(
    one: OneFloat, sounds: np.ndarray, own: np.ndarray, weights: np.ndarray, format: Format
) -> np.ndarray:
    """Whether every sum of some of the units that sound is held, case by case."""
    first = np.argsort(~sounds[:, own], axis=1, kind="stable")[:, :_MOST_UNITS]
    units, rows = own[first], np.arange(len(sounds))[:, None]
    here = sounds[rows, units]
    slope = here * weights[units] * one.slope[units]
    rest = here * weights[units] * one.rest[rows, units]
    read = np.where(slope != 0.0, one.column[units], -1)
    column = read.max(axis=1, initial=0, keepdims=True)
    alone = ((read == column) | (read < 0)).all(axis=1)
    few = sounds[:, own].sum(axis=1) <= _MOST_UNITS
    many = slope.shape[1]
    some = (np.arange(2**many)[:, None] >> np.arange(many) & 1).astype(float)
    (slopes, sure), (rests, certain) = (_exact_sums(terms, some) for terms in (slope, rest))
    columns = np.broadcast_to(column, slopes.shape)
    held = _is_held(one, slopes, rests, columns, format).all(axis=1)
    return np.asarray(held & alone & few & sure & certain)


def _exact_sums(terms: np.ndarray, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of terms, case by case; and whether float64 computes all of them without rounding."""
    grid = lowest_bit(terms).min(axis=1, initial=np.inf)
    size = inflate(np.abs(terms).sum(axis=1), terms.shape[1] + 2)
    return terms @ some.T, FLOAT64.is_exact(size, np.where(np.isinf(grid), 0.0, grid))


def about_storage(format: Format) -> str:
    """What the lemma assumes of an evaluator: z is a number of the format."""
    return f"{format.name}: what a sublayer writes is stored in it, and so are hidden units."
