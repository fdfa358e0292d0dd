"""Minkowski sums and common refinements against formulas, brute force and rational programs."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from numba import njit

from hardmax import RequestError, ShapeError
from hardmax.geometry.bounds import attaining_keys, several_heads, two_polygons
from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes._arrays import EXTREME, INNER, OPEN, new_cone, new_scratch
from hardmax.geometry.polytopes._minkowski import minkowski_sum, upper_sum
from hardmax.geometry.polytopes._polytope import Polytope
from hardmax.geometry.polytopes._ray_kernels import find_extreme_rays
from hardmax.geometry.polytopes._whole_kernels import fits, in_cone, is_in_cone
from hardmax.geometry.polytopes._wrap_kernels import wrap
from hardmax.geometry.tropical._refinement import common_refinement
from hardmax.geometry.tropical._tropical import Tropical
from hardmax.languages import MaxAffine

compiled_in_cone = njit(in_cone)  # on int64, as `settle` runs it


def polygons(sides):
    """Two regular polygons in two coordinate planes of R^3, with generic phases."""
    a, b = ((np.arange(sides) + phase) * 2 * np.pi / sides for phase in (0.123, 0.457))
    zero = np.zeros(sides)
    return [
        np.stack([np.cos(a), zero, np.sin(a)], axis=1),
        np.stack([zero, np.cos(b), np.sin(b)], axis=1),
    ]


def segments(vectors):
    return [np.stack([0 * np.asarray(v), np.asarray(v)]) for v in vectors]


def rows(found):
    return [tuple(row) for row in found.combinations.tolist()]


# ---- oracles -------------------------------------------------------------------------------------


def has_solution(system):
    """Whether some x has <row, x> < 0 for all rows: Fourier and Motzkin, in Fractions."""
    system = {tuple(Fraction(one) for one in row) for row in system}
    while system:
        if any(not any(row) for row in system):
            return False
        width = len(next(iter(system)))
        if width == 0:
            return False
        up = [row for row in system if row[-1] > 0]
        down = [row for row in system if row[-1] < 0]
        level = {row[:-1] for row in system if row[-1] == 0}
        for a, b in itertools.product(up, down):
            level.add(tuple(x / a[-1] - y / b[-1] for x, y in zip(a, b, strict=True))[:-1])
        system = {_primitive(row) for row in level}
    return True


def _primitive(row):
    size = max((abs(one) for one in row), default=0)
    return tuple(one / size for one in row) if size else row


def selected(parts, *, upper=False):
    """All combinations that some direction selects alone: a program for each of the N^H."""
    down = [[0] * (parts[0].shape[1] - 1) + [-1]] if upper else []
    found = []
    for combination in itertools.product(*(range(len(part)) for part in parts)):
        system, is_first = list(down), True
        for part, chosen in zip(parts, combination, strict=True):
            away = (part - part[chosen]).tolist()
            is_first &= not any(not any(row) for row in away[:chosen])
            system += [row for row in away if any(row)]
        if is_first and has_solution(system):
            found.append(combination)
    return found


def hull_of_all_sums(parts):
    """The vertices of the hull of all sums, decided exactly; the first combination of each."""
    sums = {}
    for combination in itertools.product(*(range(len(part)) for part in parts)):
        total = sum(part[c] for part, c in zip(parts, combination, strict=True))
        sums.setdefault(tuple(total.tolist()), combination)
    points = np.array(list(sums), dtype=object)
    combinations = list(sums.values())
    return sorted(combinations[v] for v in Polytope.of(points).vertices)


def awkward(rng, dimension, heads):
    """Few small whole numbers: repeated points, parallel edges, flat and equal summands."""
    most = {1: 7, 2: 7, 3: 6, 4: 5}[dimension]
    spread = int(rng.integers(1, 4))
    parts = [
        rng.integers(-spread, spread + 1, size=(int(rng.integers(1, most)), dimension))
        for _ in range(heads)
    ]
    if rng.random() < 0.3:
        parts[-1] = parts[0] * int(rng.integers(1, 3))
    if rng.random() < 0.3:
        parts[0][:, int(rng.integers(dimension))] = 1
    return parts


# ---- formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_generic_zonotopes_have_the_most_vertices(dimension, count):
    """Any d points of the moment curve are independent, so the arrangement is generic."""
    vectors = [[k**j for j in range(dimension)] for k in range(1, count + 1)]
    formula = 2 * sum(math.comb(count - 1, j) for j in range(dimension))
    assert minkowski_sum(segments(vectors)).count == formula


@pytest.mark.parametrize("size", [3, 4, 5])
def test_permutohedra_have_a_vertex_for_each_order(size):
    """Flat by one dimension, and nearly every edge direction is a sum of others: all ties."""
    unit = np.eye(size, dtype=int)
    vectors = [unit[i] - unit[j] for i, j in itertools.combinations(range(size), 2)]
    assert minkowski_sum(segments(vectors)).count == math.factorial(size)


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_cubes_add_to_cubes(dimension):
    """All edges are parallel: corners move together, and there are 2^d whatever is added."""
    cube = np.array(list(itertools.product([0, 1], repeat=dimension)))
    found = minkowski_sum([cube, 3 * cube, cube])
    assert rows(found) == [(k, k, k) for k in range(2**dimension)]


def test_generic_polygons_add_their_edges():
    rng = np.random.default_rng(3)
    parts = []
    for sides in (3, 5, 8, 40):
        turn = np.sort(rng.uniform(0, 2 * np.pi, size=sides))
        parts.append(np.stack([np.cos(turn), np.sin(turn)], axis=1))
    assert minkowski_sum(parts).count == 3 + 5 + 8 + 40


def test_parallel_edges_of_polygons_add_once():
    """Two squares, one of them turned by 45 degrees and one not, and a segment along a diagonal."""
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]])
    diamond = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    assert minkowski_sum([square, diamond]).count == 8
    assert minkowski_sum([square, diamond, square, [[0, 0], [5, 5]]]).count == 8


@pytest.mark.parametrize(
    ("sides", "vertices"), [(4, 14), (8, 46), (16, 158), (32, 574), (64, 2174)]
)
def test_two_polygons_in_coordinate_planes(sides, vertices):
    assert minkowski_sum(polygons(sides)).count == vertices == two_polygons(sides).value


@pytest.mark.parametrize("bias_free", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_attaining_keys_have_exactly_the_cells_of_the_bound(dimension, bias_free):
    """The sharp maxima, affine and bias-free (Weibel), as equalities."""
    for tokens in ([3], [3, 4], [2, 3, 4], [3, 3, 3, 3], [2] * 6, [1, 5, 2]):
        keys = attaining_keys(tokens, dimension=dimension, bias_free=bias_free)
        bound = several_heads(tokens, dimension=dimension, bias_free=bias_free)
        assert common_refinement(keys, affine=not bias_free).count == bound.value
        assert common_refinement(keys, affine=True).count == bound.value


# ---- brute force ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
def test_awkward_sums_equal_the_hull_of_all_sums(dimension):
    rng = np.random.default_rng(dimension)
    for _ in range(25):
        parts = awkward(rng, dimension, int(rng.integers(1, 4)))
        assert rows(minkowski_sum(parts)) == hull_of_all_sums(parts), parts


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dimension", [2, 3])
def test_awkward_sums_equal_a_rational_program_for_each_combination(dimension, upper):
    rng = np.random.default_rng([dimension, upper])
    for _ in range(12):
        parts = [part[:5] for part in awkward(rng, dimension, 2)]
        found = upper_sum([Points.of(one) for one in parts]) if upper else minkowski_sum(parts)
        assert rows(found) == selected(parts, upper=upper), parts


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_a_linear_map_moves_vertices_and_keeps_combinations(dimension):
    """Small whole numbers, those of 60 bits and Fractions take three ways, and all agree."""
    rng = np.random.default_rng(dimension)
    shear = np.tril(np.full((dimension, dimension), 3, dtype=int)) - 2 * np.eye(
        dimension, dtype=int
    )
    factors = np.array([10**15 + 37 * k for k in range(dimension)], dtype=object)
    decided = 0
    for _ in range(8):
        parts = awkward(rng, dimension, 3)
        wanted = rows(minkowski_sum(parts))
        large = [(part @ shear).astype(object) * factors for part in parts]
        found = minkowski_sum(large)
        decided += found.decided
        assert rows(found) == wanted
        thirds = [part @ shear * Fraction(1, 3) for part in parts]
        assert rows(minkowski_sum(thirds)) == wanted
    assert decided > 0


def test_permutohedra_of_large_numbers():
    """Ties that int64 cannot hold are decided in Python's integers."""
    unit = np.eye(4, dtype=int)
    vectors = [unit[i] - unit[j] for i, j in itertools.combinations(range(4), 2)]
    factors = np.array([10**15, 10**15 + 1, 10**15 + 3, 10**15 + 7], dtype=object)
    found = minkowski_sum(segments([v * factors for v in vectors]))
    assert found.count == 24
    assert found.decided > 0


