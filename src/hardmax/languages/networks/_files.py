"""Networks in files: NumPy archives and safetensors, never pickle."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._archives import arrays_in, is_archive
from hardmax._atomic import write_atomically
from hardmax._errors import FileError, ShapeError
from hardmax._reading import naming, read_file
from hardmax.core import EncodedTarget, Target
from hardmax.languages._decoding import decode_target
from hardmax.languages.networks._max_affine import MaxAffine
from hardmax.languages.networks._maxout import MaxoutNetwork
from hardmax.languages.networks._names import checked_reals, network_of
from hardmax.languages.networks._piecewise import PiecewiseLinear
from hardmax.languages.networks._relu import ReluNetwork

Network = ReluNetwork | MaxoutNetwork | MaxAffine | PiecewiseLinear

KIND = "hardmax.kind"  # a text beside the tensors: a maximum and one affine layer look the same


def load_network(path: str | os.PathLike[str]) -> Target:
    """The network in an `.npz` or `.safetensors` file, known by the names of its tensors.

    W1, b1, W2, b2, ...                 a ReLU network (2-D W) or a maxout network (3-D W)
    0.weight, 0.bias, 2.weight, ...     a ReLU network as PyTorch names it: any prefix, ordered by
                                        the integers inside, `.bias` may be missing
    plus.W, plus.b, minus.W, minus.b    a piecewise linear function; minus may be missing
    knots, values                       the interpolant of one variable

    Whatever else an archive holds (a seed, the widths) is passed over. float16, bfloat16 and
    float32 become float64 without loss. A file with pickled objects inside is refused.
    """
    path = Path(path)
    tensors = _read(path)
    try:
        kind = tensors.pop(KIND, None)
        if kind is None:
            return network_of(tensors)
        network = decode_target(EncodedTarget(str(kind), "", dict(checked_reals(tensors))))
        if not isinstance(network, Target):
            raise FileError(f"it holds a {kind}.")
        return network
    except (FileError, ShapeError) as reason:
        raise type(reason)(f"{path} is no network: {reason}") from reason


def _read(path: Path) -> dict[str, np.ndarray]:
    readers = {".npz": _read_npz, ".safetensors": _read_safetensors}
    reader = readers.get(path.suffix.lower())
    if not path.exists():
        raise FileError(f"There is no file {path}. Check the name and the folder.")
    if path.is_dir():
        raise FileError(f"{path} is a folder. Name a .npz or .safetensors file inside it.")
    if reader is None:
        raise FileError(
            f"{path} is neither .npz nor .safetensors. Save the network as one of them."
        )
    with naming(path):
        data = read_file(path)
    try:
        return reader(path, data)
    except FileError:
        raise
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError(
            f"{path} could not be read as a {path.suffix} file: it is foreign, truncated or "
            f"altered. Save the network again."
        ) from reason


def _read_npz(path: Path, data: bytes) -> dict[str, np.ndarray]:
    if not is_archive(data):
        raise FileError(f"{path} holds a single array. Save all weights with numpy.savez.")
    with naming(path):
        return arrays_in(data)


_DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "BOOL": "?"}
_DTYPES |= {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}


def _read_safetensors(path: Path, data: bytes) -> dict[str, np.ndarray]:
    from safetensors import deserialize

    return {name: _tensor(path, name, entry) for name, entry in deserialize(data)}


def _tensor(path: Path, name: str, entry: dict[str, Any]) -> np.ndarray:
    dtype = entry["dtype"]
    if dtype not in _DTYPES:
        raise FileError(f"{path} holds {name} as {dtype}. Save it as float32 or float64.")
    array = np.frombuffer(entry["data"], dtype=_DTYPES[dtype])
    if dtype == "BF16":  # the upper half of a float32
        array = (array.astype("<u4") << 16).view("<f4")
    return array.reshape(entry["shape"])


def save_network(network: Network, path: str | os.PathLike[str]) -> None:
    """Write a network as `.npz`, whole or not at all: `load_network` gives back the same one.

    What stood there before stays until the new file is complete.
    """
    path = Path(path)
    if not isinstance(network, Network):
        raise FileError(f"A {type(network).__name__} cannot be saved as a network.")
    if path.suffix.lower() != ".npz":
        raise FileError(f"{path} must end in .npz, the format that save_network writes.")
    encoded = network.encode()
    tensors: dict[str, Any] = {**encoded.tensors, KIND: np.array(encoded.kind)}
    archive = io.BytesIO()
    np.savez(archive, **tensors)
    with naming(path):
        write_atomically(path, archive.getvalue())
