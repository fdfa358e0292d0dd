"""ReLU networks in many dimensions: known counts, brute force, and what the kernels claim."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from math import comb, factorial, gcd
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import Tally, count_unions, total
from hardmax.geometry.counting.space import _walk as _space_walk
from hardmax.geometry.counting.space._counting import (
    SpaceCell,
    SpacePiece,
    count_piece,
    each_cell,
    split_piece,
    start_piece,
)

DATA = Path(__file__).parents[1] / "data" / "regions"
EXPECTED = json.loads((DATA / "expected_counts.json").read_text())["nets"]

Row = tuple[int, ...]


def on_box(
    network: hm.ReluNetwork, low: float = -1.0, high: float = 1.0, inequalities: Sequence = ()
) -> tuple[Stack, SpacePiece]:
    d = network.weights[0].shape[1]
    stack = Stack.of(network, np.full(d, max(abs(low), abs(high))))
    return stack, start_piece(stack, np.full(d, low), np.full(d, high), inequalities)


def stored(name: str) -> hm.ReluNetwork:
    with np.load(DATA / f"{name}.npz") as file:
        count = sum(key.startswith("W") for key in file.files)
        return hm.ReluNetwork(
            [file[f"W{k}"] for k in range(1, count + 1)],
            [file[f"b{k}"] for k in range(1, count + 1)],
        )


def one_layer(W: np.ndarray, b: np.ndarray) -> hm.ReluNetwork:
    """Every neuron is heard at the output, with a weight of its own."""
    return hm.ReluNetwork([W, np.arange(1.0, len(b) + 1)[None]], [b, np.zeros(1)])


def normal(seed: int, *widths: int) -> hm.ReluNetwork:
    rng = np.random.default_rng(seed)
    pairs = list(pairwise(widths))
    return hm.ReluNetwork(
        [rng.standard_normal((m, n)) for n, m in pairs],
        [0.3 * rng.standard_normal(m) for _, m in pairs],
    )


def regions(tally: Tally) -> int:
    return tally.cells - count_unions(tally.silent)


# ---- counts that are known -----------------------------------------------------------------------


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("fast", [False, True])
def test_stored_networks_have_their_counts_after_every_layer(name: str, fast: bool) -> None:
    stack, piece = on_box(stored(name))
    wanted = tuple(EXPECTED[name]["regions_after_each_layer"])
    tally = count_piece(stack, piece, fast=fast)
    assert tally.layers == wanted
    assert tally.decided == 0  # nothing degenerate here: the filter wastes no exact arithmetic
    assert count_piece(stack, piece, fast=fast, regions=True).layers == wanted


def folding(p: int, layers: int, d: int) -> hm.ReluNetwork:
    """p teeth a coordinate and layer, on the unit cube, in whole numbers: t(x) = |p x folded|."""
    first = np.zeros((p * d, d))
    level = np.zeros(p * d)
    tooth = np.zeros((d, p * d))
    for c, m in product(range(d), range(p)):
        first[c * p + m, c], level[c * p + m] = p, -m
        tooth[c, c * p + m] = 1 if m == 0 else 2 * (-1) ** m
    inner = [first @ tooth] * (layers - 1)
    return hm.ReluNetwork([first, *inner, tooth], [*[level] * layers, np.zeros(d)])


FOLDS = [(2, 2, 3), (3, 1, 3), (2, 3, 3), (2, 1, 4), (2, 2, 4), (3, 2, 2), (2, 3, 2), (5, 2, 1)]


@pytest.mark.parametrize(("p", "layers", "d"), FOLDS)
def test_folding_networks_have_exactly_p_to_the_ld_cells(p: int, layers: int, d: int) -> None:
    """Walls touch cells without cutting them, at every vertex: nothing here is generic."""
    stack, piece = on_box(folding(p, layers, d), 0.0, 1.0)
    tally = count_piece(stack, piece)
    assert tally.layers == tuple(p ** (k * d) for k in range(1, layers + 1))
    assert tally.decided > 0
    assert regions(count_piece(stack, piece, regions=True)) == p ** (layers * d)


@pytest.mark.parametrize(("n", "d"), [(7, 1), (9, 2), (10, 3), (9, 4), (8, 5), (8, 6), (7, 8)])
def test_generic_walls_make_a_sum_of_binomials(n: int, d: int) -> None:
    """The box is so large that all vertices of the arrangement lie in it."""
    rng = np.random.default_rng(n)
    stack, piece = on_box(one_layer(rng.standard_normal((n, d)), rng.standard_normal(n)), -1e6, 1e6)
    wanted = sum(comb(n, j) for j in range(d + 1))
    assert count_piece(stack, piece).cells == wanted
    assert count_piece(stack, piece, regions=True).cells == wanted


@pytest.mark.parametrize(("n", "d"), [(5, 2), (8, 3), (7, 4), (6, 5)])
def test_walls_through_one_point_make_twice_a_sum_of_binomials(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    stack, piece = on_box(one_layer(rng.standard_normal((n, d)), np.zeros(n)))
    assert count_piece(stack, piece).cells == 2 * sum(comb(n - 1, j) for j in range(d))


@pytest.mark.parametrize(("shift", "wanted"), [(0.0, 14), (2.0**-90, 15), (-(2.0**-90), 15)])
def test_four_planes_meet_in_a_point_or_almost(shift: float, wanted: int) -> None:
    """No float value tells 2^-90 from the rounding around it."""
    W = np.array([[1.0, 0.5, 0.25], [0.0, 1.0, 0.5], [0.5, 0.0, 1.0], [1.0, 1.0, 1.0]])
    stack, piece = on_box(one_layer(W, np.array([0.0, 0.0, 0.0, shift])))
    tally = count_piece(stack, piece)
    assert tally.cells == wanted
    assert tally.decided > 0
    assert count_piece(stack, piece, regions=True).cells == wanted


def test_three_walls_on_a_segment_of_a_flat_may_be_one_point() -> None:
    """Counting by flats sees concurrent walls only as points of a segment that coincide."""
    W = np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.0], [0.5, 1.0, 0.0]])
    stack, piece = on_box(one_layer(W, np.zeros(3)))
    assert count_piece(stack, piece).cells == 6
    stack, piece = on_box(one_layer(np.array([[2.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.5])))
    assert count_piece(stack, piece).cells == 3


# ---- regions -------------------------------------------------------------------------------------


def test_a_network_may_have_fewer_regions_than_cells() -> None:
    """relu(s) - relu(-s) = s, for s a sum of three coordinates."""
    s = np.ones((1, 3))
    stack, piece = on_box(
        hm.ReluNetwork([np.vstack([s, -s]), np.array([[1.0, -1.0]])], [[0, 0], [0]])
    )
    tally = count_piece(stack, piece, regions=True)
    assert (tally.cells, regions(tally)) == (2, 1)


def test_what_the_output_does_not_hear_makes_no_regions() -> None:
    network = normal(3, 3, 6, 5, 2)
    deaf = hm.ReluNetwork([*network.weights[:-1], np.zeros((2, 5))], network.biases)
    stack, piece = on_box(deaf)
    tally = count_piece(stack, piece, regions=True)
    assert tally.cells == count_piece(*on_box(network)).cells > 50
    assert regions(tally) == 1
    assert regions(count_piece(*on_box(network), regions=True)) > 40


def test_a_cell_whose_deepest_layer_is_off_is_joined_with_the_next_such() -> None:
    """-relu(x) - relu(y) - relu(z) - 1 is never on: eight cells, one region, one constant map."""
    W = [np.eye(3), -np.ones((1, 3)), np.ones((1, 1))]
    stack, piece = on_box(hm.ReluNetwork(W, [np.zeros(3), -np.ones(1), np.zeros(1)]))
    tally = count_piece(stack, piece, regions=True)
    assert (tally.layers, regions(tally)) == ((8, 8), 1)


def test_repeated_and_scaled_neurons_and_walls_along_sides_add_nothing() -> None:
    rng = np.random.default_rng(5)
    W, b = rng.standard_normal((6, 3)), 0.3 * rng.standard_normal(6)
    more = np.vstack([W, W[:2], -2.0 * W[2:3], np.zeros((2, 3)), np.eye(3)[:1], -np.eye(3)[1:2]])
    levels = np.concatenate([b, b[:2], -2.0 * b[2:3], [0.0, -1.0], [-1.0], [-1.0]])
    plain = count_piece(*on_box(one_layer(W, b)))
    padded = one_layer(more, levels)
    assert count_piece(*on_box(padded)).cells == plain.cells
    tally = count_piece(*on_box(padded), regions=True)
    assert (tally.cells, regions(tally)) == (plain.cells, plain.cells)


# ---- brute force ---------------------------------------------------------------------------------


def _least(row: Row) -> Row:
    common = gcd(*row)
    return tuple(x // common for x in row) if common else row


def feasible(rows: Sequence[Row]) -> bool:
    """Whether some x has a.x + c > 0 for all rows (a, c): Fourier and Motzkin's elimination."""
    left = {_least(row) for row in rows}
    for k in range(len(rows[0]) - 1):
        kept = {row for row in left if row[k] == 0}
        ups, downs = [r for r in left if r[k] > 0], [r for r in left if r[k] < 0]
        for up, down in product(ups, downs):
            pairs = zip(up, down, strict=True)
            kept.add(_least(tuple(-down[k] * x + up[k] * y for x, y in pairs)))
        if any(not any(row[:-1]) and row[-1] <= 0 for row in kept):
            return False
        left = kept
    return True


