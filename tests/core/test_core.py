"""The waist: values that check themselves, two evaluators that agree, text, fingerprint, bill."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hardmax as hm
from hardmax.analysis import follow, rounding_bound
from hardmax.core import (
    Affine,
    Holding,
    Maximum,
    Product,
    Share,
    Steps,
    Univariate,
    count_bill,
    evaluate,
    fingerprint,
    reference,
    to_text,
)


def random_head(rng, width, *, tokens, weighting, sparse):
    key, value = rng.integers(0, 3), rng.integers(1, 3)
    arrays = [rng.normal(size=s) for s in ((key, width), (key, width), (value, width))]
    arrays.append(rng.normal(size=(width, value)))
    if sparse:
        arrays = [np.where(rng.random(a.shape) < 0.3, a, 0.0) for a in arrays]
    bias = rng.normal(size=(tokens, tokens)) if rng.random() < 0.3 else None
    return hm.Head(*arrays, weighting, bool(rng.random() < 0.5), bias)


def random_transformer(seed, *, sequence=False, hard=None):
    rng = np.random.default_rng(seed)
    width, tokens = int(rng.integers(1, 6)), int(rng.integers(1, 5))
    sparse = rng.random() < 0.5

    def weighting():
        is_hard = rng.random() < 0.5 if hard is None else hard
        return hm.Hardmax() if is_hard else hm.Softmax(float(rng.uniform(0.1, 30)))

    sublayers = []
    for _ in range(rng.integers(0, 4)):
        if rng.random() < 0.6:
            heads = [
                random_head(rng, width, tokens=tokens, weighting=weighting(), sparse=sparse)
                for _ in range(rng.integers(1, 4))
            ]
            sublayers.append(hm.Attention(heads))
        else:
            hidden = int(rng.integers(1, 4))
            shapes = ((hidden, width), hidden, (width, hidden), width)
            sublayers.append(hm.FeedForward(*(rng.normal(size=s) for s in shapes)))
    outputs = int(rng.integers(1, 3))
    readout = [rng.normal(size=(outputs, width)), rng.normal(size=outputs)]
    if sequence:
        start = rng.normal(size=width) if tokens > 1 and rng.random() < 0.5 else None
        source = hm.SequenceInput(
            "abc", rng.normal(size=(3, width)), rng.normal(size=(tokens, width)), start
        )
        return hm.Transformer(source, sublayers, hm.ReadOut(*readout, token=None))
    inputs = int(rng.integers(1, 4))
    maps = rng.normal(size=(tokens, width, inputs)) * (rng.random((tokens, 1, 1)) < 0.7)
    source = hm.VectorInput(maps, rng.normal(size=(tokens, width)))
    token = int(rng.integers(-tokens, tokens))
    return hm.Transformer(source, sublayers, hm.ReadOut(*readout, token))


# ---- which tokens matter -------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_the_answer_is_a_function_of_the_tokens_that_matter(seed):
    """Behind k sublayers, a change of the other tokens' streams changes no digit of the answer."""
    model, rng = random_transformer(seed), np.random.default_rng(seed)
    whole = model.tokens * model.width
    maps = np.eye(whole).reshape(model.tokens, model.width, whole)
    stream = hm.VectorInput(maps, np.zeros((model.tokens, model.width)))  # the input is the stream
    for k, matter in enumerate(model.tokens_that_matter):
        rest = hm.Transformer(stream, model.sublayers[k:], model.readout)
        here = rng.normal(size=(model.tokens, model.width))
        there = rng.normal(size=(model.tokens, model.width))
        there[list(matter)] = here[list(matter)]
        assert reference(rest, here.ravel()) == reference(rest, there.ravel())


