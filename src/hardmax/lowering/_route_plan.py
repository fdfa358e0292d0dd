"""What plans of functions, networks and programs have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from hardmax._errors import RequestError
from hardmax.core import Construction


class RouteOffer(Protocol):
    """What an offer says, whatever its source: its price and its promise, or why there is none."""

    @property
    def route(self) -> str: ...

    @property
    def refusal(self) -> str | None:
        """Why the route cannot be taken; None if it can."""

    @property
    def resources(self) -> Mapping[str, int | float]:
        """The bill, as far as it can be compared."""

    @property
    def error(self) -> float:
        """The error that would be claimed."""

    def build(self) -> Construction: ...

    def as_dict(self) -> dict[str, object]: ...


_Offered = TypeVar("_Offered", bound=RouteOffer)


class RoutePlan(ABC, Generic[_Offered]):
    """All offers for one request."""

    offers: tuple[_Offered, ...]

    @property
    def open(self) -> tuple[_Offered, ...]:
        """The offers that stand."""
        return tuple(offer for offer in self.offers if offer.refusal is None)

    def offer(self, route: str) -> _Offered:
        """The offer of a route by its name."""
        for offer in self.offers:
            if offer.route == route:
                return offer
        names = ", ".join(offer.route for offer in self.offers)
        raise RequestError(f"There is no route {route!r} here; choose one of {names}.")

    @abstractmethod
    def choose(self, prefer: str | None = None) -> _Offered:
        """The offer that `compile` would take."""

    def build(self, prefer: str | None = None) -> Construction:
        """What the chosen route builds."""
        return self.choose(prefer).build()

    @abstractmethod
    def as_dict(self) -> dict[str, object]:
        """For scripts."""
