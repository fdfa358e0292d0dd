"""Piecewise linear approximation of a function of which only a bound is known."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, sqrt
from typing import Any

import numpy as np

from hardmax._errors import DomainError, PrecisionError, RequestError
from hardmax.lowering.approximants._knots import PiecewiseFit
from hardmax.numerics import finite_array, inflate, stray

MOST_SAMPLES = 200_000
Function = Callable[[np.ndarray], Any]


def fit_knots_from_bound(
    value: Function, low: float, high: float, second_derivative_bound: float, error: float
) -> PiecewiseFit:
    """Within `error` of f, given that |f''| <= M and that `value` gives f.

    Interpolation at equal steps h errs by at most M h^2 / 8, and at equal knots no more can be
    promised: f'' = M and -M in turn makes f odd about every knot, so the best values are 0 and
    the error is M h^2 / 8. For convex f half of it is enough. Neither has to be known: f is
    sampled with a share of the error, and the samples are then joined by as few pieces as the
    rest of the error allows, which finds the shifts of a convex stretch by itself.

    `value` is taken at its word: its own rounding is not counted.
    """
    _check(low, high, error, second_derivative_bound, "second derivative")
    steps = (high - low) * sqrt(second_derivative_bound / (8.0 * error))
    shares = (1.0, 0.25, 1.0 / 32.0)
    return _fewest(value, low, high, [(share, steps / sqrt(share)) for share in shares], error, 2)


def fit_knots_lipschitz(
    value: Function, low: float, high: float, lipschitz: float, error: float
) -> PiecewiseFit:
    """Within `error` of f, given that |f(x) - f(y)| <= L |x - y| and that `value` gives f.

    Interpolation at equal steps h errs by at most L h / 2: at distance a and b = h - a from two
    knots, |f - line| is at most the mean of L a and L b with weights b/h and a/h, that is
    2 L a b / h. Samples are joined as in `fit_knots_from_bound`.
    """
    _check(low, high, error, lipschitz, "slope")
    steps = (high - low) * lipschitz / (2.0 * error)
    options = [(share, steps / share) for share in (1.0, 0.5, 0.25)]
    return _fewest(value, low, high, options, error, 1)


def _check(low: float, high: float, error: float, bound: float, what: str) -> None:
    if not (np.isfinite([low, high]).all() and low < high):
        raise DomainError(f"A fit needs finite ends, low < high, but got [{low}, {high}].")
    if not error > 0.0:
        raise RequestError(f"An error must be positive, but {error!r} was asked.")
    if not 0.0 <= bound < np.inf:
        raise RequestError(f"The bound of the {what} must be finite, but it is {bound!r}.")


def _fewest(
    value: Function,
    low: float,
    high: float,
    options: list[tuple[float, float]],
    error: float,
    order: int,
) -> PiecewiseFit:
    """The smallest of the fits that spend a given share of the error on sampling.

    Sampling with n steps costs share * error * (steps / n)^order.
    """
    if options[0][1] > MOST_SAMPLES:
        raise PrecisionError(
            f"An error of {error:.3g} takes {options[0][1]:.3g} samples, and more than "
            f"{MOST_SAMPLES} are refused. Ask for a larger error, or shrink the domain."
        )
    fits = []
    for share, steps in options:
        if steps <= 4.0 * MOST_SAMPLES:
            t = np.linspace(low, high, max(1, ceil(steps * (1.0 + 1e-9))) + 1)
            f = finite_array(np.broadcast_to(value(t), t.shape), "values")
            rounding = float(stray(32, float(np.abs(f).max())))  # of the interpolation, and of t
            rest = error * (1.0 - share) - 2.0 * rounding
            knots, values = _joined(t, f, rest) if rest > 0.0 else (t, f)
            apart = float(np.abs(np.interp(t, knots, values) - f).max())
            spent = share * error * (steps / (len(t) - 1)) ** order
            fits.append(PiecewiseFit(knots, values, float(inflate(spent + apart + rounding))))
    good = [fit for fit in fits if fit.error <= error]
    if not good:
        raise PrecisionError(f"Rounding alone costs {rounding:.3g}, but {error:.3g} was asked.")
    return min(good, key=lambda fit: (fit.pieces, fit.error))


def _joined(t: np.ndarray, f: np.ndarray, within: float) -> tuple[np.ndarray, np.ndarray]:
    """Samples joined by long pieces: a fan of lines through the last knot, until it closes.

    Both functions are piecewise linear with knots among t, so that they differ most at some t.
    The line that survives longest touches the band, and starts the next piece where convexity
    wants it: below a convex f, above a concave one.
    """
    knots, values = [0], [float(f[0])]
    low, high = -np.inf, np.inf
    for j in range(1, len(t)):
        width = t[j] - t[knots[-1]]
        lower, upper = (f[j] - within - values[-1]) / width, (f[j] + within - values[-1]) / width
        if max(low, lower) > min(high, upper):
            slope = high if lower > high else low
            values.append(float(values[-1] + slope * (t[j - 1] - t[knots[-1]])))
            knots.append(j - 1)
            width = t[j] - t[j - 1]
            low, high = (f[j] - within - values[-1]) / width, (f[j] + within - values[-1]) / width
        else:
            low, high = max(low, lower), min(high, upper)
    slope = min(max((f[-1] - values[-1]) / (t[-1] - t[knots[-1]]), low), high)
    values.append(float(values[-1] + slope * (t[-1] - t[knots[-1]])))
    return t[[*knots, len(t) - 1]], np.array(values)
