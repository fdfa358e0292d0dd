"""ReLU networks on convex polygons: counts against independent ones, brute force and formulas."""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest

from hardmax import DomainError
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import OverLimit, count_unions, total
from hardmax.geometry.counting.plane._counting import (
    count_piece,
    each_cell,
    split_piece,
    start_piece,
)
from hardmax.languages import ReluNetwork

DATA = Path(__file__).parents[1] / "data" / "regions"
Point = tuple[Fraction, Fraction]
Polygon = list[Point]


def polygon(*corners: tuple[int | Fraction, int | Fraction]) -> Polygon:
    return [(Fraction(x), Fraction(y)) for x, y in corners]


SQUARE = polygon((-1, -1), (1, -1), (1, 1), (-1, 1))
TRIANGLE = polygon((-1, -1), (Fraction(4, 3), Fraction(-1, 2)), (0, 1))
PENTAGON = polygon((-1, 0), (0, -1), (1, -1), (1, 0), (0, 1))


def stack_on(network: ReluNetwork, corners: Polygon) -> Stack:
    reach = [np.nextafter(float(max(abs(p[k]) for p in corners)), np.inf) for k in range(2)]
    return Stack.of(network, reach)


def counted(network: ReluNetwork, corners: Polygon = SQUARE, **options: bool) -> tuple[int, int]:
    """Cells and regions."""
    stack = stack_on(network, corners)
    tally = count_piece(stack, start_piece(stack, corners), regions=True, **options)
    assert tally.layers == count_piece(stack, start_piece(stack, corners), **options).layers
    return tally.cells, tally.cells - count_unions(tally.silent)


def saved(name: str) -> ReluNetwork:
    with np.load(DATA / f"{name}.npz") as data:
        layers = range(1, 1 + sum(key.startswith("W") for key in data.files))
        return ReluNetwork([data[f"W{k}"] for k in layers], [data[f"b{k}"] for k in layers])


# ---- brute force in Fractions: points, not lines; neuron after neuron ----------------------------


def value(form: list[Fraction], p: Point) -> Fraction:
    return form[0] * p[0] + form[1] * p[1] + form[2]


def clipped(corners: Polygon, form: list[Fraction], sign: int) -> Polygon:
    """The part of a polygon where sign * form >= 0; empty if it has no area."""
    values = [sign * value(form, p) for p in corners]
    if max(values) <= 0:
        return []
    found = []
    for k, (p, v) in enumerate(zip(corners, values, strict=True)):
        q, w = corners[(k + 1) % len(corners)], values[(k + 1) % len(corners)]
        if v >= 0:
            found.append(p)
        if v * w < 0:
            t = v / (v - w)
            found.append((p[0] + t * (q[0] - p[0]), p[1] + t * (q[1] - p[1])))
    return found


def brute_cells(network: ReluNetwork, corners: Polygon) -> list[list[tuple]]:
    """For every layer all cells: polygon, pattern, and the affine maps of the layer after."""
    layers = [
        ([[Fraction(x) for x in row] for row in W.tolist()], [Fraction(x) for x in b.tolist()])
        for W, b in zip(network.weights, network.biases, strict=True)
    ]
    W, b = layers[0]
    cells = [(corners, (), [[*row, c] for row, c in zip(W, b, strict=True)])]
    found = []
    for W, b in layers[1:]:
        after = []
        for place, pattern, maps in cells:
            parts = [(place, ())]
            for form in maps:
                parts = [
                    (half, (*states, sign > 0))
                    for part, states in parts
                    for sign in (1, -1)
                    if (half := clipped(part, form, sign))
                    or (sign < 0 and not any(value(form, p) for p in part) and (half := part))
                ]
            for part, states in parts:
                on = [form for form, is_on in zip(maps, states, strict=True) if is_on]
                rows = [[w for w, is_on in zip(row, states, strict=True) if is_on] for row in W]
                new = [
                    [
                        sum((w * f[k] for w, f in zip(row, on, strict=True)), c * (k == 2))
                        for k in range(3)
                    ]
                    for row, c in zip(rows, b, strict=True)
                ]
                after.append((part, (*pattern, states), new))
        cells = after
        found.append(cells)
    return found


