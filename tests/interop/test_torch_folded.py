"""Folded modules: within the certificate's rounding bound, whatever their heads look like."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.core import Attention, FeedForward, Head, Softmax, Transformer, reference
from hardmax.interop import write_torch
from hardmax.testing import zoo

BOX = hm.Box([-1.0, -1.0], [1.0, 1.0])
MODELS = [
    "x*y (direct, 0.001)",
    "x*y (direct-3, 0.01)",
    "x*y (recipe, 0.01)",
    "x*y (feedforward, 0.01)",
    "x**3 (recipe, 0.01)",
    "x**2 (anchors, 0.001)",
    "x**0.5 (universal, 0.01)",
    "1/x (anchors, 0.01)",
    "sin(x) (recipe, 0.01)",
    "abs(x) (direct, 0.001)",
    "sigmoid(x) (recipe, 0.01)",
    "max(x, y, z) (recipe, 0.01)",
    "max(x, y, z) (direct, 0.01)",
    "sin(x)*exp(-y)/(1 + x**2) (direct-2, 0.001)",
    "x*y, x + y, 7 (direct, 0.01)",
    "exp(x*y) - x (anchors, 0.01)",
    "ReLU 3-6-6-2 (attention, 0.001)",
    "ReLU 3-6-6-2 (attention-only, 0.001)",
    "maxout 2-3-2 (attention-only, 0.001)",
    "zigzag (attention-only, 0.001)",
]
UNFOLDED = {  # more than one token depends on the input
    "max(x, y, z) (direct, 0.01)",
    "exp(x*y) - x (anchors, 0.01)",
    "maxout 2-3-2 (attention-only, 0.001)",
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", MODELS)
def test_the_module_lies_within_the_certificates_own_bound(name: str, dtype: str) -> None:
    """Both forms, with and without gradients, in batches of several sizes.

    The reference is an evaluation in float64, so it may be off by the bound of float64 itself.
    """
    construction = zoo()[name].construction
    transformer, domain = construction.transformer, construction.claim.domain
    bounds = float_bounds(transformer, domain, (dtype, "float64"))
    bound = bounds[dtype] + bounds["float64"]
    points = domain.sample(6, np.random.default_rng(1)).astype(dtype)
    meant = np.array([reference(transformer, point.astype(float)) for point in points])
    module, x = write_torch(construction, dtype), torch.from_numpy(points)
    assert module.folded is (name not in UNFOLDED)
    for form in (module, write_torch(construction, dtype, fold=False)):
        found = [form(x), torch.cat([form(x[:4]), form(x[4:])]), torch.stack([*map(form, x)])]
        with torch.no_grad():
            found.append(form(x))
        for outputs in found:
            assert outputs.shape == meant.shape
            assert (np.abs(outputs.detach().double().numpy() - meant) <= bound).all()
    assert (bound <= 1e-2 * max(1.0, np.abs(meant).max())).all()  # it says something


# Heads that compilers do not make, too.

WIDTH = 5


def numbers(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Few entries, some of them 1 or -1, so that picks and plain copies occur."""
    some = rng.choice([0.0, 0.0, 1.0, -1.0, 0.75], size=shape)
    return some * np.where(rng.random(shape) < 0.5, 1.0, rng.uniform(0.3, 1.0, size=shape))


def head(rng: np.random.Generator, key_width: int, value_width: int, **more: object) -> Head:
    query, key = numbers(rng, 2, key_width, WIDTH)
    value, output = numbers(rng, value_width, WIDTH), numbers(rng, WIDTH, value_width)
    made = Head(query, key, value, output, Softmax(float(rng.uniform(0.5, 2.0))))
    return replace(made, **more)  # type: ignore[arg-type]


