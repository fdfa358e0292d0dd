"""What a Transformer is made of: how an input becomes tokens, and the kinds of residual sublayer.

How a head turns scores into weights is a field of the head, never a flag of an evaluator.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.core._gated import GatedFeedForward
from hardmax.numerics import finite_array

_LARGEST = sys.float_info.max


@dataclass(frozen=True, eq=False)
class VectorInput:
    """A vector of reals placed into a prompt: token t starts as maps[t] @ x + offsets[t].

    A token whose map is zero is a constant of the prompt, as a sink or start token is.

    >>> hm.VectorInput(maps=[[[1.0]], [[0.0]]], offsets=[[0.0], [5.0]]).tokens  # x, and a constant
    2
    """

    maps: np.ndarray  # tokens x width x inputs
    offsets: np.ndarray  # tokens x width

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", finite_array(self.maps, "maps", ndim=3))
        object.__setattr__(self, "offsets", finite_array(self.offsets, "offsets", ndim=2))
        if self.offsets.shape != self.maps.shape[:2]:
            raise ShapeError(
                f"offsets must have shape {self.maps.shape[:2]} to go with maps "
                f"{self.maps.shape}, but it is {self.offsets.shape}."
            )
        if self.tokens == 0:
            raise ShapeError("A prompt needs at least one token.")

    @property
    def tokens(self) -> int:
        return self.maps.shape[0]

    @property
    def width(self) -> int:
        return self.maps.shape[1]

    @property
    def inputs(self) -> int:
        return self.maps.shape[2]

    def __repr__(self) -> str:
        return f"VectorInput({self.inputs} reals -> {self.tokens} tokens of width {self.width})"


@dataclass(frozen=True, eq=False)
class SequenceInput:
    """A sequence of symbols: token t starts as embedding[symbol_t] + positions[t].

    With a start token, position 0 belongs to it and the symbols follow from position 1 on.

    >>> hm.SequenceInput(("a", "b"), embedding=[[0.0], [1.0]], positions=[[0.0]] * 3).longest
    3
    """

    alphabet: tuple[Hashable, ...]
    embedding: np.ndarray  # symbols x width
    positions: np.ndarray  # positions x width
    start: np.ndarray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "alphabet", tuple(self.alphabet))
        object.__setattr__(self, "embedding", finite_array(self.embedding, "embedding", ndim=2))
        object.__setattr__(self, "positions", finite_array(self.positions, "positions", ndim=2))
        if len(set(self.alphabet)) != len(self.alphabet) or not self.alphabet:
            raise ShapeError("The alphabet needs at least one symbol, and no symbol twice.")
        if not all(isinstance(symbol, str | int) for symbol in self.alphabet):
            raise ShapeError("The alphabet's symbols must be strings or whole numbers.")
        if self.embedding.shape[0] != len(self.alphabet):
            raise ShapeError(
                f"embedding has {self.embedding.shape[0]} rows for {len(self.alphabet)} symbols."
            )
        if self.positions.shape[1] != self.width:
            raise ShapeError(
                f"positions must have width {self.width}, but their shape is "
                f"{self.positions.shape}."
            )
        if self.start is not None:
            object.__setattr__(self, "start", finite_array(self.start, "start", ndim=1))
            if self.start.shape != (self.width,):
                raise ShapeError(f"start must have shape ({self.width},), not {self.start.shape}.")

    @property
    def width(self) -> int:
        return self.embedding.shape[1]

    @property
    def tokens(self) -> int:
        """The largest number of tokens, the start token included."""
        return self.positions.shape[0]

    @property
    def longest(self) -> int:
        """The largest number of symbols."""
        return self.tokens - (self.start is not None)

    def indices(self, sequence: Iterable[object]) -> list[int]:
        """The symbols' numbers in the alphabet; longer or foreign sequences are refused."""
        symbols = list(sequence)
        if len(symbols) > self.longest:
            raise RequestError(
                f"This model reads at most {self.longest} symbols, but the sequence has "
                f"{len(symbols)}."
            )
        number = {symbol: i for i, symbol in enumerate(self.alphabet)}
        for place, symbol in enumerate(symbols):
            if not isinstance(symbol, Hashable) or symbol not in number:
                raise RequestError(
                    f"The symbol {symbol!r} at place {place} is not in the alphabet "
                    f"{list(self.alphabet)}."
                )
        return [number[symbol] for symbol in symbols]

    def __repr__(self) -> str:
        start = " after a start token" if self.start is not None else ""
        return (
            f"SequenceInput({len(self.alphabet)} symbols, up to {self.longest}{start}, "
            f"width {self.width})"
        )


Input = VectorInput | SequenceInput


@dataclass(frozen=True)
class Hardmax:
    """All weight on the largest score; ties share it equally.

    >>> hm.Hardmax()
    Hardmax()
    """

    def __str__(self) -> str:
        return "hardmax"


@dataclass(frozen=True)
class Softmax:
    """Weights proportional to exp(coldness * score).

    >>> hm.Softmax(40.0)
    Softmax(coldness=40.0)
    """

    coldness: float

    def __post_init__(self) -> None:
        if not (isinstance(self.coldness, int | float) and 0 < self.coldness <= _LARGEST):
            raise RequestError(
                f"A softmax needs a finite coldness > 0, but it is {self.coldness!r}."
            )
        object.__setattr__(self, "coldness", float(self.coldness))

    def __str__(self) -> str:
        return f"softmax {self.coldness!r}"


Weighting = Hardmax | Softmax


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


Sublayer = Attention | FeedForward | GatedFeedForward
