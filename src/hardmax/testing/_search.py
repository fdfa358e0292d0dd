"""A dense search for inputs that break a claim: independent of the checker, and of its lemmas.

Floats look for the worst input; balls of 200 bits then confirm it, so that what is returned is a
true counterexample over the reals, whatever floats make of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.core import (
    Attention,
    Box,
    Construction,
    FeedForward,
    GatedFeedForward,
    Holding,
    Maximum,
    Softmax,
    Steps,
    Target,
    Transformer,
    Univariate,
    VectorInput,
    reference,
    trace,
)
from hardmax.numerics import Interval, precision
from hardmax.testing.truth import BITS, Balls, Undecided, ball_of, outputs_on_vector

CLEARLY = 1e-9  # relative: a claim is broken only by more than this
_CHUNK = 4096
_WORK = 4e8  # multiplications in one pass over the sample, at most
_STARTS = 24  # points from which the search climbs
_ROUNDS = 24
_PLAIN_WORK = 2e6  # of the plain evaluator
_CONFIRMED = 8  # candidates that are evaluated in balls


def breaks(
    construction: Construction, *, points: int = 20_000, seed: int = 0
) -> tuple[float, ...] | None:
    """An input whose error is surely above the claimed one, or None if the search finds none.

    The sample holds corners and walls, near-ties, the neighbourhood of kinks, a low-discrepancy
    sequence and uniform points; from the worst ones it climbs by random steps that shrink. None
    proves nothing.
    """
    return first_break(construction, worst_points(construction, points=points, seed=seed))


def first_break(
    construction: Construction, candidates: list[tuple[np.ndarray, float]]
) -> tuple[float, ...] | None:
    """The first of the points, given with their errors, that surely breaks the claim."""
    for point, error in candidates:
        if error > construction.claim.error and surely_broken(construction, point):
            return tuple(point.tolist())
    return None


def worst_points(
    construction: Construction, *, points: int = 20_000, seed: int = 0
) -> list[tuple[np.ndarray, float]]:
    """The worst inputs that the search finds, and their errors in floats, the largest first."""
    rng = np.random.default_rng(seed)
    claim = construction.claim
    few = int(min(points, max(500, _WORK / _cost(construction.transformer))))
    sample = hard_points(claim.target, claim.domain, few, rng)
    errors = errors_at(construction, sample)
    sample, errors = _climb(construction, sample, errors, rng)
    return [(sample[i], float(errors[i])) for i in np.argsort(-errors)[:_CONFIRMED]]


def errors_at(construction: Construction, points: np.ndarray) -> np.ndarray:
    """The largest error of any output at each point, at the least; infinite where it is nan."""
    target = construction.claim.target
    errors = []
    for start in range(0, len(points), _CHUNK):
        x = points[start : start + _CHUNK]
        with np.errstate(all="ignore"):
            outputs = construction(x)
            true = target(Interval.point(x.T))
            off = np.maximum(true.lo.T - outputs, outputs - true.hi.T).max(axis=1)
        errors.append(np.where(np.isnan(outputs).any(axis=1), np.inf, np.maximum(off, 0.0)))
    return np.concatenate(errors)


def has_a_hole(construction: Construction, *, points: int = 2_000, seed: int = 0) -> bool:
    """Whether the target is undefined somewhere on the domain: nothing can be claimed of it."""
    claim = construction.claim
    sample = hard_points(claim.target, claim.domain, points, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        return bool(np.isnan(claim.target(sample)).any())


def surely_broken(construction: Construction, point: ArrayLike, *, by: float = CLEARLY) -> bool:
    """Whether the claim fails there over the reals: outputs in balls, the target enclosed.

    `by` is how far beyond the claimed error it has to be, relative to it.
    """
    point = np.asarray(point, dtype=np.float64)
    true = construction.claim.target(Interval.point(point))
    limit = construction.claim.error * (1 + by)
    outputs = true_outputs(construction.transformer, point)
    if outputs is None:  # a tie, which balls cannot see; without softmax rationals can
        if any(isinstance(h.weighting, Softmax) for h in construction.transformer.heads):
            return False
        exact = [Fraction(v) for v in point.tolist()]
        outputs = list(reference(construction.transformer, exact, Fraction))
    sides = zip(outputs, true.lo.tolist(), true.hi.tolist(), strict=True)
    return any(bool(y > hi + limit) or bool(y < lo - limit) for y, lo, hi in sides)


def belied(construction: Construction, *, points: int = 12, seed: int = 0) -> str | None:
    """What the witness says wrongly at some sampled input, or None if all of it holds there.

    A statement counts as wrong if it is off by clearly more than its error, or if it speaks of
    what does not exist.
    """
    program, box = construction.claim.target.steps(), construction.claim.domain
    if construction.witness is None or program is None:
        return None
    few = int(min(points, max(2, _PLAIN_WORK / _cost(construction.transformer))))
    for x in box.sample(4 * few, np.random.default_rng(seed))[::4]:
        streams, values = trace(construction.transformer, x).streams, program.values(x)
        for index, held in enumerate(construction.witness.holdings):
            if not _holds(held, streams, values):
                return f"holding {index} is false at {x.tolist()}"
    return None


def _holds(held: Holding, streams: list[list[list[Any]]], values: list[Any]) -> bool:
    if not (-1 <= held.sublayer < len(streams) - 1 and 0 <= held.value < len(values)):
        return False
    value = values[held.value]
    if held.components.size and held.components.max() >= len(value):
        return False
    try:
        read = held.read(np.array(streams[held.sublayer + 1][held.token]))
    except IndexError:
        return False
    true = np.where(held.components >= 0, value[held.components], -np.inf).max(axis=1)
    return bool((np.abs(read - true) <= held.errors + CLEARLY * (1 + np.abs(true))).all())


def _climb(
    construction: Construction, points: np.ndarray, errors: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Better points around the worst ones: steps of all sizes, in all or single coordinates."""
    box = construction.claim.domain
    best = np.argsort(-errors)[:_STARTS]
    points, errors = points[best], errors[best]
    width = box.high - box.low
    for round_ in range(_ROUNDS):
        size = 2.0 ** -rng.uniform(0.5 * round_, 0.5 * round_ + 14, (len(points), 8, 1))
        step = rng.normal(size=(len(points), 8, box.dimension)) * size * width
        step[:, ::2] *= rng.random((len(points), 4, box.dimension)) < 2 / (box.dimension + 1)
        trial = np.clip(points[:, None] + step, box.low, box.high)
        nearby = errors_at(construction, trial.reshape(-1, box.dimension)).reshape(len(points), 8)
        pick, rows = nearby.argmax(axis=1), np.arange(len(points))
        better = nearby[rows, pick] > errors
        points = np.where(better[:, None], trial[rows, pick], points)
        errors = np.where(better, nearby[rows, pick], errors)
    return points, errors