@pytest.mark.parametrize(("dimension", "heads", "tokens"), [(3, 3, 8), (4, 3, 6), (5, 2, 9)])
def test_gaussian_sums_equal_qhull_on_all_sums(dimension, heads, tokens):
    from scipy.spatial import ConvexHull

    rng = np.random.default_rng([dimension, heads])
    parts = [rng.normal(size=(tokens, dimension)) for _ in range(heads)]
    every = np.zeros((1, dimension))
    for part in parts:
        every = (every[:, None] + part).reshape(-1, dimension)
    wanted = every[np.sort(ConvexHull(every).vertices)]
    assert np.array_equal(minkowski_sum(parts).vertices, wanted)


def test_many_heads_in_the_plane_and_in_space_count_like_the_general_way():
    """The same sums seen in one dimension more, where nothing is wrapped: a column is added that
    is affine in the others, and a segment along it, which doubles the vertices."""
    rng = np.random.default_rng(8)
    for dimension in (2, 3):
        parts = [rng.normal(size=(9, dimension)) for _ in range(5)]
        flat = [np.hstack([part, part[:, :1] * 0.5]) for part in parts]
        lift = np.zeros((2, dimension + 1))
        lift[1, -1] = 1.0
        assert minkowski_sum([*flat, lift]).count == 2 * minkowski_sum(parts).count


