"""What a host does to each read: charges at their extremal points, and that every room takes them.

Where a bound is attained the test asks for nearly all of it, so that half of a charge is seen.
"""

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker import certify
from hardmax.checker._hosts import (
    _GAPS,
    _VARIANCE_UNITS,
    NOTHING,
    NoCharge,
    ReadCharge,
    _mean_size,
    activation_charge,
    answer_charge,
    attention_format,
    read_charge,
    rotary_charge,
    with_turns,
)
from hardmax.checker.rounding import float_bounds
from hardmax.checker.sequences._layers import read_out
from hardmax.checker.sequences._reading import Reading, readings
from hardmax.checker.sequences._stream import Overflow, Stream, TooLarge
from hardmax.checker.sequences._value_sets import METHODS, LengthQuestion, Memory
from hardmax.checker.sequences.registers import RegisterMemory, bound_by_registers
from hardmax.checker.sequences.registers._bound import _as_read
from hardmax.checker.sequences.registers._state import Register, State
from hardmax.checker.sequences.slots._compare import follow_words
from hardmax.checker.sequences.words._batches import enclose_words
from hardmax.core import Activation, FeedForward, Head, Host, Norm, Rotary, SequenceInput
from hardmax.numerics import FLOAT16, FLOAT32, FLOAT64, FORMATS, MidRadius

ONE = np.ones((1, 1))
BIG = 2.0**30
SINGLE = np.float32


def rms(width=64, *, gain=BIG / 8, scale=1.0, constants=((BIG, 1),), epsilon=1e-6, **more):
    return Norm("rms", width, epsilon, gain, scale, constants, **more)


def layer(width=64, ballast=2.0**16, epsilon=1e-5):
    gain = ballast * math.sqrt(2.0 / width)
    return Norm("layer", width, epsilon, gain, 1.0, ((ballast, 1), (-ballast, 1)))


def host_of(norm, sublayers=0, activation=None, **more):
    return Host("test", [norm] * (sublayers + 1), [activation] * sublayers, **more)


def reading_out(source, sublayers=()):
    return hm.Transformer(source, sublayers, hm.ReadOut(ONE, [0.0], token=0))


def number():
    """A Transformer that says its input."""
    return reading_out(hm.VectorInput(maps=[[[1.0]]], offsets=[[0.0]]))


def charge(norm, size, format, transformer=None):
    return read_charge(host_of(norm), transformer or number(), 0, np.asarray(size, float), format)


# ---- norms, run -------------------------------------------------------------------------------


def run_rms(norm, x, rng, dtype=SINGLE):
    """The norm in floats, its sum in a random order: what is read of our columns."""
    constants = [value for value, count in norm.constants for _ in range(count)]
    zeros = norm.width - len(x) - len(constants)
    stream = np.concatenate([x, constants, np.zeros(zeros)]).astype(dtype)
    terms = list(stream * stream)
    while len(terms) > 1:
        first, second = (terms.pop(rng.integers(len(terms))) for _ in range(2))
        terms.append(dtype(first + second))
    root = dtype(1.0) / np.sqrt(dtype(terms[0] / dtype(norm.width)) + dtype(norm.epsilon))
    return (stream * root * dtype(norm.gain))[: len(x)].astype(float) / norm.scale


def test_an_rms_norm_with_the_right_ballast_is_the_identity_bit_for_bit():
    rng, norm = np.random.default_rng(0), rms()
    assert charge(norm, np.full(10, 60.0), FLOAT32).is_identity
    for _ in range(200):
        x = (60.0 * rng.uniform(-1, 1, 10) * 2.0 ** rng.integers(-20, 1, 10)).astype(SINGLE)
        assert (run_rms(norm, x, rng) == x).all()


def test_the_identity_ends_where_squares_are_no_longer_absorbed():
    """At u M^2 a sum may be rounded either way; at 3 u M^2 it is rounded up."""
    norm, u = rms(constants=((2.0**12, 1),), gain=2.0**9), FLOAT32.unit
    edge = math.sqrt(u) * 2.0**12
    assert charge(norm, [0.99 * edge], FLOAT32).is_identity
    assert not charge(norm, [edge], FLOAT32).is_identity
    beyond = math.sqrt(3.0) * edge
    found = run_rms(norm, np.array([beyond], SINGLE), np.random.default_rng(0))[0]
    away = abs(found - float(SINGLE(beyond))) / beyond
    assert 0.0 < away <= charge(norm, [beyond], FLOAT32).relative


