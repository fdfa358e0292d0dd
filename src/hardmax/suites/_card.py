"""README.md of a program's folder: what it computes, where each step is, how to prove it."""

from __future__ import annotations

from collections.abc import Mapping

from hardmax.core import Circuit
from hardmax.languages.programs import ProgramTarget

LICENCE = "Apache-2.0"
_OPEN = {
    "hf": '`transformers.{class_}.from_pretrained("huggingface")`',
    "lens": '`hardmax.interop.read_lens_files("lens")`, or a HookedTransformer from its config',
}


def card(name: str, record: Mapping[str, object], circuit: Circuit, target: ProgramTarget) -> str:
    """The page of one program."""
    homes = record["homes"]
    assert isinstance(homes, Mapping)
    lines = [
        f"# {name}",
        "",
        "A compiled Transformer, not a trained one: its circuit is known, and proved from the "
        "weights.",
        "",
        "```",
        str(target.program),
        "```",
        "",
        f"Words: {target.words}. Claim: within {record['claimed']:.6g} of the answers' numbers in "
        f"{record['format']}; certified {record['certified']:.6g}. Licence: {LICENCE}.",
        "",
        "| step | component | coordinates |",
        "|---|---|---|",
        *_rows(circuit),
        "",
        *[_line(home, said) for home, said in homes.items()],
        "- `hardmax.safetensors`: the model itself, for `hm.load`; `certificate.json` is about it. "
        "Prove it again: `hardmax verify hardmax.safetensors`.",
        "- `circuit.json`: nodes, edges and blocks of that model; `interpbench.json` and "
        "`eap_ig.json` are in the hook names of the TransformerLens model.",
        "- `words.jsonl`: words, answers, and the label of every step at every position.",
        "",
        "Heads, layers and coordinates above are those of `hardmax.safetensors`. The model in a "
        "folder has its own `circuit.json`, which lists steps by the names of hooks, too.",
    ]
    return "\n".join(lines) + "\n"


def _rows(circuit: Circuit) -> list[str]:
    writer = {number: node.name for node in circuit.nodes for number in node.writes}
    return [
        f"| {_escaped(block.name)} | {_escaped(writer[number])} | {block.first} to "
        f"{block.stop - 1} ({block.form}) |"
        for number, block in enumerate(circuit.blocks)
    ]


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _line(home: str, said: Mapping[str, object]) -> str:
    if "left_out" in said:
        return f"- {home}: left out. {said['left_out']}"
    opened = _OPEN[home].format(class_=said.get("class"))
    return (
        f"- `{said['folder']}/` in {said['format']}: {opened}. Proved by {said['method']}: "
        f"`hardmax verify {said['folder']}`."
    )
