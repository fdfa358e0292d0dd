"""Cells of a ReLU network on a convex polygon, depth first, compiled.

One file, longer than others, because Numba's cache sees changes in the file of the function that
Python calls and in no other: kernels that call each other across files would go stale.

**A node** is a convex polygon, a layer, the neurons of that layer which are still open on it, the
pattern of the others, and the affine maps of the next layer as far as they are known: the bias and
the terms of the neurons that are on. Looking at a node, every open neuron whose affine form has
one sign on all corners is decided; what is on adds its column times its form (a matrix of rank 1)
to the next layer's maps, once for all cells inside. If no neuron is left, the polygon is a cell of
this layer and becomes a node of the next one, all of whose neurons are open. Otherwise the middle
one of the crossing neurons cuts the polygon in two nodes (the middle one, so that n parallel walls
in order are looked at about log n times each, not n times). Nodes wait on a stack no deeper than
the number of neurons: memory does not depend on the number of cells.

**What is believed.** A corner p is where the lines of two sides meet; p is known up to `r` in each
coordinate. Let L_1, L_2 be the float forms of the sides, G the matrix of their gradients, q the
float corner. The true forms vanish at p, and a form is off by at most its slack s on the domain, so
|L_k(q) - L_k(p)| <= |value found at q| + s_k = e_k, the rounding of that value included in s_k, and
q - p = G^{-1} (L(q) - L(p)) is at most (|b_2| e_1 + |b_1| e_2) / |det G| in x, likewise in y. The
sign of a neuron with float form (a, b, c) at p is that of the value found at q if this is larger
than slack + (|a| + |b|) r. Other signs are *unsure*: the walk stops, asks for the exact ones, and
goes on with them. In fast mode r is 0 and unsure signs are taken for 0.

**Silent facets.** On the two sides of a facet with label (layer, i) the pattern differs in that
neuron alone, unless the facet is *marked*: some other neuron was found to vanish along it. (Nothing
is lost where a neuron is identically 0 for want of nonzero terms: seen from the side on which
neuron i is on, the first layer in which anything but i changes holds a neuron that vanishes on the
facet and not on the cell.) The affine maps then differ by D z_i, where D is the output's
sensitivity to the neuron; a random combination of the outputs that is not 0 shows that D is not.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.core import cgutils
from numba.extending import intrinsic

from hardmax.numerics import GROWN, TINY, UNIT

DONE, PAUSED, MORE_NODES, MORE_SIDES, SIGNS, FACET, FULL, OVER = range(8)  # why the walk stopped
COUNT, REGIONS, EMIT, STEP = range(4)  # what it is for
TOP, GIVEN, SIDE, SILENT, EMITTED, CELLS, LAYERS = range(7)  # places in `now`
X, Y, R, A, B, C, S = range(7)  # rows of a polygon: corners, then the lines of the sides
LAYER, SIDES, OPEN = range(3)  # places in a node's head; OPEN is -1 if all neurons are
UNSURE = 2

_LEAST = 1e-100  # determinants below are not trusted: rows are about 1, so lines are parallel
_LOST = 8.0 * TINY / _LEAST  # by underflow of eight products, after division by a determinant


_called = njit(nogil=True)  # part of the two functions that Python calls, which alone are cached
_inlined = njit(nogil=True, forceinline=True)


class Net(NamedTuple):
    """A Stack. Neurons are numbered through; `start[layer]` is the first of hidden layer layer."""

    start: np.ndarray
    columns: np.ndarray  # columns[g, j]: from neuron number g to neuron j of the next layer
    rows: np.ndarray  # rows[g - start[1], i]: to neuron number g from neuron i of the layer before
    bias: np.ndarray  # by layer, then neuron; so that the compiler sees indices that run from 0
    slack: np.ndarray
    names: np.ndarray  # two random words a neuron
    out: np.ndarray  # how the combined output depends on the last hidden layer
    speaks: np.ndarray  # whether any output depends on that neuron
    faint: np.ndarray  # sensitivities at most this large may be 0
    reach: np.ndarray
    first: np.ndarray  # the maps of the first layer


class Walk(NamedTuple):
    """Everything that changes: the nodes, then what the layers below them are, then scratch."""

    now: np.ndarray
    head: np.ndarray
    poly: np.ndarray
    code: np.ndarray  # of a side: twice its label, plus 1 if it is marked
    open: np.ndarray
    sums: np.ndarray  # affine maps of the next layer, as far as they are known
    pattern: np.ndarray
    name: np.ndarray
    maps: np.ndarray  # of each layer, on the cell that the walk is in
    below: np.ndarray  # patterns of finished layers
    signs: np.ndarray
    low: np.ndarray
    high: np.ndarray
    on: np.ndarray
    kept: np.ndarray
    spare: np.ndarray  # a polygon
    spare_code: np.ndarray
    felt: np.ndarray  # sensitivities, by layer
    touched: np.ndarray
    silent: np.ndarray
    cells: np.ndarray  # emitted: corners
    cell_heads: np.ndarray  # number of sides, then codes
    cell_patterns: np.ndarray


def _without_owner(typing, array):  # type: ignore[no-untyped-def]
    """The same array without an owner, so that nobody counts references to it.

    Counting is atomic, and took a third of the time. Safe, since the caller of `run` owns the
    arrays until it returns.
    """

    def build(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        found = context.make_array(signature.args[0])(context, builder, arguments[0])
        found.meminfo = cgutils.get_null_value(found.meminfo.type)
        found.parent = cgutils.get_null_value(found.parent.type)
        return found._getvalue()

    return array(array), build


_borrowed: Any = intrinsic(_without_owner)


# ---- affine forms --------------------------------------------------------------------------------


@_inlined
def _extremes(maps, layer, m, poly, s, n, low, high):  # type: ignore[no-untyped-def]
    """The least and the largest value of every neuron over the corners."""
    x, y = poly[s, X, 0], poly[s, Y, 0]
    for i in range(m):
        value = maps[layer, 0, i] * x + maps[layer, 1, i] * y + maps[layer, 2, i]
        low[i] = value
        high[i] = value
    for k in range(1, n):
        x, y = poly[s, X, k], poly[s, Y, k]
        for i in range(m):
            value = maps[layer, 0, i] * x + maps[layer, 1, i] * y + maps[layer, 2, i]
            low[i] = value if value < low[i] else low[i]
            high[i] = value if value > high[i] else high[i]


@_inlined
def _sort_all(maps, layer, m, slack, poly, s, n, low, high, open_, on, pattern):  # type: ignore[no-untyped-def]
    """Decide what floats decide, of all neurons: how many stay open, how many are on."""
    _extremes(maps, layer, m, poly, s, n, low, high)
    r = 0.0
    for k in range(n):
        r = max(r, poly[s, R, k])
    for i in range(m):
        doubt = slack[layer, i] + (abs(maps[layer, 0, i]) + abs(maps[layer, 1, i])) * r
        low[i] -= doubt
        high[i] += doubt
    stay, active = 0, 0
    for i in range(m):
        is_on = low[i] > 0.0
        is_off = high[i] < 0.0
        on[active] = i
        active += is_on
        pattern[s, i] = is_on
        open_[s, stay] = i
        stay += 1 - (is_on | is_off)
    return stay, active


@_inlined
def _sort_open(maps, layer, slack, poly, s, n, open_, count, on, pattern):  # type: ignore[no-untyped-def]
    """The same for a list of neurons."""
    r = 0.0
    for k in range(n):
        r = max(r, poly[s, R, k])
    stay, active = 0, 0
    for q in range(count):
        i = open_[s, q]
        a, b, c = maps[layer, 0, i], maps[layer, 1, i], maps[layer, 2, i]
        doubt = slack[layer, i] + (abs(a) + abs(b)) * r
        least = a * poly[s, X, 0] + b * poly[s, Y, 0] + c
        most = least
        for k in range(1, n):
            value = a * poly[s, X, k] + b * poly[s, Y, k] + c
            least = value if value < least else least
            most = value if value > most else most
        is_on = least > doubt
        is_off = most < -doubt
        on[active] = i
        active += is_on
        pattern[s, i] = is_on
        open_[s, stay] = i
        stay += 1 - (is_on | is_off)
    return stay, active


@_inlined
def _weigh(total, s, columns, first, width, maps, layer, on, active):  # type: ignore[no-untyped-def]
    """Add what neurons that are on give to the next layer's maps, four at a time."""
    q = 0
    while q + 4 <= active:
        i, j, k, h = on[q], on[q + 1], on[q + 2], on[q + 3]
        for part in range(3):
            a, b, c, d = (
                maps[layer, part, i],
                maps[layer, part, j],
                maps[layer, part, k],
                maps[layer, part, h],
            )
            for t in range(width):
                total[s, part, t] += (columns[first + i, t] * a + columns[first + j, t] * b) + (
                    columns[first + k, t] * c + columns[first + h, t] * d
                )
        q += 4
    while q < active:
        i = on[q]
        for part in range(3):
            a = maps[layer, part, i]
            for t in range(width):
                total[s, part, t] += columns[first + i, t] * a
        q += 1


