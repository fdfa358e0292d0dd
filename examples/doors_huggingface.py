"""Compiled models in unmodified classes of transformers, with a certificate about those weights.

    python examples/doors_huggingface.py            writes, proves and runs two folders

Writing and proving needs neither torch nor transformers; running needs pip install 'hardmax[hf]'.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import hardmax as hm


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        words(Path(place) / "reverse")
        print()
        numbers(Path(place) / "product")


def words(folder: Path) -> None:
    """A program becomes a classifier of tokens, with a tokenizer for its alphabet."""
    model = hm.compile(hm.programs.reverse, alphabet="abcde", length=5, float="float32")
    written = hm.interop.write_huggingface(model, folder)
    print(f"{written.class_name}, because {written.why}")
    prove(folder)
    if importlib.util.find_spec("transformers") is None:
        print("pip install 'hardmax[hf]' to run it")
        return
    from transformers import pipeline

    tagger = pipeline("token-classification", str(folder), ignore_labels=[])
    print("cabea ->", "".join(one["entity"] for one in tagger("cabea")))


def numbers(folder: Path) -> None:
    """A function takes `inputs_embeds`, which the folder's own maps make of real numbers."""
    model = hm.compile("x * y", on="[-1,1]^2", error=1e-2, float="float32")
    written = hm.interop.write_huggingface(model, folder, "llama")
    print(f"{written.class_name} with a norm of gain {written.gain:g}")
    prove(folder)
    stored = hm.interop.read_huggingface(folder)
    tokens = stored.embeddings([[0.5, -0.5], [1.0, 0.25]])
    if importlib.util.find_spec("transformers") is None:
        return
    import torch

    host = stored.load()
    with torch.no_grad():
        logits = host(inputs_embeds=torch.tensor(tokens).to(host.dtype)).logits
    print("products:", logits[:, stored.stored.transformer.readout.token, 0].tolist())


def prove(folder: Path) -> None:
    """The weights are read back, and the class's norms, activations and casts are charged."""
    certificate = hm.certify_folder(folder, write=True)
    bound = certificate.formats[certificate.format]
    print(f"{certificate.verdict.name} in {certificate.format}: {bound:.3g}")
    for line in certificate.assumptions:
        if "host" in line or line.startswith("Its "):
            print(f"  {line}")


if __name__ == "__main__":
    main()
