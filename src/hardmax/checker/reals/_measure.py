"""A good lower bound of the largest error: sampled in floats, confirmed in balls."""

from __future__ import annotations

import numpy as np

from hardmax.checker._balls import Undefined, error_at_point
from hardmax.checker._budget import CALL, ENTRY, charge
from hardmax.checker._dependence import tokens_asking, tokens_read
from hardmax.core import Attention, Box, Construction, Transformer, evaluate

_POINTS = 4096
_AROUND = 64
_ROUNDS = 24


def worst_seen(construction: Construction, seed: int = 0) -> np.ndarray:
    """A point of the domain where the error is large, as far as floats can tell."""
    domain = construction.claim.domain
    rng = np.random.default_rng(seed)
    count = _POINTS if construction.transformer.tokens < 256 else _POINTS // 8
    points = domain.sample(count, rng)
    best, size = _best(construction, points)
    width = domain.high - domain.low
    radius = 0.05
    for _ in range(_ROUNDS):
        step = radius * width * rng.uniform(-1.0, 1.0, size=(_AROUND, domain.dimension))
        if domain.dimension > 4:
            step *= rng.random(step.shape) < 4.0 / domain.dimension
        point, there = _best(construction, np.clip(best + step, domain.low, domain.high))
        if there > size:
            best, size = point, there
        else:
            radius *= 0.6
    return best


def units(transformer: Transformer) -> int:
    """Heads and hidden units."""
    return sum(
        len(part.heads) if isinstance(part, Attention) else part.hidden_width
        for part in transformer.sublayers
    )


def work_of_rounding(transformer: Transformer) -> int:
    """Ticks for bounds on rounding, by the size of the model: they are found once, not in parts."""
    sublayers, tokens = transformer.sublayers, transformer.tokens
    asking = tokens_asking(sublayers, tokens_read(transformer, tokens), tokens)
    asked = sum(
        len(who) if isinstance(part, Attention) else 1
        for part, who in zip(sublayers, asking, strict=True)
    )
    everywhere = transformer.width * units(transformer) * transformer.tokens
    return CALL * (20_000 * asked + 75 * transformer.tokens) + 175 * ENTRY * everywhere


def _best(construction: Construction, points: np.ndarray) -> tuple[np.ndarray, float]:
    transformer = construction.transformer
    charge(50 * CALL, 1 + len(transformer.sublayers))
    numbers = transformer.tokens * (3 + transformer.width + units(transformer))
    charge(6 * ENTRY * len(points), numbers)
    with np.errstate(all="ignore"):
        off = np.abs(evaluate(construction.transformer, points) - construction.claim.target(points))
    off = np.where(np.isnan(off), np.inf, off).max(axis=1)
    at = int(off.argmax())
    return points[at], float(off[at])


def attained_error(construction: Construction, point: np.ndarray, domain: Box) -> float:
    """An error that is attained at the point, from below; 0 where none can be confirmed."""
    target = construction.claim.target
    point = np.clip(point, domain.low, domain.high)
    goal = target.steps() or np.asarray(target(point)).reshape(-1).tolist()
    try:
        return error_at_point(construction.transformer, goal, point.tolist())[0]
    except Undefined:
        return 0.0
