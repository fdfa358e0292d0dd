"""Compile returns what it can keep: rounding in every claim, and the bounds behind it attained."""

import math
import operator
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Box, Claim, Construction, Words, evaluate
from hardmax.languages.programs import Aggregated, Code, Joined
from hardmax.lowering.gadgets import polygon
from hardmax.lowering.programs import _compile
from hardmax.lowering.programs._lookup import points_of
from hardmax.lowering.sketch import (
    Bends,
    Ladder,
    Levels,
    OneOf,
    WordForm,
    WordHead,
    WordSketch,
    misfit,
    strays_of,
)
from hardmax.lowering.sketch._straying import _Straying
from hardmax.numerics import FLOAT64
from hardmax.testing import CONSTRUCTS, random_program

S = p.Sequence()
SO_FAR = p.there(S.index) <= S.index
A, B = (SO_FAR.sum(S.tokens == letter) for letter in "ab")
D = A - B
SEEN = ((p.there(D) == D) & SO_FAR).count()
JOINT = {
    "counts": ((p.there(A) == A) & (p.there(B) == B - 1)).count(),
    "heights": ((p.there(D) == D) & (p.there(SEEN) == SEEN - 1)).count(),
    "mean": ((p.there(A) == A) & (p.there(B) == B - 1)).mean(S.index, 0),
    "largest": ((p.there(A) == A) & (p.there(B) == B)).max(S.index),
}


def accounted(model):
    """What the claim says of softening and rounding: its margin is left out."""
    return math.fsum(share.amount for share in model.claim.ledger if share.cause != "margin")


def measured(model, words):
    """How far answers are from the interpreter's, all of which are decoded as they are meant."""
    answers = evaluate(model.transformer, [list(word) for word in words])
    target, worst = model.claim.target, 0.0
    for word, answer in zip(words, answers, strict=True):
        wanted = target(word)
        assert target.decode(answer) == target.decode(wanted)
        worst = max(worst, float(np.abs(answer - np.array(wanted, float)).max(initial=0.0)))
    return worst


@pytest.mark.parametrize(
    ("name", "length"), [*((name, 6) for name in JOINT), ("counts", 8), ("heights", 8)]
)
def test_several_conditions_are_right_for_every_word(name, length):
    program, words = p.Program(JOINT[name]), Words("ab", length, 0)
    model = hm.compile(program, on=words)
    assert measured(model, list(words)) <= accounted(model) < model.claim.error
    assert model.bill.parameters < 2000


CLOSE = {
    "large": (lambda t: 10**10 + t, 4),
    "larger than floats tell": (lambda t: 10**17 + t, 4),
    "small": (lambda t: t * 1e-10, 4),
    "tiny": (lambda t: t * 1e-300, 4),
    "of all sizes": (lambda t: 10 ** (100 * t), 4),
    "sums of decimals": ({1: 0.1 + 0.2, 2: 0.3 + 0.0, 3: 0.1 + 0.25}.get, 4),
    "thirds": (lambda t: Fraction(t, 3), 4),
}


@pytest.mark.parametrize("name", CLOSE)
def test_numbers_that_are_close_are_told_apart(name):
    function, length = CLOSE[name]
    words = Words([1, 2, 3], length, 0)
    every = list(words)
    value = S.tokens.map(function)
    for made in (value, value.shifted(1), SO_FAR.max(value.map(lambda x: x)), value + value):
        if made is not value and name in ("of all sizes", "larger than floats tell", "tiny"):
            continue
        program = p.Program(made)
        model = hm.compile(program, on=words)
        assert [w for w, got in zip(every, model(every), strict=True) if got != program(w)] == []
        assert measured(model, every) <= accounted(model)
        assert model.claim.error > 0.0


def test_sums_of_decimals_that_differ_in_the_last_digit_have_codes_of_their_own():
    first, second = S.tokens.map({1: 0.1, 2: 0.3}), S.tokens.map({1: 0.2, 2: 0.0})
    program = p.Program(first + second.shifted(1, 0))
    model = hm.compile(program, alphabet=[1, 2], length=4)
    assert model.claim.error == 0.25  # places in the value set, 1 apart
    assert hm.certify(model).verdict is hm.Verdict.PROVED
    assert all(model(word) == program(word) for word in Words([1, 2], 4))


def test_what_floats_cannot_add_up_is_refused():
    close = S.tokens.map(lambda t: 10**17 + t)
    with pytest.raises(hm.RequestError, match="too close to each other, to be added up"):
        hm.compile(p.Program(SO_FAR.mean(close)), alphabet=[1, 2], length=3)


