"""One attention layer: one head, several heads, the standard split, and two polygons."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb

from hardmax._errors import RequestError
from hardmax.geometry.bounds._bound import Bound
from hardmax.geometry.bounds._sums import symmetric_sum, whole, wholes

_FIXED = "one query moves through R^d; keys are constants; the head is hard"
_MAXOUT = "Montúfar, Ren, Zhang, SIAM J. Appl. Algebra Geometry 6 (2022)"
_WEIBEL = "Weibel, Discrete Comput. Geom. 47 (2012)"
_UPPER_BOUND = "Adiprasito, Sanyal, Publ. Math. IHES 124 (2016)"


def single_head(tokens: int, *, dimension: int, bias_free: bool = False) -> Bound:
    """The cells of one head with N keys in R^d: N.

    Key j wins where <q, k_j> + b_j is largest: an intersection of half-spaces, so convex, one
    cell a key at most. With biases b_j = -|k_j|^2/2 the cells are those of the nearest key, and
    every key is nearest to itself: N is attained in every dimension. Without biases a cell has
    an interior iff k_j is a vertex of conv K, and N points on a sphere are all vertices; but a
    line has only two ends, so for d = 1 there are min(N, 2).
    """
    n, d = whole(tokens, "tokens"), whole(dimension, "dimension")
    if not bias_free:
        return Bound(
            n,
            "exact",
            f"one head of {n:,} keys in R^{d}",
            "N",
            "Aurenhammer, SIAM J. Comput. 16 (1987): the power diagram",
            (_FIXED, "a bias for each key"),
            "distinct keys with biases -|k|^2/2: the Voronoi diagram",
        )
    return Bound(
        min(n, 2) if d == 1 else n,
        "exact",
        f"one bias-free head of {n:,} keys in R^{d}",
        "min(N, 2)" if d == 1 else "N",
        "classical: the vertices of conv K",
        (_FIXED, "scores <q, k_j> without biases"),
        "keys on a sphere",
    )


def several_heads(
    tokens: int | Sequence[int],
    heads: int | None = None,
    *,
    dimension: int,
    bias_free: bool = False,
) -> Bound:
    """The cells of the common refinement of H heads in R^d; head h has N_h keys.

    Affine scores: sum_{j <= d} e_j(N_1 - 1, ..., N_H - 1), with e_j the elementary symmetric
    polynomials; for equal N_h it is sum_j C(H, j) (N - 1)^j, and prod N_h if H <= d.
    Bias-free scores: sum_{j <= d-1} e_j(N_1 - 1, ..., N_H - 1) + C(H - 1, d - 1), where heads
    with a single key are left out of H, since they cut nothing. This one line is Weibel's
    alternating formula for H >= d, prod N_h for H <= d - 1, and sum N_h for d = 2; with N_h = 2
    it is the zonotope's 2 sum_{j < d} C(H - 1, j). It needs no N_h > d: see below.

    Attained by parallel walls (`attaining_keys`). Let the walls of head h be N_h - 1 hyperplanes
    with one normal u_h, any d of the u_h independent and no d + 1 walls through a point. A
    generic arrangement has one region for each of its intersection flats; a flat takes at most
    one wall a head, from at most d heads: sum_{j <= d} e_j(N_h - 1). Bias-free heads in R^d are
    affine ones in R^(d-1) seen at height q_d = 1: the upper half-space gives
    sum_{j <= d-1} e_j(N_h - 1). At height -1 only the two extreme keys of a head can win, one
    wall a head: sum_{j <= d-1} C(H, j). The cells that reach both halves are those of the walls
    at height 0, H generic hyperplanes through the origin of R^(d-1): 2 sum_{j < d-1} C(H - 1, j),
    counted twice. The last two sums differ by C(H - 1, d - 1), which is the formula.

    That nothing exceeds them is the upper bound theorem for Minkowski sums, sharp for any
    dimension, any H and any N_h, with biases and without (Montufar, Ren, Zhang 2022; Weibel 2012
    and Adiprasito, Sanyal 2016 for full-dimensional summands).
    """
    counts, d = key_counts(tokens, heads), whole(dimension, "dimension")
    cutting = [n - 1 for n in counts if n > 1]
    value = symmetric_sum(cutting, d - bias_free)
    if bias_free and cutting:
        value += comb(len(cutting) - 1, d - 1)
    formula = "sum_{j<d} e_j(N_h - 1) + C(H - 1, d - 1)" if bias_free else "sum_{j<=d} e_j(N_h - 1)"
    logits = "scores <q, k_j> without biases" if bias_free else "a bias for each key"
    widths = "any key width >= 2" if bias_free else "any key width, biases not counted"
    noun = "heads" if len(counts) > 1 else "head"
    equal = f"{counts[0]:,}" if len(set(counts)) == 1 else "unequal numbers of"
    return Bound(
        value,
        "exact",
        f"{len(counts):,} {'bias-free ' * bias_free}{noun} of {equal} keys in R^{d}",
        formula,
        f"{_WEIBEL}; {_UPPER_BOUND}; {_MAXOUT}" if bias_free else _MAXOUT,
        (_FIXED, logits, widths),
        "parallel walls in generic directions: attaining_keys",
    )


def standard_split(tokens: int | Sequence[int], heads: int | None = None, *, width: int) -> Bound:
    """The cells of H bias-free heads of key width d/H whose queries are independent: prod N_h.

    If the stacked W_Q is invertible, the H queries are free coordinates of x, so that every
    choice of one cell a head is a cell: exactly prod_h f_0(conv K^(h)), and f_0 <= N_h. A key
    width of 1 leaves only two ends, f_0 <= min(N_h, 2).
    """
    counts, d = key_counts(tokens, heads), whole(width, "width")
    if d % len(counts):
        raise RequestError(
            f"The standard split needs a width that the heads divide, but {len(counts)} heads do "
            f"not divide {d}. Use several_heads."
        )
    key_width = d // len(counts)
    value = 1
    for n in counts:
        value *= n if key_width > 1 else min(n, 2)
    return Bound(
        value,
        "exact",
        f"standard split of width {d:,} into {len(counts):,} heads",
        "prod_h f_0(conv K_h)",
        "Su, Liu, arXiv 2604.14727 (2026), product of normal fans",
        (_FIXED, "key width d/H", "the stacked query map is invertible", "no biases"),
        "each head's keys on a sphere of R^(d/H)",
    )


def two_polygons(sides: int) -> Bound:
    """The vertices of the sum of two regular N-gons in two coordinate planes of R^3.

    The first lies in the xz-plane, the second in the yz-plane, with generic phases, N even. On
    the sphere of directions the walls of an N-gon are N half circles between two poles. A half
    circle of the first and one of the second cross, once, iff both lie above the plane z = 0 or
    both below; half of the N do, so that there are c = N^2/2 crossings. This is a connected graph
    with 4 + c vertices and 2N + 2c edges, hence by Euler 2N - 2 + c faces.

    Of order N^(d-1) with only two heads: no bound of the form O((N H)^floor(d/2)) can hold. (With
    N - 1 of the half circles above z = 0 instead of half of them it would be N^2, the maximum.)
    """
    n = whole(sides, "sides", least=4)
    if n % 2:
        raise RequestError(f"sides must be even, but it is {n}: the phases would change the count.")
    return Bound(
        n * n // 2 + 2 * n - 2,
        "exact",
        f"two regular {n:,}-gons in coordinate planes of R^3",
        "N^2/2 + 2N - 2",
        "this docstring: Euler's formula on the sphere",
        ("N even", "generic phases"),
        "a regular N-gon in the xz-plane and one in the yz-plane",
        "vertices",
    )


def key_counts(tokens: int | Sequence[int], heads: int | None) -> tuple[int, ...]:
    """One number of keys a head."""
    if isinstance(tokens, Sequence) and not isinstance(tokens, str):
        counts = wholes(tokens, "tokens")
        if heads is not None and whole(heads, "heads") != len(counts):
            raise RequestError(f"tokens lists {len(counts)} heads, but heads is {heads}.")
        return counts
    if heads is None:
        raise RequestError("Give the number of heads, or tokens as a list with one number a head.")
    return (whole(tokens, "tokens"),) * whole(heads, "heads")
