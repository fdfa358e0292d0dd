"""Hidden units that write a different affine piece on every token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.lowering.sketch import Column, Form, PromptRegister, PromptUnit, UnitSketch


@dataclass(frozen=True, eq=False)
class GatedPiece:
    """weights . x[read], to be written into `write`, on the token whose code is +1."""

    weights: np.ndarray
    write: PromptRegister
    code: PromptRegister
    bound: float  # at least |weights . x[read]|


def gated_pieces(
    read: Sequence[PromptRegister], pieces: Sequence[GatedPiece]
) -> tuple[list[PromptUnit], Column]:
    """Write each piece on its own token, and -bound of the register's pieces where there is none.

    x[code] is +1 on the piece's token and -1 elsewhere. With C >= |u|, u = weights . x[read], the
    hidden unit relu(u + C x[code]) is u + C on its own token and 0 on every other, since
    u - C <= 0. Pieces that share a register share C; on token j the sum over them is u_j + C,
    and the offset -C of the register leaves u_j, exactly: C stays a weight of its own, so nothing
    is ever the rounded sum of two others. A token without a piece is left with -C.

    Two weights a piece besides its own, one a register. Hands back units and offsets.
    """
    units: list[PromptUnit] = []
    for piece in pieces:
        weights = dict(zip(read, piece.weights.tolist(), strict=True))
        units.append(UnitSketch("", Form({**weights, piece.code: piece.bound}), {piece.write: 1.0}))
    return units, {piece.write: -piece.bound for piece in pieces}
