"""Where a gadget is built, and what it hands back."""

from __future__ import annotations

from dataclasses import dataclass

from hardmax.lowering.sketch import BoxForm, BoxSketch, Pair


@dataclass(frozen=True, eq=False)
class Site:
    """A node of a function's graph: the sketch, its arguments as forms, and their ranges."""

    sketch: BoxSketch
    node: int
    forms: tuple[BoxForm, ...]
    ranges: tuple[Pair, ...]
    tokens: int = 2  # of the prompt, at least


@dataclass(frozen=True, eq=False)
class Approximation:
    """A result as a form, and its error over the reals for all arguments in their ranges.

    `softening` is the part of the error that a hard head would not make.
    """

    form: BoxForm
    error: float
    softening: float = 0.0
