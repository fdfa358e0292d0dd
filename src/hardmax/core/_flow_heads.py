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

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hardmax.core._layers import HeadGroup
from hardmax.numerics import Interval, exact, gamma, inflate, softmax_gap

NEGLIGIBLE = 40.0  # a token whose logit is this far behind counts as leakage, not as contender


@dataclass(frozen=True, eq=False)
class Place:
    """The range of the reference and the deviation of the evaluation from it."""

    range: Interval
    deviation: Interval

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> Place:
        zero = Interval.point(np.zeros(shape))
        return cls(zero, zero)

    @property
    def where(self) -> Interval:
        """Where reference and evaluation both are."""
        moved = self.range + self.deviation
        return Interval(np.minimum(moved.lo, self.range.lo), np.maximum(moved.hi, self.range.hi))

    @property
    def fixed(self) -> np.ndarray:
        """Coordinates that are one known number, for reference and evaluation alike."""
        return (self.range.lo == self.range.hi) & (self.deviation.magnitude == 0.0)

    def __add__(self, other: Place) -> Place:
        return Place(self.range + other.range, self.deviation + other.deviation)

    def __getitem__(self, key: Any) -> Place:
        return Place(self.range[key], self.deviation[key])

    def transposed(self) -> Place:
        r, d = self.range, self.deviation
        return Place(Interval(r.lo.T, r.hi.T), Interval(d.lo.T, d.hi.T))

    def shifted(self, shift: np.ndarray) -> Place:
        return Place(self.range, self.deviation + shift)

    def strayed(self, stray: np.ndarray) -> Place:
        """Widened by a rounding error."""
        return Place(self.range, self.deviation + Interval(-stray, stray))

    def replaced(self, tokens: np.ndarray, coordinates: np.ndarray, values: Place) -> Place:
        if not len(tokens):
            return self
        ends = []
        for mine, new in ((self.range, values.range), (self.deviation, values.deviation)):
            lo, hi = mine.lo.copy(), mine.hi.copy()
            lo[tokens, coordinates], hi[tokens, coordinates] = new.lo, new.hi
            ends.append(Interval(lo, hi))
        return Place(*ends)


@dataclass(eq=False)
class HeadFlow:
    """What is known of one head over the domain."""

    largest_logit: float = 0.0  # with coldness; of the scores themselves if hard
    radius: float = 0.0  # the largest |score|
    constant: bool = True  # no score depends on the input
    gap: float = np.inf  # constant scores: the smallest lead of the winners over the others
    lemmas: set[str] | None = None


@dataclass(frozen=True, eq=False)
class GroupFlow:
    change: Place  # tokens x width
    size: np.ndarray  # tokens x width: sum of |terms|, for rounding
    heads: list[HeadFlow]
    alone_at: np.ndarray  # tokens where a coordinate has this head as its only writer ...
    alone_rows: np.ndarray  # ... those coordinates ...
    alone: Place  # ... and the tighter place of the sum there


@dataclass(frozen=True, eq=False)
class _Asking:
    """A group of heads asked by one token: everything the lemmas look at, heads first."""

    group: HeadGroup
    place: Place
    t: int
    seen: np.ndarray  # visible tokens
    coldness: np.ndarray
    scores: Interval  # heads x seen, reference and evaluation
    score_deviation: np.ndarray  # heads: how far a score moves with the stream's deviation
    logit_stray: np.ndarray  # heads: rounding of a logit
    values: Place  # heads x value width x seen
    value_stray: np.ndarray  # heads: rounding of the mixed value
    constant: np.ndarray  # heads whose scores are constants
    against_skeleton: bool


