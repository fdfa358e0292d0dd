"""The guards of `checker.rounding`, one by one: what is charged, in which format, and rounded up.

Three nets. *What is charged:* bounds of many small Transformers, and all that they are made of, in
an arithmetic with coarse steps, written down; a charge left out, an outward step, half a unit or
another format changes some of them. *Rounded up:* formulas in float64 against the same formulas in
wider floats. *Attained:* an adversary reaches the bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker.rounding import _bounds
from hardmax.checker.rounding._bounds import _bound
from hardmax.checker.rounding._flow import FedForward, Flow, RoundedStream, follow, in_pieces
from hardmax.checker.rounding._format import NothingKnown, Stored, Sum, moved, relative
from hardmax.checker.rounding._head import Answer, _pair_error, answer
from hardmax.checker.rounding._inplace import kinked, kinked_off
from hardmax.checker.rounding._logits import (
    Asked,
    Heads,
    LogitRounding,
    Read,
    weight_ranges,
    weights_of,
    with_softmax,
)
from hardmax.checker.rounding._maximum_heads import MaximumHeads, NearMaximum, near_maximum
from hardmax.checker.rounding._two_norms import Norms
from hardmax.core import Attention, FeedForward, Head, ReadOut, SequenceInput, Transformer
from hardmax.numerics import BFLOAT16, FLOAT16, FLOAT32, FLOAT64, FORMATS, Interval, exact
from hardmax.testing import (
    Kind,
    RoundingCase,
    coarse_steps,
    full_floats,
    random_sequence_transformer,
    random_vector_transformer,
    run_in_format,
    sizes_looked_at,
    transformer_at_the_edge,
)

WRITTEN = Path(__file__).parents[1] / "data" / "rounding_bounds.txt"
CASES = range(144)
SCALES = (1.0, 1.0, 1.0, 2.0**11, 2.0**-18, 2.0**5)


def case(number: int) -> tuple[Transformer, hm.Box | None]:
    """A Transformer in which one kind of weights may be large or small, and its domain."""
    rng = np.random.default_rng([15, number])
    if number >= 96:
        return maximum(rng, number), hm.Box(-np.ones(2), np.ones(2) * [1.0, -0.5])
    kind = Kind(
        coarse=number % 3 == 0,
        hard=float(number % 5 == 0),
        continuous=0.6 if number % 4 == 0 else 0.0,
    )
    if number % 16 == 7:
        format = FORMATS[list(FORMATS)[number // 16 % 4]]
        return transformer_at_the_edge(rng, format), hm.Box(-np.ones(1), np.ones(1))
    if number % 16 == 11:
        return random_sequence_transformer(rng, 3, 3, 1, kind), None
    made = random_vector_transformer(rng, 2, 2, kind)
    low = rng.choice([-1.0, 0.0, -0.3], size=2)
    box = hm.Box(low, low + rng.choice([0.0, 0.25, 1.0], size=2))
    return scaled(made, rng, float(rng.choice(SCALES))), box


def maximum(rng: np.random.Generator, number: int) -> Transformer:
    """Heads that take maxima, soft or hard, written in place; coordinate 0 is 1, 1 a handicap.

    The query is a constant; or, of two tokens, the keys and the other value are. Some tie always.
    """
    tokens = (2, 2, 3, 4)[number % 4]
    maps, offsets = rng.normal(size=(tokens, 4, 2)), rng.normal(size=(tokens, 4))
    maps[:, :2], offsets[:, 0] = 0.0, 1.0
    offsets[:, 1] = rng.integers(0, 4, size=tokens) * (2.0**-6, 0.25, 8.0)[number // 2 % 3]
    query, key, value = np.zeros((3, 1, 4))
    value[0, 2:] = rng.normal(size=2)
    if number % 8 == 1:
        maps[0], offsets[0, 2:] = 0.0, 0.0
        offsets[:, 1] = [0.0, 1.0]
        query[0], key[0, 1] = value[0] * 2.0, 1.0
    else:
        query[0, 0], key[0] = 2.0 ** float(rng.integers(-1, 3)), value[0]
        key[0, 1] = 1.0
    if number % 16 == 2:
        query[:] = 0.0
    bias = rng.normal(size=(tokens, tokens)) * 0.01 if number % 5 == 0 else None
    hard = number % 3 == 1 or number % 16 == 2
    weighting = hm.Hardmax() if hard else hm.Softmax(float(rng.choice([1.0, 4.0, 3.0])))
    output = np.zeros((4, 1))
    output[2] = rng.normal()
    if number % 7 == 0:
        output[3] = 0.5
    head = Head(query, key, value, output, weighting, position_bias=bias)
    before = FeedForward(
        *(rng.normal(size=(1, 4)), rng.normal(size=1), np.array([[0.0, 0.0, 0.7, 0.0]]).T),
        np.zeros(4),
    )
    layers = [Attention([head])] if number % 8 == 1 else [before, Attention([head])]
    readout = ReadOut(rng.normal(size=(2, 4)), rng.normal(size=2), tokens - 1)
    return Transformer(hm.VectorInput(maps, offsets), [*layers, Attention([head])], readout)


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


def amount(part: Any) -> float:
    """All finite numbers, each with a weight of its own; of an interval, its ends."""
    if isinstance(part, Interval):
        return amount(part.hi) - amount(part.lo)
    flat = np.ravel(part).astype(float)
    weights = 1.0 + np.arange(flat.size) / max(flat.size, 1)
    return float(np.where(np.isfinite(flat), flat, 0.0) @ weights)


def parts_of(answer: Answer) -> list[Any]:
    """All numbers of an answer, in the order in which they are written down."""
    errors, moves, near = answer.errors, answer.derivatives, answer.from_maximum
    first = [answer.mean, errors.rounded, errors.off, errors.off_seen, errors.jump, answer.weights]
    return [*first, moves.by_values, moves.by_logits, moves.by_query, near.below, near.beyond]


def amounts(flow: Flow) -> list[float]:
    """What the forward pass found: streams, answers of heads, hidden units."""
    parts = [0.0] * 20
    after = [*(one.before for one in flow.passed[1:]), flow.end]
    for passed, stream in zip(flow.passed, after, strict=True):
        found: list[Any] = [stream.where, stream.off, passed.error]
        if isinstance(passed, FedForward):
            found += [passed.slopes, passed.hidden_error, passed.hidden_off, passed.stop]
            found += [0.0] * 13
        else:
            answers = [mixing.answer for mixing in passed.mixings]
            found += [0.0] * 4 + [sum(mixing.stop.sum() for mixing in passed.mixings)]
            found += [sum(amount(parts_of(one)[k]) for one in answers) for k in range(11)]
        parts = [a + amount(b) for a, b in zip(parts, found, strict=False)]
    return parts


@contextmanager
def flows_seen() -> Iterator[list[float]]:
    seen: list[float] = []

    def noted(*given: Any) -> Flow:
        flow = follow(*given)
        seen.extend(amounts(flow))
        return flow

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_bounds, "follow", noted)
        yield seen


def bounds_of(number: int) -> list[str]:
    """A line for each format: bounds, sizes that were asked whether they fit, and `amounts`."""
    transformer, box = case(number)
    lines = []
    for name in names_of(number):
        with (
            np.errstate(all="ignore"),
            coarse_steps(),
            sizes_looked_at() as seen,
            flows_seen() as f,
        ):
            found = _bound(
                transformer, box, FORMATS[name], Norms(), (np.inf, np.inf)
            )  # intervals alone
        assert {format for format, _ in seen} == {name}
        sizes = sum(np.log2(size) for _, size in seen if 0.0 < size < np.inf)
        numbers = [*found, len(seen), sizes, *f]
        lines.append(f"{number} {name} {' '.join(f'{b:.12g}' for b in numbers)}")
    return lines


@cache
def written() -> dict[tuple[int, str], list[float]]:
    lines = [line.split() for line in WRITTEN.read_text().splitlines()]
    return {(int(n), name): [float(b) for b in bounds] for n, name, *bounds in lines}


@pytest.mark.parametrize("part", range(16))
def test_bounds_are_what_they_were(part):
    """To change them on purpose: python tests/checker/test_guards_rounding.py writes them again."""
    for number in CASES[part::16]:
        for line in bounds_of(number):
            _, name, *found = line.split()
            expected = written()[number, name]
            assert [float(b) for b in found] == pytest.approx(expected, rel=1e-10), (number, name)


# --- rounded up -----------------------------------------------------------------------------------


def wide(given: Any) -> Any:
    """The same with every array of float64, but for the ends of intervals, in wider floats."""
    if isinstance(given, np.ndarray) and given.dtype == np.float64:
        return given.astype(np.longdouble)
    if isinstance(given, Read | LogitRounding | NearMaximum):
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
    for asked in filter(None, map(asked_at, range(60))):
        found, wider = answer(asked), answer(widely(asked))
        for part, more in ((found.errors, wider.errors), (found.from_maximum, wider.from_maximum)):
            for name in (field.name for field in fields(part)):
                assert fallen(getattr(part, name), getattr(more, name)) == 0, name
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
        maximum = MaximumHeads(
            np.ones(heads, dtype=bool), full_floats(rng, heads), Interval(low, low + 0.1)
        )
        spread, hard = full_floats(rng, heads), np.zeros(heads, dtype=bool)
        weights = Interval(np.zeros((heads, n)), rng.uniform(0.0, 1e-3, size=(heads, n)))
        two, more = (
            near_maximum(maximum, weights, spread, hard),
            near_maximum(maximum, weights, wide(spread), hard),
        )
        assert fallen(two.distance, more.distance) == 0
        args = (maximum, np.ones((heads, n), dtype=bool))
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


# --- one by one -----------------------------------------------------------------------------------


def test_too_many_roundings_are_no_bound():
    assert relative(2**10, FLOAT16) <= 1.001
    with pytest.raises(NothingKnown):
        relative(2**11, FLOAT16)
    size = np.ones(1)
    value, nothing = Interval(-size, size), np.zeros(1)
    assert Sum(FLOAT16, value, nothing, size, np.array([1025.0 - 2.0])).error() < 1000.0
    with pytest.raises(NothingKnown):
        Sum(FLOAT16, value, nothing, size, np.array([1026.0])).error()


def test_a_doubt_about_weights_widens_what_they_make():
    """Sizes and values against rationals, the doubt being large."""
    rng, doubt = np.random.default_rng(23), 2.0**10
    for _ in range(200):
        matrix, x = rng.normal(size=(1, 4)), rng.normal(size=(4, 1))
        stored = replace(Stored.of(matrix, FLOAT64), doubt=np.array([doubt]))
        sizes = exact(np.abs(matrix))
        assert (exact(stored.size) >= sizes * (1 + Fraction(doubt))).all()
        assert (stored.size <= np.abs(matrix) * (1.0 + doubt) * (1.0 + 2.0**-40)).all()
        value = stored.times(Interval.point(x), np.zeros_like(x)).value
        middle, around = (exact(matrix) @ exact(x)), sizes @ exact(np.abs(x)) * Fraction(doubt)
        assert exact(value.lo) <= middle - around
        assert exact(value.hi) >= middle + around


def asked_by_three(number: int = 0) -> Asked:
    found = (asked_at(n) for n in range(number, number + 100))
    return next(one for one in found if one is not None and one.seen > 2)


def test_a_query_that_hardly_moves_is_not_cut():
    asked = asked_by_three()
    free = replace(asked.maximum, holds=np.zeros(len(asked.hard), dtype=bool))
    middle = 1.0 + np.abs(asked.query.value.lo)
    still, moving = (Interval(middle, middle * (1.0 + away)) for away in (2.0**-40, 2.0**-10))
    for value, cut in ((still, False), (moving, True)):
        given = replace(asked, maximum=free, query=replace(asked.query, value=value))
        assert (len(in_pieces(given)[0]) > len(asked.hard)) == cut


def test_logits_of_which_nothing_is_known_end_it():
    asked = asked_by_three()
    with pytest.raises(NothingKnown):
        weights_of(asked, np.full(asked.lead.shape, np.inf))


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_power_vanishes_if_its_rounded_logit_may_lie_below_the_edge(share):
    """The edge is where the lowest logit comes to lie, rounded; or half of that rounding away."""
    for number in range(20):
        asked = asked_by_three(number)
        below = with_softmax(asked).below[0]
        if not below.max() > 0.1:
            continue
        roundings = relative(np.where(asked.rounds, 3.0, 2.0), asked.format)[0]
        lowest, at = float(below.max() * (1.0 + roundings * share)), below.argmax()
        edge = replace(asked.format, exp_vanishes=-lowest)
        assert with_softmax(replace(asked, format=edge)).faint[0, at] >= edge.vanished
        beyond = replace(asked.format, exp_vanishes=-lowest * (1.0 + 2.0**-20))
        assert with_softmax(replace(asked, format=beyond)).faint[0, at] < beyond.vanished


def test_a_weight_that_has_no_reciprocal_is_no_kink():
    x, read = Interval(np.zeros(2), np.ones(2)), np.array([[5e-324, 0.0]])
    with np.errstate(invalid="raise"):
        found = kinked(x, np.array([0]), np.ones(1), read, Interval.point(np.array([-1.0])))
    assert found.lo[0] <= 0.0
    assert 1.0 <= found.hi[0] <= 1.0 + 1e-12


def test_a_deviation_is_no_larger_than_its_range_from_above():
    rng = np.random.default_rng(24)
    low, width = rng.normal(size=(1, 500)), rng.uniform(size=(1, 500))
    stream = RoundedStream(Interval.point(low), np.zeros(low.shape))
    every, where = np.arange(500), Interval(low, low + width)
    found = stream.replaced(every, where, np.full(low.shape, np.inf)).off
    assert (exact(found) >= exact(where.hi) - exact(where.lo)).all()
    assert (found <= width * (1.0 + 2.0**-30) + 2.0**-50).all()


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
    bound = _bound(transformer, box, format, Norms(), (np.inf, np.inf))[0]
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
