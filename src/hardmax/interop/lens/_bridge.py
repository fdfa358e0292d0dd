"""Folders for stock classes of transformers, opened in TransformerLens 4.x by its bridge.

The bridge runs the class itself, with its norms, and puts hooks between its parts. Three of its
habits matter to numbers:

- it loads in float32 unless told otherwise (`boot_transformers(folder)`), so here the class is
  loaded in the format that the folder is stored in;
- it switches to "eager" attention, and **its attention for rotary classes (Llama) takes every
  softmax in float32**, whatever the weights are in. A weight w is off by 2^-24 w then, and every
  score that reads what such a head wrote multiplies that by its coldness. GPT-2 and T5 are left in
  their own format;
- compatibility mode centres the unembedding and folds norms: it is never asked for here.

T5ForTokenClassification is not among the classes that TransformerLens knows: `boot_transformers`
takes the folder for T5ForConditionalGeneration, whose decoder would be random. The adapter below
names the parts of the encoder, by TransformerLens' own components.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from hardmax._errors import FileError, RequestError
from hardmax._reading import naming
from hardmax.core import Construction, VectorInput
from hardmax.interop._hooks import StepHooks, lens_streams, step_hooks
from hardmax.interop._safetensors import read_safetensors
from hardmax.interop._standard_form import standard_form
from hardmax.interop.huggingface._circuit import head_places
from hardmax.interop.huggingface._folder import DESCRIPTION, StoredHost, read_huggingface
from hardmax.interop.huggingface._home import ids_of
from hardmax.interop.huggingface._labels import labels_of
from hardmax.interop.huggingface._t5 import CLASS as T5_CLASS
from hardmax.interop.lens._models import lens_version, with_words
from hardmax.interop.lens._parts import HookLabels, hook_labels
from hardmax.interop.lens._words import LensWords
from hardmax.languages import decode_target
from hardmax.numerics import format_named

if TYPE_CHECKING:
    from transformer_lens.config import TransformerBridgeConfig
    from transformer_lens.model_bridge import TransformerBridge
    from transformer_lens.model_bridge.generalized_components import T5BlockBridge

_NO_PATTERNS = ("hook_pattern", "hook_attn_scores")  # of T5 these are position biases, or nothing


def open_in_lens(folder: str | os.PathLike[str]) -> TransformerBridge:
    """A folder of `write_huggingface` as a TransformerBridge of TransformerLens 4.x, with labels.

    It has `encode`, `decode`, `legend` and `labelled`, as what `write_transformer_lens` returns.
    Real inputs are called as model(model.encode(x)). The format is that of the stored weights.

    >>> import tempfile
    >>> sort = hm.compile(hm.programs.sort_by_frequency, alphabet="abc", length=4)  # mixed masks
    >>> written = hm.interop.write_huggingface(sort, tempfile.mkdtemp(), "t5")
    >>> model = hm.interop.open_in_lens(written.folder)
    >>> model.decode(model(model.encode("abcb")))
    [['b', 'b', 'a', 'c']]
    """
    if lens_version() < (4, 0):
        raise RequestError(
            "Folders are opened by the bridge of TransformerLens 4, but version 3.9 is installed: "
            "write_transformer_lens(construction) makes its HookedTransformer. Or try: "
            "pip install 'transformer-lens>=4,<5'"
        )
    host = read_huggingface(folder)
    words = _words(host)
    from transformer_lens.model_bridge.sources import build_bridge_from_module

    if host.class_name == T5_CLASS:
        _register_t5()
    model = host.load()
    bridge = build_bridge_from_module(
        model, host.class_name, hf_config=model.config, model_name=str(host.folder)
    )
    written = _written(host)
    hooks: StepHooks = {}
    if host.circuit is not None:
        hooks = step_hooks(host.circuit, lens_streams(written.transformer.sublayers))
    labels = _labels(host, written, bridge.cfg.n_heads)
    words = replace(words, legend=labels, circuit=host.circuit, step_hooks=hooks)
    return with_words(bridge, words)


def _words(host: StoredHost) -> LensWords:
    """What the folder says of its alphabet, its classes and its real inputs."""
    encoded = host.stored.encoded_target
    if encoded is None:
        with naming(host.folder):
            raise FileError("does not hold the target of its claim.")
    construction = host.stored.join(decode_target(encoded))
    transformer = construction.transformer
    if isinstance(transformer.input, VectorInput):
        return LensWords(construction, None, ids_of(transformer), {}, host.constants)
    labels = labels_of(construction.claim.target, format_named(construction.claim.format))
    if host.class_name == T5_CLASS:
        return LensWords(construction, labels, ids_of(transformer), {}, host.constants)
    ids = ids_of(transformer, labels.texts)
    places = tuple(ids.tokens.index(text) for text in labels.texts)
    return LensWords(construction, labels, ids, {}, host.constants, places)


def _written(host: StoredHost) -> Construction:
    """What was written, of which the weights that are read may be a smaller form."""
    stored = read_safetensors(host.folder / DESCRIPTION)
    assert stored.encoded_target is not None  # `_words` saw to it
    return stored.join(decode_target(stored.encoded_target))


def _labels(host: StoredHost, written: Construction, heads: int) -> HookLabels:
    form = standard_form(written.transformer)
    slots = head_places(written) if host.class_name == T5_CLASS else None
    found = hook_labels(written, form, heads, slots, len(host.constants))
    if host.class_name == T5_CLASS:
        return {name: labels for name, labels in found.items() if not name.endswith(_NO_PATTERNS)}
    return found


def _register_t5() -> None:
    from transformer_lens.factories.architecture_adapter_factory import ArchitectureAdapterFactory
    from transformer_lens.model_bridge import generalized_components as parts
    from transformer_lens.model_bridge.architecture_adapter import ArchitectureAdapter

    def block(config: TransformerBridgeConfig) -> T5BlockBridge:
        attention = parts.AttentionBridge(
            name="layer.0.SelfAttention",
            config=config,
            submodules={one: parts.LinearBridge(name=one) for one in "qkvo"},
            requires_relative_position_bias=True,
        )
        units = {"in": parts.LinearBridge(name="wi"), "out": parts.LinearBridge(name="wo")}
        norms = (
            parts.RMSNormalizationBridge(name=f"layer.{i}.layer_norm", config=config)
            for i in range(2)
        )
        return parts.T5BlockBridge(
            name="transformer.encoder.block",
            config=config,
            submodules={
                "ln1": next(norms),
                "attn": attention,
                "ln2": next(norms),
                "mlp": parts.MLPBridge(name="layer.1.DenseReluDense", submodules=units),
            },
        )

    class TokenClassifier(ArchitectureAdapter):
        """The encoder of T5 with a classifier of tokens."""

        supports_fold_ln = False

        def __init__(self, cfg: TransformerBridgeConfig) -> None:
            super().__init__(cfg)
            self.cfg.normalization_type = "RMS"
            self.cfg.positional_embedding_type = "relative_positional_bias"
            self.cfg.attention_dir = "bidirectional"
            self.cfg.final_rms = self.cfg.gated_mlp = self.cfg.attn_only = False
            self.weight_processing_conversions: dict[str, object] = {}
            last = "transformer.encoder.final_layer_norm"
            self.component_mapping = {
                "embed": parts.EmbeddingBridge(name="transformer.encoder.embed_tokens"),
                "blocks": block(self.cfg),
                "ln_final": parts.RMSNormalizationBridge(name=last, config=self.cfg),
                "unembed": parts.UnembeddingBridge(name="classifier"),
            }

    ArchitectureAdapterFactory.register_adapter(T5_CLASS, TokenClassifier)
