"""Integer keys that attain the maxima of several heads: parallel walls in generic directions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.geometry.bounds._heads import key_counts
from hardmax.geometry.bounds._sums import whole
from hardmax.numerics import frozen_array


@dataclass(frozen=True, eq=False)
class Keys:
    """The keys of one head, one a row, and their biases: whole numbers."""

    keys: np.ndarray
    biases: np.ndarray

    def __repr__(self) -> str:
        return f"Keys({self.keys.shape[0]} keys in R^{self.keys.shape[1]})"


def attaining_keys(
    tokens: int | Sequence[int],
    heads: int | None = None,
    *,
    dimension: int,
    bias_free: bool = False,
) -> tuple[Keys, ...]:
    """Keys with exactly `several_heads(...)` cells, in whole numbers.

    Affine, in R^d: head h has the keys i u_h, i = 0, ..., N - 1, with biases b_i that fall by
    b_(i-1) - b_i = t_i, where t_1 < t_2 < ...: key i wins where t_i < <q, u_h> < t_(i+1), so its
    walls are parallel. Take a prime p > H, u_h = (1, h, ..., h^(d-1)) mod p and
    t_i = (h^d mod p) + p i. Modulo p the matrix of any d directions is Vandermonde's, and so is
    that of any d + 1 walls (u_h, t): no determinant is 0 modulo p, hence none is 0. That is
    general position, without a random number.

    Bias-free, in R^d: the same keys in R^(d-1) with the bias as their last coordinate. At height
    -1 the one wall of head h lies at the mean of its t_i, again h^(d-1) modulo p (p odd).
    """
    counts, d = key_counts(tokens, heads), whole(dimension, "dimension")
    if bias_free and d == 1:
        ends = (np.arange(n, dtype=np.int64)[:, None] for n in counts)
        return tuple(Keys(frozen_array(k), frozen_array(np.zeros(len(k), int))) for k in ends)
    prime = _prime_above(max(len(counts), 2))
    if prime * max(counts) ** 2 * max(counts) > 2**62:
        raise RequestError(f"Keys for {max(counts):,} tokens do not fit into int64; give fewer.")
    attained = []
    for h, n in enumerate(counts):
        space = d - bias_free
        direction = np.array([pow(h, j, prime) for j in range(space)], dtype=np.int64)
        steps = pow(h, space, prime) + prime * np.arange(1, n, dtype=np.int64)
        keys = np.arange(n, dtype=np.int64)[:, None] * direction
        biases = -np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(steps)])
        if bias_free:
            keys, biases = np.hstack([keys, biases[:, None]]), np.zeros_like(biases)
        attained.append(Keys(frozen_array(keys), frozen_array(biases)))
    return tuple(attained)


def _prime_above(number: int) -> int:
    """The smallest prime > number."""
    candidate = number + 1
    while any(candidate % q == 0 for q in range(2, int(candidate**0.5) + 1)):
        candidate += 1
    return candidate
