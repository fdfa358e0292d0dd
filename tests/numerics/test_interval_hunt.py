"""Unsound arithmetic is hunted: every interval operation against exact numbers or balls.

A case is one interval result, compared with exact values of the operation at the ends of its
arguments and at points between; `CASES` says how many there are. The arguments are hostile on
purpose: infinities, both zeros, subnormals, neighbours of powers of two and of multiples of pi,
points, tiny widths, and ratios up to 2^2098.
"""

from __future__ import annotations

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
from flint import arb

from hardmax import ShapeError, numerics
from hardmax.numerics import Interval

INF, TINY, LARGEST = math.inf, 5e-324, float(np.finfo(np.float64).max)
EXACTLY = 6000  # bits: sums and products of floats, and sums of products, are exact
FINE = 160  # bits: far finer than a float, coarse enough to be fast
FINER = 3000  # bits, where the ball was not fine enough
BEYOND = arb(2) ** 1030  # a real number beyond all floats, for infinite ends
SPECIAL = [0.0, -0.0, TINY, 2.0**-1022, 2.0**-1022 - TINY, 0.5, 1.0, 2.0, 3.0, 0.1, 1e16, 2.0**53]
SPECIAL += [math.pi / 2, math.pi, 709.78, 745.13, 1e100, 1e-200, 2.0**512, 2.0**-512, LARGEST, INF]
SPECIAL = np.array(SPECIAL + [-v for v in SPECIAL])

CASES = {
    "sum": 150_000,
    "difference": 100_000,
    "product": 150_000,
    "quotient": 120_000,
    "negation": 50_000,
    "maximum": 50_000,
    "minimum": 50_000,
    "max": 30_000,
    "min": 30_000,
    "point": 40_000,
    "matrix product": 60_000,
    "reciprocal": 50_000,
    "absolute": 50_000,
    "exp": 50_000,
    "log": 50_000,
    "sqrt": 50_000,
    "sin": 50_000,
    "cos": 50_000,
    "tan": 50_000,
    "tanh": 50_000,
    "sigmoid": 50_000,
    "power": 120_000,
    "softmax": 60_000,
}


def test_a_million_cases():
    assert sum(CASES.values()) >= 10**6


# ---- hostile arguments -------------------------------------------------------------------------


def hostile(rng: np.random.Generator, count: int) -> np.ndarray:
    """Floats of every kind but nan, each kind equally often."""
    signs = rng.choice([-1.0, 1.0], count)
    exponents = rng.integers(-1074, 1024, count)
    near = 1.0 + rng.integers(-3, 4, count) * 2.0**-52
    quarters = rng.integers(0, 2.0 ** rng.uniform(1, 41, count)) * (math.pi / 2)
    bits = rng.integers(0, 2**64, count, dtype=np.uint64).view(np.float64)
    with np.errstate(over="ignore", under="ignore"):
        scattered, rounded = np.ldexp([rng.normal(size=count), signs * near], exponents)
    kinds = [
        rng.choice(SPECIAL, count),
        rng.normal(size=count),
        rng.normal(size=count) * 30.0,
        scattered,
        rounded,
        signs * near,
        rng.integers(-40, 40, count) * TINY,
        signs * quarters,
        np.nextafter(signs * quarters, rng.choice([-INF, INF], count)),
        rng.integers(-20, 20, count) / 4.0,
        signs * (LARGEST - rng.integers(0, 9, count) * 2.0**971),
        np.where(np.isnan(bits), 0.0, bits),
    ]
    return np.choose(rng.integers(len(kinds), size=count), kinds)


def intervals(rng: np.random.Generator, count: int) -> Interval:
    """Points, neighbours, thin and wide intervals, symmetric ones, rays and the line.

    Each holds a real number: [inf, inf] is no set that an operation can return.
    """
    a, b = hostile(rng, count), hostile(rng, count)
    with np.errstate(over="ignore", invalid="ignore"):
        kinds = [
            a,
            np.nextafter(a, INF),
            a + np.abs(a) * 2.0 ** -rng.integers(1, 60, count),
            b,
            b,
            a + rng.exponential(size=count),
            -a,
            rng.choice([-INF, INF], count),
        ]
    other = np.choose(rng.integers(len(kinds), size=count), kinds)
    other = np.where(np.isnan(other), a, other)
    line = rng.random(count) < 0.01
    lo, hi = (
        np.clip(np.minimum(a, other), -INF, LARGEST),
        np.clip(np.maximum(a, other), -LARGEST, INF),
    )
    return Interval(np.where(line, -INF, lo), np.where(line, INF, hi))


