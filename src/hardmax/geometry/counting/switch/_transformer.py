"""A hard Transformer as a switch program: what is constant on a cell is worked into the weights.

The stream is tokens x width affine forms of the state. A score is a product of two of them, a query
and a key. It is affine where one factor is constant, or where quadratic parts cancel; parts that
all seen tokens have in common cancel too, since only differences choose. Constants are known
exactly: they are the context. Tokens that are constant stay so in a context of their own, one for
each choice of their heads.

Only tokens that can influence the read-out are followed: behind the last layer the one that is
read, and before an attention layer all that a followed token sees. What other tokens attend to is
no part of a cell's pattern.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError, SemanticsError
from hardmax.core import Attention, FeedForward, Head, Transformer, VectorInput
from hardmax.geometry.counting._domains import Domain, own_dimension
from hardmax.geometry.counting._products import refuse_products
from hardmax.geometry.counting.switch._program import (
    Group,
    Piece,
    QuadraticWalls,
    SwitchLayer,
)
from hardmax.geometry.counting.switch._rows import (
    Row,
    affine_rows,
    constant,
    frame_of,
    is_constant,
    matrix,
    rational,
    rationals,
    substitute_rows,
    unit,
)

if TYPE_CHECKING:
    from flint import fmpq, fmpq_mat

Stream = dict[int, tuple[Row, ...]]  # by token: a row for each coordinate
Forms = list[list["fmpq"]]
Projected = dict[int, Forms]  # the same of queries or keys


def vector_input_of(model: Transformer) -> VectorInput:
    """The input of a hard Transformer of vectors; others are refused."""
    refuse_products(model)
    if not model.is_hard:
        raise SemanticsError(
            "A soft Transformer is smooth: it has no linear regions. Take those of its hard "
            "skeleton, model.with_weightings([Hardmax()] * len(model.heads))."
        )
    if not isinstance(model.input, VectorInput):
        raise RequestError(
            "Regions are sets of real inputs, but this Transformer reads sequences of symbols. "
            "Give one that reads vectors (VectorInput)."
        )
    return model.input


@dataclass(frozen=True, eq=False)
class _Step:
    """A layer in one context, and how the stream is read from the state behind it."""

    layer: SwitchLayer
    base: Stream  # over the old state
    place: dict[tuple[int, int], int]  # (token, coordinate) -> coordinate of the next state
    resolved: dict[int, tuple[int, ...]]  # constant token -> its branching groups
    hidden: dict[int, dict[int, int]]  # token -> hidden unit -> coordinate of the next state
    fixed: dict[int, dict[int, fmpq]]  # token -> hidden unit -> its constant value


class TransformerProgram:
    """Layers are made when a context asks for them."""

    def __init__(self, model: Transformer, domain: Domain) -> None:
        self.model, self.domain = model, domain
        source = vector_input_of(model)
        frame, self.dimension = frame_of(domain, source.inputs), own_dimension(domain)
        self._streams: list[Stream] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        self._steps: dict[tuple[int, int], _Step | None] = {}
        self._after: dict[tuple[object, ...], int] = {}
        self._exact: dict[int, tuple[fmpq_mat, ...]] = {}
        embedded = {
            t: affine_rows(source.maps[t], source.offsets[t]) for t in self._tokens_followed[0]
        }
        stream = {
            t: tuple(substitute_rows(rows, frame, self.dimension)) for t, rows in embedded.items()
        }
        self._context(stream)

    def __reduce__(self) -> tuple[type[TransformerProgram], tuple[object, ...]]:
        return TransformerProgram, (self.model, self.domain)

    @property
    def depth(self) -> int:
        return len(self.model.sublayers)

    @property
    def outputs(self) -> int:
        return self.model.outputs

    @property
    def _tokens_followed(self) -> tuple[tuple[int, ...], ...]:
        return self.model.tokens_that_matter

    def _tokens_seen(self, head: Head, token: int) -> range:
        return range(token + 1 if head.causal else self.model.tokens)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(
            len(after) * (len(sub.heads) if isinstance(sub, Attention) else sub.hidden_width)
            for sub, after in zip(self.model.sublayers, self._tokens_followed[1:], strict=True)
        )

    # ---- contexts ----------------------------------------------------------------------------

    def _context(self, stream: Stream) -> int:
        key = tuple(stream.items())
        if key not in self._numbers:
            self._numbers[key] = len(self._streams)
            self._streams.append(stream)
        return self._numbers[key]

    def layer(self, number: int, context: int) -> SwitchLayer | None:
        step = self._step(number, context)
        return None if step is None else step.layer

    def after(self, number: int, context: int, winners: tuple[Piece, ...]) -> int:
        key = (number, context, tuple(piece.names for piece in winners))
        if key not in self._after:
            self._after[key] = self._next(number, context, winners)
        return self._after[key]

    def _next(self, number: int, context: int, winners: tuple[Piece, ...]) -> int:
        step = self._step(number, context)
        assert step is not None
        won = dict(zip(step.layer.branching, winners, strict=True))
        width = len(step.layer.base)
        stream = {
            t: tuple(
                self._behind(step, t, c, row, width, won) for c, row in enumerate(step.base[t])
            )
            for t in self._tokens_followed[number + 1]
        }
        sublayer = self.model.sublayers[number]
        if isinstance(sublayer, FeedForward):
            stream = _add_rectifiers(sublayer, step, stream)
        return self._context(stream)

    def _behind(
        self, step: _Step, t: int, c: int, row: Row, width: int, won: dict[int, Piece]
    ) -> Row:
        """A coordinate over the next state: constant where it is, else read from its place."""
        if (t, c) not in step.place:
            return constant(width, row[-1])
        place = step.place[t, c]
        if t in step.resolved:
            for g in step.resolved[t]:
                targets = step.layer.groups[g].targets
                if place in targets:
                    addition = won[g].payload[targets.index(place)]
                    row = tuple(x + y for x, y in zip(row, addition, strict=True))
            if is_constant(row):
                return constant(width, row[-1])
        return unit(width, place)

    def recast(self, number: int, context: int, forms: Sequence[Row]) -> int:
        streams = self._streams[context].items()
        stream = {t: tuple(substitute_rows(rows, forms, self.dimension)) for t, rows in streams}
        recast_context = self._context(stream)
        if self._step(number, recast_context) is None:
            raise QuadraticWalls(
                f"In sublayer {number} the asking token and the keys it sees both move with the "
                f"input, so scores are quadratic and walls are conics: cells are no polytopes. "
                f"Keep the keys fixed, or count along a segment."
            )
        return recast_context

    def readout(self, context: int) -> tuple[Row, ...]:
        ((_, rows),) = self._streams[context].items()
        read = self.model.readout
        return _affine(rationals(read.weights), [rational(x) for x in read.bias.tolist()], rows)

    # ---- layers ------------------------------------------------------------------------------

    def _step(self, number: int, context: int) -> _Step | None:
        key = (number, context)
        if key not in self._steps:
            sublayer, stream = self.model.sublayers[number], self._streams[context]
            if isinstance(sublayer, Attention):
                self._steps[key] = self._attention(sublayer, number, stream)
            elif isinstance(sublayer, FeedForward):
                self._steps[key] = self._feed_forward(sublayer, number, stream)
        return self._steps[key]

    def _attention(self, sublayer: Attention, number: int, stream: Stream) -> _Step | None:
        followed = self._tokens_followed[number + 1]
        known = [_project_stream(head, stream, self._weights(head)) for head in sublayer.heads]
        raw: list[tuple[int, tuple[Piece, ...]]] = []
        for token in followed:
            for head, (queries, keys, values) in zip(sublayer.heads, known, strict=True):
                pieces = _pieces(
                    head, token, self._tokens_seen(head, token), queries[token], keys, values
                )
                if pieces is None:
                    return None
                raw.append((token, Group.of(pieces, range(self.model.width)).pieces))
        return _wire_groups(raw, {token: stream[token] for token in followed})

    def _weights(self, head: Head) -> tuple[fmpq_mat, ...]:
        if id(head) not in self._exact:
            self._exact[id(head)] = tuple(
                _exact_matrix(m) for m in (head.query, head.key, head.value, head.output)
            )
        return self._exact[id(head)]

    def _feed_forward(self, layer: FeedForward, number: int, stream: Stream) -> _Step:
        """Rectifiers get coordinates of their own; constant ones are worked in."""
        followed = self._tokens_followed[number + 1]
        width = len(stream[followed[0]][0]) - 1
        zero = constant(width, rational(0))
        place, base = _next_coordinates({token: stream[token] for token in followed})
        inner, bias = rationals(layer.inner), [rational(x) for x in layer.inner_bias.tolist()]
        groups: list[Group] = []
        hidden: dict[int, dict[int, int]] = {}
        fixed: dict[int, dict[int, fmpq]] = {}
        for token in followed:
            hidden[token], fixed[token] = {}, {}
            for unit_number, form in enumerate(_affine(inner, bias, stream[token])):
                both = [Piece(zero, (zero,), (0,)), Piece(form, (form,), (1,))]
                group = Group.of(both, (len(base),))
                if len(group.pieces) == 1:
                    fixed[token][unit_number] = group.pieces[0].payload[0][-1]
                    groups.append(Group((Piece(zero, (), group.pieces[0].names),), ()))
                else:
                    hidden[token][unit_number] = len(base)
                    base.append(None)
                    groups.append(group)
        layer_here = SwitchLayer(width, tuple(groups), tuple(base))
        return _Step(
            layer_here, {token: stream[token] for token in followed}, place, {}, hidden, fixed
        )


def _add_rectifiers(layer: FeedForward, step: _Step, stream: Stream) -> Stream:
    """Add outer @ relu + outer_bias."""
    outer, bias = rationals(layer.outer), [rational(x) for x in layer.outer_bias.tolist()]
    after = {}
    for token, rows in stream.items():
        new = [list(row) for row in rows]
        for c, row in enumerate(new):
            row[-1] += bias[c]
            for unit_number, place in step.hidden[token].items():
                row[place] += outer[c][unit_number]
            for unit_number, value in step.fixed[token].items():
                row[-1] += outer[c][unit_number] * value
        after[token] = tuple(tuple(row) for row in new)
    return after


def _wire_groups(raw: list[tuple[int, tuple[Piece, ...]]], stream: Stream) -> _Step:
    """Groups with targets only where their pieces differ; what all pieces add goes to the base."""
    base = {token: [list(row) for row in rows] for token, rows in stream.items()}
    switched: dict[tuple[int, int], None] = {}
    uses: list[list[int]] = []
    for token, pieces in raw:
        differ = []
        for c, row in enumerate(pieces[0].payload):
            if all(piece.payload[c] == row for piece in pieces):
                base[token][c] = [x + y for x, y in zip(base[token][c], row, strict=True)]
            else:
                differ.append(c)
                switched[token, c] = None
        uses.append(differ)
    rows = {token: tuple(tuple(row) for row in found) for token, found in base.items()}
    place, below = _next_coordinates(rows, switched)
    groups: list[Group] = []
    resolved: dict[int, tuple[int, ...]] = {}
    for g, ((token, pieces), differ) in enumerate(zip(raw, uses, strict=True)):
        reduced = tuple(
            Piece(piece.score, tuple(piece.payload[c] for c in differ), piece.names)
            for piece in pieces
        )
        groups.append(Group(reduced, tuple(place[token, c] for c in differ)))
        if len(pieces) > 1 and all(is_constant(row) for row in stream[token]):
            resolved[token] = (*resolved.get(token, ()), g)
    width = len(next(iter(stream.values()))[0]) - 1
    branching = tuple(g for found in resolved.values() for g in found)
    layer = SwitchLayer(width, tuple(groups), tuple(below), branching)
    return _Step(layer, rows, place, resolved, {}, {})


def _next_coordinates(
    rows: Stream, switched: Collection[tuple[int, int]] = ()
) -> tuple[dict[tuple[int, int], int], list[Row | None]]:
    """The coordinates that move or are chosen, as coordinates of the next state."""
    place: dict[tuple[int, int], int] = {}
    base: list[Row | None] = []
    for t, found in rows.items():
        for c, row in enumerate(found):
            if (t, c) in switched or not is_constant(row):
                place[t, c] = len(base)
                base.append(row)
    return place, base


def _pieces(
    head: Head, t: int, seen: range, query: Forms, keys: Projected, values: Stream
) -> list[Piece] | None:
    """A piece for each seen token; None if a difference of scores is quadratic in the state."""
    pieces, first = [], None
    for j in seen:
        quadratic, row = _scalar_product(query, keys[j], len(values[j][0]))
        if first is None:
            first = quadratic
        elif quadratic != first:
            return None
        if head.position_bias is not None:
            row[-1] += rational(float(head.position_bias[t, j]))
        pieces.append(Piece(tuple(row), values[j], (j,)))
    return pieces


def _scalar_product(
    query: Forms, key: Forms, width: int
) -> tuple[dict[tuple[int, int], fmpq], list[fmpq]]:
    """sum_c q_c k_c for affine q_c and k_c: quadratic coefficients that are not 0, affine part."""
    row = [rational(0)] * width
    quadratic: dict[tuple[int, int], fmpq] = {}
    for q, k in zip(query, key, strict=True):
        for i in range(width - 1):
            row[i] += q[i] * k[-1] + q[-1] * k[i]
            if q[i]:
                for j in range(width - 1):
                    if k[j]:
                        place = (min(i, j), max(i, j))
                        quadratic[place] = quadratic.get(place, 0) + q[i] * k[j]
        row[-1] += q[-1] * k[-1]
    return {place: x for place, x in quadratic.items() if x}, row


def _project_stream(
    head: Head, stream: Stream, weights: tuple[fmpq_mat, ...]
) -> tuple[Projected, Projected, Stream]:
    """Queries, keys and what values write, by token, as rows over the state."""
    query, key, value, output = weights
    queries: Projected = {}
    keys: Projected = {}
    values: Stream = {}
    for token, rows in stream.items():
        here = matrix(rows, len(rows[0]))
        queries[token] = (query * here).tolist() if head.key_width else []
        keys[token] = (key * here).tolist() if head.key_width else []
        values[token] = tuple(tuple(row) for row in (output * (value * here)).tolist())
    return queries, keys, values


def _exact_matrix(array: np.ndarray) -> fmpq_mat:
    return matrix(rationals(array), array.shape[1])


def _affine(weights: list[list[fmpq]], bias: list[fmpq], rows: Sequence[Row]) -> tuple[Row, ...]:
    """weights @ rows + bias, as rows over the same state."""
    if not weights:
        return ()
    found = (matrix(weights, len(rows)) * matrix(rows, len(rows[0]))).tolist()
    return tuple((*row[:-1], row[-1] + b) for row, b in zip(found, bias, strict=True))
