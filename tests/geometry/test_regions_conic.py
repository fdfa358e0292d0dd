"""Planes on which all tokens move: walls are conics, counts are certified from both sides."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from hardmax import DomainError, RequestError, SemanticsError
from hardmax.core import (
    Attention,
    Box,
    FeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Transformer,
    VectorInput,
    trace,
)
from hardmax.geometry import depth_construction, power_diagram
from hardmax.geometry.counting._domains import Segment, Slice
from hardmax.geometry.counting.conic._boxes import Block, Chart
from hardmax.geometry.counting.conic._counting import conic_cells
from hardmax.geometry.counting.conic._search import ConicSearch
from hardmax.geometry.counting.conic._tree import Tree
from hardmax.geometry.counting.conic._walls import Factors, Signs, split_conic
from hardmax.geometry.counting.line._attention import transformer_line

SQUARE = Box([-1.0, -1.0], [1.0, 1.0])


def pair(query, key, maps, offsets, bias=None, value=None) -> Transformer:
    """One head that the last token asks; the values are the tokens' last coordinates."""
    width = len(offsets[0])
    last = np.eye(width)[-1:] if value is None else value
    head = Head(query, key, last, last.T, position_bias=bias)
    readout = ReadOut(np.eye(width)[-1:], np.zeros(1), -1)
    return Transformer(
        VectorInput(np.array(maps, float), np.array(offsets, float)), [Attention([head])], readout
    )


def difference(a: float, c: float, level: float) -> Transformer:
    """Token 1 asks; it beats token 0 where a x^2 + c y^2 > level.

    Token 1 holds (x, y, 1, 1), token 0 is (0, 0, 0, 0): queries are (a x, c y, -level, 0).
    """
    moving = [[1, 0], [0, 1], [0, 0], [0, 0]]
    return pair(
        np.diag([a, c, -level, 0.0]),
        np.eye(4),
        [np.zeros((4, 2)), moving],
        [[0, 0, 0, 0], [0, 0, 1, 1]],
    )


def random_model(seed: int, *, tokens=3, width=3, keys=3, layers=2, heads=1, hidden=0, **kind):
    rng = np.random.default_rng(seed)

    def g(*shape: int) -> np.ndarray:
        return rng.normal(size=shape)

    sublayers: list = []
    for _ in range(layers):
        sublayers.append(
            Attention(
                [
                    Head(g(keys, width), g(keys, width), g(2, width), g(width, 2), **kind)
                    for _ in range(heads)
                ]
            )
        )
        if hidden:
            sublayers.append(FeedForward(g(hidden, width), g(hidden), g(width, hidden), g(width)))
    source = VectorInput(g(tokens, width, 2), g(tokens, width))
    return Transformer(source, sublayers, ReadOut(g(1, width), g(1), -1))


def pattern_at(model: Transformer, x) -> tuple[tuple, bool]:
    """From the reference streams alone: the pattern at x, and whether all comparisons are strict.

    It lists every sublayer at the tokens that the read-out can hear of.
    """
    heard, asking = [model.readout.token % model.tokens], []
    for sublayer in reversed(model.sublayers):
        asking.insert(0, heard)
        if isinstance(sublayer, Attention):
            open_head = any(not head.causal for head in sublayer.heads)
            heard = list(range(model.tokens if open_head else max(heard) + 1))
    found, strict = [], True
    streams = trace(model, x, Fraction).streams
    for sublayer, stream, tokens in zip(model.sublayers, streams, asking, strict=False):
        if isinstance(sublayer, FeedForward):
            rows = [
                [
                    sum(Fraction(w) * s for w, s in zip(row, stream[t], strict=True)) + Fraction(b)
                    for row, b in zip(sublayer.inner, sublayer.inner_bias, strict=True)
                ]
                for t in tokens
            ]
            strict &= all(z != 0 for row in rows for z in row)
            found.append(tuple(tuple(z > 0 for z in row) for row in rows))
            continue
        heads = []
        for head in sublayer.heads:
            winners = []
            for t in tokens:
                scores = [score(head, stream, t, j) for j in range(len(stream))]
                scores = scores[: t + 1] if head.causal else scores
                best = tuple(j for j, s in enumerate(scores) if s == max(scores))
                strict &= len(best) == 1
                winners.append(best)
            heads.append(tuple(winners))
        found.append(tuple(heads))
    return tuple(found), strict


