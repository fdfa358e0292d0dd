"""Random Transformers whose true error is known, claims around it, and the law they must obey.

The truth comes from exact rationals or from balls (`hardmax.testing.truth`), never from the
checker:

- cells: hard Transformers of one to three inputs, cut into the cells on which they are affine.
- echo: soft ones of one to three inputs against themselves plus a function whose largest value is
  at a corner.
- line: hard and soft ones of one input against a curve, by bisection in jets of balls.
- words: all words of a small alphabet, in rationals or balls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import count, product
from typing import Any

import numpy as np

from hardmax.checker import Certificate, Verdict
from hardmax.core import (
    Affine,
    Box,
    Claim,
    Construction,
    Maximum,
    Product,
    Share,
    Steps,
    Transformer,
    Univariate,
    Words,
)
from hardmax.numerics import above_float, below_float, precision
from hardmax.testing._random_transformers import (
    ALPHABET,
    Kind,
    random_numbers,
    random_sequence_transformer,
    random_vector_transformer,
)
from hardmax.testing._targets import StepsTarget, WordTable, steps_of_transformer
from hardmax.testing.truth import (
    BITS,
    Balls,
    Rationals,
    Undecided,
    ball_of,
    ends_of,
    error_on_word,
    largest_error_on_cells,
    largest_error_on_line,
    largest_error_on_words,
    outputs_on_vector,
    outputs_on_word,
    values_of_steps,
)

Generator = np.random.Generator
_LEAST = 1e-12  # claimed where the true error is 0


@dataclass(frozen=True, eq=False)
class ClaimCase:
    """A Transformer, a target and a domain; the true error lies in [low, high]."""

    family: str
    transformer: Transformer
    target: Any  # as in a Claim: a Target on a Box, a SequenceTarget on Words
    domain: Any
    low: Fraction
    high: Fraction

    def construction(self, error: float) -> Construction:
        """The claim of this error, without a witness."""
        claim = Claim(self.target, self.domain, [Share("approximation", "drawn", error)])
        return Construction(self.transformer, claim, None, "random")

    def error_at(self, point: tuple[Any, ...]) -> tuple[Fraction, Fraction] | None:
        """The true error at one input, from both sides; None where balls cannot say who wins."""
        if isinstance(self.domain, Words):
            return error_on_word(self.transformer, self.target, point)
        with precision(BITS):
            x, numbers = [ball_of(Fraction(v)) for v in point], Balls()
            try:
                ours = outputs_on_vector(self.transformer, x, numbers)
            except Undecided:
                return None
            theirs = values_of_steps(self.target.steps(), x, numbers)
            return ends_of([a - b for a, b in zip(ours, theirs, strict=True)])


def claim_case(number: int, seed: int) -> ClaimCase:
    """The case of that number: its family, and all that is drawn, depend on number and seed."""
    for attempt in count():
        rng = np.random.default_rng([seed, number, attempt])
        case = FAMILIES[_TURNS[number % len(_TURNS)]](rng)
        if case is not None:
            return case
    raise AssertionError("an endless loop has ended")


def claims_around(case: ClaimCase, rng: Generator) -> Iterator[tuple[str, float]]:
    """A claim that is false by a hair, and one that is true by a hair or by nothing."""
    bits = int(rng.integers(20, 46)) if rng.random() < 0.5 else 60  # 60: the float just below
    below = below_float(case.low * (1 - Fraction(1, 2**bits)))
    if 0 < below < case.low:
        yield "below", below
    extra = [Fraction(0), Fraction(1, 10**9), Fraction(1, 10**6), Fraction(1, 50)]
    above = above_float(case.high * (1 + extra[int(rng.integers(4))]))
    yield "above", max(above, _LEAST)


def claim_fault(case: ClaimCase, certificate: Certificate) -> str | None:
    """What a certificate says of a case that is not so.

    A claim below the true error is never proved, one above it never refuted. Whatever the verdict,
    the true error is at most `certified` and at least `measured`, which is attained at `worst`.
    """
    claimed, verdict = certificate.claimed, certificate.verdict
    if verdict is Verdict.PROVED and claimed < case.low:
        return f"PROVED {claimed!r}, but the error is at least {float(case.low)!r}"
    if verdict is Verdict.REFUTED and claimed >= case.high:
        return f"REFUTED {claimed!r}, but the error is at most {float(case.high)!r}"
    if certificate.certified < case.low:
        return f"certified {certificate.certified!r}, but the error is {float(case.low)!r}"
    if certificate.measured > case.high:
        return f"measured {certificate.measured!r}, but the error is {float(case.high)!r}"
    if certificate.worst is not None:
        attained = case.error_at(certificate.worst)
        if attained is not None and certificate.measured > attained[1]:
            where = f"{float(attained[1])!r} at {certificate.worst}"
            return f"measured {certificate.measured!r}, but the error is {where}"
    return None


# ---- the families ------------------------------------------------------------------------------


def _cells(rng: Generator) -> ClaimCase | None:
    inputs, outputs = int(rng.choice([1, 2, 2, 3])), int(rng.integers(1, 3))
    kind = Kind(coarse=bool(rng.random() < 0.8), hard=1.0, steady=True, continuous=0.7)
    transformer = random_vector_transformer(rng, inputs, outputs, kind)
    target, box = _piecewise_affine(rng, inputs, outputs, kind.coarse), _box(rng, inputs)
    error = largest_error_on_cells(transformer, target, box)
    return ClaimCase("cells", transformer, StepsTarget(target), box, error, error)


def _echo(rng: Generator) -> ClaimCase | None:
    inputs, outputs = int(rng.integers(1, 4)), int(rng.integers(1, 3))
    kind = Kind(coarse=bool(rng.random() < 0.5), hard=0.0)
    transformer = random_vector_transformer(rng, inputs, outputs, kind)
    difference, box = _corner_function(rng, inputs, outputs), _box(rng, inputs)
    target = StepsTarget(steps_of_transformer(transformer, difference))
    corners = product(*zip(box.low.tolist(), box.high.tolist(), strict=True))
    error = max(
        abs(value)
        for corner in corners
        for value in values_of_steps(difference, [Fraction(v) for v in corner], Rationals())
    )
    return ClaimCase("echo", transformer, target, box, error, error)


def _line(rng: Generator) -> ClaimCase | None:
    kind = Kind(coarse=bool(rng.random() < 0.5), hard=float(rng.choice([0.0, 0.0, 0.4])))
    outputs = int(rng.integers(1, 3))
    transformer = random_vector_transformer(rng, 1, outputs, kind)
    target, box = _curve(rng, outputs), _box(rng, 1)
    ends = largest_error_on_line(transformer, target, box, most=100)
    return ends and ClaimCase("line", transformer, StepsTarget(target), box, *ends)


def _words(rng: Generator) -> ClaimCase | None:
    symbols, longest, outputs = int(rng.integers(1, 4)), int(rng.integers(1, 4)), 1
    kind = Kind(coarse=bool(rng.random() < 0.5), hard=float(rng.choice([0.0, 0.5, 1.0, 1.0])))
    transformer = random_sequence_transformer(rng, symbols, longest, outputs, kind)
    words = Words(ALPHABET[:symbols], longest)
    try:
        target = _word_table(rng, transformer, words)
        ends = largest_error_on_words(transformer, target, words)
    except Undecided:
        return None
    return ClaimCase("words", transformer, target, words, *ends)


FAMILIES: dict[str, Callable[[Generator], ClaimCase | None]] = {
    "cells": _cells,
    "echo": _echo,
    "line": _line,
    "words": _words,
}


_TURNS = ("words", "cells", "words", "line", "words", "echo", "line", "cells")


# ---- what they are made of ---------------------------------------------------------------------


def _box(rng: Generator, dimension: int) -> Box:
    low = rng.integers(-8, 8, dimension) / 8
    return Box(low, low + rng.integers(1, 17, dimension) / 8)


def _piecewise_affine(rng: Generator, inputs: int, outputs: int, coarse: bool) -> Steps:
    """One hidden layer of relus, absolute values or maxima; or an affine function."""
    hidden = int(rng.integers(2, 4))
    draw = lambda *shape: random_numbers(rng, shape, coarse)  # noqa: E731
    first = Affine((0,), draw(hidden, inputs), draw(hidden))
    match int(rng.integers(4)):
        case 0:
            return Steps(inputs, [Affine((0,), draw(outputs, inputs), draw(outputs))])
        case 1:
            middle: Univariate | Maximum = Maximum((1,), rng.integers(0, hidden, (2, 2)))
        case 2:
            middle = Univariate((1,), "abs", hidden)
        case _:
            middle = Univariate((1,), "relu", hidden)
    last = Affine((2,), draw(outputs, middle.size), draw(outputs))
    return Steps(inputs, [first, middle, last])


def _corner_function(rng: Generator, inputs: int, outputs: int) -> Steps:
    """Functions whose size is largest at a corner: multi-affine, or convex and not negative."""
    scale = 2.0 ** -int(rng.integers(0, 21))
    draw = lambda *shape: random_numbers(rng, shape, coarse=True)  # noqa: E731
    weights, bias = draw(outputs, inputs), draw(outputs) + 0.25
    match int(rng.integers(4)):
        case 0:
            steps: list[Any] = [Affine((0,), scale * weights, scale * bias)]
        case 1 if inputs > 1:
            steps = [
                Product((0,), np.array([[0, 1]])),
                Affine((1,), scale * draw(outputs, 1), scale * bias),
            ]
        case _:
            name = str(rng.choice(["abs", "relu"]))
            inner = [Affine((0,), weights, bias), Univariate((1,), name, outputs)]
            steps = [*inner, Affine((2,), scale * np.eye(outputs), np.zeros(outputs))]
    return Steps(inputs, steps)


def _curve(rng: Generator, outputs: int) -> Steps:
    """One function of one variable per output, affine before and after."""
    name = str(rng.choice(["sin", "cos", "tanh", "exp", "abs", "relu", "power"]))
    draw = lambda *shape: random_numbers(rng, shape, coarse=False)  # noqa: E731
    inner = Affine((0,), draw(outputs, 1), draw(outputs))
    curve = Univariate((1,), name, outputs, 2.0 if name == "power" else 1.0)
    return Steps(1, [inner, curve, Affine((2, 0), draw(outputs, outputs + 1), draw(outputs))])


def _word_table(rng: Generator, transformer: Transformer, words: Words) -> WordTable:
    """The outputs themselves as floats or rounded to eighths, plus a little."""
    each = transformer.readout.token is None
    scale = Fraction(2) ** -int(rng.integers(0, 21))
    rows = {}
    for length in words.lengths:
        for word in product(words.alphabet, repeat=length):
            with precision(BITS):
                numbers = Rationals() if transformer.is_hard else Balls()
                answer = outputs_on_word(transformer, word, numbers)
            rows[word] = tuple(
                tuple(Fraction(float(v)) + scale * int(rng.integers(-8, 9)) / 8 for v in row)
                for row in answer
            )
    return WordTable(rows, words.alphabet, transformer.outputs, each)
