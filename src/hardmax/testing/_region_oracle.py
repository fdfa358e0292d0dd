"""Cells and regions of tiny sources by definition: slow, plain, exact, and of one method only.

A cell is a list of strict inequalities with whole coefficients, and a pattern is possible iff
Fourier-Motzkin elimination finds them solvable. Nothing is rounded and nothing is guessed; this
file shares no line with the engines that it judges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from hardmax.core import (
    Affine,
    Attention,
    Box,
    FeedForward,
    Head,
    Maximum,
    Product,
    Steps,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.languages import MaxoutNetwork, ReluNetwork

Step = Affine | Maximum | Univariate | Product
Form = tuple[Fraction, ...]  # coefficients of the domain's coordinates, then the constant
Wall = tuple[int, ...]  # a form times a positive number; positive on the cell
State = tuple[tuple[Form, ...], ...]  # by token; a network is one token, steps are a value each


class QuadraticScore(ValueError):
    """A difference of scores is not affine on a cell: there is no polytope to speak of."""


@dataclass(frozen=True)
class CellByDefinition:
    """An open polytope on which all choices are the same, and the affine map there."""

    walls: tuple[Wall, ...]
    state: State


def cells_by_definition(source: Any, on: Any) -> list[CellByDefinition]:
    """Every pattern of winners that occurs on an open set; equal scores win together.

    `source` is a ReluNetwork, a MaxoutNetwork, a hard Transformer or what else says its steps
    (affine maps, maxima, relu and abs), `on` a Box, a Segment or a Slice. Of a Transformer the
    tokens count that masks let reach the read-out. The last state is the output.
    """
    forms, walls = _domain(on)
    if isinstance(source, Transformer):
        return _through_transformer(source, forms, walls)
    if not isinstance(source, ReluNetwork | MaxoutNetwork):
        return _through_steps(source.steps(), forms, walls)
    cells = [CellByDefinition(walls, (forms,))]
    layers = list(zip(source.weights, source.biases, strict=True))
    hidden = layers[:-1] if isinstance(source, ReluNetwork) else layers
    for W, b in hidden:
        step = _cells_after_rectifiers if isinstance(source, ReluNetwork) else _cells_after_maxima
        cells = [new for cell in cells for new in step(W, b, cell)]
    if isinstance(source, MaxoutNetwork):
        return cells
    return [CellByDefinition(cell.walls, (_affine(*layers[-1], cell.state[0]),)) for cell in cells]


def counts_by_definition(source: Any, on: Any) -> tuple[int, int]:
    """Cells, and maximal affine regions: cells of one map joined through open parts of walls."""
    cells = cells_by_definition(source, on)
    parent = list(range(len(cells)))

    def top(i: int) -> int:
        return i if parent[i] == i else top(parent[i])

    for a, b in combinations(range(len(cells)), 2):
        if cells[a].state == cells[b].state and top(a) != top(b) and _meet(cells[a], cells[b]):
            parent[top(a)] = top(b)
    return len(cells), len({top(i) for i in range(len(cells))})


# ---- inequalities --------------------------------------------------------------------------------


def is_solvable(rows: Iterable[Wall]) -> bool:
    """Whether c . x + c0 > 0 for all rows has a solution: Fourier-Motzkin elimination.

    Solutions for the other coordinates extend to the first one iff every lower bound on it lies
    below every upper bound, that is, iff all positive combinations without it are positive.
    """
    rows = set(rows)
    while rows and len(next(iter(rows))) > 1:
        above = [row for row in rows if row[0] > 0]
        below = [row for row in rows if row[0] < 0]
        rest = {row[1:] for row in rows if not row[0]}
        for a in above:
            for b in below:
                rest.add(_without_first(a, b))
        rows = rest
    return all(row[0] > 0 for row in rows)


def _without_first(a: Wall, b: Wall) -> Wall:
    p, q = a[0], -b[0]
    common = math.gcd(p, q)
    p, q = p // common, q // common
    return _primitive([q * x + p * y for x, y in zip(a[1:], b[1:], strict=True)])


def _primitive(numbers: Sequence[int]) -> Wall:
    common = math.gcd(*numbers)
    return tuple(n // common for n in numbers) if common > 1 else tuple(numbers)


def _whole(form: Sequence[Fraction]) -> Wall:
    """The form times a positive number, all whole without a common divisor."""
    common = math.lcm(*(x.denominator for x in form))
    return _primitive([x.numerator * (common // x.denominator) for x in form])


def _meet(one: CellByDefinition, other: CellByDefinition) -> bool:
    """Whether the two lie on different sides of a hyperplane that bounds both, and share an
    open part of it: then strict inequalities of both, but for that wall, hold somewhere on it.
    """
    facing = set(other.walls)
    for wall in set(one.walls):
        back = tuple(-x for x in wall)
        if back in facing:
            rows = (set(one.walls) | facing) - {wall, back}
            if is_solvable(_on_the_wall(row, wall) for row in rows):
                return True
    return False


def _on_the_wall(row: Wall, wall: Wall) -> Wall:
    """The row where the wall is 0, without the first coordinate that the wall holds."""
    place = next(i for i, x in enumerate(wall) if x)
    p, q = abs(wall[place]), row[place] if wall[place] > 0 else -row[place]
    cleared = [p * x - q * y for x, y in zip(row, wall, strict=True)]
    return _primitive([*cleared[:place], *cleared[place + 1 :]])


# ---- affine forms --------------------------------------------------------------------------------


def _domain(on: Any) -> tuple[tuple[Form, ...], tuple[Wall, ...]]:
    """The inputs as forms of the domain's own coordinates, and its walls."""
    if isinstance(on, Box):
        low, high = ([Fraction(x) for x in ends.tolist()] for ends in (on.low, on.high))
        unit = [[Fraction(int(i == j)) for j in range(len(low) + 1)] for i in range(len(low))]
        sides = [(*row[:-1], -a) for row, a in zip(unit, low, strict=True)]
        sides += [(*(-x for x in row[:-1]), b) for row, b in zip(unit, high, strict=True)]
        return tuple(map(tuple, unit)), tuple(map(_whole, sides))
    if hasattr(on, "exact_polygon"):
        first, second = on.exact_directions
        return tuple(zip(first, second, on.exact_origin, strict=True)), _polygon(on.exact_polygon)
    ways = [b - a for a, b in zip(on.exact_start, on.exact_end, strict=True)]
    return tuple(zip(ways, on.exact_start, strict=True)), ((1, 0), (-1, 1))


