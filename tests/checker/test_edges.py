"""What a circuit says of its edges is patched again; what is false is refused, edge by edge."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from benchmarks._legible_mutants import LIES, PROGRAMS, forged, forgeries_part, model_of

import hardmax as hm
from hardmax import programs as p
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.blocks import BlockProof, Unproved
from hardmax.checker.sequences._edges import _is_another, check_edges, patched_transformer
from hardmax.checker.sequences._word_search import WordSearch
from hardmax.core import EdgePatches, Showing, evaluate

PROVED, UNDECIDED = hm.Verdict.PROVED, hm.Verdict.UNDECIDED


def back() -> hm.Construction:
    program = p.parse_program("back = length - 1 - index; tokens.at(back)")
    return hm.compile(program, alphabet="abc", length=4, route="legible")


def refusal(model: hm.Construction, target: str, port: str, **change: object) -> str:
    """The advice once what shows the edge to a port is changed."""
    circuit = model.circuit
    showings = [
        replace(s, **change) if (s.target, s.port) == (target, port) else s
        for s in circuit.showings
    ]
    lie = replace(model, circuit=replace(circuit, showings=tuple(showings)))
    assert lie.circuit != circuit
    certificate = hm.certify(lie)
    assert certificate.verdict is UNDECIDED
    assert certificate.statements == ()
    return certificate.advice


@pytest.mark.parametrize("name", ["sort", "machine", "most frequent", "last"])
def test_a_patch_is_a_model_of_its_own(name):
    """Two ways to patch agree on what there is: runs that go on, and a Transformer that is cut."""
    model, rng = model_of(name), np.random.default_rng(0)
    words = ["abc", "caa"]
    runs = EdgePatches(model.transformer, np.array([["abc".index(c) for c in w] for w in words]))
    readings = [
        (node, port, model.circuit.blocks[k])
        for node in model.circuit.nodes
        for port, numbers in node.reads
        for k in numbers
    ]
    for node, port, block in readings:
        assert (runs.patched(node, port, block, runs.held(block)) == runs.outputs).all()
        held = runs.held(block)[::-1] + rng.normal(0.0, 0.1, runs.held(block).shape)
        found = runs.patched(node, port, block, held)
        for row, word in enumerate(words):
            cut = patched_transformer(model.transformer, node, port, block, held[row])
            wanted = np.asarray(evaluate(cut, word))
            assert found[row] == pytest.approx(wanted.reshape(found[row].shape), abs=1e-9)


def test_what_is_false_of_an_edge_names_the_edge():
    model = back()
    by_number = {"other": (), "overwritten": ((0, 0),)}
    for target, port, change, reason in (
        ("a2.h0", "v", {"kind": "length", **by_number}, "'tokens' -> 'a2.h0' at 'v' is no edge of"),
        ("a2.h0", "k", {"kind": "length"}, "'index' -> 'a2.h0' at 'k' is no edge of the kind"),
        ("a2.h0", "q", {"kind": "position"}, "'back' -> 'a2.h0' at 'q' is no edge of the kind"),
        ("a2.h0", "q", {"kind": "constant"}, "no edge of the kind 'constant'"),
        ("a2.h0", "q", {"kind": "intervention"}, "no edge of the kind 'intervention'"),
        ("a2.h0", "v", {"other": tuple("caaa")}, "is not shown by caaa and caaa: no answer is"),
        (
            "a2.h0",
            "v",
            {"word": tuple("cada")},
            "'tokens' -> 'a2.h0' at 'v' is shown by ('c', 'a', ",
        ),
        ("a2.h0", "v", {"other": tuple("cada")}, "no word of the claim"),
        (
            "a2.h0",
            "k",
            {"overwritten": ((3, 4),)},
            "'index' -> 'a2.h0' at 'k' is shown by 4, which",
        ),
        ("a2.h0", "k", {"overwritten": ((3, 3),)}, "'index' -> 'a2.h0' at 'k' is not shown by"),
    ):
        assert reason in refusal(model, target, port, **change), (target, port, change)


def test_edges_that_there_are_not():
    model = back()
    circuit = model.circuit
    for more in (
        Showing("a2.h0", "q", 0, "word", tuple("ab"), tuple("ba")),
        Showing("a9.h0", "q", 0, "word", tuple("ab"), tuple("ba")),
        circuit.showings[0],
    ):
        lie = replace(circuit, showings=(*circuit.showings, more))
        assert "that there is not, or twice" in hm.certify(replace(model, circuit=lie)).advice


def test_words_on_which_the_target_fails_show_nothing(monkeypatch):
    """Where the program has no answer, there is none that another one could be."""
    model = back()
    search = WordSearch(model, Clock(Budget()), None)
    steps = model.claim.target.steps()
    asked = BlockProof(model.transformer, model.circuit, steps, search.words, search.ids).asked
    assert "2 word" in check_edges(search, asked)

    def refuses(word: tuple) -> list:
        raise hm.SemanticsError("it has no answer")

    monkeypatch.setattr(search, "wanted", refuses)
    with pytest.raises(Unproved, match=r"'m0.length' at 'in' is shown by .*it has no answer"):
        check_edges(search, asked)


def test_less_may_be_said_but_nothing_false():
    """An edge that nobody shows is said to be that."""
    model = back()
    silent = replace(model, circuit=replace(model.circuit, showings=model.circuit.showings[2:]))
    certificate = hm.certify(silent)
    assert certificate.verdict is PROVED
    assert "2 word, 2 length, 1 position, 2 not shown." in certificate.statements[-1]


def test_an_answer_is_another_past_the_middle():
    """Half way is nobody's; beyond it, by as little as there is, is the neighbour's."""
    numbers = (0, 1, 3)
    assert not _is_another(Fraction(1), 2.0, 2.5, numbers)
    assert _is_another(Fraction(1), 2.0 + 2**-51, 2.5, numbers)
    assert not _is_another(Fraction(1), -1.0, 0.5, numbers)
    assert _is_another(Fraction(1), -1.0, 0.5 - 2**-54, numbers)
    assert not _is_another(Fraction(1), -9.0, 9.0, numbers)
    assert not _is_another(Fraction(0), -9.0, -8.0, numbers)
    assert not _is_another(Fraction(3), 8.0, 9.0, numbers)
    assert not _is_another(Fraction(1), 8.0, 9.0, (1,))


def test_a_number_that_a_block_does_not_list():
    """Numbers say what a block can code; one that is left out would pass for its neighbour."""
    model = model_of("fraction so far")
    circuit = model.circuit
    k = next(k for k, block in enumerate(circuit.blocks) if block.form == "number")
    block = circuit.blocks[k]
    blocks = list(circuit.blocks)
    blocks[k] = replace(block, items=block.items[1:], labels=block.labels[1:])
    lie = replace(model, circuit=replace(circuit, blocks=tuple(blocks)))
    assert "does not list all that its step can hold" in hm.certify(lie).advice


def test_numbers_closer_than_the_block_is_exact():
    model = model_of("fraction so far")
    circuit = model.circuit
    (k,) = circuit.nodes[-1].reads[0][1]
    block = circuit.blocks[k]
    assert block.form == "number"
    near = block.items[-1] + Fraction(1, 10**18)
    blocks = list(circuit.blocks)
    blocks[k] = replace(block, items=(*block.items, near), labels=(*block.labels, str(near)))
    lie = replace(model, circuit=replace(circuit, blocks=tuple(blocks)))
    assert "while its codes are" in hm.certify(lie).advice


@pytest.mark.parametrize("lie", LIES)
def test_every_lie_is_one(lie):
    for name in sorted(PROGRAMS):
        assert forged(model_of(name), random.Random(lie), lie) != model_of(name).circuit


def test_names_that_are_none():
    node = model_of("sort").circuit.nodes[2]
    for name in ("", "a0", "a0.x", "m0", "m0.", "head", "am.h0", "A0.h0"):
        with pytest.raises(hm.ShapeError, match="is no node"):
            replace(node, name=name)


def test_forged_circuits_of_the_campaign():
    assert forgeries_part(0, 20, 7) == {"forged": 20, "false": []}
