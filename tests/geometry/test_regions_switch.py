"""Regions of whatever chooses by an argmax of affine forms, against formulas and brute force.

The brute force below knows nothing of polytopes: a cell is a list of strict inequalities over the
rationals, which Fourier-Motzkin elimination decides.
"""

from __future__ import annotations

import json
import pickle
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from pathlib import Path

import numpy as np
import pytest

from hardmax import DomainError, RequestError, SemanticsError
from hardmax.core import (
    Attention,
    Box,
    FeedForward,
    Hardmax,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Transformer,
    VectorInput,
    reference,
)
from hardmax.geometry import bounds
from hardmax.geometry.bounds._depth_construction import depth_construction
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting._tally import OverLimit, total
from hardmax.geometry.counting.switch._counting import count_piece, each_cell, split_piece
from hardmax.geometry.counting.switch._piece import start_piece
from hardmax.geometry.counting.switch._program import QuadraticWalls
from hardmax.geometry.counting.switch._regions import (
    count_regions,
    count_unions,
    kept_cells,
    leaf_keys,
    twins,
)
from hardmax.geometry.counting.switch._sources import switch_program
from hardmax.geometry.diagrams._diagram import power_diagram
from hardmax.geometry.tropical._tropical import Tropical
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork

DATA = Path(__file__).parents[1] / "data" / "regions"
EXPECTED = json.loads((DATA / "expected_counts.json").read_text())["nets"]


def box(dimension: int, low: float = -1.0, high: float = 1.0) -> Box:
    return Box(np.full(dimension, low), np.full(dimension, high))


def counted(source, domain, **options) -> tuple[int, int]:
    """Cells and regions."""
    found = count_regions(switch_program(source, domain), domain, **options)
    return found.tally.cells, found.regions


def layers(source, domain, **options) -> tuple[int, ...]:
    program = switch_program(source, domain)
    return count_piece(program, start_piece(program, domain), **options).layers


def saved(name: str) -> ReluNetwork:
    with np.load(DATA / f"{name}.npz") as file:
        count = sum(key.startswith("W") for key in file.files)
        weights = [file[f"W{i + 1}"] for i in range(count)]
        return ReluNetwork(weights, [file[f"b{i + 1}"] for i in range(count)])


# ---------------------------------------------------------------- brute force


def feasible(rows, equal=()) -> bool:
    """Whether c . x + c0 > 0 for all rows, and = 0 for the equal ones, has a solution."""
    rows, equal = {primitive(r) for r in rows}, [tuple(r) for r in equal]
    while equal:
        form = equal.pop()
        place = next((i for i, x in enumerate(form[:-1]) if x), None)
        if place is None:
            if form[-1]:
                return False
            continue
        rows = {primitive(cleared(row, form, place)) for row in rows}
        equal = [cleared(row, form, place) for row in equal]
    for place in range(len(next(iter(rows), (0,))) - 1):
        up = [r for r in rows if r[place] > 0]
        down = [r for r in rows if r[place] < 0]
        rows = {r for r in rows if not r[place]}
        rows |= {
            primitive([p * -b[place] + q * a[place] for p, q in zip(a, b, strict=True)])
            for a, b in product(up, down)
        }
    return all(row[-1] > 0 for row in rows)


def cleared(row, form, place):
    share = Fraction(row[place]) / form[place]
    return tuple(x - share * y for x, y in zip(row, form, strict=True))


def primitive(row):
    lead = next((abs(x) for x in row if x), 1)
    return tuple(Fraction(x) / lead for x in row)


def less(one, other):
    return tuple(x - y for x, y in zip(one, other, strict=True))


def plus(*rows):
    return tuple(sum(entries) for entries in zip(*rows, strict=True))


def scaled(factor, row):
    return tuple(factor * x for x in row)


def linear(matrix, forms):
    """matrix @ forms; a matrix without columns gives no forms to add, hence the zero."""
    zero = scaled(0, forms[0])
    return [plus(zero, *(scaled(Fraction(w), f) for w, f in zip(r, forms, strict=True)))
            for r in np.asarray(matrix).tolist()]  # fmt: skip


def raised(forms, bias):
    return [(*f[:-1], f[-1] + Fraction(b)) for f, b in zip(forms, bias.tolist(), strict=True)]


