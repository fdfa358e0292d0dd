"""Rows of a witness that are maxima: the Transformer's soft one against the target's hard one.

Let F be a softmax mean of forms P_t, with logits k P_t + r_t up to a common term, k > 0 and
|r_t| <= d, and let c_n = W((n - 1)/e). Then

    max P - (c_n + 2 d)/k - leak  <=  F  <=  max P + 2 d/k + leak.

Proof. Of the tokens, those that stay behind the best by b >= 40/k everywhere (the *beaten*) have
together a weight of at most sum e^(-k b + 2 d), and leak is that times the spread of the P_t. Among
the other n put P'_t = P_t + r_t/k: the softmax mean of P' under its own logits is within c_n/k
below max P' (the gap lemma: sum p_j (max - P'_j) with p = softmax(k P') is at most c_n/k, with
equality when all losers are (1 + c_n)/k behind), max P' is within d/k of max P, and the means of P
and P' differ by at most d/k.

If k < 0 everything holds for -F, a minimum. A hard maximum is the limit k -> infinity.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import fmpq

from hardmax.checker.forms import (
    NOTHING,
    ONE,
    Form,
    Gate,
    Graph,
    Maximum,
    Mean,
    Relu,
    excess,
    nearest,
)
from hardmax.numerics import (
    Interval,
    above_float,
    down,
    exp,
    inflate,
    softmax_gap,
    stray,
    sum_up,
    up,
)

BEATEN = 40.0
_SMALL = 2.0**-30  # of the goals' range: a form that exceeds the others by less never leads
_MOST_TRAILED = 8  # tokens among which one is looked for that trails
_MOST_MAXIMA = 256  # inside of one another that are taken apart
Ends = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Tokens:
    """A form as the mean of some others; `coldness` is infinite for a hard maximum."""

    forms: tuple[Form, ...]
    coldness: float = math.inf  # per unit of the forms; negative for a minimum
    stray: float = 0.0  # d
    leak: float = 0.0  # what tokens that were left out may add
    falls: tuple[float, ...] = ()  # by how much maxima further inside may fall short of each
    tokens: int = 0  # that the outermost maximum joins, if not one for each form

    @property
    def is_minimum(self) -> bool:
        return self.coldness < 0


@dataclass(frozen=True, eq=False)
class Contest:
    """What is needed to bound F - V for one row."""

    functionals: tuple[Form, ...]  # P_t, whose variables deviate
    residuals: tuple[Ends, ...]  # P_t - Q_t at the target's own values
    gap: float  # the maximum may fall short by this much, once
    stray: float  # and be off by this much to either side
    is_minimum: bool

    def __post_init__(self) -> None:
        assert self.gap >= 0.0
        assert self.stray >= 0.0


def split(graph: Graph, form: Form, crumb: float) -> tuple[Form, list[tuple[int, fmpq]], Ends]:
    """The affine part over variables, the other atoms, and the range of what is below `crumb`."""
    small, ends = _below(graph, form, crumb)
    if not small and graph.is_plain(form):
        return form, [], ends
    every = form.body.array
    others = [a for a in every[~graph.are_variables(every)].tolist() if a not in small]
    plain = form.without({*small, *others}, form.constant)
    return plain, [(a, form.coefficient(a)) for a in others], ends


def _below(graph: Graph, form: Form, crumb: float) -> tuple[set[int], Ends]:
    """The atoms, variables included, whose terms are never larger than `crumb`, and their sum."""
    if not crumb or form.is_constant:
        return set(), (0.0, 0.0)
    atoms, c = form.floats
    small = np.abs(c) * graph.bounds.sizes(atoms) <= crumb
    atoms = atoms[small]
    crumbs = set(atoms.tolist())
    return crumbs, graph.bounds.range(Form({a: form.coefficient(a) for a in crumbs}))


def flattened(
    graph: Graph, rest: Form, atoms: Sequence[tuple[int, fmpq]], calls: Iterator[int] | None = None
) -> Tokens | None:
    """The same with maxima of maxima taken apart, down to forms over variables.

    The last atom made is the outermost; the others belong to the forms that it joins. Each form
    remembers by how much the maxima inside of the outermost may fall short of it. There may be
    twice as many forms for each maximum inside of another: beyond a few, None is the answer.
    """
    calls = iter(range(_MOST_MAXIMA)) if calls is None else calls
    if next(calls, None) is None:
        return None
    if len(atoms) > 1:
        last = max(atoms)
        rest, atoms = rest + Form({a: c for a, c in atoms if a != last[0]}), [last]
    found = as_tokens(graph, rest, atoms)
    if found is None or all(graph.is_plain(form) for form in found.forms):
        return found
    forms: dict[Form, float] = {}
    leak = found.leak
    for form in found.forms:
        plain, inner, _ = split(graph, form, 0.0)
        below = flattened(graph, plain, inner, calls)
        if below is None or (len(below.forms) > 1 and below.is_minimum != found.is_minimum):
            return None
        own, away = _gap(below, below.tokens or len(below.forms))
        leak += away
        for leaf, fall in zip(below.forms, below.falls or [0.0] * len(below.forms), strict=True):
            forms[leaf] = max(forms.get(leaf, 0.0), up(fall + own))
    return replace(
        found,
        forms=tuple(forms),
        falls=tuple(forms.values()),
        leak=inflate(leak, len(found.forms)),
        tokens=found.tokens or len(found.forms),
    )


def _gap(tokens: Tokens, count: int) -> tuple[float, float]:
    """By how much a soft maximum of so many falls short, and strays to either side."""
    cold = abs(tokens.coldness)
    if math.isinf(cold):
        return 0.0, tokens.leak
    # the coldness is rounded, too
    return inflate(softmax_gap(count) / cold, 2), inflate(2 * tokens.stray / cold + tokens.leak, 3)


def as_tokens(graph: Graph, rest: Form, atoms: Sequence[tuple[int, fmpq]]) -> Tokens | None:
    """rest + c * atom as a maximum or minimum of forms; None if it is none."""
    if not atoms:
        return Tokens((rest,))
    if len(atoms) > 1:
        return None
    number, c = atoms[0]
    match graph.atoms[number]:
        case Relu(argument=argument):
            return Tokens((rest, rest + argument.scaled(c)), math.inf if c > 0 else -math.inf)
        case Maximum(arguments=forms):
            parts = tuple(rest + form.scaled(c) for form in forms)
            return Tokens((rest, *parts), math.inf if c > 0 else -math.inf)
        case Gate(logit=logit, value=value):
            return _soft(graph, rest, c, (logit,), (value,))
        case Mean(logits=logits, values=values):
            return _soft(graph, rest, c, logits, values)
    return None


def _soft(
    graph: Graph, rest: Form, c: fmpq, logits: Sequence[Form], values: Sequence[Form]
) -> Tokens | None:
    """The tokens of a softmax, if its logits are its values times one factor, nearly.

    Tokens that stay behind the reference by 40 are left out, whatever they hold; and those that
    trail another one by a constant of 40 or more, whatever is asked.
    """
    leader, trailing = _trailing(logits)
    if trailing:
        return _without(graph, rest, c, logits, values, leader, trailing)
    tops = [graph.range(logit)[1] for logit in logits]
    lost = _weights_of([-top for top in tops if top <= -BEATEN])
    ends = [(0.0, 0.0), *(graph.range(value) for value in values)]
    wide = max(b for _, b in ends) - min(a for a, _ in ends)
    leak = inflate(lost * wide * abs(nearest(c)), 4)
    near = [j for j, top in enumerate(tops) if top > -BEATEN]
    logits, values = [logits[j] for j in near], [values[j] for j in near]
    chosen = next(((u, v) for u, v in zip(logits, values, strict=True) if not v.is_constant), None)
    if chosen is None:
        return None
    factor = _factor(graph, *chosen)
    if factor is None:
        return None
    strays = [graph.range(u - v.scaled(factor)) for u, v in zip(logits, values, strict=True)]
    keep = [max(abs(a), abs(b)) for a, b in strays]
    cold = nearest(factor / c)
    parts = tuple(rest + v.scaled(c) for v in values)
    handicaps = [(j, a, b) for j, (a, b) in enumerate(strays) if keep[j] > 1e-3]
    if handicaps:
        found = _handicapped(graph, rest, parts, strays, cold)
        return None if found is None else replace(found, leak=leak)
    return Tokens((rest, *parts), cold, max(keep), leak)


def _trailing(logits: Sequence[Form]) -> tuple[int, dict[int, float]]:
    """Of few tokens, the reference being number 0: those that trail, and by how much.

    Also a token that the reference trails, which is to take its place, or 0.
    """
    every = (NOTHING, *logits)
    found: dict[int, float] = {}
    if len(every) > _MOST_TRAILED:
        return 0, found
    for j, k in itertools.permutations(range(len(every)), 2):
        ahead = every[k] - every[j]
        if ahead.is_constant and k not in found:
            behind = down(nearest(ahead.constant))
            if behind >= BEATEN:
                found[j] = max(behind, found.get(j, 0.0))
    left = [j for j in range(len(every)) if j not in found]
    return left[0], found


def _without(
    graph: Graph,
    rest: Form,
    c: fmpq,
    logits: Sequence[Form],
    values: Sequence[Form],
    leader: int,
    trailing: dict[int, float],
) -> Tokens | None:
    """The softmax of the others: what trails has at most the sum of e^-behind of the weight."""
    every, held = (NOTHING, *logits), (NOTHING, *values)
    ends = [graph.range(value) for value in held]
    wide = max(b for _, b in ends) - min(a for a, _ in ends)
    leak = inflate(_weights_of(list(trailing.values())) * wide * abs(nearest(c)), 4)
    kept = [j for j in range(len(every)) if j not in trailing and j != leader]
    base = rest + held[leader].scaled(c)
    if not kept:
        return Tokens((base,), leak=leak)
    found = _soft(
        graph,
        base,
        c,
        [every[j] - every[leader] for j in kept],
        [held[j] - held[leader] for j in kept],
    )
    return None if found is None else replace(found, leak=inflate(found.leak + leak))


def _handicapped(
    graph: Graph,
    rest: Form,
    parts: tuple[Form, ...],
    strays: Sequence[Ends],
    cold: float,
) -> Tokens | None:
    """Tokens whose logits are lower than their values ask for must lose, and merely leak.

    They are taken as the same form less so much that the logits fit again.
    """
    middles = [0.0, *(0.5 * (a + b) for a, b in strays)]
    top = max(middles)
    shifts = [min(m - top, 0.0) for m in middles]
    ends = [(0.0, 0.0), *strays]
    if not np.isfinite(ends).all():
        return None
    off = max(
        max(abs(Fraction(end) - Fraction(top) - Fraction(s)) for end in (a, b))
        for (a, b), s in zip(ends, shifts, strict=True)
    )
    if off > 1e-3:
        return None
    forms = [rest, *parts]
    spread = [graph.range(form) for form in forms]
    if not np.isfinite(spread).all():
        return None
    sign = 1.0 if cold > 0 else -1.0
    best = max(
        sign * (a if sign > 0 else b) for (a, b), s in zip(spread, shifts, strict=True) if not s
    )
    kept = [form for form, s in zip(forms, shifts, strict=True) if not s]
    behind = [
        _behind(best, sign * (b if sign > 0 else a), abs(cold), above_float(Fraction(s) + 4 * off))
        for (a, b), s in zip(spread, shifts, strict=True)
        if s
    ]
    if not all(b >= BEATEN for b in behind):
        return None
    wide = max(b for _, b in spread) - min(a for a, _ in spread)
    more = inflate(0.5 * abs(cold) * _weights_of(behind) * wide, 4)  # the coldness is rounded, too
    return Tokens(tuple(kept), cold, above_float(off + Fraction(more)))


def _behind(best: float, other: float, cold: float, less: float) -> float:
    """(best - other) cold - less from below; the coldness is rounded, as all else."""
    size = (abs(best) + abs(other)) * cold + abs(less)
    return (best - other) * cold - less - float(stray(5, size))


def _weights_of(behind: Sequence[float]) -> float:
    """sum exp(-b), from above."""
    return float(sum_up(exp(Interval.point(-np.array(behind, dtype=float))).hi))


def _factor(graph: Graph, logit: Form, value: Form) -> fmpq | None:
    """logit = factor * value, judged by the term that may be largest: not by what leaks."""
    if logit.body is value.body:
        return logit.scale / value.scale
    atoms, c = value.floats
    atom = int(atoms[np.argmax(np.abs(c) * graph.bounds.sizes(atoms))])
    found = logit.get(atom)
    return None if found is None else found / value.coefficient(atom)


class Truth(Protocol):
    """What forms are at the target's own values."""

    def form(self, form: Form) -> Form: ...

    def range(self, form: Form) -> Ends: ...


