"""Machines proved register by register: never below an error that a word attains, and small."""

import math
import random
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.sequences.registers import (
    RegisterMemory,
    bound_by_registers,
    picks_from_many,
)
from hardmax.checker.sequences.registers._state import near_grid
from hardmax.core import (
    Attention,
    Construction,
    FeedForward,
    Holding,
    Picked,
    Softmax,
    Transformer,
    Witness,
)
from hardmax.numerics import FLOAT32, FORMATS

DTYPES = {"float64": np.float64, "float32": np.float32}


def machine(states, symbols, length, seed, accepting=None):
    """A random machine, compiled in rounds."""
    rng = random.Random(seed)
    letters = "abcdefghij"[:symbols]
    table = {(i, c): rng.randrange(states) for i in range(states) for c in letters}
    program = hm.programs.fsm(table, 0, accepting)
    return hm.compile(program, alphabet=letters, length=length, route="parallel")


def evaluated(transformer, ids, dtype):
    """The answers for words of one length, all in one format: words x rows x outputs."""
    source, readout = transformer.input, transformer.readout
    cast = lambda part: part.astype(dtype)  # noqa: E731
    stream = cast(source.embedding)[ids]
    if source.start is not None:
        start = np.broadcast_to(cast(source.start), (len(ids), 1, source.width))
        stream = np.concatenate([start, stream], axis=1)
    stream = stream + cast(source.positions)[: stream.shape[1]]
    for layer in transformer.sublayers:
        if isinstance(layer, FeedForward):
            hidden = np.maximum(stream @ cast(layer.inner).T + cast(layer.inner_bias), 0)
            stream = stream + hidden @ cast(layer.outer).T + cast(layer.outer_bias)
        else:
            stream = stream + sum(received(head, stream, cast, dtype) for head in layer.heads)
    first = int(source.start is not None)
    assert stream.dtype == dtype
    return stream[:, first:] @ cast(readout.weights).T + cast(readout.bias)


def received(head, stream, cast, dtype):
    query, key = stream @ cast(head.query).T, stream @ cast(head.key).T
    scores = query @ key.swapaxes(1, 2)
    if head.causal:
        scores = np.where(np.tri(scores.shape[1], dtype=bool), scores, dtype(-np.inf))
    below = scores - scores.max(axis=2, keepdims=True)
    with np.errstate(under="ignore", over="ignore"):
        hard = np.isinf(head.coldness)
        powers = (below == 0).astype(dtype) if hard else np.exp(dtype(head.coldness) * below)
    weights = powers / powers.sum(axis=2, keepdims=True)
    return weights @ (stream @ cast(head.value).T) @ cast(head.output).T


def attained(made, steps, length, dtype):
    """The largest error over all words of a length."""
    symbols = len(made.claim.domain.alphabet)
    words = np.array(list(product(range(symbols), repeat=length)))
    wanted = np.array([steps.rows(word.tolist()) for word in words], dtype=float)
    with np.errstate(all="ignore"):
        away = np.abs(evaluated(made.transformer, words, dtype).astype(float) - wanted)
    return math.inf if np.isnan(away).any() else float(away.max())


def bound(made, length, name, steps=None, memory=None):
    steps = made.claim.target.steps() if steps is None else steps
    memory = RegisterMemory() if memory is None else memory
    return bound_by_registers(made, steps, length, FORMATS[name], memory)


@pytest.mark.parametrize(("states", "symbols", "length"), [(3, 2, 6), (4, 3, 4), (5, 3, 5)])
@pytest.mark.parametrize("name", DTYPES)
def test_bounds_are_small_and_hold(states, symbols, length, name):
    made = machine(states, symbols, length, seed=states)
    memory = RegisterMemory()
    for shorter in range(1, length + 1):
        steps = made.claim.target.steps()
        found = bound(made, shorter, name, steps, memory)
        assert attained(made, steps, shorter, DTYPES[name]) <= found <= 1e-8
        assert found == bound(made, shorter, name)  # what is remembered changes nothing


