"""Llama as a home: LlamaForCausalLM.

Heads are causal, hidden units are gated: down (silu(gate x) * up x). A ReLU unit of slope s is the
gate s z with the constant 1/s as its other factor: silu(s z)/s is above max(z, 0) by at most
0.2784645/s. A gated unit of the waist has its own row in place of that constant; two that make a
product are the same with silus (`core.GatedFeedForward`), so that nothing has to be steep. There
are no biases: they are weights on a column that holds 1. Positions are made by `_prelude`.

Rotary positions are on, as in stock. A head's coordinates lie on the slowest planes, one on the
first half of each, so that a score loses at most (tokens angle)^2/2 of each of its products. Where
sampled answers move by more than a small share of the error claimed, positions are divided by 1e30
in the config, and the card says so.

The norm casts the stream to float32 whatever the weights are in.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from hardmax._errors import FileError
from hardmax.core import (
    Activation,
    Attention,
    Construction,
    FeedForward,
    GatedFeedForward,
    Host,
    Norm,
    Rotary,
    Sublayer,
    Transformer,
)
from hardmax.interop._standard_form import Block, standard_form
from hardmax.interop.huggingface._causal import (
    STEEPNESS,
    answer_rows,
    read_answers,
    table_rows,
    vocabulary,
)
from hardmax.interop.huggingface._columns import Columns, NormRequest, columns_for
from hardmax.interop.huggingface._config import Config, check_fields, number, whole
from hardmax.interop.huggingface._fold import (
    Shapes,
    Stream,
    attention_of,
    check_shapes,
    constants_of,
    feed_forward_of,
    trimmed_head,
)
from hardmax.interop.huggingface._home import Files, Home, Ids, Promise, Read, Written
from hardmax.interop.huggingface._labels import Labels
from hardmax.interop.huggingface._prepare import Abilities, largest_squares
from hardmax.interop.huggingface._rotary import OFF, is_off, rotary_fits
from hardmax.numerics import Format

ABILITIES = Abilities(
    biases=False, causal=True, distances=False, prelude="uniform", gates=("relu", "silu")
)
CLASS = "LlamaForCausalLM"
EPSILON = 1e-6
THETA = 10000.0
_HEAD_WIDTHS = (64, 256, 1024)  # powers of 4, so that the scale of the scores is a power of two
_STOCK_ROPE: Config = {"rope_type": "default", "rope_theta": THETA}
_OFF_ROPE: Config = {"rope_type": "linear", "rope_theta": THETA, "factor": OFF}
_FIXED = {
    "model_type": "llama",
    "hidden_act": "silu",
    "attention_bias": False,
    "mlp_bias": False,
    "tie_word_embeddings": False,
}
_FREE = frozenset(
    [
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
        "num_key_value_heads",
        "max_position_embeddings",
        "rms_norm_eps",
        "rope_parameters",
        "dtype",
    ]
)


# ---- writing -------------------------------------------------------------------------------------


def write(
    construction: Construction, format: Format, labels: Labels | None, ids: Ids, choice: str
) -> Written:
    transformer = construction.transformer
    least = {"heads": 1, "key_width": 1, "value_width": 1, "hidden_width": 1}
    form = standard_form(transformer, **least, gates=True)
    heads = 1 << (form.heads - 1).bit_length()
    rope, head_width, notes = _rope(construction, form.key_width, form.value_width)
    squares = largest_squares(construction)
    request = NormRequest("rms", EPSILON, choice, whole=heads)
    columns = columns_for(transformer.width, squares, format, request, ones=1, zeros=0)
    rows, biases = answer_rows(transformer, format, labels, ids)
    head = columns.widened(rows)
    head[:, columns.one] = biases
    gains = np.full(columns.width, columns.gain)
    size = vocabulary(transformer, ids)
    tensors = {
        "model.embed_tokens.weight": table_rows(ids.table(transformer, columns), size),
        "model.norm.weight": gains,
        "lm_head.weight": head,
    }
    blocks = form.blocks or (None,)
    for i, block in enumerate(blocks):
        name = f"model.layers.{i}"
        tensors[f"{name}.input_layernorm.weight"] = gains
        tensors[f"{name}.post_attention_layernorm.weight"] = gains
        tensors |= _attention(block, name, columns, (heads, head_width))
        tensors |= _feed_forward(block, name, columns, form.hidden_width, STEEPNESS[format.name])
    sizes = (size, columns.width, form.hidden_width, len(blocks), heads, head_width)
    config: Config = {
        **_config(sizes, format, ids),
        "max_position_embeddings": transformer.tokens,
        "rms_norm_eps": columns.epsilon,
        "rope_parameters": rope,
    }
    return Written(construction, config, tensors, columns, ids, notes)


def _config(sizes: tuple[int, int, int, int, int, int], format: Format, ids: Ids) -> Config:
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers")
    return {
        **_FIXED,
        **dict(zip((*names, "num_attention_heads", "head_dim"), sizes, strict=True)),
        "num_key_value_heads": sizes[4],
        "architectures": [CLASS],
        "dtype": format.name,
        "pad_token_id": ids.pad if ids.symbols else None,
        "bos_token_id": ids.start,
        "eos_token_id": None,
    }


def _rope(
    construction: Construction, key_width: int, value_width: int
) -> tuple[Config, int, tuple[str, ...]]:
    """The config's rotary positions, the width of heads, and what the card says of them."""
    widths = [w for w in _HEAD_WIDTHS if w >= max(2 * key_width, value_width)]
    if not widths:
        widths = [4 ** -(-(max(2 * key_width, value_width) - 1).bit_length() // 2)]
    for width in widths[:2]:
        planes = width // 2
        if rotary_fits(construction, Rotary(THETA, planes, planes - key_width)):
            return _STOCK_ROPE, width, ("**Rotary positions:** on, as in stock.",)
    note = (
        f"**Rotary positions: switched off** by a linear factor of {OFF:g} in the config. With the "
        f"stock ones, even on the slowest planes, answers would move too far for the claim."
    )
    return _OFF_ROPE, widths[0], (note,)


def _attention(
    block: Block | None, name: str, columns: Columns, shape: tuple[int, int]
) -> dict[str, np.ndarray]:
    heads, width = shape
    query, key, value = np.zeros((3, heads, width, columns.width))
    output = np.zeros((columns.width, heads, width))
    if block is not None:
        part, ours = block.attention, columns.ours
        n, keys = part.query.shape[:2]
        planes = slice(width // 2 - keys, width // 2)
        query[:n, planes, :ours] = part.query * np.sqrt(width)
        key[:n, planes, :ours] = part.key
        value[:n, : part.value.shape[1], :ours] = part.value
        output[:ours, :n, : part.output.shape[2]] = part.output.transpose(1, 0, 2)
    own = f"{name}.self_attn"
    return {
        f"{own}.q_proj.weight": query.reshape(heads * width, -1),
        f"{own}.k_proj.weight": key.reshape(heads * width, -1),
        f"{own}.v_proj.weight": value.reshape(heads * width, -1),
        f"{own}.o_proj.weight": output.reshape(-1, heads * width),
    }


def _feed_forward(
    block: Block | None, name: str, columns: Columns, hidden: int, steepness: float
) -> dict[str, np.ndarray]:
    gate, up = np.zeros((2, hidden, columns.width))
    down = np.zeros((columns.width, hidden))
    if block is not None:
        part, ours = block.feed_forward, columns.ours
        units = len(part.inner)
        if part.gates is None:
            gate[:units, :ours] = steepness * part.inner
            gate[:units, columns.one] = steepness * part.inner_bias
            up[:units, columns.one] = part.outer.any(axis=0) / steepness
        else:
            plain = part.gates.multiplies | (part.gates.activation == "silu")
            steep = np.where(plain, 1.0, steepness)
            gate[:units, :ours] = steep[:, None] * part.gates.gate
            gate[:units, columns.one] = steep * part.gates.gate_bias
            up[:units, :ours] = part.inner / steep[:, None]
            up[:units, columns.one] = part.inner_bias / steep
        down[:ours, :units] = part.outer
    own = f"{name}.mlp"
    return {
        f"{own}.gate_proj.weight": gate,
        f"{own}.up_proj.weight": up,
        f"{own}.down_proj.weight": down,
    }


# ---- reading -------------------------------------------------------------------------------------


def read(files: Files, promise: Promise) -> Read:
    config, tensors = files.config, files.tensors
    check_fields(config, _FIXED, _FREE)
    check_shapes(tensors, _shapes(config))
    _check_head_width(config)
    if whole(config, "max_position_embeddings") < promise.tokens:
        raise FileError("says fewer positions than its words have tokens.")
    table = tensors["model.embed_tokens.weight"]
    stream = Stream(promise.ours, constants_of(table, promise.ours))
    epsilon = number(config, "rms_norm_eps")
    sublayers: list[Sublayer] = []
    norms: list[Norm | None] = []
    activations: list[Activation | None] = []
    for i in range(whole(config, "num_hidden_layers")):
        name = f"model.layers.{i}"
        norm = _norm(stream, tensors[f"{name}.input_layernorm.weight"], epsilon)
        heads = _read_attention(files, name, stream, norm.scale)
        sublayers += heads
        norms += [norm] * len(heads)
        activations += [None] * len(heads)
        norm = _norm(stream, tensors[f"{name}.post_attention_layernorm.weight"], epsilon)
        units, activation = _read_feed_forward(files, name, stream, norm.scale)
        sublayers += units
        norms += [norm] * len(units)
        activations += [activation] * len(units)
    last = _norm(stream, tensors["model.norm.weight"], epsilon)
    rows = stream.scaled(tensors["lm_head.weight"], last.scale)
    readout = read_answers(rows[:, : promise.ours], stream.biases(rows), promise)
    transformer = Transformer(promise.input_from(table), sublayers, readout)
    rotary = _read_rotary(files, transformer)
    host = Host(
        "llama",
        (*norms, last),
        activations,
        softmax_in="float32",  # of its eager attention
        rotary=rotary,
        mask=promise.format.largest,
        classes=() if promise.labels is None else promise.labels.codes,
        score_scale=1.0 / math.sqrt(whole(config, "head_dim")),
    )
    return transformer, host, stream.constants


def _norm(stream: Stream, weight: np.ndarray, epsilon: float) -> Norm:
    norm = stream.norm("rms", weight, epsilon)
    return replace(norm, computes_in="float32", biases_normed=True)


def _check_head_width(config: Config) -> None:
    width, heads = whole(config, "head_dim"), whole(config, "num_attention_heads")
    if width.bit_count() != 1 or width.bit_length() % 2 != 1:
        raise FileError(f"says head_dim = {width}, but a scale is exact for powers of 4 alone.")
    if whole(config, "num_key_value_heads") != heads:
        raise FileError("shares keys among heads, which is not understood.")


def _shapes(config: Config) -> Shapes:
    n, f = whole(config, "hidden_size"), whole(config, "intermediate_size")
    inner = whole(config, "num_attention_heads") * whole(config, "head_dim")
    ends = (whole(config, "vocab_size"), n)
    shapes: dict[str, tuple[int, ...]] = {
        "model.embed_tokens.weight": ends,
        "model.norm.weight": (n,),
        "lm_head.weight": ends,
    }
    for i in range(whole(config, "num_hidden_layers")):
        own = f"model.layers.{i}"
        shapes[f"{own}.input_layernorm.weight"] = (n,)
        shapes[f"{own}.post_attention_layernorm.weight"] = (n,)
        shapes |= {f"{own}.self_attn.{one}_proj.weight": (inner, n) for one in "qkv"}
        shapes[f"{own}.self_attn.o_proj.weight"] = (n, inner)
        shapes |= {f"{own}.mlp.{one}_proj.weight": (f, n) for one in ("gate", "up")}
        shapes[f"{own}.mlp.down_proj.weight"] = (n, f)
    return shapes


def _read_attention(files: Files, name: str, stream: Stream, scale: float) -> list[Attention]:
    heads, width = (whole(files.config, one) for one in ("num_attention_heads", "head_dim"))
    own = f"{name}.self_attn"

    def rows(one: str) -> np.ndarray:
        weights = stream.scaled(files.tensors[f"{own}.{one}_proj.weight"], scale)
        matrix = stream.linear(weights, "heads")
        return matrix.reshape(heads, width, stream.ours)

    query, key, value = rows("q") / np.sqrt(width), rows("k"), rows("v")
    if query[:, width // 2 :].any() or key[:, width // 2 :].any():
        raise FileError("has heads with both coordinates of a rotary plane.")
    written = stream.writes(files.tensors[f"{own}.o_proj.weight"], "heads")
    output = written.reshape(stream.ours, heads, width)
    found = [
        trimmed_head(query[i], key[i], value[i], output[:, i], causal=True) for i in range(heads)
    ]
    return attention_of(found)


def _read_feed_forward(
    files: Files, name: str, stream: Stream, scale: float
) -> tuple[list[FeedForward] | list[GatedFeedForward], Activation | None]:
    """Gated units; or ReLU units of one slope, whose other factor is a constant power of two."""
    gate, up = (
        stream.scaled(files.tensors[f"{name}.mlp.{one}_proj.weight"], scale)
        for one in ("gate", "up")
    )
    outer = stream.writes(files.tensors[f"{name}.mlp.down_proj.weight"], "hidden units")
    if up[:, : stream.ours].any():
        return _read_gates(stream, gate, up, outer), None
    factors = stream.biases(up)
    working = outer.any(axis=0) | gate.any(axis=1) | (factors != 0.0)
    if not working.any():
        return [], None
    factor = float(factors[working][0])
    if factor <= 0.0 or not (factors[working] == factor).all():
        raise FileError("has hidden units of several slopes.")
    activation = Activation("silu", 1.0 / factor)
    inner = factor * gate[working]
    units = feed_forward_of(
        inner[:, : stream.ours],
        stream.biases(inner),
        outer[:, working],
        np.zeros(stream.ours),
    )
    return units, activation


def _read_gates(
    stream: Stream, gate: np.ndarray, up: np.ndarray, outer: np.ndarray
) -> list[GatedFeedForward]:
    """Units as they are stored, all but those that are all zeros."""
    alive = gate.any(axis=1) | up.any(axis=1) | outer.any(axis=0)
    read = (part for rows in (gate[alive], up[alive]) for part in _read_affine(stream, rows))
    gate, gate_bias, inner, inner_bias = read
    outer_bias = np.zeros(stream.ours)
    parts = gate, gate_bias, inner, inner_bias, outer[:, alive], outer_bias
    return [GatedFeedForward(*parts, activation="silu")]


def _read_affine(stream: Stream, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return rows[:, : stream.ours], stream.biases(rows)


def _read_rotary(files: Files, transformer: Transformer) -> Rotary | None:
    """Rotary positions as far as any score knows of them."""
    rope = files.config["rope_parameters"]
    if rope == _STOCK_ROPE:
        first = _first_plane(files)
        return None if first is None else Rotary(THETA, whole(files.config, "head_dim") // 2, first)
    factor = rope.get("factor") if isinstance(rope, dict) else None
    linear = {**_OFF_ROPE, "factor": factor}
    if rope != linear or not isinstance(factor, float) or not is_off(factor):
        raise FileError(f"says rope_parameters = {rope!r}, which is not understood.")
    return None


def _first_plane(files: Files) -> int | None:
    """The fastest plane that a query and a key both use."""
    heads, width = (whole(files.config, one) for one in ("num_attention_heads", "head_dim"))
    used = np.zeros(width, dtype=bool)
    for i in range(whole(files.config, "num_hidden_layers")):
        q, k = (
            files.tensors[f"model.layers.{i}.self_attn.{one}_proj.weight"]
            .any(axis=1)
            .reshape(heads, width)
            for one in "qk"
        )
        used |= (q & k).any(axis=0)
    return int(np.argmax(used)) if used.any() else None


LLAMA = Home(
    "llama",
    CLASS,
    ABILITIES,
    write,
    read,
    one_vocabulary=True,
    why="no head of it has to look at later tokens, and it has no position biases",
)
