"""The files that are corrupted and forged: one of every kind that hardmax reads."""

from __future__ import annotations

import io
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

import hardmax as hm

FUNCTIONS = ("x*y + 1/3", "max(x, -x, 0.5)**2 - abs(y)", "exp(-x)*sin(2*y) / (1 + x**2)")
PROGRAMS = (
    "turned = tokens.at(length - 1 - index)",
    "before = there(index) < index\nrank = ((there(tokens) < tokens) | "
    "((there(tokens) == tokens) & before)).count()\nsorted = (there(rank) == index).only(tokens)",
    "(there(tokens) == tokens).count().map({1: 'a', 2: 'b'})",
)
SQUARE = "[-1,1]^2"


@dataclass(frozen=True)
class Specimen:
    """A file as it should be."""

    kind: str  # model | graph | network | checkpoint | function | program | points
    suffix: str
    data: bytes


@cache
def specimens() -> tuple[Specimen, ...]:
    """One file of every kind, as hardmax and its neighbours write them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        return (
            *_models(folder),
            *(Specimen("graph", ".onnx", data) for data in _graphs(folder)),
            *_networks(folder),
            Specimen("checkpoint", ".npz", _checkpoint(folder)),
            *(Specimen("function", ".txt", text.encode()) for text in FUNCTIONS),
            *(Specimen("program", ".txt", text.encode()) for text in PROGRAMS),
            Specimen("points", ".npy", _npy(np.linspace(0, 1, 8).reshape(4, 2))),
            Specimen("points", ".npz", _npz(points=np.linspace(0, 1, 8).reshape(4, 2))),
            Specimen("points", ".csv", b"0.1, 0.2\n0.3 0.4\n\n1e-3, 1\n"),
        )


def network() -> hm.ReluNetwork:
    """The network behind the checkpoint, with a few dozen cells on the square."""
    rng = np.random.default_rng(5)
    weights = [rng.normal(size=(5, 2)), rng.normal(size=(4, 5)), rng.normal(size=(1, 4))]
    return hm.ReluNetwork(weights, [rng.normal(size=len(W)) / 4 for W in weights])


def _models(folder: Path) -> list[Specimen]:
    tent = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0, -2.0]]], [[0.0, -0.5], [0.25]])
    made = [
        hm.compile("x", on={"x": (0, 1)}, error=0.1),
        hm.compile("x*y", on={"x": (0, 1), "y": (0, 1)}, error=0.05),
        hm.compile(tent, on=SQUARE, error=0.1),
        hm.compile(tent, on=SQUARE, error=None, route="attention-only"),
        hm.compile(hm.programs.reverse, alphabet="ab", length=3),
        hm.compile(hm.programs.counter("a", 2), alphabet="ab", length=3),
    ]
    files = []
    for construction in made:
        certificate = replace(hm.certify(construction), seconds=0.25)  # equal files every time
        hm.save(construction, folder / "m", certificate)
        files.append(Specimen("model", ".safetensors", (folder / "m").read_bytes()))
    hm.save(made[0], folder / "m")
    return [*files, Specimen("model", ".safetensors", (folder / "m").read_bytes())]


def exported() -> list[hm.Construction]:
    """The models behind the ONNX files."""
    return [
        hm.compile("x*y", on={"x": (0, 1), "y": (0, 1)}, error=0.05),
        hm.compile(hm.programs.seen_before, alphabet="ab", length=3),
    ]


def _graphs(folder: Path) -> list[bytes]:
    for number, construction in enumerate(exported()):
        hm.interop.write_onnx(construction, folder / str(number))
    return [(folder / str(number)).read_bytes() for number in range(2)]


def _networks(folder: Path) -> list[Specimen]:
    from safetensors.numpy import save

    hm.save_network(network(), folder / "n.npz")
    layers = {"W1": np.eye(2), "b1": np.zeros(2), "W2": np.ones((1, 2)), "b2": np.ones(1)}
    torch = {"0.weight": np.eye(2), "0.bias": np.zeros(2), "2.weight": np.ones((1, 2))}
    maxout = {"W1": np.arange(8.0).reshape(2, 2, 2), "b1": np.zeros((2, 2))}
    knots = {"knots": np.linspace(0, 1, 5), "values": np.array([0.0, 1, 0, 1, 0])}
    archives = [_npz(**layers), _npz(**maxout), _npz(**knots), (folder / "n.npz").read_bytes()]
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **layers)
    return [
        *(Specimen("network", ".npz", data) for data in [*archives, buffer.getvalue()]),
        Specimen("network", ".safetensors", save(torch)),
        Specimen("network", ".safetensors", save({k: v.astype("f4") for k, v in torch.items()})),
    ]


def _checkpoint(folder: Path) -> bytes:
    place = folder / "c.npz"
    hm.regions(network(), on=SQUARE, checkpoint=place).as_dict()
    return place.read_bytes()


def _npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # names are names of arrays
    return buffer.getvalue()
