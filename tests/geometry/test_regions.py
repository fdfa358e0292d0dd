"""hm.regions: one face for all engines; counts of known networks, cells, neighbours, refusals."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    ReadOut,
    Transformer,
    VectorInput,
    trace,
)

DATA = Path(__file__).resolve().parents[1] / "data" / "regions"
EXPECTED = json.loads((DATA / "expected_counts.json").read_text("utf-8"))["nets"]


def network(name: str) -> hm.ReluNetwork:
    return hm.load_network(DATA / f"{name}.npz")


def small(seed: int, widths: tuple[int, ...], whole: bool = False) -> hm.ReluNetwork:
    rng = np.random.default_rng(seed)
    draw = (lambda *s: rng.integers(-1, 2, size=s).astype(float)) if whole else rng.normal
    sizes = list(zip(widths[1:], widths[:-1], strict=True))
    if whole:
        weights, biases = [draw(*s) for s in sizes], [draw(s[0]) for s in sizes]
    else:
        weights, biases = [draw(size=s) for s in sizes], [draw(size=s[0]) for s in sizes]
    return hm.ReluNetwork(weights, biases)


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("fast", [False, True])
def test_known_networks_have_their_known_counts(name: str, fast: bool) -> None:
    source = network(name)
    found = hm.regions(source, on=f"[-1,1]^{source.inputs}", fast=fast)
    assert list(found.layers) == EXPECTED[name]["regions_after_each_layer"]
    assert found.cells == found.layers[-1]
    assert found.exact is not fast
    assert found.cells <= found.bound.value


def test_a_difference_of_two_ramps_has_two_cells_and_one_region() -> None:
    """relu(x) - relu(-x) = x: the pattern changes at 0, the map does not; in one and two inputs."""
    line = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    found = hm.regions(line, on="[-1,1]")
    assert (found.cells, found.count) == (2, 1)
    plane = hm.ReluNetwork([[[1.0, 0.0], [-1.0, 0.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    found = hm.regions(plane, on="[-1,1]^2")
    assert (found.cells, found.count) == (2, 1)
    solid = hm.ReluNetwork([[[1.0, 0, 0], [-1.0, 0, 0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    found = hm.regions(solid, on="[-1,1]^3")
    assert (found.cells, found.count) == (2, 1)
    pieces = np.array([[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]])
    maxout = hm.MaxoutNetwork(
        [pieces, np.array([[[1.0, -1.0]], [[1.0, -1.0]]])], [np.zeros((2, 2)), np.zeros((2, 1))]
    )
    found = hm.regions(maxout, on="[-1,1]^2")
    assert (found.cells, found.count) == (2, 1)


def test_dead_outputs_and_doubled_neurons() -> None:
    """Walls of a neuron that nobody reads join cells; a neuron written twice cuts once."""
    W = np.array([[1.0, 0.0], [0.0, 1.0], [2.0, 0.0]])
    twice = hm.ReluNetwork([W, [[1.0, 0.0, 1.0]]], [np.zeros(3), [0.0]])
    found = hm.regions(twice, on="[-1,1]^2")
    assert (found.cells, found.count) == (4, 2)
    silent = hm.ReluNetwork([W, [[0.0, 0.0, 0.0]]], [np.zeros(3), [1.0]])
    found = hm.regions(silent, on="[-1,1]^2")
    assert (found.cells, found.count) == (4, 1)


@pytest.mark.parametrize(
    ("widths", "box"), [((2, 5, 4, 2), "[-1,1]^2"), ((3, 4, 3, 2), "[-1,1]^3")]
)
@pytest.mark.parametrize("seed", range(3))
def test_cells_tell_the_truth(widths: tuple[int, ...], box: str, seed: int) -> None:
    """Volumes fill the box; inside a cell its map is the network, its inequalities hold."""
    source = small(seed, widths)
    found = hm.regions(source, on=box)
    cells = list(found)
    d = widths[0]
    assert len(cells) == found.cells
    assert sum(cell.volume for cell in cells) == pytest.approx(2.0**d, rel=1e-12 * len(cells))
    for cell in cells:
        middle = cell.vertices.mean(axis=0)
        matrix, offset = cell.map
        assert np.allclose(matrix @ middle + offset, source(middle), rtol=1e-9, atol=1e-9)
        rows, levels = cell.inequalities
        assert (rows @ middle + levels > 0).all()
        assert len(rows) == len(cell.walls)
        exact = [
            sum(x, Fraction(0)) / len(cell.exact_vertices)
            for x in zip(*cell.exact_vertices, strict=True)
        ]
        values = [
            sum((a * b for a, b in zip(row, exact, strict=False)), row[-1])
            for row in cell.exact_map
        ]
        assert values == list(source(exact))


def brute_neighbours(cells: list[hm.LinearCell]) -> set[tuple[int, int]]:
    """Cells that share d independent points up to rounding, on opposite sides of a wall."""
    found = set()
    for i, one in enumerate(cells):
        for j in range(i):
            other = cells[j]
            d = one.dimension
            for row, level in zip(*one.inequalities, strict=True):
                mine = one.vertices[np.abs(one.vertices @ row + level) < 1e-9]
                theirs = other.vertices[np.abs(other.vertices @ row + level) < 1e-9]
                if len(mine) < d or len(theirs) < d or (other.vertices @ row + level > 1e-9).any():
                    continue
                shared = [p for p in mine if (np.abs(theirs - p).max(axis=1) < 1e-9).any()]
                if (
                    len(shared) >= d
                    and np.linalg.matrix_rank(np.array(shared)[1:] - shared[0], 1e-9) == d - 1
                ):
                    found.add((j, i))
    return found


@pytest.mark.parametrize("widths", [(2, 4, 3, 1), (3, 3, 2, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_neighbours_share_a_facet(widths: tuple[int, ...], seed: int) -> None:
    """Of a continuous map whole facets are shared, so that common vertices tell."""
    graph = hm.regions(small(seed, widths), on=f"[-1,1]^{widths[0]}").adjacency()
    assert set(graph.pairs) == brute_neighbours(list(graph.cells))
    assert graph.neighbours(0) == sorted({a + b for a, b in graph.pairs if 0 in (a, b)})


@pytest.mark.parametrize("seed", range(4))
def test_neighbours_across_walls_of_several_neurons(seed: int) -> None:
    """Weights of -1, 0, 1: walls coincide, run through one point and along the box."""
    graph = hm.regions(small(seed, (2, 4, 3, 1), whole=True), on="[-1,1]^2").adjacency()
    assert set(graph.pairs) == brute_neighbours(list(graph.cells))


def test_neighbours_of_maps_that_jump() -> None:
    """A head moves its cells apart: the walls of the second layer end at those of the first."""
    model = hm.depth_construction(tokens=2, teeth=0, dimension=2, layers=2)
    graph = hm.regions(model, on="[0,1]^2").adjacency()
    assert len(graph.cells) == 16  # a 4 x 4 grid
    assert len(graph.pairs) == 24


def test_slices_and_segments_are_the_network_there() -> None:
    source = network("d5_12x2")
    rng = np.random.default_rng(0)
    origin, directions = rng.normal(size=5) / 4, rng.normal(size=(2, 5)) / 2
    flat = hm.regions(source, on=hm.Slice(origin, directions, "[-1,1]^2"))
    for cell in flat:
        y = cell.vertices.mean(axis=0)
        matrix, offset = cell.map
        assert np.allclose(matrix @ y + offset, source(origin + y @ directions), atol=1e-9)
    along = hm.regions(source, on=hm.Segment(origin - directions[0], origin + directions[0]))
    crossed = {
        cell.name
        for t in along.breakpoints
        for cell in flat
        if _touches(cell, np.array([2 * t - 1, 0.0]))
    }
    assert len(crossed) == along.cells  # the segment's cells are those of the slice that it meets


def _touches(cell: hm.LinearCell, point: np.ndarray) -> bool:
    rows, levels = cell.inequalities
    return bool((rows @ point + levels > -1e-9).all())


def test_an_affine_source_has_one_region() -> None:
    affine = hm.ReluNetwork([[[1.0, 2.0]]], [[3.0]])
    found = hm.regions(affine, on="[-1,1]^2")
    assert (found.cells, found.count) == (1, 1)


def test_max_affine_maps_have_the_cells_of_their_diagram() -> None:
    rng = np.random.default_rng(1)
    slopes, offsets = rng.normal(size=(9, 2)), rng.normal(size=9)
    live = hm.power_diagram(slopes, offsets, on="[-2,2]^2").live
    for source in (hm.MaxAffine(slopes, offsets), hm.Tropical.of(slopes, offsets)):
        found = hm.regions(source, on="[-2,2]^2")
        assert (found.cells, found.count) == (len(live), len(live))


def test_tokens_that_all_move_have_conics_for_walls() -> None:
    """Two tokens x and y of width 1: each attends to the larger score, x x against x y.

    Token x asks: x x > x y, so x (x - y) > 0; token y asks: y x > y y, so y (x - y) > 0. The
    read-out is at x, but y does not matter to it: two cells, four sectors of the plane.
    """
    maps = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    one = np.ones((1, 1))
    model = hm.Transformer(
        hm.VectorInput(maps, np.zeros((2, 1))),
        [hm.Attention([hm.Head(one, one, one, one)])],
        hm.ReadOut(one, np.zeros(1), token=0),
    )
    found = hm.regions(model, on="[-1,1]^2")
    assert found.exact
    assert found.cells == 2
    along = hm.regions(model, on=hm.Segment([-1, 0.5], [1, 0.5]))
    assert along.breakpoints.tolist() == [0.5, 0.75]  # x = 0 and x = y


# ---- soft models, data sets ----------------------------------------------------------------------


def test_soft_models_are_smooth_and_offer_their_skeleton() -> None:
    product = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    with pytest.raises(hm.SemanticsError, match=r"smooth function.*hm\.skeleton"):
        hm.regions(product, on="[-1,1]^2")
    hard = hm.skeleton(product)
    assert hard.is_hard
    assert hm.regions(hard, on="[-1,1]^2").cells >= 1


def test_cells_visited_by_a_data_set() -> None:
    """As many as distinct patterns; points spread over every cell visit all of them."""
    source = network("d2_16x2")
    middles = np.array([cell.vertices.mean(axis=0) for cell in hm.regions(source, on="[-1,1]^2")])
    found = hm.regions(source, inputs=np.concatenate([middles, middles[:7]]))
    assert found.cells == len(middles) == 95
    assert found.often.tolist() == [2] * 7 + [1] * 88
    assert found.which[:7].tolist() == found.which[95:].tolist()
    assert found.ties == 0


def test_visits_of_a_model_follow_its_skeleton() -> None:
    """By brute force: winners of the hard trace, in Fractions."""
    rng = np.random.default_rng(0)
    maps = rng.integers(-2, 3, size=(3, 4, 2)).astype(float)
    source = hm.VectorInput(maps, rng.integers(-2, 3, size=(3, 4)).astype(float))
    heads = [
        hm.Head(
            *rng.integers(-1, 2, size=(3, 2, 4)).astype(float), np.ones((4, 2)), hm.Softmax(3.0)
        )
        for _ in range(2)
    ]
    model = hm.Transformer(source, [hm.Attention(heads)], hm.ReadOut(np.eye(4), np.zeros(4)))
    points = rng.normal(size=(60, 2))
    patterns = set()
    for point in points:
        stream = np.array(trace(hm.skeleton(model), point.tolist(), Fraction).streams[0])
        scores = [
            (stream @ h.query.T.astype(object)) @ (stream @ h.key.T.astype(object)).T for h in heads
        ]
        patterns.add(tuple(int(np.argmax(s[-1])) for s in scores))  # the read-out is at the last
    assert hm.regions(model, inputs=points).cells == len(patterns)


def test_roundings_of_earlier_layers_are_carried_into_later_ones() -> None:
    """The first unit holds 11, which float64 takes for 12; the second asks whether it is > 11.5."""
    unit = ([[1e16, 3.0]], [-1e16 + 8.0])
    network = hm.ReluNetwork([unit[0], [[1.0]], [[1.0]]], [unit[1], [-11.5], [0.0]])
    assert hm.regions(network, inputs=[[1.0, 1.0]]).ties == 1
    assert hm.regions(network, inputs=[[1.0, 1e3]]).ties == 0
    maps, offsets = np.zeros((1, 3, 2)), np.array([[0.0, 0.0, 1.0]])
    maps[0, :2] = np.eye(2)
    first = FeedForward(
        [[1e16, 3.0, -1e16 + 8.0]], [0.0], [[0.0], [0.0], [1.0]], np.array([0.0, 0.0, -12.5])
    )
    second = FeedForward([[0.0, 0.0, 1.0]], [0.0], [[0.0], [0.0], [1.0]], np.zeros(3))
    model = Transformer(
        VectorInput(maps, offsets), [first, second], ReadOut([[0.0, 0.0, 1.0]], [0.0], 0)
    )
    assert hm.regions(model, inputs=[[1.0, 1.0]]).ties == 1
    assert hm.regions(model, inputs=[[1.0, 1e3]]).ties == 0


def test_scores_that_agree_in_floats_need_not_tie() -> None:
    """Two numbers next to each other, times 0.1, are one float; so are their scores."""

    def among(*scores: float, factor: float = 1.0, causal: bool = False) -> int:
        maps, offsets = np.zeros((len(scores), 2, 1)), np.zeros((len(scores), 2))
        maps[:, 1, 0], offsets[:, 0] = 1.0, scores
        head = Head([[0.0, factor]], [[1.0, 0.0]], [[1.0, 0.0]], [[1.0], [0.0]], causal=causal)
        read = ReadOut([[1.0, 0.0]], [0.0], -1)
        model = Transformer(VectorInput(maps, offsets), [Attention([head])] * 2, read)
        return hm.regions(model, inputs=[[1.0]]).ties

    assert among(11 / 97, np.nextafter(11 / 97, 1.0), factor=0.1) == 1
    assert among(0.25, 0.25, factor=0.1) == 0  # the same token twice
    assert among(0.25, 0.5, factor=0.1) == among(0.25, 0.5, factor=0.1, causal=True) == 0
    assert among(11 / 97, np.nextafter(11 / 97, 1.0), factor=0.1, causal=True) == 1


def test_no_more_cells_are_visited_than_there_are() -> None:
    """Tokens that the read-out does not hear are left out, of visits as of cells."""
    head = hm.Head([[1.0, 0]], [[0.0, 1]], [[0.0, 1]], [[0.0], [1.0]])
    maps = np.zeros((4, 2, 2))
    maps[2, 0], maps[3, 0] = [1, 0], [0, 1]
    offsets = np.array([[0.5, -1], [0.5, 1], [0, 0], [0, 0]])
    model = hm.Transformer(
        hm.VectorInput(maps, offsets),
        [hm.Attention([head])],
        hm.ReadOut([[0.0, 1.0]], [0.0], token=0),
    )
    points = np.random.default_rng(0).uniform(-1, 1, (100, 2))
    assert hm.regions(model, inputs=points).cells == hm.regions(model, on="[-1,1]^2").cells == 1


# ---- sizes near the ends of floats ---------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0, -538, -1000, 900])
def test_a_power_of_two_moves_no_wall(exponent: int) -> None:
    W, b = np.array([[0.0, -3], [-3, 1], [2, -3]]), np.array([1.0, -2, 2])
    scaled = hm.ReluNetwork(
        [np.ldexp(W, exponent), np.ones((1, 3))], [np.ldexp(b, exponent), [0.0]]
    )
    found = hm.regions(scaled, on="[-1,1]^2")
    assert (found.cells, found.count) == (7, 7)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_products_that_underflow_are_counted(d: int) -> None:
    """1e-200 times 1e-200, times 1e300 against 1e-100: the wall is near 0."""
    first = np.zeros((1, d))
    first[0, 0] = 1e-200
    chain = hm.ReluNetwork(
        [first, [[1e-200]], [[1e300]], [[1e100]]], [[2e-200], [0.0], [-2e-100], [0.0]]
    )
    assert hm.regions(chain, on=f"[-1,1]^{d}").cells == 2


@pytest.mark.parametrize("size", [Fraction(1, 10**400), 1e-200, 1e200, Fraction(10**400)])
def test_slices_and_segments_of_any_size(size: Fraction | float) -> None:
    cross = hm.ReluNetwork([np.eye(2), [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    if size != 10**400:  # no float is as large
        flat = hm.Slice([0, 0], [[size, 0], [0, size]], "[-1,1]^2")
        assert hm.regions(cross, on=flat).cells == 4
        line = hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]])
        assert hm.regions(line, on=hm.Segment([-size], [size])).cells == 2
    with pytest.raises(hm.DomainError, match="finite numbers"):
        hm.Segment([0], [Fraction(10**400)])


@pytest.mark.parametrize("box", ["[-1e-200,1e-200]^2", "[-1e200,1e200]^2", "[-1e-310,1e-310]^2"])
def test_boxes_of_any_size(box: str) -> None:
    cross = hm.ReluNetwork([np.eye(2), [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    assert hm.regions(cross, on=box).cells == 4


def test_thin_cells_have_a_volume() -> None:
    """Two walls an ulp apart, in space."""
    net = hm.ReluNetwork([[[1.0, 0, 0], [1.0, 0, 0]], [[1.0, 1.0]]], [[0.0, -(2.0**-52)], [0.0]])
    volumes = sorted(cell.volume for cell in hm.regions(net, on="[-1,1]^3"))
    assert volumes[0] == pytest.approx(2.0**-50)
    assert sum(volumes) == pytest.approx(8)


# ---- one face ------------------------------------------------------------------------------------


def test_heads_without_keys_choose_by_bias() -> None:
    bias = np.array([[0.0, 1.0], [0.0, 1.0]])
    nothing = np.zeros((0, 1))
    head = hm.Head(nothing, nothing, [[1.0]], [[1.0]], position_bias=bias)
    model = hm.Transformer(
        hm.VectorInput(np.array([[[1.0, 0]], [[0, 0]]]), np.zeros((2, 1))),
        [hm.Attention([head])],
        hm.ReadOut([[1.0]], [0.0], token=0),
    )
    assert hm.regions(model, on="[-1,1]^2").cells == 1


def test_tropical_maps_on_a_line() -> None:
    found = hm.regions(hm.Tropical.of([[1], [-1], [0]], [0, 0, 0.5]), on="[-1,1]")
    assert (found.cells, found.count) == (3, 3)


def test_cells_of_switches_are_aligned() -> None:
    """Vertex k, exact vertex k, and the wall from vertex k to the next."""
    rng = np.random.default_rng(0)
    source = hm.MaxAffine(rng.normal(size=(7, 2)), rng.normal(size=7))
    for cell in hm.regions(source, on="[-2,2]^2"):
        exact = np.array([[float(x) for x in v] for v in cell.exact_vertices])
        assert np.allclose(exact, cell.vertices, atol=1e-9)
        assert cell.volume > 0  # counter-clockwise
        rows, levels = cell.inequalities
        for k, (row, level) in enumerate(zip(rows, levels, strict=True)):
            ends = cell.vertices[[k, (k + 1) % len(cell.vertices)]]
            assert np.allclose(ends @ row + level, 0.0, atol=1e-9)


def test_lines_have_the_same_face() -> None:
    net = small(0, (2, 5, 1))
    found = hm.regions(net, on=hm.Segment([-1, -1], [1, 1]))
    assert found.as_dict()["cells"] == found.cells == len(found.adjacency()) + 1
    assert sum(cell.volume for cell in found) == pytest.approx(1.0)
    assert hm.regions(net, on=hm.Segment([-1, -1], [1, 1]), limit=found.cells).cells == found.cells
    with pytest.raises(hm.RequestError, match="more than 1 cells"):
        hm.regions(net, on=hm.Segment([-1, -1], [1, 1]), limit=1)
    with pytest.raises(hm.RequestError, match="counted at once"):
        hm.regions(net, on=hm.Segment([-1, -1], [1, 1]), checkpoint="x.npz")


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "on", "reason"),
    [
        ("net", None, r'give one, for example on="\[-1,1\]\^2"'),
        ("net", "[-1,inf]^2", "unbounded"),
        ("net", "[-1,1]^3", "2 inputs, but the domain has 3"),
        ("net", "[1,1]^2", "no inside"),
        ("net", hm.Segment([0.0], [1.0]), "2 inputs, but the domain lies in 1"),
        (3.0, "[-1,1]", "not for float"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(source: object, on: object, reason: str) -> None:
    given = small(0, (2, 3, 1)) if source == "net" else source
    with pytest.raises(hm.HardmaxError, match=reason):
        hm.regions(given, on=on)


def test_dependent_directions_are_refused() -> None:
    with pytest.raises(hm.DomainError, match="must be independent"):
        hm.Slice([0, 0, 0], [[1, 2, 3], [2, 4, 6]], "[-1,1]^2")


def test_models_of_sequences_are_refused() -> None:
    model = hm.compile(hm.programs.reverse, alphabet="ab", length=2)
    with pytest.raises(hm.HardmaxError, match=r"smooth|sequence"):
        hm.regions(model, on="[-1,1]^2")


@pytest.mark.parametrize("name", ["d2_16x2", "d3_16x2"])
def test_a_limit_stops_with_the_count_so_far_and_the_bound(name: str) -> None:
    source = network(name)
    found = hm.regions(source, on=f"[-1,1]^{source.inputs}", limit=50)
    with pytest.raises(
        hm.RequestError, match=r"more than 50 cells: counting stopped at \d+; there are at most"
    ):
        _ = found.cells
    assert (
        hm.regions(source, on=f"[-1,1]^{source.inputs}", limit=10**6).cells
        == EXPECTED[name]["regions_after_each_layer"][-1]
    )
    for wrong in (0, "7", 2.5, True):
        with pytest.raises(hm.RequestError, match="at least 1 cell"):
            hm.regions(source, on=f"[-1,1]^{source.inputs}", limit=wrong)
