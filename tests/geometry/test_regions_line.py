"""Networks on segments, against brute force over patterns in rationals and exact formulas."""

from __future__ import annotations

import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from hardmax import (
    DomainError,
    MaxAffine,
    MaxoutNetwork,
    PiecewiseLinear,
    ReluNetwork,
    RequestError,
    ShapeError,
)
from hardmax.geometry.counting.line import _batch as _line_batch
from hardmax.geometry.counting.line._segments import line_breakpoints, network_line

DATA = Path(__file__).parents[1] / "data" / "regions"


def stored(name: str) -> ReluNetwork:
    with np.load(DATA / f"{name}.npz") as file:
        depth = len(file["widths"]) - 1
        layers = range(1, depth + 1)
        return ReluNetwork([file[f"W{i}"] for i in layers], [file[f"b{i}"] for i in layers])


def folding(teeth: int, layers: int) -> ReluNetwork:
    """[0, p^L] is folded p times by every layer; all weights are whole numbers."""
    weights, biases = [], []
    read = np.ones((1, 1))  # how the last layer's rectifiers make the next x
    for below in reversed(range(layers)):
        step = float(teeth**below)
        weights.append(np.repeat(read, teeth, axis=0))
        biases.append(-step * np.arange(teeth))
        read = np.array([[1.0] + [2.0 * (-1) ** i for i in range(1, teeth)]])
    return ReluNetwork([*weights, read], [*biases, [0.0]])


# ---- brute force ---------------------------------------------------------------------------------


def choices(network) -> list[list[list[list[int]]]]:
    """For each layer and unit the pieces that it chooses from: rows of `layer_rows`."""
    if isinstance(network, ReluNetwork):
        return [[[i, -1] for i in range(len(b))] for b in network.biases[:-1]]
    return [[list(range(u, b.size, b.shape[1])) for u in range(b.shape[1])] for b in network.biases]


def matrices(network):
    if isinstance(network, ReluNetwork):
        return list(zip(network.weights, network.biases, strict=True))
    flat = [
        (W.reshape(-1, W.shape[2]), b.reshape(-1))
        for W, b in zip(network.weights, network.biases, strict=True)
    ]
    return [*flat, (np.eye(network.outputs), np.zeros(network.outputs))]


def rows_of(W, b, forms):
    found = []
    for row, level in zip(W.tolist(), b.tolist(), strict=True):
        slope = sum((Fraction(w) * f[0] for w, f in zip(row, forms, strict=True)), Fraction(0))
        start = sum((Fraction(w) * f[1] for w, f in zip(row, forms, strict=True)), Fraction(0))
        found.append((slope, start + Fraction(level)))
    return found


def narrowed(interval, form):
    """Where slope t + level > 0 within an open interval; None if that is empty."""
    low, high = interval
    slope, level = form
    if slope == 0:
        return interval if level > 0 else None
    root = -level / slope
    low, high = (max(low, root), high) if slope > 0 else (low, min(high, root))
    return (low, high) if low < high else None


def brute(network, start, end):
    """All nonempty open cells over all patterns, in order: (low, high, output forms).

    A piece is chosen where it beats each other one, or equals it and comes first; 0 comes before
    the row of a rectifier, so that a row that is 0 throughout is off.
    """
    a, b = [Fraction(x) for x in start], [Fraction(x) for x in end]
    layers = matrices(network)
    cells = []
    for pattern in itertools.product(*(itertools.product(*units) for units in choices(network))):
        interval = (Fraction(0), Fraction(1))
        forms = [(y - x, x) for x, y in zip(a, b, strict=True)]
        for chosen, units, (W, bias) in zip(pattern, choices(network), layers, strict=False):
            rows = [*rows_of(W, bias, forms), (Fraction(0), Fraction(0))]
            for own, unit in zip(chosen, units, strict=True):
                for other in unit:
                    difference = tuple(x - y for x, y in zip(rows[own], rows[other], strict=True))
                    if interval is None or (not any(difference) and own <= other):
                        continue
                    interval = narrowed(interval, difference)
            if interval is None:
                break
            forms = [rows[own] for own in chosen]
        if interval is not None:
            cells.append((*interval, rows_of(*layers[-1], forms)))
    return sorted(cells, key=lambda cell: cell[0])


