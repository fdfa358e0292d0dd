"""One route of one function: built, measured, and its bill held against the one stated before."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._functions_cases import Case
from benchmarks._functions_points import hard_points
from benchmarks._report import Check, Settings
from hardmax.lowering import Offer

CHUNK = 4096
ROUNDING_ONLY = 1e-12  # a claim below this is all rounding
AGREEMENT = 1e-9  # relative, of numbers that are no integers
REAL_FIELDS = ("largest_logit", "largest_weight")


def command(settings: Settings, part: str) -> str:
    return f"python -m benchmarks.functions --only {part}" + " --quick" * settings.quick


@dataclass(frozen=True)
class Run:
    """What was claimed, measured, stated and counted."""

    case: str
    route: str
    asked: float
    claimed: float
    measured: float
    stated: dict[str, Any]
    counted: dict[str, Any]
    coldness: float

    @property
    def slack(self) -> float:
        """Claimed divided by measured."""
        return self.claimed / self.measured if self.measured else float("inf")

    @property
    def rounding_only(self) -> bool:
        return self.claimed < ROUNDING_ONLY

    @property
    def honest(self) -> bool:
        return self.measured <= self.claimed <= self.asked

    @property
    def wrong_integers(self) -> list[str]:
        """Fields that were stated and counted differently."""
        names = [name for name in self.stated if name not in REAL_FIELDS]
        return [name for name in names if self.stated[name] != self.counted[name]]

    def difference(self, name: str) -> float:
        """Of a number stated and counted, relative.

        Before anything is built logits are bounded by ranges of registers; the bill of what was
        built follows affine forms of the inputs, too, and may be smaller.
        """
        stated, counted = self.stated[name], self.counted[name]
        if name == "largest_logit" and counted < stated:
            return 0.0
        return abs(stated - counted) / max(abs(counted), 5e-324) if stated != counted else 0.0

    @property
    def bill_agrees(self) -> bool:
        near = all(self.difference(name) <= AGREEMENT for name in REAL_FIELDS)
        return near and not self.wrong_integers

    @property
    def honesty(self) -> Check:
        what = (
            f"{self.case}, {self.route}: measured {self.measured:.3g} <= claimed "
            f"{self.claimed:.3g} <= {self.asked:g}"
        )
        return Check(what, self.honest)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run_offer(case: Case, offer: Offer, points: int) -> Run:
    """Build an offer and measure it on hard points."""
    return as_run(case, offer.build(), offer.resources, points)


def as_run(case: Case, construction: hm.Construction, stated: dict[str, Any], points: int) -> Run:
    return Run(
        case=case.name,
        route=construction.route,
        asked=case.error,
        claimed=construction.claim.error,
        measured=measured_error(case, construction, points),
        stated=stated,
        counted=construction.bill.as_dict(),
        coldness=max((head.coldness for head in construction.transformer.heads), default=0.0),
    )


def measured_error(case: Case, construction: hm.Construction, points: int) -> float:
    """The largest error among hard points; infinite if any value is not a number."""
    sample = hard_points(case.function, case.domain, points)
    worst = 0.0
    for start in range(0, len(sample), CHUNK):
        x = sample[start : start + CHUNK]
        off = np.abs(construction(x) - case.function(x)).max()
        worst = max(worst, float(off) if np.isfinite(off) else np.inf)
    return worst
