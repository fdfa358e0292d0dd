"""Geometry at the ends of the floats: no filter believes what overflowed or underflowed.

Truth is computed in Fractions here. A warning is an error.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry.temperature._curvature import hessian_bound
from hardmax.geometry.temperature._lemmas import value_bound, weight_bound
from hardmax.numerics import TINY

pytestmark = pytest.mark.filterwarnings("error")
LARGEST = float(np.finfo(float).max)


def wall_at(x: Fraction, slope: float = 1.0) -> hm.ReluNetwork:
    """One unit of one input that is 0 at x."""
    return hm.ReluNetwork([[[slope]], [[1.0]]], [[float(-Fraction(slope) * x)], [0.0]])


def nearest(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def test_subnormal_ends_of_a_segment_are_no_floats_up_to_one_rounding() -> None:
    """As floats the segment runs from 1 to 2 of the smallest number, past the wall at 0.8."""
    tiny = Fraction(TINY)
    segment = hm.Segment([tiny * 3 / 5], [tiny * 12 / 5])
    found = hm.regions(wall_at(tiny * 4 / 5, slope=1e300), on=segment)
    assert (found.cells, found.count, found.exact) == (2, 2, True)
    assert len(found.breakpoints) == len(found.exact_breakpoints) == 1


def test_lines_of_values_up_to_the_largest_float() -> None:
    net = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    for reach in (LARGEST, LARGEST / 2, 3e307, 1e306):
        found = hm.regions(net, on=hm.Segment([-reach], [reach]))
        assert (found.cells, found.count) == (2, 2)
        assert found.breakpoints.tolist() == [0.5]


def test_lengths_of_cells_on_a_line_are_rounded_once() -> None:
    net = hm.ReluNetwork([[[1.0], [1.0]], [[1.0, 1.0]]], [[-1.0, -1.0 - 2.0**-52], [0.0]])
    _, between, _ = hm.regions(net, on=hm.Segment([0], [3]))
    assert between.volume == nearest(Fraction(1, 3 * 2**52))


def test_weights_on_units_that_are_always_0_do_not_overflow() -> None:
    net = hm.ReluNetwork(
        [[[0.0, 0.0], [1.0, 1.0]], [[1e300, 1e-300]], [[1.0]]], [[0.0, 0.0], [0.0], [0.0]]
    )
    found = hm.regions(net, on="[-1,1]^2")
    assert (found.cells, found.count) == (2, 2)


BOXES = [
    ([-1e200] * 2, [1e200] * 2),  # the area is infinite
    ([-1e-200] * 2, [1e-200] * 2),  # it is 0
    ([1e16, -1.0], [1e16 + 2.0, 1.0]),  # far away
    ([1.0, 1.0], [1.0 + 2.0**-52, 2.0]),  # thin
    ([-3e307, -TINY], [3e307, TINY]),
    ([-1e200] * 3, [1e200] * 3),
    ([1.0, -1.0, -1e-300], [1.0 + 2.0**-52, 1.0, 1e-300]),
    ([1e8] * 3, [1e8 + 2.0**-20] * 3),
]


@pytest.mark.parametrize(("low", "high"), BOXES)
@pytest.mark.parametrize("kind", ["relu", "maxout"])
def test_volumes_are_those_of_the_exact_cells(low: list, high: list, kind: str) -> None:
    """A wall through the middle of the box, across it: two halves of equal volume."""
    d = len(low)
    middle = [(Fraction(a) + Fraction(b)) / 2 for a, b in zip(low, high, strict=True)]
    level = float(-middle[1])
    row = [0.0, 1.0, 0.0][:d]
    net = (
        hm.ReluNetwork([[row], [[1.0]]], [[level], [0.0]])
        if kind == "relu"
        else hm.MaxoutNetwork([[[row], [[0.0] * d]]], [[[level], [0.0]]])
    )
    whole = math.prod(Fraction(b) - Fraction(a) for a, b in zip(low, high, strict=True))
    cells = list(hm.regions(net, on=hm.Box(low, high)))
    assert len(cells) == 2
    for cell in cells:
        assert cell.volume == pytest.approx(nearest(whole / 2), rel=1e-9, abs=0.0)


def test_volumes_of_cells_that_are_thin_across_the_axes() -> None:
    net = hm.ReluNetwork([[[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], [[1.0, 1.0]]], [[0.0, 1e-30], [0.0]])
    volumes = sorted(cell.volume for cell in hm.regions(net, on="[-1,1]^3"))
    assert volumes[0] == pytest.approx(3e-30, rel=1e-9, abs=0.0)  # the hexagon, 3 sqrt 3, / sqrt 3
    plane = hm.ReluNetwork([[[1.0, 1.0], [1.0, 1.0]], [[1.0, 1.0]]], [[0.0, 1e-30], [0.0]])
    volumes = sorted(cell.volume for cell in hm.regions(plane, on="[-1,1]^2"))
    assert volumes[0] == pytest.approx(2e-30, rel=1e-9, abs=0.0)


def test_a_fast_answer_measures_its_floats() -> None:
    net = hm.ReluNetwork([[[1.0, 1.0]], [[1.0]]], [[0.0], [0.0]])
    assert [cell.volume for cell in hm.regions(net, on="[-1,1]^2", fast=True)] == [2.0, 2.0]


def test_maps_of_cells_are_good_to_nine_digits() -> None:
    """Weights that cancel, vanish by scaling, or leave the floats: coefficients as they are."""
    rng = np.random.default_rng(0)
    scales = [1.0, 1.0, 1e-299, 1e300, 5e-324, 1e160, 1e-170, 1e16, 1.0 + 2.0**-52]
    for _ in range(40):
        shapes = [(2, 2), (2, 2), (1, 2)]
        weights = [rng.choice([-1.0, 1.0], s) * rng.choice(scales, s) for s in shapes]
        biases = [rng.choice([-1.0, 0.0, 1.0], s[0]) * rng.choice(scales, s[0]) for s in shapes]
        for cell in hm.regions(hm.ReluNetwork(weights, biases), on="[-1,1]^2"):
            matrix, offset = cell.map
            floats = np.hstack([matrix, offset[:, None]]).ravel().tolist()
            exact = [nearest(x) for row in cell.exact_map for x in row]
            assert floats == pytest.approx(exact, rel=1e-9, abs=TINY)


# ---- diagrams ------------------------------------------------------------------------------------


def test_scores_that_overflow_on_the_way_do_not_win() -> None:
    """The first key scores 2e308 - 1.5e308, the second 1e308."""
    diagram = hm.power_diagram([[2e108, -1.5e108], [1e108, 0.0], [-1e108, 0.0], [0.0, -5e108]])
    assert diagram.locate([1e200, 1e200]) == 1
    assert diagram.locate([[1e200, 1e200], [1e100, 1e100], [1.0, 1.0]]).tolist() == [1, 1, 1]


def test_vertices_beyond_floats_on_the_way_are_made_exactly() -> None:
    """Columns that span 1e478: quotients of scaled numbers overflow, the vertex does not."""
    keys = [[1e16, 1.7e308], [0.0, 1.0], [0.0, 1e160], [-1.0, 1.7e308], [1e-170, 1.0]]
    diagram = hm.power_diagram(keys, [0.0, 2.0, 0.0, 7e-310, 1.0])
    exact = [[nearest(x) for x in row] for row in diagram.exact_vertices()]
    assert np.isfinite(exact).all()
    assert diagram.vertices.tolist() == [pytest.approx(row, rel=1e-8) for row in exact]


@pytest.mark.parametrize("top", [1e300, 1e308])
def test_boxes_among_vertices_that_are_no_numbers(top: float) -> None:
    keys = [[0.0, 0.0], [1e-300, 0.0], [0.0, 1e-300], [1e-300, 1e-300]]
    diagram = hm.power_diagram(keys, [0.0, -top, -1.0, -top], on=(-1, 1))
    assert diagram.live.tolist() == [0]
    assert diagram.volumes() == {0: 4}


def test_sums_beyond_floats_are_infinite_without_a_word() -> None:
    total = hm.minkowski_sum([[[1.7e308], [0.0]], [[1.7e308], [0.0]]])
    assert sorted(total.vertices.ravel().tolist()) == [0.0, math.inf]


# ---- temperatures --------------------------------------------------------------------------------


def test_losers_of_a_soft_head_keep_some_weight_however_cold() -> None:
    for gap, coldness in ((1e300, 1e300), (1e10, LARGEST), (750.0, 1.0)):
        assert weight_bound(gap, 2, coldness) > 0.0
        assert value_bound(gap, 2, coldness) > 0.0
        assert hessian_bound(gap, 2, coldness) > 0.0
        assert weight_bound(-gap, 2, coldness) == 1.0
    assert weight_bound(1e300, 2, math.inf) == weight_bound(math.inf, 1, 1.0) == 0.0
    q, k, v = np.array([[1e150]]), np.array([[1e150], [0.0]]), np.array([[1.0], [0.0]])
    found = hm.stability_of(q, k, v, temperature=1e-300)
    assert found.weight_bound[0] > 0.0
    assert found.output_bound[0] > 0.0


def test_differences_of_scores_are_finite_or_refused() -> None:
    """1.7e308 - (-1.7e308) at the temperature 1e308: the loser has a weight of 0.03."""
    q, v = np.array([[1.3e154]]), np.array([[1.0], [0.0]])
    with pytest.raises(hm.ShapeError, match="scores are too large"):
        hm.stability_of(q, np.array([[1.3e154], [-1.3e154]]), v, temperature=1e308)
    q, keys = np.array([[1e154]]), np.array([[1e153], [-1e153]])
    found = hm.stability_of(q, keys, v, temperature=1e307)
    assert found.weight_bound[0] == pytest.approx(1 / (1 + math.exp(2.0)))


def test_walls_whose_quotient_overflows_are_far_and_not_nowhere() -> None:
    """Two keys 1e-20 apart beside one at 1e150 that the first query does not see."""
    keys, bias = np.array([[0.0], [1e-20], [1e150]]), np.array([[1e200, 0.0, 0.0]])
    mask = np.array([[True, True, False], [True, True, True]])
    found = hm.stability_of(np.zeros((2, 1)), keys, np.zeros((3, 1)), mask, bias=bias)
    assert 0.0 < found.wall[0] <= 1e220
    assert found.neighbour[0] == 1


def test_extremes_of_stability_raise_no_warning() -> None:
    values = np.array([[1.7e308], [1e307]])
    found = hm.stability_of(np.array([[1.0]]), np.array([[1e-310], [0.0]]), values)
    assert 1.6e308 <= found.value_diameter[0] <= 1.61e308
    assert found.critical_coldness(1e-300) > 0.0
