"""The benchmarks of programs in short: oracles are right, answers too, and Tracr is beaten."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks._oracles import ORACLES, wanted
from benchmarks._programs_sweep import flagged, swept
from benchmarks._programs_tracr import LENGTH, rows, tried_words
from benchmarks._sequences_run import PROGRAMS
from benchmarks._sequences_speed import measured_alone
from benchmarks._words import all_tables, codes_of, evaluate_in, wrong_words
from examples.gallery import GALLERY, is_free

import hardmax as hm
from benchmarks import programs
from hardmax import programs as p
from hardmax.core import Words, evaluate


def test_every_program_that_is_free_has_an_oracle():
    assert set(ORACLES) == {name for name, entry in GALLERY.items() if is_free(entry)}


@pytest.mark.parametrize("name", ORACLES)
def test_oracles_agree_with_the_interpreter(name):
    program, words = GALLERY[name](size=3, length=4)
    code = codes_of(hm.compile(program, on=words))
    for table in all_tables(words):
        found = wanted(name, table, words, code)
        right = [[float(code.number(one)) for one in program(w)] for w in words.words(table)]
        np.testing.assert_allclose(found, right, rtol=0, atol=1e-15)


@pytest.mark.parametrize("name", ORACLES)
def test_alphabet_10_at_length_20_has_no_wrong_word(name):
    row = swept(name, 10, 20, 300)
    assert row["words"] > 250
    assert (row["wrong float64"], row["wrong float32"]) == (0, 0), row["example"]


def test_a_wrong_word_is_counted():
    program, words = GALLERY["reverse"](size=3, length=4)
    model = hm.compile(program, on=words)
    table = words.numbers(4, 0, 81)
    flags = flagged(model, "shift", words, table)["float64"]
    assert flags.any()
    code = codes_of(model)
    right = wanted("reverse", table, words, code)[..., None]
    nan = np.where(np.arange(81)[:, None, None] == 7, np.nan, right)
    assert np.flatnonzero(wrong_words(code, nan, right[..., 0])).tolist() == [7]


@pytest.mark.parametrize("name", ["reverse", "sort", "fraction_so_far", "sort_by_frequency"])
def test_the_second_evaluator_agrees_with_the_first(name):
    program, words = GALLERY[name](size=4, length=6)
    transformer = hm.compile(program, on=words).transformer
    table = np.random.default_rng(0).integers(4, size=(30, 6))
    both = evaluate_in(transformer, table, "float64"), evaluate(transformer, words.words(table))
    np.testing.assert_allclose(both[0], np.stack(both[1]), rtol=0, atol=1e-6)  # sums: 2^26 x eps
    assert evaluate_in(transformer, table, "float32").dtype == np.float32


@pytest.mark.parametrize("name", rows())
def test_tracr_never_has_fewer_layers_or_parameters(name):
    program, alphabet, rival = rows()[name]
    words = Words(alphabet, LENGTH, 0)
    model = hm.compile(program, on=words)
    assert model.bill.layers <= rival.layers
    assert model.bill.padded_parameters < rival.parameters
    found = tried_words(model, program, words, 100)
    assert (found["wrong float64"], found["wrong float32"]) == (0, 0)


RANKS = {
    "key": p.sort_by({"a": 1, "b": 0, "c": 1}),
    "frequency": p.sort_by_frequency,
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_of_long_words_are_right(name):
    words = Words("abc", 60)
    model = hm.compile(RANKS[name], on=words)
    hard = [w * 60 for w in "abc"] + ["abc" * 20, "a" * 30 + "b" * 30, "c" * 59 + "b", "ba" * 30]
    drawn = ["".join(w) for w in words.sample(20, np.random.default_rng(0))]
    tried = [list(word) for word in hard + drawn]
    rows = [np.array([["abc".index(one) for one in word]]) for word in tried]
    got = [evaluate_in(model.transformer, row, "float32")[0] for row in rows]
    want = [model.claim.target(word) for word in tried]
    assert all(np.abs(a - b).max() < 0.25 for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("name", PROGRAMS)
def test_batches_are_measured(name):
    row = measured_alone(name, 10, 50)
    assert 0 < row["before MB"] <= row["peak MB"] < 1024
    assert row["seconds"] > 0


def test_the_sweep_has_a_flag_of_its_own(monkeypatch):
    ran = []
    monkeypatch.setattr(programs, "run", lambda options, *_: ran.append(options.only) or 0)
    programs.main(["--quick"])
    programs.main(["--sweep", "--quick"])
    assert ran == [["tracr"], ["sweep"]]
