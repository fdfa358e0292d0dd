"""What was found for every query, and what follows from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax.geometry.temperature._curvature import jacobian_bound
from hardmax.geometry.temperature._given import check_tolerance
from hardmax.geometry.temperature._lemmas import (
    output_bound,
    temperature_for_outputs,
    temperature_for_weights,
    weight_bound,
)
from hardmax.numerics import FLOAT64, down, frozen_array, inflate

if TYPE_CHECKING:
    from hardmax.geometry.temperature._report import StabilityReport

TOLERANCE = 0.01
SHARE = 0.95


@dataclass(frozen=True, eq=False)
class Stability:
    """For every query: who wins, by how much, and how far softmax is from that.

    All arrays have one shape, (queries,) with heads and batches in front. Names that end in
    `bound` are guaranteed by the gap alone and rounded up; those that end in `actual` belong to
    the weights as they are. Distances of outputs are Euclidean, of Jacobians spectral.

    gap_error: the true gap is at least gap - gap_error. Each score is a sum of `width` products,
    off by gamma_{width+1} |q||k| at most, whatever the order of summation; a bias costs one more
    rounding of the score, and the difference of the two scores one of the gap.

    >>> hm.stability_of([[1.0]], [[2.0], [0.0]], [[0.0], [1.0]]).gap
    array([2.])
    """

    winner: np.ndarray  # the first of the largest scores
    gap: np.ndarray  # its score minus the runner-up's; infinite if it is alone
    gap_error: np.ndarray  # what rounding may have added to the gap
    visible: np.ndarray  # how many keys the query sees: N
    wall: np.ndarray  # distance to the nearest wall of its cell, rounded down; may be infinite
    neighbour: np.ndarray  # the key behind that wall; -1 without a wall
    key_radius: np.ndarray  # the largest distance of a visible key to the winner's
    key_diameter: np.ndarray  # of two visible keys; an upper bound if the mask is irregular
    value_radius: np.ndarray
    value_diameter: np.ndarray
    weight_actual: np.ndarray  # 1 minus the winner's weight
    output_actual: np.ndarray  # distance of the output to the winner's value
    from_uniform: np.ndarray  # total variation between the weights and the uniform ones
    coldness: np.ndarray  # 1/temperature; infinite for a hard head
    scale: float = 1.0

    def __post_init__(self) -> None:
        shape = np.shape(self.winner)
        for name in (*FIELDS, "coldness"):
            array = np.asarray(getattr(self, name))
            if array.shape != shape:
                raise ShapeError(f"{name} must have shape {shape}, but it is {array.shape}.")
            object.__setattr__(self, name, frozen_array(array))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.winner.shape

    @cached_property
    def certain_gap(self) -> np.ndarray:
        """What is left of the gap after rounding; every bound is made from it. May be < 0."""
        return np.where(self.gap_error == 0.0, self.gap, down(self.gap - self.gap_error))

    @property
    def tied(self) -> np.ndarray:
        """Where the winner is not certain: a tie, or nearer to one than rounding can tell."""
        return self.certain_gap <= 0.0

    @property
    def temperature(self) -> np.ndarray:
        """0 for a hard head."""
        return 1.0 / self.coldness

    @cached_property
    def weight_bound(self) -> np.ndarray:
        """The most weight that can lie outside the winner."""
        return weight_bound(self.certain_gap, self.visible, self.coldness)

    @cached_property
    def output_bound(self) -> np.ndarray:
        """The largest distance of the soft output to the winner's value."""
        return output_bound(self.certain_gap, self.visible, self.coldness, self.value_radius)

    @cached_property
    def jacobian_bound(self) -> np.ndarray:
        """The largest norm of the output's derivative in the query; the hard head's is 0."""
        return self._jacobian(self.weight_bound)

    @cached_property
    def jacobian_from_weights(self) -> np.ndarray:
        """The same from the weights as they are: never above `jacobian_bound`.

        A sum of N powers e^{-beta lead}, whose leads are off by `gap_error`, is off by a factor
        e^{beta gap_error} and N + 2000 roundings: two exponents of up to 745 carry u each, and both
        exponentials their own. Powers may have vanished.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            blur = np.where(self.gap_error == 0.0, 1.0, np.exp(self.coldness * self.gap_error))
            safe = inflate(self.weight_actual * blur, int(self.visible.max(initial=1)) + 2000)
        lost = inflate(FLOAT64.vanished * self.visible)
        return self._jacobian(np.fmin(safe + lost, self.weight_bound))

    def _jacobian(self, loser_weight: np.ndarray) -> np.ndarray:
        return jacobian_bound(
            loser_weight,
            self.coldness,
            values=(self.value_radius, self.value_diameter),
            keys=(self.key_radius, self.key_diameter),
            scale=self.scale,
        )

    def temperature_needed(self, tolerance: float = TOLERANCE) -> np.ndarray:
        """Up to which temperature at most `tolerance` of the weight lies outside the winner."""
        return temperature_for_weights(check_tolerance(tolerance), self.certain_gap, self.visible)

    def temperature_for_error(self, error: float) -> np.ndarray:
        """Up to which temperature the output is guaranteed within `error` of the winner's value."""
        return temperature_for_outputs(
            _check_error(error), self.certain_gap, self.visible, self.value_radius
        )

    def critical_coldness(self, error: float, share: float = 1.0) -> float:
        """The least coldness that guarantees the error for this share of all queries.

        The guarantee of a query holds from the coldness 1/`temperature_for_error` on, so the
        answer is the ceil(share n)-th smallest of these. Infinite if ties stand in the way.
        """
        with np.errstate(divide="ignore", over="ignore"):
            needed = inflate(1.0 / self.temperature_for_error(error), 2)
        return at_most(needed, share)

    @property
    def heads(self) -> tuple[Stability, ...]:
        """One value for each head (the last axis before the queries), batches one after another."""
        if len(self.shape) == 1:
            return (self,)
        return tuple(self.of_head(head) for head in range(self.shape[-2]))

    def of_head(self, head: int) -> Stability:
        return self._each(lambda array: array[..., head, :].ravel())

    def taken(self, order: np.ndarray) -> Stability:
        """Some queries of one row, in this order."""
        return self._each(lambda array: array[order])

    def _each(self, change: Callable[[np.ndarray], np.ndarray]) -> Stability:
        arrays = {name: change(getattr(self, name)) for name in (*FIELDS, "coldness")}
        return Stability(**arrays, scale=self.scale)

    @classmethod
    def joined(cls, parts: Iterable[Stability]) -> Stability:
        """Several one after another, as one row of queries."""
        all_parts = list(parts)
        arrays = {
            name: np.concatenate([getattr(part, name).ravel() for part in all_parts])
            for name in (*FIELDS, "coldness")
        }
        return cls(**arrays, scale=all_parts[0].scale)

    def report(self, tolerance: float = TOLERANCE) -> StabilityReport:
        """Which heads are effectively hard, soft or uniform, as a table."""
        from hardmax.geometry.temperature._report import StabilityReport

        return StabilityReport.of_arrays(self, tolerance)

    def as_dict(self) -> dict[str, Any]:
        return self.report().as_dict()

    def __str__(self) -> str:
        return str(self.report())

    def __repr__(self) -> str:
        return f"Stability({' x '.join(map(str, self.shape))} queries, scale {self.scale:g})"

    def _repr_html_(self) -> str:
        return self.report()._repr_html_()


FIELDS = tuple(f.name for f in fields(Stability) if f.name not in ("coldness", "scale"))


def at_most(numbers: np.ndarray, share: float = SHARE) -> float:
    """The least number that this share of all numbers does not exceed."""
    if not 0.0 < share <= 1.0:
        raise RequestError(f"A share lies above 0 and at most at 1, but it is {share!r}.")
    rank = max(1, math.ceil(down(float(share * numbers.size))))
    return float(np.partition(numbers.ravel(), rank - 1)[rank - 1])


def at_least(numbers: np.ndarray, share: float = SHARE) -> float:
    """The largest number that this share of all numbers reaches."""
    return -at_most(-numbers, share)


def _check_error(error: float) -> float:
    if not 0.0 < error < np.inf:
        raise RequestError(f"The error must be a finite number > 0, but it is {error!r}.")
    return float(error)
