"""Models as ONNX files, written without PyTorch and read back as Transformers.

The metadata of a file is a few texts. `hardmax.structure` says how its weights make a Transformer,
and `hardmax.fingerprint` which one; the others are for people and tools: the claim, the
certificate, labels for everything in the graph that has a name, and the codes of a program's
answers. Reading believes none of it. A Transformer is made of the structure and the weights, the
graph of this Transformer is drawn once more, and only a file that holds just this graph is read:
what comes back is what any runtime computes. The fingerprint tells the original from alterations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

import numpy as np

from hardmax._atomic import write_atomically
from hardmax._errors import FileError, HardmaxError, RequestError
from hardmax._reading import naming, path_of, read_file
from hardmax._version import __version__
from hardmax.core import Construction, Transformer, fingerprint
from hardmax.interop._about import FORMAT, about, canonical
from hardmax.interop._guests import check_guest
from hardmax.interop._onnx_graph import IR_VERSION, OPSET, graph_of
from hardmax.interop._runnable import Structure, runnable, transformer_of
from hardmax.interop._standard_form import refuse_hard_heads
from hardmax.numerics import Format, format_named

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

DTYPES = ("float64", "float32", "float16")
_PREFIX = "hardmax."


def write_onnx(
    construction: Construction,
    path: str | os.PathLike[str],
    *,
    dtype: str = "float64",
    certificate: Mapping[str, object] | None = None,
) -> None:
    """Write a construction as an ONNX file that any runtime runs.

    Of words it takes symbol numbers, `ids` (batch x length, int64); of real inputs `x`, (batch x
    inputs) in `dtype`, which is "float64", "float32" or "float16". It returns `outputs`. Batch and
    length are open. Every weight is rounded to the format to nearest, after a coldness is
    multiplied into the query weights; so a certificate's bound for that format is about this file
    (see `write_torch`). A weight beyond the format's range is refused, and so is a hardmax.

    The metadata holds claim, legend and codes, and the certificate if one is given: plain data,
    `hm.certify(model).as_dict()`, about these very weights. Equal models are equal bytes, and the
    file at `path` is replaced at once or not at all. Needs the extra `onnx`, and no PyTorch.

    >>> import onnxruntime, tempfile
    >>> model = hm.compile("x*y", on="[-1,1]^2")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     hm.interop.write_onnx(model, f"{folder}/product.onnx", dtype="float32")
    ...     session = onnxruntime.InferenceSession(f"{folder}/product.onnx")
    >>> x = np.array([[0.5, -0.5], [1.0, 0.25]], dtype=np.float32)
    >>> session.run(["outputs"], {"x": x})[0].round(3).tolist()
    [[-0.25], [0.25]]
    """
    if not isinstance(construction, Construction):
        raise RequestError(
            f"write_onnx takes a Construction, as hm.compile makes it, not a "
            f"{type(construction).__name__}."
        )
    path_of(path)
    format = _format(dtype)
    check_guest("onnx")
    refuse_hard_heads(construction.transformer)
    with naming(path):
        write_atomically(path, to_bytes(construction, format, certificate))


def read_onnx(path: str | os.PathLike[str]) -> Transformer:
    """The Transformer in a file that `write_onnx` wrote; anything else is refused in one sentence.

    In float64 it is the one that was written, bit for bit; in a lower format it has the weights
    that are stored. Whatever a file says of itself is checked: the graph has to be the one that
    this Transformer makes. (A network in ONNX, which is to be compiled, is for `hm.load_network`.)

    >>> model = hm.compile("x*y", on="[-1,1]^2")
    >>> hm.interop.write_onnx(model, "product.onnx")
    >>> hm.interop.read_onnx("product.onnx")
    Transformer(width 3, 2 tokens, 1 attention and 0 feed-forward sublayers, 1 heads, 1 outputs)
    """
    check_guest("onnx")
    with naming(path):
        return from_bytes(read_file(path))


def _format(dtype: object) -> Format:
    format = format_named(dtype)
    if format.name not in DTYPES:
        raise RequestError(
            f"Runtimes of ONNX do not compute in {format.name}: choose one of {', '.join(DTYPES)}."
        )
    return format


# ---- writing -------------------------------------------------------------------------------------


def to_bytes(
    construction: Construction, format: Format, certificate: Mapping[str, object] | None
) -> bytes:
    from onnx import helper

    made = runnable(construction.transformer, format)
    model = helper.make_model(
        graph_of(made),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="hardmax",
        producer_version=__version__,
    )
    for name, said in about(construction, made, certificate).items():
        text = said if isinstance(said, str) else canonical(said)
        model.metadata_props.add(key=_PREFIX + name, value=text)
    try:
        data: bytes = model.SerializeToString(deterministic=True)
    except (ValueError, RuntimeError) as reason:  # protobuf ends at 2 GB
        raise FileError(f"was not written: it is too large for ONNX ({reason}).") from reason
    return data


# ---- reading -------------------------------------------------------------------------------------


def from_bytes(data: bytes) -> Transformer:
    import onnx

    try:
        model = onnx.load_model_from_string(data)
    except Exception as reason:  # a foreign or damaged file may trip its parser anywhere
        raise FileError("is not an ONNX file, or it is truncated or altered.") from reason
    texts = {prop.key: prop.value for prop in model.metadata_props}
    if _PREFIX + "structure" not in texts:
        raise FileError(
            "is no model that write_onnx wrote: it has no structure of a Transformer in its "
            "metadata. A network in ONNX is for hm.load_network."
        )
    try:
        return _checked(model, texts)
    except FileError:
        raise
    except HardmaxError as reason:
        raise FileError(f"holds parts that do not make a model: {reason}") from reason
    except (
        *(LookupError, TypeError, ValueError, ArithmeticError),
        *(AttributeError, RecursionError, MemoryError),
    ) as reason:
        raise FileError("has a malformed structure in its metadata.") from reason


def _checked(model: ModelProto, texts: Mapping[str, str]) -> Transformer:
    """The Transformer, if this is the file that it makes."""
    if texts.get(_PREFIX + "format") != FORMAT:
        raise FileError(f"was written in another format than {FORMAT}: install a newer hardmax.")
    text = texts[_PREFIX + "structure"]
    structure = json.loads(text)
    format = _format(structure["dtype"])
    arrays = {tensor.name: _array(tensor, format) for tensor in _weights(model)}
    transformer = transformer_of(cast(Structure, structure), arrays)
    made = runnable(transformer, format)
    opsets = [(one.domain, one.version) for one in model.opset_import]
    same = canonical(made.structure) == text and opsets == [("", OPSET)]
    if not same or graph_of(made) != model.graph or model.functions:
        raise FileError(
            "was altered: its graph is not the one that its weights and structure make."
        )
    found = fingerprint(transformer)
    names = ["stored_fingerprint"] + ["fingerprint"] * (format.name == "float64")
    if any(texts.get(_PREFIX + name) != found for name in names):
        raise FileError("was altered: its weights are not those that its fingerprint names.")
    return transformer


def _weights(model: ModelProto) -> list[TensorProto]:
    from onnx import TensorProto

    kinds = [TensorProto.DOUBLE, TensorProto.FLOAT, TensorProto.FLOAT16]
    return [tensor for tensor in model.graph.initializer if tensor.data_type in kinds]


def _array(tensor: TensorProto, format: Format) -> np.ndarray:
    """The numbers that stand in the file itself; what lies elsewhere is not looked for."""
    stored = np.frombuffer(tensor.raw_data, dtype=np.dtype(format.name).newbyteorder("<"))
    return stored.astype(np.float64).reshape(tuple(tensor.dims))
