"""Every route is exact in the hard semantics: rationals and ==, ties and dead units included."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.core import Holding, trace
from hardmax.lowering import lower, routes_for
from hardmax.testing import boxes, by_definition, networks, rational_points

SEEDS = range(6)


def full_precision_networks(seed):
    """Weights with all 53 bits in use, so that any sum of two of them would be rounded."""
    rng = np.random.default_rng(seed)

    def arrays(*shapes):
        return [rng.normal(size=shape) for shape in shapes]

    yield hm.ReluNetwork(arrays((5, 3), (4, 5), (2, 4)), arrays(5, 4, 2))
    yield hm.ReluNetwork(arrays((6, 2), (5, 6), (4, 5), (1, 4)), arrays(6, 5, 4, 1))
    yield hm.MaxoutNetwork(arrays((3, 4, 2), (2, 3, 4), (4, 1, 3)), arrays((3, 4), (2, 3), (4, 1)))
    yield hm.MaxoutNetwork(arrays((2, 3, 2), (1, 2, 3)), arrays((2, 3), (1, 2)))
    plus, minus = (hm.MaxAffine(*arrays((k, 2), k)) for k in (5, 3))
    yield plus
    yield hm.PiecewiseLinear(plus, minus)


@pytest.mark.parametrize("seed", SEEDS)
def test_hard_routes_equal_the_network_exactly(seed):
    rng = np.random.default_rng(seed)
    for network in full_precision_networks(seed):
        box = hm.Box(-np.ones(network.inputs), np.ones(network.inputs))
        for route in routes_for(network):
            construction = lower(network, box, route)
            for _ in range(8):
                x = [Fraction(int(k), 997) for k in rng.integers(-997, 998, network.inputs)]
                assert list(construction(x)) == by_definition(network, x), (network, route)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_hard_routes_are_exact_on_awkward_networks(data):
    network = data.draw(networks())
    box = data.draw(boxes(network.inputs))
    x = data.draw(rational_points(box))
    for route in routes_for(network):
        construction = lower(network, box, route)
        assert list(construction(x)) == by_definition(network, x), route


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_witness_of_a_hard_construction_is_exactly_true(data):
    network = data.draw(networks())
    box = data.draw(boxes(network.inputs))
    x = data.draw(rational_points(box))
    values = network.steps().values(np.array(list(x), dtype=object))
    for route in routes_for(network):
        construction = lower(network, box, route)
        streams = trace(construction.transformer, x, Fraction).streams
        assert construction.witness.holdings or not construction.transformer.sublayers
        for holding in construction.witness.holdings:
            assert distances(holding, streams, values) == [0] * len(holding.coordinates), route


def distances(holding: Holding, streams, values):
    stream = streams[holding.sublayer + 1][holding.token]
    held = [
        max(values[holding.value][c] for c in components if c >= 0)
        for components in holding.components
    ]
    return [abs(stream[c] - v) for c, v in zip(holding.coordinates, held, strict=True)]


def test_ties_and_dead_units_by_hand():
    """relu(x) - relu(-x) at 0, a repeated neuron, one that never fires, one that always does."""
    weights = [[[1.0], [-1.0], [1.0], [0.5], [0.25]], [[1.0, -1.0, 2.0, 3.0, 1.0]]]
    biases = [[0.0, 0.0, 0.0, -7.0, 2.0], [-2.0]]
    network = hm.ReluNetwork([np.array(w) for w in weights], [np.array(b) for b in biases])
    for route in routes_for(network):
        construction = lower(network, hm.Box([-1], [1]), route)
        for x in (Fraction(0), Fraction(-1), Fraction(1), Fraction(1, 3)):
            assert list(construction([x])) == by_definition(network, [x])
        heads = construction.bill.heads
        assert heads == {"attention": 4, "attention-only": 4, "feedforward": 0}[route]


def test_neurons_of_fixed_sign_need_no_head():
    """Three neurons: always on, always off, switching. One head and one averaging head remain."""
    network = hm.ReluNetwork(
        [np.array([[1.0], [1.0], [1.0]]), np.array([[1.0, 2.0, 3.0]])],
        [np.array([5.0, -5.0, 0.0]), np.array([0.0])],
    )
    construction = lower(network, hm.Box([-1], [1]), "attention-only")
    key_widths = sorted(head.key_width for head in construction.transformer.heads)
    assert key_widths == [0, 1]
    wide = lower(network, hm.Box([-9], [9]), "attention-only")
    assert [head.key_width for head in wide.transformer.heads] == [1, 1, 1]


def test_dominated_pieces_need_no_token():
    function = hm.MaxAffine(np.array([[1.0], [-1.0], [0.5]]), np.array([0.0, 0.0, -3.0]))
    construction = lower(function, hm.Box([-1], [1]), "attention")
    assert construction.transformer.tokens == 2
    assert lower(function, hm.Box([-9], [9]), "attention").transformer.tokens == 3
    kinked = hm.MaxAffine(np.array([[1.0], [-1.0], [0.5]]), np.array([0.0, 0.0, 0.25]))
    assert lower(kinked, hm.Box([-1], [1]), "attention").transformer.tokens == 3


@pytest.mark.parametrize("pieces", [1, 2, 3, 5, 8, 9])
def test_the_tournament_has_logarithmic_depth(pieces):
    function = hm.MaxAffine(np.linspace(-1, 1, pieces)[:, None], np.zeros(pieces))
    construction = lower(function, hm.Box([-1], [1]), "attention-only")
    assert construction.bill.layers == int(np.ceil(np.log2(pieces)))
    assert construction.bill.heads == pieces - 1


def test_nonzero_weights_are_those_of_the_docstrings():
    """ReLU 8-32-32-1 and maxout 4-16-16-1 of rank 4, with no unit of fixed sign."""
    rng = np.random.default_rng(3)
    widths = [8, 32, 32, 1]
    relu = hm.ReluNetwork(
        [rng.normal(size=(b, a)) for a, b in itertools.pairwise(widths)],
        [0.1 * rng.normal(size=b) for b in widths[1:]],
    )
    box = hm.Box(-np.ones(8), np.ones(8))
    assert relu.parameters == 1377
    one = hm.ReluNetwork([relu.weights[0], relu.weights[2]], [relu.biases[0], relu.biases[2]])
    alone = lower(one, box, "attention-only").bill  # of deeper ones, see test_pair.py
    assert alone.nonzero_parameters == one.parameters + 3 * 32 + 2 + 1
    assert lower(relu, box, "attention").bill.nonzero_parameters == 1377 + 32 * (5 + 3) + 2 + 1
    assert lower(relu, box, "feedforward").bill.nonzero_parameters == 1377 + 8 + 32 + 1
    widths = [4, 16, 16, 1]
    maxout = hm.MaxoutNetwork(
        [rng.normal(size=(4, b, a)) for a, b in itertools.pairwise(widths)],
        [0.1 * rng.normal(size=(4, b)) for b in widths[1:]],
    )
    box = hm.Box(-np.ones(4), np.ones(4))
    assert maxout.parameters == 1476
    attention = lower(maxout, box, "attention").bill
    assert attention.nonzero_parameters <= 1476 + 4 * 33 + 2 * 68 + 17 + 4 * 5 + 1
    alone = lower(maxout, box, "attention-only").bill
    assert alone.nonzero_parameters <= 1476 + 5 * 33 + 2 * 4 * (16 + 2) + 5 * 6 + 1
    assert (alone.layers, alone.heads) == (5, 41)
