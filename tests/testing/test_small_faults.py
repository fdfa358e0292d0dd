"""Faults of logic in the small rooms that no other test sees: found by `make mutants`."""

from __future__ import annotations

import itertools
import random
import re
from concurrent import futures
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.analysis._question import HeadFlow
from hardmax.checker import Verdict
from hardmax.cli import _certifying
from hardmax.core import Transformer, VectorInput, Words
from hardmax.lowering import lower
from hardmax.lowering.sketch import WordRegister
from hardmax.passes import _soften
from hardmax.testing import _trials, mutate, try_untouched, zoo
from hardmax.testing._mutations_weights import position_bias_changed
from hardmax.testing._programs import _Draw
from hardmax.testing._whole_numbers import constant_of, sum_of

# --- softening ------------------------------------------------------------------------------------


def hard_skeletons() -> list[hm.Construction]:
    """A maximum of three affine functions of one variable, and a network of two hidden layers."""
    rng = np.random.default_rng(15)
    maximum = hm.MaxAffine(rng.normal(size=(3, 1)), [0.0, 0.1, -0.1])
    widths = [(4, 2), (3, 4), (1, 3)]
    network = hm.ReluNetwork(
        [rng.normal(size=shape) for shape in widths], [rng.normal(size=n) for n, _ in widths]
    )
    return [
        lower(maximum, hm.Box([-1.0], [1.0]), "attention"),
        lower(network, hm.Box(-np.ones(2), np.ones(2)), "attention"),
    ]


@pytest.mark.parametrize(("radius", "kind"), [(0.0, "routing"), (1.0, "radius"), (2.0, "radius")])
def test_heads_without_scores_are_routing_and_all_others_are_solved_for(radius, kind, monkeypatch):
    """A coldness is solved for wherever scores move, be the largest of them 1 to the last bit."""
    flow = SimpleNamespace(heads={(0, 0): HeadFlow(radius=radius, constant=False)})
    monkeypatch.setattr(_soften, "follow", lambda *args, **options: flow)
    solver = _soften._Solver.of(hard_skeletons()[0])
    assert list(getattr(solver, kind)) == [(0, 0)]
    assert len(solver.routing) + len(solver.radius) == 1


@pytest.mark.parametrize("size", [39, 40, 41, 60])
def test_a_bad_error_is_quoted_whole_up_to_forty_characters(size):
    text = "'" + "e" * (size - 2) + "'"
    said = text if size <= 40 else text[:37] + "..."
    with pytest.raises(hm.RequestError, match=rf"but it is {re.escape(said)}\.$"):
        hm.soften(hard_skeletons()[0], error=text[1:-1])


@pytest.mark.parametrize("number", [0, 1])
def test_the_smallest_logit_is_found_almost_at_once(number, monkeypatch):
    """Two trials where rounding is small, ten where it is most of the error; nothing is wasted."""
    trials, plain = [], _soften._Solver.trial

    def counted(self, logit):
        trials.append(logit)
        return plain(self, logit)

    monkeypatch.setattr(_soften._Solver, "trial", counted)
    hard = hard_skeletons()[number]
    for error, most in ((10.0, 2), (1e-2, 2), (1e-6, 2), (1e-10, 5), (1e-12, 10), (3e-13, 10)):
        trials.clear()
        found = hm.soften(hard, error=error)
        assert 0.99 * error <= found.claim.error <= error
        assert len(trials) <= most
    trials.clear()
    with pytest.raises(hm.PrecisionError, match="rounding alone"):
        hm.soften(hard, error=1e-16)
    assert len(trials) <= 30


def test_shares_add_up_to_the_claim_and_none_is_counted_twice():
    for hard in hard_skeletons():
        for error in (1e-1, 1e-6, 1e-12):
            soft = hm.soften(hard, error=error)
            shares = [share.amount for share in soft.claim.ledger if share.cause != "margin"]
            assert sum(shares) * 1.02 == pytest.approx(soft.claim.error, rel=1e-12)
            assert min(shares) > 0.0


# --- measuring and trials -------------------------------------------------------------------------


def test_a_single_word_can_be_measured():
    reverse = hm.compile(hm.programs.reverse, alphabet="ab", length=3)
    found = hm.measure(reverse, 1)
    assert found.points == 1
    assert 0.0 <= found.error <= reverse.claim.error


def test_a_trial_takes_as_long_as_its_check(monkeypatch):
    """On a clock that is one second later whenever somebody looks."""
    clock = itertools.count(1000.0)
    monkeypatch.setattr(_trials.time, "perf_counter", lambda: next(clock))
    trial = try_untouched("x*y (direct, 0.01)", lambda made: hm.certify(made))
    assert (trial.verdict, trial.fault) == (Verdict.PROVED.name, None)
    assert 1.0 <= trial.seconds < 1000.0


# --- mutations of constructions -------------------------------------------------------------------


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


# --- the others -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("given", "root"), [(0.25, "0.5"), (0, "0"), (9, "3"), (2, "sqrt(2)")])
def test_roots_of_squares_are_numbers(given, root):
    assert str(hm.sqrt(given)) == root


def test_a_refusal_names_the_largest_weight():
    torch = pytest.importorskip("torch")
    from hardmax.interop._torch_modules import _tensor

    with pytest.raises(hm.PrecisionError, match=r"reach 1e\+30 once .* ends at 6\.55e\+04"):
        _tensor(np.array([1e-3, -1e30, 1.0]), torch.float16)


def test_processes_do_not_begin_what_nobody_waits_for(monkeypatch):
    """When the proof is over, calls that have not begun are called off."""
    asked: list[Any] = []

    class Pool:
        def __init__(self, jobs: int, **options: Any) -> None:
            asked.append(jobs)

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            asked.append(cancel_futures)

    monkeypatch.setattr(futures, "ProcessPoolExecutor", Pool)
    with _certifying._workers(2) as pool:
        assert isinstance(pool, Pool)
    assert asked == [2, True]


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


def test_a_unit_that_may_be_on_at_the_start_writes_what_it_reads_at_most() -> None:
    register = WordRegister("r", np.zeros(2), np.zeros(2))
    wide = SimpleNamespace(terms=[SimpleNamespace(is_wild=False)], widest=3.0)
    register.open_to(wide, -2.0)
    register.open_to(wide, 0.5)
    assert (register.beyond, register.is_wild) == (7.5, False)
    register.open_to(SimpleNamespace(terms=[SimpleNamespace(is_wild=True)], widest=1.0), 1.0)
    assert register.is_wild


def test_remainders_of_random_programs_lie_in_their_range() -> None:
    for seed in range(200):
        draw = _Draw(random.Random(seed), 6)
        found = draw._small(1, 2)
        assert found.width <= 2
