"""The routes by name: which arrow takes which source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hardmax._errors import DomainError, RequestError
from hardmax.core import Box, Claim, Construction, Target, Transformer, Witness
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork
from hardmax.lowering.networks._max_to_attention import max_to_attention
from hardmax.lowering.networks._max_to_attention_only import max_to_attention_only
from hardmax.lowering.networks._max_to_rectifiers import max_to_rectifiers
from hardmax.lowering.networks._relu_to_attention import relu_to_attention
from hardmax.lowering.networks._relu_to_attention_only import relu_to_attention_only
from hardmax.lowering.networks._relu_to_feedforward import relu_to_feedforward

Arrow = Callable[[Any, Box], tuple[Transformer, Witness]]

_ROUTES: dict[type, dict[str, Arrow]] = {
    ReluNetwork: {
        "attention": relu_to_attention,
        "attention-only": relu_to_attention_only,
        "feedforward": relu_to_feedforward,
    },
    MaxoutNetwork: {"attention": max_to_attention, "attention-only": max_to_attention_only},
    PiecewiseLinear: {"attention": max_to_attention, "attention-only": max_to_rectifiers},
    MaxAffine: {"attention": max_to_attention, "attention-only": max_to_rectifiers},
}


_LARGEST = 1e300  # of any inner value: what comes after still has to add and multiply it


def routes_for(source: object) -> tuple[str, ...]:
    """The names of the routes that a source can take, the default first."""
    for kind, routes in _ROUTES.items():
        if isinstance(source, kind):
            return tuple(routes)
    known = ", ".join(kind.__name__ for kind in _ROUTES)
    raise RequestError(
        f"A {type(source).__name__} cannot be compiled; the sources that can are: {known}."
    )


def lower(source: Target, domain: Box, route: str | None = None) -> Construction:
    """The hard Transformer of a source: over the reals it equals the source on the whole domain.

    Its claim has an empty ledger, since no error is made; evaluating it in floats makes one, which
    the `soften` pass puts into the ledger together with the softening.
    """
    routes = routes_for(source)
    route = routes[0] if route is None else route
    if route not in routes:
        raise RequestError(
            f"There is no route {route!r} for a {type(source).__name__}; choose one of "
            f"{', '.join(routes)}."
        )
    steps = source.steps()
    inner = [source(domain.interval)] if steps is None else steps.values(domain.interval)
    if not all((value.magnitude <= _LARGEST).all() for value in inner):
        raise DomainError(
            f"The source overflows float64 on {domain}. Shrink the domain, or scale the weights."
        )
    transformer, witness = _ROUTES[type(source)][route](source, domain)
    return Construction(transformer, Claim(source, domain, ()), witness, route)
