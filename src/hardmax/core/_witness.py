"""Where the target's inner values live in the stream. Written by lowerings, believed by nobody."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hardmax._errors import ShapeError
from hardmax.numerics import finite_array, frozen_array


@dataclass(frozen=True, eq=False)
class Holding:
    """After `sublayer` (-1: after the embedding), coordinates of `token` hold a value.

    Row i says: coordinates[i] lies within errors[i] of the maximum of those components of
    `value` that components[i] names (-1 fills short rows; a single one is just that component).
    `value` counts as in `Steps`: 0 is the input, i + 1 the result of step i. With `weights`, row i
    is the combination weights[i] . x[coordinates] + constants[i] instead of one coordinate.
    """

    sublayer: int
    token: int
    coordinates: np.ndarray
    value: int
    components: np.ndarray
    errors: np.ndarray
    weights: np.ndarray | None = None  # rows x coordinates
    constants: np.ndarray | None = None  # rows

    def __post_init__(self) -> None:
        coordinates = _whole(self.coordinates)
        components = _whole(self.components)
        if components.ndim == 1:
            components = frozen_array(components[:, None])
        rows = components.shape[:1]
        errors = finite_array(np.broadcast_to(self.errors, rows), "errors", ndim=1)
        self._take_weights(rows, coordinates.shape)
        if coordinates.ndim != 1 or (self.weights is None and rows != coordinates.shape):
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

    def _take_weights(self, rows: tuple[int, ...], coordinates: tuple[int, ...]) -> None:
        if self.weights is None and self.constants is None:
            return
        if self.weights is None or self.constants is None:
            raise ShapeError("A holding of combinations needs weights and constants, both.")
        weights = finite_array(self.weights, "weights", ndim=2)
        constants = finite_array(self.constants, "constants", ndim=1)
        if weights.shape != rows + coordinates or constants.shape != rows:
            raise ShapeError(
                f"A holding of {rows} rows over {coordinates} coordinates has weights "
                f"{weights.shape} and constants {constants.shape}."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "constants", constants)

    def read(self, stream: np.ndarray) -> np.ndarray:
        """What the rows hold, given the token's stream (width, or width x batch)."""
        held = stream[self.coordinates]
        if self.weights is None or self.constants is None:
            return np.asarray(held)
        shift = self.constants.reshape(-1, *[1] * (held.ndim - 1))
        return np.asarray(self.weights @ held + shift)

    def __repr__(self) -> str:
        return (
            f"Holding(value {self.value} in {len(self.coordinates)} coordinates of token "
            f"{self.token} after sublayer {self.sublayer})"
        )


def _whole(values: object) -> np.ndarray:
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
