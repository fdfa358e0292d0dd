"""A graph on its domain: what is constant is a number, what never wins is gone, roots are tame.

Roots at 0 are infinitely steep there, and are replaced by curves that are merely steep.
sqrt(x^2 + y^2) is as tame as can be, but as a graph it is the root of a computed number, and
whatever error that number has near 0 is magnified without bound. Only the modulus of continuity
helps: sqrt(u + e) - sqrt(u) <= sqrt(e). In a calculus of slopes that reads: the root becomes

    sqrt(s softplus(u/s)) - c,        s > 0 small,

which is defined for all u, also for those that an error pushes below 0, differs from the root by at
most 0.42 sqrt(s) if c is in the middle, and is nowhere steeper than 0.32/sqrt(s) (`soft_root`). The
difference is proved for the very curve, not by this formula, and is the node's `given` error.

What was tried instead: sqrt(u + s) needs errors below s, and gadgets are built for ranges that are
wider than that; max(u, s) under the root has a kink, for which no slope is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hardmax.core import Box
from hardmax.languages import (
    Apply,
    Expression,
    Number,
    Variable,
    evaluate,
    multiply,
    postorder,
    softplus,
    sqrt,
    substitute,
)
from hardmax.lowering.approximants import Curve, supremum
from hardmax.lowering.graph._analysis import analyse
from hardmax.lowering.graph._nodes import (
    NONLINEAR,
    CurveNode,
    Graph,
    InputNode,
    LinearNode,
    MaximumNode,
    MinimumNode,
    Node,
    OpaqueNode,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    curve_value,
    without_unread,
)
from hardmax.numerics import FAINT, Interval

_SHARE = 0.4  # of the error for softening: with less, the rest is steeper, and rounding grows
_ATTEMPTS = 4


def with_fixed(
    outputs: Sequence[Expression], variables: Sequence[str], domain: Box
) -> list[Expression]:
    """The outputs with every variable whose range is one number replaced by it."""
    ends = zip(variables, domain.low, domain.high, strict=True)
    fixed: dict[Expression, Expression] = {
        Variable(name): Number(float(low)) for name, low, high in ends if low == high
    }
    return [substitute(output, fixed) for output in outputs] if fixed else list(outputs)


def simplified(graph: Graph, domain: Box) -> Graph:
    """The same function on the domain, with constants folded and beaten arguments left out.

    max(a, b) is a wherever a >= b throughout; ranges of the exact values decide, so nothing is
    lost. A node that has become a multiple of another, or a number, is affine and costs nothing.
    """
    ranges = analyse(graph, domain).ranges
    rewriter = _Rewriter([(float(r.lo.min()), float(r.hi.max())) for r in ranges], ranges)
    for number, node in enumerate(graph.nodes):
        rewriter.add(number, node)
    outputs = tuple(rewriter.new[end] for end in graph.outputs)
    return without_unread(Graph(tuple(rewriter.nodes), outputs))


class _Rewriter:
    def __init__(self, hulls: list[tuple[float, float]], ranges: list[Interval]) -> None:
        self.hulls, self.ranges = hulls, ranges
        self.nodes: list[Node] = []
        self.new: dict[int, int] = {}

    def add(self, number: int, node: Node) -> None:
        moved = self._moved(node)
        if isinstance(moved, int):
            self.new[number] = moved
            return
        self.nodes.append(moved)
        self.new[number] = len(self.nodes) - 1

    def _constant(self, index: int) -> Fraction | None:
        node = self.nodes[index]
        return node.constant if isinstance(node, LinearNode) and not node.arguments else None

    def _moved(self, node: Node) -> Node | int:
        arguments = tuple(self.new[a] for a in node.arguments)
        match node:
            case LinearNode():
                return self._linear(node, arguments)
            case ProductNode():
                return self._product(node, arguments)
            case CurveNode():
                known = self._constant(arguments[0])
                if known is None:
                    return replace(node, argument=arguments[0])
                return LinearNode(node.expression, (), (), curve_value(node.curve, known))
            case MaximumNode():
                winners = [a for a in node.arguments if not self._beaten(a, node.arguments)]
                kept = tuple(dict.fromkeys(self.new[a] for a in winners))
                return kept[0] if len(kept) == 1 else replace(node, arguments=kept)
            case MinimumNode():
                return self._minimum(node, arguments)
            case InputNode():
                return node
            case SoftmaxNode() | OpaqueNode():
                return replace(node, arguments=arguments)
            case QuotientNode():
                return replace(node, arguments=(arguments[0], arguments[1]))

    def _linear(self, node: LinearNode, arguments: tuple[int, ...]) -> Node | int:
        weights: dict[int, Fraction] = {}
        constant = node.constant
        for argument, coefficient in zip(arguments, node.coefficients, strict=True):
            known = self._constant(argument)
            if known is None:
                weights[argument] = weights.get(argument, Fraction(0)) + coefficient
            else:
                constant += coefficient * known
        weights = {argument: weight for argument, weight in weights.items() if weight}
        if list(weights.values()) == [1] and not constant:
            return next(iter(weights))
        return LinearNode(node.expression, tuple(weights), tuple(weights.values()), constant)

    def _product(self, node: ProductNode, arguments: tuple[int, ...]) -> Node | int:
        for this, other in (arguments, arguments[::-1]):
            known = self._constant(this)
            if known is not None:
                scaled = LinearNode(node.expression, (other,), (known,), Fraction(0))
                return self._linear(scaled, (other,))
        return ProductNode(node.expression, (arguments[0], arguments[1]))

    def _minimum(self, node: MinimumNode, arguments: tuple[int, ...]) -> Node | int:
        a, b, larger = arguments
        first, second, _ = node.arguments
        if a == b or self._beaten(first, (first, second)):
            return a
        if self._beaten(second, (first, second)):
            return b
        return MinimumNode(node.expression, (a, b, larger))

    def _beaten(self, argument: int, arguments: Sequence[int]) -> bool:
        """Whether another argument is at least as large on every box; of equals the first stays."""
        mine = self.ranges[argument]
        for other in arguments:
            theirs = self.ranges[other]
            if other != argument and bool((theirs.lo >= mine.hi).all()):
                equal = bool((mine.lo >= theirs.hi).all())
                if not equal or arguments.index(other) < arguments.index(argument):
                    return True
        return False


# ---- roots at 0 ----------------------------------------------------------------------------------


def softened(graph: Graph, domain: Box, error: float) -> Graph:
    """The graph with every root that is infinitely steep in a computed number softened.

    From the outputs inward, so that what is read further on is tame already. A root of an exact
    number (an input, a sum of inputs) has no error to magnify, and stays.
    """
    for number in reversed(range(len(graph.nodes))):
        node = graph.nodes[number]
        if isinstance(node, CurveNode) and _roots(node.curve) and _is_computed(graph, node):
            graph = _with_soft_curve(graph, number, node, domain, error)
    return graph


def softening(graph: Graph, domain: Box) -> float:
    """What softened roots alone do to the outputs: so much of an error is spent already."""
    if not any(isinstance(node, CurveNode) and node.given for node in graph.nodes):
        return 0.0
    return analyse(graph, domain).total({})[0]


def _is_computed(graph: Graph, node: CurveNode) -> bool:
    """Whether the argument depends on something that is approximated."""
    reached = {node.argument}
    for number in range(node.argument, -1, -1):
        if number in reached:
            if isinstance(graph.nodes[number], NONLINEAR):
                return True
            reached |= set(graph.nodes[number].arguments)
    return False


def _roots(curve: Expression) -> list[Apply]:
    """The parts of a curve that are roots: x**p with 0 < p < 1."""
    return [
        part
        for part in postorder(curve)
        if isinstance(part, Apply)
        and (part.operation == "sqrt" or (part.operation == "power" and 0 < part.exponent < 1))
    ]


def _with_soft_curve(
    graph: Graph, number: int, node: CurveNode, domain: Box, error: float
) -> Graph:
    analysis = analyse(graph, domain)
    if bool(np.isfinite(analysis.partials[number][0]).all()):
        return graph
    allowed = _SHARE * error / max(analysis.effect(number), FAINT)
    soft = soft_curve(node.curve, analysis.range(node.argument), allowed)
    if soft is None:
        return graph  # and the slope is found to be infinite
    curve, given = soft
    nodes = list(graph.nodes)
    nodes[number] = replace(node, curve=curve, given=given)
    return Graph(tuple(nodes), graph.outputs)


def soft_curve(
    curve: Expression, ends: tuple[float, float], allowed: float
) -> tuple[Expression, float] | None:
    """A curve in t that is steep at most, and how far it is from the given one at most.

    None if no softness was found that stays within what is allowed.
    """
    touching = [root for root in _roots(curve) if _reaches_zero(root, ends)]
    low, high = ends
    if any(root.arguments[0] is Variable("t") for root in touching):
        low = max(low, 0.0)  # the curve is defined where its argument truly is
    if not touching or not low < high:
        return None
    points = np.concatenate([[low], low + (high - low) * np.geomspace(1e-18, 1.0, 2000)])
    points = np.clip(points, low, high)
    exactly = np.asarray(evaluate(curve, {"t": points}, "float"))
    softness = 4.0 ** np.floor(0.5 * np.log2(high - low))  # its root is a float, too
    attempts = _ATTEMPTS
    while attempts and softness > 1e-30 * (high - low):
        soft = _with_softness(curve, touching, Fraction(softness))
        moved = np.asarray(evaluate(soft, {"t": points}, "float")) - exactly
        middle = 0.5 * (float(moved.max()) + float(moved.min()))
        if float(np.ptp(moved)) <= 2.0 * allowed:
            attempts -= 1
            centred = soft - Number(Fraction(middle))
            given = _largest_difference(centred, curve, low, high)
            if given <= 1.5 * allowed:
                return centred, given
        softness *= 0.25
    return None


def _reaches_zero(root: Apply, ends: tuple[float, float]) -> bool:
    t = Interval(np.array(ends[0]), np.array(ends[1]))
    return not bool(evaluate(root.arguments[0], {"t": t}, "interval").lo > 0.0)


def _with_softness(curve: Expression, roots: list[Apply], softness: Fraction) -> Expression:
    """With u -> s softplus(u/s) under each root; the square root has a function of its own."""
    soft = {}
    for root in roots:
        inner = multiply(1 / softness, root.arguments[0])
        if root.operation == "sqrt":
            soft[root] = multiply(sqrt(Number(softness)), Apply("soft_root", [inner]))
        else:
            positive = multiply(softness, softplus(inner))
            soft[root] = Apply(root.operation, [positive], root.exponent)
    return substitute(curve, dict(soft.items()))


def _largest_difference(soft: Expression, curve: Expression, low: float, high: float) -> float:
    one, other = (Curve.of(each, "t", low, high) for each in (soft, curve))
    return supremum(lambda x: one.ball(x) - other.ball(x), low, high, tolerance=0.1)[1]
