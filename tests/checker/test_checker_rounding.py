"""The checker's rounding analysis: never below what arithmetic does, and rarely far above.

Three ways to break a bound are tried. *Rounding:* every operation rounded to the format, sums in
a random order. *An adversary:* every operation that can round is off by a unit of the adversary's
choice, chosen by the sign of its effect on the answer; that is the worst case to first order, at
the point at hand. *float64* as it runs here, against Fractions and balls.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from flint import arb, ctx

import hardmax as hm
from hardmax.analysis import rounding_bound
from hardmax.checker.rounding import _bounds
from hardmax.checker.rounding._bounds import float_bounds
from hardmax.checker.rounding._format import NothingKnown, Stored, moved
from hardmax.checker.rounding._inplace import kinked
from hardmax.checker.rounding._logits import weight_ranges
from hardmax.checker.rounding._maximum_heads import (
    BEND,
    PULL,
    STEEPEST,
    MaximumHeads,
    near_maximum,
    steepness,
)
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
    reference,
)
from hardmax.numerics import (
    FORMATS,
    Interval,
    inflate,
    is_power_of_two,
    matmul_up,
    product_up,
    sum_up,
)

UNIT = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
NARROW = ("float32", "float16", "bfloat16")


# --- two arithmetics, and one evaluator for both --------------------------------------------------


def cast(values, dtype):
    """Rounded to nearest by NumPy; for bfloat16 eight digits by hand."""
    values = np.asarray(values, dtype=float)
    if dtype != "bfloat16":
        with np.errstate(over="ignore"):
            return values.astype(dtype).astype(float)
    _, exponent = np.frexp(values)
    quantum = np.ldexp(1.0, np.maximum(exponent, -125) - 8)
    return np.rint(values / quantum) * quantum


class Rounded:
    """Every operation is rounded to the format; float64 holds both operands' results exactly."""

    def __init__(self, dtype, rng):
        self.dtype, self.rng = dtype, rng

    def weight(self, values):
        return cast(values, self.dtype)

    def mul(self, a, b):
        return cast(a * b, self.dtype)

    def div(self, a, b):
        return cast(a / b, self.dtype)

    def exp(self, x):
        return cast(np.exp(x), self.dtype)

    def fold(self, query, coldness):
        return cast(query * coldness, self.dtype)

    def add(self, terms):
        terms = list(terms)
        while len(terms) > 1:
            i, j = sorted(self.rng.choice(len(terms), 2, replace=False))
            b, a = terms.pop(j), terms.pop(i)
            terms.append(cast(a + b, self.dtype))
        return terms[0] if terms else np.zeros(1)


class Noisy:
    """Operation number i is off by noise(i) units, unless it is exact in every format.

    An addition errs by no more than its smaller operand, and exp(0) is 1.
    """

    def __init__(self, dtype, noise, order=0):
        self.dtype, self.noise, self.order = dtype, noise, order
        self.unit, self.count = UNIT[dtype], 0

    def error(self):
        self.count += 1
        return self.unit * self.noise(self.count - 1)

    def weight(self, values):
        return cast(values, self.dtype)

    def mul(self, a, b):
        error = self.error()
        exact = is_power_of_two(np.asarray(a)) | is_power_of_two(np.asarray(b))
        return a * b * (1.0 + np.where(exact, 0.0, error))

    def div(self, a, b):
        error = self.error()
        return a / b * (1.0 + np.where(is_power_of_two(b) | (a == 0.0), 0.0, error))

    def exp(self, x):
        units = FORMATS[self.dtype].exp_units
        return np.exp(x) * (1.0 + np.where(x == 0.0, 0.0, units * self.error()))

    def fold(self, query, coldness):
        return self.weight(query * coldness)

    def add(self, terms):
        terms = list(terms)
        rng = np.random.default_rng([self.order, len(terms)])
        while len(terms) > 1:
            i, j = sorted(rng.choice(len(terms), 2, replace=False))
            b, a = terms.pop(j), terms.pop(i)
            error = self.error()
            most = np.minimum(np.abs(a), np.abs(b))
            terms.append(a + b + np.clip(error * np.abs(a + b), -most, most))
        return terms[0] if terms else np.zeros(1)


def linear(ar, matrix, x, bias=None, carried=None):
    """Rows of matrix @ x, zeros left out; and what is added to them."""
    rows = []
    for r, row in enumerate(matrix):
        terms = [ar.mul(row[c], x[c]) for c in np.flatnonzero(row)]
        if bias is not None and bias[r] != 0.0:
            terms.append(np.full(1, ar.weight(bias[r])))
        if carried is not None:
            terms.append(carried[r])
        rows.append(ar.add(terms))
    return rows


def attend(ar, head, stream):
    """What every token gets from one head: token by token, the mixed values."""
    hard = math.isinf(head.coldness)
    folded = ar.weight(head.query) if hard else ar.fold(head.query, head.coldness)
    query = [linear(ar, folded, x) for x in stream]
    key = [linear(ar, ar.weight(head.key), x) for x in stream]
    value = [linear(ar, ar.weight(head.value), x) for x in stream]
    mixed = []
    for t in range(len(stream)):
        seen = range(t + 1) if head.causal else range(len(stream))
        logits = []
        for j in seen:
            terms = [ar.mul(a, b) for a, b in zip(query[t], key[j], strict=True)]
            if head.position_bias is not None and head.position_bias[t, j] != 0.0:
                bias = head.position_bias[t, j] * (1.0 if hard else head.coldness)
                terms.append(np.full(1, ar.weight(bias)))
            logits.append(ar.add(terms))
        logits = np.broadcast_arrays(*logits)
        weights = weigh(ar, logits, hard)
        mixed.append(
            [
                ar.add([ar.mul(p, value[j][v]) for p, j in zip(weights, seen, strict=True)])
                for v in range(head.value_width)
            ]
        )
    return mixed


