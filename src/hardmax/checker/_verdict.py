"""What the checker can say of a claim."""

from __future__ import annotations

from enum import Enum


class Verdict(Enum):
    """The outcome of a check; only PROVED is success."""

    PROVED = "The claim holds for every input of the domain."
    REFUTED = "The claim is false: the counterexample breaks it."
    UNDECIDED = "The enclosures are too wide to decide. Undecided is not success."

    def __str__(self) -> str:
        return self.name.lower()
