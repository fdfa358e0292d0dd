"""Words, answers, and what every step is at every position: nothing here was ever trained on.

A step is shown by the label of its item, as the circuit's blocks list them: the coordinate of a
one-hot that is lit is that of the label.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.core import Circuit, SequenceSteps, Words
from hardmax.languages.programs import Item, ProgramTarget

SHORT = 256  # all words up to a length, as long as there are no more than these
SAMPLED = 64  # longer ones: first those that programs trip over, then random ones


def chosen_words(words: Words, name: str, seed: int) -> list[tuple[str, tuple[Item, ...]]]:
    """All short words ("short"), then extreme and random ones ("longer"); none of them twice."""
    found: dict[tuple[Item, ...], str] = {}
    total = 0
    for length in words.lengths:
        total += words.count_of(length)
        if total > SHORT:
            break
        numbers = words.numbers(length, 0, words.count_of(length))
        found |= dict.fromkeys(words.words(numbers), "short")
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    for word in words.sample(SAMPLED, rng):
        found.setdefault(word, "longer")
    return [(kind, word) for word, kind in found.items()]


def truth_lines(
    target: ProgramTarget, circuit: Circuit, words: Sequence[tuple[str, tuple[Item, ...]]]
) -> Iterator[str]:
    """A line of JSON for each word: its answer and its steps, or why the program has none."""
    steps = target.steps()
    assert steps is not None  # of a program there always are
    for kind, word in words:
        line: dict[str, object] = {"kind": kind, "word": list(map(_plain, word))}
        try:
            line["answer"] = _answer(target.program(word))
            line["steps"] = _held(target, steps, circuit, word)
        except HardmaxError as reason:
            line = {"kind": kind, "word": line["word"], "undefined": str(reason)}
        yield json.dumps(line, sort_keys=True, allow_nan=False)


def _held(
    target: ProgramTarget, steps: SequenceSteps, circuit: Circuit, word: Sequence[Item]
) -> dict[str, list[str]]:
    numbers = {symbol: k for k, symbol in enumerate(target.words.alphabet)}
    values = steps.values([numbers[symbol] for symbol in word])  # type: ignore[index]
    blocks = {block.step: block for block in circuit.blocks if block.form != "share"}
    return {
        block.name: [block.label_of(number) for number in values[step]]
        for step, block in blocks.items()
        if 0 <= step < len(values)
    }


def _answer(answer: object) -> object:
    """Items as JSON has them: lists for sequences, texts for fractions."""
    if isinstance(answer, list | tuple):
        return [_answer(one) for one in answer]
    return _plain(answer)


def _plain(item: object) -> object:
    if isinstance(item, Fraction):
        return str(item)
    return item if isinstance(item, str | int | float | bool) or item is None else str(item)