def test_every_token_that_matters_does():
    """Uniform heads read all that they see: a change of any token that matters shows."""
    one = np.ones((1, 1))
    nothing = np.zeros((0, 1))
    causal = hm.Head(nothing, nothing, one, one, hm.Hardmax(), causal=True)
    layers = [hm.Attention([causal]), hm.FeedForward(one, [0.0], one, [0.0])]
    stream = hm.VectorInput(np.eye(4).reshape(4, 1, 4), np.zeros((4, 1)))
    model = hm.Transformer(stream, layers, hm.ReadOut(one, [0.0], token=-2))
    assert model.tokens_that_matter == ((0, 1, 2), (2,), (2,))
    changed = [reference(model, row) != reference(model, np.zeros(4)) for row in np.eye(4)]
    assert changed == [True, True, True, False]
    both = replace(causal, causal=False)
    wide = hm.Transformer(stream, [hm.Attention([causal, both]), *layers], model.readout)
    assert wide.tokens_that_matter == ((0, 1, 2, 3), (0, 1, 2), (2,), (2,))


def test_an_answer_at_every_token_needs_every_token():
    model = next(
        one
        for one in (random_transformer(seed, sequence=True) for seed in range(99))
        if one.readout.token is None and one.tokens > 1 and one.sublayers
    )
    everyone = tuple(range(model.tokens))
    assert model.tokens_that_matter == (everyone,) * (len(model.sublayers) + 1)


def box_for(transformer):
    n = transformer.input.inputs
    return hm.Box(-np.ones(n), np.ones(n))


# --- the evaluators -----------------------------------------------------------------------------


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6))
def test_the_batched_evaluator_agrees_with_the_reference(seed):
    """Two float evaluations of one real function differ by at most twice its rounding bound."""
    transformer = random_transformer(seed, hard=False)
    box = box_for(transformer)
    points = box.sample(5, np.random.default_rng(seed))
    bound = 2 * rounding_bound(transformer, box)
    expected = np.array([reference(transformer, point) for point in points])
    assert (np.abs(evaluate(transformer, points) - expected) <= bound).all()
    assert (np.abs(evaluate(transformer, points[0]) - expected[0]) <= bound).all()


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6))
def test_hard_evaluators_agree_away_from_ties(seed):
    """Random scores do not tie, and 1e-9 is far below the gaps that 5 random points have."""
    transformer = random_transformer(seed, hard=True)
    points = box_for(transformer).sample(8, np.random.default_rng(seed))[4:]
    expected = [reference(transformer, point, Fraction) for point in points]
    scale = 1 + np.abs(np.array(expected, dtype=float)).max()
    got = evaluate(transformer, points)
    assert np.abs(got - np.array(expected, dtype=float)).max() <= 1e-9 * scale


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
def test_sequences_of_mixed_lengths_agree_with_the_reference(seed):
    transformer = random_transformer(seed, sequence=True, hard=False)
    rng = np.random.default_rng(seed)
    longest = transformer.input.longest
    batch = [rng.choice(list("abc"), n).tolist() for n in rng.integers(1, longest + 1, 6)]
    for sequence, got in zip(batch, evaluate(transformer, batch), strict=True):
        flow = follow(shortened(transformer, len(sequence)), None)
        bound = 2 * float(flow.answer.deviation.magnitude.max())
        expected = np.array(reference(transformer, sequence))
        assert got.shape == (len(sequence), transformer.outputs)
        assert np.abs(got - expected).max() <= bound
        assert np.abs(evaluate(transformer, "".join(sequence)) - expected).max() <= bound


