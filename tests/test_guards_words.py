"""The guards of `checker.sequences`, one by one: what is charged, in which format, and rounded up.

Words are followed in an arithmetic with coarse steps, where each outward step and each charge is a
visible part of the radii; these are written down, with the sizes that were asked whether they fit.
To change them on purpose: python tests/test_guards_words.py writes them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.sequences import _registers
from hardmax.checker.sequences._batches import enclose_words
from hardmax.checker.sequences._layers import read_out
from hardmax.checker.sequences._registers import bound_by_registers
from hardmax.checker.sequences._stream import Overflow, TooLarge
from hardmax.checker.sequences._values import bound_of_length, follow_words
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
from hardmax.numerics import FLOAT64, FORMATS, Format, MidRadius
from hardmax.testing import coarse_steps, sizes_looked_at

DATA = Path(__file__).parent / "data"
WRITTEN = DATA / "word_radii.txt"
NAMES = ("float64", "float32", "float16", "bfloat16")
KINDS = {"batches": 64, "slots": 96, "registers": 24, "lengths": 16}
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
    """All radii, each with a weight of its own; and the middles, a little."""
    total = 0.0
    for middle, radius in tables:
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


def slots(number: int, format: Format) -> list[float]:
    made = model(1000 + number)
    try:
        found, streams = follow_words(made, Words(("a", "b", "c"), 3, 3), 1 + number % 3, format)
        streams.append(read_out(streams[-1], made.readout, format))
    except (Overflow, TooLarge):
        return [np.inf]
    return [amount(stream.blocks.values()) for stream in streams]


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
            heads = [replace(one, value=off(one.value), output=off(one.output)) for one in layer.heads]
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
        for name in ("attend", "feed_forward", "embed"):

            def noted(*given, real=getattr(_registers, name)):
                found = real(*given)
                registers = found if isinstance(found, tuple) else (*found.symbols, *(found.start or ()))
                seen.append(amount([MidRadius(one.middle, np.full(one.middle.shape, one.radius)) for one in registers]))
                return found

            patch.setattr(_registers, name, noted)
        yield seen


def registers(number: int, format: Format) -> list[float]:
    made = strained(machine(number % 4), number)
    with states_seen() as seen:
        found = bound_by_registers(made, made.claim.target.steps(), 3, format, {})
    return [*seen, found]


def lengths(number: int, format: Format) -> list[float]:
    made = strained(machine(4 + number % 4), number)
    try:
        found, cases = bound_of_length(made, made.claim.target.steps(), 3, format, {}, cuts=number % 3 > 0)
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


if __name__ == "__main__":
    every = [line(kind, number) for kind, count in KINDS.items() for number in range(count)]
    WRITTEN.write_text("\n".join(every) + "\n")
