"""Edges patched alone: who is not read changes nothing, and what shows an edge shows it."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._legible_mutants import PROGRAMS, WORDS, model_of

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Circuit, EdgePatches, Node, Showing, Words, kinds_of_blocks

s = p.Sequence()


def readings(circuit: Circuit) -> list[tuple[Node, str, int]]:
    return [
        (node, port, k) for node in circuit.nodes for port, numbers in node.reads for k in numbers
    ]


def absent(circuit: Circuit) -> list[tuple[Node, str, int]]:
    """Blocks that stand there when a node reads, and that one of its ports does not read."""
    return [
        (node, port, k)
        for node in circuit.nodes
        for port, numbers in node.reads
        for k, block in enumerate(circuit.blocks)
        if block.sublayer < node.sublayer and k not in numbers
    ]


def ids_of(words: list[tuple]) -> np.ndarray:
    return np.array([[WORDS.alphabet.index(one) for one in word] for word in words])


# ---- patches -------------------------------------------------------------------------------------


def test_absent_edges_have_no_effect_at_all():
    """No other edge: not small, but 0, whatever is put there."""
    tried = 0
    for name in sorted(PROGRAMS):
        model, rng = model_of(name), np.random.default_rng(0)
        runs = EdgePatches(model.transformer, ids_of([("a", "b", "c"), ("c", "c", "a")]))
        some = absent(model.circuit)
        for node, port, k in random.Random(name).sample(some, min(120, len(some))):
            block = model.circuit.blocks[k]
            garbage = rng.normal(0.0, 100.0, runs.held(block).shape)
            found = runs.patched(node, port, block, garbage)
            assert (found == runs.outputs).all(), (name, node.name, port, block.name)
            tried += 1
    assert tried >= 120


def test_an_edge_of_the_read_out_is_the_answer():
    """The answer is the other word's where nobody but the read-out reads."""
    model = model_of("reverse")
    node, port, k = readings(model.circuit)[-1]
    runs = EdgePatches(model.transformer, ids_of([("a", "b", "c"), ("b", "b", "a")]))
    block = model.circuit.blocks[k]
    found = runs.patched(node, port, block, runs.held(block)[::-1])
    assert (found == runs.outputs[::-1]).all()


# ---- kinds ---------------------------------------------------------------------------------------


def edges_of(program: p.Program, words: Words) -> dict[tuple[str, str, str], str]:
    model = hm.compile(program, on=words, route="legible")
    assert hm.certify(model).verdict is hm.Verdict.PROVED
    return {(e.step, e.target, e.port): e.kind for e in model.circuit.edges}


def test_kinds_by_hand():
    """Tokens change with the word, length and back with the length, index with the place."""
    back = p.parse_program("back = length - 1 - index; tokens.at(back)")
    assert edges_of(back, Words("abc", 4)) == {
        ("length", "m0.length", "in"): "length",
        ("index", "m1.back", "in"): "position",
        ("length", "m1.back", "in"): "length",
        ("back", "a2.h0", "q"): "length",
        ("index", "a2.h0", "k"): "position",
        ("tokens", "a2.h0", "v"): "word",
        ("answer", "logits", "out"): "word",
    }
    one_length = edges_of(back, Words("abc", 4, 4))
    assert one_length["length", "m1.back", "in"] == "constant"
    assert one_length["back", "a2.h0", "q"] == "position"


def test_what_no_word_shows_a_number_may():
    """Equal or not equal: always all of them, though the counts come from the tokens."""
    same = p.there(s.tokens) == s.tokens
    everybody = (same.count() + (~same).count()).named("all")
    last = (everybody - 1).named("last")
    kinds = edges_of(p.Program(s.tokens.at(last)), Words("ab", 3))
    assert kinds["all", "m2.last", "in"] == "intervention"
    assert {kind for (step, _, port), kind in kinds.items() if port == "v"} == {"word"}


def test_what_no_single_patch_shows_is_not_shown():
    """No word comes back to where a(b|c)* began: what becomes of a word from there on is composed,
    but nobody picks it, unless a state is overwritten, too."""
    shown = [edge for edge in model_of("machine").circuit.edges if edge.kind == "not shown"]
    assert all(edge.shown_by == () for edge in shown)
    assert f"{len(shown)} not shown" in hm.certify(model_of("machine")).statements[-1]
    assert {edge.target for edge in shown} >= {"a0.h1", "m0.state.9"}


def test_kinds_of_blocks_are_read_off_one_word_of_each_length():
    model = model_of("reverse")
    kinds = dict(
        zip(
            [(b.name, b.form) for b in model.circuit.blocks],
            kinds_of_blocks(model.transformer, model.circuit, range(1, 4)),
            strict=True,
        )
    )
    assert kinds["index", "one-hot"] == "position"
    assert kinds["length", "share"] == "length"
    assert kinds["tokens", "one-hot"] == "word"


