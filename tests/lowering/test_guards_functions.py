"""Each charge, outward step and look at infinity where functions and programs are put together."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace as Fake

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.lowering import _growth
from hardmax.lowering.approximants import AnchorFit, PiecewiseFit, coldness_for
from hardmax.lowering.functions import _compose, _routes
from hardmax.lowering.functions._proposal import Proposal, too_small
from hardmax.lowering.gadgets import (
    Approximation,
    Site,
    curve_by_anchors,
    maximum_by_head,
    relu_by_gate,
    soft_pieces,
    softmax_by_head,
)
from hardmax.lowering.gadgets import _products as products
from hardmax.lowering.gadgets._products import centred
from hardmax.lowering.gadgets._tournament import _match
from hardmax.lowering.graph._analysis import Analysis, _carried
from hardmax.lowering.networks import _max_to_attention
from hardmax.lowering.programs._codes import largest_rounding
from hardmax.lowering.programs._compile import Choices, Unkept, _ProgramCompiler
from hardmax.lowering.programs._placing import Placing
from hardmax.lowering.programs._relations import Relations
from hardmax.lowering.sketch import BoxSketch, Strays, WordForm, exact_form
from hardmax.numerics import FLOAT64, Interval, softmax_gap, stray

RNG = np.random.default_rng
U = Fraction(1, 2**53)
S = p.Sequence()


def lies_just_above(found, exactly, units=100):
    return exactly <= Fraction(found) <= exactly * (1 + units * U) + Fraction(1, 10**320)


def line(low=-1.0, high=1.0, inputs=1):
    return BoxSketch(hm.Box([low] * inputs, [high] * inputs))


def site(sketch, tokens=2):
    """All inputs of a sketch, in their ranges."""
    forms = tuple(sketch.input(i) for i in range(sketch.domain.dimension))
    ranges = zip(sketch.domain.low.tolist(), sketch.domain.high.tolist(), strict=True)
    return Site(sketch, 0, forms, tuple(ranges), tokens)


# ---- heads over tokens -------------------------------------------------------------------------


def test_anchors_are_charged_for_keys_that_were_rounded():
    rng = RNG(0)
    for case in range(60):
        anchors = np.array([-1.0, 0.0, 1.0]) * float(rng.uniform(0.5, 2.0))
        values = rng.uniform(-2.0, 2.0, 3)
        error = float(rng.uniform(0.5, 2.0)) * (1e-15 if case % 2 else 1.0)
        fit = AnchorFit(anchors, values, float(rng.uniform(0.5, 9.0)), error)
        found = curve_by_anchors(site(line()), fit).error
        scores = [
            Fraction(x) * Fraction(e) - Fraction(e) ** 2 / 2 for x in (-1.0, 1.0) for e in anchors
        ]
        bound = float(max(map(abs, scores)))
        moved = Fraction(stray(4, fit.coldness * bound))
        assert lies_just_above(
            found, Fraction(error) + Fraction(float(np.abs(values).max())) * moved
        )


def test_softmaxes_are_charged_for_logits_that_were_rounded():
    rng = RNG(1)
    for inputs in (1, 3):
        for scale in (1.0, 1e-3, 1e3):
            scores = rng.uniform(0.5, 2.0, (3, inputs + 1)) * scale
            values = rng.uniform(-2.0, 2.0, 3)
            where = site(line(inputs=inputs), 3)
            found = softmax_by_head(where, scores.tolist(), values.tolist()).error
            size = max(sum(map(Fraction, row)) for row in scores.tolist())
            spread = Fraction(float(values.max() - values.min()))
            exactly = 8 * U / (1 - 8 * U) * (1 + size) * spread
            assert lies_just_above(found, exactly)


def test_softmaxes_of_many_inputs_add_up_all_of_them():
    """A logit of 1 x and 2000 of half an ulp: the sum is made as if none were lost."""
    inputs = 2000
    weights = [1.0, *[0.49 * 2.0**-52] * (inputs - 1), 2.0**-60]
    logits = [weights, [0.0] * (inputs + 1)]
    found = softmax_by_head(site(line(inputs=inputs)), logits, [0.0, 1.0]).error
    size = sum(map(Fraction, weights))
    exactly = 8 * U / (1 - 8 * U) * (1 + size)
    assert lies_just_above(found, exactly, 9000)
    assert Fraction(found) > exactly * (1 + 2000 * U)  # for as many roundings


# ---- chains, products, kinks, pieces -----------------------------------------------------------


def pairs(rng, count):
    """Ranges whose middle and radius have many digits."""
    return [tuple(sorted(pair)) for pair in rng.uniform(-3.0, 3.0, (count, 2)).tolist()]


@pytest.mark.parametrize("soft", [True, False])
def test_chains_of_tents_say_no_less_than_their_error(soft):
    for pair in pairs(RNG(2), 40):
        error = 3e-4
        _, r = centred(pair)
        made = products.square_by_tents(site(line(*pair)), error, soft=soft)
        inner = products._depth(error / float(r * r), centred_bound=True, soft=soft)[2]
        assert lies_just_above(made.error, r * r * Fraction(inner), 4)
        assert made.error <= error
        two = BoxSketch(hm.Box([pair[0], -1.3], [pair[1], 1.7]))
        s = centred((-1.3, 1.7))[1]
        made = products.product_by_tents(site(two), error, soft=soft)
        inner = products._depth(error / float(r * s), centred_bound=False, soft=soft)[2]
        assert lies_just_above(made.error, r * s * Fraction(inner), 4)
        assert made.error <= error


def test_the_depth_of_a_chain_keeps_its_word():
    for error in np.exp(RNG(3).uniform(-20.0, -2.0, 300)).tolist():
        for is_centred, half in ((True, 2), (False, 1)):
            layers, coldness, inner = products._depth(error, centred_bound=is_centred, soft=True)
            pieces, loss = (
                Fraction(1, 4**layers),
                Fraction(products.CHAIN_LOSS) / Fraction(coldness) ** 2,
            )
            assert (pieces + loss) / half <= Fraction(inner) <= Fraction(error)
            assert loss <= min(Fraction((1 - 4e-9) * error * half - 4.0**-layers), pieces / 2)


def test_an_error_of_a_power_of_four_takes_as_many_layers():
    for layers in range(1, 40):
        for is_centred, half in ((True, 2.0), (False, 1.0)):
            error = 4.0**-layers / half
            found = products._depth(error, centred_bound=is_centred, soft=False)
            assert found == (layers, None, error)


def test_products_by_gates_say_no_less_than_their_error():
    for pair in pairs(RNG(4), 30):
        _, r = centred(pair)
        square = products.square_by_gates(site(line(*pair)), 1e-3, 1)
        fit = products.square_by_tanh(1, products._rounded_down(1e-3 / float(r * r)))
        assert lies_just_above(square.error, r * r * Fraction(fit.error), 4)
        assert square.error <= 1e-3
        two = BoxSketch(hm.Box([pair[0], -1.3], [pair[1], 1.7]))
        s = centred((-1.3, 1.7))[1]
        made = products.product_by_gates(site(two), 1e-3, 1)
        fit = products.identity_by_tanh(1, products._rounded_down(1e-3 / float(r * s)))
        assert lies_just_above(made.error, r * s * Fraction(fit.error), 4)


def test_a_maximum_by_one_head_errs_by_half_its_shortfall():
    for error in RNG(5).uniform(0.01, 0.5, 100).tolist():
        for make, tokens in (
            (lambda where, e: relu_by_gate(where, where.forms[0], e), 2),
            (lambda where, e: maximum_by_head(replace(where, forms=where.forms * 3), e), 3),
        ):
            sketch = line()
            made = make(site(sketch, tokens), error)
            short = Fraction(softmax_gap(tokens)) / Fraction(sketch.makers[0].coldness)
            middle = Fraction(made.form.constant)
            assert lies_just_above(made.error, max(short - middle, middle), 40)


def test_soft_pieces_err_by_their_fit_and_their_softening():
    fit = PiecewiseFit(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0]), 0.125)
    made = soft_pieces(site(line(0.0, 2.0)), fit, 0.25)
    assert coldness_for(fit, 0.125) > 0.0
    assert made.error == 0.125 + made.softening
    assert 0.9 * 0.125 < made.softening <= 0.125


def test_a_match_errs_by_its_players_and_by_itself():
    one, two = (Approximation(exact_form(0), error) for error in (0.25, 0.5))
    won = Approximation(exact_form(0), 0.125)
    made = _match(site(line()), [one, two], 0.0, lambda *_: won)
    assert made.error == 0.625


# ---- analyses ----------------------------------------------------------------------------------


def test_errors_are_carried_with_the_node_s_own():
    rng = RNG(6)
    node = Fake(arguments=(0, 1, 2))
    for _ in range(200):
        own, *rest = (rng.uniform(0.5, 2.0, 1) for _ in range(7))
        found = _carried(node, own, rest[:3], rest[3:])
        exactly = sum(
            (Fraction(a[0]) * Fraction(b[0]) for a, b in zip(rest[:3], rest[3:], strict=True)),
            Fraction(0),
        )
        assert lies_just_above(found[0], Fraction(own[0]) + exactly, 40)


def test_totals_add_up_what_all_nodes_do():
    rng = RNG(7)
    leaves = [Fake(arguments=()) for _ in range(4)]
    graph = Fake(nodes=[*leaves, Fake(arguments=(0, 1, 2, 3))], outputs=[4])
    for _ in range(100):
        shares = rng.uniform(0.5, 2.0, (1, 5, 1))
        partials = [[] for _ in leaves] + [[np.array([9.0])] * 4]
        analysis = Analysis(graph, [], [], shares, partials)
        amounts = rng.uniform(0.5, 2.0, 4).tolist()
        bound, parts = analysis.total(dict(enumerate(amounts)))
        exactly = sum(
            Fraction(s) * Fraction(a) for s, a in zip(shares[0, :4, 0], amounts, strict=True)
        )
        assert lies_just_above(bound, exactly, 40)
        assert sum(parts.values()) == pytest.approx(bound, rel=1e-12)


def test_proposals_are_off_by_approximation_and_rounding():
    fake = Fake(
        rounding=lambda dtype: Fake(nodes={0: 0.25}),
        built={0: Approximation(exact_form(), 0.5), 1: Approximation(exact_form(), 0.125)},
        analysis=Fake(graph=Fake(nodes=[0, 1]), off_by=lambda amounts: amounts.tolist()),
        format="float64",
    )
    assert Proposal._off(fake) == [0.75, 0.125]


def test_holdings_leave_4096_steps_of_what_is_held():
    fake = Fake(analysis=Fake(range=lambda node: (-3.0, 2.0)), error=0.0)
    assert Proposal._within(fake, 0, 0.0) == 3.0 * 4096.0 * 2.0**-52


def test_infinite_reach_is_said_to_be_infinite():
    assert "too large" in str(too_small(0.1, math.inf, "direct"))
    assert "Ask for 0.5" in str(too_small(0.1, 0.5, "direct"))


def test_an_infinite_bound_takes_less_than_a_third_next_time(monkeypatch):
    asked = []

    def proposed(task, budget, weights):
        asked.append(budget)
        return Fake(needed=math.inf, approximation=0.5, asked=None)

    monkeypatch.setattr(_compose, "_within", proposed)
    monkeypatch.setattr(_compose, "_weights", lambda *_: {})
    task = Fake(analysed=lambda *_: None, format=FLOAT64)
    assert _compose._attempted(task, 1.0) is None
    ratios = [b / a for a, b in pairwise(asked)]
    assert ratios[:2] == pytest.approx([0.3, 0.3])


def test_an_infinite_total_takes_a_tenth_next_time(monkeypatch):
    asked = []

    def split(analysis, weights, budget):
        asked.append(budget)
        return {}

    monkeypatch.setattr(_compose, "_split", split)
    monkeypatch.setattr(_compose, "_allowed", lambda *_: {})
    monkeypatch.setattr(_compose, "softening", lambda *_: 0.0)
    monkeypatch.setattr(_compose, "_build", lambda *_: Fake(approximation=math.inf))
    task = Fake(analysed=lambda *_: None, graph=Fake(nodes=[]), domain=None)
    with pytest.raises(hm.PrecisionError, match="could not be kept"):
        _compose._within(task, 1.0, {})
    assert asked[2] / asked[0] == pytest.approx(0.1)
    assert min(asked) > 0.0


def test_infinite_slopes_are_refused():
    steep = Fake(effect=lambda node: math.inf, graph=Fake(nodes=[Fake(expression="x")]))
    with pytest.raises(hm.PrecisionError, match="infinitely steep"):
        _compose._split(steep, {0: 1.0}, 1.0)


def test_growth_is_proved_where_the_bend_is_bounded():
    t = hm.variables("t")
    t = t[0] if isinstance(t, list | tuple) else t
    node = Fake(curve=hm.sqrt(t), arguments=(0,))
    assert not _growth._is_tame(node, Fake(range=lambda i: (0.0, 1.0)))
    assert _growth._is_tame(node, Fake(range=lambda i: (0.5, 1.0)))


# ---- universal heads, biases -------------------------------------------------------------------


def test_values_at_anchors_are_missed_by_what_their_enclosures_say():
    rng = RNG(8)
    lows = -rng.uniform(0.5, 2.0, 300) * 10.0 ** -rng.uniform(0.0, 6.0, 300)
    for low, high in zip(lows.tolist(), rng.uniform(0.5, 2.0, 300).tolist(), strict=True):
        ends = Interval(np.array([[low]]), np.array([[high]]))
        values, missed = _routes._values(lambda points, ends=ends: ends, np.zeros((1, 1)))
        middle = Fraction(values[0, 0])
        assert lies_just_above(missed, max(Fraction(high) - middle, middle - Fraction(low)), 8)
    huge = Interval(np.array([[1.0, -np.inf]]), np.array([[1.0, np.inf]]))
    with pytest.raises(hm.PrecisionError, match="overflows"):
        _routes._values(lambda points: huge, np.zeros((2, 1)))


def test_slopes_without_a_bound_are_refused(monkeypatch):
    fake = Fake(sensitivity=lambda i: (1.0, math.inf)[i])
    monkeypatch.setattr(_routes, "build_graph", lambda *_: None)
    monkeypatch.setattr(_routes, "analyse", lambda *_: fake)
    target = Fake(expressions=(), variables=(), inputs=2)
    with pytest.raises(hm.PrecisionError, match="No finite bound"):
        _routes._slopes(target, None)
    target.inputs = 1
    assert _routes._slopes(target, None) == [1.0]


def test_biases_of_tokens_without_a_piece_are_rounded_down():
    for low, bound in RNG(9).uniform(0.5, 2.0, (200, 2)).tolist():
        register = Fake(start=np.zeros((2, 2)))
        unit = Fake(rank=1, biases=np.array([0.5]), low=-2.0 - low)
        stream, layer = Fake(u=[[register]]), Fake(units=[unit])
        _max_to_attention._fill(stream, 0, layer, [bound])
        exactly = Fraction(-2.0 - low) + Fraction(bound)
        assert exactly * (1 + 8 * U) <= Fraction(register.start[1, -1]) <= exactly


# ---- programs ----------------------------------------------------------------------------------


def test_numbers_that_floats_do_not_hold_are_charged():
    for k in range(1, 200):
        number = Fraction(k, 7 * 11 * 13)
        off = abs(number - Fraction(float(number)))
        assert lies_just_above(largest_rounding([number, 1, 2]), off, 8)
    assert largest_rounding([2**60 + 1]) >= 1.0
    assert largest_rounding([0.5, 3, "a"]) == 0.0


@pytest.mark.parametrize("strays", [(0.2, 0.0), (0.0, 0.2)])
def test_answers_that_stray_too_far_are_not_kept(strays):
    one = object()
    target = Fake(
        program=Fake(outputs=[one], name="it"),
        spacing=lambda _: 1.0,
        codes={one: Fake(number=float, items=[0, 1])},
    )
    compiler = Fake(target=target, rooms={}, aside={}, choices=Choices())
    with pytest.raises(Unkept):
        _ProgramCompiler._ledger(compiler, [Strays(1.2 * strays[0], 1.2 * strays[1])])
    assert _ProgramCompiler._ledger(compiler, [Strays(strays[0] / 10, strays[1] / 10)])


def test_what_cannot_happen_repeats_what_can():
    where = (np.array([-1, 0, 2]),)
    placing = Fake(codes=Fake(cases=lambda roots, values: where))
    found = Placing._over(placing, ["root"], ["value", "other"], np.array([5.0, 6.0, 7.0]))
    assert found.tolist() == [5.0, 5.0, 7.0]


@pytest.mark.parametrize(("start", "shift"), [("default", -0.5), ("wins", 0.0)])
def test_the_start_token_is_half_behind_a_key_that_is_equal(start, shift):
    """Scores 2 k q - k^2 - (q^2 + shift): the equal key leads the start token's 0 by -shift."""
    placed = []

    def place(values, numbers, clean=False):
        placed.append(numbers)
        return Fake(form=WordForm({}, 0.0), ready=0)

    heads = Fake(placing=Fake(place_function=place), sketch=Fake(token=WordForm({}, 1.0)))
    numbers = np.array([1.0, 2.0, 5.0])
    rows = Relations.equal(heads, ["k"], numbers, ["q"], numbers, start)
    assert placed[-1].tolist() == (numbers**2 + shift).tolist()
    assert rows.gap == 1.0 + shift


OTHERS, As = p.there(S.tokens) != S.tokens, p.there(S.tokens) == "a"
MAYBE_EMPTY = {
    "mean of others": OTHERS.mean(S.index, 7),
    "mean of a": As.mean(S.index, 7),
    "largest of others": OTHERS.max(S.index, 7),
    "largest of a": As.max(S.index, 7),
}


@pytest.mark.parametrize("name", MAYBE_EMPTY)
def test_who_may_select_nobody_has_its_default(name):
    program = p.Program(MAYBE_EMPTY[name])
    model = hm.compile(program, alphabet="ab", length=2)
    for word in ("a", "b", "ab", "ba", "aa", "bb"):
        assert model([list(word)])[0] == program(list(word))