@_inlined
def _rename(name, s, names, first, on, active):  # type: ignore[no-untyped-def]
    for q in range(active):
        name[s, 0] ^= names[first + on[q], 0]
        name[s, 1] ^= names[first + on[q], 1]


# ---- signs ---------------------------------------------------------------------------------------


@_called
def _is_nothing(start, columns, bias, slack, below, layer, i):  # type: ignore[no-untyped-def]
    """Whether a neuron is 0 on the cell because every term is: no bias, no weight from what is on.

    Its form is 0 in floats when this is called; of the first layer that is the truth if its floats
    are exact, and then its slack is 0, as that of nothing else is.
    """
    first = start[layer]
    if layer == 0:
        return slack[0, i] == 0.0
    if bias[layer, i] != 0.0:
        return False
    for j in range(first - start[layer - 1]):
        if below[layer - 1, j] and columns[start[layer - 1] + j, i] != 0.0:
            return False
    return True


@_inlined
def _signs(maps, layer, slack, poly, s, n, open_, count, signs):  # type: ignore[no-untyped-def]
    """The signs of open neurons at all corners; how many are unsure."""
    unsure = 0
    for q in range(count):
        i = open_[s, q]
        a, b, c, e = maps[layer, 0, i], maps[layer, 1, i], maps[layer, 2, i], slack[layer, i]
        for k in range(n):
            value = a * poly[s, X, k] + b * poly[s, Y, k] + c
            doubt = e + (abs(a) + abs(b)) * poly[s, R, k]
            if value > doubt:
                signs[q, k] = 1
            elif value < -doubt:
                signs[q, k] = -1
            else:
                signs[q, k] = UNSURE
                unsure += 1
    return unsure


