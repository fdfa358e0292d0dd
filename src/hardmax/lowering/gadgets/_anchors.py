"""One head over tokens that the prompt lays down: anchors on a line, and grids of them."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from hardmax.lowering.approximants import AnchorFit, GridFit
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import BoxForm, Chooser, attention_from, exact_form
from hardmax.numerics import inflate, stray


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
    )
    # keys are rounded, and with them the logits, whose weights move by half of that
    bound = float(np.abs(scores).max())
    slack = float(np.abs(fit.values).max()) * stray(4, fit.coldness * bound)
    return Approximation(held, inflate(fit.error + slack, 2))


def function_by_grid(site: Site, grid: GridFit, values: np.ndarray) -> BoxForm:
    """The same in several variables: scores coldness (x.e - |e|^2/2) about the middle of the box.

    `grid_for` proves the error of the values at the grid's points, averaged so.
    """
    points, domain = grid.points(), site.sketch.domain
    if len(points) == 1:
        points, values = np.repeat(points, 2, axis=0), np.repeat(values, 2)
    middle = points[len(points) // 2]
    places = points - middle
    halves = -0.5 * (places**2).sum(axis=1)
    asked = [form + -float(c) for form, c in zip(site.forms, middle, strict=True)]
    low, high = domain.low - middle, domain.high - middle
    ends = np.maximum(places * low, places * high).sum(axis=1) + halves
    starts = np.minimum(places * low, places * high).sum(axis=1) + halves
    return _mean_over_anchors(
        site, asked, [*places.T, halves], values, grid.coldness, (starts, ends)
    )


def _mean_over_anchors(
    site: Site,
    asked: Sequence[BoxForm],
    keys: Sequence[np.ndarray],
    values: np.ndarray,
    coldness: float,
    score_ends: tuple[np.ndarray, np.ndarray],
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
    )
    return site.sketch.written(site.sketch.choose(chooser))


def constants(values: np.ndarray, inputs: int) -> np.ndarray:
    """A table of constants: no input has weight."""
    column = values.reshape(-1, 1)
    return np.concatenate([np.zeros((len(column), inputs)), column], axis=1)
