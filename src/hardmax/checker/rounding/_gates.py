"""A sublayer as gates: numbers that it reads, multiplied by factors between two ends, written.

A head's mean is m = sum_j p_j v_j: it reads v_j off token j, and p_j is a gate. With the stream as
one vector s (a last coordinate is 1), every sublayer is s + O (p * (V s)), rows of V being what the
gates read and columns of O where they write; and its derivative is the same with slopes in place of
weights, wherever heads move with their values alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax.checker.rounding._flow import Attended, FedForward, Flow, Gated, Passed
from hardmax.checker.rounding._format import Stored
from hardmax.checker.rounding._inplace import Mixing, moves_with_values_alone
from hardmax.core import ReadOut
from hardmax.numerics import Interval, inflate, length_up, product_up, sum_up, up

_HALF = 0.5  # centres are multiples of it, so that formats share the norms of what they multiply


class NoGates(Exception):
    """Something in a sublayer does more than gates can do."""


@dataclass(frozen=True, eq=False)
class Factor:
    """A matrix that is multiplied by again and again."""

    matrix: np.ndarray

    @cached_property
    def size(self) -> np.ndarray:
        return np.abs(self.matrix)

    @cached_property
    def length(self) -> float:
        """Frobenius' norm, from above."""
        return length_up(self.size.ravel())

    @cached_property
    def norm(self) -> float:
        """sqrt(|A|_1 |A|_inf) >= |A|, from above: the largest absolute sums of rows and columns."""
        rows, columns = (sum_up(self.size, axis).max(initial=0.0) for axis in (1, 0))
        return float(inflate(math.sqrt(float(product_up(rows, columns))), 1))


@dataclass(frozen=True, eq=False)
class Factors:
    """Numbers within `radius` of `centre`."""

    centre: np.ndarray
    radius: np.ndarray

    @classmethod
    def of(cls, ends: Interval) -> Factors:
        centre = np.round(ends.middle / _HALF) * _HALF
        return cls(centre, up(np.maximum(np.maximum(ends.hi - centre, centre - ends.lo), 0.0)))


@dataclass(frozen=True, eq=False)
class Gates:
    """A sublayer: g gates that make up n means, between streams of S coordinates."""

    reads: Factor  # g x S
    writes: Factor  # S x n
    owner: np.ndarray  # g: the mean that a gate belongs to
    weights: Factors  # g
    slopes: Factors  # g
    rounded: np.ndarray  # n: local errors of the means
    steady: np.ndarray  # n: these are also at most this, and ...
    growth: np.ndarray  # ... so much of what the mean's only gate reads
    excess: np.ndarray  # n: |mean| less max(what its gate reads, 0); infinite if it has several
    drift: np.ndarray  # S: a bias that is written
    stored: Stored  # what is written, as the format holds it
    rows: np.ndarray  # S: rows of that matrix; -1 for coordinates that are left alone
    error: np.ndarray  # S: of the sums
    before: np.ndarray  # S: sizes of what is carried

    @cached_property
    def gated(self) -> Factor:
        """Where each gate writes: S x g."""
        return Factor(self.writes.matrix[:, self.owner])

    @cached_property
    def own(self) -> Factor:
        """What each mean reads, where it has one gate: n x S."""
        read = np.zeros((len(self.excess), self.reads.matrix.shape[1]))
        read[self.owner] = self.reads.matrix
        return Factor(read)


class Places:
    """The coordinates of tokens that anything reads, numbered; the last is the constant 1."""

    def __init__(self, flow: Flow, readout: ReadOut, reads: list[int]) -> None:
        width, tokens = flow.start.off.shape
        used = np.zeros((width, tokens), dtype=bool)
        used[:, reads] |= (readout.weights != 0.0).any(axis=0)[:, None]
        for passed in flow.passed:
            match passed:
                case FedForward():
                    read = (passed.inner.dense != 0.0).any(axis=0)
                    used[:, passed.tokens] |= read[:, None]
                case Gated():
                    pass  # no norms are found for it, see `gates_of`
                case Attended():
                    for mixing in passed.mixings:
                        read = (mixing.heads.read_values != 0.0).any(axis=0)
                        used[:, mixing.seen] |= read[:, None]
        self.number = np.where(used, np.cumsum(used).reshape(used.shape) - 1, -1)
        self.coordinates, self.tokens = np.nonzero(used)
        self.size = len(self.coordinates) + 1

    def columns(self, matrix: np.ndarray, token: int) -> np.ndarray:
        """A matrix over the coordinates of one token, over all places."""
        full = np.zeros((len(matrix), self.size))
        here = np.flatnonzero(self.tokens == token)
        full[:, here] = matrix[:, self.coordinates[here]]
        return full

    def vector(self, numbers: np.ndarray, tokens: np.ndarray | None = None) -> np.ndarray:
        """Numbers by coordinate and (some) tokens, by places; 0 elsewhere."""
        width, count = self.number.shape
        every = np.zeros((width, count))
        every[:, np.arange(count) if tokens is None else tokens] = numbers
        return np.append(every[self.coordinates, self.tokens], 0.0)


