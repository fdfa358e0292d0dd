"""Each guard of the flow's lemmas, on heads made for it: taken away, one of these goes red."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from flint import arb

import hardmax as hm
from hardmax.analysis import _contests as contests
from hardmax.analysis import follow, rounding_bound
from hardmax.analysis._affine_rounding import affine_stray, faint_stray
from hardmax.analysis._constant_scores import _moved, _shares, constant_scores, known_weights
from hardmax.analysis._contests import Contest, alone, find_contest, maximum
from hardmax.analysis._deviations import Deviation, NoiseCounter, deviation_of_maximum
from hardmax.analysis._heads import _note_logits, follow_group
from hardmax.analysis._places import Place
from hardmax.analysis._question import HeadFlow, Projected
from hardmax.analysis._routing import hull_of_values, selection
from hardmax.analysis._scaling import scaled_coordinates, weight_ranges
from hardmax.core import (
    Attention,
    FeedForward,
    Hardmax,
    Head,
    HeadGroup,
    Holding,
    ReadOut,
    SequenceInput,
    Softmax,
    Transformer,
    Univariate,
    VectorInput,
)
from hardmax.numerics import (
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FORMATS,
    REALS,
    TINY,
    UNIT,
    Interval,
    exact,
    precision,
    softmax_gap,
)

RNG = np.random.default_rng
NARROW = [FLOAT32, FLOAT16]
U = Fraction(UNIT)


def mixed_by_constants(asking, flows):
    return constant_scores(asking, known_weights(asking, flows), asking.values, asking.outline)


def mild(rng, *shape):
    return rng.uniform(0.5, 2.0, shape)


def gamma_of(terms, format):
    return terms * format.unit / (1 - terms * format.unit)


def stray_of(terms, size, format):
    """As it is written down in `stray`, without its own roundings."""
    return gamma_of(terms, format) * size + format.smallest * (terms + 1)


def is_near(found, written, share=1e-9):
    """At least what is written down, and hardly more."""
    found, written = np.asarray(found), np.asarray(written)
    return bool((found >= written * (1 - 1e-15)).all() and (found <= written * (1 + share)).all())


def place_of(values, off=None, *, wide=0.0):
    values = np.asarray(values, dtype=float)
    off = np.zeros(values.shape) if off is None else np.asarray(off, dtype=float)
    return Place(Interval(values - wide, values + wide), Deviation.of(Interval(-off, off)))


def group_of(query, key, value, output=None, coldness=1.0, bias=None):
    """Matrices heads x rows x width; one coldness for all heads, or one for each."""
    query, key, value = (np.asarray(m, dtype=float) for m in (query, key, value))
    heads, _, width = query.shape
    output = np.zeros((heads, width, value.shape[1])) if output is None else np.asarray(output)
    cold = np.broadcast_to(np.asarray(coldness, dtype=float), (heads,)).copy()
    return HeadGroup(tuple(range(heads)), query, key, value, output, cold, False, bias)


def asked(place, group, *, t=0, format=REALS, against_skeleton=False):
    return Projected(place, group, group.coldness, format).asked_by(t, against_skeleton)


# ---- affine maps -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FORMATS)
def test_an_affine_map_strays_by_its_terms_and_its_faint_weights(name):
    format = FORMATS[name]
    matrix, sizes = np.array([[1.0, -3.0, 0.0]]), np.array([1.0, 2.0, 9.0])
    size, away = affine_stray(matrix, sizes, -4.0, 3, format, 5.0)
    assert is_near(size, [11.0])
    assert is_near(away, [stray_of(5, 16.0, format)])
    tiny = format.normal * 0.5 * (1 + 2.0**-30)  # below the normal numbers, and not held
    if format is not FLOAT64:
        weak = np.array([[tiny, 1.0, 0.0]])
        assert is_near(faint_stray(weak, sizes, format), [format.smallest])
        _, away = affine_stray(weak, sizes * 2.0**15, 0.0, 3, format)
        size = 2.0**15 * (tiny + 2.0)
        assert is_near(away, [stray_of(5, size, format) + 2.0**15 * format.smallest], 1e-6)
        assert faint_stray(weak, sizes * 1e-305, format)[0] > 0.0
    assert faint_stray(np.array([[format.smallest, 1.0]]), np.ones(2), format) == 0.0


def test_sizes_that_underflow_are_not_nothing():
    small = np.array([1e-200])
    size, away = affine_stray(small[None, :], small, 0.0, 3, FLOAT64)
    assert size[0] == TINY
    assert away[0] >= 5 * TINY


# ---- what a narrow format loses of faint numbers ------------------------------------------------


def two_tokens(head, offsets, readout=None):
    width = offsets.shape[1]
    eye = np.eye(width)
    return Transformer(
        VectorInput(np.zeros((2, width, 1)), offsets),
        [Attention([head])],
        ReadOut(eye[[0]] if readout is None else readout, np.zeros(1), 0),
    )


POINT = hm.Box([0.0], [0.0])


def test_products_of_a_query_that_underflow_are_enlarged_by_the_key():
    """A hundred products of 2^-26 are 0 in float16; a key of 2^15 makes that 0.05 of a logit."""
    n = 100
    offsets = np.zeros((2, n + 4))
    offsets[0, 4:] = 2.0**-13
    offsets[:, 1], offsets[:, 2] = (0.0, 2.0**15), (-1000.0, 1000.0)
    query, eye = np.zeros((1, n + 4)), np.eye(n + 4)
    query[0, 4:] = 2.0**-13
    model = two_tokens(Head(query, eye[[1]], eye[[2]], eye[:, [0]], Softmax(1.0)), offsets)
    products = (offsets[0].astype(np.float16) * query[0].astype(np.float16)).astype(float)
    assert not products.any()  # so that float16 takes the plain mean, 0
    truth = 1000.0 * math.tanh(n * 2.0**-26 * 2.0**15 / 2)
    (bound,) = rounding_bound(model, POINT, "float16")
    assert truth <= bound


@pytest.mark.parametrize("faint", ["query", "key", "value", "output", "readout"])
def test_faint_weights_are_charged_by_what_they_multiply(faint):
    """1.4 times the smallest number of float16 is stored as the smallest: 0.4 of it is lost."""
    weight = 1.4 * FLOAT16.smallest
    offsets = np.zeros((2, 5))
    offsets[0, 3], offsets[:, 1], offsets[:, 2] = 2.0**15, (0.0, 2.0**15), (-1.0, 1.0)
    offsets[:, 4] = 1.0
    eye = np.eye(5)
    query, key, value, output = eye[[4]] * 2.0**-15, eye[[1]], eye[[2]], eye[:, [0]]
    readout = eye[[0]]
    lost = 0.4 * FLOAT16.smallest * 2.0**15
    match faint:
        case "query":
            query, moved = eye[[3]] * weight, lost * 2.0**15 / 4
            offsets[1, 1] = 1.0
            moved = lost / 4
        case "key":
            query, key, moved = eye[[4]], eye[[1]] * weight, lost / 4
        case "value":
            value, moved = eye[[3]] * weight, lost / 4
        case "output":
            offsets[:, 2] = 2.0**15
            output, moved = eye[:, [0]] * weight, lost
        case "readout":
            readout, moved = readout + eye[[3]] * weight, lost
    model = two_tokens(Head(query, key, value, output, Softmax(1.0)), offsets, readout)
    (bound,) = rounding_bound(model, POINT, "float16")
    assert float(np.float16(weight)) == FLOAT16.smallest
    assert moved <= bound
    (finer,) = rounding_bound(model, POINT, "float32")
    assert finer < 0.01 * bound


def test_faint_weights_of_hidden_layers_and_inputs_are_charged():
    weight, big = 1.4 * FLOAT16.smallest, 2.0**14
    lost = 0.4 * FLOAT16.smallest * big
    box, one, zero = hm.Box([big], [big]), np.ones((1, 1)), np.zeros(1)
    read = ReadOut(one, zero, 0)
    plain = VectorInput(np.ones((1, 1, 1)), np.zeros((1, 1)))
    # x + relu(w x) - x: what is left is the faint one
    for inner, outer in ((weight, 1.0), (1.0, weight)):
        two = np.array([[inner], [1.0]])
        layer = FeedForward(two, np.zeros(2), np.array([[outer, -1.0]]), zero)
        (with_it,) = rounding_bound(Transformer(plain, [layer], read), box, "float16")
        two = np.array([[2.0**-24 if inner == weight else 1.0], [1.0]])
        ends = np.array([[2.0**-24 if outer == weight else 1.0, -1.0]])
        layer = FeedForward(two, np.zeros(2), ends, zero)
        (without,) = rounding_bound(Transformer(plain, [layer], read), box, "float16")
        assert with_it - without >= lost
    faint = VectorInput(np.full((1, 1, 1), weight), np.zeros((1, 1)))
    (bound,) = rounding_bound(Transformer(faint, [], read), box, "float16")
    assert lost <= bound <= 4 * lost


# ---- places of whole sublayers, as written down ------------------------------------------------


@pytest.mark.parametrize("format", NARROW)
def test_embeddings_stray_by_three_roundings_more_than_their_terms(format):
    source = VectorInput(np.array([[[1.0, 2.0], [0.0, 0.0]]]), np.array([[3.0, 0.1]]))
    model = Transformer(source, [], ReadOut(np.eye(2)[[0]], np.zeros(1), 0))
    box = hm.Box([-1.0, -1.0], [1.0, 1.0])
    (place,) = follow(model, box, format=format).places
    assert is_near(place.deviation.hi[0], [stray_of(5, 6.0, format), stray_of(3, 0.1, format)])
    words = SequenceInput("ab", np.array([[1.0], [-2.0]]), np.array([[1.0], [0.5]]))
    model = Transformer(words, [], ReadOut(np.ones((1, 1)), np.zeros(1), 0))
    (place,) = follow(model, None, format=format).places
    assert is_near(place.deviation.hi[:, 0], stray_of(3, np.array([2.0, 1.5]), format))


@pytest.mark.parametrize("format", NARROW)
def test_hidden_layers_and_readouts_stray_as_written_down(format):
    """Constants that the format holds come in without error; then each map adds its own."""
    source = VectorInput(np.zeros((1, 2, 1)), np.array([[1.0, 2.0]]))
    layer = FeedForward(
        np.array([[1.0, 3.0]]), np.array([0.5]), np.array([[5.0], [0.0]]), np.array([0.25, 0.0])
    )
    model = Transformer(source, [layer], ReadOut(np.array([[1.0, 1.0]]), np.zeros(1), 0))
    flow = follow(model, POINT, format=format)
    hidden = stray_of(5, 7.5, format)
    here = 1.0 + 0.25 + 5.0 * (7.5 + hidden)
    written = 5.0 * hidden + stray_of(6, here, format)
    assert is_near(flow.places[1].deviation.hi[0], [written, 0.0])
    size = 38.75 + written + 2.0
    assert is_near(flow.answer.deviation.hi[0], [written + stray_of(5, size, format)])
    copied = ReadOut(np.array([[1.0, 0.0]]), np.zeros(1), 0)
    flow = follow(Transformer(source, [layer], copied), POINT, format=format)
    assert is_near(flow.answer.deviation.hi[0], [written])


@pytest.mark.parametrize("format", NARROW)
def test_a_head_that_copies_strays_as_written_down(format):
    """One token, so that its weight is 1: the value, the mix and the sum are rounded."""
    source = VectorInput(np.zeros((1, 2, 1)), np.array([[1.0, 2.0]]))
    eye = np.eye(2)
    head = Head(eye[[1]], eye[[1]], np.array([[0.0, 3.0]]), eye[:, [0]] * 4.0, Hardmax())
    model = Transformer(source, [Attention([head])], ReadOut(eye[[0]], np.zeros(1), 0))
    flow = follow(model, POINT, format=format)
    value = stray_of(1 + 2 + 8, 6.0, format)
    terms, total = (
        4.0 * (6.0 + value) + 1.0,
        25.0 + 4.0 * value,
    )  # 4 times 6, and the 1 that is there
    base, partial = stray_of(4, terms, format), stray_of(2, (terms + total) / 2, format)
    lost = format.smallest * 3  # of partial sums, twice
    written = 4.0 * value + base * (1.0 + gamma_of(2, format)) + partial + lost
    assert is_near(flow.places[1].deviation.hi[0], [written, 0.0])


def test_a_skeletons_other_bias_is_part_of_the_deviation():
    source = VectorInput(np.array([[[1.0]]]), np.array([[0.1]]))
    evaluated = Transformer(source, [], ReadOut(np.ones((1, 1)), np.array([0.5]), 0))
    skeleton = Transformer(source, [], ReadOut(np.ones((1, 1)), np.array([0.25]), 0))
    away = follow(evaluated, POINT, format=FLOAT16, skeleton=skeleton).answer.deviation
    assert away.contains(0.25).all()
    assert is_near(away.hi - away.lo, [[2 * (stray_of(4, 0.1, FLOAT16) * 2)]], 5.0)


def test_places_add_up_what_both_deviate_by():
    a, b = place_of([1.0, 2.0], [0.5, 0.0]), place_of([3.0, 4.0], [0.25, 0.125])
    total = a + b
    assert total.range.contains([4.0, 6.0]).all()
    assert is_near(total.deviation.hi, [0.75, 0.125], 1e-12)
    moved = a.shifted(np.array([1.0, 1.0])).deviation
    assert moved.contains([1.5, 1.0]).all()
    assert moved.contains([0.5, 1.0]).all()
    assert is_near(a.strayed(np.array([0.25, 0.25])).deviation.hi, [0.75, 0.25], 1e-12)


# ---- deviations --------------------------------------------------------------------------------


def test_forms_that_underflow_go_into_the_rest():
    small = np.array([1e-200])
    one = Deviation(Interval.point(np.zeros(1)), small[:, None])
    assert (small[None, :] @ one).rest.hi[0] > 0.0
    assert one.scaled(small).rest.hi[0] > 0.0
    unit = Deviation(Interval.point(np.zeros(1)), np.ones((1, 1)))
    rest = one.scaled(np.array([2.0**-1000]), small).rest.hi[0]
    assert rest == 3 * TINY  # one for the factor, and two for the form
    assert unit.scaled(np.ones(1), np.array([0.5])).rest.hi[0] >= 0.5


def test_forms_are_rounded_where_there_is_no_rest():
    rng = RNG(0)
    none = Interval.point(np.zeros(200))
    a, b = (Deviation(none, mild(rng, 200, 3) * rng.choice([-1.0, 1.0], (200, 3))) for _ in "ab")
    total = a + b
    lost = abs(exact(a.forms) + exact(b.forms) - exact(total.forms)).sum(axis=-1)
    assert (exact(total.rest.hi) >= lost).all()
    factor = mild(rng, 200)
    scaled = a.scaled(factor)
    lost = abs(exact(a.forms) * exact(factor)[:, None] - exact(scaled.forms)).sum(axis=-1)
    assert (exact(scaled.rest.hi) >= lost).all()
    rows = Deviation(Interval.point(np.zeros((40, 5))), a.forms.reshape(40, 5, 3))
    summed = rows.total()
    lost = abs(exact(rows.forms).sum(axis=1) - exact(summed.forms)).sum(axis=-1)
    assert (exact(summed.rest.hi) >= lost).all()
    matrix = mild(rng, 50, 200)
    product = matrix @ a
    lost = abs(exact(matrix) @ exact(a.forms) - exact(product.forms)).sum(axis=-1)
    assert (exact(product.rest.hi) >= lost).all()


def test_noises_reach_as_far_as_the_rest_did():
    """The middle of subnormals is rounded, too, and that of wide ones."""
    rng = RNG(1)
    low = -mild(rng, 300)
    for high in (mild(rng, 300), np.full(300, 1e-3), low + 3 * np.abs(np.spacing(low))):
        rest = Interval(low, high)
        found = Deviation.of(rest).with_noises(np.ones(300, bool), NoiseCounter(300))
        reach = abs(exact(found.forms)).sum(axis=-1)
        assert (exact(found.rest.hi) + reach >= exact(high)).all()
        assert (exact(found.rest.lo) - reach <= exact(low)).all()


def test_what_all_contenders_share_passes_through_a_maximum():
    forms = np.broadcast_to(mild(RNG(2), 50, 1, 3), (50, 2, 3)).copy()
    rest = Interval.point(np.zeros((50, 2)))
    found = deviation_of_maximum(Deviation(rest, forms), np.ones((50, 2), bool))
    assert np.array_equal(found.forms, forms[:, 0])


def test_differences_from_the_mean_form_are_rounded_outward():
    rng = RNG(3)
    forms = mild(rng, 300, 3, 2)
    forms[..., 0] += 8.0  # shared, so that the mean is kept
    rest = Interval.point(np.zeros((300, 3)))
    found = deviation_of_maximum(Deviation(rest, forms), np.ones((300, 3), bool))
    kept = found.forms.any(axis=1)
    assert kept.sum() > 50
    for j in range(3):
        off = abs(exact(forms[:, j]) - exact(found.forms)).sum(axis=-1)
        assert (exact(found.rest.hi) >= off)[kept].all()


# ---- what a token asks -------------------------------------------------------------------------


def asking_pair(coldness, format, off=0.0):
    """Two tokens (1, 2) and (3, 4); query and key read both, the value the first."""
    place = place_of([[1.0, 2.0], [3.0, 4.0]], np.full((2, 2), off))
    group = group_of([[[2.0, 3.0]]], [[[1.0, 5.0]]], [[[7.0, 0.0]]], coldness=coldness)
    return Projected(place, group, group.coldness, format)


@pytest.mark.parametrize("format", NARROW)
@pytest.mark.parametrize("coldness", [1.0, 4.0, 0.5, math.inf])
def test_logits_stray_as_written_down(format, coldness):
    """Query 8 at token 0, keys 11 and 23: two and two terms, a product, and eight more."""
    projected = asking_pair(coldness, format)
    soft, finite = math.isfinite(coldness), coldness if math.isfinite(coldness) else 1.0
    lost = 2 * format.smallest * (23.0 + 2 * format.smallest) + 8.0 * 2 * format.smallest
    lost = max(finite, 1.0) * lost
    assert is_near(projected.lost[0, 0], lost)
    written = 2 * (stray_of(13, 8.0 * 23.0, format) * finite + lost)
    asking = projected.asked_by(0, False)
    assert is_near(asking.logit_stray, [written + soft * gamma_of(format.exp_units, format)])
    value = stray_of(1 + 4 + 8, 21.0, format)
    apart = 8.0 * (23.0 - 11.0) * finite
    vanished = 2 * format.vanished if soft and apart >= -0.5 * format.exp_vanishes else 0.0
    assert is_near(asking.value_stray, [value + 2 * vanished * 21.0])
    assert asking.format is format


def test_faint_weights_count_in_queries_and_keys():
    weak = 1.5 * FLOAT16.smallest
    place = place_of([[2.0, 4.0]])
    for coldness in (1.0, 2.0, math.inf):
        group = group_of([[[weak, 1.0]]], [[[0.0, 2.0]]], [[[1.0, 0.0]]], coldness=coldness)
        found = Projected(place, group, group.coldness, FLOAT16)
        smallest, cold = FLOAT16.smallest, coldness if math.isfinite(coldness) else 1.0
        query, key = 2 * smallest + 2.0 * smallest, smallest
        size = weak * 2.0 + 4.0
        assert is_near(found.lost[0, 0], cold * (query * (8.0 + key) + size * key))
    warm = group_of([[[0.0, 2.0**-14]]], [[[0.0, 2.0]]], [[[1.0, 0.0]]], coldness=0.7)
    found = Projected(place, warm, warm.coldness, FLOAT16)  # 0.7 times 2^-14 is subnormal
    query = smallest + 4.0 * smallest
    assert is_near(found.lost[0, 0], query * (8.0 + smallest) + 2.0**-12 * smallest)


def test_faint_values_stray_before_they_are_mixed():
    weak = 1.5 * FLOAT16.smallest
    group = group_of([[[1.0]]], [[[1.0]]], [[[weak]]])
    asking = asked(place_of([[2.0**15]]), group, format=FLOAT16)
    assert is_near(asking.values.deviation.hi.ravel(), [FLOAT16.smallest * 2.0**15])


def test_scores_move_with_the_deviation_of_both_tokens():
    """|q| |dk| + |dq| |k|, with sizes that include the deviations."""
    asking = asking_pair(1.0, REALS, off=0.5).asked_by(0, False)
    query, key = 2.0 * 1.5 + 3.0 * 2.5, 3.5 + 5.0 * 4.5
    assert is_near(asking.score_deviation, [2.5 * key + query * 3.0])


def test_tiny_streams_are_asked_with_tiny_errors_that_are_not_nothing():
    small = np.full((1, 1), 1e-200)
    place = place_of(small)
    weak = group_of([small], [small], [small], coldness=math.inf)
    projected = Projected(place, weak, weak.coldness, FLOAT64)
    assert projected.query_size[0, 0, 0] == projected.value_size[0, 0, 0] == TINY
    one = np.ones((1, 1))
    plain = group_of([one], [one], [one], coldness=math.inf)
    projected = Projected(place, plain, plain.coldness, FLOAT64)
    assert projected.lost[0, 0] == 2 * TINY
    terms = 1 + 1 + 1 + 8
    assert projected.asked_by(0, False).logit_stray[0] >= 2 * (terms + 3) * TINY
    off = place_of(small, small)
    projected = Projected(off, plain, plain.coldness, FLOAT64)
    assert projected.asked_by(0, False).score_deviation[0] == 2 * TINY


def test_hard_heads_have_no_exponentials():
    group = group_of([[[1.0]]], [[[1.0]]], [[[1.0]]], coldness=math.inf)
    asking = asked(place_of([[1.0], [1.0]], wide=0.5), group)
    assert asking.logit_stray[0] == 0.0
    ranges = weight_ranges(asking)
    assert (ranges.lo == 0.0).all()
    assert (ranges.hi == 1.0).all()
    assert scaled_coordinates(asking)[0].tolist() == [-1]
    tied = weight_ranges(asked(place_of([[0.0], [0.0]]), group))
    assert (tied.lo.max(), tied.hi.min()) == (0.0, 1.0)  # who wins is not said
    flows = [HeadFlow()]
    _note_logits(asking, flows, counts=True)
    assert flows[0].largest_logit == flows[0].radius * (1 + 2 * 2.0**-52)


def test_the_largest_logit_is_rounded_up():
    rng = RNG(4)
    cold = mild(rng, 200)
    group = group_of(np.ones((200, 1, 1)), mild(rng, 200, 1, 1), np.ones((200, 1, 1)), None, cold)
    asking = asked(place_of([[1.0]]), group)
    flows = [HeadFlow() for _ in range(200)]
    _note_logits(asking, flows, counts=True)
    for flow, beta in zip(flows, cold, strict=True):
        assert Fraction(flow.largest_logit) >= Fraction(beta) * Fraction(flow.radius)


# ---- averages and selections -------------------------------------------------------------------


def test_an_average_moves_by_its_weights_and_its_values():
    rng = RNG(5)
    heads = 200
    group = group_of(*(np.ones((heads, 1, 1)) for _ in range(3)))
    asking = asked(place_of([[1.0], [1.0]]), group)
    value, off = mild(rng, heads, 1, 2), mild(rng, heads, 1, 2)
    moved = exact(off.max(axis=(1, 2)))
    for d, cold, score in ((1e-30, 1.0, 0.0), (0.3, 1.0, 0.0), (0.0, 2.0, 0.2)):
        one = replace(
            asking,
            values=place_of(value, off),
            logit_stray=np.full(heads, d),
            score_deviation=np.full(heads, score),
            coldness=np.full(heads, cold),
        )
        found = hull_of_values(one)
        wide = exact(found.range.hi[:, 0]) - exact(found.range.lo[:, 0])
        with precision(200):
            share = ((arb(d) + arb(cold) * arb(score)) / 2).tanh()
            bounds = [share * _ball(w) + _ball(m) for w, m in zip(wide, moved, strict=True)]
            for bound, hi, lo in zip(
                bounds, found.deviation.hi[:, 0], found.deviation.lo[:, 0], strict=True
            ):
                most = bound * (1 + arb(1e-13))
                assert not arb(float(max(hi, -lo))) < bound
                assert arb(float(max(hi, -lo))) < most
    hard = hull_of_values(replace(one, coldness=np.full(heads, math.inf)))
    assert (hard.deviation.hi[:, 0] >= wide.astype(float)).all()


def _ball(number):
    return arb(int(number.numerator)) / arb(int(number.denominator))


def leading(scores, values, **more):
    """A head per row with these scores and values."""
    heads, seen = scores.shape
    group = group_of(*(np.ones((heads, 1, 1)) for _ in range(3)))
    asking = asked(place_of(np.ones((seen, 1))), group)
    return replace(
        asking,
        scores=Interval.point(scores),
        values=place_of(values[:, None, :]),
        logit_stray=np.zeros(heads),
        coldness=np.ones(heads),
        **more,
    )


def test_losers_leak_as_much_as_if_all_of_them_tied():
    """Two hundred tokens close behind: nearly everything leaks, and exp's ulps do not hide it."""
    rng = RNG(6)
    heads, n = 60, 200
    scores = np.zeros((heads, n))
    scores[:, 0] = rng.uniform(1e-3, 2e-3, heads)
    values = mild(rng, heads, n)
    for skeleton in (True, False):
        holds, found = selection(leading(scores, values, against_skeleton=skeleton))
        assert holds.all()
        spread = exact(values.max(axis=1)) - exact(values.min(axis=1))
        with precision(200):
            for h in range(heads):
                losers = (n - 1) * (-arb(float(scores[h, 0]))).exp()
                leak = losers / (1 + losers) * _ball(spread[h])
                hi = float(found.deviation.hi[h, 0])
                assert not arb(hi) < leak * (1 if skeleton else 2)
                assert arb(hi) < leak * (1 if skeleton else 2) * (1 + arb(1e-13))
                if not skeleton:
                    wide = float(found.range.hi[h, 0])
                    assert not arb(wide) < arb(float(values[h, 0])) + leak


