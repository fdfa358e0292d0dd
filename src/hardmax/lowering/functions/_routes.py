"""The routes of a function, by name; among them those that take a function as a whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from hardmax._errors import PrecisionError, RequestError
from hardmax.core import MARGIN, Box, Construction
from hardmax.languages import CallableFunction, Function
from hardmax.lowering._planner import BASELINES, Offer, Plan, TooSmall, make_offers
from hardmax.lowering.approximants import (
    COARSE_FLATNESS,
    FLATNESS,
    GridFit,
    PiecewiseFit,
    fit_knots_from_bound,
    fit_knots_lipschitz,
    grid_for,
)
from hardmax.lowering.functions._compose import compose
from hardmax.lowering.functions._proposal import Proposal, too_small
from hardmax.lowering.functions._route_gadgets import (
    ROUTE_GADGETS,
    RouteGadgets,
    anchors,
    differing_routes,
    direct,
    longest_wave,
    recipe,
)
from hardmax.lowering.gadgets import (
    SOFT_SHARE,
    Approximation,
    Site,
    function_by_grid,
    hard_pieces,
    soft_pieces,
)
from hardmax.lowering.graph import analyse, build_graph, opaque_analysis, opaque_graph
from hardmax.lowering.sketch import BoxSketch
from hardmax.numerics import FLOAT64, Format, Interval, up

MOST_TOKENS = 10_000
_ROOM = 1e-6  # of the error, for rounding
# Units of a coarse format, for each half-wave: sums of sigmoids that follow 10 to 80 half-waves of
# a sine come within 3200 to 5000 of them, anchors beyond 15 and pieces no closer.
_ROUNDED_WAVES = 1500.0
_LARGER = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 1e3, 1e4)  # times an error that is refused


def plan_function(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    *,
    format: Format = FLOAT64,
) -> Plan:
    """Every route's offer, with claims about the format: they leave room for its rounding."""
    _check(function, domain, error)
    routes = _routes(function, domain, error, format)
    proposers = [(name, partial(propose, None)) for name, propose in routes.items()]
    return Plan(function, domain, error, make_offers(error, proposers), format.name)


def lower_function(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    *,
    route: str | None = None,
    prefer: str | None = None,
    format: Format = FLOAT64,
) -> Construction:
    """Build what the planner picks, or the route named, with a claim about the format."""
    if route is not None and prefer is not None:
        raise RequestError(
            "Give a route or a preference, not both: a route leaves nothing to pick."
        )
    _check(function, domain, error)
    if route is None:
        return _picked(function, domain, error, prefer, format).build()
    routes = _routes(function, domain, error, format, every=True)
    if route not in routes:
        raise RequestError(
            f"There is no route {route!r} for {function}; choose one of {', '.join(routes)}."
        )
    return routes[route](None).build()


def _picked(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    prefer: str | None,
    format: Format,
) -> Offer:
    """What `Plan.choose` picks, without working out routes that cannot win any more.

    A head has at least eight parameters and a token at least two, so that once some route makes
    do with P parameters, the recipe gives up beyond P/8 pieces, sums of sigmoids for waves beyond
    P/8 heads, anchors for waves and the grid beyond P/2 tokens.
    """
    if prefer not in (None, "parameters"):
        return plan_function(function, domain, error, format=format).choose(prefer)
    offers: tuple[Offer, ...] = ()
    least: int | None = None
    for name, propose in _routes(function, domain, error, format).items():
        if name not in BASELINES:
            (offer,) = make_offers(error, [(name, partial(propose, least))])
            offers = (*offers, offer)
            if offer.proposal is not None:
                size = int(offer.resources["parameters"])
                least = size if least is None else min(least, size)
    return Plan(function, domain, error, offers, format.name).choose(prefer)


Proposer = Callable[[int | None], Proposal]  # the parameters to stay below, if any


