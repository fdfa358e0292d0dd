"""Matrix products with matrices that are mostly empty, as those of compiled heads are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Projection:
    """matrix @ X by the cheapest means: a gather where rows have one entry, else a product."""

    columns: np.ndarray
    matrix: np.ndarray | None  # rows x len(columns), or None for a gather
    scales: np.ndarray | None  # the gathered rows' factors, or None where all are 1

    @classmethod
    def of(cls, matrix: np.ndarray) -> Projection:
        entries = matrix != 0.0
        if matrix.shape[0] and entries.sum(axis=1).max(initial=0) <= 1:
            columns = entries.argmax(axis=1)
            scales = matrix[np.arange(len(matrix)), columns]
            return cls(columns, None, None if (scales == 1.0).all() else scales[:, None])
        columns = np.flatnonzero(entries.any(axis=0))
        return cls(columns, np.ascontiguousarray(matrix[:, columns]), None)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        picked = x[self.columns]
        if self.matrix is not None:
            return self.matrix @ picked
        return picked if self.scales is None else picked * self.scales
