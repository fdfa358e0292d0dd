"""Where a deviation comes from, and what of the error is left to the checker's own bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hardmax.core import Share
from hardmax.numerics import FLOAT64, Format

_FAINT_ROUNDING = 2.0**-10  # of the error: what is below is covered by the margin


@dataclass(frozen=True)
class Sources:
    """What heads deviate by, rounding apart."""

    routed: float | None  # None: no head has constant scores
    softened: float  # routing included; 0 if there is nothing to soften
    layers: dict[str, float]  # in parts of what softening adds

    def _within(self, total: float) -> tuple[float, float]:
        """What routing makes, and softening with it, of so much in all."""
        routed = min(self.routed or 0.0, total)
        return routed, min(max(self.softened, routed), total)

    def rounding(self, total: float) -> float:
        """What is left."""
        return total - self._within(total)[1]

    def shares(self, total: float, format: Format) -> list[Share]:
        """The ledger of a deviation."""
        routed, softened = self._within(total)
        first = []
        if self.routed is not None:
            first = [Share("routing", "heads with constant scores", routed)]
        by_layer = [
            Share("softening", where, (softened - routed) * part)
            for where, part in self.layers.items()
        ]
        rounding = Share("rounding", f"{format.name} evaluation", self.rounding(total))
        return [*first, *by_layer, rounding]


@dataclass(frozen=True)
class Room:
    """What is left to the checker's own bound of rounding, where the margin would not do.

    In deep networks it has been seen to be eight times as large as this room's. A claim is worth
    nothing that is true and cannot be shown, so a few percent of the error are given away for it.
    In coarse formats, where rounding is most of the error, the two are closer together, because
    both know the 2-norms of what is added up: half as much again is left, and no more than half of
    what softening has. Chains of many layers of heads are the exception: this room follows their
    sums by outlines, which the checker does not know, and its bound has been seen to be 1.5 times
    as large for 6 layers and 2.1 times for 8. What is refused there names an error with that room.
    """

    format: Format
    layers: int = 0  # of heads, in a row

    @property
    def _deep(self) -> bool:
        return self.format is not FLOAT64 and self.layers > 4

    @property
    def _needed(self) -> float:
        """In units of rounding, in coarse formats."""
        return 0.15 * self.layers if self._deep else 0.5

    @property
    def _most(self) -> float:
        """Of what softening has, in coarse formats."""
        return 0.8 if self._deep else 0.5

    def after(self, rounding: float, budget: float) -> float:
        """What is left of a budget besides rounding."""
        if self.format is not FLOAT64:
            return min(self._needed * rounding, self._most * (budget - rounding))
        room = 8.0 * rounding
        worthwhile = 8.0 * _FAINT_ROUNDING * budget < room < budget / 20.0  # beyond, it is a limit
        return room if worthwhile else 0.0

    def smallest_budget(self, rounding: float) -> float:
        """That has it all, or that rounding just fits where the checker's bound is no larger."""
        return rounding * (1.0 + self._needed / self._most) if self._deep else rounding


def with_room(parts: list[Share], factor: float, total: float) -> list[Share]:
    """The ledger of a model that is colder by a factor; what is left of the total is rounding."""
    before = [replace(part, amount=part.amount * factor) for part in parts[:-1]]
    left = max(total - sum(part.amount for part in before), 0.0)
    return [*before, replace(parts[-1], amount=left)]
