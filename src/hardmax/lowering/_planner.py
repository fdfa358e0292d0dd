"""What may be compiled, and every route to it side by side, priced before anything is built."""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Protocol, TypeGuard, TypeVar

from hardmax._errors import HardmaxError, PrecisionError, RequestError
from hardmax._shown import Shown, shortened
from hardmax.core import Box, Construction, Target
from hardmax.languages import CallableFunction, Expression, Function

PREFERENCES = ("parameters", "layers", "heads", "logit", "float32")
BASELINES = ("feedforward", "gated")  # shown for comparison, taken only when asked for by name
CHEAPEST_FIRST = ("float16", "bfloat16", "float32", "float64")
# The checker bounds rounding by lemmas of its own, never by more than this often what a proposal
# says; and where rounding is at most so small a part of the claim, it leaves room for it.
_CHECKED_TWICE, _SMALL_PART = 2.0, 2.0**-9
_COMPARED = (
    "layers",
    "heads",
    "width",
    "tokens",
    "parameters",
    "largest_logit",
    "largest_weight",
)


# ---- what may be compiled ------------------------------------------------------------------------


def as_target(source: object) -> Target:
    """A target as it is; text and expressions as the function they mean."""
    if isinstance(source, Construction):
        raise RequestError("This is compiled already: evaluate it, measure it or certify it.")
    if isinstance(source, str):
        return Function.parse(source)
    if isinstance(source, Expression):
        return Function(source)
    if isinstance(source, tuple | list) and all(isinstance(part, Expression) for part in source):
        return Function(source)
    if isinstance(source, Target):
        return source
    if _is_torch_module(source):
        raise RequestError(
            f"A torch module ({type(source).__name__}) is compiled by way of the network that it "
            f"computes: give hm.from_torch(module, shape=...)."
        )
    if callable(source):
        raise RequestError(
            "A plain callable needs a bound to be compiled: wrap it as "
            "hm.CallableFunction(f, inputs, lipschitz=...)."
        )
    raise RequestError(
        f"A value of type {type(source).__name__} cannot be compiled; give a function as text, "
        f"a ReluNetwork, MaxoutNetwork, PiecewiseLinear or MaxAffine, or a program."
    )


def _is_torch_module(source: object) -> bool:
    """Without importing torch: whoever holds a module has done that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def is_function(target: Target) -> TypeGuard[Function | CallableFunction]:
    return isinstance(target, Function | CallableFunction)


def domain_of(target: Function | CallableFunction, on: object) -> Box:
    """The box of a function's variables."""
    return target.domain(on)


# ---- any plan ------------------------------------------------------------------------------------


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


class RoutePlan(Shown, ABC, Generic[_Offered]):
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


# ---- functions and networks ----------------------------------------------------------------------


class Priced(Protocol):
    """What is known of a Transformer's size: the bill, or what it will say."""

    def as_dict(self) -> dict[str, int | float]: ...


class Proposal(Protocol):
    """What a route would build: its price, its promise, and the thing itself when asked for."""

    @property
    def statement(self) -> Priced: ...

    @property
    def error(self) -> float: ...

    @property
    def format(self) -> str:
        """The float format that the claim is about."""

    def rounded(self, format: str) -> float:
        """At most so much rounding adds to the error in a float format."""

    def build(self) -> Construction: ...


class TooSmall(PrecisionError):
    """An error that a route cannot promise; `reachable` is one that it can, infinite if none."""

    def __init__(self, message: str, reachable: float) -> None:
        super().__init__(message)
        self.reachable = reachable


@dataclass(frozen=True, eq=False)
class Offer:
    """What one route would build and promise; or why it cannot.

    >>> plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> plan.offer("direct").resources["heads"]
    1
    """

    route: str
    proposal: Proposal | None
    asked: float
    refusal: str | None = None
    reachable: float = math.inf  # an error that would not be refused, if one is known

    def __repr__(self) -> str:
        if self.proposal is None:
            return f"Offer({self.route}: {shortened(str(self.refusal))})"
        return f"Offer({self.route}: {self.resources['parameters']:,} parameters)"

    @property
    def error(self) -> float:
        """The error that would be claimed."""
        return self._made().error

    @cached_property
    def formats(self) -> tuple[str, ...]:
        """The float formats in which the error asked holds, cheapest first.

        The claim's own, float64, and those that the checker is bound to find: a proof of the claim
        leaves what lies between claim and error for the rounding of other formats, and where that
        is tiny beside the claim, the checker makes room for it.
        """
        proposal = self._made()
        spare = self.asked - self.error if self.asked < math.inf else 0.0  # hard: nobody asked

        def held(name: str) -> bool:
            if name in (proposal.format, "float64"):
                return True
            rounded = _CHECKED_TWICE * proposal.rounded(name)
            return rounded <= max(spare, _SMALL_PART * self.error)

        return tuple(name for name in CHEAPEST_FIRST if held(name))

    @property
    def float_format(self) -> str:
        """The cheapest float format in which the error asked still holds."""
        return self.formats[0]

    @cached_property
    def resources(self) -> Mapping[str, int | float]:
        """The bill, as far as it can be compared."""
        return self._made().statement.as_dict()

    def build(self) -> Construction:
        return self._made().build()

    def as_dict(self) -> dict[str, object]:
        """For scripts."""
        if self.proposal is None:
            return {"route": self.route, "refusal": self.refusal}
        return {
            "route": self.route,
            **self.resources,
            "claimed": self.error,
            "float_format": self.float_format,
        }

    def _made(self) -> Proposal:
        if self.proposal is None:
            raise PrecisionError(self.refusal or f"The {self.route} route makes no offer here.")
        return self.proposal


