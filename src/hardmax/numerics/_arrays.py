"""Arrays that check themselves: finite, float64, read-only; and their exact rational twins."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax._errors import ShapeError


def finite_array(values: object, name: str, *, ndim: int | None = None) -> np.ndarray:
    """A read-only float64 copy of `values`, refused if it holds anything but finite numbers."""
    try:
        given = np.asarray(values)
        if given.dtype.kind == "c":
            raise TypeError("complex numbers")
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise ShapeError(
            f"{name} must be a rectangular array of real numbers, but it could not be read as one."
        ) from reason
    if ndim is not None and array.ndim != ndim:
        raise ShapeError(
            f"{name} must have {ndim} dimension{'s' * (ndim != 1)}, but its shape is {array.shape}."
        )
    if not np.isfinite(array).all():
        bad = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ShapeError(f"{name} must be finite, but entry {bad} is {array[bad]}.")
    return frozen_array(array)


def frozen_array(array: np.ndarray) -> np.ndarray:
    """`array` itself if nobody can write to it, else a read-only copy."""
    if not array.flags.writeable and array.base is None:
        return array
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


_to_fraction = np.frompyfunc(Fraction, 1, 1)


def exact(array: object) -> np.ndarray:
    """The same numbers as an object array of `Fraction`: a float64 is a dyadic rational."""
    return np.asarray(_to_fraction(np.asarray(array)), dtype=object)
