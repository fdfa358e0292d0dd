"""The room that is left to the checker's own bound of rounding, and floors that have it."""

from __future__ import annotations

from fractions import Fraction

import pytest

import hardmax as hm
from hardmax.numerics import FLOAT32, FLOAT64
from hardmax.passes._search import Trial, smallest_that_fits
from hardmax.passes._solver import _too_small
from hardmax.passes._sources import Room, Sources


@pytest.mark.parametrize(("layers", "needed"), [(5, 0.75), (6, 0.9), (8, 1.2)])
def test_a_floor_of_a_deep_chain_has_just_the_room_that_it_needs(layers, needed):
    room = Room(FLOAT32, layers)
    least = room.smallest_budget(0.1)
    assert room.after(0.1, least) == pytest.approx(0.1 * needed, rel=1e-12)
    assert room.after(0.1, 2 * least) == pytest.approx(0.1 * needed, rel=1e-12)
    assert room.after(0.1, 0.99 * least) < 0.1 * needed
    assert room.after(0.1, 0.15) == pytest.approx(0.8 * 0.05, rel=1e-12)


@pytest.mark.parametrize("room", [Room(FLOAT32), Room(FLOAT32, 4)])
def test_shallow_ones_leave_half_of_rounding_and_half_of_softening_at_most(room):
    assert room.smallest_budget(0.1) == 0.1
    assert room.after(0.1, 1.0) == 0.05
    assert room.after(0.1, 0.15) == pytest.approx(0.025, rel=1e-12)


def test_float64_leaves_eight_times_its_rounding_where_that_is_a_few_percent():
    room = Room(FLOAT64, 16)
    assert room.smallest_budget(1e-6) == 1e-6
    assert room.after(1e-6, 1e-3) == 8e-6
    assert room.after(1e-6, 8e-6 * 2**7) == room.after(1e-6, 8e-6 * 20) == 0.0


class Line:
    """error = a/logit + b."""

    def __init__(self, a, b):
        self.a, self.b, self.tried = a, b, []

    def __call__(self, logit):
        self.tried.append(logit)
        return Trial(logit, type("", (), {"error": self.a / logit + self.b})())


@pytest.mark.parametrize("start", [1e-2, 1.0, 50.0, 99.0, 101.0, 1e4, 1e9])
@pytest.mark.parametrize("b", [0.0, 1e-3, 0.5])
def test_lines_are_met_in_a_few_trials(start, b):
    line = Line(a=100.0 * (1 - b), b=b)  # 1 at the logit 100
    found = smallest_that_fits(line, start, 1.0)
    assert 1 - 1e-3 <= found.error <= 1.0
    assert len(line.tried) <= 5


@pytest.mark.parametrize("start", [1.0, 1e6])
def test_what_fits_nowhere_is_given_up_soon(start):
    line = Line(a=100.0, b=1.05)
    assert smallest_that_fits(line, start, 1.0) is None
    assert len(line.tried) <= 10


def test_sources_are_a_ledger_that_adds_up_to_any_total():
    sources = Sources(0.25, 0.75, {"first": 0.5, "second": 0.5})
    for total in (1.0, 0.75, 0.5, 0.125):
        shares = [share.amount for share in sources.shares(total, FLOAT64)]
        assert sum(map(Fraction, shares)) == Fraction(total)
        assert min(shares) >= 0.0
    assert [s.cause for s in sources.shares(1.0, FLOAT64)] == [
        "routing",
        "softening",
        "softening",
        "rounding",
    ]


def test_a_refusal_of_a_deep_chain_says_that_room_is_in_its_floor():
    deep, shallow = (str(_too_small(0.01, 0.1, 0.0, Room(FLOAT32, n))) for n in (8, 2))
    assert "room to prove it allow no less than 0.268" in deep
    assert "rounding alone, summed over the layers, allows no less than 0.107" in shallow
    assert isinstance(_too_small(0.01, 0.1, 0.0, Room(FLOAT32)), hm.PrecisionError)
