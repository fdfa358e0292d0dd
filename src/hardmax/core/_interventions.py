"""A word on its way through a Transformer whose steps are overwritten, where a circuit says.

What is written is the code of a number; or, in an interchange, what the block holds in the run on
another word. Such contents are within the proved distances of a code, as all that is read is, so
that a proof about codes speaks of them as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np

from hardmax._errors import RequestError
from hardmax.core._batched import evaluate
from hardmax.core._circuit import Circuit
from hardmax.core._circuit_parts import Block
from hardmax.core._layers import Attention, SequenceInput
from hardmax.core._sequence_target import (
    GIVEN,
    INDEX,
    SYMBOL,
    Combination,
    Number,
    Pointwise,
    SequenceSteps,
    plain,
)
from hardmax.core._sequences import (
    attended,
    check_readable,
    embedded,
    fed_forward,
    group_weights,
    streams,
)
from hardmax.core._sequences import read_out as read_out_of
from hardmax.core._transformer import Transformer

Overwritten = Mapping[int, Mapping[int, Number]]  # step, then position: the number to be held there
Contents = Callable[[Block, int], Sequence[float] | np.ndarray]  # of a block at a position


def contents_in_run(transformer: Transformer, circuit: Circuit, word: Sequence[object]) -> Contents:
    """What blocks hold in the run on a word, right after they are written."""
    source = transformer.input
    assert isinstance(source, SequenceInput)
    run = list(streams(transformer, embedded(source, np.array([source.indices(word)]))))

    def contents(block: Block, place: int) -> np.ndarray:
        token = run[block.sublayer + 1][0, place + 1]
        if circuit.frame is not None:
            return np.asarray(circuit.axes[:, block.first : block.stop].T @ token)
        return token[block.first : block.stop]

    return contents


def evaluate_overwritten(
    transformer: Transformer,
    circuit: Circuit,
    steps: SequenceSteps,
    word: Sequence[object],
    overwritten: Overwritten,
    contents: Contents | None = None,
) -> np.ndarray:
    """The outputs, the blocks of steps being overwritten right after they are written.

    What the embedding makes of a token or a place that is overwritten is made again. The contents
    of other blocks are the codes of their numbers, unless they are given. In a turned stream a
    block is what its directions say: x + Q_b (code - Q_b' x), with the columns Q_b of the circuit's
    axes.
    """
    source = transformer.input
    assert isinstance(source, SequenceInput)
    ids = source.indices(word)
    if not overwritten or not ids:
        return np.asarray(evaluate(transformer, list(word)))
    check_readable(transformer, len(ids))
    stream = embedded(source, np.array([ids]))
    _embed_again(stream, circuit, steps, ids, overwritten)
    for number, sublayer in enumerate(transformer.sublayers):
        if isinstance(sublayer, Attention):
            stream = attended(sublayer, stream, group_weights(sublayer, stream))
        else:
            stream = fed_forward(sublayer, stream)
        for block in circuit.blocks:
            if block.sublayer == number and block.form != "share":
                for place, held in overwritten.get(block.step, {}).items():
                    made = block.code(_exact(held)) if contents is None else contents(block, place)
                    _overwrite(stream[0, place + 1], circuit, block, made)
    return np.asarray(read_out_of(transformer, stream)[0])


def _embed_again(
    stream: np.ndarray,
    circuit: Circuit,
    steps: SequenceSteps,
    ids: Sequence[int],
    overwritten: Overwritten,
) -> None:
    for place in {place for held in overwritten.values() for place in held}:
        own = {step: held[place] for step, held in overwritten.items() if place in held}
        given: dict[int, Number] = {SYMBOL: ids[place], INDEX: place}
        for block in circuit.blocks:
            if block.sublayer == -1:
                held = _exact(_embedded_number(steps, block.step, given, own))
                _overwrite(stream[0, place + 1], circuit, block, block.code(held))


def _overwrite(
    token: np.ndarray, circuit: Circuit, block: Block, code: Sequence[float] | np.ndarray
) -> None:
    """One block of one token holds a code, and all else what it did."""
    if circuit.frame is None:
        token[block.first : block.stop] = code
    else:
        along = circuit.axes[:, block.first : block.stop]
        token += along @ (np.asarray(code) - along.T @ token)


def _exact(number: Number) -> int | Fraction:
    return plain(Fraction(number))


def _embedded_number(
    steps: SequenceSteps, step: int, given: Mapping[int, Number], own: Mapping[int, Number]
) -> Number:
    """What an embedded step is, of a token, a place, and steps that are overwritten."""
    if step in own:
        return own[step]
    if step < GIVEN:
        return given[step]
    made = steps.steps[step - GIVEN]
    if not isinstance(made, Pointwise | Combination):
        raise RequestError("The circuit embeds a step that is no function of a token or a place.")
    held = [_embedded_number(steps, source, given, own) for source in made.sources]
    if isinstance(made, Pointwise):
        return made.function(*held)
    terms = (Fraction(w) * Fraction(h) for w, h in zip(made.weights, held, strict=True))
    return plain(sum(terms, Fraction(made.constant)))
