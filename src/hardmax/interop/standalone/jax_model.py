"""A compiled Transformer in JAX: a tree of arrays, and a pure function for vmap, jit and grad.

This file needs jax, numpy and safetensors, and nothing else. Beside it lie `params.safetensors`,
the weights, and `config.json`: the structure, and for words the alphabet and the codes of answers.

    params, apply, config = load(".")
    apply(params, encode(config, ["cab", "abb"]))       # of a model of words
    apply(params, jax.numpy.array([[0.5, -0.5]]))       # of a model of real numbers

Matrices act from the right, and every product is taken at the highest precision there is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

Structure = Mapping[str, Any]  # as JSON says it
Word = Sequence[str | int]
Params = dict[str, Any]  # "input" and "readout": arrays by name; "layers": one such for each
Apply = Callable[[Params, ArrayLike], jax.Array]


def load(folder: str | Path) -> tuple[Params, Apply, Structure]:
    """The weights, the function, and what else is known of the model (see config.json)."""
    from safetensors.numpy import load_file

    with open(Path(folder) / "config.json", encoding="utf-8") as file:
        config: Structure = json.load(file)
    structure = config["structure"]
    if structure["dtype"] == "float64" and not has_float64():
        raise ValueError('These weights are float64: jax.config.update("jax_enable_x64", True).')
    arrays = load_file(Path(folder) / "params.safetensors")

    def apply(params: Params, x: ArrayLike) -> jax.Array:
        reason = fault(structure, params, x)
        if reason is not None:
            raise ValueError(reason)
        return run(structure, params, x)

    return tree(structure, arrays), apply, config


def has_float64() -> bool:
    """Whether JAX computes in float64, as it does if somebody enabled x64."""
    return bool(jnp.zeros(()).dtype == np.float64)


def tree(structure: Structure, arrays: Mapping[str, np.ndarray]) -> Params:
    """Named arrays as a tree: "sublayers.0.query" is tree["layers"][0]["query"]."""

    def below(name: str) -> dict[str, jax.Array]:
        own = {key.removeprefix(f"{name}."): array for key, array in arrays.items()}
        kept = {key: array for key, array in own.items() if "." not in key}
        return {key: jnp.asarray(array, dtype=structure["dtype"]) for key, array in kept.items()}

    layers = [below(layer["name"]) for layer in structure["layers"]]
    return {"input": below("input"), "layers": layers, "readout": below("readout")}


def fault(structure: Structure, params: Params, x: ArrayLike) -> str | None:
    """What is wrong with the shape of an input, if anything is."""
    shape = np.shape(x)
    if structure["input"]["kind"] == "reals":
        inputs = len(params["input"]["maps"])
        if len(shape) in (1, 2) and shape[-1] == inputs:
            return None
        return f"The input needs shape ({inputs},) or (batch, {inputs}), but it has {shape}."
    longest = len(params["input"]["positions"]) - structure["input"]["start"]
    if len(shape) in (1, 2) and shape[-1] <= longest:
        return None
    return (
        f"The symbols need shape (length,) or (batch, length) with length at most {longest}, but "
        f"they have {shape}."
    )


def run(structure: Structure, params: Params, x: ArrayLike) -> jax.Array:
    """The outputs, for one input or for a batch of them."""
    x = jnp.asarray(x)
    if x.ndim == 1:
        return run(structure, params, x[None])[0]
    stream = _embedded(structure, params["input"], x)
    for layer, own in zip(structure["layers"], params["layers"], strict=True):
        change = _attended if layer["kind"] == "attention" else _fed_forward
        stream = stream + change(layer, own, stream)
    token = structure["readout"]["token"]
    stream = stream[:, stream.shape[1] - x.shape[1] :] if token is None else stream[:, token]
    return _dot(stream, params["readout"]["weights"]) + params["readout"]["bias"]


def _dot(a: jax.Array, b: jax.Array) -> jax.Array:
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def _embedded(structure: Structure, own: Params, x: jax.Array) -> jax.Array:
    """The first stream, batch x tokens x width. Numbers that are no symbol's become nan."""
    if structure["input"]["kind"] == "reals":
        shape = (len(x), *structure["input"]["shape"])
        return _dot(x.astype(own["maps"].dtype), own["maps"]).reshape(shape) + own["offsets"]
    symbols = len(own["embedding"])
    known = (x >= 0) & (x < symbols)
    stream = own["embedding"][jnp.clip(x, 0, symbols - 1)]
    stream = jnp.where(known[..., None], stream, jnp.nan)
    if structure["input"]["start"]:
        start = jnp.broadcast_to(own["start"], (len(x), 1, len(own["start"])))
        stream = jnp.concatenate([start, stream], axis=1)
    return stream + own["positions"][: stream.shape[1]]


def _attended(layer: Structure, own: Params, stream: jax.Array) -> jax.Array:
    batch, tokens, _ = stream.shape
    heads = layer["heads"]
    query, key, value = (
        _dot(stream, own[part]).reshape(batch, tokens, heads, -1).swapaxes(1, 2)
        for part in ("query", "key", "value")
    )
    scores = _dot(query, key.swapaxes(2, 3))
    if layer["bias"]:
        scores = scores + own["position_bias"][:, :tokens, :tokens]
    if any(layer["causal"]):
        free = ~np.array(layer["causal"])[:, None, None]
        scores = jnp.where(np.tri(tokens, dtype=bool) | free, scores, -jnp.inf)
    mixed = _dot(jax.nn.softmax(scores, axis=-1), value)
    return _dot(mixed.swapaxes(1, 2).reshape(batch, tokens, -1), own["output"])


def _fed_forward(layer: Structure, own: Params, stream: jax.Array) -> jax.Array:
    hidden = _dot(stream, own["inner"]) + own["inner_bias"]
    if layer["kind"] == "gated":
        act = jax.nn.relu if layer["activation"] == "relu" else jax.nn.silu
        hidden = act(_dot(stream, own["gate"]) + own["gate_bias"]) * hidden
    else:
        hidden = jax.nn.relu(hidden)
    return _dot(hidden, own["outer"]) + own["outer_bias"]


def encode(config: Structure, words: Sequence[Word]) -> np.ndarray:
    """Symbol numbers of words of one length, (batch, length)."""
    number = {symbol: i for i, symbol in enumerate(config["structure"]["input"]["alphabet"])}
    return np.array([[number[symbol] for symbol in word] for word in words], dtype=np.int32)


def decode(config: Structure, outputs: ArrayLike) -> list[object]:
    """The items whose numbers are nearest: nested lists as the outputs are, without their axis."""
    outputs = np.asarray(outputs, dtype=np.float64)
    found = []
    for place, code in enumerate(config["codes"]):
        distances = np.abs(outputs[..., place, None] - np.array(code["numbers"]))
        items = np.empty(len(code["items"]), dtype=object)
        items[:] = code["items"]
        found.append(items[distances.argmin(axis=-1)])
    answers = found[0] if len(found) == 1 else np.stack(found, axis=-1)
    return list(np.asarray(answers, dtype=object).tolist())
