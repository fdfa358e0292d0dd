"""The PyTorch module computes what the Transformer means, within rounding that is derived here."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from hardmax import MissingExtra, PrecisionError, RequestError, SemanticsError, ShapeError
from hardmax.core import (
    Attention,
    Box,
    Claim,
    Construction,
    FeedForward,
    Hardmax,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Trace,
    Transformer,
    VectorInput,
    trace,
)
from hardmax.interop import write_torch
from hardmax.numerics import FORMATS, Format, gamma

WIDTH, INPUTS, LENGTH = 5, 3, 6
EXP_ULPS = 32  # PyTorch's vectorised float32 exp promises 20 ulps; 32 leaves room for both sides


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.normal(size=shape) / 4


def random_head(
    rng: np.random.Generator,
    key_width: int,
    value_width: int,
    *,
    coldness: float = 1.0,
    causal: bool = False,
    bias: int = 0,
) -> Head:
    k, v = key_width, value_width
    return Head(
        query=normal(rng, k, WIDTH),
        key=normal(rng, k, WIDTH),
        value=normal(rng, v, WIDTH),
        output=normal(rng, WIDTH, v),
        weighting=Softmax(coldness),
        causal=causal,
        position_bias=normal(rng, bias, bias) if bias else None,
    )


def attention(rng: np.random.Generator, kind: str) -> Attention:
    """Layers that need no mask, one mask for all heads, and one mask per head."""
    match kind:
        case "plain":
            return Attention([random_head(rng, 2, 2), random_head(rng, 2, 2, coldness=3.0)])
        case "key width 0":
            return Attention([random_head(rng, 0, 1), random_head(rng, 0, 0, causal=True)])
        case "causal":
            heads = [random_head(rng, k, 4 - k, coldness=2.5, causal=True) for k in (1, 3, 1)]
            return Attention(heads)
        case "bias":  # larger than the prompt in one of the heads
            heads = [random_head(rng, 1, 2, coldness=0.7, bias=b) for b in (LENGTH, LENGTH + 3)]
            return Attention(heads)
        case "mixed":
            return Attention(
                [
                    random_head(rng, 1, 1, coldness=4.0),
                    random_head(rng, 2, 3, coldness=0.3, causal=True),
                    random_head(rng, 0, 1, coldness=2.0, causal=True, bias=LENGTH),
                    random_head(rng, 1, 1, coldness=5.0, bias=LENGTH),
                    random_head(rng, 2, 3, causal=True),
                ]
            )
    raise AssertionError(kind)


KINDS = ["plain", "key width 0", "causal", "bias", "mixed"]


def sublayers(rng: np.random.Generator, kind: str) -> list[Attention | FeedForward]:
    hidden = 7
    inner, outer = normal(rng, hidden, WIDTH), normal(rng, WIDTH, hidden)
    feed_forward = FeedForward(inner, normal(rng, hidden), outer, normal(rng, WIDTH))
    return [attention(rng, kind), feed_forward, attention(rng, "mixed")]


@cache
def vector_model(kind: str, token: int = -1) -> Transformer:
    rng = np.random.default_rng(KINDS.index(kind))
    source = VectorInput(normal(rng, LENGTH, WIDTH, INPUTS), normal(rng, LENGTH, WIDTH))
    readout = ReadOut(normal(rng, 2, WIDTH), normal(rng, 2), token)
    return Transformer(source, sublayers(rng, kind), readout)


@cache
def sequence_model(kind: str, start: bool, token: int | None) -> Transformer:
    rng = np.random.default_rng(KINDS.index(kind))
    rows, positions = normal(rng, 3, WIDTH), normal(rng, LENGTH, WIDTH)
    source = SequenceInput(tuple("abc"), rows, positions, normal(rng, WIDTH) if start else None)
    readout = ReadOut(normal(rng, 2, WIDTH), normal(rng, 2), token)
    return Transformer(source, sublayers(rng, kind), readout)


# How far an evaluation in floats may stray from the reals at one input: `error` bounds every entry
# of the stream, and `stream` is the reference's own. There is one rounding for every stored weight,
# two for query weights, and gamma for every sum, in any order.


def affine(
    weights: np.ndarray, bias: Any, stream: np.ndarray, error: np.ndarray, format: Format
) -> np.ndarray:
    size = (np.abs(stream) + error) @ np.abs(weights).T + np.abs(bias)
    return error @ np.abs(weights).T + gamma(weights.shape[1] + 6, format) * size


def mean(head: Head, stream: np.ndarray, error: np.ndarray, format: Format) -> tuple[Any, Any]:
    """A bound of the values a head mixes, and of the error of the mixture.

    Logits off by d at most, and weights by a relative r, move a softmax mean by no more than
    (e^(2d + 2r) - 1) max |v|.
    """
    q, k, v = (np.abs(stream @ m.T) for m in (head.query, head.key, head.value))
    dq, dk, dv = (affine(m, 0, stream, error, format) for m in (head.query, head.key, head.value))
    tokens = len(stream)
    bias = 0 if head.position_bias is None else np.abs(head.position_bias[:tokens, :tokens])
    logit = head.coldness * ((q + dq) @ (k + dk).T + bias)
    d = head.coldness * (dq @ k.T + (q + dq) @ dk.T) + gamma(head.key_width + 6, format) * logit
    r = (2 * logit.max() + EXP_ULPS + LENGTH + 4) * format.unit
    moved = np.expm1(2 * d.max(axis=1, keepdims=True) + 2 * r) + gamma(LENGTH + 2, format)
    size = (v + dv).max(axis=0)
    return np.broadcast_to(size, v.shape), dv.max(axis=0) + moved * size


def change(layer: Any, stream: np.ndarray, error: np.ndarray, format: Format) -> np.ndarray:
    if isinstance(layer, FeedForward):
        inside = affine(layer.inner, layer.inner_bias, stream, error, format)
        hidden = np.maximum(stream @ layer.inner.T + layer.inner_bias, 0)
        return affine(layer.outer, layer.outer_bias, hidden, inside, format)
    means = [mean(head, stream, error, format) for head in layer.heads]
    joined = np.concatenate([head.output for head in layer.heads], axis=1)
    size, off = (np.concatenate(parts, axis=1) for parts in zip(*means, strict=True))
    return affine(joined, 0, size, off, format)


def rounding(transformer: Transformer, x: Any, seen: Trace, format: Format) -> np.ndarray:
    streams = [np.array(stream) for stream in seen.streams]
    source, readout = transformer.input, transformer.readout
    if isinstance(source, VectorInput):
        maps = [np.abs(m) @ np.abs(x) for m in source.maps]
        error = gamma(INPUTS + 6, format) * (np.array(maps) + np.abs(source.offsets))
    else:
        error = gamma(3, format) * (
            np.abs(streams[0]) + 2 * np.abs(source.positions[: len(streams[0])])
        )
    for layer, before, after in zip(transformer.sublayers, streams[:-1], streams[1:], strict=True):
        error = error + change(layer, before, error, format)
        error = error + 2 * format.unit * (np.abs(before) + np.abs(after) + error)
    return affine(readout.weights, readout.bias, streams[-1], error, format)


traced = cache(trace)  # the reference is slow on purpose


def assert_means(transformer: Transformer, x: Any, found: np.ndarray) -> None:
    """`found` is what the reference says, up to its rounding in float64 and the module's own."""
    seen = traced(transformer, tuple(x))
    dtype = found.dtype.name
    formats = FORMATS[dtype], FORMATS["float64"]
    bound = sum(float(rounding(transformer, x, seen, format).max()) for format in formats)
    assert bound < (1e-11 if dtype == "float64" else 1e-3)  # a test that cannot fail is none
    meant = np.array(seen.outputs).reshape(found.shape)
    assert np.abs(found - meant).max(initial=0.0) <= bound