def choose(cell, forms):
    """The parts of a cell where each form is largest, and which forms are equal to it."""
    classes: dict = {}
    for i, form in enumerate(forms):
        classes.setdefault(form, []).append(i)
    for form, tied in classes.items():
        rows = [*cell, *(less(form, other) for other in classes if other != form)]
        if feasible(rows):
            yield rows, tuple(tied)


def choices(cell, groups):
    """Every way in which the groups can choose together."""
    found = [(cell, ())]
    for forms in groups:
        found = [(part, (*won, tied)) for old, won in found for part, tied in choose(old, forms)]
    return found


def identity(domain: Box):
    d = domain.dimension
    forms = [tuple(Fraction(int(i == j)) for j in range(d + 1)) for i in range(d)]
    walls = []
    for i, form in enumerate(forms):
        walls.append((*form[:-1], -Fraction(domain.low[i])))
        walls.append((*scaled(-1, form)[:-1], Fraction(domain.high[i])))
    return forms, walls


def maxout_cells(network: MaxoutNetwork, domain: Box):
    forms, walls = identity(domain)
    found = [(walls, forms)]
    for W, b in zip(network.weights, network.biases, strict=True):
        new = []
        for cell, state in found:
            pieces = [raised(linear(W[p], state), b[p]) for p in range(len(W))]
            groups = [list(unit) for unit in zip(*pieces, strict=True)]
            for part, won in choices(cell, groups):
                new.append((part, [g[tied[0]] for g, tied in zip(groups, won, strict=True)]))
        found = new
    return found


def transformer_cells(model: Transformer, domain: Box):
    """Cells by what followed tokens choose; asserts that scores are affine on each."""
    forms, walls = identity(domain)
    source = model.input
    stream = [
        raised(linear(source.maps[t], forms), source.offsets[t]) for t in range(source.tokens)
    ]
    found = [(walls, stream)]
    for number, layer in enumerate(model.sublayers):
        asking = followed(model, number + 1)
        step = fed if isinstance(layer, FeedForward) else attended
        found = [new for cell, now in found for new in step(layer, cell, now, asking)]
    token = model.readout.token
    return [
        (cell, raised(linear(model.readout.weights, now[token]), model.readout.bias))
        for cell, now in found
    ]


def followed(model: Transformer, number: int) -> list[int]:
    """What can still reach the read-out from before sublayer `number`."""
    tokens = {model.readout.token % model.tokens}
    for layer in model.sublayers[number:][::-1]:
        if isinstance(layer, Attention):
            seen = [
                j for t in tokens for head in layer.heads
                for j in range(t + 1 if head.causal else model.tokens)
            ]  # fmt: skip
            tokens |= set(seen)
    return sorted(tokens)


def fed(layer: FeedForward, cell, stream, asking):
    hidden = {t: raised(linear(layer.inner, stream[t]), layer.inner_bias) for t in asking}
    zero = scaled(0, stream[0][0])
    groups = [[zero, z] for t in asking for z in hidden[t]]
    for part, won in choices(cell, groups):
        on = iter(won)
        new = list(stream)
        for t in asking:
            active = [z if next(on) == (1,) else zero for z in hidden[t]]
            change = raised(linear(layer.outer, active) if active else [], layer.outer_bias)
            new[t] = [plus(a, b) for a, b in zip(stream[t], change, strict=True)]
        yield part, new


def attended(layer: Attention, cell, stream, asking):
    groups, places = [], []
    for t in asking:
        for head in layer.heads:
            seen = range(t + 1 if head.causal else len(stream))
            groups.append([score(head, stream, t, j) for j in seen])
            places.append((t, head))
    for part, won in choices(cell, groups):
        new = list(stream)
        for (t, head), tied in zip(places, won, strict=True):
            values = [linear(head.output, linear(head.value, stream[j])) for j in tied]
            for c, rows in enumerate(zip(*values, strict=True)):
                new[t] = [*new[t]]
                new[t][c] = plus(new[t][c], scaled(Fraction(1, len(tied)), plus(*rows)))
        yield part, new


def score(head: Head, stream, t: int, j: int):
    total = scaled(0, stream[0][0])
    both = zip(linear(head.query, stream[t]), linear(head.key, stream[j]), strict=True)
    for q, k in both:
        assert not any(q[:-1]) or not any(k[:-1]), "a quadratic score"
        total = plus(total, scaled(q[-1], k) if not any(q[:-1]) else scaled(k[-1], q))
    bias = 0 if head.position_bias is None else Fraction(float(head.position_bias[t, j]))
    return (*total[:-1], total[-1] + bias)


