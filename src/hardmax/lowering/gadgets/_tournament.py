"""The maximum of several values, two at a time."""

from __future__ import annotations

from collections.abc import Callable

from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import BoxForm

Rectify = Callable[[Site, BoxForm, float], Approximation]


def maximum_by_tree(site: Site, error: float, rectify: Rectify) -> Approximation:
    """A tournament: max(a, b) = b + relu(a - b), ceil(log2 n) layers.

    A maximum errs no more than the worse of its arguments, so errors add up along the depth and
    not over the matches: each round has error/depth.
    """
    depth = max((len(site.forms) - 1).bit_length(), 1)
    entrants = [Approximation(form, 0.0) for form in site.forms]
    while len(entrants) > 1:
        pairs = [entrants[i : i + 2] for i in range(0, len(entrants), 2)]
        entrants = [
            pair[0] if len(pair) == 1 else _match(site, pair, error / depth, rectify)
            for pair in pairs
        ]
    return entrants[0]


def _match(site: Site, pair: list[Approximation], error: float, rectify: Rectify) -> Approximation:
    a, b = pair
    won = rectify(site, a.form - b.form, error)
    return Approximation(b.form + won.form, max(a.error, b.error) + won.error)
