"""How each source becomes a switch program, on a domain that may be a slice of its input space."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax._errors import DomainError, RequestError
from hardmax.core import Box, Construction, Transformer
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting.switch._program import (
    Group,
    Piece,
    Row,
    StaticProgram,
    SwitchLayer,
    SwitchProgram,
    rational,
    rationals,
    unit,
)
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork

Domain = Box | Segment | Slice


def switch_program(source: Any, domain: Domain) -> SwitchProgram:
    """The source on a domain: a box of its inputs, a segment or a plane slice.

    The program's input is the domain's own coordinates: those of the box, t in [0, 1] along a
    segment, or y in the slice's polygon.
    """
    if isinstance(source, Construction):
        source = source.transformer
    frame = _frame(domain, inputs_of(source))
    given = (source, domain)
    match source:
        case MaxoutNetwork():
            return _maxout(source, frame, given)
        case ReluNetwork():
            return _relu(source, frame, given)
        case MaxAffine():
            return _difference([_terms(source.weights, source.biases)], frame, given)
        case PiecewiseLinear():
            both = [source.plus] if source.minus is None else [source.plus, source.minus]
            return _difference([_terms(p.weights, p.biases) for p in both], frame, given)
        case Tropical():
            return _difference([_tropical(source)], frame, given)
        case TropicalRational():
            parts = [_tropical(part) for part in (source.numerator, source.denominator)]
            return _difference(parts, frame, given)
    from hardmax.geometry.counting.switch._transformer import TransformerProgram

    return TransformerProgram(source, domain, frame)


def inputs_of(source: Any) -> int:
    """How many numbers a source reads; what has no linear regions is refused."""
    if isinstance(source, Construction):
        source = source.transformer
    match source:
        case MaxoutNetwork() | ReluNetwork() | MaxAffine() | PiecewiseLinear():
            return source.inputs
        case Tropical() | TropicalRational():
            return source.dimension
        case Transformer():
            from hardmax.geometry.counting.switch._transformer import checked

            return checked(source).inputs
    raise RequestError(
        f"Regions are known for networks, max-affine maps and hard Transformers, not for "
        f"{type(source).__name__}."
    )


def _frame(domain: Domain, inputs: int) -> Any:
    """The matrix that takes (domain coordinates, 1) to (inputs, 1), exactly; None for a box."""
    if domain.dimension != inputs:
        raise DomainError(
            f"The source has {inputs} inputs, but the domain has {domain.dimension} coordinates."
        )
    if isinstance(domain, Box):
        return None
    from flint import fmpq_mat

    if isinstance(domain, Segment):
        origin = domain.exact_start
        ways = [[b - a for a, b in zip(origin, domain.exact_end, strict=True)]]
    else:
        origin, ways = domain.exact_origin, [list(way) for way in domain.exact_directions]
    columns = [*ways, origin]
    entries = [rational(column[i]) for i in range(inputs) for column in columns]
    last = [rational(int(column is origin)) for column in columns]
    return fmpq_mat(inputs + 1, len(columns), [*entries, *last])


def framed(rows: list[Row], frame: Any) -> list[Row]:
    """Rows over the source's inputs as rows over the domain's coordinates."""
    if frame is None or not rows:
        return rows
    from flint import fmpq_mat

    matrix = fmpq_mat(len(rows), len(rows[0]), [x for row in rows for x in row]) * frame
    return [tuple(row) for row in matrix.tolist()]


def _terms(weights: Any, biases: Any) -> list[Row]:
    """Affine functions as exact rows."""
    levels = rationals(np.asarray(biases).reshape(-1, 1))
    return [(*row, *level) for row, level in zip(rationals(weights), levels, strict=True)]


def _tropical(value: Tropical) -> list[Row]:
    return _terms(value.slopes.rationals(), value.offsets.rationals())


def _unit_group(scores: list[Row], target: int) -> Group:
    """A maximum: every payload is its score."""
    return Group.of([Piece(row, (row,), (p,)) for p, row in enumerate(scores)], (target,))


def _maxima(units: list[list[Row]], width: int) -> SwitchLayer:
    groups = tuple(_unit_group(scores, i) for i, scores in enumerate(units))
    return SwitchLayer(width, groups, (None,) * len(units))


def _difference(parts: list[list[Row]], frame: Any, given: tuple[Any, ...]) -> StaticProgram:
    """One maximum, or the difference of two."""
    parts = [framed(rows, frame) for rows in parts]
    d = len(parts[0][0]) - 1
    signs = tuple(rational(s) for s in (1, -1)[: len(parts)])
    return StaticProgram(d, (_maxima(parts, d),), ((*signs, rational(0)),), given)


def _maxout(network: MaxoutNetwork, frame: Any, given: tuple[Any, ...]) -> StaticProgram:
    layers = []
    for number, (W, b) in enumerate(zip(network.weights, network.biases, strict=True)):
        units = [_terms(W[:, i], b[:, i]) for i in range(W.shape[1])]
        if number == 0:
            units = [framed(rows, frame) for rows in units]
        layers.append(_maxima(units, len(units[0][0]) - 1))
    out = network.outputs
    return StaticProgram(
        layers[0].width, tuple(layers), tuple(unit(out, i) for i in range(out)), given
    )


def _relu(network: ReluNetwork, frame: Any, given: tuple[Any, ...]) -> StaticProgram:
    """Hidden units are maxima of z and 0; a unit that is 0 on an open set counts as off."""
    stack = [_terms(W, b) for W, b in zip(network.weights, network.biases, strict=True)]
    stack[0] = framed(stack[0], frame)
    layers = []
    for rows in stack[:-1]:
        width = len(rows[0]) - 1
        zero = (rational(0),) * (width + 1)
        layers.append(_maxima([[zero, row] for row in rows], width))
    return StaticProgram(len(stack[0][0]) - 1, tuple(layers), tuple(stack[-1]), given)
