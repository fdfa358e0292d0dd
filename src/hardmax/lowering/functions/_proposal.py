"""A function lowered along one way: everything said, nothing built yet."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax import numerics
from hardmax._errors import PrecisionError
from hardmax.core import MARGIN, Box, Claim, Construction, Share, Target, with_margin
from hardmax.lowering.functions._made import Made
from hardmax.lowering.functions._witness import Held, Whereabouts, write_witness
from hardmax.lowering.graph import Analysis, LinearNode, MinimumNode
from hardmax.lowering.stream import (
    Arrangement,
    Program,
    RangeTable,
    Rounding,
    Statement,
    arrange,
    assemble,
    rounding,
    row_ranges,
    state,
)
from hardmax.numerics import STEP

_SMALL = 4096.0 * STEP  # covers the rounding of stored rows in a holding
_SPARE = 2.0**-12  # of the claim: a holding that is nearly exact need not be shown to the last bit
FORMATS = ("float16", "bfloat16", "float32", "float64")  # cheapest first


@dataclass(eq=False)
class Proposal:
    """A program with its bound: what a route would build, and what it would promise."""

    target: Target
    domain: Box
    route: str
    program: Program
    made: dict[int, Made]
    analysis: Analysis  # widened by what each node is allowed to be off
    allowed: dict[int, float]  # node -> that much
    labels: dict[int, str] = field(default_factory=dict)
    where: dict[int, Whereabouts] = field(default_factory=dict)  # of each node's value

    @cached_property
    def ranges(self) -> RangeTable:
        return row_ranges(self.program)

    @cached_property
    def arrangement(self) -> Arrangement:
        return arrange(self.program)

    @cached_property
    def statement(self) -> Statement:
        """The bill, before anything is built."""
        return state(self.arrangement, self.ranges)

    def rounding(self, dtype: str) -> Rounding:
        """What rounding adds to each node; a minimum has the rounding of the maximum it uses."""
        found = rounding(self.program, self.ranges, dtype)
        for i, node in enumerate(self.analysis.graph.nodes):
            if isinstance(node, MinimumNode):
                found.nodes[i] = found.nodes.get(node.arguments[2], 0.0)
        return found

    @cached_property
    def approximation(self) -> float:
        """The bound over the reals."""
        return self.analysis.total({node: made.error for node, made in self.made.items()})[0]

    def bound(self, dtype: str = "float64") -> float:
        """The error in a float format: approximation, softening and rounding together."""
        return self._parts(dtype)[0]

    def _parts(self, dtype: str) -> tuple[float, dict[int, float]]:
        """The bound, and what of it is each node's approximation; the rest is rounding."""
        rounded = self.rounding(dtype)
        at_end = float(max(rounded.outputs, default=0.0))
        largest = max(self.statement.largest_weight, self.statement.largest_logit)
        if rounded.overflows or not numerics.FORMATS[dtype].fits(largest):
            return float("inf"), {}
        errors = {node: made.error for node, made in self.made.items()}
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
            soft = self.made[node].softening if node in self.made else 0.0
            part = soft / self.made[node].error if soft else 0.0
            label = self.labels.get(node, f"node {node}")
            shares.append(Share("approximation", label, float(amount * (1 - part))))
            shares.append(Share("softening", label, float(amount * part)))
        named = sum(share.amount for share in shares)
        shares.append(Share("rounding", "float64 evaluation", max(float(bound) - named, 0.0)))
        return with_margin(shares)

    @property
    def error(self) -> float:
        """What would be claimed."""
        return math.fsum(share.amount for share in self.ledger)

    def formats(self, error: float) -> list[str]:
        """The float formats in which the claim's error still holds, cheapest first."""
        return [dtype for dtype in FORMATS if self.bound(dtype) <= error]

    def build(self) -> Construction:
        """The weights, at last."""
        claim = Claim(self.target, self.domain, self.ledger)
        witness = write_witness(self.target, self.arrangement, self._held())
        return Construction(assemble(self.arrangement), claim, witness, self.route)

    def _off(self) -> list[float]:
        """How far each node's value can be from the exact one in float64."""
        rounded, amounts = self.rounding("float64").nodes, np.zeros(len(self.analysis.graph.nodes))
        for node, made in self.made.items():
            amounts[node] = made.error + rounded.get(node, 0.0)
        return self.analysis.off_by(amounts)

    def _held(self) -> list[Held]:
        """Where the target's inner values are, and how closely: nodes, then outputs."""
        nodes, inner, off = self.analysis.graph.nodes, self._read_by_others(), self._off()
        held = [
            Held(nodes[i].expression, place, self._within(i, off[i]))
            for i, place in self.where.items()
            if i in inner
        ]
        outputs = self.program.outputs
        end = max((maker.stage for maker in self.program.makers), default=-1)
        places = [Whereabouts([form], end) for form in outputs]
        return held + [Held(i, place, self.error) for i, place in enumerate(places)]

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
