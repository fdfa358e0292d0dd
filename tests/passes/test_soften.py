"""Softening: the claim holds, its ledger adds up, and its constants are attained."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.analysis import follow
from hardmax.core import MARGIN, reference, trace
from hardmax.lowering import lower, routes_for
from hardmax.numerics import REALS, Interval, exact, softmax_gap
from hardmax.testing import boxes, networks, rational_points

IDENTITY_RELU = hm.ReluNetwork([np.ones((1, 1)), np.ones((1, 1))], [np.zeros(1), np.zeros(1)])


def random_relu(rng, *widths):
    shapes = list(zip(widths[1:], widths[:-1], strict=True))
    return hm.ReluNetwork(
        [rng.normal(size=shape) * math.sqrt(2 / shape[1]) for shape in shapes],
        [0.1 * rng.normal(size=shape[0]) for shape in shapes],
    )


def random_maxout(rng, rank, *widths):
    shapes = list(zip(widths[1:], widths[:-1], strict=True))
    return hm.MaxoutNetwork(
        [rng.normal(size=(rank, *shape)) / math.sqrt(shape[1]) for shape in shapes],
        [0.1 * rng.normal(size=(rank, shape[0])) for shape in shapes],
    )


def unit_maximum(n):
    """max(x_1, ..., x_n)."""
    return hm.MaxAffine(np.eye(n), np.zeros(n))


# --- the sharp constants, as equalities ---------------------------------------------------------


@pytest.mark.parametrize("beta", [1.0, 40.0, 1e4, 1e8])
def test_the_relu_gap_is_attained(beta):
    """At |z| = (1 + W(1/e))/beta the head misses relu(z) by exactly W(1/e)/beta."""
    hard = lower(IDENTITY_RELU, hm.Box([-4], [4]), "attention-only").transformer
    soft = hard.with_weightings([hm.Softmax(beta)])
    z = (1 + softmax_gap(2)) / beta
    for x in (z, -z):
        miss = max(x, 0.0) - reference(soft, [x])[0]
        assert miss == pytest.approx(softmax_gap(2) / beta, rel=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("beta", [1.0, 1e5])
def test_the_gap_of_a_maximum_head_is_attained(n, beta):
    """All losers at (1 + W((n-1)/e))/beta below the winner turn the bound into an equality."""
    hard = lower(unit_maximum(n), hm.Box(-9 * np.ones(n), np.ones(n)), "attention").transformer
    soft = hard.with_weightings([hm.Softmax(beta)])
    x = np.full(n, -(1 + softmax_gap(n)) / beta)
    x[n // 2] = 0.0
    assert -reference(soft, x)[0] == pytest.approx(softmax_gap(n) / beta, rel=1e-11)


@pytest.mark.parametrize("route", ["attention", "attention-only"])
def test_the_claim_for_one_relu_is_attained(route):
    """Centred, the error is c/(2 beta) far from 0 and -c/(2 beta) at the worst point: no slack."""
    construction = hm.compile(IDENTITY_RELU, on=(-1, 1), error=1e-3, route=route)
    (beta,) = {head.coldness for head in construction.transformer.heads}
    proved = construction.claim.error / (1 + MARGIN)
    assert proved == pytest.approx(softmax_gap(2) / (2 * beta), rel=1e-9)
    worst = (1 + softmax_gap(2)) / beta
    for x, sign in ((1.0, 1), (-1.0, 1), (worst, -1), (-worst, -1)):
        assert construction([x])[0] - max(x, 0.0) == pytest.approx(sign * proved, rel=1e-9)


@pytest.mark.parametrize("n", [2, 3, 16])
def test_the_claim_for_a_maximum_is_attained(n):
    construction = hm.compile(unit_maximum(n), on=(-1, 1), error=1e-3, route="attention")
    (beta,) = {head.coldness for head in construction.transformer.heads}
    proved = construction.claim.error / (1 + MARGIN)
    assert proved == pytest.approx(softmax_gap(n) / (2 * beta), rel=1e-9)
    x = np.full(n, -(1 + softmax_gap(n)) / beta)
    x[0] = 0.0
    assert construction(x)[0] == pytest.approx(-proved, rel=1e-9)
    x = np.full(n, -1.0)
    x[0] = 1.0
    assert construction(x)[0] - 1.0 == pytest.approx(proved, rel=1e-9)


def test_the_largest_logit_is_the_optimum():
    """One hidden layer: Lambda = c sum_h A_h R_h / error, centred c/2, for logits of +-z/2."""
    rng = np.random.default_rng(5)
    network = random_relu(rng, 3, 12, 1)
    box = hm.Box(-np.ones(3), np.ones(3))
    construction = hm.compile(network, on=box, error=1e-4, route="attention-only")
    weights, bias = network.weights[0], network.biases[0]
    reach = np.abs(weights).sum(axis=1)
    switching = np.abs(bias) < reach
    radius = (reach + np.abs(bias)) / 2
    sensitivity = np.abs(network.weights[1][0])
    budget = construction.claim.error / (1 + MARGIN)
    optimum = softmax_gap(2) / 2 * (sensitivity * radius)[switching].sum() / budget
    # The tolerance is the solver's own: it stops within a part in a thousand of the optimum.
    assert construction.bill.largest_logit == pytest.approx(optimum, rel=2e-3)


def test_every_head_reaches_the_largest_logit():
    network = random_relu(np.random.default_rng(6), 4, 10, 10, 2)
    construction = hm.compile(network, on=(-1, 1), error=1e-3, route="attention-only")
    flow = follow(construction.transformer, construction.claim.domain)
    logits = [head.largest_logit for head in flow.heads.values() if not head.constant]
    assert min(logits) == pytest.approx(max(logits), rel=1e-3)


def test_centring_halves_the_error_where_all_weights_agree_in_sign():
    """Nonnegative weights after the first layer: every shortfall pulls the answer down."""
    network = random_relu(np.random.default_rng(7), 2, 6, 6, 1)
    network = hm.ReluNetwork(
        [network.weights[0], *(np.abs(w) for w in network.weights[1:])],
        [network.biases[0], np.zeros(6) - 1.0, network.biases[2]],
    )
    hard = lower(network, hm.Box(-np.ones(2), np.ones(2)), "attention-only")
    coldness = dict.fromkeys(follow(hard.transformer, hard.claim.domain).heads, 100.0)
    everywhere = np.ones((2, hard.transformer.width), dtype=bool)
    plain, centred = (
        follow(
            hard.transformer,
            hard.claim.domain,
            skeleton=hard.transformer,
            coldness=coldness,
            format=REALS,
            centre=centre,
        ).error
        for centre in (None, everywhere)
    )
    assert centred == pytest.approx(plain / 2, rel=1e-9)


# --- the claim, on networks of every kind -------------------------------------------------------


@pytest.mark.parametrize("error", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("seed", [0, 1])
def test_measured_is_within_the_claim(seed, error):
    rng = np.random.default_rng(seed)
    sources = [
        random_relu(rng, 8, 32, 32, 1),
        random_relu(rng, 2, 5, 5, 5, 3),
        random_maxout(rng, 4, 4, 16, 16, 1),
        random_maxout(rng, 3, 2, 4, 2),
        hm.PiecewiseLinear.from_knots([-1, -0.25, 0.5, 1], [0.0, 1.0, -1.0, 2.0]),
        unit_maximum(5),
    ]
    for source in sources:
        for route in routes_for(source):
            construction = hm.compile(source, on=(-1, 1), error=error, route=route)
            measured = hm.measure(construction, 4000, seed=seed).error
            assert measured <= construction.claim.error <= error, (source, route)
            total = math.fsum(share.amount for share in construction.claim.ledger)
            assert total == construction.claim.error


@settings(max_examples=80, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_flow_encloses_skeleton_and_evaluation_everywhere(data):
    """Every stream coordinate after every sublayer: range and deviation are enclosures."""
    network = data.draw(networks())
    box = data.draw(boxes(network.inputs))
    route = data.draw(st.sampled_from(routes_for(network)))
    hard = lower(network, box, route)
    try:
        soft = hm.soften(hard, error=data.draw(st.sampled_from([1.0, 1e-2, 1e-5])))
    except hm.PrecisionError:
        return  # weights of 1e6 leave nothing to promise
    flow = follow(soft.transformer, box, skeleton=hard.transformer)
    # A float64 input, since the evaluation starts from one.
    x = [float(v) for v in data.draw(rational_points(box))]
    x = np.clip(x, box.low, box.high).tolist()
    skeleton = trace(hard.transformer, x, Fraction).streams
    evaluated = trace(soft.transformer, x).streams
    for place, exact_stream, stream in zip(flow.places, skeleton, evaluated, strict=True):
        exact_stream = np.array(exact_stream, dtype=object)
        assert place.range.contains(exact_stream).all()
        assert place.deviation.contains(exact(stream) - exact_stream).all()


@settings(max_examples=60, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(st.data())
def test_the_witness_stays_true_when_softened(data):
    network = data.draw(networks())
    box = data.draw(boxes(network.inputs))
    route = data.draw(st.sampled_from(routes_for(network)))
    try:
        soft = hm.compile(network, on=box, error=1e-2, route=route)
    except hm.PrecisionError:
        return
    x = np.clip([float(v) for v in data.draw(rational_points(box))], box.low, box.high)
    values = network.steps().values(exact(x))
    streams = trace(soft.transformer, x).streams
    for holding in soft.witness.holdings:
        stream = exact(streams[holding.sublayer + 1][holding.token])
        for c, components, error in zip(
            holding.coordinates, holding.components, holding.errors, strict=True
        ):
            held = max(values[holding.value][i] for i in components if i >= 0)
            assert abs(stream[c] - held) <= error


# --- hard constructions, and what floats allow --------------------------------------------------


def test_a_hard_construction_claims_its_rounding_only():
    network = random_relu(np.random.default_rng(8), 3, 7, 7, 2)
    for route in routes_for(network):
        construction = hm.compile(network, on=(-1, 1), error=None, route=route)
        assert construction.transformer.is_hard
        assert {share.cause for share in construction.claim.ledger} == {"rounding", "margin"}
        measured = hm.measure(construction, 2000).error
        assert measured <= construction.claim.error < 1e-11


def test_too_small_an_error_is_refused_with_the_smallest_possible():
    network = random_relu(np.random.default_rng(9), 3, 7, 7, 2)
    for route in routes_for(network):
        with pytest.raises(hm.PrecisionError, match="below what float64 can promise") as caught:
            hm.compile(network, on=(-1, 1), error=1e-16, route=route)
        least = float(str(caught.value).split("Ask for ")[1].split(" or more")[0])
        construction = hm.compile(network, on=(-1, 1), error=least, route=route)
        assert construction.claim.error <= least
        with pytest.raises(hm.PrecisionError):
            hm.compile(network, on=(-1, 1), error=least / 3, route=route)


@pytest.mark.parametrize("error", [0, -1.0, math.nan, math.inf, "small"])
def test_an_error_must_be_positive(error):
    with pytest.raises(hm.RequestError, match="error must be a number > 0"):
        hm.compile(IDENTITY_RELU, on=(-1, 1), error=error)


def test_soft_constructions_are_not_softened_again():
    soft = hm.compile(IDENTITY_RELU, on=(-1, 1), error=1e-2)
    with pytest.raises(hm.SemanticsError, match="soft already"):
        hm.soften(soft, error=1e-3)


def test_passes_leave_their_input_alone():
    hard = lower(IDENTITY_RELU, hm.Box([-1], [1]), "attention")
    before = hm.core.fingerprint(hard.transformer)
    hm.soften(hard, error=1e-2)
    assert hm.core.fingerprint(hard.transformer) == before
    assert hard.claim.ledger == ()


# --- the noises: what one head does to two neurons is the same ----------------------------------


def test_noises_of_one_head_cancel_along_paths_of_opposite_sign():
    """relu(h) feeds two neurons that switch, with output weights +1 and -1 and weights 1 and 1.

    Path weights are +1 and -1, so P = N = 1: the head counts once, where intervals count it
    twice. The two later heads count 1 each.
    """
    network = hm.ReluNetwork(
        [np.ones((1, 1)), np.ones((2, 1)), np.array([[1.0, -1.0]])],
        [np.zeros(1), np.array([-0.5, -0.25]), np.zeros(1)],
    )
    hard = lower(network, hm.Box([-1], [1]), "attention-only")
    beta = 100.0
    coldness = dict.fromkeys([(0, 0), (1, 0), (1, 1)], beta)
    centre = np.ones((2, hard.transformer.width), dtype=bool)
    flow = follow(
        hard.transformer,
        hard.claim.domain,
        skeleton=hard.transformer,
        coldness=coldness,
        centre=centre,
        format=REALS,
    )
    assert flow.error == pytest.approx(3 * softmax_gap(2) / (2 * beta), rel=1e-9)


@pytest.mark.parametrize("route", ["attention", "attention-only"])
@pytest.mark.parametrize("depth", [2, 3])
def test_the_logit_of_a_relu_network_is_that_of_its_path_weights(route, depth):
    """Lambda = c/2 sum_h max(P_h, N_h) R_h / error on a network where every neuron switches."""
    rng = np.random.default_rng(11)
    widths = [3] + [5] * depth + [1]
    network = hm.ReluNetwork(
        [rng.normal(size=(b, a)) for a, b in pairwise(widths)],
        [0.01 * rng.normal(size=b) for b in widths[1:]],
    )
    construction = hm.compile(network, on=(-1, 1), error=1e-3, route=route)
    flow = follow(construction.transformer, construction.claim.domain)
    logits = [head.largest_logit for head in flow.heads.values() if not head.constant]
    box, weighted = hm.Box.of((-1, 1), 3).interval, 0.0
    radii, middle, forms = [], np.zeros(3), np.eye(3)  # ranges by intervals and by affine forms
    for W, b in zip(network.weights[:-1], network.biases[:-1], strict=True):
        middle, forms = W @ middle + b, W @ forms
        reach = np.abs(forms).sum(axis=1)
        box = (W @ box + b).meet(Interval(middle - reach, middle + reach))
        radii.append(box.magnitude / 2)
        assert (box.lo < 0).all()
        assert (box.hi > 0).all()
        slope = box.hi / (box.hi - box.lo)  # max(z, 0) lies within -slope lo/2 of this line
        middle = slope * middle - slope * box.lo / 2
        forms = np.hstack([slope[:, None] * forms, np.diag(-slope * box.lo / 2)])
        box = box.maximum(0.0)
    low = high = network.weights[-1]  # the interval gradient with respect to the last ReLUs
    for W, radius in zip(network.weights[-2::-1], radii[::-1], strict=True):
        weighted += (np.maximum(np.abs(low), np.abs(high)) @ radius)[0]
        below, above = np.minimum(low, 0), np.maximum(high, 0)
        low, high = (
            below @ np.maximum(W, 0) + above @ np.minimum(W, 0),
            above @ np.maximum(W, 0) + below @ np.minimum(W, 0),
        )
    budget = construction.claim.error / (1 + MARGIN)
    optimum = softmax_gap(2) / 2 * weighted / budget
    if depth == 2:
        assert max(logits) == pytest.approx(optimum, rel=2e-3)
    else:  # deeper, neither bound contains the other; adding absolute values would cost twice this
        assert max(logits) <= 1.2 * optimum


# --- what a hostile reader tried ----------------------------------------------------------------


def test_neurons_that_touch_zero_at_the_edge_of_the_domain_need_no_head():
    """Nonnegative weights on [0,1]^d and no biases: z >= 0 with equality in a corner."""
    network = hm.ReluNetwork([[[0.55, 0.1]], [[1.0]]], [[0.0], [0.0]])
    for route, heads in (("attention-only", [0]), ("attention", [0])):
        construction = hm.compile(network, on=(0, 1), error=1e-3, route=route)
        assert [head.key_width for head in construction.transformer.heads] == heads
    never = hm.ReluNetwork([[[-0.55, -0.1]]] + [[[-1.5]]] * 7 + [[[1.0]]], [[0.0]] * 9)
    assert hm.compile(never, on=(0, 1), error=1e-3).bill.heads == 0


def test_the_smallest_error_is_honest_for_networks_of_any_scale():
    """Layers scaled by 1e-6 to 1e6: whatever is called possible is possible, and all above it."""
    rng = np.random.default_rng(0)
    for _ in range(12):
        widths = rng.integers(1, 5, rng.integers(3, 6)).tolist()
        network = hm.ReluNetwork(
            [rng.normal(size=(b, a)) * 10 ** rng.uniform(-6, 6) for a, b in pairwise(widths)],
            [rng.normal(size=b) for b in widths[1:]],
        )
        for route in routes_for(network):
            with pytest.raises(hm.PrecisionError, match="An error of 1e-300 is below") as caught:
                hm.compile(network, on=(-1, 1), error=1e-300, route=route)
            least = float(str(caught.value).split("Ask for ")[1].split(" or more")[0])
            for factor in (1, 1.5, 1e3):
                error = least * factor
                assert (
                    hm.compile(network, on=(-1, 1), error=error, route=route).claim.error <= error
                )


@pytest.mark.parametrize(
    ("network", "reach", "x"),
    [
        (hm.ReluNetwork([[[1e-310]], [[1e300]]], [[0.0], [0.0]]), 1.0, 0.7),
        (hm.ReluNetwork([[[1e-200]], [[1e300]], [[1e100]]], [[0.0]] * 3), 1e-120, 7e-121),
        (
            hm.MaxoutNetwork([[[[1e-200]], [[-1e-200]]], [[[1e300]]]], [[[0.0], [0.0]], [[0.0]]]),
            1e-120,
            7e-121,
        ),
    ],
)
def test_underflow_is_part_of_the_claim(network, reach, x):
    for route in routes_for(network):
        construction = hm.compile(network, on=(-reach, reach), error=None, route=route)
        exactly = network([Fraction(x)])[0]
        assert abs(Fraction(float(construction([x])[0])) - exactly) <= construction.claim.error


def test_an_error_may_be_any_real_number():
    for error in (np.float32(1e-3), Fraction(1, 1000), 1):
        assert hm.compile(IDENTITY_RELU, on=(-1, 1), error=error).claim.error <= error
    for error in (True, 10**400, 1j):
        with pytest.raises(hm.RequestError, match="must be a number > 0"):
            hm.compile(IDENTITY_RELU, on=(-1, 1), error=error)


def test_overflow_is_refused_in_one_sentence():
    network = random_relu(np.random.default_rng(1), 2, 4, 1)
    with pytest.raises(hm.DomainError, match="overflows float64"):
        hm.compile(network, on=(-1e308, 1e308))