@pytest.mark.parametrize(
    "norm",
    [
        rms(48, gain=BIG / math.sqrt(48)),  # no power of two
        rms(constants=((0.75 * BIG, 1),), gain=0.75 * BIG / 8),
        rms(constants=((BIG, 1), (BIG / 2, 1)), gain=BIG / 8 * math.sqrt(1.25)),
        rms(gain=BIG / 8 * (1 + 2.0**-20)),
        rms(epsilon=2.0**36),
        rms(32, gain=BIG / math.sqrt(32)),  # b M^2/n is no power of 4
        rms(48, constants=((BIG, 3),), gain=BIG / 4),  # it is, but not every division is exact
        rms(constants=((BIG, 9),), gain=3 * BIG / 8),  # a reciprocal that is rounded
    ],
)
def test_other_ballasts_are_charged(norm):
    """And the charge covers what happens, in every order."""
    rng, found = np.random.default_rng(1), charge(norm, np.full(4, 2.0), FLOAT32)
    assert not found.is_identity
    for _ in range(50):
        x = rng.uniform(-2, 2, 4).astype(SINGLE)
        away = np.abs(run_rms(norm, x, rng) - x)
        assert (away <= found.of(np.abs(x), np.zeros(4, bool))).all()


def test_only_powers_of_two_take_up_what_is_small():
    """M^2 has too many digits itself, and 40 of them are rounded 40 times when they are added."""
    value = BIG * (1.0 + 2.0**-20)
    norms = [
        rms(96, gain=size * math.sqrt(40 / 96), constants=((size, 40),)) for size in (BIG, value)
    ]
    both = [charge(norm, [1.0], FLOAT32).relative for norm in norms]
    assert both[1] - both[0] == pytest.approx(20 * FLOAT32.unit, rel=0.01)


def test_sums_of_a_few_large_squares_are_rounded_a_few_times():
    """In every order; with more that is small beside them there are as many as terms."""
    size = 2.0**14 * (1.0 + 2.0**-20)
    norm = rms(1024, gain=size / 16, constants=((size, 4),))
    found = charge(norm, np.full(100, 0.01), FLOAT32).relative
    assert found <= 16 * FLOAT32.unit
    rng = np.random.default_rng(5)
    for _ in range(100):
        x = rng.uniform(-0.01, 0.01, 100).astype(SINGLE)
        assert (np.abs(run_rms(norm, x, rng) - x) <= found * np.abs(x)).all()
    more = charge(norm, np.full(100, 2.0), FLOAT32).relative
    most = charge(norm, np.full(1000, 2.0), FLOAT32).relative
    assert found < more < most
    # 4,000 of small squares beside 2^30: half of 4 x 4000/(u 2^30), and half of their share itself
    assert most >= (125 + 31) * FLOAT32.unit


def test_the_root_halves_what_the_sum_is_off_by():
    for t in np.linspace(-0.25, 0.25, 101):
        assert abs(1.0 / math.sqrt(1.0 + t) - 1.0) <= abs(t) / 2 * (1.0 + 2.0 * abs(t))


def test_a_huge_epsilon_is_the_identity_until_squares_are_seen_beside_it():
    norm = rms(gain=2.0**20, constants=(), epsilon=2.0**40)
    edge = math.sqrt(64 * FLOAT32.unit) * 2.0**20
    assert charge(norm, [0.99 * edge], FLOAT32).is_identity
    assert not charge(norm, [edge], FLOAT32).is_identity
    other = rms(gain=2.0**20, constants=(), epsilon=2.0**40 + 2.0**20)
    assert not charge(other, [1.0], FLOAT32).is_identity
    x = np.array([0.99 * edge, 3.0], SINGLE)
    assert (run_rms(norm, x, np.random.default_rng(0)) == x).all()
    beyond = np.array([2.0 * edge], SINGLE)
    found = run_rms(norm, beyond, np.random.default_rng(0))
    assert found < beyond
    assert beyond - found <= charge(norm, beyond, FLOAT32).relative * beyond


def test_two_constants_fit_an_odd_power():
    assert charge(rms(32, constants=((BIG, 2),), gain=BIG / 4), [1.0], FLOAT32).is_identity


def test_small_constants_are_taken_up_like_what_is_ours():
    """A column that holds 1 for a host without biases, and empty ones; but no large ones."""
    norm = rms(constants=((0.0, 3), (1.0, 1), (BIG, 1)))
    assert charge(norm, [1.0], FLOAT32).is_identity
    other = rms(constants=((0.0, 3), (BIG * 2.0**-11, 1), (BIG, 1)))
    assert not charge(other, [1.0], FLOAT32).is_identity
    with pytest.raises(NoCharge):
        charge(rms(constants=((0.0, 3),)), [1.0], FLOAT32)


def test_the_factor_of_a_small_ballast_is_attained():
    """|F - 1| with S at its largest: rho/2 to first order; rounding of float64 is far below."""
    norm = rms(64, constants=((2.0**7, 1),), gain=2.0**4, epsilon=1e-30)
    size = np.array([8.0, 6.0])  # S = 100
    true = abs(1.0 / math.sqrt(1.0 + 100.0 / 2.0**14) - 1.0)
    assert true <= charge(norm, size, FLOAT64).relative <= true * 1.004
    wide = rms(64, constants=((2.0**7, 1),), gain=2.0**4 * 1.01, epsilon=1e-30)
    assert charge(wide, [0.0], FLOAT64).relative == pytest.approx(0.01, rel=0.01)


