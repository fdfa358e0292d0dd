"""The kinds of nodes a function's graph is made of."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hardmax.languages import Expression


@dataclass(frozen=True, eq=False)
class InputNode:
    """One variable."""

    expression: Expression
    variable: int

    @property
    def arguments(self) -> tuple[int, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class LinearNode:
    """constant + sum of coefficient * argument."""

    expression: Expression
    arguments: tuple[int, ...]
    coefficients: tuple[Fraction, ...]
    constant: Fraction


@dataclass(frozen=True, eq=False)
class CurveNode:
    """A smooth function of one argument, written in the variable t.

    The curve may stand for another that is infinitely steep; `given` is how far it is from that.
    """

    expression: Expression
    argument: int
    curve: Expression
    given: float = 0.0

    @property
    def arguments(self) -> tuple[int, ...]:
        return (self.argument,)


@dataclass(frozen=True, eq=False)
class ProductNode:
    """The product of two arguments."""

    expression: Expression
    arguments: tuple[int, int]


@dataclass(frozen=True, eq=False)
class MaximumNode:
    """The maximum of two or more arguments."""

    expression: Expression
    arguments: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class MinimumNode:
    """The minimum of two arguments, a + b - max(a, b): it shares the maximum's head.

    The last argument is the node of the maximum.
    """

    expression: Expression
    arguments: tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class QuotientNode:
    """factor * curve(argument): a product whose second factor is a curve that nobody else reads."""

    expression: Expression
    arguments: tuple[int, int]  # factor, argument
    curve: Expression


@dataclass(frozen=True, eq=False)
class SoftmaxNode:
    """sum_i values[i] e^(l_i) / sum_i e^(l_i) with affine l_i: what a head computes natively.

    scores[i] lists the weights of the variables and the constant of l_i.
    """

    expression: Expression
    arguments: tuple[int, ...]  # the variables
    scores: tuple[tuple[float, ...], ...]
    values: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class OpaqueNode:
    """One output of a function that is taken as a whole; its expression is only a name."""

    expression: object
    arguments: tuple[int, ...]


Node = (
    InputNode
    | LinearNode
    | CurveNode
    | ProductNode
    | MaximumNode
    | MinimumNode
    | QuotientNode
    | SoftmaxNode
    | OpaqueNode
)
NONLINEAR = (CurveNode, ProductNode, MaximumNode, QuotientNode, SoftmaxNode)


@dataclass(frozen=True, eq=False)
class Graph:
    """Nodes in an order in which arguments come first, and which of them are the outputs."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]

    def consumers(self, index: int) -> list[int]:
        return [i for i, node in enumerate(self.nodes) if index in node.arguments]


def without_unread(graph: Graph) -> Graph:
    needed = {*graph.outputs, *(i for i, n in enumerate(graph.nodes) if isinstance(n, InputNode))}
    for i in reversed(range(len(graph.nodes))):
        if i in needed:
            needed |= set(graph.nodes[i].arguments)
    number = {old: new for new, old in enumerate(sorted(needed))}
    nodes = tuple(_renumbered(graph.nodes[i], number) for i in sorted(needed))
    return Graph(nodes, tuple(number[i] for i in graph.outputs))


def _renumbered(node: Node, number: dict[int, int]) -> Node:
    match node:
        case InputNode():
            return node
        case LinearNode():
            new = tuple(number[i] for i in node.arguments)
            return LinearNode(node.expression, new, node.coefficients, node.constant)
        case CurveNode():
            return CurveNode(node.expression, number[node.argument], node.curve)
        case ProductNode():
            a, b = node.arguments
            return ProductNode(node.expression, (number[a], number[b]))
        case MaximumNode():
            return MaximumNode(node.expression, tuple(number[i] for i in node.arguments))
        case MinimumNode():
            a, b, larger = node.arguments
            return MinimumNode(node.expression, (number[a], number[b], number[larger]))
        case QuotientNode():
            a, b = node.arguments
            return QuotientNode(node.expression, (number[a], number[b]), node.curve)
        case SoftmaxNode():
            new = tuple(number[i] for i in node.arguments)
            return SoftmaxNode(node.expression, new, node.scores, node.values)
        case OpaqueNode():
            return OpaqueNode(node.expression, tuple(number[i] for i in node.arguments))
