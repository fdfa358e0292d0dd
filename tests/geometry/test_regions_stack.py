"""The rounding of composed maps: what a Stack allows for covers the truth, and errors carry on."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry.counting._stack import Stack


def made(seed: int, *, on_slice: bool) -> Stack:
    rng = np.random.default_rng(seed)
    widths = [3 if on_slice else 2, 5, 4, 3, 1]
    sizes = list(zip(widths[1:], widths[:-1], strict=True))
    scales = [10.0 ** rng.integers(-90, 90, size=(s[0], 1)) for s in sizes]
    weights = [rng.normal(size=s) * k for s, k in zip(sizes, scales, strict=True)]
    biases = [rng.normal(size=s[0]) * k[:, 0] for s, k in zip(sizes, scales, strict=True)]
    network = hm.ReluNetwork(weights, biases)
    if not on_slice:
        return Stack.of(network, [1.5, 0.75])
    third = Fraction(1, 3)
    return Stack.of(network, [1.5, 0.75], [third, 0, 1], [[1, third, 0], [0, 1, 3 * third / 7]])


@pytest.mark.parametrize("on_slice", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_slacks_cover_what_floats_are_off_by(seed: int, on_slice: bool) -> None:
    """Maps composed in floats along random patterns, against Fractions, as functions."""
    stack = made(seed, on_slice=on_slice)
    rng = np.random.default_rng(seed)
    patterns = [rng.random(n) < 0.6 for n in stack.hidden]
    reach = [Fraction(x) for x in (*stack.reach.tolist(), 1.0)]
    rows = np.hstack([stack.weights[0], stack.biases[0][:, None]])
    for layer in range(len(stack.biases)):
        if layer:
            rows = (stack.weights[layer] * patterns[layer - 1]) @ rows
            rows[:, -1] += stack.biases[layer]
        exact = stack.exact_maps(patterns, layer)
        for own, true, slack in zip(rows.tolist(), exact, stack.slacks[layer], strict=True):
            off = sum(abs(Fraction(a) - b) * m for a, b, m in zip(own, true, reach, strict=True))
            assert off <= Fraction(float(slack))


def test_an_error_of_the_first_layer_is_carried_through_the_weights() -> None:
    """It becomes |W| times itself, layer by layer: an equality, up to the bound's own rounding."""
    stack = made(1, on_slice=False)
    wrong = np.linspace(1.0, 2.0, stack.hidden[0]) * 1e-3
    worse = replace(stack, first_slack=wrong)
    expected = wrong * (stack.reach.sum() + 1.0)
    for layer, (after, before) in enumerate(zip(worse.slacks, stack.slacks, strict=True)):
        if layer:
            expected = np.abs(stack.weights[layer]) @ expected
        assert after - before == pytest.approx(expected, rel=1e-8)  # 2^-30, and 1e-16 beside 1e-3


@pytest.mark.parametrize("on_slice", [False, True])
def test_scaling_changes_no_output(on_slice: bool) -> None:
    """The exact maps of the outputs are those of the network itself."""
    stack = made(2, on_slice=on_slice)
    everything = [np.ones(n, dtype=bool) for n in stack.hidden]
    (row,) = stack.exact_outputs(everything)
    y = [Fraction(1, 5), Fraction(-2, 7)]
    x = y
    if on_slice:
        third = Fraction(1, 3)
        x = [third + y[0], y[0] * third + y[1], 1 + y[1] * 3 * third / 7]
    for W, b in zip(stack.source.weights, stack.source.biases, strict=True):
        x = [
            sum((Fraction(w) * v for w, v in zip(own, x, strict=True)), Fraction(c))
            for own, c in zip(W.tolist(), b.tolist(), strict=True)
        ]
    assert row[0] * y[0] + row[1] * y[1] + row[2] == x[0]
    assert all(0.2 < size < 20 for sizes in stack.sizes for size in sizes)
