"""The scores of a question: equality by a parabola, everything else by classes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hardmax.languages.programs import Value
from hardmax.lowering.programs._heads import Heads, Rows
from hardmax.lowering.programs._placing import Placing
from hardmax.lowering.programs._questions import Question


class Relations:
    """Turns what a question asks for into the rows of a head."""

    def __init__(self, placing: Placing, heads: Heads) -> None:
        self.placing, self.heads = placing, heads

    def rows(self, question: Question, start: str) -> Rows:
        """Equality by a parabola, everything else by classes."""
        if question.is_about_keys:
            holds = question.holds[:, 0].astype(float)
            holds = holds.reshape([len(self.placing.items(key)) for key in question.keys])
            level = {"loses": None, "default": 0.5, "ties": 1.0}[start]
            return self.heads.by_key(question.keys, holds, level, 0.5 if level == 0.5 else 1.0)
        numbers = self._equality(question)
        if numbers is None:
            return self.heads.related(question, start)
        return self.heads.equal(question.keys, numbers[0], question.queries, numbers[1], start)

    def _equality(self, question: Question) -> tuple[np.ndarray, np.ndarray] | None:
        """Whole numbers from 1 on for keys and queries, equal where they are related."""
        sides = (question.keys, question.queries)
        shapes = [[len(self.placing.items(v)) for v in side] for side in sides]
        if len(sides[0]) == len(sides[1]) == 1:
            keys, queries = (self._plain(side[0]) for side in sides)
            if keys is not None and queries is not None:
                low = keys.min() - 1.0
                if (question.holds == (keys[:, None] == queries[None])).all():
                    return keys - low, queries - low
        key_class, query_class, table = question.classes()
        if (table.sum(axis=0) > 1).any() or (table.sum(axis=1) > 1).any():
            return None
        matched = np.flatnonzero(table.any(axis=1))
        number = np.full(len(table), len(matched) + 2.0)  # keys that nobody asks for
        number[matched] = np.arange(len(matched)) + 1.0
        asked = np.where(table.any(axis=0), table.T @ number, len(matched) + 4.0)
        return number[key_class].reshape(shapes[0]), asked[query_class].reshape(shapes[1])

    def _plain(self, value: Value) -> np.ndarray | None:
        """The items' own numbers, if they are whole."""
        items = self.placing.items(value)
        if not self.placing.code(value).is_plain or any(Fraction(one) % 1 for one in items):
            return None
        return np.array([float(one) for one in items])
