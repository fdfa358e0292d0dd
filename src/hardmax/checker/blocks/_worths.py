"""What each head of a count or a sum is worth: together, they select what the step says."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardmax.checker.blocks._holding import Axis, Question, ShareTable, axes_of
from hardmax.checker.blocks._places import NOTHING, Tied, at_places, tied_by_place
from hardmax.checker.blocks._sets import Unproved
from hardmax.core import INDEX, Aggregate

_MOST = 2**24  # entries, over all pairs of places
_PAIR: list[Axis] = [("here", 0), ("there", 0)]


def worths_of(asked: Question, step: int, made: Aggregate, read: Sequence[int]) -> list[Fraction]:
    """What a position counts that each head selects.

    All cases of what heads read and of what the relation is about are compared; if there are masks,
    for each pair of places, with the steps that are functions of the place alone as they are there.
    """
    tables = [asked.tables[k] for k in read]
    masked = any(table.masked for table in tables)
    tied = tied_by_place(asked.sets, step) if masked else NOTHING
    return _Worths(asked, step, made, tables, tied, masked).found()


class _Worths:
    def __init__(
        self,
        asked: Question,
        step: int,
        made: Aggregate,
        tables: Sequence[ShareTable],
        tied: Tied,
        masked: bool,
    ) -> None:
        self.asked, self.sets, self.step, self.made = asked, asked.sets, step, made
        self.tables, self.tied = tables, tied
        self.places = asked.longest if masked else 1
        there = frozenset([*made.selection.keys, *(s for t in tables for s in t.keys)])
        known = there | {INDEX} if masked else there
        self.base = () if made.value is None else self.sets.base(made.value, known)
        keys = [*made.selection.keys, *self.base, *(s for t in tables for s in t.keys)]
        asks = [*made.selection.queries, *(s for t in tables for s in t.queries)]
        axes = dict.fromkeys([*(("k", s) for s in keys), *(("q", s) for s in asks)])
        self.axes: list[Axis] = [a for a in axes if a[1] not in tied.numbers]

    def found(self) -> list[Fraction]:
        own: list[Axis] = [("k", s) for s in self.made.selection.keys]
        own += [("q", s) for s in self.made.selection.queries]
        shape = [self.places, self.places, *(len(self.sets.numbers(s)) for _, s in self.axes)]
        if int(np.prod(shape, dtype=float)) > _MOST:
            raise Unproved(f"The step {self.sets.name(self.step)} has too many cases.")
        self.sets.limit(int(np.prod(shape, dtype=float)) // 8, self.step)
        wanted = self._spread(self.sets.relation(self.step), own).astype(float)
        if self.made.value is not None:
            wanted = wanted * self._spread(self._worth(), [("k", s) for s in self.base])
        wanted = np.broadcast_to(wanted, shape)
        selected = [np.broadcast_to(self._selected(t), shape) for t in self.tables]
        return self._compared(wanted, selected)

    def _spread(self, table: np.ndarray, own: Sequence[Axis]) -> np.ndarray:
        """A table for all pairs of places, over the axes of all."""
        found, free = at_places(table, own, self.tied, self.places)
        return axes_of(found, [*_PAIR, *free], [*_PAIR, *self.axes])

    def _selected(self, table: ShareTable) -> np.ndarray:
        """What a head selects; positions that its mask hides it does not."""
        pairs = table.pairs if self.places > 1 else table.pairs[:1, :1]
        total = 0
        for number in range(table.table.shape[-1]):
            here = (pairs == number).reshape(*pairs.shape, *(1,) * len(self.axes))
            total = total + here * self._spread(table.table[..., number], table.axes)
        return np.asarray(total, dtype=bool)

    def _compared(self, wanted: np.ndarray, selected: Sequence[np.ndarray]) -> list[Fraction]:
        found, total = [], np.zeros(wanted.shape)
        for mine in selected:
            others = sum((s.astype(float) for s in selected if s is not mine), np.zeros(mine.shape))
            alone = mine & (others == 0.0)
            value = float(wanted[alone].flat[0]) if alone.any() else 1.0
            found.append(Fraction(value))
            total = total + value * mine
        if (total != wanted).any():
            raise Unproved(
                f"The heads of {self.sets.name(self.step)} do not select what its relation says."
            )
        return found

    def _worth(self) -> np.ndarray:
        assert self.made.value is not None
        shape = [len(self.sets.numbers(s)) for s in self.base]
        found = np.zeros(shape)
        places = [{n: k for k, n in enumerate(self.sets.numbers(s))} for s in self.base]
        for given, answer in self.sets.rows(self.made.value, self.base):
            value = float(answer)
            if Fraction(value) != answer:
                raise Unproved(
                    f"The step {self.sets.name(self.step)} adds up numbers that floats do not hold."
                )
            found[tuple(place[n] for place, n in zip(places, given, strict=True))] = value
        return found
