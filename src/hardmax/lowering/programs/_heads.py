"""The heads that do a program's aggregates.

*Sums* are soft: the start token has score 0, every symbol -B, so each symbol has the weight
e^-B = r up to 1/(1 + r n), and the values' sum comes out, times 1/r in the output matrix, to within
the fraction r n. No division, no look-up, key width 1.

*Everything else* is hard, and made soft by a coldness from its score gap. Equality of whole
numbers k, q >= 1 is parabola routing: key (k, -k^2), query (2 q, 1) scores q^2 - (k - q)^2, so the
keys equal to q win with gap 1. The start token's registers are 0, and so is its score: it loses
against every match, and wins where q <= 0. A third row, key -1 and query q^2 - 1/2, takes that off
the symbols' scores: now the start token wins where nothing matches (gap 1/2). With q^2 it ties with
the matches, so that w matches together have the share w/(1 + w): a count. Any other relation
between classes of keys and of queries is a table of scores 0 and 1, as a product of matrices, one
row per class on one side, less 1/2 or 1 for a start token that wins or ties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.core import Softmax
from hardmax.lowering.programs._placing import Placed, Placing
from hardmax.lowering.programs._questions import Question
from hardmax.lowering.sketch import EXCLUDED, WordForm, WordHead, WordSketch


@dataclass(frozen=True, eq=False)
class Rows:
    """The scores of a selection, as forms: queries here, keys there, and the gap they guarantee.

    The start token, whose score is 0, loses against what is selected; or it wins where nothing is
    ("default"); or it "ties" with what is selected.
    """

    query: list[WordForm]
    key: list[WordForm]
    ready: int
    gap: float


def even(sublayer: int) -> int:
    return sublayer + sublayer % 2


@dataclass(frozen=True)
class Care:
    """How closely heads do what they stand for; what is closer has larger logits and weights."""

    bits: int = 16  # a sum of n numbers of at most 1 is right to 2^-16
    leak: float = 30.0  # e^-30 of the weight goes astray, divided by the number of tokens

    def coldness(self, gap: float, tokens: int) -> Softmax:
        """Cold enough that all losers together get less than e^-leak.

        A power of 2 rounds nothing.
        """
        wanted = (self.leak + math.log(tokens)) / gap
        return Softmax(2.0 ** math.ceil(math.log2(wanted)))


class Heads:
    """Puts heads into a sketch."""

    def __init__(self, sketch: WordSketch, placing: Placing, care: Care) -> None:
        self.sketch, self.placing, self.care = sketch, placing, care
        self.tokens = sketch.words.longest + 1
        self._sums: dict[tuple, WordHead] = {}

    # ---- sums ----------------------------------------------------------------------------------

    def sum(
        self,
        step: str,
        value: Placed,
        mask: np.ndarray | None,
        causal: bool,
        least: int = 0,
    ) -> Placed:
        """The sum over all places, or those up to here, of a value that is clean.

        It is right to 2^-bits of the largest summand, with as many bits as care asks for.
        """
        if causal or mask is not None:
            self.sketch.check_order(step)
        sublayer = even(value.ready)
        bits = max(least, self.care.bits) + 2 * math.ceil(math.log2(self.tokens))
        weight = 2.0**-bits
        row = self.sketch.linear(value.form)
        size = 2.0 ** math.ceil(math.log2(max(row.bound, 2.0**-20)))
        register = self.sketch.register(step, self.tokens * size)
        register.is_wild = not (causal or self.sketch.sane_start)
        key = (sublayer, causal, bits, None if mask is None else mask.tobytes())
        if key not in self._sums:
            token = self.sketch.token
            self.sketch.needs_start = True
            bias = None if mask is None else np.where(mask, 0.0, -EXCLUDED)
            query = self.sketch.one if self.sketch.sane_start and not causal else token
            keys = [token * -math.log(1 / weight)]
            head = WordHead(step, [query], keys, [], [], Softmax(1.0), causal, bias, "sum")
            self._sums[key] = self.sketch.head(sublayer, head)
        head = self._sums[key]
        head.value.append(row * (1 / size))
        head.output.append({register: size / weight})
        return Placed(WordForm({register: 1.0}), sublayer + 1, causal)

    # ---- hard heads ----------------------------------------------------------------------------

    def attend(
        self,
        step: str,
        rows: Rows,
        value: Placed,
        *,
        causal: bool = False,
        mask: np.ndarray | None = None,
        default: float = 0.0,
        agree: bool = False,
    ) -> Placed:
        """The mean of a value over the places that win; `default` is the start token's.

        Where all that win hold the same, they `agree`.
        """
        if causal or mask is not None:
            self.sketch.check_order(step)
        sublayer = even(max(rows.ready, value.ready))
        row = self.sketch.linear(value.form + -default)
        register = self.sketch.register(step, row.bound)
        register.beyond = row.widest
        bias = None
        if mask is not None:
            bias = np.where(mask, 0.0, -2.0 * self._reach(rows) - EXCLUDED)
        is_scored = bool(rows.query) or bias is not None
        head = WordHead(
            step,
            rows.query,
            rows.key,
            [row],
            [{register: 1.0}],
            self.care.coldness(rows.gap, self.tokens) if is_scored else Softmax(1.0),
            causal,
            bias,
            "choice" if agree else "mean",
            rows.gap,
        )
        same = self._twin(sublayer, head)
        if same is not None:
            same.join(head)
        else:
            self.sketch.head(sublayer, head)
        return Placed(WordForm({register: 1.0}, default), sublayer + 1, False)

    def _twin(self, sublayer: int, head: WordHead) -> WordHead | None:
        """A head of the layer that attends alike: it can bring another value."""
        for other in self.sketch.layers.heads.get(sublayer, []):
            alike = [f.key for f in (*other.query, *other.key)] == [
                f.key for f in (*head.query, *head.key)
            ]
            if (
                alike
                and len(other.query) == len(head.query)
                and other.causal == head.causal
                and other.weighting == head.weighting
                and other.bias is None
                and head.bias is None
            ):
                return other
        return None

    def _reach(self, rows: Rows) -> float:
        return sum(q.bound * k.bound for q, k in zip(rows.query, rows.key, strict=True))

    # ---- scores --------------------------------------------------------------------------------

    def uniform(self) -> Rows:
        """Everybody wins; see `spare_start` for the start token, if there will be one."""
        return Rows([], [], 0, 1.0)

    def spare_start(self) -> None:
        """Heads without scores, too, leave out the start token that other steps brought."""
        token = self.sketch.token
        for head in self.sketch.layers.all_heads:
            if not head.query:
                head.query, head.key, head.gap = [token], [token], 1.0
                head.weighting = self.care.coldness(1.0, self.tokens)

    def by_key(self, keys: Sequence, scores: np.ndarray, start: float | None, gap: float) -> Rows:
        """The same scores for everybody who asks; the start token's, if it matters, becomes 0."""
        placed = self.placing.place_function(keys, scores, clean=True)
        if start is not None:
            self.sketch.needs_start = True
        return Rows([self.sketch.token], [placed.form + -(start or 0.0)], placed.ready, gap)

    def equal(
        self,
        keys: Sequence,
        key_numbers: np.ndarray,
        queries: Sequence,
        query_numbers: np.ndarray,
        start: str,
    ) -> Rows:
        """Parabola routing; all key numbers are whole and at least 1."""
        place = self.placing.place_function
        there = place(keys, key_numbers, clean=True)
        squared = place(keys, key_numbers**2, clean=True)
        here = place(queries, query_numbers)
        query = [here.form * 2.0, self.sketch.token]
        key = [there.form, squared.form * -1.0]
        ready = max(there.ready, squared.ready, here.ready)
        if start == "loses":
            return Rows(query, key, ready, 1.0)
        self.sketch.needs_start = True
        shift = -0.5 if start == "default" else 0.0
        level = place(queries, query_numbers**2 + shift)
        less = self.sketch.token * -1.0
        return Rows([*query, level.form], [*key, less], max(ready, level.ready), 1.0 + shift)

    def related(self, question: Question, start: str) -> Rows:
        """Any relation, by classes of keys or of queries, whichever are fewer."""
        key_class, query_class, table = question.classes()
        table = table.astype(float)
        there, here = np.flatnonzero(table.any(axis=1)), np.flatnonzero(table.any(axis=0))
        shapes = [
            [len(self.placing.items(v)) for v in side] for side in (question.keys, question.queries)
        ]
        place = self.placing.place_function
        query, key, ready = [], [], 0
        by_keys = len(there) <= len(here)
        for one in there if by_keys else here:
            own = (key_class == one).astype(float) if by_keys else table[:, one][key_class]
            asked = table[one][query_class] if by_keys else (query_class == one).astype(float)
            left = place(question.keys, own.reshape(shapes[0]), clean=True)
            right = place(question.queries, asked.reshape(shapes[1]))
            key.append(left.form)
            query.append(right.form)
            ready = max(ready, left.ready, right.ready)
        if start == "loses":
            return Rows(query, key, ready, 1.0)
        self.sketch.needs_start = True
        level = 0.5 if start == "default" else 1.0
        token = self.sketch.token
        return Rows([*query, token], [*key, token * -level], ready, level)
