"""Heads: that a head attends to what its step selects, and sends what is held there.

Theorem (rows). Let selected scores lie within d of each other, others and the start token g below
them, for tokens of at most n symbols, coldness b. Weights are proportional to e^(b score). So a row
is within n e^(-b g) + (e^(b d) - 1)/2 of uniform on the selected ones, in its largest entry: all
others together have at most n e^(-b g); of w >= 2 selected ones each has 1/w times a factor between
e^(-b d) and e^(b d). What is sent is a mean of what is held there: off by what that is off, plus
the weight of others times how large values are; a mean of equal values is their value whatever the
weights. Where start and selected have one score, the start token's share is 1/(1 + w), off by
(w (e^(b d) - 1) + n e^(-b g)) e^(b d)/(1 + w)^2 at most: 1/(1 + x) - 1/(1 + x + y) <= y/(1 + x)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardmax.checker.blocks._arithmetic import (
    Balls,
    affine,
    check_sizes,
    growth,
    lost_in,
    power,
)
from hardmax.checker.blocks._holding import (
    Cases,
    Distances,
    Holdings,
    Question,
    ShareTable,
    axes_of,
    codes_for,
    spread_of,
    start_balls,
    written,
)
from hardmax.checker.blocks._places import (
    NOTHING,
    PairClasses,
    classes_of,
    has_mask,
    start_bias,
    tied_by_place,
)
from hardmax.checker.blocks._scores import Scores, ends_of_scores, factors
from hardmax.checker.blocks._sets import Unproved
from hardmax.core import Aggregate, Attention, Head, Node, Softmax, plain
from hardmax.numerics import Format, down, gamma, inflate, is_power_of_two

_MOST = 2**23  # scores in one table


def bound_head(asked: Question, node: Node, holdings: Holdings) -> None:
    """How far the blocks of a head are from their codes, at symbols and at the start token."""
    layer = asked.transformer.sublayers[node.sublayer]
    assert isinstance(layer, Attention)
    head = _Head(asked, node, layer.heads[node.first], holdings)
    if any(asked.circuit.blocks[k].form == "share" for k in node.writes):
        head.bound_share()
    else:
        head.bound_values()


class _Head:
    def __init__(self, asked: Question, node: Node, head: Head, holdings: Holdings) -> None:
        self.asked, self.node, self.head, self.holdings = asked, node, head, holdings
        self.sets, self.format = asked.sets, holdings.format
        self.step = asked.circuit.blocks[node.writes[0]].step
        made = asked.sets.step(self.step)
        if not isinstance(made, Aggregate):
            raise Unproved(
                f"The head {node.name!r} makes {asked.sets.name(self.step)}, no aggregate."
            )
        self.made = made
        self.reads = dict(node.reads)
        self.tokens = asked.tokens
        assert isinstance(head.weighting, Softmax)
        self.coldness = head.weighting.coldness
        self.own = written(asked, node)
        if head.position_bias is not None:  # all of it is stored, hidden or not
            largest = float(np.abs(head.position_bias[: self.tokens, : self.tokens]).max())
            check_sizes(self.format, self.coldness * largest)

    # ---- scores --------------------------------------------------------------------------------

    def _projected(self, x: Balls, matrix: np.ndarray, columns: Sequence[int]) -> Balls:
        middle, spread, lost = affine(x, matrix[:, columns], None, self.format)
        return Balls(middle, spread + lost)

    def _factors(self, x: Balls, matrix: np.ndarray, columns: Sequence[int]) -> Balls:
        return factors(x, matrix[:, columns], self.coldness, self.format)

    def _scores(self, here: Cases, there: Cases, pairs: PairClasses) -> Scores:
        """What every case here gives to every case there, and to the start token."""
        if here.count * there.count * pairs.count > _MOST:
            raise Unproved(f"The head {self.node.name!r} has too many cases.")
        query = self._factors(here.balls(self.holdings), self.head.query, here.columns)
        key = self._factors(there.balls(self.holdings), self.head.key, there.columns)
        start = self._factors(there.start(self.holdings), self.head.key, there.columns)
        first = start_bias(self.head, self.node.name, self.asked.longest)
        present = pairs.present(here, there)
        return self._ends(query, key, start, (pairs.bias, first), present)

    def _ends(
        self,
        query: Balls,
        key: Balls,
        start: Balls,
        bias: tuple[np.ndarray, float],
        present: np.ndarray | None = None,
    ) -> Scores:
        return ends_of_scores((query, key, start), bias, self.coldness, self.format, present)

    def _others(self, gap: float) -> float:
        """The weight of all tokens together whose scores are at least so far below the best."""
        return float(inflate(self.tokens * power(gap, self.coldness, self.format, self.tokens), 4))

    def _start_row(self, there: Cases) -> float:
        """How much of the start token's own row goes to symbols: nothing if it sees none."""
        if self.head.causal:
            return 0.0
        read = self.reads["q"]
        columns = Cases(self.asked, (), read).columns
        query = self._factors(
            start_balls(self.asked, read, self.holdings), self.head.query, columns
        )
        key = self._factors(there.balls(self.holdings), self.head.key, there.columns)
        start = self._factors(there.start(self.holdings), self.head.key, there.columns)
        bias, n = self.head.position_bias, self.asked.longest
        own = np.zeros(1) if bias is None else bias[0, 1 : n + 1].max(keepdims=True)
        found = self._ends(query, key, start, (own, 0.0 if bias is None else float(bias[0, 0])))
        gap = float(found.start_low.min() - found.high.max())
        return self._others(_surely(gap))

    def _keep_rows(self, away: float) -> None:
        self.holdings.rows = max(self.holdings.rows, min(away, 1.0))

    # ---- shares --------------------------------------------------------------------------------

    def bound_share(self) -> None:
        """The start token's share of the rows, for every number of positions selected."""
        (block,) = self.node.writes
        self._check_share(block)
        queries, keys = (self.asked.steps_of(self.reads[port]) for port in ("q", "k"))
        here = Cases(self.asked, queries, self.reads["q"])
        there = Cases(self.asked, keys, self.reads["k"])
        masked = has_mask(self.head)
        tied = tied_by_place(self.sets, self.step) if masked else NOTHING
        axes = [("q", s) for s in queries] + [("k", s) for s in keys]
        pairs = classes_of(
            self.head, self.node.name, self.asked.longest, np.array(False), [], tied, axes
        )
        scores = self._scores(here, there, pairs)
        middle = 0.5 * (scores.low + scores.high) - 0.5 * (scores.start_low + scores.start_high)
        selected = (middle > -0.5) & scores.present
        table = selected.reshape(here.count, there.count, pairs.count).transpose(1, 0, 2)
        table = table.reshape((*there.shape, *here.shape, pairs.count))
        self._keep_table(block, ShareTable(keys, queries, table, pairs.number, masked))
        spread, gap = self._share_gaps(scores, selected)
        self._share(block, spread, gap, self._flag_astray(there))
        away = float(self.holdings.shares[block].max())
        self.holdings.symbols[block] = (away, away)
        others = self._start_row(there)
        own = others + self._sum_lost(others, True) + self._flag_astray(there)
        self.holdings.start[block] = float(inflate(own, 4))

    def _check_share(self, block: int) -> None:
        """What is sent is 1 by the start token, and 0 by everybody else."""
        form = self.asked.circuit.blocks[block]
        if self.made.kind not in ("count", "sum") or form.at_start != (1.0,) or form.items:
            raise Unproved(f"The share of {form.name!r} belongs to no count.")
        sent = self.head.output[form.first] @ self.head.value
        wanted = np.zeros(len(sent))
        wanted[self.asked.circuit.start] = 1.0
        used = self.head.output[form.first] != 0.0
        plain = (self.head.value[used] != 0.0).sum() == 1 and used.sum() == 1
        if (sent != wanted).any() or not plain or not is_power_of_two(self.head.value[used]).all():
            raise Unproved(f"The head {self.node.name!r} does not send the start token's share.")

    def _keep_table(self, block: int, table: ShareTable) -> None:
        known = self.asked.tables.setdefault(block, table)
        if known.table.shape != table.table.shape or (known.table != table.table).any():
            raise Unproved(f"What the head {self.node.name!r} selects differs between formats.")

    def _share_gaps(self, scores: Scores, selected: np.ndarray) -> tuple[float, float]:
        """How far scores of selected positions are from the start token's; how far others below."""
        above = np.where(selected, scores.high - scores.start_low, 0.0)
        below = np.where(selected, scores.start_high - scores.low, 0.0)
        spread = float(max(above.max(initial=0.0), below.max(initial=0.0)))
        gaps = np.where(selected | ~scores.present, np.inf, scores.start_low - scores.high)
        return float(inflate(spread, 4)), _surely(float(gaps.min(initial=np.inf)))

    def _flag_astray(self, there: Cases) -> float:
        """How far what is sent is from 1 at the start token, or from 0 elsewhere.

        A mean of what is so far off is no further off, but for what the mean rounds of that.
        """
        both = (there.balls(self.holdings), there.start(self.holdings))
        away = max(float(self._sent(x, there.columns).radius.max(initial=0.0)) for x in both)
        return float(inflate(away * (1.0 + gamma(2 * self.tokens + 8, self.format)), 8))

    def _share(self, block: int, spread: float, gap: float, sent: float) -> None:
        others = self._others(gap)
        grown = growth(spread, self.coldness, self.format, self.tokens)
        if not grown < np.inf or not others < np.inf:
            raise Unproved(f"The scores of {self.node.name!r} are neither equal nor apart.")
        counts = np.arange(self.asked.longest + 1)
        moved = (counts * grown + others) * (1.0 + grown) / (1.0 + counts) ** 2
        lost = self._sum_lost(others, spread == 0.0)
        shares = moved + lost * (1.0 / (1.0 + counts) + moved) + sent
        self.holdings.shares[block] = inflate(shares, 16)
        self._keep_rows(float(inflate(grown / 2 + others + lost, 8)))

    def _sum_lost(self, others: float, equal: bool) -> float:
        """What dividing by the sum of powers rounds, relatively.

        Sums of ones are exact, and what others add is too little to change them.
        """
        whole = self.tokens <= 2.0 ** min(self.format.digits, 53)
        if equal and whole and others <= self.format.unit / 4:
            return float(gamma(3, self.format))
        return float(gamma(self.tokens + 4, self.format))

    # ---- values --------------------------------------------------------------------------------

    def bound_values(self) -> None:
        """A mean, an extreme, or what the only one selected holds; the default if nothing is."""
        made, asked = self.made, self.asked
        if made.kind not in ("mean", "min", "max") or made.value is None:
            raise Unproved(f"The head {self.node.name!r} makes no mean and no extreme.")
        queries = asked.steps_of(self.reads["q"])
        keys = asked.steps_of([*self.reads["k"], *self.reads["v"]])
        here = Cases(asked, queries, self.reads["q"])
        there = Cases(asked, keys, list(dict.fromkeys([*self.reads["k"], *self.reads["v"]])))
        pairs = self._pairs(queries, keys)
        scores = self._scores(here, there, pairs)
        selected = self._selected(queries, keys, pairs) & scores.present
        values = [one for one in self._values(keys) for _ in range(pairs.count)]
        spread, gap = self._gaps(scores, selected, values)
        others = self._others(gap)
        uneven = made.kind == "mean" and not made.agree
        if uneven and any(block.form != "number" for block in asked.blocks(self.node.writes)):
            raise Unproved(
                f"The head {self.node.name!r} writes the mean of what differs, and not as a number."
            )
        grown = growth(spread, self.coldness, self.format, self.tokens)
        if not others < np.inf or (uneven and not grown < np.inf):
            raise Unproved(f"The scores of {self.node.name!r} are not apart, or not equal.")
        lost = self._sum_lost(others, spread == 0.0)
        self._keep_rows(float(inflate(grown / 2 + others + lost, 8)))
        ever = selected.any(axis=0).reshape(there.count, pairs.count).any(axis=1)
        self._bound_sent(there, ever, values[:: pairs.count], others + (grown if uneven else 0.0))

    def _pairs(self, queries: Sequence[int], keys: Sequence[int]) -> PairClasses:
        """Pairs of places, by what the mask and the step's relation say of them."""
        chosen = self.made.selection
        axes = [("q", s) for s in queries] + [("k", s) for s in keys]
        own = [("k", s) for s in chosen.keys] + [("q", s) for s in chosen.queries]
        table = self.sets.relation(self.step)
        tied = tied_by_place(self.sets, self.step) if has_mask(self.head) else NOTHING
        read = {axis for axis in axes if axis[1] not in tied.numbers}
        if not {axis for axis in own if axis[1] not in tied.numbers} <= read:
            own, table = self._essential(own, table)
        if not {axis for axis in own if axis[1] not in tied.numbers} <= read:
            raise Unproved(f"The head {self.node.name!r} does not read all that it selects by.")
        places = self.asked.longest
        return classes_of(self.head, self.node.name, places, table, own, tied, axes)

    def _selected(
        self, queries: Sequence[int], keys: Sequence[int], pairs: PairClasses
    ) -> np.ndarray:
        """The step's relation, as cases here x cases there, classes of pairs included."""
        axes = [("q", s) for s in queries] + [("k", s) for s in keys]
        shape = [len(self.sets.numbers(s)) for _, s in axes]
        by_class = ("class", 0)
        table = axes_of(pairs.selected, [by_class, *pairs.free], [*axes, by_class])
        full = np.broadcast_to(table, [*shape, pairs.count])
        here = int(np.prod([len(self.sets.numbers(s)) for s in queries], dtype=int))
        return np.asarray(full).reshape(here, -1)

    def _essential(
        self, own: list[tuple[str, int]], table: np.ndarray
    ) -> tuple[list[tuple[str, int]], np.ndarray]:
        """Without the axes along which the table is constant."""
        for axis in reversed(range(table.ndim)):
            if (table == table.take([0], axis=axis)).all():
                table = table.take(0, axis=axis)
                own = own[:axis] + own[axis + 1 :]
        return own, table

    def _values(self, keys: Sequence[int]) -> list:
        """What the step is about, in every case there; nothing where its function refuses."""
        assert self.made.value is not None
        base = self.sets.base(self.made.value, frozenset(keys))
        shape = [len(self.sets.numbers(s)) for s in keys]
        found = np.full([len(self.sets.numbers(s)) for s in base], None, dtype=object)
        places = [{n: k for k, n in enumerate(self.sets.numbers(s))} for s in base]
        for given, answer in self.sets.rows(self.made.value, base):
            found[tuple(place[n] for place, n in zip(places, given, strict=True))] = answer
        axes = axes_of(found, [("k", s) for s in base], [("k", s) for s in keys])
        return list(np.broadcast_to(axes, shape).reshape(-1))

    def _gaps(self, scores: Scores, selected: np.ndarray, values: list) -> tuple[float, float]:
        """How far equally good positions are apart; how far all others, and the start, are below.

        Where nothing is selected, how far everybody is below the start token.
        """
        there = scores.present & ~selected
        aside = np.where(there, scores.high, -np.inf).max(axis=1, initial=-np.inf)
        start_low, start_high = scores.start_low[:, 0], scores.start_high[:, 0]
        gap = float((start_low - aside).min(initial=np.inf))
        spread = 0.0
        below = np.maximum(aside, start_high)
        for group in self._ranked_groups(values):
            mine = selected[:, group]
            low = np.where(mine, scores.low[:, group], np.inf).min(axis=1, initial=np.inf)
            high = np.where(mine, scores.high[:, group], -np.inf).max(axis=1, initial=-np.inf)
            some = mine.any(axis=1)
            if some.any():
                gap = min(gap, float((low - below)[some].min()))
                spread = max(spread, float(self._apart(scores, group, mine)[some].max()))
            below = np.maximum(below, high)
        return float(inflate(spread, 4)) if spread > 0 else 0.0, _surely(gap)

    def _apart(self, scores: Scores, group: list[int], mine: np.ndarray) -> np.ndarray:
        """How far scores of selected positions are apart, for each case here.

        Where all of them have one key, the case here does not matter, exact or not.
        """
        low = np.where(mine, scores.low[:, group], np.inf).min(axis=1, initial=np.inf)
        high = np.where(mine, scores.high[:, group], -np.inf).max(axis=1, initial=-np.inf)
        own = np.where(mine, scores.own[:, group], 0.0).max(axis=1, initial=0.0)
        kind = scores.kinds[group]
        first = np.where(mine, kind, len(scores.kinds)).min(axis=1, initial=len(scores.kinds))
        last = np.where(mine, kind, -1).max(axis=1, initial=-1)
        return np.where(first == last, np.minimum(2.0 * own, high - low), high - low)

    def _ranked_groups(self, values: list) -> list[list[int]]:
        """Cases there from the worst value to the best; for a mean, all of them together."""
        if self.made.kind == "mean":
            return [list(range(len(values)))]
        held: dict = {}
        for k, value in enumerate(values):
            if value is not None:
                held.setdefault(value, []).append(k)
        return [held[v] for v in sorted(held, reverse=self.made.kind == "min")]

    def _bound_sent(self, there: Cases, ever: np.ndarray, values: list, others: float) -> None:
        """What is sent is the code of what is held, by everybody who is ever selected."""
        x = there.balls(self.holdings)
        sent = self._sent(x, there.columns)
        where = [int(k) for k in np.flatnonzero(ever) if values[k] is not None]
        codes = codes_for(self.asked, self.node, [values[k] for k in where])
        first = self._sent(there.start(self.holdings), there.columns)
        default = codes_for(self.asked, self.node, [plain(Fraction(self.made.default))])
        off = np.abs(sent.middle[where] - codes) + sent.radius[where]
        off_first = np.abs(first.middle - default) + first.radius
        sizes = [self._sent_size(one, there.columns) for one in (x, there.start(self.holdings))]
        size = np.concatenate([*sizes, np.abs(default)]).max(axis=0, keepdims=True)
        terms_sent, terms_first = sizes[0][where], np.maximum(sizes[1], np.abs(default))
        check_sizes(self.format, size * self.tokens)
        terms = np.array(self.tokens + self.head.value.shape[0] + 8)
        leaked = 2.0 * others * size
        # Where all who are selected hold 0 there is little to round. A mean of numbers that differ
        # is no larger than the largest, which is one of the cases.
        off += lost_in(terms, inflate(terms_sent + leaked, 8), self.format)
        off_first += lost_in(terms, inflate(terms_first + leaked, 8), self.format)
        self.holdings.symbols.update(self._spread(off, codes, off_first, default, leaked))
        self._bound_start(there, first, size, lost_in(terms, size, self.format))

    def _bound_start(self, there: Cases, first: Balls, size: np.ndarray, lost: np.ndarray) -> None:
        """The start token attends to itself, and holds what its blocks say."""
        blocks = self.asked.blocks(self.node.writes)
        said = np.array([[one for block in blocks for one in block.at_start]])
        leaked = 2.0 * self._start_row(there) * size
        away = inflate(np.abs(first.middle - said) + first.radius + leaked + lost, 16)
        for k, both in spread_of(self.asked, self.node, away, said).items():
            self.holdings.start[k] = max(both)

    def _spread(
        self,
        off: np.ndarray,
        codes: np.ndarray,
        off_first: np.ndarray,
        default: np.ndarray,
        leaked: np.ndarray,
    ) -> dict[int, Distances]:
        """Of what is sent: a mean of ones that are lit is lit, one of others is not."""
        away = inflate(np.concatenate([off, off_first]) + leaked, 16)
        return spread_of(self.asked, self.node, away, np.concatenate([codes, default]))

    def _sent_size(self, x: Balls, columns: Sequence[int]) -> np.ndarray:
        """Of the terms of what is sent: values that cancel there are rounded before they do."""
        held = self._projected(x, self.head.value, columns)
        sizes = (np.abs(held.middle) + held.radius) @ np.abs(self.head.output[self.own]).T
        return np.asarray(inflate(sizes, len(self.head.value) + 8))

    def _sent(self, x: Balls, columns: Sequence[int]) -> Balls:
        held = self._projected(x, self.head.value, columns)
        output = self.head.output[self.own]
        middle, spread, lost = affine(held, output, None, self.format)
        return Balls(middle, spread + lost)


def _surely(gap: float) -> float:
    """A gap that was computed in two roundings, from below."""
    return float(down(down(gap)))


def about_heads(format: Format) -> str:
    """What is assumed of softmax beside its exponentials."""
    return f"{format.name}: exp(0) is 1, and sums of ones are exact."
