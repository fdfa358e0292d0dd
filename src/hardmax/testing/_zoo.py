"""The zoo: one table of constructions for which every law must hold, built when they are asked for.

It holds every primitive function on every route that makes an offer, the composites whose numbers
are measured, a maximum of 16, a product of six variables, and random networks and piecewise linear
functions on all of their routes, soft and hard. A new source joins by a line here, a new
route by its name in the lists of routes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise

import numpy as np

from hardmax._workbench import Source, compile
from hardmax.core import Box, Construction
from hardmax.languages import Function, MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork

Range = tuple[float, float]
UNIT: Range = (-1.0, 1.0)


@dataclass(frozen=True, eq=False)
class Specimen:
    """One construction of the zoo: a source on a domain, by a route, to an error (None: hard)."""

    name: str
    kind: str  # primitive | composite | relu | maxout | piecewise linear
    source: Callable[[], Source]
    domain: Box | str
    error: float | None
    route: str
    large: bool = False  # minutes for thousands of mutants: left to long runs

    @cached_property
    def construction(self) -> Construction:
        """Built once, by the route that the name says."""
        return compile(self.source(), on=self.domain, error=self.error, route=self.route)

    def __repr__(self) -> str:
        return f"Specimen({self.name})"


# ---- functions ---------------------------------------------------------------------------------

_PRODUCT = "direct direct-2 direct-3 recipe feedforward gated"
_SQUARE = "direct direct-2 direct-3 anchors recipe feedforward universal gated"
_POWER = "direct anchors recipe feedforward universal gated"
_CURVE = "direct anchors recipe feedforward universal"
_FITTED = "direct anchors recipe feedforward"
_KINK = "direct recipe feedforward universal"
_PLAIN = "direct recipe feedforward"

_PRIMITIVES: dict[str, tuple[tuple[Range, ...], str, str]] = {  # routes at 1e-2, and at 1e-3
    "x*y": ((UNIT, UNIT), _PRODUCT, _PRODUCT),
    "x**2": ((UNIT,), _SQUARE, _SQUARE),
    "x**3": ((UNIT,), _POWER, _POWER),
    "x**0.5": (((1.0, 2.0),), _CURVE, _CURVE),
    "x**1.5": (((0.0, 1.0),), _CURVE, _CURVE),
    "x**-2": (((1.0, 2.0),), _CURVE, _CURVE),
    "1/x": (((0.1, 1.0),), _CURVE, _FITTED),
    "x/y": ((UNIT, (1.0, 2.0)), _PLAIN, _PLAIN),
    "exp(x)": (((0.0, 1.0),), _CURVE, _CURVE),
    "log(x)": (((1.0, 2.0),), _CURVE, _CURVE),
    "sqrt(x)": (((0.0, 1.0),), _FITTED, _PLAIN),
    "sin(x)": ((UNIT,), _CURVE, _CURVE),
    "cos(x)": ((UNIT,), _CURVE, _CURVE),
    "tan(x)": ((UNIT,), _CURVE, _CURVE),
    "tanh(x)": ((UNIT,), _KINK, _KINK),
    "sigmoid(x)": ((UNIT,), _KINK, _KINK),
    "abs(x)": ((UNIT,), _KINK, _KINK),
    "relu(x)": ((UNIT,), _KINK, _KINK),
    "min(x, y)": ((UNIT, UNIT), _PLAIN, _PLAIN),
    "max(x, y)": ((UNIT, UNIT), _PLAIN, _PLAIN),
    "max(x, y, z)": ((UNIT,) * 3, _PLAIN, _PLAIN),
}
_SIXTEEN = f"max({', '.join(f'x{i}' for i in range(16))})"
_COMPOSITES: dict[str, tuple[tuple[Range, ...], float, str]] = {
    "sin(x)*exp(-y)/(1 + x**2)": (((-2.0, 2.0), (0.0, 1.0)), 1e-3, _PRODUCT + " anchors"),
    "max(x, y, z)*min(x, y)": ((UNIT,) * 3, 1e-2, _PRODUCT),
    "16*x**5 - 20*x**3 + 5*x": ((UNIT,), 1e-6, _FITTED + " gated"),
    "exp(x)/(exp(x) + exp(y) + exp(z))": (((-2.0, 2.0),) * 3, 1e-4, _PLAIN),
    "u*v*w*x*y*z": ((UNIT,) * 6, 1e-2, _PRODUCT),
    _SIXTEEN: ((UNIT,) * 16, 1e-3, _PLAIN),
    "x*y, x + y, 7": ((UNIT, UNIT), 1e-2, _PRODUCT),
    "exp(x*y) - x": ((UNIT, (0.0, 1.0)), 1e-2, _PRODUCT + " anchors"),
    "clip(x, -0.5, 0.5)": ((UNIT,), 1e-2, _KINK),
    "3*x - y/3 + 1": ((UNIT, (0.0, 1.0)), 1e-2, _PLAIN),
}
_LARGE = {("recipe", 1e-6), ("feedforward", 1e-6), ("recipe", 1e-4), ("universal", 1e-3)}


def _functions() -> Iterator[Specimen]:
    for text, (ranges, coarse, fine) in _PRIMITIVES.items():
        for error, routes in ((1e-2, coarse), (1e-3, fine)):
            yield from (_function("primitive", text, ranges, error, r) for r in routes.split())
    for text, (ranges, error, routes) in _COMPOSITES.items():
        yield from (_function("composite", text, ranges, error, r) for r in routes.split())


def _function(
    kind: str, text: str, ranges: tuple[Range, ...], error: float, route: str
) -> Specimen:
    name = "max of 16" if text == _SIXTEEN else text
    domain = Box(*(np.array(ends) for ends in zip(*ranges, strict=True)))
    return Specimen(
        f"{name} ({route}, {error:g})",
        kind,
        lambda: Function.parse(text),
        domain,
        error,
        route,
        large=(route, error) in _LARGE,
    )


# ---- networks ----------------------------------------------------------------------------------


def random_relu(seed: int, *widths: int) -> ReluNetwork:
    """He-scaled normal weights, biases 0.1 times normal."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(b, a)) for a, b in pairwise(widths)]
    return ReluNetwork(weights, [0.1 * rng.normal(size=b) for b in widths[1:]])