def score(head: Head, stream, t: int, j: int) -> Fraction:
    total = Fraction(0) if head.position_bias is None else Fraction(head.position_bias[t, j])
    for q, k in zip(head.query, head.key, strict=True):
        left = sum(Fraction(w) * s for w, s in zip(q, stream[t], strict=True))
        total += left * sum(Fraction(w) * s for w, s in zip(k, stream[j], strict=True))
    return total


def inside(result, model: Transformer) -> None:
    """Every witness has its pattern by the reference evaluator, strictly."""
    for pattern, point in result.witnesses.items():
        assert pattern_at(model, point) == (pattern, True)


# ---------------------------------------------------------------- counts known by hand


def test_a_circle_has_an_inside_and_an_outside() -> None:
    model = difference(1.0, 1.0, 0.25)
    result = conic_cells(model, SQUARE)
    assert (result.low, result.high, result.cells, result.exact) == (2, 2, 2, True)
    assert result.undecided_area == 0.0
    radii = {p: sum(x * x for x in point) for p, point in result.witnesses.items()}
    assert radii[(((((0,),)),),)] < Fraction(1, 4) < radii[(((((1,),)),),)]


@pytest.mark.parametrize(("level", "cells"), [(2.0, 1), (1.999, 2), (-0.25, 1), (0.0, 1)])
def test_circles_that_miss_the_square(level: float, cells: int) -> None:
    """x^2 + y^2 = 2 meets the closed square in its corners only; x^2 + y^2 > 0 off one point."""
    result = conic_cells(difference(1.0, 1.0, level), SQUARE)
    assert result.cells == cells


def test_four_sectors_are_two_patterns() -> None:
    """x^2 - y^2 > 0 on two opposite sectors: a cell need not be connected, patterns are counted."""
    result = conic_cells(difference(1.0, -1.0, 0.0), SQUARE)
    assert result.cells == 2
    assert (result.fewest_maps, result.most_maps) == (2, 2)


def test_a_small_circle_is_found() -> None:
    """Of radius 2^-15 in a square of side 2, off the middle: seeds do not hit it."""
    moving = [[1, 0], [0, 1], [0, 0], [0, 0]]
    model = pair(
        np.diag([1.0, 1.0, -(2.0**-30), 0.0]),
        np.eye(4),
        [np.zeros((4, 2)), moving],
        [[0, 0, 0, 0], [-0.3, 0.4, 1, 1]],
    )
    result = conic_cells(model, SQUARE)
    assert result.cells == 2
    inside(result, model)


def test_equal_scores_are_shared_and_are_no_wall() -> None:
    """Two equal tokens win together everywhere."""
    model = pair(np.eye(2), np.eye(2), [np.eye(2)] * 2, np.zeros((2, 2)))
    result = conic_cells(model, SQUARE)
    assert list(result.witnesses) == [(((((0, 1),)),),)]
    assert result.cells == 1


def test_ends_of_a_query_of_one_number() -> None:
    """Scores q k_j with q = x: the largest key wins for x > 0, the least for x < 0, never others.

    All scores meet along x = 0, and at x = 0 walls share the factor x.
    """
    keys = [[-1.0], [-0.5], [0.25], [1.0], [0.0]]
    maps = [np.array([[0, 0], [0, 0]]) for _ in keys]
    maps[-1] = np.array([[1, 0], [0, 0]])
    offsets = [[0.0, key[0]] for key in keys]
    model = pair(np.array([[1.0, 0.0]]), np.array([[0.0, 1.0]]), maps, offsets)
    result = conic_cells(model, SQUARE)
    assert set(result.witnesses) == {((((3,),),),), ((((0,),),),)}
    assert result.exact


