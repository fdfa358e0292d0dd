"""One walk over one piece: loading it, and answering what the compiled part asks.

Python drives and the kernels stop and ask, not the other way round: compiled code that calls back
into Python would hold its lock, and could not be interrupted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np

from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting.plane import _arrays as arrays
from hardmax.geometry.counting.plane._arrays import (
    Net,
    Walk,
    give_back,
    idle_walk,
    more_nodes,
    more_sides,
    net_of,
    new_walk,
)
from hardmax.geometry.counting.plane._kernels import enter, run
from hardmax.geometry.counting.plane._piece import (
    OPEN,
    PlanePiece,
    Triple,
    beyond,
    corners_of,
    exact_of,
    sign_at,
)
from hardmax.numerics import TINY, UNIT, inflate, nearest_ratio, stray

NO_LIMIT = 2**62

_WORK = 400_000_000  # products between two looks at the clock: a tenth of a second or so
_FEW = 400  # nodes while the walk is interpreted: a tenth of a second, too
_HELD = 256  # cells emitted at a time
_SILENT = 1 << 14  # facets held before they are put away


class Course:
    """The compiled part goes as far as floats decide; what it asks is answered exactly here."""

    def __init__(self, stack: Stack, piece: PlanePiece, mode: int, *, fast: bool) -> None:
        self.stack, self.piece, self.mode, self.fast = stack, piece, mode, fast
        self.net: Net = net_of(stack)
        self.walk: Walk = self._room()
        width = int(self.walk.low.size)
        self._steps = max(100, min(200_000, _WORK // (100 + width * width)))
        self.decided = 0
        self.silent: list[np.ndarray] = []
        self._load()

    def _room(self) -> Walk:
        corners = len(self.piece.codes)
        if self.mode == arrays.EMIT:
            return new_walk(self.net, emits=_HELD, corners=corners)
        if self.mode == arrays.REGIONS:
            return new_walk(self.net, silent=_SILENT, corners=corners)
        return idle_walk(self.stack, corners)

    def leave(self) -> None:
        """The course is run; what it holds of the walk is no longer needed."""
        if self.mode in (arrays.COUNT, arrays.STEP):
            give_back(self.stack, self.walk)

    @property
    def layers(self) -> tuple[int, ...]:
        """Cells after each layer, those that the piece came with included."""
        counted = self.walk.now[arrays.LAYERS :].tolist()
        return tuple(a + b for a, b in zip(counted, self.piece.credit, strict=True))

    @property
    def cells(self) -> int:
        """Cells of the last layer so far."""
        return int(self.walk.now[arrays.CELLS])

    def go(self, steps: int | None = None, limit: int = NO_LIMIT) -> int:
        """Walk on for a tenth of a second at most; DONE, PAUSED, OVER, or FULL of cells."""
        steps = steps or self._steps
        why = run(self.net, self.walk, self.mode, self.fast, run.stride(steps, _FEW), limit)
        if why == arrays.SIGNS:
            self._answer_signs()
        elif why == arrays.FACET:
            self._answer_facet()
        elif why == arrays.MORE_NODES:
            self.walk = more_nodes(self.walk)
        elif why == arrays.MORE_SIDES:
            self.walk = more_sides(self.walk)
        elif why == arrays.FULL and self.mode == arrays.REGIONS:
            self.put_away()
        else:
            return int(why)
        return arrays.PAUSED

    def put_away(self) -> None:
        """Empty the buffer of silent facets."""
        count = self.walk.now[arrays.SILENT]
        if count:
            self.silent.append(self.walk.silent[:count].copy())
            self.walk.now[arrays.SILENT] = 0

    # ---- from a piece to a node and back ---------------------------------------------------------

    def _load(self) -> None:
        """The piece becomes node 0."""
        walk, net, piece = self.walk, self.net, self.piece
        layer, last = piece.layer, len(net.start) - 2
        maps = [net.first]
        for k, below in enumerate(piece.below):
            states = np.frombuffer(below, dtype=np.uint8)
            walk.below[k, : len(states)] = states
            maps.append(_next_maps(self.stack, k + 1, states, maps[-1]))
        for k, rows in enumerate(maps):
            walk.maps[k, :, : rows.shape[1]] = rows
        self._load_polygon(maps)
        enter(net, walk, 0, layer)
        states = np.frombuffer(piece.states, dtype=np.uint8)
        walk.pattern[0, : len(states)] = states == 1
        waiting = np.flatnonzero(states == OPEN)
        if len(waiting) < len(states):
            walk.head[0, arrays.OPEN] = len(waiting)
            walk.open[0, : len(waiting)] = waiting
            if layer < last:
                sums = _next_maps(self.stack, layer + 1, states == 1, maps[-1])
                walk.sums[0, :, : sums.shape[1]] = sums
        if self.mode == arrays.REGIONS:
            walk.name[0] = _name(net, (*piece.below, (states == 1).tobytes()))

    def _load_polygon(self, maps: list[np.ndarray]) -> None:
        walk, net = self.walk, self.net
        n = len(self.piece.codes)
        walk.head[0, arrays.SIDES] = n
        walk.code[0, :n] = self.piece.codes
        lines = tuple(self._lines(self.piece.codes, self.piece.below))
        walk.poly[0, :, :n] = _float_polygon(lines, *net.reach.tolist(), fast=self.fast)
        for k, code in enumerate(self.piece.codes):
            if code >= 0:
                layer, i = self._neuron(code >> 1)
                walk.poly[0, arrays.A : arrays.S, k] = maps[layer][:, i]
                walk.poly[0, arrays.S, k] = net.slack[layer, i]

    def _neuron(self, g: int) -> tuple[int, int]:
        layer = int(np.searchsorted(self.net.start, g, side="right")) - 1
        return layer, g - int(self.net.start[layer])

    def _below(self, layer: int) -> tuple[bytes, ...]:
        hidden = self.stack.hidden
        return tuple(self.walk.below[k, : hidden[k]].tobytes() for k in range(layer))

    def _lines(self, codes: Sequence[int], below: tuple[bytes, ...]) -> list[Triple]:
        lines = []
        for code in codes:
            g = code >> 1
            if g < 0:
                lines.append(self.piece.sides[-1 - g])
                continue
            layer, i = self._neuron(g)
            lines.append(exact_of(self.stack).row(below[:layer], i))
        return lines

    def nodes(self) -> Iterator[PlanePiece]:
        """The nodes on the stack, all of one layer, as pieces; the first takes all credit."""
        walk, hidden = self.walk, self.stack.hidden
        for place in range(int(walk.now[arrays.TOP]) + 1):
            layer, n, count = walk.head[place].tolist()
            states = walk.pattern[place, : hidden[layer]].copy()
            states[walk.open[place, :count] if count >= 0 else slice(None)] = OPEN
            yield PlanePiece(
                self.piece.sides,
                tuple(walk.code[place, :n].tolist()),
                self._below(layer),
                states.tobytes(),
                (0,) * len(hidden) if place else self.layers,
            )

    # ---- what floats cannot decide ---------------------------------------------------------------

    def _answer_signs(self) -> None:
        walk = self.walk
        top = int(walk.now[arrays.TOP])
        layer, n, count = walk.head[top].tolist()
        exact, below = exact_of(self.stack), self._below(layer)
        corners = corners_of(self._lines(walk.code[top, :n].tolist(), below))
        for q, k in np.argwhere(walk.signs[:count, :n] == arrays.UNSURE).tolist():
            row = exact.row(below, int(walk.open[top, q]))
            walk.signs[q, k] = sign_at(row, corners[k])
            self.decided += 1
        for k, corner in enumerate(corners):
            walk.poly[top, : arrays.A, k] = _float_corner(corner, fast=False)
        walk.now[arrays.GIVEN] = 1

    def _answer_facet(self) -> None:
        """Compare the affine maps on both sides of a facet, exactly."""
        walk, net, hidden = self.walk, self.net, self.stack.hidden
        top, k = int(walk.now[arrays.TOP]), int(walk.now[arrays.SIDE])
        n = int(walk.head[top, arrays.SIDES])
        last = len(hidden) - 1
        patterns = (*self._below(last), walk.pattern[top, : hidden[last]].tobytes())
        lines = self._lines(walk.code[top, :n].tolist(), patterns)
        corners = corners_of(lines)
        exact, (layer, _) = exact_of(self.stack), self._neuron(int(walk.code[top, k]) >> 1)
        ends = corners[k], corners[(k + 1) % n]
        other = beyond(exact, patterns, lines[k], ends, layer)
        self.decided += 1
        if exact.rows(patterns) == exact.rows(other):
            pair = np.concatenate([walk.name[top], _name(net, other)])
            self.silent.append(pair[None, :])
        walk.now[arrays.SIDE] = k + 1


def _next_maps(stack: Stack, layer: int, states: np.ndarray, maps: np.ndarray) -> np.ndarray:
    """The affine maps of a layer, a column a neuron, where the layer before has these states."""
    above: np.ndarray = (maps * states) @ stack.weights[layer].T
    above[2] += stack.biases[layer]
    return above


def _float_line(line: Triple, reach: Sequence[float]) -> tuple[float, float, float, float]:
    """A side of the domain in floats, and what its values are off by, evaluation included.

    One rounding of each coefficient, and three of the sum of two products and the third.
    """
    scale = max(abs(line[0]), abs(line[1]))
    a, b, c = (nearest_ratio(x, scale) for x in line)
    size = inflate(abs(a) * reach[0] + abs(b) * reach[1] + abs(c))
    lost = inflate(TINY * (reach[0] + reach[1]))  # by coefficients that are subnormal
    return a, b, c, inflate(stray(4, size) + lost)


def _float_corner(corner: Triple, *, fast: bool) -> tuple[float, float, float]:
    """A corner as close as floats come, half a unit in the last place, and that distance."""
    x, y = nearest_ratio(corner[0], corner[2]), nearest_ratio(corner[1], corner[2])
    return x, y, 0.0 if fast else inflate(UNIT * max(abs(x), abs(y)) + TINY)


@lru_cache(maxsize=16)
def _float_polygon(lines: tuple[Triple, ...], *reach: float, fast: bool) -> np.ndarray:
    """A polygon as the walk holds it: corners, their radii, the lines of the sides, their slacks.

    Remembered, since small counts of one domain are often repeated.
    """
    corners = [_float_corner(corner, fast=fast) for corner in corners_of(lines)]
    return np.array(
        [(*p, *_float_line(line, reach)) for p, line in zip(corners, lines, strict=True)]
    ).T


def _name(net: Net, patterns: Sequence[bytes]) -> np.ndarray:
    on = np.flatnonzero(np.frombuffer(b"".join(patterns), dtype=np.uint8))
    return np.asarray(np.bitwise_xor.reduce(net.names[on], axis=0))
