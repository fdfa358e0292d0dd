"""What the compiled search reads and writes: a layer as tables, cells, and room for the search."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

DONE, FULL, OUT = 0, 1, 3  # split; a cell does not fit; no room for children: go on from this cell
UNCHANGED, EMPTY, CLOSE, NO_ROOM = -1, -2, -3, -4  # what a clip leaves, if not a number of vertices


class LayerTables(NamedTuple):
    """A layer as arrays: rows rounded to floats, and numbers of rows elsewhere (-1 for none)."""

    weights: np.ndarray  # the rows' coefficients
    sizes: np.ndarray  # their magnitudes
    levels: np.ndarray  # the rows' constants
    starts: np.ndarray  # groups + 1: the first piece of each
    score: np.ndarray  # pieces
    payload: np.ndarray  # pieces x most targets
    target: np.ndarray  # groups x most targets
    base: np.ndarray  # coordinates of the next state
    most: int  # pieces of a group
    continuous: bool  # whether every payload is its score, so that ties are harmless


class Task(NamedTuple):
    """What is wanted."""

    layer: int
    fast: bool  # believe floats: what is too close counts as equal
    keep: bool  # write children down


class Parents(NamedTuple):
    """The cells that are split, one behind the other."""

    vstart: np.ndarray
    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    fstart: np.ndarray
    labels: np.ndarray
    forms: np.ndarray  # their states
    known: np.ndarray  # winners that are decided already, and -1 elsewhere
    reach: np.ndarray  # the largest magnitude of each coordinate in the domain
    counts: np.ndarray  # written: how many children each has


class Children(NamedTuple):
    """What they are split into, and parts that are too close to call."""

    fill: np.ndarray  # how many cells, vertices and facets there are
    parent: np.ndarray
    won: np.ndarray  # the winner of each group, -1 where it is open
    vstart: np.ndarray
    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    fstart: np.ndarray
    labels: np.ndarray
    forms: np.ndarray


class FloatCell(NamedTuple):
    """One polytope."""

    points: np.ndarray
    stray: np.ndarray  # how far each vertex may be off
    bits: np.ndarray  # on which facets it lies
    labels: np.ndarray  # of the facets: layer, group, piece, rival


class Pile(NamedTuple):
    """The stack of parts of one cell."""

    vertices: np.ndarray  # how many each has
    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    labels: np.ndarray
    level: np.ndarray  # how many of the open groups are decided
    won: np.ndarray  # by whom


class Rivals(NamedTuple):
    """A layer on one cell: its rows as forms of the input, and who may win where."""

    made: np.ndarray  # rows x (coefficients, constant, error)
    bulk: np.ndarray  # what values of a row at a point are off by
    slope: np.ndarray  # how much they move when the point does
    found: np.ndarray  # pieces that may win, from starts[group] on
    sizes: np.ndarray  # how many they are, by group
    open: np.ndarray  # groups in which they are several
    winners: np.ndarray  # of each group
    pool: np.ndarray  # pieces of one group, those that may win moved to its front
    values: np.ndarray  # of their scores at the vertices


class ClipScratch(NamedTuple):
    """Scratch of a clip: three cells, by turns the source and the target, and one wall."""

    points: np.ndarray
    stray: np.ndarray
    bits: np.ndarray
    labels: np.ndarray
    form: np.ndarray
    label: np.ndarray
    value: np.ndarray  # of the form at the vertices
    slack: np.ndarray  # how far those are off
    side: np.ndarray
    kept: np.ndarray  # bits of facets that stay
    won: np.ndarray


def new_rivals(tables: LayerTables, dimension: int, vertices: int) -> Rivals:
    """Room for a layer on cells of so many vertices."""
    rows, groups = len(tables.levels), len(tables.starts) - 1
    return Rivals(
        made=np.empty((rows, dimension + 2)),
        bulk=np.empty(rows),
        slope=np.empty(rows),
        found=np.empty(len(tables.score), np.int64),
        sizes=np.empty(groups, np.int64),
        open=np.empty(groups, np.int64),
        winners=np.empty(groups, np.int64),
        pool=np.empty(2 * tables.most, np.int64),
        values=np.empty((tables.most, vertices)),
    )
