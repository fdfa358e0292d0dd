"""The T5 encoder as a home: T5ForTokenClassification.

It takes almost everything: heads of both masks, hidden units with ReLU, keys of any width, no scale
before the softmax, and a bias for each distance. That bias belongs to the place of a head in its
layer and is shared by all layers, so heads of one bias stand in the same places ("slots"). A mask
is a bias of -2^100 for later tokens. Distances below a quarter of the buckets have one each.

What it lacks: biases (they are weights on a column that holds 1), and positions (`_prelude`).

The norm is an RMS norm whose mean of squares is taken in float32 whatever the weights are in.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax._errors import FileError, RequestError
from hardmax.core import (
    Attention,
    Construction,
    Head,
    Host,
    Norm,
    ReadOut,
    Sublayer,
    Transformer,
)
from hardmax.interop._standard_form import Block, standard_form
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
from hardmax.interop.huggingface._following import reordered
from hardmax.interop.huggingface._home import Files, Home, Ids, Promise, Read, Written
from hardmax.interop.huggingface._labels import Labels, logit_rows, read_out_of
from hardmax.interop.huggingface._prelude import of_distance
from hardmax.interop.huggingface._prepare import Abilities, largest_squares
from hardmax.numerics import Format

ABILITIES = Abilities(biases=False, causal=False, distances=True, prelude="linear")
CLASS = "T5ForTokenClassification"
EPSILON = 1e-6
MASKED = -(2.0**100)  # what a masked token's score is lowered by
_A_MASK = -1e9  # and from where on it counts as one: exp of it is 0 in every format
_MAX_DISTANCE = 128  # stock; beyond the exact buckets it only has to exceed them
_FIXED = {
    "model_type": "t5",
    "feed_forward_proj": "relu",
    "is_decoder": False,
    "is_encoder_decoder": True,
    "tie_word_embeddings": True,
    "num_decoder_layers": 1,
}
_FREE = frozenset(
    [
        "vocab_size",
        "d_model",
        "d_kv",
        "d_ff",
        "num_layers",
        "num_heads",
        "relative_attention_num_buckets",
        "relative_attention_max_distance",
        "layer_norm_epsilon",
        "id2label",
        "dtype",
    ]
)


# ---- writing -------------------------------------------------------------------------------------


def slotted(construction: Construction) -> tuple[Construction, list[np.ndarray]]:
    """Heads in the order of their slots, and the bias by distance of every slot."""
    transformer = construction.transformer
    found: dict[bytes, np.ndarray] = {}
    keys: list[list[bytes]] = []
    for layer in transformer.sublayers:
        heads = layer.heads if isinstance(layer, Attention) else ()
        biases = [_bias_of(head, transformer.tokens) for head in heads]
        keys.append([bias.tobytes() for bias in biases])
        found.update((bias.tobytes(), bias) for bias in biases)
    kinds = list(found)
    counts = [max((row.count(kind) for row in keys), default=0) for kind in kinds]
    slots = [found[kind] for kind, n in zip(kinds, counts, strict=True) for _ in range(n)]
    orders = [sorted(range(len(row)), key=lambda i: kinds.index(row[i])) for row in keys]
    return reordered(construction, orders), slots


def _bias_of(head: Head, tokens: int) -> np.ndarray:
    """What is added for j - t = -(tokens - 1), ..., tokens - 1."""
    bias = np.zeros(2 * tokens - 1)
    if head.position_bias is not None:
        table = head.coldness * head.position_bias[:tokens, :tokens]
        if head.causal:
            table = _completed(table)
        distances = of_distance(table)
        if distances is None:
            raise RequestError(
                "it has a position bias that is not of the distance alone, which is all that a "
                "relative bias can be"
            )
        bias = distances
    if head.causal:
        bias = np.where(np.arange(len(bias)) >= tokens, MASKED, bias)
    return bias


def _completed(table: np.ndarray) -> np.ndarray:
    """A causal bias with zeros where nobody looks."""
    return np.tril(table)


def write(
    construction: Construction, format: Format, labels: Labels | None, ids: Ids, choice: str
) -> Written:
    construction, slots = slotted(construction)
    transformer = construction.transformer
    squares = largest_squares(construction)
    request = NormRequest("rms", EPSILON, choice)
    columns = columns_for(transformer.width, squares, format, request, ones=1, zeros=0)
    form = standard_form(transformer, heads=max(1, len(slots)), key_width=1, value_width=1)
    key_width = max(form.key_width, form.value_width)
    hidden = max(1, form.hidden_width)
    tensors = _ends(transformer, columns, format, labels, ids)
    tokens = transformer.tokens
    tensors[_BIAS] = _buckets(slots or [np.zeros(2 * tokens - 1)], tokens)
    gains = np.full(columns.width, columns.gain)
    blocks = form.blocks or (None,)
    for number_, block in enumerate(blocks):
        name = f"{_BLOCK}.{number_}"
        tensors[f"{name}.layer.0.layer_norm.weight"] = gains
        tensors[f"{name}.layer.1.layer_norm.weight"] = gains
        found = places(block, transformer, slots)
        tensors |= _attention(block, name, found, columns, (max(1, len(slots)), key_width))
        tensors |= _feed_forward(block, name, columns, hidden)
    texts = _texts(labels, transformer.outputs)
    config: Config = {
        **_FIXED,
        **_sizes(columns, (key_width, hidden), (len(blocks), max(1, len(slots))), tokens),
        "architectures": [CLASS],
        "vocab_size": len(ids.tokens),
        "layer_norm_epsilon": columns.epsilon,
        "id2label": {str(i): text for i, text in enumerate(texts)},
        "label2id": {text: i for i, text in enumerate(texts)},
        "dtype": format.name,
        "pad_token_id": ids.pad,
        "bos_token_id": ids.start,
        "eos_token_id": None,
    }
    return Written(construction, config, tensors, columns, ids)


def _sizes(
    columns: Columns, widths: tuple[int, int], counts: tuple[int, int], tokens: int
) -> Config:
    """How wide, how deep, and buckets enough for every distance."""
    return {
        "d_model": columns.width,
        "d_kv": widths[0],
        "d_ff": widths[1],
        "num_layers": counts[0],
        "num_heads": counts[1],
        "relative_attention_num_buckets": 4 * tokens,
        "relative_attention_max_distance": max(_MAX_DISTANCE, 2 * tokens),
    }


_BLOCK = "transformer.encoder.block"
_BIAS = f"{_BLOCK}.0.layer.0.SelfAttention.relative_attention_bias.weight"


def _texts(labels: Labels | None, outputs: int) -> tuple[str, ...]:
    return tuple(f"y{i}" for i in range(outputs)) if labels is None else labels.texts


def _ends(
    transformer: Transformer, columns: Columns, format: Format, labels: Labels | None, ids: Ids
) -> dict[str, np.ndarray]:
    """Embedding, last norm and classifier."""
    readout = transformer.readout
    rows, biases = readout.weights, readout.bias
    if labels is not None:
        exact = logit_rows(readout, labels, format)
        assert exact is not None  # `prepared` saw to it
        rows, biases = exact
    return {
        "transformer.shared.weight": ids.table(transformer, columns),
        "transformer.encoder.final_layer_norm.weight": np.full(columns.width, columns.gain),
        "classifier.weight": columns.widened(rows),
        "classifier.bias": biases,
    }


def _buckets(slots: list[np.ndarray], tokens: int) -> np.ndarray:
    """A row for each bucket, a column for each slot: earlier distances, then later ones."""
    table = np.zeros((4 * tokens, len(slots)))
    for slot, bias in enumerate(slots):
        table[:tokens, slot] = bias[tokens - 1 :: -1]
        table[2 * tokens + 1 : 3 * tokens, slot] = bias[tokens:]
        if tokens > 1 and bias[-1] <= _A_MASK:
            table[2 * tokens :, slot] = bias[-1]  # far ones, too, or longer words would see them
    return table


def places(block: Block | None, transformer: Transformer, slots: list[np.ndarray]) -> list[int]:
    """The slot of each head of a block."""
    if block is None or block.attention.sublayer is None:
        return []
    layer = transformer.sublayers[block.attention.sublayer]
    assert isinstance(layer, Attention)
    free = list(range(len(slots)))
    places = []
    for head in layer.heads:
        bias = _bias_of(head, transformer.tokens)
        slot = next(i for i in free if np.array_equal(slots[i], bias))
        free.remove(slot)
        places.append(slot)
    return places


def _attention(
    block: Block | None, name: str, places: list[int], columns: Columns, shape: tuple[int, int]
) -> dict[str, np.ndarray]:
    heads, key_width = shape
    query, key, value = np.zeros((3, heads, key_width, columns.width))
    output = np.zeros((columns.width, heads, key_width))
    for i, slot in enumerate(places):
        assert block is not None
        part, ours = block.attention, columns.ours
        query[slot, : part.query.shape[1], :ours] = part.query[i]
        key[slot, : part.key.shape[1], :ours] = part.key[i]
        value[slot, : part.value.shape[1], :ours] = part.value[i]
        output[:ours, slot, : part.output.shape[2]] = part.output[i]
    inner = heads * key_width
    own = f"{name}.layer.0.SelfAttention"
    return {
        f"{own}.q.weight": query.reshape(inner, -1),
        f"{own}.k.weight": key.reshape(inner, -1),
        f"{own}.v.weight": value.reshape(inner, -1),
        f"{own}.o.weight": output.reshape(-1, inner),
    }


def _feed_forward(
    block: Block | None, name: str, columns: Columns, hidden: int
) -> dict[str, np.ndarray]:
    inner, outer = np.zeros((hidden, columns.width)), np.zeros((columns.width, hidden))
    if block is not None:
        part, ours = block.feed_forward, columns.ours
        units = len(part.inner)
        inner[:units, :ours], inner[:units, columns.one] = part.inner, part.inner_bias
        outer[:ours, :units] = part.outer
    own = f"{name}.layer.1.DenseReluDense"
    return {f"{own}.wi.weight": inner, f"{own}.wo.weight": outer}


# ---- reading -------------------------------------------------------------------------------------


def read(files: Files, promise: Promise) -> Read:
    config, tensors = files.config, files.tensors
    check_fields(config, _FIXED, _FREE)
    _check_labels(config, promise)
    check_shapes(tensors, _shapes(config))
    tokens = promise.tokens
    if 4 * tokens > whole(config, "relative_attention_num_buckets"):
        raise FileError("has fewer buckets than four for each token, so that distances share them.")
    table = tensors["transformer.shared.weight"]
    stream = Stream(promise.ours, constants_of(table, promise.ours))
    epsilon = number(config, "layer_norm_epsilon")
    _check_distances(config)
    sublayers: list[Sublayer] = []
    norms: list[Norm | None] = []
    for i in range(whole(config, "num_layers")):
        for part, make in ((0, _read_attention), (1, _read_feed_forward)):
            name = f"{_BLOCK}.{i}.layer.{part}"
            norm = _norm(stream, tensors[f"{name}.layer_norm.weight"], epsilon)
            found = make(files, name, stream, norm.scale, tokens)
            sublayers += found
            norms += [replace(norm, biases_normed=True)] * len(found)
    last = _norm(stream, tensors["transformer.encoder.final_layer_norm.weight"], epsilon)
    rows = stream.linear(stream.scaled(tensors["classifier.weight"], last.scale), "classes")
    biases = tensors["classifier.bias"]
    readout = ReadOut(rows, biases, promise.token)
    if promise.labels is not None:
        readout = read_out_of(rows, biases, promise.labels, promise.token)
    transformer = Transformer(promise.input_from(table), sublayers, readout)
    mask = _least_mask(tensors[_BIAS], tokens)
    codes = () if promise.labels is None else promise.labels.codes
    host = Host("t5", (*norms, last), (None,) * len(sublayers), mask=mask, classes=codes)
    return transformer, host, stream.constants


def _norm(stream: Stream, weight: np.ndarray, epsilon: float) -> Norm:
    return replace(stream.norm("rms", weight, epsilon), variance_in="float32")


def _check_distances(config: Config) -> None:
    """The class takes a logarithm of the largest distance over that of the exact buckets."""
    if whole(config, "relative_attention_max_distance") <= (
        whole(config, "relative_attention_num_buckets") // 4
    ):
        raise FileError("says relative_attention_max_distance, but less than its buckets hold.")


def _shapes(config: Config) -> Shapes:
    n, d, f = whole(config, "d_model"), whole(config, "d_kv"), whole(config, "d_ff")
    heads = whole(config, "num_heads")
    labels = config["id2label"]
    classes = len(labels) if isinstance(labels, dict) else 0
    shapes: dict[str, tuple[int, ...]] = {
        "transformer.shared.weight": (whole(config, "vocab_size"), n),
        "transformer.encoder.final_layer_norm.weight": (n,),
        "classifier.weight": (classes, n),
        "classifier.bias": (classes,),
        _BIAS: (whole(config, "relative_attention_num_buckets"), heads),
    }
    for i in range(whole(config, "num_layers")):
        own = f"{_BLOCK}.{i}.layer"
        shapes |= {f"{own}.{part}.layer_norm.weight": (n,) for part in (0, 1)}
        shapes |= {f"{own}.0.SelfAttention.{one}.weight": (heads * d, n) for one in "qkv"}
        shapes[f"{own}.0.SelfAttention.o.weight"] = (n, heads * d)
        shapes[f"{own}.1.DenseReluDense.wi.weight"] = (f, n)
        shapes[f"{own}.1.DenseReluDense.wo.weight"] = (n, f)
    return shapes


def _check_labels(config: Config, promise: Promise) -> None:
    texts = _texts(promise.labels, promise.outputs)
    if config.get("id2label") != {str(i): text for i, text in enumerate(texts)}:
        raise FileError("says id2label, but not as the answers of its program are numbered.")


def _read_attention(
    files: Files, name: str, stream: Stream, scale: float, tokens: int
) -> list[Attention]:
    heads = whole(files.config, "num_heads")
    own = f"{name}.SelfAttention"

    def rows(one: str) -> np.ndarray:
        matrix = stream.linear(stream.scaled(files.tensors[f"{own}.{one}.weight"], scale), "heads")
        return matrix.reshape(heads, -1, stream.ours)

    query, key, value = rows("q"), rows("k"), rows("v")
    written = stream.writes(files.tensors[f"{own}.o.weight"], "heads")
    output = written.reshape(stream.ours, heads, -1)
    found = []
    for i in range(heads):
        causal, bias = _read_bias(files.tensors[_BIAS][:, i], tokens)
        found.append(
            trimmed_head(query[i], key[i], value[i], output[:, i], causal=causal, bias=bias)
        )
    return list(attention_of(found))


def _read_bias(column: np.ndarray, tokens: int) -> tuple[bool, np.ndarray | None]:
    """Whether a slot is causal, and its position bias over so many tokens."""
    later = _later(column, tokens)
    causal = len(later) > 0 and bool((later <= _A_MASK).all())
    bias = np.concatenate([column[:tokens][::-1], np.zeros(len(later)) if causal else later])
    if not bias.any():
        return causal, None
    place = np.arange(tokens)
    square = bias[place - place[:, None] + tokens - 1]
    return causal, np.tril(square) if causal else square


def _later(column: np.ndarray, tokens: int) -> np.ndarray:
    """The biases of later tokens in a column of buckets."""
    half = len(column) // 2
    return column[half + 1 : half + tokens]


def _least_mask(table: np.ndarray, tokens: int) -> float | None:
    """The least number that a causal slot lowers a later token's score by."""
    slots = [_later(column, tokens) for column in table.T]
    return min(
        (float(-later.max()) for later in slots if len(later) and (later <= _A_MASK).all()),
        default=None,
    )


def _read_feed_forward(
    files: Files, name: str, stream: Stream, scale: float, tokens: int
) -> list[Sublayer]:
    inner = stream.scaled(files.tensors[f"{name}.DenseReluDense.wi.weight"], scale)
    outer = stream.writes(files.tensors[f"{name}.DenseReluDense.wo.weight"], "hidden units")
    rows, biases = inner[:, : stream.ours], stream.biases(inner)
    return list(feed_forward_of(rows, biases, outer, np.zeros(stream.ours)))


T5 = Home(
    "t5",
    CLASS,
    ABILITIES,
    write,
    read,
    one_vocabulary=False,
    why="it takes heads of both masks, and its hidden units are ReLUs, so that only its norm is "
    "to be accounted for",
)
