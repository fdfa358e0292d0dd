"""The depth construction: its cells are counted from the weights, by exact subdivision.

The two counters below know nothing of the construction. They read any hard Transformer whose
scores are affine in the input (they assert it), over the rationals: one walks along a segment from
wall to wall, the other cuts a polygon, sublayer by sublayer, into its cells.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import pytest

from hardmax import PrecisionError, RequestError
from hardmax.core import Attention, FeedForward, Transformer, reference, trace
from hardmax.geometry import bounds
from hardmax.geometry.bounds import Recipe
from hardmax.geometry.bounds._depth_construction import depth_construction

# A stream is tokens x width x (1 + inputs): the coefficients of affine functions of the input.


def exact(array: np.ndarray) -> np.ndarray:
    return np.vectorize(Fraction, otypes=[object])(array) if array.size else array.astype(object)


def embed(t: Transformer) -> np.ndarray:
    return np.concatenate([exact(t.input.offsets)[:, :, None], exact(t.input.maps)], axis=2)


def times(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """The product of two affine functions, one of which has to be constant."""
    assert not any(p[1:]) or not any(q[1:]), "a score that is quadratic in the input"
    return p[0] * q if not any(p[1:]) else q[0] * p


def scores(head, stream: np.ndarray) -> list[list[np.ndarray]]:
    query = np.einsum("kd,tdc->tkc", exact(head.query), stream)
    key = np.einsum("kd,tdc->tkc", exact(head.key), stream)
    return [[sum(map(times, q, k)) for k in key] for q in query]


def cut(stream: np.ndarray, sublayer, pieces):
    """Yield (cell, pattern, stream behind), for a splitter `pieces(forms)` into cells by argmax."""
    if isinstance(sublayer, FeedForward):
        hidden = np.einsum("hd,tdc->thc", exact(sublayer.inner), stream)
        hidden[:, :, 0] += exact(sublayer.inner_bias)
        forms = [[np.zeros_like(form), form] for token in hidden for form in token]
    else:
        forms = [row for head in sublayer.heads for row in scores(head, stream)]
    for cell, pattern in pieces(forms):
        yield cell, pattern, behind(stream, sublayer, pattern, forms)


def behind(stream: np.ndarray, sublayer, pattern: tuple[int, ...], forms) -> np.ndarray:
    tokens = len(stream)
    if isinstance(sublayer, FeedForward):
        on = np.array([forms[i][w] for i, w in enumerate(pattern)], dtype=object)
        on = on.reshape(tokens, sublayer.hidden_width, -1)
        change = np.einsum("dh,thc->tdc", exact(sublayer.outer), on)
        change[:, :, 0] += exact(sublayer.outer_bias)
        return stream + change
    change = stream * 0
    for h, head in enumerate(sublayer.heads):
        value = np.einsum("vd,tdc->tvc", exact(head.value), stream)
        won = value[list(pattern[h * tokens : (h + 1) * tokens])]
        change = change + np.einsum("dv,tvc->tdc", exact(head.output), won)
    return stream + change


# ---------------------------------------------------------------- counters


def cut_polygon(polygon, form):
    """The part of a convex polygon with form >= 0."""
    kept = []
    for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True):
        u, v = (form[0] + form[1] * p[0] + form[2] * p[1] for p in (a, b))
        if u >= 0:
            kept.append(a)
        if u * v < 0:
            s = u / (u - v)
            kept.append((a[0] + s * (b[0] - a[0]), a[1] + s * (b[1] - a[1])))
    return kept


def area(polygon) -> Fraction:
    pairs = zip(polygon, polygon[1:] + polygon[:1], strict=True)
    return sum((a[0] * b[1] - a[1] * b[0] for a, b in pairs), Fraction(0)) / 2


def cut_segment(segment, form):
    (low, high), (c, m) = segment, form
    if m == 0:
        return segment if c >= 0 else (low, low)
    root = -c / m
    return (max(low, root), high) if m > 0 else (low, min(high, root))


def length(segment) -> Fraction:
    return max(segment[1] - segment[0], Fraction(0))


def pieces_of(cell, clip, size):
    """Split by the largest of each row of forms; equal forms are one (the first stands for all)."""

    def split(forms):
        found = [(cell, ())]
        for row in forms:
            found = [
                (part, (*pattern, winner))
                for old, pattern in found
                for winner, part in parts(old, row)
            ]
        return found

    def parts(old, row):
        left = Fraction(0)
        for w, form in enumerate(row):
            if any(all(form == other) for other in row[:w]):
                continue
            part = old
            for other in row:
                part = clip(part, form - other)
                if not size(part):
                    break
            else:
                left += size(part)
                yield w, part
        assert left == size(old)

    return split


def cells(t: Transformer):
    """Every cell of a Transformer with one or two inputs on the unit cube, with its affine map."""
    if t.input.inputs == 1:
        start, clip, size = (Fraction(0), Fraction(1)), cut_segment, length
    else:
        start = [
            (Fraction(0), Fraction(0)),
            (Fraction(1), Fraction(0)),
            (Fraction(1), Fraction(1)),
            (Fraction(0), Fraction(1)),
        ]
        clip, size = cut_polygon, area
    found = [(start, (), embed(t))]
    for sublayer in t.sublayers:
        found = [
            (part, (*old, pattern), stream)
            for cell, old, now in found
            for part, pattern, stream in cut(now, sublayer, pieces_of(cell, clip, size))
        ]
    assert sum(size(cell) for cell, _, _ in found) == 1
    weights = exact(t.readout.weights)
    return [(cell, p, np.einsum("od,dc->oc", weights, s[t.readout.token])) for cell, p, s in found]


def count(t: Transformer) -> tuple[int, int]:
    """Cells, and different affine maps among them."""
    found = cells(t)
    patterns = {pattern for _, pattern, _ in found}
    assert len(patterns) == len(found)
    return len(found), len({tuple(affine.ravel()) for _, _, affine in found})


# ---------------------------------------------------------------- exact counts


@pytest.mark.parametrize(
    ("tokens", "teeth", "layers", "expected"),
    [
        (3, 1, 1, 6),
        (3, 1, 2, 36),
        (2, 1, 3, 64),
        (2, 2, 2, 64),
        (5, 1, 1, 10),
        (3, 2, 1, 12),
        (2, 0, 3, 8),
        (3, 0, 3, 27),
        (5, 0, 2, 25),
    ],
)
def test_cells_on_the_line(tokens: int, teeth: int, layers: int, expected: int) -> None:
    """(2wN)^L with teeth, N^L without; every cell has an affine map of its own."""
    t = depth_construction(tokens=tokens, teeth=teeth, dimension=1, layers=layers)
    assert count(t) == (expected, expected)
    assert expected == (max(2 * teeth, 1) * tokens) ** layers


def test_two_hundred_and_fifty_six_cells_on_the_line() -> None:
    t = depth_construction(tokens=4, teeth=2, dimension=1, layers=2)
    assert count(t) == (256, 256)


@pytest.mark.parametrize(
    ("tokens", "teeth", "layers"), [(2, 1, 1), (3, 1, 1), (2, 0, 2), (3, 0, 2), (2, 1, 2)]
)
def test_cells_in_the_square(tokens: int, teeth: int, layers: int) -> None:
    """(2wN)^(2L), by cutting the square into polygons."""
    t = depth_construction(tokens=tokens, teeth=teeth, dimension=2, layers=layers)
    expected = (max(2 * teeth, 1) * tokens) ** (2 * layers)
    assert count(t) == (expected, expected)


@pytest.mark.parametrize(
    "sizes",
    [
        {"tokens": 3, "dimension": 1, "layers": 2, "heads": 2, "hidden": 1},
        {"tokens": 2, "dimension": 1, "layers": 2, "heads": 3, "hidden": 2},
        {"tokens": 4, "dimension": 1, "layers": 2, "heads": 0, "hidden": 4},
        {"tokens": 3, "dimension": 2, "layers": 1, "heads": 3, "hidden": 1},
        {"tokens": 2, "dimension": 2, "layers": 2, "heads": 1, "hidden": 3},
    ],
)
def test_any_number_of_heads_and_relus(sizes: dict[str, int]) -> None:
    """a heads and m ReLUs on a coordinate multiply its pieces by (a (N - 1) + 1)(m + 1)."""
    expected = Recipe(**sizes).cells
    assert count(depth_construction(**sizes)) == (expected, expected)


def test_the_recipe_multiplies_what_it_spreads() -> None:
    recipe = Recipe(tokens=5, dimension=3, layers=2, heads=4, hidden=8)
    assert recipe.heads_of == (2, 1, 1)
    assert recipe.units_of == (3, 3, 2)
    assert recipe.cells == (9 * 5 * 5 * 4 * 4 * 3) ** 2
    assert recipe.log_cells == pytest.approx(
        np.log(float(recipe.cells))
    )  # both are one sum of logs


def test_no_other_spreading_has_more_cells() -> None:
    for heads, hidden in product(range(6), range(6)):
        best = max(
            prod(a * 2 + 1 for a in part) * prod(m + 1 for m in units)
            for part, units in product(parts_of(heads, 3), parts_of(hidden, 3))
        )
        assert Recipe(3, 3, 1, heads, hidden).cells == best


def parts_of(total: int, count: int) -> list[tuple[int, ...]]:
    return [p for p in product(range(total + 1), repeat=count) if sum(p) == total]


# ---------------------------------------------------------------- evaluation, without the counters


def zigzag(x: Fraction, recipe: Recipe, i: int) -> Fraction:
    """What one coordinate should do, from its definition on the unit interval."""
    for _ in range(recipe.layers):
        y = recipe.intervals[i] * x
        z = recipe.pieces[i] * (y - y.__floor__())
        k = z.__floor__()
        x = z - k if k % 2 == 0 else 1 + k - z
    return x


@pytest.mark.parametrize(
    ("tokens", "hidden", "layers"), [(2, 2, 2), (3, 0, 2), (3, 5, 1), (5, 2, 1), (7, 0, 1)]
)
def test_evaluation_on_a_grid_that_meets_every_cell(tokens: int, hidden: int, layers: int) -> None:
    """The reference evaluator, at three inner points of every cell of the square, on Fractions."""
    recipe = Recipe(tokens=tokens, dimension=2, layers=layers, heads=2, hidden=hidden)
    t = depth_construction(**recipe.as_dict())
    seen = set()
    sides = [(a * p) ** layers for a, p in zip(recipe.intervals, recipe.pieces, strict=True)]
    for k in product(*(range(side) for side in sides)):
        inner = [
            (Fraction(1, 3), Fraction(1, 5)),
            (Fraction(2, 3), Fraction(1, 5)),
            (Fraction(1, 3), Fraction(3, 5)),
        ]
        points = [[(k[i] + e[i]) / sides[i] for i in range(2)] for e in inner]
        values = [reference(t, point, Fraction) for point in points]
        assert values == [[zigzag(p[i], recipe, i) for i in range(2)] for p in points]
        base, right, up = values
        slopes = (3 * (right[0] - base[0]), Fraction(5, 2) * (up[1] - base[1]))
        assert set(map(abs, slopes)) == {1}, "each cell is mapped onto the whole square"
        seen.add((slopes, *(base[i] - slopes[i] * points[0][i] * sides[i] for i in range(2))))
    assert len(seen) == recipe.cells


def test_three_dimensions_and_uneven_coordinates() -> None:
    recipe = Recipe(tokens=3, dimension=3, layers=2, heads=4, hidden=5)
    t = depth_construction(**recipe.as_dict())
    rng = np.random.default_rng(0)
    for _ in range(40):
        x = [Fraction(int(v), 10_007) for v in rng.integers(1, 10_007, size=3)]
        assert reference(t, x, Fraction) == [zigzag(x[i], recipe, i) for i in range(3)]


@pytest.mark.parametrize("sizes", [(2, 3, 2, 3, 5), (5, 2, 3, 3, 2), (3, 4, 2, 4, 0)])
def test_constant_tokens_never_change(sizes: tuple[int, ...]) -> None:
    """Neither by heads nor by ReLUs, wherever the query is: also in corners, where scores tie."""
    recipe = Recipe(*sizes)
    t = depth_construction(**recipe.as_dict())
    rng = np.random.default_rng(1)
    inner = [
        [Fraction(int(v), 101) for v in row] for row in rng.integers(0, 102, (4, recipe.dimension))
    ]
    corners = product((Fraction(0), Fraction(1)), repeat=recipe.dimension)
    for x in [*inner, *map(list, corners)]:
        streams = trace(t, x, Fraction).streams
        assert all(stream[:-1] == streams[0][:-1] for stream in streams)
        assert all(stream[-1][-1] == 1 for stream in streams)


def test_floats_follow_while_the_numbers_are_small() -> None:
    t = depth_construction(tokens=4, teeth=1, dimension=2, layers=2)
    recipe = Recipe(4, 2, 2, 2, 2)
    for x in ([41 / 128, 103 / 128], [1 / 256, 255 / 256]):  # dyadic, so floats are exact
        assert reference(t, x) == [float(zigzag(Fraction(v), recipe, i)) for i, v in enumerate(x)]


# ---------------------------------------------------------------- weights and costs


@pytest.mark.parametrize("tokens", [2, 3, 6, 7])
def test_every_weight_is_a_whole_number(tokens: int) -> None:
    t = depth_construction(tokens=tokens, teeth=3, dimension=2, layers=5)
    arrays = [t.input.maps, t.input.offsets, t.readout.weights]
    for layer in t.sublayers:
        if isinstance(layer, Attention):
            arrays += [m for h in layer.heads for m in (h.query, h.key, h.value, h.output)]
        else:
            arrays += [layer.inner, layer.inner_bias, layer.outer, layer.outer_bias]
    assert all((array == np.round(array)).all() for array in arrays)
    assert t.input.maps.max() == (6 * tokens) ** 5


def test_the_cost_is_as_stated() -> None:
    """Width d + 1, N + 1 tokens, one head of key width 2 and 2w - 1 ReLUs a coordinate."""
    t = depth_construction(tokens=5, teeth=3, dimension=4, layers=2)
    assert (t.width, t.tokens, t.outputs, t.is_hard) == (5, 6, 4, True)
    attention, hidden = t.sublayers[:2]
    assert len(attention.heads) == 4
    assert {(h.key_width, h.value_width, h.causal) for h in attention.heads} == {(2, 1, False)}
    assert all(h.position_bias is None for h in attention.heads)
    assert hidden.hidden_width == 4 * 5
    alone = depth_construction(tokens=5, teeth=0, dimension=4, layers=2)
    assert all(isinstance(layer, Attention) for layer in alone.sublayers)


def test_bounds_of_exactly_this_size_are_met() -> None:
    """On a line and for one head and one ReLU a coordinate, the construction is the maximum."""
    for sizes in ({"heads": 3, "hidden": 4, "dimension": 1}, {"heads": 2, "hidden": 2}):
        recipe = Recipe(tokens=4, layers=3, **{"dimension": 2, **sizes})
        found = bounds.transformer(
            n=4,
            heads=recipe.heads,
            width=recipe.dimension + 1,
            layers=3,
            key_width=2,
            feed_forward=recipe.hidden,
            dimension=recipe.dimension,
        )
        assert found.upper.value == found.lower.value == recipe.cells
        assert found.is_sharp
        assert found.recipe == recipe


@pytest.mark.parametrize("width", [2, 3])
@pytest.mark.parametrize("heads", [1, 2])
@pytest.mark.parametrize("hidden", [0, 1, 3])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_recipe_behind_a_lower_bound_builds_and_fits(
    width: int, heads: int, hidden: int, layers: int
) -> None:
    """Same sizes or smaller than asked, and as many cells as the bound says."""
    found = bounds.transformer(
        n=2, heads=heads, width=width, layers=layers, feed_forward=hidden, key_width=2,
        dimension=min(width, 2),
    )  # fmt: skip
    if found.recipe is None:
        assert found.lower.value in {bound.value for bound in found.rows[1:-2]}
        return
    t = depth_construction(**found.recipe.as_dict())
    assert t.width <= width or not found.recipe.heads
    assert t.tokens == 3
    assert all(len(s.heads) <= heads for s in t.sublayers if isinstance(s, Attention))
    assert all(s.hidden_width <= hidden for s in t.sublayers if isinstance(s, FeedForward))
    if found.lower.value <= 300:
        assert count(t)[0] == found.lower.value


# ---------------------------------------------------------------- refusals


def test_weights_that_are_no_floats_are_refused() -> None:
    depth_construction(tokens=3, dimension=1, layers=33)  # 3^33 < 2^53 < 3^34
    with pytest.raises(PrecisionError, match="no float64"):
        depth_construction(tokens=3, dimension=1, layers=34)
    depth_construction(tokens=8, dimension=1, layers=341)  # 2^1023
    with pytest.raises(PrecisionError, match="1,027 bits"):
        depth_construction(tokens=8, dimension=1, layers=342)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tokens": 1}, "at least 2 tokens"),
        ({"tokens": 0}, "tokens must be a whole number >= 1"),
        ({"dimension": 0}, "dimension must be"),
        ({"layers": 1.5}, "layers must be"),
        ({"teeth": -1}, "teeth must be"),
        ({"teeth": 1, "hidden": 2}, "not both"),
        ({"heads": -1}, "heads must be"),
        ({"tokens": 4096, "dimension": 4096}, "most of them 0"),
    ],
)
def test_refusals(change: dict[str, int], sentence: str) -> None:
    sizes = {"tokens": 2, "dimension": 1, "layers": 1} | change
    with pytest.raises(RequestError, match=sentence):
        depth_construction(**sizes)


def test_one_token_and_no_head_is_a_folding_network() -> None:
    t = depth_construction(tokens=1, dimension=1, layers=2, heads=0, teeth=2)
    assert count(t) == (16, 16)
    assert bounds.folding_network(4, dimension=1, layers=2).value == 16


def test_without_heads_there_is_no_slot() -> None:
    """The recipe of a bound never needs more width than the architecture has."""
    for width in (1, 2, 3):
        found = bounds.transformer(
            6, heads=2, width=width, layers=2, feed_forward=5, dimension=width, key_width=1
        )
        model = depth_construction(**found.recipe.as_dict())
        assert model.width <= width
        assert found.recipe.heads == 0
