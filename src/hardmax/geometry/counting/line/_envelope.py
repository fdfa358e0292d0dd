"""The upper envelope of quadratics with whole coefficients on an interval, exactly.

An interval has QuadraticNumbers in [0, 1] at its ends. An envelope is a list of runs from left to
right: who is largest, and until where. Quadratics that are equal win together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hardmax.geometry.counting.line._quadratic import QuadraticNumber, between, roots

Form = tuple[int, int, int]  # a t^2 + b t + c
Run = tuple[Form, tuple[int, ...], QuadraticNumber]  # the largest, who they are, until where

_BITS = 52
_OFF = 32.0  # what a value of a form cut to 52 bits may be off by, see `_plain_sign`


class Ledger:
    """Counts the comparisons that floats could not settle: neither no root, nor one crossing."""

    def __init__(self) -> None:
        self.decided = 0


def signs(
    form: Form, left: QuadraticNumber, right: QuadraticNumber, ledger: Ledger
) -> list[tuple[int, QuadraticNumber]]:
    """The sign of a form on an open interval: 1, 0 or -1, and until where.

    Where floats cannot exclude a root, the roots inside are compared exactly, and the sign between
    two of them is that at a rational point. A root that is only touched separates equal signs.
    """
    if not any(form):
        return [(0, right)]
    plain, crossing = _plain_sign(form, left, right)
    if plain:
        return [(plain, right)]
    ledger.decided += not crossing
    edges = [left, *(one for one in roots(*form) if left < one < right), right]
    return [(_sign_at(form, low, high), high) for low, high in itertools.pairwise(edges)]


def _plain_sign(form: Form, left: QuadraticNumber, right: QuadraticNumber) -> tuple[int, bool]:
    """The sign of a form that floats see to have no root in the interval; 0 if they do not.

    Also, whether they see that it has opposite signs at the ends, so one root.

    On [l, h] a quadratic lies between the least and the largest of its values at l and h and of
    a l h + b (l + h)/2 + c (its Bernstein coefficients). Cut to 52 bits, each coefficient loses
    less than 1; ends outside [0, 1] by rounding add as little; each of the 8 operations rounds a
    number of at most 3 * 2^52 by at most 1. All in all that is under 32.
    """
    cut = max(max(one.bit_length() for one in form) - _BITS, 0)
    lift = min(max(one.bit_length() for one in form) - _BITS, 0)
    a, b, c = ((one >> cut) << -lift for one in form)
    low, high = left.floats[0], right.floats[1]
    values = (
        (a * low + b) * low + c,
        a * low * high + b * ((low + high) / 2) + c,
        (a * high + b) * high + c,
    )
    if min(values) > _OFF:
        return 1, False
    if max(values) < -_OFF:
        return -1, False
    ends = values[0], values[2]
    return 0, min(ends) < -_OFF and max(ends) > _OFF


def _sign_at(form: Form, low: QuadraticNumber, high: QuadraticNumber) -> int:
    """The sign between two neighbouring roots, at a rational point."""
    t = between(low, high)
    p, q = t.numerator, t.denominator
    value = (form[0] * p + form[1] * q) * p + form[2] * q * q
    return (value > 0) - (value < 0)


def upper_envelope(
    forms: Sequence[Form], left: QuadraticNumber, right: QuadraticNumber, ledger: Ledger
) -> list[Run]:
    """Who is largest where: the envelopes of two halves, merged."""
    return _envelope(forms, range(len(forms)), left, right, ledger)


def _envelope(
    forms: Sequence[Form],
    chosen: range,
    left: QuadraticNumber,
    right: QuadraticNumber,
    ledger: Ledger,
) -> list[Run]:
    if len(chosen) == 1:
        return [(forms[chosen[0]], (chosen[0],), right)]
    half = len(chosen) // 2
    first = _envelope(forms, chosen[:half], left, right, ledger)
    second = _envelope(forms, chosen[half:], left, right, ledger)
    return _merge_envelopes(first, second, left, ledger)


def _merge_envelopes(
    first: list[Run], second: list[Run], left: QuadraticNumber, ledger: Ledger
) -> list[Run]:
    """The larger of two envelopes: on the common refinement one form meets one form.

    Neighbours with the same winners are one run, so roots that are only touched leave no trace.
    """
    envelope: list[Run] = []
    i = j = 0
    while i < len(first) and j < len(second):
        (f, mine, here), (g, theirs, there) = first[i], second[j]
        until = min(here, there)
        difference = (f[0] - g[0], f[1] - g[1], f[2] - g[2])
        for sign, right in signs(difference, left, until, ledger):
            winners = mine if sign > 0 else theirs if sign < 0 else mine + theirs
            if envelope and envelope[-1][1] == winners:
                envelope.pop()
            envelope.append((f if sign >= 0 else g, winners, right))
        i += here == until
        j += there == until
        left = until
    return envelope
