"""The two kinds of sublayer: attention of parallel heads, and feed-forward. Both are residual."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax._errors import ShapeError
from hardmax.core._weighting import Hardmax, Softmax, Weighting
from hardmax.numerics import finite_array


@dataclass(frozen=True, eq=False)
class Head:
    """One attention head: token t receives `output @ sum_j weight_tj (value @ x_j)`.

    The weights come from the scores (query @ x_t) . (key @ x_j) + position_bias[t, j] over the
    tokens j that t can see: all of them, or j <= t if the head is causal. A softmax multiplies
    the whole score, bias included, by its coldness. The key width may be 0: such a head sees
    only masks and position biases, and without a bias it averages.

    >>> one = np.ones((1, 1))
    >>> hm.Head(query=one, key=one, value=one, output=one).weighting
    Hardmax()
    """

    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    output: np.ndarray
    weighting: Weighting = field(default_factory=Hardmax)
    causal: bool = False
    position_bias: np.ndarray | None = None

    def __post_init__(self) -> None:
        for name in ("query", "key", "value", "output"):
            object.__setattr__(self, name, finite_array(getattr(self, name), name, ndim=2))
        if self.query.shape != self.key.shape:
            raise ShapeError(
                f"query and key must have one shape, but they are {self.query.shape} "
                f"and {self.key.shape}."
            )
        if self.value.shape[1] != self.width or self.output.shape != self.value.shape[::-1]:
            raise ShapeError(
                f"A head of width {self.width} needs value (v, {self.width}) and output "
                f"({self.width}, v), but they are {self.value.shape} and {self.output.shape}."
            )
        if not isinstance(self.weighting, Hardmax | Softmax):
            raise ShapeError("A head's weighting must be Hardmax() or Softmax(coldness).")
        if self.position_bias is not None:
            bias = finite_array(self.position_bias, "position_bias", ndim=2)
            if bias.shape[0] != bias.shape[1]:
                raise ShapeError(f"position_bias must be square, but its shape is {bias.shape}.")
            object.__setattr__(self, "position_bias", bias)

    @property
    def width(self) -> int:
        return self.query.shape[1]

    @property
    def key_width(self) -> int:
        return self.query.shape[0]

    @property
    def value_width(self) -> int:
        return self.value.shape[0]

    @property
    def coldness(self) -> float:
        """The coldness of a softmax; infinity for a hardmax."""
        return self.weighting.coldness if isinstance(self.weighting, Softmax) else np.inf

    def __repr__(self) -> str:
        mask = ", causal" if self.causal else ""
        bias = ", position bias" if self.position_bias is not None else ""
        return (
            f"Head({self.weighting}, width {self.width}, key width {self.key_width}, "
            f"value width {self.value_width}{mask}{bias})"
        )


@dataclass(frozen=True, eq=False)
class HeadGroup:
    """Heads of one layer that share shapes and mask, stacked for vectorised work."""

    members: tuple[int, ...]
    query: np.ndarray  # heads x key width x width
    key: np.ndarray
    value: np.ndarray  # heads x value width x width
    output: np.ndarray  # heads x width x value width
    coldness: np.ndarray  # heads; infinity where hard
    causal: bool
    position_bias: np.ndarray | None  # heads x length x length


@dataclass(frozen=True, eq=False)
class Attention:
    """Parallel heads: x <- x + sum_h head_h(x).

    >>> one = np.ones((1, 1))
    >>> len(hm.Attention([hm.Head(one, one, one, one)]).heads)
    1
    """

    heads: tuple[Head, ...]

    def __init__(self, heads: Iterable[Head]) -> None:
        object.__setattr__(self, "heads", tuple(heads))
        if not self.heads:
            raise ShapeError("An attention layer needs at least one head.")
        widths = {head.width for head in self.heads}
        if len(widths) > 1:
            raise ShapeError(f"Heads of one layer must share a width, but have {sorted(widths)}.")

    @property
    def width(self) -> int:
        return self.heads[0].width

    @cached_property
    def groups(self) -> tuple[HeadGroup, ...]:
        """The heads by shape, each group stacked; together they cover every head once."""
        by_shape: dict[tuple, list[int]] = {}
        for index, head in enumerate(self.heads):
            bias = None if head.position_bias is None else head.position_bias.shape
            shape = (head.key_width, head.value_width, head.causal, bias)
            by_shape.setdefault(shape, []).append(index)
        return tuple(self._stack(members) for members in by_shape.values())

    def _stack(self, members: list[int]) -> HeadGroup:
        heads = [self.heads[i] for i in members]
        biases = [head.position_bias for head in heads if head.position_bias is not None]
        return HeadGroup(
            members=tuple(members),
            query=np.stack([head.query for head in heads]),
            key=np.stack([head.key for head in heads]),
            value=np.stack([head.value for head in heads]),
            output=np.stack([head.output for head in heads]),
            coldness=np.array([head.coldness for head in heads]),
            causal=heads[0].causal,
            position_bias=np.stack(biases) if biases else None,
        )

    def __repr__(self) -> str:
        return f"Attention({len(self.heads)} heads, width {self.width})"


@dataclass(frozen=True, eq=False)
class FeedForward:
    """Token-wise: x <- x + outer @ relu(inner @ x + inner_bias) + outer_bias.

    >>> hm.FeedForward([[1.0]], [0.0], [[-1.0]], [0.0]).inner.shape  # x <- x - max(x, 0)
    (1, 1)
    """

    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray

    def __post_init__(self) -> None:
        for name, ndim in (("inner", 2), ("inner_bias", 1), ("outer", 2), ("outer_bias", 1)):
            object.__setattr__(self, name, finite_array(getattr(self, name), name, ndim=ndim))
        hidden, width = self.inner.shape
        if (
            self.outer.shape != (width, hidden)
            or self.inner_bias.shape != (hidden,)
            or self.outer_bias.shape != (width,)
        ):
            raise ShapeError(
                f"A feed-forward layer with inner {self.inner.shape} needs inner_bias "
                f"({hidden},), outer ({width}, {hidden}) and outer_bias ({width},), but they are "
                f"{self.inner_bias.shape}, {self.outer.shape} and {self.outer_bias.shape}."
            )

    @property
    def width(self) -> int:
        return self.inner.shape[1]

    @property
    def hidden_width(self) -> int:
        return self.inner.shape[0]

    def __repr__(self) -> str:
        return f"FeedForward(width {self.width}, hidden {self.hidden_width})"


Sublayer = Attention | FeedForward
