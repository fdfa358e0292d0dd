"""The routes of a function, by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hardmax._errors import PrecisionError, RequestError
from hardmax.core import Box, Construction
from hardmax.languages import CallableFunction, Function
from hardmax.lowering._planner import BASELINES, Offer, Plan, make_offers
from hardmax.lowering.functions import (
    WAYS,
    Proposal,
    Way,
    compose,
    differing_ways,
    propose_pieces,
    propose_universal,
    recipe,
)


def plan_function(
    function: Function | CallableFunction, domain: Box, error: float, *, prefer: str | None = None
) -> Plan:
    """Every route's offer. A preference for float32 makes them leave room for its rounding."""
    _check(function, domain, error)
    dtype = "float32" if prefer == "float32" else "float64"
    routes = _routes(function, domain, error, dtype)
    proposers = [(name, partial(propose, None)) for name, propose in routes.items()]
    return Plan(function, domain, error, make_offers(error, proposers))


def lower_function(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    *,
    route: str | None = None,
    prefer: str | None = None,
) -> Construction:
    """Build what the planner picks, or the route named."""
    if route is not None and prefer is not None:
        raise RequestError(
            "Give a route or a preference, not both: a route leaves nothing to pick."
        )
    _check(function, domain, error)
    if route is None:
        return _picked(function, domain, error, prefer).build()
    routes = _routes(function, domain, error, "float64", every=True)
    if route not in routes:
        raise RequestError(
            f"There is no route {route!r} for {function}; choose one of {', '.join(routes)}."
        )
    return routes[route](None).build()


def _picked(
    function: Function | CallableFunction, domain: Box, error: float, prefer: str | None
) -> Offer:
    """What `Plan.choose` picks, without working out routes that cannot win any more.

    A head has at least eight parameters and a token at least two, so that once some route makes
    do with P parameters, the recipe gives up beyond P/8 pieces and the grid beyond P/2 tokens.
    """
    if prefer not in (None, "parameters"):
        return plan_function(function, domain, error, prefer=prefer).choose(prefer)
    offers: tuple[Offer, ...] = ()
    least: int | None = None
    for name, propose in _routes(function, domain, error, "float64").items():
        if name not in BASELINES:
            (offer,) = make_offers(error, [(name, partial(propose, least))])
            offers = (*offers, offer)
            if offer.proposal is not None:
                size = int(offer.resources["parameters"])
                least = size if least is None else min(least, size)
    return Plan(function, domain, error, offers).choose(prefer)


Proposer = Callable[[int | None], Proposal]  # the parameters to stay below, if any


def _routes(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    dtype: str,
    *,
    every: bool = False,
) -> dict[str, Proposer]:
    """The routes that differ for this function; or every one, for those who ask by name."""
    if isinstance(function, CallableFunction):
        routes = _opaque_routes(function, domain, error)
    else:
        routes = _routes_of_text(function, domain, error, dtype, every)
    return {name: _in_floats(name, propose, domain) for name, propose in routes.items()}


def _in_floats(name: str, propose: Proposer, domain: Box) -> Proposer:
    """The same route, which refuses where its weights, exact rationals, exceed all floats."""

    def proposed(least: int | None) -> Proposal:
        try:
            return propose(least)
        except OverflowError:
            raise PrecisionError(
                f"The {name} route needs weights beyond all floats on {domain}. Scale the "
                f"variables, so that their ranges are nearer to 1."
            ) from None

    return proposed


def _routes_of_text(
    function: Function, domain: Box, error: float, dtype: str, every: bool
) -> dict[str, Proposer]:

    def by(way: Callable[[], Way]) -> Proposer:
        return lambda least: compose(function, domain, error, way(), dtype=dtype)

    def by_recipe(least: int | None) -> Proposal:
        way = recipe() if least is None else recipe(least // 8 + 1)
        return compose(function, domain, error, way, dtype=dtype)

    ways = differing_ways(function.expressions, function.variables, domain)
    names = list(WAYS) if every else ways
    routes: dict[str, Proposer] = {name: by(WAYS[name]) for name in names}
    routes["recipe"] = by_recipe
    return routes | {"universal": _universal(function, domain, error)}


def _universal(function: Function | CallableFunction, domain: Box, error: float) -> Proposer:
    def propose(least: int | None) -> Proposal:
        most = () if least is None else (least // 2 + 2,)
        return propose_universal(function, domain, error, *most)

    return propose


def _opaque_routes(function: CallableFunction, domain: Box, error: float) -> dict[str, Proposer]:
    routes: dict[str, Proposer] = {}
    if function.inputs == 1:
        routes["recipe"] = lambda least: propose_pieces(function, domain, error, soft=True)
        routes["feedforward"] = lambda least: propose_pieces(function, domain, error, soft=False)
    return routes | {"universal": _universal(function, domain, error)}


def _check(function: Function | CallableFunction, domain: Box, error: float) -> None:
    _check_error(error)
    if isinstance(function, Function):
        function.check_domain(domain)


def _check_error(error: float) -> None:
    if not (isinstance(error, int | float) and 0 < error < float("inf")):
        raise RequestError(f"The error must be a number > 0, not {error!r}; try error=1e-3.")
