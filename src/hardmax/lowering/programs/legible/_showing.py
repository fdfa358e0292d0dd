"""Words that show that the edges of a circuit matter, searched for in a fixed order.

Words of a few lengths are run together; an edge is patched in all of these runs at once, by the
block of another word or by overwritten numbers, until one answer decodes as another. The answer has
to move past the middle between two codes by a twentieth of their distance, so that whoever repeats
the patch with bounds sees it, too. What is searched is bounded by work, so that nothing depends on
how fast a machine is; what is not found is not shown.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.core import (
    Attention,
    Block,
    Circuit,
    Construction,
    EdgePatches,
    Node,
    Showing,
    Transformer,
    Word,
    kinds_of_blocks,
)
from hardmax.languages.programs import ProgramTarget

_WORK = 2**30  # multiplications of one search, half for words and half for numbers
_WORDS = 24  # in one batch
_POOL = 1024  # that these are chosen from
_LENGTHS = (5, 4, 3, 2, 8, 20)  # of words, the nearest that there are
_SHIFTS = (1, -1, 2, -2, 5, 11)  # from a word of a batch to its partner
_ROUNDS = 8  # of overwritten numbers, in each batch
_CLEARLY = 0.05  # of the distance of codes


Overwritten = tuple[tuple[int, int | Fraction | None], ...]


@dataclass(frozen=True)
class _Reading:
    """An edge: a block, numbered, at a port of a node."""

    node: Node
    port: str
    block: int


def with_showings(construction: Construction) -> Construction:
    """The same, with what shows its circuit's edges."""
    circuit = construction.circuit
    assert circuit is not None
    shown = _Search(construction, circuit).run()
    return replace(construction, circuit=replace(circuit, showings=shown))