def test_selections_far_ahead_lose_their_doubts_first():
    """A lead of 300: half an ulp of it moves exp by more than everything else."""
    rng = RNG(7)
    scores = np.stack([rng.uniform(300.0, 400.0, 300), rng.uniform(0.0, 1.0, 300)], axis=1)
    cold, values = rng.uniform(0.5, 1.0, 300), np.stack([np.zeros(300), np.ones(300)], axis=1)
    stray = rng.uniform(0.0, 1.0, 300)
    asking = replace(
        leading(scores, values, against_skeleton=True), coldness=cold, logit_stray=stray
    )
    holds, found = selection(asking)
    assert holds.all()
    with precision(200):
        for s, c, d, hi in zip(scores, cold, stray, found.deviation.hi[:, 0], strict=True):
            behind = (arb(float(s[0])) - arb(float(s[1]))) * arb(float(c)) - 2 * arb(float(d))
            leak = 1 / (1 + behind.exp())
            assert not arb(float(hi)) < leak
            assert arb(float(hi)) < leak * (1 + arb(1e-11))
    barely = replace(asking, logit_stray=(scores[:, 0] - scores[:, 1]) * cold)
    assert not selection(barely)[0].any()
    hard = replace(asking, coldness=np.full(300, math.inf))
    assert not selection(hard)[1].deviation.magnitude.any()


