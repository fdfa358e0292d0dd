"""Every program of the gallery, compiled, against its interpreter; the worked programs run."""

import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # examples/ is not installed

from examples import gallery, worked_programs
from examples.gallery import EXHAUSTIVE, GALLERY, is_free, words_to_try, wrong_answers

import hardmax as hm

SAMPLED = 150  # words of a program that has too many


@pytest.mark.parametrize("name", GALLERY)
def test_transformers_answer_as_the_interpreter_does(name):
    program, words = GALLERY[name]()
    model = hm.compile(program, on=words)
    few = 40 if words.longest > 20 else SAMPLED
    assert wrong_answers(model, program, words_to_try(words, limit=few)) == []


@pytest.mark.parametrize("name", GALLERY)
def test_entries_are_short_and_say_what_they_do(name):
    explanation = inspect.getdoc(GALLERY[name])
    assert explanation.splitlines()[0].endswith(".")
    code = inspect.getsource(GALLERY[name]).split('"""')[-1]
    assert len(code.strip().splitlines()) < 15


@pytest.mark.parametrize("name", [name for name, entry in GALLERY.items() if is_free(entry)])
def test_alphabet_and_length_are_free(name):
    program, words = GALLERY[name](size=3, length=4)
    assert words.count <= EXHAUSTIVE
    assert wrong_answers(hm.compile(program, on=words), program, words_to_try(words)) == []


def test_a_wrong_program_is_found_out():
    program, words = GALLERY["reverse"]()
    other, _ = GALLERY["sort"]()
    assert wrong_answers(hm.compile(program, on=words), other, words_to_try(words, limit=50))


def test_parity_of_64_bits_takes_one_layer_and_few_parameters():
    program, words = GALLERY["parity"]()
    bill = hm.compile(program, on=words).bill
    assert bill.layers == 1
    assert bill.parameters <= 700


def test_addition_adds():
    program, words = GALLERY["addition"]()
    model = hm.compile(program, on=words)
    assert model.bill.layers <= 2
    assert model.bill.parameters <= 500
    rng = np.random.default_rng(0)
    pairs = [(10**10 - 1, 1), (10**10 - 1, 10**10 - 1), (0, 0), (5 * 10**9, 5 * 10**9)]
    for a in rng.integers(10**10, size=200).tolist():
        pairs += [(a, 10**10 - 1 - a), (a, 10**10 - a), (a, int(rng.integers(10**10)))]
    answers = model([interleaved(*pair) for pair in pairs])
    sums = [sum(digit * 10**i for i, digit in enumerate(answer[::2])) for answer in answers]
    assert sums == [a + b for a, b in pairs]


def interleaved(a, b):
    return tuple(number // 10**i % 10 for i in range(11) for number in (a, b))


def test_the_gallery_prints_bills_and_answers(capsys):
    assert gallery.main(["reverse", "dyck_1"]) == 0
    printed = capsys.readouterr().out
    assert "1 layer" in printed or "2 layers" in printed
    assert "500 of 500 words answered right" in printed


def test_the_worked_programs_have_the_numbers_of_theory(capsys):
    worked_programs.main()
    printed = capsys.readouterr().out
    assert "[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]" in printed
    assert "4.378255e-26" in printed
    assert "PROVED" in printed
    assert " 15.0 " in printed


def test_the_exact_error_of_the_reversal_is_15_times_the_leak():
    worst = max(map(abs, worked_programs.exact_errors()))
    assert float(worst) == pytest.approx(15 * np.exp(-60.0), rel=1e-12)
