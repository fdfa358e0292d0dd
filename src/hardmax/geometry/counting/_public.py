"""`hm.regions`: which engine counts what."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import DomainError, RequestError, SemanticsError
from hardmax.core import Box, Construction, Hardmax, Transformer, VectorInput, fingerprint
from hardmax.geometry.bounds import Bound, maxout_network, relu_network
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting._engines import Engine, PlaneEngine, SpaceEngine, SwitchEngine
from hardmax.geometry.counting._result import Regions
from hardmax.geometry.counting._run import Way
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._visits import visits
from hardmax.geometry.counting.switch._program import QuadraticWalls
from hardmax.geometry.tropical._quotient import TropicalRational
from hardmax.geometry.tropical._tropical import Tropical
from hardmax.languages import MaxoutNetwork, ReluNetwork
from hardmax.numerics import above_float

Domain = Box | Segment | Slice


def regions(
    source: Any,
    on: Any = None,
    *,
    inputs: Any = None,
    fast: bool = False,
    executor: Executor | Callable[[], Executor] | None = None,
    checkpoint: str | Path | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Any:
    """The linear regions of a ReLU or maxout network, a max-affine map or a hard Transformer.

    `on` is a box (`hm.Box`, a pair, a text such as "[-1,1]^2"), a `hm.Segment` or a `hm.Slice`
    through a larger input space. The result counts `cells` and maximal affine regions (`count`),
    and iterating gives every cell. With `inputs` it says how many cells a data set visits instead;
    a soft Transformer is smooth and has no linear regions, but its skeleton's cells are visited.

    `fast` believes every float sign, and the result says so. `executor` is any
    `concurrent.futures.Executor` or a function that makes one, `checkpoint` a file in which a long
    count is kept, `limit` the most cells to count, `progress` is told the number so far.

        >>> absolute = ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
        >>> found = regions(absolute, on="[-1,1]")
        >>> found.cells, found.count
        (2, 2)
    """
    if isinstance(source, Construction):
        source = source.transformer
    if inputs is not None:
        return visits(source, inputs)
    _refuse_soft(source)
    domain = _domain(source, on)
    way = Way(executor, checkpoint, limit, progress)
    if isinstance(domain, Segment):
        return _on_line(source, domain, fast, way)
    if isinstance(source, ReluNetwork):
        return _relu(source, domain, fast, way)
    return _switched(source, domain, fast, way)


def skeleton(model: Transformer | Construction) -> Transformer:
    """The same Transformer with hard heads: what softmax tends to as it gets colder.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hm.skeleton(hm.compile(network, on="[-1,1]", error=1e-2)).is_hard
    True
    """
    transformer = model.transformer if isinstance(model, Construction) else model
    if not isinstance(transformer, Transformer):
        raise RequestError(
            f"A skeleton is that of a model or a Transformer, not of a {type(model).__name__}."
        )
    return transformer.with_weightings(Hardmax() for _ in transformer.heads)


def _refuse_soft(source: Any) -> None:
    if isinstance(source, Transformer) and not source.is_hard:
        raise SemanticsError(
            "A Transformer with softmax heads is a smooth function: it has no linear regions. Ask "
            "for those of its hard skeleton, hm.regions(hm.skeleton(model), on=...), or for the "
            "skeleton's cells that a data set visits, hm.regions(model, inputs=points)."
        )


# ---- domains ---------------------------------------------------------------------------------


def input_width(source: Any) -> int:
    """How many numbers a source reads; what has no linear regions is refused."""
    from hardmax.geometry.counting.switch._sources import inputs_of

    if isinstance(source, Transformer) and isinstance(source.input, VectorInput):
        return source.input.inputs
    return inputs_of(source)


def _domain(source: Any, on: Any) -> Domain:
    """What the user wrote, checked against the source; a box of one dimension is a segment."""
    width = input_width(source)
    if on is None:
        raise DomainError(
            f"Regions are counted on a bounded domain of the source's {width} inputs; give one, "
            f'for example on="[-1,1]^{width}".'
        )
    if isinstance(on, Segment | Slice):
        if on.dimension != width:
            raise DomainError(
                f"The source has {width} inputs, but the domain lies in {on.dimension} dimensions."
            )
        return on
    box = Box.of(on, width)
    if (box.low == box.high).any():
        raise DomainError(
            f"The box {box} has no inside. Give it a width in every coordinate, or take a "
            f"hm.Segment or hm.Slice."
        )
    return Segment(box.low, box.high) if width == 1 else box


# ---- lines -----------------------------------------------------------------------------------


def _on_line(source: Any, domain: Segment, fast: bool, way: Way) -> Any:
    if isinstance(source, Tropical | TropicalRational):
        return _switched(source, domain, fast, way)
    _refuse_sharing(way, "A segment")
    if isinstance(source, Transformer):
        from hardmax.geometry.counting.line._attention import transformer_line

        found = transformer_line(source, domain.exact_start, domain.exact_end)
    else:
        from hardmax.geometry.counting.line._segments import network_line

        found = network_line(source, domain.exact_start, domain.exact_end, fast=fast)
    return _within(found, found.cells, way)


def _refuse_sharing(way: Way, what: str) -> None:
    if way.executor is not None or way.checkpoint is not None:
        raise RequestError(
            f"{what} is counted at once, in this process: leave out executor and checkpoint."
        )


def _within(found: Any, cells: int, way: Way) -> Any:
    """What was counted at once, if it is within the limit."""
    if way.progress is not None:
        way.progress(cells)
    if way.limit is not None and cells > way.limit:
        raise RequestError(
            f"There are more than {way.limit:,} cells: {cells:,} were counted. Raise the limit, or "
            f"shrink the domain."
        )
    return found


# ---- planes and boxes ------------------------------------------------------------------------


def _relu(source: ReluNetwork, domain: Box | Slice, fast: bool, way: Way) -> Regions:
    widths = [len(b) for b in source.biases]
    dimension = 2 if isinstance(domain, Slice) else domain.dimension
    bound = relu_network(widths[:-1], dimension=dimension) if len(widths) > 1 else None
    stack = _stack(source, domain)
    shape = "-".join(map(str, [source.inputs, *widths]))
    if not stack.hidden:
        return _switched(source, domain, fast, way)
    engine: Engine
    if isinstance(domain, Slice):
        engine = PlaneEngine(stack, domain.exact_polygon, fast)
    elif domain.dimension == 2:
        engine = PlaneEngine(stack, _corners(domain), fast)
    else:
        engine = SpaceEngine(stack, domain, fast)
    return Regions(f"ReLU network {shape}", domain, engine, way, bound, stack)


def _stack(source: ReluNetwork, domain: Box | Slice) -> Stack:
    if isinstance(domain, Slice):
        corners = zip(*domain.exact_polygon, strict=True)
        reach = [above_float(max(map(abs, column))) for column in corners]
        origin = np.array(domain.exact_origin, dtype=object)
        directions = np.array(domain.exact_directions, dtype=object)
        return Stack.of(source, reach, origin, directions)
    return Stack.of(source, np.maximum(np.abs(domain.low), np.abs(domain.high)))


def _corners(box: Box) -> tuple[tuple[Any, Any], ...]:
    from fractions import Fraction

    (a, c), (b, d) = (map(Fraction, ends.tolist()) for ends in (box.low, box.high))
    return ((a, c), (b, c), (b, d), (a, d))


def _switched(source: Any, domain: Domain, fast: bool, way: Way) -> Any:
    from hardmax.geometry.counting.switch._sources import switch_program

    engine = SwitchEngine(switch_program(source, domain), domain, _key(source), fast)
    found = Regions(_told(source), domain, engine, way, _bound(source, domain))
    if not isinstance(source, Transformer):
        return found
    try:
        found.layers  # noqa: B018  # whether scores are affine shows on the cells
        return found
    except QuadraticWalls:
        if isinstance(domain, Segment) or _dimension(domain) != 2:
            raise
    from hardmax.geometry.counting.conic._counting import conic_cells

    _refuse_sharing(way, "A plane in which all tokens move")
    found_conics = conic_cells(source, domain, progress=way.progress)
    return _within(found_conics, found_conics.low, way)


def _key(source: Any) -> str:
    """A name for a source by everything that it holds."""
    if isinstance(source, Transformer):
        return fingerprint(source)
    if isinstance(source, Tropical | TropicalRational):
        parts = [source] if isinstance(source, Tropical) else [source.numerator, source.denominator]
        return repr([one.lifted.rationals().tolist() for one in parts])
    return repr([(name, array.tolist()) for name, array in source.encode().tensors.items()])


def _dimension(domain: Domain) -> int:
    if isinstance(domain, Segment):
        return 1
    return 2 if isinstance(domain, Slice) else domain.dimension


def _told(source: Any) -> str:
    return repr(source).split("(")[0] if not isinstance(source, Transformer) else repr(source)


def _bound(source: Any, domain: Domain) -> Bound | None:
    if not isinstance(source, MaxoutNetwork):
        return None
    widths = [W.shape[1] for W in source.weights]
    try:
        return maxout_network(widths, rank=source.weights[0].shape[0], dimension=_dimension(domain))
    except RequestError:
        return None
