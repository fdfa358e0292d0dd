"""A source's steps, read on a domain, as units and rectifiers.

Every component of every value becomes a *view*: a term (an input, a unit, a rectifier), a multiple
of a unit, or None where it is 0 on the whole domain or nothing depends on it. An affine step makes
units of its components; what it merely scales stays a multiple. A relu makes none: its components
are rectifiers of units. A maximum is a knock-out tournament of units, a + max(0, b - a) for each
pair, and |z| is z + max(0, -2 z).

What keeps its sign on the domain is folded: a relu that is never negative is what it reads, one
that is never positive is 0, a piece of a maximum that never leads is left out (`Activity`).
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardmax.core import Affine, Box, Maximum, Steps, Univariate
from hardmax.lowering.networks._activity import Activity, Place
from hardmax.lowering.networks._form_draft import FormDraft
from hardmax.lowering.networks._rectifiers import (
    Answer,
    Held,
    Input,
    Rectified,
    RectifierForm,
    Term,
    units_read,
)


@dataclass(frozen=True)
class Multiple:
    """factor * unit, which nobody has had to store yet."""

    unit: int
    factor: float

    @property
    def is_opposite(self) -> bool:
        """Whether a weight times the factor is never rounded. (A power of two may underflow.)"""
        return self.factor == -1.0


View = Term | Multiple | None


def rectifier_form(steps: Steps, domain: Box) -> RectifierForm:
    """The units of a piecewise linear program on a domain; only those that matter to an output."""
    return _Reader(steps, domain).form()


@dataclass(frozen=True)
class _Player:
    """A unit, or a multiple, still in a tournament, and the components whose maximum it holds."""

    unit: int
    places: tuple[Place, ...]
    factor: float = 1.0

    @property
    def multiple(self) -> Multiple:
        return Multiple(self.unit, self.factor)


def _larger(a: Multiple, b: Multiple) -> dict[Term, float]:
    """max(a, b) as a + max(0, b - a); of one unit u it is c max(0, u) - d max(0, -u).

    There c >= d are the two factors: b - a would have their rounded difference for a weight.
    """
    if a.unit == b.unit:
        more, less = max(a.factor, b.factor), min(a.factor, b.factor)
        return {Rectified(((a.unit, 1.0),)): more, Rectified(((a.unit, -1.0),)): -less}
    difference = Rectified(((b.unit, b.factor), (a.unit, -a.factor)))
    return {Held(a.unit): a.factor, difference: 1.0}


class _Reader:
    """Reads the steps one after the other; knows the views and units so far."""

    def __init__(self, steps: Steps, domain: Box) -> None:
        self.steps = steps
        self.activity = Activity(steps, domain)
        self.views: list[list[View]] = [[Input(i) for i in range(steps.inputs)]]
        self.value_levels = [-1]  # the embedding writes what needs inputs alone
        self.draft = FormDraft(self.activity)
        self.stored: dict[Term | Multiple, int] = {}  # units that hold what was none by itself
        self.constants: dict[float, int] = {}

    def form(self) -> RectifierForm:
        *before, last = range(len(self.steps.steps))
        for number in before:
            self._read(number)
        answer = self._affine_answer(last)
        if answer is None:
            self._read(last)
            answer = self._plain_answer(last + 1)
        return self.draft.finished(answer)

    def _read(self, number: int) -> None:
        step, value = self.steps.steps[number], number + 1
        level = max(self.value_levels[source] for source in step.sources)
        match step:
            case Affine():
                views = self._scaled(number, step)
                rows = [i for i in self._live(number) if i not in views]
                if rows or not views:
                    level += 1  # even where no live weight asks for it: a layer stays one layer
                    views |= self._affine(number, step, rows, level)
            case Maximum():
                views = self._maxima(number)
            case Univariate(name="relu"):
                views = self._rectified(number)
            case Univariate(name="abs"):
                views = self._absolute(number)
            case _:
                raise AssertionError("only piecewise linear steps come here")
        self.views.append([views.get(i) for i in range(self.steps.size(value))])
        self.value_levels.append(max([level, *map(self._level, views.values())]))

    # ---- the steps -----------------------------------------------------------------------------

    def _scaled(self, number: int, step: Affine) -> dict[int, View]:
        """The components that only scale a unit, or are constant: they wait for no layer.

        After a relu nothing is gained by that: the heads that make rectifiers write W relu(z). At
        the end everything is stored, constants too: there a witness wants to point at something.
        """
        views: dict[int, View] = {}
        is_last = number + 1 == len(self.steps.steps)
        for i in self._live(number) if self._reads_units(step) and not is_last else ():
            weights, bias = step.weights[i], float(step.bias[i])
            read = np.flatnonzero(weights).tolist()
            view = self._view(self.activity.read_places[number][read[0]]) if read else None
            if not read:
                views[i] = self._constant(bias, (number + 1, i))
            elif len(read) == 1 and isinstance(view, Held) and not bias:
                factor = float(weights[read[0]])
                views[i] = view if factor == 1.0 else Multiple(view.unit, factor)
        return views

    def _reads_units(self, step: Affine) -> bool:
        """Whether an affine step reads neither inputs nor rectifiers."""
        before = [self.steps.steps[source - 1] for source in step.sources if source]
        relus = [s for s in before if isinstance(s, Univariate) and s.name == "relu"]
        return len(before) == len(step.sources) and not relus

    def _constant(self, number: float, place: Place) -> View:
        if not number:
            return None
        if number not in self.constants:
            nothing = np.zeros((1, 0))
            (self.constants[number],) = self.draft.add([], nothing, np.array([number]), [(place,)])
        return Held(self.constants[number])

    def _affine(self, number: int, step: Affine, rows: list[int], level: int) -> dict[int, View]:
        columns, terms, factors = self._columns(number)
        weights = step.weights[np.ix_(rows, columns)] * factors
        places = [((number + 1, i),) for i in rows]
        units = self.draft.add(terms, weights, step.bias[rows], places, affine_level=level)
        return dict(zip(rows, map(Held, units), strict=True))

    def _columns(self, number: int) -> tuple[list[int], list[Term], np.ndarray]:
        """The columns of an affine step that are not 0, their terms, and factors of the weights.

        No two terms are equal: their columns would have to be added, and sums are rounded.
        """
        places = self.activity.read_places[number]
        self._units([place for place in places if _must_be_stored(self._view(place))])
        seen: Counter[Term] = Counter()
        columns, terms, factors = [], [], []
        for j, place in enumerate(places):
            view, factor = self._view(place), 1.0
            if view is None:
                continue
            if isinstance(view, Multiple) and view.is_opposite:
                view, factor = Held(view.unit), -1.0
            elif isinstance(view, Multiple) or (isinstance(view, Input) and seen[view]):
                view = Held(*self._units([place]))
            seen[view] += 1
            columns.append(j)
            terms.append(view if isinstance(view, Input) else replace(view, again=seen[view] - 1))
            factors.append(factor)
        return columns, terms, np.array(factors)

    def _rectified(self, number: int) -> dict[int, View]:
        """A component that may be positive and negative is a rectifier of the unit it reads."""
        places, ends = self.activity.read_places[number], self.activity.read_range(number)
        views = {i: self._view(places[i]) for i in self._live(number) if ends.hi[i] > 0.0}
        switching = [i for i, view in views.items() if view is not None and ends.lo[i] < 0.0]
        read = dict(zip(switching, self._multiples([places[i] for i in switching]), strict=True))
        told = {i: view.unit for i, view in views.items() if isinstance(view, Held)}
        told |= {i: multiple.unit for i, multiple in read.items() if multiple.factor == 1.0}
        self.draft.state(told.values(), [((number + 1, i),) for i in told], rectified=True)
        return views | {i: Rectified(((m.unit, m.factor),)) for i, m in read.items()}

    def _absolute(self, number: int) -> dict[int, View]:
        """z, -z, or z + max(0, -2 z), by what is known of the sign of z."""
        places, ends = self.activity.read_places[number], self.activity.read_range(number)
        views = {i: self._view(places[i]) for i in self._live(number)}
        negative = [i for i, view in views.items() if view is not None and ends.lo[i] < 0.0]
        rows: list[dict[Term, float]] = []
        continues = []
        for i, unit in zip(negative, self._units([places[i] for i in negative]), strict=True):
            turns = ends.hi[i] > 0.0
            turned = Rectified(((unit, -2.0),))
            rows.append({Held(unit): 1.0, turned: 1.0} if turns else {Held(unit): -1.0})
            continues.append(unit if turns else -1)
        made = self.draft.add_rows(rows, [((number + 1, i),) for i in negative], continues)
        return views | dict(zip(negative, map(Held, made), strict=True))

    def _maxima(self, number: int) -> dict[int, View]:
        """All tournaments round by round; whoever wins against 0 at the end is rectified."""
        places = self.activity.read_places[number]
        pieces = {row: self.activity.leading[number, row] for row in self._live(number)}
        groups = {row: [places[j] for j in chosen] for row, chosen in pieces.items()}
        against_zero = {row for row, group in groups.items() if None in map(self._view, group)}
        there = [p for group in groups.values() for p in group if self._view(p) is not None]
        multiples = dict(zip(there, self._multiples(there), strict=True))
        players: dict[int, list[_Player]] = {}
        for row, group in groups.items():
            entered: dict[Multiple, Place] = {}
            for place in (place for place in group if place in multiples):
                entered.setdefault(multiples[place], place)
            players[row] = [_Player(m.unit, (place,), m.factor) for m, place in entered.items()]
        while any(len(group) > 1 for group in players.values()):
            players = self._round(number + 1, players)
        views: dict[int, View] = {}
        for row, winner in ((row, group[0]) for row, group in players.items() if group):
            won = Multiple(winner.unit, winner.factor)
            plain = Held(won.unit) if won.factor == 1.0 else won
            views[row] = Rectified(((won.unit, won.factor),)) if row in against_zero else plain
        return views

    def _round(self, value: int, groups: dict[int, list[_Player]]) -> dict[int, list[_Player]]:
        """The first of each pair becomes the maximum a + max(0, b - a) of both.

        A witness can name a maximum of components of one value; of several values only the last
        one, which is a component of its own.
        """
        pairs: dict[tuple[Multiple, Multiple], tuple[Place, ...]] = {}  # some meet several times
        for row, group in groups.items():
            for a, b in zip(group[::2], group[1::2], strict=False):
                places = a.places + b.places
                is_last = len(group) == 2 and len({source for source, _ in places}) > 1
                pairs.setdefault((a.multiple, b.multiple), ((value, row),) if is_last else places)
        rows = [_larger(a, b) for a, b in pairs]
        continues = [
            a.unit if row.get(Held(a.unit)) == 1.0 else -1
            for (a, _), row in zip(pairs, rows, strict=True)
        ]
        made = self.draft.add_rows(rows, list(pairs.values()), continues)
        winners = dict(zip(pairs, map(_Player, made, pairs.values()), strict=True))
        return {
            row: [
                winners[a.multiple, b.multiple] if b else a
                for a, b in itertools.zip_longest(group[::2], group[1::2])
            ]
            for row, group in groups.items()
        }

    # ---- the answer ----------------------------------------------------------------------------

    def _affine_answer(self, number: int) -> Answer | None:
        """A last affine step of what units hold is the read-out's.

        After a relu it is not: the heads that make rectifiers carry its weights for nothing.
        """
        step = self.steps.steps[number]
        if not isinstance(step, Affine) or not self._reads_units(step):
            return None
        columns, terms, factors = self._columns(number)
        units = [term.unit for term in terms if isinstance(term, Held) and not term.again]
        if len(units) < len(terms) or not terms:
            return None
        return Answer(np.array(units), step.weights[:, columns] * factors, step.bias)

    def _plain_answer(self, value: int) -> Answer:
        views = self.views[value]
        rows = [i for i, view in enumerate(views) if view is not None]
        units = self._units([(value, i) for i in rows])
        return Answer(np.array(units, dtype=int), np.eye(len(views))[:, rows], np.zeros(len(views)))

    # ---- units ---------------------------------------------------------------------------------

    def _live(self, number: int) -> list[int]:
        return np.flatnonzero(self.activity.live[number + 1]).tolist()

    def _view(self, place: Place) -> View:
        value, component = place
        return self.views[value][component]

    def _level(self, view: View) -> int:
        units = (view.unit,) if isinstance(view, Multiple) else units_read(view)
        return self.draft.level_of(units)

    def _units(self, places: Sequence[Place]) -> list[int]:
        """Units that hold these components; what is no unit by itself is stored in a new one."""
        fresh: dict[Term | Multiple, Place] = {}
        for place in places:
            view = self._view(place)
            if not isinstance(view, Held | None) and view not in self.stored:
                fresh.setdefault(view, place)
        rows: list[dict[Term, float]] = [
            {Held(view.unit): view.factor} if isinstance(view, Multiple) else {view: 1.0}
            for view in fresh
        ]
        made = self.draft.add_rows(rows, [(place,) for place in fresh.values()])
        self.stored |= dict(zip(fresh, made, strict=True))
        views = [self._view(place) for place in places]
        return [v.unit if isinstance(v, Held) else self.stored[v] for v in views if v is not None]

    def _multiples(self, places: Sequence[Place]) -> list[Multiple]:
        """The same, but multiples of units stay what they are."""
        views = [self._view(place) for place in places]
        others = [
            p for p, view in zip(places, views, strict=True) if not isinstance(view, Multiple)
        ]
        units = iter(self._units(others))
        return [v if isinstance(v, Multiple) else Multiple(next(units), 1.0) for v in views]


def _must_be_stored(view: View) -> bool:
    """Whether a weight on it would be multiplied, and rounded."""
    return isinstance(view, Multiple) and not view.is_opposite
