"""Make examples/bump.npz: a hat with a brim on [-1, 1]^2, as a ReLU network 2-16-16-1.

The first layer looks in sixteen directions u_k at equal angles. sin(pi/16) times the sum of
relu(u_k . x) is the length r of x, short of it by at most 2%, so its level sets are almost
circles. The second layer bends r at sixteen knots, and the last one joins the bends into the
profile (1 - 4 r^2) exp(-3 r^2), straight between the knots. Nothing is fitted, and every weight
is rounded to a multiple of 2^-20, so the file comes out the same on every machine.

    python examples/make_bump.py [FILE]
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np

import hardmax as hm

UNITS = 16
REACH = math.sqrt(2)  # the corners of the square
GRID = 2.0**-20


def bump() -> hm.ReluNetwork:
    """The network, weight by weight."""
    angles = 2 * math.pi * np.arange(UNITS) / UNITS
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    scale = math.sin(math.pi / UNITS)
    knots = REACH * np.arange(UNITS) / UNITS
    heights = profile(np.append(knots, REACH))
    slopes = np.diff(heights) / np.diff(np.append(knots, REACH))
    bends = np.diff(slopes, prepend=0.0)
    weights = [directions, np.full((UNITS, UNITS), scale), bends[None]]
    biases = [np.zeros(UNITS), -knots, heights[:1]]
    return hm.ReluNetwork([on_grid(W) for W in weights], [on_grid(b) for b in biases])


def profile(r: np.ndarray) -> np.ndarray:
    """The height at distance r: 1 in the middle, a ditch at r = 0.76, flat far out."""
    return (1 - 4 * r**2) * np.exp(-3 * r**2)


def on_grid(array: np.ndarray) -> np.ndarray:
    """The nearest multiples of 2^-20; adding 0 turns -0 into 0."""
    return np.round(array / GRID) * GRID + 0.0


if __name__ == "__main__":
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("bump.npz")
    hm.save_network(bump(), place)
    print(f"{bump()} -> {place}")
