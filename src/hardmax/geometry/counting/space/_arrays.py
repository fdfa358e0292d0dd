"""What the compiled walk reads and writes: the network laid out flat, and room for the walk."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.geometry.counting._stack import Stack, what_sensitivities_lose
from hardmax.geometry.counting.space._exact import Row
from hardmax.geometry.counting.space._piece import first_label, living
from hardmax.numerics import TINY, inflate, matmul_up, nearest_ratio, stray, sum_up

DONE, PAUSED, FULL, UNSURE, LEAF, DOUBT = range(6)  # why the walk stopped
COUNT, REGIONS, CELLS = range(3)  # what is wanted of the leaves
LAYER, START, SIZE, OPEN, STAINED = range(5)  # columns of `nodes`
DEPTH, BUDGET, SILENT, LIMIT, MODE = range(5)  # places in `now`
NEGATIVE, POSITIVE, CROSSING = range(3)  # what the values of a wall say
FLATS = 16  # for speed: a last layer with so few walls in a cell is counted by flats

_FINE = 1e-14  # vertices with radii below this part of the domain are not found again


class Net(NamedTuple):
    """The network, and what does not change while it is walked."""

    widths: np.ndarray  # of the hidden layers
    firsts: np.ndarray  # the label of each layer's first neuron; last, of the domain's first side
    layer_of: np.ndarray  # for each label of a neuron
    across: np.ndarray  # (layers, from, to): weights, transposed
    biases: np.ndarray  # (layers, neurons)
    slack: np.ndarray  # for each label
    sides: np.ndarray  # (sides, d + 1): the domain, where they are >= 0
    alive: np.ndarray  # (layers, neurons): 0 where weights and bias are all 0
    out: np.ndarray  # (outputs, neurons of the last hidden layer)
    blur: np.ndarray  # for each neuron: rounding in its effect on the output
    words: np.ndarray  # (neurons, 2) random words
    reach: np.ndarray  # the largest magnitude of each coordinate in the domain
    fine: float  # a radius below which a vertex is not found again
    fast: bool  # believe every sign


class Path(NamedTuple):
    """The affine maps of the layers above the cell at hand, and its pattern there."""

    maps: np.ndarray  # (layers, d + 1, neurons)
    steep: np.ndarray  # (layers, neurons): sums of magnitudes of gradients
    pattern: np.ndarray  # (layers, neurons)


class Store(NamedTuple):
    """Vertices of polytopes, one polytope behind the other."""

    points: np.ndarray
    radii: np.ndarray
    labels: np.ndarray  # those of the facets through a vertex first, then of the flat's walls
    links: np.ndarray  # counted from the polytope's first vertex


class Pile(NamedTuple):
    """The stack of cells."""

    nodes: np.ndarray  # (depth, 5)
    left: np.ndarray  # (depth, neurons): those whose sign is open
    on: np.ndarray  # (depth, neurons)


class Room(NamedTuple):
    """Scratch."""

    value: np.ndarray  # (levels, FLATS + 1, vertices)
    made: np.ndarray  # (vertices, d): the new vertex on an edge
    new: np.ndarray  # (vertices,): a vertex's number in the child
    origin: np.ndarray  # (vertices, 3): vertex, edge, other vertex
    row: np.ndarray  # (4, neurons)
    square: np.ndarray  # (3, d, d + 1)
    rest: np.ndarray  # (d,)
    open: np.ndarray  # (d + 2, FLATS + 1): walls that meet the flat of a level; last, of the cell
    where: np.ndarray  # (levels, 3)
    t: np.ndarray  # (FLATS + 1,): points on a segment
    off: np.ndarray  # (FLATS + 1,): how far they may be off
    sense: np.ndarray  # (2, layers, neurons)
    seen: np.ndarray  # for each label: the leaf that saw it last; at its end, the leaf's number


class Record(NamedTuple):
    """Where the walk is, and what it has found."""

    now: np.ndarray  # depth, budget, silent facets held, limit; what is wanted of the leaves
    counts: np.ndarray  # cells of each layer
    silent: np.ndarray


class Flat(NamedTuple):
    """A polytope at hand: the cell (level 0), a section of it, a section of that, ..."""

    level: int
    start: int  # its first vertex
    size: int


class Wall(NamedTuple):
    """A neuron's form, and what its values are off by: slack + steep * radius."""

    layer: int
    neuron: int
    label: int
    slack: float
    steep: float


