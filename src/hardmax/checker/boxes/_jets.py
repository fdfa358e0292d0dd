"""Second-order jets of intervals, thousands of boxes at once.

An interval is a midpoint and a radius. A jet has the components (value, k slopes, k (k+1)/2
curvatures), each an interval for every box of a batch: arrays of shape components x boxes. With
its first component over the box and its slopes at the middle, a jet gives the second-order form

    f(c + h) in f(c) + f'(c) h + h' f''(X) h / 2.

Rounding: every operation computes the midpoint m in a few roundings and enlarges the radius by
|m| 2^-51 (or more, where it says so), and by 2^-50 of itself for its own rounding; TINY covers
underflow. Nothing is clipped: an infinite or undefined radius means that nothing is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TINY = 1e-320
UP = 1.0 + 2.0**-50
ULP = 2.0**-51

Pair = tuple[np.ndarray, np.ndarray]  # midpoints and radii


def multiply(a: Pair, b: Pair) -> Pair:
    """Products, broadcast: |xy - mn| <= |m| s + r (|n| + s) for |x - m| <= r, |y - n| <= s."""
    m = a[0] * b[0]
    size = np.abs(b[0])
    radius = np.abs(a[0]) * b[1] + a[1] * (size + b[1])
    return m, radius * UP + (np.abs(m) * ULP + TINY)


def add(a: Pair, b: Pair) -> Pair:
    m = a[0] + b[0]
    return m, (a[1] + b[1]) * UP + (np.abs(m) * ULP + TINY)


def square(a: Pair) -> Pair:
    """x^2 for |x - m| <= r: m^2 + r^2 within 2 |m| r + r^2, and never below 0."""
    size = np.abs(a[0])
    low = np.maximum(size - a[1], 0.0) ** 2
    high = (size + a[1]) ** 2
    return from_ends(low * (1 - 4 * ULP), high * (1 + 4 * ULP))


def from_ends(low: np.ndarray, high: np.ndarray) -> Pair:
    """Midpoint and radius of [low, high]."""
    m = 0.5 * (low + high)
    radius = np.maximum(high - m, m - low)
    return m, radius * UP + TINY


def ends(a: Pair) -> Pair:
    """Lower and upper ends, outward."""
    pad = a[1] * UP + (np.abs(a[0]) * ULP + TINY)
    return a[0] - pad, a[0] + pad


def tighter(a: Pair, b: Pair) -> Pair:
    """Whichever of two enclosures has the smaller radius."""
    first = ~(b[1] < a[1])
    return np.where(first, a[0], b[0]), np.where(first, a[1], b[1])


@dataclass(frozen=True)
class Shape:
    """How many variables a jet has, and whether it carries curvatures."""

    variables: int
    order: int = 2

    @property
    def components(self) -> int:
        k = self.variables
        return 1 + k + (k * (k + 1) // 2 if self.order == 2 else 0)

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """The rows and columns of the curvatures that are stored: i <= j."""
        return np.triu_indices(self.variables)

    def outer(self, a: Pair, b: Pair) -> Pair:
        """(a_i b_j + a_j b_i) / 2 of two vectors of slopes; b may be the same as a."""
        i, j = self.pairs
        if a is b:
            products = multiply((a[0][i], a[1][i]), (b[0][j], b[1][j]))
            diagonal = i == j
            squares = square((a[0], a[1]))
            products[0][diagonal], products[1][diagonal] = squares
            return products
        first = multiply((a[0][i], a[1][i]), (b[0][j], b[1][j]))
        second = multiply((a[0][j], a[1][j]), (b[0][i], b[1][i]))
        both = add(first, second)
        return 0.5 * both[0], 0.5 * both[1]


@dataclass(frozen=True)
class Jet:
    """Midpoints and radii, components x boxes."""

    mid: np.ndarray
    rad: np.ndarray
    shape: Shape

    @property
    def value(self) -> Pair:
        return self.mid[0], self.rad[0]

    @property
    def slopes(self) -> Pair:
        k = self.shape.variables
        return self.mid[1 : 1 + k], self.rad[1 : 1 + k]

    @property
    def curvatures(self) -> Pair:
        k = self.shape.variables
        return self.mid[1 + k :], self.rad[1 + k :]

    @classmethod
    def of(cls, value: Pair, slopes: Pair, curvatures: Pair | None, shape: Shape) -> Jet:
        parts = [(value[0][None], value[1][None]), slopes]
        if shape.order == 2:
            assert curvatures is not None
            parts.append(curvatures)
        return cls(
            np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), shape
        )


def compose(derivatives: tuple[Pair, Pair, Pair], u: Jet) -> Jet:
    """f(u), given enclosures of f, f', f'' on u's range: f'' u_i u_j + f' u_ij."""
    value, first, second = derivatives
    inner = u.slopes
    slopes = multiply(first, inner)
    if u.shape.order == 1:
        return Jet.of(value, slopes, None, u.shape)
    bent = multiply(second, u.shape.outer(inner, inner))
    return Jet.of(value, slopes, add(bent, multiply(first, u.curvatures)), u.shape)


def product(u: Jet, v: Jet) -> Jet:
    """u v: u v_i + v u_i, and u v_ij + v u_ij + u_i v_j + u_j v_i."""
    same = u is v
    value = square(u.value) if same else multiply(u.value, v.value)
    slopes = add(multiply(u.value, v.slopes), multiply(v.value, u.slopes))
    if u.shape.order == 1:
        return Jet.of(value, slopes, None, u.shape)
    crossed = u.shape.outer(u.slopes, v.slopes)
    crossed = 2.0 * crossed[0], 2.0 * crossed[1]
    bent = add(multiply(u.value, v.curvatures), multiply(v.value, u.curvatures))
    return Jet.of(value, slopes, add(bent, crossed), u.shape)
