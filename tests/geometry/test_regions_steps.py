"""Whoever says its steps is counted: residual, pooling, leaky and other networks.

Every count is held against two others that share no line with it: the definition, by elimination
of inequalities, and the flattened network, plain layers of rectifiers that the engines of lines,
planes and space count. Weights are small dyadic numbers, so that flattening rounds nothing.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import RequestError
from hardmax.core import Affine, Maximum, Product, Steps, Univariate
from hardmax.geometry import line_breakpoints
from hardmax.geometry.counting import LineRegions, Regions
from hardmax.geometry.counting._chain import chain_of
from hardmax.geometry.counting._engines import PlaneEngine, SpaceEngine, SwitchEngine
from hardmax.languages import Function, MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork
from hardmax.testing import StepsTarget, counts_by_definition

LIFT = 256.0  # a rectifier of z + LIFT is on throughout the domains here
Both = tuple[StepsTarget, ReluNetwork]


def dyadic(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.integers(-6, 7, size=shape) / 4.0


class Flat:
    """Layers of rectifiers, from an affine map of the last one: x = map @ (last layer) + offset."""

    def __init__(self, inputs: int) -> None:
        self.map, self.offset = np.eye(inputs), np.zeros(inputs)
        self.weights: list[np.ndarray] = []
        self.biases: list[np.ndarray] = []

    def affine(self, W: np.ndarray, b: np.ndarray) -> None:
        self.map, self.offset = W @ self.map, W @ self.offset + b

    def rectified(self, W: np.ndarray, b: np.ndarray, *, keep: bool) -> None:
        """(relu(W x + b), x), or the rectifiers alone."""
        rows, levels = W @ self.map, W @ self.offset + b
        hidden, size = len(b), len(self.offset) if keep else 0
        if keep:
            rows, levels = np.vstack([rows, self.map]), np.append(levels, self.offset + LIFT)
        self.weights.append(rows)
        self.biases.append(levels)
        self.map = np.eye(hidden + size)
        self.offset = np.append(np.zeros(hidden), np.full(size, -LIFT))

    def network(self) -> ReluNetwork:
        return ReluNetwork([*self.weights, self.map], [*self.biases, self.offset])


def residual(rng: np.random.Generator, inputs: int) -> Both:
    """A stem, blocks x + C relu(A x + a), and a read-out."""
    width, hidden, flat = 2, 3 if inputs < 3 else 2, Flat(inputs)
    stem = dyadic(rng, width, inputs), dyadic(rng, width)
    steps: list = [Affine((0,), *stem)]
    flat.affine(*stem)
    for _ in range(2):
        x = len(steps)
        A, a = dyadic(rng, hidden, width), dyadic(rng, hidden)
        C, c = dyadic(rng, width, hidden), dyadic(rng, width)
        steps += [Affine((x,), A, a), Univariate((x + 1,), "relu", hidden)]
        if rng.random() < 0.5:  # the sum in the block's last map, or on its own
            steps.append(Affine((x + 2, x), np.hstack([C, np.eye(width)]), c))
        else:
            both = np.hstack([np.eye(width), np.eye(width)])
            steps += [Affine((x + 2,), C, c), Affine((x, x + 3), both, np.zeros(width))]
        flat.rectified(A, a, keep=True)
        flat.affine(np.hstack([C, np.eye(width)]), c)
    last = dyadic(rng, 1, width), dyadic(rng, 1)
    flat.affine(*last)
    return StepsTarget(Steps(inputs, [*steps, Affine((len(steps),), *last)])), flat.network()


def pooling(rng: np.random.Generator, inputs: int) -> Both:
    """Rectifiers, the larger of every two, rectifiers, and a read-out."""
    A, a = dyadic(rng, 4, inputs), dyadic(rng, 4)
    B, b = dyadic(rng, 2, 2), dyadic(rng, 2)
    last = dyadic(rng, 1, 2), dyadic(rng, 1)
    steps = [
        Affine((0,), A, a),
        Univariate((1,), "relu", 4),
        Maximum((2,), [[0, 1], [2, 3]]),
        Affine((3,), B, b),
        Univariate((4,), "relu", 2),
        Affine((5,), *last),
    ]
    flat = Flat(inputs)
    flat.rectified(A, a, keep=False)
    first, second = np.eye(4)[::2], np.eye(4)[1::2]
    flat.rectified(np.vstack([second - first, first]), np.zeros(4), keep=False)  # max = a + relu
    flat.affine(np.hstack([np.eye(2), np.eye(2)]), np.zeros(2))
    flat.rectified(B, b, keep=False)
    flat.affine(*last)
    return StepsTarget(Steps(inputs, steps)), flat.network()


def leaky(rng: np.random.Generator, inputs: int) -> Both:
    """Two layers of max(z, z/4), which is z/4 + (3/4) relu(z)."""
    steps: list = []
    flat, size = Flat(inputs), inputs
    for hidden in (3, 2):
        W, b = dyadic(rng, hidden, size), dyadic(rng, hidden)
        z = len(steps) + 1
        steps += [
            Affine((z - 1,), W, b),
            Affine((z,), np.eye(hidden) / 4, np.zeros(hidden)),
            Maximum((z, z + 1), [[i, hidden + i] for i in range(hidden)]),
        ]
        flat.affine(W, b)
        flat.rectified(np.eye(hidden), np.zeros(hidden), keep=True)
        flat.affine(np.hstack([np.eye(hidden) * 0.75, np.eye(hidden) / 4]), np.zeros(hidden))
        size = hidden
    last = dyadic(rng, 1, size), dyadic(rng, 1)
    flat.affine(*last)
    return StepsTarget(Steps(inputs, [*steps, Affine((len(steps),), *last)])), flat.network()


def hard_tanh(rng: np.random.Generator, inputs: int) -> Both:
    """max(-1, min(1, z)): as two maxima, and as relu(z + 1) - relu(z - 1) - 1, rectified thus:
    max(z, -1) = relu(z + 1) - 1 =: m, then min(m, 1) = m - relu(m - 1)."""
    W, b = dyadic(rng, 3, inputs), dyadic(rng, 3)
    last = dyadic(rng, 2, 3), dyadic(rng, 2)
    level = Affine((0,), np.zeros((1, inputs)), [-1.0])
    pairs = [[i, 3] for i in range(3)]
    steps = [
        Affine((0,), W, b),
        level,
        Maximum((1, 2), pairs),
        Affine((3,), -np.eye(3), np.zeros(3)),
        Maximum((4, 2), pairs),
        Affine((5,), -last[0], last[1]),
    ]
    flat = Flat(inputs)
    flat.rectified(W, b + 1, keep=False)
    flat.affine(np.eye(3), -np.ones(3))
    flat.rectified(np.eye(3), -np.ones(3), keep=True)
    flat.affine(np.hstack([-np.eye(3), np.eye(3)]), np.zeros(3))
    flat.affine(*last)
    return StepsTarget(Steps(inputs, steps)), flat.network()


def absolute(rng: np.random.Generator, inputs: int) -> Both:
    """|z| beside relu(z') and a skip from the input: |z| = 2 relu(z) - z."""
    W, b, V, c = dyadic(rng, 2, inputs), dyadic(rng, 2), dyadic(rng, 2, inputs), dyadic(rng, 2)
    last = dyadic(rng, 1, 4 + inputs), dyadic(rng, 1)
    steps = [
        Affine((0,), W, b),
        Univariate((1,), "abs", 2),
        Affine((0,), V, c),
        Univariate((3,), "relu", 2),
        Affine((2, 4, 0), *last),
    ]
    flat = Flat(inputs)
    flat.rectified(np.vstack([W, V]), np.append(b, c), keep=True)
    read = np.zeros((4 + inputs, 4 + inputs))
    read[:4, :4], read[4:, 4:] = np.diag([2.0, 2.0, 1.0, 1.0]), np.eye(inputs)
    read[:2, 4:] = -W
    flat.affine(read, np.append(-b, np.zeros(2 + inputs)))
    flat.affine(*last)
    return StepsTarget(Steps(inputs, steps)), flat.network()


KINDS: list[Callable[[np.random.Generator, int], Both]] = [
    residual,
    pooling,
    leaky,
    hard_tanh,
    absolute,
]
THIRD = Fraction(1, 3)
DOMAINS = {
    "segment": (2, hm.Segment([-2, Fraction(-5, 3)], [2, THIRD])),
    "plane": (2, hm.Box([-2.0, -1.5], [1.5, 2.0])),
    "slice": (3, hm.Slice([0, THIRD, 0], [[1, 0, THIRD], [0, 1, -1]], [[-2, -2], [2, -2], [0, 2]])),
    "space": (3, hm.Box([-1.0] * 3, [1.0, 1.5, 1.0])),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_definition_and_of_the_flattened_network(
    kind: Callable[[np.random.Generator, int], Both], where: str, seed: int
) -> None:
    inputs, domain = DOMAINS[where]
    network, flat = kind(np.random.default_rng(seed), inputs)
    point = np.random.default_rng(seed).integers(-8, 9, size=inputs) / 4.0
    assert network(point).tolist() == flat(point).tolist()
    found = hm.regions(network, on=domain)
    assert found.exact
    assert (found.cells, found.count) == counts_by_definition(network, domain)
    flattened = hm.regions(flat, on=domain)
    assert (found.cells, found.count) == (flattened.cells, flattened.count)


def test_the_cases_have_something_to_count() -> None:
    cells = [
        hm.regions(kind(np.random.default_rng(seed), inputs)[0], on=domain).cells
        for kind in KINDS
        for inputs, domain in DOMAINS.values()
        for seed in range(3)
    ]
    assert np.mean(np.array(cells) > 3) > 0.8


@pytest.mark.parametrize("kind", KINDS)
def test_cells_have_the_map_of_the_network_and_are_visited(
    kind: Callable[[np.random.Generator, int], Both],
) -> None:
    """Every cell's map is the network on it, and a point of each visits all of them."""
    network, _ = kind(np.random.default_rng(5), 2)
    found = hm.regions(network, on="[-2,2]^2")
    centres = []
    for cell in found:
        corners = cell.exact_vertices
        centre = [sum(column, Fraction(0)) / len(corners) for column in zip(*corners, strict=True)]
        value = [
            sum(a * x for a, x in zip(row, [*centre, 1], strict=True)) for row in cell.exact_map
        ]
        assert value == network(np.array(centre, dtype=object)).tolist()
        centres.append([float(x) for x in centre])
    seen = hm.regions(network, inputs=centres)
    assert (seen.cells, seen.ties) == (found.cells, 0)
    assert hm.regions(network, inputs=[*centres, *centres]).cells == found.cells


@pytest.mark.parametrize("kind", KINDS)
def test_many_lines_have_the_breakpoints_of_each(
    kind: Callable[[np.random.Generator, int], Both],
) -> None:
    rng = np.random.default_rng(11)
    network, flat = kind(rng, 3)
    starts, ends = rng.uniform(-2, 2, size=(2, 40, 3))
    batch, plain = line_breakpoints(network, starts, ends), line_breakpoints(flat, starts, ends)
    assert batch.cells.tolist() == plain.cells.tolist()
    assert batch.exact
    for j in range(5):
        one = hm.regions(network, on=hm.Segment(starts[j], ends[j]))
        assert isinstance(one, LineRegions)
        assert one.cells == batch.cells[j]
        assert [float(t) for t in one.exact_breakpoints] == pytest.approx(
            batch[j].tolist(), abs=1e-12
        )
        assert one.layers[-1] == one.cells
        for cell in one:
            middle = (cell.start + cell.end) / 2
            x = [
                Fraction(a) + middle * (Fraction(b) - Fraction(a))
                for a, b in zip(starts[j].tolist(), ends[j].tolist(), strict=True)
            ]
            assert cell.at(middle) == network(np.array(x, dtype=object)).tolist()


def test_a_line_tells_off_and_on_alike_with_and_without_a_skip() -> None:
    """relu(t - 1/2) beside a skip: the pattern is that of the rectifier, -1 while it is off."""
    steps = [
        Affine((0,), [[1.0]], [-0.5]),
        Univariate((1,), "relu", 1),
        Affine((2, 0), [[1.0, 2.0]], [0.0]),
    ]
    found = hm.regions(StepsTarget(Steps(1, steps)), on="[0,1]")
    assert [cell.pattern for cell in found] == [((-1,),), ((0,),)]
    assert [cell.slope for cell in found] == [(2,), (3,)]
    assert (found.layers, found.count) == ((2,), 2)


# ---- who goes where ------------------------------------------------------------------------------


def chain(weights: list[np.ndarray], biases: list[np.ndarray]) -> StepsTarget:
    network = ReluNetwork(weights, biases)
    return StepsTarget(network.steps())


def test_rectifiers_alone_go_to_the_fast_engines_with_the_arrays_of_their_steps() -> None:
    """A convolution is a matrix with equal entries: plain, whoever says it."""
    rng = np.random.default_rng(3)
    kernel = dyadic(rng, 2)
    for inputs, engine in ((2, PlaneEngine), (3, SpaceEngine)):
        convolved = np.array(
            [np.roll(np.append(kernel, np.zeros(inputs)), k) for k in range(inputs)]
        )
        weights = [convolved[:, :inputs], dyadic(rng, 3, inputs), dyadic(rng, 1, 3)]
        biases = [dyadic(rng, len(W)) for W in weights]
        said = chain(weights, biases)
        found = hm.regions(said, on=f"[-2,2]^{inputs}")
        assert isinstance(found, Regions)
        assert isinstance(found.engine, engine)
        assert found.source.startswith(f"ReLU network {inputs}-{inputs}-3-1")
        steps = said.steps().steps
        assert all(
            W is step.weights
            for W, step in zip(found.stack.source.weights, steps[::2], strict=True)
        )
        plain = hm.regions(ReluNetwork(weights, biases), on=f"[-2,2]^{inputs}")
        assert (found.cells, found.count) == (plain.cells, plain.count)
        assert found.as_dict()["at_most"] == plain.as_dict()["at_most"]
        assert found.engine.key() == plain.engine.key()


def test_layers_of_maxima_are_chains_as_they_stand() -> None:
    """No rows are added and none are handed on: what the engines get is what the network holds."""
    rng = np.random.default_rng(4)
    maxout = MaxoutNetwork(
        [dyadic(rng, 3, 2, 2), dyadic(rng, 2, 1, 2)], [dyadic(rng, 3, 2), dyadic(rng, 2, 1)]
    )
    for source, shapes in (
        (maxout, [((6, 2), [[0, 2, 4], [1, 3, 5]]), ((2, 2), [[0, 1]])]),
        (MaxAffine([[1.0], [-1.0]], [0.0, 0.0]), [((2, 1), [[0, 1]])]),
        (PiecewiseLinear.from_knots([0, 1, 2, 3], [0, 1, 0, 2]), None),
    ):
        found = chain_of(source)
        assert all(layer.passed == 0 for layer in found.layers)
        if shapes is not None:
            assert [(one.weights.shape, one.groups.tolist()) for one in found.layers] == shapes


def test_expressions_of_maxima_are_counted() -> None:
    tent = Function.parse("max(abs(x), abs(y), 1/2) - abs(x + y)")
    found = hm.regions(tent, on="[-1,1]^2")
    assert (found.cells, found.count) == counts_by_definition(tent, hm.Box.parse("[-1,1]^2"))


def test_the_pool_of_four_joins_to_the_regions_of_two_times_two() -> None:
    """A tree of maxima cuts more cells than one maximum, and makes the same affine regions."""
    rng = np.random.default_rng(8)
    rows = Affine((0,), dyadic(rng, 4, 2), dyadic(rng, 4))
    at_once = StepsTarget(Steps(2, [rows, Maximum((1,), [[0, 1, 2, 3]])]))
    tree = [rows, Maximum((1,), [[0, 1], [2, 3]]), Maximum((2,), [[0, 1]])]
    one, two = (hm.regions(s, on="[-4,4]^2") for s in (at_once, StepsTarget(Steps(2, tree))))
    assert one.cells == one.count == two.count < two.cells


# ---- what is sent, kept and refused --------------------------------------------------------------


def test_a_residual_network_is_counted_in_pieces_too(tmp_path: Path) -> None:
    network, _ = residual(np.random.default_rng(1), 2)
    whole = hm.regions(network, on="[-2,2]^2")
    assert isinstance(whole.engine, SwitchEngine)
    sent = pickle.loads(pickle.dumps(whole.engine))
    assert sent.key() == whole.engine.key()
    assert sent.regions_at_once(limit=None, progress=None)[1] == whole.count
    kept = hm.regions(network, on="[-2,2]^2", checkpoint=tmp_path / "kept")
    assert kept.cells == whole.cells
    with pytest.raises(RequestError, match="more than 2 cells"):
        _ = hm.regions(network, on="[-2,2]^2", limit=2).count


def test_a_sum_that_floats_do_not_hold_is_counted_exactly() -> None:
    """0.1 + 0.2 is no float: read twice, a value has that factor, and its kink is at 1/that."""
    twice = Affine((1, 1), [[0.1, 0.2]], [-0.3])
    steps = [Affine((0,), [[1.0]], [0.0]), twice, Univariate((2,), "relu", 1)]
    source = StepsTarget(Steps(1, steps))
    found = hm.regions(source, on="[0,2]")
    assert (found.cells, found.count) == (2, 2)
    kink = Fraction(0.3) / (Fraction(0.1) + Fraction(0.2))
    assert kink in {x for cell in found for (t,) in cell.exact_vertices for x in [2 * t]}
    with pytest.raises(RequestError, match="one segment at a time"):
        line_breakpoints(source, [[0.0]], [[1.0]])
    with pytest.raises(RequestError, match="do not hold"):
        hm.regions(source, inputs=[[0.0]])
    exact = StepsTarget(Steps(1, [steps[0], Affine((1, 1), [[0.5, 0.25]], [-0.5])]))
    assert chain_of(exact).is_float


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (StepsTarget(Steps(2, [Product((0,), [[0, 1]])])), "step 1 of this StepsTarget multiplies"),
        (Function.parse("exp(x) + y"), "of this Function is exp"),
        (hm.CallableFunction(abs, 1, lipschitz=1.0), "CallableFunction: it does not say"),
        (object(), "not for object"),
    ],
)
def test_what_is_not_piecewise_linear_is_refused_by_name(source: object, why: str) -> None:
    for ask in ({"on": "[0,1]"}, {"inputs": [[0.0, 1.0]]}):
        with pytest.raises(RequestError, match=why):
            hm.regions(source, **ask)


