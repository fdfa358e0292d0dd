"""What one token gets from a group of heads: where it lies, how it rounds, how it moves.

For a token t that asks, head by head, with logits l_j, values v_j, weights p = softmax(l) and the
mean m = sum_j p_j v_j over the tokens j that t sees:

- dm = sum_j p_j dv_j + sum_j p_j (v_j - m) dl_j, so only logit differences matter;
- a head that takes a maximum moves by sum_j g_j dv_j alone, logits included (`MaximumHeads`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar, cast

import numpy as np

from hardmax.checker.rounding._format import check_accumulated, may_vanish, relative
from hardmax.checker.rounding._logits import Asked, LogitRounding, weights_of, with_softmax
from hardmax.checker.rounding._maximum_heads import (
    BEND,
    PULL,
    MaximumHeads,
    NearMaximum,
    near_maximum,
    steepness,
)
from hardmax.numerics import (
    BLOCK,
    FLOAT64,
    Interval,
    down,
    gamma,
    inflate,
    product_up,
    sum_up,
    up,
)

Part = TypeVar("Part")


@dataclass(frozen=True, eq=False)
class Derivatives:
    """How the mean m of every head moves: heads x value width x what it moves with.

    By the logits and by the query they are 0 where those by the values say it all.
    """

    by_values: Interval  # ... x seen
    by_logits: Interval  # ... x seen
    by_query: Interval  # ... x key width

    def joined(self, first: np.ndarray) -> Derivatives:
        parts = (self.by_values, self.by_logits, self.by_query)
        return Derivatives(*(_hull_of_pieces(part, first) for part in parts))


@dataclass(frozen=True, eq=False)
class MeanErrors:
    """How far m can be from what it should be: heads x value width."""

    rounded: np.ndarray  # in floats, the stream being given
    steady: np.ndarray  # that is also at most this, and ...
    growth: np.ndarray  # ... so much of the values: |v| if one is not 0, or all of them together
    off: np.ndarray  # over the reals, the stream being off
    off_seen: np.ndarray  # the part of that which comes from values and keys
    jump: np.ndarray  # the part of it for which there are no derivatives

    def joined(self, first: np.ndarray) -> MeanErrors:
        parts = (self.rounded, self.steady, self.growth, self.off, self.off_seen, self.jump)
        return MeanErrors(*(np.maximum.reduceat(part, first) for part in parts))


@dataclass(frozen=True, eq=False)
class FromMaximum:
    """Where m lies beside the larger of two values: heads x value width."""

    below: np.ndarray  # that minus m; infinite for heads that take no maximum of two
    beyond: np.ndarray  # m minus that

    def joined(self, first: np.ndarray) -> FromMaximum:
        parts = (self.below, self.beyond)
        return FromMaximum(*(np.maximum.reduceat(part, first) for part in parts))


@dataclass(frozen=True, eq=False)
class Answer:
    """What one token gets from each of some heads: the mean m, its errors, how it moves."""

    mean: Interval  # of computed streams and real ones: heads x value width
    weights: Interval  # heads x seen
    errors: MeanErrors
    derivatives: Derivatives
    from_maximum: FromMaximum

    @classmethod
    def stacked(cls, parts: list[Answer]) -> Answer:
        """Several heads' answers, one after the other."""
        return _stacked(parts)

    def joined(self, first: np.ndarray) -> Answer:
        """What holds for all pieces of each head; `first` says where its pieces start."""
        if len(first) == len(self.weights):
            return self
        return Answer(
            _hull_of_pieces(self.mean, first),
            _hull_of_pieces(self.weights, first),
            self.errors.joined(first),
            self.derivatives.joined(first),
            self.from_maximum.joined(first),
        )


def _stacked(parts: list[Part]) -> Part:
    """Arrays, intervals, or what is made of them, along the first axis."""
    one = parts[0]
    if isinstance(one, np.ndarray):
        return cast("Part", np.concatenate(cast("list[np.ndarray]", parts)))
    names = ("lo", "hi") if isinstance(one, Interval) else tuple(vars(one))
    return type(one)(*(_stacked([getattr(part, name) for part in parts]) for name in names))


