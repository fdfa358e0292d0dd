"""Power diagrams against an oracle that eliminates variables in Fractions, and known pictures."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import hardmax as hm
from hardmax.geometry import Points, convex_hull, least_solution

Row = list[Fraction]


# ---- the oracle: strict linear inequalities, decided by Fourier and Motzkin ---------------------


def feasible(rows: list[Row]) -> bool:
    """Whether some x has a . x + b > 0 for all rows (a, b)."""
    rows = [[Fraction(one) for one in row] for row in rows]
    while rows and len(rows[0]) > 1:
        up = [row for row in rows if row[0] > 0]
        down = [row for row in rows if row[0] < 0]
        flat = {tuple(row[1:]) for row in rows if row[0] == 0}
        for p, m in itertools.product(up, down):
            flat.add(tuple(x / p[0] - y / m[0] for x, y in zip(p[1:], m[1:], strict=True)))
        if not flat:
            return True
        rows = [list(row) for row in flat]
    return all(row[0] > 0 for row in rows)


def ahead(keys: list[Row], biases: Row, i: int, others: list[int]) -> list[Row]:
    """Key i scores more than the others."""
    return [
        [a - b for a, b in zip(keys[i], keys[j], strict=True)] + [biases[i] - biases[j]]
        for j in others
    ]


def oracle(keys: list[Row], biases: Row) -> tuple[set[int], set[tuple[int, int]]]:
    """Live kinds and walls between them."""
    lifted = [(*key, bias) for key, bias in zip(keys, biases, strict=True)]
    first = [i for i, one in enumerate(lifted) if lifted.index(one) == i]
    live = {i for i in first if feasible(ahead(keys, biases, i, [j for j in first if j != i]))}
    walls = set()
    for i, j in itertools.combinations(sorted(live), 2):
        rows = ahead(keys, biases, i, sorted(live - {i, j}))  # the dead may tie on all of a wall
        wall = ahead(keys, biases, i, [j])[0]
        pivot = next((c for c in range(len(wall) - 1) if wall[c]), None)
        if pivot is not None and feasible([_without(row, wall, pivot) for row in rows]):
            walls.add((i, j))
    return live, walls


def _without(row: Row, wall: Row, pivot: int) -> Row:
    """A row on the plane where the wall's is 0: one variable less."""
    share = row[pivot] / wall[pivot]
    return [x - share * y for c, (x, y) in enumerate(zip(row, wall, strict=True)) if c != pivot]


def independent(rows: list[Row]) -> bool:
    """Whether no row is a combination of the others."""
    rows = [list(row) for row in rows]
    for n, row in enumerate(rows):
        pivot = next((c for c, one in enumerate(row) if one), None)
        if pivot is None:
            return False
        for other in rows[n + 1 :]:
            share = other[pivot] / row[pivot]
            other[:] = [x - share * y for x, y in zip(other, row, strict=True)]
    return True


def independent_columns(keys: np.ndarray) -> bool:
    """Whether the keys' differences span the space."""
    rows = exact(keys[1:] - keys[0])
    return any(independent(list(some)) for some in itertools.combinations(rows, keys.shape[1]))


def exact(rows: np.ndarray) -> list[Row]:
    return [[Fraction(one) for one in row] for row in rows.tolist()]


