"""The circuit of a legible model in the class that carries it: its heads, coordinates and hooks.

Our columns come first in every home, so coordinates stay; T5 has heads in places of its own. The
stream behind a sublayer is what the next norm is given, in all three classes. What a forward
pre-hook writes into it, in place, is an intervention: the residual sum goes on from that very
tensor.
"""

from __future__ import annotations

from hardmax.core import Attention, Circuit, Construction, layers_of
from hardmax.interop._hooks import Streams, circuit_record, in_places
from hardmax.interop._standard_form import standard_form
from hardmax.interop.huggingface._t5 import places, slotted

_T5, _GPT2, _LLAMA = "transformer.encoder", "transformer", "model"
_NORMS = {  # before the heads of layer {}, before its hidden units, behind all layers
    "t5": (
        f"{_T5}.block.{{}}.layer.0.layer_norm",
        f"{_T5}.block.{{}}.layer.1.layer_norm",
        f"{_T5}.final_layer_norm",
    ),
    "gpt2": (f"{_GPT2}.h.{{}}.ln_1", f"{_GPT2}.h.{{}}.ln_2", f"{_GPT2}.ln_f"),
    "llama": (
        f"{_LLAMA}.layers.{{}}.input_layernorm",
        f"{_LLAMA}.layers.{{}}.post_attention_layernorm",
        f"{_LLAMA}.norm",
    ),
}


def host_circuit(construction: Construction, architecture: str) -> Circuit | None:
    """The circuit of a construction in the form of a home, its heads where the home has them."""
    circuit = construction.circuit
    if circuit is None or architecture != "t5":
        return circuit
    return in_places(circuit, head_places(construction))


def head_places(construction: Construction) -> list[list[int]]:
    """The slots of the heads of each layer of a T5."""
    _, kinds = slotted(construction)
    blocks = standard_form(construction.transformer).blocks
    return [places(block, construction.transformer, kinds) for block in blocks] or [[]]


def norm_inputs(construction: Construction, architecture: str) -> Streams:
    """By the sublayer that wrote last, the norm that is given the stream."""
    sublayers = construction.transformer.sublayers
    layers = layers_of(sublayers)
    before_heads, before_units, last = _NORMS[architecture]

    def name(number: int) -> str:
        if number >= 0 and isinstance(sublayers[number], Attention):
            return before_units.format(layers[number])
        layer = layers[number] + 1 if number >= 0 else 0
        return before_heads.format(layer) if layer <= max(layers, default=0) else last

    return name


def host_record(construction: Construction, architecture: str) -> dict[str, object] | None:
    """What circuit.json says; None for a model without a circuit."""
    circuit = host_circuit(construction, architecture)
    if circuit is None:
        return None
    return circuit_record(circuit, norm_inputs(construction, architecture))
