"""The zoo as it is, which must be proved, and thousands of its mutants, which must not.

A mutant counts if a dense search, which knows nothing of the checker, breaks its claim. Budgets
are work, so that a verdict does not depend on what else the machine does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np

from hardmax.checker import Budget, Certificate, certify
from hardmax.core import Construction
from hardmax.testing import MUTATIONS, Trial, try_mutant, try_untouched, zoo

BUDGET = "5e6 work"  # a mutant's: about five seconds
ZOO_BUDGET = "2e8 work"  # an untouched specimen's
LARGE_SHARE = 0.01  # of the mutants are of the largest specimens
_COUNTED = ("cases", "false", "crashes", "broken", "belied", "not applicable")
Job = tuple[str, str, int]  # specimen, kind of mutation, seed


def corrupted_job(number: int, seed: int) -> Job:
    """A specimen at random; each kind of mutation has its turn."""
    rng = np.random.default_rng([seed, number])
    large = bool(rng.random() < LARGE_SHARE)
    pool = [name for name, specimen in zoo().items() if specimen.large == large]
    kinds = list(MUTATIONS)
    return pool[rng.integers(len(pool))], kinds[number % len(kinds)], seed * 10**9 + number


def corrupted_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Mutants number `start` and after, each checked within a small budget."""
    jobs = [corrupted_job(number, seed) for number in range(start, start + count)]
    return _counts(start, [try_mutant(*job, _certified) for job in jobs])


def zoo_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Specimens of the zoo in its order; the seed changes nothing."""
    names = list(zoo())[start : start + count]
    return _counts(start, [try_untouched(name, _certified_in_full) for name in names])


def _certified(construction: Construction) -> Certificate:
    return certify(construction, budget=Budget.of(BUDGET))


def _certified_in_full(construction: Construction) -> Certificate:
    return certify(construction, budget=Budget.of(ZOO_BUDGET))


def _counts(start: int, trials: Iterable[Trial | None]) -> dict[str, Any]:
    counts = Counter(dict.fromkeys(_COUNTED, 0))
    failures = []
    for number, trial in enumerate(trials, start):
        counts["cases"] += 1
        if trial is None:
            counts["not applicable"] += 1
            continue
        crashed = trial.verdict == "CRASHED"
        counts.update(broken=trial.broken, belied=trial.belied, crashes=crashed)
        counts[trial.verdict.lower()] += 1
        if trial.fault is not None:
            counts["false"] += not crashed
            failures.append(
                (number, f"{trial.specimen}, {trial.kind} {trial.label}: {trial.fault}")
            )
    return {**counts, "failures": failures}
