"""Breakpoints of many lines in floats, layer by layer, and which of the lines are in doubt."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.geometry.counting._chain import Chain, Layer
from hardmax.geometry.counting.line._arrays import Lines
from hardmax.numerics import FAINT, FLOAT64, UNIT, gamma, inflate, matmul_up

_FAINTEST = FAINT / UNIT  # of a scale: u times it is still far above what underflow loses
_LARGEST = FLOAT64.largest / 64.0  # of a scale: what the kernels add up is finite
_BLOCK = 2**16  # numbers that one layer holds at a time: they fit into a processor's cache
_GUESS = 16  # points on a line, where nothing is known yet


@dataclass(frozen=True, eq=False)
class Explored:
    """What floats say: the points of all lines, ends included, with the units that made them.

    `error` bounds how far each point is off, as long as its line has no doubts.
    `doubts` counts the decisions of each line that the bounds on rounding leave open; `silent`
    and `unheard` (where asked for) the breakpoints at which the map does not change, and those of
    which floats cannot say it.
    """

    points: np.ndarray
    error: np.ndarray
    bounds: np.ndarray
    origin: np.ndarray
    doubts: np.ndarray
    silent: np.ndarray
    unheard: np.ndarray


def explore_lines(chain: Chain, starts: np.ndarray, ends: np.ndarray, joining: bool) -> Explored:
    """All lines, a block of them at a time."""
    width = max((len(layer.weights) for layer in chain.layers), default=1)
    many = max(_BLOCK // (width * _GUESS), 1)
    with np.errstate(over="ignore", invalid="ignore"):  # such lines are in doubt
        scales = _scales(chain, np.maximum(np.abs(starts), np.abs(ends)).max(axis=0))
        blocks = [
            _explore_block(chain, scales, starts[i : i + many], ends[i : i + many], joining)
            for i in range(0, len(starts), many)
        ]
    counts = np.concatenate([np.diff(one.bounds) for one in blocks])
    explored = Explored(
        np.concatenate([one.points for one in blocks]),
        np.concatenate([one.error for one in blocks]),
        np.concatenate([[0], np.cumsum(counts)]),
        np.concatenate([one.origin for one in blocks]),
        np.concatenate([one.doubts for one in blocks]),
        np.concatenate([one.silent for one in blocks]),
        np.concatenate([one.unheard for one in blocks]),
    )
    if not all(_is_moderate(scale) for scale in scales):
        explored.doubts[:] += 1  # overflow, or underflow: no bound holds
    return explored


def _is_moderate(scale: np.ndarray) -> bool:
    """Whether what underflow loses is nothing beside one rounding of such values; of all rows.

    n products lose at most n 2^-1074, which is less than u s for n < 2^20 and s >= 2^-944. Sums and
    differences of a few values up to 2^-6 of the largest float are finite. A scale of 0 or less is
    that of a row without terms.
    """
    return bool(((scale <= 0.0) | ((scale >= _FAINTEST) & (scale <= _LARGEST))).all())


def _scales(chain: Chain, reach: np.ndarray) -> list[np.ndarray]:
    """s_i for every row of every layer: |z_i| <= s_i and |z_i(x) - z_i(y)| <= s_i |x - y| in t.

    The ends are at most `reach`, so they differ by at most 2 reach, and s = 2 |W| reach + |b| does
    it for the first layer. Rectifiers and maxima shrink both; after them |W| s + |b| does it. A row
    that can only be 0 gets -1, and no value of it is ever in doubt.
    """
    found, size = [], 2.0 * reach
    for layer in chain.layers:
        rows = inflate(matmul_up(np.abs(layer.weights), size) + np.abs(layer.biases))
        found.append(np.where(rows == 0.0, -1.0, rows) if layer.groups is None else rows)
        size = layer.unit_values(rows[None])[0]
    return found


def _explore_block(
    chain: Chain, scales: list[np.ndarray], starts: np.ndarray, ends: np.ndarray, joining: bool
) -> Explored:
    """The invariant of the kernels, from the ends of the lines to the last layer.

    A product of n terms and a bias takes n + 1 roundings of magnitudes, which are at most s (1 + e)
    with e at most WIDE, and underflow adds less than one more: hence e grows by
    gamma_{n+1} (1 + WIDE) + u. The ends may themselves be rounded once, another u.
    """
    from hardmax.geometry.counting.line import _kernels as kernels

    lines, doubts = _ends_of(len(starts)), np.zeros(len(starts), dtype=np.int64)
    values = np.stack([starts, ends], axis=1).reshape(2 * len(starts), -1)
    kinks = np.zeros((2, len(lines.points) if joining else 0, chain.inputs))
    for place, (number, layer) in enumerate(chain.numbered_layers()):
        rows = values @ layer.weights.T
        rows += layer.biases
        error = lines.error
        error += gamma(layer.weights.shape[1] + 1) * (1.0 + kernels.WIDE) + UNIT
        at = (rows, error, lines.bounds, scales[place])
        if layer.groups is None:
            changes = kernels.sign_changes(*at)
        else:
            changes = kernels.winner_changes(*at, layer.groups)
        doubts += changes.doubts
        lines, places = kernels.refine_lines(lines, changes, number)
        if place + 1 < len(chain.layers):
            values = (
                kernels.rectify(rows, places, lines.origin)
                if layer.groups is None
                else kernels.maximise(rows, places, layer.groups)
            )
        if joining:
            kinks = _bend_units(layer, rows, kinks, places.share, lines.origin, len(chain.layers))
    nothing = doubts[:0], doubts[:0]
    heard = _count_silent(chain, kinks, lines.origin, lines.bounds) if joining else nothing
    return Explored(lines.points, lines.error, lines.bounds, lines.origin, doubts, *heard)


def _ends_of(count: int) -> Lines:
    """So many lines that have nothing but their ends yet, which may be rounded once."""
    return Lines(
        points=np.tile([0.0, 1.0], count),
        error=np.full(2 * count, UNIT),
        origin=np.full((2 * count, 2), -1, dtype=np.int32),
        bounds=np.arange(0, 2 * count + 1, 2),
    )


def _bend_units(
    layer: Layer,
    rows: np.ndarray,
    kinks: np.ndarray,
    share: np.ndarray,
    origin: np.ndarray,
    depth: int,
) -> np.ndarray:
    """How the units of a layer bend at old and new points, up to a positive factor a point.

    At a new point one unit bends alone, along its own axis. At an old one the rows bend as the
    weights pass it on, and a unit as its winner, which is beyond doubt there. The first of the two
    tables holds that, the second the same with every term of every sum made positive: it bounds
    the rounding of the first, and is 0 iff no path is left.
    """
    made = _passed_on(kinks, layer.weights, depth)
    winners = layer.winners(rows)
    made = np.where(winners < 0, 0.0, made[:, np.arange(len(rows))[:, None], winners])
    bent = np.zeros((2, len(share), layer.units))
    bent[:, share < 0.0] = made
    new = np.flatnonzero(share >= 0.0)
    bent[:, new, origin[new, 1]] = 1.0
    return bent


def _passed_on(kinks: np.ndarray, weights: np.ndarray, depth: int) -> np.ndarray:
    """How the rows bend where their inputs do.

    In the sum of magnitudes small weights count as 2^(-900/(layers + 1)), so that a path that is
    there never underflows to none; that sum may be too large, not too small.
    """
    floor = np.where(weights != 0.0, np.maximum(np.abs(weights), 2.0 ** (-900 / (depth + 1))), 0.0)
    return np.stack([kinks[0] @ weights.T, kinks[1] @ floor.T])


def _count_silent(
    chain: Chain, kinks: np.ndarray, origin: np.ndarray, bounds: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """For each line how many breakpoints do not bend the output, and how many may or may not.

    A term of the sum of products along a chain of layers takes at most as many roundings as there
    are units on the way. Without a path to the output nothing bends; a sum of magnitudes that is
    not 0 has one, be it finite or not.
    """
    made = origin[:, 0] >= 0
    bend, most = _passed_on(kinks, chain.weights, len(chain.layers))
    off = 2.0 * gamma(sum(layer.units for layer in chain.layers))  # once for the sum of magnitudes
    loud = (np.abs(bend) > off * most).any(axis=1)
    dead = (most == 0.0).all(axis=1)
    line = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return _count_by_line(line, made & ~loud, bounds), _count_by_line(
        line, made & ~loud & ~dead, bounds
    )


def _count_by_line(line: np.ndarray, chosen: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    return np.bincount(line[chosen], minlength=len(bounds) - 1)
