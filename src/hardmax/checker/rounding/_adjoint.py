"""The backward pass: what every single rounding can do to the answer.

Let d be the deviation of the computed stream from the real one. Through a sublayer it becomes
J d + local error, with J the mean of the sublayer's derivatives on the way from the real stream to
the computed one; J lies in the interval matrix of all derivatives there. So the answer is off by
a sum over all local errors, each times the product of the derivatives that follow. That product
is collected from the end, as an interval for each output and coordinate: effects of one rounding
that reach the answer along several paths cancel where signs allow, as they do in truth.

Where derivatives know less than the forward pass (many tokens contend, and only one of them
counts), or do not exist (a hard head that may jump), the collection stops, and the forward pass's
bound stands in for everything before. It may also stop between any two sublayers.
"""

from __future__ import annotations

import numpy as np

from hardmax.checker.rounding._flow import Attended, FedForward, Flow
from hardmax.checker.rounding._format import Stored
from hardmax.checker.rounding._inplace import Mixing
from hardmax.core import ReadOut
from hardmax.numerics import Interval, product_up, sum_up, up


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
    slopes = passed.slopes.reshape(len(hidden), 1, len(passed.tokens))
    read = _masked(hidden, ~stop[:, None, :]) * slopes
    caused = up(caused + _caused(read, passed.hidden_error))
    return _added(effect, passed.inner, passed.tokens, read), caused


def _before_attention(
    effect: Interval, passed: Attended, eager: bool
) -> tuple[Interval, np.ndarray]:
    after = effect[:, :, passed.tokens]
    caused = _caused(after, passed.error)
    written = _asked_of(passed.output, after)
    before = effect
    for mixing in passed.mixings:
        answer = mixing.answer
        mixed = written[mixing.columns, :, int(np.searchsorted(passed.tokens, mixing.t))]
        lost = (answer.jump > 0.0).ravel()
        stop = lost | (mixing.stop.ravel() & eager)
        inherited = np.where(lost, answer.off.ravel(), np.where(stop, answer.off_seen.ravel(), 0.0))
        error = up(answer.error.ravel() + inherited)[:, None]
        caused = up(caused + sum_up(product_up(mixed.magnitude, error), 0))
        before = _through_seen(before, mixing, _masked(mixed, ~stop[:, None]))
        before = _through_query(before, mixing, _masked(mixed, ~lost[:, None]))
    return before, caused


def _through_seen(before: Interval, mixing: Mixing, mixed: Interval) -> Interval:
    """By the values, and by the keys: d logit_j = query . d k_j."""
    heads, asked, pull = mixing.heads, mixing.asked, mixing.answer.pull
    count, values, n = pull.shape
    columns = mixed.shape[1]
    if asked.values.off.any():
        slopes = mixing.answer.slopes.reshape(len(mixed), 1, n)
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
    heads, asking = mixing.heads, mixing.answer.asking
    if not (mixing.asked.query.off.any() and asking.magnitude.any()):
        return before
    count, values, key_width = asking.shape
    columns = mixed.shape[1]
    doubt = heads.query.doubt.reshape(count, 1, key_width)
    asking = asking * Interval(1.0 - doubt, 1.0 + doubt)
    parts = asking.reshape(count, values, key_width, 1) * mixed.reshape(count, values, 1, columns)
    query = parts.sum(1).reshape(-1, columns, 1)
    return _added(before, heads.query, np.array([mixing.t]), query)
