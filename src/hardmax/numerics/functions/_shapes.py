"""Enclosures from the shape of a function: monotone, or falling and then rising.

Values at floats are trusted to `ELEMENTARY_ULPS` for one elementary function of NumPy; whoever
needs more than one says how many ulp its formula strays.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, erfc

import numpy as np

from hardmax.numerics._elementary import ELEMENTARY_ULPS, down_by_ulps
from hardmax.numerics._elementary import monotone as monotone
from hardmax.numerics._interval import Interval

Floats = Callable[[np.ndarray], np.ndarray]
Ulps = Callable[[np.ndarray], np.ndarray]  # how far a value strays, by its argument


def valley(
    x: Interval,
    function: Floats,
    *,
    bottom_at: tuple[float, float],
    bottom: float,
    ulps: float | Ulps = ELEMENTARY_ULPS + 1.0,
) -> Interval:
    """A function that falls up to some point of `bottom_at`, where it is >= `bottom`, and rises.

    The largest value is at an end; the least is at an end, too, unless x meets `bottom_at`.
    """
    with np.errstate(all="ignore"):
        ends = np.stack([x.lo, x.hi])
        values = np.asarray(function(ends))
        stray = ulps(ends) if callable(ulps) else ulps
        lo = down_by_ulps(values, stray).min(axis=0)
        hi = -down_by_ulps(-values, stray).min(axis=0)
    meets = (x.lo <= bottom_at[1]) & (x.hi >= bottom_at[0])
    return Interval(np.where(meets, bottom, np.maximum(lo, bottom)), np.maximum(hi, bottom))


def number_near(value: float) -> Interval:
    """A real number, given the float nearest to it."""
    return Interval(np.nextafter(value, -np.inf), np.nextafter(value, np.inf))


# NumPy has no error function, and SciPy's erfc is off by hundreds of ulp in its tail; the C
# library's, which Python calls, is good to a few.
_erf, _erfc = np.frompyfunc(erf, 1, 1), np.frompyfunc(erfc, 1, 1)


def erf_of_floats(x: np.ndarray) -> np.ndarray:
    return np.asarray(_erf(x), dtype=np.float64)


def erfc_of_floats(x: np.ndarray) -> np.ndarray:
    return np.asarray(_erfc(x), dtype=np.float64)
