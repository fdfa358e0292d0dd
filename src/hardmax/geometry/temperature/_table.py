"""What was found for every query, what follows from it, and what that makes of each head."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import Enum
from functools import cached_property

import numpy as np

from hardmax._errors import RequestError, ShapeError
from hardmax._shown import Shown
from hardmax.geometry.temperature._curvature import jacobian_bound
from hardmax.geometry.temperature._given import check_tolerance, coldness_of
from hardmax.geometry.temperature._lemmas import (
    output_bound,
    temperature_for_outputs,
    temperature_for_weights,
    weight_bound,
)
from hardmax.geometry.temperature._report import (
    MOST_ROWS,
    column_names,
    number_text,
    plain_number,
    plain_numbers,
    table_lines,
)
from hardmax.numerics import FLOAT64, down, frozen_array, inflate

TOLERANCE = 0.01
SHARE = 0.95


@dataclass(frozen=True, eq=False)
class Stability(Shown):
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
        return StabilityReport.of_arrays(self, tolerance)

    def as_dict(self) -> dict[str, object]:
        return self.report().as_dict()

    def __str__(self) -> str:
        return str(self.report())

    def __repr__(self) -> str:
        return f"Stability({' x '.join(map(str, self.shape))} queries, scale {self.scale:g})"


FIELDS = tuple(f.name for f in fields(Stability) if f.name not in ("coldness", "scale"))
_DERIVED = ("weight_bound", "output_bound", "jacobian_bound", "jacobian_from_weights")


class Kind(Enum):
    """What a head effectively does. Queries that see one key only decide nothing."""

    HARD = "The winner has at least 1 - tolerance of the weight, for 95% of the queries."
    UNIFORM = "The weights are within the tolerance of uniform ones, for 95% of the queries."
    SOFT = "Neither hard nor uniform."

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class HeadStability:
    """One head: what was found for each query, and to which input and token it belongs."""

    sublayer: int | None  # None for bare arrays
    head: int
    inputs: np.ndarray  # for each query the number of its input
    tokens: np.ndarray  # and of its token
    table: Stability
    step: str = ""  # what the head is for, if a legend says so

    def __post_init__(self) -> None:
        for name in ("inputs", "tokens"):
            array = np.asarray(getattr(self, name))
            if array.shape != self.table.shape or array.ndim != 1:
                raise ShapeError(
                    f"{name} must be one row of {self.table.winner.size} numbers, but its shape "
                    f"is {array.shape}."
                )
            object.__setattr__(self, name, frozen_array(array))

    @property
    def name(self) -> str:
        """Sublayer and head, as in 2.5; for bare arrays the head alone."""
        return str(self.head) if self.sublayer is None else f"{self.sublayer}.{self.head}"

    def kind(self, tolerance: float = TOLERANCE, share: float = SHARE) -> Kind:
        """By the weights as they are. Hard goes before uniform, where a tolerance allows both."""
        contested = self.table.visible > 1
        if not contested.any():
            return Kind.HARD
        if np.mean(self.table.weight_actual[contested] <= tolerance) >= share:
            return Kind.HARD
        if np.mean(self.table.from_uniform[contested] <= tolerance) >= share:
            return Kind.UNIFORM
        return Kind.SOFT

    def guaranteed_weight(self, temperature: float, share: float = SHARE) -> float:
        """The most weight outside the winner, for this share of the queries, if it were so warm."""
        gap, tokens = self.table.certain_gap, self.table.visible
        return at_most(weight_bound(gap, tokens, coldness_of(temperature)), share)

    def summary(self, tolerance: float, share: float = SHARE) -> dict[str, float]:
        """What holds for this share of the queries, number by number."""
        table = self.table
        return {
            "temperature": float(table.temperature[0]),
            "gap": max(at_least(table.certain_gap, share), 0.0),
            "wall": at_least(table.wall, share),
            "weight_bound": at_most(table.weight_bound, share),
            "weight_actual": at_most(table.weight_actual, share),
            "output_bound": at_most(table.output_bound, share),
            "output_actual": at_most(table.output_actual, share),
            "jacobian_bound": at_most(table.jacobian_bound, share),
            "temperature_needed": at_least(table.temperature_needed(tolerance), share),
        }

    def as_dict(self, tolerance: float, *, queries: bool = True) -> dict[str, object]:
        record: dict[str, object] = {
            "sublayer": self.sublayer,
            "head": self.head,
            "step": self.step,
            "kind": str(self.kind(tolerance)),
            "queries": self.table.winner.size,
            "tied": int(self.table.tied.sum()),
            "for_share": {k: plain_number(v) for k, v in self.summary(tolerance).items()},
        }
        if not queries:
            return record
        needed = self.table.temperature_needed(tolerance)
        columns = {name: getattr(self.table, name) for name in (*FIELDS, *_DERIVED)}
        columns |= {"input": self.inputs, "token": self.tokens, "temperature_needed": needed}
        return record | {"each": {name: plain_numbers(array) for name, array in columns.items()}}


@dataclass(frozen=True, eq=False)
class StabilityReport(Shown):
    """The stability of several heads, with the tolerance that says what counts as hard.

    >>> model = hm.compile("x * y", on="[-1,1]^2", error=1e-2)
    >>> len(hm.stability(model, [[0.5, 0.5]]).heads)
    1
    """

    heads: tuple[HeadStability, ...]
    tolerance: float = TOLERANCE

    def __post_init__(self) -> None:
        check_tolerance(self.tolerance)
        if not self.heads:
            raise ShapeError("A report needs at least one head.")

    @classmethod
    def of_arrays(cls, table: Stability, tolerance: float) -> StabilityReport:
        queries = table.shape[-1]
        batch = int(np.prod(table.shape[:-2], dtype=np.int64))
        inputs, tokens = np.repeat(np.arange(batch), queries), np.tile(np.arange(queries), batch)
        heads = enumerate(table.heads)
        return cls(
            tuple(HeadStability(None, n, inputs, tokens, one) for n, one in heads), tolerance
        )

    def kinds(self) -> dict[str, str]:
        """Which head is what."""
        return {head.name: str(head.kind(self.tolerance)) for head in self.heads}

    def critical_coldness(self, error: float, share: float = 1.0) -> float:
        """The least coldness that guarantees the output error for this share of all queries.

        All heads count together, with the streams held as they are: `Stability.critical_coldness`.
        """
        return self._all_queries.critical_coldness(error, share)

    @property
    def tied(self) -> int:
        """How many winners are not certain."""
        return sum(int(head.table.tied.sum()) for head in self.heads)

    @property
    def queries(self) -> int:
        return sum(head.table.winner.size for head in self.heads)

    @property
    def _all_queries(self) -> Stability:
        return Stability.joined([head.table for head in self.heads])

    def as_dict(self, *, queries: bool = True) -> dict[str, object]:
        """Plain data; infinite numbers become None. With queries=False without each query."""
        return {
            "tolerance": self.tolerance,
            "share": SHARE,
            "queries": self.queries,
            "tied": self.tied,
            "kinds": self._counts(),
            "heads": [head.as_dict(self.tolerance, queries=queries) for head in self.heads],
        }

    def _counts(self) -> dict[str, int]:
        kinds = list(self.kinds().values())
        return {str(kind): kinds.count(str(kind)) for kind in Kind}

    @property
    def columns(self) -> list[str]:
        """What the numbers of `rows` are."""
        return column_names()

    def headline(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self._counts().items())
        heads = f"{len(self.heads)} head{'s' * (len(self.heads) != 1)}"
        ties = f"; winner uncertain for {self.tied:,}" if self.tied else ""
        return f"{heads}, {self.queries:,} queries: {counts} at tolerance {self.tolerance:g}{ties}"

    def rows(self) -> list[list[str]]:
        """One row a head: name, kind, then a number for every column."""
        rows = []
        for head in self.heads[:MOST_ROWS]:
            summary = head.summary(self.tolerance)
            shown = [value for name, value in summary.items() if name != "jacobian_bound"]
            rows.append([head.name, str(head.kind(self.tolerance)), *map(number_text, shown)])
        return rows

    def __str__(self) -> str:
        """At most 80 columns wide."""
        told = f"each number holds for {SHARE:.0%} of the head's queries"
        return "\n".join([self.headline(), told, "", *table_lines(self.rows(), len(self.heads))])

    def __repr__(self) -> str:
        return f"StabilityReport({self.headline()})"


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
