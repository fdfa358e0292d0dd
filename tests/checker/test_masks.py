"""Masks and position biases of legible models: derived from the weights, place by place."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks._legible_masks import mask_mutants, masks_part, model_in
from benchmarks._legible_mutants import PROGRAMS, WORDS, breaks_a_word

import hardmax as hm
from hardmax import programs as p
from hardmax.checker.blocks import BlockProof
from hardmax.checker.blocks._arithmetic import Balls, biased
from hardmax.checker.blocks._places import at_places, tied_by_place
from hardmax.checker.blocks._sets import ClosedSets, Unproved
from hardmax.core import (
    INDEX,
    SYMBOL,
    Aggregate,
    Attention,
    Combination,
    Selection,
    SequenceSteps,
    Transformer,
    Words,
)
from hardmax.numerics import FLOAT16, FLOAT32, FLOAT64

s = p.Sequence()
PROVED = hm.Verdict.PROVED
LONG = {
    "reverse": (p.reverse, "abcdefghij"),
    "sort": (p.Program(p.sorted_by(s.tokens), "sort"), "abcdefghij"),
    "sort by frequency": (p.sort_by_frequency, "abcdefghij"),
    "most frequent": (p.most_frequent, "abcdefghij"),
    "shuffle-Dyck-1": (p.shuffle_dyck("()"), "()"),
}


def certificate_of(name: str, kind: str) -> hm.Certificate:
    program, alphabet = LONG[name]
    return hm.certify(
        hm.compile(program, alphabet=alphabet, length=20, route="legible", positions=kind)
    )


@pytest.mark.parametrize("name", LONG)
def test_words_of_twenty_symbols_with_relative_positions(name):
    certificate = certificate_of(name, "relative")
    assert certificate.verdict is PROVED
    assert {"float64", "float32"} <= set(certificate.holds_in)


@pytest.mark.campaign
@pytest.mark.parametrize("name", LONG)
def test_words_of_twenty_symbols_with_scalar_positions(name):
    certificate = certificate_of(name, "scalar")
    assert certificate.verdict is PROVED
    assert {"float64", "float32"} <= set(certificate.holds_in)


@pytest.mark.parametrize(
    ("kind", "names"), [("relative", PROGRAMS), ("scalar", ("detect", "machine", "last"))]
)
def test_programs_of_every_kind(kind, names):
    for name in names:
        assert hm.certify(model_in(name, kind)).verdict is PROVED, name


def test_the_certificate_says_what_masks_stand_for():
    certificate = hm.certify(model_in("fraction so far", "relative"))
    said = (
        "The masks of a0.h0 stand for index, by the true places: no intervention on index is among "
        "those that agree."
    )
    assert said in certificate.statements
    others = hm.certify(model_in("reverse", "relative")).statements
    assert len(others) == 5
    assert not any("stand for" in one for one in others)


# ---- what is false -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["fraction so far", "sort", "detect", "shuffle-Dyck-1"])
def test_a_mask_that_is_spoiled_is_not_proved(name):
    broken = 0
    for what, found in mask_mutants(model_in(name, "relative")):
        if not what.split(" ", 1)[1].startswith("("):
            broken += breaks_a_word(found, PROGRAMS[name])
            assert hm.certify(found).verdict is not PROVED, what
    assert broken


def test_biases_that_are_changed():
    found = masks_part(0, 6, 0)
    assert found["false"] == []
    assert found["breaking"]


def test_a_bias_that_a_word_shows_and_one_that_is_harmless():
    """Of an unselected position the bias is -1: lower changes nothing, higher lets it through."""
    model = model_in("sort", "relative")
    verdicts = {
        what: hm.certify(found).verdict
        for what, found in mask_mutants(model)
        if "(2, 3) " in what and ("+1" in what or "-1" in what)
    }
    (lower,) = (v for what, v in verdicts.items() if what.endswith("-1"))
    (higher,) = (v for what, v in verdicts.items() if what.endswith("+1"))
    assert lower is PROVED
    assert higher is not PROVED


def spoiled(program: p.Program, **changes) -> hm.Construction:
    """The only head of a model of one layer, changed."""
    model = hm.compile(program, on=WORDS, route="legible", positions="relative")
    old = model.transformer
    head = replace(old.sublayers[0].heads[0], **changes)
    return replace(model, transformer=Transformer(old.input, [Attention([head])], old.readout))


def proof_of(model: hm.Construction) -> BlockProof:
    ids = np.arange(len(WORDS.alphabet))
    steps = model.claim.target.steps()
    return BlockProof(model.transformer, model.circuit, steps, WORDS, ids)


def test_a_mask_that_hides_what_is_selected():
    """Every symbol answers with the next one, which no causal mask lets it see."""
    program = p.shift(-1)
    assert hm.certify(spoiled(program)).verdict is PROVED
    found = spoiled(program, causal=True)
    assert breaks_a_word(found, program)
    assert hm.certify(found).verdict is not PROVED
    with pytest.raises(Unproved, match="hides what its step selects"):
        proof_of(found).bound(FLOAT64)


def test_the_start_token_is_the_default_whoever_asks():
    """At places 0 and 1 nobody is selected: the start token has to stay the best for both."""
    program = p.shift(2)
    bias = spoiled(program).transformer.sublayers[0].heads[0].position_bias.copy()
    bias[2, 0] = -1.0
    found = spoiled(program, position_bias=bias)
    assert breaks_a_word(found, program)
    assert hm.certify(found).verdict is not PROVED
    with pytest.raises(Unproved, match="treats the start token unequally"):
        proof_of(found).bound(FLOAT64)


def test_circuits_name_what_masks_stand_for():
    """A circuit that keeps it to itself would let interventions through that disagree."""
    model = model_in("sort", "relative")
    nodes = model.circuit.nodes
    masked = next(k for k, node in enumerate(nodes) if node.masks)
    plain = next(k for k, node in enumerate(nodes) if node.name == "a0.h0")
    units = next(k for k, node in enumerate(nodes) if node.name.startswith("m0"))
    for place, masks in ((masked, ()), (masked, ("tokens",)), (plain, ("index",)), (units, ("a",))):
        lie = [*nodes]
        lie[place] = replace(nodes[place], masks=masks)
        forged = replace(model, circuit=replace(model.circuit, nodes=tuple(lie)))
        assert hm.certify(forged).verdict is hm.Verdict.UNDECIDED


# ---- lemmas --------------------------------------------------------------------------------------


def steps_of(causal: bool) -> SequenceSteps:
    chosen = Selection((3, SYMBOL), (4,), lambda j, a, t: j < t and a == 0, causal)
    return SequenceSteps(
        [
            Combination((INDEX,), (1,)),  # 3
            Combination((3,), (1,), -1),  # 4
            Aggregate(chosen, "count"),  # 5
        ],
        [5],
    )


def test_a_table_place_by_place():
    """j < t - 1 for every pair of places, and the symbol there is free."""
    sets = ClosedSets(steps_of(False), Words("ab", 4))
    tied = tied_by_place(sets, 5)
    assert sorted(tied.numbers) == [3, 4]
    own = [("k", 3), ("k", SYMBOL), ("q", 4)]
    table, free = at_places(sets.relation(5), own, tied, 4)
    assert free == [("k", SYMBOL)]
    assert (table[..., 0] == np.tri(4, k=-2, dtype=bool)).all()
    assert not table[..., 1].any()


def test_a_selection_that_looks_back_without_saying_how():
    with pytest.raises(Unproved, match="looks back"):
        ClosedSets(steps_of(True), Words("ab", 4)).relation(5)


def test_what_a_bias_rounds():
    """Half scores are exact; a tenth is off by the rounding of the bias and that of the sum."""
    whole = Balls(np.array([[3.0]]), np.zeros((1, 1)))
    assert not biased(whole, np.array([0.0, -1.0, 0.5]), FLOAT16).radius.any()
    tenth = biased(whole, np.array([0.1]), FLOAT32).radius[0, 0, 0]
    cast = abs(float(np.float32(0.1)) - 0.1)
    off = abs(float(np.float32(np.float32(3.0) + np.float32(0.1))) - 3.1)
    assert cast < off <= tenth < 4 * 3.1 * (FLOAT32.unit + FLOAT64.unit)
    loose = Balls(np.array([[3.0]]), np.array([[2.0**-20]]))
    assert biased(loose, np.array([-1.0]), FLOAT32).radius[0, 0, 0] > 2.0**-20
    assert biased(loose, np.array([0.0]), FLOAT32).radius[0, 0, 0] == 2.0**-20