HELD = {1: "x", 2: 0, 3: 1}
MIXED = {
    "numbers and symbols": (p.there(S.tokens) > 1).mean(S.tokens.map(HELD)),
    "numbers or a symbol": (p.there(S.tokens) == S.tokens).mean(S.tokens.map(HELD)),
    "one of them": S.tokens.map(HELD).shifted(1),
    "numbers, or none": (p.there(S.tokens) > 1).mean(S.tokens, "none"),
    "one number, or none": (p.there(S.tokens) > 1).mean(2, "none"),
    "no number": (p.there(S.tokens) > 1).mean(S.tokens.map({}), "none"),
}


@pytest.mark.parametrize("name", MIXED)
def test_means_beside_symbols_are_right_for_every_word(name):
    """The value set has all means of the numbers, and symbols stand for numbers above them."""
    program, words = p.Program(MIXED[name]), Words([1, 2, 3], 3, 0)
    model = hm.compile(program, on=words)
    assert measured(model, list(words)) <= accounted(model) < model.claim.error
    assert all(model(word) == program(word) for word in words)


def test_few_numbers_have_few_sums_however_close():
    numbers = S.tokens.map({1: 1000001, 2: 999983})
    for value in (SO_FAR.sum(numbers), SO_FAR.mean(numbers)):
        program, words = p.Program(value), Words([1, 2], 4, 0)
        model = hm.compile(program, on=words)
        assert measured(model, list(words)) <= accounted(model) < model.claim.error


def test_a_way_that_strays_too_far_is_not_offered(monkeypatch):
    program = p.Program(JOINT["counts"])
    cares = _compile._CARES
    monkeypatch.setattr(_compile, "_CARES", cares[:1])
    monkeypatch.setattr(_compile, "compares_jointly", lambda value: False)
    with pytest.raises(hm.RequestError, match=r"are 1 apart, but what is built .* may stray by"):
        hm.compile(program, alphabet="ab", length=8)
    monkeypatch.setattr(_compile, "_CARES", cares)
    model = hm.compile(program, alphabet="ab", length=8)  # with more care, the same program
    words = Words("ab", 8)
    assert measured(model, words.sample(60, np.random.default_rng(0))) <= accounted(model)


def test_a_program_that_fails_on_the_longest_words_is_refused():
    total = SO_FAR.sum(S.tokens)
    program = p.Program(total.map(dict.fromkeys(range(9), 0).__getitem__))
    with pytest.raises(hm.SemanticsError, match="fails on 9"):
        hm.compile(program, alphabet=[0, 1], length=9)


# ---- the lemmas, at their extremal points -------------------------------------------------------


def drawn(length=1):
    sketch = WordSketch(Words("ab", length))
    sketch.needs_start = True
    return sketch


def test_a_form_strays_by_what_its_registers_stray():
    sketch = drawn()
    one, two = (sketch.register(name, 8.0) for name in "xy")
    for register, off in ((one, 0.5), (two, 0.25)):
        sketch.unit(1, "off", (sketch.token * off).looser(off), {register: 1.0})
    (found,) = strays_of(sketch, [WordForm({one: 2.0, two: -4.0})])
    assert found.softening == 0.0
    assert found.rounding == pytest.approx(2.0 * 0.5 + 4.0 * 0.25, rel=1e-12)


@pytest.mark.parametrize("apart", [0.01, 0.3, 2.0])
def test_a_mean_moves_most_between_two_groups(apart):
    """Values 0 and 1 whose odds go from e^-d to e^d: the mean moves by tanh(d/2)."""
    moved = 1 / (1 + math.exp(-apart)) - 1 / (1 + math.exp(apart))
    assert moved == pytest.approx(math.tanh(apart / 2), rel=1e-12)
    odds = np.exp(np.linspace(-4, 4, 801))
    after = odds * math.exp(2 * apart)
    assert (after / (1 + after) - odds / (1 + odds)).max() <= moved * (1 + 1e-12)


def test_a_sum_is_off_by_its_share_times_the_symbols():
    """n symbols of weight r: the sum n becomes n/(1 + r n), off by r n n up to r n of that."""
    model = hm.compile(p.length, alphabet="a", length=9)
    (softening,) = [s.amount for s in model.claim.ledger if s.cause == "softening"]
    off = 9 - float(evaluate(model.transformer, "a" * 9)[0, 0])
    assert off <= softening <= 1.001 * off + 9 * math.exp(-60)


def test_a_look_up_moves_by_its_slope_and_a_flat_one_not_at_all():
    levels, heights = np.array([0.0, 1.0, 2.0, 4.0]), np.array([0.0, 3.0, 1.0, 1.0])
    found = {}
    for flat in (False, True):
        line = polygon(levels, heights, flat)
        sketch = drawn()
        x, y = sketch.register("x", 4.0), sketch.register("y", 100.0)
        sketch.unit(1, "x", sketch.token.looser(0.125), {x: 1.0})
        for knot, weight in zip(line.knots, line.weights, strict=True):
            sketch.unit(3, "y", WordForm({x: 1.0}, -knot), {y: weight}, Levels(levels))
        (stray,) = strays_of(sketch, [WordForm({y: 1.0})])
        found[flat] = stray.rounding
    assert found[False] == pytest.approx(0.125 * 5.0, rel=1e-9)  # relu turns by 5 at 1
    assert found[True] < 1e-13


