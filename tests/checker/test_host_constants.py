"""Each part of a host's charges alone, counted by hand: half of any of them is seen here.

`test_hosts.py` has what is attained in a run. These parts are too small beside others to be seen
there, or are roundings that no one run has at their worst all at once; where a part is room that is
left on purpose, it is the edge that is tried.
"""

import math
from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker._hosts import (
    NOTHING,
    ActivationCharge,
    NoCharge,
    ReadCharge,
    _mean_size,
    activation_charge,
    answer_charge,
    read_charge,
    rotary_charge,
    with_turns,
)
from hardmax.core import Activation, Head, Host, Norm, Rotary
from hardmax.numerics import BFLOAT16, FLOAT32, FLOAT64

ONE = np.ones((1, 1))
BIG = 2.0**30
U = FLOAT32.unit
SHARE = 1.0 + 65.0 / 64.0


def transformer(terms=1, tokens=1, sublayers=()):
    """One whose read-out reads so many columns."""
    maps, offsets = np.zeros((tokens, terms, 1)), np.zeros((tokens, terms))
    readout = hm.ReadOut(np.ones((1, terms)), [0.0], token=0)
    return hm.Transformer(hm.VectorInput(maps, offsets), sublayers, readout)


def charge(norm, size, terms=1, format=FLOAT32):
    host, made = Host("test", [norm], []), transformer(terms)
    return read_charge(host, made, 0, np.asarray(size, float), format)


def layer(zeros=1, width=64):
    ballast = 2.0**16
    pairs = ((ballast, 1), (-ballast, 1))
    return Norm("layer", width, 1e-5, ballast * math.sqrt(2.0 / width), 1.0, pairs, zeros=zeros)


def rms(width=64, gain=BIG / 8, constants=((BIG, 1),), epsilon=1e-6, scale=1.0, **more):
    return Norm("rms", width, epsilon, gain, scale, constants, **more)


# ---- reads ---------------------------------------------------------------------------------------


def test_sizes_are_charged_by_each_part():
    read = ReadCharge(relative=0.5, absolute=0.25, still=8.0, faint=2.0, safe=1.0)
    sizes, exact = np.array([0.0, 4.0, 4.0]), np.array([False, False, True])
    assert read.of(sizes, exact).tolist() == pytest.approx([8.0, 4.25, 2.25])
    assert ActivationCharge(0.5, 3.0, 1.0).of(np.array([4.0])) == pytest.approx(5.0)


def test_single_columns_are_rounded_by_what_is_done_to_them():
    """A divisor's 9 halves and the root's 4; two products; the gain's, if it is no power of two."""
    power = charge(rms(48, BIG / 4, ((BIG, 3),)), [1.0])
    other = charge(rms(64, 3.0 * BIG / 8, ((BIG, 9),)), [1.0])
    assert power.relative == pytest.approx((4.5 + 4 + 2) * U, rel=1e-3)
    assert other.relative == pytest.approx((4.5 + 4 + 3) * U, rel=1e-3)


@pytest.mark.parametrize(("terms", "zeros"), [(1, 1), (5, 1), (5, 3), (1, 2)])
def test_a_rows_roundings_see_the_mean(terms, zeros):
    """Of the row's terms, the zeros' and a bias, k + 1 + z; of each column besides, 5; both twice.

    The last 1/64 is what rounding leaves between the zero's weight and those that it takes back.
    """
    size = np.full(terms, 3.0)
    mean = _mean_size(layer(zeros), size, FLOAT32)
    found = charge(layer(zeros), size, terms)
    summed = terms + 1 + zeros
    assert found.absolute == pytest.approx(SHARE * mean * (summed + 5) * U, rel=1e-4)
    alone = (terms, zeros) == (1, 1)
    assert found.still == pytest.approx(mean * U * (1.0 if alone else SHARE * summed), rel=1e-4)


def test_a_mean_is_off_by_the_roundings_of_its_sum():
    """n + 4, of all sizes: of nothing but the ballast's here, whose own mean is 0."""
    found = _mean_size(layer(width=64), np.zeros(1), FLOAT32)
    assert found == pytest.approx(2.0 * 2.0**16 * 68 * U / 64, rel=1e-4)


def test_an_epsilon_that_is_rounded_up_is_seen():
    """Between u and 2 u of the mean of squares, the sum of both is the next number."""
    mean, gain = 2.0**54, BIG / 8
    up, down = (rms(epsilon=share * U * mean) for share in (1.5, 0.49))
    for norm, moves in ((up, True), (down, False)):
        both = np.float32(mean) + np.float32(norm.epsilon)
        assert (both != np.float32(mean)) == moves
        assert charge(norm, [1.0]).is_identity != moves
    assert gain == math.sqrt(mean)


def test_tiny_numbers_are_lost_in_a_cast_a_product_and_two_more():
    """Units of x, of x over the divisor, of what is scaled; four of each, for other factors."""
    norm = rms(gain=BIG / 8, scale=2.0**-3, constants=((BIG * 8.0, 1),))
    found, ratio = charge(norm, [1.0]), BIG
    assert found.faint == pytest.approx(
        4.0 * FLOAT32.smallest * (1.0 + ratio + 8.0), rel=1e-6, abs=0.0
    )
    assert found.safe == pytest.approx(4.0 * FLOAT32.normal * ratio, rel=1e-6, abs=0.0)


