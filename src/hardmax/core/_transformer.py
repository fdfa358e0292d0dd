"""The value at the waist: how an input becomes tokens, residual layers, a read-out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from hardmax._errors import ShapeError
from hardmax.core._inputs import Input, ReadOut, SequenceInput, VectorInput
from hardmax.core._layers import Attention, FeedForward, Head, Sublayer
from hardmax.core._weighting import Hardmax, Weighting


@dataclass(frozen=True, eq=False)
class Transformer:
    """A standard Transformer: x <- x + sublayer(x), no layer norm, softmax or hardmax heads.

    Weights denote exact reals, so a hard Transformer means an exact function on the rationals.

    >>> start = hm.VectorInput(maps=[[[2.0]]], offsets=[[0.0]])
    >>> double = hm.Transformer(start, [], hm.ReadOut(np.eye(1), np.zeros(1)))
    >>> double.tokens, double.width, double.outputs
    (1, 1, 1)
    """

    input: Input
    sublayers: tuple[Sublayer, ...]
    readout: ReadOut

    def __init__(self, input: Input, sublayers: Iterable[Sublayer], readout: ReadOut) -> None:
        object.__setattr__(self, "input", input)
        object.__setattr__(self, "sublayers", tuple(sublayers))
        object.__setattr__(self, "readout", readout)
        self._check_kinds()
        for number, sublayer in enumerate(self.sublayers):
            if sublayer.width != self.width:
                raise ShapeError(
                    f"Sublayer {number} has width {sublayer.width}, but the stream has width "
                    f"{self.width}."
                )
        if readout.weights.shape[1] != self.width:
            raise ShapeError(
                f"The read-out reads width {readout.weights.shape[1]}, but the stream has width "
                f"{self.width}."
            )
        if readout.token is not None and not -self.tokens <= readout.token < self.tokens:
            raise ShapeError(f"The read-out reads token {readout.token} of {self.tokens}.")
        if readout.token is None and isinstance(input, VectorInput):
            raise ShapeError("A vector input has one answer: name the token to read it from.")
        for head in self.heads:
            if head.position_bias is not None and len(head.position_bias) < self.tokens:
                raise ShapeError(
                    f"A position bias covers {len(head.position_bias)} positions, but the prompt "
                    f"has {self.tokens} tokens."
                )

    def _check_kinds(self) -> None:
        if not isinstance(self.input, VectorInput | SequenceInput):
            raise ShapeError("A Transformer's input must be a VectorInput or a SequenceInput.")
        if not all(isinstance(layer, Attention | FeedForward) for layer in self.sublayers):
            raise ShapeError("A Transformer's sublayers must be Attention or FeedForward values.")

    @property
    def width(self) -> int:
        return self.input.width

    @property
    def tokens(self) -> int:
        return self.input.tokens

    @property
    def outputs(self) -> int:
        return self.readout.outputs

    @property
    def heads(self) -> tuple[Head, ...]:
        return tuple(
            head for layer in self.sublayers if isinstance(layer, Attention) for head in layer.heads
        )

    @property
    def is_hard(self) -> bool:
        """Whether every head is a hardmax, so that the function is exact on the rationals."""
        return all(isinstance(head.weighting, Hardmax) for head in self.heads)

    @cached_property
    def tokens_that_matter(self) -> tuple[tuple[int, ...], ...]:
        """Entry k names the tokens whose streams after k sublayers the answer may depend on.

        Entry 0 is about the embedding, the last one about the stream that is read. The answer is
        a function of the tokens of any entry alone, by induction from the end: it is read from
        the read-out's token, or from all of them. A feed-forward sublayer makes a token from
        itself. An attention sublayer makes token t from itself and from what its heads let it
        see: tokens 0 to t if every head is causal, else all of them. So the tokens before it are
        0 to the largest one after it, or all, and the tokens after it are among them.

        Only masks are looked at, never weights: a token that matters may turn out to be read by
        a weight of 0. At the full length, where tokens are counted from the first one.
        """
        everyone, token = tuple(range(self.tokens)), self.readout.token
        found = [everyone if token is None else (token % self.tokens,)]
        for sublayer in reversed(self.sublayers):
            after = found[-1]
            if isinstance(sublayer, Attention):
                causal = all(head.causal for head in sublayer.heads)
                after = everyone[: max(after) + 1] if causal else everyone
            found.append(after)
        return tuple(reversed(found))

    def with_weightings(self, weightings: Iterable[Weighting]) -> Transformer:
        """The same weights, with the heads' weightings replaced in order."""
        supply = iter(weightings)
        sublayers = [
            Attention(replace(head, weighting=next(supply)) for head in layer.heads)
            if isinstance(layer, Attention)
            else layer
            for layer in self.sublayers
        ]
        return Transformer(self.input, sublayers, self.readout)

    def __repr__(self) -> str:
        attention = sum(isinstance(layer, Attention) for layer in self.sublayers)
        return (
            f"Transformer(width {self.width}, {self.tokens} tokens, {attention} attention and "
            f"{len(self.sublayers) - attention} feed-forward sublayers, {len(self.heads)} heads, "
            f"{self.outputs} outputs)"
        )
