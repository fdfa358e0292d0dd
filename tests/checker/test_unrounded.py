"""Units that read one float round nothing; so rows of heads are as close as they are claimed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.checker.blocks import BlockProof
from hardmax.checker.blocks._arithmetic import Balls, _through, fed_forward, products
from hardmax.checker.blocks._reading import turned_format
from hardmax.checker.blocks._unrounded import adds_without_rounding, read_as_one_float
from hardmax.core import Attention, Transformer, Words, evaluate
from hardmax.numerics import FLOAT16, FLOAT32, FLOAT64, FORMATS, Format

s = p.Sequence()
mirrored = s.tokens.at(s.length - 1 - s.index)
so_far = (p.there(s.index) <= s.index).sum(s.tokens == "a")
parity, first = so_far % 2, so_far == 1
HALVES = np.arange(2**15).astype(np.uint16).view(np.float16)
HALVES = HALVES[np.isfinite(HALVES)]


def ball(low: float, high: float) -> Balls:
    return Balls(np.array([[(low + high) / 2, 1.0]]), np.array([[(high - low) / 2, 0.0]]))


def jump(slope: float, edge: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two units that make a jump, in a stream of one number and the constant 1."""
    inner = np.array([[slope, 0.0], [slope, 0.0]])
    return inner, np.array([-edge, -edge - 1.0]), np.array([[1.0, -1.0]])


# ---- the lemma -----------------------------------------------------------------------------------


def test_of_which_power_of_two_numbers_are_multiples():
    for least in (2.0**-24, 2.0**-15, 0.3, 0.5, 3.9, 4.0):
        grid = float(FLOAT16.finest(least))
        some = HALVES[(least <= HALVES) & (HALVES < 16)].astype(float) * 2.0**-grid
        assert (some % 1 == 0).all()
        assert (some % 2 != 0).any()


@pytest.mark.parametrize("format", FORMATS.values(), ids=list(FORMATS))
def test_a_jump_is_one_whatever_the_number(format):
    """From the end of the edge on; within it the jump is as steep as it is."""
    inner, bias, outer = jump(64.0, 20.5)
    for low, high in ((0.34, 0.49), (0.49, 0.6), (0.96, 1.01)):
        found = fed_forward(ball(low, high), inner, bias, outer, format.sheltered)
        assert (found.middle[0, 0], found.radius[0, 0]) == (1.0, 0.0)
    below = fed_forward(ball(-0.5, 0.31), inner, bias, outer, format.sheltered)
    assert (below.middle[0, 0], below.radius[0, 0]) == (0.0, 0.0)
    within = fed_forward(ball(0.32, 0.33), inner, bias, outer, FLOAT64)
    assert within.radius[0, 0] >= 0.32


def test_every_number_of_16_bits_makes_the_same_jump():
    """What the lemma says of floats, tried on all of them; counted from above it is false."""
    slope, edge = np.float16(64.0), np.float16(20.5)
    some = HALVES[(HALVES >= 0.4) & (HALVES <= 16)]
    steps = np.maximum(slope * some - edge, 0) - np.maximum(slope * some - edge - 1, 0)
    assert (steps == 1).all()
    some = HALVES[(HALVES >= 0.0) & (HALVES <= 0.3)]
    down = np.maximum(edge + 1 - slope * some, 0) - np.maximum(edge - slope * some, 0)
    assert (down != 1).any()


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_two_jumps_of_one_slope_are_no_matter_of_order(order):
    """Up and down again: 0 for every float beyond both, whatever is added first."""
    some = HALVES[(HALVES >= 2.0) & (HALVES <= 60)]
    edges, signs = np.float16([1.5, 2.5, 5.5, 6.5]), np.float16([1, -1, -1, 1])
    terms = [s * np.maximum(np.float16(4) * some - t, 0) for s, t in zip(signs, edges, strict=True)]
    first, *rest = (terms[k] for k in order)
    for one in rest:
        first = (first + one).astype(np.float16)
    assert (first == 0).all()


def sums(top: float, slopes: list[float], edges: list[float], format: Format) -> bool:
    """Whether a jump up and one down are added up without rounding, around a number."""
    inner = np.array([[slope, 0.0] for slope in slopes])
    x, bias = ball(top - 2.0**-7, top + 2.0**-7), -np.array(edges)
    one = read_as_one_float(x, inner, bias, format)
    on = np.ones((1, len(slopes)), dtype=bool)
    outer = np.array([[1.0, -1.0, -1.0, 1.0][: len(slopes)]])
    return bool(adds_without_rounding(one, on, ~on, outer, format)[0, 0])


