"""A whole Transformer: every layer's bound, their product, and a construction from below."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Unpack

from hardmax.geometry.bounds._architecture import Architecture, Sizes
from hardmax.geometry.bounds._bound import Bound
from hardmax.geometry.bounds._heads import several_heads, single_head
from hardmax.geometry.bounds._layers import deep_stack, feed_forward
from hardmax.geometry.bounds._recipe import Recipe

SLOTS = 1  # stream coordinates of the depth construction besides those of the query


@dataclass(frozen=True)
class TransformerBounds:
    """What an architecture can do: bounds by layer, for the stack, and from below."""

    architecture: Architecture
    attention: Bound
    feed_forward: Bound | None
    upper: Bound
    lower: Bound
    recipe: Recipe | None  # None: the lower bound is a single sublayer's

    @property
    def rows(self) -> tuple[Bound, ...]:
        """One head, the sublayers, the stack from above and from below."""
        a = self.architecture
        span = a.dimension + (a.dimension < a.width)  # of the affine set, seen from the origin
        room = min(a.key_width, span)
        head = single_head(a.tokens, dimension=room, bias_free=a.bias_free)
        rows = (head, self.attention, self.feed_forward, self.upper, self.lower)
        return tuple(bound for bound in rows if bound is not None)

    @property
    def is_sharp(self) -> bool:
        """Whether the two meet, so that the maximum is known exactly."""
        return self.upper.value == self.lower.value

    @property
    def without_feed_forward(self) -> TransformerBounds:
        """The same architecture with attention alone."""
        return bounds_of(replace(self.architecture, feed_forward=0))

    def as_dict(self) -> dict[str, object]:
        alone = self.without_feed_forward if self.feed_forward else None
        return {
            "architecture": self.architecture.as_dict(),
            "bounds": [bound.as_dict() for bound in self.rows],
            "upper": self.upper.as_dict(),
            "lower": self.lower.as_dict(),
            "sharp": self.is_sharp,
            "recipe": self.recipe.as_dict() if self.recipe else None,
            "attention_only": alone
            and {
                "upper": alone.upper.as_dict(),
                "lower": alone.lower.as_dict(),
                "recipe": alone.recipe.as_dict() if alone.recipe else None,
            },
        }

    def __str__(self) -> str:
        return "\n".join([str(self.architecture), *(f"  {bound}" for bound in self.rows)])


def transformer(
    tokens: int | Architecture | None = None, **sizes: Unpack[Sizes]
) -> TransformerBounds:
    """How many cells a hard Transformer can have, as one query moves over fixed tokens.

    Takes an `Architecture`, or its fields: tokens (also called n), heads, width, layers, and where
    they matter feed_forward, dimension, key_width, bias_free.

    >>> transformer(tokens=9, heads=3, width=6, layers=2).upper.value
    531441

    From above, (V R)^L: an attention layer has at most V = `several_heads` cells, a feed-forward
    layer at most R = `feed_forward`, and a stack multiplies (`deep_stack`). A head adds a constant
    on each of its cells, and a feed-forward layer an affine function, so that the stream of the
    query stays within an affine set of its first dimension D: V and R are those of R^D. If the
    query fills R^d (D = d), V of bias-free heads is Weibel's, in every layer: what they cut is the
    stream, by cones, whatever the layers below have made of the input. If D < d, the affine set
    may miss the origin, and V is that of affine scores.

    From below, the best of `depth_construction` within these sizes, of V in one layer, and of R.
    It meets the upper bound, so that the maximum is known exactly, with heads of key width >= 2
    - for attention alone with H <= min(D, d - 1) heads: N^(H L);
    - with m <= min(D, d - 1) ReLUs besides: N^(H L) 2^(m L);
    - on a line, D = 1 < d: (H (N - 1) + 1)^L (m + 1)^L;
    - for one layer of attention alone: V.

    Cells are routing and activation patterns; in the construction every cell is also a maximal
    affine region.
    """
    return bounds_of(Architecture.of(tokens, **sizes))


def bounds_of(sizes: Architecture) -> TransformerBounds:
    """The same, for sizes that are already a value."""
    attention = _attention(sizes)
    hidden = _feed_forward(sizes)
    sublayers = [attention] if hidden is None else [attention, hidden]
    upper = replace(
        deep_stack(sublayers, times=sizes.layers),
        name=f"stack of {sizes.layers:,} layers" if sizes.layers > 1 else "the one layer",
        formula="V^L" if hidden is None else "(V R)^L",
    )
    lower, recipe = _lower(sizes, sublayers)
    if upper.value == lower.value:
        upper = replace(upper, kind="exact", construction=lower.construction)
    return TransformerBounds(sizes, attention, hidden, upper, lower, recipe)


def _attention(sizes: Architecture) -> Bound:
    """Heads in the space where the query moves.

    A bias-free head of key width 1 has only two ends to choose from. Bias-free heads on an affine
    set of lower dimension than the stream are affine heads there.
    """
    keys = sizes.tokens
    if sizes.bias_free and sizes.key_width == 1:
        keys = min(keys, 2)
    linear = sizes.bias_free and sizes.dimension == sizes.width
    bound = several_heads(keys, sizes.heads, dimension=sizes.dimension, bias_free=linear)
    if linear or not sizes.bias_free:
        return bound
    reason = "<q, k_j> without biases is affine on a set that misses the origin"
    hypotheses = (bound.hypotheses[0], reason, "any key width >= 2")
    return replace(bound, hypotheses=hypotheses)


def _feed_forward(sizes: Architecture) -> Bound | None:
    if not sizes.feed_forward:
        return None
    return feed_forward(sizes.feed_forward, dimension=sizes.dimension)


def _lower(sizes: Architecture, sublayers: list[Bound]) -> tuple[Bound, Recipe | None]:
    """The largest of a depth construction with heads, one without, and a single sublayer."""
    hidden = sizes.feed_forward
    folding = Recipe(sizes.tokens, min(sizes.dimension, max(hidden, 1)), sizes.layers, 0, hidden)
    recipes = [folding]
    if sizes.key_width >= 2 and sizes.width > SLOTS and sizes.tokens >= 2:
        room = min(sizes.dimension, sizes.width - SLOTS)
        used = min(room, max(sizes.heads, sizes.feed_forward))  # the others are left alone
        recipes.append(replace(folding, dimension=used, heads=sizes.heads))
    recipe = max(recipes, key=lambda recipe: recipe.log_cells)
    single = max(sublayers, key=lambda bound: bound.value)
    deep = recipe.cells
    if single.value <= deep:
        return _of_recipe(recipe, deep), recipe
    name = "one sublayer, the others zero" if len(sublayers) * sizes.layers > 1 else "the one layer"
    return replace(single, kind="lower", name=name), None


def _of_recipe(recipe: Recipe, cells: int) -> Bound:
    return Bound(
        cells,
        "lower",
        "depth construction",
        "prod_i (a_i (N - 1) + 1)^L (m_i + 1)^L",
        "hardmax, depth_construction: real weights",
        (
            f"a_i heads and m_i ReLUs on coordinate i: {recipe.heads:,} heads and "
            f"{recipe.hidden:,} ReLUs a layer, spread over {recipe.dimension:,} coordinates",
            "counted in the unit cube",
        ),
        "depth_construction(**recipe.as_dict()): routing by nearest key, then folds",
    )
