"""Which heads an aggregate needs: the cheapest that fits what its selection asks."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial

import numpy as np

from hardmax.languages.programs import (
    Aggregated,
    Combined,
    Given,
    Item,
    Ranked,
    Sequence,
    Value,
    evaluate_pointwise,
    exact_number,
    number_in_mean,
    roots_of,
    select,
)
from hardmax.lowering.gadgets import Scores, hard_head, uniform_scores
from hardmax.lowering.programs._codes import largest_rounding
from hardmax.lowering.programs._placing import Made, Placing
from hardmax.lowering.programs._questions import SelectionQuestion
from hardmax.lowering.programs._relations import Relations
from hardmax.lowering.programs._totals import Totals, is_index
from hardmax.lowering.sketch import Placed, WordForm


class Aggregates:
    """Turns aggregates into heads."""

    def __init__(self, placing: Placing, relations: Relations, by_values: frozenset[Value]) -> None:
        self.placing, self.relations, self.sketch = placing, relations, placing.sketch
        self.totals = Totals(placing, relations, by_values)
        self.words, self.longest = placing.words, placing.words.longest

    def make(self, value: Aggregated) -> Made:
        if value.kind in ("count", "sum"):
            return self.totals.make(value)
        add = value.kind == "mean"
        levels = self.placing.numbers(value) if add else self.placing.natural(value)
        question = self.placing.codes.asked_by(value)
        if value.kind in ("min", "max"):
            return self._extreme(value, question, levels)
        return self._mean(value, question, levels)

    # ---- means and single places ---------------------------------------------------------------

    def _mean(self, value: Aggregated, question: SelectionQuestion, levels: np.ndarray) -> Made:
        read = value.value
        assert read is not None
        own = dict(zip(self.placing.items(value), levels.tolist(), strict=True))
        numbers = self._recode(value, read, own)
        held = self.placing.place(read, numbers, clean=True)
        if self.placing.code(value).keeps_numbers:
            held = held.looser(largest_rounding(self.placing.items(read)))
        default = own.get(value.default, 0.0)
        return Made(self._mean_of(value, question, held, default), levels)

    def _recode(self, value: Aggregated, read: Value, own: Mapping[Item, float]) -> list[float]:
        """The numbers of what is read, in those of what is made of it."""
        held = self.placing.items(read)
        if value.kind == "mean":
            held = tuple(map(number_in_mean, held))
        return [0.0 if one is None else own[one] for one in held]

    def _mean_of(
        self, value: Aggregated, question: SelectionQuestion, held: Placed, default: float
    ) -> Placed:
        names, order = self.placing.names, question.order
        attend = partial(hard_head, self.sketch, names.text(value), name=names.of(value))
        if question.wants_all and order == "one":
            return self._gather(attend, question, held, default)
        causal, mask = order == "causal", None
        if order not in ("all", "causal"):
            mask = question.mask
        is_sure = self._never_empty(question)
        if question.wants_all and mask is None:
            agree = value.kind == "only"
            return attend(uniform_scores(), held, causal=causal, agree=agree)
        start = "loses" if is_sure else "default"
        scores = self.relations.scores(question, start)
        default, agree = 0.0 if is_sure else default, value.kind == "only"
        return attend(scores, held, causal=causal, mask=mask, default=default, agree=agree)

    def _gather(
        self, attend: partial[Placed], question: SelectionQuestion, held: Placed, default: float
    ) -> Placed:
        """At most one place for each index: parabola routing on the index."""
        if self.sketch.positions in ("relative", "none"):
            self.sketch.needs_start = True
            token = self.sketch.token
            scores = Scores([token], [token * 0.5], 0, 0.5)
            mask = question.mask
            return attend(scores, held, mask=mask, default=default, agree=True)
        index = Sequence().index
        wanted = np.where(question.mask.any(axis=1), question.mask.argmax(axis=1) + 1.0, 0.0)
        beyond = any(wanted[i] > n for n in self.words.lengths for i in range(n))
        empty = beyond or bool((wanted == 0.0).any())
        self.sketch.needs_start |= empty
        key = np.arange(self.longest) + 1.0
        start = "default" if beyond else "loses"
        slope = self._straight(wanted)
        scores = self.relations.equal((index,), key, (index,), slope, start)
        default = default if empty else 0.0
        return attend(scores, held, default=default, agree=True)

    def _straight(self, wanted: np.ndarray) -> np.ndarray:
        """Queries at or below 0 all ask for the start token: continue a line if that is one."""
        known = np.flatnonzero(wanted)
        if not known.size:
            return wanted
        line = np.arange(self.longest) - known[0] + wanted[known[0]]
        fits = np.where(wanted > 0, line == wanted, line <= 0).all()
        return line.astype(float) if fits else wanted

    def _never_empty(self, question: SelectionQuestion) -> bool:
        """Whether everybody selects somebody, whatever the word."""
        if question.is_reflexive and np.diagonal(question.mask).all():
            return True
        roots = [root for v in (*question.keys, *question.queries) for root in roots_of(v)]
        if not all(isinstance(root, Given) and root.what != "tokens" for root in roots):
            return False
        return all(self._all_select(question, n) for n in self.words.lengths)

    def _all_select(self, question: SelectionQuestion, n: int) -> bool:
        """Whether every index of words of length n selects one, where tokens do not matter."""
        keys = [self._number_at(question.keys, j, n) for j in range(n)]
        queries = [self._number_at(question.queries, i, n) for i in range(n)]
        selected = question.holds[np.ix_(keys, queries)].T & question.mask[:n, :n]
        return bool(selected.any(axis=1).all())

    def _number_at(self, values: tuple[Value, ...], i: int, n: int) -> int:
        number = 0
        for value in values:
            given = {root: i if is_index(root) else n for root in roots_of(value)}
            items = self.placing.items(value)
            number = number * len(items) + items.index(evaluate_pointwise(value, given))
        return number

    # ---- minima and maxima ---------------------------------------------------------------------

    def _extreme(self, value: Aggregated, question: SelectionQuestion, levels: np.ndarray) -> Made:
        """The score is the rank of what is read; what is not selected is below all ranks."""
        read = value.value
        assert read is not None
        own = dict(zip(self.placing.items(value), levels.tolist(), strict=True))
        held = self.placing.place(read, self._recode(value, read, own), clean=True)
        ranks = self._ranks(read, value.kind)
        order = question.order
        mask = None if order in ("all", "causal") else question.mask
        is_sure = self._never_empty(question)
        default = 0.0 if is_sure else own.get(value.default, 0.0)
        if question.is_about_keys:
            holds = question.holds[:, 0].reshape(
                [len(self.placing.items(k)) for k in question.keys]
            )
            table = np.where(holds[..., None], ranks + 2.0, 0.0)
            level = None if is_sure else 1.0
            scores = self.relations.by_key((*question.keys, read), table, level, 1.0)
        else:
            scores = self.relations.scores(question, "loses" if is_sure else "default")
            rank = self.placing.place(read, ranks / (4.0 * len(ranks)), clean=True)
            scores = Scores(
                [*scores.query, self.sketch.token],
                [*scores.key, rank.form],
                max(scores.ready, rank.ready),
                1.0 / (4.0 * len(ranks)),
            )
        names = self.placing.names
        attend = partial(hard_head, self.sketch, names.text(value), scores, held)
        extreme = attend(
            causal=order == "causal",
            mask=mask,
            default=default,
            agree=True,
            name=names.of(value),
        )
        return Made(extreme, levels)

    def _ranks(self, read: Value, kind: str) -> np.ndarray:
        numbers = self.placing.natural(read)
        order = np.argsort(np.argsort(numbers)).astype(float)
        return order if kind == "max" else len(order) - 1.0 - order

    # ---- order ---------------------------------------------------------------------------------

    def make_ranked(self, value: Ranked) -> Made:
        """u_0 + sum over v of (u_(v+1) - u_v) where at most `rank` of those selected are <= u_v.

        One uniform head counts all of them; two hidden units compare a count with the rank.
        """
        code = self.placing.code(value)
        items = [one for one in self.placing.items(value.value) if one is not None]
        if not items:
            same = WordForm({}, float(code.number(value.default)))
            return Made(Placed(same, 0, True), self.placing.natural(value))
        numbers = [float(code.number(one)) for one in items]
        ranks = self.placing.items(value.rank)
        is_rank = np.array([isinstance(r, int) and r >= 0 for r in ranks])
        default = float(code.number_or(value.default, numbers[-1]))
        total = Placed(WordForm({}, numbers[0]), 0, True)
        labels = dict(zip(code.items, self.placing.names.labels(value.value), strict=False))
        for place, after in enumerate([*numbers[1:], default]):
            if after == numbers[place]:
                continue
            below = frozenset(items[: place + 1])
            text = f"there {{}} among the {place + 1} least"
            low = select(value.value, (), below.__contains__, text=text)
            count = (value.selection & low).count()
            called = f"n<={labels[items[place]]}"
            self.placing.learn(count, tuple(range(self.longest + 1)), called)
            name = f"{self.placing.names.of(value)}<{called}"
            total = total + self._gain_where_reached(
                count, value.rank, after - numbers[place], is_rank, name
            )
        missing = (float(code.number_or(value.default, numbers[0])) - numbers[0]) * ~is_rank
        total = total + self.placing.place(value.rank, missing)
        return Made(total, self.placing.natural(value))

    def _gain_where_reached(
        self, count: Value, rank: Value, gain: float, is_rank: np.ndarray, name: str
    ) -> Placed:
        """What is gained where a count is at most the rank: where their difference is, in fact."""
        if not is_rank.all():
            counts, ranks = np.arange(self.longest + 1), self.placing.items(rank)
            known = np.array([r if ok else -1 for r, ok in zip(ranks, is_rank, strict=True)])
            table = gain * (counts[:, None] <= known)
            return self.placing.place_function([count, rank], table, name=name)
        ahead = Combined((count, rank), (Fraction(1), Fraction(-1)), Fraction(0))
        whole = [int(exact_number(one)) for one in self.placing.items(rank)]
        apart = range(-max(whole), self.longest - min(whole) + 1)
        self.placing.learn(ahead, tuple(apart))
        return self.placing.place_by(ahead, gain * (np.array(apart) <= 0), name)