# ---- constant scores ---------------------------------------------------------------------------


def test_shares_of_ties_are_rounded_outward_unless_they_are_floats():
    for n in range(1, 40):
        found = _shares(np.ones((1, n), bool))
        assert Fraction(float(found.lo[0, 0])) <= Fraction(1, n) <= Fraction(float(found.hi[0, 0]))
        assert (found.lo[0, 0] == found.hi[0, 0]) == (n & (n - 1) == 0)


def constant_head(below, values, coldness, d, **more):
    """A head per row; only what `_moved` and `constant_scores` look at is as said."""
    heads, seen = below.shape
    width = 2
    group = group_of(
        np.ones((heads, 2, width)), np.ones((heads, 2, width)), np.ones((heads, 1, width))
    )
    asking = asked(place_of(np.ones((seen, width))), group)
    return replace(
        asking,
        coldness=np.full(heads, coldness),
        logit_stray=np.full(heads, d),
        values=place_of(values[:, None, :]),
        **more,
    )


def test_weights_move_by_their_odds_rounded_up():
    rng = RNG(8)
    weights = rng.dirichlet(np.ones(5), 100)
    below = -mild(rng, 100, 5)
    below[:, 0] = 0.0
    asking = constant_head(below, weights, 1.0, 0.1)
    found = _moved(asking, below, weights)
    with precision(200):
        factor = arb(0.2).expm1() if hasattr(arb, "expm1") else arb(0.2).exp() - 1
        for row, moved in zip(exact(weights), found, strict=True):
            for j in range(5):
                odds = _ball(row[j] * (sum(row) - row[j])) * factor
                assert not arb(float(moved[j])) < odds
                assert arb(float(moved[j])) < odds * (1 + arb(1e-13))


