"""Gated feed-forward layers: what they mean, what they cost, and that pairs of units multiply."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax import interop
from hardmax.analysis import rounding_bound
from hardmax.checker.rounding import float_bounds
from hardmax.core import GATES, evaluate, fingerprint, reference, to_text, trace_sequence
from hardmax.numerics import FLOAT64, FORMATS, precision, record_of
from hardmax.testing import Kind, RoundingCase, random_vector_transformer, run_in_format
from hardmax.testing.truth import Balls, Rationals, outputs_on_vector


def pair(activation="relu", scale=1.0):
    """x, y and a third coordinate, to which scale x y is added."""
    x, y, z = np.eye(3)
    return hm.GatedFeedForward(
        [x, -x],
        [0.0, 0.0],
        [y, y],
        [0.0, 0.0],
        np.outer(z, [scale, -scale]),
        np.zeros(3),
        activation,
    )


def model_of(*layers, read=(0.0, 0.0, 1.0)):
    start = hm.VectorInput([np.eye(3, 2)], [np.zeros(3)])
    return hm.Transformer(start, layers, hm.ReadOut([read], [0.0]))


def random_gated(seed, hard=1.0, silu=0.0):
    kind = Kind(coarse=True, hard=hard, gated=1.0, silu=silu)
    rng = np.random.default_rng(seed)
    while True:
        found = random_vector_transformer(rng, 2, 2, kind)
        if any(isinstance(layer, hm.GatedFeedForward) for layer in found.sublayers):
            return found


# ---- meaning -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GATES)
def test_two_units_of_any_gate_multiply(name):
    """The theorem act(z) - act(-z) = z, in balls of 200 bits."""
    from flint import arb

    with precision(200):
        for z in (0.0, 1.0, -2.5, 1e-9, 30.0, 1e6):
            away = record_of(name).balls(arb(z)) - record_of(name).balls(arb(-z)) - arb(z)
            assert away.contains(0)
            assert float(abs(away).upper()) < 1e-50 * (1.0 + z * z)


def test_a_product_is_exact_over_fractions():
    x, y = Fraction(1, 3), Fraction(-2, 7)
    assert reference(model_of(pair()), [x, y], Fraction) == [x * y]
    twice = model_of(pair(), pair())  # the second layer adds x y once more
    assert reference(twice, [x, y], Fraction) == [2 * x * y]


def test_a_silu_has_no_rational_value():
    assert model_of(pair()).is_hard
    assert not model_of(pair("silu")).is_hard
    with pytest.raises(hm.SemanticsError, match="silu"):
        reference(model_of(pair("silu")), [Fraction(1), Fraction(1)], Fraction)


def test_pairs_are_found_in_any_order_and_with_either_sign():
    gate = [[1.0, 0.0], [0.0, 1.0], [-1.0, -0.0], [1.0, 0.0], [0.0, -1.0]]
    inner = [[0.0, 2.0], [3.0, 0.0], [0.0, -2.0], [0.0, 2.0], [3.0, 0.0]]
    outer = np.array([[1.0, 5.0, 1.0, 1.0, -5.0], [0.0, 0.0, -0.0, 0.0, 0.0]])
    zeros = np.zeros(5)
    layer = hm.GatedFeedForward(gate, zeros, inner, zeros, outer, np.zeros(2))
    assert layer.products == ((0, 2), (1, 4))
    units, multiplies = layer.terms
    assert units.tolist() == [0, 1, 3]
    assert multiplies.tolist() == [True, True, False]
    biased = replace(layer, gate_bias=np.array([1.0, 0.0, 1.0, 0.0, 0.0]))
    assert biased.products == ((1, 4),)  # 1 + z and 1 - z are no pair
    assert replace(layer, gate_bias=np.array([1.0, 0.0, -1.0, 0.0, 0.0])).products == layer.products


@pytest.mark.parametrize("seed", range(12))
def test_all_evaluators_agree(seed):
    """Reference, batched, the oracle from the definition, and steps, on floats and exactly."""
    model = random_gated(seed)
    points = np.random.default_rng(seed).integers(-8, 9, (5, 2)) / 8
    batch = evaluate(model, points)
    for x, found in zip(points, batch, strict=True):
        exact = [Fraction(v) for v in x]
        truth = outputs_on_vector(model, exact, Rationals())
        assert reference(model, exact, Fraction) == truth
        assert np.allclose(found, [float(v) for v in truth], rtol=1e-12, atol=1e-12)
        assert np.allclose(reference(model, x), found, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_soft_evaluators_agree(seed):
    model = random_gated(seed, hard=0.0, silu=1.0)
    points = np.random.default_rng(seed).normal(size=(4, 2))
    batch = evaluate(model, points)
    assert np.allclose(batch, [reference(model, x) for x in points], rtol=1e-12, atol=1e-12)
    numbers = Balls()
    with precision(200):
        for x, row in zip(points, batch, strict=True):
            truth = outputs_on_vector(model, [numbers.number(float(v)) for v in x], numbers)
            assert np.allclose(row, [float(v.mid()) for v in truth], rtol=1e-12, atol=1e-12)


def test_words_pass_gates_too():
    layer = hm.GatedFeedForward(
        [[1.0, 0.0], [-1.0, 0.0]], [0.0, 0.0], [[1.0, 0.0]] * 2, [0.0, 0.0],
        [[0.0, 0.0], [1.0, -1.0]], [0.0, 0.0],
    )  # fmt: skip
    source = hm.SequenceInput(("a", "b"), [[-3.0, 0.0], [0.5, 0.0]], np.zeros((4, 2)))
    model = hm.Transformer(source, [layer], hm.ReadOut([[0.0, 1.0]], [0.0], None))
    assert evaluate(model, "abba")[:, 0].tolist() == [9.0, 0.25, 0.25, 9.0]
    assert reference(model, "ab") == [[9.0], [0.25]]
    assert trace_sequence(model, "ab").streams[-1][:, 1].tolist() == [9.0, 0.25]


# ---- value ---------------------------------------------------------------------------------------


def test_text_and_fingerprint_say_every_weight():
    one, other = model_of(pair()), model_of(pair("silu"))
    assert "sublayer 0: gated feed-forward, hidden 2, relu" in to_text(one)
    assert "  gate: [0,0]=1 [1,0]=-1" in to_text(one)
    different = {fingerprint(one), fingerprint(other)}
    for name, part in pair().parts().items():
        moved = np.array(part)
        moved.flat[0] += 0.5
        different.add(fingerprint(model_of(replace(pair(), **{name: moved}))))
    assert len(different) == 8


def test_the_bill_counts_gates():
    bill = hm.Construction(model_of(pair()), _claim(1e-3), None, "by hand").bill
    assert bill.parameters == (3 + 6) + (3 + 1) + (3 * 6 + 2 + 2 + 3)
    assert bill.padded_parameters == bill.parameters
    assert bill.nonzero_parameters == 9
    assert (bill.layers, bill.heads, bill.hidden_width) == (1, 0, 2)
    assert bill.flops == 2 * 3 + 2 * 6 + 3 * 2 * 6 + 2  # read-out, embedding, matrices, products


def _claim(error):
    made = hm.compile("x*y", on="[-1,1]^2", error=1e-2).claim
    share = replace(made.ledger[-1], amount=error)
    return replace(made, ledger=(share,))


def test_what_is_no_layer_is_refused():
    with pytest.raises(hm.RequestError, match="one of relu, silu"):
        pair("tanh")
    with pytest.raises(hm.ShapeError, match="gate_bias of shape"):
        replace(pair(), gate_bias=np.zeros(3))


@pytest.mark.parametrize("activation", GATES)
def test_files_keep_gated_layers(tmp_path, activation):
    made = hm.Construction(model_of(pair(activation)), _claim(1e-3), None, "by hand")
    hm.save(made, tmp_path / "m.safetensors")
    again = hm.load(tmp_path / "m.safetensors")
    assert fingerprint(again.transformer) == fingerprint(made.transformer)


def test_regions_refuse_products_in_one_sentence():
    for ask in (
        lambda: hm.regions(model_of(pair()), on=hm.Box([-1, -1], [1, 1])),
        lambda: hm.regions(model_of(pair()), on=hm.Segment([-1, -1], [1, 1])),
        lambda: hm.regions(model_of(pair()), inputs=np.zeros((3, 2))),
    ):
        with pytest.raises(hm.SemanticsError, match="multiplies what it reads"):
            ask()


# ---- rounding ------------------------------------------------------------------------------------


def test_the_bound_of_a_product_is_attained():
    """One rounding: x y = (1 + 2^-26)(1 + 2^-27) lies half an ulp from both of its neighbours."""
    x, y = 1.0 + 2.0**-26, 1.0 + 2.0**-27
    box = hm.Box([-x, -y], [x, y])
    bound = float(float_bounds(model_of(pair()), box, ("float64",))["float64"][0])
    error = abs(Fraction(float(evaluate(model_of(pair()), [x, y])[0])) - Fraction(x) * Fraction(y))
    assert error == Fraction(1, 2**53)
    assert error <= bound <= float(error) * (1.0 + 2.0**-25)


def test_an_inherited_deviation_is_carried_by_both_factors():
    """z = x/3 and u = y/3 are off by d and e: the product by |u| d + |z| e, and its rounding."""
    third = pair()
    third = replace(third, gate=third.gate / 3.0, inner=third.inner / 3.0)
    box = hm.Box([1.0, 1.0], [1.0, 1.0])
    bound = float(float_bounds(model_of(third), box, ("float32",))["float32"][0])
    stored = float(np.float32(1.0 / 3.0))
    off = abs(Fraction(stored) - Fraction(1.0 / 3.0))
    least = 2 * off / 3  # of the reads alone, to first order
    assert float(least) < bound < 8 * FORMATS["float32"].unit / 9 + 2.1 * float(least)


@pytest.mark.parametrize("name", list(FORMATS))
def test_bounds_hold_against_an_adversary(name):
    """Any order of summation, fused or not, any rounding that is assumed."""
    worst = 0.0
    for seed in range(25):
        case = RoundingCase(np.random.default_rng([7, seed]), FORMATS[name], gated=1.0)
        share = case.largest_share(np.random.default_rng([8, seed]))
        worst = max(worst, share or 0.0)
    assert 0.05 < worst <= 1.0


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_bound_of_the_analysis_holds_against_an_adversary(name):
    """The compilers' own bound, which nobody believes, is one, too."""
    format, worst = FORMATS[name], 0.0
    for seed in range(12):
        model = random_gated(seed)
        box = hm.Box([-1.0, -1.0], [1.0, 1.0])
        bound = rounding_bound(model, box, name)
        points = format.stored(box.sample(4, np.random.default_rng(seed)))
        exact = [outputs_on_vector(model, [Fraction(v) for v in x], Rationals()) for x in points]
        found = run_in_format(model, points, format, np.random.default_rng(seed))
        for row, truth in zip(found, exact, strict=True):
            off = [abs(Fraction(float(a)) - b) for a, b in zip(row, truth, strict=True)]
            shares = [float(o) / float(b) for o, b in zip(off, bound, strict=True) if b]
            worst = max(worst, *shares, 0.0)
    assert 0.0 < worst <= 1.0


