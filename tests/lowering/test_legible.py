"""Legible models: one step, one component, one named block; answers, sizes, circuits, refusals."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from benchmarks._legible_mutants import PROGRAMS, WORDS, model_of, random_intervention

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Circuit, SequenceSteps, Words, padded_parameters
from hardmax.lowering.programs.legible._cases import cases_of
from hardmax.lowering.programs.legible._sheet import START
from hardmax.lowering.programs.legible._units import falling_staircase, sharp_case, staircase

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from gallery import GALLERY, is_free, words_to_try, wrong_answers

s = p.Sequence()
sort = p.Program(p.sorted_by(s.tokens), "sort")
FIXED = ("table", "dyck_1", "machine", "expression")


def legible(program: p.Program, alphabet: str, length: int) -> hm.Construction:
    return hm.compile(program, alphabet=alphabet, length=length, route="legible")


# ---- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in GALLERY if is_free(GALLERY[n]) or n in FIXED])
def test_the_gallery_is_proved_block_by_block(name):
    program, words = GALLERY[name](3, 3) if is_free(GALLERY[name]) else GALLERY[name]()
    model = hm.compile(program, on=words, route="legible")
    assert wrong_answers(model, program, words_to_try(words, limit=100)) == []
    certificate = hm.certify(model)
    assert (certificate.verdict.name, certificate.method) == ("PROVED", "blocks")
    names = model.legend.coordinates
    assert len(set(names)) == len(names)


def test_selections_of_every_kind():
    """Or, not, several keys at once, nothing, gathers over an "or", sums of many values."""
    before, same = p.there(s.index) < s.index, p.there(s.tokens) == s.tokens
    pair = p.select((s.tokens, s.index), (s.tokens,), lambda t, i, own: t == own or i == 0)
    chosen = {
        "or": ((same | before).count()),
        "not": (~(same & before)).count(),
        "gather over or": (same | (p.there(s.index) == 0)).min(s.index),
        "pair": pair.count(),
        "nothing": p.select(s.tokens, s.tokens, lambda a, b: False).only(s.tokens, "-"),
        "sum": before.sum(s.tokens.map({"a": 1, "b": 2, "c": -3})),
        "ranked": before.ranked(s.tokens, s.index, "-"),
        "mean": before.mean(s.index * 2),
        "outputs": [s.tokens, s.length, 7],
    }
    for name, output in chosen.items():
        program = p.Program(output, name)
        model = legible(program, "abc", 3)
        assert wrong_answers(model, program, list(Words("abc", 3))) == [], name
        assert hm.certify(model).verdict.name == "PROVED", name


def test_one_answer_of_a_word():
    program = p.Program(s.everywhere.count(), "length", at=-1)
    model = legible(program, "ab", 4)
    assert model("aba") == 3
    assert hm.certify(model).verdict.name == "PROVED"


# ---- interventions -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_interventions_agree_with_the_program(name):
    chance, tried = random.Random(name), 0
    model, program = model_of(name), PROGRAMS[name]
    while tried < 30:
        word, where = random_intervention(model, chance)
        try:
            wanted = program(word, where=where)
        except hm.HardmaxError:
            continue
        assert hm.intervene(model, word, where) == wanted, (word, where)
        tried += 1


def test_what_an_intervention_refuses():
    program = p.parse_program("rank = (there(tokens) < tokens).count(); tokens.at(rank)")
    model = legible(program, "abc", 3)
    assert hm.intervene(model, "cab", {"rank": {1: 0}}) == program("cab", where={"rank": {1: 0}})
    for where, reason in (
        ({"ranks": {0: 1}}, "no step 'ranks'.* rank"),
        ({"rank": {3: 1}}, "positions 0 to 2, but 3"),
        ({"rank": {0: 7}}, "cannot hold 7; it holds 0, 1, 2, 3"),
        ({"rank": 1}, "{step: {position: item}}"),
    ):
        with pytest.raises(hm.RequestError, match=reason):
            hm.intervene(model, "cab", where)
    with pytest.raises(
        hm.RequestError, match=r"no answer under this intervention.*several were selected"
    ):
        hm.intervene(legible(sort, "abc", 3), "cab", {"count": {0: 1}})
    compact = hm.compile(program, alphabet="abc", length=3)
    with pytest.raises(hm.RequestError, match=r'compact.*route="legible"'):
        hm.intervene(compact, "cab", {"rank": {0: 1}})


def test_names_of_steps():
    rank = (p.there(s.tokens) < s.tokens).count().named("rank")
    assert list(p.Program(s.tokens.at(rank)).values_by_name) == [
        "index",
        "tokens",
        "rank",
        "answer",
    ]
    twice = p.Program([rank + 1, (s.index + 1).named("rank")])
    with pytest.raises(hm.RequestError, match="Two steps are named 'rank'"):
        legible(twice, "ab", 2)
    with pytest.raises(hm.RequestError, match="belong to what a word has"):
        s.index.named("place")
    back = p.parse_program("back = length - 1 - index; tokens.at(back)")
    assert "back=1" in legible(back, "ab", 3).legend.coordinates


# ---- sizes ---------------------------------------------------------------------------------------

TRACR = {  # padded parameters at (5, 5), of the same program text
    "histogram": 1_373,
    "fraction_so_far": 1_199,
    "reverse": 20_649,
    "sort": 24_968,
    "sort_by_frequency": 66_114,
    "shift": 832,
    "detect": 1_919,
}


@pytest.mark.parametrize("name", TRACR)
def test_no_larger_than_tracr(name):
    program, words = GALLERY[name](5, 5)
    program = sort if name == "sort" else program
    model = hm.compile(program, on=words, route="legible")
    assert padded_parameters(model.transformer) <= TRACR[name]


def test_reverse_and_sort_at_length_20():
    for program, theirs in ((p.reverse, 592_769), (sort, 973_113)):
        model = legible(program, "abcdefghij", 20)
        assert 14 * padded_parameters(model.transformer) <= theirs


def test_the_planner_shows_it_beside_the_compact_routes():
    plan = hm.plan(p.reverse, alphabet="ab", length=3)
    assert [offer.route for offer in plan.offers] == ["shallow", "legible"]
    assert plan.choose("layers").route == "shallow"  # a legible one is built when asked for by name
    assert plan.offers[1].resources["layers"] == legible(p.reverse, "ab", 3).bill.layers
    with pytest.raises(hm.RequestError, match="one-hot, relative, scalar, and not 'sinusoidal'"):
        hm.compile(p.reverse, alphabet="ab", length=3, route="legible", positions="sinusoidal")


def test_too_many_cases_are_refused_by_the_step():
    wide = p.Program(
        p.apply(lambda a, b, c: (a * b + c) % 7, *[s.tokens.shifted(k) for k in (1, 2, 3)])
    )
    with pytest.raises(hm.RequestError, match=r"The step function.*too many"):
        hm.compile(wide, on=Words(range(150), 5), route="legible")
    squares = s.everywhere.sum(s.tokens * s.tokens * s.tokens).named("cubes")
    with pytest.raises(hm.RequestError, match="too many"):
        hm.compile(p.Program(squares), on=Words(range(40), 30), route="legible")


# ---- parts ---------------------------------------------------------------------------------------


def test_cases_of_a_function_are_few():
    """A choice between two symbols takes a case for each of them, not for each pair."""
    rows = [((c, a, b), a if c else b) for c in (0, 1) for a in range(4) for b in range(4)]
    assert len(cases_of(rows, 3)) == 8
    never_apart = [((0, 0), 0), ((1, 1), 1)]  # either source tells, but one has to be asked
    assert len(cases_of(never_apart, 2)) == 2


def test_edges_of_shares_have_few_digits():
    """In 16 bits all counts up to 20 are told by their shares."""
    n = 20
    shares = [1.0 / (1 + w) for w in range(n, -1, -1)]
    lit = [{7 + w: 1.0} for w in range(n, -1, -1)]
    for unit in staircase({5: 1.0}, shares, lit, steepness=16 / 7, flat=1 / 16)[1:]:
        assert unit.inner[5] == 1024
        assert unit.bias % 1 == 0


@pytest.mark.parametrize("others", [0, 1, 2])
def test_a_sharp_case_is_a_jump(others):
    """Lit: 1 whatever the loose one strays by; one that is not lit silences it."""
    rows = [({10 + 2 * k: 1.0}, {10 + 2 * k: 1.0, 11 + 2 * k: 1.0}) for k in range(others)]
    units = sharp_case({5: 1.0}, rows, {7: 1.0})

    def made(loose: float, unlit: int | None) -> float:
        held = {5: loose} | {10 + 2 * k + (k == unlit): 1.0 for k in range(others)}
        return sum(
            unit.outputs[7]
            * max(unit.bias + sum(w * held.get(p, 0.0) for p, w in unit.inner.items()), 0.0)
            for unit in units
        )

    assert [made(x, None) for x in (0.0, 0.5, 0.75, 1.0, 1.25)] == [0.0, 0.0, 1.0, 1.0, 1.0]
    assert all(made(1.25, k) == 0.0 for k in range(others))
    silent = {p: w for unit in units for p, w in unit.inner.items() if p == START}
    assert silent[START] <= -2.0  # where the others are 0, too


@pytest.mark.parametrize("makes", [staircase, falling_staircase])
def test_a_staircase_is_flat_for_a_third_of_each_gap(makes):
    """Theorem 2, at the ends of what it allows."""
    numbers = [1 / (1 + w) for w in range(6)] if makes is falling_staircase else [-2.0, 0.0, 1.5, 9]
    units = makes({5: 1.0}, numbers, [{7: float(k)} if k else {} for k in range(len(numbers))])
    for k, number in enumerate(numbers):
        gaps = [abs(number - other) for other in numbers if other != number]
        for z in (number - min(gaps) / 3, number, number + min(gaps) / 3):
            total = 0.0
            for unit in units:
                one = unit.inner.get(5, 0.0) * z + unit.inner.get(0, 0.0) + unit.bias
                total += max(one, 0.0) * unit.outputs.get(7, 0.0)
            assert total == pytest.approx(k, abs=1e-12)
    if makes is staircase:  # with rows of 0 at the start token no unit is awake
        assert all(u.bias + u.inner.get(START, 0.0) + u.inner.get(0, 0.0) <= 0.0 for u in units)


# ---- traces --------------------------------------------------------------------------------------

REVERSE = """
                                   start  0:a  1:b  2:c  3:a
