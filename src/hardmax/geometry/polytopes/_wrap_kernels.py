"""Extreme rays in two and three dimensions, in floats: by wrapping, without a simplex method.

*In space:* from an extreme ray a, turn a plane around it until all vectors are on one side: it
stops at b, and a, b span a face. If every other vector is on that side beyond doubt, the face has
no other vectors; the next one starts at b, and the faces close a ring, as the sides of a polygon
do. The vectors of the ring are extreme and the others are not. *In the plane* there are two extreme
rays, and all vectors lie between them.
"""

from __future__ import annotations

import numpy as np

from hardmax.geometry._compiled import inline
from hardmax.geometry.polytopes._arrays import EXTREME, INNER, Cone, Scratch
from hardmax.numerics import FAINT, GROWN, UNIT


@inline
def _minor(
    a: np.ndarray, ea: np.ndarray, b: np.ndarray, eb: np.ndarray, i: int, j: int
) -> tuple[float, float]:
    """a_i b_j - a_j b_i and a bound on its error."""
    plus, minus = a[i] * b[j], a[j] * b[i]
    error = 2.0 * UNIT * (abs(plus) + abs(minus))
    error += abs(a[i]) * eb[j] + ea[i] * (abs(b[j]) + eb[j])
    error += abs(a[j]) * eb[i] + ea[j] * (abs(b[i]) + eb[i])
    return plus - minus, error * GROWN + FAINT


@inline
def _is_left(vector: np.ndarray, spread: np.ndarray, normal: np.ndarray, blur: np.ndarray) -> bool:
    """Whether a vector is beyond doubt on the side of a plane to which its normal points."""
    total, doubt = 0.0, 0.0
    for c in range(3):
        term = vector[c] * normal[c]
        total += term
        doubt += 4.0 * UNIT * abs(term) + abs(vector[c]) * blur[c]
        doubt += spread[c] * (abs(normal[c]) + blur[c])
    return total > doubt * GROWN + FAINT


@inline
def _next_on_ring(vectors: np.ndarray, count: int, a: int, normal: np.ndarray) -> int:
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


@inline
def _wrap_plane(cone: Cone, count: int, start: int) -> bool:
    vectors, blurs, status, feet = cone.vectors, cone.blurs, cone.status, cone.feet
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
        cone.beyond[end, c] = feet[end, c] + vectors[end, c]
    return True


@inline
def wrap(cone: Cone, count: int, start: int, scratch: Scratch) -> bool:
    """Set every status, if floats can; `start` is known to be extreme. Whether they could."""
    if cone.vectors.shape[1] == 2:
        return _wrap_plane(cone, count, start)
    vectors, blurs, ring, normals = cone.vectors, cone.blurs, scratch.chosen, scratch.normals
    a, length = start, 0
    normal, blur = np.empty(3), np.empty(3)
    while length < count:
        b = _next_on_ring(vectors, count, a, normal)
        for c in range(3):
            i, j = (c + 1) % 3, (c + 2) % 3
            normal[c], blur[c] = _minor(vectors[a], blurs[a], vectors[b], blurs[b], i, j)
        for j in range(count):
            if j != a and j != b and not _is_left(vectors[j], blurs[j], normal, blur):
                return False
        ring[length] = a
        size = np.sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2])
        for c in range(3):
            normals[length, c] = normal[c] / size
        length += 1
        a = b
        if b == start:
            break
    if a != start or length < 3:
        return False
    cone.status[:count] = INNER
    for k in range(length):
        own = ring[k]
        cone.status[own] = EXTREME
        for c in range(3):
            cone.feet[own, c] = -normals[k, c] - normals[(k + length - 1) % length, c]
            cone.beyond[own, c] = cone.feet[own, c] + vectors[own, c]
    return True
