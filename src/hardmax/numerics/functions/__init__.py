"""Functions of one variable: one record each, read by the compiler and by the checker."""

from __future__ import annotations

import difflib
from fractions import Fraction

from hardmax._errors import RequestError
from hardmax.numerics.functions import (
    _exponentials,
    _kinked,
    _powers,
    _sigmoidal,
    _smooth_units,
    _soft_root,
    _waves,
)
from hardmax.numerics.functions._conditions import NONZERO as NONZERO
from hardmax.numerics.functions._conditions import Condition as Condition
from hardmax.numerics.functions._kinked import larger_series as larger_series
from hardmax.numerics.functions._kinked import rectifier_curve as rectifier_curve
from hardmax.numerics.functions._powers import power_record as power_record
from hardmax.numerics.functions._record import Calculus as Calculus
from hardmax.numerics.functions._record import Derivatives as Derivatives
from hardmax.numerics.functions._record import Exact as Exact
from hardmax.numerics.functions._record import FunctionRecord as FunctionRecord

_FILES = (_kinked, _exponentials, _powers, _waves, _sigmoidal, _smooth_units, _soft_root)

FUNCTIONS: dict[str, FunctionRecord] = {
    record.name: record for file in _FILES for record in file.RECORDS
}
FUNCTION_NAMES = (*FUNCTIONS, "power")  # of all that a step may apply
FUNCTION_WORDS = tuple(name for name, record in FUNCTIONS.items() if record.is_word)


def record_of(name: str, exponent: float | Fraction = 1) -> FunctionRecord:
    """The record of a function by its name; only `power` looks at the exponent."""
    if name == "power":
        return power_record(Fraction(exponent))
    if name not in FUNCTIONS:
        near = difflib.get_close_matches(name, FUNCTION_NAMES, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(FUNCTION_NAMES)}."
        raise RequestError(f"There is no function {name!r}; {hint}")
    return FUNCTIONS[name]
