"""Steps that hold what they hold on another word: the model's own blocks, the program's items."""

from __future__ import annotations

import random

import numpy as np
import pytest
from benchmarks._legible_mutants import (
    PROGRAMS,
    interventions_part,
    items_held,
    model_of,
    random_interchange,
)

import hardmax as hm
from hardmax import programs as p
from hardmax.core import contents_in_run

s = p.Sequence()
TEXT = "rank = (there(tokens) < tokens).count(); tokens.at(rank)"


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_interchanges_agree_with_the_program(name):
    chance, tried = random.Random(f"interchange {name}"), 0
    model, program = model_of(name), PROGRAMS[name]
    while tried < 25:
        word, other, places = random_interchange(model, chance)
        try:
            wanted = program(word, where=items_held(program, other, places))
        except hm.HardmaxError:
            continue
        assert hm.interchange(model, word, other, places) == wanted, (word, other, places)
        tried += 1


def test_the_part_of_the_campaign():
    found = interventions_part(0, 40, 3)
    assert found["wrong"] == []
    assert found["interchanges"] >= 15


def test_every_step_of_another_word_makes_its_answer():
    """All that a word of the same length differs in is taken over, tokens first, answer last."""
    model, program = model_of("sort by frequency"), PROGRAMS["sort by frequency"]
    for step in ("tokens", "answer"):
        assert hm.interchange(model, "abb", "cca", {step: range(3)}) == program("cca")
    where = items_held(program, tuple("cca"), {"index": [0, 1, 2]})
    assert program("abb", where=where) == program("abb")
    assert hm.interchange(model, "abb", "cca", {"index": [0, 1, 2]}) == program("abb")


def test_what_is_written_is_what_the_other_run_holds():
    """Not a code, but the block itself, rounding and all."""
    model = model_of("fraction so far")
    contents = contents_in_run(model.transformer, model.circuit, tuple("aba"))
    seen = hm.trace(model, "aba")
    (block,) = (b for b in model.circuit.blocks_of("answer") if b.form == "number")
    for place in range(3):
        stream = seen.streams[block.sublayer + 1]
        assert np.asarray(contents(block, place)) == pytest.approx(
            stream[place + 1, block.first : block.stop], abs=1e-15
        )


def test_words_of_different_lengths():
    program = p.parse_program("back = length - 1 - index; tokens.at(back)")
    model = hm.compile(program, alphabet="abc", length=4, route="legible")
    assert hm.interchange(model, "ab", "cabc", {"length": [0]}) == program(
        "ab", where={"length": {0: 4}}
    )
    assert hm.interchange(model, "abca", "cb", {"back": [1], "tokens": [0]}) == program(
        "abca", where={"back": {1: 0}, "tokens": {0: "c"}}
    )
    (back,) = (v for name, v in program.values_by_name.items() if name == "back")
    assert hm.interchange(model, "abca", "cb", {back: [1]}) == program("abca", {"back": {1: 0}})


def test_what_is_refused():
    model = hm.compile(p.parse_program(TEXT), alphabet="abc", length=3, route="legible")
    for word, other, places, reason in (
        ("cab", "abc", {"ranks": [0]}, r"no step 'ranks' in this program; it has index, tokens"),
        ("cab", "ab", {"rank": [2]}, r"other word of 2 symbols has the positions 0 to 1, but 2"),
        ("ca", "abc", {"rank": [2]}, r"A word of 2 symbols has the positions 0 to 1, but 2 was"),
        ("cab", "", {"rank": [0]}, r"other word of 0 symbols has no positions, but 0"),
        ("cab", "abc", {"rank": 0}, r"\{step: positions\}"),
        ("cab", "abc", ["rank"], r"\{step: positions\}"),
        ("cab", "abc", {"rank": [0.0]}, r"positions 0 to 2, but 0.0 was"),
        ("cab", "abc", {"rank": [True]}, r"positions 0 to 2, but True was"),
        ("cab", "abd", {"rank": [0]}, r"symbol 'd' at place 2 is not in the alphabet"),
        ("cab", "abca", {"rank": [0]}, r"words of 0 to 3 symbols, but this one has 4"),
        ("cab", 7, {"rank": [0]}, r"reads a text or a list of symbols, not 7"),
        (None, "abc", {"rank": [0]}, r"reads a text or a list of symbols, not None"),
    ):
        with pytest.raises(hm.RequestError, match=reason):
            hm.interchange(model, word, other, places)
    sort = hm.compile(p.Program(p.sorted_by(s.tokens)), alphabet="abc", length=3, route="legible")
    with pytest.raises(hm.RequestError, match=r"no answer under .*several were selected"):
        hm.interchange(sort, "cab", "abc", {"count": [0]})


def test_what_an_intervention_refuses_by_hand():
    model = hm.compile(p.parse_program(TEXT), alphabet="abc", length=3, route="legible")
    for where, reason in (
        ({"rank": {1.0: 1}}, "positions 0 to 2, but 1.0"),
        ({"rank": {"0": 1}}, "positions 0 to 2, but '0'"),
        ({"rank": {0: "a"}}, "cannot hold 'a'; it holds 0, 1, 2, 3"),
        ({"rank": {0: [1]}}, "symbols .texts., exact numbers or None"),
        ({"tokens": {0: "z"}}, "cannot hold 'z'; it holds a, b, c"),
        (None, r"\{step: \{position: item\}\}"),
        ({1: {0: 1}}, "no step 1 in this program"),
    ):
        with pytest.raises(hm.RequestError, match=reason):
            hm.intervene(model, "cab", where)
    with pytest.raises(hm.RequestError, match="has no positions, but 0"):
        hm.intervene(model, "", {"rank": {0: 1}})
    with pytest.raises(hm.RequestError, match="not 5"):
        hm.intervene(model, 5, {})
    tokens = model.claim.target.program.values_by_name["tokens"]
    by_value = hm.intervene(model, "cab", {tokens: {0: "b"}})
    assert by_value == hm.intervene(model, "cab", {"tokens": {0: "b"}})