def test_of_many_lengths_some_are_looked_at():
    """Shortest and longest among them; a length that changes nothing between these would pass."""
    model = hm.compile(p.Program(s.everywhere.count()), on=Words("a", 70), route="legible")
    seen = kinds_of_blocks(model.transformer, model.circuit, range(1, 71))
    assert set(seen) == {"length"}
    assert set(kinds_of_blocks(model.transformer, model.circuit, range(70, 71))) == {"constant"}


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_shows_an_edge_shows_it(name):
    """Patched by the words and numbers in the circuit, the model answers something else."""
    model = model_of(name)
    circuit, target = model.circuit, model.claim.target
    nodes = {node.name: node for node in circuit.nodes}
    assert len(circuit.showings) >= (0.7 if name == "machine" else 1.0) * len(circuit.edges)
    for one in circuit.showings:
        runs = EdgePatches(model.transformer, ids_of([one.other or one.word]))
        block = circuit.blocks[one.block]
        held = runs.held(block)
        for place, number in one.overwritten:
            held[0, place + 1] = block.code(number)
        mine = EdgePatches(model.transformer, ids_of([one.word]))
        found = mine.patched(nodes[one.target], one.port, block, held)
        answers = [target.decode(rows[0].tolist()) for rows in (mine.outputs, found)]
        assert answers[0] == PROGRAMS[name](one.word)
        assert answers[0] != answers[1], (name, one)


def test_showings_check_themselves():
    good = Showing("a0.h0", "q", 0, "word", ("a", "b"), ("b", "b"))
    for change, reason in (
        ({"kind": "words"}, "is shown as one of word, length"),
        ({"kind": "length"}, "by another word, or else by numbers"),
        ({"other": ()}, "by another word, or else by numbers"),
        ({"overwritten": ((0, 1),)}, "by another word, or else by numbers"),
        ({"other": ("a",)}, "of one length"),
        ({"kind": "length", "other": (), "overwritten": ((2, 1),)}, "at positions of the word"),
        ({"kind": "length", "other": (), "overwritten": ((1, 1), (0, 1))}, "each once, in order"),
    ):
        with pytest.raises(hm.ShapeError, match=reason):
            replace(good, **change)
    assert good.shown_by == ("ab", "bb")
    assert replace(good, word=("aa", 1), other=("b", 2)).shown_by == (("aa", 1), ("b", 2))


# ---- formats -------------------------------------------------------------------------------------


@pytest.mark.parametrize("alphabet", ["abc", ["red", "green"], [1, 2, 3]])
def test_circuits_come_back_from_json(alphabet):
    model = hm.compile(p.sort, alphabet=alphabet, length=3, route="legible")
    record = json.loads(model.circuit.to_json())
    assert Circuit.from_dict(record) == model.circuit
    edge = next(edge for edge in record["edges"] if edge["kind"] == "word")
    for change in (
        {"kind": "length"},
        {"kind": "sure"},
        {"shown_by": []},
        {"shown_by": ["ab"]},
        {"shown_by": [["a", None], ["b", "a"]]},
    ):
        edges = [{**one, **change} if one is edge else one for one in record["edges"]]
        with pytest.raises((LookupError, TypeError, ValueError, hm.ShapeError)):
            Circuit.from_dict({**record, "edges": edges})


def test_names_of_transformer_lens():
    circuit = hm.compile(p.reverse, alphabet="ab", length=3, route="legible").circuit
    pairs = circuit.to_interpbench()
    assert ("blocks.2.attn.hook_result[0]", "blocks.2.hook_resid_post") in pairs
    assert ("hook_pos_embed", "blocks.2.hook_k_input[0]") in pairs
    assert circuit.as_dict()["nodes"][-1]["tl"] == "blocks.2.hook_resid_post"
    same = hm.compile(p.copy, alphabet="ab", length=3, route="legible").circuit
    assert same.layers == 1  # TransformerLens has no model without layers
    assert ("hook_embed", "blocks.0.hook_resid_post") in same.to_interpbench()


@pytest.mark.parametrize("name", ["reverse", "sort", "machine"])
def test_eap_ig_lists_every_edge_that_there_could_be(name):
    """Its reader makes the graph of n layers with h heads each and a part of hidden units."""
    circuit = model_of(name).circuit
    graph = circuit.to_eap_ig()
    layers, heads = graph["cfg"]["n_layers"], graph["cfg"]["n_heads"]
    before, edges = 1, 0
    for _ in range(layers):
        edges += 3 * heads * before + before + heads
        before += heads + 1
    assert len(graph["nodes"]) == before + 1
    assert len(graph["edges"]) == edges + before
    assert set(graph["cfg"]) == {"n_layers", "n_heads", "parallel_attn_mlp", "d_model"}
    within = {name for name, one in graph["edges"].items() if one["in_graph"]}
    assert within <= set(graph["edges"])
    sources = {edge.source.split(".")[0] for edge in circuit.edges if edge.source[0] == "m"}
    assert {name.split("->")[0] for name in within if name[0] == "m"} == sources
    assert all(graph["nodes"][end]["in_graph"] for name in within for end in [name.split("->")[0]])