def test_a_cast_is_attained():
    """Halfway between two numbers of float32, a power of two below: relative u/(1 + u)."""
    found = charge(rms(computes_in="float32"), [2.0], FLOAT64)
    x = 1.0 + FLOAT32.unit
    assert abs(float(SINGLE(x)) - x) / x == pytest.approx(found.relative, rel=1e-6)
    assert charge(rms(computes_in="float32"), [2.0], FLOAT32).is_identity
    assert charge(rms(variance_in="float32"), [2.0], FLOAT64).is_identity
    assert charge(rms(), [64.0], FLOAT64).relative > 0.0  # 2^12 is not absorbed by 2^60 in float64


def test_tiny_numbers_may_be_lost():
    norm = rms()
    found = charge(norm, [1.0], FLOAT32)
    lost = float(SINGLE(2.0**-149) * SINGLE(8.0 / BIG) * SINGLE(BIG / 8))
    assert lost == 0.0
    assert FLOAT32.smallest < found.faint < found.safe < 2.0**-90
    x = SINGLE(found.safe)
    assert run_rms(norm, np.array([x]), np.random.default_rng(0))[0] == x
    sizes = found.of(np.array([0.0, 1e-40, 1.0]), np.array([False, False, True]))
    assert sizes.tolist() == [0.0, pytest.approx(found.faint, rel=1e-6, abs=0.0), 0.0]


def run_layer(norm, x, weights, dtype=SINGLE):
    """A row of a layer norm whose zero column takes the row's sum back."""
    constants = [value for value, count in norm.constants for _ in range(count)]
    zeros = norm.width - len(x) - len(constants)
    stream = np.concatenate([x, np.zeros(zeros), constants]).astype(dtype)
    row = np.concatenate([weights, np.zeros(norm.width - len(x))])
    row[len(x)] = -weights.sum()
    mean = stream.mean(dtype=dtype)
    centred = stream - mean
    root = dtype(1.0) / np.sqrt((centred * centred).mean(dtype=dtype) + dtype(norm.epsilon))
    return float((centred * root * dtype(norm.gain)) @ row.astype(dtype))


def test_a_layer_norm_is_charged_for_its_mean():
    """Columns of zeros are read as rounded means: a charge relative to them alone would be 0."""
    rng, norm = np.random.default_rng(2), layer()
    rows = hm.ReadOut(np.ones((1, 10)), [0.0], token=0)
    wide = hm.Transformer(hm.VectorInput(np.zeros((1, 10, 1)), np.zeros((1, 10))), [], rows)
    found = charge(norm, np.full(10, 3.0), FLOAT32, wide)
    weights, worst = np.array([1.0, -3.0, 2.0, 5.0]), 0.0
    for _ in range(200):
        x = np.concatenate([np.zeros(4), rng.uniform(1, 3, 6)]).astype(SINGLE)
        read = run_layer(norm, x, np.concatenate([weights, np.zeros(6)]))
        worst = max(worst, abs(read))
    assert 0.0 < worst <= found.still * np.abs(weights).sum()
    assert found.still < found.absolute
    for _ in range(200):
        x = rng.uniform(-3, 3, 10).astype(SINGLE)
        w = rng.integers(-4, 5, 10).astype(float)
        exact = float(
            sum(Fraction(float(a)) * Fraction(b) for a, b in zip(w, x.tolist(), strict=True))
        )
        room = np.abs(w) @ found.of(np.abs(x), np.zeros(10, bool))
        room += 16 * FLOAT32.unit * np.abs(w * x).sum()  # the row's own sum
        assert abs(run_layer(norm, x, w) - exact) <= room


def test_a_single_zero_is_read_within_one_rounding_of_the_mean():
    """A fused sum leaves what the product of weight and mean lost: nearly u |w m|."""
    norm, worst = layer(), 0.0
    found = charge(norm, [0.0, *[3.0] * 9], FLOAT32)
    rng = np.random.default_rng(4)
    for _ in range(2000):
        x = np.concatenate([[0.0], rng.uniform(1, 3, 9)]).astype(SINGLE)
        w = SINGLE(rng.uniform(1, 2))
        zero = -SINGLE(np.concatenate([x, np.zeros(54)]).mean(dtype=SINGLE))
        left = Fraction(float(w)) * Fraction(float(zero)) - Fraction(float(SINGLE(w * zero)))
        worst = max(worst, float(abs(left)) / float(w))
    assert 0.05 * found.still < worst <= found.still


def test_what_has_no_room_is_not_charged():
    with pytest.raises(NoCharge):
        charge(rms(), [1.0], FLOAT16)
    with pytest.raises(NoCharge):
        charge(rms(constants=((2.0**64, 1),), gain=2.0**61), [1.0], FLOAT32)
    with pytest.raises(NoCharge):
        charge(rms(), [2.0**62], FLOAT32)
    with pytest.raises(NoCharge):  # twice what it should be
        charge(rms(gain=BIG / 4), [1.0], FLOAT32)
    with pytest.raises(NoCharge):  # the mean is as large as what divides
        charge(layer(4, ballast=1.0), [4.0], FLOAT64)


