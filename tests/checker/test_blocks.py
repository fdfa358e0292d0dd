"""Legible models, block by block: what is proved holds, and what is false is not proved."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._legible_mutants import (
    LIES,
    PROGRAMS,
    WORDS,
    breaks_a_word,
    breaks_an_intervention,
    forged,
    model_of,
    mutant,
)

import hardmax as hm
from hardmax import programs as p
from hardmax.checker.blocks import BlockProof, Unproved
from hardmax.checker.blocks._arithmetic import Balls, affine, fed_forward, growth, power, products
from hardmax.checker.blocks._sets import ClosedSets
from hardmax.core import (
    INDEX,
    SYMBOL,
    Aggregate,
    Attention,
    Combination,
    Pointwise,
    Selection,
    SequenceSteps,
    Share,
    Transformer,
    Words,
)
from hardmax.numerics import FLOAT16, FLOAT32, FLOAT64, FORMATS

s = p.Sequence()
sort = p.Program(p.sorted_by(s.tokens), "sort")
PROVED, UNDECIDED = hm.Verdict.PROVED, hm.Verdict.UNDECIDED


def proof_of(model: hm.Construction) -> BlockProof:
    claim = model.claim
    ids = np.arange(len(claim.domain.alphabet))
    return BlockProof(model.transformer, model.circuit, claim.target.steps(), claim.domain, ids)


# ---- what is proved ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "alphabet"),
    [
        (p.reverse, "abcdefghij"),
        (sort, "abcdefghij"),
        (p.sort_by_frequency, "abcdefghij"),
        (p.most_frequent, "abcdefghij"),
        (p.shuffle_dyck("()"), "()"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_words_of_twenty_symbols_in_two_formats(program, alphabet):
    model = hm.compile(program, alphabet=alphabet, length=20, route="legible")
    certificate = hm.certify(model)
    assert (certificate.verdict, certificate.method) == (PROVED, "blocks")
    assert {"float64", "float32"} <= set(certificate.holds_in)


def test_what_the_certificate_says():
    certificate = hm.certify(model_of("histogram"))
    right, rows, interventions, edges, shown = certificate.statements
    assert "Every answer is right" in right
    assert "in float64" in rows
    assert "in float32" in rows
    assert "tokens, answer" in interventions
    assert "5 nodes and 4 edges" in edges
    assert "matter: 4 word. Each" in shown
    assert "float64: exp(0) is 1, and sums of ones are exact." in certificate.assumptions
    again = type(certificate).from_dict(certificate.as_dict())
    assert again == certificate
    older = {k: v for k, v in certificate.as_dict().items() if k != "statements"}
    assert type(certificate).from_dict(older).statements == ()


@pytest.mark.parametrize("name", ["sort", "most frequent", "machine", "fraction so far"])
def test_blocks_and_rows_are_as_close_as_is_certified(name):
    """Measured on all words: how far blocks are from their codes, and rows from their patterns."""
    model = model_of(name)
    held = proof_of(model).bound(FLOAT64)
    target = model.claim.target
    values = {step: value for value, step in target.closed_steps.place.items()}
    away = 0.0
    for word in list(WORDS)[::3]:
        seen = hm.trace(model, word)
        program = target.program.trace(word)
        for block in model.circuit.blocks:
            if block.step not in values or block.form == "share":
                continue
            value = values[block.step]
            codes = [block.code(target.codes[value].number(one)) for one in program[value]]
            stream = seen.streams[block.sublayer + 1][1:, block.first : block.stop]
            away = max(away, float(np.abs(stream - np.array(codes)).max()))
            start = seen.streams[block.sublayer + 1][0, block.first : block.stop]
            assert np.abs(start - np.array(block.at_start)).max() <= 1e-12
    assert away <= held.farthest < 1e-9
    assert held.rows < 1e-9


def test_a_case_that_the_program_refuses_is_left_out():
    """What is undefined is not stated; what is defined is proved."""

    def halved(number):
        if number % 2:
            raise ValueError("odd")
        return number // 2

    program = p.Program((2 * s.index).named("even").map(halved))
    model = hm.compile(program, alphabet="ab", length=3, route="legible")
    assert hm.certify(model).verdict is PROVED
    with pytest.raises(hm.RequestError, match=r"halved.* fails on 3"):
        hm.intervene(model, "ab", {"even": {0: 3}})


def test_coarse_formats_where_they_hold():
    model = hm.compile(p.shift(1), alphabet="ab", length=3, route="legible", float="float16")
    certificate = hm.certify(model)
    assert certificate.verdict is PROVED
    assert "float16" in certificate.holds_in


# ---- what is false -------------------------------------------------------------------------------


def test_mutants_are_not_proved():
    broken = 0
    for case in range(36):
        chance = random.Random(f"mutant {case}")
        name = sorted(PROGRAMS)[case % len(PROGRAMS)]
        found, program = mutant(model_of(name), chance), PROGRAMS[name]
        verdict = hm.certify(found).verdict
        if breaks_a_word(found, program):
            broken += 1
            assert verdict is not PROVED, (case, name)
    assert broken >= 15


def test_a_mutant_that_only_an_intervention_shows():
    """Nobody is the first of the most frequent symbols if there is none: words do not show that."""
    model, program = model_of("most frequent"), PROGRAMS["most frequent"]
    last = len(model.transformer.sublayers) - 1
    head = model.transformer.sublayers[last].heads[0]
    value = head.value.copy()
    (answer,) = model.circuit.blocks_of("answer")
    row = int(np.flatnonzero(head.output[answer.first + answer.labels.index("a")])[0])
    value[row, model.circuit.start] += 1.0
    found = changed(model, last, value=value)
    assert not breaks_a_word(found, program)
    assert breaks_an_intervention(found, program, random.Random(0), 200)
    assert "start token does not hold" in advice(found) or "is off by" in advice(found)
    assert hm.certify(found).verdict is UNDECIDED


def test_forged_circuits_are_not_proved():
    for case, kind in enumerate(3 * LIES):
        name = sorted(PROGRAMS)[case % len(PROGRAMS)]
        lie = forged(model_of(name), random.Random(f"forged {case}"), kind)
        assert lie != model_of(name).circuit
        certificate = hm.certify(replace(model_of(name), circuit=lie))
        assert certificate.verdict is UNDECIDED, (case, name, kind)
        assert "circuit=None" in certificate.advice


def test_circuits_that_are_no_circuits():
    """Made by hand, they end in a sentence too."""
    model = model_of("sort")
    circuit = model.circuit
    head, units = circuit.nodes[2], circuit.nodes[4]
    with pytest.raises(hm.ShapeError, match="names a block that nobody writes"):
        replace(circuit, nodes=(*circuit.nodes[:2], replace(head, writes=(99,))))
    share = next(k for k, block in enumerate(circuit.blocks) if block.form == "share")
    turned = (*circuit.nodes[:2], *reversed(circuit.nodes[2:-1]), circuit.nodes[-1])
    for nodes, reason in (
        (turned, "not in the order"),
        (
            (*circuit.nodes[:2], replace(head, reads=(("q", (share,)),)), *circuit.nodes[3:]),
            "share",
        ),
        ((*circuit.nodes[:4], replace(units, first=1), *circuit.nodes[5:]), "not all of its heads"),
        ((circuit.nodes[1], circuit.nodes[0], *circuit.nodes[2:]), "begins with embed"),
    ):
        assert reason in advice(replace(model, circuit=replace(circuit, nodes=nodes)))


def changed(model: hm.Construction, sublayer: int, **arrays: np.ndarray) -> hm.Construction:
    layers = list(model.transformer.sublayers)
    layer = layers[sublayer]
    if isinstance(layer, Attention):
        layers[sublayer] = Attention([replace(layer.heads[0], **arrays), *layer.heads[1:]])
    else:
        layers[sublayer] = replace(layer, **arrays)
    old = model.transformer
    return replace(model, transformer=Transformer(old.input, layers, old.readout))


def advice(model: hm.Construction) -> str:
    certificate = hm.certify(model)
    assert certificate.verdict is not PROVED
    try:
        proof_of(model).answers(proof_of(model).bound(FLOAT64))
    except Unproved as reason:
        return str(reason)
    return ""


def test_the_value_of_the_share():
    model = model_of("histogram")
    head = model.transformer.sublayers[0].heads[0]
    assert "start token's share" in advice(changed(model, 0, value=head.value * 2))


def test_silence_at_the_start_token():
    """A unit that wakes at the start token is no matter to words whose heads do not look there."""
    model = model_of("reverse")
    layer = model.transformer.sublayers[1]
    inner = layer.inner.copy()
    assert inner[:, model.circuit.start].any()
    inner[:, model.circuit.start] = 0.0
    assert "start token does not hold" in advice(changed(model, 1, inner=inner))


def test_who_writes_where():
    model = model_of("reverse")
    layer = model.transformer.sublayers[1]
    outer = layer.outer.copy()
    outer[model.circuit.blocks[0].first, 0] = 1e-3
    assert "writes coordinates that are not its own" in advice(changed(model, 1, outer=outer))
    bias = np.zeros(model.transformer.width)
    bias[model.circuit.blocks[-1].first] = 1e-3
    assert "writes everywhere" in advice(changed(model, 1, outer_bias=bias))


def test_the_read_out():
    model = model_of("sort")
    old = model.transformer
    weights = old.readout.weights.copy()
    weights[0, model.circuit.blocks_of("tokens")[0].first] = 0.01
    readout = replace(old.readout, weights=weights)
    broken = replace(model, transformer=Transformer(old.input, old.sublayers, readout))
    assert "'logits' does not read" in advice(broken)


def test_answers_are_right_however_large_the_claim():
    """A claim may allow more than half the distance of codes; what is stated of answers may not."""
    model = model_of("histogram")
    old, claim = model.transformer, model.claim
    readout = replace(old.readout, weights=2 * old.readout.weights)
    wide = hm.Claim(claim.target, claim.domain, [Share("margin", "too much", 9.0)])
    broken = replace(model, transformer=Transformer(old.input, old.sublayers, readout), claim=wide)
    assert "while they are 1 apart" in advice(broken)


def test_a_certificate_is_about_one_circuit():
    model = model_of("sort")
    certificate = hm.certify(model)
    assert certificate.altered(model) == ()
    lie = replace(model, circuit=forged(model, random.Random(0)))
    assert certificate.altered(lie) == ("circuit",)


def test_a_mask_that_nobody_asked_for():
    model = model_of("histogram")
    assert "do not select what its relation says" in advice(changed(model, 0, causal=True))


def test_a_mean_of_what_differs_is_no_one_hot():
    """A coordinate that sends 1 where the value is 1 holds a half for a mean of a half."""
    so_far = p.there(s.index) <= s.index
    model = hm.compile(
        p.Program(so_far.mean(s.tokens == "a") == 1), alphabet="ab", length=3, route="legible"
    )
    assert hm.certify(model).verdict is PROVED
    blocks = list(model.circuit.blocks)
    (k,) = [k for k, block in enumerate(blocks) if block.name == "mean"]
    blocks[k] = replace(blocks[k], form="one-hot", items=(1,), labels=("1",))
    lie = replace(model, circuit=replace(model.circuit, blocks=tuple(blocks)))
    assert "writes the mean of what differs" in hm.certify(lie).advice


# ---- lemmas --------------------------------------------------------------------------------------


def test_closed_sets_by_hand():
    """length - 1 - index can be -2; a mean of what agrees is one of them; sums go to n times."""
    everyone = Selection((), (), lambda: True)
    some = Selection((INDEX,), (), lambda there: there > 0)
    steps = SequenceSteps(
        [
            Aggregate(everyone, "count"),  # 3
            Combination((3, INDEX), (1, -1), -1),  # 4
            Aggregate(some, "sum", SYMBOL),  # 5
            Aggregate(some, "mean", SYMBOL, -1, agree=True),  # 6
            Aggregate(some, "mean", SYMBOL, 0),  # 7
            Pointwise((5,), lambda n: n % 2),  # 8
        ],
        [8],
    )
    sets = ClosedSets(steps, Words("ab", 3, 2))
    assert sets.numbers(3) == (2, 3)
    assert sets.numbers(4) == (-1, 0, 1, 2)
    assert sets.numbers(5) == (0, 1, 2, 3)
    assert sets.numbers(6) == (-1, 0, 1)
    assert [str(n) for n in sets.numbers(7)] == ["0", "1/3", "1/2", "2/3", "1"]
    assert sets.numbers(8) == (0, 1)
    with pytest.raises(Unproved, match="depends on step 3, which its component does not read"):
        sets.base(4, frozenset([INDEX]))


def test_units_that_cancel_are_a_clamp():
    """A step of slope 1000 passes nothing on where it is flat, and 1000 times where it is steep."""
    inner, bias = np.array([[1000.0], [1000.0]]), np.array([0.0, -1.0])
    outer = np.array([[1.0, -1.0]])

    def radius(at: float) -> float:
        x = Balls(np.array([[at]]), np.array([[2.0**-20]]))
        return float(fed_forward(x, inner, bias, outer, FLOAT32).radius[0, 0])

    assert radius(-0.5) == 0.0
    assert radius(0.5) < 1e-3 < 1000.0 * 2.0**-20 + 1e-4  # rounding of units near 500
    assert radius(0.0005) == pytest.approx(1000.0 * 2.0**-20, rel=1e-3)


def test_small_whole_numbers_round_nothing():
    x = Balls(np.array([[3.0, 1.0], [0.0, 1.0]]), np.zeros((2, 2)))
    _, spread, lost = affine(x, np.array([[4.0, -1.5]]), np.array([0.5]), FLOAT16)
    assert not spread.any()
    assert not lost.any()
    _, _, lost = affine(x, np.array([[1 / 3, 1.0]]), None, FLOAT16)
    assert lost[0, 0] >= FLOAT16.unit
    assert lost[1, 0] > 0


def test_one_key_has_one_score_whatever_asks():
    """A query that is off moves all scores of a key alike: only the key sets them apart."""
    query = Balls(np.array([[1.0, 0.0]]), np.array([[1e-3, 1e-3]]))
    exact = Balls(np.array([[0.0, 2.0]]), np.zeros((1, 2)))
    found, own = products(query, exact, FLOAT32)
    assert own[0, 0] == 0.0
    assert found.radius[0, 0] == pytest.approx(2e-3, rel=1e-6)
    loose = Balls(np.array([[1.0, 0.0]]), np.array([[1e-3, 0.0]]))
    _, own = products(query, loose, FLOAT32)
    assert own[0, 0] == pytest.approx(1.001 * 1e-3, rel=1e-3)


def test_a_power_of_two_and_a_bias_round_once():
    """The sum of a product that is exact and a bias is off by a unit roundoff of its result."""
    x = Balls(np.array([[1.0]]), np.array([[1e-3]]))
    _, _, lost = affine(x, np.array([[64.0]]), np.array([-63.5]), FLOAT32)
    reached = (0.5 + 64e-3) * (FLOAT32.unit + FLOAT64.unit)
    assert reached <= lost[0, 0] <= reached * (1 + 1e-6)


@pytest.mark.parametrize("format", FORMATS.values(), ids=str)
def test_shares_and_rows_attain_their_bounds(format):
    """Theorem of rows over the reals, where it is sharp: n others exactly g below, one spread d."""
    n, w, gap, coldness = 3, 2, 1.0, 12.0
    leak = n * math.exp(-coldness * gap)
    share = 1 / (1 + w) - 1 / (1 + w + leak)
    bound = n * power(gap, coldness, format, n + w) / (1 + w) ** 2
    assert share <= bound
    assert format is not FLOAT64 or bound <= share * (1 + leak)
    spread = 2.0**-14
    weights = np.array([1.0, math.exp(-coldness * spread)])
    moved = abs(weights[0] / weights.sum() - 0.5)
    found = growth(spread, coldness, format, 2)
    assert 2 * moved <= found
    assert growth(0.0, coldness, format, 2) == 0.0
