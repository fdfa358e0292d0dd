"""What the parts of a Transformer are for, in words: written by lowerings, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardmax._errors import ShapeError


@dataclass(frozen=True)
class Reading:
    """What coordinates say once a sublayer has run (-1: the embedding): a number stands for a text.

    The number is weights . coordinates + constant, and `labels[k]` is said by `numbers[k]`. Of one
    coordinate it is what that holds, of which `carried` belongs to what it held before. At the
    start token it says nothing, unless `at_start`.
    """

    name: str
    sublayer: int
    coordinates: tuple[int, ...]
    weights: tuple[float, ...]
    constant: float
    numbers: tuple[float, ...]
    labels: tuple[str, ...]
    carried: float = 0.0
    at_start: bool = False

    def __post_init__(self) -> None:
        if len(self.coordinates) != len(self.weights) or not self.coordinates:
            raise ShapeError(f"The reading {self.name!r} needs a weight for each coordinate.")
        if len(self.numbers) != len(self.labels) or not self.numbers:
            raise ShapeError(f"The reading {self.name!r} needs a label for each number.")

    def numbers_in(self, stream: np.ndarray) -> np.ndarray:
        """Its number at every token: tokens x width in, one number each out."""
        held = stream[:, list(self.coordinates)] @ np.array(self.weights)
        return np.asarray(held + self.constant)

    def said(self, number: float) -> tuple[str, float] | None:
        """The text and the code that are nearest to a number.

        None for what is no code: further away than a third of the way to the next one.
        """
        codes = np.array(self.numbers)
        away = np.abs(codes - number)
        nearest = int(away.argmin())
        others = np.abs(codes - codes[nearest])
        apart = float(others[others > 0.0].min()) if others.any() else 1.0
        is_near = away[nearest] <= apart / 3.0
        return (self.labels[nearest], self.numbers[nearest]) if is_near else None


@dataclass(frozen=True)
class Legend:
    """What each coordinate of the stream holds, and which step each head and hidden unit does.

    `sublayers` has an entry for each sublayer: the steps of its heads, or of its hidden units. No
    two coordinates share a name. `readings` say what numbers stand for; `sums` are the heads
    (sublayer, head) that add up what symbols send, beside a start token that takes nearly all the
    weight.
    """

    coordinates: tuple[str, ...]
    sublayers: tuple[tuple[str, ...], ...]
    readings: tuple[Reading, ...] = ()
    sums: frozenset[tuple[int, int]] = frozenset()

    def __init__(
        self,
        coordinates: Iterable[str],
        sublayers: Iterable[Iterable[str]],
        readings: Iterable[Reading] = (),
        sums: Iterable[tuple[int, int]] = (),
    ) -> None:
        object.__setattr__(self, "coordinates", tuple(coordinates))
        object.__setattr__(self, "sublayers", tuple(map(tuple, sublayers)))
        object.__setattr__(self, "readings", tuple(readings))
        object.__setattr__(self, "sums", frozenset(sums))
        names = self.coordinates
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ShapeError(f"Two coordinates are called {twice!r}: each needs its own name.")

    def with_parts(
        self,
        coordinates: Sequence[str],
        sublayers: Iterable[Iterable[str]],
        *,
        sublayer: Callable[[int], int] = lambda number: number,
        head: Callable[[int, int], int | None] = lambda _, head: head,
    ) -> Legend:
        """The same words for a Transformer whose sublayers and heads were moved, or left out."""
        sums = {(sublayer(number), head(number, one)) for number, one in self.sums}
        kept = [(number, one) for number, one in sums if one is not None]
        readings = [replace(one, sublayer=sublayer(one.sublayer)) for one in self.readings]
        return Legend(coordinates, sublayers, readings, kept)

    def __str__(self) -> str:
        """One line a coordinate, then one line for each different step of each sublayer."""
        lines = ["coordinates:"]
        lines += [f"  {place}: {name}" for place, name in enumerate(self.coordinates)]
        for number, steps in enumerate(self.sublayers):
            lines.append(f"sublayer {number}:")
            lines += [f"  {step} ({steps.count(step)})" for step in dict.fromkeys(steps)]
        return "\n".join(lines)


def told_apart(names: Iterable[str]) -> list[str]:
    """Each name once: of those that are alike, all but the first are numbered.

    >>> told_apart(["tokens", "index", "tokens"])
    ['tokens', 'index', 'tokens no. 2']
    """
    found: dict[str, None] = {}
    for name in names:
        number, own = 1, name
        while own in found:
            number += 1
            own = f"{name} no. {number}"
        found[own] = None
    return list(found)