embed      tokens                      ·    a    b    c    a
pos_embed  index                       ·    0    1    2    3
a0.h0      selects, besides start      –  all  all  all  all
           1/(1+length)                1  1/5  1/5  1/5  1/5
m0.length  length                      ·    4    4    4    4
m1.back    back                        ·    3    2    1    0
a2.h0      attends to              start    3    2    1    0
           answer                   none    a    c    b    a
"""
SORT = """
                                   start    0:c  1:a  2:b      3:e  4:a
embed      tokens                      ·      c    a    b        e    a
pos_embed  index                       ·      0    1    2        3    4
a0.h0      selects, besides start      –  1,2,4    –  1,4  0,1,2,4    –
           1/(1+rank)                  1    1/4    1  1/3      1/5    1
a0.h1      selects, besides start      –      –    –    –        –    1
           1/(1+rank)                  1      1    1    1        1  1/2
m0.rank    rank                        ·      3    0    2        4    1
m1.rank    rank                        ·      3    0    2        4    1
a2.h0      attends to              start      1    4    2        0    3
           answer                   none      a    a    b        c    e
"""
HISTOGRAM = """
                                   start  0:a  1:b  2:c  3:a
embed      tokens                      ·    a    b    c    a
a0.h0      selects, besides start      –  0,3    1    2  0,3
           1/(1+answer)                1  1/3  1/2  1/2  1/3
