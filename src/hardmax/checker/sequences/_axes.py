"""Tables over slots: an axis for the token, one for each slot, and whatever comes after them."""

from __future__ import annotations

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, charge

Axes = tuple[int, ...]  # the numbers of slots


def aligned(array: np.ndarray, own: Axes, axes: Axes) -> np.ndarray:
    """Token x own slots x anything, turned so that it broadcasts over token x `axes` x anything."""
    order = sorted(range(len(own)), key=lambda i: axes.index(own[i]))
    sizes = {axis: array.shape[1 + i] for i, axis in enumerate(own)}
    after = range(1 + len(own), array.ndim)
    turned = array.transpose(0, *(1 + i for i in order), *after)
    ones = (sizes.get(axis, 1) for axis in axes)
    return turned.reshape(array.shape[0], *ones, *(array.shape[i] for i in after))


def merged_axes(axes: Axes, array: np.ndarray) -> tuple[Axes, np.ndarray]:
    """Axes ascending; a slot that comes twice has one value, so the diagonal is taken."""
    charge(4 * CALL + ENTRY * array.size)
    while len(set(axes)) < len(axes):
        again = next(i for i, axis in enumerate(axes) if axis in axes[:i])
        first = axes.index(axes[again])
        array = np.moveaxis(np.diagonal(array, axis1=1 + first, axis2=1 + again), -1, 1 + first)
        axes = axes[:again] + axes[again + 1 :]
    order = sorted(range(len(axes)), key=lambda i: axes[i])
    after = range(1 + len(axes), array.ndim)
    turned = array.transpose(0, *(1 + i for i in order), *after)
    return tuple(axes[i] for i in order), np.ascontiguousarray(turned)


def without_idle(axes: Axes, array: np.ndarray, start: int = 1) -> tuple[Axes, np.ndarray]:
    """Without those of the axes, which begin at `start`, along which nothing changes."""
    kept: list[int] = []
    for axis in axes:
        charge(4 * CALL + ENTRY * array.size)
        place = start + len(kept)
        if (array == np.take(array, [0], axis=place)).all():
            array = np.take(array, 0, axis=place)
        else:
            kept.append(axis)
    return tuple(kept), np.ascontiguousarray(array)
