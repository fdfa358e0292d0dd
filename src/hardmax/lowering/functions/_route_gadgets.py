"""Which gadgets a route builds nodes with: the recipe's, direct ones, anchors, hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import Box
from hardmax.languages import Apply, Expression
from hardmax.lowering.approximants import (
    MOST_PIECES,
    Curve,
    anchors_for,
    fit_anchors,
    sigmoids_in_format,
)
from hardmax.lowering.gadgets import (
    Approximation,
    Site,
    curve_by_anchors,
    curve_by_sigmoids,
    curve_by_soft_pieces,
    curve_by_units,
    is_of_inputs,
    maximum_by_head,
    maximum_by_tree,
    product_by_gates,
    product_by_tents,
    relu_by_gate,
    relu_by_unit,
    sigmoid_by_gate,
    square_by_gates,
    square_by_tents,
)
from hardmax.lowering.graph import (
    Analysis,
    CurveNode,
    Graph,
    MaximumNode,
    ProductNode,
    SoftmaxNode,
    T,
    build_graph,
    simplified,
    with_fixed,
    with_quotients,
)
from hardmax.lowering.sketch import Pair
from hardmax.numerics import FLOAT64, Format

_MOST_ANCHORS = 48
Counter = Callable[[Expression, Pair, float], int]


@dataclass(frozen=True)
class RouteGadgets:
    """What a route builds each kind of node with, to within an error."""

    name: str
    curve: Callable[[Site, Expression, float], Approximation]
    product: Callable[[Site, float], Approximation]
    maximum: Callable[[Site, float], Approximation]
    by_pieces: bool  # a curve's cost grows like error^-1/2
    native: bool  # quotients and softmaxes are nodes of their own
    anchors: Counter | None = None  # how many tokens a curve needs
    format: Format = FLOAT64  # in which fits have to be good

    def graph(self, outputs: Sequence[Expression], variables: Sequence[str], domain: Box) -> Graph:
        """The graph that this route builds from, on the domain."""
        known = with_fixed(outputs, variables, domain)
        graph = simplified(build_graph(known, variables, native=self.native), domain)
        return with_quotients(graph) if self.native else graph

    def tokens(self, graph: Graph, analysis: Analysis, errors: Mapping[int, float]) -> int:
        """How long the prompt will be: as the largest maximum, softmax or row of anchors."""
        longest = 2
        for i, node in enumerate(graph.nodes):
            match node:
                case MaximumNode() if self.native and len(node.arguments) > 2:
                    longest = max(longest, len(node.arguments))
                case SoftmaxNode():
                    longest = max(longest, len(node.values))
                case CurveNode() if self.anchors and not is_native(node.curve):
                    pair = analysis.widened(node.argument)
                    longest = max(longest, self.anchors(node.curve, pair, errors[i]))
        return longest


def differing_routes(
    outputs: Sequence[Expression], variables: Sequence[str], domain: Box
) -> list[str]:
    """The routes that differ here: without products one direct route is enough, and without curves
    there is nothing to anchor."""
    nodes = direct(FLOAT64, 1).graph(outputs, variables, domain).nodes
    curves = [n.curve for n in nodes if isinstance(n, CurveNode) and not is_native(n.curve)]
    multiplies = any(isinstance(n, ProductNode) for n in nodes) or any(map(is_square, curves))
    names = ["direct", *(["direct-2", "direct-3"] if multiplies else [])]
    return [*names, *(["anchors"] if curves else []), "recipe", "feedforward"]


def is_square(curve: Expression) -> bool:
    return (
        isinstance(curve, Apply)
        and curve.operation == "power"
        and (curve.exponent == 2 and curve.arguments[0] is T)
    )


def is_native(curve: Expression) -> bool:
    """sigmoid and tanh of the argument itself: a softmax over two tokens, without any error."""
    return curve.operation in ("sigmoid", "tanh") and curve.arguments[0] is T


def recipe(format: Format = FLOAT64, most: int = MOST_PIECES) -> RouteGadgets:
    """ReLU approximants, every ReLU a head, attention only: the route of the literature."""

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        if is_square(expression):
            return square_by_tents(site, error, soft=True)
        curve = _curve(expression, site.ranges[0])
        return curve_by_soft_pieces(site, curve, error, most, balanced=format is not FLOAT64)

    product = partial(product_by_tents, soft=True)
    return RouteGadgets("recipe", curve, product, _soft_maximum, True, False)


def feedforward(format: Format = FLOAT64) -> RouteGadgets:
    """The same ReLU approximants with feed-forward layers: no softening, and no attention."""

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        if is_square(expression):
            return square_by_tents(site, error, soft=False)
        curve = _curve(expression, site.ranges[0])
        return curve_by_units(site, curve, error, balanced=format is not FLOAT64)

    product = partial(product_by_tents, soft=False)
    maximum = partial(maximum_by_tree, rectify=relu_by_unit)
    return RouteGadgets("feedforward", curve, product, maximum, True, False)


def direct(format: Format = FLOAT64, heads: int = 1) -> RouteGadgets:
    """Softmax used for what it is; `heads` for each product. Fits are good in the format."""

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        (argument,) = site.forms
        if is_native(expression):
            return sigmoid_by_gate(site, argument, is_tanh=expression.operation == "tanh")
        if is_square(expression):
            return square_by_gates(site, error, heads)
        with _numerical_trouble(expression):
            fit = sigmoids_in_format(_curve(expression, site.ranges[0]), error, format)
        return curve_by_sigmoids(site, fit, argument)

    name = "direct" if heads == 1 else f"direct-{heads}"
    product = partial(product_by_gates, heads=heads)
    return RouteGadgets(name, curve, product, _direct_maximum, False, True, format=format)


def anchors(format: Format = FLOAT64) -> RouteGadgets:
    """Every curve one head over anchors; products and maxima as in the direct route."""

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        if is_native(expression):
            return sigmoid_by_gate(site, site.forms[0], is_tanh=expression.operation == "tanh")
        with _numerical_trouble(expression):
            fit = fit_anchors(_curve(expression, site.ranges[0]), site.tokens, format)
        if fit.error > error:
            raise PrecisionError(
                f"{site.tokens} anchors come within {fit.error:.3g} of {expression}, not "
                f"{error:.3g}; ask for a larger error."
            )
        return curve_by_anchors(site, fit)

    def count(expression: Expression, pair: Pair, error: float) -> int:
        with _numerical_trouble(expression):
            curve = _curve(expression, pair)
            return len(anchors_for(curve, error, most=_MOST_ANCHORS, format=format).anchors)

    product = partial(product_by_gates, heads=1)
    return RouteGadgets("anchors", curve, product, _direct_maximum, False, True, count)


@contextmanager
def _numerical_trouble(expression: Expression) -> Iterator[None]:
    """Fits search in floats; where these break down, the route has no offer."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (np.linalg.LinAlgError, ArithmeticError) as trouble:
        raise PrecisionError(
            f"No fit of {expression} was found: the numbers on its range are out of proportion "
            f"({trouble}). Shrink the domain, or take another route."
        ) from None