def test_a_winner_within_rounding_is_told_as_a_tie() -> None:
    """0.1 x + 0.2 y and 0.3 z at ones: the floats differ in their last place, and decide nothing.

    An input on a wall is given to a cell beside it.
    """
    rows = Affine((0,), [[0.1, 0.2, 0.0], [0.0, 0.0, 0.3]], [0.0, 0.0])
    close = StepsTarget(Steps(3, [rows, Maximum((1,), [[0, 1]])]))
    assert hm.regions(close, inputs=[[1.0, 1.0, 1.0], [1.0, 1.0, 2.0]]).ties == 1
    plain = StepsTarget(Steps(2, [Maximum((0,), [[0, 1]])]))
    seen = hm.regions(plain, inputs=[[1.0, 1.0], [2.0, 1.0], [1.0, 2.0]])
    assert (seen.cells, seen.ties, seen.which.tolist()) == (2, 1, [0, 0, 1])


def test_affine_steps_alone_make_one_cell_and_unread_steps_still_cut() -> None:
    """Two affine steps are one map; a relu that nobody reads decides, and joins away."""
    first, second = Affine((0,), [[0.1, 2.0]], [1.0]), Affine((1,), [[0.3]], [0.0])
    affine = StepsTarget(Steps(2, [first, second]))
    unread = StepsTarget(Steps(2, [first, Univariate((1,), "relu", 1), second]))
    for domain in (hm.Segment([-1, -1], [1, 1]), hm.Box.parse("[-1,1]^2")):
        found = hm.regions(affine, on=domain)
        assert (found.cells, found.count) == (1, 1)
        found = hm.regions(unread, on=domain)
        assert (found.cells, found.count) == counts_by_definition(unread, domain) == (2, 1)
    nothing = StepsTarget(Steps(2, []))
    assert hm.regions(nothing, on="[-1,1]^2").cells == 1
    assert hm.regions(nothing, inputs=[[0.0, 1.0], [1.0, 0.0]]).cells == 1


