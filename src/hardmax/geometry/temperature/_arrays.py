"""The batch computation on bare queries, keys and values: a bounded part of the grid at a time."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import ShapeError
from hardmax.geometry.temperature._cloud import Cloud
from hardmax.geometry.temperature._given import AttentionProblems, coldness_of
from hardmax.geometry.temperature._table import FIELDS, Stability
from hardmax.geometry.temperature._walls import nearest_walls
from hardmax.numerics import (
    FLOAT64,
    TINY,
    UNIT,
    down,
    gamma,
    inflate,
    is_coarse,
    is_power_of_two,
)

_LARGEST_BIAS = 1e300  # differences of larger ones may be infinite
_LARGEST_SCORE = FLOAT64.largest / 16.0  # four times the difference of two, with biases, is finite
_CELLS = 2**17  # scores held at once: they stay in cache, and memory is bounded at any length


def stability_of(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    mask: ArrayLike | None = None,
    scale: float = 1.0,
    temperature: ArrayLike = 1.0,
    *,
    bias: ArrayLike | None = None,
) -> Stability:
    """How close softmax attention is to its hard skeleton, for arrays of any trained model.

    q has shape (queries, width), k (keys, width) and v (keys, value width), with any heads and
    batches in front: (heads, ...) or (batch, heads, ...); keys shared by several heads may have 1
    there. The scores are scale q.k + bias, divided by the temperature: a model that divides by
    sqrt(width) has scale = 1/sqrt(width). `mask` is True where a key is seen, or "causal"; a bias
    of -inf hides a key, too. One temperature for all, or one per head.

    The arrays are taken as exact numbers. Winners, gaps and weights are those of float64; every
    bound is rounded to the safe side, with the rounding of the scores taken off the gap
    (`gap_error`). Where it eats the gap the winner is not certain: `tied`.

    Cost: five matrix products and some twenty passes over heads x queries x keys; memory beyond
    the arrays themselves stays below some tens of megabytes.

        hm.stability_of(q, k, v, mask="causal", scale=64**-0.5).gap

    >>> hm.stability_of([[1.0]], [[2.0], [0.0]], [[0.0], [1.0]]).winner
    array([0])
    """
    return measure(AttentionProblems.of(q, k, v, mask, bias, scale, coldness_of(temperature)))


def measure(given: AttentionProblems) -> Stability:
    """Every number of `Stability`, for every query."""
    shape = (given.heads, given.queries)
    columns: dict[str, np.ndarray] = {}
    for heads, block in _blocks(given):
        for queries in _slices(given.queries, max(1, _CELLS // (block.heads * given.keys))):
            for name, part in block.measure(queries).items():
                if name not in columns:
                    columns[name] = np.empty(shape, dtype=part.dtype)
                columns[name][heads, queries] = part
    coldness = np.broadcast_to(given.coldness[..., None], (*given.lead, given.queries))
    arrays = {name: columns[name].reshape(*given.lead, given.queries) for name in FIELDS}
    return Stability(**arrays, coldness=coldness, scale=given.scale)


def _blocks(given: AttentionProblems) -> Iterator[tuple[slice, _Block]]:
    step = max(1, _CELLS // (given.queries * given.keys))
    for heads in _slices(given.heads, step):
        yield heads, _Block.of(given, heads)


def _slices(count: int, step: int) -> Iterator[slice]:
    for start in range(0, count, step):
        yield slice(start, min(start + step, count))


@dataclass(frozen=True, eq=False)
class _Block:
    """Some heads, with what all their queries share."""

    given: AttentionProblems
    place: slice
    q: np.ndarray  # heads x queries x width, times the scale
    k: np.ndarray
    coldness: np.ndarray  # heads x 1
    keys: Cloud
    values: Cloud
    key_diameter: np.ndarray  # heads x (1 or queries)
    value_diameter: np.ndarray
    stray: np.ndarray  # heads x queries: how far a score may be off

    @classmethod
    def of(cls, given: AttentionProblems, place: slice) -> _Block:
        k, v = _only_seen(given, place)
        with np.errstate(over="ignore", under="ignore"):
            asked = given.take_heads("q", place)
            q = asked * given.scale
        stray = _stray(q, k, given.bias, asked, given.scale)
        keys, values = Cloud.of(k, "keys"), Cloud.of(v, "values")
        return cls(
            given,
            place,
            q,
            k,
            given.take_heads("coldness", place)[:, None],
            keys,
            values,
            keys.diameters(given.causal),
            values.diameters(given.causal),
            stray,
        )

    @property
    def heads(self) -> int:
        return len(self.q)

    def measure(self, queries: slice) -> dict[str, np.ndarray]:
        scores, hidden = self._scores(queries)
        visible = self._visible(hidden, scores.shape, queries.start)
        winner = scores.argmax(axis=2)
        at_winner = winner[:, :, None]
        top = np.take_along_axis(scores, at_winner, axis=2)
        leads = np.subtract(top, scores, out=scores)  # infinite where hidden
        np.put_along_axis(leads, at_winner, np.inf, axis=2)
        gap = leads.min(axis=2)
        error = self._gap_error(gap, top[:, :, 0], queries)
        apart = self.keys.squares_from(winner, leads.shape[2])
        wall, neighbour = nearest_walls(self.keys, self.k, apart, leads, winner, error)
        spreads = self._spreads(apart, winner, hidden, queries)
        contest = {"winner": winner, "gap": gap, "gap_error": error, "visible": visible}
        walls = {"wall": _divided_down(wall, self.given.scale), "neighbour": neighbour}
        return contest | walls | spreads | self._actual(leads, winner, visible)

    def _scores(self, queries: slice) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores with their bias, -inf where a key is hidden; and `_hidden`."""
        given = self.given
        seen = queries.stop if given.causal else given.keys  # causal: only keys so far
        with np.errstate(under="ignore"):
            scores = self.q[:, queries] @ self.k[:, :seen].swapaxes(1, 2)
        hidden = self._hidden(queries, seen)
        if given.bias is not None:
            scores += given.take_grid(given.bias, self.place, queries, seen)
        if hidden is not None:
            scores += hidden
        return scores, hidden

    def _hidden(self, queries: slice, seen: int) -> np.ndarray | None:
        """-inf where a key is hidden and 0 elsewhere: to add is faster than to replace."""
        given, parts = self.given, []
        if given.causal:
            later = np.arange(seen) > np.arange(queries.start, queries.stop)[:, None]
            parts.append(later[None])
        if given.mask is not None:
            parts.append(~given.take_grid(given.mask, self.place, queries, seen))
        if given.bias is not None:
            parts.append(given.take_grid(given.bias, self.place, queries, seen) == -np.inf)
        parts = [part for part in parts if part.any()]
        if not parts:
            return None
        return np.where(functools.reduce(np.logical_or, parts), -np.inf, 0.0)

    def _visible(self, hidden: np.ndarray | None, shape: tuple[int, ...], first: int) -> np.ndarray:
        if hidden is None:
            return np.full(shape[:2], shape[2])
        # a table shared by all keys that hides one hides all, and is refused here
        count = np.broadcast_to(np.count_nonzero(hidden == 0.0, axis=2), shape[:2])
        if not count.all():
            head, query = (int(i) for i in np.argwhere(count == 0)[0])
            raise ShapeError(
                f"Query {query + first} of head {head + self.place.start} sees no key through its "
                f"mask and bias. Leave it out, or let it see one."
            )
        return count

    def _gap_error(self, gap: np.ndarray, top: np.ndarray, queries: slice) -> np.ndarray:
        """How far the gap may be off: the lemma in `Stability.gap_error`."""
        stray, finite = self.stray[:, queries], np.where(np.isinf(gap), 0.0, gap)
        rounded = finite
        if self.given.bias is not None:  # the winner's sum with its bias, and the runner-up's
            rounded = finite + np.where(stray > 0.0, 2.0 * np.abs(top) + finite, 0.0)
        return np.where(np.isinf(gap), 0.0, inflate(2.0 * stray + UNIT * rounded))

    def _spreads(
        self, apart: np.ndarray, winner: np.ndarray, hidden: np.ndarray | None, queries: slice
    ) -> dict[str, np.ndarray]:
        """Radius about the winner and diameter, of keys and of values, rounded up.

        `apart` are the keys' squared distances to the winner's.
        """
        spreads = {}
        values = self.values.squares_from(winner, apart.shape[2])
        for name, cloud, squares, diameter in (
            ("key", self.keys, apart, self.key_diameter),
            ("value", self.values, values, self.value_diameter),
        ):
            np.put_along_axis(squares, winner[:, :, None], 0.0, axis=2)
            if hidden is not None:
                squares += hidden
            radius = cloud.length(squares.max(axis=2))
            widest = diameter[:, queries] if self.given.causal else diameter
            spreads[f"{name}_radius"] = np.minimum(radius, widest)
            with np.errstate(over="ignore"):
                spreads[f"{name}_diameter"] = np.minimum(widest, 2.0 * radius)
        return spreads

    def _actual(
        self, leads: np.ndarray, winner: np.ndarray, visible: np.ndarray
    ) -> dict[str, np.ndarray]:
        """The weights as they are, in place of `leads`; the winner's own power, 1, is left out."""
        powers = _powers(leads, self.coldness[:, :, None])
        others = powers.sum(axis=2)
        total = 1.0 + others
        points = self.values.points[:, : powers.shape[2]]
        drawn = powers @ points
        drawn -= others[:, :, None] * np.take_along_axis(points, winner[:, :, None], axis=1)
        away = np.sqrt(np.einsum("hqe,hqe->hq", drawn, drawn)) / total
        even = np.minimum(powers, (total / visible)[:, :, None], out=powers).sum(axis=2)
        return {
            "weight_actual": others / total,
            "output_actual": self.values.in_own_units(away),
            "from_uniform": np.maximum(1.0 - 1.0 / visible - even / total, 0.0),
        }


