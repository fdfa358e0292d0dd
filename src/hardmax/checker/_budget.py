"""What a check may cost, what it has cost so far, and how it tells where it stands.

A verdict must not depend on what else the machine does, so that budgets are compared with a count
of work and not with a clock. Whoever does something that can grow charges for it where it is done,
in ticks; a unit of work is a thousand of them. The charges below are rough times: on an ordinary
core of 2024 a tick is about a nanosecond, and a million units are about one second of CPU. They
are constants, so that the same call charges the same everywhere.

The count belongs to the thread, like the check itself: checks in several threads do not see each
other, and what is sent to an executor is charged by the one who sends it.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

from hardmax._errors import RequestError

UNIT = 1000  # ticks
PER_SECOND = 10**6  # units of work, roughly

# forms
SUM = 3_500  # a sum of forms, whatever its length
TERM = 1_000  # a coefficient that is multiplied, added or compared
DIGITS = 100  # 64 more bits in it
FLOAT = 900  # a coefficient that is rounded to a float
RANGE = 40_000  # the range of a form, whatever its length
ATOM = 8_000  # a new atom
VISIT = 300  # an atom that is met on a walk through the graph
# boxes
JETS = 70_000  # a jet on a batch of boxes, whatever their number
JET = 11  # one of its components on one box
WIDE = 2_000_000  # many gates or tokens on a batch, of which each box looks at a few
NEAR = 3_000  # one component of those few on one box
FAR = 5  # a gate or token in one direction, on one box
# arrays
CALL = 4_000  # an operation on arrays, whatever their size
ENTRY = 4  # a number in it
EXP = 12  # an exponential
SORTED = 80  # a number that is sorted
FLOPS = 2  # of a product of matrices: so many in one tick
# others
BALL = 1_200  # an operation on balls or rationals, in one coefficient of a series
PROGRAM = 3_000_000  # a linear program, whatever its size
PIVOT = 1_000  # an entry of its matrix
FUNCTION = 3_000  # a function of the target that is called


class _Count(threading.local):
    ticks = 0


_COUNT = _Count()


def charge(kind: int, times: int = 1) -> None:
    """Something of a kind was done so many times."""
    _COUNT.ticks += kind * times


def ticks() -> int:
    """All that was charged in this thread, ever: only differences have a meaning."""
    return _COUNT.ticks


_TEXT = re.compile(r"([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([a-z]*)")
_SECONDS = {
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
}
_BOXES, _WORK = ("box", "boxes"), ("work",)
USUAL = 60.0 * PER_SECOND  # units of work: about a minute


@dataclass(frozen=True)
class Budget:
    """How much a check may cost: work, boxes or seconds, of which all must leave something to do.

    Work and boxes are counted, so that the same call comes to the same verdict on every machine,
    however busy. A unit of work is about a microsecond of CPU: 6e7, a minute or so, are the budget
    if nothing is said. Seconds are those of the wall clock; what they suffice for depends on what
    else the machine does, and the certificate says so.

    >>> hm.Budget.of("30s").seconds, hm.Budget.of("1e6 boxes").boxes
    (30.0, 1000000.0)
    """

    seconds: float = math.inf
    boxes: float = math.inf
    work: float | None = None  # if nothing else is given, as much as usual

    def __post_init__(self) -> None:
        if self.work is None:
            alone = self.seconds == math.inf and self.boxes == math.inf
            object.__setattr__(self, "work", USUAL if alone else math.inf)
        if not (self.seconds > 0 and self.boxes >= 1 and self.units >= 1):
            raise RequestError(
                'The budget leaves no time to prove anything. Give some, for example "1e8 work", '
                '"1e6 boxes" or "30s".'
            )

    @classmethod
    def of(cls, value: Budget | str | float | None) -> Budget:
        """A budget, a number of seconds, or a text: "1e8 work", "1e6 boxes", "30s", "2 min"."""
        if value is None:
            return cls()
        if isinstance(value, Budget):
            return value
        if isinstance(value, Real) and not isinstance(value, bool):
            return cls(seconds=float(value))
        amount, unit = _parsed(value)
        if unit in _BOXES:
            return cls(boxes=amount)
        if unit in _WORK:
            return cls(work=amount)
        return cls(seconds=amount * _SECONDS[unit])

    @property
    def units(self) -> float:
        """Of work; infinite if only boxes or seconds are counted."""
        return math.inf if self.work is None else self.work

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a verdict within this budget depends on beside the model."""
        if self.seconds == math.inf:
            return ()
        return (
            f"The budget was {self.seconds:g} s of wall time: how far the check came may depend "
            f"on the machine and its load.",
        )


def _parsed(text: object) -> tuple[float, str]:
    """An amount and its unit."""
    match = _TEXT.fullmatch(text.strip()) if isinstance(text, str) else None
    try:
        if match is not None and match[2] in (*_SECONDS, *_BOXES, *_WORK):
            return float(match[1]), match[2]
    except ValueError:
        pass
    raise RequestError(
        f'The budget {text!r} could not be read. Write "1e8 work", "1e6 boxes", "30s" or "2 min".'
    )


@dataclass(frozen=True)
class Standing:
    """Where a check stands: the truth lies between `measured` and `certified`.

    >>> hm.Standing(certified=2e-3, measured=1e-3, claimed=1.5e-3, boxes=10).phase
    'boxes'
    """

    certified: float
    measured: float
    claimed: float
    boxes: int
    phase: str = "boxes"


Progress = Callable[[Standing], object]


class Spent(Exception):
    """The budget ran out in the middle of something."""


class Clock:
    """Counts what was spent of a budget; its hands are moved by work."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.boxes = 0
        self._first = ticks()
        self._began = time.monotonic()

    @property
    def seconds(self) -> float:
        """Of wall time. Nothing is decided by them unless the budget is one of seconds."""
        return time.monotonic() - self._began

    @property
    def work(self) -> float:
        """Units of work since the clock was started."""
        return (ticks() - self._first) / UNIT

    @property
    def is_spent(self) -> bool:
        limit = self.budget
        if self.work >= limit.units or self.boxes >= limit.boxes:
            return True
        return limit.seconds < math.inf and self.seconds >= limit.seconds

    def look(self) -> None:
        """End whatever is under way if nothing is left."""
        if self.is_spent:
            raise Spent

    def part(self, share: float) -> Clock:
        """A clock for a share of what is left; it runs beside this one."""
        limit = self.budget
        seconds = limit.seconds
        if seconds < math.inf:
            seconds = max((seconds - self.seconds) * share, 1e-3)
        boxes = max((limit.boxes - self.boxes) * share, 1.0)
        return Clock(Budget(seconds, boxes, max((limit.units - self.work) * share, 1.0)))
