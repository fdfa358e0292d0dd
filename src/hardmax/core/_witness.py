"""Where the target's inner values live in the stream. Written by lowerings, believed by nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import finite_array, frozen_array


@dataclass(frozen=True, eq=False)
class Holding:
    """After `sublayer` (-1: after the embedding), coordinate c of `token` holds a value.

    Row i says: coordinates[i] lies within errors[i] of the maximum of those components of
    `value` that components[i] names (-1 fills short rows; a single one is just that component).
    `value` counts as in `Steps`: 0 is the input, i + 1 the result of step i.
    """

    sublayer: int
    token: int
    coordinates: np.ndarray
    value: int
    components: np.ndarray
    errors: np.ndarray

    def __post_init__(self) -> None:
        coordinates = _whole(self.coordinates)
        components = _whole(self.components)
        if components.ndim == 1:
            components = frozen_array(components[:, None])
        errors = finite_array(np.broadcast_to(self.errors, coordinates.shape), "errors", ndim=1)
        if coordinates.ndim != 1 or components.shape[:1] != coordinates.shape:
            raise ShapeError(
                f"A holding lists {coordinates.shape} coordinates but names components "
                f"{components.shape}."
            )
        if (errors < 0).any():
            raise ShapeError("A holding's errors must be >= 0.")
        if components.size and not (components >= 0).any(axis=1).all():
            raise ShapeError("A holding names no component for one of its coordinates.")
        object.__setattr__(self, "coordinates", coordinates)
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "errors", errors)

    def __repr__(self) -> str:
        return (
            f"Holding(value {self.value} in {len(self.coordinates)} coordinates of token "
            f"{self.token} after sublayer {self.sublayer})"
        )


def _whole(values: Any) -> np.ndarray:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise ShapeError("A holding's coordinates and components must be whole numbers.")
    return frozen_array(given.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Witness:
    """All holdings of a construction, in the order in which the sublayers make them true."""

    holdings: tuple[Holding, ...]

    def __init__(self, holdings: Iterable[Holding]) -> None:
        object.__setattr__(self, "holdings", tuple(holdings))

    def __repr__(self) -> str:
        return f"Witness({len(self.holdings)} holdings)"
