"""One head over tokens that the prompt lays down: anchors on a line, and grids of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hardmax.lowering.approximants import AnchorFit, GridFit
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import BoxForm, Chooser, Moved, Pair, attention_from, exact_form
from hardmax.numerics import Format, inflate, stray

_FINE = 0.05  # weights grow by no more than 5% within a piece of the range ...
_MOST_PIECES = 20_000  # ... unless these are too many
_DUST = 1e-12  # covers the rounding of sums of exponentials


def curve_by_anchors(site: Site, fit: AnchorFit) -> Approximation:
    """A smooth function as one softmax mean over anchors e_k with values v_k.

    With the argument and the anchors moved to the middle c of the anchors, the query (x - c, 1)
    and the keys (e_k - c, -(e_k - c)^2/2) score -(x - e_k)^2/2 up to a term that all anchors
    share: a Gaussian partition of unity. Every token of the prompt is an anchor, sink and data
    included, so nothing has to be masked. The keys are exact floats; see `fit_anchors` for the
    error. One head of key width 2 at any depth.
    """
    (argument,), (pair,) = site.forms, site.ranges
    middle = Fraction(float(fit.anchors[len(fit.anchors) // 2]))
    places = [Fraction(float(e)) - middle for e in fit.anchors]
    halves = [float(-(e * e) / 2) for e in places]
    ends = [Fraction(end) - middle for end in pair]
    scores = np.array([[float(x * e - e * e / 2) for e in places] for x in ends])
    held = _mean_over_anchors(
        site,
        [argument + -middle],
        [np.array([float(e) for e in places]), np.array(halves)],
        np.asarray(fit.values, dtype=float),
        fit.coldness,
        (scores.min(axis=0), scores.max(axis=0)),
        *spread_of(fit, pair),
    )
    # keys are rounded, and with them the logits, whose weights move by half of that
    bound = float(np.abs(scores).max())
    slack = float(np.abs(fit.values).max()) * stray(4, fit.coldness * bound)
    return Approximation(held, inflate(fit.error + slack, 2))


def spread_of(fit: AnchorFit, pair: Pair) -> tuple[float, float]:
    """Bounds of sum_jk p_j p_k |v_j - v_k| and sum_k p_k |v_k| over all questions x of a range.

    Values far from the range, which weigh next to nothing, may be as large as they like.

    The first: with the values in order and P_i the weight of the first i of them it is
    2 sum_i P_i (1 - P_i) (v_(i+1) - v_i); summed up at the middles of short pieces. On a piece of
    half width h around x_0 the logits coldness (x e_k - e_k^2/2) move by coldness (x - x_0) e_k;
    relative to the middle of the anchors, which have the width w, that is at most
    r = coldness h w/2, so that no weight grows by more than e^(2r), and no product by e^(4r).
    """
    order = np.argsort(fit.values, kind="stable")
    e, v = np.asarray(fit.anchors, dtype=float)[order], np.asarray(fit.values, dtype=float)[order]
    (low, high), width = pair, float(np.ptp(e))
    pieces = int(np.clip(fit.coldness * (high - low) * width / _FINE, 16, _MOST_PIECES))
    half = 0.5 * (high - low) / pieces
    apart = size = 0.0
    for x in np.array_split(low + half * (2.0 * np.arange(pieces) + 1.0), -(-pieces // 512)):
        away = 0.5 * fit.coldness * (x[:, None] - e) ** 2
        p = np.exp(away.min(axis=1, keepdims=True) - away)
        p = p / p.sum(axis=1, keepdims=True)
        below = np.cumsum(p, axis=1)[:, :-1]
        spread = 2.0 * (below * np.abs(1.0 - below)) @ np.diff(v)
        apart = max(apart, float(spread.max(initial=0.0)) + _DUST * float(np.ptp(v)))
        size = max(size, float((p @ np.abs(v)).max()))
    grown = np.exp(min(fit.coldness * half * width, 350.0))
    return float(inflate(apart * grown**2, 8)), float(inflate(size * grown * (1.0 + _DUST), 8))


def function_by_grid(
    site: Site,
    grid: GridFit,
    values: np.ndarray,
    spread: float = np.inf,
    moved: Moved | None = None,
) -> BoxForm:
    """The same in several variables: scores coldness (x.e - |e|^2/2) about the middle of the box.

    `grid_for` proves the error of the values at the grid's points, averaged so, and `moved` says
    how far rounding moves them. The query is scaled so that the coldness is a power of two, by
    which half the square of a key is multiplied without rounding.
    """
    places, middle, domain = grid.places(), grid.middle, site.sketch.domain
    if len(places) == 1:
        places, values = np.repeat(places, 2, axis=0), np.repeat(values, 2)
    scale, exponent = np.frexp(grid.coldness)
    halves = -0.5 * scale * (places**2).sum(axis=1)
    asked = [
        (form + -float(c)) * Fraction(float(scale))
        for form, c in zip(site.forms, middle, strict=True)
    ]
    low, high = scale * (domain.low - middle), scale * (domain.high - middle)
    ends = np.maximum(places * low, places * high).sum(axis=1) + halves
    starts = np.minimum(places * low, places * high).sum(axis=1) + halves
    return _mean_over_anchors(
        *(site, asked, [*places.T, halves], values, float(2.0**exponent), (starts, ends), spread),
        moved=moved,
        heavy=grid.heavy,
    )


def _mean_over_anchors(
    site: Site,
    asked: Sequence[BoxForm],
    keys: Sequence[np.ndarray],
    values: np.ndarray,
    coldness: float,
    score_ends: tuple[np.ndarray, np.ndarray],
    spread: float,
    weighed: float = np.inf,
    moved: Moved | None = None,
    heavy: Callable[[Format], int] | None = None,
) -> BoxForm:
    """The last key, half the square, is the same whoever asks: its query is 1."""
    inputs = site.sketch.domain.dimension
    chooser = Chooser(
        sublayer=attention_from(site.sketch.ready(*asked)),
        query=(*asked, exact_form(1)),
        keys=tuple(constants(key, inputs) for key in keys),
        values=constants(values, inputs),
        coldness=coldness,
        node=site.node,
        gain=1.0,
        score_ends=score_ends,
        value_range=(float(values.min()), float(values.max())),
        spread=spread,
        weighed=weighed,
        moved=moved,
        heavy=heavy,
    )
    return site.sketch.written(site.sketch.choose(chooser))


def constants(values: np.ndarray, inputs: int) -> np.ndarray:
    """A table of constants: no input has weight."""
    column = values.reshape(-1, 1)
    return np.concatenate([np.zeros((len(column), inputs)), column], axis=1)