def _curve(expression: Expression, pair: Pair) -> Curve:
    return Curve.of(expression, "t", *pair)


def quotient(
    site: Site, expression: Expression, error: float, format: Format = FLOAT64
) -> Approximation:
    """factor * curve(argument) in one layer: sigmoids of the argument, the factor as value."""
    factor, argument = site.forms
    if is_native(expression):
        return sigmoid_by_gate(site, argument, factor, is_tanh=expression.operation == "tanh")
    low, high = site.ranges[0]
    size = max(abs(low), abs(high), 1e-200)
    curve = _curve(expression, site.ranges[1])
    with _numerical_trouble(expression):
        fit = sigmoids_in_format(curve, error / size, format, affine=False)
    return curve_by_sigmoids(site, fit, argument, factor, size)


_soft_maximum = partial(maximum_by_tree, rectify=relu_by_gate)


def _direct_maximum(site: Site, error: float) -> Approximation:
    """One head over n tokens where the arguments are affine in the input, a tree elsewhere."""
    if len(site.forms) > 2 and all(map(is_of_inputs, site.forms)):
        return maximum_by_head(site, error)
    return _soft_maximum(site, error)


ROUTE_GADGETS: dict[str, Callable[..., RouteGadgets]] = {
    "direct": partial(direct, heads=1),
    "direct-2": partial(direct, heads=2),
    "direct-3": partial(direct, heads=3),
    "anchors": anchors,
    "recipe": recipe,
    "feedforward": feedforward,
}
