"""The zoo, its mutants, and the law that no broken claim is ever called proved."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.corrupted_models import corrupted_job, corrupted_part, zoo_part

from benchmarks import corrupted_models
from hardmax import checker, plan
from hardmax.checker import Verdict
from hardmax.checker.boxes import _search
from hardmax.checker.reals import _methods, _question
from hardmax.core import Box, Claim, Share, fingerprint, reference
from hardmax.languages import Function
from hardmax.lowering import routes_for
from hardmax.testing import (
    MUTATIONS,
    belied,
    breaks,
    errors_at,
    has_a_hole,
    mutate,
    surely_broken,
    true_outputs,
    try_mutant,
    try_untouched,
    zoo,
)

SMALL = [name for name, specimen in zoo().items() if not specimen.large]
BUDGET = "5e6 work"


def jobs(count, seed):
    return [corrupted_job(number, seed) for number in range(count)]


def certify(construction):
    return checker.certify(construction, budget=BUDGET)


def certificate(construction, verdict, **changes):
    """What a checker that does not look would say; a real certificate refuses the worst lies."""
    error = construction.claim.error
    said = {"verdict": verdict, "certified": error, "measured": 0.0, "worst": None}
    return SimpleNamespace(**(said | {"method": "boxes"} | changes))


def yes(construction):
    return certificate(construction, Verdict.PROVED)


# ---- the zoo -----------------------------------------------------------------------------------

FUNCTIONS = sorted(
    {
        (s.name.rpartition(" (")[0], s.error)
        for s in zoo().values()
        if s.kind in ("primitive", "composite")
    }
)


def open_routes(text, error):
    specimens = [s for s in zoo().values() if s.name.startswith(f"{text} (") and s.error == error]
    offers = plan(specimens[0].source(), on=specimens[0].domain, error=error).open
    return {offer.route for offer in offers}, {s.route for s in specimens}


COARSE = [case for case in FUNCTIONS if case[1] == 1e-2]
FINE = [pytest.param(*case, marks=pytest.mark.campaign) for case in FUNCTIONS if case[1] != 1e-2]


@pytest.mark.parametrize(("text", "error"), [*COARSE, *FINE])
def test_the_zoo_holds_every_route_on_offer(text, error):
    offered, held = open_routes(text, error)
    assert held == offered


def test_the_zoo_holds_every_route_of_its_networks():
    networks = [s for s in zoo().values() if s.kind not in ("primitive", "composite")]
    for specimen in networks:
        name = specimen.name.rpartition(" (")[0]
        held = {s.route for s in networks if s.name.startswith(f"{name} (")}
        assert held == set(routes_for(specimen.source())), name


def test_the_zoo_holds_what_the_issue_names():
    names = " ".join(zoo())
    wanted = ["x*y (", "1/x (", "max of 16 (", "u*v*w*x*y*z (", "ReLU 64-256-256-10 (", "hard)"]
    for part in [*wanted, "sin(x)*exp(-y)/(1 + x**2) (", "maxout 64-256-256-10 ("]:
        assert part in names
    kinds = {specimen.kind for specimen in zoo().values()}
    assert kinds == {"primitive", "composite", "relu", "maxout", "piecewise linear"}


def test_specimens_are_what_their_names_say_and_are_built_once():
    for name in SMALL[::41]:
        specimen = zoo()[name]
        made = specimen.construction
        assert made is zoo()[name].construction
        assert made.route == specimen.route
        assert specimen.error is None or made.claim.error <= specimen.error
        assert made.transformer.is_hard == (specimen.error is None or not made.transformer.heads)


# ---- the dense search --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL[::31])
def test_untouched_claims_and_witnesses_stand_the_search(name):
    construction = zoo()[name].construction
    assert breaks(construction, points=4000) is None
    assert belied(construction, points=4) is None


@pytest.mark.parametrize(
    "name", ["x*y (direct, 0.001)", "max(x, y, z) (direct, 0.01)", "1/x (recipe, 0.01)"]
)
def test_the_search_finds_what_is_barely_broken(name):
    """A claim of the margin below what is attained: these bounds are nearly attained."""
    construction = zoo()[name].construction
    claim = construction.claim
    ledger = [replace(share, amount=share.amount * 0.9) for share in claim.ledger]
    tight = replace(construction, claim=Claim(claim.target, claim.domain, ledger))
    point = breaks(tight)
    assert point is not None
    assert errors_at(tight, np.array([point]))[0] > tight.claim.error
    assert surely_broken(tight, point)
    assert not surely_broken(construction, point)


def test_balls_agree_with_exact_and_with_float_evaluation():
    rng = np.random.default_rng(0)
    for name in ("ReLU 3-6-6-2 (attention, hard)", "maxout 2-3-2 (attention-only, hard)"):
        construction = zoo()[name].construction
        x = construction.claim.domain.sample(3, rng)[0]
        exactly = reference(construction.transformer, x, Fraction)
        found = true_outputs(construction.transformer, x)
        for ball, value in zip(found, exactly, strict=True):
            assert abs(float(ball) - value) <= 1e-15 * (1 + abs(value))
    for name in ("x*y (recipe, 0.01)", "sin(x) (universal, 0.01)", "x/y (feedforward, 0.01)"):
        construction = zoo()[name].construction
        for x in construction.claim.domain.sample(8, rng):
            found = [float(ball) for ball in true_outputs(construction.transformer, x)]
            assert found == pytest.approx(construction(x).tolist(), rel=1e-9, abs=1e-9)


def test_what_floats_alone_break_is_not_broken():
    """A claim of less than the rounding of floats, true over the reals: 3 x - y/3 + 1 itself."""
    construction = zoo()["3*x - y/3 + 1 (direct, 0.01)"].construction
    target, domain = (
        Function.parse("x, y -> 3*x - y*0.3333333333333333 + 1"),
        construction.claim.domain,
    )
    claim = Claim(target, domain, [Share("rounding", "", 1e-40)])
    strict = replace(construction, claim=claim)
    points = domain.sample(2000, np.random.default_rng(0))
    exact_weights = true_outputs(strict.transformer, points[0])[0]
    assert np.abs(float(exact_weights) - target(points[0])[0]) < 1e-15
    found = breaks(strict, points=2000)
    assert found is None or surely_broken(strict, found)


# ---- mutants -----------------------------------------------------------------------------------

VARIED = [
    "x*y (direct-2, 0.01)",
    "u*v*w*x*y*z (direct, 0.01)",
    "ReLU 3-6-6-2 (attention, 0.001)",
    "maxout 3-4-4-1 (attention-only, hard)",
    "zigzag (attention, 0.001)",
]


def essence(construction):
    claim, witness = construction.claim, construction.witness
    holdings = () if witness is None else witness.holdings
    fields = ("sublayer", "token", "coordinates", "value", "components", "errors", "weights")
    held = [str([getattr(h, f) for f in (*fields, "constants")]) for h in holdings]
    target = claim.target.encode()
    tensors = {k: v.tobytes() for k, v in target.tensors.items()}
    return (
        fingerprint(construction.transformer),
        claim.error,
        str(claim.domain),
        (target.text, str(tensors)),
        tuple(held),
    )


@pytest.mark.parametrize("kind", MUTATIONS)
def test_mutants_differ_from_their_origin_and_leave_it_alone(kind):
    applied = 0
    for name in VARIED:
        construction = zoo()[name].construction
        before = essence(construction)
        changed = 0
        for seed in range(6):
            mutant = mutate(construction, kind, seed)
            if mutant is None:
                continue
            applied += 1
            again = mutate(construction, kind, seed)
            assert again.label == mutant.label
            assert essence(again.construction) == essence(mutant.construction)
            changed += essence(mutant.construction) != before
            only_witness = essence(mutant.construction)[:-1] == before[:-1]
            assert mutant.touches_only_the_witness <= only_witness
        assert essence(construction) == before
        assert changed or mutate(construction, kind, 0) is None
    assert applied


def test_many_mutants_are_broken_and_many_witnesses_belied():
    """A campaign of mutants that break nothing would prove nothing."""
    construction = zoo()["ReLU 3-6-6-2 (attention, 0.001)"].construction
    flipped = [mutate(construction, "sign flipped", seed).construction for seed in range(8)]
    assert sum(breaks(m, points=2000) is not None for m in flipped) >= 6
    moved = [mutate(construction, "witness: value changed", seed) for seed in range(8)]
    assert sum(belied(m.construction) is not None for m in moved) >= 4
    assert all(breaks(m.construction, points=1000) is None for m in moved)


# ---- the law -----------------------------------------------------------------------------------


def test_the_law_catches_a_checker_that_always_agrees():
    trials = [try_mutant("x*y (direct, 0.01)", "sign flipped", seed, yes) for seed in range(6)]
    assert any(trial.broken and trial.fault.startswith("PROVED, but") for trial in trials)
    by_steps = lambda c: certificate(c, Verdict.PROVED, method="steps")  # noqa: E731
    name = "ReLU 3-6-6-2 (attention, 0.001)"
    held = [try_mutant(name, "witness: value changed", seed, by_steps) for seed in range(6)]
    assert any(trial.belied and "a witness that is false" in trial.fault for trial in held)
    assert all(try_mutant(name, t.kind, t.seed, yes).fault is None for t in held)


def test_the_law_catches_a_checker_that_refutes_without_reason():
    def no(construction):
        middle = tuple(construction.claim.domain.interval.middle.tolist())
        return certificate(construction, Verdict.REFUTED, worst=middle)

    trial = try_mutant("x*y (direct, 0.01)", "witness: error shrunk", 0, no)
    assert trial.fault == "REFUTED by an input that does not break the claim"
    assert (
        "nothing was touched"
        in try_untouched("x*y (direct, 0.01)", lambda c: certificate(c, Verdict.UNDECIDED)).fault
    )


def test_the_law_catches_a_checker_that_falls_over_or_contradicts_itself():
    def fall(construction):
        raise IndexError("out of range")

    trial = try_untouched("x*y (direct, 0.01)", fall)
    assert (trial.verdict, trial.fault) == ("CRASHED", "IndexError: out of range")
    worse = lambda c: certificate(c, Verdict.PROVED, certified=2 * c.claim.error)  # noqa: E731
    assert "measured <= certified" in try_untouched("x*y (direct, 0.01)", worse).fault


def test_the_law_catches_a_bound_that_is_a_little_too_low():
    """The error of x*y is 98% of what is claimed; undecided or not, 95% of it is no bound."""
    low = lambda c: certificate(c, Verdict.UNDECIDED, certified=0.95 * c.claim.error)  # noqa: E731
    assert "is attained" in try_untouched("x*y (direct, 0.01)", low).fault


# ---- the campaign itself -----------------------------------------------------------------------

UNTOUCHED = SMALL[::11]
MUTANTS = jobs(60, 1)


@pytest.mark.parametrize("name", UNTOUCHED)
def test_the_untouched_zoo_is_proved(name):
    assert try_untouched(name, lambda c: checker.certify(c, budget="2e7 work")).fault is None


@pytest.mark.parametrize(("name", "kind", "seed"), MUTANTS)
def test_no_mutant_is_falsely_proved(name, kind, seed):
    trial = try_mutant(name, kind, seed, certify)
    assert trial is None or trial.fault is None, trial


HAIR = ("claim just below", "corrupted, claim just below")  # false, but hard to refute
BY_A_HAIR = [
    (name, kind, seed) for name, _, seed in jobs(16, 2) for kind in HAIR if not zoo()[name].large
]
LONG = [
    pytest.param(name, kind, seed, marks=pytest.mark.campaign)
    for name, _, seed in jobs(300, 3)
    for kind in HAIR
    if not zoo()[name].large
]


@pytest.mark.parametrize(("name", "kind", "seed"), [*BY_A_HAIR, *LONG])
def test_a_checker_that_cannot_see_proves_nothing_false(name, kind, seed, monkeypatch):
    """Without samples nothing is refuted, so that the proofs themselves are put to the test."""
    looking = _search.enclose

    def blind(*arguments):
        seen = looking(*arguments)
        return replace(seen, least=np.zeros_like(seen.least))

    monkeypatch.setattr(_search, "enclose", blind)
    monkeypatch.setattr(_methods, "worst_seen", lambda c: c.claim.domain.interval.middle)
    monkeypatch.setattr(_question, "attained_error", lambda *arguments: 0.0)
    trial = try_mutant(name, kind, seed, lambda c: checker.certify(c, budget="1e6 work"))
    assert trial is None or trial.fault is None, trial
    assert trial is None or trial.verdict != "REFUTED"


@pytest.mark.campaign
@pytest.mark.parametrize("name", zoo())
def test_the_whole_untouched_zoo_is_proved(name):
    assert try_untouched(name, lambda c: checker.certify(c, budget="6e7 work")).fault is None


# ---- as parts of the long campaign -------------------------------------------------------------


def test_the_parts_count_what_is_false(monkeypatch):
    monkeypatch.setattr(corrupted_models, "certify", lambda construction, budget: yes(construction))
    found = corrupted_part(0, 6, 0)
    assert found["cases"] == 6
    assert found["false"] == len(found["failures"]) > 0
    assert found["proved"] + found["not applicable"] == 6
    number, said = found["failures"][0]
    assert corrupted_part(number, 1, 0)["failures"] == [(number, said)]
    assert said.endswith("PROVED, but the dense search breaks the claim")


def test_the_parts_are_content_where_nothing_is_said(monkeypatch):
    silent = lambda c, budget: certificate(c, Verdict.UNDECIDED, certified=np.inf)  # noqa: E731
    monkeypatch.setattr(corrupted_models, "certify", silent)
    found = corrupted_part(0, 6, 3)
    assert (found["false"], found["crashes"], found["failures"]) == (0, 0, [])
    assert found["undecided"] + found["not applicable"] == 6
    assert zoo_part(5, 2, 0)["false"] == 2  # of the zoo only PROVED will do


def test_a_checker_that_falls_over_has_crashed(monkeypatch):
    def fall(construction, budget):
        raise IndexError("out of range")

    monkeypatch.setattr(corrupted_models, "certify", fall)
    found = zoo_part(3, 2, 0)
    assert (found["crashes"], found["false"]) == (2, 0)
    assert "IndexError: out of range" in found["failures"][0][1]


def test_a_mutant_depends_on_its_number_and_the_seed_alone():
    assert jobs(30, 5) == jobs(30, 5)
    assert jobs(30, 5) != jobs(30, 6)
    assert {kind for _, kind, _ in jobs(len(MUTATIONS), 0)} == set(MUTATIONS)


def test_a_widened_domain_is_part_of_the_claim():
    construction = zoo()["x**2 (direct, 0.01)"].construction
    wide = [mutate(construction, "domain widened", seed).construction for seed in range(5)]
    for mutant in wide:
        assert isinstance(mutant.claim.domain, Box)
        assert (mutant.claim.domain.high - mutant.claim.domain.low > 2.0).all()
    assert any(breaks(mutant) is not None for mutant in wide)


# ---- holes -------------------------------------------------------------------------------------


def test_a_target_with_a_hole_counts_as_broken():
    """A crumb of sqrt(x - a): no error is large anywhere, and still nothing can be claimed."""
    construction = zoo()["x*y (direct, 0.01)"].construction
    assert not has_a_hole(construction)
    trials = [try_mutant("x*y (direct, 0.01)", "target with a hole", s, yes) for s in range(8)]
    holes = [t for t in trials if "sqrt" in t.label or "log" in t.label]
    assert holes
    assert all(t.broken and t.fault.startswith("PROVED, but") for t in holes)


def test_one_more_token_keeps_what_is_read():
    """Heads that read the last token by its number read the same one."""
    for name in VARIED:
        construction = zoo()[name].construction
        mutant = mutate(construction, "token added", 0)
        if mutant is not None:
            old, new = construction.transformer, mutant.construction.transformer
            assert new.tokens == old.tokens + 1
            assert new.readout.token % new.tokens == old.readout.token % old.tokens


def test_a_rescaled_head_is_the_same_function():
    construction = zoo()["x*y (direct, 0.01)"].construction
    mutant = mutate(construction, "head rescaled", 1).construction
    x = np.random.default_rng(0).uniform(-1, 1, size=(50, 2))
    assert np.allclose(mutant(x), construction(x), rtol=1e-12, atol=1e-12)


def test_exact_ties_of_hard_heads_are_decided_by_rationals():
    """One more token that ties: balls cannot tell who wins, but the claim is broken."""
    name = "maxout 3-4-4-1 (attention, hard)"
    trial = try_mutant(name, "token added", 74, certify)
    assert trial.verdict == "REFUTED"
    assert trial.broken
    assert trial.fault is None