def share_a_facet(one: Polygon, two: Polygon) -> bool:
    """Whether two polygons with disjoint interiors meet in more than a point."""
    for k, p in enumerate(one):
        q = one[(k + 1) % len(one)]
        for j, r in enumerate(two):
            s = two[(j + 1) % len(two)]
            d = (q[0] - p[0], q[1] - p[1])
            if any(d[0] * (t[1] - p[1]) != d[1] * (t[0] - p[0]) for t in (r, s)):
                continue
            length = d[0] ** 2 + d[1] ** 2
            at = sorted((d[0] * (t[0] - p[0]) + d[1] * (t[1] - p[1])) for t in (r, s))
            if min(length, at[1]) > max(0, at[0]):
                return True
    return False


def brute_regions(cells: list[tuple]) -> int:
    parent = list(range(len(cells)))

    def root(k: int) -> int:
        while parent[k] != k:
            k = parent[k]
        return k

    for j, k in combinations(range(len(cells)), 2):
        if cells[j][2] == cells[k][2] and share_a_facet(cells[j][0], cells[k][0]):
            parent[root(j)] = root(k)
    return sum(parent[k] == k for k in range(len(cells)))


def small_network(seed: int) -> ReluNetwork:
    """Weights and biases in {-2, ..., 2}, many of them 0: degenerate more often than not."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(1, 5, size=rng.integers(1, 4)).tolist()
    widths = [2, *hidden, int(rng.integers(1, 3))]
    span = int(rng.integers(1, 3))
    weights = [
        rng.integers(-span, span + 1, size=(m, n)).astype(float) for n, m in pairwise(widths)
    ]
    biases = [rng.integers(-1, 2, size=m) * float(rng.integers(0, 2)) for m in widths[1:]]
    return ReluNetwork(weights, biases)


@pytest.mark.parametrize("corners", [SQUARE, TRIANGLE, PENTAGON], ids=["square", "tri", "penta"])
@pytest.mark.parametrize("block", range(4))
def test_small_whole_weights_agree_with_brute_force(block: int, corners: Polygon) -> None:
    for seed in range(40 * block, 40 * block + 40):
        network = small_network(seed)
        layers = brute_cells(network, corners)
        stack = stack_on(network, corners)
        tally = count_piece(stack, start_piece(stack, corners), regions=True)
        assert tally.layers == tuple(len(cells) for cells in layers), seed
        assert tally.cells - count_unions(tally.silent) == brute_regions(layers[-1]), seed


# ---- counts known from elsewhere -----------------------------------------------------------------


@pytest.mark.parametrize("fast", [False, True], ids=["exact", "fast"])
@pytest.mark.parametrize("name", ["d2_16x2", "d2_32x3", "d2_64x3"])
def test_counts_after_every_layer(name: str, fast: bool) -> None:
    wanted = json.loads((DATA / "expected_counts.json").read_text())["nets"][name]
    stack = stack_on(saved(name), SQUARE)
    tally = count_piece(stack, start_piece(stack, SQUARE), fast=fast)
    assert list(tally.layers) == wanted["regions_after_each_layer"]
    assert not fast or tally.decided == 0


def folding(teeth: int, layers: int) -> ReluNetwork:
    """Each coordinate of [0, teeth]^2 is folded `teeth` times onto [0, teeth], again and again."""
    first = np.kron(np.eye(2), np.ones((teeth, 1)))
    starts = -np.tile(np.arange(teeth, dtype=float), 2)
    slopes = [2.0 * teeth * (-1) ** k if k else teeth for k in range(teeth)]
    fold = np.kron(np.eye(2), np.array([slopes]))
    weights = [first, *[first @ fold] * (layers - 1), fold]
    return ReluNetwork(weights, [*[starts] * layers, np.zeros(2)])


@pytest.mark.parametrize(
    ("teeth", "layers"), [(2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)]
)
def test_folding_networks_have_exactly_p_to_the_2l_cells(teeth: int, layers: int) -> None:
    """Walls of every layer touch the cells of the one before along their sides."""
    cube = polygon((0, 0), (teeth, 0), (teeth, teeth), (0, teeth))
    stack = stack_on(folding(teeth, layers), cube)
    tally = count_piece(stack, start_piece(stack, cube), regions=True)
    assert tally.layers == tuple(teeth ** (2 * k) for k in range(1, layers + 1))
    assert tally.decided > 0
    assert count_unions(tally.silent) == 0  # every fold is a kink


def test_lines_in_general_position() -> None:
    """n lines that cross in the polygon make 1 + n + C(n, 2) cells: tangents of a small circle."""
    n = 40
    angles = np.pi * (np.arange(n) + 0.3) / n
    first = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    network = ReluNetwork([first, np.ones((1, n))], [np.full(n, 1e-3), [0.0]])
    far = polygon((-9, -9), (9, -9), (9, 9), (-9, 9))
    assert counted(network, far) == (1 + n + n * (n - 1) // 2,) * 2


# ---- degenerate by hand --------------------------------------------------------------------------


def test_an_affine_function_in_two_cells() -> None:
    """relu(x) - relu(-x) = x."""
    network = ReluNetwork([[[1.0, 0.0], [-1.0, 0.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    assert counted(network) == (2, 1)


def test_dead_outputs_join_everything() -> None:
    rng = np.random.default_rng(1)
    network = ReluNetwork([rng.normal(size=(5, 2)), np.zeros((2, 5))], [np.zeros(5), np.ones(2)])
    assert counted(network) == (10, 1)


def test_dead_neurons_cut_without_a_kink() -> None:
    """The second neuron has no say: its wall is there, its kink is not."""
    network = ReluNetwork([np.eye(2), [[1.0, 0.0]]], [[0.0, 0.0], [0.0]])
    assert counted(network) == (4, 2)


def test_copies_of_neurons_change_nothing() -> None:
    """Repeated, mirrored and doubled neurons have the same walls (3 w would round)."""
    rng = np.random.default_rng(2)
    W, b, V, c = rng.normal(size=(6, 2)), rng.normal(size=6) / 4, rng.normal(size=(5, 6)), 0.1
    last = rng.normal(size=(1, 5))
    once = ReluNetwork([W, V, last], [b, np.full(5, c), [0.0]])
    copies, zeros = np.vstack([W, W, -2.0 * W]), np.zeros((5, 12))
    more = ReluNetwork(
        [copies, np.vstack([np.hstack([V, zeros])] * 2), np.hstack([last, last])],
        [np.concatenate([b, b, -2.0 * b]), np.full(10, c), [0.0]],
    )
    assert counted(once)[0] == counted(more)[0] > 20
    assert counted(once)[1] == counted(more)[1]


def test_walls_along_sides_and_through_corners() -> None:
    """x + 1, y - 1 vanish on sides, x + y - 2 touches a corner, x - y joins two of them."""
    W = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]
    network = ReluNetwork([W, [[1.0, 1.0, 1.0, 1.0]]], [[1.0, -1.0, -2.0, 0.0], [0.0]])
    assert counted(network) == (2, 2)


def test_a_pencil_of_walls_through_one_point() -> None:
    W = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0], [2.0, 1.0], [1.0, 3.0]]
    network = ReluNetwork([W, np.ones((1, 6))], [np.zeros(6), [0.0]])
    assert counted(network) == (12, 12)


def test_walls_closer_than_floats_can_tell() -> None:
    """x = 0 and x = 2^-60 |1 + y / 2|: one strip between them, of a width no float near 1 has."""
    tiny = 2.0**-60
    network = ReluNetwork([[[1.0, 0.0], [1.0, -tiny / 2]], [[1.0, 1.0]]], [[0.0, -tiny], [0.0]])
    assert counted(network) == (3, 3)
    assert counted(network, polygon((-1, -1), (1, -1), (1, 0), (-1, 0))) == (3, 3)


def test_zero_weights_and_no_biases() -> None:
    """Where the first layer is off the second is identically 0, which counts as off."""
    network = ReluNetwork(
        [np.eye(2), [[1.0, 1.0], [-1.0, -1.0], [0.0, 0.0]], [[1.0, 1.0, 1.0]]],
        [np.zeros(2), np.zeros(3), [0.0]],
    )
    assert counted(network) == (4, 4)


def test_a_slice_with_fractions() -> None:
    """On a slice the first layer need not be floats: thirds are decided, not rounded."""
    thirds = [[Fraction(1, 3), Fraction(1, 7), 0], [0, Fraction(1, 3), Fraction(1, 7)]]
    rng = np.random.default_rng(4)
    network = ReluNetwork([rng.integers(-2, 3, (7, 3)), rng.normal(size=(1, 7))], [[0] * 7, [0]])
    stack = Stack.of(network, [1.0, 1.0], [Fraction(1, 3), 0, Fraction(-1, 3)], thirds)
    forms = stack.exact_maps((), 0)
    cells = [SQUARE]
    for form in forms:
        cells = [h for cell in cells for s in (1, -1) if (h := clipped(cell, form, s))]
    assert count_piece(stack, start_piece(stack, SQUARE)).cells == len(cells)


# ---- pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("at_least", [1, 2, 7, 300])
def test_pieces_add_up(at_least: int) -> None:
    """Counts of all layers and silent facets, also after pickling."""
    stack = stack_on(saved("d2_32x3"), SQUARE)
    whole = start_piece(stack, SQUARE)
    pieces = pickle.loads(pickle.dumps(split_piece(stack, whole, at_least=at_least)))
    assert len(pieces) >= at_least
    assert total(count_piece(stack, p) for p in pieces).layers == count_piece(stack, whole).layers


@pytest.mark.parametrize("seed", range(12))
def test_pieces_of_degenerate_networks_have_the_same_regions(seed: int) -> None:
    stack = stack_on(small_network(seed), PENTAGON)
    whole = start_piece(stack, PENTAGON)
    alone = count_piece(stack, whole, regions=True)
    parts = split_piece(stack, whole, at_least=5)
    assert len(parts) == 5 or len(parts) == alone.cells < 5
    again = total(count_piece(stack, part, regions=True) for part in parts)
    assert again.layers == alone.layers
    assert count_unions(again.silent) == count_unions(alone.silent)


def test_pieces_are_of_similar_size() -> None:
    stack = stack_on(saved("d2_64x3"), SQUARE)
    parts = split_piece(stack, start_piece(stack, SQUARE), at_least=64)
    sizes = [count_piece(stack, part).cells for part in parts]
    assert max(sizes) < 0.1 * sum(sizes)


def test_a_limit_stops_the_count() -> None:
    stack = stack_on(saved("d2_64x3"), SQUARE)
    whole = start_piece(stack, SQUARE)
    assert count_piece(stack, whole, limit=3_509).cells == 3_509
    with pytest.raises(OverLimit, match="more than 100 cells") as caught:
        count_piece(stack, whole, limit=100)
    assert 100 < caught.value.found < 200


# ---- cells ---------------------------------------------------------------------------------------


def area(corners: list[Point]) -> Fraction:
    return (
        sum(
            (
                p[0] * q[1] - p[1] * q[0]
                for p, q in zip(corners, corners[1:] + corners[:1], strict=True)
            ),
            Fraction(0),
        )
        / 2
    )


@pytest.mark.parametrize("name", ["saved", "folding"])
def test_cells_fill_the_domain_exactly(name: str) -> None:
    """Exact areas are positive and add up; the network's own pattern inside is the cell's."""
    network, corners = (
        (saved("d2_16x2"), SQUARE)
        if name == "saved"
        else (folding(3, 2), polygon((0, 0), (3, 0), (3, 3), (0, 3)))
    )
    stack = stack_on(network, corners)
    cells = list(each_cell(stack, start_piece(stack, corners)))
    assert len(cells) == count_piece(stack, start_piece(stack, corners)).cells
    areas = [area(cell.exact_corners()) for cell in cells]
    assert min(areas) > 0
    assert sum(areas) == area(corners)
    for cell in cells:
        assert np.allclose(cell.corners, np.array(cell.exact_corners(), float), atol=1e-12)
        x = cell.corners.mean(axis=0)  # far from all walls, compared with 1e-12
        for W, b, states in zip(network.weights, network.biases, cell.patterns, strict=False):
            assert ((W @ x + b > 0) == states).all()
            x = np.maximum(W @ x + b, 0.0)


def test_labels_name_the_walls() -> None:
    """The neuron of a side vanishes on it; sides of the domain are numbered from the first."""
    network = saved("d2_32x3")
    stack = stack_on(network, SQUARE)
    seen = set()
    for cell in each_cell(stack, start_piece(stack, SQUARE), fast=True):
        ends = np.stack([cell.corners, np.roll(cell.corners, -1, axis=0)], axis=1)
        for (layer, i), pair in zip(cell.labels, ends, strict=True):
            seen.add(layer)
            if layer < 0:
                axis, value_there = [(1, -1), (0, 1), (1, 1), (0, -1)][i]
                assert (pair[:, axis] == value_there).all()
                continue
            x = pair.T
            for W, b, states in zip(
                network.weights[:layer], network.biases, cell.patterns, strict=False
            ):
                x = (W @ x + b[:, None]) * states[:, None]
            value_at = network.weights[layer][i] @ x + network.biases[layer][i]
            assert np.abs(value_at).max() < 1e-12  # rounding: values are below 10
    assert seen == {-1, 0, 1, 2}


def test_many_cells_come_in_batches() -> None:
    stack = stack_on(saved("d2_64x3"), SQUARE)
    names = {
        b"".join(p.tobytes() for p in cell.patterns)
        for cell in each_cell(stack, start_piece(stack, SQUARE))
    }
    assert len(names) == 3_509


def test_polygons_with_many_sides_and_deep_walks_find_room() -> None:
    """Forty sides, and a wall near each that cuts off a corner: rooms are enlarged as needed."""
    n = 40
    turns = [Fraction(k, 20) - 1 for k in range(n // 2)]
    upper = [((1 - t * t) / (1 + t * t), 2 * t / (1 + t * t)) for t in turns]
    circle = upper + [(-x, -y) for x, y in upper]
    outer = np.array([[float(x), float(y)] for x, y in circle])
    network = ReluNetwork([outer, np.ones((1, n))], [np.full(n, -0.999), [0.0]])
    assert counted(network, circle) == (len(brute_cells(network, circle)[-1]),) * 2


# ---- refusals ------------------------------------------------------------------------------------


def test_polygons_that_are_not() -> None:
    stack = stack_on(saved("d2_16x2"), SQUARE)
    with pytest.raises(DomainError, match="counter-clockwise"):
        start_piece(stack, SQUARE[::-1])
    with pytest.raises(DomainError, match="strictly"):
        start_piece(stack, polygon((0, 0), (Fraction(1, 2), 0), (1, 0), (0, 1)))
    with pytest.raises(DomainError, match="3 corners"):
        start_piece(stack, SQUARE[:2])
    with pytest.raises(DomainError, match="reach"):
        start_piece(stack, polygon((0, 0), (2, 0), (0, 1)))


# ---- the filter ----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_distrusting_every_float_gives_the_same_count(seed: int) -> None:
    """With slacks blown up nearly every sign goes the exact way, and nothing changes."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(size=s) for s in ((7, 2), (6, 7), (5, 6), (1, 5))]
    network = ReluNetwork(weights, [rng.normal(size=len(W)) / 2 for W in weights])
    plain, wary = stack_on(network, SQUARE), stack_on(network, SQUARE)
    wary.__dict__["slacks"] = tuple(e + 1e9 for e in wary.slacks)
    one, two = (
        count_piece(stack, start_piece(stack, SQUARE), regions=True) for stack in (plain, wary)
    )
    assert one.decided == 0 < one.cells < two.decided
    assert one.layers == two.layers
    assert count_unions(one.silent) == count_unions(two.silent)


