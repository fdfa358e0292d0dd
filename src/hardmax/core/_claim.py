"""What is promised of a construction, and where every part of the promised error comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hardmax._errors import RequestError
from hardmax.core._domain import Box
from hardmax.core._sequence_target import SequenceTarget
from hardmax.core._target import Target
from hardmax.core._words import Words

MARGIN = 0.02  # a bound that is attained exactly can never be confirmed by enclosures


@dataclass(frozen=True)
class Share:
    """One line of the ledger."""

    cause: str  # approximation | softening | routing | rounding | margin
    where: str
    amount: float

    def __post_init__(self) -> None:
        if not (0 <= self.amount < math.inf):
            raise RequestError(
                f"The ledger's share of {self.cause} must be finite and >= 0, not {self.amount}."
            )


@dataclass(frozen=True, eq=False)
class Claim:
    """|Transformer(x) - target(x)| <= error for every output and every x in the domain.

    The Transformer is evaluated in float64 (inputs in float64, any order of summation, nothing
    below the smallest normal number). The ledger says where the error comes from and adds up to
    it, margin included. A `Target` is claimed on a `Box`, a `SequenceTarget` on `Words`.

    >>> claim = hm.compile("x * y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2).claim
    >>> claim.error <= 1e-2, [share.cause for share in claim.ledger][:1]
    (True, ['approximation'])
    """

    target: Any  # Target, or SequenceTarget
    domain: Any  # Box, or Words
    ledger: tuple[Share, ...]

    def __init__(
        self, target: Target | SequenceTarget, domain: Box | Words, ledger: Iterable[Share]
    ) -> None:
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "ledger", tuple(ledger))
        if isinstance(domain, Words) != isinstance(target, SequenceTarget):
            raise RequestError(
                f"A target on words goes with the domain Words, and any other with a Box, but a "
                f"{type(target).__name__} came with a {type(domain).__name__}."
            )

    @property
    def error(self) -> float:
        return math.fsum(share.amount for share in self.ledger)

    @property
    def margin(self) -> float:
        """The part of the error that no cause needs: room for a checker's enclosures."""
        return math.fsum(share.amount for share in self.ledger if share.cause == "margin")

    def __repr__(self) -> str:
        return f"Claim(error <= {self.error:.6g} on {self.domain})"


def with_margin(shares: Iterable[Share], margin: float = MARGIN) -> tuple[Share, ...]:
    """The ledger of a proved bound, with the stated margin on top."""
    proved = [share for share in shares if share.amount > 0]
    bound = math.fsum(share.amount for share in proved)
    if bound > 0:
        proved.append(Share("margin", f"{margin:.0%} for the checker", margin * bound))
    return tuple(proved)
