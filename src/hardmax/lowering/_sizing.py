"""Sizing curves: every route's resources against the error, with fitted and proved growth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Box, Target
from hardmax.languages import CallableFunction, Function
from hardmax.lowering._growth import (
    RESOURCES,
    UNKNOWN,
    Growth,
    Growths,
    function_growth,
    network_growth,
)
from hardmax.lowering._planner import Offer, Plan
from hardmax.lowering.functions._routes import plan_function
from hardmax.lowering.networks._offers import plan_network

DECADES = tuple(float(f"1e-{digits}") for digits in range(1, 10))


@dataclass(frozen=True)
class SizingPoint:
    """A route at one error: what it would take and claim, or why it makes no offer."""

    error: float
    resources: dict[str, int | float] | None
    claimed: float | None = None
    refusal: str | None = None

    @classmethod
    def of(cls, offer: Offer) -> SizingPoint:
        if offer.refusal is not None:
            return cls(offer.asked, None, refusal=offer.refusal)
        known = offer.resources
        resources = {name: known[name] for name in RESOURCES if name in known}
        return cls(offer.asked, resources, offer.error)

    def as_dict(self) -> dict[str, object]:
        if self.resources is None:
            return {"error": self.error, "refusal": self.refusal}
        return {"error": self.error, **self.amounts()}

    def amounts(self) -> dict[str, float]:
        """What is taken, and what would be claimed, where the route is open."""
        assert self.resources is not None
        assert self.claimed is not None
        return {**self.resources, "claimed": self.claimed}


@dataclass(frozen=True)
class RouteCurve:
    """One route over all errors."""

    route: str
    points: tuple[SizingPoint, ...]
    proved: Growths

    @property
    def offered(self) -> tuple[SizingPoint, ...]:
        return tuple(point for point in self.points if point.resources is not None)

    @property
    def refused(self) -> int:
        """At how many errors there is no offer; they take no part in the fit."""
        return len(self.points) - len(self.offered)

    def values(self, resource: str) -> list[tuple[float, float]]:
        """(error, amount) wherever there is an offer."""
        return [
            (p.error, float(p.resources[resource]))
            for p in self.points
            if p.resources is not None and resource in p.resources
        ]

    def fitted(self, resource: str) -> float | None:
        """The slope of log(amount) against log(1/error), by least squares.

        0 for an amount that never changes, 0 included; None with fewer than two offers, or where
        some amounts are 0 and others are not.
        """
        pairs = self.values(resource)
        amounts = {amount for _, amount in pairs}
        if len(pairs) < 2:
            return None
        if len(amounts) == 1:
            return 0.0
        if min(amounts) <= 0:
            return None
        x = np.array([-math.log(error) for error, _ in pairs])
        y = np.array([math.log(amount) for _, amount in pairs])
        x = x - x.mean()
        return float(x @ y / (x @ x))

    def as_dict(self) -> dict[str, object]:
        growth = {
            name: {"fitted": self.fitted(name), **_growth_record(self.proved[name])}
            for name in RESOURCES
        }
        points = [point.as_dict() for point in self.points]
        return {
            "route": self.route,
            "points": points,
            "growth": growth,
            "fitted_points": len(self.offered),
            "refused": self.refused,
        }


@dataclass(frozen=True)
class SizingCurve:
    """All routes over all errors, for one target and domain."""

    target: Target
    domain: Box
    errors: tuple[float, ...]
    routes: tuple[RouteCurve, ...]

    def __repr__(self) -> str:
        return (
            f"SizingCurve({len(self.routes)} routes at {len(self.errors)} errors from "
            f"{self.errors[0]:g} to {self.errors[-1]:g} on {self.domain})"
        )

    def as_dict(self) -> dict[str, object]:
        return {
            "domain": str(self.domain),
            "errors": list(self.errors),
            "routes": [route.as_dict() for route in self.routes],
        }


def sizing_curve(
    target: Target,
    domain: Box,
    errors: Sequence[float] = DECADES,
    *,
    progress: Callable[[int], object] | None = None,
) -> SizingCurve:
    """Plan the target at every error, and lay the offers out route by route.

    Nothing is built for functions; networks are lowered and softened at every error. `progress`
    is called with 1 after each error.
    """
    falling = _falling(errors)
    by_route: dict[str, list[SizingPoint]] = {}
    for error in falling:
        for offer in _plan(target, domain, error).offers:
            by_route.setdefault(offer.route, []).append(SizingPoint.of(offer))
        if progress is not None:
            progress(1)
    routes = [
        RouteCurve(route, tuple(points), _proved(target, domain, route))
        for route, points in by_route.items()
    ]
    return SizingCurve(target, domain, falling, tuple(routes))


def _plan(target: Target, domain: Box, error: float) -> Plan:
    if isinstance(target, Function | CallableFunction):
        return plan_function(target, domain, error)
    return plan_network(target, domain, error)


def _proved(target: Target, domain: Box, route: str) -> Growths:
    if isinstance(target, Function):
        return function_growth(target, domain, route)
    if isinstance(target, CallableFunction):
        return dict.fromkeys(RESOURCES, UNKNOWN)
    return network_growth(route)


def _falling(errors: Sequence[float]) -> tuple[float, ...]:
    """From the largest to the smallest, each once."""
    wrong = [e for e in errors if not (isinstance(e, int | float) and 0 < e < math.inf)]
    if wrong or not errors:
        came = f"not {wrong[0]!r}" if wrong else "and at least one is needed"
        raise RequestError(f"The errors must be numbers > 0, {came}; try (1e-1, 1e-2, 1e-3).")
    return tuple(sorted({float(error) for error in errors}, reverse=True))


def _growth_record(growth: Growth) -> dict[str, object]:
    exponent = None if growth.exponent is None else float(growth.exponent)
    return {
        "exponent": exponent,
        "logarithmic": growth.log,
        "proved": growth.proved,
        "text": str(growth),
    }
