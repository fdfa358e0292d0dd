"""What a function may demand of its argument, and how enclosures prove or refute it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hardmax.numerics._elementary import tan
from hardmax.numerics._interval import Interval

if TYPE_CHECKING:
    from flint import arb

Mask = Callable[[Interval], np.ndarray]


def _sign(v: Interval) -> np.ndarray:
    return np.where(v.lo > 0.0, 1, np.where(v.hi < 0.0, -1, 0))


@dataclass(frozen=True)
class Condition:
    """A demand on the argument of a function.

    `unproved` marks enclosures of the argument that leave it open, `violated` enclosures of one
    value that refute it. `side` is -1 and 1 on the two sides of a forbidden value, surely, and 0
    where nobody knows; None if the argument may cross no such value. `floor` is the least number
    that the argument may come near, if the condition is one of sign. `of_ball` tells whether a
    ball lies strictly inside, so that the function has a series there. `branch` numbers the parts
    into which forbidden values cut the line, for showing one of them.
    """

    kind: str
    unproved: Mask
    violated: Mask
    of_ball: Callable[[arb], bool]
    side: Callable[[Interval], np.ndarray] | None = None
    branch: Callable[[Interval], np.ndarray] = _sign
    floor: float | None = None

    def crosses(self, pair: Interval) -> bool:
        """Whether two values lie on different branches, as far as floats tell."""
        first, second = self.branch(pair)
        return bool(first != second)

    @property
    def argument(self) -> str:
        """As in "log(x) needs a positive argument"."""
        return f"an argument {self.kind}" if " " in self.kind else f"a {self.kind} argument"


def _branch(v: Interval) -> np.ndarray:
    """Which branch of the tangent: the first one seen, or another."""
    sure = np.isfinite(tan(v).magnitude)
    turns = np.round(np.where(sure, v.lo, 0.0) / np.pi)
    first = turns[sure].min(initial=np.inf)
    return np.where(sure, np.where(turns == first, -1, 1), 0)


NONZERO = Condition(
    "nonzero",
    unproved=lambda v: (v.lo <= 0.0) & (v.hi >= 0.0),
    violated=lambda v: (v.lo == 0.0) & (v.hi == 0.0),
    of_ball=lambda x: bool(x > 0) or bool(x < 0),
    side=_sign,
)
POSITIVE = Condition(
    "positive",
    unproved=lambda v: v.lo <= 0.0,
    violated=lambda v: v.hi <= 0.0,
    of_ball=lambda x: bool(x > 0),
    floor=0.0,
)
NONNEGATIVE = Condition(
    "nonnegative",
    unproved=lambda v: v.lo < 0.0,
    violated=lambda v: v.hi < 0.0,
    of_ball=lambda x: bool(x > 0),
    floor=0.0,
)
ABOVE_MINUS_ONE = Condition(
    "larger than -1",
    unproved=lambda v: v.lo <= -1.0,
    violated=lambda v: v.hi <= -1.0,
    of_ball=lambda x: bool(x > -1),
    floor=-1.0,
)
AWAY_FROM_POLES = Condition(
    "away from poles",
    unproved=lambda v: ~np.isfinite(tan(v).magnitude),
    violated=lambda v: np.zeros(v.shape, dtype=bool),
    of_ball=lambda x: bool(x.cos() > 0) or bool(x.cos() < 0),
    side=_branch,
    branch=lambda v: np.round(v.middle / np.pi),
)
