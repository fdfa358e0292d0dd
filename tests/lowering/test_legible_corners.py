"""Corners of legible models: constants, items that nothing can hold, runs of turned models."""

from __future__ import annotations

import itertools

import pytest

import hardmax as hm
from hardmax.testing import random_program


def legible(seed: int) -> hm.Construction:
    drawn = random_program(seed, longest=4)
    words = drawn.words
    return hm.compile(drawn.program, alphabet=words.alphabet, length=words.longest, route="legible")


def test_a_function_of_constants_alone_is_drawn() -> None:
    """Of no source there are no signs to be tried."""
    assert hm.certify(legible(54)).verdict is hm.Verdict.PROVED


def test_a_program_that_holds_nothing_is_drawn() -> None:
    always = hm.program(lambda s: hm.programs.apply(lambda _: 1, s.tokens))
    model = hm.compile(always, alphabet="ab", length=2, route="legible")
    assert model("ab") == [1, 1]


def test_items_of_which_nothing_is_proved_are_refused() -> None:
    """The count is of a relation that always holds: for 0 the checker has no case."""
    model = legible(164)
    word = [model.claim.domain.alphabet[0]] * model.claim.domain.longest
    with pytest.raises(hm.RequestError, match="'count' cannot hold 0; it holds 1"):
        hm.intervene(model, word, {"count": {0: 0}})
    hm.intervene(model, word, {"count": {0: 1}})


def test_interchanges_of_turned_models_are_those_of_plain_ones() -> None:
    """Steps are read and written through the projections; coordinates would hold something else."""
    text = "back = length - 1 - index; tokens.at(back)"
    plain = hm.compile(hm.programs.parse_program(text), alphabet="ab", length=3, route="legible")
    turned = hm.disguise(plain, rotate=3, seed=1)
    for word, other in itertools.product(("aba", "bba"), ("ab", "bab")):
        for step in ("back", "tokens"):
            wanted = hm.interchange(plain, word, other, {step: [0, 1]})
            assert hm.interchange(turned, word, other, {step: [0, 1]}) == wanted
