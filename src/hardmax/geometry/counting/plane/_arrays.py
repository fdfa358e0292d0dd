"""What the compiled walk reads and writes: a Stack laid out flat, and room for the walk itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from hardmax.geometry.counting._stack import Stack, lost_by_subnormals, what_sensitivities_lose
from hardmax.numerics import inflate, matmul_up, stray

DONE, PAUSED, MORE_NODES, MORE_SIDES, SIGNS, FACET, FULL, OVER = range(8)  # why the walk stopped
COUNT, REGIONS, EMIT, STEP = range(4)  # what it is for
TOP, GIVEN, SIDE, SILENT, EMITTED, CELLS, LAYERS = range(7)  # places in `now`
X, Y, R, A, B, C, S = range(7)  # rows of a polygon: corners, then the lines of the sides
LAYER, SIDES, OPEN = range(3)  # places in a node's head; OPEN is -1 if all neurons are
UNSURE = 2  # beside the signs -1, 0, 1

_NAMES = 7  # any seed: two runs of one count must give cells the same names
_NODES, _SIDES = 64, 16  # of a walk to begin with; both grow when needed


class Net(NamedTuple):
    """A Stack. Neurons are numbered through; `start[layer]` is the first of hidden layer layer."""

    start: np.ndarray
    columns: np.ndarray  # columns[g, j]: from neuron number g to neuron j of the next layer
    rows: np.ndarray  # rows[g - start[1], i]: to neuron number g from neuron i of the layer before
    bias: np.ndarray  # by layer, then neuron; so that the compiler sees indices that run from 0
    slack: np.ndarray
    names: np.ndarray  # two random words a neuron
    out: np.ndarray  # how the combined output depends on the last hidden layer
    speaks: np.ndarray  # whether any output depends on that neuron
    faint: np.ndarray  # sensitivities at most this large may be 0
    reach: np.ndarray
    first: np.ndarray  # the maps of the first layer


class Walk(NamedTuple):
    """Everything that changes: the nodes, then what the layers below them are, then scratch."""

    now: np.ndarray
    head: np.ndarray
    poly: np.ndarray  # one more than there are nodes: the last is for a half that is being cut off
    code: np.ndarray  # of a side: twice its label, plus 1 if it is marked
    open: np.ndarray
    sums: np.ndarray  # affine maps of the next layer, as far as they are known
    pattern: np.ndarray
    name: np.ndarray
    maps: np.ndarray  # of each layer, on the cell that the walk is in
    below: np.ndarray  # patterns of finished layers
    signs: np.ndarray
    low: np.ndarray
    high: np.ndarray
    on: np.ndarray
    kept: np.ndarray
    felt: np.ndarray  # sensitivities, by layer
    touched: np.ndarray
    silent: np.ndarray
    cells: np.ndarray  # emitted: corners
    cell_heads: np.ndarray  # number of sides, then codes
    cell_patterns: np.ndarray


class WalkNode(NamedTuple):
    """The node that is looked at, by numbers."""

    place: int  # on the stack
    layer: int
    sides: int
    first: int  # the number of the layer's first neuron
    width: int  # neurons of the layer
    next_width: int  # of the layer after it, 0 if there is none
    last: int  # the last hidden layer


_nets: WeakKeyDictionary[Stack, Net] = WeakKeyDictionary()
_idle: WeakKeyDictionary[Stack, list[Walk]] = WeakKeyDictionary()  # small counts begin often


def net_of(stack: Stack) -> Net:
    """The Stack's numbers, flat; made once."""
    net = _nets.get(stack)
    if net is None:
        net = _nets[stack] = _flat_net(stack)
    return net


def _flat_net(stack: Stack) -> Net:
    hidden = stack.weights[:-1]
    out, wrong = _combine_outputs(stack.weights[-1])
    return Net(
        start=np.cumsum([0, *stack.hidden]),
        columns=_below_each_other([W.T for W in hidden[1:]]),
        rows=_below_each_other(hidden[1:]),
        bias=_below_each_other([b[None, :] for b in stack.biases[:-1]]),
        slack=_below_each_other([e[None, :] for e in stack.slacks[:-1]]),
        names=neuron_names(sum(stack.hidden)),
        out=out,
        speaks=(stack.weights[-1] != 0.0).any(axis=0),
        faint=what_sensitivities_lose(hidden, np.abs(out), wrong),
        reach=np.array(stack.reach),
        first=np.concatenate([stack.weights[0].T, stack.biases[0][None, :]]),
    )