def regions_of(cells) -> int:
    """Components under: one map, and an open part of a wall in common."""
    parent = list(range(len(cells)))

    def top(i):
        return i if parent[i] == i else top(parent[i])

    for a, b in combinations(range(len(cells)), 2):
        (one, f), (other, g) = cells[a], cells[b]
        if list(f) == list(g) and top(a) != top(b) and meet(one, other):
            parent[top(a)] = top(b)
    return len({top(i) for i in range(len(cells))})


def meet(one, other) -> bool:
    one, other = {primitive(r) for r in one}, {primitive(r) for r in other}
    for wall in one:
        facing = primitive(scaled(-1, wall))
        if facing in other and feasible((one - {wall}) | (other - {facing}), [wall]):
            return True
    return False


def agreed(source, domain: Box, cells) -> None:
    """Cells and regions equal those of brute force, in exact mode."""
    assert counted(source, domain) == (len(cells), regions_of(cells))


# ---------------------------------------------------------------- tiny sources, brute force


def whole_maxout(seed: int, widths, ranks) -> MaxoutNetwork:
    """Weights from -1, 0, 1: walls coincide, touch and meet in points all the time."""
    rng = np.random.default_rng(seed)
    weights = [
        rng.integers(-1, 2, size=(k, b, a)).astype(float)
        for k, a, b in zip(ranks, widths, widths[1:], strict=False)
    ]
    biases = [rng.integers(-1, 2, size=W.shape[:2]).astype(float) for W in weights]
    return MaxoutNetwork(weights, biases)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("widths", "ranks"),
    [((1, 3, 2), (3, 2)), ((2, 2, 2, 1), (3, 2, 2)), ((3, 2, 1), (3, 2))],
)
def test_degenerate_maxout_networks(seed: int, widths, ranks) -> None:
    network, domain = whole_maxout(seed, widths, ranks), box(widths[0], -2, 2)
    agreed(network, domain, maxout_cells(network, domain))


def keyed(
    seed: int,
    *,
    d: int,
    constants: int,
    depth: int,
    causal: bool,
    hidden: int = 0,
    turned: bool = False,
):
    """Constant tokens, then one that moves in its first d coordinates; keys read the rest.

    Heads write anywhere, so that keys of the moving token change from cell to cell. Turned round,
    the moving token comes first, and queries read the rest: constant tokens choose, and some move
    from then on.
    """
    rng = np.random.default_rng(seed)
    width, tokens = d + 2, constants + 1
    maps, offsets = np.zeros((tokens, width, d)), rng.integers(-2, 3, size=(tokens, width))
    maps[0 if turned else -1, range(d), range(d)] = 1.0
    sublayers: list = []
    for _ in range(depth):
        query, key = rng.integers(-1, 2, size=(2, 2, width)).astype(float)
        (query if turned else key)[:, :d] = 0.0
        value = rng.integers(-1, 2, size=(2, width)).astype(float)
        value[1, :d] = 0.0
        output = rng.integers(-1, 2, size=(width, 2)).astype(float)
        output[d:, 0] = 0.0  # what moves stays in the coordinates that no key reads
        sublayers.append(Attention([Head(query, key, value, output, causal=causal)]))
        if hidden:
            inner, outer = (rng.integers(-1, 2, size=s) for s in ((hidden, width), (width, hidden)))
            outer[d:] = 0
            bias = rng.integers(-1, 2, size=hidden)
            sublayers.append(FeedForward(inner, bias, outer, rng.integers(-1, 2, size=width)))
    readout = ReadOut(rng.integers(-1, 2, size=(2, width)).astype(float), np.zeros(2))
    return Transformer(VectorInput(maps, offsets.astype(float)), sublayers, readout)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "sizes",
    [
        {"d": 1, "constants": 3, "depth": 2, "causal": False},
        {"d": 2, "constants": 3, "depth": 3, "causal": True, "hidden": 2},
        {"d": 2, "constants": 2, "depth": 2, "causal": False},
        {"d": 3, "constants": 2, "depth": 1, "causal": True, "hidden": 1},
        {"d": 2, "constants": 2, "depth": 2, "causal": True, "hidden": 1, "turned": True},
        {"d": 1, "constants": 2, "depth": 3, "causal": False, "hidden": 1, "turned": True},
    ],
    ids=lambda sizes: "-".join(map(str, sizes.values())),
)
def test_degenerate_transformers(seed: int, sizes) -> None:
    """Ties on open sets, keys that jump between cells, constant tokens that choose."""
    model, domain = keyed(seed, **sizes), box(sizes["d"], -3, 3)
    agreed(model, domain, transformer_cells(model, domain))


