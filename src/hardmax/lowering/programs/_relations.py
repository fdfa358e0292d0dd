"""The scores of a question: equality by a parabola, everything else by classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hardmax.languages.programs import Value, exact_number
from hardmax.lowering.gadgets import Scores, against_start, equality_scores
from hardmax.lowering.programs._placing import Placing
from hardmax.lowering.programs._questions import SelectionQuestion, part_of
from hardmax.lowering.sketch import Placed, WordForm


class Relations:
    """Turns what a question asks for into the scores of a head."""

    def __init__(self, placing: Placing, joint: bool) -> None:
        self.placing, self.sketch, self.joint = placing, placing.sketch, joint

    def scores(self, question: SelectionQuestion, start: str) -> Scores:
        """Equality by a parabola, everything else by classes."""
        if question.is_about_keys:
            holds = question.holds[:, 0].astype(float)
            holds = holds.reshape([len(self.placing.items(key)) for key in question.keys])
            level = {"loses": None, "default": 0.5, "ties": 1.0}[start]
            return self.by_key(question.keys, holds, level, 0.5 if level == 0.5 else 1.0)
        if self.joint and len(question.parts) > 1:
            return self._jointly(question, start)
        numbers = self._equality(question)
        if numbers is None:
            return self.scores_by_classes(question, start)
        return self.equal(question.keys, numbers[0], question.queries, numbers[1], start)

    def _jointly(self, question: SelectionQuestion, start: str) -> Scores:
        """Several conditions, each with a score of its own: what meets all of them has them all.

        A condition adds q^2 - (k - q)^2 (equality) or 1 and 0 to the score of a symbol, so whoever
        misses one is at least 1 behind. The start token's score is 0: it loses against the sum of
        all that can be added, wins against less if half of 1 less than that is taken off, and ties
        if all of it is taken off.
        """
        token = self.sketch.token
        joined = Scores([], [], 0, 1.0)
        level, most = Placed(WordForm(), 0, True), 0.0
        alike = WordForm()  # what a key scores whoever asks
        for part in question.parts:
            asked = part_of(question, part, self.placing.codes)
            numbers = None if asked.is_about_keys else self._equality(asked)
            own = self._one_condition(asked, numbers)
            if numbers is not None:
                level = level + self.placing.place_function(asked.queries, numbers[1] ** 2)
            most += numbers is None
            alike = alike + own.key[0]
            joined = Scores(
                [*joined.query, *own.query[1:]],
                [*joined.key, *own.key[1:]],
                max(joined.ready, own.ready, level.ready),
                1.0,
            )
        if start == "loses":
            return replace(joined, query=[token, *joined.query], key=[alike, *joined.key])
        self.sketch.needs_start = True
        shift = 0.5 if start == "default" else 0.0
        query = [token, level.form + (most - shift), *joined.query]
        return Scores(query, [alike, token * -1.0, *joined.key], joined.ready, 1.0 - shift)

    def _one_condition(
        self, asked: SelectionQuestion, numbers: tuple[np.ndarray, np.ndarray] | None
    ) -> Scores:
        """Scores whose first query is the token, or 1."""
        if asked.is_about_keys:
            holds = asked.holds[:, 0].astype(float)
            holds = holds.reshape([len(self.placing.items(key)) for key in asked.keys])
            return self.by_key(asked.keys, holds, None, 1.0)
        if numbers is not None:
            scores = self.equal(asked.keys, numbers[0], asked.queries, numbers[1], "loses")
            return replace(scores, query=scores.query[::-1], key=scores.key[::-1])
        scores = self.scores_by_classes(asked, "loses")
        token = self.sketch.token
        return replace(scores, query=[token, *scores.query], key=[WordForm(), *scores.key])

    def _equality(self, question: SelectionQuestion) -> tuple[np.ndarray, np.ndarray] | None:
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

    # ---- scores --------------------------------------------------------------------------------

    def by_key(
        self, keys: Sequence[Value], scores: np.ndarray, start: float | None, gap: float
    ) -> Scores:
        """The same scores for everybody who asks; the start token's, if it matters, becomes 0."""
        placed = self.placing.place_function(keys, scores, clean=True)
        if start is not None:
            self.sketch.needs_start = True
        return Scores([self.sketch.token], [placed.form + -(start or 0.0)], placed.ready, gap)

    def equal(
        self,
        keys: Sequence[Value],
        key_numbers: np.ndarray,
        queries: Sequence[Value],
        query_numbers: np.ndarray,
        start: str,
    ) -> Scores:
        """By `equality_scores`; all key numbers are whole and at least 1."""
        place = self.placing.place_function
        there = place(keys, key_numbers, clean=True)
        squared = place(keys, key_numbers**2, clean=True)
        here = place(queries, query_numbers)
        scores = equality_scores(self.sketch, there, squared, here)
        if start == "loses":
            return scores
        shift = -0.5 if start == "default" else 0.0
        level = place(queries, query_numbers**2 + shift)
        return against_start(self.sketch, scores, level, 1.0 + shift)

    def scores_by_classes(self, question: SelectionQuestion, start: str) -> Scores:
        """Any relation, by classes of keys or of queries, whichever are fewer.

        The table of scores 0 and 1 between classes is a product of matrices, one row per class on
        one side; less 1/2 or 1 for a start token that wins where nothing is selected, or ties.
        """
        key_class, query_class, table = question.classes()
        table = table.astype(float)
        there, here = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
        shapes = [
            [len(self.placing.items(v)) for v in side] for side in (question.keys, question.queries)
        ]
        place = self.placing.place_function
        query, key, ready = [], [], 0
        by_keys = len(there) <= len(here)
        for number in there if by_keys else here:
            own = (key_class == number).astype(float) if by_keys else table[:, number][key_class]
            asked = table[number][query_class] if by_keys else (query_class == number).astype(float)
            left = place(question.keys, own.reshape(shapes[0]), clean=True)
            right = place(question.queries, asked.reshape(shapes[1]))
            key.append(left.form)
            query.append(right.form)
            ready = max(ready, left.ready, right.ready)
        if start == "loses":
            return Scores(query, key, ready, 1.0)
        self.sketch.needs_start = True
        level = 0.5 if start == "default" else 1.0
        token = self.sketch.token
        return Scores([*query, token], [*key, token * -level], ready, level)
