"""The random networks that are measured, from a seed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

import hardmax as hm

DOMAIN = (-1.0, 1.0)
ERROR = 1e-3


def random_relu(seed: int, *widths: int) -> hm.ReluNetwork:
    """He-scaled normal weights, biases 0.1 times normal."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(b, a)) for a, b in pairwise(widths)]
    return hm.ReluNetwork(weights, [0.1 * rng.normal(size=b) for b in widths[1:]])


def random_maxout(seed: int, rank: int, *widths: int) -> hm.MaxoutNetwork:
    """He-scaled normal weights, biases 0.1 times normal; the last layer takes maxima too."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(rank, b, a)) for a, b in pairwise(widths)]
    return hm.MaxoutNetwork(weights, [0.1 * rng.normal(size=(rank, b)) for b in widths[1:]])


def small_networks(seed: int) -> dict[str, hm.ReluNetwork | hm.MaxoutNetwork]:
    """The two networks whose errors and bills are held against requirements."""
    return {
        "ReLU 8-32-32-1": random_relu(seed, 8, 32, 32, 1),
        "maxout 4-16-16-1, rank 4": random_maxout(seed, 4, 4, 16, 16, 1),
    }


def large_network() -> hm.ReluNetwork:
    """The network on which speed is measured."""
    return random_relu(0, 64, 256, 256, 10)