@_called
def _forget_nothings(  # type: ignore[no-untyped-def]
    start, columns, bias, slack, maps, below, layer, open_, s, count, pattern
):
    """Neurons that are identically 0 for want of terms are off: there is nothing to decide."""
    stay = 0
    for q in range(count):
        i = open_[s, q]
        empty = maps[layer, 0, i] == 0.0 and maps[layer, 1, i] == 0.0 and maps[layer, 2, i] == 0.0
        if empty and _is_nothing(start, columns, bias, slack, below, layer, i):
            pattern[s, i] = 0
        else:
            open_[s, stay] = i
            stay += 1
    return stay


@_inlined
def _settle(signs, n, open_, s, count, code, on, pattern, kept):  # type: ignore[no-untyped-def]
    """Split open neurons by their signs into on, off and crossing; mark sides they vanish on."""
    stay, active = 0, 0
    for q in range(count):
        i = open_[s, q]
        plus, minus, zero = False, False, False
        for k in range(n):
            plus |= signs[q, k] == 1
            minus |= signs[q, k] == -1
            zero |= signs[q, k] != 1 and signs[q, k] != -1
        if plus and minus:
            open_[s, stay] = i
            kept[stay] = q
            stay += 1
            continue
        pattern[s, i] = plus
        on[active] = i
        active += plus
        if zero:
            for k in range(n):
                after = k + 1 if k + 1 < n else 0
                if abs(signs[q, k]) != 1 and abs(signs[q, after]) != 1:
                    code[s, k] |= 1
    return stay, active


