"""The walk from vertex to vertex of a sum, compiled: gather a cone, find its rays, step across.

One file, longer than others, because Numba's cache sees changes in the file of the function that
Python calls and in no other: kernels that call each other across files would go stale.

**Extreme rays.** A cone is spanned by vectors v_1, ..., v_m, no two of them parallel, all with
<v_j, c> < 0 at a centre c. Floats guess, and prove what they guess, with a bound on every rounding:

*Extreme.* If some w has <v_i, w> > 0 and <v_j, w> < 0 for all others, then v_i is no sum of the
others with weights >= 0, since every such sum has a negative product with w.

*Inner.* If v_i = sum_k weight_k b_k with weights > 0 for d of the others, then v_i can be dropped:
the cone is the same. For B = [b_1 ... b_d], any R with |I - R B| <= a < 1 (largest row sum) shows
that B is invertible and |weights - guess| <= |R (v_i - B guess)| / (1 - a).

Guesses come from the first phase of a simplex method, whose dual solution x has <b, x> <= 0 for the
rays found so far and <v_i, x> > 0. The ray c + s x then leaves the cone {<v_j, .> < 0} through its
first wall, which is extreme: not v_i perhaps, but one more to test against, so that the simplex
method sees extreme rays alone (Clarkson).

*In space* no simplex method is needed. From an extreme ray a, turn a plane around it until all
vectors are on one side: it stops at b, and a, b span a face. If every other vector is on that side
beyond doubt, the face has no other vectors; the next one starts at b, and the faces close a ring,
as the sides of a polygon do. The vectors of the ring are extreme and the others are not. *In the
plane* there are two extreme rays, and all vectors lie between them.

**Whole numbers** decide what is left, by the simplex method with Bland's rule, which cannot cycle.
Pivoting is free of fractions: after every pivot each entry of the tableau is a minor of the matrix
it began with, the common denominator is the last pivot, and each division comes out even (Edmonds).
One text serves two kinds of numbers: compiled it runs on int64, where that is known to hold them;
as it stands (`in_cone.py_func`) on Python's integers, which have no end.

**The walk.** A vertex of the sum is a row of `cells`, one vertex a summand. Vertices of all
summands are numbered in one go; the edges at vertex v are `target[start[v]:start[v + 1]]`, and
`way` says in which of the directions each of them points. Directions 2 k and 2 k + 1 are opposite;
parallel edges of different summands share one, so that they move together.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import register_jitable

from hardmax.numerics import FAINT, GROWN, UNIT

UNKNOWN, EXTREME, INNER, OPEN = 0, 1, 2, 3  # what is known of a vector
DONE, PAUSED, FULL, PENDING = 0, 1, 2, 3  # why the walk stopped

_ZERO = 1e-11  # where a guess takes a float for 0: nothing is proved by it
_PIVOTS = 60  # more than this many pivots and floats give up


# ---- whole numbers -------------------------------------------------------------------------------


@register_jitable
def _leaving(tableau, width, enter, last, basis):  # type: ignore[no-untyped-def]
    """The row of the least ratio, of equal ones that of the first variable (Bland)."""
    leave = -1
    for r in range(width):
        if tableau[r, enter] <= 0:
            continue
        if leave < 0:
            leave = r
            continue
        ahead = tableau[r, last] * tableau[leave, enter]
        behind = tableau[leave, last] * tableau[r, enter]
        if ahead < behind or (ahead == behind and basis[r] < basis[leave]):
            leave = r
    return leave


@njit(cache=True)
def in_cone(columns, count, target, tableau, basis):  # type: ignore[no-untyped-def]
    """The same for the first `count` rows, in a tableau with room for one column more."""
    width = len(target)
    last = count
    for c in range(count + 1):
        tableau[width, c] = 0 * target[0]
    for r in range(width):
        flip = target[r] < 0
        for c in range(count):
            tableau[r, c] = -columns[c, r] if flip else columns[c, r]
            tableau[width, c] += tableau[r, c]
        tableau[r, last] = -target[r] if flip else target[r]
        tableau[width, last] += tableau[r, last]
        basis[r] = count + r
    before = 0 * target[0] + 1
    while True:
        enter = -1
        for c in range(count):
            if tableau[width, c] > 0:
                enter = c
                break
        if enter < 0 or tableau[width, last] == 0:
            return tableau[width, last] == 0
        leave = _leaving(tableau, width, enter, last, basis)
        pivot = tableau[leave, enter]
        for r in range(width + 1):
            if r == leave:
                continue
            factor = tableau[r, enter]
            for c in range(count + 1):
                product = tableau[r, c] * pivot - factor * tableau[leave, c]
                tableau[r, c] = product // before
        before = pivot
        basis[leave] = enter


# ---- floats: guesses and their proofs ------------------------------------------------------------


@njit(cache=True)
def _dot(a, b):  # type: ignore[no-untyped-def]
    total = 0.0
    for c in range(len(b)):
        total += a[c] * b[c]
    return total


@njit(cache=True)
def _doubt(vector, blur, x):  # type: ignore[no-untyped-def]
    """How far the float <vector, x> may be off, if `vector` is within `blur` of the truth."""
    size, spread = 0.0, 0.0
    for c in range(len(x)):
        size += abs(vector[c] * x[c])
        spread += blur[c] * abs(x[c])
    return ((len(x) + 1) * UNIT * size + spread) * GROWN + FAINT


@njit(cache=True)
def _guess(vectors, chosen, count, target, tableau, basis, signs):  # type: ignore[no-untyped-def]
    """Weights >= 0 that make the target of some vectors: 1 found, 0 there are none, -1 gave up.

    The tableau has the chosen columns, the inverse of the basis, and the weights; its last row
    has the dual solution, less 1.
    """
    width = len(target)
    right = count + width
    for c in range(right + 1):
        tableau[width, c] = 0.0
    for r in range(width):
        signs[r] = -1.0 if target[r] < 0.0 else 1.0
        for c in range(count):
            tableau[r, c] = signs[r] * vectors[chosen[c], r]
            tableau[width, c] += tableau[r, c]
        for c in range(width):
            tableau[r, count + c] = 1.0 if c == r else 0.0
        tableau[r, right] = abs(target[r])
        tableau[width, right] += tableau[r, right]
        basis[r] = count + r
    for turn in range(_PIVOTS):
        enter, best = -1, _ZERO
        for c in range(count):
            if tableau[width, c] > best:
                enter = c
                if turn > _PIVOTS // 2:  # it may be cycling: take the first
                    break
                best = tableau[width, c]
        if enter < 0 or tableau[width, right] < _ZERO:
            return 1 if tableau[width, right] < _ZERO else 0
        if not _pivot(tableau, width, enter, right, basis):
            return -1
    return -1


@njit(cache=True)
def _pivot(tableau, width, enter, right, basis):  # type: ignore[no-untyped-def]
    leave, least = -1, 0.0
    for r in range(width):
        if tableau[r, enter] > _ZERO:
            ratio = tableau[r, right] / tableau[r, enter]
            if leave < 0 or ratio < least:
                leave, least = r, ratio
    if leave < 0:
        return False
    pivot = tableau[leave, enter]
    for c in range(right + 1):
        tableau[leave, c] /= pivot
    for r in range(width + 1):
        factor = tableau[r, enter]
        if r != leave and factor != 0.0:
            for c in range(right + 1):
                tableau[r, c] -= factor * tableau[leave, c]
    basis[leave] = enter
    return True


@njit(cache=True)
def _dual(tableau, count, signs, x):  # type: ignore[no-untyped-def]
    """The dual solution of a guess, with largest entry 1."""
    largest = 0.0
    for r in range(len(signs)):
        x[r] = signs[r] * (tableau[len(signs), count + r] + 1.0)
        largest = max(largest, abs(x[r]))
    for r in range(len(signs)):
        x[r] = x[r] / largest if largest > 0.0 else 0.0


@njit(cache=True)
def _is_inner(vectors, blurs, chosen, count, i, tableau, basis, signs):  # type: ignore[no-untyped-def]
    """Whether the weights that were guessed for vector i are positive beyond all doubt."""
    width = vectors.shape[1]
    right = count + width
    least, spread = np.inf, 0.0
    for r in range(width):
        if basis[r] >= count:
            return False
        if not tableau[r, right] > 0.0:
            return False
        least = min(least, tableau[r, right])
    error, contraction = 0.0, 0.0
    for r in range(width):
        own, row = 0.0, 0.0
        for k in range(width):
            inverse = abs(tableau[r, count + k])
            left, size = vectors[i, k], abs(vectors[i, k])
            spread = blurs[i, k]
            for c in range(width):
                b = chosen[basis[c]]
                term = vectors[b, k] * tableau[c, right]
                left -= term
                size += abs(term)
                spread += blurs[b, k] * tableau[c, right]
            own += inverse * (abs(left) + (width + 2) * UNIT * size + spread)
        for c in range(width):
            b = chosen[basis[c]]
            left = 1.0 if c == r else 0.0
            size, spread = left, 0.0
            for k in range(width):
                term = tableau[r, count + k] * signs[k] * vectors[b, k]
                left -= term
                size += abs(term)
                spread += abs(tableau[r, count + k]) * blurs[b, k]
            row += abs(left) + (width + 2) * UNIT * size + spread
        if not (own < np.inf and row < 0.5):
            return False
        error, contraction = max(error, own), max(contraction, row)
    return least > error / (1.0 - contraction) * GROWN + FAINT


@njit(cache=True)
def find_centre(vectors, blurs, count, foot, over, lifted, chosen, tableau, basis, signs, centre):  # type: ignore[no-untyped-def]
    """A point with <v_j, centre> < 0 beyond doubt, for all j: whether one was found.

    First between a foot on a wall and a point beyond it, halfway to the next wall; else by the
    simplex method: no weights >= 0 that sum to 1 make 0 of the vectors.
    """
    width = vectors.shape[1]
    if foot[0] == foot[0]:  # not nan
        reach = 2.0
        for j in range(count):
            a, b = _dot(vectors[j], foot), _dot(vectors[j], over)
            if b > a and a < 0.0:
                reach = min(reach, a / (a - b))
        for c in range(width):
            centre[c] = foot[c] + 0.5 * reach * (over[c] - foot[c])
        if _is_centre(vectors, blurs, count, centre):
            return True
    for j in range(count):
        chosen[j] = j
        for c in range(width):
            lifted[j, c] = vectors[j, c]
        lifted[j, width] = 1.0
    target = np.zeros(width + 1)
    target[width] = 1.0
    if _guess(lifted, chosen, count, target, tableau, basis, signs) != 0:
        return False
    dual = np.empty(width + 1)
    _dual(tableau, count, signs, dual)
    for c in range(width):
        centre[c] = dual[c]
    return _is_centre(vectors, blurs, count, centre)


@njit(cache=True)
def _is_centre(vectors, blurs, count, centre):  # type: ignore[no-untyped-def]
    largest = 0.0
    for c in range(len(centre)):
        largest = max(largest, abs(centre[c]))
    if not 0.0 < largest < np.inf:
        return False
    for c in range(len(centre)):
        centre[c] /= largest
    for j in range(count):
        if _dot(vectors[j], centre) >= -_doubt(vectors[j], blurs[j], centre):
            return False
    return True


@njit(cache=True)
def _first_wall(vectors, blurs, count, status, centre, x, feet, beyond):  # type: ignore[no-untyped-def]
    """The wall through which the ray from the centre along x leaves, if that is beyond doubt.

    `feet` has where it does, `beyond` a point between this wall and the next.
    """
    first, second, at = 0.0, 0.0, -1
    for j in range(count):
        if status[j] == INNER:
            continue
        ratio = _dot(vectors[j], x) / -_dot(vectors[j], centre)
        if ratio > first:
            first, second, at = ratio, first, j
        elif ratio > second:
            second = ratio
    if at < 0 or status[at] == EXTREME:
        return -1
    for c in range(len(centre)):
        feet[at, c] = centre[c] + x[c] / first
        beyond[at, c] = centre[c] + 2.0 * x[c] / (first + second)
    for j in range(count):
        if status[j] == INNER:
            continue
        value = _dot(vectors[j], beyond[at])
        if j == at:
            value = -value
        if not value < -_doubt(vectors[j], blurs[j], beyond[at]):
            return -1
    status[at] = EXTREME
    return at


@njit(cache=True)
def extreme_rays(  # type: ignore[no-untyped-def]
    vectors, blurs, count, status, centre, feet, beyond, chosen, tableau, basis, signs
):
    """Say of every vector whose status is UNKNOWN whether it is EXTREME, INNER or OPEN."""
    x = np.empty(vectors.shape[1])
    for i in range(count):
        alone = False  # against the extreme rays known so far; then against all others
        while status[i] == UNKNOWN:
            n = 0
            for j in range(count):
                if j != i and (status[j] == EXTREME or (alone and status[j] != INNER)):
                    chosen[n] = j
                    n += 1
            found = _guess(vectors, chosen, n, vectors[i], tableau, basis, signs)
            if found == 1:
                if _is_inner(vectors, blurs, chosen, n, i, tableau, basis, signs):
                    status[i] = INNER
                else:
                    status[i] = OPEN
                break
            wall = -1
            if found == 0:
                _dual(tableau, n, signs, x)
                wall = _first_wall(vectors, blurs, count, status, centre, x, feet, beyond)
            if wall < 0 and alone:
                status[i] = OPEN
            alone = alone or wall < 0


@njit(cache=True)
def settle(whole, count, status, columns, tableau, basis):  # type: ignore[no-untyped-def]
    """Decide what is OPEN or UNKNOWN in int64, for vectors of which `fits` holds."""
    for i in range(count):
        if status[i] != OPEN and status[i] != UNKNOWN:
            continue
        n = 0
        for j in range(count):
            if j != i and status[j] != INNER:
                columns[n] = whole[j]
                n += 1
        inside = in_cone(columns, n, whole[i], tableau, basis)
        status[i] = INNER if inside else EXTREME


# ---- floats: wrapping in two and three dimensions ------------------------------------------------


@njit(cache=True)
def _minor(a, ea, b, eb, i, j):  # type: ignore[no-untyped-def]
    """a_i b_j - a_j b_i and a bound on its error."""
    plus, minus = a[i] * b[j], a[j] * b[i]
    error = 2.0 * UNIT * (abs(plus) + abs(minus))
    error += abs(a[i]) * eb[j] + ea[i] * (abs(b[j]) + eb[j])
    error += abs(a[j]) * eb[i] + ea[j] * (abs(b[i]) + eb[i])
    return plus - minus, error * GROWN + FAINT


@njit(cache=True)
def wrap(vectors, blurs, count, status, start, ring, normals, feet, beyond):  # type: ignore[no-untyped-def]
    """Set every status, if floats can; `start` is known to be extreme. Whether they could."""
    if vectors.shape[1] == 2:
        return _wrap_plane(vectors, blurs, count, status, start, feet, beyond)
    a, length = start, 0
    normal, blur = np.empty(3), np.empty(3)
    while length < count:
        b = _turned(vectors, count, a, normal)
        for c in range(3):
            i, j = (c + 1) % 3, (c + 2) % 3
            normal[c], blur[c] = _minor(vectors[a], blurs[a], vectors[b], blurs[b], i, j)
        for j in range(count):
            if j != a and j != b and not _is_left(vectors[j], blurs[j], normal, blur):
                return False
        ring[length] = a
        normals[length] = normal / np.sqrt((normal * normal).sum())
        length += 1
        a = b
        if b == start:
            break
    if a != start or length < 3:
        return False
    status[:count] = INNER
    for k in range(length):
        own = ring[k]
        status[own] = EXTREME
        for c in range(3):
            feet[own, c] = -normals[k, c] - normals[(k + length - 1) % length, c]
            beyond[own, c] = feet[own, c] + vectors[own, c]
    return True


@njit(cache=True)
def _turned(vectors, count, a, normal):  # type: ignore[no-untyped-def]
    """The vector at which a plane through `a` has all others on its left, as floats see it."""
    b = -1
    for j in range(count):
        if j == a:
            continue
        v = vectors[j]
        if b >= 0 and v[0] * normal[0] + v[1] * normal[1] + v[2] * normal[2] >= 0.0:
            continue
        b, u = j, vectors[a]
        normal[0] = u[1] * v[2] - u[2] * v[1]
        normal[1] = u[2] * v[0] - u[0] * v[2]
        normal[2] = u[0] * v[1] - u[1] * v[0]
    return b


@njit(cache=True)
def _is_left(vector, spread, normal, blur):  # type: ignore[no-untyped-def]
    total, doubt = 0.0, 0.0
    for c in range(3):
        term = vector[c] * normal[c]
        total += term
        doubt += 4.0 * UNIT * abs(term) + abs(vector[c]) * blur[c]
        doubt += spread[c] * (abs(normal[c]) + blur[c])
    return total > doubt * GROWN + FAINT


@njit(cache=True)
def _wrap_plane(vectors, blurs, count, status, start, feet, beyond):  # type: ignore[no-untyped-def]
    if count < 2:
        return False
    end = 1 if start == 0 else 0
    way = 1.0  # on which side of `start` the others are
    if _minor(vectors[start], blurs[start], vectors[end], blurs[end], 0, 1)[0] < 0.0:
        way = -1.0
    for j in range(count):
        turn, _ = _minor(vectors[end], blurs[end], vectors[j], blurs[j], 0, 1)
        if turn * way > 0.0:
            end = j
    for j in range(count):
        turn, doubt = _minor(vectors[j], blurs[j], vectors[end], blurs[end], 0, 1)
        if j != end and turn * way <= doubt:
            return False
    status[:count] = INNER
    status[start], status[end] = EXTREME, EXTREME
    feet[end, 0], feet[end, 1] = -way * vectors[end, 1], way * vectors[end, 0]
    for c in range(2):
        beyond[end, c] = feet[end, c] + vectors[end, c]
    return True


# ---- the walk ------------------------------------------------------------------------------------


@njit(cache=True)
def _gather(cell, start, way, floor, seen, stamp, ways):  # type: ignore[no-untyped-def]
    """The directions of all edges at a vertex of the sum, each once; the floor, if any, first."""
    count = 0
    if floor >= 0:
        ways[0], seen[floor], count = floor, stamp, 1
    for h in range(len(cell)):
        for e in range(start[cell[h]], start[cell[h] + 1]):
            if seen[way[e]] != stamp:
                seen[way[e]] = stamp
                ways[count] = way[e]
                count += 1
    return count


@njit(cache=True)
def _find(row, key, cells, keys, table):  # type: ignore[no-untyped-def]
    """The slot of a row in the table: its own, or the free one where it belongs."""
    mask = len(table) - 1
    slot = np.int64(key & np.uint64(mask))
    while table[slot] >= 0:
        at = table[slot]
        if keys[at] == key:
            same = True
            for h in range(len(row)):
                if cells[at, h] != row[h]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask
    return slot


@njit(cache=True)
def rehash(count, keys, table):  # type: ignore[no-untyped-def]
    """Put all rows into an empty table."""
    mask = len(table) - 1
    for at in range(count):
        slot = np.int64(keys[at] & np.uint64(mask))
        while table[slot] >= 0:
            slot = (slot + 1) & mask
        table[slot] = at


@njit(cache=True)
def link(  # type: ignore[no-untyped-def]
    at, count, ways, status, feet, beyond, floor, start, target, way, marks,
    cells, keys, arrivals, hints, table, found,
):  # fmt: skip
    """Step across every extreme ray, and write down the vertices that are new; how many now."""
    row = np.empty_like(cells[at])
    for k in range(count):
        if status[k] != EXTREME or ways[k] == floor or ways[k] == arrivals[at]:
            continue
        key = keys[at]
        for h in range(len(row)):
            v = cells[at, h]
            row[h] = v
            for e in range(start[v], start[v + 1]):
                if way[e] == ways[k]:
                    row[h] = target[e]
                    key ^= marks[v] ^ marks[row[h]]
                    break
        slot = _find(row, key, cells, keys, table)
        if table[slot] < 0:
            table[slot] = found
            cells[found], keys[found], arrivals[found] = row, key, ways[k] ^ 1
            hints[found, 0], hints[found, 1] = feet[k], beyond[k]
            found += 1
    return found


@njit(cache=True)
def explore(  # type: ignore[no-untyped-def]
    head, found, budget, most, directions, blurs, whole, is_small, floor,
    start, target, way, marks, cells, keys, arrivals, hints, table, ways, status,
):  # fmt: skip
    """Walk on from vertex `head` for at most `budget` vertices.

    Back come why it stopped, where, how many vertices are known, how many signs floats left open,
    and for a vertex that waits for whole numbers (PENDING) how many directions it has.
    """
    width = directions.shape[1]
    vectors, spreads = np.empty((most, width)), np.empty((most, width))
    wholes, columns = np.empty((most, width), np.int64), np.empty((most, width), np.int64)
    exact_tableau = np.empty((width + 1, most + 1), np.int64)
    feet, beyond = np.empty((most, width)), np.empty((most, width))
    lifted, tableau = np.empty((most, width + 1)), np.empty((width + 2, most + width + 2))
    chosen, basis = np.empty(most, np.int64), np.empty(width + 1, np.int64)
    signs, centre = np.empty(width + 1), np.empty(width)
    normals = np.empty((most, width))
    seen, decided = np.full(len(directions), -1, np.int64), 0
    for at in range(head, min(head + budget, found)):
        if found + most > len(cells) or 2 * (found + most) > len(table):
            return FULL, at, found, decided, 0
        count, known = _gather(cells[at], start, way, floor, seen, at, ways), -1
        for k in range(count):
            vectors[k], spreads[k] = directions[ways[k]], blurs[ways[k]]
            status[k] = UNKNOWN
            feet[k] = np.nan
            if ways[k] == arrivals[at]:
                status[k], known = EXTREME, k
        is_known = 2 <= width <= 3 and known >= 0
        if is_known:
            is_known = wrap(vectors, spreads, count, status, known, chosen, normals, feet, beyond)
        if not is_known and find_centre(
            vectors, spreads, count, hints[at, 0], hints[at, 1],
            lifted, chosen, tableau, basis, signs, centre,
        ):  # fmt: skip
            extreme_rays(
                vectors, spreads, count, status, centre, feet, beyond,
                chosen, tableau, basis[:width], signs[:width],
            )  # fmt: skip
        left = 0
        for k in range(count):
            left += status[k] == OPEN or status[k] == UNKNOWN
        decided += left
        if left and not is_small:
            return PENDING, at, found, decided, count
        if left:
            for k in range(count):
                wholes[k] = whole[ways[k]]
            settle(wholes, count, status, columns, exact_tableau, basis)
        found = link(
            at, count, ways, status, feet, beyond, floor, start, target, way, marks,
            cells, keys, arrivals, hints, table, found,
        )  # fmt: skip
        head = at + 1
    return (DONE if head == found else PAUSED), head, found, decided, 0
