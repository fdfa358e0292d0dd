"""Coordinates whose old content is dead take the new one: registers that others can stand in for.

Theorem. Let register p receive all that it ever holds, X, at sublayer s, and let c be numbers such
that every form f read after s has coefficient f_p = sum_r c_r f_r, with r over registers that are
there at s. Then p can go: whoever writes X to p writes c_r X to each register r instead, and p is
left out of all later forms. Proof: a later form reads sum_r f_r (r + c_r X) = sum_r f_r r + f_p X,
as before; what is read up to sublayer s is read before anything is written. QED

This is what a register allocator does, said of sums: a comparator's ReLU s turns the registers of a
and b, which nobody reads again, into a - s = min(a, b) and b + s = max(a, b); a match of a
tournament takes the place of one of its players. Residual layers only add, so nothing can be
erased, and the condition is also necessary for linear reading without an extra head.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from hardmax.lowering.sketch._box_sketch import BoxForm, BoxRegister, BoxSketch, Chooser
from hardmax.lowering.sketch._vocabulary import Form

Terms = Mapping[BoxRegister, Fraction]


def reuse_registers(sketch: BoxSketch) -> dict[BoxRegister, Terms]:
    """Let other registers stand in for as many as possible; says which do for each that is gone."""
    gone: dict[BoxRegister, Terms] = {}
    for register in sketch.registers:
        sublayer = _only_sublayer(sketch, register)
        if sublayer is None:
            continue
        later = _later_forms(sketch, sublayer)
        if not any(register in form for form in later):
            continue
        stand_in = _solve(later, register, _present(sketch, sublayer, register))
        if stand_in is not None:
            _stand_in_for(sketch, register, stand_in)
            sketch.drop(register, sublayer)
            gone[register] = stand_in
    return gone


def without(form: BoxForm, gone: Mapping[BoxRegister, Terms]) -> BoxForm | None:
    """A form without the registers that are gone; None if it cannot be read without them."""
    terms = dict(form.terms)
    for register, stand_in in gone.items():
        own = terms.pop(register, Fraction(0))
        if own != sum((c * terms.get(r, Fraction(0)) for r, c in stand_in.items()), Fraction(0)):
            return None
    return Form(terms, form.constant)


def _only_sublayer(sketch: BoxSketch, register: BoxRegister) -> int | None:
    """The one sublayer at which a register that starts empty is written.

    Not by a chooser: what it adds to the sink is taken back by the embedding, so its register must
    not be read before.
    """
    writers = [sketch.makers[m] for m in register.writes]
    if any(isinstance(maker, Chooser) for maker in writers):
        return None
    sublayers = {maker.sublayer for maker in writers}
    starts_empty = not register.inputs and not register.offset
    return sublayers.pop() if len(sublayers) == 1 and starts_empty else None


def _present(sketch: BoxSketch, sublayer: int, register: BoxRegister) -> list[BoxRegister]:
    """Rows that hold something by the end of a sublayer, other than one of them."""
    present = []
    for other in sketch.registers:
        first = min((sketch.makers[m].sublayer for m in other.writes), default=sublayer + 1)
        if other is not register and (other.inputs or other.offset or first <= sublayer):
            present.append(other)
    return present


def _later_forms(sketch: BoxSketch, sublayer: int) -> list[Terms]:
    """What is read after a sublayer, constants and repetitions aside."""
    forms = [form.terms for at, form in sketch.reads() if at > sublayer and form.terms]
    return list({frozenset(terms.items()): terms for terms in forms}.values())


def _solve(later: list[Terms], register: BoxRegister, present: list[BoxRegister]) -> Terms | None:
    """Short c with f_row = sum_r c_r f_r for all later forms, or None.

    Gauss over the rationals; the free numbers are 0. Only halves, ones and twos are worth it:
    other weights would round.
    """
    unknowns = [r for r in present if any(r in form for form in later)]
    rows = [
        [*(form.get(r, Fraction(0)) for r in unknowns), form.get(register, Fraction(0))]
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


def _stand_in_for(sketch: BoxSketch, register: BoxRegister, stand_in: Terms) -> None:
    for r, c in stand_in.items():
        for writer, weight in register.writes.items():
            sketch.write(r, writer, c * weight)
    register.writes.clear()
