"""Frames of disguised models: rounds of reflections, and noise that is exact to take back."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks._legible_mutants import model_of

from hardmax.core import weight_arrays
from hardmax.numerics import lowest_bit
from hardmax.passes import add_noise, rotate
from hardmax.passes._disguise import drawn_rows


@pytest.mark.parametrize("width", [4, 7, 18])
def test_rounds_of_reflections_are_orthogonal_and_add_a_bit_each(width):
    for rounds in range(1, 7):
        rows = drawn_rows(width, rounds, np.random.default_rng(rounds))
        assert (rows.T @ rows == 4**rounds * np.eye(width)).all()
    one = drawn_rows(4, 1, np.random.default_rng(0))
    assert set(np.abs(one).flat) == {1}  # I - v v^T / 2: everything is 1/2 or -1/2


def test_turned_weights_are_exact_in_floats():
    """Three rounds add three bits: sums of them are not rounded, and turning back gives them."""
    model = model_of("sort")
    turned = rotate(model, 3, np.random.default_rng(1))
    axes = turned.circuit.axes
    assert turned.circuit.frame.grain is None
    layer, legible = (one.transformer.sublayers[1] for one in (turned, model))
    assert (layer.inner @ axes == legible.inner).all()
    assert (axes.T @ layer.outer == legible.outer).all()
    lowest = min(lowest_bit(w).min() for w in weight_arrays(model.transformer))
    assert min(lowest_bit(w).min() for w in weight_arrays(turned.transformer)) >= lowest - 3


def test_noise_moves_every_weight_by_at_most_so_much():
    model = rotate(model_of("histogram"), 2, np.random.default_rng(1))
    noise = 0.75 * 2.0**-20
    moved = add_noise(model, noise, np.random.default_rng(2))
    by = [
        a - b
        for a, b in zip(
            weight_arrays(moved.transformer), weight_arrays(model.transformer), strict=True
        )
    ]
    sizes = np.concatenate([np.abs(one).ravel() for one in by])
    assert 0.7 * 2.0**-20 < sizes.max() <= noise
    assert (sizes > 0.0).mean() > 0.9
    assert all((lowest_bit(one) >= -27).all() for one in by)
    assert moved.circuit.frame.grain is not None
    assert moved.claim is model.claim
