"""Heads whose scores are their values: they take a maximum, and softly almost so."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.analysis._deviations import Deviation, deviation_of_maximum
from hardmax.analysis._noises import NoiseCounter
from hardmax.analysis._outlines import Outline, outline_of_maximum
from hardmax.analysis._places import Place
from hardmax.analysis._question import Asking
from hardmax.numerics import (
    Interval,
    exp,
    inflate,
    is_coarse,
    is_power_of_two,
    line_with_kink,
    matmul_up,
    product_up,
    softmax_gap,
    stray,
)

_LEAKED = 1e-18  # of what the asking token holds: what a sink may hold of others
NEGLIGIBLE = 40.0  # a token whose logit is this far behind counts as leakage, not as contender


@dataclass(frozen=True, eq=False)
class Contest:
    """Heads that take a maximum of their values, as seen from one token."""

    holds: np.ndarray  # heads: the lemma applies
    contender: np.ndarray  # heads x seen: may win
    shortfall: np.ndarray  # heads: c_n / (alpha beta)
    stray: np.ndarray  # heads: leakage and rounding, downwards ...
    lift: np.ndarray  # ... and upwards
    blur: np.ndarray  # heads: by how much the reference itself may miss its maximum
    lipschitz: np.ndarray  # heads: of the soft maximum in its values

    @classmethod
    def none(cls, asking: Asking) -> Contest:
        """No head is one."""
        heads, seen = asking.scores.shape
        zero = np.zeros(heads)
        return cls(
            np.zeros(heads, dtype=bool),
            np.zeros((heads, seen), dtype=bool),
            zero,
            zero,
            zero,
            zero,
            np.ones(heads),
        )


def find_contest(asking: Asking) -> Contest:
    """Decide which heads are contests, and by how much each can fall short of its maximum.

    Let the score of token j be alpha (V_j + r_j) up to a term common to all j, with V_j the value.
    Tokens with the largest r are *genuine*; what their r differ by is a perturbation of the
    logits. A token with smaller r is *handicapped*: it must lose by a gap, and only leaks.

    Lemma (perturbed logits). If the logits lie within d of beta' V_j, beta' = alpha beta, the mean
    lies in [max V - (c_n + 2 d)/beta', max V]. Proof: put V'_j = V_j + d_j/beta'. The softmax mean
    of V' with its own logits lies within c_n/beta' below max V', which is within d/beta' of max V,
    and the mean of V differs from that of V' by at most d/beta'. No mean of V is above max V.
    """
    slope, handicap = _scored_by_value(asking)
    _heads, seen = asking.scores.shape
    holds = (slope > 0) & ~asking.constant & (asking.values.range.shape[1] == 1)
    slope = np.where(holds, slope, 1.0)
    hard = np.isinf(asking.coldness)
    cold = Interval.point(np.where(hard, 1.0, asking.coldness)) * slope
    cold = cold * Interval(1.0 - asking.fading, 1.0 + asking.fading)
    outer = asking.values.where[:, 0, :]
    top = handicap.hi.max(axis=1, keepdims=True)
    scale = np.maximum(outer.magnitude.max(axis=1, keepdims=True), np.abs(top))
    genuine = handicap.lo >= top - 1e-9 * scale
    blur = inflate(np.where(genuine, top - handicap.lo, 0.0).max(axis=1))
    perturbed = (cold * blur + asking.logit_stray).hi
    moved = (2 * perturbed / cold).hi
    floor = np.where(genuine, outer.lo, -np.inf).max(axis=1, keepdims=True)
    lag = Interval.point(np.where(genuine, 0.0, handicap.hi)) - np.where(genuine, 0.0, top)
    behind = (floor - lag - outer.hi - 2 * moved[:, None]).lo
    far = np.maximum((Interval.point(behind) * cold[:, None]).lo, 0.0)
    beaten = (behind > 0) & (~genuine | (far >= NEGLIGIBLE) | hard[:, None])
    holds &= (genuine | beaten).all(axis=1)
    contender = genuine & ~beaten
    count = np.maximum(contender.sum(axis=1), 1)
    counts, which = np.unique(count, return_inverse=True)
    gaps = np.array([softmax_gap(int(n)) for n in counts])[which.reshape(-1)]
    spread = outer.hi.max(axis=1) - outer.lo.min(axis=1)
    leaks = np.where(beaten, exp(Interval.point(-far)).hi, 0.0)
    leak = np.where(hard, 0.0, leaks.sum(axis=1) * spread)
    shortfall = np.where(hard, 0.0, (gaps / cold).hi)
    if asking.against_skeleton:
        away, lift = leak + moved + blur, leak + blur
    else:  # both sides are soft: see `maximum`
        away = lift = 2 * leak + np.where(hard, moved, moved * (gaps + perturbed))
    lipschitz = 1 + np.where(hard, 0.0, 2 * gaps + 4 * perturbed)
    away, lift = inflate(away, seen + 4), inflate(lift, seen + 4)
    return Contest(holds, contender, shortfall, away, lift, blur, lipschitz)


def maximum(values: Place, contest: Contest, against_skeleton: bool) -> Place:
    """The maximum over the contenders, and how a soft evaluation of it deviates.

    Against the skeleton: max(V + e) - max V lies in [min e, max e], then comes the shortfall.
    Against itself: m(V) = sum p_j V_j, p = softmax(beta V), has gradient p_j (1 + beta (V_j - m)),
    whose 1-norm is at most 1 + beta sum p_j |V_j - m| <= 1 + 2 c_n, because the positive and the
    negative parts of V_j - m balance and the former add up to at most max V - m. With logits off
    by d the same sum is at most 2 c_n + 2 d + 2 d, twice d because V and the logits' own values
    differ by d/beta each; moving the logits by d moves m by at most 2 d (c_n + d)/beta.
    """
    c = contest.contender
    low = np.where(c, values.range.lo, -np.inf).max(axis=1)
    high = np.where(c, values.range.hi, -np.inf).max(axis=1)
    empty = ~c.any(axis=1)
    low, high = np.where(empty, 0.0, low), np.where(empty, 0.0, high)
    carried = deviation_of_maximum(values.deviation, c)
    fall = Interval(-inflate(contest.shortfall + contest.stray), contest.lift)
    if against_skeleton:
        range = Interval(low, high) + Interval(-contest.blur, np.zeros_like(contest.blur))
        return Place(range, carried + fall)
    moved = inflate(carried.magnitude * contest.lipschitz + contest.stray)
    return Place(Interval(low, high) + fall, Deviation.of(Interval(-moved, moved)))


def outline_of_contest(asking: Asking, contest: Contest) -> Outline:
    """The reference's maxima as forms of the inputs, one for each head that is a contest."""
    assert asking.outline is not None
    values = asking.outline[:, 0, :]
    ranges = asking.values.range[:, 0, :].meet(values.hull)
    result = outline_of_maximum(values, ranges, contest.contender)
    away = Interval(-contest.blur, np.zeros_like(contest.blur))
    if not asking.against_skeleton:
        away = Interval(-inflate(contest.shortfall + contest.stray), contest.stray)
    return Outline(result.close + away, result.round and result.round + away)


def _scored_by_value(asking: Asking) -> tuple[np.ndarray, Interval]:
    """For each head a slope alpha and handicaps r_j with score_j = alpha (value_j + r_j) + common.

    Two shapes are recognised. (a) The query is constant, so scores are functionals of the keys'
    tokens. (b) The keys are constants and only the asking token's value varies, so that all
    differences are functionals of the asking token; this is the ReLU head over {itself, sink}.
    The slope is 0 where neither shape fits.
    """
    heads, seen = asking.scores.shape
    slope = np.zeros(heads)
    lo, hi = np.zeros((heads, seen)), np.zeros((heads, seen))
    if asking.values.range.shape[1] != 1 or asking.group.query.shape[1] == 0:
        return slope, Interval(lo, hi)
    for applies, shape in (
        (_has_constant_query(asking), _by_constant_query),
        (_has_constant_keys(asking), _by_constant_keys),
    ):
        if not (applies & (slope == 0) & ~asking.constant).any():
            continue
        alpha, handicap = shape(asking)
        new = applies & (slope == 0) & (alpha > 0)
        slope[new] = alpha[new]
        lo[new], hi[new] = handicap.lo[new], handicap.hi[new]
    return slope, Interval(lo, hi)


def _has_constant_query(asking: Asking) -> np.ndarray:
    free = ~asking.place.fixed[asking.t]
    return np.asarray(asking.group.query.any(axis=1).astype(float) @ free == 0)


def _has_constant_keys(asking: Asking) -> np.ndarray:
    """Constant keys, and nearly constant values but for the asking token's own.

    A sink holds what leaked into it, which `_by_constant_keys` counts as a handicap. A token that
    trails another one is not among those that it looks at.
    """
    group, free, seen = asking.group, ~asking.place.fixed, asking.seen
    keys = group.key.any(axis=1).astype(float) @ free[seen].any(axis=0)
    where = asking.place.where
    moves = free & ~(where.hi - where.lo <= _LEAKED * where.magnitude[asking.t])
    values = (group.value[:, 0] != 0).astype(float) @ moves[seen[seen != asking.t]].any(axis=0)
    return np.asarray((keys + values == 0) & (seen == asking.t).any())


def _by_constant_query(asking: Asking) -> tuple[np.ndarray, Interval]:
    group, place, t, seen = asking.group, asking.place, asking.t, asking.seen
    free = ~place.fixed
    known = np.where(free, 0.0, place.range.lo)[t]
    query = np.einsum("hkw,w->hk", group.query, known)
    scored = np.einsum("hk,hkw->hw", query, group.key)
    wrong = _product_error(query[:, :, None], group.query, known, group.key)
    valued = group.value[:, 0]
    slope = _slope(scored, valued, free[seen].any(axis=0))
    rest, slack = _residual(scored, slope[:, None], valued)
    where = place.where[seen]
    handicap = rest @ Interval(where.lo.T, where.hi.T)
    blur = matmul_up(slack + wrong, where.magnitude.T)
    handicap = handicap.widened(blur)
    if group.position_bias is not None:
        handicap = handicap + group.position_bias[:, t][:, seen]
    return slope, _divided(handicap, slope)


def _by_constant_keys(asking: Asking) -> tuple[np.ndarray, Interval]:
    group, place, t, seen = asking.group, asking.place, asking.t, asking.seen
    free = ~place.fixed
    others = seen != t
    known = np.where(free, 0.0, place.range.lo)[seen]
    keys = np.einsum("hkw,jw->hkj", group.key, known)
    ahead = keys[:, :, np.flatnonzero(~others)] - keys
    scored = np.einsum("hkj,hkw->hjw", ahead, group.query)  # score_t - score_j at token t
    wrong = _product_error(ahead, group.key, known, group.query)
    valued = group.value[:, 0]
    lead = np.array([_slope(scored[:, j], valued, free[t]) for j in range(len(seen))]).T
    slope = np.where(others, lead, np.inf).min(axis=1, initial=np.inf)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    rest, slack = _residual(scored, slope[:, None, None], valued[:, None, :])
    where = place.where[t]
    moving = -(rest.reshape(-1, rest.shape[2]) @ where).reshape(*rest.shape[:2])
    blur = matmul_up(slack + wrong[:, None, :], where.magnitude)
    constant = asking.values.where[:, 0, :] * slope[:, None]
    handicap = (moving - constant).widened(blur)
    if group.position_bias is not None:
        bias = Interval.point(group.position_bias[:, t][:, seen])
        handicap = handicap + (bias - group.position_bias[:, t][:, seen[~others]])
    handicap = _divided(handicap, slope)
    lo, hi = np.where(others, handicap.lo, 0.0), np.where(others, handicap.hi, 0.0)
    return slope, Interval(lo, hi)


def _divided(handicap: Interval, slope: np.ndarray) -> Interval:
    """handicap / slope; exact where the slope is a power of two, as it is in compiled heads."""
    safe = np.where(slope > 0, slope, 1.0)[:, None]
    lo, hi, outer = handicap.lo / safe, handicap.hi / safe, handicap / safe
    exact = is_power_of_two(safe)
    return Interval(np.where(exact, lo, outer.lo), np.where(exact, hi, outer.hi))


def _residual(
    scored: np.ndarray, slope: np.ndarray, valued: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """scored - slope * valued, and a bound on how far each entry is rounded."""
    product = slope * valued
    rest = scored - product
    exact = is_power_of_two(slope) | is_power_of_two(valued)
    exact = exact & ((rest == 0.0) | (scored == 0.0) | (product == 0.0))
    return rest, np.where(exact, 0.0, stray(2, np.abs(scored) + np.abs(product)))


def _product_error(
    factor: np.ndarray, matrix: np.ndarray, known: np.ndarray, other: np.ndarray
) -> np.ndarray:
    """A bound on the rounding of factor @ other (heads x width), factor = matrix @ known.

    0 if the factor comes from coarse numbers and is a power of two. Otherwise it is a difference
    of two such products at most, and what is rounded are their sums, it, and the last sum.
    """
    reads = matrix.any(axis=(0, 1))
    coarse = is_coarse(matrix[..., reads]) and is_coarse(known[..., reads])
    exact = is_power_of_two(factor).all(axis=(1, 2)) & coarse & (matrix.shape[1] == 1)
    most = matmul_up(np.abs(matrix), np.abs(known).reshape(-1, matrix.shape[2]).max(axis=0))
    size = 2 * matmul_up(most[:, None, :], np.abs(other))[:, 0]
    count = matrix.shape[2] + matrix.shape[1] + 2
    return np.where(exact[:, None], 0.0, stray(count, size))


def _slope(scored: np.ndarray, valued: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The factor between two rows, read where the second is largest among free coordinates."""
    size = np.where(free, np.abs(valued), 0.0)
    at = size.argmax(axis=1)
    heads = np.arange(len(valued))
    usable = size[heads, at] > 0
    divisor = np.where(usable, valued[heads, at], 1.0)
    return np.where(usable, scored[heads, at] / divisor, 0.0)


@dataclass(frozen=True, eq=False)
class Alone:
    """Coordinates whose only writer is a contest, and what they hold then."""

    heads: np.ndarray
    rows: np.ndarray
    place: Place
    copied: np.ndarray  # the noise that stands for copies of it as well (`copies_of_maxima`), or -1

    @classmethod
    def nothing(cls) -> Alone:
        none = np.zeros(0, dtype=int)
        return cls(none, none, Place.zero((0,)), none)


def alone(
    asking: Asking, contest: Contest, writers: np.ndarray, noises: NoiseCounter | None = None
) -> Alone:
    """Coordinates whose only writer is a contest: x + w max_j V_j = max_j (x + w V_j), tighter.

    For the token itself x and V_j read the same stream, so that a head which turns x into
    max(x, y) in place is seen as the maximum that it is. A negative w makes it a minimum; the
    bound on the deviation is the same. With `noises`, what is left over becomes a noise.
    """
    group, place, t = asking.group, asking.place, asking.t
    if group.value.shape[1] != 1 or not contest.holds.any():
        return Alone.nothing()
    entries = (group.output[:, :, 0] != 0) & (writers == 1) & contest.holds[:, None]
    entries &= ~place.fixed[t]
    head, row = np.nonzero(entries)
    if not len(head):
        return Alone.nothing()
    weight = group.output[head, row, 0]
    own = weight[:, None] * group.value[head, 0]
    exact = (is_power_of_two(weight)[:, None] | is_power_of_two(group.value[head, 0])).all(axis=1)
    exact &= is_coarse(own)  # and so is adding 1 to such numbers
    terms = np.abs(own)
    terms[np.arange(len(head)), row] += 1.0
    own[np.arange(len(head)), row] += 1.0
    size = terms @ place.where.magnitude[t]
    rounded = np.where(exact, 0.0, stray(3, size))  # two roundings; the size loses less than one
    here = Place(own @ place.range[t], own @ place.deviation[t])
    here = Place(here.range.widened(rounded), here.deviation).strayed(2 * rounded)
    values = asking.values[head, 0]
    factor = Interval.point(weight[:, None])
    joined = Place(
        values.range * factor + place.range[t, row][:, None],
        values.deviation.scaled(weight[:, None]) + place.deviation[t, row][:, None],
    ).overruled(asking.seen == t, here[:, None])
    scaled = Contest(
        contest.holds[head],
        contest.contender[head],
        product_up(contest.shortfall[head], np.abs(weight)),
        product_up(contest.stray[head], np.abs(weight)),
        product_up(contest.lift[head], np.abs(weight)),
        product_up(contest.blur[head], np.abs(weight)),
        contest.lipschitz[head],
    )
    most = maximum(joined, scaled, asking.against_skeleton)
    least = -maximum(-joined, scaled, asking.against_skeleton)
    result = least.overruled(weight > 0, most)
    result = result.strayed(product_up(asking.value_stray[head], np.abs(weight)))
    result = _as_two_lines(result, asking, scaled, head, row, weight)
    rises = (weight > 0) & (np.where(scaled.contender, joined.where.lo, -np.inf).max(axis=1) >= 0.0)
    soft = np.isfinite(asking.coldness[head])
    own = np.full(len(head), -1)
    if noises is not None and soft.any():
        first = noises.taken
        result = Place(result.range, result.deviation.with_noises(soft, noises))
        own[soft] = np.arange(first, noises.taken) if noises.taken > first else -1
    return Alone(head, row, result, np.where(rises, own, -1))


def _as_two_lines(
    result: Place,
    asking: Asking,
    contest: Contest,
    head: np.ndarray,
    row: np.ndarray,
    weight: np.ndarray,
) -> Place:
    """Narrow the range where the value depends on the written coordinate x alone.

    `line_with_kink` says where x + w max(a x + b, 0) is extreme. The float that is taken for -b/a
    is off by at most (d + 2 u |b|)/|a| if b is known up to d, and the function moves by
    1 + |w a| times that; what is rounded there, `stray` leaves room for.
    """
    if asking.against_skeleton:
        return result
    place, t = asking.place, asking.t
    valued = asking.group.value[head, 0].copy()
    slope = valued[np.arange(len(head)), row]
    valued[np.arange(len(head)), row] = 0.0
    free = ~place.fixed[t]
    others = asking.seen[asking.seen != t]
    nothing = (place.fixed[others] & (place.range.lo[others] == 0.0)).all(axis=0)
    reads = asking.group.value[head, 0] != 0
    applies = (slope != 0.0) & ~(reads & free & ~_one_hot(row, len(free))).any(axis=1)
    applies &= ~(reads & ~nothing).any(axis=1)
    applies &= contest.contender.all(axis=1) & (len(others) > 0)  # one of them holds 0
    constant = valued @ place.range[t]
    x = place.range[t, row]
    safe = np.where(slope == 0.0, 1.0, slope)
    crossing = np.clip(-constant.middle / safe, x.lo, x.hi)
    factor, line = Interval.point(weight), Interval.point(safe)
    points = [Interval.point(p) for p in (x.lo, x.hi, crossing)]
    ends = [line_with_kink(p, line * p + constant, factor) for p in points]
    off = constant.hi - constant.lo + stray(2, constant.magnitude)
    slack = (np.abs(weight) + 1.0 / np.abs(safe)) * off
    short = (Interval.point(contest.shortfall) + contest.stray).hi
    fall = Interval(
        -np.where(weight > 0, short, contest.stray), np.where(weight > 0, contest.stray, short)
    )
    hull = Interval(np.min([e.lo for e in ends], axis=0), np.max([e.hi for e in ends], axis=0))
    narrow = result.range.meet(hull.widened(slack) + fall)
    return Place(
        Interval(
            np.where(applies, narrow.lo, result.range.lo),
            np.where(applies, narrow.hi, result.range.hi),
        ),
        result.deviation,
    )


def _one_hot(at: np.ndarray, width: int) -> np.ndarray:
    return np.asarray(at[:, None] == np.arange(width))