def _polygon(corners: Sequence[tuple[Fraction, Fraction]]) -> tuple[Wall, ...]:
    sides = []
    for k, (x, y) in enumerate(corners):
        u, v = corners[(k + 1) % len(corners)]
        sides.append(_whole((y - v, u - x, x * v - y * u)))
    return tuple(sides)


def _sum(forms: Sequence[Form], weights: Sequence[Any], width: int) -> Form:
    total = [Fraction(0)] * width
    for form, weight in zip(forms, weights, strict=True):
        if weight:
            factor = Fraction(weight)
            total = [x + factor * y for x, y in zip(total, form, strict=True)]
    return tuple(total)


def _affine(
    W: np.ndarray, b: np.ndarray, forms: Sequence[Form], width: int = 0
) -> tuple[Form, ...]:
    width = width or len(forms[0])
    rows = (_sum(forms, row, width) for row in np.asarray(W).tolist())
    return tuple(
        (*row[:-1], row[-1] + Fraction(c)) for row, c in zip(rows, b.tolist(), strict=True)
    )


def _less(one: Form, other: Form) -> Form:
    return tuple(x - y for x, y in zip(one, other, strict=True))


# ---- choices -------------------------------------------------------------------------------------


def _parts_won(
    walls: tuple[Wall, ...], scores: Sequence[Form]
) -> Iterator[tuple[tuple[Wall, ...], tuple[int, ...]]]:
    """The parts of a cell where each score is the largest, and all that are equal to it."""
    classes: dict[Form, list[int]] = {}
    for i, score in enumerate(scores):
        classes.setdefault(score, []).append(i)
    if len(classes) == 1:
        yield walls, tuple(range(len(scores)))
        return
    for score, tied in classes.items():
        part = {*walls, *(_whole(_less(score, other)) for other in classes if other != score)}
        if is_solvable(part):
            yield tuple(part), tuple(tied)


