"""Kernels in several files: what is kept on disk is never older than any of them."""

from __future__ import annotations

import os
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numba import njit

from hardmax.geometry import _compiled, warm
from hardmax.geometry.counting.line import _kernels as line_kernels
from hardmax.geometry.counting.plane import _kernels as plane_kernels
from hardmax.geometry.counting.space import _kernels as space_kernels
from hardmax.geometry.counting.switch import _clip_kernels as switch_clips
from hardmax.geometry.counting.switch import _kernels as switch_kernels
from hardmax.geometry.hulls import _facet_kernels
from hardmax.geometry.polytopes import _walk_kernels

_CALLER = """
from hardmax.geometry._compiled import entry
from called_kernels import number

@entry
def answer():
    return number()
"""
_ASKED = """
import caller_kernels
print(caller_kernels.answer(), sum(caller_kernels.answer.dispatcher.stats.cache_hits.values()))
"""
_COMPILED = {"HARDMAX_LOOPS": "compiled"}
_CALLED = """
from hardmax.geometry._compiled import inline

@inline
def number():
    return {}
"""


def test_a_change_in_a_file_that_is_imported_is_seen(tmp_path: Path) -> None:
    """Numba itself looks at the caller's file alone, and would answer 1 for ever."""
    (tmp_path / "caller_kernels.py").write_text(_CALLER)
    answers = []
    for number in (1, 1, 2):
        (tmp_path / "called_kernels.py").write_text(_CALLED.format(number))
        done = subprocess.run(
            [sys.executable, "-B", "-c", _ASKED],
            cwd=tmp_path,
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache"), **_COMPILED},
            capture_output=True,
            text=True,
            check=True,
        )
        answers.append(done.stdout.split())
    assert answers == [["1", "0"], ["1", "1"], ["2", "0"]]  # the second came from disk


def test_entries_carry_the_stamp_of_their_folder() -> None:
    entries = (
        (plane_kernels, "run"), (space_kernels, "advance"), (line_kernels, "refine_lines"),
        (switch_kernels, "split_cells"), (_facet_kernels, "orient"), (_walk_kernels, "explore"),
    )  # fmt: skip
    for module, name in entries:
        stamp = _compiled._stamp(Path(str(module.__file__)).parent)
        assert getattr(module, name).py_func.__qualname__ == f"{name}_{stamp}"


def test_arrays_on_loan_are_the_same_arrays() -> None:
    numbers = np.arange(4.0)

    @njit
    def double(pair: tuple[np.ndarray, int]) -> float:
        numbers, factor = _compiled.lent(pair)
        for k in range(len(numbers)):
            numbers[k] *= factor
        return numbers.sum()

    assert double((numbers, 2)) == 12.0
    assert numbers.tolist() == [0.0, 2.0, 4.0, 6.0]
    assert double.py_func((numbers, 2)) == 24.0  # in Python, too


def tetrahedron() -> tuple[np.ndarray, np.ndarray]:
    """Face k lies opposite corner k; across its edge opposite corner c it meets face c."""
    faces = np.array([[c for c in range(4) if c != k] for k in range(4)])
    return faces, faces.copy()


def test_a_boundary_is_closed_only_if_neighbours_share_all_but_one_corner_and_know_it() -> None:
    faces, neighbours = tetrahedron()
    assert _facet_kernels.is_closed(faces, neighbours)
    for f in range(4):
        for i in range(3):
            for wrong in (-1, 4, f, neighbours[f, (i + 1) % 3]):
                spoilt = neighbours.copy()
                spoilt[f, i] = wrong
                assert not _facet_kernels.is_closed(faces, spoilt)
            folded = faces.copy()
            folded[f, i] = folded[f, (i + 1) % 3]  # a corner twice
            assert not _facet_kernels.is_closed(folded, neighbours)


def test_kernels_of_kernels_are_functions_for_python() -> None:
    """As they stand, and with the units that their modules have."""
    target = np.zeros((2, 3))
    _compiled.copy_rows(target, np.ones((1, 2)))
    _compiled.copy_row(target[1], np.array([5.0]))
    assert target.tolist() == [[1.0, 1.0, 0.0], [5.0, 0.0, 0.0]]
    assert not hasattr(switch_clips.cross, "py_func")


# ---- interpreted, and compiled when it pays ------------------------------------------------------


def counted(numbers: np.ndarray) -> float:
    total = 0.0
    for k in range(len(numbers)):
        total += numbers[k]
    return total


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., _compiled.Entry]:
    """Entries of a folder that has spent nothing, and keeps no machine code."""
    monkeypatch.delenv("HARDMAX_LOOPS", raising=False)
    monkeypatch.setattr(_compiled, "_spent", {})
    monkeypatch.setattr(_compiled, "_told", set())
    monkeypatch.setattr(_compiled.Entry, "_is_kept", False)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def make(resumable: bool = False) -> _compiled.Entry:
        copy = types.FunctionType(counted.__code__, globals(), "counted")
        return _compiled.Entry(copy, set(), resumable)

    return make