def weigh(ar, logits, hard):
    top = np.max(logits, axis=0)
    if len(logits) == 1:
        return [np.ones(1)]
    if hard:
        tied = [(logit == top).astype(float) for logit in logits]
        count = sum(tied)
        return [ar.div(tie, count) for tie in tied]
    powers = [ar.exp(ar.add([logit, -top])) for logit in logits]
    total = ar.add(powers)
    return [ar.div(power, total) for power in powers]


def passed_gates(ar, layer, x):
    """ReLU gates, each multiplied with its factor."""
    assert layer.activation == "relu"
    gates = linear(ar, ar.weight(layer.gate), x, layer.gate_bias)
    factors = linear(ar, ar.weight(layer.inner), x, layer.inner_bias)
    hidden = [ar.mul(np.maximum(z, 0.0), u) for z, u in zip(gates, factors, strict=True)]
    return linear(ar, ar.weight(layer.outer), hidden, layer.outer_bias, x)


def run(transformer, points, ar):
    """Outputs x batch, for points batch x inputs."""
    source, readout = transformer.input, transformer.readout
    columns = list(points.T)
    stream = [
        linear(ar, ar.weight(source.maps[t]), columns, source.offsets[t])
        for t in range(transformer.tokens)
    ]
    for layer in transformer.sublayers:
        if isinstance(layer, FeedForward):
            inner, outer = ar.weight(layer.inner), ar.weight(layer.outer)
            hidden = [linear(ar, inner, x, layer.inner_bias) for x in stream]
            hidden = [[np.maximum(z, 0.0) for z in units] for units in hidden]
            pairs = zip(hidden, stream, strict=True)
            stream = [linear(ar, outer, h, layer.outer_bias, x) for h, x in pairs]
        elif isinstance(layer, GatedFeedForward):
            stream = [passed_gates(ar, layer, x) for x in stream]
        else:
            parts = [attend(ar, head, stream) for head in layer.heads]
            output = np.concatenate([ar.weight(head.output) for head in layer.heads], axis=1)
            stream = [
                linear(ar, output, [m for part in parts for m in part[t]], carried=x)
                for t, x in enumerate(stream)
            ]
    rows = linear(ar, ar.weight(readout.weights), stream[readout.token], readout.bias)
    return np.stack([np.broadcast_to(row, len(points)) for row in rows])


def at_worst(transformer, x, dtype, order=0):
    """How far the adversary gets at one point, for each output: signs chosen by their effects."""
    probe = Noisy(dtype, lambda i: 0.0, order)
    base = run(transformer, x[None], probe)
    alone = np.eye(max(probe.count, 1))
    effects = run(
        transformer, np.repeat(x[None], len(alone), axis=0), Noisy(dtype, lambda i: alone[i], order)
    )
    exact = true_values(transformer, x[None])[:, 0]
    reached = []
    for output, signs in enumerate(np.sign(effects - base)):
        pair = np.stack([signs, -signs])
        noisy = Noisy(dtype, lambda i, pair=pair: pair[:, i], order)
        found = run(transformer, np.repeat(x[None], 2, axis=0), noisy)[output]
        reached.append(np.abs(found - exact[output]).max())
    return np.array(reached)


def true_values(transformer, points):
    """Exact for hard Transformers; for soft ones float64, for comparison with narrower formats."""
    if not transformer.is_hard:
        return evaluate(transformer, points).T
    exact = [reference(transformer, [Fraction(v) for v in x], Fraction) for x in points]
    return np.array([[float(v) for v in row] for row in exact]).T


def points_of(box, dtype, rng, count):
    """Corners, faces, a coarse grid (for ties) and anything else, in numbers of the format."""
    grid = box.low + (box.high - box.low) * rng.integers(0, 9, size=(count, box.dimension)) / 8
    points = cast(np.concatenate([box.sample(count, rng), grid]), dtype)
    return points[box.contains(points)]


# --- constructions --------------------------------------------------------------------------------

FUNCTIONS = {
    "x*y": {"x": (-1, 1), "y": (-1, 1)},
    "max(x, y, 2*z - 0.3)": {"x": (-1, 1), "y": (-1, 1), "z": (0, 1)},
    "1/x": {"x": (0.25, 1)},
    "abs(x - 0.3) - relu(y)/3": {"x": (-1, 1), "y": (-1, 2)},
    "sin(x*y)": {"x": (-1, 1), "y": (0, 1)},
    "sigmoid(x)": {"x": (-4, 4)},
}
EXACT = [  # functions that some route computes exactly over the reals: rounding is the whole claim
    ("max(x, y)", {"x": (-1, 1), "y": (-1, 1)}),
    ("abs(x)", {"x": (-1, 1)}),
    ("max(x, y, z)", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}),
    ("min(max(x, y), max(y, z))", {"x": (-1, 1), "y": (-1, 1), "z": (-1, 1)}),
    ("clip(x, -0.5, 0.5)", {"x": (-1, 1)}),
    ("3*x - y/4 + 1", {"x": (-1, 1), "y": (0, 1)}),
    ("abs(x) + abs(y)", {"x": (-1, 1), "y": (-1, 1)}),
    ("max(a, b, c, d, f, g, h, k)", dict.fromkeys("abcdfghk", (-1, 1))),
]


def relu_network(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.normal(size=(b, a)) / math.sqrt(a) for a, b in pairs]
    return hm.ReluNetwork(weights, [rng.normal(size=b) * 0.1 for b in sizes[1:]])