def neuron_names(count: int) -> np.ndarray:
    """Two random words a neuron. A cell is named by the sum, bit by bit, of what is on in it."""
    return np.random.default_rng(_NAMES).integers(0, 2**64, size=(count, 2), dtype=np.uint64)


def _below_each_other(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """One matrix as wide as the widest."""
    width = max((W.shape[1] for W in matrices), default=1)
    stacked = np.zeros((sum(len(W) for W in matrices), width))
    at = 0
    for W in matrices:
        stacked[at : at + len(W), : W.shape[1]] = W
        at += len(W)
    return stacked


def _combine_outputs(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One row that stands for all outputs, and what it is off by.

    If a combination of sensitivities is not 0, neither are all of them; with random factors the
    converse hardly ever fails, and where it does the exact comparison decides.
    """
    if len(W) == 1:
        return np.array(W[0]), np.zeros(W.shape[1])
    factors = np.random.default_rng(_NAMES).uniform(0.5, 1.0, size=len(W))
    size = matmul_up(np.abs(W).T, factors)
    return factors @ W, inflate(stray(len(W), size) + lost_by_subnormals(W, factors))


def idle_walk(stack: Stack, corners: int) -> Walk:
    """Room for counting cells: what an earlier count gave back, or new."""
    waiting = _idle.setdefault(stack, [])
    try:
        walk = waiting.pop()
    except IndexError:
        return new_walk(net_of(stack), corners=corners)
    walk.now[:] = 0
    return walk if corners + 2 <= walk.code.shape[1] else more_sides(walk)


def give_back(stack: Stack, walk: Walk) -> None:
    """The walk is over; its room may be used again."""
    _idle.setdefault(stack, []).append(walk)


def new_walk(net: Net, *, emits: int = 0, silent: int = 0, corners: int = 4) -> Walk:
    """Room for a walk that has not begun."""
    layers = len(net.start) - 1
    width = int(np.max(np.diff(net.start), initial=1))
    nodes, sides = _NODES, max(_SIDES, corners + 4)
    return Walk(
        now=np.zeros(LAYERS + layers, dtype=np.int64),
        head=np.zeros((nodes, 3), dtype=np.int64),
        poly=np.empty((nodes + 1, 7, sides)),
        code=np.empty((nodes + 1, sides), dtype=np.int64),
        open=np.empty((nodes, width + 1), dtype=np.int64),
        sums=np.empty((nodes, 3, width)),
        pattern=np.zeros((nodes, width), dtype=np.uint8),
        name=np.zeros((nodes, 2), dtype=np.uint64),
        maps=np.empty((layers, 3, width)),
        below=np.zeros((layers, width), dtype=np.uint8),
        signs=np.empty((width, sides), dtype=np.int8),
        low=np.empty(width),
        high=np.empty(width),
        on=np.empty(width + 4, dtype=np.int64),
        kept=np.empty(width, dtype=np.int64),
        felt=np.empty((layers, width)),
        touched=np.empty((2, width), dtype=np.bool_),
        silent=np.empty((silent, 4), dtype=np.uint64),
        cells=np.empty((emits, 2, sides)),
        cell_heads=np.empty((emits, sides + 1), dtype=np.int64),
        cell_patterns=np.empty((emits, int(net.start[-1])), dtype=np.uint8),
    )


def more_nodes(walk: Walk) -> Walk:
    """The same walk with room for twice as many nodes."""
    names = ("head", "poly", "code", "open", "sums", "pattern", "name")
    return walk._replace(**{name: _double_axis(getattr(walk, name), 0) for name in names})


def more_sides(walk: Walk) -> Walk:
    """The same walk with room for polygons of twice as many sides."""
    names = ("poly", "code", "signs", "cells", "cell_heads")
    return walk._replace(
        **{name: _double_axis(getattr(walk, name), getattr(walk, name).ndim - 1) for name in names}
    )


def _double_axis(array: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate([array, np.empty_like(array)], axis=axis)
