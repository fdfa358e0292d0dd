"""From a graph to a proposal: split the error over the nodes, build each, and add everything up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import MARGIN, Box
from hardmax.languages import Function
from hardmax.lowering.functions._proposal import Proposal, Whereabouts, too_small
from hardmax.lowering.functions._route_gadgets import (
    RouteGadgets,
    is_exact,
    is_native,
    quotient,
)
from hardmax.lowering.gadgets import Approximation, Site, sigmoid_by_gate, softmax_by_head
from hardmax.lowering.graph import (
    NONLINEAR,
    Analysis,
    CurveNode,
    Graph,
    InputNode,
    LinearNode,
    MaximumNode,
    MinimumNode,
    ProductNode,
    QuotientNode,
    SoftmaxNode,
    analyse,
    softened,
    softening,
)
from hardmax.lowering.sketch import BoxForm, BoxSketch, Pair, exact_form, reuse_registers, without
from hardmax.numerics import FAINT, FLOAT64, Format

_ATTEMPTS = 6
_LITTLE, _ROUNDINGS = 2e-6, 32.0  # of a node's size: what it may be off with rounding


def compose(
    target: Function,
    domain: Box,
    error: float,
    gadgets: RouteGadgets,
    *,
    format: Format = FLOAT64,
) -> Proposal:
    """Lower a graph with a route's gadgets to within `error`, rounding in the format included.

    If rounding forbids it, larger errors are tried, so that the refusal can name one that works.
    """
    graph = gadgets.graph(target.expressions, target.variables, domain)
    task = _Task(target, domain, gadgets, softened(graph, domain, error), format)
    try:
        proposal = _attempted(task, error)
    except PrecisionError:
        if format is FLOAT64:
            raise
        proposal = None  # what the format can reach says more than why it does not reach this
    if proposal is not None:
        return proposal
    raise too_small(error, _first_that_works(task, error), gadgets.name, format.name)


@dataclass(frozen=True, eq=False)
class _Task:
    """A function, and the route on which it is lowered."""

    target: Function
    domain: Box
    gadgets: RouteGadgets
    graph: Graph
    format: Format

    def analysed(self, allowed: dict[int, float] | None = None) -> Analysis:
        return analyse(self.graph, self.domain, allowed or {})


def _first_that_works(task: _Task, error: float) -> float:
    """A larger error that this route can promise; infinity if none was found.

    In a coarse format it is what somebody will take in the end, and is found to a factor of 2.5.
    """
    for power in (1, 2, 3, 4, 6, 8, 12):
        if _is_reached(task, error * 10.0**power):
            steps = (1.0, 2.0, 5.0) if task.format is not FLOAT64 else (10.0,)
            below = (error * 10.0 ** (power - 1) * step for step in steps)
            closer = (e for e in below if e > error and _is_reached(task, e))
            return float(f"{next(closer, error * 10.0**power):.0e}")
    return float("inf")


def _is_reached(task: _Task, error: float) -> bool:
    try:
        return _attempted(task, float(f"{error:.0e}")) is not None
    except PrecisionError:
        return False


def _attempted(task: _Task, error: float) -> Proposal | None:
    """A proposal within the error, or None where rounding takes too much.

    In coarse formats one that leaves the checker room is tried first, and where waves are folded
    six layers deep nothing less is any good.
    """
    if task.format is not FLOAT64:
        found = _fitted(task, error, roomy=True)
        if found is not None or task.gadgets.folds:
            return found
    return _fitted(task, error, roomy=False)


def _fitted(task: _Task, error: float, *, roomy: bool) -> Proposal | None:
    """Within the error, with room for the checker or without; None where rounding takes too much.

    Rounding grows as the approximation gets better (a warm head multiplies by 1/coldness), so
    approximation first gets nearly everything, and then what the rounding seen leaves of it.
    """
    weights = _weights(task, task.analysed())
    whole, share = error / (1 + MARGIN), 0.9995
    for attempt in range(_ATTEMPTS):
        try:
            proposal = _within(task, share * whole, weights)
        except PrecisionError:
            if attempt == 0 and not roomy:
                raise
            break
        proposal.roomy = roomy
        bound = proposal.needed
        if bound <= whole:
            proposal.asked = error
            return proposal
        left = 1 - 1.2 * (bound - proposal.approximation) / whole
        share = min(max(left, 0.2), 0.97 * share) if np.isfinite(bound) else 0.3 * share
        if share < 0.02:
            break
    return None


def _within(task: _Task, budget: float, weights: dict[int, float]) -> Proposal:
    """Split a budget, build, and correct the split until what was built fits.

    Where maxima make the bound better than the sum of its parts, there is room to spare, and the
    split is made larger once.
    """
    analysis = task.analysed()
    scale, best = 0.9999 * (1.0 - softening(task.graph, task.domain) / budget), None
    for _ in range(6):
        errors = _split(analysis, weights, budget * scale)
        analysis = task.analysed(_allowed(analysis, errors, task))
        again = _split(analysis, weights, budget * scale)
        errors = {node: min(e, errors[node]) for node, e in again.items()}
        proposal = _build(task, errors, analysis)
        total = proposal.approximation
        if total <= budget and (best is not None or total >= 0.8 * budget or scale > 1):
            return proposal
        if total <= budget:
            best = proposal
            if total == 0 or not any(isinstance(node, MaximumNode) for node in task.graph.nodes):
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


def _weights(task: _Task, analysis: Analysis) -> dict[int, float]:
    """How much an error of each node is worth: d cost / d log(1/error)."""
    nodes = {
        i: node
        for i, node in enumerate(task.graph.nodes)
        if isinstance(node, NONLINEAR) and not is_exact(node, task.gadgets)
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
    if task.gadgets.by_pieces:
        return {i: max(w / largest, 0.05) for i, w in weights.items()}
    return dict.fromkeys(weights, 1.0)


def _build(task: _Task, errors: dict[int, float], analysis: Analysis) -> Proposal:
    sketch, gadgets, graph = BoxSketch(task.domain), task.gadgets, task.graph
    tokens = gadgets.tokens(graph, analysis, errors)
    forms: list[BoxForm] = []
    built: dict[int, Approximation] = {}
    for i, node in enumerate(graph.nodes):
        arguments = tuple(forms[a] for a in node.arguments)
        site = Site(sketch, i, arguments, tuple(_ranges(analysis, node.arguments)), tokens)
        match node:
            case InputNode(variable=variable):
                forms.append(sketch.input(variable))
                continue
            case LinearNode():
                parts = zip(node.coefficients, arguments, strict=True)
                forms.append(sum((form * c for c, form in parts), exact_form()) + node.constant)
                continue
            case CurveNode(curve=curve) if gadgets.native and is_native(curve):
                built[i] = sigmoid_by_gate(site, *arguments, is_tanh=curve.operation == "tanh")
            case CurveNode(curve=curve):
                built[i] = gadgets.curve(site, curve, errors.get(i, 0.0))
            case ProductNode():
                built[i] = gadgets.product(site, errors.get(i, 0.0))
            case MaximumNode():
                built[i] = gadgets.maximum(site, errors.get(i, 0.0))
            case MinimumNode(arguments=(_, _, larger)):
                a, b, shared = arguments
                built[i] = replace(built[larger], form=a + b - shared)
            case QuotientNode(curve=curve):
                built[i] = quotient(site, curve, errors.get(i, 0.0), task.format)
            case SoftmaxNode(scores=scores, values=values):
                built[i] = softmax_by_head(site, scores, values)
        forms.append(built[i].form)
    sketch.outputs = [forms[i] for i in graph.outputs]
    where = _where(sketch, forms)
    allowed = _allowed(analysis, {i: own.error for i, own in built.items()}, task)
    final = task.analysed(allowed)
    labels = {i: str(graph.nodes[i].expression) for i in built}
    return Proposal(
        *(task.target, task.domain, gadgets.name, sketch, built, final, allowed, labels, where),
        format=task.format.name,
    )


def _where(sketch: BoxSketch, forms: list[BoxForm]) -> dict[int, Whereabouts]:
    """Where each node's value is as soon as it is there, once rows have been reused."""
    ready = [sketch.ready(form) for form in forms]
    seen = [[form, sketch.views.get(form.key)] for form in forms]
    gone = reuse_registers(sketch)
    where = {}
    for i, candidates in enumerate(seen):
        left = [without(form, gone) for form in candidates if form is not None]
        where[i] = Whereabouts([form for form in left if form is not None], ready[i])
    return where


def _allowed(analysis: Analysis, errors: dict[int, float], task: _Task) -> dict[int, float]:
    """What a node may be off with rounding: twice its error, and a little for exact ones.

    Ranges are widened by this much, so that gadgets are still where their theorems hold. Where
    products and maxima have no error at all it is some roundings of the format.
    """
    little = _LITTLE
    if task.gadgets.multiplies:
        little = max(little, _ROUNDINGS * task.format.unit)
    allowed = {}
    for i, node in enumerate(analysis.graph.nodes):
        if isinstance(node, (*NONLINEAR, MinimumNode)):
            low, high = analysis.range(i)
            own = node.arguments[2] if isinstance(node, MinimumNode) else i
            allowed[i] = 2 * errors.get(own, 0.0) + little * max(abs(low), abs(high))
    return allowed


def _ranges(analysis: Analysis, nodes: tuple[int, ...]) -> Iterator[Pair]:
    for node in nodes:
        yield analysis.widened(node)
