"""A hard Transformer whose input moves along a segment: every token may move, and all is exact.

On an interval without walls the stream is affine in t, token by token. So queries, keys and values
are, a score is a quadratic in t, and a head's choice changes at roots of differences of quadratics.
Between them the head adds means of affine values, and the stream is affine again.

Numbers are whole, over one denominator an interval: weights are dyadic, and a tie of n tokens
multiplies by n. Scores may be multiplied by a positive number, so denominators do not enter them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._errors import DomainError, RequestError, SemanticsError
from hardmax.core import (
    Attention,
    Construction,
    FeedForward,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.geometry.counting._domains import Coordinates, Segment
from hardmax.geometry.counting._products import refuse_products
from hardmax.geometry.counting._whole import WholeLayer, lowest_terms, multiply_maps, whole_line
from hardmax.geometry.counting.line._cells import LineCell
from hardmax.geometry.counting.line._envelope import Form, Ledger, signs, upper_envelope
from hardmax.geometry.counting.line._quadratic import QuadraticNumber, rational
from hardmax.geometry.counting.line._segments import LineRegions
from hardmax.numerics import frozen_array

Runs = list[tuple[tuple[int, ...], QuadraticNumber]]  # winners, and until where


@dataclass(frozen=True, eq=False)
class _Piece:
    """An interval on which the stream is maps / under: width x tokens x (slope, level)."""

    left: QuadraticNumber
    right: QuadraticNumber
    pattern: tuple
    maps: np.ndarray
    under: int


def transformer_line(
    transformer: Transformer | Construction,
    start: Coordinates,
    end: Coordinates,
    *,
    everywhere: bool = False,
) -> LineRegions:
    """Every breakpoint of a hard Transformer on one segment, and what lies between.

    A cell is an open interval on which the following does not change: for every sublayer, and every
    token at which it can still influence the read-out, the set of tokens that each head attends to,
    and which rectifiers are on (a rectifier that is 0 throughout is off). Whether it can is
    read off the masks alone: the last sublayer matters at the token that is read; one before an
    attention layer also at whatever those tokens see. `everywhere` counts all tokens instead.

    Sublayer by sublayer each interval is cut at the roots where a head's winners change. A root
    at which scores touch and do not change places is none of them.
    """
    model = transformer.transformer if isinstance(transformer, Construction) else transformer
    segment = Segment(start, end)
    _check(model, segment)
    ledger = Ledger()
    pieces = [_embed_segment(model, segment)]
    layers = []
    everyone = tuple(range(model.tokens))
    for sublayer, matter in zip(model.sublayers, model.tokens_that_matter[1:], strict=True):
        asking = everyone if everywhere else matter
        step = _AttentionStep(sublayer) if isinstance(sublayer, Attention) else None
        pieces = [
            part
            for piece in pieces
            for part in (
                step.parts(piece, asking, ledger)
                if step is not None
                else _parts_by_rectifiers(sublayer, piece, asking, ledger)
            )
        ]
        layers.append(len(pieces))
    cells = tuple(_read_out(model, piece) for piece in pieces)
    points = frozen_array(np.array([float(cell.start) for cell in cells[1:]]))
    return LineRegions(segment, points, tuple(layers), ledger.decided, known=cells)


def _check(model: Transformer, segment: Segment) -> None:
    refuse_products(model)
    if not model.is_hard:
        raise SemanticsError(
            "A softmax is smooth, so there are no regions; ask for those of the hard skeleton, "
            "every head with the weighting Hardmax()."
        )
    if not isinstance(model.input, VectorInput):
        raise RequestError(
            "A model that reads symbols has no segments of inputs; give one that reads a vector."
        )
    if model.input.inputs != segment.dimension:
        raise DomainError(
            f"The model has {model.input.inputs} inputs, but the segment runs in "
            f"{segment.dimension} dimensions."
        )


def _embed_segment(model: Transformer, segment: Segment) -> _Piece:
    source = model.input
    assert isinstance(source, VectorInput)
    line, under = whole_line(segment.exact_start, segment.exact_end)
    whole = WholeLayer.of(source.maps.reshape(-1, source.inputs), source.offsets.reshape(-1))
    flat = whole.weights @ line
    flat[:, 1] += whole.biases * under
    maps = flat.reshape(source.tokens, source.width, 2).transpose(1, 0, 2)
    return _Piece(rational(0), rational(1), (), maps, under << whole.shift)


def _read_out(model: Transformer, piece: _Piece) -> LineCell:
    whole = WholeLayer.of(model.readout.weights, model.readout.bias)
    assert model.readout.token is not None
    rows = _affine(whole, piece.maps[:, model.readout.token], piece.under)
    under = piece.under << whole.shift
    slope, level = ([Fraction(one, under) for one in rows[:, k]] for k in (0, 1))
    return LineCell(piece.left, piece.right, piece.pattern, tuple(slope), tuple(level))


def _linear(matrix: np.ndarray) -> WholeLayer:
    return WholeLayer.of(matrix, np.zeros(len(matrix)))


def _affine(whole: WholeLayer, maps: np.ndarray, under: int) -> np.ndarray:
    """Rows of an affine map times the new denominator, under << shift; the last axis is (1, 0)."""
    rows = multiply_maps(whole.weights, maps)
    rows[..., 1] += (whole.biases * under).reshape(-1, *(1,) * (rows.ndim - 2))
    return rows


# ---- attention -----------------------------------------------------------------------------------


class _AttentionStep:
    """The heads of a layer in whole numbers."""

    def __init__(self, layer: Attention) -> None:
        self.heads = layer.heads
        self.queries = [_linear(head.query) for head in layer.heads]
        self.keys = [_linear(head.key) for head in layer.heads]
        self.values = [_linear(head.value) for head in layer.heads]
        self.outputs = [_linear(head.output) for head in layer.heads]
        self.biases = [
            None if head.position_bias is None else _linear(head.position_bias)
            for head in layer.heads
        ]

    def parts(self, piece: _Piece, asking: Sequence[int], ledger: Ledger) -> Iterator[_Piece]:
        """The interval cut where any head's winners change for any token that asks."""
        runs = [
            [
                (winners, until)
                for _, winners, until in upper_envelope(forms, piece.left, piece.right, ledger)
            ]
            for number in range(len(self.heads))
            for forms in self._scores(number, piece, asking)
        ]
        added = [self._added_by_token(number, piece) for number in range(len(self.heads))]
        for left, right, winners in _refine_runs(runs, piece):
            routing = [winners[i : i + len(asking)] for i in range(0, len(winners), len(asking))]
            maps, under = self._stream_after_heads(piece, added, asking, routing)
            pattern = (*piece.pattern, tuple(tuple(row) for row in routing))
            yield _Piece(left, right, pattern, *lowest_terms(maps, under))

    def _scores(self, number: int, piece: _Piece, asking: Sequence[int]) -> Iterator[list[Form]]:
        """For each asking token the scores of the tokens that it sees, times a positive number.

        That number is under^2 2^(shift of query and key), by which the bias is multiplied as well.
        """
        head = self.heads[number]
        q = multiply_maps(self.queries[number].weights, piece.maps)
        k = multiply_maps(self.keys[number].weights, piece.maps)
        shift = self.queries[number].shift + self.keys[number].shift
        square, level = _products(q[..., 0], k[..., 0]), _products(q[..., 1], k[..., 1])
        cross = _products(q[..., 0], k[..., 1]) + _products(q[..., 1], k[..., 0])
        if (bias := self.biases[number]) is not None:
            square, cross, level = (one * (1 << bias.shift) for one in (square, cross, level))
            tokens = len(level)
            level = level + bias.weights[:tokens, :tokens] * (piece.under**2 << shift)
        for token in asking:
            seen = range(token + 1 if head.causal else piece.maps.shape[1])
            yield [(square[token, j], cross[token, j], level[token, j]) for j in seen]

    def _added_by_token(self, number: int, piece: _Piece) -> np.ndarray:
        """What attending to each token alone adds, times under 2^(shift of value and output)."""
        mixed = multiply_maps(self.values[number].weights, piece.maps)
        return multiply_maps(self.outputs[number].weights, mixed)

    def _stream_after_heads(
        self,
        piece: _Piece,
        added: list[np.ndarray],
        asking: Sequence[int],
        routing: list[list[tuple[int, ...]]],
    ) -> tuple[np.ndarray, int]:
        """The stream after the heads, which average what their winners hold."""
        shifts = [v.shift + o.shift for v, o in zip(self.values, self.outputs, strict=True)]
        ties = math.lcm(*(len(winners) for row in routing for winners in row))
        factor = ties << max(shifts)
        maps = piece.maps * factor
        for amounts, shift, row in zip(added, shifts, routing, strict=True):
            for token, winners in zip(asking, row, strict=True):
                share = (factor >> shift) // len(winners)
                maps[:, token] += amounts[:, list(winners)].sum(axis=1) * share
        return maps, piece.under * factor


