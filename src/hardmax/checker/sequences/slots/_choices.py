"""Whom a head attends to, for all words of one length at once.

For every asking token and every value of the slots that its query depends on, and for every token
asked and every value of the slots that its key depends on, there is a score. Every token asked has
at least the smallest of its scores; so the largest of these is a floor, and only pairs above it can
win. What is left is one token, a tie, or a contest whose winner is a *max* slot of the word.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, charge
from hardmax.checker.sequences._axes import Axes, aligned
from hardmax.checker.sequences._layers import tidied
from hardmax.checker.sequences._scores import (
    Asks,
    is_hard,
    power_error,
    score_radius,
    seen_pairs,
    underflow,
)
from hardmax.checker.sequences._stream import Stream, TooLarge, strays
from hardmax.checker.sequences.slots._slots import Slots, Top
from hardmax.core import Head
from hardmax.numerics import Format, down, inflate, stray, up

_SAME_LOGIT = 2.0**-16  # logits that agree to so much are one level
LARGEST_CHOICE = 2**23  # pairs of an asking token with its slots and a token asked with its slots


@dataclass(frozen=True, eq=False)
class Choice:
    """The winners, given the asking token's slots: a max slot among them if there is a contest.

    `winners` has an axis for the asking token, for each slot in `asking`, for the token asked, and
    for each slot in `asked`. Where `clear` (asking token x slots) is False, all that is known is
    that some of the winners win. Others together have at most the weight `leak`, and at most the
    weight `tilt` is not shared equally among the winners; both 0 in hard heads.
    """

    asking: Axes
    asked: Axes
    winners: np.ndarray
    clear: np.ndarray
    leak: np.ndarray
    tilt: np.ndarray

    @property
    def by_token(self) -> np.ndarray:
        """Which tokens may be among the winners: asking token x slots x token asked."""
        inner = tuple(range(2 + len(self.asking), self.winners.ndim))
        return np.asarray(self.winners.any(axis=inner))


@dataclass(frozen=True, eq=False)
class AsRead:
    """A stream as queries and values read it, and as keys do: that is the larger one."""

    stream: Stream
    keyed: Stream

    def asked(self, head: Head, format: Format) -> Iterator[Stream]:
        """Queries and keys, one after the other: often the queries tell enough."""
        yield self.stream.affine(head.query, None, format)
        yield self.keyed.affine(head.key, None, format)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Scores with their radii: asking token, its slots, token asked, its slots."""

    asking: Axes
    asked: Axes
    middle: np.ndarray
    radius: np.ndarray  # the same, but with one value for all slots
    visible: np.ndarray  # likewise

    @property
    def inner(self) -> tuple[int, ...]:
        """The axes of the slots of the token asked."""
        return tuple(range(2 + len(self.asking), self.middle.ndim))

    @property
    def others(self) -> tuple[int, ...]:
        """The axis of the token asked, and those of its slots."""
        return (1 + len(self.asking), *self.inner)

    @cached_property
    def reach(self) -> np.ndarray:
        """The radius, and the rounding of adding it."""
        slots = (*range(1, 1 + len(self.asking)), *self.inner)
        size = np.abs(self.middle).max(axis=slots, keepdims=True)
        return np.where(self.radius > 0.0, up(self.radius + stray(2, size)), 0.0)

    @cached_property
    def low(self) -> np.ndarray:
        return self.middle - self.reach if self.reach.any() else self.middle

    @cached_property
    def high(self) -> np.ndarray:
        return self.middle + self.reach if self.reach.any() else self.middle