def random_maxout(seed: int, rank: int, *widths: int) -> MaxoutNetwork:
    """He-scaled normal weights, biases 0.1 times normal; the last layer takes maxima too."""
    rng = np.random.default_rng(seed)
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(rank, b, a)) for a, b in pairwise(widths)]
    return MaxoutNetwork(weights, [0.1 * rng.normal(size=(rank, b)) for b in widths[1:]])


def random_difference(seed: int, inputs: int, plus: int, minus: int) -> PiecewiseLinear:
    """The difference of two maxima of random affine functions."""
    rng = np.random.default_rng(seed)
    parts = [MaxAffine(rng.normal(size=(n, inputs)), rng.normal(size=n)) for n in (plus, minus)]
    return PiecewiseLinear(*parts)


def _hat() -> PiecewiseLinear:
    return PiecewiseLinear.from_knots([-1, -0.5, 0.25, 0.5, 1], [0, 1, -0.5, 0.75, 0])


def _convex() -> MaxAffine:
    rng = np.random.default_rng(3)
    return MaxAffine(rng.normal(size=(6, 3)), rng.normal(size=6))


_THREE = "attention attention-only feedforward"
_TWO = "attention attention-only"
_NETWORKS: dict[str, tuple[str, Callable[[], Source], int, str, bool]] = {
    "ReLU 1-6-1": ("relu", lambda: random_relu(1, 1, 6, 1), 1, _THREE, False),
    "ReLU 2-8-1": ("relu", lambda: random_relu(2, 2, 8, 1), 2, _THREE, False),
    "ReLU 3-6-6-2": ("relu", lambda: random_relu(3, 3, 6, 6, 2), 3, _THREE, False),
    "ReLU 8-32-32-1": ("relu", lambda: random_relu(4, 8, 32, 32, 1), 8, _THREE, False),
    "ReLU 64-256-256-10": ("relu", lambda: random_relu(0, 64, 256, 256, 10), 64, _THREE, True),
    "maxout 2-3-2": ("maxout", lambda: random_maxout(1, 3, 2, 3, 2), 2, _TWO, False),
    "maxout 3-4-4-1": ("maxout", lambda: random_maxout(2, 2, 3, 4, 4, 1), 3, _TWO, False),
    "maxout 4-16-16-1": ("maxout", lambda: random_maxout(3, 4, 4, 16, 16, 1), 4, _TWO, False),
    "maxout 64-256-256-10": (
        "maxout",
        lambda: random_maxout(0, 2, 64, 256, 256, 10),
        64,
        _TWO,
        True,
    ),
    "zigzag": ("piecewise linear", _hat, 1, _TWO, False),
    "convex, 6 pieces": ("piecewise linear", _convex, 3, _TWO, False),
    "difference 4 - 5": (
        "piecewise linear",
        lambda: random_difference(5, 2, 4, 5),
        2,
        _TWO,
        False,
    ),
}
_ERRORS: tuple[float | None, ...] = (1e-3, None)


def _networks() -> Iterator[Specimen]:
    for name, (kind, source, inputs, routes, large) in _NETWORKS.items():
        for route in routes.split():
            for error in _ERRORS:
                how = "hard" if error is None else f"{error:g}"
                domain = f"[-1,1]^{inputs}"
                label = f"{name} ({route}, {how})"
                yield Specimen(label, kind, source, domain, error, route, large)


@cache
def zoo() -> Mapping[str, Specimen]:
    """Every specimen by its name; nothing is built yet."""
    return {specimen.name: specimen for specimen in (*_functions(), *_networks())}
