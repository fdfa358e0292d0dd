"""Continuous piecewise linear functions, as a difference of two maxima."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core import Affine, EncodedTarget, Maximum, Numbers, Steps
from hardmax.languages.networks._knots import convex_parts
from hardmax.languages.networks._layers import needed_tensor, number_and_noun
from hardmax.languages.networks._max_affine import MaxAffine
from hardmax.numerics import Interval


@dataclass(frozen=True, eq=False)
class PiecewiseLinear:
    """x -> plus(x) - minus(x), one output; a convex function needs no `minus`.

    Every continuous piecewise linear function on R^d is such a difference.

        >>> hat = PiecewiseLinear.from_knots([-1, 0, 1], [0, 1, 0])
        >>> hat([[0.0], [0.25], [1.0]]).tolist()
        [[1.0], [0.75], [0.0]]
    """

    plus: MaxAffine
    minus: MaxAffine | None = None

    def __post_init__(self) -> None:
        for name, part in (("plus", self.plus), ("minus", self.minus)):
            if not isinstance(part, MaxAffine) and not (name == "minus" and part is None):
                raise ShapeError(f"{name} must be a MaxAffine, not {type(part).__name__}.")
        if self.minus is not None and self.minus.inputs != self.plus.inputs:
            raise ShapeError(
                f"plus and minus must read the same inputs, but they read {self.plus.inputs} and "
                f"{self.minus.inputs}."
            )

    @classmethod
    def from_knots(cls, knots: Numbers, values: Numbers) -> PiecewiseLinear:
        """The function of one variable through (knots[i], values[i]), straight in between.

        It is continued linearly outside. Kinks upward go to `plus`, kinks downward to `minus`, so
        both are convex; a convex function gets no `minus`. One affine function may be added to
        both parts, and it is the one that makes the largest slope and the largest intercept as
        small as they can be.

        Error. The coefficients are computed in rationals and rounded once, and the function
        *means* the rounded ones. Let S and B be the largest stored slope and intercept in
        absolute value, X the largest |knot|, u = 2^-53. On [knots[0], knots[-1]] it strays from
        the interpolant by at most 2 (u (S X + B) + 2^-1075 (X + 1)); half of that if convex.
        Proof: rounding to a stored c errs by at most u |c| + 2^-1075, so each affine piece errs
        by at most half the bound; a maximum errs by at most its worst piece; there are two.
        Error 0 wherever the coefficients are float64 numbers, as for short dyadic data.

        Cost: a thousand knots at random take seconds, because sums of unlike fractions grow.
        """
        plus, minus = convex_parts(knots, values)
        return cls(MaxAffine(*plus), None if minus is None else MaxAffine(*minus))

    @property
    def inputs(self) -> int:
        return self.plus.inputs

    @property
    def outputs(self) -> int:
        return 1

    @property
    def _parts(self) -> tuple[MaxAffine, ...]:
        return (self.plus,) if self.minus is None else (self.plus, self.minus)

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self._parts)

    @overload
    def __call__(self, x: Interval, /) -> Interval: ...
    @overload
    def __call__(self, x: Numbers, /) -> np.ndarray: ...
    def __call__(self, x: Numbers | Interval, /) -> np.ndarray | Interval:
        if isinstance(x, Interval):
            return self.plus(x) if self.minus is None else self.plus(x) - self.minus(x)
        return self.plus(x) if self.minus is None else self.plus(x) - self.minus(x)

    def steps(self) -> Steps:
        """The pieces of plus, then those of minus; the two maxima; their difference."""
        return self._program

    @cached_property
    def _program(self) -> Steps:
        parts = self._parts
        groups = np.full((len(parts), max(part.pieces for part in parts)), -1)
        for row, part in enumerate(parts):
            groups[row, : part.pieces] = np.arange(part.pieces) + row * self.plus.pieces
        pieces = Affine(
            (0,),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.biases for part in parts]),
        )
        difference = Affine((2,), np.array([[1.0, -1.0]])[:, : len(parts)], np.zeros(1))
        return Steps(self.inputs, [pieces, Maximum((1,), groups), difference])

    def _pieces(self) -> str:
        if self.minus is None:
            return number_and_noun(self.plus.pieces, "piece")
        return f"{self.plus.pieces} - {number_and_noun(self.minus.pieces, 'piece')}"

    def encode(self) -> EncodedTarget:
        variables = number_and_noun(self.inputs, "variable")
        text = f"piecewise linear function of {variables}, {self._pieces()}"
        tensors: dict[str, np.ndarray] = {}
        for name, part in zip(("plus", "minus"), self._parts, strict=False):
            tensors |= {f"{name}.W": part.weights, f"{name}.b": part.biases}
        return EncodedTarget("piecewise-linear", text, tensors)

    @classmethod
    def decode(cls, tensors: Mapping[str, np.ndarray]) -> PiecewiseLinear:
        """The function whose encoding holds these tensors."""
        plus = MaxAffine(needed_tensor(tensors, "plus.W"), needed_tensor(tensors, "plus.b"))
        if not {"minus.W", "minus.b"} & set(tensors):
            return cls(plus)
        return cls(
            plus, MaxAffine(needed_tensor(tensors, "minus.W"), needed_tensor(tensors, "minus.b"))
        )

    def __repr__(self) -> str:
        return f"PiecewiseLinear({self.inputs}-1, {self._pieces()}, {self.parameters} parameters)"