# ---------------------------------------------------------------- known counts


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize("fast", [False, True])
def test_relu_networks_have_the_expected_cells(name: str, fast: bool) -> None:
    network = saved(name)
    expected = tuple(EXPECTED[name]["regions_after_each_layer"])
    assert layers(network, box(network.inputs), fast=fast) == expected


def test_a_relu_network_written_as_maxout_has_the_same_cells() -> None:
    network = saved("d2_16x2")
    *hidden, last = zip(network.weights, network.biases, strict=True)
    maxout = MaxoutNetwork(
        [*(np.stack([W, 0 * W]) for W, _ in hidden), last[0][None]],
        [*(np.stack([b, 0 * b]) for _, b in hidden), last[1][None]],
    )
    assert counted(maxout, box(2)) == counted(network, box(2))


def folding(teeth: int, d: int, depth: int) -> ReluNetwork:
    """Per coordinate x -> p relu(x) + 2p sum_m (-1)^m relu(x - m/p), `depth` times."""
    inner, outer = np.zeros((d * teeth, d)), np.zeros((d, d * teeth))
    bias = np.tile(-np.arange(teeth) / teeth, d)
    for i, m in product(range(d), range(teeth)):
        inner[i * teeth + m, i] = 1.0
        outer[i, i * teeth + m] = teeth if m == 0 else 2 * teeth * (-1) ** m
    weights = [inner, *[inner @ outer] * (depth - 1), outer]
    return ReluNetwork(weights, [*[bias] * depth, np.zeros(d)])


@pytest.mark.parametrize(
    ("teeth", "d", "depth"), [(2, 1, 4), (3, 1, 3), (4, 2, 2), (2, 2, 3), (2, 3, 2), (3, 3, 1)]
)
def test_folding_networks(teeth: int, d: int, depth: int) -> None:
    """Walls touch without crossing; teeth of a third are no floats, so cells only nearly fit.

    With p = 3 the walls are where the floats put them: some cross a little, and the count is that
    of the network as it is. Powers of two are exact: p^(L d).
    """
    cells, regions = counted(folding(teeth, d, depth), box(d, 0, 1))
    if teeth & (teeth - 1) == 0:
        assert (cells, regions) == (teeth ** (depth * d),) * 2
        assert counted(folding(teeth, d, depth), box(d, 0, 1), fast=True) == (cells, regions)
    else:
        assert cells >= teeth ** (depth * d)


@pytest.mark.parametrize(
    ("tokens", "teeth", "d", "depth"),
    [(3, 1, 1, 2), (5, 0, 1, 3), (2, 1, 2, 2), (3, 1, 2, 2), (3, 0, 2, 2), (2, 0, 3, 2),
     (2, 1, 3, 1), (3, 0, 4, 1)],
)  # fmt: skip
def test_the_depth_construction(tokens: int, teeth: int, d: int, depth: int) -> None:
    """(2wN)^(dL) cells, each of them a region; the constant tokens are followed, and stay."""
    model = depth_construction(tokens=tokens, teeth=teeth, dimension=d, layers=depth)
    expected = (max(2 * teeth, 1) * tokens) ** (d * depth)
    assert counted(model, box(d, 0, 1)) == (expected, expected)


def one_layer(keys, values) -> Transformer:
    """Heads with given keys and biases, asked by a moving token whose own key never wins.

    Constant token j holds head h's key in block h; position biases do the rest.
    """
    d, count = keys[0].keys.shape[1], len(keys[0].keys)
    width = d + d * len(keys) + len(keys) + len(keys)
    maps, offsets = np.zeros((count + 1, width, d)), np.zeros((count + 1, width))
    maps[-1, range(d), range(d)] = 1.0
    heads = []
    for h, given in enumerate(keys):
        query, key = np.zeros((2, d, width))
        value, output = np.zeros((1, width)), np.zeros((width, 1))
        block = d + h * d
        query[:, :d] = np.eye(d)
        key[:, block : block + d] = np.eye(d)
        offsets[:-1, block : block + d] = given.keys
        mark = d + d * len(keys) + h
        offsets[:-1, mark] = values[h]
        value[0, mark] = output[mark + len(keys), 0] = 1.0
        bias = np.zeros((count + 1, count + 1))
        bias[-1] = [*given.biases, -1e18]
        heads.append(Head(query, key, value, output, position_bias=bias))
    readout = np.eye(width)[width - len(keys) :]
    model = VectorInput(maps, offsets)
    return Transformer(model, [Attention(heads)], ReadOut(readout, np.zeros(len(keys))))


