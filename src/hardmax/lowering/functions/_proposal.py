"""A function lowered along one way: everything said, nothing built yet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax import numerics
from hardmax._errors import PrecisionError
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
_SPARE = 2.0**-12  # of the claim: a holding that is nearly exact need not be shown to the last bit
FORMATS = ("float16", "bfloat16", "float32", "float64")  # cheapest first


@dataclass(frozen=True, eq=False)
class Whereabouts:
    """Forms that read a value at the first sublayer that can; the first of them is best."""

    forms: list[BoxForm]
    ready: int


@dataclass(eq=False)
class Proposal:
    """A sketch with its bound: what a route would build, and what it would promise."""

    target: Target
    domain: Box
    route: str
    sketch: BoxSketch
    built: dict[int, Approximation]  # node by node
    analysis: Analysis  # widened by what each node is allowed to be off
    allowed: dict[int, float]  # node -> that much
    labels: dict[int, str] = field(default_factory=dict)
    where: dict[int, Whereabouts] = field(default_factory=dict)  # of each node's value

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
        bound, approximation = self._parts("float64")
        shares = []
        for node, amount in approximation.items():
            soft = self.built[node].softening if node in self.built else 0.0
            part = soft / self.built[node].error if soft else 0.0
            label = self.labels.get(node, f"node {node}")
            shares.append(Share("approximation", label, float(amount * (1 - part))))
            shares.append(Share("softening", label, float(amount * part)))
        named = sum(share.amount for share in shares)
        rounding = max(float(bound) - named, 0.0)
        if rounding > named:
            # A margin of 2% is no room where the checker bounds rounding by lemmas of its own:
            # sigmoid(x) was claimed to 6.7e-16, and only 7.2e-16 could be proved. Twice as much is
            # claimed where rounding is most of the error; nobody asks for less there.
            rounding *= 2.0
        shares.append(Share("rounding", "float64 evaluation", rounding))
        return with_margin(shares)

    @property
    def error(self) -> float:
        """What would be claimed."""
        return math.fsum(share.amount for share in self.ledger)

    def formats(self, error: float) -> list[str]:
        """The float formats in which the claim's error still holds, cheapest first."""
        return [dtype for dtype in FORMATS if self.bound(dtype) <= error]

    def build(self) -> Construction:
        """The weights, with their claim and witness."""
        claim = Claim(self.target, self.domain, self.ledger)
        witness = self._witness(self.target) if isinstance(self.target, Function) else None
        return Construction(self.assembly.transformer, claim, witness, self.route)

    def _off(self) -> list[float]:
        """How far each node's value can be from the exact one in float64."""
        rounded, amounts = self.rounding("float64").nodes, np.zeros(len(self.analysis.graph.nodes))
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


def too_small(error: float, reached: float, route: str) -> PrecisionError:
    if not np.isfinite(reached):
        return PrecisionError(
            f"The {route} route cannot promise {error:.3g} here: inner values or weights are too "
            "large for float64. Shrink the domain, or scale the variables."
        )
    return PrecisionError(
        f"The {route} route cannot promise {error:.3g} here, because rounding takes more. Ask for "
        f"{reached:.3g} or more, or take another route."
    )