def test_two_slopes_lose_digits():
    """A sum of slopes 4 and 2 is 6 z, which takes digits that there are not."""
    edges = [1.5, 2.5, 2.5, 3.5]
    assert sums(3.1, [4.0] * 4, edges, FLOAT16)
    assert not sums(3.1, [4.0, 4.0, 2.0, 2.0], edges, FLOAT16)
    z = HALVES[(HALVES >= 3.05) & (HALVES < 3.2)]
    both = np.float16(4) * z - np.float16(1.5), np.float16(2) * z - np.float16(3.5)
    assert ((both[0] + both[1]).astype(float) != both[0].astype(float) + both[1]).any()


def test_edges_have_digits_that_numbers_have():
    """In 16 bits numbers from 2 to 4 are multiples of 2^-9, four times these of 2^-7."""
    assert sums(2.5, [4.0] * 2, [1.5 + 2.0**-7, 2.5 + 2.0**-7], FLOAT16)
    assert not sums(2.5, [4.0] * 2, [1.5 + 2.0**-8, 2.5 + 2.0**-8], FLOAT16)
    assert not sums(3.1, [4.0] * 4, [1.5 + 2.0**-7, 2.5 + 2.0**-7, 5.5, 6.5], FLOAT16)
    z = HALVES[(HALVES >= 2.4) & (HALVES < 2.6)]  # one unit is above 8, the other below
    made = [4 * z.astype(float) - t for t in (1.5 + 2.0**-8, 2.5 + 2.0**-8)]
    assert (made[0].astype(np.float16) - made[1].astype(np.float16) != 1).any()


def test_how_far_one_unit_reaches():
    """A float and a number of its digits: held up to the next power of two, and not beyond."""
    x, inner = ball(0.75, 0.75 + 2.0**-12), np.array([[1.0, 0.0]])

    def is_sharp(bias: float) -> bool:
        return bool(read_as_one_float(x, inner, np.array([bias]), FLOAT16).sharp[0, 0])

    assert is_sharp(0.25 - 2.0**-11)
    assert not is_sharp(0.25)  # the ball goes on beyond 3/4, and sums beyond 1
    odd = np.float16(0.75 + 2.0**-11)
    assert float(odd + np.float16(0.25)) != float(odd) + 0.25
    assert is_sharp(-(2.0**-11))
    assert not is_sharp(-(2.0**-12))  # a digit that z does not have
    near = ball(-(2.0**-9), 0.75)  # there is no least number
    assert not read_as_one_float(near, inner, np.array([0.25]), FLOAT16).sharp.any()


def test_units_of_two_numbers_are_left_to_the_general_bound():
    x = Balls(np.array([[1.0, 1.0, 1.0]]), np.array([[1e-3, 1e-3, 0.0]]))

    def is_sharp(row: list[float], bias: float) -> bool:
        return bool(read_as_one_float(x, np.array([row]), np.array([bias]), FLOAT16).sharp[0, 0])

    assert is_sharp([1.0, 0.0, 0.0], -0.5)
    assert not is_sharp([1.0, 1.0, 0.0], -0.5)
    assert not is_sharp([3.0, 0.0, 0.0], -0.5)  # a product that is rounded
    assert not is_sharp([1.0, 0.0, -0.5], -0.5)  # three terms
    two = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])  # units of different numbers
    one = read_as_one_float(x, two, np.full(2, -0.5), FLOAT16)
    on = np.ones((1, 2), dtype=bool)
    assert one.sharp.all()
    assert not adds_without_rounding(one, on, ~on, np.array([[1.0, -1.0]]), FLOAT16).any()
    assert not adds_without_rounding(one, on, ~on, np.array([[3.0, 0.0]]), FLOAT16).any()
    assert adds_without_rounding(one, on, ~on, np.array([[2.0, 0.0]]), FLOAT16).all()
    assert not adds_without_rounding(one, ~on, ~on, np.array([[2.0, 0.0]]), FLOAT16).any()


def is_whole(
    x: Balls, slopes: list[float], rests: list[float], weights: list[float], format: Format
) -> bool:
    """Whether units slope z + rest, all active, are added up without rounding."""
    inner = np.array([[slope, 0.0] for slope in slopes])
    one = read_as_one_float(x, inner, np.array(rests), format)
    on = np.ones((1, len(slopes)), dtype=bool)
    return bool(adds_without_rounding(one, on, ~on, np.array([weights]), format)[0, 0])


