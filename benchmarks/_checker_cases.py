"""What the checker is measured on: functions, routes, errors, and the tightness asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import hardmax as hm
from benchmarks._functions_cases import COMPOSITES, PRIMITIVES, UNIT, Case
from benchmarks._report import Settings
from hardmax.lowering import Offer

ROUNDING_ONLY = 1e-12  # a claim below this is all rounding, which is certified but not measured
SMALL_ERRORS = (1e-2, 1e-3, 1e-4)
DEEP_ERROR = 1e-3
SOLID_ERROR = 1e-2
SOLIDS = [
    Case(text, (UNIT,) * 3, SOLID_ERROR)
    for text in ("max(x,y,z)", "min(x,y,z)", "x*y+z**2", "relu(x+y-z)")
]
DEEP = [
    Case("x**2", (UNIT,), DEEP_ERROR),
    Case("x*abs(x)", (UNIT,), DEEP_ERROR),
    Case("exp(sin(3*x))", (UNIT,), DEEP_ERROR),
    Case("x*y", (UNIT, UNIT), DEEP_ERROR),
    Case("x/y", (UNIT, (1.0, 2.0)), DEEP_ERROR),
    Case("exp(x*y)-x", (UNIT, (0.0, 1.0)), DEEP_ERROR),
    COMPOSITES[0],
]


@dataclass(frozen=True)
class Wanted:
    """One route of one function, and the ratio certified/measured that it has to reach."""

    case: Case
    offer: Offer
    limit: float

    @property
    def dimension(self) -> int:
        return len(self.case.ranges)

    @property
    def name(self) -> str:
        return f"{self.case.name}, {self.offer.route}"

    def build(self) -> hm.Construction:
        return self.offer.build()


def one_layer(settings: Settings) -> Iterator[Wanted]:
    """Every one-layer route in one and two dimensions."""
    limits = {1: 1.01, 2: 1.02}
    chosen = [case for case in PRIMITIVES if len(case.ranges) in limits]
    for error in SMALL_ERRORS:
        for case in chosen[:: 4 if settings.quick else 1]:
            asked = Case(case.text, case.ranges, error)
            for offer in asked.plan.open:
                if offer.resources["layers"] <= 1 and offer.error > ROUNDING_ONLY:
                    yield Wanted(asked, offer, limits[len(case.ranges)])


def solids(settings: Settings) -> Iterator[Wanted]:
    """One-layer routes in three dimensions."""
    for case in SOLIDS[:: 2 if settings.quick else 1]:
        for offer in case.plan.open:
            if offer.resources["layers"] <= 1 and offer.error > ROUNDING_ONLY:
                yield Wanted(case, offer, 1.1)


def deeper(settings: Settings) -> Iterator[Wanted]:
    """Routes of several layers."""
    limits = {1: 1.05, 2: 1.2}
    for case in DEEP[:: 3 if settings.quick else 1]:
        for offer in case.plan.open:
            if offer.resources["layers"] > 1 and offer.error > ROUNDING_ONLY:
                yield Wanted(case, offer, limits[len(case.ranges)])
