"""What the certificates assume of exp, against the kernels of PyTorch and NumPy.

Two numbers for each format: how many unit roundoffs an exponential may be off, and from where on
it may vanish. Both paths of PyTorch's attention are asked, with and without a mask, and with so
many tokens that vectors, their remainders and several blocks are reached.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import hardmax as hm
from hardmax.checker.rounding._bounds import _bound, float_bounds
from hardmax.checker.sequences._stream import Overflow
from hardmax.checker.sequences.slots._compare import follow_words
from hardmax.checker.sequences.words._batches import enclose_words
from hardmax.core import Share, Words
from hardmax.numerics import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, about_underflow

LENGTHS = (1, 2, 5, 8, 9, 16, 17, 31, 100, 513, 600)
PATHS = {"fused": SDPBackend.FLASH_ATTENTION, "plain": SDPBackend.MATH}


def attention(logits: np.ndarray, name: str, path: str, *, masked: bool) -> np.ndarray:
    """The weights that PyTorch gives tokens with these logits, in float64 by one-hot values."""
    dtype, tokens = getattr(torch, name), len(logits)
    key = torch.zeros(1, 1, tokens, tokens, dtype=dtype)
    query = torch.zeros(1, 1, 1, tokens, dtype=dtype)
    query[..., 0] = 1.0
    given = torch.tensor(logits).to(dtype)
    mask = given[None, None, None] if masked else None
    if not masked:
        key[0, 0, :, 0] = given
    with sdpa_kernel([PATHS[path]]):
        values = torch.eye(tokens, dtype=dtype)[None, None]
        mixed = scaled_dot_product_attention(query, key, values, attn_mask=mask, scale=1.0)
    return mixed[0, 0, 0].double().numpy()


def stored(values: np.ndarray, name: str) -> np.ndarray:
    return torch.tensor(values).to(getattr(torch, name)).double().numpy()


def strays(format, logits: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """By how much weights are beyond what is assumed of exp, and of every sum around it.

    Token 0 has logit 0, so p_j / p_0 is its power. Of the roundings besides the exponential's at
    most 6 are relative to each weight: of the difference, which is exact here, of the weight, of
    the quotient, twice, of the product, and of p_0.
    """
    power = np.exp(logits)
    units = format.power_units(len(logits)) + 6
    slack = units * format.unit * power + 2 * format.smallest / weights[0]
    beyond = np.where(logits < format.exp_vanishes, format.vanished, 0.0)
    return np.abs(weights / weights[0] - power) - np.where(logits == 0.0, 0.0, slack + beyond)


def around_the_edge(format, tokens: int, rng: np.random.Generator) -> np.ndarray:
    """Logits near where exponentials vanish; token 0 is the largest."""
    edge = format.exp_vanishes if format is not FLOAT64 else -745.0
    logits = edge + rng.uniform(-3.0, 2.0, tokens)
    logits[0] = 0.0
    return stored(logits, format.name)


def all_over(format, tokens: int, rng: np.random.Generator) -> np.ndarray:
    logits = rng.uniform(format.exp_vanishes, 0.0, tokens)
    logits[0] = 0.0
    return stored(logits, format.name)


def worst(format, draw, lengths=LENGTHS, rounds: int = 2) -> float:
    """The most by which any kernel is beyond the assumption; negative, if it holds."""
    rng = np.random.default_rng(0)
    found = -math.inf
    for tokens in lengths:
        for path in PATHS:
            for masked in (False, True):
                for _ in range(rounds):
                    logits = draw(format, tokens, rng)
                    weights = attention(logits, format.name, path, masked=masked)
                    found = max(found, float(strays(format, logits, weights).max()))
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_kernels_keep_the_assumption(name):
    assert worst(FORMATS[name], all_over) <= 0.0
    assert worst(FORMATS[name], around_the_edge) <= 0.0


def test_the_edge_is_where_float32_vanishes():
    """From logit -86.99 on, with a vector of 16 tokens; half a logit later it would be seen."""
    assert worst(replace(FLOAT32, exp_vanishes=-87.5), around_the_edge) > 0.0
    logits = np.array([0.0] + [-87.0] * 16)
    assert (attention(logits, "float32", "fused", masked=False)[1:] == 0.0).any()
    logits[1:] = FLOAT32.exp_vanishes
    assert (attention(logits, "float32", "fused", masked=False)[1:] > 0.0).all()


def test_float32_needs_more_than_four_ulp():
    """Half the units would not do; units in the last place come to more than four."""
    rng, format = np.random.default_rng(1), FLOAT32
    logits = np.concatenate([[0.0], stored(rng.uniform(-86.9, -80.0, 6000), "float32")])
    parts = np.array_split(logits[1:], 12)
    weights = [attention(np.append(0.0, p), "float32", "fused", masked=False)[1:] for p in parts]
    error = np.abs(np.concatenate(weights) / np.exp(logits[1:]) - 1.0) / format.unit
    assert format.exp_units / 2 < error.max() <= format.exp_units


def test_numpy_keeps_the_assumption():
    rng = np.random.default_rng(2)
    for format, kind in ((FLOAT64, "f8"), (FLOAT32, "f4"), (FLOAT16, "f2")):
        x = rng.uniform(format.exp_vanishes, 0.0, 20000).astype(kind)
        real = np.exp(x.astype(np.longdouble))
        slack = format.exp_units * format.unit * real + format.smallest
        assert (np.abs(np.exp(x).astype(np.longdouble) - real) <= slack).all()
        assert np.exp(np.zeros(9, kind)).tolist() == [1.0] * 9


@pytest.mark.parametrize("name", FORMATS)
def test_sigmoid_is_as_good_as_the_softmax_of_two_tokens(name):
    """Folded modules take the weight 1/(1 + e^-d) by it: a power, a sum and a quotient.

    16-bit numbers go through float32 and are rounded once.
    """
    format, dtype = FORMATS[name], getattr(torch, name)
    edge = -min(format.exp_vanishes, FLOAT32.exp_vanishes)
    d = torch.linspace(-edge, edge, 100001, dtype=torch.float64).to(dtype)
    given = torch.sigmoid(d).double().numpy().astype(np.longdouble)
    real = 1.0 / (1.0 + np.exp(-d.double().numpy().astype(np.longdouble)))
    slack = (format.exp_units + 2) * format.unit * real + max(format.smallest, format.flushed)
    assert (np.abs(given - real) <= slack).all()
    assert torch.sigmoid(d.double().max().to(dtype)) == 1.0


# --- a power that vanishes ------------------------------------------------------------------------


def faint(tokens: int = 17, logit: float = -87.0, factor: float = 2.0**123) -> hm.Transformer:
    """Token 0 gets from token 1 a huge number times a weight that float32 loses."""
    maps, offsets = np.zeros((tokens, 4, 1)), np.zeros((tokens, 4))
    maps[1, 1, 0], offsets[1:, 0], offsets[:, 2] = factor, logit, 1.0
    rows = np.eye(4)
    head = hm.Head(rows[[2]], rows[[0]], rows[[1]], rows[:, [3]], hm.Softmax(1.0))
    readout = hm.ReadOut(rows[[3]], [0.0], 0)
    return hm.Transformer(hm.VectorInput(maps, offsets), [hm.Attention([head])], readout)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_what_pytorch_loses_is_charged(name):
    """Once a false "holds in float32": the bound was 4.9e-6, the error 0.175."""
    transformer, box = faint(), hm.Box([-1.0], [1.0])
    real = float(hm.core.evaluate(transformer, np.ones((1, 1)))[0, 0])
    module = hm.interop.write_torch(transformer, name)
    given = float(module(torch.ones(1, 1, dtype=getattr(torch, name))).detach()[0, 0])
    bound = _bound(transformer, box, FORMATS[name])[0]
    assert given == 0.0 or name == "bfloat16"
    assert abs(given - real) <= bound
    format = FORMATS[name]
    share = (format.vanished + format.smallest) * 2.0**123
    weights = 17 * format.flushed * 2.0**123  # may vanish, too, even where powers do not
    assert share <= bound <= 1.8 * share + weights + 0.4 * (name == "bfloat16")


# --- a sum that overflows, and numbers that are flushed -------------------------------------------


def crowded(tokens: int, size: float) -> hm.Transformer:
    """All tokens hold `size` times x and score the same; the mean is divided by `size`."""
    maps, rows = np.zeros((tokens, 2, 1)), np.eye(2)
    maps[:, 0, 0] = size
    nothing = np.zeros((1, 2))
    head = hm.Head(nothing, nothing, rows[[0]], rows[:, [1]], hm.Softmax(1.0))
    source = hm.VectorInput(maps, np.zeros((tokens, 2)))
    return hm.Transformer(source, [hm.Attention([head])], hm.ReadOut(rows[[1]] / size, [0.0], 0))


@pytest.mark.parametrize("name", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("tokens", [20, 40])  # more than 32 are looked at by sizes alone
def test_a_fused_sum_overflows_though_the_mean_does_not(name, tokens):
    """Once a false "holds in float32": fused attention divides last, and gave nan."""
    format, box = FORMATS[name], hm.Box([-1.0], [1.0])
    for room, fits in ((2 * tokens, True), (tokens / 2, False)):
        size = 2.0 ** math.floor(math.log2(format.largest / room))
        transformer = crowded(tokens, size)
        module = hm.interop.write_torch(transformer, name)
        given = float(module(torch.ones(1, 1, dtype=getattr(torch, name))).detach()[0, 0])
        assert math.isfinite(given) is fits
        assert math.isfinite(float_bounds(transformer, box, (name,))[name][0]) is fits


def crowded_words(tokens: int, size: float) -> hm.Transformer:
    """The same for symbols that all hold `size`."""
    rows, nothing = np.eye(2), np.zeros((1, 2))
    head = hm.Head(nothing, nothing, rows[[0]], rows[:, [1]], hm.Softmax(1.0))
    source = hm.SequenceInput(("a", "b"), size * rows[[0, 0]], np.zeros((tokens, 2)))
    return hm.Transformer(source, [hm.Attention([head])], hm.ReadOut(rows[[1]] / size, [0.0], 0))


@pytest.mark.parametrize("tokens", [20, 40])
def test_words_need_the_same_room(tokens):
    """One word at a time, or all at once."""
    word, words = np.zeros((1, tokens), dtype=int), Words("ab", tokens)
    for room, fits in ((4 * tokens, True), (tokens / 2, False)):
        size = 2.0 ** math.floor(math.log2(FLOAT32.largest / room))
        transformer = crowded_words(tokens, size)
        given = hm.interop.write_torch(transformer, "float32")(torch.tensor(word))
        assert bool(torch.isfinite(given).all()) is fits
        refused = pytest.raises(Overflow, match="a sum may be too large")
        with nullcontext() if fits else refused:
            enclose_words(transformer, word, FLOAT32)
        with nullcontext() if fits else refused:
            follow_words(transformer, words, tokens, FLOAT32)


def test_float16_is_added_up_in_float32():
    """So that its largest numbers have a mean."""
    transformer = crowded(40, 2.0**15)
    module = hm.interop.write_torch(transformer, "float16")
    assert float(module(torch.ones(1, 1, dtype=torch.float16)).detach()[0, 0]) == 1.0
    assert _bound(transformer, hm.Box([-1.0], [1.0]), FLOAT16)[0] < 0.5


def shrunk(rows: list[list[float]], weights: list[float]) -> hm.Transformer:
    """One token, read off."""
    source = hm.VectorInput(np.array([rows]), np.zeros((1, len(rows))))
    return hm.Transformer(source, [], hm.ReadOut([weights], [0.0], 0))


# A weight, a difference and a product that bfloat16 may hold, but not as normal numbers.
FLUSHED = {
    "weight": (shrunk([[2.0**126]], [2.0**-128]), [1.0]),
    "sum": (shrunk([[2.0**-126, -(2.0**-126)]], [2.0**126]), [1.25, 1.0]),
    "product": (shrunk([[2.0**-100]], [2.0**100]), [2.0**-28]),
}


@pytest.mark.parametrize("kind", FLUSHED)
def test_bfloat16_is_not_believed_to_underflow_gradually(kind):
    """Once a false "holds in bfloat16": products of 4096 numbers and more take subnormals for 0."""
    transformer, point = FLUSHED[kind]
    box = hm.Box(point, point)
    real = float(hm.core.evaluate(transformer, np.array([point]))[0, 0])
    bound = _bound(transformer, box, BFLOAT16)[0]
    assert 0.0 < abs(real) <= bound <= 16 * abs(real)
    module = hm.interop.write_torch(transformer, "bfloat16")
    given = module(torch.tensor([point] * 8192, dtype=torch.bfloat16)).detach().double()
    assert np.abs(given.numpy() - real).max() <= bound
    for name in ("float64", "float32"):
        module = hm.interop.write_torch(transformer, name)
        given = module(torch.tensor([point] * 8192, dtype=getattr(torch, name)))
        assert (given == real).all()
        assert _bound(transformer, box, FORMATS[name])[0] <= 1e-3 * abs(real)


def test_a_claim_that_float32_breaks_is_not_said_to_hold_there():
    claim = hm.Claim(
        hm.Function.parse("0.175*x"),
        hm.Box([-1.0], [1.0]),
        [Share("approximation", "by hand", 1e-3)],
    )
    found = hm.certify(hm.Construction(faint(), claim, None, "by hand"))
    assert found.verdict is hm.Verdict.PROVED
    assert found.holds_in == ("float64",)


@pytest.mark.parametrize("name", ["float64", "float32"])
def test_nothing_is_charged_before_the_edge(name):
    """With logits above it no power vanishes, and the bound is that of rounding alone.

    Logits l are rounded four times, which moves their powers by 4 |l| units; the mean is e.
    """
    format, box = FORMATS[name], hm.Box([-1.0], [1.0])
    transformer = faint(logit=format.exp_vanishes + 1.0, factor=1.0 / format.vanished)
    bound = _bound(transformer, box, format)[0]
    rounding = 12 * -format.exp_vanishes * format.unit
    assert bound <= rounding
    beyond = faint(logit=format.exp_vanishes - 1.0, factor=1.0 / format.vanished)
    assert 1.0 <= _bound(beyond, box, format)[0] <= 1.0 + rounding


def test_a_certificate_names_what_it_assumes():
    product = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    assumptions = hm.certify(product).assumptions
    assert [f.assumption for f in FORMATS.values()] == list(assumptions[1:-1])
    assert assumptions[-1].startswith("Underflow is gradual, but in bfloat16 below 1.18e-38")
    assert "float32: exp is good to 8 units" in assumptions[2]
    assert "may be 0 below -86." in assumptions[2]
    network = hm.compile(
        "max(x, y)", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2, route="feedforward"
    )
    assert len(hm.certify(network).assumptions) == 2


@pytest.mark.parametrize(
    ("name", "digits", "least", "exp_units", "exp_vanishes"),
    [
        ("float64", 53, -1074, 8, -500.0),
        ("float32", 24, -149, 8, -86.0),
        ("float16", 11, -24, 8, -16.0),
        ("bfloat16", 8, -133, 8, -86.0),
    ],
)
def test_formats_are_those_of_pytorch(name, digits, least, exp_units, exp_vanishes):
    """And what is assumed of exp, which no library tells, is what the kernels were tested for."""
    assert name in about_underflow() or FORMATS[name].gradual
    format, info = FORMATS[name], torch.finfo(getattr(torch, name))
    assert (format.digits, format.least) == (digits, least)
    assert (format.largest, format.normal) == (info.max, info.smallest_normal)
    assert format.unit == info.eps / 2
    assert (format.exp_units, format.exp_vanishes) == (exp_units, exp_vanishes)
    assert format.gradual == (name != "bfloat16")
