"""What is known of the stream while a module is folded: constants, and slots that are carried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from hardmax.interop._torch_folded import Carrying, Pick, Projection


@dataclass(frozen=True, eq=False)
class Held:
    """What is known of the stream between two sublayers.

    `moved` says which coordinates of the followed token depend on the input, and `slots` which
    of them are carried along, in their order. `still` is tokens x width: what the other tokens
    hold, and the followed one where it is not moved; 0 where it is.
    """

    token: int
    slots: list[int]
    moved: Tensor
    still: Tensor

    def read(self, matrix: Tensor, bias: Tensor | None = None) -> Projection:
        """matrix @ the followed token + bias, its constants added up beforehand."""
        constant = functional.linear(self.still[self.token], matrix, bias)
        return Projection(matrix[:, self.slots], constant)

    def moves(self, matrices: Tensor) -> Tensor:
        """Which of the matrices (first axis) read what depends on the input."""
        return (matrices[:, :, self.slots] != 0).flatten(1).any(dim=1)

    def written(
        self, matrix: Tensor, bias: Tensor | None, need: Sequence[int]
    ) -> tuple[Projection, Carrying | None, Held]:
        """Add matrix @ (what depends on the input) + bias, and let go what nobody reads.

        `need` are the coordinates that are read, in the order in which they had best stand. What
        is returned: the change, how slots that are there already go on, and what is held then.
        """
        constant = self.still[self.token] if bias is None else self.still[self.token] + bias
        touched = (matrix != 0).any(dim=1)
        added = touched if bias is None else touched | (bias != 0)
        there = set(self.slots)
        kept = [i for i in need if i in there and not added[i]]
        onto = [i for i in need if i in there and added[i]]
        new = [i for i in need if touched[i] and not self.moved[i]]
        change = Projection(matrix[onto + new], constant[onto + new])
        carry = None
        if kept or onto:
            carry = Carrying(self._pick(onto), len(onto), self._pick(kept))
        still, moved = self.still.clone(), self.moved | touched
        still[self.token] = constant.masked_fill(moved, 0.0)
        return change, carry, Held(self.token, onto + new + kept, moved, still)

    def _pick(self, coordinates: Sequence[int]) -> Pick | None:
        place = {coordinate: column for column, coordinate in enumerate(self.slots)}
        columns = [place[coordinate] for coordinate in coordinates]
        return Pick(columns, len(self.slots)) if columns else None
