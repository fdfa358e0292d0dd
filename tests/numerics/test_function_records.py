"""Every field of every function's record on trial, before balls that know nothing of the records.

Compiler and checker read the same records, so a wrong constant would be believed by both. Here each
field meets a second definition of its function (`TAYLOR`), and each field is spoiled once, to see
that the trial notices.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb, arb_series

from hardmax import RequestError
from hardmax.numerics import FUNCTIONS, Interval, pair_ends, precision, record_of
from hardmax.numerics.functions._conditions import NONNEGATIVE, POSITIVE
from hardmax.numerics.functions._record import REQUIRED, Gated, Piece

BITS, ORDER = 200, 5
EXPONENTS = [Fraction(p) for p in (-3, -2, 0, 1, 2, 3, 4)]
EXPONENTS += [Fraction(1, 2), Fraction(3, 2), Fraction(5, 2), Fraction(-1, 3), Fraction(2, 3)]
RECORDS = FUNCTIONS | {f"power {p}": record_of("power", p) for p in EXPONENTS}


# ---------------------------------------------------------------- a second definition


def _by_exponent(u, p):
    """u**p through logarithms; whole powers of any base by products."""
    if p.denominator > 1:
        return (u.log() * arb(flint.fmpq(p.numerator, p.denominator))).exp()
    product = arb_series([1], u.prec)
    for _ in range(abs(int(p))):
        product = product * u
    return product if p >= 0 else arb_series([1], u.prec) / product


def _logarithm(u):
    """2 atanh((c - 1)/(c + 1)) at the beginning c, and the integral of u'/u from there."""
    start = 2 * ((u[0] - 1) / (u[0] + 1)).atanh()
    return arb_series([start], u.prec) + (u.derivative() / u).integral()


def _bell(u):
    return (-(u * u)).exp() * (2 / arb.pi().sqrt())


def _error(u):
    start = 1 - u[0].erfc()
    return arb_series([start], u.prec) + (_bell(u) * u.derivative()).integral()


def _exponential(u):
    """e^c by sinh and cosh, and the sum of (u - c)^k/k!."""
    start, rest = u[0].sinh() + u[0].cosh(), u - u[0]
    total, term = arb_series([0], u.prec), arb_series([1], u.prec)
    for k in range(1, ORDER + 2):
        total, term = total + term, term * rest / k
    return total * start


def _gate(u):
    return 1 - 1 / (1 + _exponential(u))


def _soft(u):
    return _logarithm(1 + _exponential(u))


def _side(u):
    return 1 if bool(u[0] > 0) else -1


def _tangent(u):
    return u.sin() / u.cos()


def _arc(u):
    """atan c as the argument of 1 + ic, and the integral of u'/(1 + u^2)."""
    start = 2 * (u[0] / (1 + (1 + u[0] ** 2).sqrt())).atan()
    return arb_series([start], u.prec) + (u.derivative() / (1 + u * u)).integral()


def _tilt(u):
    power = _exponential(2 * u)
    return (power - 1) / (power + 1)


TAYLOR = {
    "abs": lambda u: u * _side(u),
    "relu": lambda u: u * (_side(u) > 0),
    "exp": _exponential,
    "log": _logarithm,
    "expm1": lambda u: _exponential(u) - 1,
    "log1p": lambda u: _logarithm(1 + u),
    "sinh": lambda u: (_exponential(u) - 1 / _exponential(u)) / 2,
    "cosh": lambda u: (_exponential(u) + 1 / _exponential(u)) / 2,
    "reciprocal": lambda u: _by_exponent(u, Fraction(-1)),
    "sqrt": lambda u: _by_exponent(u, Fraction(1, 2)),
    "sin": lambda u: (u + arb.pi() / 2).cos() * -1,
    "cos": lambda u: (u + arb.pi() / 2).sin(),
    "tan": _tangent,
    "atan": _arc,
    "tanh": _tilt,
    "sigmoid": _gate,
    "erf": _error,
    "softplus": _soft,
    "gelu": lambda u: u * (1 + _error(u / arb(2).sqrt())) / 2,
    "silu": lambda u: u * _gate(u),
    "soft_root": lambda u: (_logarithm(_soft(u)) / 2).exp(),
    "soft_root_slope": lambda u: _gate(u) * (-_logarithm(_soft(u)) / 2).exp() / 2,
    "mish": lambda u: u * _tilt(_soft(u)),
    **{f"power {p}": lambda u, p=p: _by_exponent(u, p) for p in EXPONENTS},
}
TAYLOR["sin"] = lambda u: -(u + arb.pi() / 2).cos()


