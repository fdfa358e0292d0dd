"""A proved bound of |f - line| on every piece, from one interior point per piece."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hardmax.lowering.approximants._curve import Curve
from hardmax.lowering.approximants._zones import Zone, range_on
from hardmax.numerics import ball_ends, ball_size_up, precision

if TYPE_CHECKING:
    from flint import arb

    _Line = tuple[arb, arb, arb]
    _Part = tuple[float, float, arb, arb]

_BITS = 96


def proved_error(
    curve: Curve, zones: tuple[Zone, ...], knots: np.ndarray, values: np.ndarray
) -> float:
    """sup |f - the interpolant of (knots, values)|, by construction and not by sampling.

    On a part [a, b] of a piece inside a zone of sign s, g = s (line - f) is concave. So
    min(g(a), g(b)) <= g(x) <= g(m) + g'(m)(x - m) for every m in (a, b): three balls and a
    derivative bound |g|, and f' is never needed at the ends, where sqrt has none. arb m is valid;
    the float maximiser and one Newton step make it tight. In an undecided zone with |f''| <= M,
    |line - f| <= max(|g(a)|, |g(b)|) + M (b - a)^2 / 8, or the range of g over [a, b].
    """
    borders = np.array([zone.low for zone in zones[1:]])
    cuts = np.union1d(knots, borders)
    piece = np.clip(np.searchsorted(knots, cuts[:-1], "right") - 1, 0, len(knots) - 2)
    place = np.searchsorted(borders, cuts[:-1], "right")
    signs = np.array([zone.sign for zone in zones])[place]
    guesses = _guesses(curve, cuts, signs, knots, values)
    with precision(_BITS, 3):
        lines = [_line(knots, values, i) for i in range(len(knots) - 1)]
        f = [curve.ball(_point(x)) for x in cuts]
        worst = 0.0
        for j, i in enumerate(piece):
            part = (float(cuts[j]), float(cuts[j + 1]), f[j], f[j + 1])
            if signs[j] == 0:
                found = _undecided(curve, lines[i], part, zones[place[j]].bound)
            else:
                found = _decided(curve, lines[i], part, int(signs[j]), float(guesses[j]))
            worst = max(worst, found)
    return worst


def _point(x: float) -> arb:
    from flint import arb

    return arb(float(x))


def _line(knots: np.ndarray, values: np.ndarray, i: int) -> _Line:
    """A knot, its value and the slope of piece i."""
    x, y = _point(knots[i]), _point(values[i])
    return x, y, (_point(values[i + 1]) - y) / (_point(knots[i + 1]) - x)


def _on(line: _Line, x: arb) -> arb:
    return line[1] + line[2] * (x - line[0])


def _decided(curve: Curve, line: _Line, part: _Part, sign: int, guess: float) -> float:
    a, b, fa, fb = part
    at_ends = [ball_size_up(_on(line, _point(x)) - y) for x, y in ((a, fa), (b, fb))]
    above, better = _tangent(curve, line, a, b, sign, guess)
    if better is not None:
        above = min(above, _tangent(curve, line, a, b, sign, better)[0])
    return max(*at_ends, above)


def _tangent(
    curve: Curve, line: _Line, a: float, b: float, sign: int, m: float
) -> tuple[float, float | None]:
    """The tangent's bound of g on [a, b], and a better m if this one is visibly off."""
    from flint import arb_series

    series = curve.ball(arb_series([_point(m), 1], prec=3))
    g, slope = sign * (_on(line, _point(m)) - series[0]), sign * (line[2] - series[1])
    rise = [slope * (_point(end) - _point(m)) for end in (a, b)]
    bound = max(ball_ends(g + rise[0])[1], ball_ends(g + rise[1])[1])
    height, bend = float(g.mid()), -2.0 * sign * float(series[2].mid())
    if bound <= height * (1.0 + 1e-8) or not bend < 0.0:
        return bound, None
    new = m - float(slope.mid()) / bend
    return bound, min(max(new, a + 1e-3 * (b - a)), b - 1e-3 * (b - a))


def _undecided(curve: Curve, line: _Line, part: _Part, bound: float) -> float:
    a, b, fa, fb = part
    at_ends = max(ball_size_up(_on(line, _point(x)) - y) for x, y in ((a, fa), (b, fb)))
    if np.isfinite(bound):
        bend = _point(bound) * (_point(b) - _point(a)) ** 2 / 8
        return ball_size_up(_point(at_ends) + bend)
    least, most = range_on(curve, a, b)
    on_line = [_on(line, _point(x)) for x in (a, b)]
    return max(ball_size_up(y - _point(f)) for y in on_line for f in (least, most))


def _guesses(
    curve: Curve, cuts: np.ndarray, signs: np.ndarray, knots: np.ndarray, values: np.ndarray
) -> np.ndarray:
    """Where sign * (line - f) is largest between the cuts, by sampling and one parabola."""
    low, width = cuts[:-1, None], np.diff(cuts)[:, None]

    def gap(part: np.ndarray) -> np.ndarray:
        x = low + part * width
        return np.asarray(signs[:, None] * (np.interp(x, knots, values) - curve.at(x)))

    samples = np.arange(1, 16) / 16.0
    coarse = gap(np.broadcast_to(samples, (len(low), 15)))
    best = samples[np.argmax(coarse, axis=1)][:, None]
    step = 1.0 / 32.0
    three = gap(best + step * np.array([-1.0, 0.0, 1.0]))
    with np.errstate(divide="ignore", invalid="ignore"):
        bend = three[:, :1] - 2.0 * three[:, 1:2] + three[:, 2:]
        move = 0.5 * step * (three[:, :1] - three[:, 2:]) / bend
    move = np.clip(np.where(np.isfinite(move), move, 0.0), -step, step)
    return np.asarray((low + (best + move) * width)[:, 0])
