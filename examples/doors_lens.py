"""A compiled program in TransformerLens: labelled hooks, words in and out, a head switched off.

    pip install 'hardmax[lens]'
    python examples/doors_lens.py

With TransformerLens 3.9 the model is a HookedTransformer, with 4.x a TransformerBridge; with 4.x,
a folder for a stock class of transformers is opened, too.
"""

from __future__ import annotations

import importlib.metadata
import tempfile

import torch

import hardmax as hm


def main() -> None:
    program = hm.compile(hm.programs.reverse, alphabet="abcde", length=5)
    model = hm.interop.write_transformer_lens(program)
    print(f"{type(model).__name__}, {model.cfg.n_layers} layers, {model.cfg.dtype}")

    tokens = model.encode("cabea")
    logits, cache = model.run_with_cache(tokens)
    print("cabea backwards:", "".join(model.decode(logits)[0]))

    hook = "blocks.1.attn.hook_pattern"
    for label, pattern in model.labelled(cache)[hook].items():
        print(f"{hook}, {label!r}: position 0 looks at {int(pattern[0, 0].argmax())}")

    def off(pattern: torch.Tensor, hook: object) -> torch.Tensor:
        return torch.zeros_like(pattern)

    without = model.run_with_hooks(tokens, fwd_hooks=[(hook, off)])
    print("without that head:", "".join(model.decode(without)[0]))

    product = hm.interop.write_transformer_lens(hm.compile("x*y", on="[-1,1]^2", error=1e-3))
    answer = product(product.encode([0.3, 0.5]), start_at_layer=0)
    print(f"0.3 * 0.5 = {product.decode(answer)[0, 0]:.4f}")

    with tempfile.TemporaryDirectory() as folder:
        hm.interop.export_lens_files(program, folder, "float32")
        again = hm.interop.read_lens_files(folder)
        print("from its folder, in", again.cfg.dtype, again.decode(again(again.encode("cabea"))))

    if not importlib.metadata.version("transformer-lens").startswith("3."):
        with tempfile.TemporaryDirectory() as folder:
            hm.interop.write_huggingface(program, folder, "t5")
            bridge = hm.interop.open_in_lens(folder)
            found = bridge.decode(bridge(bridge.encode("cabea")))
            print("a folder for T5, in the bridge:", "".join(found[0]))


if __name__ == "__main__":
    main()
