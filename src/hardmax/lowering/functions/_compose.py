"""From a graph to a proposal: split the error over the nodes, build each, and add everything up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import MARGIN, Box
from hardmax.languages import Function
from hardmax.lowering.functions._anchored import softmax_by_head
from hardmax.lowering.functions._made import Made, Pair
from hardmax.lowering.functions._proposal import Proposal, too_small
from hardmax.lowering.functions._ways import Site, Way, is_native, quotient
from hardmax.lowering.functions._witness import Whereabouts
from hardmax.lowering.graph import (
    NONLINEAR,
    Analysis,
    CurveNode,
    Graph,
    InputNode,
    LinearNode,
    MaximumNode,
    MinimumNode,
    Node,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    analyse,
    softened,
    softening,
)
from hardmax.lowering.stream import Form, Program, reuse_rows, without
from hardmax.numerics import FAINT

_ATTEMPTS = 6


def compose(
    target: Function, domain: Box, error: float, way: Way, *, dtype: str = "float64"
) -> Proposal:
    """Lower a graph along one way to within `error`, rounding in `dtype` included.

    If rounding forbids it, larger errors are tried, so that the refusal can name one that works.
    """
    graph = softened(way.graph(target.expressions, target.variables, domain), domain, error)
    proposal = _attempted(target, graph, domain, error, way, dtype)
    if proposal is not None:
        return proposal
    raise too_small(error, _first_that_works(target, graph, domain, error, way, dtype), way.name)


def _first_that_works(
    target: Function, graph: Graph, domain: Box, error: float, way: Way, dtype: str
) -> float:
    """A larger error that this way can promise; infinity if none was found."""
    for power in (1, 2, 3, 4, 6, 8, 12):
        larger = float(f"{error * 10.0**power:.0e}")
        try:
            if _attempted(target, graph, domain, larger, way, dtype) is not None:
                return larger
        except PrecisionError:
            continue
    return float("inf")


def _attempted(
    target: Function, graph: Graph, domain: Box, error: float, way: Way, dtype: str
) -> Proposal | None:
    """A proposal within the error, or None where rounding takes too much.

    Rounding grows as the approximation gets better (a warm head multiplies by 1/coldness), so
    approximation first gets nearly everything, and then what the rounding seen leaves of it.
    """
    weights = _weights(graph, analyse(graph, domain), way)
    whole, share = error / (1 + MARGIN), 0.9995
    for attempt in range(_ATTEMPTS):
        try:
            proposal = _within(target, graph, domain, share * whole, way, weights)
        except PrecisionError:
            if attempt == 0:
                raise
            break
        bound = proposal.bound(dtype)
        if bound <= whole:
            return proposal
        left = 1 - 1.2 * (bound - proposal.approximation) / whole
        share = min(max(left, 0.2), 0.97 * share) if np.isfinite(bound) else 0.3 * share
        if share < 0.02:
            break
    return None


def _within(
    target: Function, graph: Graph, domain: Box, budget: float, way: Way, weights: dict[int, float]
) -> Proposal:
    """Split a budget, build, and correct the split until what was built fits.

    Where maxima make the bound better than the sum of its parts, there is room to spare, and the
    split is made larger once.
    """
    analysis = analyse(graph, domain)
    scale, best = 0.9999 * (1.0 - softening(graph, domain) / budget), None
    for _ in range(6):
        errors = _split(analysis, weights, budget * scale)
        analysis = analyse(graph, domain, _allowed(analysis, errors))
        again = _split(analysis, weights, budget * scale)
        errors = {node: min(e, errors[node]) for node, e in again.items()}
        proposal = _build(target, graph, domain, errors, way, analysis)
        total = proposal.approximation
        if total <= budget and (best is not None or total >= 0.8 * budget or scale > 1):
            return proposal
        if total <= budget:
            best = proposal
            if total == 0 or not any(isinstance(node, MaximumNode) for node in graph.nodes):
                return best
        scale *= 0.99 * budget / total if np.isfinite(total) else 0.1
    if best is not None:
        return best
    raise PrecisionError(
        f"The errors of the inner values could not be kept within {budget:.3g}; their effects grow "
        "too fast on this domain. Shrink the domain, or ask for a larger error."
    )


def _split(analysis: Analysis, weights: dict[int, float], budget: float) -> dict[int, float]:
    """e_N with S_N e_N proportional to the weight: the marginal cost is then the same everywhere.

    To minimise sum_N cost_N(e_N) under sum_N S_N e_N = budget, Lagrange's condition is
    -e_N cost_N'(e_N) proportional to S_N e_N; the weights are these elasticities.
    """
    total = sum(weights.values())
    errors = {}
    for node, weight in weights.items():
        sensitivity = analysis.effect(node) + _shared_effect(analysis, node)
        if not np.isfinite(sensitivity):
            raise PrecisionError(
                f"The result is infinitely steep in {analysis.graph.nodes[node].expression} "
                "somewhere on this domain, as sqrt is at 0, so an error there cannot be bounded; "
                "shrink the domain, or add a small constant under the root."
            )
        errors[node] = budget * weight / total / max(sensitivity, FAINT)
    return {node: min(e, _most(analysis, node)) for node, e in errors.items()}


def _shared_effect(analysis: Analysis, node: int) -> float:
    """What the error of a maximum does through minima that share its head."""
    minima = [
        i
        for i, other in enumerate(analysis.graph.nodes)
        if isinstance(other, MinimumNode) and other.arguments[2] == node
    ]
    return sum(analysis.effect(i) for i in minima)


def _most(analysis: Analysis, node: int) -> float:
    """No node needs to be worse than a tenth of its own range."""
    low, high = analysis.range(node)
    return max(0.1 * (high - low), 1e-6 * max(abs(low), abs(high))) or 1.0


def _weights(graph: Graph, analysis: Analysis, way: Way) -> dict[int, float]:
    """How much an error of each node is worth: d cost / d log(1/error)."""
    nodes = {
        i: node
        for i, node in enumerate(graph.nodes)
        if isinstance(node, NONLINEAR) and not _is_exact(node, way)
    }
    weights = {}
    for i, node in nodes.items():
        match node:
            case CurveNode():
                low, high = analysis.range(i)
                weights[i] = max((high - low) * analysis.sensitivity(i), 1e-30) ** (1 / 3)
            case _:
                weights[i] = 0.0
    largest = max(weights.values(), default=0.0) or 1.0
    if way.by_pieces:
        return {i: max(w / largest, 0.05) for i, w in weights.items()}
    return dict.fromkeys(weights, 1.0)


def _is_exact(node: Node, way: Way) -> bool:
    if isinstance(node, CurveNode | QuotientNode):
        return is_native(node.curve) and not way.by_pieces
    return isinstance(node, SoftmaxNode)


def _build(
    target: Function,
    graph: Graph,
    domain: Box,
    errors: dict[int, float],
    way: Way,
    analysis: Analysis,
) -> Proposal:
    program = Program(domain)
    tokens = way.tokens(graph, analysis, errors)
    forms: list[Form] = []
    made: dict[int, Made] = {}
    for i, node in enumerate(graph.nodes):
        arguments = tuple(forms[a] for a in node.arguments)
        site = Site(program, i, arguments, tuple(_ranges(analysis, node.arguments)), tokens)
        match node:
            case InputNode(variable=variable):
                forms.append(program.input(variable))
                continue
            case LinearNode():
                parts = zip(node.coefficients, arguments, strict=True)
                forms.append(Form.combination(parts, node.constant))
                continue
            case CurveNode(curve=curve):
                made[i] = way.curve(site, curve, errors.get(i, 0.0))
            case ProductNode():
                made[i] = way.product(site, errors[i])
            case MaximumNode():
                made[i] = way.maximum(site, errors[i])
            case MinimumNode(arguments=(_, _, larger)):
                a, b, shared = arguments
                form = Form.combination([(1, a), (1, b), (-1, shared)])
                made[i] = replace(made[larger], form=form)
            case QuotientNode(curve=curve):
                made[i] = quotient(site, curve, errors.get(i, 0.0))
            case SoftmaxNode():
                made[i] = softmax_by_head(program, i, node, tokens)
        forms.append(made[i].form)
    program.outputs = [forms[i] for i in graph.outputs]
    where = _where(program, forms)
    allowed = _allowed(analysis, {i: m.error for i, m in made.items()})
    final = analyse(graph, domain, allowed)
    labels = {i: str(graph.nodes[i].expression) for i in made}
    return Proposal(target, domain, way.name, program, made, final, allowed, labels, where)


def _where(program: Program, forms: list[Form]) -> dict[int, Whereabouts]:
    """Where each node's value is as soon as it is there, once rows have been reused."""
    ready = [program.ready(form) for form in forms]
    seen = [[form, program.views.get(form.key)] for form in forms]
    gone = reuse_rows(program)
    where = {}
    for i, candidates in enumerate(seen):
        left = [without(form, gone) for form in candidates if form is not None]
        where[i] = Whereabouts([form for form in left if form is not None], ready[i])
    return where


def _allowed(analysis: Analysis, errors: dict[int, float]) -> dict[int, float]:
    """What a node may be off with rounding: twice its error, and a little for exact ones.

    Ranges are widened by this much, so that gadgets are still where their theorems hold.
    """
    allowed = {}
    for i, node in enumerate(analysis.graph.nodes):
        if isinstance(node, (*NONLINEAR, MinimumNode)):
            low, high = analysis.range(i)
            own = node.arguments[2] if isinstance(node, MinimumNode) else i
            allowed[i] = 2 * errors.get(own, 0.0) + 2e-6 * max(abs(low), abs(high))
    return allowed


def _ranges(analysis: Analysis, nodes: tuple[int, ...]) -> Iterator[Pair]:
    for node in nodes:
        yield analysis.widened(node)
