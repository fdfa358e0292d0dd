"""Words as a domain, targets on words, and claims about them."""

from dataclasses import dataclass
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hardmax as hm
from hardmax.core import (
    GIVEN,
    INDEX,
    LENGTH,
    SYMBOL,
    Aggregate,
    Combination,
    Pointwise,
    Selection,
    SequenceSteps,
    SequenceTarget,
    Share,
    Target,
    Words,
)


def everything():
    return Selection((), (), lambda: True)


# --- the domain ---------------------------------------------------------------------------------


def test_words_are_counted_and_ordered():
    words = Words("ab", 3, 1)
    assert words.count == 2 + 4 + 8 == len(list(words))
    assert list(words)[:4] == [("a",), ("b",), ("a", "a"), ("a", "b")]
    assert [words.count_of(n) for n in (0, 1, 3, 4)] == [0, 2, 8, 0]
    assert Words(range(10), 100).count == sum(10**n for n in range(1, 101))


def test_the_empty_word_counts_if_it_is_asked_for():
    assert list(Words("a", 1, 0)) == [(), ("a",)]
    assert Words("a", 1, 0).contains("")
    assert not Words("a", 1).contains("")


@given(st.integers(1, 4), st.integers(0, 4), st.data())
def test_numbered_words_are_the_words_in_their_order(symbols, length, data):
    words = Words(range(symbols), length, 0)
    expected = list(product(range(symbols), repeat=length))
    start = data.draw(st.integers(0, len(expected)))
    stop = data.draw(st.integers(start, len(expected)))
    found = words.words(words.numbers(length, start, stop))
    assert found == expected[start:stop]


def test_words_know_what_they_contain():
    words = Words(["x", 3], 2)
    assert words.contains(["x", 3])
    for foreign in (["x", "3"], ["x"] * 3, [], [None], [["x"]]):
        assert not words.contains(foreign)


@pytest.mark.parametrize(
    "words", [Words("abc", 7), Words("a", 3), Words("ab", 2, 0), Words("z", 0, 0)]
)
@pytest.mark.parametrize("count", [0, 1, 5, 60])
def test_samples_lie_in_the_domain(words, count):
    sample = words.sample(count, np.random.default_rng(1))
    assert len(sample) == count
    assert all(words.contains(word) for word in sample)


def test_samples_hold_what_programs_trip_over():
    sample = set(Words("abc", 6).sample(60, np.random.default_rng(0)))
    for word in ("aaaaaa", "cccccc", "aabbcc", "ccbbaa", "abcabc", "acacac", "caaaaa", "aaaaac"):
        assert tuple(word) in sample, word
    assert ("a",) in sample
    assert ("c",) in sample


@pytest.mark.parametrize(
    "words", [Words("ab", 5), Words([0, 1, "x"], 3, 3), Words(['"', "\\", "é"], 2, 0)]
)
def test_the_text_reads_back(words):
    assert Words.parse(str(words)) == words
    assert hash(Words.parse(str(words))) == hash(words)


def test_the_text_is_for_people():
    assert str(Words("ab", 5)) == 'words over ["a", "b"] of length 1 to 5'
    assert str(Words([7], 2, 2)) == "words over [7] of length 2"
    assert repr(Words("ab", 5)) == "Words(2 symbols, length 1 to 5)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Words("", 3), "at least one symbol"),
        (lambda: Words("aa", 3), "no symbol twice"),
        (lambda: Words([1.5], 3), "strings or whole numbers"),
        (lambda: Words([True], 3), "strings or whole numbers"),
        (lambda: Words("ab", 2, 3), "shortest <= longest"),
        (lambda: Words("ab", 2, -1), "shortest <= longest"),
        (lambda: Words("ab", 2.0), "whole number"),
        (lambda: Words("ab", True), "whole number"),
        (lambda: Words([["a"]], 3), "strings or whole numbers"),
        (lambda: Words.parse("words"), "could not be read"),
        (lambda: Words.parse("words over [1.5] of length 2"), "strings or whole numbers"),
        (lambda: Words.parse('words over ["a] of length 2'), "could not be read"),
        (lambda: Words("ab", 2).numbers(2, 0, 5), "There are no words"),
        (lambda: Words("ab", 2).numbers(3, 0, 1), "There are no words"),
    ],
)
def test_bad_words_are_refused(make, message):
    with pytest.raises(hm.DomainError, match=message):
        make()


# --- steps --------------------------------------------------------------------------------------


def test_the_values_that_are_given():
    assert SequenceSteps([], [SYMBOL, INDEX, LENGTH]).rows([5, 7]) == [[5, 0, 2], [7, 1, 2]]
    assert SequenceSteps([], [SYMBOL], at=-1).rows([5, 7]) == [[7]]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("count", None, [2, 1, 2]),
        ("sum", SYMBOL, [6, 1, 6]),
        ("mean", INDEX, [1, 1, 1]),
        ("min", INDEX, [0, 1, 0]),
        ("max", INDEX, [2, 1, 2]),
    ],
)
def test_aggregates_over_equal_symbols(kind, value, expected):
    same = Selection((SYMBOL,), (SYMBOL,), lambda key, query: key == query)
    steps = SequenceSteps([Aggregate(same, kind, value)], [GIVEN])
    assert steps.rows([3, 1, 3]) == [[v] for v in expected]