def _routes(
    function: Function | CallableFunction,
    domain: Box,
    error: float,
    format: Format,
    *,
    every: bool = False,
) -> dict[str, Proposer]:
    """The routes that differ for this function; or every one, for those who ask by name."""
    if isinstance(function, CallableFunction):
        routes = _opaque_routes(function, domain, error, format)
    else:
        routes = _routes_of_text(function, domain, error, format, every)
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
    function: Function, domain: Box, error: float, format: Format, every: bool
) -> dict[str, Proposer]:

    def by(gadgets: Callable[[Format], RouteGadgets]) -> Proposer:
        return lambda least: compose(function, domain, error, gadgets(format), format=format)

    def by_recipe(least: int | None) -> Proposal:
        gadgets = recipe(format) if least is None else recipe(format, least // 8 + 1)
        return compose(function, domain, error, gadgets, format=format)

    def by_anchors(least: int | None) -> Proposal:
        gadgets = anchors(format) if least is None else anchors(format, least // 2 + 2)
        return compose(function, domain, error, gadgets, format=format)

    def by_sigmoids(products: int) -> Proposer:
        def propose(least: int | None) -> Proposal:
            most = () if least is None else (least // 8 + 1,)
            gadgets = direct(format, products, *most)
            return compose(function, domain, error, gadgets, format=format)

        return propose

    differing = differing_routes(function.expressions, function.variables, domain)
    names = list(ROUTE_GADGETS) if every else differing
    routes: dict[str, Proposer] = {name: by(ROUTE_GADGETS[name]) for name in names}
    if "anchors" in routes:
        routes["anchors"] = by_anchors
    for products, name in enumerate(("direct", "direct-2", "direct-3"), 1):
        if name in routes:
            routes[name] = by_sigmoids(products)
    routes["recipe"] = by_recipe
    if not every and format.is_coarse and "folded" in routes:
        waves = longest_wave(function.expressions, function.variables, domain)
        followers = [name for name in routes if name != "folded"]
        hopeless = [n for n in followers if _ROUNDED_WAVES * format.unit * waves > error]
        routes |= dict.fromkeys(hopeless, partial(_refuse_to_follow, waves, error, format))
    return routes | {"universal": _universal_route(function, domain, error, format)}


def _refuse_to_follow(waves: float, error: float, format: Format, least: int | None) -> Proposal:
    """Where waves are folded on another route: what follows them all rounds more, and is slow."""
    raise TooSmall(
        f"Sums that follow all {waves:.0f} half-waves round too much in {format.name} for an error "
        f"of {error:.3g}, and are not sought where waves can be folded. Ask for a larger error, or "
        "name the route to see how far it comes.",
        float("inf"),
    )


def _universal_route(
    function: Function | CallableFunction, domain: Box, error: float, format: Format
) -> Proposer:
    def propose(least: int | None) -> Proposal:
        most = MOST_TOKENS if least is None else least // 2 + 2
        return propose_universal(function, domain, error, most, format=format)

    return propose


def _opaque_routes(
    function: CallableFunction, domain: Box, error: float, format: Format
) -> dict[str, Proposer]:
    def by_pieces(soft: bool) -> Proposer:
        return lambda least: propose_pieces(function, domain, error, soft=soft, format=format)

    routes: dict[str, Proposer] = {}
    if function.inputs == 1:
        routes = {"recipe": by_pieces(soft=True), "feedforward": by_pieces(soft=False)}
    return routes | {"universal": _universal_route(function, domain, error, format)}


def _check(function: Function | CallableFunction, domain: Box, error: float) -> None:
    if not (isinstance(error, int | float) and 0 < error < float("inf")):
        raise RequestError(f"The error must be a number > 0, not {error!r}; try error=1e-3.")
    if isinstance(function, Function):
        function.check_domain(domain)


# ---- taken as a whole ----------------------------------------------------------------------------


def propose_universal(
    target: Function | CallableFunction,
    domain: Box,
    error: float,
    most: int = MOST_TOKENS,
    *,
    format: Format = FLOAT64,
) -> Proposal:
    """A softmax partition of unity around the points of a grid, values f there.

    One head (one per output), one layer, key width d + 1. `grid_for` proves the error from slopes
    alone: nothing else is known of the function, and then nothing better is possible with one
    token per anchor. With a concave modulus of continuity w in the 1-norm, Jensen's inequality
    bounds the error by w(mean distance), so the grid for slope 1 and a distance d with w(d) at
    most the error does it. The number of anchors is known before f is evaluated anywhere.
    """
    if target.inputs > 3:
        raise RequestError(
            f"Universality by anchors is for up to 3 variables, not {target.inputs}: the grid "
            "grows with the power of their number."
        )
    return _fitting(error, lambda asked: _by_anchors(target, domain, asked, most, format), format)


def _by_anchors(
    target: Function | CallableFunction, domain: Box, asked: float, most: int, format: Format
) -> Proposal:
    flatness = FLATNESS if format is FLOAT64 else COARSE_FLATNESS
    grid, bound, spread = _grid_of(target, domain, asked, flatness, format)
    if grid.count > most:
        parameters = grid.count * (2 * target.inputs + 3)
        raise PrecisionError(
            f"One head over {grid.count:,} anchors would do it, with about {parameters:,} "
            f"parameters; more than {most:,} tokens are not built. Ask for a larger error."
        )
    values, uncertain = _values(target, grid.points())
    by_modulus = isinstance(target, CallableFunction) and target.lipschitz is None
    moved = None if by_modulus else grid.moved

    def built(site: Site, output: int) -> Approximation:
        apart = spread + 2.0 * uncertain
        form = function_by_grid(site, grid, values[:, output], apart, moved)
        return Approximation(form, bound + uncertain)

    return _opaque(target, domain, "universal", built)


def _values(target: Function | CallableFunction, points: np.ndarray) -> tuple[np.ndarray, float]:
    """f at the anchors, and by how much the floats may miss it; a callable's are taken as exact."""
    if isinstance(target, CallableFunction):
        return np.asarray(target(points)), 0.0
    enclosed = target(Interval.point(points.T))
    middle = enclosed.middle
    if not np.isfinite(middle).all():
        raise PrecisionError(f"{target} overflows at some anchor; shrink the domain.")
    missed = np.maximum(enclosed.hi - middle, middle - enclosed.lo).max()
    return middle.T, float(up(float(missed)))


def _fitting(
    error: float, propose: Callable[[float], Proposal], format: Format = FLOAT64
) -> Proposal:
    """Ask for a little less as long as rounding takes the claim above the error."""
    proposal = _fitted(error, propose, format)
    if proposal.needed <= error / (1 + MARGIN):
        return proposal
    reached = 10 * proposal.needed + error
    if format is not FLOAT64:  # what somebody will take in the end
        larger = (error * factor for factor in _LARGER)
        fine = (e for e in larger if _fitted(e, propose, format).needed <= e / (1 + MARGIN))
        reached = next(fine, float("inf"))
    raise too_small(error, float(f"{reached:.0e}"), proposal.route, format.name)


def _fitted(error: float, propose: Callable[[float], Proposal], format: Format) -> Proposal:
    """The first of some attempts that fits the error, or the last one."""
    asked = error / (1 + MARGIN) * (1 - _ROOM)
    for _ in range(8):
        proposal = replace(propose(asked), format=format.name, asked=error)
        bound = proposal.needed
        if bound <= error / (1 + MARGIN):
            return proposal
        asked = error / (1 + MARGIN) - 1.2 * (bound - proposal.approximation)
        if not asked > 0.1 * error:
            break
    return proposal


def propose_pieces(
    target: CallableFunction,
    domain: Box,
    error: float,
    *,
    soft: bool,
    format: Format = FLOAT64,
) -> Proposal:
    """A function of one variable, of which only bounds are known, piecewise linear."""
    if target.inputs != 1:
        raise RequestError("Pieces are for functions of one variable; take the universal route.")
    return _fitting(error, lambda asked: _by_pieces(target, domain, asked, soft, format), format)


def _by_pieces(
    target: CallableFunction, domain: Box, asked: float, soft: bool, format: Format
) -> Proposal:
    balanced = format is not FLOAT64

    def built(site: Site, output: int) -> Approximation:
        fit = _pieces(target, output, domain, asked * (1 - SOFT_SHARE if soft else 1.0))
        if soft:
            return soft_pieces(site, fit, asked, balanced=balanced)
        return hard_pieces(site, fit, balanced=balanced)

    return _opaque(target, domain, "recipe" if soft else "feedforward", built)


def _pieces(target: CallableFunction, output: int, domain: Box, error: float) -> PiecewiseFit:
    low, high = float(domain.low[0]), float(domain.high[0])

    def value(x: np.ndarray) -> np.ndarray:
        return np.asarray(target(np.asarray(x, dtype=float).reshape(-1, 1)))[:, output]

    fits = []
    if target.second_derivative is not None:
        fits.append(fit_knots_from_bound(value, low, high, target.second_derivative[0], error))
    if target.lipschitz is not None:
        fits.append(fit_knots_lipschitz(value, low, high, target.lipschitz[0], error))
    if not fits:
        raise RequestError(
            "Pieces need lipschitz=... or second_derivative=...; a modulus alone leaves the "
            "universal route."
        )
    return min(fits, key=lambda fit: fit.pieces)


def _grid_of(
    target: Function | CallableFunction,
    domain: Box,
    error: float,
    flatness: float,
    format: Format,
) -> tuple[GridFit, float, float]:
    """The grid, the error that it proves, and how far apart two values drawn by weight are."""
    low, high = domain.low.tolist(), domain.high.tolist()
    if isinstance(target, CallableFunction):
        if target.lipschitz is not None:
            grid = grid_for(low, high, target.lipschitz, error, flatness=flatness, format=format)
            return grid, grid.error, grid.spread
        if target.modulus is not None:
            reach = _reach(target.modulus, float((domain.high - domain.low).sum()), error)
            grid = grid_for(low, high, [1.0] * len(low), reach, flatness=flatness, format=format)
            return grid, target.modulus(grid.error), target.modulus(grid.spread)
        raise RequestError("The universal route needs lipschitz=... or modulus=...")
    grid = grid_for(low, high, _slopes(target, domain), error, flatness=flatness, format=format)
    return grid, grid.error, grid.spread


def _slopes(target: Function, domain: Box) -> Sequence[float]:
    """The largest |df/dx_i| over the domain, enclosed box by box."""
    graph = build_graph(target.expressions, target.variables)
    analysis = analyse(graph, domain)
    slopes = [analysis.sensitivity(i) for i in range(target.inputs)]
    if not np.isfinite(slopes).all():
        raise PrecisionError(
            f"No finite bound on the slope of {target} was found on the domain, so no grid of "
            "anchors is known to be fine enough; shrink the domain, or give the function as a "
            "CallableFunction with a bound of your own."
        )
    return slopes


def _reach(modulus: Callable[[float], float], most: float, error: float) -> float:
    """The largest distance (to 1 part in 1000) over which the function moves by the error."""
    if modulus(most) <= error:
        return most
    low, high = 0.0, most
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if modulus(middle) <= error else (low, middle)
        if low > 0 and high - low <= 1e-3 * low:
            return low
    raise PrecisionError(
        f"The modulus does not fall below {error:.3g} at any distance; a continuous function's "
        "does. Check it, or ask for a larger error."
    )


def _names(target: Function | CallableFunction) -> list[str]:
    if isinstance(target, Function):
        return [str(expression) for expression in target.expressions]
    name = getattr(target.function, "__name__", "f")
    return [name] if target.outputs == 1 else [f"{name}[{i}]" for i in range(target.outputs)]


def _opaque(
    target: Function | CallableFunction,
    domain: Box,
    route: str,
    build: Callable[[Site, int], Approximation],
) -> Proposal:
    """A function taken as a whole: every output is one node."""
    sketch, names = BoxSketch(domain), _names(target)
    graph = opaque_graph(names, target.variables)
    inputs = tuple(sketch.input(i) for i in range(domain.dimension))
    ends = tuple(zip(domain.low.tolist(), domain.high.tolist(), strict=True))
    built = {
        node: build(Site(sketch, node, inputs, ends), output)
        for output, node in enumerate(graph.outputs)
    }
    sketch.outputs = [own.form for own in built.values()]
    labels = dict(zip(graph.outputs, names, strict=True))
    allowed = dict.fromkeys(graph.outputs, float("inf"))
    return Proposal(target, domain, route, sketch, built, opaque_analysis(graph), allowed, labels)