class Brute:
    """All cells of a network of whole numbers, by trying both signs of every neuron."""

    def __init__(self, weights: list, biases: list, sides: list[Row]) -> None:
        self.weights, self.biases = weights, biases
        self.cells: list[tuple[tuple, list[Row], list[Row]]] = []
        first = [(*row, level) for row, level in zip(weights[0], biases[0], strict=True)]
        self._try(0, first, (), (), sides)

    def _try(self, layer: int, maps: list[Row], on: tuple, above: tuple, rows: list[Row]) -> None:
        if layer == len(self.weights) - 1:
            self.cells.append((above, rows, maps))
        elif len(on) == len(maps):
            self._try(layer + 1, self._next(layer + 1, maps, on), (), (*above, on), rows)
        elif not any(maps[len(on)]):
            self._try(layer, maps, (*on, False), above, rows)
        else:
            form = maps[len(on)]
            for lit, row in ((True, form), (False, tuple(-x for x in form))):
                if feasible([*rows, row]):
                    self._try(layer, maps, (*on, lit), above, [*rows, row])

    def _next(self, layer: int, maps: list[Row], on: tuple) -> list[Row]:
        found = []
        for row, level in zip(self.weights[layer], self.biases[layer], strict=True):
            sums = [
                sum(w * m[c] for w, m, lit in zip(row, maps, on, strict=True) if lit)
                for c in range(len(self.weights[0][0]) + 1)
            ]
            found.append((*sums[:-1], sums[-1] + level))
        return found

    def regions(self) -> int:
        group = list(range(len(self.cells)))
        for i, (_, rows, maps) in enumerate(self.cells):
            for j, (_, others, same) in enumerate(self.cells[:i]):
                if maps == same and share_a_facet(rows, others):
                    group = [group[j] if g == group[i] else g for g in group]
        return len(set(group))