def test_a_hard_head_is_fragile_up_to_twice_the_doubt():
    values = np.ones((1, 2))
    for behind, moves in ((0.2, 1.0), (math.nextafter(0.2, 1.0), 1.0), (0.2001, 0.0)):
        below = np.array([[0.0, -behind]])
        asking = constant_head(below, values, math.inf, 0.1)
        assert (_moved(asking, below, values) == moves).all()


@pytest.mark.parametrize("skeleton", [True, False])
def test_fragile_heads_deviate_by_the_sum_of_their_values(skeleton):
    """All tie, and rounding may break it: every value may come or go, added up from above."""
    rng = RNG(9)
    values = mild(rng, 100, 7)
    asking = constant_head(np.zeros((100, 7)), values, math.inf, 0.1, against_skeleton=skeleton)
    found = mixed_by_constants(asking, [HeadFlow() for _ in range(100)])
    assert (exact(found.deviation.hi[:, 0]) >= exact(values).sum(axis=1)).all()
    assert (found.deviation.hi[:, 0] <= values.sum(axis=1) * (1 + 1e-13)).all()


def test_a_soft_constant_head_deviates_from_its_skeleton_by_what_leaks():
    """Scores 0 and -1: the loser has 1/(1 + e) of the weight, and none in the skeleton."""
    place = place_of([[1.0, 5.0], [0.0, 7.0]])
    group = group_of([[[0.0, 1.0 / 5.0]]], [[[1.0, 0.0]]], [[[0.0, 1.0]]])
    flows = [HeadFlow()]
    asking = asked(place, group, against_skeleton=True)
    share = 1.0 / (1.0 + math.e)
    for d in (0.0, 0.1):
        found = mixed_by_constants(replace(asking, logit_stray=np.array([d])), flows)
        moved = share + share * (1 - share) * math.expm1(2 * d)
        assert is_near(found.deviation.hi[0, 0], 12.0 * moved, 1e-9)
    itself = replace(asking, against_skeleton=False, logit_stray=np.array([0.1]))
    found = mixed_by_constants(itself, flows)
    assert is_near(found.deviation.hi[0, 0], 12.0 * share * (1 - share) * math.expm1(0.2), 1e-9)
    assert flows[0].gap == 1.0


