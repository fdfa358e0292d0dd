"""The routes of a function, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from hardmax._errors import RequestError
from hardmax.core import Box, Construction
from hardmax.languages import CallableFunction, Function
from hardmax.lowering._planner import Plan, make_offers
from hardmax.lowering.functions import (
    WAYS,
    Proposal,
    Way,
    compose,
    propose_pieces,
    propose_universal,
)


def plan_function(
    function: Function | CallableFunction, domain: Box, error: float, *, prefer: str | None = None
) -> Plan:
    """Every route's offer. A preference for float32 makes them leave room for its rounding."""
    _check_error(error)
    if isinstance(function, Function):
        function.check_domain(domain)
    dtype = "float32" if prefer == "float32" else "float64"
    return Plan(
        function, domain, error, make_offers(error, _proposers(function, domain, error, dtype))
    )


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
    if route is None:
        return plan_function(function, domain, error, prefer=prefer).choose(prefer).build()
    _check_error(error)
    if isinstance(function, Function):
        function.check_domain(domain)
    proposers = dict(_proposers(function, domain, error, "float64"))
    if route not in proposers:
        raise RequestError(
            f"There is no route {route!r} for {function}; choose one of {', '.join(proposers)}."
        )
    return proposers[route]().build()


def _proposers(
    function: Function | CallableFunction, domain: Box, error: float, dtype: str
) -> Iterator[tuple[str, Callable[[], Proposal]]]:
    if isinstance(function, CallableFunction):
        yield from _opaque_proposers(function, domain, error)
        return
    for name, way in WAYS.items():
        yield name, partial(_composed, function, domain, error, way, dtype)
    yield "universal", lambda: propose_universal(function, domain, error)


def _composed(
    function: Function, domain: Box, error: float, way: Callable[[], Way], dtype: str
) -> Proposal:
    return compose(function, domain, error, way(), dtype=dtype)


def _opaque_proposers(
    function: CallableFunction, domain: Box, error: float
) -> Iterator[tuple[str, Callable[[], Proposal]]]:
    yield "universal", lambda: propose_universal(function, domain, error)
    if function.inputs == 1:
        yield "recipe", lambda: propose_pieces(function, domain, error, soft=True)
        yield "feedforward", lambda: propose_pieces(function, domain, error, soft=False)


def _check_error(error: float) -> None:
    if not (isinstance(error, int | float) and 0 < error < float("inf")):
        raise RequestError(f"The error must be a number > 0, not {error!r}; try error=1e-3.")
