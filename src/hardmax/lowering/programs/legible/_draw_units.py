"""Functions of the own position as hidden units: sums, look-ups, cases, choices."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction

from hardmax.core import Combination, Picked, plain
from hardmax.lowering.programs.legible._cases import cases_of
from hardmax.lowering.programs.legible._drawing import Drawing, everywhere
from hardmax.lowering.programs.legible._functions import Exact
from hardmax.lowering.programs.legible._needs import NUMBER, ONE_HOT
from hardmax.lowering.programs.legible._sheet import Held, Row, Unit, added
from hardmax.lowering.programs.legible._units import case, linear, sharp_case


def draw_combination(drawing: Drawing, step: int, made: Combination) -> None:
    if step in drawing.means.by_cases:
        return draw_cases(drawing, step)
    row, constant, reads = _sum_of(drawing, made)
    _from_number(drawing, step, row, constant, reads)


def _sum_of(drawing: Drawing, made: Combination) -> tuple[Row, Fraction, list[Held]]:
    """A combination as a linear form and a constant, and the blocks that it reads."""
    terms, constant, reads = [], Fraction(made.constant), []
    for source, weight in zip(made.sources, made.weights, strict=True):
        if source in drawing.functions.constants:
            constant += Fraction(weight) * drawing.functions.constants[source]
        else:
            terms.append((float(weight), drawing.number(source)))
            reads.append(drawing.held(source, NUMBER, ONE_HOT))
    return added(terms), constant, reads


def _from_number(
    drawing: Drawing, step: int, row: Row, constant: Fraction, reads: list[Held]
) -> None:
    """A number that a linear form and a constant make, and its other forms."""
    time = drawing.ready(reads, 1)
    units: list[Unit] = []
    blocks = drawing.blocks(step, time)
    numbers, exact = drawing.numbers(step), drawing.closed.numbers[step]
    for block in blocks:
        if block.form == NUMBER:
            units += linear(row, float(constant), numbers[0], numbers[-1], block.first)
    others = [block for block in blocks if block.form != NUMBER]
    if others:
        outputs = [drawing.outputs(others, n) for n in exact]
        shifted = [plain(Fraction(n) - constant) for n in exact]
        units += drawing.looked_up(step, row, shifted, outputs)
    drawing.add(step, time, units, blocks)


def draw_look_up(drawing: Drawing, step: int) -> None:
    functions = drawing.functions
    if step in functions.sums:
        return _draw_of_sum(drawing, step)
    signs = functions.signs_of(step)
    if signs is None:
        return draw_cases(drawing, step)
    sources = functions.sources(step)
    row = added((float(s), drawing.number(one)) for s, one in zip(signs, sources, strict=True))
    reads = [drawing.held(one, NUMBER, ONE_HOT) for one in sources]
    answers: dict[Fraction, Exact] = {}
    for given, answer in functions.rows(step):
        total = sum((s * Fraction(n) for s, n in zip(signs, given, strict=True)), Fraction(0))
        answers[total] = plain(answer)
    _write_look_up(drawing, step, row, answers, reads)


def _draw_of_sum(drawing: Drawing, step: int) -> None:
    """A function of a sum that is not held."""
    made = drawing.functions.step(drawing.functions.sums[step])
    assert isinstance(made, Combination)
    row, constant, reads = _sum_of(drawing, made)
    rows = drawing.functions.sum_rows(step)
    answers = {Fraction(number) - constant: plain(answer) for (number,), answer in rows}
    _write_look_up(drawing, step, row, answers, reads)


def _write_look_up(
    drawing: Drawing,
    step: int,
    row: Row,
    answers: dict[Fraction, Exact],
    reads: Sequence[Held],
) -> None:
    time = drawing.ready(reads, 1)
    blocks = drawing.blocks(step, time)
    numbers = sorted(answers)
    outputs = [drawing.outputs(blocks, answers[n]) for n in numbers]
    drawing.add(step, time, drawing.looked_up(step, row, numbers, outputs), blocks)


def draw_cases(drawing: Drawing, step: int) -> None:
    sources = drawing.functions.sources(step)
    rows = [(given, plain(answer)) for given, answer in drawing.functions.rows(step)]
    reads = [drawing.held(one, ONE_HOT) for one in sources]
    time = drawing.ready(reads, 1)
    blocks = drawing.blocks(step, time)
    items = [
        dict(zip(drawing.closed.numbers[h.step], drawing.items(h.step), strict=True)) for h in reads
    ]
    units: list[Unit] = []
    for one in cases_of(rows, len(sources)):
        outputs = drawing.outputs(blocks, one.answer)  # type: ignore[arg-type]
        if outputs:
            units += _case(drawing, step, sources, items, one.wanted, outputs)
    drawing.add(step, time, units, blocks)


def _case(
    drawing: Drawing,
    step: int,
    sources: list[int],
    items: list[dict[Exact, Row]],
    wanted: Mapping[int, Collection[Exact]],
    outputs: Row,
) -> list[Unit]:
    """One case; a jump for each item of a source that strays, where its step must not."""
    lit = {s: added((1.0, items[s][n]) for n in sorted(own)) for s, own in sorted(wanted.items())}
    loose = drawing.means.loose(step, [sources[s] for s in lit])
    if loose is None:
        return [case(list(lit.values()), outputs) if lit else everywhere(outputs)]
    at = sources.index(loose)
    others = [
        (row, added((1.0, r) for r in items[s].values())) for s, row in lit.items() if s != at
    ]
    own_items = sorted(wanted[at])
    return [unit for n in own_items for unit in sharp_case(items[at][n], others, outputs)]


def draw_choice(drawing: Drawing, step: int, made: Picked) -> None:
    """A case for each number and each item of the option that it picks."""
    reads = [drawing.held(one, ONE_HOT) for one in drawing.functions.sources(step)]
    time = drawing.ready(reads, 1)
    blocks = drawing.blocks(step, time)
    units = []
    chosen = drawing.held(made.number, ONE_HOT)
    for number, lit in zip(chosen.items, drawing.items(made.number), strict=True):
        option = made.options[int(number)]
        if option in drawing.functions.constants:
            constant = plain(drawing.functions.constants[option])
            units.append(case([lit], drawing.outputs(blocks, constant)))
            continue
        held = drawing.held(option, ONE_HOT)
        for item, row in zip(held.items, drawing.items(option), strict=True):
            outputs = drawing.outputs(blocks, item)
            if outputs:
                units.append(case([lit, row], outputs))
    drawing.add(step, time, units, blocks)