def test_biases_are_read_through_norms_where_a_host_has_none():
    assert charge(rms(48, gain=1.5e8, biases_normed=True), [1.0], FLOAT32).biases > 0.0
    assert charge(rms(48, gain=1.5e8), [1.0], FLOAT32).biases == 0.0


# ---- activations and rotary positions -----------------------------------------------------------


def silu(y):
    return y / (1.0 + math.exp(-y))


def gelu(y):
    return y * 0.5 * math.erfc(-y / math.sqrt(2.0))


def gelu_tanh(y):
    return 0.5 * y * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * y**3)))


ACTIVATIONS = {"silu": silu, "gelu": gelu, "gelu_tanh": gelu_tanh}


def worst_place(act):
    """Where it is furthest from a rectifier: found on a grid, then on a finer one."""
    grid = np.linspace(-4.0, 4.0, 8001)
    best = max(grid, key=lambda y: abs(act(y) - max(y, 0.0)))
    return max(best + np.linspace(-1e-3, 1e-3, 2001), key=lambda y: abs(act(y) - max(y, 0.0)))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_gaps_of_activations_are_attained(kind):
    act = ACTIVATIONS[kind]
    y = worst_place(act)
    gap = abs(act(y) - max(y, 0.0))
    assert gap <= _GAPS[kind] <= gap + 1.5e-7
    for z in (-y, 40.0, -40.0, 1e4, -600.0):
        assert abs(act(z) - max(z, 0.0)) <= _GAPS[kind]


def test_steep_activations_are_charged_and_may_not_overflow():
    found = activation_charge(Activation("silu", 2.0**30), FLOAT32)
    assert found.absolute == pytest.approx(0.2784645 * 2.0**-30, rel=1e-5)
    assert found.relative == pytest.approx(10 * FLOAT32.unit, rel=1e-5)
    assert found.largest < FLOAT32.largest / 2.0**30
    more = activation_charge(Activation("silu", 2.0**30), FLOAT32, 1e-3)
    assert more.relative == pytest.approx(1e-3, rel=1e-2)


def test_rotary_positions_are_charged_with_their_largest_turn():
    """1 - cos a is nearly a^2/2; the last token and the first are furthest apart."""
    source = hm.VectorInput(maps=np.ones((5, 1, 1)), offsets=np.zeros((5, 1)))
    head = Head(ONE, ONE, ONE, ONE, hm.Softmax(1.0))
    made = reading_out(source, [hm.Attention([head])])
    slow = Rotary(theta=10000.0, planes=4, first=1)  # turns by 0.1
    true = 1.0 - math.cos(0.4)
    assert true <= rotary_charge(slow, made, FLOAT64) <= 1.02 * true
    faint = Rotary(theta=10000.0, planes=128, first=127)
    assert rotary_charge(faint, made, FLOAT32) < 4e-6
    host = host_of(None, 1, rotary=slow)
    plain = read_charge(host, made, 0, np.ones(1), FLOAT64)
    assert plain.is_identity
    assert with_turns(plain, host, made, FLOAT64).relative >= true


# ---- every room takes them ----------------------------------------------------------------------

CAST = rms(computes_in="float32")  # a read of x in float64 is off by u32 |x|
HALFWAY = 1.0 + FLOAT32.unit


def word(*sublayers, position=0.0):
    source = SequenceInput(("a",), embedding=[[HALFWAY]], positions=[[position]])
    return reading_out(source, sublayers)


def real(*sublayers):
    return reading_out(hm.VectorInput(maps=[[[1.0]]], offsets=[[0.0]]), sublayers)


def radius_of_words(made, host, format=FLOAT64):
    return float(enclose_words(made, np.zeros((1, 1), int), format, host).radius[0, 0, 0])


def radius_of_slots(made, host, format=FLOAT64):
    ways = readings(host, made, format)
    _, streams = follow_words(made, hm.Words(("a",), 1, 1), 1, format, None, ways)
    answer = read_out(streams[-1], made.readout, ways[-1])
    return sum(float(table.radius.sum()) for table in answer.blocks.values())


def bound_of_reals(made, host, format="float64"):
    """Over a box that is one point, so that nothing but rounding is left."""
    box = hm.Box([HALFWAY], [HALFWAY])
    return float(float_bounds(made, box, (format,), host=host)[format][0])


ROOMS = {"words": radius_of_words, "slots": radius_of_slots, "reals": bound_of_reals}


def heads():
    return hm.Attention([Head(0 * ONE, 0 * ONE, ONE, ONE, hm.Softmax(1.0))])


def units(bias=0.0):
    return FeedForward(ONE, [bias], ONE, [0.0])


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize(
    ("sublayers", "reads"), [([], 1), ([heads()], 3), ([units()], 3)], ids=["read", "head", "unit"]
)
def test_each_read_is_charged(room, sublayers, reads):
    """x alone; x + x, of which both halves are read; the read-out reads their sum again.

    The cast of 1 + u is down to 1, so that x is off by u, and 2 x read out by 2 u again: x + x'
    with x' = x (1 - u), and (2 x - u)(1 - u).
    """
    host = host_of(CAST, len(sublayers))
    made = (real if room == "reals" else word)(*sublayers)
    found = ROOMS[room](made, host)
    true = reads * FLOAT32.unit
    assert 0.999 * true <= found <= 1.01 * true
    plain = ROOMS[room](made, None)
    assert plain < 1e-3 * found


