"""What gated units round: every charge by itself, beside the same formula over the rationals."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.checker.rounding._gated import Reads, gated_terms, local_error
from hardmax.checker.rounding._hosted import Hosted
from hardmax.core import Activation, Host, reference
from hardmax.numerics import FLOAT64, FORMATS, Interval, activation_error, precision, record_of
from hardmax.testing import run_in_format

X, Y, Z = np.eye(3)
NOTHING = np.zeros(3)


def pair(gate, inner, activation="relu"):
    """gate x inner x is added to the third coordinate."""
    outer = np.outer(Z, [1.0, -1.0])
    zeros = np.zeros(2)
    return hm.GatedFeedForward(
        [gate, -gate], zeros, [inner, inner], zeros, outer, NOTHING, activation
    )


def model_of(*layers, maps=None):
    maps = np.eye(3, 2) if maps is None else maps
    start = hm.VectorInput([maps], [NOTHING])
    return hm.Transformer(start, layers, hm.ReadOut([Z], [0.0]))


def bound_of(model, box, name):
    return float(float_bounds(model, box, (name,))[name][0])


def ends(low, high):
    return Interval(np.array([[low]]), np.array([[high]]))


def number(value):
    return np.array([[value]])


# ---- activations ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(FORMATS))
def test_an_activation_is_charged_by_its_formula(name):
    """14 units of its value, what exp loses or what overflows times z, and some tiny numbers."""
    format = FORMATS[name]
    z, value = 3.0, 2.5
    units = (format.exp_units + 6) * Fraction(format.unit)
    relative = units / (1 - units)
    beyond = 2 * max(Fraction(format.vanished), 1 / Fraction(format.largest))
    lost = 8 * Fraction(max(format.smallest, format.flushed))
    exactly = relative * Fraction(value) + beyond * Fraction(z) + lost
    found = Fraction(float(activation_error("silu", number(z), number(value), format)[0, 0]))
    assert exactly <= found <= exactly * (1 + Fraction(1, 10**12))
    assert activation_error("relu", number(z), number(value), format)[0, 0] == 0.0


def test_silus_computed_in_float32_stay_within_their_charge():
    """Two ways to put it together, where exp underflows and where it overflows, too."""
    format, single = FORMATS["float32"], np.float32
    z = np.concatenate([np.linspace(-120.0, 120.0, 4001), [-88.8, -86.99, -103.9]]).astype(single)
    with np.errstate(over="ignore", under="ignore"):
        quotient = z / (single(1.0) + np.exp(-z))
        product = z * (single(1.0) / (single(1.0) + np.exp(-z)))
    truth = record_of("silu").floats(z.astype(float))
    allowed = activation_error("silu", np.abs(z.astype(float)), np.abs(truth), format)
    for found in (quotient, product):
        assert (np.abs(found.astype(float) - truth) <= allowed).all()


def test_two_slopes_of_a_silu_add_up_to_less_than_one_and_a_fifth():
    """sup |act'(z)| + |act'(-z)|, which is 1 - 2 min act': 1.1997; and |act''| <= 1/2, at 0."""
    z = np.linspace(0.0, 12.0, 200_001)
    share = 1.0 / (1.0 + np.exp(-z))
    slope = share + z * share * (1.0 - share)
    both = np.abs(slope) + np.abs(1.0 - slope)
    assert 1.1996 < both.max() < 1.2
    assert np.abs(np.gradient(slope, z)).max() <= 0.5 + 1e-6
    assert np.gradient(slope, z)[0] == pytest.approx(0.5, abs=1e-4)


# ---- local errors --------------------------------------------------------------------------------


@pytest.mark.parametrize("is_product", [False, True])
@pytest.mark.parametrize("name", list(FORMATS))
def test_local_errors_of_relu_gates_by_hand(name, is_product):
    """Of one unit (|a| + d) f + |u| d + u (|a| + d) |u|; of a product with |z| + 2 d, d = e."""
    format = FORMATS[name]
    z, u, e, f = ends(-0.75, 1.5), ends(-2.0, 0.5), 2.0**-9, 2.0**-11
    found = local_error("relu", Reads(z, u, number(e), number(f)), format, is_product)
    size = Fraction(3, 2)
    most = size + (2 if is_product else 1) * Fraction(e)
    beside = Fraction(2)
    tiny = Fraction(format.smallest) + 2 * Fraction(format.flushed) * (1 + most + beside)
    exactly = most * Fraction(f) + beside * Fraction(e)
    exactly += Fraction(format.unit) * most * beside + 2 * tiny
    assert exactly <= Fraction(float(found[0, 0])) <= exactly * (1 + Fraction(1, 10**11))


@pytest.mark.parametrize("is_product", [False, True])
def test_local_errors_of_silu_gates_by_hand(is_product):
    """The same with d = L e + what the activation rounds: L = sup |act'|, or 1.2 + e for two."""
    format, e, f = FORMATS["float32"], 2.0**-9, 2.0**-11
    z, u = ends(1.0, 1.0), ends(-2.0, 0.5)
    found = local_error("silu", Reads(z, u, number(e), number(f)), format, is_product)
    share = 1.0 / (1.0 + math.exp(-1.0))
    act, slope = share, share + share * (1.0 - share)
    size = 1.0 if is_product else act
    rounded = float(activation_error("silu", number(1.0), number(size), format)[0, 0])
    if is_product:
        rounded += float(activation_error("silu", number(1.0), number(0.0), format)[0, 0])
    away = (1.2 + e if is_product else slope) * e + rounded
    most = size + (2.0 if is_product else 1.0) * away
    expected = most * f + 2.0 * away + format.unit * most * 2.0
    assert float(found[0, 0]) == pytest.approx(expected, rel=1e-9)
    assert float(found[0, 0]) >= expected * (1.0 - 1e-13)


