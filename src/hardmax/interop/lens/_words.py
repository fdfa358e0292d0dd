"""Words in, words out, and labels on what is cached: what a model of TransformerLens is given."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Circuit, Construction, SequenceInput, VectorInput, is_batch_of_words
from hardmax.interop._hooks import StepHooks
from hardmax.interop.huggingface._home import Ids
from hardmax.interop.huggingface._labels import Labels
from hardmax.interop.lens._parts import UNUSED
from hardmax.languages.programs import ProgramTarget

if TYPE_CHECKING:
    import torch

Words = str | Sequence[Hashable] | Sequence[Sequence[Hashable]]
Legend = Mapping[str, tuple[str, ...]]
_HEADS_FIRST = ("hook_attn_scores", "hook_pattern")  # … heads x asking x asked
_HEADS_LAST = ("hook_q", "hook_k", "hook_v", "hook_z", "hook_result")  # … heads x numbers


@dataclass(frozen=True, eq=False)
class LensWords:
    """How a construction's inputs become what a model is called with, and its logits answers.

    `constants` are what the host's columns hold beside the stream of real inputs; `places` are the
    logits of the classes, None if they are all of them in order. Of a legible model `step_hooks`
    says by the name of a hook which steps the stream holds there.
    """

    construction: Construction
    labels: Labels | None
    ids: Ids
    legend: Legend
    constants: np.ndarray
    places: tuple[int, ...] | None = None
    circuit: Circuit | None = None  # in the heads and coordinates of the model
    step_hooks: StepHooks = field(default_factory=dict)

    def encode(self, inputs: Words | np.ndarray | torch.Tensor) -> torch.Tensor:
        """Tokens of words, batch x tokens; of real inputs the stream that layer 0 starts from.

        A text is one word, and so is a list of symbols. The start token is in front where the
        model has one. Words of one batch need one length. A row of numbers is one real input;
        tensors of them have gradients: model(model.encode(x), start_at_layer=0).
        """
        source = self.construction.transformer.input
        if isinstance(source, VectorInput):
            return self._streams(source, inputs)
        return self._tokens(source, inputs)

    def _tokens(self, source: SequenceInput, words: object) -> torch.Tensor:
        import torch

        one = isinstance(words, str) or not is_batch_of_words(words, source.alphabet)
        rows = [source.indices(word) for word in ([words] if one else words)]  # type: ignore
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise ShapeError(
                f"The words of one batch need one length, but they have {lengths[0]} to "
                f"{lengths[-1]} symbols: encode those of each length apart."
            )
        first = [] if self.ids.start is None else [self.ids.start]
        return torch.tensor([[*first, *row] for row in rows], dtype=torch.long)

    def _streams(self, source: VectorInput, inputs: object) -> torch.Tensor:
        import torch

        given = inputs if isinstance(inputs, torch.Tensor) else np.asarray(inputs, dtype=np.float64)
        kind = getattr(torch, self.construction.claim.format)
        x = torch.atleast_2d(torch.as_tensor(given).to(kind))
        if x.dim() != 2 or x.shape[1] != source.inputs:
            raise RequestError(
                f"The inputs must be rows of {source.inputs} numbers, but their shape is "
                f"{tuple(x.shape)}."
            )
        maps, offsets, rest = (
            torch.tensor(part, dtype=kind) for part in (source.maps, source.offsets, self.constants)
        )
        tokens = torch.einsum("twi,bi->btw", maps, x) + offsets
        return torch.cat([tokens, rest.expand(*tokens.shape[:2], len(rest))], dim=2)

    def decode(self, logits: torch.Tensor) -> object:
        """The answers in logits, batch x tokens x classes: a list, an item of it for each input.

        An answer is what calling the Construction gives. Without a batch axis there is one answer.
        """
        transformer = self.construction.transformer
        token = transformer.readout.token
        if logits.dim() not in (2, 3):
            raise ShapeError(
                f"Logits are batch x tokens x classes, but these have {logits.dim()} axes."
            )
        batch = logits if logits.dim() == 3 else logits[None]
        started = int(self.ids.start is not None)
        read = batch[:, started:] if token is None else batch[:, token][:, None]
        if self.labels is None:
            numbers = read[:, 0].detach().to("cpu").double().numpy()
            return numbers if logits.dim() == 3 else numbers[0]
        found = [self._answer(rows) for rows in read.detach().to("cpu")]
        return found if logits.dim() == 3 else found[0]

    def _answer(self, rows: torch.Tensor) -> object:
        """Of the classes' logits 2 c y - c^2 the largest belongs to the code c next to y."""
        assert self.labels is not None
        read = rows if self.places is None else rows[:, list(self.places)]
        codes = np.array(self.labels.codes)[read.argmax(dim=-1).numpy()]
        target = self.construction.claim.target
        assert isinstance(target, ProgramTarget)  # which alone has labels
        return target.decode(codes[:, None].tolist())

    def labelled(self, cache: Mapping[str, torch.Tensor]) -> dict[str, dict[str, torch.Tensor]]:
        """What is cached, hook by hook and label by label: views of the cache.

        A label that several heads, units or coordinates of a hook share is numbered: "name (2)".
        Parts without work are left out. A cache without a batch axis will do as well.
        """
        return {
            name: _by_label(cache[name], name.rsplit(".", 1)[-1], labels)
            for name, labels in self.legend.items()
            if name in cache
        }


def _by_label(values: torch.Tensor, hook: str, labels: tuple[str, ...]) -> dict[str, torch.Tensor]:
    axis = -3 if hook in _HEADS_FIRST else -2 if hook in _HEADS_LAST else -1
    found: dict[str, torch.Tensor] = {}
    for place, label in enumerate(labels):
        if label != UNUSED:
            seen = labels[:place].count(label)
            found[f"{label} ({seen + 1})" if seen else label] = values.select(axis, place)
    return found