def words(count: int) -> np.ndarray:
    """Two words for each neuron: the splitmix64 sequence, the same everywhere and for ever."""
    with np.errstate(over="ignore"):
        z = np.arange(1, 2 * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (z ^ (z >> np.uint64(31))).reshape(count, 2)


def _blur(stack: Stack) -> np.ndarray:
    """For every hidden neuron: how far a derivative of an output by it may be off by rounding.

    In the last hidden layer it is a weight, and is 0 iff that is.
    """
    size = np.max(np.abs(stack.weights[-1]), axis=0, initial=0.0)
    return what_sensitivities_lose(stack.weights[:-1], size, np.zeros_like(size))


def make_net(stack: Stack, sides: tuple[Row, ...], fast: bool) -> Net:
    """The network as the kernels read it."""
    hidden, d = stack.hidden, stack.dimension
    layers, width = len(hidden), max((*hidden, 1))
    across, biases = np.zeros((layers, width, width)), np.zeros((layers, width))
    alive = np.zeros((layers, width), dtype=np.bool_)
    for k in range(layers):
        W = stack.weights[k]
        if k:
            across[k, : W.shape[1], : W.shape[0]] = W.T
        biases[k, : len(W)] = stack.biases[k]
        alive[k, living(stack, k)] = True
    forms, slack = _side_forms(sides, stack.reach, d)
    return Net(
        widths=np.array(hidden, dtype=np.int64),
        firsts=np.array([first_label(stack, k) for k in range(layers + 1)], dtype=np.int64),
        layer_of=np.repeat(np.arange(layers), hidden),
        across=across,
        biases=biases,
        slack=np.concatenate([*stack.slacks[:-1], slack]),
        sides=forms,
        alive=alive,
        out=np.array(stack.weights[-1], order="C"),  # writable, as all: one type, compiled once
        blur=_blur(stack),
        words=words(sum(hidden)),
        reach=np.array(stack.reach),
        fine=_FINE * float(np.max(stack.reach, initial=0.0)),
        fast=fast,
    )


def _side_forms(sides: tuple[Row, ...], reach: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The domain's sides in floats, scaled to gradients of size 1, each number rounded once."""
    forms = np.array([[nearest_ratio(x, max(map(abs, row[:-1]))) for x in row] for row in sides])
    forms = forms.reshape(len(sides), d + 1)
    size = inflate(matmul_up(np.abs(forms[:, :d]), reach) + np.abs(forms[:, d]))
    lost = inflate(TINY * sum_up(reach))  # by coefficients that are subnormal
    return forms, inflate(stray(d + 2, size) + lost)


def new_room(net: Net, d: int, places: int) -> Room:
    """Scratch for sections of so many vertices."""
    (layers, width), flats = net.biases.shape, FLATS + 1
    return Room(
        value=np.zeros((d + 1, flats, places)),
        made=np.zeros((places, d), dtype=np.int32),
        new=np.zeros(places, dtype=np.int32),
        origin=np.zeros((places, 3), dtype=np.int32),
        row=np.zeros((4, max(width, flats, d))),
        square=np.zeros((3, d, d + 1)),
        rest=np.zeros(d),
        open=np.zeros((d + 2, flats), dtype=np.int64),
        where=np.zeros((d + 1, 3), dtype=np.int64),
        t=np.zeros(flats),
        off=np.zeros(flats),
        sense=np.zeros((2, layers, width)),
        seen=np.zeros(net.firsts[-1] + 1, dtype=np.int64),
    )


def new_path(stack: Stack, width: int) -> Path:
    """No layer is entered yet but the first, whose maps are the weights."""
    layers, d = len(stack.hidden), stack.dimension
    maps = np.zeros((layers, d + 1, width))
    maps[0, :d, : stack.hidden[0]] = stack.weights[0].T
    maps[0, d, : stack.hidden[0]] = stack.biases[0]
    return Path(maps, np.zeros((layers, width)), np.zeros((layers, width), dtype=np.bool_))


def new_store(size: int, d: int) -> Store:
    return Store(
        np.empty((size, d)),
        np.empty(size),
        np.empty((size, d), dtype=np.int32),
        np.empty((size, d), dtype=np.int32),
    )


def new_pile(depth: int, width: int) -> Pile:
    return Pile(
        np.zeros((depth, 5), dtype=np.int64),
        np.zeros((depth, width), dtype=np.int64),
        np.zeros((depth, width), dtype=np.bool_),
    )