def test_flow_of_the_analysis_holds():
    for seed in range(6):
        model = random_gated(seed, silu=0.5)
        box = hm.Box([-1.0, -1.0], [1.0, 1.0])
        bound = rounding_bound(model, box, "float64")
        points = box.sample(6, np.random.default_rng(seed))
        numbers = Balls()
        with precision(200):
            for x, row in zip(points, evaluate(model, points), strict=True):
                exact = [numbers.number(float(v)) for v in x]
                truth = outputs_on_vector(model, exact, numbers)
                off = [abs(numbers.number(float(a)) - b) for a, b in zip(row, truth, strict=True)]
                assert all(bool(o <= float(b)) for o, b in zip(off, bound, strict=True))


# ---- certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", GATES)
def test_a_product_is_proved_by_identity(activation):
    found = hm.certify(hm.Construction(model_of(pair(activation)), _claim(1e-6), None, "by hand"))
    assert found.verdict is hm.Verdict.PROVED
    assert found.method == "identity"
    assert found.certified < 3e-15


@pytest.mark.parametrize("activation", GATES)
def test_a_product_with_a_wrong_weight_is_refuted(activation):
    wrong = model_of(pair(activation, scale=1.0 + 2.0**-12))
    found = hm.certify(hm.Construction(wrong, _claim(1e-6), None, "by hand"))
    assert found.verdict is hm.Verdict.REFUTED
    assert found.measured > 2e-4