def test_of_many_units_the_worst_counts_and_of_a_ladder_three():
    for law, times in ((OneOf(1.0), 1.0), (Ladder(1.0), 3.0), (None, 6.0), (OneOf(0.01), 6.0)):
        sketch = drawn()
        y = sketch.register("y", 100.0)
        for k in range(6):
            sketch.unit(1, "y", (sketch.token * (k + 1.0)).looser(0.125), {y: 1.0}, law)
        (stray,) = strays_of(sketch, [WordForm({y: 1.0})])
        assert stray.rounding == pytest.approx(times * 0.125, rel=1e-9)


def test_whole_numbers_round_nothing():
    model = hm.compile(p.copy, alphabet=[1, 2, 3], length=3)
    assert accounted(model) == 0.0
    thirds = hm.compile(p.Program(S.tokens * Fraction(1, 3)), alphabet=[1, 2, 3], length=3)
    assert 0.0 < accounted(thirds) < 1e-15


def test_the_start_token_must_hold_nothing_where_sums_read_it():
    sketch = drawn(3)
    dirty, total = sketch.register("dirty", 1.0), sketch.register("total", 100.0)
    dirty.start = 1e-9
    head = WordHead(
        "sum",
        [sketch.token],
        [sketch.token * -20.0],
        [WordForm({dirty: 1.0})],
        [{total: math.exp(20.0)}],
        hm.core.Softmax(1.0),
        does="sum",
    )
    sketch.head(2, head)
    (stray,) = strays_of(sketch, [WordForm({total: 1.0})])
    assert stray.softening >= 1e-9 * math.exp(20.0)


def test_bends_are_largest_at_a_knot_or_at_an_end():
    """3 (x - 1) from 1 to 4, where it is 9; then 13 - x for ever, 0 at 13."""
    hat = Bends(np.array([4.0, 1.0, 2.0]), np.array([-4.0, 3.0, 0.0]))
    assert [hat.largest(np.array([float(x)])) for x in (1, 2, 4)] == pytest.approx([0, 3, 9])
    assert hat.largest(np.array([1.0, 2.0, 7.0])) == pytest.approx(6.0, rel=1e-12)
    assert hat.largest_within(3.0) == pytest.approx(6.0, rel=1e-12)  # at the end
    assert hat.largest_within(12.0) == pytest.approx(9.0, rel=1e-12)  # at the knot
    assert hat.largest_within(100.0) == pytest.approx(87.0, rel=1e-12)  # at the other end
    assert hat.largest_within(0.5) <= 1e-13  # rounding alone
    rng = np.random.default_rng(0)
    for _ in range(200):
        knots, weights = rng.normal(size=(2, 5)) * 10.0 ** rng.integers(-8, 8, (2, 5))
        x = float(rng.normal() * 100)
        exactly = abs(
            sum(
                Fraction(w) * max(Fraction(x) - Fraction(k), 0)
                for k, w in zip(knots, weights, strict=True)
            )
        )
        assert exactly <= Fraction(Bends(knots, weights).largest(np.array([x])))


def test_a_form_is_no_larger_than_what_it_stands_for():
    sketch = drawn()
    x, y = (sketch.register(name, 8.0) for name in "xy")
    peaks = WordForm({x: 1.0, y: -2.0}, 1.0)
    assert peaks.bound == 25.0
    step = peaks.within(1.0)
    assert (step.bound, (step * -3.0).bound, (step + 2.0).bound) == (1.0, 3.0, 3.0)
    assert ((step + step).bound, sketch.linear(step).bound) == (2.0, 1.0)
    assert step.within(5.0).bound == 1.0
    assert step.widest == 25.0  # the start token holds what it holds


def test_the_start_token_gains_no_more_than_symbols_do_where_it_asks_as_they_do():
    """Peaks that add up to 1 at symbols: their sum is 3 at most, at the start token as well."""
    found = {}
    for sane in (True, False):
        sketch = drawn(3)
        sketch.sane_start = sane
        peaks = [sketch.register(f"peak {k}", 1.0) for k in range(4)]
        for peak in peaks:
            sketch.unit(1, "peak", sketch.token, {peak: 1.0})
        total, after = sketch.register("total", 3.0), sketch.register("after", 1e6)
        step = WordForm(dict.fromkeys(peaks, 1.0)).within(1.0)
        head = WordHead(
            "sum", [sketch.one], [sketch.token * -20.0], [step], [{total: math.exp(20.0)}],
            hm.core.Softmax(1.0), does="sum",
        )  # fmt: skip
        sketch.head(2, head)
        sketch.unit(3, "after", WordForm({total: 1.0}, -4.0), {after: 1.0})
        found[sane] = _Straying(sketch, [WordForm({after: 1.0})], FLOAT64).start[after]
    assert found[True] == 0.0 < found[False]  # the unit is off at 3 and a little