@pytest.mark.parametrize("room", ROOMS)
def test_biases_that_are_read_are_charged(room):
    """A unit of nothing but a bias of 1, in a host that is 1% off: 0.01, then 2.01 times 1.01."""
    small = ((2.0**7, 1),)
    norm = rms(constants=small, gain=2.0**4 * 1.01, epsilon=1e-30, biases_normed=True)
    layer = FeedForward(0 * ONE, [1.0], ONE, [0.0])
    made = (real if room == "reals" else word)(layer)
    found = ROOMS[room](made, host_of(norm, 1))
    assert 0.0301 <= found <= 0.0304


@pytest.mark.parametrize("room", ROOMS)
def test_a_gates_constant_is_read_as_biases_are(room):
    """The same with a steep silu, whose unit multiplies by a 1 that is read 1% off: 0.01 more."""
    small = ((2.0**7, 1),)
    norm = rms(constants=small, gain=2.0**4 * 1.01, epsilon=1e-30, biases_normed=True)
    layer = FeedForward(0 * ONE, [1.0], ONE, [0.0])
    made = (real if room == "reals" else word)(layer)
    found = ROOMS[room](made, host_of(norm, 1, Activation("silu", 2.0**60)))
    assert 0.0401 <= found <= 0.0408


def test_a_product_of_one_term_may_change_its_sign_where_a_mean_is_taken_away():
    """A unit reads -x, x > 0, and is off; through a layer norm it may be on by a rounded mean."""
    source = hm.VectorInput(maps=np.zeros((1, 3, 1)), offsets=[[1e-9, 3.0, 0.0]])
    unit = FeedForward([[-1.0, 0.0, 0.0]], [0.0], [[0.0], [0.0], [1.0]], np.zeros(3))
    made = hm.Transformer(source, [unit], hm.ReadOut([[0.0, 0.0, 1.0]], [0.0], token=0))
    box, host = hm.Box([0.0], [0.0]), host_of(layer(), 1)
    found = float(float_bounds(made, box, ("float32",), host=host)["float32"][0])
    charged = read_charge(host, made, 0, np.array([0.0, 3.0, 0.0]), FLOAT32)
    total = charged.absolute + charged.absolute  # by the unit, and by the read-out
    assert 0.95 * total <= found <= 1.1 * total


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_activations_are_charged_where_units_are_off_and_on(room, kind):
    """The largest gap is attained on both sides of 0, and a unit that is off has it, too."""
    act, steepness = ACTIVATIONS[kind], 64.0
    gap = _GAPS[kind] / steepness
    for bias in (-HALFWAY + worst_place(act) / steepness, -HALFWAY - 8.0, 3.0):
        host = host_of(None, 1, Activation(kind, steepness))
        made = (real if room == "reals" else word)(units(bias))
        found = ROOMS[room](made, host)
        z = HALFWAY + bias
        assert abs(act(steepness * z) / steepness - max(z, 0.0)) <= found <= 1.0001 * gap + 1e-13
        assert found >= 0.9999 * gap


def test_a_query_that_turns_is_charged():
    """Rotary positions move logits, by no more than the products of queries and keys allow."""
    source = hm.VectorInput(maps=np.zeros((2, 2, 1)), offsets=[[1.0, 0.0], [1.0, 1.0]])
    head = Head([[3.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]], [[0.0], [1.0]], hm.Softmax(1.0))
    readout = hm.ReadOut([[0.0, 1.0]], [0.0], token=1)
    made, box = hm.Transformer(source, [hm.Attention([head])], readout), hm.Box([0.0], [0.0])
    rotary = Rotary(theta=100.0, planes=2, first=1)  # by 0.1 a token
    host = host_of(None, 1, rotary=rotary)
    away = 3.0 * math.cos(0.1) - 3.0  # of the first token's logit
    true = abs(1.0 / (1.0 + math.exp(away)) - 0.5)
    found = float(float_bounds(made, box, ("float64",), host=host)["float64"][0])
    assert true <= found <= 2.5 * true  # charged to the keys of both tokens
    assert float(float_bounds(made, box, ("float64",))["float64"][0]) < 1e-14


