"""A chain of rectifiers as attention alone, on two data tokens whose slots are used again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hardmax.core import Box, Hardmax, Holding, Transformer
from hardmax.lowering.gadgets import rectifier_head
from hardmax.lowering.networks._rectifiers import Held, Input, Rectified, RectifierForm, Sums
from hardmax.lowering.sketch import (
    Column,
    Form,
    HeadSketch,
    PromptForm,
    PromptHead,
    PromptRegister,
    PromptSketch,
    single,
)

_SINK, _DATA = 0, (1, 2)  # tokens
_TOKENS = 1 + len(_DATA)
_AHEAD = 2.0**-2  # by how much of its size a unit leads the one that shares its slot
_LARGEST = 2.0**500  # such a size; its inverse is the smallest


def is_chain(form: RectifierForm) -> bool:
    """Whether each level reads nothing but the one before, each unit in one way.

    That is a ReLU network of two hidden layers or more: what one layer has read, nobody reads
    again, so that its slots are free for the next.
    """
    if form.depth < 2 or set(form.levels[form.answer.units].tolist()) != {form.depth}:
        return False
    read: dict[int, Held | Rectified] = {}
    for sums in form.sums:
        if (sums.continues >= 0).any() or not sums.is_affine_step:
            return False
        for _, term in form.live_terms(sums):
            if form.level_of(term) != sums.level - 1:
                return False
            if isinstance(term, Input):
                continue
            unit = term.unit if isinstance(term, Held) else term.alone
            if unit is None or read.setdefault(unit, term) != term:
                return False
    return True


class _Seats:
    """Which token and which slot holds which unit, by level: those that switch share heads."""

    def __init__(self, form: RectifierForm) -> None:
        self.form = form
        rectified = {
            term.alone
            for sums in form.sums
            for _, term in form.live_terms(sums)
            if isinstance(term, Rectified)
        }
        self.token: dict[int, int] = {}
        self.slot: dict[int, int] = {}
        self.switching: list[range] = []  # slots, by level
        self.used: list[int] = []  # how many slots, by level
        for level in range(form.depth + 1):
            units = np.flatnonzero(form.levels == level).tolist()
            first = [unit for unit in units if unit in rectified]
            rest = [unit for unit in units if unit not in rectified]
            tokens = self.tokens_of(level)
            start = self._seat(first, 0, tokens)
            self.switching.append(range(start))
            self.used.append(self._seat(rest, start, tokens))
        self.width = max(self.used)

    def _seat(self, units: list[int], start: int, tokens: Sequence[int]) -> int:
        for number, unit in enumerate(units):
            self.token[unit] = tokens[number % len(tokens)]
            self.slot[unit] = start + number // len(tokens)
        return start + -(-len(units) // len(tokens))

    def tokens_of(self, level: int) -> Sequence[int]:
        """Those that hold units of a level; the answer is read from the last one alone."""
        return _DATA if level < self.form.depth else _DATA[-1:]

    def units_on(self, level: int, token: int) -> list[int]:
        units = np.flatnonzero(self.form.levels == level).tolist()
        return [unit for unit in units if self.token[unit] == token]

    def cleared(self, level: int) -> range:
        """Slots that are cleared once a level has been read; at the end, those of the answer."""
        last = level + 1 == self.form.depth
        return range(min(self.used[level], self.used[level + 1]) if last else self.used[level])


@dataclass(frozen=True, eq=False)
class _Weights:
    """From the units of one level to those of the next."""

    by_unit: dict[int, tuple[dict[int, float], float]]  # reader -> weights of units, bias

    @classmethod
    def of(cls, form: RectifierForm, level: int) -> _Weights:
        found = {}
        for sums in form.sums:
            if sums.level != level:
                continue
            units = [_unit(term) for term in sums.terms]
            for row, reader in enumerate(sums.units.tolist()):
                own = sums.weights[row].tolist()
                weights = {u: w for u, w in zip(units, own, strict=True) if w and u is not None}
                found[reader] = weights, float(sums.bias[row])
        return cls(found)


def _unit(term: Input | Held | Rectified) -> int | None:
    match term:
        case Held(unit=unit):
            return unit
        case Rectified():
            return term.alone
        case _:
            return None


class PairStream:
    """The sketch of a chain on two data tokens, and what it holds.

    The prompt is (sink, p, q). Half of a level's units are on p, half on q, in the same slots, so
    that the stream is about half as wide as the widest level. There are two attention layers for
    each level that is read.

    *Rectifiers.* One head for a slot adds relu(-z) to it on p and on q, each token looking at
    itself and at the sink (`rectifier_head`). The sink and p see no later token; from q, p trails
    q by a position bias: their keys are equal, and so p never wins, whatever it holds.

    *The next level.* A head without keys, routed by position biases alone, for each pair of
    tokens: b takes from a the weights times what a holds, while all other tokens look at the
    sink, which holds 0. In the same layer one more head, in which every token looks at itself,
    takes the old numbers away. Biases are written from a register that holds 1 on p and q.
    There is a value for each number read, or for each number written, whichever are fewer.

    Exact in the hard semantics for every point of the domain: weights are copied, never added,
    and what is taken away is what was there.

    Dense parameters of L layers of n neurons, n even and all of them switching, w = n/2 + 2: each
    layer has n/2 heads of 4 w + 9, and each but the last one 5 n w + 9 h more, in h heads, about
    as many as rectify: 7/2 n^2 and lower terms, where the network has n^2 + n. Nonzero weights:
    its own, 5 for each head that rectifies, 1 for each number that a head writes, 2 for each that
    is cleared, 6 for the biases of each head that routes, 5 of the prompt, and one per output.
    """

    def __init__(self, form: RectifierForm, domain: Box) -> None:
        self.form, self.seats = form, _Seats(form)
        self.sketch = PromptSketch(_TOKENS, form.inputs)
        self.slots = [self.sketch.register(f"slot {i}") for i in range(self.seats.width)]
        self.flag = self.sketch.register("flag", (-0.5, 0.5, 0.5))
        self.one = self.sketch.register("one", (0.0, 1.0, 1.0))
        self.sizes = _typical_sizes(form, domain)
        for sums in form.sums:
            if not sums.level:
                self._start(sums)
        self.holdings = self._holdings(0)
        for level in range(form.depth):
            self.sketch.attend([self._rectifier(level, i) for i in self.seats.switching[level]])
            self.holdings += self._holdings(level, rectified=True)
            heads = [*self._next(level), self._clearing(level)]
            self.sketch.attend(_even(heads, len(self.seats.switching[level])))
            self.holdings += self._holdings(level + 1)

    def _start(self, sums: Sums) -> None:
        inputs = [(j, term.index) for j, term in enumerate(sums.terms) if isinstance(term, Input)]
        columns, places = (list(part) for part in zip(*inputs, strict=True)) if inputs else ([], [])
        for row, unit in enumerate(sums.units.tolist()):
            start = self._register(unit).start[self.seats.token[unit]]
            start[places] = sums.weights[row, columns]
            start[-1] = sums.bias[row]

    def _register(self, unit: int) -> PromptRegister:
        return self.slots[self.seats.slot[unit]]

    def transformer(self) -> Transformer:
        answer = self.form.answer
        rows: list[Column] = [{} for _ in answer.bias]
        for unit, column in zip(answer.units.tolist(), answer.weights.T.tolist(), strict=True):
            for row, weight in zip(rows, column, strict=True):
                if weight:  # two outputs may be one unit
                    register = self._register(unit)
                    row[register] = row.get(register, 0.0) + weight
        answers: list[PromptForm] = list(map(Form, rows, answer.bias.tolist()))
        return self.sketch.transformer(answers, _DATA[-1])

    def _rectifier(self, level: int, slot: int) -> PromptHead:
        """z + relu(-z) on both data tokens; from q, p trails by a quarter of their typical size."""
        register = self.slots[slot]
        units = [u for a in _DATA for u in self.seats.units_on(level, a)]
        size = max(self.sizes[u] for u in units if self.seats.slot[u] == slot)
        head = rectifier_head(single(register, -1.0), {register: 1.0}, flag=self.flag)
        head.bias = np.zeros((_TOKENS, _TOKENS))
        head.bias[_DATA[1], _DATA[0]] = -_AHEAD * 2.0 ** math.ceil(math.log2(size))
        return head

    def _next(self, level: int) -> list[PromptHead]:
        weights = _Weights.of(self.form, level + 1)
        heads = []
        for b in self.seats.tokens_of(level + 1):
            for a in _DATA:
                values, columns = self._block(weights, level, a, b)
                if values:
                    heads.append(_routed({b: a}, values, columns))
        return heads

    def _block(
        self, weights: _Weights, level: int, a: int, b: int
    ) -> tuple[list[PromptForm], list[Column]]:
        """What b reads from a, and where it is added; the biases come from the first token."""
        sources, readers = self.seats.units_on(level, a), self.seats.units_on(level + 1, b)
        has_bias = a == _DATA[0]
        if len(readers) <= len(sources):
            values, columns = [], []
            for reader in readers:
                own, bias = weights.by_unit[reader]
                terms = {self._register(u): own[u] for u in sources if u in own}
                if has_bias and bias:
                    terms[self.one] = bias
                if terms:
                    values.append(Form(terms))
                    columns.append({self._register(reader): 1.0})
            return values, columns
        pairs = [(single(self._register(u)), self._column(weights, readers, u)) for u in sources]
        biases = {self._register(r): weights.by_unit[r][1] for r in readers if has_bias}
        pairs.append((single(self.one), {r: bias for r, bias in biases.items() if bias}))
        kept = [(value, column) for value, column in pairs if column]
        return [value for value, _ in kept], [column for _, column in kept]

    def _column(self, weights: _Weights, readers: list[int], unit: int) -> Column:
        found = {self._register(r): weights.by_unit[r][0].get(unit, 0.0) for r in readers}
        return {register: weight for register, weight in found.items() if weight}

    def _clearing(self, level: int) -> PromptHead:
        slots = [self.slots[i] for i in self.seats.cleared(level)]
        looks = {token: token for token in _DATA}
        return _routed(looks, [single(s) for s in slots], [{s: -1.0} for s in slots])

    def _holdings(self, level: int, *, rectified: bool = False) -> list[Holding]:
        result = []
        for statement in self.form.statements:
            if statement.level != level or statement.rectified != rectified:
                continue
            tokens = np.array([self.seats.token[u] for u in statement.units.tolist()])
            for token in _DATA:
                rows = np.flatnonzero(tokens == token)
                if len(rows):
                    registers = [self._register(u) for u in statement.units[rows].tolist()]
                    found = statement.components[rows]
                    result.append(self.sketch.holding(token, registers, statement.value, found))
        return result


def _routed(looks: dict[int, int], values: list[PromptForm], columns: list[Column]) -> PromptHead:
    """A head in which token t looks at token looks[t], and all others at the sink, by biases."""
    bias = np.full((_TOKENS, _TOKENS), -1.0)
    for token in range(_TOKENS):
        bias[token, looks.get(token, _SINK)] = 0.0
    return HeadSketch("", [], [], values, columns, Hardmax(), bias=bias)


def _even(heads: list[PromptHead], count: int) -> list[PromptHead]:
    """About as many heads as rectify, so that a stack of uniform heads has few empty rows.

    Without keys, each of them costs no more than its biases.
    """
    total = sum(len(head.value) for head in heads)
    most = max(1, -(-total // max(count, 1)))
    result = []
    for head in heads:
        if not head.value:
            continue
        pieces = -(-len(head.value) // most)
        ends = [len(head.value) * i // pieces for i in range(pieces + 1)]
        for a, b in pairwise(ends):
            values, columns = head.value[a:b], head.output[a:b]
            result.append(HeadSketch("", [], [], values, columns, Hardmax(), bias=head.bias))
    return result


def _typical_sizes(form: RectifierForm, domain: Box) -> dict[int, float]:
    """About how large each unit is, by the squares of independent numbers, half of them off.

    Never used in a proof: any number > 0 makes an exact Transformer.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _typical(form, domain)


def _typical(form: RectifierForm, domain: Box) -> dict[int, float]:
    box = domain.interval
    inputs = box.middle**2 + (box.hi - box.lo) ** 2 / 12.0
    squares: dict[int, float] = {}
    for sums in form.sums:
        read = [_square(term, inputs, squares) for term in sums.terms]
        found = (sums.weights**2 @ np.array(read) if read else 0.0) + sums.bias**2
        squares.update(zip(sums.units.tolist(), found.tolist(), strict=True))
    return {unit: _bounded(math.sqrt(square)) for unit, square in squares.items()}


def _bounded(size: float) -> float:
    return min(max(size, 1.0 / _LARGEST), _LARGEST) if size == size else 1.0


def _square(term: Input | Held | Rectified, inputs: np.ndarray, squares: dict[int, float]) -> float:
    match term:
        case Input(index=index):
            return float(inputs[index])
        case Held(unit=unit):
            return squares[unit]
        case Rectified(reading=reading):
            return 0.5 * sum(factor**2 * squares[unit] for unit, factor in reading)
