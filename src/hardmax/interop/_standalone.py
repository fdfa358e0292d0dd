"""Folders that run by themselves: weights, structure, and one readable file of Python.

The file of Python is the same for every model: nothing of a model is ever turned into code. It
lies in `standalone` as any other module, is tested as such, and is copied as it stands.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from hardmax._atomic import write_atomically
from hardmax._errors import FileError, RequestError
from hardmax._reading import naming, path_of
from hardmax.core import Construction
from hardmax.interop._about import about
from hardmax.interop._runnable import runnable
from hardmax.interop._standard_form import refuse_hard_heads
from hardmax.numerics import format_named

FRAMEWORKS = ("torch", "jax")
DTYPES = ("float64", "float32", "float16")
WEIGHTS, CONFIG, CODE = "params.safetensors", "config.json", "model.py"
EMBEDDING = "input"  # what model.py calls what makes the stream


@dataclass(frozen=True)
class StandaloneFolder:
    """Where a model was written, for which framework and in which format.

    >>> import tempfile
    >>> model = hm.compile("x*y", on="[-1,1]^2")
    >>> written = hm.interop.write_standalone(model, tempfile.mkdtemp(), "torch")
    >>> sorted(path.name for path in written.folder.iterdir())
    ['config.json', 'model.py', 'params.safetensors']
    """

    folder: Path
    framework: str
    dtype: str


def write_standalone(
    construction: Construction,
    folder: str | os.PathLike[str],
    framework: str,
    *,
    dtype: str = "float64",
    certificate: Mapping[str, object] | None = None,
) -> StandaloneFolder:
    """Write a folder that runs a construction in PyTorch or JAX, without hardmax.

    `framework` is "torch" or "jax". `model.py` is a file of some 150 lines, for people to read and
    to change, and the same for every model; it loads `params.safetensors`, the weights, and
    `config.json`, their structure with claim, legend, circuit, codes and certificate. Nothing is a
    pickle. The weights are rounded as by `write_onnx`, and what is refused there is refused here.
    Neither framework is needed for writing.

    >>> import tempfile
    >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    >>> hm.interop.write_standalone(model, tempfile.mkdtemp(), "jax", dtype="float32").dtype
    'float32'
    """
    if not isinstance(construction, Construction):
        raise RequestError(
            f"write_standalone takes a Construction, as hm.compile makes it, not a "
            f"{type(construction).__name__}."
        )
    if framework not in FRAMEWORKS:
        raise RequestError(f"framework is one of {', '.join(FRAMEWORKS)}, not {framework!r}.")
    path, format = path_of(folder), format_named(dtype)
    if format.name not in DTYPES:
        raise RequestError(f"A folder's dtype is one of {', '.join(DTYPES)}, not {dtype!r}.")
    refuse_hard_heads(construction.transformer)
    made = runnable(construction.transformer, format)
    with naming(path):
        data = {
            WEIGHTS: _weights(made.arrays, format.name),
            CONFIG: _config(about(construction, made, certificate, EMBEDDING)),
            CODE: (files("hardmax.interop.standalone") / f"{framework}_model.py").read_bytes(),
        }
        _put(path, data)
    return StandaloneFolder(path, framework, format.name)


def _config(said: Mapping[str, object]) -> bytes:
    return (json.dumps(said, indent=1) + "\n").encode()


def _weights(arrays: Mapping[str, np.ndarray], dtype: str) -> bytes:
    from safetensors.numpy import save

    kind = np.dtype(dtype).newbyteorder("<")
    return bytes(save({name: array.astype(kind) for name, array in arrays.items()}))


def _put(path: Path, data: Mapping[str, bytes]) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as reason:
        raise FileError(f"could not be written ({reason.strerror}).") from reason
    for name, content in data.items():
        write_atomically(path / name, content)
