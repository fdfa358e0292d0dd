"""Products and squares by warm heads: the softmax is used for what it natively is."""

from __future__ import annotations

from fractions import Fraction

from hardmax.lowering.approximants import identity_by_tanh, square_by_tanh
from hardmax.lowering.gadgets._site import Approximation, Site, centred
from hardmax.lowering.sketch import BoxForm, attention_from, exact_form
from hardmax.numerics import above_float


def product_by_gates(site: Site, error: float, heads: int) -> Approximation:
    """a b in one layer of 1, 2 or 3 heads.

    Write a = m + r x and b = n + s y with |x|, |y| <= 1. Then a b = r s x y + n a + m b - m n,
    where all but the first term is affine and free. A register is preloaded with -k s y; head i,
    whose value is minus that register and whose weight on itself is sigmoid(b_i x), adds
    share_i k s y sigmoid(b_i x). The shares add up to 2, so the register becomes

        k s y (sum_i share_i sigmoid(b_i x) - 1) = s y sum_i (share_i k/2) tanh(b_i x/2),

    and `identity_by_tanh` says how close the sum is to r x. Error r s times that; for one head
    r s b^2/48. One layer; width: one register for the gate, one for the product, one flag: b needs
    none of its own, because its only reader reads the register that was preloaded with it.
    """
    (a, b), (m, r), (n, s) = site.forms, centred(site.ranges[0]), centred(site.ranges[1])
    fit = identity_by_tanh(heads, _rounded_down(error / float(r * s)))
    x, y = (a + -m) * (1 / r), b + -n
    register = _scaled_in_place(site, x, y * r, fit.scale, fit.coldness, fit.shares)
    site.sketch.view(b, register * (-1 / (r * Fraction(fit.scale))) + n)
    return Approximation(
        register + a * n + b * m + -m * n, above_float(r * s * Fraction(fit.error))
    )


def square_by_gates(site: Site, error: float, heads: int) -> Approximation:
    """a^2 in one layer: as a product with itself, but the even remainder is spread by T_(2H+2).

    With a = m + r x: a^2 = r^2 x^2 + 2 m a - m^2, and x^2 = constant + x sum_i k_i tanh(b_i x/2)
    to within `square_by_tanh`; for one head r^2 b^2/96.
    """
    (form,), (m, r) = site.forms, centred(site.ranges[0])
    fit = square_by_tanh(heads, _rounded_down(error / float(r * r)))
    x, value = (form + -m) * (1 / r), (form + -m) * r
    register = _scaled_in_place(site, x, value, fit.scale, fit.coldness, fit.shares)
    result = register + form * (2 * m) + (r * r * Fraction(fit.constant) - m * m)
    return Approximation(result, above_float(r * r * Fraction(fit.error)))


def _scaled_in_place(
    site: Site,
    gate: BoxForm,
    value: BoxForm,
    scale: float,
    coldness: tuple[float, ...],
    shares: tuple[float, ...],
) -> BoxForm:
    register = site.sketch.register(value * -Fraction(scale))
    sublayer = attention_from(site.sketch.ready(gate, value))
    held = exact_form(0, register)
    for cold, share in zip(coldness, shares, strict=True):
        maker = site.sketch.gate(
            gate, -held, coldness=cold, node=site.node, gain=abs(share), sublayer=sublayer
        )
        site.sketch.write(register, maker, share)
    return held


def _rounded_down(error: float) -> float:
    """To two digits, so that equal requests find the fit in the cache."""
    digits = f"{error:.2e}"
    return float(digits) if float(digits) <= error else float(digits) * 0.989
