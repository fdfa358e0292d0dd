"""GPT-2 as a home: GPT2LMHeadModel.

Heads are causal, positions are a table, linear maps have biases. Its norm subtracts the mean m of
all columns, which no row sees whose entries add up to 0: w . (h - m) = w . h. So columns ZERO, that
hold 0 and that nobody writes, take minus the sum of each row; as many of them as that sum needs
numbers of the format, since it has to be exact. The ballast is a pair (M, -M), which moves no mean,
and small: floats know a mean up to u M.

A ReLU is gelu(s z)/s, the tanh form, which is off by at most 0.1700408/s.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hardmax._errors import FileError
from hardmax.core import (
    Activation,
    Attention,
    Construction,
    FeedForward,
    Host,
    Norm,
    SequenceInput,
    Sublayer,
    Transformer,
)
from hardmax.interop._standard_form import StandardForm, standard_form
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
from hardmax.interop.huggingface._tensors import rounded
from hardmax.numerics import Format

ABILITIES = Abilities(biases=True, causal=True, distances=False, prelude=None)
CLASS = "GPT2LMHeadModel"
EPSILON = 1e-5
_LEAST_WIDTH = 128  # the mean of few columns would be large, and all columns lose digits to it
_FIXED = {
    "model_type": "gpt2",
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": False,
}
_FREE = frozenset(
    [
        "vocab_size",
        "n_positions",
        "n_embd",
        "n_layer",
        "n_head",
        "n_inner",
        "layer_norm_epsilon",
        "dtype",
    ]
)


# ---- writing -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows over ours and ONE, rounded, with what ZERO columns need so that each adds up to 0."""

    rows: np.ndarray
    rests: np.ndarray

    def over(self, columns: Columns) -> np.ndarray:
        full = np.zeros((len(self.rows), columns.width))
        full[:, : columns.ours + 1] = self.rows
        full[:, columns.first_zero :][:, : self.rests.shape[1]] = self.rests
        return full


def centred(rows: np.ndarray, format: Format) -> _Rows:
    """Rows of the format with numbers of the format that bring each of them to 0, exactly.

    fsum is the exact sum rounded once, so that it is 0 only if the sum is; every number that is
    taken off leaves less than 2^-digits of it.
    """
    rows = rounded(rows, format, "of a layer")
    rests: list[list[float]] = []
    for row in rows.tolist():
        rest: list[float] = []
        while (total := math.fsum([*row, *rest])) != 0.0:
            rest.append(-float(format.stored(np.array(total))))
        rests.append(rest)
    table = np.zeros((len(rows), max(map(len, rests), default=0)))
    for i, rest in enumerate(rests):
        table[i, : len(rest)] = rest
    return _Rows(rows, table)


