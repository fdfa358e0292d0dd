"""Guards writ large: rounding as coarse as a unit of 1/64, so that no charge hides behind another.

A bound of the geometry is a sum of charges, each a few units of 2^-53; whether one of them is
missing can rarely be seen beside the others. Here the units of a module are replaced by large ones
(`LARGE`), kernels run as Python, and every bound is compared with what its docstring says, written
down once more by hand, for equality. That the bounds themselves are true is tested against exact
rationals in `test_guards_geometry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax import DomainError, RequestError, ShapeError, numerics
from hardmax.geometry.counting import _stack, _visits
from hardmax.geometry.counting._chain import chain_of
from hardmax.geometry.counting.conic import _boxes as _conic_boxes
from hardmax.geometry.counting.line import _batch as _line_batch
from hardmax.geometry.counting.line import _kernels as _line_kernels
from hardmax.geometry.counting.line import _segments as _line
from hardmax.geometry.counting.line._arrays import Changes, Lines, NewPoints, Stretch
from hardmax.geometry.counting.plane import _arrays as _plane_arrays
from hardmax.geometry.counting.plane import _cut_kernels as _plane_cuts
from hardmax.geometry.counting.plane import _sign_kernels as _plane_signs
from hardmax.geometry.counting.plane import _walk as _plane_walk
from hardmax.geometry.counting.space import _arrays as _space_arrays
from hardmax.geometry.counting.space import _facet_kernels as _space_facets
from hardmax.geometry.counting.space import _flat_kernels as _space_flats
from hardmax.geometry.counting.space import _form_kernels as _space_forms
from hardmax.geometry.counting.space import _piece as _space_piece
from hardmax.geometry.counting.space import _section_kernels as _space_sections
from hardmax.geometry.counting.space import _vertex_kernels as _space_vertices
from hardmax.geometry.counting.space import _walk as _space_walk
from hardmax.geometry.counting.space._exact import box_solid
from hardmax.geometry.counting.space._piece import SimpleBody
from hardmax.geometry.counting.switch import _clip_kernels as _switch_clips
from hardmax.geometry.counting.switch import _kernels as _switch_kernels
from hardmax.geometry.counting.switch import _piece as _switch_piece
from hardmax.geometry.counting.switch import _regions as _switch_regions
from hardmax.geometry.counting.switch import _rival_kernels as _switch_rivals
from hardmax.geometry.counting.switch import _rows as _switch_rows
from hardmax.geometry.counting.switch import _search as _switch_run
from hardmax.geometry.counting.switch._exact import ExactCell, homogeneous
from hardmax.geometry.diagrams import _boxed, _diagram, _locating, _locating_kernels
from hardmax.geometry.hulls import _facet_kernels as _kernels
from hardmax.geometry.hulls import _frame, _incremental, _points
from hardmax.geometry.polytopes import _arrays as _minkowski_arrays
from hardmax.geometry.polytopes import _graph as _minkowski_graph
from hardmax.geometry.polytopes import _ray_kernels as _rays
from hardmax.geometry.polytopes import _walk as _minkowski_walk
from hardmax.geometry.polytopes import _whole_kernels as _wholes
from hardmax.geometry.polytopes import _wrap_kernels as _wraps
from hardmax.geometry.temperature import (
    _arrays,
    _cloud,
    _curvature,
    _given,
    _lemmas,
    _report,
    _streams,
    _table,
    _walls,
)

U, TINY, FAINT, G = 2.0**-6, 2.0**-12, 2.0**-10, 1.5

Large = Callable[[ModuleType], Any]


def about(number: Any) -> Any:
    """Up to the rounding of the test itself."""
    return pytest.approx(number, rel=1e-12, abs=0.0)


def _grown(bound: Any, operations: int = 8) -> Any:
    return bound * (1.0 + operations / 16.0)


LARGE: dict[str, Any] = {
    "UNIT": U,
    "STEP": 2.0 * U,
    "TINY": TINY,
    "FAINT": FAINT,
    "GROWN": G,
    "inflate": _grown,
    "up": lambda x: x + 0.25,
    "down": lambda x: x - 0.25,
    "sum_up": lambda x, axis=None: 1.25 * np.asarray(x).sum(axis=axis),
    "product_up": lambda x, y: 1.25 * np.asarray(x) * y,
    "matmul_up": lambda A, x: 1.25 * (np.asarray(A) @ x),
    "gamma": lambda k: k * U,
    "stray": lambda k, size: k * U * np.asarray(size) + (k + 1) * TINY,
}


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> Large:
    """A module whose units are large, and whose kernels are Python."""

    def enlarged(module: ModuleType) -> Any:
        for name, value in list(vars(module).items()):
            if name in LARGE:
                monkeypatch.setattr(module, name, LARGE[name])
            elif hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
        return module

    return enlarged


def just_beyond(bound: float) -> tuple[tuple[float, bool], ...]:
    """Numbers on both sides of a bound, and whether they are decided."""
    return (bound * (1.0 - 2.0**-20), False), (bound * (1.0 + 2.0**-20), True)


# ---- sides of hyperplanes ------------------------------------------------------------------------


def test_minors(large: Large) -> None:
    """Every product rounds once, every sum from its second term on; one number does not."""
    k = large(_kernels)
    rows, off = np.array([[1.0, 2.0], [4.0, 16.0]]), np.array([[0.25, 0.5], [0.125, 1.0]])
    value, error = np.zeros(4), np.zeros(4)
    value[0] = 1.0
    k._minors(rows, off, value, error)
    assert value[[1, 2, 3]].tolist() == [1.0, 2.0, 8.0]
    assert error[1] == 0.25
    assert error[2] == 0.5
    products = (4 * 0.5 + 2 * 0.125 + 0.0625) + (16 * 0.25 + 1 * 1.0 + 0.25)
    assert error[3] == products + U * (8 + 16) + U * 8


def test_normals(large: Large) -> None:
    k = large(_kernels)
    cloud = k.FloatPoints(np.array([[1.0, 1.0], [3.0, 5.0]]), np.array([0.25, 0.5]))
    work = k.new_work(2)
    k._find_normal(cloud, np.array([0, 1]), work)
    assert np.abs(work.normal).tolist() == [4.0, 2.0]
    assert work.blur.tolist() == [4 * U + 1.0, 2 * U + 0.5]


@pytest.mark.parametrize("slack", [0.0, 0.25])
@pytest.mark.parametrize("blur", [0.0, 0.125])
def test_sides(large: Large, slack: float, blur: float) -> None:
    """A difference rounds once, a product and each sum as well; errors multiply."""
    k = large(_kernels)
    x, y, n = 8.0, 4.0, 2.0
    points, normal = np.array([[0.0, 0.0], [x, y]]), np.array([n, 0.0])
    ex, ey = U * x + 2 * slack, U * y + 2 * slack
    known = x * blur + n * ex + ex * blur + U * n * x + 2 * U * n * x
    for more, unclear in just_beyond(((n * x - FAINT) / G - known) / (y + ey)):
        cloud, plane = (
            k.FloatPoints(points, np.full(2, slack)),
            k.Plane(normal, np.array([blur, more]), 0),
        )
        side = k._side(cloud, plane, 1)
        assert side == (k.UNSURE if unclear else k.OUTSIDE)


def test_sides_underflow_and_grow(large: Large) -> None:
    k = large(_kernels)
    cloud = k.FloatPoints(np.array([[0.0], [1.0]]), np.zeros(1))
    for size, clear in just_beyond(FAINT / (1 - G * 3 * U)):
        side = k._side(cloud, k.Plane(np.array([size]), np.zeros(1), 0), 1)
        assert (side != k.UNSURE) == clear


def test_cones_behind(large: Large) -> None:
    k = large(_kernels)
    off = 80.0 * U * G
    for size, clear in just_beyond(off):
        points = np.array([[0.0], [1.0], [-size]])
        assert k._is_behind(points, np.array([2]), 0, 1) == clear


@pytest.mark.parametrize(("side", "own"), [(0, 1), (1, 0), (0, 0)])
def test_walls_that_are_unsure_leave_points_open(
    large: Large, monkeypatch: pytest.MonkeyPatch, side: int, own: int
) -> None:
    """A point at a wall is neither in the cone nor out of it."""
    k = large(_kernels)
    names = {0: k.UNSURE, 1: k.OUTSIDE}
    monkeypatch.setattr(k, "_wall_side", lambda *_: (names[side], names[own]))
    monkeypatch.setattr(k, "_side", lambda *_: k.INSIDE)
    monkeypatch.setattr(k, "lent", lambda given: given)
    cloud = k.FloatPoints(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.zeros(2))
    ones = np.ones((1, 2))
    facets = k.Facets(np.array([[1, 2]]), np.array([[0, 0]]), ones, ones)
    sides = k.cones_over(cloud, facets.simplices, 0, 1, k.new_work(2))
    assert sides.tolist() == [k.UNSURE]
    _, state = k.walk(cloud, facets, 0, np.array([1]), np.array([0]), k.new_work(2), 4)
    assert state.tolist() == [k.UNSURE]


def test_centres_on_a_facet_are_unsure(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_kernels)
    monkeypatch.setattr(k, "lent", lambda given: given)
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 0.0], [0.5, 9.0]])
    normals = np.empty((1, 2)), np.empty((1, 2))
    facets = k.Facets(np.array([[0, 1]]), np.array([[0, 0]]), *normals)
    for centre, sure in ((2, False), (3, True)):
        cloud = k.FloatPoints(points, np.zeros(2))
        assert k.orient(cloud, facets, centre, k.new_work(2)).tolist() == [sure]


# ---- sums of polytopes ---------------------------------------------------------------------------


def test_doubts_of_products(large: Large) -> None:
    k = large(_rays)
    vector, blur, x = np.array([1.0, -2.0]), np.array([0.5, 0.25]), np.array([4.0, -8.0])
    assert k._doubt(vector, blur, x) == (3 * U * (4 + 16) + (2.0 + 2.0)) * G + FAINT


def test_doubts_of_minors(large: Large) -> None:
    k = large(_wraps)
    a, ea = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    b, eb = np.array([4.0, 8.0]), np.array([0.125, 1.0])
    value, error = k._minor(a, ea, b, eb, 0, 1)
    off = 1 * 1.0 + 0.5 * (8 + 1.0) + 2 * 0.125 + 0.25 * (4 + 0.125)
    assert (value, error) == (16.0, (2 * U * (8 + 8) + off) * G + FAINT)


def test_left_of_planes(large: Large) -> None:
    k = large(_wraps)
    vector, spread = np.array([1.0, 0.0, 0.0]), np.array([0.125, 0.0, 0.25])
    normal, blur = np.array([2.0, 0.0, 0.0]), np.array([0.0, 0.0, 0.5])
    known = 4 * U * 2 + 0.125 * 2 + 0.25 * 0.5
    for off, unclear in just_beyond(((2.0 - FAINT) / G - known) / (1 + 0.125)):
        blur[0] = off
        assert k._is_left(vector, spread, normal, blur) != unclear


def test_wraps_of_directions_that_may_be_one(large: Large) -> None:
    """The turn from one end to another must be beyond the doubt of the minor."""
    k = large(_wraps)
    for turn, clear in just_beyond(FAINT / (1 - 2 * U * G)):
        cone = _minkowski_arrays.new_cone(2, 2)
        cone.vectors[:] = [[1.0, 0.0], [0.0, turn]]
        assert k._wrap_plane(cone, 2, 0) == clear


@pytest.mark.parametrize("left", [0.0, 2.0**-5])
@pytest.mark.parametrize("blur", [0.0, 2.0**-6])
def test_weights_that_are_positive_beyond_doubt(large: Large, left: float, blur: float) -> None:
    """Twice one vector is the other: the weight 2, against its residual and that of the inverse."""
    k = large(_rays)
    weight, inverse = 2.0, 0.5 * (1.0 + left)
    row = left + 3 * U * (2.0 + left) + inverse * blur
    known = left + 3 * U * (8.0 + left) + blur * weight
    most = (weight - FAINT) / G * (1.0 - row) / inverse - known
    for more, unclear in just_beyond(most):
        cone, scratch = _minkowski_arrays.new_cone(2, 1), _minkowski_arrays.new_scratch(2, 1, 2)
        cone.vectors[:], cone.blurs[:] = [[2.0], [4.0 + left]], [[blur], [more]]
        scratch.tableau[0, :3], scratch.signs[:] = [0.0, inverse, weight], 1.0
        assert k._is_inner(cone, 1, 1, scratch) != unclear


def test_what_is_unknown_is_settled(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_wholes)
    monkeypatch.setattr(k, "in_cone", lambda *_: True)
    for status in (k.OPEN, k.UNKNOWN, k.EXTREME, k.INNER):
        cone = _minkowski_arrays.new_cone(1, 1)
        cone.status[0] = status
        k.settle(cone, 1, _minkowski_arrays.new_scratch(1, 1, 1))
        assert cone.status[0] == (k.EXTREME if status == k.EXTREME else k.INNER)


# ---- switches ------------------------------------------------------------------------------------


def test_composed_forms(large: Large) -> None:
    k = large(_switch_rivals)
    a, b, e, weight, level, reach = 2.0, 0.5, 0.25, 4.0, 1.0, 8.0
    room = SimpleNamespace(made=np.empty((1, 3)), bulk=np.empty(1), slope=np.empty(1))
    rows = SimpleNamespace(
        weights=np.array([[weight]]), sizes=np.array([[weight]]), levels=np.array([level])
    )
    k.compose(rows, np.array([[a, b, e]]), np.array([reach]), room)
    total = b + a * reach
    lost = TINY * (total + e + 5 * (1 + reach))
    error = (weight * (e + 4 * U * total) + 4 * U * level) * G + lost
    assert room.made[0].tolist() == [8.0, 3.0, about(error)]
    assert room.bulk[0] == about((error + 4 * U * (3.0 + 8.0 * reach)) * G + 5 * TINY)
    assert room.slope[0] == 8.0 * G


def test_pieces_that_are_beaten(large: Large) -> None:
    k = large(_switch_rivals)
    tables = SimpleNamespace(score=np.arange(2))
    rivals = SimpleNamespace(
        pool=np.arange(2), bulk=np.array([0.5, 0.25]), slope=np.array([2.0, 4.0])
    )
    for gap, clear in just_beyond(0.75 + 0.125 * 6.0):
        rivals.values = np.array([[0.0], [gap]])
        assert k.beats(tables, rivals, np.array([0.125]), 1, 0, False) == clear


def test_sides_of_vertices(large: Large) -> None:
    k = large(_switch_clips)
    cell = SimpleNamespace(points=np.zeros((1, 1)), stray=np.array([0.125]))
    cut = SimpleNamespace(value=np.zeros(1), slack=np.zeros(1), side=np.zeros(1, int))
    for sign in (1.0, -1.0):
        for value, clear in just_beyond(0.5 + 0.125 * 4.0):
            cut.form = np.array([0.0, sign * value])
            code = k.find_sides(cell, cut, 0.5, 4.0, False)
            assert (code != k.CLOSE) == clear


@pytest.mark.parametrize("slacks", [(0.0, 0.0), (0.25, 0.0), (0.0, 0.5), (0.25, 0.5)])
@pytest.mark.parametrize("strays", [(0.0, 0.0), (0.25, 0.0), (0.0, 0.125)])
def test_crossings(large: Large, slacks: tuple[float, float], strays: tuple[float, float]) -> None:
    k = large(_switch_clips)
    cell = SimpleNamespace(points=np.array([[1.0], [-3.0]]), stray=np.array(strays))
    cut = SimpleNamespace(value=np.array([2.0, -6.0]), slack=np.array(slacks))
    given = (cell, cut, 0, 1, np.empty(1))
    left = 8.0 - sum(slacks) - 4 * U * 8
    moved = (0.75 * slacks[0] + 0.25 * slacks[1] + 2 * TINY) / left + 3 * U
    radius = (max(strays) + (4.0 + sum(strays)) * moved + 4 * U * 4.0) * G + 2 * TINY
    assert k.cross(*given, False) == about(radius)
    assert k.cross(*given, True) == max(strays) + 8 * U * 4.0


def test_states(large: Large) -> None:
    k = large(_switch_kernels)
    made, forms = np.array([[1.0, 2.0, 0.5], [4.0, 8.0, 0.25]]), np.empty((1, 3))
    tables = SimpleNamespace(payload=np.array([[1]]), target=np.array([[0]]), base=np.array([0]))
    rivals = SimpleNamespace(made=made, winners=np.array([0]))
    k.write_state(tables, rivals, np.array([16.0]), forms)
    assert forms[0].tolist() == [5.0, 10.0, 0.5 + 0.25 + 2 * U * (5 * 16 + 10) + TINY]


# ---- lines ---------------------------------------------------------------------------------------


def test_shares_of_roots(large: Large) -> None:
    k = large(_line_kernels)
    assert k._share_of_root(3.0, -5.0, 0.5, 1.5) == (0.375, (1.5 / 6.0 + 3 * U) * G, 0)


def test_values_without_a_sign(large: Large) -> None:
    k = large(_line_kernels)
    for z, clear in just_beyond(0.25 * 8.0 * G):
        assert k._count_doubtful(np.array([-z]), np.array([8.0]), 0.25) == (not clear)
        winner = k._winner(np.array([z, 0.0]), np.array([0, 1]), 0.25, np.array([6.0, 2.0]))
        assert winner == (0, not clear)


def test_who_overtakes(large: Large) -> None:
    k = large(_line_kernels)
    scale, group = np.array([3.0, 5.0, 3.0]), np.array([0, 1])
    e0, e1 = 2.0**-6, 2.0**-5

    def asked(d0: float, d1: float) -> tuple:
        low, high = np.array([0.0, d0, d0]), np.array([0.0, d1, d1])
        return k._next_winner(Stretch(low, high, e0, e1, scale), group, 0, 0.0)

    best, share, width, doubt = asked(-2.0, 6.0)
    assert (best, share, doubt) == (1, 0.25, 0)
    assert width == about((e1 * 8 / (8 - (e0 + e1) * 8) + 3 * U) * G)
    for d1, clear in just_beyond(e1 * 8 * G):
        assert asked(-2.0, -d1)[0] == (-1 if clear else 1)  # below at the end, beyond doubt or not
        assert asked(-2.0, d1)[3] == (not clear)
    for d0, clear in just_beyond(e0 * 8 * G):
        assert asked(d0, d0)[3] == (not clear)  # it was above, and does not rise
    group = np.array([0, 1, 2])
    assert asked(-2.0, 6.0)[3] == 1  # two at once


def test_doubts_of_lines_are_counted(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of points, of roots, of winners, and of what overtakes."""
    k = large(_line_kernels)
    rows, bounds, scale = np.array([[1.0], [-1.0]]), np.array([0, 2]), np.ones(1)
    assert k.sign_changes(rows, np.zeros(2), bounds, scale).doubts.tolist() == [0]
    assert k.sign_changes(rows, np.array([0.0, 0.5]), bounds, scale).doubts.tolist() == [1]
    assert k.sign_changes(rows, np.full(2, 2.0), bounds, scale).doubts.tolist() == [2 + 2 + 1]
    monkeypatch.setattr(k, "UNIT", 2.0**-12)
    rows, groups, scale = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([[0, 1]]), np.ones(2)
    assert k.winner_changes(rows, np.zeros(2), bounds, scale, groups).doubts.tolist() == [0]
    rows = np.array([[1.0, 0.0], [0.0, 2.0**-9]])  # who wins at the end is in doubt
    assert k.winner_changes(rows, np.full(2, 2.0**-10), bounds, scale, groups).doubts[0] > 1
    # 2 u G of the scales, and u more than that for the difference
    for lead, clear in just_beyond((2.0**-12 + 2.0**-11) * 2 * G):
        rows = np.array([[1.0, 0.0], [lead, 0.0]])
        found = k.winner_changes(rows, np.full(2, 2.0**-11), bounds, scale, groups)
        assert found[4].tolist() == [not clear]