def test_keys_inside_the_hull_never_win() -> None:
    """Fixed keys, query (x, y): all walls meet in 0, and only vertices of the hull have a cell."""
    points = [[1.0, 0.0], [-0.5, 0.75], [-0.625, -1.0], [0.0625, 0.03125], [0.0, 0.0]]
    maps = np.zeros((5, 4, 2))
    maps[-1, 0, 0] = maps[-1, 1, 1] = 1.0
    offsets = np.zeros((5, 4))
    offsets[:, 2:] = points
    query, key = np.eye(4)[:2], np.eye(4)[2:]
    model = pair(query, key, maps, offsets)
    result = conic_cells(model, SQUARE)
    live = power_diagram(np.array(points)).live
    assert {pattern[0][0][0] for pattern in result.witnesses} == {(j,) for j in live}
    assert result.exact
    assert len(live) == 3


@pytest.mark.parametrize(
    ("tokens", "teeth", "layers"), [(2, 1, 1), (3, 1, 1), (2, 0, 2), (3, 0, 2), (2, 1, 2)]
)
def test_the_depth_construction(tokens: int, teeth: int, layers: int) -> None:
    """(2wN)^(2L) cells, each with a map of its own, though deep walls lie on earlier ones."""
    model = depth_construction(tokens=tokens, teeth=teeth, dimension=2, layers=layers)
    expected = (max(2 * teeth, 1) * tokens) ** (2 * layers)
    result = conic_cells(model, Box([0, 0], [1, 1]))
    assert (result.cells, result.fewest_maps, result.most_maps) == (expected,) * 3


# ---------------------------------------------------------------- random models

KINDS = [
    {"tokens": 3},
    {"tokens": 4, "keys": 2, "width": 2},  # tokens meet, queries vanish: walls touch in points
    {"tokens": 4, "keys": 1, "width": 2},  # walls are pairs of lines
    {"tokens": 3, "hidden": 2},
    {"tokens": 4, "causal": True},
    {"tokens": 3, "heads": 2},
]


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_bounds_meet_and_nothing_lies_outside(kind) -> None:
    """Witnesses hold; patterns on lines (exact) and at random points are all among them."""
    model = random_model(0, **kind)
    result = conic_cells(model, SQUARE)
    assert result.low == result.high == result.cells > 1
    inside(result, model)
    rng = np.random.default_rng(1)
    for start, end in rng.uniform(-1, 1, (4, 2, 2)):
        cells = transformer_line(model, start, end).known
        assert {cell.pattern for cell in cells} <= set(result.witnesses)
    for x in rng.uniform(-1, 1, (40, 2)).tolist():
        pattern, strict = pattern_at(model, x)
        assert strict
        assert pattern in result.witnesses


def test_an_interval_holds_what_a_longer_search_finds() -> None:
    """With few boxes the bounds differ, but they enclose the number, and say what is possible."""
    model = random_model(1, tokens=4, keys=2, width=2)
    whole = conic_cells(model, SQUARE)
    sizes = []
    for budget in (1, 60, 160):
        part = conic_cells(model, SQUARE, budget=budget)
        assert part.boxes <= budget
        assert part.low <= whole.cells
        assert part.fewest_maps <= whole.fewest_maps
        if part.high is not None:
            assert whole.cells <= part.high
            assert set(whole.witnesses) <= set(part.witnesses) | part.possible
            assert whole.fewest_maps <= part.most_maps
        sizes.append(part.high)
        if not part.exact:
            assert part.undecided_area > 0
            with pytest.raises(RequestError, match=f"at least {part.low} cells"):
                _ = part.cells
    assert sizes[0] is None
    assert any(size is not None and size > whole.cells for size in sizes)


