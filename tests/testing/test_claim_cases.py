"""True errors from rationals and balls, and claims around them."""

from __future__ import annotations

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.claim_cases import claims_part

from benchmarks import claim_cases
from hardmax.checker import Verdict
from hardmax.core import (
    Affine,
    Attention,
    Box,
    FeedForward,
    Head,
    ReadOut,
    Softmax,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
    Words,
    evaluate,
    reference,
)
from hardmax.numerics import precision
from hardmax.testing import (
    Kind,
    StepsTarget,
    claim_case,
    claim_fault,
    claims_around,
    random_sequence_transformer,
    random_vector_transformer,
    steps_of_transformer,
)
from hardmax.testing.truth import (
    BITS,
    Balls,
    Rationals,
    ball_of,
    ends_of,
    largest_error_on_cells,
    largest_error_on_line,
    largest_error_on_words,
    outputs_on_vector,
    outputs_on_word,
    values_of_steps,
)
from hardmax.testing.truth._arithmetic import Jet

HARD = Kind(coarse=True, hard=1.0)
SOFT = Kind(coarse=False, hard=0.0)
ZERO = Steps(1, [Affine((0,), np.zeros((1, 1)), np.zeros(1))])


def rng(seed):
    return np.random.default_rng(seed)


# ---- the meaning -------------------------------------------------------------------------------


def test_rationals_mean_what_the_reference_means():
    for seed in range(20):
        model = random_vector_transformer(rng(seed), 2, 2, HARD)
        x = [Fraction(int(v), 4) for v in rng(seed).integers(-8, 9, 2)]
        assert outputs_on_vector(model, x, Rationals()) == reference(model, x, Fraction)
        model = random_sequence_transformer(rng(seed), 2, 3, 2, HARD)
        word = "".join(rng(seed).choice(["a", "b"], 3))
        expected = reference(model, word, Fraction)
        found = outputs_on_word(model, word, Rationals())
        assert found == (expected if model.readout.token is None else [expected])


def test_balls_hold_what_floats_compute():
    for seed in range(20):
        model = random_vector_transformer(rng(seed), 2, 1, SOFT)
        x = rng(seed).normal(size=2)
        with precision(BITS):
            ball = outputs_on_vector(model, [ball_of(Fraction(v)) for v in x], Balls())[0]
            assert float(ball.rad()) < 1e-40
            assert float(ball) == pytest.approx(evaluate(model, x)[0], rel=1e-11, abs=1e-11)


def test_a_soft_transformer_and_its_steps_are_one_function():
    for seed in range(12):
        model = random_vector_transformer(rng(seed), 2, 2, SOFT)
        steps = steps_of_transformer(model)
        x = [Fraction(v) for v in rng(seed).normal(size=2)]
        with precision(BITS):
            point = [ball_of(v) for v in x]
            ours = outputs_on_vector(model, point, Balls())
            theirs = values_of_steps(steps, point, Balls())
            _, high = ends_of([a - b for a, b in zip(ours, theirs, strict=True)])
        assert high < Fraction(1, 10**40)


# ---- the truth ---------------------------------------------------------------------------------


def chooser(*sublayers):
    """Token 0 holds x, 1 and 0; the others offer 0 with score 0 and 1 with score x."""
    maps, offsets = np.zeros((3, 3, 1)), np.zeros((3, 3))
    offsets[:, 0] = 1.0
    maps[2, 1] = 1.0
    offsets[2, 2] = 1.0
    offsets[0, 1] = -9.0
    head = Head([[1.0, 0, 0]], [[0, 1.0, 0]], [[0, 0, 1.0]], [[0], [0], [1.0]])
    source = VectorInput(maps, offsets)
    return Transformer(source, [Attention([head]), *sublayers], ReadOut([[0, 0, 1.0]], [0.0], 0))


TENT = FeedForward(
    [[0, 0, 1.0], [0, 0, 1.0]],
    [0.0, -0.5],
    [[0.0, 0.0], [0.0, 0.0], [0.0, -2.0]],
    [0.0, 0.0, 0.0],
)


def test_ties_count_on_walls_and_on_faces():
    """h is 0, 1/2, 1 for x < 0, = 0, > 0, and h - 2 relu(h - 1/2) is 0 but for the tie."""
    tent = chooser(TENT)
    for low, high, error in ((-1, 1, 0.5), (0, 1, 0.5), (-1, 0, 0.5), (0.125, 1, 0.0)):
        found = largest_error_on_cells(tent, ZERO, Box([low], [high]))
        assert found == Fraction(error)
    assert largest_error_on_cells(chooser(), ZERO, Box([-1], [1])) == 1


