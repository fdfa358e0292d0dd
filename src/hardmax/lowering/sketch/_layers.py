"""Heads and hidden units in forms: what a Transformer does, said before any weight is built.

Sublayer 2 l is the attention of layer l, sublayer 2 l + 1 its feed-forward part; the embedding is
sublayer -1. Everything is additive: a register begins with what the embedding puts there and grows
by what sublayers write. What is written at a sublayer can be read after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np

from hardmax.core import Weighting
from hardmax.lowering.sketch._form import Form, N, R

EMBEDDING = -1
EXCLUDED = 64.0  # score by which a masked place trails


@dataclass(eq=False)
class HeadSketch(Generic[R, N]):
    """A head in forms; row i of the value is added to registers times the weights of output[i].

    What it does decides how far it strays (`_straying`): "mean" over the places that win by the
    gap; "choice" where all of them hold the same; "sum" over all symbols by weights of e^-score;
    "fetch", a choice of places that the start token makes, too.
    """

    step: str  # which step of the source it does
    query: list[Form[R, N]]
    key: list[Form[R, N]]
    value: list[Form[R, N]]
    output: list[dict[R, N]]
    weighting: Weighting
    causal: bool = False
    bias: np.ndarray | None = None
    does: str = "mean"
    gap: float = 1.0  # of the scores

    @property
    def forms(self) -> list[Form[R, N]]:
        """All that it reads."""
        return self.query + self.key + self.value

    def join(self, other: HeadSketch[R, N]) -> None:
        """Bring the values of a head that attends alike, too."""
        self.value += other.value
        self.output += other.output
        self.gap = min(self.gap, other.gap)
        self.does = self.does if self.does == other.does else "mean"
        for own, others in ((self.query, other.query), (self.key, other.key)):
            for row, (form, alike) in enumerate(zip(own, others, strict=True)):
                own[row] = form.looser(max(alike.off - form.off, 0.0))


@dataclass(frozen=True, eq=False)
class Levels:
    """What the inner form of a unit, less its constant, may be at a symbol: a look-up."""

    numbers: np.ndarray


@dataclass(frozen=True, eq=False)
class OneOf:
    """Of the units with this law at most one is on; the others are off by the margin at least."""

    margin: float


@dataclass(frozen=True, eq=False)
class Ladder:
    """Pairs relu(z_t) - relu(z_t - C) with z_t = g_t + C (a - t), 0 <= g_t <= C: a multiplexer."""

    rung: float  # C


Law = Levels | OneOf | Ladder | None


@dataclass(eq=False)
class UnitSketch(Generic[R, N]):
    """One hidden unit: relu(inner), added to registers times weights; and what is known of it."""

    step: str
    inner: Form[R, N]
    outer: dict[R, N]
    law: Law = None


@dataclass(eq=False)
class Layers(Generic[R, N]):
    """The heads and the hidden units of each sublayer."""

    heads: dict[int, list[HeadSketch[R, N]]] = field(default_factory=dict)
    units: dict[int, list[UnitSketch[R, N]]] = field(default_factory=dict)

    @property
    def sublayers(self) -> list[int]:
        return sorted({*self.heads, *self.units})

    @property
    def all_heads(self) -> list[HeadSketch[R, N]]:
        return [head for heads in self.heads.values() for head in heads]

    @property
    def all_units(self) -> list[UnitSketch[R, N]]:
        return [unit for units in self.units.values() for unit in units]

    @property
    def forms(self) -> list[Form[R, N]]:
        """All that units and heads read."""
        found = [unit.inner for unit in self.all_units]
        for head in self.all_heads:
            found += head.forms
        return found

    def written(self, sublayer: int) -> list[dict[R, N]]:
        """To which registers a sublayer writes each of its values, times which weights."""
        found = [column for head in self.heads.get(sublayer, []) for column in head.output]
        return found + [unit.outer for unit in self.units.get(sublayer, [])]

    def parts(self, sublayer: int) -> Sequence[HeadSketch[R, N] | UnitSketch[R, N]]:
        return self.units[sublayer] if sublayer % 2 else self.heads[sublayer]


def attention_from(sublayer: int) -> int:
    """The first attention sublayer from a sublayer on."""
    return sublayer + sublayer % 2


def feed_forward_from(sublayer: int) -> int:
    """The first feed-forward sublayer from a sublayer on."""
    return sublayer + 1 - sublayer % 2


def attention_after(sublayer: int) -> int:
    """The first attention sublayer after a sublayer."""
    return attention_from(sublayer + 1)


def feed_forward_after(sublayer: int) -> int:
    """The first feed-forward sublayer after a sublayer."""
    return feed_forward_from(sublayer + 1)
