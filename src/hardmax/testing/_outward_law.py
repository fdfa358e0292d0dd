"""The law of outward formulas: what floats compute lies above what rationals compute.

A bound that is written with the operations of `numerics` can be run twice: on float64, where each
operation steps outward, and on Fractions, where none does. The first must not lie below the
second. Where an outward step is forgotten, the two differ by rounding alone, which has no side:
about half of all random arguments show it.

The other law is for formulas that no Fraction goes through, because intervals, exponentials or
whole searches are in them: in an arithmetic whose steps are coarse, each of them is a visible part
of the result, which is then compared with the number written down.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hardmax.numerics import FLOAT64, Format, _outward, exact, softmax_gap

COARSE = 20  # digits


def exactly(argument: object) -> Any:
    """The same argument with every float64 as a Fraction; whole numbers and others stay."""
    if isinstance(argument, float):
        return Fraction(argument)
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        return exact(argument)
    return argument


def falls_below(function: Callable[..., Any], arguments: Iterable[object]) -> int:
    """How many results in floats lie below the same formula over the rationals: 0, if outward."""
    arguments = list(arguments)
    floats = np.asarray(function(*arguments), dtype=object).ravel()
    rationals = np.asarray(function(*map(exactly, arguments)), dtype=object).ravel()
    pairs = zip(floats, rationals, strict=True)
    return sum(not (a == np.inf or Fraction(a) >= b) for a, b in pairs)


def full_floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Nonnegative floats with all 53 digits, of sizes from 2^-20 to 2^20."""
    return np.ldexp(rng.uniform(0.5, 1.0, shape), rng.integers(-20, 21, shape))


@contextmanager
def coarse_steps(digits: int = COARSE) -> Iterator[None]:
    """Outward operations step as if float64 had so few digits; what they are done to is float64.

    So bounds grow by about 2^-digits for each operation that was counted, once for each.
    """
    fine, step = FLOAT64.unit, _outward.STEP
    kept = vars(FLOAT64)
    kept["unit"], _outward.STEP = 2.0**-digits, 2.0 * 2.0**-digits
    softmax_gap.cache_clear()  # made with steps of its own
    try:
        yield
    finally:
        kept["unit"], _outward.STEP = fine, step
        softmax_gap.cache_clear()


@contextmanager
def sizes_looked_at() -> Iterator[list[tuple[str, float]]]:
    """Every look at whether a format holds numbers of some size: its name, and their sum.

    A look in another format, or at less than what is written, goes unnoticed until a number
    overflows; here it is seen at once.
    """
    seen: list[tuple[str, float]] = []
    fits = Format.fits

    def note_size(self: Format, size: ArrayLike) -> bool:
        seen.append((self.name, float(np.sum(size))))
        return fits(self, size)

    Format.fits = note_size  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        Format.fits = fits  # type: ignore[method-assign]
