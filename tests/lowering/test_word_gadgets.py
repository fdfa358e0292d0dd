"""The gadgets of programs one by one: hidden units over the rationals, heads at their gaps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hardmax.core import Hardmax, Words, reference
from hardmax.lowering.gadgets import (
    Scores,
    against_start,
    equality_scores,
    hard_head,
    multiplexer,
    number_with_open_gate,
    polygon,
    polygon_by_units,
    soft_sum,
)
from hardmax.lowering.sketch import Care, Placed, WordAssembly, WordForm, WordSketch

LETTERS = "abcd"


def column(sketch, name, numbers):
    """A register that holds a number for each letter."""
    register = sketch.register(name, float(np.abs(numbers).max()))
    register.symbols = np.array(numbers, dtype=float)
    return WordForm({register: 1.0})


def answers(sketch, form, word, hard=False):
    """What a form holds at every letter of a word, over the rationals if all heads are hard."""
    model = WordAssembly(sketch, [form]).transformer(None)
    if hard:
        model = model.with_weightings([Hardmax()] * len(model.heads))
    kind = Fraction if hard or not model.heads else float
    return [row[0] for row in reference(model, list(word), kind)]


def placed(form):
    return Placed(form, 0, True)


def test_a_multiplexer_picks_the_option_of_its_number():
    sketch, most = WordSketch(Words(LETTERS, 2)), 5.0
    options = [[0, 1, 2, 5], [5, 4, 0, 3], [2, 5, 1, 0]]
    number, forms = [0, 1, 2, 1], [column(sketch, f"g{t}", g) for t, g in enumerate(options)]
    a, out = column(sketch, "a", number), sketch.register("out", 20.0)
    rungs = [g + a * most + -most * t for t, g in enumerate(forms)]
    multiplexer(sketch, 1, "pick", rungs, most, out)
    assert len(sketch.layers.units[1]) == 6
    for letter, picked in enumerate(number):
        found = answers(sketch, WordForm({out: 1.0}) + a * -most, LETTERS[letter])
        assert found == [options[picked][letter]]


def test_an_open_gate_lets_its_number_through_and_no_other():
    sketch = WordSketch(Words(LETTERS, 2))
    numbers = [column(sketch, f"n{k}", n) for k, n in enumerate([[3, 0, 1, 7], [7, 2, 7, 7]])]
    gates = [column(sketch, f"g{k}", g) for k, g in enumerate([[1, 0, 0, 1], [0, 1, 0, 0]])]
    parts = [(placed(n), placed(g)) for n, g in zip(numbers, gates, strict=True)]
    found = number_with_open_gate(sketch, "chosen", parts, 7.0)
    assert found.ready == 2
    assert answers(sketch, found.form, LETTERS[:2]) == [3, 2]
    assert answers(sketch, found.form, LETTERS[2:]) == [0, 7]


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("clean", [False, True])
def test_polygons_go_through_their_points(flat, clean):
    sketch = WordSketch(Words(LETTERS, 2))
    x, y = np.array([1.0, 2.0, 4.0, 5.0]), np.array([3.0, 3.0, -2.0, 8.0])
    inner, line = placed(column(sketch, "x", x)), polygon(x, y, flat)
    assert len(line.knots) <= (2 if not flat else 6)
    found = polygon_by_units(sketch, "y", inner, line, 1.0, clean=clean)
    for letter, expected in zip(LETTERS, y, strict=True):
        assert answers(sketch, found.form, letter) == [expected]


def test_equal_numbers_win_by_one_and_the_start_token_by_half():
    """q^2 - (k - q)^2 at keys, 0 at the start token: with q^2 - 1/2 off, it wins unless k = q."""
    numbers = np.array([1.0, 2.0, 3.0, 9.0])
    for shift, gap in ((0.0, 1.0), (-0.5, 0.5)):
        sketch = WordSketch(Words(LETTERS, 3))
        k, squares = column(sketch, "k", numbers), column(sketch, "k^2", numbers**2)
        scores = equality_scores(sketch, placed(k), placed(squares), placed(k))
        level = placed(column(sketch, "level", numbers**2 + shift))
        scores = against_start(sketch, scores, level, 1.0 + shift)
        assert scores.gap == gap
        for a in range(4):
            for b in range(4):
                score = sum(
                    value_of(q, a) * value_of(key, b)
                    for q, key in zip(scores.query, scores.key, strict=True)
                )
                assert score == -((numbers[a] - numbers[b]) ** 2) - shift


def value_of(form, letter):
    """What a form is at a letter."""
    return form.constant + sum(w * r.symbols[letter] for r, w in form.terms.items())


def test_a_hard_head_takes_the_mean_of_those_who_win():
    sketch = WordSketch(Words(LETTERS, 4))
    value = column(sketch, "value", [3, 5, 1, 0])
    wins = column(sketch, "wins", [1, 1, 0, 0])
    scores = Scores([sketch.token], [wins], 0, 1.0)
    found = hard_head(sketch, "mean", scores, placed(value))
    assert answers(sketch, found.form, "abcd", hard=True) == [4] * 4
    assert answers(sketch, found.form, "aab", hard=True) == [Fraction(11, 3)] * 3
    soft = answers(sketch, found.form, "abcd")
    assert soft == pytest.approx([4.0] * 4, abs=8 * np.exp(-30.0))


def test_heads_that_attend_alike_are_one_head():
    sketch = WordSketch(Words(LETTERS, 4))
    scores = Scores([sketch.token], [column(sketch, "wins", [1, 1, 0, 0])], 0, 1.0)
    for number in range(3):
        hard_head(sketch, f"value {number}", scores, placed(column(sketch, "v", [1, 2, 3, number])))
    (head,) = sketch.layers.heads[0]
    assert len(head.value) == len(head.output) == 3


@pytest.mark.parametrize("causal", [False, True])
def test_a_soft_sum_is_right_to_its_bits(causal):
    """Each symbol has the weight r/(1 + r n): the sum S is r n S short, and no more than that."""
    sketch = WordSketch(Words(LETTERS, 3), care=Care(bits=8))
    each = column(sketch, "each", [1.0, 2.0, 4.0, 0.0])
    found = soft_sum(sketch, "sum", placed(each), None, causal)
    r = 2.0 ** -(8 + 2 * 2)
    for word in ("abc", "ccc", "d"):
        numbers = np.array([[1.0, 2.0, 4.0, 0.0][LETTERS.index(one)] for one in word])
        seen = np.arange(len(word)) + 1 if causal else np.full(len(word), len(word))
        sums = np.array([numbers[:n].sum() for n in seen])
        got = np.array(answers(sketch, found.form, word))
        assert got == pytest.approx(sums / (1 + r * seen), rel=1e-9, abs=1e-12)
        assert (sums - got <= r * seen * sums + 1e-12).all()