@pytest.mark.parametrize(
    ("d", "heads", "tokens"),
    [(1, 3, 4), (2, 2, 3), (2, 3, 3), (2, 2, 4), (2, 4, 2), (3, 2, 3), (3, 4, 3), (4, 3, 2)],
)
def test_attaining_keys_attain(d: int, heads: int, tokens: int) -> None:
    """Parallel walls in generic directions: the exact maximum of one layer, all cells regions."""
    keys = bounds.attaining_keys(tokens, heads, dimension=d)
    expected = bounds.several_heads(tokens, heads, dimension=d).value
    model = one_layer(keys, [np.arange(tokens)] * heads)
    assert counted(model, box(d, -1e6, 1e6)) == (expected, expected)


@pytest.mark.parametrize(("d", "units", "rank"), [(1, 4, 3), (2, 4, 3), (3, 3, 4), (2, 6, 2)])
def test_one_maxout_layer_attains_its_maximum(d: int, units: int, rank: int) -> None:
    keys = bounds.attaining_keys(rank, units, dimension=d)
    weights = np.stack([one.keys for one in keys], axis=1).astype(float)
    biases = np.stack([one.biases for one in keys], axis=1).astype(float)
    network = MaxoutNetwork([weights], [biases])
    expected = sum(comb(units, j) * (rank - 1) ** j for j in range(d + 1))
    assert counted(network, box(d, -1e6, 1e6)) == (expected, expected)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_one_maximum_is_a_power_diagram(d: int) -> None:
    rng = np.random.default_rng(d)
    weights, biases = rng.normal(size=(40, d)), rng.normal(size=40)
    live = len(power_diagram(weights, biases, on=box(d)).live)
    assert counted(MaxAffine(weights, biases), box(d)) == (live, live)
    assert counted(Tropical.of(weights, biases), box(d)) == (live, live)


def test_a_cell_with_a_hundred_and_fifty_sides() -> None:
    """More facets and vertices than buffers begin with: a polygon cut out by tangents."""
    angles = np.arange(150) * 2 * np.pi / 150
    slopes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    source = MaxAffine(np.vstack([[[0.0, 0.0]], slopes]), [0.0, *[-0.5] * 150])
    assert counted(source, box(2)) == (151, 151)
    program = switch_program(source, box(2))
    assert 150 in {len(cell.sides) for cell in each_cell(program, start_piece(program, box(2)))}


# ---------------------------------------------------------------- regions that are unions


def test_the_identity_as_two_rectifiers_is_one_region() -> None:
    """relu(x) - relu(-x): 2 cells, 1 region; in maxout form too."""
    weights, biases = [[[1.0], [-1.0]], [[1.0, -1.0]]], [[0.0, 0.0], [0.0]]
    assert counted(ReluNetwork(weights, biases), box(1)) == (2, 1)
    maxout = MaxoutNetwork(
        [[weights[0], [[0.0], [0.0]]], [weights[1]]], [[biases[0], biases[0]], [biases[1]]]
    )
    assert counted(maxout, box(1)) == (2, 1)
    assert counted(maxout, box(1), fast=True) == (2, 1)


def test_a_difference_that_cancels_is_one_region() -> None:
    """f - f for f = max(x, y, 0) is 0: three cells, joined in a chain."""
    part = MaxAffine([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.0])
    assert counted(PiecewiseLinear(part, part), box(2)) == (3, 1)
    zero = Tropical.of_max_affine(part) - Tropical.of_max_affine(part)
    assert counted(zero, box(2)) == (3, 1)


def test_a_dead_output_joins_everything_in_three_dimensions() -> None:
    network = saved("d3_16x2")
    weights = [*network.weights[:-1], 0 * network.weights[-1]]
    dead = ReluNetwork(weights[:1] + weights[-1:], network.biases[:1] + network.biases[-1:])
    cells = EXPECTED["d3_16x2"]["regions_after_each_layer"][0]
    assert counted(dead, box(3)) == (cells, 1)