def taylor(case, x, order=ORDER):
    """The first coefficients at a number: f(x), f'(x), f''(x)/2, ..."""
    u = TAYLOR[case](arb_series([arb(x), 1], order))
    return [u[k] for k in range(order)]


def places(case, count=24):
    """Numbers all over the domain of a function, away from its poles and kinks."""
    rng = np.random.default_rng(len(case))
    x = np.concatenate([rng.uniform(-4.0, 4.0, count), [-2.5, -0.5, 0.25, 1.5]])
    condition = RECORDS[case].condition
    if condition is not None and condition.floor is not None:
        x = condition.floor + np.abs(x) + 0.05
    elif condition is not None:
        x = x[(np.abs(x) > 0.1) & (np.abs(np.cos(x)) > 0.1)]
    return x


def intervals_at(case, wide):
    """Intervals around these numbers that stay inside the domain."""
    x = places(case)
    wide = np.full(x.shape, wide)
    if RECORDS[case].condition is not None:
        wide = np.minimum(wide, 0.02)
    return Interval(x - wide, x + wide)


def inside(box):
    return [box.lo + share * (box.hi - box.lo) for share in (0.0, 0.2, 0.5, 0.9, 1.0)]


def holds(low, high, truth):
    return bool(arb(float(low)) <= truth) and bool(truth <= arb(float(high)))


# ---------------------------------------------------------------- the laws, one per field


def law_of_floats(case, record):
    """Within 1e-12 of the truth, relative to its size: a thousand ulp, none of the constants."""
    x = places(case)
    for number, found in zip(x, record.floats(x), strict=True):
        (truth,) = taylor(case, float(number), 1)
        assert abs(arb(float(found)) - truth) <= 1e-12 * abs(truth) + 1e-300


def law_of_intervals(case, record):
    """Enclosures hold all values between, and are no wider than these, up to a thousandth."""
    for wide in (0.0, 0.02, 0.7, 3.0):
        box = intervals_at(case, wide)
        found = record.intervals(box)
        some = [[taylor(case, float(x), 1)[0] for x in row] for row in inside(box)]
        for i in range(len(found)):
            truths = [row[i] for row in some if row[i].is_finite()]
            assert all(holds(found.lo[i], found.hi[i], truth) for truth in truths)
        fine = [record.floats(box.lo + s * (box.hi - box.lo)) for s in np.linspace(0, 1, 2001)]
        seen = np.max(fine, axis=0) - np.min(fine, axis=0)
        assert (found.hi - found.lo <= seen * 1.001 + 1e-11 * (1.0 + found.magnitude)).all()


def law_of_curve(case, record):
    """f, f' and f'' at points narrowly, on intervals all of them, and every difference quotient."""
    for wide in (0.0, 0.02, 0.3):
        box = intervals_at(case, wide)
        if record.has_kinks:  # across a kink there is no second derivative
            box = box[(box.lo > 0.0) | (box.hi < 0.0)]
        found = [pair_ends(pair) for pair in record.curve(box.lo, box.hi)]
        for row in inside(box):
            for i, x in enumerate(row):
                value, first, second = taylor(case, float(x), 3)
                for (low, high), truth in zip(found, (value, first, 2 * second), strict=True):
                    assert holds(low[i], high[i], truth)
                    narrow = high[i] - low[i] <= 1e-11 * (1.0 + abs(float(truth)))
                    assert wide > 0.0 or narrow
        if wide:
            _difference_quotients_hold(case, box, found[1])