@pytest.mark.parametrize("seed", range(8))
def test_corners_of_walls_that_are_nearly_parallel(seed: int) -> None:
    """Walls at angles of 1e-9 meet where floats know to 1e-7; others pass within that distance.

    Counts hardly notice a wrong sign there, but the cell is then on the wrong side: its exact area
    is negative, or the exact pattern inside is another.
    """
    rng = np.random.default_rng(seed)
    flat = np.array([0.3, 0.7, 0.01]) + 1e-9 * rng.normal(size=(4, 3)) * [1.0, 1.0, 0.3]
    points = [
        np.linalg.solve(flat[[i, j], :2], -flat[[i, j], 2]) for i, j in combinations(range(4), 2)
    ]
    across = np.array([[1.0, s, -(x + s * y)] for x, y in points for s in rng.normal(size=1)])
    forms = np.vstack([flat, across])
    network = ReluNetwork([forms[:, :2], np.ones((1, len(forms)))], [forms[:, 2], [0.0]])
    stack = stack_on(network, SQUARE)
    cells = list(each_cell(stack, start_piece(stack, SQUARE)))
    assert len(cells) == len(brute_cells(network, SQUARE)[-1])
    rows = stack.exact_maps((), 0)
    for cell in cells:
        corners = cell.exact_corners()
        assert area(corners) > 0
        centre = tuple(sum(p[k] for p in corners) / len(corners) for k in range(2))
        assert [value(row, centre) > 0 for row in rows] == cell.patterns[0].tolist()


@pytest.mark.parametrize(("last", "regions"), [(1.0, 1), (1.0 + 2.0**-52, 2)])
def test_a_kink_of_one_unit_in_the_last_place(last: float, regions: int) -> None:
    """Two paths cancel to 0 or to 2^-52, below what rounding may do: decided exactly."""
    network = ReluNetwork(
        [[[1.0, 0.0]], [[1.0], [last]], [[1.0, -1.0]]], [[0.0], [5.0, 5.0], [0.0]]
    )
    assert counted(network) == (2, regions)
