"""Ball arithmetic and truncated power series with python-flint, imported only when asked for."""

from __future__ import annotations

import numbers
from functools import cache
from typing import TYPE_CHECKING

from hardmax._errors import MissingExtra, RequestError
from hardmax.languages.expressions._arithmetic import Arithmetic
from hardmax.languages.expressions._expression import exact_number
from hardmax.numerics import FunctionRecord, larger_series

if TYPE_CHECKING:
    from flint import arb, arb_series

    Balls = arb | arb_series


@cache
def balls() -> Arithmetic[Balls]:
    """Enclosures at flint's working precision.

    A kink of abs, relu, min or max inside a series of length two or more has no expansion, and is
    refused.
    """
    try:
        from flint import arb, arb_series, fmpq
    except ImportError:
        raise MissingExtra("python-flint", "balls") from None

    def ball(value: object) -> Balls:
        """A number as a ball around it; balls and series stay as they are."""
        if isinstance(value, arb | arb_series):
            return value
        if not isinstance(value, numbers.Real):
            raise RequestError(f"{value!r} is not a finite real number; give one, or a ball.")
        exactly = exact_number(value)
        return arb(fmpq(exactly.numerator, exactly.denominator))

    def larger(a: Balls, b: Balls) -> Balls:
        if isinstance(a, arb) and isinstance(b, arb):
            return a.max(b)
        return larger_series(arb_series(a), arb_series(b))

    def function(record: FunctionRecord, x: Balls) -> Balls:
        return record.balls(x) if isinstance(x, arb) else record.series(x)

    return Arithmetic(
        number=ball,
        given=ball,
        larger=larger,
        smaller=lambda a, b: -larger(-a, -b),
        function=function,
    )
