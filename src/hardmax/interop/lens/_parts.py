"""What a model of TransformerLens is made of: sizes, weights by their names there, and labels.

Nothing here needs TransformerLens. The stream has no norm, so every number means what it means in
the waist: a head's coldness is in its query weights, the score is a plain product, hidden units are
ReLUs. What the classes lack is refused: heads of both masks in one model, and position biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from hardmax._errors import PrecisionError, RequestError
from hardmax.core import Attention, Construction, SequenceInput, Transformer
from hardmax.interop._hooks import StepHooks, lens_streams, step_hooks
from hardmax.interop._standard_form import Block, StandardForm, refuse_hard_heads, standard_form
from hardmax.interop.huggingface._home import Ids, ids_of
from hardmax.interop.huggingface._labels import Labels, labels_of, logit_rows
from hardmax.interop.huggingface._prepare import Abilities, prepared
from hardmax.interop.huggingface._tensors import TYPES, rounded
from hardmax.numerics import Format, format_named

ABILITIES = Abilities(biases=True, causal=False, distances=True, prelude=None)
CONSTANT = "a constant of the host"
UNUSED = "unused"  # the label of a head or unit that is there because every layer has as many
HookLabels = dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Sizes:
    """The numbers of a config, by the names that they have there."""

    d_model: int
    n_layers: int
    n_heads: int
    d_head: int
    d_mlp: int
    n_ctx: int
    d_vocab: int
    d_vocab_out: int


@dataclass(frozen=True, eq=False)
class LensParts:
    """Sizes, the mask of all heads, and the weights of a HookedTransformer by their names.

    `construction` is what they were made of: without parts that do nothing, its claim about
    `format`. `labels` are the classes of a program, None for real inputs.
    """

    construction: Construction
    format: Format
    sizes: Sizes
    causal: bool
    tensors: dict[str, np.ndarray]
    legend: HookLabels
    labels: Labels | None
    ids: Ids

    @property
    def step_hooks(self) -> StepHooks:
        """Of a legible model, by the name of a hook, the steps that the stream holds there."""
        made = self.construction
        if made.circuit is None:
            return {}
        return step_hooks(made.circuit, lens_streams(made.transformer.sublayers))


def lens_config(parts: LensParts) -> dict[str, object]:
    """Fields of a config of TransformerLens; no random weights are drawn that would be replaced."""
    return {
        **asdict(parts.sizes),
        "act_fn": "relu",
        "normalization_type": None,
        "positional_embedding_type": "standard",
        "attention_dir": "causal" if parts.causal else "bidirectional",
        "use_attn_scale": False,
        "default_prepend_bos": False,
        "init_weights": False,
        "dtype": parts.format.name,
    }


def lens_parts(construction: Construction, dtype: str | None) -> LensParts:
    """The parts of a construction, its weights rounded to the format; refusals name a home."""
    if not isinstance(construction, Construction):
        raise RequestError(
            f"TransformerLens takes a Construction, as hm.compile makes it, not a "
            f"{type(construction).__name__}."
        )
    format = _format(construction.claim.format if dtype is None else dtype)
    refuse_hard_heads(construction.transformer)
    claim = construction.claim
    words = isinstance(construction.transformer.input, SequenceInput)
    labels = labels_of(claim.target, format) if words else None
    try:
        fitted = prepared(construction, format, labels, ABILITIES)
    except PrecisionError:
        raise
    except RequestError as reason:
        raise RequestError(f"TransformerLens does not fit: {reason}") from reason
    causal = _mask(fitted.transformer)
    form = standard_form(fitted.transformer, heads=1, key_width=1, value_width=1, hidden_width=1)
    ids = ids_of(fitted.transformer)
    sizes = _sizes(form, ids, labels)
    tensors = {**_ends(fitted.transformer, format, labels, ids)}
    for number, block in enumerate(form.blocks or (None,)):
        tensors |= _block(block, f"blocks.{number}", sizes)
    stored = {name: rounded(array, format, name) for name, array in tensors.items()}
    return LensParts(
        fitted, format, sizes, causal, stored, hook_labels(fitted, form, form.heads), labels, ids
    )


def _format(dtype: object) -> Format:
    format = format_named(dtype)
    if format.name not in TYPES:
        known = ", ".join(TYPES)
        raise PrecisionError(f"Models of TransformerLens are in {known}, not in {format.name}.")
    return format


def _mask(transformer: Transformer) -> bool:
    """Whether all heads are causal; heads of both masks, and position biases, are refused."""
    heads = transformer.heads
    biased = sum(head.position_bias is not None for head in heads)
    if biased:
        raise RequestError(
            f"TransformerLens has no position biases, but {biased} of these {len(heads)} heads "
            f"have one: write_huggingface(construction, folder, 't5') takes those of the distance "
            f"alone, and write_torch(construction) all."
        )
    causal = sum(head.causal for head in heads)
    if causal not in (0, len(heads)):
        raise RequestError(
            f"TransformerLens has one mask for all heads, but {causal} of these {len(heads)} heads "
            f"see earlier tokens only: write_huggingface(construction, folder, 't5') takes both "
            f"masks, and open_in_lens(folder) opens that."
        )
    return causal > 0


def _sizes(form: StandardForm, ids: Ids, labels: Labels | None) -> Sizes:
    outputs = len(form.readout.weights) if labels is None else len(labels.codes)
    return Sizes(
        d_model=form.width,
        n_layers=max(1, len(form.blocks)),
        n_heads=form.heads,
        d_head=max(form.key_width, form.value_width),
        d_mlp=form.hidden_width,
        n_ctx=form.input.tokens,
        d_vocab=max(1, len(ids.tokens)),
        d_vocab_out=outputs,
    )


def _ends(
    transformer: Transformer, format: Format, labels: Labels | None, ids: Ids
) -> dict[str, np.ndarray]:
    """Embedding, positions and unembedding: logits 2 c y - c^2 for the answers' codes c."""
    source, readout = transformer.input, transformer.readout
    rows, biases = readout.weights, readout.bias
    if labels is not None:
        exact = logit_rows(readout, labels, format)
        assert exact is not None  # `prepared` saw to it
        rows, biases = exact
    table = np.zeros((max(1, len(ids.tokens)), transformer.width))
    places = np.zeros((transformer.tokens, transformer.width))
    if isinstance(source, SequenceInput):
        table[: len(ids.symbols)] = source.embedding
        if source.start is not None and ids.start is not None:
            table[ids.start] = source.start
        places[:] = source.positions
    return {
        "embed.W_E": table,
        "pos_embed.W_pos": places,
        "unembed.W_U": rows.T,
        "unembed.b_U": biases,
    }


