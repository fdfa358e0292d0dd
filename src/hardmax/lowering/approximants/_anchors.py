"""One softmax head over anchors: a Gaussian partition of unity with fitted values."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import frexp, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import PrecisionError, RequestError, ShapeError
from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._minimax import minimax_step
from hardmax.lowering.approximants._supremum import supremum
from hardmax.lowering.approximants._waves import turns_beyond
from hardmax.numerics import FLOAT64, UNIT, Format, finite_array

_FLATNESS = (0.2, 0.3, 0.45, 0.7, 1.0, 1.5, 2.2, 3.2)  # coldness * spacing^2
_GHOSTS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0)  # spacings beyond each end
_RIDGE = 1e-13
_FEW_TURNS = 4
MOST_FOR_WAVES = 256
_LADDER = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)


@dataclass(frozen=True, eq=False)
class AnchorFit:
    """sum_k p_k values_k with p = softmax of coldness (x e_k - e_k^2 / 2); |f - it| <= error."""

    anchors: np.ndarray
    values: np.ndarray
    coldness: float
    error: float

    def __post_init__(self) -> None:
        anchors = finite_array(self.anchors, "anchors", ndim=1)
        values = finite_array(self.values, "values", ndim=1)
        if len(anchors) != len(values) or len(anchors) < 2:
            raise ShapeError("A fit needs two or more anchors, and a value at each.")
        object.__setattr__(self, "anchors", anchors)
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"AnchorFit({len(self.anchors)} anchors, error <= {self.error:.3g})"

    def at(self, points: ArrayLike) -> np.ndarray:
        return np.asarray(weights(points, self.anchors, self.coldness) @ self.values)

    def rounding(self, reach: float, format: Format = FLOAT64) -> float:
        """About what evaluation costs for |x| <= reach, in that format; nothing in float64."""
        if format is FLOAT64:
            return 0.0
        middle = 0.5 * (self.anchors[0] + self.anchors[-1])
        x = np.linspace(self.anchors[0], self.anchors[-1], 8 * len(self.anchors))
        x = x[np.abs(x) <= reach]
        size = float((weights(x, self.anchors, self.coldness) @ np.abs(self.values)).max())
        logit = self.coldness * max(reach, float(np.abs(self.anchors - middle).max())) ** 2
        return format.unit * size * (len(self.anchors) + 12.0 + 6.0 * logit)

    def ball(self, x: Any) -> Any:
        """The same on `flint.arb` and `flint.arb_series`, for equally spaced anchors.

        Around the anchor nearest to x the weights are q^j a_j with q = exp(coldness D (x - e))
        and a_j = exp(-coldness (j D)^2 / 2): two Horner schemes, in q and in 1/q.
        """
        from flint import arb, arb_series, ctx

        here = float((x[0] if isinstance(x, arb_series) else x).mid())
        k = int(np.argmin(np.abs(self.anchors - here)))
        step = float(self.anchors[1] - self.anchors[0])
        q = (arb(self.coldness) * step * (x - arb(float(self.anchors[k])))).exp()
        decay = _decay(self.coldness, step, len(self.anchors), ctx.prec)
        right, left = self.values[k:], self.values[: k + 1][::-1]
        above, total = _horner(q, right, decay)
        below, other = _horner(1 / q, left, decay)
        return (above + below - float(self.values[k])) / (total + other - 1)


@lru_cache(maxsize=8)
def _decay(coldness: float, step: float, count: int, bits: int) -> tuple[Any, ...]:
    """exp(-coldness (j step)^2 / 2), at the present precision of so many bits."""
    from flint import arb

    return tuple((-(coldness * (j * arb(step)) ** 2) / 2).exp() for j in range(count))


def _horner(q: Any, values: np.ndarray, decay: tuple[Any, ...]) -> tuple[Any, Any]:
    """sum_j v_j a_j q^j and sum_j a_j q^j."""
    top, bottom = q * 0, q * 0
    for v, a in zip(values[::-1], decay[len(values) - 1 :: -1], strict=True):
        top, bottom = top * q + float(v) * a, bottom * q + a
    return top, bottom


def weights(points: ArrayLike, anchors: np.ndarray, coldness: float) -> np.ndarray:
    """The softmax weights, a row for each point."""
    x = np.asarray(points, dtype=np.float64)[..., None]
    scores = -0.5 * coldness * (x - anchors) ** 2
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def fit_anchors(curve: Curve, anchors: int, format: Format = FLOAT64) -> AnchorFit:
    """The curve by one head over so many equally spaced anchors, the outer ones beyond its ends.

    The weights are a Gaussian partition of unity: the score x e - e^2 / 2 is -(x - e)^2 / 2 up to
    x^2 / 2, which all anchors share. Their mean misses f by about f'' / (2 coldness), so values
    f(e) - f''(e) / (2 coldness) are better than f(e), and the best values better still: given
    anchors and coldness they are a linear problem, solved by least squares for several widths and
    then by one linear program for the smallest largest error. Anchors beyond the ends take part
    with values of their own, so f is never needed outside its domain.

    The error is proved for the floats returned. Anchors are multiples of a short binary fraction,
    so equal spacing holds exactly. Values that cancel round more than they gain in a coarse format:
    fits are compared by error and rounding together, and held down by a ridge of its unit.
    """
    if anchors < 2:
        raise RequestError(f"A fit needs two or more anchors, but {anchors} were asked.")
    fit = _guessed(curve, int(anchors), format)
    _, error = supremum(lambda x: fit.ball(x) - curve.ball(x), curve.low, curve.high)
    return replace(fit, error=error)


def anchors_for(
    curve: Curve,
    error: float,
    *,
    most: int = 64,
    most_for_waves: int = MOST_FOR_WAVES,
    format: Format = FLOAT64,
) -> AnchorFit:
    """The first fit on a ladder of sizes that is proved to reach the error.

    Fewer anchors than turns follow no waves: a curve that turns often by more than twice the error
    begins with three anchors for every two turns, and may have `most_for_waves`.
    """
    if not error > 0.0:
        raise RequestError(f"An error must be positive, but {error!r} was asked.")
    best, reached = np.inf, list[float]()
    turns, count = turns_beyond(curve, 2.0 * error), 0
    few = turns <= _FEW_TURNS
    limit, sizes = (most, list(_LADDER)) if few else (most_for_waves, _wave_sizes(turns))
    if not few and sizes[0] > limit:
        raise PrecisionError(
            f"{curve.name} turns {turns:,} times or more on [{curve.low:g}, {curve.high:g}], too "
            f"often for one head over {limit} anchors. Shrink the domain, or take another route."
        )
    for count in [size for size in sizes if size <= limit]:
        guess = _guessed(curve, count, format)
        best = min(best, guess.error + guess.rounding(curve.reach, format))
        reached.append(best)
        if len(reached) > 8 and best > 30.0 * error and best > 0.3 * reached[-5]:
            break  # a singular end or too many waves: more anchors hardly help
        if best <= error:
            fit = fit_anchors(curve, count, format)
            if fit.error <= error:
                return fit
            best = fit.error  # what is proved counts
    raise PrecisionError(
        f"{count} anchors bring one head within about {best:.3g} of {curve.name} on "
        f"[{curve.low:g}, {curve.high:g}], but {error:.3g} was asked. Ask for a larger error."
    )


def _wave_sizes(turns: int) -> list[int]:
    """From three anchors for every two turns on, in steps of 3%."""
    sizes = [3 * turns // 2 + 2]
    while sizes[-1] <= 3 * turns:
        sizes.append(sizes[-1] + max(1, sizes[-1] // 32))
    return sizes


@lru_cache(maxsize=64)
def _guessed(curve: Curve, count: int, format: Format) -> AnchorFit:
    """The best fit found; its error is measured on a grid, not proved."""
    u = -np.cos(np.linspace(0.0, np.pi, 5 * count + 40))
    x = 0.5 * (curve.low + curve.high) + 0.5 * (curve.high - curve.low) * u
    f, large = curve.at(x), count > 64  # many anchors: only the usual widths
    fits = []
    for beyond in _GHOSTS[-1:] if large else _GHOSTS:
        if count - 1 - 2.0 * beyond >= 1.0:
            e = _spaced(curve, count, beyond)
            usual = _FLATNESS[4:7] if large else _FLATNESS  # for speed
            for flatness in usual:
                coldness = flatness / float(e[1] - e[0]) ** 2
                fits.append(_least_squares(x, f, e, coldness, _ridge(format)))

    def score(fit: AnchorFit) -> float:
        return _score(fit) if format is FLOAT64 else fit.error + fit.rounding(curve.reach, format)

    best = min(fits, key=score)
    step = minimax_step(
        weights(x, best.anchors, best.coldness), f - best.at(x), _ridge(format) * sqrt(len(x))
    )
    level = replace(best, values=best.values + step)
    level = replace(level, error=float(np.abs(f - level.at(x)).max()))
    return min(best, level, key=score)


def _ridge(format: Format) -> float:
    return max(_RIDGE, format.unit) if format is not FLOAT64 else _RIDGE


def _score(fit: AnchorFit) -> float:
    """The error, and a hundred times what rounding of large values may cost."""
    return fit.error + 1e3 * UNIT * float(np.abs(fit.values).max())


def _spaced(curve: Curve, count: int, beyond: float) -> np.ndarray:
    """Equally spaced floats, exactly: multiples of 2^-k with few digits."""
    spacing = (curve.high - curve.low) / (count - 1 - 2.0 * beyond)
    unit = 2.0 ** (frexp(spacing)[1] - 16)
    spacing = unit * np.ceil(spacing / unit)
    first = 0.5 * (curve.low + curve.high) - 0.5 * spacing * (count - 1)
    return np.asarray(unit * np.round(first / unit) + spacing * np.arange(count))


def _least_squares(
    x: np.ndarray, f: np.ndarray, e: np.ndarray, coldness: float, ridge: float
) -> AnchorFit:
    p = weights(x, e, coldness)
    q, r = np.linalg.qr(np.concatenate([p, ridge * sqrt(len(x)) * np.eye(len(e))]))
    values = np.linalg.solve(r, q[: len(x)].T @ f)
    return AnchorFit(e, values, coldness, float(np.abs(f - p @ values).max()))
