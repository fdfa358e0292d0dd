"""Heads: counts by the share of the start token, and what is gathered from where they look."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial

from hardmax.core import Aggregate, plain
from hardmax.languages.programs import Scored
from hardmax.lowering.programs.legible._drawing import Drawing, symbols_only
from hardmax.lowering.programs.legible._functions import SHARP_TURNS, Exact
from hardmax.lowering.programs.legible._needs import NUMBER, ONE_HOT, SQUARE
from hardmax.lowering.programs.legible._scoring import scores_of
from hardmax.lowering.programs.legible._sheet import START, DrawnHead, Held, Row, Unit, added
from hardmax.lowering.programs.legible._units import (
    falling_staircase,
    interpolated_falling,
    most_turns,
)


def ports_of(drawing: Drawing, step: int, scored: Scored) -> list[Held]:
    """The blocks that tell what a head selects."""
    found: list[Held] = []
    for one in scored.conjuncts:
        if drawing.means.is_masked(one):
            continue
        if drawing.means.is_parabola(step, one):
            found += drawing.squared_in(one)
        else:
            sides = [side for side in (one.key, one.query) if side is not None]
            found += [drawing.held(side, ONE_HOT) for side in sides]
    return found


# ---- counts --------------------------------------------------------------------------------------


def draw_count(drawing: Drawing, step: int) -> None:
    """A head for each part, which says 1/(1 + w); then they are looked up, and added up."""
    shares = draw_shares(drawing, step)
    if step in drawing.functions.shared:
        return
    if not shares:  # nothing adds up to anything but 0
        return drawing.add_constant(step, 0)
    time = drawing.ready(shares, 1)
    if len(shares) == 1:
        weight = drawing.closed.scored[step][0].weight
        blocks = drawing.blocks(step, time)
        units = from_share(drawing, step, shares[0], partial(_times, weight), blocks)
        return drawing.add(step, time, units, blocks)
    number = drawing.sheet.block(step, NUMBER, time)
    units = []
    for share, scored in zip(shares, drawing.closed.scored[step], strict=True):
        worth = scored.weight
        units += from_share(drawing, step, share, partial(_times, worth), [number])
    drawing.add(step, time, units, [number])
    drawing.spell_out(step)


def draw_shares(drawing: Drawing, step: int) -> list[Held]:
    shares = []
    for scored in drawing.closed.scored[step]:
        time = drawing.ready(ports_of(drawing, step, scored), 0)
        share = drawing.sheet.block(step, "share", time)
        share.at_start = [1.0]
        scores = scores_of(drawing, step, scored.conjuncts, 1.0)
        drawing.add(step, time, DrawnHead(scores, {share.first: {START: 1.0}}), [share])
        shares.append(share)
    return shares


def draw_from_share(drawing: Drawing, step: int, count: int) -> None:
    """A function of a count that is not held."""
    share = drawing.held(count, "share")
    time = drawing.ready([share], 1)
    blocks = drawing.blocks(step, time)
    weight = drawing.closed.scored[count][0].weight

    def answer(w: int) -> Exact:
        return plain(drawing.functions.value(step, {count: plain(weight * w)}))

    drawing.add(step, time, from_share(drawing, step, share, answer, blocks, count), blocks)


def _times(worth: Fraction, count: int) -> Exact:
    return plain(worth * count)


def from_share(
    drawing: Drawing,
    step: int,
    share: Held,
    answer: Callable[[int], Exact],
    blocks: list[Held],
    count: int | None = None,
) -> list[Unit]:
    """What is made of each number of positions; shares fall.

    A one-hot whose items are lit for counts without a gap is made upwards, and exact.
    """
    low = 0 if 0 in drawing.closed.numbers[step if count is None else count] else 1
    counts = list(range(low, drawing.words.longest + 1))
    outputs = [drawing.outputs(blocks, answer(w)) for w in counts]
    row, shares = {share.first: 1.0}, [1.0 / (1 + w) for w in counts]
    lit = drawing.means.exact_keys and all(block.form == ONE_HOT for block in blocks)
    if lit and most_turns(outputs) <= SHARP_TURNS:
        return drawing.sharp_staircase(share.read([1.0]), shares[::-1], outputs[::-1])
    stairs = falling_staircase(row, shares, outputs)
    if not drawing.may_interpolate(step):
        return stairs
    lines = interpolated_falling(row, [Fraction(1, 1 + w) for w in counts], outputs)
    return lines if len(lines) < len(stairs) else stairs


# ---- what is gathered ----------------------------------------------------------------------------


def draw_gather(drawing: Drawing, step: int, made: Aggregate) -> None:
    """Mean, min, max, or what the only one holds; the start token has the default."""
    (scored,) = drawing.closed.scored[step]
    source = _source(drawing, step, made)
    read = [] if source is None else _blocks_read(drawing, source)
    time = drawing.ready([*ports_of(drawing, step, scored), *read], 0)
    uneven = drawing.functions.is_uneven(step)
    forms = [NUMBER] if uneven else drawing.forms(step)
    blocks = [drawing.sheet.block(step, form, time) for form in forms]
    values: dict[int, Row] = {}
    for block in blocks:
        default = drawing.outputs([block], plain(Fraction(made.default)))
        for k, row in enumerate(_sent(drawing, block, made, source)):
            there = default.get(block.first + k, 0.0)
            block.at_start[k] = there
            values[block.first + k] = added([(1.0, row), (there, {START: 1.0})])
    if made.kind in ("min", "max") and source is not None:
        many, ranks = _ranks(drawing, made, source)
        scores = scores_of(drawing, step, scored.conjuncts, many - 0.5, scale=many, ranks=ranks)
    else:
        scores = scores_of(drawing, step, scored.conjuncts, 0.5)
    drawing.add(step, time, DrawnHead(scores, values), blocks)
    if uneven:
        drawing.spell_out(step)


def _source(drawing: Drawing, step: int, made: Aggregate) -> int | None:
    """The step whose block values come from."""
    assert made.value is not None
    if made.value in drawing.functions.constants:
        return None
    return drawing.means.views.get(made.value, made.value)


def _blocks_read(drawing: Drawing, source: int) -> list[Held]:
    found = (drawing.sheet.held(source, form) for form in (NUMBER, SQUARE, ONE_HOT))
    return [block for block in found if block is not None]


def _worth(drawing: Drawing, made: Aggregate, source: int) -> list[Fraction]:
    """What each number of the source is worth."""
    assert made.value is not None
    numbers = drawing.closed.numbers[source]
    if source == made.value:
        return [Fraction(n) for n in numbers]
    return [drawing.functions.value(made.value, {source: n}) for n in numbers]


def _sent(drawing: Drawing, block: Held, made: Aggregate, source: int | None) -> list[Row]:
    """For each coordinate of a block, what a symbol sends to it; 0 at the start token."""
    assert made.value is not None
    if source is None:
        own = block.code(plain(drawing.functions.constants[made.value]))
        return [symbols_only(one) for one in own]
    same = source == made.value
    held = drawing.sheet.held(source, block.form) if same and block.form != ONE_HOT else None
    if held is not None:
        return [held.read([1.0])]
    spelled = drawing.held(source, ONE_HOT)
    worth = dict(zip(drawing.closed.numbers[source], _worth(drawing, made, source), strict=True))
    codes = [block.code(plain(worth[item])) for item in spelled.items]
    return [spelled.read([code[k] for code in codes]) for k in range(len(block.at_start))]


def _ranks(drawing: Drawing, made: Aggregate, source: int) -> tuple[float, Row]:
    """As many as there are ranks, or more, and the rank of what is held: 0 for the worst."""
    worth = _worth(drawing, made, source)
    order = sorted(set(worth), reverse=made.kind == "min")
    held = drawing.sheet.held(source, ONE_HOT)
    if held is not None:
        by_item = dict(zip(drawing.closed.numbers[source], worth, strict=True))
        return _many(order), held.read([float(order.index(by_item[n])) for n in held.items])
    sign = 1.0 if made.kind == "max" else -1.0
    number = drawing.held(source, NUMBER).read([sign])
    return _many(order), added([(1.0, number), (1.0, symbols_only(-sign * float(order[0])))])


def _many(order: list[Fraction]) -> float:
    """A power of two: products with it round nothing."""
    return float(2.0 ** math.ceil(math.log2(len(order))))
