"""Deep ReLU and maxout networks without skip connections, from above and from below."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import accumulate

from hardmax.geometry.bounds._bound import Bound, Kind
from hardmax.geometry.bounds._layers import widths_of
from hardmax.geometry.bounds._sums import binomial_sum, power, product, refuse_work, whole

_SERRA = "Serra, Tjandraatmadja, Ramalingam, ICML (2018)"
_FOLDING = "Montúfar, Pascanu, Cho, Bengio, NeurIPS (2014)"
_MAXOUT = "Montúfar, Ren, Zhang, SIAM J. Appl. Algebra Geometry 6 (2022)"


def relu_network(widths: Iterable[int], *, dimension: int) -> Bound:
    """At most sum over (j_1, ..., j_L) of prod_l C(n_l, j_l), j_l <= min(d, n_i - j_i for i < l).

    If n_l hyperplanes cut a cell whose image has dimension D, there are at most
    sum_{j <= D} C(n_l, j) pieces, at most C(n_l, j) of them with exactly j units off, and those
    have an image of dimension at most n_l - j: units that are off are constant. Fewer units off
    leave more room, so the worst case takes j = 0, ..., D in full. Dead units shrink the space
    for all later layers. One layer: sum_{j <= d} C(n, j), which is exact. On a line, with
    n_l >= 3 in every layer but the last, it is prod (n_l + 1) and exact: n ReLUs make a zigzag of
    the slopes 2, -1, 1, -1, 1, ... if the unit of the third kink faces left (the slope far left
    is minus the sum of the jumps of units that face left: 2). Its n + 1 pieces all cover one
    interval, and a later layer may put all its kinks there.

    Never above `product_of_arrangements`; both are for networks without skip connections.
    """
    n, d = widths_of(widths), whole(dimension, "dimension")
    ways = {d: 1}  # dimension left -> how many patterns lead to it
    for width in n:
        ways = _shrunk(ways, width)
    folds = d == 1 and all(width >= 3 for width in n[:-1])
    kind: Kind = "exact" if len(n) == 1 or folds else "upper"
    return Bound(
        sum(ways.values()),
        kind,
        f"ReLU network {_shape(d, n)}",
        "sum_{j_1..j_L} prod_l C(n_l, j_l), j_l <= min(d, n_i - j_i for i < l)",
        _SERRA,
        ("no skip connections",),
        "folds of the line with slopes 2, -1, 1, -1, ..." if kind == "exact" and d == 1 else "",
    )


def product_of_arrangements(widths: Iterable[int], *, dimension: int) -> Bound:
    """At most prod_l sum_{j <= d_l} C(n_l, j) with d_l = min(d, n_1, ..., n_(l-1)).

    Layer l sees at most a d_l-dimensional affine image of each cell, and n_l hyperplanes cut it
    into at most so many pieces. On a line prod_l (n_l + 1).
    """
    n, d = widths_of(widths), whole(dimension, "dimension")
    rooms = _rooms(n, d)
    return Bound(
        product(binomial_sum(width, room) for width, room in zip(n, rooms, strict=True)),
        "exact" if len(n) == 1 else "upper",
        f"ReLU network {_shape(d, n)}, layer by layer",
        "prod_l sum_{j<=d_l} C(n_l, j), d_l = min(d, n_1, ..., n_(l-1))",
        "Montúfar, Notes on the number of linear regions, SampTA (2017)",
        ("no skip connections",),
    )


def relu_network_lower(widths: Iterable[int], *, dimension: int) -> Bound:
    """At least prod_{l < L} F(floor(n_l/c))^c sum_{j <= c} C(n_L, j), for the best c <= d.

    F(p) = p + 1 for p >= 3 and F(p) = p below: into how many pieces p ReLUs fold a line so that
    each covers one interval. For p >= 3 take the zigzag of `relu_network`, for p < 3 that of
    `folding_network`. All layers but the last fold c input coordinates, and the last cuts the
    common image of all cells by a generic arrangement, of which all regions meet it after
    scaling. The published bound has F(p) = p, c = d and needs n_l >= d; ignoring inputs is free,
    so every c <= min(d, n_1, ..., n_(L-1)) is allowed, and the best is taken.
    """
    n, d = widths_of(widths), whole(dimension, "dimension")

    def count(c: int) -> int:
        folds = product(power(p + (p >= 3), c) for p in (width // c for width in n[:-1]))
        return product((folds, binomial_sum(n[-1], c)))

    value, c = max((count(c), c) for c in range(1, min((d, *n[:-1])) + 1))
    return Bound(
        value,
        "exact" if len(n) == 1 else "lower",
        f"ReLU network {_shape(d, n)}",
        "prod_{l<L} F(floor(n_l/c))^c sum_{j<=c} C(n_L, j)",
        f"{_FOLDING} with F(p) = p; this docstring for F(p) = p + 1",
        (f"c = {c:,} of the {d:,} inputs are folded",),
        "a folding network below a generic arrangement",
    )


def maxout_network(widths: Iterable[int], *, rank: int, dimension: int) -> Bound:
    """At most prod_l sum_{j <= d_l} C(n_l, j) (k - 1)^j with d_l = min(d, n_1, ..., n_(l-1)).

    Each layer cuts the affine image of a cell at most as `maxout_layer` does. On a line this is
    prod_l (n_l (k - 1) + 1), and it is attained if all n_l but the last are even: see the lower
    bound.
    """
    n, d, k = widths_of(widths), whole(dimension, "dimension"), whole(rank, "rank", least=2)
    rooms = _rooms(n, d)
    folds = d == 1 and all(width % 2 == 0 for width in n[:-1])
    return Bound(
        product(binomial_sum(width, room, k - 1) for width, room in zip(n, rooms, strict=True)),
        "exact" if len(n) == 1 or folds else "upper",
        f"maxout network {_shape(d, n)} of rank {k}",
        "prod_l sum_{j<=d_l} C(n_l, j) (k - 1)^j, d_l = min(d, n_1, ..., n_(l-1))",
        _MAXOUT,
        ("no skip connections",),
        "folds of the line by pairs of convex units" if folds and len(n) > 1 else "",
    )


def maxout_network_lower(widths: Iterable[int], *, rank: int, dimension: int) -> Bound:
    """At least prod_{l < L} F(floor(n_l/c))^c sum_{j <= c} C(n_L, j) (k - 1)^j, the best c <= d.

    F(p) = p (k - 1) + 1 for even p, (p - 1)(k - 1) + 2 for odd p: how often p units of rank k
    fold a line. A unit is convex with k - 1 kinks; read with a minus sign it is concave. A zigzag
    needs convex and concave kinks in turn, so p/2 units of each sign use up all their kinks; one
    unit more adds a single kink at the end. Each piece of the zigzag covers one interval, also
    the two unbounded ones, so the folds of the layers multiply in c coordinates at once.
    """
    n, d, k = widths_of(widths), whole(dimension, "dimension"), whole(rank, "rank", least=2)

    def folds(units: int) -> int:
        return units * (k - 1) + 1 if units % 2 == 0 else (units - 1) * (k - 1) + 2

    def count(c: int) -> int:
        below = product(power(folds(width // c), c) for width in n[:-1])
        return product((below, binomial_sum(n[-1], c, k - 1)))

    value, c = max((count(c), c) for c in range(1, min((d, *n[:-1])) + 1))
    return Bound(
        value,
        "exact" if len(n) == 1 else "lower",
        f"maxout network {_shape(d, n)} of rank {k}",
        "prod_{l<L} F(floor(n_l/c))^c sum_{j<=c} C(n_L, j) (k - 1)^j",
        f"{_MAXOUT} for even p; this docstring for odd p",
        (f"c = {c:,} of the {d:,} inputs are folded",),
        "zigzags of convex and concave units below a generic layer",
    )


def _shrunk(ways: dict[int, int], width: int) -> dict[int, int]:
    """The patterns after one more layer: room D becomes min(D, n - j), in C(n, j) ways."""
    most = min(max(ways), width)
    changes = sum(max(0, min(room, width) - max(width - room, -1)) for room in ways)
    refuse_work(changes + most, max(width, most))
    row = [1]
    for j in range(most):
        row.append(row[-1] * (width - j) // (j + 1))
    below = list(accumulate(row))
    after: dict[int, int] = {}
    for room, count in ways.items():
        kept = min(room, width - room)  # with so many units off, at most, the room stays
        if kept >= 0:
            after[room] = after.get(room, 0) + count * below[kept]
        for j in range(max(kept + 1, 0), min(room, width) + 1):
            after[width - j] = after.get(width - j, 0) + count * row[j]
    return after


def _rooms(widths: tuple[int, ...], dimension: int) -> list[int]:
    """The largest dimension in which each layer can see its input."""
    rooms = [dimension]
    for width in widths[:-1]:
        rooms.append(min(rooms[-1], width))
    return rooms


def _shape(dimension: int, widths: tuple[int, ...]) -> str:
    """2-8-8, shortened in the middle if there are many layers."""
    shown = widths if len(widths) <= 6 else (*widths[:3], "...", widths[-1])
    return "-".join(str(part) for part in (dimension, *shown))
