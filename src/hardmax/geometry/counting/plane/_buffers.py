"""A Stack laid out for the compiled walk, and room for the walk itself."""

from __future__ import annotations

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import numpy as np

from hardmax.geometry.counting._stack import Stack, lost_by_subnormals, what_sensitivities_lose
from hardmax.geometry.counting.plane._kernels import LAYERS, Net, Walk
from hardmax.numerics import inflate, matmul_up, stray

_NAMES = 7  # any seed: two runs of one count must give cells the same names
_NODES, _SIDES = 64, 16  # of a walk to begin with; both grow when needed

_known: WeakKeyDictionary[Stack, Net] = WeakKeyDictionary()
_idle: WeakKeyDictionary[Stack, list[Walk]] = WeakKeyDictionary()  # small counts begin often


def net_of(stack: Stack) -> Net:
    """The Stack's numbers, flat; made once."""
    found = _known.get(stack)
    if found is None:
        found = _known[stack] = _made(stack)
    return found


def _made(stack: Stack) -> Net:
    hidden = stack.weights[:-1]
    out, wrong = _combined(stack.weights[-1])
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
    found = np.zeros((sum(len(W) for W in matrices), width))
    at = 0
    for W in matrices:
        found[at : at + len(W), : W.shape[1]] = W
        at += len(W)
    return found


def _combined(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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
        poly=np.empty((nodes, 7, sides)),
        code=np.empty((nodes, sides), dtype=np.int64),
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
        spare=np.empty((1, 7, sides)),
        spare_code=np.empty((1, sides), dtype=np.int64),
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
    return walk._replace(**{name: _doubled(getattr(walk, name), 0) for name in names})


def more_sides(walk: Walk) -> Walk:
    """The same walk with room for polygons of twice as many sides."""
    names = ("poly", "code", "signs", "spare", "spare_code", "cells", "cell_heads")
    return walk._replace(
        **{name: _doubled(getattr(walk, name), getattr(walk, name).ndim - 1) for name in names}
    )


def _doubled(array: np.ndarray, axis: int) -> np.ndarray:
    return np.concatenate([array, np.empty_like(array)], axis=axis)
