"""Which gadgets a route builds nodes with: the recipe's, direct ones, anchors, hidden units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import Box
from hardmax.languages import Apply, Expression, evaluate, postorder
from hardmax.lowering.approximants import (
    MOST_FOR_WAVES,
    MOST_PIECES,
    MOST_SIGMOIDS,
    Curve,
    anchors_for,
    fit_anchors,
    sigmoids_in_format,
)
from hardmax.lowering.gadgets import (
    MOST_HALF_WAVES,
    PI,
    Approximation,
    Site,
    curve_by_anchors,
    curve_by_sigmoids,
    curve_by_soft_pieces,
    curve_by_units,
    is_of_inputs,
    is_polynomial,
    maximum_by_head,
    maximum_by_tree,
    polynomial_by_pairs,
    product_by_gates,
    product_by_pair,
    product_by_tents,
    relu_by_gate,
    relu_by_unit,
    sigmoid_by_gate,
    square_by_gates,
    square_by_tents,
    wave_by_folding,
)
from hardmax.lowering.graph import (
    Analysis,
    CurveNode,
    Graph,
    MaximumNode,
    Node,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    T,
    as_line,
    build_graph,
    simplified,
    with_fixed,
    with_quotients,
)
from hardmax.lowering.sketch import Pair
from hardmax.numerics import FLOAT64, Format, Interval

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
    native: bool  # quotients and softmaxes are nodes of their own, sigmoid and tanh are exact
    anchors: Counter | None = None  # how many tokens a curve needs
    format: Format = FLOAT64  # in which fits have to be good
    folds: bool = False  # sines and cosines of many waves are nodes of their own
    multiplies: bool = False  # products, polynomials and maxima leave no error

    def graph(self, outputs: Sequence[Expression], variables: Sequence[str], domain: Box) -> Graph:
        """The graph that this route builds from, on the domain."""
        known = with_fixed(outputs, variables, domain)
        ends = dict(zip(variables, _ends(domain), strict=True))

        def apart(expression: Expression) -> bool:
            return self.folds and _half_waves(expression, ends) > MOST_HALF_WAVES

        built = build_graph(known, variables, native=self.native, apart=apart)
        graph = simplified(built, domain)
        merges = self.native and not (self.folds or self.multiplies)
        return with_quotients(graph) if merges else graph

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
    same = [*([] if multiplies else ["direct-2", "direct-3"]), *([] if curves else ["anchors"])]
    same += [] if multiplies or any(map(is_polynomial, curves)) else ["gated"]
    names = [name for name in ROUTE_GADGETS if name not in ("folded", *same)]
    folds = _folding_pays(outputs, dict(zip(variables, _ends(domain), strict=True)))
    return ["folded", *names] if folds else names


def is_square(curve: Expression) -> bool:
    return (
        isinstance(curve, Apply)
        and curve.operation == "power"
        and (curve.exponent == 2 and curve.arguments[0] is T)
    )


def is_native(curve: Expression) -> bool:
    """sigmoid and tanh of the argument itself: a softmax over two tokens, without any error."""
    return curve.operation in ("sigmoid", "tanh") and curve.arguments[0] is T


def is_exact(node: Node, gadgets: RouteGadgets) -> bool:
    """Whether a route builds a node without any error over the reals."""
    match node:
        case CurveNode(curve=curve):
            polynomial = gadgets.multiplies and is_polynomial(curve)
            return polynomial or (gadgets.native and is_native(curve))
        case QuotientNode(curve=curve):
            return gadgets.native and is_native(curve)
        case ProductNode() | MaximumNode():
            return gadgets.multiplies
    return isinstance(node, SoftmaxNode)


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


def direct(format: Format = FLOAT64, heads: int = 1, most: int = MOST_SIGMOIDS) -> RouteGadgets:
    """Softmax used for what it is; `heads` for each product, `most` for a curve of many waves.

    Fits are good in the format.
    """

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        if is_square(expression):
            return square_by_gates(site, error, heads)
        with _numerical_trouble(expression):
            bent = _curve(expression, site.ranges[0])
            fit = sigmoids_in_format(bent, error, format, most_for_waves=most)
        return curve_by_sigmoids(site, fit, site.forms[0])

    name = "direct" if heads == 1 else f"direct-{heads}"
    product = partial(product_by_gates, heads=heads)
    return RouteGadgets(name, curve, product, _direct_maximum, False, True, format=format)


def folded(format: Format = FLOAT64) -> RouteGadgets:
    """As the direct route, but sines and cosines of many waves are folded up first."""
    plain = direct(format, heads=1)

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        wave = _as_wave(expression)
        low, high = site.ranges[0]
        if wave is None or abs(wave[0]) * (Fraction(high) - Fraction(low)) <= MOST_HALF_WAVES * PI:
            return plain.curve(site, expression, error)
        with _numerical_trouble(expression):
            return wave_by_folding(site, *wave, error)

    return RouteGadgets(
        "folded", curve, plain.product, plain.maximum, False, True, format=format, folds=True
    )


def gated(format: Format = FLOAT64) -> RouteGadgets:
    """Gated units multiply and rectify, exactly; heads make the curves that are no polynomials."""
    plain = direct(format, heads=1)

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
        exact = polynomial_by_pairs(site, expression, format)
        return plain.curve(site, expression, error) if exact is None else exact

    product = partial(product_by_pair, format=format)
    maximum = partial(maximum_by_tree, rectify=relu_by_unit)
    return RouteGadgets(
        "gated", curve, product, maximum, False, True, format=format, multiplies=True
    )


def _as_wave(curve: Expression) -> tuple[Fraction, Fraction] | None:
    """(a, b) of a curve that is cos(a t + b); a sine is that a quarter of a wave later."""
    if curve.operation not in ("sin", "cos"):
        return None
    line = as_line(curve.arguments[0])
    if line is None or not line[0]:
        return None
    return line[0], line[1] - (PI / 2 if curve.operation == "sin" else 0)


def _half_waves(expression: Expression, ends: Mapping[str, Interval]) -> float:
    """How many of them a sine or a cosine has on the domain at most; 0 for what is neither.

    Nor is anything said of waves of computed numbers in several variables, sin(x*y): the checker
    would have to follow the folds by boxes in all of them, and leaves that undecided.
    """
    if expression.operation not in ("sin", "cos"):
        return 0.0
    (argument,) = expression.arguments
    if len(argument.variables()) > 1 and not _is_affine(argument):
        return 0.0
    inner = evaluate(argument, ends, "interval")
    return float(inner.hi - inner.lo) / float(PI)


def _is_affine(expression: Expression) -> bool:
    """Whether it is written as an affine function of the variables."""
    if not expression.arguments:
        return True
    moving = [part for part in expression.arguments if part.variables()]
    if expression.operation == "add" or not moving:
        return all(map(_is_affine, moving))
    if expression.operation == "divide" and expression.arguments[1].variables():
        return False
    is_scaled = expression.operation in ("multiply", "divide") and len(moving) == 1
    return is_scaled and _is_affine(moving[0])


def longest_wave(outputs: Sequence[Expression], variables: Sequence[str], domain: Box) -> float:
    """Half-waves of the longest sine or cosine on the domain."""
    ends = dict(zip(variables, _ends(domain), strict=True))
    return max((_half_waves(part, ends) for part in postorder(*outputs)), default=0.0)


def _folding_pays(outputs: Sequence[Expression], ends: Mapping[str, Interval]) -> bool:
    """Whether long waves, each folded by itself, take fewer heads than sums that follow them all.

    A wave of l half-waves is log2(l) folds and two heads; a sum of sigmoids follows all waves of
    the same variables at once, with one head for every two half-waves of the longest.
    """
    folded, followed = 0.0, dict[frozenset[str], float]()
    for part in postorder(*outputs):
        length = _half_waves(part, ends)
        if length > MOST_HALF_WAVES:
            folded += np.log2(length) + 2.0
            names = frozenset(part.variables())
            followed[names] = max(followed.get(names, 0.0), length / 2.0 + 1.0)
    return 0.0 < folded < sum(followed.values())


def _ends(domain: Box) -> list[Interval]:
    return [Interval(low, high) for low, high in zip(domain.low, domain.high, strict=True)]


def anchors(format: Format = FLOAT64, most: int = MOST_FOR_WAVES) -> RouteGadgets:
    """Every curve one head over anchors, `most` for many waves; the rest as in the direct route."""

    def curve(site: Site, expression: Expression, error: float) -> Approximation:
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
            limits = {"most": _MOST_ANCHORS, "most_for_waves": most}
            return len(
                anchors_for(_curve(expression, pair), error, **limits, format=format).anchors
            )

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
    "folded": folded,
    "anchors": anchors,
    "recipe": recipe,
    "feedforward": feedforward,
    "gated": gated,
}