@pytest.mark.parametrize("room", ["words", "slots"])
def test_keys_that_turn_are_charged_in_words_too(room):
    source = SequenceInput(("a",), [[1.0, 0.0]], [[0.0, 0.0], [0.0, 1.0]])
    head = Head([[3.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]], [[0.0], [1.0]], hm.Softmax(1.0))
    made = hm.Transformer(source, [hm.Attention([head])], hm.ReadOut([[0.0, 1.0]], [0.0], token=1))
    host = host_of(None, 1, rotary=Rotary(theta=100.0, planes=2, first=1))
    true = abs(1.0 / (1.0 + math.exp(3.0 * math.cos(0.1) - 3.0)) - 0.5)

    def radius(host):
        if room == "words":
            return enclose_words(made, np.zeros((1, 2), int), FLOAT64, host).radius.max()
        ways = readings(host, made, FLOAT64)
        _, streams = follow_words(made, hm.Words(("a",), 2, 2), 2, FLOAT64, None, ways)
        stream = read_out(streams[-1], made.readout, ways[-1])
        return sum(table.radius.max() for table in stream.blocks.values())

    assert true <= radius(host) <= 3.0 * true
    assert radius(None) < 1e-12


def test_queries_keys_and_values_are_charged_each():
    """Logits -0.3 and 0.3, values 0 and 1: 0.6 u by keys, as much by the query, and p u twice."""
    source = hm.VectorInput(maps=np.zeros((2, 3, 1)), offsets=[[1.0, 0.0, 0.0], [-1.0, 1.0, 0.0]])
    rows = [[0.3, 0.0, 0.0]], [[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]], [[0.0], [0.0], [1.0]]
    head, readout = Head(*rows, hm.Softmax(1.0)), hm.ReadOut([[0.0, 0.0, 1.0]], [0.0], token=1)
    made, box = hm.Transformer(source, [hm.Attention([head])], readout), hm.Box([0.0], [0.0])
    found = float(float_bounds(made, box, ("float64",), host=host_of(CAST, 1))["float64"][0])
    p = 1.0 / (1.0 + math.exp(-0.6))
    true = (2.0 * p + 1.2 * p * (1.0 - p)) * FLOAT32.unit
    assert 0.999 * true <= found <= 1.01 * true


def test_hosts_that_are_too_steep_for_a_format():
    host = host_of(None, 1, Activation("silu", 2.0**100))
    assert bound_of_reals(real(units(2.0**30)), host, "float32") == math.inf
    assert bound_of_reals(real(units(2.0**20)), host, "float32") < math.inf
    with pytest.raises(Overflow, match="too steep"):
        radius_of_words(word(units(2.0**30)), host, FLOAT32)


def test_tiny_numbers_are_charged_unless_a_grid_says_that_there_are_none():
    reading = Reading(FLOAT32, host_of(rms()), word())
    faint = reading.charge(np.ones(1)).faint

    def radius(middle, before):
        stream = Stream.of(MidRadius(np.array([[middle]]), np.array([[before]])), 1)
        return float(reading.of(stream).blocks[()].radius[0, 0])

    assert radius(1.0, 0.0) == 0.0
    assert radius(2.0**-130, 0.0) >= faint > 0.0
    assert radius(1.0, 1e-38) >= faint + 1e-38


def test_a_mask_that_is_a_number_has_to_be_far_below_all_scores():
    """Half of it is left for scores of both signs, and for the largest of a row."""
    causal = hm.Attention([Head(1e3 * ONE, 1e3 * ONE, ONE, ONE, hm.Softmax(1.0), True)])
    made, seen = real(causal), real(hm.Attention([replace(causal.heads[0], causal=False)]))
    for mask, says in ((1e8, False), (7.9e6, False), (1.01e9, True)):
        host = host_of(None, 1, mask=mask)
        assert (bound_of_reals(made, host) < math.inf) == says
        assert bound_of_reals(seen, host) < math.inf
    bias = hm.Attention([replace(causal.heads[0], position_bias=[[1e9]])])
    assert bound_of_reals(real(bias), host_of(None, 1, mask=1.01e9)) == math.inf


def test_weights_taken_in_a_coarser_format_round_as_in_it():
    host = host_of(None, 1, softmax_in="float32")
    assert attention_format(host, FLOAT64) is FLOAT32
    assert attention_format(host, FLOAT16) is FLOAT16
    for room, find in ROOMS.items():
        made = (real if room == "reals" else word)(heads())
        assert find(made, host) >= FLOAT32.unit > find(made, None)


@cache
def machine():
    table = {(state, c): (state * k + k) % 5 for state in range(5) for k, c in enumerate("abc", 1)}
    return hm.compile(hm.programs.fsm(table, 0), alphabet="abc", length=3, route="parallel")


def bound_of_registers(host):
    given = machine(), machine().claim.target.steps(), 3, FLOAT32, RegisterMemory()
    return bound_by_registers(*given, host)


def test_registers_are_followed_only_through_identities():
    count, plain = len(machine().transformer.sublayers), bound_of_registers(None)
    off = rms(48, gain=1.5e8)
    assert plain < 1e-8
    assert bound_of_registers(host_of(rms(), count)) == pytest.approx(plain, abs=1e-20)
    assert bound_of_registers(host_of(off, count)) == math.inf
    assert bound_of_registers(host_of(rms(), count, Activation("silu", 2.0**30))) == math.inf
    assert bound_of_registers(host_of(rms(), count, rotary=Rotary(1e4, 4, 3))) == math.inf
    for place in range(count + 1):  # the read-out among them
        norms = [off if place == number else rms() for number in range(count + 1)]
        assert bound_of_registers(Host("test", norms, [None] * count)) == math.inf