def test_what_cannot_be_excluded_is_named() -> None:
    """Scores 0, x^2 - 1/8, y^2 - 1/8 and a mean of them, which never wins, but ties where all meet.

    These four points are irrational, and no two scores exclude the mean: the answer is an interval.
    """
    keys = np.array([[0, 0, 0], [1, 0, -0.125], [0, 1, -0.125]])
    keys = np.stack([keys[1], keys[2], (keys[0] + keys[1] + 2 * keys[2]) / 4, keys[0]])
    maps, offsets = np.zeros((4, 7, 2)), np.zeros((4, 7))
    maps[-1, 0, 0] = maps[-1, 1, 1] = offsets[-1, 2] = 1.0
    maps[:, 3, 0], maps[:, 4, 1], offsets[:, 5] = keys.T
    model = pair(np.eye(7)[:3], np.eye(7)[3:6], maps, offsets)
    result = conic_cells(model, SQUARE, budget=4000)
    assert set(result.witnesses) == {((((j,),),),) for j in (0, 1, 3)}
    assert result.possible == {((((2,),),),)}
    assert (result.low, result.high, result.exact) == (3, 4, False)
    assert 0 < result.undecided_area < 1e-3  # boxes around four points
    with pytest.raises(RequestError, match="at least 3 cells and at most 4"):
        _ = result.cells


def test_progress_hears_the_cells() -> None:
    heard: list[int] = []
    result = conic_cells(random_model(0), SQUARE, progress=heard.append)
    assert heard == sorted(heard)
    assert (heard[-1], len(heard)) == (result.cells, result.boxes)


def test_a_tie_is_no_witness() -> None:
    """Not on a wall, and not where a score that never wins reaches the winner, (u - 1/2)^2 = 0."""
    frame = [[Fraction(0), Fraction(1), Fraction(0)], [Fraction(0), Fraction(0), Fraction(1)]]
    sectors = Tree(difference(1.0, -1.0, 0.0), frame)
    assert sectors.leaf_at((Fraction(1, 3), Fraction(1, 3))) is None
    assert sectors.leaf_at((Fraction(1, 3), Fraction(1, 4))).pattern == ((((1,),),),)
    moving = [[1, 0], [0, 0]]
    model = pair(np.eye(2)[:1], np.eye(2)[:1], [np.zeros((2, 2)), moving], [[0, 0], [-0.5, 0]])
    square = Tree(model, frame)
    assert square.leaf_at((Fraction(1, 2), Fraction(1, 4))) is None
    assert square.leaf_at((Fraction(2, 3), Fraction(1, 4))).pattern == ((((1,),),),)
    assert conic_cells(model, Box([0, 0], [1, 1])).cells == 1


def test_a_point_on_a_side_is_no_witness() -> None:
    frame = [[Fraction(0), Fraction(1), Fraction(0)], [Fraction(0), Fraction(0), Fraction(1)]]
    tree = Tree(difference(1.0, 1.0, 0.25), frame)
    search = ConicSearch(tree, (tree.factors.wall((-1, 2, 0, 0, 0, 0)),))
    for u in (0.25, 0.5):
        search._witness(np.array([u, 0.75]))
    assert not search.witnesses
    search._witness(np.array([0.625, 0.75]))
    assert list(search.witnesses) == [((((1,),),),)]


# ---------------------------------------------------------------- slices


def test_a_slice_sees_what_its_polygon_holds() -> None:
    """The circle |y| = 1/2 in a plane of three dimensions; a triangle outside, and one across."""
    model = difference(1.0, 1.0, 0.25)
    source = model.input
    maps = np.concatenate([source.maps, np.zeros((2, 4, 1))], axis=2)
    model = replace_input(model, VectorInput(maps, source.offsets))
    frame = ([0.0, 0.0, 5.0], [[1, 0, 1], [0, 1, -1]])
    corner = [[1, 1], [Fraction(1, 3), 1], [1, Fraction(1, 3)]]
    assert conic_cells(model, Slice(*frame, corner)).cells == 1
    near = [[1, 1], [0, 1], [1, Fraction(-1, 3)]]  # a side 3/5 away from the centre
    assert conic_cells(model, Slice(*frame, near)).cells == 1
    touching = [[Fraction(1, 2), -1], [1, 0], [Fraction(1, 2), 1]]
    assert conic_cells(model, Slice(*frame, touching)).cells == 1
    across = conic_cells(model, Slice(*frame, [[1, 1], [0, 1], [1, -1]]))
    assert across.cells == 2
    for x, y, z in across.witnesses.values():
        assert z == 5 + x - y
    inside(across, model)


