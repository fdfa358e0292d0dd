"""A word's way through a Transformer, the legend that explains it, and the picture of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import (
    Legend,
    SequenceInput,
    SequenceTrace,
    evaluate,
    reference,
    trace,
    trace_sequence,
)
from hardmax.core._decoded import shown_number
from hardmax.interop import read_safetensors, write_safetensors
from hardmax.plots import attention_picture

P = hm.programs


@pytest.fixture(scope="module")
def reverse() -> hm.Construction:
    return hm.compile(P.reverse, alphabet="abcde", length=5)


@pytest.fixture(scope="module")
def frequent() -> hm.Construction:
    """Two heads in one layer, feed-forwards, a start token."""
    return hm.compile(P.sort_by_frequency, alphabet="abc", length=4)


WORDS = ["a", "ba", "abca"]


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("model", ["reverse", "frequent"])
def test_the_last_stream_is_what_is_answered(
    model: str, word: str, request: pytest.FixtureRequest
) -> None:
    construction = request.getfixturevalue(model)
    seen = hm.trace(construction, word)
    readout = construction.transformer.readout
    read = seen.streams[-1] @ readout.weights.T + readout.bias
    symbols = read[len(seen.tokens) - len(word) :]
    assert (seen.outputs == evaluate(construction.transformer, word)).all()
    # one product of matrices or another: some roundings of numbers up to some hundreds
    np.testing.assert_allclose(symbols, seen.outputs, rtol=0, atol=1e-12)
    assert construction.claim.target.decode(symbols) == construction.claim.target.program(word)


@pytest.mark.parametrize("word", WORDS)
@pytest.mark.parametrize("model", ["reverse", "frequent"])
def test_it_agrees_with_the_reference(
    model: str, word: str, request: pytest.FixtureRequest
) -> None:
    construction = request.getfixturevalue(model)
    seen = hm.trace(construction, word)
    plain = trace(construction.transformer, word)
    assert len(seen.streams) == len(plain.streams) == 1 + len(construction.transformer.sublayers)
    for ours, theirs in zip(seen.streams, plain.streams, strict=True):
        # sums of numbers up to some hundreds in another order: far below the claim of 1/4
        np.testing.assert_allclose(ours, np.array(theirs), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("word", WORDS)
def test_attention_adds_up_to_one(frequent: hm.Construction, word: str) -> None:
    seen = hm.trace(frequent, word)
    heads = list(seen.heads)
    assert len(heads) == frequent.bill.heads
    for head in heads:
        assert head.weights.shape == (len(seen.tokens), len(seen.tokens))
        assert (head.weights >= 0).all()
        # five quotients, each rounded by 2^-53 of at most 1, and their sum
        np.testing.assert_allclose(head.weights.sum(axis=1), 1.0, rtol=0, atol=10 * 2**-53)


@pytest.mark.parametrize("word", ["a", "abc", "edcba"])
def test_the_second_head_of_reverse_looks_at_the_mirrored_position(
    reverse: hm.Construction, word: str
) -> None:
    first, second = hm.trace(reverse, word).heads
    n = len(word)
    assert first.step == "length"
    assert "tokens at" in second.step
    assert (second.sublayer, second.head) == (1, 0)
    assert second.weights.argmax(axis=1).tolist() == [n - 1 - i for i in range(n)]
    assert (second.weights.max(axis=1) > 0.99).all()  # decoding to 1/4 of a code step needs more


def test_heads_keep_their_order_across_groups() -> None:
    """Heads of different shapes are evaluated in groups; each must keep its own place."""
    eye, one = np.eye(2), np.ones((1, 2))
    looks_back = np.array([[0.0, -9.0], [0.0, -9.0]])
    heads = [
        hm.Head(eye, eye, eye, eye, causal=True),
        hm.Head(one, one, one, one.T, position_bias=looks_back),
        hm.Head(eye, eye, eye, eye, causal=True, position_bias=-looks_back),
        hm.Head(one, one, one, one.T, position_bias=-looks_back),
    ]
    source = SequenceInput(("x", "y"), np.eye(2), np.zeros((2, 2)))
    readout = hm.ReadOut(np.ones((1, 2)), np.zeros(1), None)
    model = hm.Transformer(source, [hm.Attention(heads)], readout)
    (weights,) = trace_sequence(model, "xy").attention
    assert weights[1].tolist() == [[1, 0], [1, 0]]
    assert weights[3].tolist() == [[0, 1], [0, 1]]
    assert weights[0].tolist() == [[1, 0], [0, 1]]
    assert weights[2].tolist() == [[1, 0], [0, 1]]
    assert trace_sequence(model, "xy").outputs.tolist() == reference(model, "xy")


def test_the_words_of_the_legend(reverse: hm.Construction) -> None:
    seen = hm.trace(reverse, "abc")
    assert seen.coordinates == reverse.legend.coordinates
    assert seen.tokens == ("a", "b", "c")
    assert seen.steps(0) == ("length",)
    index = seen.coordinates.index("index")
    assert seen.streams[0][:, index].tolist() == [0, 1, 2]


def test_without_a_legend_there_are_numbers(frequent: hm.Construction) -> None:
    seen = hm.trace(replace(frequent, legend=None), "ab")
    assert seen.coordinates[3] == "coordinate 3"
    assert all(head.step == f"head {head.head}" for head in seen.heads)
    assert seen.steps(0) == ()
    assert seen.tokens == ("start", "a", "b")


def test_a_legend_that_is_too_short_does_no_harm(reverse: hm.Construction) -> None:
    seen = hm.trace(replace(reverse, legend=Legend(["tokens"], [])), "ab")
    assert seen.coordinates[:2] == ("tokens", "coordinate 1")
    assert [head.step for head in seen.heads] == ["head 0", "head 0"]


def test_shares_of_what_the_start_token_leaves() -> None:
    """A sum's symbols get e^-B each: equal shares of next to nothing."""
    (head,) = hm.trace(hm.compile(P.sort, alphabet="abcde", length=5), "cabea").heads
    assert head.adds_up
    for row in head.shares[1:]:
        assert row.start == pytest.approx(1.0 / (1.0 + 5 * 2.0**-22), abs=4 * 2.0**-53)
        np.testing.assert_allclose(row.of_rest, 0.2, rtol=1e-9)  # quotients of 2^-22, rounded
        assert (row.selected, row.with_start) == ((0, 1, 2, 3, 4), False)


