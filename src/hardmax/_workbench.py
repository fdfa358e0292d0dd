"""The story in the order it happens: compile, measure, save, load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._errors import FileError, RequestError
from hardmax.core import Box, Construction, Target
from hardmax.interop import read_safetensors, write_safetensors
from hardmax.languages import decode_target
from hardmax.lowering import lower
from hardmax.passes import soften

_CHUNK = 4096


def compile(
    source: Target, *, on: Any, error: float | None = 1e-3, route: str | None = None
) -> Construction:
    """A Transformer that computes `source` on the domain `on` to within `error`.

    `on` is a `Box`, a pair (low, high) for all coordinates, or a text such as "[-1,1]^8". The
    result is a softmax Transformer evaluated in float64; `error=None` keeps the hard skeleton,
    which is exact over the rationals. Routes: "attention" (the default), "attention-only", and
    "feedforward" for ReLU networks.
    """
    if not isinstance(source, Target):
        raise RequestError(
            f"A {type(source).__name__} cannot be compiled; give a ReluNetwork, MaxoutNetwork, "
            f"PiecewiseLinear or MaxAffine."
        )
    hard = lower(source, Box.of(on, source.inputs), route)
    return soften(hard, error=error)


@dataclass(frozen=True)
class Measurement:
    """The largest error seen among sampled points: a lower bound of the true one."""

    error: float
    at: tuple[float, ...]
    points: int

    def __str__(self) -> str:
        return f"{self.error:.6g} measured on {self.points:,} points"


def measure(
    construction: Construction,
    points: int = 100_000,
    *,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> Measurement:
    """Sample the domain, corners and faces included, and report the largest error seen.

    `progress` is called with the number of points done since the last call.
    """
    if points < 1:
        raise RequestError(f"At least one point must be measured, not {points}.")
    rng = np.random.default_rng(seed)
    claim = construction.claim
    worst, where = -1.0, np.zeros(claim.domain.dimension)
    for start in range(0, points, _CHUNK):
        sample = claim.domain.sample(min(_CHUNK, points - start), rng)
        errors = np.abs(construction(sample) - claim.target(sample)).max(axis=1)
        errors = np.where(np.isnan(errors), np.inf, errors)
        if errors.max() > worst:
            worst, where = float(errors.max()), sample[errors.argmax()]
        if progress is not None:
            progress(len(sample))
    return Measurement(worst, tuple(float(v) for v in where), points)


def save(construction: Construction, path: str | Path) -> None:
    """Write one safetensors file that holds weights, structure, target, claim and witness."""
    write_safetensors(construction, path)


def load(path: str | Path) -> Construction:
    """Read back what `save` wrote; a truncated, foreign or altered file is refused."""
    stored = read_safetensors(path)
    if stored.encoded_target is None:
        raise FileError(f"{path} has an opaque target: the function itself cannot be stored.")
    return stored.join(decode_target(stored.encoded_target))
