"""The door: a construction as a model of TransformerLens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardmax.core import Construction
from hardmax.interop.lens._models import lens_model, lens_version
from hardmax.interop.lens._parts import lens_parts

if TYPE_CHECKING:
    from transformer_lens import HookedTransformer
    from transformer_lens.model_bridge import TransformerBridge


def write_transformer_lens(
    construction: Construction, dtype: str | None = None
) -> HookedTransformer | TransformerBridge:
    """A model of TransformerLens: a HookedTransformer in 3.9, a TransformerBridge in 4.x.

    It is an ordinary one, with its hooks, caches and patching, and it has no norm, so that its
    stream holds the construction's numbers. These attributes come besides:

    - `model.encode(words)` makes tokens, `model.decode(logits)` the program's answers;
    - `model.legend` says by the name of a hook what each of its heads, hidden units or coordinates
      is for: `model.legend["blocks.0.attn.hook_pattern"]` are labels of heads;
    - `model.labelled(cache)` is what `run_with_cache` cached, by hook and label;
    - `model.circuit` is the circuit of a legible model, and `model.step_hooks` says by the name of
      a hook which steps are in which coordinates there.

    A program answers by classes: the logit of an answer with the code c is 2 c y - c^2, y being the
    number that the construction computes, so that the largest belongs to the code next to y.
    Functions and networks have no tokens: `model.encode(x)` is the stream that layer 0 starts from,
    `model(model.encode(x), start_at_layer=0)` gives logits and `model.decode` their numbers.

    `dtype` is "float64", "float32" or "bfloat16", by default the format that the claim is about.
    All heads have one mask here, and none has a position bias: what needs more is refused.

    **Rounding.** Weights are rounded once, after the coldness was multiplied into the queries.
    TransformerLens then adds and multiplies in that format, zeros besides, in some order: the
    certificate's bound for the format holds for y, as long as exp is as exact as is assumed there.
    What y loses on its way to logits is not in it, and matters for codes whose squares fill the
    format's digits: `certify_folder` charges it to folders of `write_huggingface`.

    >>> program = hm.compile(hm.programs.reverse, alphabet="abcde", length=5)
    >>> model = hm.interop.write_transformer_lens(program, "float32")
    >>> logits, cache = model.run_with_cache(model.encode("cab"))
    >>> model.decode(logits)
    [['b', 'a', 'c']]
    >>> for label, pattern in model.labelled(cache)["blocks.1.attn.hook_pattern"].items():
    ...     print(label, pattern.argmax(dim=-1).tolist())
    answer = tokens at [there index == ((length - 1) - index)] [[2, 1, 0]]
    """
    lens_version()
    return lens_model(lens_parts(construction, dtype))