# ---- cutting -------------------------------------------------------------------------------------


@_inlined
def _meeting(poly, s, k, after, a, b, c, e, reach, fast):  # type: ignore[no-untyped-def]
    """Where the line (a, b, c) meets side k, and how far off that may be.

    One Newton step from a corner, which is the solution, as both forms are affine. Slacks hold
    within reach, where the true point is: going back there brings the float point closer.
    """
    x, y = poly[s, X, k], poly[s, Y, k]
    a1, b1, c1, e1 = poly[s, A, k], poly[s, B, k], poly[s, C, k], poly[s, S, k]
    here = a * x + b * y + c
    side = a1 * x + b1 * y + c1
    one, two = a1 * b, a * b1
    det = one - two
    size = abs(det) - 4.0 * UNIT * (abs(one) + abs(two))
    if not _LEAST < size < np.inf:
        there = a * poly[s, X, after] + b * poly[s, Y, after] + c
        t = here / (here - there) if here != there else 0.5
        t = min(max(t, 0.0), 1.0)
        x += t * (poly[s, X, after] - x)
        y += t * (poly[s, Y, after] - y)
        return x, y, 0.0 if fast else np.inf
    x -= (b * side - b1 * here) / det
    y -= (a1 * here - a * side) / det
    x = min(max(x, -reach[0]), reach[0])
    y = min(max(y, -reach[1]), reach[1])
    if fast:
        return x, y, 0.0
    e += abs(a * x + b * y + c)
    e1 += abs(a1 * x + b1 * y + c1)
    off = max(abs(b) * e1 + abs(b1) * e, abs(a) * e1 + abs(a1) * e) / size
    return x, y, off * GROWN + _LOST if off < np.inf else np.inf


@_inlined
def _put(poly, code, t, at, x, y, r, a, b, c, e, label):  # type: ignore[no-untyped-def]
    poly[t, X, at], poly[t, Y, at], poly[t, R, at] = x, y, r
    poly[t, A, at], poly[t, B, at], poly[t, C, at], poly[t, S, at] = a, b, c, e
    code[t, at] = label


@_inlined
def _keep(poly, code, s, k, other, other_code, t, at):  # type: ignore[no-untyped-def]
    """Corner k and its side go on as they are."""
    for row in range(7):
        other[t, row, at] = poly[s, row, k]
    other_code[t, at] = code[s, k]


