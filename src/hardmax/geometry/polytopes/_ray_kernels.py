"""Which of the vectors that span a cone are extreme, in floats: guesses, and their proofs.

A cone is spanned by vectors v_1, ..., v_m, no two of them parallel, all with <v_j, c> < 0 at a
centre c. Floats guess, and prove what they guess, with a bound on every rounding:

*Extreme.* If some w has <v_i, w> > 0 and <v_j, w> < 0 for all others, then v_i is no sum of the
others with weights >= 0, since every such sum has a negative product with w.

*Inner.* If v_i = sum_k weight_k b_k with weights > 0 for d of the others, then v_i can be dropped:
the cone is the same. For B = [b_1 ... b_d], any R with |I - R B| <= a < 1 (largest row sum) shows
that B is invertible and |weights - guess| <= |R (v_i - B guess)| / (1 - a).

Guesses come from the first phase of a simplex method, whose dual solution x has <b, x> <= 0 for the
rays found so far and <v_i, x> > 0. The ray c + s x then leaves the cone {<v_j, .> < 0} through its
first wall, which is extreme: not v_i perhaps, but one more to test against, so that the simplex
method sees extreme rays alone (Clarkson).
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import inline, subroutine
from hardmax.geometry.polytopes._arrays import EXTREME, INNER, OPEN, UNKNOWN, Cone, Scratch
from hardmax.numerics import FAINT, GROWN, UNIT

SOLVED, NO_SOLUTION, GAVE_UP = 1, 0, -1  # what a guess says

_ZERO = 1e-11  # where a guess takes a float for 0: nothing is proved by it
_PIVOTS = 60  # more than this many pivots and floats give up


@inline
def dot(a: np.ndarray, b: np.ndarray) -> float:
    total = 0.0
    for c in range(len(b)):
        total += a[c] * b[c]
    return total


@inline
def _doubt(vector: np.ndarray, blur: np.ndarray, x: np.ndarray) -> float:
    """How far the float <vector, x> may be off, if `vector` is within `blur` of the truth."""
    size, spread = 0.0, 0.0
    for c in range(len(x)):
        size += abs(vector[c] * x[c])
        spread += blur[c] * abs(x[c])
    return ((len(x) + 1) * UNIT * size + spread) * GROWN + FAINT


# ---- guesses -------------------------------------------------------------------------------------


@inline
def _guess(vectors: np.ndarray, count: int, target: np.ndarray, scratch: Scratch) -> int:
    """Weights >= 0 that make the target of the chosen vectors: whether there are any.

    The tableau has the chosen columns, the inverse of the basis, and the weights; its last row
    has the dual solution, less 1.
    """
    tableau, basis, signs = scratch.tableau, scratch.basis, scratch.signs
    width = len(target)
    right = count + width
    for c in range(right + 1):
        tableau[width, c] = 0.0
    for r in range(width):
        signs[r] = -1.0 if target[r] < 0.0 else 1.0
        for c in range(count):
            tableau[r, c] = signs[r] * vectors[scratch.chosen[c], r]
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
            return SOLVED if tableau[width, right] < _ZERO else NO_SOLUTION
        if not _pivot(scratch, width, enter, right):
            return GAVE_UP
    return GAVE_UP


@inline
def _pivot(scratch: Scratch, width: int, enter: int, right: int) -> bool:
    tableau = scratch.tableau
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
    scratch.basis[leave] = enter
    return True


@inline
def _write_dual(scratch: Scratch, count: int, x: np.ndarray) -> None:
    """The dual solution of a guess, with largest entry 1."""
    width, largest = len(x), 0.0
    for r in range(width):
        x[r] = scratch.signs[r] * (scratch.tableau[width, count + r] + 1.0)
        largest = max(largest, abs(x[r]))
    for r in range(width):
        x[r] = x[r] / largest if largest > 0.0 else 0.0


# ---- what is proved ------------------------------------------------------------------------------


@subroutine
def _is_inner(cone: Cone, count: int, i: int, scratch: Scratch) -> bool:
    """Whether the weights that were guessed for vector i are positive beyond all doubt."""
    vectors, blurs, chosen = cone.vectors, cone.blurs, scratch.chosen
    tableau, basis, signs = scratch.tableau, scratch.basis, scratch.signs
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


@subroutine
def _is_centre(cone: Cone, count: int, centre: np.ndarray) -> bool:
    """Whether <v_j, centre> < 0 beyond doubt, for all j; its largest entry becomes 1."""
    largest = 0.0
    for c in range(len(centre)):
        largest = max(largest, abs(centre[c]))
    if not 0.0 < largest < np.inf:
        return False
    for c in range(len(centre)):
        centre[c] /= largest
    for j in range(count):
        if dot(cone.vectors[j], centre) >= -_doubt(cone.vectors[j], cone.blurs[j], centre):
            return False
    return True


@inline
def find_centre(cone: Cone, count: int, hint: np.ndarray, scratch: Scratch) -> bool:
    """A centre, into scratch: whether one was found.

    First between a foot on a wall and a point beyond it, halfway to the next wall; else by the
    simplex method: no weights >= 0 that sum to 1 make 0 of the vectors.
    """
    vectors, centre, lifted = cone.vectors, scratch.centre, scratch.lifted
    foot, over = hint[0], hint[1]
    width = vectors.shape[1]
    if foot[0] == foot[0]:  # not nan
        reach = 2.0
        for j in range(count):
            a, b = dot(vectors[j], foot), dot(vectors[j], over)
            if b > a and a < 0.0:
                reach = min(reach, a / (a - b))
        for c in range(width):
            centre[c] = foot[c] + 0.5 * reach * (over[c] - foot[c])
        if _is_centre(cone, count, centre):
            return True
    for j in range(count):
        scratch.chosen[j] = j
        for c in range(width):
            lifted[j, c] = vectors[j, c]
        lifted[j, width] = 1.0
    target = np.zeros(width + 1)
    target[width] = 1.0
    if _guess(lifted, count, target, scratch) != NO_SOLUTION:
        return False
    dual = np.empty(width + 1)
    _write_dual(scratch, count, dual)
    for c in range(width):
        centre[c] = dual[c]
    return _is_centre(cone, count, centre)


@inline
def _first_wall(cone: Cone, count: int, centre: np.ndarray, x: np.ndarray) -> int:
    """The wall through which the ray from the centre along x leaves, if that is beyond doubt.

    `feet` has where it does, `beyond` a point between this wall and the next.
    """
    vectors, status, beyond = cone.vectors, cone.status, cone.beyond
    first, second, at = 0.0, 0.0, -1
    for j in range(count):
        if status[j] == INNER:
            continue
        ratio = dot(vectors[j], x) / -dot(vectors[j], centre)
        if ratio > first:
            first, second, at = ratio, first, j
        elif ratio > second:
            second = ratio
    if at < 0 or status[at] == EXTREME:
        return -1
    for c in range(len(centre)):
        cone.feet[at, c] = centre[c] + x[c] / first
        beyond[at, c] = centre[c] + 2.0 * x[c] / (first + second)
    for j in range(count):
        if status[j] == INNER:
            continue
        value = dot(vectors[j], beyond[at])
        if j == at:
            value = -value
        if not value < -_doubt(vectors[j], cone.blurs[j], beyond[at]):
            return -1
    status[at] = EXTREME
    return at


@inline
def find_extreme_rays(cone: Cone, count: int, scratch: Scratch) -> None:
    """Say of every vector whose status is UNKNOWN whether it is EXTREME, INNER or OPEN."""
    vectors, status = cone.vectors, cone.status
    x = np.empty(vectors.shape[1])
    for i in range(count):
        alone = False  # against the extreme rays known so far; then against all others
        while status[i] == UNKNOWN:
            n = 0
            for j in range(count):
                if j != i and (status[j] == EXTREME or (alone and status[j] != INNER)):
                    scratch.chosen[n] = j
                    n += 1
            guess = _guess(vectors, n, vectors[i], scratch)
            if guess == SOLVED:
                status[i] = INNER if _is_inner(cone, n, i, scratch) else OPEN
                break
            wall = -1
            if guess == NO_SOLUTION:
                _write_dual(scratch, n, x)
                wall = _first_wall(cone, count, scratch.centre, x)
            if wall < 0 and alone:
                status[i] = OPEN
            alone = alone or wall < 0
