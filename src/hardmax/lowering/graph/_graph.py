"""From expressions to a graph of inputs, affine maps, curves, products and maxima.

Common subexpressions are one node, because equal expressions are one object. Everything that
depends on one inner value only becomes a single *curve*: sin(x)*exp(-y)/(1 + x**2) is a curve of
x times a curve of y, and any polynomial of one variable is one node. Affine operations are one
node too, and cost nothing later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from fractions import Fraction

from hardmax.languages import (
    Apply,
    Expression,
    Number,
    Variable,
    divide,
    maximum,
    multiply,
    postorder,
    split_coefficient,
)
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
    as_softmax,
    constant_value,
    without_unread,
)
from hardmax.numerics import FUNCTIONS, record_of

T = Variable("t")


def build_graph(
    outputs: Sequence[Expression],
    variables: Sequence[str],
    *,
    native: bool = False,
    apart: Callable[[Expression], bool] = lambda _: False,
) -> Graph:
    """The graph of several outputs over the given variables.

    With `native`, quotients of sums of exponentials stay one node, because a softmax is one. A
    function of one inner value that is `apart` is a curve by itself, and no part of a larger one.
    """
    builder = _Builder(outputs, variables, native, apart)
    ends = tuple(builder.node(expression) for expression in outputs)
    return builder.pruned(ends)


class _Builder:
    def __init__(
        self,
        outputs: Sequence[Expression],
        variables: Sequence[str],
        native: bool,
        apart: Callable[[Expression], bool],
    ) -> None:
        self.uses = Counter(outputs)
        for expression in postorder(*outputs):
            self.uses.update(expression.arguments)
        self.larger: dict[frozenset[int], int] = {}
        self.variables, self.native, self.apart = tuple(variables), native, apart
        self.nodes: list[Node] = [InputNode(Variable(v), i) for i, v in enumerate(variables)]
        self.known: dict[Expression, int] = {Variable(v): i for i, v in enumerate(variables)}
        self.peeled: dict[Expression, tuple[Expression | None, Expression]] = {}

    def node(self, expression: Expression) -> int:
        if expression not in self.known:
            self.known[expression] = self._make(expression)
        return self.known[expression]

    def pruned(self, outputs: tuple[int, ...]) -> Graph:
        """Without nodes that no output needs; inputs stay."""
        return without_unread(Graph(tuple(self.nodes), outputs))

    def _add(self, node: Node) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _make(self, expression: Expression) -> int:
        if not expression.variables():
            return self._add(LinearNode(expression, (), (), constant_value(expression)))
        softmax = as_softmax(expression, self.variables) if self.native else None
        if softmax is not None:
            every = tuple(range(len(self.variables)))
            return self._add(SoftmaxNode(expression, every, *softmax))
        base, curve = self._peel(expression)
        if base is not None and base is not expression:
            return self._curve(expression, self.node(base), curve)
        if self.apart(expression):
            return self._alone(expression)
        match expression.operation:
            case "add":
                return self._sum(expression)
            case "multiply" | "divide":
                return self._product(expression)
            case "maximum":
                return self._maximum(expression, self._merged(expression))
            case "minimum":
                return self._minimum(expression, self._merged(expression))
        pieces = record_of(expression.operation).pieces
        assert pieces, f"no node for {expression.operation}"
        (u,) = expression.arguments
        return self._maximum(expression, [piece.slope * u + piece.offset for piece in pieces])

    def _alone(self, expression: Expression) -> int:
        """A function of one argument as a curve of what that is affine in."""
        (argument,) = expression.arguments
        base, inner = self._peel(argument)
        assert base is not None, "constants are no curves"
        if as_line(inner) is None:
            base, inner = argument, T
        return self._curve(expression, self.node(base), _reapplied(expression, [inner]))

    def _curve(self, expression: Expression, base: int, curve: Expression) -> int:
        line = as_line(curve)
        if line is None:
            return self._add(CurveNode(expression, base, curve))
        return self._add(LinearNode(expression, (base,), (line[0],), line[1]))

    def _scaled(self, expression: Expression, factor: Fraction, argument: int) -> int:
        if factor == 1:
            return argument
        return self._add(LinearNode(expression, (argument,), (factor,), Fraction(0)))

    def _sum(self, expression: Expression) -> int:
        """Terms of one base are one curve; what is left is affine."""
        constant, by_base = Fraction(0), dict[Expression, list[Expression]]()
        for term in expression.arguments:
            if not term.variables():
                constant += constant_value(term)
                continue
            base, _ = self._peel(term)
            by_base.setdefault(base if base is not None else term, []).append(term)
        coefficients: dict[int, Fraction] = {}
        for terms in by_base.values():
            factor, rest = split_coefficient(terms[0])
            joined = rest if len(terms) == 1 else Apply("add", terms)
            factor = factor if len(terms) == 1 else Fraction(1)
            index = self.node(joined)
            coefficients[index] = coefficients.get(index, Fraction(0)) + factor
        return self._add(
            LinearNode(expression, tuple(coefficients), tuple(coefficients.values()), constant)
        )

    def _product(self, expression: Expression) -> int:
        """Factors of one base are one curve; the rest is multiplied pair by pair."""
        coefficient, factors = Fraction(1), list(self._factors(expression))
        by_base: dict[Expression, list[Expression]] = {}
        for factor in factors:
            number, rest = split_coefficient(factor)
            coefficient *= number
            if not rest.variables():
                coefficient *= constant_value(rest)
                continue
            base, _ = self._peel(rest)
            by_base.setdefault(base if base is not None else rest, []).append(rest)
        parts = [multiply(*group) for group in by_base.values()]
        indices = [self.node(part) for part in parts]
        while len(indices) > 1:
            pairs = [indices[i : i + 2] for i in range(0, len(indices), 2)]
            joined = [parts[i : i + 2] for i in range(0, len(parts), 2)]
            parts = [multiply(*group) for group in joined]
            indices = [
                pair[0] if len(pair) == 1 else self._pair(part, pair)
                for part, pair in zip(parts, pairs, strict=True)
            ]
        return self._scaled(expression, coefficient, indices[0])

    def _factors(self, expression: Expression) -> list[Expression]:
        """The factors of products and quotients, a denominator as its reciprocal."""
        if expression.operation == "multiply":
            return [f for argument in expression.arguments for f in self._factors(argument)]
        if expression.operation == "divide" and not (
            self.native and as_softmax(expression, self.variables)
        ):
            above, below = expression.arguments
            return [*self._factors(above), *(_reciprocal(f) for f in self._factors(below))]
        return [expression]

    def _pair(self, expression: Expression, pair: list[int]) -> int:
        if expression not in self.known:
            self.known[expression] = self._add(ProductNode(expression, (pair[0], pair[1])))
        return self.known[expression]

    def _merged(self, expression: Expression) -> list[Expression]:
        """The arguments of an extreme, with those of inner ones that nobody else uses."""
        merged: list[Expression] = []
        for argument in expression.arguments:
            inner = argument.operation == expression.operation and self.uses[argument] == 1
            merged += self._merged(argument) if inner else [argument]
        return merged

    def _minimum(self, expression: Expression, arguments: Sequence[Expression]) -> int:
        """Of two by the head of their maximum; of more as a maximum turned upside down."""
        if len(arguments) > 2:
            mirrored = self._maximum(-expression, [-a for a in arguments])
            return self._scaled(expression, Fraction(-1), mirrored)
        a, b = (self.node(argument) for argument in arguments)
        larger = self._maximum(maximum(*arguments), arguments)
        return a if a == b else self._add(MinimumNode(expression, (a, b, larger)))

    def _maximum(self, expression: Expression, arguments: Sequence[Expression]) -> int:
        indices = tuple(dict.fromkeys(self.node(a) for a in arguments))
        if len(indices) == 1:
            return indices[0]
        key = frozenset(indices)
        if key not in self.larger:
            self.larger[key] = self._add(MaximumNode(expression, indices))
        return self.larger[key]

    def _peel(self, expression: Expression) -> tuple[Expression | None, Expression]:
        """(base, curve) with expression = curve(base); (itself, t) where it has no single base."""
        if expression not in self.peeled:
            self.peeled[expression] = self._peel_once(expression)
        return self.peeled[expression]

    def _peel_once(self, expression: Expression) -> tuple[Expression | None, Expression]:
        if not expression.variables():
            return None, expression
        if isinstance(expression, Variable) or _has_kink(expression) or self.apart(expression):
            return expression, T
        parts = [self._peel(argument) for argument in expression.arguments]
        bases = {base for base, _ in parts if base is not None}
        if len(bases) != 1:
            return expression, T
        (base,) = bases
        names = {argument: curve for argument, (_, curve) in zip(expression.arguments, parts)}  # noqa: B905
        return base, _reapplied(expression, [names[a] for a in expression.arguments])


def _has_kink(expression: Expression) -> bool:
    if expression.operation in ("minimum", "maximum"):
        return True
    return expression.operation in FUNCTIONS and FUNCTIONS[expression.operation].has_kinks


def _reapplied(expression: Expression, arguments: list[Expression]) -> Expression:
    assert isinstance(expression, Apply)
    return Apply(expression.operation, arguments, expression.exponent)


def _reciprocal(expression: Expression) -> Expression:
    return divide(Number(1), expression)


def as_line(curve: Expression) -> tuple[Fraction, Fraction] | None:
    """(slope, constant) of a curve that is written as an affine function."""
    if curve is T:
        return Fraction(1), Fraction(0)
    if isinstance(curve, Number):
        return Fraction(0), curve.value
    lines = [as_line(argument) for argument in curve.arguments]
    if any(line is None for line in lines):
        return None
    known = [line for line in lines if line is not None]
    if curve.operation == "add":
        return sum((a for a, _ in known), Fraction(0)), sum((b for _, b in known), Fraction(0))
    if curve.operation == "multiply":
        slope, constant = Fraction(0), Fraction(1)
        for a, b in known:
            if slope and a:
                return None
            slope, constant = slope * b + constant * a, constant * b
        return slope, constant
    return None


def opaque_graph(names: Sequence[str], variables: Sequence[str]) -> Graph:
    """One node per output, over all variables."""
    nodes: list[Node] = [InputNode(Variable(v), i) for i, v in enumerate(variables)]
    every = tuple(range(len(variables)))
    nodes += [OpaqueNode(name, every) for name in names]
    return Graph(tuple(nodes), tuple(range(len(variables), len(nodes))))


def with_quotients(graph: Graph) -> Graph:
    """Products with a curve that only they read, as one node where that saves a layer.

    factor * curve(argument) takes one layer after its arguments; it saves one if the factor is
    there as soon as the argument is.
    """
    depth: list[int] = []
    for node in graph.nodes:
        below = max((depth[a] for a in node.arguments), default=0)
        depth.append(below + (not isinstance(node, InputNode | LinearNode)))
    nodes = list(graph.nodes)
    for i, node in enumerate(graph.nodes):
        if isinstance(node, ProductNode):
            for factor, other in (node.arguments, node.arguments[::-1]):
                curve = graph.nodes[other]
                alone = graph.consumers(other) == [i] and other not in graph.outputs
                if not (isinstance(curve, CurveNode) and alone and factor != other):
                    continue
                if depth[factor] <= depth[curve.argument]:
                    arguments = (factor, curve.argument)
                    nodes[i] = QuotientNode(node.expression, arguments, curve.curve)
                    break
    return without_unread(Graph(tuple(nodes), graph.outputs))
