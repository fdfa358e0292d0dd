"""Buffers of the compiled search: kept, and enlarged when a cell does not fit."""

from __future__ import annotations

import numpy as np

from hardmax.geometry.counting.switch._arrays import (
    FULL,
    Children,
    ClipScratch,
    LayerTables,
    Pile,
    Rivals,
    new_rivals,
)

_VERTICES = {1: 4, 2: 32, 3: 64, 4: 128, 5: 256}  # of a cell, to begin with
_NUMBERS = 1 << 20  # in the largest buffer for children


class SearchBuffers:
    """Sizes that grow, and buffers that are made once for each shape."""

    def __init__(self, dimension: int) -> None:
        self.dimension = dimension
        self.vertices = _VERTICES.get(dimension, 512)
        self.words = 1
        self.factor = 1
        self._kept: dict[tuple[int, ...], tuple[Pile, Rivals, ClipScratch, Children]] = {}

    def grow(self, code: int) -> None:
        """More vertices and facets a cell, or more room for children."""
        self._kept.clear()
        if code == FULL:
            self.vertices *= 2
            self.words *= 2
        else:
            self.factor *= 4

    def widen_bits(self, bits: np.ndarray) -> np.ndarray:
        missing = self.words - bits.shape[1]
        return np.pad(bits, ((0, 0), (0, missing))) if missing > 0 else bits

    def buffers(
        self, tables: LayerTables, words: int, keep: bool
    ) -> tuple[Pile, Rivals, ClipScratch, Children]:
        """Room for the search in a cell whose facets take so many words, and for its children."""
        self.words = max(self.words, words)
        groups, pieces = len(tables.starts) - 1, len(tables.score)
        rows, width = len(tables.levels), len(tables.base)
        shape = (groups, pieces, rows, width, tables.most, keep, self.words)
        if shape not in self._kept:
            self._kept[shape] = (
                self._new_pile(groups, pieces - groups + 2),
                new_rivals(tables, self.dimension, self.vertices),
                self._new_cut(groups),
                self._new_children(groups, width, keep),
            )
        buffers = self._kept[shape]
        buffers[-1].fill[:] = 0
        return buffers

    def _new_pile(self, groups: int, slots: int) -> Pile:
        return Pile(
            np.empty(slots, np.int64),
            *self._new_cells(slots),
            np.empty(slots, np.int64),
            np.empty((slots, max(groups, 1)), np.int64),
        )

    def _new_cut(self, groups: int) -> ClipScratch:
        v, w, d = self.vertices, self.words, self.dimension
        return ClipScratch(
            *self._new_cells(3),
            form=np.empty(d + 1),
            label=np.empty(4, np.int32),
            value=np.empty(v),
            slack=np.empty(v),
            side=np.empty(v, np.int64),
            kept=np.empty(w, np.uint64),
            won=np.empty(max(groups, 1), np.int64),
        )

    def _new_cells(self, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        v, w, d = self.vertices, self.words, self.dimension
        return (
            np.empty((count, v, d)),
            np.empty((count, v)),
            np.empty((count, v, w), np.uint64),
            np.empty((count, 64 * w, 4), np.int32),
        )

    def _new_children(self, groups: int, width: int, keep: bool) -> Children:
        d = self.dimension
        each = max(width * (d + 2), groups, 16 * d)
        count = max(64, _NUMBERS // each if keep else 64) * self.factor  # if not, only open parts
        vertices, facets = count * 8 * d, count * 8 * d + 64 * self.words
        return Children(
            fill=np.zeros(3, np.int64),
            parent=np.empty(count, np.int64),
            won=np.empty((count, groups), np.int32),
            vstart=np.zeros(count + 1, np.int64),
            points=np.empty((vertices, d)),
            stray=np.empty(vertices),
            bits=np.empty((vertices, self.words), np.uint64),
            fstart=np.zeros(count + 1, np.int64),
            labels=np.empty((facets, 4), np.int32),
            forms=np.empty((count if keep else 0, width, d + 2)),
        )
