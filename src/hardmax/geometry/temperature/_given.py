"""Queries, keys and values as users have them, checked once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError, ShapeError
from hardmax.numerics import finite_array

CAUSAL = "causal"


@dataclass(frozen=True, eq=False)
class AttentionProblems:
    """Attention problems over one leading shape, read lead by lead.

    Arrays keep the shapes they came with and are broadcast when read, so that a mask or a bias
    shared by all heads is stored once. `coldness` is infinite where a head is hard.
    """

    lead: tuple[int, ...]
    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    mask: np.ndarray | None
    causal: bool
    bias: np.ndarray | None
    scale: float
    coldness: np.ndarray

    @classmethod
    def of(
        cls,
        q: ArrayLike,
        k: ArrayLike,
        v: ArrayLike,
        mask: ArrayLike | None,
        bias: ArrayLike | None,
        scale: float,
        coldness: ArrayLike,
    ) -> AttentionProblems:
        q, k, v = (_table(array, name) for array, name in ((q, "q"), (k, "k"), (v, "v")))
        lead = _lead(q, k, v)
        grid = (*lead, q.shape[-2], k.shape[-2])
        causal, mask = _mask(mask, grid)
        _check_scale(scale)
        return cls(
            lead,
            q,
            k,
            v,
            mask,
            causal,
            _bias(bias, grid),
            float(scale),
            _per_lead(coldness, lead),
        )

    @property
    def heads(self) -> int:
        return int(np.prod(self.lead, dtype=np.int64))

    @property
    def queries(self) -> int:
        return self.q.shape[-2]

    @property
    def keys(self) -> int:
        return self.k.shape[-2]

    def take_heads(self, name: str, heads: slice) -> np.ndarray:
        """The q, k, v or coldness of some leads, in one axis."""
        return self._some(getattr(self, name), heads, 0 if name == "coldness" else 2)

    def take_grid(self, array: np.ndarray, heads: slice, queries: slice, keys: int) -> np.ndarray:
        """A part of a mask or a bias: leads x queries x keys."""
        cut = array[..., queries if array.shape[-2] > 1 else slice(None), :]
        cut = cut[..., :keys] if array.shape[-1] > 1 else cut
        return self._some(cut, heads, 2)

    def _some(self, array: np.ndarray, heads: slice, own: int) -> np.ndarray:
        tail = array.shape[array.ndim - own :]
        whole = np.broadcast_to(array, (*self.lead, *tail))
        chosen = np.arange(self.heads)[heads]
        if not self.lead:
            return whole[None]
        return whole[np.unravel_index(chosen, self.lead)]


def coldness_of(temperature: ArrayLike) -> np.ndarray:
    """1/temperature; a temperature must be a positive number, one or one per head."""
    try:
        given = np.asarray(temperature, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise RequestError("The temperature must be a number, or one per head.") from reason
    good = (given > 0.0) & (given < np.inf)
    if not good.all():
        bad = given[~good].flat[0]
        raise RequestError(
            f"A temperature must be a finite number > 0, but it is {bad:g}. Leave it out for the "
            f"model's own."
        )
    with np.errstate(over="ignore"):
        coldness = 1.0 / given
    if not np.isfinite(coldness).all():
        raise RequestError(f"The temperature {given.min():g} is too small for float64.")
    return coldness


def check_tolerance(tolerance: float) -> float:
    """The share of the weight that may lie outside the winner: strictly between 0 and 1."""
    if not (isinstance(tolerance, int | float | np.floating) and 0.0 < tolerance < 1.0):
        raise RequestError(
            f"The tolerance is a share of the weight, between 0 and 1, but it is {tolerance!r}."
        )
    return float(tolerance)


def _table(array: ArrayLike, name: str) -> np.ndarray:
    table = finite_array(array, name)
    if table.ndim < 2:
        raise ShapeError(
            f"{name} must have shape (tokens, width) with heads and batches in front, but its "
            f"shape is {table.shape}."
        )
    if table.shape[-2] == 0 or 0 in table.shape[:-2]:
        raise ShapeError(f"{name} is empty: its shape is {table.shape}. Give at least one token.")
    return table


def _lead(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[int, ...]:
    said = f"q has shape {q.shape}, k {k.shape}, v {v.shape}"
    if q.shape[-1] != k.shape[-1]:
        raise ShapeError(f"Queries and keys need one width, but {said}.")
    if k.shape[-2] != v.shape[-2]:
        raise ShapeError(f"Every key needs one value, but {said}.")
    try:
        return np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    except ValueError:
        raise ShapeError(f"The heads and batches in front do not fit together: {said}.") from None


def _mask(mask: ArrayLike | None, grid: tuple[int, ...]) -> tuple[bool, np.ndarray | None]:
    """Whether it is causal, or else the mask; None sees everything."""
    if mask is None:
        return False, None
    square = grid[-2] == grid[-1]
    if isinstance(mask, str):
        if mask != CAUSAL or not square:
            raise ShapeError(
                f'The mask is None, "{CAUSAL}" for as many queries as keys, or a table of booleans '
                f"that ends in {grid[-2:]}, but it is {mask!r} for {grid[-2]} queries and "
                f"{grid[-1]} keys."
            )
        return True, None
    table = np.asarray(mask)
    if table.dtype != np.bool_:
        raise ShapeError(
            f"The mask must hold booleans, True where a key is seen, but it holds {table.dtype}. "
            f"Give numbers that are added to the scores as bias."
        )
    table = _fitting(table, grid, "mask")
    _refuse_blind(table, grid)
    shared = table.size == grid[-2] * grid[-1]
    if square and shared and np.array_equal(table.reshape(grid[-2:]), np.tri(grid[-1], dtype=bool)):
        return True, None
    return False, table


def _bias(bias: ArrayLike | None, grid: tuple[int, ...]) -> np.ndarray | None:
    if bias is None:
        return None
    try:
        table = np.asarray(bias, dtype=np.float64)
    except (TypeError, ValueError) as reason:
        raise ShapeError("The bias must be an array of real numbers.") from reason
    if np.isnan(table).any() or (table == np.inf).any():
        raise ShapeError("The bias must hold finite numbers, or -inf where a key is not seen.")
    return _fitting(table, grid, "bias")


def _fitting(table: np.ndarray, grid: tuple[int, ...], name: str) -> np.ndarray:
    """Kept small where it is shared, with at least two axes."""
    table = table.reshape((1,) * (2 - table.ndim) + table.shape)
    try:
        fits = np.broadcast_shapes(table.shape, grid) == grid
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"The {name} must fit into {grid} (heads, queries, keys), but its shape is "
            f"{table.shape}."
        )
    return table


def _refuse_blind(table: np.ndarray, grid: tuple[int, ...]) -> None:
    blind = ~table.any(axis=-1)
    if blind.any():
        where = tuple(int(i) for i in np.argwhere(blind)[0])
        raise ShapeError(
            f"The query at {where} sees no key: its row of the mask is all False. Leave it out, "
            f"or let it see one."
        )


def _check_scale(scale: float) -> None:
    if not (isinstance(scale, int | float | np.floating) and 0.0 < scale < np.inf):
        raise RequestError(f"The scale must be a finite number > 0, but it is {scale!r}.")


def _per_lead(coldness: ArrayLike, lead: tuple[int, ...]) -> np.ndarray:
    """One number for all, or one per head (the last axis in front of the queries)."""
    table = np.asarray(coldness, dtype=np.float64)
    try:
        return np.broadcast_to(table, lead)
    except ValueError:
        raise ShapeError(
            f"One temperature for all, or one for each of the heads {lead}, but their shape is "
            f"{table.shape}."
        ) from None
