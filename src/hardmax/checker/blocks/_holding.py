"""What blocks hold, in all cases of the steps that they code: middles, and how far off at most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax.checker.blocks._arithmetic import Balls
from hardmax.checker.blocks._sets import ClosedSets, Exact, Unproved
from hardmax.core import Block, Circuit, Node, Transformer, square_code
from hardmax.numerics import Format, above_float, nearest_float

_MOST_CASES = 2**20


Axis = tuple[str, int]  # "k" or "q", there or here, and a step
Distances = tuple[float, float]  # where a coordinate is to be 1, and elsewhere


@dataclass(eq=False)
class Holdings:
    """How far blocks are from their codes in one format: at symbols, and at the start token.

    Codes are those in float64; a number that float64 does not hold is off by `rounding_of`. A share
    has its own distance for each count. At symbols the first distance is that of coordinates that
    are lit, and the second that of others, which units that silence them make 0.
    """

    format: Format
    symbols: dict[int, Distances] = field(default_factory=dict)
    start: dict[int, float] = field(default_factory=dict)
    shares: dict[int, np.ndarray] = field(default_factory=dict)
    rows: float = 0.0  # how far attention rows are from their patterns
    farthest: float = 0.0  # how far blocks are from their codes
    adrift: float = 0.0  # how far a turned stream strays where nothing is written


@dataclass(eq=False)
class Question:
    """A Transformer, its circuit, and the sets of its target's steps: what no format changes."""

    transformer: Transformer
    circuit: Circuit
    sets: ClosedSets
    ids: np.ndarray  # of the claim's symbols in the Transformer's alphabet
    tables: dict[int, ShareTable] = field(default_factory=dict)

    @property
    def longest(self) -> int:
        return self.sets.words.longest

    @property
    def tokens(self) -> int:
        return self.longest + 1

    def blocks(self, numbers: Sequence[int]) -> list[Block]:
        return [self.circuit.blocks[k] for k in numbers]

    def steps_of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(self.circuit.blocks[k].step for k in numbers))


@dataclass(frozen=True, eq=False)
class ShareTable:
    """Which positions the head of a share selects: a table over steps there, then steps here.

    Its last axis are classes of pairs of places; `pairs` has the class of each, -1 if it is hidden.
    """

    keys: tuple[int, ...]
    queries: tuple[int, ...]
    table: np.ndarray
    pairs: np.ndarray
    masked: bool

    @property
    def axes(self) -> list[Axis]:
        return [("k", s) for s in self.keys] + [("q", s) for s in self.queries]

    @property
    def is_everybody(self) -> bool:
        return bool(self.table.all() and (self.pairs >= 0).all())


def code_of(block: Block, number: Exact) -> np.ndarray:
    """The coordinates of a block that holds a number; of a one-hot none is lit for other items."""
    if block.form == "number":
        return np.array([nearest_float(number)], dtype=float)
    if block.form == "square":
        return np.array([nearest_float(square_code(number, block.items))], dtype=float)
    return np.array([float(item == number) for item in block.items])


def rounding_of(numbers: Sequence[Exact]) -> float:
    """How far float64 is from numbers, at most."""
    return max(
        (above_float(abs(Fraction(n) - Fraction(nearest_float(n)))) for n in numbers), default=0.0
    )


class Cases:
    """All numbers of some steps together, as the coordinates of the blocks that hold them.

    The columns are those of the blocks, then `one` and `start`, which are 1 and 0 at symbols.
    """

    def __init__(self, asked: Question, steps: Sequence[int], blocks: Sequence[int]) -> None:
        self.asked, self.steps = asked, tuple(steps)
        self.lists = [asked.sets.numbers(step) for step in steps]
        self.blocks = list(blocks)
        circuit = asked.circuit
        self.columns = [p for k in blocks for p in circuit.blocks[k].coordinates]
        self.columns += [circuit.one, circuit.start]
        self._owner = [k for k in blocks for _ in circuit.blocks[k].coordinates]

    @property
    def count(self) -> int:
        return math.prod(map(len, self.lists))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(len, self.lists))

    def middle(self) -> np.ndarray:
        """A row for each case, the last step's numbers going round first."""
        if self.count * len(self.columns) > 2**27:
            raise Unproved(f"A component has {self.count:,} cases, which is too many.")
        codes = self._codes()
        rows = np.zeros((self.count, len(self.columns)))
        rows[:, -2] = 1.0
        places = np.indices(self.shape).reshape(len(self.shape), self.count)
        at = 0
        for k in self.blocks:
            block = self.asked.circuit.blocks[k]
            which = places[self.steps.index(block.step)]
            rows[:, at : at + block.width] = codes[k][which]
            at += block.width
        return rows

    def _codes(self) -> dict[int, np.ndarray]:
        found = {}
        for k in self.blocks:
            block = self.asked.circuit.blocks[k]
            numbers = self.asked.sets.numbers(block.step)
            found[k] = np.array([code_of(block, n) for n in numbers]).reshape(-1, block.width)
        return found

    def radius(self, middle: np.ndarray, holdings: Holdings) -> np.ndarray:
        """How far each column is off, at symbols: for rows of middles."""
        plain = (holdings.adrift, holdings.adrift)
        both = np.array([*(holdings.symbols[k] for k in self._owner), plain, plain])
        return np.where(middle == 1.0, both[:, 0], both[:, 1])

    def balls(self, holdings: Holdings) -> Balls:
        middle = self.middle()
        return Balls(middle, self.radius(middle, holdings))

    def start(self, holdings: Holdings) -> Balls:
        """The start token, as one more case."""
        return start_balls(self.asked, self.blocks, holdings)


