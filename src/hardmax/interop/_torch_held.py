"""What is known of the stream while a module is folded: constants, and slots that are carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor
from torch.nn import functional

from hardmax.interop._torch_folded import Pick, Projection, Writing


@dataclass(frozen=True, eq=False)
class Held:
    """What is known of the stream between two sublayers.

    `moved` says which coordinates of the followed token depend on the input, and `slots` which
    of them are carried along, in their order. `still` is tokens x width: what the other tokens
    hold, and the followed one where it is not moved; 0 where it is.
    """

    token: int
    slots: Sequence[int]
    moved: Tensor
    still: Tensor

    def read(self, matrix: Tensor, bias: Tensor | None = None) -> Projection:
        """matrix @ the followed token + bias, its constants added up beforehand."""
        constant = functional.linear(self.still[self.token], matrix, bias)
        return Projection(matrix[:, list(self.slots)], constant)

    def moves(self, matrices: Tensor) -> Tensor:
        """Which of the matrices (first axis) read what depends on the input."""
        return (matrices[:, :, list(self.slots)] != 0).flatten(1).any(dim=1)

    def written(
        self, matrix: Tensor, bias: Tensor | None, need: np.ndarray
    ) -> tuple[Writing, Held]:
        """Add matrix @ (what depends on the input) + bias, and let go what nobody reads."""
        constant = self.still[self.token] if bias is None else self.still[self.token] + bias
        touched = (matrix != 0).any(dim=1)
        added = touched if bias is None else touched | (bias != 0)
        kept = [s for s in self.slots if need[s] and not added[s]]
        onto = [s for s in self.slots if need[s] and added[s]]
        new = [i for i in range(len(need)) if need[i] and touched[i] and not self.moved[i]]
        change = Projection(matrix[onto + new], constant[onto + new])
        writing = Writing(self._pick(kept), self._pick(onto), len(onto), change)
        still, moved = self.still.clone(), self.moved | touched
        still[self.token] = constant.masked_fill(moved, 0.0)
        return writing, Held(self.token, kept + onto + new, moved, still)

    def _pick(self, coordinates: Sequence[int]) -> Pick | None:
        place = {coordinate: column for column, coordinate in enumerate(self.slots)}
        columns = [place[coordinate] for coordinate in coordinates]
        return Pick(columns, len(self.slots)) if columns else None
