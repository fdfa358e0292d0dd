"""Where the values of a program are held: forms of registers, made when they are asked for.

Every value has items; a *numbering* gives each item a number, and `place` gives the form that holds
that number at every position. What depends on the token or the index alone is a column of the
embedding or of the positions; what heads bring is held in the numbers that heads make (`Made`);
anything else is looked up by hidden units, in one layer where its roots have few combinations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from hardmax._errors import RequestError
from hardmax.languages.programs import (
    Applied,
    Code,
    Combined,
    Constant,
    Given,
    Item,
    Value,
    exact_number,
    roots_of,
    step_text,
)
from hardmax.lowering.gadgets import polygon, polygon_by_units
from hardmax.lowering.programs._codes import Codes, largest_rounding
from hardmax.lowering.programs._lookup import additive_parts, affine_map, diagonal, varies
from hardmax.lowering.programs._names import Called, Names, chosen_by
from hardmax.lowering.programs._questions import same_values
from hardmax.lowering.sketch import Placed, WordForm, WordSaying, WordSketch, spanned

_MOST_CASES = 2**17  # combinations of values in one look-up
_FEW_CASES = 2**12  # of roots: what lies between is not kept


@dataclass(frozen=True, eq=False)
class Made:
    """What a head brought: a form, and its number for each item."""

    placed: Placed
    levels: np.ndarray


class Placing:
    """The values of one program in one sketch.

    `make` turns a value from other positions into heads, which read what was placed before: the
    one recursion of a compilation. It is asked for when somebody reads the value, because which
    values are read, and in which numbers, is only known then.
    """

    def __init__(
        self,
        codes: Codes,
        names: Names,
        sketch: WordSketch,
        make: Callable[[Value], Made],
        fuse: bool,
        flat: bool = False,
    ) -> None:
        self._flat = flat  # look-ups end the errors of what they look up
        self._few = _FEW_CASES if fuse else 1
        self.words, self.sketch, self._make = sketch.words, sketch, make
        self.codes, self.names = codes, names
        self._noted: list[tuple[object, Value, np.ndarray, Placed]] = []  # for people
        self.holds: dict[Value, Placed] = {}  # in the order in which they were placed
        self._functions: dict[Value, list[tuple[np.ndarray, Placed]]] = {}  # of one root each
        self._made: dict[Value, Made] = {}
        self._looked_up: dict[tuple, Placed] = {}

    def code(self, value: Value) -> Code:
        return self.codes[value]

    def learn(self, value: Value, items: tuple[Item, ...], name: str = "") -> None:
        """The items, and the name, of a value that the program itself does not have."""
        self.codes.setdefault(value, Code(items))
        if name:
            self.names.learn(value, name)

    def items(self, value: Value) -> tuple[Item, ...]:
        return self.code(value).items

    def made_of(self, value: Value) -> Made:
        if value not in self._made:
            self._made[value] = found = self._make(value)
            self._note(value, found.levels, found.placed)
            self._noted.append((self.names.of(value), value, found.levels, found.placed))
        return self._made[value]

    # ---- values --------------------------------------------------------------------------------

    def place(self, value: Value, numbers: ArrayLike, *, clean: bool = False) -> Placed:
        """The form that holds numbers[k] where the value is its k-th item."""
        return self.place_function([value], np.asarray(numbers, dtype=float), clean=clean)

    def place_by(self, value: Value, numbers: np.ndarray, name: str) -> Placed:
        """The same, looked up from the value itself and not from what it is made of."""
        return self._look_up([value], numbers, False, Called(self.names, [value], numbers, name))

    def sayings(self) -> Iterator[WordSaying]:
        """What values, and functions of one, are called where forms hold them, and what that says.

        The items, where the numbers tell them apart as the value's own do; yes or no, of two; of
        other functions nothing.
        """
        for name, value, numbers, placed in self._noted:
            labels, levels, said = self.names.labels(value), numbers, str(name)
            if len(np.unique(numbers)) < len(numbers) or said != self.names.of(value):
                chosen = chosen_by(numbers)
                if chosen is None:
                    continue
                no = next(k for k in range(len(numbers)) if k not in chosen)
                levels, labels = numbers[[chosen[0], no]], ["yes", "no"]
            at_start = all(register.everywhere for register in placed.form.terms)
            found = tuple(map(float, levels)), tuple(labels), at_start
            yield WordSaying(said, placed.form, placed.ready - 1, *found)

    def _note(self, value: Value, numbers: np.ndarray, placed: Placed) -> None:
        """Remember where a value is held by its own numbers, if the index does not decide it."""
        if placed.ready == 0 or value in self.holds:
            return
        if all(isinstance(root, Given) and root.what != "tokens" for root in roots_of(value)):
            return
        affine = affine_map(numbers, self.natural(value))
        if affine is not None and affine[0] != 0.0:
            self.holds[value] = placed.scaled(*affine)

    def place_function(
        self, sources: Sequence[Value], table: np.ndarray, *, clean: bool = False, name: str = ""
    ) -> Placed:
        """The form that holds a function of several values, given by a table over their items."""
        called = Called(self.names, sources, table, name)
        placed = self._place(sources, table, clean, called)
        placed = replace(placed, form=placed.form.within(float(np.abs(table).max())))
        if len(sources) == 1:
            self._note(sources[0], table, placed)
            self._noted.append((called, sources[0], table, placed))
        return placed

    def _place(
        self, sources: Sequence[Value], table: np.ndarray, clean: bool, name: Called
    ) -> Placed:
        distinct = list(dict.fromkeys(sources))
        if len(distinct) < len(sources):
            place = {source: k for k, source in enumerate(distinct)}
            table = diagonal(table, [place[source] for source in sources])
        kept = [axis for axis in range(table.ndim) if varies(table, axis)]
        table = table[tuple(slice(None) if a in kept else 0 for a in range(table.ndim))]
        values = [distinct[axis] for axis in kept]
        if not values:
            return Placed(WordForm({}, float(table)), 0, True)
        if len(values) == 1:
            linear = self._linear(values[0], table, clean)
            if linear is not None:
                return linear
        roots = self._frontier(values)
        return self._look_up(roots, self._over(roots, values, table), clean, name)

    def _frontier(self, values: list[Value]) -> list[Value]:
        """The values to look up by: the roots, or what lies on the way to them if they are many."""
        roots = _distinct(root for value in values for root in roots_of(value))
        if self._cases(roots) <= self._few:
            return roots
        frontier = _distinct(source for value in values for source in self._arguments(value))
        if self._cases(frontier) > _MOST_CASES:
            raise RequestError(
                f"The step {step_text(values[0])} depends on {self._cases(frontier):,} "
                f"combinations of values, which is too many to compile. Map its arguments to "
                f"fewer values first."
            )
        expanded = True
        while expanded:
            expanded = False
            for one in frontier:
                further = _distinct(s for v in frontier for s in (_behind(v) if v is one else [v]))
                if not same_values(further, frontier) and self._cases(further) <= self._few:
                    frontier, expanded = further, True
                    break
        return frontier

    def _arguments(self, value: Value) -> list[Value]:
        """What a function reads; sums of numbers need no look-up and stay."""
        plain = isinstance(value, Combined) and all(
            self.code(one).is_plain for one in (value, *value.sources)
        )
        return [value] if plain else _behind(value)

    def _cases(self, values: list[Value]) -> int:
        return math.prod(len(self.items(value)) for value in values)

    def _over(self, roots: list[Value], values: list[Value], table: np.ndarray) -> np.ndarray:
        """The table as one over the items of the roots; what cannot happen repeats what can."""
        if same_values(roots, values):
            return table
        where = self.codes.cases(tuple(roots), tuple(values))
        happens = np.all([numbers >= 0 for numbers in where], axis=0)
        found = np.where(happens, table[where], np.nan)
        known = found[~np.isnan(found)]
        return np.where(np.isnan(found), known[0] if known.size else 0.0, found)

    def _linear(self, value: Value, numbers: np.ndarray, clean: bool) -> Placed | None:
        """A combination of sources, if the numbers are an affine function of its own."""
        if isinstance(value, Constant):
            return Placed(WordForm({}, float(numbers[0])), 0, True)
        if not isinstance(value, Combined) or not self.code(value).is_plain:
            return None
        affine = affine_map(_numbers(self.items(value)), numbers)
        if affine is None or not all(self.code(source).is_plain for source in value.sources):
            return None
        scale, shift, off = affine
        total = Placed(
            WordForm({}, float(value.constant), largest_rounding([value.constant])), 0, True
        )
        for source, weight in zip(value.sources, value.weights, strict=True):
            items = self.items(source)
            own = self.place(source, _numbers(items), clean=clean).looser(largest_rounding(items))
            most = max(abs(float(exact_number(one))) for one in items)
            total = total + own.scaled(float(weight), 0.0, largest_rounding([weight]) * most)
        return total.looser(largest_rounding(self.items(value))).scaled(scale, shift, off)

    # ---- look-ups ------------------------------------------------------------------------------

    def _look_up(self, roots: list[Value], table: np.ndarray, clean: bool, name: Called) -> Placed:
        key = (tuple(roots), table.shape, (table + 0.0).tobytes(), clean)  # -0 is 0
        if key not in self._looked_up:
            self._looked_up[key] = self._place_table(roots, table, clean, name)
        return self._looked_up[key]

    def _place_table(
        self, roots: list[Value], table: np.ndarray, clean: bool, name: Called
    ) -> Placed:
        kept = [axis for axis in range(table.ndim) if varies(table, axis)]
        table = table[tuple(slice(None) if a in kept else 0 for a in range(table.ndim))]
        roots = [roots[axis] for axis in kept]
        if not roots:
            return Placed(WordForm({}, float(table)), 0, True)
        parts = additive_parts(table)
        if parts is not None:
            return self._sum(roots, parts[0], clean, name).looser(parts[1])
        code = self.codes.look_up(table, [self._levels(root) for root in roots], self._flat)
        inner = self._sum(roots, list(code.numbers), False, name.of_part(".code")).looser(code.off)
        lowest = float(sum(part.min() for part in code.numbers))
        return polygon_by_units(self.sketch, name, inner, code.polygon, lowest, clean=clean)

    def _levels(self, root: Value) -> np.ndarray | None:
        return None if _is_column(root) else self.in_own_numbers(root).levels

    def in_own_numbers(self, root: Value) -> Made:
        """A value in numbers of its own: those of its head, or the items' own numbers."""
        if not roots_of(root) or roots_of(root)[0] is not root:
            numbers = self.natural(root)
            return Made(self.place(root, numbers), numbers)
        return self.made_of(root)

    def numbers(self, value: Value) -> np.ndarray:
        """The numbers themselves, which are added up."""
        code = self.code(value)
        if not code.adds_up:
            raise RequestError(
                f"The numbers of {step_text(value)} are too large, or too close to each other, to "
                f"be added up in float64. Scale them, or map them to fewer values first."
            )
        return self.natural(value)

    def natural(self, value: Value) -> np.ndarray:
        """Numbers as they are, nothing below them; otherwise the items' places."""
        code = self.code(value)
        return np.array([float(code.number(one)) for one in code.items])

    def _sum(
        self, roots: list[Value], parts: list[np.ndarray], clean: bool, name: Called
    ) -> Placed:
        """Functions of one root each, added up; columns are one column.

        Where there are several summands, each goes by the name and what it is read from.
        """
        columns = [self.names.of(root) for root in roots if _is_column(root)]
        alone = len(roots) - len(columns) + bool(columns) == 1
        symbols, places = np.zeros(len(self.words.alphabet)), np.zeros(self.words.longest)
        total = Placed(WordForm(), 0, True)
        for root, numbers in zip(roots, parts, strict=True):
            if _is_column(root):
                if isinstance(root, Given) and root.what == "tokens":
                    place = {one: k for k, one in enumerate(self.items(root))}
                    symbols += numbers[[place[one] for one in self.words.alphabet]]
                else:
                    places += numbers
            else:
                own = name if alone else name.of_part(f"<{self.names.of(root)}")
                total = total + self._unary(root, numbers, clean, own)
        if columns:
            own = name if alone else name.of_part(f"<{','.join(columns)}")
            total = total + Placed(self.sketch.column(own, symbols, places), 0, True)
        return total

    def _unary(self, root: Value, numbers: np.ndarray, clean: bool, name: Called) -> Placed:
        made = self.in_own_numbers(root)
        affine = affine_map(made.levels, numbers)
        if affine is not None and (made.placed.is_clean or not clean):
            return made.placed.scaled(*affine)
        known = [one for one in self._functions.get(root, []) if one[1].is_clean or not clean]
        combined = spanned([np.ones(len(numbers)), *(own for own, _ in known)], numbers)
        if combined is not None:
            weights, off = combined
            total = Placed(WordForm({}, weights[0], off), 0, True)
            for (_, placed), weight in zip(known, weights[1:], strict=True):
                total = total + placed.scaled(weight) if weight else total
            return total
        placed = self._place_polygon(name, made, numbers, clean)
        self._functions.setdefault(root, []).append((numbers, placed))
        return placed

    def _place_polygon(self, name: Called, made: Made, numbers: np.ndarray, clean: bool) -> Placed:
        order = np.argsort(made.levels)
        found = polygon(made.levels[order], numbers[order], self._flat)
        lowest = float(made.levels.min())
        return polygon_by_units(self.sketch, name, made.placed, found, lowest, clean=clean)


def _distinct(values: Iterable[Value]) -> list[Value]:
    return list(dict.fromkeys(values))


def _behind(value: Value) -> list[Value]:
    """What a function reads; any other value itself."""
    return list(value.sources) if isinstance(value, Applied | Combined) else [value]


def _is_column(root: Value) -> bool:
    return isinstance(root, Given) and root.what in ("tokens", "index")


def _numbers(items: Sequence[Item]) -> np.ndarray:
    return np.array([float(exact_number(one)) for one in items])
