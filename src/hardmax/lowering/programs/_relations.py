"""The scores of a question: equality by a parabola, everything else by classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hardmax.languages.programs import Value, exact_number
from hardmax.lowering.programs._heads import Heads, Rows
from hardmax.lowering.programs._placing import Placed, Placing
from hardmax.lowering.programs._questions import Question, part_of
from hardmax.lowering.programs._sketch import Form


class Relations:
    """Turns what a question asks for into the rows of a head."""

    def __init__(self, placing: Placing, heads: Heads, joint: bool) -> None:
        self.placing, self.heads, self.joint = placing, heads, joint

    def rows(self, question: Question, start: str) -> Rows:
        """Equality by a parabola, everything else by classes."""
        if question.is_about_keys:
            holds = question.holds[:, 0].astype(float)
            holds = holds.reshape([len(self.placing.items(key)) for key in question.keys])
            level = {"loses": None, "default": 0.5, "ties": 1.0}[start]
            return self.heads.by_key(question.keys, holds, level, 0.5 if level == 0.5 else 1.0)
        if self.joint and len(question.parts) > 1:
            return self._jointly(question, start)
        numbers = self._equality(question)
        if numbers is None:
            return self.heads.related(question, start)
        return self.heads.equal(question.keys, numbers[0], question.queries, numbers[1], start)

    def _jointly(self, question: Question, start: str) -> Rows:
        """Several conditions, each with a score of its own: what meets all of them has them all.

        A condition adds q^2 - (k - q)^2 (equality) or 1 and 0 to the score of a symbol, so whoever
        misses one is at least 1 behind. The start token's score is 0: it loses against the sum of
        all that can be added, wins against less if half of 1 less than that is taken off, and ties
        if all of it is taken off.
        """
        token = self.heads.sketch.token
        joined = Rows([], [], 0, 1.0)
        level, most = Placed(Form(), 0, True), 0.0
        alike = Form()  # what a key scores whoever asks
        for part in question.parts:
            asked = part_of(question, part, self.placing.codes)
            numbers = None if asked.is_about_keys else self._equality(asked)
            rows = self._one_condition(asked, numbers)
            if numbers is not None:
                level = level + self.placing.place_function(asked.queries, numbers[1] ** 2)
            most += numbers is None
            alike = alike + rows.key[0]
            joined = Rows(
                [*joined.query, *rows.query[1:]],
                [*joined.key, *rows.key[1:]],
                max(joined.ready, rows.ready, level.ready),
                1.0,
            )
        if start == "loses":
            return replace(joined, query=[token, *joined.query], key=[alike, *joined.key])
        self.heads.sketch.needs_start = True
        shift = 0.5 if start == "default" else 0.0
        query = [token, level.form + (most - shift), *joined.query]
        return Rows(query, [alike, token * -1.0, *joined.key], joined.ready, 1.0 - shift)

    def _one_condition(
        self, asked: Question, numbers: tuple[np.ndarray, np.ndarray] | None
    ) -> Rows:
        """Rows whose first query is the token, or 1."""
        if asked.is_about_keys:
            holds = asked.holds[:, 0].astype(float)
            holds = holds.reshape([len(self.placing.items(key)) for key in asked.keys])
            return self.heads.by_key(asked.keys, holds, None, 1.0)
        if numbers is not None:
            found = self.heads.equal(asked.keys, numbers[0], asked.queries, numbers[1], "loses")
            return replace(found, query=found.query[::-1], key=found.key[::-1])
        found = self.heads.related(asked, "loses")
        token = self.heads.sketch.token
        return replace(found, query=[token, *found.query], key=[Form(), *found.key])

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
        if not self.placing.code(value).is_plain or any(exact_number(one) % 1 for one in items):
            return None
        return np.array([float(exact_number(one)) for one in items])
