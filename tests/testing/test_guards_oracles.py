"""Guards of the oracles: an oracle that looks in another format, or forgives, sees nothing."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.core import (
    Affine,
    Claim,
    Maximum,
    ReadOut,
    Share,
    Steps,
    Transformer,
    Univariate,
    evaluate,
)
from hardmax.numerics import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, Format, exact, gamma
from hardmax.testing import (
    RoundingCase,
    StepsTarget,
    _float_oracle,
    rounding_bound,
    rounding_part,
    surely_broken,
)
from hardmax.testing._float_oracle import _share, random_case
from hardmax.testing._search import first_break
from hardmax.testing.truth import largest_error_on_line

NARROW = (FLOAT32, FLOAT16, BFLOAT16)
U = Fraction(1, 2**53)


def rng(number: int) -> np.random.Generator:
    return np.random.default_rng([3, number])


# --- evaluations in a format ----------------------------------------------------------------------


@pytest.mark.parametrize("format", NARROW, ids=lambda f: f.name)
def test_cases_at_the_edge_are_at_the_edge_of_their_format(format: Format) -> None:
    """Offsets are logits around the one where exp vanishes, and values make up for it."""
    for draw in (random_case, lambda rng, format: (RoundingCase(rng, format).transformer, None)):
        drawn = [draw(rng(number), format)[0].input for number in range(6)]
        edges = [one for one in drawn if one.offsets.min() < -8.0]
        assert len(edges) == 4
        for one in edges:
            assert (np.abs(one.offsets[1:, 0] - format.exp_vanishes) <= 3.0).all()
            assert format.largest * 2.0**-12 <= np.abs(one.maps).max() <= format.largest


@pytest.mark.parametrize("format", NARROW, ids=lambda f: f.name)
def test_what_float64_rounds_is_allowed_for_and_no_more(format: Format) -> None:
    """True values of soft Transformers are floats there: twice the share of float64's unit."""
    share, compared = 2 * U / Fraction(format.unit), 0
    for number in (1, 4, 6, 7, 8):
        transformer, box = random_case(rng(number), format)
        found = RoundingCase(rng(number), format)
        allowed = 0 if transformer.is_hard else share
        own = float_bounds(transformer, box, (format.name,))[format.name]
        for given, bound in zip(found.bound.tolist(), own.tolist(), strict=True):
            assert abs(Fraction(given) / Fraction(bound) - 1 - allowed) <= 2 * U
        if not transformer.is_hard:
            assert found.real.dtype == np.float64
            assert (found.real == evaluate(transformer, found.points)).all()
            compared += 1
    assert compared >= 2


def test_in_float64_nothing_is_allowed_for() -> None:
    """There true values are exact, or from balls of 160 bits."""
    for number in (1, 4, 6):
        transformer, box = random_case(rng(number), FLOAT64)
        found = RoundingCase(rng(number), FLOAT64)
        assert (found.bound == float_bounds(transformer, box, ("float64",))["float64"]).all()
        assert found.real.dtype == object


def test_without_a_bound_there_is_no_share() -> None:
    found = RoundingCase(rng(1), FLOAT16)
    share = found.largest_share(rng(0))
    assert share is not None
    assert 0.0 < share <= 1.0
    for bound in (np.inf, np.nan):
        found.bound = np.full(len(found.bound), bound)
        assert found.largest_share(rng(0)) is None


def test_an_error_a_hair_beyond_its_bound_is_more_than_all_of_it() -> None:
    third = Fraction(1, 3)
    beyond = Fraction(2) ** -60
    assert _share(1.0, 1 - third * (1 + beyond), float(third)) > 1.0
    assert _share(1.0, 1 - Fraction(float(third)) * (1 + beyond), float(third)) > 1.0
    assert _share(1.0, 1 - Fraction(float(third)), float(third)) == 1.0
    assert _share(1.0, Fraction(1), 0.0) == 0.0
    assert _share(1.0, 1 - beyond, 0.0) == np.inf


