"""How a route's resources grow as the error shrinks: what is proved, node by node.

Write e for the error asked. Splitting it over the nodes of a graph gives each a fixed share, so
every node sees an error proportional to e, and the largest growth over the nodes is the route's.

*Warm heads.* H heads make a product or a square by tanh sums whose first H terms cancel: the
remainder is c b^(2H) for a coldness b, so b = (e/c)^(1/2H). The logit is b times a bounded number
and shrinks; what multiplies it back is 1/b, and so the largest weight grows as e^(-1/2H).

*Sums of sigmoids.* For analytic curves the number of heads is seen to grow like log(1/e). That is
not proved here, and nothing is said of their logits and weights. Likewise for anchors, where the
prompt grows instead of the number of heads.

*Kinks.* A soft maximum falls short by W((n-1)/e)/b: the coldness, the logit and the largest weight
grow as 1/e. A hidden unit is exact.

*Pieces.* With f'' continuous, the best N pieces miss f by c/N^2, so N grows as e^(-1/2). A kink is
a change of slope of size O(1/N), at a distance of order 1/N from the next; a soft one loses
O(1/(N b)), and beyond a distance 1/b next to nothing, so b of order N suffices: coldness, logit and
largest weight grow as e^(-1/2) too.

*Gated units.* Two of them multiply exactly, one rectifies exactly: products, polynomials and maxima
cost the same at every error. Other curves are sums of sigmoids.

*Grids.* The universal route puts an anchor into each cell of a grid and errs by the sum of
L_i D_i / 2, so every spacing D_i is of order e: e^-d tokens in d variables. The coldness is a
constant over D^2, so the logit and the largest weight grow as e^-2.

*Chains of tents.* L layers leave 4^-L, so L grows as log(1/e)/log 4, at constant width. Softly they
lose O(1/b^2) altogether (`square_by_tents`), so the logit grows as e^(-1/2). A row holds 2^-l t_l,
which its reader multiplies by 2^l <= e^(-1/2): the largest weight grows as e^(-1/2) with hidden
units, and as b times that, e^-1, with heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hardmax.core import Box
from hardmax.languages import Function, derivative, evaluate
from hardmax.lowering.functions import ROUTE_GADGETS, is_native, is_square
from hardmax.lowering.gadgets import is_polynomial
from hardmax.lowering.graph import (
    Analysis,
    CurveNode,
    MaximumNode,
    Node,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    analyse,
)
from hardmax.numerics import FLOAT64, Interval

RESOURCES = (
    "layers",
    "heads",
    "tokens",
    "width",
    "hidden_width",
    "parameters",
    "largest_logit",
    "largest_weight",
)


@dataclass(frozen=True)
class Growth:
    """The resource grows like error^-exponent, times log(1/error) if so; None where unknown."""

    exponent: Fraction | None
    log: bool = False
    proved: bool = True

    def __str__(self) -> str:
        if self.exponent is None:
            return "unknown"
        power = "" if self.log and not self.exponent else str(self.exponent)
        words = [*([power] if power else []), *(["log"] if self.log else [])]
        return " ".join(words) + ("" if self.proved else ", not proved")

    @staticmethod
    def largest(growths: list[Growth]) -> Growth:
        """Of a maximum, or a sum: unknown as soon as one part is."""
        if any(growth.exponent is None for growth in growths):
            return UNKNOWN
        top = max(growths, key=lambda g: (g.exponent, g.log), default=CONSTANT)
        return Growth(top.exponent, top.log, all(growth.proved for growth in growths))


CONSTANT = Growth(Fraction(0))
UNKNOWN = Growth(None, proved=False)
_LOG = Growth(Fraction(0), log=True)
_LOG_SEEN = Growth(Fraction(0), log=True, proved=False)
_ROOT = Growth(Fraction(1, 2))
_INVERSE = Growth(Fraction(1))
Growths = dict[str, Growth]


def function_growth(function: Function, domain: Box, route: str) -> Growths:
    """What is proved of a route for a function: the largest growth over its nodes."""
    if route == "universal":
        return _grid(function)
    rule = _RULES.get(route)
    if rule is None:
        return dict.fromkeys(RESOURCES, UNKNOWN)
    graph = ROUTE_GADGETS[route](FLOAT64).graph(function.expressions, function.variables, domain)
    analysis = analyse(graph, domain)
    found: list[Mapping[str, Growth]] = [
        rule(node, analysis)
        for node in graph.nodes
        if isinstance(node, CurveNode | ProductNode | MaximumNode | QuotientNode | SoftmaxNode)
    ]
    return {
        name: Growth.largest([growth.get(name, CONSTANT) for growth in found]) for name in RESOURCES
    }


def network_growth(route: str) -> Growths:
    """Of a network: its shape is given, and only the coldness of its maxima grows, as 1/error."""
    if route == "feedforward":
        return dict.fromkeys(RESOURCES, CONSTANT)
    return dict.fromkeys(RESOURCES, CONSTANT) | {
        "largest_logit": _INVERSE,
        "largest_weight": _INVERSE,
    }


_Rule = Callable[[Node, Analysis], Growths]


def _direct(heads: int) -> _Rule:
    def rule(node: Node, analysis: Analysis) -> Growths:
        match node:
            case ProductNode():
                return _warm(heads)
            case CurveNode(curve=curve) if is_square(curve):
                return _warm(heads)
            case CurveNode(curve=curve) if not is_native(curve):
                return _fitted("heads", node, analysis)
            case QuotientNode():
                return _fitted("heads", node, analysis)
        return _kink(node)

    return rule


def _anchors(node: Node, analysis: Analysis) -> Growths:
    match node:
        case ProductNode():
            return _warm(1)
        case CurveNode(curve=curve) if not is_native(curve):
            return _fitted("tokens", node, analysis)
        case QuotientNode():
            return _fitted("heads", node, analysis)
    return _kink(node)


def _recipe(node: Node, analysis: Analysis) -> Growths:
    chain = {"layers": _LOG, "heads": _LOG, "parameters": _LOG}
    match node:
        case ProductNode():
            return {**chain, "largest_logit": _ROOT, "largest_weight": _INVERSE}
        case CurveNode(curve=curve) if is_square(curve):
            return {**chain, "largest_logit": _ROOT, "largest_weight": _INVERSE}
        case CurveNode():
            pieces = dict.fromkeys(("heads", "parameters"), _pieces(node, analysis))
            cold = _ROOT if _is_tame(node, analysis) else UNKNOWN
            return {**pieces, "largest_logit": cold, "largest_weight": cold}
    return _kink(node)


def _feedforward(node: Node, analysis: Analysis) -> Growths:
    match node:
        case ProductNode():
            return {"layers": _LOG, "parameters": _LOG, "largest_weight": _ROOT}
        case CurveNode(curve=curve) if is_square(curve):
            return {"layers": _LOG, "parameters": _LOG, "largest_weight": _ROOT}
        case CurveNode():
            pieces = dict.fromkeys(("hidden_width", "parameters"), _pieces(node, analysis))
            slopes = CONSTANT if _is_tame(node, analysis) else UNKNOWN
            return {**pieces, "largest_weight": slopes}
    return {}


def _gated(node: Node, analysis: Analysis) -> Growths:
    match node:
        case CurveNode(curve=curve) if not (is_native(curve) or is_polynomial(curve)):
            return _fitted("heads", node, analysis)
    return {}


def _grid(function: Function) -> Growths:
    used = {name for expression in function.expressions for name in expression.variables()}
    cells, cold = Growth(Fraction(len(used))), Growth(Fraction(2))
    grown = {"tokens": cells, "parameters": cells, "largest_logit": cold, "largest_weight": cold}
    return dict.fromkeys(RESOURCES, CONSTANT) | grown


def _warm(heads: int) -> Growths:
    power = Fraction(1, 2 * heads)
    return {"largest_logit": Growth(-power), "largest_weight": Growth(power)}


def _kink(node: Node) -> Growths:
    if isinstance(node, MaximumNode):
        return {"largest_logit": _INVERSE, "largest_weight": _INVERSE}
    return {}


def _fitted(resource: str, node: CurveNode | QuotientNode, analysis: Analysis) -> Growths:
    growth = _LOG_SEEN if _is_tame(node, analysis) else UNKNOWN
    names = {resource: growth, "parameters": growth}
    return {**names, "largest_logit": UNKNOWN, "largest_weight": UNKNOWN}


def _pieces(node: CurveNode, analysis: Analysis) -> Growth:
    return replace(_ROOT, proved=_is_tame(node, analysis))


def _is_tame(node: CurveNode | QuotientNode, analysis: Analysis) -> bool:
    """Whether f'' is seen to be bounded, as all of the above needs; sqrt is not, next to 0."""
    low, high = analysis.range(node.arguments[-1])
    bend = derivative(derivative(node.curve, "t"), "t")
    values = evaluate(bend, {"t": Interval(np.array(low), np.array(high))}, "interval")
    return bool(np.isfinite(values.magnitude))


_RULES = {
    "direct": _direct(1),
    "direct-2": _direct(2),
    "direct-3": _direct(3),
    "folded": _direct(1),
    "anchors": _anchors,
    "recipe": _recipe,
    "feedforward": _feedforward,
    "gated": _gated,
}