# ---- contests ----------------------------------------------------------------------------------


def contest_of(heads, seen, **given):
    none = np.zeros(heads)
    filled = {"shortfall": none, "stray": none, "lift": none, "blur": none}
    filled["lipschitz"] = np.ones(heads)
    given = {"lift": given.get("stray", 0.0)} | given
    filled |= {name: np.broadcast_to(value, (heads,)) for name, value in given.items()}
    return Contest(np.ones(heads, bool), np.ones((heads, seen), bool), **filled)


def test_maxima_fall_short_by_all_that_is_charged():
    rng = RNG(10)
    shortfall, stray, lipschitz = mild(rng, 300), mild(rng, 300), mild(rng, 300)
    contest = contest_of(300, 2, shortfall=shortfall, stray=stray, lipschitz=lipschitz)
    values = place_of(np.zeros((300, 2)))
    found = maximum(values, contest, True).deviation
    assert (exact(-found.lo) >= exact(shortfall) + exact(stray)).all()
    assert np.array_equal(found.hi, stray)
    assert is_near(-found.lo, shortfall + stray, 1e-13)
    off = np.repeat(mild(rng, 300)[:, None], 2, axis=1)
    carried = maximum(place_of(np.zeros((300, 2)), off), contest, True).deviation
    assert is_near(carried.hi, off[:, 0] + stray, 1e-13)
    assert is_near(-carried.lo, off[:, 0] + shortfall + stray, 1e-13)
    moved = maximum(place_of(np.zeros((300, 2)), off), contest, False).deviation
    assert (exact(moved.hi) >= exact(off[:, 0]) * exact(lipschitz) + exact(stray)).all()
    assert is_near(moved.hi, off[:, 0] * lipschitz + stray, 1e-13)


