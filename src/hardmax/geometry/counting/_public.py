"""`hm.regions`: which engine counts what."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import DomainError, RequestError, SemanticsError
from hardmax.core import Box, Construction, Hardmax, Transformer, VectorInput, fingerprint
from hardmax.geometry.bounds import Bound, maxout_network, relu_network
from hardmax.geometry.counting._chain import Chain, Rectifiers, Stepwise, chain_of
from hardmax.geometry.counting._domains import Domain, Segment, Slice, own_dimension
from hardmax.geometry.counting._engines import PlaneEngine, SpaceEngine, SwitchEngine
from hardmax.geometry.counting._products import refuse_products
from hardmax.geometry.counting._result import Regions
from hardmax.geometry.counting._run import Execution
from hardmax.geometry.counting._stack import Stack
from hardmax.geometry.counting._visits import Visits, visits
from hardmax.geometry.counting.conic._counting import ConicRegions, conic_cells
from hardmax.geometry.counting.line._attention import transformer_line
from hardmax.geometry.counting.line._segments import LineRegions, network_line
from hardmax.geometry.counting.switch._program import QuadraticWalls
from hardmax.geometry.counting.switch._sources import switch_program
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational
from hardmax.languages import MaxoutNetwork
from hardmax.numerics import above_float

Source = Stepwise | Tropical | TropicalRational | Transformer | Construction
Found = TypeVar("Found", LineRegions, ConicRegions)
Where = Domain | ArrayLike | str  # a domain, or what a box can be made of


@overload
def regions(
    source: Source,
    on: Where,
    *,
    inputs: None = None,
    fast: bool = False,
    executor: Executor | Callable[[], Executor] | None = None,
    checkpoint: str | Path | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Regions | LineRegions | ConicRegions: ...


@overload
def regions(source: Source, on: Where | None = None, *, inputs: ArrayLike) -> Visits: ...


def regions(
    source: Source,
    on: Where | None = None,
    *,
    inputs: ArrayLike | None = None,
    fast: bool = False,
    executor: Executor | Callable[[], Executor] | None = None,
    checkpoint: str | Path | None = None,
    limit: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Regions | LineRegions | ConicRegions | Visits:
    """The linear regions of a network, a max-affine map or a hard Transformer.

    A network is whatever says its steps as affine maps, maxima, relu and abs: ReLU and maxout
    networks, convolutional, residual and max-pooling ones, expressions of such words. `on` is a
    box (`hm.Box`, a pair, a text such as "[-1,1]^2"), a `hm.Segment` or a `hm.Slice` through a
    larger input space. The result counts `cells` and maximal affine regions (`count`), and
    iterating gives every cell. With `inputs` it says how many cells a data set visits instead; a
    soft Transformer is smooth and has no linear regions, but its skeleton's cells are visited.

    `fast` believes every float sign, and the result says so. `executor` is any
    `concurrent.futures.Executor` or a function that makes one, `checkpoint` a file in which a long
    count is kept, `limit` the most cells to count, `progress` is told the number so far.

        >>> from hardmax.languages import ReluNetwork
        >>> absolute = ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
        >>> found = regions(absolute, on="[-1,1]")
        >>> found.cells, found.count
        (2, 2)
    """
    counted = source.transformer if isinstance(source, Construction) else source
    if inputs is not None:
        return visits(counted, inputs)
    if isinstance(counted, Transformer):
        _refuse_soft(counted)
        domain = _domain(input_width(counted), on)
        execution = Execution(executor, checkpoint, limit, progress)
        return _of_transformer(counted, domain, fast, execution)
    chain = chain_of(counted)
    domain = _domain(chain.inputs, on)
    execution = Execution(executor, checkpoint, limit, progress)
    if isinstance(domain, Segment) and chain.is_float:
        _refuse_sharing(execution, "A segment")
        line = network_line(chain, domain.exact_start, domain.exact_end, fast=fast)
        return _within(line, line.cells, execution)
    rectifiers = chain.rectifiers
    if rectifiers is not None and chain.layers and not isinstance(domain, Segment):
        return _of_rectifiers(rectifiers, domain, fast, execution)
    return _of_chain(counted, chain, domain, fast, execution)


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


def _refuse_soft(source: Transformer) -> None:
    refuse_products(source)
    if not source.is_hard:
        raise SemanticsError(
            "A Transformer with softmax heads is a smooth function: it has no linear regions. Ask "
            "for those of its hard skeleton, hm.regions(hm.skeleton(model), on=...), or for the "
            "skeleton's cells that a data set visits, hm.regions(model, inputs=points)."
        )


# ---- domains ---------------------------------------------------------------------------------


def input_width(source: Source) -> int:
    """How many numbers a source reads; what has no linear regions is refused."""
    if isinstance(source, Construction):
        source = source.transformer
    if not isinstance(source, Transformer):
        return chain_of(source).inputs
    if not isinstance(source.input, VectorInput):
        raise RequestError(
            "Regions are sets of real inputs, but this Transformer reads sequences of symbols. "
            "Give one that reads vectors (VectorInput)."
        )
    return source.input.inputs


def _domain(width: int, on: Where | None) -> Domain:
    """What the user wrote, checked against the source; a box of one dimension is a segment."""
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


def _refuse_sharing(execution: Execution, what: str) -> None:
    if execution.executor is not None or execution.checkpoint is not None:
        raise RequestError(
            f"{what} is counted at once, in this process: leave out executor and checkpoint."
        )


def _within(found: Found, cells: int, execution: Execution) -> Found:
    """What was counted at once, if it is within the limit."""
    if execution.progress is not None:
        execution.progress(cells)
    if execution.limit is not None and cells > execution.limit:
        raise RequestError(
            f"There are more than {execution.limit:,} cells: {cells:,} were counted. Raise the "
            f"limit, or shrink the domain."
        )
    return found


# ---- networks --------------------------------------------------------------------------------


def _of_rectifiers(
    network: Rectifiers, domain: Box | Slice, fast: bool, execution: Execution
) -> Regions:
    """Rectifiers alone, on a polygon or a box: engines that keep a cell in a few floats."""
    stack = _stack(network, domain)
    engine: PlaneEngine | SpaceEngine
    if isinstance(domain, Slice):
        engine = PlaneEngine(stack, domain.exact_polygon, fast)
    elif domain.dimension == 2:
        engine = PlaneEngine(stack, _corners(domain), fast)
    else:
        engine = SpaceEngine(stack, domain, fast)
    widths = [network.inputs, *(len(b) for b in network.biases)]
    bounding = partial(_relu_bound, widths[1:-1], domain)
    told = f"ReLU network {'-'.join(map(str, widths))}"
    return Regions(told, domain, engine, execution, bounding, stack)


def _stack(network: Rectifiers, domain: Box | Slice) -> Stack:
    if isinstance(domain, Slice):
        corners = zip(*domain.exact_polygon, strict=True)
        reach = [above_float(max(map(abs, column))) for column in corners]
        origin = np.array(domain.exact_origin, dtype=object)
        directions = np.array(domain.exact_directions, dtype=object)
        return Stack.of(network, reach, origin, directions)
    return Stack.of(network, np.maximum(np.abs(domain.low), np.abs(domain.high)))


def _corners(box: Box) -> tuple[tuple[Fraction, Fraction], ...]:
    (a, c), (b, d) = (map(Fraction, ends.tolist()) for ends in (box.low, box.high))
    return ((a, c), (b, c), (b, d), (a, d))


def _of_chain(
    source: Source, chain: Chain, domain: Domain, fast: bool, execution: Execution
) -> Regions:
    name = repr([array.tolist() for array in chain.arrays])
    engine = SwitchEngine(switch_program(chain, domain), domain, name, fast)
    told = repr(source).split("(")[0]
    bounding = partial(_maxout_bound, source, domain)
    return Regions(told, domain, engine, execution, bounding)


def _relu_bound(widths: list[int], domain: Domain) -> Bound | None:
    try:
        return relu_network(widths, dimension=own_dimension(domain))
    except RequestError:  # the bound itself takes too much work
        return None


def _maxout_bound(source: Source, domain: Domain) -> Bound | None:
    if not isinstance(source, MaxoutNetwork):
        return None
    widths, rank = [W.shape[1] for W in source.weights], source.weights[0].shape[0]
    try:
        return maxout_network(widths, rank=rank, dimension=own_dimension(domain))
    except RequestError:
        return None


# ---- hard Transformers -----------------------------------------------------------------------


def _of_transformer(
    source: Transformer, domain: Domain, fast: bool, execution: Execution
) -> Regions | LineRegions | ConicRegions:
    if isinstance(domain, Segment):
        _refuse_sharing(execution, "A segment")
        line = transformer_line(source, domain.exact_start, domain.exact_end)
        return _within(line, line.cells, execution)
    program = switch_program(source, domain)
    engine = SwitchEngine(program, domain, fingerprint(source), fast)
    counted = Regions(repr(source), domain, engine, execution)
    try:
        counted.layers  # noqa: B018  # whether scores are affine shows on the cells
        return counted
    except QuadraticWalls:
        if own_dimension(domain) != 2:
            raise
    _refuse_sharing(execution, "A plane in which all tokens move")
    conics = conic_cells(source, domain, progress=execution.progress)
    return _within(conics, conics.low, execution)
