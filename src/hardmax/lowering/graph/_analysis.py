"""Ranges of all nodes, and what an error made at one of them does to the outputs.

The domain is cut into a grid of boxes, on each of which ranges and derivatives are enclosed by
interval arithmetic; finer boxes lose less to dependency.

Theorem (errors add up by sensitivities). Let node N compute G_N with |G_N - g_N| <= e_N for all
arguments within the widened ranges, where g_N is the exact operation. Then at every point of a box
each output is off by at most sum_N S_N e_N, with S_N an enclosure of |d output / d N| over the
widened ranges of that box.

Proof. For a fixed input let d_N be the error that node N makes, |d_N| <= e_N. The graph in which
node N adds s d_N to its exact operation, 0 <= s <= 1, moves from exact (s = 0) to computed (s = 1).
All its values stay in the widened ranges: by induction a node is off by at most
e_N + sum_a L_a e'_a, with e'_a what its arguments are off by and L_a enclosing the partial
derivatives; `widened` adds exactly that. The output is a Lipschitz function of s with derivative
sum_N (d output/d N) d_N, and the adjoints computed backwards by intervals enclose the factors. QED

A curve may be given off: s instead of g, with |s - g| <= `given` wherever g is defined (roots are
softened, see `_on_domain.py`). Then `given` counts as part of e_N, with S_N that of the softened
graph. Proof: soften one node after the other, from the outputs inward. When it is N's turn, its
argument is still exact, so that N moves by at most given_N, and all that reads it is soft already.

Maxima and minima do better than their derivatives in [0, 1] show: they move by no more than the
most that any argument moves. `total` therefore also runs forwards, where a node is off by its own
error and, for a maximum, the largest of what its arguments are off; the smaller bound holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.core import Box
from hardmax.languages import derivative, evaluate
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
)
from hardmax.numerics import Interval, exp, inflate

_BOXES = 4096
_MOST_NUMBERS = 2**26  # sensitivities: of many outputs, boxes are larger, and memory stays bounded


@dataclass(frozen=True, eq=False)
class Analysis:
    """Ranges by node (boxes in a row), widened by what nodes are off, and sensitivities."""

    graph: Graph
    ranges: list[Interval]
    off: list[np.ndarray]  # node -> boxes: how far its computed value can be from the exact one
    sensitivities: np.ndarray  # distinct outputs x nodes x boxes
    partials: list[list[np.ndarray]]  # node -> its arguments -> boxes: |derivatives|

    def range(self, node: int) -> tuple[float, float]:
        """The exact value's range over the domain."""
        return float(self.ranges[node].lo.min()), float(self.ranges[node].hi.max())

    def widened(self, node: int) -> tuple[float, float]:
        """The computed value's range."""
        wide = _widen(self.ranges[node], self.off[node])
        return float(wide.lo.min()), float(wide.hi.max())

    def sensitivity(self, node: int) -> float:
        """The largest effect on any output, over all boxes."""
        return float(self.sensitivities[:, node].max(initial=0.0))

    def total(self, errors: Mapping[int, float]) -> tuple[float, dict[int, float]]:
        """The bound for the outputs, and each node's share where it is attained."""
        amounts = np.zeros(len(self.graph.nodes))
        for node, error in errors.items():
            amounts[node] = error
        amounts = amounts + self._given
        with np.errstate(invalid="ignore"):
            parts = np.where(
                amounts[:, None] > 0, self.sensitivities * amounts[:, None], 0.0
            )  # outputs x nodes x boxes
        sums = inflate(parts.sum(axis=1), len(amounts) + 8)
        forwards = self._forwards(amounts)
        sums = np.minimum(sums, np.stack([forwards[end] for end in _ends(self.graph)]))
        output, box = np.unravel_index(int(np.argmax(sums)), sums.shape)
        whole, bound = float(parts[output, :, box].sum()), float(sums[output, box])
        scale = min(bound / whole, 1.0) if whole > 0 else 0.0
        return bound, {node: scale * float(parts[output, node, box]) for node in errors}

    def effect(self, node: int) -> float:
        """What an error of 1 at a node does to the outputs at most."""
        backwards = self.sensitivity(node)
        if not any(isinstance(n, MaximumNode | MinimumNode) for n in self.graph.nodes):
            return backwards
        amounts = np.zeros(len(self.graph.nodes))
        amounts[node] = 1.0
        forwards = self._forwards(amounts)
        return min(backwards, max(float(forwards[end].max()) for end in self.graph.outputs))

    def off_by(self, amounts: np.ndarray) -> list[float]:
        """How far every node is off at most, when each adds so much of its own."""
        return [float(off.max()) for off in self._forwards(amounts + self._given)]

    @property
    def _given(self) -> np.ndarray:
        return np.array([_given(node) for node in self.graph.nodes])

    def _forwards(self, amounts: np.ndarray) -> list[np.ndarray]:
        """How far every node is off, from the inputs on."""
        off: list[np.ndarray] = []
        for number, node in enumerate(self.graph.nodes):
            own = np.full(self.sensitivities.shape[2], amounts[number])
            off.append(_carried(node, own, self.partials[number], off))
        return off