def replace_input(model: Transformer, source: VectorInput) -> Transformer:
    return Transformer(source, model.sublayers, model.readout)


@pytest.mark.parametrize("seed", range(2))
def test_a_turned_slice_has_the_cells_of_its_square(seed: int) -> None:
    """A diamond in turned coordinates is the square itself."""
    model = random_model(seed)
    turned = Slice([0, 0], [[1, 1], [1, -1]], [[1, 0], [0, 1], [-1, 0], [0, -1]])
    assert set(conic_cells(model, turned).witnesses) == set(conic_cells(model, SQUARE).witnesses)


# ---------------------------------------------------------------- parts


def value(p, u, v):
    return p[0] + p[1] * u + p[2] * v + p[3] * u * u + p[4] * u * v + p[5] * v * v


def test_factors_have_the_sign_of_the_product() -> None:
    """All conics with coefficients -1, 0 or 1, at points where they are not 0."""
    points = [(Fraction(a, 7), Fraction(b, 5)) for a in (-9, 1, 4) for b in (-7, -1, 3)]
    kinds = set()
    for p in product((-1, 0, 1), repeat=6):
        if any(p):
            sign, factors = split_conic(p)
            kinds.add((len(factors), sum(any(f[3:]) for f in factors)))
            for u, v in points:
                left, right = value(p, u, v), Fraction(sign)
                for factor in factors:
                    right *= value(factor, u, v)
                assert left == 0 or (left > 0) == (right > 0)
                assert right != 0 or left == 0
    assert kinds == {(0, 0), (1, 0), (1, 1), (2, 0)}


@pytest.mark.parametrize(
    ("p", "lines"),
    [
        ((0, 0, 0, 1, 0, -1), 2),  # u^2 - v^2
        ((0, 0, 0, 1, 0, -2), 0),  # irrational lines stay one conic
        ((6, -3, -2, 0, 1, 0), 2),  # (u - 2)(v - 3)
        ((0, 0, 0, 4, -4, 1), None),  # a square has one sign
        ((2, 0, -3, 0, 0, 1), 2),  # (v - 1)(v - 2)
    ],
)
def test_pairs_of_lines_are_told_apart(p, lines) -> None:
    _, factors = split_conic(p)
    if lines is None:
        assert factors == ()
    else:
        assert sum(not any(factor[3:]) for factor in factors) == lines
        assert len(factors) == max(lines, 1)


def test_signs_find_every_contradiction() -> None:
    """Against trying all signs of four factors, for random systems."""
    rng = np.random.default_rng(5)
    seen = set()
    for _ in range(300):
        system = [
            (int(rng.choice([-1, 1])), tuple(rng.choice(4, rng.integers(1, 3), replace=False)))
            for _ in range(5)
        ]
        signs = Signs()
        found = all(signs.add(sign, [int(i) for i in left]) for sign, left in system)
        truth = any(
            all(np.prod([x[i] for i in left]) == sign for sign, left in system)
            for x in product((-1, 1), repeat=4)
        )
        assert found == truth
        seen.add(truth)
    assert seen == {True, False}