def test_two_keys_with_one_value_are_one_region() -> None:
    keys = bounds.attaining_keys(3, 1, dimension=2)
    assert counted(one_layer(keys, [[1.0, 1.0, 2.0]]), box(2, -99, 99)) == (3, 2)
    assert counted(one_layer(keys, [[1.0, 2.0, 1.0]]), box(2, -99, 99)) == (3, 3)


def test_repeated_keys_share_the_win() -> None:
    """One cell for both, and the mean of their values there."""
    (key,) = bounds.attaining_keys(2, 1, dimension=1)
    index = [0, 1, 1]
    twice = type(key)(key.keys[index], key.biases[index])
    model = one_layer([twice], [[0.0, 1.0, 4.0]])
    program, domain = switch_program(model, box(1, -99, 99)), box(1, -99, 99)
    cells = list(each_cell(program, start_piece(program, domain)))
    constants = sorted((cell.map[0][-1], cell.pattern[0][-1]) for cell in cells)
    assert constants == [(0, (0,)), (Fraction(5, 2), (1, 2))]


def test_one_side_may_border_two_cells() -> None:
    """Behind a jump walls need not go on: left of x = 0 nothing else happens, right of it y folds.

    Token 0 wins for x < 0 and lifts y by -10, so that relu(y + ...) is off there. With a dead
    output all three cells are one region; reading y keeps the folded parts apart.
    """
    maps, offsets = np.zeros((3, 4, 2)), np.zeros((3, 4))
    maps[2, [0, 1], [0, 1]] = 1.0
    offsets[:, 2] = [-1.0, 1.0, 0.0]
    offsets[:, 3] = [-10.0, 0.0, 0.0]
    query, key = np.zeros((2, 1, 4))
    query[0, 0] = key[0, 2] = 1.0
    value, output = np.zeros((1, 4)), np.zeros((4, 1))
    value[0, 3] = output[1, 0] = 1.0
    bias = np.array([[0.0] * 3, [0.0] * 3, [0.0, 0.0, -99.0]])
    head = Head(query, key, value, output, position_bias=bias)
    fold = FeedForward([[0.0, 1.0, 0.0, 0.0]], [0.0], [[0.0], [-1.0], [0.0], [0.0]], [0.0] * 4)
    for weights, regions in (([[0.0] * 4], 1), ([[1.0, 0.0, 0.0, 0.0]], 1), (np.eye(2, 4), 3)):
        readout = ReadOut(weights, np.zeros(len(weights)))
        model = Transformer(VectorInput(maps, offsets), [Attention([head]), fold], readout)
        assert counted(model, box(2)) == (3, regions)


def checkerboard(d: int) -> Transformer:
    """Two heads see the signs of x_1 and x_2, two rectifiers say whether they differ."""
    width = d + 4
    maps, offsets = np.zeros((3, width, d)), np.zeros((3, width))
    maps[2, range(d), range(d)] = 1.0
    offsets[:2, d], offsets[:2, d + 1] = [-1.0, 1.0], [0.0, 1.0]
    bias = np.zeros((3, 3))
    bias[2, 2] = -99.0
    heads = []
    for i in (0, 1):
        query, key, value = np.zeros((3, 1, width))
        query[0, i] = key[0, d] = value[0, d + 1] = 1.0
        output = np.eye(width)[:, [d + 2 + i]]
        heads.append(Head(query, key, value, output, position_bias=bias))
    inner = np.zeros((2, width))
    inner[:, d + 2 :] = [[1.0, -1.0], [-1.0, 1.0]]
    outer = np.zeros((width, 2))
    outer[d] = 1.0
    differ = FeedForward(inner, np.zeros(2), outer, np.zeros(width))
    readout = ReadOut(np.eye(width)[[d]], np.zeros(1))
    return Transformer(VectorInput(maps, offsets), [Attention(heads), differ], readout)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_fields_of_one_colour_that_touch_in_a_corner_are_not_joined(d: int) -> None:
    """Their facets lie in one hyperplane, on two sides of it, and share no open part of it."""
    assert counted(checkerboard(d), box(d)) == (4, 4)


# ---------------------------------------------------------------- cells, pieces, slices


