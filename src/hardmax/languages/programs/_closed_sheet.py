"""Steps that are written down one after another, with their numbers, names and selections.

What is decided here is how selections become tables, and what helper steps are called; what each
value of a program is made of is decided in `_closed_steps`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.core import (
    INDEX,
    SYMBOL,
    Aggregate,
    Pointwise,
    SequenceStep,
    StepNote,
    Words,
)
from hardmax.core import Selection as Chosen
from hardmax.languages.programs._choosing import (
    Conjunct,
    Part,
    always,
    both,
    either,
    opposite,
    relation_of,
)
from hardmax.languages.programs._interpreter import (
    relation_holds,
    sources_of,
)
from hardmax.languages.programs._items import Exact, Item
from hardmax.languages.programs._naming import free_name, step_names
from hardmax.languages.programs._nodes import (
    Combined,
    Constant,
    Given,
    Joined,
    Related,
    Selection,
    Value,
)
from hardmax.languages.programs._printing import step_text
from hardmax.languages.programs._program import Program
from hardmax.languages.programs._steps import Code, Number
from hardmax.languages.programs._value_sets import TooLarge

_MOST = 2**20  # entries of one table
_MOST_JOINT = 2**12  # items of values that are compared jointly


class Scored(NamedTuple):
    """Positions that a head can select: those for which all conjuncts hold, each worth a weight."""

    weight: Fraction
    conjuncts: tuple[Conjunct, ...]


class StepSheet:
    """The steps so far; somebody else decides which come next."""

    def __init__(self, program: Program, words: Words, codes: Mapping[Value, Code]) -> None:
        self.words, self.codes = words, codes
        self.steps: list[SequenceStep] = []
        self.place: dict[Value, int] = {}
        self.numbers: dict[int, tuple[Exact, ...]] = {
            SYMBOL: tuple(range(len(words.alphabet))),
            INDEX: tuple(range(words.longest)),
        }
        self.inner = _inner_sums(program, codes)
        self.given_names = step_names(program.outputs, program.beside)
        self.taken = set(self.given_names.values())
        self.names = {INDEX: free_name("place", self.taken)}
        self.labels: dict[int, dict[Number, str]] = {}
        self.scored: dict[int, tuple[Scored, ...]] = {}
        self.texts: dict[int, Value] = {}
        self._places: dict[int, dict[Exact, int]] = {}
        self._joint: dict[tuple[int, ...], int] = {}
        self._now: Value | None = None

    # ---- adding steps --------------------------------------------------------------------------

    def _items(self, value: Value) -> tuple[Item, ...]:
        return self.codes[value].items

    def _add(self, step: SequenceStep, numbers: Iterable[Exact]) -> int:
        """A step, for now with a name made of the one that it belongs to."""
        self.steps.append(step)
        number = len(self.steps) + 2  # three values are given
        self.numbers[number] = tuple(sorted(set(numbers)))
        if self._now is not None:
            self.texts[number] = self._now
            owner = self.given_names.get(self._now, "constant")
            self.names[number] = self._part_name(owner)
        return number

    def _part_name(self, owner: str) -> str:
        """owner.1, owner.2, ...: the parts of one value's making, in order."""
        number = 1
        while f"{owner}.{number}" in self.taken:
            number += 1
        self.taken.add(f"{owner}.{number}")
        return f"{owner}.{number}"

    def _look_up(self, sources: tuple[int, ...], function: Callable[..., Exact]) -> int:
        """A function of numbers, with its image; where it fails there is no answer."""
        distinct = list(dict.fromkeys(sources))
        self._limit(math.prod(len(self.numbers[one]) for one in distinct))
        image = set()
        for given in itertools.product(*(self.numbers[one] for one in distinct)):
            held = dict(zip(distinct, given, strict=True))
            try:
                image.add(function(*[held[one] for one in sources]))
            except HardmaxError:
                continue
        return self._add(Pointwise(sources, function), image)

    def _limit(self, cases: int, most: int = _MOST) -> None:
        if cases > most:
            name = "a step" if self._now is None else self.given_names.get(self._now, "a step")
            raise TooLarge(
                f"The step {name!r} would have to tell {cases:,} cases apart, which is too many "
                f"for a legible model. Shorten the words, or map its arguments to fewer values."
            )

    def _count_everybody(self) -> int:
        """The length, as everybody counts it."""
        lengths = [n for n in self.words.lengths if n]
        step = self._add(Aggregate(Chosen((), (), lambda: True), "count"), lengths)
        self.scored[step] = (Scored(Fraction(1), ()),)
        return step

    def notes(self) -> dict[int, StepNote]:
        """What is to be said of each step."""
        named = {id(v): self.names[step] for v, step in self.place.items()}
        found = {}
        for step, name in self.names.items():
            value, labels = self.texts.get(step), self.labels.get(step, {})
            text = name
            if isinstance(value, Given) and value.what == "length":
                text = f"{name}: how many positions there are"
            elif value is not None:
                others = {key: called for key, called in named.items() if key != id(value)}
                own = self.place.get(value) == step
                text = f"{name}{' =' if own else ', for'} {step_text(value, others)}"
            found[step] = StepNote(name, text, labels)
        return found

    # ---- selections ----------------------------------------------------------------------------

    def _parts(self, selection: Selection) -> list[Part]:
        match selection:
            case Joined(how="and", parts=parts):
                found = always()
                for part in parts:
                    found = both(found, self._parts(part))
                return found
            case Joined(how="or", parts=parts):
                return either([self._parts(part) for part in parts])
            case Joined(parts=(part,)):
                return opposite(self._parts(part))
            case Related():
                return both(always(), [self._related(selection)])
        raise AssertionError(f"unknown selection {type(selection).__name__}")

    def _related(self, selection: Related) -> Part:
        """One table: several values there, or here, are compared jointly."""
        keys = [k for k in dict.fromkeys(selection.keys) if not isinstance(k, Constant)]
        asked = [q for q in dict.fromkeys(selection.queries) if not isinstance(q, Constant)]
        own, here = self._cases(keys), self._cases(asked)
        self._limit(len(own) * len(here))
        table = np.zeros((len(own), len(here)), dtype=bool)
        for i, there in enumerate(own):
            for j, given in enumerate(here):
                table[i, j] = self._holds(selection, there, given)
        return {(self._jointly(keys), self._jointly(asked)): table}

    def _cases(self, values: list[Value]) -> list[dict[Value, Item]]:
        """What the values can hold together, in the order of the numbers of their joint step."""
        lists = [[self.codes[one].item(n) for n in self.numbers[self.place[one]]] for one in values]
        self._limit(math.prod(map(len, lists)), _MOST_JOINT if len(lists) > 1 else _MOST)
        return [dict(zip(values, items, strict=True)) for items in itertools.product(*lists)]

    def _holds(
        self, selection: Related, there: Mapping[Value, Item], here: Mapping[Value, Item]
    ) -> bool:
        def held(one: Value, given: Mapping[Value, Item]) -> Item:
            return one.item if isinstance(one, Constant) else given[one]

        own = [held(key, there) for key in selection.keys]
        asked = [held(query, here) for query in selection.queries]
        try:
            return relation_holds(selection, own, asked)
        except HardmaxError:
            return False  # there is no answer, whatever is selected

    def _jointly(self, values: list[Value]) -> int | None:
        return self._joint_step(tuple(self.place[one] for one in values))

    def _joint_step(self, places: tuple[int, ...]) -> int | None:
        """The step that tells all cases of several steps apart; of one step, itself."""
        if len(places) < 2:
            return places[0] if places else None
        if places not in self._joint:
            lists = [self.numbers[one] for one in places]
            self._limit(math.prod(map(len, lists)), _MOST_JOINT)
            number = {given: k for k, given in enumerate(itertools.product(*lists))}
            step = Pointwise(places, lambda *given: number[given])
            self._joint[places] = self._add(step, number.values())
        return self._joint[places]

    def _one_part(self, parts: list[Part]) -> Part:
        """Several parts as one table of all their values, there and here jointly."""
        if len(parts) == 1:
            return parts[0]
        keys = tuple(dict.fromkeys(k for part in parts for k, _ in part if k is not None))
        asked = tuple(dict.fromkeys(q for part in parts for _, q in part if q is not None))
        holds = relation_of(parts, keys, asked, self._place_of)
        own = list(itertools.product(*(self.numbers[k] for k in keys)))
        here = list(itertools.product(*(self.numbers[q] for q in asked)))
        self._limit(len(own) * len(here))
        table = np.array([[holds(*a, *b) for b in here] for a in own], dtype=bool)
        table = table.reshape(len(own), len(here))
        return {(self._joint_step(keys), self._joint_step(asked)): table}

    def _place_of(self, step: int) -> dict[Exact, int]:
        """Where each number of a step stands in its list."""
        if step not in self._places:
            self._places[step] = {n: k for k, n in enumerate(self.numbers[step])}
        return self._places[step]

    def _chosen(self, parts: list[Part]) -> Chosen:
        keys = tuple(dict.fromkeys(k for part in parts for k, _ in part if k is not None))
        asked = tuple(dict.fromkeys(q for part in parts for _, q in part if q is not None))
        return Chosen(keys, asked, relation_of(parts, keys, asked, self._place_of))

    def _where_held(self, step: int, wanted: Callable[[Exact], bool]) -> list[Part]:
        """The positions at which a step's number is wanted."""
        table = np.array([[wanted(n)] for n in self.numbers[step]], dtype=bool)
        return both(always(), [{(step, None): table}])


def _inner_sums(program: Program, codes: Mapping[Value, Code]) -> set[Value]:
    """Sums without a name that one other sum alone reads: they are a part of its step."""

    def is_sum(value: Value) -> bool:
        parts = [value, *value.sources] if isinstance(value, Combined) else []
        return bool(parts) and all(codes[part].is_plain for part in parts)

    readers: dict[Value, list[Value]] = {}
    for value in program.values:
        for source in dict.fromkeys(sources_of(value)):
            readers.setdefault(source, []).append(value)
    outputs = dict.fromkeys((*program.outputs, *program.beside))
    return {
        value
        for value, reading in readers.items()
        if is_sum(value)
        and value.given_name is None
        and value not in outputs
        and len(reading) == 1
        and is_sum(reading[0])
    }


def labels_of(code: Code) -> dict[Number, str]:
    """How items are shown: a text that looks like another item is put in quotes."""
    shown = [_shown(one) for one in code.items]
    return {
        code.number(one): repr(one) if shown.count(text) > 1 and isinstance(one, str) else text
        for one, text in zip(code.items, shown, strict=True)
    }


def _shown(one: Item) -> str:
    return "none" if one is None else str(one)
