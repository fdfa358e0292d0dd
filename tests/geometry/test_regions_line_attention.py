"""Hard Transformers on segments, all tokens moving, against all pairs of scores."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache, cmp_to_key

import numpy as np
import pytest

from hardmax import DomainError, RequestError, SemanticsError
from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    ReadOut,
    SequenceInput,
    Softmax,
    Transformer,
    VectorInput,
    reference,
    trace,
)
from hardmax.geometry.bounds._depth_construction import depth_construction
from hardmax.geometry.counting._domains import Segment
from hardmax.geometry.counting.line._attention import transformer_line
from hardmax.geometry.counting.line._quadratic import QuadraticNumber

# ---- an independent brute force ----------------------------------------------------------------
#
# A root is (a, b, c, branch): its primitive minimal polynomial, and which of its roots it is. Order
# is decided by balls of 4,096 bits, which must be disjoint unless the roots are equal.


@cache
def ball(a, b, c, branch):
    from flint import arb, fmpz

    if a == 0:
        return arb(fmpz(-c)) / arb(fmpz(b))
    return (arb(fmpz(-b)) + branch * arb(fmpz(b * b - 4 * a * c)).sqrt()) / arb(fmpz(2 * a))


def is_before(one, other):
    if one == other:
        return False
    x, y = ball(*one), ball(*other)
    assert x < y or x > y, "4,096 bits do not tell these roots apart"
    return bool(x < y)


def exact_roots(form):
    """Those of a quadratic with rational coefficients that is not 0."""
    under = math.lcm(*(x.denominator for x in form))
    a, b, c = (int(x * under) for x in form)
    square = b * b - 4 * a * c
    if (a, b) == (0, 0) or square < 0:
        return set()
    if a == 0:
        values = {Fraction(-c, b)}
    elif math.isqrt(square) ** 2 == square:
        values = {Fraction(-b + s * math.isqrt(square), 2 * a) for s in (1, -1)}
    else:
        common = math.gcd(a, b, c) * (1 if a > 0 else -1)
        return {(a // common, b // common, c // common, branch) for branch in (1, -1)}
    return {(0, x.denominator, -x.numerator, 0) for x in values}


def ordered(found, left, right):
    """The roots strictly between two others, in order."""
    inside = [one for one in found if is_before(left, one) and is_before(one, right)]
    return sorted(inside, key=cmp_to_key(lambda x, y: is_before(y, x) - is_before(x, y)))


def rational_between(one, other):
    """A dyadic number between two roots."""
    from flint import arb

    low, high = ball(*one), ball(*other)
    for bits in itertools.count(2, 6):
        number = int(((low + high) / 2 * arb(2) ** bits).mid().floor().unique_fmpz())
        if low < arb(number) / arb(2) ** bits < high:
            return Fraction(number, 2**bits)


def asked(model, number, everywhere):
    """Tokens at which sublayer `number` matters: followed forward from each of them by masks."""

    def matters(token):
        reached = {token}
        for later in model.sublayers[number + 1 :]:
            if isinstance(later, Attention):
                reached |= {
                    t
                    for t in range(model.tokens)
                    for head in later.heads
                    if not head.causal or any(j <= t for j in reached)
                }
        return everywhere or model.readout.token % model.tokens in reached

    return [t for t in range(model.tokens) if matters(t)]


def dot(a, b):
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def linear(matrix, vector):
    return [dot(map(Fraction, row), vector) for row in matrix.tolist()]


def head_scores(head, stream, tokens):
    """For each asking token the scores of those it sees."""
    keys = [linear(head.key, token) for token in stream]
    bias = np.zeros((len(stream),) * 2) if head.position_bias is None else head.position_bias
    found = []
    for t in tokens:
        q = linear(head.query, stream[t])
        seen = keys[: t + 1] if head.causal else keys
        levels = [Fraction(x) for x in bias[t].tolist()]
        found.append([dot(q, k) + b for k, b in zip(seen, levels, strict=False)])
    return found


def pattern_at(model, number, point, everywhere):
    """Who wins and what is on up to a sublayer, from the streams of the exact evaluator."""
    prefix = Transformer(model.input, model.sublayers[:number], model.readout)
    streams = trace(prefix, point, Fraction).streams
    found = []
    for n, stream in enumerate(streams):
        sublayer, tokens = model.sublayers[n], asked(model, n, everywhere)
        if isinstance(sublayer, FeedForward):
            rows = [[h > 0 for h in hidden(sublayer, stream[t])] for t in tokens]
            found.append(tuple(tuple(row) for row in rows))
        else:
            found.append(
                tuple(
                    tuple(winners(scores) for scores in head_scores(head, stream, tokens))
                    for head in sublayer.heads
                )
            )
    return tuple(found)


def winners(scores):
    return tuple(j for j, score in enumerate(scores) if score == max(scores))


def hidden(layer, token):
    levels = [Fraction(x) for x in layer.inner_bias.tolist()]
    return [h + b for h, b in zip(linear(layer.inner, token), levels, strict=True)]


def forms_on(model, number, segment, marks, tokens):
    """All pairwise differences of scores (or all rectifiers' rows) on a piece, as quadratics.

    The stream is affine there, so its values at two points, the marks, give it everywhere, and the
    values of a score at three points give its quadratic.
    """
    prefix = Transformer(model.input, model.sublayers[:number], model.readout)
    ends = [trace(prefix, segment.at(t), Fraction).streams[number] for t in marks]
    at = [line_through(marks, ends, t) for t in range(3)]
    sublayer = model.sublayers[number]
    if isinstance(sublayer, FeedForward):
        rows = [[hidden(sublayer, stream[token]) for stream in at] for token in tokens]
        return [quadratic(*column) for row in rows for column in zip(*row, strict=True)]
    found = []
    for head in sublayer.heads:
        for rows in zip(*(head_scores(head, stream, tokens) for stream in at), strict=True):
            scores = [quadratic(*column) for column in zip(*rows, strict=True)]
            found += [
                tuple(x - y for x, y in zip(f, g, strict=True))
                for f, g in itertools.combinations(scores, 2)
            ]
    return found


def line_through(marks, ends, t):
    share = (t - marks[0]) / (marks[1] - marks[0])
    return [
        [a + share * (b - a) for a, b in zip(x, y, strict=True)] for x, y in zip(*ends, strict=True)
    ]


def quadratic(at0, at1, at2):
    """Through three values at 0, 1, 2."""
    a = (at2 - 2 * at1 + at0) / 2
    return a, at1 - at0 - a, at0


def brute(model, segment, everywhere):
    """The breakpoints, and two rational points in every cell, at which no scores happen to meet."""
    kept, marks = [(0, 1, 0, 0), (0, 1, -1, 0)], [(Fraction(1, 3), Fraction(2, 3))]
    for number in range(len(model.sublayers)):
        tokens = asked(model, number, everywhere)
        every = kept[:1]
        for left, right, pair in zip(kept[:-1], kept[1:], marks, strict=True):
            forms = forms_on(model, number, segment, pair, tokens)
            candidates = set().union(*(exact_roots(form) for form in forms if any(form)))
            every += [*ordered(candidates, left, right), right]
        pairs = [two_between(left, right) for left, right in itertools.pairwise(every)]
        seen = [pattern_at(model, number, segment.at(t), everywhere) for t, _ in pairs]
        changes = [True, *(x != y for x, y in itertools.pairwise(seen))]
        kept = [*itertools.compress(every[:-1], changes), every[-1]]
        marks = list(itertools.compress(pairs, changes))
    return kept[1:-1], marks


def two_between(left, right):
    first = rational_between(left, right)
    return first, rational_between(left, (0, first.denominator, -first.numerator, 0))


def check_against_brute_force(model, start, end, everywhere=False):
    from flint import ctx

    segment = Segment(start, end)
    found = transformer_line(model, start, end, everywhere=everywhere)
    with ctx.workprec(4096):
        expected, marks = brute(model, segment, everywhere)
    assert [(x.a, x.b, x.c, x.branch) for x in found.exact_breakpoints] == expected
    last = len(model.sublayers) - 1
    for cell, pair in zip(found, marks, strict=True):
        assert cell.pattern == pattern_at(model, last, segment.at(pair[0]), everywhere)
        for t in pair:  # two points, so the whole map
            assert cell.at(t) == reference(model, segment.at(t), Fraction)
    maps = [(cell.slope, cell.level) for cell in found]
    assert found.count == 1 + sum(x != y for x, y in itertools.pairwise(maps))
    assert (found.cells, found.exact) == (len(marks), True)
    return found


def random_model(
    rng, *, tokens, width=3, inputs=2, layers=2, heads=2, hidden=0, whole=0, **options
):
    def draw(*shape):
        if whole:
            return rng.integers(-whole, whole + 1, shape).astype(float)
        return rng.normal(size=shape)

    bias = options.pop("bias", False)
    sublayers = []
    for _ in range(layers):
        sublayers.append(
            Attention(
                [
                    Head(
                        *(draw(2, width), draw(2, width), draw(1, width), draw(width, 1)),
                        position_bias=draw(tokens, tokens) if bias else None,
                        **options,
                    )
                    for _ in range(heads)
                ]
            )
        )
        if hidden:
            args = draw(hidden, width), draw(hidden), draw(width, hidden), draw(width)
            sublayers.append(FeedForward(*args))
    prompt = VectorInput(draw(tokens, width, inputs), draw(tokens, width))
    return Transformer(prompt, sublayers, ReadOut(draw(1, width), draw(1)))


def test_two_layers_two_heads_eight_moving_tokens():
    """The requirement: every breakpoint on a segment, roots compared exactly."""
    rng = np.random.default_rng(5)
    model = random_model(rng, tokens=8)
    found = check_against_brute_force(model, *rng.normal(size=(2, 2)))
    assert found.layers == (40, 46)  # both layers make breakpoints
    assert any(not x.is_rational for x in found.exact_breakpoints)


@pytest.mark.parametrize(
    "options",
    [
        {"hidden": 2},
        {"causal": True},
        {"bias": True},
        {"causal": True, "bias": True, "hidden": 1},
        {"layers": 3, "heads": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("whole", [0, 1])
def test_small_models(options, whole):
    """Small whole numbers make ties of tokens, touching scores and roots in common."""
    rng = np.random.default_rng(len(options) + whole)
    for everywhere in (False, True):
        model = random_model(rng, tokens=3, whole=whole, **options)
        start = np.array([-1.0, 0.5]) if whole else rng.normal(size=2)
        check_against_brute_force(model, start, start + np.array([2.0, 1.0]), everywhere)


# ---- cases by hand -----------------------------------------------------------------------------


def one_head(maps, offsets, **options):
    """One head over tokens of a query, a key and a value each; the last one is read: its value.

    So token j scores query * key_j for the last token, and what it wins is value_j.
    """
    query, key, value = np.eye(3)[:, None]
    head = Head(query, key, value, value.T, **options)
    prompt = VectorInput(np.asarray(maps, dtype=float)[:, :, None], offsets)
    return Transformer(prompt, [Attention([head])], ReadOut(value, [0.0]))


def test_an_irrational_wall():
    """2 t^2 against 1 (a bias): they change places at sqrt(1/2), the root of 2 t^2 - 1."""
    model = one_head(
        [[0, 2, 0], [0, 0, 0], [1, 0, 0]],
        [[0, 0, 1], [0, 0, 2], [0, -8, 0]],
        position_bias=[[0, 0, 0], [0, 0, 0], [0, 1, 0]],
    )
    found = check_against_brute_force(model, [0.0], [1.0])
    assert found.exact_breakpoints == (QuadraticNumber(2, 0, -1, 1),)
    assert float(found.exact_breakpoints[0]) == found.breakpoints[0] == math.sqrt(0.5)
    assert (found.cells, found.count) == (2, 2)
    assert found.maps.tolist() == [[[0.0, 2.0]], [[0.0, 1.0]]]


def test_scores_that_touch_make_no_breakpoint():
    """(t - 1/2)^2 against 0: equal at 1/2, and the first wins on both sides."""
    model = one_head(
        [[0, 1, 0], [0, 0, 0], [1, 0, 0]],
        [[0, -0.5, 1], [0, 0, 2], [-0.5, 0, 3]],
    )
    found = check_against_brute_force(model, [0.0], [1.0])
    assert (found.cells, found.count) == (1, 1)
    assert reference(model, [Fraction(1, 2)], Fraction) == [5]  # a tie of 3, at one point
    assert found.decided > 0


def test_ties_on_an_interval_share_equally():
    """Tokens 0 and 1 have one key, and win together where t > 1/2; their mean value is 3/2."""
    model = one_head(
        [[0, 0, 0], [0, 0, 0], [1, 0, 0]],
        [[0, 1, 1], [0, 1, 2], [-0.5, 0, 0]],
    )
    found = check_against_brute_force(model, [0.0], [1.0])
    assert [cell.level for cell in found] == [(0,), (Fraction(3, 2),)]
    assert [cell.pattern[0][0][0] for cell in found] == [(2,), (0, 1)]


def test_a_rectifier_that_is_0_throughout_is_off():
    """Of three rectifiers one has weights 0; it makes no wall, and the pattern says off."""
    layer = FeedForward([[1.0], [0.0], [0.0]], [-0.5, 0.0, 1.0], [[1.0, 1.0, 1.0]], [0.0])
    model = Transformer(VectorInput([[[1.0]]], [[0.0]]), [layer], ReadOut([[1.0]], [0.0]))
    found = transformer_line(model, [0.0], [1.0])
    assert [cell.pattern for cell in found] == [(((x, False, True),),) for x in (False, True)]
    assert [cell.slope for cell in found] == [(1,), (2,)]


def test_equal_maps_are_one_region():
    """Both winners hold the value 1: the wall is there, the map does not change."""
    maps, offsets = [[0, 1, 0], [0, 0, 0], [0, 0, 0]], [[0, 0, 1], [0, 0.5, 1], [1, -8, 0]]
    model = one_head(
        maps,
        offsets,
    )
    found = check_against_brute_force(model, [0.0], [1.0])
    assert (found.cells, found.count) == (2, 1)


def test_tokens_that_are_never_read_do_not_count():
    """Causal: what token 1 chooses matters to nobody if token 0 is read."""
    rng = np.random.default_rng(5)
    model = random_model(rng, tokens=4, layers=2, causal=True)
    first = Transformer(
        model.input, model.sublayers, ReadOut(model.readout.weights, model.readout.bias, token=0)
    )
    start, end = rng.normal(size=(2, 2))
    assert transformer_line(first, start, end).cells == 1
    counts = [
        transformer_line(model, start, end, everywhere=everywhere) for everywhere in (False, True)
    ]
    assert counts[0].cells < counts[1].cells
    assert counts[0].count == counts[1].count


@pytest.mark.parametrize(
    ("tokens", "teeth", "layers"), [(3, 1, 1), (3, 1, 2), (4, 2, 2), (2, 1, 3), (5, 0, 2)]
)
def test_the_depth_construction_on_the_line(tokens, teeth, layers):
    """Exactly (2 w N)^L cells, all of them regions (theory.md section 5.4)."""
    model = depth_construction(tokens=tokens, teeth=teeth, dimension=1, layers=layers)
    found = transformer_line(model, [0.0], [1.0])
    number = (2 * teeth * tokens if teeth else tokens) ** layers
    assert (found.cells, found.count) == (number, number)
    assert [x.fraction for x in found.exact_breakpoints] == [
        Fraction(k, number) for k in range(1, number)
    ]


# ---- refusals ----------------------------------------------------------------------------------


def test_refusals():
    model = random_model(np.random.default_rng(0), tokens=2)
    with pytest.raises(DomainError, match="2 inputs"):
        transformer_line(model, [0.0], [1.0])
    soft = model.with_weightings([Softmax(1.0)] * 4)
    with pytest.raises(SemanticsError, match="hard skeleton"):
        transformer_line(soft, [0.0, 0.0], [1.0, 1.0])
    words = Transformer(
        SequenceInput(("a",), np.ones((1, 3)), np.zeros((2, 3))), model.sublayers, model.readout
    )
    with pytest.raises(RequestError, match="symbols"):
        transformer_line(words, [0.0], [1.0])
