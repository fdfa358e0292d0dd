"""The sheet on which a legible model is drawn: named blocks of coordinates, heads, hidden units.

Coordinate 0 is 1 at every token, coordinate 1 at the start token alone. What is read of a block is
what it holds less what it holds at the start token: so every reader sees 0 there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hardmax.core import (
    SYMBOL,
    Attention,
    Block,
    Circuit,
    FeedForward,
    Head,
    Node,
    Softmax,
    Sublayer,
    square_code,
)
from hardmax.core import layers_of as layers_of_sublayers
from hardmax.languages.programs import ClosedSteps
from hardmax.lowering.programs.legible._functions import Exact

ONE, START = 0, 1
COLDNESS = 64.0  # a power of two: logits of whole and half scores are exact

Row = dict[int, float]  # a linear form: weights by coordinate


def added(rows: Iterable[tuple[float, Mapping[int, float]]]) -> Row:
    """Multiples of rows, added up; weights of 0 are left out."""
    total: Row = {}
    for weight, row in rows:
        for place, one in row.items():
            total[place] = total.get(place, 0.0) + weight * one
    return {place: weight for place, weight in total.items() if weight}


@dataclass(eq=False)
class Held:
    """A block on its way: what `core.Block` says, and when it is there."""

    step: int
    form: str
    first: int
    time: int  # of the sublayer that writes it; attention at even ones, -1 is the embedding
    items: tuple
    at_start: list[float]

    def code(self, number: Exact) -> list[float]:
        """The coordinates of a number: as `core.Block` says."""
        if self.form == "one-hot":
            return [float(item == number) for item in self.items]
        return [float(square_code(number, self.items) if self.form == "square" else number)]

    def read(self, weights: Sequence[float]) -> Row:
        """A linear form of its coordinates, 0 at the start token."""
        row = {self.first + k: float(w) for k, w in enumerate(weights) if w}
        shift = sum(w * there for w, there in zip(weights, self.at_start, strict=True))
        return added([(1.0, row), (-1.0, {START: shift})])


@dataclass(frozen=True, eq=False)
class Scores:
    """Pairs of linear forms whose products add up to the score, and what masks say of it."""

    pairs: list[tuple[Row, Row]]
    causal: bool = False
    bias: np.ndarray | None = None
    masks: tuple[str, ...] = ()  # the steps that the masks stand for


@dataclass(eq=False)
class DrawnHead:
    """How positions are scored, and what each coordinate is sent."""

    scores: Scores
    values: dict[int, Row]  # by the coordinate that is written


@dataclass(eq=False)
class Unit:
    """outputs += weight * relu(inner . x + bias)."""

    inner: Row
    bias: float
    outputs: Row


@dataclass(eq=False)
class Component:
    """What makes one step: a head or hidden units, at a time, and what it writes."""

    step: int
    time: int
    made: DrawnHead | list[Unit]
    writes: list[Held]
    text: str


@dataclass(eq=False)
class Sheet:
    closed: ClosedSteps
    longest: int
    shown: Callable[[int, str], tuple]  # the items of a block of a step, in a form
    width: int = 2
    blocks: list[Held] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)

    def block(self, step: int, form: str, time: int) -> Held:
        """A new block, silent at the start token for now."""
        items = () if form == "share" else self.shown(step, form)
        wide = len(items) if form == "one-hot" else 1
        held = Held(step, form, self.width, time, items, [0.0] * wide)
        self.width += wide
        self.blocks.append(held)
        return held

    def held(self, step: int, form: str) -> Held | None:
        for block in self.blocks:
            if block.step == step and block.form == form:
                return block
        return None

    def largest(self) -> tuple[int, int]:
        """About how many padded parameters the model has, and the step that most of them are for.

        Every layer is as wide as the stream, with the most heads and hidden units of any.
        """
        if not self.components:  # all is embedded, or nothing is held
            return 0, SYMBOL
        units: dict[int, int] = {}
        heads: dict[int, list[int]] = {}
        for one in self.components:
            if isinstance(one.made, DrawnHead):
                sent = {tuple(sorted(row.items())) for row in one.made.values.values()}
                heads.setdefault(one.time, []).append(len(one.made.scores.pairs) + len(sent))
            else:
                units[one.time] = units.get(one.time, 0) + len(one.made)
        layers = len({one.time // 2 for one in self.components})
        most = max(map(len, heads.values()), default=0) * max(map(max, heads.values()), default=0)
        hidden = max(units.values(), default=0)
        if hidden >= most:
            fed = [one for one in self.components if isinstance(one.made, list)]
            sizes = [len(one.made) for one in fed if isinstance(one.made, list)]
            step = fed[sizes.index(max(sizes))].step
        else:
            step = max(self.blocks, key=lambda block: len(block.at_start)).step
        return 2 * layers * self.width * (most + hidden), step

    # ---- weights -------------------------------------------------------------------------------

    def sublayers(self) -> tuple[list[Sublayer], dict[int, int]]:
        """The sublayers that are used, and their numbers by time."""
        times = sorted({one.time for one in self.components})
        made: list[Sublayer] = []
        for time in times:
            parts = [one.made for one in self.components if one.time == time]
            heads = [self._head(part) for part in parts if isinstance(part, DrawnHead)]
            units = [unit for part in parts if isinstance(part, list) for unit in part]
            made.append(Attention(heads) if heads else self._feed_forward(units))
        return made, {-1: -1, **{time: k for k, time in enumerate(times)}}

    def _matrix(self, rows: Sequence[Mapping[int, float]]) -> np.ndarray:
        matrix = np.zeros((len(rows), self.width))
        for k, row in enumerate(rows):
            for place, weight in row.items():
                matrix[k, place] = weight
        return matrix

    def _head(self, drawn: DrawnHead) -> Head:
        """Coordinates that are sent the same share a row of values."""
        values: list[Row] = []
        output = {}
        for place, row in drawn.values.items():
            if row not in values:
                values.append(row)
            output[place] = values.index(row)
        out = np.zeros((self.width, len(values)))
        for place, k in output.items():
            out[place, k] = 1.0
        scores = drawn.scores
        return Head(
            self._matrix([query for query, _ in scores.pairs]),
            self._matrix([key for _, key in scores.pairs]),
            self._matrix(values),
            out,
            Softmax(COLDNESS),
            scores.causal,
            scores.bias,
        )

    def _feed_forward(self, units: list[Unit]) -> FeedForward:
        inner = self._matrix([unit.inner for unit in units])
        bias = np.array([unit.bias for unit in units])
        outer = self._matrix([unit.outputs for unit in units]).T
        return FeedForward(inner, bias, outer, np.zeros(self.width))

    # ---- the circuit ---------------------------------------------------------------------------

    def circuit(self, outputs: Sequence[Held]) -> Circuit:
        sublayers, order = self.sublayers()
        layers = layers_of_sublayers(sublayers)
        number = {id(block): k for k, block in enumerate(self.blocks)}
        nodes = self._embedding_nodes(number)
        taken: dict[int, int] = {}
        for one in sorted(self.components, key=lambda c: c.time):
            at = order[one.time]
            many = 1 if isinstance(one.made, DrawnHead) else len(one.made)
            first = taken.get(at, 0)
            taken[at] = first + many
            name = self.closed.name(one.step)
            is_head = isinstance(one.made, DrawnHead)
            called = f"a{layers[at]}.h{first}" if is_head else f"m{layers[at]}.{name}"
            reads = self._reads(one)
            writes = tuple(number[id(block)] for block in one.writes)
            masks = one.made.scores.masks if isinstance(one.made, DrawnHead) else ()
            last = first + many
            nodes.append(Node(called, at, first, last, name, one.text, reads, writes, masks))
        read = tuple(sorted({number[id(block)] for block in outputs}))
        end = len(sublayers)
        nodes.append(Node("logits", end, 0, 0, "", "", (("out", read),), ()))
        blocks = tuple(self._block(block, order) for block in self.blocks)
        return Circuit(ONE, START, blocks, tuple(nodes))

    def _reads(self, one: Component) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """The blocks that have a weight at each port."""
        if isinstance(one.made, DrawnHead):
            rows = {
                "q": [query for query, _ in one.made.scores.pairs],
                "k": [key for _, key in one.made.scores.pairs],
                "v": list(one.made.values.values()),
            }
        else:
            rows = {"in": [unit.inner for unit in one.made]}
        owner = {b.first + k: n for n, b in enumerate(self.blocks) for k in range(len(b.at_start))}
        return tuple(
            (port, tuple(sorted({owner[p] for row in own for p in row if p in owner})))
            for port, own in rows.items()
        )

    def _embedding_nodes(self, number: dict[int, int]) -> list[Node]:
        nodes = []
        for name, kind in (("embed", "token"), ("pos_embed", "place")):
            own = [b for b in self.blocks if b.time == -1 and self.kinds[b.step] == kind]
            writes = tuple(number[id(b)] for b in own)
            called = ", ".join(dict.fromkeys(self.closed.name(b.step) for b in own))
            nodes.append(Node(name, -1, 0, 0, "", called, (), writes))
        return nodes

    kinds: dict[int, str] = field(default_factory=dict)  # of embedded steps: token or place

    def _block(self, held: Held, order: Mapping[int, int]) -> Block:
        labels = self.closed.steps.notes[held.step].labels
        return Block(
            held.step,
            self.closed.name(held.step),
            held.form,
            held.first,
            order[held.time],
            held.items,
            tuple(labels.get(item, str(item)) for item in held.items),
            tuple(held.at_start),
        )
