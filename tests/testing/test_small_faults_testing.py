"""Faults of logic that no other test sees, found by `make mutants`: trials and drawn numbers."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker import Verdict
from hardmax.core import Transformer, VectorInput
from hardmax.testing import _trials, mutate, try_untouched, zoo
from hardmax.testing._mutations_weights import position_bias_changed
from hardmax.testing._programs import _Draw
from hardmax.testing._whole_numbers import constant_of, sum_of


def test_a_trial_takes_as_long_as_its_check(monkeypatch):
    """On a clock that is one second later whenever somebody looks."""
    clock = itertools.count(1000.0)
    monkeypatch.setattr(_trials.time, "perf_counter", lambda: next(clock))
    trial = try_untouched("x*y (direct, 0.01)", lambda made: hm.certify(made))
    assert (trial.verdict, trial.fault) == (Verdict.PROVED.name, None)
    assert 1.0 <= trial.seconds < 1000.0


@pytest.mark.parametrize("kind", ["witness: error shrunk", "witness: value changed"])
def test_a_witness_is_changed_in_one_holding(kind):
    construction = zoo()["max(x, y, z) (direct, 0.01)"].construction
    held = construction.witness.holdings
    for seed in range(6):
        mutant = mutate(construction, kind, seed)
        changed = mutant.construction.witness.holdings
        assert len(changed) == len(held)
        assert sum(a is not b for a, b in zip(held, changed, strict=True)) == 1


def test_position_biases_are_changed_where_they_are_small_enough():
    """A square of the tokens: up to 64 of them."""
    small = zoo()["max(x, y, z) (direct, 0.01)"].construction
    assert small.transformer.tokens <= 64
    assert mutate(small, "position bias changed", 0) is not None
    made = small.transformer
    source = VectorInput(np.zeros((65, made.width, 3)), np.zeros((65, made.width)))
    large = Transformer(source, made.sublayers, made.readout)
    rng = np.random.default_rng(0)
    assert position_bias_changed(replace(small, transformer=large), rng) is None


def test_a_range_of_whole_numbers_has_both_ends():
    one = constant_of(3)
    assert (one.width, sum_of(one, one).width) == (1, 1)
    assert replace(one, low=-1).width == 5


def test_remainders_of_random_programs_lie_in_their_range() -> None:
    for seed in range(200):
        draw = _Draw(random.Random(seed), 6)
        found = draw._small(1, 2)
        assert found.width <= 2