def _difference_quotients_hold(case, box, slope):
    for i in range(len(box)):
        a, b = arb(float(box.lo[i])), arb(float(box.hi[i]))
        rise = taylor(case, float(box.hi[i]), 1)[0] - taylor(case, float(box.lo[i]), 1)[0]
        assert holds(slope[0][i], slope[1][i], rise / (b - a))


def law_of_balls(case, record):
    """Exact points give small balls around the truth; wide balls hold all of their points."""
    for x in places(case):
        (truth,) = taylor(case, float(x), 1)
        found = record.balls(arb(float(x)))
        assert found.overlaps(truth)
        assert found.rad() <= 1e-40 * (1 + abs(truth))
    box = intervals_at(case, 0.5)
    for i in range(len(box)):
        middle, radius = 0.5 * (box.lo[i] + box.hi[i]), 0.5 * (box.hi[i] - box.lo[i])
        found = record.balls(arb(float(middle), float(radius)))
        for share in (-0.9, 0.0, 0.9):
            assert found.overlaps(taylor(case, float(middle + share * radius), 1)[0])


def law_of_series(case, record):
    """Coefficients at points; over a ball each holds those of its points: Lagrange's remainder."""
    for x in places(case, 10):
        found = record.series(arb_series([arb(float(x)), 1], ORDER))
        for k, truth in enumerate(taylor(case, float(x))):
            assert found[k].overlaps(truth)
            assert found[k].rad() <= 1e-30 * (1 + abs(truth))
        near = arb(float(x), 0.01)
        over = record.series(arb_series([near, 1], ORDER))
        for share in (-0.01, 0.0, 0.01):
            truths = taylor(case, float(x + 0.99 * share))
            assert all(over[k].overlaps(truth) for k, truth in enumerate(truths))
            assert all(over[k].is_finite() for k in range(ORDER))


class BallCalculus:
    """The rules of the records in balls."""

    def number(self, value):
        return arb(flint.fmpq(value.numerator, value.denominator))

    def plus(self, first, second):
        return first + second

    def times(self, first, second):
        return first * second

    def reciprocal(self, below, by=1):
        return 1 / (self.number(by) * below)

    def power(self, base, exponent):
        return record_of("power", exponent).balls(base)

    def apply(self, name, argument):
        return record_of(name).balls(argument)


def law_of_slope(case, record):
    """The rule gives the first Taylor coefficient; where there is none, there are pieces."""
    if record.slope is None:
        assert record.pieces
        return
    for x in places(case):
        u, (value, first) = arb(float(x)), taylor(case, float(x), 2)
        found = record.slope(BallCalculus(), u, value)
        assert found.overlaps(first)
        assert found.rad() <= 1e-40 * (1 + abs(first))


def law_of_pieces(case, record):
    """The function is the maximum of its pieces, or has none."""
    for x in places(case) if record.pieces else ():
        lines = [piece.slope * arb(float(x)) + piece.offset for piece in record.pieces]
        assert max(lines, key=float) == taylor(case, float(x), 1)[0]


def law_of_gated(case, record):
    """Where a function is said to be one sigmoid, it is."""
    for x in places(case) if record.gated else ():
        gated, u = record.gated, arb(float(x))
        share = 1 / (1 + (-gated.steepness * u).exp())
        found = gated.offset + (gated.constant + gated.slope * u) * share
        assert abs(found - taylor(case, float(x), 1)[0]) <= 1e-40