@_inlined
def _cut(poly, code, s, n, signs, row, a, b, c, e, label, reach, spare, spare_code, fast):  # type: ignore[no-untyped-def]
    """The part where the form is positive to node s + 1, the other one to `spare`; their sizes.

    The form has both signs, so a corner on its line has one neighbour on each side.
    """
    plus, minus = 0, 0
    for k in range(n):
        after = k + 1 if k + 1 < n else 0
        here, there = signs[row, k], signs[row, after]
        if here == 1:
            _keep(poly, code, s, k, poly, code, s + 1, plus)
            plus += 1
            if there == -1:
                x, y, r = _meeting(poly, s, k, after, a, b, c, e, reach, fast)
                _put(poly, code, s + 1, plus, x, y, r, a, b, c, e, label)
                _keep(poly, code, s, k, spare, spare_code, 0, minus)
                spare[0, X, minus], spare[0, Y, minus], spare[0, R, minus] = x, y, r
                plus, minus = plus + 1, minus + 1
        elif here == -1:
            _keep(poly, code, s, k, spare, spare_code, 0, minus)
            minus += 1
            if there == 1:
                x, y, r = _meeting(poly, s, k, after, a, b, c, e, reach, fast)
                _put(spare, spare_code, 0, minus, x, y, r, a, b, c, e, label)
                _keep(poly, code, s, k, poly, code, s + 1, plus)
                poly[s + 1, X, plus], poly[s + 1, Y, plus], poly[s + 1, R, plus] = x, y, r
                plus, minus = plus + 1, minus + 1
        else:
            x, y, r = poly[s, X, k], poly[s, Y, k], poly[s, R, k]
            if there == 1:
                _keep(poly, code, s, k, poly, code, s + 1, plus)
                _put(spare, spare_code, 0, minus, x, y, r, a, b, c, e, label)
            else:
                _keep(poly, code, s, k, spare, spare_code, 0, minus)
                _put(poly, code, s + 1, plus, x, y, r, a, b, c, e, label)
            plus, minus = plus + 1, minus + 1
    return plus, minus


@_inlined
def _take_back(poly, code, s, spare, spare_code, n):  # type: ignore[no-untyped-def]
    for row in range(7):
        for k in range(n):
            poly[s, row, k] = spare[0, row, k]
    for k in range(n):
        code[s, k] = spare_code[0, k]


@_inlined
def _share(sums, pattern, open_, name, s, width, wide, count):  # type: ignore[no-untyped-def]
    """What the two halves have in common."""
    for part in range(3):
        for t in range(wide):
            sums[s + 1, part, t] = sums[s, part, t]
    for i in range(width):
        pattern[s + 1, i] = pattern[s, i]
    for q in range(count):
        open_[s + 1, q] = open_[s, q]
    name[s + 1, 0] = name[s, 0]
    name[s + 1, 1] = name[s, 1]


@_inlined
def _branch(  # type: ignore[no-untyped-def]
    start, columns, slack, names, reach, head, poly, code, open_, sums, pattern, name, maps, signs,
    on, kept, spare, spare_code, s, layer, n, count, fast, deeper,
):  # fmt: skip
    """Cut a node by the middle one of the neurons that cross it."""
    first, middle = start[layer], count // 2
    i = open_[s, middle]
    a, b, c, e = maps[layer, 0, i], maps[layer, 1, i], maps[layer, 2, i], slack[layer, i]
    plus, minus = _cut(
        poly, code, s, n, signs, kept[middle], a, b, c, e, 2 * (first + i), reach, spare,
        spare_code, fast,
    )  # fmt: skip
    _take_back(poly, code, s, spare, spare_code, minus)
    open_[s, middle] = open_[s, count - 1]
    wide = start[layer + 2] - start[layer + 1] if deeper else 0
    _share(sums, pattern, open_, name, s, start[layer + 1] - first, wide, count)
    head[s, SIDES], head[s, OPEN] = minus, count - 1
    head[s + 1, LAYER], head[s + 1, SIDES], head[s + 1, OPEN] = layer, plus, count - 1
    pattern[s, i], pattern[s + 1, i] = 0, 1
    on[0] = i
    _switch_on(start, columns, names, sums, name, maps, on, s + 1, layer, 1, deeper)


@_inlined
def _switch_on(start, columns, names, sums, name, maps, on, s, layer, active, deeper):  # type: ignore[no-untyped-def]
    """The neurons listed in `on` are on: the next layer's maps and the name learn it."""
    if deeper:
        _weigh(
            sums,
            s,
            columns,
            start[layer],
            start[layer + 2] - start[layer + 1],
            maps,
            layer,
            on,
            active,
        )
    _rename(name, s, names, start[layer], on, active)