def gates_of(passed: Passed, places: Places) -> Gates:
    """A sublayer of a flow as gates; NoGates where heads move with more than their values."""
    match passed:
        case FedForward():
            return _units(passed, places)
        case Gated():
            raise NoGates  # both factors move
        case Attended():
            return _heads(passed, places)


def _units(passed: FedForward, places: Places) -> Gates:
    """relu(z) is z times a number between 0 and 1, and at most max(z, 0)."""
    count = len(passed.inner.matrix)
    reads, writes = [], []
    for token in passed.tokens.tolist():
        read = places.columns(passed.inner.dense, token)
        read[:, -1] = passed.inner.bias
        reads.append(read)
        writes.append(places.columns(passed.outer.dense.T, token).T)
    slopes = Factors.of(Interval(passed.slopes.lo.T.ravel(), passed.slopes.hi.T.ravel()))
    error = up(passed.hidden_error + passed.activation_error).T.ravel()
    return Gates(
        Factor(np.concatenate(reads)),
        Factor(np.concatenate(writes, axis=1)),
        np.arange(count * len(passed.tokens)),
        slopes,
        slopes,
        error,
        error,
        np.zeros(len(error)),
        error,
        _constant(places, passed.outer.bias, passed.tokens),
        *_sums(passed, passed.outer, places),
    )


def _heads(passed: Attended, places: Places) -> Gates:
    """One gate for each value that a head sees and that is not 0."""
    if not passed.mixings or not all(map(moves_with_values_alone, passed.mixings)):
        raise NoGates
    reads, owner, weights, slopes, writes, errors = [], [], [], [], [], []
    means = 0
    for mixing in passed.mixings:
        answer, seen = mixing.answer, _gates_seen(mixing)
        output = passed.output.dense[:, mixing.columns]
        writes.append(places.columns(output.T, mixing.t).T)
        errors.append(_errors(mixing, seen.sum(axis=1)))
        by_values, values = answer.derivatives.by_values, mixing.asked.values.value.shape[1]
        for j, token in enumerate(mixing.seen.tolist()):
            chosen = np.flatnonzero(seen[:, j])
            reads.append(places.columns(mixing.heads.read_values[chosen], token))
            owner.append(means + chosen)
            weights.append(answer.weights[chosen // values, j])
            slopes.append(by_values[chosen // values, chosen % values, j])
        means += len(seen)
    rounded, steady, growth, excess = np.concatenate(errors, axis=1)
    return Gates(
        Factor(np.concatenate(reads)),
        Factor(np.concatenate(writes, axis=1)),
        np.concatenate(owner),
        Factors.of(_joined(weights)),
        Factors.of(_joined(slopes)),
        rounded,
        steady,
        growth,
        excess,
        np.zeros(places.size),
        *_sums(passed, passed.output, places),
    )


def _errors(mixing: Mixing, count: np.ndarray) -> np.ndarray:
    """Of means with so many gates: rounded, steady, growth and excess."""
    errors, beside = mixing.answer.errors, mixing.answer.from_maximum
    rounded, single = errors.rounded.ravel(), count == 1
    away = np.maximum(beside.below, beside.beyond).ravel()
    away = np.minimum(away, mixing.answer.mean.magnitude.ravel())  # of a token that is alone
    excess = np.where(single, inflate(away + rounded, 1), np.inf)
    return np.stack(
        [
            rounded,
            np.where(single, errors.steady.ravel(), rounded),
            np.where(single, errors.growth.ravel(), 0.0),
            np.where(count == 0, rounded, excess),
        ]
    )


def _gates_seen(mixing: Mixing) -> np.ndarray:
    """Means x seen: values that are not 0, exactly."""
    values = mixing.asked.values
    some = (values.value.magnitude > 0.0) | (values.off > 0.0)
    return np.asarray(some.reshape(-1, some.shape[2]))


def _joined(parts: list[Interval]) -> Interval:
    return Interval(np.concatenate([p.lo for p in parts]), np.concatenate([p.hi for p in parts]))


def _constant(places: Places, bias: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    return places.vector(np.repeat(bias[:, None], len(tokens), axis=1), tokens)


def _sums(
    passed: Passed, stored: Stored, places: Places
) -> tuple[Stored, np.ndarray, np.ndarray, np.ndarray]:
    """The matrix whose rows are summed, and which of them, their errors, and what is carried."""
    asked = np.isin(places.tokens, passed.tokens)
    rows = np.append(np.where(asked, places.coordinates, -1), -1)
    error = places.vector(passed.error, passed.tokens)
    before = places.vector(passed.before.where.magnitude)
    return stored, rows, error, before
