"""The numbers that stand for the items of a program's values, shared by all ways to compile it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np

from hardmax._errors import SemanticsError
from hardmax.languages.programs import (
    Aggregated,
    Code,
    Item,
    ProgramTarget,
    Value,
    codes_of,
    evaluate_pointwise,
    exact_number,
    value_sets,
)
from hardmax.lowering.programs._lookup import LookupCode as LookUpCode
from hardmax.lowering.programs._lookup import find_code
from hardmax.lowering.programs._questions import SelectionQuestion, ask
from hardmax.numerics import up


class Codes(dict[Value, Code]):
    """The codes of a program's values, and of others when they are asked for; all ways share them.

    So do they the questions that its aggregates ask, and what takes long to find: which items go
    together, and by which numbers they are looked up. A dozen ways find them once.
    """

    def __init__(self, target: ProgramTarget) -> None:
        super().__init__(target.codes)
        self._words = target.words
        self._questions: dict[Value, SelectionQuestion] = {}
        self._cases: dict[tuple, tuple[np.ndarray, ...]] = {}
        self._look_ups: dict[tuple, LookUpCode] = {}

    def asked_by(self, value: Aggregated) -> SelectionQuestion:
        if value not in self._questions:
            self._questions[value] = ask(value, self._words, self)
        return self._questions[value]

    def cases(self, roots: tuple[Value, ...], values: tuple[Value, ...]) -> tuple[np.ndarray, ...]:
        """The numbers of the values' items for all items of their roots; -1 where there is none."""
        if (roots, values) not in self._cases:
            numbers = [{item: k for k, item in enumerate(self[one].items)} for one in values]
            items = [self[root].items for root in roots]
            cases = np.full([len(values), *map(len, items)], -1)
            for index in np.ndindex(cases.shape[1:]):
                given = {r: own[k] for r, own, k in zip(roots, items, index, strict=True)}
                with contextlib.suppress(SemanticsError, KeyError):
                    held = [evaluate_pointwise(value, given) for value in values]
                    cases[(slice(None), *index)] = [
                        n[one] for n, one in zip(numbers, held, strict=True)
                    ]
            self._cases[roots, values] = tuple(cases)
        return self._cases[roots, values]

    def look_up(
        self, table: np.ndarray, levels: Sequence[np.ndarray | None], flat: bool
    ) -> LookUpCode:
        """`find_code`, which tries many."""
        held = tuple(None if one is None else one.tobytes() for one in levels)
        key = (table.shape, table.tobytes(), held, flat)
        if key not in self._look_ups:
            self._look_ups[key] = find_code(table, levels, flat)
        return self._look_ups[key]

    def __missing__(self, value: Value) -> Code:
        for one, code in codes_of(value_sets([value], self._words)).items():
            self.setdefault(one, code)
        return self[value]


def _is_long(one: Item) -> bool:
    """Whether a whole number has more digits than a float."""
    return isinstance(one, int) and one.bit_length() > 53


def largest_rounding(items: Iterable[Item]) -> float:
    """How far floats are from numbers, at most."""
    exact = [exact_number(one) for one in items if isinstance(one, Fraction) or _is_long(one)]
    worst = max((abs(one - Fraction(float(one))) for one in exact), default=Fraction(0))
    return up(float(worst))