def race(monkeypatch, values, handicap, slope=1.0, coldness=1.0, stray=0.0, skeleton=True):
    """A contest whose slopes and handicaps are given, instead of read from the weights."""
    heads, seen = values.shape
    group = group_of(*(np.ones((heads, 1, 1)) for _ in range(3)), coldness=coldness)
    asking = asked(place_of(np.ones((seen, 1)), wide=0.5), group, against_skeleton=skeleton)
    slopes = np.broadcast_to(np.asarray(slope, dtype=float), (heads,))
    monkeypatch.setattr(contests, "_scored_by_value", lambda _: (slopes, handicap))
    stray = np.broadcast_to(np.asarray(stray, dtype=float), (heads,))
    return find_contest(replace(asking, values=place_of(values[:, None, :]), logit_stray=stray))


def test_the_shortfall_of_a_contest_is_rounded_up(monkeypatch):
    rng = RNG(11)
    slope, cold = mild(rng, 300), mild(rng, 300)
    values = np.zeros((300, 3))
    found = race(monkeypatch, values, Interval.point(values), slope, cold)
    gap = Fraction(softmax_gap(3))
    assert found.holds.all()
    assert (exact(found.shortfall) >= gap / (exact(slope) * exact(cold))).all()
    assert is_near(found.shortfall, float(gap) / (slope * cold), 1e-14)


def test_handicaps_that_nearly_agree_blur_the_maximum(monkeypatch):
    rng = RNG(12)
    low = -mild(rng, 300, 2) * 1e-11
    high = mild(rng, 300, 2) * 1e-11
    found = race(monkeypatch, np.ones((300, 2)), Interval(low, high), coldness=3.0)
    truth = exact(high.max(axis=1)) - exact(low.min(axis=1))
    assert (exact(found.blur) >= truth).all()
    assert is_near(found.blur, truth.astype(float), 1e-13)
    assert is_near(found.stray, 3 * found.blur, 1e-12)  # itself, and twice in the logits
    doubt = race(monkeypatch, np.ones((300, 2)), Interval(low, high), coldness=3.0, stray=0.6)
    assert is_near(doubt.stray, 3 * found.blur + 0.4, 1e-12)
    soft = race(
        monkeypatch, np.ones((300, 2)), Interval(low, high), coldness=3.0, stray=0.6, skeleton=False
    )
    perturbed = 3 * found.blur + 0.6
    assert is_near(soft.stray, 2 * perturbed * (softmax_gap(2) + perturbed) / 3, 1e-12)


def test_what_leaks_and_what_is_blurred_add_up_from_above(monkeypatch):
    """Doubts of one size: their sum is rounded, and the bound is not below it."""
    rng = RNG(13)
    for cold in (1.0, 2.0):
        stray = mild(rng, 300)
        values = np.zeros((300, 2))
        handicap = Interval(-mild(rng, 300, 2) * 1e-13, np.zeros((300, 2)))
        scale = np.ones((300, 2))
        found = race(monkeypatch, values + scale, handicap, coldness=cold, stray=stray)
        blur = exact(found.blur)
        truth = 2 * (blur * Fraction(cold) + exact(stray)) / Fraction(cold) + blur
        assert (exact(found.stray) >= truth).all()