def inside(rng: np.random.Generator, x: Interval) -> list[np.ndarray]:
    """Both ends, a hostile number and a random one between them."""
    lo, hi = np.clip(x.lo, -LARGEST, LARGEST), np.clip(x.hi, -LARGEST, LARGEST)
    share = rng.random(x.shape)
    between = np.clip(lo * (1 - share) + hi * share, x.lo, x.hi)
    return [x.lo, x.hi, np.clip(hostile(rng, len(x)), x.lo, x.hi), between]


def real(value: float) -> arb:
    """The float as an exact real number; for an infinite end one that is beyond all floats."""
    return arb(value) if abs(value) < INF else (BEYOND if value > 0 else -BEYOND)


def reals(values: np.ndarray) -> list[arb]:
    return [real(v) for v in values.tolist()]


# ---- the two comparisons -----------------------------------------------------------------------


def assert_holds(result: Interval, values: list[arb], *arguments: object) -> None:
    """Every exact value, or thin ball, lies in its interval; arguments are shown where not.

    A ball that reaches over an end is accepted where it is far thinner than the distance of two
    floats: tanh(1000) is a ball around 1.
    """
    ends = zip(result.lo.tolist(), result.hi.tolist(), values, strict=True)
    for index, (lo, hi, value) in enumerate(ends):
        if not (value >= lo and value <= hi) and (value < lo or value > hi or not thin(value)):
            shown = [a[index] for a in arguments]
            pytest.fail(f"{value.str(30)} is not in [{lo!r}, {hi!r}]: {shown}")


def thin(value: arb) -> bool:
    return value.is_exact() or value.rel_accuracy_bits() > 100


def assert_holds_values(result: Interval, function, points: np.ndarray, *arguments) -> None:
    """f(point) lies in its interval, f in balls; points where f is None are outside its domain."""
    ends = zip(result.lo.tolist(), result.hi.tolist(), reals(points), strict=True)
    for index, (lo, hi, point) in enumerate(ends):
        value = function(point)
        if value is None or (value >= lo and value <= hi):
            continue
        with flint.ctx.workprec(FINER):
            value = function(point)
        if not thin(value) or value < lo or value > hi:
            shown = [a[index] for a in arguments]
            pytest.fail(f"f({point}) = {value.str(30)} is not in [{lo!r}, {hi!r}]: {shown}")


CAMPAIGN = range(1, 11)  # seeds: ten times as many cases as in the suite


def cases(*names: str) -> pytest.MarkDecorator:
    """All cases of the operations: seed 0 in the suite, other seeds in the campaign."""
    suite = [pytest.param(name, 0, id=name) for name in names]
    long = [
        pytest.param(name, seed, id=f"{name}-{seed}", marks=pytest.mark.campaign)
        for name in names
        for seed in CAMPAIGN
    ]
    return pytest.mark.parametrize(("name", "seed"), suite + long)


# ---- arithmetic, exactly -----------------------------------------------------------------------

ARITHMETIC = {
    "sum": lambda a, b: a + b,
    "difference": lambda a, b: a - b,
    "product": lambda a, b: a * b,
    "maximum": lambda a, b: a.maximum(b) if isinstance(a, Interval) else a.max(b),
    "minimum": lambda a, b: a.minimum(b) if isinstance(a, Interval) else a.min(b),
}


@cases(*ARITHMETIC)
def test_arithmetic_encloses_the_corners(name, seed):
    """Each operation is monotone in each argument, so the corners are the extremes."""
    rng = np.random.default_rng([seed, len(name)])
    x, y = intervals(rng, CASES[name]), intervals(rng, CASES[name])
    result = ARITHMETIC[name](x, y)
    with flint.ctx.workprec(EXACTLY):
        first, second = (reals(x.lo), reals(x.hi)), (reals(y.lo), reals(y.hi))
        for a, b in ((a, b) for a in first for b in second):
            values = [ARITHMETIC[name](u, v) for u, v in zip(a, b, strict=True)]
            assert_holds(result, values, x.lo, x.hi, y.lo, y.hi)


