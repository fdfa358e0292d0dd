"""Scores of a head in a float format: lower and upper ends, in all cases, biases included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.blocks._arithmetic import Balls, biased, check_sizes, products
from hardmax.numerics import Format, down, gamma, inflate, is_power_of_two, up


@dataclass(frozen=True, eq=False)
class Scores:
    """Lower and upper ends of scores: cases here x cases there, and the start token's.

    A case there is one of what is held, together with a class of pairs of places. Those of one kind
    have one key and one bias; their scores differ by twice `own` at most, whatever the case here
    holds exactly. Cases that are not `present` do not occur.
    """

    low: np.ndarray
    high: np.ndarray
    start_low: np.ndarray
    start_high: np.ndarray
    own: np.ndarray
    kinds: np.ndarray  # of each case there
    present: np.ndarray


def ends_of_scores(
    held: tuple[Balls, Balls, Balls],
    bias: tuple[np.ndarray, float],
    coldness: float,
    format: Format,
    present: np.ndarray | None = None,
) -> Scores:
    """Scores of queries with keys and with the start token's key.

    To the scores of keys each of several biases is added, to the start token's a single one. A
    coldness that is no power of two is rounded when it is multiplied.
    """
    query, key, start = held
    plain, apart = products(query, key, format)
    own = biased(plain, bias[0], format)
    first = biased(products(query, start, format)[0], np.array([bias[1]]), format)
    extra = 0.0
    if not is_power_of_two(coldness):
        extra = float(gamma(4, format)) * float(np.abs(own.middle).max(initial=1.0))
    check_sizes(format, inflate(coldness * (np.abs(own.middle) + own.radius + 1.0), 8))
    pads = [inflate(one.radius + extra, 4) if extra else one.radius for one in (own, first)]
    (low, high), (start_low, start_high) = (
        (_down(one.middle, pad), _up(one.middle, pad))
        for one, pad in zip((own, first), pads, strict=True)
    )
    rounded = np.where(bias[0] != 0.0, own.radius - plain.radius[..., None], 0.0)
    itself = inflate(apart[..., None] + np.maximum(rounded, 0.0) + extra, 8)
    return Scores(
        _flat(low),
        _flat(high),
        start_low[..., 0],
        start_high[..., 0],
        _flat(np.where(itself > 0.0, itself, 0.0)),
        _kinds(key.middle, bias[0]),
        _flat(np.ones(low.shape, dtype=bool) if present is None else present),
    )


def _down(middle: np.ndarray, pad: np.ndarray) -> np.ndarray:
    """The lower end; scores that are not rounded have none."""
    return np.where(pad > 0.0, down(middle - pad), middle)


def _up(middle: np.ndarray, pad: np.ndarray) -> np.ndarray:
    return np.where(pad > 0.0, up(middle + pad), middle)


def _flat(cases: np.ndarray) -> np.ndarray:
    """Cases there and classes of pairs as one axis."""
    return np.asarray(cases.reshape(len(cases), -1))


def _kinds(keys: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Which cases there have the same key and the same bias."""
    _, key = np.unique(keys, axis=0, return_inverse=True)
    _, number = np.unique(bias, return_inverse=True)
    both = (key.reshape(-1)[:, None] * len(bias) + number.reshape(-1)[None]).reshape(-1)
    return np.asarray(np.unique(both, return_inverse=True)[1].reshape(-1))