def test_what_else_keeps_sums_from_being_whole():
    x = ball(0.6, 0.7)
    assert is_whole(x, [0.0] * 6, [1.0] * 6, [1.0] * 6, FLOAT16)
    assert not is_whole(x, [0.0] * 6 + [1.0], [1.0] * 6 + [0.0], [1.0] * 7, FLOAT16)  # 6 + z
    assert is_whole(x, [0.0] * 2, [1.0, 2.0**-10], [1.0] * 2, FLOAT16)
    assert not is_whole(x, [0.0] * 2, [1.0, 2.0**-11], [1.0] * 2, FLOAT16)
    assert not is_whole(x, [0.0] * 2, [2.0**40, 2.0**-20], [1.0] * 2, FLOAT32)  # nor in float64
    assert 3.0 * (1 / 3) == 1.0 != 3.0 * float(np.float32(1 / 3))
    assert not is_whole(x, [0.0], [3.0], [1 / 3], FLOAT32)  # a weight that the format rounds


def test_sharpness_is_that_of_the_whole_ball():
    """The least number has the most digits, the largest the largest image."""
    inner, bias = np.array([[1.0, 0.0]]), np.array([0.25])
    assert read_as_one_float(ball(0.51, 0.74), inner, bias, FLOAT16).sharp.all()
    assert not read_as_one_float(ball(0.51, 0.9), inner, bias, FLOAT16).sharp.any()
    assert not read_as_one_float(ball(0.49, 0.52), inner, bias, FLOAT16).sharp.any()
    odd = np.float16(0.49 + 2.0**-12)
    assert any(
        float(z + np.float16(0.25)) != float(z) + 0.25 for z in (odd, odd + np.float16(2.0**-12))
    )


def test_slopes_that_nearly_cancel_are_rounded_outward():
    """What is left of them is more than floats say, sometimes; where they are exact, it is not."""
    rng, short = np.random.default_rng(0), 0
    on, radius = np.ones((1, 3), dtype=bool), np.ones((1, 1))
    for _ in range(50):
        inner, outer = rng.random((3, 1)), rng.random((1, 3))
        inner[2, 0], outer[0, 2] = 1.0, -float(outer[0, :2] @ inner[:2, 0])
        true = abs(sum(map(Fraction.__mul__, map(Fraction, outer[0]), map(Fraction, inner[:, 0]))))
        short += abs(float((outer @ inner)[0, 0])) < true
        assert Fraction(float(_through(on, radius, inner, outer)[0, 0])) >= true
    assert short > 10
    assert _through(on, radius, np.array([[4.0], [2.0], [2.0]]), np.array([[1.0, -1.0, -1.0]])) == 0


def test_two_products_with_powers_of_two_are_one_rounding():
    """Then two positions with one key have one score; with three the order could set them apart."""
    key = Balls(np.array([[32.0, 5.0]]), np.zeros((1, 2)))
    query = Balls(np.array([[1.0, 1.0]]), np.array([[1e-6, 0.0]]))
    found, own = products(query, key, FLOAT32)
    assert own[0, 0] == 0.0
    assert found.radius[0, 0] > 0
    uneven = Balls(np.array([[20.0, 5.0]]), np.zeros((1, 2)))
    assert products(query, uneven, FLOAT32)[1][0, 0] > 0
    three = Balls(np.array([[32.0, 4.0, 1.0]]), np.zeros((1, 3)))
    loose = Balls(np.array([[1.0, 1.0, 1.0]]), np.array([[1e-6, 0.0, 0.0]]))
    assert products(loose, three, FLOAT32)[1][0, 0] > 0


def test_keys_that_differ_in_the_last_digit_are_rounded_apart():
    """4 + a half of a digit is 4, and one digit more where a is ever so little larger."""
    half = np.float32(2.0**-22)
    more = np.nextafter(half, np.float32(1))
    query, four = Balls(np.ones((1, 2)), np.zeros((1, 2))), np.float32(4)
    key = Balls(np.array([[4.0, float(half)]]), np.array([[0.0, float(more - half)]]))
    apart = float((four + more) - (four + half))
    assert 2.0 * products(query, key, FLOAT32)[1][0, 0] >= apart == 2.0**-21


def test_streams_that_are_turned_hold_other_floats():
    """What is read of them is a dense product, and no number of the format."""
    inner, bias, outer = jump(64.0, 20.5)
    plain = fed_forward(ball(0.49, 0.6), inner, bias, outer, FLOAT32)
    turned = turned_format(FLOAT32, 2, 1.5, 0.0, 0.0)
    found = fed_forward(ball(0.49, 0.6), inner, bias, outer, turned)
    assert plain.radius[0, 0] == 0.0
    assert found.radius[0, 0] >= 2.0 * FLOAT32.unit * 64.0


# ---- 16 and 32 bits ------------------------------------------------------------------------------