def test_nothing_may_overflow_by_a_factor_of_four():
    """Squares; columns over the divisor; columns with the gain: 2^127 fits, and 2^128 does not."""

    def norm(value, scale):
        gain = value / 8.0 * scale
        return rms(gain=gain, scale=scale, constants=((value, 1),), variance_in="float64")

    edges = [
        [replace(norm(value, 1.0), variance_in=None) for value in (2.0**62, 2.0**63)],
        [norm(value, 2.0**-10) for value in (2.0**125, 2.0**126)],
        [norm(2.0**100, scale) for scale in (2.0**25, 2.0**26)],
    ]
    for fits, does_not in edges:
        assert charge(fits, [1.0]).is_identity
        with pytest.raises(NoCharge):
            charge(does_not, [1.0])


# ---- activations, rotary positions, masks --------------------------------------------------------


def test_what_is_flushed_to_0_is_lost_in_ten_units():
    """As steep as bfloat16 allows, numbers that it may take for 0 are as large as the gap."""
    steep = Activation("silu", 2.0**120)
    gap = 0.2784645 / 2.0**120
    flushed = activation_charge(steep, BFLOAT16).absolute - gap * (1.0 + 10.0 * BFLOAT16.unit)
    assert flushed == pytest.approx(10.0 * BFLOAT16.flushed, rel=1e-2, abs=0.0)


@pytest.mark.parametrize("width", [1, 30])
def test_turned_products_are_rounded(width):
    """Twice as many terms and 40 more, in float32 at least; and 6 units of angles up to 0.4."""
    head = Head(*[np.zeros((width, 1))] * 2, ONE, ONE, hm.Softmax(1.0))
    made = transformer(tokens=5, sublayers=[hm.Attention([head])])
    found = rotary_charge(Rotary(theta=10000.0, planes=4, first=1), made, FLOAT64)
    slowed = 0.5 * (0.4 * (1.0 + 4.0 * U)) ** 2
    units = (found - slowed) / (U * (1.0 + slowed))
    assert units == pytest.approx(2 * width + 40 + 4 * 0.4 * 6, rel=1e-3)


def test_what_keys_are_off_by_turns_too():
    made = transformer(
        tokens=5, sublayers=[hm.Attention([Head(ONE, ONE, ONE, ONE, hm.Softmax(1.0))])]
    )
    host = Host("test", [None, None], [None], rotary=Rotary(theta=10000.0, planes=4, first=1))
    found = with_turns(ReadCharge(absolute=1.0, still=2.0, faint=4.0), host, made, FLOAT64)
    turned = rotary_charge(host.rotary, made, FLOAT64)
    assert turned == pytest.approx(0.08, rel=1e-4)
    parts = [found.absolute, found.still, found.faint]
    assert parts == pytest.approx([1.0 + turned, 2.0 + 2.0 * turned, 4.0 + 4.0 * turned], rel=1e-6)


@pytest.mark.parametrize(
    ("score", "bias", "mask", "fits"),
    [
        (1.24e8, 0.0, 1e9, True),  # 8 times that is 0.992e9
        (1.26e8, 0.0, 1e9, False),
        (0.0, 1.24e8, 1e9, True),
        (0.0, 1.26e8, 1e9, False),
        (1.0, 0.0, 0.99e9, False),  # half of the mask has to be where exp is 0
    ],
)
def test_scores_have_an_eighth_of_the_mask(score, bias, mask, fits):
    head = Head(score * ONE, ONE, ONE, ONE, hm.Softmax(1.0), True, position_bias=[[bias]])
    made = transformer(sublayers=[hm.Attention([head])])
    host = Host("test", [None, None], [None], mask=mask)
    if fits:
        assert read_charge(host, made, 0, np.ones(1), FLOAT64) == NOTHING
    else:
        with pytest.raises(NoCharge):
            read_charge(host, made, 0, np.ones(1), FLOAT64)


# ---- answers that are classes --------------------------------------------------------------------


def owed(codes, given=NOTHING, norm=None):
    host = Host("test", [norm], [], classes=codes)
    return answer_charge(host, hm.ReadOut(ONE, [0.0], token=0), given, FLOAT32)


def test_each_rounding_of_a_logit_is_charged():
    """c = 1451, v = 1450, d = 1: the product 2 |c_v| (c + 1/2), then l_v itself; over 2 d."""
    c, v = 1451.0, 1450.0
    products = 2.0 * v * (c + 0.5) + 2.0 * c * (c + 0.5)
    logits = v * (2.0 + v + 1.0) + c * (c + 1.0)
    assert owed((v, c)) == pytest.approx((products + logits) * U / 2.0, rel=1e-5)


def test_each_rounding_of_a_normed_logit_is_charged():
    """Seven instead, of the product and of the bias c_v^2."""
    c, v = 1451.0, 1450.0
    sizes = 2.0 * v * (c + 0.5) + 2.0 * c * (c + 0.5) + v * v + c * c
    found = owed((v, c), ReadCharge(biases=1e-30), layer())
    assert found == pytest.approx(7.0 * sizes * U / 2.0, rel=1e-5)


def test_codes_near_the_smallest_number_are_not_told_apart():
    """Four of the smallest for each of two logits, over twice 2^-100."""
    assert owed((0.0, 2.0**-100)) == pytest.approx(
        4.0 * FLOAT32.smallest * 2.0**100, rel=1e-6, abs=0.0
    )