def law_of_condition(case, record):
    """The condition holds wherever the function has values, and fails where it has none."""
    condition, x = record.condition, np.linspace(-4.0, 4.0, 801)
    with np.errstate(all="ignore"):
        is_defined = np.isfinite(record.floats(x))
    if condition is None:
        assert is_defined.all()
        assert np.isfinite(record.intervals(Interval(x[:-1], x[1:])).magnitude).all()
        return
    if condition.kind == "away from poles":  # which are no floats
        poles = Interval(np.array([1.5, -2.0]), np.array([1.6, -1.5]))
        assert condition.unproved(poles).all()
        assert not condition.violated(Interval(x, x)).any()
        return
    points = Interval(x, x)
    assert not condition.unproved(points)[is_defined].any()
    assert condition.violated(points)[~is_defined].all()
    assert condition.unproved(points)[~is_defined].all()
    assert not condition.violated(points)[is_defined].any()
    assert not is_defined.all()
    assert condition.of_ball(arb(3.0))
    edge = 0.0 if condition.floor is None else condition.floor
    assert not condition.of_ball(arb(edge, 0.5))
    if condition.floor is not None:
        assert x[is_defined].min() - condition.floor <= 0.011
        assert (x[is_defined] >= condition.floor).all()
    else:
        assert is_defined[x < -0.1].all()


RATIONALS = [Fraction(p, q) for p in range(-9, 10) for q in (1, 2, 3, 4)]


def _rational_truths(case, record):
    for x in RATIONALS:
        if x == 0 or (record.condition and not record.condition.of_ball(arb(float(x)))):
            continue
        (truth,) = [
            TAYLOR[case](arb_series([arb(flint.fmpq(x.numerator, x.denominator)), 1], 1))[0]
        ]
        yield x, truth


def law_of_fractions(case, record):
    """Exact values are the true ones, for single numbers and for arrays."""
    if record.fractions is None:
        return
    pairs = list(_rational_truths(case, record))
    array = record.fractions(np.array([x for x, _ in pairs], dtype=object))
    for (x, truth), element in zip(pairs, array, strict=True):
        found = record.fractions(x)
        assert found == element
        assert arb(flint.fmpq(found.numerator, found.denominator)).overlaps(truth)


def law_of_folds(case, record):
    """A number that replaces a value is that value: to 200 bits, or by what 0 must give."""
    for x, truth in _rational_truths(case, record):
        found = record.folds(x)
        if found is not None:
            assert arb(flint.fmpq(found.numerator, found.denominator)).overlaps(truth)
    at_zero = record.folds(Fraction(0)) if record.condition is None else None
    if at_zero is not None:
        assert record.floats(np.zeros(1))[0] == float(at_zero)
        assert Fraction(float(at_zero)) == at_zero


LAWS = {
    "floats": law_of_floats,
    "intervals": law_of_intervals,
    "curve": law_of_curve,
    "balls": law_of_balls,
    "series": law_of_series,
    "slope": law_of_slope,
    "pieces": law_of_pieces,
    "gated": law_of_gated,
    "condition": law_of_condition,
    "fractions": law_of_fractions,
    "folds": law_of_folds,
}
WORDS = {"name", "title", "meaning", "is_word", "elsewhere"}  # laws of the languages room


def test_every_field_has_its_law():
    fields = {field.name for field in dataclasses.fields(next(iter(FUNCTIONS.values())))}
    assert fields == {*LAWS, *WORDS}
    assert set(TAYLOR) == set(RECORDS)


@pytest.mark.parametrize("field", LAWS)
@pytest.mark.parametrize("case", RECORDS)
def test_records_stand_their_trial(case, field):
    with precision(BITS, ORDER), np.errstate(all="ignore"):
        LAWS[field](case, RECORDS[case])


# ---------------------------------------------------------------- and the trial notices


def _shifted_curve(record, order):
    def curve(low, high):
        pairs = list(record.curve(low, high))
        pairs[order] = pairs[order][0] + 1e-9, pairs[order][1]
        return tuple(pairs)

    return curve


def _rule_with(record, change):
    return lambda c, u, y: c.plus(record.slope(c, u, y), c.number(change))