def test_parts_of_a_campaign_evaluate_in_their_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound of 1e-9 is false in float16 and bfloat16, for nearly all, and true in float64."""
    honest = rounding_part(4, 8, 0, "float16")
    assert (honest["cases"], honest["false"], honest["unbounded"]) == (8, 0, 0)

    def lie(transformer: Transformer, box: object, names: tuple[str]) -> dict[str, np.ndarray]:
        return {names[0]: np.full(transformer.outputs, 1e-9)}

    monkeypatch.setattr(_float_oracle, "float_bounds", lie)
    for name in ("float16", "bfloat16"):
        found = rounding_part(4, 8, 0, name)
        assert found["false"] == found["tight"] == len(found["failures"]) >= 6
        assert all(why.endswith(f"times its bound in {name}") for _, why in found["failures"])
        assert {number for number, _ in found["failures"]} <= set(range(4, 12))
    assert rounding_part(4, 8, 0, "float64")["false"] == 0


# --- plain evaluations ----------------------------------------------------------------------------


def test_the_bound_of_two_affine_steps_is_what_the_docstring_says() -> None:
    """The second reads what the first got wrong: its roundings are of |v| + e, not of |v|."""
    first, second = Affine((0,), [[3.0, -2.0]], [0.5]), Affine((1,), [[-5.0]], [0.25])
    x = [0.5, 0.75]
    g3, g2 = Fraction(gamma(3)), Fraction(gamma(2))
    e = g3 * (Fraction(3, 2) + Fraction(3, 2) + Fraction(1, 2))
    v = Fraction(1, 2)
    assert rounding_bound(Steps(2, [first]), x).tolist() == [e]
    both = 5 * e + g2 * (5 * (v + e) + Fraction(1, 4))
    assert rounding_bound(Steps(2, [first, second]), x).tolist() == [both]
    between = Steps(2, [first, Univariate((1,), "relu", 1), Affine((2,), [[-5.0]], [0.25])])
    assert rounding_bound(between, x).tolist() == [both]


def test_a_maximum_passes_the_largest_error_of_its_group_on() -> None:
    wide = Affine((0,), [[1.0, 0.0], [0.0, 8.0]], [0.0, 0.0])
    x = exact([1.0, 0.5])
    small, large = Fraction(gamma(3)), Fraction(gamma(3)) * 4
    assert rounding_bound(Steps(2, [wide]), x).tolist() == [small, large]
    groups = np.array([[0, -1], [0, 1]])
    assert rounding_bound(Steps(2, [wide, Maximum((1,), groups)]), x).tolist() == [small, large]


# --- the search -----------------------------------------------------------------------------------


def identity() -> Transformer:
    return Transformer(hm.VectorInput([[[1.0]]], [[0.0]]), [], ReadOut([[1.0]], [0.0], 0))


def test_a_claim_is_broken_only_by_clearly_more() -> None:
    """x against 0: at x the error is x, and 1e-9 of the claim is forgiven."""
    zero = StepsTarget(Steps(1, [Affine((0,), [[0.0]], [0.0])]))
    claim = Claim(zero, hm.Box([0.0], [1.0]), [Share("approximation", "drawn", 0.5)])
    made = hm.Construction(identity(), claim, None, "drawn")
    for share, broken in ((1.0, False), (1 + 0.9e-9, False), (1 + 1.1e-9, True)):
        point = np.array([0.5 * share])
        assert surely_broken(made, point) is broken
        found = first_break(made, [(point, float(point[0]))])
        assert found == (tuple(point) if broken else None)
    assert first_break(made, [(np.array([0.75]), 0.25)]) is None  # floats see nothing there


def test_the_line_is_bracketed_as_closely_as_was_asked_and_no_closer() -> None:
    """The next halving would bring more than was asked for: it is left undone."""
    cases = [("power", 5.0, 0.0), ("sin", 1.0, 0.1)]
    for close, tighter in ((2.0**-24, {}), (2.0**-12, {"close": 2.0**-12})):
        gaps = []
        for name, exponent, start in cases:
            target = Steps(1, [Univariate((0,), name, 1, exponent)])
            box = hm.Box([start], [1.0])
            ends = largest_error_on_line(identity(), target, box, **tighter)
            assert ends is not None
            gaps.append(ends[1] / ends[0] - 1)
        assert max(gaps) <= close
        assert max(gaps) > close / 2
