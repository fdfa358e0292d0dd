"""Circuit discovery against ground truth: four methods on three models whose circuit is proved.

    python examples/circuits.py                   reverse, sort, histogram (extra torch)
    python examples/circuits.py dyck_1 duplicates other programs of the gallery

The models are written by `hm.write_suite`, and read as anybody would who has torch alone: weights
by TransformerLens' names, words, and the true edges in EAP-IG's names. An edge goes from a head, a
layer's hidden units or the input to a port of a later one; a score is said to find those above a
thousandth of its largest. Words have full length, and pairs of them the same.

    program    method    precision  recall    AUC
    reverse    patching       1.00    0.38   0.69
    reverse    removal        0.88    0.88   0.92
    reverse    EAP            1.00    0.38   0.69
    reverse    EAP-IG         1.00    0.38   0.69
    sort       patching       1.00    0.80   0.90
    sort       removal        0.60    0.90   0.89
    sort       EAP            1.00    0.20   0.60
    sort       EAP-IG         1.00    0.20   0.60
    histogram  patching       1.00    1.00   1.00
    histogram  removal        0.80    1.00   0.91
    histogram  EAP            1.00    0.25   0.62
    histogram  EAP-IG         1.00    1.00   1.00

What this shows, and what not:

- Patching never errs: an edge that is not there has an effect of exactly 0. It misses what no two
  words of one length differ in, the places and the length of the word, however much depends on it.
- Removal finds these, and more: taking the input away from a port takes the constants away with it,
  1 everywhere and at the start token, which are no steps and so are no edges of the circuit. It
  misses the head that counts the length of `reverse`: a share of 0 is read as the greatest length.
- Edge attribution finds only the edges behind the last nonlinear part. These models are cold, and
  look-ups are flat between their jumps: patterns have slopes of about exp(-32), units of exactly 0.
  That says little about trained models, which are neither cold nor flat.
- Integrated gradients meet the jumps half-way between two words. In `histogram` this is enough;
  where several lie behind each other, the way is never at all of them at once.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

import hardmax as hm

Edge = tuple[str, str, str]  # a node that writes, one that reads, and the port at which it reads
PAIRS, STEPS = 64, 16  # of words; of the way from one to the other, for integrated gradients
KEPT = 1e-3  # of the largest score: edges above are said to be in the circuit
PROGRAMS = ("reverse", "sort", "histogram")


@dataclass
class Model:
    """A Transformer without norms, every edge of which can be changed by itself."""

    folder: Path
    weights: dict[str, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        self.config = json.loads((self.folder / "config.json").read_text())
        self.symbols = json.loads((self.folder / "legend.json").read_text())["tokens"]
        loaded = load_file(self.folder / "model.safetensors")
        self.weights = {name: tensor.double() for name, tensor in loaded.items()}
        self.layers = [self._parts(i) for i in range(self.config["n_layers"])]

    def _parts(self, i: int) -> tuple[list[int], bool]:
        """The heads of a layer that write anything, and whether its hidden units do."""
        out, units = (self.weights[f"blocks.{i}.{n}"] for n in ("attn.W_O", "mlp.W_out"))
        return [h for h in range(len(out)) if out[h].any()], bool(units.any())

    def edges(self) -> list[Edge]:
        """From every node to every port of a later one."""
        found, earlier = [], ["input"]
        for i, (heads, units) in enumerate(self.layers):
            here = [f"a{i}.h{h}" for h in heads]
            found += [(u, v, port) for v in here for port in "qkv" for u in earlier]
            earlier = earlier + here
            if units:
                found += [(u, f"m{i}", "") for u in earlier]
                earlier = [*earlier, f"m{i}"]
        return found + [(u, "logits", "") for u in earlier]

    def embedded(self, words: Sequence[Sequence[str]]) -> Tensor:
        start = self.symbols.index("<s>")
        ids = torch.tensor([[start, *map(self.symbols.index, map(str, w))] for w in words])
        places = self.weights["pos_embed.W_pos"][: ids.shape[1]]
        return self.weights["embed.W_E"][ids] + places

    def run(
        self,
        stream: Tensor,
        changes: dict[Edge, Tensor] | None = None,
        reads: dict[tuple[str, str], Tensor] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits, and what every node wrote; `changes` are added on edges, `reads` are kept."""
        wrote = {"input": stream}
        changes = {} if changes is None else changes

        def read(node: str, port: str) -> Tensor:
            total = torch.stack(list(wrote.values())).sum(dim=0)
            for (writer, reader, at), change in changes.items():
                if (reader, at) == (node, port) and writer in wrote:
                    total = total + change
            if reads is not None:
                total.retain_grad()
                reads[node, port] = total
            return total

        for i, (heads, units) in enumerate(self.layers):
            own = {f"a{i}.h{h}": self._head(i, h, read) for h in heads}
            wrote |= own
            if units:
                wrote[f"m{i}"] = self._units(i, read(f"m{i}", ""))
        logits = read("logits", "") @ self.weights["unembed.W_U"] + self.weights["unembed.b_U"]
        return logits[:, 1:], wrote

    def _head(self, i: int, h: int, read: Callable[[str, str], Tensor]) -> Tensor:
        name = f"blocks.{i}.attn"
        query, key, value = (
            read(f"a{i}.h{h}", port) @ self.weights[f"{name}.W_{port.upper()}"][h] for port in "qkv"
        )
        pattern = torch.softmax(query @ key.transpose(1, 2), dim=-1)
        return pattern @ value @ self.weights[f"{name}.W_O"][h]

    def _units(self, i: int, x: Tensor) -> Tensor:
        inner, bias, outer, rest = (
            self.weights[f"blocks.{i}.mlp.{n}"] for n in ("W_in", "b_in", "W_out", "b_out")
        )
        return torch.relu(x @ inner + bias) @ outer + rest