def _stray(
    q: np.ndarray, k: np.ndarray, bias: np.ndarray | None, asked: np.ndarray, scale: float
) -> np.ndarray:
    """How far each query's scores may be off, heads x queries.

    A sum of `width` products of keys with a query times the scale has at most width + 1 roundings
    of sizes that add up to |q||k| at most (Cauchy and Schwarz). A square that underflows loses the
    smallest number, so a norm at most width times its root; a product loses that number itself,
    and so may a query times the scale, times the key. Nothing is lost if
    all numbers are coarse, such as codes and flags, and the scale a power of 2, or if the query as
    it was `asked` or k is 0.
    """
    heads, queries, width = q.shape
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        size = np.sqrt(np.einsum("hqd,hqd->hq", q, q))
        size = size * np.sqrt(np.einsum("hkd,hkd->hk", k, k)).max(axis=1)[:, None]
    if not (size <= _LARGEST_SCORE).all():
        raise ShapeError("The scores are too large for float64: scale queries or keys down.")
    shifts = () if bias is None else (bias[bias > -np.inf],)
    if any(np.abs(one).max(initial=0.0) > _LARGEST_BIAS for one in shifts):
        raise ShapeError("The biases are too large for float64: scale them down below 1e300.")
    lossless = bool(is_power_of_two(np.array(scale))) and bool((q / scale == asked).all())
    if lossless and width < 2**20 and all(is_coarse(numbers) for numbers in (q, k, *shifts)):
        return np.zeros((heads, queries))
    q_size = np.abs(q).max(axis=2, initial=0.0)
    k_size = np.abs(k).max(axis=(1, 2), initial=0.0)[:, None]
    size = size + width * math.sqrt(TINY) * (q_size + k_size + math.sqrt(TINY))
    lost = inflate(width * TINY * (k_size + 1.0))
    nothing = (np.abs(asked).max(axis=2, initial=0.0) == 0.0) | (k_size == 0.0)
    return np.where(nothing, 0.0, inflate(gamma(width + 1) * size, width + 6) + lost)