m0.answer  answer                      ·    2    1    1    2
"""
RANKED = """
before = there(index) < index
rank = ((there(tokens) < tokens) | ((there(tokens) == tokens) & before)).count()
(there(rank) == index).only(tokens)
"""


@pytest.mark.parametrize(
    ("program", "alphabet", "word", "wanted"),
    [
        (p.parse_program("back = length - 1 - index; tokens.at(back)"), "abcd", "abca", REVERSE),
        (p.parse_program(RANKED), "abcde", "cabea", SORT),
        (p.histogram, "abc", "abca", HISTOGRAM),
    ],
    ids=["reverse", "sort", "histogram"],
)
def test_traces_that_people_can_read(program, alphabet, word, wanted):
    model = legible(program, alphabet, 5)
    assert hm.trace(model, word).in_words == wanted.strip("\n")


# ---- circuits ------------------------------------------------------------------------------------


def test_a_circuit_in_every_text():
    model = legible(p.parse_program("back = length - 1 - index; tokens.at(back)"), "abc", 4)
    circuit = model.circuit
    assert [node.name for node in circuit.nodes] == [
        "embed", "pos_embed", "a0.h0", "m0.length", "m1.back", "a2.h0", "logits",
    ]  # fmt: skip
    assert Circuit.from_dict(json.loads(circuit.to_json())) == circuit
    assert ("blocks.1.hook_mlp_out", "blocks.2.hook_q_input[0]") in circuit.to_interpbench()
    assert circuit.to_eap_ig()["edges"]["m1->a2.h0<q>"] == {"score": 1.0, "in_graph": True}
    assert 'n4 -.->|"q: back (length)"| n5' in circuit.to_mermaid()
    assert 'n0 -->|"v: tokens"| n5' in circuit.to_mermaid()
    drawn = circuit.to_graphviz()
    assert '"m1.back" -> "a2.h0" [label="q: back (length)", style=bold];' in drawn
    assert '"embed" -> "a2.h0" [label="v: tokens", style=solid];' in drawn


def test_circuits_are_kept_in_files(tmp_path):
    model = legible(sort, "abc", 3)
    hm.save(model, tmp_path / "sort.safetensors", hm.certify(model))
    again, certificate = hm.load_certified(tmp_path / "sort.safetensors")
    assert again.circuit == model.circuit
    assert certificate.statements == hm.certify(again).statements
    where = {"count": {0: 1, 1: 0}}
    assert hm.intervene(again, "ba", where) == sort("ba", where=where)


def test_an_altered_record_of_a_circuit_is_refused():
    record = legible(sort, "ab", 2).circuit.as_dict()
    for change in (
        {"edges": record["edges"][1:]},
        {"one": "0"},
        {"nodes": [{**record["nodes"][0], "writes": [99]}, *record["nodes"][1:]]},
    ):
        with pytest.raises((LookupError, TypeError, ValueError, hm.ShapeError)):
            Circuit.from_dict({**record, **change})


def test_closed_steps_mean_what_the_program_means():
    """Also where a compact model would read other values: machines and tables go by the place."""
    for name, program in PROGRAMS.items():
        steps = model_of(name).claim.target.steps()
        assert isinstance(steps, SequenceSteps)
        for word in list(WORDS)[::5]:
            numbers = [WORDS.alphabet.index(symbol) for symbol in word]
            target = model_of(name).claim.target
            assert [list(r) for r in target(word)] == steps.rows(numbers), (name, word)
            assert target.decode(np.array(steps.rows(numbers), dtype=float)) == program(word)


def test_without_its_circuit_a_model_is_checked_as_any_other():
    model = replace(legible(p.histogram, "ab", 2), circuit=None)
    assert hm.certify(model).method == "enumeration"