# ---- methods: a score for every edge -------------------------------------------------------------


@dataclass
class Task:
    """Words, other words of the same length, and how far the answer is from the others'."""

    model: Model
    clean: Tensor
    other: Tensor

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.logits, self.wrote = self.model.run(self.clean)
            answers, self.elsewhere = self.model.run(self.other)
        self.answer, self.wrong = self.logits.argmax(dim=-1), answers.argmax(dim=-1)

    def metric(self, logits: Tensor) -> Tensor:
        """By pairs: the answer's logit less that of the other word's answer, over all symbols."""
        both = (self.answer, self.wrong)
        right, wrong = (logits.gather(2, code[..., None]).sum((1, 2)) for code in both)
        return right - wrong

    def patched(self, removed: bool) -> dict[Edge, float]:
        """What an edge carries is what it carries for the other word, or nothing."""
        before, found = self.metric(self.logits), {}
        for edge in self.model.edges():
            there = self.wrote[edge[0]]
            new = torch.zeros_like(there) if removed else self.elsewhere[edge[0]]
            with torch.no_grad():
                logits, _ = self.model.run(self.clean, {edge: new - there})
            found[edge] = float((self.metric(logits) - before).abs().mean())
        return found

    def attributed(self, points: Sequence[float]) -> dict[Edge, float]:
        """Gradients at these points of the way between the embeddings, times the difference."""
        slopes: dict[tuple[str, str], Tensor] = {}
        for point in points:
            reads: dict[tuple[str, str], Tensor] = {}
            stream = self.other + point * (self.clean - self.other)
            logits, _ = self.model.run(stream.requires_grad_(), reads=reads)
            self.metric(logits).sum().backward()
            for port, x in reads.items():
                if x.grad is not None:
                    slopes[port] = slopes.get(port, torch.zeros(())) + x.grad / len(points)
        return {
            (u, v, p): float(
                ((self.elsewhere[u] - self.wrote[u]) * slopes[v, p]).sum((1, 2)).abs().mean()
            )
            for u, v, p in self.model.edges()
        }


def methods(task: Task) -> Iterator[tuple[str, dict[Edge, float]]]:
    yield "patching", task.patched(removed=False)
    yield "removal", task.patched(removed=True)
    yield "EAP", task.attributed([1.0])
    yield "EAP-IG", task.attributed([(k + 0.5) / STEPS for k in range(STEPS)])


# ---- scores of methods ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    precision: float
    recall: float
    area: float  # under the ROC curve: how often a true edge is above a false one
    missed: tuple[str, ...]
    false: tuple[str, ...]


def scored(scores: dict[Edge, float], truth: set[str]) -> Score:
    named = {f"{u}->{v}" + (f"<{p}>" if p else ""): score for (u, v, p), score in scores.items()}
    assert truth <= set(named)
    least = KEPT * max(named.values())
    kept = {name for name, score in named.items() if score > least}
    ups = [score for name, score in named.items() if name in truth]
    downs = [score for name, score in named.items() if name not in truth]
    wins = sum((up > down) + 0.5 * (up == down) for up in ups for down in downs)
    right = len(kept & truth)
    return Score(
        right / max(1, len(kept)),
        right / len(truth),
        wins / (len(ups) * len(downs)),
        tuple(sorted(truth - kept)),
        tuple(sorted(kept - truth)),
    )


def task_of(folder: Path) -> Task:
    """Pairs of words of full length out of the folder's own test set."""
    lines = [json.loads(line) for line in (folder / "words.jsonl").read_text().splitlines()]
    longest = max(len(line["word"]) for line in lines)
    words = [line["word"] for line in lines if len(line["word"]) == longest]
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(0)).tolist()
    turned = [words[k] for k in order]
    model = Model(folder / "lens")
    clean, other = model.embedded(turned), model.embedded(turned[1:] + turned[:1])
    return Task(model, clean[:PAIRS], other[:PAIRS])


def results(programs: Sequence[str], place: str) -> dict[tuple[str, str], Score]:
    """By program and method."""
    hm.write_suite(place, programs=programs, symbols=3, length=4, only="lens")
    found = {}
    for name in programs:
        folder = Path(place) / name
        edges = json.loads((folder / "eap_ig.json").read_text())["edges"]
        truth = [name for name, said in edges.items() if said["in_graph"]]
        for method, scores in methods(task_of(folder)):
            found[name, method] = scored(scores, set(truth))
    return found


def main(programs: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as place:
        found = results(programs or PROGRAMS, place)
    print(f"{'program':<18}{'method':<10}{'precision':>10}{'recall':>8}{'AUC':>7}  missed")
    for (program, method), score in found.items():
        missed = ", ".join(score.missed[:4]) + (", ..." if len(score.missed) > 4 else "")
        numbers = f"{score.precision:10.2f}{score.recall:8.2f}{score.area:7.2f}"
        print(f"{program:<18}{method:<10}{numbers}  {missed}")


if __name__ == "__main__":
    main(sys.argv[1:])