def write(
    construction: Construction, format: Format, labels: Labels | None, ids: Ids, choice: str
) -> Written:
    transformer = construction.transformer
    form = standard_form(transformer, heads=1, key_width=1, value_width=1, hidden_width=1)
    steepness = STEEPNESS[format.name]
    width = 4 ** -(-(max(form.key_width, form.value_width) - 1).bit_length() // 2)
    rows, biases = answer_rows(transformer, format, labels, ids)
    answers = centred(np.column_stack([rows, biases]), format)
    reads = [
        {name: centred(np.pad(part, ((0, 0), (0, 1))), format) for name, part in block.items()}
        for block in _reading(form, steepness, math.isqrt(width))
    ]
    zeros = max(part.rests.shape[1] for part in (answers, *(p for b in reads for p in b.values())))
    whole_heads = _power(form.heads) * width
    request = NormRequest("layer", EPSILON, choice, width=_LEAST_WIDTH, whole=whole_heads)
    squares = largest_squares(construction)
    columns = columns_for(transformer.width, squares, format, request, ones=1, zeros=zeros)
    size = vocabulary(transformer, ids)
    tensors = {
        "transformer.wte.weight": table_rows(ids.table(transformer, columns), size),
        "transformer.wpe.weight": _positions(transformer, columns),
        "lm_head.weight": answers.over(columns),
        **_norm_tensors("transformer.ln_f", columns),
    }
    for i, read in enumerate(reads):
        tensors |= _block(form, i, read, columns, width, steepness)
    sizes = (size, transformer.tokens, columns.width, len(reads), form.hidden_width)
    config: Config = {
        **_config(sizes, format, ids),
        "n_head": columns.width // width,
        "layer_norm_epsilon": columns.epsilon,
    }
    return Written(construction, config, tensors, columns, ids)


def _config(sizes: tuple[int, int, int, int, int], format: Format, ids: Ids) -> Config:
    names = ("vocab_size", "n_positions", "n_embd", "n_layer", "n_inner")
    return {
        **_FIXED,
        **dict(zip(names, sizes, strict=True)),
        "architectures": [CLASS],
        "dtype": format.name,
        "pad_token_id": ids.pad if ids.symbols else None,
        "bos_token_id": ids.start,
        "eos_token_id": None,
    }


def _power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _positions(transformer: Transformer, columns: Columns) -> np.ndarray:
    source = transformer.input
    if isinstance(source, SequenceInput):
        return columns.widened(source.positions)
    return np.zeros((source.tokens, columns.width))


def _norm_tensors(name: str, columns: Columns) -> dict[str, np.ndarray]:
    return {
        f"{name}.weight": np.full(columns.width, columns.gain),
        f"{name}.bias": np.zeros(columns.width),
    }


def _reading(form: StandardForm, steepness: float, root: int) -> list[dict[str, np.ndarray]]:
    """What each block reads, over our columns: all heads' rows below each other, and units."""
    if not form.blocks:
        nothing = np.zeros((0, form.width))
        return [{"q": nothing, "k": nothing, "v": nothing, "units": nothing}]
    return [
        {
            "q": root * block.attention.query.reshape(-1, form.width),
            "k": block.attention.key.reshape(-1, form.width),
            "v": block.attention.value.reshape(-1, form.width),
            "units": steepness * block.feed_forward.inner,
        }
        for block in form.blocks
    ]


def _block(
    form: StandardForm,
    number_: int,
    read: dict[str, _Rows],
    columns: Columns,
    width: int,
    steepness: float,
) -> dict[str, np.ndarray]:
    n, ours, hidden = columns.width, columns.ours, form.hidden_width
    slots = n // width
    parts = np.zeros((3, slots, width, n))
    output = np.zeros((slots, width, n))
    units, outer = np.zeros((hidden, n)), np.zeros((hidden, n))
    unit_bias, outer_bias = np.zeros(hidden), np.zeros(n)
    if form.blocks:
        block = form.blocks[number_]
        for i, name in enumerate("qkv"):
            rows = read[name].over(columns).reshape(form.heads, -1, n)
            parts[i, : form.heads, : rows.shape[1]] = rows
        values = block.attention.output.transpose(0, 2, 1)
        output[: form.heads, : values.shape[1], :ours] = values
        units[:] = read["units"].over(columns)
        unit_bias[:] = steepness * block.feed_forward.inner_bias
        outer[:, :ours] = block.feed_forward.outer.T / steepness
        outer_bias[:ours] = block.feed_forward.outer_bias
    name = f"transformer.h.{number_}"
    return {
        **_norm_tensors(f"{name}.ln_1", columns),
        **_norm_tensors(f"{name}.ln_2", columns),
        f"{name}.attn.c_attn.weight": parts.reshape(3 * n, n).T,
        f"{name}.attn.c_attn.bias": np.zeros(3 * n),
        f"{name}.attn.c_proj.weight": output.reshape(n, n),
        f"{name}.attn.c_proj.bias": np.zeros(n),
        f"{name}.mlp.c_fc.weight": units.T,
        f"{name}.mlp.c_fc.bias": unit_bias,
        f"{name}.mlp.c_proj.weight": outer,
        f"{name}.mlp.c_proj.bias": outer_bias,
    }


# ---- reading -------------------------------------------------------------------------------------


def read(files: Files, promise: Promise) -> Read:
    config, tensors = files.config, files.tensors
    check_fields(config, _FIXED, _FREE)
    check_shapes(tensors, _shapes(config))
    if whole(config, "n_positions") != promise.tokens:
        raise FileError("has a table of positions for another number of tokens.")
    _check_head_width(config)
    table, places = tensors["transformer.wte.weight"], tensors["transformer.wpe.weight"]
    stream = Stream(promise.ours, constants_of(table, promise.ours))
    if places[:, promise.ours :].any():
        raise FileError("has positions in columns that have to stay constant.")
    epsilon = number(config, "layer_norm_epsilon")
    sublayers: list[Sublayer] = []
    norms: list[Norm | None] = []
    activations: list[Activation | None] = []
    for i in range(whole(config, "n_layer")):
        name = f"transformer.h.{i}"
        norm = _norm(files, f"{name}.ln_1", stream, epsilon)
        heads = _read_attention(files, f"{name}.attn", stream, norm.scale)
        norms += [norm] * len(heads)
        norm = _norm(files, f"{name}.ln_2", stream, epsilon)
        units = _read_feed_forward(files, f"{name}.mlp", stream, norm.scale)
        norms += [norm] * len(units)
        sublayers += [*heads, *units]
        activations += [None] * len(heads) + [_activation(config)] * len(units)
    last = _norm(files, "transformer.ln_f", stream, epsilon)
    rows = stream.scaled(_centred(tensors["lm_head.weight"], stream), last.scale)
    readout = read_answers(rows[:, : promise.ours], stream.biases(rows), promise)
    source = promise.input_from(table, places[:, : promise.ours])
    transformer = Transformer(source, sublayers, readout)
    zeros = _most_zeros(tensors, stream)
    every = [None if one is None else replace(one, zeros=zeros) for one in (*norms, last)]
    every[-1] = replace(last, zeros=zeros, biases_normed=True)
    host = Host(
        "gpt2",
        every,
        activations,
        mask=promise.format.largest,
        classes=() if promise.labels is None else promise.labels.codes,
        score_scale=1.0 / math.sqrt(whole(config, "n_embd") // whole(config, "n_head")),
    )
    return transformer, host, stream.constants


def _activation(config: Config) -> Activation:
    return Activation("gelu_tanh", STEEPNESS[str(config["dtype"])])


def _norm(files: Files, name: str, stream: Stream, epsilon: float) -> Norm:
    if files.tensors[f"{name}.bias"].any():
        raise FileError("has a norm with a bias, which is not understood.")
    norm = stream.norm("layer", files.tensors[f"{name}.weight"], epsilon)
    # PyTorch takes means and variances of bfloat16 in float32.
    return replace(norm, variance_in="float32") if files.config["dtype"] == "bfloat16" else norm


def _centred(rows: np.ndarray, stream: Stream) -> np.ndarray:
    """Rows that add up to 0 exactly, so that a layer norm's mean is nothing to them.

    Columns that hold 0 have weights no larger, together, than `core.Norm` says.
    """
    zeros = _zeros(stream)
    for row in rows[rows.any(axis=1)]:
        if math.fsum(row) != 0.0:
            raise FileError("has a row that does not add up to 0, so that it sees a norm's mean.")
        size = np.abs(row)
        if 64.0 * math.fsum(size[zeros]) > 65.0 * math.fsum(size[~zeros]):
            raise FileError("has a row with weights on empty columns that cancel each other.")
    return rows


def _zeros(stream: Stream) -> np.ndarray:
    """Which columns hold 0 for good."""
    return np.concatenate([np.zeros(stream.ours, dtype=bool), stream.constants == 0.0])


def _most_zeros(tensors: Mapping[str, np.ndarray], stream: Stream) -> int:
    """How many columns that hold 0 one row reads, at most."""
    readers = [
        rows.T for name, rows in tensors.items() if name.endswith(("c_attn.weight", "fc.weight"))
    ]
    zeros = _zeros(stream)
    every = [
        (rows[:, zeros] != 0.0).sum(axis=1).max() for rows in [*readers, tensors["lm_head.weight"]]
    ]
    return int(max(every))


def _check_head_width(config: Config) -> None:
    n, heads = whole(config, "n_embd"), whole(config, "n_head")
    width = n // heads
    if width * heads != n or width.bit_count() != 1 or width.bit_length() % 2 != 1:
        raise FileError(
            f"says n_embd = {n} and n_head = {heads}, but a scale is exact for heads whose width "
            f"is a power of 4 alone."
        )


def _shapes(config: Config) -> Shapes:
    n, f = whole(config, "n_embd"), whole(config, "n_inner")
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.wte.weight": (whole(config, "vocab_size"), n),
        "transformer.wpe.weight": (whole(config, "n_positions"), n),
        "lm_head.weight": (whole(config, "vocab_size"), n),
    }
    norms = ["transformer.ln_f"]
    for i in range(whole(config, "n_layer")):
        own = f"transformer.h.{i}"
        norms += [f"{own}.ln_1", f"{own}.ln_2"]
        for name, inner, outer in (
            ("attn.c_attn", n, 3 * n),
            ("attn.c_proj", n, n),
            ("mlp.c_fc", n, f),
            ("mlp.c_proj", f, n),
        ):
            shapes |= {f"{own}.{name}.weight": (inner, outer), f"{own}.{name}.bias": (outer,)}
    return shapes | {f"{name}.{part}": (n,) for name in norms for part in ("weight", "bias")}


def _read_attention(files: Files, name: str, stream: Stream, scale: float) -> list[Attention]:
    n, heads = whole(files.config, "n_embd"), whole(files.config, "n_head")
    tensors = files.tensors
    if tensors[f"{name}.c_attn.bias"].any() or tensors[f"{name}.c_proj.bias"].any():
        raise FileError("has heads with biases, which are not understood.")
    weights = _centred(tensors[f"{name}.c_attn.weight"].T, stream)
    rows = stream.linear(stream.scaled(weights, scale), "heads")
    query, key, value = rows.reshape(3, heads, n // heads, stream.ours)
    query = query / math.isqrt(n // heads)
    written = stream.writes(tensors[f"{name}.c_proj.weight"].T, "heads")
    output = written.reshape(stream.ours, heads, n // heads)
    found = [
        trimmed_head(query[i], key[i], value[i], output[:, i], causal=True) for i in range(heads)
    ]
    return attention_of(found)


def _read_feed_forward(files: Files, name: str, stream: Stream, scale: float) -> list[FeedForward]:
    """Units act(s z)/s, s being the slope that the format's homes have: a power of two."""
    tensors = files.tensors
    slope = STEEPNESS[str(files.config["dtype"])]
    weights = _centred(tensors[f"{name}.c_fc.weight"].T, stream)
    rows = stream.linear(stream.scaled(weights, scale), "hidden units")
    outer = stream.writes(tensors[f"{name}.c_proj.weight"].T, "hidden units")
    bias = stream.writes(tensors[f"{name}.c_proj.bias"][:, None], "hidden units")[:, 0]
    return feed_forward_of(rows / slope, tensors[f"{name}.c_fc.bias"] / slope, slope * outer, bias)


GPT2 = Home(
    "gpt2",
    CLASS,
    ABILITIES,
    write,
    read,
    one_vocabulary=True,
    why="no head of it has to look at later tokens, and it has no position biases",
)
