"""Piecewise linear functions of one argument, every kink a soft ReLU head or a hidden unit."""

from __future__ import annotations

from fractions import Fraction

from hardmax.lowering.approximants import Curve, PiecewiseFit, coldness_for, fit_knots, softening
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import BoxForm, attention_from, exact_form, feed_forward_from

SOFT_SHARE = 0.12  # of a soft piecewise linear function's error: pieces are dearer than coldness


def curve_by_soft_pieces(
    site: Site, curve: Curve, error: float, most: int, *, balanced: bool = False
) -> Approximation:
    """The best free-knot piecewise linear function, every kink one soft ReLU head, one layer.

    f is within the fit's error of a + b x + sum c_i relu(x - t_i), and replacing every
    relu(z) by z sigmoid(coldness z) moves that by at most `softening`, centred. The affine part
    is free, so N pieces are N - 1 heads.
    """
    fit = fit_knots(curve, (1 - SOFT_SHARE) * error, most=most)
    return soft_pieces(site, fit, error, balanced=balanced)


def soft_pieces(
    site: Site, fit: PiecewiseFit, error: float, *, balanced: bool = False
) -> Approximation:
    """A piecewise linear fit by soft heads, cold enough for the error that the fit leaves.

    What a soft ReLU loses depends on |z| alone, so that kinks may be turned round (see `_bends`).
    """
    (argument,), sketch = site.forms, site.sketch
    coldness = coldness_for(fit, error - fit.error)
    loss = softening(fit, coldness)
    sublayer = attention_from(sketch.ready(argument))
    piece, bends = _bends(fit, argument, balanced)
    register = sketch.register(piece)
    for z, kink in bends:
        gain = abs(float(kink))
        maker = sketch.gate(z, z, coldness=coldness, node=site.node, gain=gain, sublayer=sublayer)
        sketch.write(register, maker, kink)
    return Approximation(
        exact_form(loss.shift, register), fit.error + loss.centred, softening=loss.centred
    )


def curve_by_units(
    site: Site, curve: Curve, error: float, *, balanced: bool = False
) -> Approximation:
    """The same piecewise linear function, exactly, by one feed-forward layer of N - 1 units."""
    return hard_pieces(site, fit_knots(curve, error), balanced=balanced)


def hard_pieces(site: Site, fit: PiecewiseFit, *, balanced: bool = False) -> Approximation:
    """A piecewise linear fit by hidden units."""
    (argument,), sketch = site.forms, site.sketch
    sublayer = feed_forward_from(sketch.ready(argument))
    piece, bends = _bends(fit, argument, balanced)
    register = sketch.register(piece)
    for z, kink in bends:
        gain = abs(float(kink))
        maker = sketch.unit(z, node=site.node, gain=gain, sublayer=sublayer)
        sketch.write(register, maker, kink)
    return Approximation(exact_form(0, register), fit.error)


def _bends(
    fit: PiecewiseFit, argument: BoxForm, balanced: bool
) -> tuple[BoxForm, list[tuple[BoxForm, Fraction]]]:
    """One piece as a line, and what bends away from it: relu of a form, times a kink.

    Any piece will do. From piece r on, kinks to the right bend by c relu(x - t), those to the left
    by c relu(t - x), for c relu(x - t) - c relu(t - x) = c (x - t) is a line. Sums round with the
    sizes of their terms, so `balanced` takes the piece with the smallest sum of |c| times the
    largest value of its ReLU: 1/x on [0.1, 1] starts at 1, where the sum is 8 and not 80.
    """
    kinks, low, high = _kinks(fit), float(fit.knots[0]), float(fit.knots[-1])
    after = [abs(float(c)) * (high - float(t)) for t, c in kinks]
    before = [abs(float(c)) * (float(t) - low) for t, c in kinks]
    sizes = [sum(before[:r]) + sum(after[r:]) for r in range(len(kinks) + 1)]
    turned = sizes.index(min(sizes)) if balanced else 0
    bends = [
        (argument * -1 + t if i < turned else argument + -t, c) for i, (t, c) in enumerate(kinks)
    ]
    line = _first_piece(fit, argument)
    for t, c in kinks[:turned]:
        line = line + (argument + -t) * c
    return line, bends


def _first_piece(fit: PiecewiseFit, argument: BoxForm) -> BoxForm:
    start = argument + -Fraction(float(fit.knots[0]))
    return start * _slopes(fit)[0] + Fraction(float(fit.values[0]))


def _slopes(fit: PiecewiseFit) -> list[Fraction]:
    knots = [Fraction(float(t)) for t in fit.knots]
    values = [Fraction(float(v)) for v in fit.values]
    return [(values[i + 1] - values[i]) / (knots[i + 1] - knots[i]) for i in range(len(knots) - 1)]


def _kinks(fit: PiecewiseFit) -> list[tuple[Fraction, Fraction]]:
    """(knot, change of slope) at each inner knot."""
    slopes = _slopes(fit)
    return [
        (Fraction(float(fit.knots[i + 1])), slopes[i + 1] - slopes[i])
        for i in range(len(slopes) - 1)
        if slopes[i + 1] != slopes[i]
    ]
