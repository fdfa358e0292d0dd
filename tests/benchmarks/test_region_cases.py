"""Region counts against counts by definition: degenerate, badly scaled, and far out of range."""

from __future__ import annotations

import itertools
import warnings
from fractions import Fraction

import numpy as np
import pytest
from benchmarks.region_cases import case, regions_part

import hardmax as hm
from hardmax.core import Attention, Box, Head, ReadOut, Transformer, VectorInput
from hardmax.testing import QuadraticScore, cells_by_definition, counts_by_definition

SQUARE = Box([-8.0, -8.0], [8.0, 8.0])


def agreed(source, on) -> tuple[int, int]:
    """Cells and regions, which say that they are exact and are; without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = hm.regions(source, on=on)
        counts = found.cells, found.count
    assert found.exact
    assert counts == counts_by_definition(source, on)
    return counts


def test_a_part_of_the_campaign() -> None:
    found = regions_part(0, 200, seed=1)
    assert (found["false"], found["tracebacks"], found["refused"]) == ([], [], 0)
    assert found["cases"] == found["exact"] == 200


def test_cases_are_told_by_their_number_alone() -> None:
    """So that a campaign can stop anywhere and go on."""
    (one, _, what), (other, _, again) = case(7, 3), case(7, 3)
    assert what == again
    assert all(
        np.array_equal(a, b) for a, b in zip(one.weights, other.weights, strict=True)
    )  # fmt: skip
    kinds = {case(number, 0)[2] for number in range(150)}
    assert len(kinds) >= 11  # three sources, four kinds of domains


# ---- what was found false ------------------------------------------------------------------------


def test_maps_whose_difference_overflows_are_compared_exactly() -> None:
    W1 = [[[1.0, 0.0], [-1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
    network = hm.MaxoutNetwork([W1, [[[1e308, -1e308]]]], [np.zeros((2, 2)), [[0.0]]])
    assert agreed(network, SQUARE)[1] >= 1
    same = hm.MaxoutNetwork([W1, [[[1e308, 1e308]]]], [np.zeros((2, 2)), [[0.0]]])
    agreed(same, SQUARE)


@pytest.mark.parametrize("first", [1e160, 1e300, 1e-170, 1e-299])
@pytest.mark.parametrize("second", [1e150, 1.0, 1e-200])
def test_layers_whose_products_leave_the_floats(first: float, second: float) -> None:
    rng = np.random.default_rng(5)
    W1 = rng.integers(-2, 3, (2, 2, 2)) * first
    W2 = rng.integers(-2, 3, (2, 2, 2)) * second
    b1, b2 = rng.integers(-1, 2, (2, 2)) * first, rng.integers(-1, 2, (2, 2)) * second
    agreed(hm.MaxoutNetwork([W1, W2], [b1, b2]), SQUARE)
    agreed(hm.ReluNetwork([W1[0], W2[0], W2[1]], [b1[0], b2[0], b2[1]]), SQUARE)
    agreed(
        hm.ReluNetwork([W1[0], W2[0], W2[1]], [b1[0], b2[0], b2[1]]), hm.Segment([-3, 1], [5, 2])
    )


@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_huge_and_tiny_hard_transformers(size: float) -> None:
    keys = np.array([[1.0, 0.0], [-1.0, 1.0], [0.0, -1.0]]) * size
    maps, offsets = np.zeros((4, 4, 2)), np.zeros((4, 4))
    maps[3, :2] = np.eye(2)
    offsets[:3, 2:] = keys
    read = np.eye(2, 4)
    turn = np.eye(4)[[2, 3, 0, 1]]
    heads = [Head(read * size, read @ turn, read @ turn, read.T)]
    model = Transformer(
        VectorInput(maps, offsets), [Attention(heads), Attention(heads)], ReadOut(read, [0, 0], 3)
    )
    agreed(model, SQUARE)


def test_a_path_of_weights_that_scaling_would_lose_is_heard() -> None:
    """The second unit's weight to the output is 2^-1000 of the first's: it counts all the same."""
    network = hm.ReluNetwork([np.eye(2), [[2.0**500, 2.0**-600]]], [[0.0, 0.0], [0.0]])
    assert agreed(network, SQUARE) == (4, 4)
    solid = hm.ReluNetwork([np.eye(3), [[2.0**500, 2.0**-600, 0.0]]], [[0.0] * 3, [0.0]])
    assert agreed(solid, Box([-1.0] * 3, [1.0] * 3)) == (8, 4)


def test_a_line_whose_values_underflow_is_not_dead() -> None:
    network = hm.ReluNetwork([[[1e-200]], [[1e300]], [[1.0]]], [[-1e-300], [-1.0], [0.0]])
    agreed(network, hm.Segment([0.0], [2e-90]))
    agreed(network, hm.Segment([0.0], [2.0**-300]))


@pytest.mark.parametrize("size", [2.0**1000, 2.0**-1000])
def test_domains_at_the_ends_of_the_floats(size: float) -> None:
    box = Box([-size, -size], [size, size])
    weights = [[[1.0, 1.0], [1.0, -1.0]], [[1.0, 0.5], [2.0, -1.0]]]
    agreed(hm.MaxoutNetwork([weights], [[[0.0, size], [size, 0.0]]]), box)
    agreed(hm.ReluNetwork([weights[0], [[1.0, 1.0]]], [[0.0, size / 2], [0.0]]), box)


# ---- the oracle ----------------------------------------------------------------------------------


def test_the_oracle_counts_what_hands_can() -> None:
    """A fan of n lines through the middle has 2 n cells; the identity by rectifiers is one map."""
    for n in (1, 2, 3):
        angles = np.array([[1.0, k] for k in range(n)])
        fan = hm.ReluNetwork([angles, np.ones((1, n))], [np.zeros(n), [0.0]])
        assert counts_by_definition(fan, SQUARE) == (2 * n, 2 * n)
    identity = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]])
    assert counts_by_definition(identity, hm.Segment([-1.0], [1.0])) == (2, 1)
    assert counts_by_definition(identity, hm.Segment([1.0], [2.0])) == (1, 1)


def test_the_oracle_tells_a_corner_from_a_side() -> None:
    """xor of two signs: fields of one colour touch in a corner only, and are two regions each."""
    signs = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]]
    cells = cells_by_definition(hm.MaxoutNetwork([signs], [np.zeros((2, 2))]), SQUARE)
    assert len(cells) == 4
    corners = [cell.state[0] for cell in cells]
    assert len(set(corners)) == 4
    for one, other in itertools.combinations(cells, 2):
        changed = sum(a != b for a, b in zip(one.state[0], other.state[0], strict=True))
        assert changed in (1, 2)
    assert all(isinstance(x, Fraction) for row in corners for form in row for x in form)


def test_the_oracle_refuses_conics() -> None:
    keys = Head(np.eye(1), np.eye(1), np.eye(1), np.eye(1))
    maps = np.array([[[1.0]], [[2.0]]])
    model = Transformer(
        VectorInput(maps, np.zeros((2, 1))), [Attention([keys])], ReadOut([[1.0]], [0.0], 0)
    )
    with pytest.raises(QuadraticScore):
        counts_by_definition(model, hm.Segment([-1.0], [1.0]))
