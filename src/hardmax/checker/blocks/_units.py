"""Hidden units: that a component makes its step right, in every case of what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardmax.checker.blocks._arithmetic import Balls, affine, fed_forward, lost_in
from hardmax.checker.blocks._holding import (
    Cases,
    Distances,
    Holdings,
    Question,
    codes_for,
    numbers_in,
    spread_of,
    start_balls,
    written,
)
from hardmax.checker.blocks._reading import lost_in_frame
from hardmax.checker.blocks._sets import Exact, Unproved
from hardmax.checker.blocks._worths import worths_of
from hardmax.core import Aggregate, Combination, FeedForward, Node, Picked
from hardmax.numerics import above_float, inflate

_CHUNK = 2**23  # numbers held at once
_LARGEST_SUM = (
    2**16
)  # cases of a sum that are gone through; of larger ones the weights are compared


def bound_units(asked: Question, node: Node, holdings: Holdings) -> None:
    """How far the blocks of a node of units are from their codes, at symbols and at the start."""
    layer = asked.transformer.sublayers[node.sublayer]
    assert isinstance(layer, FeedForward)
    read = dict(node.reads)["in"]
    forms = {asked.circuit.blocks[k].form for k in read}
    unit = _Units(asked, node, layer, holdings)
    if "share" in forms or (not read and _is_count(asked, node)):
        found = unit.from_shares(read)
    else:
        found = unit.from_steps(read)
    holdings.symbols.update(found)
    for k, both in unit.at_start(read).items():
        holdings.start[k] = max(both)


def _is_count(asked: Question, node: Node) -> bool:
    step = asked.circuit.blocks[node.writes[0]].step
    return isinstance(asked.sets.step(step), Aggregate)


class _Units:
    def __init__(self, asked: Question, node: Node, layer: FeedForward, holdings: Holdings) -> None:
        self.asked, self.node, self.holdings = asked, node, holdings
        self.format = holdings.format
        some = slice(node.first, node.stop)
        self.inner, self.bias = layer.inner[some], layer.inner_bias[some]
        self.outer = layer.outer[written(asked, node), some]
        self.step = asked.circuit.blocks[node.writes[0]].step
        self.name = node.name

    def _out(self, x: Balls, columns: Sequence[int]) -> Balls:
        """What is written, case by case."""
        inner = self.inner[:, columns]
        middle, radius = [], []
        size = max(1, _CHUNK // max(1, len(inner) + len(columns)))
        for at in range(0, len(x.middle), size):
            some = Balls(x.middle[at : at + size], x.radius[at : at + size])
            one = fed_forward(some, inner, self.bias, self.outer, self.format)
            middle.append(one.middle)
            radius.append(one.radius)
        return Balls(np.concatenate(middle), np.concatenate(radius))

    def _away(self, out: Balls, codes: np.ndarray) -> dict[int, Distances]:
        away = inflate(np.abs(out.middle - codes) + out.radius, 4)
        return spread_of(self.asked, self.node, away, codes)

    def at_start(self, read: Sequence[int]) -> dict[int, Distances]:
        """What is written at the start token is what the blocks say."""
        cases = Cases(self.asked, (), read)
        x = start_balls(self.asked, read, self.holdings)
        blocks = self.asked.blocks(self.node.writes)
        codes = np.array([[one for block in blocks for one in block.at_start]])
        return self._away(self._out(x, cases.columns), codes)

    # ---- functions -----------------------------------------------------------------------------

    def from_steps(self, read: Sequence[int]) -> dict[int, Distances]:
        """A function of what is held here: every case is compared."""
        sets, steps = self.asked.sets, self.asked.steps_of(read)
        made = sets.step(self.step) if self.step not in steps else None
        if isinstance(made, Picked):
            return self._picked(made, read)
        if not set(sets.base(self.step, frozenset(steps))) <= set(steps):
            raise Unproved(f"The component {self.name!r} does not read all that its step needs.")
        cases = Cases(self.asked, steps, read)
        if isinstance(made, Combination) and cases.count > _LARGEST_SUM:
            return self._linear(made, read)
        sets.limit(cases.count, self.step)
        where, answers = numbers_in(cases, self.step, steps, sets)
        balls = cases.balls(self.holdings)
        some = Balls(balls.middle[where], balls.radius[where])
        return self._away(self._out(some, cases.columns), codes_for(self.asked, self.node, answers))

    def _picked(self, made: Picked, read: Sequence[int]) -> dict[int, Distances]:
        """Whatever the other options hold: number and option are fixed, the rest is free.

        A coordinate of a one-hot that is free is anything from 0 to 1.
        """
        sets = self.asked.sets
        blocks = [self.asked.circuit.blocks[k] for k in read]
        if any(block.form != "one-hot" for block in blocks):
            raise Unproved(f"The component {self.name!r} picks among what is not held one-hot.")
        cases = Cases(self.asked, self.asked.steps_of(read), read)
        answers: list[Exact] = []
        middle, radius = [], []
        for number in sets.numbers(made.number):
            option = made.options[int(number)]
            for item in sets.numbers(option):
                if option == made.number and item != number:
                    continue
                fixed = {made.number: number, option: item}
                row, spread = self._fixed(read, fixed)
                middle.append(row)
                radius.append(spread + cases.radius(row, self.holdings))
                answers.append(item)
        x = Balls(np.array(middle), np.array(radius))
        out = self._out(x, cases.columns)
        return self._away(out, codes_for(self.asked, self.node, answers))

    def _fixed(self, read: Sequence[int], fixed: dict[int, Exact]) -> tuple[np.ndarray, np.ndarray]:
        row: list[float] = []
        spread: list[float] = []
        for k in read:
            block = self.asked.circuit.blocks[k]
            if block.step in fixed and fixed[block.step] in block.items:
                row += [float(item == fixed[block.step]) for item in block.items]
                spread += [0.0] * block.width
            elif block.step in fixed:
                raise Unproved(f"The block {block.name!r} has no place for {fixed[block.step]}.")
            else:
                row += [0.5] * block.width
                spread += [0.5 + max(self.holdings.symbols[k])] * block.width
        return np.array([*row, 1.0, 0.0]), np.array([*spread, 0.0, 0.0])

    # ---- sums ----------------------------------------------------------------------------------

    def _linear(self, made: Combination, read: Sequence[int]) -> dict[int, Distances]:
        """A sum of many numbers: its units are linear, and their weights are those of the sum.

        A unit and its opposite, relu(y) - relu(-y), are y; so is a unit that is never negative, but
        for what y may be below 0 by rounding.
        """
        sets, circuit = self.asked.sets, self.asked.circuit
        blocks = [circuit.blocks[k] for k in read]
        kinds = {block.form for block in (*blocks, *self.asked.blocks(self.node.writes))}
        if kinds != {"number"} or len({b.step for b in blocks}) < len(blocks):
            raise Unproved(f"The sum {sets.name(self.step)} of many cases is not one of numbers.")
        weights: dict[int, Fraction] = {}
        for source, weight in zip(made.sources, made.weights, strict=True):
            weights[source] = weights.get(source, Fraction(0)) + Fraction(weight)
        if set(weights) != {b.step for b in blocks}:
            raise Unproved(f"The sum {sets.name(self.step)} adds up other steps than are read.")
        columns = [b.first for b in blocks]
        limits = [sets.numbers(b.step) for b in blocks]
        away = np.array([max(self.holdings.symbols[k]) for k in read])
        largest = np.array([max(abs(float(n)) for n in own) for own in limits]) + away
        inner, outer = self.inner[:, columns], self.outer[0]
        one = self.inner[:, circuit.one] + self.bias
        self._check_opposites(inner, one, outer, limits, away)
        paired = len(inner)  # y for both of a unit and its opposite, once
        total = [
            sum(
                (Fraction(w) * Fraction(i) for w, i in zip(outer, column, strict=True) if w),
                Fraction(0),
            )
            / paired
            for column in (*inner.T, one)
        ]
        wanted = [*(weights[b.step] for b in blocks), Fraction(made.constant)]
        sizes = np.abs(outer) @ np.abs(np.column_stack([inner, one]))
        reach = np.array([*largest, 1.0])
        off = sum(
            (abs(a - w) * Fraction(float(r)) for a, w, r in zip(total, wanted, reach, strict=True)),
            Fraction(0),
        )
        passed = float(sizes[:-1] @ away + self._plain_astray())
        terms = np.array(2 * (inner.shape[1] + len(inner) + 4))
        lost = float(lost_in(terms, inflate(sizes @ reach, 8), self.format))
        turned = lost_in_frame(self.inner[:, [*columns, *self._plain_columns()]], one, self.format)
        lost = float(inflate(lost + np.abs(outer) @ (turned + np.zeros(len(outer))), 8))
        (block,) = self.node.writes
        away_in_all = float(inflate(above_float(off) + 2 * passed + 2 * lost, 8))
        return {block: (away_in_all, away_in_all)}

    def _plain_astray(self) -> float:
        """What sums are off by where the coordinates that are 1, everywhere or at start, stray."""
        plain = np.abs(self.inner[:, self._plain_columns()]).sum(axis=1)
        return float(inflate(np.abs(self.outer[0]) @ plain * self.holdings.adrift, len(plain) + 8))

    def _check_opposites(
        self,
        inner: np.ndarray,
        one: np.ndarray,
        outer: np.ndarray,
        limits: Sequence[Sequence[Exact]],
        away: np.ndarray,
    ) -> None:
        """One unit that is never negative, or two opposite ones."""
        if len(inner) == 2:
            both = (inner[0] == -inner[1]).all() and one[0] == -one[1] and outer[0] == -outer[1]
            if not both:
                raise Unproved(f"The units of {self.name!r} are no unit and its opposite.")
            return
        if len(inner) != 1:
            raise Unproved(f"The sum {self.name!r} of many cases is not linear.")
        least = Fraction(float(one[0]))
        for weight, own in zip(inner[0], limits, strict=True):
            least += min(Fraction(float(weight)) * Fraction(n) for n in own)
        if least < 0:
            raise Unproved(f"The unit of {self.name!r} may be silent.")

    # ---- counts --------------------------------------------------------------------------------

    def from_shares(self, read: Sequence[int]) -> dict[int, Distances]:
        """A count, or a sum: that of the positions that each head selects, times their worth.

        What the units make of each share alone, for each count, adds up. Of one share they may make
        a function of the count right away.
        """
        asked = self.asked
        blocks = [asked.circuit.blocks[k] for k in read]
        counted = blocks[0].step if blocks else self.step
        made = asked.sets.step(counted)
        if not isinstance(made, Aggregate) or made.kind not in ("count", "sum"):
            raise Unproved(f"The component {self.name!r} looks up shares, but makes no count.")
        if any(block.form != "share" or block.step != counted for block in blocks):
            raise Unproved(f"The component {self.name!r} reads shares of another step.")
        if len(read) != 1 and counted != self.step:
            raise Unproved(f"The component {self.name!r} makes no count of several shares.")
        worths = worths_of(asked, counted, made, read)
        if len(read) != 1 and any(b.form != "number" for b in asked.blocks(self.node.writes)):
            raise Unproved(f"The component {self.name!r} adds up shares of several heads.")
        if not read:
            plain = np.full((1, 2), self.holdings.adrift)
            out = self._out(Balls(np.array([[1.0, 0.0]]), plain), self._plain_columns())
            return self._away(out, codes_for(asked, self.node, [0]))
        self._check_separate(read)
        if len(read) == 1:
            return self._one_share(read[0], worths[0], True)[0]
        total = size = 0.0
        for k, worth in zip(read, worths, strict=True):
            found, largest = self._one_share(k, worth, False)
            size += largest
            total += max(max(both) for both in found.values())
        together = lost_in(np.array(len(self.inner)), inflate(np.array(size), 64), self.format)
        away = float(inflate(total + float(together), 64))
        return dict.fromkeys(self.node.writes, (away, away))

    def _answers(self, k: int, numbers: Sequence[Exact]) -> dict[Exact, Exact]:
        """What the step is for each number of the count, where it has an answer."""
        sets, counted = self.asked.sets, self.asked.circuit.blocks[k].step
        if counted == self.step:
            return {number: number for number in numbers}
        if sets.base(self.step, frozenset([counted])) != (counted,):
            raise Unproved(f"The component {self.name!r} reads the share of another step's count.")
        made = {given[0]: answer for given, answer in sets.rows(self.step, (counted,))}
        return {number: made[number] for number in numbers if number in made}

    def _plain_columns(self) -> list[int]:
        return [self.asked.circuit.one, self.asked.circuit.start]

    def _check_separate(self, read: Sequence[int]) -> None:
        places = [self.asked.circuit.blocks[k].first for k in read]
        if len(read) > 1 and ((self.inner[:, places] != 0.0).sum(axis=1) != 1).any():
            raise Unproved(f"A unit of {self.name!r} reads two shares, or none.")

    def _one_share(
        self, k: int, worth: Fraction, alone: bool
    ) -> tuple[dict[int, Distances], float]:
        """How far the part of one share is off, and how large its terms are."""
        asked, first = self.asked, self.asked.circuit.blocks[k].first
        counts = self._counts(k)
        share = np.array([1.0 / (1 + w) for w in counts])
        radius = self.holdings.shares[k][counts]
        columns = [first, *self._plain_columns()]
        x = Balls(
            np.column_stack([share, np.ones(len(counts)), np.zeros(len(counts))]),
            np.column_stack([radius, np.full((len(counts), 2), self.holdings.adrift)]),
        )
        own = np.ones(len(self.inner), dtype=bool) if alone else self.inner[:, first] != 0.0
        inner, bias = self.inner[own][:, columns], self.bias[own]
        out = fed_forward(x, inner, bias, self.outer[:, own], self.format)
        made, spread, lost = affine(x, inner, bias, self.format)
        terms = np.maximum(made + spread + lost, 0.0) @ np.abs(self.outer[:, own]).T
        size = float(inflate(terms.max(initial=0.0), len(self.inner) + 8))
        numbers = [_plain(worth * w) for w in counts]
        if alone:
            answers = self._answers(k, numbers)
            some = [at for at, number in enumerate(numbers) if number in answers]
            codes = codes_for(asked, self.node, [answers[numbers[at]] for at in some])
            return self._away(Balls(out.middle[some], out.radius[some]), codes), size
        return self._away(out, np.array([[float(n)] for n in numbers])), size

    def _counts(self, k: int) -> list[int]:
        """How many positions the head can select: all of them, if it selects everybody."""
        if self.asked.tables[k].is_everybody:
            return [n for n in self.asked.sets.words.lengths if n]
        return list(range(self.asked.longest + 1))


def _plain(number: Fraction) -> Exact:
    return number.numerator if number.denominator == 1 else number
