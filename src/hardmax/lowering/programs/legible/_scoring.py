"""Selections as heads: scores that are 1 where a position is selected, and at most 0 elsewhere.

Theorem 1 (pattern). A conjunct is a table R between a key and a query that are held one-hot, so
that k R q is 1 or 0; or a parabola of two numbers, which is 1 or at most 0 (`_styles`). The sum of
m conjuncts less m - 1 is 1 where all hold, and <= 0 elsewhere. A conjunct of places is no product:
where it does not hold, the position bias is -1, or the causal mask hides the position. The start
token's score is s for every query. With L symbols and coldness b:
- s = 1/2: if w >= 1 positions are selected, all others together have at most
  ((L - w) e^-b + e^(-b/2))/w of the weight, and each selected one 1/w less a w-th of that; if none
  is, all symbols have at most L e^(-b/2). So a row is within L e^(-b/2) of what it is meant to be.
- s = 1: start and selected share equally, 1/(1 + w) each, but for at most L e^-b.
Proof: weights are proportional to e^(b score); divide by the largest. At the start token's own row
scores of symbols are <= 0 as well, or hidden, and it attends to itself but for L e^(-b s).

Extremes add the rank 0 <= r < M of what is held to M times the score, M being a power of two; the
start token has M - 1/2. Selected ones have M + r >= M, others at most M - 1: of two neighbours the
better one wins by 1/2. Products with M round nothing, and M times what is asked, plus r, rounds
once: then positions that hold the same have the same score, to the last digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardmax.core import Aggregate
from hardmax.languages.programs import Conjunct
from hardmax.lowering.programs.legible._drawing import Drawing, symbols_only
from hardmax.lowering.programs.legible._sheet import ONE, START, Row, Scores, added
from hardmax.lowering.programs.legible._styles import place_table

Pairs = list[tuple[Row, Row]]


def scores_of(
    drawing: Drawing,
    step: int,
    conjuncts: Sequence[Conjunct],
    start: float,
    *,
    scale: float = 1.0,
    ranks: Row | None = None,
) -> Scores:
    """The linear forms whose products add up to the score, and masks; `ranks` are added to it.

    Beside one query that strays, the other conjuncts take 1 away where they do not hold, in place
    of adding 1 where they do: where all hold, that one is added to the rank and nothing else.
    """
    masked = [one for one in conjuncts if drawing.means.is_masked(one)]
    compared = [one for one in conjuncts if not drawing.means.is_masked(one)]
    pairs: Pairs = []
    base: list[tuple[float, Row]] = []
    turned = _turned(drawing, compared)
    for one in compared:
        if any(one is other for other in turned):
            found, own = _conjunct(drawing, step, replace(one, table=~one.table), -scale)
        else:
            found, own = _conjunct(drawing, step, one, scale)
        pairs += found
        base.append((1.0, own))
    asks_nobody = all(one.query is None for one in compared)
    base.append((1.0, symbols_only(-scale * (len(compared) - len(turned) - 1))))
    base.append((1.0, ranks or {}))
    own = added(base)
    causal, bias = _places(drawing, masked, scale)
    names = _names(drawing, step) if masked else ()
    if bias is not None and not pairs and not own.keys() - {ONE, START}:
        return _by_bias_alone(bias, own, start, names)
    at_start_too = causal or bias is not None or not asks_nobody or not own
    if at_start_too:
        pairs.append(({ONE: 1.0}, added([(1.0, own), (1.0, {START: start})])))
    else:  # at the start token nothing is asked, and symbols might win there
        pairs.append((symbols_only(1.0), own))
        pairs.append(({ONE: 1.0}, {START: start}))
    return Scores(pairs, causal, bias, names)


def _turned(drawing: Drawing, conjuncts: Sequence[Conjunct]) -> list[Conjunct]:
    """The conjuncts beside the only one whose query strays, if all their items have coordinates."""
    means = drawing.means
    loose = [one for one in conjuncts if one.query is not None and means.strays(one.query)]
    if not means.exact_keys or len(loose) != 1:
        return []
    rest = [one for one in conjuncts if one is not loose[0]]
    sides = [side for one in rest for side in (one.key, one.query) if side is not None]
    return rest if all(all(drawing.items(side)) for side in sides) else []


def _conjunct(drawing: Drawing, step: int, one: Conjunct, scale: float) -> tuple[Pairs, Row]:
    """Products, and what is added whatever is asked."""
    if drawing.means.is_parabola(step, one):
        return _parabola(drawing, one, scale)
    if one.query is None:
        return [], added([(scale, _those(drawing, one))])
    queries = drawing.items(one.query)
    if one.key is None:
        asked = added((1.0, row) for row, ok in _listed(queries, one.table[0]) if ok)
        return [(asked, symbols_only(scale))], {}
    return _table(one.table, drawing.items(one.key), queries, scale), {}


def _parabola(drawing: Drawing, one: Conjunct, scale: float) -> tuple[Pairs, Row]:
    """1 - f(a) + 2ab - b^2: two products, and what the key says by itself."""
    assert one.key is not None
    assert one.query is not None
    keys = drawing.closed.numbers[one.key]
    away = added([(1.0, symbols_only(1.0)), (-1.0, drawing.square(one.query, keys))])
    pairs = [
        (drawing.number(one.query), added([(2.0 * scale, drawing.number(one.key))])),
        (away, symbols_only(scale)),
    ]
    return pairs, added([(-scale, drawing.square(one.key, keys))])


def _those(drawing: Drawing, one: Conjunct) -> Row:
    """1 for the items there that hold by themselves."""
    if one.key is None:
        return symbols_only(1.0) if one.table[0, 0] else {}
    rows = drawing.items(one.key)
    return added((1.0, row) for row, ok in _listed(rows, one.table[:, 0]) if ok)


def _listed(rows: list[Row], truth: np.ndarray) -> list[tuple[Row, bool]]:
    return list(zip(rows, truth.tolist(), strict=True))


def _table(table: np.ndarray, keys: list[Row], queries: list[Row], scale: float) -> Pairs:
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


# ---- masks ---------------------------------------------------------------------------------------


def _places(
    drawing: Drawing, masked: Sequence[Conjunct], scale: float
) -> tuple[bool, np.ndarray | None]:
    """A causal mask if the places here and there go together as it says; a bias for any others.

    At the start token's own row all symbols are a selection below it.
    """
    if not masked:
        return False, None
    n = drawing.words.longest
    sides = {side for one in masked for side in (one.key, one.query) if side is not None}
    made = {side: drawing.places(side) for side in sides}
    holds = [place_table(one, drawing.closed, made, n) for one in masked]
    if (np.logical_and.reduce(holds) == np.tri(n, dtype=bool)).all():
        return True, None
    bias = np.zeros((n + 1, n + 1))
    bias[1:, 1:] = scale * sum(table.astype(float) - 1.0 for table in holds)
    bias[0, 1:] = -scale
    return False, bias


def _by_bias_alone(bias: np.ndarray, own: Row, start: float, names: tuple[str, ...]) -> Scores:
    """Where nothing else is compared, the bias says what the start token and symbols score."""
    bias = bias.copy()
    bias[:, 1:] += own.get(ONE, 0.0)
    bias[:, 0] += start + own.get(ONE, 0.0) + own.get(START, 0.0)
    return Scores([], False, bias, names)


def _names(drawing: Drawing, step: int) -> tuple[str, ...]:
    """All steps that the masks of a step's heads stand for, in the order in which they are made."""
    made = drawing.means.step(step)
    assert isinstance(made, Aggregate)
    found: set[int] = set()
    for side in (*made.selection.keys, *made.selection.queries):
        drawing.means.add_masked(side, found)
    return tuple(drawing.closed.name(one) for one in sorted(found))
