"""A gated feed-forward layer in floats: every term is a product of two reads, one of them gated.

A term is h = act(z) u, or z u where two units make a product (`GatedFeedForward.terms`).

*Inherited.* On the segment from what the real stream makes of z and u to what the computed one
does, h moves by a dz + b du with a in the range of act'(z) u (of u for a product) and b in that of
act(z) (of z): the mean value theorem, for act = relu with one-sided slopes. So the two units of a
product, which cancel, deviate together as little as the product does.

*Local, one unit.* It reads z~ and u~ within e and f of what they would be for the computed stream.
With |act'| <= L near z it computes act(z~) within d = L e + (what its activation rounds), and the
product within (|act(z)| + d) f + |u| d and one rounding of (|act(z)| + d) |u|.

*Local, a product.* Its units read z and -z within e, each for itself. Over the reals
|act(z)| + |act(-z)| = |z|, so that the last factors round as if there were one unit. The gates err
by E e together, E = 1 for relu: act(z + e1) - act(-z + e2) - z lies within e. If z + e1 <= 0 it is
-e2 or -z, which is at least e1; else it is e1 or e1 - e2 + z > -e2. For silu they err by
|act'(p)| e + |act'(q)| e with p and q within e of z and -z; act'(z) and act'(-z) add up to 1,
neither is below -0.0999, and |act''| <= 1/2, so that E = 1.2 + e.

*Sums.* What is added up are units. Where reads of ReLU gates are exact, one unit of each product is
0 exactly, and the sum is one of terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.rounding._format import NothingKnown, Stored, Sum
from hardmax.checker.rounding._hosted import Hosted
from hardmax.core import GatedFeedForward
from hardmax.numerics import Format, Interval, activation_error, inflate, pair_ends, record_of, up


@dataclass(frozen=True, eq=False)
class GatedTerms:
    """The terms of a layer at some tokens; arrays are terms x tokens."""

    gate: Stored
    inner: Stored
    outer: Stored  # width x terms
    by_gate: Interval  # what a term moves by when its gate does
    by_inner: Interval
    local: np.ndarray  # how far computed terms are from those of the computed stream
    off: np.ndarray  # and from those of the real one


@dataclass(frozen=True, eq=False)
class Reads:
    """What all terms read, real and computed: arrays are terms x tokens."""

    z: Interval
    u: Interval
    gate_error: np.ndarray
    inner_error: np.ndarray


def gated_terms(
    layer: GatedFeedForward, where: Interval, off: np.ndarray, hosted: Hosted, number: int
) -> tuple[GatedTerms, Sum, Interval]:
    """The terms; the sums of what is computed and of the stream; and where these are by terms."""
    if hosted.has_activation(number):
        raise NothingKnown  # a host computes the gates that the layer names
    (units, multiplies), format = layer.terms, hosted.format
    charge = hosted.charge(number, where)
    gate = Stored.of(layer.gate[units], format, layer.gate_bias[units])
    inner = Stored.of(layer.inner[units], format, layer.inner_bias[units])
    asked, held = (part.times(where, off, charge=charge) for part in (gate, inner))
    errors = asked.error(), held.error()
    z, u = asked.value.widened(errors[0]), held.value.widened(errors[1])
    reads, is_product = Reads(z, u, *errors), multiplies[:, None]
    acted = record_of(layer.activation).intervals(z)
    by_gate = _either(is_product, u, _slopes(layer.activation, z) * u)
    by_inner = _either(is_product, z, acted)
    single, paired = (local_error(layer.activation, reads, format, both) for both in (False, True))
    local = np.where(is_product, paired, single)
    inherited = by_gate.magnitude * gate.carry(off) + by_inner.magnitude * inner.carry(off)
    outer = Stored.of(layer.outer[:, units], format, layer.outer_bias)
    value = _either(is_product, _product(layer, units, reads), acted * u).widened(local)
    total = where + outer.dense @ value + Interval.point(layer.outer_bias[:, None])
    terms = GatedTerms(
        gate, inner, outer, by_gate, by_inner, local, np.asarray(inflate(inherited + local, 4))
    )
    loose = np.full((layer.hidden_width, len(local[0])), np.inf)  # any of them may be flushed
    if layer.is_exact and not (is_product & (errors[0] > 0.0)).any():
        return terms, outer.times(value, loose[: len(units)], carried=where), total
    every = Stored.of(layer.outer, format, layer.outer_bias)
    return terms, every.times(_every_unit(layer, reads, single), loose, carried=where), total


def local_error(activation: str, reads: Reads, format: Format, is_product: bool) -> np.ndarray:
    """How far units are from act(z) u, or the two of a product from z u, for reads that err."""
    record, size = record_of(activation), reads.z.magnitude
    acted = size if is_product else record.intervals(reads.z).magnitude
    steep = _slopes(activation, reads.z).magnitude
    if is_product:
        one = np.ones(size.shape)
        steep = one if activation == "relu" else np.asarray(up(1.2 + reads.gate_error))
    rounded = activation_error(activation, size, acted, format)
    if is_product:  # the other unit, whose share of what is relative is counted
        rounded = rounded + activation_error(activation, size, np.zeros(size.shape), format)
    away = inflate(steep * reads.gate_error + rounded, 4)
    beside, most = reads.u.magnitude, acted + (2.0 if is_product else 1.0) * away
    lost = 2.0 * (format.smallest + 2.0 * format.flushed * (1.0 + most + beside))
    error = most * reads.inner_error + beside * away + format.unit * most * beside + lost
    off = (activation == "relu") & (reads.z.hi <= 0.0) & (not is_product)
    return np.where(off, 0.0, inflate(error, 8))


def _slopes(activation: str, z: Interval) -> Interval:
    return Interval(*pair_ends(record_of(activation).curve(z.lo, z.hi)[1]))


def _product(layer: GatedFeedForward, units: np.ndarray, reads: Reads) -> Interval:
    """z u; a square is not below 0."""
    found = reads.z * reads.u
    same = (layer.gate[units] == layer.inner[units]).all(axis=1)
    same &= layer.gate_bias[units] == layer.inner_bias[units]
    return Interval(np.where(same[:, None], np.maximum(found.lo, 0.0), found.lo), found.hi)


def _either(chosen: np.ndarray, one: Interval, other: Interval) -> Interval:
    return Interval(np.where(chosen, one.lo, other.lo), np.where(chosen, one.hi, other.hi))


def _every_unit(layer: GatedFeedForward, reads: Reads, error: np.ndarray) -> Interval:
    """How large each unit can be: |act(z)| |u| or |act(-z)| |u|, each less than |z| |u|."""
    size = np.zeros((layer.hidden_width, error.shape[1]))
    most = np.asarray(up(up(reads.z.magnitude * reads.u.magnitude) + error))
    place = {int(unit): k for k, unit in enumerate(layer.terms[0])}
    for unit, k in place.items():
        size[unit] = most[k]
    for first, second in layer.products:
        size[second] = size[first]
    return Interval(-size, size)
