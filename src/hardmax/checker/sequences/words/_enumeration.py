"""All words, one after the other: each output enclosed, each suspicion settled exactly."""

from __future__ import annotations

import math
from contextlib import suppress
from fractions import Fraction

import numpy as np

from hardmax.checker._budget import FUNCTION, UNIT, ticks
from hardmax.checker.sequences._stream import Number, Overflow, ball_of
from hardmax.checker.sequences._word_search import EnumerationCost, Word, WordSearch
from hardmax.checker.sequences.words._batches import enclose_words
from hardmax.numerics import FLOAT64, FORMATS, MidRadius

_CHUNK = 2**19  # attention weights of one head held at once
_LARGEST_BATCH = 4096  # words
_PILOT = 32  # words that tell what enumeration costs
_HOPELESS = 10**9  # words that nobody tries: no pilot is needed to know
_SUSPECTS = 64  # words that are looked at exactly because their enclosure is too wide


def cost_of_enumeration(search: WordSearch) -> EnumerationCost:
    """What it would take to try all words, in all formats: found once, from a few of them."""
    if search.enumeration is None:
        words, work = search.words.count, _work_of_all(search)
        search.enumeration = EnumerationCost(words, work, search.affords(words, work))
    return search.enumeration


def _work_of_all(search: WordSearch) -> float:
    words = search.words
    length = words.longest
    if words.count > _HOPELESS:
        return float(min(words.count, 10**300)) * (length + 1)
    count = min(_PILOT, words.count_of(length))
    ids = search.ids[words.numbers(length, 0, count)]
    began = ticks()
    if length:
        with suppress(Overflow):
            enclose_words(search.construction.transformer, ids, FLOAT64, search.host)
    each = (ticks() - began) / count * len(FORMATS) + FUNCTION * search.calls_of_target(length)
    return words.count * each / UNIT


def enumerate_words(search: WordSearch) -> None:
    """Try every word of the domain, in every format; stop at a counterexample.

    A format is given up as soon as the claim is not safe in it; float64 goes on to the end, so that
    the bound is one for all words.
    """
    search.method = "enumeration"
    trial = _Trial(search)
    for length in search.words.lengths:
        count = search.words.count_of(length)
        step = max(1, min(_LARGEST_BATCH, _CHUNK // (length + 1) ** 2))
        for start in range(0, count, step):
            if search.clock.is_spent:
                search.advice = (
                    f"The budget was spent after {search.clock.boxes:,} of "
                    f"{search.words.count:,} words. Raise it."
                )
                return
            trial.run(search.words.numbers(length, start, min(start + step, count)))
            if search.refuted:
                return
    trial.finish()


class _Trial:
    def __init__(self, search: WordSearch) -> None:
        self.search = search
        self.bounds = dict.fromkeys(FORMATS, 0.0)
        self.worst: tuple[float, Word | None] = (-1.0, None)
        self.suspects: list[Word] = []
        self.harmless = True  # every suspect looked at was within the claim
        self.known: dict[Number, tuple[float, float]] = {}

    def run(self, numbers: np.ndarray) -> None:
        search = self.search
        words = search.words.words(numbers)
        wanted = self._wanted(words)
        if wanted.middle.size:
            for name in [n for n, bound in self.bounds.items() if math.isfinite(bound)]:
                self._enclose(name, search.ids[numbers], words, wanted)
        search.clock.boxes += len(words)
        search.tell("words", math.inf)

    def _enclose(self, name: str, ids: np.ndarray, words: list[Word], wanted: MidRadius) -> None:
        search, transformer = self.search, self.search.construction.transformer
        try:
            given = enclose_words(transformer, ids, FORMATS[name].sheltered, search.host)
        except Overflow:
            self.bounds[name] = math.inf
            return
        away = given.plus(MidRadius(-wanted.middle, wanted.radius))
        size = np.abs(away.middle).max(axis=(1, 2))
        bound = away.size.max(axis=(1, 2))
        worst = max(self.bounds[name], float(bound.max()))
        if name != "float64":
            self.bounds[name] = worst if worst <= search.claimed else math.inf
            return
        self.bounds[name] = worst
        if size.max() > self.worst[0]:
            self.worst = (float(size.max()), words[int(size.argmax())])
        suspects = np.flatnonzero(bound > search.claimed)
        if suspects.size and len(self.suspects) <= _SUSPECTS:
            self._suspect([words[i] for i in suspects[np.argsort(-size[suspects])]])

    def _suspect(self, words: list[Word]) -> None:
        for word in words:
            self.suspects.append(word)
            if len(self.suspects) > _SUSPECTS or self.search.clock.is_spent:
                self.harmless = False
                return
            self.harmless &= self.search.look(word) <= Fraction(self.search.claimed)
            if self.search.refuted:
                return

    def finish(self) -> None:
        search = self.search
        if self.worst[1] is not None:
            search.look(self.worst[1])
        search.formats = dict(self.bounds)
        if self.bounds["float64"] <= search.claimed or search.refuted:
            return
        search.advice = (
            "Over the reals the claim holds for every word, but rounding in float64 may break it "
            "where scores tie or the claim has no margin. Use weights that float64 adds without "
            "rounding, or claim a larger error."
            if self.harmless
            else "The enclosures in float64 are wider than the claim. Claim a larger error."
        )

    def _wanted(self, words: list[Word]) -> MidRadius:
        """The target's rows: words x rows x outputs, as balls."""
        outputs = self.search.construction.claim.target.outputs
        rows = [self.search.wanted(word) for word in words]
        flat = [self._ball(value) for word in rows for row in word for value in row]
        shape = (2, len(words), -1, outputs) if flat else (2, len(words), 0, outputs)
        return MidRadius(*np.array(flat, dtype=float).reshape(-1, 2).T.reshape(shape))

    def _ball(self, value: Number) -> tuple[float, float]:
        if value not in self.known:
            self.known[value] = ball_of(Fraction(value))
        return self.known[value]
