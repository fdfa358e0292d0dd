"""Kernels in several files: what is kept on disk is never older than any of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from numba import njit

from hardmax.geometry import _compiled
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
print(caller_kernels.answer(), sum(caller_kernels.answer.stats.cache_hits.values()))
"""
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
            env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")},
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
