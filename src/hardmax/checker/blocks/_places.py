"""Masks: what a head's mask and position bias say of two places, and what the program says of them.

Theorem (masks). A mask reads the places themselves, which nobody overwrites. Let a selection be by
steps some of which are functions of the place alone, and suppose that neither they nor any step on
the way from the place to them is overwritten. Then what they hold at a position is known from its
place, and a pair of positions, here and there, is told by its two places and by what the other
steps hold. So it is enough to compare the scores, bias included, with the relation for every pair
of places and all other cases; pairs of which bias, mask and relation say the same are one class. A
position that a causal mask hides has no weight at all, and the relation must not select it.

Interventions on such steps are excluded: the circuit has to name them where a head has a mask.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hardmax.checker.blocks._holding import Axis, Cases
from hardmax.checker.blocks._sets import ClosedSets, Unproved
from hardmax.core import GIVEN, INDEX, Aggregate, Head

_MOST = 2**24  # entries of a table over all pairs of places


@dataclass(frozen=True, eq=False)
class Tied:
    """Steps of a selection that are functions of the place: which of their numbers, by place.

    The names are those of all steps that must not be overwritten.
    """

    numbers: dict[int, np.ndarray]
    names: tuple[str, ...]


NOTHING = Tied({}, ())


def has_mask(head: Head) -> bool:
    return head.causal or head.position_bias is not None


def tied_by_place(sets: ClosedSets, step: int) -> Tied:
    """What masks may stand for in the selection of a step."""
    made = sets.step(step)
    assert isinstance(made, Aggregate)
    numbers: dict[int, np.ndarray] = {}
    closure: set[int] = set()
    for one in (*made.selection.keys, *made.selection.queries):
        if not _is_of_place(sets, one):
            continue
        where = {n: k for k, n in enumerate(sets.numbers(one))}
        rows = dict(sets.rows(one, (INDEX,)))
        if len(rows) < sets.words.longest:
            raise Unproved(f"The step {sets.name(one)} is not defined at all places.")
        numbers[one] = np.array([where[rows[(k,)]] for k in range(sets.words.longest)])
        _close(sets, one, closure)
    return Tied(numbers, tuple(sets.name(one) for one in sorted(closure)))


def _is_of_place(sets: ClosedSets, step: int) -> bool:
    try:
        return sets.base(step, frozenset([INDEX])) == (INDEX,)
    except Unproved:
        return False


def _close(sets: ClosedSets, step: int, found: set[int]) -> None:
    """A step and all that it is made of, as far as it depends on the place."""
    if step >= GIVEN and step not in found and _is_of_place(sets, step):
        found.add(step)
        for source in sets.step(step).sources:
            _close(sets, source, found)


def at_places(
    table: np.ndarray, own: Sequence[Axis], tied: Tied, places: int
) -> tuple[np.ndarray, list[Axis]]:
    """A table for each pair of places, here and there, and its axes but for those that are tied."""
    free = [axis for axis in own if axis[1] not in tied.numbers]
    index = []
    for axis, size in zip(own, table.shape, strict=True):
        port, step = axis
        if step in tied.numbers:
            at = tied.numbers[step]
            shape = (places, 1) if port == "q" else (1, places)
            index.append(at.reshape(shape + (1,) * len(free)))
        else:
            along = [1] * (2 + len(free))
            along[2 + free.index(axis)] = size
            index.append(np.arange(size).reshape(along))
    shape = (
        places,
        places,
        *(size for axis, size in zip(own, table.shape, strict=True) if axis in free),
    )
    if math.prod(shape) > _MOST:
        raise Unproved("A selection has too many cases, place by place.")
    found = table[tuple(index)] if own else table
    return np.broadcast_to(found, shape), free


@dataclass(frozen=True, eq=False)
class PairClasses:
    """Pairs of places by what bias, mask and relation say of them.

    `number` is the class of each pair, here x there, -1 where it is hidden; then for each class its
    bias, the selection over the free axes, and of tied steps that are read, which number they hold.
    """

    number: np.ndarray
    bias: np.ndarray
    selected: np.ndarray  # classes x free axes
    free: list[Axis]
    held: dict[Axis, np.ndarray]

    @property
    def count(self) -> int:
        return len(self.bias)

    def present(self, here: Cases, there: Cases) -> np.ndarray | None:
        """Which cases here and there are of a class: cases here x cases there x classes."""
        if not self.held:
            return None
        found = np.ones((here.count, there.count, self.count), dtype=bool)
        for (port, step), numbers in self.held.items():
            cases = here if port == "q" else there
            place = np.indices(cases.shape).reshape(len(cases.shape), cases.count)
            agrees = place[cases.steps.index(step)][:, None] == numbers[None, :]
            found &= agrees[:, None] if port == "q" else agrees[None]
        return found


def classes_of(
    head: Head,
    name: str,
    places: int,
    table: np.ndarray,
    own: Sequence[Axis],
    tied: Tied,
    covered: Sequence[Axis],
) -> PairClasses:
    """The classes for a head whose step selects by a table; it reads the axes `covered`."""
    held_axes = [axis for axis in covered if axis[1] in tied.numbers]
    if not has_mask(head) and not tied.numbers:
        selected, free = at_places(table, own, tied, 1)
        return PairClasses(np.zeros((places, places), int), np.zeros(1), selected[0], free, {})
    selected, free = at_places(table, own, tied, places)
    seen = np.tri(places, dtype=bool) if head.causal else np.ones((places, places), dtype=bool)
    bias = np.zeros((places, places))
    if head.position_bias is not None:
        bias = head.position_bias[1 : places + 1, 1 : places + 1]
    if (selected & ~seen.reshape(seen.shape + (1,) * len(free))).any():
        raise Unproved(f"The mask of {name!r} hides what its step selects.")
    number = np.full((places, places), -1)
    found: dict[tuple, int] = {}
    where: list[tuple[int, int]] = []
    for t, j in zip(*np.nonzero(seen), strict=True):
        held = tuple(tied.numbers[s][t if port == "q" else j] for port, s in held_axes)
        kind = (float(bias[t, j]), selected[t, j].tobytes(), held)
        if kind not in found:
            found[kind] = len(found)
            where.append((int(t), int(j)))
        number[t, j] = found[kind]
    return PairClasses(
        number,
        np.array([bias[pair] for pair in where]),
        np.array([selected[pair] for pair in where]),
        free,
        {
            axis: np.array([tied.numbers[axis[1]][t if axis[0] == "q" else j] for t, j in where])
            for axis in held_axes
        },
    )


def start_bias(head: Head, name: str, places: int) -> float:
    """What the bias adds to the start token's score: the same, whoever asks."""
    if head.position_bias is None:
        return 0.0
    column = head.position_bias[1 : places + 1, 0]
    if (column != column[0]).any():
        raise Unproved(f"The position bias of {name!r} treats the start token unequally.")
    return float(column[0])