def follow_group(
    place: Place,
    group: HeadGroup,
    coldness: np.ndarray,
    writers: np.ndarray,
    unit: float,
    against_skeleton: bool,
) -> GroupFlow:
    """Ask the group from every token and add up what its heads write."""
    heads, _, width = group.query.shape
    tokens = place.range.shape[0]
    flows = [HeadFlow(lemmas=set()) for _ in range(heads)]
    joined = group.output.transpose(1, 0, 2).reshape(width, -1)
    changes, sizes, alone = [], [], []
    stream = _Projected(place, group, unit)
    for t in range(tokens):
        asking = stream.asked_by(t, coldness, against_skeleton)
        mixed, contest = _mix(asking, flows)
        flat = Place(mixed.range.reshape(-1), mixed.deviation.reshape(-1))
        changes.append(Place(joined @ flat.range, joined @ flat.deviation))
        sizes.append(np.abs(joined) @ flat.where.magnitude)
        alone.append(_alone(asking, contest, writers))
        _note_logits(asking, flows)
    return GroupFlow(
        _stack(changes),
        np.stack(sizes),
        flows,
        np.concatenate([np.full(len(rows), t) for t, (rows, _) in enumerate(alone)]).astype(int),
        np.concatenate([rows for rows, _ in alone]),
        _stack([values for _, values in alone], join=np.concatenate),
    )


def _stack(places: list[Place], join: Any = np.stack) -> Place:
    return Place(
        *(
            Interval(join([p.lo for p in parts]), join([p.hi for p in parts]))
            for parts in ([p.range for p in places], [p.deviation for p in places])
        )
    )


class _Projected:
    """Queries, keys and values of a group at every token."""

    def __init__(self, place: Place, group: HeadGroup, unit: float) -> None:
        self.place, self.group, self.unit = place, group, unit
        self.heads, self.key_width, width = group.query.shape
        where = place.where
        columns = Interval(where.lo.T, where.hi.T)
        size = where.magnitude.T
        self.query, self.query_size = self._project(group.query, columns, size)
        self.key, self.key_size = self._project(group.key, columns, size)
        deviation = place.deviation.magnitude.T
        self.query_deviation = self._bound(group.query, deviation)
        self.key_deviation = self._bound(group.key, deviation)
        flat = group.value.reshape(-1, width)
        transposed = place.transposed()
        shape = (self.heads, group.value.shape[1], place.range.shape[0])
        self.value = Place(
            (flat @ transposed.range).reshape(*shape),
            (flat @ transposed.deviation).reshape(*shape),
        )
        self.value_size = (np.abs(flat) @ size).reshape(*shape)
        free = ~place.fixed.T.astype(bool)
        reads = group.query.any(axis=1).astype(float) @ free
        self.query_fixed = reads == 0
        self.key_fixed = (group.key.any(axis=1).astype(float) @ free) == 0

    def _project(
        self, matrix: np.ndarray, columns: Interval, size: np.ndarray
    ) -> tuple[Interval, np.ndarray]:
        flat = matrix.reshape(-1, matrix.shape[2])
        shape = (self.heads, self.key_width, columns.shape[1])
        return (flat @ columns).reshape(*shape), self._bound(matrix, size)

    def _bound(self, matrix: np.ndarray, size: np.ndarray) -> np.ndarray:
        """|matrix| @ size, heads x key width x tokens."""
        flat = np.abs(matrix.reshape(-1, matrix.shape[2]))
        bound = inflate(flat @ size, matrix.shape[2])
        return bound.reshape(self.heads, self.key_width, size.shape[1])

    def asked_by(self, t: int, coldness: np.ndarray, against_skeleton: bool) -> _Asking:
        group, unit = self.group, self.unit
        tokens = self.place.range.shape[0]
        seen = np.arange(t + 1 if group.causal else tokens)
        products = self.query[:, :, t][:, :, None] * self.key[:, :, seen]
        scores = Interval(products.lo.sum(axis=1), products.hi.sum(axis=1))
        size = (self.query_size[:, :, t][:, :, None] * self.key_size[:, :, seen]).sum(axis=1)
        slack = gamma(2 * self.key_width) * size
        scores = scores + Interval(-slack, slack)
        if group.position_bias is not None:
            bias = group.position_bias[:, t][:, seen]
            scores, size = scores + bias, size + np.abs(bias)
        moved = (
            self.query_deviation[:, :, t][:, :, None] * self.key_size[:, :, seen]
            + self.query_size[:, :, t][:, :, None] * self.key_deviation[:, :, seen]
        ).sum(axis=1)
        terms = _terms(group.query) + _terms(group.key) + self.key_width + 8
        finite = np.where(np.isinf(coldness), 1.0, coldness)
        values = self.value[:, :, seen]
        value_terms = _terms(group.value) + 2 * len(seen) + 16
        value_size = self.value_size[:, :, seen].max(axis=(1, 2), initial=0.0)
        return _Asking(
            group,
            self.place,
            t,
            seen,
            coldness,
            scores,
            inflate(moved.max(axis=1), self.key_width + 8),
            2 * gamma(terms, unit) * size.max(axis=1) * finite,
            values,
            gamma(value_terms, unit) * value_size,
            (self.query_fixed[:, t] & self.key_fixed[:, seen].all(axis=1)) | (self.key_width == 0),
            against_skeleton,
        )