def test_means_are_exact_and_whole_numbers_are_whole():
    steps = SequenceSteps(
        [Aggregate(everything(), "mean", SYMBOL), Combination((SYMBOL,), (Fraction(1, 2),), 1)],
        [3, 4],
    )
    assert steps.rows([1, 0, 0]) == [[Fraction(1, 3), Fraction(3, 2)]] + [[Fraction(1, 3), 1]] * 2
    tenths = SequenceSteps(
        [Pointwise((SYMBOL,), lambda s: 0.1), Aggregate(everything(), "sum", 3)], [4]
    )
    assert tenths.rows([0] * 3)[0][0] == 3 * Fraction(0.1) != 0.1 + 0.1 + 0.1
    assert isinstance(steps.rows([4, 0])[0][0], int)


def test_a_selection_of_nothing_has_the_default_and_a_causal_one_looks_back():
    before = Selection((INDEX,), (INDEX,), lambda key, query: key < query)
    steps = SequenceSteps(
        [
            Aggregate(before, "max", SYMBOL, default=-5),
            Aggregate(before, "sum", SYMBOL, default=-5),
            Aggregate(Selection((), (), lambda: True, causal=True), "count"),
        ],
        [3, 4, 5],
    )
    assert steps.rows([4, 9, 2]) == [[-5, 0, 1], [4, 4, 2], [9, 13, 3]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SequenceSteps([Pointwise((3,), abs)], [0]), "not there yet"),
        (lambda: SequenceSteps([], [3]), "no step makes"),
        (lambda: Aggregate(everything(), "median", 0), "no aggregate 'median'"),
        (lambda: Aggregate(everything(), "count", 0), "aggregates no value"),
        (lambda: Aggregate(everything(), "sum"), "needs one"),
        (lambda: Combination((0, 1), (1,)), "2 values has 1 weights"),
    ],
)
def test_bad_steps_are_refused(make, message):
    with pytest.raises(hm.ShapeError, match=message):
        make()


# --- claims -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Copy:
    """Every symbol's number, or that of the last symbol."""

    each_symbol: bool = True
    outputs: int = 1
    parameters: None = None

    def __call__(self, word):
        rows = [[int(symbol)] * self.outputs for symbol in word]
        return rows if self.each_symbol else rows[-1:]

    def steps(self):
        return None

    def encode(self):
        return None


def copier(token=None, longest=4, start=None):
    source = hm.SequenceInput("01", [[0.0], [1.0]], np.zeros((longest, 1)), start)
    return hm.Transformer(source, [], hm.ReadOut([[1.0]], [0.0], token))


def claim(target=None, words=None):
    return hm.Claim(target or Copy(), words or Words("01", 4), [Share("margin", "all", 0.5)])


def test_a_claim_about_words():
    construction = hm.Construction(copier(), claim(), None, "by hand")
    assert isinstance(construction.claim.target, SequenceTarget)
    assert not isinstance(construction.claim.target, Target)
    assert construction("0110").tolist() == [[0], [1], [1], [0]]
    assert [len(rows) for rows in construction(["01", "011"])] == [2, 3]
    assert construction.bill.tokens == 4
    assert 'error <= 0.5 on words over ["0", "1"] of length 1 to 4' in repr(construction)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hm.Claim(Copy(), hm.Box([0], [1]), []), "goes with the domain Words"),
        (lambda: hm.Claim(hm.ReluNetwork([np.eye(1)], [[0.0]]), Words("a", 1), []), "with a Box"),
        (lambda: build(words=Words("012", 4)), "claim is about words over"),
        (lambda: build(words=Words("01", 5)), "claim is about words over"),
        (lambda: build(target=Copy(outputs=2)), "1 numbers per symbol, but its target 2"),
        (lambda: build(target=Copy(each_symbol=False)), "per symbol, but its target 1 per word"),
        (lambda: build(copier(1), Copy(False)), "the shortest words do not have"),
        (lambda: build(vector_model()), "reads no sequences"),
        (lambda: build()(), "Give a sequence"),
        (lambda: build()(x=1), "Give a sequence"),
    ],
)
def test_claims_that_do_not_fit_are_refused(make, message):
    with pytest.raises(hm.HardmaxError, match=message):
        make()


def build(transformer=None, target=None, words=None):
    return hm.Construction(transformer or copier(), claim(target, words), None, "by hand")


def vector_model():
    return hm.Transformer(
        hm.VectorInput(np.ones((1, 1, 1)), np.zeros((1, 1))), [], hm.ReadOut([[1.0]], [0.0])
    )


def test_the_start_token_counts_among_those_that_can_be_read():
    build(copier(1, 5, [0.0]), Copy(False))
    build(copier(-2, 5, [0.0]), Copy(False))
    build(copier(0, 5, [0.0]), Copy(False), Words("01", 4, 0))