# The module agrees with the reference.


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", [-1, 2])
def test_vectors_agree_with_the_reference(kind: str, token: int, dtype: str) -> None:
    transformer = vector_model(kind, token)
    module = write_torch(transformer, dtype)
    points = np.random.default_rng(0).uniform(-1, 1, (4, INPUTS)).astype(np.float32).astype(dtype)
    found = module(torch.tensor(points)).detach().numpy()
    assert found.dtype == dtype
    assert found.shape == (4, 2)
    for point, outputs in zip(points, found, strict=True):
        assert_means(transformer, point, outputs)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("token", [None, -1, 0])
def test_sequences_agree_with_the_reference(
    kind: str, start: bool, token: int | None, dtype: str
) -> None:
    """At short lengths and at the longest; with a start token, also at length 0."""
    transformer = sequence_model(kind, start, token)
    module = write_torch(transformer, dtype)
    rng = np.random.default_rng(0)
    for length in (0, 2, LENGTH - 1) if start else (1, 2, LENGTH):
        texts = ["".join(rng.choice(list("abc"), length)) for _ in range(2)]
        found = module(torch.stack([module.encode(text) for text in texts])).detach().numpy()
        assert found.shape == ((2, 2) if token is not None else (2, length, 2))
        for text, outputs in zip(texts, found, strict=True):
            assert_means(transformer, text, outputs)


