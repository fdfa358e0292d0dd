"""That edges of a circuit matter: their patches are run again, and the answers enclosed.

A patched model is a Transformer of its own. One port reads, instead of a block, as many coordinates
beside the stream, which the positions fill with what is to be read and nobody else reads or writes.
So what encloses answers encloses these, for the reals and floats at once: an edge is shown if one
of them is past the middle between the exact answer and its neighbour, by all that the bounds allow.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.checker.blocks import Question, Unproved
from hardmax.checker.sequences._stream import Overflow
from hardmax.checker.sequences._word_search import Word, WordSearch
from hardmax.checker.sequences.words import enclose_words
from hardmax.core import (
    KINDS,
    NOT_SHOWN,
    Attention,
    Block,
    Circuit,
    EdgePatches,
    FeedForward,
    Head,
    Node,
    ReadOut,
    SequenceInput,
    Showing,
    Sublayer,
    Transformer,
    kinds_of_blocks,
)
from hardmax.numerics import FLOAT64


def check_edges(search: WordSearch, asked: Question, left: float = 0.0) -> str:
    """What shows how many edges, for the certificate; a refusal names the edge.

    The patches are of the model that was asked about: of a turned one along its axes, and without
    what is `left` of its weights beside those meant, which the statement says.
    """
    circuit = asked.circuit
    kinds = kinds_of_blocks(asked.transformer, circuit, search.words.lengths)
    nodes = {node.name: node for node in circuit.nodes}
    seen: set[tuple[str, str, int]] = set()
    for one in circuit.showings:
        place = (one.target, one.port, one.block)
        node = nodes.get(one.target)
        if node is None or one.block not in dict(node.reads).get(one.port, ()) or place in seen:
            raise Unproved(
                f"The circuit shows an edge to {one.target!r} that there is not, or twice."
            )
        seen.add(place)
        _Patch(search, asked, node, one).check(kinds[one.block])
    return _statement(circuit, left)


def _statement(circuit: Circuit, left: float) -> str:
    found = Counter(edge.kind for edge in circuit.edges)
    numbers = ", ".join(f"{found[kind]} {kind}" for kind in (*KINDS, NOT_SHOWN) if found[kind])
    whose = ", in the model without noise" if left > 0.0 else ""
    return (
        f"Edges by what shows that they matter{whose}: {numbers}. Each that is shown was patched "
        f"alone, by what the circuit names, and an answer decodes as another one."
    )


class _Patch:
    """What is said to show one edge."""

    def __init__(self, search: WordSearch, asked: Question, node: Node, said: Showing) -> None:
        self.search, self.asked, self.node, self.said = search, asked, node, said
        self.block = asked.circuit.blocks[said.block]
        self.name = f"{self.block.name!r} -> {node.name!r} at {said.port!r}"

    def check(self, kind: str) -> None:
        """That the kind is what the block's can be, and that the answer is another."""
        if self.search.clock.is_spent:
            raise Unproved("The budget was spent. Raise it.")
        wanted = (kind, "intervention") if kind == "word" else (kind,)
        if self.said.kind not in wanted:
            raise Unproved(f"The edge {self.name} is no edge of the kind {self.said.kind!r}.")
        exact = self._answers(self.said.word)
        if self.said.other:
            self._answers(self.said.other)
        cut = patched_transformer(
            self.asked.transformer,
            self.node,
            self.said.port,
            self.block,
            self._held(),
        )
        try:
            found = enclose_words(cut, self._ids(self.said.word), FLOAT64)
        except Overflow:
            raise Unproved(f"The patch of the edge {self.name} overflows.") from None
        sets = self.asked.sets
        for row, low, high in zip(exact, found.low[0], found.high[0], strict=True):
            for step, own, least, most in zip(sets.steps.outputs, row, low, high, strict=True):
                if _is_another(Fraction(own), least, most, sets.numbers(step)):
                    return
        shown = " and ".join(map(str, self.said.shown_by))
        raise Unproved(f"The edge {self.name} is not shown by {shown}: no answer is another.")

    def _ids(self, word: Word) -> np.ndarray:
        numbers = [self.search.words.alphabet.index(symbol) for symbol in word]
        return self.asked.ids[numbers][None]

    def _answers(self, word: Word) -> list:
        """What the target says; only words on which the claim says something show anything."""
        if not self.search.words.contains(word):
            raise Unproved(
                f"The edge {self.name} is shown by {word}, which is no word of the claim."
            )
        try:
            return self.search.wanted(word)
        except HardmaxError as reason:
            raise Unproved(
                f"The edge {self.name} is shown by {word}, on which the target fails: {reason}"
            ) from reason

    def _held(self) -> np.ndarray:
        """What the port is to read: tokens x coordinates."""
        said = self.said
        run = EdgePatches(self.asked.transformer, self._ids(said.other or said.word))
        held = run.held(self.block)[0]
        able = {*self.asked.sets.numbers(self.block.step), *self.block.items}
        if self.block.form == "share":
            able = set(range(self.search.words.longest + 1))
        for place, number in said.overwritten:
            if number is not None and number not in able:
                raise Unproved(f"The edge {self.name} is shown by {number}, which cannot be held.")
            held[place + 1] = self.block.code(number)
        return held