def small(seed: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Few keys with few values: repeated, collinear, cospherical, all ties."""
    rng = np.random.default_rng(seed)
    d, n, spread = rng.integers(1, 4), rng.integers(1, 8), rng.integers(1, 4)
    keys = rng.integers(-spread, spread + 1, size=(n, d)).astype(float)
    kind = seed % 4
    if kind == 0:
        return keys, None
    if kind == 1:
        return keys, -(keys**2).sum(axis=1) / 2
    if kind == 2:
        return keys, rng.integers(-2, 3, size=n).astype(float)
    return keys * 0.1, rng.integers(-2, 3, size=n) * 0.01  # floats that only look like decimals


@pytest.mark.parametrize("seed", range(160))
def test_live_cells_and_walls_are_those_of_the_oracle(seed: int) -> None:
    keys, biases = small(seed)
    diagram = hm.power_diagram(keys, biases)
    levels = np.zeros(len(keys)) if biases is None else biases
    live, walls = oracle(exact(keys), [Fraction(one) for one in levels.tolist()])
    assert set(diagram.cells.tolist()) == live
    assert {tuple(pair) for pair in diagram.neighbours.tolist()} == walls
    lifted = np.hstack([keys, levels[:, None]])
    same = {j for j in range(len(keys)) for i in live if (lifted[i] == lifted[j]).all()}
    assert set(diagram.live.tolist()) == same
    assert set(diagram.empty.tolist()) == set(range(len(keys))) - same


SPANNING = [seed for seed in range(90) if independent_columns(small(seed)[0])]


@pytest.mark.parametrize("seed", SPANNING)
def test_vertices_are_where_enough_keys_tie_at_the_top(seed: int) -> None:
    keys, biases = small(seed)
    diagram = hm.power_diagram(keys, biases)
    levels = np.zeros(len(keys)) if biases is None else biases
    K, b = exact(keys), [Fraction(one) for one in levels.tolist()]
    d = keys.shape[1]
    assert diagram.rank == d
    expected = set()
    for chosen in itertools.combinations(range(len(K)), d + 1):
        rows = [[x - y for x, y in zip(K[i], K[chosen[0]], strict=True)] for i in chosen[1:]]
        if not independent(rows):
            continue
        point = least_solution(rows, [b[chosen[0]] - b[i] for i in chosen[1:]])
        scores = [
            sum(x * y for x, y in zip(key, point, strict=True)) + c
            for key, c in zip(K, b, strict=True)
        ]
        if scores[chosen[0]] == max(scores):
            expected.add(tuple(point))
    assert {tuple(point) for point in diagram.exact_vertices()} == expected
    assert len(diagram.exact_vertices()) == len(diagram.vertices) == len(expected)
    for found, floats in zip(diagram.exact_vertices(), diagram.vertices, strict=True):
        # a handful of operations on numbers below 10, and determinants of at least 1e-6
        assert np.allclose([float(one) for one in found], floats, rtol=1e-6, atol=1e-6)


def test_keys_that_span_less_leave_directions_free() -> None:
    """On a line in the plane: parallel walls, and no vertex but the nearest point of the wall."""
    diagram = hm.power_diagram([[0, 0], [1, 1], [2, 2]], [0, 0, -3])
    assert diagram.rank == 1
    assert diagram.neighbours.tolist() == [[0, 1], [1, 2]]
    assert diagram.exact_vertices() == [[0, 0], [Fraction(3, 2)] * 2]


def test_without_biases_only_the_hulls_vertices_live() -> None:
    """Keys inside the hull never win; the fan of a square has four cells around the origin."""
    diagram = hm.power_diagram([[1, 1], [-1, 1], [-1, -1], [1, -1], [0, 0], [1, 0]])
    assert diagram.is_fan
    assert diagram.live.tolist() == [0, 1, 2, 3]
    assert diagram.exact_vertices() == [[0, 0]]
    assert diagram.neighbours.tolist() == [[0, 1], [0, 3], [1, 2], [2, 3]]


def test_a_grid_is_all_ties_and_all_right() -> None:
    """Every inner vertex is a tie of four keys; diagonal cells touch in it and share no wall."""
    n = 12
    grid = np.array(list(itertools.product(range(n), repeat=2)), dtype=float)
    diagram = hm.power_diagram(grid, -(grid**2).sum(axis=1) / 2)
    assert len(diagram.live) == n * n
    assert len(diagram.vertices) == (n - 1) ** 2
    assert len(diagram.neighbours) == 2 * n * (n - 1)
    assert {len(keys) for keys in diagram.vertex_keys} == {4}
    assert diagram.decided > 0


def test_a_cube_of_keys_in_space() -> None:
    cube = np.array(list(itertools.product((-1, 1), repeat=3)), dtype=float)
    diagram = hm.power_diagram(cube)
    assert len(diagram.cells) == 8
    assert len(diagram.neighbours) == 12  # edges of the cube, not the diagonals of its sides
    assert set(diagram.volumes(on=(-1, 1)).values()) == {Fraction(1)}


def test_a_key_a_hair_below_the_others_is_empty() -> None:
    """The middle of a square, raised to the plane of its corners, or an ulp beyond it."""
    keys = [[0, 0], [2, 0], [0, 2], [2, 2], [1, 1]]
    tied = hm.power_diagram(keys, [0.1, 0.1, 0.1, 0.1, 0.1])
    above = hm.power_diagram(keys, [0.1, 0.1, 0.1, 0.1, np.nextafter(0.1, 1)])
    below = hm.power_diagram(keys, [0.1, 0.1, 0.1, 0.1, np.nextafter(0.1, 0)])
    assert [4 in one.live for one in (below, tied, above)] == [False, False, True]


# ---- boxes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_cells_fill_the_box_exactly(seed: int) -> None:
    keys, biases = small(seed)
    d = keys.shape[1]
    box = hm.Box([-1.5] * d, [2.25] * d)
    diagram = hm.power_diagram(keys, biases, on=box)
    volumes = diagram.volumes()
    assert sum(volumes.values()) == Fraction(15, 4) ** d
    assert set(volumes) == set(diagram.cells.tolist())
    assert all(volume > 0 for volume in volumes.values())


@pytest.mark.parametrize("seed", range(40))
def test_what_lives_in_a_box_is_what_the_oracle_finds_there(seed: int) -> None:
    keys, biases = small(seed)
    d = keys.shape[1]
    box = hm.Box([-0.5] * d, [0.75] * d)
    diagram = hm.power_diagram(keys, biases, on=box)
    levels = np.zeros(len(keys)) if biases is None else biases
    K, b = exact(keys), [Fraction(one) for one in levels.tolist()]
    sides = []
    for c in range(d):
        unit = [Fraction(int(c == i)) for i in range(d)]
        sides += [[*unit, Fraction(1, 2)], [*(-one for one in unit), Fraction(3, 4)]]
    everywhere, walls = oracle(K, b)
    live = {i for i in everywhere if feasible(ahead(K, b, i, sorted(everywhere - {i})) + sides)}
    assert set(diagram.cells.tolist()) == live
    touching = set()
    for i, j in walls:
        wall = ahead(K, b, i, [j])[0]
        pivot = next(c for c in range(d) if wall[c])
        rows = ahead(K, b, i, sorted(everywhere - {i, j})) + sides
        if feasible([_without(row, wall, pivot) for row in rows]):
            touching.add((i, j))
    assert {tuple(pair) for pair in diagram.neighbours.tolist()} == touching


def test_most_cells_of_a_box_need_no_cutting() -> None:
    """Cells with a vertex inside are seen by floats, and agree with cells that are cut."""
    rng = np.random.default_rng(5)
    keys = rng.normal(size=(300, 2))
    diagram = hm.power_diagram(keys, -(keys**2).sum(axis=1) / 2, on=(-1, 1))
    live, walls = set(diagram.cells.tolist()), {tuple(p) for p in diagram.neighbours.tolist()}
    cut = {i: diagram.cell(i) for i in diagram.winners.tolist()}
    assert live == {i for i, cell in cut.items() if cell.volume > 0}
    assert walls == {
        (min(i, j), max(i, j)) for i, cell in cut.items() if cell.volume for j in cell.neighbours
    }
    assert sum(diagram.volumes().values()) == 4


def test_a_solid_cell_knows_its_sides() -> None:
    """The middle of a body-centred cube has a truncated octahedron: 24 corners, 14 sides."""
    corners = np.array(list(itertools.product((-1, 1), repeat=3)), dtype=float)
    axes = np.concatenate([2 * np.eye(3), -2 * np.eye(3)])
    keys = np.concatenate([np.zeros((1, 3)), corners, axes])
    diagram = hm.power_diagram(keys, -(keys**2).sum(axis=1) / 2, on=(-5, 5))
    cell = diagram.cell(0)
    assert len(cell.corners) == 24
    assert sorted(len(side.corners) for side in cell.sides) == [4] * 6 + [6] * 8
    assert cell.volume == 4  # half of the cube with side 2
    assert len(cell.neighbours) == 14


def test_walls_that_touch_a_corner_take_nothing() -> None:
    """A wall through an edge of the box leaves the whole box, and no side of its own."""
    diagram = hm.power_diagram([[0, 0, 0], [1, 1, 0]], [0, -2], on=(0, 1))
    assert diagram.cells.tolist() == [0]
    assert diagram.neighbours.tolist() == []
    assert len(diagram.cell(0).sides) == 6


# ---- locating ------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_located_keys_are_the_first_with_the_largest_exact_score(d: int) -> None:
    rng = np.random.default_rng(d)
    keys = rng.integers(-3, 4, size=(40, d)).astype(float)
    biases = rng.integers(-3, 4, size=40).astype(float)
    queries = rng.integers(-4, 5, size=(300, d)) / 2  # many ties
    found = hm.power_diagram(keys, biases).locate(queries)
    scores = queries @ keys.T + biases  # exact: halves of small whole numbers
    assert found.tolist() == scores.argmax(axis=1).tolist()


def test_a_query_an_ulp_from_a_wall_is_located_exactly() -> None:
    """The wall between 0.1 and 0.3 is at 0.2, but not at the float 0.2."""
    diagram = hm.power_diagram([[0.1], [0.3]], [0.0, -0.04])
    wall = Fraction(0.04) / (Fraction(0.3) - Fraction(0.1))
    near = float(wall)
    queries = np.array([np.nextafter(near, 0), near, np.nextafter(near, 1)])[:, None]
    assert diagram.locate(queries).tolist() == [int(Fraction(q) > wall) for q in queries[:, 0]]


def test_climbing_agrees_with_all_scores_on_many_keys() -> None:
    rng = np.random.default_rng(0)
    for d, biased in itertools.product((2, 3), (False, True)):
        keys = rng.normal(size=(500, d))
        biases = -(keys**2).sum(axis=1) / 2 if biased else None
        queries = 2 * rng.normal(size=(2000, d))
        scores = queries @ keys.T + (0 if biases is None else biases)
        found = hm.power_diagram(keys, biases).locate(queries)
        assert found.tolist() == scores.argmax(axis=1).tolist()


def test_one_query_has_one_answer() -> None:
    assert hm.power_diagram([[0, 1], [1, 0]]).locate([2, 1]) == 1


# ---- top-k ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_top_k_cells_are_those_of_all_sums(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d, n = int(rng.integers(1, 4)), int(rng.integers(2, 7))
    k = int(rng.integers(1, n + 1))
    lifted = np.unique(rng.integers(-2, 3, size=(n, d + 1)), axis=0)
    keys, biases = lifted[:, :-1], lifted[:, -1]
    k = min(k, len(keys))
    sets = list(itertools.combinations(range(len(keys)), k))
    sums = [exact(lifted[list(one)].sum(axis=0)[None])[0] for one in sets]
    found = hm.top_k_diagram(keys, k, biases)
    live, walls = oracle([one[:-1] for one in sums], [one[-1] for one in sums])
    by_sum = {tuple(sums[i]) for i in live}
    total = {tuple(exact(lifted[list(one)].sum(axis=0)[None])[0]) for one in found.cells}
    assert total == by_sum
    assert len(found.neighbours) == len(walls)


def test_generic_lines_have_the_known_number_of_top_k_cells() -> None:
    """Of N generic affine scores on a line, the k largest change where two scores tie at rank k.

    With slopes 0 < 1 < 2 < ... and convex offsets (tangents of a parabola) every two neighbours in
    order tie once at each rank: N - k + 1 sets {i, ..., i + k - 1}.
    """
    n = 9
    keys = np.arange(n)[:, None]
    for k in range(1, n + 1):
        cells = hm.top_k_diagram(keys, k, -(keys[:, 0] ** 2)).cells
        assert sorted(cells) == [tuple(range(i, i + k)) for i in range(n - k + 1)]


def test_top_k_locates_the_k_best() -> None:
    rng = np.random.default_rng(3)
    keys = rng.normal(size=(30, 2))
    diagram = hm.top_k_diagram(keys, 3, -(keys**2).sum(axis=1) / 2)
    queries = rng.normal(size=(200, 2))
    best = np.argsort(-(queries @ keys.T - (keys**2).sum(axis=1) / 2), axis=1)[:, :3]
    assert np.sort(diagram.locate(queries), axis=1).tolist() == np.sort(best, axis=1).tolist()


# ---- heads ---------------------------------------------------------------------------------------


def small_model(causal: bool = False) -> hm.Transformer:
    rng = np.random.default_rng(2)
    query, key, value = (rng.integers(-2, 3, size=(2, 3)).astype(float) for _ in range(3))
    bias = rng.integers(-2, 3, size=(4, 4)).astype(float)
    head = hm.Head(query, key, value, value.T, hm.Hardmax(), causal, bias)
    maps = rng.integers(-1, 2, size=(4, 3, 2)).astype(float)
    source = hm.VectorInput(maps, rng.integers(-1, 2, size=(4, 3)).astype(float))
    return hm.Transformer(source, [hm.Attention([head])] * 2, hm.ReadOut(np.eye(3), np.zeros(3)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("space", ["query", "stream"])
def test_a_heads_diagram_says_where_it_looks(causal: bool, space: str) -> None:
    model = small_model(causal)
    from hardmax.core import trace

    stream = np.array(trace(model, [1, 2], Fraction).streams[1], dtype=float)
    diagram = hm.head_diagram(model, 1, 0, [1, 2], token=2, space=space)
    head = model.sublayers[1].heads[0]
    seen = 3 if causal else 4
    rng = np.random.default_rng(0)
    asked = rng.integers(-3, 4, size=(50, 2 if space == "query" else 3)).astype(float)
    queries = asked if space == "query" else asked @ head.query.T
    scores = queries @ (stream[:seen] @ head.key.T).T + head.position_bias[2, :seen]
    assert diagram.locate(asked).tolist() == scores.argmax(axis=1).tolist()
    same = hm.head_diagram(model, 1, 0, stream, token=2, space=space)
    assert same.locate(asked).tolist() == diagram.locate(asked).tolist()


# ---- hulls ---------------------------------------------------------------------------------------


def test_hulls_that_floats_cannot_do_are_done_in_whole_numbers() -> None:
    """Points a hair apart, far from the origin: Qhull merges or gives up, the answer is right."""
    base = np.array(list(itertools.product((0.0, 1.0), repeat=3)))
    points = 2.0**40 + base * 2.0**-10
    hull = convex_hull(Points.of(points))
    assert hull.dimension == 3
    assert hull.surface is not None
    assert len(np.unique(hull.surface.simplices)) == 8


def test_rationals_that_are_no_floats_are_kept() -> None:
    """Thirds: the middle of three lifted points lies in their plane exactly, and is empty."""
    third = Fraction(1, 3)
    keys = [[0], [third], [1]]
    assert hm.power_diagram(keys, [0, third, 1]).live.tolist() == [0, 2]
    raised = hm.power_diagram(keys, [0, third + Fraction(1, 10**40), 1])
    assert raised.live.tolist() == [0, 1, 2]


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (([[1, 2], [3]],), "rows of numbers, all of one dimension"),
        (([[1.0, np.nan]],), "nan or infinities"),
        (([],), "table|at least one key"),
        ((np.zeros((0, 2)),), "at least one key"),
        (([[1, 2]], [1, 2]), "one bias for each of the 1 keys, but there are 2"),
        (([[1, 2]], [np.inf]), "biases hold nan or infinities"),
        ((np.zeros((50, 12)),), "too many to enumerate: 50 keys"),
        (([[1, 2]], None, [(0, 0), (1, 2)]), "misses every cell"),
        (([[1, 2]], None, (2, 1)), "inverted"),
        ((np.eye(4), None, (0, 1)), "up to 3 dimensions"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(arguments: tuple, reason: str) -> None:
    with pytest.raises(hm.HardmaxError, match=reason):
        hm.power_diagram(*arguments)


def test_bad_questions_are_refused_in_a_sentence() -> None:
    diagram = hm.power_diagram([[1, 0], [0, 1], [0.5, 0.5]])
    with pytest.raises(hm.ShapeError, match="rows of 2 numbers"):
        diagram.locate([[1, 2, 3]])
    with pytest.raises(hm.ShapeError, match="nan"):
        diagram.locate([[1, np.nan]])
    with pytest.raises(hm.RequestError, match="cell of key 2 is empty"):
        diagram.cell(2, on=(-1, 1))
    with pytest.raises(hm.RequestError, match="give one, for example"):
        diagram.cell(0)
    with pytest.raises(hm.RequestError, match="from 1 to 3, but it is 4"):
        hm.top_k_diagram([[1, 0], [0, 1], [0.5, 0.5]], 4)
    with pytest.raises(hm.ShapeError, match="give each of them once"):
        hm.top_k_diagram([[1, 0], [1, 0]], 1)
    model = small_model()
    with pytest.raises(hm.RequestError, match="no layer 2"):
        hm.head_diagram(model, 2, 0, [1, 2])
    with pytest.raises(hm.RequestError, match="no head 1"):
        hm.head_diagram(model, 0, 1, [1, 2])
    with pytest.raises(hm.ShapeError, match="rows of width 3"):
        hm.head_diagram(model, 0, 0, np.zeros((4, 5)))


# ---- all scales of floats ------------------------------------------------------------------------


def test_columns_that_span_all_floats() -> None:
    """Scaled to 1 the small numbers underflow: they are carried as Fractions."""
    keys, biases = [[1e300], [0.0], [1e-30], [2e-30]], [-1e300, 0, 1, 1.5]
    diagram = hm.power_diagram(keys, biases)
    assert diagram.live.tolist() == [0, 1, 2, 3]
    assert diagram.locate([-7.5e29]) == 2
    assert hm.Tropical.of(keys, biases) != hm.Tropical.of(
        [keys[0], keys[1], keys[3]], [-1e300, 0, 1.5]
    )


@pytest.mark.parametrize("seed", range(30))
def test_any_exponents_against_the_oracle(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 6)), int(rng.integers(1, 3))
    keys = rng.integers(-3, 4, size=(n, d)) * 10.0 ** rng.choice([-310, -200, 0, 200, 300], (n, d))
    biases = rng.integers(-3, 4, size=n) * 10.0 ** rng.choice([-310, -100, 0, 100, 300], n)
    live, walls = oracle(exact(keys), [Fraction(one) for one in biases.tolist()])
    diagram = hm.power_diagram(keys, biases)
    assert set(diagram.cells.tolist()) == live
    assert {tuple(pair) for pair in diagram.neighbours.tolist()} == walls


def test_queries_are_taken_exactly() -> None:
    third = Fraction(1, 3) + Fraction(1, 10**30)
    assert hm.power_diagram([[0], [3]], [1, 0]).locate([[third]]).tolist() == [1]
    assert hm.power_diagram([[0], [1]], [2**60, 0]).locate([[2**60 + 1]]).tolist() == [1]
    assert hm.power_diagram([[1e200], [2e200], [-1e200]], [0, 0, 1]).locate([[1e200]]).tolist() == [
        1
    ]


def test_few_keys_may_have_many_dimensions() -> None:
    assert len(hm.power_diagram(np.eye(9)).neighbours) == 36
    with pytest.raises(hm.RequestError, match="up to 7 dimensions"):
        hm.top_k_diagram(np.eye(9), 2)


@pytest.mark.parametrize("wrong", ["ab", [[1, 2], [3]], [["1", "2"]], [[1j, 0]], [[1.0]]])
def test_queries_that_are_no_rows_are_refused(wrong: object) -> None:
    with pytest.raises(hm.ShapeError):
        hm.power_diagram([[1, 0], [0, 1]]).locate(wrong)


def test_head_diagrams_are_of_models() -> None:
    with pytest.raises(hm.RequestError, match="needs a Transformer or a Construction, but 3 came"):
        hm.head_diagram(3, 0, 0, [1.0])  # type: ignore[arg-type]
