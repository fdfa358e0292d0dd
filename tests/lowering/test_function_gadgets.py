"""The gadgets of functions: every bound attained at its extremal point, every bill as stated."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.analysis import follow, rounding_bound
from hardmax.core import Attention, Box, count_bill, evaluate, trace
from hardmax.lowering.approximants import identity_by_tanh, square_by_tanh
from hardmax.lowering.gadgets import (
    Site,
    maximum_by_head,
    maximum_by_tree,
    product_by_gates,
    product_by_tents,
    relu_by_gate,
    square_by_gates,
    square_by_tents,
)
from hardmax.lowering.gadgets._products import CHAIN_LOSS, TENT_LOSS, centred
from hardmax.lowering.sketch import BoxAssembly, BoxSketch, register_ranges, rounding
from hardmax.numerics import softmax_gap

UNIT = Box([-1.0, -1.0], [1.0, 1.0])
LINE = Box([-1.0], [1.0])


def finished(sketch, *forms):
    sketch.outputs = list(forms)
    return BoxAssembly(sketch).transformer


def site(sketch, node=0, forms=None, ranges=None, tokens=2):
    """All inputs of a sketch, between -1 and 1 unless said otherwise."""
    inputs = range(sketch.domain.dimension)
    forms = [sketch.input(i) for i in inputs] if forms is None else forms
    return Site(sketch, node, tuple(forms), tuple(ranges or [(-1, 1)] * len(forms)), tokens)


@pytest.mark.parametrize("heads", [1, 2, 3])
@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-8])
def test_the_tanh_sum_for_x_attains_its_error(heads, error):
    fit = identity_by_tanh(heads, error)
    x = np.cos(np.linspace(0, np.pi, 20001)).astype(np.longdouble)
    total = sum(
        np.longdouble(fit.scale) * share / 2 * np.tanh(np.longdouble(cold) * x / 2)
        for cold, share in zip(fit.coldness, fit.shares, strict=True)
    )
    measured = float(np.abs(total - x).max())
    assert measured <= fit.error * (1 + 1e-6) <= 1.02 * measured
    assert 0.9 * error <= fit.error <= error
    assert sum(map(Fraction, fit.shares)) == 2


def test_one_head_errs_by_a_48th_of_its_coldness_squared():
    """T_3/4 spreads the cubic remainder b^2 x^3/12: b^2/48, four times less than by matching."""
    fit = identity_by_tanh(1, 1e-6)
    assert fit.error == pytest.approx(fit.coldness[0] ** 2 / 48, rel=0.02)


def test_one_head_squares_to_a_96th_of_its_coldness_squared():
    fit = square_by_tanh(1, 1e-6)
    assert fit.error == pytest.approx(fit.coldness[0] ** 2 / 96, rel=0.02)


def test_products_and_squares_of_warm_heads_attain_their_errors():
    sketch = BoxSketch(UNIT)
    made = product_by_gates(site(sketch), 1e-3, 1)
    model = finished(sketch, made.form)
    x = np.stack(np.meshgrid(*[np.linspace(-1, 1, 301)] * 2), axis=-1).reshape(-1, 2)
    seen = np.abs(evaluate(model, x)[:, 0] - x.prod(axis=1)).max()
    assert 0.98 * made.error <= seen <= made.error
    sketch = BoxSketch(LINE)
    made = square_by_gates(site(sketch), 1e-3, 1)
    model = finished(sketch, made.form)
    z = np.linspace(-1, 1, 4001)[:, None]
    seen = np.abs(evaluate(model, z)[:, 0] - z[:, 0] ** 2).max()
    assert 0.98 * made.error <= seen <= made.error


def test_a_product_off_centre_costs_only_its_radii():
    """On [10, 11] x [-5, -4] the error is that of radii 1/2: a quarter, not 55 times."""
    box = Box([10.0, -5.0], [11.0, -4.0])
    sketch = BoxSketch(box)
    made = product_by_gates(site(sketch, ranges=((10, 11), (-5, -4))), 1e-3, 1)
    model = finished(sketch, made.form)
    x = box.sample(4000, np.random.default_rng(0))
    assert np.abs(evaluate(model, x)[:, 0] - x.prod(axis=1)).max() <= made.error <= 1e-3
    near = product_by_gates(site(BoxSketch(UNIT)), 1e-3, 1)
    assert len(sketch.makers) == 1
    assert near.error <= 1e-3
    warm, cold = sketch.makers[0].coldness, 0.2177  # coldness of the unit square at 1e-3
    assert warm == pytest.approx(2 * cold, rel=0.02)


def test_the_tent_constant_is_the_maximum_of_4_u2_over_cosh2():
    u = np.linspace(0, 5, 2_000_001)
    top = (4 * u**2 / np.cosh(u) ** 2).max()
    assert top <= TENT_LOSS <= top * (1 + 1e-6)
    assert pytest.approx(TENT_LOSS * 7 / 3) == CHAIN_LOSS


@pytest.mark.parametrize("layers", [1, 2, 4, 6])
def test_the_hard_chain_attains_four_to_the_minus_depth(layers):
    """x^2 minus its interpolant at 2^L equal pieces of [-1, 1], centred: exactly 4^-L/2."""
    sketch = BoxSketch(LINE)
    error = 4.0**-layers / 2
    made = square_by_tents(site(sketch), error, soft=False)
    model = finished(sketch, made.form)
    assert len(model.sublayers) == layers
    x = np.linspace(-1, 1, 2 ** (layers + 1) + 1)[:, None]
    assert np.abs(evaluate(model, x)[:, 0] - x[:, 0] ** 2).max() == error == made.error


def test_one_soft_absolute_value_attains_its_loss():
    """z^2 - (z tanh(b z/2))^2 has supremum 1.7569.../b^2, at b z/2 = 1.19968."""
    b = 50.0
    z = 2 * 1.1996786402577338 / b
    lost = z**2 - (z * math.tanh(b * z / 2)) ** 2
    assert lost == pytest.approx(TENT_LOSS / b**2, rel=1e-6)


@pytest.mark.parametrize("error", [1e-2, 1e-3, 1e-5, 1e-7])
def test_the_recipe_of_a_product_keeps_its_bound(error):
    sketch = BoxSketch(UNIT)
    made = product_by_tents(site(sketch), error, soft=True)
    model = finished(sketch, made.form)
    x = UNIT.sample(20_000, np.random.default_rng(1))
    assert np.abs(evaluate(model, x)[:, 0] - x.prod(axis=1)).max() <= made.error <= error
    layers = len(model.sublayers)
    assert layers == math.ceil(math.log(1 / error, 4))
    cold = {head.coldness for head in model.heads}
    left = min(error - 4.0**-layers, 0.5 * 4.0**-layers)
    assert max(cold) <= math.sqrt(4.1 / left) * 1.01  # grows as the root of what is left


def test_the_chain_takes_two_rows_at_any_depth():
    widths = set()
    for error in (1e-2, 1e-4, 1e-8):
        sketch = BoxSketch(LINE)
        made = square_by_tents(site(sketch), error, soft=True)
        widths.add(finished(sketch, made.form).width)
    assert len(widths) == 1


def test_a_soft_relu_and_a_maximum_of_many_attain_their_bounds():
    sketch = BoxSketch(LINE)
    made = relu_by_gate(site(sketch), sketch.input(0), 1e-3)
    model = finished(sketch, made.form)
    cold = model.heads[0].coldness
    z = np.array([[0.0], [(1 + softmax_gap(2)) / cold], [-(1 + softmax_gap(2)) / cold]])
    off = evaluate(model, z)[:, 0] - np.maximum(z[:, 0], 0)
    assert off == pytest.approx([made.error, -made.error, -made.error], rel=1e-9)
    n = 16
    box = Box([-1.0] * n, [1.0] * n)
    sketch = BoxSketch(box)
    made = maximum_by_head(site(sketch, tokens=n), 1e-3)
    model = finished(sketch, made.form)
    cold = model.heads[0].coldness
    assert cold == pytest.approx(softmax_gap(n) / 2e-3, rel=1e-3)
    x = np.full((1, n), 0.5 - (1 + softmax_gap(n)) / cold)
    x[0, 3] = 0.5
    assert 0.5 - evaluate(model, x)[0, 0] == pytest.approx(made.error, rel=1e-6)


def test_a_tournament_errs_by_its_depth():
    box = Box([-1.0] * 8, [1.0] * 8)
    sketch = BoxSketch(box)
    made = maximum_by_tree(site(sketch), 3e-3, relu_by_gate)
    model = finished(sketch, made.form)
    assert len(model.sublayers) == 3
    assert len(model.heads) == 7
    x = box.sample(5000, np.random.default_rng(2))
    seen = np.abs(evaluate(model, x)[:, 0] - x.max(axis=1)).max()
    assert 0.99 * made.error <= seen <= made.error + 1e-14  # rounding: a few units of 1
    assert made.error <= 3e-3


def test_centres_have_few_bits_and_cover_the_range():
    rng = np.random.default_rng(3)
    for _ in range(200):
        low, high = np.sort(rng.normal(size=2) * 10.0 ** rng.integers(-8, 8))
        middle, radius = centred((low, high))
        assert middle - radius <= Fraction(low)
        assert Fraction(high) <= middle + radius
        assert radius <= Fraction(high - low) * Fraction(11, 20) + abs(middle) / 1000
    assert centred((-1, 1)) == (0, 1)


def test_statements_are_what_is_counted():
    sketch = BoxSketch(UNIT)
    product = product_by_gates(site(sketch), 1e-4, 2)
    square = square_by_tents(site(sketch, 1, [product.form], [(-1.1, 1.1)]), 1e-3, soft=True)
    kink = relu_by_gate(site(sketch, 2, []), square.form + -0.5, 1e-3)
    sketch.outputs = [kink.form, product.form]
    assembly = BoxAssembly(sketch)
    said, bill = assembly.statement(register_ranges(sketch)), count_bill(assembly.transformer, UNIT)
    for name in ("layers", "heads", "width", "tokens", "hidden_width", "parameters"):
        assert getattr(said, name) == getattr(bill, name), name
    assert said.largest_weight == pytest.approx(bill.largest_weight, rel=1e-12)
    assert said.largest_logit == pytest.approx(bill.largest_logit, rel=1e-9)


def in_float32(model, x):
    """An evaluator of its own: everything in float32, plainly."""
    cast = np.float32
    maps, offsets = model.input.maps.astype(cast), model.input.offsets.astype(cast)
    stream = np.einsum("twn,bn->btw", maps, x.astype(cast)).astype(cast) + offsets
    for layer in model.sublayers:
        assert isinstance(layer, Attention)
        change = np.zeros_like(stream)
        for head in layer.heads:
            query = (head.query * head.coldness).astype(cast)
            scores = (stream @ query.T) @ np.swapaxes(stream @ head.key.astype(cast).T, 1, 2)
            if head.causal:
                n = scores.shape[1]
                scores = np.where(np.tri(n, dtype=bool), scores, cast(-np.inf))
            powers = np.exp(scores - scores.max(axis=2, keepdims=True))
            weights = powers / powers.sum(axis=2, keepdims=True)
            change += (weights @ (stream @ head.value.astype(cast).T)) @ head.output.astype(cast).T
        stream = stream + change
    token = stream[:, model.readout.token]
    return token @ model.readout.weights.astype(cast).T + model.readout.bias.astype(cast)


@pytest.mark.parametrize("heads", [1, 2, 3])
def test_rounding_in_float32_stays_below_its_bound(heads):
    """The bound is for worst cases; what is seen must be below it, and not absurdly far."""
    sketch = BoxSketch(UNIT)
    made = product_by_gates(site(sketch), 1e-5, heads)
    sketch.outputs = [made.form]
    found = rounding(sketch, register_ranges(sketch), "float32")
    bound = found.nodes[0] + found.outputs[0]
    model = BoxAssembly(sketch).transformer
    x = UNIT.sample(20_000, np.random.default_rng(4)).astype(np.float32).astype(float)
    seen = np.abs(in_float32(model, x)[:, 0] - evaluate(model, x)[:, 0]).max()
    assert seen <= bound <= 40 * seen
    assert bound <= rounding_bound(model, UNIT, "float32")[0]


def test_a_head_that_scales_in_place_is_followed_as_a_product():
    """The row ends in [-1, 1] up to the fit's error; adding plain ranges would give 3 k."""
    sketch = BoxSketch(UNIT)
    made = product_by_gates(site(sketch), 1e-4, 1)
    model = finished(sketch, made.form)
    answer = follow(model, UNIT).answer.range
    assert answer.hi.max() <= 1.001
    assert answer.lo.min() >= -1.001
    assert sketch.registers[2].inputs[1] < -20


