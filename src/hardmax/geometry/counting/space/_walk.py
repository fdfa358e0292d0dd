"""The compiled walk through the cells of a piece, with exact arithmetic where it stops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.space import _arrays as arrays
from hardmax.geometry.counting.space._exact import (
    Pattern,
    Row,
    Solid,
    WholeMaps,
    beyond,
    same_map,
)
from hardmax.geometry.counting.space._kernels import advance, enter
from hardmax.geometry.counting.space._piece import (
    SimpleBody,
    SpacePiece,
    after,
    first_label,
    next_layer,
    solid_of,
    undecided_solid,
)

_FEW = 200  # steps while the walk is interpreted
_CHUNK = 200_000  # steps between two looks at the outside world, times 2^d: some 0.1 s
_PLACES = 2_048  # vertices of a section, at first


@dataclass
class WalkFindings:
    """What the walks of one piece have found so far."""

    counts: np.ndarray
    decided: int = 0
    silent: list[np.ndarray] = field(default_factory=list)


class SpaceWalk:
    """One stack of cells. Pieces that do not fit into it get a walk of their own, one deeper."""

    def __init__(
        self,
        stack: Stack,
        sides: tuple[Row, ...],
        mode: int,
        *,
        fast: bool,
        limit: int | None = None,
        above: SpaceWalk | None = None,
    ) -> None:
        self.stack, self.sides, self.mode, self.fast, self.limit = stack, sides, mode, fast, limit
        nothing = WalkFindings(np.zeros(len(stack.hidden), dtype=np.int64))
        self.findings: WalkFindings = nothing if above is None else above.findings
        self.maps: WholeMaps = WholeMaps(stack) if above is None else above.maps
        self.net = arrays.make_net(stack, sides, fast)
        width = self.net.biases.shape[1]
        self.path = arrays.new_path(stack, width)
        held = 4 * sum(stack.hidden) + 4096 if mode == arrays.REGIONS else 0
        most = np.iinfo(np.int64).max if limit is None else limit
        self.now = np.array([0, 0, 0, most, mode], dtype=np.int64)
        self.silent = np.zeros((held, 4), dtype=np.uint64)
        self.record = arrays.Record(self.now, self.findings.counts, self.silent)
        self.places = _PLACES
        self.pile = arrays.new_pile(sum(stack.hidden) + 8, width)
        self.store = arrays.new_store(16 * self.places, stack.dimension)
        self._make_room()

    def _make_room(self) -> None:
        d = self.stack.dimension
        self.room = arrays.new_room(self.net, d, self.places)
        self.cut = arrays.new_store(d * self.places, d)

    @cached_property
    def deeper(self) -> SpaceWalk:
        common = (self.stack, self.sides, self.mode)
        return SpaceWalk(*common, fast=self.fast, limit=self.limit, above=self)

    # ---- in and out ------------------------------------------------------------------------------

    def load(self, piece: SpacePiece) -> None:
        """Begin with this piece, whose shape is a body."""
        self.now[arrays.DEPTH] = 0
        for k, pattern in enumerate(piece.patterns):
            self.path.pattern[k, : len(pattern)] = pattern
        for k in range(piece.layer + 1):
            enter(self.net, self.path, k)
        self.push(piece)

    def push(self, piece: SpacePiece) -> None:
        """A piece whose pattern, above its layer, is that of the walk."""
        body = piece.shape
        assert isinstance(body, SimpleBody)
        depth, size = int(self.now[arrays.DEPTH]), len(body.radii)
        start = 0
        if depth:
            below = self.pile.nodes[depth - 1]
            start = int(below[arrays.START] + below[arrays.SIZE])
        while depth + 2 >= len(self.pile.nodes) or start + size > len(self.store.radii):
            self.grow()
        here = slice(start, start + size)
        for array, values in zip(
            self.store, (body.points, body.radii, body.labels, body.links), strict=True
        ):
            array[here] = values
        self.pile.nodes[depth] = piece.layer, start, size, len(piece.left), piece.stained
        self.pile.left[depth, : len(piece.left)] = piece.left
        self.pile.on[depth, : len(piece.on)] = piece.on
        self.now[arrays.DEPTH] += 1

    def node(self, depth: int) -> SpacePiece:
        """A node of the stack as a piece."""
        layer, start, size, left, stained = self.pile.nodes[depth].tolist()
        hidden = self.stack.hidden
        body = SimpleBody(*(array[start : start + size].copy() for array in self.store))
        patterns = tuple(self.path.pattern[k, : hidden[k]].copy() for k in range(layer))
        return SpacePiece(
            patterns, layer, self.pile.on[depth, : hidden[layer]].copy(),
            self.pile.left[depth, :left].copy(), body, self.sides, (0,) * len(hidden),
            bool(stained),
        )  # fmt: skip

    def pop(self) -> SpacePiece:
        self.now[arrays.DEPTH] -= 1
        return self.node(int(self.now[arrays.DEPTH]))

    def grow(self) -> None:
        """Twice the place for everything."""
        self.places *= 2
        self._make_room()
        pile, store = self.pile, self.store
        self.pile = arrays.new_pile(2 * len(pile.nodes), self.net.biases.shape[1])
        self.store = arrays.new_store(2 * len(store.radii), self.stack.dimension)
        for new, old in (*zip(self.pile, pile, strict=True), *zip(self.store, store, strict=True)):
            new[: len(old)] = old

    def drain(self) -> None:
        """Put the silent facets found so far away."""
        filled = int(self.now[arrays.SILENT])
        if filled:
            self.findings.silent.append(self.silent[:filled].copy())
            self.now[arrays.SILENT] = 0

    # ---- the walk --------------------------------------------------------------------------------

    def step(self, budget: int) -> int:
        """Let the kernel go on, and say why it stopped."""
        self.now[arrays.BUDGET] = advance.stride(budget, _FEW)
        cells = (self.path, self.room, self.pile, self.store, self.cut)
        return int(advance(self.net, *cells, self.record))

    def run(self, piece: SpacePiece) -> Iterator[tuple[SpacePiece, Solid | None] | None]:
        """Walk through a piece: leaves, if cells are wanted, and None now and then."""
        self.findings.counts += np.array(piece.counted)
        if isinstance(piece.shape, Solid):
            yield from self._exactly(piece)
            return
        self.load(piece)
        while (status := self.step(_CHUNK >> self.stack.dimension)) != arrays.DONE:
            if status == arrays.PAUSED:
                yield None
            elif status == arrays.FULL:
                self._full()
            elif status == arrays.UNSURE:
                yield from self._exactly(self.pop())
            else:
                yield from self._leaf(self.pop(), None)
        self.drain()

    def parts(self, piece: SpacePiece) -> list[SpacePiece]:
        """The piece in two or more parts, or led to its leaf; what was counted goes with one."""
        self.findings.counts[:] = piece.counted
        if isinstance(piece.shape, Solid):
            parts = self._solid_parts(piece)
        else:
            self.load(piece)
            status = arrays.PAUSED
            while self.now[arrays.DEPTH] == 1 and status in (arrays.PAUSED, arrays.FULL):
                if (status := self.step(1)) == arrays.FULL:
                    self.grow()
            parts = [self.node(depth) for depth in range(int(self.now[arrays.DEPTH]))]
            if status == arrays.UNSURE:
                parts = self._solid_parts(parts[0])
        counted = tuple(int(n) for n in self.findings.counts)
        return [replace(parts[0], counted=counted), *parts[1:]]

    def _solid_parts(self, piece: SpacePiece) -> list[SpacePiece]:
        last = piece.layer == len(self.stack.hidden) - 1
        parts = [part for part, _, _ in self._decide_parts(piece)]
        return [part if last and part.complete else self._onward(part) for part in parts]

    def _full(self) -> None:
        if self.now[arrays.SILENT] + self.net.firsts[-1] > len(self.silent) > 0:
            self.drain()
        else:
            self.grow()

    def _exactly(self, piece: SpacePiece) -> Iterator[tuple[SpacePiece, Solid | None] | None]:
        """Decide in whole numbers what is unclear; simple cells go back to the floats."""
        last = piece.layer == len(self.stack.hidden) - 1
        for part, solid, signs in self._decide_parts(piece):
            self.findings.decided += signs
            if last and part.complete:
                yield from self._leaf(part, solid)
            elif isinstance(part.shape, SimpleBody) and isinstance(piece.shape, SimpleBody):
                self.push(part)
            else:
                # a solid leaves the kernel idle, a body does not
                walk = self if isinstance(piece.shape, Solid) else self.deeper
                yield from walk.run(self._onward(part))
            yield None

    def _decide_parts(self, piece: SpacePiece) -> Iterator[tuple[SpacePiece, Solid, int]]:
        """Parts of a piece in which its unclear neurons are decided, and how many signs that took.

        In a body these are the neurons that floats leave open at its vertices; if there are none,
        they were left open at a vertex of a flat, and all are decided. In a solid all are decided,
        unless a part becomes simple before.
        """
        solid = solid_of(piece, self.stack, self.maps)
        rows = self.maps.rows(piece.patterns, piece.layer)
        body = isinstance(piece.shape, SimpleBody)
        chosen, rest = self._unclear(piece) if body else (piece.left, piece.left[:0])
        start = undecided_solid(piece, solid, chosen)
        for cell, signs in start.decide(rows, first_label(self.stack, piece.layer), not body):
            yield after(piece, cell, rest), cell.solid, signs

    def _unclear(self, piece: SpacePiece) -> tuple[np.ndarray, np.ndarray]:
        body, layer, left = piece.shape, piece.layer, piece.left
        assert isinstance(body, SimpleBody)
        maps = self.path.maps[layer][:, left]
        slack = self.net.slack[self.net.firsts[layer] + left]
        values = np.abs(body.points @ maps[:-1] + maps[-1])
        doubt = slack + np.abs(maps[:-1]).sum(axis=0) * body.radii[:, None]
        # twice the doubt: the order of summation is not the kernel's, and nothing may come back
        clear = np.all(values > 2 * doubt, axis=0)
        return (left, left[:0]) if clear.all() else (left[~clear], left[clear])

    def _onward(self, piece: SpacePiece) -> SpacePiece:
        """A solid that is complete begins the next layer; a body does so in the kernel."""
        if isinstance(piece.shape, SimpleBody) or not piece.complete:
            return piece
        self.findings.counts[piece.layer] += 1
        return next_layer(piece, self.stack)

    def _leaf(
        self, piece: SpacePiece, solid: Solid | None
    ) -> Iterator[tuple[SpacePiece, Solid | None] | None]:
        self.findings.counts[piece.layer] += 1
        if self.mode == arrays.CELLS:
            yield piece, solid
        elif self.mode == arrays.REGIONS:
            solid = solid or solid_of(piece, self.stack, self.maps)
            silent = self._silent(solid, (*piece.patterns, piece.on))
            if len(silent):
                self.findings.silent.append(silent)

    def _silent(self, solid: Solid, patterns: Pattern) -> np.ndarray:
        """The silent facets of a leaf, exactly."""
        own, silent = self._name(patterns), []
        for wall, (label, _) in enumerate(solid.walls):
            if label < self.net.firsts[-1]:
                other = beyond(self.maps, solid, wall, patterns)
                if same_map(self.maps, patterns, other):
                    silent.append([*own, *self._name(other)])
        return np.array(silent, dtype=np.uint64).reshape(-1, 4)

    def _name(self, patterns: Pattern) -> list[int]:
        on = np.concatenate(patterns)
        return [int(x) for x in np.bitwise_xor.reduce(self.net.words[on], axis=0)]
