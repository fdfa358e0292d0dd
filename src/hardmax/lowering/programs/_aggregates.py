"""Which heads an aggregate needs: the cheapest that fits what its selection asks."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Words
from hardmax.languages.programs import (
    Aggregated,
    Combined,
    Given,
    Item,
    Joined,
    Ranked,
    Related,
    Selection,
    Sequence,
    Value,
    evaluated,
    keys_and_queries,
    roots_of,
    select,
    there,
    written,
)
from hardmax.lowering.programs._heads import Heads, Rows
from hardmax.lowering.programs._placing import Made, Placed, Placing
from hardmax.lowering.programs._questions import Question, ask, same_values
from hardmax.lowering.programs._sketch import Form

_MOST_SUMMANDS = 64  # different numbers in a sum over a relation
_MOST_CLASSES = 256  # kinds of queries in a count by values


class Aggregates:
    """Turns aggregates into heads."""

    def __init__(self, placing: Placing, heads: Heads, by_values: bool) -> None:
        self.placing, self.heads, self.by_values = placing, heads, by_values
        self.words: Words = placing.words
        self.longest = placing.words.longest

    def make(self, value: Aggregated) -> Made:
        levels = self.placing.natural(value)
        rewritten = self._rewritten(value)
        if rewritten is not None:
            if self.by_values:
                together = self._together(value, rewritten)
                if together is not None:
                    return Made(together, levels)
            return Made(self.placing.place(rewritten, self.placing.natural(rewritten)), levels)
        question = ask(value, self.words, self.placing.codes)
        if value.kind in ("count", "sum"):
            return self._total(value, question, levels)
        if value.kind in ("min", "max"):
            return self._extreme(value, question, levels)
        return self._mean(value, question, levels)

    # ---- counts and sums -----------------------------------------------------------------------

    def _rewritten(self, value: Aggregated) -> Combined | None:
        """Counts over "or" and "not" where places and values are mixed: by inclusion, exclusion.

        The result has the same items, so that its natural numbers are those of the value.
        """
        selection = value.selection
        if not is_mixed(value):
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
        made = Combined(parts, weights, Fraction(0))
        self.placing.learn(made, self.placing.items(value))
        return made

    def _may_hold(self, selection: Selection) -> bool:
        question = ask(Aggregated(selection, "count", None), self.words, self.placing.codes)
        return bool(question.mask.any() and question.holds.any())

    def _total(self, value: Aggregated, question: Question, levels: np.ndarray) -> Made:
        if question.is_about_keys:
            return self._sum(value, question, levels)
        if value.kind == "sum":
            return self._sum_of_counts(value, levels)
        return self._count(value, question, levels)

    def _together(self, value: Aggregated, terms: Combined) -> Placed | None:
        """A combination of counts that the same queries ask for, which one gate lets through."""
        counts = [one for one in terms.sources if isinstance(one, Aggregated)]
        questions = [ask(one, self.words, self.placing.codes) for one in counts]
        if value.kind != "count" or any(
            not same_values(one.queries, questions[0].queries) for one in questions
        ):
            return None
        weights = map(float, terms.weights)
        return self._count_by_values(written(value), list(zip(weights, questions, strict=True)))

    def _sum(self, value: Aggregated, question: Question, levels: np.ndarray) -> Made:
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
        each = self.placing.place_function(sources, table, clean=True)
        return Made(self._over_places(written(value), each, question), levels)

    def _over_places(self, step: str, each: Placed, question: Question) -> Placed:
        """The sum of what each place adds, over the places that the question is about."""

        def over(causal: bool) -> Placed:
            return self.heads.sum(step, each, None, causal)

        match question.order:
            case "all":
                return over(False)
            case "causal":
                return over(True)
            case "before":
                return over(True) + each.scaled(-1.0)
            case "after":
                return over(False) + over(True).scaled(-1.0)
            case "from here":
                return over(False) + over(True).scaled(-1.0) + each
            case "elsewhere":
                return over(False) + each.scaled(-1.0)
            case "here":
                return each
            case _:
                return self.heads.sum(step, each, question.mask, False)

    def _sum_of_counts(self, value: Aggregated, levels: np.ndarray) -> Made:
        """sum over u of u times how many selected hold u."""
        read = value.value
        assert read is not None
        numbers = [one for one in self.placing.items(read) if one]
        if len(numbers) > _MOST_SUMMANDS:
            raise RequestError(
                f"The sum {written(value)} is over {len(numbers)} different numbers, whose "
                f"selection depends on who asks: too many to compile. Map them to fewer first."
            )
        counts = tuple((value.selection & (there(read) == one)).count() for one in numbers)
        for count in counts:
            self.placing.learn(count, tuple(range(self.longest + 1)))
        total = Placed(Form(), 0, True)
        for one, count in zip(numbers, counts, strict=True):
            every = np.arange(self.longest + 1.0) * float(one)
            total = total + self.placing.place(count, every)
        return Made(total, levels)

    def _count_by_values(self, step: str, terms: list[tuple[float, Question]]) -> Placed:
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
                f"The count {step} is asked for by {len(asked)} kinds of queries: too many sums."
            )
        shape = [len(self.placing.items(one)) for one in queries]
        parts = []
        for one in asked:
            own = query_class.reshape(-1) == one
            total = Placed(Form(), 0, True)
            for weight, question in terms:
                holds = question.holds[:, own.argmax()].astype(float)
                if holds.any():
                    keys = [len(self.placing.items(key)) for key in question.keys]
                    each = self.placing.place_function(
                        question.keys, holds.reshape(keys), clean=True
                    )
                    total = total + self._over_places(step, each, question).scaled(weight)
            mine = self.placing.place_function(queries, own.astype(float).reshape(shape))
            parts.append((total, mine))
        return self.placing.gated(step, parts, float(self.longest))

    def _count(self, value: Aggregated, question: Question, levels: np.ndarray) -> Made:
        """w matches and the start token share the weight: the matches have w/(1 + w) of it."""
        rows = self._rows(question, "ties")
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
        share = Placed(self.heads.sketch.token, 0, True)
        found = self.heads.attend(written(value), rows, share, causal=causal, mask=mask)
        return Made(found, 1.0 - 1.0 / (1.0 + own + levels))

    # ---- means and single places ---------------------------------------------------------------

    def _mean(self, value: Aggregated, question: Question, levels: np.ndarray) -> Made:
        read = value.value
        assert read is not None
        own = dict(zip(self.placing.items(value), levels.tolist(), strict=True))
        numbers = self._recoded(value, read, own)
        held = self.placing.place(read, numbers, clean=True)
        default = own.get(value.default, 0.0)
        return Made(self._mean_of(value, question, held, default), levels)

    def _recoded(self, value: Aggregated, read: Value, own: Mapping[Item, float]) -> list[float]:
        """The numbers of what is read, in those of what is made of it."""
        return [own.get(one, 0.0) if one is not None else 0.0 for one in self.placing.items(read)]

    def _mean_of(
        self, value: Aggregated, question: Question, held: Placed, default: float
    ) -> Placed:
        step, order = written(value), question.order
        attend = self.heads.attend
        if question.wants_all and order == "one":
            return self._gather(step, question, held, default)
        causal, mask = order == "causal", None
        if order not in ("all", "causal"):
            mask = question.mask
        is_sure = self._never_empty(question)
        if question.wants_all and mask is None:
            return attend(step, self.heads.uniform(), held, causal=causal)
        start = "loses" if is_sure else "default"
        rows = self._rows(question, start)
        return attend(
            step, rows, held, causal=causal, mask=mask, default=0.0 if is_sure else default
        )

    def _gather(self, step: str, question: Question, held: Placed, default: float) -> Placed:
        """At most one place for each index: parabola routing on the index."""
        if self.heads.sketch.positions in ("relative", "none"):
            self.heads.sketch.needs_start = True
            token = self.heads.sketch.token
            rows = Rows([token], [token * 0.5], 0, 0.5)
            return self.heads.attend(step, rows, held, mask=question.mask, default=default)
        index = Sequence().index
        wanted = np.where(question.mask.any(axis=1), question.mask.argmax(axis=1) + 1.0, 0.0)
        beyond = any(wanted[i] > n for n in self.words.lengths for i in range(n))
        empty = beyond or bool((wanted == 0.0).any())
        self.heads.sketch.needs_start |= empty
        key = np.arange(self.longest) + 1.0
        start = "default" if beyond else "loses"
        slope = self._straight(wanted)
        rows = self.heads.equal((index,), key, (index,), slope, start)
        return self.heads.attend(step, rows, held, default=default if empty else 0.0)

    def _straight(self, wanted: np.ndarray) -> np.ndarray:
        """Queries at or below 0 all ask for the start token: continue a line if that is one."""
        known = np.flatnonzero(wanted)
        if not known.size:
            return wanted
        line = np.arange(self.longest) - known[0] + wanted[known[0]]
        fits = np.where(wanted > 0, line == wanted, line <= 0).all()
        return line.astype(float) if fits else wanted

    def _never_empty(self, question: Question) -> bool:
        """Whether everybody selects somebody, whatever the word."""
        if question.is_reflexive and np.diagonal(question.mask).all():
            return True
        roots = [root for v in (*question.keys, *question.queries) for root in roots_of(v)]
        if not all(isinstance(root, Given) and root.what != "tokens" for root in roots):
            return False
        return all(self._all_select(question, n) for n in self.words.lengths)

    def _all_select(self, question: Question, n: int) -> bool:
        """Whether every index of words of length n selects one, where tokens do not matter."""
        keys = [self._number_at(question.keys, j, n) for j in range(n)]
        queries = [self._number_at(question.queries, i, n) for i in range(n)]
        selected = question.holds[np.ix_(keys, queries)].T & question.mask[:n, :n]
        return bool(selected.any(axis=1).all())

    def _number_at(self, values: tuple[Value, ...], i: int, n: int) -> int:
        number = 0
        for value in values:
            given = {root: i if _is_index(root) else n for root in roots_of(value)}
            items = self.placing.items(value)
            number = number * len(items) + items.index(evaluated(value, given))
        return number

    # ---- minima and maxima ---------------------------------------------------------------------

    def _extreme(self, value: Aggregated, question: Question, levels: np.ndarray) -> Made:
        """The score is the rank of what is read; what is not selected is below all ranks."""
        read = value.value
        assert read is not None
        own = dict(zip(self.placing.items(value), levels.tolist(), strict=True))
        held = self.placing.place(read, self._recoded(value, read, own), clean=True)
        ranks = self._ranks(read, value.kind)
        order = question.order
        mask = None if order in ("all", "causal") else question.mask
        is_sure = self._never_empty(question)
        default = 0.0 if is_sure else own.get(value.default, 0.0)
        if question.is_about_keys:
            holds = question.holds[:, 0].reshape(
                [len(self.placing.items(k)) for k in question.keys]
            )
            scores = np.where(holds[..., None], ranks + 2.0, 0.0)
            rows = self.heads.by_key((*question.keys, read), scores, None if is_sure else 1.0, 1.0)
        else:
            rows = self._rows(question, "loses" if is_sure else "default")
            rank = self.placing.place(read, ranks / (4.0 * len(ranks)), clean=True)
            rows = Rows(
                [*rows.query, self.heads.sketch.token],
                [*rows.key, rank.form],
                max(rows.ready, rank.ready),
                1.0 / (4.0 * len(ranks)),
            )
        found = self.heads.attend(
            written(value), rows, held, causal=order == "causal", mask=mask, default=default
        )
        return Made(found, levels)

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
            same = Form({}, float(code.number(value.default)))
            return Made(Placed(same, 0, True), self.placing.natural(value))
        numbers = [float(code.number(one)) for one in items]
        ranks = self.placing.items(value.rank)
        is_rank = np.array([isinstance(r, int) and r >= 0 for r in ranks])
        default = float(code.number_or(value.default, numbers[-1]))
        total = Placed(Form({}, numbers[0]), 0, True)
        for v, after in enumerate([*numbers[1:], default]):
            if after == numbers[v]:
                continue
            below = frozenset(items[: v + 1])
            text = f"there {{}} among the {v + 1} least"
            low = select(value.value, (), below.__contains__, text=text)
            count = (value.selection & low).count()
            self.placing.learn(count, tuple(range(self.longest + 1)))
            total = total + self._reached(count, value.rank, after - numbers[v], is_rank)
        missing = (float(code.number_or(value.default, numbers[0])) - numbers[0]) * ~is_rank
        total = total + self.placing.place(value.rank, missing)
        return Made(total, self.placing.natural(value))

    def _reached(self, count: Value, rank: Value, gain: float, is_rank: np.ndarray) -> Placed:
        """What is gained where a count is at most the rank: where their difference is, in fact."""
        if not is_rank.all():
            counts, ranks = np.arange(self.longest + 1), self.placing.items(rank)
            known = np.array([r if ok else -1 for r, ok in zip(ranks, is_rank, strict=True)])
            return self.placing.place_function([count, rank], gain * (counts[:, None] <= known))
        ahead = Combined((count, rank), (Fraction(1), Fraction(-1)), Fraction(0))
        whole = [int(one) for one in self.placing.items(rank)]
        apart = range(-max(whole), self.longest - min(whole) + 1)
        self.placing.learn(ahead, tuple(apart))
        return self.placing.place_by(ahead, gain * (np.array(apart) <= 0))

    # ---- relations -----------------------------------------------------------------------------

    def _rows(self, question: Question, start: str) -> Rows:
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


def is_mixed(value: Value) -> bool:
    """Whether this counts or sums over an "or" or "not" of places and values: a rank, say."""
    if not isinstance(value, Aggregated) or value.kind not in ("count", "sum"):
        return False
    selection = value.selection
    return isinstance(selection, Joined) and selection.how != "and" and _mixes(selection)


def _mixes(selection: Selection) -> bool:
    """Whether the selection is about the index and about something else."""
    keys, queries = keys_and_queries(selection)
    about = {_is_index(root) for v in (*keys, *queries) for root in roots_of(v)}
    return len(about) > 1


def _is_index(root: Value) -> bool:
    return isinstance(root, Given) and root.what == "index"
