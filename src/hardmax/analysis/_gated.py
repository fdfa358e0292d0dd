"""Gated feed-forward layers: every term is a product of two reads, one of them gated."""

from __future__ import annotations

import numpy as np

from hardmax.analysis._affine_rounding import affine_stray
from hardmax.analysis._deviations import Deviation
from hardmax.analysis._places import Place
from hardmax.core import GatedFeedForward
from hardmax.numerics import (
    Format,
    Interval,
    activation_error,
    inflate,
    pair_ends,
    record_of,
    stray,
)


def follow_gates(
    place: Place, layer: GatedFeedForward, format: Format
) -> tuple[Place, list[float]]:
    """The stream behind the layer, and how large numbers are on the way.

    A term h = act(z) u, or z u of a pair of units that multiply, deviates by a dz + b du with a and
    b in the ranges of its two derivatives (the mean value theorem). What it rounds is that of a
    unit, or of two: act(z) and act(-z), whose sizes add up to |z|, each with its activation's error
    and one rounding. The two read z and u each for itself: where reads round d and e, that is
    2 d e more than one reading is off, and for silus, whose slopes add up to 1.2 in size, 0.2 d |u|
    and d^2 |u|, as |act''| <= 1/2.
    """
    (units, multiplies), stream, here = layer.terms, place.transposed(), place.close.magnitude.T
    z, d, gate_size = _read(layer.gate[units], layer.gate_bias[units], stream, here, format)
    u, e, inner_size = _read(layer.inner[units], layer.inner_bias[units], stream, here, format)
    act, product = record_of(layer.activation), multiplies[:, None]
    acted, steep = act.intervals(z.where), act.curve(z.where.lo, z.where.hi)[1]
    first = _either(product, z.range, act.intervals(z.range))
    by_gate = _either(product, u.where, Interval(*pair_ends(steep)) * u.where)
    moved = by_gate * z.deviation.hull + first * u.deviation.hull
    size = inflate(np.where(product, z.where.magnitude, acted.magnitude), 2)
    rounded = activation_error(layer.activation, z.where.magnitude, size, format)
    rounded = inflate((2.0 * rounded + stray(2, size, format)) * u.where.magnitude, 4)
    apart = 2.0 * d * e if layer.is_exact else 2.0 * d * e + (0.2 + d) * d * u.where.magnitude
    rounded = inflate(rounded + np.where(product, apart, 0.0), 6)
    hidden = Place(first * u.range, Deviation.of(moved)).strayed(rounded)
    outer, bias = layer.outer[:, units], layer.outer_bias[:, None]
    change = Place(outer @ hidden.range + bias, outer @ hidden.deviation)
    sizes = inflate(size * u.where.magnitude + rounded, 2)
    total, strayed = affine_stray(outer, sizes, bias, 5 + len(units), format, here)
    after = (stream + change).strayed(np.where(total > 0, strayed, 0.0)).transposed()
    largest = [gate_size, inner_size, float(sizes.max(initial=0.0)), float((total + here).max())]
    return after.outlined(None, None), largest


def _read(
    matrix: np.ndarray, bias: np.ndarray, stream: Place, here: np.ndarray, format: Format
) -> tuple[Place, np.ndarray, float]:
    """What rows read, what that rounds, and the largest sum of sizes."""
    size, rounded = affine_stray(matrix, here, bias[:, None], 3, format)
    read = Place(matrix @ stream.range + bias[:, None], matrix @ stream.deviation)
    return read.strayed(rounded), rounded, float(size.max(initial=0.0))


def _either(chosen: np.ndarray, one: Interval, other: Interval) -> Interval:
    return Interval(np.where(chosen, one.lo, other.lo), np.where(chosen, one.hi, other.hi))
