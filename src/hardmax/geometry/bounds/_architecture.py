"""The sizes of a Transformer, without its weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Required, TypedDict, Unpack

from hardmax._errors import RequestError
from hardmax.geometry.bounds._sums import whole


class Sizes(TypedDict, total=False):
    """What `transformer` and `compare` take beside the tokens: the fields of an Architecture."""

    n: int  # what `tokens` was called as well; goes with the next release
    heads: Required[int]
    width: Required[int]
    layers: Required[int]
    feed_forward: int | None
    dimension: int | None
    key_width: int | None
    bias_free: bool


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

    @classmethod
    def of(cls, tokens: int | Architecture | None, **sizes: Unpack[Sizes]) -> Architecture:
        """What users pass, as a value: an architecture as it is, or its sizes, None for not given.

        >>> Architecture.of(16, heads=2, width=8, layers=1).key_width
        4
        """
        if isinstance(tokens, Architecture):
            if sizes:
                raise RequestError(
                    f"Give an Architecture or its sizes, but not both: {', '.join(sizes)} came "
                    f"with one. Change it by dataclasses.replace."
                )
            return tokens
        given = {name: size for name, size in sizes.items() if name != "n"}
        if (tokens is None) == (sizes.get("n") is None):
            raise RequestError("Give the number of tokens once, as n or as tokens.")
        _check_names(given)
        for name in ("dimension", "key_width"):  # 0 stands for not given, inside
            if given.get(name) is not None:
                whole(given[name], name)
        chosen = {name: size for name, size in given.items() if size is not None}
        return cls(sizes["n"] if tokens is None else tokens, **chosen)  # type: ignore[arg-type]

    @property
    def parameters(self) -> int:
        """Dense weights of all layers; embedding and read-out not counted."""
        return self.layers * self.layer_parameters

    @property
    def layer_parameters(self) -> int:
        """Query, key, value and output of each head; two matrices and biases of feed-forward."""
        m, d = self.feed_forward, self.width
        return 4 * d * self.heads * self.key_width + (2 * d * m + m + d if m else 0)

    def as_dict(self) -> dict[str, int | None]:
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
            _number_of(self.tokens, "token"),
            f"{_number_of(self.heads, 'head')} of key width {self.key_width:,}",
            f"width {self.width:,}",
            _number_of(self.layers, "layer"),
            f"feed-forward {self.feed_forward:,}" if self.feed_forward else "attention only",
        ]
        if self.dimension < self.width:
            parts.append(f"query in {self.dimension:,} dimensions")
        return " · ".join([*parts, "bias-free" if self.bias_free else "a bias for each key"])


def _check_names(given: Iterable[str]) -> None:
    unknown = [name for name in given if name not in Sizes.__annotations__]
    missing = [name for name in ("heads", "width", "layers") if name not in given]
    if unknown or missing:
        problem = f"has no {unknown[0]!r}" if unknown else f"needs {' and '.join(missing)} as well"
        raise RequestError(
            f"An architecture {problem}; for example tokens=512, heads=8, width=512, layers=6. It "
            f"may have feed_forward, dimension, key_width and bias_free besides."
        )


def _number_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
