"""A function lowered along one way: everything said, nothing built yet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax import numerics
from hardmax.core import (
    MARGIN,
    Box,
    Claim,
    Construction,
    Holding,
    Share,
    Target,
    Witness,
    with_margin,
)
from hardmax.languages import Expression, Function
from hardmax.lowering._planner import TooSmall
from hardmax.lowering.functions._stored import stored_in
from hardmax.lowering.gadgets import Approximation
from hardmax.lowering.graph import Analysis, LinearNode, MinimumNode
from hardmax.lowering.sketch import (
    BoxAssembly,
    BoxForm,
    BoxSketch,
    RangeTable,
    Rounding,
    Statement,
    register_ranges,
    rounding,
)
from hardmax.numerics import STEP

_SMALL = 4096.0 * STEP  # covers the rounding of stored rows in a holding
_JUST_BELOW = 1.0 - 1e-12  # of what was asked: sums of shares are rounded
_CARE = 1.25  # of the rounding that is promised in coarse formats at least
_ROOMY = 13.0  # the same where the checker follows values through layers that multiply them ...
_DEEP = 3  # ... so many of them
TWICE = 2.0  # the checker bounds rounding by lemmas of its own: that often it may find ours
_SPARE = 2.0**-12  # of the claim: a holding that is nearly exact need not be shown to the last bit


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Forms that read a value at the first sublayer that can; the first of them is best."""

    forms: list[BoxForm]
    ready: int