def _terms(matrix: np.ndarray) -> np.ndarray:
    """The most entries in a row, head by head."""
    return (matrix != 0).sum(axis=2).max(axis=1, initial=0)


@dataclass(frozen=True, eq=False)
class _Contest:
    """Heads that take a maximum of their values, as seen from one token."""

    holds: np.ndarray  # heads: the lemma applies
    contender: np.ndarray  # heads x seen: may win
    shortfall: np.ndarray  # heads: c_n / (alpha beta)
    stray: np.ndarray  # heads: leakage and rounding, to either side
    lipschitz: np.ndarray  # heads: of the soft maximum in its values


def _mix(asking: _Asking, flows: list[HeadFlow]) -> tuple[Place, _Contest]:
    """The mixed value of every head, by the first lemma that applies."""
    contest = _find_contest(asking)
    heads, width, _ = asking.values.range.shape
    result = _hull(asking)
    select = _select(asking)
    constant = _constant(asking, flows)
    maxima = _maximum(asking.values[:, 0, :], contest, asking.against_skeleton)
    arrays = []
    for part in ("range", "deviation"):
        for end in ("lo", "hi"):
            value = getattr(getattr(result, part), end).copy()
            for applies, place in ((select[0], select[1]), (contest.holds, _column(maxima))):
                value[applies] = getattr(getattr(place, part), end)[applies]
            value[asking.constant] = getattr(getattr(constant, part), end)[asking.constant]
            arrays.append(value)
    for h in range(heads):
        name = (
            "constant"
            if asking.constant[h]
            else "contest"
            if contest.holds[h]
            else "selection"
            if select[0][h]
            else "hull"
        )
        flows[h].lemmas.add(name)  # type: ignore[union-attr]
    mixed = Place(Interval(arrays[0], arrays[1]), Interval(arrays[2], arrays[3]))
    return mixed.strayed(np.broadcast_to(asking.value_stray[:, None], (heads, width))), contest


def _column(place: Place) -> Place:
    return place[:, None]


def _note_logits(asking: _Asking, flows: list[HeadFlow]) -> None:
    radius = asking.scores.magnitude.max(axis=1)
    for h, flow in enumerate(flows):
        coldness = asking.coldness[h] if np.isfinite(asking.coldness[h]) else 1.0
        flow.radius = max(flow.radius, float(radius[h]))
        flow.largest_logit = max(flow.largest_logit, float(coldness * radius[h] * (1 + 2.0**-50)))
        flow.constant &= bool(asking.constant[h])