def shortened(transformer, length):
    """The same Transformer for sequences of one length only."""
    source = transformer.input
    positions = source.positions[: length + (source.start is not None)]
    return hm.Transformer(
        replace(source, positions=positions), transformer.sublayers, transformer.readout
    )


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6))
def test_ranges_enclose_any_hard_transformer(seed):
    """Heads that no lowering made: whatever lemma applies, the range holds the exact value."""
    transformer = random_transformer(seed, hard=True)
    box = box_for(transformer)
    flow = follow(transformer, box, skeleton=transformer)
    for point in box.sample(4, np.random.default_rng(seed)):
        exact = reference(transformer, point, Fraction)
        assert flow.answer.range[:, 0].contains(np.array(exact, dtype=object)).all()


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 10**6))
def test_softening_deviations_enclose_any_transformer(seed):
    hard = random_transformer(seed, hard=True)
    rng = np.random.default_rng(seed)
    soft = hard.with_weightings(hm.Softmax(float(rng.uniform(0.5, 50))) for _ in hard.heads)
    box = box_for(hard)
    flow = follow(soft, box, skeleton=hard)
    for point in box.sample(4, rng):
        exact = reference(hard, point, Fraction)
        moved = [Fraction(a) - b for a, b in zip(reference(soft, point), exact, strict=True)]
        assert flow.answer.deviation[:, 0].contains(np.array(moved, dtype=object)).all()


def test_ties_are_shared_equally():
    """Two tokens tie, a third loses: the mean of the first two, exactly."""
    head = hm.Head(
        query=np.array([[0.0, 0.0, 1.0]]),
        key=np.array([[1.0, 0.0, 0.0]]),
        value=np.array([[0.0, 1.0, 0.0]]),
        output=np.array([[0.0], [0.0], [0.0]]) + np.array([[0.0], [1.0], [0.0]]),
    )
    offsets = np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 7.0, 1.0]])
    source = hm.VectorInput(np.zeros((3, 3, 1)), offsets)
    readout = hm.ReadOut(np.array([[0.0, 1.0, 0.0]]), np.zeros(1), 2)
    transformer = hm.Transformer(source, [hm.Attention([head])], readout)
    assert reference(transformer, [0], Fraction) == [7 + Fraction(1, 2)]
    assert evaluate(transformer, [0.0])[0] == 7.5


def test_a_softmax_has_no_rational_value():
    transformer = random_transformer(3, hard=False)
    while not transformer.heads:
        transformer = random_transformer(int(np.random.default_rng().integers(1e6)), hard=False)
    with pytest.raises(hm.SemanticsError, match="softmax has no rational value"):
        reference(transformer, [0] * transformer.input.inputs, Fraction)


# --- values check themselves --------------------------------------------------------------------

