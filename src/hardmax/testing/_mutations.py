"""Corrupted models: what a checker must never call proved, once their claim is broken.

A mutation takes a construction and a random generator and returns a corrupted copy with a label,
or None where there is nothing to corrupt. All values are checked at birth, so every mutant is a
well-formed construction: only its claim, or its witness, may be false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.core import Construction
from hardmax.testing import _mutations_claims as claims
from hardmax.testing import _mutations_weights as weights

HOLE = "target with a hole"
Mutation = Callable[[Construction, np.random.Generator], tuple[Construction, str] | None]


@dataclass(frozen=True, eq=False)
class Mutant:
    """A corrupted construction, what was done to it, and whether only its witness was touched."""

    kind: str
    label: str
    construction: Construction

    @property
    def touches_only_the_witness(self) -> bool:
        return self.kind.startswith("witness")

    def __repr__(self) -> str:
        return f"Mutant({self.kind}: {self.label})"


def _then_refitted(*first: Mutation) -> Mutation:
    """A corrupted model whose claim follows it, but for a hair."""

    def mutation(
        construction: Construction, rng: np.random.Generator
    ) -> tuple[Construction, str] | None:
        once = first[rng.integers(len(first))](construction, rng)
        twice = None if once is None else claims.claim_refitted(once[0], rng)
        if once is None or twice is None:
            return None
        return twice[0], f"{once[1]}; {twice[1]}"

    return mutation


def _two_at_once(
    construction: Construction, rng: np.random.Generator
) -> tuple[Construction, str] | None:
    """Two corruptions of any kind, one after the other."""
    kinds = [kind for kind in MUTATIONS if kind not in ("two at once", HOLE)]
    labels = []
    for kind in rng.choice(kinds, 2):
        changed = MUTATIONS[str(kind)](construction, rng)
        if changed is None:
            return None
        construction, label = changed
        labels.append(label)
    return construction, "; ".join(labels)


MUTATIONS: Mapping[str, Mutation] = {
    "weight nudged": weights.weight_nudged,
    "weight replaced": weights.weight_replaced,
    "sign flipped": weights.sign_flipped,
    "bias dropped": weights.bias_dropped,
    "query or key row zeroed": weights.row_zeroed,
    "heads swapped": weights.heads_swapped,
    "coldness changed": weights.coldness_changed,
    "weighting changed": weights.weighting_changed,
    "causal flag flipped": weights.causal_flipped,
    "position bias changed": weights.position_bias_changed,
    "layer dropped": weights.layer_dropped,
    "claim tightened": claims.claim_tightened,
    "claim just below": claims.claim_refitted,
    "corrupted, claim just below": _then_refitted(
        weights.weight_nudged,
        weights.weight_replaced,
        weights.sign_flipped,
        weights.coldness_changed,
        weights.position_bias_changed,
        weights.heads_swapped,
    ),
    "domain widened": claims.domain_widened,
    "target altered": claims.target_altered,
    "logits blown up": weights.logits_blown_up,
    "head rescaled": weights.head_rescaled,
    "token added": weights.token_added,
    "blown up, claim just below": _then_refitted(
        weights.logits_blown_up, weights.head_rescaled, weights.token_added
    ),
    HOLE: claims.target_with_a_hole,
    "two at once": _two_at_once,
    "witness: error shrunk": claims.witness_error_shrunk,
    "witness: component exchanged": claims.witness_component_exchanged,
    "witness: coordinate changed": claims.witness_coordinate_changed,
    "witness: weights changed": claims.witness_weights_changed,
    "witness: value changed": claims.witness_value_changed,
    "witness: place changed": claims.witness_place_changed,
}


def mutate(construction: Construction, kind: str, seed: int) -> Mutant | None:
    """The mutant of a kind that the seed chooses; None where that kind does not apply."""
    rng = np.random.default_rng([seed, *kind.encode()])
    try:
        changed = MUTATIONS[kind](construction, rng)
    except HardmaxError:  # no longer a construction: nothing that a file could hold
        return None
    return None if changed is None else Mutant(kind, changed[1], changed[0])
