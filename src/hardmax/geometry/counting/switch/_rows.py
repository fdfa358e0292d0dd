"""Affine forms as rows of exact rationals, and the frame that a domain puts around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import DomainError
from hardmax.core import Box
from hardmax.geometry.counting._domains import Domain, Segment
from hardmax.numerics import nearest_ratio

if TYPE_CHECKING:  # flint is loaded when something is counted
    from flint import fmpq, fmpq_mat

Row = tuple["fmpq", ...]  # coefficients of the state, then the constant


def rational(value: float | Fraction) -> fmpq:
    """A float, a whole number or a Fraction as flint's rational."""
    from flint import fmpq

    exact = Fraction(value)
    return fmpq(exact.numerator, exact.denominator)


def rationals(array: np.ndarray) -> list[list[fmpq]]:
    """Rows of exact rationals."""
    return [[rational(x) for x in row] for row in array.tolist()]


def affine_rows(weights: np.ndarray, biases: np.ndarray) -> list[Row]:
    """weights @ x + biases, a row for each output."""
    levels = map(rational, biases.tolist())
    return [(*row, level) for row, level in zip(rationals(weights), levels, strict=True)]


def fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def nearest_floats(row: Iterable[fmpq]) -> list[float]:
    """The nearest floats; what lies beyond all of them is infinite, and decides nothing."""
    return [nearest_ratio(int(x.p), int(x.q)) for x in row]


def unit(width: int, place: int) -> Row:
    """The row that reads one coordinate; that of place `width` is the constant 1."""
    return tuple(rational(int(i == place)) for i in range(width + 1))


def constant(width: int, value: fmpq) -> Row:
    return (*(rational(0) for _ in range(width)), value)


def is_constant(row: Sequence[fmpq]) -> bool:
    return not any(row[:-1])


def mean(rows: Sequence[Sequence[fmpq]], weights: Sequence[int]) -> Row:
    total = sum(weights)
    return tuple(
        sum((w * x for w, x in zip(weights, entries, strict=True)), rational(0)) / total
        for entries in zip(*rows, strict=True)
    )


def matrix(rows: Sequence[Sequence[fmpq]], width: int) -> fmpq_mat:
    """Rows of one width, below each other; there may be none."""
    from flint import fmpq_mat

    return fmpq_mat(len(rows), width, [x for row in rows for x in row])


def over(outer: fmpq_mat, inner: Sequence[Row], dimension: int) -> list[list[fmpq]]:
    """The rows of a matrix over a state whose coordinates are rows over `dimension` numbers."""
    return (outer * matrix([*inner, unit(dimension, dimension)], dimension + 1)).tolist()


def substitute_rows(rows: Sequence[Row], inner: Sequence[Row] | None, dimension: int) -> list[Row]:
    """The same for a list of rows; None for the state itself leaves them as they are."""
    if inner is None or not rows:
        return list(rows)
    return [tuple(row) for row in over(matrix(rows, len(inner) + 1), inner, dimension)]


def frame_of(domain: Domain, inputs: int) -> list[Row] | None:
    """The source's inputs as rows over the domain's own coordinates; None for a box.

    These are t in [0, 1] along a segment, or y in a slice's polygon.
    """
    if domain.dimension != inputs:
        raise DomainError(
            f"The source has {inputs} inputs, but the domain has {domain.dimension} coordinates."
        )
    if isinstance(domain, Box):
        return None
    if isinstance(domain, Segment):
        origin = domain.exact_start
        ways = [tuple(b - a for a, b in zip(origin, domain.exact_end, strict=True))]
    else:
        origin, ways = domain.exact_origin, list(domain.exact_directions)
    return [tuple(map(rational, entries)) for entries in zip(*ways, origin, strict=True)]
