"""The numbers that functions must reach: heads, layers, coldness and pieces, exactly.

Points are hard ones (corners, walls, near-ties, kinks); times are measured by the benchmark only.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks._functions_cases import (
    COMPOSITES,
    FLOAT32_PRODUCT,
    MAXIMUM,
    PRIMITIVES,
    PRODUCTS,
    RECIPROCALS,
    WIDEST,
    Case,
)
from benchmarks._functions_heads import (
    extremal_maximum_error,
    heads_by_layer,
    proved_coldness,
)
from benchmarks._functions_honesty import ROUTES, SLACK
from benchmarks._functions_pieces import BENDS, greedy_pieces, most_allowed, our_pieces
from benchmarks._functions_points import hard_points
from benchmarks._functions_run import Run, as_run, run_offer
from benchmarks._report import Check, Report

import hardmax as hm
from benchmarks import functions
from hardmax import compile
from hardmax.core import Box
from hardmax.languages import Function
from hardmax.numerics import softmax_gap

POINTS = 10_000


def named(cases):
    return [pytest.param(case, id=case.name) for case in cases]


def size(construction):
    return construction.bill.layers, construction.bill.heads


# ---------------------------------------------------------------- products and reciprocals


@pytest.mark.parametrize(
    ("case", "route", "most"),
    [pytest.param(case, *limit, id=case.name) for case, limit in (PRODUCTS | RECIPROCALS).items()],
)
def test_products_and_reciprocals_take_one_layer_of_few_heads(case, route, most):
    run = run_offer(case, case.plan.offer(route), POINTS)
    assert run.counted["layers"] == 1
    assert run.counted["heads"] <= most
    assert run.measured <= run.claimed <= case.error
    assert run.bill_agrees


def test_fewer_heads_do_not_reach_what_two_do():
    """2e-12 is below the rounding of one head, which divides by its own small coldness."""
    case = Case("x*y", ((-1.0, 1.0), (-1.0, 1.0)), 2e-12)
    with pytest.raises(hm.PrecisionError, match="rounding takes more"):
        case.plan.offer("direct").build()


def test_a_product_in_float32_takes_two_heads():
    offer = FLOAT32_PRODUCT.plan.choose("float32")
    construction = offer.build()
    assert size(construction) == (1, 2)
    assert offer.float_format == "float32"
    assert offer.proposal.bound("float32") <= FLOAT32_PRODUCT.error


def test_a_product_in_float32_keeps_its_error_in_torch():
    torch = pytest.importorskip("torch")
    case = FLOAT32_PRODUCT
    offer = case.plan.choose("float32")
    module = hm.interop.write_torch(offer.build(), "float32")
    x = hard_points(case.function, case.domain, POINTS).astype(np.float32)
    with torch.no_grad():
        outputs = module(torch.from_numpy(x)).numpy().astype(float)[:, 0]
    exact = x.astype(float).prod(axis=1)  # float64 holds products of two float32
    assert np.abs(outputs - exact).max() <= offer.proposal.bound("float32") <= case.error


def test_the_recipe_multiplies_in_five_layers_of_two_heads():
    case = next(iter(PRODUCTS))
    construction = case.plan.offer("recipe").build()
    assert heads_by_layer(construction) == [2] * 5


def test_the_recipe_is_as_cold_as_the_square_root_of_the_error():
    """coldness = sqrt(4.0995/(e - 4^-L)); at errors 16 times apart the layers differ by two.

    4^-L is then the same part of the error, and so is what is left to softening: the coldness
    grows by a factor of 4, where error^-1 would be 16. 1%: the share of rounding.
    """
    errors = [0.3 * 16.0**-k for k in range(1, 7)]
    on = {"x": (-1, 1), "y": (-1, 1)}
    made = [compile("x*y", on=on, error=error, route="recipe") for error in errors]
    cold = np.array([max(head.coldness for head in c.transformer.heads) for c in made])
    assert cold == pytest.approx([proved_coldness(c) for c in made], rel=1e-3)
    assert [c.bill.layers for c in made] == list(range(made[0].bill.layers, 15, 2))
    assert cold[1:] / cold[:-1] == pytest.approx([4.0] * 5, rel=1e-2)


# ---------------------------------------------------------------- maxima


def test_a_maximum_of_16_is_one_head_as_cold_as_the_theorem_says():
    construction = MAXIMUM.plan.choose().build()
    (head,) = construction.transformer.heads
    assert size(construction) == (1, 1)
    needed = softmax_gap(WIDEST) / MAXIMUM.error / 2
    assert needed <= head.coldness <= 1.03 * needed


def test_the_claim_of_a_maximum_is_attained():
    """With all losers (1 + W)/coldness below the winner the error is the whole bound.

    The claim has a margin of 2% on top, and rounding is below 1e-12 of it.
    """
    construction = MAXIMUM.plan.choose().build()
    bound = construction.claim.error - construction.claim.margin
    assert extremal_maximum_error(construction) == pytest.approx(bound, rel=1e-9)


@pytest.mark.parametrize("n", [3, 5, 16])
def test_a_maximum_of_inputs_is_one_head_at_any_width(n):
    names = [f"x{i}" for i in range(n)]
    text = f"max({', '.join(names)})"
    construction = compile(text, on=dict.fromkeys(names, (-1, 1)), error=1e-2, route="direct")
    assert size(construction) == (1, 1)
    (head,) = construction.transformer.heads
    assert head.coldness * 1e-2 == pytest.approx(softmax_gap(n) / 2, rel=0.03)


# ---------------------------------------------------------------- pieces


@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: bend.text)
def test_the_greedy_search_finds_the_known_counts(bend):
    assert greedy_pieces(bend, 1e-4) == bend.known


def test_the_greedy_search_of_a_square_is_the_closed_form():
    """Chords of x^2 over a length h miss it by h^2/4, so pieces of x^2 are 1/sqrt(8 e) long."""
    square = BENDS[0]
    for error in (1e-2, 3e-3, 1e-4, 7e-6):
        assert greedy_pieces(square, error) == math.ceil(1 / math.sqrt(8 * error))


@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("bend", BENDS, ids=lambda bend: bend.text)
def test_free_knots_are_as_few_as_there_can_be(bend, error):
    least = greedy_pieces(bend, error)
    assert least <= our_pieces(bend, error) <= most_allowed(least)


def test_feedforward_units_are_pieces_less_one():
    made = compile("1/x", on={"x": (0.1, 1)}, error=1e-4 * 1.03, route="feedforward")
    assert size(made) == (1, 0)
    assert abs(made.bill.hidden_width - 152) <= 0.03 * 152 + 1  # 153 pieces at 1e-4


# ---------------------------------------------------------------- claims and bills


@pytest.mark.parametrize("route", ["direct", "feedforward", None])
@pytest.mark.parametrize("case", named(COMPOSITES))
def test_composites_keep_their_claims_and_bills(case, route):
    offer = case.plan.choose() if route is None else case.plan.offer(route)
    run = run_offer(case, offer, POINTS)
    assert run.measured <= run.claimed <= case.error
    assert run.wrong_integers == []
    assert run.bill_agrees


@pytest.mark.parametrize("case", named(COMPOSITES))
def test_composites_state_their_bills_on_every_route(case):
    runs = [run_offer(case, offer, 100) for offer in case.plan.open]
    assert {run.route: run.wrong_integers for run in runs} == {run.route: [] for run in runs}
    assert all(run.honest and run.bill_agrees for run in runs)


@pytest.mark.parametrize("case", named(PRIMITIVES))
def test_primitives_claim_no_more_than_three_times_what_they_err(case):
    """A claim below 1e-12 is rounding alone, which a few points do not exhaust."""
    for route in ROUTES:
        run = run_offer(case, case.plan.offer(route), POINTS)
        assert run.measured <= run.claimed <= case.error, route
        assert run.rounding_only or run.slack <= SLACK, route
        assert run.bill_agrees, route


# ---------------------------------------------------------------- the benchmark itself


def test_hard_points_hold_corners_ties_and_kinks():
    function = Function.parse("max(x, y + 0.5)*abs(z - 0.25)")
    box = Box([-1, -1, 0], [1, 1, 1])
    points = hard_points(function, box, 4000)
    assert points.shape == (4000, 3)
    assert box.contains(points).all()
    corners = {tuple(p) for p in points if np.isin(p, [-1.0, 0.0, 1.0]).all()}
    assert {(a, b, c) for a in (-1, 1) for b in (-1, 1) for c in (0, 1)} <= corners
    x, y, z = points.T
    for gap in (x - y, y - z, x - y - 0.5, z - 0.25):
        assert (np.abs(gap) < 1e-6).sum() > 20
        assert ((np.abs(gap) > 1e-6) & (np.abs(gap) < 1e-2)).sum() > 20


def test_hard_points_follow_their_seed():
    function, box = Function.parse("x*y"), Box([-1, -1], [1, 1])
    assert np.array_equal(hard_points(function, box, 100), hard_points(function, box, 100))
    assert not np.array_equal(hard_points(function, box, 100, 1), hard_points(function, box, 100))


def example_run(**changes):
    bill = {"heads": 2, "largest_logit": 1.0, "largest_weight": 3.0}
    fields = {
        "case": "f", "route": "direct", "asked": 1e-3, "claimed": 1e-3, "measured": 9e-4,
        "stated": bill, "counted": bill, "coldness": 1.0,
    }  # fmt: skip
    return Run(**fields | changes)


@pytest.mark.parametrize(
    "counted",
    [
        {"heads": 3, "largest_logit": 1.0, "largest_weight": 3.0},
        {"heads": 2, "largest_logit": 1.0 + 2e-9, "largest_weight": 3.0},
        {"heads": 2, "largest_logit": 1.0, "largest_weight": 3.1},
    ],
)
def test_a_bill_that_differs_is_seen(counted):
    """A smaller logit is none: the bill follows affine forms, which no plan has yet."""
    assert example_run().bill_agrees
    smaller = {"heads": 2, "largest_logit": 0.5, "largest_weight": 3.0}
    assert example_run(counted=smaller).bill_agrees
    assert not example_run(counted=counted).bill_agrees


@pytest.mark.parametrize(
    "changes", [{"measured": 1.1e-3}, {"claimed": 1.1e-3}, {"measured": math.inf}]
)
def test_a_broken_claim_is_seen(changes):
    assert example_run().honesty.holds
    assert not example_run(**changes).honesty.holds


def test_an_error_that_is_not_a_number_is_infinite():
    case = Case("x*y", ((-1.0, 1.0), (-1.0, 1.0)), 1e-3)
    offer = case.plan.offer("direct")

    class Broken:
        def __getattr__(self, name):
            return getattr(offer.build(), name)

        def __call__(self, x):
            return np.full((len(x), 1), np.nan)

    assert as_run(case, Broken(), offer.resources, 100).measured == math.inf


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (Check("heads", holds=True), 0),
        (Check("heads", holds=False), 1),
        (Check("seconds", holds=False, timed=True), 0),
    ],
)
def test_the_exit_code_says_whether_a_requirement_was_missed(monkeypatch, capsys, check, code):
    monkeypatch.setitem(functions.PARTS, "maxima", lambda settings: Report([], [check], {}))
    assert functions.main(["--only", "maxima"]) == code
    assert ("missed" in capsys.readouterr().out) == (not check.holds)


def test_tables_have_their_command_and_files_hold_the_numbers(capsys, tmp_path):
    path = tmp_path / "new" / "numbers.json"
    assert functions.main(["--quick", "--only", "maxima", "--json", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "$ python -m benchmarks.functions --only maxima --quick" in printed
    assert "4 of 4 requirements met." in printed
    assert '"coldness"' in path.read_text()


@pytest.mark.parametrize("text", ["sigmoid(x)", "tanh(x)", "silu(x)", "x*sigmoid(x)", "3*x + 1"])
def test_what_is_exact_but_for_rounding_is_proved(text):
    """Compiler and checker bound rounding by lemmas of their own; the claim leaves room for both.

    sigmoid(x) was claimed to 6.7e-16, of which only 7.2e-16 could be proved.
    """
    made = hm.compile(text, on={"x": (-1, 1)}, error=1e-2, route="direct")
    assert made.claim.error < 1e-14
    assert hm.certify(made, budget="5e6 work").verdict.name == "PROVED"