def test_few_numbers_are_interpreted_and_many_compiled_with_one_line(
    fresh: Callable[..., _compiled.Entry], capsys: pytest.CaptureFixture[str]
) -> None:
    few, many = fresh(), fresh()
    assert few(np.ones(_compiled.MANY)) == _compiled.MANY
    assert (few.dispatcher.signatures, few.stride(1000, 7)) == ([], 7)
    assert capsys.readouterr().err == ""
    assert many(np.ones(_compiled.MANY + 1)) == _compiled.MANY + 1
    assert (len(many.dispatcher.signatures), many.stride(1000, 7)) == (1, 1000)
    assert "compiles the loops of tests/geometry, once on this machine" in capsys.readouterr().err
    other = fresh()
    other(np.ones(_compiled.MANY + 1))
    assert capsys.readouterr().err == ""  # of one folder it is said once


def test_who_works_in_rooms_is_interpreted_until_patience_is_spent(
    fresh: Callable[..., _compiled.Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, neighbour = fresh(resumable=True), fresh()
    walk(np.ones(2 * _compiled.MANY))
    assert walk.dispatcher.signatures == []
    assert 0.0 < _compiled._spent[walk.folder] < _compiled.PATIENCE
    monkeypatch.setitem(_compiled._spent, walk.folder, _compiled.PATIENCE)
    walk(np.ones(1))
    assert walk.dispatcher.signatures == []  # up to patience, itself included
    _compiled._spent[walk.folder] = _compiled.PATIENCE + 0.001
    assert walk(np.ones(3)) == neighbour(np.ones(3)) == 3.0
    assert len(walk.dispatcher.signatures) == len(neighbour.dispatcher.signatures) == 1


def test_those_who_know_say_so(
    fresh: Callable[..., _compiled.Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HARDMAX_LOOPS", "interpreted")
    slow = fresh()
    slow(np.ones(_compiled.MANY + 1))
    assert slow.dispatcher.signatures == []
    with _compiled.at_once():
        slow(np.ones(1))
    assert len(slow.dispatcher.signatures) == 1


_QUESTIONS = """
import hardmax as hm, numpy as np
rng = np.random.default_rng({seed})
draw = lambda *shape: np.round(rng.normal(size=shape), int(rng.integers(1, 9)))
stack = lambda *w: ([draw(b, a) for a, b in zip(w, w[1:])], [draw(b) for b in w[1:]])
for d in (1, 2, 3):
    box, net = hm.Box([-1.0] * d, [1.0] * d), hm.ReluNetwork(*stack(d, 6, 5, 1))
    found = hm.regions(net, on=box)
    print(found.cells, found.count, [str(getattr(cell, "vertices", cell)) for cell in found])
    maxout = hm.MaxoutNetwork([draw(3, 4, d), draw(2, 1, 4)], [draw(3, 4), draw(2, 1)])
    print(hm.regions(maxout, on=box).count)
    keys = draw(12, d)
    diagram = hm.power_diagram(keys, on=box)
    print(diagram.live.tolist(), diagram.locate(draw(30, d)).tolist())
    if d > 1:
        parts = [hm.Polytope(np.round(9 * draw(6, d))) for _ in range(3)]
        print(hm.minkowski_sum(parts).vertices.tolist())
        lines = hm.line_breakpoints(net, draw(3, d), draw(3, d) + 2.0)
        print(lines.counts.tolist())
        print(hm.line_breakpoints(maxout, draw(3, d), draw(3, d) + 2.0).counts.tolist())
"""


@pytest.mark.parametrize("seed", range(3))
def test_python_and_machine_code_say_the_same(seed: int) -> None:
    """To the last bit: kernels are Python, and floats are floats."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _QUESTIONS.format(seed=seed)],
            env={**os.environ, "HARDMAX_LOOPS": wish},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for wish in ("compiled", "interpreted")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) > 10


def test_warm_leaves_nothing_to_compile() -> None:
    for _ in warm():
        pass
    rooms = [room for name, room in sys.modules.items() if name.startswith("hardmax.geometry.")]
    found = [one for room in rooms for one in vars(room).values()]
    entries = [one for one in found if isinstance(one, _compiled.Entry)]
    assert len(entries) > 20
    cold = {e.py_func.__qualname__ for e in entries if not e.dispatcher.signatures}
    assert cold == set()
