"""How far an evaluation in floats can be from the real value: the checker's own analysis.

Two passes. Forward (`_flow`), the range of every number and a bound on its deviation; backward, the
effect of every single rounding on the answer. Both are proofs, and the smaller bound counts.

The backward pass. Let d be the deviation of the computed stream from the real one. Through a
sublayer it becomes J d + local error, with J the mean of the sublayer's derivatives on the way from
the real stream to the computed one; J lies in the interval matrix of all derivatives there. So the
answer is off by a sum over all local errors, each times the product of the derivatives that follow.
That product is collected from the end, as an interval for each output and coordinate: effects of
one rounding that reach the answer along several paths cancel where signs allow, as they do in
truth.

Where derivatives know less than the forward pass (many tokens contend, and only one of them
counts), or do not exist (a hard head that may jump), the collection stops, and the forward pass's
bound stands in for everything before. It may also stop between any two sublayers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from hardmax._errors import DomainError
from hardmax.checker._dependence import coordinates_needed, tokens_read
from hardmax.checker.rounding._flow import (
    Attended,
    FedForward,
    Flow,
    Gated,
    RoundedStream,
    follow,
)
from hardmax.checker.rounding._format import NothingKnown, Stored, check, moved
from hardmax.checker.rounding._hosted import Hosted, check_sizes
from hardmax.checker.rounding._inplace import Mixing
from hardmax.checker.rounding._two_norms import Norms, two_norm_bound
from hardmax.core import Attention, Box, Host, ReadOut, SequenceInput, Transformer, VectorInput
from hardmax.numerics import FORMATS, Format, Interval, inflate, product_up, sum_up, up

_FEW_TOKENS = 32
_TABLE = 256  # tokens: of fewer, coarse pieces are fine enough


def adjoint_bound(flow: Flow, readout: ReadOut, reads: list[int], *, eager: bool) -> np.ndarray:
    """A bound on the deviation of the last stream's reading, outputs x tokens read.

    `eager` stops wherever the forward pass's bound of a head looks better.
    """
    outputs = readout.outputs
    width, tokens = flow.start.off.shape
    weights = np.zeros((width, len(reads) * outputs, tokens))
    for i, token in enumerate(reads):
        weights[:, i * outputs : (i + 1) * outputs, token] = readout.weights.T
    effect = Interval.point(weights)
    total = np.zeros(len(reads) * outputs)
    best = _caused(effect, flow.end.off)
    for passed in reversed(flow.passed):
        match passed:
            case FedForward():
                effect, caused = _before_feed_forward(effect, passed, eager)
            case Gated():
                effect, caused = _before_gated(effect, passed)
            case Attended():
                effect, caused = _before_attention(effect, passed, eager)
        total = up(total + caused)
        touched = (passed.before.off > 0.0)[:, None, :]
        effect = Interval(np.where(touched, effect.lo, 0.0), np.where(touched, effect.hi, 0.0))
        best = np.minimum(best, up(total + _caused(effect, passed.before.off)))
    return np.asarray(best.reshape(len(reads), outputs).T)


def _caused(effect: Interval, error: np.ndarray) -> np.ndarray:
    """The sum over rows and tokens of |effect| error, column by column."""
    return np.asarray(sum_up(sum_up(product_up(effect.magnitude, error[:, None, :]), 2), 0))


def _asked_of(stored: Stored, effect: Interval) -> Interval:
    """What a matrix's operands can do, given what its results can: rows x columns x tokens."""
    found = stored.matrix.T @ _flat(effect)
    full = np.zeros((2, stored.operands, *effect.shape[1:]))
    shape = (len(stored.columns), *effect.shape[1:])
    full[:, stored.columns] = found.lo.reshape(shape), found.hi.reshape(shape)
    return Interval(full[0], full[1])


def _flat(effect: Interval) -> Interval:
    return effect.reshape(effect.shape[0], effect.shape[1] * effect.shape[2])


def _added(before: Interval, stored: Stored, tokens: np.ndarray, effect: Interval) -> Interval:
    """`before`, and what a matrix's operands at these tokens can do through its results."""
    back = stored.matrix.T @ _flat(effect)
    at = np.ix_(stored.columns, np.arange(before.shape[1]), tokens)
    total = before[at] + back.reshape(len(stored.columns), *effect.shape[1:])
    lo, hi = before.lo.copy(), before.hi.copy()
    lo[at], hi[at] = total.lo, total.hi
    return Interval(lo, hi)


def _masked(effect: Interval, mask: np.ndarray) -> Interval:
    return Interval(np.where(mask, effect.lo, 0.0), np.where(mask, effect.hi, 0.0))


