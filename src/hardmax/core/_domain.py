"""Where a claim holds: an axis-parallel box of reals."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hardmax._errors import DomainError
from hardmax.numerics import Interval, frozen_array

_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf)"
_EDGE = re.compile(rf"\[{_NUMBER},{_NUMBER}\](?:\^([1-9]\d{{0,5}}))?")


@dataclass(frozen=True, eq=False)
class Box:
    """The box low <= x <= high, coordinate by coordinate; bounded, with numbers at its ends.

    >>> hm.Box([-1, 0], [1, 2])
    Box([-1,1] x [0,2])
    >>> hm.Box.parse("[-1,1]^8").dimension
    8
    """

    low: np.ndarray
    high: np.ndarray

    def __post_init__(self) -> None:
        try:
            low = np.atleast_1d(np.asarray(self.low, dtype=np.float64))
            high = np.atleast_1d(np.asarray(self.high, dtype=np.float64))
        except (TypeError, ValueError, OverflowError) as reason:
            raise DomainError("A box needs two lists of numbers, low and high.") from reason
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise DomainError(
                f"A box needs two lists of one length, but they have shapes {low.shape} and "
                f"{high.shape}."
            )
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise DomainError("The domain is unbounded: give finite numbers for low and high.")
        if (low > high).any():
            i = int(np.argmax(low > high))
            raise DomainError(
                f"The domain is inverted in coordinate {i}: [{low[i]:g}, {high[i]:g}]. "
                f"Give the smaller end first."
            )
        object.__setattr__(self, "low", frozen_array(low + 0.0))  # -0.0 becomes 0.0
        object.__setattr__(self, "high", frozen_array(high + 0.0))

    @classmethod
    def parse(cls, text: str) -> Box:
        """Read "[-1,1]^8" or "[0,1]^2 x [-2,2]"."""
        low: list[float] = []
        high: list[float] = []
        for factor in re.split(r"[x×]", text.replace(" ", "")):
            match = _EDGE.fullmatch(factor)
            if match is None:
                raise DomainError(
                    f'The domain "{text}" could not be read. Write it as "[-1,1]^8" or '
                    f'"[0,1]^2 x [-2,2]".'
                )
            ends = float(match[1]), float(match[2])
            times = int(match[3] or 1)
            low += [ends[0]] * times
            high += [ends[1]] * times
        return cls(np.array(low), np.array(high))

    @classmethod
    def of(cls, value: object, dimension: int) -> Box:
        """Whatever a user may write for a domain, checked against the source's dimension.

        A box, a text, a pair (low, high) of numbers that stands for every coordinate, or one such
        pair per coordinate.
        """
        if isinstance(value, str):
            value = cls.parse(value)
        if not isinstance(value, Box):
            value = cls._of_pairs(value, dimension)
        if value.dimension != dimension:
            raise DomainError(
                f"The source has {dimension} inputs, but the domain has {value.dimension} "
                f"coordinates."
            )
        return value

    @classmethod
    def _of_pairs(cls, value: object, dimension: int) -> Box:
        try:
            pairs = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            pairs = np.zeros(0)
        if pairs.shape == (2,):
            pairs = np.broadcast_to(pairs, (dimension, 2))
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise DomainError(
                "The domain must be hm.Box(low, high), a pair (low, high), one pair per "
                'coordinate, or a text such as "[-1,1]^8".'
            )
        return cls(pairs[:, 0], pairs[:, 1])

    @property
    def dimension(self) -> int:
        return self.low.shape[0]

    @property
    def interval(self) -> Interval:
        return Interval(self.low, self.high)

    def contains(self, points: np.ndarray) -> np.ndarray:
        """Which of the points, one per row, lie in the box."""
        return np.asarray(((points >= self.low) & (points <= self.high)).all(axis=-1))

    def sample(self, count: int, rng: np.random.Generator) -> np.ndarray:
        """`count` points: corners, faces and the middle among uniform ones."""
        share = rng.random((count, self.dimension))
        points = self.low * (1 - share) + self.high * share  # high - low may overflow
        extreme = points[: count // 4]
        pick = rng.integers(0, 3, size=extreme.shape)
        extreme[pick == 1] = np.broadcast_to(self.low, extreme.shape)[pick == 1]
        extreme[pick == 2] = np.broadcast_to(self.high, extreme.shape)[pick == 2]
        corners = points[: count // 8]
        corners[:] = np.where(rng.random(corners.shape) < 0.5, self.low, self.high)
        return np.clip(points, self.low, self.high)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Box):
            return NotImplemented
        return np.array_equal(self.low, other.low) and np.array_equal(self.high, other.high)

    def __hash__(self) -> int:
        return hash((self.low.tobytes(), self.high.tobytes()))

    def __str__(self) -> str:
        edges: list[tuple[str, int]] = []
        for a, b in zip(self.low, self.high, strict=True):
            edge = f"[{_shortest(a)},{_shortest(b)}]"
            if edges and edges[-1][0] == edge:
                edges[-1] = (edge, edges[-1][1] + 1)
            else:
                edges.append((edge, 1))
        return " x ".join(edge if times == 1 else f"{edge}^{times}" for edge, times in edges)

    def __repr__(self) -> str:
        return f"Box({self})"


def _shortest(number: float) -> str:
    """The fewest digits that read back as the same number."""
    return repr(float(number)).removesuffix(".0")
