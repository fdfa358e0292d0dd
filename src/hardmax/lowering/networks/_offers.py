"""A network's routes side by side; they are lowered and softened to be counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardmax.analysis import rounding_bound
from hardmax.core import Bill, Box, Construction, Target
from hardmax.lowering._planner import Plan, make_offers
from hardmax.lowering.functions import FORMATS
from hardmax.lowering.networks._routes import lower, routes_for
from hardmax.passes import soften


@dataclass(frozen=True, eq=False)
class BuiltProposal:
    """A construction that exists already, seen as a proposal."""

    construction: Construction

    @property
    def statement(self) -> Bill:
        return self.construction.bill

    @property
    def error(self) -> float:
        return self.construction.claim.error

    def formats(self, error: float) -> list[str]:
        """Formats in which the real-number error plus the format's rounding stays within."""
        claim = self.construction.claim
        exact = claim.error - sum(s.amount for s in claim.ledger if s.cause == "rounding")
        bounds = {
            name: float(rounding_bound(self.construction.transformer, claim.domain, name).max())
            for name in FORMATS
        }
        return [
            name for name, bound in bounds.items() if exact + bound <= error or name == "float64"
        ]

    def build(self) -> Construction:
        return self.construction


def plan_network(source: Target, domain: Box, error: float | None) -> Plan:
    """Every route of a network; `error=None` compares the hard skeletons."""

    def proposer(route: str) -> Callable[[], BuiltProposal]:
        return lambda: BuiltProposal(soften(lower(source, domain, route), error=error))

    routes = [(route, proposer(route)) for route in routes_for(source)]
    asked = float("inf") if error is None else error
    return Plan(source, domain, asked, make_offers(asked, routes))
