"""Faults of logic that no other test sees, found by `make mutants`: softening."""

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

import hardmax as hm
from hardmax.lowering import lower
from hardmax.passes import _solver


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
    head = SimpleNamespace(radius=radius, constant=False, gap=np.inf)
    flow = SimpleNamespace(heads={(0, 0): head}, reaches=None)
    monkeypatch.setattr(_solver, "follow", lambda *args, **options: flow)
    solver = _solver.Solver.of(hard_skeletons()[0])
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
    """Two trials where rounding is small, a few that leave the checker room, a dozen at the end."""
    trials, plain = [], _solver.Solver.trial

    def counted(self, logit):
        trials.append(logit)
        return plain(self, logit)

    monkeypatch.setattr(_solver.Solver, "trial", counted)
    hard = hard_skeletons()[number]
    for error, most in ((10.0, 2), (1e-2, 2), (1e-6, 2), (1e-10, 6), (1e-12, 12), (3e-13, 12)):
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
