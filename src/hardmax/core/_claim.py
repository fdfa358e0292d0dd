"""What is promised of a construction: where it holds, how close it is, and how it comes about.

A claim holds on an axis-parallel box of reals (or on words). Its ledger says where every part of
the promised error comes from. A witness says where the target's inner values live in the stream;
lowerings write it, and nobody believes it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardmax._errors import DomainError, RequestError, ShapeError
from hardmax._shown import Shown
from hardmax.core._sequence_target import SequenceTarget
from hardmax.core._target import Target
from hardmax.core._words import Words
from hardmax.numerics import Interval, finite_array, format_named, frozen_array

_NUMBER = r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?inf)"
_EDGE = re.compile(rf"\[{_NUMBER},{_NUMBER}\](?:\^([1-9]\d{{0,5}}))?")

MARGIN = 0.02  # a bound that is attained exactly can never be confirmed by enclosures


# ---- where it holds ------------------------------------------------------------------------------


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


# ---- what is claimed -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Share:
    """One line of the ledger."""

    cause: str  # approximation | softening | routing | rounding | margin
    where: str
    amount: float

    def __post_init__(self) -> None:
        if not (0 <= self.amount < math.inf):
            raise RequestError(
                f"The ledger's share of {self.cause} must be finite and >= 0, not {self.amount}."
            )


@dataclass(frozen=True, eq=False)
class Claim(Shown):
    """|Transformer(x) - target(x)| <= error for every output and every x in the domain.

    The Transformer is evaluated in the `format`, float64 unless said otherwise: its weights cast to
    it, inputs that it holds, any order of summation, nothing below the smallest normal number. A
    claim about a coarser format is one about float64 and the reals as well: what is promised
    bounds the error over the reals of the stored weights, plus what rounding in the format adds.
    The ledger says where the error comes from and adds up to it, rounding and margin included;
    `asked` is the error that somebody asked for, which the claim stays below. A `Target` is claimed
    on a `Box`, a `SequenceTarget` on `Words`.

    >>> claim = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2).claim
    >>> claim.error <= 1e-2, [share.cause for share in claim.ledger][:1]
    (True, ['approximation'])
    >>> coarse = hm.compile("exp(x)", on={"x": (0, 1)}, error=1e-2, float="float32").claim
    >>> coarse.format, coarse.error <= coarse.asked
    ('float32', True)
    """

    target: Any  # Target, or SequenceTarget
    domain: Any  # Box, or Words
    ledger: tuple[Share, ...]
    format: str  # of FORMATS
    asked: float  # the error that was asked for: the claim's own if nobody did

    def __init__(
        self,
        target: Target | SequenceTarget,
        domain: Box | Words,
        ledger: Iterable[Share],
        *,
        format: str = "float64",
        asked: float | None = None,
    ) -> None:
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "ledger", tuple(ledger))
        object.__setattr__(self, "format", format_named(format).name)
        object.__setattr__(self, "asked", self.error if asked is None else float(asked))
        if not 0 <= self.asked < math.inf:
            raise RequestError(f"An error that is asked for must be a number >= 0, not {asked!r}.")
        if isinstance(domain, Words) != isinstance(target, SequenceTarget):
            raise RequestError(
                f"A target on words goes with the domain Words, and any other with a Box, but a "
                f"{type(target).__name__} came with a {type(domain).__name__}."
            )

    @property
    def error(self) -> float:
        return math.fsum(share.amount for share in self.ledger)

    @property
    def margin(self) -> float:
        """The part of the error that no cause needs: room for a checker's enclosures."""
        return math.fsum(share.amount for share in self.ledger if share.cause == "margin")

    def __repr__(self) -> str:
        where = "" if self.format == "float64" else f" in {self.format}"
        return f"Claim(error <= {self.error:.6g}{where} on {self.domain})"


def with_margin(shares: Iterable[Share], margin: float = MARGIN) -> tuple[Share, ...]:
    """The ledger of a proved bound, with the stated margin on top."""
    proved = [share for share in shares if share.amount > 0]
    bound = math.fsum(share.amount for share in proved)
    if bound > 0:
        proved.append(Share("margin", f"{margin:.0%} for the checker", margin * bound))
    return tuple(proved)


# ---- how it comes about --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Holding:
    """After `sublayer` (-1: after the embedding), coordinates of `token` hold a value.

    Row i says: coordinates[i] lies within errors[i] of the maximum of those components of
    `value` that components[i] names (-1 fills short rows; a single one is just that component).
    `value` counts as in `Steps`: 0 is the input, i + 1 the result of step i. With `weights`, row i
    is the combination weights[i] . x[coordinates] + constants[i] instead of one coordinate.
    """

    sublayer: int
    token: int
    coordinates: np.ndarray
    value: int
    components: np.ndarray
    errors: np.ndarray
    weights: np.ndarray | None = None  # rows x coordinates
    constants: np.ndarray | None = None  # rows

    def __post_init__(self) -> None:
        coordinates = _whole(self.coordinates)
        components = _whole(self.components)
        if components.ndim == 1:
            components = frozen_array(components[:, None])
        rows = components.shape[:1]
        errors = finite_array(np.broadcast_to(self.errors, rows), "errors", ndim=1)
        self._take_weights(rows, coordinates.shape)
        if coordinates.ndim != 1 or (self.weights is None and rows != coordinates.shape):
            raise ShapeError(
                f"A holding lists {coordinates.shape} coordinates but names components "
                f"{components.shape}."
            )
        if (errors < 0).any():
            raise ShapeError("A holding's errors must be >= 0.")
        if components.size and not (components >= 0).any(axis=1).all():
            raise ShapeError("A holding names no component for one of its coordinates.")
        object.__setattr__(self, "coordinates", coordinates)
        object.__setattr__(self, "components", components)
        object.__setattr__(self, "errors", errors)

    def _take_weights(self, rows: tuple[int, ...], coordinates: tuple[int, ...]) -> None:
        if self.weights is None and self.constants is None:
            return
        if self.weights is None or self.constants is None:
            raise ShapeError("A holding of combinations needs weights and constants, both.")
        weights = finite_array(self.weights, "weights", ndim=2)
        constants = finite_array(self.constants, "constants", ndim=1)
        if weights.shape != rows + coordinates or constants.shape != rows:
            raise ShapeError(
                f"A holding of {rows} rows over {coordinates} coordinates has weights "
                f"{weights.shape} and constants {constants.shape}."
            )
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "constants", constants)

    def read(self, stream: np.ndarray) -> np.ndarray:
        """What the rows hold, given the token's stream (width, or width x batch)."""
        held = stream[self.coordinates]
        if self.weights is None or self.constants is None:
            return np.asarray(held)
        shift = self.constants.reshape(-1, *[1] * (held.ndim - 1))
        return np.asarray(self.weights @ held + shift)

    def __repr__(self) -> str:
        return (
            f"Holding(value {self.value} in {len(self.coordinates)} coordinates of token "
            f"{self.token} after sublayer {self.sublayer})"
        )


def _whole(values: object) -> np.ndarray:
    given = np.asarray(values)
    if given.size and given.dtype.kind not in "iu":
        raise ShapeError("A holding's coordinates and components must be whole numbers.")
    return frozen_array(given.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Witness:
    """All holdings of a construction, in the order in which the sublayers make them true."""

    holdings: tuple[Holding, ...]

    def __init__(self, holdings: Iterable[Holding]) -> None:
        object.__setattr__(self, "holdings", tuple(holdings))

    def __repr__(self) -> str:
        return f"Witness({len(self.holdings)} holdings)"
