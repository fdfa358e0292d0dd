"""Functions of many waves: sums of sigmoids that follow them, and folds before the sigmoids."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, fmpq

import hardmax as hm
from hardmax.core import Box, evaluate
from hardmax.languages import parse
from hardmax.lowering.approximants import Curve, anchors_for, sigmoids_for
from hardmax.lowering.approximants._levelling import levelled_by_weights
from hardmax.lowering.approximants._waves import searched_for_waves, turns_beyond
from hardmax.lowering.gadgets import PI, Site, wave_by_folding
from hardmax.lowering.gadgets._folding import MOST_HALF_WAVES, fold_loss, folds_of
from hardmax.lowering.sketch import BoxAssembly, BoxSketch, register_ranges
from hardmax.numerics import FLOAT64, precision

ON = {"x": (-2, 2)}
EIGHT = " + ".join(f"sin({k}*x)" for k in range(1, 9))


def curve(text, low=-2.0, high=2.0):
    return Curve.of(parse(text, ("x",))[0], "x", low, high)


# ---- sums of sigmoids ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "error", "heads"),
    [("sin(8*x)", 1e-3, 6), ("sin(8*x)", 1e-6, 7), (EIGHT, 1e-3, 6), (EIGHT, 1e-6, 8)],
)
def test_a_sum_of_sigmoids_follows_waves(text, error, heads):
    fit = sigmoids_for(curve(text), error)
    assert fit.heads <= heads
    x = np.linspace(-2.0, 2.0, 5001)
    assert np.abs(fit.at(x) - curve(text).at(x)).max() <= fit.error <= error


def test_waves_within_waves_take_more_heads_than_there_are_turns():
    """sin^3 turns ten times, too, but holds the wave sin(24x)."""
    assert 10 < sigmoids_for(curve("sin(8*x)**3"), 1e-2).heads <= 18


def test_waves_below_the_error_are_none():
    assert sigmoids_for(curve("x + 1e-4*sin(60*x)"), 1e-3).heads == 0


def test_the_noise_of_floats_is_no_wave():
    """Rounded values of a function that only rises go down here and there, by less than 1e-13."""
    assert turns_beyond(curve("sqrt(log(x + 3)) + 100"), 1e-15) == 0


def test_weights_level_what_least_squares_leave():
    """The minimax fit's residual is level, and so a sixth lower than that of least squares."""
    state, problem, _ = searched_for_waves(curve("sin(8*x)"), 6, True, True, FLOAT64)
    level = levelled_by_weights(problem, state, 12)
    assert problem.worst(level) < 0.8 * problem.worst(state)
    left = np.abs(problem.residual(level)[0])
    tops = left[1:-1][(left[1:-1] >= left[:-2]) & (left[1:-1] >= left[2:])]
    assert np.median(tops) > 0.9 * left.max()


def test_anchors_follow_waves():
    fit = anchors_for(curve("sin(8*x)"), 1e-3)
    assert len(fit.anchors) <= 18
    x = np.linspace(-2.0, 2.0, 5001)
    assert np.abs(fit.at(x) - np.sin(8.0 * x)).max() <= fit.error <= 1e-3
    with pytest.raises(hm.PrecisionError, match="too often for one head over 16 anchors"):
        anchors_for(curve("sin(8*x)"), 1e-3, most_for_waves=16)


# ---- folds ---------------------------------------------------------------------------------------


def test_pi_is_known_to_sixty_digits():
    with precision(300):
        assert abs(float(arb(fmpq(PI.numerator, PI.denominator)) - arb.pi())) < 1e-60


@pytest.mark.parametrize(("low", "high"), [(-41, 41), (0, 320), (Fraction(-7, 3), Fraction(29, 7))])
def test_a_hard_fold_leaves_the_cosine_alone(low, high):
    """In rationals: after all folds v is moved by whole waves, or mirrored and so moved."""
    folds = folds_of(Fraction(low), Fraction(high))
    assert folds[-1].ends[1] - folds[-1].ends[0] <= MOST_HALF_WAVES
    for k in range(200):
        v = r = low + Fraction(k, 199) * (high - low)
        for fold in folds:
            r = fold.centre + fold.side * abs(r - fold.centre)
            assert fold.ends[0] <= r <= fold.ends[1]
        assert (r - v) % 2 == 0 or (r + v) % 2 == 0


