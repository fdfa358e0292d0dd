"""A linear map that acts on one token only, by looking at a null token everywhere else."""

from __future__ import annotations

from collections.abc import Sequence

from hardmax.core import Hardmax
from hardmax.lowering.sketch import Column, HeadSketch, PromptHead, PromptRegister, single


def switched_map_head(
    read: Sequence[PromptRegister],
    write: Sequence[Column],
    *,
    code: PromptRegister,
    one: PromptRegister,
) -> PromptHead:
    """Add y[i] times the column write[i], for all i, where x[code] = +1, and nothing elsewhere.

    All data tokens hold the same y in the registers `read`; the null token holds 0 there.
    x[code] is +1 on one data token and -1 everywhere else; x[one] is +1 on data and -1 on null.
    The score is x_t[code] x_j[one]: the chosen token scores every data token +1 and the null
    token -1, so it takes the mean of equal vectors, y; any other token prefers the null token by
    the same gap of 2 and takes 0. Exact in the hard semantics. A softmax of coldness beta leaks
    at most n e^(-2 beta) of y, which beta = 32 brings below 1e-27.

    One head for the whole map: 2 + len(read) weights besides the columns. The construction in the
    literature spends a head on every pair of unit and piece; this one spends a head on every
    piece, and the maximum heads write each unit once.
    """
    values = [single(register) for register in read]
    return HeadSketch("", [single(code)], [single(one)], values, list(write), Hardmax())