@_inlined
def _begin(start, bias, head, sums, s, layer, deeper):  # type: ignore[no-untyped-def]
    """Node s begins layer layer, whose maps are known: all neurons are open, nothing is summed."""
    head[s, LAYER], head[s, OPEN] = layer, -1
    if deeper:
        for t in range(start[layer + 2] - start[layer + 1]):
            sums[s, 0, t] = 0.0
            sums[s, 1, t] = 0.0
            sums[s, 2, t] = bias[layer + 1, t]


@njit(cache=True, nogil=True)
def enter(net, walk, s, layer, deeper):  # type: ignore[no-untyped-def]
    """The same, for Python."""
    _begin(net.start, net.bias, walk.head, walk.sums, s, layer, deeper)


@_inlined
def _descend(start, bias, head, sums, pattern, maps, below, s, layer, deeper):  # type: ignore[no-untyped-def]
    """Node s is a cell of layer layer: go on with the next layer."""
    for i in range(start[layer + 1] - start[layer]):
        below[layer, i] = pattern[s, i]
    for part in range(3):
        for t in range(start[layer + 2] - start[layer + 1]):
            maps[layer + 1, part, t] = sums[s, part, t]
    _begin(start, bias, head, sums, s, layer + 1, deeper)


# ---- silent facets -------------------------------------------------------------------------------


@_inlined
def _feel(net, walk, s, last, down):  # type: ignore[no-untyped-def]
    """The combined output's sensitivity to every neuron of the layers from `down` on."""
    felt, rows, on = walk.felt, net.rows, walk.on
    for i in range(net.start[last + 1] - net.start[last]):
        felt[last, i] = net.out[i]
    for layer in range(last, down, -1):
        width, first = net.start[layer] - net.start[layer - 1], net.start[layer] - net.start[1]
        active = 0
        for j in range(net.start[layer + 1] - net.start[layer]):
            on[active] = j
            active += walk.pattern[s, j] if layer == last else walk.below[layer, j]
        on[active : active + 3] = 0  # the last group is filled up, with factors 0
        for i in range(width):
            felt[layer - 1, i] = 0.0
        for q in range(0, active, 4):
            a, b, c, d = on[q], on[q + 1], on[q + 2], on[q + 3]
            p = felt[layer, a]
            w = felt[layer, b] if q + 1 < active else 0.0
            u = felt[layer, c] if q + 2 < active else 0.0
            v = felt[layer, d] if q + 3 < active else 0.0
            for i in range(width):
                felt[layer - 1, i] += (rows[first + a, i] * p + rows[first + b, i] * w) + (
                    rows[first + c, i] * u + rows[first + d, i] * v
                )


@_called
def _is_heard(net, walk, s, last, layer, i):  # type: ignore[no-untyped-def]
    """Whether some path of nonzero weights through neurons that are on leads to an output."""
    if layer == last:
        return net.speaks[i]
    for j in range(net.start[layer + 2] - net.start[layer + 1]):
        walk.touched[0, j] = net.columns[net.start[layer] + i, j] != 0.0
    for t in range(layer + 1, last):
        width, wide = net.start[t + 1] - net.start[t], net.start[t + 2] - net.start[t + 1]
        for j in range(wide):
            walk.touched[1, j] = False
            for k in range(width):
                if walk.touched[0, k] and walk.below[t, k]:
                    walk.touched[1, j] |= net.columns[net.start[t] + k, j] != 0.0
        for j in range(wide):
            walk.touched[0, j] = walk.touched[1, j]
    for j in range(net.start[last + 1] - net.start[last]):
        if walk.touched[0, j] and walk.pattern[s, j] and net.speaks[j]:
            return True
    return False


@_inlined
def _layer_of(start, g):  # type: ignore[no-untyped-def]
    layer = 0
    while start[layer + 1] <= g:
        layer += 1
    return layer


