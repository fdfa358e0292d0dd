"""A graph on its domain: what is constant there is a number, what never wins is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hardmax.core import Box
from hardmax.languages import Expression, Number, Variable, substitute
from hardmax.lowering.graph._analysis import analyse
from hardmax.lowering.graph._constants import curve_value
from hardmax.lowering.graph._nodes import (
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
    without_unread,
)
from hardmax.numerics import Interval


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