def choose(read: AsRead, head: Head, slots: Slots, format: Format) -> Choice:
    """Who wins; nothing about the values yet.

    Scores less than four radii apart are one level. So a token of a lower level has a lower score
    than every token of the level that wins, whatever the rounding: in a hard head the winners are
    tokens of that level, and all of them if the scores are known exactly. In a soft head any
    grouping is sound, for what it leaves out is counted as leak or tilt.
    """
    scores = _scores(read, head, slots, format)
    lowest = np.where(scores.visible, scores.low, np.inf).min(axis=scores.inner)
    lowest = np.where(np.isposinf(lowest), -np.inf, lowest)
    floor = lowest.max(axis=-1).reshape(*lowest.shape[:-1], *[1] * len(scores.others))
    able = scores.visible & (scores.high >= floor)
    alone = np.asarray(able.any(axis=scores.inner)).sum(axis=-1) == 1
    loose = np.where(able, scores.reach, 0.0).max(axis=scores.others)
    same = 4 * loose if is_hard(head) else 4 * loose + _SAME_LOGIT
    entered = np.where(able, scores.middle, -np.inf)
    bottom = np.where(able, scores.middle, np.inf).min(axis=scores.others)
    contest = entered.max(axis=scores.others) > bottom + same
    contest &= (contest & ~alone).any()
    entered = np.where(contest.reshape(floor.shape), entered, 0.0)
    ranking = _ranked(scores, able, entered, same, slots)
    if not is_hard(head):
        return _softened(ranking, scores, alone, format)
    clear = aligned(alone | (loose == 0.0), scores.asking, ranking.choice.asking)
    return replace(ranking.choice, clear=np.broadcast_to(clear, ranking.choice.clear.shape))


def _scores(read: AsRead, head: Head, slots: Slots, format: Format) -> _Scores:
    query, key = (tidied(part) for part in read.asked(head, format))
    (q, rq), (k, rk) = query.joined(), key.joined()
    n, width = slots.tokens, head.key_width
    shape = (*q.shape[:-1], *k.shape[:-1])
    if np.prod(shape, dtype=float) > LARGEST_CHOICE:
        raise TooLarge(f"A head compares tables of shape {shape}.")
    asking, asked = int(np.prod(q.shape[:-1])), int(np.prod(k.shape[:-1]))
    middle = (q.reshape(asking, width) @ k.reshape(asked, width).T).reshape(shape)
    pairs = (n, *[1] * (q.ndim - 2), n, *[1] * (k.ndim - 2))
    if head.position_bias is not None:
        middle = middle + head.position_bias[:n, :n].reshape(pairs)
    sides = [
        Asks(np.abs(a).max(axis=inner), r.max(axis=inner), part.grid)
        for a, r, part in ((q, rq, query), (k, rk, key))
        for inner in [tuple(range(1, a.ndim - 1))]
    ]
    radius = score_radius(sides[0], sides[1], read.keyed.magnitude, head, format)
    middle = middle * (1.0 if is_hard(head) else head.coldness)
    middle = slots.settled(middle, query.axes, key.axes)
    seen = seen_pairs(head, n).reshape(pairs)
    return _Scores(query.axes, key.axes, middle, radius.reshape(pairs), seen)


