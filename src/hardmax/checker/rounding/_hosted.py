"""A Transformer in a format and in a host: what that adds to rounding, and whether numbers fit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker._hosts import (
    NOTHING,
    NoCharge,
    ReadCharge,
    activation_charge,
    attention_format,
    read_charge,
    with_turns,
)
from hardmax.checker.rounding._format import (
    NothingKnown,
    check,
    check_accumulated,
    moved,
    relative,
)
from hardmax.core import (
    Attention,
    FeedForward,
    GatedFeedForward,
    HeadGroup,
    Host,
    Transformer,
)
from hardmax.numerics import Format, Interval, inflate, matmul_up, up


@dataclass(frozen=True, eq=False)
class Hosted:
    """A Transformer in a format, in a host or in none."""

    transformer: Transformer
    format: Format
    host: Host | None = None
    finely: bool = False  # whether heads over many tokens are looked at in small pieces

    @property
    def for_attention(self) -> Format:
        """The format in which weights are taken."""
        return attention_format(self.host, self.format)

    def charge(self, number: int, where: Interval) -> ReadCharge:
        """For reads of a sublayer, or of the read-out after the last: width x tokens."""
        return NOTHING if self.host is None else self._charge(number, where.magnitude)

    def turned(self, charge: ReadCharge) -> ReadCharge:
        """The same for keys."""
        return with_turns(charge, self.host, self.transformer, self.format)

    def _charge(self, number: int, size: np.ndarray) -> ReadCharge:
        size = size.max(axis=1, initial=0.0)
        if self.host is not None and self.host.classes:
            raise NothingKnown  # classes are for words
        try:
            return read_charge(self.host, self.transformer, number, size, self.format)
        except NoCharge:
            raise NothingKnown from None

    def has_activation(self, number: int) -> bool:
        """Whether a host has something else in place of a rectifier."""
        return self.host is not None and self.host.activations[number] is not None

    def activation_error(self, number: int, inner: Interval, charge: ReadCharge) -> np.ndarray:
        """How far hidden numbers are from rectified ones, for computed `inner`."""
        activation = None if self.host is None else self.host.activations[number]
        if activation is None:
            return np.zeros(inner.shape)
        owed = activation_charge(activation, self.format, charge.biases)
        if not (inner.magnitude <= owed.largest).all():
            raise NothingKnown
        return owed.of(np.maximum(inner.hi, 0.0))

    def sizes_read(self, number: int, size: np.ndarray) -> tuple[np.ndarray, ReadCharge]:
        """Of numbers as they are read; and what they were charged."""
        if self.host is None:
            return size, NOTHING
        charge = self._charge(number, size)
        most = self.turned(charge).of(size, np.zeros(size.shape, dtype=bool))
        return np.asarray(up(size + most)), charge


def check_sizes(hosted: Hosted, size: np.ndarray, tokens: int) -> None:
    """Raise unless nothing can overflow at any token, by sizes alone.

    `size` bounds every token's stream after the embedding. A mean of values is no larger than the
    largest value; a sum of k terms is computed as at most 1 + gamma_k times the sum of sizes, and
    weights of n tokens, divided by their sum, add up to at most 1 + gamma_2n.
    """
    size, format, readout = size[:, None], hosted.format, hosted.transformer.readout
    for number, sublayer in enumerate(hosted.transformer.sublayers):
        read, charge = hosted.sizes_read(number, size)
        change = np.zeros(size.shape)
        match sublayer:
            case FeedForward():
                hidden = _sized(sublayer.inner, read, format, sublayer.inner_bias)
                about = Interval(-hidden, hidden)
                hidden = up(hidden + hosted.activation_error(number, about, charge))
                change = _sized(sublayer.outer, hidden, format, sublayer.outer_bias)
                size = _grown(size + change, 1, format)
            case GatedFeedForward():
                gate = _sized(sublayer.gate, read, format, sublayer.gate_bias)
                factor = _sized(sublayer.inner, read, format, sublayer.inner_bias)
                hidden = _grown(gate * factor, 32, format)  # |act(z)| <= |z|, and some roundings
                check(format, hidden)
                change = _sized(sublayer.outer, hidden, format, sublayer.outer_bias)
                size = _grown(size + change, 1, format)
            case Attention():
                mixing = 1.0 + float(relative(2 * tokens + 2, format))
                for group in sublayer.groups:
                    change = change + _written(group, read, tokens, mixing, format)
                size = _grown(size + change, len(sublayer.groups) + 1, format)
        check(format, size)
    last, _ = hosted.sizes_read(len(hosted.transformer.sublayers), size)
    _sized(readout.weights, last, format, readout.bias)


def _sized(
    matrix: np.ndarray, size: np.ndarray, format: Format, bias: np.ndarray | None = None
) -> np.ndarray:
    entries = np.abs(matrix) + moved(matrix, format)
    total = matmul_up(entries, size)
    if bias is not None:
        total = total + (np.abs(bias) + moved(bias, format))[:, None]
    total = _grown(total, int((matrix != 0.0).sum(axis=-1).max(initial=0)) + 2, format)
    check(format, total)
    return total


def _grown(size: np.ndarray, roundings: int, format: Format) -> np.ndarray:
    return inflate(size * (1.0 + relative(roundings, format)) + format.smallest * roundings)


def _written(
    group: HeadGroup, size: np.ndarray, tokens: int, mixing: float, format: Format
) -> np.ndarray:
    """What a group of heads adds to a token; their logits and sums are checked on the way.

    A difference of logits may overflow: its exponential is 0 then, which is counted.
    """
    heads, key_width, width = group.query.shape
    cold = np.where(np.isinf(group.coldness), 1.0, group.coldness)
    with np.errstate(over="ignore"):
        folded = group.query * cold[:, None, None]
    check(format, np.abs(folded))
    query = _sized(folded.reshape(-1, width), size, format)
    key = _sized(group.key.reshape(-1, width), size, format)
    logit = (query * key).reshape(heads, key_width).sum(axis=1)
    if group.position_bias is not None:
        with np.errstate(over="ignore"):
            logit = logit + _grown(np.abs(group.position_bias).max(axis=(1, 2)) * cold, 2, format)
    check(format, _grown(logit, key_width + 2, format))
    value = _sized(group.value.reshape(-1, width), size, format)
    mean = _grown(mixing * value, 2, format)
    check(format, mean)
    soft = np.repeat(np.isfinite(group.coldness), group.value.shape[1])
    check_accumulated(format, inflate(tokens * mean[soft]), tokens)
    joined = group.output.transpose(1, 0, 2).reshape(width, -1)
    return _sized(joined, mean, format)
