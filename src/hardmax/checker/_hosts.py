"""What a host does to each read of its stream: bounds from its files' numbers and our own ranges.

A host is told by `core.Host`: norms, activations, casts, rotary positions. Here the checker says
how far a number that is read, or an activation, can be from what the Transformer means; everybody
who follows a Transformer adds it to the rounding. Nothing is believed but the numbers that the
host's own files hold, and ranges are those of whoever asks.

Of the host's arithmetic this is assumed (`about_host`): sums in any order; rsqrt good to 4 units,
and exact at powers of 4; a layer norm's variance good to 32; activations, sines and cosines to 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hardmax.core import (
    Activation,
    Attention,
    FeedForward,
    GatedFeedForward,
    Host,
    Norm,
    ReadOut,
    Rotary,
    Sublayer,
    Transformer,
)
from hardmax.numerics import (
    FLOAT32,
    FORMATS,
    Format,
    Interval,
    above_float,
    exp,
    gamma,
    inflate,
    is_power_of_two,
    log,
    product_up,
    sum_up,
    up,
)

_RSQRT_UNITS = 4
_MASK = 1e9  # exp of minus half of it is 0, in every format
_FUNCTION_UNITS = 8
_LAYER_ROUNDINGS = 5  # of a column: mean, divisor, gain and bias, in whatever order
_VARIANCE_UNITS = 32  # of a layer norm; PyTorch's blocks of running means are within 7
_ZEROS_SHARE = 65.0 / 64.0  # see core.Norm

# sup |act(z) - relu(z)| over the reals, rounded up. Each gap is even in z: relu(z) - act(z) is
# z (1 - p(z)) for z >= 0, p being the share that the activation leaves, and 1 - p(z) = p(-z).
# silu: y sigmoid(-y), largest where 1 + e^-y = y. gelu: y Phi(-y). tanh gelu: y sigmoid(-2 t(y)).
_GAPS = {"silu": 0.2784646, "gelu": 0.1699713, "gelu_tanh": 0.1700409}


class NoCharge(Exception):
    """In this format nothing can be said of the host: too large a stream, or too small a norm."""


@dataclass(frozen=True)
class ReadCharge:
    """A number x is read within `relative` |x| + `absolute` of itself, and 0 within `still` of 0.

    Besides, numbers below `safe` that are not 0 may lose `faint`; and biases are read within
    `biases` times their size.
    """

    relative: float = 0.0
    absolute: float = 0.0
    still: float = 0.0
    faint: float = 0.0
    safe: float = 0.0
    biases: float = 0.0

    @property
    def is_identity(self) -> bool:
        """Whether numbers that are not tiny are read as they are."""
        return self.relative == self.absolute == self.still == self.biases == 0.0

    def of(self, size: np.ndarray, exact: np.ndarray) -> np.ndarray:
        """How far numbers of at most these sizes are read from what they are.

        `exact` says where they are known to be 0 or at least `safe`.
        """
        lost = self.absolute + np.where(exact, 0.0, self.faint)
        return np.asarray(
            np.where(size == 0.0, self.still, inflate(self.relative * size + lost, 3))
        )


@dataclass(frozen=True)
class ActivationCharge:
    """A hidden number h is within `relative` |h| + `absolute` of relu of what the unit read.

    What it read has at most the size `largest`: beyond, the steepness may make it overflow.
    """

    relative: float
    absolute: float
    largest: float

    def of(self, size: np.ndarray) -> np.ndarray:
        return np.asarray(inflate(self.relative * size + self.absolute, 2))


NOTHING = ReadCharge()


def attention_format(host: Host | None, format: Format) -> Format:
    """The coarser one of the stream's format and of that in which weights are taken.

    Whatever is true of every evaluation in the coarser format is true of one whose operations are
    as good or better: each bound is about relative errors, underflow and overflow of single
    operations, and the finer format has less of each.
    """
    return _coarser(format, None if host is None else host.softmax_in)


def read_charge(
    host: Host | None, transformer: Transformer, sublayer: int, size: np.ndarray, format: Format
) -> ReadCharge:
    """What the host does to reads of one sublayer, or of the read-out, which comes last.

    `size` bounds |x| for each coordinate, at every token that is read.
    """
    if host is None:
        return NOTHING
    norm = host.norms[sublayer]
    terms = _most_terms(transformer, sublayer)
    found = NOTHING if norm is None else _norm_charge(norm, size, format, terms)
    read = up(size + found.of(size, np.zeros(size.shape, dtype=bool)))
    _check_scores(host, transformer, sublayer, read, attention_format(host, format))
    return found


def with_turns(
    charge: ReadCharge, host: Host | None, transformer: Transformer, format: Format
) -> ReadCharge:
    """The charge of keys: rotary positions change each product with a query, which is read once."""
    if host is None or host.rotary is None:
        return charge
    turned = rotary_charge(host.rotary, transformer, format)
    relative = float(inflate(charge.relative + turned + charge.relative * turned, 3))
    absolute, still, faint = (
        float(inflate(lost * (1.0 + turned), 3))
        for lost in (charge.absolute, charge.still, charge.faint)
    )
    return replace(charge, relative=relative, absolute=absolute, still=still, faint=faint)


def _most_terms(transformer: Transformer, sublayer: int) -> int:
    """How many columns a row of a sublayer reads at most, of the read-out if that is meant."""
    if sublayer == len(transformer.sublayers):
        matrices = [transformer.readout.weights]
    else:
        matrices = _readers(transformer.sublayers[sublayer])
    return max(int((matrix != 0.0).sum(axis=1).max(initial=0)) for matrix in matrices)


def _readers(sublayer: Sublayer) -> list[np.ndarray]:
    match sublayer:
        case Attention():
            return [part for h in sublayer.heads for part in (h.query, h.key, h.value)]
        case FeedForward():
            return [sublayer.inner]
        case GatedFeedForward():
            return [sublayer.gate, sublayer.inner]


def _check_scores(
    host: Host, transformer: Transformer, sublayer: int, size: np.ndarray, format: Format
) -> None:
    """Scores fit before they are scaled, which is how eager attention has them; and masks hide.

    `size` bounds what is read. Of the products of what is computed the rest is left to rounding.
    Lowered by the mask, scores stay so low that exp of them is 0: by half of it.
    """
    if sublayer == len(transformer.sublayers):
        return
    layer = transformer.sublayers[sublayer]
    for head in layer.heads if isinstance(layer, Attention) else ():
        query, key = (np.abs(part) @ size for part in (head.query, head.key))
        score = float(sum_up(product_up(query, key)))
        if not format.fits(4.0 * score * head.coldness / host.score_scale):
            raise NoCharge
        if head.causal and host.mask is not None:
            if head.position_bias is not None:
                score += float(np.abs(head.position_bias).max())
            if not 8.0 * score * head.coldness <= host.mask or host.mask < _MASK:
                raise NoCharge


# ---- norms ---------------------------------------------------------------------------------------


def _norm_charge(norm: Norm, size: np.ndarray, format: Format, terms: int) -> ReadCharge:
    """RMS norms and layer norms, as `core.Norm` defines them.

    The computed read of column i is F^ (h_i - m^) with one factor for all columns, rounded a few
    times more. F^ differs from the F of the reals, and that from 1: `_factor`. Of an RMS norm
    m = 0.

    *Single columns.* A cast to a coarser format, the product with the divisor's reciprocal, the
    cast back, the product with the gain: 1 rounding each, relative to |h_i| + |m^|; those with
    powers of two round nothing. Tiny numbers may be lost twice, in units of what is multiplied.

    *The mean of a layer norm.* Over the reals rows that add up to 0 do not see it. In floats every
    column, and those that hold 0, which carry minus the row's sum, are rounded 5 times at most,
    relative to |x| + |m^|. A column of ours that is 0 is read as they are (equal numbers are normed
    to equal ones), so that what it adds is taken back. The row's own sum has k + 1 terms, a bias
    counted, and z more for the columns that hold 0, which others do not know of: of z roundings of
    |x| each; and all terms are larger by |m^|. Together, for a weight w, as the weights of those
    columns are 65/64 of the others' at most: 2.02 |w| |m^| (gamma_5 + gamma_(k+1+z)), and without
    gamma_5 for a 0. Of a single 0 two products are left that are each other's negatives, unless one
    of them is fused with the sum: by 1 rounding. A bias is such a weight too, on a column of 1.
    """
    formats = _Formats.of(norm, format)
    squares = float(sum_up(product_up(size, size)))
    centre = _mean_size(norm, size, formats.variance)
    if not (math.isfinite(squares) and math.isfinite(centre)):
        raise NoCharge
    _check_room(norm, size, squares, formats)
    absorbs = _absorbs(norm, squares, formats.variance)
    exact = _is_exact(norm, squares, absorbs, formats.variance)
    factor = 0.0 if exact else _factor(norm, squares, centre, absorbs, formats.variance)
    roundings = int(formats.computes.unit > format.unit) + (0 if exact else 2)
    roundings += 0 if is_power_of_two(np.asarray(norm.gain)) else 1
    roundings = _LAYER_ROUNDINGS if norm.kind == "layer" else roundings
    zeros = norm.zeros if norm.kind == "layer" else 0
    roundings += zeros
    single = float(gamma(roundings, formats.coarsest)) if roundings else 0.0
    relative = float(inflate(factor + single + factor * single, 3))
    summed, rounded = (gamma(k, formats.coarsest) for k in (terms + 1 + zeros, _LAYER_ROUNDINGS))
    sides = 1.0 + _ZEROS_SHARE
    absolute = float(inflate(sides * centre * (summed + rounded), 4))  # 0 of an RMS norm
    alone = terms <= 1 and zeros <= 1
    still = float(inflate(centre * (gamma(1, formats.coarsest) if alone else sides * summed), 4))
    shrinks = float(up(norm.gain / norm.scale)), float(up(1.0 / norm.scale))
    both = formats.computes, format
    lost = max(max(one.smallest, one.flushed) for one in both)
    faint = float(inflate(4.0 * lost * (1.0 + sum(shrinks)), 6))
    safe = float(inflate(4.0 * max(one.normal for one in both) * max(1.0, *shrinks), 4))
    biases = float(inflate(relative + absolute, 1)) if norm.biases_normed else 0.0
    return ReadCharge(relative, absolute, still, faint, safe, biases)


@dataclass(frozen=True)
class _Formats:
    """In what a norm works: the stream, single columns, and the mean of squares."""

    stream: Format
    computes: Format
    variance: Format

    @classmethod
    def of(cls, norm: Norm, format: Format) -> _Formats:
        computes = FORMATS[norm.computes_in] if norm.computes_in else format
        variance = FORMATS[norm.variance_in] if norm.variance_in else computes
        return cls(format, computes, variance)

    @property
    def coarsest(self) -> Format:
        return max(self.stream, self.computes, key=lambda one: one.unit)


def _mean_size(norm: Norm, size: np.ndarray, format: Format) -> float:
    """|m^|: the mean, and n + 4 roundings of the sum of absolute values; 0 of an RMS norm."""
    if norm.kind == "rms":
        return 0.0
    ours = float(sum_up(size))
    every = ours + sum(abs(value) * count for value, count in norm.constants)
    real = ours + float(abs(norm.level))
    return float(inflate((real + every * gamma(norm.width + 4, format)) / norm.width, 8))


def _check_room(norm: Norm, size: np.ndarray, squares: float, formats: _Formats) -> None:
    """Nothing that the norm makes may overflow: squares, their sum, and what gains multiply.

    Computed numbers are less than 4 times what they are over the reals: factors are below 2 (see
    `_factor`), and so are sums.
    """
    total = inflate(4.0 * (squares + float(norm.ballast)), norm.width + 8)
    largest = max([float(size.max(initial=0.0)), *(abs(value) for value, _ in norm.constants)])
    divided = inflate(4.0 * largest * max(1.0, norm.scale / norm.gain), 4)
    gained = inflate(4.0 * largest * norm.scale, 4)
    fits = formats.variance.fits(total) and formats.computes.fits(divided)
    if not (fits and formats.stream.fits([divided, gained, norm.gain])):
        raise NoCharge


def _absorbs(norm: Norm, squares: float, variance: Format) -> bool:
    """Whether the sum of squares is that of the largest constants, exactly, in every order.

    Let b constants be M or -M, M a power of two, b < 1/u, and let all other squares add up to less
    than u M^2 (their own rounding included). A partial sum that holds k of the b is computed as
    k M^2: by induction, two of them add up exactly, since (k + l) M^2 has few digits; and what
    holds none is below u M^2, less than half of the gap above k M^2, which takes it up.
    """
    largest, count = _heaviest(norm)
    if norm.kind != "rms" or not count or not is_power_of_two(np.asarray(largest)):
        return False
    small = norm.ballast - count * Fraction(largest) ** 2
    others = float(up(squares + above_float(small)))
    u = Fraction(variance.unit)
    return count * u < 1 and _computed(norm, others, variance) < u * Fraction(largest) ** 2


def _heaviest(norm: Norm) -> tuple[float, int]:
    """The largest |constant|, and how many there are of it; none if all are 0."""
    largest = max((abs(value) for value, _ in norm.constants), default=0.0)
    held = sum(count for value, count in norm.constants if abs(value) == largest)
    return (largest, held) if largest > 0.0 else (0.0, 0)


def _computed(norm: Norm, squares: float, variance: Format) -> Fraction:
    """Above every computed sum of such squares."""
    most = inflate(squares * (1.0 + gamma(norm.width + 8, variance)), 4)
    most = float(up(most + 2.0 * norm.width * variance.smallest))
    if not math.isfinite(most):
        raise NoCharge
    return Fraction(most)


def _is_exact(norm: Norm, squares: float, absorbs: bool, variance: Format) -> bool:
    """Whether the divisor is gain/scale, a power of two, exactly.

    *By ballast.* The sum of squares is b M^2; the width is a power of two, so that b M^2/n is exact
    however it is divided; an epsilon below u times that is rounded away; and the reciprocal root of
    a power of 4 is exact.

    *By epsilon*, without ballast: a mean of squares below u times an epsilon that is a power of 4
    is rounded away when the two are added.
    """
    divisor = (Fraction(norm.gain) / Fraction(norm.scale)) ** 2
    epsilon, u = Fraction(norm.epsilon), Fraction(variance.unit)
    if norm.kind != "rms" or not is_power_of_two(np.asarray(norm.gain)):
        return False
    others = float(up(squares + above_float(norm.ballast)))
    if divisor == epsilon and _computed(norm, others, variance) < u * epsilon * norm.width:
        return True
    largest, count = _heaviest(norm)
    mean, halves = count * Fraction(largest) ** 2 / norm.width, norm.width & (norm.width - 1) == 0
    return absorbs and halves and divisor == mean and 2 * epsilon < u * mean


def _factor(norm: Norm, squares: float, centre: float, absorbs: bool, variance: Format) -> float:
    """A bound on |F^ - 1|.

    F^2 = (gain/scale)^2 / D, D = (C + S)/n - m^2 + epsilon, with S between 0 and `squares` and |m|
    at most `centre`; and |F - 1| = |F^2 - 1|/(F + 1), where F >= min(1, F^2).

    D is computed up to k + 9 roundings: k of the sum; a cast and the mean that is subtracted, both
    squared; squares, the division and epsilon; and a mean that is off by e adds e^2, which is less
    than 1. (A layer norm may take it in another way, from running means: assumed is 32 in all.)
    For t <= 1/4 a D that is off by t moves 1/sqrt(D) by at most t/2 (1 + 2 t); then come
    the reciprocal root's own units.
    """
    still = norm.ballast / norm.width + Fraction(norm.epsilon)
    least = still - Fraction(centre) ** 2
    most = still + Fraction(squares) / norm.width
    if least <= 0:
        raise NoCharge
    target = (Fraction(norm.gain) / Fraction(norm.scale)) ** 2
    ends = target / least, target / most
    away = above_float(max(abs(end - 1) / (1 + min(Fraction(1), *ends)) for end in ends))
    summed = 0 if absorbs else _roundings_of_sum(norm, squares, centre, variance)
    units = max(summed + 9, _VARIANCE_UNITS if norm.kind == "layer" else 0)
    apart = float(gamma(units, variance))
    if not max(away, apart) <= 0.25:
        raise NoCharge
    rounded = inflate(0.5 * apart * (1.0 + 2.0 * apart) + gamma(_RSQRT_UNITS, variance), 6)
    return float(inflate(away + rounded + away * rounded, 4))


def _roundings_of_sum(norm: Norm, squares: float, centre: float, variance: Format) -> int:
    """By how many roundings a sum of n squares errs, b of which are large: at most n.

    Sums of two parts that both hold large squares: b - 1, each one rounding of the whole. Where a
    part that holds none is added to one that does, it errs by no more than that part, since the
    sum's nearest float is no further than the other part; and these parts are disjoint, so that
    together they err by no more than all the small squares s, and within themselves by less. That
    is at most 2 s/(u C) roundings of the whole, C being the large squares.
    """
    largest, count = _heaviest(norm)
    if not count:
        return norm.width
    every = count * Fraction(largest) ** 2
    small = Fraction(squares) + norm.ballast - every + norm.width * Fraction(centre) ** 2
    share = 4 * small / (Fraction(variance.unit) * every)  # (x - m)^2 <= 2 x^2 + 2 m^2
    return min(norm.width, count - 1 + math.ceil(share))


# ---- rotary positions and activations ------------------------------------------------------------


def rotary_charge(rotary: Rotary, transformer: Transformer, format: Format) -> float:
    """How far a product q k of a query and a key is from q k cos((t - s) w), and that from q k.

    1 - cos a <= a^2/2, with a at most (tokens - 1) times the largest angle w of the planes that
    are used. Turned, q is (q cos, q sin) and so is k: their product is two products of two rounded
    numbers each, of sines and cosines that are taken in float32, with angles rounded twice; they
    stray by (8 + 2) units each, and by 6 units of the angle, which with the products and the sum of
    twice as many terms is less than 2 width + 40 roundings. Keys are charged with all of it, as if
    for each query they were others; nobody may look at them together.
    """
    angle = Interval.point(np.array(-rotary.first / rotary.planes)) * log(
        Interval.point(np.array(rotary.theta))
    )
    step = float(exp(angle).hi)
    turned = inflate(step * (transformer.tokens - 1) * (1.0 + gamma(4, FLOAT32)), 4)
    widest = max((head.key_width for head in transformer.heads), default=0)
    rounded = float(gamma(2 * widest + 40, _coarser(format, FLOAT32.name)))
    rounded = float(inflate(rounded + 4.0 * turned * gamma(6, FLOAT32), 3))
    slowed = min(0.5 * turned * turned, 2.0)
    return float(inflate(slowed + rounded + slowed * rounded, 6))


def activation_charge(
    activation: Activation, format: Format, factor: float = 0.0
) -> ActivationCharge:
    """act(s z)/s beside relu(z), computed: within gap/s over the reals, and some units of |z|.

    |act(s z)/s - relu(z)| = |act(y) - relu(y)|/s at y = s z. The activation is good to 8 units of
    its own value, which is at most |y|, and its value 0 may be the smallest number; a gated unit
    multiplies by a constant besides, 2 more, that is read within `factor` of itself.
    """
    steepness, units = activation.steepness, _FUNCTION_UNITS + 2
    relative = float(gamma(units, format))
    relative = float(inflate(relative + factor + relative * factor, 3))
    lost = max(format.smallest, format.flushed) * (1.0 + 2.0 / steepness)
    gap = _GAPS[activation.kind] / steepness
    absolute = float(inflate(gap * (1.0 + relative) + lost * units, 6))
    return ActivationCharge(relative, absolute, format.largest / (2.0 * max(steepness, 1.0)))


# ---- answers that are classes --------------------------------------------------------------------


def answer_charge(host: Host | None, readout: ReadOut, charge: ReadCharge, format: Format) -> float:
    """By how much an answer y has to be closer to its code, for logits that are computed.

    The host has l_v = 2 c_v y - c_v^2 for each class v. Over the reals the right class c leads by
    l_c - l_v = |c - c_v| (|c - c_v| - 2 e) at least, where y is within e of c. Computed, l_v is off
    by some R_v, so that c still leads if e + (R_v + R_c)/(2 |c - c_v|) < |c - c_v|/2 for all v: the
    largest of these additions is charged, and the rest is for whoever says what error is allowed.

    R_v, for |y - c| <= d/2, d being the least distance of two codes (beyond, the claim is broken
    anyhow): the row is one weight w, and a bias, so that it is one rounding of the product, at most
    2 |c_v| (|c| + d/2), and one of l_v, at most |c_v| (2 |c - c_v| + |c_v| + d). A bias that is
    read through a norm is off besides, and a layer norm's row is charged again, since each class
    has a sum of its own: by gamma_(6 + z) instead, by `absolute` for w, by `biases` for c_v^2.
    """
    codes = np.array([] if host is None else host.classes)
    if len(codes) < 2:
        return 0.0
    if (readout.weights != 0.0).sum() > 1 or readout.bias.any():
        raise NoCharge
    apart = np.abs(codes[:, None] - codes)
    nearest = float(np.where(apart > 0.0, apart, math.inf).min())
    size, reach = (
        np.abs(codes),
        np.abs(codes)[:, None] + nearest / 2.0,
    )  # reach: class c, a row each
    product, square = 2.0 * size * reach, size * size
    logit = size * (2.0 * apart + size + nearest)
    lost = 0.5 * gamma(2, format) * (product + logit)
    if charge.biases > 0.0:
        norm = None if host is None else host.norms[-1]
        more = 0 if norm is None else norm.zeros
        weight = float(np.abs(readout.weights).max(initial=0.0))
        lost = gamma(6 + more, format) * (product + square)
        lost = lost + 2.0 * size * weight * charge.absolute + charge.biases * square
    lost = lost + 4.0 * format.smallest
    off = lost + np.diag(lost)[:, None]  # R_v + R_c
    found = np.where(apart > 0.0, off / (2.0 * np.where(apart > 0.0, apart, 1.0)), 0.0)
    return float(inflate(found.max(), 24))


# ---- for the certificate -------------------------------------------------------------------------


def about_host(host: Host | None) -> tuple[str, ...]:
    """The sentences for a certificate: what is assumed of the host's arithmetic."""
    if host is None:
        return ()
    said = [
        f"The host is an unmodified {host.architecture}, its sums taken in any order and no "
        f"products in a coarser format (such as TF32).",
        f"Its attention is eager or sdpa: scores are multiplied by their scale, and weights taken "
        f"in {host.softmax_in or 'the format of the stream'} or a finer one.",
    ]
    if any(norm is not None for norm in host.norms):
        said.append(f"Its rsqrt is good to {_RSQRT_UNITS} units, and exact at powers of 4.")
    if any(norm is not None and norm.kind == "layer" for norm in host.norms):
        said.append(
            f"Its layer norm makes equal numbers of equal ones, and its variance is good to "
            f"{_VARIANCE_UNITS} units."
        )
    if any(activation is not None for activation in host.activations):
        said.append(f"Its activations are good to {_FUNCTION_UNITS} units.")
    if host.mask is not None:
        said.append("Its exp is 0 below -5e8, where it masks what is not seen.")
    if host.rotary is not None:
        said.append(f"Its rotary sines and cosines are good to {_FUNCTION_UNITS} units.")
    return tuple(said)


def _coarser(format: Format, name: str | None) -> Format:
    other = format if name is None else FORMATS[name]
    return other if other.unit > format.unit else format
