"""Networks from elsewhere: files, encodings and PyTorch modules. Nothing is lost on the way."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_torch_file
from torch import nn

import hardmax as hm
from hardmax.core import EncodedTarget, Target
from hardmax.languages import (
    MaxAffine,
    MaxoutNetwork,
    PiecewiseLinear,
    ReluNetwork,
    decode_target,
    load_network,
    save_network,
)
from hardmax.testing import networks

W1, b1, W2, b2 = np.array([[1.0], [-1.0]]), np.array([0.5, 0.0]), np.array([[1.0, 2.0]]), np.ones(1)
LAYERS = {"W1": W1, "b1": b1, "W2": W2, "b2": b2}


def same(first, second):
    """Equal in kind and in every bit of every tensor."""
    one, two = first.encode(), second.encode()
    return (one.kind, one.text, one.tensors.keys()) == (
        two.kind,
        two.text,
        two.tensors.keys(),
    ) and all(array.tobytes() == two.tensors[name].tobytes() for name, array in one.tensors.items())


RELU = ReluNetwork([W1, W2], [b1, b2])


@pytest.fixture(params=["npz", "safetensors"])
def write(request, tmp_path):
    """Writes tensors to a file in one of the two formats, and says where."""

    def writer(**tensors):
        path = tmp_path / f"network.{request.param}"
        if request.param == "npz":
            np.savez(path, **tensors)
        else:
            save_file({name: np.ascontiguousarray(array) for name, array in tensors.items()}, path)
        return path

    return writer


@settings(deadline=None)
@given(networks())
def test_decoding_gives_the_network_back(network):
    encoded = network.encode()
    again = decode_target(encoded)
    assert type(again) is type(network)
    assert isinstance(again, Target)
    assert same(again, network)
    assert again.parameters == sum(array.size for array in encoded.tensors.values())


def test_decoding_refuses_what_it_does_not_know():
    with pytest.raises(hm.FileError, match="no target of kind 'spline'"):
        decode_target(EncodedTarget("spline", "", {}))
    for name in LAYERS:
        rest = {key: array for key, array in LAYERS.items() if key != name}
        with pytest.raises(hm.FileError, match=f"The tensor {name} is missing"):
            decode_target(EncodedTarget("relu", "", rest))
    for name in ("plus.W", "plus.b", "minus.W", "minus.b"):
        hat = PiecewiseLinear.from_knots([-1, 0, 1], [0, 1, 0]).encode()
        rest = {key: array for key, array in hat.tensors.items() if key != name}
        with pytest.raises(hm.FileError, match=f"The tensor {name} is missing"):
            decode_target(EncodedTarget("piecewise-linear", "", rest))


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(network=networks())
def test_a_saved_network_comes_back_the_same(network, tmp_path):
    save_network(network, tmp_path / "network.npz")
    again = load_network(str(tmp_path / "network.npz"))
    assert type(again) is type(network)
    assert same(again, network)
    assert os.listdir(tmp_path) == ["network.npz"]


def test_numbered_layers_are_read(write):
    metadata = {"widths": np.array([1, 2, 1]), "seed": np.array(7), "bias_std": np.array(0.5)}
    assert same(load_network(write(**LAYERS, **metadata)), RELU)


def test_twelve_layers_come_in_the_order_of_their_numbers(write):
    factors = [float(i) for i in range(1, 13)]
    tensors = {f"W{i + 1}": np.array([[factor]]) for i, factor in enumerate(factors)}
    tensors |= {f"b{i + 1}": np.zeros(1) for i in range(12)}
    network = load_network(write(**dict(sorted(tensors.items()))))
    assert [W[0, 0] for W in network.weights] == factors


def test_stacks_of_matrices_are_maxout(write):
    stacks = {"W1": np.stack([W1, -W1]), "b1": np.stack([b1, b1]), "W2": W2[None], "b2": b2[None]}
    network = load_network(write(**stacks))
    expected = MaxoutNetwork([stacks["W1"], stacks["W2"]], [stacks["b1"], stacks["b2"]])
    assert same(network, expected)


@pytest.mark.parametrize("names", [("0.", "2."), ("net.2.", "net.10."), ("fc1.", "fc2.")])
def test_torch_names_are_ordered_by_their_integers(write, names):
    first, second = names
    tensors = {
        f"{second}weight": W2, f"{second}bias": b2, f"{first}weight": W1, f"{first}bias": b1
    }  # fmt: skip
    assert same(load_network(write(**tensors)), RELU)
    del tensors[f"{first}bias"]
    assert same(load_network(write(**tensors)), ReluNetwork([W1, W2], [np.zeros(2), b2]))


def test_functions_are_read(write):
    plus, minus = MaxAffine(W1, b1), MaxAffine(W2.T, b1)
    tensors = {"plus.W": W1, "plus.b": b1, "minus.W": W2.T, "minus.b": b1}
    assert same(load_network(write(**tensors)), PiecewiseLinear(plus, minus))
    assert same(load_network(write(**{"plus.W": W1, "plus.b": b1})), PiecewiseLinear(plus))
    hat = load_network(write(knots=np.array([-1.0, 0, 1]), values=np.array([0.0, 1, 0])))
    assert same(hat, PiecewiseLinear.from_knots([-1, 0, 1], [0, 1, 0]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_short_floats_become_float64_without_loss(tmp_path, dtype):
    numbers = torch.tensor([[1 / 3, -7e-8, 0.0], [3e38 if dtype is torch.bfloat16 else 6e4, 1, -2]])
    W = numbers.to(dtype)
    save_torch_file({"W1": W, "b1": W[:, 0].contiguous()}, tmp_path / "network.safetensors")
    network = load_network(tmp_path / "network.safetensors")
    assert network.weights[0].tolist() == W.double().tolist()


class Bomb:
    """What a pickle may do when it is opened."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


