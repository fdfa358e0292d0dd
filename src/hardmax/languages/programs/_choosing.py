"""Selections as tables: which numbers there go with which numbers here, part by part.

A conjunct compares one value there with one value here, as a table of truth. A selection becomes
disjoint parts, each a conjunction of such tables: "a or b" is a, and b without a; so counts over
the parts add up. Where one part is needed, or parts are too many, values are compared jointly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

Pair = tuple[int | None, int | None]  # steps: the key there, the query here; None if there is none
Part = dict[Pair, np.ndarray]  # all of its tables (keys x queries) have to hold
MOST_PARTS = 8


@dataclass(frozen=True, eq=False)
class Conjunct:
    """A table of truth between a value there and a value here; a missing side has one row."""

    key: int | None
    query: int | None
    table: np.ndarray


def always() -> list[Part]:
    return [{}]


def both(first: list[Part], second: list[Part]) -> list[Part]:
    """Parts of "and": all pairs of parts, with tables of the same values met."""
    joined = []
    for a in first:
        for b in second:
            part = dict(a)
            for pair, table in b.items():
                part[pair] = part[pair] & table if pair in part else table
            joined.append(part)
    return [part for part in map(_simplify, joined) if part is not None]


def opposite(parts: list[Part]) -> list[Part]:
    """Parts of "not": not a, or a and not b, for the tables a, b, ... of each part."""
    found = always()
    for part in parts:
        against: list[Part] = []
        met: Part = {}
        for pair, table in part.items():
            against += both([dict(met)], [{pair: ~table}])
            met[pair] = table
        found = both(found, against)
    return found


def either(lists: Sequence[list[Part]]) -> list[Part]:
    """Parts of "or": those of the first, and those of the next without what was before."""
    found: list[Part] = []
    for parts in lists:
        found = found + both(opposite(found), parts) if found else list(parts)
    return found


def _simplify(part: Part) -> Part | None:
    """Tables of one side join one of both; what always holds goes, what never does ends it."""
    kept = {pair: table for pair, table in part.items() if None not in pair}
    for (key, query), table in part.items():
        if key is not None and query is not None:
            continue
        side = 0 if query is None else 1
        wider = next((p for p in kept if None not in p and p[side] == (key, query)[side]), None)
        if wider is None:
            kept[key, query] = table
        else:
            kept[wider] = kept[wider] & table
    if not all(table.any() for table in kept.values()):
        return None
    return {pair: table for pair, table in kept.items() if not table.all()}


def conjuncts_of(part: Part) -> tuple[Conjunct, ...]:
    return tuple(Conjunct(key, query, table) for (key, query), table in part.items())


def relation_of(
    parts: Sequence[Part], keys: Sequence[int], queries: Sequence[int], place: Callable
) -> Callable[..., bool]:
    """Whether some part holds for numbers of the keys and then of the queries.

    `place(step)` is the table from a step's numbers to their places.
    """
    own = {step: (i, place(step)) for i, step in enumerate(keys)}
    asked = {step: (i + len(keys), place(step)) for i, step in enumerate(queries)}

    def looked_up(part: Part) -> list:
        return [
            (
                table.tolist(),
                None if key is None else own[key],
                None if query is None else asked[query],
            )
            for (key, query), table in part.items()
        ]

    listed = [looked_up(part) for part in parts]

    def holds(*numbers: object) -> bool:
        return any(
            all(
                table[0 if k is None else k[1][numbers[k[0]]]][
                    0 if q is None else q[1][numbers[q[0]]]
                ]
                for table, k, q in part
            )
            for part in listed
        )

    return holds