def test_a_maximum_against_its_own_slope():
    """max(x, y) - x/2 - y/2 on [0,1] x [0,2] is |x - y|/2: at most 1."""
    maps = np.zeros((2, 2, 2))
    maps[0, 1], maps[1, 1] = [1.0, 0.0], [0.0, 1.0]
    head = Head([[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]], [[0.0], [1.0]])
    model = Transformer(
        VectorInput(maps, np.array([[1.0, 0.0], [1.0, 0.0]])),
        [Attention([head])],
        ReadOut([[0.0, 1.0]], [0.0], 0),
    )
    target = Steps(2, [Affine((0,), [[1.5, 0.5]], [0.0])])
    assert largest_error_on_cells(model, target, Box([0, 0], [1, 2])) == 1


def test_cells_hold_every_sample():
    for seed in range(24):
        case = claim_case(8 * seed + 1, 5)
        assert case.family == "cells"
        seen = 0
        for x in case.domain.sample(40, rng(seed)):
            low, high = case.error_at(tuple(x.tolist())) or (0, 0)
            assert low <= case.high
            seen = max(seen, high)
        assert case.high == 0 or seen > case.low / 1000


def test_the_line_is_bracketed():
    """x - x^2 on [0, 1] is largest inside, |x| - x on [-1, 1/2] at an end, a jump on one side."""
    one = Transformer(
        VectorInput(np.ones((1, 1, 1)), np.zeros((1, 1))), [], ReadOut([[1.0]], [0.0], 0)
    )
    square = Steps(1, [Univariate((0,), "power", 1, 2.0)])
    low, high = largest_error_on_line(one, square, Box([0.0], [1.0]))
    assert low <= Fraction(1, 4) <= high <= low * (1 + Fraction(1, 2**24))
    size = Steps(1, [Univariate((0,), "abs", 1)])
    low, high = largest_error_on_line(one, size, Box([-1.0], [0.5]))
    assert low == 2 <= high <= 2 + Fraction(1, 2**23)
    low, high = largest_error_on_line(chooser(), ZERO, Box([-1.0], [1.0]))
    assert low == 1 <= high <= 1 + Fraction(1, 2**24)


def test_the_line_agrees_with_cells():
    """Hard models of one input, known both ways."""
    both = 0
    for number in range(1, 200, 8):
        case = claim_case(number, 6)
        if case.domain.dimension == 1 and case.high > 0:
            ends = largest_error_on_line(
                case.transformer, case.target.steps(), case.domain, close=2.0**-20, most=200
            )
            if ends is not None:
                assert ends[0] <= case.low <= ends[1]
                both += 1
    assert both >= 2


def test_words_are_tried_one_by_one():
    drawn = (claim_case(number, 3) for number in range(0, 80, 2))
    case = next(c for c in drawn if c.transformer.is_hard and c.high > 0)
    assert isinstance(case.domain, Words)
    sizes = []
    for length in case.domain.lengths:
        for word in np.ndindex(*[len(case.domain.alphabet)] * length):
            symbols = tuple(case.domain.alphabet[i] for i in word)
            rows = outputs_on_word(case.transformer, symbols, Rationals())
            sizes += [
                abs(a - b)
                for r, t in zip(rows, case.target(symbols), strict=True)
                for a, b in zip(r, t, strict=True)
            ]
    assert max(sizes) == case.high
    assert largest_error_on_words(case.transformer, case.target, case.domain)[0] == max(sizes)


# ---- the law -----------------------------------------------------------------------------------


def said(case, verdict, claimed, **changes):
    low, high = float(case.low), float(case.high)
    numbers = {"certified": 2 * high, "measured": low / 2, "worst": None}
    return SimpleNamespace(verdict=verdict, claimed=claimed, **(numbers | changes))


@pytest.mark.parametrize("number", range(8))
def test_the_law_catches_what_is_false_by_a_hair(number):
    case = claim_case(number, 2)
    claims = dict(claims_around(case, rng(number)))
    assert claims["below"] < case.low <= case.high <= claims["above"]
    low, high = float(case.low) * (1 - 1e-15), float(case.high) * (1 + 1e-15)
    assert claim_fault(case, said(case, Verdict.UNDECIDED, 1.0)) is None
    lies = [
        said(case, Verdict.PROVED, claims["below"]),
        said(case, Verdict.REFUTED, claims["above"]),
        said(case, Verdict.UNDECIDED, 1.0, certified=low),
        said(case, Verdict.UNDECIDED, 1.0, measured=high),
    ]
    words = ("PROVED", "REFUTED", "certified", "measured")
    assert [claim_fault(case, lie).split()[0] for lie in lies] == list(words)