@dataclass(eq=False)
class Proposal:
    """A sketch with its bound: what a route would build, and what it would promise.

    The promise is about a float `format`: its ledger has the rounding of that one, and the weights
    are numbers of it, so that casting them changes nothing. `asked` is what the claim has to stay
    below.
    """

    target: Target
    domain: Box
    route: str
    sketch: BoxSketch
    built: dict[int, Approximation]  # node by node
    analysis: Analysis  # widened by what each node is allowed to be off
    allowed: dict[int, float]  # node -> that much
    labels: dict[int, str] = field(default_factory=dict)
    where: dict[int, Whereabouts] = field(default_factory=dict)  # of each node's value
    format: str = "float64"
    asked: float | None = None
    roomy: bool = False  # whether a checker is left room for what it knows less of in deep models

    @cached_property
    def ranges(self) -> RangeTable:
        return register_ranges(self.sketch)

    @cached_property
    def assembly(self) -> BoxAssembly:
        return BoxAssembly(self.sketch)

    @cached_property
    def statement(self) -> Statement:
        """The bill."""
        return self.assembly.statement(self.ranges)

    def rounding(self, dtype: str) -> Rounding:
        """What rounding adds to each node; a minimum has the rounding of the maximum it uses."""
        found = rounding(self.sketch, self.ranges, dtype)
        for i, node in enumerate(self.analysis.graph.nodes):
            if isinstance(node, MinimumNode):
                found.nodes[i] = found.nodes.get(node.arguments[2], 0.0)
        return found

    @cached_property
    def approximation(self) -> float:
        """The bound over the reals."""
        return self.analysis.total({node: own.error for node, own in self.built.items()})[0]

    def bound(self, dtype: str = "float64") -> float:
        """The error in a float format: approximation, softening and rounding together."""
        return self._parts(dtype)[0]

    @cached_property
    def needed(self) -> float:
        """What has to be promised at least, for a checker to prove it.

        In float64 rounding is hardly ever more than a small part, for which the margin is enough.
        In coarse formats it is, and the checker's own bound of it may be larger than ours.
        """
        bound = self.bound(self.format)
        if self.format == "float64" or not np.isfinite(bound):
            return bound
        care = _ROOMY if self._leaves_room else _CARE
        return bound + (care - 1.0) * self.rounded(self.format)

    @property
    def _leaves_room(self) -> bool:
        return self.roomy and self.statement.layers >= _DEEP

    def _parts(self, dtype: str) -> tuple[float, dict[int, float]]:
        """The bound, and what of it is each node's approximation; the rest is rounding."""
        rounded = self.rounding(dtype)
        at_end = float(max(rounded.outputs, default=0.0))
        if rounded.overflows:  # before there are weights, which would have to be finite
            return float("inf"), {}
        largest = max(self.statement.largest_weight, self.statement.largest_logit)
        if not numerics.FORMATS[dtype].fits(largest):
            return float("inf"), {}
        errors = {node: own.error for node, own in self.built.items()}
        both = {
            n: errors.get(n, 0.0) + rounded.nodes.get(n, 0.0) for n in (*errors, *rounded.nodes)
        }
        inner = self._read_by_others()
        if any(both[node] > self.allowed[node] for node in both if node in inner):
            return float("inf"), {}
        total, shares = self.analysis.total(both)
        fraction = {n: errors.get(n, 0.0) / both[n] if both[n] else 0.0 for n in both}
        return total + at_end, {n: shares[n] * fraction[n] for n in shares}

    def _read_by_others(self) -> set[int]:
        """Nodes whose value some nonlinear node reads; the others widen no range."""
        nodes = self.analysis.graph.nodes
        reached: set[int] = set()
        for i in reversed(range(len(nodes))):
            if not isinstance(nodes[i], LinearNode) or i in reached:
                reached |= set(nodes[i].arguments)
        return reached

    @cached_property
    def ledger(self) -> tuple[Share, ...]:
        """Every node's share, the rounding, and the margin."""
        bound, approximation = self._parts(self.format)
        shares = []
        for node, amount in approximation.items():
            soft = self.built[node].softening if node in self.built else 0.0
            part = soft / self.built[node].error if soft else 0.0
            label = self.labels.get(node, f"node {node}")
            shares.append(Share("approximation", label, float(amount * (1 - part))))
            shares.append(Share("softening", label, float(amount * part)))
        named = sum(share.amount for share in shares)
        rounding = self._promised(max(float(bound) - named, 0.0), named)
        shares.append(Share("rounding", f"{self.format} evaluation", rounding))
        return with_margin(shares)

    def _promised(self, rounding: float, named: float) -> float:
        """The ledger's share of rounding, given a bound of it and the sum of the other shares.

        A margin of 2% is no room where the checker bounds rounding by lemmas of its own:
        sigmoid(x) was claimed to 6.7e-16, and only 7.2e-16 could be proved. Twice as much is
        claimed where rounding is most of the error, and in coarse formats, where it never is
        little; but no more than was asked for.
        """
        if rounding <= named and self.format == "float64":
            return rounding
        if self.asked is None:
            return TWICE * rounding
        room = self.asked * _JUST_BELOW / (1.0 + MARGIN) - named
        return min((_ROOMY if self._leaves_room else TWICE) * rounding, max(room, rounding))

    @property
    def error(self) -> float:
        """What would be claimed."""
        return math.fsum(share.amount for share in self.ledger)

    def rounded(self, format: str) -> float:
        """What rounding adds to the error in a format."""
        bound, approximation = self._parts(format)
        return max(float(bound) - sum(approximation.values()), 0.0)

    def build(self) -> Construction:
        """The weights, with their claim and witness."""
        claim = Claim(self.target, self.domain, self.ledger, format=self.format, asked=self.asked)
        witness = self._witness(self.target) if isinstance(self.target, Function) else None
        transformer = self.assembly.transformer
        if self.format != "float64":
            transformer = stored_in(transformer, numerics.FORMATS[self.format])
        return Construction(transformer, claim, witness, self.route)

    def _off(self) -> list[float]:
        """How far each node's value can be from the exact one in the format."""
        rounded = self.rounding(self.format).nodes
        amounts = np.zeros(len(self.analysis.graph.nodes))
        for node, own in self.built.items():
            amounts[node] = own.error + rounded.get(node, 0.0)
        return self.analysis.off_by(amounts)

    def _witness(self, target: Function) -> Witness:
        """Where the target's inner values are, and how closely: nodes, then outputs.

        Values that are no steps of the target, or that no form shows any more, are left out.
        """
        holdings: list[Holding | None] = []
        nodes, inner, off = self.analysis.graph.nodes, self._read_by_others(), self._off()
        hold, steps = self.assembly.holding, target.places()
        for i, place in self.where.items():
            expression = nodes[i].expression
            if i in inner and isinstance(expression, Expression) and expression in steps:
                within = self._within(i, off[i])
                holdings.append(
                    hold(place.forms, *steps[expression], after=place.ready - 1, error=within)
                )
        last, end = len(target.steps().steps), self.sketch.last_sublayer
        for i, form in enumerate(self.sketch.outputs):
            holdings.append(hold([form], last, i, after=end, error=self.error))
        kept = [holding for holding in holdings if holding is not None]
        return Witness(sorted(kept, key=lambda holding: holding.sublayer))

    def _within(self, node: int, off: float) -> float:
        """How closely a holding says that a node is held."""
        extent = max(map(abs, self.analysis.range(node)))
        return off * (1.0 + MARGIN) + _SMALL * extent + _SPARE * self.error


def too_small(error: float, reached: float, route: str, format: str = "float64") -> TooSmall:
    where = "" if format == "float64" else f" in {format}"
    if not np.isfinite(reached):
        return TooSmall(
            f"The {route} route cannot promise {error:.3g}{where} here: inner values or weights "
            f"are too large for {format}. Shrink the domain, or scale the variables.",
            reached,
        )
    return TooSmall(
        f"The {route} route cannot promise {error:.3g}{where} here, because rounding takes more. "
        f"Ask for {reached:.3g} or more, or take another route.",
        reached,
    )
