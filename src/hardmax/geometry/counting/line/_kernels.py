"""One layer of a chain on many lines at once, compiled.

Along a line every row of a layer is continuous and straight between the breakpoints that earlier
layers made, so its values at those points tell all. The lines lie one behind another: line j has
the points `bounds[j]` to `bounds[j + 1] - 1`, its two ends among them, in order.

**What is known of the errors.** Let T be a true breakpoint and t its float, `scale` the numbers s_i
of a layer with |z_i| <= s_i on the segments and |z_i(x) - z_i(y)| <= s_i |x - y| (so for the number
t itself with s = 1). `error` holds one number e a point with |float of z_i - z_i(T)| <= e s_i for
all rows, and |t - T| <= e. A value beyond e s_i of 0 has a sign beyond doubt.

*Roots.* Between neighbours with values z_0, z_1 of opposite signs beyond doubt, the share
r = z_0 / (z_0 - z_1) rounds by at most 3u. The true row, straight too, is at most E = max(E_0, E_1)
at that share, E_k = e_k s_i, and its slope is at least |z_0| + |z_1| - E_0 - E_1. So the true share
is within w = E / (|z_0| + |z_1| - E_0 - E_1) + 3u. Two shares further apart than the sum of their
w are in the order of their floats.

*New points.* All rows are interpolated at r: what is off is at most max(e_0, e_1) s_j by the ends,
w H s_j from the share, where H >= T_1 - T_0 is the length, and 6u s_j from rounding. So the new
point has e = max(e_0, e_1) + w H + 6u, for t as well. Its own row is 0 by definition.

A decision that these bounds do not settle is counted as a doubt of its line, which is then
decided in whole numbers: the float answer is kept only if nobody asks for the truth.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

from hardmax.numerics import GROWN, UNIT

WIDE = 2.0**-10  # errors beyond it are not first-order any more


@register_jitable
def _insert(shares, widths, units, first, at, share, width, unit):  # type: ignore[no-untyped-def]
    """Into the list sorted from `first` to `at`; 1 if it is too close to a neighbour to be sure."""
    beyond = at
    while at > first and shares[at - 1] > share:
        shares[at], widths[at], units[at] = shares[at - 1], widths[at - 1], units[at - 1]
        at -= 1
    shares[at], widths[at], units[at] = share, width, unit
    close = 0
    if at > first and share - shares[at - 1] <= width + widths[at - 1]:
        close = 1
    if at < beyond and shares[at + 1] - share <= width + widths[at + 1]:
        close = 1
    return close


@register_jitable
def _between(z0, z1, off0, off1):  # type: ignore[no-untyped-def]
    """The share at which a row is 0, how far it may be off, and whether that is a doubt."""
    size = abs(z0) + abs(z1)
    slope = size - off0 - off1
    share = abs(z0) / size
    if not slope > 0.0:
        return share, 1.0, 1
    return share, (max(off0, off1) / slope + 3.0 * UNIT) * GROWN, 0


@njit(cache=True)
def _changes(signs, bounds):  # type: ignore[no-untyped-def]
    """How many neighbours differ in the sign bit, over all rows: at least as many as roots."""
    total = np.uint64(0)
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1] - 1):
            here, there = signs[k], signs[k + 1]
            for i in range(len(here)):
                total += (here[i] ^ there[i]) >> np.uint64(63)
    return np.int64(total)


@register_jitable
def _doubtful(row, scale, e):  # type: ignore[no-untyped-def]
    """How many values have no sign beyond doubt; nan has none."""
    found = 0
    for i in range(len(row)):
        found += 0 if abs(row[i]) > e * scale[i] * GROWN else 1
    return found


@register_jitable
def _roots(row, after, here, there, e0, e1, scale, found, first):  # type: ignore[no-untyped-def]
    """Appends the rows that change their sign, in the order of their roots: to where, and doubts.

    Sign bits are compared 64 at a time, since most rows change nothing. A power of 2 is a float,
    whose exponent tells which bit it is.
    """
    shares, widths, units = found
    at, doubt, n = first, 0, len(row)
    for low in range(0, n, 64):
        changed = np.uint64(0)
        for i in range(low, min(low + 64, n)):
            changed |= ((here[i] ^ there[i]) >> np.uint64(63)) << np.uint64(i - low)
        while changed:
            rest = changed & (changed - np.uint64(1))
            i = low + math.frexp(np.float64(changed ^ rest))[1] - 1
            changed = rest
            z0, z1 = row[i], after[i]
            if z0 != 0.0 and z1 != 0.0:
                share, width, bad = _between(z0, z1, e0 * scale[i], e1 * scale[i])
                doubt += bad + _insert(shares, widths, units, first, at, share, width, i)
                at += 1
    return at, doubt


@njit(cache=True)
def sign_changes(rows, error, bounds, scale):  # type: ignore[no-untyped-def]
    """Rectifiers: where rows change their sign, one root at most between neighbours.

    Gives shares, their widths and the units; between points k and k + 1 are `first[k]` to
    `first[k + 1] - 1` of them, in order; and doubts a line.
    """
    signs = rows.view(np.uint64)
    size = _changes(signs, bounds)
    found = np.empty(size), np.empty(size), np.empty(size, np.int32)
    first = np.zeros(len(rows) + 1, np.int64)
    doubts = np.zeros(len(bounds) - 1, np.int64)
    at = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1]):
            doubts[line] += (not error[k] <= WIDE) + _doubtful(rows[k], scale, error[k])
            if k + 1 < bounds[line + 1]:
                at, doubt = _roots(
                    *(rows[k], rows[k + 1], signs[k], signs[k + 1]),
                    *(error[k], error[k + 1], scale, found, at),
                )
                doubts[line] += doubt
            first[k + 1] = at
    return found[0][:at], found[1][:at], found[2][:at], first, doubts


@register_jitable
def _winner(row, group, e, scale):  # type: ignore[no-untyped-def]
    """The row of the largest value, and 1 if another may be as large."""
    best = group[0]
    for place in range(1, len(group)):
        if group[place] >= 0 and row[group[place]] > row[best]:
            best = group[place]
    for q in group:
        if q < 0 or q == best:
            continue
        if not row[best] - row[q] > e * (scale[best] + scale[q]) * GROWN:
            return best, 1
    return best, 0


@register_jitable
def _next(low, high, group, now, e0, e1, scale, after):  # type: ignore[no-untyped-def]
    """Who overtakes the row `now` first after a share: row, share, its width, doubts; or -1.

    Straight lines, all of them below `now` just after that share: whoever is above at the right
    end overtakes once. All that might be above there are compared, so that the first is first
    beyond doubt.
    """
    best, share, width, doubt = -1, 2.0, 0.0, 0
    sure = 0
    for q in group:
        if q < 0 or q == now:
            continue
        both = scale[q] + scale[now]
        d0, d1 = low[q] - low[now], high[q] - high[now]
        if d1 <= -e1 * both * GROWN:
            continue
        rise = d1 - d0
        slope = rise - (e0 + e1) * both
        if not slope > 0.0:
            doubt += not d0 > e0 * both * GROWN  # else it was above, and falls
            continue
        at = max(-d0 / rise, after)
        own = (max(e0, e1) * both / slope + 3.0 * UNIT) * GROWN
        if best >= 0 and abs(at - share) <= own + width:
            doubt += 1
        if at < share:
            best, share, width = q, at, own
            sure = d1 > e1 * both * GROWN
    if best >= 0 and not sure:
        doubt += 1
    return best, share, width, doubt


@njit(cache=True)
def _switches(rows, bounds, groups):  # type: ignore[no-untyped-def]
    """At most as many breakpoints as this: rank - 1 for every unit whose winner changes."""
    total = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1] - 1):
            for group in groups:
                here, _ = _winner(rows[k], group, 0.0, rows[k])
                there, _ = _winner(rows[k + 1], group, 0.0, rows[k])
                total += (here != there) * (len(group) - 1)
    return total


@register_jitable
def _overtakings(row, after, e0, e1, scale, group, unit, found, first, at):  # type: ignore[no-untyped-def]
    """Appends the changes of one unit's winner between neighbours: to where, and doubts."""
    now, doubt = _winner(row, group, e0, scale)
    goal, _ = _winner(after, group, e1, scale)
    share = 0.0
    for _ in range(len(group) - 1):
        if now == goal:
            break
        now, share, width, bad = _next(row, after, group, now, e0, e1, scale, share)
        doubt += bad
        if now < 0:
            return at, doubt + 1
        doubt += _insert(found[0], found[1], found[2], first, at, share, width, unit)
        at += 1
    return at, doubt + (now != goal)