def _hull(asking: _Asking) -> Place:
    """A weighted mean lies between the smallest and the largest value.

    Against the Transformer itself more can be said: if no logit is off by more than d, the
    weights change by at most tanh(d/2) in total variation (raise one set of tokens by d, lower
    the rest by d: the set's weight moves from sigmoid(l - d) to sigmoid(l + d) at most, whose
    difference is largest at l = 0), and the mean by that times the spread of the values.
    """
    inner, outer = asking.values.range, asking.values.where
    hull = Interval(inner.lo.min(axis=2), inner.hi.max(axis=2))
    apart = Interval(outer.lo.min(axis=2), outer.hi.max(axis=2)) - hull
    lo, hi = np.minimum(apart.lo, 0.0), np.maximum(apart.hi, 0.0)
    if not asking.against_skeleton:
        hard = np.isinf(asking.coldness)
        cold = np.where(hard, 0.0, asking.coldness)
        off = np.where(hard, np.inf, asking.logit_stray + cold * asking.score_deviation)
        moved = asking.values.deviation.magnitude.max(axis=2)
        share = np.tanh(np.minimum(off, 1e3) / 2)[:, None]
        total = inflate(share * (hull.hi - hull.lo) + moved)
        lo, hi = np.maximum(lo, -total), np.minimum(hi, total)
    return Place(hull, Interval(lo, hi))


def _select(asking: _Asking) -> tuple[np.ndarray, Place]:
    """The head takes the value of the one token whose score leads all others by a gap."""
    scores, values = asking.scores, asking.values
    heads = np.arange(scores.shape[0])
    winner = scores.lo.argmax(axis=1)
    others = scores.hi.copy()
    others[heads, winner] = -np.inf
    finite = np.where(np.isinf(asking.coldness), 1.0, asking.coldness)
    gap = scores.lo[heads, winner] - others.max(axis=1) - 2 * asking.logit_stray / finite
    holds = gap > 0
    with np.errstate(under="ignore", invalid="ignore"):
        exponent = np.where(np.isinf(asking.coldness), -np.inf, -asking.coldness * gap)
        leak = (len(asking.seen) - 1) * np.exp(np.minimum(exponent, 0.0)) * (1 + 1e-12)
    outer = values.where
    spread = outer.hi.max(axis=2) - outer.lo.min(axis=2)
    leak = np.where(holds, leak, 0.0)[:, None] * spread
    if len(asking.seen) == 1:
        leak = np.zeros_like(leak)
    taken = values[heads, :, winner]
    if not asking.against_skeleton:
        leaky = taken.range + Interval(-leak, leak)
        return holds, Place(leaky, taken.deviation).strayed(2 * leak)
    return holds, taken.strayed(leak)


def _constant(asking: _Asking, flows: list[HeadFlow]) -> Place:
    """Scores that are constants make the head a linear map with known weights.

    The scores are computed exactly, so that ties are ties. The evaluated weights differ from the
    hard ones by the leakage of the softmax and by rounding.
    """
    heads, seen = asking.scores.shape
    hard = np.zeros((heads, seen))
    soft = np.zeros((heads, seen))
    if seen == 1:
        hard[:] = soft[:] = 1.0
    for h in np.flatnonzero(asking.constant) if seen > 1 else ():
        scores = _exact_scores(asking, int(h))
        top = max(scores)
        tied = np.array([score == top for score in scores])
        hard[h] = tied / tied.sum()
        soft[h] = hard[h]
        if not tied.all():
            lead = float(top - max(s for s in scores if s != top))
            flows[h].gap = min(flows[h].gap, lead)
            if np.isfinite(asking.coldness[h]):
                below = np.array([float(score - top) for score in scores])
                with np.errstate(under="ignore"):
                    powers = np.exp(asking.coldness[h] * below)
                soft[h] = powers / powers.sum()
    if not asking.against_skeleton:
        hard = soft
    values = asking.values
    weights = Interval(soft * (1 - 1e-14), soft * (1 + 1e-14))[:, None, :]
    base = Interval(hard * (1 - 2.0**-50), hard * (1 + 2.0**-50))[:, None, :]
    reference = _sum(base * values.range)
    carried = _sum(weights * values.deviation)
    leaked = (np.abs(soft - hard)[:, None, :] * values.range.magnitude).sum(axis=2) * (1 + 1e-12)
    return Place(reference, carried).strayed(leaked)


