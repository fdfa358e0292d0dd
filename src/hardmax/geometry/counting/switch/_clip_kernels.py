"""Clipping a cell, compiled, in floats whose signs are proved or handed back.

A cell is a polytope: vertices, each with a bound of how far it may be off, and with bits that say
which facets it lies on. A clip needs the signs of one affine form at all vertices and nothing else:
vertices beyond go, edges that cross get a vertex, and facets that have no vertex strictly inside
are no facets any more. Two vertices span an edge iff no third one lies on all facets that they
share; if one of them lies on exactly d facets, d - 1 shared ones suffice.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import copy_row, copy_rows, inline
from hardmax.geometry.counting.switch._arrays import (
    CLOSE,
    EMPTY,
    NO_ROOM,
    UNCHANGED,
    ClipScratch,
    FloatCell,
)
from hardmax.numerics import GROWN, TINY, UNIT


@inline
def _count_bits(x: np.uint64) -> np.int64:
    """How many bits are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@inline
def _are_adjacent(bits: np.ndarray, a: int, b: int, d: int) -> bool:
    """Whether two vertices span an edge."""
    words = bits.shape[1]
    common = on_a = on_b = np.int64(0)
    for w in range(words):
        common += _count_bits(bits[a, w] & bits[b, w])
        on_a += _count_bits(bits[a, w])
        on_b += _count_bits(bits[b, w])
    if common < d - 1:
        return False
    if on_a == d or on_b == d:
        return True
    for v in range(len(bits)):
        if v in (a, b):
            continue
        inside = True
        for w in range(words):
            both = bits[a, w] & bits[b, w]
            if bits[v, w] & both != both:
                inside = False
                break
        if inside:
            return False
    return True


@inline
def find_sides(cell: FloatCell, cut: ClipScratch, level: float, steep: float, fast: bool) -> int:
    """The signs of the form at the vertices; UNCHANGED, EMPTY, CLOSE, or 0 for a proper cut.

    Its values are off by at most level + stray * steep.
    """
    form, value, slack, side = cut.form, cut.value, cut.slack, cut.side
    d = cell.points.shape[1]
    plus = minus = 0
    for v in range(len(cell.stray)):
        total = form[d]
        for c in range(d):
            total += form[c] * cell.points[v, c]
        value[v] = total
        slack[v] = level + cell.stray[v] * steep
        side[v] = 0
        if value[v] > slack[v]:
            side[v] = 1
            plus += 1
        elif value[v] < -slack[v]:
            side[v] = -1
            minus += 1
        elif not fast:
            return CLOSE
    if plus == 0:
        return EMPTY
    return UNCHANGED if minus == 0 else 0


@inline
def cross(cell: FloatCell, cut: ClipScratch, a: int, b: int, out: np.ndarray, fast: bool) -> float:
    """The vertex on the edge from a to b, into `out`, and how far it may be off.

    With t = f(a)/(f(a) - f(b)) and D = f(a) - f(b), errors s_a, s_b of the two values move t by at
    most (|f(b)|/D s_a + |f(a)|/D s_b)/(D - s_a - s_b). Rounding moves t by 2 u, and the vertex by
    4 u of the ends; the last difference loses at most 4 u D. What overflows says nothing: then the
    vertex may be anywhere on the edge. In fast mode it is believed but for its own rounding: what
    counts as equal would grow with every flat crossing.
    """
    points, stray, value, slack = cell.points, cell.stray, cut.value, cut.slack
    span = value[a] - value[b]
    t = value[a] / span
    reach = big = 0.0
    for c in range(points.shape[1]):
        step = points[b, c] - points[a, c]
        out[c] = points[a, c] + t * step
        reach = max(reach, abs(step))
        big = max(big, abs(points[a, c]) + abs(points[b, c]))
    left = span - slack[a] - slack[b] - 4 * UNIT * span
    ends = max(stray[a], stray[b])
    if fast:
        return ends + 8 * UNIT * big
    reach += stray[a] + stray[b]
    share = 1.0
    if 0.0 < left < np.inf:
        moved = (-value[b] / span * slack[a] + t * slack[b] + 2 * TINY) / left + 3 * UNIT
        share = moved if moved < share else share
    return (ends + reach * share + 4 * UNIT * big) * GROWN + 2 * TINY


@inline
def _free_place(cell: FloatCell, cut: ClipScratch) -> int:
    """Where the new facet can be put: no vertex inside lies on a facet of this number; or -1."""
    words = cell.bits.shape[1]
    for w in range(words):
        cut.kept[w] = np.uint64(0)
    for v in range(len(cell.stray)):
        if cut.side[v] == 1:
            for w in range(words):
                cut.kept[w] |= cell.bits[v, w]
    for place in range(64 * words):
        if (cut.kept[place >> 6] >> np.uint64(place & 63)) & np.uint64(1) == np.uint64(0):
            return place
    return -1


@inline
def clip(
    cell: FloatCell, target: FloatCell, cut: ClipScratch, level: float, steep: float, fast: bool
) -> int:
    """The part of a cell where form >= 0, into `target`; its number of vertices, or why not."""
    verdict = find_sides(cell, cut, level, steep, fast)
    if verdict != 0:
        return verdict
    count, words, d = len(cell.stray), cell.bits.shape[1], cell.points.shape[1]
    place = _free_place(cell, cut)
    if place < 0:
        return NO_ROOM
    word, bit = place >> 6, np.uint64(1) << np.uint64(place & 63)
    copy_rows(target.labels, cell.labels)
    copy_row(target.labels[place], cut.label)
    made = 0
    for v in range(count):
        if cut.side[v] >= 0:
            if made == len(target.stray):
                return NO_ROOM
            copy_row(target.points[made], cell.points[v])
            target.stray[made] = cell.stray[v]
            for w in range(words):
                target.bits[made, w] = cell.bits[v, w] & cut.kept[w]
            if cut.side[v] == 0:
                target.bits[made, word] |= bit
            made += 1
    for a in range(count):
        if cut.side[a] != 1:
            continue
        for b in range(count):
            if cut.side[b] != -1 or not _are_adjacent(cell.bits, a, b, d):
                continue
            if made == len(target.stray):
                return NO_ROOM
            target.stray[made] = cross(cell, cut, a, b, target.points[made], fast)
            for w in range(words):
                target.bits[made, w] = cell.bits[a, w] & cell.bits[b, w]
            target.bits[made, word] |= bit
            made += 1
    return made if made > d else EMPTY  # fewer can only be in fast mode, where signs are believed
