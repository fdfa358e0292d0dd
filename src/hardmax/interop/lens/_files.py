"""A folder for TransformerLens: its config, its weights, the labels of its hooks; and back.

`config.json` holds fields of HookedTransformerConfig and nothing else, `model.safetensors` its
weights by their names there, `legend.json` the labels of hooks, tokens and classes: whoever has
TransformerLens and not hardmax makes a model of these three. `circuit.json`, of a legible model,
says which step is in which coordinates behind which hook, and who reads it. `hardmax.safetensors`
is the construction, with target and claim; a reader takes from it how answers are decoded, and no
weight.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._atomic import write_atomically
from hardmax._errors import FileError, HardmaxError, RequestError
from hardmax._reading import naming, path_of, read_file
from hardmax.core import Construction
from hardmax.interop import _safetensors
from hardmax.interop._hooks import circuit_record, lens_streams
from hardmax.interop.huggingface._tensors import from_bytes, to_bytes
from hardmax.interop.lens._models import lens_model
from hardmax.interop.lens._parts import LensParts, lens_config, lens_parts
from hardmax.languages import decode_target

if TYPE_CHECKING:
    from transformer_lens import HookedTransformer
    from transformer_lens.model_bridge import TransformerBridge

CONFIG, WEIGHTS, LEGEND = "config.json", "model.safetensors", "legend.json"
DESCRIPTION, CIRCUIT = "hardmax.safetensors", "circuit.json"


@dataclass(frozen=True)
class LensFiles:
    """Where a model was written, in which format, and with which mask.

    >>> import hardmax as hm, tempfile
    >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    >>> written = hm.interop.export_lens_files(model, tempfile.mkdtemp())
    >>> written.dtype, written.attention, sorted(file.name for file in written.folder.iterdir())[:2]
    ('float64', 'bidirectional', ['config.json', 'hardmax.safetensors'])
    """

    folder: Path
    dtype: str
    attention: str


def export_lens_files(
    construction: Construction, folder: str | os.PathLike[str], dtype: str | None = None
) -> LensFiles:
    """Write what `write_transformer_lens` would return as a folder; TransformerLens is not needed.

    What does not fit is refused as there. Each file is put in its place at once.
    """
    path = path_of(folder)
    parts = lens_parts(construction, dtype)
    if parts.construction.claim.target.encode() is None:
        raise RequestError(
            "The target cannot be stored, and a folder without it could not decode its answers: "
            "write_transformer_lens(construction) makes the model at once."
        )
    files = {
        CONFIG: _json(lens_config(parts)),
        WEIGHTS: to_bytes(parts.tensors, parts.format),
        LEGEND: _json(_legend(parts)),
        DESCRIPTION: _safetensors.to_bytes(parts.construction, None),
    }
    if parts.construction.circuit is not None:
        files[CIRCUIT] = _json(_circuit(parts))
    with naming(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
            if CIRCUIT not in files:
                (path / CIRCUIT).unlink(missing_ok=True)  # of a model that was here before
        except OSError as reason:
            raise FileError(f"could not be written ({reason.strerror}).") from reason
        for name, data in files.items():
            write_atomically(path / name, data)
    return LensFiles(path, parts.format.name, str(lens_config(parts)["attention_dir"]))


def read_lens_files(folder: str | os.PathLike[str]) -> HookedTransformer | TransformerBridge:
    """The model of a folder of `export_lens_files`, with the weights that are stored in it.

    A HookedTransformer with TransformerLens 3.9, a TransformerBridge with 4.x, as from
    `write_transformer_lens`. Config and labels must be those of the construction beside them.

    >>> import tempfile
    >>> sort = hm.compile(hm.programs.sort, alphabet="abc", length=4)
    >>> written = hm.interop.export_lens_files(sort, tempfile.mkdtemp())
    >>> model = hm.interop.read_lens_files(written.folder)
    >>> model.decode(model(model.encode("cab")))
    [['a', 'b', 'c']]
    """
    return lens_model(read_lens_parts(folder))


def read_lens_parts(folder: str | os.PathLike[str]) -> LensParts:
    """What a folder holds; this does not need TransformerLens."""
    path = path_of(folder)
    files: dict[str, bytes] = {}
    names = [CONFIG, WEIGHTS, LEGEND, DESCRIPTION]
    for name in [*names, CIRCUIT] if (path / CIRCUIT).exists() else names:
        with naming(path / name):
            files[name] = read_file(path / name)
    with naming(path):
        try:
            return _read(files)
        except FileError:
            raise
        except HardmaxError as reason:
            raise FileError(f"holds parts that do not make a model: {reason}") from reason
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as reason:
            raise FileError("has a malformed config, legend or description.") from reason


def read_lens_construction(folder: str | os.PathLike[str]) -> Construction:
    """The construction whose weights, in the stored format, are bit for bit those of a folder.

    TransformerLens adds no norm, so that what is certified of this construction in its claim's
    format is about the folder's weights. Where they were altered, there is none, and the folder is
    refused.
    """
    path = path_of(folder)
    parts = read_lens_parts(path)
    with naming(path):
        meant = lens_parts(parts.construction, parts.format.name).tensors
        for name, array in parts.tensors.items():
            if not np.array_equal(array, meant[name]):
                raise FileError(f"has weights {name} that are not those of its {DESCRIPTION}.")
    return parts.construction


def _read(files: Mapping[str, bytes]) -> LensParts:
    stored = _safetensors.from_bytes(files[DESCRIPTION])
    if stored.encoded_target is None:
        raise FileError("does not hold the target of its claim.")
    tensors, dtype = from_bytes(files[WEIGHTS])
    parts = lens_parts(stored.join(decode_target(stored.encoded_target)), dtype)
    said = {CONFIG: lens_config(parts), LEGEND: _legend(parts), CIRCUIT: _circuit(parts)}
    for name, meant in said.items():
        if name in files and json.loads(files[name]) != json.loads(_json(meant)):
            raise FileError(f"has a {name} that is not that of the construction beside it.")
    if sorted(tensors) != sorted(parts.tensors):
        odd = sorted(set(tensors) ^ set(parts.tensors))
        raise FileError(f"lacks weights, or has foreign ones: {odd[0]}.")
    for name, array in parts.tensors.items():
        if tensors[name].shape != array.shape:
            raise FileError(
                f"has weights {name} of shape {tensors[name].shape}, but its config says "
                f"{array.shape}."
            )
    return replace(parts, tensors=tensors)


def _legend(parts: LensParts) -> dict[str, object]:
    """Labels of hooks; texts of tokens, and of the classes with the numbers they are coded by."""
    labels = parts.labels
    return {
        "hooks": parts.legend,
        "tokens": parts.ids.tokens if parts.ids.symbols else [],
        "answers": [] if labels is None else labels.texts,
        "codes": [] if labels is None else labels.codes,
    }


def _circuit(parts: LensParts) -> dict[str, object] | None:
    """The circuit of a legible model, in the heads, coordinates and hooks of these weights."""
    circuit = parts.construction.circuit
    if circuit is None:
        return None
    return circuit_record(circuit, lens_streams(parts.construction.transformer.sublayers))


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()
