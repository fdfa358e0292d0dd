"""Random Transformers with claims just below and just above their true error.

The truth and the law are those of `hardmax.testing`; a case counts once, with its claims. Budgets
are small: an honest "undecided" is no fault, a false verdict or a false number is.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from hardmax.checker import Budget, certify
from hardmax.testing import claim_case, claim_fault, claims_around

BUDGET = "1e5 work"
_COUNTED = ("cases", "false", "crashes", "claims", "proved", "refuted", "undecided")


def claims_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Cases number `start` and after: certify their claims, hold the certificates to the truth."""
    counts = Counter(dict.fromkeys(_COUNTED, 0))
    failures: list[tuple[int, str]] = []
    for number in range(start, start + count):
        case = claim_case(number, seed)
        counts["cases"] += 1
        for side, error in claims_around(case, np.random.default_rng([seed, number])):
            said = _tried(case, error, counts)
            if said is not None:
                failures.append((number, f"{case.family}, {side} the truth: {said}"))
    return {**counts, "failures": failures}


def _tried(case: Any, error: float, counts: Counter[str]) -> str | None:
    counts["claims"] += 1
    try:
        certificate = certify(case.construction(error), budget=Budget.of(BUDGET))
    except Exception as reason:  # a checker that falls over has decided nothing, and is at fault
        counts["crashes"] += 1
        return f"{type(reason).__name__}: {reason}"
    counts[certificate.verdict.name.lower()] += 1
    fault = claim_fault(case, certificate)
    counts["false"] += fault is not None
    return fault
