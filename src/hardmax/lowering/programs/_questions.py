"""What a selection asks: which places (by index), and which of the values held there.

The two are told apart because order on the index is a mask, which costs nothing, while anything
else is a relation between finitely many keys and queries, here a table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._errors import RequestError, SemanticsError
from hardmax.core import Words
from hardmax.languages.programs import (
    Aggregated,
    Code,
    Given,
    Item,
    Selection,
    Value,
    conjuncts,
    evaluate_pointwise,
    keys_and_queries,
    roots_of,
    selects,
    step_text,
)

MOST_PAIRS = 2**20  # of keys and queries


@dataclass(frozen=True, eq=False)
class SelectionQuestion:
    """Here at index i, which j there with which keys: mask[i, j] and holds[keys, queries]."""

    mask: np.ndarray
    keys: tuple[Value, ...]
    queries: tuple[Value, ...]
    holds: np.ndarray  # key items x query items, flattened
    parts: tuple[Selection, ...] = ()  # of which all must hold: all that it asks, if there are any

    @property
    def is_about_keys(self) -> bool:
        """Whether everybody asks for the same keys."""
        return bool((self.holds == self.holds[:, :1]).all())

    @property
    def wants_all(self) -> bool:
        return bool(self.holds.all())

    @property
    def is_reflexive(self) -> bool:
        """Whether everybody selects itself."""
        same = same_values(self.keys, self.queries)
        return (same and bool(np.diagonal(self.holds).all())) or self.wants_all

    @property
    def is_irreflexive(self) -> bool:
        same = same_values(self.keys, self.queries)
        return same and not np.diagonal(self.holds).any()

    @cached_property
    def order(self) -> str:
        """The mask by name: all, causal, before, at most one, or any."""
        n = len(self.mask)
        known = {
            "all": np.ones((n, n), dtype=bool),
            "causal": np.tri(n, dtype=bool),
            "before": np.tri(n, k=-1, dtype=bool),
            "after": ~np.tri(n, dtype=bool),
            "from here": ~np.tri(n, k=-1, dtype=bool),
            "elsewhere": ~np.eye(n, dtype=bool),
            "here": np.eye(n, dtype=bool),
        }
        for name, mask in known.items():
            if (self.mask == mask).all():
                return name
        return "one" if (self.mask.sum(axis=1) <= 1).all() else "any"

    def classes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Keys and queries by behaviour: their classes, and the relation between classes."""
        rows, key_class = np.unique(self.holds, axis=0, return_inverse=True)
        table, query_class = np.unique(rows, axis=1, return_inverse=True)
        return key_class.reshape(-1), query_class.reshape(-1), table


def ask(value: Aggregated, words: Words, codes: Mapping[Value, Code]) -> SelectionQuestion:
    """The question behind an aggregate."""
    parts = conjuncts(value.selection)
    by_index = [part for part in parts if _is_about_index(part)]
    others = [part for part in parts if not _is_about_index(part)]
    mask = np.ones((words.longest, words.longest), dtype=bool)
    for part in by_index:
        mask &= _mask(part, words.longest)
    keys: dict[Value, None] = {}
    queries: dict[Value, None] = {}
    for part in others:
        own, asked = keys_and_queries(part)
        keys |= dict.fromkeys(own)
        queries |= dict.fromkeys(asked)
    read = value.value
    may_be_nothing = read is not None and None in codes[read].items
    if read is not None and may_be_nothing:
        keys.setdefault(read, None)
    holds = _table(value, others, list(keys), list(queries), codes)
    alone = () if may_be_nothing else tuple(others)
    return SelectionQuestion(mask, tuple(keys), tuple(queries), holds, alone)


def part_of(
    question: SelectionQuestion, part: Selection, codes: Mapping[Value, Code]
) -> SelectionQuestion:
    """The question that one of several conditions asks by itself."""
    keys, queries = keys_and_queries(part)
    alone = Aggregated(part, "count", None)
    holds = _table(alone, [part], keys, queries, codes)
    return SelectionQuestion(question.mask, tuple(keys), tuple(queries), holds)


def compares_jointly(value: Value) -> bool:
    """Whether a value aggregates over places that meet several conditions on what they hold."""
    if not isinstance(value, Aggregated):
        return False
    return sum(not _is_about_index(part) for part in conjuncts(value.selection)) > 1


def _is_about_index(part: Selection) -> bool:
    keys, queries = keys_and_queries(part)
    roots = [root for value in (*keys, *queries) for root in roots_of(value)]
    return all(isinstance(root, Given) and root.what == "index" for root in roots)


def _mask(part: Selection, longest: int) -> np.ndarray:
    keys, queries = keys_and_queries(part)
    there = [_at_index(keys, j) for j in range(longest)]
    here = [_at_index(queries, i) for i in range(longest)]
    return np.array([[selects(part, key, query) for key in there] for query in here])


def _at_index(values: Sequence[Value], index: int) -> dict[Value, Item]:
    held = {}
    for value in values:
        given: dict[Value, Item] = dict.fromkeys(roots_of(value), index)
        held[value] = evaluate_pointwise(value, given)
    return held


def _table(
    value: Aggregated,
    parts: list[Selection],
    keys: list[Value],
    queries: list[Value],
    codes: Mapping[Value, Code],
) -> np.ndarray:
    sizes = [[len(codes[one].items) for one in side] for side in (keys, queries)]
    if math.prod(sizes[0]) * math.prod(sizes[1]) > MOST_PAIRS:
        raise RequestError(
            f"The selection of {step_text(value)} compares {math.prod(sizes[0]):,} keys with "
            f"{math.prod(sizes[1]):,} queries, which is too many to compile. Shorten the words, or "
            f"map what it compares to fewer values first."
        )
    there = _combinations(keys, codes)
    here = _combinations(queries, codes)
    read = value.value
    table = np.ones((len(there), len(here)), dtype=bool)
    for row, key in enumerate(there):
        if read in key and key[read] is None:
            table[row] = False
            continue
        for column, query in enumerate(here):
            table[row, column] = _all_select(parts, key, query)
    return table


def _all_select(
    parts: list[Selection], key: Mapping[Value, Item], query: Mapping[Value, Item]
) -> bool:
    try:
        return all(selects(part, key, query) for part in parts)
    except SemanticsError:
        return False  # these may never come together; if they do, the interpreter says so


def _combinations(values: Sequence[Value], codes: Mapping[Value, Code]) -> list[dict[Value, Item]]:
    lists = itertools.product(*(codes[value].items for value in values))
    return [dict(zip(values, items, strict=True)) for items in lists]


def same_values(some: Sequence[Value], others: Sequence[Value]) -> bool:
    """Whether these are the same objects: values have no other identity."""
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))
