"""Counting in pieces: here, in other processes or on a cluster, with what is done kept on disk.

Pieces are the same wherever they are counted, so the sum is the same. A piece whose worker died is
counted again; a pool that broke is replaced if there is a way to make one, else the rest is counted
here, and the result says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic

from hardmax._errors import RequestError
from hardmax.geometry.counting._checkpoint import Checkpoint
from hardmax.geometry.counting._engines import Engine, Piece, Progress
from hardmax.geometry.counting._tally import OverLimit, Tally, total

PIECES = 256  # of a count that is shared or kept: some are much larger than others
_MOST_POOLS = 5  # that may break without a piece finished in between
_WAIT = 0.5  # seconds between two looks for Ctrl-C


_UNREACHED = 2**62  # cells


@dataclass(frozen=True)
class Execution:
    """How a count is carried out.

    `executor` is any `concurrent.futures.Executor`, or a function that makes one; what it makes
    is shut down at the end, what is given is left as it is.
    """

    executor: Executor | Callable[[], Executor] | None = None
    checkpoint: str | Path | None = None
    limit: int | None = None
    progress: Progress | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.limit is not None and (
            isinstance(self.limit, bool) or not isinstance(self.limit, int) or self.limit < 1
        ):
            raise RequestError(
                f"A limit is a whole number of cells, at least 1 cell, but it is {self.limit!r}."
            )
        if self.limit is not None:  # what nobody counts up to fits into the loops' integers
            object.__setattr__(self, "limit", min(self.limit, _UNREACHED))
        if self.progress is not None and not callable(self.progress):
            raise RequestError("progress= takes a function of the number of cells so far.")
        if not (self.executor is None or isinstance(self.executor, Executor)) and not callable(
            self.executor
        ):
            raise RequestError(
                "executor= takes a concurrent.futures.Executor, or a function that makes one."
            )


def tally(
    engine: Engine[Piece], execution: Execution, *, regions: bool
) -> tuple[Tally, tuple[str, ...]]:
    """The sum over all pieces, and what there is to say about how it came."""
    if execution.executor is None and execution.checkpoint is None:
        whole, limit, progress = engine.start(), execution.limit, execution.progress
        return engine.count(whole, regions=regions, limit=limit, progress=progress), ()
    return _Job(engine, execution, regions).run()


def _work(engine: Engine[Piece], piece: Piece, regions: bool, limit: int | None) -> Tally:
    return engine.count(piece, regions=regions, limit=limit, progress=None)


class _Job(Generic[Piece]):
    """One count in pieces."""

    def __init__(self, engine: Engine[Piece], execution: Execution, regions: bool) -> None:
        self.engine, self.execution, self.regions = engine, execution, regions
        self.pieces = engine.split_piece(engine.start(), PIECES)
        self.notes: list[str] = []
        self.done: dict[int, Tally] = {}
        self.kept: Checkpoint | None = None
        if execution.checkpoint is not None:
            part = "regions" if regions else "cells"
            self.kept = Checkpoint(execution.checkpoint, engine.key(), part, len(self.pieces))
            self.done = dict(self.kept.done)
            if self.done:
                self.notes.append(f"{len(self.done)} of {len(self.pieces)} pieces were done before")

    def run(self) -> tuple[Tally, tuple[str, ...]]:
        try:
            self._tell_progress()
            if self.execution.executor is None:
                self._count_here()
            else:
                self._count_in_pools()
        finally:
            if self.kept is not None:
                self.kept.write()
        return total(self.done[n] for n in sorted(self.done)), tuple(self.notes)

    @property
    def pieces_left(self) -> list[int]:
        return [n for n in range(len(self.pieces)) if n not in self.done]

    @property
    def cells(self) -> int:
        return sum(piece.cells for piece in self.done.values())

    def _tell_progress(self) -> None:
        if self.execution.limit is not None and self.cells > self.execution.limit:
            raise OverLimit(self.cells, self.execution.limit)
        if self.execution.progress is not None:
            self.execution.progress(self.cells)

    def _finish(self, number: int, counted: Tally) -> None:
        self.done[number] = counted
        if self.kept is not None:
            self.kept.add(number, counted)
        self._tell_progress()

    def _count_here(self) -> None:
        for number in self.pieces_left:
            before = self.cells
            room = None if self.execution.limit is None else self.execution.limit - before
            try:
                counted = self.engine.count(
                    self.pieces[number],
                    regions=self.regions,
                    limit=None if room is None else max(room, 1),
                    progress=self._progress_from(before),
                )
            except OverLimit as reason:
                raise OverLimit(before + reason.found, reason.limit) from None
            self._finish(number, counted)

    def _progress_from(self, before: int) -> Progress | None:
        tell = self.execution.progress
        return None if tell is None else lambda cells: tell(before + cells)

    # ---- with an executor ----------------------------------------------------------------------

    def _count_in_pools(self) -> None:
        broken = 0
        while self.pieces_left:
            before = len(self.done)
            if self._count_in_pool():
                return
            broken = 1 if len(self.done) > before else broken + 1
            if isinstance(self.execution.executor, Executor):
                self.notes.append(
                    f"the pool broke: the last {len(self.pieces_left)} of {len(self.pieces)} "
                    f"pieces were counted in this process"
                )
                self._count_here()
                return
            if broken >= _MOST_POOLS:
                self.notes.append(f"{broken} pools broke in turn: the rest was counted here")
                self._count_here()
                return
            self.notes.append("a pool broke and was replaced")

    def _count_in_pool(self) -> bool:
        """Give all pieces that are left to a pool; whether it lived to the end."""
        given = self.execution.executor
        assert given is not None
        pool = given if isinstance(given, Executor) else given()
        waiting: dict[Future[Tally], int] = {}
        try:
            for number in self.pieces_left:
                future = pool.submit(
                    _work, self.engine, self.pieces[number], self.regions, self.execution.limit
                )
                waiting[future] = number
            for future in _as_they_come(waiting):
                self._finish(waiting[future], future.result())
            return True
        except BrokenExecutor:
            for future, number in waiting.items():  # those that came through before it broke
                if future.done() and not future.cancelled() and future.exception() is None:
                    self.done.setdefault(number, future.result())
            return False
        finally:
            for future in waiting:
                future.cancel()
            if pool is not given:
                pool.shutdown(wait=False, cancel_futures=True)


def _as_they_come(waiting: dict[Future[Tally], int]) -> Iterator[Future[Tally]]:
    """Futures as they come, with a look for Ctrl-C in between."""
    left = set(waiting)
    while left:
        done, left = wait(left, timeout=_WAIT, return_when=FIRST_COMPLETED)
        yield from done
