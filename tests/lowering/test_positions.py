"""Legible models with one-hot, relative and scalar positions: sizes, interventions, refusals."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from benchmarks._legible_positions import (
    POSITIONS,
    disagreements,
    free_names,
    ranked_sort,
    rows_read,
    singles_part,
    sizes_of,
)
from gallery import GALLERY

import hardmax as hm
from hardmax import programs as p
from hardmax.core import padded_parameters, square_code
from hardmax.lowering.programs.legible import _lower
from hardmax.lowering.programs.legible._units import interpolated, interpolated_falling

s = p.Sequence()


def compiled(program: p.Program, kind: str, alphabet: str = "abc", length: int = 4):
    return hm.compile(program, alphabet=alphabet, length=length, route="legible", positions=kind)


# ---- sizes ---------------------------------------------------------------------------------------


def test_sizes_beside_tracr():
    """None larger, none deeper; 4.3 times smaller in the mean by default, 10.6 at best."""
    ratios, best = [], []
    for name, (program, alphabet, rival) in rows_read().items():
        found = sizes_of(program, alphabet, 5)
        assert all(layers <= rival.layers for layers, _ in found.values()), name
        ratios.append(rival.parameters / found["one-hot"][1])
        best.append(rival.parameters / min(count for _, count in found.values()))
        assert ratios[-1] >= 1.0, name
    assert math.prod(ratios) ** (1 / 14) >= 2.5
    assert math.prod(best) ** (1 / 14) >= 3.5


def test_long_words_beside_tracr():
    for program, theirs in ((p.reverse, 592_769), (ranked_sort(), 973_113)):
        found = sizes_of(program, "abcdefghij", 20)
        assert all(14 * count <= theirs for _, count in found.values())
        assert 3 * found["scalar"][1] <= found["one-hot"][1]


def test_plans_show_the_positions_asked_for():
    plan = hm.plan(p.shift(1), alphabet="abc", length=4, positions="relative")
    offer = plan.offers[-1]
    assert offer.route == "legible"
    wanted = padded_parameters(compiled(p.shift(1), "relative").transformer)
    assert offer.build().bill.padded_parameters == wanted
    one_hot = hm.plan(p.shift(1), alphabet="abc", length=4, positions="one-hot").offers[-1]
    assert wanted < one_hot.build().bill.padded_parameters
    refused = hm.plan(p.shift(1), alphabet="abc", length=4, positions="sinusoidal").offers[-1]
    assert "one-hot, relative, scalar, and not 'sinusoidal'" in str(refused.refusal)


@pytest.mark.campaign
def test_addition_of_22_digits_explodes():
    addition, words = GALLERY["addition"]()
    with pytest.raises(hm.RequestError, match=r"about 2\d\d,\d\d\d,\d\d\d parameters.*'combin"):
        hm.compile(addition, on=words, route="legible")


def test_a_program_that_grows_too_large_is_refused_by_its_step_and_size(monkeypatch):
    model = compiled(p.reverse, "one-hot")
    monkeypatch.setattr(_lower, "MOST_PARAMETERS", 1_000)
    with pytest.raises(hm.RequestError, match=r"about 2,040 parameters.*step 'index'; 1,000 are"):
        compiled(p.reverse, "one-hot")
    assert 2_040 < model.bill.padded_parameters < 1.2 * 2_040


def test_long_words_in_float32():
    """Numbers of 40 symbols are too far off for parabolas there: one-hots are held instead."""
    program = p.program(lambda s: s.tokens.at(s.length - 1 - s.index))
    models = [
        hm.compile(
            program, alphabet="ab", length=40, route="legible", positions="scalar", float=name
        )
        for name in ("float64", "float32")
    ]
    certificates = [hm.certify(model) for model in models]
    assert [one.verdict.name for one in certificates] == ["PROVED", "PROVED"]
    assert "float32" not in certificates[0].holds_in
    assert "float32" in certificates[1].holds_in


# ---- interventions -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("name", ["reverse", "sort_by_key", "most_frequent", "detect"])
def test_every_single_intervention_on_some_words(name, kind):
    for word in ("abca", "bbaa") if name != "sort_by_key" else ((0, 1, 2, 0), (1, 1, 0, 0)):
        defined, wrong = disagreements(name, kind, tuple(word))
        assert defined > 20
        assert wrong == []


def test_the_part_of_the_campaign_counts_what_is_wrong():
    found = singles_part(len(free_names()) * 3 * 40, 3, 0)
    assert found["wrong"] == []
    assert found["interventions"] > 0


def test_what_a_mask_stands_for_is_not_overwritten():
    """The program would answer otherwise; the mask would not move."""
    seen = p.Program(((p.there(s.tokens) == s.tokens) & (p.there(s.index) < s.index)).any())
    where = {"index": {0: 3}}
    assert seen("aab", where=where) != seen("aab")
    one_hot = compiled(seen, "one-hot")
    assert hm.intervene(one_hot, "aab", where) == seen("aab", where=where)
    for kind in ("relative", "scalar"):
        model = compiled(seen, kind)
        assert model.circuit.masked == ("index",)
        assert "index" not in model.circuit.steps
        with pytest.raises(hm.RequestError, match=r"the mask of a0\.h0 stands for it"):
            hm.intervene(model, "aab", where)


def test_what_a_mask_stands_for_may_be_held_as_well():
    """Sorted words need the index, ranks go by its order. All other steps can be overwritten."""
    by_key = p.sort_by({"a": 1, "b": 0, "c": 1})
    model = compiled(by_key, "scalar")
    assert model.circuit.blocks_of("index")
    assert model.circuit.masked == ("index",)
    assert all(node.masks in ((), ("index",)) for node in model.circuit.nodes)
    with pytest.raises(hm.RequestError, match="stands for it"):
        hm.intervene(model, "cab", {"index": {0: 1}})
    where = {"count": {0: 1, 1: 0}}
    assert hm.intervene(model, "ba", where) == by_key("ba", where=where)


def test_steps_on_the_way_to_a_mask_are_not_overwritten():
    """there(index) == here(index - 1) by a bias: overwriting the index would move index - 1."""
    model = compiled(p.shift(1), "relative")
    assert set(model.circuit.masked) == {"index", "combination"}
    head = model.transformer.sublayers[0].heads[0]
    assert head.key_width == 0
    assert head.position_bias is not None
    for step in ("index", "combination"):
        with pytest.raises(hm.RequestError, match=r"the mask of a0\.h0"):
            hm.intervene(model, "abc", {step: {1: 1}})
    scalar = compiled(p.shift(1), "scalar")
    where = {"index": {0: 2}}
    assert hm.intervene(scalar, "abc", where) == p.shift(1)("abc", where=where)


def test_what_is_made_at_once_is_not_overwritten():
    often = (p.there(s.tokens) == s.tokens).count()
    model = compiled(p.Program(s.everywhere.sum(often <= 2)), "one-hot")
    assert "count" not in model.circuit.steps
    with pytest.raises(hm.RequestError, match=r"'count' is not held.*\.named\('count'\)"):
        hm.intervene(model, "abc", {"count": {0: 1}})
    named = p.Program(s.everywhere.sum(often.named("often") <= 2))
    again = compiled(named, "one-hot")
    where = {"often": {0: 4}}
    assert hm.intervene(again, "abc", where) == named("abc", where=where)
    assert hm.certify(again).verdict.name == "PROVED"


# ---- parts ---------------------------------------------------------------------------------------


def test_parabolas_are_one_where_numbers_are_equal_and_at_most_zero_elsewhere():
    """Attained: a neighbour of a key scores exactly 0, and so does a number just outside."""
    for keys in ((0, 1, 2, 3), (3, 4, 5), (-2, 0, 3)):
        for a in range(-6, 9):
            scores = [1 - square_code(a, keys) + 2 * a * b - b * b for b in keys]
            assert [score == 1 for score in scores] == [a == b for b in keys]
            assert all(score <= 0 for b, score in zip(keys, scores, strict=True) if a != b)
            assert a in keys or max(scores) == 0
    assert [square_code(a, (0, 1, 2)) for a in (-1, 0, 1, 2, 3)] == [1, 0, 1, 4, 9]


def test_straight_lines_meet_every_number():
    """Shares are counted by the sum of 2 (k + 1) relu(1/(1 + k) - z), exactly."""
    counts = range(7)
    shares = [Fraction(1, 1 + w) for w in counts]
    units = interpolated_falling({5: 1.0}, shares, [{7: float(w)} if w else {} for w in counts])
    assert [unit.outputs for unit in units] == [{7: 2.0 * (k + 1)} for k in range(6)]
    numbers = [Fraction(n) for n in (-2, 0, 1, 5)]
    for wanted in itertools.product((0.0, 1.0, 3.0), repeat=4):
        lines = interpolated({5: 1.0}, numbers, [{7: w} if w else {} for w in wanted])
        for number, one in zip(numbers, wanted, strict=True):
            total = 0.0
            for unit in lines:
                inner = unit.inner.get(5, 0.0) * float(number) + unit.inner.get(0, 0.0)
                total += max(inner + unit.bias, 0.0) * unit.outputs.get(7, 0.0)
            assert np.isclose(total, one, rtol=0, atol=1e-12)
