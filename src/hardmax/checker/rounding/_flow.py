"""The forward pass: where the stream can be, and how far rounding can have taken it.

Carried for every token and coordinate (arrays are width x tokens) is `where`, an interval that
holds the real stream and the computed one, and `off`, a bound on their difference. A sublayer F
takes the computed stream s to F(s) + local error; so `where` grows by the local error alone, and
`off` by what F makes of it, plus the local error.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hardmax.checker._dependence import asks
from hardmax.checker.rounding._format import Stored
from hardmax.checker.rounding._gated import GatedTerms, gated_terms
from hardmax.checker.rounding._head import Answer, answer
from hardmax.checker.rounding._hosted import Hosted
from hardmax.checker.rounding._inplace import Mixing, Written, sharpen_heads, sharpen_units
from hardmax.checker.rounding._logits import Asked, Heads, Read
from hardmax.core import Attention, FeedForward, GatedFeedForward, Sublayer
from hardmax.numerics import Interval, up

_MOST_PIECES = 256  # of a query's range
_MOST_NUMBERS = 2**18  # weights looked at for one head, or at a time
_FINELY = 16  # times as many of both, where coarse pieces leave a claim open
_PER_TOKEN = 6  # then, if there are many: next to it logits hardly move within a piece
_STILL = 2.0**-30  # of its size: a query that moves by less is a constant, rounded, and not cut


@dataclass(frozen=True, eq=False)
class RoundedStream:
    """The stream between two sublayers."""

    where: Interval
    off: np.ndarray

    def replaced(self, tokens: np.ndarray, where: Interval, off: np.ndarray) -> RoundedStream:
        """Other columns for some tokens; a deviation is no larger than the interval is wide."""
        lo, hi, moved = self.where.lo.copy(), self.where.hi.copy(), self.off.copy()
        lo[:, tokens], hi[:, tokens] = where.lo, where.hi
        moved[:, tokens] = np.minimum(off, up(where.hi - where.lo))
        return RoundedStream(Interval(lo, hi), moved)


@dataclass(frozen=True, eq=False)
class Attended:
    """An attention layer in the forward pass."""

    before: RoundedStream
    tokens: np.ndarray  # who asked
    output: Stored  # width x (heads and their values)
    mixings: list[Mixing]
    error: np.ndarray  # of the sums, width x tokens

    @property
    def stops(self) -> bool:
        return any(mixing.stop.any() for mixing in self.mixings)


@dataclass(frozen=True, eq=False)
class FedForward:
    """A feed-forward layer in the forward pass; arrays are hidden x tokens."""

    before: RoundedStream
    tokens: np.ndarray
    inner: Stored
    outer: Stored
    slopes: Interval
    hidden_error: np.ndarray
    activation_error: np.ndarray  # of what a host has in place of a rectifier
    hidden_off: np.ndarray
    stop: np.ndarray  # `hidden_off` knows more than the derivatives do
    error: np.ndarray  # of the sums, width x tokens

    @property
    def stops(self) -> bool:
        return bool(self.stop.any())


@dataclass(frozen=True, eq=False)
class Gated:
    """A gated feed-forward layer in the forward pass."""

    before: RoundedStream
    tokens: np.ndarray
    terms: GatedTerms
    error: np.ndarray  # of the sums, width x tokens

    @property
    def stops(self) -> bool:
        return False


Passed = Attended | FedForward | Gated


@dataclass(eq=False)
class Flow:
    """The whole pass."""

    start: RoundedStream
    end: RoundedStream
    passed: list[Passed]

    @property
    def stops(self) -> bool:
        """Whether there is anything of which the forward pass knows more."""
        return any(passed.stops for passed in self.passed)


def follow(
    start: RoundedStream,
    sublayers: tuple[Sublayer, ...],
    needs: list[np.ndarray],
    hosted: Hosted,
) -> Flow:
    """Follow the needed coordinates through all sublayers."""
    stream, layers = start, []
    for number, (sublayer, need) in enumerate(zip(sublayers, needs[1:], strict=True)):
        passed: Passed
        match sublayer:
            case Attention():
                stream, passed = _attend(stream, sublayer, need, hosted, number)
            case FeedForward():
                stream, passed = _feed_forward(stream, sublayer, need, hosted, number)
            case GatedFeedForward():
                stream, passed = _gated(stream, sublayer, need, hosted, number)
        layers.append(passed)
    return Flow(start, stream, layers)


def _feed_forward(
    stream: RoundedStream, layer: FeedForward, need: np.ndarray, hosted: Hosted, number: int
) -> tuple[RoundedStream, FedForward]:
    """A unit that is off for real and computed streams alike adds nothing, and no rounding.

    One product keeps its sign when it is rounded, unless a host's norm takes a mean away. Where a
    host has another activation, every unit adds what that is off by.
    """
    tokens, format = np.flatnonzero(need.any(axis=0)), hosted.format
    where, off = stream.where[:, tokens], stream.off[:, tokens]
    inner = Stored.of(layer.inner, format, layer.inner_bias)
    charge = hosted.charge(number, where)
    read = inner.times(where, off, charge=charge)
    error = read.error()
    around = read.value.widened(error)
    keeps = (read.terms <= 1.0) & (charge.still == 0.0)
    dead = (around.hi <= 0.0) | ((read.value.hi <= 0.0) & keeps)
    error = np.where(dead, 0.0, error)
    moved = np.where(dead, 0.0, inner.carry(off))
    slopes = Interval(((around.lo >= 0.0) & ~dead).astype(float), (~dead).astype(float))
    total = np.where(dead, 0.0, np.minimum(up(moved + error), np.maximum(around.hi, 0.0)))
    hidden = Interval(np.maximum(around.lo, 0.0), np.where(dead, 0.0, np.maximum(around.hi, 0.0)))
    acted = hosted.activation_error(number, around, charge)
    if acted.any():
        hidden, total = hidden.widened(acted), np.asarray(up(total + acted))
    outer = Stored.of(layer.outer, format, layer.outer_bias)
    added = outer.times(hidden, total, carried=where)
    written = Written(added.value, up(off + outer.carry(total)))
    for i in range(0 if acted.any() else len(tokens)):  # in place only where units are rectifiers
        sharpen_units(written, i, layer, where[:, i], off[:, i], slopes[:, i], error[:, i])
    rounded = added.error(written.value)
    after = stream.replaced(tokens, written.value.widened(rounded), up(written.off + rounded))
    stop = total < 0.7 * (moved + error)
    return after, FedForward(
        stream, tokens, inner, outer, slopes, error, acted, total, stop, rounded
    )


def _gated(
    stream: RoundedStream, layer: GatedFeedForward, need: np.ndarray, hosted: Hosted, number: int
) -> tuple[RoundedStream, Gated]:
    """A product and what it is added to are known by terms; what is added up are units."""
    tokens = np.flatnonzero(need.any(axis=0))
    where, off = stream.where[:, tokens], stream.off[:, tokens]
    terms, added, total = gated_terms(layer, where, off, hosted, number)
    value = added.value.meet(total)
    rounded = added.error(value)
    moved = up(up(off + terms.outer.carry(terms.off)) + rounded)
    after = stream.replaced(tokens, value.widened(rounded), moved)
    return after, Gated(stream, tokens, terms, rounded)


def _attend(
    stream: RoundedStream, layer: Attention, need: np.ndarray, hosted: Hosted, number: int
) -> tuple[RoundedStream, Attended]:
    """All heads of a layer act on the same stream; what they write is added to it."""
    asking = [asks(group, need).any(axis=0) for group in layer.groups]
    tokens = np.flatnonzero(np.any(asking, axis=0))
    width = layer.width
    output = np.concatenate(
        [g.output.transpose(1, 0, 2).reshape(width, -1) for g in layer.groups], axis=1
    )
    format, charge = hosted.for_attention, hosted.charge(number, stream.where)
    given = stream.where, stream.off, charge, hosted.turned(charge)
    casts = format is not hosted.format
    groups = [Heads(group, format, *given, casts=casts) for group in layer.groups]
    mixings: list[Mixing] = []
    for t in tokens:
        end = 0
        for heads in groups:
            asked = heads.asked_by(int(t))
            found = answered_in_pieces(asked, _FINELY if hosted.finely else 1)
            columns = slice(end, end + found.errors.rounded.size)
            mixings.append(Mixing(columns, int(t), heads.seen_by(int(t)), heads, asked, found))
            end = columns.stop
    stored = Stored.of(output, format)
    mean, local, moved = _columns(mixings, tokens, output.shape[1])
    where, off = stream.where[:, tokens], stream.off[:, tokens]
    added = stored.times(mean.widened(local), up(moved + local), carried=where)
    written = Written(added.value, up(off + stored.carry(up(moved + local))))
    for i, t in enumerate(tokens):
        here = [mixing for mixing in mixings if mixing.t == t]
        sharpen_heads(written, i, output, where[:, i], off[:, i], mean[:, i], local[:, i], here)
    rounded = added.error(written.value)
    after = stream.replaced(tokens, written.value.widened(rounded), up(written.off + rounded))
    return after, Attended(stream, tokens, stored, mixings, rounded)


def _columns(
    mixings: list[Mixing], tokens: np.ndarray, rows: int
) -> tuple[Interval, np.ndarray, np.ndarray]:
    """All means with their local and their inherited errors, rows x tokens."""
    lo, hi, error, off = np.zeros((4, rows, len(tokens)))
    for mixing in mixings:
        i = int(np.searchsorted(tokens, mixing.t))
        found = mixing.answer
        lo[mixing.columns, i] = found.mean.lo.ravel()
        hi[mixing.columns, i] = found.mean.hi.ravel()
        error[mixing.columns, i] = found.errors.rounded.ravel()
        off[mixing.columns, i] = found.errors.off.ravel()
    return Interval(lo, hi), error, off


def answered_in_pieces(asked: Asked, times: int = 1) -> Answer:
    """The answers on all pieces of the queries' ranges, joined; many pieces not all at once."""
    owner, parts = in_pieces(asked, times)
    size = max(1, _MOST_NUMBERS // max(1, asked.seen * asked.values.value.shape[1]))
    found, owners = list[Answer](), list[np.ndarray]()
    for start in range(0, len(owner), size):
        here = owner[start : start + size]
        first = np.flatnonzero(np.diff(here, prepend=-1))
        pieces = asked.pieces(here, parts[start : start + size])
        found.append(answer(pieces).joined(first))
        owners.append(here[first])
    if len(found) == 1:
        return found[0]
    return Answer.stacked(found).joined(np.flatnonzero(np.diff(np.concatenate(owners), prepend=-1)))


def is_cut(asked: Asked) -> np.ndarray:
    """Heads over many tokens whose queries' ranges are cut: no maxima, no hard heads."""
    query = asked.query
    moving = query.value.hi - query.value.lo > _STILL * query.value.magnitude
    cuts = (asked.seen > 2) & ~asked.hard & ~asked.maximum.holds & moving.any(axis=1)
    return np.asarray(cuts)


def in_pieces(asked: Asked, times: int = 1) -> tuple[np.ndarray, Read]:
    """Heads over many tokens, with their queries' ranges cut: each piece's head, and its query.

    A softmax over many tokens is sharp: near every query only few of them count. What holds on
    each piece of the range holds on all of it. Maxima and hard heads need no cutting.
    """
    query, heads, cuts = asked.query, len(asked.hard), is_cut(asked)
    moving = query.value.hi - query.value.lo > _STILL * query.value.magnitude
    numbers = asked.seen * asked.values.value.shape[1] * int(cuts.sum())
    most = min(_MOST_PIECES * times, _MOST_NUMBERS * times // max(1, numbers))
    if times > 1:  # as fine as a grid of so many tokens is
        enough = 4 * _MOST_NUMBERS * times // max(1, numbers)
        most = max(most, min(_PER_TOKEN * asked.seen, enough))
    if not cuts.any() or most < 4:
        return np.arange(heads), query
    owners, lows, highs = [], [], []
    for h in range(heads):
        steps = int(most ** (1.0 / moving[h].sum()) + 1e-9) if cuts[h] else 1
        lo, hi = _grid(query.value[h], moving[h], steps)
        owners.append(np.full(len(lo), h))
        lows.append(lo)
        highs.append(hi)
    owner = np.concatenate(owners)
    value = Interval(np.concatenate(lows), np.concatenate(highs))
    return owner, replace(query[owner], value=value)


def _grid(query: Interval, moving: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """All combinations of pieces of the moving components: pieces x key width."""
    ends = [
        np.clip(np.linspace(a, b, (steps if m else 1) + 1), a, b)
        for a, b, m in zip(query.lo, query.hi, moving, strict=True)
    ]
    for edge, a, b in zip(ends, query.lo, query.hi, strict=True):
        edge[0], edge[-1] = a, b
    lo = np.meshgrid(*[edge[:-1] for edge in ends], indexing="ij")
    hi = np.meshgrid(*[edge[1:] for edge in ends], indexing="ij")
    return np.stack([c.ravel() for c in lo], axis=1), np.stack([c.ravel() for c in hi], axis=1)
