"""The kinds of nodes a function's graph is made of, and what is seen in an expression.

A quotient of sums of exponentials may be a softmax as it stands. A number may be written as an
expression, such as sqrt(2): it becomes a rational of many bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hardmax._errors import DomainError
from hardmax.languages import Expression, Number, Variable, ball_value, split_coefficient
from hardmax.numerics import precision

Scores = tuple[tuple[float, ...], ...]
_LOGARITHM_BITS = 200  # the constant and the logarithm may cancel
_NUMBER_BITS = 300  # far beyond the claims, which speak of float64


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


# ---- quotients that are a softmax ----------------------------------------------------------------


def as_softmax(
    expression: Expression, variables: Sequence[str]
) -> tuple[Scores, tuple[float, ...]] | None:
    """(scores, values) if it is sum a_i e^(l_i) / sum b_i e^(l_i), l_i affine and all b_i > 0.

    Token i then scores l_i + ln b_i and holds a_i/b_i; a constant is a multiple of e^0.
    """
    if expression.operation != "divide":
        return None
    above, below = (_exponentials(part, variables) for part in expression.arguments)
    if above is None or below is None or len(below) < 2 or not set(above) <= set(below):
        return None
    if any(weight <= 0 for weight in below.values()):
        return None
    scores = tuple(
        (*map(float, line[:-1]), _with_logarithm(line[-1], weight))
        for line, weight in below.items()
    )
    return scores, tuple(float(above.get(line, Fraction(0)) / below[line]) for line in below)


def _with_logarithm(constant: Fraction, weight: Fraction) -> float:
    """constant + ln weight, rounded once: the two may cancel."""
    from flint import arb, fmpq

    with precision(_LOGARITHM_BITS):
        logarithm = arb(fmpq(weight.numerator, weight.denominator)).log()
        return float((arb(fmpq(constant.numerator, constant.denominator)) + logarithm).mid())


def _exponentials(
    expression: Expression, variables: Sequence[str]
) -> dict[tuple[Fraction, ...], Fraction] | None:
    """Exponents (weights of the variables, then the constant) and their coefficients."""
    terms = expression.arguments if expression.operation == "add" else (expression,)
    found: dict[tuple[Fraction, ...], Fraction] = {}
    for term in terms:
        coefficient, rest = split_coefficient(term)
        if isinstance(rest, Number):
            line: tuple[Fraction, ...] | None = (Fraction(0),) * (len(variables) + 1)
            coefficient *= rest.value
        elif rest.operation == "exp":
            line = _affine(rest.arguments[0], variables)
        else:
            return None
        if line is None:
            return None
        found[line] = found.get(line, Fraction(0)) + coefficient
    return found


def _affine(expression: Expression, variables: Sequence[str]) -> tuple[Fraction, ...] | None:
    weights = [Fraction(0)] * (len(variables) + 1)
    terms = expression.arguments if expression.operation == "add" else (expression,)
    for term in terms:
        coefficient, rest = split_coefficient(term)
        if isinstance(rest, Number):
            weights[-1] += coefficient * rest.value
        elif isinstance(rest, Variable):
            weights[list(variables).index(rest.name)] += coefficient
        else:
            return None
    return tuple(weights)


# ---- numbers -------------------------------------------------------------------------------------


def constant_value(expression: Expression) -> Fraction:
    """The value of an expression without variables."""
    if isinstance(expression, Number):
        return expression.value
    return curve_value(expression, Fraction(0))


def curve_value(curve: Expression, at: Fraction) -> Fraction:
    """curve(at) for a curve in t."""
    from flint import arb, fmpq

    with precision(_NUMBER_BITS):
        ball = ball_value(curve, {"t": arb(fmpq(at.numerator, at.denominator))})
        if not ball.is_finite():
            raise DomainError(f"{curve} is not defined at t = {float(at)!r}.")
        mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
