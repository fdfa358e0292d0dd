"""Every float filter of the geometry against exact rationals: never past its radius, and near it.

A test here draws thousands of adversarial numbers (all 53 digits, just above a power of two, where
a rounding is largest beside its number), compares the float with the rational, and asks for two
things: no error beyond the radius, and some error beyond half of it. So a unit that is halved, a
rounding that is not counted, or a term that is left out turns a test red.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry.counting import _stack
from hardmax.geometry.counting._chain import chain_of
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.conic import _boxes as _conic_boxes
from hardmax.geometry.counting.line import _batch as _line_batch
from hardmax.geometry.counting.line import _kernels as _line_kernels
from hardmax.geometry.counting.line._arrays import Changes, Lines
from hardmax.geometry.counting.line._quadratic import roots
from hardmax.geometry.counting.plane import _arrays as _plane_arrays
from hardmax.geometry.counting.plane import _cut_kernels as _plane_cuts
from hardmax.geometry.counting.plane import _walk as _plane_walk
from hardmax.geometry.counting.space import _arrays as _space_arrays
from hardmax.geometry.counting.space import _form_kernels as _space_forms
from hardmax.geometry.counting.space import _section_kernels as _space_sections
from hardmax.geometry.counting.space import _vertex_kernels as _space_vertices
from hardmax.geometry.counting.space._arrays import new_store
from hardmax.geometry.counting.space._exact import box_solid
from hardmax.geometry.counting.space._piece import to_floats_if_simple
from hardmax.geometry.counting.switch import _clip_kernels as _switch_clips
from hardmax.geometry.counting.switch import _kernels as _switch_kernels
from hardmax.geometry.counting.switch import _piece as _switch_piece
from hardmax.geometry.counting.switch import _regions as _switch_regions
from hardmax.geometry.counting.switch import _rival_kernels as _switch_rivals
from hardmax.geometry.counting.switch import _rows as _switch_rows
from hardmax.geometry.counting.switch import _search as _switch_run
from hardmax.geometry.counting.switch._exact import ExactCell, homogeneous
from hardmax.geometry.diagrams._locating import Locator
from hardmax.geometry.hulls import _facet_kernels as _kernels
from hardmax.geometry.hulls._frame import _Search
from hardmax.geometry.hulls._incremental import _Facets
from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes import _graph as _minkowski_graph
from hardmax.geometry.polytopes import _ray_kernels as _rays
from hardmax.geometry.polytopes import _walk as _minkowski_walk
from hardmax.geometry.polytopes import _wrap_kernels as _wraps
from hardmax.numerics import FAINT, TINY, UNIT, nearest_ratio

Draw = Callable[[np.random.Generator], tuple[float, Fraction, float]]


def exact(x) -> Fraction:
    return Fraction(float(x))


def near_one(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Just above 1, or just above a half: a rounding there is nearly u of the number."""
    return 1.0 + rng.random(shape) * 2.0**-9


