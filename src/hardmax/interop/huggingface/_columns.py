"""Which column of a host's stream is what, and the constants that keep its norm still.

The stream is [ours | ONE | ZERO | ballast]. Ours come first, so that a coordinate keeps its number;
the others come from the embedding, are written by no sublayer and, but for the norm, mean nothing.

**Why the norm does nothing.** An RMS norm divides by sqrt((C + S)/n + eps), C being the sum of the
constants' squares and S that of ours. With b columns of ballast M, n a power of two and b M^2/n =
4^j, it is sqrt(4^j (1 + rho)) with rho = (S + 1 + n eps)/(b M^2), and the gain 2^j takes it back:
what is read is our columns times (1 + rho)^(-1/2). In floats of a unit u it is our columns bit for
bit once S + 1 + n eps < u M^2/2: the mean of the squares then rounds to 4^j in any order of
summation, its root is a power of two, and so are all factors. A layer norm subtracts the mean of
all columns as well; pairs (M, -M) do not move it, and rows that add up to 0 do not see it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.core import Norm
from hardmax.numerics import FLOAT32, Format

NORM_CHOICES = ("ballast", "epsilon")
_ROOM = 6  # bits by which the stream may outgrow the samples it was seen on
_HIGHEST = 40  # ballast 2^40, whose squares and gains are far from either end of a float32


@dataclass(frozen=True)
class Columns:
    """Where our columns end and which constants follow, over all columns of the host.

    `gain` is the weight of every norm; `epsilon` what its config says.
    """

    ours: int
    ones: int
    zeros: int
    ballast: tuple[float, ...]
    width: int
    gain: float
    epsilon: float

    @property
    def one(self) -> int:
        """The column that holds 1."""
        return self.ours

    @property
    def first_zero(self) -> int:
        return self.ours + self.ones

    @property
    def constants(self) -> np.ndarray:
        """What the embedding puts into the columns that are not ours, unused ones included."""
        known = [1.0] * self.ones + [0.0] * self.zeros
        unused = self.width - self.ours - len(known) - len(self.ballast)
        return np.array([*known, *[0.0] * unused, *self.ballast])

    def widened(self, rows: np.ndarray) -> np.ndarray:
        """Rows over our columns, as rows over all; a bias goes on ONE by itself."""
        return np.concatenate([rows, np.zeros((len(rows), self.width - self.ours))], axis=1)


@dataclass(frozen=True)
class NormRequest:
    """What a home's norm needs to be told: its kind, its stock epsilon, and who chooses what."""

    kind: str  # of a Norm: "rms" or "layer"
    stock: float
    choice: str  # "ballast" or "epsilon"
    width: int = 1  # the least one
    whole: int = 1  # a power of two that divides the width


def columns_for(
    ours: int, squares: float, format: Format, request: NormRequest, *, ones: int, zeros: int
) -> Columns:
    """The narrowest stream for so many columns of ours, whose squares add up to `squares`.

    Width 4^i takes one column of ballast (two pairs of them for a layer norm), and 2 4^i twice as
    much (one pair): then b/n, and with it b M^2/n, is a power of 4.
    """
    digits = math.frexp(max(squares, 1.0))[1] + 1
    by_epsilon = request.choice == "epsilon"
    width = max(2, request.width, request.whole)
    while True:
        width = 1 << (width - 1).bit_length()
        pieces = 0 if by_epsilon else _pieces(request.kind, width)
        if ours + ones + zeros + pieces <= width:
            break
        width += 1
    level = _level(digits, format, request.kind)
    _refuse_if_lost(level, width, format, math.sqrt(squares))
    if by_epsilon:
        gain = math.ldexp(1.0, level)
        return Columns(ours, ones, zeros, (), width, gain, gain * gain)
    size = math.ldexp(1.0, level + (width.bit_length() - 1) // 2)
    signs = (1.0, -1.0) if request.kind == "layer" else (1.0,)
    ballast = tuple(sign * size for sign in signs for _ in range(pieces // len(signs)))
    gain = math.sqrt(size * size * pieces / width)
    return Columns(ours, ones, zeros, ballast, width, gain, request.stock)


def _pieces(kind: str, width: int) -> int:
    """How many columns of ballast make b/width a power of 4."""
    square = width.bit_length() % 2 == 1
    if kind == "layer":
        return 4 if square else 2
    return 1 if square else 2


def _level(digits: int, format: Format, kind: str) -> int:
    """The exponent of the norm's divisor: 4^level exceeds the squares by u^-1 and some room.

    A layer norm subtracts a mean that floats know up to u M alone: its ballast stays as small as it
    may be: rho is 8 u at most, which is less than what its roundings are charged with. The norm of
    an RMS home is taken in float32 whatever the format is, so that u is at most that of float32
    there.
    """
    if kind == "layer":
        return -(-(digits + format.digits - 3) // 2)
    return max(_HIGHEST, -(-(digits + FLOAT32.digits + _ROOM) // 2))


def _refuse_if_lost(level: int, width: int, format: Format, reach: float) -> None:
    """What is read is divided by 2^level before the gain takes it back; squares are in float32."""
    largest = min(format.largest, FLOAT32.largest)
    if format.normal * 4.0**level > 1.0 or 4.0 ** (level + 2) * width > largest:
        raise PrecisionError(
            f"The norm cannot be kept still: the stream reaches about {reach:.2g}, so that the "
            f"divisor would be 2^{level}, and its squares are beyond {format.name} or float32, in "
            f"which norms are taken. Give a construction with smaller numbers."
        )


def norm_of(kind: str, constants: np.ndarray, gain: float, epsilon: float, width: int) -> Norm:
    """The norm as its numbers are stored, with the power of two that undoes it."""
    values, counts = np.unique(constants, return_counts=True)
    pairs = tuple((float(v), int(c)) for v, c in zip(values, counts, strict=True))
    size = sum(v * v * c for v, c in pairs) / width
    size -= (sum(v * c for v, c in pairs) / width) ** 2 if kind == "layer" else 0.0
    divisor = math.sqrt(size + epsilon)
    scale = 2.0 ** round(math.log2(gain / divisor)) if divisor > 0.0 else 1.0
    return Norm(kind, width, epsilon, gain, scale, pairs)