def _divided_down(wall: np.ndarray, scale: float) -> np.ndarray:
    """From below, and infinite where there is no wall."""
    with np.errstate(over="ignore", under="ignore"):
        return np.where(np.isinf(wall), wall, np.maximum(down(wall / scale), 0.0))


def _only_seen(given: AttentionProblems, place: slice) -> tuple[np.ndarray, np.ndarray]:
    """Keys and values; those that no query of their head sees stand where the first seen one is.

    Padding may hold anything: it must not decide how widely the seen ones are rounded.
    """
    k, v = given.take_heads("k", place), given.take_heads("v", place)
    if given.mask is None:
        return k, v
    mask = given.take_grid(given.mask, place, slice(None), given.keys)
    seen = np.broadcast_to(mask.any(axis=1), k.shape[:2])
    first = np.where(seen, np.arange(given.keys), seen.argmax(axis=1)[:, None])[:, :, None]
    return np.take_along_axis(k, first, axis=1), np.take_along_axis(v, first, axis=1)


def _powers(leads: np.ndarray, coldness: np.ndarray) -> np.ndarray:
    """e^{-beta lead}; a hard head gives 1 to the ties of its winner and 0 to all others."""
    hard = np.isinf(coldness)
    with np.errstate(under="ignore", over="ignore"):
        if not hard.any():
            np.multiply(leads, -coldness, out=leads)
            return np.exp(leads, out=leads)
        return np.where(hard, leads == 0.0, np.exp(leads * -np.where(hard, 1.0, coldness)))
