"""Registers that are only ever read together become one register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hardmax.lowering.programs._sketch import Form, HeadSketch, Register, Sketch, Unit

_Read = tuple[int, float]  # number of a form, weight in it


Rename = Callable[[Form], Form | None]


def merge_registers(sketch: Sketch, answers: Sequence[Form]) -> tuple[list[Form], Rename]:
    """Where all forms read w_1 r_1 + w_2 r_2 with one ratio of weights, r_1 takes both.

    The registers must be empty at first and be written by one and the same sublayer, so that
    nobody can have read one of them before. The sketch changes; the answers come back renamed,
    with a way to rename any other form: None if it reads apart what is one register now.
    """
    forms = [*_forms(sketch), *answers]
    reads: dict[Register, list[_Read]] = {}
    for number, form in enumerate(forms):
        for register, weight in form.terms.items():
            reads.setdefault(register, []).append((number, weight))
    writers = _writers(sketch)
    groups: dict[tuple, list[tuple[Register, float]]] = {}
    for register, found in reads.items():
        if register.symbols.any() or register.places.any() or register.start:
            continue
        if len(writers.get(register, set())) != 1:
            continue
        first = found[0][1]
        ratios = tuple((number, round(weight / first, 12)) for number, weight in found)
        key = (*writers[register], ratios)
        groups.setdefault(key, []).append((register, first))
    becomes: dict[Register, tuple[Register, float]] = {}
    for members in groups.values():
        keeper, scale = members[0]
        for register, weight in members[1:]:
            becomes[register] = keeper, weight / scale
            keeper.bound += register.bound * abs(weight / scale)
            keeper.beyond += max(register.beyond, register.bound) * abs(weight / scale)
    return _renamed(sketch, answers, becomes), _renaming(becomes)


def _renaming(becomes: dict[Register, tuple[Register, float]]) -> Rename:
    members: dict[Register, dict[Register, float]] = {}
    for register, (keeper, ratio) in becomes.items():
        members.setdefault(keeper, {keeper: 1.0})[register] = ratio

    def rename(form: Form) -> Form | None:
        for register in form.terms:
            keeper = becomes.get(register, (register, 1.0))[0]
            own = form.terms.get(keeper, 0.0)
            for member, ratio in members.get(keeper, {}).items():
                if abs(form.terms.get(member, 0.0) - own * ratio) > 1e-9 * abs(own):
                    return None
        kept = {r: w for r, w in form.terms.items() if r not in becomes}
        return replace(form, terms=kept)

    return rename


def _forms(sketch: Sketch) -> list[Form]:
    found = [unit.inner for units in sketch.units.values() for unit in units]
    for head in _heads(sketch):
        found += [*head.query, *head.key, *head.value]
    return found


def _heads(sketch: Sketch) -> list[HeadSketch]:
    return [head for heads in sketch.heads.values() for head in heads]


def _units(sketch: Sketch) -> list[Unit]:
    return [unit for units in sketch.units.values() for unit in units]


def _writers(sketch: Sketch) -> dict[Register, set[int]]:
    found: dict[Register, set[int]] = {}
    for number, heads in sketch.heads.items():
        for register, _ in (pair for head in heads for pair in head.output):
            found.setdefault(register, set()).add(number)
    for number, units in sketch.units.items():
        for register in (register for unit in units for register in unit.outer):
            found.setdefault(register, set()).add(number)
    return found


def _renamed(
    sketch: Sketch, answers: Sequence[Form], becomes: dict[Register, tuple[Register, float]]
) -> list[Form]:
    def reads(form: Form) -> Form:
        """What is left; that the ratio of weights is one only up to rounding is charged."""
        off = form.off
        for register, weight in form.terms.items():
            if register in becomes:
                keeper, ratio = becomes[register]
                off += abs(weight - form.terms[keeper] * ratio) * register.bound
        kept = {r: w for r, w in form.terms.items() if r not in becomes}
        return replace(form, terms=kept, off=off)

    for unit in _units(sketch):
        unit.inner = reads(unit.inner)
        outer: dict[Register, float] = {}
        for register, weight in unit.outer.items():
            kept, scale = becomes.get(register, (register, 1.0))
            outer[kept] = outer.get(kept, 0.0) + weight * scale
        unit.outer = {register: weight for register, weight in outer.items() if weight}
    for head in _heads(sketch):
        head.query, head.key, head.value = (
            [reads(form) for form in forms] for forms in (head.query, head.key, head.value)
        )
        head.output = [
            (becomes.get(r, (r, 1.0))[0], weight * becomes.get(r, (r, 1.0))[1])
            for r, weight in head.output
        ]
        _join_rows(head)
    return [reads(form) for form in answers]


def _join_rows(head: HeadSketch) -> None:
    """Value rows that go into one register are one row."""
    rows: dict[Register, tuple[Form, float]] = {}
    for form, (register, weight) in zip(head.value, head.output, strict=True):
        if register in rows:
            own, scale = rows[register]
            rows[register] = own + form * (weight / scale), scale
        else:
            rows[register] = form, weight
    head.value = [form for form, _ in rows.values()]
    head.output = [(register, weight) for register, (_, weight) in rows.items()]