@cases("quotient")
def test_quotients_enclose_the_corners(name, seed):
    """And where 0 lies inside the denominator nothing but the whole line will do."""
    rng = np.random.default_rng(seed)
    x, y = intervals(rng, CASES[name]), intervals(rng, CASES[name])
    result = x / y
    with flint.ctx.workprec(FINE):
        for a, b in ((a, b) for a in (x.lo, x.hi) for b in (y.lo, y.hi)):
            assert_holds_quotients(result, a, b)
    through = (y.lo < 0) & (y.hi > 0) & ((x.lo > 0) | (x.hi < 0))
    assert (result.lo[through] == -INF).all()
    assert (result.hi[through] == INF).all()


def assert_holds_quotients(result: Interval, a: np.ndarray, b: np.ndarray) -> None:
    """lo <= a/b <= hi, decided as lo b <= a <= hi b (b > 0), which balls of 106 bits do exactly."""
    ends = zip(result.lo.tolist(), result.hi.tolist(), reals(a), reals(b), strict=True)
    for lo, hi, u, v in ends:
        if v == 0:
            continue
        u, v = (u, v) if v > 0 else (-u, -v)
        assert lo == -INF or u >= v * lo, (lo, hi, u, v)
        assert hi == INF or u <= v * hi, (lo, hi, u, v)


@cases("reciprocal")
def test_reciprocals_enclose_the_ends(name, seed):
    x = intervals(np.random.default_rng(seed), CASES[name])
    for result in (x.reciprocal(), numerics.reciprocal(x), 1.0 / x):
        with flint.ctx.workprec(FINE):
            for end in (x.lo, x.hi):
                assert_holds_quotients(result, np.ones(len(x)), end)
    through = (x.lo < 0) & (x.hi > 0)
    assert (x.reciprocal().lo[through] == -INF).all()
    assert (x.reciprocal().hi[through] == INF).all()