def test_registers_lose_what_tiny_numbers_lose():
    made = word()
    reading = Reading(FLOAT32, host_of(rms()), made)
    state = State(1, (Register.ball(1e-38), Register(None, np.ones((1, 1)), 0.0)), None)
    ball, one = _as_read(state, reading).symbols
    assert ball.radius >= 1e-38 + reading.charge(np.ones(1)).faint
    assert one.radius == 0.0


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_every_method_for_words_takes_the_host(number):
    """In a host that is 0.1% off, no method says as much as without."""
    reverse = hm.compile(hm.programs.reverse, alphabet="ab", length=3)
    norm = rms(constants=((2.0**20, 1),), gain=2.0**17 * 1.001, epsilon=1e-30)

    def bounds(norm):
        for model in (machine(), reverse):
            host = None if norm is None else host_of(norm, len(model.transformer.sublayers))
            asked = LengthQuestion(model, model.claim.target.steps(), 3, FLOAT64, host)
            try:
                yield METHODS[number].bound(asked, Memory())[0]
            except TooLarge:
                yield math.inf

    pairs = [pair for pair in zip(bounds(None), bounds(norm), strict=True) if pair[0] < math.inf]
    assert pairs
    assert all(hosted >= plain + 1e-3 for plain, hosted in pairs)


def test_readings_of_no_host_are_plain():
    made = word()
    (last,) = readings(None, made, FLOAT64)
    assert last.is_plain
    assert last.charge(np.ones(1)).is_identity


# ---- certificates -------------------------------------------------------------------------------


def test_a_certificate_in_a_host_says_what_it_assumes():
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    count = len(model.transformer.sublayers)
    found = certify(model, host=host_of(rms(256, gain=BIG / 16), count))
    assert found.verdict is hm.Verdict.PROVED
    assert any("rsqrt" in line for line in found.assumptions)
    assert not any("rsqrt" in line for line in certify(model).assumptions)


def test_a_norm_without_room_is_no_proof():
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    host = host_of(rms(64, constants=((1.0, 1),), gain=0.125), len(model.transformer.sublayers))
    found = certify(model, host=host)
    assert found.verdict is hm.Verdict.UNDECIDED
    sort = hm.compile(hm.programs.sort, alphabet="ab", length=3)
    host = host_of(rms(64, constants=((1.0, 1),), gain=0.125), len(sort.transformer.sublayers))
    assert certify(sort, host=host).verdict is hm.Verdict.UNDECIDED


@pytest.mark.parametrize("name", FORMATS)
def test_programs_are_proved_in_a_host_that_reads_as_it_is(name):
    """The same bounds as without it, in every format that has room."""
    model = hm.compile(hm.programs.sort, alphabet="abc", length=3)
    large = rms(constants=((2.0**40, 1),), gain=2.0**37, variance_in="float32")
    host = host_of(large, len(model.transformer.sublayers))
    plain, hosted = certify(model).formats[name], certify(model, host=host).formats[name]
    assert hosted == (math.inf if name == "float16" else pytest.approx(plain, rel=1e-6))


# ---- answers that are classes -------------------------------------------------------------------


def classes(*codes, norm=None):
    return Host("test", [norm], [], classes=codes)


def owed(host, format=FLOAT32, charge=None):
    readout = hm.ReadOut(ONE, [0.0], token=0)
    return answer_charge(host, readout, NOTHING if charge is None else charge, format)


def test_what_classes_lose_is_nearly_attained():
    """The largest y below the middle of two codes whose logits, in float32, name the upper one.

    Products are just above 2^22, so that one rounding of them is a whole unit; the last difference
    is exact there, which is the third that is missing.
    """
    low, high = SINGLE(1450.0), SINGLE(1451.0)
    found, middle = owed(classes(1450.0, 1451.0)), SINGLE(1450.5)
    y = (1450.5 - found * np.linspace(0.0, 1.0, 3000)).astype(SINGLE)
    lower, upper = (SINGLE(2.0) * c * y - c * c for c in (low, high))
    worst = (middle - y)[upper >= lower].max()
    assert 0.6 * found <= worst <= found


def test_small_classes_lose_next_to_nothing():
    assert owed(classes(0.0, 1.0)) <= 4 * FLOAT32.unit
    assert owed(classes(3.0)) == 0.0
    assert owed(None) == 0.0
    wide = [owed(classes(*np.arange(float(n)))) for n in (4, 40, 400)]
    assert wide[0] < wide[1] / 50 < wide[2] / 5000


