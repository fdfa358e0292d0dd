"""What a token asks of a group of heads in a format: logits, how far they are off, and weights.

Queries, keys and values are read off the stream; together they make the logits. Where the weights
can be follows, soft and hard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax.checker._hosts import NOTHING, ReadCharge
from hardmax.checker.rounding._format import (
    NothingKnown,
    Stored,
    Sum,
    check,
    is_point,
    may_vanish,
    moved,
    relative,
)
from hardmax.checker.rounding._maximum_heads import MaximumHeads, find_maximum_heads
from hardmax.core import HeadGroup
from hardmax.numerics import (
    FLOAT64,
    Format,
    Interval,
    down,
    exp,
    gamma,
    inflate,
    is_power_of_two,
    product_up,
    stray,
    sum_up,
    up,
)

_Place = int | slice | np.ndarray | None
Index = _Place | tuple[_Place, ...]

_TRAILING = 40.0  # logits: a token that trails another by so much only leaks
_DUST = 1e-18  # of what other tokens hold: values that count as 0, and as an error

_FAR = 700.0  # exponentials of differences are float64 up to here, and beyond, up to 9 logits


@dataclass(frozen=True, eq=False)
class Read:
    """What matrices of a group read off tokens: heads x rows x tokens."""

    value: Interval
    error: np.ndarray  # local
    off: np.ndarray  # inherited

    @classmethod
    def of(
        cls, stored: Stored, where: Interval, off: np.ndarray, heads: int, charge: ReadCharge
    ) -> Read:
        total = stored.times(where, off, charge=charge)
        shape = (heads, len(stored.matrix) // heads, where.shape[1])
        error, carried = total.error(), stored.carry(off)
        return cls(total.value.reshape(*shape), error.reshape(shape), carried.reshape(shape))

    def without_dust(self, others: np.ndarray) -> Read:
        """With 0 for values of other tokens that are next to nothing: they become errors.

        A sink holds what leaked into it. Twice its size: for the real and for the computed stream.
        """
        size = up(self.size + self.strays)
        most = size.max(axis=2, keepdims=True)
        dust = others & (size > 0.0) & (size <= _DUST * most)
        value = Interval(np.where(dust, 0.0, self.value.lo), np.where(dust, 0.0, self.value.hi))
        error = np.where(dust, inflate(2.0 * size), self.error)
        return Read(value, error, np.where(dust, 0.0, self.off))

    def __getitem__(self, key: Index) -> Read:
        return Read(self.value[key], self.error[key], self.off[key])

    @property
    def computed(self) -> Interval:
        """Where the computed numbers are."""
        return self.value.widened(self.error)

    @property
    def strays(self) -> np.ndarray:
        """How far they are from the real ones in all; rounded, but 0 only where they are equal."""
        return np.asarray(self.error + self.off)

    @property
    def size(self) -> np.ndarray:
        """The largest |computed number|."""
        return np.asarray(self.computed.magnitude)


@dataclass(frozen=True, eq=False)
class Asked:
    """What the lemmas look at when a token asks, heads (or pieces of heads) first."""

    format: Format
    hard: np.ndarray  # heads
    rounds: np.ndarray  # heads: whether the coldness is no power of two
    query: Read  # heads x key width
    keys: Read  # heads x key width x seen
    values: Read  # heads x value width x seen
    bias: Interval  # heads x seen, in logits
    bias_moved: np.ndarray
    maximum: MaximumHeads
    casts: bool = False  # whether logits come from a finer format

    @property
    def seen(self) -> int:
        return self.bias.shape[1]

    def pieces(self, owner: np.ndarray, query: Read) -> Asked:
        """The same heads with parts of their queries' ranges."""
        maximum = self.maximum
        return Asked(
            self.format,
            self.hard[owner],
            self.rounds[owner],
            query,
            self.keys[owner],
            self.values[owner],
            self.bias[owner],
            self.bias_moved[owner],
            MaximumHeads(maximum.holds[owner], maximum.slope[owner], maximum.handicap[owner]),
            self.casts,
        )

    @cached_property
    def _products(self) -> Sum:
        """The rounding of sum_k q_k k_j + bias, for the computed q and k.

        Where real terms cancel the computed ones need not, and it is their sum that is rounded.
        """
        query, keys, format = self.query[:, :, None], self.keys, self.format
        products = product_up(query.size, keys.size)
        easy = _is_easy(query) | _is_easy(keys)
        whole = (_is_easy(query) & (query.size >= 1.0)) | (_is_easy(keys) & (keys.size >= 1.0))
        some = products > 0.0
        base = format.unit * np.where(easy, 0.0, products).sum(axis=1)
        lost = format.smallest * (some & ~whole).sum(axis=1)
        if format.flushed > 0.0:
            gone = product_up(may_vanish(query.computed, query.strays, format), keys.size)
            unseen = may_vanish(keys.computed, keys.strays, format)
            gone = gone + product_up(query.size, unseen)
            lost = inflate(lost + gone.sum(axis=1), products.shape[1] + 2)
        base = inflate(base + lost, products.shape[1] + 2)
        bias = self.bias.widened(self.bias_moved)
        partial = inflate(products.sum(axis=1) + bias.magnitude, products.shape[1] + 1)
        check(format, partial)
        value = (query.computed * keys.computed).sum(1) + bias
        return Sum(format, value, base, partial, some.sum(axis=1) + (bias.magnitude > 0.0))

    @cached_property
    def best(self) -> np.ndarray:
        """A token with a large logit, for each head."""
        return np.asarray(self._products.value.middle.argmax(axis=1))

    @cached_property
    def lead(self) -> Interval:
        """Logits less one constant for each head: sum_k q_k (k_j - k_best) + bias - bias_best."""
        rows, keys = np.arange(len(self.hard)), self.keys.value
        ahead = keys - keys.middle[rows, :, self.best][:, :, None]
        bias = self.bias - Interval.point(self.bias.middle[rows, self.best][:, None])
        return (self.query.value[:, :, None] * ahead).sum(1) + bias

    @cached_property
    def away(self) -> np.ndarray:
        """How far keys are from their centre c.

        Errors e of the query and f of a key make (q + e)(k + f) - q k = e (k - c) + (q + e) f
        + e c, of which the last is common to all tokens: no softmax, no comparison sees it.
        """
        keys = self.keys.value
        centre = 0.5 * keys.lo.min(axis=2) + 0.5 * keys.hi.max(axis=2)
        return np.asarray((keys - centre[:, :, None]).magnitude)

    @cached_property
    def shift(self) -> np.ndarray:
        """How far the queries' rounding moves each logit, up to a shift of all: heads x seen."""
        return np.asarray(sum_up(product_up(self.query.error[:, :, None], self.away), 1))

    @cached_property
    def logit_error(self) -> np.ndarray:
        """How far everything else does; a cast rounds even what is exact in a finer format."""
        keys = product_up(self.query.size[:, :, None], self.keys.error).sum(axis=1)
        total = keys + self._products.error() + self.bias_moved
        total = inflate(total, self.query.value.shape[1] + 2)
        cast = stray(1, up(self._products.value.magnitude + total), self.format)
        return np.asarray(inflate(total + cast, 1) if self.casts else total)

    @cached_property
    def key_off(self) -> np.ndarray:
        """How far inherited deviations of the keys move each logit."""
        moves = product_up(self.query.value.magnitude[:, :, None], self.keys.off)
        return np.asarray(sum_up(moves, 1))