def spoiled(record):
    """Each field with a wrong constant in it, in as many ways as it has parts."""
    tiny = Fraction(1, 10**20)
    yield "floats", lambda x: record.floats(x) * (1 + 1e-9) + 1e-9
    yield "intervals", lambda x: record.intervals(x) + 1e-9
    yield "intervals", lambda x: record.intervals(x) - 1e-9
    yield "intervals", lambda x: record.intervals(x).widened(0.01)
    yield "balls", lambda u: record.balls(u) + arb(1) / 10**20
    for order in range(3):
        yield "curve", _shifted_curve(record, order)
    for k in range(ORDER):
        term = arb_series([*[0] * k, arb(1) / 10**20], ORDER)
        yield "series", lambda u, term=term: record.series(u) + term
    for part in ("steepness", "constant", "slope", "offset"):
        gated = record.gated or Gated(1, 1)
        yield "gated", dataclasses.replace(gated, **{part: getattr(gated, part) + 1})
    yield "condition", POSITIVE if record.condition is None else None
    if record.condition is not None:
        yield "condition", POSITIVE if record.condition is not POSITIVE else NONNEGATIVE
    yield "fractions", lambda x: (record.fractions(x) if record.fractions else 0 * x) + tiny
    yield "folds", lambda x: (record.folds(x) or Fraction(0)) + tiny
    if record.slope is not None:
        yield "slope", _rule_with(record, tiny)
    else:
        yield "pieces", (record.pieces[0], Piece(0, 1))
        yield "pieces", (Piece(2, 0), record.pieces[1])


@pytest.mark.parametrize("case", RECORDS)
def test_a_wrong_constant_in_any_field_is_noticed(case):
    for field, wrong in spoiled(RECORDS[case]):
        record = dataclasses.replace(RECORDS[case], **{field: wrong})
        with (
            precision(BITS, ORDER),
            np.errstate(all="ignore"),
            pytest.raises((AssertionError, ZeroDivisionError)),
        ):
            LAWS[field](case, record)


@pytest.mark.parametrize("field", REQUIRED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_record_is_born_without_a_field(name, field):
    with pytest.raises(ValueError, match=f"record of {name} has no {field}"):
        dataclasses.replace(FUNCTIONS[name], **{field: None})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_record_has_a_slope_or_pieces_and_a_meaning(name):
    record = FUNCTIONS[name]
    wrong = {"slope": None} if record.slope else {"pieces": ()}
    with pytest.raises(ValueError, match="a slope, or the two pieces"):
        dataclasses.replace(record, **wrong)
    with pytest.raises(ValueError, match="a line of meaning"):
        dataclasses.replace(record, meaning="")


def test_unknown_functions_are_named_with_the_nearest_known_one():
    with pytest.raises(RequestError, match="no function 'gello'; did you mean gelu"):
        record_of("gello")
    with pytest.raises(RequestError, match="there are abs, relu"):
        record_of("wxyz")


# ---------------------------------------------------------------- ends and extremes


@pytest.mark.parametrize("name", FUNCTIONS)
def test_enclosures_have_no_nan_and_claim_nothing_of_what_is_unknown(name):
    record, inf = FUNCTIONS[name], np.inf
    box = Interval(np.array([-inf, 0.0, -inf, -1e300]), np.array([inf, inf, 0.0, 1e300]))
    with np.errstate(all="ignore"):
        found = record.intervals(box)
        assert not np.isnan(found.lo).any()
        _, (_, radius), _ = record.curve(np.full(2, np.nan), np.array([1.0, np.nan]))
        assert not (radius < 0.125).any()  # nan, infinite, or the range of all slopes


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "soft_root", "soft_root_slope"])
def test_tails_are_held_down_to_the_smallest_floats(name):
    """Where erfc and exp underflow, and where their arguments' rounding is magnified."""
    x = np.concatenate([-np.geomspace(1.0, 800.0, 300), -np.linspace(5.0, 40.0, 300)])
    found = FUNCTIONS[name].intervals(Interval(x, x))
    with precision(3000, 1):
        for i, number in enumerate(x):
            truth = taylor(name, float(number), 1)[0]
            assert holds(found.lo[i], found.hi[i], truth)
    assert (found.hi - found.lo <= 1e-11 * np.abs(found.lo) + 1e-318).all()
