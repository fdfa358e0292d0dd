"""Buffers of the compiled search: kept, and enlarged when a cell does not fit."""

from __future__ import annotations

import numpy as np

from hardmax.geometry.counting.switch._kernels import FULL
from hardmax.geometry.counting.switch._piece import SwitchPiece
from hardmax.geometry.counting.switch._program import Tables

Arrays = tuple[np.ndarray, ...]
Nested = tuple[np.ndarray | Arrays, ...]

_VERTICES = {1: 4, 2: 32, 3: 64, 4: 128, 5: 256}  # of a cell, to begin with
_NUMBERS = 1 << 20  # in the largest buffer for children


class Room:
    """Sizes that grow, and buffers that are made once for each shape."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.vertices = _VERTICES.get(dimension, 512)
        self.words = 1
        self.factor = 1
        self._kept: dict[tuple[int, ...], tuple[Nested, Arrays]] = {}

    def grow(self, code: int) -> None:
        """More vertices and facets a cell, or more room for children."""
        self._kept.clear()
        if code == FULL:
            self.vertices *= 2
            self.words *= 2
        else:
            self.factor *= 4

    def widened(self, bits: np.ndarray) -> np.ndarray:
        missing = self.words - bits.shape[1]
        return np.pad(bits, ((0, 0), (0, missing))) if missing > 0 else bits

    def buffers(
        self, tables: Tables, piece: SwitchPiece, keep: bool
    ) -> tuple[Nested, Arrays, np.ndarray]:
        """The stack of one cell's search, the children's buffers, and how far they are filled."""
        self.words = max(self.words, piece.bits.shape[1])
        groups, pieces = len(tables.starts) - 1, len(tables.score)
        shape = (groups, pieces, len(tables.base), tables.most, keep, self.words)
        if shape not in self._kept:
            stack = self._stack(groups, pieces - groups + 2, tables.most)
            self._kept[shape] = stack, self._children(groups, len(tables.base), keep)
        stack, outs = self._kept[shape]
        return stack, outs, np.zeros(3, dtype=np.int64)

    def _stack(self, groups: int, slots: int, most: int) -> Nested:
        v, w = self.vertices, self.words
        work = (np.empty(v), np.empty(v), np.empty(v, np.int64), np.empty(w, np.uint64))
        return (
            np.empty(slots, np.int64),
            *self._cells(slots, v),
            np.empty(slots, np.int64),
            np.empty((slots, max(groups, 1)), np.int64),
            work,
            self._cells(3, v),
            np.empty((most, v)),
        )

    def _cells(self, count: int, v: int) -> Arrays:
        w, d = self.words, self.dimension
        return (
            np.empty((count, v, d)),
            np.empty((count, v)),
            np.empty((count, v, w), np.uint64),
            np.empty((count, 64 * w, 4), np.int32),
        )

    def _children(self, groups: int, width: int, keep: bool) -> Arrays:
        d = self.dimension
        each = max(width * (d + 2), groups, 16 * d)
        count = max(64, _NUMBERS // each if keep else 64) * self.factor  # if not, only open parts
        vertices, facets = count * 8 * d, count * 8 * d + 64 * self.words
        return (
            np.empty(count, np.int64),
            np.empty((count, groups), np.int32),
            np.zeros(count + 1, np.int64),
            np.empty((vertices, d)),
            np.empty(vertices),
            np.empty((vertices, self.words), np.uint64),
            np.zeros(count + 1, np.int64),
            np.empty((facets, 4), np.int32),
            np.empty((count if keep else 0, width, d + 2)),
        )