def share_a_facet(one: list[Row], two: list[Row]) -> bool:
    """Whether on a wall between them all other inequalities of both can hold."""
    rows, others = {_least(r) for r in one}, {_least(r) for r in two}
    for wall in rows:
        if any(wall[:-1]) and tuple(-x for x in wall) in others:
            k = next(c for c, x in enumerate(wall[:-1]) if x)
            sign = 1 if wall[k] > 0 else -1
            traces = []
            for row in rows | others:
                pairs = zip(row, wall, strict=True)
                trace = [sign * (wall[k] * x - row[k] * y) for x, y in pairs]
                traces.append(tuple(trace[:k] + trace[k + 1 :]))
            traces = [trace for trace in traces if any(trace)]
            if not traces or (feasible(traces) and all(any(t[:-1]) or t[-1] > 0 for t in traces)):
                return True
    return False


def box_rows(d: int) -> list[Row]:
    return [(*(s * (k == c) for k in range(d)), 1) for c in range(d) for s in (1, -1)]


def whole(seed: int, d: int) -> tuple[list, list]:
    """A tiny network of weights -1, 0, 1, or -2, ..., 2: most of them are degenerate."""
    rng = np.random.default_rng(seed)
    layers, size = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    widths = [d, *(int(n) for n in rng.integers(1, 4, layers)), int(rng.integers(1, 3))]
    pairs = list(pairwise(widths))
    weights = [rng.integers(-size, size + 1, (m, n)).tolist() for n, m in pairs]
    biases = [(rng.integers(-size, size + 1, m) * rng.integers(0, 2)).tolist() for _, m in pairs]
    return weights, biases


