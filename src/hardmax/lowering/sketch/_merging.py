"""Registers that are only ever read together become one register."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from hardmax.lowering.sketch._word_sketch import WordForm, WordHead, WordRegister, WordSketch

_MANY = 4  # names that are not listed one by one
_Read = tuple[int, float]  # number of a form, weight in it


Keepers = dict[WordRegister, tuple[WordRegister, float]]  # who takes a register, times what
Rename = Callable[[WordForm], WordForm | None]


def merge_registers(
    sketch: WordSketch, answers: Sequence[WordForm]
) -> tuple[list[WordForm], Rename]:
    """Where all forms read w_1 r_1 + w_2 r_2 with one ratio of weights, r_1 takes both.

    The registers must be empty at first and be written by one and the same sublayer, so that
    nobody can have read one of them before. The sketch changes; the answers come back renamed,
    with a way to rename any other form: None if it reads apart what is one register now.
    """
    forms = [*sketch.layers.forms, *answers]
    reads: dict[WordRegister, list[_Read]] = {}
    for number, form in enumerate(forms):
        for register, weight in form.terms.items():
            reads.setdefault(register, []).append((number, weight))
    writers = _writers(sketch)
    groups: dict[tuple, list[tuple[WordRegister, float]]] = {}
    for register, found in reads.items():
        if register.symbols.any() or register.places.any() or register.start:
            continue
        if len(writers.get(register, set())) != 1:
            continue
        first = found[0][1]
        ratios = tuple((number, round(weight / first, 12)) for number, weight in found)
        key = (*writers[register], ratios)
        groups.setdefault(key, []).append((register, first))
    becomes: Keepers = {}
    for members in groups.values():
        keeper, scale = members[0]
        for register, weight in members[1:]:
            becomes[register] = keeper, weight / scale
            keeper.bound += register.bound * abs(weight / scale)
            keeper.beyond += max(register.beyond, register.bound) * abs(weight / scale)
        if len(members) > 1:
            keeper.name = sketch.free_name(_joint_name([one.name for one, _ in members]))
    return _renamed(sketch, answers, becomes), _renaming(becomes)


def _joint_name(names: Sequence[str]) -> str:
    """sort<a..d of sort<a, sort<b, sort<c, sort<d; otherwise all of them, added up."""
    owners = {name.partition("<")[0] for name in names}
    shared = len(owners) == 1 and all("<" in name for name in names)
    first = f"{names[0].partition('<')[0]}<" if shared else ""
    parts = [name[len(first) :] for name in names]
    return first + ("+".join(parts) if len(parts) < _MANY else f"{parts[0]}..{parts[-1]}")


def _renaming(becomes: Keepers) -> Rename:
    members: dict[WordRegister, dict[WordRegister, float]] = {}
    for register, (keeper, ratio) in becomes.items():
        members.setdefault(keeper, {keeper: 1.0})[register] = ratio

    def rename(form: WordForm) -> WordForm | None:
        for register in form.terms:
            keeper = becomes.get(register, (register, 1.0))[0]
            own = form.terms.get(keeper, 0.0)
            for member, ratio in members.get(keeper, {}).items():
                if abs(form.terms.get(member, 0.0) - own * ratio) > 1e-9 * abs(own):
                    return None
        kept = {r: w for r, w in form.terms.items() if r not in becomes}
        return replace(form, terms=kept)

    return rename


def _writers(sketch: WordSketch) -> dict[WordRegister, set[int]]:
    found: dict[WordRegister, set[int]] = {}
    for number in sketch.layers.sublayers:
        for register in (r for column in sketch.layers.written(number) for r in column):
            found.setdefault(register, set()).add(number)
    return found


def _renamed(
    sketch: WordSketch,
    answers: Sequence[WordForm],
    becomes: Keepers,
) -> list[WordForm]:
    def reads(form: WordForm) -> WordForm:
        """What is left; that the ratio of weights is one only up to rounding is charged."""
        off = form.off
        for register, weight in form.terms.items():
            if register in becomes:
                keeper, ratio = becomes[register]
                off += abs(weight - form.terms[keeper] * ratio) * register.bound
        kept = {r: w for r, w in form.terms.items() if r not in becomes}
        return replace(form, terms=kept, off=off)

    def writes(column: dict[WordRegister, float]) -> dict[WordRegister, float]:
        kept: dict[WordRegister, float] = {}
        for register, weight in column.items():
            keeper, scale = becomes.get(register, (register, 1.0))
            kept[keeper] = kept.get(keeper, 0.0) + weight * scale
        return {register: weight for register, weight in kept.items() if weight}

    for unit in sketch.layers.all_units:
        unit.inner, unit.outer = reads(unit.inner), writes(unit.outer)
    for head in sketch.layers.all_heads:
        head.query, head.key, head.value = (
            [reads(form) for form in forms] for forms in (head.query, head.key, head.value)
        )
        head.output = [writes(column) for column in head.output]
        _join_rows(head)
    return [reads(form) for form in answers]


def _join_rows(head: WordHead) -> None:
    """Value rows that go into one register are one row."""
    rows: dict[WordRegister, tuple[WordForm, float]] = {}
    for form, column in zip(head.value, head.output, strict=True):
        ((register, weight),) = column.items()
        if register in rows:
            own, scale = rows[register]
            rows[register] = own + form * (weight / scale), scale
        else:
            rows[register] = form, weight
    head.value = [form for form, _ in rows.values()]
    head.output = [{register: weight} for register, (_, weight) in rows.items()]
