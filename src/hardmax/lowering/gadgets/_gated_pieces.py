"""A feed-forward layer that writes a different affine piece on every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.core import FeedForward


@dataclass(frozen=True, eq=False)
class GatedPiece:
    """weights . x[read], to be written into `write`, on the token whose code is +1."""

    weights: np.ndarray
    write: int
    code: int
    bound: float  # at least |weights . x[read]|


def gated_pieces(width: int, *, read: np.ndarray, pieces: Sequence[GatedPiece]) -> FeedForward:
    """Write each piece on its own token, and -bound of the coordinate's pieces where there is none.

    x[code] is +1 on the piece's token and -1 elsewhere. With C >= |u|, u = weights . x[read], the
    hidden unit relu(u + C x[code]) is u + C on its own token and 0 on every other, since
    u - C <= 0. Pieces that share a coordinate share C; on token j the sum over them is u_j + C,
    and the bias -C of the coordinate leaves u_j, exactly: C stays a weight of its own, so nothing
    is ever the rounded sum of two others. A token without a piece is left with -C.

    Two weights a piece besides its own, one a coordinate.
    """
    inner = np.zeros((len(pieces), width))
    outer = np.zeros((width, len(pieces)))
    outer_bias = np.zeros(width)
    for hidden, piece in enumerate(pieces):
        inner[hidden, read] = piece.weights
        inner[hidden, piece.code] = piece.bound
        outer[piece.write, hidden] = 1.0
        outer_bias[piece.write] = -piece.bound
    return FeedForward(inner, np.zeros(len(pieces)), outer, outer_bias)
