"""Layered networks: residual, convolutional and pooling modules, exactly as PyTorch means them."""

from __future__ import annotations

import doctest
import os
import sys
from fractions import Fraction

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

import hardmax as hm
from hardmax.core import Affine, EncodedTarget, Maximum, Product, Steps, Target, Univariate
from hardmax.languages import (
    LayeredNetwork,
    ReluNetwork,
    decode_target,
    from_torch,
    load_network,
    save_network,
)
from hardmax.languages.networks import _files, _layered
from hardmax.languages.networks.operators import Wires, Wiring
from hardmax.languages.networks.operators._functions import _apply_named
from hardmax.numerics import Interval, exact, gamma
from hardmax.testing import rounding_bound


class Block(nn.Module):
    """A residual block, written as torchvision writes it: in place, with a shortcut."""

    def __init__(self, into, out, stride=1):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(into, out, 3, stride, 1), nn.BatchNorm2d(out)
        self.conv2, self.norm2 = nn.Conv2d(out, out, 3, 1, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.short = nn.Conv2d(into, out, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        out = self.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        out += self.short(x)
        return self.relu(out)


class Dense(nn.Module):
    """A block whose layers read everything before them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 3, 3, padding=1), nn.Conv2d(5, 2, 1)
        self.last = nn.Linear(7 * 16, 3)

    def forward(self, x):
        x = torch.cat([x, functional.relu(self.first(x))], 1)
        x = torch.cat([x, functional.relu(self.second(x))], dim=1)
        return self.last(x.view(x.size(0), -1))


class Mixer(nn.Module):
    """Linear layers along one axis and then the other."""

    def __init__(self):
        super().__init__()
        self.tokens, self.channels = nn.Linear(4, 4), nn.Linear(3, 3)

    def forward(self, x):
        x = x + functional.relu(self.tokens(x.transpose(1, 2))).permute(0, 2, 1)
        x = x + self.channels(x).clamp(min=-0.5)
        return x[:, 1:, :].reshape(x.shape[0], 9)


class Arithmetic(nn.Module):
    """Constants, broadcasts, scalars, and a tensor that is added to itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.tensor([0.5, -2.0, 0.25]))
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, x):
        y = (x - 0.25) * self.scale + x
        y = 2 * y / 4 - (1 - y.abs())
        z = torch.cat([y, y], dim=1) @ self.weight.t().repeat(1, 2).t()
        return -torch.maximum(z, -z + 1) + torch.minimum(z, x[:, :1])


class Twice(nn.Module):
    """A layer that reads the same numbers twice."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(torch.cat([x, x], dim=-1))


class Siamese(nn.Module):
    """One module used twice, and the difference of what it says."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 3), nn.LeakyReLU(0.125), nn.Linear(3, 2))

    def forward(self, x):
        return torch.sub(self.net(x[..., :2]), self.net(x[..., 2:])).abs().unsqueeze(1).squeeze(1)


