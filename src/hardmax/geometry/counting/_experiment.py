"""How many regions Transformers have: random and constructed ones beside the bounds.

The models are those of the theory: constant tokens, one query that moves through a plane, hard
heads. The stream has three slots of width 2: the query's place, keys, values. Heads read the place
and the keys, and move the place by a value; feed-forward units see the whole stream and move the
place. Every key has a bias of its own, and the query does not see itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    ReadOut,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.geometry.bounds import Recipe
from hardmax.geometry.bounds import transformer as transformer_bounds
from hardmax.geometry.bounds._depth_construction import depth_construction
from hardmax.geometry.counting._public import regions

_WIDTH, _KEY = 6, 2
_UNSEEN = -(2.0**20)  # the bias with which the query sees itself: never the largest
BOX = "[-4,4]^2"


@dataclass(frozen=True)
class ModelShape:
    """Sizes of one model: tokens, heads and hidden units of a layer, layers."""

    tokens: int
    heads: int
    layers: int
    hidden: int = 0

    @property
    def parameters(self) -> int:
        """Dense weights of all layers, as `hm.bounds` counts them."""
        units = 2 * _WIDTH * self.hidden + self.hidden + _WIDTH if self.hidden else 0
        return self.layers * (4 * _WIDTH * _KEY * self.heads + units)

    @property
    def most(self) -> int:
        """No weights of this shape have more cells."""
        bounds = transformer_bounds(
            tokens=self.tokens,
            heads=self.heads,
            width=_WIDTH,
            layers=self.layers,
            feed_forward=self.hidden or None,
            dimension=2,
            key_width=_KEY,
        )
        return bounds.upper.value


@dataclass(frozen=True)
class ExperimentRow:
    """What was counted for one shape: means over seeds, and the bound."""

    group: str
    shape: ModelShape
    cells: float
    regions: float
    spread: float  # standard deviation of the regions
    most: int

    def as_dict(self) -> dict[str, object]:
        return {
            "group": self.group,
            **vars(self.shape),
            "parameters": self.shape.parameters,
            "cells": self.cells,
            "regions": self.regions,
            "spread": self.spread,
            "at_most": str(self.most),
        }


@dataclass(frozen=True)
class BuiltRow:
    """A constructed model: what was counted, and what its theorem says."""

    recipe: Recipe
    parameters: int
    counted: int
    promised: int

    def as_dict(self) -> dict[str, object]:
        return {
            **self.recipe.as_dict(),
            "parameters": self.parameters,
            "counted": self.counted,
            "promised": self.promised,
        }


@dataclass(frozen=True)
class Experiment:
    """Random models by tokens, heads, depth and width; at equal parameters; constructed ones."""

    seeds: int
    random: tuple[ExperimentRow, ...]
    equal: tuple[ExperimentRow, ...]
    built: tuple[BuiltRow, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "seeds": self.seeds,
            "random": [row.as_dict() for row in self.random],
            "equal_parameters": [row.as_dict() for row in self.equal],
            "constructed": [row.as_dict() for row in self.built],
        }


def random_transformer(shape: ModelShape, seed: int | Sequence[int]) -> Transformer:
    """Gaussian keys, values, biases and feed-forward weights; see the top of this file."""
    rng, n = np.random.default_rng(seed), shape.tokens
    maps, offsets = np.zeros((n + 1, _WIDTH, 2)), np.zeros((n + 1, _WIDTH))
    maps[-1, :2] = np.eye(2)
    offsets[:-1, 2:] = rng.normal(size=(n, 4))
    sublayers: list[Sublayer] = []
    for _ in range(shape.layers):
        sublayers.append(Attention(_head(n, rng) for _ in range(shape.heads)))
        if shape.hidden:
            inner = rng.normal(size=(shape.hidden, _WIDTH))
            outer = np.zeros((_WIDTH, shape.hidden))
            outer[:2] = rng.normal(size=(2, shape.hidden)) / np.sqrt(shape.hidden)
            bias = 2.0 * rng.normal(size=shape.hidden)
            sublayers.append(FeedForward(inner, bias, outer, np.zeros(_WIDTH)))
    place = np.eye(_WIDTH)[:2]
    return Transformer(VectorInput(maps, offsets), sublayers, ReadOut(place, np.zeros(2)))


def _head(tokens: int, rng: np.random.Generator) -> Head:
    place, key, value = np.eye(_WIDTH)[:2], np.eye(_WIDTH)[2:4], np.eye(_WIDTH)[4:]
    bias = np.zeros((tokens + 1, tokens + 1))
    bias[-1, :-1] = rng.normal(size=tokens)
    bias[-1, -1] = _UNSEEN
    read, sent = rng.normal(size=(2, 2)) @ key, rng.normal(size=(2, 2)) @ value
    return Head(place, read, sent, place.T, position_bias=bias)


def experiment(
    *, seeds: int = 10, quick: bool = False, progress: Callable[[str], None] | None = None
) -> Experiment:
    """Count everything; `progress` is told what comes next."""
    tell = progress or (lambda _: None)
    random = tuple(_row(group, shape, seeds, tell) for group, shape in _shapes(quick))
    equal = tuple(_row(group, shape, seeds, tell) for group, shape in _equal(quick))
    built = tuple(_build_row(recipe, tell) for recipe in _recipes(quick))
    return Experiment(seeds, random, equal, built)


def _shapes(quick: bool) -> Iterator[tuple[str, ModelShape]]:
    """One size varies, the others stay."""
    most = 2 if quick else 4
    for tokens in (2, 4, 8, 16)[:most]:
        yield "tokens", ModelShape(tokens, 2, 1)
    for heads in (1, 2, 4, 8)[:most]:
        yield "heads", ModelShape(4, heads, 1)
    for layers in (1, 2, 3)[: most - 1]:
        yield "depth", ModelShape(4, 2, layers)
    for hidden in (0, 4, 8, 16)[:most]:
        yield "width", ModelShape(4, 2, 1, hidden)


def _equal(quick: bool) -> Iterator[tuple[str, ModelShape]]:
    """One head has as many weights as 3.7 hidden units: 4 heads, 2 and 7 units, 1 and 10 units."""
    for layers in (1, 2) if quick else (1, 2, 3):
        yield "attention", ModelShape(6, 4, layers)
        yield "half", ModelShape(6, 2, layers, 7)
        yield "feed-forward", ModelShape(6, 1, layers, 10)


def _row(group: str, shape: ModelShape, seeds: int, tell: Callable[[str], None]) -> ExperimentRow:
    tell(f"{group}: {shape.tokens} tokens, {shape.heads} heads, {shape.layers} layers")
    cells, counts = [], []
    for seed in range(seeds):
        sizes = [shape.tokens, shape.heads, shape.layers, shape.hidden, seed]
        counted = regions(random_transformer(shape, sizes), on=BOX)
        counts.append(counted.count)
        cells.append(counted.cells)
    spread = float(np.std(counts, ddof=1)) if seeds > 1 else 0.0
    means = float(np.mean(cells)), float(np.mean(counts))
    return ExperimentRow(group, shape, *means, spread, shape.most)


def _recipes(quick: bool) -> Iterator[Recipe]:
    """Attention alone, and with feed-forward, in the plane."""
    for layers in (1, 2):
        yield Recipe(3, 2, layers, 2, 0)
        yield Recipe(3, 2, layers, 2, 2)
        if not quick:
            yield Recipe(4, 2, layers, 2, 0)
            yield Recipe(2, 2, layers, 2, 6 if layers == 1 else 2)


def _build_row(recipe: Recipe, tell: Callable[[str], None]) -> BuiltRow:
    tell(f"constructed: {recipe.tokens} tokens, {recipe.layers} layers")
    model = depth_construction(**recipe.as_dict())
    width = recipe.dimension + 1
    head = 2 * (2 * width) + 2 * width  # query and key of width 2, value and output of width 1
    units = 2 * width * recipe.hidden + recipe.hidden + width if recipe.hidden else 0
    parameters = recipe.layers * (head * recipe.heads + units)
    found = regions(model, on="[0,1]^2")
    return BuiltRow(recipe, parameters, found.count, recipe.cells)
