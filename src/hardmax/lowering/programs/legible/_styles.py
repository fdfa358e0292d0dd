"""How positions are held: one-hot, or by masks and numbers; and which comparisons heads say how.

A conjunct of a selection compares a step there with a step here. Three ways to say it:

- a *table* between two one-hots, of key width min(|K|, |Q|);
- a *mask*: both steps are functions of the place, so that which of them go together depends on the
  two places alone. A causal mask or a position bias says it, of key width 0. A mask does not move
  when a step is overwritten: such steps, and all that they are made of, cannot be intervened on;
- a *parabola*: the whole number b there is to equal the whole number a here. With
  f(a) = max over keys b of 2ab - b^2, plus 1 where a is no key,
      1 - f(a) + 2ab - b^2 is 1 where a = b, and at most 0 elsewhere,
  of key width 3. Proof: for a key a the maximum is a^2, at b = a, and 1 - (a - b)^2 <= 0 for every
  other; for any other a the score is 1 - 1 + (2ab - b^2) - max <= 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.languages.programs import ClosedSteps, Conjunct

_TABLES_ARE_AS_SMALL = 2  # products of a table that a parabola does not undercut


@dataclass(frozen=True)
class Style:
    """Which comparisons of places are masks, and whether numbers may stand for one-hots."""

    name: str
    masks: str  # none, those of order, or all
    numbers: bool


STYLES = {
    "one-hot": Style("one-hot", "none", False),
    "relative": Style("relative", "all", True),
    "scalar": Style("scalar", "order", True),
}


def style_named(positions: str) -> Style:
    if positions not in STYLES:
        raise RequestError(
            f"Legible models hold positions {', '.join(STYLES)}, and not {positions!r}: leave "
            f'positions out, or say positions="one-hot".'
        )
    return STYLES[positions]


def is_equality(one: Conjunct, closed: ClosedSteps) -> bool:
    """Whether a conjunct says that two whole numbers are the same."""
    if one.key is None or one.query is None:
        return False
    keys, asked = closed.numbers[one.key], closed.numbers[one.query]
    whole = all(Fraction(n).denominator == 1 for n in (*keys, *asked))
    return whole and bool((one.table == np.array([[k == q for q in asked] for k in keys])).all())


def is_worth_a_parabola(one: Conjunct) -> bool:
    rows = {row.tobytes() for row in one.table if row.any()}
    columns = {column.tobytes() for column in one.table.T if column.any()}
    return min(len(rows), len(columns)) > _TABLES_ARE_AS_SMALL


def place_table(one: Conjunct, closed: ClosedSteps, made: Mapping[int, list], n: int) -> np.ndarray:
    """A conjunct as a table of places here x places there; `made` are steps by place."""

    def rows(step: int | None) -> list[int]:
        if step is None:
            return [0] * n
        where = {number: k for k, number in enumerate(closed.numbers[step])}
        return [where[number] for number in made[step]]

    return np.asarray(one.table[np.ix_(rows(one.key), rows(one.query))].T)
