"""Work: what a check has done so far, counted instead of timed.

A verdict must not depend on what else the machine does, so that budgets are compared with this
count and not with a clock. Whoever does something that can grow charges for it where it is done,
in ticks; a unit of work is a thousand of them. The charges below are rough times: on an ordinary
core of 2024 a tick is about a nanosecond, and a million units are about one second of CPU. They
are constants, so that the same call charges the same everywhere.

The count belongs to the thread, like the check itself: checks in several threads do not see each
other, and what is sent to an executor is charged by the one who sends it.
"""

from __future__ import annotations

import threading

UNIT = 1000  # ticks
PER_SECOND = 10**6  # units of work, roughly

# forms
SUM = 3_500  # a sum of forms, whatever its length
TERM = 1_000  # a coefficient that is multiplied, added or compared
DIGITS = 100  # 64 more bits in it
FLOAT = 900  # a coefficient that is rounded to a float
RANGE = 40_000  # the range of a form, whatever its length
ATOM = 8_000  # a new atom
STEP = 300  # an atom that is met on a walk through the graph
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