def _is_easy(read: Read) -> np.ndarray:
    """Constants that are powers of two: a product with them rounds nothing."""
    return np.asarray(is_point(read.value) & (read.error == 0.0) & is_power_of_two(read.value.lo))


class Heads:
    """A group of heads whose weights are stored in a format, before a given stream.

    The coldness is multiplied into the query weights, and that product is rounded.
    """

    def __init__(
        self,
        group: HeadGroup,
        format: Format,
        where: Interval,
        off: np.ndarray,
        charge: ReadCharge = NOTHING,
        turned: ReadCharge = NOTHING,
        *,
        casts: bool = False,
    ) -> None:
        self.group, self.format, self.where, self.off = group, format, where, off
        self.charge, self.casts = charge, casts
        heads, key_width, width = group.query.shape
        self.hard = np.isinf(group.coldness)
        self.cold = np.where(self.hard, 1.0, group.coldness)
        rows = np.repeat(self.cold, key_width)
        self.query = Stored.scaled(group.query.reshape(-1, width), rows, format)
        self.plain = Stored.of(group.query.reshape(-1, width), format)
        self.key = Stored.of(group.key.reshape(-1, width), format)
        self.value = Stored.of(group.value.reshape(-1, width), format)
        self.keys = Read.of(self.key, where, off, heads, turned)
        self.values = Read.of(self.value, where, off, heads, charge)
        self._looked: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    @property
    def read_values(self) -> np.ndarray:
        """(Heads and their values) x width."""
        return self.group.value.reshape(-1, self.group.value.shape[2])

    def visible(self, t: int) -> np.ndarray:
        return np.arange(t + 1 if self.group.causal else self.where.shape[1])

    def seen_by(self, t: int) -> np.ndarray:
        """The tokens that are looked at when token t asks: those that trail are left out."""
        return self._looks(t)[0]

    def asked_by(self, t: int) -> Asked:
        """Everything that the lemmas look at when token t asks."""
        seen, leak = self._looks(t)
        asked = self._asked(t, seen)
        if not leak.any():
            return asked
        error = up(asked.values.error + leak[:, None, None])
        return replace(asked, values=replace(asked.values, error=error))

    def _asked(self, t: int, seen: np.ndarray) -> Asked:
        heads = len(self.hard)
        here, off = self.where[:, [t]], self.off[:, [t]]
        query = Read.of(self.query, here, off, heads, self.charge)[:, :, 0]
        keys, values = self.keys[:, :, seen], self.values[:, :, seen]
        if self.group.position_bias is not None:
            values = values.without_dust(seen != t)
        plain = self.plain.times(here, off).value.reshape(heads, -1)
        maximum = find_maximum_heads(
            self.group, self.cold, self.where, self.off, t, seen, plain, keys.value, values
        )
        rounds = ~is_power_of_two(self.cold)
        bias, off = self._bias(t, seen)
        parts = query, keys, values, bias, off, maximum
        return Asked(self.format, self.hard, rounds, *parts, self.casts)

    def _looks(self, t: int) -> tuple[np.ndarray, np.ndarray]:
        if t not in self._looked:
            self._looked[t] = self._not_trailing(t, self.visible(t))
        return self._looked[t]

    def _not_trailing(self, t: int, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens that count, and heads: what leaving out the others may move a mean by.

        Where two tokens have equal keys, which no rounding touches, their logits differ by their
        biases, whatever is asked and held. One that trails by b has at most e^-b of the weight,
        for real and, but for the rounding of both logits, for computed streams; a hard head never
        takes it. Four times that of the values' spread: for both streams, for what the real mean
        moves between them, and for the mean of the rest. All heads of a group must agree.
        """
        group, nothing = self.group, np.zeros(len(self.hard))
        if group.position_bias is None or not group.key.shape[1] or len(seen) < 2:
            return seen, nothing
        asked = self._asked(t, seen)
        keys = asked.keys
        known = is_point(keys.value) & (keys.error == 0.0) & (keys.off == 0.0)
        known = known.all(axis=(0, 1))
        equal = (keys.value.lo[..., None] == keys.value.lo[..., None, :]).all(axis=(0, 1))
        equal &= known & known[:, None]
        ahead = asked.bias.lo[:, None, :] - asked.bias.hi[:, :, None]
        ahead = np.where(equal, ahead, 0.0).max(axis=2)
        off = up(asked.logit_error + asked.shift).max(axis=1, keepdims=True)
        slack = np.where(self.hard, 0.0, 1.0)[:, None]  # what an exponential may be off by
        behind = down(down(ahead) - inflate(4.0 * off + slack, 4))
        trails = (behind > np.where(self.hard, 0.0, _TRAILING)[:, None]).all(axis=0)
        if not trails.any():
            return seen, nothing
        count = int(trails.sum())
        powers = np.where(trails, exp(Interval.point(-behind)).hi, 0.0)
        gone = sum_up(powers, 1) + count * (self.format.vanished + self.format.smallest)
        sizes = (asked.values.size + asked.values.strays).max(axis=(1, 2))
        leak = np.where(self.hard, 0.0, 4.0 * gone * 2.0 * sizes)
        return seen[~trails], np.asarray(inflate(leak, 4))

    def _bias(self, t: int, seen: np.ndarray) -> tuple[Interval, np.ndarray]:
        """The position bias in logits, and by how much the stored one is off.

        It may have been rounded before the coldness was multiplied in, or after, or both times.
        """
        if self.group.position_bias is None:
            nothing = np.zeros((len(self.hard), len(seen)))
            return Interval.point(nothing), nothing
        given = self.group.position_bias[:, t][:, seen]
        with np.errstate(over="ignore", under="ignore"):
            bias = given * self.cold[:, None]
        check(self.format, np.abs(bias))
        one = (self.cold == 1.0)[:, None]
        real = Interval.point(given) * Interval.point(self.cold[:, None])
        real = Interval(np.where(one, given, real.lo), np.where(one, given, real.hi))
        before = product_up(moved(given, self.format), self.cold[:, None])
        after = stray(1, up(np.abs(bias) + before), self.format)
        off = np.maximum(moved(bias, self.format), before) + np.where(one, 0.0, after)
        return real, np.asarray(inflate(off, 1))


# ---- weights -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class LogitRounding:
    """How far computed logits are off, besides what the queries' rounding does.

    By `absolute`, and all but the largest by `exponential` and by the share `relative` of `below`,
    which is how far they are below the largest.
    """

    absolute: np.ndarray  # heads x seen
    exponential: np.ndarray  # heads
    relative: np.ndarray  # heads
    below: np.ndarray  # heads x seen
    faint: np.ndarray  # heads x seen: what powers gain or lose besides, the largest being 1

    @property
    def total(self) -> np.ndarray:
        losing = self.exponential[:, None] + self.relative[:, None] * self.below
        return inflate(self.absolute + losing, 3)


def with_softmax(asked: Asked) -> LogitRounding:
    """The rounding of the logits, the exponential's error counted as one of its logit.

    Subtracting the maximum rounds the difference once. Evaluators may multiply by the coldness
    last, or, with two tokens, take the differences of the keys before the sum over the key width:
    once or twice more. And exp(x)(1 + r) is exp(x + log(1 + r)). The largest logit becomes 0, and
    exp(0) is 1, without error. Where a power may be subnormal it loses the smallest number, too,
    and where its logit may lie below the edge of the format's exp, it may vanish. A hard head
    compares logits as they are.
    """
    lead, error, format = asked.lead, asked.logit_error, asked.format
    below = lead.hi.max(axis=1, keepdims=True) - lead.lo
    if asked.seen == 2:
        apart = (asked.keys.value[:, :, 1] - asked.keys.value[:, :, 0]).magnitude
        apart = inflate(apart + asked.keys.error.sum(axis=2), 2)
        below = np.maximum(below, sum_up(product_up(asked.query.size, apart), 1)[:, None])
    below = inflate(below + 2.0 * (error + asked.shift).max(axis=1, keepdims=True), 3)
    roundings = relative(np.where(asked.rounds, 3.0, 2.0), format)
    lowest = inflate(below * (1.0 + roundings[:, None]), 2)
    vanishing = np.where(lowest > -format.exp_vanishes, format.vanished, 0.0)
    return LogitRounding(
        error,
        np.where(asked.hard, 0.0, relative(format.power_units(asked.seen), format)),
        np.where(asked.hard, 0.0, roundings),
        below,
        up(vanishing + format.smallest),
    )


def weights_of(asked: Asked, shifted: np.ndarray) -> Interval:
    """Where the weights are, for real and for computed logits; 0 is 0, and 1 is 1."""
    around = asked.lead.widened(shifted)
    if not np.isfinite(around.magnitude).all():
        raise NothingKnown
    soft = weight_ranges(around)
    if not asked.hard.any():
        return soft
    floor = around.lo.max(axis=1, keepdims=True)
    winners = around.hi >= floor
    equal = is_point(asked.lead) & (shifted == 0.0) & (asked.lead.lo == floor)
    exact = (equal | ~winners).all(axis=1, keepdims=True)
    count = winners.sum(axis=1, keepdims=True)
    share = np.where(winners, 1.0 / count, 0.0)
    rounds = (count & (count - 1)) != 0  # unless it is a power of two
    decided = exact | (count == 1)
    lo = np.where(decided, np.where(rounds, down(share), share), 0.0)
    hi = np.where(rounds, up(share), share)
    hi = np.where(decided, hi, np.where(winners, 1.0, 0.0))
    hard = asked.hard[:, None]
    return Interval(np.where(hard, lo, soft.lo), np.where(hard, hi, soft.hi))


def weight_ranges(lead: Interval) -> Interval:
    """p_j = 1/(1 + sum_(i != j) exp(l_i - l_j)) over the last axis, every l in its interval.

    Largest with the own logit high and all others low. The sum over the others leaves out the
    largest term where that is the own one, and is at least that term elsewhere, so that it errs by
    2 n roundings. A difference d is rounded by u |d|, which counts as |d| roundings of its
    exponential; two of them meet, and differences are cut off at 700, where it is too late to
    matter: what is left of the own one is less than 9 logits from there.
    """
    roundings = 2 * lead.shape[-1] + 2 * (int(_FAR) + 50 + FLOAT64.exp_units) + 8
    slack = gamma(roundings)

    def odds(others: np.ndarray, own: np.ndarray) -> np.ndarray:
        top = others.argmax(axis=-1)[..., None]
        best = np.take_along_axis(others, top, axis=-1)
        powers = np.exp(others - best)
        np.put_along_axis(powers, top, 0.0, axis=-1)
        beyond = powers.sum(axis=-1, keepdims=True)
        total = 1.0 + np.maximum(beyond - powers, 0.0)
        np.put_along_axis(total, top, beyond, axis=-1)
        return np.asarray(np.exp(np.clip(best - own, -_FAR - 45.0, _FAR)) * total)

    with np.errstate(under="ignore", over="ignore"):
        most = up(1.0 / down(1.0 + odds(lead.lo, lead.hi) * (1.0 - slack)))
        least = down(1.0 / up(1.0 + odds(lead.hi, lead.lo) * (1.0 + slack)))
    cut = lead.lo - lead.hi.max(axis=-1, keepdims=True) < 10.0 - _FAR
    return Interval(np.where(cut, 0.0, least), np.minimum(most, 1.0))