def hold_contest(graph: Graph, ours: Tokens, theirs: Tokens, truth: Truth) -> Contest | None:
    """Pair the Transformer's forms with the target's; None if that cannot be done.

    A form of the target without a partner must never lead, but for a small excess. A form of the
    Transformer without one must stay below one of the target's, but for a small excess, on the
    true domain: then the target's maximum is the same with that form, less the excess, put beside
    the others.
    A form that stays below another even where values deviate falls short with it, but has no say
    in how the maximum moves.
    """
    if ours.is_minimum != theirs.is_minimum and len(ours.forms) > 1 and len(theirs.forms) > 1:
        return None
    if not math.isinf(theirs.coldness):  # the lemma is about a hard maximum on the target's side
        return None
    minimum = ours.is_minimum if len(ours.forms) > 1 else theirs.is_minimum
    sign = -ONE if minimum else ONE
    mine = [form.scaled(sign) for form in ours.forms]
    goals = [form.scaled(sign) for form in theirs.forms]
    partners = _partners([truth.form(form) for form in mine], goals)
    ranges = [graph.range(form) for form in mine]
    alive, leak = (list(range(len(mine))), 0.0) if ours.tokens else _contenders(ranges, ours)
    best = max(alive, key=lambda t: ranges[t][0])
    alive, count = [t for t in alive if t == best or ranges[t][1] > ranges[best][0]], len(alive)
    covered = {partners[t] for t in alive}
    over = 0.0
    if len(covered) < len(goals):
        kept = [goals[j] for j in covered]
        beaten = [goal for j, goal in enumerate(goals) if j not in covered]
        over = max(excess(goal, kept, truth.range) for goal in beaten)
        if not over <= _SMALL * max(high - low for low, high in map(truth.range, goals)):
            return None
    residuals = {t: truth.range(mine[t] - goals[partners[t]]) for t in alive}
    nearest_one = {
        j: min((t for t in alive if partners[t] == j), key=lambda t: _size(residuals[t]))
        for j in covered
    }
    for t in alive:
        if nearest_one[partners[t]] != t:  # stays below one of the goals, but for an excess
            beyond = min(truth.range(mine[t] - goal)[1] for goal in goals)
            residuals[t] = (max(0.0, beyond),) * 2
    if ours.falls:
        residuals = {t: (down(low - ours.falls[t]), high) for t, (low, high) in residuals.items()}
    gap, away = _gap(ours, ours.tokens or count)
    ends = tuple(residuals[t] for t in alive)
    away = inflate(away + leak + over, 2)
    return Contest(tuple(mine[t] for t in alive), ends, gap, away, minimum)