def test_losers_of_a_contest_leak_by_their_distance(monkeypatch):
    """A loser 50 to 60 behind, less four times the doubt, of a spread of as much."""
    rng = RNG(14)
    behind, slope, cold = rng.uniform(50.0, 60.0, 200), mild(rng, 200), mild(rng, 200)
    stray = rng.uniform(0.0, 1.0, 200) * 1e-3
    values = np.stack([behind, np.zeros(200)], axis=1)
    found = race(monkeypatch, values, Interval.point(np.zeros((200, 2))), slope, cold + 1.0, stray)
    beaten = ~found.contender[:, 1]
    assert beaten.sum() > 100
    with precision(200):
        for h in np.flatnonzero(beaten):
            beta = arb(float(slope[h])) * arb(float(cold[h] + 1.0))
            d = arb(float(stray[h]))
            leak = (4 * d - arb(float(behind[h])) * beta).exp() * arb(float(behind[h]))
            truth = leak + 2 * d / beta
            assert not arb(float(found.stray[h])) < truth
            assert arb(float(found.stray[h])) < truth * (1 + arb(1e-11))
    sure = race(monkeypatch, values, Interval.point(np.zeros((200, 2))), slope, cold + 1.0)
    beta = slope * (cold + 1.0)
    leak = np.exp(-behind * beta) * behind * (1 - 1e-12)
    assert is_near(sure.stray[beaten], leak[beaten], 1e-11)
    hard = race(monkeypatch, values, Interval.point(np.zeros((200, 2))), slope, math.inf, stray)
    assert is_near(hard.stray, 2 * stray / slope, 1e-12)
    assert not hard.shortfall.any()


def test_a_handicap_within_the_doubt_does_not_decide(monkeypatch):
    values = np.zeros((1, 2))
    for doubt, holds in ((0.2, True), (0.25, False), (0.3, False)):
        handicap = Interval.point(np.array([[0.0, -1.0]]))
        found = race(monkeypatch, values, handicap, stray=doubt)
        assert found.holds[0] == holds


# ---- contests that are read from weights --------------------------------------------------------


def handicaps(query, key, value, place, t=0):
    """The handicaps of one head, by the weights."""
    asking = asked(place, group_of([query], [key], [value]), t=t)
    slope, found = contests._scored_by_value(asking)
    assert slope[0] > 0.0
    return found


def sink_place(x, constants):
    """Token 0 holds x and constants, token 1 only constants."""
    first, second = [x, *constants], [0.0, *constants]
    low, high = np.array([first, second]), np.array([first, second])
    low[0, 0] *= 0.5
    return Place(Interval(low, high), Deviation.of(Interval.point(np.zeros((2, len(first))))))


def test_handicaps_of_constant_queries_are_blurred_by_both_roundings():
    """By the residual, where the slope is no power of two, and by a query that is rounded."""
    rounded = handicaps([[0.0, 1.0]], [[0.3, 0.0]], [[0.1, 0.0]], sink_place(1.0, [1.0]))
    assert rounded.hi.max() > 0.0
    inexact = handicaps([[0.0, 0.1]], [[1.0, 0.0]], [[1.0, 0.0]], sink_place(1.0, [0.7]))
    assert inexact.hi.max() > 0.0
    exactly = handicaps([[0.0, 1.0]], [[2.0, 0.0]], [[1.0, 0.0]], sink_place(1.0, [1.0]))
    assert not exactly.hi.any()
    tiny = handicaps([[0.0, 1.0]], [[3e-160, 0.0]], [[1e-160, 0.0]], sink_place(1e-170, [1.0]))
    assert tiny.hi.max() > 0.0


def keyed_place(x):
    """Token 0 holds x, and codes 1 and 0; token 1 a sink with codes 0 and 1."""
    low = np.array([[x / 2, 1.0], [0.0, 0.0]])
    high = np.array([[x, 1.0], [0.0, 0.0]])
    return Place(Interval(low, high), Deviation.of(Interval.point(np.zeros((2, 2)))))


def test_handicaps_of_constant_keys_are_blurred_by_both_roundings():
    """The asking token's own query against constant keys: a ReLU over itself and a sink."""
    rounded = handicaps([[0.3, 0.0]], [[0.0, 1.0]], [[0.1, 0.0]], keyed_place(1.0))
    assert rounded.hi[0, 1] > 0.0
    inexact = handicaps([[1.0, 0.0]], [[0.0, 0.1]], [[1.0, 0.0]], keyed_place(1.0))
    assert inexact.hi[0, 1] > 0.0
    exactly = handicaps([[2.0, 0.0]], [[0.0, 1.0]], [[1.0, 0.0]], keyed_place(1.0))
    assert not exactly.hi.any()
    tiny = handicaps([[3e-160, 0.0]], [[0.0, 1.0]], [[1e-160, 0.0]], keyed_place(1e-170))
    assert tiny.hi[0, 1] > 0.0


def test_products_of_tiny_weights_are_rounded_by_more_than_nothing():
    small = np.full((1, 1, 1), 1e-200)
    one = np.ones((1, 1, 1))
    for matrix, known, other in (
        (small, np.full(1, 1e-200), one),
        (small, np.ones(1), small),
    ):
        factor = np.full((1, 1, 1), 3.0)
        assert contests._product_error(factor, matrix, known, other)[0, 0] > 0.0


# ---- heads that write alone --------------------------------------------------------------------


def alone_head(weight, value=1.0, off=0.0, mixed=0.0, **charged):
    """x + w max(v x, 0) at token 0, x in [-1, 1], the only writer of its coordinate."""
    low, high = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])
    deviation = Interval(np.array([[-off, 0.0], [0.0, 0.0]]), np.array([[off, 0.0], [0.0, 0.0]]))
    place = Place(Interval(low, high), Deviation.of(deviation))
    output = np.array([[[weight], [0.0]]])
    group = group_of([[[value, 0.0]]], [[[0.0, 1.0]]], [[[value, 0.0]]], output)
    skeleton = charged.pop("against_skeleton", True)
    asking = asked(place, group, against_skeleton=skeleton)
    asking = replace(asking, value_stray=np.array([mixed]))
    found = alone(asking, contest_of(1, 2, **charged), np.array([1, 1]))
    assert found.rows.tolist() == [0]
    return found.place[0]


def test_charges_of_a_lone_writer_are_scaled_by_its_weight():
    none = alone_head(2.0)
    assert not none.deviation.magnitude.any()
    assert is_near(-alone_head(2.0, shortfall=0.25).deviation.lo, 0.5, 1e-12)
    assert is_near(alone_head(2.0, stray=0.25).deviation.hi, 0.5, 1e-12)
    assert alone_head(2.0, blur=0.25).range.lo <= -1.5
    assert is_near(alone_head(-2.0, shortfall=0.25).deviation.hi, 0.5, 1e-12)