def area(vertices) -> Fraction:
    """Of a convex polygon whose vertices come in any order."""
    middle = [sum(v[i] for v in vertices) / len(vertices) for i in (0, 1)]
    way = sorted(
        vertices, key=lambda v: np.arctan2(float(v[1] - middle[1]), float(v[0] - middle[0]))
    )
    pairs = zip(way, way[1:] + way[:1], strict=True)
    return sum((a[0] * b[1] - a[1] * b[0] for a, b in pairs), Fraction(0)) / 2


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("turned", [False, True])
def test_cells_fill_the_domain_and_carry_their_maps(seed: int, turned: bool) -> None:
    """Exact areas add up; inside each cell the model is the cell's map, exactly."""
    model = keyed(seed, d=2, constants=3, depth=2, causal=False, hidden=2, turned=turned)
    domain = box(2, -3, 3)
    program = switch_program(model, domain)
    cells = list(each_cell(program, start_piece(program, domain)))
    assert sum(area(list(cell.exact_vertices)) for cell in cells) == 36
    assert len({cell.pattern for cell in cells}) == len(cells)
    for cell in cells:
        x = [sum(v[i] for v in cell.exact_vertices) / len(cell.exact_vertices) for i in (0, 1)]
        assert all(sum(a * b for a, b in zip(w, [*x, 1], strict=True)) > 0 for w in cell.walls)
        value = [sum(a * b for a, b in zip(row, [*x, 1], strict=True)) for row in cell.map]
        assert value == reference(model, x, Fraction)


@pytest.mark.parametrize("source", [saved("d2_32x3"), folding(4, 2, 2),
                                    keyed(1, d=2, constants=3, depth=2, causal=False)])  # fmt: skip
def test_pieces_add_up(source) -> None:
    """However a domain is split, and after a trip through pickle, tallies and regions agree."""
    program = switch_program(source, box(2))
    whole = start_piece(program, box(2))
    expected = count_regions(program, whole)
    sent = pickle.loads(pickle.dumps((program, split_piece(program, whole, at_least=5))))
    program, pieces = sent
    assert len(pieces) >= 5 or expected.tally.layers[0] < 5
    assert total(count_piece(program, one) for one in pieces).layers == expected.tally.layers
    found = [leaf_keys(program, one) for one in pieces]
    assert total(tally for tally, _ in found).layers == expected.tally.layers
    wanted = twins(np.concatenate([keys for _, keys in found]))
    ends = np.cumsum([0, *(len(keys) for _, keys in found)])
    cells = [
        cell
        for one, a, b in zip(pieces, ends, ends[1:], strict=False)
        for cell in kept_cells(program, one, wanted[a:b])
    ]
    assert expected.tally.cells - count_unions(cells) == expected.regions


def test_a_slice_is_the_network_composed_with_it() -> None:
    rng = np.random.default_rng(5)
    weights, biases = rng.normal(size=(3, 6, 4)), rng.normal(size=(3, 6))
    origin, ways = rng.integers(-2, 3, size=4) / 4, rng.integers(-2, 3, size=(2, 4)) / 4
    corners = [[-3, -3], [3, -2], [2, 3], [-1, 2]]
    inside = MaxoutNetwork([weights @ ways.T], [biases + weights @ origin])
    network = MaxoutNetwork([weights], [biases])
    expected = counted(inside, Slice([0, 0], np.eye(2), corners))
    assert counted(network, Slice(origin, ways, corners)) == expected
    assert expected[0] > 20


def test_a_segment_through_the_depth_construction() -> None:
    """Along x = y both coordinates cross their walls together; off it one after the other."""
    model = depth_construction(tokens=3, teeth=1, dimension=2, layers=1)
    assert counted(model, Segment([0, 0], [1, 1])) == (6, 6)
    assert counted(model, Segment([0, Fraction(1, 12)], [1, Fraction(13, 14)])) == (11, 11)


def test_exact_decisions_are_counted_and_fast_mode_takes_none() -> None:
    source = folding(4, 2, 2)
    program = switch_program(source, box(2, 0, 1))
    piece = start_piece(program, box(2, 0, 1))
    assert count_piece(program, piece).decided > 0
    assert count_piece(program, piece, fast=True).decided == 0
    assert count_piece(program, piece, fast=True).layers == (16, 256)