def drawn(seed: int, tokens: int) -> Transformer:
    """The last token depends on the input; layers of mixed shapes, the last of which sees all."""
    rng = np.random.default_rng(seed)
    maps, rows = np.zeros((tokens, WIDTH, 2)), rng.choice(WIDTH, 3, replace=False)
    maps[-1, rows] = rng.normal(size=(3, 2))
    source = hm.VectorInput(maps, numbers(rng, tokens, WIDTH))
    shapes = [(1, 1), (0, 2), (2, 1), (1, 3), (1, 1)]
    bias = rng.normal(size=(tokens, tokens))
    first = [head(rng, *shape, causal=True) for shape in shapes]
    first.append(head(rng, 1, 1, causal=True, position_bias=bias))
    middle = FeedForward(
        numbers(rng, 4, WIDTH), numbers(rng, 4), numbers(rng, WIDTH, 4), numbers(rng, WIDTH)
    )
    last = [head(rng, *shape, causal=bool(rng.random() < 0.5)) for shape in shapes]
    last.append(head(rng, 0, 1, position_bias=bias))
    readout = hm.ReadOut(numbers(rng, 2, WIDTH), numbers(rng, 2))
    return Transformer(source, [Attention(first), middle, Attention(last)], readout)


@pytest.mark.parametrize("tokens", [1, 2, 3])
def test_mixed_heads_mean_what_the_reference_means(tokens: int) -> None:
    for seed in range(3):
        transformer = drawn(seed, tokens)
        bound = 2.0 * float_bounds(transformer, BOX, ("float64",))["float64"]
        module = write_torch(transformer)
        assert module.folded
        points = BOX.sample(4, np.random.default_rng(seed))
        with torch.no_grad():
            found = module(torch.tensor(points)).numpy()
        meant = np.array([reference(transformer, point) for point in points])
        assert (np.abs(found - meant) <= bound).all(), seed
        assert (bound < 1e-6).all()  # a wrong head is off by more


def gate(own: float, other: float, by_own: float, by_other: float, coldness: float) -> Transformer:
    """Two tokens with these keys and values; the query is x."""
    maps, offsets, rows = np.zeros((2, 4, 1)), np.zeros((2, 4)), np.eye(4)
    maps[1, 0, 0] = 1.0
    offsets[:, 1], offsets[:, 2] = (other, own), (by_other, by_own)
    one = Head(rows[[0]], rows[[1]], rows[[2]], rows[:, [3]], Softmax(coldness), causal=True)
    source = hm.VectorInput(maps, offsets)
    return Transformer(source, [Attention([one])], hm.ReadOut(rows[[3]], [0.0]))