def _hull_of_pieces(part: Interval, first: np.ndarray) -> Interval:
    return Interval(np.minimum.reduceat(part.lo, first), np.maximum.reduceat(part.hi, first))


def answer(asked: Asked) -> Answer:
    """All lemmas, head by head; soft and hard heads may be mixed.

    Everything that belongs to a weight is enclosed for the computed logits as well as for the
    real ones, so that mean values between the two are enclosed, too.
    """
    if asked.seen == 1:
        return _only_token(asked)
    check_accumulated(asked.format, sum_up(asked.values.size[~asked.hard], 2), asked.seen)
    rounding = with_softmax(asked)
    shifted = np.asarray(up(rounding.total + asked.shift))
    weights = weights_of(asked, shifted)
    possible = (weights.hi > 0.0)[:, None]
    values = asked.values.value
    hull = Interval(
        np.where(possible, values.lo, np.inf).min(axis=2),
        np.where(possible, values.hi, -np.inf).max(axis=2),
    )
    spread = up(hull.hi - hull.lo)
    rest = near_maximum(asked.maximum, weights, spread.max(axis=1, initial=0.0), asked.hard)
    mean = _mean(asked, weights, hull, rest)
    pull, distance = _pull(asked, weights, mean, hull)
    asking = _asking(asked, pull, distance)
    slopes = _slopes(asked, weights, rest)
    jump = _jump(asked, weights, spread)
    by_logits = _logit_error(asked, rounding, pull, distance, asking, spread)
    if asked.maximum.holds.any():
        contested = _maximum_error(asked, weights, rounding, spread)
        by_logits = np.where(asked.maximum.holds[:, None], contested[:, None], by_logits)
    by_logits = np.minimum(by_logits, _carried(spread, shifted))
    mixing = _mixing_error(asked, weights, rounding.faint, spread)
    hard = asked.hard[:, None]
    error = _hard_error(asked, weights, shifted, jump)
    steady = np.where(hard, error, up(by_logits + mixing.steady))
    error = np.where(hard, error, up(by_logits + mixing.whole))
    seen = _off_seen(asked, slopes, pull, distance, rest)
    asker = sum_up(product_up(asking.magnitude, asked.query.off[:, None]), 2)
    off = np.minimum(inflate(seen + asker + jump, 2), spread)  # the parts may be larger, and cancel
    return Answer(
        mean,
        weights,
        MeanErrors(error, steady, np.where(hard, 0.0, mixing.growth), off, seen, jump),
        Derivatives(slopes, pull, asking),
        _from_maximum(asked, rest, jump, spread),
    )


def _only_token(asked: Asked) -> Answer:
    """A token that sees itself alone takes its own value: e/e = 1, and 1 v = v, exactly.

    Unless v is flushed.
    """
    value, off = asked.values.value[:, :, 0], asked.values.off[:, :, 0]
    own = asked.values[:, :, 0]
    gone = may_vanish(own.computed, own.strays, asked.format)
    error = np.where(gone > 0.0, up(own.error + gone), own.error)
    every = np.zeros(asked.values.value.shape)
    nothing = np.zeros(value.shape)
    asking = np.zeros((*value.shape, asked.query.value.shape[1]))
    return Answer(
        value,
        Interval.point(np.ones(asked.lead.shape)),
        MeanErrors(error, error, nothing, off, off, nothing),
        Derivatives(*map(Interval.point, (every + 1.0, every, asking))),
        FromMaximum(np.full(value.shape, np.inf), nothing),
    )


