"""Which heads are effectively hard, soft or uniform, as a value that prints."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from hardmax._errors import ShapeError
from hardmax.geometry.temperature._given import check_tolerance, coldness_of
from hardmax.geometry.temperature._lemmas import weight_bound
from hardmax.geometry.temperature._table import (
    FIELDS,
    SHARE,
    TOLERANCE,
    Stability,
    at_least,
    at_most,
)
from hardmax.numerics import frozen_array

_MOST_ROWS = 40
_COLUMNS = (
    ("", "temp"),
    ("gap", ">="),
    ("wall", ">="),
    ("weights", "<="),
    ("", "actual"),
    ("outputs", "<="),
    ("", "actual"),
    ("temp", "needed"),
)
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

    def as_dict(self, tolerance: float, *, queries: bool = True) -> dict[str, Any]:
        record = {
            "sublayer": self.sublayer,
            "head": self.head,
            "step": self.step,
            "kind": str(self.kind(tolerance)),
            "queries": self.table.winner.size,
            "tied": int(self.table.tied.sum()),
            "for_share": {k: _number(v) for k, v in self.summary(tolerance).items()},
        }
        if not queries:
            return record
        needed = self.table.temperature_needed(tolerance)
        columns = {name: getattr(self.table, name) for name in (*FIELDS, *_DERIVED)}
        columns |= {"input": self.inputs, "token": self.tokens, "temperature_needed": needed}
        return record | {"each": {name: _numbers(array) for name, array in columns.items()}}


@dataclass(frozen=True, eq=False)
class StabilityReport:
    """The stability of several heads, with the tolerance that says what counts as hard."""

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
        return self._pooled.critical_coldness(error, share)

    @property
    def tied(self) -> int:
        """How many winners are not certain."""
        return sum(int(head.table.tied.sum()) for head in self.heads)

    @property
    def queries(self) -> int:
        return sum(head.table.winner.size for head in self.heads)

    @property
    def _pooled(self) -> Stability:
        return Stability.joined([head.table for head in self.heads])

    def as_dict(self, *, queries: bool = True) -> dict[str, Any]:
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

    def headline(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self._counts().items())
        heads = f"{len(self.heads)} head{'s' * (len(self.heads) != 1)}"
        ties = f"; winner uncertain for {self.tied:,}" if self.tied else ""
        return f"{heads}, {self.queries:,} queries: {counts} at tolerance {self.tolerance:g}{ties}"

    def rows(self) -> list[list[str]]:
        """One row a head: name, kind, then a number for every column."""
        rows = []
        for head in self.heads[:_MOST_ROWS]:
            summary = head.summary(self.tolerance)
            shown = [value for name, value in summary.items() if name != "jacobian_bound"]
            rows.append([head.name, str(head.kind(self.tolerance)), *map(_shown, shown)])
        return rows

    def __str__(self) -> str:
        """At most 80 columns wide."""
        over, under = (["", *names] for names in zip(("", ""), *_COLUMNS, strict=True))
        over[0], under[0], under[1] = "", "head", "kind"
        lines = [_line(row) for row in (over, under, *self.rows())]
        more = len(self.heads) - _MOST_ROWS
        if more > 0:
            lines.append(f"and {more} more heads; as_dict() has all")
        told = f"each number holds for {SHARE:.0%} of the head's queries"
        return "\n".join([self.headline(), told, "", *lines])

    def __repr__(self) -> str:
        return f"StabilityReport({self.headline()})"

    def _repr_html_(self) -> str:
        names = ["head", "kind", *(" ".join(filter(None, pair)) for pair in _COLUMNS)]
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
            for row in self.rows()
        )
        return f"<p>{html.escape(self.headline())}</p><table><tr>{head}</tr>{body}</table>"


def _line(cells: list[str]) -> str:
    words = f"{cells[0]:<6} {cells[1]:<7}"
    return (words + "".join(f"{cell:>8}" for cell in cells[2:])).rstrip()


def _shown(number: float) -> str:
    if number == math.inf:
        return "any"
    return "<1e-99" if 0.0 < number < 1e-99 else f"{number:.2g}"


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _numbers(array: np.ndarray) -> list[Any]:
    if array.dtype.kind != "f":
        return array.tolist()
    finite = np.isfinite(array)
    return array.tolist() if finite.all() else [_number(value) for value in array.tolist()]