def signed(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return near_one(rng, *shape) * rng.choice([-1.0, 1.0], shape)


def full(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """All digits, of sizes from 2^-10 to 2^10, both signs."""
    return (
        signed(rng, *shape) * (0.5 + 0.5 * rng.random(shape)) * 2.0 ** rng.integers(-10, 11, shape)
    )


def largest_share(draw: Draw, tries: int = 2000, seed: int = 0) -> float:
    """The largest |float - exact| / radius that was seen; none may be above 1."""
    rng, most = np.random.default_rng(seed), Fraction(0)
    for _ in range(tries):
        value, truth, radius = draw(rng)
        off = abs(exact(value) - truth)
        assert off <= exact(radius)
        if off:
            most = max(most, off / exact(radius))
    return float(most)


def dot(one, other) -> Fraction:
    return sum((exact(x) * exact(y) for x, y in zip(one, other, strict=True)), Fraction(0))


def third(x: float) -> tuple:
    """A rational whose nearest float is x, from nearly halfway to the next one."""
    return _switch_rows.rational(Fraction(x) * (1 + Fraction(15, 16 * 2**53)))


# ---- stacks --------------------------------------------------------------------------------------


def relu_stack(rng: np.random.Generator, layers: int, draw=near_one) -> Stack:
    """One input, one neuron a layer, no more: then a bound has nothing but its roundings."""
    weights = [draw(rng, 1, 1) for _ in range(layers + 1)]
    biases = [draw(rng, 1) * 2.0**-9 for _ in range(layers + 1)]
    return Stack.of(hm.ReluNetwork(weights, biases), near_one(rng, 1))


@pytest.mark.parametrize(("layer", "least"), [(0, 0.6), (1, 0.55), (2, 0.51)])
def test_slacks_of_stacks(layer: int, least: float) -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        stack = relu_stack(rng, layer)
        x = float(stack.reach[0])
        rows = np.array([[stack.weights[0][0, 0], stack.biases[0][0]]])
        for W, b in zip(stack.weights[1 : layer + 1], stack.biases[1 : layer + 1], strict=True):
            rows = W @ rows
            rows[:, -1] += b
        slope, level = stack.exact_maps([[1]] * layer, layer)[0]
        value = rows[0, 0] * x + rows[0, 1]
        return value, slope * exact(x) + level, stack.slacks[layer][0]

    assert largest_share(draw, 1500) > least


def test_slacks_count_weights_that_are_subnormal() -> None:
    """2^-1074 of a weight is lost, times a unit that reaches 2^1000: no slack hides that."""
    big = 2.0**1000
    network = hm.ReluNetwork(
        [[[1.0], [2.0**-60]], [[0.75, 2.0**-1020]], [[1.0]]], [[0, 0], [0], [0]]
    )
    stack = Stack.of(network, [big])
    wrong = abs(exact(stack.weights[1][0, 1]) - stack.exact_layers[1][0][0][1])
    assert stack.slacks[1][0] >= wrong * exact(stack.sizes[0][1])
    assert (stack.weights[1] != 0.0).all()
    lost = _stack._composed_error(
        np.array([[TINY]]), np.zeros(1), np.array([big]), np.zeros(1), 1.0
    )
    assert lost[0] >= TINY * big


def test_sizes_of_stacks_are_no_smaller_than_their_values() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        stack = relu_stack(rng, 1, full)
        W, b = stack.exact_layers[0]
        size = abs(W[0][0]) * exact(stack.reach[0]) + abs(b[0])
        assert exact(stack.sizes[0][0]) >= size
        return 0.0, Fraction(0), 1.0

    largest_share(draw, 300)


def test_a_form_without_terms_has_no_slack_and_every_other_has() -> None:
    stack = Stack.of(hm.ReluNetwork([[[0.0], [1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]]), [1.0])
    assert stack.slacks[0][0] == 0.0 < stack.slacks[0][1]


def test_what_sensitivities_lose() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        hidden, size = [near_one(rng, 1, 1) for _ in range(3)], near_one(rng, 1)
        lost = _stack.what_sensitivities_lose(hidden, size, np.zeros(1))
        first = hidden[2][0, 0] * size[0]
        second = hidden[1][0, 0] * first
        truth = exact(hidden[2][0, 0]) * exact(size[0]) * exact(hidden[1][0, 0])
        assert lost[2] == 0.0
        assert abs(exact(first) - exact(hidden[2][0, 0]) * exact(size[0])) <= exact(lost[1])
        return second, truth, lost[0]

    assert largest_share(draw) > 0.6


def test_outputs_are_combined_up_to_their_rounding() -> None:
    factors = np.random.default_rng(_plane_arrays._NAMES).uniform(0.5, 1.0, size=2)

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        W = near_one(rng, 2, 1)
        out, wrong = _plane_arrays._combine_outputs(W)
        return out[0], dot(factors, W[:, 0]), wrong[0]

    assert largest_share(draw) > 0.4  # kernels that fuse the product with the sum lose less


def test_subnormal_weights_are_counted_in_sensitivities() -> None:
    lost = _stack.lost_by_subnormals(
        np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([2.0**60, 2.0**60])
    )
    assert lost[0] >= TINY * 2.0**61
    assert lost[1] == 0.0


# ---- the plane -----------------------------------------------------------------------------------


def test_sides_and_corners_of_the_domain() -> None:
    def corner(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        w = int(rng.integers(2**50, 2**51)) | 1
        over = w + int(rng.integers(1, 2**40))
        x, _, radius = _plane_walk._float_corner((over, 0, w), fast=False)
        return x, Fraction(over, w), radius

    def side(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        b = int(rng.integers(2**59, 2**59 + 2**50)) | 1
        line = (b + int(rng.integers(1, 2**40)), b, int(rng.integers(2**48, 2**49)))
        x, y = near_one(rng, 2) * (2.0**-9, 1.0)
        a, b, c, slack = _plane_walk._float_line(line, (x, y))
        truth = (line[0] * exact(x) + line[1] * exact(y) + line[2]) / line[0]
        return a * x + b * y + c, truth, slack

    assert largest_share(corner) > 0.9
    assert largest_share(side) > 0.5
    _, _, radius = _plane_walk._float_corner((1, 1, 2**1080), fast=False)
    assert radius >= TINY  # a corner that underflows


def meeting_of(line, other, x: float, y: float, reach: float = 4.0):
    poly = np.zeros((1, 7, 2))
    poly[0, :, 0] = (x, y, 0.0, *other)
    poly[0, :2, 1] = x + 1.0, y
    with np.errstate(all="ignore"):
        cutting = _plane_cuts.WallLine(*line, 0)
        return _plane_cuts._meeting(poly, 0, 0, 1, cutting, np.full(2, reach), False)


def test_where_lines_meet() -> None:
    """Slacks are attained: a line moved by all of its slack meets the other at the radius."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        e, f = rng.random(2) * 2.0**-20
        a, b = near_one(rng, 2)
        x, _, radius = meeting_of((a, 2.0**-30, -a, e), (2.0**-30, b, 0.0, f), 0.5, 0.0)
        # the true lines: a x + (y - 1) 2^-30 ... moved by e and f
        A = [[exact(a), Fraction(1, 2**30)], [Fraction(1, 2**30), exact(b)]]
        right = [exact(a) - exact(e), -exact(f)]
        det = A[0][0] * A[1][1] - A[0][1] * A[1][0]
        truth = (right[0] * A[1][1] - right[1] * A[0][1]) / det
        return x, truth, radius

    assert largest_share(draw) > 0.9


def test_where_lines_meet_is_off_by_no_more_than_rounding_allows() -> None:
    """Forms without slack but for their evaluation; the meeting point is where it says it is."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        one, two = signed(rng, 3), signed(rng, 3) * (2.0 ** -rng.integers(0, 30), 1.0, 1.0)
        slacks = [4.0 * UNIT * ((abs(t[0]) + abs(t[1])) * 4.0 + abs(t[2])) for t in (one, two)]
        x, _, radius = meeting_of((*one, slacks[0]), (*two, slacks[1]), 0.5, 0.5)
        p, q = [exact(t) for t in one], [exact(t) for t in two]
        det = p[0] * q[1] - p[1] * q[0]
        meets = det and [(p[1] * q[2] - p[2] * q[1]) / det, (p[2] * q[0] - p[0] * q[2]) / det]
        if not det or max(map(abs, meets)) > 4 or radius == math.inf:
            return 0.0, Fraction(0), 1.0
        return x, meets[0], radius

    largest_share(draw, 1000)


def test_lines_that_may_be_parallel_meet_anywhere() -> None:
    """Determinants that cancel to rounding, underflow or overflow give no point."""
    a = 1.0 + 2.0**-52
    assert meeting_of((a, 1.0, 0.0, 0.0), (1.0, 1.0 - 2.0**-53, 0.0, 0.0), 0.5, 0.5)[2] == math.inf
    for size in (2.0**-600, 2.0**600):
        line, other = (size, 0.0, -size / 2, 0.0), (0.0, size, 0.0, 0.0)
        assert meeting_of(line, other, 0.5, 0.5)[2] == math.inf
    lost = meeting_of((1e-50, 0.0, -5e-51, 0.0), (0.0, 1e-49, 0.0, 0.0), 0.5, 0.5)[2]
    assert 8.0 * TINY / 1e-100 <= lost < math.inf


# ---- switches ------------------------------------------------------------------------------------


def composed(weight: float, form, level: float, reach: float):
    """One row over one form of one input: made, bulk, slope."""
    rows: Any = SimpleNamespace(
        weights=np.array([[weight]]), sizes=np.array([[abs(weight)]]), levels=np.array([level])
    )
    room: Any = SimpleNamespace(made=np.empty((1, 3)), bulk=np.empty(1), slope=np.empty(1))
    with np.errstate(all="ignore"):
        _switch_rivals.compose(rows, np.array([form]), np.array([reach]), room)
    return room.made[0], room.bulk[0], room.slope[0]


def test_composed_forms() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        weight, level = third(near_one(rng, 1)[0]), third(2.0**-12 * near_one(rng, 1)[0])
        a, b, reach = *near_one(rng, 2), 1.0
        form = (a, b * 2.0**-9, 0.0)
        (w,), (c,) = _switch_rows.nearest_floats([weight]), _switch_rows.nearest_floats([level])
        made, _, _ = composed(w, form, c, reach)
        W, C = _switch_rows.fraction(weight), _switch_rows.fraction(level)
        truth = (W * exact(a), W * exact(form[1]) + C)
        off = abs(exact(made[0]) - truth[0]) + abs(exact(made[1]) - truth[1])
        return float(off) if off == exact(float(off)) else 0.0, Fraction(0), made[2]

    def coefficient(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        weight = third(near_one(rng, 1)[0])
        (w,) = _switch_rows.nearest_floats([weight])
        a = near_one(rng, 1)[0]
        made, _, _ = composed(w, (a, 0.0, 0.0), 0.0, 1.0)
        return made[0], _switch_rows.fraction(weight) * exact(a), made[2]

    def constant(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        weight, level = third(near_one(rng, 1)[0]), third(near_one(rng, 1)[0] * 0.01)
        (w,), (c,) = _switch_rows.nearest_floats([weight]), _switch_rows.nearest_floats([level])
        a = near_one(rng, 1)[0]
        made, _, _ = composed(w, (0.0, a, 0.0), c, 1.0)
        truth = _switch_rows.fraction(weight) * exact(a) + _switch_rows.fraction(level)
        return made[1], truth, made[2]

    assert largest_share(draw, 500) >= 0.0
    assert largest_share(coefficient) > 0.4
    assert largest_share(constant) > 0.52


def test_composed_errors_carry_those_of_their_forms() -> None:
    made, bulk, slope = composed(3.0, (1.0, 0.5, 2.0**-10), 0.25, 2.0)
    assert made[2] >= 3.0 * 2.0**-10
    assert bulk >= made[2]
    assert slope >= 3.0


def test_composed_forms_count_what_underflows() -> None:
    """A weight below 2^-1074 times a form of 2^1000; a product below it times such a reach."""
    big = 2.0**1000
    made, _, _ = composed(0.0, (0.0, big, 0.0), 0.0, 1.0)
    assert made[2] >= TINY * big
    made, _, _ = composed(2.0**-600, (2.0**-600, 0.0, 0.0), 0.0, big)
    assert exact(made[2]) >= Fraction(1, 2**1200) * exact(big)


def test_values_of_forms() -> None:
    """What `bulk` adds to the error: the difference of two forms, evaluated at a point."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        p, q, x = signed(rng, 2), -signed(rng, 2) * 2.0**-9, near_one(rng, 1)[0]
        room = 0.0
        for form in (p, q):
            _, bulk, _ = composed(1.0, (form[0], form[1] * 2.0**-9, 0.0), 0.0, x)
            made, _, _ = composed(1.0, (form[0], form[1] * 2.0**-9, 0.0), 0.0, x)
            room += bulk - made[2]
        p, q = p * [1.0, 2.0**-9], q * [1.0, 2.0**-9]
        value = (p[1] - q[1]) + (p[0] - q[0]) * x
        truth = (exact(p[1]) - exact(q[1])) + (exact(p[0]) - exact(q[0])) * exact(x)
        return value, truth, room

    assert largest_share(draw) > 0.5


@np.errstate(all="ignore")
def test_nan_and_infinities_decide_nothing() -> None:
    for odd in (math.nan, math.inf, -math.inf):
        tables: Any = SimpleNamespace(score=np.arange(2))
        rivals: Any = SimpleNamespace(
            pool=np.arange(2),
            values=np.array([[odd, odd], [0.0, 0.0]]),
            bulk=np.array([abs(odd), 0.0]),  # what overflows has no bound
            slope=np.zeros(2),
        )
        for j, i in ((0, 1), (1, 0)):
            assert _switch_rivals.beats(tables, rivals, np.zeros(2), j, i, False) == 0
        keys = np.array([[0.0, 0.0], [5.0, 0.0], [odd, 0.0]])
        assert _switch_regions.twins(keys).all()
        keys = np.array([[0.0, 0.0], [5.0, 0.0], [9.0, abs(odd)]])
        assert _switch_regions.twins(keys).all()
        assert _line_kernels._count_doubtful(np.array([odd]), np.array([1.0]), math.nan) == 1
        assert _line_kernels._winner(
            np.array([odd, 0.0]), np.array([0, 1]), 0.0, np.array([odd] * 2)
        )[1]
    assert not _switch_regions.twins(np.array([[0.0, 0.1], [5.0, 0.1]])).any()
    assert nearest_ratio(10**400, -3) == -math.inf
    assert nearest_ratio(-(10**400), -3) == math.inf


def crossing(values, slack, stray, ends=(1.0, 2.0)):
    points, out = np.array([[ends[0]], [ends[1]]]), np.empty(1)
    with np.errstate(all="ignore"):
        cell: Any = SimpleNamespace(points=points, stray=np.array(stray))
        cut: Any = SimpleNamespace(value=np.array(values), slack=np.array(slack))
        radius = _switch_clips.cross(cell, cut, 0, 1, out, False)
    return out[0], radius


def test_crossings_of_edges_with_slack() -> None:
    """The bound is attained where both values are off the same way."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        f, g = near_one(rng, 2)
        s = 2.0**-4 * near_one(rng, 1)[0]
        x, radius = crossing((f, -g), (s, s), (0.0, 0.0), (0.0, 1.0))
        a, b = exact(f) + exact(s), -exact(g) + exact(s)
        return x, a / (a - b), radius

    assert largest_share(draw) > 0.85


def test_crossings_of_edges_round() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        f, g = near_one(rng, 2) * (1.0, 2.0 ** int(rng.integers(-5, 6)))
        ends = (near_one(rng, 1)[0], -near_one(rng, 1)[0])
        x, radius = crossing((f, -g), (0.0, 0.0), (0.0, 0.0), ends)
        share = exact(f) / (exact(f) + exact(g))
        return x, exact(ends[0]) + share * (exact(ends[1]) - exact(ends[0])), radius

    assert 0.15 < largest_share(draw) <= 1.0


def test_crossings_that_over_or_underflow_may_be_anywhere() -> None:
    assert crossing((1e308, -1e308), (1e290, 1e290), (0.0, 0.0))[1] >= 1.0
    assert crossing((1e-200, -1e-200), (1e-201, 1e-201), (0.0, 0.0))[1] >= 0.05
    assert crossing((3 * TINY, -3 * TINY), (2 * TINY, 2 * TINY), (0.0, 0.0))[1] >= 0.3
    # most of the span is slack: the difference that is left is itself rounding
    f, s = 1.0, 1.0 - 2.0**-52
    assert crossing((f, -(2.0**-60)), (s, 0.0), (0.0, 0.0))[1] >= 2.0**-9
    assert crossing((1.0, -1.0), (0.0, 0.0), (2.0**-5, 2.0**-6))[1] >= 2.0**-5


def test_states_round_once_for_every_winner() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        made = np.zeros((2, 3))
        made[:, 0] = near_one(rng, 2) * (1.0, 2.0**-8)
        forms, reach = np.empty((1, 3)), np.array([1.0])
        tables: Any = SimpleNamespace(
            payload=np.array([[1]]), target=np.array([[0]]), base=np.array([0])
        )
        rivals: Any = SimpleNamespace(made=made, winners=np.array([0]))
        _switch_kernels.write_state(tables, rivals, reach, forms)
        return forms[0, 0], exact(made[0, 0]) + exact(made[1, 0]), forms[0, 2]

    assert largest_share(draw) > 0.45


def test_vertices_and_states_as_floats() -> None:
    def vertex(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        w = int(rng.integers(2**50, 2**51)) | 1
        x = Fraction(w + int(rng.integers(1, 2**40)), w)
        cell = ExactCell((homogeneous([x]), (0, 1)), (1, 2), ((-1, 0, 0, 0), (-1, 1, 0, 0)))
        _, points, stray, *_ = _switch_piece.packed_cells([cell], [()])
        return points[0, 0], x, stray[0]

    def state(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        row = (third(near_one(rng, 1)[0]), _switch_rows.rational(0))
        near = _switch_run.float_forms((row,), np.array([1.0]))[0]
        return near[0], _switch_rows.fraction(row[0]), near[2]

    assert largest_share(vertex) > 0.9
    assert largest_share(state, 300) > 0.3
    tiny = _switch_run.float_forms(
        ((_switch_rows.rational(Fraction(1, 2**1200)),) * 2,), np.array([2.0**300])
    )
    assert tiny[0, 2] >= 2.0**-900


def test_numbers_of_maps() -> None:
    """One output, one form, one input: every rounding of a number is counted."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        weight, level = third(near_one(rng, 1)[0]), third(2.0**-9 * near_one(rng, 1)[0])
        form = np.array([[[near_one(rng, 1)[0], 2.0**-9 * near_one(rng, 1)[0], 0.0]]])
        piece = SimpleNamespace(reach=near_one(rng, 1))
        program = SimpleNamespace(readout=lambda context: [(weight, level)])
        batch = SimpleNamespace(context=0, forms=form, piece=piece)
        number, off = _switch_regions._keys(program, batch)[0]  # type: ignore[arg-type]
        again = np.random.default_rng(0)
        point, mix = piece.reach * again.random(1), 0.5 + 0.5 * again.random(1)
        value = exact(form[0, 0, 0]) * exact(point[0]) + exact(form[0, 0, 1])
        W, C = _switch_rows.fraction(weight), _switch_rows.fraction(level)
        return number, exact(mix[0]) * (W * value + C), off

    assert largest_share(draw) > 0.2


def test_numbers_of_maps_carry_errors_and_underflow() -> None:
    rows, mix, big = np.array([[2.0, 0.0]]), np.ones(1), 2.0**900
    assert _switch_regions._off(rows, mix, np.zeros((1, 1)), np.ones((1, 1)), 1)[0] >= 2.0
    lost = _switch_regions._off(np.zeros((1, 2)), mix, np.full((1, 1), big), np.zeros((1, 1)), 1)
    assert lost[0] >= TINY * big
    lost = _switch_regions._off(np.array([[big, 0.0]]), mix, np.zeros((1, 1)), np.zeros((1, 1)), 1)
    assert lost[0] >= TINY * big


# ---- lines ---------------------------------------------------------------------------------------


def test_breakpoints_on_lines() -> None:
    """One unit on one line: where it changes its sign, and how far the float may be off."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        a = 2.0 ** int(rng.integers(-3, 4)) * near_one(rng, 1)[0]
        b = -a * (0.05 + 0.9 * rng.random())
        chain = chain_of(hm.ReluNetwork([[[a]], [[1.0]]], [[b], [0.0]]))
        found = _line_batch.explore_lines(chain, np.zeros((1, 1)), np.ones((1, 1)), joining=False)
        if found.doubts[0] or len(found.points) != 3:
            return 0.0, Fraction(0), 1.0
        return found.points[1], -exact(b) / exact(a), found.error[1]

    largest_share(draw, 300)


def test_rows_at_the_ends_of_lines() -> None:
    """A row is off by at most its scale times the error that the ends get."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        a, b, x = *near_one(rng, 2) * (1.0, -(2.0**-9)), near_one(rng, 1)[0]
        chain = chain_of(hm.ReluNetwork([[[a]], [[1.0]]], [[b], [0.0]]))
        found = _line_batch.explore_lines(
            chain, np.zeros((1, 1)), np.full((1, 1), x), joining=False
        )
        (scale,) = _line_batch._scales(chain, np.array([x]))
        return a * x + b, exact(a) * exact(x) + exact(b), found.error[-1] * scale[0]

    assert largest_share(draw, 600) > 0.15


def refined_error(points: np.ndarray, error: np.ndarray, share: float, width: float) -> float:
    """The error of the one new point at a share that is off by at most a width."""
    lines = Lines(points, error, np.zeros((2, 2), np.int32), np.array([0, 2]))
    unit, first = np.zeros(1, np.int32), np.array([0, 1, 1])
    changes = Changes(np.array([share]), np.array([width]), unit, first, np.zeros(1, np.int64))
    fine, _ = _line_kernels.refine_lines.py_func(lines, changes, 0)
    return float(fine.error[1])


def test_new_points_on_lines() -> None:
    """Points and rows are interpolated at a share, and the error of a new point covers both."""

    def made(share: float) -> float:
        return refined_error(np.array([0.0, 1.0]), np.zeros(2), share, 0.0)

    def row(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        share, z, after = 0.9 * near_one(rng, 1)[0], -1.0 / near_one(rng, 1)[0], near_one(rng, 1)[0]
        value = z + share * (after - z)
        truth = exact(z) + exact(share) * (exact(after) - exact(z))
        return value, truth, made(share) * after

    assert largest_share(row) > 0.3
    wide = refined_error(np.array([0.0, 1.0]), np.array([0.25, 0.125]), 0.5, 0.5)
    assert wide >= 0.25 + 0.5 * (1.0 + 0.25 + 0.125)


def test_shares_of_roots_move_with_their_values() -> None:
    """Both values off the same way by all of their bounds: the width is attained."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        f, s = near_one(rng, 1)[0], 2.0**-4 * near_one(rng, 1)[0]
        share, width, bad = _line_kernels._share_of_root(f, -f, s, s)
        assert not bad
        a, b = exact(f) + exact(s), exact(s) - exact(f)
        return share, a / (a - b), width

    def rounding(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        f, g = near_one(rng, 2) * (1.0, 2.0**-6)
        share, width, _ = _line_kernels._share_of_root(f, -g, 0.0, 0.0)
        return share, exact(f) / (exact(f) + exact(g)), width

    assert largest_share(draw) > 0.85
    assert largest_share(rounding) > 0.4
    assert _line_kernels._share_of_root(1.0, -1.0, 2.0, 0.0)[1:] == (1.0, 1)


def test_scales_of_lines_are_not_lost_by_underflow() -> None:
    chain = chain_of(hm.ReluNetwork([[[1e-200]], [[1e-200]], [[1.0]]], [[0.0], [0.0], [0.0]]))
    first, second = _line_batch._scales(chain, np.array([1e-200]))
    assert first[0] > 0.0
    assert second[0] > 0.0
    assert not _line_batch._is_moderate(second)
    assert _line_batch._is_moderate(np.array([1.0, 0.0, -1.0]))
    assert not _line_batch._is_moderate(np.array([1.0, math.inf]))
    assert not _line_batch._is_moderate(np.array([1.0, math.nan]))
    assert not _line_batch._is_moderate(np.array([FAINT]))


def test_scales_of_lines_are_rounded_up() -> None:
    rng = np.random.default_rng(3)
    for _ in range(300):
        W, b, reach = full(rng, 1, 2), full(rng, 1), abs(full(rng, 2))
        chain = chain_of(hm.ReluNetwork([W, [[1.0]]], [b, [0.0]]))
        size = 2 * dot(abs(W[0]), reach) + abs(exact(b[0]))
        assert exact(_line_batch._scales(chain, reach)[0][0]) >= size


def test_bends_that_may_be_rounding_are_not_heard() -> None:
    """Weights that nearly cancel: floats see a bend of the order of their own rounding."""
    rng, heard = np.random.default_rng(1), 0
    for _ in range(400):
        a, b = near_one(rng, 2)
        c = a * b  # rounded once, so that a b - c is rounding or 0
        chain = chain_of(hm.ReluNetwork([[[1.0], [1.0]], [[a, 1.0]], [[b]]], [[0, 0], [9.0], [0]]))
        kinks = np.array([[[1.0, -c / b * 1.0]], [[1.0, c / b]]])
        bent = _line_batch._passed_on(kinks, chain.layers[1].weights, 2)
        truth = exact(a) - exact(c / b)
        _, unheard = _line_batch._count_silent(chain, bent, np.array([[0, 0]]), np.array([0, 1]))
        heard += not unheard[0]
        if not truth:
            assert unheard[0]
    assert heard < 400
    kinks = np.array([[[1.0]], [[math.nan]]])
    lonely = chain_of(hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]]))
    assert _line_batch._count_silent(lonely, kinks, np.array([[0, 0]]), np.array([0, 1]))[1] == 1


def test_enclosures_of_quadratic_numbers() -> None:
    for a, b, c in ((1, 0, -2), (3, 1, -1), (7, -30, 1)):
        for root in roots(a, b, c):
            low, high = root.floats
            values = [a * exact(x) ** 2 + b * exact(x) + c for x in (low, high)]
            assert values[0] * values[1] < 0
            assert math.nextafter(math.nextafter(low, math.inf), math.inf) >= high


# ---- space ---------------------------------------------------------------------------------------


@np.errstate(invalid="ignore")
def test_inverses_are_checked_up_to_rounding() -> None:
    """One number and its inverse: the excess is at least what is really left of 1."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        A = near_one(rng, 1, 1)
        R = 1.0 / A
        excess = _space_vertices._excess(R, A)
        return 0.0, abs(1 - exact(R[0, 0]) * exact(A[0, 0])), excess

    assert largest_share(draw) > 0.1  # the inverse itself is off by half a unit at most
    assert _space_vertices._excess(np.full((2, 2), math.nan), np.eye(2)) == math.inf
    endless = np.array([[1.0, 0], [0, math.inf]])
    assert _space_vertices._excess(endless, np.eye(2)) == math.inf


def test_sections_of_edges() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        f, g = near_one(rng, 2)
        s = 2.0**-4 * near_one(rng, 1)[0]
        room = SimpleNamespace(
            made=np.zeros((2, 1), int), origin=np.zeros((2, 3), int), value=np.array([[[f, -g]]])
        )
        points, labels, links = np.array([[0.0], [1.0]]), np.array([[0], [1]]), np.array([[1], [0]])
        edge, cut = _space_arrays.Store(points, np.zeros(2), labels, links), new_store(2, 1)
        flat, wall = _space_arrays.Flat(0, 0, 2), _space_arrays.Wall(0, 0, 7, s, 1.0)
        _space_sections.cross(room, edge, flat, 0, wall, cut, 0, False)
        a, b = exact(f) + exact(s), exact(s) - exact(g)
        return cut.points[0, 0], a / (a - b), cut.radii[0]

    assert largest_share(draw, 500) > 0.85


def test_signs_in_space_need_slack_and_radius() -> None:
    """A value at its own doubt is unclear; beyond it, it is clear."""
    for z, radius, slack, clear in (
        (1.0, 0.5, 0.5, False),
        (1.0, 0.25, 0.5, True),
        (1.0, 0.5, 0.25, True),
        (1.0, 0.5, math.nan, False),
        (math.nan, 0.0, 0.0, False),
        (1.0, 0.0, 1.0, False),
    ):
        path = SimpleNamespace(maps=np.array([[[0.0], [z]]]))
        store = SimpleNamespace(points=np.zeros((1, 1)), radii=np.array([radius]))
        room = SimpleNamespace(value=np.zeros((1, 1, 1)))
        flat, wall = _space_arrays.Flat(0, 0, 1), _space_arrays.Wall(0, 0, 0, slack, 1.0)
        kind = _space_forms.find_values(path, room, store, flat, 0, wall, False)
        assert (kind >= 0) == clear


def test_sides_and_corners_of_boxes_in_space() -> None:
    def side(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        row = tuple(int(x) | 1 for x in rng.integers(2**59, 2**60, 2))
        row = (row[0], row[1] >> 9)
        reach = near_one(rng, 1)
        forms, slack = _space_arrays._side_forms((row,), reach, 1)
        x = float(reach[0])
        return forms[0, 0] * x + forms[0, 1], (row[0] * exact(x) + row[1]) / row[0], slack[0]

    assert largest_share(side) > 0.3
    solid = box_solid(np.array([1.0, 1.0]), np.array([2.0, 3.0]), 0)
    body = to_floats_if_simple(solid)
    assert (body.radii == 0.0).all()  # type: ignore[union-attr]
    third_cut = solid.parts(9, (-3, 0, 4), solid.values((-3, 0, 4)))[1]
    cut = to_floats_if_simple(third_cut)
    for point, radius, corner in zip(cut.points, cut.radii, third_cut.corners, strict=True):  # type: ignore[union-attr]
        truth = [Fraction(n, corner[-1]) for n in corner[:-1]]
        off = max(abs(exact(x) - y) for x, y in zip(point, truth, strict=True))
        assert off <= exact(radius)
        assert bool(off) == bool(radius)
        assert not off or off > exact(radius) / 8


# ---- hulls and diagrams --------------------------------------------------------------------------


def test_minors_carry_their_errors() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        rows = near_one(rng, 2, 2) * [[2.0**-9, 1.0], [1.0, 1.0]]
        value, error = np.zeros(4), np.zeros(4)
        _kernels._minors(rows, np.zeros((2, 2)), value, error)
        (a, b), (c, d) = [[exact(x) for x in row] for row in rows]
        return value[3], a * d - b * c, error[3] * (1 + 2.0**-30)

    def blurred(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        rows, off = near_one(rng, 2, 2), np.full((2, 2), 2.0**-10)
        value, error = np.zeros(4), np.zeros(4)
        _kernels._minors(rows, off, value, error)
        s = Fraction(1, 2**10)
        (a, b), (c, d) = [[exact(x) for x in row] for row in rows]
        return value[3], (a + s) * (d + s) - (b - s) * (c - s), error[3] * (1 + 2.0**-30)

    assert largest_share(draw) > 0.7
    assert largest_share(blurred) > 0.9


def side_of(points, slack, normal, blur, corner: int, other: int) -> int:
    plane = _kernels.Plane(normal, blur, corner)
    return _kernels._side(_kernels.FloatPoints(points, slack), plane, other)


def test_sides_of_planes_are_never_wrong() -> None:
    """Points an ulp from a line: what is said is so, and most that is not said is too close."""
    rng, said = np.random.default_rng(2), 0
    for _ in range(1500):
        slope = signed(rng, 1)[0]
        x = near_one(rng, 3) * (1.0, 1.5, 1.25)
        points = np.stack([x, x * slope], axis=1)
        points[2, 1] += int(rng.integers(-6, 7)) * 2.0**-53
        cloud, work = _kernels.FloatPoints(points, np.zeros(2)), _kernels.new_work(2)
        _kernels._find_normal(cloud, np.array([0, 1]), work)
        side = side_of(points, np.zeros(2), work.normal, work.blur, 0, 2)
        (a, b), (c, d), (e, f) = [[exact(t) for t in row] for row in points]
        # the normal's determinant: (c - a, d - b) against (e - a, f - b)
        truth = (c - a) * (f - b) - (d - b) * (e - a)
        if side:
            said += 1
            assert (truth > 0) == (side > 0)
    assert 0 < said < 1500


def test_sides_count_what_underflows() -> None:
    """0.4 + 0.4 - 0.6 of the smallest number is positive; floats see 0 + 0 - 1."""
    normal, blur = np.array([0.4, 0.4, -0.6]), np.zeros(3)
    points = np.array([[0.0] * 3, [TINY] * 3])
    assert side_of(points, np.zeros(3), normal, blur, 0, 1) == _kernels.UNSURE
    far = np.array([[0.0] * 3, [1.0] * 3])
    assert side_of(far, np.zeros(3), normal, blur, 0, 1) == _kernels.OUTSIDE


def test_sides_see_slack_and_blur() -> None:
    points, normal = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([1.0, -0.5])
    side = side_of
    assert side(points, np.zeros(2), normal, np.zeros(2), 0, 1) == _kernels.OUTSIDE
    assert side(points, np.full(2, 0.2), normal, np.zeros(2), 0, 1) == _kernels.UNSURE
    assert side(points, np.zeros(2), normal, np.full(2, 0.25), 0, 1) == _kernels.UNSURE
    assert side(points, np.zeros(2), np.full(2, math.nan), np.zeros(2), 0, 1) == _kernels.UNSURE


def test_cones_behind_the_centre_are_clearly_so() -> None:
    behind = _kernels._is_behind
    points = np.array([[0.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1e-18, 0.0]])
    assert behind(points, np.array([2]), 0, 1)
    assert not behind(points, np.array([3]), 0, 1)
    assert not behind(points, np.array([2]), 0, 2)


def test_slack_of_points() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        x = exact(near_one(rng, 1)[0]) * (1 + Fraction(int(rng.integers(1, 2**20)), 2**73))
        points = Points.of([[x]])
        return points.floats[0, 0], x, points.slack[0]

    assert largest_share(draw, 500) > 0.9
    assert Points.of([[Fraction(1, 3**700)]]).slack[0] >= TINY


def test_frames_know_their_error() -> None:
    """After one pivot, what is left of a column that depends on the first is within the error."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        x = near_one(rng, 3, 2)
        x[0] = 0.0
        search = _Search(Points.of(x.tolist()))
        scale = abs(x).max(axis=0)
        row, column = search._largest([0, 1])
        search._clear(row, column)
        other, third_row = 1 - column, next(r for r in (1, 2) if r != row)
        left = search.left[third_row, other]
        a, b = exact(x[third_row, column]), exact(x[row, column])
        truth = (exact(x[third_row, other]) - a / b * exact(x[row, other])) / exact(scale[other])
        return left, truth, search.error

    assert largest_share(draw) > 0.06


def test_frames_of_points_that_overflow_are_exact() -> None:
    search = _Search(Points.of([[1.7e308, 0.0], [-1.7e308, 1.0], [0.0, 2.0]]))
    assert search.error == math.inf
    search.grow([0, 1])
    assert search.decided > 0
    assert sorted(search.columns) == [0, 1]


def test_scores_of_keys() -> None:
    """A difference of two scores is off by no more than `spare` says."""

    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        keys, levels = near_one(rng, 2, 1), near_one(rng, 2, 1) * 2.0**-9
        keys[1] *= -1.0
        query = near_one(rng, 1)[0]
        locator = Locator(
            Points.of(keys.tolist()), Points.of(levels.tolist()), np.arange(2), np.array([[0, 1]])
        )
        scores = [query * k + b for k, b in zip(keys[:, 0], levels[:, 0], strict=True)]
        truth = exact(query) * (exact(keys[0, 0]) - exact(keys[1, 0]))
        truth += exact(levels[0, 0]) - exact(levels[1, 0])
        return scores[0] - scores[1], truth, locator._spare * (1.0 + query)

    assert 0.13 < largest_share(draw, 1000) <= 1.0


def test_winners_an_ulp_apart_are_the_exact_ones() -> None:
    rng = np.random.default_rng(4)
    keys = near_one(rng, 6, 2)
    keys[3:] = keys[:3] + 2.0**-52
    diagram = hm.power_diagram(keys, near_one(rng, 6))
    for query in signed(rng, 60, 2) * 2.0**20:
        scores = [
            dot(query, key) + exact(b) for key, b in zip(keys, diagram_levels(diagram), strict=True)
        ]
        assert scores[int(diagram.locate([query])[0])] == max(scores)


def diagram_levels(diagram) -> list[float]:
    return [float(x) for x in diagram.biases]


def test_planes_of_incremental_hulls() -> None:
    """What is beyond a facet is so exactly, an ulp away as well."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        whole = np.array(
            [[0, 0], [2**60 + int(rng.integers(0, 9)), 1], [3, 2**60 + 7]], dtype=object
        )
        extra = [
            int(whole[1, 0] // 2 + rng.integers(-2, 3)),
            int(whole[2, 1] // 2 + rng.integers(-2, 3)),
        ]
        points = np.vstack([whole, np.array([extra], dtype=object)])
        facets = _Facets(points)
        facets.add([(0, 1), (1, 2), (0, 2)], np.append(whole.sum(axis=0), 3))
        found = facets.beyond(3)
        for f, (normal, offset) in enumerate(facets.planes):
            ahead = normal[0] * extra[0] + normal[1] * extra[1] - offset
            assert (f in found) == (ahead > 0)


# ---- sums of polytopes ---------------------------------------------------------------------------


def test_products_with_directions() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        v, x = near_one(rng, 2) * (1.0, 2.0**-9), near_one(rng, 2)
        total = 0.0
        for c in range(2):
            total += v[c] * x[c]
        return total, dot(v, x), _rays._doubt(v, np.zeros(2), x)

    def minor(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        a, b = near_one(rng, 2), signed(rng, 2) * (2.0**-9, 1.0)
        value, error = _wraps._minor(a, np.zeros(2), b, np.zeros(2), 0, 1)
        truth = exact(a[0]) * exact(b[1]) - exact(a[1]) * exact(b[0])
        return value, truth, error

    assert largest_share(draw) > 0.4
    assert largest_share(minor) > 0.7
    blurred = _rays._doubt(np.ones(2), np.array([0.25, 0.5]), np.array([1.0, 2.0]))
    assert blurred >= 1.25
    spread = _wraps._minor(np.ones(2), np.full(2, 0.25), np.ones(2), np.full(2, 0.5), 0, 1)[1]
    assert spread >= 2 * (0.25 + 0.5 + 0.125)


def test_what_is_left_of_a_plane_is_surely_so() -> None:
    is_left = _wraps._is_left
    one, none = np.array([1.0, 0.0, 0.0]), np.zeros(3)
    assert is_left(one, none, one, none)
    assert not is_left(one, none, one, np.array([1.0, 0.0, 0.0]))
    assert not is_left(one, np.array([1.0, 0.0, 0.0]), one, none)
    assert not is_left(one, none, np.full(3, math.nan), none)
    assert not is_left(np.array([FAINT / 2, 0.0, 0.0]), none, one, none)
    vector, normal = np.array([1.0, 1.0, 1.0]), np.array([1.0, UNIT, -1.0])
    assert not is_left(vector, none, normal, none)  # floats: 1 + u - 1 = 0 or 2 u


def test_directions_carry_the_rounding_of_their_ends() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        ends = np.array([[near_one(rng, 1)[0]], [-(2.0**-3) * near_one(rng, 1)[0]]])
        points = Points.of(ends.tolist())
        away, blurs, scales = _minkowski_graph._floats(points, [(0, 1)], (0,))
        factor = (
            exact(scales[0])
            * exact(away[0, 0])
            / exact(ends[1, 0] * scales[0] - ends[0, 0] * scales[0])
        )
        return away[0, 0], (exact(ends[1, 0]) - exact(ends[0, 0])) * factor, blurs[0, 0]

    assert largest_share(draw, 800) > 0.85


def test_maximisers_that_are_too_close_are_all_kept() -> None:
    scores, doubt = np.array([1.0, 1.0 - 2.0**-53, 0.5]), np.array([2.0**-54, 2.0**-54, 0.0])
    assert _minkowski_walk._close(scores, doubt).tolist() == [True, True, False]


# ---- conics --------------------------------------------------------------------------------------


def test_bernstein_coefficients() -> None:
    def draw(rng: np.random.Generator) -> tuple[float, Fraction, float]:
        table = np.zeros((1, 3, 3))
        table[0] = signed(rng, 3, 3) * 2.0 ** -rng.integers(0, 4, (3, 3))
        a, b = 0.5 * near_one(rng, 2)
        rows = _conic_boxes._powers(a, a)
        columns = _conic_boxes._powers(b, b)
        value, bound = _conic_boxes._bernstein(table, rows, columns)
        powers = lambda t: [Fraction(1), exact(t), exact(t) ** 2]  # noqa: E731
        truth = sum(
            exact(table[0, i, j]) * powers(a)[i] * powers(b)[j] for i in range(3) for j in range(3)
        )
        return value[0, 0], Fraction(truth), bound[0, 0]

    assert 0.05 < largest_share(draw, 800) <= 1.0
