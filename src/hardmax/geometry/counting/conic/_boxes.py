"""Boxes of the unit square, and of blown-up neighbourhoods of a point, with certain signs.

A chart is a way to write the points of the plane by two numbers. In the plain one they are u
and v. Where many walls meet in a rational point P, four charts write its surroundings as
P + r (side, s) and P + r (s, side) with r >= 0 and side = 1 or -1: along r = 0 the walls through P
arrive at different s, each in its own direction, and boxes tell them apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax.geometry.counting.conic._walls import MONOMIALS, Conic, Factors
from hardmax.numerics import FAINT, gamma, inflate, stray

Point = tuple[Fraction, Fraction]


@dataclass(eq=False)
class Chart:
    """Factors as polynomials in the chart's two coordinates, of degree 2 or less in each.

    In a blown-up chart f(P + r (...)) = r^m g(r, s) with r >= 0, so f and g have one sign
    off r = 0, which is one point of the plane; g is kept.
    """

    factors: Factors
    centre: Point | None = None
    reach: tuple[Fraction, Fraction] = (Fraction(1), Fraction(1))
    side: int = 1
    swapped: bool = False  # whether v leads
    _exact: dict[int, np.ndarray] = field(default_factory=dict)
    _floats: dict[int, np.ndarray] = field(default_factory=dict)

    def exact(self, number: int) -> np.ndarray:
        """3 x 3 whole coefficients, up to a positive number."""
        if number not in self._exact:
            form = self.factors.forms[number]
            self._exact[number] = _plain(form) if self.centre is None else self._blown(form)
        return self._exact[number]

    def floats(self, number: int) -> np.ndarray:
        if number not in self._floats:
            table = self.exact(number)
            top = max(abs(x) for x in table.flat)
            self._floats[number] = np.array([x / top for x in table.flat]).reshape(3, 3)
        return self._floats[number]

    def _blown(self, form: Conic) -> np.ndarray:
        assert self.centre is not None
        (x, y), (h, k) = self.centre, self.reach
        f, d, e, a, b, c = form
        level = f + d * x + e * y + a * x * x + b * x * y + c * y * y
        first, second = (d + 2 * a * x + b * y) * h, (e + b * x + 2 * c * y) * k
        squares = (a * h * h, b * h * k, c * k * k)
        if self.swapped:
            first, second, squares = second, first, squares[::-1]
        zero = Fraction(0)
        rows = [
            [Fraction(level), zero, zero],
            [first * self.side, second, zero],
            [squares[0], squares[1] * self.side, squares[2]],
        ]
        while not any(rows[0]):
            rows = [*rows[1:], [zero] * 3]
        under = math.lcm(*(entry.denominator for row in rows for entry in row))
        return _table([[int(entry * under) for entry in row] for row in rows])

    def points(self, places: np.ndarray) -> np.ndarray:
        """Points of the plane in floats, about where the chart has them."""
        if self.centre is None:
            return places
        r, s = places.T
        lead, follow = self.side * r, r * s
        if self.swapped:
            lead, follow = follow, lead
        steps = (lead * float(self.reach[0]), follow * float(self.reach[1]))
        return np.stack([float(x) + step for x, step in zip(self.centre, steps, strict=True)], 1)


def _table(rows: list[list[int]]) -> np.ndarray:
    table = np.empty((3, 3), dtype=object)
    for i, row in enumerate(rows):
        table[i] = row
    return table


def _plain(form: Conic) -> np.ndarray:
    rows = [[0] * 3 for _ in range(3)]
    for (i, j), x in zip(MONOMIALS, form, strict=True):
        rows[i][j] = x
    return _table(rows)


@dataclass(eq=False)
class Block:
    """A box [left, right] x [low, high] of a chart; its ends are dyadic, so floats are exact."""

    chart: Chart
    left: float
    right: float
    low: float
    high: float
    depth: int = 0
    _signs: dict[int, int] = field(default_factory=dict)
    _tops: dict[tuple[int, int], np.ndarray] = field(default_factory=dict)

    def signs(self, numbers: list[int]) -> dict[int, int]:
        """For each factor 1 if it is >= 0 on the box, -1 if it is <= 0, 0 if neither is certain.

        A polynomial lies between its least and its largest Bernstein coefficient. Floats
        decide beyond their rounding, and whole numbers what they leave open, a factor that
        is 0 in a corner or on an edge, say. What held on a larger box holds here.
        """
        missing = [number for number in numbers if number not in self._signs]
        if missing:
            tables = np.stack([self.chart.floats(number) for number in missing])
            rows, columns = _powers(self.left, self.right), _powers(self.low, self.high)
            value, bound = _bernstein(tables, rows, columns)
            positive, negative = np.any(value > bound, axis=1), np.any(value < -bound, axis=1)
            clear = np.all(abs(value) > bound, axis=1)
            for k, number in enumerate(missing):
                if positive[k] and negative[k]:
                    self._signs[number] = 0
                    self._tops[number, 1] = value[k] + bound[k]
                    self._tops[number, -1] = bound[k] - value[k]
                else:
                    self._signs[number] = (
                        int(positive[k]) - int(negative[k]) if clear[k] else self._exact(number)
                    )
        return self._signs

    def _exact(self, number: int) -> int:
        table = self.chart.exact(number)
        rows, columns = _whole_powers(self.left, self.right), _whole_powers(self.low, self.high)
        found = (rows.T @ table @ columns).ravel()
        return int(all(x >= 0 for x in found)) - int(all(x <= 0 for x in found))

    def excludes(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """Whether two undecided factors certainly cannot have these signs together: (number, sign).

        Let A and B be the factors times the signs. A + m B <= 0 with some m > 0 leaves no point to
        A > 0 and B > 0. So curves that run side by side are told apart long before boxes fit
        between them. The bound of each coefficient has room for the rounding of its sum with it.
        """
        if one not in self._tops or other not in self._tops:
            return False  # floats could not tell their range
        a, b = self._tops[one], self._tops[other]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            quotient = -a / b
        least = max(quotient[b < 0].max(initial=0.0), 0.0)
        most = quotient[b > 0].min(initial=np.inf)
        if least < most:
            m = (least + most) / 2 if np.isfinite(most) else 2 * least + 1
            with np.errstate(over="ignore", invalid="ignore"):
                total, size = a + m * b, inflate(abs(a) + m * abs(b))
            if (total < -stray(2, size)).all():
                return True
        return self.left == 0.0 and self.chart.centre is not None and self._touch(one, other)

    def _touch(self, one: tuple[int, int], other: tuple[int, int]) -> bool:
        """The same where two curves through the centre touch: m makes A + m B vanish on r = 0."""
        a, b = (sign * self.chart.exact(number) for number, sign in (one, other))
        place = next(k for k in range(3) if a[0, k])
        if a[0, place] * b[0, place] >= 0:
            return False
        total = a * abs(b[0, place]) + b * abs(a[0, place])
        if any(total[0]):
            return False
        rows, columns = _whole_powers(self.left, self.right), _whole_powers(self.low, self.high)
        return all(x <= 0 for x in (rows.T @ total @ columns).flat)

    def halves(self) -> tuple[Block, Block]:
        known = {number: sign for number, sign in self._signs.items() if sign}
        a, b, c, d = self.left, self.right, self.low, self.high
        if b - a >= d - c:
            ends = [(a, (a + b) / 2, c, d), ((a + b) / 2, b, c, d)]
        else:
            ends = [(a, b, c, (c + d) / 2), (a, b, (c + d) / 2, d)]
        one, other = (Block(self.chart, *four, self.depth + 1, dict(known)) for four in ends)
        return one, other

    def sample(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """The middle and random points, as points of the plane."""
        places = rng.random((count, 2))
        places[0] = 0.5
        low = np.array([self.left, self.low])
        return self.chart.points(low + places * (np.array([self.right, self.high]) - low))

    @property
    def area(self) -> Fraction:
        """In the unit square's measure: of P + r (h, k s) it is the integral of h k r dr ds."""
        a, b, c, d = (Fraction(x) for x in (self.left, self.right, self.low, self.high))
        if self.chart.centre is None:
            return (b - a) * (d - c)
        h, k = self.chart.reach
        return h * k * (b * b - a * a) / 2 * (d - c)

    def contains(self, point: Point) -> bool:
        """In the plain chart only."""
        return self.left <= point[0] <= self.right and self.low <= point[1] <= self.high

    def blown_up(self, point: Point) -> list[Block]:
        """The box in four charts around one of its points; together they cover it, and more."""
        reach = (
            Fraction(self.right) - Fraction(self.left),
            Fraction(self.high) - Fraction(self.low),
        )
        charts = [
            Chart(self.chart.factors, point, reach, side, swapped)
            for side in (1, -1)
            for swapped in (False, True)
        ]
        return [Block(chart, 0.0, 1.0, -1.0, 1.0, self.depth) for chart in charts]


