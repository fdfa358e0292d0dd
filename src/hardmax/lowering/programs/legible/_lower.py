"""A program becomes a Transformer that can be read: one step, one component, one named block."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import (
    GIVEN,
    INDEX,
    SYMBOL,
    Aggregate,
    Circuit,
    Claim,
    Combination,
    Construction,
    Legend,
    Picked,
    Pointwise,
    ReadOut,
    SequenceInput,
    Share,
    Transformer,
    Words,
)
from hardmax.languages.programs import Program, ProgramTarget, Scored, Value
from hardmax.lowering.programs.legible._cases import cases_of
from hardmax.lowering.programs.legible._needs import NUMBER, ONE_HOT, Means
from hardmax.lowering.programs.legible._scoring import scores_of
from hardmax.lowering.programs.legible._sheet import (
    COLDNESS,
    ONE,
    START,
    Component,
    DrawnHead,
    Held,
    Row,
    Sheet,
    Unit,
    added,
)
from hardmax.lowering.programs.legible._showing import with_showings
from hardmax.lowering.programs.legible._units import case, falling_staircase, linear, staircase
from hardmax.numerics import Format

ROUTE = "legible"
_MOST_UNITS = 2**13
_ROOM = 0.25  # of the spacing of answers is claimed


def lower_legibly(
    program: Program, words: Words, *, positions: str, format: Format
) -> Construction:
    """One step, one component, one named block; every selection a visible pattern."""
    if positions != "one-hot":
        raise RequestError(
            f"Legible models hold the index one-hot, and not {positions!r}: leave positions out, "
            f'or say positions="one-hot".'
        )
    target = ProgramTarget(program, words, closed=True)
    return with_showings(_Drawing(target).construction(format))


class _Drawing:
    def __init__(self, target: ProgramTarget) -> None:
        self.target, self.words = target, target.words
        self.closed = target.closed_steps
        self.means = Means(self.closed)
        self.sheet = Sheet(
            self.closed, self.words.longest, self.means.shown, kinds=self.means.kinds
        )
        self.rows: dict[int, list[tuple[int, Row]]] = {}
        for step in (SYMBOL, INDEX, *range(GIVEN, GIVEN + len(self.closed.steps.steps))):
            if step in self.means.needs:
                self._make(step)

    # ---- what is read --------------------------------------------------------------------------

    def _numbers(self, step: int) -> list[float]:
        return [float(n) for n in self.closed.numbers[step]]

    def _held(self, step: int, *forms: str) -> Held:
        for form in forms:
            held = self.sheet.held(step, form)
            if held is not None:
                return held
        raise AssertionError(f"the step {self.closed.name(step)!r} is not held")

    def _number(self, step: int) -> Row:
        """The number of a step; of one that is held one-hot alone, its items' numbers added up."""
        held = self._held(step, NUMBER, ONE_HOT)
        return held.read([1.0] if held.form == NUMBER else [float(n) for n in held.items])

    def _items(self, step: int) -> list[Row]:
        """A linear form for each number, 1 where the step holds it; none if nobody looks for it."""
        held = self._held(step, ONE_HOT)
        return [
            held.read([float(n == own) for own in held.items]) for n in self.closed.numbers[step]
        ]

    def _ready(self, blocks: Iterable[Held], kind: int) -> int:
        """The first sublayer of a kind (0 attention, 1 feed-forward) after blocks are there."""
        after = max((block.time for block in blocks), default=-1) + 1
        return after + (after % 2 != kind)

    # ---- steps ---------------------------------------------------------------------------------

    def _make(self, step: int) -> None:
        if step in self.means.kinds:
            return self._embed(step)
        made = self.means.step(step)
        match made:
            case Aggregate(kind="count" | "sum"):
                return self._count(step)
            case Aggregate():
                return self._gather(step, made)
            case Combination():
                return self._combine(step, made)
            case Picked():
                return self._pick(step, made)
            case Pointwise():
                return self._look_up(step)
        raise AssertionError(f"unknown step {type(made).__name__}")

    def _embed(self, step: int) -> None:
        for form in sorted(self.means.needs[step], reverse=True):
            self.sheet.block(step, form, -1)

    def _blocks(self, step: int, time: int) -> list[Held]:
        return [
            self.sheet.block(step, form, time)
            for form in sorted(self.means.needs[step], reverse=True)
        ]

    def _outputs(self, blocks: list[Held], number: object) -> Row:
        """What the blocks are to hold for a number, as outputs of a unit."""
        row: Row = {}
        for block in blocks:
            if block.form == NUMBER:
                row[block.first] = float(number)  # type: ignore[arg-type]
            elif number in block.items:
                row[block.first + block.items.index(number)] = 1.0
        return {place: weight for place, weight in row.items() if weight}

    def _add(
        self,
        step: int,
        time: int,
        made: DrawnHead | list[Unit],
        writes: list[Held],
    ) -> None:
        if isinstance(made, list) and len(made) > _MOST_UNITS:
            raise RequestError(
                f"The step {self.closed.name(step)!r} would take {len(made):,} hidden units in a "
                f"legible model; {_MOST_UNITS:,} are allowed. Map its arguments to fewer values."
            )
        shown = self.closed.steps.notes[step].text
        self.sheet.components.append(Component(step, time, made, writes, shown))

    # ---- heads ---------------------------------------------------------------------------------

    def _ports(self, scored: Scored) -> tuple[list[Held], list[Held]]:
        keys = [one.key for one in scored.conjuncts if one.key is not None]
        asked = [one.query for one in scored.conjuncts if one.query is not None]
        return [self._held(k, ONE_HOT) for k in keys], [self._held(q, ONE_HOT) for q in asked]

    def _count(self, step: int) -> None:
        """A head for each part, which says 1/(1 + w); then they are looked up, and added up."""
        shares, weights = [], []
        for scored in self.closed.scored[step]:
            keys, asked = self._ports(scored)
            time = self._ready([*keys, *asked], 0)
            share = self.sheet.block(step, "share", time)
            share.at_start = [1.0]
            scores = scores_of(scored.conjuncts, self._items, 1.0)
            drawn = DrawnHead(scores, {share.first: {START: 1.0}})
            self._add(step, time, drawn, [share])
            shares.append(share)
            weights.append(scored.weight)
        time = self._ready(shares, 1)
        together = len(shares) == 1
        if not shares:  # nothing adds up to anything but 0
            return self._add_constant(step, 0)
        forms = self.means.needs[step]
        first = [
            self.sheet.block(step, form, time)
            for form in (sorted(forms, reverse=True) if together else [NUMBER])
        ]
        units: list[Unit] = []
        low = 1 if self._always_all(step) else 0
        counts = list(range(low, self.words.longest + 1))
        for share, weight in zip(shares, weights, strict=True):
            numbers = [1.0 / (1 + w) for w in counts]
            outputs = [
                self._outputs(first, _exact(weight * w))
                if together
                else _only(first[0].first, float(weight * w))
                for w in counts
            ]
            units += falling_staircase({share.first: 1.0}, numbers, outputs)
        self._add(step, time, units, first)
        if not together and ONE_HOT in forms:
            self._spell_out(step)

    def _always_all(self, step: int) -> bool:
        return 0 not in self.closed.numbers[step]

    def _add_constant(self, step: int, number: int) -> None:
        """A step that is the same whatever it reads is written at every symbol."""
        blocks = self._blocks(step, 1)
        outputs = self._outputs(blocks, number)
        units = [Unit({ONE: 1.0, START: -1.0}, 0.0, outputs)]
        self._add(step, 1, units, blocks)

    def _spell_out(self, step: int) -> None:
        """The one-hot of a step whose number is held."""
        number = self._held(step, NUMBER)
        time = self._ready([number], 1)
        block = self.sheet.block(step, ONE_HOT, time)
        outputs = [self._outputs([block], n) for n in self.closed.numbers[step]]
        units = staircase(number.read([1.0]), self._numbers(step), outputs)
        self._add(step, time, units, [block])

    def _gather(self, step: int, made: Aggregate) -> None:
        """Mean, min, max, or what the only one holds; the start token has the default."""
        (scored,) = self.closed.scored[step]
        keys, asked = self._ports(scored)
        source, read = self._source(step, made)
        extreme = made.kind in ("min", "max")
        time = self._ready([*keys, *asked, *([] if source is None else [source])], 0)
        forms = self.means.needs[step]
        is_mean = made.kind == "mean" and not made.agree
        blocks = [
            self.sheet.block(step, form, time)
            for form in ([NUMBER] if is_mean else sorted(forms, reverse=True))
        ]
        values: dict[int, Row] = {}
        for block in blocks:
            default = self._outputs([block], _exact(Fraction(made.default)))
            for k, row in enumerate(self._sent(block, made, source, read)):
                there = default.get(block.first + k, 0.0)
                block.at_start[k] = there
                values[block.first + k] = added([(1.0, row), (there, {START: 1.0})])
        scores = (
            self._extreme_scores(scored, made.kind == "max", source, read)
            if extreme and source is not None
            else scores_of(scored.conjuncts, self._items, 0.5)
        )
        drawn = DrawnHead(scores, values)
        self._add(step, time, drawn, blocks)
        if is_mean and ONE_HOT in forms:
            self._spell_out(step)

    def _source(self, step: int, made: Aggregate) -> tuple[Held | None, list[Fraction]]:
        """The block that values come from, and what each of its items is worth."""
        assert made.value is not None
        if made.value in self.means.constants:
            return None, [self.means.constants[made.value]]
        base = self.means.views.get(made.value, made.value)
        only_number = self.means.needs[step] == {NUMBER} and made.kind == "mean"
        forms = (NUMBER, ONE_HOT) if only_number and base == made.value else (ONE_HOT, NUMBER)
        held = self._held(base, *forms)
        if base == made.value:
            return held, [Fraction(n) for n in held.items]
        return held, [self.means.value(made.value, {base: n}) for n in held.items]

    def _sent(
        self, block: Held, made: Aggregate, source: Held | None, read: list[Fraction]
    ) -> list[Row]:
        """For each coordinate of a block, what a symbol sends to it; 0 at the start token."""
        everywhere = {ONE: 1.0, START: -1.0}
        if block.form == NUMBER:
            if source is None:
                return [added([(float(read[0]), everywhere)])]
            if source.form == NUMBER:
                return [source.read([1.0])]
            return [source.read([float(n) for n in read])]
        if source is None:
            return [everywhere if item == read[0] else {} for item in block.items]
        return [source.read([float(n == item) for n in read]) for item in block.items]

    def _extreme_scores(
        self, scored: Scored, largest: bool, source: Held, read: list[Fraction]
    ) -> list[tuple[Row, Row]]:
        """Ranks go by the numbers that somebody can select."""
        order = sorted(set(read), reverse=not largest)
        ranks = source.read([float(order.index(n)) for n in read])
        many = float(len(order))
        return scores_of(scored.conjuncts, self._items, many - 0.5, scale=many, ranks=ranks)

    # ---- functions -----------------------------------------------------------------------------

    def _combine(self, step: int, made: Combination) -> None:
        if step in self.means.by_cases:
            return self._look_up_cases(step)
        terms, constant, reads = [], Fraction(made.constant), []
        for source, weight in zip(made.sources, made.weights, strict=True):
            if source in self.means.constants:
                constant += Fraction(weight) * self.means.constants[source]
            else:
                terms.append((float(weight), self._number(source)))
                reads.append(self._held(source, NUMBER, ONE_HOT))
        self._from_number(step, added(terms), constant, reads)

    def _from_number(self, step: int, row: Row, constant: Fraction, reads: list[Held]) -> None:
        """A number that a linear form and a constant make, and its one-hot."""
        time = self._ready(reads, 1)
        units: list[Unit] = []
        blocks = self._blocks(step, time)
        numbers = self._numbers(step)
        for block in blocks:
            if block.form == NUMBER:
                units += linear(row, float(constant), numbers[0], numbers[-1], block.first)
            else:
                exact = self.closed.numbers[step]
                outputs = [self._outputs([block], n) for n in exact]
                shifted = [float(Fraction(n) - constant) for n in exact]
                units += staircase(row, shifted, outputs)
        self._add(step, time, units, blocks)

    def _look_up(self, step: int) -> None:
        signs = self.means.signs_of(step)
        if signs is None:
            return self._look_up_cases(step)
        sources = self.means.sources(step)
        row = added((float(s), self._number(one)) for s, one in zip(signs, sources, strict=True))
        reads = [self._held(one, NUMBER, ONE_HOT) for one in sources]
        answers: dict[Fraction, object] = {}
        for given, answer in self.means.rows(step):
            total = sum((s * Fraction(n) for s, n in zip(signs, given, strict=True)), Fraction(0))
            answers[total] = _exact(answer)
        time = self._ready(reads, 1)
        blocks = self._blocks(step, time)
        numbers = sorted(answers)
        outputs = [self._outputs(blocks, answers[n]) for n in numbers]
        units = staircase(row, [float(n) for n in numbers], outputs)
        self._add(step, time, units, blocks)

    def _look_up_cases(self, step: int) -> None:
        sources = self.means.sources(step)
        rows = [(given, _exact(answer)) for given, answer in self.means.rows(step)]
        reads = [self._held(one, ONE_HOT) for one in sources]
        time = self._ready(reads, 1)
        blocks = self._blocks(step, time)
        items = [dict(zip(h.items, self._items(h.step), strict=True)) for h in reads]
        units = []
        for one in cases_of(rows, len(sources)):
            outputs = self._outputs(blocks, one.answer)
            if outputs:
                lit = [
                    added((1.0, items[s][n]) for n in sorted(own))
                    for s, own in sorted(one.wanted.items())
                ]
                units.append(case(lit, outputs) if lit else _everywhere(outputs))
        self._add(step, time, units, blocks)

    def _pick(self, step: int, made: Picked) -> None:
        """A case for each number and each item of the option that it picks."""
        sources = self.means.sources(step)
        reads = [self._held(one, ONE_HOT) for one in sources]
        time = self._ready(reads, 1)
        blocks = self._blocks(step, time)
        units = []
        chosen = self._held(made.number, ONE_HOT)
        for number, lit in zip(chosen.items, self._items(made.number), strict=True):
            option = made.options[int(number)]
            if option in self.means.constants:
                units.append(case([lit], self._outputs(blocks, self.means.constants[option])))
                continue
            held = self._held(option, ONE_HOT)
            for item, row in zip(held.items, self._items(option), strict=True):
                outputs = self._outputs(blocks, item)
                if outputs:
                    units.append(case([lit, row], outputs))
        self._add(step, time, units, blocks)

    # ---- the model -----------------------------------------------------------------------------

    def construction(self, format: Format) -> Construction:
        sheet, outputs = self.sheet, self.closed.steps.outputs
        weights = np.zeros((len(outputs), sheet.width))
        bias = np.zeros(len(outputs))
        read = []
        for k, out in enumerate(outputs):
            if out in self.means.constants:
                bias[k] = float(self.means.constants[out])
                continue
            held = self._held(
                out, *((ONE_HOT,) if NUMBER not in self.means.needs[out] else (NUMBER,))
            )
            read.append(held)
            numbers = [1.0] if held.form == NUMBER else self._numbers(out)
            weights[k, held.first : held.first + len(numbers)] = numbers
        at = self.target.program.at
        token = None if at is None else at + 1 if at >= 0 else at
        sublayers, _ = sheet.sublayers()
        transformer = Transformer(self._input(), sublayers, ReadOut(weights, bias, token))
        circuit = sheet.circuit(read)
        ledger = self._ledger()
        claim = Claim(self.target, self.words, ledger, format=format.name)
        legend = _legend_of(circuit, transformer)
        return Construction(transformer, claim, None, ROUTE, legend, circuit)

    def _input(self) -> SequenceInput:
        """Columns of the token in the embedding, those of the place in the positions."""
        symbols = self.words.alphabet
        embedding = np.zeros((len(symbols), self.sheet.width))
        positions = np.zeros((self.words.longest + 1, self.sheet.width))
        start = np.zeros(self.sheet.width)
        positions[:, ONE] = 1.0
        start[START] = 1.0
        for block in self.sheet.blocks:
            if block.time != -1:
                continue
            kind = self.means.kinds[block.step]
            table, shift = (embedding, 0) if kind == "token" else (positions, 1)
            values = (
                {int(n): Fraction(n) for n in self.closed.numbers[block.step]}
                if block.step in (SYMBOL, INDEX)
                else self.means.embedded_values(block.step)
            )
            for origin, number in values.items():
                for place, weight in self._outputs([block], _exact(number)).items():
                    table[origin + shift, place] = weight
        return SequenceInput(symbols, embedding, positions, start)

    def _ledger(self) -> list[Share]:
        """Theorem 1 of `_scoring` for each head on the way, and room for decoding."""
        outputs = self.target.program.outputs
        codes = self.target.codes
        room = min(self.target.spacing(one) for one in outputs) * _ROOM
        largest = max(abs(float(codes[o].number(i))) for o in outputs for i in codes[o].items)
        heads = sum(isinstance(one.made, DrawnHead) for one in self.sheet.components)
        leak = 2.0 * largest * heads * self.words.longest * float(np.exp(-COLDNESS / 2))
        leak = min(leak, room / 2)
        shares = [
            Share("softening", f"heads at coldness {COLDNESS:g}", leak),
            Share("margin", "room for decoding", room - leak),
        ]
        return [share for share in shares if share.amount > 0]


def _legend_of(circuit: Circuit, transformer: Transformer) -> Legend:
    """Coordinates by their own names; heads and units by what their step does."""
    texts: list[list[str]] = [[] for _ in transformer.sublayers]
    for node in circuit.nodes:
        if 0 <= node.sublayer < len(texts):
            texts[node.sublayer] += [node.text] * (node.stop - node.first)
    return Legend(circuit.coordinate_names(transformer.width), texts)


def _everywhere(outputs: Row) -> Unit:
    return Unit({ONE: 1.0, START: -1.0}, 0.0, outputs)


def _only(place: int, weight: float) -> Row:
    return {place: weight} if weight else {}


def _exact(number: Fraction) -> object:
    return number.numerator if isinstance(number, Fraction) and number.denominator == 1 else number


def values_by_name(target: ProgramTarget) -> dict[str, Value]:
    """The program's own values, by the names of their steps."""
    closed = target.closed_steps
    return {closed.name(step): value for value, step in closed.place.items()}
