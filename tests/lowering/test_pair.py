"""Chains of rectifiers on two data tokens, whose slots are used again."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import Attention, Steps, Transformer
from hardmax.lowering import lower
from hardmax.lowering.networks._rectifiers_to_pair import PairStream, is_chain
from hardmax.lowering.networks._steps_to_rectifiers import rectifier_form
from hardmax.numerics import FLOAT32
from hardmax.testing import StepsTarget


def chain(*widths, seed=0, bias=0.3):
    rng = np.random.default_rng(seed)
    return hm.ReluNetwork(
        [rng.normal(size=(b, a)) * np.sqrt(2 / a) for a, b in pairwise(widths)],
        [bias * rng.normal(size=b) for b in widths[1:]],
    )


def box(inputs):
    return hm.Box(-np.ones(inputs), np.ones(inputs))


def paired(network):
    """The hard Transformer, whether or not it is the smaller one."""
    form = rectifier_form(network.steps(), box(network.steps().inputs))
    assert is_chain(form)
    return PairStream(form, box(network.steps().inputs)).transformer()


def switching(*widths):
    """Every neuron switches on the cube: biases are small."""
    return chain(*widths, seed=3, bias=0.01)


SHAPES = [
    (2, 6, 6, 1),
    (1, 3, 1, 5, 2),
    (3, 4, 2, 7),
    (2, 1, 1, 1),
    (2, 5, 4, 3, 9),
    (2, 8, 2, 8, 1),
]


@pytest.mark.parametrize("widths", SHAPES)
@pytest.mark.parametrize("bias", [0.0, 0.3, 3.0])  # with 3 many neurons never switch
def test_it_equals_the_network_over_the_rationals(widths, bias):
    network = chain(*widths, seed=5, bias=bias)
    transformer = paired(network)
    rng = np.random.default_rng(1)
    points = [[Fraction(int(k), 97) for k in rng.integers(-97, 98, widths[0])] for _ in range(4)]
    for x in [*points, [Fraction(0)] * widths[0]]:
        (answer,) = (hm.core.reference(transformer, x, Fraction),)
        assert list(answer) == list(network(x))


def test_neurons_that_tie_and_slots_that_are_shared_do_no_harm():
    """All pre-activations are 0 at the origin; a token that shares a slot holds something else."""
    network = hm.ReluNetwork(
        [[[1.0], [1.0]], [[1.0, -1.0], [2.0, 1.0]], [[1.0, 1.0]]],
        [[0.0, -0.5], [0.0, 0.0], [0.0]],
    )
    transformer = paired(network)
    for x in (Fraction(0), Fraction(1, 2), Fraction(1, 3), Fraction(-1, 2), Fraction(1)):
        assert list(hm.core.reference(transformer, [x], Fraction)) == list(network([x]))


def test_without_its_lead_a_unit_takes_what_the_other_token_holds():
    network = switching(2, 4, 4, 1)
    transformer = paired(network)
    layers = [
        Attention(
            replace(head, position_bias=np.zeros((3, 3))) if head.key_width else head
            for head in layer.heads
        )
        for layer in transformer.sublayers
    ]
    spoiled = Transformer(transformer.input, layers, transformer.readout)
    x = [Fraction(1, 3), Fraction(-2, 5)]
    assert list(hm.core.reference(transformer, x, Fraction)) == list(network(x))
    assert list(hm.core.reference(spoiled, x, Fraction)) != list(network(x))


@pytest.mark.parametrize("layers", [2, 5])
def test_sizes_are_those_of_the_docstring(layers):
    n, inputs = 32, 8
    network = switching(inputs, *[n] * layers, 1)
    transformer = paired(network)
    routing = [h for h in transformer.heads if not h.key_width]
    rectifying = [h for h in transformer.heads if h.key_width]
    w, between = n // 2 + 2, 20 * (layers - 1)  # heads that route to a hidden layer
    assert len(rectifying) == layers * n // 2
    assert len(routing) == between + 3
    bill = lower(network, box(inputs), "attention-only").bill
    ends = 2 * w * inputs + 3 * w + w + 1  # the sink is a constant
    inner = layers * n // 2 * (4 * w + 9) + (layers - 1) * 5 * n * w + 9 * between
    assert bill.parameters == ends + inner + 3 * (2 * w + 9)
    written = (layers - 1) * 2 * n + 2
    cleared = (layers - 1) * n // 2 + 1
    assert bill.nonzero_parameters == (
        network.parameters + 5 * len(rectifying) + written + 2 * cleared + 6 * len(routing) + 5 + 1
    )


def test_dense_size_is_flat_in_depth():
    ratios = []
    for layers in (2, 4, 8, 16):
        network = chain(8, *[32] * layers, 1)
        ratios.append(lower(network, box(8), "attention-only").bill.parameters / network.parameters)
    assert max(ratios) < 5.0
    assert max(ratios) < 1.2 * min(ratios)


def test_a_small_network_and_one_with_a_skip_keep_their_form():
    assert lower(chain(2, 16, 16, 1), box(2), "attention-only").transformer.tokens == 2
    steps = list(chain(2, 4, 4, 1).steps().steps)
    skip = hm.core.Affine((2, 4), np.ones((1, 8)), np.zeros(1))
    form = rectifier_form(StepsTarget(Steps(2, [*steps[:-1], skip])).steps(), box(2))
    assert not is_chain(form)


def test_slots_are_not_used_again_for_a_coarse_format():
    network = chain(8, 32, 32, 1)
    own = lower(network, box(8), "attention-only", format=FLOAT32).transformer
    shared = lower(network, box(8), "attention-only").transformer
    assert (own.tokens, shared.tokens) == (2, 3)
    model = hm.compile(network, on=box(8), error=1e-2, route="attention-only", float="float32")
    assert model.transformer.tokens == 2


@pytest.mark.parametrize("error", [None, 1e-2])
def test_hard_and_soft_it_is_proved(error):
    network = chain(3, 12, 12, 12, 2)
    model = hm.compile(network, on="[-1,1]^3", error=error, route="attention-only")
    assert model.transformer.tokens == 3
    certificate = hm.certify(model)
    assert certificate.verdict.name == "PROVED"
    assert certificate.measured <= certificate.certified <= model.claim.error


def test_softening_moves_the_biases_that_are_written_and_no_other_weight():
    network = chain(3, 12, 12, 12, 2)
    hard = lower(network, box(3), "attention-only").transformer
    soft = hm.compile(network, on="[-1,1]^3", error=1e-2, route="attention-only").transformer
    moved = set()
    for a, b in zip(hard.heads, soft.heads, strict=True):
        assert np.array_equal(a.output, b.output)
        assert np.array_equal(a.query, b.query)
        moved |= set(np.argwhere(a.value != b.value)[:, 1].tolist())
    assert moved == {hard.width - 1}  # the register that holds 1