def _block(block: Block | None, name: str, sizes: Sizes) -> dict[str, np.ndarray]:
    """Weights multiply from the right: W_Q is heads x stream x d_head."""
    heads, width, size, hidden = sizes.n_heads, sizes.d_model, sizes.d_head, sizes.d_mlp
    query, key, value = np.zeros((3, heads, width, size))
    output = np.zeros((heads, size, width))
    inner, inner_bias = np.zeros((width, hidden)), np.zeros(hidden)
    outer, outer_bias = np.zeros((hidden, width)), np.zeros(width)
    if block is not None:
        part, units = block.attention, block.feed_forward
        keys, values = part.query.shape[1], part.value.shape[1]
        query[:, :, :keys] = part.query.transpose(0, 2, 1)
        key[:, :, :keys] = part.key.transpose(0, 2, 1)
        value[:, :, :values] = part.value.transpose(0, 2, 1)
        output[:, :values] = part.output.transpose(0, 2, 1)
        inner[:], inner_bias[:] = units.inner.T, units.inner_bias
        outer[:], outer_bias[:] = units.outer.T, units.outer_bias
    return {
        **{
            f"{name}.attn.W_{one}": part
            for one, part in zip("QKV", (query, key, value), strict=True)
        },
        **{f"{name}.attn.b_{one}": np.zeros((heads, size)) for one in "QKV"},
        f"{name}.attn.W_O": output,
        f"{name}.attn.b_O": np.zeros(width),
        f"{name}.mlp.W_in": inner,
        f"{name}.mlp.b_in": inner_bias,
        f"{name}.mlp.W_out": outer,
        f"{name}.mlp.b_out": outer_bias,
    }


# ---- labels --------------------------------------------------------------------------------------

_STREAM = ("hook_resid_pre", "hook_attn_out", "hook_resid_mid", "hook_mlp_out", "hook_resid_post")
_HEADS = ("attn_scores", "pattern", "q", "k", "v", "z", "result")
_UNITS = ("pre", "post")


def hook_labels(
    construction: Construction,
    form: StandardForm,
    heads: int,
    slots: Sequence[Sequence[int]] | None = None,
    columns: int = 0,
) -> HookLabels:
    """By the name of a hook a label for each coordinate, head or hidden unit; empty without any.

    A host may have more `heads` in a layer, hold each block's heads in `slots` of its own, and have
    `columns` beside the stream.
    """
    said = construction.legend
    if said is None:
        return {}
    coordinates = (*said.coordinates, *[CONSTANT] * columns)
    found: HookLabels = {"hook_embed": coordinates, "hook_pos_embed": coordinates}
    for number, block in enumerate(form.blocks or (None,)):
        working: tuple[str, ...] = ()
        units: tuple[str, ...] = ()
        if block is not None:
            working = _steps(construction, block.attention.sublayer)
            units = _steps(construction, block.feed_forward.sublayer)
        places = range(len(working)) if slots is None else slots[number]
        named = [UNUSED] * heads
        for place, label in zip(places, working, strict=True):
            named[place] = label
        name = f"blocks.{number}"
        units = (*units, *[UNUSED] * (form.hidden_width - len(units)))
        found |= {f"{name}.{one}": coordinates for one in _STREAM}
        found |= {f"{name}.attn.hook_{one}": tuple(named) for one in _HEADS}
        found |= {f"{name}.mlp.hook_{one}": units for one in _UNITS}
    return found


def _steps(construction: Construction, sublayer: int | None) -> tuple[str, ...]:
    """The legend's words for the heads or units of a sublayer; numbers where it has none."""
    if sublayer is None or construction.legend is None:
        return ()
    layer = construction.transformer.sublayers[sublayer]
    count = len(layer.heads) if isinstance(layer, Attention) else layer.hidden_width
    said = construction.legend.sublayers[sublayer]
    return said if len(said) == count else tuple(map(str, range(count)))
