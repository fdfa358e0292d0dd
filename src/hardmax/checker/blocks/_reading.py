"""What dense products with a turned stream round; and what the noise of their weights moves.

Lemma (reading). A row w' of W' is dense, and so is the stream x' = Q x. Its product with x' and a
bias b, n + 3 roundings with the casts, is off by at most gamma_{n+3} (|w'| |x'| + |b|): by
Cauchy and Schwarz sum |w'_i| |x'_i| <= |w'| |x'|, in 2-norms, which Q leaves alone: |x'| = |x|, and
|w'| = |w_0 + d| <= |w_0| + |d|. What the row means is off by |d| |x| more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from hardmax.numerics import Format, inflate, stray


@dataclass(frozen=True)
class Turned(Format):
    """A format in which what is read is a dense product: of streams of a length, in a frame."""

    width: int = 0
    length: float = 0.0  # of the stream that is read, in the 2-norm
    read: float = 0.0  # 2-norm of what is left of a row
    bias: float = 0.0  # what is left of a bias


def lost_in_frame(matrix: np.ndarray, bias: np.ndarray, format: Format) -> np.ndarray | float:
    """What is to be added to how far products of these rows with the stream stray: see above."""
    if not isinstance(format, Turned):
        return 0.0
    rows = length_of_rows(matrix) + format.read
    size = inflate(rows * format.length + np.abs(bias) + format.bias, 4)
    moved = format.read * format.length + format.bias
    return np.asarray(inflate(stray(format.width + 3, size, format) + moved, 4))


def turned_format(format: Format, width: int, length: float, read: float, bias: float) -> Turned:
    plain = {one.name: getattr(format, one.name) for one in fields(Format)}
    return Turned(**plain, width=width, length=length, read=read, bias=bias)


def length_of_rows(rows: np.ndarray) -> np.ndarray:
    """The 2-norm of each row, from above; as `length_up` has it."""
    sizes = np.abs(rows)
    largest = sizes.max(axis=1, initial=0.0)
    if not np.isfinite(largest).all():
        return np.full(len(rows), np.inf)
    scaled = sizes / np.where(largest > 0.0, largest, 1.0)[:, None]
    return np.asarray(inflate(largest * np.sqrt(np.square(scaled).sum(axis=1)), rows.shape[1] + 5))