def _choices(
    walls: tuple[Wall, ...], groups: Iterable[Sequence[Form]]
) -> list[tuple[tuple[Wall, ...], tuple[tuple[int, ...], ...]]]:
    found: list[Any] = [(walls, ())]
    for scores in groups:
        found = [
            (part, (*won, tied)) for old, won in found for part, tied in _parts_won(old, scores)
        ]
    return found


def _cells_after_rectifiers(
    W: np.ndarray, b: np.ndarray, cell: CellByDefinition
) -> Iterator[CellByDefinition]:
    rows = _affine(W, b, cell.state[0])
    zero = _zero(cell.state)
    for part, won in _choices(cell.walls, [(zero, z) for z in rows]):
        state = tuple(z if tied == (1,) else zero for z, tied in zip(rows, won, strict=True))
        yield CellByDefinition(part, (state,))


def _cells_after_maxima(
    W: np.ndarray, b: np.ndarray, cell: CellByDefinition
) -> Iterator[CellByDefinition]:
    pieces = [_affine(W[p], b[p], cell.state[0]) for p in range(len(W))]
    groups = list(zip(*pieces, strict=True))
    for part, won in _choices(cell.walls, groups):
        state = tuple(group[tied[0]] for group, tied in zip(groups, won, strict=True))
        yield CellByDefinition(part, (state,))


def _through_steps(
    steps: Steps, forms: tuple[Form, ...], walls: tuple[Wall, ...]
) -> list[CellByDefinition]:
    """Every step adds its value to the state, on every part into which its choices cut a cell."""
    cells = [CellByDefinition(walls, (forms,))]
    for step in steps.steps:
        cells = [new for cell in cells for new in _cells_after_step(step, cell)]
    return [CellByDefinition(cell.walls, cell.state[-1:]) for cell in cells]


def _cells_after_step(step: Step, cell: CellByDefinition) -> Iterator[CellByDefinition]:
    read = [form for source in step.sources for form in cell.state[source]]
    zero = _zero(cell.state)
    match step:
        case Affine():
            made = _affine(step.weights, step.bias, read, len(zero))
            yield CellByDefinition(cell.walls, (*cell.state, made))
            return
        case Maximum():
            groups = [[read[i] for i in row if i >= 0] for row in step.groups.tolist()]
        case Univariate(name="relu"):
            groups = [[zero, z] for z in read]
        case Univariate(name="abs"):
            groups = [[z, _less(zero, z)] for z in read]
        case _:
            raise ValueError(f"{step} is not piecewise linear")
    for part, won in _choices(cell.walls, groups):
        made = tuple(group[tied[0]] for group, tied in zip(groups, won, strict=True))
        yield CellByDefinition(part, (*cell.state, made))


def _zero(state: State) -> Form:
    return (Fraction(0),) * len(state[0][0])


# ---- hard Transformers ---------------------------------------------------------------------------


def _through_transformer(
    model: Transformer, forms: tuple[Form, ...], walls: tuple[Wall, ...]
) -> list[CellByDefinition]:
    source = model.input
    assert isinstance(source, VectorInput)
    stream = tuple(_affine(source.maps[t], source.offsets[t], forms) for t in range(source.tokens))
    cells = [CellByDefinition(walls, stream)]
    for number, layer in enumerate(model.sublayers):
        asking = _tokens_followed(model, number + 1)
        step = (
            _cells_after_feed_forward if isinstance(layer, FeedForward) else _cells_after_attention
        )
        cells = [new for cell in cells for new in step(layer, cell, asking)]  # type: ignore[arg-type]
    read, token = model.readout, model.readout.token
    assert token is not None
    return [
        CellByDefinition(cell.walls, (_affine(read.weights, read.bias, cell.state[token]),))
        for cell in cells
    ]