def _sum(terms: Interval) -> Interval:
    slack = gamma(terms.shape[-1]) * terms.magnitude.sum(axis=-1)
    return Interval(terms.lo.sum(axis=-1) - slack, terms.hi.sum(axis=-1) + slack)


def _exact_scores(asking: _Asking, h: int) -> list[Fraction]:
    group, t = asking.group, asking.t
    stream = asking.place.range.lo

    def project(matrix: np.ndarray, token: int) -> list[Fraction]:
        used = np.flatnonzero(matrix[h].any(axis=0))
        if not used.size:
            return [Fraction(0)] * matrix.shape[1]
        return list(exact(matrix[h][:, used]) @ exact(stream[token, used]))

    query = project(group.query, t)
    scores = []
    for j in asking.seen:
        score = sum((a * b for a, b in zip(query, project(group.key, j), strict=True)), Fraction(0))
        if group.position_bias is not None:
            score += Fraction(group.position_bias[h, t, j])
        scores.append(score)
    return scores


def _find_contest(asking: _Asking) -> _Contest:
    """Decide which heads are contests, and by how much each can fall short of its maximum.

    Let the score of token j be alpha (V_j + r_j) up to a term common to all j, with V_j the value.
    Tokens with the largest r are *genuine*; what their r differ by is a perturbation of the
    logits. A token with smaller r is *handicapped*: it must lose by a gap, and only leaks.

    Lemma (perturbed logits). If the logits lie within d of beta' V_j, beta' = alpha beta, the mean
    lies in [max V - (c_n + 2 d)/beta', max V + 2 d/beta']. Proof: put V'_j = V_j + d_j/beta'. The
    softmax mean of V' with its own logits lies within c_n/beta' below max V', which is within
    d/beta' of max V, and the mean of V differs from that of V' by at most d/beta'.
    """
    slope, handicap = _scored_by_value(asking)
    _heads, seen = asking.scores.shape
    holds = (slope > 0) & ~asking.constant & (asking.values.range.shape[1] == 1)
    slope = np.where(holds, slope, 1.0)
    cold = np.where(np.isinf(asking.coldness), 1.0, asking.coldness) * slope
    hard = np.isinf(asking.coldness)
    outer = asking.values.where[:, 0, :]
    top = handicap.hi.max(axis=1, keepdims=True)
    scale = np.maximum(outer.magnitude.max(axis=1, keepdims=True), np.abs(top))
    genuine = handicap.lo >= top - 1e-9 * scale
    perturbed = np.where(genuine, top - handicap.lo, 0.0).max(axis=1) * cold + asking.logit_stray
    floor = np.where(genuine, outer.lo, -np.inf).max(axis=1, keepdims=True)
    reach = outer.hi + np.where(genuine, 0.0, handicap.hi - top)
    behind = (floor - reach) - 4 * (perturbed / cold)[:, None]
    beaten = (behind > 0) & (~genuine | (behind * cold[:, None] >= NEGLIGIBLE) | hard[:, None])
    holds &= (genuine | beaten).all(axis=1)
    contender = genuine & ~beaten
    count = np.maximum(contender.sum(axis=1), 1)
    gaps = np.array([softmax_gap(n) for n in range(1, seen + 1)])[count - 1]
    spread = outer.hi.max(axis=1) - outer.lo.min(axis=1)
    with np.errstate(under="ignore"):
        leaks = np.where(beaten, np.exp(-np.maximum(behind * cold[:, None], 0.0)), 0.0)
    leak = np.where(hard, 0.0, leaks.sum(axis=1) * spread * (1 + 1e-12))
    shortfall = np.where(hard, 0.0, gaps / cold) * (1 + 2.0**-48)
    if asking.against_skeleton:
        stray = leak + 2 * perturbed / cold
    else:  # both sides are soft: see `_maximum`
        stray = 2 * leak + np.where(
            hard, 2 * perturbed / cold, (2 * gaps * perturbed + perturbed**2) / cold
        )
    return _Contest(holds, contender, shortfall, stray, 1 + np.where(hard, 0.0, 2 * gaps))


