"""Hypothesis strategies: networks as awkward as they come, and rational points to try them at.

Weights are small dyadic numbers, so that ties happen and Fractions stay short; zeros, repeated
rows and units that never fire are drawn on purpose, because random weights have none of them.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from hardmax.core import Box
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork
from hardmax.numerics import exact

Draw = st.DrawFn
Network = ReluNetwork | MaxoutNetwork | MaxAffine | PiecewiseLinear


def dyadics(largest: int = 4, bits: int = 3) -> st.SearchStrategy[float]:
    """Numbers k / 2^bits of at most `largest` in absolute value; zero and whole ones often."""
    fine = st.integers(-largest * 2**bits, largest * 2**bits).map(lambda k: k / 2**bits)
    return st.one_of(st.just(0.0), st.sampled_from([1.0, -1.0]), fine)


@st.composite
def _matrices(draw: Draw, rows: int, columns: int) -> np.ndarray:
    """rows x (columns + 1): weights with their bias, now and then one row repeating another."""
    numbers = st.lists(dyadics(), min_size=columns + 1, max_size=columns + 1)
    table = np.array(draw(st.lists(numbers, min_size=rows, max_size=rows)))
    if rows > 1 and draw(st.booleans()):
        source, copy = draw(st.tuples(*[st.integers(0, rows - 1)] * 2))
        table[copy] = table[source]
    return table


@st.composite
def _widths(
    draw: Draw, inputs: int | None, outputs: int | None, depth: int, width: int
) -> list[int]:
    middle = draw(st.lists(st.integers(1, width), max_size=depth - 1))
    first = draw(st.integers(1, 3)) if inputs is None else inputs
    return [first, *middle, draw(st.integers(1, 2)) if outputs is None else outputs]


@st.composite
def relu_networks(
    draw: Draw,
    *,
    inputs: int | None = None,
    outputs: int | None = None,
    depth: int = 3,
    width: int = 4,
) -> ReluNetwork:
    """ReLU networks of up to `depth` layers and `width` units, dead and repeated units included."""
    widths = draw(_widths(inputs, outputs, depth, width))
    weights, biases = [], []
    for layer, (into, out) in enumerate(pairwise(widths)):
        table = draw(_matrices(out, into))
        if layer < len(widths) - 2 and draw(st.booleans()):
            dead = draw(st.integers(0, out - 1))
            table[dead, -1] = -1e6  # beyond the reach of small weights and inputs
        weights.append(table[:, :-1])
        biases.append(table[:, -1])
    return ReluNetwork(weights, biases)


@st.composite
def maxout_networks(
    draw: Draw,
    *,
    inputs: int | None = None,
    outputs: int | None = None,
    depth: int = 3,
    width: int = 3,
    rank: int = 3,
) -> MaxoutNetwork:
    """Maxout networks whose layers differ in rank; repeated rows make pieces tie everywhere."""
    widths = draw(_widths(inputs, outputs, depth, width))
    weights, biases = [], []
    for into, out in pairwise(widths):
        pieces = draw(st.integers(1, rank))
        table = draw(_matrices(pieces * out, into)).reshape(pieces, out, into + 1)
        weights.append(table[..., :-1])
        biases.append(table[..., -1])
    return MaxoutNetwork(weights, biases)


@st.composite
def max_affine_functions(draw: Draw, *, inputs: int | None = None, pieces: int = 5) -> MaxAffine:
    """Maxima of up to `pieces` affine functions, ties and pieces that never win included."""
    into = draw(st.integers(1, 3)) if inputs is None else inputs
    table = draw(_matrices(draw(st.integers(1, pieces)), into))
    return MaxAffine(table[:, :-1], table[:, -1])


@st.composite
def piecewise_linear_functions(
    draw: Draw, *, inputs: int | None = None, pieces: int = 5
) -> PiecewiseLinear:
    """Differences of two maxima, or convex functions, of one variable or more."""
    plus = draw(max_affine_functions(inputs=inputs, pieces=pieces))
    minus = draw(st.none() | max_affine_functions(inputs=plus.inputs, pieces=pieces))
    return PiecewiseLinear(plus, minus)


def networks() -> st.SearchStrategy[Network]:
    """Any of the networks and functions above."""
    return st.one_of(
        relu_networks(), maxout_networks(), max_affine_functions(), piecewise_linear_functions()
    )


@st.composite
def boxes(draw: Draw, dimension: int) -> Box:
    """Small boxes with dyadic corners, some of them flat in a coordinate."""
    ends = st.tuples(dyadics(), dyadics()).map(sorted)
    low, high = zip(*draw(st.lists(ends, min_size=dimension, max_size=dimension)), strict=True)
    return Box(np.array(low), np.array(high))


@st.composite
def rational_points(draw: Draw, box: Box) -> np.ndarray:
    """Points of a box as Fractions, one per coordinate: its ends, its middle, or anywhere."""
    shares = st.one_of(
        st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 2)]),
        st.fractions(0, 1, max_denominator=97),
    )
    share = np.array(
        draw(st.lists(shares, min_size=box.dimension, max_size=box.dimension)), dtype=object
    )
    low, high = exact(box.low), exact(box.high)
    return np.asarray(low + share * (high - low), dtype=object)


@st.composite
def networks_at_points(draw: Draw) -> tuple[Network, Box, np.ndarray]:
    """A network, a box of its inputs, and a rational point of the box."""
    network = draw(networks())
    box = draw(boxes(network.inputs))
    return network, box, draw(rational_points(box))
