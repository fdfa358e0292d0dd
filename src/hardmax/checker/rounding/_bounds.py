"""How far an evaluation in floats can be from the real value: the checker's own analysis.

Two passes. Forward, the range of every number and a bound on its deviation; backward, the effect
of every single rounding on the answer. Both are proofs, and the smaller bound counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from hardmax._errors import DomainError
from hardmax.checker.rounding._adjoint import adjoint_bound
from hardmax.checker.rounding._flow import Stream, follow
from hardmax.checker.rounding._format import NothingKnown, Stored, check, moved
from hardmax.checker.rounding._needs import check_sizes, needed
from hardmax.core import Attention, Box, SequenceInput, Transformer, VectorInput
from hardmax.numerics import FORMATS, Format, Interval, inflate, up

_FEW_TOKENS = 32


def float_bounds(
    transformer: Transformer, domain: Box | None, formats: Iterable[str] = tuple(FORMATS)
) -> dict[str, np.ndarray]:
    """For each format and output: |T_format(x) - T(x)| for all x in the box that the format holds.

    These are its floats, or its normal floats and 0 if numbers may be flushed to 0.

    T(x) is the real value, for hard heads and soft ones as they are. T_format rounds every weight
    to the format, multiplies a coldness into the query weights and rounds that, rounds every
    product and every sum, in any order of summation and fused or not, subtracts the maximum of
    the logits, and takes exponentials as good as `Format.assumption` says, which may vanish below
    an edge. Other underflow is counted; it is gradual, unless the format says that numbers may be
    flushed to 0. The bound is infinite where a number may overflow, the sum of powers times values
    among them, or a sum has too many terms for the format.

    Sequences are followed at every length; the domain then says nothing, and may be None.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what overflows is refused
        return {name: _bound(transformer, domain, FORMATS[name]) for name in formats}


def _bound(transformer: Transformer, domain: Box | None, format: Format) -> np.ndarray:
    try:
        bounds = [
            _followed(transformer, start, reads, format)
            for start, reads in _starts(transformer, domain, format)
        ]
    except NothingKnown:
        return np.full(transformer.outputs, np.inf)
    return np.asarray(np.max(bounds, axis=0)) if bounds else np.zeros(transformer.outputs)


def _followed(
    transformer: Transformer, start: Stream, reads: list[int], format: Format
) -> np.ndarray:
    """One bound for each output, over all tokens that are read."""
    sublayers, readout = transformer.sublayers, transformer.readout
    tokens = start.off.shape[1]
    needs = needed(sublayers, readout, reads, tokens)
    try:
        size = start.where.magnitude.max(axis=1)
        check_sizes(sublayers, readout, size, tokens, format)
    except NothingKnown:
        if tokens > _FEW_TOKENS:
            raise
        needs = [np.ones_like(need) for need in needs]  # look closer, at everything
    flow = follow(start, sublayers, needs, format)
    answer = Stored.of(readout.weights, format, readout.bias).times(
        flow.end.where[:, reads], flow.end.off[:, reads]
    )
    inherited = adjoint_bound(flow, readout, reads, eager=False)
    if flow.stops:
        inherited = np.minimum(inherited, adjoint_bound(flow, readout, reads, eager=True))
    return np.asarray(up(inherited + answer.error()).max(axis=1))


def _starts(
    transformer: Transformer, domain: Box | None, format: Format
) -> Iterator[tuple[Stream, list[int]]]:
    """The stream after the embedding, and the tokens that are read: once, or for each length."""
    source, token = transformer.input, transformer.readout.token
    match source:
        case VectorInput():
            if domain is None or domain.dimension != source.inputs:
                raise DomainError(f"A domain of dimension {source.inputs} is needed here.")
            assert token is not None
            yield _embedded(source, domain, format), [token % source.tokens]
        case SequenceInput():
            full, first = _sequence(source, format), int(source.start is not None)
            causal = all(
                head.causal
                for layer in transformer.sublayers
                if isinstance(layer, Attention)
                for head in layer.heads
            )
            shortest = source.tokens if causal and token is None else 1
            for tokens in range(shortest, source.tokens + 1):
                reads = _read_tokens(token, first, tokens)
                if reads:
                    yield Stream(full.where[:, :tokens], full.off[:, :tokens]), reads


def _read_tokens(token: int | None, first: int, tokens: int) -> list[int]:
    """The tokens that a read-out reads off a sequence of so many: each symbol, one, or none."""
    if token is None:
        return list(range(first, tokens))
    return [token % tokens] if -tokens <= token < tokens else []


def _embedded(source: VectorInput, domain: Box, format: Format) -> Stream:
    """Inputs are numbers of the format: nothing is rounded but the map."""
    box = domain.interval.reshape(-1, 1)
    matrix = source.maps.reshape(-1, source.inputs)
    total = Stored.of(matrix, format, source.offsets.ravel()).times(box, np.zeros(box.shape))
    error = total.error()
    where = total.value.widened(error)
    shape = (source.tokens, source.width)
    return Stream(
        Interval(where.lo.reshape(shape).T, where.hi.reshape(shape).T), error.reshape(shape).T
    )


def _sequence(source: SequenceInput, format: Format) -> Stream:
    """Any symbol at any place: the hull of the rows, plus the position."""
    symbols = source.embedding
    lo = np.tile(symbols.min(axis=0), (source.longest, 1))
    hi = np.tile(symbols.max(axis=0), (source.longest, 1))
    off = np.tile(moved(symbols, format).max(axis=0), (source.longest, 1))
    if source.start is not None:
        lo, hi = np.vstack([source.start, lo]), np.vstack([source.start, hi])
        off = np.vstack([moved(source.start, format), off])
    off = off + moved(source.positions, format)
    where = Interval(lo, hi) + source.positions
    both = (Interval(lo, hi).magnitude > 0.0) & (source.positions != 0.0)
    rounded = format.unit * (where.magnitude + off) + format.flushed
    off = inflate(off + np.where(both, rounded, 0.0), 6)
    check(format, where.magnitude + off)
    where = where.widened(off)
    return Stream(Interval(where.lo.T, where.hi.T), off.T)
