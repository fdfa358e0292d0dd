"""Names of before, while the rooms move to formats."""

from __future__ import annotations

from typing import Any

import numpy as np

from hardmax.numerics._formats import FORMATS
from hardmax.numerics._outward import format_of

UNIT_ROUNDOFF = {name: format.unit for name, format in FORMATS.items()}
LARGEST = {name: format.largest for name, format in FORMATS.items()}


def is_representable(values: Any, unit: float) -> np.ndarray:
    """Which float64 numbers have so few digits that a format of this unit roundoff holds them."""
    return format_of(unit).has_digits_for(values)
