"""Ball arithmetic and truncated power series with python-flint, imported only when asked for."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache, reduce
from operator import add, mul, truediv
from typing import Any

from hardmax._errors import MissingExtra, SemanticsError
from hardmax.languages.expressions._arithmetic import Arithmetic
from hardmax.languages.expressions._expression import exact_number


@cache
def balls() -> Arithmetic:
    """Enclosures at flint's working precision.

    tanh and sigmoid are written with one occurrence of exp, 1 - 2/(exp(2x) + 1) and
    1/(1 + exp(-x)), so that a wide ball is not widened further. A kink of abs, relu, min or max
    inside a series of length two or more has no expansion, and is refused.
    """
    operations: dict[str, Callable[..., Any]] = {
        "add": lambda *u: reduce(add, u),
        "multiply": lambda *u: reduce(mul, u),
        "divide": truediv,
        "power": _power,
        "minimum": lambda *u: reduce(lambda a, b: -_larger(-a, -b), u),
        "maximum": lambda *u: reduce(_larger, u),
        "abs": lambda u: _larger(u, -u) if _is_series(u) else abs(u),
        "relu": lambda u: _larger(u, u * 0),
        "tanh": lambda u: 1 - 2 / ((2 * u).exp() + 1) if _is_series(u) else u.tanh(),
        "sigmoid": lambda u: 1 / (1 + (-u).exp()),
    }
    for name in ("exp", "log", "sqrt", "sin", "cos", "tan"):
        operations[name] = lambda u, name=name: getattr(u, name)()
    return Arithmetic(_ball, _ball, operations)


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise MissingExtra("python-flint", "balls") from None
    return flint


def _is_series(u: Any) -> bool:
    return isinstance(u, _flint().arb_series)


def _ball(value: Any) -> Any:
    """A number as a ball around it; balls and series stay as they are."""
    flint = _flint()
    if isinstance(value, flint.arb | flint.arb_series):
        return value
    exactly = exact_number(value)
    return flint.arb(flint.fmpq(exactly.numerator, exactly.denominator))


def _larger(a: Any, b: Any) -> Any:
    if not (_is_series(a) or _is_series(b)):
        return a.max(b)
    a, b = (_flint().arb_series(u) if not _is_series(u) else u for u in (a, b))
    if min(a.prec, b.prec) <= 1:
        return _flint().arb_series([a[0].max(b[0])], 1)
    if a[0] >= b[0] and not a[0].overlaps(b[0]):
        return a
    if b[0] >= a[0] and not a[0].overlaps(b[0]):
        return b
    raise SemanticsError("A kink lies inside the ball, so it has no series there; split the ball.")


def _power(u: Any, n: Fraction) -> Any:
    flint = _flint()
    if n.denominator != 1:
        exponent = flint.fmpq(n.numerator, n.denominator)
        return u**exponent if _is_series(u) or u > 0 else _root_power(u, n)
    if _is_series(u) or u.is_exact() or not u.contains(0):
        return u ** int(n)
    if n < 0:
        return 1 / _power(u, -n)
    base = abs(u) if n % 2 == 0 else u
    ends = base.abs_lower() if n % 2 == 0 else base.lower(), base.upper()
    return (ends[0] ** int(n)).union(ends[1] ** int(n))


def _root_power(u: Any, n: Fraction) -> Any:
    """A fractional power of a ball that touches 0: monotone, from 0 to its upper end."""
    flint = _flint()
    if n < 0 or not u.upper() >= 0 or (u < 0):
        return flint.arb.nan()
    top = u.upper() ** flint.fmpq(n.numerator, n.denominator)
    return flint.arb(0) if u.is_zero() else top.union(flint.arb(0))