def computed(
    transformer: Transformer, word: tuple, half: type
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Answers and attention rows, every sum, product and exponential being rounded."""
    source, rows = transformer.input, []
    ids = list(source.indices(word))
    first = (source.start + source.positions[0])[None]
    rest = source.embedding[ids] + source.positions[1 : len(ids) + 1]
    stream = np.concatenate([first, rest]).astype(half)
    for layer in transformer.sublayers:
        added = np.zeros_like(stream)
        if isinstance(layer, Attention):
            for head in layer.heads:
                matrices = [m.T.astype(half) for m in (head.query, head.key, head.value)]
                query, key, value = (stream @ matrix for matrix in matrices)
                logits = half(head.weighting.coldness) * (query @ key.T)
                powers = np.exp(logits - logits.max(axis=1, keepdims=True))
                weights = powers / powers.sum(axis=1, keepdims=True)
                rows.append(weights)
                added = added + (weights @ value) @ head.output.T.astype(half)
        else:
            inner, bias = layer.inner.T.astype(half), layer.inner_bias.astype(half)
            hidden = np.maximum(stream @ inner + bias, 0)
            added = hidden @ layer.outer.T.astype(half)
        stream = stream + added
    readout = transformer.readout
    assert stream.dtype == half
    return stream[1:] @ readout.weights.T.astype(half) + readout.bias.astype(half), rows


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (p.reverse, Words("abcdefghij", 20)),
        (p.histogram, Words("abcdefghij", 20)),
        (p.sort, Words("abcde", 5)),
        (p.Program(s.everywhere.sum(s.tokens == "a") % 3), Words("ab", 20)),
    ],
    ids=["reverse", "histogram", "sort", "modulo"],
)
def test_models_for_16_bits_are_proved_and_run_in_them(program, words):
    model = hm.compile(program, on=words, route="legible", float="float16")
    certificate = hm.certify(model)
    assert certificate.verdict is hm.Verdict.PROVED
    assert "float16" in certificate.holds_in
    for word in words.sample(12, np.random.default_rng(0)):
        if word:
            exact = evaluate(model.transformer, word)
            found, _ = computed(model.transformer, word, np.float16)
            away = np.abs(found.astype(float) - np.round(exact))
            assert away.max() <= model.claim.error <= 0.45


# ---- rows ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (p.Program(p.sorted_by(s.tokens), "sort"), Words("abcde", 40)),
        (p.sort_by_frequency, Words("abcde", 20)),
        (p.most_frequent, Words("abcde", 40)),
        (p.reverse, Words("abcde", 40)),
        (p.dyck(["()", "[]"]), Words("()[]", 5)),
        (p.shuffle_dyck("()"), Words("()", 40)),
        (
            p.Program(s.everywhere.all(s.tokens == mirrored)),
            Words("ab", 9),
        ),
        (p.Program((p.there(parity) == parity).sum(s.tokens == "b")), Words("ab", 20)),
        (p.Program((p.there(first) == 1).mean(s.tokens == "b")), Words("ab", 9)),
    ],
    ids=[
        "sort",
        "by frequency",
        "most frequent",
        "reverse",
        "dyck",
        "shuffle-Dyck",
        "palindrome",
        "parity is a key",
        "a function of a share is a key",
    ],
)
def test_rows_are_within_a_millionth_of_their_patterns(program, words):
    """In exact numbers one-hots would be exact; here they are as computed, in both formats."""
    model = hm.compile(program, on=words, route="legible")
    ids = np.arange(len(words.alphabet))
    proof = BlockProof(model.transformer, model.circuit, model.claim.target.steps(), words, ids)
    for format in (FLOAT64, FLOAT32):
        held = proof.bound(format)
        assert proof.answers(held) <= model.claim.error
        leaked = 41 * math.exp(-32)  # to others, by Theorem 1
        assert held.rows <= 1.01 * leaked + 3.01 * format.unit <= 1e-6


@pytest.mark.parametrize("program", [p.sort_by_frequency, p.most_frequent, p.reverse], ids=str)
def test_rows_in_32_bits_are_as_close_as_is_certified(program):
    words = Words("abc", 12)
    model = hm.compile(program, on=words, route="legible")
    proof = BlockProof(
        model.transformer, model.circuit, model.claim.target.steps(), words, np.arange(3)
    )
    exact, held = proof.bound(FLOAT64), proof.bound(FLOAT32)
    worst = 0.0
    for word in words.sample(20, np.random.default_rng(1)):
        if word:
            (_, wide), (_, rows) = (
                computed(model.transformer, word, one) for one in (np.float64, np.float32)
            )
            worst = max(
                worst, *(float(np.abs(a - b).max()) for a, b in zip(wide, rows, strict=True))
            )
    assert 0.0 < worst <= held.rows + exact.rows