def _products(q: np.ndarray, k: np.ndarray) -> np.ndarray:
    """Tokens x tokens: every query with every key."""
    return multiply_maps(q.T, k)


def _refine_runs(
    runs: list[Runs], piece: _Piece
) -> Iterator[tuple[QuadraticNumber, QuadraticNumber, list[tuple[int, ...]]]]:
    """The common refinement of all runs: each interval with the winner of each run."""
    edges = sorted({until for run in runs for _, until in run} | {piece.right})
    places = [0] * len(runs)
    left = piece.left
    for right in edges:
        yield left, right, [run[i][0] for run, i in zip(runs, places, strict=True)]
        for number, run in enumerate(runs):
            places[number] += run[places[number]][1] == right
        left = right


# ---- feed-forward --------------------------------------------------------------------------------


def _parts_by_rectifiers(
    layer: Sublayer, piece: _Piece, asking: Sequence[int], ledger: Ledger
) -> Iterator[_Piece]:
    """The interval cut where any rectifier of any token that matters changes its sign."""
    assert isinstance(layer, FeedForward)
    inner = WholeLayer.of(layer.inner, layer.inner_bias)
    outer = WholeLayer.of(layer.outer, layer.outer_bias)
    rows = _affine(inner, piece.maps[:, list(asking)], piece.under)
    under = piece.under << inner.shift
    runs = [
        _runs_of_rectifier(signs((0, row[0], row[1]), piece.left, piece.right, ledger))
        for token in range(len(asking))
        for row in rows[:, token].tolist()
    ]
    for left, right, winners in _refine_runs(runs, piece):
        on = np.array([bool(one) for one in winners]).reshape(len(asking), len(rows)).T
        change = _affine(outer, np.where(on[..., None], rows, 0), under)
        maps = piece.maps * (1 << (inner.shift + outer.shift))
        maps[:, list(asking)] += change
        pattern = (*piece.pattern, tuple(tuple(row) for row in on.T.tolist()))
        yield _Piece(left, right, pattern, *lowest_terms(maps, under << outer.shift))


def _runs_of_rectifier(found: list[tuple[int, QuadraticNumber]]) -> Runs:
    """(0,) where the rectifier is on, () where it is off."""
    return [((0,) if sign > 0 else (), until) for sign, until in found]
