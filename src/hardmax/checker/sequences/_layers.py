"""What feed-forward layers, residual sums and read-outs do to an enclosed stream."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, charge
from hardmax.checker.sequences._axes import Axes
from hardmax.checker.sequences._reading import Reading
from hardmax.checker.sequences._stream import (
    LARGEST_TABLE,
    Overflow,
    Stream,
    TooLarge,
    check,
    strays,
)
from hardmax.core import FeedForward, GatedFeedForward, ReadOut
from hardmax.numerics import Format, Interval, MidRadius, activation_error, inflate, record_of

_SMALL = 2.0**-10  # of the largest spread of a coordinate's blocks


Recognise = Callable[[Stream], tuple[Axes, MidRadius] | None]


def feed_forward(stream: Stream, layer: FeedForward, reading: Reading) -> Stream:
    """x + outer @ relu(inner @ x + inner_bias) + outer_bias, token by token; equal tokens once."""
    chosen, places = _different_tokens(stream)
    part = stream.at_tokens(chosen) if len(chosen) < len(places) else stream
    part = passed_units(part, layer, reading)
    return part.at_tokens(places) if len(chosen) < len(places) else part


def passed_units(
    stream: Stream, layer: FeedForward, reading: Reading, recognise: Recognise | None = None
) -> Stream:
    """The same for all tokens; units that are `recognised` have their rectified tables at once."""
    inner = reading.affine(stream, layer.inner, layer.inner_bias)
    hidden = reading.activated(stream, inner, rectified(inner, recognise))
    return tidied(updated(stream, [(hidden, layer.outer)], layer.outer_bias, reading.format))


def passed_gates(stream: Stream, layer: GatedFeedForward, reading: Reading) -> Stream:
    """x + outer @ (act(gate @ x + ...) * (inner @ x + ...)) + outer_bias, token by token.

    Unit by unit, in balls: |a' u' - a u| <= |a| ru + |u| ra + ra ru, and a product rounds here and
    in the format.
    """
    if not reading.computes_gates:
        raise Overflow("Nothing can be said: the host computes something else than these gates.")
    gate = reading.affine(stream, layer.gate, layer.gate_bias).joined()
    inner = reading.affine(stream, layer.inner, layer.inner_bias).joined()
    charge(60 * CALL + 24 * gate.middle.size * ENTRY)
    format, acted = reading.format, _acted(layer.activation, gate, reading.format)
    size = inflate(acted.size * inner.size, 2)
    check(format, size)
    radius = np.abs(acted.middle) * inner.radius + acted.radius * inner.size
    lost = strays(2, size, format) + np.where(size > 0.0, format.smallest, 0.0)
    hidden = MidRadius(acted.middle * inner.middle, inflate(radius + lost, 6))
    unknown = np.full(layer.hidden_width, -np.inf)
    made = Stream({(): hidden}, unknown, stream.lead)
    return tidied(updated(stream, [(made, layer.outer)], layer.outer_bias, format))


def _acted(activation: str, gate: MidRadius, format: Format) -> MidRadius:
    """The activation of balls: over the reals, and as the format computes it."""
    found = record_of(activation).intervals(Interval(gate.low, gate.high))
    ball = MidRadius.between(found.lo, found.hi)
    rounded = activation_error(activation, gate.size, found.magnitude, format)
    return MidRadius(ball.middle, inflate(ball.radius + rounded, 2))


def _different_tokens(stream: Stream) -> tuple[np.ndarray, np.ndarray]:
    """One token of each kind, and for every token the number of its kind."""
    tokens = stream.leading[-1]
    if stream.lead > 1:
        return np.arange(tokens), np.arange(tokens)
    kinds: dict[tuple[bytes, ...], int] = {}
    places, chosen = [], []
    for t in range(tokens):
        kind = tuple(part[t].tobytes() for table in stream.blocks.values() for part in table)
        if kind not in kinds:
            kinds[kind] = len(kinds)
            chosen.append(t)
        places.append(kinds[kind])
    return np.array(chosen), np.array(places)


def updated(
    stream: Stream,
    changes: list[tuple[Stream, np.ndarray]],
    bias: np.ndarray | None,
    format: Format,
) -> Stream:
    """x + sum_i matrix_i @ change_i + bias, as one sum whose order is free."""
    matrix = np.concatenate([np.eye(stream.width), *(m for _, m in changes)], axis=1)
    return stream.beside(*(change for change, _ in changes)).affine(matrix, bias, format)


def read_out(stream: Stream, readout: ReadOut, reading: Reading) -> Stream:
    return tidied(reading.answered(stream, readout))


def rectified(stream: Stream, recognise: Recognise | None = None) -> Stream:
    """relu, coordinate by coordinate.

    A coordinate whose sign is known for every token passes, or is 0, block by block. Any other
    needs the joint table of the blocks that it has; where that is too large, only its range stays.
    |relu(x) - relu(m)| <= |x - m|, so a radius stays valid, and a ball below 0 becomes 0.
    """
    charge(60 * CALL)
    low, high = stream.range
    on, off = low >= 0.0, high <= 0.0
    lead = tuple(range(stream.lead))
    known = np.asarray((on | off).all(axis=lead))
    parts: dict[Axes, MidRadius] = {(): MidRadius.point(np.zeros((*stream.leading, stream.width)))}
    passed = stream.rows(np.flatnonzero(known))
    for axes, table in passed.blocks.items():
        kept = np.where(on, 1.0, 0.0)[..., known]
        kept = kept.reshape(*passed.leading, *[1] * len(axes), passed.width)
        _place(
            parts, axes, MidRadius(table.middle * kept, table.radius * kept), known, stream.width
        )
    for axes_used, rows in _by_blocks(stream, ~known).items():
        chosen = np.zeros(stream.width, dtype=bool)
        chosen[rows] = True
        part = stream.rows(np.flatnonzero(chosen))
        part = Stream({a: part.blocks[a] for a in axes_used}, part.grid, part.lead)
        axes, table = _rectify(part, recognise)
        _place(parts, axes, table, chosen, stream.width)
    return Stream(parts, stream.grid, stream.lead).trimmed()


def _rectify(part: Stream, recognise: Recognise | None) -> tuple[Axes, MidRadius]:
    """All coordinates of a part in one table, or one by one if that would be too large."""
    size = np.prod((*part.leading, *part.size_of(part.axes)), dtype=float)
    if recognise is not None and part.axes:
        found = recognise(part)
        if found is not None:
            return found
    if size * part.width <= LARGEST_TABLE or size > LARGEST_TABLE:
        return _rectify_together(part)
    rows = (part.rows(np.array([row])) for row in range(part.width))
    each = [_rectify_together(row)[1] for row in rows]
    return part.axes, MidRadius(
        *(np.concatenate(side, axis=-1) for side in zip(*each, strict=True))
    )


def without_small(part: Stream) -> Stream:
    """Blocks that hardly vary at most tokens become balls: fewer axes, a larger radius."""
    spreads = {axes: _spread(table, part.lead) for axes, table in part.blocks.items()}
    most = np.maximum.reduce([spread.max(axis=-1) for spread in spreads.values()])
    kept: dict[Axes, MidRadius] = {(): part.blocks[()]}
    for axes, table in part.blocks.items():
        if not axes:
            continue
        small = spreads[axes].max(axis=-1) <= most * _SMALL
        if small.mean() > 0.5:
            inner = tuple(range(part.lead, part.lead + len(axes)))
            low, high = table.low.min(axis=inner), table.high.max(axis=inner)
            kept[()] = kept[()].plus(MidRadius.between(low, high))
        else:
            kept[axes] = table
    return Stream(kept, part.grid, part.lead)


def _spread(table: MidRadius, lead: int) -> np.ndarray:
    inner = tuple(range(lead, table.middle.ndim - 1))
    return np.asarray(table.middle.max(axis=inner) - table.middle.min(axis=inner))


def _rectify_together(part: Stream) -> tuple[Axes, MidRadius]:
    try:
        middle, radius = part.joined()
    except TooLarge:
        fewer = without_small(part)
        if fewer.axes != part.axes:
            return _rectify_together(fewer)
        return (), MidRadius.between(*(np.maximum(end, 0.0) for end in part.range))
    charge(8 * CALL + 8 * ENTRY * middle.size)
    below = middle <= -radius
    return part.axes, MidRadius(
        np.where(below, 0.0, np.maximum(middle, 0.0)), np.where(below, 0.0, radius)
    )


def _by_blocks(stream: Stream, wanted: np.ndarray) -> dict[tuple[Axes, ...], list[int]]:
    """The wanted coordinates, sorted by the blocks in which they are not zero."""
    used = {
        axes: np.asarray(((t.middle != 0.0) | (t.radius != 0.0)).any(axis=_all_but_last(t.middle)))
        for axes, t in stream.blocks.items()
    }
    groups: dict[tuple[Axes, ...], list[int]] = {}
    for row in np.flatnonzero(wanted):
        blocks = tuple(axes for axes in used if not axes or used[axes][row])
        groups.setdefault(blocks, []).append(int(row))
    return groups


def _all_but_last(array: np.ndarray) -> tuple[int, ...]:
    return tuple(range(array.ndim - 1))


def _place(
    parts: dict[Axes, MidRadius], axes: Axes, table: MidRadius, rows: np.ndarray, width: int
) -> None:
    """Put a table into those coordinates of a block, which is made if it is not there."""
    if axes in parts:
        here = MidRadius(*(part.copy() for part in parts[axes]))
        table = MidRadius(*(part[..., rows] for part in here)).plus(table)
    else:
        shape = (*table.middle.shape[:-1], width)
        here = MidRadius(np.zeros(shape), np.zeros(shape))
    here.middle[..., rows], here.radius[..., rows] = table
    parts[axes] = here


def tidied(stream: Stream) -> Stream:
    """Every coordinate in a block with no more axes than its middle varies along.

    Along other axes the largest radius is kept: a ball may grow, never shrink.
    """
    parts: dict[Axes, MidRadius] = {(): stream.blocks[()]}
    for axes, table in stream.blocks.items():
        if not axes:
            continue
        for kept, rows in _by_variation(table, axes, stream.lead).items():
            gone = tuple(stream.lead + i for i, axis in enumerate(axes) if axis not in kept)
            index = tuple(slice(None) if axis in kept else 0 for axis in axes)
            index = (*[slice(None)] * stream.lead, *index)
            middle = table.middle[index][..., rows]
            part = MidRadius(middle, table.radius[..., rows].max(axis=gone))
            if not part.is_zero:
                chosen = np.zeros(stream.width, dtype=bool)
                chosen[rows] = True
                _place(parts, kept, part, chosen, stream.width)
    return Stream(parts, stream.grid, stream.lead)


def _by_variation(table: MidRadius, axes: Axes, lead: int) -> dict[Axes, list[int]]:
    """The coordinates by the axes along which their middles are not all the same."""
    varies = []
    charge((8 * CALL + 2 * ENTRY * table.middle.size) * len(axes) + CALL * table.middle.shape[-1])
    for place in range(lead, lead + len(axes)):
        first = np.take(table.middle, [0], axis=place)
        varies.append((table.middle != first).any(axis=_all_but_last(table.middle)))
    groups: dict[Axes, list[int]] = {}
    for row in range(table.middle.shape[-1]):
        kept = tuple(a for a, differs in zip(axes, varies, strict=True) if differs[row])
        groups.setdefault(kept, []).append(row)
    return groups