ROW = np.ones((1, 3))


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: hm.Head(ROW, np.ones((2, 3)), ROW, ROW.T), "query and key must have one shape"),
        (lambda: hm.Head(ROW, ROW, ROW, ROW), "needs value"),
        (lambda: hm.Head(ROW * np.nan, ROW, ROW, ROW.T), "must be finite"),
        (lambda: hm.Head(ROW, ROW, ROW, ROW.T, position_bias=ROW), "must be square"),
        (lambda: hm.Attention([]), "at least one head"),
        (lambda: hm.FeedForward(ROW, np.ones(2), ROW.T, np.ones(3)), "needs inner_bias"),
        (lambda: hm.VectorInput(np.ones((2, 3, 1)), np.ones((2, 2))), "offsets must have shape"),
        (lambda: hm.VectorInput(np.ones((0, 3, 1)), np.ones((0, 3))), "at least one token"),
        (lambda: hm.SequenceInput("aa", np.ones((2, 3)), ROW), "no symbol twice"),
        (lambda: hm.SequenceInput("ab", ROW, ROW), "rows for 2 symbols"),
        (lambda: hm.SequenceInput("a", ROW, np.ones((1, 2))), "positions must have width 3"),
        (lambda: hm.SequenceInput("a", ROW, ROW, np.ones(2)), "start must have shape"),
        (lambda: hm.ReadOut(ROW, np.ones(2)), "read-out bias"),
        (lambda: hm.Softmax(0.0), "finite coldness > 0"),
        (lambda: hm.Softmax(np.inf), "finite coldness > 0"),
        (lambda: hm.Box([0], [np.inf]), "unbounded"),
        (lambda: hm.Box([1], [0]), "inverted in coordinate 0"),
        (lambda: hm.Box([0, 0], [1]), "one length"),
        (lambda: hm.Box([], []), "one length"),
        (lambda: hm.Box.parse("[0,1"), "could not be read"),
        (lambda: hm.Box.parse("[0,one]"), "could not be read"),
        (lambda: hm.Box.parse("[0,inf]"), "unbounded"),
        (lambda: hm.Box.of((0, 1), 2) and hm.Box.of(hm.Box([0], [1]), 2), "has 2 inputs"),
        (lambda: hm.Box.of(5, 2), "must be hm.Box"),
        (lambda: hm.Box.of(([-1, -1, -1], [1, 1, 1]), 3), "must be hm.Box"),
        (lambda: hm.Box.of([(-1, 1)], 2), "has 2 inputs"),
        (lambda: hm.Box.parse("[1_0,20]"), "could not be read"),
        (lambda: hm.Box.parse("[nan,1]"), "could not be read"),
        (lambda: hm.Box.parse("[-1,1]^0"), "could not be read"),
        (lambda: one_relu()(np.array([1j])), "array of real numbers"),
        (lambda: one_relu()(y=1.0), "by their names x0"),
        (lambda: Share("rounding", "here", -1.0), "must be finite and >= 0"),
        (lambda: Holding(0, 0, [0, 1], 0, [0], 0.0), "coordinates but"),
        (lambda: Holding(0, 0, [0], 0, [0], -1.0), "must be >= 0"),
        (lambda: Holding(0, 0, [0], 0, [-1], 0.0), "no component"),
        (lambda: Holding(0, 0, [1.7], 0, [0], 0.0), "whole numbers"),
        (lambda: hm.Box([0], [10**400]), "two lists of numbers"),
        (lambda: hm.Softmax(10**400), "finite coldness > 0"),
        (lambda: Product((0,), [[0, -1]]), "pairs of components"),
        (lambda: Maximum((0,), np.zeros((0, 2))), "none of its rows empty"),
        (lambda: Affine((0,), ROW, np.ones(2)), "affine step"),
        (lambda: Maximum((0,), [[-1]]), "none of its rows empty"),
        (lambda: Univariate((0,), "foo", 1), "no function 'foo'"),
        (lambda: Product((0,), [[0, 1, 2]]), "pairs of components"),
        (lambda: Steps(2, [Affine((0,), ROW, np.ones(1))]), "does not fit"),
        (lambda: Steps(3, [Affine((1,), ROW, np.ones(1))]), "not there yet"),
    ],
)
def test_bad_values_are_refused_in_one_sentence(make, match):
    with pytest.raises(hm.HardmaxError, match=match) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_transformers_check_how_parts_fit():
    source = hm.VectorInput(np.ones((2, 3, 1)), np.ones((2, 3)))
    readout = hm.ReadOut(ROW, np.zeros(1))
    wide = hm.FeedForward(np.ones((1, 4)), np.ones(1), np.ones((4, 1)), np.ones(4))
    short = hm.Head(ROW, ROW, ROW, ROW.T, position_bias=np.zeros((1, 1)))
    for sublayers, out, match in [
        ([wide], readout, "Sublayer 0 has width 4"),
        ([], hm.ReadOut(np.ones((1, 4)), np.zeros(1)), "reads width 4"),
        ([], hm.ReadOut(ROW, np.zeros(1), 2), "reads token 2 of 2"),
        ([], hm.ReadOut(ROW, np.zeros(1), None), "name the token"),
        ([hm.Attention([short])], readout, "covers 1 positions"),
        (["layer"], readout, "must be Attention, FeedForward or GatedFeedForward"),
    ]:
        with pytest.raises(hm.ShapeError, match=match):
            hm.Transformer(source, sublayers, out)
    with pytest.raises(hm.ShapeError, match="needs 1 numbers in a row"):
        evaluate(hm.Transformer(source, [], readout), [1.0, 2.0])
    with pytest.raises(hm.ShapeError, match="must be finite"):
        evaluate(hm.Transformer(source, [], readout), [np.nan])


