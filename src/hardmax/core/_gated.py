"""Gated hidden units, act(gate) times a second linear read; pairs of them make products.

*Theorem.* Let act(z) = z s(z) with s(z) + s(-z) = 1, as of relu (s a step, 1/2 at 0) and of silu
(s a sigmoid). Then act(z) u - act(-z) u = z u for all real z and u.
*Proof.* act(z) - act(-z) = z s(z) + z s(-z) = z. QED

So two hidden units multiply two linear reads without any error, whichever of the two the gate is:
over the rationals with ReLU gates, over the reals with silu, which stock hosts have. A layer says
which of its units are such pairs (`products`), exactly, from its weights; whoever proves something
about it takes them together, because one by one they cancel, and intervals do not see that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.numerics import finite_array, record_of

GATES = ("relu", "silu")
_PARTS = ("gate", "gate_bias", "inner", "inner_bias", "outer", "outer_bias")


@dataclass(frozen=True, eq=False)
class GatedFeedForward:
    """Token-wise: x <- x + outer @ (act(gate @ x + gate_bias) * (inner @ x + inner_bias)) + bias.

    The activation of the gates is "relu" (exact over Fractions; a unit whose second factor is the
    constant 1 is a plain ReLU) or "silu" (the SwiGLU layer of Llama and its likes).

    >>> x, y = [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]  # relu(x) y - relu(-x) y = x y, added to the third
    >>> twice = hm.GatedFeedForward([x, [-1.0, 0.0, 0.0]], [0.0, 0.0], [y, y], [0.0, 0.0],
    ...                             [[0.0, 0.0], [0.0, 0.0], [1.0, -1.0]], [0.0, 0.0, 0.0])
    >>> twice, twice.products
    (GatedFeedForward(width 3, hidden 2, relu), ((0, 1),))
    """

    gate: np.ndarray
    gate_bias: np.ndarray
    inner: np.ndarray
    inner_bias: np.ndarray
    outer: np.ndarray
    outer_bias: np.ndarray
    activation: str = "relu"
    PARTS: ClassVar[tuple[str, ...]] = _PARTS

    @classmethod
    def of(cls, parts: Mapping[str, np.ndarray], activation: str) -> GatedFeedForward:
        """A layer from its weights by their names, as `parts` gives them."""
        gate, gate_bias, inner, inner_bias, outer, outer_bias = (parts[name] for name in _PARTS)
        return cls(gate, gate_bias, inner, inner_bias, outer, outer_bias, activation)

    def __post_init__(self) -> None:
        for name in _PARTS:
            ndim = 1 if name.endswith("bias") else 2
            object.__setattr__(self, name, finite_array(getattr(self, name), name, ndim=ndim))
        if self.activation not in GATES:
            raise RequestError(
                f"The activation of gates is one of {', '.join(GATES)}, not {self.activation!r}."
            )
        hidden, width = self.inner.shape
        wanted = [(hidden, width), (hidden,), (hidden, width), (hidden,), (width, hidden), (width,)]
        for name, shape in zip(_PARTS, wanted, strict=True):
            if getattr(self, name).shape != shape:
                raise ShapeError(
                    f"A gated feed-forward layer with inner {self.inner.shape} needs {name} of "
                    f"shape {shape}, but it is {getattr(self, name).shape}."
                )

    @property
    def width(self) -> int:
        return self.inner.shape[1]

    @property
    def hidden_width(self) -> int:
        return self.inner.shape[0]

    @property
    def is_exact(self) -> bool:
        """Whether the layer maps rationals to rationals, unit by unit."""
        return self.activation == "relu"

    def act(self, z: np.ndarray | float) -> np.ndarray:
        """The activation, on floats."""
        if self.activation == "relu":
            return np.asarray(np.maximum(z, 0.0))
        return np.asarray(record_of(self.activation).floats(np.asarray(z, dtype=np.float64)))

    @cached_property
    def products(self) -> tuple[tuple[int, int], ...]:
        """Pairs (i, j) of units that together add outer_i (gate_i x + b_i) (inner_i x + c_i).

        Unit j has the gate of i with the other sign, the same second factor, and is added with the
        other sign; or its second factor has the other sign instead.
        """
        open_: dict[bytes, list[int]] = {}
        pairs = []
        for j in range(self.hidden_width):
            gate, second, outer = self._unit(j)
            partners = (_key(-gate, second, -outer), _key(-gate, -second, outer))
            found = next((open_[key] for key in partners if open_.get(key)), None)
            if found is None:
                open_.setdefault(_key(gate, second, outer), []).append(j)
            else:
                pairs.append((found.pop(0), j))
        return tuple(sorted(pairs))

    @cached_property
    def terms(self) -> tuple[np.ndarray, np.ndarray]:
        """What is added up: units, and whether each is the first of a pair that is a product.

        The layer is x + sum_k outer_k h_k + bias over these units k alone, with
        h_k = (gate_k x + b_k) (inner_k x + c_k) for a product and act(gate_k x + b_k) (...) else.
        """
        first, second = ({pair[k] for pair in self.products} for k in (0, 1))
        units = [unit for unit in range(self.hidden_width) if unit not in second]
        return np.array(units, dtype=np.int64), np.array([unit in first for unit in units], bool)

    def _unit(self, unit: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        gate = np.append(self.gate[unit], self.gate_bias[unit])
        return gate, np.append(self.inner[unit], self.inner_bias[unit]), self.outer[:, unit]

    def parts(self) -> dict[str, np.ndarray]:
        """Every weight by its name."""
        return {name: getattr(self, name) for name in _PARTS}

    def __repr__(self) -> str:
        return (
            f"GatedFeedForward(width {self.width}, hidden {self.hidden_width}, {self.activation})"
        )


def _key(*parts: np.ndarray) -> bytes:
    """Equal numbers, equal bytes: -0.0 is 0.0."""
    return b"".join((part + 0.0).tobytes() for part in parts)