def test_what_rounding_hides_is_decided_exactly() -> None:
    """(1 + e - 1) x + e/2 against 0, e = 2^-57: floats see e/2 > 0 everywhere, the wall is inside.

    One cell by floats, for which all of it is a tie; two in truth. The first layer's other pieces
    never win: a layer of one piece each would be affine, and composed with the second exactly.
    """
    e = 2.0**-57
    first = np.array([[[1.0], [e], [1.0]], np.zeros((3, 1))])
    second = np.array([[[1.0, 1.0, -1.0]], [[0.0, 0.0, 0.0]]])
    levels = [np.array([np.zeros(3), np.full(3, -8.0)]), [[e / 2], [0.0]]]
    network = MaxoutNetwork([first, second], levels)
    assert counted(network, box(1)) == (2, 2)
    assert layers(network, box(1), fast=True) == (1, 1)


def test_progress_and_limit() -> None:
    program = switch_program(saved("d2_32x3"), box(2))
    piece, seen = start_piece(program, box(2)), []
    count_piece(program, piece, progress=seen.append)
    assert seen[-1] == 1318
    assert seen == sorted(seen)
    with pytest.raises(OverLimit, match="more than 100 cells") as caught:
        count_piece(program, piece, limit=100)
    assert caught.value.found > 100


# ---------------------------------------------------------------- refusals


def test_what_has_no_linear_regions_is_refused() -> None:
    model = depth_construction(tokens=2, teeth=0, dimension=1, layers=1)
    soft = model.with_weightings([Softmax(3.0)])
    with pytest.raises(SemanticsError, match=r"smooth.*skeleton"):
        switch_program(soft, box(1))
    assert counted(soft.with_weightings([Hardmax()]), box(1, 0, 1)) == (2, 2)
    words = Transformer(
        SequenceInput(("a",), np.zeros((1, 2)), np.zeros((3, 2))), [], ReadOut(np.eye(2), [0, 0])
    )
    with pytest.raises(RequestError, match="sequences of symbols"):
        switch_program(words, box(1))
    with pytest.raises(RequestError, match="not for int"):
        switch_program(3, box(1))


def test_domains_that_do_not_fit_are_refused() -> None:
    network = saved("d2_16x2")
    with pytest.raises(DomainError, match="2 inputs, but the domain has 3"):
        switch_program(network, box(3))
    flat = Box([0.0, 0.0], [1.0, 0.0])
    with pytest.raises(DomainError, match="flat in coordinate 1"):
        start_piece(switch_program(network, flat), flat)


def moving(common: bool) -> Transformer:
    """Two tokens that move and see each other; with `common`, both have one key."""
    maps = np.ones((2, 1, 1))
    maps[1] = 1.0 if common else 2.0
    one = np.ones((1, 1))
    head = Head(one, one, one, one, position_bias=np.array([[0.0, 1.0], [0.0, 1.0]]))
    return Transformer(
        VectorInput(maps, np.zeros((2, 1))), [Attention([head])], ReadOut(one, np.zeros(1))
    )


def test_quadratic_walls_are_refused_and_common_parts_cancel() -> None:
    """x (x - 2x) = 1 is a conic's wall; but x^2 against x^2 + 1 is decided: token 1 always wins."""
    with pytest.raises(QuadraticWalls, match="conics"):
        counted(moving(common=False), box(1))
    assert counted(moving(common=True), box(1)) == (1, 1)


def test_no_layer_and_no_choice() -> None:
    """An affine map is one cell, whether it has no layer or only layers of rank 1."""
    assert counted(ReluNetwork([[[2.0]]], [[1.0]]), box(1)) == (1, 1)
    assert counted(MaxoutNetwork([[[[2.0]]]], [[[1.0]]]), box(1)) == (1, 1)
    empty = VectorInput(np.ones((1, 1, 1)), np.zeros((1, 1)))
    assert counted(Transformer(empty, [], ReadOut([[1.0]], [0.0])), box(1)) == (1, 1)


def test_products_of_pieces_on_a_grid() -> None:
    """Units that read one coordinate each: the counts multiply, in four dimensions."""
    pieces = (2, 3, 2, 2)
    weights, biases = np.zeros((3, 4, 4)), np.full((3, 4), -9.0)
    for i, count in enumerate(pieces):
        weights[:count, i, i] = np.arange(count)
        biases[:count, i] = -np.arange(count) * (np.arange(count) - 0.5) / 4
    assert counted(MaxoutNetwork([weights], [biases]), box(4)) == (prod(pieces), prod(pieces))