def _before_feed_forward(
    effect: Interval, passed: FedForward, eager: bool
) -> tuple[Interval, np.ndarray]:
    after = effect[:, :, passed.tokens]
    caused = _caused(after, passed.error)
    hidden = _asked_of(passed.outer, after)
    stop = passed.stop & eager
    caused = up(caused + _caused(hidden, np.where(stop, passed.hidden_off, 0.0)))
    caused = up(caused + _caused(hidden, np.where(stop, 0.0, passed.activation_error)))
    slopes = passed.slopes.reshape(len(hidden), 1, len(passed.tokens))
    read = _masked(hidden, ~stop[:, None, :]) * slopes
    caused = up(caused + _caused(read, passed.hidden_error))
    return _added(effect, passed.inner, passed.tokens, read), caused


def _before_gated(effect: Interval, passed: Gated) -> tuple[Interval, np.ndarray]:
    """By the gates and by the second factors of all terms."""
    after, terms = effect[:, :, passed.tokens], passed.terms
    hidden = _asked_of(terms.outer, after)
    caused = up(_caused(after, passed.error) + _caused(hidden, terms.local))
    shape = (len(terms.local), 1, len(passed.tokens))
    for stored, slopes in ((terms.gate, terms.by_gate), (terms.inner, terms.by_inner)):
        effect = _added(effect, stored, passed.tokens, hidden * slopes.reshape(*shape))
    return effect, np.asarray(caused)


def _before_attention(
    effect: Interval, passed: Attended, eager: bool
) -> tuple[Interval, np.ndarray]:
    after = effect[:, :, passed.tokens]
    caused = _caused(after, passed.error)
    written = _asked_of(passed.output, after)
    before = effect
    for mixing in passed.mixings:
        errors = mixing.answer.errors
        mixed = written[mixing.columns, :, int(np.searchsorted(passed.tokens, mixing.t))]
        lost = (errors.jump > 0.0).ravel()
        stop = lost | (mixing.stop.ravel() & eager)
        inherited = np.where(lost, errors.off.ravel(), np.where(stop, errors.off_seen.ravel(), 0.0))
        error = up(errors.rounded.ravel() + inherited)[:, None]
        caused = up(caused + sum_up(product_up(mixed.magnitude, error), 0))
        before = _through_seen(before, mixing, _masked(mixed, ~stop[:, None]))
        before = _through_query(before, mixing, _masked(mixed, ~lost[:, None]))
    return before, caused


def _through_seen(before: Interval, mixing: Mixing, mixed: Interval) -> Interval:
    """By the values, and by the keys: d logit_j = query . d k_j."""
    heads, asked, pull = mixing.heads, mixing.asked, mixing.answer.derivatives.by_logits
    count, values, n = pull.shape
    columns = mixed.shape[1]
    if asked.values.off.any():
        slopes = mixing.answer.derivatives.by_values.reshape(len(mixed), 1, n)
        read = mixed.reshape(*mixed.shape, 1) * slopes
        before = _added(before, heads.value, mixing.seen, read)
    if asked.keys.off.any() and pull.magnitude.any():
        parts = pull.reshape(count, values, 1, n) * mixed.reshape(count, values, columns, 1)
        logits = parts.sum(1).reshape(count, 1, columns, n)
        keys = logits * asked.query.value.reshape(count, -1, 1, 1)
        before = _added(before, heads.key, mixing.seen, keys.reshape(-1, columns, n))
    return before


def _through_query(before: Interval, mixing: Mixing, mixed: Interval) -> Interval:
    """By the query, whose real weights are known up to a relative doubt."""
    heads, asking = mixing.heads, mixing.answer.derivatives.by_query
    if not (mixing.asked.query.off.any() and asking.magnitude.any()):
        return before
    count, values, key_width = asking.shape
    columns = mixed.shape[1]
    doubt = heads.query.doubt.reshape(count, 1, key_width)
    asking = asking * Interval(1.0 - doubt, 1.0 + doubt)
    parts = asking.reshape(count, values, key_width, 1) * mixed.reshape(count, values, 1, columns)
    query = parts.sum(1).reshape(-1, columns, 1)
    return _added(before, heads.query, np.array([mixing.t]), query)


