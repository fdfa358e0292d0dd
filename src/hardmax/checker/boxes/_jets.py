"""Second-order jets of intervals, thousands of boxes at once.

An interval is a midpoint and a radius. A jet has the components (value, k slopes, k (k+1)/2
curvatures), each an interval for every box of a batch: arrays of shape components x boxes. With
its first component over the box and its slopes at the middle, a jet gives the second-order form

    f(c + h) in f(c) + f'(c) h + h' f''(X) h / 2.

Intervals are the quick pairs of `numerics`: an infinite or undefined radius means that nothing is
known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.numerics import Pair, pair_product, pair_square, pair_sum


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
            products = pair_product((a[0][i], a[1][i]), (b[0][j], b[1][j]))
            diagonal = i == j
            squares = pair_square((a[0], a[1]))
            products[0][diagonal], products[1][diagonal] = squares
            return products
        first = pair_product((a[0][i], a[1][i]), (b[0][j], b[1][j]))
        second = pair_product((a[0][j], a[1][j]), (b[0][i], b[1][i]))
        both = pair_sum(first, second)
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
    slopes = pair_product(first, inner)
    if u.shape.order == 1:
        return Jet.of(value, slopes, None, u.shape)
    bent = pair_product(second, u.shape.outer(inner, inner))
    return Jet.of(value, slopes, pair_sum(bent, pair_product(first, u.curvatures)), u.shape)


def product(u: Jet, v: Jet) -> Jet:
    """u v: u v_i + v u_i, and u v_ij + v u_ij + u_i v_j + u_j v_i."""
    same = u is v
    value = pair_square(u.value) if same else pair_product(u.value, v.value)
    slopes = pair_sum(pair_product(u.value, v.slopes), pair_product(v.value, u.slopes))
    if u.shape.order == 1:
        return Jet.of(value, slopes, None, u.shape)
    crossed = u.shape.outer(u.slopes, v.slopes)
    crossed = 2.0 * crossed[0], 2.0 * crossed[1]
    bent = pair_sum(pair_product(u.value, v.curvatures), pair_product(v.value, u.curvatures))
    return Jet.of(value, slopes, pair_sum(bent, crossed), u.shape)
