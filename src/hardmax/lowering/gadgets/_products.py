"""Products and squares: by warm heads, and by iterated tents.

A warm head uses the softmax for what it natively is. Tents are the literature's recipe, with its
constants. Either way factors are moved to the middle of their ranges first, where they are small.
"""

from __future__ import annotations

import math
from fractions import Fraction

from hardmax._errors import PrecisionError
from hardmax.lowering.approximants import identity_by_tanh, square_by_tanh
from hardmax.lowering.gadgets._site import Approximation, Site
from hardmax.lowering.sketch import (
    BoxForm,
    BoxRegister,
    Pair,
    attention_from,
    exact_form,
    feed_forward_from,
)
from hardmax.numerics import above_float, short_above

# max_y 4 y^2 / cosh(y)^2, at y tanh y = 1: what one soft tent loses, times coldness^2
TENT_LOSS = 1.75691536  # rounded up
CHAIN_LOSS = TENT_LOSS * (1 + 4 / 3)  # the absolute value, and all tents after it
_LEAST_SHARE = 0.002  # of the error: what is left for softening once the layers are chosen


def centred(pair: Pair) -> tuple[Fraction, Fraction]:
    """A middle and a radius of few bits with pair inside [middle - radius, middle + radius].

    Few bits, so that scaling by them seldom rounds; 0 and powers of two where that is all it takes.
    """
    low, high = Fraction(pair[0]), Fraction(pair[1])
    middle = _short((low + high) / 2)
    if abs(middle) * 2**10 <= high - low:
        middle = Fraction(0)
    radius = max(high - middle, middle - low)
    if radius == 0:
        return middle, Fraction(1)
    return middle, short_above(radius)


def _short(number: Fraction, bits: int = 12) -> Fraction:
    if number == 0:
        return number
    unit = Fraction(2) ** (math.frexp(float(abs(number)))[1] - bits)
    return round(number / unit) * unit


# ---- by warm heads -------------------------------------------------------------------------------


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


# ---- by iterated tents ---------------------------------------------------------------------------


def square_by_tents(site: Site, error: float, *, soft: bool) -> Approximation:
    """a^2 by a chain of L heads (soft) or hidden units, one a layer: error r^2 (4^-L + ...)/2.

    Let z = (a - m)/r, t_0 = |z|, t_(l+1) = 1 - 2 |t_l - 1/2|, and phi(t) = t - t^2. Softly, every
    |y| is y tanh(b y/2). With w = y tanh(b y/2), y = t - 1/2:

        phi(t) = 1/4 - y^2,   (t' + phi(t'))/4 = (1 - (1 - t')^2)/4 = 1/4 - w^2,

    so phi(t) = (t' + phi(t'))/4 - rho with 0 <= rho = y^2 - w^2 = y^2/cosh(b y/2)^2 <= K/b^2,
    K = max 4 u^2/cosh(u)^2 = 1.7569 (at u tanh u = 1). Summed over l,

        t_0^2 = t_0 - sum_{l=1}^n 4^-l t_l - 4^-n phi(t_n) + sum_{l<n} 4^-l rho_l,

    and 0 <= phi <= 1/4, while z^2 - t_0^2 = z^2/cosh(b z/2)^2 lies in [0, K/b^2] too. Altogether,
    with L = n + 1 layers, z^2 - acc lies in [-4^-L, (1 + 4/3) K/b^2] = [-4^-L, 4.0995/b^2], which
    is centred. So b grows as error^-1/2, not as error^-1: the tents' own errors do not add up.

    In the stream: one register holds 2^-l t_l and is updated in place, t_(l+1) = 2 t_l - 4 s_l with
    s_l = relu(t_l - 1/2); another collects the sum, head by head. Constant width at any depth.
    """
    (form,), (m, r) = site.forms, centred(site.ranges[0])
    scale = r * r
    layers, coldness, inner = _depth(_relative(error, scale), centred_bound=True, soft=soft)
    register = site.sketch.register()
    start = _chain(site, (form + -m) * (1 / r), layers, coldness, (register, scale))
    site.sketch.view(form, start * -r + m)
    low, high = 4.0**-layers, (CHAIN_LOSS / coldness**2 if coldness else 0.0)
    middle = (high - low) / 2
    result = exact_form(scale * Fraction(middle) - m * m, register) + form * (2 * m)
    return Approximation(result, above_float(scale * Fraction(inner)))