def maxout_network(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    pairs = list(itertools.pairwise(sizes))
    weights = [rng.normal(size=(2, b, a)) / math.sqrt(a) for a, b in pairs]
    return hm.MaxoutNetwork(weights, [rng.normal(size=(2, b)) * 0.1 for b in sizes[1:]])


def network_routes(relu, maxout):
    routes = [(relu, r) for r in ("attention", "attention-only", "feedforward")]
    return routes + [(maxout, r) for r in ("attention", "attention-only")]


SMALL = network_routes(relu_network(2, 5, 4, 2), maxout_network(2, 4, 2))
NAMES = [*FUNCTIONS, *(f"{type(n).__name__} {route}" for n, route in SMALL)]


@cache
def built(name):
    """Constructions of a function on every open route, or of a network, soft and hard."""
    if name in FUNCTIONS:
        offers = hm.plan(name, on=FUNCTIONS[name], error=2e-2).open
        return [offer.build() for offer in offers if offer.resources["tokens"] <= 12]
    network, route = SMALL[NAMES.index(name) - len(FUNCTIONS)]
    errors = (2e-2, None) if route != "feedforward" else (None,)
    return [hm.compile(network, on=(-1, 1), error=error, route=route) for error in errors]


@cache
def bounded(name):
    """The same, each as (construction, its Transformer, its box, all its bounds)."""
    made = [(c, c.transformer, c.claim.domain) for c in built(name)]
    return [(c, transformer, box, float_bounds(transformer, box)) for c, transformer, box in made]


def allowed(transformer, bounds, dtype):
    """The bound; and, where `true_values` come from float64, what these may be off by."""
    return bounds[dtype] + (0.0 if transformer.is_hard else bounds["float64"])


# --- soundness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_rounded_evaluations_stay_within_the_bound(name):
    rng = np.random.default_rng(1)
    for construction, transformer, box, bounds in bounded(name):
        for dtype in NARROW:
            bound = allowed(transformer, bounds, dtype)
            if np.isfinite(bound).all():
                points = points_of(box, dtype, rng, 4 if transformer.is_hard else 30)
                found = run(transformer, points, Rounded(dtype, rng))
                error = np.abs(found - true_values(transformer, points))
                assert (error.max(axis=1) <= bound).all(), construction


@pytest.mark.parametrize("name", NAMES)
def test_an_adversary_stays_within_the_bound(name):
    rng = np.random.default_rng(2)
    for (construction, transformer, box, bounds), dtype in zip(
        bounded(name), itertools.cycle(NARROW), strict=False
    ):
        bound = allowed(transformer, bounds, dtype)
        x = points_of(box, dtype, rng, 1)[0]
        assert (at_worst(transformer, x, dtype) <= bound).all(), construction


def random_numbers(rng, *shape, density=0.6):
    """Numbers that tie, numbers that are exact, numbers that are neither; and zeros."""
    kinds = (
        rng.integers(-12, 13, size=shape) / 4,
        rng.choice([-1.0, 1.0, 0.5, -0.5, 2.0], size=shape),
        rng.normal(size=shape),
    )
    return kinds[rng.integers(3)] * (rng.random(shape) < density)


def random_head(rng, width, tokens, *, hard):
    key_width, value_width = int(rng.choice([0, 1, 1, 1, 2])), int(rng.choice([1, 1, 2]))
    query, key = random_numbers(rng, 2, key_width, width)
    value, output = random_numbers(rng, value_width, width), random_numbers(rng, width, value_width)
    if key_width == value_width == 1 and rng.random() < 0.5:  # a maximum
        one = np.eye(width)[-1:]
        query, key, value = (one, key, key) if rng.random() < 0.5 else (query, one, query)
    if rng.random() < 0.8:
        output[-1] = 0.0  # the last coordinate stays a constant
    return Head(
        query,
        key,
        value,
        output,
        hm.Hardmax() if hard else Softmax(float(rng.choice([1, 2, 3.7, 16, 45.3]))),
        causal=bool(rng.random() < 0.5),
        position_bias=random_numbers(rng, tokens, tokens) if rng.random() < 0.2 else None,
    )


def random_transformer(rng, *, hard):
    tokens, width, inputs = (int(rng.integers(*ends)) for ends in ((1, 5), (2, 6), (1, 3)))
    maps = random_numbers(rng, tokens, width, inputs, density=0.4)
    offsets = random_numbers(rng, tokens, width, density=0.5)
    maps[:, -1], offsets[:, -1] = 0.0, rng.choice([1.0, -0.5, 0.5, 0.0], size=tokens)
    layers = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.6:
            heads = range(int(rng.integers(1, 4)))
            layers.append(Attention(random_head(rng, width, tokens, hard=hard) for _ in heads))
        else:
            units = int(rng.integers(1, 4))
            sizes = ((units, width), (units,), (width, units), (width,))
            layers.append(FeedForward(*(random_numbers(rng, *size) for size in sizes)))
    weights, bias = random_numbers(rng, 2, width, density=0.8), random_numbers(rng, 2)
    readout = ReadOut(weights, bias, int(rng.integers(tokens)))
    return Transformer(VectorInput(maps, offsets), layers, readout)


def random_box(rng, dimension):
    low = rng.choice([-1.0, 0.0, -2.0, 0.5, -0.25], size=dimension)
    return Box(low, low + rng.choice([0.0, 0.5, 1.0, 2.0], size=dimension))


@pytest.mark.parametrize("seed", range(40))
def test_random_transformers_stay_within_their_bounds(seed):
    """Masks, position biases, ties, wide values, no keys at all; rounded, and with noise."""
    rng = np.random.default_rng(seed)
    transformer = random_transformer(rng, hard=bool(seed % 2))
    box, dtype = random_box(rng, transformer.input.inputs), NARROW[seed % 3]
    bounds = float_bounds(transformer, box, (dtype, "float64"))
    bound = allowed(transformer, bounds, dtype)[:, None]
    points = points_of(box, dtype, rng, 8)
    exact = true_values(transformer, points)
    signs = rng.choice([-1.0, 1.0], size=4000)
    for arithmetic in (Rounded(dtype, rng), Noisy(dtype, lambda i: signs[i], seed)):
        assert (np.abs(run(transformer, points, arithmetic) - exact) <= bound).all()
    if not transformer.is_hard:
        worst = at_worst(transformer, points[0], dtype, seed)
        assert (worst <= bound[:, 0]).all()


def in_balls(transformer, x):
    """The outputs of a soft Transformer at one point, as balls of 200 bits."""

    def dot(row, column):
        return sum((arb(float(w)) * v for w, v in zip(row, column, strict=True) if w), arb(0))

    def rows(matrix, bias, column):
        return [dot(row, column) + arb(float(b)) for row, b in zip(matrix, bias, strict=True)]

    source, readout = transformer.input, transformer.readout
    vector = [arb(float(v)) for v in x]
    stream = [
        [dot(row, vector) + arb(float(b)) for row, b in zip(m, o, strict=True)]
        for m, o in zip(source.maps, source.offsets, strict=True)
    ]
    for layer in transformer.sublayers:
        added = [[arb(0)] * layer.width for _ in stream]
        for t, token in enumerate(stream):
            if not isinstance(layer, Attention):
                gated = isinstance(layer, GatedFeedForward)
                gates = (layer.gate, layer.gate_bias) if gated else (layer.inner, layer.inner_bias)
                hidden = [max(z, arb(0), key=lambda v: float(v.mid())) for z in rows(*gates, token)]
                if gated:
                    factors = rows(layer.inner, layer.inner_bias, token)
                    hidden = [z * u for z, u in zip(hidden, factors, strict=True)]
                added[t] = rows(layer.outer, layer.outer_bias, hidden)
                continue
            for head in layer.heads:
                seen = stream[: t + 1] if head.causal else stream
                query = [dot(row, token) for row in head.query]
                logits = [
                    arb(head.coldness)
                    * sum((q * dot(row, y) for q, row in zip(query, head.key, strict=True)), arb(0))
                    for y in seen
                ]
                powers = [(logit - logits[0]).exp() for logit in logits]
                total = sum(powers, arb(0))
                mixed = [
                    sum((p * dot(row, y) for p, y in zip(powers, seen, strict=True)), arb(0))
                    / total
                    for row in head.value
                ]
                change = [dot(row, mixed) for row in head.output]
                added[t] = [a + b for a, b in zip(added[t], change, strict=True)]
        stream = [
            [a + b for a, b in zip(x, y, strict=True)] for x, y in zip(stream, added, strict=True)
        ]
    token = stream[readout.token]
    return [
        dot(row, token) + arb(float(b))
        for row, b in zip(readout.weights, readout.bias, strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_float64_stays_within_the_bound_of_exact_values(name):
    """The evaluator of this package, and sums in random orders, against Fractions and balls."""
    rng = np.random.default_rng(3)
    for construction, transformer, box, bounds in bounded(name):
        points = points_of(box, "float64", rng, 2)
        found = np.stack(
            [evaluate(transformer, points).T, run(transformer, points, Rounded("float64", rng))]
        )
        for i, x in enumerate(points):
            for y, exact, most in zip(
                found[:, :, i].T, exact_values(transformer, x), bounds["float64"], strict=True
            ):
                assert all(distance(float(v), exact) <= most for v in y), construction


def exact_values(transformer, x):
    if transformer.is_hard:
        return reference(transformer, [Fraction(v) for v in x], Fraction)
    old, ctx.prec = ctx.prec, 200
    try:
        return in_balls(transformer, x)
    finally:
        ctx.prec = old


def distance(number, exact):
    """A Fraction, or an upper bound of 200 bits as a Fraction, of |number - exact|."""
    if isinstance(exact, Fraction):
        return abs(Fraction(number) - exact)
    old, ctx.prec = ctx.prec, 200
    try:
        mantissa, exponent = abs(arb(number) - exact).upper().man_exp()
        return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    finally:
        ctx.prec = old


def test_every_sequence_of_every_length_stays_within_the_bound():
    rng = np.random.default_rng(4)
    width, longest = 4, 4
    source = SequenceInput(
        "ab", rng.normal(size=(2, width)), rng.normal(size=(longest + 1, width)), np.ones(width)
    )
    head = Head(
        *rng.normal(size=(2, 2, width)),
        rng.normal(size=(1, width)),
        rng.normal(size=(width, 1)),
        Softmax(2.0),
    )
    for token in (None, -1, 2):
        transformer = Transformer(
            source, [Attention([head])], ReadOut(rng.normal(size=(1, width)), [0.5], token)
        )
        bound = float_bounds(transformer, None, ("float32",))["float32"][0]
        for length in range(1, longest + 1):
            for word in itertools.product("ab", repeat=length):
                if token == 2 and length < 2:
                    continue
                exact = np.ravel(evaluate(transformer, "".join(word)))
                found = sequence_in_float32(transformer, word)
                assert np.abs(found - exact).max() <= bound
        assert bound < 1e-3


def sequence_in_float32(transformer, word):
    """NumPy's own float32, start token first."""
    f = np.float32
    source, readout, head = transformer.input, transformer.readout, transformer.heads[0]
    rows = [source.start, *(source.embedding["ab".index(s)] for s in word)]
    stream = np.array(rows).astype(f) + source.positions[: len(rows)].astype(f)
    query = stream @ (head.query * head.coldness).astype(f).T
    logits = query @ (stream @ head.key.astype(f).T).T
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    mixed = powers / powers.sum(axis=1, keepdims=True) @ (stream @ head.value.astype(f).T)
    stream = stream + mixed @ head.output.astype(f).T
    answer = stream @ readout.weights.astype(f).T + readout.bias.astype(f)
    return answer[1:, 0] if readout.token is None else answer[readout.token]


# --- tightness ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "on"), EXACT)
def test_claims_of_rounding_alone_are_confirmed(text, on):
    construction = hm.compile(text, on=on, error=1e-3, route="feedforward")
    transformer, box = construction.transformer, construction.claim.domain
    assert {share.cause for share in construction.claim.ledger} <= {"rounding", "margin"}
    bound = float_bounds(transformer, box, ("float64",))["float64"]
    assert (bound <= construction.claim.error).all()
    assert (bound <= rounding_bound(transformer, box)).all()


def test_a_sigmoid_is_a_softmax_and_its_claim_is_confirmed():
    construction = hm.compile("sigmoid(x)", on={"x": (-4, 4)}, error=1e-3, route="direct")
    bound = float_bounds(construction.transformer, construction.claim.domain, ("float64",))
    assert bound["float64"][0] <= construction.claim.error


def test_the_exponential_is_charged_and_nearly_attained():
    """Near x = 0 the exponential's 8 units count a quarter; at 0 itself they are exact."""
    construction = hm.compile("sigmoid(x)", on={"x": (-4, 4)}, error=1e-3, route="direct")
    transformer, box = construction.transformer, construction.claim.domain
    bound = float_bounds(transformer, box, ("float32",))["float32"][0]
    reached = at_worst(transformer, np.array([2.0**-10]), "float32")[0]
    assert 0.4 * bound <= reached <= bound
    assert at_worst(transformer, np.zeros(1), "float32")[0] < 0.5 * reached
    assert all(np.exp(np.zeros(9, dtype)).tolist() == [1.0] * 9 for dtype in ("f2", "f4", "f8"))


@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_at_most_those_of_the_compiler(name):
    for construction, transformer, box, bounds in bounded(name):
        assert (bounds["float64"] <= rounding_bound(transformer, box)).all(), construction


LARGE = network_routes(relu_network(64, 256, 256, 10), maxout_network(64, 256, 256, 10))


@pytest.mark.parametrize(("network", "route"), LARGE)
def test_large_networks_on_all_routes(network, route):
    """Hard skeletons and feed-forward layers claim rounding alone, and it is confirmed."""
    box = Box(-np.ones(64), np.ones(64))
    hard = hm.lowering.lower(network, box, route).transformer
    soft = hard.with_weightings([Softmax(100.0)] * len(hard.heads))
    for transformer in (hard, soft) if hard.heads else (hard,):
        bound = float_bounds(transformer, box, ("float64",))["float64"]
        # of soft maxima the compiler knows a little more; no claim there is rounding alone
        room = 1.0 if transformer is hard else 1.1
        assert (bound <= room * rounding_bound(transformer, box)).all()
        assert (bound > 0.0).all()


@pytest.mark.parametrize(("text", "on"), EXACT[:3])
@pytest.mark.parametrize("dtype", NARROW)
def test_the_bound_of_a_maximum_is_attained(text, on, dtype):
    """An adversary at a corner or at a tie reaches it, up to products of two roundings."""
    construction = hm.compile(text, on=on, error=1e-3, route="feedforward")
    transformer, box = construction.transformer, construction.claim.domain
    bound = float_bounds(transformer, box, (dtype,))[dtype][0]
    corners = np.array(list(itertools.product(*zip(box.low, box.high, strict=True))))
    reached = max(at_worst(transformer, x, dtype)[0] for x in corners)
    assert bound * (1 - 8 * UNIT[dtype]) <= reached <= bound


def readout_of(weights, bias=0.0):
    """A Transformer that is its read-out: weights . x + bias."""
    width = len(weights)
    source = VectorInput(np.eye(width)[None], np.zeros((1, width)))
    return Transformer(source, [], ReadOut([weights], [bias]))


@pytest.mark.parametrize("dtype", UNIT)
def test_one_product_rounds_by_half_a_unit_in_the_last_place(dtype):
    """3/2 times 1 + 3u is 3/2 + 9u/2, which lies between multiples of 2u: the worst rounding."""
    unit = UNIT[dtype]
    bound = float_bounds(readout_of([1.5]), Box([0.0], [1.0]), (dtype,))[dtype][0]
    assert 1.5 * unit <= bound <= 1.5 * unit * (1 + 2.0**-20) + 2.0**-23
    x = Fraction(2, 3) * (1 + Fraction(unit))
    exact = Fraction(3, 2) * Fraction(float(cast(float(x), dtype)))
    assert abs(Fraction(float(cast(float(exact), dtype))) - exact) <= Fraction(bound)


@pytest.mark.parametrize("dtype", NARROW)
def test_a_unit_that_hardly_fires_counts_for_what_it_does(dtype):
    """relu(3x/2) on [-1, 15/64]: the local error is that at -1; on [-1, 0] there is none."""
    source = VectorInput([[[1.0], [0.0]]], [[0.0, 0.0]])
    unit = FeedForward([[1.5, 0.0]], [0.0], [[0.0], [1.0]], np.zeros(2))
    transformer = Transformer(source, [unit], ReadOut([[0.0, 1.0]], [0.0]))
    bound = float_bounds(transformer, Box([-1.0], [15 / 64]), (dtype,))[dtype][0]
    reached = at_worst(transformer, np.array([15 / 64]), dtype)[0]
    assert 15 / 64 * bound * 0.99 <= reached <= bound
    dead = float_bounds(transformer, Box([-1.0], [0.0]), (dtype,))[dtype][0]
    assert dead == 0.0


@pytest.mark.parametrize("dtype", UNIT)
def test_what_is_exact_costs_nothing(dtype):
    """Copies, powers of two, sign changes; but halving may underflow."""
    box = Box([-3.0], [5.0])
    for weight in (1.0, -1.0, 4.0, 2.0**20 if dtype != "float16" else 8.0):
        assert float_bounds(readout_of([weight]), box, (dtype,))[dtype][0] == 0.0
    halved = float_bounds(readout_of([0.5]), box, (dtype,))[dtype][0]
    smallest = FORMATS[dtype].smallest
    assert smallest / 2 <= halved <= 4 * smallest + 32 * 2.0**-1074  # with what float64 may lose


@pytest.mark.parametrize("dtype", NARROW)
def test_weights_that_the_format_does_not_hold_are_rounded(dtype):
    """0.1 x at x = 1: the stored weight itself is off."""
    off = abs(float(cast(0.1, dtype)) - 0.1)
    bound = float_bounds(readout_of([0.1]), Box([0.0], [1.0]), (dtype,))[dtype][0]
    assert off + 0.1 * UNIT[dtype] <= bound <= 1.01 * (off + 0.1 * UNIT[dtype]) + 2.0**-23


def test_the_worst_tree_of_a_sum_is_nearly_attained():
    """k equal positive terms added one by one: partial sums 2, 3, ..., k against k (k - 1)."""
    k, unit = 6, UNIT["float32"]
    bound = float_bounds(readout_of([1.0] * k), Box([0.0] * k, [1.0] * k), ("float32",))["float32"]
    assert bound[0] == pytest.approx(unit * k * (k - 1), rel=1e-5)
    bound = float_bounds(readout_of([1.0, 1.0]), Box([0.0] * 2, [1.0] * 2), ("float32",))["float32"]
    assert bound[0] == pytest.approx(2 * unit, rel=1e-6)  # one addition: attained at 1 + 1 - tiny


def ties(tokens, *, hard=True, spoil=0.0):
    """Every token holds a value of its own, and all score the same: the mean of the values."""
    width = 3
    offsets = np.zeros((tokens, width))
    offsets[:, 1] = 1.0
    offsets[0, 1] += spoil
    maps = np.zeros((tokens, width, tokens))
    maps[np.arange(tokens), 0, np.arange(tokens)] = 1.0
    head = Head(
        np.eye(3)[[1]],
        np.eye(3)[[1]],
        np.eye(3)[[0]],
        np.eye(3)[:, [2]],
        hm.Hardmax() if hard else Softmax(1.0),
    )
    readout = ReadOut(np.eye(3)[[2]], [0.0], -1)
    return Transformer(VectorInput(maps, offsets), [Attention([head])], readout)


def test_exact_ties_are_kept_and_broken_ties_are_not():
    """Two equal tokens share equally, which costs one rounding; if rounding breaks the tie, all."""
    box, unit = Box([0.0] * 2, [1.0] * 2), UNIT["float16"]
    kept = float_bounds(ties(2), box, ("float16",))["float16"][0]
    assert unit <= kept <= 1.01 * unit + 4 * 2.0**-24
    # 1 + 2^-12 is stored as 1: a winner becomes a tie, and the mean is half the spread away.
    broken = ties(2, spoil=2.0**-12)
    bound = float_bounds(broken, box, ("float16",))["float16"][0]
    points = np.array([[1.0, 0.0]])
    reached = np.abs(
        run(broken, points, Rounded("float16", np.random.default_rng(0)))
        - true_values(broken, points)
    )
    assert 0.5 <= reached.max() <= bound


def test_a_soft_mean_of_equal_tokens_is_nearly_attained():
    """n weights 1/n of values near 3/2: the adversary gets more than half of what is charged."""
    transformer, box = ties(5, hard=False), Box([1.25] * 5, [1.5] * 5)
    bound = float_bounds(transformer, box, ("float32",))["float32"][0]
    reached = at_worst(transformer, np.full(5, 1.5), "float32")[0]
    assert 0.5 * bound <= reached <= bound


def test_a_query_that_cancels_is_rounded_as_it_was_computed():
    """The query is 0 over the reals but not in floats, and logits lose the bias beside it."""
    weights = np.array([[100.3, 0.6, -100.9, 0.0, 0.0, 0.0]])
    offsets = np.array([[1.0, 1.0, 1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]])
    key, value, output = 2.0**30 * np.eye(6)[[3]], np.eye(6)[[4]], np.eye(6)[:, [5]]
    bias = np.array([[0.0, 6e-5], [0.0, 6e-5]])
    head = Head(weights, key, value, output, Softmax(1.0), position_bias=bias)
    source = VectorInput(np.zeros((2, 6, 1)), offsets)
    transformer = Transformer(source, [Attention([head])], ReadOut(np.eye(6)[[5]], [0.0], 0))
    bound = float_bounds(transformer, Box([0.0], [1.0]), ("float32",))["float32"]
    points, rng = np.zeros((1, 1)), np.random.default_rng(0)
    true = true_values(transformer, points)
    found = [run(transformer, points, Rounded("float32", rng)) for _ in range(20)]
    reached = np.abs(np.array(found) - true).max()
    assert 1e-5 <= reached <= bound


# --- nothing known --------------------------------------------------------------------------------


def test_the_bound_is_infinite_where_the_format_overflows():
    network = hm.ReluNetwork([[[1e25]], [[1e20]], [[1e-35]]], [[0.0], [0.0], [0.0]])
    for route in ("feedforward", "attention", "attention-only"):
        transformer = hm.lowering.lower(network, Box([-1.0], [1.0]), route).transformer
        bounds = float_bounds(transformer, Box([-1.0], [1.0]))
        assert bounds["float64"][0] < 1e-4
        assert bounds["float32"][0] == bounds["float16"][0] == bounds["bfloat16"][0] == math.inf


def test_a_coldness_may_overflow_in_the_query_weights():
    transformer = ties(2, hard=False).with_weightings([Softmax(1e5)])
    bounds = float_bounds(transformer, Box([0.0] * 2, [1.0] * 2))
    assert bounds["float32"][0] < 1e-6
    assert bounds["float16"][0] == math.inf


def test_what_nobody_reads_must_not_overflow_either():
    """0 times infinity is no number: a dense product reads every coordinate."""
    source = VectorInput([[[1.0], [1.0]]], [[0.0, 0.0]])
    huge = FeedForward([[0.0, 1e4]], [0.0], [[0.0], [1e4]], np.zeros(2))
    transformer = Transformer(source, [huge], ReadOut([[1.0, 0.0]], [0.0]))
    bounds = float_bounds(transformer, Box([0.0], [1.0]))
    assert bounds["float32"][0] == 0.0
    assert bounds["float16"][0] == math.inf


def test_a_head_that_writes_nothing_must_not_overflow_either():
    """Its logits are infinite in float16, so their differences, and 0 times these, are nan."""
    query, value = np.array([[300.0, 0.0]]), np.array([[1.0, 0.0]])
    source = VectorInput([[[1.0], [0.0]], [[0.0], [0.0]]], [[0.0, 0.0], [1.0, 0.0]])
    head = Head(query, query, value, np.zeros((2, 1)), Softmax(1.0))
    transformer = Transformer(source, [Attention([head])], ReadOut([[1.0, 0.0]], [0.0], 0))
    with np.errstate(over="ignore", invalid="ignore"):
        ones, ar = np.ones((1, 1)), Rounded("float16", np.random.default_rng(0))
        logits = [ar.mul(cast(300.0, "float16"), ar.mul(300.0, x)) for x in ones]
        assert np.isnan(ar.add([*logits, -logits[0]])).all()
    bounds = float_bounds(transformer, Box([0.0], [1.0]))
    assert bounds["float32"][0] == 0.0
    assert bounds["float16"][0] == math.inf


@pytest.mark.parametrize("read", [1.0, 0.0])
def test_a_mean_may_overflow_where_the_values_do_not(read):
    """1/19 is rounded up, and 19 times that of almost the largest number is more than it."""
    empty, value = np.zeros((0, 2)), np.array([[8.0, 0.0]])
    head = Head(empty, empty, value, [[0.0], [2.0**-12]])
    source = VectorInput(np.zeros((19, 2, 1)), np.tile([8180.0, 0.0], (19, 1)))
    transformer = Transformer(source, [Attention([head])], ReadOut([[1.0 - read, read]], [0.0], 0))
    with np.errstate(over="ignore"):
        terms = np.full(19, np.float16(1.0) / np.float16(19.0) * np.float16(65440.0))
        assert np.isinf(np.add.accumulate(terms)[-1])
    assert float_bounds(transformer, Box([0.0], [1.0]), ("float16",))["float16"][0] == math.inf


def test_numbers_beyond_float64_leave_nothing_known():
    """A hard head that may jump by more than any float, read beside something finite."""
    source = VectorInput(
        [[[1.0], [0.0], [0.0], [0.0]], [[0.0]] * 4],
        [[0.0, 1.6e308, 0.0, 1.0], [0.0, -1.6e308, 0.0, 1.0]],
    )
    rows = np.eye(4)
    head = Head(rows[[3]], 0.1 * rows[[0]], rows[[1]], rows[:, [2]])
    layer = FeedForward(
        [2.0**-1000 * rows[2], rows[0]], np.zeros(2), np.outer(rows[3], [1, 0]), np.zeros(4)
    )
    transformer = Transformer(source, [Attention([head]), layer], ReadOut(rows[[3]], [0.0], 0))
    assert float_bounds(transformer, Box([-1.0], [1.0]), ("float64",))["float64"][0] == math.inf


def test_what_is_no_number_counts_as_infinite():
    nothing, some = np.array([[np.nan, 0.0]]), np.array([[1.0], [np.inf]])
    assert matmul_up(np.array([[1.0, 0.0]]), some)[0, 0] == math.inf
    assert (inflate(nothing) == [[math.inf, 0.0]]).all()
    assert (product_up(nothing, np.array([[1.0, np.nan]])) == [[math.inf, 0.0]]).all()
    total = Interval([-np.inf, np.inf, 0.0], [np.inf, np.inf, 0.0]).sum(0)
    assert (total.lo, total.hi) == (-math.inf, math.inf)


def test_long_sums_of_sizes_are_rounded_up():
    """1 and many numbers that are lost beside it, in the order in which an outer axis is summed."""
    sizes = np.full((5000, 2), 2.0**-53)
    sizes[0] = 1.0
    assert sizes.sum(axis=0)[0] == 1.0
    assert (sum_up(sizes, 0) >= 1.0 + 4999 * 2.0**-53).all()


def test_sums_may_have_too_many_terms_for_a_format():
    k = 300  # times 2^-8 is more than 1
    bounds = float_bounds(readout_of([1.0] * k), Box([0.0] * k, [1.0] * k))
    assert bounds["bfloat16"][0] == math.inf
    assert bounds["float16"][0] < 100.0


def test_a_domain_of_another_dimension_is_refused():
    with pytest.raises(hm.DomainError, match="dimension 2"):
        float_bounds(readout_of([1.0, 1.0]), Box([0.0], [1.0]))
    with pytest.raises(hm.DomainError, match="dimension 2"):
        float_bounds(readout_of([1.0, 1.0]), None)


# --- long prompts ---------------------------------------------------------------------------------


def test_long_prompts_are_followed_where_it_matters():
    """103 anchors: near every input few of them count, and the bound knows it."""
    construction = hm.compile("sin(x)", on={"x": (-1, 1)}, error=1e-2, route="universal")
    transformer, box = construction.transformer, construction.claim.domain
    bounds = float_bounds(transformer, box, ("float64", "float32"))
    assert bounds["float64"][0] <= 0.01 * rounding_bound(transformer, box)[0]
    assert bounds["float32"][0] <= construction.claim.margin
    points = points_of(box, "float32", np.random.default_rng(5), 100)
    rounded = run_chooser(transformer, points)
    assert np.abs(rounded - evaluate(transformer, points)[:, 0]).max() <= bounds["float32"][0]


def run_chooser(transformer, points):
    """One head over a prompt of constants, in NumPy's float32."""
    f, (head,), source = np.float32, transformer.heads, transformer.input
    data = transformer.readout.token
    x = points.astype(f) @ source.maps[data].astype(f).T + source.offsets[data].astype(f)
    tokens = source.offsets.astype(f)
    logits = (x @ (head.query * head.coldness).astype(f).T) @ (tokens @ head.key.astype(f).T).T
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    mixed = powers / powers.sum(axis=1, keepdims=True) @ (tokens @ head.value.astype(f).T)
    return (x + mixed @ head.output.astype(f).T) @ transformer.readout.weights.astype(f)[0]


# --- lemmas ---------------------------------------------------------------------------------------


def sigmoid(y):
    return 1 / (1 + (-arb(y)).exp())


def test_the_constants_are_rounded_up_and_sharp():
    for constant, y, function in (
        (PULL, 1.5434046384182083, lambda y, p: y * p * (1 - p)),
        (BEND, 2.3993572805154676, lambda y, p: y * y * p * (1 - p)),
        (STEEPEST, 2.3993572805154676, lambda y, p: p + y * p * (1 - p)),
    ):
        largest = function(arb(y), sigmoid(y))
        assert largest <= constant
        assert largest >= constant * (1 - 1e-6)
        for near in (0.9 * y, 1.1 * y):
            assert function(arb(near), sigmoid(near)) < largest


def test_steepness_encloses_the_slope_and_knows_where_it_turns():
    rng = np.random.default_rng(6)
    ends = np.sort(
        rng.normal(size=(2, 300)) * rng.choice([0.1, 1.0, 10.0, 900.0], size=300), axis=0
    )
    found = steepness(Interval(*ends))
    for share in (0.0, 0.3, 0.5, 0.8, 1.0):
        y = ends[0] * (1 - share) + ends[1] * share
        slope = [float((sigmoid(v) + arb(v) * sigmoid(v) * (1 - sigmoid(v))).mid()) for v in y]
        assert found.contains(np.array(slope)).all()
    assert steepness(Interval(np.array([-50.0]), np.array([50.0]))).hi[0] == STEEPEST
    assert steepness(Interval(np.array([0.0]), np.array([0.0]))).hi[0] == pytest.approx(0.5)


def test_weights_are_enclosed_and_their_ends_are_attained():
    rng = np.random.default_rng(7)
    for n in (2, 3, 7):
        lead = np.sort(
            rng.normal(size=(2, 50, n)) * rng.choice([0.1, 3.0, 300.0], size=(50, 1)), axis=0
        )
        found = weight_ranges(Interval(*lead))
        for j in range(n):
            for own, others, end in ((1, 0, found.hi), (0, 1, found.lo)):
                logits = lead[others].copy()
                logits[:, j] = lead[own][:, j]
                weights = np.exp(logits - logits.max(axis=1, keepdims=True))
                weight = weights[:, j] / weights.sum(axis=1)
                assert end[:, j] == pytest.approx(weight, rel=1e-11, abs=1e-200)
                assert (
                    (end[:, j] >= weight * (1 - 1e-12))
                    if own
                    else (end[:, j] <= weight * (1 + 1e-12))
                ).all()


def test_a_soft_maximum_is_as_restless_as_its_constants_say():
    """slope E|V - m| over random values never exceeds the bound, and comes within half of it."""
    rng = np.random.default_rng(8)
    for n in (2, 3, 5):
        slope = np.full(4000, 7.0)
        values = rng.normal(size=(4000, n)) / rng.choice([1.0, 3.0, 10.0], size=(4000, 1))
        handicap = rng.uniform(-0.2, 0.2, size=(4000, n))
        logits = slope[:, None] * values + handicap
        powers = np.exp(logits - logits.max(axis=1, keepdims=True))
        weights = powers / powers.sum(axis=1, keepdims=True)
        mean = (weights * values).sum(axis=1, keepdims=True)
        distance = slope * (weights * np.abs(values - mean)).sum(axis=1)
        maximum = MaximumHeads(np.ones(4000, dtype=bool), slope, Interval.point(handicap))
        everything = Interval(np.zeros_like(weights), np.ones_like(weights))
        rest = near_maximum(maximum, everything, np.ptp(values, axis=1), np.zeros(4000, dtype=bool))
        assert (distance <= rest.distance).all()
        assert (distance / rest.distance).max() > 1 / 2
        short = values.max(axis=1) - mean[:, 0]
        assert (short <= rest.shortfall).all()


def test_a_kink_is_enclosed_and_tight_where_it_depends_on_one_number():
    """x + w relu(a x + b) on an interval: exactly the extremes at the ends and at the kink."""
    rng = np.random.default_rng(9)
    for _ in range(200):
        low, high = np.sort(rng.normal(size=2))
        w, a, b = rng.normal(size=3) * rng.choice([1.0, 4.0], size=3)
        box = Interval(np.array([low]), np.array([high]))
        found = kinked(box, np.array([0]), np.array([w]), np.array([[a]]), Interval.point([b]))
        x = np.array([low, high, np.clip(-b / a, low, high)])
        values = x + w * np.maximum(a * x + b, 0.0)
        rounded = 16 * UNIT["float64"] * (np.abs(x).max() + abs(w) * (abs(a) + abs(b)) * 3)
        assert values.min() - rounded <= found.lo[0] <= values.min() + rounded
        assert values.max() - rounded <= found.hi[0] <= values.max() + rounded


def test_stored_weights_are_those_of_the_format():
    rng = np.random.default_rng(10)
    numbers = rng.normal(size=2000) * 2.0 ** rng.integers(-30, 12, size=2000)
    for dtype in UNIT:
        format = FORMATS[dtype]
        assert np.array_equal(format.stored(numbers), cast(numbers, dtype))
        assert (np.abs(cast(numbers, dtype) - numbers) <= moved(numbers, format)).all()
    with pytest.raises(NothingKnown):
        moved(np.array([65520.0]), FORMATS["float16"])


def test_products_of_sizes_never_vanish():
    tiny = np.array([[5e-324]])
    assert product_up(tiny, tiny)[0, 0] > 0.0
    assert matmul_up(tiny, tiny)[0, 0] > 0.0
    assert matmul_up(tiny, np.zeros((1, 1)))[0, 0] == 0.0


def test_a_coldness_is_rounded_unless_it_is_a_power_of_two():
    matrix = np.array([[1.0, 0.1]])
    assert (Stored.scaled(matrix, np.array([4.0]), FORMATS["float64"]).moved == 0.0).all()
    off = Stored.scaled(matrix, np.array([3.7]), FORMATS["float64"]).moved
    assert off == pytest.approx(np.array([[3.7, 0.37]]) * UNIT["float64"], rel=1e-5)


def test_query_weights_may_be_rounded_before_the_coldness_meets_them():
    rng = np.random.default_rng(3)
    query, cold = rng.uniform(0.5, 2.0, size=(2000, 1)), rng.uniform(0.5, 2.0, size=2000)
    for dtype in NARROW:
        off = Stored.scaled(query, cold, FORMATS[dtype]).moved[:, 0]
        for first in (query[:, 0], cast(query[:, 0], dtype)):
            assert (np.abs(cast(first * cold, dtype) - query[:, 0] * cold) <= off).all()


def test_the_analysis_is_the_checkers_own():
    """Nothing of the compiler's own flow is imported or called."""
    for path in Path(_bounds.__file__).parent.glob("*.py"):
        text = path.read_text()
        assert "rounding_bound" not in text
        assert "_flow_" not in text
        assert "core import follow" not in text
