"""Cells of a switch program, depth first, a batch of cells at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from hardmax.geometry.counting._tally import OverLimit, Tally
from hardmax.geometry.counting.switch._leaves import SwitchCell, leaves
from hardmax.geometry.counting.switch._piece import SwitchPiece
from hardmax.geometry.counting.switch._program import SwitchProgram
from hardmax.geometry.counting.switch._search import SwitchSearch

Progress = Callable[[int], None]


def count_piece(
    program: SwitchProgram,
    piece: SwitchPiece,
    *,
    fast: bool = False,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Tally:
    """Cells after each layer, within the piece.

    `progress` is told the number of cells so far, now and then. Memory does not grow with the
    count.
    """
    run = SwitchSearch(program, piece, fast)
    layers = [*piece.counted, *[0] * (max(program.depth, 1) - len(piece.counted))]
    if program.depth == 0:
        return Tally((len(piece),))
    for number, count in run.counts():
        layers[number] += count
        if number == program.depth - 1:
            if progress is not None:
                progress(layers[-1])
            if limit is not None and layers[-1] > limit:
                raise OverLimit(layers[-1], limit)
    return Tally(tuple(layers), run.decided)


def split_piece(
    program: SwitchProgram, piece: SwitchPiece, *, fast: bool = False, at_least: int = 2
) -> list[SwitchPiece]:
    """Pieces that together are this one, `at_least` so many if there are so many cells.

    Layers are taken until there are cells enough, but never the last one; what was counted on the
    way, and the decisions that were exact, go with the first piece.
    """
    pieces = [piece]
    while pieces[0].layer < program.depth - 1 and sum(map(len, pieces)) < at_least:
        pieces = SwitchSearch(program, pieces[0], fast).next_layer(pieces)
    cells = sum(map(len, pieces))
    share = max(1, cells // at_least)
    shares = [
        replace(one.take(i, min(i + share, len(one))), counted=(), decided=0)
        for one in pieces
        for i in range(0, len(one), share)
    ]
    shares[0] = replace(shares[0], counted=pieces[0].counted, decided=pieces[0].decided)
    return shares


def each_cell(
    program: SwitchProgram, piece: SwitchPiece, *, fast: bool = False
) -> Iterator[SwitchCell]:
    """Every cell of the piece, one after another."""
    run = SwitchSearch(program, piece, fast)
    for _, _, batch in run.parts():
        if batch is not None:
            yield from leaves(batch, run.paths)