def _mean(asked: Asked, weights: Interval, hull: Interval, rest: NearMaximum) -> Interval:
    """In the hull of the values; m = c + sum_j p_j (v_j - c); and near the maximum of a contest."""
    values = asked.values.value
    heads = np.arange(len(asked.hard))
    best = asked.lead.middle.argmax(axis=1)
    centre = values.middle[heads, :, best]
    parts = weights.reshape(len(heads), 1, -1) * (values - centre[:, :, None])
    mean = hull.meet(parts.sum(2) + centre)
    contender = rest.contender[:, None]
    usable = (asked.maximum.holds & rest.contender.any(axis=1))[:, None]
    leaked = inflate(rest.leak[:, None] * (hull.hi - hull.lo), 2)
    short = up(rest.shortfall[:, None] + leaked)
    low = down(np.where(contender, values.lo, -np.inf).max(axis=2) - short)
    high = up(np.where(contender, values.hi, -np.inf).max(axis=2) + leaked)
    return mean.meet(Interval(np.where(usable, low, -np.inf), np.where(usable, high, np.inf)))


def _pull(
    asked: Asked, weights: Interval, mean: Interval, hull: Interval
) -> tuple[Interval, np.ndarray]:
    """p_j (v_j - m), or 0 for heads that need it not; and E|v - m|, twice the sum of either sign.

    v_j - m = (1 - p_j)(v_j - mean of the others), so p_j |v_j - m| is at most p (1 - p) times the
    largest distance to another value. And E|v - m| <= spread/2: with m at a share s between the
    ends, 2 s (1 - s) of the spread is the most.
    """
    values, held = asked.values.value, asked.maximum.holds
    shares = weights.reshape(len(asked.hard), 1, -1)
    signed = shares * (values - mean.reshape(*mean.shape, 1))
    half = (shares.lo <= 0.5) & (shares.hi >= 0.5)
    inner = np.maximum(shares.lo * (1.0 - shares.lo), shares.hi * (1.0 - shares.hi))
    reach = np.maximum(hull.hi[:, :, None] - values.lo, values.hi - hull.lo[:, :, None])
    bound = inflate(np.where(half, 0.25, inner) * np.maximum(reach, 0.0), 4)
    bound = np.minimum(bound, signed.magnitude)
    distance = np.minimum(up(hull.hi - hull.lo) / 2.0, sum_up(bound, 2))
    bound = np.minimum(bound, distance[:, :, None] / 2.0)
    pull = signed.meet(Interval(-bound, bound))
    silent = (held | asked.hard)[:, None, None]
    return (
        Interval(np.where(silent, 0.0, pull.lo), np.where(silent, 0.0, pull.hi)),
        np.where(asked.hard[:, None], 0.0, distance),
    )


def _asking(asked: Asked, pull: Interval, distance: np.ndarray) -> Interval:
    """The derivative by the query, sum_j p_j (v_j - m) k_j; 0 for heads that need it not.

    The pulls add up to 0, so that the keys may be taken from any centre; and their absolute
    values add up to E|v - m|.
    """
    keys = asked.keys.value
    away = keys - keys.middle[np.arange(len(keys)), :, asked.best][:, :, None]
    count, values, n = pull.shape
    parts = pull.reshape(count, values, 1, n) * away.reshape(count, 1, -1, n)
    most = product_up(distance[:, :, None], asked.away.max(axis=2)[:, None])
    return Interval(-most, most).meet(parts.sum(3))


def _slopes(asked: Asked, weights: Interval, rest: NearMaximum) -> Interval:
    """The derivatives by the values: the weights, or p_j (1 + slope (v_j - m)) in a contest.

    Of the distance E|v - m| at most half belongs to one token.
    """
    held = asked.maximum.holds
    either = weights.widened(np.where(held, 0.5 * rest.distance, 0.0)[:, None])
    lo, hi = either.lo, either.hi
    if asked.seen == 2:
        apart = asked.maximum.handicap[:, 1] - asked.maximum.handicap[:, 0]
        second = steepness(asked.lead[:, 1] - asked.lead[:, 0]).widened(0.25 * apart.magnitude)
        first = 1.0 - second
        soft = (held & ~asked.hard)[:, None]
        lo = np.where(soft, np.stack([first.lo, second.lo], axis=1), lo)
        hi = np.where(soft, np.stack([first.hi, second.hi], axis=1), hi)
    shape = asked.values.value.shape
    return Interval(np.broadcast_to(lo[:, None], shape), np.broadcast_to(hi[:, None], shape))


