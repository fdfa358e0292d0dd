"""Compiled models in PyTorch: within the rounding bound that `core` derives from the weights."""

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.analysis import rounding_bound
from hardmax.core import reference
from hardmax.interop import write_torch
from hardmax.lowering import routes_for

RNG = np.random.default_rng(4)
RELU = hm.ReluNetwork(
    [RNG.normal(size=(9, 3)), RNG.normal(size=(7, 9)), RNG.normal(size=(2, 7))],
    [RNG.normal(size=9), RNG.normal(size=7), RNG.normal(size=2)],
)
MAXOUT = hm.MaxoutNetwork(
    [RNG.normal(size=(3, 5, 3)), RNG.normal(size=(2, 2, 5))],
    [RNG.normal(size=(3, 5)), RNG.normal(size=(2, 2))],
)
CPWL = hm.PiecewiseLinear.from_knots([-1, -0.5, 0.25, 1], [0.0, 1.0, -0.5, 0.75])
CASES = [(source, route) for source in (RELU, MAXOUT, CPWL) for route in routes_for(source)]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("source", "route"), CASES)
def test_the_module_agrees_with_the_reference_within_the_rounding_bound(source, route, dtype):
    """The bound is derived from the weights; 1% of the outputs' size shows that it says something.

    Inputs are numbers of the module's own format, so that both evaluate the same point.
    """
    construction = hm.compile(source, on=(-1, 1), error=1e-2, route=route)
    transformer, domain = construction.transformer, construction.claim.domain
    module = write_torch(construction, dtype)
    bound = rounding_bound(transformer, domain, dtype) + rounding_bound(transformer, domain)
    points = domain.sample(60, np.random.default_rng(1)).astype(dtype)
    with torch.no_grad():
        outputs = module(torch.from_numpy(points)).numpy().astype(float)
    expected = np.array([reference(transformer, point.astype(float)) for point in points])
    assert (np.abs(outputs - expected) <= bound).all()
    assert (bound <= 1e-2 * np.abs(expected).max()).all()


def test_the_float64_module_keeps_the_claim():
    construction = hm.compile(RELU, on=(-1, 1), error=1e-3, route="attention-only")
    module = write_torch(construction, "float64")
    points = construction.claim.domain.sample(2000, np.random.default_rng(2))
    with torch.no_grad():
        outputs = module(torch.from_numpy(points)).numpy()
    assert np.abs(outputs - RELU(points)).max() <= construction.claim.error