def analyse(
    graph: Graph, domain: Box, errors: Mapping[int, float] | None = None, boxes: int = _BOXES
) -> Analysis:
    """Enclose ranges, widen them by the errors that nodes make, and run backwards."""
    errors, ends = errors or {}, _ends(graph)
    boxes = min(boxes, max(_MOST_NUMBERS // (len(ends) * len(graph.nodes)), 1))
    inputs = _grid(domain, boxes)
    ranges: list[Interval] = []
    off: list[np.ndarray] = []
    partials: list[list[Interval]] = []
    for number, node in enumerate(graph.nodes):
        ranges.append(_value(node, ranges, inputs))
        wide = [_widen(ranges[a], off[a]) for a in node.arguments]
        partials.append(_partials(node, wide))
        own = np.full(inputs.shape[1], errors.get(number, 0.0) + _given(node))
        off.append(_carried(node, own, [p.magnitude for p in partials[-1]], off))
    sensitivities = np.stack([_backwards(graph, end, partials) for end in ends])
    sizes = [[p.magnitude for p in parts] for parts in partials]
    return Analysis(graph, ranges, off, sensitivities, sizes)


def _given(node: Node) -> float:
    """How far a node's curve is from what it stands for."""
    return node.given if isinstance(node, CurveNode) else 0.0


def _ends(graph: Graph) -> list[int]:
    """The nodes that are outputs; several outputs may be one."""
    return list(dict.fromkeys(graph.outputs))


def _carried(
    node: Node, own: np.ndarray, partials: Sequence[np.ndarray], off: Sequence[np.ndarray]
) -> np.ndarray:
    """A node's own error, and what its arguments' errors make of it."""
    parts = []
    for partial, argument in zip(partials, node.arguments, strict=True):
        with np.errstate(invalid="ignore"):
            parts.append(np.where(off[argument] > 0, partial * off[argument], 0.0))
    if not parts:
        return own
    together = np.max if isinstance(node, MaximumNode | MinimumNode) else np.sum
    return np.asarray(inflate(own + together(parts, axis=0), len(parts) + 4))


def opaque_analysis(graph: Graph) -> Analysis:
    """For a graph of opaque nodes: each output feels its own node, once."""
    nodes = len(graph.nodes)
    sensitivities = np.zeros((len(_ends(graph)), nodes, 1))
    for row, end in enumerate(_ends(graph)):
        sensitivities[row, end] = 1.0
    nothing = [Interval.point(np.zeros(1))] * nodes
    none = [[np.zeros(1)] * len(node.arguments) for node in graph.nodes]
    return Analysis(graph, nothing, [np.zeros(1)] * nodes, sensitivities, none)


def _grid(domain: Box, boxes: int) -> Interval:
    """Sub-boxes that cover the domain: inputs x boxes."""
    moving = domain.high > domain.low
    per_axis = max(int(boxes ** (1 / max(int(moving.sum()), 1)) + 1e-9), 1)
    edges = [
        np.linspace(a, b, (per_axis if m else 1) + 1)
        for a, b, m in zip(domain.low, domain.high, moving, strict=True)
    ]
    low = np.meshgrid(*[e[:-1] for e in edges], indexing="ij")
    high = np.meshgrid(*[e[1:] for e in edges], indexing="ij")
    return Interval(np.stack([a.ravel() for a in low]), np.stack([b.ravel() for b in high]))


def _widen(interval: Interval, by: np.ndarray) -> Interval:
    return interval + Interval(-by, by) if by.any() else interval


def _value(node: Node, ranges: Sequence[Interval], inputs: Interval) -> Interval:
    match node:
        case InputNode(variable=variable):
            return inputs[variable]
        case LinearNode():
            total = _like(_number(node.constant), inputs[0])
            for argument, factor in zip(node.arguments, node.coefficients, strict=True):
                total = total + ranges[argument] * _number(factor)
            return total
        case CurveNode(argument=argument, curve=curve):
            return _like(evaluate(curve, {"t": ranges[argument]}, "interval"), inputs[0])
        case ProductNode(arguments=(a, b)):
            return ranges[a] * ranges[b]
        case MaximumNode(arguments=arguments):
            total = ranges[arguments[0]]
            for argument in arguments[1:]:
                total = total.maximum(ranges[argument])
            return total
        case MinimumNode(arguments=(a, b, _)):
            return ranges[a].minimum(ranges[b])
        case QuotientNode(arguments=(factor, argument), curve=curve):
            return ranges[factor] * _like(
                evaluate(curve, {"t": ranges[argument]}, "interval"), inputs[0]
            )
        case SoftmaxNode():
            return _softmax_range(node, inputs)
        case OpaqueNode():
            raise AssertionError("opaque nodes are not analysed from inside")


def _softmax_range(node: SoftmaxNode, inputs: Interval) -> Interval:
    """sum_i v_i p_i with p_i = 1/(1 + sum_j exp(l_j - l_i)), every difference in its range."""
    table, values = np.array(node.scores), np.array(node.values)
    lines = Interval.point(table[:, None, :, None]) - table[None, :, :, None]  # l_j - l_i at [j, i]
    differences = (lines[:, :, :-1] * inputs.reshape(len(inputs), -1)).sum(axis=2) + lines[:, :, -1]
    weights = exp(differences).sum(axis=0).reciprocal().minimum(1.0)
    mean = (weights * values[:, None]).sum(axis=0)
    hull = Interval(np.full(mean.shape, values.min()), np.full(mean.shape, values.max()))
    return hull.meet(mean)


def _partials(node: Node, wide: list[Interval]) -> list[Interval]:
    """The partial derivative by each argument, enclosed over its range."""
    match node:
        case InputNode():
            return []
        case LinearNode():
            return [_like(_number(c), w) for c, w in zip(node.coefficients, wide, strict=True)]
        case CurveNode(curve=curve):
            return [_like(evaluate(derivative(curve, "t"), {"t": wide[0]}, "interval"), wide[0])]
        case QuotientNode(curve=curve):
            value = _like(evaluate(curve, {"t": wide[1]}, "interval"), wide[1])
            slope = _like(evaluate(derivative(curve, "t"), {"t": wide[1]}, "interval"), wide[1])
            return [value, wide[0] * slope]
        case SoftmaxNode():  # its arguments are inputs, which are never off
            return [Interval.point(np.zeros(w.shape)) for w in wide]
        case OpaqueNode():
            raise AssertionError("opaque nodes are not analysed from inside")
        case ProductNode():
            return [wide[1], wide[0]]
        case MaximumNode():
            return [_winning(i, wide) for i in range(len(wide))]
        case MinimumNode():
            mirrored = [-w for w in wide[:2]]
            both = [_winning(i, mirrored) for i in range(2)]
            return [*both, _like(_number(Fraction(0)), wide[0])]


def _number(value: Fraction) -> Interval:
    return Interval.point(np.array(value, dtype=object))


def _like(interval: Interval, other: Interval) -> Interval:
    """The same shape as another; constants have none."""
    lo, hi = np.broadcast_to(interval.lo, other.shape), np.broadcast_to(interval.hi, other.shape)
    return Interval(lo, hi)


def _winning(i: int, wide: list[Interval]) -> Interval:
    """1 where an argument certainly wins, 0 where it certainly loses, [0, 1] otherwise."""
    others = [other for j, other in enumerate(wide) if j != i]
    loses = np.any([other.lo > wide[i].hi for other in others], axis=0)
    wins = np.all([other.hi < wide[i].lo for other in others], axis=0)
    return Interval(np.where(wins, 1.0, 0.0), np.where(loses, 0.0, 1.0))


def _backwards(graph: Graph, end: int, partials: list[list[Interval]]) -> np.ndarray:
    """|d output / d node| for every node, by the chain rule from the end: nodes x boxes."""
    boxes = next(p.shape for parts in partials for p in parts) if any(partials) else (1,)
    zero = Interval.point(np.zeros(boxes))
    adjoint = {end: Interval.point(np.ones(boxes))}
    for number in range(end, -1, -1):
        if number in adjoint:
            mine = adjoint[number]
            for partial, a in zip(partials[number], graph.nodes[number].arguments, strict=True):
                adjoint[a] = adjoint.get(a, zero) + mine * partial
    sizes = np.zeros((len(graph.nodes), *boxes))
    for number, interval in adjoint.items():
        sizes[number] = interval.magnitude
    return sizes