class _Search:
    def __init__(self, construction: Construction, circuit: Circuit) -> None:
        target = construction.claim.target
        assert isinstance(target, ProgramTarget)
        self.target, self.words = target, target.words
        self.circuit, self.transformer = circuit, construction.transformer
        closed = target.closed_steps
        self.numbers = closed.numbers
        self.codes = [
            np.array([float(n) for n in sorted(closed.numbers[out])])
            for out in closed.steps.outputs
        ]
        self.found: dict[_Reading, Showing] = {}
        self.chance = random.Random("edges")
        self.left = _WORK // 2

    def run(self) -> tuple[Showing, ...]:
        """In the order of the edges."""
        readings = [
            _Reading(node, port, number)
            for node in self.circuit.nodes
            for port, numbers in node.reads
            for number in numbers
        ]
        kinds = kinds_of_blocks(self.transformer, self.circuit, self.words.lengths)
        batches = list(self._batches())
        for batch in batches:
            for one in readings:
                if kinds[one.block] == "word" and one not in self.found:
                    self._try_words(batch, one)
        self.left += _WORK // 2
        for batch in batches:
            for one in readings:
                if one not in self.found:
                    kind = kinds[one.block]
                    self._try_numbers(batch, one, "intervention" if kind == "word" else kind)
        return tuple(self.found[one] for one in readings if one in self.found)

    def _batches(self) -> Iterator[_Batch]:
        """Words of a few lengths; as many as the work allows."""
        words = self.words
        nearest = (min(words.longest, max(words.shortest, n, 1)) for n in _LENGTHS)
        for length in dict.fromkeys(nearest):
            word = _multiplications(self.transformer, 0) * (length + 1)
            many = min(_POOL, words.count_of(length), self.left // (32 * word))
            if length and many >= 2:
                self.left -= (many + _WORDS) * word
                pool = self._pool(length, many)
                ids = pool if many <= _WORDS else self._varied(pool)
                yield _Batch(self.transformer, ids, words.alphabet)

    def _pool(self, length: int, many: int) -> np.ndarray:
        """Words of one length: the numbers of their symbols."""
        count = self.words.count_of(length)
        if count <= many:
            return self.words.numbers(length, 0, count)
        size = len(self.words.alphabet)
        rows = [[self.chance.randrange(size) for _ in range(length)] for _ in range(many)]
        return np.array(rows)

    def _varied(self, pool: np.ndarray) -> np.ndarray:
        """Words with answers of all kinds, rare ones first, each beside two that are nearly it.

        Where few words are accepted, random pairs of words show little.
        """
        answers = np.rint(EdgePatches(self.transformer, pool).outputs).reshape(len(pool), -1)
        _, kind, times = np.unique(answers, axis=0, return_inverse=True, return_counts=True)
        seen: dict[int, int] = {}
        for k, own in enumerate(kind.reshape(-1).tolist()):
            seen.setdefault(own, k)
        rare = sorted(seen, key=lambda own: (times[own], own))
        found = []
        for own in [*rare, *rare][: _WORDS // 3]:
            word = pool[seen[own]]
            found += [self._altered(word), word, self._altered(word)]
        return np.array(found + list(pool[: _WORDS - len(found)]))

    def _altered(self, word: np.ndarray) -> np.ndarray:
        """With another symbol at one position."""
        size, place = len(self.words.alphabet), self.chance.randrange(len(word))
        other = word.copy()
        other[place] = (other[place] + self.chance.randrange(1, size)) % size if size > 1 else 0
        return other

    # ---- patches -------------------------------------------------------------------------------

    def _affords(self, batch: _Batch, one: _Reading) -> bool:
        tokens = batch.ids.shape[0] * (batch.ids.shape[1] + 1)
        work = tokens * _multiplications(self.transformer, one.node.sublayer)
        if work > self.left:
            return False
        self.left -= work
        return True

    def _try_words(self, batch: _Batch, one: _Reading) -> None:
        """The port reads the block of another word of the batch."""
        count = len(batch.ids)
        held = batch.runs.held(self.circuit.blocks[one.block])
        for shift in _SHIFTS:
            if abs(shift) >= count or not self._affords(batch, one):
                return
            for k in self._moved(batch, one, np.roll(held, -shift, axis=0)):
                word, other = batch.word(k), batch.word((k + shift) % count)
                if self._is_defined(word) and self._is_defined(other):
                    self._show(one, "word", word, other=other)
                    return

    def _try_numbers(self, batch: _Batch, one: _Reading, kind: str) -> None:
        """The port reads another number at one position; in the last round, nothing anywhere."""
        block = self.circuit.blocks[one.block]
        length = batch.ids.shape[1]
        numbers = range(length + 1) if block.form == "share" else self.numbers[block.step]
        for turn in range(_ROUNDS):
            if not self._affords(batch, one):
                return
            by: list[Overwritten] = [
                ((self.chance.randrange(length), self.chance.choice(list(numbers))),)
                if turn < _ROUNDS - 1
                else tuple((place, None) for place in range(length))
                for _ in batch.ids
            ]
            held = batch.runs.held(block)
            for row, overwritten in zip(held, by, strict=True):
                for place, number in overwritten:
                    row[place + 1] = block.code(number)
            for k in self._moved(batch, one, held):
                if self._is_defined(batch.word(k)):
                    self._show(one, kind, batch.word(k), overwritten=by[k])
                    return

    def _show(
        self,
        one: _Reading,
        kind: str,
        word: Word,
        *,
        other: Word = (),
        overwritten: Overwritten = (),
    ) -> None:
        node, port = one.node.name, one.port
        self.found[one] = Showing(node, port, one.block, kind, word, other, overwritten)

    def _moved(self, batch: _Batch, one: _Reading, held: np.ndarray) -> list[int]:
        """The words whose answers clearly decode as others."""
        block: Block = self.circuit.blocks[one.block]
        found = batch.runs.patched(one.node, one.port, block, held)
        moved = np.zeros(len(found), dtype=bool)
        for k, codes in enumerate(self.codes):
            if len(codes) > 1:
                moved |= _beyond(codes, batch.runs.outputs[..., k], found[..., k]).any(axis=1)
        return [int(k) for k in np.flatnonzero(moved)]

    def _is_defined(self, word: Word) -> bool:
        try:
            self.target(word)
        except HardmaxError:
            return False
        return True


def _beyond(codes: np.ndarray, plain: np.ndarray, found: np.ndarray) -> np.ndarray:
    """Whether numbers are past the middle between the code of the plain ones and its neighbour."""
    own = np.abs(plain[..., None] - codes).argmin(axis=-1)
    padded = np.concatenate([[-np.inf], codes, [np.inf]])
    low, high = codes[own] - padded[own], padded[own + 2] - codes[own]
    away = found - codes[own]
    return (-away > (0.5 + _CLEARLY) * low) | (away > (0.5 + _CLEARLY) * high)


@dataclass(frozen=True, eq=False)
class _Batch:
    transformer: Transformer
    ids: np.ndarray
    alphabet: tuple[str | int, ...]

    @cached_property
    def runs(self) -> EdgePatches:
        return EdgePatches(self.transformer, self.ids)

    def word(self, k: int) -> Word:
        return tuple(self.alphabet[i] for i in self.ids[k])


def _multiplications(transformer: Transformer, first: int) -> int:
    """For a token, from a sublayer on: the weights that it meets."""
    total = transformer.width
    for layer in transformer.sublayers[first:]:
        if isinstance(layer, Attention):
            total += 2 * layer.width * sum(h.key_width + h.value_width for h in layer.heads)
        else:
            total += 2 * layer.width * layer.hidden_width
    return total
