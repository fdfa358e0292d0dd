"""Selections as heads: scores that are 1 where a position is selected, and at most 0 elsewhere.

Theorem 1 (pattern). A conjunct is a table R between a key and a query that are held one-hot, so
that k R q is 1 or 0. The sum of m conjuncts less m - 1 is 1 where all hold, and <= 0 elsewhere. The
start token's score is s for every query. With L symbols and coldness b:
- s = 1/2: if w >= 1 positions are selected, all others together have at most
  ((L - w) e^-b + e^(-b/2))/w of the weight, and each selected one 1/w less a w-th of that; if none
  is, all symbols have at most L e^(-b/2). So a row is within L e^(-b/2) of what it is meant to be.
- s = 1: start and selected share equally, 1/(1 + w) each, but for at most L e^-b.
Proof: weights are proportional to e^(b score); divide by the largest. At the start token's own row
scores of symbols are <= 0 as well, and it attends to itself but for L e^(-b s).

Extremes add the rank 0 <= r < M of what is held to M times the score, M being a power of two; the
start token has M - 1/2. Selected ones have M + r >= M, others at most M - 1: of two neighbours the
better one wins by 1/2. Products with M round nothing, and M times what is asked, plus r, rounds
once: then positions that hold the same have the same score, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hardmax.languages.programs import Conjunct
from hardmax.lowering.programs.legible._sheet import ONE, START, Row, added

Items = Callable[[int], list[Row]]  # the coordinates that are 1 for each item of a step


def scores_of(
    conjuncts: Sequence[Conjunct],
    items: Items,
    start: float,
    *,
    scale: float = 1.0,
    ranks: Row | None = None,
    strays: Callable[[int], bool] = lambda step: False,
) -> list[tuple[Row, Row]]:
    """The pairs of linear forms whose products add up to the score; `ranks` are added to it.

    Beside one query that strays, the other conjuncts take 1 away where they do not hold, in place
    of adding 1 where they do: where all hold, that one is added to the rank and nothing else.
    """
    pairs, base, asks_nobody = [], [], True
    turned = _turned(conjuncts, items, strays)
    for one in conjuncts:
        weight = scale
        if any(one is other for other in turned):
            one, weight = replace(one, table=~one.table), -scale
        if one.query is None:
            base.append((weight, _those(one, items)))
            continue
        asks_nobody = False
        if one.key is None:
            asked = added((1.0, row) for row, ok in _listed(items(one.query), one.table[0]) if ok)
            pairs.append((asked, {ONE: weight, START: -weight}))
        else:
            pairs += _table(one.table, items(one.key), items(one.query), weight)
    base.append((-scale * (len(conjuncts) - len(turned) - 1), {ONE: 1.0, START: -1.0}))
    base.append((1.0, ranks or {}))
    own = added(base)
    if asks_nobody and own:  # at the start token nothing is asked, and symbols might win there
        pairs.append(({ONE: 1.0, START: -1.0}, own))
        pairs.append(({ONE: 1.0}, {START: start}))
    else:
        pairs.append(({ONE: 1.0}, added([(1.0, own), (1.0, {START: start})])))
    return pairs


def _turned(
    conjuncts: Sequence[Conjunct], items: Items, strays: Callable[[int], bool]
) -> list[Conjunct]:
    """The conjuncts beside the only one whose query strays, if all their items have coordinates."""
    loose = [one for one in conjuncts if one.query is not None and strays(one.query)]
    rest = [one for one in conjuncts if all(one is not other for other in loose)]
    sides = [side for one in rest for side in (one.key, one.query) if side is not None]
    return rest if len(loose) == 1 and all(map(all, map(items, sides))) else []


def _those(one: Conjunct, items: Items) -> Row:
    """1 for the items there that hold by themselves."""
    if one.key is None:
        return {ONE: 1.0, START: -1.0} if one.table[0, 0] else {}
    return added((1.0, row) for row, ok in _listed(items(one.key), one.table[:, 0]) if ok)


def _listed(rows: list[Row], truth: np.ndarray) -> list[tuple[Row, bool]]:
    return list(zip(rows, truth.tolist(), strict=True))


def _table(
    table: np.ndarray, keys: list[Row], queries: list[Row], scale: float
) -> list[tuple[Row, Row]]:
    """A product for each different row of the table, or column if these are fewer."""
    by_key, by_query = _classes(table), _classes(table.T)
    if len(by_key) <= len(by_query):
        return [
            (
                added((1.0, queries[q]) for q in np.flatnonzero(row)),
                added((scale, keys[k]) for k in members),
            )
            for row, members in by_key
        ]
    return [
        (
            added((1.0, queries[q]) for q in members),
            added((scale, keys[k]) for k in np.flatnonzero(column)),
        )
        for column, members in by_query
    ]


def _classes(table: np.ndarray) -> list[tuple[np.ndarray, list[int]]]:
    """The different rows that are not all false, each with its places."""
    found: dict[bytes, tuple[np.ndarray, list[int]]] = {}
    for place, row in enumerate(table):
        if row.any():
            found.setdefault(row.tobytes(), (row, []))[1].append(place)
    return list(found.values())