# ---- exactness -----------------------------------------------------------------------------------


def test_edges_that_differ_in_the_last_digit_are_not_parallel():
    tilted = [1.0, np.nextafter(0.0, 1.0)]
    assert minkowski_sum(segments([[1.0, 0.0], [3.0, 0.0]])).count == 2
    assert minkowski_sum(segments([[1.0, 0.0], tilted])).count == 4
    third = Fraction(1, 3)
    assert minkowski_sum(segments([np.array([1, third]), np.array([3, 1])])).count == 2
    assert minkowski_sum(segments([[1.0, 1 / 3], [3.0, 1.0]])).count == 4


def test_a_vector_in_the_plane_of_two_others_but_for_one_digit():
    """Three vectors in a plane of R^3 make a hexagon; off by an ulp they make a box."""
    a, b = np.array([0.7, 0.1, 0.3]), np.array([0.2, 0.9, 0.4])
    exact = [Fraction(x) + Fraction(y) for x, y in zip(a, b, strict=True)]
    flat = [[Fraction(x) for x in a], [Fraction(x) for x in b], exact]
    assert minkowski_sum(segments([np.array(v, dtype=object) for v in flat])).count == 6
    lifted = [*flat[:2], [*exact[:2], exact[2] + Fraction(1, 10**40)]]
    assert minkowski_sum(segments([np.array(v, dtype=object) for v in lifted])).count == 8