def check_against_brute_force(network, start, end):
    expected = brute(network, start, end)
    found = network_line(network, start, end)
    assert found.exact
    assert list(found.exact_breakpoints) == [cell[0] for cell in expected[1:]]
    assert found.cells == len(expected)
    regions = 1 + sum(x[2] != y[2] for x, y in itertools.pairwise(expected))
    assert found.count == regions
    assert [list(zip(c.slope, c.level, strict=True)) for c in found] == [c[2] for c in expected]
    np.testing.assert_allclose(
        found.breakpoints, [float(cell[0]) for cell in expected[1:]], rtol=0, atol=1e-12
    )  # the condition of these small networks is far below 1e4
    batch = line_breakpoints(network, [start], [end])
    assert batch.cells.tolist() == [found.cells]
    return found


def small_network(seed: int, whole: bool):
    """A network and two points. Whole numbers make ties, dead units, walls through one point."""
    rng = np.random.default_rng([seed, whole])
    widths = [2, 3, 3, 2] if seed % 2 else [1, 4, 3, 1]
    draw = (lambda *s: rng.integers(-2, 3, s)) if whole else (lambda *s: rng.normal(size=s))
    network = ReluNetwork(
        [draw(n, m) for m, n in itertools.pairwise(widths)], [draw(n) for n in widths[1:]]
    )
    return network, draw(widths[0]), draw(widths[0]) + 2.5


@pytest.mark.parametrize("seed", range(12))
def test_small_relu_networks(seed):
    network, start, end = small_network(seed, False)
    found = check_against_brute_force(network, start, end)
    assert found.decided == 0
    fast = network_line(network, start, end, fast=True)
    assert (fast.cells, fast.count, fast.layers) == (found.cells, found.count, found.layers)
    np.testing.assert_array_equal(fast.breakpoints, found.breakpoints)
    np.testing.assert_allclose(fast.maps, found.maps, rtol=0, atol=1e-10)


def test_degenerate_relu_networks():
    found = [check_against_brute_force(*small_network(seed, True)) for seed in range(30)]
    assert sum(one.decided > 0 for one in found) > 10  # else the draw would not be degenerate
    assert sum(one.count < one.cells for one in found) > 5


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("whole", [False, True])
def test_small_maxout_networks(seed, whole):
    rng = np.random.default_rng([seed, whole, 1])
    draw = (lambda *s: rng.integers(-2, 3, s)) if whole else (lambda *s: rng.normal(size=s))
    network = MaxoutNetwork([draw(3, 2, 2), draw(3, 2, 2)], [draw(3, 2), draw(3, 2)])
    found = check_against_brute_force(network, draw(2), draw(2) + 2.5)
    assert whole or found.decided == 0


# ---- known counts --------------------------------------------------------------------------------


