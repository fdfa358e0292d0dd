"""How a head turns scores into weights. Semantics is a field of the head, never a flag."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from hardmax._errors import RequestError

_LARGEST = sys.float_info.max


@dataclass(frozen=True)
class Hardmax:
    """All weight on the largest score; ties share it equally.

    >>> hm.Hardmax()
    Hardmax()
    """

    def __str__(self) -> str:
        return "hardmax"


@dataclass(frozen=True)
class Softmax:
    """Weights proportional to exp(coldness * score).

    >>> hm.Softmax(40.0)
    Softmax(coldness=40.0)
    """

    coldness: float

    def __post_init__(self) -> None:
        if not (isinstance(self.coldness, int | float) and 0 < self.coldness <= _LARGEST):
            raise RequestError(
                f"A softmax needs a finite coldness > 0, but it is {self.coldness!r}."
            )
        object.__setattr__(self, "coldness", float(self.coldness))

    def __str__(self) -> str:
        return f"softmax {self.coldness!r}"


Weighting = Hardmax | Softmax