GATES = [
    (0.5, -0.5, 3.0, 0.0, 2.0),
    (-0.5, 0.5, 0.0, 3.0, 3.0),
    (0.0, 1.5, 3.0, 0.0, 0.7),
    (1.5, 0.0, 0.0, 3.0, 0.7),
    (-4.0, 4.0, 0.0, -3.0, 500.0),
    (0.25, 0.0, 1.0, 0.0, 9.0),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", GATES)
def test_a_gate_is_the_softmax_of_two_tokens(case: tuple[float, ...], dtype: str) -> None:
    """Also where one of the weights vanishes."""
    transformer, box = gate(*case), hm.Box([-1.0], [1.0])
    module = write_torch(transformer, dtype)
    (heads,) = module.blocks[0].heads
    assert type(heads).__name__ == "GateHeads"
    bounds = float_bounds(transformer, box, (dtype, "float64"))
    x = torch.linspace(-1.0, 1.0, 65, dtype=torch.float64).to(getattr(torch, dtype))[:, None]
    with torch.no_grad():
        found = module(x).double().numpy()
    assert np.array_equal(found, module(x).detach().double().numpy())
    meant = np.array([reference(transformer, [float(point)]) for point in x])
    assert (np.abs(found - meant) <= bounds[dtype] + bounds["float64"]).all()


@pytest.mark.parametrize("case", [(0.5, -0.25, 3.0, 0.0, 2.0), (0.5, -0.5, 3.0, 1.0, 2.0)])
def test_other_pairs_of_keys_or_values_are_no_gates(case: tuple[float, ...]) -> None:
    (heads,) = write_torch(gate(*case)).blocks[0].heads
    assert type(heads).__name__ == "SoftmaxHeads"


def test_a_constant_that_sees_the_input_is_not_folded() -> None:
    """Neither where an uncausal head lets it, nor where the answer is read from another token."""
    transformer = drawn(0, 3)
    first, *rest = transformer.sublayers
    assert isinstance(first, Attention)
    seeing = Attention([*first.heads[:1], replace(first.heads[1], causal=False)])
    for other in (
        Transformer(transformer.input, [seeing, *rest], transformer.readout),
        Transformer(
            transformer.input, transformer.sublayers, replace(transformer.readout, token=0)
        ),
    ):
        module = write_torch(other)
        assert not module.folded
        point = np.array([0.3, -0.8])
        bound = 2.0 * float_bounds(other, BOX, ("float64",))["float64"]
        found = module(torch.tensor(point)).detach().numpy()
        assert (np.abs(found - reference(other, point)) <= bound).all()


# The module is an ordinary one.


@cache
def network(route: str) -> hm.Construction:
    rng = np.random.default_rng(0)
    shapes = [(6, 3), (5, 6), (2, 5)]
    weights, biases = [rng.normal(size=s) for s in shapes], [rng.normal(size=s[0]) for s in shapes]
    return hm.compile(hm.ReluNetwork(weights, biases), on=(-1, 1), error=0.05, route=route)


def test_a_network_becomes_gates_over_the_slots_that_are_read() -> None:
    module = write_torch(network("attention-only"))
    kinds = [[type(heads).__name__ for heads in block.heads] for block in module.blocks]
    assert kinds == [["GateHeads"], ["GateHeads", "SteadyHeads"]]  # two units are always on
    read = torch.rand(7, 3, dtype=torch.float64)
    widths = []
    for block in module.blocks:
        block.register_forward_hook(lambda _block, _given, made: widths.append(made.shape[1]))
    module(read)
    assert widths == [5, 2]


@pytest.mark.parametrize("route", ["attention", "attention-only", "feedforward"])
def test_gradients_are_those_of_finite_differences(route: str) -> None:
    """`gradcheck` compares with central differences, and derives its tolerance from its step."""
    point = torch.tensor([[0.3, -0.4, 0.7]], dtype=torch.float64, requires_grad=True)
    for module in (write_torch(network(route)), write_torch(network(route), fold=False)):
        assert torch.autograd.gradcheck(module, point)
        module(point).square().sum().backward()
        sizes = [p.grad.abs().sum() for p in module.parameters() if p.grad is not None]
        assert len(sizes) == len([*module.parameters()])
        assert sum(sizes) > 0


def test_large_batches_go_in_pieces_unless_somebody_looks() -> None:
    module = write_torch(network("attention"))
    x = torch.rand(11, 3, dtype=torch.float64)
    seen: list[int] = []
    embed = module.embedding.forward
    module.embedding.forward = lambda given: (seen.append(len(given)), embed(given))[1]
    module._rows = 4
    with torch.no_grad():
        assert module(x).shape == (11, 2)
        module.blocks[0].register_forward_hook(lambda *_: None)
        module(x)
    module(x)
    assert seen == [4, 4, 3, 11, 11]


def test_states_copies_and_formats() -> None:
    module, x = write_torch(network("attention")), torch.rand(9, 3, dtype=torch.float64)
    other = copy.deepcopy(module)
    for tensor in other.state_dict().values():
        tensor.fill_(0.25)
    assert not torch.equal(module(x), other(x))
    other.load_state_dict(module.state_dict())
    assert torch.equal(module(x), other(x))
    assert torch.equal(copy.deepcopy(module).float()(x.float()), other.float()(x.float()))


def test_a_folded_module_has_no_patterns_and_says_so() -> None:
    with pytest.raises(hm.RequestError, match="fold=False"):
        write_torch(network("attention")).patterns(torch.zeros(3, dtype=torch.float64))


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(hm.ShapeError, match=r"\(batch, 3\)"):
        write_torch(network("attention"))(torch.zeros(2, 4, dtype=torch.float64))
