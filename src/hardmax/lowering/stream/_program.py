"""Rows and heads: what a function's Transformer will do, said before any weight is built.

The prompt is (sink, data, further tokens). The data token carries the computation in *rows*, its
stream coordinates. A row starts as an affine function of the input (its preload) and heads add to
it; the sink holds 0 in all rows. Everything here is small and exact; `assemble` turns it into
weights.

Stages number the sublayers: attention layer l is stage 2l, the feed-forward layer after it is
stage 2l + 1, the embedding is stage -1. What is written at stage s can be read after it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax.core import Box
from hardmax.lowering.stream._form import Form

EMBEDDING = -1


@dataclass(frozen=True, eq=False)
class Gate:
    """One head over {sink, data}: value * sigmoid(coldness * gate), both read at its stage.

    Keys are +-1/2, so the data token leads the sink by `gate`, and the largest logit is half of
    coldness * |gate|. The sink's value is 0.
    """

    stage: int
    gate: Form
    value: Form
    coldness: float
    node: int
    gain: float  # how much the node's result moves with this head's output


@dataclass(frozen=True, eq=False)
class Unit:
    """One ReLU of a feed-forward layer: max(value, 0)."""

    stage: int
    value: Form
    node: int
    gain: float


@dataclass(frozen=True, eq=False)
class Chooser:
    """One head over all tokens, whose keys and values are laid down by the embedding.

    Token j scores query . (keys[j] as affine functions of the input) and holds values[j], affine
    in the input too; both are tables over tokens. `query` are forms of the data token.
    """

    stage: int
    query: tuple[Form, ...]
    keys: tuple[np.ndarray, ...]  # one table (tokens x (inputs + 1)) for each query
    values: np.ndarray  # tokens x (inputs + 1): weights of the inputs, then the constant
    coldness: float
    node: int
    gain: float
    score_ends: tuple[np.ndarray, np.ndarray]  # each token's smallest and largest score
    value_range: tuple[float, float]
    contest: bool = False  # the scores are the values

    @property
    def tokens(self) -> int:
        return self.values.shape[0]


Maker = Gate | Unit | Chooser


@dataclass(eq=False)
class Row:
    """A stream coordinate: offset + weights . input + sum over makers of writes[maker] * output."""

    inputs: dict[int, Fraction] = field(default_factory=dict)
    offset: Fraction = Fraction(0)
    writes: dict[int, Fraction] = field(default_factory=dict)

    def ready(self, makers: list[Maker]) -> int:
        """The stage after which nothing more is written."""
        return max((makers[m].stage for m in self.writes), default=EMBEDDING)


class Program:
    """Rows and makers, emitted node by node."""

    def __init__(self, domain: Box) -> None:
        self.domain = domain
        self.makers: list[Maker] = []
        self.rows: list[Row] = [Row({i: Fraction(1)}) for i in range(domain.dimension)]
        self.outputs: list[Form] = []
        self.views: dict[tuple, Form] = {}

    def input(self, index: int) -> Form:
        return Form.of_row(index)

    def ready(self, *forms: Form) -> int:
        """The stage after which all forms can be read."""
        rows = {row for form in forms for row in form.terms}
        return max((self.rows[row].ready(self.makers) for row in rows), default=EMBEDDING)

    def row(self, preload: Form | None = None) -> int:
        """A new row, which follows a form if one is given."""
        self.rows.append(Row())
        if preload is not None:
            self.follow(len(self.rows) - 1, preload)
        return len(self.rows) - 1

    def follow(self, row: int, form: Form) -> None:
        """Let a row follow a form: whatever writes the form's rows writes this one too."""
        self.rows[row].offset += form.constant
        for source, factor in form.terms.items():
            self._follow(self.rows[row], self.rows[source], factor)

    @staticmethod
    def _follow(new: Row, old: Row, factor: Fraction) -> None:
        new.offset += factor * old.offset
        for table, source in ((new.inputs, old.inputs), (new.writes, old.writes)):
            for key, weight in source.items():
                table[key] = table.get(key, Fraction(0)) + factor * weight

    def view(self, form: Form, seen: Form) -> None:
        """Note that rows preloaded with a form show it until their own makers write to them."""
        self.views.setdefault(form.key, seen)

    def gate(
        self,
        gate: Form,
        value: Form,
        *,
        coldness: float,
        node: int,
        gain: float,
        stage: int | None = None,
    ) -> int:
        """Emit value * sigmoid(coldness * gate) at the first attention layer that can."""
        if stage is None:
            stage = attention_after(self.ready(gate, value))
        return self._emit(Gate(stage, gate, value, coldness, node, gain))

    def unit(self, value: Form, *, node: int, gain: float, stage: int | None = None) -> int:
        """Emit max(value, 0) at the first feed-forward layer that can."""
        stage = feed_forward_after(self.ready(value)) if stage is None else stage
        return self._emit(Unit(stage, value, node, gain))

    def choose(self, chooser: Chooser) -> int:
        return self._emit(chooser)

    def write(self, row: int, maker: int, weight: Fraction | float) -> None:
        self.rows[row].writes[maker] = self.rows[row].writes.get(maker, Fraction(0)) + Fraction(
            weight
        )

    def _emit(self, maker: Maker) -> int:
        self.makers.append(maker)
        return len(self.makers) - 1

    @property
    def tokens(self) -> int:
        choosers = [m.tokens for m in self.makers if isinstance(m, Chooser)]
        gates = any(isinstance(m, Gate) for m in self.makers)
        return max([1 + gates, *choosers])


def attention_after(stage: int) -> int:
    """The first attention stage after a stage."""
    return stage + 1 if stage % 2 else stage + 2


def feed_forward_after(stage: int) -> int:
    """The first feed-forward stage after a stage."""
    return stage + 2 if stage % 2 else stage + 1
