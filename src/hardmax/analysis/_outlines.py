"""Outlines: the reference stream as affine forms of the inputs, which makes its ranges narrow.

Intervals forget that all coordinates are functions of the same few inputs; a network's ranges then
grow with every layer as if its neurons conspired. An outline is `rest + sum_s forms[s] noise_s`,
as a `Deviation` is, of the reference itself: one noise for each input, and one for each maximum.
What is known by intervals alone stays in `Place.range`: by it all lemmas are decided, as whoever
checks them does. The outline says how large numbers are: scores, and what is rounded.

There are two of them, and both hold. One is close, coordinate by coordinate: its noises are
centred, and as many of them as there are may conspire. The other one is round: maxima are written
about 0, relu(z) = z/2 + |z|/2, and what is left over of a layer, |z|/2 in all, is one ball. It
says how long vectors are, and sums of hundreds of terms are bounded by lengths far better than by
their terms' largest values: for n of them by sqrt(n).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.analysis._deviations import Deviation, Index, deviation_of_maximum
from hardmax.analysis._noises import NoiseCounter
from hardmax.core import Box, VectorInput
from hardmax.numerics import Interval, inflate, length_up, matmul_up

_GRID = 2.0**20  # weights of a mean are multiples of 1 over this, so that they sum to 1 exactly


@dataclass(frozen=True, eq=False)
class Outline:
    """The same numbers twice: by forms that are close, and, if wanted, by forms that are round.

    In the round ones the first noise is the constant 1, and constants are multiples of it.
    """

    close: Deviation
    round: Deviation | None

    @classmethod
    def of(cls, ends: Interval) -> Outline:
        return cls(Deviation.of(ends), Deviation.of(ends))

    @cached_property
    def hull(self) -> Interval:
        return self.close.hull.meet(self.round.hull) if self.round else self.close.hull

    def _both(self, change: Callable[[Deviation], Deviation]) -> Outline:
        return Outline(change(self.close), self.round and change(self.round))

    def joined(self, other: Outline, join: Callable[[Deviation, Deviation], Deviation]) -> Outline:
        """Of two outlines, one: it is round if both are."""
        both = self.round and other.round and join(self.round, other.round)
        return Outline(join(self.close, other.close), both)

    def __add__(self, other: Outline | np.ndarray) -> Outline:
        if isinstance(other, Outline):
            return self.joined(other, lambda one, two: one + two)
        return Outline(self.close + other, self.round and self.round + self._constant(other))

    def _constant(self, numbers: np.ndarray) -> Deviation:
        forms = np.zeros((*self.close.rest.shape, 1))
        forms[..., 0] = numbers
        return Deviation(Interval.point(np.zeros(forms.shape[:-1])), forms)

    __array_ufunc__ = None  # matrix @ outline is ours

    def __rmatmul__(self, matrix: np.ndarray) -> Outline:
        return self._both(lambda part: matrix @ part)

    def __getitem__(self, key: Index) -> Outline:
        return self._both(lambda part: part[key])

    def reshape(self, *shape: int) -> Outline:
        return self._both(lambda part: part.reshape(*shape))

    def transposed(self) -> Outline:
        return self._both(Deviation.transposed)

    def scaled(self, factor: np.ndarray, away: np.ndarray | float = 0.0) -> Outline:
        return self._both(lambda part: part.scaled(factor, away))

    def total(self) -> Outline:
        return self._both(Deviation.total)

    def overruled(self, applies: np.ndarray, other: Outline) -> Outline:
        return self.joined(other, lambda one, two: one.overruled(applies, two))

    @property
    def length(self) -> float:
        """The 2-norm of all these numbers together, from above."""
        entries = length_up(self.hull.magnitude.ravel())
        if self.round is None or self.round.counter is None:
            return entries
        forms = self.round.forms.reshape(-1, self.round.noises)
        rest = length_up(self.round.rest.magnitude.ravel())
        return min(entries, float(inflate(self.round.counter.joint_reach(forms) + rest, 1)))


def outline_of(source: VectorInput, domain: Box, *, round: bool) -> Outline:
    """The tokens as forms of the inputs, each a noise about the middle of its side."""
    tokens, width, inputs = source.maps.shape
    every, box = np.ones(inputs, dtype=bool), domain.interval
    close = Deviation.of(box).with_noises(every, NoiseCounter(tokens * width))
    ball = _round_box(box, NoiseCounter(tokens * width)) if round else None
    flat = source.maps.reshape(-1, inputs) @ Outline(close, ball)
    return flat.reshape(tokens, width) + source.offsets


def _round_box(box: Interval, counter: NoiseCounter) -> Deviation:
    """The middle as multiples of the constant 1, and a noise for each side."""
    counter.take(1, 1.0)
    ends = Deviation(box - box.middle, np.zeros((*box.shape, 1)), counter)
    found = ends.with_noises(np.ones(box.shape, dtype=bool), counter)
    found.forms[:, 0] = box.middle
    return found


def outline_of_maximum(values: Outline, ranges: Interval, contender: np.ndarray) -> Outline:
    """max_j V_j over the contenders, along the last axis, twice.

    The round one is how far max_j V_j is from 0, the maximum of as many zeros: what is left over of
    all of them lies in a ball (`deviation_of_maximum`).
    """
    ball = values.round and deviation_of_maximum(values.round, contender)
    return Outline(close_maximum(values.close, ranges, contender), ball)


def close_maximum(values: Deviation, ranges: Interval, contender: np.ndarray) -> Deviation:
    """max_j V_j over the contenders, along the last axis, as a form and a noise of its own.

    For weights l_j >= 0 that sum to 1, m = sum_j l_j V_j is at most the maximum, and

        max_j V_j - m  =  max_j sum_i l_i (V_j - V_i)  <=  max_j sum_{i != j} l_i (hi_j - lo_i).

    The weights are taken proportional to how far V_j can be ahead of all others. For max(z, 0), z
    in [a, b], that is l = b/(b - a), and the bound is -a b/(b - a), attained at both ends: the
    least area around the graph between two parallel lines.
    """
    low = np.where(contender, ranges.lo, -np.inf)
    best = np.sort(low, axis=-1)[..., -2:]
    others = np.where(low == best[..., -1:], best[..., :1], best[..., -1:])
    lead = np.where(contender, np.maximum(ranges.hi - others, 0.0), 0.0)
    weight = _weights(np.where(np.isfinite(lead), lead, 1.0) * contender, contender)
    part = Interval.point(weight[..., None, :])
    ahead = part * (Interval.point(ranges.hi[..., None]) - ranges.lo[..., None, :])
    none = np.eye(weight.shape[-1], dtype=bool) | (weight[..., None, :] == 0.0)
    over = inflate(np.where(none, 0.0, ahead.hi).sum(axis=-1), weight.shape[-1])
    most = np.where(contender, over, 0.0).max(axis=-1)
    return values.scaled(weight).total() + Interval(np.zeros_like(most), most)


def _weights(lead: np.ndarray, contender: np.ndarray) -> np.ndarray:
    """In proportion to the leads, multiples of 1/_GRID that sum to 1; all on the first if none."""
    total = lead.sum(axis=-1, keepdims=True)
    some = total > 0.0
    weight = np.floor(np.where(some, lead / np.where(some, total, 1.0), 0.0) * _GRID)
    first = np.where(some, lead, contender).argmax(axis=-1)[..., None]
    short = _GRID - weight.sum(axis=-1, keepdims=True)
    at_first = np.take_along_axis(weight, first, axis=-1) + short
    np.put_along_axis(weight, first, at_first, axis=-1)
    return weight / _GRID


def outline_of_relu(values: Outline, ranges: Interval) -> Outline:
    """max(V, 0)."""
    nothing = Outline.of(Interval.point(np.zeros(ranges.shape)))
    pair = stacked([values, nothing])
    zero = np.zeros(ranges.shape)
    both = Interval(np.stack([ranges.lo, zero], axis=-1), np.stack([ranges.hi, zero], axis=-1))
    # who is off, or on, has no part in the other's maximum
    contender = np.stack([ranges.hi > 0.0, ranges.lo < 0.0], axis=-1)
    contender |= ~contender.any(axis=-1, keepdims=True)
    return outline_of_maximum(pair, both, contender)


def stacked(outlines: list[Outline], axis: int = -1) -> Outline:
    """Several outlines as one, along a new axis, the last one unless told otherwise."""

    def joined(parts: list[Deviation]) -> Deviation:
        noises = max(part.noises for part in parts)
        rests, forms = [part.rest for part in parts], [part.padded(noises) for part in parts]
        at = axis if axis >= 0 else rests[0].lo.ndim
        rest = Interval(*(np.stack(ends, axis=at) for ends in _ends(rests)))
        counter = next((part.counter for part in parts if part.counter), None)
        return Deviation(rest, np.stack(forms, axis=at), counter)

    balls = [outline.round for outline in outlines if outline.round is not None]
    every = joined(balls) if len(balls) == len(outlines) else None
    return Outline(joined([outline.close for outline in outlines]), every)


def _ends(parts: list[Interval]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [part.lo for part in parts], [part.hi for part in parts]


def with_own_noises(outline: Outline) -> Outline:
    """What is left over of each entry becomes a noise, where it is more than rounding."""

    def noisy(part: Deviation, alike: bool) -> Deviation:
        assert part.counter is not None
        wide = part.rest.hi - part.rest.lo > 2.0**-30 * part.magnitude
        return part.with_noises(wide, part.counter, alike=alike)

    return Outline(noisy(outline.close, False), outline.round and noisy(outline.round, True))


@dataclass(frozen=True, eq=False)
class SizesOfSums:
    """sum_j |matrix_ij t_j| for terms t that outlines know: within `rest` of outlines' sums."""

    sums: Outline
    rest: np.ndarray

    @classmethod
    def of(cls, matrix: np.ndarray, terms: Outline, ranges: Interval) -> SizesOfSums:
        """Terms that are never negative are their own sizes; the others have their largest ones."""
        size, signed = np.abs(matrix), ranges.lo < 0.0
        rest = matmul_up(size, np.where(signed, ranges.magnitude, 0.0))
        return cls((size * ~signed) @ terms, rest)

    @classmethod
    def stacked(cls, rows: list[SizesOfSums]) -> SizesOfSums:
        return cls(stacked([row.sums for row in rows], 0), np.stack([row.rest for row in rows]))

    @cached_property
    def entries(self) -> np.ndarray:
        return np.asarray(inflate(np.maximum(self.sums.hull.hi, 0.0) + self.rest, 1))

    @cached_property
    def length(self) -> float:
        """The 2-norm of them all, from above."""
        by_norm = float(inflate(self.sums.length + length_up(self.rest.ravel()), 1))
        return min(by_norm, length_up(self.entries.ravel()))


@dataclass(frozen=True, eq=False)
class Reach:
    """What outlines say of the reference after a sublayer, whatever the evaluation is."""

    narrow: Interval  # where the stream is
    written: Outline | None = None  # the coordinates that are written, ...
    sizes: SizesOfSums | None = None  # ... the sizes of the terms that are written there, ...
    where: np.ndarray | None = None  # ... and which coordinates they are

    def length_in(self, chosen: np.ndarray) -> float:
        """The 2-norm of the reference in these coordinates, afterwards.

        An evaluation may write more of them than the reference, by what leaks.
        """
        if self.written is None or self.where is None:
            return np.inf
        others = self.narrow.magnitude[chosen & ~self.where]
        return float(inflate(self._length + length_up(others), 1))

    @cached_property
    def _length(self) -> float:
        assert self.written is not None
        return self.written.length
