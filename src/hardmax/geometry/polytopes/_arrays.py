"""What the compiled walk over a sum reads and writes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

UNKNOWN, EXTREME, INNER, OPEN = range(4)  # what is known of a vector
DONE, PAUSED, FULL, PENDING = range(4)  # why the walk stopped
HEAD, KNOWN, DECIDED, COUNT = range(4)  # places in `now`


class EdgeArrays(NamedTuple):
    """The edges of all summands, as `EdgeGraph` tells, and a random word for each vertex.

    The edges at vertex v are target[start[v]:start[v + 1]], and `way` says in which of the
    directions each of them points. Directions 2 k and 2 k + 1 are opposite; parallel edges of
    different summands share one, so that they move together.
    """

    start: np.ndarray
    target: np.ndarray
    way: np.ndarray
    directions: np.ndarray
    blurs: np.ndarray
    whole: np.ndarray  # the directions, if int64 can hold all that is made of them
    marks: np.ndarray
    floor: int
    is_small: bool  # whether it can


class Queue(NamedTuple):
    """The vertices of the sum that are known, a row each, those to leave behind the head."""

    now: np.ndarray  # head, vertices known, signs left open, directions at the head
    cells: np.ndarray  # one vertex a summand
    keys: np.ndarray  # the exclusive or of their words
    arrivals: np.ndarray  # the direction that leads back
    hints: np.ndarray  # a foot on the wall that was crossed, and a point beyond it
    table: np.ndarray  # rows by their keys


class Cone(NamedTuple):
    """The directions at one vertex, and what is found out about them."""

    ways: np.ndarray
    vectors: np.ndarray
    blurs: np.ndarray
    whole: np.ndarray
    status: np.ndarray
    feet: np.ndarray
    beyond: np.ndarray


class Scratch(NamedTuple):
    """Tableaux of the simplex method, in floats and in whole numbers, and a ring of faces."""

    chosen: np.ndarray
    lifted: np.ndarray
    tableau: np.ndarray
    basis: np.ndarray
    signs: np.ndarray
    centre: np.ndarray
    columns: np.ndarray
    whole_tableau: np.ndarray
    normals: np.ndarray
    seen: np.ndarray  # by direction: the vertex that had it last


def new_cone(most: int, width: int) -> Cone:
    """Room for so many directions."""
    return Cone(
        ways=np.zeros(most, dtype=np.int64),
        vectors=np.zeros((most, width)),
        blurs=np.zeros((most, width)),
        whole=np.zeros((most, width), dtype=np.int64),
        status=np.full(most, UNKNOWN, dtype=np.int64),
        feet=np.full((most, width), np.nan),
        beyond=np.full((most, width), np.nan),
    )


def new_scratch(most: int, width: int, directions: int) -> Scratch:
    """Room for cones of so many directions, out of all."""
    return Scratch(
        chosen=np.zeros(most, dtype=np.int64),
        lifted=np.zeros((most, width + 1)),
        tableau=np.zeros((width + 2, most + width + 2)),
        basis=np.zeros(width + 1, dtype=np.int64),
        signs=np.zeros(width + 1),
        centre=np.zeros(width),
        columns=np.zeros((most, width), dtype=np.int64),
        whole_tableau=np.zeros((width + 1, most + 1), dtype=np.int64),
        normals=np.zeros((most, width)),
        seen=np.full(directions, -1, dtype=np.int64),
    )
