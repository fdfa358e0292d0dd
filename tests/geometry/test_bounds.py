"""How many cells an architecture can have: every formula against an exact count."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod

import numpy as np
import pytest

from hardmax import RequestError
from hardmax.geometry import bounds
from hardmax.geometry.bounds import Bound

# ---------------------------------------------------------------- an exact oracle


def has_interior(rows: Sequence[Sequence[Fraction]], dimension: int) -> bool:
    """Whether c + <a, x> > 0 for all rows (c, a) at some x: a linear program over the rationals.

    Maximise t <= 1 subject to t - <a, x> <= c, by the simplex method with Bland's rule. With
    x = 0 and t = min(c, 1) there is a feasible point to start from.
    """
    constraints = [([-Fraction(v) for v in a], Fraction(c)) for c, *a in rows]
    start = min([Fraction(1), *(c for _, c in constraints)])
    columns = 2 * dimension + 1  # x = x+ - x-, and t = start + t'
    table = []
    for k, (a, c) in enumerate([*constraints, ([Fraction(0)] * dimension, Fraction(1))]):
        slack = [Fraction(int(i == k)) for i in range(len(constraints) + 1)]
        table.append([*a, *(-v for v in a), Fraction(1), *slack, c - start])
    cost = (
        [Fraction(0)] * (columns - 1) + [Fraction(-1)] + [Fraction(0)] * len(table) + [Fraction(0)]
    )
    basis = [columns + k for k in range(len(table))]
    while (enter := next((j for j, c in enumerate(cost[:-1]) if c < 0), None)) is not None:
        ratios = [(r[-1] / r[enter], basis[k], k) for k, r in enumerate(table) if r[enter] > 0]
        _, _, leave = min(ratios)  # t is bounded by 1
        pivot = [v / table[leave][enter] for v in table[leave]]
        table[leave], basis[leave] = pivot, enter
        for k, row in enumerate(table):
            if k != leave and row[enter]:
                table[k] = [v - row[enter] * p for v, p in zip(row, pivot, strict=True)]
        cost = [v - cost[enter] * p for v, p in zip(cost, pivot, strict=True)]
    return start + cost[-1] > 0


def count_head_cells(heads: Sequence[bounds.Keys]) -> int:
    """Choices of one key a head that win together somewhere, by one linear program each."""
    dimension = heads[0].keys.shape[1]
    found: list[list[list[Fraction]]] = [[]]
    for head in heads:
        lifted = np.column_stack([head.biases, head.keys]).tolist()
        wins = [
            [[Fraction(p - q) for p, q in zip(mine, other, strict=True)] for other in lifted[:j]]
            + [
                [Fraction(p - q) for p, q in zip(mine, other, strict=True)]
                for other in lifted[j + 1 :]
            ]
            for j, mine in enumerate(lifted)
        ]
        found = [
            old + rows for old in found for rows in wins if has_interior(old + rows, dimension)
        ]
    return len(found)


Affine = list[list[Fraction]]  # one row (c, a) a unit


def count_network_cells(layers: Sequence[Sequence[Affine]], dimension: int, box=()) -> int:
    """Cells of a network; each unit is given by its pieces (c, a), of which it takes the largest.

    `box` holds more inequalities. A ReLU is the unit of the two pieces (0, 0) and (c, a).
    """
    identity = [[Fraction(int(i == j + 1)) for i in range(dimension + 1)] for j in range(dimension)]
    found = [(list(box), identity)]
    for layer in layers:
        after = []
        for cell, stream in found:
            partial: list[tuple[list, list]] = [(cell, [])]
            for unit in layer:
                pieces = [pull_back(piece, stream) for piece in unit]
                partial = [
                    (old + rows, [*outputs, piece])
                    for old, outputs in partial
                    for piece, rows in winners(pieces)
                    if has_interior(old + rows, dimension)
                ]
            after += partial
        found = after
    return len(found)


def pull_back(piece: Sequence[Fraction], stream: Affine) -> list[Fraction]:
    total = [Fraction(piece[0]), *[Fraction(0)] * (len(stream[0]) - 1)]
    for weight, row in zip(piece[1:], stream, strict=True):
        total = [t + weight * r for t, r in zip(total, row, strict=True)]
    return total


def winners(pieces: Affine) -> Iterator[tuple[list[Fraction], Affine]]:
    """Each piece with the inequalities by which it beats the others; equal ones count once."""
    for k, piece in enumerate(pieces):
        others = [other for other in pieces if other != piece]
        if piece not in pieces[:k]:
            yield piece, [[p - q for p, q in zip(piece, o, strict=True)] for o in others]


def relu(weights: Sequence[int | Fraction], bias: int | Fraction) -> list[list[Fraction]]:
    return [[Fraction(0)] * (len(weights) + 1), [Fraction(bias), *map(Fraction, weights)]]


def test_the_oracle_knows_inside_from_outside() -> None:
    triangle = [[0, 1, 0], [0, 0, 1], [1, -1, -1]]
    assert has_interior(triangle, 2)
    assert not has_interior([*triangle, [-1, 1, 1]], 2)  # a side only
    assert not has_interior([*triangle, [-2, 1, 1]], 2)  # empty
    assert has_interior([[-5, 1]], 1)  # unbounded, and away from 0
    grid = [[relu([1, 0], -1), relu([1, 0], 1), relu([0, 1], 0)]]
    assert count_network_cells(grid, 2) == 6


# ---------------------------------------------------------------- heads


@pytest.mark.parametrize(
    ("d", "h", "n", "cells"),
    [(1, 3, 4, 10), (2, 2, 3, 9), (2, 3, 3, 19), (2, 2, 4, 16), (2, 4, 2, 11), (3, 2, 3, 9)],
)
def test_affine_heads(d: int, h: int, n: int, cells: int) -> None:
    bound = bounds.several_heads(n, h, dimension=d)
    assert (bound.value, bound.kind) == (cells, "exact")
    assert count_head_cells(bounds.attaining_keys(n, h, dimension=d)) == cells


@pytest.mark.parametrize(
    ("d", "h", "n", "cells"),
    [
        (3, 3, 6, 92),
        (2, 2, 4, 8),
        (2, 3, 5, 15),
        (2, 5, 2, 10),
        (1, 3, 4, 2),
        (3, 2, 4, 16),
        (3, 4, 3, 36),
        (4, 3, 3, 27),
        (4, 4, 2, 16),
        (3, 4, 2, 14),
        (3, 3, 5, 62),
    ],
)
def test_bias_free_heads(d: int, h: int, n: int, cells: int) -> None:
    bound = bounds.several_heads(n, h, dimension=d, bias_free=True)
    assert (bound.value, bound.kind) == (cells, "exact")
    keys = bounds.attaining_keys(n, h, dimension=d, bias_free=True)
    assert not any(head.biases.any() for head in keys)
    assert count_head_cells(keys) == cells


@pytest.mark.parametrize("bias_free", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("counts", [(2,), (1, 4), (4, 2, 3), (1, 2, 1, 3, 2), (5, 3)])
def test_heads_of_different_sizes(counts: tuple[int, ...], d: int, bias_free: bool) -> None:
    """Among them heads with one key, which cut nothing."""
    bound = bounds.several_heads(counts, dimension=d, bias_free=bias_free)
    keys = bounds.attaining_keys(counts, dimension=d, bias_free=bias_free)
    assert [len(head.keys) for head in keys] == list(counts)
    assert count_head_cells(keys) == bound.value


@pytest.mark.parametrize("d", [2, 3, 4, 5, 6])
def test_weibels_alternating_formula_is_the_same_number(d: int) -> None:
    """alpha + sum_j (-1)^(d-1-j) C(H-1-j, d-1-j) sum_{|S|=j} (prod N - alpha), for H >= d."""
    alpha = 2 if d % 2 else 0
    for counts in [(2,) * d, (7,) * d, (3,) * (d + 2), tuple(range(2, d + 5)), (9, 2) * d]:
        h = len(counts)
        weibel = alpha + sum(
            (-1) ** (d - 1 - j)
            * comb(h - 1 - j, d - 1 - j)
            * sum(prod(some) - alpha for some in combinations(counts, j))
            for j in range(1, d)
        )
        assert bounds.several_heads(counts, dimension=d, bias_free=True).value == weibel


def test_few_heads_multiply_and_zonotopes_are_central_arrangements() -> None:
    assert bounds.several_heads(512, 8, dimension=512).value == 512**8
    assert bounds.several_heads(512, 8, dimension=512).scientific == "4.722e21"
    for d, h in product(range(1, 6), range(1, 9)):
        free = bounds.several_heads(3, h, dimension=d, bias_free=True).value
        assert h >= d or free == 3**h
        zonotope = bounds.several_heads(2, h, dimension=d, bias_free=True).value
        assert zonotope == bounds.feed_forward(h, dimension=d, central=True).value
    assert bounds.several_heads(7, 5, dimension=2, bias_free=True).value == 5 * 7


@pytest.mark.parametrize("bias_free", [False, True])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_no_random_keys_have_more_cells(d: int, bias_free: bool) -> None:
    rng = np.random.default_rng(d)
    for counts in [(3, 3), (4, 2, 2), (2, 2, 2, 2), (2, 3, 3)]:
        keys = [
            bounds.Keys(rng.integers(-50, 50, (n, d)), rng.integers(-900, 900, n) * (not bias_free))
            for n in counts
        ]
        bound = bounds.several_heads(counts, dimension=d, bias_free=bias_free)
        assert count_head_cells(keys) <= bound.value


def test_one_head() -> None:
    for n, d in product(range(1, 6), range(1, 4)):
        for bias_free in (False, True):
            one = bounds.single_head(n, dimension=d, bias_free=bias_free)
            same = bounds.several_heads(n, 1, dimension=d, bias_free=bias_free)
            assert one.value == same.value == (min(n, 2) if bias_free and d == 1 else n)
    circle = np.array([[0, 5], [3, 4], [4, -3], [-5, 0], [-3, -4]])  # integers of norm 5
    assert count_head_cells([bounds.Keys(circle, np.zeros(5, int))]) == 5


def test_the_standard_split_multiplies_vertices() -> None:
    """Independent queries: two triangles with an inner point each, in two planes of R^4."""
    triangle = np.array([[0, 5], [5, -5], [-5, -4], [0, 1]])
    zero = np.zeros((4, 2), int)
    keys = [
        bounds.Keys(np.hstack(parts), np.zeros(4, int))
        for parts in ([triangle, zero], [zero, triangle])
    ]
    assert count_head_cells(keys) == 9
    assert bounds.standard_split(3, 2, width=4).value == 9
    assert bounds.standard_split((3, 7), width=4).value == 21
    assert bounds.standard_split(5, 3, width=3).value == 8  # key width 1: two ends
    with pytest.raises(RequestError, match="3 heads do not divide 4"):
        bounds.standard_split(5, 3, width=4)


def test_two_polygons() -> None:
    """14, 46, 158, 574: of order N^2 with two heads in R^3, so O((NH)^floor(d/2)) is false."""
    assert [bounds.two_polygons(n).value for n in (4, 8, 16, 32)] == [14, 46, 158, 574]
    # Octagons on the circle of radius 65, regular enough: four half circles above z = 0 each.
    octagon = [(65, 0), (52, 39), (0, 65), (-39, 52), (-65, 0), (-52, -39), (0, -65), (39, -52)]
    turned = [(63, 16), (33, 56), (-16, 63), (-56, 33), (-63, -16), (-33, -56), (16, -63)]
    turned.append((56, -33))
    zeros = np.zeros(8, int)
    keys = [
        bounds.Keys(np.array([(x, 0, z) for x, z in octagon]), zeros),
        bounds.Keys(np.array([(0, y, z) for y, z in turned]), zeros),
    ]
    assert count_head_cells(keys) == 46
    with pytest.raises(RequestError, match="even"):
        bounds.two_polygons(5)


# ---------------------------------------------------------------- layers and networks


@pytest.mark.parametrize(("n", "d"), [(1, 1), (5, 1), (4, 2), (3, 3), (5, 3)])
def test_one_layer_of_relus(n: int, d: int) -> None:
    """Hyperplanes <(1, t, ..., t^(d-1)), x> = t^d are in general position."""
    layer = [relu([t**j for j in range(d)], -(t**d)) for t in range(1, n + 1)]
    affine = bounds.feed_forward(n, dimension=d)
    assert affine.value == count_network_cells([layer], d) == sum(comb(n, j) for j in range(d + 1))
    central = [relu([t**j for j in range(d)], 0) for t in range(1, n + 1)]
    if d > 1:
        expected = count_network_cells([central], d)
        assert bounds.feed_forward(n, dimension=d, central=True).value == expected
    assert bounds.relu_network([n], dimension=d).value == affine.value
    assert bounds.relu_network_lower([n], dimension=d).value == affine.value


def line_zigzag(n: int) -> list[list[list[Fraction]]]:
    """Units of slopes 2, -1, 1, ... with all bounded pieces on [0, 1]; their read-out is `mix`."""
    kinks = [Fraction(k) for k in range(1, n + 1)]
    return [relu([-1], t) if k == 2 else relu([1], -t) for k, t in enumerate(kinks)]


def zigzag_mix(n: int) -> list[Fraction]:
    return [Fraction(-3), *(Fraction(2) * (-1) ** (k + 1) for k in range(1, n))]


@pytest.mark.parametrize("widths", [(3,), (3, 3), (4, 2), (3, 4, 1), (5, 3)])
def test_relu_networks_on_a_line_attain_the_product(widths: tuple[int, ...]) -> None:
    """prod (n_l + 1), by the zigzag with one unit that faces left."""
    layers, mix, shift = [], [Fraction(1)], Fraction(0)
    for width in widths:
        units = line_zigzag(width)
        layers.append([[[c + a * shift, *(a * m for m in mix)] for c, a in unit] for unit in units])
        mix = zigzag_mix(width)
        ends = [
            sum(m * max(c + a * x, Fraction(0)) for m, (_, (c, a)) in zip(mix, units, strict=True))
            for x in (1, 2)
        ]
        low, high = min(ends), max(ends)
        scale = Fraction(20) / (
            high - low
        )  # [low, high], the image of each piece, becomes [-5, 15]
        mix, shift = [m * scale for m in mix], -5 - low * scale
    value = prod(n + 1 for n in widths)
    assert count_network_cells(layers, 1) == value
    upper = bounds.relu_network(widths, dimension=1)
    lower = bounds.relu_network_lower(widths, dimension=1)
    assert (upper.value, upper.kind, lower.value) == (value, "exact", value)
    assert bounds.product_of_arrangements(widths, dimension=1).value == value


def folding_layers(pieces: int, d: int, depth: int) -> tuple[list, list]:
    """Layers that fold each coordinate, and the affine map that reads the last one."""
    read = [[Fraction(0), *(Fraction(int(i == j)) for j in range(d))] for i in range(d)]
    layers = []
    for _ in range(depth):
        units, after = [], []
        for i in range(d):
            row = [Fraction(0)] * (d * pieces)
            for m in range(pieces):
                c, *a = read[i]
                units.append([[Fraction(0)] * len(read[i]), [c - Fraction(m, pieces), *a]])
                row[i * pieces + m] = Fraction(pieces) * (1 if m == 0 else 2 * (-1) ** m)
            after.append([Fraction(0), *row])
        layers.append(units)
        read = after
    return layers, read


def cube(d: int) -> list[list[int]]:
    sides = []
    for i in range(d):
        sides += [[0, *(int(i == j) for j in range(d))], [1, *(-int(i == j) for j in range(d))]]
    return sides


@pytest.mark.parametrize(("p", "d", "depth"), [(2, 1, 3), (3, 1, 2), (2, 2, 2), (3, 2, 1)])
def test_folding_networks(p: int, d: int, depth: int) -> None:
    layers, _ = folding_layers(p, d, depth)
    expected = bounds.folding_network(p, dimension=d, layers=depth).value
    assert count_network_cells(layers, d, cube(d)) == expected == p ** (d * depth)


def test_folds_below_a_generic_arrangement() -> None:
    """Widths 4, 3 in the plane: 2^2 folds times the 7 regions of three lines."""
    layers, read = folding_layers(2, 2, 1)
    lines = [
        [Fraction(-1, 2), Fraction(1), Fraction(1, 8)],
        [Fraction(-1, 2), Fraction(1, 8), Fraction(1)],
        [Fraction(-9, 8), Fraction(1), Fraction(1)],
    ]
    layers.append([[[Fraction(0)] * 5, pull_back(line, read)] for line in lines])
    assert count_network_cells(layers, 2, cube(2)) == 28
    assert bounds.relu_network_lower([4, 3], dimension=2).value == 28
    assert bounds.relu_network_lower([6, 3], dimension=2).value == 4**2 * 7  # three units: 4 pieces


@pytest.mark.parametrize("widths", [(2, 2), (3, 1), (1, 3), (3, 2), (2, 3)])
@pytest.mark.parametrize("d", [1, 2])
def test_networks_stay_below_their_bounds(widths: tuple[int, ...], d: int) -> None:
    rng = np.random.default_rng(sum(widths) + d)
    upper = bounds.relu_network(widths, dimension=d).value
    assert upper <= bounds.product_of_arrangements(widths, dimension=d).value
    for _ in range(3):
        layers, inputs = [], d
        for width in widths:
            layers.append([relu(rng.integers(-9, 10, inputs).tolist(), int(rng.integers(-9, 10)))
                           for _ in range(width)])  # fmt: skip
            inputs = width
        assert count_network_cells(layers, d) <= upper


@pytest.mark.parametrize("widths", [(4,), (2, 3), (3, 2, 4), (1, 5), (5, 5, 5), (2, 2, 2, 2)])
@pytest.mark.parametrize("d", [1, 2, 4])
def test_dead_units_are_counted_as_the_formula_says(widths: tuple[int, ...], d: int) -> None:
    """The dynamic programme against the sum over all (j_1, ..., j_L)."""
    total = 0
    for js in product(*(range(n + 1) for n in widths)):
        room = d
        for n, j in zip(widths, js, strict=True):
            if j > room:
                break
            room = min(room, n - j)
        else:
            total += prod(comb(n, j) for n, j in zip(widths, js, strict=True))
    assert bounds.relu_network(widths, dimension=d).value == total


@pytest.mark.parametrize(("n", "k", "d"), [(2, 3, 1), (2, 3, 2), (3, 3, 2), (2, 4, 2), (2, 3, 3)])
def test_maxout_layers(n: int, k: int, d: int) -> None:
    for bias_free in (False, True):
        bound = bounds.maxout_layer(n, rank=k, dimension=d, bias_free=bias_free)
        keys = bounds.attaining_keys(k, n, dimension=d, bias_free=bias_free)
        layer = [np.column_stack([head.biases, head.keys]).tolist() for head in keys]
        assert count_network_cells([layer], d) == bound.value
    affine = bounds.maxout_layer(n, rank=k, dimension=d)
    assert affine.value == sum(comb(n, j) * (k - 1) ** j for j in range(d + 1))
    assert bounds.maxout_network([n], rank=k, dimension=d).value == affine.value


def maxout_zigzag(units: int, rank: int) -> tuple[list, list[int], int]:
    """Convex units for the kinks at odd places, concave for the others; pieces, signs, kinks."""
    convex, concave = (units + 1) // 2, units // 2
    kinks = 2 * concave * (rank - 1) + units % 2
    places: dict[tuple[int, int], list[int]] = {}
    for place in range(kinks):  # the first kink is convex: slope -1 to 1
        sign, number = (1, place // 2) if place % 2 == 0 else (-1, place // 2)
        share = min(number // (rank - 1), (convex if sign > 0 else concave) - 1)
        places.setdefault((sign, share), []).append(place)
    found, signs = [], []
    for (sign, _), at in places.items():
        pieces = [[Fraction(0), Fraction(0)]]
        for place in at:  # each kink adds the slope 2
            c, a = pieces[-1]
            pieces.append([c - 2 * place, a + 2])
        found.append(pieces)
        signs.append(sign)
    tilt = found[0]
    found[0] = [[c, a - 1] for c, a in tilt]  # the slope far left
    return found, signs, kinks


@pytest.mark.parametrize(("widths", "k"), [((2, 2), 2), ((2, 2), 3), ((2, 3), 3), ((3, 1), 3)])
def test_maxout_networks_on_a_line(widths: tuple[int, int], k: int) -> None:
    """An even layer has all its kinks in the zigzag, an odd one a single kink more."""
    units, signs, kinks = maxout_zigzag(widths[0], k)
    keys = bounds.attaining_keys(k, widths[1], dimension=1)
    walls = np.concatenate([-np.diff(head.biases) for head in keys])
    low, high = int(walls.min()) - 1, int(walls.max()) + 1
    ends = [sum(s * max(c + a * x for c, a in u) for s, u in zip(signs, units, strict=True))
            for x in (0, 1)]  # fmt: skip
    slope = Fraction(high - low, abs(ends[1] - ends[0]))
    offset = low - slope * min(ends)
    second = [
        [[b + key * offset, *(key * slope * s for s in signs)]
         for b, key in zip(head.biases.tolist(), head.keys[:, 0].tolist(), strict=True)]
        for head in keys
    ]  # fmt: skip
    lower = bounds.maxout_network_lower(widths, rank=k, dimension=1)
    assert kinks + 1 == lower.value // (widths[1] * (k - 1) + 1)
    assert count_network_cells([units, second], 1) == lower.value
    upper = bounds.maxout_network(widths, rank=k, dimension=1)
    assert upper.value == prod(n * (k - 1) + 1 for n in widths) >= lower.value
    assert (upper.kind == "exact") == (widths[0] % 2 == 0) == (upper.value == lower.value)


def test_lower_bounds_of_networks_never_exceed_the_upper_ones() -> None:
    for d, widths in product((1, 2, 3, 7), [(4, 4), (2, 9, 3), (1, 1), (12, 12, 12), (3, 8, 2, 5)]):
        upper = bounds.relu_network(widths, dimension=d)
        lower = bounds.relu_network_lower(widths, dimension=d)
        assert lower.value <= upper.value
        assert upper.kind != "exact" or upper.value == lower.value
        for k in (2, 3, 5):
            above = bounds.maxout_network(widths, rank=k, dimension=d)
            below = bounds.maxout_network_lower(widths, rank=k, dimension=d)
            assert below.value <= above.value
            assert above.kind != "exact" or below.value == above.value


# ---------------------------------------------------------------- Transformers


def test_a_stack_multiplies() -> None:
    found = bounds.transformer(n=512, heads=8, width=512, layers=6, feed_forward=2048)
    assert found.attention.value == 512**8
    hidden = sum(comb(2048, j) for j in range(513))
    assert found.feed_forward is not None
    assert found.feed_forward.value == hidden
    assert found.upper.value == (512**8 * hidden) ** 6
    assert found.lower.value == 512**48 * (5 ** (511 - 4) * 6**4) ** 6  # 2,048 = 4 x 511 + 4
    assert not found.is_sharp
    assert found.without_feed_forward.upper.value == 512**48


@pytest.mark.parametrize("bias_free", [False, True])
def test_attention_alone_is_known_exactly(bias_free: bool) -> None:
    """N^(HL) for H <= d - 1 heads, in both models: the exponent of V.9 is d - 1, not d."""
    found = bounds.transformer(n=5, heads=3, width=4, layers=7, key_width=2, bias_free=bias_free)
    assert found.is_sharp
    assert found.upper.value == 5 ** (3 * 7)
    assert found.upper.kind == "exact"
    more = bounds.transformer(n=5, heads=4, width=4, layers=7, key_width=2, bias_free=bias_free)
    free = bounds.several_heads(5, 4, dimension=4, bias_free=True).value
    assert more.upper.value == (free if bias_free else 5**4) ** 7
    assert more.lower.value == (9 * 5 * 5) ** 7


def test_the_bias_free_exponent_is_one_less() -> None:
    """d heads, N growing: V / N^(d-1) tends to d with bias-free heads, V = N^d with biases."""
    for d in (2, 3, 4):
        free = bounds.several_heads(10**6, d, dimension=d, bias_free=True).value
        assert free // 10 ** (6 * (d - 1)) in (d - 1, d)
        assert bounds.several_heads(10**6, d, dimension=d).value == 10 ** (6 * d)


def test_key_width_one_leaves_two_ends() -> None:
    free = bounds.transformer(n=9, heads=3, width=3, layers=1, bias_free=True)
    assert free.attention.value == free.lower.value == 2**3
    assert free.rows[0].value == 2
    assert bounds.transformer(n=9, heads=3, width=3, layers=1).attention.value == 9**3
    on_a_line = bounds.transformer(
        n=9, heads=3, width=3, layers=2, dimension=1, key_width=2, bias_free=True
    )
    assert on_a_line.upper.value == on_a_line.lower.value == (3 * 8 + 1) ** 2
    assert on_a_line.rows[0].value == 9


def test_upper_bounds_are_never_below_lower_ones() -> None:
    sizes = product((1, 2, 5), (1, 2, 6), (1, 2, 6), (1, 3), (0, 1, 9), (1, 2), (False, True))
    for n, heads, width, layers, hidden, key_width, bias_free in sizes:
        for dimension in {1, width}:
            found = bounds.transformer(
                n, heads=heads, width=width, layers=layers, feed_forward=hidden,
                dimension=dimension, key_width=key_width, bias_free=bias_free,
            )  # fmt: skip
            assert found.lower.value <= found.upper.value
            assert (found.upper.kind == "exact") == found.is_sharp
            assert found.lower.value >= max(bound.value for bound in found.rows[1:-2])
            if layers == 1 and not hidden:
                assert found.is_sharp


def test_more_of_anything_never_has_fewer_cells() -> None:
    base = {"n": 3, "heads": 2, "width": 4, "layers": 2, "feed_forward": 3, "key_width": 2}
    first = bounds.transformer(**base)
    for name in base:
        more = bounds.transformer(**base | {name: base[name] + 1})
        assert more.upper.value >= first.upper.value
        assert more.lower.value >= first.lower.value


def test_deep_stack() -> None:
    a, b = bounds.several_heads(3, 2, dimension=2), bounds.feed_forward(4, dimension=2)
    both = bounds.deep_stack([a, b], times=3)
    assert (both.value, both.kind) == ((9 * 11) ** 3, "upper")
    assert bounds.deep_stack([a]).kind == "exact"
    assert bounds.deep_stack([bounds.several_heads(1, 1, dimension=1)], times=10**12).value == 1
    lower = bounds.relu_network_lower([4, 4], dimension=2)
    for bad, sentence in (([], "at least one"), ([a, 3], "at least one"), ([lower], "lower bound")):
        with pytest.raises(RequestError, match=sentence):
            bounds.deep_stack(bad)  # type: ignore[arg-type]


# ---------------------------------------------------------------- comparison


def test_rivals_fit_into_the_parameters_and_one_layer_more_does_not() -> None:
    found = bounds.compare(n=64, heads=4, width=64, layers=6, feed_forward=256)
    names = [rival.name for rival in found.rivals]
    assert names[0] == "as given"
    assert {"1 head", "2x heads", "1/2 width", "2x width", "attention only"} <= set(names)
    first = found.rivals[0].architecture
    assert found.parameters == first.parameters == 6 * (4 * 64 * 64 + 2 * 64 * 256 + 256 + 64)
    for rival in found.rivals:
        a = rival.architecture
        assert a.parameters <= found.parameters
        assert rival is found.rivals[0] or a.parameters + a.layer_parameters > found.parameters
        assert a.dimension == found.dimension == 16
        assert str(rival.bounds.architecture) in str(found)


def test_at_equal_parameters_depth_wins_against_width() -> None:
    found = bounds.compare(n=64, heads=4, width=64, layers=6)
    cells = {rival.name: rival.bounds.lower.value for rival in found.rivals}
    assert cells["1/4 width"] > cells["1/2 width"] > cells["as given"] > cells["2x width"]
    assert cells["4x heads"] > cells["2x heads"] > cells["as given"] > cells["1 head"]
    layers = {rival.name: rival.architecture.layers for rival in found.rivals}
    assert layers["1/2 width"] == 24
    assert layers["1/4 width"] == 96


def test_a_given_dimension_leaves_narrower_rivals_out() -> None:
    found = bounds.compare(n=8, heads=2, width=16, layers=4, dimension=12, feed_forward=2)
    assert {rival.architecture.dimension for rival in found.rivals} == {12}
    assert "1/2 width" not in [rival.name for rival in found.rivals]


# ---------------------------------------------------------------- the value


def test_numbers_are_exact_and_print_rounded() -> None:
    big = bounds.several_heads(512, 8, dimension=512)
    assert str(big) == "8 heads of 512 keys in R^512: exactly 4.722e21 cells"
    assert int(big) == 2**72
    assert bounds.scientific(999_999_999) == "999,999,999"
    assert bounds.scientific(10**9) == "1.000e9"
    assert bounds.scientific(9_999_499_999) == "9.999e9"
    assert bounds.scientific(9_999_500_000) == "1.000e10"
    assert bounds.scientific(10**5000 - 1) == "1.000e5000"
    assert bounds.scientific(10**5000) == "1.000e5000"
    deep = bounds.feed_forward(20_000, dimension=20_000)
    assert deep.value == 2**20_000
    text = deep.digits
    rest = 0
    for start in range(0, len(text), 4000):
        part = text[start : start + 4000]
        rest = rest * 10 ** len(part) + int(part)
    assert rest == 2**20_000
    assert json.loads(json.dumps(deep.as_dict()))["value"] == text


def test_records_are_plain_data() -> None:
    found = bounds.transformer(n=4, heads=2, width=4, layers=2, feed_forward=3)
    record = json.loads(json.dumps(found.as_dict()))
    assert record["upper"]["value"] == str(found.upper.value)
    assert record["attention_only"]["lower"]["value"] == str(4**4)
    assert len(record["bounds"]) == 5
    assert all(bound["reference"] and bound["formula"] for bound in record["bounds"])
    assert json.loads(json.dumps(bounds.compare(4, heads=2, width=4, layers=2).as_dict()))


SIZES = bounds.Architecture(tokens=8, heads=2, width=16, layers=4)


def test_sizes_are_one_value() -> None:
    """Tokens under either name, or an architecture; its dimension, if it is less than the width."""
    words = {"heads": 2, "width": 16, "layers": 4}
    for found in (
        bounds.transformer(SIZES),
        bounds.transformer(8, **words),
        bounds.transformer(n=8, **words, feed_forward=None, key_width=None, dimension=None),
    ):
        assert found == bounds.transformer(tokens=8, **words)
        assert found.architecture == SIZES
    assert bounds.compare(SIZES) == bounds.compare(8, **words)
    assert bounds.compare(SIZES).dimension == 4
    assert bounds.compare(8, **words, dimension=16).dimension == 16
    smaller = bounds.Architecture(tokens=8, dimension=12, **words)
    assert bounds.compare(smaller).dimension == 12


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: bounds.single_head(0, dimension=2), "tokens must be a whole number >= 1"),
        (lambda: bounds.single_head(2.5, dimension=2), "but it is 2.5"),
        (lambda: bounds.single_head(True, dimension=2), "but it is True"),
        (lambda: bounds.several_heads(3, dimension=2), "Give the number of heads"),
        (lambda: bounds.several_heads([3, 4], 3, dimension=2), "lists 2 heads"),
        (lambda: bounds.several_heads("33", 2, dimension=2), "whole number"),
        (lambda: bounds.several_heads([], dimension=2), "empty"),
        (lambda: bounds.feed_forward(3, dimension=0), "dimension must be"),
        (lambda: bounds.maxout_layer(3, rank=1, dimension=2), "rank must be"),
        (lambda: bounds.relu_network([], dimension=2), "widths must hold at least one"),
        (lambda: bounds.relu_network(4, dimension=2), "list of whole numbers"),
        (lambda: bounds.transformer(heads=1, width=2, layers=1), "once, as n or as tokens"),
        (lambda: bounds.transformer(2, n=2, heads=1, width=2, layers=1), "once"),
        (lambda: bounds.transformer(2, heads=1), "needs width and layers as well"),
        (lambda: bounds.transformer(2, heads=1, width=2, layers=1, depth=1), "has no 'depth'"),
        (lambda: bounds.transformer(SIZES, heads=1, width=2, layers=1), "but not both: heads"),
        (lambda: bounds.compare(2, heads=1, width=4, layers=1, key_width=2), "key width out"),
        (lambda: bounds.transformer(2, heads=3, width=4, layers=1), "3 heads do not divide"),
        (lambda: bounds.transformer(2, heads=1, width=4, layers=1, dimension=5), "at most the w"),
        (lambda: bounds.transformer(2, heads=1, width=4, layers=1, dimension=0), "dimension must"),
        (lambda: bounds.transformer(2, heads=1, width=4, layers=1, key_width=0), "key_width must"),
        (lambda: bounds.transformer(2, heads=1, width=4, layers=1, feed_forward=-1), "feed_f"),
        (lambda: bounds.transformer(2, heads=1, width=4, layers=10**9), "smaller model"),
        (lambda: bounds.feed_forward(10**9, dimension=10**8), "smaller model"),
        (lambda: bounds.attaining_keys(10**8, 2, dimension=2), "fit into int64"),
        (lambda: Bound(0, "upper", "", "", ""), "value of a bound"),
        (lambda: Bound(1, "sharp", "", "", ""), "upper, lower or exact"),  # type: ignore[arg-type]
    ],
)
def test_refusals(call, sentence: str) -> None:
    with pytest.raises(RequestError, match=sentence):
        call()