def test_the_loss_of_a_fold_is_attained():
    """At b y/2 = u with u tanh u = 1, up to the fourth power of y, which is nothing here."""
    b, u = 1e4, 1.1996786402577337
    y = np.longdouble(2.0 * u / b)
    w = y * np.tanh(b * y / 2.0)
    pi = np.longdouble("3.14159265358979323846")
    lost = 2.0 * np.sin(pi * (y + w) / 2.0) * np.sin(pi * (y - w) / 2.0)
    assert float(lost / np.longdouble(float(fold_loss(Fraction(b))))) == pytest.approx(1, rel=1e-6)


def test_all_folds_have_the_same_logit_and_the_register_stays_small():
    sketch = BoxSketch(Box([-2.0], [2.0]))
    made = wave_by_folding(
        Site(sketch, 0, (sketch.input(0),), ((-2.0, 2.0),)), Fraction(64), Fraction(1), 1e-3
    )
    sketch.outputs = [made.form]
    ranges, folds = register_ranges(sketch), [m for m in sketch.makers if m.is_soft_maximum]
    logits = [m.coldness * max(map(abs, ranges.gates[i])) for i, m in enumerate(folds)]
    assert len(folds) == 5
    assert max(logits) <= 1.01 * min(logits)
    assert max(abs(float(m.gate.constant)) * m.coldness for m in folds) <= 1.01 * max(logits)
    x = np.linspace(-2.0, 2.0, 20001)
    found = evaluate(BoxAssembly(sketch).transformer, x[:, None])[:, 0]
    measured = float(np.abs(found - np.cos(64.0 * x + 1.0)).max())
    assert measured <= made.error <= 1e-3
    assert made.error <= 1.5 * measured
    assert made.softening <= 0.3 * 1e-3


@pytest.mark.parametrize(
    ("text", "on", "error", "heads"),
    [
        ("sin(8*x)", ON, 1e-3, 4),
        ("sin(64*x)", ON, 1e-3, 7),
        ("sin(64*x)", ON, 1e-6, 8),
        ("2*cos(x) + x/1000", {"x": (0, 1000)}, 1e-3, 10),
        ("exp(sin(30*x))", ON, 1e-2, 8),
        ("sin(10*(x + y))", {"x": (-2, 2), "y": (-2, 2)}, 1e-2, 6),
    ],
)
def test_long_waves_are_folded_and_proved(text, on, error, heads):
    model = hm.compile(text, on=on, error=error)
    assert model.route == "folded"
    assert model.bill.heads <= heads
    assert model.claim.error <= error
    assert hm.certify(model).verdict.name == "PROVED"


def test_folding_is_offered_where_it_pays():
    def routes(text, **on):
        return [offer.route for offer in hm.plan(text, on=on, error=1e-2).offers]

    assert "folded" in routes("sin(8*x)", x=(-2, 2))
    assert "folded" not in routes("sin(x)", x=(-2, 2))
    assert "folded" not in routes(EIGHT, x=(-2, 2))  # one sum follows all
    assert "folded" in routes("sin(8*(x - y)/2 + 1)", x=(-2, 2), y=(-2, 2))
    assert "folded" not in routes("sin(8/(x + y))", x=(0.2, 2), y=(0.2, 2))
    assert "folded" not in routes("sin(x*y)", x=(-4, 4), y=(-4, 4))  # the checker cannot follow


def test_a_wave_needs_a_frequency():
    sketch = BoxSketch(Box([-2.0], [2.0]))
    site = Site(sketch, 0, (sketch.input(0),), ((-2.0, 2.0),))
    with pytest.raises(hm.RequestError, match="frequency"):
        wave_by_folding(site, Fraction(0), Fraction(1), 1e-3)
