"""The yardsticks of the checker's benchmark measure what they say."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from benchmarks._checker_boxes import _batch
from benchmarks._checker_cases import DEEP, SMALL_ERRORS, SOLIDS, deeper, one_layer, solids
from benchmarks._checker_flint import enclose_in_a_loop
from benchmarks._checker_natural import boxes_needed
from benchmarks._checker_problem import enclose, posed, searched
from benchmarks._report import Settings

import hardmax as hm
from benchmarks import checker as program
from hardmax.numerics import Interval

UNIT = (-1.0, 1.0)
MODELS = [("x*y", {"x": UNIT, "y": UNIT}), ("exp(x)", {"x": (0.0, 1.0)}), ("sin(x)", {"x": UNIT})]


@pytest.mark.parametrize(("text", "on"), MODELS)
def test_the_loop_over_balls_computes_the_same_form(text, on):
    """The same boxes give the same bounds, but for the parabola's turning point and rounding."""
    tape, low, high = _batch(hm.compile(text, on=on, error=1e-3, route="direct"))
    low, high = low[:, :200], high[:, :200]
    ours, loop = enclose(tape, low, high).most, enclose_in_a_loop(tape, low, high)
    assert (ours <= loop * (1 + 1e-6)).all()
    assert np.median(ours / loop) > 0.95


@pytest.mark.parametrize(("text", "on"), MODELS)
def test_the_bounds_of_the_loop_hold(text, on):
    """|T - f| at the middle of a box is at most what either says of the box."""
    construction = hm.compile(text, on=on, error=1e-3, route="direct")
    tape, low, high = _batch(construction)
    low, high = low[:, :200], high[:, :200]
    points = (0.5 * low + 0.5 * high).T
    true = construction.claim.target(Interval.point(points.T))
    off = np.maximum(true.lo - construction(points).T, construction(points).T - true.hi)[0]
    assert (off <= enclose_in_a_loop(tape, low, high) + 1e-12).all()  # floats stray by less
    assert (off <= enclose(tape, low, high).most + 1e-12).all()


def test_the_natural_form_needs_more_boxes():
    construction = hm.compile("max(x, y)", on={"x": UNIT, "y": UNIT}, error=1e-2, route="direct")
    found = searched(construction, 0.02)
    wanted = found.measured * 1.02
    natural = boxes_needed(posed(construction), wanted, 10**6)
    assert found.certified <= wanted
    assert found.boxes < natural
    assert boxes_needed(posed(construction), wanted, natural - 1) is None
    assert boxes_needed(posed(construction), 0.99 * found.measured, 10**5) is None


def test_the_cases_are_those_of_the_requirements():
    quick = Settings.of(quick=True)
    flat = list(itertools.islice(one_layer(quick), 8))
    assert {(w.dimension, w.limit) for w in flat} == {(1, 1.01), (2, 1.02)}
    assert all(w.offer.resources["layers"] <= 1 for w in flat)
    assert all(w.limit == 1.1 and w.dimension == 3 for w in solids(quick))
    deep = list(itertools.islice(deeper(quick), 3))
    assert {(w.dimension, w.limit) for w in deep} == {(1, 1.05), (2, 1.2)}
    assert all(w.offer.resources["layers"] > 1 for w in deep)
    assert SMALL_ERRORS == (1e-2, 1e-3, 1e-4)
    assert {case.error for case in SOLIDS} == {1e-2}
    assert {case.error for case in DEEP} == {1e-3}


def test_unknown_parts_are_refused(capsys):
    with pytest.raises(SystemExit):
        program.main(["--only", "everything"])
    assert "tightness" in capsys.readouterr().err
