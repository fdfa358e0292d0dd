"""Tropical values and polytopes: exact values, algebra as functions, faces in any position."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from hardmax import RequestError, ShapeError
from hardmax.core import Head
from hardmax.geometry.bounds import several_heads
from hardmax.geometry.polytopes._polytope import Polytope
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational
from hardmax.languages import MaxAffine, MaxoutNetwork

ABSOLUTE = Tropical.of([[1], [-1]])


def fractions(rng, *shape):
    """Small Fractions, so that ties happen."""
    whole = rng.integers(-6, 7, size=shape)
    return np.vectorize(lambda n: Fraction(int(n), 3), otypes=[object])(whole)


def random_value(rng, terms, dimension):
    return Tropical.of(fractions(rng, terms, dimension), fractions(rng, terms))


# ---- values --------------------------------------------------------------------------------------


def test_values_at_points_and_batches():
    value = Tropical.of([[1.0, 0.0], [0.0, 2.0]], [0.5, -1.0])
    assert value([1.0, 1.0]) == 1.5
    assert np.array_equal(value(np.array([[1.0, 1.0], [0.0, 3.0]])), [1.5, 5.0])
    assert value(np.zeros((0, 2))).shape == (0,)


def test_values_at_fractions_are_exact():
    value = Tropical.of(
        np.array([[Fraction(1, 3), 0], [0.1, 0]], dtype=object), [Fraction(1, 7), 0]
    )
    assert value(np.array([Fraction(3), Fraction(0)])) == 1 + Fraction(1, 7)
    assert value(np.array([[Fraction(-3), 0]], dtype=object)).tolist() == [-3 * Fraction(0.1)]


def test_large_batches_are_cut_up_and_come_out_whole(monkeypatch):
    monkeypatch.setattr("hardmax.geometry.tropical._tropical._CHUNK", 7)
    points = np.linspace(-2, 2, 23)[:, None]
    assert np.array_equal(ABSOLUTE(points), np.abs(points[:, 0]))


def test_refused_terms_and_points():
    with pytest.raises(ShapeError, match="one offset for each of the 2 terms"):
        Tropical.of([[1], [2]], [0])
    with pytest.raises(ShapeError, match="their shape is"):
        Tropical.of([[1], [2]], [[0], [0]])
    with pytest.raises(ShapeError, match="at least one term"):
        Tropical.of(np.zeros((0, 2)))
    with pytest.raises(ShapeError, match="slopes hold nan"):
        Tropical.of([[math.nan]])
    with pytest.raises(ShapeError, match="one dimension"):
        Tropical.of([[1, 2], [3]])
    with pytest.raises(ShapeError, match="1 coordinates"):
        ABSOLUTE([1.0, 2.0])
    with pytest.raises(ShapeError, match="the same variables"):
        ABSOLUTE | Tropical.of([[1, 2]])
    with pytest.raises(ShapeError, match="the same variables"):
        ABSOLUTE - Tropical.of([[1, 2]])


# ---- where they come from ------------------------------------------------------------------------


def test_a_maxout_unit_and_a_max_affine_function_keep_their_values():
    rng = np.random.default_rng(0)
    network = MaxoutNetwork([rng.normal(size=(4, 3, 2))], [rng.normal(size=(4, 3))])
    points = rng.normal(size=(50, 2))
    for unit in range(3):
        function = MaxAffine(network.weights[0][:, unit], network.biases[0][:, unit])
        for value in (Tropical.of_unit(network, 0, unit), Tropical.of_max_affine(function)):
            wanted = function(np.vectorize(Fraction, otypes=[object])(points[:5]))
            exact = value(np.vectorize(Fraction, otypes=[object])(points[:5]))
            assert exact.tolist() == np.asarray(wanted)[:, 0].tolist()
    with pytest.raises(RequestError, match="no unit 3 in layer 0"):
        Tropical.of_unit(network, 0, 3)


def test_a_head_scores_its_context_exactly():
    rng = np.random.default_rng(1)
    query, key = rng.normal(size=(2, 2, 3))
    bias = rng.normal(size=(4, 4))
    head = Head(query, key, np.eye(3), np.eye(3), position_bias=bias, causal=True)
    context, x = rng.normal(size=(4, 3)), [Fraction(one) for one in rng.normal(size=3)]
    for position in range(4):
        value = Tropical.of_head(head, context, position=position)
        assert len(value) == position + 1
        scores = [
            _exact_score(query, key, x, context[j]) + Fraction(bias[position, j])
            for j in range(position + 1)
        ]
        assert value(np.array(x)) == max(scores)
    with pytest.raises(RequestError, match="position="):
        Tropical.of_head(head, context)
    with pytest.raises(ShapeError, match="ends at 4 tokens"):
        Tropical.of_head(head, rng.normal(size=(5, 3)), position=0)
    with pytest.raises(ShapeError, match="width 3"):
        Tropical.of_head(head, [[1.0]], position=0)


def _exact_score(query, key, x, token):
    q = [sum(Fraction(a) * b for a, b in zip(row, x, strict=True)) for row in query]
    k = [sum(Fraction(a) * Fraction(b) for a, b in zip(row, token, strict=True)) for row in key]
    return sum(a * b for a, b in zip(q, k, strict=True))


# ---- algebra -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_sums_and_products_are_right_as_functions(dimension):
    rng = np.random.default_rng(dimension)
    for _ in range(5):
        f, g = random_value(rng, 6, dimension), random_value(rng, 5, dimension)
        points = fractions(rng, 40, dimension)
        assert ((f + g)(points) == f(points) + g(points)).all()
        assert ((f | g)(points) == np.maximum(f(points), g(points))).all()
        assert f + g == g + f
        assert (f | g) == (g | f)
        assert (f | g) + f == (f + f) | (g + f)  # the distributive law


def test_a_product_keeps_live_terms_only():
    rng = np.random.default_rng(4)
    f, g = random_value(rng, 12, 2), random_value(rng, 12, 2)
    product = f + g
    assert len(product) == len(product.live) < len(f.live) * len(g.live)


def test_products_of_generic_hinges_have_the_most_terms():
    """max(0, <u, x> + b) for 5 generic lines in the plane: one term a region, 1 + 5 + 10."""
    hinges = [Tropical.of([[0, 0], [1, k]], [0, k * k]) for k in range(5)]
    product = hinges[0]
    for one in hinges[1:]:
        product = product + one
    assert len(product) == several_heads(2, 5, dimension=2).value == 16


def test_a_product_of_floats_that_round_is_exact():
    product = Tropical.of([[0.1]], [0.1]) + Tropical.of([[0.2]], [0.2])
    assert product.slopes.rationals().tolist() == [[Fraction(0.1) + Fraction(0.2)]]
    assert not product.slopes.is_float


def test_equal_as_functions():
    """A term that never wins, or wins only on a wall, changes nothing; one that wins does."""
    square = Tropical.of([[-1], [0], [1]], [0, 0, 0])
    assert square == ABSOLUTE
    assert hash(square) == hash(ABSOLUTE)
    assert Tropical.of([[-1], [0], [1]], [0, Fraction(1, 10**30), 0]) != ABSOLUTE
    assert Tropical.of([[1, 0], [-1, 0]]) != ABSOLUTE
    assert ABSOLUTE != 3
    assert Tropical.of([[1], [-1], [1]]).canonical().slopes.floats.tolist() == [[-1.0], [1.0]]


@pytest.mark.parametrize("dimension", [1, 2])
def test_quotients_are_closed_and_right_as_functions(dimension):
    rng = np.random.default_rng(dimension)
    f, g, h, k = (random_value(rng, 4, dimension) for _ in range(4))
    points = fractions(rng, 60, dimension)
    one, other = f - g, h - k
    at = {name: value(points) for name, value in {"f": f, "one": one, "other": other}.items()}
    assert (at["one"] == f(points) - g(points)).all()
    assert ((one + other)(points) == at["one"] + at["other"]).all()
    assert ((one - other)(points) == at["one"] - at["other"]).all()
    assert ((one | other)(points) == np.maximum(at["one"], at["other"])).all()
    assert ((f - one)(points) == at["f"] - at["one"]).all()
    assert ((f + one)(points) == (one + f)(points)).all()
    assert ((f | one)(points) == np.maximum(at["f"], at["one"])).all()
    assert one - one == other - other
    assert f - g == (f + h) - (g + h)
    assert one != other
    assert one - one == Tropical.of([[0] * dimension])


def test_every_minimum_is_a_quotient():
    """min(f, g) = f + g - max(f, g): the zigzag |x| - |x - 1| among others."""
    shifted = Tropical.of([[1], [-1]], [-1, 1])
    minimum = (ABSOLUTE + shifted) - (ABSOLUTE | shifted)
    points = np.linspace(-2.0, 3.0, 41)[:, None]
    assert np.array_equal(minimum(points), np.minimum(abs(points), abs(points - 1))[:, 0])


# ---- geometry ------------------------------------------------------------------------------------


def test_live_terms_and_the_hypersurface():
    """max(0, x, y, x + y - 1): four cells, and the two that meet in the middle share a wall."""
    value = Tropical.of([[0, 0], [1, 0], [0, 1], [1, 1]], [0, 0, 0, -1])
    assert value.live.tolist() == [0, 1, 2, 3]
    assert value.hypersurface().tolist() == [[0, 1], [0, 2], [1, 2], [1, 3], [2, 3]]
    assert value.hypersurface(on=(-4, 0.25)).tolist() == [[0, 1], [0, 2], [1, 2]]
    sunk = Tropical.of([[0, 0], [1, 0], [0, 1], [1, 1]], [0, 0, 0, -1]) | Tropical.of(
        [[0, 0]], [-1]
    )
    assert sunk.live.tolist() == [0, 1, 2, 3]


def test_the_newton_polytope_speaks_of_terms():
    polytope = Tropical.of([[0, 0], [2, 0], [1, 0], [0, 2], [2, 0]]).newton_polytope()
    assert polytope.vertices.tolist() == [0, 1, 3]
    assert polytope.behind == ((0,), (1, 4), (3,))


def test_the_newton_polytope_of_a_product_is_the_sum():
    rng = np.random.default_rng(6)
    f, g = (Tropical.of(rng.integers(-4, 5, size=(6, 2))) for _ in range(2))
    product = (f + g).newton_polytope()
    sums = (f.slopes.floats[:, None] + g.slopes.floats[None]).reshape(-1, 2)
    wanted = Polytope.of(sums)
    corners = {tuple(row) for row in sums[wanted.vertices].tolist()}
    assert {tuple(r) for r in product.points.floats[product.vertices].tolist()} == corners


def test_printed_as_mathematics_in_one_line():
    assert repr(Tropical.of([[1, -2.5], [0, 0]], [0.5, -1])) == "max(x1 - 2.5 x2 + 0.5, -1)"
    assert repr(Tropical.of([[0, 0]])) == "max(0)"
    assert repr(ABSOLUTE - ABSOLUTE) == "max(x1, -x1) - max(x1, -x1)"
    rng = np.random.default_rng(0)
    for terms, dimension in ((40, 2), (3, 2), (2, 50), (1, 50), (7, 5)):
        text = repr(Tropical.of(rng.normal(size=(terms, dimension)), rng.normal(size=terms)))
        assert len(text) <= 88
    assert repr(Tropical.of(rng.normal(size=(2, 50)))) == "max(2 terms of 50 variables)"
    assert "38 terms more" in repr(Tropical.of(np.tile([1.5, 2.25], (40, 1)) * np.pi))


def test_a_quotient_has_no_hash():
    with pytest.raises(TypeError):
        hash(TropicalRational(ABSOLUTE, ABSOLUTE))


# ---- polytopes -----------------------------------------------------------------------------------


def moment_curve(count, dimension):
    return np.array([[t**k for k in range(1, dimension + 1)] for t in range(count)])


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
def test_faces_of_cubes_and_simplices(dimension):
    """C(d, k) 2^(d-k) and C(d+1, k+1), with points inside faces and edges thrown in."""
    cube = np.array(list(itertools.product([0, 1, 2], repeat=dimension)))
    found = Polytope.of(cube).f_vector
    assert found == tuple(math.comb(dimension, k) * 2 ** (dimension - k) for k in range(dimension))
    simplex = np.vstack([np.zeros(dimension, int), np.eye(dimension, dtype=int)])
    found = Polytope.of(simplex).f_vector
    assert found == tuple(math.comb(dimension + 1, k + 1) for k in range(dimension))


def test_faces_of_a_cyclic_polytope():
    """Neighbourly: all pairs of its 8 vertices are edges, and the facets are the most."""
    assert Polytope.of(moment_curve(8, 4)).f_vector == (8, 28, 40, 20)


def test_flat_polytopes_are_seen_in_what_they_span():
    triangle = Polytope.of([[0, 0, 0], [1, 1, 0], [1, 1, 5], [1, 1, 2], [0.5, 0.5, 1]])
    assert triangle.dimension == 2
    assert triangle.vertices.tolist() == [0, 1, 2]
    assert triangle.facets == ((0, 1), (0, 2), (1, 2))
    segment = Polytope.of([[1, 2], [3, 6], [2, 4], [3, 6]])
    assert (segment.dimension, segment.vertices.tolist()) == (1, [0, 1])
    assert segment.edges.tolist() == [[0, 1]]
    assert segment.f_vector == (2,)
    point = Polytope.of([[1, 2], [1, 2]])
    assert (point.dimension, point.behind, point.facets) == (0, ((0, 1),), ())
    assert point.f_vector == ()


def test_a_point_off_an_edge_by_less_than_floats_see():
    outside = Fraction(-1, 10**30)
    points = [[0, 0], [2, 0], [0, 2], [1, 0]]
    assert Polytope.of(points).vertices.tolist() == [0, 1, 2]
    points[3] = [1, outside]
    assert Polytope.of(np.array(points, dtype=object)).vertices.tolist() == [0, 1, 2, 3]


def test_refused_polytopes():
    with pytest.raises(ShapeError, match="at least one"):
        Polytope.of(np.zeros((0, 3)))
    with pytest.raises(RequestError, match=r"up to 2\.73e\+03 facets"):
        Polytope.of(np.zeros((20, 9)))


def test_polytopes_print_what_they_are():
    assert repr(Polytope.of([[0, 0], [1, 0], [0, 1]])) == (
        "Polytope(3 points in R^2: dimension 2, 3 vertices, 3 edges)"
    )