def test_longer_and_foreign_sequences_are_refused():
    transformer = random_transformer(2, sequence=True)
    with pytest.raises(hm.RequestError, match="reads at most"):
        evaluate(transformer, "a" * 50)
    with pytest.raises(hm.RequestError, match="not in the alphabet"):
        evaluate(transformer, "z")


def test_arrays_are_copied_and_read_only():
    weights = np.ones((1, 3))
    head = hm.Head(weights, weights, weights, weights.T)
    weights[:] = 5.0
    assert (head.query == 1.0).all()
    with pytest.raises(ValueError, match="read-only"):
        head.query[0, 0] = 2.0
    assert replace(head, weighting=hm.Softmax(2.0)).coldness == 2.0


# --- text, fingerprint, steps, bill -------------------------------------------------------------

BY_HAND = """\
transformer: width 3, tokens 2
input: 1 reals
  token 0 map: 0
  token 0 offset: [2]=-0.5
  token 1 map: [0,0]=1
  token 1 offset: [2]=0.5
sublayer 0: attention, 1 heads
  head 0: hardmax, causal
    query (1, 3): [0,0]=1
    key (1, 3): [0,2]=1
    value (1, 3): [0,0]=1
    output (3, 1): [1,0]=1
read-out: token 1
  weights: [0,1]=1
  bias: 0
"""


def one_relu():
    network = hm.ReluNetwork([np.ones((1, 1)), np.ones((1, 1))], [np.zeros(1), np.zeros(1)])
    return hm.compile(network, on=(-1, 1), error=None, route="attention-only")


def test_the_canonical_text_is_readable_and_complete():
    assert to_text(one_relu().transformer) == BY_HAND


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_any_changed_weight_changes_text_and_fingerprint(seed, sequence):
    transformer = random_transformer(seed, sequence=sequence)
    again = random_transformer(seed, sequence=sequence)
    assert fingerprint(transformer) == fingerprint(again)
    assert to_text(transformer) == to_text(again)
    weights = transformer.readout.weights.copy()
    weights[0, 0] = np.nextafter(weights[0, 0], np.inf)
    readout = replace(transformer.readout, weights=weights)
    other = hm.Transformer(transformer.input, transformer.sublayers, readout)
    assert fingerprint(transformer) != fingerprint(other)
    assert to_text(transformer) != to_text(other)


def test_semantics_and_masks_are_part_of_the_fingerprint():
    base = one_relu().transformer
    (head,) = base.heads
    for change in ({"weighting": hm.Softmax(3.0)}, {"causal": False}):
        other = hm.Transformer(base.input, [hm.Attention([replace(head, **change)])], base.readout)
        assert fingerprint(other) != fingerprint(base)


def test_the_bill_counted_by_hand():
    bill = one_relu().bill
    assert (bill.layers, bill.heads, bill.width, bill.tokens) == (1, 1, 3, 2)
    assert (bill.key_width, bill.value_width, bill.hidden_width) == (1, 1, 0)
    # Two prompt vectors of 3, one map 3 x 1; query, key, value, output of 3; read-out 3 + 1.
    assert bill.parameters == bill.padded_parameters == 6 + 3 + 4 * 3 + 4
    assert bill.nonzero_parameters == 1 + 2 + 4 + 1
    assert bill.source_parameters == 4
    assert bill.largest_weight == 1.0
    assert bill.largest_logit == pytest.approx(0.5, rel=1e-12)
    assert bill.largest_logit >= 0.5
    assert bill.attention_memory == 8 * 4
    # Embedding 2*2*3, head 4 * 2 tokens * 3 * 2 projections + 4 pairs * 9, read-out 2*3.
    assert bill.flops == 12 + 48 + 36 + 6