def float_bounds(
    transformer: Transformer,
    domain: Box | None,
    formats: Iterable[str] = tuple(FORMATS),
    *,
    worthwhile: tuple[float, float] = (0.0, np.inf),
    claimed: Iterable[str] = tuple(FORMATS),
    host: Host | None = None,
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

    Sequences are followed at every length; the domain then says nothing, and may be None. Only
    between the ends of `worthwhile` numbers are bounded more closely by norms, which take longer
    than intervals: below them nothing is gained, above them nothing that would help, unless a
    claim is about the format. For a claim about a coarse one heads over hundreds of tokens are also
    looked at more closely than usual.
    """
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # what overflows is refused
        norms = Norms()
        enough, hopeless = worthwhile
        ends = {name: (enough, np.inf if name in tuple(claimed) else hopeless) for name in formats}
        return {
            name: _bound(
                *(transformer, domain, FORMATS[name], norms, ends[name], host),
                finely=name in tuple(claimed) and FORMATS[name].is_coarse,
            )
            for name in ends
        }


def _bound(
    transformer: Transformer,
    domain: Box | None,
    format: Format,
    norms: Norms | None = None,
    worthwhile: tuple[float, float] = (0.0, np.inf),
    host: Host | None = None,
    *,
    finely: bool = False,
) -> np.ndarray:

    def sharpened(bound: np.ndarray, flow: Flow, reads: list[int]) -> np.ndarray:
        """Also by norms, where a vector comes in, one token is read, and it is worth while."""
        source, most = transformer.input, float(bound.max(initial=0.0))
        suited = isinstance(source, VectorInput) and domain is not None and len(reads) == 1
        if not suited or not worthwhile[0] < most < worthwhile[1]:
            return bound
        assert isinstance(source, VectorInput)
        assert domain is not None
        readout, read = transformer.readout, reads[0]
        found = two_norm_bound(flow, source, domain, readout, read, format, norms or Norms())
        return np.minimum(bound, found[:, None])

    def found(hosted: Hosted) -> np.ndarray:
        bounds = [
            _followed(hosted, start, reads, sharpened)
            for start, reads in _starts(transformer, domain, format)
        ]
        return np.asarray(np.max(bounds, axis=0)) if bounds else np.zeros(transformer.outputs)

    hosted = Hosted(transformer, format, host)
    try:
        bound = found(hosted)
        if finely and worthwhile[0] < bound.max(initial=0.0) and _looks_at_many(transformer):
            bound = np.minimum(bound, found(replace(hosted, finely=True)))
    except NothingKnown:
        return np.full(transformer.outputs, np.inf)
    return bound


def _looks_at_many(transformer: Transformer) -> bool:
    """Whether a table of many tokens comes with the inputs; sequences are seen at every length."""
    layers = transformer.sublayers
    attends = any(isinstance(layer, Attention) for layer in layers)
    return isinstance(transformer.input, VectorInput) and attends and transformer.tokens > _TABLE


def _followed(
    hosted: Hosted,
    start: RoundedStream,
    reads: list[int],
    sharpened: Callable[[np.ndarray, Flow, list[int]], np.ndarray],
) -> np.ndarray:
    """One bound for each output, over all tokens that are read."""
    sublayers, readout = hosted.transformer.sublayers, hosted.transformer.readout
    tokens, format = start.off.shape[1], hosted.format
    needs = coordinates_needed(sublayers, readout, reads, tokens)
    try:
        size = start.where.magnitude.max(axis=1)
        check_sizes(hosted, size, tokens)
    except NothingKnown:
        if tokens > _FEW_TOKENS:
            raise
        needs = [np.ones_like(need) for need in needs]  # look closer, at everything
    flow = follow(start, sublayers, needs, hosted)
    end, off = flow.end.where[:, reads], flow.end.off[:, reads]
    charge = hosted.charge(len(sublayers), end)
    answer = Stored.of(readout.weights, format, readout.bias).times(end, off, charge=charge)
    inherited = adjoint_bound(flow, readout, reads, eager=False)
    if flow.stops:
        inherited = np.minimum(inherited, adjoint_bound(flow, readout, reads, eager=True))
    inherited = sharpened(inherited, flow, reads)
    return np.asarray(up(inherited + answer.error()).max(axis=1))


def _starts(
    transformer: Transformer, domain: Box | None, format: Format
) -> Iterator[tuple[RoundedStream, list[int]]]:
    """The stream after the embedding, and the tokens that are read: once, or for each length."""
    source = transformer.input
    match source:
        case VectorInput():
            if domain is None or domain.dimension != source.inputs:
                raise DomainError(f"A domain of dimension {source.inputs} is needed here.")
            yield _embedded(source, domain, format), tokens_read(transformer, source.tokens)
        case SequenceInput():
            full = _sequence(source, format)
            causal = all(
                head.causal
                for layer in transformer.sublayers
                if isinstance(layer, Attention)
                for head in layer.heads
            )
            shortest = source.tokens if causal and transformer.readout.token is None else 1
            for tokens in range(shortest, source.tokens + 1):
                reads = tokens_read(transformer, tokens)
                if reads:
                    yield RoundedStream(full.where[:, :tokens], full.off[:, :tokens]), reads


def _embedded(source: VectorInput, domain: Box, format: Format) -> RoundedStream:
    """Inputs are numbers of the format: nothing is rounded but the map."""
    box = domain.interval.reshape(-1, 1)
    matrix = source.maps.reshape(-1, source.inputs)
    total = Stored.of(matrix, format, source.offsets.ravel()).times(box, np.zeros(box.shape))
    error = total.error()
    where = total.value.widened(error)
    shape = (source.tokens, source.width)
    return RoundedStream(
        Interval(where.lo.reshape(shape).T, where.hi.reshape(shape).T), error.reshape(shape).T
    )


def _sequence(source: SequenceInput, format: Format) -> RoundedStream:
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
    return RoundedStream(Interval(where.lo.T, where.hi.T), off.T)
