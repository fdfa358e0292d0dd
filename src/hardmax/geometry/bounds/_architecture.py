"""The sizes of a Transformer, without its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hardmax._errors import RequestError
from hardmax.geometry.bounds._sums import whole


@dataclass(frozen=True)
class Architecture:
    """L layers of H heads over N keys in a stream of width d, with or without feed-forward.

    `tokens` are the keys a head can choose from, constants of the prompt; one more token, the
    query, moves. `key_width` is d/H unless given (values are as wide); `dimension` is that of the
    affine set in which the query moves, all of R^d unless given. `feed_forward` counts hidden
    units, 0 for none. `bias_free` heads score <q, k>; otherwise each key has a bias of its own.
    """

    tokens: int
    heads: int
    width: int
    layers: int
    feed_forward: int = 0
    dimension: int = 0  # 0: the width
    key_width: int = 0  # 0: width / heads
    bias_free: bool = False

    def __post_init__(self) -> None:
        for name in ("tokens", "heads", "width", "layers"):
            object.__setattr__(self, name, whole(getattr(self, name), name))
        for name in ("feed_forward", "dimension", "key_width"):
            object.__setattr__(self, name, whole(getattr(self, name), name, least=0))
        if not self.key_width and self.width % self.heads:
            raise RequestError(
                f"{self.heads} heads do not divide the width {self.width}. Give another number of "
                f"heads, or the key width."
            )
        if self.dimension > self.width:
            raise RequestError(
                f"The query moves in a stream of width {self.width}, so its dimension cannot be "
                f"{self.dimension}. Give at most the width."
            )
        object.__setattr__(self, "key_width", self.key_width or self.width // self.heads)
        object.__setattr__(self, "dimension", self.dimension or self.width)

    @property
    def parameters(self) -> int:
        """Dense weights of all layers; embedding and read-out not counted."""
        return self.layers * self.layer_parameters

    @property
    def layer_parameters(self) -> int:
        """Query, key, value and output of each head; two matrices and biases of feed-forward."""
        m, d = self.feed_forward, self.width
        return 4 * d * self.heads * self.key_width + (2 * d * m + m + d if m else 0)

    def as_dict(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "heads": self.heads,
            "width": self.width,
            "layers": self.layers,
            "feed_forward": self.feed_forward or None,
            "dimension": self.dimension,
            "key_width": self.key_width,
            "bias_free": self.bias_free,
            "parameters": self.parameters,
        }

    def __str__(self) -> str:
        parts = [
            _counted(self.tokens, "token"),
            f"{_counted(self.heads, 'head')} of key width {self.key_width:,}",
            f"width {self.width:,}",
            _counted(self.layers, "layer"),
            f"feed-forward {self.feed_forward:,}" if self.feed_forward else "attention only",
        ]
        if self.dimension < self.width:
            parts.append(f"query in {self.dimension:,} dimensions")
        return " · ".join([*parts, "bias-free" if self.bias_free else "a bias for each key"])


def sizes_of(
    n: int | None,
    tokens: int | None,
    heads: int,
    width: int,
    layers: int,
    feed_forward: int | None,
    dimension: int | None,
    key_width: int | None,
    bias_free: bool,
) -> Architecture:
    """What users pass, as a value: tokens under either name, and None for what is not given."""
    if (n is None) == (tokens is None):
        raise RequestError("Give the number of tokens once, as n or as tokens.")
    return Architecture(
        tokens=n if tokens is None else tokens,  # type: ignore[arg-type]  # checked above
        heads=heads,
        width=width,
        layers=layers,
        feed_forward=0 if feed_forward is None else feed_forward,
        dimension=0 if dimension is None else whole(dimension, "dimension"),
        key_width=0 if key_width is None else whole(key_width, "key_width"),
        bias_free=bias_free,
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