def test_shares_of_a_selection(frequent: hm.Construction) -> None:
    """A count ties with the start token; a head that selects nobody shows it alone."""
    first, _, third, _ = hm.trace(frequent, "abca").heads
    assert [(one.selected, one.with_start) for one in first.shares[1:]] == [
        ((0, 3), True), ((1,), True), ((2,), True), ((0, 3), True),
    ]  # fmt: skip
    assert not first.adds_up
    assert third.shares[1].selected == (0,)


def test_numbers_are_shown_shortly() -> None:
    shown = [shown_number(x, 5) for x in (0.2, 2 / 3, 1 / 7, 3.0, -0.0, 1.398e6, 2 / 3 + 1e-8)]
    assert shown == ["1/5", "2/3", "0.1429", "3", "0", "1.398e+06", "0.6667"]


def test_a_short_text_of_a_trace(reverse: hm.Construction) -> None:
    seen = hm.trace(reverse, "abc")
    assert repr(seen) == "SequenceTrace(('a', 'b', 'c'): 2 sublayers, 2 heads, width 5)"


def test_readings_of_coordinates_that_are_not_there_do_no_harm(frequent: hm.Construction) -> None:
    legend = frequent.legend
    stray = replace(legend.readings[0], coordinates=(99,))
    foreign = Legend(legend.coordinates, legend.sublayers, [*legend.readings, stray])
    seen = hm.trace(replace(frequent, legend=foreign), "ab")
    assert all(99 not in one.coordinates for one in seen.said)


def last(s: P.Sequence) -> P.Value:
    return s.tokens.at(s.length - 1)


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("", "The empty word has no tokens"),
        ("abcabc", "at most 5 symbols, but the sequence has 6"),
        ("abz", "The symbol 'z' at place 2"),
    ],
)
def test_what_cannot_be_traced(reverse: hm.Construction, word: str, sentence: str) -> None:
    with pytest.raises(hm.RequestError, match=sentence):
        hm.trace(reverse, word)