def _maximum(values: Place, contest: _Contest, against_skeleton: bool) -> Place:
    """The maximum over the contenders, and how a soft evaluation of it deviates.

    Against the skeleton: max(V + e) - max V lies in [min e, max e], then comes the shortfall.
    Against itself: m(V) = sum p_j V_j, p = softmax(beta V), has gradient p_j (1 + beta (V_j - m)),
    whose 1-norm is at most 1 + beta sum p_j |V_j - m| <= 1 + 2 c_n, because the positive and the
    negative parts of V_j - m balance and the former add up to at most max V - m. Logits off by d
    move m by at most (2 c_n d + d^2)/beta, integrating the same estimate along the way.
    """
    c = contest.contender
    low = np.where(c, values.range.lo, -np.inf).max(axis=1)
    high = np.where(c, values.range.hi, -np.inf).max(axis=1)
    down = np.where(c, values.deviation.lo, np.inf).min(axis=1)
    up = np.where(c, values.deviation.hi, -np.inf).max(axis=1)
    empty = ~c.any(axis=1)
    low, high, down, up = (np.where(empty, 0.0, part) for part in (low, high, down, up))
    fall = Interval(-inflate(contest.shortfall + contest.stray), contest.stray)
    if against_skeleton:
        return Place(Interval(low, high), Interval(down, up) + fall)
    moved = np.maximum(np.abs(down), np.abs(up)) * contest.lipschitz + contest.stray
    return Place(Interval(low, high) + fall, Interval(-inflate(moved), inflate(moved)))


def _scored_by_value(asking: _Asking) -> tuple[np.ndarray, Interval]:
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
    for shape in (_by_constant_query, _by_constant_keys):
        found, alpha, handicap = shape(asking)
        new = found & (slope == 0) & (alpha > 0)
        slope[new] = alpha[new]
        lo[new], hi[new] = handicap.lo[new], handicap.hi[new]
    return slope, Interval(lo, hi)


def _by_constant_query(asking: _Asking) -> tuple[np.ndarray, np.ndarray, Interval]:
    group, place = asking.group, asking.place
    free = ~place.fixed
    found = (group.query.any(axis=1).astype(float) @ free[asking.t]) == 0
    query = np.einsum("hkw,w->hk", group.query, np.where(free, 0.0, place.range.lo)[asking.t])
    scored = np.einsum("hk,hkw->hw", query, group.key)
    valued = group.value[:, 0]
    slope = _slope(scored, valued, free[asking.seen].any(axis=0))
    rest = scored - slope[:, None] * valued
    where = place.where[asking.seen]
    handicap = rest @ Interval(where.lo.T, where.hi.T)
    if group.position_bias is not None:
        handicap = handicap + group.position_bias[:, asking.t][:, asking.seen]
    safe = np.where(slope > 0, slope, 1.0)[:, None]
    return found & (slope > 0), slope, handicap * (1 / safe)


