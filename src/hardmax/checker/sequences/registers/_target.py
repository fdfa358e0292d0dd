"""The target's side of registers: which numbers a step can be, and what it is a function of.

A *root* is a value that is taken for what it is: the symbol, a value fetched from one position, or
one picked from several. Everything computed from one root alone is a table over the numbers that
the root can be. More numbers than really occur are allowed; a bound only becomes larger.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax.checker._budget import FUNCTION, charge
from hardmax.checker.sequences._stream import Number
from hardmax.core import (
    INDEX,
    LENGTH,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    SequenceStep,
    SequenceSteps,
)
from hardmax.core import Selection as Chosen
from hardmax.numerics import above_float, lowest_bit

NOWHERE = -1  # nothing is selected
_LARGEST = 2**10  # numbers of a value


@dataclass(frozen=True, eq=False)
class RootForm:
    """A value as a function of its root: its number for each of the root's, in their order."""

    root: int
    numbers: tuple[Number, ...]

    @cached_property
    def middle(self) -> np.ndarray:
        return np.array([float(number) for number in self.numbers])

    @cached_property
    def away(self) -> float:
        """How far a number is from the float that stands for it, at most."""
        if all(type(number) is int and abs(number) < 2**53 for number in self.numbers):
            return 0.0
        pairs = zip(self.middle.tolist(), self.numbers, strict=True)
        worst = max(abs(Fraction(m) - Fraction(x)) for m, x in pairs)
        return above_float(worst)

    @cached_property
    def size(self) -> float:
        return float(np.abs(self.middle).max())

    @cached_property
    def grid(self) -> float:
        return float(lowest_bit(self.middle).min())

    @cached_property
    def key(self) -> bytes:
        return self.middle.tobytes()


class RootTarget:
    """The forms of all steps that have one, for words of one length."""

    def __init__(self, steps: SequenceSteps, length: int, symbols: int) -> None:
        self.steps, self.length = steps, length
        self._forms: list[RootForm | None] = [RootForm(SYMBOL, tuple(range(symbols))), None, None]
        places: list[list[Number] | None] = [None, list(range(length)), [length] * length]
        self._places = places
        self._chosen: dict[int, tuple[int, ...] | None] = {}
        self._unions: dict[tuple[int, ...], tuple[Number, ...] | None] = {}
        for step in steps.steps:
            try:
                form, held = self._form(step), self._held(step)
            except Exception:  # a function was given numbers that never occur together
                form, held = None, None
            self._forms.append(form)
            self._places.append(held)

    def form(self, value: int) -> RootForm | None:
        return self._forms[value] if 0 <= value < len(self._forms) else None

    def step(self, value: int) -> SequenceStep | None:
        """The step that makes a value; None for those that are given, or not there."""
        return self.steps.steps[value - 3] if 3 <= value < len(self._forms) else None

    def chosen(self, selection: Chosen) -> tuple[int, ...] | None:
        """The one position that each position selects, or nowhere; None if that is not so."""
        if id(selection) not in self._chosen:
            self._chosen[id(selection)] = self._choose(selection)
        return self._chosen[id(selection)]

    def _form(self, step: SequenceStep) -> RootForm | None:
        match step:
            case Pointwise(sources=sources, function=function):
                return self._applied(sources, lambda *given: function(*given))
            case Combination(sources=sources):
                return self._applied(sources, lambda *given: _combined(step, given))
            case Aggregate(kind="mean" | "min" | "max", value=value, default=default):
                form = None if value is None else self._forms[value]
                if form is None or self.chosen(step.selection) is None:
                    return None
                return self._rooted([form.numbers, (default,)])
            case Picked(number=number, options=options):
                return self._picked(number, options)
        return None

    def _applied(
        self, sources: tuple[int, ...], function: Callable[..., Number]
    ) -> RootForm | None:
        forms = [self._forms[source] for source in sources]
        known = [form for form in forms if form is not None]
        if not known or len(known) < len(forms) or len({form.root for form in known}) > 1:
            return None
        charge(FUNCTION, len(known[0].numbers))
        rows = zip(*(form.numbers for form in known), strict=True)
        return RootForm(known[0].root, tuple(_finite(function(*row)) for row in rows))

    def _picked(self, number: int, options: tuple[int, ...]) -> RootForm | None:
        which = self._forms[number]
        if which is None or not all(
            isinstance(k, int) and 0 <= k < len(options) for k in which.numbers
        ):
            return None
        if options not in self._unions:
            forms = [self._forms[option] for option in options]
            parts = [form.numbers for form in forms if form is not None]
            self._unions[options] = _union(parts) if len(parts) == len(forms) else None
        found = self._unions[options]
        return None if found is None else RootForm(len(self._forms), found)

    def _rooted(self, parts: list[tuple[Number, ...]]) -> RootForm | None:
        """A root of its own, with any of these numbers."""
        found = _union(parts)
        return None if found is None else RootForm(len(self._forms), found)

    def _held(self, step: SequenceStep) -> list[Number] | None:
        """What a step says at each position, if that is the same for all words."""
        if not isinstance(step, Pointwise | Combination) or not step.sources:
            return None
        given = [self._places[source] for source in step.sources]
        known = [one for one in given if one is not None]
        if len(known) < len(given):
            return None
        rows = zip(*known, strict=True)
        if isinstance(step, Pointwise):
            return [step.function(*row) for row in rows]
        return [_combined(step, row) for row in rows]

    def _choose(self, selection: Chosen) -> tuple[int, ...] | None:
        keys = [self._places[key] for key in selection.keys]
        queries = [self._places[query] for query in selection.queries]
        there = [key for key in keys if key is not None]
        here = [query for query in queries if query is not None]
        if len(there) + len(here) < len(keys) + len(queries):
            return None
        charge(FUNCTION, self.length * self.length)
        chosen = []
        for t in range(self.length):
            asked = [query[t] for query in here]
            seen = range(t + 1 if selection.causal else self.length)
            found = [j for j in seen if selection.relation(*[key[j] for key in there], *asked)]
            if len(found) > 1:
                return None
            chosen.append(found[0] if found else NOWHERE)
        return tuple(chosen)


def _combined(step: Combination, given: Sequence[Number]) -> Number:
    terms = (Fraction(w) * Fraction(x) for w, x in zip(step.weights, given, strict=True))
    total = sum(terms, Fraction(step.constant))
    return total.numerator if total.denominator == 1 else total


def _finite(number: Number) -> Number:
    """The number itself; refused if it is none, or too large for a float."""
    if float(number) - float(number) != 0.0:
        raise ValueError("A step says something that is not a number.")
    Fraction(number)
    return number


def _union(parts: list[tuple[Number, ...]]) -> tuple[Number, ...] | None:
    found = set().union(*parts)
    for number in found:
        _finite(number)
    return tuple(sorted(found)) if len(found) <= _LARGEST else None


assert (SYMBOL, INDEX, LENGTH) == (0, 1, 2)
