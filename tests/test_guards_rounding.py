"""The guards of `checker.rounding`, one by one: what is charged, in which format, and rounded up.

Three nets. *What is charged:* bounds of many small Transformers, written down; a charge left out,
half a unit or another format changes some of them in the sixth digit. *Rounded up:* formulas in
float64 against the same formulas in wider floats. *Attained:* an adversary reaches the bound.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding._bounds import _bound
from hardmax.checker.rounding._contest import Contest, Unrest, unrest
from hardmax.checker.rounding._format import Sum, moved
from hardmax.checker.rounding._head import _pair_error, answer
from hardmax.checker.rounding._logits import Asked, Heads, Read
from hardmax.checker.rounding._ranges import kinked_off
from hardmax.checker.rounding._weights import LogitRounding, weight_ranges
from hardmax.core import Attention, FeedForward, Head, ReadOut, SequenceInput, Transformer
from hardmax.numerics import BFLOAT16, FLOAT16, FLOAT32, FORMATS, Interval
from hardmax.testing import RoundingCase, coarse_steps, full_floats, run_in_format, sizes_looked_at
from hardmax.testing._float_oracle import _at_the_edge
from hardmax.testing._random_transformers import (
    Kind,
    random_sequence_transformer,
    random_vector_transformer,
)

WRITTEN = Path(__file__).parent / "data" / "rounding_bounds.txt"
CASES = range(96)
SCALES = (1.0, 1.0, 1.0, 2.0**11, 2.0**-18, 2.0**5)


def case(number: int) -> tuple[Transformer, hm.Box | None]:
    """A Transformer in which one kind of weights may be large or small, and its domain."""
    rng = np.random.default_rng([15, number])
    kind = Kind(
        coarse=number % 3 == 0,
        hard=float(number % 5 == 0),
        continuous=0.6 if number % 4 == 0 else 0.0,
    )
    if number % 16 == 7:
        format = FORMATS[list(FORMATS)[number // 16 % 4]]
        return _at_the_edge(rng, format), hm.Box(-np.ones(1), np.ones(1))
    if number % 16 == 11:
        return random_sequence_transformer(rng, 3, 3, 1, kind), None
    made = random_vector_transformer(rng, 2, 2, kind)
    low = rng.choice([-1.0, 0.0, -0.3], size=2)
    box = hm.Box(low, low + rng.choice([0.0, 0.25, 1.0], size=2))
    return scaled(made, rng, float(rng.choice(SCALES))), box


def scaled(made: Transformer, rng: np.random.Generator, factor: float) -> Transformer:
    """One kind of weights of one sublayer, or those around them, times a power of two."""
    which = int(rng.integers(len(made.sublayers) + 2))
    source, readout, layers = made.input, made.readout, list(made.sublayers)
    assert not isinstance(source, SequenceInput)
    if which == len(layers):
        parts = {"maps": source.maps * factor, "offsets": source.offsets * factor}
        source = replace(source, **parts)
    elif which > len(layers):
        readout = ReadOut(readout.weights * factor, readout.bias, readout.token)
    elif isinstance(layers[which], FeedForward):
        name = str(rng.choice(["inner", "inner_bias", "outer", "outer_bias"]))
        layers[which] = replace(layers[which], **{name: getattr(layers[which], name) * factor})
    else:
        name = str(rng.choice(["query", "key", "value", "output"]))
        heads = [
            replace(head, **{name: getattr(head, name) * factor}) for head in layers[which].heads
        ]
        layers[which] = Attention(heads)
    return Transformer(source, layers, readout)


def names_of(number: int) -> tuple[str, ...]:
    """Two formats each: float16 has the narrowest range, and the others take turns."""
    return ("float16", ("float64", "float32", "bfloat16")[number % 3])


def bounds_of(number: int) -> list[str]:
    """A line for each format: the bounds, and the sizes that were asked whether they fit."""
    transformer, box = case(number)
    lines = []
    for name in names_of(number):
        with np.errstate(all="ignore"), coarse_steps(), sizes_looked_at() as seen:
            found = _bound(transformer, box, FORMATS[name])
        assert {format for format, _ in seen} == {name}
        sizes = sum(np.log2(size) for _, size in seen if 0.0 < size < np.inf)
        numbers = [*found, len(seen), sizes]
        lines.append(f"{number} {name} {' '.join(f'{b:.12g}' for b in numbers)}")
    return lines


@cache
def written() -> dict[tuple[int, str], list[float]]:
    lines = [line.split() for line in WRITTEN.read_text().splitlines()]
    return {(int(n), name): [float(b) for b in bounds] for n, name, *bounds in lines}


@pytest.mark.parametrize("part", range(8))
def test_bounds_are_what_they_were(part):
    """To change them on purpose: python tests/test_guards_rounding.py writes them again."""
    for number in CASES[part::8]:
        for line in bounds_of(number):
            _, name, *found = line.split()
            expected = written()[number, name]
            assert [float(b) for b in found] == pytest.approx(expected, rel=1e-10), (number, name)


# --- rounded up -----------------------------------------------------------------------------------


def wide(given: Any) -> Any:
    """The same with every array of float64, but for the ends of intervals, in wider floats."""
    if isinstance(given, np.ndarray) and given.dtype == np.float64:
        return given.astype(np.longdouble)
    if isinstance(given, Read | LogitRounding | Unrest):
        return replace(given, **{f.name: wide(getattr(given, f.name)) for f in fields(given)})
    return given


def asked_at(number: int) -> Asked | None:
    """A soft head of a random Transformer, asked in float32 after a stream with deviations."""
    rng = np.random.default_rng([16, number])
    made = random_vector_transformer(rng, 2, 1, Kind(coarse=False, hard=0.0, continuous=0.4))
    layer = next(one for one in made.sublayers if isinstance(one, Attention))
    middle = rng.normal(size=(made.width, made.tokens))
    apart = rng.uniform(0.0, 0.1, size=middle.shape)
    off = rng.uniform(0.0, 1e-6, size=middle.shape)
    heads = Heads(layer.groups[0], FLOAT32, Interval(middle - apart, middle + apart), off)
    asked = heads.asked_by(made.tokens - 1)
    return asked if asked.seen > 1 else None


def widely(asked: Asked) -> Asked:
    parts = {name: wide(getattr(asked, name)) for name in ("query", "keys", "values", "bias_moved")}
    return replace(asked, **parts)


def fallen(found: Any, wider: Any) -> int:
    """How many floats lie below what wider floats say."""
    return int((np.asarray(found).astype(np.longdouble) < np.asarray(wider)).sum())


def test_heads_round_everything_up():
    """Errors, deviations, jumps and shortfalls in float64 against the same in wider floats."""
    names = ("error", "off", "off_seen", "jump", "below", "beyond")
    for asked in filter(None, map(asked_at, range(60))):
        found, wider = answer(asked), answer(widely(asked))
        for name in names:
            assert fallen(getattr(found, name), getattr(wider, name)) == 0, name
        for name in ("logit_error", "shift", "key_off"):
            assert fallen(getattr(asked, name), getattr(widely(asked), name)) == 0, name


def test_parts_of_a_head_round_up():
    """The lemmas one by one, so that no later step hides a lack."""
    rng = np.random.default_rng(17)
    for _ in range(200):
        heads, n = 3, int(rng.integers(2, 6))
        draw = lambda *shape: full_floats(rng, *shape) * 2.0**-40  # noqa: E731
        rounding = LogitRounding(
            draw(heads, n), draw(heads), draw(heads), draw(heads, n), draw(heads, n)
        )
        assert fallen(rounding.total, wide(rounding).total) == 0
        low = rng.normal(size=(heads, n))
        contest = Contest(
            np.ones(heads, dtype=bool), full_floats(rng, heads), Interval(low, low + 0.1)
        )
        spread, hard = full_floats(rng, heads), np.zeros(heads, dtype=bool)
        weights = Interval(np.zeros((heads, n)), rng.uniform(0.0, 1e-3, size=(heads, n)))
        two, more = (
            unrest(contest, weights, spread, hard),
            unrest(contest, weights, wide(spread), hard),
        )
        assert fallen(two.distance, more.distance) == 0
        args = (contest, np.ones((heads, n), dtype=bool))
        pair = _pair_error(draw(heads, n), rounding, *args)
        assert (pair > 0.0).all()
        off = draw(heads, n)
        assert (
            fallen(_pair_error(off, rounding, *args), _pair_error(wide(off), wide(rounding), *args))
            == 0
        )


def test_sums_round_up():
    rng = np.random.default_rng(18)
    for _ in range(300):
        base, partial = full_floats(rng, 4), full_floats(rng, 4)
        terms = rng.integers(1, 9, 4).astype(float)
        value = Interval(-partial, partial)
        given = Sum(FLOAT32, value, base, partial, terms)
        wider = Sum(FLOAT32, value, wide(base), wide(partial), terms)
        assert fallen(given.error(), wider.error()) == 0


def test_a_coordinate_written_in_place_rounds_up():
    rng = np.random.default_rng(19)
    for _ in range(200):
        off, weights, other = full_floats(rng, 4), rng.normal(size=2), full_floats(rng, 2)
        read, rows = rng.normal(size=(2, 4)), np.array([0, 2])
        slopes = Interval(np.full(2, 0.25), np.full(2, 0.75))
        found = kinked_off(off, rows, weights, read, slopes, other)
        wider = kinked_off(wide(off), rows, wide(weights), wide(read), slopes, wide(other))
        assert fallen(found, wider) == 0


def test_weights_hold_what_wider_floats_say():
    """Points, so that the range is all rounding; both ends are on their sides."""
    rng = np.random.default_rng(20)
    for n in (2, 3, 6):
        logits = rng.normal(size=(400, n)) * rng.choice([0.1, 3.0, 40.0], size=(400, 1))
        found = weight_ranges(Interval.point(logits))
        powers = np.exp(wide(logits) - wide(logits).max(axis=1, keepdims=True))
        exact = powers / powers.sum(axis=1, keepdims=True)
        assert fallen(found.hi, exact) == 0
        assert fallen(-found.lo, -exact) == 0
        assert (found.hi - found.lo <= 1e-12 * (found.hi + 1e-30)).all()


def test_twice_rounded_weights_are_covered():
    """1 + 2^-11 + 2^-40 is a tie of float16 once float32 has rounded it: the worst it can do."""
    for format in (FLOAT16, BFLOAT16):
        tie = 1.0 + format.unit
        weight = np.array([tie + 2.0**-40, tie - 2.0**-40, 3.0 - 2 * format.unit + 2.0**-40])
        twice = format.stored(FLOAT32.stored(weight))
        assert (np.abs(twice - weight) <= moved(weight, format)).all()
        assert (moved(weight, format) <= np.abs(format.stored(weight) - weight) * 1.001).all()


# --- the adversary --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_no_evaluation_exceeds_its_bound(name):
    """Random trees, fused sums, exponentials at fault; some of them come close."""
    shares = []
    for number in range(24):
        made = RoundingCase(np.random.default_rng([3, number]), FORMATS[name])
        shares.append(made.largest_share(np.random.default_rng([4, number])))
    known = [share for share in shares if share is not None]
    assert len(known) >= 12
    assert max(known) <= 1.0
    assert max(known) >= 0.3


def head_of(coldness: float, tokens: int = 2) -> Transformer:
    """x in token 1, a constant -1 in token 0; logits x and 0."""
    maps, offsets = np.zeros((tokens, 3, 1)), np.zeros((tokens, 3))
    maps[1, 0, 0], offsets[:, 1], offsets[0, 2], offsets[1, 2] = 1.0, 1.0, -1.0, 1.0
    rows = np.eye(3)
    head = Head(rows[[1]], rows[[0]], rows[[2]], rows[:, [2]])
    head = replace(head, weighting=hm.Softmax(coldness))
    return Transformer(
        hm.VectorInput(maps, offsets), [Attention([head])], ReadOut(rows[[2]], [0.0], 1)
    )


def test_what_is_assumed_of_exp_is_charged_once():
    """With an exp of 2^12 units the bound is that of p (1 - p) times 2: attained, at x near 0."""
    format = replace(FLOAT32, exp_units=2**12)
    transformer, box = head_of(1.0), hm.Box(np.array([-0.125]), np.array([0.125]))
    bound = _bound(transformer, box, format)[0]
    charge = 2 * 0.25 * 2**12 * format.unit
    assert charge <= bound <= charge * 1.02
    points, rng = np.array([[2.0**-6], [-(2.0**-6)]]), np.random.default_rng(0)
    real = hm.core.evaluate(transformer, points)
    found = [
        np.abs(run_in_format(transformer, points, format, rng) - real).max() for _ in range(40)
    ]
    assert 0.9 * charge <= max(found) <= bound


if __name__ == "__main__":
    WRITTEN.write_text("\n".join(line for number in CASES for line in bounds_of(number)) + "\n")
