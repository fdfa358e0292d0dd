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

from hardmax.geometry._compiled import entry, inline, lent
from hardmax.geometry.counting.line._arrays import Changes, Lines, NewPoints, Places, Stretch
from hardmax.numerics import GROWN, UNIT

WIDE = 2.0**-10  # errors beyond it are not first-order any more


@inline
def _insert(new: NewPoints, first: int, at: int, share: float, width: float, unit: int) -> int:
    """Into the list sorted from `first` to `at`; 1 if it is too close to a neighbour to be sure."""
    shares, widths, units = new
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


@inline
def _room_for(size: int | np.int64) -> NewPoints:
    return NewPoints(np.empty(size), np.empty(size), np.empty(size, np.int32))


# ---- rectifiers ----------------------------------------------------------------------------------


@inline
def _share_of_root(z0: float, z1: float, off0: float, off1: float) -> tuple[float, float, int]:
    """The share at which a row is 0, how far it may be off, and whether that is a doubt."""
    size = abs(z0) + abs(z1)
    slope = size - off0 - off1
    share = abs(z0) / size
    if not slope > 0.0:
        return share, 1.0, 1
    return share, (max(off0, off1) / slope + 3.0 * UNIT) * GROWN, 0


@inline
def _count_sign_changes(signs: np.ndarray, bounds: np.ndarray) -> np.int64:
    """How many neighbours differ in the sign bit, over all rows: at least as many as roots."""
    total = np.uint64(0)
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1] - 1):
            here, there = signs[k], signs[k + 1]
            for i in range(len(here)):
                total += (here[i] ^ there[i]) >> np.uint64(63)
    return np.int64(total)


@inline
def _count_doubtful(row: np.ndarray, scale: np.ndarray, error: float) -> int:
    """How many values have no sign beyond doubt; nan has none."""
    doubtful = 0
    for i in range(len(row)):
        doubtful += 0 if abs(row[i]) > error * scale[i] * GROWN else 1
    return doubtful


@inline
def _append_roots(
    stretch: Stretch, signs: np.ndarray, signs_there: np.ndarray, new: NewPoints, first: int
) -> tuple[int, int]:
    """Append the rows that change their sign, in the order of their roots: to where, and doubts.

    Sign bits are compared 64 at a time, since most rows change nothing. A power of 2 is a float,
    whose exponent tells which bit it is.
    """
    at, doubt, n = first, 0, len(stretch.here)
    for low in range(0, n, 64):
        changed = np.uint64(0)
        for i in range(low, min(low + 64, n)):
            changed |= ((signs[i] ^ signs_there[i]) >> np.uint64(63)) << np.uint64(i - low)
        while changed:
            rest = changed & (changed - np.uint64(1))
            i = low + math.frexp(np.float64(changed ^ rest))[1] - 1
            changed = rest
            z0, z1, scale = stretch.here[i], stretch.there[i], stretch.scale[i]
            if z0 != 0.0 and z1 != 0.0:
                share, width, bad = _share_of_root(
                    z0, z1, stretch.error * scale, stretch.error_there * scale
                )
                doubt += bad + _insert(new, first, at, share, width, i)
                at += 1
    return at, doubt


@entry
def sign_changes(
    rows: np.ndarray, error: np.ndarray, bounds: np.ndarray, scale: np.ndarray
) -> Changes:
    """Rectifiers: where rows change their sign, one root at most between neighbours."""
    rows, error, bounds, scale = lent((rows, error, bounds, scale))
    signs = rows.view(np.uint64)
    new = _room_for(_count_sign_changes(signs, bounds))
    first = np.zeros(len(rows) + 1, np.int64)
    doubts = np.zeros(len(bounds) - 1, np.int64)
    at = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1]):
            doubts[line] += (not error[k] <= WIDE) + _count_doubtful(rows[k], scale, error[k])
            if k + 1 < bounds[line + 1]:
                stretch = Stretch(rows[k], rows[k + 1], error[k], error[k + 1], scale)
                at, doubt = _append_roots(stretch, signs[k], signs[k + 1], new, at)
                doubts[line] += doubt
            first[k + 1] = at
    return Changes(new.shares[:at], new.widths[:at], new.units[:at], first, doubts)


# ---- maxima --------------------------------------------------------------------------------------


@inline
def _winner(row: np.ndarray, group: np.ndarray, error: float, scale: np.ndarray) -> tuple[int, int]:
    """The row of the largest value, and 1 if another may be as large."""
    best = group[0]
    for place in range(1, len(group)):
        if group[place] >= 0 and row[group[place]] > row[best]:
            best = group[place]
    for q in group:
        if q < 0 or q == best:
            continue
        if not row[best] - row[q] > error * (scale[best] + scale[q]) * GROWN:
            return best, 1
    return best, 0


