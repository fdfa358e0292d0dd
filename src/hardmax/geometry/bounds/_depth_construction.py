"""The depth construction: a hard Transformer whose cells multiply from layer to layer."""

from __future__ import annotations

import numpy as np

from hardmax._errors import PrecisionError, RequestError
from hardmax.core import Attention, FeedForward, Head, ReadOut, Sublayer, Transformer, VectorInput
from hardmax.geometry.bounds import Recipe
from hardmax.geometry.bounds._sums import whole

_LARGEST_PROMPT = 2**28  # numbers: 2 GB


def depth_construction(
    *,
    tokens: int,
    dimension: int,
    layers: int,
    teeth: int | None = None,
    heads: int | None = None,
    hidden: int | None = None,
) -> Transformer:
    """A hard Transformer with exactly (2 w N)^(d L) cells, all of them regions, on [0, 1]^d.

    N = `tokens` constant tokens, d = `dimension`, w = `teeth`; teeth=0 is attention alone, N^(dL)
    cells. In general the layer's `heads` (default: one a coordinate) and `hidden` ReLUs (default:
    2w - 1 a coordinate) are spread over the coordinates: a heads and m ReLUs on a coordinate cut
    it into A p pieces, A = a (N - 1) + 1 and p = m + 1, so that there are prod_i (A_i p_i)^L
    cells, `Recipe(...).cells`. On a line nothing with a heads and m ReLUs a layer has more.

    Proof. The query token starts at x = M * input, M = (A p)^L, beside a constant 1; by induction
    layer l finds it in [0, S], S = (A p)^(L - l), and takes each of A p intervals of length
    h = S/(A p) one to one onto [0, h]. Let u = S/A. Token j, for j = 0, ..., N - 1, holds j in the
    slot where the query has its 1, and j^2 - G in the first coordinate, G = (N - 1)^2 + 1. Head b
    of a coordinate scores it  j (2x - u (2 b (N - 1) + 1)) - u (j^2 - G) , so that j overtakes
    j - 1 at x = u (b (N - 1) + j): the heads cut [0, S] at all multiples of u. The winner's value
    is -u j. In interval number k these values add up to -u k, because the heads before have
    reached N - 1 and those behind are still at 0: what is left is x - u k, in [0, u]. Then
    x + 2 sum_{0 < i < p} (-1)^i relu(x - i h) has the slopes 1, -1, 1, ... on its p pieces and
    covers [0, h] with each.

    The query's own key never wins: it is that of token 1 with the bias -u x instead of
    -u (1 - G), and 1 - G < 0 <= x. Nor does a constant token ever change: its coordinates are
    negative, so every head scores all other tokens, the moving one too, below token 0, whose value
    is 0; and no ReLU is on. Every cell is mapped onto the cube by x_i -> +-M_i x_i + c_i. Where
    two cells meet, the sign of one coordinate changes (at folds, and where p is even) or the value
    jumps from 1 to 0: the maps differ, so that each cell is a maximal affine region.

    Error 0: all weights are whole numbers, and exact as floats. Cost: width d + 1 (d without
    heads), N + 1 tokens, heads of key width 2 and value width 1 with neither mask nor bias, and
    2w - 1 ReLUs a coordinate: the residual connection saves one, and scaling back to the unit cube
    between layers is left to the next layer's weights. Requires (A p)^L to be a float; else it
    refuses.

    >>> depth_construction(tokens=3, teeth=1, dimension=2, layers=2)  # 6^4 = 1,296 cells
    Transformer(width 3, 4 tokens, 2 attention and 2 feed-forward sublayers, 4 heads, 2 outputs)
    """
    sizes = _recipe(tokens, dimension, layers, teeth, heads, hidden)
    scale = [a * p for a, p in zip(sizes.intervals, sizes.pieces, strict=True)]
    prompt = _prompt(sizes, [s**sizes.layers for s in scale])
    sublayers: list[Sublayer] = []
    for below in reversed(range(sizes.layers)):  # how many layers are still to come
        ends = [s**below for s in scale]
        if sizes.heads:
            steps = [p * end for p, end in zip(sizes.pieces, ends, strict=True)]
            sublayers.append(_routing(sizes, steps))
        if sizes.hidden:
            sublayers.append(_folding(sizes, ends))
    d = sizes.dimension
    return Transformer(prompt, sublayers, ReadOut(np.eye(d, _width(sizes)), np.zeros(d)))


