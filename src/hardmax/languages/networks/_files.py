"""Networks in files: NumPy archives, safetensors and ONNX, never pickle."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import TypedDict

import numpy as np

from hardmax._archives import arrays_in, is_archive
from hardmax._atomic import write_atomically
from hardmax._errors import FileError, RequestError, ShapeError
from hardmax._reading import naming, path_of, read_file
from hardmax.core import EncodedTarget, Target
from hardmax.languages._decoding import decode_target
from hardmax.languages.networks._from_onnx import onnx_program
from hardmax.languages.networks._layered import LayeredNetwork, simplest_network
from hardmax.languages.networks._max_affine import MaxAffine
from hardmax.languages.networks._maxout import MaxoutNetwork
from hardmax.languages.networks._names import checked_reals, network_of
from hardmax.languages.networks._piecewise import PiecewiseLinear
from hardmax.languages.networks._relu import ReluNetwork

Network = ReluNetwork | MaxoutNetwork | MaxAffine | PiecewiseLinear | LayeredNetwork

KIND = "hardmax.kind"  # a text beside the tensors: a maximum and one affine layer look the same
_FORMATS = (".npz", ".safetensors", ".onnx")
_PICKLES = (".pt", ".pth", ".pkl", ".pickle", ".ckpt")


def load_network(path: str | os.PathLike[str]) -> Target:
    """The network in an `.npz`, `.safetensors` or `.onnx` file.

    Archives are known by the names of their tensors:

    W1, b1, W2, b2, ...                 a ReLU network (2-D W) or a maxout network (3-D W)
    0.weight, 0.bias, 2.weight, ...     a ReLU network as PyTorch names it: any prefix, ordered by
                                        the integers inside, `.bias` may be missing
    plus.W, plus.b, minus.W, minus.b    a piecewise linear function; minus may be missing
    knots, values                       the interpolant of one variable
    0.inputs, 1.affine.sources, ...     a layered network, as `save_network` writes it

    Whatever else an archive holds (a seed, the widths) is passed over. float16, bfloat16 and
    float32 become float64 without loss. A file with pickled objects inside is refused.

    An ONNX graph becomes a `LayeredNetwork` of one input (a batch in front is 1), or a
    `ReluNetwork` if it is one; `languages/networks/operators` holds the node types that are read,
    and says what is rounded.

        >>> save_network(ReluNetwork([[[2.0, 0.0]]], [[0.5]]), "line.npz")
        >>> load_network("line.npz")
        ReluNetwork(2-1, 3 parameters)
    """
    path = path_of(path)
    _check_name(path)
    with naming(path):
        data = read_file(path)
        tensors = None if path.suffix.lower() == ".onnx" else _tensors(path, data)
    try:
        if tensors is None:
            return simplest_network(LayeredNetwork(onnx_program(path, data)))
        return _network_of(tensors)
    except (FileError, ShapeError, RequestError) as reason:
        raise type(reason)(f"{path} is no network: {reason}") from reason


def _network_of(tensors: dict[str, np.ndarray]) -> Target:
    kind = tensors.pop(KIND, None)
    if kind is None:
        return network_of(tensors)
    network = decode_target(EncodedTarget(str(kind), "", dict(checked_reals(tensors))))
    if not isinstance(network, Target):
        raise FileError(f"it holds a {kind}.")
    return network


def _check_name(path: Path) -> None:
    suffix = path.suffix.lower()
    if not path.exists():
        raise FileError(f"There is no file {path}. Check the name and the folder.")
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a .npz or .safetensors file inside it.")
    if suffix in _PICKLES:
        raise FileError(
            f"{path} is a pickle, which may run anything when it is opened: {suffix} files are "
            f"neither .npz nor .safetensors nor .onnx. Load it where you trust it, and give the "
            f"module to hm.from_torch, or its weights to safetensors.torch.save_file."
        )
    if suffix not in _FORMATS:
        raise FileError(
            f"{path} is neither .npz nor .safetensors nor .onnx. Save the network as one of them."
        )


def _tensors(path: Path, data: bytes) -> dict[str, np.ndarray]:
    try:
        return (_read_npz if path.suffix.lower() == ".npz" else _read_safetensors)(data)
    except FileError:
        raise
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(
            f"could not be read as a {path.suffix} file: it is foreign, truncated or altered. "
            f"Save the network again."
        ) from reason


def _read_npz(data: bytes) -> dict[str, np.ndarray]:
    if not is_archive(data):
        raise FileError("holds a single array. Save all weights with numpy.savez.")
    return arrays_in(data)


_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?"}
_DTYPES |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}


class _Entry(TypedDict):
    """A tensor as safetensors gives it."""

    dtype: str
    shape: list[int]
    data: bytes


def _read_safetensors(data: bytes) -> dict[str, np.ndarray]:
    from safetensors import deserialize

    tensors = {name: _tensor(name, entry) for name, entry in deserialize(data)}
    header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    kind = header.get("__metadata__", {}).get(KIND)
    return tensors if kind is None else {**tensors, KIND: np.array(kind)}


def _tensor(name: str, entry: _Entry) -> np.ndarray:
    dtype = entry["dtype"]
    if dtype not in _DTYPES:
        raise FileError(f"holds {name} as {dtype}. Save it as float32 or float64.")
    array = np.frombuffer(entry["data"], dtype=_DTYPES[dtype])
    if dtype == "BF16":  # the upper half of a float32
        array = (array.astype("<u4") << 16).view("<f4")
    return array.reshape(entry["shape"])


def save_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network as `.npz` or `.safetensors`, whole or not at all.

    `load_network` gives back the same one. What stood there before stays until the new file is
    complete.

        >>> save_network(PiecewiseLinear.from_knots([-1, 0, 1], [0, 1, 0]), "hat.safetensors")
    """
    path = path_of(path)
    if not isinstance(network, Network):
        raise FileError(f"A {type(network).__name__} cannot be saved as a network.")
    if path.suffix.lower() not in (".npz", ".safetensors"):
        raise FileError(
            f"{path} must end in .npz or .safetensors, the formats that save_network writes."
        )
    write = _npz if path.suffix.lower() == ".npz" else _safetensors
    with naming(path):
        write_atomically(path, write(network.encode()))


def _npz(encoded: EncodedTarget) -> bytes:
    tensors: dict[str, np.ndarray] = {**encoded.tensors, KIND: np.array(encoded.kind)}
    archive = io.BytesIO()
    np.savez(archive, **tensors)  # type: ignore[arg-type]  # names are not options
    return archive.getvalue()


def _safetensors(encoded: EncodedTarget) -> bytes:
    from safetensors.numpy import save

    tensors = {name: np.ascontiguousarray(array) for name, array in encoded.tensors.items()}
    return save(tensors, metadata={KIND: encoded.kind})