def _off_seen(
    asked: Asked, slopes: Interval, pull: Interval, distance: np.ndarray, rest: NearMaximum
) -> np.ndarray:
    """How far the mean moves with the values and the keys.

    Slopes add up to 1, and their absolute values to at most 1 plus a contest's distance; so the
    largest deviation of a value counts, not the sum. Likewise for logits: the pulls' absolute
    values add up to E|v - m|.
    """
    size, moved = slopes.magnitude, asked.values.off
    by_sum = product_up(size, moved).sum(axis=2)
    most = 1.0 + np.where(asked.maximum.holds, rest.distance, 0.0)[:, None]
    by_most = product_up(most, np.where(size > 0.0, moved, 0.0).max(axis=2))
    logits = asked.key_off[:, None]
    by_keys = product_up(pull.magnitude, logits).sum(axis=2)
    silent = (asked.maximum.holds | asked.hard)[:, None]
    by_keys = np.minimum(by_keys, product_up(distance, logits.max(axis=2)))
    total = np.minimum(by_sum, by_most) + np.where(silent, 0.0, by_keys)
    return np.asarray(inflate(total, asked.seen + 2))


def _carried(spread: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """What logits that are off by at most d can do to a mean: spread * tanh(d/2).

    Raise the logits of a set of tokens by d and lower the rest: the set's weight moves from
    sigmoid(l - d) to sigmoid(l + d), which are furthest apart, by tanh(d/2), for l = 0.
    """
    share = inflate(np.tanh(logits.max(axis=1) / 2.0), FLOAT64.exp_units)
    return np.asarray(product_up(np.minimum(share, 1.0)[:, None], spread))


def _jump(asked: Asked, weights: Interval, spread: np.ndarray) -> np.ndarray:
    """By how much a hard head can jump where its winner is not decided.

    Its value lies within (difference of handicaps)/slope below the maximum if it is a contest,
    and anywhere among the values if not.
    """
    possible = weights.hi > 0.0
    undecided = asked.hard & ((weights.lo == 0.0) & possible).any(axis=1)
    handicap = asked.maximum.handicap
    high = np.where(possible, handicap.hi, -np.inf).max(axis=1)
    low = np.where(possible, handicap.lo, np.inf).min(axis=1)
    apart = up(up(high - low) / asked.maximum.slope)[:, None]
    jump = np.where(asked.maximum.holds[:, None], np.minimum(apart, spread), spread)
    return np.where(undecided[:, None], jump, 0.0)


def _from_maximum(
    asked: Asked, rest: NearMaximum, jump: np.ndarray, spread: np.ndarray
) -> FromMaximum:
    """By how much the mean is below or above the larger of two values that both contend."""
    both = asked.maximum.holds & rest.contender.all(axis=1) & (asked.seen == 2)
    leaked = product_up(rest.leak[:, None], spread)
    below = inflate(rest.shortfall[:, None] + jump, 2)  # where both contend nobody leaks
    return FromMaximum(np.where(both[:, None], below, np.inf), leaked)


def _logit_error(
    asked: Asked,
    rounding: LogitRounding,
    pull: Interval,
    distance: np.ndarray,
    asking: Interval,
    spread: np.ndarray,
) -> np.ndarray:
    """What rounding does to the mean through the logits: by queries, and by everything else.

    Two tokens have one lead between them, of which only the loser's side is subtracted and
    exponentiated; the pulls are p (1 - p) d and its negative. A lead y that is off by s |y| moves
    the mean by s |y| p (1 - p) |d|, where |y| p (1 - p) <= 0.2239 (as in `_pair_error`).
    """
    asker = sum_up(product_up(asking.magnitude, asked.query.error[:, None]), 2)
    if asked.seen > 2:
        rounded = rounding.total
        others = product_up(distance, rounded.max(axis=1)[:, None])
        others = np.minimum(others, product_up(pull.magnitude, rounded[:, None]).sum(axis=2))
        return np.asarray(inflate(asker + others, asked.seen + 1))
    both, s = pull.magnitude.min(axis=2), rounding.relative
    lead = rounding.absolute.sum(axis=1) + rounding.exponential
    share = s[:, None] * product_up(both, rounding.below.max(axis=1)[:, None])
    if asked.query.value.shape[1] == 1:
        off = lead + asked.shift.sum(axis=1)
        most = s * (PULL + off / 4.0) / (1.0 - s)
        share = np.minimum(share, product_up(most[:, None], spread))
    return np.asarray(inflate(asker + product_up(both, lead[:, None]) + share, 12))


def _maximum_error(
    asked: Asked, weights: Interval, rounding: LogitRounding, spread: np.ndarray
) -> np.ndarray:
    """The same for a soft maximum, heads.

    Those that leak move the mean by at most their weight times the spread, for real logits and
    for computed ones. Of more than two contenders: logits that are off by at most e count as
    handicaps, which enlarge the distance E|v - m| between the real logits and the computed ones;
    the mean moves by e times that.
    """
    maximum, spread = asked.maximum, spread.max(axis=1, initial=0.0)
    off = rounding.absolute + asked.shift
    if asked.seen == 2:
        return _pair_error(off, rounding, maximum, np.ones(off.shape, dtype=bool))
    total = up(rounding.total + asked.shift)
    rest = near_maximum(maximum, weights, spread, asked.hard)
    pair = _pair_error(off, rounding, maximum, rest.contender)
    two = (rest.contender.sum(axis=1) <= 2) & (rest.leak < 0.5 / asked.seen)  # one of them leads
    pair = np.where(two, inflate(pair + 2.0 * rest.leak * spread, 2), np.inf)
    wide = replace(maximum, handicap=maximum.handicap.widened(total))
    rest = near_maximum(wide, weights, spread, asked.hard)
    most = np.where(rest.contender, total, 0.0).max(axis=1)
    several = product_up(rest.distance, most) / maximum.slope + 2.0 * rest.leak * spread
    return np.minimum(pair, inflate(several, 3))


def _pair_error(
    off: np.ndarray, rounding: LogitRounding, maximum: MaximumHeads, contender: np.ndarray
) -> np.ndarray:
    """How far logits that are off take the soft maximum of at most two contenders.

    Let the lead y = slope d + r, d the values' difference, be computed as y', within a + s |y| of
    it. The mean moves by at most (a + s |y|) p (1 - p) |d|, with p taken in between; there
    |y| <= (|y'| + a)/(1 - s), and |d| <= (|y| + |r|)/slope. With p (1 - p) <= 1/4,
    |y| p (1 - p) <= 0.2239 and y^2 p (1 - p) <= 0.4393 that is bounded whatever the lead.
    """
    s = rounding.relative
    a = np.where(contender, off, 0.0).sum(axis=1) + rounding.exponential
    a = a * (1.0 + s)  # it is the computed lead that is rounded
    high = np.where(contender, maximum.handicap.hi, -np.inf).max(axis=1)
    low = np.where(contender, maximum.handicap.lo, np.inf).min(axis=1)
    r = np.where(high >= low, high - low, 0.0)
    linear = a * (PULL + (a + r) / 4.0) / (1.0 - s)
    square = BEND + (2.0 * a + r) * PULL + (a + r) * a / 4.0
    total = (linear + s * square / (1.0 - s) ** 2) / maximum.slope
    return np.asarray(inflate(total, 16 + 2 * off.shape[1]))


@dataclass(frozen=True, eq=False)
class MixingError:
    """At most `whole`, and at most `steady` plus `growth` times the sum of all |values|."""

    whole: np.ndarray
    steady: np.ndarray
    growth: np.ndarray


def _mixing_error(
    asked: Asked, weights: Interval, faint: np.ndarray, spread: np.ndarray
) -> MixingError:
    """What rounding does besides: to the values, to the weights, and to the sum of products.

    The n powers are added and divided by their sum, or multiplied by its reciprocal: n + 1
    roundings that all weights share or that are relative to each. With two tokens an evaluator may
    take 1 - p for the other weight, which moves the mean by n roundings of the values' difference.
    Products with k values that are not 0, and their sum, are k roundings more; and one product for
    each further block of tokens.

    Powers e_j that gain or lose d_j besides, |d_j| <= `faint`, move the mean m = sum e_j v_j / Z
    by sum d_j (v_j - m) / Z', and Z' >= 1 since the largest power is 1: by at most the sum of
    `faint` times |v_j| + |m|. Weights and products that underflow lose the smallest number each.
    Where underflow is not gradual n values may be read as 0, and n - 1 sums may vanish besides.

    Tokens with negligible weights do not count: an addition errs by no more than its smaller
    operand. Where a sum of negligible terms meets another one it errs by at most that sum, and
    these sums are disjoint: together they are at most the negligible weight.

    `growth` says the same of values that are known: both the largest of them and the difference of
    two are at most the sum of all |values|.
    """
    format, n, off = asked.format, asked.seen, asked.values.error
    most = up(weights.hi + faint)
    by_values = np.minimum(product_up(most[:, None], off).sum(axis=2), off.max(axis=2))
    size, further = asked.values.size, 1 + n // BLOCK
    largest, parts = size.max(axis=2), product_up(most[:, None], size)
    base = np.maximum(largest, spread) if n == 2 else np.minimum(largest, parts.sum(axis=2))
    counts = most > format.unit
    some = ((size > 0.0) & counts[:, None]).sum(axis=2) + counts.sum(axis=1)[:, None]
    light = np.where(counts, 0.0, most).sum(axis=1)[:, None]
    negligible = 4.0 * (light * base + np.where(counts[:, None], 0.0, parts).sum(axis=2))
    every = np.asarray(gamma(n + (size > 0.0).sum(axis=2) + further, format))
    heavy = product_up(relative(some + further, format), base) + negligible
    mixed = np.minimum(product_up(every, base), heavy)
    faintly = product_up(faint[:, None], size + base[:, :, None]).sum(axis=2)
    lost = faintly + n * format.smallest * (largest + 1.0) + 2 * n * format.flushed
    lost = np.where(largest > 0.0, lost, 0.0)
    whole = inflate(by_values + mixed + lost, 2 * n + 12)
    read = product_up(every, sum_up(off, 2))  # |computed values| are larger by their errors
    steady = inflate(by_values + read + lost, 2 * n + 12)
    return MixingError(whole, steady, every)


def _hard_error(
    asked: Asked, weights: Interval, shifted: np.ndarray, jump: np.ndarray
) -> np.ndarray:
    """The winner's value as it is; a mean only where tokens tie.

    A computed winner's logit is at most twice the error behind the best, and its value that
    divided by the slope; the jump covers handicaps, and heads that are no contests. Two tokens
    that tie get 1/2 each, exactly; c of them 1/c, which rounds unless c is a power of two.
    """
    possible = (weights.hi > 0.0)[:, None]
    undecided = ((weights.lo == 0.0) & (weights.hi > 0.0)).any(axis=1)
    behind = 2.0 * np.where(possible[:, 0], shifted, 0.0).max(axis=1) / asked.maximum.slope
    behind = np.where(undecided & asked.maximum.holds, behind, 0.0)
    off = np.where(possible, asked.values.error, 0.0)
    size = np.where(possible, asked.values.size, 0.0)
    some = (size > 0.0).sum(axis=2)
    count = possible[:, 0].sum(axis=1)[:, None]
    even = (count == 2) | (~undecided[:, None] & ((count & (count - 1)) == 0))
    roundings = np.where(even, np.maximum(some - 1, 0), some + 1)
    roundings = np.where((count == 1) | (some == 0), 0, roundings)
    tied = product_up(relative(roundings, asked.format), size.max(axis=2))
    lost = asked.format.smallest + 2.0 * asked.format.flushed
    tied = tied + lost * np.where(count > 1, some, 0)
    return np.asarray(inflate(behind[:, None] + off.max(axis=2) + tied + jump, 6))