def fixed_scores(
    read: AsRead, head: Head, slots: Slots, format: Format
) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Logits, radii and visibility, asking token x token asked, if no slot matters for them."""
    sides = (tidied(part) for part in read.asked(head, format))
    if any(side.axes for side in sides):
        return None
    scores = _scores(read, head, slots, format)
    return scores.middle, np.broadcast_to(scores.radius, scores.middle.shape), scores.visible


def check_scores(read: AsRead, head: Head, format: Format) -> None:
    """Refuse scores that may overflow: whoever wins, there are no weights then."""
    query, key = read.asked(head, format)
    sides = [Asks(part.magnitude, 0.0 * part.magnitude, part.grid) for part in (query, key)]
    score_radius(sides[0], sides[1], read.keyed.magnitude, head, format)


class _Ranking(NamedTuple):
    """The winners, and which pairs would have a rank above theirs, so that no token holds them."""

    choice: Choice
    above: np.ndarray


def _ranked(
    scores: _Scores, able: np.ndarray, entered: np.ndarray, same: np.ndarray, slots: Slots
) -> _Ranking:
    """One row per asking token and slots, with those that say which rank wins among them."""
    asking, asked = scores.asking, scores.asked
    if entered.any():
        top = slots.max(asking, asked, entered, same)
    else:
        nothing = np.zeros((slots.tokens, *slots.sizes(asking)), dtype=np.int64)
        top = Top(asking, nothing, np.zeros(able.shape, dtype=np.int64))
    if float(top.winning.size) * slots.tokens * np.prod(slots.sizes(asked)) > LARGEST_CHOICE:
        raise TooLarge(f"A contest has cases {top.winning.shape}.")
    winning = top.winning.reshape(*top.winning.shape, *[1] * len(scores.others))
    charge(
        16 * CALL + 8 * ENTRY * slots.tokens * int(np.prod(slots.sizes(asked))), top.winning.size
    )
    pairs, rank = (aligned(part, asking, top.axes) for part in (able, top.ranks))
    winners, above = pairs & (rank == winning), pairs & (rank > winning)
    none = np.zeros(top.winning.shape)
    choice = Choice(top.axes, asked, winners, none == 0.0, none, none)
    return _Ranking(choice, above)


def _gaps(ranking: _Ranking, scores: _Scores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By how much each token asked, if it does not win, trails: token, slots, token asked.

    Infinite where it wins in any case. Also the lowest and the highest score of a winner.
    """
    choice = ranking.choice
    charge(24 * CALL + 24 * ENTRY * choice.winners.size)
    outer = 1 + len(choice.asking)
    inner = tuple(range(outer + 1, choice.winners.ndim))
    low, high = (aligned(x, scores.asking, choice.asking) for x in (scores.low, scores.high))
    visible = np.broadcast_to(scores.visible, scores.middle.shape)
    rivals = aligned(visible, scores.asking, choice.asking)
    least = np.where(choice.winners, low, np.inf).min(axis=(outer, *inner))
    most = np.where(choice.winners, high, -np.inf).max(axis=(outer, *inner))
    behind = rivals & ~choice.winners & ~ranking.above
    trailing = np.where(behind, high, -np.inf).max(axis=inner)
    with np.errstate(invalid="ignore"):
        gap = down(least[..., None] - trailing)
    return np.where(np.isneginf(trailing), np.inf, gap), least, most


def _softened(ranking: _Ranking, scores: _Scores, alone: np.ndarray, format: Format) -> Choice:
    """How much weight a softmax gives to others than the winners, and how it tilts a tie.

    Some winner has at least the lowest logit that a winner can have; token j, if it is none, trails
    it by gap_j, so all others together have at most X/(1 + X), X = sum_j exp(-gap_j).

    If the logits of a tie lie within a of each other, the share p of the winners that has too much
    weight has at most p e^a/(p e^a + 1 - p), which exceeds p by at most tanh(a/4), namely for
    p = 1/(1 + e^(a/2)); so much weight is tilted. In floats a difference of logits is rounded once
    more, and a power is off by a factor 1 + r: of two of them (1 + r)/(1 - r) <= e^(3 r) is left.
    """
    gap, least, most = _gaps(ranking, scores)
    some = np.isfinite(least)
    alone = aligned(alone, scores.asking, ranking.choice.asking)
    factor, faint = power_error(gap.shape[-1], format), underflow(format)
    with np.errstate(invalid="ignore", under="ignore", over="ignore"):
        ratio = np.exp(strays(4, gap, format) - gap) * (1 + factor) + faint
        ratio = np.where(gap > 0.0, np.where(np.isinf(gap), 0.0, ratio), np.inf)
        odds = ratio.sum(axis=-1)
        leak = np.where(np.isinf(odds), 1.0, odds / (1 + odds))
        apart = most - least
        apart = apart + strays(4, apart, format) + 3 * (factor + faint)
        even = alone | (most == least)  # exp(0) is 1, in every format
        tilt = np.where(even, 0.0, np.tanh(0.25 * apart))
    leak, tilt = (np.where(some, inflate(x, gap.shape[-1] + 16), 0.0) for x in (leak, tilt))
    return replace(ranking.choice, leak=leak, tilt=tilt)
