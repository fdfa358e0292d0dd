"""A network's routes side by side; they are lowered and softened to be counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hardmax.analysis import rounding_bound
from hardmax.core import Bill, Box, Construction, Target
from hardmax.lowering._planner import Plan, make_offers
from hardmax.lowering.networks._routes import lower, routes_for
from hardmax.numerics import FLOAT64, Format
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

    @property
    def format(self) -> str:
        return self.construction.claim.format

    def rounded(self, format: str) -> float:
        """What rounding adds in a format, from the weights."""
        made = self.construction
        return float(rounding_bound(made.transformer, made.claim.domain, format).max())

    def build(self) -> Construction:
        return self.construction


def plan_network(
    source: Target, domain: Box, error: float | None, *, format: Format = FLOAT64
) -> Plan:
    """Every route of a network; `error=None` compares the hard skeletons."""

    def proposer(route: str) -> Callable[[], BuiltProposal]:
        return lambda: BuiltProposal(
            soften(lower(source, domain, route, format=format), error=error, float=format.name)
        )

    routes = [(route, proposer(route)) for route in routes_for(source)]
    asked = float("inf") if error is None else error
    return Plan(source, domain, asked, make_offers(asked, routes), format.name)