@_inlined
def _facets(net, walk, s, n, last, fast):  # type: ignore[no-untyped-def]
    """Write down the silent facets of a cell, seen from their on-side; True to ask about one."""
    down = last + 1
    for k in range(walk.now[SIDE], n):
        g = walk.code[s, k] >> 1
        if g >= 0:
            layer = _layer_of(net.start, g)
            i = g - net.start[layer]
            if walk.pattern[s, i] if layer == last else walk.below[layer, i]:
                down = min(down, layer)
    if down <= last:
        _feel(net, walk, s, last, down)
    for k in range(walk.now[SIDE], n):
        g = walk.code[s, k] >> 1
        if g < 0:
            continue
        layer = _layer_of(net.start, g)
        i = g - net.start[layer]
        if not (walk.pattern[s, i] if layer == last else walk.below[layer, i]):
            continue
        marked = walk.code[s, k] & 1 and not fast
        if abs(walk.felt[layer, i]) > net.faint[g] and not marked:
            continue
        if marked or (not fast and _is_heard(net, walk, s, last, layer, i)):
            walk.now[SIDE] = k
            return True
        at = walk.now[SILENT]
        for word in range(2):
            walk.silent[at, word] = walk.name[s, word]
            walk.silent[at, 2 + word] = walk.name[s, word] ^ net.names[g, word]
        walk.now[SILENT] = at + 1
    walk.now[SIDE] = 0
    return False


# ---- the walk ------------------------------------------------------------------------------------


@_called
def _emit(net, walk, s, n, last):  # type: ignore[no-untyped-def]
    at = walk.now[EMITTED]
    walk.cell_heads[at, 0] = n
    for k in range(n):
        walk.cells[at, 0, k], walk.cells[at, 1, k] = walk.poly[s, X, k], walk.poly[s, Y, k]
        walk.cell_heads[at, 1 + k] = walk.code[s, k]
    for layer in range(last):
        for i in range(net.start[layer + 1] - net.start[layer]):
            walk.cell_patterns[at, net.start[layer] + i] = walk.below[layer, i]
    for i in range(net.start[last + 1] - net.start[last]):
        walk.cell_patterns[at, net.start[last] + i] = walk.pattern[s, i]
    walk.now[EMITTED] = at + 1


@_inlined
def _leaf(net, walk, s, n, last, mode, fast):  # type: ignore[no-untyped-def]
    """A cell of the last layer; why the walk must stop, or PAUSED if it need not."""
    if mode == REGIONS:
        if walk.now[SILENT] + n > len(walk.silent):
            return FULL
        fresh = walk.now[SIDE] == 0
        asks = _facets(net, walk, s, n, last, fast)
        if fresh:
            walk.now[LAYERS + last] += 1
            walk.now[CELLS] += 1
        if asks:
            return FACET
    else:
        if mode == EMIT:
            if walk.now[EMITTED] == len(walk.cell_heads):
                return FULL
            _emit(net, walk, s, n, last)
        walk.now[LAYERS + last] += 1
        walk.now[CELLS] += 1
    walk.now[TOP] = s - 1
    return PAUSED


@_inlined
def _look(  # type: ignore[no-untyped-def]
    start, columns, bias, slack, names, now, head, poly, code, open_, sums, pattern, name, maps,
    below, signs, low, high, on, kept, s, layer, n, fast, deeper,
):  # fmt: skip
    """Decide open neurons; how many cross, or -1 if signs are unsure."""
    count, active = head[s, OPEN], 0
    if not now[GIVEN]:
        if count < 0:
            width = start[layer + 1] - start[layer]
            count, active = _sort_all(
                maps, layer, width, slack, poly, s, n, low, high, open_, on, pattern
            )
        else:
            count, active = _sort_open(maps, layer, slack, poly, s, n, open_, count, on, pattern)
        _switch_on(start, columns, names, sums, name, maps, on, s, layer, active, deeper)
        head[s, OPEN] = count
        if _signs(maps, layer, slack, poly, s, n, open_, count, signs) and not fast:
            count = _forget_nothings(
                start, columns, bias, slack, maps, below, layer, open_, s, count, pattern
            )
            head[s, OPEN] = count
            if _signs(maps, layer, slack, poly, s, n, open_, count, signs):
                return -1
    now[GIVEN] = 0
    count, active = _settle(signs, n, open_, s, count, code, on, pattern, kept)
    _switch_on(start, columns, names, sums, name, maps, on, s, layer, active, deeper)
    head[s, OPEN] = count
    return count


