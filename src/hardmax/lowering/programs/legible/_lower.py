"""A program becomes a Transformer that can be read: one step, one component, one named block."""

from __future__ import annotations

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
    plain,
)
from hardmax.languages.programs import Program, ProgramTarget
from hardmax.lowering.programs.legible._draw_units import (
    draw_choice,
    draw_combination,
    draw_look_up,
)
from hardmax.lowering.programs.legible._drawing import Drawing
from hardmax.lowering.programs.legible._heads import draw_count, draw_from_share, draw_gather
from hardmax.lowering.programs.legible._needs import NUMBER, ONE_HOT, Means
from hardmax.lowering.programs.legible._sheet import COLDNESS, ONE, START, DrawnHead
from hardmax.lowering.programs.legible._showing import with_showings
from hardmax.lowering.programs.legible._styles import style_named
from hardmax.numerics import FLOAT32, FLOAT64, Format

ROUTE = "legible"
MOST_PARAMETERS = 2**24  # of a model, padded
_ROOM, _COARSE_ROOM = 0.25, 0.45  # of the spacing of answers is claimed


def lower_legibly(
    program: Program, words: Words, *, positions: str, format: Format
) -> Construction:
    """One step, one component, one named block; every selection a visible pattern."""
    style = style_named(positions)
    target = ProgramTarget(program, words, closed=True)
    closed = target.closed_steps
    few_digits = format.digits < FLOAT32.digits and not style.numbers
    means = Means(closed, style, format != FLOAT64, few_digits)
    drawing = Drawing(closed, words, means)
    for step in (SYMBOL, INDEX, *range(GIVEN, GIVEN + len(closed.steps.steps))):
        if step in drawing.means.needs:
            _draw(drawing, step)
    _check_size(drawing)
    return with_showings(_construction(target, drawing, format))


def _draw(drawing: Drawing, step: int) -> None:
    """The component that makes a step."""
    if step in drawing.means.kinds:
        return drawing.embed(step)
    made, functions = drawing.means.step(step), drawing.functions
    count = functions.share_of(step)
    if count is not None:
        return draw_from_share(drawing, step, count)
    match made:
        case Aggregate(kind="count" | "sum"):
            return draw_count(drawing, step)
        case Aggregate():
            return draw_gather(drawing, step, made)
        case Combination() if functions.direct(step) == functions.sources(step):
            return draw_combination(drawing, step, made)
        case Picked():
            return draw_choice(drawing, step, made)
        case Combination() | Pointwise():
            return draw_look_up(drawing, step)
    raise AssertionError(f"unknown step {type(made).__name__}")


def _check_size(drawing: Drawing) -> None:
    """Refuse what would grow too large before any weight is made."""
    count, step = drawing.sheet.largest()
    if count > MOST_PARAMETERS:
        raise RequestError(
            f"As a legible model this program would have about {count:,} parameters, most of them "
            f"for the step {drawing.closed.name(step)!r}; {MOST_PARAMETERS:,} are allowed. Shorten "
            f"the words, or map what the step reads to fewer values."
        )


# ---- the model -----------------------------------------------------------------------------------


def _construction(target: ProgramTarget, drawing: Drawing, format: Format) -> Construction:
    sheet, outputs = drawing.sheet, drawing.closed.steps.outputs
    weights = np.zeros((len(outputs), sheet.width))
    bias = np.zeros(len(outputs))
    read = []
    for k, out in enumerate(outputs):
        if out in drawing.functions.constants:
            bias[k] = float(drawing.functions.constants[out])
            continue
        held = drawing.held(out, NUMBER if NUMBER in drawing.means.needs[out] else ONE_HOT)
        read.append(held)
        numbers = [1.0] if held.form == NUMBER else drawing.numbers(out)
        weights[k, held.first : held.first + len(numbers)] = numbers
    at = target.program.at
    token = None if at is None else at + 1 if at >= 0 else at
    sublayers, _ = sheet.sublayers()
    transformer = Transformer(_input(drawing), sublayers, ReadOut(weights, bias, token))
    circuit = sheet.circuit(read)
    ledger = _ledger(target, drawing)
    claim = Claim(target, drawing.words, ledger, format=format.name)
    legend = _legend_of(circuit, transformer)
    return Construction(transformer, claim, None, ROUTE, legend, circuit)


def _input(drawing: Drawing) -> SequenceInput:
    """Columns of the token in the embedding, those of the place in the positions."""
    symbols, width = drawing.words.alphabet, drawing.sheet.width
    embedding = np.zeros((len(symbols), width))
    positions = np.zeros((drawing.words.longest + 1, width))
    start = np.zeros(width)
    embedding[:, ONE] = start[ONE] = start[START] = 1.0
    for block in drawing.sheet.blocks:
        if block.time != -1:
            continue
        kind = drawing.means.kinds[block.step]
        table, shift = (embedding, 0) if kind == "token" else (positions, 1)
        values = (
            {int(n): Fraction(n) for n in drawing.closed.numbers[block.step]}
            if block.step in (SYMBOL, INDEX)
            else drawing.functions.embedded_values(block.step)
        )
        for origin, number in values.items():
            for place, weight in drawing.outputs([block], plain(number)).items():
                table[origin + shift, place] = weight
    return SequenceInput(symbols, embedding, positions, start)


def _ledger(target: ProgramTarget, drawing: Drawing) -> list[Share]:
    """Theorem 1 of `_scoring` for each head on the way, and room for decoding."""
    outputs = target.program.outputs
    codes = target.codes
    room = min(target.spacing(one) for one in outputs)
    room *= _COARSE_ROOM if drawing.means.few_digits else _ROOM
    largest = max(abs(float(codes[o].number(i))) for o in outputs for i in codes[o].items)
    heads = sum(isinstance(one.made, DrawnHead) for one in drawing.sheet.components)
    leak = 2.0 * largest * heads * drawing.words.longest * float(np.exp(-COLDNESS / 2))
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
