"""Splitting cells by a layer, in floats whose signs are proved or handed back.

A cell is a polytope: vertices, each with a bound of how far it may be off, and with bits that say
which facets it lies on. A clip needs the signs of one affine form at all vertices and nothing else:
vertices beyond go, edges that cross get a vertex, and facets that have no vertex strictly inside
are no facets any more. Two vertices span an edge iff no third one lies on all facets that they
share; if one of them lies on exactly d facets, d - 1 shared ones suffice.
"""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import numpy as np
from numba import njit

from hardmax.numerics import GROWN, TINY, UNIT

DONE, FULL = 0, 1  # what became of a cell: split, or it did not fit
UNCHANGED, EMPTY = -1, -2  # what a clip leaves, where it is not a number of vertices
CLOSE, ROOM = -3, -4


@njit(cache=True, error_model="numpy")
def _ones(x):
    """How many bits are set."""
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, error_model="numpy")
def compose(rows, forms, reach, made, bulk, slope):
    """Rows of the layer as forms of the input: `made` is coefficients, constant, error.

    An error bounds how far the form is off anywhere in the domain. A sum of n products of rounded
    coefficients and a rounded constant, in any order, takes at most n + 2 roundings of each term;
    one more pays for products of errors. A coefficient may be off by the smallest number, times
    the form that it is multiplied with, and so may each product, times the reach: that is `lost`.
    `bulk` adds what evaluating the form at a point rounds, d + 1 times, and what the difference to
    another form does; `slope` bounds how much its value moves when the point does. Infinities and
    nan are handed on, and leave every comparison open.
    """
    n, d = forms.shape[0], forms.shape[1] - 2
    unsure = np.empty(n)
    wide, lost = 1.0, 0.0
    for c in range(d):
        wide += reach[c]
    for j in range(n):
        total = abs(forms[j, d])
        for c in range(d):
            total += abs(forms[j, c]) * reach[c]
        unsure[j] = forms[j, d + 1] + (n + 3) * UNIT * total
        lost += total + forms[j, d + 1]
    lost = TINY * (lost + (n + 4) * wide)
    weights, heavy, level = rows
    if n:
        np.dot(weights, forms, made)
        errors = np.dot(heavy, unsure)
    else:
        made[:], errors = 0.0, np.zeros(len(level))
    for r in range(len(level)):
        made[r, d] += level[r]
        made[r, d + 1] = (errors[r] + (n + 3) * UNIT * abs(level[r])) * GROWN + lost
        value, steep = abs(made[r, d]), 0.0
        for c in range(d):
            value += abs(made[r, c]) * reach[c]
            steep += abs(made[r, c])
        bulk[r] = (made[r, d + 1] + (d + 3) * UNIT * value) * GROWN + (d + 4) * TINY
        slope[r] = steep * GROWN


@njit(cache=True, error_model="numpy")
def _value(form, point):
    d = len(point)
    total = form[d]
    for c in range(d):
        total += form[c] * point[c]
    return total


@njit(cache=True, error_model="numpy")
def _beats(values, bulk, slope, j, q, i, p, stray, count, fast):
    """Whether q is above p on the whole cell: 1 surely, 2 if both may be one form, else 0.

    In exact mode beyond the rounding at every vertex, which nan never is. In fast mode what is too
    close counts as equal, so that touching suffices.
    """
    above = False
    level, steep = bulk[p] + bulk[q], slope[p] + slope[q]
    for v in range(count):
        gap = values[j, v] - values[i, v]
        room = level + stray[v] * steep
        if gap > room:
            above = True
        elif not fast or gap < -room:
            return 0
    return 1 if above else 2


@njit(cache=True, error_model="numpy")
def sift(made, bulk, slope, score, points, stray, found, count, values, fast, harmless):
    """Keep the pieces that may win somewhere in the cell; -1 if some tie and it matters."""
    nv, d, kept = len(stray), points.shape[1], 0
    for i in range(count):
        form = made[score[found[i]]]
        for v in range(nv):
            total = form[d]
            for c in range(d):
                total += form[c] * points[v, c]
            values[i, v] = total
    for i in range(count):
        p = score[found[i]]
        dead = False
        for j in range(count):
            if j == i:
                continue
            verdict = _beats(values, bulk, slope, j, score[found[j]], i, p, stray, nv, fast)
            if verdict == 2 and not harmless:
                return -1
            if verdict == 1 or (verdict == 2 and j < i):
                dead = True
                break
        if not dead:
            found[count + kept] = found[i]
            kept += 1
    for i in range(kept):
        found[i] = found[count + i]
    return max(kept, 1)  # in fast mode closeness is not transitive: then the first stands for all


