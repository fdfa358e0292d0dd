"""What a piecewise linear function loses when every relu becomes x sigmoid(coldness x)."""

from __future__ import annotations

from dataclasses import dataclass
from math import fsum

import numpy as np

from hardmax._errors import RequestError
from hardmax.lowering.approximants._knots import PiecewiseFit
from hardmax.numerics import inflate, stray

PEAK = 0.27846454276107380  # max of y sigmoid(-y): W(1/e), rounded up
_AT = 1.2784645427610738  # attained at 1 + W(1/e)
_STEPS = np.concatenate([np.arange(0.0, 5.0, 0.1), np.arange(5.0, 10.0, 0.2), [12.0, 16.0, 25.0]])
_FAR = 30.0  # knots at coldness * distance beyond this are not looked at one by one
_MOST_NEAR = 64  # nor more than so many to each side
_ROUNDINGS = 512  # of a cell's sums: up to 128 terms, each with an exponential and its argument


@dataclass(frozen=True)
class Softening:
    """low <= soft(x) - hard(x) <= high for all x; adding `shift` leaves at most `centred`."""

    low: float
    high: float

    @property
    def size(self) -> float:
        """sup |soft - hard| is at most this."""
        return max(-self.low, self.high)

    @property
    def shift(self) -> float:
        return -0.5 * (self.low + self.high)

    @property
    def centred(self) -> float:
        """sup |soft + shift - hard| is at most this."""
        return float(inflate(0.5 * (self.high - self.low)))


def softening(fit: PiecewiseFit, coldness: float) -> Softening:
    """Bounds of soft - hard when relu(x - t) becomes (x - t) sigmoid(coldness (x - t)).

    Hard is a + b x + sum c_i relu(x - t_i) over the inner knots. One relu loses
    e(z) = |z| sigmoid(-coldness |z|), so soft - hard = -sum c_i e(x - t_i). As y = coldness |z|
    grows, y sigmoid(-y) rises to W(1/e) = 0.278465 at 1.278465 and then falls, and its second
    derivative is at most 1/2, and at most (2 + y) exp(-y), in size.

    The line is cut at the knots and at fixed distances from them. On a cell of width w the sum
    exceeds its larger end by at most w^2/8 sum |c_i| |e''|, and the sum of the suprema in any
    case: the better counts. Knots far away add |c_i| e(nearest of them). As neighbours share the
    line, the bound stays of the order of c/coldness and does not grow with the number of knots.
    It covers all real x; a single kink attains 0.278465 |c| / coldness.
    """
    if not coldness > 0.0:
        raise RequestError(f"A coldness must be positive, but got {coldness!r}.")
    t, c = fit.knots[1:-1], fit.kinks
    if not len(t):
        return Softening(0.0, 0.0)
    above, below = _cell_bounds(t, c, _cuts(t, coldness), coldness)
    slopes = np.abs(fit.slopes)
    sizes = fsum((slopes[1:] + slopes[:-1]).tolist())  # kinks are differences of rounded slopes
    slack = PEAK * (stray(2, sizes) + stray(_ROUNDINGS, float(np.abs(c).max()))) / coldness
    far = len(c) + 8  # knots far away are added up one by one
    return Softening(-float(inflate(above + slack, far)), float(inflate(below + slack, far)))


def _cuts(t: np.ndarray, coldness: float) -> np.ndarray:
    """The knots, and to each side fixed distances up to the middle of the way to the next."""
    middles = np.concatenate([[-np.inf], 0.5 * (t[1:] + t[:-1]), [np.inf]])
    right, left = t[:, None] + _STEPS / coldness, t[:, None] - _STEPS / coldness
    inner = [right[right < middles[1:, None]], left[left > middles[:-1, None]]]
    return np.unique(np.concatenate([[-np.inf, np.inf], t, *inner]))