def test_a_value_is_read_behind_several_layers() -> None:
    """The first relu is added after the third: it is handed on twice, and keeps its kink."""
    steps = [
        Univariate((0,), "relu", 1),
        Affine((1,), [[1.0]], [-0.25]),
        Univariate((2,), "relu", 1),
        Affine((3,), [[1.0]], [-0.25]),
        Univariate((4,), "relu", 1),
        Affine((5, 1, 3), [[1.0, 1.0, -1.0]], [0.0]),
    ]
    source = StepsTarget(Steps(1, steps))
    found = hm.regions(source, on="[-1,1]")
    assert [float(-1 + 2 * t) for t in found.exact_breakpoints] == [0.0, 0.25, 0.5]
    assert [slope / 2 for cell in found for slope in cell.slope] == [0, 1, 0, 1]
    assert found.layers == (2, 3, 4)
    assert [layer.passed for layer in chain_of(source).layers] == [0, 1, 2]


def test_rounding_behind_an_affine_layer_is_charged_at_its_own_scale() -> None:
    """(1 + e - 1) x + e/2 with e = 2^-57, each term handed on at 2^-20 of its size.

    Floats see e/2 > 0 everywhere; the kink at -1/2 is found because the rows of the second layer
    are large, however small those of the first one are.
    """
    e, small = 2.0**-57, 2.0**-20
    steps = [
        Affine((0,), [[small], [e * small], [small]], np.zeros(3)),
        Affine((1,), [[1 / small, 1 / small, -1 / small]], [e / 2]),
        Univariate((2,), "relu", 1),
    ]
    twice = [
        steps[0],
        Affine((1,), np.eye(3), np.zeros(3)),
        Affine((2,), steps[1].weights, [e / 2]),
    ]
    source = StepsTarget(Steps(1, [*twice, Univariate((3,), "relu", 1)]))
    for one in (StepsTarget(Steps(1, steps)), source):
        found = hm.regions(one, on=hm.Segment([-1], [1]))
        assert [-1 + 2 * t for t in found.exact_breakpoints] == [Fraction(-1, 2)]
        assert found.decided
        assert line_breakpoints(one, [[-1.0]], [[1.0]]).cells.tolist() == [2]
