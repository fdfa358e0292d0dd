"""The ways to build a node: by the recipe, directly, over anchors, or by feed-forward layers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import Box
from hardmax.languages import Apply, Expression
from hardmax.lowering.approximants import (
    MOST_PIECES,
    Curve,
    anchors_for,
    fit_anchors,
    sigmoids_for,
)
from hardmax.lowering.functions._anchored import curve_by_anchors
from hardmax.lowering.functions._chains import product_by_tents, square_by_tents
from hardmax.lowering.functions._curves import (
    curve_by_sigmoids,
    curve_by_soft_pieces,
    curve_by_units,
)
from hardmax.lowering.functions._kinks import (
    is_of_inputs,
    maximum_by_head,
    maximum_by_tree,
    relu_by_gate,
    relu_by_unit,
)
from hardmax.lowering.functions._made import Made, Pair
from hardmax.lowering.functions._products import product_by_gates, square_by_gates
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
from hardmax.lowering.stream import Form, Program


@dataclass(frozen=True, eq=False)
class Site:
    """Where a node is built: the program, its arguments as forms, and their ranges."""

    program: Program
    node: int
    forms: tuple[Form, ...]
    ranges: tuple[Pair, ...]
    tokens: int


_MOST_ANCHORS = 48
Counter = Callable[[Expression, Pair, float], int]


@dataclass(frozen=True)
class Way:
    """One route's gadgets."""

    name: str
    curve: Callable[[Site, Expression, float], Made]
    product: Callable[[Site, float], Made]
    maximum: Callable[[Site, float], Made]
    by_pieces: bool  # a curve's cost grows like error^-1/2
    native: bool  # quotients and softmaxes are nodes of their own
    anchors: Counter | None = None  # how many tokens a curve needs

    def graph(self, outputs: Sequence[Expression], variables: Sequence[str], domain: Box) -> Graph:
        """The graph that this way builds from, on the domain."""
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


def differing_ways(
    outputs: Sequence[Expression], variables: Sequence[str], domain: Box
) -> list[str]:
    """The ways that differ here: without products one direct way is enough, and without curves
    there is nothing to anchor."""
    nodes = direct(1).graph(outputs, variables, domain).nodes
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


def recipe(most: int = MOST_PIECES) -> Way:
    """ReLU approximants, every ReLU a head, attention only: the route of the literature."""

    def curve(site: Site, expression: Expression, error: float) -> Made:
        return _soft_curve(site, expression, error, most)

    return Way("recipe", curve, _soft_product, _soft_maximum, True, False)


def feedforward() -> Way:
    """The same ReLU approximants with feed-forward layers: no softening, and no attention."""
    return Way("feedforward", _unit_curve, _unit_product, _unit_maximum, True, False)


def direct(heads: int) -> Way:
    """Softmax used for what it is; `heads` for each product."""

    def curve(site: Site, expression: Expression, error: float) -> Made:
        return _direct_curve(site, expression, error, heads)

    def product(site: Site, error: float) -> Made:
        return _direct_product(site, error, heads)

    name = "direct" if heads == 1 else f"direct-{heads}"
    return Way(name, curve, product, _direct_maximum, False, True)


def anchors() -> Way:
    """Every curve one head over anchors; products and maxima as in the direct route."""

    def product(site: Site, error: float) -> Made:
        return _direct_product(site, error, 1)

    def count(expression: Expression, pair: Pair, error: float) -> int:
        with _numerical_trouble(expression):
            return len(anchors_for(_of(expression, pair), error, most=_MOST_ANCHORS).anchors)

    return Way("anchors", _anchored_curve, product, _direct_maximum, False, True, count)


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


def _of(expression: Expression, pair: Pair) -> Curve:
    return Curve.of(expression, "t", *pair)


def _soft_curve(site: Site, expression: Expression, error: float, most: int) -> Made:
    program, node, form, pair = site.program, site.node, site.forms[0], site.ranges[0]
    if is_square(expression):
        return square_by_tents(program, node, form, pair, error, soft=True)
    return curve_by_soft_pieces(program, node, _of(expression, pair), form, error, most)


