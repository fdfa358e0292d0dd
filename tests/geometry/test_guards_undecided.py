"""What floats leave open is decided exactly: every place where "unsure" is handed on.

The filters themselves are tested in `test_guards_geometry` and `test_guards_writ_large`. Here a
filter is made to say that it does not know, and the exact side has to be asked, or the answer has
to stay open; and numbers that round exact ones have to lie on their safe side.
"""

from __future__ import annotations

from fractions import Fraction
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hardmax.geometry.counting import _public
from hardmax.geometry.counting.conic import _counting as _conic
from hardmax.geometry.counting.conic import _tree as _conic_tree
from hardmax.geometry.counting.line import _quadratic
from hardmax.geometry.counting.plane import _walk as _plane_walk
from hardmax.geometry.counting.space import _walk as _space_walk
from hardmax.geometry.counting.switch import _kernels as _switch_kernels
from hardmax.geometry.counting.switch import _piece as _switch_piece
from hardmax.geometry.counting.switch._exact import ExactCell, homogeneous
from hardmax.geometry.diagrams import _locating, _locating_kernels
from hardmax.geometry.hulls import _verification
from hardmax.geometry.hulls._verification import _Verification
from hardmax.geometry.polytopes import _arrays as _minkowski_arrays
from hardmax.geometry.polytopes import _ray_kernels, _walk_kernels