@njit(cache=True)
def winner_changes(rows, error, bounds, scale, groups):  # type: ignore[no-untyped-def]
    """Maxima over groups of rows: where the winner changes; else as `sign_changes`."""
    size = _switches(rows, bounds, groups)
    found = np.empty(size), np.empty(size), np.empty(size, np.int32)
    first = np.zeros(len(rows) + 1, np.int64)
    doubts = np.zeros(len(bounds) - 1, np.int64)
    error = error + UNIT  # differences round once more
    at = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1]):
            doubts[line] += not error[k] <= WIDE
            begin = at
            for unit in range(len(groups)):
                if k + 1 == bounds[line + 1]:
                    doubts[line] += _winner(rows[k], groups[unit], error[k], scale)[1]
                    continue
                at, doubt = _overtakings(
                    *(rows[k], rows[k + 1], error[k], error[k + 1], scale),
                    *(groups[unit], unit, found, begin, at),
                )
                doubts[line] += doubt
            first[k + 1] = at
    return found[0][:at], found[1][:at], found[2][:at], first, doubts


# ---- the next points and their values ------------------------------------------------------------


@njit(cache=True)
def refined(points, error, origin, bounds, shares, widths, units, first, number):  # type: ignore[no-untyped-def]
    """Old and new points in order: points, errors, origins, bounds; the old point k that each is
    or lies after, and its share there, -1 for the old one itself.
    """
    size = len(points) + len(shares)
    new_points, new_error, share = np.empty(size), np.empty(size), np.empty(size)
    new_origin = np.empty((size, 2), np.int32)
    source = np.empty(size, np.int64)
    p = 0
    for k in range(len(points)):
        new_points[p], new_error[p], share[p], source[p] = points[k], error[k], -1.0, k
        new_origin[p, 0], new_origin[p, 1] = origin[k, 0], origin[k, 1]
        p += 1
        for m in range(first[k], first[k + 1]):
            length, e0, e1 = points[k + 1] - points[k], error[k], error[k + 1]
            new_points[p] = min(points[k] + shares[m] * length, points[k + 1])
            reach = length + e0 + e1 + UNIT
            new_error[p] = (max(e0, e1) + widths[m] * reach + 6.0 * UNIT) * GROWN
            share[p], source[p] = shares[m], k
            new_origin[p, 0], new_origin[p, 1] = number, units[m]
            p += 1
    return new_points, new_error, new_origin, bounds + first[bounds], source, share


