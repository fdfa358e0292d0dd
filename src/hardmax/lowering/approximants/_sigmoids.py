"""Sums of few sigmoids with affine factors, fitted to a curve and proved."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import PrecisionError, RequestError
from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._levelling import levelled
from hardmax.lowering.approximants._projection_fit import Problem, State, descend
from hardmax.lowering.approximants._sigmoid_starts import neighbours, starts
from hardmax.lowering.approximants._supremum import supremum
from hardmax.lowering.approximants._waves import (
    levelled_waves,
    may_reach,
    searched_for_waves,
    turns_beyond,
)
from hardmax.numerics import FLOAT64, Format

_SEARCH, _POLISH = 1e-10, 1e-13  # ridges; the second when coefficients turned out small
FEW_TURNS = 4  # up to here heads are tried from 0 on
MOST_SIGMOIDS = 64  # that are fitted to waves
_WORK = 6e5  # for waves: the time of a fit grows with the cube of its heads


@dataclass(frozen=True)
class SigmoidTerm:
    """(constant + slope x) sigmoid(steepness x + shift): one head."""

    constant: float
    slope: float
    steepness: float
    shift: float


@dataclass(frozen=True)
class SigmoidSum:
    """offset + slope x + sum of terms, within `error` of a curve: proved for these very floats."""

    offset: float
    slope: float
    terms: tuple[SigmoidTerm, ...]
    error: float

    def __repr__(self) -> str:
        return f"SigmoidSum({self.heads} heads, error <= {self.error:.3g})"

    @property
    def heads(self) -> int:
        return len(self.terms)

    def at(self, points: ArrayLike) -> np.ndarray:
        x = np.asarray(points, dtype=np.float64)
        total = self.offset + self.slope * x
        for t in self.terms:
            z = np.clip(t.steepness * x + t.shift, -700.0, 700.0)
            total = total + (t.constant + t.slope * x) / (1.0 + np.exp(-z))
        return np.asarray(total)

    def ball(self, x: Any) -> Any:
        """The same on `flint.arb` and `flint.arb_series`."""
        total = self.offset + self.slope * x
        for t in self.terms:
            total = total + (t.constant + t.slope * x) / (1 + (-(t.steepness * x + t.shift)).exp())
        return total

    def rounding(self, reach: float, format: Format = FLOAT64) -> float:
        """About what evaluation costs for |x| <= reach, in that format."""
        size = [
            (abs(t.constant) + abs(t.slope) * reach) * (10.0 + 0.5 * abs(t.steepness) * reach)
            for t in self.terms
        ]
        return format.unit * (sum(size) + abs(self.offset) + abs(self.slope) * reach)


def fit_sigmoids(
    curve: Curve,
    heads: int,
    *,
    affine_values: bool = True,
    linear_term: bool = True,
    budget: int = 1,
    format: Format = FLOAT64,
) -> SigmoidSum:
    """f(x) by offset + slope x + sum_h (c_h + d_h x) sigmoid(w_h x + b_h), with few heads.

    `affine_values=False` sets every d_h to 0 and `linear_term=False` the slope. The search is
    variable projection: given the sigmoids, the other coefficients are a linear least-squares
    problem, so Levenberg-Marquardt runs over (w_h, b_h) only, from some fifty fixed starts and
    from the best fit with one head less, then from shaken copies of the best. Linear programs
    then turn least squares into minimax. Nothing of this is trusted: the error is a proved
    supremum, within 1%, of the sum as rounded.

    With H heads and all terms there are 4H + 2 numbers to choose: 1/x on [0.1, 1] takes 4 heads
    for 2e-6. Each coefficient is kept below about error / (1000 u), so that evaluating with the
    format's unit roundoff u costs a few per cent of the error (`SigmoidSum.rounding` estimates
    it). A larger `budget` tries more starts.
    """
    if heads < 0:
        raise RequestError(f"A sum needs 0 or more heads, but {heads} were asked.")
    options = (bool(affine_values), bool(linear_term), int(budget), format)
    return _fitted(curve, int(heads), *options)


@lru_cache(maxsize=256)
def _fitted(
    curve: Curve, heads: int, affine: bool, linear: bool, budget: int, format: Format
) -> SigmoidSum:
    state, problem, scale = _searched(curve, heads, affine, linear, budget, format)
    sums = [_in_x(curve, problem, state, scale)]
    if problem.worst(state) < 1e3 * problem.ridge * np.abs(state.linear).sum():
        freer = replace(problem, ridge=max(_POLISH, 1e3 * format.unit))
        polished = levelled(freer, descend(freer, state, 100), 10)
        sums.append(_in_x(curve, freer, polished, scale))
    proved = [_proved(curve, one) for one in sums]
    return min(proved, key=lambda one: one.error + 100.0 * one.rounding(curve.reach, format))


def _proved(curve: Curve, one: SigmoidSum) -> SigmoidSum:
    _, error = supremum(lambda x: one.ball(x) - curve.ball(x), curve.low, curve.high)
    return replace(one, error=error)


@lru_cache(maxsize=256)
def _searched(
    curve: Curve, heads: int, affine: bool, linear: bool, budget: int, format: Format
) -> tuple[State, Problem, float]:
    """The best sum found on [-1, 1], in units of `scale`."""
    unknowns = (4 if affine else 3) * heads + 2
    u = _grid(4 * unknowns + 20)
    f = curve.at(curve.across(u))
    scale = float(0.5 * np.ptp(f)) or 1.0
    problem = Problem(u, f / scale, linear, affine, max(_SEARCH, 1e3 * format.unit))
    if heads == 0:
        state = descend(problem, State.begin(np.zeros((1, 0)), np.zeros((1, 0))), 0)
        return levelled(problem, state, 1), problem, scale
    warm = None
    if heads > 1:
        warm = _searched(curve, heads - 1, affine, linear, budget, format)[0]
    state = descend(problem, starts(heads, u, f / scale, warm, 16 * budget), 40)
    state = descend(problem, state.best(10 * budget), 60)
    for seed in range(2 * budget):
        state = state.best(3)
        state = state.beside(descend(problem, neighbours(state, 24, seed), 40))
    state = descend(problem, state.best(3), 150).best(1)
    fine = _grid(10 * unknowns + 40)
    problem = replace(problem, u=fine, f=curve.at(curve.across(fine)) / scale)
    return levelled(problem, state, 15), problem, scale


def _grid(points: int) -> np.ndarray:
    """Chebyshev points, and a few that crowd at the ends for the sake of singular ones."""
    u = -np.cos(np.linspace(0.0, np.pi, points))
    crowd = (1.0 + u[1]) * 0.25 ** np.arange(1, 9)
    return np.unique(np.concatenate([u, -1.0 + crowd, 1.0 - crowd]))


def _in_x(curve: Curve, problem: Problem, state: State, scale: float) -> SigmoidSum:
    """The sum in the variable x = middle + half u, rounded to floats."""
    middle, half = 0.5 * (curve.low + curve.high), 0.5 * (curve.high - curve.low)
    offset, slope, c, d = (scale * part[0] for part in problem.split(state.linear, state.heads))
    w = np.exp(state.steep[0]) / half
    shift = -w * (middle + half * state.centre[0])
    terms = zip(c - d * middle / half, d / half, w, shift, strict=True)
    return SigmoidSum(
        float(offset - slope * middle / half),
        float(slope / half),
        tuple(SigmoidTerm(*(float(number) for number in term)) for term in terms),
        np.inf,
    )


def sigmoids_for(
    curve: Curve,
    error: float,
    *,
    affine_values: bool = True,
    linear_term: bool = True,
    most: int = 12,
    most_for_waves: int = MOST_SIGMOIDS,
    format: Format = FLOAT64,
) -> SigmoidSum:
    """The first of 0, 1, 2, ... heads whose fit is proved to reach the error.

    Errors fall geometrically. Once the rate shows that `most` heads will not do, as for a
    singular end, the search is given up. A curve that turns often by more than twice the error is
    another case (`_waves.py`): heads are tried from one a wave up to `most_for_waves`.
    """
    if not error > 0.0:
        raise RequestError(f"An error must be positive, but {error!r} was asked.")
    exactly = _as_one_sigmoid(curve)
    if exactly is not None and affine_values and linear_term:
        return exactly
    turns = turns_beyond(curve, 2.0 * error)
    if turns > FEW_TURNS:
        options = (affine_values, linear_term, format)
        return _following_waves(curve, error, turns, most_for_waves, *options)
    best, reached = np.inf, list[float]()
    for heads in range(most + 1):
        found = fit_sigmoids(
            curve, heads, affine_values=affine_values, linear_term=linear_term, format=format
        )
        if found.error <= error:
            return found
        best = min(best, found.error)
        reached.append(best)
        if np.isinf(found.error) or _hopeless(reached, error, most):  # inf: the curve's own doing
            break
    raise _missed(curve, error, len(reached) - 1, best)


def _missed(curve: Curve, error: float, heads: int, best: float) -> PrecisionError:
    if np.isinf(best):
        return PrecisionError(
            f"No sum of sigmoids is proved to follow {curve.name} on [{curve.low:g}, "
            f"{curve.high:g}], as it has no bound up to an end. Shrink the domain, so that "
            "rounding does not leave where it is defined."
        )
    return PrecisionError(
        f"{heads} heads bring a sum of sigmoids within {best:.3g} of {curve.name} on "
        f"[{curve.low:g}, {curve.high:g}], but {error:.3g} was asked. "
        "Ask for a larger error, or shrink the domain."
    )


def _following_waves(
    curve: Curve, error: float, turns: int, most: int, affine: bool, linear: bool, format: Format
) -> SigmoidSum:
    """From one head for every two turns (every turn, with constant factors) up, then down.

    A head more gains at most a factor of about a hundred, which says how many to add at once.
    """
    heads = first = turns // 2 if affine else turns
    if first > most:
        raise PrecisionError(
            f"{curve.name} turns {turns:,} times or more on [{curve.low:g}, {curve.high:g}], too "
            f"often for a sum of {most} sigmoids. Shrink the domain, or take another route."
        )
    found = fit_to_waves(curve, error, heads, affine, linear, format)
    reached, work, step = [found.error], float(heads**3), heads
    while not found.error <= error:
        step = max(1, int(np.log(found.error / error) / np.log(100.0)))
        if heads > 2 * first and step == 1:
            step = max(1, first // 4)  # waves within waves
        heads, work = heads + step, work + (heads + step) ** 3
        hopeless = heads > 3 * first and _hopeless(reached, error, len(reached) + 3)
        if heads > most or work > _WORK or hopeless:
            raise _missed(curve, error, heads - step, min(reached))
        found = fit_to_waves(curve, error, heads, affine, linear, format)
        reached.append(found.error)
    for fewer in range(found.heads - 1, found.heads - step, -1):
        smaller = fit_to_waves(curve, error, fewer, affine, linear, format)
        if not smaller.error <= error:
            break
        found = smaller
    return found


def fit_to_waves(
    curve: Curve, error: float, heads: int, affine: bool, linear: bool, format: Format
) -> SigmoidSum:
    """By least squares; levelled only if that is too large by little, and proved if it may do.

    The error of a sum that misses the mark anyway is as measured.
    """
    for search in (searched_for_waves, levelled_waves):
        state, problem, scale = search(curve, heads, affine, linear, format)
        worst = scale * problem.worst(state)
        if not may_reach(worst, error):
            break
    found = replace(_in_x(curve, problem, state, scale), error=worst)
    return _proved(curve, found) if worst <= error else found


def _as_one_sigmoid(curve: Curve) -> SigmoidSum | None:
    """A function that is one sigmoid times a line, as its record says: the fit would be dust off.

    The error is that of the rounding of floats, though over the reals there is none: checker and
    compiler bound the rounding of a product differently, and a claim of the last bit would be left
    undecided.
    """
    function = curve.function
    if function is None or function.gated is None:
        return None
    gated = function.gated
    term = SigmoidTerm(float(gated.constant), float(gated.slope), float(gated.steepness), 0.0)
    one = _proved(curve, SigmoidSum(float(gated.offset), 0.0, (term,), np.inf))
    return replace(one, error=one.error + one.rounding(curve.reach))


def _hopeless(reached: list[float], error: float, most: int) -> bool:
    """Whether errors that go on falling as over the last three heads miss the mark by far."""
    if len(reached) < 5:
        return False
    rate = np.log(reached[-4] / reached[-1]) / 3.0
    return bool(np.log(reached[-1] / error) > 1.3 * max(rate, 1e-3) * (most + 1 - len(reached)))
