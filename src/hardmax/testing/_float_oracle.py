"""Evaluations in a float format by an adversary: random trees, fused sums, exponentials at fault.

Every weight is rounded to the format, every operation once, in float64 or wider, which holds what
is rounded. What the bounds of `checker.rounding` leave open is drawn at random: the order of each
sum, whether a product is rounded before it is added, whether sums are kept in a wider format, when
the coldness is multiplied in, when a mean is divided, and how far exponentials are off within the
assumption that certificates name; below its edge they vanish, or are cut off there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from hardmax.checker.rounding import float_bounds
from hardmax.core import (
    Attention,
    Box,
    FeedForward,
    GatedFeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Transformer,
    VectorInput,
    evaluate,
)
from hardmax.numerics import FLOAT32, FLOAT64, FORMATS, Format, above_float, precision
from hardmax.testing._random_transformers import Kind, random_vector_transformer
from hardmax.testing.truth import Balls, Rationals, outputs_on_vector

if TYPE_CHECKING:
    from flint import arb

Column = list[np.ndarray]  # one array over all points for each coordinate
_WIDE = np.longdouble
_BITS = 160  # of balls: float64 has 53
_EACH = 4  # evaluations of one Transformer


class Adversary:
    """Operations of a format whose freedoms are drawn from `rng`."""

    def __init__(self, format: Format, rng: np.random.Generator) -> None:
        self.format, self.rng = format, rng
        narrow = format.digits < FLOAT32.digits
        self.sums = FLOAT32 if narrow and rng.random() < 0.3 else format

    def rounded(self, values: ArrayLike, format: Format | None = None) -> np.ndarray:
        """To nearest; wider numbers than float64 are rounded to it first, which moves no tie."""
        return (format or self.format).stored(np.asarray(values, dtype=np.float64))

    def weights(self, values: np.ndarray) -> np.ndarray:
        """Rounded to the format, perhaps on the way through float32."""
        if self.rng.random() < 0.3:
            values = self.rounded(values, FLOAT32 if self.format.digits < 24 else self.format)
        return self.rounded(values)

    def total(self, terms: Column) -> np.ndarray:
        """The sum in a random tree, the result in the format."""
        if not terms:
            return np.zeros(1)
        terms = list(terms)
        while len(terms) > 1:
            i, j = sorted(self.rng.choice(len(terms), 2, replace=False))
            b, a = terms.pop(j), terms.pop(i)
            terms.append(self.rounded(a + b, self.sums))
        return self.rounded(terms[0])

    def dot(
        self, weights: np.ndarray | Column, x: Column, others: Column | tuple[()] = ()
    ) -> np.ndarray:
        """The sum of products of what is not 0, and of others: each product rounded or fused."""
        pairs = [(w, v) for w, v in zip(weights, x, strict=True) if np.any(w) and np.any(v)]
        if not pairs:
            return self.total(list(others))
        if self.rng.random() < 0.5:
            return self.total([*(self.rounded(w * v, self.sums) for w, v in pairs), *others])
        self.rng.shuffle(pairs)
        held = self.total(list(others))
        for w, v in pairs:
            held = self.rounded(_WIDE(w) * v + held, self.sums)
        return self.rounded(held)

    def map(
        self,
        matrix: np.ndarray,
        x: Column,
        bias: np.ndarray | None = None,
        carried: Column | None = None,
    ) -> Column:
        rows = []
        for r, row in enumerate(matrix):
            more = [] if bias is None or not bias[r] else [np.full(1, bias[r])]
            more += [] if carried is None else [carried[r]]
            rows.append(self.dot(row, x, more))
        return rows

    def powers(self, below: np.ndarray) -> np.ndarray:
        """Exponentials as far off as is assumed: one unit less, and rounded."""
        format, rng = self.format, self.rng
        far = rng.choice([-1.0, 1.0, rng.uniform(-1.0, 1.0)], size=below.shape)
        off = 1.0 + _WIDE(format.unit) * max(format.exp_units - 1, 0) * far
        with np.errstate(under="ignore"):
            found = self.rounded(np.exp(_WIDE(below)) * off)
        lost = rng.choice([0.0, 0.0, float(self.rounded(np.exp(format.exp_vanishes) * 0.99))])
        found = np.where(below < format.exp_vanishes, lost, found)
        return np.where(below == 0.0, 1.0, found)


def run_in_format(
    transformer: Transformer,
    inputs: np.ndarray | Sequence[str | int],
    format: Format,
    rng: np.random.Generator,
) -> np.ndarray:
    """Outputs of one evaluation: points x outputs; for a word, rows x outputs.

    `inputs` are points, a row each, in numbers of the format, or one word of a sequence.
    """
    adversary = Adversary(format, rng)
    stream, first = _embed_inputs(adversary, transformer, inputs)
    for layer in transformer.sublayers:
        match layer:
            case FeedForward():
                stream = [_feed_forward(adversary, layer, x) for x in stream]
            case GatedFeedForward():
                stream = [_gated(adversary, layer, x) for x in stream]
            case Attention():
                stream = _attend(adversary, layer, stream)
    readout = transformer.readout
    weights, bias = adversary.weights(readout.weights), adversary.weights(readout.bias)
    tokens = stream[first:] if readout.token is None else [stream[readout.token]]
    rows = [np.broadcast_arrays(*adversary.map(weights, x, bias)) for x in tokens]
    if isinstance(transformer.input, VectorInput):
        return np.stack(np.broadcast_arrays(*rows[0], np.zeros(len(inputs)))[:-1], axis=1)
    return np.array([[float(v[0]) for v in row] for row in rows])


def _embed_inputs(
    adversary: Adversary, transformer: Transformer, inputs: np.ndarray | Sequence[str | int]
) -> tuple[list[Column], int]:
    source = transformer.input
    match source:
        case VectorInput():
            x = [np.asarray(column, dtype=np.float64) for column in np.asarray(inputs).T]
            maps, offsets = adversary.weights(source.maps), adversary.weights(source.offsets)
            return [adversary.map(m, x, b) for m, b in zip(maps, offsets, strict=True)], 0
        case SequenceInput():
            rows = [source.embedding[i] for i in source.indices(inputs)]
            rows = rows if source.start is None else [source.start, *rows]
            places = [adversary.weights(place) for place in source.positions]
            sums = zip(map(adversary.weights, rows), places, strict=False)
            stream = [[adversary.rounded([a + b]) for a, b in zip(*s, strict=True)] for s in sums]
            return stream, int(source.start is not None)


def _feed_forward(adversary: Adversary, layer: FeedForward, x: Column) -> Column:
    inner, outer = adversary.weights(layer.inner), adversary.weights(layer.outer)
    hidden = adversary.map(inner, x, adversary.weights(layer.inner_bias))
    hidden = [np.maximum(z, 0.0) for z in hidden]
    return adversary.map(outer, hidden, adversary.weights(layer.outer_bias), x)


def _gated(adversary: Adversary, layer: GatedFeedForward, x: Column) -> Column:
    """A silu in one of three ways, with an exponential as far off as is assumed."""
    gates = adversary.map(adversary.weights(layer.gate), x, adversary.weights(layer.gate_bias))
    factors = adversary.map(adversary.weights(layer.inner), x, adversary.weights(layer.inner_bias))
    hidden = []
    for z, u in zip(gates, factors, strict=True):
        acted = np.maximum(z, 0.0) if layer.is_exact else _silu(adversary, np.asarray(z))
        hidden.append(adversary.rounded(acted * u))
    outer = adversary.weights(layer.outer)
    return adversary.map(outer, hidden, adversary.weights(layer.outer_bias), x)


def _silu(adversary: Adversary, z: np.ndarray) -> np.ndarray:
    """With e = exp(-|z|), which does not overflow."""
    power, rounded = adversary.powers(-np.abs(z)), adversary.rounded
    share = rounded(np.where(z >= 0.0, 1.0, power) / rounded(1.0 + power))
    if adversary.rng.random() < 0.5:
        return rounded(z * share)
    return rounded(rounded(z * np.where(z >= 0.0, 1.0, power)) / rounded(1.0 + power))


def _attend(adversary: Adversary, layer: Attention, stream: list[Column]) -> list[Column]:
    mixed = [_head(adversary, head, stream) for head in layer.heads]
    output = np.concatenate([adversary.weights(head.output) for head in layer.heads], axis=1)
    return [
        adversary.map(output, [m for part in mixed for m in part[t]], None, x)
        for t, x in enumerate(stream)
    ]


def _head(adversary: Adversary, head: Head, stream: list[Column]) -> list[Column]:
    hard = math.isinf(head.coldness)
    cold = 1.0 if hard else head.coldness
    given = adversary.weights(head.query) if adversary.rng.random() < 0.3 else head.query
    query = adversary.rounded(given * cold)
    key, value = adversary.weights(head.key), adversary.weights(head.value)
    queries, keys, values = ([adversary.map(m, x) for x in stream] for m in (query, key, value))
    mixed = []
    for token, asking in enumerate(queries):
        seen = range(token + 1) if head.causal else range(len(stream))
        logits = []
        for j in seen:
            bias = 0.0 if head.position_bias is None else head.position_bias[token, j] * cold
            more = [adversary.rounded([bias])] if bias else []
            logits.append(adversary.dot(asking, keys[j], more))
        seen_values = [values[j] for j in seen]
        mixed.append(_mean(adversary, np.stack(np.broadcast_arrays(*logits)), seen_values, hard))
    return mixed


def _mean(adversary: Adversary, logits: np.ndarray, values: list[Column], hard: bool) -> Column:
    """Divided before the products, or after them, or by a product with the reciprocal."""
    top = logits.max(axis=0)
    columns = [list(column) for column in zip(*values, strict=True)]
    if len(logits) == 1:
        return [column[0] for column in columns]
    if hard:
        tied = (logits == top).astype(float)
        weights = adversary.rounded(tied / tied.sum(axis=0))
        return [adversary.dot(list(weights), column) for column in columns]
    powers = adversary.powers(adversary.rounded(logits - top))
    total = adversary.total(list(powers))
    if adversary.rng.random() < 0.5:
        weights = adversary.rounded(powers / total)
        return [adversary.dot(list(weights), column) for column in columns]
    sums = [adversary.dot(list(powers), column) for column in columns]
    if adversary.rng.random() < 0.5:
        return [adversary.rounded(one / total) for one in sums]
    return [adversary.rounded(one * adversary.rounded(1.0 / total)) for one in sums]


# --- cases ----------------------------------------------------------------------------------------


def true_values(transformer: Transformer, points: np.ndarray, format: Format) -> np.ndarray:
    """Points x outputs over the reals: exact for hard heads, from balls where float64 is asked.

    For narrower formats the evaluation in float64 will do: bounds grow with the unit roundoff, so
    its own is a share of theirs, for which `RoundingCase` allows.
    """
    if transformer.is_hard:
        exact = [outputs_on_vector(transformer, _fractions(x), Rationals()) for x in points]
        return np.array(exact, dtype=object)
    if format is not FLOAT64:
        return evaluate(transformer, points)
    numbers = Balls()
    with precision(_BITS):
        values = [
            outputs_on_vector(transformer, [numbers.number(float(v)) for v in x], numbers)
            for x in points
        ]
        return np.array([[_middle(v) for v in row] for row in values], dtype=object)


def _fractions(x: np.ndarray) -> list[Fraction]:
    return [Fraction(float(v)) for v in x]


def _middle(ball: arb) -> Fraction:
    mantissa, exponent = ball.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def random_case(
    rng: np.random.Generator, format: Format, gated: float = 0.0
) -> tuple[Transformer, Box]:
    """A small Transformer of any kind, or one whose powers lie around the edge of the format."""
    if rng.random() < 0.2:
        return transformer_at_the_edge(rng, format), Box(-np.ones(1), np.ones(1))
    kind = Kind(
        coarse=bool(rng.random() < 0.5),
        hard=float(rng.random() < 0.3),
        continuous=float(rng.choice([0.0, 0.5])),
        gated=gated,
        silu=0.5,
    )
    inputs = int(rng.integers(1, 3))
    transformer = random_vector_transformer(rng, inputs, int(rng.integers(1, 3)), kind)
    low = rng.choice([-1.0, 0.0, -2.0, 0.5], size=inputs)
    return transformer, Box(low, low + rng.choice([0.0, 0.5, 1.0], size=inputs))


def transformer_at_the_edge(rng: np.random.Generator, format: Format) -> Transformer:
    """A head whose weights are about to vanish, before values that make up for it."""
    tokens = int(rng.integers(2, 24))
    edge = format.exp_vanishes + rng.uniform(-3.0, 3.0, tokens)
    size = min(format.largest * 2.0**-6, math.exp(-format.exp_vanishes))
    maps, offsets = np.zeros((tokens, 4, 1)), np.zeros((tokens, 4))
    maps[1:, 1, 0] = size * rng.choice([0.0, 1.0, -0.7], size=tokens - 1)
    offsets[1:, 0], offsets[:, 2] = edge[1:], 1.0
    rows = np.eye(4)
    head = Head(rows[[2]], rows[[0]], rows[[1]], rows[:, [3]], Softmax(1.0))
    return Transformer(
        VectorInput(maps, offsets), [Attention([head])], ReadOut(rows[[3]], np.zeros(1), 0)
    )


class RoundingCase:
    """A random Transformer, its bounds in a format, some points, and the true outputs there."""

    def __init__(
        self, rng: np.random.Generator, format: Format, points: int = 4, gated: float = 0.0
    ) -> None:
        self.format = format
        self.transformer, box = random_case(rng, format, gated)
        self.bound = float_bounds(self.transformer, box, (format.name,))[format.name]
        if format is not FLOAT64 and not self.transformer.is_hard:
            self.bound = self.bound * (1.0 + 2.0 * FLOAT64.unit / format.unit)  # see `true_values`
        inside = format.stored(np.concatenate([box.sample(points, rng), [box.low, box.high]]))
        self.points = inside[box.contains(inside)]
        self.real = true_values(self.transformer, self.points, format)

    def largest_share(self, rng: np.random.Generator) -> float | None:
        """The largest error of one evaluation, as a share of its bound; None without a bound.

        More than 1 is a false bound, infinite where no error at all was allowed.
        """
        if not np.isfinite(self.bound).all():
            return None
        found = run_in_format(self.transformer, self.points, self.format, rng)
        errors = zip(found.ravel(), self.real.ravel(), np.tile(self.bound, len(found)), strict=True)
        return max((_share(*one) for one in errors), default=0.0)


def _share(found: float, real: Fraction, bound: float) -> float:
    error = abs(Fraction(float(found)) - Fraction(real))
    if not error:
        return 0.0
    return above_float(error / Fraction(bound)) if bound else math.inf


def rounding_part(start: int, count: int, seed: int, name: str) -> dict[str, object]:
    """Cases number `start` and after in one format: how many bounds were false, if any.

    A case is one evaluation; every Transformer is evaluated four times. Of `unbounded` cases
    nothing is claimed, and `tight` ones used up more than half of their bound.
    """
    format, case = FORMATS[name], None
    counts = dict.fromkeys(("cases", "false", "unbounded", "tight"), 0)
    failures: list[tuple[int, str]] = []
    for number in range(start, start + count):
        if case is None or number % _EACH == 0:
            case = RoundingCase(np.random.default_rng([seed, 0, number // _EACH]), format)
        share = case.largest_share(np.random.default_rng([seed, 1, number]))
        counts["cases"] += 1
        counts["unbounded"] += share is None
        counts["tight"] += share is not None and share > 0.5
        if share is not None and share > 1.0:
            counts["false"] += 1
            failures.append((number, f"an error of {share:.6g} times its bound in {name}"))
    return {**counts, "failures": failures}
