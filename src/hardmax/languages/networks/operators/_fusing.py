"""Affine steps that become one without rounding; all others stay two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hardmax.core import Affine, Maximum, Product, Steps, Univariate

Step = Affine | Maximum | Univariate | Product
Block = tuple[int, np.ndarray]  # a source, and the columns that multiply it


def fuse_exactly(program: Steps) -> Steps:
    """The same function without the steps that nobody reads, and with fewer affine ones.

    An affine step with a single reader that is affine, too, goes into that reader where one of
    the two only picks numbers and changes signs, as skip connections, biases of their own and the
    minus of a clip do. All else (a batch norm after a convolution) would round: it is kept.
    """
    steps: dict[int, Step] = {}
    last = len(program.steps)
    readers = Counter({last: 1})
    for value in range(last, 0, -1):
        if readers[value]:
            readers.update(program.steps[value - 1].sources)
    for value in range(1, last + 1):
        step = program.steps[value - 1]
        if readers[value]:
            steps[value] = (
                _absorb(step, steps, readers, program.size) if isinstance(step, Affine) else step
            )
    needed = [value for value in steps if readers[value]]
    numbers = {0: 0} | {value: number for number, value in enumerate(needed, 1)}
    return Steps(program.inputs, [_renumber(steps[value], numbers) for value in needed])


def merge_sources(blocks: Iterable[Block], bias: np.ndarray) -> Affine:
    """One affine step that reads every source once, or again where adding weights would round."""
    merged: list[Block] = []
    for source, block in blocks:
        for place, (other, there) in enumerate(merged):
            if other == source and _is_sum(there, block, total := there + block):
                merged[place] = (source, total)
                break
        else:
            merged.append((source, block))
    merged.sort(key=lambda entry: entry[0])
    return Affine(
        tuple(source for source, _ in merged), np.hstack([block for _, block in merged]), bias
    )


def split_sources(
    sources: Sequence[int], weights: np.ndarray, size: Callable[[int], int]
) -> list[Block]:
    """The columns of every source, whose sizes are known."""
    ends = np.cumsum([size(source) for source in sources])
    return list(zip(sources, np.split(weights, ends[:-1], axis=1), strict=True))


def _absorb(
    second: Affine, steps: dict[int, Step], readers: Counter[int], size: Callable[[int], int]
) -> Affine:
    """The second step, with every affine step that it alone reads put into it where exact."""
    blocks: list[Block] = []
    bias = second.bias
    for source, block in split_sources(second.sources, second.weights, size):
        first = steps.get(source)
        composed = _compose_affine(block, bias, first) if readers[source] == 1 else None
        if composed is None:
            blocks.append((source, block))
        else:
            readers[source] = 0
            weights, bias = composed
            blocks += split_sources(steps[source].sources, weights, size)
    return merge_sources(blocks, bias)


def _compose_affine(
    block: np.ndarray, bias: np.ndarray, first: Step | None
) -> tuple[np.ndarray, np.ndarray] | None:
    """block @ first + bias as weights and bias; None unless first is affine and nothing rounds."""
    if not isinstance(first, Affine):
        return None
    if _picks(block):
        column, sign = _picked_columns(block)
        shift = sign * first.bias[column]
        total = bias + shift
        if _is_sum(bias, shift, total):
            return sign[:, None] * first.weights[column], total
        return None
    if _picks(first.weights) and _picks(first.weights.T) and not first.bias.any():
        column, sign = _picked_columns(first.weights.T)
        return block[:, column] * sign, bias
    return None


def _picks(matrix: np.ndarray) -> bool:
    """Whether every row holds 1 or -1 once at most, and zeros otherwise."""
    return bool(np.isin(matrix, (-1.0, 0.0, 1.0)).all() and (matrix != 0).sum(axis=1).max() <= 1)


def _picked_columns(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    column = np.abs(matrix).argmax(axis=1)
    return column, matrix[np.arange(len(matrix)), column]


def _is_sum(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> bool:
    """Whether a + b is the total exactly.

    Taking the larger of two numbers away from their rounded sum is exact (Dekker), and gives the
    smaller one back only if nothing was lost.
    """
    return bool(((total - a == b) & (total - b == a)).all())


def _renumber(step: Step, numbers: dict[int, int]) -> Step:
    sources = tuple(numbers[source] for source in step.sources)
    match step:
        case Affine():
            return Affine(sources, step.weights, step.bias)
        case Maximum():
            return Maximum(sources, step.groups)
        case Univariate():
            return Univariate(sources, step.name, step.size, step.exponent)
        case Product():
            return Product(sources, step.pairs)
