"""The routing patterns of a hard Transformer on a plane, as a tree: one sublayer a level.

Behind a node's choices the stream is affine in the plane's coordinates (u, v), token by token, with
whole coefficients over one denominator. So scores are polynomials of degree two, and who beats whom
is a sign of a wall. Nodes are made when they are asked for, and kept.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from hardmax.core import Attention, FeedForward, Head, Transformer, VectorInput
from hardmax.geometry.counting._whole import WholeLayer, lowest_terms, multiply_maps
from hardmax.geometry.counting.conic._walls import MONOMIALS, Conic, ConicWall, Factors

Point = tuple[Fraction, Fraction]
Chosen = tuple[int, ...]  # a piece of every group


@dataclass(frozen=True, eq=False)
class PolynomialContest:
    """Polynomials, of which the largest wins, and who stands behind each.

    `beats[p][q]` is the wall whose sign is that of forms[p] - forms[q]. Forms that never win
    on an open set, because another one is never smaller, are left out; equal forms win together.
    """

    forms: tuple[Conic, ...]
    names: tuple[tuple[int, ...], ...]
    beats: tuple[dict[int, ConicWall], ...]
    lost: tuple[Conic, ...]  # those left out

    @classmethod
    def of(cls, forms: Sequence[Conic], factors: Factors) -> PolynomialContest:
        shared: dict[Conic, list[int]] = {}
        for name, form in enumerate(forms):
            shared.setdefault(form, []).append(name)
        distinct = list(shared)
        walls: dict[tuple[int, int], ConicWall] = {}
        for p, q in combinations(range(len(distinct)), 2):
            gaps = [x - y for x, y in zip(distinct[p], distinct[q], strict=True)]
            walls[p, q] = factors.wall(gaps)
            walls[q, p] = -walls[p, q]
        out = {q for (_, q), wall in walls.items() if wall.sign > 0 and not wall.factors}
        live = [p for p in range(len(distinct)) if p not in out]
        beats = tuple({k: walls[p, q] for k, q in enumerate(live) if q != p} for p in live)
        forms_live = tuple(distinct[p] for p in live)
        names = tuple(tuple(shared[form]) for form in forms_live)
        return cls(forms_live, names, beats, tuple(distinct[p] for p in sorted(out)))

    @property
    def walls(self) -> Iterator[ConicWall]:
        return (wall for row in self.beats for wall in row.values())

    @cached_property
    def floats(self) -> np.ndarray:
        """Forms x 6, over one positive number."""
        top = max(max(map(abs, form)) for form in self.forms) or 1
        return np.array([[x / top for x in form] for form in self.forms])

    def winner(self, powers: Sequence[int]) -> int | None:
        """Who is largest alone at a point, exactly; None if two are."""
        values = [
            sum(x * y for x, y in zip(form, powers, strict=True))
            for form in (*self.forms, *self.lost)
        ]
        best = max(values)
        return values.index(best) if values.count(best) == 1 else None


@dataclass(eq=False)
class TreeNode:
    """The stream maps / under (width x tokens x (1, u, v)) in front of sublayer `level`."""

    level: int
    maps: np.ndarray
    under: int
    pattern: tuple[object, ...]
    walls: tuple[ConicWall, ...]  # all must be positive for the choices up to here
    before: TreeNode | None = None
    _children: dict[Chosen, TreeNode] = field(default_factory=dict)


class Tree:
    """A model on a plane: `frame` takes (1, u, v) to the inputs, in Fractions."""

    def __init__(self, model: Transformer, frame: Sequence[Sequence[Fraction]]) -> None:
        self.model, self.factors = model, Factors()
        self.asking = model.tokens_that_matter[1:]  # by sublayer
        self._whole: dict[int, tuple[WholeLayer, ...]] = {}
        self._contests: dict[int, list[PolynomialContest]] = {}
        self._special: dict[int, list[Point]] = {}
        self.root = self._embed_frame(frame)

    @property
    def depth(self) -> int:
        return len(self.model.sublayers)

    def _embed_frame(self, frame: Sequence[Sequence[Fraction]]) -> TreeNode:
        source = self.model.input
        assert isinstance(source, VectorInput)
        under = math.lcm(*(x.denominator for row in frame for x in row))
        plane = np.array([[int(x * under) for x in row] for row in frame], dtype=object)
        whole = WholeLayer.of(source.maps.reshape(-1, source.inputs), source.offsets.reshape(-1))
        flat = whole.weights @ plane
        flat[:, 0] += whole.biases * under
        maps = flat.reshape(source.tokens, source.width, 3).transpose(1, 0, 2)
        return TreeNode(0, *lowest_terms(maps, under << whole.shift), (), ())

    def contests(self, node: TreeNode) -> list[PolynomialContest]:
        """Heads by asking tokens, or asking tokens by rectifiers, in the order of the pattern."""
        if id(node) not in self._contests:
            sublayer, asking = self.model.sublayers[node.level], self.asking[node.level]
            if isinstance(sublayer, Attention):
                rows = [row for head in sublayer.heads for row in self._scores(head, node, asking)]
            else:
                assert isinstance(sublayer, FeedForward)
                rows = [[(0,) * 6, (*z, 0, 0, 0)] for z in self._rectifiers(sublayer, node, asking)]
            self._contests[id(node)] = [PolynomialContest.of(row, self.factors) for row in rows]
        return self._contests[id(node)]

    def child(self, node: TreeNode, chosen: Chosen) -> TreeNode:
        if chosen not in node._children:
            contests = self.contests(node)
            walls = tuple(
                wall
                for contest, p in zip(contests, chosen, strict=True)
                for wall in contest.beats[p].values()
            )
            names = [contest.names[p] for contest, p in zip(contests, chosen, strict=True)]
            sublayer, asking = self.model.sublayers[node.level], self.asking[node.level]
            if isinstance(sublayer, Attention):
                maps, under = self._stream_after_heads(sublayer, node, asking, names)
                rows: list[tuple[object, ...]] = _in_groups_of(names, len(asking))
            else:
                assert isinstance(sublayer, FeedForward)
                on = [name == (1,) for name in names]  # a rectifier that is 0 throughout: (0, 1)
                maps, under = self._stream_after_rectifiers(sublayer, node, asking, on)
                rows = _in_groups_of(on, sublayer.hidden_width) or [()] * len(asking)
            pattern = (*node.pattern, tuple(rows))
            node._children[chosen] = TreeNode(
                node.level + 1, *lowest_terms(maps, under), pattern, node.walls + walls, node
            )
        return node._children[chosen]

    # ---- sublayers ---------------------------------------------------------------------------

    def _exact(self, sublayer: Head | FeedForward) -> tuple[WholeLayer, ...]:
        if id(sublayer) not in self._whole:
            if isinstance(sublayer, Head):
                matrices = [sublayer.query, sublayer.key, sublayer.value, sublayer.output]
                if sublayer.position_bias is not None:
                    matrices.append(sublayer.position_bias)
                self._whole[id(sublayer)] = tuple(
                    WholeLayer.of(one, np.zeros(len(one))) for one in matrices
                )
            else:
                self._whole[id(sublayer)] = (
                    WholeLayer.of(sublayer.inner, sublayer.inner_bias),
                    WholeLayer.of(sublayer.outer, sublayer.outer_bias),
                )
        return self._whole[id(sublayer)]

    def _scores(self, head: Head, node: TreeNode, asking: Sequence[int]) -> Iterator[list[Conic]]:
        """Each asking token's scores of what it sees, times under^2 2^(shifts)."""
        query, key, _, _, *bias = self._exact(head)
        q, k = multiply_maps(query.weights, node.maps), multiply_maps(key.weights, node.maps)
        part = [[multiply_maps(q[..., a].T, k[..., b]) for b in range(3)] for a in range(3)]
        table = np.stack(
            [
                part[0][0],
                part[0][1] + part[1][0],
                part[0][2] + part[2][0],
                part[1][1],
                part[1][2] + part[2][1],
                part[2][2],
            ],
            axis=-1,
        )
        if bias:
            table = table * (1 << bias[0].shift)
            tokens, shift = len(table), query.shift + key.shift
            table[..., 0] += bias[0].weights[:tokens, :tokens] * (node.under**2 << shift)
        for token in asking:
            seen = token + 1 if head.causal else len(table)
            yield [tuple(row) for row in table[token, :seen].tolist()]

    def _stream_after_heads(
        self,
        layer: Attention,
        node: TreeNode,
        asking: Sequence[int],
        names: Sequence[tuple[int, ...]],
    ) -> tuple[np.ndarray, int]:
        """The stream after the heads, which average what their winners hold."""
        exact = [self._exact(head) for head in layer.heads]
        shifts = [value.shift + output.shift for _, _, value, output, *_ in exact]
        factor = math.lcm(*(len(winners) for winners in names)) << max(shifts)
        maps = node.maps * factor
        places = iter(names)
        for (_, _, value, output, *_), shift in zip(exact, shifts, strict=True):
            added = multiply_maps(output.weights, multiply_maps(value.weights, node.maps))
            for token in asking:
                winners = list(next(places))
                share = (factor >> shift) // len(winners)
                maps[:, token] += added[:, winners].sum(axis=1) * share
        return maps, node.under * factor

    def _hidden(self, layer: FeedForward, node: TreeNode, asking: Sequence[int]) -> np.ndarray:
        """Hidden units x asking tokens x 3, times under << shift."""
        inner, _ = self._exact(layer)
        rows = multiply_maps(inner.weights, node.maps[:, list(asking)])
        rows[..., 0] += (inner.biases * node.under)[:, None]
        return rows

    def _rectifiers(
        self, layer: FeedForward, node: TreeNode, asking: Sequence[int]
    ) -> Iterator[tuple[int, int, int]]:
        for token in self._hidden(layer, node, asking).transpose(1, 0, 2).tolist():
            yield from (tuple(row) for row in token)

    def _stream_after_rectifiers(
        self, layer: FeedForward, node: TreeNode, asking: Sequence[int], on: Sequence[bool]
    ) -> tuple[np.ndarray, int]:
        inner, outer = self._exact(layer)
        mask = np.array(on, dtype=bool).reshape(len(asking), layer.hidden_width).T
        rows = np.where(mask[..., None], self._hidden(layer, node, asking), 0)
        change = multiply_maps(outer.weights, rows)
        change[..., 0] += (outer.biases * (node.under << inner.shift))[:, None]
        maps = node.maps * (1 << (inner.shift + outer.shift))
        maps[:, list(asking)] += change
        return maps, node.under << (inner.shift + outer.shift)

    # ---- points ------------------------------------------------------------------------------

    def leaf_at(self, point: Point) -> TreeNode | None:
        """The leaf of a point, if every comparison on the way is strict, exactly."""
        under = math.lcm(*(x.denominator for x in point))
        u, v = (int(x * under) for x in point)
        powers = [under ** (2 - i - j) * u**i * v**j for i, j in MONOMIALS]
        node = self.root
        while node.level < self.depth:
            chosen = []
            for contest in self.contests(node):
                winner = contest.winner(powers)
                if winner is None:
                    return None
                chosen.append(winner)
            node = self.child(node, tuple(chosen))
        return node

    def guesses(self, points: np.ndarray) -> list[np.ndarray]:
        """In floats: from every leaf that these points seem to visit, the one furthest inside."""
        u, v = points.T
        powers = np.stack([np.ones_like(u), u, v, u * u, u * v, v * v], axis=1)
        guesses: list[np.ndarray] = []
        waiting = [(self.root, np.arange(len(points)), np.full(len(points), np.inf))]
        while waiting:
            node, rows, gaps = waiting.pop()
            if node.level == self.depth:
                guesses.append(points[rows[gaps.argmax()]])
                continue
            chosen, gaps = _float_winners(self.contests(node), powers[rows], gaps)
            for choice in np.unique(chosen, axis=0):
                here = (chosen == choice).all(axis=1)
                child = self.child(node, tuple(choice.tolist()))
                waiting.append((child, rows[here], gaps[here]))
        return guesses

    def special(self, node: TreeNode) -> list[Point]:
        """Where a query is 0, or two keys are equal, in a single point: many walls meet there."""
        sublayer = self.model.sublayers[node.level]
        if id(node) not in self._special:
            points: dict[Point, None] = {}
            for head in sublayer.heads if isinstance(sublayer, Attention) else ():
                query, key, *_ = self._exact(head)
                q, k = (
                    multiply_maps(query.weights, node.maps),
                    multiply_maps(key.weights, node.maps),
                )
                systems = [q[:, t] for t in self.asking[node.level]]
                systems += [k[:, i] - k[:, j] for i, j in combinations(range(k.shape[1]), 2)]
                points.update((p, None) for rows in systems if (p := meeting(rows.tolist())))
            self._special[id(node)] = list(points)
        return self._special[id(node)]

    def output(self, leaf: TreeNode) -> tuple[Fraction, ...]:
        """The affine map of a leaf, outputs x (1, u, v) in a row."""
        read = self.model.readout
        assert read.token is not None
        whole = WholeLayer.of(read.weights, read.bias)
        rows = multiply_maps(whole.weights, leaf.maps[:, read.token])
        rows[:, 0] += whole.biases * leaf.under
        return tuple(Fraction(x, leaf.under << whole.shift) for x in rows.ravel().tolist())


def meeting(rows: Sequence[Sequence[int]]) -> Point | None:
    """The one common zero of affine forms c + a u + b v, if there is exactly one."""
    for (f, a, b), (g, c, d) in combinations(rows, 2):
        if det := a * d - b * c:
            u, v = Fraction(b * g - d * f, det), Fraction(c * f - a * g, det)
            return (u, v) if all(row[0] + row[1] * u + row[2] * v == 0 for row in rows) else None
    return None


def _in_groups_of(entries: Sequence[object], size: int) -> list[tuple[object, ...]]:
    return [tuple(entries[i : i + size]) for i in range(0, len(entries), size or 1)]


def _float_winners(
    contests: Sequence[PolynomialContest], powers: np.ndarray, gaps: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Points x contests: who wins in floats; and the least lead so far, on the contests' scales."""
    chosen = np.zeros((len(powers), len(contests)), dtype=int)
    for k, contest in enumerate(contests):
        if len(contest.forms) > 1:
            values = powers @ contest.floats.T
            chosen[:, k] = values.argmax(axis=1)
            top = np.partition(values, -2, axis=1)
            gaps = np.minimum(gaps, top[:, -1] - top[:, -2])
    return chosen, gaps