def test_a_relu_that_is_off_rounds_nothing():
    reads = Reads(ends(-2.0, -1.0), ends(1.0, 3.0), number(0.5), number(0.5))
    assert local_error("relu", reads, FLOAT64, False)[0, 0] == 0.0
    assert local_error("silu", reads, FLOAT64, False)[0, 0] > 0.0
    assert local_error("relu", reads, FLOAT64, True)[0, 0] > 0.0  # its partner is on


# ---- inherited -----------------------------------------------------------------------------------

STRAYING = np.array([[1000.1, -999.9, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("activation", ["relu", "silu"])
@pytest.mark.parametrize(("gate", "inner"), [(X, Y), (Y, X)])
@pytest.mark.parametrize("paired", [True, False])
def test_what_is_inherited_is_multiplied_by_the_other_factor(gate, inner, activation, paired):
    """One coordinate cancels and is off by 500 units; the other is exact and near 3."""
    layer = pair(gate, inner, activation)
    if not paired:
        layer = replace(layer, outer=np.outer(Z, [1.0, 0.0]))
    model = model_of(layer, maps=STRAYING)
    box = hm.Box([1.0, 1.0, 3.0], [1.0, 1.0, 3.0])
    bound = bound_of(model, box, "float32")
    worst = 0.0
    with precision(200):
        (truth,) = reference(model, [1.0, 1.0, 3.0])
    for seed in range(20):
        points = np.array([[1.0, 1.0, 3.0]])
        rng = np.random.default_rng(seed)
        (found,) = run_in_format(model, points, FORMATS["float32"], rng)[0]
        worst = max(worst, abs(float(found) - float(truth)))
    assert 100.0 * FORMATS["float32"].unit < worst <= bound
    assert bound < 40.0 * worst


# ---- sums and ranges -----------------------------------------------------------------------------


def test_sums_are_of_terms_where_gates_are_exact_and_of_units_elsewhere():
    where, off = Interval(np.full((3, 1), -1.0), np.ones((3, 1))), np.zeros((3, 1))

    def terms_of(layer):
        _, added, _ = gated_terms(layer, where, off, Hosted(model_of(layer), FLOAT64), 0)
        return added.terms[2, 0]

    assert terms_of(pair(X, Y)) == 2.0  # a product, and what it is added to
    assert terms_of(pair(X / 3.0, Y)) == 3.0
    assert terms_of(pair(X, Y, "silu")) == 3.0


def test_a_square_is_not_below_0():
    """relu(-x^2 - 2^-10) is off, so that a million times it rounds nothing."""
    outer = np.outer(Z, [1e6])
    never = hm.FeedForward([-Z], [-(2.0**-10)], outer, NOTHING)
    model = model_of(pair(X, X), never)
    box = hm.Box([-1.0, -1.0], [1.0, 1.0])
    assert bound_of(model, box, "float64") <= 2.0 * FLOAT64.unit
    assert bound_of(model_of(pair(X, Y), never), box, "float64") > 1e5 * FLOAT64.unit


def test_numbers_that_overflow_are_not_bounded():
    box = hm.Box([-300.0, -300.0], [300.0, 300.0])
    model = model_of(pair(X, Y))
    assert bound_of(model, box, "float16") == math.inf
    assert bound_of(model, box, "float32") < math.inf


def test_a_host_computes_the_gates_that_the_layer_names():
    """An activation in place of another is charged for plain units alone: here nothing is said."""
    model, box = model_of(pair(X, Y)), hm.Box([-1.0, -1.0], [1.0, 1.0])
    for activation, finite in ((None, True), (Activation("silu", 2.0**30), False)):
        host = Host("llama", (None, None), (activation,))
        bound = float_bounds(model, box, ("float32",), host=host)["float32"][0]
        assert np.isfinite(bound) == finite


# ---- words ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["relu", "silu"])
def test_programs_with_gates_are_proved_and_refuted_word_by_word(activation):
    """y is answered; y^2 is added and taken away again by other units, or a share of it is left."""
    made = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    (row,), (bias,) = made.transformer.readout.weights, made.transformer.readout.bias
    column = int(np.abs(row).argmax())
    width = made.transformer.width
    write = np.zeros(width)
    write[column] = 1.0

    def with_layer(left):
        weights = [1.0, -1.0, -(1.0 - left), 1.0 - left]
        signs, halves = np.array([1.0, -1.0, 2.0, -2.0]), np.array([1.0, 1.0, 0.5, 0.5])
        read = np.append(row, bias)
        gates, factors = np.outer(signs, read), np.outer(halves, read)
        layer = hm.GatedFeedForward(
            gates[:, :-1],
            gates[:, -1],
            factors[:, :-1],
            factors[:, -1],
            np.outer(write, weights),
            np.zeros(width),
            activation,
        )
        old = made.transformer
        longer = hm.Transformer(old.input, [*old.sublayers, layer], old.readout)
        return replace(made, transformer=longer, witness=None, legend=None)

    same = hm.certify(with_layer(0.0))
    assert same.verdict is hm.Verdict.PROVED
    assert same.method == "enumeration"
    assert same.certified < 1e-3
    assert hm.certify(with_layer(0.5)).verdict is hm.Verdict.REFUTED