def _width(sizes: Recipe) -> int:
    """The query's coordinates, and the slot that heads read."""
    return sizes.dimension + bool(sizes.heads)


def _recipe(
    tokens: int,
    dimension: int,
    layers: int,
    teeth: int | None,
    heads: int | None,
    hidden: int | None,
) -> Recipe:
    if teeth is not None and hidden is not None:
        raise RequestError(
            "Give the teeth of a coordinate or the hidden ReLUs of a layer, not both."
        )
    d = whole(dimension, "dimension")
    if hidden is None:
        w = 0 if teeth is None else whole(teeth, "teeth", least=0)
        hidden = max(2 * w - 1, 0) * d
    return Recipe(tokens, d, layers, d if heads is None else heads, hidden)


def _prompt(sizes: Recipe, lengths: list[int]) -> VectorInput:
    """The constant tokens, then the query: coordinate i in [0, lengths[i]], and a slot."""
    n, d, width = sizes.tokens, sizes.dimension, _width(sizes)
    if (n + 1) * (d + 1) * d > _LARGEST_PROMPT:
        raise RequestError(
            f"The embedding would hold {(n + 1) * (d + 1) * d:,} numbers, most of them 0. Ask for "
            f"fewer tokens or a smaller dimension."
        )
    maps, offsets = np.zeros((n + 1, width, d)), np.full((n + 1, width), -1.0)
    maps[n, range(d), range(d)] = [_exact(length) for length in lengths]
    offsets[n] = np.eye(d + 1)[d][:width]
    for j in range(n if sizes.heads else 0):
        offsets[j, 0], offsets[j, d] = _exact(j * j - (n - 1) ** 2 - 1), j
    return VectorInput(maps, offsets)


def _routing(sizes: Recipe, steps: list[int]) -> Attention:
    """Take the multiple of u = steps[i] below x_i away from x_i."""
    d, reach = sizes.dimension, sizes.tokens - 1
    heads = []
    for i, (step, count) in enumerate(zip(steps, sizes.heads_of, strict=True)):
        for b in range(count):
            query, key, value, output = (np.zeros((k, d + 1)) for k in (2, 2, 1, 1))
            query[0, i], query[0, d], query[1, d] = 2.0, -_exact(step * (2 * b * reach + 1)), 1.0
            key[0, d], key[1, 0] = 1.0, -_exact(step)
            value[0, d], output[0, i] = 1.0, -_exact(step)
            heads.append(Head(query, key, value, output.T))
    return Attention(heads)


def _folding(sizes: Recipe, ends: list[int]) -> FeedForward:
    """Fold x_i onto [0, ends[i]] by slopes 1, -1, 1, ...; negative numbers stay as they are."""
    width = _width(sizes)
    folds = [(i, k) for i, m in enumerate(sizes.units_of) for k in range(1, m + 1)]
    inner, bias = np.zeros((len(folds), width)), np.zeros(len(folds))
    outer = np.zeros((width, len(folds)))
    for row, (i, k) in enumerate(folds):
        inner[row, i], bias[row] = 1.0, -_exact(k * ends[i])
        outer[i, row] = 2.0 if k % 2 == 0 else -2.0
    return FeedForward(inner, bias, outer, np.zeros(width))


def _exact(number: int) -> float:
    """The float that is this whole number, or a refusal."""
    try:
        rounded = float(number)
    except OverflowError:
        rounded = 0.0
    if int(rounded) != number:
        raise PrecisionError(
            f"The depth construction needs a weight of {number.bit_length():,} bits that is no "
            f"float64. Ask for fewer layers, or for powers of two: tokens and one more than the "
            f"ReLUs of a coordinate."
        )
    return rounded
