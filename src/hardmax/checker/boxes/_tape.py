"""Forms over atoms, compiled to floats for a few search variables: what runs on thousands of boxes.

Every coefficient is the float nearest to the exact rational; the loss is part of the rounding of
the sum that it enters. A tape is plain data, so it can travel to other processes. Its jets on a
batch of boxes give bounds of |answer| there (`enclose`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.checker._budget import FAR, JET, JETS, NEAR, WIDE
from hardmax.checker.boxes._bank import Bank
from hardmax.checker.boxes._jets import Jet, Shape, compose, product
from hardmax.checker.boxes._large_mean import LargeMean
from hardmax.checker.boxes._softmean import hard_mean, maximum, soft_mean
from hardmax.numerics import (
    FEW,
    grown,
    pair_ends,
    pair_radius,
    pair_sum,
    record_of,
    rectifier_curve,
    sigmoid_curve,
)

CHUNK = 2048  # boxes at a time: the arrays stay in the cache
NEIGHBOURS = 256  # and so many where tokens are picked by the place of the boxes
_ALWAYS = 8  # jets' worth of bounds that every box is given


@dataclass(frozen=True, eq=False)
class Linear:
    """constant + coefficients @ (what the slots hold)."""

    slots: tuple[int, ...]
    coefficients: tuple[float, ...]
    constant: float

    def size(self) -> int:
        return len(self.slots)


@dataclass(frozen=True, eq=False)
class Step:
    """One atom: its kind and the forms it reads."""

    kind: str  # gate | mean | hard | relu | maximum | times | a named function
    reads: tuple[Linear, ...]
    exponent: float | Fraction = 1.0


Wide = LargeMean | Bank  # many atoms at once, of which each box looks at a few


@dataclass(frozen=True, eq=False)
class Tape:
    """Slots 0 .. variables - 1 hold the search variables, each step fills the next one."""

    variables: int
    steps: tuple[Step | Wide, ...]
    answer: Linear

    def on(self, low: np.ndarray, high: np.ndarray) -> tuple[Twin, np.ndarray]:
        """The answer on boxes, and how far they reach: see `run`."""
        return run(self, low, high)

    @property
    def looks_nearby(self) -> bool:
        """Whether some step looks only at what is near the boxes of a batch."""
        return any(isinstance(step, Wide) for step in self.steps)

    @property
    def cost(self) -> int:
        """Roughly, how many jets are combined for one box."""
        reads = sum(
            step.cost if isinstance(step, Wide) else sum(r.size() + 4 for r in step.reads)
            for step in self.steps
        )
        return reads + self.answer.size()

    def work(self, boxes: int, *, nearby: bool = True) -> int:
        """What the answer on so many boxes is charged for, in ticks.

        Each jet has a value, k slopes and k (k + 1)/2 curvatures, at the middle and over the box.
        Boxes that are not `nearby` each other see nearly all gates and tokens.
        """
        k = self.variables
        components = 2 + 2 * k + k * (k + 1) // 2
        wide = [step for step in self.steps if isinstance(step, Wide)]
        jets = _ALWAYS + self.cost - sum(step.cost for step in wide)
        batches = -(-boxes // (NEIGHBOURS if wide and nearby else CHUNK))
        seen = sum(step.members for step in wide) * (k + 1) * (1 if nearby else 8)
        each = jets * (batches * JETS + boxes * components * JET) + boxes * seen * FAR
        return each + len(wide) * (batches * WIDE + boxes * components * NEAR)


@dataclass(frozen=True, eq=False)
class Twin:
    """The same quantity at the middle of each box (value and slopes) and over the box (a jet)."""

    centre: Jet
    box: Jet


def run(tape: Tape, low: np.ndarray, high: np.ndarray) -> tuple[Twin, np.ndarray]:
    """The answer on the boxes [low, high] (variables x boxes), and how far each box reaches.

    The reach is measured from the float that was taken for the middle, outward.
    """
    middle = 0.5 * low + 0.5 * high
    reach = np.maximum(high - middle, middle - low) * FEW
    slots = [_variable(i, middle, reach) for i in range(tape.variables)]
    with np.errstate(all="ignore"):
        for step in tape.steps:
            slots.append(_advance(step, slots, reach))
        return evaluate(tape.answer, slots, reach), reach


def _variable(index: int, middle: np.ndarray, reach: np.ndarray) -> Twin:
    k, boxes = middle.shape
    jets = []
    for order, radius in ((1, np.zeros(boxes)), (2, reach[index])):
        shape = Shape(k, order)
        mid, rad = np.zeros((shape.components, boxes)), np.zeros((shape.components, boxes))
        mid[0], mid[1 + index], rad[0] = middle[index], 1.0, radius
        jets.append(Jet(mid, rad, shape))
    return Twin(*jets)


def evaluate(form: Linear, slots: list[Twin], reach: np.ndarray) -> Twin:
    """A form at the middle and over the box; over the box by its slopes where that is tighter."""
    centre = _combine(form, [slots[s].centre for s in form.slots], slots[0].centre)
    box = _combine(form, [slots[s].box for s in form.slots], slots[0].box)
    if all(s < len(reach) for s in form.slots):
        return Twin(centre, box)
    if not np.isfinite(box.slopes[1]).all():
        box = _beside_steep_terms(form, [slots[s] for s in form.slots], reach, box)
    return Twin(centre, tightened(centre, box, reach))


def _beside_steep_terms(form: Linear, terms: list[Twin], reach: np.ndarray, box: Jet) -> Jet:
    """The value over the box with terms of unbounded slope, as a root at 0 is, taken by themselves.

    One such term forbids to bound the whole sum by its slopes, and without them all that cancels
    among the others is lost. So the others are bounded by theirs, and the steep ones' ranges added.
    """
    lost = [np.asarray(~np.isfinite(term.box.slopes[1]).all(axis=0)) for term in terms]
    calm = [_only(term, ~steep) for term, steep in zip(terms, lost, strict=True)]
    steep = [_only(term, steep).box for term, steep in zip(terms, lost, strict=True)]
    centre = _combine(form, [term.centre for term in calm], terms[0].centre)
    smooth = tightened(centre, _combine(form, [term.box for term in calm], box), reach)
    rest = _combine(Linear(form.slots, form.coefficients, 0.0), steep, box)
    middle, radius = pair_sum(smooth.value, rest.value)
    narrower = radius < box.rad[0]
    mid, rad = box.mid.copy(), box.rad.copy()
    mid[0], rad[0] = np.where(narrower, middle, mid[0]), np.where(narrower, radius, rad[0])
    return Jet(mid, rad, box.shape)


def _only(term: Twin, chosen: np.ndarray) -> Twin:
    """A term on the chosen boxes, and 0 on the others."""
    jets = [
        Jet(np.where(chosen, jet.mid, 0.0), np.where(chosen, jet.rad, 0.0), jet.shape)
        for jet in (term.centre, term.box)
    ]
    return Twin(*jets)


def _combine(form: Linear, jets: list[Jet], like: Jet) -> Jet:
    """Sum of coefficient * jet: n terms and a constant pass through n + 2 roundings each."""
    mid, rad = np.zeros_like(like.mid), np.zeros_like(like.rad)
    size = np.zeros_like(like.rad)
    for c, jet in zip(form.coefficients, jets, strict=True):
        term = c * jet.mid
        mid += term
        size += np.abs(term)
        rad += abs(c) * jet.rad
    mid[0] += form.constant
    size[0] += abs(form.constant)
    return Jet(mid, pair_radius(rad, size, len(jets) + 2), like.shape)


def tightened(centre: Jet, box: Jet, reach: np.ndarray) -> Jet:
    """The value over the box from the value at the middle and the slopes, if that is narrower."""
    slopes, turns = box.slopes, box.curvatures
    first = ((np.abs(slopes[0]) + slopes[1]) * reach).sum(axis=0)
    own = centre.slopes
    second = ((np.abs(own[0]) + own[1]) * reach).sum(axis=0)
    i, j = box.shape.pairs
    share = np.where(i == j, 0.5, 1.0)[:, None] * reach[i] * reach[j]
    second = second + ((np.abs(turns[0]) + turns[1]) * share).sum(axis=0)
    # a size, its product with the reach of one variable or two, their sums, and three more sums
    radius = grown(np.fmin(first, second) + centre.rad[0], len(i) + len(reach) + 6)
    narrower = radius < box.rad[0]
    mid, rad = box.mid.copy(), box.rad.copy()
    mid[0] = np.where(narrower, centre.mid[0], mid[0])
    rad[0] = np.where(narrower, radius, rad[0])
    rad[0] = np.where(np.isnan(rad[0]), np.inf, rad[0])
    return Jet(mid, rad, box.shape)


@dataclass(frozen=True, eq=False)
class Enclosure:
    """For each box: |answer| is at most `most` on it, and at least `least` at `point`."""

    most: np.ndarray
    least: np.ndarray
    point: np.ndarray  # variables x boxes
    split: np.ndarray  # along which variable to halve the box

    def __getitem__(self, order: np.ndarray) -> Enclosure:
        return Enclosure(
            self.most[order], self.least[order], self.point[:, order], self.split[order]
        )


def enclose(tape: Tape, low: np.ndarray, high: np.ndarray) -> Enclosure:
    """All boxes (variables x boxes), in chunks; of neighbours, where tokens are picked by place."""
    if tape.looks_nearby and low.shape[1] > NEIGHBOURS:
        order = np.lexsort(low)
        seen = _in_chunks(tape, low[:, order], high[:, order], NEIGHBOURS)
        return seen[np.argsort(order)]
    return _in_chunks(tape, low, high, CHUNK)


def _in_chunks(tape: Tape, low: np.ndarray, high: np.ndarray, size: int) -> Enclosure:
    parts = []
    for start in range(0, low.shape[1], size):
        part = slice(start, start + size)
        parts.append(_chunk(tape, low[:, part], high[:, part]))
    return join_enclosures(parts)


def join_enclosures(parts: list[Enclosure]) -> Enclosure:
    """Several batches as one."""
    return Enclosure(
        np.concatenate([p.most for p in parts]),
        np.concatenate([p.least for p in parts]),
        np.concatenate([p.point for p in parts], axis=1),
        np.concatenate([p.split for p in parts]),
    )


def _chunk(tape: Tape, low: np.ndarray, high: np.ndarray) -> Enclosure:
    twin, reach = tape.on(low, high)
    with np.errstate(all="ignore"):
        most = upper_bound(twin, reach)
        centre = twin.centre
        least = np.maximum(np.abs(centre.mid[0]) * (2.0 - FEW) - centre.rad[0], 0.0)
        split = _widest(twin, reach)
    return Enclosure(
        np.where(np.isnan(most), np.inf, most),
        np.where(np.isfinite(least), least, 0.0),
        0.5 * low + 0.5 * high,
        split,
    )


def upper_bound(twin: Twin, reach: np.ndarray) -> np.ndarray:
    """The smallest of three bounds: the value's range, the slopes', the second-order form's.

    Second order, for the upper side: f(c) + sum_i sup_h (g_i h + H_ii h^2 / 2) + sum_{i<j}
    |H_ij| r_i r_j with |h| <= r_i. With G = max |g_i| and H the upper end of H_ii the supremum is
    G r + H r^2 / 2, unless the parabola turns before the edge, at G/(-H) < r: then G^2/(-2 H).
    The lower side is the same for -f.

    Where H < 0 the parabola has not turned, |H| r <= G, so that all terms together are at most the
    bound and twice the size |f(c)| + sum_i G_i r_i; each passes through a sum of an end, three
    products, and the sums.
    """
    centre, box = twin.centre, twin.box
    value = np.abs(box.mid[0]) + box.rad[0]
    slopes = box.slopes
    first = ((np.abs(slopes[0]) + slopes[1]) * reach).sum(axis=0)
    by_slope = np.abs(centre.mid[0]) + first
    steep = np.abs(centre.slopes[0]) + centre.slopes[1]
    turns = box.curvatures
    i, j = box.shape.pairs
    own = i == j
    off = ((np.abs(turns[0]) + turns[1])[~own] * (reach[i] * reach[j])[~own]).sum(axis=0)
    sides = []
    for sign in (1.0, -1.0):
        bend = sign * turns[0][own] + turns[1][own]
        sides.append(sign * centre.mid[0] + _parabola(steep, bend, reach).sum(axis=0) + off)
    second = np.maximum(*sides)
    size = np.abs(centre.mid[0]) + (steep * reach).sum(axis=0)
    size = np.where(np.isfinite(size), size, 0.0)  # no slope is known, so none was used
    bound = np.fmin(np.fmin(value, by_slope + centre.rad[0]), second + centre.rad[0])
    return np.asarray(pair_radius(bound, np.abs(bound) + 2.0 * size, len(i) + len(reach) + 8))


def _parabola(steep: np.ndarray, bend: np.ndarray, reach: np.ndarray) -> np.ndarray:
    """sup over |h| <= reach of steep |h| + bend h^2 / 2."""
    edge = steep * reach + 0.5 * bend * reach**2
    turning = bend * reach < -steep
    inside = 0.5 * steep**2 / np.where(turning, -bend, 1.0)
    return np.where(turning, inside, edge)


def _widest(twin: Twin, reach: np.ndarray) -> np.ndarray:
    """The variable whose slope is least certain, times how far the box reaches along it.

    Where some slope is not known at all the longest side is halved.
    """
    slopes = twin.box.slopes
    score = (slopes[1] + 1e-9 * np.abs(slopes[0])) * reach
    lost = ~np.isfinite(score).all(axis=0)
    score[:, lost] = reach[:, lost]
    return np.asarray(score.argmax(axis=0))


def _advance(step: Step | Wide, slots: list[Twin], reach: np.ndarray) -> Twin:
    if isinstance(step, Wide):
        centre, box = step.twin([(s.centre, s.box) for s in slots[: len(reach)]])
        return Twin(centre, tightened(centre, box, reach))
    reads = [evaluate(form, slots, reach) for form in step.reads]
    pairs = [[r.centre for r in reads], [r.box for r in reads]]
    if step.kind == "times" and step.reads[0] is step.reads[1]:
        pairs = [[jets[0], jets[0]] for jets in pairs]
    made = Twin(*(_atom(step, jets) for jets in pairs))
    return Twin(made.centre, tightened(made.centre, made.box, reach))


def _atom(step: Step, jets: list[Jet]) -> Jet:
    match step.kind:
        case "gate":
            return product(compose(sigmoid_curve(*pair_ends(jets[0].value)), jets[0]), jets[1])
        case "times":
            return product(jets[0], jets[1])
        case "relu":
            return compose(rectifier_curve(*pair_ends(jets[0].value)), jets[0])
        case "mean" | "hard":
            half = len(jets) // 2
            join = soft_mean if step.kind == "mean" else hard_mean
            return join(jets[:half], jets[half:])
        case "maximum":
            return maximum(jets)
    curve = record_of(step.kind, step.exponent).curve
    return compose(curve(*pair_ends(jets[0].value)), jets[0])