def _cost(transformer: Transformer) -> float:
    """Multiplications for one input, roughly."""
    tokens = transformer.tokens
    total = float(np.count_nonzero(transformer.readout.weights))
    if isinstance(transformer.input, VectorInput):
        total += np.count_nonzero(transformer.input.maps)
    for layer in transformer.sublayers:
        match layer:
            case FeedForward():
                total += tokens * np.count_nonzero(layer.inner) * 2
            case GatedFeedForward():
                total += tokens * np.count_nonzero([layer.inner, layer.gate]) * 2
            case Attention():
                for head in layer.heads:
                    held = sum(map(np.count_nonzero, (head.query, head.key, head.value)))
                    total += tokens * held + tokens**2 * (head.key_width + head.value_width)
    return max(total, 1.0)


# ---- where errors hide -------------------------------------------------------------------------


def hard_points(target: Target, box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """`count` points of the box: half of them spread evenly, the rest where errors hide."""
    few = max(count // 8, 1)
    parts = [
        _corners(box, few),
        box.sample(few, rng),
        _near_ties(box, few, rng),
        _beside_kinks(target, box, few, rng),
    ]
    special = np.concatenate(parts)[: count // 2 + 1]
    rest = _spread(box, count - len(special), rng)
    return np.clip(np.concatenate([special, rest]), box.low, box.high)


def _corners(box: Box, most: int) -> np.ndarray:
    if box.dimension > 60 or 2**box.dimension > most:
        return np.empty((0, box.dimension))
    return np.array(list(itertools.product(*zip(box.low, box.high, strict=True))))


def _spread(box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """A Kronecker sequence, multiples of irrational steps, shifted at random; it fills evenly."""
    root = 1.5
    for _ in range(60):  # the root of r^(d+1) = r + 1 makes the best known steps 1/r, 1/r^2, ...
        root = (1.0 + root) ** (1.0 / (box.dimension + 1))
    steps = root ** -np.arange(1.0, box.dimension + 1)
    share = (rng.random(box.dimension) + np.arange(count)[:, None] * steps) % 1.0
    return np.asarray(box.low * (1 - share) + box.high * share)


def _small(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """10^-12 to 1 with either sign, evenly over the decades, and 0 now and then."""
    size = 10.0 ** rng.uniform(-12.0, 0.0, size=shape)
    return np.asarray(size * rng.choice([-1.0, 0.0, 1.0], p=[0.4, 0.2, 0.4], size=shape))


def _near_ties(box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """Several coordinates nearly share a value; some of them lie near a wall."""
    points = rng.uniform(box.low, box.high, size=(count, box.dimension))
    level = points[np.arange(count), rng.integers(box.dimension, size=count)][:, None]
    width = box.high - box.low
    tied = level + _small(points.shape, rng) * width
    wall = np.where(rng.random(points.shape) < 0.5, box.low, box.high)
    beside = wall + _small(points.shape, rng) * width
    return np.choose(rng.integers(3, size=points.shape), [points, tied, beside])


def _beside_kinks(target: Target, box: Box, count: int, rng: np.random.Generator) -> np.ndarray:
    """Points of random segments at which two pieces of a kink differ by a chosen small amount."""
    a, b = rng.uniform(box.low, box.high, size=(2, count, box.dimension))
    gaps = _gaps(target, a)
    if not len(gaps):
        return np.empty((0, box.dimension))
    pick, rows = rng.integers(len(gaps), size=count), np.arange(count)
    level = _small((count,), rng) * np.abs(gaps).mean()
    start, end = (_gaps(target, x)[pick, rows] - level for x in (a, b))
    crossing, rising = start * end < 0, end > 0
    low, high = np.zeros(count), np.ones(count)
    for _ in range(44):
        middle = (low + high) / 2
        beyond = (_gaps(target, a + middle[:, None] * (b - a))[pick, rows] > level) == rising
        low, high = np.where(beyond, low, middle), np.where(beyond, middle, high)
    return np.asarray((a + low[:, None] * (b - a))[crossing])


def _gaps(target: Target, points: np.ndarray, most: int = 200) -> np.ndarray:
    """Differences of the pieces of maxima, abs and relu, kinks x points; of many kinks, some."""
    program = target.steps()
    if program is None:
        return np.empty((0, len(points)))
    found = list(_kinks(program, program.values(points.T)))
    gaps = np.concatenate([np.empty((0, len(points))), *found])
    return gaps[:: max(1, len(gaps) // most)]


def _kinks(program: Steps, values: list[np.ndarray]) -> Iterator[np.ndarray]:
    for step in program.steps:
        read = np.concatenate([values[source] for source in step.sources])
        match step:
            case Univariate(name="abs" | "relu"):
                yield read
            case Maximum(groups=groups):
                pairs = itertools.combinations(groups.T[:8], 2)
                yield from (read[one] - read[other] for one, other in pairs)


# ---- the meaning of a Transformer, in balls ----------------------------------------------------


def true_outputs(transformer: Transformer, point: np.ndarray) -> list[Any] | None:
    """The outputs at a float vector as balls of 200 bits; None where a tie cannot be decided.

    From the definition: see `hardmax.testing.truth`.
    """
    with precision(BITS):
        try:
            return outputs_on_vector(transformer, [ball_of(Fraction(v)) for v in point], Balls())
        except Undecided:
            return None