def product_by_tents(site: Site, error: float, *, soft: bool) -> Approximation:
    """a b = r s (((x + y)/2)^2 - ((x - y)/2)^2): two chains side by side, one register for the sum.

    Each square errs to the same side, so their difference errs by at most one of them:
    r s (4^-L + 4.0995/b^2) in L layers of two heads. Half the constant of the usual count, which
    adds the two errors.
    """
    (a, b), (m, r), (n, s) = site.forms, centred(site.ranges[0]), centred(site.ranges[1])
    layers, coldness, inner = _depth(_relative(error, r * s), centred_bound=False, soft=soft)
    x, y = (a + -m) * (1 / (2 * r)), (b + -n) * (1 / (2 * s))
    register = site.sketch.register()
    plus, minus = (
        _chain(site, x + y * sign, layers, coldness, (register, sign * r * s)) for sign in (1, -1)
    )
    site.sketch.view(a, (plus + minus) * -r + m)
    site.sketch.view(b, plus * -s + minus * s + n)
    form = exact_form(-m * n, register) + a * n + b * m
    return Approximation(form, above_float(r * s * Fraction(inner)))


def _relative(error: float, scale: Fraction) -> float:
    """The error as a share of the scale; of one below all floats every error is the whole."""
    return error / float(scale) if float(scale) > 0.0 else 1.0


def _depth(error: float, *, centred_bound: bool, soft: bool) -> tuple[int, float | None, float]:
    """(layers, coldness, error): the fewest layers, then the smallest coldness.

    A little is kept back for roundings, those of the request among them.
    """
    half = 2.0 if centred_bound else 1.0
    room = error * half * (1 - (_LEAST_SHARE if soft else 0.0))
    if not room > 0.0:
        raise PrecisionError("A chain of tents was asked for an error that is 0 in float64.")
    layers = max(math.ceil(-math.log(room, 4.0) - 1e-12), 1)
    if layers > 40:
        raise PrecisionError(f"A chain of tents for an error of {error:.3g} is beyond float64.")
    left = (1 - 4e-9) * error * half - 4.0**-layers
    if not soft:
        return layers, None, 4.0**-layers / half
    # Softening takes at most half of what the pieces leave, so that the claim is not far above
    # what happens: the two errors are never largest at one point.
    coldness = math.sqrt(CHAIN_LOSS / min(left, 0.5 * 4.0**-layers)) * (1 + 1e-9)
    return layers, coldness, (4.0**-layers + CHAIN_LOSS / coldness**2) / half * (1 + 1e-9)


def _chain(
    site: Site, z: BoxForm, layers: int, coldness: float | None, into: tuple[BoxRegister, Fraction]
) -> BoxForm:
    """Add weight * (the chain's approximation of z^2) to a register; without a coldness by units.

    Returns the chain's own register, which starts as -z.

    The gains bound what an error d of a head does to the chain's result. A soft tent has slope at
    most 2.4, so an error of t_l moves sum_k 4^-k t_(l+k) by at most sum (2.4/4)^k = 2.5 times
    itself; a head moves t_0 by 2 d, and t_(l+1) by 4 d with 4^-(l+1) in front.
    """
    sketch, n, (target, weight) = site.sketch, layers - 1, into
    register, last = sketch.register(-z), Fraction(1, 2**n)
    held = exact_form(0, register)
    sketch.follow(target, z * (-last * weight))
    sublayer = (feed_forward_from if coldness is None else attention_from)(sketch.ready(z))
    for level in range(-1, n):
        scale = Fraction(2) ** max(level, 0)
        if level < 0:
            form, gain = -held, 5.0
            share, change = 2 * last, Fraction(2)
        else:
            form, gain = held * scale + Fraction(-1, 2), 2.5 / scale**2
            share, change = 2 / scale * (1 / scale - last), -2 / scale
        effect = float(abs(weight) * Fraction(gain))
        if coldness is None:
            maker = sketch.unit(form, node=site.node, gain=effect, sublayer=sublayer)
        else:
            maker = sketch.gate(
                form, form, coldness=coldness, node=site.node, gain=effect, sublayer=sublayer
            )
        sketch.write(register, maker, change)
        sketch.write(target, maker, share * weight)
        sublayer += 2
    return held
