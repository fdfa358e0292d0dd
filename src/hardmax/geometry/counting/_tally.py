"""What counting a piece of work gives; pieces add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np


class OverLimit(Exception):
    """There are more cells than the limit; `found` were seen when counting stopped."""

    def __init__(self, found: int, limit: int) -> None:
        super().__init__(f"there are more than {limit:,} cells: counting stopped at {found:,}")
        self.found, self.limit = found, limit

    def __reduce__(self) -> tuple[type[OverLimit], tuple[int, int]]:
        return OverLimit, (self.found, self.limit)


def _nothing() -> np.ndarray:
    return np.zeros((0, 4), dtype=np.uint64)


@dataclass(frozen=True, eq=False)
class Tally:
    """Cells after each layer, how many signs needed exact arithmetic, and silent facets.

    A facet is silent if the affine maps on both sides agree; it is named by the two cells that
    share it, two words each.
    """

    layers: tuple[int, ...]
    decided: int = 0
    silent: np.ndarray = field(default_factory=_nothing, repr=False)

    @property
    def cells(self) -> int:
        return self.layers[-1]


def total(tallies: Iterable[Tally]) -> Tally:
    """The sum over pieces that share no cell."""
    parts = list(tallies)
    layers = tuple(int(n) for n in np.sum([part.layers for part in parts], axis=0))
    silent = np.concatenate([part.silent for part in parts]) if parts else _nothing()
    return Tally(layers, sum(part.decided for part in parts), silent)


def count_unions(silent: np.ndarray) -> int:
    """How many cells go away when those that share a silent facet become one: successful unions."""
    if not len(silent):
        return 0
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    names = np.ascontiguousarray(silent.reshape(-1, 2)).view([("a", "u8"), ("b", "u8")]).ravel()
    seen, place = np.unique(names, return_inverse=True)
    ends = place.reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (len(seen),) * 2)
    return len(seen) - int(connected_components(graph, directed=False)[0])