def check_against_brute_force(
    weights: list, biases: list, sides: list[Row], more: Sequence = ()
) -> None:
    brute = Brute(weights, biases, sides)
    network = hm.ReluNetwork([np.array(W, float) for W in weights], biases)
    stack, piece = on_box(network, inequalities=more)
    tally = count_piece(stack, piece, regions=True)
    assert count_piece(stack, piece).layers == tally.layers
    assert tally.cells == len(brute.cells)
    assert regions(tally) == brute.regions()
    patterns = {tuple(tuple(on.tolist()) for on in c.pattern) for c in each_cell(stack, piece)}
    assert patterns == {above for above, _, _ in brute.cells}


@pytest.mark.parametrize("d", [1, 2, 3])
def test_tiny_whole_networks_agree_with_brute_force(d: int) -> None:
    for seed in range(60):
        check_against_brute_force(*whole(seed, d), box_rows(d))


def test_the_domain_may_be_a_polytope_with_vertices_that_are_not_simple() -> None:
    """An octahedron: four facets meet at every vertex."""
    rows = [(*signs, 1) for signs in product((1, -1), repeat=3)]
    for seed in range(12):
        check_against_brute_force(*whole(seed, 3), box_rows(3) + rows, rows)
    stack, piece = on_box(one_layer(np.eye(3), np.zeros(3)), inequalities=rows)
    assert count_piece(stack, piece).cells == 8


# ---- cells, one by one ---------------------------------------------------------------------------


def simplices(incidence: np.ndarray, inside: frozenset[int], dim: int) -> Iterator[list[int]]:
    """A face by its vertices, cut into simplices: a cone over its faces that miss one vertex."""
    if dim == 0:
        yield list(inside)
        return
    apex = min(inside)
    faces = {inside & frozenset(np.flatnonzero(row).tolist()) for row in incidence} - {inside}
    faces = {f for f in faces if not any(f < g for g in faces)}
    for face in faces:
        if apex not in face and face:
            for rest in simplices(incidence, face, dim - 1):
                yield [apex, *rest]


def determinant(rows: list[list[Fraction]]) -> Fraction:
    if not rows:
        return Fraction(1)
    terms = []
    for k, x in enumerate(rows[0]):
        if x:
            minor = [row[:k] + row[k + 1 :] for row in rows[1:]]
            terms.append((-1) ** k * x * determinant(minor))
    return sum(terms, Fraction(0))


def volume(cell: SpaceCell) -> Fraction:
    corners, d = cell.corners, len(cell.corners[0])
    found = Fraction(0)
    for simplex in simplices(cell.incidence, frozenset(range(len(corners))), d):
        assert len(simplex) == d + 1
        first, *rest = (corners[v] for v in simplex)
        found += abs(determinant([[x - y for x, y in zip(p, first, strict=True)] for p in rest]))
    return found / factorial(d)


@pytest.mark.parametrize("network", [normal(1, 3, 5, 4, 1), normal(2, 4, 5, 1), folding(2, 2, 3)])
def test_cells_fill_the_box_exactly(network: hm.ReluNetwork) -> None:
    """No cell is missed and none is met twice: exact volumes add up to that of the box."""
    stack, piece = on_box(network, 0.0, 1.0)
    cells = list(each_cell(stack, piece))
    assert len(cells) == count_piece(stack, piece).cells > 5
    assert sum(volume(cell) for cell in cells) == 1


