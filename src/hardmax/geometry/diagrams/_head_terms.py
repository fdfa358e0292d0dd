"""The scores of a head whose keys are fixed by a context, as affine functions of its query."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Head


def head_terms(head: Head, stream: np.ndarray, token: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """Keys and biases of the tokens that one place sees, as Fractions."""
    tokens = len(stream)
    if not -tokens <= token < tokens:
        raise RequestError(f"The context has {tokens} tokens, so there is no token {token}.")
    place = token % tokens
    if not head.key_width:
        raise RequestError(
            "This head has key width 0: its scores do not depend on the query, so there is no "
            "diagram."
        )
    seen = place + 1 if head.causal else tokens
    if head.position_bias is not None and len(head.position_bias) < tokens:
        raise ShapeError(
            f"The head's position bias ends at {len(head.position_bias)} tokens, but the context "
            f"has {tokens}."
        )
    keys = stream[:seen] @ fractions(head.key).T
    bias = np.zeros(seen) if head.position_bias is None else head.position_bias[place, :seen]
    return keys, fractions(bias)


def fractions(array: np.ndarray) -> np.ndarray:
    exact = [Fraction(x) for x in np.asarray(array).ravel().tolist()]
    return np.array(exact, dtype=object).reshape(np.shape(array))
