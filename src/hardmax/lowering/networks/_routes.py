"""The routes by name: which arrow takes which steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hardmax._errors import DomainError, RequestError
from hardmax.core import (
    Affine,
    Box,
    Claim,
    Construction,
    Maximum,
    Steps,
    Target,
    Transformer,
    Univariate,
    Witness,
)
from hardmax.lowering.networks._max_layers import is_stack_of_maxima
from hardmax.lowering.networks._max_to_attention import max_to_attention
from hardmax.lowering.networks._max_to_attention_only import max_to_attention_only
from hardmax.lowering.networks._rectifiers_to_attention import rectifiers_to_attention
from hardmax.lowering.networks._rectifiers_to_attention_only import (
    rectifiers_in_own_slots,
    rectifiers_to_attention_only,
)
from hardmax.lowering.networks._rectifiers_to_feedforward import rectifiers_to_feedforward
from hardmax.numerics import FLOAT64, Format

Arrow = Callable[[Steps, Box], tuple[Transformer, Witness]]

_RECTIFIERS: Mapping[str, Arrow] = {
    "attention": rectifiers_to_attention,
    "attention-only": rectifiers_to_attention_only,
    "feedforward": rectifiers_to_feedforward,
}
_MAXIMA: Mapping[str, Arrow] = {
    "attention": max_to_attention,
    "attention-only": max_to_attention_only,
}
# A single maximum, or the difference of two: a tournament on two tokens takes the place of one
# token per piece, which the attention route has anyway.
_FUNCTION: Mapping[str, Arrow] = {
    "attention": max_to_attention,
    "attention-only": rectifiers_to_attention_only,
}
_LARGEST = 1e300  # of any inner value: what comes after still has to add and multiply it


def routes_for(source: Target) -> tuple[str, ...]:
    """The names of the routes that a source can take, the default first."""
    return tuple(_arrows(source, _piecewise_linear_steps(source)))


def lower(
    source: Target, domain: Box, route: str | None = None, *, format: Format = FLOAT64
) -> Construction:
    """The hard Transformer of a source: over the reals it equals the source on the whole domain.

    Its claim has an empty ledger, since no error is made; evaluating it in floats makes one, which
    the `soften` pass puts into the ledger together with the softening. For claims about a coarse
    `format` no slot of the stream is used again, which would round more.
    """
    steps = _piecewise_linear_steps(source)
    arrows = _arrows(source, steps)
    route = next(iter(arrows)) if route is None else route
    if route not in arrows:
        raise RequestError(
            f"There is no route {route!r} for a {type(source).__name__}; choose one of "
            f"{', '.join(arrows)}."
        )
    if not all((value.magnitude <= _LARGEST).all() for value in steps.values(domain.interval)):
        raise DomainError(
            f"The source overflows float64 on {domain}. Shrink the domain, or scale the weights."
        )
    arrow = arrows[route]
    if format.is_coarse and arrow is rectifiers_to_attention_only:
        arrow = rectifiers_in_own_slots
    transformer, witness = arrow(steps, domain)
    return Construction(transformer, Claim(source, domain, ()), witness, route)


def _arrows(source: Target, steps: Steps) -> Mapping[str, Arrow]:
    """Equal steps take equal routes, whichever class says them."""
    if not is_stack_of_maxima(steps):
        return _RECTIFIERS
    return _FUNCTION if len(steps.steps) <= 3 and source.outputs == 1 else _MAXIMA


def _piecewise_linear_steps(source: object) -> Steps:
    """The steps of a source, all of them affine, maxima, relu or abs."""
    steps = source.steps() if isinstance(source, Target) else None
    if steps is None or not steps.steps:
        raise RequestError(
            f"A {type(source).__name__} cannot be compiled by a network route: it has no steps. "
            f"Give a network, or anything whose steps() are affine maps, maxima, relu and abs."
        )
    for step in steps.steps:
        bent = not isinstance(step, Univariate) or step.name in ("relu", "abs")
        if not (bent and isinstance(step, Affine | Maximum | Univariate)):
            name = step.name if isinstance(step, Univariate) else type(step).__name__.lower()
            raise RequestError(
                f"A {type(source).__name__} cannot be compiled by a network route: its steps have "
                f"a {name}, and must be affine maps, maxima, relu and abs. Give it as a function."
            )
    return steps