@_inlined
def _lent_net(net):  # type: ignore[no-untyped-def]
    return Net(
        _borrowed(net.start),
        _borrowed(net.columns),
        _borrowed(net.rows),
        _borrowed(net.bias),
        _borrowed(net.slack),
        _borrowed(net.names),
        _borrowed(net.out),
        _borrowed(net.speaks),
        _borrowed(net.faint),
        _borrowed(net.reach),
        _borrowed(net.first),
    )


@_inlined
def _lent_walk(walk):  # type: ignore[no-untyped-def]
    return Walk(
        _borrowed(walk.now),
        _borrowed(walk.head),
        _borrowed(walk.poly),
        _borrowed(walk.code),
        _borrowed(walk.open),
        _borrowed(walk.sums),
        _borrowed(walk.pattern),
        _borrowed(walk.name),
        _borrowed(walk.maps),
        _borrowed(walk.below),
        _borrowed(walk.signs),
        _borrowed(walk.low),
        _borrowed(walk.high),
        _borrowed(walk.on),
        _borrowed(walk.kept),
        _borrowed(walk.spare),
        _borrowed(walk.spare_code),
        _borrowed(walk.felt),
        _borrowed(walk.touched),
        _borrowed(walk.silent),
        _borrowed(walk.cells),
        _borrowed(walk.cell_heads),
        _borrowed(walk.cell_patterns),
    )


@njit(cache=True, nogil=True)
def run(net, walk, mode, fast, steps, limit):  # type: ignore[no-untyped-def]
    """Walk on, for so many nodes at most; why it stopped."""
    net, walk = _lent_net(net), _lent_walk(walk)
    start, columns, _, bias, slack, names, _, _, _, reach, _ = net
    (
        now, head, poly, code, open_, sums, pattern, name, maps, below, signs, low, high, on, kept,
        spare, spare_code, _, _, _, _, _, _,
    ) = walk  # fmt: skip
    last = len(start) - 2
    for _ in range(steps):
        s = now[TOP]
        if s < 0:
            return DONE
        if now[CELLS] > limit:
            return OVER
        layer, n = head[s, LAYER], head[s, SIDES]
        if s + 2 > len(head):
            return MORE_NODES
        if n + 2 > code.shape[1]:
            return MORE_SIDES
        deeper = layer < last
        count = _look(
            start, columns, bias, slack, names, now, head, poly, code, open_, sums, pattern, name,
            maps, below, signs, low, high, on, kept, s, layer, n, fast, deeper,
        )  # fmt: skip
        if count < 0:
            return SIGNS
        if count == 1 and layer == last and mode == COUNT:
            now[LAYERS + layer] += 2
            now[CELLS] += 2
            now[TOP] = s - 1
        elif count > 0:
            _branch(
                start, columns, slack, names, reach, head, poly, code, open_, sums, pattern, name,
                maps, signs, on, kept, spare, spare_code, s, layer, n, count, fast, deeper,
            )  # fmt: skip
            now[TOP] = s + 1
        elif deeper:
            now[LAYERS + layer] += 1
            _descend(start, bias, head, sums, pattern, maps, below, s, layer, layer + 1 < last)
        elif mode == STEP:
            return PAUSED
        elif mode == COUNT:
            now[LAYERS + layer] += 1
            now[CELLS] += 1
            now[TOP] = s - 1
        else:
            why = _leaf(net, walk, s, n, last, mode, fast)
            if why != PAUSED:
                return why
    return PAUSED