def _by_constant_keys(asking: _Asking) -> tuple[np.ndarray, np.ndarray, Interval]:
    group, place, t, seen = asking.group, asking.place, asking.t, asking.seen
    free = ~place.fixed
    others = seen != t
    key_reads = group.key.any(axis=1).astype(float) @ free[seen].T
    value_reads = (group.value[:, 0] != 0).astype(float) @ free[seen[others]].T
    found = (key_reads.sum(axis=1) == 0) & (value_reads.sum(axis=1) == 0)
    keys = np.einsum("hkw,jw->hkj", group.key, np.where(free, 0.0, place.range.lo)[seen])
    here = keys[:, :, np.flatnonzero(~others)]
    scored = np.einsum("hkj,hkw->hjw", here - keys, group.query)  # score_t - score_j at token t
    valued = group.value[:, 0]
    lead = np.array([_slope(scored[:, j], valued, free[t]) for j in range(len(seen))]).T
    slope = np.where(others, lead, np.inf).min(axis=1, initial=np.inf)
    slope = np.where(np.isfinite(slope), slope, 0.0)
    rest = slope[:, None, None] * valued[:, None, :] - scored
    where = place.where[t]
    moving = rest.reshape(-1, rest.shape[2]) @ where
    constant = asking.values.where[:, 0, :] * slope[:, None]
    handicap = moving.reshape(*rest.shape[:2]) - constant
    if group.position_bias is not None:
        bias = group.position_bias[:, t][:, seen]
        handicap = handicap + (bias - bias[:, ~others])
    safe = np.where(slope > 0, slope, 1.0)[:, None]
    lo = np.where(others, handicap.lo / safe, 0.0)
    hi = np.where(others, handicap.hi / safe, 0.0)
    return found & (slope > 0), slope, Interval(lo, hi)


def _slope(scored: np.ndarray, valued: np.ndarray, free: np.ndarray) -> np.ndarray:
    """The factor between two rows, read where the second is largest among free coordinates."""
    size = np.where(free, np.abs(valued), 0.0)
    at = size.argmax(axis=1)
    heads = np.arange(len(valued))
    usable = size[heads, at] > 0
    divisor = np.where(usable, valued[heads, at], 1.0)
    return np.where(usable, scored[heads, at] / divisor, 0.0)


def _alone(asking: _Asking, contest: _Contest, writers: np.ndarray) -> tuple[np.ndarray, Place]:
    """Coordinates whose only writer is a contest: x + w max_j V_j = max_j (x + w V_j), tighter.

    For the token itself x and V_j read the same stream, so that a head which turns x into
    max(x, y) in place is seen as the maximum that it is. A negative w makes it a minimum; the
    bound on the deviation is the same.
    """
    group, place, t = asking.group, asking.place, asking.t
    nothing = np.zeros(0, dtype=int), Place.zero((0,))
    if group.value.shape[1] != 1 or not contest.holds.any():
        return nothing
    entries = (group.output[:, :, 0] != 0) & (writers == 1) & contest.holds[:, None]
    entries &= ~place.fixed[t]
    head, row = np.nonzero(entries)
    if not len(head):
        return nothing
    weight = group.output[head, row, 0]
    own = weight[:, None] * group.value[head, 0]
    own[np.arange(len(head)), row] += 1.0
    here = Place(own @ place.range[t], own @ place.deviation[t])
    values = asking.values[head, 0]
    factor = Interval.point(weight[:, None])
    there = Place(
        values.range * factor + place.range[t, row][:, None],
        values.deviation * factor + place.deviation[t, row][:, None],
    )
    ends = []
    for part in ("range", "deviation"):
        for end in ("lo", "hi"):
            across = getattr(getattr(there, part), end).copy()
            at = np.flatnonzero(asking.seen == t)
            across[:, at] = getattr(getattr(here, part), end)[:, None]
            ends.append(across)
    joined = Place(Interval(ends[0], ends[1]), Interval(ends[2], ends[3]))
    sub = _Contest(
        contest.holds[head],
        contest.contender[head],
        contest.shortfall[head] * np.abs(weight),
        contest.stray[head] * np.abs(weight),
        contest.lipschitz[head],
    )
    up = _maximum(joined, sub, asking.against_skeleton)
    down = _maximum(Place(-joined.range, -joined.deviation), sub, asking.against_skeleton)
    sign = weight > 0
    picked = [
        Interval(np.where(sign, a.lo, b.lo), np.where(sign, a.hi, b.hi))
        for a, b in ((up.range, -down.range), (up.deviation, -down.deviation))
    ]
    stray = asking.value_stray[head] * np.abs(weight)
    return row, Place(*picked).strayed(stray)