def test_classes_are_charged_for_biases_that_a_norm_reads():
    """4 and 5, a bias that is off by 1%: 0.25 of 25 and 0.16 of 16, over twice their distance."""
    charge = ReadCharge(biases=0.01)
    assert owed(classes(4.0, 5.0), FLOAT64, charge) == pytest.approx(0.205, rel=1e-6)
    mean = ReadCharge(absolute=0.01, biases=1e-12)
    norm = layer()
    found = owed(classes(4.0, 5.0, norm=norm), FLOAT64, mean)
    assert found == pytest.approx((2 * 4 + 2 * 5) * 0.01 / 2, rel=1e-6)


def test_classes_that_read_several_columns_are_not_charged():
    several = hm.ReadOut([[1.0, 1.0]], [0.0], token=0)
    shifted = hm.ReadOut(ONE, [1.0], token=0)
    for readout in (several, shifted):
        with pytest.raises(NoCharge):
            answer_charge(classes(0.0, 1.0), readout, NOTHING, FLOAT32)


@pytest.mark.parametrize("room", ["words", "slots"])
def test_answers_that_are_classes_are_charged(room):
    host = classes(0.0, 1000.0, 1001.0)
    found, plain = ROOMS[room](word(), host), ROOMS[room](word(), classes())
    assert found - plain == pytest.approx(owed(host, FLOAT64), rel=1e-3)


def test_registers_are_charged_for_classes():
    count = len(machine().transformer.sublayers)
    codes = tuple(map(float, range(5)))
    found = bound_of_registers(host_of(rms(), count, classes=codes))
    plain = bound_of_registers(host_of(rms(), count))
    assert plain == pytest.approx(0.0, abs=1e-8)
    assert found == pytest.approx(owed(classes(*codes)), rel=1e-2)


def test_classes_of_real_inputs_are_not_followed():
    assert bound_of_reals(real(), classes(0.0, 1.0)) == math.inf


# ---- layer norms as PyTorch has them ------------------------------------------------------------


def test_variances_and_means_of_pytorch_are_within_what_is_assumed():
    """Blocks of running means: 7 units of the variance were seen, and 3.5 of the mean size."""
    import torch

    rng, u = np.random.default_rng(0), FLOAT32.unit
    for width in (16, 128, 512):
        norm, worst = layer(width), 0.0
        for _ in range(50):
            x = rng.uniform(-30, 30, width) * rng.integers(0, 2)
            places = rng.permutation(width)[:2]
            x[places] = 2.0**16, -(2.0**16)
            x = x.astype(SINGLE)
            _, mean, root = torch.native_layer_norm(torch.tensor(x)[None], [width], None, None, 0.0)
            exact = x.astype(np.longdouble)
            variance = ((exact - exact.mean()) ** 2).mean()
            worst = max(worst, abs(float(1 / np.longdouble(root.item()) ** 2 / variance - 1)))
            sizes = np.abs(x[np.abs(x) < 100])
            known = _mean_size(norm, np.append(sizes, 0.0), FLOAT32)
            real_mean = sizes.sum() / width
            assert abs(float(mean.item()) - float(exact.mean())) <= known - real_mean
        assert worst <= _VARIANCE_UNITS / 2 * u


def test_what_a_layer_norm_takes_for_its_variance_is_charged():
    """Half of 32 units, and 4 of the root; the rest are roundings of single columns."""
    wide = hm.Transformer(hm.VectorInput(np.zeros((1, 1, 1)), [[0.0]]), [], hm.ReadOut(ONE, [0.0]))
    found = charge(replace(layer(2**10, ballast=2.0**30), zeros=0), [1e-3], FLOAT32, wide).relative
    assert found == pytest.approx((16 + 4 + 5) * FLOAT32.unit, rel=1e-2)


def test_more_empty_columns_are_more_roundings():
    one, two = (charge(replace(layer(), zeros=z), np.ones(3), FLOAT32) for z in (1, 2))
    assert two.absolute - one.absolute > 0.9 * FLOAT32.unit * 2 * 3 / 64
    assert two.relative - one.relative == pytest.approx(FLOAT32.unit, rel=0.01)
    assert two.still > 2.0 * one.still  # no two products are each other's negatives any more


def test_biases_of_a_layer_norm_are_charged_for_its_mean():
    norm = replace(layer(), biases_normed=True)
    found = charge(norm, np.full(10, 3.0), FLOAT32)
    assert found.biases >= found.relative + found.absolute


def test_a_mean_that_no_format_knows_is_no_charge():
    """n units of a coarse format are more than 1."""
    with pytest.raises(NoCharge):
        charge(layer(1024), np.ones(3), FORMATS["bfloat16"])
    variance = replace(layer(1024), variance_in="float32")
    assert charge(variance, np.ones(3), FORMATS["bfloat16"]).relative < 0.1


def test_a_variance_in_float32_is_not_that_of_the_stream():
    """2^12 beside 2^30 is lost in bfloat16 and is not in float32, in which T5 takes it."""
    coarse = rms(constants=((2.0**15, 1),), gain=2.0**12)
    size = [2.0**6.5]
    assert charge(coarse, size, FORMATS["bfloat16"]).is_identity
    fine = replace(coarse, variance_in="float32")
    assert not charge(fine, size, FORMATS["bfloat16"]).is_identity