def test_overtakings_that_do_not_end(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody overtakes, or somebody other than the winner at the end: a doubt each."""
    k = large(_line_kernels)
    row, after, group = np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]), np.array([0, 1])
    found = NewPoints(np.empty(4), np.empty(4), np.empty(4, int))
    given = (Stretch(row, after, 0.0, 0.0, np.ones(3)), group, 0, found, 0, 0)
    assert k._append_overtakings(*given) == (1, 0)
    monkeypatch.setattr(k, "_next_winner", lambda *_: (-1, 2.0, 0.0, 3))
    assert k._append_overtakings(*given) == (0, 3 + 1)
    monkeypatch.setattr(k, "_next_winner", lambda *_: (2, 0.5, 0.0, 3))
    assert k._append_overtakings(*given) == (1, 3 + 1)
    monkeypatch.setattr(k, "_append_overtakings", lambda *_: (0, 5))
    rows = np.array([[1.0, 0.0], [0.0, 1.0]])
    monkeypatch.setattr(k, "UNIT", 2.0**-12)
    found = k.winner_changes(rows, np.zeros(2), np.array([0, 2]), np.ones(2), np.array([[0, 1]]))
    assert found[4].tolist() == [5]


def test_new_points(large: Large) -> None:
    k = large(_line_kernels)
    lines = Lines(
        np.array([0.0, 2.0]), np.array([0.25, 0.5]), np.zeros((2, 2), np.int32), np.array([0, 2])
    )
    unit, first = np.zeros(1, np.int32), np.array([0, 1, 1])
    changes = Changes(np.array([0.5]), np.array([0.125]), unit, first, np.zeros(1, int))
    fine, _ = k.refine_lines(lines, changes, 0)
    assert fine.error[1] == (0.5 + 0.125 * (2.0 + 0.25 + 0.5 + U) + 6 * U) * G


# ---- space ---------------------------------------------------------------------------------------


def test_inverses(large: Large) -> None:
    k = large(_space_vertices)
    R, A = np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[1.0, 0.0], [0.25, 0.5]])
    first = (0.125 + 3 * U * (1 + 1 + 0.125)) + (0.25 + 3 * U * (1 + 0.25))
    second = (0.5 + 3 * U * (1 + 0.5)) + (0.0 + 3 * U * (1 + 1))
    assert k._excess(R, A) == max(first, second) * G


def test_vertices_found_again(large: Large) -> None:
    """The residual after one step, and twice the slack of the wall, over what the inverse keeps."""
    k = large(_space_vertices)
    net = SimpleNamespace(
        fine=0.0, firsts=np.array([0]), sides=np.array([[2.0, -3.0]]), reach=np.array([9.0]),
        slack=np.array([0.25]),
    )  # fmt: skip
    store = SimpleNamespace(radii=np.array([8.0]), labels=np.array([[0]]), points=np.array([[1.0]]))
    room = SimpleNamespace(square=np.zeros((3, 1, 2)), rest=np.zeros(1))
    assert k.find_again(net, None, room, store, 0)
    assert store.points[0, 0] == 1.5
    excess = (2 * U * 2) * G
    assert store.radii[0] == about(0.5 * 2 * 0.25 / (1 - excess) * G + 2 * TINY)


def test_signs_at_vertices(large: Large) -> None:
    k = large(_space_forms)
    net = SimpleNamespace(
        widths=[1], firsts=[0], slack=np.array([0.5]), alive=np.ones((1, 1)), fast=False
    )
    for z, clear in just_beyond((0.5 + 4.0 * 0.25) * G):
        path = SimpleNamespace(maps=np.array([[[0.0], [z]]]), steep=np.array([[4.0]]))
        store = SimpleNamespace(points=np.zeros((1, 1)), radii=np.array([0.25]))
        room = SimpleNamespace(value=np.zeros((1, 1, 1)), row=np.empty((4, 1)))
        wall = k.wall_of(net, path, 0, 0)
        assert (k.find_values(path, room, store, k.Flat(0, 0, 1), 0, wall, False) >= 0) == clear
        for sign in (1.0, -1.0):
            path.maps = np.array([[[0.0], [sign * z]]])
            pile = SimpleNamespace(
                nodes=np.array([[0, 0, 1]]), left=np.zeros((1, 2), int), on=np.zeros((1, 2), bool)
            )
            count = k.classify(net, path, room, pile, store, 0)
            assert count == (0 if clear else -2)
            assert pile.on[0, 0] == (clear and sign > 0)


def test_gradients(large: Large) -> None:
    k = large(_space_forms)
    path = SimpleNamespace(maps=np.array([[[1.0], [-2.0], [9.0]]]), steep=np.zeros((1, 1)))
    k.enter_layer(SimpleNamespace(widths=np.array([1]), across=None), path, 0)
    assert path.steep[0, 0] == 3.0 * G


def test_sections(large: Large) -> None:
    large(_space_forms)
    k = large(_space_sections)
    points, labels, links = np.array([[1.0], [-3.0]]), np.array([[0], [1]]), np.array([[1], [0]])
    room = SimpleNamespace(
        made=np.zeros((2, 1), int), origin=np.zeros((2, 3), int), value=np.array([[[2.0, -6.0]]])
    )
    for radii in ((0.25, 0.5), (0.5, 0.25), (0.0, 0.0)):
        edge, cut = k.Store(points, np.array(radii), labels, links), _space_arrays.new_store(2, 1)
        k.cross(room, edge, k.Flat(0, 0, 2), 0, k.Wall(0, 0, 7, 0.125, 2.0), cut, 0, False)
        alpha, beta = ((0.125 + 2.0 * r) * G for r in radii)
        off = max(alpha, beta) / (8 - abs(alpha - beta))
        bound = (max(radii) + 4.0 * off + 16 * U * 3.0) * G + TINY
        assert cut.radii[0] == about(bound)


@pytest.mark.parametrize("radii", [(0.25, 0.5), (0.5, 0.25)])
def test_points_of_a_segment_that_are_apart(large: Large, radii: tuple[float, float]) -> None:
    large(_space_forms)
    large(_space_sections)
    k = large(_space_flats)
    slack, steep = np.array([0.125, 0.25]), np.array([[2.0, 1.0]])
    values = ((8.0, -56.0), (30.0, -34.0))
    offs = []
    for (a, b), s, p in zip(values, slack, steep[0], strict=True):
        alpha, beta = ((s + p * r) * G for r in radii)
        offs.append(max(alpha, beta) / (a - b - abs(alpha - beta)) * G + 4 * U)
    net, path = SimpleNamespace(firsts=[0], slack=slack), SimpleNamespace(steep=steep)
    room = SimpleNamespace(
        value=np.array([values]), open=np.array([[0, 1]]), t=np.empty(2), off=np.empty(2)
    )
    given = (net, path, room, SimpleNamespace(radii=np.array(radii)), k.Flat(0, 0, 2), 0, 2)
    k._are_apart(*given)
    assert room.off.tolist() == about(offs)
    assert room.t.tolist() == [0.125, 30 / 64]
    for gap, clear in just_beyond(sum(offs) * G):
        # the second wall moved so that the points are that far apart
        a = 64.0 * (0.125 + gap)
        room.value = np.array([[(8.0, -56.0), (a, a - 64.0)]])
        assert k._are_apart(*given) == clear


def test_effects_on_the_output_are_beyond_their_blur(large: Large) -> None:
    k = large(_space_facets)
    for effect, clear in just_beyond(0.25):
        net = SimpleNamespace(
            widths=np.array([1, 1]), across=np.array([[[0.0]], [[effect]]]), fast=False,
            blur=np.array([0.25]), firsts=np.array([0]),
        )  # fmt: skip
        room = SimpleNamespace(sense=np.ones((1, 2, 1)))
        assert k._is_audible(net, room, 0, 0) == clear


# ---- keys ----------------------------------------------------------------------------------------


def test_winners_lead_by_more_than_rounding(large: Large) -> None:
    k = large(_locating_kernels)
    for lead, clear in just_beyond(0.25 * (1 + 4.0) * G + 2 * 3 * TINY):
        keys, levels = np.zeros((2, 1)), np.array([lead, 0.0])
        cells = k.Cells(keys, levels, np.array([0, 1, 2]), np.array([1, 0]), np.array([0]))
        _, sure = k.climb(cells, np.array([[4.0]]), 0.25)
        assert sure[0] == clear


def test_scores_that_may_be_the_largest(large: Large) -> None:
    k = large(_locating)
    for lead, clear in just_beyond(0.25 * (1 + 4.0) * G + 2 * 3 * TINY):
        asked = SimpleNamespace(
            floats=np.array([[4.0]]), rationals=lambda: np.array([[4]], dtype=object)
        )
        seen: list[int] = []

        def first(query: Any, candidates: np.ndarray, seen: list[int] = seen) -> int:
            seen.append(len(candidates))
            return 0

        locator = SimpleNamespace(
            keys=SimpleNamespace(floats=np.zeros((2, 1))), _spare=0.25, _first=first,
            levels=SimpleNamespace(floats=np.array([[lead], [0.0]])),
        )  # fmt: skip
        k.Locator._winners_exactly(locator, asked)
        assert seen == [1 if clear else 2]


def test_what_scores_spare(large: Large) -> None:
    k = large(_locating)
    points = SimpleNamespace(floats=np.array([[4.0, -8.0]]), dimension=2)
    locator = SimpleNamespace(keys=points, levels=SimpleNamespace(floats=np.array([[2.0]])))
    spare = k.Locator.__dict__["_spare"].func(locator)
    assert spare == 1.25 * (2 * 6 * U) * 8 + 2 * TINY


def test_directions(large: Large) -> None:
    k = large(_minkowski_graph)
    points = SimpleNamespace(floats=np.array([[0.5], [-0.25]]), slack=np.array([0.125]))
    away, blurs, scales = k._floats(points, [(0, 1)], (0,))
    scale, factor = scales[0], away[0, 0] / (-0.75 * scales[0])
    assert blurs[0, 0] == about(((U * 0.75 + 0.25) * 1.5 * scale + FAINT) * factor)


# ---- stacks of layers ----------------------------------------------------------------------------


def rounded(terms: int, size: Any) -> Any:
    return terms * U * size + (terms + 1) * TINY


def found_by(holder: type, name: str, **given: Any) -> Any:
    """A cached property of something that holds just what it reads."""
    return holder.__dict__[name].func(SimpleNamespace(**given))


def test_sizes_of_stacks(large: Large) -> None:
    k = large(_stack)
    W, b, reach = np.array([[2.0, -4.0]]), np.array([-8.0]), np.array([1.0, 0.5])
    found = found_by(k.Stack, "sizes", weights=[W, [[3.0]]], biases=[b, [1.0]], reach=reach)
    first = (1.25 * 4.0 + 8.0) * 1.5
    assert found[0] == [first]
    assert found[1] == [(1.25 * 3.0 * first + 1.0) * 1.5]


def test_slacks_of_stacks(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_stack)
    given = {"weights": [np.array([[2.0, 4.0]])] * 2, "biases": [np.array([1.0])] * 2}
    given |= {"reach": np.array([1.0, 3.0]), "first_slack": np.array([0.25]), "dimension": 2}
    asked: list[tuple] = []

    def composed(*given: Any) -> np.ndarray:
        asked.append(given)
        return np.array([64.0])

    monkeypatch.setattr(k, "_composed_error", composed)
    found = found_by(k.Stack, "slacks", sizes=[np.array([8.0]), np.array([16.0])], **given)
    reach = (1.25 * 4.0 + 1.0) * 1.5
    error = (1.25 * 0.25 * reach + TINY * reach * 1.5) * 1.5
    assert found[0] == (error + rounded(3, (8.0 + error) * 1.5)) * 1.5
    assert asked[0][2:] == ([8.0], [error], reach)
    assert found[1] == (64.0 + rounded(3, (16.0 + 64.0) * 1.5)) * 1.5


def test_errors_of_composed_forms(large: Large) -> None:
    k = large(_stack)
    W, b = np.array([[2.0, -4.0], [0.0, 0.0]]), np.array([-1.0, 1.0])
    size, error = np.array([8.0, 16.0]), np.array([0.5, 0.25])
    terms = (size + error) * 1.5
    magnitude = (1.25 * (2 * terms[0] + 4 * terms[1]) + 1.0) * 1.5
    lost = TINY * (1.25 * terms.sum() + 3 * 32.0) * 1.5
    found = k._composed_error(W, b, size, error, 32.0)
    assert found[0] == about((1.25 * 2.0 + rounded(3, magnitude) + lost) * 1.5)
    assert found[1] == about(rounded(3, 1.5) * 1.5)  # without weights nothing is lost


def test_what_sensitivities_lose(large: Large) -> None:
    k = large(_stack)
    hidden, size, wrong = [np.array([[w]]) for w in (3.0, -4.0, 2.0)], 8.0, 0.5
    found = k.what_sensitivities_lose(hidden, np.array([size]), np.array([wrong]))
    for place, w in ((1, 2.0), (0, 4.0)):
        terms = (size + wrong) * 1.5
        lost = TINY * 1.25 * terms * 1.5
        wrong = (1.25 * w * wrong + rounded(1, 1.25 * w * terms) + lost) * 1.5
        size = 1.25 * w * size
        assert found[place] == about(wrong)
    lost = k.lost_by_subnormals(np.array([[1.0, 0.0]]), np.array([3.0]))
    assert lost.tolist() == [TINY * 1.25 * 3.0 * 1.5, 0.0]


def test_exact_rows_are_rounded_with_a_slack_that_covers() -> None:
    """1/3 is off by 1/3 of a unit, which is no float: it is rounded up."""
    rows, levels = [[Fraction(1, 3)]], [Fraction(0)]
    (W, _, shift), slack, _ = _stack._round_rows(rows, levels, np.array([1.0]))
    off = abs(Fraction(W[0, 0]) * Fraction(2) ** int(shift[0]) - Fraction(1, 3))
    assert Fraction(slack[0]) * Fraction(2) ** int(shift[0]) >= off
    assert float(off) < off


def test_outputs_combined(large: Large) -> None:
    large(_stack)
    k = large(_plane_arrays)
    factors = np.random.default_rng(k._NAMES).uniform(0.5, 1.0, size=2)
    _, wrong = k._combine_outputs(np.array([[2.0], [-4.0]]))
    size = 1.25 * (2 * factors[0] + 4 * factors[1])
    lost = TINY * 1.25 * factors.sum() * 1.5
    assert wrong[0] == about((rounded(2, size) + lost) * 1.5)


# ---- domains -------------------------------------------------------------------------------------


def test_sides_and_corners(large: Large) -> None:
    k = large(_plane_walk)
    a, b, c, slack = k._float_line((2, -4, 8), (3.0, 5.0))
    assert (a, b, c) == (0.5, -1.0, 2.0)
    lost = TINY * 8.0 * 1.5
    assert slack == about((rounded(4, (1.5 + 5.0 + 2.0) * 1.5) + lost) * 1.5)
    assert k._float_corner((1, -3, 2), fast=False) == (0.5, -1.5, (U * 1.5 + TINY) * 1.5)


def test_sides_of_boxes(large: Large) -> None:
    k = large(_space_arrays)
    forms, slack = k._side_forms(((2, -4, 8),), np.array([3.0, 5.0]), 2)
    assert forms.tolist() == [[0.5, -1.0, 2.0]]
    size = (1.25 * 6.5 + 2.0) * 1.5
    lost = TINY * 1.25 * 8.0 * 1.5
    assert slack[0] == about((rounded(4, size) + lost) * 1.5)


def test_corners_of_solids(large: Large) -> None:
    k = large(_space_piece)
    solid = box_solid(np.array([1.0, 1.0]), np.array([2.0, 3.0]), 0)
    cut = solid.parts(9, (-3, 0, 4), solid.values((-3, 0, 4)))[1]
    body = k.to_floats_if_simple(cut)
    for point, radius in zip(body.points, body.radii, strict=True):
        whole = all(x == int(x) for x in point)
        assert radius == (0.0 if whole else (U * max(abs(point)) + TINY) * 1.5)


@pytest.mark.parametrize(("low", "high"), [(-math.inf, 1.0), (0.0, math.inf), (math.nan, 1.0)])
def test_boxes_in_space_are_finite(low: float, high: float) -> None:
    stack = SimpleNamespace(dimension=1, reach=np.array([math.inf]), hidden=())
    with pytest.raises(DomainError, match="finite ends"):
        _space_piece.start_piece(stack, [low], [high])  # type: ignore[arg-type]


def test_cells_as_floats(large: Large) -> None:
    k = large(_switch_piece)
    cell = ExactCell((homogeneous([Fraction(1, 2)]), (0, 1)), (1, 2), ((-1, 0, 0, 0),) * 2)
    _, points, stray, *_ = k.packed_cells([cell], [()])
    assert points.tolist() == [[0.5], [0.0]]
    assert stray.tolist() == [(U * 0.5 + TINY) * 1.5, TINY * 1.5]


def test_states_as_floats(large: Large) -> None:
    k = large(_switch_run)
    row = (_switch_rows.rational(2), _switch_rows.rational(-4))
    (near,) = k.float_forms((row,), np.array([3.0]))
    assert near[:2].tolist() == [2.0, -4.0]
    assert near[2] == (U * 1.25 * (6.0 + 4.0) + TINY * 1.25 * 4.0 * 1.5) * 1.5


# ---- the plane and space -------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_neurons_that_have_one_sign(large: Large, sign: float) -> None:
    """At one corner: the slack, and the radius times the gradient."""
    k = large(_plane_signs)
    for value, clear in just_beyond(0.25 + (2.0 + 4.0) * 0.125):
        net = SimpleNamespace(slack=np.array([[0.25]]))
        walk = SimpleNamespace(
            maps=np.array([[[2.0], [-4.0], [sign * value]]]), poly=np.zeros((1, 7, 1)),
            low=np.empty(1), high=np.empty(1), open=np.zeros((1, 2), int), on=np.zeros(2, int),
            pattern=np.zeros((1, 1), np.uint8), signs=np.zeros((1, 1), int),
        )  # fmt: skip
        walk.poly[0, k.R, 0] = 0.125
        node = k.WalkNode(place=0, layer=0, sides=1, first=0, width=1, next_width=0, last=0)
        assert k.decide_all(net, walk, node) == (not clear, clear and sign > 0)
        walk.open[:] = 0
        assert k.decide_open(net, walk, node, 1) == (not clear, clear and sign > 0)
        walk.open[:] = 0
        assert k.find_signs(net, walk, node, 1) == (not clear)
        assert walk.signs[0, 0] == (sign if clear else k.UNSURE)


def test_where_lines_meet(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_plane_cuts)
    monkeypatch.setattr(k, "_LOST", 0.25)
    poly = np.zeros((1, 7, 2))
    poly[0, :, 0] = (0.0, 0.0, 0.0, 1.0, 4.0, -1.0, 0.5)
    line = k.WallLine(4.0, 1.0, -4.0, 0.125, 0)
    x, y, radius = k._meeting(poly, 0, 0, 1, line, np.full(2, 9.0), False)
    assert (x, y) == (1.0, 0.0)
    size = 15.0 - 4 * U * 17.0
    off = max(1.0 * 0.5 + 4.0 * 0.125, 4.0 * 0.5 + 1.0 * 0.125) / size
    assert radius == about(off * G + 0.25)


def test_neurons_that_are_clear_twice_over(large: Large) -> None:
    k = large(_space_walk)
    for value, clear in just_beyond(2 * (0.25 + (2.0 + 4.0) * 0.125)):
        maps = np.array([[[2.0], [-4.0], [value]]])
        body = SimpleBody(np.zeros((1, 2)), np.array([0.125]), np.zeros((1, 2)), np.zeros((1, 2)))
        piece = SimpleNamespace(shape=body, layer=0, left=np.array([0]))
        walk = SimpleNamespace(
            path=SimpleNamespace(maps=maps),
            net=SimpleNamespace(slack=np.array([0.25]), firsts=np.array([0])),
        )
        chosen, rest = k.SpaceWalk._unclear(walk, piece)
        assert (len(chosen), len(rest)) == (1, 0)  # if all are clear, all are looked at
        piece.left = np.array([0, 0])
        walk.path.maps = np.array([[[2.0, 0.0], [-4.0, 0.0], [value, 0.0]]])
        walk.net.slack = np.array([0.25, 0.25])
        piece.left = np.array([0, 1])
        assert k.SpaceWalk._unclear(walk, piece)[1].tolist() == ([0] if clear else [])


# ---- numbers of cells ----------------------------------------------------------------------------


def test_numbers_of_cells(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_switch_regions)
    rows, mix, d = np.array([[2.0, -4.0, 1.0], [8.0, 0.0, -2.0]]), np.array([0.5, 1.0]), 3
    size, error = np.array([[8.0, 16.0]]), np.array([[0.5, 0.25]])
    heavy = 1.25 * np.array([9.0, 2.0, 2.5])
    terms = (size + error) * 1.5
    magnitude = (1.25 * (terms @ heavy[:2]) + heavy[2]) * 1.5
    small = 2 * 2 * 1.25 * terms.sum() + (d + 1) * 1.25 * heavy.sum() + 2 + 2
    carried = 1.25 * (error @ heavy[:2])
    bound = (carried + rounded(2 + 2 + d + 3, magnitude) + TINY * small * 1.5) * 1.5
    assert k._off(rows, mix, size, error, d) == about(bound)
    seen = []
    monkeypatch.setattr(k, "_off", lambda rows, mix, size, error, d: seen.append(size) or [0.0])
    one = _switch_rows.rational(1)
    program = SimpleNamespace(readout=lambda context: [(one, one)])
    forms = np.array([[[2.0, -4.0, 0.5]]])
    piece = SimpleNamespace(reach=np.array([3.0]))
    k._keys(program, SimpleNamespace(context=0, forms=forms, piece=piece))
    assert seen[0].tolist() == [[(1.25 * 6.0 + 4.0) * 1.5]]
    for gap, clear in just_beyond(0.5 + 0.125 + 0.5):
        for start in (-8.0, 8.0):
            keys = np.array([[start, 0.5], [start + gap, 0.125]])
            assert k.twins(keys).tolist() == [not clear] * 2


# ---- lines ---------------------------------------------------------------------------------------


def test_scales_and_errors_of_lines(large: Large) -> None:
    kernels, k = large(_line_kernels), large(_line_batch)
    chain = chain_of(hm.ReluNetwork([[[2.0, -4.0]], [[1.0]]], [[-8.0], [0.0]]))
    assert k._scales(chain, np.array([1.0, 0.5]))[0][0] == (1.25 * 2 * 4.0 + 8.0) * 1.5
    ends = np.array([[0.0, 0.0]]), np.array([[1.0, 0.0]])
    found = k._explore_block(chain, [np.array([100.0])], *ends, False)
    assert found.error[[0, -1]] == about(U + 3 * U * (1.0 + kernels.WIDE) + U)


def test_scales_that_are_moderate() -> None:
    """u times a scale is at least what stands for all underflow."""
    least = numerics.FAINT / numerics.UNIT
    assert _line_batch._is_moderate(np.array([least]))
    assert not _line_batch._is_moderate(np.array([least * 0.75]))


def test_bends_that_are_heard(large: Large) -> None:
    k = large(_line_batch)
    chain = chain_of(hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]]))
    for bend, clear in just_beyond(2.0 * U):
        kinks = np.array([[[bend]], [[1.0]]])
        unheard = k._count_silent(chain, kinks, np.array([[0, 0]]), np.array([0, 1]))
        assert [one.tolist() for one in unheard] == [[not clear], [not clear]]


def test_breakpoints_that_were_redone(large: Large) -> None:
    """A float next to a Fraction is off by a unit of it."""
    k = large(_line)
    found = SimpleNamespace(
        origin=np.array([[-1, -1], [-1, -1]]), bounds=np.array([0, 2]), points=np.array([0.0, 1.0]),
        error=np.zeros(2),
    )  # fmt: skip
    line = SimpleNamespace(breakpoints=(Fraction(1, 2),), origin=((0, 0),))
    batch = k._batch(found, {0: line}, 1, True)
    assert batch.points.tolist() == [0.5]
    assert batch.error.tolist() == [0.5 * U]


# ---- visits and conics ---------------------------------------------------------------------------


def test_visits_carry_what_is_off(large: Large) -> None:
    """Products and sums: what comes in off goes on, and what is rounded is added."""
    k = large(_visits)
    x = k._Known(np.array([[2.0, -3.0]]), np.array([[0.5, 0.25]]))
    value, off = x.times(np.array([[4.0], [1.0]]))
    rounded = 3 * U * (11.0 * (1 + 6 / 16)) + 4 * TINY
    assert value.tolist() == [[5.0]]
    assert off == about(np.array([[(2.25 + rounded) * (1 + 6 / 16)]]))
    one, other = k._Known(np.array([2.0]), np.array([0.5])), k._Known(np.array([-3.0]), np.ones(1))
    value, off = one.plus(other, np.array([4.0]))
    rounded = 2 * U * (9.0 * (1 + 2 / 16)) + 3 * TINY
    assert value.tolist() == [3.0]
    assert off == about(np.array([(1.5 + rounded) * (1 + 4 / 16)]))
    a = k._Known(np.array([[2.0, -3.0]]), np.array([[0.5, 0.25]]))
    b = k._Known(np.array([[4.0], [1.0]]), np.array([[0.125], [2.0]]))
    value, off = k._products(a, b, more=1)
    rounded = 4 * U * (11.0 * (1 + 6 / 16)) + 5 * TINY
    carried = 2 * 0.125 + 3 * 2.0 + 0.5 * 4.125 + 0.25 * 3.0
    assert off == about(np.array([[(carried + rounded) * (1 + 10 / 16)]]))


def test_visits_at_a_tie(large: Large) -> None:
    k = large(_visits)
    for z, clear in just_beyond(0.75):
        rectified, sure = k._Known(np.array([z, -z]), np.array([0.75, 0.75])).rectify()
        assert sure.tolist() == [clear, clear]
        assert rectified.value.tolist() == [z, 0.0]
        assert rectified.off.tolist() == [0.75, 0.0 if clear else 0.75]
    still, sure = k._Known(np.zeros(1), np.zeros(1)).rectify()
    assert (sure.tolist(), still.off.tolist()) == ([True], [0.0])
    for bad in (math.nan, math.inf):
        with pytest.raises(ShapeError):
            k._numbers([[bad]])


def test_visits_of_a_head(large: Large) -> None:
    """A lead counts beyond what both scores are off and what their difference rounds."""
    k = large(_visits)
    one = np.ones((1, 1, 1))
    group = SimpleNamespace(
        query=one, key=one, value=one, output=one, position_bias=None, causal=False
    )
    strangers = k._Twins(np.eye(2, dtype=bool))

    def score(t: float) -> tuple[float, float]:
        """Query and key hold 1 and t as they are: what a product of both is off."""
        q, k_ = (k._Known(np.array([[x]]), np.zeros((1, 1))).times(one[0]) for x in (1.0, t))
        found = k._products(q, k_)
        return float(found.value[0, 0]), float(found.off[0, 0])

    for t in np.linspace(0.02, 0.98, 961):
        (most, off), (less, away) = score(1.0), score(t)
        lead = most - less
        doubt = (off + away) * 1.5
        clear = lead > (doubt + U * lead + 2 * TINY) * 1.5
        stream = k._Known(np.array([[[1.0], [t]]]), np.zeros((1, 2, 1)))
        assert k._attend(group, stream, [0], strangers)[1].tolist() == [not clear]


def test_ranges_of_conics(large: Large) -> None:
    k = large(_conic_boxes)
    table = np.zeros((1, 3, 3))
    table[0, 0, 0], table[0, 1, 1] = -0.5, 0.25
    ones = k._powers(1.0, 1.0)
    value, bound = k._bernstein(table, ones, ones)
    assert value[0].tolist() == [-0.25] * 9
    assert bound[0].tolist() == [13 * U * 0.75 * (1 + 14 / 16) + FAINT] * 9


def test_curves_side_by_side(large: Large) -> None:
    """a + m b < 0 beyond what its two products and its sum round."""
    k = large(_conic_boxes)
    asked = ((0, 1), (1, 1))

    def excluded(a: list[float], b: list[float]) -> bool:
        tops = dict(zip(asked, (np.array(a), np.array(b)), strict=True))
        return bool(k.Block.excludes(SimpleNamespace(_tops=tops, left=1.0), *asked))

    # a = (-3, 1) and b = (1, -1): m = 2 lies between 1 and 3, and both sums are -1
    largest = (3.0 + 2.0) * 1.5
    for size, clear in just_beyond(3 * TINY / (1.0 - 2 * U * largest)):
        assert excluded([-3 * size, size], [size, -size]) == clear
    assert excluded([-64.0, -64.0], [-1.0, -1.0])  # any m will do


# ---- frames, hulls, diagrams ---------------------------------------------------------------------


def test_frames(large: Large) -> None:
    k = large(_frame)
    search = k._Search(SimpleNamespace(floats=np.array([[1.0], [5.0]]), slack=np.array([0.25])))
    assert search.error == (2 * U + 2 * 0.25 / 4.0) * 1.5
    search.left, search.error = np.array([[0.0, 0.0], [4.0, 8.0]]), 0.25
    search._clear(1, 0)
    assert search.error == (0.25 * (2.0 + 2.0 * 8.0 / 4.0) + 4 * U * 9.0) * 1.5
    far = SimpleNamespace(floats=np.array([[1.7e308], [-1.7e308]]), slack=np.zeros(1))
    assert k._Search(far).error == math.inf


def test_slack_of_points(large: Large) -> None:
    k = large(_points)
    points = k.Points.of([[Fraction(1, 3)], [Fraction(-1, 2)]])
    assert points.slack[0] == (U * 0.5 + TINY) * (1 + 2 / 16)
    for bad in (math.nan, math.inf):
        with pytest.raises(ShapeError):
            k.Points.of([[bad]])


@pytest.mark.parametrize("truth", [True, False])
def test_points_beyond_facets(large: Large, truth: bool) -> None:
    """Beyond the doubt floats are believed; within it whole numbers decide."""
    k = large(_incremental)
    for ahead, clear in just_beyond((4 * U * 2.25 + 5 * TINY) / (1 - 5 * U)):
        facets = SimpleNamespace(
            corners=[0], floats=np.array([[1.0 + ahead]]), normals=np.array([[1.0]]),
            offsets=np.array([1.0]), alive=np.array([True]), planes=[([1], 0)],
            whole=np.array([[1 if truth else -1]], dtype=object),
        )  # fmt: skip
        assert k._Facets.beyond(facets, 0) == ([0] if clear or truth else [])


def test_vertices_of_diagrams(large: Large) -> None:
    k = large(_diagram)

    def slopes(height: float, doubt: float, shift: int = 0) -> tuple:
        surface = SimpleNamespace(normals=np.array([[3.0, height]]), blurs=np.array([[0.5, doubt]]))
        diagram = SimpleNamespace(
            _faces=SimpleNamespace(surface=surface),
            hull=SimpleNamespace(shifts=np.array([shift, 0])),
        )
        found, error = k.PowerDiagram._slopes(diagram, np.array([0]))
        return found[0, 0], error[0, 0]

    error = ((0.5 + 0.75 * 1.0) / (4.0 - 1.0) + U * 0.75) * 1.5
    assert slopes(4.0, 1.0) == about((0.75, error + TINY))
    assert slopes(4.0, 1.0, 3) == about((6.0, 8.0 * error + TINY))
    for height, clear in just_beyond(2.0):
        assert (slopes(height, 1.0)[1] < math.inf) == clear
    assert slopes(1e-320, 0.0)[1] == math.inf


def test_simplices_that_look_up(large: Large) -> None:
    k = large(_diagram)
    for height, clear in just_beyond(2.0 * 0.25 + FAINT):
        surface = SimpleNamespace(
            normals=np.array([[-height]]), blurs=np.array([[0.25]]), simplices=[0]
        )
        asked: list[int] = []

        def exact(unsure: np.ndarray, last: int, asked: list[int] = asked) -> list[bool]:
            asked.extend(unsure.tolist())
            return [True] * len(unsure)

        frame = SimpleNamespace(columns=(0,))
        found = found_by(
            k.PowerDiagram, "_upper", hull=SimpleNamespace(surface=surface, frame=frame),
            is_fan=False, dimension=0, _exact_upper=exact,
        )  # fmt: skip
        assert asked == ([] if clear else [0])
        assert found.tolist() == [not clear]


def test_vertices_that_are_blurred_are_made_exactly() -> None:
    """Those that floats know to a 2^-30 are kept."""
    for doubt, blurred in just_beyond(2.0**-30 * 4.0):
        faces = SimpleNamespace(
            representative=np.array([0]), surface=SimpleNamespace(simplices=np.array([[0]]))
        )
        found = found_by(
            _diagram.PowerDiagram, "vertices", _is_full=True, _faces=faces, _upper=np.array([True]),
            _slopes=lambda chosen, doubt=doubt: (np.array([[3.0]]), np.array([[doubt]])),
            hull=SimpleNamespace(first=np.array([0])), _vertex=lambda rows: [Fraction(5)],
        )  # fmt: skip
        assert found.tolist() == [[5.0 if blurred else 3.0]]


def test_cells_in_boxes_and_beyond() -> None:
    """Vertices count as in the box, or as beyond it, only if their doubt does."""
    box = SimpleNamespace(low=np.array([-1.0]), high=np.array([1.0]))

    def asked(name: str, vertex: float) -> bool:
        corners = (np.array([[vertex]]), np.array([[0.5]]), np.array([[0]]))
        diagram = SimpleNamespace(corners=corners, winners=[0], bounded=np.array([True]))
        found = found_by(_boxed.BoxedDiagram, name, diagram=diagram, box=box)
        return bool(len(found) if name == "_inside" else found[0])

    for vertex, beyond in ((0.25, False), (0.75, True), (-0.25, False), (-0.75, True)):
        assert asked("_inside", vertex) != beyond
    for vertex, outside in ((1.25, False), (1.75, True), (-1.25, False), (-1.75, True)):
        assert asked("_outside", vertex) == outside


def test_maximisers(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_minkowski_walk)
    for lead, clear in just_beyond(0.5 + 0.125 + 0.5):
        found = k._close(np.array([0.0, lead]), np.array([0.5, 0.125]))
        assert found.tolist() == [not clear, True]
    seen = []
    monkeypatch.setattr(k, "_close", lambda scores, doubt: seen.append(doubt) or np.array([True]))
    monkeypatch.setattr(k, "_maximiser", lambda *_: 0)
    graph = SimpleNamespace(
        first=np.array([0]), terms=[0], columns=(0,), scales=np.array([2.0]), floor=-1,
        vertices=SimpleNamespace(floats=np.array([[4.0]]), slack=np.array([0.25])),
    )  # fmt: skip
    k._starting_vertex(graph, SimpleNamespace(integers=lambda *_, size: np.array([-8])))
    off = 1.25 * 0.5 * 8.0 + FAINT
    assert seen[0].tolist() == [(rounded(1, 1.25 * 8.0 * 8.0) + off) * 1.5]


# ---- temperature ---------------------------------------------------------------------------------


def test_exponentials_and_logarithms(large: Large) -> None:
    k = large(_lemmas)
    units = numerics.FLOAT64.exp_units
    found = k.from_above(np.array(2.0), np.array(3.0), 5)
    assert found == 2.0 * (1 + 2 * U * 3.0) * (1 + (units + 5 + 3) / 16)
    log = math.log(8.0)
    assert k._log_up(8.0) == about(log + U * (4 + units * log) * 1.5 + 0.25)
    lost = numerics.FLOAT64.vanished * 3.0 * 1.5
    assert k.vanishing(np.array(600.0), 3.0) == about(lost)
    assert k.vanishing(np.array(math.inf), 3.0) == 0.0


def test_guarantees_of_values_and_outputs(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_lemmas)
    monkeypatch.setattr(k, "from_above", lambda bound, exponent, roundings: 8.0 * roundings)
    monkeypatch.setattr(k, "vanishing", lambda exponent, count: 16.0 * count)
    roundings = 2 + numerics.FLOAT64.exp_units
    assert k.value_bound(1.0, 3, 4.0) == 8.0 * roundings + 32.0 / 4.0 * 1.5 + TINY
    assert k.value_bound(1.0, 3, math.inf) == 0.0
    monkeypatch.setattr(k, "weight_bound", lambda *_: 0.5)
    assert k.output_bound(1.0, 3, 4.0, 8.0) == 1.25 * 0.5 * 8.0
    monkeypatch.setattr(k, "_log_up", lambda x: np.asarray(4.0))
    given = {"diameter": 1.0, "tokens": 7, "temperature": 2.0, "separation": 0.5}
    assert k.distance_for_error(0.5, **given) == 1.25 * 4.0 * 2.0 / 0.5 + 0.25 + TINY
    assert k._temperature(np.array(1.0), 6.0, 3) == 6.0 / 4.0 - 0.25


def test_guarantees_of_derivatives(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_curvature)
    e, radius, diameter = np.array(0.25), 2.0, 16.0
    assert k._deviation(e, radius, diameter) == 1.25 * (0.5 + 0.25) * radius
    between = math.sqrt(0.1875) * (1 + 3 / 16)
    assert k._deviation(e, 16.0, 2.0) == about(1.25 * between * 2.0)
    monkeypatch.setattr(k, "_deviation", lambda e, radius, diameter: radius)
    found = k.jacobian_bound(0.25, 8.0, values=(2.0, 0), keys=(4.0, 0), scale=16.0)
    assert found == 1.25 * (1.25 * 8.0 * 16.0) * (1.25 * 2.0 * 4.0)
    monkeypatch.setattr(k, "from_above", lambda bound, exponent, roundings: 8.0 * roundings)
    monkeypatch.setattr(k, "vanishing", lambda exponent, count: 16.0 * count)
    assert k.hessian_bound(1.0, 3, 4.0) == 56.0 + 1.25 * 48.0 * 4.0


def test_clouds(large: Large) -> None:
    k = large(_cloud)
    given = np.array([[[0.0], [1.0], [2.0]]])
    cloud = k.Cloud.of(given, "points")
    assert cloud.exponent.tolist() == [2]
    size = 0.5 * (1 + 2 / 16)
    assert cloud.size.tolist() == [size]
    slack = 4 * 10 * U * size**2 * 1.5
    assert cloud.slack.tolist() == [slack]
    squares = cloud.squares_from(np.array([[1]]), 3)
    assert squares[0, 0].tolist() == [0.0625 + slack, slack, 0.0625 + slack]
    assert cloud.length(np.array([[0.25]])).tolist() == [[(0.5 + 0.25) * 4.0]]
    tiny = SimpleNamespace(exponent=np.array([-1060]))
    assert k.Cloud.in_own_units(tiny, np.array([[0.5, 0.0]])).tolist() == [
        [math.ldexp(0.5, -1060) + TINY, 0.0]
    ]
    squares[:] = 0.0
    cloud.separate(squares, np.array([[0]]), np.array([[[0.0], [0.5], [1e-200]]]))
    normal = numerics.FLOAT64.normal
    assert squares[0, 0].tolist() == [0.0, 0.015625 * (1 + 3 / 16) + 2 * normal, 2 * normal]
    with pytest.raises(ShapeError, match="too far apart"):
        k.Cloud.of(np.array([[[1.7e308], [-1.7e308]]]), "points")


@pytest.mark.parametrize("exponent", [0, 1])
def test_walls(large: Large, exponent: int) -> None:
    k = large(_walls)
    keys = SimpleNamespace(separate=lambda *_: None, exponent=np.array([exponent]))
    error, winner = np.array([[2.0]]), np.array([[0]])
    lead = np.array([[[math.inf, 18.0]]])
    found = k.nearest_walls(
        keys, np.zeros((1, 2, 1)), np.array([[[0.0, 4.0]]]), lead.copy(), winner, error
    )
    assert [one.tolist() for one in found] == [[[(8.0 - 0.75) / 2**exponent - 0.25]], [[1]]]
    found = k.nearest_walls(
        keys, np.zeros((1, 2, 1)), np.array([[[0.0, 0.0]]]), lead.copy(), winner, error
    )
    assert [one.tolist() for one in found] == [[[math.inf]], [[-1]]]


@pytest.mark.parametrize("stray", [0.0, 0.5])
@pytest.mark.parametrize("bias", [None, 0])
def test_errors_of_gaps(large: Large, stray: float, bias: int | None) -> None:
    k = large(_arrays)
    part = SimpleNamespace(stray=np.array([[stray]]), given=SimpleNamespace(bias=bias))
    gap, top = np.array([[4.0]]), np.array([[-8.0]])
    holder = next(one for one in vars(k).values() if hasattr(one, "_gap_error"))
    more = 0.0 if bias is None or not stray else 2 * 8.0 + 4.0
    found = holder._gap_error(part, gap, top, slice(None))
    assert found.tolist() == [[(2 * stray + U * (4.0 + more)) * 1.5]]
    assert holder._gap_error(part, gap * math.inf, top, slice(None)).tolist() == [[0.0]]


def test_scores_of_heads(large: Large) -> None:
    k = large(_arrays)
    asked, keys = np.array([[[2.0]]]), np.array([[[4.0]]])
    size = 24.0 + math.sqrt(TINY) * (6.0 + 4.0 + math.sqrt(TINY))
    lost = TINY * 5.0 * 1.5
    found = k._stray(3.0 * asked, keys, None, asked, 3.0)
    assert found[0, 0] == about(2 * U * size * (1 + 7 / 16) + lost)
    assert k._divided_down(np.array([6.0, math.inf]), 4.0).tolist() == [1.25, math.inf]


def test_what_follows_from_gaps(large: Large, monkeypatch: pytest.MonkeyPatch) -> None:
    k = large(_table)
    gaps = {"gap": np.array([4.0, 4.0]), "gap_error": np.array([0.5, 0.0])}
    assert found_by(k.Stability, "certain_gap", **gaps).tolist() == [3.25, 4.0]
    monkeypatch.setattr(k, "FLOAT64", SimpleNamespace(vanished=0.25))
    found = found_by(
        k.Stability, "jacobian_from_weights", weight_actual=np.array([0.5]), coldness=np.ones(1),
        gap_error=np.array([2.0]), visible=np.array([8]), weight_bound=np.array([math.inf]),
        _jacobian=lambda weight: weight,
    )  # fmt: skip
    assert found == about(0.5 * math.exp(2.0) * (1 + 2008 / 16) + 0.25 * 8 * 1.5)
    stability = SimpleNamespace(temperature_for_error=lambda error: np.array([0.5]))
    assert k.Stability.critical_coldness(stability, 0.1) == 2.0 * (1 + 2 / 16)


def test_shares_that_round_up_are_not_one_more() -> None:
    """0.07 of 100 numbers are 7, although the product of the floats is above 7."""
    assert _table.at_most(np.arange(100.0), 0.07) == 6.0


def test_what_is_not_finite_is_refused_or_left_out() -> None:
    assert _report.plain_number(math.inf) is None
    assert _report.plain_numbers(np.array([1.0, math.inf, math.nan])) == [1.0, None, None]
    with pytest.raises(RequestError, match="too small"):
        _given.coldness_of(1e-320)
    for bad in (math.nan, math.inf):
        with pytest.raises(ShapeError, match="bias must hold"):
            _given._bias([[bad]], (1, 1))
        with pytest.raises(ShapeError, match="finite numbers"):
            _streams._points(SimpleNamespace(inputs=1), [[bad]])  # type: ignore[arg-type]