@njit(cache=True)
def rectified(rows, source, share, origin):  # type: ignore[no-untyped-def]
    """max(row, 0) at old points and, interpolated, at new ones, where the own row is 0."""
    n = rows.shape[1]
    values = np.empty((len(source), n))
    for p in range(len(source)):
        row, out, r = rows[source[p]], values[p], share[p]
        if r < 0.0:
            for i in range(n):
                out[i] = row[i] if row[i] > 0.0 else 0.0
            continue
        after = rows[source[p] + 1]
        for i in range(n):
            z = row[i] + r * (after[i] - row[i])
            out[i] = z if z > 0.0 else 0.0
        out[origin[p, 1]] = 0.0
    return values


@njit(cache=True)
def maximised(rows, source, share, groups):  # type: ignore[no-untyped-def]
    """The maximum of every group at old points and, interpolated, at new ones."""
    values = np.empty((len(source), len(groups)))
    for p in range(len(source)):
        r = max(share[p], 0.0)
        row = rows[source[p]]
        after = rows[source[p] + 1] if r > 0.0 else row
        for unit in range(len(groups)):
            most = -np.inf
            for q in groups[unit]:
                if q >= 0:
                    most = max(most, row[q] + r * (after[q] - row[q]))
            values[p, unit] = most
    return values