def test_padding_takes_the_largest_of_everything():
    rng = np.random.default_rng(0)
    heads = [
        hm.Head(rng.normal(size=(k, 2)), rng.normal(size=(k, 2)), ROW[:, :2], ROW[:, :2].T)
        for k in (1, 2)
    ]
    layers = [
        hm.Attention(heads),
        hm.FeedForward(np.ones((3, 2)), np.ones(3), np.ones((2, 3)), np.ones(2)),
        hm.FeedForward(np.ones((1, 2)), np.ones(1), np.ones((2, 1)), np.ones(2)),
        hm.Attention(heads[:1]),
    ]
    source = hm.VectorInput(np.ones((1, 2, 1)), np.zeros((1, 2)))
    transformer = hm.Transformer(source, layers, hm.ReadOut(ROW[:, :2], np.zeros(1)))
    bill = count_bill(transformer, hm.Box([-1], [1]))
    ends = 2 + 2 + 3
    assert bill.layers == 3  # attention + feed-forward, feed-forward alone, attention alone
    assert bill.parameters == ends + (8 + 12 + 8) + (17 + 7)
    assert bill.padded_parameters == ends + 3 * (2 * 2 * 2 * (2 + 1) + 17)


def test_the_coldness_counts_as_weight_and_logit():
    soft = one_relu().transformer.with_weightings([hm.Softmax(40.0)])
    bill = count_bill(soft, hm.Box([-2], [1]))
    assert bill.largest_weight == 40.0
    assert bill.largest_logit == pytest.approx(40.0, rel=1e-12)


def test_steps_run_on_products_and_intervals():
    steps = Steps(2, [Product((0,), [[0, 1], [0, 0]]), Maximum((1, 0), [[0, 1, 3], [2, -1, -1]])])
    x = np.array([Fraction(3), Fraction(-2)], dtype=object)
    assert list(steps.values(x)[2]) == [9, 3]
    floats = steps.values(np.array([[3.0, 1.0], [-2.0, 5.0]]))[2]
    assert floats.tolist() == [[9.0, 5.0], [3.0, 1.0]]
    enclosure = steps.values(hm.Box([-1, 0], [1, 2]).interval)[2]
    assert enclosure.hi.tolist() == pytest.approx([2.0, 1.0])


def test_a_domain_may_be_one_pair_or_a_pair_per_coordinate():
    assert hm.Box.of((-1, 2), 2) == hm.Box([-1, -1], [2, 2])
    assert hm.Box.of([(-1, 1), (0, 2)], 2) == hm.Box([-1, 0], [1, 2])
    assert hm.Box.of("[0,1]", 1) == hm.Box([0], [1])


def test_inputs_can_be_named():
    construction = one_relu()
    assert construction(x0=0.5) == construction([0.5]) == 0.5
    assert list(construction(x0=Fraction(1, 3))) == [Fraction(1, 3)]


def test_boxes_print_as_they_are_written():
    box = hm.Box.parse("[-1,1]^3 x [0,2.5]")
    assert str(box) == "[-1,1]^3 x [0,2.5]"
    assert hm.Box.parse(str(box)) == box
    assert box == hm.Box([-1, -1, -1, 0], [1, 1, 1, 2.5])
    sample = box.sample(64, np.random.default_rng(0))
    assert ((sample >= box.low) & (sample <= box.high)).all()
    assert ((sample[:8] == box.low) | (sample[:8] == box.high)).all()


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Steps(1.0, []), "whole number of inputs"),
        (lambda: Steps(0, []), "whole number of inputs"),
        (lambda: Affine((0,), np.zeros((0, 2)), []), "rows and columns"),
        (lambda: Steps(1, [Affine(0, [[1.0]], [0.0])]), "tuple of the values"),
        (lambda: Steps(1, [Affine((), [[1.0]], [0.0])]), "tuple of the values"),
        (lambda: Steps(1, [Affine((0.0,), [[1.0]], [0.0])]), "whole numbers"),
        (lambda: Maximum((0,), [[0.7, 1.9]]), "table of components"),
        (lambda: Maximum((0,), [[0, -5]]), "filled by -1"),
    ],
)
def test_steps_check_themselves_at_birth(make, complaint):
    with pytest.raises(hm.ShapeError, match=complaint):
        make()