@pytest.mark.parametrize("name", ["shortfall", "blur", "stray", "mixed"])
def test_charges_that_underflow_are_not_nothing(name):
    plain, found = alone_head(1e-200), alone_head(1e-200, **{name: 1e-200})
    if name == "blur":
        assert found.range.lo < plain.range.lo
    else:
        assert found.deviation.lo < plain.deviation.lo


def test_a_lone_writer_carries_the_deviations_of_both():
    """x is off by 1/4: at the token itself what is written by (1 + w v) times as much."""
    found = alone_head(2.0, off=0.25).deviation
    assert is_near(found.hi, 0.75, 1e-12)
    other = place_of([[0.0, 1.0], [0.0, 0.0]], [[0.25, 0.0], [0.5, 0.0]], wide=0.0)
    group = group_of([[[1.0, 0.0]]], [[[0.0, 1.0]]], [[[1.0, 0.0]]], [[[2.0], [0.0]]])
    asking = asked(other, group, against_skeleton=True)
    found = alone(asking, contest_of(1, 2), np.array([1, 1])).place
    assert is_near(found.deviation.hi, [0.25 + 2.0 * 0.5], 1e-12)


def test_own_values_of_a_lone_writer_are_rounded():
    """1 + w v with a rounded product: the exact one lies within, unless nothing is rounded."""
    rng = RNG(15)
    for weight, value in mild(rng, 100, 2):
        found = alone_head(float(weight), float(value))
        most = 1 + Fraction(weight) * Fraction(value)
        assert Fraction(float(found.range.hi)) >= most
        assert found.deviation.hi >= 2 * stray_of(2, float(most), FLOAT64)
        nearly = alone_head(-1.0 / float(value), float(value))  # all but nothing is left of x
        left = abs(1 - Fraction(1.0 / float(value)) * Fraction(value))
        assert Fraction(float(nearly.range.hi)) >= left
    assert not alone_head(2.0, 0.5).deviation.magnitude.any()


def bent(weight, slope, constant, **charged):
    """x + w max(a x + b, 0) on [-1, 1] as two lines: the token holds b, too."""
    low, high = np.array([[-1.0, constant], [0.0, 0.0]]), np.array([[1.0, constant], [0.0, 0.0]])
    place = Place(Interval(low, high), Deviation.of(Interval.point(np.zeros((2, 2)))))
    row = [[[slope, 1.0]]]
    group = group_of(row, [[[0.0, 1.0]]], row, [[[weight], [0.0]]])
    found = alone(asked(place, group), contest_of(1, 2, **charged), np.array([1, 1]))
    return found.place.range[0]


def test_two_lines_reach_the_corner_between_floats():
    """Where x + w max(a x + b, 0) bends, it is -b/a, which is no float."""
    rng = RNG(16)
    for slope, constant in np.stack([mild(rng, 200), mild(rng, 200) / 4], axis=1):
        corner = -Fraction(constant) / Fraction(slope)
        down = bent(-4.0, float(slope), float(constant))
        assert Fraction(float(down.hi)) >= corner  # a roof
        assert float(down.hi) <= float(corner) + 1e-14
    for short, stray in ((0.25, 0.0), (0.0, 0.25), (0.25, 0.25)):
        roof = bent(-4.0, 1.0, 0.125, shortfall=short, stray=stray)
        assert is_near(roof.hi + 0.125, 4 * (short + stray), 1e-9)
        assert is_near(
            -0.125 - 4 * 0.0 - bent(4.0, 1.0, 0.125, shortfall=short, stray=stray).lo,
            4 * (short + stray) + 0.875,
            1e-9,
        )


# ---- groups ------------------------------------------------------------------------------------


def grouped(place, group, format=FLOAT64, noises=None):
    writers = (group.output != 0).sum(axis=(0, 2))
    everyone = range(place.range.shape[0])
    return follow_group(
        place, group, group.coldness, writers, format, noises, True, everyone, everyone
    )


def test_only_soft_maxima_make_noises():
    low, high = np.array([[-1.0, 1.0], [0.0, 0.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])
    place = Place(Interval(low, high), Deviation.of(Interval.point(np.zeros((2, 2)))))
    for coldness, made in ((math.inf, 0), (8.0, 1)):
        group = group_of([[[1.0, 0.0]]], [[[0.0, 1.0]]], [[[1.0, 0.0]]], [[[1.0], [0.0]]], coldness)
        counter = NoiseCounter(4)
        found = grouped(place, group, noises=counter)
        assert "contest" in found.heads[0].lemmas
        assert (counter.taken > 0) == bool(made)


def test_tiny_outputs_have_a_size():
    place = place_of([[1e-200]])
    group = group_of([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1e-200]]])
    assert grouped(place, group).size[0, 0] > 0.0


def test_faint_outputs_are_charged():
    place = place_of([[2.0**15]])
    group = group_of([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[1.5 * FLOAT16.smallest]]], math.inf)
    found = grouped(place, group, FLOAT16).change.deviation
    held = group_of([[[1.0]]], [[[1.0]]], [[[1.0]]], [[[FLOAT16.smallest]]], math.inf)
    without = grouped(place, held, FLOAT16).change.deviation
    assert found.hi[0, 0] - 1.5 * without.hi[0, 0] >= FLOAT16.smallest * 2.0**15 * (1 - 1e-9)


# ---- doors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused_at_the_doors(bad):
    for low, high in (([-1.0, -bad], [1.0, 1.0]), ([-1.0, 0.0], [bad, 1.0])):
        with pytest.raises(hm.DomainError, match="unbounded"):
            hm.Box(low, high)
    with pytest.raises(hm.ShapeError, match="finite"):
        Univariate(0, "power", 1, bad)


def test_a_holding_adds_its_constants():
    holding = Holding(0, 0, [1, 0], 0, [0], 0.0, np.array([[2.0, 1.0]]), np.array([0.5]))
    assert holding.read(np.array([3.0, 4.0])).tolist() == [11.5]