def test_vertices_are_the_sums_of_their_terms_exactly():
    parts = [[[0.1, 0.0], [0.7, 1.0]], [[0.2, 0.0], [0.3, -1.0]]]
    found = minkowski_sum(parts)
    for combination, point in zip(rows(found), found.points.rationals().tolist(), strict=True):
        terms = [part[c] for part, c in zip(parts, combination, strict=True)]
        assert point == [sum(map(Fraction, column)) for column in zip(*terms, strict=True)]
    assert not found.points.is_float  # 0.1 + 0.2 is no float
    assert minkowski_sum([[[1, 0], [0, 1]], [[2, 5]]]).points.is_float


def test_repeated_points_are_known_by_their_first():
    assert rows(minkowski_sum([[[1, 1], [0, 0], [1, 1], [0, 0]], [[5, 5], [5, 5]]])) == [
        (0, 0),
        (1, 0),
    ]


def test_the_sum_as_a_polytope():
    """A cube and an octahedron add to a polytope of 24 vertices: the rhombicuboctahedron."""
    cube = np.array(list(itertools.product([-1, 1], repeat=3)))
    octahedron = np.vstack([np.eye(3, dtype=int), -np.eye(3, dtype=int)])
    found = minkowski_sum([cube, octahedron])
    assert found.count == 24
    assert found.polytope().f_vector == (24, 48, 26)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_both_ways_of_the_exact_simplex_method_agree_with_elimination(width):
    """v is in the cone of others exactly if no x has <v, x> > 0 and all others <= 0; here the
    others are pointed, so that x may be strict."""
    rng = np.random.default_rng(width)
    inside = 0
    for _ in range(60):
        columns = rng.integers(-3, 4, size=(int(rng.integers(1, 6)), width))
        columns[:, -1] = rng.integers(1, 4, size=len(columns))
        target = rng.integers(-3, 4, size=width)
        if rng.random() < 0.5:
            target = rng.integers(0, 2, size=len(columns)) @ columns
        assert fits(columns)
        tableau = np.zeros((width + 1, len(columns) + 1), dtype=np.int64)
        basis = np.zeros(width, dtype=np.int64)
        found = compiled_in_cone(columns, len(columns), target, tableau, basis)
        python = is_in_cone(columns.astype(object), target.astype(object))
        separated = has_solution([*columns.tolist(), (-target).tolist()])
        assert found == python == (not separated)
        inside += found
    assert 0 < inside < 60