@pytest.mark.parametrize("name", DTYPES)
def test_the_answer_may_be_looked_up(name):
    state = machine(5, 2, 5, seed=7).claim.target.program.outputs[0]
    program = hm.Program(state.map(lambda number: number % 3), "state modulo 3")
    made = hm.compile(program, alphabet="ab", length=5, route="parallel")
    steps = made.claim.target.steps()
    assert attained(made, steps, 5, DTYPES[name]) <= bound(made, 5, name) <= 1e-6


@pytest.mark.parametrize("name", DTYPES)
def test_acceptance_may_be_told_by_size(name):
    """The state next to the border attains the bound, up to what the routing heads leak."""
    made = machine(5, 2, 5, seed=7, accepting=[1, 3])
    seen = attained(made, made.claim.target.steps(), 5, DTYPES[name])
    assert 0.3 < seen <= bound(made, 5, name) <= seen + 1e-6


def test_states_that_forget():
    """A state with one successor is a register that holds one number, whatever the symbol."""
    table = {(i, c): (i * i + k) % 6 for i in range(6) for k, c in enumerate("ab")}
    table[2, "a"] = table[2, "b"] = 5
    made = hm.compile(hm.programs.fsm(table, 0), alphabet="ab", length=5, route="parallel")
    steps = made.claim.target.steps()
    assert attained(made, steps, 5, np.float64) <= bound(made, 5, "float64") <= 1e-6


def test_coarse_formats_are_refused():
    made = machine(40, 2, 4, seed=1)
    assert bound(made, 4, "float64") < 1e-6
    assert not bound(made, 4, "float16") < 0.25


# --- corruptions --------------------------------------------------------------------------------


def with_array(made, rng, kind):
    """The construction with something changed in one array of the Transformer."""
    transformer = made.transformer
    layers = list(transformer.sublayers)
    source, readout = transformer.input, transformer.readout
    where = rng.randrange(len(layers) + 2)
    if where == len(layers):
        field = rng.choice(["embedding", "start", "positions"])
        source = replace(source, **{field: spoiled(getattr(source, field), rng, kind)})
    elif where == len(layers) + 1:
        readout = replace(readout, weights=spoiled(readout.weights, rng, kind))
    elif isinstance(layers[where], FeedForward):
        field = rng.choice(["inner", "inner_bias", "outer", "outer_bias"])
        layers[where] = replace(
            layers[where], **{field: spoiled(getattr(layers[where], field), rng, kind)}
        )
    else:
        head = layers[where].heads[0]
        field = rng.choice(["query", "key", "value", "output", "weighting", "causal"])
        if field == "weighting":
            change = {field: Softmax(rng.choice([0.5, 3.0, 8.0, 20.0]))}
        elif field == "causal":
            change = {field: True}
        else:
            change = {field: spoiled(getattr(head, field), rng, kind)}
        layers[where] = Attention([replace(head, **change)])
    return rebuilt(made, Transformer(source, layers, readout), made.witness)


def spoiled(array, rng, kind):
    array = np.array(array)
    flat = array.reshape(-1)
    full = np.flatnonzero(flat)
    place = int(rng.choice(full)) if len(full) and rng.random() < 0.7 else rng.randrange(flat.size)
    match kind:
        case "slightly":
            flat[place] += rng.choice([-1, 1]) * 10.0 ** -rng.uniform(1, 12)
        case "scaled":
            flat *= 1.0 + rng.choice([1e-9, 1e-4, 0.01])
        case "swapped":
            other = rng.randrange(flat.size)
            flat[[place, other]] = flat[[other, place]]
        case _:
            flat[place] += rng.choice([-2.0, -1.0, -0.5, 0.1, 1.0, 3.0])
    return array


def rebuilt(made, transformer, witness):
    return Construction(transformer, made.claim, witness, made.route)


def lying(made, rng):
    """Holdings with each other's values, or with any."""
    steps = len(made.claim.target.steps().steps)
    holdings = []
    for one in made.witness.holdings:
        value = one.value
        if rng.random() < 0.3:
            value = rng.choice([rng.choice(made.witness.holdings).value, rng.randrange(steps + 9)])
        holdings.append(replace(one, value=value))
    return rebuilt(made, made.transformer, Witness(holdings))


