"""Coordinates whose old content is dead take the new one: rows that others can stand in for.

Theorem. Let row p receive all that it ever holds, X, at stage s, and let c be numbers such that
every form f read after s has coefficient f_p = sum_r c_r f_r, with r over rows that are there at
s. Then p can go: whoever writes X to p writes c_r X to each row r instead, and p is left out of
all later forms. Proof: a later form reads sum_r f_r (row_r + c_r X) = sum_r f_r row_r + f_p X, as
before; what is read up to stage s is read before anything is written. QED

This is what a register allocator does, said of sums: a comparator's ReLU s turns the rows of a and
b, which nobody reads again, into a - s = min(a, b) and b + s = max(a, b); a match of a tournament
takes the place of one of its players. Residual layers only add, so nothing can be erased, and the
condition is also necessary for linear reading without an extra head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from hardmax.lowering.stream._form import Form
from hardmax.lowering.stream._program import Chooser, Gate, Program, Unit

Terms = dict[int, Fraction]


def reuse_rows(program: Program) -> dict[int, Terms]:
    """Let other rows stand in for as many as possible; says which do for each that is gone."""
    gone: dict[int, Terms] = {}
    for row in range(len(program.rows)):
        stage = _only_stage(program, row)
        if stage is None:
            continue
        later = _later_forms(program, stage)
        if not any(row in form for form in later):
            continue
        stand_in = _solve(later, row, _present(program, stage, row))
        if stand_in is not None:
            _replace(program, row, stand_in)
            gone[row] = stand_in
    return gone


def without(form: Form, gone: dict[int, Terms]) -> Form | None:
    """A form without the rows that are gone; None if it cannot be read without them."""
    terms = dict(form.terms)
    for row, stand_in in gone.items():
        own = terms.pop(row, Fraction(0))
        if own != sum((c * terms.get(r, Fraction(0)) for r, c in stand_in.items()), Fraction(0)):
            return None
    return Form(terms, form.constant)


def _only_stage(program: Program, row: int) -> int | None:
    """The one stage at which a row that starts empty is written.

    Not by a chooser: what it adds to the sink is taken back by the embedding, so its row must not
    be read before.
    """
    held = program.rows[row]
    if any(isinstance(program.makers[m], Chooser) for m in held.writes):
        return None
    stages = {program.makers[m].stage for m in held.writes}
    return stages.pop() if len(stages) == 1 and not held.inputs and not held.offset else None


def _present(program: Program, stage: int, row: int) -> list[int]:
    """Rows that hold something by the end of a stage, other than one of them."""
    present = []
    for r, held in enumerate(program.rows):
        first = min((program.makers[m].stage for m in held.writes), default=stage + 1)
        if r != row and (held.inputs or held.offset or first <= stage):
            present.append(r)
    return present


def _forms(program: Program) -> Iterator[tuple[int, Form]]:
    for maker in program.makers:
        match maker:
            case Gate():
                yield maker.stage, maker.gate
                yield maker.stage, maker.value
            case Unit():
                yield maker.stage, maker.value
            case Chooser():
                for form in maker.query:
                    yield maker.stage, form
    last = max((maker.stage for maker in program.makers), default=0) + 1
    for form in program.outputs:
        yield last, form


def _later_forms(program: Program, stage: int) -> list[Terms]:
    """What is read after a stage, constants and repetitions aside."""
    found = {tuple(sorted(f.terms.items())) for at, f in _forms(program) if at > stage}
    return [dict(terms) for terms in found if terms]


def _solve(later: list[Terms], row: int, present: list[int]) -> Terms | None:
    """Short c with f_row = sum_r c_r f_r for all later forms, or None.

    Gauss over the rationals; the free numbers are 0. Only halves, ones and twos are worth it:
    other weights would round.
    """
    unknowns = [r for r in present if any(r in form for form in later)]
    rows = [
        [*(form.get(r, Fraction(0)) for r in unknowns), form.get(row, Fraction(0))]
        for form in later
    ]
    pivots: list[int] = []
    for column in range(len(unknowns)):
        done = len(pivots)
        at = next((i for i in range(done, len(rows)) if rows[i][column]), None)
        if at is None:
            continue
        rows[done], rows[at] = rows[at], rows[done]
        factor = rows[done][column]
        rows[done] = [entry / factor for entry in rows[done]]
        for i in range(len(rows)):
            if i != done and rows[i][column]:
                scale = rows[i][column]
                rows[i] = [x - scale * y for x, y in zip(rows[i], rows[done], strict=True)]
        pivots.append(column)
    if any(entries[-1] for entries in rows[len(pivots) :]):
        return None
    found = {unknowns[column]: rows[i][-1] for i, column in enumerate(pivots) if rows[i][-1]}
    short = all(abs(c) in (Fraction(1, 2), 1, 2) for c in found.values())
    return found if found and short else None


def _replace(program: Program, row: int, stand_in: Terms) -> None:
    for r, c in stand_in.items():
        for writer, weight in program.rows[row].writes.items():
            program.write(r, writer, c * weight)
    stage = max(program.makers[m].stage for m in program.rows[row].writes)
    for m, maker in enumerate(program.makers):
        if maker.stage > stage:
            program.makers[m] = _dropped(maker, row)
    program.outputs = [_drop(form, row) for form in program.outputs]
    program.rows[row].writes.clear()


def _dropped(maker: Gate | Unit | Chooser, row: int) -> Gate | Unit | Chooser:
    match maker:
        case Gate():
            return replace(maker, gate=_drop(maker.gate, row), value=_drop(maker.value, row))
        case Unit():
            return replace(maker, value=_drop(maker.value, row))
        case Chooser():
            return replace(maker, query=tuple(_drop(form, row) for form in maker.query))


def _drop(form: Form, row: int) -> Form:
    return Form({r: w for r, w in form.terms.items() if r != row}, form.constant)