def test_cells_know_their_pattern_facets_and_vertices() -> None:
    network = normal(4, 3, 6, 5, 1)
    stack, piece = on_box(network)
    for cell in each_cell(stack, piece):
        assert len(cell.facets) == len(set(cell.facets)) == len(cell.inequalities)
        x = [sum(c) / len(cell.corners) for c in zip(*cell.corners, strict=True)]
        for layer, on in enumerate(cell.pattern):
            W, b = stack.exact_layers[layer]
            z = [
                sum(w * y for w, y in zip(r, x, strict=True)) + c for r, c in zip(W, b, strict=True)
            ]
            assert [value > 0 for value in z] == on.tolist()
            x = [max(value, Fraction(0)) for value in z]
        for row, held in zip(cell.inequalities, cell.incidence, strict=True):
            values = [sum(a * y for a, y in zip(row, (*c, 1), strict=True)) for c in cell.corners]
            assert [value == 0 for value in values] == held.tolist()
            assert min(values) == 0


@pytest.mark.parametrize("name", ["d3_16x2", "d4_16x2", "d5_12x2"])
def test_true_vertices_lie_within_the_radii(name: str) -> None:
    stack, piece = on_box(stored(name))
    for k, cell in enumerate(each_cell(stack, piece)):
        if k % 97 == 0:
            body = cell._source[0].shape
            for point, radius, corner in zip(body.points, body.radii, cell.corners, strict=True):
                off = max(abs(Fraction(x) - y) for x, y in zip(point.tolist(), corner, strict=True))
                assert off <= Fraction(float(radius))
                assert radius < 2.0**-10  # or it would decide nothing


# ---- pieces --------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", [stored("d3_16x2"), normal(7, 4, 9, 2), folding(2, 2, 3)])
@pytest.mark.parametrize("at_least", [1, 7, 40])
def test_pieces_add_up_to_the_whole(network: hm.ReluNetwork, at_least: int) -> None:
    stack, piece = on_box(network, 0.0, 1.0)
    whole = count_piece(stack, piece, regions=True)
    parts = pickle.loads(pickle.dumps(split_piece(stack, piece, at_least=at_least)))
    assert len(parts) >= min(at_least, whole.cells)
    assert total(count_piece(stack, part) for part in parts).layers == whole.layers
    tally = total(count_piece(stack, part, regions=True) for part in parts)
    assert (tally.layers, regions(tally)) == (whole.layers, regions(whole))


def test_a_count_is_told_and_stops_at_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_space_walk, "_CHUNK", 1 << 10)
    stack, piece = on_box(stored("d3_16x2"))
    told: list[int] = []
    tally = count_piece(stack, piece, limit=300, progress=told.append)
    assert 300 <= tally.cells < 882
    assert told == sorted(told)
    assert len(told) > 1
    assert count_piece(stack, piece, limit=10_000).cells == 882


def test_what_does_not_fit_gets_more_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks that begin with hardly any place end with the same counts."""
    monkeypatch.setattr(_space_walk, "_PLACES", 2)
    for kind in (False, True):
        stack, piece = on_box(stored("d4_16x2"))
        assert count_piece(stack, piece, regions=kind).layers == (768, 2622)


def test_domains_that_make_no_sense_are_refused() -> None:
    stack, _ = on_box(normal(1, 3, 4, 1))
    ones = np.ones(3)
    with pytest.raises(hm.ShapeError, match="needs 3 lower"):
        start_piece(stack, -np.ones(2), np.ones(2))
    with pytest.raises(hm.DomainError, match="each lower one below"):
        start_piece(stack, ones, ones)
    with pytest.raises(hm.DomainError, match="beyond the reach"):
        start_piece(stack, -ones, 2 * ones)
    with pytest.raises(hm.DomainError, match="leave nothing"):
        start_piece(stack, -ones, ones, [(1, 0, 0, -1)])
    with pytest.raises(hm.ShapeError, match="has 4 numbers"):
        start_piece(stack, -ones, ones, [(1, 0, 0)])
