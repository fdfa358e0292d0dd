"""Networks mean one exact function, whichever arithmetic they are called in."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.core import EncodedTarget, Univariate
from hardmax.languages import (
    MaxAffine,
    MaxoutNetwork,
    PiecewiseLinear,
    ReluNetwork,
    decode_target,
)
from hardmax.numerics import Interval, exact
from hardmax.testing import by_definition, networks, networks_at_points, rounding_bound

ABSOLUTE = ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])


@settings(deadline=None)
@given(networks_at_points())
def test_fractions_follow_the_definition(case):
    network, _, x = case
    values = network(x)
    assert list(values) == by_definition(network, list(x))
    assert all(type(value) is Fraction for value in values)
    assert list(network(list(x))) == list(values)


@settings(deadline=None)
@given(networks_at_points())
def test_steps_reproduce_the_call(case):
    network, _, x = case
    assert list(network.steps().values(x)[-1]) == list(network(x))


@settings(deadline=None)
@given(networks_at_points(), st.sampled_from([0.1, 1 / 3, 1.7]))
def test_floats_stay_within_the_rounding_bound(case, scale):
    """Scaled weights are no short dyadics any more, so the float call really rounds."""
    network, _, x = case
    encoded = network.encode()
    tensors = {name: array * scale for name, array in encoded.tensors.items()}
    network = decode_target(EncodedTarget(encoded.kind, "", tensors))
    x = x.astype(float)
    error = abs(exact(network(x)) - network(exact(x)))
    assert (error <= rounding_bound(network.steps(), x)).all()


@settings(deadline=None)
@given(networks_at_points())
def test_intervals_enclose_exact_values(case):
    network, box, x = case
    enclosure = network(box.interval)
    assert enclosure.shape == (network.outputs,)
    assert enclosure.contains(network(x)).all()


@settings(deadline=None)
@given(networks_at_points())
def test_a_batch_of_intervals_is_each_interval(case):
    network, box, x = case
    point = x.astype(float)
    batch = Interval(np.stack([box.low, point], axis=1), np.stack([box.high, point], axis=1))
    enclosure = network(batch)
    assert enclosure.shape == (network.outputs, 2)
    assert enclosure[:, 0].contains(network(x)).all()
    assert enclosure[:, 1].contains(network(exact(point))).all()


def test_point_intervals_give_narrow_enclosures():
    """Soundness alone would allow the whole line.

    All inner values are at most 2. A product of at most two columns widens an end by
    gamma_8 * 2 = 8 * 2^-52, adding a bias by 2 * 2^-52, and a little for second order; two layers.
    """
    enclosure = ABSOLUTE(Interval.point([-2.0]))
    assert (enclosure.hi - enclosure.lo <= 2 * 2 * (8 + 3) * 2**-52).all()


@settings(deadline=None, max_examples=30)
@given(networks(), st.sampled_from([(), (1,), (5,), (2, 3), (0,)]))
def test_batches_run_along_leading_axes(network, axes):
    """Inputs and weights are short dyadics, so that every float call is exact."""
    x = np.random.default_rng(0).integers(-8, 9, size=(*axes, network.inputs)) / 4
    values = network(x)
    assert values.dtype == np.float64
    assert values.shape == (*axes, network.outputs)
    for place in np.ndindex(*axes):
        assert values[place].tolist() == [float(v) for v in by_definition(network, exact(x[place]))]
    assert network(exact(x)).shape == values.shape


def test_whole_numbers_and_small_floats_are_floats():
    assert ABSOLUTE([-3]).dtype == ABSOLUTE(np.float32([-3])).dtype == np.float64
    assert ABSOLUTE([True])[0] == 1.0


def test_steps_have_the_promised_form():
    affine, relu, last = ABSOLUTE.steps().steps
    assert isinstance(relu, Univariate)
    assert (affine.sources, relu.sources, last.sources) == ((0,), (1,), (2,))

    maxout = MaxoutNetwork([np.zeros((2, 3, 1)), np.zeros((1, 1, 3))], [np.zeros((2, 3)), [[0]]])
    pieces, maximum, last = maxout.steps().steps  # a layer of rank 1 has no maximum
    assert maximum.groups.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert (pieces.size, last.size) == (6, 1)

    three, two = MaxAffine(np.eye(3), np.zeros(3)), MaxAffine(np.eye(3)[:2], np.zeros(2))
    pieces, maximum, difference = PiecewiseLinear(two, three).steps().steps
    assert maximum.groups.tolist() == [[0, 1, -1], [2, 3, 4]]
    assert difference.weights.tolist() == [[1.0, -1.0]]
    assert PiecewiseLinear(two).steps().steps[2].weights.tolist() == [[1.0]]


def test_they_print_what_they_are():
    def zeros(*shapes):
        return [np.zeros(shape) for shape in shapes]

    relu = ReluNetwork(zeros((32, 8), (32, 32), (1, 32)), zeros(32, 32, 1))
    maxout = MaxoutNetwork(
        zeros((4, 16, 4), (4, 16, 16), (4, 1, 16)), zeros((4, 16), (4, 16), (4, 1))
    )
    mixed = MaxoutNetwork(zeros((2, 3, 1), (1, 1, 3)), zeros((2, 3), (1, 1)))
    hat = PiecewiseLinear.from_knots([-1, 0, 1], [0, 1, 0])
    assert repr(relu) == "ReluNetwork(8-32-32-1, 1377 parameters)"
    assert repr(maxout) == "MaxoutNetwork(4-16-16-1, rank 4, 1476 parameters)"
    assert repr(mixed) == "MaxoutNetwork(1-3-1, ranks 2,1, 16 parameters)"
    assert repr(hat) == "PiecewiseLinear(1-1, 1 - 2 pieces, 6 parameters)"
    assert repr(hat.minus) == "MaxAffine(1-1, 2 pieces, 4 parameters)"
    assert repr(hat.plus) == "MaxAffine(1-1, 1 piece, 2 parameters)"
    assert hat.encode().text == "piecewise linear function of 1 variable, 1 - 2 pieces"
    assert hat.minus.encode().text == "maximum of 2 affine functions of 1 variable"
    assert relu.encode().text == "relu network 8-32-32-1"
    assert maxout.encode().text == "maxout network 4-16-16-1 of rank 4"


def test_weights_are_copied_and_read_only():
    W = np.ones((1, 1))
    network = ReluNetwork([W], [np.zeros(1)])
    W[0, 0] = 7.0
    assert network([1.0]) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        network.weights[0][0, 0] = 7.0


W22, W12, b2, b1 = np.ones((2, 2)), np.ones((1, 2)), np.ones(2), np.ones(1)
BAD_NETWORKS = [
    (ReluNetwork, [], [], "at least one layer"),
    (ReluNetwork, [W22], [b2, b2], "1 weights and 2 biases"),
    (ReluNetwork, [W22, np.ones((1, 3))], [b2, b1], "Layer 2 reads 3 numbers, but layer 1 makes 2"),
    (ReluNetwork, [W22], [b1], r"bias of layer 1 must have shape \(2,\)"),
    (ReluNetwork, [np.ones((0, 2))], [np.ones(0)], r"Layer 1 is empty.*\(0, 2\)"),
    (ReluNetwork, [np.ones((2, 0))], [b2], r"Layer 1 is empty.*\(2, 0\)"),
    (ReluNetwork, [W22 * np.nan], [b2], "weights of layer 1 must be finite"),
    (ReluNetwork, [W22], [[1.0, np.inf]], r"bias of layer 1 must be finite, but entry \(1,\)"),
    (ReluNetwork, [np.ones((2, 2, 2))], [b2], "must have 2 dimensions"),
    (ReluNetwork, [[[1.0], [1.0, 2.0]]], [b2], "rectangular array"),
    (ReluNetwork, 3, [b2], "weights must be a list with one array per layer, not int"),
    (MaxoutNetwork, [W22], [b2], "must have 3 dimensions"),
    (MaxoutNetwork, [np.ones((0, 2, 2))], [np.ones((0, 2))], "Layer 1 is empty"),
    (MaxoutNetwork, [np.ones((3, 2, 2))], [b2[None]], r"must have shape \(3, 2\)"),
    (MaxoutNetwork, [W22[None], W22[None, :, :1]], [b2[None]] * 2, "Layer 2 reads 1 numbers"),
    (MaxAffine, np.ones(2), b2, "must have 2 dimensions"),
    (MaxAffine, W22, b1, r"must have shape \(2,\)"),
    (MaxAffine, np.ones((0, 1)), np.ones(0), "empty"),
    (PiecewiseLinear, MaxAffine(W22, b2), MaxAffine(np.ones((2, 1)), b2), "they read 2 and 1"),
    (PiecewiseLinear, W22, None, "plus must be a MaxAffine, not ndarray"),
    (PiecewiseLinear, MaxAffine(W22, b2), 0, "minus must be a MaxAffine, not int"),
    (PiecewiseLinear.from_knots, [0, 1], [0], "there are 2 and 1"),
    (PiecewiseLinear.from_knots, [0], [0], "at least two knots"),
    (PiecewiseLinear.from_knots, [0, 2, 1], [0, 0, 0], "knot 2 is 1.0 after 2.0"),
    (PiecewiseLinear.from_knots, [0, 0], [0, 1], "increase strictly"),
    (PiecewiseLinear.from_knots, [0, np.nan], [0, 1], "knots must be finite"),
    (PiecewiseLinear.from_knots, [[0, 1]], [0, 1], "knots must have 1 dimension"),
    (PiecewiseLinear.from_knots, [0, 1e-300], [0, 1e300], "beyond the range of float64"),
]


@pytest.mark.parametrize(("make", "weights", "biases", "complaint"), BAD_NETWORKS)
def test_values_check_themselves_at_birth(make, weights, biases, complaint):
    with pytest.raises(hm.ShapeError, match=complaint):
        make(weights, biases)


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        ([1.0, 2.0], r"takes 1 number along the last axis, but x has shape \(2,\)"),
        (1.0, r"shape \(\)"),
        ([], r"shape \(0,\)"),
        ([Fraction(1), Fraction(2)], r"shape \(2,\)"),
        (Interval.point([1.0, 2.0]), r"\(1,\) or \(1, batch\), but the shape is \(2,\)"),
        (Interval.point([[[1.0]]]), r"shape is \(1, 1, 1\)"),
        ([1j], "real numbers, but it holds complex128"),
        (["one"], "real numbers"),
        ([None], "rectangular array of numbers"),
        ([[1.0], [1.0, 2.0]], "rectangular array of numbers"),
    ],
)
def test_a_call_refuses_what_does_not_fit(x, complaint):
    for function in (ABSOLUTE, PiecewiseLinear.from_knots([0, 1, 2], [0, 1, 0])):
        with pytest.raises(hm.ShapeError, match=complaint):
            function(x)


def interpolant(knots, values, x):
    """The value at a Fraction, on the segment that holds it or the nearest one."""
    t, v = [Fraction(k) for k in knots], [Fraction(y) for y in values]
    i = max([j for j in range(1, len(t) - 1) if t[j] <= x], default=0)
    return v[i] + (v[i + 1] - v[i]) * (x - t[i]) / (t[i + 1] - t[i])


def interpolation_bound(function, knots):
    """The bound that `from_knots` proves."""
    parts = [part for part in (function.plus, function.minus) if part is not None]
    slope = max(Fraction(abs(part.weights).max()) for part in parts)
    intercept = max(Fraction(abs(part.biases).max()) for part in parts)
    largest = max(abs(Fraction(knot)) for knot in knots)
    half = Fraction(1, 2**53) * (slope * largest + intercept) + Fraction(1, 2**1075) * (largest + 1)
    return len(parts) * half


@st.composite
def interpolation_data(draw):
    knots = sorted(draw(st.sets(st.floats(-100, 100) | st.integers(-9, 9), min_size=2, max_size=7)))
    numbers = st.floats(-100, 100) | st.integers(-2, 2)
    return knots, draw(st.lists(numbers, min_size=len(knots), max_size=len(knots)))


@settings(deadline=None)
@given(interpolation_data(), st.fractions(0, 1, max_denominator=1000))
def test_interpolants_stay_within_their_bound(data, share):
    knots, values = data
    try:
        function = PiecewiseLinear.from_knots(knots, values)
    except hm.ShapeError:
        assume(False)  # knots so close that a slope overflows
    bound = interpolation_bound(function, knots)
    between = Fraction(knots[0]) + share * (Fraction(knots[-1]) - Fraction(knots[0]))
    for x in [Fraction(knot) for knot in knots] + [between]:
        assert abs(function([x])[0] - interpolant(knots, values, x)) <= bound


@pytest.mark.parametrize("size", [1 + Fraction(1, 2**53), Fraction(1, 2**1075)])
def test_the_interpolation_bound_is_attained(size):
    """Slope and intercept both lie halfway between floats and round down; x = 1 feels both.

    1 + 2^-53 becomes 1, which uses up u (S X + B) and leaves the other term; 2^-1075 becomes 0,
    which uses up 2^-1075 (X + 1) and leaves nothing.
    """
    knots = [Fraction(-1), Fraction(1)]
    function = PiecewiseLinear.from_knots(knots, [Fraction(0), 2 * size])
    unused = Fraction(2, 2**1075) if size > 1 else 0
    assert function.minus is None
    assert 2 * size - function([Fraction(1)])[0] == interpolation_bound(function, knots) - unused


@given(st.lists(st.integers(-8, 8), min_size=2, max_size=9), st.integers(-20, 20))
def test_whole_numbers_are_interpolated_exactly(values, x):
    """Inside and outside of the knots; neither part has a piece that never wins."""
    knots = list(range(-3, len(values) - 3))
    function = PiecewiseLinear.from_knots(knots, values)
    x = Fraction(x, 4)
    assert function([x])[0] == interpolant(knots, values, x)
    kinks = np.diff(values, n=2)
    assert function.plus.pieces == 1 + (kinks > 0).sum()
    assert (0 if function.minus is None else function.minus.pieces - 1) == (kinks < 0).sum()


def test_rational_knots_are_taken_at_their_word():
    """(1/3, 1) lies on the line through (0, 0) and (1, 3); the float next to 1/3 makes a kink."""
    assert PiecewiseLinear.from_knots([0, Fraction(1, 3), 1], [0, 1, 3]).minus is None
    assert PiecewiseLinear.from_knots([0, 1 / 3, 1], [0, 1, 3]).minus.pieces == 2


@given(st.lists(st.integers(-8, 8), min_size=4, max_size=9))
def test_no_affine_function_on_both_sides_makes_coefficients_smaller(values):
    function = PiecewiseLinear.from_knots(range(len(values)), values)
    assume(function.minus is not None)
    for name in ("weights", "biases"):
        plus, minus = getattr(function.plus, name), getattr(function.minus, name)
        together = np.concatenate([plus.ravel(), minus.ravel()])
        assert together.max() == -together.min()