def test_two_cells_and_one_region():
    """relu(x) - relu(-x) = x."""
    network = ReluNetwork([[[1.0], [-1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    found = check_against_brute_force(network, [-1.0], [1.0])
    assert (found.cells, found.count) == (2, 1)
    assert found.exact_breakpoints == (Fraction(1, 2),)


@pytest.mark.parametrize(("teeth", "layers"), [(2, 9), (3, 5), (4, 4), (5, 3), (2, 1)])
def test_folding_networks(teeth, layers):
    """Exactly p^L cells in the open interval, equally long, all of them regions."""
    found = network_line(folding(teeth, layers), [0.0], [float(teeth**layers)])
    number = teeth**layers
    assert found.exact_breakpoints == tuple(Fraction(k, number) for k in range(1, number))
    assert (found.cells, found.count, found.exact) == (number, number, True)
    assert found.layers == tuple(teeth**k for k in range(1, layers + 1))


def test_max_affine_of_tangents():
    """The tangents of x^2 at p_j = j/8 meet at the means of neighbours; one that never wins."""
    p = np.arange(9) / 8.0
    function = MaxAffine(np.append(2 * p, 0.5)[:, None], np.append(-p * p, -1.0))
    found = network_line(function, [0.0], [1.0])
    assert found.exact_breakpoints == tuple(Fraction(2 * j + 1, 16) for j in range(8))
    assert (found.cells, found.count) == (9, 9)
    batch = line_breakpoints(function, [[0.0], [1.0]], [[1.0], [0.0]])
    np.testing.assert_array_equal(batch[0], 1.0 - batch[1][::-1])


def test_difference_of_maxima():
    """|x| - |x - 1/2| - 1/2 has two kinks; |x| - |x| has a breakpoint and one region."""
    absolute = MaxAffine([[1.0], [-1.0]], [0.0, 0.0])
    shifted = MaxAffine([[1.0], [-1.0]], [0.0, 1.0])
    two = network_line(PiecewiseLinear(absolute, shifted), [-1.0], [1.0])
    assert two.exact_breakpoints == (Fraction(1, 2), Fraction(3, 4))
    assert (two.cells, two.count) == (3, 3)
    none = network_line(PiecewiseLinear(absolute, absolute), [-1.0], [1.0])
    assert (none.cells, none.count, none.decided > 0) == (2, 1, True)


def test_dead_outputs_and_repeated_neurons():
    W = [[1.0], [1.0], [2.0]]
    dead = ReluNetwork([W, np.zeros((1, 3))], [[0.0, 0.0, -1.0], [3.0]])
    found = network_line(dead, [-1.0], [1.0])
    assert (found.cells, found.count) == (3, 1)
    alive = ReluNetwork([W, [[1.0, 1.0, 1.0]]], [[0.0, 0.0, -1.0], [3.0]])
    found = network_line(alive, [-1.0], [1.0])
    assert (found.cells, found.count, found.decided > 0) == (3, 3, True)


def test_kinks_that_cancel_are_decided_exactly():
    """relu(a + 1) - relu(a + 2) with a = relu(x): a bends, the output does not, since 1 - 1 = 0."""
    network = ReluNetwork([[[1.0]], [[1.0], [1.0]], [[1.0, -1.0]]], [[0.0], [1.0, 2.0], [0.0]])
    found = network_line(network, [-1.0], [2.0])
    assert (found.cells, found.count, found.decided) == (2, 1, 1)


def test_a_kink_without_a_path_is_silent_beyond_doubt():
    """The only unit that reads it is off; no exact arithmetic is needed."""
    network = ReluNetwork([[[1.0]], [[-1.0]], [[1.0]]], [[0.25], [-1.0], [0.0]])
    found = network_line(network, [-1.0], [1.5])
    assert (found.cells, found.count, found.decided, found.known) == (2, 1, 0, None)


def test_walls_that_floats_cannot_tell_apart():
    """3x - 1 and 3x - (1 - 2^-53) vanish 2^-53/3 apart: three cells."""
    near = np.nextafter(1.0, 0.0)
    network = ReluNetwork([[[3.0], [3.0]], [[1.0, 1.0]]], [[-1.0, -near], [0.0]])
    found = network_line(network, [0.0], [1.0])
    assert found.exact_breakpoints == ((1 - Fraction(1, 2**53)) / 3, Fraction(1, 3))
    assert (found.cells, found.count, found.decided > 0) == (3, 3, True)


def test_numbers_beyond_floats():
    """Values overflow, and then no float is believed."""
    network = ReluNetwork([[[1e200]], [[1e200]], [[1.0]]], [[-5e199], [-1.0], [0.0]])
    found = network_line(network, [0.0], [1.0])
    assert (found.cells, found.decided > 0) == (3, True)
    affine = [[[1e200]]]  # rank 1: nothing is compared until floats are infinite
    maxout = MaxoutNetwork(
        [affine, affine, [[[1e-300]], [[0.0]]]], [[[0.0]], [[0.0]], [[0.0], [5e99]]]
    )
    found = network_line(maxout, [0.25], [1.25])
    assert (found.cells, found.decided > 0) == (2, True)
    assert abs(found.breakpoints[0] - 0.25) < 1e-15  # four decimal numbers, each rounded once


def test_ends_that_are_no_floats():
    network = ReluNetwork([[[3.0]], [[1.0]]], [[-1.0], [0.0]])
    found = network_line(network, [Fraction(1, 3)], [Fraction(4, 3)])
    assert (found.cells, found.exact_breakpoints) == (1, ())
    found = network_line(network, [Fraction(-1, 7)], [1])
    assert found.exact_breakpoints == (Fraction(10, 24),)


def test_a_network_without_rectifiers():
    found = network_line(ReluNetwork([[[2.0]]], [[1.0]]), [0.0], [1.0])
    assert (found.cells, found.count, found.layers) == (1, 1, ())
    np.testing.assert_array_equal(found.maps, [[[2.0, 1.0]]])


# ---- floats against whole numbers ----------------------------------------------------------------


def test_lines_through_a_wide_network():
    """Every float is within its bound of the exact breakpoint, and the bound is worth something."""
    network = stored("d2_64x3")
    starts, ends = np.random.default_rng(7).uniform(-1, 1, (2, 6, 2))
    batch = line_breakpoints(network, starts, ends)
    assert batch.decided == 0
    for j in range(6):
        one = network_line(network, starts[j], ends[j])
        assert (one.cells, one.count) == (batch.cells[j], batch.cells[j])
        places = slice(batch.bounds[j], batch.bounds[j + 1])
        off = [
            abs(Fraction(t) - exact)
            for t, exact in zip(batch[j].tolist(), one.exact_breakpoints, strict=True)
        ]
        error = batch.error[places]
        assert all(x <= Fraction(e) for x, e in zip(off, error.tolist(), strict=True))
        assert (np.abs(one.breakpoints - batch[j]) <= 2 * error).all()
    # magnitudes instead of values lose about a digit a layer, flat rows another: 1e-13 is typical
    assert np.median(batch.error) < 1e-12


def test_a_flat_row_makes_an_uncertain_root():
    """Two large rows whose difference turns by 2^-27: rounding moves its root by about 1e-6."""
    network = ReluNetwork(
        [[[1.0], [1.0 - 2.0**-27]], [[1.0, -1.0]], [[1.0]]],
        [[1000.1, 1000.1 + 2.0**-28 * 0.6], [0.0], [0.0]],
    )
    start, end = [-0.123456789], [0.987654321]
    batch = line_breakpoints(network, [start], [end])
    (exact,) = network_line(network, start, end).exact_breakpoints
    off = abs(Fraction(batch[0][0]) - exact)
    assert batch.decided == 0
    assert 1e-8 < off <= batch.error[0]


def test_blocks_do_not_matter(monkeypatch):
    network = stored("d2_16x2")
    starts, ends = np.random.default_rng(3).uniform(-1, 1, (2, 200, 2))
    whole = line_breakpoints(network, starts, ends, fast=True)
    monkeypatch.setattr(_line_batch, "_BLOCK", 1)
    single = line_breakpoints(network, starts, ends, fast=True)
    assert not whole.exact
    np.testing.assert_array_equal(whole.bounds, single.bounds)
    np.testing.assert_array_equal(whole.origin, single.origin)
    np.testing.assert_allclose(whole.points, single.points, rtol=0, atol=1e-11)


def test_doubtful_lines_find_their_places():
    """Of three lines one starts on a wall; what is redone in whole numbers stays in its row."""
    network = ReluNetwork([[[1.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    starts, ends = [[-1.0, -1.0], [0.0, -1.0], [-1.0, 2.0]], [[1.0, 2.0], [0.0, 3.0], [3.0, -2.0]]
    batch = line_breakpoints(network, starts, ends)
    assert [batch[j].tolist() for j in range(3)] == [[1 / 3, 0.5], [0.25], [0.25, 0.5]]
    assert batch.decided > 0
    assert batch.origin.tolist() == [[0, 1], [0, 0], [0, 1], [0, 0], [0, 1]]


# ---- refusals ------------------------------------------------------------------------------------


def test_refusals():
    network = ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]])
    with pytest.raises(DomainError, match="1 inputs"):
        network_line(network, [0.0, 0.0], [1.0, 1.0])
    with pytest.raises(DomainError, match="Line 1 starts"):
        line_breakpoints(network, [[0.0], [1.0]], [[1.0], [1.0]])
    with pytest.raises(ShapeError, match="as many starts"):
        line_breakpoints(network, [[0.0]], [[1.0], [1.0]])
    with pytest.raises(RequestError, match="not for float"):
        network_line(1.0, [0.0], [1.0])
    with pytest.raises(RequestError, match="fast=False"):
        network_line(network, [0.0], [1.0], fast=True).exact_breakpoints  # noqa: B018
