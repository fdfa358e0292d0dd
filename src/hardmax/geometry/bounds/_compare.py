"""Heads against width against depth, at one number of parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Unpack

from hardmax._errors import RequestError
from hardmax.geometry.bounds._architecture import Architecture, Sizes
from hardmax.geometry.bounds._transformer import TransformerBounds, bounds_of


@dataclass(frozen=True)
class Rival:
    """One architecture of a comparison, and what it can do."""

    name: str
    bounds: TransformerBounds

    @property
    def architecture(self) -> Architecture:
        return self.bounds.architecture

    def as_dict(self) -> dict[str, object]:
        """Plain data; the bounds to four figures and as logarithms."""
        ends = {"upper": self.bounds.upper, "lower": self.bounds.lower}
        told = {
            end: {"scientific": bound.scientific, "log10": bound.log10}
            for end, bound in ends.items()
        }
        return {"name": self.name, **self.architecture.as_dict(), **told}


@dataclass(frozen=True)
class Comparison:
    """Architectures with at most the parameters of the first, over queries of one dimension."""

    parameters: int
    dimension: int
    rivals: tuple[Rival, ...]

    def as_dict(self) -> dict[str, object]:
        return {
            "parameters": self.parameters,
            "dimension": self.dimension,
            "rivals": [rival.as_dict() for rival in self.rivals],
        }

    def __str__(self) -> str:
        lines = [f"at most {self.parameters:,} parameters, query in {self.dimension:,} dimensions"]
        for rival in self.rivals:
            ends = rival.bounds
            low, high = ends.lower.scientific, ends.upper.scientific
            lines.append(f"  {rival.name}: {low} <= cells <= {high} ({rival.architecture})")
        return "\n".join(lines)


def compare(tokens: int | Architecture | None = None, **sizes: Unpack[Sizes]) -> Comparison:
    """What else the same parameters could buy: more heads, more width, more depth.

    In the standard split the number of heads costs nothing. Width costs its square, so half the
    width buys four times the layers, up to biases. Each rival has as many layers as fit into the
    parameters of the architecture as given; those that cannot have one are left out. All are
    counted over queries of one dimension, that of the architecture if it is less than the width or
    was given, else the smallest width among them: cells in spaces of different dimension are no
    fair comparison. Takes what `transformer` takes, but for the key width.

    >>> compare(tokens=8, heads=2, width=8, layers=2).rivals[1].name
    '1 head'
    """
    given = Architecture.of(tokens, **sizes)
    if given.key_width * given.heads != given.width:
        raise RequestError(
            f"Rivals split the width among their heads, so {given.heads} heads of key width "
            f"{given.key_width} in width {given.width} have none. Leave the key width out."
        )
    rivals = dict(_rivals(given))
    is_asked = sizes.get("dimension") is not None or given.dimension < given.width
    common = given.dimension if is_asked else min(each.width for each in rivals.values())
    chosen = tuple(
        Rival(name, bounds_of(replace(rival, dimension=common)))
        for name, rival in rivals.items()
        if rival.width >= common
    )
    return Comparison(given.parameters, common, chosen)


def _rivals(given: Architecture) -> Iterator[tuple[str, Architecture]]:
    """The architecture as given, then changes of heads, of width and of feed-forward."""
    h, d, m = given.heads, given.width, given.feed_forward
    yield "as given", given
    changes = [
        ("1 head", 1, d, m),
        ("2x heads", 2 * h, d, m),
        ("4x heads", 4 * h, d, m),
        ("1/4 width", h, d // 4, m // 4),
        ("1/2 width", h, d // 2, m // 2),
        ("2x width", h, 2 * d, 2 * m),
        ("attention only", h, d, 0),
        ("2x feed-forward", h, d, 2 * m),
    ]
    for name, heads, width, hidden in changes:
        split = width and width % heads == 0 and width // heads >= 2
        if not split or (m and not hidden and name != "attention only"):
            continue  # no such rival
        sizes = Architecture(given.tokens, heads, width, 1, hidden, bias_free=given.bias_free)
        depth = given.parameters // sizes.layer_parameters
        known = (heads, width, hidden) == (h, d, m)
        if depth and not known:
            yield name, replace(sizes, layers=depth)
