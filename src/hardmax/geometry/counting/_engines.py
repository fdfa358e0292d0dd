"""The engines behind one face: what to start from, how to cut the work, how to count a piece.

An engine is a value that can be pickled, so that pieces of work go to other processes with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np

from hardmax.core import Box
from hardmax.geometry.counting._domains import Domain, Segment
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._tally import OverLimit, Tally
from hardmax.geometry.counting.plane._piece import PlaneCell, PlanePiece
from hardmax.geometry.counting.space._counting import SpaceCell, SpacePiece
from hardmax.geometry.counting.switch._leaves import SwitchCell
from hardmax.geometry.counting.switch._piece import SwitchPiece
from hardmax.geometry.counting.switch._program import SwitchProgram

Progress = Callable[[int], None]
Piece = TypeVar("Piece")
EngineCell = PlaneCell | SpaceCell | SwitchCell


class Engine(Protocol[Piece]):
    """How the cells of one source on one domain are counted, in pieces that are its own affair."""

    @property
    def fast(self) -> bool: ...
    def start(self) -> Piece: ...
    def split_piece(self, piece: Piece, at_least: int) -> list[Piece]: ...
    def count(
        self, piece: Piece, *, regions: bool, limit: int | None, progress: Progress | None
    ) -> Tally: ...
    def regions_at_once(
        self, *, limit: int | None, progress: Progress | None
    ) -> tuple[Tally, int] | None:
        """Cells and maximal regions, where pieces do not tell which of their facets are silent.

        None for engines whose pieces do: silent facets add up over pieces wherever those were
        counted. Maps of a switch program may jump, so that its cells are joined by comparing all
        of them, here.
        """

    def each(self) -> Iterator[EngineCell]: ...
    def key(self) -> str: ...


@dataclass(frozen=True, eq=False)
class PlaneEngine:
    """A ReLU network on a convex polygon."""

    stack: Stack
    corners: tuple[tuple[Fraction, Fraction], ...]
    fast: bool = False

    def start(self) -> PlanePiece:
        from hardmax.geometry.counting.plane import _counting as _plane

        return _plane.start_piece(self.stack, self.corners)

    def split_piece(self, piece: PlanePiece, at_least: int) -> list[PlanePiece]:
        from hardmax.geometry.counting.plane import _counting as _plane

        return _plane.split_piece(self.stack, piece, fast=self.fast, at_least=at_least)

    def count(
        self, piece: PlanePiece, *, regions: bool, limit: int | None, progress: Progress | None
    ) -> Tally:
        from hardmax.geometry.counting.plane import _counting as _plane

        return _plane.count_piece(
            self.stack, piece, fast=self.fast, regions=regions, limit=limit, progress=progress
        )

    def regions_at_once(self, *, limit: int | None, progress: Progress | None) -> None:
        return None

    def each(self) -> Iterator[PlaneCell]:
        from hardmax.geometry.counting.plane import _counting as _plane

        return _plane.each_cell(self.stack, self.start(), fast=self.fast)

    def key(self) -> str:
        where = repr((self.corners, self.stack.on_slice))
        return _key(*_arrays(self.stack), where, str(self.fast))


@dataclass(frozen=True, eq=False)
class SpaceEngine:
    """A ReLU network on a box."""

    stack: Stack
    box: Box
    fast: bool = False

    def start(self) -> SpacePiece:
        from hardmax.geometry.counting.space import _counting as _space

        return _space.start_piece(self.stack, self.box.low, self.box.high)

    def split_piece(self, piece: SpacePiece, at_least: int) -> list[SpacePiece]:
        from hardmax.geometry.counting.space import _counting as _space

        return _space.split_piece(self.stack, piece, fast=self.fast, at_least=at_least)

    def count(
        self, piece: SpacePiece, *, regions: bool, limit: int | None, progress: Progress | None
    ) -> Tally:
        from hardmax.geometry.counting.space import _counting as _space

        most = None if limit is None else limit + 1  # it stops when it has so many
        tally = _space.count_piece(
            self.stack, piece, fast=self.fast, regions=regions, limit=most, progress=progress
        )
        if limit is not None and tally.cells > limit:
            raise OverLimit(tally.cells, limit)
        return tally

    def regions_at_once(self, *, limit: int | None, progress: Progress | None) -> None:
        return None

    def each(self) -> Iterator[SpaceCell]:
        from hardmax.geometry.counting.space import _counting as _space

        return _space.each_cell(self.stack, self.start(), fast=self.fast)

    def key(self) -> str:
        ends = (self.box.low, self.box.high)
        return _key(*_arrays(self.stack), *ends, str(self.fast))


@dataclass(frozen=True, eq=False)
class SwitchEngine:
    """Anything that chooses by the largest of affine scores, on a polygon or box."""

    program: SwitchProgram
    domain: Domain
    source: str  # a name for what is counted, by everything that it holds
    fast: bool = False

    def start(self) -> SwitchPiece:
        from hardmax.geometry.counting.switch._piece import start_piece

        return start_piece(self.program, self.domain)

    def split_piece(self, piece: SwitchPiece, at_least: int) -> list[SwitchPiece]:
        from hardmax.geometry.counting.switch import _counting as switch

        return switch.split_piece(self.program, piece, fast=self.fast, at_least=at_least)

    def count(
        self, piece: SwitchPiece, *, regions: bool, limit: int | None, progress: Progress | None
    ) -> Tally:
        from hardmax.geometry.counting.switch import _counting as switch

        return switch.count_piece(
            self.program, piece, fast=self.fast, limit=limit, progress=progress
        )

    def regions_at_once(self, *, limit: int | None, progress: Progress | None) -> tuple[Tally, int]:
        from hardmax.geometry.counting.switch._regions import count_regions

        found = count_regions(
            self.program, self.domain, fast=self.fast, limit=limit, progress=progress
        )
        return found.tally, found.regions

    def each(self) -> Iterator[SwitchCell]:
        from hardmax.geometry.counting.switch import _counting as switch

        return switch.each_cell(self.program, self.start(), fast=self.fast)

    def key(self) -> str:
        return _key(self.source, domain_key(self.domain), str(self.fast))


def domain_key(domain: Domain) -> str:
    """A name for a domain, with all its digits."""
    if isinstance(domain, Box):
        return repr((domain.low.tolist(), domain.high.tolist()))
    if isinstance(domain, Segment):
        return repr((domain.exact_start, domain.exact_end))
    return repr((domain.exact_origin, domain.exact_directions, domain.exact_polygon))


def _arrays(stack: Stack) -> list[np.ndarray]:
    return [*stack.source.weights, *stack.source.biases]


def _key(*parts: np.ndarray | str) -> str:
    """A name for the job: what is counted, where, and how."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, str):
            digest.update(part.encode())
        else:
            digest.update(repr(part.shape).encode() + np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()
