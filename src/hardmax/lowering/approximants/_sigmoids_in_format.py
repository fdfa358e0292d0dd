"""Sums of sigmoids whose coefficients are numbers of a coarse format, good when evaluated in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._sigmoids import (
    FEW_TURNS,
    MOST_SIGMOIDS,
    SigmoidSum,
    SigmoidTerm,
    fit_sigmoids,
    fit_to_waves,
    sigmoids_for,
)
from hardmax.lowering.approximants._supremum import supremum
from hardmax.lowering.approximants._waves import turns_beyond
from hardmax.numerics import FLOAT64, Format

_SPARE_DIGITS = (0, 3, 6)  # coefficients may be so many powers of two larger, if that helps
_MORE = 6  # heads than in float64
_POINTS = 400


def sigmoids_in_format(
    curve: Curve,
    error: float,
    format: Format,
    *,
    affine: bool = True,
    most_for_waves: int = MOST_SIGMOIDS,
) -> SigmoidSum:
    """The fewest heads whose sum, evaluated in the format, is expected within the error.

    In float64 this is `sigmoids_for`. In a coarse format the error of a fit and what evaluating it
    costs, `SigmoidSum.rounding`, pull in two directions: large coefficients that cancel come
    closer and round more. So fits are made with coefficients of three sizes, rounded to the format
    (`rounded_to`), proved as they are then, and compared by the sum of both. For 1/x on [0.1, 1] to
    1e-3 in float32 coefficients that are 8 times larger than the format's unit suggests save a
    head, 4 instead of 5. Without `affine` values are constants and there is no linear term.

    The search starts from as many heads as float64 takes, which no coarser format improves on.
    """
    least = sigmoids_for(
        curve, error, affine_values=affine, linear_term=affine, most_for_waves=most_for_waves
    )
    if format is FLOAT64:
        return least
    best, turns = np.inf, turns_beyond(curve, 2.0 * error)
    for heads in range(least.heads, least.heads + _MORE + 1):
        fits = list(_fits(curve, error, heads, format, affine, waves=turns > FEW_TURNS))
        totals = [fit.error + fit.rounding(curve.reach, format) for fit in fits]
        if min(totals) <= error:
            return fits[int(np.argmin(totals))]
        if min(totals) > 0.7 * best:
            break
        best = min(best, *totals)
    raise PrecisionError(
        f"Sums of sigmoids come within {best:.3g} of {curve.name} on [{curve.low:g}, "
        f"{curve.high:g}] when evaluated in {format.name}, but {error:.3g} was asked. Ask for a "
        f"larger error, shrink the domain, or take a finer format."
    )


def _fits(
    curve: Curve, error: float, heads: int, format: Format, affine: bool, *, waves: bool
) -> Iterator[SigmoidSum]:
    for spare in _SPARE_DIGITS:
        finer = replace(format, digits=min(format.digits + spare, FLOAT64.digits))
        if waves:
            fit = fit_to_waves(curve, error, heads, affine, affine, finer)
        else:
            fit = fit_sigmoids(curve, heads, affine_values=affine, linear_term=affine, format=finer)
        yield rounded_to(format, curve, fit, affine=affine)


def rounded_to(format: Format, curve: Curve, fit: SigmoidSum, *, affine: bool) -> SigmoidSum:
    """A fit with coefficients of the format, near to the best among those, and proved.

    Steepness and shift are rounded first; what is left is linear, and is rounded one coefficient
    at a time, the largest first, the others fitted anew each time, so that each makes up for what
    those before it lost. Rounding them all at once loses up to half a unit of every one of them.
    """
    gates = [(_in(format, t.steepness), _in(format, t.shift)) for t in fit.terms]
    x = 0.5 * (curve.low + curve.high) - 0.5 * (curve.high - curve.low) * np.cos(
        np.linspace(0.0, np.pi, _POINTS)
    )
    sigmoids = [1.0 / (1.0 + np.exp(-np.clip(w * x + b, -700.0, 700.0))) for w, b in gates]
    columns = [np.ones_like(x), *sigmoids]
    start = [fit.offset, *(t.constant for t in fit.terms)]
    if affine:
        columns += [x, *(x * s for s in sigmoids)]
        start += [fit.slope, *(t.slope for t in fit.terms)]
    linear = _one_by_one(format, np.stack(columns, axis=1), curve.at(x), np.array(start))
    heads = len(gates)
    constants, rest = linear[1 : heads + 1], linear[heads + 1 :]
    slopes = rest[1:] if affine else np.zeros(heads)
    terms = zip(constants.tolist(), slopes.tolist(), gates, strict=True)
    rounded = SigmoidSum(
        float(linear[0]),
        float(rest[0]) if affine else 0.0,
        tuple(SigmoidTerm(c, d, w, b) for c, d, (w, b) in terms),
        np.inf,
    )
    _, error = supremum(lambda x: rounded.ball(x) - curve.ball(x), curve.low, curve.high)
    return replace(rounded, error=error)


def _one_by_one(
    format: Format, columns: np.ndarray, goal: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Coefficients of the format: each of those still free moves to make up for the last one.

    The moves are least squares with a ridge of the format's unit, and are taken only where they
    bring the sum closer, since `start` may be minimax, which least squares is not.
    """
    found, free = start.copy(), list(np.argsort(-np.abs(start * np.abs(columns).max(axis=0))))
    while free:
        i = free.pop(0)
        found[i] = _in(format, float(found[i]))
        if not free:
            break
        residual = goal - columns @ found
        ridge = np.eye(len(free)) * format.unit * np.sqrt(len(columns))
        system = np.concatenate([columns[:, free], ridge])
        move = np.linalg.lstsq(system, np.append(residual, np.zeros(len(free))), rcond=None)[0]
        moved = found.copy()
        moved[free] += move
        if np.abs(goal - columns @ moved).max() < np.abs(residual).max():
            found = moved
    return found


def _in(format: Format, number: float) -> float:
    return float(format.stored(np.array(number)))
