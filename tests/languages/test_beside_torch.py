"""Modules that torch.fx reads as another function are refused; what a hostile reading found."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm

torch = pytest.importorskip("torch")
nn, F = torch.nn, torch.nn.functional


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)
        self.r = nn.ReLU(inplace=True)
        self.p = nn.Parameter(torch.tensor([1.0, -2.0, 3.0, -4.0]))


class OldName(Linear):
    def forward(self, x):
        y = self.a(x)
        self.r(y)
        return y


class OldView(Linear):
    def forward(self, x):
        y = self.a(x)
        v = y.view(2, 2)
        v.relu_()
        return y


class MaxAlong(Linear):
    def forward(self, x):
        return torch.max(x.reshape(2, 2), 1)[0]


class MaxOfAll(Linear):
    def forward(self, x):
        return torch.max(x).reshape(1, 1)


class Default(Linear):
    def forward(self, x, mask=None):
        y = self.a(x)
        return torch.relu(y) if mask is None else y


class Flag(Linear):
    def forward(self, x, linear=False):
        return self.a(x) if linear is not False else torch.relu(self.a(x))


class Kind(Linear):
    def forward(self, x):
        return torch.relu(self.a(x)) if isinstance(x, torch.Tensor) else self.a(x)


class Mode(Linear):
    def forward(self, x):
        return self.a(x) if self.training else torch.relu(self.a(x))


class ConstantInPlace(Linear):
    def forward(self, x):
        w = self.p * 2
        F.leaky_relu(w, 0.1, True)
        return x * w


class ConstantOut(Linear):
    def forward(self, x):
        w = self.p * 2
        torch.add(w, 1, out=w)
        return x * w


class HalfMean(Linear):
    def forward(self, x):
        return x.mean(1, dtype=torch.float16)


def hooked(root):
    root.register_forward_hook(lambda module, inputs, output: output * 2)
    return root


def other_forward():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    module.forward = lambda x: x * 2
    return module


WRONG = {
    "an old name": OldName(),
    "a view": OldView(),
    "a maximum along an axis": MaxAlong(),
    "a maximum of all": MaxOfAll(),
    "a default argument": Default(),
    "a default flag": Flag(),
    "the kind of its input": Kind(),
    "its mode": Mode(),
    "a constant in place": ConstantInPlace(),
    "a constant as out": ConstantOut(),
    "another dtype": HalfMean(),
    "a hook": hooked(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))),
    "a forward of its own": other_forward(),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_not_read_rightly_is_refused(name):
    with pytest.raises((hm.RequestError, hm.ShapeError)):
        hm.from_torch(WRONG[name], shape=4)


def test_hooks_are_seen_without_a_shape():
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    hooked(module[0])
    with pytest.raises(hm.RequestError, match="does not compute what was read of it"):
        hm.ReluNetwork.from_torch(module)


def test_averages_over_no_axes_are_over_all():
    class Mean(nn.Module):
        def forward(self, x):
            return x.mean(dim=[]).reshape(1, 1)

    network = hm.from_torch(Mean(), shape=4)
    assert network([1.0, 2.0, 3.0, 6.0]).tolist() == [3.0]


def test_maxima_of_two_tensors_are_read():
    class Larger(nn.Module):
        def forward(self, x):
            return torch.max(x, -x) + torch.min(x, torch.tensor(0.5, dtype=torch.float64))

    network = hm.from_torch(Larger(), shape=2)
    assert network([-2.0, 1.0]).tolist() == [0.0, 1.5]
    assert np.asarray(network([0.25, -0.5])).tolist() == [0.5, 0.0]
