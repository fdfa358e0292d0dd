"""The sizes of the depth construction, and how many cells it has."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import log

from hardmax._errors import RequestError
from hardmax.geometry.bounds._sums import power, product, whole


@dataclass(frozen=True)
class Recipe:
    """The arguments of `depth_construction`: the sizes of the weights behind a lower bound.

    Heads and ReLUs are spread over the coordinates of the query as evenly as possible. That is
    the best way to spread them: a coordinate with a heads and m ReLUs multiplies the cells by
    (a (N - 1) + 1)(m + 1), and the logarithm of either factor is concave.
    """

    tokens: int
    dimension: int
    layers: int
    heads: int
    hidden: int

    def __post_init__(self) -> None:
        for name in ("tokens", "dimension", "layers"):
            object.__setattr__(self, name, whole(getattr(self, name), name))
        for name in ("heads", "hidden"):
            object.__setattr__(self, name, whole(getattr(self, name), name, least=0))
        if self.heads and self.tokens < 2:
            raise RequestError(
                "A head with one token to choose from cuts nothing. Give at least 2 tokens, or "
                "heads=0."
            )

    @property
    def heads_of(self) -> tuple[int, ...]:
        """How many heads look at each coordinate."""
        return _spread(self.heads, self.dimension)

    @property
    def units_of(self) -> tuple[int, ...]:
        """How many ReLUs fold each coordinate."""
        return _spread(self.hidden, self.dimension)

    @property
    def intervals(self) -> tuple[int, ...]:
        """Into how many intervals the heads of a layer cut each coordinate: a (N - 1) + 1."""
        return tuple(a * (self.tokens - 1) + 1 for a in self.heads_of)

    @property
    def pieces(self) -> tuple[int, ...]:
        """Into how many pieces the ReLUs of a layer fold each of those intervals: m + 1."""
        return tuple(m + 1 for m in self.units_of)

    @property
    def cells(self) -> int:
        """prod_i ((a_i (N - 1) + 1)(m_i + 1))^L, in the open unit cube."""
        counted = Counter((*self.intervals, *self.pieces))
        return product(power(base, times * self.layers) for base, times in counted.items())

    @property
    def log_cells(self) -> float:
        return self.layers * sum(log(factor) for factor in (*self.intervals, *self.pieces))

    def as_dict(self) -> dict[str, int]:
        return dict(vars(self))


def _spread(total: int, parts: int) -> tuple[int, ...]:
    """`total` as a sum of `parts` whole numbers that differ by at most 1, the larger ones first."""
    each, rest = divmod(total, parts)
    return tuple(each + (i < rest) for i in range(parts))