@pytest.mark.parametrize("coldness", [1e-3, 1e3, 1e7])
def test_coldness_is_folded_into_weights_and_biases(coldness: float) -> None:
    """Scores and biases of size 1/coldness make logits of size 1 that must not be rescaled."""
    rng = np.random.default_rng(3)
    head = random_head(rng, 1, 1, coldness=coldness, bias=LENGTH)
    assert head.position_bias is not None
    scaled = replace(
        head, query=head.query / coldness, position_bias=2 * head.position_bias / coldness
    )
    base = vector_model("plain")
    transformer = Transformer(base.input, [Attention([scaled])], base.readout)
    point = np.array([0.3, -0.7, 1.0])
    found = write_torch(transformer)(torch.tensor(point)).detach().numpy()
    assert_means(transformer, point, found)


def test_one_input_is_a_batch_of_one() -> None:
    module = write_torch(vector_model("mixed"))
    x = torch.rand(4, INPUTS, dtype=torch.float64)
    assert module(x[0]).shape == (2,)
    assert module(x[:0]).shape == (0, 2)
    reader = write_torch(sequence_model("mixed", start=True, token=None))
    assert reader(reader.encode("abca")).shape == (4, 2)


def test_a_feed_forward_without_hidden_units_is_its_bias() -> None:
    base = vector_model("plain")
    constant = FeedForward(np.zeros((0, WIDTH)), [], np.zeros((WIDTH, 0)), np.arange(WIDTH))
    transformer = Transformer(base.input, [constant], base.readout)
    point = np.ones(INPUTS)
    found = write_torch(transformer)(torch.tensor(point)).detach().numpy()
    assert_means(transformer, point, found)


# The module is an ordinary one.


def test_a_construction_is_its_transformer() -> None:
    transformer = vector_model("mixed")

    class Target:
        inputs, outputs, parameters = INPUTS, 2, None

    claim = Claim(Target(), Box([-1.0] * INPUTS, [1.0] * INPUTS), [])
    construction = Construction(transformer, claim, None, "attention")
    x = torch.rand(3, INPUTS, dtype=torch.float64)
    assert torch.equal(write_torch(construction)(x), write_torch(transformer)(x))


def test_float32_weights_are_the_nearest() -> None:
    transformer = vector_model("plain")
    module = write_torch(transformer, torch.float32)
    assert np.array_equal(
        module.readout.weight.detach().numpy(), transformer.readout.weights.astype(np.float32)
    )


def test_each_layer_is_one_attention_call(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    attend = torch.nn.functional.scaled_dot_product_attention

    def count(*args: Any, **kwargs: Any) -> Any:
        calls.append((args[0].shape, kwargs["scale"]))
        return attend(*args, **kwargs)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", count)
    write_torch(vector_model("causal"))(torch.rand(9, INPUTS, dtype=torch.float64))
    assert calls == [((9, 3, LENGTH, 3), 1.0), ((9, 5, LENGTH, 2), 1.0)]


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("plain", None), ("causal", (1, 1, LENGTH, LENGTH)), ("mixed", (1, 5, LENGTH, LENGTH))],
)
def test_a_mask_is_no_larger_than_needed(kind: str, shape: tuple[int, ...] | None) -> None:
    mask = write_torch(vector_model(kind)).blocks[0].mask
    assert (None if mask is None else tuple(mask.shape)) == shape