def _is_another(own: Fraction, least: float, most: float, numbers: tuple) -> bool:
    """Whether all from the least to the most is nearer to another number than the own one."""
    at = bisect_left(numbers, own)
    if at > 0 and Fraction(float(most)) < (own + numbers[at - 1]) / 2:
        return True
    return numbers[at + 1 :] != () and Fraction(float(least)) > (own + numbers[at + 1]) / 2


# ---- the patched model ---------------------------------------------------------------------------


def patched_transformer(
    transformer: Transformer, node: Node, port: str, block: Block, held: np.ndarray
) -> Transformer:
    """The Transformer whose node reads, at a port, what is held instead of the block.

    `held` is for the first tokens; it stands in coordinates after those of the stream.
    """
    extra, readout = block.width, transformer.readout

    def moved(matrix: np.ndarray) -> np.ndarray:
        wide = _wider(matrix, 0, extra)
        wide[:, -extra:] = matrix[:, block.first : block.stop]
        wide[:, block.first : block.stop] = 0.0
        return wide

    sublayers: list[Sublayer] = []
    for number, layer in enumerate(transformer.sublayers):
        if isinstance(layer, Attention):
            heads = [_wider_head(head, extra) for head in layer.heads]
            if number == node.sublayer:
                head = layer.heads[node.first]
                heads[node.first] = _moved_head(heads[node.first], port, head, moved)
            sublayers.append(Attention(heads))
        else:
            assert isinstance(layer, FeedForward)
            some = slice(node.first, node.stop) if number == node.sublayer else slice(0)
            inner = _wider(layer.inner, 0, extra)
            inner[some] = moved(layer.inner[some])
            outer, bias = _wider(layer.outer, extra, 0), np.pad(layer.outer_bias, (0, extra))
            sublayers.append(FeedForward(inner, layer.inner_bias, outer, bias))
    is_last = node.sublayer == len(sublayers)
    weights = moved(readout.weights) if is_last else _wider(readout.weights, 0, extra)
    answers = ReadOut(weights, readout.bias, readout.token)
    return Transformer(_wider_input(transformer.input, held), sublayers, answers)


def _moved_head(
    wide: Head, port: str, head: Head, moved: Callable[[np.ndarray], np.ndarray]
) -> Head:
    if port == "q":
        return replace(wide, query=moved(head.query))
    if port == "k":
        return replace(wide, key=moved(head.key))
    return replace(wide, value=moved(head.value))


def _wider(matrix: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return np.pad(matrix, ((0, rows), (0, columns)))


def _wider_head(head: Head, extra: int) -> Head:
    query, key, value = (_wider(one, 0, extra) for one in (head.query, head.key, head.value))
    return replace(head, query=query, key=key, value=value, output=_wider(head.output, extra, 0))


def _wider_input(source: object, held: np.ndarray) -> SequenceInput:
    assert isinstance(source, SequenceInput)
    extra = held.shape[1]
    positions = _wider(source.positions, 0, extra)
    positions[: len(held), -extra:] = held
    start = None if source.start is None else np.pad(source.start, (0, extra))
    return SequenceInput(source.alphabet, _wider(source.embedding, 0, extra), positions, start)
