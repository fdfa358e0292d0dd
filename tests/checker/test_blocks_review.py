"""Models that were once proved by their blocks, although they err: each has one reason."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from benchmarks._legible_masks import model_in
from benchmarks._legible_mutants import WORDS, model_of

import hardmax as hm
from hardmax import programs as p
from hardmax.checker.blocks import BlockProof, Holdings
from hardmax.checker.blocks._turned import Drift
from hardmax.core import Attention, Construction, Frame, Head, Softmax, Transformer
from hardmax.numerics import FLOAT64

s = p.Sequence()
PROVED = hm.Verdict.PROVED


def with_heads(model: Construction, sublayer: int, *heads: Head) -> Construction:
    old = model.transformer
    layers = [*old.sublayers]
    layers[sublayer] = Attention(heads)
    return replace(model, transformer=Transformer(old.input, layers, old.readout))


def with_terms(
    head: Head, asks: np.ndarray, column: int, asked: np.ndarray, row: int, **others: object
) -> Head:
    """More rows of queries, which read one coordinate, and of keys, which read another."""
    query, key = (np.zeros((len(asks), head.query.shape[1])) for _ in range(2))
    query[:, column], key[:, row] = asks, asked
    query, key = np.vstack([head.query, query]), np.vstack([head.key, key])
    return replace(head, query=query, key=key, **others)


def decoded_in_float32(model: Construction, words: list) -> list:
    module = hm.interop.write_torch(model, torch.float32)
    return [module.decode(module(module.encode([word])))[0] for word in words]


def test_scores_of_the_start_token_overflow_only_with_their_coldness():
    """Its own row is nan then, and so is what others read of it."""
    model = model_of("most frequent")
    head, start = model.transformer.sublayers[2].heads[0], model.circuit.start
    asks = np.array([2.0**63])
    large = with_heads(model, 2, with_terms(head, asks, start, np.abs(asks), start))
    certificate = hm.certify(large)
    assert certificate.verdict is PROVED
    assert certificate.holds_in == ("float64",)
    small = with_heads(model, 2, with_terms(head, asks / 2.0**10, start, np.abs(asks), start))
    assert "float32" in hm.certify(small).holds_in


def test_a_nan_of_the_start_token_reaches_answers():
    model = model_of("most frequent")
    head, start = model.transformer.sublayers[2].heads[0], model.circuit.start
    asks = np.array([2.0**63])
    large = with_heads(model, 2, with_terms(head, asks, start, asks, start))
    assert decoded_in_float32(large, ["abc"]) != model(["abc"])


@pytest.mark.parametrize("name", ["histogram", "most frequent"])
def test_a_coldness_that_is_rounded_into_terms_that_cancel(name):
    """3 b + 5 b - 8 b is not 0, if each is rounded; and every score is right over the reals."""
    model = model_of(name)
    head, circuit = model.transformer.sublayers[0].heads[0], model.circuit
    (tokens,) = circuit.blocks_of("tokens")
    asks = np.array([3.0, 5.0, -8.0]) * 2.0**17

    def made(coldness: float) -> Construction:
        terms = (asks, circuit.one, np.ones(3), tokens.first)
        return with_heads(model, 0, with_terms(head, *terms, weighting=Softmax(coldness)))

    words = [word for word in WORDS if word]
    assert decoded_in_float32(made(50.3), words) != model(words)
    certificate = hm.certify(made(50.3))
    assert certificate.verdict is PROVED
    assert "float32" not in certificate.holds_in
    assert "float32" in hm.certify(made(64.0)).holds_in


def framed(length: int) -> Construction:
    """A model with squares, whose noise is what its weights are beside sixteenths."""
    back = p.parse_program(f"back = {length} - index; tokens.at(back)")
    model = hm.compile(back, alphabet="ab", length=length, route="legible", positions="scalar")
    width = model.transformer.width
    rows = tuple(tuple(int(i == k) for k in range(width)) for i in range(width))
    return replace(model, circuit=replace(model.circuit, frame=Frame(rows, 0, 4)))


def test_streams_with_squares_are_as_long_as_is_said():
    model = framed(12)
    target, transformer = model.claim.target, model.transformer
    proof = BlockProof(transformer, model.circuit, target.steps(), target.words, np.arange(2))
    drift, held = Drift(proof.asked, proof.taken, FLOAT64), Holdings(FLOAT64)
    proof._embedded(held)
    drift.embed(held)
    source = transformer.input
    stream = source.embedding[:, None] + source.positions[None, 1:13]
    assert np.sqrt(np.square(stream).sum(axis=2)).max() > 100.0
    assert np.sqrt(np.square(stream).sum(axis=2)).max() <= drift.length(0, held)


def test_noise_that_reads_a_square():
    """It moves scores by more than it would move them if squares were at most 1."""
    model = framed(12)
    (head,) = model.transformer.sublayers[0].heads
    (square,) = [b.first for b in model.circuit.blocks if (b.name, b.form) == ("index", "square")]
    key = head.key.copy()
    key[1, square] += 2.0**-15
    assert hm.certify(model).verdict is PROVED
    assert hm.certify(with_heads(model, 0, replace(head, key=key))).verdict is not PROVED


def test_two_heads_of_one_step_of_which_one_has_a_mask():
    """The last one says nothing of the first, whose mask goes by the true places."""
    so_far = (p.there(s.index) <= s.index).min(s.index)
    program = p.Program(so_far)
    model = hm.compile(program, on=WORDS, route="legible")
    old, circuit = model.transformer, model.circuit
    head = old.sublayers[0].heads[0]
    last, width = circuit.blocks[-1], old.width
    assert (last.form, len(circuit.nodes), len(old.sublayers)) == ("number", 4, 1)

    def wide(matrix: np.ndarray, axis: int) -> np.ndarray:
        return np.pad(matrix, [(0, 1) if k == axis else (0, 0) for k in range(matrix.ndim)])

    source = old.input
    source = replace(
        source,
        embedding=wide(source.embedding, 1),
        positions=wide(source.positions, 1),
        start=wide(source.start, 0),
    )
    reads = {name: wide(getattr(head, name), 1) for name in ("query", "key", "value")}
    first = replace(head, **reads, output=wide(head.output, 0), causal=True)
    moved = first.output.copy()
    moved[width], moved[last.first] = first.output[last.first], 0.0
    second = replace(first, output=moved, causal=False)
    readout = replace(old.readout, weights=wide(old.readout.weights, 1))
    node = circuit.nodes[2]
    twin = replace(node, name="a0.h1", first=1, stop=2, writes=(len(circuit.blocks),))
    made = replace(
        circuit,
        blocks=(*circuit.blocks, replace(last, first=width)),
        nodes=(*circuit.nodes[:2], node, twin, circuit.nodes[3]),
    )
    layers = [Attention([first, second])]
    both = replace(model, transformer=Transformer(source, layers, readout), circuit=made)
    assert both(["abc"]) == model(["abc"])
    where = {"index": {0: 1, 2: 0}}
    assert hm.intervene(both, "abc", where) != program("abc", where=where)
    assert hm.certify(both).verdict is not PROVED
    named = replace(node, masks=("index",))
    said = replace(made, nodes=(*made.nodes[:2], named, *made.nodes[3:]))
    assert hm.certify(replace(both, circuit=said)).verdict is PROVED


def test_hidden_biases_are_stored_as_well():
    model = model_in("fraction so far", "relative")
    (head,) = model.transformer.sublayers[0].heads
    tokens = model.transformer.tokens
    hidden = np.triu(np.full((tokens, tokens), -1e30), 1)
    assert "float16" in hm.certify(model).holds_in
    found = hm.certify(with_heads(model, 0, replace(head, position_bias=hidden))).holds_in
    assert found == ("float64", "float32")
