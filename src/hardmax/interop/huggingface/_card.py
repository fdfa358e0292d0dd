"""The model card: what is in the folder, for people, with what the norm's gain is."""

from __future__ import annotations

import json

from hardmax.core import Box
from hardmax.interop.huggingface._home import Written

_NORMS = {
    "ballast": (
        "Constant columns of the embedding (ballast) keep the norm's divisor at {gain:g} whatever "
        "the other columns hold, and its gain, {gain:g}, takes that back: the norm changes nothing "
        "but roundings. Epsilon is the stock value {epsilon:g}."
    ),
    "epsilon": (
        "The epsilon trick: the config's epsilon is {epsilon:g}, not the stock value, and so large "
        "that the norm's divisor is {gain:g} whatever the stream holds; its gain, {gain:g}, takes "
        "that back. The norm changes nothing but roundings."
    ),
}


def card(written: Written, class_name: str, choice: str) -> str:
    """README.md of the folder."""
    construction, columns = written.construction, written.columns
    claim = construction.claim
    norm = _NORMS[choice].format(gain=columns.gain, epsilon=columns.epsilon)
    lines = [
        "---",
        "library_name: transformers",
        *(["pipeline_tag: token-classification"] if "TokenClass" in class_name else []),
        "tags:",
        "- hardmax",
        "---",
        "",
        "# A compiled model, not a trained one",
        "",
        f"`{class_name}`, unmodified. Its weights were computed by hardmax from a source.",
        "",
        f"- **Claim:** within {claim.error:.6g} of its target on {claim.domain}, in "
        f"{claim.format}. What was proved of these very files stands in `certificate.json`, if "
        "that file is here.",
        f"- **Norm:** {norm}",
        f"- **Type:** keep the weights in {claim.format}: half precision or quantisation breaks "
        "gains of this size. Use sdpa (the default) or eager attention.",
        "- **Assumed of the class**, where something was proved: its sums are taken in any order, "
        "its exp, rsqrt and activations are good to a few units, and products are not taken in a "
        "coarser format (TF32). `certificate.json` says it in full.",
        *(f"- {note}" for note in written.notes),
        "",
        "```python",
        *_example(written, class_name),
        "```",
        "",
        "`hardmax.safetensors` holds the claim, its target, the witness and the legend; "
        "`hm.interop.read_huggingface(folder)` reads the weights and the config back.",
    ]
    return "\n".join(lines) + "\n"


def _example(written: Written, class_name: str) -> list[str]:
    if isinstance(written.construction.claim.domain, Box):
        return [
            "import torch",
            f"from transformers import {class_name}",
            "import hardmax as hm",
            "",
            "stored = hm.interop.read_huggingface(folder)",
            f"model = {class_name}.from_pretrained(folder)",
            "tokens = torch.tensor(stored.embeddings(x)).to(model.dtype)  # a row x for each input",
            f"model(inputs_embeds=tokens).logits[:, {stored_token(written)}]",
        ]
    if "TokenClass" in class_name:
        word = json.dumps(example_word(written))
        return ["from transformers import pipeline", "", _pipeline(word)]
    return [
        f"from transformers import AutoTokenizer, {class_name}",
        "",
        "word = AutoTokenizer.from_pretrained(folder)(text, return_tensors='pt')",
        f"{class_name}.from_pretrained(folder)(**word).logits.argmax(-1)",
    ]


def _pipeline(word: str) -> str:
    return f'pipeline("token-classification", folder, ignore_labels=[])({word})'


def stored_token(written: Written) -> int | None:
    """The token at which the answer is read."""
    return written.construction.transformer.readout.token


def example_word(written: Written) -> str:
    """A word of the alphabet, as the tokenizer takes it."""
    domain = written.construction.claim.domain
    texts = [str(symbol) for symbol in domain.alphabet[: domain.longest][::-1]]
    return ("" if all(len(text) == 1 for text in texts) else " ").join(texts)
