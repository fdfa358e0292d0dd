"""The lemmas behind `follow`, each attained at its extremal point."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.analysis import follow, rounding_bound
from hardmax.core import reference
from hardmax.numerics import REALS, softmax_gap


def prompt_of_scores(scores, values, coldness=None, *, vary=()):
    """One head that scores token j by scores[j] and takes values[j]; asked by the last token.

    Coordinates: score, value, a constant 1, the result. Tokens in `vary` add the input to their
    value, so that it is not known beforehand.
    """
    n = len(scores)
    offsets = np.zeros((n, 4))
    offsets[:, 0], offsets[:, 1], offsets[:, 2] = scores, values, 1.0
    maps = np.zeros((n, 4, 1))
    maps[list(vary), 1, 0] = 1.0
    weighting = hm.Hardmax() if coldness is None else hm.Softmax(coldness)
    row = np.eye(4)
    head = hm.Head(row[2:3], row[0:1], row[1:2], row[3:4].T, weighting)
    readout = hm.ReadOut(row[3:4], np.zeros(1))
    return hm.Transformer(hm.VectorInput(maps, offsets), [hm.Attention([head])], readout)


@pytest.mark.parametrize("n", [2, 3, 9])
@pytest.mark.parametrize("exponent", [0.1, 1.0, 12.0])
def test_the_leak_of_a_selection_is_attained(n, exponent):
    """All losers tie at the gap and hold the other end of the spread: (n-1)/(e^(beta gap)+n-1)."""
    scores, values = [0.0] * (n - 1) + [2.0], [0.0] * (n - 1) + [1.0]
    hard = prompt_of_scores(scores, values)
    soft = prompt_of_scores(scores, values, exponent / 2)
    leak = (n - 1) / (math.exp(exponent) + n - 1)
    assert 1.0 - reference(soft, [0.0])[0] == pytest.approx(leak, rel=1e-12)
    flow = follow(soft, hm.Box([0], [0]), skeleton=hard, format=REALS)
    assert flow.answer.deviation.lo[0, 0] == pytest.approx(-leak, rel=1e-9)


def moving_query(gap, coldness=None):
    """A head whose score of token 1 is x, of token 0 is x - gap: a selection with moving scores."""
    offsets = np.array([[0.0, 0.0, -gap, 0.0], [0.0, 1.0, 0.0, 0.0]])
    maps = np.zeros((2, 4, 1))
    maps[:, 0, 0] = 1.0
    row = np.eye(4)
    weighting = hm.Hardmax() if coldness is None else hm.Softmax(coldness)
    key = np.array([[1.0, 0.0, 1.0, 0.0]])
    offsets[:, 3] = 1.0
    query = row[3:4]
    head = hm.Head(query, key, row[1:2], 0.5 * row[1:2].T, weighting)
    source = hm.VectorInput(maps, offsets)
    return hm.Transformer(source, [hm.Attention([head])], hm.ReadOut(row[1:2], np.zeros(1)))


def test_a_selection_with_moving_scores_leaks_no_more_than_the_lemma_says():
    """Scores in [-1/4, 1/4] and 2 below: the guaranteed gap is 3/2, and it is attained."""
    hard, soft = moving_query(2.0), moving_query(2.0, 3.0)
    box = hm.Box([-0.25], [0.25])
    flow = follow(soft, box, skeleton=hard, format=REALS)
    assert flow.heads[0, 0].lemmas == {"selection"}
    promised = -flow.answer.deviation.lo[0, 0]
    assert promised == pytest.approx(0.5 / (math.exp(3.0 * 1.5) + 1), rel=1e-9)
    seen = max(reference(hard, [x])[0] - reference(soft, [x])[0] for x in (-0.25, 0.0, 0.25))
    assert seen == pytest.approx(0.5 / (math.exp(3.0 * 2.0) + 1), rel=1e-9)
    assert seen <= promised


@pytest.mark.parametrize("n", [2, 3, 10])
def test_the_mean_deviation_under_a_softmax_is_at_most_twice_the_gap(n):
    """sum p_j |V_j - m| <= 2 c_n / beta, with equality at the extremal point of the gap."""
    c = softmax_gap(n)
    values = np.array([0.0] + [-(1 + c)] * (n - 1))
    p = np.exp(values) / np.exp(values).sum()
    mean = p @ values
    assert p @ np.abs(values - mean) == pytest.approx(2 * p[0] * -mean, rel=1e-12)
    assert p @ np.abs(values - mean) <= 2 * c
    assert -mean == pytest.approx(c, rel=1e-12)


def test_in_place_maxima_are_seen_as_maxima():
    """Two rounds of a + relu(b - a): ranges are those of a maximum, deviations add per round."""
    function = hm.MaxAffine(np.eye(4), np.zeros(4))
    box = hm.Box(-np.ones(4), np.ones(4))
    hard = hm.lowering.lower(function, box, "attention-only").transformer
    soft = hard.with_weightings([hm.Softmax(50.0)] * 3)
    flow = follow(soft, box, skeleton=hard, format=REALS)
    assert flow.answer.range.lo[0, 0] == pytest.approx(-1.0, abs=1e-12)
    assert flow.answer.range.hi[0, 0] == pytest.approx(1.0, abs=1e-12)
    assert flow.answer.deviation.lo[0, 0] == pytest.approx(-2 * softmax_gap(2) / 50, rel=1e-9)
    assert flow.answer.deviation.hi[0, 0] == pytest.approx(0.0, abs=1e-12)


def test_the_tournament_bound_is_attained():
    """Ties at the extremal distance in both rounds: each round loses its full gap."""
    function = hm.MaxAffine(np.eye(4), np.zeros(4))
    box = hm.Box(-np.ones(4), np.ones(4))
    beta, c = 50.0, softmax_gap(2)
    hard = hm.lowering.lower(function, box, "attention-only").transformer
    soft = hard.with_weightings([hm.Softmax(beta)] * 3)
    step = (1 + c) / beta
    x = np.array([0.0, -step, -step, -2 * step])
    # First round: both pairs lose c/beta. Second round: they differ by the extremal step again.
    assert -reference(soft, x)[0] == pytest.approx(2 * c / beta, rel=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_rounding_bounds_hold_in_narrow_formats(dtype):
    """The same evaluation with every operation rounded to the format stays within the bound."""
    rng = np.random.default_rng(0)
    network = hm.ReluNetwork(
        [rng.normal(size=(6, 2)), rng.normal(size=(1, 6))], [rng.normal(size=6), rng.normal(size=1)]
    )
    construction = hm.compile(network, on=(-1, 1), error=1e-1, route="attention-only")
    bound = rounding_bound(construction.transformer, construction.claim.domain, dtype)[0]
    for _ in range(200):
        x = rng.uniform(-1, 1, 2).astype(dtype)
        exact = reference(construction.transformer, x.astype(float))[0]
        assert abs(float(narrow(construction.transformer, x, dtype)) - exact) <= bound


def narrow(transformer, x, dtype):
    """A plain evaluation of the two-token prompt in which NumPy rounds every operation."""
    cast = np.dtype(dtype).type
    source, readout = transformer.input, transformer.readout
    stream = [(source.maps[t].astype(dtype) @ x + source.offsets[t].astype(dtype)) for t in (0, 1)]
    change = np.zeros_like(stream[1])
    for head in transformer.heads:
        query = (head.query * (head.coldness if head.key_width else 1.0)).astype(dtype) @ stream[1]
        keys = [head.key.astype(dtype) @ token for token in stream]
        values = [head.value.astype(dtype) @ token for token in stream]
        scores = np.array([cast((query * key).sum()) for key in keys], dtype=dtype)
        powers = np.exp(scores - scores.max())
        weights = powers / powers.sum()
        change = change + head.output.astype(dtype) @ (
            weights[0] * values[0] + weights[1] * values[1]
        )
    return (readout.weights.astype(dtype) @ (stream[1] + change) + readout.bias.astype(dtype))[0]


# --- constant scores: ties, rounding and leaks, each from a counterexample ------------------------


def test_an_exact_tie_is_decided_exactly_beyond_float64():
    """Two key rows whose scores differ by less than float64 computes: no tie, one winner."""
    a, b = 255 + 255 / 256, 255 + 254 / 256
    offsets = np.array([[a, b, 1.0, 0.0, 1.0], [b, a, 0.0, 0.0, 1.0]])
    head = hm.Head(
        np.array([[0, 0, 0, 0, a], [0, 0, 0, 0, -b]]),
        np.array([[a, 0, 0, 0, 0], [0, b, 0, 0, 0]]),
        np.array([[0, 0, 1.0, 0, 0]]),
        np.array([[0], [0], [0], [1.0], [0]]),
    )
    source = hm.VectorInput(np.zeros((2, 5, 1)), offsets)
    readout = hm.ReadOut(np.array([[0, 0, 0, 1.0, 0]]), np.zeros(1))
    transformer = hm.Transformer(source, [hm.Attention([head])], readout)
    (exact,) = reference(transformer, [0], Fraction)
    flow = follow(transformer, hm.Box([0], [0]), skeleton=transformer)
    assert flow.answer.range[:, 0].contains(np.array([exact], dtype=object)).all()
    (seen,) = reference(transformer, [0.0])
    assert flow.answer.deviation[:, 0].contains(np.array([Fraction(seen) - exact])).all()


def test_scores_that_underflow_are_no_tie():
    transformer = prompt_of_scores([1e-200, 0.0], [0.0, 1.0])
    head = transformer.heads[0]
    tiny = hm.Head(head.query * 1e-200, head.key, head.value, head.output)
    transformer = hm.Transformer(transformer.input, [hm.Attention([tiny])], transformer.readout)
    (exact,) = reference(transformer, [0], Fraction)
    flow = follow(transformer, hm.Box([0], [0]), skeleton=transformer)
    assert flow.answer.range[:, 0].contains(np.array([exact], dtype=object)).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_constants_that_a_narrow_format_does_not_hold_are_rounded(dtype):
    """Scores 100 + 1/32 and 100 tie in float16: the weight moves from sigmoid(1) to 1/2."""
    transformer = prompt_of_scores([100.03125, 100.0], [1.0, 0.0], 32.0)
    bound = rounding_bound(transformer, hm.Box([0], [0]), dtype)[0]
    assert bound >= (0.2310 if dtype in ("float16", "bfloat16") else 0.0)
    assert bound < (2.0 if dtype != "float32" else 0.01)


def test_rounding_bounds_are_infinite_where_the_format_overflows():
    network = hm.ReluNetwork([[[1e25]], [[1e20]], [[1e-35]]], [[0.0], [0.0], [0.0]])
    construction = hm.compile(network, on=(-1, 1), error=1e3, route="feedforward")
    transformer, domain = construction.transformer, construction.claim.domain
    assert rounding_bound(transformer, domain, "float32")[0] == math.inf
    assert rounding_bound(transformer, domain)[0] < 1e3


def test_constant_scores_say_nothing_of_the_head_beside_them():
    """In one group: a head that averages by known weights, and one that takes max(x, 0)."""
    offsets = np.array([[0.0, 0.0, 1.0, 0.0, 0.0], [2.0, 0.0, 1.0, 0.0, 0.0]])
    maps, row = np.zeros((2, 5, 1)), np.eye(5)
    maps[0, 1, 0] = 1.0  # x on the token that scores 0

    def model(weighting):
        heads = [
            hm.Head(row[2:3], row[key : key + 1], row[1:2], row[out : out + 1].T, weighting)
            for key, out in ((0, 3), (1, 4))
        ]
        readout = hm.ReadOut(row[3:5], np.zeros(2))
        return hm.Transformer(hm.VectorInput(maps, offsets), [hm.Attention(heads)], readout)

    coldness = 1.5
    soft, hard = model(hm.Softmax(coldness)), model(hm.Hardmax())
    flow = follow(soft, hm.Box([-1], [1]), skeleton=hard, format=REALS)
    assert flow.heads[0, 0].lemmas == {"constant"}
    assert flow.heads[0, 1].lemmas == {"contest"}
    leak = 1.0 / (math.exp(2.0 * coldness) + 1.0)
    low, high = flow.answer.deviation.lo[:, 0], flow.answer.deviation.hi[:, 0]
    assert low == pytest.approx([-leak, -softmax_gap(2) / coldness], rel=1e-9)
    assert high == pytest.approx([leak, 0.0], rel=1e-9, abs=1e-15)