ONE = np.array([[0]])


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Functions of a module that answer what they are told; kernels are Python."""

    def told(module: ModuleType, **answers: Any) -> Any:
        for name, value in list(vars(module).items()):
            if name in answers:
                monkeypatch.setattr(module, name, lambda *_, name=name: answers[name])
            elif hasattr(value, "py_func"):
                monkeypatch.setattr(module, name, value.py_func)
        return module

    return told


# ---- keys and hulls ------------------------------------------------------------------------------


@pytest.mark.parametrize("clear", [True, False])
def test_winners_that_are_unsure_are_settled(monkeypatch: pytest.MonkeyPatch, clear: bool) -> None:
    monkeypatch.setattr(_locating_kernels, "climb", lambda *_: (np.array([0]), np.array([clear])))
    column = SimpleNamespace(floats=np.zeros((2, 1)))
    locator = SimpleNamespace(
        _across=(None, None), keys=_Floats(np.zeros((2, 1))), levels=column, _landmarks=None,
        cells=np.array([0, 1]), _spare=0.0, _winners_exactly=lambda asked: [1],
    )  # fmt: skip
    asked = SimpleNamespace(floats=np.zeros((1, 1)), take=lambda rows: rows)
    found = _locating.Locator.winners(locator, asked)  # type: ignore[arg-type]
    assert found.tolist() == [0 if clear else 1]


class _Floats:
    """Points of which only the floats are read."""

    slack = None

    def __init__(self, floats: np.ndarray) -> None:
        self.floats = floats

    def __len__(self) -> int:
        return len(self.floats)


def verification(**given: Any) -> Any:
    points = SimpleNamespace(floats=np.zeros((2, 1)), slack=None)
    return SimpleNamespace(
        simplices=ONE, neighbours=ONE, points=points, centre=1, exact=False, decided=0,
        normals=None, blurs=None, cloud=None, facets=None, work=None, **given,
    )  # fmt: skip


@pytest.mark.parametrize("clear", [True, False])
def test_normals_that_are_unsure_are_oriented(answering: Any, clear: bool) -> None:
    asked: list[int] = []
    answering(_verification.kernels, is_closed=True, orient=np.array([clear]))
    run = verification(
        _orient=lambda unsure: asked.extend(unsure), _ridges=lambda: None,
        _covers_once=lambda: None, _holds_all=lambda corners: None,
    )  # fmt: skip
    _Verification.surface(run, ONE[0])
    assert asked == ([] if clear else [0])


@pytest.mark.parametrize(("other", "flat"), [(0, True), (1, False), (-1, None)])
def test_ridges_that_are_unsure_are_compared(answering: Any, other: int, flat: bool | None) -> None:
    """Flat if the point beyond is on the plane; reflex ridges are refused."""
    kernels = _verification.kernels
    answering(kernels, apexes=ONE, ridge_sides=np.array([[kernels.UNSURE]]))
    answers = iter([np.array([1]), np.array([other])])
    run = verification(
        _exact=lambda simplices, others: next(answers), _check_unfolded=lambda where, across: None
    )
    if flat is None:
        with pytest.raises(_verification.Unproved):
            _Verification._ridges(run)
    else:
        assert _Verification._ridges(run).tolist() == [[flat]]


@pytest.mark.parametrize("inside", [True, False])
def test_cones_that_are_unsure_are_entered(answering: Any, inside: bool) -> None:
    """The middle of the first simplex is in one cone: the exact test says in which."""
    kernels = _verification.kernels
    answering(kernels, cones_over=np.array([kernels.UNSURE]))
    run = verification(_in_cone=lambda points, f, other: inside)
    run.exact = True
    run.points.with_mean = lambda rows: _Floats(np.zeros((3, 1)))
    if inside:
        _Verification._covers_once(run)
    else:
        with pytest.raises(_verification.Unproved):
            _Verification._covers_once(run)


@pytest.mark.parametrize("code", ["UNSURE", "INSIDE"])
def test_points_that_are_unsure_are_settled(answering: Any, code: str) -> None:
    kernels, asked = _verification.kernels, []
    state = np.array([getattr(kernels, code)])
    answering(kernels, climb=None, walk=(np.array([5]), state))
    run = verification(
        _near=lambda corners, others: None, _settle=lambda others, home: asked.extend(home)
    )
    _Verification._holds_all(run, np.array([], dtype=int))
    assert asked == ([5] if code == "UNSURE" else [])


# ---- sums of polytopes ---------------------------------------------------------------------------


@pytest.mark.parametrize("inner", [True, False])
def test_rays_are_looked_at(answering: Any, inner: bool) -> None:
    k = answering(_ray_kernels, _guess=_ray_kernels.SOLVED, _is_inner=inner)
    cone = _minkowski_arrays.new_cone(1, 1)
    k.find_extreme_rays(cone, 1, _minkowski_arrays.new_scratch(1, 1, 1))
    assert cone.status.tolist() == [k.INNER if inner else k.OPEN]


@pytest.mark.parametrize("is_small", [True, False])
def test_rays_of_which_nothing_is_known_are_settled(
    answering: Any, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """No centre is found, so the status stays unknown: whole numbers decide, here or above."""
    answers = {"_gather": 1, "find_centre": False, "_step_across": None, "settle": None}
    k, arrays = answering(_walk_kernels, **answers), _minkowski_arrays
    monkeypatch.setattr(k, "lent", lambda given: given)
    directions, nothing = np.ones((1, 4)), np.zeros(0, int)
    graph = arrays.EdgeArrays(
        nothing, nothing, nothing, directions, directions, np.ones((1, 4), int), nothing, -1,
        is_small,
    )  # fmt: skip
    queue = arrays.Queue(
        now=np.array([0, 1, 0, 0]), cells=np.zeros((9, 1), int), keys=nothing,
        arrivals=np.full(9, -1), hints=np.zeros((9, 2, 4)), table=np.zeros(40, int),
    )  # fmt: skip
    why = k.explore(graph, queue, arrays.new_cone(1, 4), arrays.new_scratch(1, 4, 1), 1)
    assert queue.now[arrays.DECIDED] == 1
    assert why == (arrays.DONE if is_small else arrays.PENDING)


# ---- cells ---------------------------------------------------------------------------------------


def test_signs_that_are_unsure_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    k, kernels = _plane_walk, _plane_walk.arrays
    monkeypatch.setattr(k, "exact_of", lambda stack: SimpleNamespace(row=lambda below, i: i))
    monkeypatch.setattr(k, "corners_of", lambda lines: [(1, 1, 1)])
    monkeypatch.setattr(k, "sign_at", lambda row, corner: -1)
    walk = SimpleNamespace(
        now={kernels.TOP: 0}, head=np.array([[0, 1, 2]]), code=np.zeros((1, 1), int),
        signs=np.array([[kernels.UNSURE], [1]]), open=np.zeros((1, 2), int),
        poly=np.zeros((1, 7, 1)),
    )  # fmt: skip
    course = SimpleNamespace(
        walk=walk, stack=None, decided=0, _below=lambda layer: (), _lines=lambda *_: None
    )
    k.Course._answer_signs(course)  # type: ignore[arg-type]
    assert walk.signs.tolist() == [[-1], [1]]
    assert course.decided == 1


@pytest.mark.parametrize("code", ["UNSURE", "DONE"])
def test_cells_that_are_unsure_become_solids(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    kernels, asked = _space_walk.arrays, []
    answers = iter([getattr(kernels, code), kernels.DONE])
    walk = SimpleNamespace(
        findings=SimpleNamespace(counts=np.zeros(1, int)), stack=SimpleNamespace(dimension=1),
        load=lambda piece: None, step=lambda budget: next(answers), pop=lambda: "popped",
        drain=lambda: None, _exactly=lambda piece: [asked.append(piece)],
        now={kernels.DEPTH: 1}, node=lambda depth: "node",
        _solid_parts=lambda piece: [asked.append(piece)],
    )  # fmt: skip
    piece = SimpleNamespace(counted=(0,), shape=None)
    list(_space_walk.SpaceWalk.run(walk, piece))  # type: ignore[arg-type]
    assert asked == (["popped"] if code == "UNSURE" else [])
    answers = iter([getattr(kernels, code)])
    monkeypatch.setattr(_space_walk, "replace", lambda part, counted: part)
    _space_walk.SpaceWalk.parts(walk, piece)  # type: ignore[arg-type]
    assert asked == (["popped", "node"] if code == "UNSURE" else [])


@pytest.mark.parametrize("clear", [True, False])
def test_cells_whose_pieces_tie_are_handed_on(
    answering: Any, monkeypatch: pytest.MonkeyPatch, clear: bool
) -> None:
    """Winners that were known are kept, the others stay open; nothing is descended into."""
    k = answering(_switch_kernels)
    seen: list[tuple[str, list[int]]] = []
    groups = np.array([0, 2, 4])
    rivals = SimpleNamespace(winners=np.zeros(2, int))

    def descend(*_: Any) -> int:
        seen.append(("descended", rivals.winners.tolist()))
        return k.DONE

    def emit(*_: Any) -> bool:
        seen.append(("handed on", rivals.winners.tolist()))
        return True

    found = (("find_rivals", lambda *_: clear), ("_descend", descend), ("_emit", emit))
    for name, value in (*found, ("_copy_cell", lambda *_: None)):
        monkeypatch.setattr(k, name, value)
    parents = SimpleNamespace(
        vstart=np.array([0, 1]), points=np.zeros((1, 1)), stray=np.zeros(1), bits=np.zeros((1, 1)),
        fstart=np.array([0, 0]), labels=np.zeros(0), forms=np.zeros((1, 1, 3)),
        known=np.array([[-1, 1]]), reach=None, counts=np.zeros(1, int),
    )  # fmt: skip
    pile = SimpleNamespace(vertices=np.zeros(1), level=np.zeros(1), stray=np.zeros((1, 1)))
    stop = k.split_cells(
        SimpleNamespace(starts=groups), parents, SimpleNamespace(fast=False), pile, rivals, None,
        SimpleNamespace(fill=np.zeros(3, int)),
    )  # fmt: skip
    assert stop[1] == k.DONE
    assert seen == ([("descended", [0, 0])] if clear else [("handed on", [-1, 3])])


def test_groups_in_which_several_may_win_are_open(answering: Any) -> None:
    """The others are won by their first and only rival."""
    k = answering(_switch_kernels)
    tables = SimpleNamespace(starts=np.array([0, 2, 5]))
    rivals = SimpleNamespace(
        found=np.array([1, -9, 3, 4, -9]), sizes=np.array([1, 2]), open=np.zeros(2, int),
        winners=np.zeros(2, int),
    )  # fmt: skip
    assert k._list_open_groups(tables, rivals) == 1
    assert rivals.open[0] == 1
    assert rivals.winners.tolist() == [1, 3]


# ---- exact numbers as floats ---------------------------------------------------------------------


def test_enclosures_lie_around_their_numbers() -> None:
    """The floats next to 1/10 and 1/3 lie inside, so others are taken."""
    ends = Fraction(1, 10), Fraction(1, 3)
    low, high = _quadratic.QuadraticNumber.__dict__["floats"].func(SimpleNamespace(_first=ends))
    assert low <= ends[0] < Fraction(float(ends[0]))
    assert high >= ends[1] > Fraction(float(ends[1]))


def test_reaches_and_areas_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    third = Fraction(1, 3)
    monkeypatch.setattr(_public, "Slice", SimpleNamespace)
    seen = []
    stack = SimpleNamespace(of=lambda source, reach, *_: seen.append(reach))
    monkeypatch.setattr(_public, "Stack", stack)
    domain = SimpleNamespace(
        exact_polygon=[(third, -third), (Fraction(0), Fraction(0))], exact_origin=(),
        exact_directions=(),
    )  # fmt: skip
    _public._stack(None, domain)  # type: ignore[arg-type]
    assert all(Fraction(x) >= third for x in seen[0])
    cell = ExactCell((homogeneous([-third]), (0, 1)), (1, 2), ((-1, 0, 0, 0),) * 2)
    monkeypatch.setattr(_switch_piece, "_whole_domain", lambda domain: (cell, ()))
    piece = _switch_piece.start_piece(SimpleNamespace(dimension=1), None)  # type: ignore[arg-type]
    assert Fraction(piece.reach[0]) >= third
    search = SimpleNamespace(open=[(SimpleNamespace(area=third), None)], witnesses={}, boxes=1)
    found = _conic._result(search, SimpleNamespace(size=(1, 1)))  # type: ignore[arg-type]
    assert Fraction(found.undecided_area) >= third


def test_scores_with_a_bias_have_one_denominator() -> None:
    """3/2 x times 5/4 y plus 7/8 or 9/8, at the tokens 1/2 and 3/2, in whole numbers."""

    def whole(rows: list[list[int]], shift: int) -> SimpleNamespace:
        return SimpleNamespace(weights=np.array(rows, dtype=object), shift=shift)

    none = whole([[0]], 0)
    layers = (whole([[3]], 1), whole([[5]], 2), none, none, whole([[7, 9], [9, 7]], 3))
    maps = np.array([[[2, 0, 0], [6, 0, 0]]], dtype=object)
    tree = SimpleNamespace(_exact=lambda head: layers)
    node, head = SimpleNamespace(maps=maps, under=4), SimpleNamespace(causal=False)
    found = list(_conic_tree.Tree._scores(tree, head, node, [0, 1]))  # type: ignore[arg-type]
    for t, x in enumerate((Fraction(1, 2), Fraction(3, 2))):
        for j, y in enumerate((Fraction(1, 2), Fraction(3, 2))):
            score = Fraction(3, 2) * x * Fraction(5, 4) * y + Fraction(7 if t == j else 9, 8)
            assert found[t][j] == (score * 4**2 * 2 ** (1 + 2 + 3), 0, 0, 0, 0, 0)
