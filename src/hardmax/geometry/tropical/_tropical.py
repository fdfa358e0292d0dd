"""Tropical values: x -> max_j <slope_j, x> + offset_j with exact coefficients, the room's waist.

In the algebra where sums are maxima and products are sums, such a map is a polynomial: its terms
are the affine pieces, its Newton polytope is the hull of the slopes, and its hypersurface is where
the maximum is attained twice. Sums and products stay exact: coefficients are floats as long as
floats hold them, and Fractions beyond.

Quotients are differences of two maxima, closed under maximum, sum and difference, and every
continuous piecewise linear function is one. With f = p - q and g = r - s:
f + g = (p + r) - (q + s), f - g = (p + s) - (q + r), and max(f, g) = max(p + s, r + q) - (q + s).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Box, Head
from hardmax.geometry.diagrams._head_terms import fractions, head_terms
from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes._graph import stack_points
from hardmax.geometry.polytopes._minkowski import upper_sum
from hardmax.geometry.polytopes._polytope import Polytope
from hardmax.geometry.tropical._text import maximum_text
from hardmax.languages import MaxAffine, MaxoutNetwork
from hardmax.numerics import frozen_array

if TYPE_CHECKING:
    from hardmax.geometry.diagrams._diagram import PowerDiagram

_CHUNK = 1 << 20  # scores held at once when many points are evaluated


@dataclass(frozen=True, eq=False)
class Tropical:
    """x -> max_j <slopes_j, x> + offsets_j, exactly.

    `f | g` is the maximum of two, `f + g` their sum, `f - g` a `TropicalRational`. Two are equal
    if they are equal as functions.

        >>> absolute = Tropical.of([[1], [-1]])
        >>> absolute + absolute
        max(2 x1, -2 x1)
        >>> absolute == absolute | Tropical.of([[0]], [-1])
        True
    """

    slopes: Points
    offsets: Points

    def __post_init__(self) -> None:
        if not len(self.slopes) or not self.slopes.dimension:
            raise ShapeError("A maximum needs at least one term, of at least one variable.")
        if self.offsets.floats.shape != (len(self.slopes), 1):
            raise ShapeError(
                f"There must be one offset for each of the {len(self.slopes)} terms, but the shape "
                f"is {self.offsets.floats.shape}."
            )

    # ---- where they come from ----------------------------------------------------------------

    @classmethod
    def of(cls, slopes: Points | ArrayLike, offsets: Points | ArrayLike | None = None) -> Tropical:
        """By hand: a row of slopes a term, and a number each (0 if none are given)."""
        rows = Points.of(slopes, "slopes")
        if offsets is None:
            return cls(rows, Points(frozen_array(np.zeros((len(rows), 1)))))
        if isinstance(offsets, Points):
            return cls(rows, offsets)
        try:
            column = np.asarray(offsets)
        except ValueError as reason:
            raise ShapeError("The offsets must be numbers, one a term.") from reason
        if column.ndim != 1:
            raise ShapeError(
                f"The offsets must be numbers, one a term, but their shape is {column.shape}."
            )
        return cls(rows, Points.of(column[:, None], "offsets"))

    @classmethod
    def of_head(
        cls, head: Head, context: Points | ArrayLike, *, position: int | None = None
    ) -> Tropical:
        """The largest score of a head as a map of the asking token x, in a fixed context.

        Token j scores (query x) . (key x_j) + position_bias[t, j], so its slope is
        query^T key x_j, in Fractions where floats do not hold it. `position` is t; heads that are
        causal or have a position bias need it.
        """
        tokens = Points.of(context, "context")
        if tokens.dimension != head.width:
            raise ShapeError(
                f"The context must have tokens of width {head.width}, but it has "
                f"{tokens.dimension}."
            )
        if position is None and (head.causal or head.position_bias is not None):
            raise RequestError("This head sees positions: say from which one it asks (position=).")
        keys, biases = head_terms(head, tokens.rationals(), -1 if position is None else position)
        return cls.of(keys @ fractions(head.query), biases)

    @classmethod
    def of_unit(cls, network: MaxoutNetwork, layer: int, unit: int) -> Tropical:
        """One unit of a maxout network, as a map of its layer's input."""
        try:
            weights, biases = network.weights[layer], network.biases[layer]
            return cls.of(weights[:, unit], biases[:, unit])
        except IndexError as reason:
            shapes = ", ".join(str(W.shape[1]) for W in network.weights)
            raise RequestError(
                f"There is no unit {unit} in layer {layer}: the layers have {shapes} units."
            ) from reason

    @classmethod
    def of_max_affine(cls, function: MaxAffine) -> Tropical:
        return cls.of(function.weights, function.biases)

    # ---- values ------------------------------------------------------------------------------

    @property
    def dimension(self) -> int:
        return self.slopes.dimension

    def __len__(self) -> int:
        """How many terms there are, live or not."""
        return len(self.slopes)

    def __call__(self, x: ArrayLike) -> np.ndarray | Fraction | float:
        """At a point, or at each row of a table; exactly, if the coordinates are Fractions."""
        given = np.asarray(x)
        if given.ndim not in (1, 2) or given.shape[-1] != self.dimension:
            raise ShapeError(
                f"A point has {self.dimension} coordinates, and a batch is a row each, but the "
                f"shape is {given.shape}."
            )
        values = self._values(np.atleast_2d(given))
        return values[0] if given.ndim == 1 else values

    def _values(self, rows: np.ndarray) -> np.ndarray:
        if rows.dtype == object:
            scores = rows @ self.slopes.rationals().T + self.offsets.rationals()[:, 0]
            return np.array([max(row) for row in scores.tolist()], dtype=object)
        points = np.asarray(rows, dtype=np.float64)
        values = np.empty(len(points))
        step = max(1, _CHUNK // len(self))
        for k in range(0, len(points), step):
            scores = points[k : k + step] @ self.slopes.floats.T
            values[k : k + step] = (scores + self.offsets.floats[:, 0]).max(axis=1)
        return values

    # ---- algebra -----------------------------------------------------------------------------

    def __or__(self, other: Tropical) -> Tropical:
        """The tropical sum: the larger of two."""
        if not isinstance(other, Tropical):
            return NotImplemented
        _same_space(self, other)
        slopes = stack_points([self.slopes, other.slopes])
        return Tropical(slopes, stack_points([self.offsets, other.offsets]))

    def __add__(self, other: Tropical) -> Tropical:
        """The tropical product: the ordinary sum, with its live terms only.

        The terms of the sum are sums of a term each. One is live where both of its parts win, so
        the live ones are the upper vertices of the Minkowski sum of the lifted terms.
        """
        if not isinstance(other, Tropical):
            return NotImplemented
        _same_space(self, other)
        return _terms(upper_sum([self.lifted, other.lifted]).points)

    def __sub__(self, other: Tropical) -> TropicalRational:
        """The tropical quotient: a difference of two maxima."""
        if not isinstance(other, Tropical):
            return NotImplemented
        return TropicalRational(self, other)

    def __eq__(self, other: object) -> bool:
        """Equal as functions: the same live terms, since no live term can be left out."""
        if not isinstance(other, Tropical):
            return NotImplemented
        return self.dimension == other.dimension and self._live_terms == other._live_terms

    def __hash__(self) -> int:
        return hash(self._live_terms)

    @cached_property
    def _live_terms(self) -> tuple[tuple[Fraction, ...], ...]:
        rows = self.lifted.rationals(self.diagram().cells).tolist()
        return tuple(sorted(tuple(row) for row in rows))

    # ---- geometry ----------------------------------------------------------------------------

    @cached_property
    def lifted(self) -> Points:
        """The terms as points (slope, offset)."""
        return self.slopes.with_column(self.offsets)

    @cached_property
    def live(self) -> np.ndarray:
        """The terms that win somewhere with an inside; equal terms are all live."""
        return self.diagram().live

    def canonical(self) -> Tropical:
        """The same function by its live terms alone, each once, in ascending order."""
        return _terms(Points.of(np.array(self._live_terms, dtype=object)))

    def newton_polytope(self) -> Polytope:
        """The hull of the slopes; its vertices are numbers of terms."""
        return Polytope.of(self.slopes, "slopes")

    def diagram(self, on: Box | ArrayLike | None = None) -> PowerDiagram:
        """Which term wins where; `on` a box."""
        if on is None:
            return self._diagram
        from hardmax.geometry.diagrams._diagram import power_diagram

        return power_diagram(self.slopes, _column(self.offsets), on)

    @cached_property
    def _diagram(self) -> PowerDiagram:
        from hardmax.geometry.diagrams._diagram import power_diagram

        return power_diagram(self.slopes, _column(self.offsets))

    def hypersurface(self, on: Box | ArrayLike | None = None) -> np.ndarray:
        """Where the maximum is attained twice: pairs of terms whose cells share a wall."""
        return self.diagram(on).neighbours

    def __repr__(self) -> str:
        return maximum_text(self.slopes.floats, self.offsets.floats[:, 0])


@dataclass(frozen=True, eq=False)
class TropicalRational:
    """x -> numerator(x) - denominator(x), exactly; equal if equal as functions.

    >>> top = hm.Tropical.of([[1.0], [0.0]], [0.0, 0.0])
    >>> isinstance(hm.TropicalRational(top, top), hm.TropicalRational)
    True
    """

    numerator: Tropical
    denominator: Tropical

    def __post_init__(self) -> None:
        if self.numerator.dimension != self.denominator.dimension:
            raise ShapeError(
                f"Numerator and denominator must have the same variables, but they have "
                f"{self.numerator.dimension} and {self.denominator.dimension}."
            )

    @property
    def dimension(self) -> int:
        return self.numerator.dimension

    def __call__(self, x: ArrayLike) -> np.ndarray | Fraction | float:
        """At a point, or at each row of a table; exactly, if the coordinates are Fractions."""
        return self.numerator(x) - self.denominator(x)

    def __or__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        upper = (self.numerator + s) | (r + self.denominator)
        return TropicalRational(upper, self.denominator + s)

    def __add__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        return TropicalRational(self.numerator + r, self.denominator + s)

    def __sub__(self, other: TropicalRational | Tropical) -> TropicalRational:
        r, s = _parts(other)
        return TropicalRational(self.numerator + s, self.denominator + r)

    def __ror__(self, other: Tropical) -> TropicalRational:
        return self | other

    def __radd__(self, other: Tropical) -> TropicalRational:
        return self + other

    def __rsub__(self, other: Tropical) -> TropicalRational:
        return TropicalRational(other + self.denominator, self.numerator)

    def __eq__(self, other: object) -> bool:
        """p - q = r - s exactly if p + s = r + q."""
        if not isinstance(other, TropicalRational | Tropical):
            return NotImplemented
        r, s = _parts(other)
        return self.dimension == r.dimension and self.numerator + s == r + self.denominator

    __hash__ = None  # type: ignore[assignment]  # one function has many quotients

    def __repr__(self) -> str:
        return f"{self.numerator} - {self.denominator}"


def _column(offsets: Points) -> np.ndarray:
    return offsets.floats[:, 0] if offsets.is_float else offsets.rationals()[:, 0]


def _terms(lifted: Points) -> Tropical:
    width = lifted.dimension - 1
    return Tropical(lifted.columns(range(width)), lifted.columns([width]))


def _same_space(one: Tropical, other: Tropical) -> None:
    if one.dimension != other.dimension:
        raise ShapeError(
            f"Both maps must have the same variables, but they have {one.dimension} and "
            f"{other.dimension}."
        )


def _parts(value: TropicalRational | Tropical) -> tuple[Tropical, Tropical]:
    if isinstance(value, Tropical):
        return value, Tropical.of([[0] * value.dimension])
    return value.numerator, value.denominator
