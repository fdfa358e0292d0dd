"""Counts and sums over a selection: soft sums of values, or the share of what is selected."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.languages.programs import (
    Aggregated,
    Combined,
    Given,
    Joined,
    Related,
    Selection,
    Value,
    keys_and_queries,
    roots_of,
    step_text,
    there,
)
from hardmax.lowering.gadgets import hard_head, number_with_open_gate, soft_sum
from hardmax.lowering.programs._codes import largest_rounding
from hardmax.lowering.programs._placing import Made, Placing
from hardmax.lowering.programs._questions import SelectionQuestion, same_values
from hardmax.lowering.programs._relations import Relations
from hardmax.lowering.sketch import Placed, WordForm

_MOST_SUMMANDS = 64  # different numbers in a sum over a relation
_MOST_CLASSES = 256  # kinds of queries in a count by values


class Totals:
    """Turns counts and sums into heads, those `by_values` into sums to choose from."""

    def __init__(self, placing: Placing, relations: Relations, by_values: frozenset[Value]) -> None:
        self.placing, self.relations, self.by_values = placing, relations, by_values
        self.sketch, self.longest = placing.sketch, placing.words.longest

    def make(self, value: Aggregated) -> Made:
        levels = self.placing.numbers(value)
        parts = self._rewritten(value)
        if parts is not None:
            together = self._together(value, parts) if value in self.by_values else None
            return Made(together or self.placing.place(parts, self.placing.natural(parts)), levels)
        question = self.placing.codes.asked_by(value)
        if question.is_about_keys:
            return self._sum(value, question, levels)
        if value.kind == "sum":
            return self._sum_of_counts(value, levels)
        if value in self.by_values:
            return Made(self._count_by_values(value, [(1.0, question)]), levels)
        return self._count(value, question, levels)

    def _rewritten(self, value: Aggregated) -> Combined | None:
        """Counts over "or" and "not" where places and values are mixed: by inclusion, exclusion.

        The result has the same items, so that its natural numbers are those of the value.
        """
        selection = value.selection
        if not _is_mixed(value):
            return None
        assert isinstance(selection, Joined)
        if selection.how == "or":
            first, *rest = selection.parts
            other = rest[0] if len(rest) == 1 else Joined("or", tuple(rest))
            terms = [(1, first), (1, other)]
            both = Joined("and", (first, other))
            if self._may_hold(both):
                terms.append((-1, both))
        else:
            everywhere: Selection = Related((), (), lambda: True, "everywhere")
            terms = [(1, everywhere), *((-1, part) for part in selection.parts)]
        parts = tuple(Aggregated(part, value.kind, value.value) for _, part in terms)
        weights = tuple(Fraction(weight) for weight, _ in terms)
        made, names = Combined(parts, weights, Fraction(0)), self.placing.names
        for number, part in enumerate(parts, 1):
            names.learn(part, f"{names.of(value)}<{number}")
        names.learn_same(value, made)
        self.placing.learn(made, self.placing.items(value))
        return made

    def _may_hold(self, selection: Selection) -> bool:
        question = self.placing.codes.asked_by(Aggregated(selection, "count", None))
        return bool(question.mask.any() and question.holds.any())

    def _together(self, value: Aggregated, terms: Combined) -> Placed | None:
        """A combination of counts that the same queries ask for, which one gate lets through."""
        counts = [one for one in terms.sources if isinstance(one, Aggregated)]
        questions = [self.placing.codes.asked_by(one) for one in counts]
        if value.kind != "count" or any(
            not same_values(one.queries, questions[0].queries) for one in questions
        ):
            return None
        weights = map(float, terms.weights)
        return self._count_by_values(value, list(zip(weights, questions, strict=True)))

    def _sum(self, value: Aggregated, question: SelectionQuestion, levels: np.ndarray) -> Made:
        """What is not selected adds 0: a sum over all places."""
        read = value.value
        items = () if read is None else self.placing.items(read)
        own = np.array([0.0 if one is None else float(one) for one in items])
        holds = question.holds[:, 0].astype(float)
        holds = holds.reshape([len(self.placing.items(key)) for key in question.keys])
        sources = [*question.keys]
        table = holds
        if read is not None:
            sources, table = [*sources, read], np.multiply.outer(holds, own)
        each = self.placing.place_function(sources, table, clean=True).looser(
            largest_rounding(items)
        )
        text, name = self.placing.names.text(value), self.placing.names.of(value)
        return Made(self._over_places(text, name, each, question), levels)

    def _over_places(
        self, step: str, name: str, each: Placed, question: SelectionQuestion
    ) -> Placed:
        """The sum of what each place adds, over the places that the question is about."""

        def over(causal: bool, part: str = "") -> Placed:
            return soft_sum(self.sketch, step, each, None, causal, name=name + part)

        match question.order:
            case "all":
                return over(False)
            case "causal":
                return over(True)
            case "before":
                return over(True, "<so far") + each.scaled(-1.0)
            case "after":
                return over(False, "<all") + over(True, "<so far").scaled(-1.0)
            case "from here":
                return over(False, "<all") + over(True, "<so far").scaled(-1.0) + each
            case "elsewhere":
                return over(False, "<all") + each.scaled(-1.0)
            case "here":
                return each
            case _:
                return soft_sum(self.sketch, step, each, question.mask, False, name=name)

    def _sum_of_counts(self, value: Aggregated, levels: np.ndarray) -> Made:
        """sum over u of u times how many selected hold u."""
        read = value.value
        assert read is not None
        numbers = [number for number in self.placing.items(read) if number]
        if len(numbers) > _MOST_SUMMANDS:
            raise RequestError(
                f"The sum {step_text(value)} is over {len(numbers)} different numbers, whose "
                f"selection depends on who asks: too many to compile. Map them to fewer first."
            )
        counts = tuple((value.selection & (there(read) == number)).count() for number in numbers)
        for number, count in zip(numbers, counts, strict=True):
            shown = f"{self.placing.names.of(value)}<{number}"
            self.placing.learn(count, tuple(range(self.longest + 1)), shown)
        total = Placed(WordForm(), 0, True)
        for number, count in zip(numbers, counts, strict=True):
            every = np.arange(self.longest + 1.0) * float(number)
            total = total + self.placing.place(count, every).looser(
                self.longest * largest_rounding([number])
            )
        return Made(total, levels)

    def _count_by_values(
        self, value: Value, terms: list[tuple[float, SelectionQuestion]]
    ) -> Placed:
        """What every class of queries would count, of which each place keeps its own.

        A class c of queries counts T_c, a sum over all places of what its keys add. One hidden unit
        a class, relu(T_c - B (1 - [c is mine])) with B >= T_c, lets the own one through.
        """
        queries = terms[0][1].queries
        every = np.concatenate([question.holds for _, question in terms])
        classes, query_class = np.unique(every, axis=1, return_inverse=True)
        asked = np.flatnonzero(classes.any(axis=0))
        if len(asked) > _MOST_CLASSES:
            raise RequestError(
                f"The count {step_text(value)} is asked for by {len(asked)} kinds of queries: "
                f"too many sums."
            )
        shape = [len(self.placing.items(one)) for one in queries]
        text, name = self.placing.names.text(value), self.placing.names.of(value)
        parts = []
        for number, one in enumerate(asked, 1):
            own = query_class.reshape(-1) == one
            total = Placed(WordForm(), 0, True)
            for weight, question in terms:
                holds = question.holds[:, own.argmax()].astype(float)
                if holds.any():
                    keys = [len(self.placing.items(key)) for key in question.keys]
                    each = self.placing.place_function(
                        question.keys, holds.reshape(keys), clean=True
                    )
                    called = f"{name}<class {number}"
                    added = self._over_places(text, called, each, question)
                    total = total + added.scaled(weight)
            mine = self.placing.place_function(queries, own.astype(float).reshape(shape))
            parts.append((total, mine))
        return number_with_open_gate(self.sketch, name, parts, float(self.longest))

    def _count(self, value: Aggregated, question: SelectionQuestion, levels: np.ndarray) -> Made:
        """w matches and the start token share the weight: the matches have w/(1 + w) of it."""
        scores = self.relations.scores(question, "ties")
        own = 0
        order = question.order
        causal, mask = order in ("causal", "before"), None
        if (order == "before" and question.is_reflexive) or (
            order == "elsewhere" and question.is_reflexive
        ):
            own = 1
        elif order in ("before", "elsewhere") and question.is_irreflexive:
            own = 0
        elif order not in ("all", "causal"):
            causal, mask = False, question.mask
        share = Placed(self.sketch.token, 0, True)
        names = self.placing.names
        mean = hard_head(
            self.sketch,
            names.text(value),
            scores,
            share,
            causal=causal,
            mask=mask,
            name=names.of(value),
        )
        return Made(mean, 1.0 - 1.0 / (1.0 + own + levels))


def counted_by_values(values: Iterable[Value]) -> frozenset[Value]:
    """The ranks among the values, and the counts that ranks compare."""
    ranks = {value for value in values if isinstance(value, Aggregated) and _is_mixed(value)}
    read = {
        root
        for rank in ranks
        for side in keys_and_queries(rank.selection)
        for one in side
        for root in roots_of(one)
        if isinstance(root, Aggregated)
    }
    return frozenset(ranks | read)


def _is_mixed(value: Aggregated) -> bool:
    """Whether this counts or sums over an "or" or "not" of places and values: a rank, say."""
    if value.kind not in ("count", "sum"):
        return False
    selection = value.selection
    return isinstance(selection, Joined) and selection.how != "and" and _mixes(selection)


def _mixes(selection: Selection) -> bool:
    """Whether the selection is about the index and about something else."""
    keys, queries = keys_and_queries(selection)
    about = {is_index(root) for v in (*keys, *queries) for root in roots_of(v)}
    return len(about) > 1


def is_index(root: Value) -> bool:
    return isinstance(root, Given) and root.what == "index"