def _cell_bounds(
    t: np.ndarray, c: np.ndarray, cuts: np.ndarray, coldness: float
) -> tuple[float, float]:
    """sup and -inf of sum c_i e(x - t_i), not below 0, over the cells between the cuts."""
    low, high = cuts[:-1], cuts[1:]
    reach = np.searchsorted(t, t + _FAR / coldness) - np.arange(len(t))
    near = min(int(reach.max()), _MOST_NEAR)
    first = np.searchsorted(t, low, "right") - near  # the window of knots that a cell looks at
    sums = np.zeros((5, len(low)))  # at both ends; largest, smallest; curvature
    for j in range(2 * near):
        i = first + j
        kink = np.where((i >= 0) & (i < len(t)), c[np.clip(i, 0, len(t) - 1)], 0.0)
        place = t[np.clip(i, 0, len(t) - 1)]
        sums += _one_knot(kink, coldness * (low - place), coldness * (high - place))
    far = _far(t, c, np.stack([first, first + 2 * near]), low, high, coldness)
    with np.errstate(invalid="ignore", over="ignore"):
        bend = np.where(sums[4] > 0.0, (coldness * (high - low)) ** 2 / 8.0 * sums[4], 0.0)
    above = np.minimum(np.maximum(sums[0], sums[1]) + bend, sums[2]) + far
    below = np.minimum(np.maximum(-sums[0], -sums[1]) + bend, -sums[3]) + far
    return max(0.0, float(above.max())) / coldness, max(0.0, float(below.max())) / coldness


def _one_knot(kink: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """c e at both ends, its largest and smallest value, and |c e''|, for y in [a, b]."""
    at_a, at_b = np.abs(a), np.abs(b)
    near = np.where((a <= 0.0) & (b >= 0.0), 0.0, np.minimum(at_a, at_b))
    e_a, e_b = _lost(at_a), _lost(at_b)
    top = np.where((near <= _AT) & (np.maximum(at_a, at_b) >= _AT), PEAK, np.maximum(e_a, e_b))
    bottom = np.where(near == 0.0, 0.0, np.minimum(e_a, e_b))
    curved = np.minimum(0.5, (2.0 + near) * np.exp(-near))
    most, least = np.maximum(kink * top, kink * bottom), np.minimum(kink * top, kink * bottom)
    return np.stack([kink * e_a, kink * e_b, most, least, np.abs(kink) * curved])


def _lost(y: np.ndarray) -> np.ndarray:
    """y sigmoid(-y) for y >= 0, and 0 at infinity."""
    y = np.minimum(y, 700.0)  # there it is below 1e-301
    return np.asarray(y / (1.0 + np.exp(y)))


def _far(
    t: np.ndarray, c: np.ndarray, window: np.ndarray, low: np.ndarray, high: np.ndarray, cold: float
) -> np.ndarray:
    """The most that knots outside the windows can add: |c| e(nearest), or the peak."""
    total = np.concatenate([[0.0], np.cumsum(np.abs(c))])
    left, right = np.clip(window, 0, len(t))
    before = cold * (low - t[np.maximum(left - 1, 0)])
    after = cold * (t[np.minimum(right, len(t) - 1)] - high)
    lost = [np.where(y >= _AT, _lost(np.maximum(y, 0.0)), PEAK) for y in (before, after)]
    return np.asarray(total[left] * lost[0] + (total[-1] - total[right]) * lost[1])


def coldness_for(fit: PiecewiseFit, allowed: float) -> float:
    """A coldness whose centred softening is at most `allowed`, within 1% of the smallest.

    A single kink's bound falls like 1/coldness and that of many crowded ones like 1/coldness^2;
    the search takes secants in logarithms. Where one kink decides, 1% of the bound is 1% of the
    coldness, and elsewhere less.
    """
    if not allowed > 0.0:
        raise RequestError(f"The softening allowed must be positive, but is {allowed!r}.")
    if not len(fit.kinks) or not np.abs(fit.kinks).max() > 0.0:
        return 1.0
    trials = list[tuple[float, float]]()  # log coldness, log of bound over allowed
    guess = float(np.log(PEAK * np.abs(fit.kinks).max() / allowed))
    for _ in range(60):
        trials.append((guess, float(np.log(softening(fit, np.exp(guess)).centred / allowed))))
        if -0.01 <= trials[-1][1] <= 0.0:
            return float(np.exp(guess))
        guess = _next_trial(trials)
    return float(np.exp(min(x for x, y in trials if y <= 0.0)))


def _next_trial(trials: list[tuple[float, float]]) -> float:
    """Where a line of slope -1 to -2 through the last trials meets -0.004."""
    x, y = trials[-1]
    slope = -1.4
    if len(trials) > 1 and trials[-2][0] != x:
        slope = float(np.clip((y - trials[-2][1]) / (x - trials[-2][0]), -2.2, -0.9))
    step = (-0.004 - y) / slope
    below = [a for a, b in trials if b > 0.0]
    above = [a for a, b in trials if b <= 0.0]
    if below and above and not max(below) < x + step < min(above):
        return 0.5 * (max(below) + min(above))
    return x + step