def _unit_curve(site: Site, expression: Expression, error: float) -> Made:
    program, node, form, pair = site.program, site.node, site.forms[0], site.ranges[0]
    if is_square(expression):
        return square_by_tents(program, node, form, pair, error, soft=False)
    return curve_by_units(program, node, _of(expression, pair), form, error)


def _direct_curve(site: Site, expression: Expression, error: float, heads: int) -> Made:
    program, node, form, pair = site.program, site.node, site.forms[0], site.ranges[0]
    if is_native(expression):
        return _native(site, expression, site.forms[0])
    if is_square(expression):
        return square_by_gates(program, node, form, pair, heads, error)
    with _numerical_trouble(expression):
        fit = sigmoids_for(_of(expression, pair), error)
    return curve_by_sigmoids(program, node, fit, form)


def _direct_product(site: Site, error: float, heads: int) -> Made:
    forms, ranges = (site.forms[0], site.forms[1]), (site.ranges[0], site.ranges[1])
    return product_by_gates(site.program, site.node, forms, ranges, heads, error)


def _anchored_curve(site: Site, expression: Expression, error: float) -> Made:
    if is_native(expression):
        return _native(site, expression, site.forms[0])
    with _numerical_trouble(expression):
        fit = fit_anchors(_of(expression, site.ranges[0]), site.tokens)
    if fit.error > error:
        raise PrecisionError(
            f"{site.tokens} anchors come within {fit.error:.3g} of {expression}, not {error:.3g}; "
            "ask for a larger error."
        )
    return curve_by_anchors(site.program, site.node, fit, site.forms[0], site.ranges[0])


def quotient(site: Site, expression: Expression, error: float) -> Made:
    """factor * curve(argument) in one layer: sigmoids of the argument, the factor as value."""
    if is_native(expression):
        return _native(site, expression, site.forms[1], site.forms[0])
    low, high = site.ranges[0]
    size = max(abs(low), abs(high), 1e-200)
    curve = _of(expression, site.ranges[1])
    with _numerical_trouble(expression):
        fit = sigmoids_for(curve, error / size, affine_values=False, linear_term=False)
    program, node = site.program, site.node
    return curve_by_sigmoids(program, node, fit, site.forms[1], site.forms[0], size)


def _native(site: Site, expression: Expression, argument: Form, factor: Form | None = None) -> Made:
    """sigmoid(x), or tanh(x) = 2 sigmoid(2 x) - 1, times a factor, by one head without error."""
    double = 2 if expression.operation == "tanh" else 1
    value = Form.of_number(1) if factor is None else factor
    maker = site.program.gate(argument, value, coldness=double, node=site.node, gain=double)
    row = site.program.row(None if factor is None else factor.times(1 - double))
    site.program.write(row, maker, double)
    shift = 1 - double if factor is None else 0
    return Made(Form.of_row(row).plus(shift), 0.0)


def _soft_product(site: Site, error: float) -> Made:
    forms, ranges = (site.forms[0], site.forms[1]), (site.ranges[0], site.ranges[1])
    return product_by_tents(site.program, site.node, forms, ranges, error, soft=True)


def _unit_product(site: Site, error: float) -> Made:
    forms, ranges = (site.forms[0], site.forms[1]), (site.ranges[0], site.ranges[1])
    return product_by_tents(site.program, site.node, forms, ranges, error, soft=False)


def _soft_maximum(site: Site, error: float) -> Made:
    return maximum_by_tree(site.program, site.node, site.forms, error, relu_by_gate)


def _unit_maximum(site: Site, error: float) -> Made:
    return maximum_by_tree(site.program, site.node, site.forms, error, relu_by_unit)


def _direct_maximum(site: Site, error: float) -> Made:
    """One head over n tokens where the arguments are affine in the input, a tree elsewhere."""
    if len(site.forms) > 2 and all(is_of_inputs(site.program, form) for form in site.forms):
        return maximum_by_head(site.program, site.node, site.forms, error, site.tokens)
    return _soft_maximum(site, error)


WAYS: dict[str, Callable[[], Way]] = {
    "direct": lambda: direct(1),
    "direct-2": lambda: direct(2),
    "direct-3": lambda: direct(3),
    "anchors": anchors,
    "recipe": recipe,
    "feedforward": feedforward,
}