def start_balls(asked: Question, blocks: Sequence[int], holdings: Holdings) -> Balls:
    circuit = asked.circuit
    held = [one for k in blocks for one in circuit.blocks[k].at_start]
    away = [holdings.start[k] for k in blocks for _ in circuit.blocks[k].coordinates]
    plain = (holdings.adrift, holdings.adrift)
    return Balls(np.array([[*held, 1.0, 1.0]]), np.array([[*away, *plain]]))


def numbers_in(
    cases: Cases, step: int, base: tuple[int, ...], sets: ClosedSets
) -> tuple[list[int], list[Exact]]:
    """Which of the cases the step has an answer in, and the answers."""
    strides = dict(zip(cases.steps, _strides(cases.shape), strict=True))
    places = {s: {n: k for k, n in enumerate(sets.numbers(s))} for s in base}
    if set(base) != set(cases.steps):
        raise Unproved(f"The step {sets.name(step)} does not depend on all that is read for it.")
    where, answers = [], []
    for given, answer in sets.rows(step, base):
        at = sum(places[s][n] * strides[s] for s, n in zip(base, given, strict=True))
        where.append(at)
        answers.append(answer)
    return where, answers


def _strides(shape: Sequence[int]) -> list[int]:
    return [math.prod(shape[k + 1 :]) for k in range(len(shape))]


def axes_of(table: np.ndarray, own: Sequence[Axis], wanted: Sequence[Axis]) -> np.ndarray:
    """A table over its own steps, to be broadcast over wanted ones in their order."""
    order = sorted(range(len(own)), key=lambda k: wanted.index(own[k]))
    turned = table.transpose(order)
    sizes = iter(turned.shape)
    return turned.reshape([next(sizes) if step in own else 1 for step in wanted])


def written(asked: Question, node: Node) -> list[int]:
    """The coordinates that a node writes, in the order of its blocks."""
    return [p for k in node.writes for p in asked.circuit.blocks[k].coordinates]


def codes_for(asked: Question, node: Node, numbers: Sequence[Exact]) -> np.ndarray:
    """What the blocks of a node are to hold for numbers: cases x coordinates."""
    blocks = asked.blocks(node.writes)
    distinct = list(dict.fromkeys(numbers))
    rows = [np.concatenate([code_of(block, n) for block in blocks]) for n in distinct]
    place = {n: k for k, n in enumerate(distinct)}
    table = np.array(rows).reshape(len(distinct), sum(block.width for block in blocks))
    return table[[place[n] for n in numbers]]


def spread_of(
    asked: Question, node: Node, away: np.ndarray, codes: np.ndarray
) -> dict[int, Distances]:
    """The largest distances in each block of a node, from distances cases x coordinates.

    A number is as far off as it may be, whatever it is.
    """
    found, at = {}, 0
    for k in node.writes:
        block = asked.circuit.blocks[k]
        own, held = (one[:, at : at + block.width] for one in (away, codes))
        lit = held == 1.0 if block.form == "one-hot" else np.ones(own.shape, dtype=bool)
        on = float(np.where(lit, own, 0.0).max(initial=0.0))
        found[k] = (
            on,
            on if block.form != "one-hot" else float(np.where(lit, 0.0, own).max(initial=0.0)),
        )
        at += block.width
    return found
