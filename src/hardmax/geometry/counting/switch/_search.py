"""The search: batches of cells through layers, floats first, whole numbers where they must."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hardmax.geometry.counting.switch._arrays import (
    DONE,
    Children,
    FloatCell,
    Parents,
    Task,
    new_rivals,
)
from hardmax.geometry.counting.switch._buffers import SearchBuffers
from hardmax.geometry.counting.switch._exact import (
    Choice,
    Decisions,
    ExactCell,
    split_exactly,
)
from hardmax.geometry.counting.switch._exact_states import CellState, Paths, exact_cell
from hardmax.geometry.counting.switch._kernels import split_cells
from hardmax.geometry.counting.switch._piece import Batch, SwitchPiece, packed_cells
from hardmax.geometry.counting.switch._program import SwitchLayer, SwitchProgram
from hardmax.geometry.counting.switch._rival_kernels import rivals_in
from hardmax.geometry.counting.switch._rows import Row, nearest_floats
from hardmax.numerics import TINY, UNIT, inflate, matmul_up, sum_up

Written = tuple[np.ndarray, np.ndarray, SwitchPiece, np.ndarray]

CHUNK = 512  # cells given to the compiled loop at once
_FEW = 16  # while it is interpreted
FEW = 8  # ways in which open groups can choose that are not worth the way back to floats


class SwitchSearch:
    """One search, with what it remembers."""

    def __init__(self, program: SwitchProgram, piece: SwitchPiece, fast: bool) -> None:
        self.program, self.piece, self.fast = program, piece, fast
        self.paths = Paths(program, piece.sides, piece.ties)
        self._decisions = Decisions(piece.decided)
        self._room = SearchBuffers(program.dimension)

    @property
    def decided(self) -> int:
        return self._decisions.count

    # ---- three ways to search ----------------------------------------------------------------

    def counts(self) -> Iterator[tuple[int, int]]:
        """How many cells there are behind a layer, part after part."""
        last = self.program.depth - 1
        stack = self._batches_by_context(self.piece)
        while stack:
            batch, rest = _split_off_chunk(stack.pop())
            count, children, left = self._advance(batch, keep=batch.piece.layer < last)
            stack += [one for one in (rest, left) if one is not None]
            stack += children
            yield batch.piece.layer, count

    def parts(self) -> Iterator[tuple[int, int, Batch | None]]:
        """As `counts`, but the cells behind the last layer come along, batch after batch."""
        depth = self.program.depth
        stack = self._batches_by_context(self.piece)
        while stack:
            batch, rest = _split_off_chunk(stack.pop())
            if rest is not None:
                stack.append(rest)
            if batch.piece.layer == depth:
                yield max(depth - 1, 0), len(batch.piece), batch
                continue
            count, children, left = self._advance(batch, keep=True)
            stack += [*([] if left is None else [left]), *children]
            if batch.piece.layer < depth - 1:
                yield batch.piece.layer, count, None

    def next_layer(self, pieces: list[SwitchPiece]) -> list[SwitchPiece]:
        """The cells behind one layer, as pieces again; the first one holds the counts."""
        before = next(one.counted for one in pieces)
        todo = [batch for piece in pieces for batch in self._batches_by_context(piece)]
        behind: list[Batch] = []
        total = 0
        while todo:
            batch, rest = _split_off_chunk(todo.pop())
            count, children, left = self._advance(batch, keep=True)
            todo += [one for one in (rest, left) if one is not None]
            behind += [one for one in children if one.piece.layer > batch.piece.layer]
            todo += [one for one in children if one.piece.layer == batch.piece.layer]
            total += count
        bare = [
            replace(batch.piece, ties=tuple(self.paths.ties), counted=(), decided=0)
            for batch in behind
        ]
        bare[0] = replace(bare[0], counted=(*before, total), decided=self.decided)
        return bare

    # ---- one layer ---------------------------------------------------------------------------

    def _batches_by_context(self, piece: SwitchPiece) -> list[Batch]:
        """Cells by context, with their states computed from their patterns."""
        nodes = [self.paths.node(tuple(row), piece.layer) for row in piece.pattern.tolist()]
        by_context: dict[int, list[int]] = {}
        for i, node in enumerate(nodes):
            by_context.setdefault(node.context, []).append(i)
        return [
            Batch(
                piece.pick(np.array(members)),
                context,
                np.stack([float_forms(nodes[i].forms, piece.reach) for i in members]),
            )
            for context, members in by_context.items()
        ]

    def _advance(self, batch: Batch, *, keep: bool) -> tuple[int, list[Batch], Batch | None]:
        """Split by the next layer: how many children, the children, and what did not fit."""
        piece = batch.piece
        layer = self.program.layer(piece.layer, batch.context)
        if layer is None:  # affine in the input of each cell, if at all: its nodes know
            return 0, self._batches_by_context(piece), None
        stop, count, written = self._split_in_floats(layer, batch, keep)
        children = []
        if written is not None:
            parent, won, parts, forms = written
            is_open = (won < 0).any(axis=1)
            closed = np.flatnonzero(~is_open)
            if len(closed):
                children = self._by_context(
                    parts if len(closed) == len(won) else parts.pick(closed),
                    batch.context, layer, won[closed], forms[closed],
                )  # fmt: skip
            for k in np.flatnonzero(is_open):
                part = replace(parts.pick(np.array([k])), layer=piece.layer)
                part = replace(part, pattern=piece.pattern[parent[k] : parent[k] + 1])
                state = Batch(part, batch.context, batch.forms[parent[k]][None])
                more, exact = self._split_exactly(state, won[k].tolist(), layer, keep)
                count += more
                children += exact
        left = batch.take(stop, len(piece)) if stop < len(piece) else None
        return count, children, left

    def _split_in_floats(
        self, layer: SwitchLayer, batch: Batch, keep: bool
    ) -> tuple[int, int, Written | None]:
        """How many cells were split, into how many, and what was written."""
        tables, piece = layer.tables, batch.piece
        counts = np.zeros(len(piece), dtype=np.int64)
        known = batch.known
        if known is None:
            known = np.full((len(piece), len(layer.groups)), -1, dtype=np.int32)
        task = Task(piece.layer, self.fast, keep)
        while True:
            pile, rivals, cut, children = self._room.buffers(tables, piece.bits.shape[1], keep)
            parents = Parents(
                piece.vstart, piece.points, piece.stray, self._room.widen_bits(piece.bits),
                piece.fstart, piece.labels, batch.forms, known, piece.reach, counts,
            )  # fmt: skip
            stop, code = split_cells(tables, parents, task, pile, rivals, cut, children)
            if stop > 0 or code == DONE:
                return stop, int(counts[:stop].sum()), _collect_children(children, piece)
            self._room.grow(code)

    def _by_context(
        self,
        child: SwitchPiece,
        context: int,
        layer: SwitchLayer,
        won: np.ndarray,
        forms: np.ndarray,
    ) -> list[Batch]:
        if not layer.branching:
            return [Batch(child, self.program.after(child.layer - 1, context, ()), forms)]
        chosen, where = np.unique(won[:, list(layer.branching)], axis=0, return_inverse=True)
        members: dict[int, list[np.ndarray]] = {}
        for k, row in enumerate(chosen.tolist()):
            pieces = tuple(
                layer.groups[g].pieces[p] for g, p in zip(layer.branching, row, strict=True)
            )
            after = self.program.after(child.layer - 1, context, pieces)
            members.setdefault(after, []).append(np.flatnonzero(where.ravel() == k))
        if len(members) == 1:
            return [Batch(child, next(iter(members)), forms)]
        return [
            Batch(child.pick(index), after, forms[index])
            for after, parts in members.items()
            for index in [np.sort(np.concatenate(parts))]
        ]

    # ---- in whole numbers --------------------------------------------------------------------

    def _split_exactly(
        self, batch: Batch, won: list[int], layer: SwitchLayer, keep: bool
    ) -> tuple[int, list[Batch]]:
        """Split a part of a cell by the first groups that are open, and give the rest back.

        The first one is too close to call, those behind it need not be. Ties whose payloads
        differ, and few ways to choose, are split to the end.
        """
        part = batch.piece
        pattern = tuple(part.pattern[0].tolist())
        node = self.paths.node(pattern, part.layer)
        rivals = _rivals(part, batch.forms[0], layer, np.array(won, dtype=np.int32))
        groups = [
            (some, node.scores(g, some) if len(some) > 1 else []) for g, some in enumerate(rivals)
        ]
        cell = exact_cell(part, 0, pattern, self.paths)
        open_groups = [g for g, some in enumerate(rivals) if len(some) > 1]
        if math.prod(len(some) for some in rivals) > FEW and len(open_groups) > 1:
            some = split_exactly(cell, groups[: open_groups[0] + 1], part.layer, self._decisions)
            if layer.tables.continuous or all(len(c) == 1 for _, won in some for c in won):
                return 0, [self._batch_of_parts(batch, some, len(layer.groups))]
        parts = split_exactly(cell, groups, part.layer, self._decisions)
        if not keep:
            return len(parts), []
        by_context: dict[int, list[tuple[ExactCell, tuple[int, ...], CellState]]] = {}
        for smaller, choices in parts:
            code = (*pattern, *(self.paths.code(choice) for choice in choices))
            child = self.paths.node(code, part.layer + 1)
            by_context.setdefault(child.context, []).append((smaller, code, child))
        return len(parts), [
            self._batch_of_members(part, context, members)
            for context, members in by_context.items()
        ]

    def _batch_of_parts(
        self, batch: Batch, some: list[tuple[ExactCell, tuple[Choice, ...]]], width: int
    ) -> Batch:
        """Parts whose first groups are decided, for the compiled loop."""
        pattern = tuple(batch.piece.pattern[0].tolist())
        packed = packed_cells([cell for cell, _ in some], [pattern] * len(some))
        known = np.full((len(some), width), -1, dtype=np.int32)
        for k, (_, won) in enumerate(some):
            known[k, : len(won)] = [choice[0] for choice in won]
        piece = replace(batch.piece, **packed._asdict())
        return Batch(piece, batch.context, np.repeat(batch.forms, len(some), axis=0), known)

    def _batch_of_members(
        self,
        part: SwitchPiece,
        context: int,
        members: list[tuple[ExactCell, tuple[int, ...], CellState]],
    ) -> Batch:
        packed = packed_cells([one[0] for one in members], [one[1] for one in members])
        some = replace(part, layer=part.layer + 1, **packed._asdict())
        forms = np.stack([float_forms(one[2].forms, part.reach) for one in members])
        return Batch(some, context, forms)


def _collect_children(children: Children, piece: SwitchPiece) -> Written | None:
    """What the compiled loop has left: parents, winners, cells, states; None if nothing."""
    count, nv, nf = children.fill.tolist()
    if count == 0:
        return None
    parent, won = children.parent[:count].copy(), children.won[:count].copy()
    cells = replace(
        piece,
        layer=piece.layer + 1,
        vstart=children.vstart[: count + 1].copy(),
        points=children.points[:nv].copy(),
        stray=children.stray[:nv].copy(),
        bits=children.bits[:nv].copy(),
        fstart=children.fstart[: count + 1].copy(),
        labels=children.labels[:nf].copy(),
        pattern=np.hstack([piece.pattern[parent], won]),
    )
    return parent, won, cells, children.forms[:count].copy()


def _rivals(
    part: SwitchPiece, forms: np.ndarray, layer: SwitchLayer, known: np.ndarray
) -> list[list[int]]:
    """The pieces of each group that floats cannot rule out on a part of a cell."""
    tables = layer.tables
    rivals = new_rivals(tables, len(part.reach), len(part.stray))
    cell = FloatCell(part.points, part.stray, part.bits, part.labels)
    rivals_in(tables, cell, forms, known, part.reach, rivals)
    return [
        [int(p - start) for p in rivals.found[start : start + size]]
        for start, size in zip(tables.starts[:-1].tolist(), rivals.sizes.tolist(), strict=True)
    ]


def float_forms(forms: tuple[Row, ...], reach: np.ndarray) -> np.ndarray:
    """The nearest floats, and how far the form may be off anywhere in the domain."""
    d = len(reach)
    near = np.array([nearest_floats(row) for row in forms]).reshape(len(forms), d + 1)
    room = np.append(reach, 1.0)
    off = inflate(UNIT * matmul_up(np.abs(near), room) + inflate(TINY * sum_up(room)))
    return np.hstack([near, off[:, None]])


def _split_off_chunk(batch: Batch) -> tuple[Batch, Batch | None]:
    """At most a chunk, and the rest."""
    most = split_cells.stride(CHUNK, _FEW)
    if len(batch.piece) <= most:
        return batch, None
    return batch.take(0, most), batch.take(most, len(batch.piece))