def test_int64_holds_every_number_that_fits():
    """Whole numbers as large as `fits` allows in 4 dimensions: the same as without an end."""
    rng = np.random.default_rng(0)
    largest = max(k for k in range(200) if fits(np.full((1, 4), k, dtype=object)))
    assert 50 < largest < 199
    for _ in range(40):
        columns = rng.integers(-(largest // 4), largest // 4 + 1, size=(9, 4))
        inside = columns[rng.permutation(9)[:4]].sum(axis=0)
        for target in (inside, -inside):
            tableau, basis = np.zeros((5, 10), dtype=np.int64), np.zeros(4, dtype=np.int64)
            found = compiled_in_cone(columns, 9, target, tableau, basis)
            assert found == is_in_cone(columns.astype(object), target.astype(object))
            assert found or target is not inside


# The vectors (1, 0), (0, 1) and (1, lean); both functions are told that (0, 1) is extreme.
def _leaning(lean, blur):
    cone, scratch = new_cone(3, 2), new_scratch(3, 2, 3)
    cone.vectors[:] = [[1.0, 0.0], [0.0, 1.0], [1.0, lean]]
    cone.blurs[:] = blur
    return cone, scratch


def _by_programs(lean, blur):
    cone, scratch = _leaning(lean, blur)
    cone.status[1], scratch.centre[:] = EXTREME, -1.0
    find_extreme_rays(cone, 3, scratch)
    return cone.status.tolist()


def _by_wrapping(lean, blur):
    cone, scratch = _leaning(lean, blur)
    return cone.status.tolist() if wrap(cone, 3, 1, scratch) else None


@pytest.mark.parametrize(
    ("lean", "truth"), [(2e-3, [EXTREME, EXTREME, INNER]), (-2e-3, [INNER, EXTREME, EXTREME])]
)
def test_floats_decide_what_they_can_prove_and_leave_the_rest_open(lean, truth):
    """A blur of 1e-2 in every coordinate hides a lean of 2e-3; one of 1e-5 does not."""
    assert _by_programs(lean, 1e-5) == truth
    assert _by_wrapping(lean, 1e-5) == truth
    assert _by_programs(lean, 1e-2) == [OPEN, EXTREME, OPEN]
    assert _by_wrapping(lean, 1e-2) is None


# ---- refinements ---------------------------------------------------------------------------------


def test_heads_may_be_given_in_any_form():
    keys, biases = [[0, 0], [2, 1], [1, 3]], [0, -1, -2]
    forms = [
        (keys, biases),
        Tropical.of(keys, biases),
        MaxAffine(np.array(keys, float), np.array(biases, float)),
    ]
    found = {common_refinement([one, [[0, 0], [1, -1]]]).count for one in forms}
    assert found == {6}


def test_equal_biases_are_none_and_lifting_changes_nothing():
    rng = np.random.default_rng(1)
    heads = [(rng.normal(size=(7, 2)), np.full(7, shift)) for shift in (0.0, 2.5)]
    assert not common_refinement(heads).is_upper
    assert rows(common_refinement(heads)) == rows(common_refinement(heads, affine=True))


def test_refused_heads():
    with pytest.raises(RequestError, match="head 1 has some"):
        common_refinement([[[0], [1]], ([[0], [1]], [0, 1])], affine=False)
    with pytest.raises(RequestError, match="at least one head"):
        common_refinement([])


# ---- bad input, progress -------------------------------------------------------------------------


def test_refused_summands():
    with pytest.raises(ShapeError, match="dimensions 2, 3"):
        minkowski_sum([[[0, 0]], [[0, 0, 0]]])
    with pytest.raises(ShapeError, match="summand 1 hold nan"):
        minkowski_sum([[[0, 0]], [[0, math.nan]]])
    with pytest.raises(ShapeError, match="summand 1 has none"):
        minkowski_sum([[[0, 0]], np.zeros((0, 2))])
    with pytest.raises(ShapeError, match="of one dimension"):
        minkowski_sum([[[0, 0], [1]]])
    with pytest.raises(RequestError, match="at least one summand"):
        minkowski_sum([])


def test_too_many_dimensions_are_refused_with_the_bound():
    """9 dimensions, 3 summands of 4 points: 4^3 = 64 vertices at most."""
    with pytest.raises(RequestError, match="up to 64 vertices"):
        minkowski_sum([np.zeros((4, 9))] * 3)
    with pytest.raises(RequestError, match=r"up to 64 vertices.*at most 8"):
        common_refinement([(np.zeros((4, 8)), [0, 1, 2, 3])] * 3)


def test_more_vertices_than_allowed_are_refused():
    with pytest.raises(RequestError, match="more than 100 vertices"):
        minkowski_sum(polygons(32), most=100)
    assert minkowski_sum(polygons(32), most=574).count == 574


def test_progress_is_told_and_an_interruption_leaves():
    told = []
    found = minkowski_sum(polygons(256), progress=told.append)
    assert told == sorted(told)
    assert len(told) > 1
    assert told[-1] == found.count

    def interrupt(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        minkowski_sum(polygons(256), progress=interrupt)


def test_printed_in_one_line():
    assert repr(minkowski_sum(polygons(4))) == (
        "MinkowskiSum(2 summands in R^3, 4 x 4 points: 14 vertices)"
    )
    assert len(repr(minkowski_sum(segments(np.eye(8, dtype=int))))) <= 88


def test_first_guesses_end_in_sentences():
    assert Polytope([[0, 0], [1, 0], [0, 1], [0, 0]]).vertices.tolist() == [0, 1, 2]
    with pytest.raises(ShapeError, match="Give a list of summands"):
        minkowski_sum(3)
    with pytest.raises(ShapeError, match="all of one dimension"):
        Polytope([[0, 0], [1]])