@njit(cache=True, error_model="numpy")
def _adjacent(bits, a, b, count, d):
    """Whether two vertices span an edge."""
    words = bits.shape[1]
    common = on_a = on_b = 0
    for w in range(words):
        common += _ones(bits[a, w] & bits[b, w])
        on_a += _ones(bits[a, w])
        on_b += _ones(bits[b, w])
    if common < d - 1:
        return False
    if on_a == d or on_b == d:
        return True
    for v in range(count):
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


@njit(cache=True, error_model="numpy")
def _sides(form, room, steep, points, stray, count, fast, value, slack, side):
    """The signs of a form at the vertices; UNCHANGED, EMPTY, CLOSE, or 0 for a proper cut."""
    plus = minus = 0
    for v in range(count):
        value[v] = _value(form, points[v])
        slack[v] = room + stray[v] * steep
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


@njit(cache=True, error_model="numpy")
def _cross(points, stray, a, b, value, slack, out, fast):
    """The vertex on the edge from a to b, and how far it may be off.

    With t = f(a)/(f(a) - f(b)) and D = f(a) - f(b), errors s_a, s_b of the two values move t by at
    most (|f(b)|/D s_a + |f(a)|/D s_b)/(D - s_a - s_b). Rounding moves t by 2 u, and the vertex by
    4 u of the ends; the last difference loses at most 4 u D. What overflows says nothing: then the
    vertex may be anywhere on the edge. In fast mode it is believed but for its own rounding: what
    counts as equal would grow with every flat crossing.
    """
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


@njit(cache=True, error_model="numpy")
def clip(form, room, steep, source, count, label, target, work, fast):
    """The part of a cell where form >= 0, into `target`; its number of vertices, or why not."""
    points, stray, bits, labels = source
    out_points, out_stray, out_bits, out_labels = target
    value, slack, side, kept = work
    verdict = _sides(form, room, steep, points, stray, count, fast, value, slack, side)
    if verdict != 0:
        return verdict
    words, d = bits.shape[1], points.shape[1]
    kept[:] = 0
    for v in range(count):
        if side[v] == 1:
            for w in range(words):
                kept[w] |= bits[v, w]
    place = -1
    for f in range(64 * words):
        if (kept[f >> 6] >> np.uint64(f & 63)) & np.uint64(1) == np.uint64(0):
            place = f
            break
    if place < 0:
        return ROOM
    word, bit = place >> 6, np.uint64(1) << np.uint64(place & 63)
    out_labels[:] = labels
    out_labels[place] = label
    made = 0
    for v in range(count):
        if side[v] >= 0:
            if made == len(out_stray):
                return ROOM
            out_points[made], out_stray[made] = points[v], stray[v]
            for w in range(words):
                out_bits[made, w] = bits[v, w] & kept[w]
            if side[v] == 0:
                out_bits[made, word] |= bit
            made += 1
    for a in range(count):
        if side[a] != 1:
            continue
        for b in range(count):
            if side[b] != -1 or not _adjacent(bits, a, b, count, d):
                continue
            if made == len(out_stray):
                return ROOM
            out_stray[made] = _cross(points, stray, a, b, value, slack, out_points[made], fast)
            for w in range(words):
                out_bits[made, w] = bits[a, w] & bits[b, w]
            out_bits[made, word] |= bit
            made += 1
    return made if made > d else EMPTY  # fewer can only be in fast mode, where signs are believed


@njit(cache=True, error_model="numpy")
def candidates(
    tables, reach, forms, points, stray, fast, made, bulk, slope, found, sizes, values, known
):
    """For a cell: which pieces of each group may win. `found` lists them from starts[g] on.

    `known` holds winners that are decided already, and -1 elsewhere.
    Returns False if pieces tie and their payloads are not their scores.
    """
    rows, starts, score, harmless = tables
    compose(rows, forms, reach, made, bulk, slope)
    pool = np.empty(2 * len(values), dtype=np.int64)
    for g in range(len(starts) - 1):
        count = starts[g + 1] - starts[g]
        for i in range(count):
            pool[i] = starts[g] + i
        if known[g] >= 0:
            pool[0], count = starts[g] + known[g], 1
        if count > 1:
            count = sift(
                made, bulk, slope, score, points, stray, pool, count, values, fast, harmless
            )
        if count < 0:
            return False
        sizes[g] = count
        found[starts[g] : starts[g] + count] = pool[:count]
    return True
