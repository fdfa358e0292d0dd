"""What the values of a program are called in legends, and functions of them, shortly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hardmax.languages.programs import (
    Applied,
    Combined,
    Constant,
    ProgramTarget,
    Value,
    free_name,
    kind_of,
    labels_of,
    step_names,
    step_text,
)
from hardmax.lowering.programs._codes import Codes
from hardmax.lowering.programs._lookup import affine_map, varies
from hardmax.lowering.sketch import spanned

_SHORT = 24  # letters of a text that is a name by itself
_FEW = 3  # items that are listed


@dataclass(frozen=True, eq=False)
class Called:
    """The name of a function, found when it is asked for: most functions need no register."""

    names: Names
    sources: Sequence[Value]
    table: np.ndarray
    own: str = ""  # where somebody has thought of one
    part: str = ""

    @cached_property
    def _text(self) -> str:
        return self.own or self.names.function(self.sources, self.table)

    def __str__(self) -> str:
        return self._text + self.part

    def of_part(self, part: str) -> Called:
        return replace(self, part=self.part + part)


class Names:
    """The steps' own names, and one for each value that is made on the way."""

    def __init__(self, target: ProgramTarget, codes: Codes) -> None:
        self._codes = codes
        self._names = step_names(target.program.outputs)
        self._taken = set(self._names.values())

    def of(self, value: Value) -> str:
        """The name of a step; of a value that the program does not have, a short text."""
        if isinstance(value, Constant):
            return step_text(value)
        if value not in self._names:
            text = self._text(value)
            self.learn(value, text if len(text) <= _SHORT else kind_of(value))
        return self._names[value]

    def learn(self, value: Value, name: str) -> None:
        """What a value is called that the program does not have."""
        if value not in self._names:
            self._names[value] = free_name(name, self._taken)

    def learn_same(self, value: Value, other: Value) -> None:
        """Another way to make a value goes by its name."""
        self._names[other] = self.of(value)

    def text(self, value: Value) -> str:
        """The name and what it stands for, as in rank = count over [there tokens < tokens]."""
        name, text = self.of(value), self._text(value)
        return name if name == text else f"{name} = {text}"

    def _text(self, value: Value) -> str:
        """In one line; functions without a name of their own are written out."""
        inline = Applied | Combined
        others = {
            id(one): name
            for one, name in self._names.items()
            if one is not value and (one.given_name or not isinstance(one, inline))
        }
        return step_text(value, others)

    # ---- items and functions -------------------------------------------------------------------

    def labels(self, value: Value) -> list[str]:
        """How the items of a value are shown, in their order."""
        code = self._codes[value]
        shown = labels_of(code)
        return [shown[code.number(one)] for one in code.items]

    def numbers(self, value: Value) -> np.ndarray:
        """The codes of the items, in their order."""
        code = self._codes[value]
        return np.array([float(code.number(one)) for one in code.items])

    def function(self, sources: Sequence[Value], table: np.ndarray) -> str:
        """A short name for a function, given by a table over the items of its sources.

        Itself, up to a scale; its square, from wherever it is counted; one item, or the first of
        them, against the others; f(...) for anything else.
        """
        kept = [axis for axis in range(table.ndim) if varies(table, axis)]
        if len(kept) != 1:
            named = ",".join(self.of(sources[axis]) for axis in kept)
            return f"f({named})" if kept else "constant"
        numbers = np.moveaxis(table, kept[0], 0).reshape(table.shape[kept[0]], -1)[:, 0]
        return self._function_of(sources[kept[0]], numbers)

    def _function_of(self, value: Value, numbers: np.ndarray) -> str:
        name, own = self.of(value), self.numbers(value)
        if affine_map(own, numbers) is not None:
            return name
        chosen = chosen_by(numbers)
        if chosen is None:
            return f"{name}^2" if _is_square(own, numbers) else f"f({name})"
        labels = self.labels(value)
        if len(chosen) == 1:
            return f"{name}={labels[chosen[0]]}"
        if chosen == list(range(len(chosen))):
            return f"{name}<={labels[chosen[-1]]}"
        listed = "|".join(labels[k] for k in chosen)
        return f"{name}={listed}" if len(chosen) <= _FEW else f"f({name})"


def _is_square(own: np.ndarray, numbers: np.ndarray) -> bool:
    """Whether numbers are +-x^2 + a x + b; of fewer than four everything is."""
    found = spanned([np.ones(len(own)), own, own**2], numbers) if len(own) > 3 else None
    return found is not None and abs(round(found[0][2], 9)) == 1.0


def chosen_by(numbers: np.ndarray) -> list[int] | None:
    """Of two numbers that a function takes, where it takes one; None if it takes more, or one.

    That of a single item, if there is one; else that of the first.
    """
    different = np.unique(numbers)
    if len(different) != 2:
        return None
    sides = [np.flatnonzero(numbers == one).tolist() for one in different]
    single = [side for side in sides if len(side) == 1]
    return list(single[-1] if single else next(side for side in sides if 0 in side))