def test_a_look_up_at_the_start_token_is_as_large_as_its_polygon():
    """A hat of height 1, read at 100: it is 1 at most, though its units are 100, 99 and 98."""
    sketch = drawn(3)
    x, y = sketch.register("x", 4.0), sketch.register("y", 4.0)
    x.start = 100.0
    for knot, weight in ((0.0, 1.0), (1.0, -2.0), (2.0, 1.0)):
        sketch.unit(1, "y", WordForm({x: 1.0}, -knot), {y: weight}, Levels(np.arange(4.0)))
    start = _Straying(sketch, [WordForm({y: 1.0})], FLOAT64).start[y]
    assert start == pytest.approx(1.0, rel=1e-9)


def test_numbers_that_floats_explain_are_one_and_others_are_not():
    wanted = np.array([1.0, 1.0 + 1e-10, 2.0])
    assert misfit(wanted, wanted) == 0.0
    assert misfit(wanted + 1e-15, wanted) == pytest.approx(1e-15, rel=0.2)
    assert misfit(np.array([1.0, 1.0, 2.0]), wanted) is None
    assert points_of(np.array([0.0, 1e10, 1e10 + 1]), np.array([0.0, 1.0, 2.0]))[0].size == 3
    assert points_of(np.array([0.0, 0.0]), np.array([0.0, 1e-12])) is None


def test_codes_are_numbers_that_floats_tell_apart():
    assert Code((10**10, 10**10 + 1)).is_plain
    assert not Code((10**17, 10**17 + 1)).is_numeric
    assert Code((10**17, 10**17 + 1)).number(10**17 + 1) == 1
    assert not Code((Fraction(1), Fraction(1) + Fraction(1, 2**41))).is_numeric
    assert Code((Fraction(1), Fraction(1) + Fraction(1, 2**39))).is_numeric
    assert not Code((1, 10**400)).is_numeric


# ---- random programs ----------------------------------------------------------------------------


def test_random_programs_reach_every_construct():
    drawn = [random_program(seed) for seed in range(700)]
    assert frozenset().union(*(one.constructs for one in drawn)) == CONSTRUCTS
    values = [value for one in drawn for value in one.program.values]
    kinds = {type(value).__name__ for value in values}
    assert kinds == {
        "Given",
        "Constant",
        "Applied",
        "Combined",
        "Aggregated",
        "Ranked",
        "Scanned",
        "Memorised",
    }
    made = [value for value in values if isinstance(value, Aggregated)]
    assert {value.kind for value in made} == {"only", "mean", "sum", "count", "min", "max"}
    hows = {how for value in made for how in joined(value.selection)}
    assert hows == {"and", "or", "not", "related"}
    assert {one.words.longest for one in drawn} >= {1, 12}
    again = random_program(11)
    assert str(again.program) == str(drawn[11].program)


def joined(selection):
    if isinstance(selection, Joined):
        return {selection.how, *(how for part in selection.parts for how in joined(part))}
    return {"related"}


# ---- edges --------------------------------------------------------------------------------------


class Unhashable:
    __hash__ = None

    def __eq__(self, other):
        raise AssertionError("nobody compares functions")

    def __call__(self, token):
        return token + 1


def test_functions_need_no_hash(tmp_path):
    program = p.program(lambda s: s.tokens.map(Unhashable()))
    model = hm.compile(program, alphabet=[1, 2], length=3)
    certificate = hm.certify(model)
    assert certificate.verdict is hm.Verdict.PROVED
    hm.save(model, tmp_path / "model.safetensors", certificate)
    assert hm.load(tmp_path / "model.safetensors")([1, 2]) == [2, 3]


def test_a_claim_about_a_box_does_not_go_with_sequences():
    model = hm.compile(p.copy, alphabet="ab", length=2)
    function = hm.compile("x", on=Box([0.0], [1.0]))
    claim = Claim(function.claim.target, function.claim.domain, function.claim.ledger)
    with pytest.raises(hm.ShapeError, match=r"reads sequences .* Words as its domain"):
        Construction(model.transformer, claim, None, "by hand")


def test_texts_with_braces_are_no_formats():
    program = p.Program(p.or_else(S.tokens.shifted(1), "{x}"))
    assert program("ab") == ["{x}", "a"]
    assert "{x}" in str(program)
    assert operator.eq(hm.compile(program, alphabet="ab", length=2)("ab"), ["{x}", "a"])