def _size(ends: Ends) -> float:
    return max(abs(ends[0]), abs(ends[1]))


def _contenders(ranges: Sequence[Ends], ours: Tokens) -> tuple[list[int], float]:
    """Tokens that are not beaten, and what the beaten ones leak."""
    cold = abs(ours.coldness)
    if len(ranges) == 1 or math.isinf(cold):
        return list(range(len(ranges))), 0.0
    floor = max(low for low, _ in ranges)
    behind = [_behind(floor, high, cold, 2 * ours.stray) for _, high in ranges]
    alive = [t for t, b in enumerate(behind) if not b >= BEATEN]
    wide = max(high for _, high in ranges) - min(low for low, _ in ranges)
    lost = _weights_of([b for b in behind if b >= BEATEN])
    return alive, inflate(lost * wide, 3)


def _partners(mine: Sequence[Form], goals: Sequence[Form]) -> list[int]:
    """For each form the one most like it, judged by values at one point: a guess, checked later."""
    if len(goals) == 1:
        return [0] * len(mine)
    values = np.array([somewhere(form) for form in goals])
    return [int(np.abs(values - somewhere(form)).argmin()) for form in mine]


def somewhere(form: Form) -> float:
    """The value of a form at one arbitrary point."""
    atoms, c = form.floats
    return nearest(form.constant) + float(c @ np.sin(1.0 + 12.9898 * atoms))


def with_crumbs(
    contest: Contest, ours: tuple[float, float], theirs: tuple[float, float]
) -> Contest:
    sizes = max(map(abs, ours)) + max(map(abs, theirs))
    if not sizes:
        return contest
    return replace(contest, stray=inflate(contest.stray + sizes, 2))