@dataclass(frozen=True, eq=False)
class Plan(RoutePlan[Offer]):
    """All offers for a function or a network.

    >>> import hardmax as hm
    >>> plan = hm.plan("x*y", on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    >>> plan.choose("layers").resources["layers"]
    1
    """

    target: Target
    domain: Box
    error: float
    offers: tuple[Offer, ...]
    format: str = "float64"  # that all claims are about

    @cached_property
    def best(self) -> tuple[str, ...]:
        """The routes that no other beats: at most as much of everything, and less of something."""
        rows = {offer.route: [offer.resources[name] for name in _COMPARED] for offer in self.open}

        def beaten(route: str) -> bool:
            mine = rows[route]
            return any(
                all(a <= b for a, b in zip(row, mine, strict=True)) and row != mine
                for row in rows.values()
            )

        return tuple(route for route in rows if not beaten(route))

    def choose(self, prefer: str | None = None) -> Offer:
        """The offer with the least of what is preferred, which is parameters unless said otherwise.

        Feed-forward routes, gated ones among them, are the baseline: they are taken only by name.
        """
        rank = ranking(prefer)
        candidates = [offer for offer in self.open if offer.route not in BASELINES]
        if prefer == "float32":
            candidates = [o for o in candidates if o.float_format != "float64"]
        if not candidates:
            raise PrecisionError(self._refusal(prefer))
        return min(candidates, key=rank)

    def _refusal(self, prefer: str | None) -> str:
        if prefer == "float32" and self.open:
            return (
                f"No route promises {self.error:.3g} in float32 on {self.domain}. Ask for a "
                "larger error, or leave out the preference for float64."
            )
        least = min(self.offers, key=lambda offer: offer.reachable, default=None)
        if self.format != "float64" and least is not None and least.reachable < math.inf:
            return (
                f"No route promises {self.error:.3g} in {self.format} on {self.domain}: the least "
                f"that one of them can promise there is {least.reachable:.3g} ({least.route}). Ask "
                f"for that, or take a finer format."
            )
        reasons = [o.refusal for o in self.offers if o.refusal and o.route not in BASELINES]
        return reasons[0] if reasons else "No route makes an offer here."

    def __str__(self) -> str:
        """One line a route, the Pareto-best starred; reasons for refusals below."""
        names = ("layers", "heads", "width", "tokens", "parameters")
        heading = f"{'route':<14}" + "".join(f"{name:>11}" for name in names)
        lines = [heading + f"{'logit':>11}{'weight':>11}{'format':>10}{'claimed':>12}"]
        for offer in self.open:
            r, star = offer.resources, "*" if offer.route in self.best else " "
            lines.append(
                f"{star} {offer.route:<12}"
                + "".join(f"{r[name]:>11,}" for name in names)
                + f"{r['largest_logit']:>11.3g}{r['largest_weight']:>11.3g}"
                + f"{offer.float_format:>10}{offer.error:>12.4g}"
            )
        lines += [f"  {o.route:<12} {o.refusal}" for o in self.offers if o.proposal is None]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"Plan({len(self.open)} of {len(self.offers)} routes to {self.error:g})"

    def as_dict(self) -> dict[str, object]:
        best = self.best
        return {
            "domain": str(self.domain),
            "error": self.error,
            "float": self.format,
            "routes": [offer.as_dict() | {"best": offer.route in best} for offer in self.offers],
        }


def make_offers(
    asked: float, proposers: Iterable[tuple[str, Callable[[], Proposal]]]
) -> tuple[Offer, ...]:
    """Ask every route; one that cannot says why."""
    offers = []
    for route, propose in proposers:
        try:
            offers.append(Offer(route, propose(), asked))
        except TooSmall as reason:
            offers.append(Offer(route, None, asked, str(reason), reason.reachable))
        except HardmaxError as reason:
            offers.append(Offer(route, None, asked, str(reason)))
    return tuple(offers)


def ranking(prefer: str | None) -> Callable[[RouteOffer], tuple[int | float, ...]]:
    """How offers are compared: by what is preferred, then by what else they cost."""
    if prefer is not None and prefer not in PREFERENCES:
        raise RequestError(
            f"There is no preference {prefer!r}; choose one of {', '.join(PREFERENCES)}."
        )
    wanted = prefer or "parameters"
    first = {"logit": "largest_logit", "float32": "parameters"}.get(wanted, wanted)

    def rank(offer: RouteOffer) -> tuple[int | float, ...]:
        r = offer.resources
        return (r[first], r["layers"], r["heads"], r["parameters"], r["largest_logit"])

    return rank