def _bernstein(
    tables: np.ndarray, rows: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials x 9 coefficients, and how far each may be off.

    Each of the 9 terms is a product of three rounded numbers (5 roundings) and passes 8 additions;
    the size is a computed sum of the same kind. Coefficients and coordinates are at most 1.
    """
    value = np.einsum("nij,ia,jb->nab", tables, rows, columns)
    size = np.einsum("nij,ia,jb->nab", abs(tables), abs(rows), abs(columns))
    return value.reshape(-1, 9), inflate(gamma(13) * size.reshape(-1, 9), 14) + FAINT


def _powers(a: float, b: float) -> np.ndarray:
    """The Bernstein coefficients on [a, b] of 1, t and t^2, a row each."""
    return np.array([[1.0, 1.0, 1.0], [a, (a + b) / 2, b], [a * a, a * b, b * b]])


def _whole_powers(a: float, b: float) -> np.ndarray:
    """The same times 2 S^2, in whole numbers, where S a and S b are whole."""
    (p, q), (r, s) = a.as_integer_ratio(), b.as_integer_ratio()
    S = max(q, s)
    p, r = p * (S // q), r * (S // s)
    rows = [[2 * S * S] * 3, [2 * p * S, (p + r) * S, 2 * r * S], [2 * p * p, 2 * p * r, 2 * r * r]]
    return _table(rows)