def test_the_state_is_complete() -> None:
    """One model's state makes another model of the same shape the same function."""
    for model in (vector_model("mixed"), sequence_model("mixed", start=True, token=None)):
        source, other = write_torch(model), write_torch(model)
        assert "blocks.0.mask" in source.state_dict()
        for tensor in other.state_dict().values():
            tensor.fill_(0.25)
        x = torch.rand(4, INPUTS, dtype=torch.float64)
        if isinstance(model.input, SequenceInput):
            x = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
        assert not torch.equal(source(x), other(x))
        other.load_state_dict(source.state_dict())
        assert torch.equal(source(x), other(x))


def test_every_weight_can_be_tuned() -> None:
    for model in (vector_model("mixed"), sequence_model("mixed", start=True, token=None)):
        module = write_torch(model)
        x = torch.rand(4, INPUTS, dtype=torch.float64)
        if isinstance(model.input, SequenceInput):
            x = torch.tensor([[0, 1, 2, 0], [2, 2, 1, 0]])
        module(x).square().sum().backward()
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_the_weights_are_copies() -> None:
    transformer = vector_model("plain")
    before = transformer.readout.weights.copy()
    module = write_torch(transformer)
    with torch.no_grad():
        module.readout.weight.zero_()
    assert np.array_equal(transformer.readout.weights, before)


def test_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    write_torch(vector_model("mixed"))
    write_torch(sequence_model("mixed", start=True, token=None))
    assert torch.equal(torch.get_rng_state(), before)


# What does not run is refused.


def test_a_hardmax_is_refused_and_the_pass_is_named() -> None:
    soft = vector_model("plain")
    layer = soft.sublayers[0]
    assert isinstance(layer, Attention)
    one_hard = Attention([layer.heads[0], replace(layer.heads[1], weighting=Hardmax())])
    transformer = Transformer(soft.input, [layer, one_hard], soft.readout)
    with pytest.raises(SemanticsError, match=r"Head 1 of sublayer 1 .*hm\.soften\(construction"):
        write_torch(transformer)


def test_a_weight_beyond_the_format_is_refused() -> None:
    base = vector_model("plain")
    for coldness, dtype in ((1e39, "float32"), (1e308, "float64")):
        head = replace(random_head(np.random.default_rng(0), 1, 1), weighting=Softmax(coldness))
        query = np.full((1, WIDTH), 0.5)
        query[0, 0] = 4.0
        transformer = Transformer(
            base.input, [Attention([replace(head, query=query)])], base.readout
        )
        reached = re.escape(f"reach {4.0 * coldness:.3g} once")
        with pytest.raises(PrecisionError, match=f"{reached}.*{dtype} ends at"):
            write_torch(transformer, dtype)


@pytest.mark.parametrize(
    "dtype",
    [
        "float128",
        "int64",
        "nn",
        torch.int32,
        64,
        "",
        "float8_e4m3fn",
        torch.float8_e5m2,
        ["float32"],
    ],
)
def test_a_dtype_that_is_none_is_refused(dtype: Any) -> None:
    with pytest.raises(RequestError, match="dtype must be"):
        write_torch(vector_model("plain"), dtype)


def test_what_is_no_model_is_refused() -> None:
    with pytest.raises(RequestError, match="not a list"):
        write_torch([])  # type: ignore[arg-type]


def test_inputs_that_do_not_fit_are_refused() -> None:
    module = write_torch(vector_model("plain"))
    with pytest.raises(ShapeError, match=r"\(batch, 3\)"):
        module(torch.zeros(2, INPUTS + 1, dtype=torch.float64))
    with pytest.raises(ShapeError, match=r"\(batch, 3\)"):
        module(torch.zeros(2, 2, INPUTS, dtype=torch.float64))
    with pytest.raises(RequestError, match="not a sequence"):
        module.encode("abc")
    reader = write_torch(sequence_model("plain", start=True, token=-1))
    with pytest.raises(ShapeError, match="length at most 5"):
        reader(torch.zeros(2, LENGTH, dtype=torch.long))
    with pytest.raises(RequestError, match="not in the alphabet"):
        reader.encode("abd")


def test_torch_may_be_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"pip install 'hardmax\[torch\]'"):
        write_torch(vector_model("plain"))
