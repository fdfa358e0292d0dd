"""What counting gives: numbers that are made when they are asked for, and cells on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hardmax._errors import RequestError
from hardmax._shown import Shown
from hardmax.geometry.bounds import Bound
from hardmax.geometry.counting._cells import LinearCell, linear_cell
from hardmax.geometry.counting._domains import Domain
from hardmax.geometry.counting._engines import Engine
from hardmax.geometry.counting._run import Execution, tally
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import OverLimit, Tally, count_unions


@dataclass(frozen=True, eq=False)
class Adjacency:
    """Cells and the pairs of their numbers that share a facet."""

    cells: tuple[LinearCell, ...]
    pairs: tuple[tuple[int, int], ...]

    def neighbours(self, number: int) -> list[int]:
        """The cells that share a facet with one."""
        return sorted(b if a == number else a for a, b in self.pairs if number in (a, b))

    def __repr__(self) -> str:
        return f"Adjacency({len(self.cells):,} cells, {len(self.pairs):,} shared facets)"


@dataclass(frozen=True, eq=False)
class Regions(Shown):
    """The linear regions of a source on a domain.

    `cells` counts patterns that occur on open sets, `count` maximal affine regions: cells joined
    through shared facets on which the affine maps agree. Both are counted when they are first
    asked for. `exact` says that every sign that floats could not decide was decided in rational
    arithmetic, `decided` how many there were. Iterating gives the cells one after another, without
    holding them.

    >>> corner = hm.MaxAffine([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
    >>> found = hm.regions(corner, on="[-1,1]^2")
    >>> found.cells, found.count, found.exact
    (3, 3, True)
    """

    source: str
    on: Domain
    engine: Engine[Any] = field(repr=False)
    execution: Execution = field(repr=False)
    bounding: Callable[[], Bound | None] = field(default=lambda: None, repr=False)
    stack: Stack | None = field(default=None, repr=False)

    @cached_property
    def bound(self) -> Bound | None:
        """No network of this shape has more cells, where such a bound is known."""
        return self.bounding()

    @property
    def exact(self) -> bool:
        return not self.engine.fast

    @cached_property
    def _tally_of_regions(self) -> tuple[Tally, int, tuple[str, ...]]:
        """The tally, the number of regions, and notes."""
        how = self.execution
        try:
            at_once = self.engine.regions_at_once(limit=how.limit, progress=how.progress)
        except OverLimit as reason:
            raise self._refusal(reason.found) from None
        if at_once is not None:
            alone = "cells were joined in this process, without executor or checkpoint"
            shared = how.executor is not None or how.checkpoint is not None
            return *at_once, (alone,) if shared else ()
        total, notes = self._run_tally(regions=True)
        return total, total.cells - count_unions(total.silent), notes

    @cached_property
    def _tally_of_cells(self) -> tuple[Tally, tuple[str, ...]]:
        if "_tally_of_regions" in self.__dict__:
            return self._tally_of_regions[0], self._tally_of_regions[2]
        return self._run_tally(regions=False)

    def _run_tally(self, *, regions: bool) -> tuple[Tally, tuple[str, ...]]:
        try:
            return tally(self.engine, self.execution, regions=regions)
        except OverLimit as reason:
            raise self._refusal(reason.found) from None

    def _refusal(self, found: int) -> RequestError:
        most = f"; there are at most {self.bound.scientific}" if self.bound else ""
        return RequestError(
            f"There are more than {self.execution.limit:,} cells: counting stopped at "
            f"{found:,}{most}. Raise the limit, or shrink the domain."
        )

    @property
    def cells(self) -> int:
        return self._tally_of_cells[0].cells

    @property
    def layers(self) -> tuple[int, ...]:
        """The number of cells after each layer."""
        return self._tally_of_cells[0].layers

    @property
    def count(self) -> int:
        return self._tally_of_regions[1]

    @property
    def decided(self) -> int:
        return self._tally_of_cells[0].decided

    @property
    def notes(self) -> tuple[str, ...]:
        """What happened on the way: pieces done before, pools that broke."""
        joined = self._tally_of_regions[2] if "_tally_of_regions" in self.__dict__ else ()
        return tuple(dict.fromkeys((*self._tally_of_cells[1], *joined)))

    def __iter__(self) -> Iterator[LinearCell]:
        for found in self.engine.each():
            yield linear_cell(found, self.stack, exact=self.exact)

    def adjacency(self) -> Adjacency:
        """All cells, and who shares a facet with whom; they are held in memory."""
        from hardmax.geometry.counting._adjacency import adjacent

        cells = tuple(self)
        return Adjacency(cells, tuple(adjacent(cells)))

    def as_dict(self, *, regions: bool = True) -> dict[str, object]:
        """Plain data; without `regions` only cells are counted."""
        return {
            "source": self.source,
            "on": str(self.on),
            "cells": self._tally_of_regions[0].cells if regions else self.cells,
            "regions": self.count if regions else None,
            "layers": list(self.layers),
            "exact": self.exact,
            "exact_decisions": self.decided,
            "at_most": None if self.bound is None else self.bound.scientific,
            "notes": list(self.notes),
        }

    def __repr__(self) -> str:
        how = "exact" if self.exact else "fast: float signs believed"
        return f"Regions({self.source} on {self.on}, {how})"