@inline
def _next_winner(
    stretch: Stretch, group: np.ndarray, now: int, after: float
) -> tuple[int, float, float, int]:
    """Who overtakes the row `now` first after a share: row, share, its width, doubts; or -1.

    Straight lines, all of them below `now` just after that share: whoever is above at the right
    end overtakes once. All that might be above there are compared, so that the first is first
    beyond doubt.
    """
    low, high, e0, e1, scale = stretch
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


@inline
def _count_switches(rows: np.ndarray, bounds: np.ndarray, groups: np.ndarray) -> int:
    """At most as many breakpoints as this: rank - 1 for every unit whose winner changes."""
    total = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1] - 1):
            for unit in range(len(groups)):
                here, _ = _winner(rows[k], groups[unit], 0.0, rows[k])
                there, _ = _winner(rows[k + 1], groups[unit], 0.0, rows[k])
                total += (here != there) * (groups.shape[1] - 1)
    return total


@inline
def _append_overtakings(
    stretch: Stretch, group: np.ndarray, unit: int, new: NewPoints, first: int, at: int
) -> tuple[int, int]:
    """Append the changes of one unit's winner between neighbours: to where, and doubts."""
    now, doubt = _winner(stretch.here, group, stretch.error, stretch.scale)
    goal, _ = _winner(stretch.there, group, stretch.error_there, stretch.scale)
    share = 0.0
    for _ in range(len(group) - 1):
        if now == goal:
            break
        now, share, width, bad = _next_winner(stretch, group, now, share)
        doubt += bad
        if now < 0:
            return at, doubt + 1
        doubt += _insert(new, first, at, share, width, unit)
        at += 1
    return at, doubt + (now != goal)


@entry
def winner_changes(
    rows: np.ndarray, error: np.ndarray, bounds: np.ndarray, scale: np.ndarray, groups: np.ndarray
) -> Changes:
    """Maxima over groups of rows: where the winner changes. Differences round once more."""
    rows, error, bounds, scale, groups = lent((rows, error, bounds, scale, groups))
    new = _room_for(_count_switches(rows, bounds, groups))
    first = np.zeros(len(rows) + 1, np.int64)
    doubts = np.zeros(len(bounds) - 1, np.int64)
    at = 0
    for line in range(len(bounds) - 1):
        for k in range(bounds[line], bounds[line + 1]):
            is_last = k + 1 == bounds[line + 1]
            own = error[k] + UNIT
            doubts[line] += not own <= WIDE
            begin = at
            for unit in range(len(groups)):
                if is_last:
                    doubts[line] += _winner(rows[k], groups[unit], own, scale)[1]
                    continue
                stretch = Stretch(rows[k], rows[k + 1], own, error[k + 1] + UNIT, scale)
                at, doubt = _append_overtakings(stretch, groups[unit], unit, new, begin, at)
                doubts[line] += doubt
            first[k + 1] = at
    return Changes(new.shares[:at], new.widths[:at], new.units[:at], first, doubts)


# ---- the next points and their values ------------------------------------------------------------


@entry
def refine_lines(lines: Lines, changes: Changes, number: int) -> tuple[Lines, Places]:
    """Old and new points in order, and where they lie among the old ones."""
    points, error, origin, bounds = lent(lines)
    shares, widths, units, first, _ = lent(changes)
    size = len(points) + len(shares)
    fine = Lines(np.empty(size), np.empty(size), np.empty((size, 2), np.int32), bounds.copy())
    places = Places(np.empty(size, np.int64), np.empty(size))
    p = 0
    for k in range(len(points)):
        fine.points[p], fine.error[p] = points[k], error[k]
        fine.origin[p, 0], fine.origin[p, 1] = origin[k, 0], origin[k, 1]
        places.source[p], places.share[p] = k, -1.0
        p += 1
        for m in range(first[k], first[k + 1]):
            length, e0, e1 = points[k + 1] - points[k], error[k], error[k + 1]
            fine.points[p] = min(points[k] + shares[m] * length, points[k + 1])
            reach = length + e0 + e1 + UNIT
            fine.error[p] = (max(e0, e1) + widths[m] * reach + 6.0 * UNIT) * GROWN
            fine.origin[p, 0], fine.origin[p, 1] = number, units[m]
            places.source[p], places.share[p] = k, shares[m]
            p += 1
    for line in range(len(bounds)):
        fine.bounds[line] += first[bounds[line]]
    return fine, places


@entry
def rectify(rows: np.ndarray, places: Places, origin: np.ndarray) -> np.ndarray:
    """max(row, 0) at old points and, interpolated, at new ones, where the own row is 0."""
    source, share = places
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


@entry
def maximise(rows: np.ndarray, places: Places, groups: np.ndarray) -> np.ndarray:
    """The maximum of every group at old points and, interpolated, at new ones."""
    source, share = places
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
