"""Turned models: their weights taken back into the frame of their circuit, and what that leaves.

Theorem (frame). Let Q^T Q = I, over the reals, and let W' be any matrix that reads the stream of a
Transformer, O' one that writes it. With W = W' Q and O = Q^T O' the Transformer is, over the
reals, the one of W and O with its stream turned: x' = Q x, and all scores, hidden values and
answers are the same. Proof: W' x' = W Q^T Q x, and Q (x + O h) = x' + O' h.

Here Q is a matrix of whole numbers over a power of two, and Q^T Q = I is seen in whole numbers; W
is found exactly. With a grain it is split, W = W_0 + D, into multiples of the grain and what is
left: the proof is about W_0, whatever it is, and D is charged by its 2-norm, since a row d of D
moves what is read by at most |d| |x|. (A wrong grain makes the rest large, or W_0 another model.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, charge
from hardmax.checker.blocks._reading import length_of_rows
from hardmax.checker.blocks._sets import Unproved
from hardmax.core import (
    Attention,
    FeedForward,
    Frame,
    GatedFeedForward,
    Head,
    SequenceInput,
    Sublayer,
    Transformer,
)
from hardmax.numerics import (
    FLOAT64,
    above_float,
    are_moderate,
    inflate,
    length_up,
    lowest_bit,
    nearest_float,
)


@dataclass(frozen=True, eq=False)
class Rest:
    """2-norms of what is left of weights beside those that are meant, in one sublayer.

    `read` is that of any row that reads the stream, `bias` of any number added to one; `written`
    has that of each column that writes, head by head, and `added` is that of what is always added.
    """

    read: float = 0.0
    bias: float = 0.0
    written: tuple[np.ndarray, ...] = ()
    added: float = 0.0


@dataclass(frozen=True, eq=False)
class Taken:
    """A turned Transformer, what it is in its frame, and what that leaves, sublayer by sublayer.

    The embedding stands before all sublayers (its rows are `written`), the read-out after them.
    """

    turned: Transformer
    meant: Transformer
    embedding: Rest
    sublayers: tuple[Rest, ...]

    @property
    def largest(self) -> float:
        """Of all norms of what is left."""
        parts = [self.embedding, *self.sublayers]
        norms = [float(w.max(initial=0.0)) for one in parts for w in one.written]
        return max(norms + [n for one in parts for n in (one.read, one.bias, one.added)])


def taken_back(transformer: Transformer, frame: Frame) -> Taken:
    """The Transformer along the axes of a frame, which has to be orthogonal."""
    if frame.width != transformer.width:
        raise Unproved("The frame of the circuit is not as wide as the stream.")
    check_orthogonal(frame)
    source, readout, back = transformer.input, transformer.readout, _Back(frame)
    assert isinstance(source, SequenceInput)
    if source.start is None:
        raise Unproved("A legible model needs a start token.")
    embedding, off = back.rows(source.embedding)
    positions, off_there = back.rows(source.positions)
    start, off_start = back.rows(source.start[None])
    held = replace(source, embedding=embedding, positions=positions, start=start[0])
    layers, rests = [], []
    for layer in transformer.sublayers:
        made, rest = back.sublayer(layer)
        layers.append(made)
        rests.append(rest)
    weights, off_answers = back.rows(readout.weights)
    bias, off_bias = back.numbers(readout.bias)
    rests.append(Rest(_most(off_answers), _most(off_bias)))
    meant = Transformer(held, layers, replace(readout, weights=weights, bias=bias))
    return Taken(transformer, meant, Rest(written=(off, off_there, off_start)), tuple(rests))


def check_orthogonal(frame: Frame) -> None:
    """Q^T Q = I, in whole numbers."""
    charge(60 * CALL + ENTRY * frame.width**3 // 8)
    rows = frame.numerators
    size = float((np.abs(rows).T @ np.abs(rows)).max())
    if not size < 2.0**52:  # where floats hold all sums of products
        exact = np.array(frame.rows, dtype=object)
        product = exact.T @ exact
    else:
        product = rows.T @ rows
    if (product != 4**frame.power * np.eye(frame.width, dtype=product.dtype)).any():
        raise Unproved("The frame of the circuit is not orthogonal.")


class _Back:
    """Rows times Q, and what is left of them beside the frame's grain."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._whole = frame.numerators.astype(np.int64).astype(object)

    def rows(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """rows @ Q as it is meant, and the 2-norm of what is left of each row."""
        charge(60 * CALL + ENTRY * rows.shape[0] * self.frame.width**2 // 8)
        if not are_moderate(rows.ravel()):
            raise Unproved("A weight is too large or too small to be turned back.")
        numerators = self.frame.numerators
        size = inflate(np.abs(rows) @ np.abs(numerators), rows.shape[1] + 1)
        grid = lowest_bit(rows).min(axis=1, initial=np.inf)
        sharp = FLOAT64.is_exact(size.max(axis=1, initial=0.0), grid)
        found = np.ldexp(rows @ numerators, -self.frame.power)
        kept = self._snapped(found)
        left = length_of_rows(found - kept)
        for k in np.flatnonzero(~sharp):
            kept[k], left[k] = self._exactly(rows[k])
        return kept, left

    def _snapped(self, numbers: np.ndarray) -> np.ndarray:
        """The nearest multiples of the grain, which are floats, as their distances are."""
        if self.frame.grain is None:
            return numbers.copy()
        return np.asarray(np.ldexp(np.rint(np.ldexp(numbers, self.frame.grain)), -self.frame.grain))

    def _exactly(self, row: np.ndarray) -> tuple[np.ndarray, float]:
        """The same by rationals."""
        charge(FLOAT64.digits * ENTRY * row.size**2)
        exact = [Fraction(one) for one in row.tolist()]
        scale = 2 ** max(one.denominator.bit_length() - 1 for one in exact)
        whole = np.array([int(one * scale) for one in exact], dtype=object)
        below = Fraction(1, scale * 2**self.frame.power)
        numbers = [int(one) * below for one in whole @ self._whole]
        kept = self._snapped(np.array([nearest_float(one) for one in numbers]))
        off = [abs(a - Fraction(b)) for a, b in zip(numbers, kept.tolist(), strict=True)]
        return kept, length_up(np.array([above_float(one) for one in off]))

    def numbers(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What is added to something that is read: no axes, but noise."""
        kept = self._snapped(numbers)
        return kept, np.abs(numbers - kept)

    def sublayer(self, layer: Sublayer) -> tuple[Sublayer, Rest]:
        match layer:
            case Attention():
                heads = [self._head(head) for head in layer.heads]
                reads = max(read for _, read, _ in heads)
                return Attention(head for head, _, _ in heads), Rest(
                    read=reads, written=tuple(written for _, _, written in heads)
                )
            case FeedForward():
                inner, off = self.rows(layer.inner)
                bias, off_bias = self.numbers(layer.inner_bias)
                outer, written = self.rows(layer.outer.T)
                always, added = self.rows(layer.outer_bias[None])
                rest = Rest(_most(off), _most(off_bias), (written,), _most(added))
                return FeedForward(inner, bias, outer.T, always[0]), rest
            case GatedFeedForward():
                raise Unproved("Gated units are no blocks of a circuit.")

    def _head(self, head: Head) -> tuple[Head, float, np.ndarray]:
        (query, a), (key, b), (value, c) = map(self.rows, (head.query, head.key, head.value))
        output, written = self.rows(head.output.T)
        made = replace(head, query=query, key=key, value=value, output=output.T)
        return made, max(map(_most, (a, b, c))), written


def weights_of(transformer: Transformer) -> Iterator[np.ndarray]:
    """All that a format has to hold."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    assert source.start is not None
    yield from (source.embedding, source.positions, source.start)
    for layer in transformer.sublayers:
        if isinstance(layer, Attention):
            for head in layer.heads:
                yield from (head.query, head.key, head.value, head.output)
        elif isinstance(layer, FeedForward):
            yield from (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
    yield from (transformer.readout.weights, transformer.readout.bias)


def _most(numbers: np.ndarray) -> float:
    return float(numbers.max(initial=0.0))
