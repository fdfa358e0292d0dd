"""Legible models whose masks and position biases are spoiled: none of those that err is proved."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

import hardmax as hm
from benchmarks._legible_mutants import (
    PROGRAMS,
    WORDS,
    breaks_a_word,
    breaks_an_intervention,
)
from hardmax.core import Attention, Head, Transformer

_TRIES = 20


@cache
def model_in(name: str, kind: str) -> hm.Construction:
    return hm.compile(PROGRAMS[name], on=WORDS, route="legible", positions=kind)


def mask_mutants(model: hm.Construction) -> Iterator[tuple[str, hm.Construction]]:
    """A mask taken away, put on, strict, shifted, reversed; an entry of a bias changed."""
    old = model.transformer
    for number, layer in enumerate(old.sublayers):
        if not isinstance(layer, Attention):
            continue
        for place, head in enumerate(layer.heads):
            for what, changed in _changed(head, old.tokens):
                heads = [*layer.heads[:place], changed, *layer.heads[place + 1 :]]
                layers = [*old.sublayers]
                layers[number] = Attention(heads)
                made = Transformer(old.input, layers, old.readout)
                yield f"a{number}.h{place} {what}", replace(model, transformer=made)


def _changed(head: Head, tokens: int) -> Iterator[tuple[str, Head]]:
    bias = head.position_bias
    before = np.where(np.tri(tokens, k=-1, dtype=bool), 0.0, -1.0)
    before[:, 0] = 0.0
    if head.causal:
        yield "away", replace(head, causal=False)
        yield "strict", replace(head, causal=False, position_bias=before)
        yield "reversed", replace(head, causal=False, position_bias=before.T)
    elif bias is None:
        yield "causal", replace(head, causal=True)
    if bias is not None:
        moved, turned = bias.copy(), bias.copy()
        moved[2:, 1:], turned[1:, 1:] = bias[1:-1, 1:], bias[1:, 1:].T
        yield "away", replace(head, position_bias=None)
        yield "shifted", replace(head, position_bias=moved)
        yield "reversed", replace(head, position_bias=turned)
        yield "(causal as well)", replace(head, causal=True)
        for at in np.ndindex(bias.shape):
            for step in (0.5, -0.5, 1.0, -1.0):
                other = bias.copy()
                other[at] += step
                yield f"{at} {step:+g}", replace(head, position_bias=other)


def masks_part(start: int, count: int, seed: int) -> dict[str, object]:
    """Spoiled masks of all programs: proved only if nothing that was tried shows a difference."""
    counts = {"breaking": 0, "harmless": 0}
    false: list[tuple[int, str]] = []
    for case in range(start, start + count):
        chance = random.Random(f"masks {seed} {case}")
        name, kind = chance.choice(sorted(PROGRAMS)), chance.choice(["relative", "scalar"])
        mutants = list(mask_mutants(model_in(name, kind)))
        if not mutants:
            continue
        what, found = chance.choice(mutants)
        proved = hm.certify(found).verdict is hm.Verdict.PROVED
        breaks = breaks_a_word(found, PROGRAMS[name])
        if proved and not breaks:
            breaks = breaks_an_intervention(found, PROGRAMS[name], chance, _TRIES)
        counts["breaking" if breaks else "harmless"] += 1
        if proved and breaks:
            false.append((case, f"{name}, {kind}: {what} was proved"))
    return {**counts, "false": false}