def dyadic(module):
    """Weights k/8 and variances 4^k, so that PyTorch rounds nothing in float64 at inputs k/4."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-8, 9, parameter.shape) / 8)
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
                norm.eps = 0.0
                norm.running_mean.copy_(torch.randint(-4, 5, norm.running_mean.shape) / 4)
                norm.running_var.copy_(4.0 ** torch.randint(-1, 2, norm.running_var.shape))
    return module.double().eval()


def head(channels, out=2):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels, out))


ARCHITECTURES = {
    "resnet": ((1, 6, 6), lambda: nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1, bias=False), nn.BatchNorm2d(2), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1), Block(2, 2), nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(1),
        head(2))),
    "strided resnet": ((2, 4, 4), lambda: nn.Sequential(
        Block(2, 2), Block(2, 3, 2), nn.AdaptiveAvgPool2d((1, None)), head(6))),
    "conv pool dense": ((1, 6, 6), lambda: nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 3))),
    "strides and dilation": ((2, 7, 6), lambda: nn.Sequential(
        nn.Conv2d(2, 4, (3, 2), stride=(2, 1), padding=(2, 1), dilation=(2, 3), groups=2),
        nn.ReLU(), nn.Conv2d(4, 4, 2, groups=4), head(48))),
    "same padding": ((1, 4, 5), lambda: nn.Sequential(
        nn.Conv2d(1, 2, (2, 3), padding="same"), nn.ReLU(),
        nn.Conv2d(2, 1, 2, padding="valid"), head(12))),
    "padded averages": ((2, 5, 5), lambda: nn.Sequential(
        nn.AvgPool2d(2, 2, 1), nn.ReLU(), nn.AvgPool2d(2, ceil_mode=True), head(8))),
    "max pool dilated": ((1, 7, 7), lambda: nn.Sequential(
        nn.MaxPool2d(3, 2, 1, dilation=2), nn.Conv2d(1, 2, 2), nn.MaxPool2d(2, ceil_mode=True),
        head(2))),
    "windows that would begin behind": ((1, 5, 5), lambda: nn.Sequential(
        nn.MaxPool2d(1, 3, ceil_mode=True), nn.AvgPool2d(1, 3, ceil_mode=True))),
    "windows larger than the input": ((1, 2, 1), lambda: nn.Sequential(
        nn.MaxPool2d((3, 2), 2, ceil_mode=True),
        nn.Conv2d(1, 2, (1, 2), padding=(0, 3), dilation=3), nn.AvgPool2d(8, ceil_mode=True))),
    "padding alone": ((1, 1, 1), lambda: nn.Conv2d(1, 2, 2, padding=3, dilation=2, stride=3)),
    "twice the input": ((2,), Twice),
    "line": ((2, 9), lambda: nn.Sequential(
        nn.Conv1d(2, 3, 3, padding=1), nn.BatchNorm1d(3), nn.ReLU(), nn.MaxPool1d(3, 2),
        nn.AvgPool1d(2), head(6))),
    "leaky": ((3,), lambda: nn.Sequential(
        nn.Linear(3, 4), nn.LeakyReLU(0.125), nn.Linear(4, 4), nn.PReLU(4), nn.Linear(4, 2),
        nn.PReLU())),
    "hard tanh": ((3,), lambda: nn.Sequential(
        nn.Linear(3, 4), nn.Hardtanh(-0.5, 0.75), nn.Linear(4, 3), nn.ReLU6(), nn.Dropout(0.5),
        nn.Linear(3, 2), nn.Hardtanh())),
    "norm alone": ((3, 2, 2), lambda: nn.BatchNorm2d(3)),
    "norm without weights": ((3,), lambda: nn.BatchNorm1d(3, affine=False)),
    "relu alone": ((2, 2), lambda: nn.ReLU()),
    "flat": ((2, 2), lambda: nn.Flatten()),
    "dense net": ((2, 4, 4), Dense),
    "mixer": ((4, 3), Mixer),
    "arithmetic": ((3,), Arithmetic),
    "siamese": ((4,), Siamese),
    "maxima to size": ((1, 5, 5), lambda: nn.Sequential(nn.AdaptiveMaxPool2d((3, 2)), head(6))),
    "plain": ((3,), lambda: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))),
}  # fmt: skip


@pytest.fixture(params=ARCHITECTURES, scope="module")
def case(request):
    """A module without rounding, its network, and the shape of an input."""
    shape, make = ARCHITECTURES[request.param]
    module = dyadic(make())
    return module, LayeredNetwork.from_torch(module, shape), shape


def points(network, count=20):
    return np.random.default_rng(1).integers(-8, 9, size=(count, network.inputs)) / 4


def run(module, x, shape):
    with torch.no_grad():
        return module(torch.tensor(x).reshape(-1, *shape)).reshape(len(x), -1).numpy()


@pytest.mark.filterwarnings("ignore:Using padding='same'")  # with even kernels PyTorch copies
def test_the_network_computes_what_torch_computes(case):
    """Both are exact on short dyadics, so they are equal."""
    module, network, shape = case
    x = points(network)
    expected = run(module, x, shape)
    assert isinstance(network, Target)
    assert network.outputs == expected.shape[1]
    assert network(x).tolist() == expected.tolist()


def test_fractions_are_exact_and_intervals_enclose_them(case):
    _, network, _ = case
    x = points(network, 2)
    true = network(exact(x))
    assert all(type(value) is Fraction for value in true.flat)
    assert true.tolist() == network(x).tolist()
    width = np.full(network.inputs, 0.25)
    box = Interval(np.stack([x[0] - width, x[1]], axis=1), np.stack([x[0] + width, x[1]], axis=1))
    enclosure = network(box)
    assert enclosure.shape == (network.outputs, 2)
    assert enclosure[:, 0].contains(true[0]).all()
    assert enclosure[:, 1].contains(true[1]).all()


def same(first, second):
    one, two = first.encode(), second.encode()
    return (one.kind, one.text, list(one.tensors)) == (two.kind, two.text, list(two.tensors)) and (
        all(array.tobytes() == two.tensors[name].tobytes() for name, array in one.tensors.items())
    )


def test_encodings_and_files_give_the_network_back(case, tmp_path):
    _, network, _ = case
    again = decode_target(network.encode())
    assert type(again) is LayeredNetwork
    assert same(again, network)
    for name in ("network.npz", "network.safetensors"):
        save_network(network, tmp_path / name)
        assert same(load_network(tmp_path / name), network)
    nameless = {
        name: array for name, array in network.encode().tensors.items() if name != "hardmax.kind"
    }
    np.savez(tmp_path / "nameless.npz", **nameless)
    assert same(load_network(tmp_path / "nameless.npz"), network)


def test_rounded_modules_stay_within_derived_bounds():
    """float32 weights are kept, so only float64 operations stand between the two.

    `rounding_bound` holds for our float run, and for PyTorch's up to its own scale and shift: it
    subtracts, multiplies and adds where the program has one product and one sum of rounded
    numbers, at most 8 roundings more per norm and average, of numbers that the bound's columns
    weigh already. Every affine step counts at least 2, and 8 <= 4 * 2: five times the bound.
    """
    torch.manual_seed(3)
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.LeakyReLU(0.01), nn.AvgPool2d(3),
        Block(2, 2), nn.Flatten(), nn.Linear(8, 3), nn.Hardtanh(-0.1, 0.1),
    )  # fmt: skip
    for norm in (module[1], module[4].norm1, module[4].norm2):
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.5, 2.0)
        nn.init.normal_(norm.weight)
    network = LayeredNetwork.from_torch(module.eval(), (1, 6, 6))
    assert exact(network.program.steps[0].weights).shape == (72, 36)
    x = np.random.default_rng(0).normal(size=(3, 36))
    theirs = run(module.double(), x, (1, 6, 6))
    for point, ours, other in zip(x, network(x), theirs, strict=True):
        bound = rounding_bound(network.steps(), point)
        true = network(exact(point))
        assert (abs(exact(ours) - true) <= bound).all()
        assert (abs(exact(other) - true) <= 5 * bound).all()
        assert (bound <= 1e-10).all()


def test_the_module_is_left_alone():
    module = Forward(lambda x: x + torch.ones(2))
    before = (set(vars(module)), set(module.state_dict()), module.training)
    assert LayeredNetwork.from_torch(module, 2)([1.0, 2.0]).tolist() == [2.0, 3.0]
    assert (set(vars(module)), set(module.state_dict()), module.training) == before


def test_float32_weights_are_kept_bit_for_bit():
    module = nn.Conv2d(2, 3, 1).to(torch.bfloat16)
    network = LayeredNetwork.from_torch(module, (2, 1, 1))
    (step,) = network.program.steps
    assert step.weights.tolist() == module.weight.double().reshape(3, 2).tolist()
    assert step.bias.tolist() == module.bias.double().tolist()


def test_norm_and_average_round_where_they_say():
    """Scale and shift of a norm by five operations; an average of three by one."""
    module = nn.BatchNorm1d(1).eval()
    module.running_mean.fill_(0.3)
    module.running_var.fill_(0.7)
    (step,) = LayeredNetwork.from_torch(module, 1).program.steps
    mean, variance = module.running_mean.double().item(), module.running_var.double().item()
    scale = 1.0 / np.sqrt(variance + module.eps)
    assert step.weights.tolist() == [[scale]]
    assert step.bias.tolist() == [0.0 - mean * scale]
    true = 1 / np.sqrt(np.longdouble(variance) + np.longdouble(module.eps))
    assert abs(step.weights[0, 0] - true) <= gamma(3) * abs(true)
    (step,) = LayeredNetwork.from_torch(nn.AvgPool1d(3), (1, 3)).program.steps
    assert step.weights.tolist() == [[1 / 3] * 3]


def kinds(network):
    return [
        (step.name if isinstance(step, Univariate) else type(step).__name__, step.sources)
        for step in network.program.steps
    ]


def test_moving_numbers_takes_no_step_and_skips_are_fused():
    moved = nn.Sequential(nn.Flatten(), nn.Unflatten(1, (2, 3)), nn.Flatten(), nn.Linear(6, 1))
    with pytest.raises(hm.RequestError, match="Unflatten"):
        LayeredNetwork.from_torch(moved, 6)
    mixer = LayeredNetwork.from_torch(dyadic(Mixer()), (4, 3))
    assert [kind for kind, _ in kinds(mixer)] == [
        "Affine", "relu", "Affine", "Affine", "Affine", "Maximum", "Affine",
    ]  # fmt: skip

    class Skip(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(2, 3), nn.Linear(3, 2)

        def forward(self, x):
            return x + self.second(torch.relu(self.first(x)))

    skip = LayeredNetwork.from_torch(dyadic(Skip()), 2)
    assert kinds(skip) == [("Affine", (0,)), ("relu", (1,)), ("Affine", (0, 2))]
    assert skip.program.steps[2].weights[:, :2].tolist() == [[1, 0], [0, 1]]


def test_maps_are_fused_only_where_nothing_rounds():
    """x + third x: the weights 1 and 1/3 have no exact sum, 1 and 1/2 have."""

    class Scaled(nn.Module):
        def __init__(self, factor):
            super().__init__()
            self.factor = factor

        def forward(self, x):
            return x + x * self.factor

    for factor in (1 / 3, 0.5):
        network = LayeredNetwork.from_torch(Scaled(factor), 1)
        (step,) = network.program.steps
        true = 1 + Fraction(factor)
        assert network(exact([1.0])).tolist() == [true]
        assert step.sources == ((0, 0) if factor == 1 / 3 else (0,))
    twice = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1)).double()
    with torch.no_grad():
        for parameter in twice.parameters():
            parameter.fill_(0.1)
    network = LayeredNetwork.from_torch(twice, 2)
    assert kinds(network) == [("Affine", (0,)), ("Affine", (1,))]
    tenth = Fraction(0.1)
    assert network(exact([1.0, 1.0])).tolist() == [2 * tenth * (3 * tenth) + tenth]


def test_clipping_keeps_its_bounds_for_intervals():
    network = LayeredNetwork.from_torch(nn.Hardtanh(), 1)
    answer = network(Interval(np.array([-10.0]), np.array([10.0])))
    assert (answer.lo >= -1 - 2**-40).all()
    assert (answer.hi <= 1 + 2**-40).all()


@pytest.mark.parametrize(("module", "name"), [(nn.Tanh(), "tanh"), (nn.Sigmoid(), "sigmoid")])
def test_functions_keep_their_names(module, name):
    network = LayeredNetwork.from_torch(nn.Sequential(nn.Linear(2, 3), module), 2)
    assert kinds(network) == [("Affine", (0,)), (name, (1,))]
    assert same(decode_target(network.encode()), network)


def test_elu_is_an_exponential_below_zero():
    """Within the rounding of one exponential, a product and two sums of numbers up to 3."""
    module = nn.Sequential(nn.ELU(0.5))
    network = LayeredNetwork.from_torch(module, 5)
    x = np.array([-3.0, -0.25, -0.0, 0.25, 3.0])
    expected = module(torch.tensor(x)).numpy()
    assert np.abs(network(x) - expected).max() <= 8 * gamma(1) * 3
    assert [kind for kind, _ in kinds(network)].count("exp") == 1


def test_functions_that_no_step_knows_are_refused():
    with pytest.raises(hm.RequestError, match="applies swoosh: There is no function 'swoosh'"):
        _apply_named(Wiring(1), "swoosh", Wires(np.arange(1)))


def test_a_function_of_a_part_copies_that_part():
    class Half(nn.Module):
        def forward(self, x):
            return torch.tanh(x[:, 1:])

    network = LayeredNetwork.from_torch(Half(), 3)
    assert kinds(network) == [("Affine", (0,)), ("tanh", (1,))]
    assert network([1.0, 2.0, 3.0]).tolist() == np.tanh([2.0, 3.0]).tolist()


def test_the_simplest_class_comes_from_the_helper():
    plain = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    direct, helped = ReluNetwork.from_torch(plain), from_torch(plain, shape=3)
    assert isinstance(from_torch(plain), ReluNetwork)
    assert isinstance(helped, ReluNetwork)
    assert [W.tolist() for W in helped.weights] == [W.tolist() for W in direct.weights]
    assert [b.tolist() for b in helped.biases] == [b.tolist() for b in direct.biases]
    assert isinstance(from_torch(nn.Sequential(plain, nn.ReLU()), shape=3), LayeredNetwork)
    assert isinstance(from_torch(plain, shape=(2, 3)), ReluNetwork)
    assert from_torch(plain, shape=(2, 3)).inputs == 6
    with pytest.raises(hm.RequestError, match=r"say the shape of one input.*shape=\(3, 8, 8\)"):
        from_torch(nn.Conv2d(1, 1, 1))


class Forward(nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.function = forward

    def forward(self, x):
        return self.function(x)


def relu(x):
    """Not the one of PyTorch, though it has its name."""
    return x


torch.fx.wrap("relu")


class Complex(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("phase", torch.tensor([1j, 1]))

    def forward(self, x):
        return x * self.phase


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = nn.Parameter(torch.zeros(1).double())

    def forward(self, x):
        return x + self.count.add_(1)


def hooked():
    module = nn.Sequential(nn.Linear(2, 2))
    module[0].register_forward_hook(lambda *_: None)
    return module


REFUSALS = {
    "operator": (nn.Sequential(nn.Linear(2, 2), nn.Softmax(1)), 2,
                 r"Module 1 \(Softmax\) is not supported; what is: .*Conv2d"),
    "attention": (nn.MultiheadAttention(2, 1), 2, "MultiheadAttention. is not supported"),
    "function": (Forward(lambda x: torch.fft.fft(x)), 2, r"Node .*\(fft_fft\) is not supported"),
    "method": (Forward(lambda x: x.cumsum(1)), 2, r"Node cumsum \(cumsum\) is not supported"),
    "wrapped": (Forward(lambda x: relu(x)), 2, r"Node relu \(relu\) is not supported"),
    "training norm": (nn.BatchNorm1d(2), 2, r"Module 0 \(BatchNorm1d\) .* training mode: call"),
    "function norm": (Forward(lambda x: functional.batch_norm(x, None, None, training=True)), 2,
                      "training mode"),
    "norm without statistics": (nn.BatchNorm1d(2, track_running_stats=False).eval(), 2,
                                "without running statistics"),
    "training dropout": (nn.Dropout(0.5), 2, "at random in training mode"),
    "function dropout": (Forward(lambda x: functional.dropout(x)).eval(), 2,
                         "at random in training mode"),
    "product": (Forward(lambda x: x * x), 2, "products of computed numbers"),
    "quotient": (Forward(lambda x: 1 / x), 2,
                 r"Node truediv \(truediv\) needs constants as its divisor"),
    "branch": (Forward(lambda x: x if x.sum() > 0 else -x), 2, "torch.fx cannot trace"),
    "chain": (nn.Sequential(nn.Linear(2, 3), nn.Linear(2, 2)), 2,
              r"Module 1 \(Linear\) has weights of shape \(2, 2\), but its input has .*\(1, 3\)"),
    "channels": (nn.Conv2d(3, 2, 1), (2, 4, 4), r"\(Conv2d\) has 2 x 3 channels in 1 group, but"),
    "axes": (nn.Conv2d(1, 2, 1), (4,), "slides over 2 axes, but its input has shape"),
    "window": (nn.MaxPool2d(5), (1, 3, 3), "has windows of 5 places, but its input has 3"),
    "window of padding": (nn.MaxPool2d(2, 1, 1, dilation=2), (1, 1, 1),
                          "lie in the padding, whose maximum"),
    "reshape": (Forward(lambda x: x.view(1, 5)), 4, r"Node view \(view\) makes \(1, 5\)"),
    "broadcast": (Forward(lambda x: x + torch.ones(3)), 2, "does not fit what it reads"),
    "circular": (nn.Conv2d(1, 1, 3, padding=1, padding_mode="circular"), (1, 4, 4),
                 "pads with 'circular'"),
    "indices": (nn.MaxPool2d(2, return_indices=True), (1, 4, 4), "returns indices"),
    "slope": (nn.LeakyReLU(2.0), 2, "has the slope 2.0, but above 1"),
    "large": (nn.Conv2d(1, 64, 3, padding=1), (1, 64, 64),
              r"too large to be dense: it takes 262,144 x 4,096 numbers, but a network holds at "
              r"most 67,108,864"),
    "large linear": (Forward(lambda x: x.unsqueeze(2) + x.unsqueeze(1)), 10_000, "too large"),
    "complex": (Complex(), 2, r"Constant phase holds complex numbers"),
    "not finite": (Forward(lambda x: x * float("nan")), 2, r"Node mul \(mul\) .* must be finite"),
    "hooks": (hooked(), 2, r"Module 0 \(Linear\) has hooks"),
    "in place": (Forward(lambda x: functional.relu(x, inplace=True) + x), 2,
                 r"reads x after it was changed in place"),
    "alias in place": (Forward(lambda x: x.view(1, 2).relu_() + x), 2, "changed in place"),
    "random": (Forward(lambda x: x + torch.rand(x.size(1))), 2, r"Node rand \(rand\) is random"),
    "constant in place": (Counter(), 2, r"Node .*\(add_\) changes a constant in place"),
    "two outputs": (Forward(lambda x: (x, x)), 2, "must return one tensor"),
    "option": (Forward(lambda x: torch.add(x, x, out=None)), 2, "in a way that is not supported"),
    "alpha": (Forward(lambda x: torch.add(x, x, alpha=2)), 2, "adds 2 times a summand"),
    "tanh gelu": (nn.GELU(approximate="tanh"), 2, "approximated by 'tanh'"),
    "no module": ("network", 2, "reads an nn.Module, but str came"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_read_is_named(name):
    module, shape, complaint = REFUSALS[name]
    with pytest.raises((hm.RequestError, hm.ShapeError), match=complaint) as refusal:
        LayeredNetwork.from_torch(module, shape)
    assert str(refusal.value).rstrip().endswith(".")


@pytest.mark.parametrize("shape", [0, (2, -1), (2, None), "image", (2, 2.5), ((1, 2), (3, 4))])
def test_shapes_are_fixed(shape):
    with pytest.raises(hm.ShapeError, match=r"whole numbers >= 1.*networks have fixed shapes"):
        LayeredNetwork.from_torch(nn.ReLU(), shape)


def test_second_inputs_are_refused_unless_they_have_a_default():
    class Two(nn.Module):
        def forward(self, x, y):
            return x + y

    class Default(nn.Module):
        def forward(self, x, shift=0.5):
            return x + shift

    with pytest.raises(hm.RequestError, match="takes a second input y"):
        LayeredNetwork.from_torch(Two(), 2)
    assert LayeredNetwork.from_torch(Default(), 1)([1.0]).tolist() == [1.5]


def test_torch_is_named_if_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(hm.MissingExtra, match=r"pip install 'hardmax\[torch\]'"):
        LayeredNetwork.from_torch(None, 2)


HALVES = Steps(1, [Affine((0,), [[1.0], [-1.0]], [0.0, 0.0]), Maximum((1,), [[0, 1]])])


def test_examples_in_docstrings_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module, examples in ((_layered, 9), (_files, 3)):
        found = doctest.testmod(module)
        assert (found.failed, found.attempted) == (0, examples)


def test_networks_check_their_programs():
    network = LayeredNetwork(HALVES)
    assert repr(network) == "LayeredNetwork(1-1, 2 steps, 4 parameters)"
    assert network.parameters == 4
    for bad in (None, Steps(1, []), Steps(2, [Product((0,), [[0, 1]])]),
                Steps(1, [Univariate((0,), "power", 1, 2.0)])):  # fmt: skip
        with pytest.raises(hm.ShapeError, match=r"at least one step|Step 0 is (product|power)"):
            LayeredNetwork(bad)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"0.inputs": None}, "The tensor 0.inputs is missing"),
        ({"0.inputs": np.array([0])}, "0.inputs must be one number >= 1"),
        ({"0.inputs": np.array([1.0])}, "0.inputs must hold whole numbers, not float64"),
        ({"0.inputs": np.array([2])}, "does not fit"),
        ({"1.affine.W": None}, "The tensor 1.affine.W is missing"),
        ({"1.affine.sources": None}, "Step 1 is missing"),
        ({"1.affine.sources": np.array([1])}, r"Step 1.affine reads the values \(1,\)"),
        ({"1.affine.sources": np.array([], dtype=int)}, r"reads the values \(\)"),
        ({"2.maximum.groups": np.array([[0, 9]])}, "does not fit"),
        ({"2.maximum.groups": np.array([[0.0, 1.0]])}, "must hold whole numbers"),
        ({"3.spline.sources": np.array([2])}, "no function 'spline'"),
        ({"3.power.sources": np.array([2])}, "Step 2 is power"),
        ({"1.affine.W": np.array([[np.nan], [1.0]])}, "must be finite"),
        ({"1.affine.W": np.array([[1j], [1.0]])}, "real numbers"),
    ],
)
def test_damaged_encodings_are_refused(change, complaint):
    tensors = {**LayeredNetwork(HALVES).encode().tensors, **change}
    kept = {name: array for name, array in tensors.items() if array is not None}
    with pytest.raises((hm.FileError, hm.ShapeError), match=complaint):
        decode_target(EncodedTarget("layered", "", kept))


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl"])
def test_pickles_are_refused_by_name(tmp_path, suffix):
    torch.save(nn.Linear(1, 1).state_dict(), tmp_path / f"network{suffix}")
    with pytest.raises(hm.FileError, match=r"is a pickle, .* hm.from_torch"):
        load_network(tmp_path / f"network{suffix}")


def test_truncated_files_are_refused(tmp_path):
    for name in ("network.npz", "network.safetensors"):
        save_network(LayeredNetwork(HALVES), tmp_path / name)
        whole = (tmp_path / name).read_bytes()
        for length in range(0, len(whole), 7):
            (tmp_path / name).write_bytes(whole[:length])
            with pytest.raises(hm.FileError):
                load_network(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["network.npz", "network.safetensors"]
