"""Guards of the rooms that people meet first: nan and infinity, shares of an error, refusals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import FeedForward, ReadOut, Share, Transformer
from hardmax.languages import CallableFunction, parse
from hardmax.languages.expressions._domain import Requirement, _refuted, _sampled
from hardmax.lowering import lower
from hardmax.numerics import record_of
from hardmax.testing import errors_at

INF, NAN = math.inf, math.nan
RELU = hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]])
BOX = hm.Box([-1.0], [1.0])


# --- measuring ------------------------------------------------------------------------------------


def loud(inner: float) -> FeedForward:
    """4 h - 4 h with h = relu(inner x): 0, and nan where h overflows."""
    return FeedForward(
        [[inner, 0.0], [inner, 0.0]], [0.0, 0.0], [[0.0, 0.0], [4.0, -4.0]], [0.0, 0.0]
    )


def nan_on_the_right() -> Transformer:
    source = hm.VectorInput([[[1.0], [0.0]]], np.zeros((1, 2)))
    return Transformer(source, [loud(2.0**1023)], ReadOut([[0.0, 1.0]], [0.0], 0))


@pytest.mark.parametrize("source", ["x", RELU])
def test_outputs_that_are_nan_are_infinitely_wrong(source):
    """A function's distance comes from intervals, a network's from floats."""
    made = hm.compile(source, on=(-1, 1), error=0.1)
    with np.errstate(all="ignore"):
        found = hm.measure(replace(made, transformer=nan_on_the_right()), 64)
    assert found.error == INF
    assert found.at[0] >= 0.25


def test_the_search_for_errors_takes_nan_for_the_worst():
    made = replace(hm.compile("x", on=(-1, 1), error=0.1), transformer=nan_on_the_right())
    with np.errstate(all="ignore"):
        found = errors_at(made, np.array([[-1.0], [0.0], [1.0]]))
    assert found.tolist() == [1.0, 0.0, INF]


def test_the_own_rounding_of_a_function_is_not_measured():
    """x/3 is known to within an interval; inside of it an output has error 0, not less."""
    made = hm.compile("x/3", on={"x": (1, 2)}, error=1e-3)
    assert hm.measure(made, 64).error == 0.0


def test_words_whose_outputs_are_nan_are_infinitely_wrong():
    reverse = hm.compile(hm.programs.reverse, alphabet="ab", length=2)
    made = reverse.transformer
    outer = np.tile([4.0, -4.0], (made.width, 1))
    layer = FeedForward(np.zeros((2, made.width)), [2.0**1023] * 2, outer, np.zeros(made.width))
    hurt = replace(made, sublayers=(*made.sublayers, layer))
    with np.errstate(all="ignore"):
        assert hm.measure(replace(reverse, transformer=hurt)).error == INF
    assert hm.measure(reverse).error <= reverse.claim.error


# --- softening ------------------------------------------------------------------------------------


def some_maxima() -> list[hm.Construction]:
    """Hard skeletons of maxima of three affine functions."""
    rng = np.random.default_rng(15)
    drawn = [hm.MaxAffine(rng.normal(size=(3, 1)), [0.0, 0.1, -0.1]) for _ in range(4)]
    return [lower(one, BOX, "attention") for one in drawn]


def test_a_claim_is_below_the_error_that_was_asked_for():
    """Asked for the very error that a model has, the solver goes on: with the margin and the
    roundings of its sum the claim is to stay below the error."""
    for hard in some_maxima():
        made = hm.soften(hard, error=1e-4)
        again = hm.soften(hard, error=made.claim.error)
        assert again.claim.error < made.claim.error * (1 - 0.9e-12)


def test_rounding_has_a_share_of_its_own():
    """Softening is accounted for over the reals, so what floats add is told apart, and is about
    what they add to the hard skeleton."""
    for hard in some_maxima():
        shares = {share.cause: share.amount for share in hm.soften(hard, error=1e-9).claim.ledger}
        kept = {share.cause: share.amount for share in hm.soften(hard, error=None).claim.ledger}
        assert 0.25 * kept["rounding"] <= shares["rounding"] <= 1e4 * kept["rounding"]
        assert shares["softening"] <= 1e-9


def test_witnesses_keep_the_errors_that_they_had():
    hard = some_maxima()[0]
    assert hard.witness is not None
    doubtful = [replace(one, errors=one.errors + 0.5) for one in hard.witness.holdings]
    soft, off = (
        hm.soften(one, error=1e-3).witness
        for one in (hard, replace(hard, witness=replace(hard.witness, holdings=doubtful)))
    )
    assert soft is not None
    assert off is not None
    for one, other in zip(soft.holdings, off.holdings, strict=True):
        assert (other.errors == one.errors + 0.5).all()
    assert any(one.errors.any() for one in soft.holdings)


def test_a_refusal_names_the_error_that_was_asked_for():
    """What the skeleton claims already counts: in what is asked, and in what can be reached."""
    hard = some_maxima()[0]
    claim = replace(hard.claim, ledger=(Share("approximation", "drawn", 0.5),))
    rough = replace(hard, claim=claim)
    with pytest.raises(
        hm.PrecisionError, match=r"An error of 0\.4 is below .* the 0\.5 claimed .*for 0\.536 or"
    ):
        hm.soften(rough, error=0.4)
    assert hm.soften(rough, error=0.54).claim.error <= 0.54


# --- functions and their domains ------------------------------------------------------------------


@pytest.mark.parametrize("ends", [(0, INF), (0, NAN), (-INF, 0), (NAN, 0)])
def test_both_ends_of_a_domain_are_finite(ends):
    with pytest.raises(hm.DomainError, match="give finite numbers for both ends"):
        hm.compile("x", on={"x": ends}, error=0.1)


@pytest.mark.parametrize("bad", [INF, -INF, NAN])
def test_a_callable_is_refused_at_the_point_where_it_is_not_finite(bad):
    """The third of four points, alone or among several outputs."""
    one = CallableFunction(lambda x: np.where(x == 2.0, bad, x), "x", lipschitz=1.0)
    points = np.array([[0.0], [1.0], [2.0], [3.0]])
    with pytest.raises(hm.DomainError, match=rf"gives \[{bad}\] at \[2\.0\]"):
        one(points)
    assert (one(points[:2]) == points[:2]).all()


def test_what_nobody_knows_is_not_called_a_pole():
    """3 x ends just below 233.5 pi, and its enclosure beyond: in floats both sides look alike."""
    end, pi = 244.52062820440557, Fraction("3.1415926535897932384626")
    assert 3 * Fraction(end) < Fraction(467, 2) * pi
    with pytest.raises(hm.DomainError, match="could not be proved that tan"):
        hm.compile("tan(3*x)", on={"x": (244.2, end)}, error=0.1)
    with pytest.raises(hm.DomainError, match="has a pole"):
        hm.compile("tan(3*x)", on={"x": (244.2, 244.6)}, error=0.1)


def test_a_zero_is_shown_as_zero():
    """It is found by bisection, which ends at 1e-19 or so."""
    with pytest.raises(hm.DomainError, match="not defined at x = 0, which lies"):
        hm.compile("1/x", on={"x": (-1, 2)}, error=0.1)
    with pytest.raises(hm.DomainError, match="not defined at x = 1e-10, which lies"):
        hm.compile("1/(x - 1e-10)", on={"x": (-1, 2)}, error=0.1)


def test_the_range_that_is_shown_is_that_of_finite_values():
    """1/x is positive nowhere below 0, and at 0 it has no value at all."""
    (node,) = parse("log(1/x)")
    needed = Requirement(node, node.arguments[0], record_of("log").condition)
    domain: dict[str, Any] = {"x": (-1.0, 1.0)}
    found = _refuted(needed, domain, _sampled(domain))
    assert found is not None
    assert found.certain
    assert -INF < found.low <= -1.0
    assert 1.0 <= found.high < INF