@cases("negation", "absolute", "max", "min")
def test_what_rounds_nothing_is_exact(name, seed):
    rng = np.random.default_rng([seed, len(name)])
    x = intervals(rng, CASES[name])
    rows = Interval(x.lo[: len(x) // 5 * 5].reshape(5, -1), x.hi[: len(x) // 5 * 5].reshape(5, -1))
    crossing = (x.lo < 0) & (x.hi > 0)
    least = np.where(crossing, 0.0, np.minimum(np.abs(x.lo), np.abs(x.hi)))
    result, lo, hi = {
        "negation": (-x, -x.hi, -x.lo),
        "absolute": (numerics.absolute(x), least, np.maximum(np.abs(x.lo), np.abs(x.hi))),
        "max": (rows.max(), np.max(rows.lo, axis=0), np.max(rows.hi, axis=0)),
        "min": (rows.min(), np.min(rows.lo, axis=0), np.min(rows.hi, axis=0)),
    }[name]
    assert np.array_equal(result.lo, lo)
    assert np.array_equal(result.hi, hi)


@cases("point")
def test_points_enclose_what_they_are_given(name, seed):
    """Floats, integers and Fractions of every size; at most two neighbours apart."""
    rng = np.random.default_rng(seed)
    floats = [v for v in hostile(rng, CASES[name]).tolist() if abs(v) < INF]
    exactly = [int(v) + 1 if abs(v) > 2.0**53 else Fraction(v) / 3 for v in floats]
    for given in (floats, exactly):
        point = Interval.point(np.array(given, dtype=object))
        with flint.ctx.workprec(EXACTLY):
            for lo, hi, value in zip(point.lo.tolist(), point.hi.tolist(), given, strict=True):
                assert lo == -INF or Fraction(lo) <= value
                assert hi == INF or value <= Fraction(hi)
        with np.errstate(over="ignore"):
            assert (np.nextafter(point.lo, INF) >= point.hi).all()
    assert np.array_equal(Interval.point(floats).lo, floats)


# ---- matrix products ---------------------------------------------------------------------------


def matrices(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Dense rows, sparse ones, rows that copy or negate one entry, and rows of nothing."""
    dense = hostile(rng, rows * columns).reshape(rows, columns)
    dense = np.clip(dense, -LARGEST, LARGEST)
    sparse = np.where(rng.random((rows, columns)) < 0.3, dense, 0.0)
    copying = np.eye(columns)[rng.integers(columns, size=rows)] * rng.choice([-1.0, 1.0], (rows, 1))
    mild = rng.normal(size=(rows, columns))
    kind = rng.integers(5, size=(rows, 1))
    return np.choose(kind, [dense, sparse, copying, mild, np.zeros((rows, columns))])


@cases("matrix product")
@pytest.mark.parametrize("columns", [1, 2, 7])
def test_matrix_products_enclose_the_extremes(name, seed, columns):
    """The least value of w.x on a box takes lo where w > 0 and hi where w < 0."""
    rng = np.random.default_rng([seed, columns])
    rows, count = 20, CASES[name] // 3
    batch = count // rows // 20
    for _ in range(20):
        matrix = matrices(rng, rows, columns)
        flat = intervals(rng, columns * batch)
        x = flat.reshape(columns, batch)
        result = matrix @ x
        with flint.ctx.workprec(EXACTLY):
            assert_holds_product(result, matrix, x)


def assert_holds_product(result: Interval, matrix: np.ndarray, x: Interval) -> None:
    ends = [[reals(row) for row in end.T] for end in (x.lo, x.hi)]
    for i, row in enumerate(matrix.tolist()):
        weights = [(arb(w), w > 0) for w in row]
        for j, (low, high) in enumerate(zip(*ends, strict=True)):
            terms = list(zip(weights, low, high, strict=True))
            least = sum((w * (a if up else b) for (w, up), a, b in terms), arb(0))
            most = sum((w * (b if up else a) for (w, up), a, b in terms), arb(0))
            assert least >= result.lo[i, j], (row, x.lo[:, j], x.hi[:, j])
            assert most <= result.hi[i, j], (row, x.lo[:, j], x.hi[:, j])


@pytest.mark.parametrize("shape", [(3,), (3, 2), (2, 3, 2), (3, 3, 3), (4, 2, 3, 2)])
def test_batches_of_matrix_products_agree_with_single_ones(shape):
    """A row that copies is a row of the result, not a member of the batch.

    This was once wrong: with as many members as rows, a copying row left other rows unwidened.
    """
    rng = np.random.default_rng(0)
    matrix = np.array([[1.0, 0.0, 0.0], [0.1, 0.3, -0.7], [0.0, -1.0, 0.0]])
    lo = rng.normal(size=shape)
    result = matrix @ Interval(lo, lo)
    members = lo.reshape(-1, *shape[-2:]) if len(shape) > 1 else lo[None]
    for member, low, high in zip(
        members,
        result.lo.reshape(members.shape),
        result.hi.reshape(members.shape),
        strict=True,
    ):
        single = matrix @ Interval(member, member)
        assert np.array_equal(low, single.lo)
        assert np.array_equal(high, single.hi)
        assert single.contains(numerics.exact(matrix) @ numerics.exact(member)).all()


def test_a_matrix_that_floats_cannot_hold_is_refused():
    for matrix in ([[2**53 + 1]], [[Fraction(1, 3)]], [[10**400]]):
        with pytest.raises(ShapeError, match="entries that float64 holds"):
            np.array(matrix, dtype=object) @ Interval.point([1.0])
    assert (np.array([[2]]) @ Interval.point([1.0])).contains(2)


# ---- elementary functions, in balls ------------------------------------------------------------


def cut(exponent: arb, sign: int = 1) -> arb:
    """exp(exponent), or a number beyond all floats (or below) where balls would give up."""
    if exponent > 10**5:
        return sign * BEYOND
    return sign * (exponent.exp() if exponent > -(10**5) else 1 / BEYOND**2)


def sigmoid(v: arb) -> arb:
    e = cut(-abs(v))
    return 1 / (1 + e) if v >= 0 else e / (1 + e)


ELEMENTARY = {
    "exp": cut,
    "log": lambda v: v.log() if v > 0 else None,
    "sqrt": lambda v: v.sqrt() if v >= 0 else None,
    "sin": lambda v: v.sin(),
    "cos": lambda v: v.cos(),
    "tan": lambda v: v.tan(),
    "tanh": lambda v: v.tanh(),
    "sigmoid": sigmoid,
}


@cases(*ELEMENTARY)
def test_elementary_functions_enclose_balls(name, seed):
    rng = np.random.default_rng([seed, *name.encode()])
    x = intervals(rng, CASES[name])
    result = getattr(numerics, name)(x)
    with flint.ctx.workprec(FINE):
        for points in inside(rng, x):
            assert_holds_values(result, ELEMENTARY[name], points, x.lo, x.hi)


QUARTERS = {"sin": (0, 1, 0, -1), "cos": (1, 0, -1, 0), "tan": (0, None, 0, None)}


@pytest.mark.parametrize("name", QUARTERS)
def test_waves_enclose_crests_that_no_float_hits(name):
    """A multiple of a quarter turn between neighbouring floats; at the poles of tan, everything."""
    rng = np.random.default_rng(0)
    turns = rng.integers(0, 2.0 ** rng.uniform(0, 39, 40_000)) * rng.choice([-1, 1], 40_000)
    middle = turns * (math.pi / 2)
    lo = np.nextafter(middle, rng.choice([-INF, INF], len(turns)))
    hi = lo + np.spacing(np.abs(lo)) * rng.integers(1, 4, len(turns))
    result = getattr(numerics, name)(Interval(lo, hi))
    hits = 0
    with flint.ctx.workprec(FINE):
        for i, turn in enumerate(turns.tolist()):
            quarter = turn * arb.pi() / 2
            if not (quarter > lo[i] and quarter < hi[i]):
                continue
            hits += 1
            value = QUARTERS[name][turn % 4]
            low, high = (-INF, INF) if value is None else (value, value)
            assert result.lo[i] <= low <= high <= result.hi[i], (turn, lo[i], hi[i])
    assert hits > 10_000


EXPONENTS = [2, 3, 4, 7, 10, 101, -1, -2, -3, -8, 0, 1, 0.5, 1.5, -0.5, -2.5, 1e-3, 1e3, math.pi]
EXPONENTS += [Fraction(1, 3), Fraction(-2, 3), Fraction(7, 5), Fraction(1, 10**400), 2**53 - 1]
EXPONENTS += [2**53 + 1, 2**54 + 2, -(2**53) - 1, 2**62 + 1, 10**400, 10**400 + 1, 1e300, 5e-324]


def power_of(exponent: Fraction):
    whole, odd = exponent.denominator == 1, exponent.numerator % 2 == 1
    ratio = flint.fmpq(exponent.numerator, exponent.denominator)

    def power(v: arb) -> arb | None:
        if exponent == 0:
            return arb(1)
        if v == 0:
            return arb(0) if exponent > 0 else None
        if v < 0 and not whole:
            return None
        return cut(abs(v).log() * ratio, -1 if v < 0 and odd else 1)

    return power


@cases("power")
def test_powers_enclose_balls(name, seed):
    """Integers, odd and even, beyond what floats hold; fractions; near 1 for the huge ones."""
    rng = np.random.default_rng(seed)
    for number, exponent in enumerate(EXPONENTS):
        x = intervals(rng, CASES[name] // len(EXPONENTS) + 1)
        if abs(exponent) > 100:
            close = 1.0 + rng.normal(size=len(x)) * 300.0 / min(abs(exponent), 2**52)
            x = Interval(np.minimum(x.lo, close), close) if number % 2 else Interval(close, close)
        result = numerics.power(x, exponent)
        with flint.ctx.workprec(FINE):
            for points in inside(rng, x):
                assert_holds_values(
                    result, power_of(Fraction(exponent)), points, x.lo, x.hi, [exponent] * len(x)
                )


@pytest.mark.parametrize("exponent", [2**53 + 1, 2**62 + 1, 2**62 + 2, 10**400 + 1])
def test_powers_beyond_the_integers_of_floats(exponent):
    """Once rounded to the float beside it: an odd power lost its sign, an even one 60 ulp."""
    base = 1.0 + 2.0**-46
    for x in (base, -base, 1.0 - 2.0**-47, -1.0, 1.0, 0.0):
        result = numerics.power(Interval(np.array([x]), np.array([x])), exponent)
        with flint.ctx.workprec(FINE):
            assert_holds_values(result, power_of(Fraction(exponent)), np.array([x]), [exponent])


@cases("softmax")
@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0, 1e5, 1e9])
def test_softmax_ranges_enclose_balls(name, seed, scale):
    """The largest and the least weight of each logit box, in balls; far logits among them."""
    rng = np.random.default_rng([seed, int(scale)])
    with flint.ctx.workprec(FINE):
        for contenders in (1, 2, 5):
            rows = CASES[name] // 5 // 8
            low = rng.normal(size=(rows, contenders)) * scale
            width = rng.choice([0.0, 1e-12, 1.0, scale], size=low.shape)
            high = low + width * rng.random(low.shape)
            result = numerics.softmax_ranges(low, high)
            for own in range(contenders):
                most = [weight(lo, hi, own) for lo, hi in zip(low, high, strict=True)]
                least = [weight(hi, lo, own) for lo, hi in zip(low, high, strict=True)]
                assert_holds(result[:, own], most, low, high)
                assert_holds(result[:, own], least, low, high)


def weight(others: np.ndarray, own: np.ndarray, index: int) -> arb:
    """1/(1 + sum exp(l_i - l_j)): the winning order of summation keeps balls thin."""
    mine = arb(float(own[index]))
    rivals = [arb(float(v)) - mine for i, v in enumerate(others) if i != index]
    return 1 / (1 + sum((cut(r) for r in rivals), arb(0)))


def test_softmax_ranges_say_nothing_of_infinite_logits():
    low = np.array([[-INF, 0.0], [0.0, 1.0], [-INF, -INF]])
    high = np.array([[INF, 1.0], [0.0, INF], [INF, INF]])
    found = numerics.softmax_ranges(low, high)
    assert (found.lo == 0.0).all()
    assert (found.hi == 1.0).all()


# ---- what is trusted ---------------------------------------------------------------------------

REGIMES = {
    "exp": [(-746.0, -707.0), (-40.0, 40.0), (700.0, 709.7), (-1e-3, 1e-3)],
    "log": [(0.999, 1.001), (1e-3, 1e3), (TINY, 1e-300), (1e300, 1e308)],
    "sin": [(-7.0, 7.0), (-1e6, 1e6), (-(2.0**40), 2.0**40)],
    "cos": [(-7.0, 7.0), (-1e6, 1e6), (-(2.0**40), 2.0**40)],
    "tan": [(-7.0, 7.0), (-1e6, 1e6), (-(2.0**40), 2.0**40)],
    "tanh": [(-1e-3, 1e-3), (-20.0, 20.0)],
    "sqrt": [(0.0, 2.0), (1e-320, 1e-300), (1e300, 1e308)],
}
TRUSTED = 4  # ulp: what `_elementary` relies on, and half of what it widens by


def ulps_off(values: np.ndarray, balls: list[arb]) -> float:
    spacing = np.spacing(np.abs(values)).tolist()
    pairs = zip(values.tolist(), balls, spacing, strict=True)
    return max(float((abs(arb(v) - b) / s).upper()) for v, b, s in pairs)


@pytest.mark.parametrize("name", REGIMES)
def test_numpys_functions_are_within_the_trust(name):
    """At random points, and for the waves beside multiples of a quarter turn, vectors at once."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(a, b, 4000) for a, b in REGIMES[name]])
    if name in ("sin", "cos", "tan"):
        near = np.round(x / (math.pi / 2)) * (math.pi / 2)
        x = np.concatenate([x, near, np.nextafter(near, INF), np.nextafter(near, -INF)])
    with flint.ctx.workprec(FINE), np.errstate(under="ignore"):
        assert ulps_off(getattr(np, name)(x), [ELEMENTARY[name](v) for v in reals(x)]) <= TRUSTED


@pytest.mark.parametrize("exponent", [2.0, 3.0, 101.0, 0.5, 1 / 3, 1e-3, 1e3, 2.0**53, 1e15])
def test_numpys_power_is_within_the_trust(exponent):
    rng = np.random.default_rng(0)
    x = np.exp(rng.uniform(-700.0, 700.0, 5000) / max(exponent, 1.0))
    with flint.ctx.workprec(FINE), np.errstate(under="ignore"):
        balls = [power_of(Fraction(exponent))(v) for v in reals(x)]
        assert ulps_off(np.power(x, exponent), balls) <= TRUSTED


# ---- constants and rounding bounds -------------------------------------------------------------


@pytest.mark.parametrize("dtype", numerics.FORMATS)
def test_gamma_is_an_upper_bound_and_hardly_more(dtype):
    format = numerics.FORMATS[dtype]
    most = int(1 / format.unit)
    rng = np.random.default_rng(0)
    terms = sorted({1, 2, 3, most // 2, most - 2, most - 1, *rng.integers(1, most, 2000).tolist()})
    bounds = numerics.gamma(np.array(terms), format)
    for count, bound in zip(terms, bounds.tolist(), strict=True):
        exactly = Fraction(count, most - count)
        assert exactly <= Fraction(bound) <= exactly * (1 + Fraction(1, 2**48))
    assert numerics.gamma(most, format) == INF


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_sums_of_products_stray_no_further_than_said(dtype):
    """Any order: forward, backward and by pairs; underflow of every product included."""
    rng = np.random.default_rng(0)
    unit, name = float(np.finfo(dtype).eps) / 2, np.dtype(dtype).name
    format = numerics.FORMATS[name]
    assert unit == format.unit
    for _ in range(3000):
        count = int(rng.integers(1, 12))
        scale = float(rng.choice([1.0, np.sqrt(np.finfo(dtype).smallest_subnormal)]))
        a, b = ((rng.normal(size=count) * scale).astype(dtype) for _ in range(2))
        exactly = sum(Fraction(float(u)) * Fraction(float(v)) for u, v in zip(a, b, strict=True))
        size = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64) * (1 + 1e-12)
        bound = Fraction(float(numerics.stray(count, size + TINY, format)))
        for order in (np.arange(count), np.arange(count)[::-1]):
            total = dtype(0)
            for i in order:
                total = dtype(total + dtype(a[i] * b[i]))
            assert abs(Fraction(float(total)) - exactly) <= bound


def test_nothing_strays_from_nothing():
    assert numerics.stray(5, 0.0) == 0.0
    assert numerics.stray(5, 1.0) == pytest.approx(5 * 2.0**-53, rel=1e-12)


def test_inflation_covers_eight_roundings_downwards():
    """The worst case: eight products, each rounded down by nearly half an ulp."""
    rng = np.random.default_rng(0)
    worst = Fraction(0)
    for _ in range(20000):
        factors = rng.uniform(1.0, 2.0, 9)
        computed, exactly = 1.0, Fraction(1)
        for factor in factors.tolist():
            computed, exactly = computed * factor, exactly * Fraction(factor)
        assert exactly <= Fraction(numerics.inflate(computed))
        worst = max(worst, exactly / Fraction(computed) - 1)
    assert worst > Fraction(2, 2**53)  # the test has teeth: some products do lose


def test_lambert_w_against_balls():
    rng = np.random.default_rng(0)
    y = np.concatenate([np.exp(rng.uniform(-744, 709, 5000)), [TINY, 1e-308, math.e, LARGEST]])
    with flint.ctx.workprec(FINE):
        for value in y.tolist():
            w = arb(value).lambertw()
            assert abs(arb(numerics.lambert_w(value)) / w - 1) <= 4 * 2.0**-52


def test_softmax_gap_against_balls():
    """Rounded up, by at most 2e-14."""
    counts = [2, 3, 4, 5, 16, 17, 100, 12345, 10**6, 10**9, 2**53 + 1, 10**30, 10**300]
    with flint.ctx.workprec(FINE):
        for contenders in counts:
            exactly = (arb(contenders - 1) / arb(1).exp()).lambertw()
            bound = arb(numerics.softmax_gap(contenders))
            assert exactly <= bound
            assert bound <= exactly * (1 + 2e-14)


# ---- ends and members that are no floats -------------------------------------------------------


def test_ends_that_floats_cannot_hold_are_rounded_outward():
    """Integers beyond 2^53, Fractions and long doubles were once rounded to the nearest float."""
    odd, third = 2**53 + 1, Fraction(1, 3)
    for low, high in ((odd, odd), (third, third), (-third, third), (10**400, 10**400)):
        found = Interval(np.array([low], dtype=object), np.array([high], dtype=object))
        assert found.contains(np.array([low], dtype=object)).all()
        assert found.contains(np.array([high], dtype=object)).all()
    assert Interval(odd, odd).lo < Interval(odd, odd).hi
    assert Interval.point(-(10**400)).lo == -INF
    long = np.longdouble(1) / 3
    assert Interval.point(long).lo < long < Interval.point(long).hi or np.longdouble == np.float64


def test_integers_are_compared_exactly():
    assert not Interval.point(2.0**53).contains(2**53 + 1)
    assert not Interval.point(2.0**53).contains(np.array([2**53 + 1])).any()


def test_the_middle_lies_inside():
    """Half of the least subnormal is rounded to 0, which was once the middle of [5e-324] * 2."""
    assert Interval.point(TINY).middle == TINY
    x = intervals(np.random.default_rng(0), 50_000)
    line = (x.lo == -INF) & (x.hi == INF)
    assert x.contains(x.middle)[~line].all()
