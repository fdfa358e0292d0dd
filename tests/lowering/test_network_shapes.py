"""Networks that are no plain chains, on every route: residual, convolutional, pooling and others.

Sources are bare steps (`StepsTarget`): the routes know nothing else of a network.
"""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.core import Affine, Maximum, Product, Steps, Univariate, fingerprint, trace
from hardmax.lowering import lower, routes_for
from hardmax.testing import StepsTarget, boxes, dyadics, networks, rational_points

ROUTES = routes_for(StepsTarget(Steps(1, [Univariate((0,), "relu", 1)])))
Shape = tuple[int, int, int]  # channels, height, width


class Sketch:
    """A network written down layer by layer; every method gives the number of a value."""

    def __init__(self, inputs: int, seed: int) -> None:
        self.inputs, self.steps = inputs, []
        self.rng = np.random.default_rng(seed)

    def size(self, value: int) -> int:
        return Steps(self.inputs, self.steps).size(value)

    def add(self, step) -> int:
        self.steps.append(step)
        return len(self.steps)

    def linear(self, value: int, outputs: int) -> int:
        into = self.size(value)
        weights = self.rng.normal(0, np.sqrt(2 / into), (outputs, into))
        return self.add(Affine((value,), weights, 0.1 * self.rng.normal(size=outputs)))

    def relu(self, value: int) -> int:
        return self.add(Univariate((value,), "relu", self.size(value)))

    def absolute(self, value: int) -> int:
        return self.add(Univariate((value,), "abs", self.size(value)))

    def plus(self, first: int, second: int) -> int:
        ones = np.eye(self.size(first))
        return self.add(Affine((first, second), np.hstack([ones, ones]), np.zeros(len(ones))))

    def pairwise(self, first: int, second: int) -> int:
        """The larger of two values, component by component."""
        count = self.size(first)
        groups = np.stack([np.arange(count), count + np.arange(count)], axis=1)
        return self.add(Maximum((first, second), groups))

    def scaled(self, value: int, factor: float) -> int:
        ones = np.eye(self.size(value))
        return self.add(Affine((value,), factor * ones, np.zeros(len(ones))))

    def constant(self, value: int, number: float) -> int:
        count = self.size(value)
        return self.add(Affine((value,), np.zeros((count, count)), np.full(count, number)))

    def leaky(self, value: int, slope: float) -> int:
        return self.pairwise(value, self.scaled(value, slope))

    def hard_tanh(self, value: int) -> int:
        """max(-1, x), and then the same upside down."""
        once = self.scaled(self.pairwise(value, self.constant(value, -1.0)), -1.0)
        return self.scaled(self.pairwise(once, self.constant(once, -1.0)), -1.0)

    def convolution(
        self,
        value: int,
        shape: Shape,
        channels: int,
        kernel: int,
        *,
        stride=1,
        padding=0,
        norm=False,
    ) -> tuple[int, Shape]:
        """Flattened into one affine step; with `norm` a batch norm is folded into its weights."""
        into, high, wide = shape
        rows, columns = ((n + 2 * padding - kernel) // stride + 1 for n in (high, wide))
        taps = self.rng.normal(0, np.sqrt(2 / (into * kernel**2)), (channels, into, kernel, kernel))
        bias = 0.1 * self.rng.normal(size=channels)
        if norm:
            scale = self.rng.uniform(0.5, 2.0, channels) / np.sqrt(
                self.rng.uniform(0.5, 2.0, channels)
            )
            taps, bias = (
                taps * scale[:, None, None, None],
                bias * scale + self.rng.normal(size=channels),
            )
        weights = np.zeros((channels, rows, columns, *shape))
        for r, c, i, j in itertools.product(range(rows), range(columns), *[range(kernel)] * 2):
            y, x = r * stride + i - padding, c * stride + j - padding
            if 0 <= y < high and 0 <= x < wide:
                weights[:, r, c, :, y, x] = taps[:, :, i, j]
        flat = weights.reshape(channels * rows * columns, -1)
        step = Affine((value,), flat, np.repeat(bias, rows * columns))
        return self.add(step), (channels, rows, columns)

    def windows(self, shape: Shape, stride: int) -> tuple[np.ndarray, Shape]:
        """The components of every 2x2 window."""
        channels, high, wide = shape
        table = np.arange(channels * high * wide).reshape(shape)
        starts = itertools.product(
            range(channels), range(0, high - 1, stride), range(0, wide - 1, stride)
        )
        groups = np.array([table[c, y : y + 2, x : x + 2].ravel() for c, y, x in starts])
        return groups, (channels, (high - 2) // stride + 1, (wide - 2) // stride + 1)

    def max_pool(self, value: int, shape: Shape, stride: int = 2) -> tuple[int, Shape]:
        groups, pooled = self.windows(shape, stride)
        return self.add(Maximum((value,), groups)), pooled

    def average_pool(self, value: int, shape: Shape) -> tuple[int, Shape]:
        groups, pooled = self.windows(shape, 2)
        weights = np.zeros((len(groups), self.size(value)))
        np.put_along_axis(weights, groups, 0.25, axis=1)
        return self.add(Affine((value,), weights, np.zeros(len(groups)))), pooled

    def target(self) -> StepsTarget:
        return StepsTarget(Steps(self.inputs, self.steps))


def skip_over_one():
    net = Sketch(3, 0)
    hidden = net.relu(net.linear(0, 4))
    net.linear(net.relu(net.plus(net.linear(hidden, 4), hidden)), 2)
    return net.target()


def skip_over_two():
    net = Sketch(3, 1)
    hidden = net.relu(net.linear(0, 4))
    inner = net.linear(net.relu(net.linear(hidden, 4)), 4)
    net.linear(net.relu(net.plus(inner, hidden)), 1)
    return net.target()


def projection_skip():
    net = Sketch(3, 2)
    hidden = net.relu(net.linear(0, 4))
    inner = net.linear(net.relu(net.linear(hidden, 4)), 3)
    net.linear(net.relu(net.plus(net.linear(hidden, 3), inner)), 1)
    return net.target()


def skips_of_what_may_be_negative():
    net = Sketch(3, 3)
    first = net.linear(0, 4)
    second = net.plus(first, net.linear(net.relu(first), 4))
    third = net.plus(second, net.linear(net.relu(net.linear(second, 4)), 4))
    net.linear(third, 2)
    return net.target()


def convolution():
    net = Sketch(9, 4)
    value, _ = net.convolution(0, (1, 3, 3), 2, 2)
    net.linear(net.relu(value), 2)
    return net.target()


def convolutions_with_stride_and_padding():
    net = Sketch(16, 5)
    value, shape = net.convolution(0, (1, 4, 4), 2, 3, stride=2, padding=1)
    value, _ = net.convolution(net.relu(value), shape, 2, 2, padding=1)
    net.linear(net.relu(value), 2)
    return net.target()


def convolution_of_two_channels_with_batch_norm():
    net = Sketch(18, 6)
    value, _ = net.convolution(0, (2, 3, 3), 2, 2, norm=True)
    net.linear(net.relu(value), 1)
    return net.target()


def max_pooling_after_relu():
    net = Sketch(16, 7)
    value, shape = net.convolution(0, (1, 4, 4), 1, 3, padding=1)
    value, _ = net.max_pool(net.relu(value), shape)
    net.linear(value, 2)
    return net.target()


def max_pooling_before_relu():
    net = Sketch(16, 8)
    value, shape = net.convolution(0, (1, 4, 4), 2, 3, padding=1)
    value, _ = net.max_pool(value, shape)
    net.linear(net.relu(value), 2)
    return net.target()


def overlapping_max_pooling():
    net = Sketch(9, 9)
    value, shape = net.convolution(0, (1, 3, 3), 1, 1)
    value, _ = net.max_pool(net.relu(value), shape, stride=1)
    net.linear(net.relu(net.linear(value, 3)), 1)
    return net.target()


def average_pooling():
    net = Sketch(16, 10)
    value, shape = net.convolution(0, (1, 4, 4), 2, 3, padding=1)
    value, _ = net.average_pool(net.relu(value), shape)
    net.linear(net.relu(net.linear(value, 3)), 1)
    return net.target()


def leaky_relu():
    net = Sketch(3, 11)
    hidden = net.leaky(net.linear(0, 4), 0.01)
    net.linear(net.leaky(net.linear(hidden, 4), 0.2), 1)
    return net.target()


def hard_tanh():
    net = Sketch(3, 12)
    net.linear(net.hard_tanh(net.linear(net.hard_tanh(net.linear(0, 4)), 3)), 1)
    return net.target()


def absolute_values():
    net = Sketch(3, 13)
    net.linear(net.absolute(net.linear(net.absolute(net.linear(0, 4)), 3)), 2)
    return net.target()


def residual_convolutions_with_pooling():
    net = Sketch(16, 15)
    value, shape = net.convolution(0, (1, 4, 4), 2, 3, padding=1)
    first = net.relu(value)
    value, shape = net.convolution(first, shape, 2, 3, padding=1)
    value, _ = net.max_pool(net.relu(net.plus(value, first)), shape)
    net.linear(value, 2)
    return net.target()


SHAPES = [
    skip_over_one,
    skip_over_two,
    projection_skip,
    skips_of_what_may_be_negative,
    convolution,
    convolutions_with_stride_and_padding,
    convolution_of_two_channels_with_batch_norm,
    max_pooling_after_relu,
    max_pooling_before_relu,
    overlapping_max_pooling,
    average_pooling,
    leaky_relu,
    hard_tanh,
    absolute_values,
    residual_convolutions_with_pooling,
]
EVERY = [
    pytest.param(shape, route, id=f"{shape.__name__}-{route}")
    for shape in SHAPES
    for route in ROUTES
]


def unit_box(target):
    return hm.Box(-np.ones(target.inputs), np.ones(target.inputs))


def assert_exact(construction, target, x):
    """The answer and every line of the witness, in rationals."""
    values = target.steps().values(x)
    assert list(construction(x)) == list(values[-1])
    streams = trace(construction.transformer, x, Fraction).streams
    for holding in construction.witness.holdings:
        held = streams[holding.sublayer + 1][holding.token]
        for coordinate, components in zip(holding.coordinates, holding.components, strict=True):
            assert held[coordinate] == max(values[holding.value][c] for c in components if c >= 0)


@pytest.mark.parametrize(("shape", "route"), EVERY)
def test_the_hard_skeleton_is_exact(shape, route):
    target, rng = shape(), np.random.default_rng(0)
    construction = lower(target, unit_box(target), route)
    for _ in range(4):
        x = [Fraction(int(k), 997) for k in rng.integers(-997, 998, target.inputs)]
        assert_exact(construction, target, np.array(x, dtype=object))


@pytest.mark.parametrize(("shape", "route"), EVERY)
def test_measured_certified_claimed(shape, route):
    target = shape()
    model = hm.compile(target, on=unit_box(target), error=1e-2, route=route)
    certificate = hm.certify(model, budget="1e7 work")
    assert certificate.verdict.name == "PROVED", certificate
    assert hm.measure(model, 4096).error <= certificate.certified <= model.claim.error <= 1e-2
    assert route == "feedforward" or model.claim.error > 1e-3  # as warm as the error allows


def test_a_finer_error_is_proved_too():
    target = residual_convolutions_with_pooling()
    model = hm.compile(target, on=unit_box(target), error=1e-3, route="attention-only")
    assert hm.certify(model, budget="1e7 work").verdict.name == "PROVED"


# ---- any steps ---------------------------------------------------------------------------------


@st.composite
def programs(draw):
    """Piecewise linear steps as awkward as they come: sources and pieces repeat at will."""
    sizes, steps = [draw(st.integers(1, 3))], []
    for number in range(draw(st.integers(1, 7))):
        recent = st.integers(max(0, number - 3), number)
        sources = tuple(draw(st.lists(recent, min_size=1, max_size=3)))
        there, size = sum(sizes[s] for s in sources), draw(st.integers(1, 3))
        match draw(st.sampled_from(["affine", "copy", "relu", "abs", "maximum"])):
            case "affine":
                rows = st.lists(dyadics(), min_size=there + 1, max_size=there + 1)
                table = np.array(draw(st.lists(rows, min_size=size, max_size=size)))
                steps.append(Affine(sources, table[:, :-1], table[:, -1]))
            case "copy":
                chosen = draw(st.lists(st.integers(0, there - 1), min_size=size, max_size=size))
                sign = draw(st.sampled_from([1.0, -1.0]))
                steps.append(Affine(sources, sign * np.eye(there)[chosen], np.zeros(size)))
            case "maximum":
                piece = st.integers(0, there - 1)
                first = st.tuples(piece, piece, piece | st.just(-1), piece | st.just(-1))
                groups = draw(st.lists(first, min_size=size, max_size=size))
                steps.append(Maximum(sources, np.array(groups)))
            case name:
                steps.append(Univariate(sources, name, there))
        sizes.append(steps[-1].size)
    return StepsTarget(Steps(sizes[0], steps))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_any_piecewise_linear_steps_are_exact_on_every_route(data):
    target = data.draw(programs())
    box = data.draw(boxes(target.inputs))
    x = data.draw(rational_points(box))
    for route in routes_for(target):
        assert_exact(lower(target, box, route), target, x)


@settings(max_examples=60, deadline=None)
@given(networks())
def test_equal_steps_give_equal_transformers(network):
    """Whichever class says them."""
    box, bare = unit_box(network), StepsTarget(network.steps())
    assert routes_for(network) == routes_for(bare)
    for route in routes_for(network):
        ours, theirs = (lower(source, box, route).transformer for source in (network, bare))
        assert fingerprint(ours) == fingerprint(theirs)


# ---- what it costs -----------------------------------------------------------------------------


def kinds_of_heads(construction):
    return Counter(head.key_width for head in construction.transformer.heads)


def test_a_skip_connection_costs_neither_layer_nor_head():
    """x -> relu -> linear -> (+ skip) -> relu -> linear, against the same without the skip."""
    net, plain = Sketch(2, 0), Sketch(2, 0)
    hidden = net.relu(net.linear(0, 3))
    both = np.hstack([np.array([[1.0, 2.0, 3.0], [0.5, 1.0, -1.0]]), np.eye(2)])
    net.linear(net.relu(net.add(Affine((hidden, 0), both, np.zeros(2)))), 1)
    hidden = plain.relu(plain.linear(0, 3))
    plain.linear(plain.relu(plain.add(Affine((hidden,), both[:, :3], np.zeros(2)))), 1)
    box = hm.Box([-1, -1], [1, 1])
    for route in ROUTES:
        ours, theirs = (lower(source.target(), box, route).bill for source in (net, plain))
        assert (ours.layers, ours.heads, ours.width) == (theirs.layers, theirs.heads, theirs.width)


def test_a_maximum_takes_the_place_of_its_first_piece():
    """Four pieces in four slots, three heads, two layers; nothing is copied."""
    net = Sketch(2, 3)
    net.linear(net.relu(net.max_pool(net.linear(0, 4), (1, 2, 2))[0]), 1)
    construction = lower(net.target(), hm.Box([-9, -9], [9, 9]), "attention-only")
    assert construction.bill.width == 4 + 1 + 1  # the output and the flag
    assert (construction.bill.layers, kinds_of_heads(construction)) == (3, {1: 4})


def test_scaling_and_constants_wait_for_no_layer():
    """max(x, a x) is one layer, though a x is a step of its own; hard tanh is two, not five."""
    box = hm.Box([-9, -9], [9, 9])
    for bend, layers in ((lambda net, z: net.leaky(z, 0.1), 1), (Sketch.hard_tanh, 2)):
        net = Sketch(2, 0)
        net.linear(bend(net, net.linear(0, 3)), 1)
        for route in ROUTES:
            assert lower(net.target(), box, route).bill.layers == layers


def test_what_is_still_read_is_not_overwritten():
    """max(a, b) and a are both wanted later: a is copied, and stays."""
    pieces = Affine((0,), np.array([[1.0], [-1.0]]), np.zeros(2))
    larger = Maximum((1,), np.array([[0, 1]]))
    target = StepsTarget(Steps(1, [pieces, larger, Affine((1, 2), np.eye(3), np.zeros(3))]))
    for route in ROUTES:
        construction = lower(target, hm.Box([-1], [1]), route)
        for x in (-1, 0, Fraction(1, 3)):
            assert list(construction([Fraction(x)])) == [x, -x, abs(x)]


def affine(*sources, weights, bias=None):
    table = np.array(weights, dtype=float)
    return Affine(sources, table, np.zeros(len(table)) if bias is None else np.array(bias))


def relu(source, size):
    return Univariate((source,), "relu", size)


DIFFERENT = affine(0, weights=[[1, 0.5], [-1, 0.25]])  # two values of either sign
CLASHES = {
    "relu(z) in place, but z meets a later value": [
        DIFFERENT,
        relu(1, 2),
        affine(2, weights=[[1, -1], [-0.5, 1]]),
        Maximum((1, 3), np.array([[0, 2], [1, 3]])),
        relu(3, 2),
        affine(4, 5, weights=[[1, 2, 3, 4]]),
    ],
    "relu(z) in place, but z is an output": [
        DIFFERENT,
        relu(1, 2),
        affine(2, weights=[[1, -1]]),
        relu(3, 1),
        Maximum((1, 4), np.array([[0, -1], [1, -1], [2, -1]])),
    ],
    "relu(z) in place, but z becomes a maximum": [
        DIFFERENT,
        Maximum((1,), np.array([[0, 1]])),
        relu(1, 2),
        affine(3, weights=[[1, -1], [-0.5, 1]]),
        relu(4, 2),
        affine(2, 5, weights=[[1, 2, 3]]),
    ],
    "z >= 0 is fed forward, but becomes a maximum": [
        affine(0, weights=[[1, 0], [-1, 0.25]], bias=[5.0, 5.0]),
        Maximum((1,), np.array([[0, 1]])),
        affine(1, weights=[[1, -1], [-0.5, 1]]),
        relu(3, 2),
        affine(2, 4, weights=[[1, 2, 3]]),
    ],
    "one rectifier in two columns": [
        DIFFERENT,
        relu(1, 2),
        affine(2, 2, weights=[[0.1, 1, 0.2, -1], [1, 1, 1, -2]]),
        relu(3, 2),
        affine(4, weights=[[1, -1]]),
    ],
    "weights on what was scaled before": [
        DIFFERENT,
        affine(1, weights=[[0.1, 0], [0, -1], [0, 0]], bias=[0.0, 0.0, 0.7]),
        affine(2, weights=[[0.3, 0.7, 0.1], [0.3, -0.7, 0]]),
        relu(3, 2),
    ],
    "a maximum of multiples of one unit and of others": [
        DIFFERENT,
        affine(1, weights=[[0.1, 0], [0.3, 0], [0, -0.7], [0, 0]], bias=[0.0, 0.0, 0.0, -0.1]),
        Maximum((2,), np.array([[0, 1, 2, 3], [1, 0, -1, -1], [2, 3, 0, -1]])),
        affine(3, weights=[[1, -1, 0.3]]),
    ],
    "a maximum of two values in two rounds": [
        DIFFERENT,
        affine(0, weights=[[0.5, -1], [-0.25, -1]]),
        Maximum((1, 2), np.array([[0, 2, 1, 3]])),
        relu(3, 1),
    ],
    "two maxima that start with one unit, beside one that waits": [
        affine(0, weights=[[1, 0.5], [-1, 0.25], [0.5, -1]]),
        affine(1, weights=[[1, 2, 0], [3, -1, 1]]),
        Maximum((2, 1), np.array([[0, 1], [2, 3], [2, 4]])),
        affine(3, weights=[[1, -1, 0.5]]),
    ],
}


@pytest.mark.parametrize("steps", CLASHES.values(), ids=CLASHES)
@pytest.mark.parametrize("route", ROUTES)
def test_nobody_reads_what_another_has_changed(steps, route):
    target = StepsTarget(Steps(2, steps))
    construction = lower(target, hm.Box([-1, -1], [1, 1]), route)
    for x in itertools.product(
        [Fraction(-1), Fraction(-1, 3), Fraction(0), Fraction(3, 4)], repeat=2
    ):
        assert_exact(construction, target, np.array(x, dtype=object))


def test_what_feeds_a_dead_relu_is_left_out():
    net = [
        DIFFERENT,
        relu(1, 2),
        affine(2, weights=[[1, 1], [1, -1]], bias=[-9.0, 0.0]),
        relu(3, 2),
    ]
    target = StepsTarget(Steps(2, [*net, affine(4, weights=[[1, 1]])]))
    form = lower(target, hm.Box([-1, -1], [1, 1]), "attention-only")
    assert form.bill.width == 2 + 1 + 1 + 1  # two units, one of two, the output, the flag


def test_units_that_never_switch_need_no_head():
    """relu, |.| and a maximum whose signs are known on a domain, but not on a larger one."""
    shift = Affine((0,), np.ones((1, 1)), np.array([5.0]))
    rest = [
        Univariate((1,), "relu", 1),
        Univariate((2,), "abs", 1),
        Maximum((3, 0), np.array([[0, 1]])),
    ]
    target = StepsTarget(Steps(1, [shift, *rest]))
    assert lower(target, hm.Box([-1], [1]), "attention-only").bill.heads == 0
    wide = lower(target, hm.Box([-9], [9]), "attention-only")
    assert kinds_of_heads(wide)[1] > 0


def test_columns_on_one_term_are_never_added():
    """0.1 x + 0.2 x is not 0.3 x in floats; the Transformer keeps both weights."""
    for source in (0, 1, 2):
        first = [Affine((0,), np.ones((1, 1)), np.zeros(1)), Univariate((1,), "relu", 1)]
        last = Affine((source, source), np.array([[0.1, 0.2]]), np.zeros(1))
        target = StepsTarget(Steps(1, [*first, last, Univariate((3,), "relu", 1)]))
        for route in ROUTES:
            (answer,) = lower(target, hm.Box([-1], [1]), route)([Fraction(1)])
            assert answer == Fraction(0.1) + Fraction(0.2) != Fraction(0.1 + 0.2)


# ---- refusals ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "name"),
    [(Univariate((0,), "sin", 2), "sin"), (Product((0,), np.array([[0, 1]])), "product")],
)
def test_steps_that_are_not_piecewise_linear_are_refused_by_name(step, name):
    with pytest.raises(hm.RequestError, match=f"StepsTarget cannot be compiled.* a {name}"):
        hm.compile(StepsTarget(Steps(2, [step])), on="[-1,1]^2")


def test_a_torch_module_is_told_of_from_torch():
    nn = pytest.importorskip("torch").nn
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    with pytest.raises(hm.RequestError, match=r"Sequential.*hm\.from_torch\(module"):
        hm.compile(module, on="[-1,1]^2")
    with pytest.raises(hm.RequestError, match=r"hm\.CallableFunction"):
        hm.compile(lambda x: x, on="[-1,1]^2")
