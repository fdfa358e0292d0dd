"""Outlines: the reference stream as affine forms of the inputs, which makes its ranges narrow.

Intervals forget that all coordinates are functions of the same few inputs; a network's ranges then
grow with every layer as if its neurons conspired. An outline is `rest + sum_s forms[s] noise_s`,
as a `Deviation` is, of the reference itself: one noise for each input, and one for each maximum.
What is known by intervals alone stays in `Place.range`: by it all lemmas are decided, as whoever
checks them does. The outline says how large numbers are: scores, and what is rounded.
"""

from __future__ import annotations

import numpy as np

from hardmax.analysis._deviations import Deviation
from hardmax.analysis._noises import NoiseCounter
from hardmax.core import Box, VectorInput
from hardmax.numerics import Interval, inflate

_GRID = 2.0**20  # weights of a mean are multiples of 1 over this, so that they sum to 1 exactly


def outline_of(source: VectorInput, domain: Box) -> Deviation:
    """The tokens as forms of the inputs, each a noise about the middle of its side."""
    tokens, width, inputs = source.maps.shape
    counter = NoiseCounter(tokens * width)
    box = Deviation.of(domain.interval).with_noises(np.ones(inputs, dtype=bool), counter)
    flat = source.maps.reshape(-1, inputs) @ box
    return flat.reshape(tokens, width) + source.offsets


def outline_of_maximum(values: Deviation, ranges: Interval, contender: np.ndarray) -> Deviation:
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


def outline_of_relu(values: Deviation, ranges: Interval) -> Deviation:
    """max(V, 0)."""
    nothing = np.zeros(ranges.shape)
    pair = Deviation(
        Interval(
            np.stack([values.rest.lo, nothing], axis=-1),
            np.stack([values.rest.hi, nothing], axis=-1),
        ),
        np.stack([values.forms, np.zeros_like(values.forms)], axis=-2),
        values.counter,
    )
    both = Interval(
        np.stack([ranges.lo, nothing], axis=-1), np.stack([ranges.hi, nothing], axis=-1)
    )
    return outline_of_maximum(pair, both, np.ones(both.shape, dtype=bool))


def with_own_noises(outline: Deviation) -> Deviation:
    """What is left over of each entry becomes a noise, where it is more than rounding."""
    assert outline.counter is not None
    wide = outline.rest.hi - outline.rest.lo > 2.0**-30 * outline.magnitude
    return outline.with_noises(wide, outline.counter)