def test_a_model_of_numbers_has_no_words() -> None:
    product = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)})
    with pytest.raises(hm.RequestError, match="reads sequences"):
        hm.trace(product, "ab")


def test_a_word_without_the_token_that_answers() -> None:
    model = hm.compile(hm.program(last, at=1), alphabet="ab", length=3)
    assert model("ab") == "b"
    with pytest.raises(hm.RequestError, match="which a word of 1 symbols does not have"):
        model("a")
    with pytest.raises(hm.RequestError, match="which a word of 1 symbols does not have"):
        hm.trace(model, "a")


def test_every_word_is_measured_if_there_are_few(reverse: hm.Construction) -> None:
    seen: list[int] = []
    all_of_them = hm.measure(reverse, progress=seen.append)
    assert all_of_them.points == sum(seen) == sum(5**n for n in range(6))
    assert 0 < all_of_them.error <= reverse.claim.error
    some = hm.measure(reverse, 50)
    assert some.points == 50
    worst = evaluate(reverse.transformer, all_of_them.at)
    wanted = np.array(reverse.claim.target(all_of_them.at), dtype=float)
    assert np.abs(worst - wanted).max() == pytest.approx(all_of_them.error, rel=1e-6)


def test_a_wrong_answer_is_measured(reverse: hm.Construction) -> None:
    readout = reverse.transformer.readout
    off = replace(reverse.transformer, readout=replace(readout, bias=readout.bias + 1.0))
    assert hm.measure(replace(reverse, transformer=off)).error == pytest.approx(1.0)


def test_files_keep_the_legend(frequent: hm.Construction, tmp_path: Path) -> None:
    write_safetensors(frequent, tmp_path / "t.safetensors")
    stored = read_safetensors(tmp_path / "t.safetensors")
    assert stored.legend == frequent.legend
    assert stored.join(frequent.claim.target).legend == frequent.legend


def test_files_without_a_legend(frequent: hm.Construction, tmp_path: Path) -> None:
    write_safetensors(replace(frequent, legend=None), tmp_path / "t.safetensors")
    assert b'\\"legend\\"' not in (tmp_path / "t.safetensors").read_bytes()
    assert read_safetensors(tmp_path / "t.safetensors").legend is None


def drawn(seen: SequenceTrace, place: Path, **options: Any) -> str:
    attention_picture(seen, path=place, **options)
    return place.read_text(encoding="utf-8")


def test_the_picture_has_a_panel_for_each_head(frequent: hm.Construction, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    text = drawn(hm.trace(frequent, "abca"), tmp_path / "a.svg")
    panels = [f"sublayer {head.sublayer}, head {head.head}" for head in frequent_heads(frequent)]
    assert len(panels) == frequent.bill.heads > 1
    assert all(text.count(f">{panel}<") == 1 for panel in panels)
    assert ">count = count over [there" in text
    assert text.count(">start<") == 2 * len(panels)
    assert "attention on abca" in text
    assert drawn(hm.trace(frequent, "abca"), tmp_path / "b.svg") == text


def frequent_heads(model: hm.Construction) -> list[Any]:
    return list(hm.trace(model, "abca").heads)


def test_pictures_take_symbols_as_they_are(tmp_path: Path) -> None:
    """A dollar sign is no formula."""
    pytest.importorskip("matplotlib")
    model = hm.compile(P.shift(1), alphabet=["$", "^", "go"], length=4)
    text = drawn(hm.trace(model, ["$", "^", "$", "go"]), tmp_path / "a.svg")
    assert ">attention on $,^,$,go<" in text


def test_what_cannot_be_drawn(reverse: hm.Construction, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    copy = hm.compile(P.copy, alphabet="ab", length=3)
    with pytest.raises(hm.RequestError, match="this model has 0"):
        attention_picture(hm.trace(copy, "ab"), path=tmp_path / "a.svg")
    with pytest.raises(hm.RequestError, match=r"\.svg, a \.png or a \.pdf"):
        attention_picture(hm.trace(reverse, "ab"), path=tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())