@pytest.mark.parametrize("kind", ["slightly", "scaled", "swapped", "plainly"])
@pytest.mark.parametrize("name", DTYPES)
def test_corrupted_weights_are_never_missed(kind, name):
    rng = random.Random(f"{kind} {name}")
    told = 0
    for trial in range(18):
        made = machine(rng.choice([3, 5]), 2, rng.choice([2, 3, 5]), seed=trial % 5)
        length = made.claim.domain.longest
        for _ in range(rng.choice([1, 1, 2])):
            made = with_array(made, rng, kind)
        found = bound(made, length, name)
        told += found < 1.0
        assert attained(made, made.claim.target.steps(), length, DTYPES[name]) <= found
    assert told > 2 or kind == "plainly"


@pytest.mark.parametrize("seed", range(30))
def test_a_lying_witness_proves_nothing_false(seed):
    rng = random.Random(seed)
    made = lying(machine(rng.choice([3, 4]), 2, 4, seed=seed % 7), rng)
    if rng.random() < 0.5:
        made = with_array(made, rng, "plainly")
    assert attained(made, made.claim.target.steps(), 4, np.float64) <= bound(made, 4, "float64")


@pytest.mark.parametrize("seed", range(30))
def test_the_steps_of_another_machine(seed):
    """Machines that differ in a few moves: their steps fit the weights of the other nearly."""
    rng = random.Random(seed)
    table = {(i, c): rng.randrange(4) for i in range(4) for c in "ab"}
    other = dict(table)
    other[rng.choice(list(table))] = rng.randrange(4)
    one, two = (
        hm.compile(hm.programs.fsm(t, 0), alphabet="ab", length=4, route="parallel")
        for t in (table, other)
    )
    steps = two.claim.target.steps()
    error = attained(one, steps, 4, np.float64)
    assert error <= bound(one, 4, "float64", steps)


def test_a_holding_of_another_shape_is_no_hint():
    made = machine(4, 2, 4, seed=3)
    odd = [
        Holding(0, -1, one.coordinates, one.value, [0], [0.0], 2 * one.weights, one.constants)
        for one in made.witness.holdings
    ]
    assert bound(rebuilt(made, made.transformer, Witness(odd)), 4, "float64") > 1.0
    assert bound(rebuilt(made, made.transformer, None), 4, "float64") > 1.0


# --- rounding -----------------------------------------------------------------------------------


def test_sums_near_a_grid_stray_by_their_noise_alone():
    """Whole numbers with specks: a float32 sum in any order is off by no more than the specks."""
    rng = np.random.default_rng(0)
    single = FLOAT32
    for _ in range(300):
        terms = int(rng.integers(2, 60))
        whole = rng.integers(-3000, 3000, terms).astype(float)
        if rng.random() < 0.5:
            whole[-1] -= whole.sum()
        specks = rng.normal(size=terms) * 10.0 ** -rng.uniform(10, 30) * (whole == 0)
        given = (whole + specks).astype(np.float32)
        noise = float(np.abs(given.astype(float) - whole).sum()) * (1 + 1e-12)
        lost = float(near_grid(terms, np.abs(whole).sum() + noise, noise, 0.0, single))
        total = np.float32(0)
        for one in given[rng.permutation(terms)]:
            total = total + one
        assert total.dtype == np.float32
        assert abs(float(total) - whole.sum()) <= noise + lost
    assert np.isinf(near_grid(3, 10.0, 1e-7, 0.0, single))  # specks of the size of a unit
    assert np.isinf(near_grid(3, 2.0**25, 0.0, 0.0, single))  # sums that need more digits


# --- a large machine ----------------------------------------------------------------------------


def test_fifty_states_at_length_64():
    made = machine(50, 10, 64, seed=1)
    memory = RegisterMemory()
    steps = made.claim.target.steps()
    assert picks_from_many(steps)
    assert bound(made, 64, "float64", steps, memory) <= 1e-5
    assert bound(made, 64, "float32", steps, memory) <= 1e-5
    assert sum(isinstance(step, Picked) for step in steps.steps) == 300


def test_a_machine_is_proved_through_the_door():
    made = machine(8, 2, 14, seed=2)
    proof = hm.certify(made)
    assert proof.verdict.name == "PROVED"
    assert proof.formats["float32"] <= 1e-6
