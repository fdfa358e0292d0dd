"""From a host's matrices to those of a Transformer over our columns: exactly, or not at all.

Columns that no sublayer writes hold what the embedding put there. What is read of a column that
holds 1 is a bias; a norm is undone by its power of two. Whatever a Transformer could not say is
refused: the reader believes no writer. What does nothing over the reals is kept unless it is all
zeros: in floats infinity times 0 is no number, and large constants that cancel are not 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hardmax._errors import FileError
from hardmax.core import Attention, FeedForward, Head, Norm, Softmax
from hardmax.interop.huggingface._columns import norm_of

Shapes = Mapping[str, tuple[int, ...]]


def check_shapes(tensors: Mapping[str, np.ndarray], expected: Shapes) -> None:
    """Exactly the tensors that the class has, each of its shape."""
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise FileError(f"lacks the tensor {missing[0]}, which its config asks for.")
    foreign = [name for name in tensors if name not in expected]
    if foreign:
        raise FileError(f"holds the tensor {foreign[0]}, which this class does not have.")
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise FileError(
                f"holds the tensor {name} of shape {tensors[name].shape}, but its config asks for "
                f"{shape}."
            )


@dataclass(frozen=True, eq=False)
class Stream:
    """The columns of a host: so many of ours, then constants with these values."""

    ours: int
    constants: np.ndarray

    @property
    def width(self) -> int:
        return self.ours + len(self.constants)

    def norm(self, kind: str, weight: np.ndarray, epsilon: float) -> Norm:
        """The norm with this weight, which has to be one number, above 0."""
        gain = float(weight[0])
        if not (weight == gain).all() or gain <= 0.0:
            raise FileError("has a norm whose weights are not one number above 0.")
        return norm_of(kind, self.constants, gain, epsilon, self.width)

    def scaled(self, rows: np.ndarray, scale: float) -> np.ndarray:
        """Rows times a power of two, exactly."""
        with np.errstate(over="ignore", under="ignore"):
            found = rows * scale
            exact = np.isfinite(found).all() and np.array_equal(found / scale, rows)
        if not exact:
            raise FileError("has weights that are too small or too large for their norm.")
        return found

    def linear(self, rows: np.ndarray, what: str) -> np.ndarray:
        """Rows that read our columns alone; constants that hold 0 may be read."""
        if rows[:, self.ours :][:, self.constants != 0.0].any():
            raise FileError(f"has {what} that read constant columns, where there is no bias.")
        return rows[:, : self.ours]

    def biases(self, rows: np.ndarray) -> np.ndarray:
        """What each row reads of one column that holds 1: sums of several would be rounded."""
        read = np.where(self.constants == 0.0, 0.0, rows[:, self.ours :])
        if read[:, self.constants != 1.0].any() or ((read != 0.0).sum(axis=1) > 1).any():
            raise FileError("has biases that are not read of one column that holds 1.")
        return np.asarray(read.sum(axis=1))

    def writes(self, columns: np.ndarray, what: str) -> np.ndarray:
        """Columns (width x anything) that write ours alone."""
        if columns[self.ours :].any():
            raise FileError(f"has {what} that write columns which have to stay constant.")
        return columns[: self.ours]


def constants_of(table: np.ndarray, ours: int) -> np.ndarray:
    """What every row of an embedding holds beyond our columns."""
    rest = table[:, ours:]
    if not (rest == rest[:1]).all():
        raise FileError("has an embedding whose constant columns differ from symbol to symbol.")
    return np.asarray(rest[0])


def trimmed_head(
    query: np.ndarray,
    key: np.ndarray,
    value: np.ndarray,
    output: np.ndarray,
    *,
    causal: bool,
    bias: np.ndarray | None = None,
) -> Head | None:
    """A softmax head without rows that are all 0 on both sides; None if there is nothing else."""
    asks = query.any(axis=1) | key.any(axis=1)
    sends = value.any(axis=1) | output.any(axis=0)
    if not sends.any():
        if asks.any():
            raise FileError("has a head that compares tokens and sends nothing.")
        return None
    cold = warm = 1.0
    if bias is None:
        cold = _coldness(query)
    if bias is None and cold == 1.0 and ((key != 0.0).sum(axis=1) <= 1).all():
        warm = _coldness(key)
    parts = query[asks] / cold, key[asks] / warm, value[sends], output[:, sends]
    return Head(*parts, weighting=Softmax(cold * warm), causal=causal, position_bias=bias)


def _coldness(rows: np.ndarray) -> float:
    """What queries or keys are multiples of, by powers of two: that was a coldness, and is again.

    Whoever bounds roundings of a head takes a coldness to be multiplied into the query or into the
    score, rounded each time; a single number of a key, rounded once, is no more than that.
    """
    digits, powers = np.frexp(np.abs(rows[rows != 0.0]))
    alike = len(digits) > 0 and bool((digits == digits[0]).all())
    return float(np.ldexp(digits[0], powers.max())) if alike else 1.0


def attention_of(heads: Sequence[Head | None]) -> list[Attention]:
    """The layer of the heads that send something; none if no head does."""
    found = [head for head in heads if head is not None]
    return [Attention(found)] if found else []


def feed_forward_of(
    inner: np.ndarray, inner_bias: np.ndarray, outer: np.ndarray, outer_bias: np.ndarray
) -> list[FeedForward]:
    """The layer of the units that are not all 0; none if there is none."""
    alive = outer.any(axis=0) | inner.any(axis=1) | (inner_bias != 0.0)
    if not alive.any() and not outer_bias.any():
        return []
    return [FeedForward(inner[alive], inner_bias[alive], outer[:, alive], outer_bias)]