@pytest.mark.parametrize("activation", GATES)
def test_units_that_are_no_pair_are_not_taken_for_one(activation):
    """The second gate reads -x + 2^-8: what is proved has to hold, and the error is not 0."""
    layer = pair(activation)
    layer = replace(layer, gate_bias=np.array([0.0, 2.0**-8]))
    assert layer.products == ()
    found = hm.certify(hm.Construction(model_of(layer), _claim(1e-2), None, "by hand"))
    assert found.verdict is hm.Verdict.PROVED
    assert found.measured <= found.certified <= 1e-2
    assert found.measured > 1.9e-3
    broken = hm.certify(hm.Construction(model_of(layer), _claim(1e-3), None, "by hand"))
    assert broken.verdict is hm.Verdict.REFUTED


def test_torch_runs_gates_within_the_bound():
    torch = pytest.importorskip("torch")
    for activation in GATES:
        model = model_of(pair(activation))
        box = hm.Box([-1, -1], [1, 1])
        points = FORMATS["float32"].stored(box.sample(200, np.random.default_rng(1)))
        bound = float_bounds(model, box, ("float32",))["float32"][0]
        module = interop.write_torch(model, dtype="float32")
        found = module(torch.tensor(points, dtype=torch.float32)).detach().double().numpy()[:, 0]
        assert np.abs(found - points[:, 0] * points[:, 1]).max() <= bound + FLOAT64.unit
