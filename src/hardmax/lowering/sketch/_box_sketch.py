"""The sketch of a Transformer whose input is a point of a box: functions, and networks.

The prompt is (sink, data, further tokens). The data token carries the computation in *rows*, its
registers. A row starts as an affine function of the input (its preload) and heads add to it; the
sink holds 0 in all rows. Everything here is small and exact; `lay_out` turns it into layers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hardmax.core import Box
from hardmax.lowering.sketch._form import Form
from hardmax.lowering.sketch._layers import EMBEDDING, attention_after, feed_forward_after

Pair = tuple[float, float]  # the ends of a range


@dataclass(eq=False)
class Row:
    """A register: offset + weights . input + sum over makers of writes[maker] * output.

    On the data token, that is. A `table` (tokens x (inputs + 1), the constant last) is what the
    embedding lays down on every token instead, for heads to look at.
    """

    name: str = ""
    inputs: dict[int, Fraction] = field(default_factory=dict)
    offset: Fraction = Fraction(0)
    writes: dict[int, Fraction] = field(default_factory=dict)
    table: np.ndarray | None = None
    bound: ClassVar[float] = math.inf  # ranges are found once everything is drawn
    beyond: ClassVar[float] = math.inf


RowForm = Form[Row, Fraction]


def exact_form(number: Fraction | float = 0, row: Row | None = None) -> RowForm:
    """A number exactly, plus a row if one is given."""
    return Form({} if row is None else {row: Fraction(1)}, Fraction(number))


@dataclass(frozen=True, eq=False)
class Gate:
    """One head over {sink, data}: value * sigmoid(coldness * gate), both read at its stage.

    Keys are +-1/2, so the data token leads the sink by `gate`, and the largest logit is half of
    coldness * |gate|. The sink's value is 0.
    """

    stage: int  # the sublayer
    gate: RowForm
    value: RowForm
    coldness: float
    node: int
    gain: float  # how much the node's result moves with this head's output

    @property
    def is_soft_maximum(self) -> bool:
        """Of the value and 0: the gate is its own value."""
        return self.gate.key == self.value.key


@dataclass(frozen=True, eq=False)
class Unit:
    """One ReLU of a feed-forward layer: max(value, 0)."""

    stage: int
    value: RowForm
    node: int
    gain: float


@dataclass(frozen=True, eq=False)
class Chooser:
    """One head over all tokens, whose keys and values are laid down by the embedding.

    Token j scores query . (keys[j] as affine functions of the input) and holds values[j], affine
    in the input too; both are tables over tokens. `query` are forms of the data token.
    """

    stage: int
    query: tuple[RowForm, ...]
    keys: tuple[np.ndarray, ...]  # one table (tokens x (inputs + 1)) for each query
    values: np.ndarray  # tokens x (inputs + 1): weights of the inputs, then the constant
    coldness: float
    node: int
    gain: float
    score_ends: tuple[np.ndarray, np.ndarray]  # each token's smallest and largest score
    value_range: Pair
    contest: bool = False  # the scores are the values

    @property
    def tokens(self) -> int:
        return self.values.shape[0]


Maker = Gate | Unit | Chooser  # what writes to rows


def forms_of(maker: Maker) -> tuple[RowForm, ...]:
    """All that a maker reads."""
    match maker:
        case Gate():
            return maker.gate, maker.value
        case Unit():
            return (maker.value,)
        case Chooser():
            return maker.query


class BoxSketch:
    """Rows and makers, emitted node by node."""

    def __init__(self, domain: Box) -> None:
        self.domain = domain
        self.makers: list[Maker] = []
        self.rows: list[Row] = [Row(inputs={i: Fraction(1)}) for i in range(domain.dimension)]
        self.outputs: list[RowForm] = []
        self.views: dict[object, RowForm] = {}

    def input(self, index: int) -> RowForm:
        return exact_form(0, self.rows[index])

    def ready(self, *forms: RowForm) -> int:
        """The stage after which all forms can be read."""
        makers = {m for form in forms for row in form.terms for m in row.writes}
        return max((self.makers[m].stage for m in makers), default=EMBEDDING)

    def row(self, preload: RowForm | None = None) -> Row:
        """A new row, which follows a form if one is given."""
        self.rows.append(Row())
        if preload is not None:
            self.follow(self.rows[-1], preload)
        return self.rows[-1]

    def follow(self, row: Row, form: RowForm) -> None:
        """Let a row follow a form: whatever writes the form's rows writes this one too."""
        row.offset += form.constant
        for source, factor in form.terms.items():
            row.offset += factor * source.offset
            for table, others in ((row.inputs, source.inputs), (row.writes, source.writes)):
                for key, weight in others.items():
                    table[key] = table.get(key, Fraction(0)) + factor * weight

    def view(self, form: RowForm, seen: RowForm) -> None:
        """Note that rows preloaded with a form show it until their own makers write to them."""
        self.views.setdefault(form.key, seen)

    def gate(
        self,
        gate: RowForm,
        value: RowForm,
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

    def unit(self, value: RowForm, *, node: int, gain: float, stage: int | None = None) -> int:
        """Emit max(value, 0) at the first feed-forward layer that can."""
        stage = feed_forward_after(self.ready(value)) if stage is None else stage
        return self._emit(Unit(stage, value, node, gain))

    def choose(self, chooser: Chooser) -> int:
        return self._emit(chooser)

    def write(self, row: Row, maker: int, weight: Fraction | float) -> None:
        row.writes[maker] = row.writes.get(maker, Fraction(0)) + Fraction(weight)

    def written(self, maker: int, weight: Fraction | float = 1) -> RowForm:
        """A new row that holds what a maker writes, and nothing else."""
        row = self.row()
        self.write(row, maker, weight)
        return exact_form(0, row)

    def _emit(self, maker: Maker) -> int:
        self.makers.append(maker)
        return len(self.makers) - 1

    def reads(self) -> Iterator[tuple[int, RowForm]]:
        """Every form that somebody reads, and at which stage; outputs after all of them."""
        for maker in self.makers:
            for form in forms_of(maker):
                yield maker.stage, form
        for form in self.outputs:
            yield self.last_stage + 1, form

    def drop(self, row: Row, after: int) -> None:
        """Leave a row out of all that is read after a stage."""
        for m, maker in enumerate(self.makers):
            if maker.stage > after:
                self.makers[m] = _without(maker, row)
        self.outputs = [_drop(form, row) for form in self.outputs]

    @property
    def last_stage(self) -> int:
        return max((maker.stage for maker in self.makers), default=EMBEDDING)

    @property
    def tokens(self) -> int:
        choosers = [m.tokens for m in self.makers if isinstance(m, Chooser)]
        gates = any(isinstance(m, Gate) for m in self.makers)
        return max([1 + gates, *choosers])

    @property
    def data(self) -> int:
        """The data token."""
        return 1 if self.tokens > 1 else 0


def _without(maker: Maker, row: Row) -> Maker:
    match maker:
        case Gate():
            return replace(maker, gate=_drop(maker.gate, row), value=_drop(maker.value, row))
        case Unit():
            return replace(maker, value=_drop(maker.value, row))
        case Chooser():
            return replace(maker, query=tuple(_drop(form, row) for form in maker.query))


def _drop(form: RowForm, row: Row) -> RowForm:
    return Form({r: w for r, w in form.terms.items() if r is not row}, form.constant)
