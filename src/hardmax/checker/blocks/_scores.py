"""Scores of a head in a float format: lower and upper ends, in all cases, biases included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker.blocks._arithmetic import Balls, affine, biased, check_sizes, products
from hardmax.checker.blocks._reading import lost_in_frame
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


def factors(x: Balls, matrix: np.ndarray, coldness: float, format: Format) -> Balls:
    """Queries, or keys. The coldness may have been multiplied into their weights.

    There is room for that; and if it is no power of two, every weight is rounded by it: a product
    of two floats, one of them cast, so that terms are off by gamma_4 of their sizes, which may
    cancel in the score.
    """
    middle, spread, lost = affine(x, matrix, None, format)
    away = spread + lost
    sizes = inflate((np.abs(x.middle) + x.radius) @ np.abs(matrix).T, matrix.shape[1] + 8)
    check_sizes(format, inflate(coldness * sizes, 4))
    if not is_power_of_two(coldness):
        turned = lost_in_frame(matrix, np.zeros(len(matrix)), format)
        away = inflate(away + gamma(4, format) * sizes + turned, 8)
    return Balls(middle, away)


def ends_of_scores(
    held: tuple[Balls, Balls, Balls],
    bias: tuple[np.ndarray, float],
    coldness: float,
    format: Format,
    present: np.ndarray | None = None,
) -> Scores:
    """Scores of queries with keys and with the start token's key.

    To the scores of keys each of several biases is added, to the start token's a single one. A
    coldness may be multiplied into queries, keys and biases beforehand, or into scores afterwards:
    there is room for all of these, and one that is no power of two is rounded in each of them.
    """
    query, key, start = held
    plain, apart = products(query, key, format)
    own = biased(plain, bias[0], format)
    first = biased(products(query, start, format)[0], np.array([bias[1]]), format)
    size = max(_size(query, key, bias[0]), _size(query, start, np.array([bias[1]])))
    check_sizes(format, inflate(coldness * (size + own.radius.max() + first.radius.max()), 8))
    extra = 0.0 if is_power_of_two(coldness) else float(gamma(4, format)) * max(size, 1.0)
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


def _size(query: Balls, key: Balls, bias: np.ndarray) -> float:
    """Of a score: of its terms, which may cancel, and its bias."""
    sizes = (np.abs(query.middle) + query.radius) @ (np.abs(key.middle) + key.radius).T
    most = sizes.max(initial=0.0) + np.abs(bias).max(initial=0.0)
    return float(inflate(most, query.middle.shape[1] + 8))


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
