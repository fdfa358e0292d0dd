"""The module that `write_torch` returns: embedding, residual blocks, read-out, and words."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from hardmax._errors import RequestError, ShapeError
from hardmax.core import (
    Attention,
    Circuit,
    Construction,
    FeedForward,
    GatedFeedForward,
    Legend,
    SequenceInput,
    Transformer,
    VectorInput,
    is_batch_of_words,
)
from hardmax.interop._hooks import StepHooks, step_hooks
from hardmax.interop._torch_modules import (
    AttentionBlock,
    FeedForwardBlock,
    GatedFeedForwardBlock,
    HookPoint,
    SequenceEmbedding,
    VectorEmbedding,
)
from hardmax.interop._torch_tensors import linear

_IN_CACHE = 2**18  # numbers of a stream at a time, where a folded module has a large batch
Words = str | Sequence[Hashable] | Sequence[Sequence[Hashable]]


@dataclass(frozen=True, eq=False)
class Parts:
    """What a module is made of; a block for each sublayer.

    `coordinates` are those of the stream behind the embedding and behind every block: all of
    them in a stack, in a folded module those that are left. `token` is where the answer is read,
    None for every symbol; a folded stream is that token already.
    """

    embedding: nn.Module
    blocks: Sequence[nn.Module]
    readout: nn.Module
    coordinates: Sequence[Sequence[int]]
    token: int | None
    folded: bool


def stacked(transformer: Transformer, dtype: torch.dtype) -> Parts:
    """The Transformer as it stands: all tokens, all coordinates."""
    source, readout = transformer.input, transformer.readout
    embedding: nn.Module
    match source:
        case VectorInput():
            embedding = VectorEmbedding(source, dtype)
        case SequenceInput():
            embedding = SequenceEmbedding(source, dtype)
    blocks: list[nn.Module] = []
    for sublayer in transformer.sublayers:
        match sublayer:
            case Attention():
                blocks.append(AttentionBlock(sublayer, transformer.tokens, dtype))
            case FeedForward():
                blocks.append(FeedForwardBlock(sublayer, dtype))
            case GatedFeedForward():
                blocks.append(GatedFeedForwardBlock(sublayer, dtype))
    return Parts(
        embedding,
        blocks,
        linear(readout.weights, readout.bias, dtype),
        [range(transformer.width)] * (len(blocks) + 1),
        readout.token,
        folded=False,
    )


class TransformerModule(nn.Module):
    """Embedding, residual blocks, read-out: x <- x + block(x), without layer norm.

    For a vector input, `forward` takes (batch, inputs) or (inputs,) in the module's dtype and
    returns (batch, outputs) or (outputs,). For words it takes symbol numbers, (batch, length) or
    (length,), as `encode` makes them; a read-out at every token adds a length axis, and `decode`
    makes words of what comes out.

    `legend` says what the numbers at a module's output are: by the module's name a label for each
    coordinate of the stream (`embedding`, `blocks.0`), each head of an attention pattern
    (`blocks.0.pattern`) and each hidden unit (`blocks.1.hidden`). Hook there with
    `module.get_submodule(name).register_forward_hook(...)`; what a hook returns is what goes on.
    It is empty for a model without a legend. A legible model has its `circuit`, too, and
    `step_hooks`: by the name of a module the steps that the stream behind it holds, and where.

    `folded` says which form this is, see `write_torch`.
    """

    def __init__(self, parts: Parts, model: Construction | Transformer) -> None:
        super().__init__()
        transformer = model.transformer if isinstance(model, Construction) else model
        self.embedding = parts.embedding
        self.blocks = nn.ModuleList(parts.blocks)
        self.readout = parts.readout
        self.token = parts.token
        self.folded = parts.folded
        self.legend: dict[str, tuple[str, ...]] = {}
        self.circuit: Circuit | None = None
        self.step_hooks: StepHooks = {}
        self._rows = _IN_CACHE // max(1, *map(len, parts.coordinates))
        self._source = transformer.input
        self._decode: Callable[[np.ndarray], object] | None = None
        if isinstance(model, Construction):
            self._decode = getattr(model.claim.target, "decode", None)
            if model.legend is not None:
                self.legend = _labels(model.legend, parts)
            if model.circuit is not None and not parts.folded:
                self.circuit = model.circuit
                self.step_hooks = step_hooks(model.circuit, _module_name)

    def forward(self, x: Tensor) -> Tensor:
        if x.dim() == 1:
            return self._run(x.unsqueeze(0)).squeeze(0)
        large = self.folded and len(x) > self._rows and not torch.is_grad_enabled()
        if large and not any(module._forward_hooks for module in self.modules()):
            return torch.cat([self._run(part) for part in x.split(self._rows)])
        return self._run(x)

    def _run(self, x: Tensor) -> Tensor:
        stream: Tensor = self.embedding(x)
        for block in self.blocks:
            stream = block(stream)
        if not self.folded:
            symbols = slice(stream.shape[1] - x.shape[1], None)  # without the start token
            stream = stream[:, symbols if self.token is None else self.token]
        answer: Tensor = self.readout(stream)
        return answer

    def encode(self, words: Words) -> Tensor:
        """Symbol numbers for `forward`: (length,) of one word, (batch, length) of a list of words.

        A text is a word, and so is a list of symbols: a batch of words of one letter is a list of
        lists. Words of one batch need one length; there is no padding, since every head would have
        to be masked for it.
        """
        source = self._words()
        if isinstance(words, str) or not is_batch_of_words(words, source.alphabet):
            return self._numbers(source.indices(words))
        rows = [source.indices(word) for word in words if isinstance(word, Sequence | np.ndarray)]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise ShapeError(
                f"The words of one batch need one length, but they have {lengths[0]} to "
                f"{lengths[-1]} symbols: encode those of each length apart."
            )
        return self._numbers(rows)

    def _numbers(self, rows: list[int] | list[list[int]]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=next(self.parameters()).device)

    def decode(self, outputs: Tensor) -> object:
        """What the outputs say: the answer for one word, or a list of answers for a batch.

        An answer is what calling the Construction gives: a list of items, or one item.
        """
        self._words()
        if self._decode is None:
            raise RequestError(
                "This model answers with numbers. Words come out of a Construction whose target is "
                "a program: give write_torch that, not its Transformer."
            )
        numbers = outputs.detach().to("cpu", torch.float64).numpy()
        axes = 2 if self.token is None else 1
        if numbers.ndim not in (axes, axes + 1):
            raise ShapeError(
                f"The outputs of one word have {axes} axes and those of a batch one more, but "
                f"these have {numbers.ndim}."
            )
        answers = [
            self._decode(rows if self.token is None else rows[None])
            for rows in (numbers if numbers.ndim > axes else numbers[None])
        ]
        return answers if numbers.ndim > axes else answers[0]

    def _words(self) -> SequenceInput:
        if not isinstance(self._source, SequenceInput):
            raise RequestError("This model reads a vector of numbers, not a sequence of symbols.")
        return self._source

    def patterns(self, x: Tensor) -> dict[str, Tensor]:
        """The attention of every layer at x by its name: batch x heads x asking x asked tokens.

        Each asking token's weights add up to 1. Without a batch there is no batch axis.
        """
        if self.folded:
            raise RequestError(
                "A folded module has no attention patterns: write_torch(model, fold=False) has."
            )
        seen: dict[str, Tensor] = {}

        def keep(name: str) -> Callable[[nn.Module, object, Tensor], None]:
            return lambda _module, _given, weights: seen.update({name: weights})

        points = [(n, m) for n, m in self.named_modules() if isinstance(m, HookPoint)]
        handles = [point.register_forward_hook(keep(name)) for name, point in points]
        try:
            self(x)
        finally:
            for handle in handles:
                handle.remove()
        return {name: weights[0] if x.dim() == 1 else weights for name, weights in seen.items()}


def _module_name(sublayer: int) -> str:
    return "embedding" if sublayer < 0 else f"blocks.{sublayer}"


def _labels(legend: Legend, parts: Parts) -> dict[str, tuple[str, ...]]:
    """The legend's words by the names of modules."""
    known = dict(enumerate(legend.coordinates))
    names = ["embedding", *(f"blocks.{number}" for number in range(len(parts.blocks)))]
    labels = {
        name: tuple(known.get(i, f"coordinate {i}") for i in held)
        for name, held in zip(names, parts.coordinates, strict=True)
    }
    for name, block, steps in zip(names[1:], parts.blocks, legend.sublayers, strict=True):
        for point in ("pattern", "hidden"):
            if hasattr(block, point):
                labels[f"{name}.{point}"] = steps
    return labels