def _tokens_followed(model: Transformer, number: int) -> list[int]:
    """The tokens that can still reach the read-out from before sublayer `number`."""
    assert model.readout.token is not None
    tokens = {model.readout.token % model.tokens}
    for layer in model.sublayers[number:][::-1]:
        if isinstance(layer, Attention):
            heads = layer.heads
            tokens |= {
                j for t in tokens for head in heads for j in _tokens_seen(head, t, model.tokens)
            }
    return sorted(tokens)


def _tokens_seen(head: Head, token: int, tokens: int) -> range:
    return range(token + 1 if head.causal else tokens)


def _cells_after_feed_forward(
    layer: FeedForward, cell: CellByDefinition, asking: list[int]
) -> Iterator[Any]:
    zero = _zero(cell.state)
    hidden = {token: _affine(layer.inner, layer.inner_bias, cell.state[token]) for token in asking}
    groups = [(zero, z) for token in asking for z in hidden[token]]
    for part, won in _choices(cell.walls, groups):
        on, state = iter(won), list(cell.state)
        for token in asking:
            active = [z if next(on) == (1,) else zero for z in hidden[token]]
            change = _affine(layer.outer, layer.outer_bias, active, len(zero))
            state[token] = _add_rows(state[token], change)
        yield CellByDefinition(part, tuple(state))


def _add_rows(rows: Sequence[Form], change: Sequence[Form]) -> tuple[Form, ...]:
    return tuple(_sum(pair, (1, 1), len(pair[0])) for pair in zip(rows, change, strict=True))


def _cells_after_attention(
    layer: Attention, cell: CellByDefinition, asking: list[int]
) -> Iterator[Any]:
    stream, width = cell.state, len(cell.state[0][0])
    places = [(token, head) for token in asking for head in layer.heads]
    groups = [
        _scores(head, stream, token, _tokens_seen(head, token, len(stream)))
        for token, head in places
    ]
    for part, won in _choices(cell.walls, groups):
        state = list(stream)
        for (token, head), tied in zip(places, won, strict=True):
            share = [Fraction(1, len(tied))] * len(tied)
            mean = [
                _sum(rows, share, width) for rows in zip(*(stream[j] for j in tied), strict=True)
            ]
            values = [_sum(mean, row, width) for row in head.value.tolist()]
            change = [_sum(values, row, width) for row in head.output.tolist()]
            state[token] = _add_rows(state[token], change)
        yield CellByDefinition(part, tuple(state))


def _scores(head: Head, stream: State, t: int, seen: range) -> list[Form]:
    """Scores as far as they differ; what all have in common may be quadratic."""
    width = len(stream[0][0])
    query = [_sum(stream[t], row, width) for row in head.query.tolist()]
    scores, common = [], None
    for j in seen:
        key = [_sum(stream[j], row, width) for row in head.key.tolist()]
        square, total = _scalar_product(query, key, width)
        common = square if common is None else common
        if square != common:
            raise QuadraticScore("scores are quadratic on a cell")
        bias = 0 if head.position_bias is None else Fraction(float(head.position_bias[t, j]))
        scores.append((*total[:-1], total[-1] + bias))
    return scores


def _scalar_product(
    query: Sequence[Form], key: Sequence[Form], width: int
) -> tuple[dict[tuple[int, int], Fraction], list[Fraction]]:
    total = [Fraction(0)] * width
    square: dict[tuple[int, int], Fraction] = {}
    for q, k in zip(query, key, strict=True):
        for i, x in enumerate(q):
            for j, y in enumerate(k):
                if not x or not y:
                    continue
                if width - 1 in (i, j):
                    total[min(i, j)] += x * y
                else:
                    place = (min(i, j), max(i, j))
                    square[place] = square.get(place, Fraction(0)) + x * y
    return {place: x for place, x in square.items() if x}, total
