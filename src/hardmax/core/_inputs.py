"""How an input becomes tokens, and how the answer is read out."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.numerics import finite_array


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


@dataclass(frozen=True, eq=False)
class ReadOut:
    """The answer: weights @ x + bias at one token (negative counts from the end), or at each.

    `token=None` reads every token of a sequence; the start token, if any, is left out.

    >>> hm.ReadOut(weights=[[1.0, 0.0]], bias=[0.5]).outputs
    1
    """

    weights: np.ndarray
    bias: np.ndarray
    token: int | None = -1

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", finite_array(self.weights, "read-out weights", ndim=2))
        object.__setattr__(self, "bias", finite_array(self.bias, "read-out bias", ndim=1))
        if self.bias.shape != self.weights.shape[:1]:
            raise ShapeError(
                f"The read-out bias must have shape {self.weights.shape[:1]}, but it is "
                f"{self.bias.shape}."
            )

    @property
    def outputs(self) -> int:
        return self.weights.shape[0]

    def __repr__(self) -> str:
        where = "every token" if self.token is None else f"token {self.token}"
        return f"ReadOut({self.outputs} outputs from {where})"


Input = VectorInput | SequenceInput
