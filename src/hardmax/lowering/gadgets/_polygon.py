"""A function of one number that takes finitely many values, by hidden units."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.lowering.sketch import (
    NOISE,
    Bends,
    Levels,
    NeedsSaneStart,
    Placed,
    WordForm,
    WordSketch,
    feed_forward_from,
    misfit,
)

_SLACK = 1.0 + 2.0**-10  # what switches a unit off is larger than floats may make the unit


@dataclass(frozen=True, eq=False)
class Polygon:
    """base + slope x + sum of weights * relu(x - knots), on some numbers x (the levels)."""

    base: float
    slope: float
    knots: np.ndarray
    weights: np.ndarray
    levels: np.ndarray
    off: float = 0.0  # how far from what was wanted, at the levels


def polygon(x: np.ndarray, y: np.ndarray, flat: bool = False) -> Polygon:
    """The polygon through the points (x_i, y_i); x ascends strictly.

    A knot at each inner point where the slope changes: a hidden unit per knot, the affine part
    being free. A polygon hands errors of x on, magnified by its slopes. A *flat* one has a plateau
    of a quarter of the way to its neighbours on both sides of each point, so that errors of x end
    there; it costs up to two knots a point instead of one.

    Bends that floats alone explain are left out, unless the points are missed without them.
    """
    if len(x) == 1:
        return Polygon(float(y[0]), 0.0, np.zeros(0), np.zeros(0), x)
    at, height = _plateaus(x, y) if flat else (x, y)
    widths = np.diff(at)
    if not (widths > 0.0).all():
        raise RequestError(
            f"A step looks up numbers near {float(x[0]):.6g} that are too close to each other for "
            f"float64 to tell apart. Map them to other values first."
        )
    slopes = np.diff(height) / widths
    turns = np.diff(slopes)
    steepest = float(np.abs(slopes).max())
    for slack in (NOISE, 0.0):
        kept = np.where(np.abs(turns) > slack * steepest, turns, 0.0)
        course = slopes[0] + np.concatenate([[0.0], np.cumsum(kept)])
        reached = np.concatenate([[0.0], np.cumsum(course * widths)]) + height[0]
        if misfit(reached, height) is not None:
            break
    off = float(np.abs(reached - height).max())
    slope, bends = float(slopes[0]), kept != 0.0
    return Polygon(float(height[0] - slope * at[0]), slope, at[1:-1][bends], kept[bends], x, off)


def _plateaus(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each point twice, a quarter of the way to its neighbours."""
    gaps = np.diff(x)
    below = x - np.concatenate([gaps[:1], gaps]) / 4.0
    above = x + np.concatenate([gaps, gaps[-1:]]) / 4.0
    return np.stack([below, above], axis=1).reshape(-1), np.repeat(y, 2)


def polygon_by_units(
    sketch: WordSketch, name: object, inner: Placed, line: Polygon, lowest: float, *, clean: bool
) -> Placed:
    """Hidden units for a piecewise linear function of a form, which is `lowest` at least.

    Clean where asked: units that would be on at the start token are switched off there by the
    token register, and so is the linear part, if what it reads is not clean itself. The register
    holds the function's bends alone where its linear part is read from the form.
    """
    knots, weights = line.knots, line.weights
    slope = line.slope
    if clean and not inner.is_clean and slope:
        knots, weights = np.append(knots, lowest), np.append(weights, slope)
    passed = Placed(WordForm({}, line.base, line.off), inner.ready, True)
    if slope and (inner.is_clean or not clean):
        passed = passed + inner.scaled(slope)
    elif slope:
        passed = passed.scaled(1.0, slope * lowest)
    if not len(knots):
        return passed
    sublayer = feed_forward_from(inner.ready)
    bends = Bends(knots, weights)
    step = str(name)
    register = sketch.register(
        f"{step}.bends" if passed.form.terms else step, bends.largest(line.levels)
    )
    register.beyond = 0.0 if clean else bends.largest_within(inner.form.widest)
    is_wild = any(one.is_wild for one in inner.form.terms)
    register.is_wild = is_wild and not clean
    law = Levels(line.levels - inner.form.constant - sketch.token_weight(inner.form))
    for knot, weight in zip(knots.tolist(), weights.tolist(), strict=True):
        unit = inner.form + -knot
        if clean and not (inner.is_clean and unit.constant <= 0.0):
            if is_wild:
                raise NeedsSaneStart
            off = 2.0 ** math.ceil(math.log2(max(unit.widest, 1.0) * _SLACK))
            unit = unit + sketch.token * off + -off
        sketch.unit(sublayer, step, unit, {register: weight}, law)
    found = Placed(WordForm({register: 1.0}), sublayer + 1, clean)
    return passed + found
