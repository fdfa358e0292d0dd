"""The guards of `checker.sequences`, one by one: what is charged, in which format, and rounded up.

Words are followed in an arithmetic with coarse steps, where each outward step and each charge is a
visible part of the radii; these are written down, with the sizes that were asked whether they fit.
To change them on purpose: python tests/checker/test_guards_words.py writes them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.sequences import _word_search
from hardmax.checker.sequences._layers import read_out
from hardmax.checker.sequences._reading import Reading
from hardmax.checker.sequences._stream import Blocks, Overflow, Stream, TooLarge, ball_of
from hardmax.checker.sequences._word_search import WordSearch
from hardmax.checker.sequences.registers import RegisterMemory, bound_by_registers
from hardmax.checker.sequences.registers import _bound as _registers
from hardmax.checker.sequences.registers import _heads as _register_heads
from hardmax.checker.sequences.registers._heads import Look, look
from hardmax.checker.sequences.registers._state import Register, near_grid
from hardmax.checker.sequences.registers._target import RootForm
from hardmax.checker.sequences.slots import SlotMemory, _heads
from hardmax.checker.sequences.slots._compare import _error_by_blocks, bound_by_slots, follow_words
from hardmax.checker.sequences.slots._cuts import _replaced
from hardmax.checker.sequences.slots._graded import Graded, graded
from hardmax.checker.sequences.slots._indicators import _best
from hardmax.checker.sequences.slots._slots import Slots
from hardmax.checker.sequences.words._batches import enclose_words
from hardmax.core import (
    Attention,
    Construction,
    FeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Transformer,
    Words,
)
from hardmax.numerics import FLOAT16, FLOAT64, FORMATS, Format, MidRadius
from hardmax.testing import coarse_steps, sizes_looked_at

DATA = Path(__file__).parents[1] / "data"
WRITTEN = DATA / "word_radii.txt"
NAMES = ("float64", "float32", "float16", "bfloat16")
KINDS = {"batches": 64, "slots": 96, "registers": 24, "lengths": 16, "parts": 32}
PARTS = 8


def unbounded(name: str) -> Format:
    """The format without a largest number, so that nothing ends early."""
    return replace(FORMATS[name], largest=FLOAT64.largest)


def model(number: int) -> Transformer:
    """Small whole numbers, so that scores tie, or numbers with all their digits."""
    rng = np.random.default_rng([21, number])
    width, longest = int(rng.integers(2, 5)), 3
    whole = number % 3 != 0

    def draw(*shape: int) -> np.ndarray:
        if whole:
            numbers = rng.integers(-1, 2, size=shape) * rng.choice([1.0, 1.0, 1.5, 0.3])
        else:
            numbers = rng.normal(size=shape)
        return np.where(rng.random(shape) < 0.6, numbers, 0.0)

    start = draw(width) if number % 2 else None
    tokens = longest + (start is not None)

    def head() -> Head:
        key, value = int(rng.integers(0, 3)), int(rng.integers(1, 3))
        soft = hm.Softmax(float(rng.choice([0.75, 1.0, 3.3, 32.0])))
        bias = draw(tokens, tokens) if rng.random() < 0.4 else None
        if bias is not None and rng.random() < 0.3:
            bias[:, 0] = -50.0
        return Head(
            *(draw(key, width), draw(key, width), draw(value, width), draw(width, value)),
            hm.Hardmax() if rng.random() < 0.5 else soft,
            bool(rng.random() < 0.5),
            bias,
        )

    layers: list[Attention | FeedForward] = []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.65:
            layers.append(Attention([head() for _ in range(int(rng.integers(1, 3)))]))
        else:
            shapes = ((2, width), (2,), (width, 2), (width,))
            layers.append(FeedForward(*(draw(*shape) for shape in shapes)))
    places = draw(tokens, width)
    if rng.random() < 0.5:
        places[:, 0], places[:, 1] = np.arange(tokens), 1.0
    source = SequenceInput("abc", draw(3, width), places, start)
    return Transformer(source, layers, ReadOut(draw(1, width), draw(1), None))


def amount(tables: Iterable[MidRadius]) -> float:
    """All radii, each with a weight of its own."""
    total = 0.0
    for _, radius in tables:
        weights = 1.0 + np.arange(np.size(radius)) / np.size(radius) if np.size(radius) else 0.0
        total += float((np.ravel(radius) * weights).sum())
    return total


def batches(number: int, format: Format) -> list[float]:
    made = model(number)
    words = np.random.default_rng(number).integers(0, 3, size=(5, 1 + number % 3))
    try:
        return [amount([enclose_words(made, words, format)])]
    except Overflow:
        return [np.inf]


def apart(slots: Slots, _: int, stream: Stream) -> Stream:
    """Sums are kept apart by token."""
    slots.split = True
    return stream


@contextmanager
def weights_seen() -> Iterator[list[float]]:
    """What heads that weigh all words alike are known up to; leaks are tiny, so their logarithm."""
    seen: list[float] = []

    def noted(*given: Any) -> Graded | None:
        found = graded(*given)
        if found is not None:
            seen.extend([float(found.error.sum()), float(np.log2(found.leak).sum())])
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_heads, "graded", noted)
        yield seen


def slots(number: int, format: Format) -> list[float]:
    made, change = model(1000 + number), apart if number % 5 == 3 else None
    words = Words(("a", "b", "c"), 3, 3)
    with weights_seen() as seen:
        try:
            _, streams = follow_words(made, words, 1 + number % 3, format, change)
            streams.append(read_out(streams[-1], made.readout, Reading(format)))
        except (Overflow, TooLarge):
            return [*seen, np.inf]
    return [*seen, *(amount(stream.blocks.values()) for stream in streams)]


def parts(number: int, format: Format) -> list[float]:
    """Lemmas that whole models seldom reach, on numbers with all their digits."""
    rng = np.random.default_rng([23, number])
    draw, radii = rng.normal, rng.exponential
    many = Slots(4, 1, 3)
    _, (stream, *_) = follow_words(model(2001 + 2 * number), Words("abc", 3, 3), 3, format)
    row = np.zeros(stream.width)
    row[:2] = draw(size=2) if number % 2 else (0.0, 1.0)
    slot = many.held(7, np.ones((4, 2), dtype=bool))
    held = (slot, (Fraction(1, 3), 1) if number % 4 < 2 else (1, 3), float(radii()) * 2.0**-12)
    cut = _replaced(stream, row, float(draw()) if number % 3 else 0.0, held, many)
    column = MidRadius(draw(size=(4, 1)) + 0.25 * rng.integers(0, 3, (4, 3)), radii(size=(4, 3)))
    column.middle[:] += 2.0**-30 * draw(size=(4, 3)) * np.abs(column.middle).max()
    column.middle[0] = column.middle[0, 0]  # its weight is another
    given = Graded(np.tile([0.1, 0.3, 0.3, 0.3], (4, 1)), np.zeros(4), np.zeros(4))
    summed, one = Blocks(4, 1), _heads._add_graded
    one(summed, given, (0,), column, 0, many)
    symbols = [
        MidRadius(
            draw(size=(1, 3, 2)) + np.zeros((3, 1, 1)),
            radii(size=(1, 3, 2)) / 64 + np.zeros((3, 1, 1)),
        )
    ]
    middle = MidRadius(draw(size=(4, 2)), radii(size=(4, 2)))
    best = _best(SimpleNamespace(blocks={(): middle}), symbols, SimpleNamespace(first=1))
    assert best is not None
    place = Register(0, draw(size=(2, 3)), float(radii())).by_place
    size, noise = np.abs(draw(size=3)), np.array([0.0, 2.0**-30, 2.0**-14])
    lost = _registers._rounding(3, size, noise, np.array([0.0, -3.0, -3.0]), True, format)
    found = (cut.blocks.values(), summed.tables.values(), [best.value, place], [(0.0, lost)])
    return [*map(amount, found), float(best.runner_up.sum())]


@cache
def machine(number: int) -> Construction:
    return hm.load(DATA / f"machine_{number}.hardmax")


def strained(made: Construction, number: int) -> Construction:
    """With weights that are off by a little, in one place or everywhere; and some as they are."""
    rng = np.random.default_rng([22, number])
    tiny = float(rng.choice([0.0, 2.0**-44, 2.0**-36]))
    off = lambda part: part * (1.0 + tiny * rng.integers(-1, 2, size=part.shape))  # noqa: E731
    layers: list[Attention | FeedForward] = []
    for layer in made.transformer.sublayers:
        if isinstance(layer, FeedForward):
            parts = (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
            layers.append(FeedForward(*map(off, parts)))
        else:
            heads = [
                replace(one, value=off(one.value), output=off(one.output)) for one in layer.heads
            ]
            layers.append(Attention(heads))
    source, readout = made.transformer.input, made.transformer.readout
    source = replace(source, positions=off(source.positions))
    readout = ReadOut(off(readout.weights), off(readout.bias), readout.token)
    return replace(made, transformer=Transformer(source, layers, readout))


@contextmanager
def states_seen() -> Iterator[list[float]]:
    """What the registers hold after each sublayer."""
    seen: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        real = {name: getattr(_registers, name) for name in ("attend", "feed_forward", "embed")}
        for name in real:

            def noted(*given, name=name):
                found = real[name](*given)
                registers = (
                    found if isinstance(found, tuple) else (*found.symbols, *(found.start or ()))
                )
                seen.append(
                    amount(
                        [
                            MidRadius(one.middle, np.full(one.middle.shape, one.radius))
                            for one in registers
                        ]
                    )
                )
                return found

            patch.setattr(_registers, name, noted)

        def looked(*given: Any) -> Look:
            found = look(*given)
            seen.append(float(np.log2(found.odds + 2.0**-1000).sum()))
            return found

        patch.setattr(_register_heads, "look", looked)
        yield seen


def registers(number: int, format: Format) -> list[float]:
    made = strained(machine(number % 4), number)
    if number % 6 == 5:
        made = replace(made, witness=None)  # so that nothing is recognised
    with states_seen() as seen:
        found = bound_by_registers(made, made.claim.target.steps(), 3, format, RegisterMemory())
    return [*seen, found]


def lengths(number: int, format: Format) -> list[float]:
    made = strained(machine(4 + number % 4), number)
    try:
        found, cases = bound_by_slots(
            made, made.claim.target.steps(), 3, format, SlotMemory(), cuts=number % 3 > 0
        )
    except (Overflow, TooLarge):
        return [np.inf]
    return [found, cases]


def line(kind: str, number: int) -> str:
    name = NAMES[number % 4]
    digits = 28 if kind == "registers" and number % 8 < 4 else 20  # else nothing is near a grid
    with np.errstate(all="ignore"), coarse_steps(digits), sizes_looked_at() as seen:
        found = globals()[kind](number, unbounded(name))
    assert {format for format, _ in seen} <= {name}
    sizes = sum(np.log2(size) for _, size in seen if 0.0 < size < np.inf)
    return " ".join([kind, str(number), *(f"{n:.13g}" for n in (*found, len(seen), sizes))])


@cache
def written() -> dict[tuple[str, str], list[str]]:
    lines = [line.split() for line in WRITTEN.read_text().splitlines()]
    return {(kind, number): numbers for kind, number, *numbers in lines}


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_radii_are_what_they_were(kind, part):
    for number in range(KINDS[kind])[part::PARTS]:
        _, _, *found = line(kind, number).split()
        expected = [float(one) for one in written()[kind, str(number)]]
        assert [float(one) for one in found] == pytest.approx(expected, rel=1e-11), number


# --- one by one -----------------------------------------------------------------------------------


def test_what_no_float_tells_from_a_number_is_not_that_number():
    near = 1 + Fraction(1, 2**2000)
    assert ball_of(near)[1] > 0.0
    assert RootForm(0, (near, 2)).away > 0.0
    stream, many = Stream.of(MidRadius.point(np.ones((3, 1))), 1), Slots(3, 0, 2)
    slot = many.held(7, np.ones((3, 2), dtype=bool))
    cut = _replaced(stream, np.ones(1), 0.0, (slot, (near, 2), 0.0), many)
    assert (cut.blocks[(slot,)].radius[:, 0] > 0.0).all()
    assert (cut.blocks[(slot,)].radius[:, 1] == 0.0).all()


def test_numbers_near_a_grid_are_so_with_what_they_lose():
    """A quarter of a unit is the room; noise and its own rounding must be in it."""
    room = 0.25 * FLOAT16.unit
    assert near_grid(4, 1.0, 0.75 * room, 0.0, FLOAT16) < room
    assert near_grid(4, 1.0, (1.0 - 2.0**-10) * room, 0.0, FLOAT16) == np.inf


def test_multiples_of_a_unit_may_be_off_by_a_share_of_it():
    found = _heads._lattice(np.array([1.0, 2.003]))
    assert found.numbers.tolist() == [1, 2]
    assert Fraction(2.003) - 2 <= found.residue <= 0.00301
    with pytest.raises(TooLarge):
        _heads._lattice(np.array([1.0, 2.0043]))


def test_a_measured_error_is_not_above_the_error():
    low = 1 + Fraction(3, 2**54)
    search = SimpleNamespace(construction=None, worst=None, measured=-1.0, refuted=False, claimed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_word_search, "error_at_word", lambda *_: (low, low))
        WordSearch.look(search, ("a",))  # type: ignore[arg-type]
    assert search.measured == 1.0


def test_an_answer_that_is_no_number_is_infinitely_far():
    made = SimpleNamespace(construction=SimpleNamespace(transformer=model(1)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_word_search, "evaluate", lambda *_: [np.nan])
        assert _word_search._distance(made, ("a",), [[1]]) == math.inf  # type: ignore[arg-type]


@pytest.mark.parametrize("ball", [(0.0, np.inf), (np.nan, 0.0), (0.0, np.nan)])
def test_blocks_of_which_nothing_is_known_have_no_bound(ball):
    middle, radius = (np.full((2, 1), part) for part in ball)
    known = MidRadius.point(np.ones((2, 3, 1)))
    stream = Stream({(): MidRadius(middle, radius), (0,): known}, np.zeros(1), 1)
    with np.errstate(invalid="ignore"):
        assert (_error_by_blocks(stream, None) == np.inf).all()


def test_blocks_that_cannot_occur_count_for_nothing():
    able = SimpleNamespace(possible=lambda axes: np.zeros((2, *(3,) * len(axes)), dtype=bool))
    blocks = {(): MidRadius.point(np.zeros((2, 1))), (0,): MidRadius.point(np.ones((2, 3, 1)))}
    with np.errstate(invalid="ignore"):
        found = _error_by_blocks(Stream(blocks, np.zeros(1), 1), able)  # type: ignore[arg-type]
    assert (found == 0.0).all()


if __name__ == "__main__":
    every = [line(kind, number) for kind, count in KINDS.items() for number in range(count)]
    WRITTEN.write_text("\n".join(every) + "\n")
