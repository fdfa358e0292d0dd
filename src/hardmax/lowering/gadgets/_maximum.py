"""The maximum over tokens is one head."""

from __future__ import annotations

from hardmax.core import Head
from hardmax.lowering.networks._layout import row


def maximum_head(
    width: int,
    *,
    read: int,
    write: int,
    one: int,
    null: int | None = None,
    handicap: float = 0.0,
) -> Head:
    """Add max_j x_j[read] to coordinate `write` of every token.

    The query is the constant x[one] = 1 and the key is the number itself, so token j scores
    x_j[read] whoever asks. The hardmax averages the maximisers, and all of them hold the maximum:
    ties are harmless. Error 0 at any length; with a softmax of coldness beta over n tokens the
    result falls short by at most `softmax_gap(n)`/beta. One head, four nonzero weights.

    With a null token (x[null] = 1 and x[one] = -1 there, x[null] = 0 elsewhere, x_null[read] = 0)
    and a handicap larger than every |x_j[read]|, data tokens score the null token -handicap and
    never take it, while the null token scores itself +handicap and the others at most
    |x_j[read]|: it takes its own 0 and stays empty. One weight more.
    """
    key = {read: 1.0}
    if null is not None:
        key[null] = -handicap
    return Head(
        query=row(width, {one: 1.0}),
        key=row(width, key),
        value=row(width, {read: 1.0}),
        output=row(width, {write: 1.0}).T,
    )
