"""What an answer depends on: tokens by the shape of the layers, coordinates by their weights."""

from __future__ import annotations

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker._dependence import coordinates_needed, tokens_asking, tokens_read
from hardmax.testing import Kind, random_vector_transformer


def dense(*, causal: bool) -> hm.Attention:
    """A head of ones: everything that a token sees has a say."""
    row, column = np.ones((1, 2)), np.ones((2, 1))
    return hm.Attention([hm.Head(row, row, row, column, hm.Hardmax(), causal=causal)])


UNITS = hm.FeedForward(np.ones((1, 2)), [0.0], np.ones((2, 1)), [0.0, 0.0])


@pytest.mark.parametrize(
    ("layers", "asking"),
    [
        ([UNITS], [range(2, 3)]),
        ([dense(causal=True), UNITS], [range(2, 3), range(2, 3)]),
        ([UNITS, dense(causal=True)], [range(3), range(2, 3)]),
        ([UNITS, dense(causal=False), UNITS], [range(4), range(2, 3), range(2, 3)]),
        ([dense(causal=True), dense(causal=False)], [range(4), range(2, 3)]),
        ([dense(causal=False), dense(causal=True)], [range(3), range(2, 3)]),
    ],
)
def test_where_no_weight_is_0_both_say_the_same(layers, asking):
    """Of four tokens the third is read."""
    readout = hm.ReadOut(np.ones((1, 2)), [0.0], 2)
    source = hm.VectorInput(np.ones((4, 2, 1)), np.zeros((4, 2)))
    model = hm.Transformer(source, layers, readout)
    read = tokens_read(model, 4)
    assert read == [2]
    assert tokens_asking(model.sublayers, read, 4) == asking
    needs = coordinates_needed(model.sublayers, readout, read, 4)
    found = [np.flatnonzero(need.any(axis=0)).tolist() for need in needs[1:]]
    assert found == [list(tokens) for tokens in asking]


@pytest.mark.parametrize("seed", range(20))
def test_a_coordinate_that_matters_belongs_to_a_token_that_asks(seed):
    rng = np.random.default_rng(seed)
    model = random_vector_transformer(rng, 2, 1, Kind(coarse=True, hard=0.5, continuous=0.4))
    read = tokens_read(model, model.tokens)
    needs = coordinates_needed(model.sublayers, model.readout, read, model.tokens)
    asked = tokens_asking(model.sublayers, read, model.tokens)
    for need, asking in zip(needs[1:], asked, strict=True):
        assert set(np.flatnonzero(need.any(axis=0))) <= set(asking)


def test_a_token_that_a_short_word_does_not_have_is_not_read():
    source = hm.SequenceInput("ab", np.ones((2, 2)), np.zeros((4, 2)), np.ones(2))
    each = hm.Transformer(source, [UNITS], hm.ReadOut(np.ones((1, 2)), [0.0], None))
    assert tokens_read(each, 3) == [1, 2]  # the start token has no row
    third = hm.Transformer(source, [UNITS], hm.ReadOut(np.ones((1, 2)), [0.0], 2))
    assert (tokens_read(third, 4), tokens_read(third, 2)) == ([2], [])
    last = hm.Transformer(source, [UNITS], hm.ReadOut(np.ones((1, 2)), [0.0], -1))
    assert tokens_read(last, 4) == [3]