def test_a_factor_that_is_zero_in_a_corner_is_decided_exactly() -> None:
    """u + v - 1/2 >= 0 right of and above (1/8, 3/8), where floats see a 0."""
    factors = Factors()
    (number,) = factors.wall((-1, 2, 2, 0, 0, 0)).factors
    chart = Chart(factors)
    assert Block(chart, 0.125, 0.25, 0.375, 0.5).signs([number])[number] == 1
    assert Block(chart, 0.0, 0.125, 0.25, 0.375).signs([number])[number] == -1
    assert Block(chart, 0.0, 0.25, 0.25, 0.5).signs([number])[number] == 0


def test_two_curves_side_by_side_exclude_each_other_in_a_large_box() -> None:
    """v > u^2/4 + 1/64 and v < u^2/4 + 1/128 on the unit square; turned round both are possible."""
    factors = Factors()
    above = factors.wall((-1, 0, 64, -16, 0, 0)).factors[0]
    below = factors.wall((-1, 0, 128, -32, 0, 0)).factors[0]
    box = Block(Chart(factors), 0.0, 1.0, 0.0, 1.0)
    assert [box.signs([above, below])[n] for n in (above, below)] == [0, 0]
    point = {n: value(factors.forms[n], Fraction(0), Fraction(1)) > 0 for n in (above, below)}
    up = {n: 1 if positive else -1 for n, positive in point.items()}
    assert box.excludes((above, up[above]), (below, -up[below]))
    assert not box.excludes((above, -up[above]), (below, up[below]))


def test_blown_up_charts_keep_signs() -> None:
    """Factors have the sign of their pulled-back tables, at points around a centre."""
    factors = Factors()
    forms = [(0, 3, -1, 2, 1, -5), (-1, 1, 1, 1, 1, 1), (0, 0, 0, 1, 0, -2), (0, 1, 1, 0, 0, 0)]
    numbers = [factors.wall(form).factors[0] for form in forms]
    box = Block(Chart(factors), -0.25, 0.5, -0.5, 0.25)
    for part in box.blown_up((Fraction(0), Fraction(0))):
        for r, s in product((Fraction(1, 9), Fraction(5, 7)), (Fraction(-3, 4), Fraction(2, 5))):
            lead, follow = part.chart.side * r, r * s
            u, v = (follow, lead) if part.chart.swapped else (lead, follow)
            u, v = u * part.chart.reach[0], v * part.chart.reach[1]
            for number in numbers:
                table = part.chart.exact(number)
                there = sum(table[i, j] * r**i * s**j for i in range(3) for j in range(3))
                assert (there > 0) == (value(factors.forms[number], u, v) > 0)
    assert sum(part.area for part in box.blown_up((Fraction(0), Fraction(0)))) == Fraction(9, 4)


# ---------------------------------------------------------------- refusals


def test_refusals_are_sentences() -> None:
    model = random_model(0)
    soft = model.with_weightings([Softmax(3.0)] * len(model.heads))
    with pytest.raises(SemanticsError, match="hard skeleton"):
        conic_cells(soft, SQUARE)
    words = Transformer(
        SequenceInput(("a", "b"), np.zeros((2, 3)), np.zeros((4, 3))),
        model.sublayers,
        replace(model.readout, token=None),
    )
    with pytest.raises(RequestError, match="sequences of symbols"):
        conic_cells(words, SQUARE)
    with pytest.raises(DomainError, match="2 inputs, but the domain has 3"):
        conic_cells(model, Box([0, 0, 0], [1, 1, 1]))
    deep = depth_construction(tokens=2, dimension=3, layers=1, teeth=0)
    with pytest.raises(RequestError, match="give a Slice"):
        conic_cells(deep, Box([0, 0, 0], [1, 1, 1]))
    with pytest.raises(DomainError, match="no inside"):
        conic_cells(model, Box([0, 0], [0, 1]))
    with pytest.raises(RequestError, match="not Segment"):
        conic_cells(model, Segment([0, 0], [1, 1]))
    for budget in (0, -3, 1.5, True):
        with pytest.raises(RequestError, match="1 or more"):
            conic_cells(model, SQUARE, budget=budget)