def npz(**tensors):
    return lambda path: np.savez(path, **tensors)


def text(content):
    return lambda path: path.write_bytes(content)


def zipped(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("W1.npy", b"\x93NUMPY\x09\x09 and no array")


def single(path):
    with path.open("wb") as file:
        np.save(file, W1)


BAD_FILES = [
    ("missing.npz", lambda path: None, "There is no file .*missing.npz"),
    ("folder.npz", Path.mkdir, "is a folder"),
    ("network.pt", text(b""), "neither .npz nor .safetensors"),
    ("text.npz", text(b"not a network"), "could not be read as arrays"),
    ("empty.npz", text(b""), "could not be read"),
    ("pickle.npz", text(pickle.dumps(Bomb())), "could not be read"),
    ("zip.npz", zipped, "could not be read"),
    ("array.npz", single, "holds a single array"),
    ("objects.npz", npz(W1=np.array([Bomb()], dtype=object)), "pickled objects in W1"),
    ("names.npz", npz(seed=np.array(3)), "holds no weights; name them W1, b1"),
    (
        "ranks.npz",
        npz(W1=W1[None], b1=b1[None], W2=W2, b2=b2),
        "mixes the matrix W2 .* stack .* W1",
    ),
    ("bias.npz", npz(W1=W1, b1=b1, W2=W2), "bias.npz is no network: The tensor b2 is missing"),
    ("gap.npz", npz(W1=W1, b1=b1, W3=W2, b3=b2), "The tensor W2 is missing"),
    ("zero.npz", npz(W0=W1, b0=b1), "The tensor W1 is missing"),
    ("mixture.npz", npz(**LAYERS, knots=b1), "It holds W1 and knots, which do not go together"),
    ("complex.npz", npz(W1=W1 * 1j, b1=b1), "The tensor W1 holds complex128"),
    ("long.npz", npz(W1=np.array([[2**53 + 1]]), b1=b1[:1]), "The tensor W1 holds int64"),
    ("words.npz", npz(W1=np.array([["a"]]), b1=b1), "The tensor W1 holds <U1"),
    (
        "kind.npz",
        npz(**LAYERS, **{"hardmax.kind": np.array("spline")}),
        "no target of kind 'spline'",
    ),
    ("values.npz", npz(knots=b1), "The tensor values is missing"),
    (
        "order.npz",
        npz(**{"up.weight": W1, "down.weight": W2}),
        "Nothing says whether .* comes first",
    ),
    ("norm.npz", npz(**{"0.weight": W1, "1.weight": b1}), r"1.weight has shape \(2,\)"),
    ("lone.npz", npz(**{"0.weight": W1, "1.bias": b1}), "The tensor 1.weight is missing"),
    ("mean.npz", npz(**{"0.weight": W1, "1.running_mean": b1}), "also holds 1.running_mean"),
    ("text.safetensors", text(b"not a network"), "could not be read as a .safetensors file"),
    ("empty.safetensors", text(b""), "could not be read"),
]


@pytest.mark.parametrize(
    ("name", "make", "complaint"), BAD_FILES, ids=[bad[0] for bad in BAD_FILES]
)
def test_bad_files_are_refused_by_name(tmp_path, monkeypatch, name, make, complaint):
    monkeypatch.chdir(tmp_path)
    make(tmp_path / name)
    with pytest.raises(hm.FileError, match=complaint) as refusal:
        load_network(tmp_path / name)
    assert name in str(refusal.value)
    assert not Path("exploded").exists()


def test_bad_shapes_are_refused_by_name(tmp_path):
    np.savez(tmp_path / "shape.npz", W1=W1, b1=b1, W2=W1, b2=b1)
    with pytest.raises(hm.ShapeError, match=r"shape.npz is no network: Layer 2 reads 1 numbers"):
        load_network(tmp_path / "shape.npz")
    np.savez(tmp_path / "flat.npz", W1=b1, b1=b1)
    with pytest.raises(hm.ShapeError, match=r"flat.npz .* must have 2 dimensions"):
        load_network(tmp_path / "flat.npz")


def test_eight_bit_floats_are_refused(tmp_path):
    W = torch.ones(1, 1).to(torch.float8_e4m3fn)
    save_torch_file({"W1": W}, tmp_path / "network.safetensors")
    with pytest.raises(hm.FileError, match="holds W1 as F8_E4M3"):
        load_network(tmp_path / "network.safetensors")


def test_damage_is_noticed_or_harmless(write):
    """A truncated file is refused; a file with one byte changed never raises a foreign error."""
    path = write(**LAYERS)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(hm.FileError):
            load_network(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            load_network(path)
        except (hm.FileError, hm.ShapeError):
            continue


def test_saving_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "network.npz"
    save_network(RELU, path)
    before = path.read_bytes()

    def broken(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(hm.FileError, match=r"could not be written \(.*No space left on device"):
        save_network(RELU, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["network.npz"]


def test_saving_refuses_bad_places_and_things(tmp_path):
    with pytest.raises(hm.FileError, match=r"must end in \.npz"):
        save_network(RELU, tmp_path / "network.txt")
    with pytest.raises(hm.FileError, match="could not be written"):
        save_network(RELU, tmp_path / "nowhere" / "network.npz")
    with pytest.raises(hm.FileError, match="A list cannot be saved as a network"):
        save_network([W1], tmp_path / "network.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(hm.FileError, match="is a directory: name a file"):
        save_network(RELU, tmp_path / "folder.npz")
    assert os.listdir(tmp_path) == ["folder.npz"]


RECTIFIER = nn.ReLU()


def dyadic(module):
    """The module with weights k/8, so that PyTorch rounds nothing at inputs k/4."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_((8 * parameter).round() / 8)
    return module


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 2)),
        nn.Sequential(nn.Linear(3, 5), RECTIFIER, nn.Linear(5, 5), RECTIFIER, nn.Linear(5, 2)),
        nn.Sequential(nn.Flatten(), nn.Linear(3, 4, bias=False), nn.ReLU(), nn.Identity(),
                      nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 2)), nn.Dropout()),
        nn.Sequential(nn.Linear(3, 2)),
        nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)).double(),
    ],
)  # fmt: skip
def test_from_torch_computes_what_torch_computes(module):
    module = dyadic(module).eval()
    network = ReluNetwork.from_torch(module)
    x = np.random.default_rng(0).integers(-8, 9, size=(50, 3)) / 4
    expected = module(torch.tensor(x, dtype=next(module.parameters()).dtype))
    assert network(x).tolist() == expected.tolist()


def test_from_torch_keeps_every_bit():
    module = nn.Sequential(nn.Linear(3, 2)).to(torch.bfloat16)
    network = ReluNetwork.from_torch(module)
    assert network.weights[0].tolist() == module[0].weight.double().tolist()
    assert network.biases[0].tolist() == module[0].bias.double().tolist()


class Mystery(nn.Linear):
    """A linear layer by name only."""


@pytest.mark.parametrize(
    ("module", "complaint"),
    [
        (
            nn.Sequential(nn.Linear(1, 1), nn.Tanh(), nn.Linear(1, 1)),
            "Module 1 is Tanh, but an nn.ReLU",
        ),
        (nn.Sequential(nn.Linear(1, 1), nn.Linear(1, 1)), "Module 1 is Linear, but an nn.ReLU"),
        (nn.Sequential(nn.ReLU(), nn.Linear(1, 1)), "Module 0 is ReLU, but an nn.Linear"),
        (nn.Sequential(nn.Linear(1, 1), nn.ReLU()), "Module 1 is ReLU, but nothing may follow"),
        (nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.GELU())), "Module 0.1 is GELU"),
        (nn.Sequential(Mystery(1, 1)), "Module 0 is Mystery"),
        (nn.Sequential(), "The module is Sequential, but .* there must be one"),
        (nn.LSTM(1, 1), "The module is LSTM, but an nn.Linear"),
        ("network", "The module is str"),
    ],
)
def test_from_torch_names_what_it_cannot_read(module, complaint):
    with pytest.raises(hm.RequestError, match=complaint):
        ReluNetwork.from_torch(module)


def test_from_torch_says_how_to_get_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(hm.MissingExtra, match=r"pip install 'hardmax\[torch\]'"):
        ReluNetwork.from_torch(None)
