"""All loops compiled ahead: for images, clusters, and those who would rather wait now."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hardmax.core import Box
from hardmax.geometry.counting import Segment, line_breakpoints, regions
from hardmax.geometry.diagrams._diagram import power_diagram
from hardmax.geometry.hulls._hull import convex_hull
from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes._minkowski import minkowski_sum
from hardmax.geometry.polytopes._polytope import Polytope
from hardmax.languages import MaxoutNetwork, ReluNetwork


def warm() -> Iterator[str]:
    """Compile one engine after another, each by a small question; their names, before they begin.

    What is kept on disk already is loaded, which takes no time.
    """
    from hardmax.geometry._compiled import at_once  # which loads the compiler

    with at_once():
        for name, ask in _ENGINES.items():
            yield name
            ask()


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def _box(dimension: int) -> Box:
    return Box(-np.ones(dimension), np.ones(dimension))


def _network(inputs: int, *, maxout: bool = False) -> ReluNetwork | MaxoutNetwork:
    if maxout:
        weights = [_numbers(3, 4, inputs), _numbers(2, 1, 4)]
        return MaxoutNetwork(weights, [_numbers(3, 4), _numbers(2, 1)])
    weights = [_numbers(4, inputs), _numbers(4, 4), _numbers(1, 4)]
    return ReluNetwork(weights, [_numbers(4), _numbers(4), _numbers(1)])


def _count(inputs: int, *, maxout: bool = False) -> None:
    found = regions(_network(inputs, maxout=maxout), on=_box(inputs))
    _ = found.cells, found.count, list(found)


def _maxima() -> None:
    _count(2, maxout=True)
    ties = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]]  # which floats cannot decide
    network = MaxoutNetwork(
        [np.array(ties), np.ones((2, 1, 2))], [np.zeros((2, 2)), np.zeros((2, 1))]
    )
    _ = regions(network, on=_box(2)).cells


def _lines() -> None:
    for maxout in (False, True):
        network = _network(2, maxout=maxout)
        _ = regions(network, on=Segment([-1.0, -1.0], [1.0, 1.0])).count
        line_breakpoints(network, _numbers(3, 2), -_numbers(3, 2))


def _hulls() -> None:
    for dimension in (2, 3):
        convex_hull(Points.of(_numbers(20, dimension)))


def _sums() -> None:
    for dimension in (2, 3):
        minkowski_sum([Polytope(np.round(9 * _numbers(6, dimension))) for _ in range(3)])
    cube = Polytope([[k & 1, k >> 1 & 1, k >> 2] for k in range(8)])
    long = Polytope([[0, 0, 0], [1, 1, 1], [2**40, 1, 0]])  # beyond the whole numbers of kernels
    minkowski_sum([cube, cube, long])


def _diagrams() -> None:
    diagram = power_diagram(_numbers(30, 2), on=_box(2))
    diagram.locate(_numbers(40, 2))


_ENGINES: dict[str, Callable[[], None]] = {
    "regions in the plane": lambda: _count(2),
    "regions in space": lambda: _count(3),
    "regions of maxima": _maxima,
    "regions on lines": _lines,
    "convex hulls": _hulls,
    "sums of polytopes": _sums,
    "power diagrams": _diagrams,
}