def test_choosers_leave_the_sink_empty():
    """Values of gates are read on the sink too; what a chooser writes there is taken back."""
    model = hm.compile(
        "max(x, y, z)*max(x, -y, z)", on=dict.fromkeys("xyz", (-1, 1)), error=1e-2, route="direct"
    )
    for x in model.claim.domain.sample(20, np.random.default_rng(5)):
        streams = trace(model.transformer, x).streams
        rows = [c for c in range(model.transformer.width) if streams[-1][0][c] != streams[0][0][c]]
        assert np.abs([float(streams[-1][0][c]) for c in rows]).max(initial=0.0) < 1e-12


def test_rounding_of_a_chooser_counts_the_size_of_its_values():
    """Values of 1000 and 1001: the mean moves little with the logits, but is itself rounded."""
    text = "(1000*exp(x) + 1001*exp(y))/(exp(x) + exp(y))"
    plan = hm.plan(text, on={"x": (-1, 1), "y": (-1, 1)}, error=1e-2)
    proposal = plan.offer("direct").proposal
    found = proposal.rounding("float32")
    bound = sum(found.nodes.values()) + found.outputs[0]
    model = proposal.assembly.transformer
    x = UNIT.sample(20_000, np.random.default_rng(6)).astype(np.float32).astype(float)
    seen = np.abs(in_float32(model, x)[:, 0] - evaluate(model, x)[:, 0]).max()
    assert 3e-5 <= seen <= bound <= 40 * seen
