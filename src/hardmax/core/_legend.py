"""What the parts of a Transformer are for, in words: written by lowerings, for people."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Legend:
    """What each coordinate of the stream holds, and which step each head and hidden unit does.

    `sublayers` has an entry for each sublayer: the steps of its heads, or of its hidden units.
    """

    coordinates: tuple[str, ...]
    sublayers: tuple[tuple[str, ...], ...]

    def __init__(self, coordinates: Iterable[str], sublayers: Iterable[Iterable[str]]) -> None:
        object.__setattr__(self, "coordinates", tuple(coordinates))
        object.__setattr__(self, "sublayers", tuple(map(tuple, sublayers)))

    def __str__(self) -> str:
        """One line a coordinate, then one line for each different step of each sublayer."""
        lines = ["coordinates:"]
        lines += [f"  {place}: {name}" for place, name in enumerate(self.coordinates)]
        for number, steps in enumerate(self.sublayers):
            lines.append(f"sublayer {number}:")
            lines += [f"  {step} ({steps.count(step)})" for step in dict.fromkeys(steps)]
        return "\n".join(lines)
