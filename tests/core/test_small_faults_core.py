"""Faults of logic that no other test sees, found by `make mutants`: models, called and measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import Words


def test_a_single_word_can_be_measured():
    reverse = hm.compile(hm.programs.reverse, alphabet="ab", length=3)
    found = hm.measure(reverse, 1)
    assert found.points == 1
    assert 0.0 <= found.error <= reverse.claim.error


def test_a_model_is_called_by_names_or_by_an_array() -> None:
    product = hm.compile("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=0.1)
    named = product(x=0.3, y=0.5)
    assert np.asarray(named).item() == product(np.array([[0.3, 0.5]])).item()
    with pytest.raises(hm.HardmaxError):
        product()
    with pytest.raises(hm.HardmaxError):
        product(np.array([[0.3, 0.5]]), y=1.0)
    same = hm.compile(hm.programs.copy, alphabet="ab", length=2)
    with pytest.raises(hm.HardmaxError, match="Give a sequence of symbols"):
        same()
    with pytest.raises(hm.HardmaxError, match="Give a sequence of symbols"):
        same("ab", y=1)


def test_as_many_words_as_points_are_all_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """One point less, and they are drawn."""
    same = hm.compile(hm.programs.copy, alphabet="ab", length=2)
    drawn: list[int] = []
    sample = Words.sample

    def note(words: Words, count: int, rng: np.random.Generator) -> list[Any]:
        drawn.append(count)
        return sample(words, count, rng)

    monkeypatch.setattr(Words, "sample", note)
    everything = same.claim.domain.count
    hm.measure(same, everything)
    assert drawn == []
    hm.measure(same, everything - 1)
    assert drawn == [everything - 1]


@pytest.mark.parametrize(("given", "root"), [(0.25, "0.5"), (0, "0"), (9, "3"), (2, "sqrt(2)")])
def test_roots_of_squares_are_numbers(given, root):
    assert str(hm.sqrt(given)) == root
