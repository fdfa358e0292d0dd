"""Sines and cosines of many waves: the argument is folded up before a few sigmoids see it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from hardmax._errors import RequestError
from hardmax.languages import Apply, Variable
from hardmax.lowering.approximants import Curve, sigmoids_for
from hardmax.lowering.gadgets._products import TENT_LOSS
from hardmax.lowering.gadgets._sigmoids import curve_by_sigmoids
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import attention_from, exact_form
from hardmax.numerics import above_float, below_float, inflate, short_above

PI = Fraction("3.14159265358979323846264338327950288419716939937510582097494459")
MOST_HALF_WAVES = 5  # left for sigmoids: a fold of more than this many saves more than one head
_FOLDS_SHARE = 0.3  # of the error: colder folds cost logits, and fewer sigmoids save heads
_ROOM = Fraction(1, 2**20)  # of the range: what rounding may push a register beyond it
_TINY_ANGLES = 1e-50  # far more than PI misses of pi, times all that folds move


@dataclass(frozen=True)
class Fold:
    """Numbers around a whole number `centre`, at most `radius` away: taken to the side nearer to 0.

    So registers stay small, and with them the logits of the sink, where registers are 0.
    """

    centre: int
    radius: Fraction

    @property
    def side(self) -> int:
        """-1 for what lies to the left of the centre, 1 for what lies to the right."""
        return -1 if self.centre > 0 else 1

    @property
    def ends(self) -> tuple[Fraction, Fraction]:
        """Where folded numbers are."""
        a, b = Fraction(self.centre), self.centre + self.side * self.radius
        return min(a, b), max(a, b)


def folds_of(low: Fraction, high: Fraction) -> list[Fold]:
    """Folds in the middle of what is left of [low, high], until that is short enough.

    A length of l becomes at most (l + 1)/2, as centres are whole numbers: log2(l) folds in all.
    """
    folds: list[Fold] = []
    while high - low > MOST_HALF_WAVES:
        centre = round((low + high) / 2)
        folds.append(Fold(centre, max(high - centre, centre - low)))
        low, high = folds[-1].ends
    return folds


def fold_loss(coldness: Fraction) -> Fraction:
    """pi^2 K/(2 b^2): by how much cos(pi r) moves in a soft fold at most."""
    return PI * PI * Fraction(TENT_LOSS) / (2 * coldness * coldness)


def wave_by_folding(
    site: Site, frequency: Fraction, phase: Fraction, error: float
) -> Approximation:
    """cos(frequency t + phase), t the argument: one head a fold, one layer each, then sigmoids.

    In half-waves, v = (frequency t + phase)/pi, the function is cos(pi v), which is even about
    every whole number m. So v may be replaced by m - |v - m|, which lies to the left of m (or by
    m + |v - m|), and half of the range is gone. Softly, |y| becomes A(y) = y tanh(b y/2), in place:
    a register r, minus twice the head's (r - m) sigmoid(b (r - m)), is m - A(r - m). Let E_j(r) be
    what all that follows the j-th fold makes of its register. Then, with y = r - m and w = A(y),

        |E_(j-1)(r) - cos(pi r)| = |E_j(m - w) - cos(pi (m - y))|
                                 <= |E_j(m - w) - cos(pi (m - w))| + |cos(pi w) - cos(pi y)|,

    because cos(pi (m +- y)) are equal. Errors of folds therefore just add up: nothing is multiplied
    from one to the next, as it is by 4 where an angle is doubled (cos 2x = 2 cos^2 x - 1). And

        |cos(pi w) - cos(pi y)| <= pi^2 (y^2 - w^2)/2 = pi^2 y^2/(2 cosh(b y/2)^2) <= pi^2 K/(2 b^2)

    with K = 1.7569 as in `square_by_tents`: the fold is soft where the cosine is flat, and the
    coldness grows as error^-1/2 only. A number that is off by d on its way counts pi d, once.

    All folds have the same largest logit L = b_j R_j, R_j their radius, which is least for a sum of
    losses: L = pi sqrt(K sum R_j^2 / (2 loss)). Folds end at MOST_HALF_WAVES, where a sum of
    sigmoids takes about as many heads as one fold more would cost and save.

    log2(half-waves) layers, of one head each but for the last; one register for all folds.
    """
    (argument,), (pair,) = site.forms, site.ranges
    if not (frequency and error > 0.0):
        raise RequestError(f"A wave needs a frequency and an error > 0, not {frequency}, {error}.")
    start = argument * (frequency / PI) + phase / PI
    ends = sorted(Fraction(end) * (frequency / PI) + phase / PI for end in pair)
    whole_waves = 2 * round((ends[0] + ends[1]) / 4)
    low, high = ends[0] - whole_waves, ends[1] - whole_waves
    sketch, folds = site.sketch, folds_of(low, high)
    register, losses = sketch.register(start + -whole_waves), Fraction(0)
    held, coldness = exact_form(0, register), _coldness(folds, _FOLDS_SHARE * error)
    for fold, cold in zip(folds, coldness, strict=True):
        y = (held + -fold.centre) * -fold.side
        sublayer = attention_from(sketch.ready(y))
        maker = sketch.gate(
            y, y, coldness=float(cold), node=site.node, gain=2 * float(PI), sublayer=sublayer
        )
        sketch.write(register, maker, 2 * fold.side)
        losses += fold_loss(cold)
        low, high = fold.ends
    lost = above_float(losses)
    room = (high - low) * _ROOM
    curve = Curve.of(
        Apply("cos", [PI * Variable("t")]), "t", below_float(low - room), above_float(high + room)
    )
    fit = sigmoids_for(curve, (error - lost) * (1.0 - 1e-9))
    base = curve_by_sigmoids(site, fit, held)
    total = float(inflate(base.error + lost + _TINY_ANGLES, 3))
    return Approximation(base.form, total, softening=lost)


def _coldness(folds: list[Fold], loss: float) -> list[Fraction]:
    """One for each fold, so that b R is the same for all and the losses are at most `loss`."""
    if not folds:
        return []
    squares = sum(float(fold.radius) ** 2 for fold in folds)
    logit = math.pi * math.sqrt(TENT_LOSS * squares / (2.0 * loss))
    return [short_above(logit / float(fold.radius)) for fold in folds]
