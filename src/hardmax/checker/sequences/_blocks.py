"""Legible models: their circuit is proved block by block, in one float format after another."""

from __future__ import annotations

import math

from hardmax.checker.blocks import BlockProof, Holdings, Unproved, assumptions, statements
from hardmax.checker.sequences._edges import check_edges
from hardmax.checker.sequences._value_sets import bound_of_empty_word
from hardmax.checker.sequences._word_search import WordSearch
from hardmax.numerics import FORMATS


def bound_blocks(search: WordSearch) -> None:
    """Bound the error by the circuit, which is a claim of its own: without it nothing is proved."""
    search.method = "blocks"
    construction, steps = search.construction, search.steps
    circuit = construction.circuit
    assert circuit is not None
    if steps is None:
        search.advice = search.advice or "The target does not say its steps()."
        return
    search.formats = dict.fromkeys(FORMATS, math.inf)
    held: dict[str, Holdings] = {}
    left = 0.0
    try:
        proof = BlockProof(construction.transformer, circuit, steps, search.words, search.ids)
        left = proof.left
        for name in FORMATS:
            _bound_in(name, proof, search, held)
            if "float64" not in held:
                break
        if held:
            edges = check_edges(search, proof.asked, left)
            search.statements = (*statements(held, circuit, left), edges)
            search.assumptions = assumptions(held)
    except Unproved as reason:
        search.formats = dict.fromkeys(FORMATS, math.inf)
        _tell_why(search, reason)


def _bound_in(name: str, proof: BlockProof, search: WordSearch, held: dict[str, Holdings]) -> None:
    """The bound in one format; a coarse one in which nothing follows is no matter to the others."""
    format = FORMATS[name].sheltered
    if search.clock.is_spent:
        raise Unproved("The budget was spent. Raise it.")
    try:
        holdings = proof.bound(format, search.tell)
        found = proof.answers(holdings)
    except Unproved as reason:
        if name == "float64":
            _tell_why(search, reason)
        return
    if 0 in search.words.lengths:
        found = max(found, bound_of_empty_word(search, format))
    search.formats[name] = found
    if found <= search.claimed:
        held[name] = holdings


def _tell_why(search: WordSearch, reason: Unproved) -> None:
    search.advice = (
        f"Block by block: {reason} To check the answers alone, take the circuit away: "
        f"dataclasses.replace(model, circuit=None)."
    )
