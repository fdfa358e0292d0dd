"""What one group of heads does to ranges and deviations: the lemmas behind `follow`.

Four lemmas, tried in this order for each head and each asking token:

1. *Constant scores.* Query and keys do not depend on the input: the head is a linear map.
2. *Contest.* Score differences are alpha times value differences: the head takes a maximum,
   and a softmax of coldness beta falls short of it by at most c_n/(alpha beta) (`softmax_gap`).
3. *Selection.* One token's score is ahead of all others by a gap: its value is taken, and a
   softmax leaks at most (n-1) e^(-beta gap) of the spread of the values.
4. *Anything else.* A weighted mean lies in the hull of the values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hardmax.analysis._affine_rounding import faint_stray
from hardmax.analysis._constant_scores import constant_scores, known_weights, mixing_stray
from hardmax.analysis._contests import (
    Alone,
    Contest,
    alone,
    find_contest,
    maximum,
    outline_of_contest,
)
from hardmax.analysis._noises import NoiseCounter
from hardmax.analysis._outlines import Outline, SizesOfSums, stacked, with_own_noises
from hardmax.analysis._own import OwnFactors, own_factors, without_own
from hardmax.analysis._places import Place, stack_places
from hardmax.analysis._question import Asking, HeadFlow, Projected, with_difference
from hardmax.analysis._routing import hull_of_values, selection
from hardmax.analysis._scaling import (
    factor_in_place,
    from_others,
    mean_of_values,
    weight_ranges,
)
from hardmax.core import HeadGroup
from hardmax.numerics import Format, Interval, inflate, matmul_up, product_up


@dataclass(frozen=True, eq=False)
class GroupFlow:
    """What a group of heads adds to the stream."""

    change: Place  # tokens x width
    outline: Outline | None  # of the reference's change, likewise
    size: np.ndarray  # tokens x width: sum of |terms|, for rounding ...
    sizes: SizesOfSums | None  # ... those of the reference, by outlines, ...
    moved: np.ndarray  # ... and of what they move by
    heads: list[HeadFlow]
    alone_at: np.ndarray  # tokens where a coordinate has this head as its only writer ...
    alone_rows: np.ndarray  # ... those coordinates ...
    alone: Place  # ... the tighter place of the sum there ...
    copied: np.ndarray  # ... and the noise that stands for copies, too
    scaling: Interval  # tokens x width: x is multiplied by 1 + this in place ...
    scaled: tuple[Interval, Interval]  # ... which is this part of the change's lower and upper ends
    own: OwnFactors  # what heads with constant scores make of x, which the change leaves out


def follow_group(
    place: Place,
    group: HeadGroup,
    coldness: np.ndarray,
    writers: np.ndarray,
    format: Format,
    noises: NoiseCounter | None,
    against_skeleton: bool,
    asking_tokens: Collection[int],
    needed_tokens: Collection[int],
    base: HeadGroup | None = None,
) -> GroupFlow:
    """Ask the group from the given tokens and add up what its heads write there.

    `base` is the group of the reference, equal but for constants that routing heads write.

    The largest logit is that of the needed tokens, on whose questions the answer depends.

    With `noises`, the shortfall of every soft maximum becomes a noise of its own.
    """
    flows = [HeadFlow() for _ in range(group.query.shape[0])]
    alike = base is None or all(
        np.array_equal(own, other)
        for own, other in ((group.value, base.value), (group.output, base.output))
    )
    assert alike or not group.key.shape[1], "only heads without keys may have other constants"
    stream = Projected(place, group, coldness, format, base)
    answers = []
    for t in range(place.range.shape[0]):
        asking = stream.asked_by(t, against_skeleton)
        _note_logits(asking, flows, counts=t in needed_tokens)
        if t in asking_tokens:
            answers.append(_answered(asking, flows, writers, noises))
        else:
            answers.append(TokenFlow.nothing(group.query.shape[2]))
    return GroupFlow(
        stack_places([a.change for a in answers]),
        _stacked_outlines([a.outline for a in answers]),
        np.stack([a.size for a in answers]),
        _stacked_sizes([a.sizes for a in answers]),
        np.stack([a.moved for a in answers]),
        flows,
        np.concatenate([np.full(len(a.alone.rows), t) for t, a in enumerate(answers)]).astype(int),
        np.concatenate([a.alone.rows for a in answers]),
        stack_places([a.alone.place for a in answers], join=np.concatenate),
        np.concatenate([a.alone.copied for a in answers]),
        _stacked([a.scaling for a in answers]),
        (_stacked([a.scaled[0] for a in answers]), _stacked([a.scaled[1] for a in answers])),
        OwnFactors.stacked([a.own for a in answers]),
    )


@dataclass(frozen=True, eq=False)
class TokenFlow:
    """What a group of heads adds to one token: as in `GroupFlow`, without the tokens."""

    change: Place
    outline: Outline | None
    size: np.ndarray
    sizes: SizesOfSums | None
    moved: np.ndarray
    alone: Alone
    scaling: Interval
    scaled: tuple[Interval, Interval]
    own: OwnFactors

    @classmethod
    def nothing(cls, width: int) -> TokenFlow:
        zero = np.zeros(width)
        scaling = Interval.point(zero)
        return cls(
            Place.zero((width,)),
            Outline.of(scaling),
            zero,
            SizesOfSums(Outline.of(scaling), zero),
            zero,
            Alone.nothing(),
            scaling,
            (scaling, scaling),
            OwnFactors.none(width),
        )


def _answered(
    asking: Asking, flows: list[HeadFlow], writers: np.ndarray, noises: NoiseCounter | None
) -> TokenFlow:
    """What the token that asks receives."""
    width = asking.group.query.shape[2]
    joined, base = (
        group.output.transpose(1, 0, 2).reshape(width, -1) for group in (asking.group, asking.base)
    )
    mixed, contest, outline, own = _mix(asking, flows)
    lone = alone(asking, contest, writers, noises)
    deviation = mixed.deviation
    if noises is not None:
        written = (asking.group.output != 0.0).any(axis=2).sum(axis=1)
        elsewhere = written > np.bincount(lone.heads, minlength=len(written))
        makes_noise = contest.holds & np.isfinite(asking.coldness) & elsewhere
        where = np.broadcast_to(makes_noise[:, None], mixed.range.shape)
        deviation = deviation.with_noises(where, noises)
    flat = Place(mixed.range.reshape(-1), deviation.reshape(-1))
    sizes = np.minimum(flat.where.magnitude, asking.value_size.reshape(-1))  # of what is mixed
    faint = np.zeros(width) + faint_stray(joined, sizes, asking.format)
    kept = own.size * asking.place.close.magnitude[asking.t]
    more = 0.0 if joined is base else matmul_up(np.abs(joined - base), sizes)
    return TokenFlow(
        Place(
            base @ flat.range,
            with_difference(joined @ flat.deviation, joined, base, flat.range),
        ).strayed(faint),
        outline and base @ outline.reshape(-1),
        inflate(matmul_up(np.abs(joined), sizes) + kept, 2),
        None if outline is None else SizesOfSums.of(base, outline.reshape(-1), flat.range),
        inflate(matmul_up(np.abs(joined), flat.deviation.magnitude) + more + kept, 3),
        lone,
        *_scaling(asking, contest, mixed.range, width),
        own,
    )


def _stacked_sizes(sizes: list[SizesOfSums | None]) -> SizesOfSums | None:
    known = [size for size in sizes if size is not None]
    return SizesOfSums.stacked(known) if len(known) == len(sizes) else None


def _stacked(rows: list[Interval]) -> Interval:
    return Interval(np.stack([row.lo for row in rows]), np.stack([row.hi for row in rows]))


def _scaling(
    asking: Asking, contest: Contest, mixed: Interval, width: int
) -> tuple[Interval, tuple[Interval, Interval]]:
    """What the heads add to the factor of each coordinate, and to the ends of its change.

    A head's mixed value m is p v + o, with o from the other tokens. Its part of the change's ends
    is w times the ends of m; what is left there when w p v moves into the factor is w times the
    ends of o.
    """
    factor = [Interval.point(0.0)] * width
    ends = [[Interval.point(0.0)] * width for _ in range(2)]
    if not asking.against_skeleton:
        at, share = factor_in_place(asking, weight_ranges(asking))
        others = from_others(asking)
        for h in np.flatnonzero((at >= 0) & ~contest.holds & ~asking.constant):
            weight = asking.group.output[h, at[h], 0]
            low = weight * (Interval.point(mixed.lo[h, 0]) - others.lo[h])
            high = weight * (Interval.point(mixed.hi[h, 0]) - others.hi[h])
            first, second = (low, high) if weight > 0 else (high, low)
            factor[at[h]] += share[h]
            ends[0][at[h]] += first
            ends[1][at[h]] += second
    return _stacked(factor), (_stacked(ends[0]), _stacked(ends[1]))


def _stacked_outlines(outlines: list[Outline | None]) -> Outline | None:
    known = [outline for outline in outlines if outline is not None]
    return stacked(known, axis=0) if len(known) == len(outlines) else None


def _mix(
    asking: Asking, flows: list[HeadFlow]
) -> tuple[Place, Contest, Outline | None, OwnFactors]:
    """The mixed value of every head, by the first lemma that applies.

    Where scores are constants the first lemma says it all; most groups of large networks have
    either only such heads or none, and what the others would say is not asked for then.
    """
    linear, own, strayed = _by_constants(asking, flows)
    if linear is not None and asking.constant.all() and asking.against_skeleton:
        for flow in flows:
            flow.lemmas.add("constant")
        outline = linear.outline and with_own_noises(linear.outline)
        return linear.strayed(strayed), Contest.none(asking), outline, own
    contest = find_contest(asking)
    mixed = _by_other_lemmas(asking, contest, linear, flows)
    return mixed.strayed(strayed), contest, _outline(asking, contest, mixed, linear), own


def _by_constants(
    asking: Asking, flows: list[HeadFlow]
) -> tuple[Place | None, OwnFactors, np.ndarray]:
    """What heads with constant scores mix, and how far rounding moves what any head mixes."""
    strayed = asking.value_stray[:, None]
    if not asking.constant.any():
        return None, OwnFactors.none(asking.group.query.shape[2]), strayed
    weights = known_weights(asking, flows)
    taken, own = own_factors(asking, weights)
    if asking.group.position_bias is not None:
        by_weights = mixing_stray(asking, weights)
        strayed = np.where(asking.constant[:, None], by_weights, strayed)
    return constant_scores(asking, weights, *without_own(asking, taken)), own, strayed


def _by_other_lemmas(
    asking: Asking, contest: Contest, linear: Place | None, flows: list[HeadFlow]
) -> Place:
    """The last lemma is tried first, and overruled."""
    ahead, selected = selection(asking)
    maxima = maximum(asking.values[:, 0, :], contest, asking.against_skeleton)
    mixed = hull = hull_of_values(asking)
    name = np.full(len(flows), "hull", dtype=object)
    for lemma, applies, result in (
        ("selection", ahead, selected),
        ("contest", contest.holds, maxima[:, None]),
        ("constant", asking.constant, linear),
    ):
        if result is not None:
            mixed = mixed.overruled(applies[:, None], result)
            name[applies] = lemma
    for flow, lemma in zip(flows, name, strict=True):
        flow.lemmas.add(lemma)
    if not asking.against_skeleton:
        mean = mean_of_values(asking, weight_ranges(asking))
        narrower = hull.deviation.width < mixed.deviation.width
        mixed = Place(mixed.range.meet(mean), mixed.deviation.overruled(narrower, hull.deviation))
    return mixed


def _outline(
    asking: Asking, contest: Contest, mixed: Place, linear: Place | None
) -> Outline | None:
    """What the heads mix, as forms of the inputs: maxima and means; the others by their ranges."""
    if asking.outline is None:
        return None
    nowhere = np.ones(mixed.range.shape, dtype=bool)  # are the values' own forms kept
    outline = asking.outline[:, :, 0].overruled(nowhere, Outline.of(mixed.range))
    if contest.holds.any():  # that looks at every pair of tokens
        highest = outline_of_contest(asking, contest)[:, None]
        outline = outline.overruled(contest.holds[:, None], highest)
    if linear is not None and linear.outline is not None:
        outline = outline.overruled(asking.constant[:, None], linear.outline)
    return with_own_noises(outline)


def _note_logits(asking: Asking, flows: list[HeadFlow], *, counts: bool) -> None:
    radius = asking.radius
    for h, flow in enumerate(flows):
        coldness = asking.coldness[h] if np.isfinite(asking.coldness[h]) else 1.0
        flow.radius = max(flow.radius, float(radius[h]))
        logit = float(product_up(coldness, radius[h]))
        flow.largest_logit = max(flow.largest_logit, logit if counts else 0.0)
        flow.constant &= bool(asking.constant[h])