def test_claims_above_are_true_by_nothing_or_by_a_billionth_a_millionth_two_percent():
    """The four distances are the promise of the campaign; below, 2^-20 is the most."""
    case = claim_case(3, 2)
    distances, shortfalls = set(), set()
    for number in range(60):
        claims = dict(claims_around(case, rng(number)))
        distances.add(round(float(Fraction(claims["above"]) / case.high - 1), 12))
        shortfalls.add(float(1 - Fraction(claims["below"]) / case.low))
    assert distances == {0.0, 1e-9, 1e-6, 0.02}
    assert 0 < min(shortfalls) < 2.0**-52
    assert 2.0**-45 < max(shortfalls) <= 2.0**-20


def test_what_is_measured_must_be_attained_where_it_is_said_to_be():
    case = claim_case(9, 2)
    samples = [tuple(x) for x in case.domain.sample(20, rng(0)).tolist()]
    attained, point = min((case.error_at(x)[1], x) for x in samples)
    honest = said(case, Verdict.UNDECIDED, 1.0, measured=float(attained) * 0.999, worst=point)
    assert claim_fault(case, honest) is None
    between = float((attained + case.high) / 2)
    assert between > attained
    lie = said(case, Verdict.UNDECIDED, 1.0, measured=between, worst=point)
    assert str(point) in claim_fault(case, lie)


# ---- as a part of the campaign -----------------------------------------------------------------


def test_no_claim_around_the_truth_is_misjudged():
    found = claims_part(0, 16, 0)
    assert (found["cases"], found["false"], found["crashes"]) == (16, 0, 0), found["failures"]
    assert found["proved"] >= 4
    assert found["refuted"] >= 4


def test_the_part_notices_liars_and_crashes(monkeypatch):
    def agree(construction, budget):
        error = construction.claim.error
        return SimpleNamespace(
            verdict=Verdict.PROVED, claimed=error, certified=error, measured=0.0, worst=None
        )

    monkeypatch.setattr(claim_cases, "certify", agree)
    found = claims_part(0, 4, 0)
    assert found["false"] == len(found["failures"]) == 4
    assert "below the truth: PROVED" in found["failures"][0][1]
    monkeypatch.setattr(claim_cases, "certify", lambda construction, budget: 1 / 0)
    assert claims_part(0, 2, 0)["crashes"] == 4


def test_a_case_depends_on_its_number_and_the_seed_alone():
    for number in range(4):
        one, two, other = claim_case(number, 1), claim_case(number, 1), claim_case(number, 2)
        assert (one.low, one.high) == (two.low, two.high)
        assert one.high != other.high
    assert isinstance(claim_case(1, 0).target, StepsTarget)


def test_coldness_is_part_of_the_meaning():
    """Two tokens with scores 0 and 1: e^c / (1 + e^c) of the second, whatever the coldness c."""
    for coldness in (0.5, 3.0):
        maps, offsets = np.zeros((2, 2, 1)), np.array([[1.0, 0.0], [1.0, 1.0]])
        head = Head([[1.0, 0]], [[0, 1.0]], [[0, 1.0]], [[1.0], [0]], Softmax(coldness))
        model = Transformer(
            VectorInput(maps, offsets), [Attention([head])], ReadOut([[1.0, 0]], [-1.0], 0)
        )
        with precision(BITS):
            ball = outputs_on_vector(model, [ball_of(Fraction(0))], Balls())[0]
        assert float(ball) == pytest.approx(1 / (1 + np.exp(-coldness)), rel=1e-14)


def test_jets_are_power_series():
    """Sums, differences, products and functions of jets, against series of balls."""
    a, b = Jet(Fraction(2), Fraction(3), Fraction(5)), Jet(Fraction(-1), Fraction(4), Fraction(7))
    assert a + b == Jet(1, 7, 12)
    assert a - b == Jet(3, -1, -2)
    assert a * b == Jet(-2, 2 * 4 - 3, 2 * 7 + 3 * 4 - 5)
    # exp(log 2 + 3 t + 5 t^2 + ...) = 2 (1 + 3 t + (5 + 9/2) t^2 + ...)
    assert a.through(Fraction(2), Fraction(2), Fraction(1)) == Jet(2, 6, 2 * 5 + 9)
