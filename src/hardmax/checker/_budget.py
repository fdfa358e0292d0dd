"""How much a check may cost, and how it tells where it stands."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any

from hardmax._errors import RequestError

_TEXT = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]*)")
_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_BOXES = ("box", "boxes")


@dataclass(frozen=True)
class Budget:
    """At most so many seconds (of wall clock) and so many boxes; both must leave some work."""

    seconds: float = 60.0
    boxes: float = math.inf

    def __post_init__(self) -> None:
        if not (self.seconds > 0 and self.boxes >= 1):
            raise RequestError(
                'The budget leaves no time to prove anything. Give some, for example "30s" or '
                '"1e6 boxes".'
            )

    @classmethod
    def of(cls, value: Any) -> Budget:
        """A budget, a number of seconds, or a text such as "30s", "2 min" or "1e6 boxes"."""
        if value is None:
            return cls()
        if isinstance(value, Budget):
            return value
        if isinstance(value, Real) and not isinstance(value, bool):
            return cls(seconds=float(value))
        amount, unit = _parsed(value)
        if unit in _BOXES:
            return cls(seconds=math.inf, boxes=amount)
        return cls(seconds=amount * _SECONDS[unit])


def _parsed(text: Any) -> tuple[float, str]:
    """An amount and its unit."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        if match is not None and (match[2] in _SECONDS or match[2] in _BOXES):
            return float(match[1]), match[2]
    except ValueError:
        pass
    raise RequestError(
        f'The budget {text!r} could not be read. Write "30s", "2 min" or "1e6 boxes".'
    )


@dataclass(frozen=True)
class Standing:
    """Where a check stands: the truth lies between `measured` and `certified`."""

    certified: float
    measured: float
    claimed: float
    boxes: int
    phase: str = "boxes"


Progress = Callable[[Standing], object]


class Spent(Exception):
    """The budget ran out in the middle of something."""


class Clock:
    """Counts what was spent of a budget."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.boxes = 0
        self.began = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def is_spent(self) -> bool:
        return self.seconds >= self.budget.seconds or self.boxes >= self.budget.boxes

    def look(self) -> None:
        """End whatever is under way if nothing is left."""
        if self.is_spent:
            raise Spent
