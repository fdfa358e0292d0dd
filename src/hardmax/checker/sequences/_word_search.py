"""The state of a check on words: what was seen, what is bounded, what may still be spent."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from hardmax._errors import ShapeError
from hardmax.checker._balls import cost_of_word, error_at_word
from hardmax.checker._budget import (
    CALL,
    ENTRY,
    FUNCTION,
    PER_SECOND,
    Clock,
    Progress,
    Standing,
    charge,
)
from hardmax.checker.sequences._stream import Number, sequence_input
from hardmax.core import Construction, Host, SequenceSteps, Words, evaluate, weight_arrays
from hardmax.numerics import below_float

_TRIED = 256  # words tried before anything else, fewer if they are long
_PAIRS = 2**19  # of tokens in all of them
_FEWEST = 24
_TRYING = 2e6  # units of work, and no more than this for them

Word = tuple[str | int, ...]


_EXACTLY = 2**25  # weights times symbols: of longer words exact arithmetic would take too long


@dataclass(frozen=True)
class EnumerationCost:
    """What trying all words would take; whether the budget allowed it when that was found out."""

    words: int
    work: float
    is_affordable: bool


class WordSearch:
    """What is known so far. Bounds are for the reals together with a format."""

    def __init__(
        self,
        construction: Construction,
        clock: Clock,
        progress: Progress | None,
        host: Host | None = None,
    ) -> None:
        self.construction, self.clock, self.progress = construction, clock, progress
        self.host = host
        self.words: Words = construction.claim.domain
        self.claimed = construction.claim.error
        self.measured, self.worst = 0.0, None  # type: float, Word | None
        self.refuted = False
        self.formats: dict[str, float] = {}
        self.method = "value sets"
        self.advice = ""
        self.statements: tuple[str, ...] = ()  # what was established beside the bound
        self.assumptions: tuple[str, ...] = ()
        self.enumeration: EnumerationCost | None = None
        self.steps: SequenceSteps | None = construction.claim.target.steps()
        alphabet = sequence_input(construction.transformer).alphabet
        self.ids = np.array([alphabet.index(symbol) for symbol in self.words.alphabet])
        if self.steps is not None and (self.steps.at is None) != self._each_symbol:
            self.steps = None

    @property
    def _each_symbol(self) -> bool:
        return bool(self.construction.claim.target.each_symbol)

    @property
    def decided(self) -> bool:
        return self.refuted or self.certified <= self.claimed

    @property
    def certified(self) -> float:
        """The bound in the claim's format; a claim about that one is about float64, too."""
        names = ("float64", self.construction.claim.format)
        return max(self.formats.get(name, math.inf) for name in names)

    def affords(self, words: int, work: float) -> bool:
        """Whether so many words, which take so much work, are within what is left."""
        clock = self.clock
        limit = clock.budget
        if limit.seconds < math.inf and work > (limit.seconds - clock.seconds) * PER_SECOND:
            return False
        return words <= limit.boxes - clock.boxes and work <= limit.units - clock.work

    def calls_of_target(self, length: int) -> int:
        """How many functions the target calls for a word, as far as that can be told."""
        pairs = 0 if self.steps is None else len(self.steps.steps)
        return (1 + length) * (2 + pairs * (2 + length // 4))

    def wanted(self, word: Word) -> list[list[Number]]:
        """What the target says, as many rows and numbers as were promised."""
        charge(FUNCTION, self.calls_of_target(len(word)))
        rows = [list(row) for row in self.construction.claim.target(word)]
        expected = len(word) if self._each_symbol else 1
        outputs = self.construction.claim.target.outputs
        if len(rows) != expected or any(len(row) != outputs for row in rows):
            raise ShapeError(
                f"The target must give {expected} rows of {outputs} numbers for {list(word)}, but "
                f"it gives {[len(row) for row in rows]}."
            )
        return rows

    def look(self, word: Word) -> Fraction:
        """Take an error into account, exactly; a claim is broken by nothing less."""
        low, high = error_at_word(self.construction, word)
        error = below_float(low)
        if self.worst is None or error > self.measured:
            self.measured, self.worst = error, word
        self.refuted = self.refuted or error > self.claimed
        return high

    def tell(self, phase: str, certified: float = math.inf) -> None:
        if self.progress is not None:
            boxes = self.clock.boxes
            self.progress(Standing(certified, self.measured, self.claimed, boxes, phase))


def try_words(search: WordSearch) -> None:
    """Evaluate some words in floats, and the worst of them exactly.

    Also compares the target with its steps: steps that say something else are not used.
    """
    began, worst, error = search.clock.work, None, -1.0
    weights = sum(part.size for part in weight_arrays(search.construction.transformer))
    for word in _candidates(search):
        wanted = search.wanted(word)
        _compare_steps(search, word, wanted)
        away = _distance(search, word, wanted)
        search.clock.boxes += 1
        small = worst is None or weights * len(word) <= _EXACTLY or away > search.claimed
        if away > error and small:
            worst, error = word, away
        if search.clock.work - began > _TRYING or search.clock.is_spent:
            break
    if worst is not None:
        search.look(worst)
    search.tell("words")


def _candidates(search: WordSearch) -> Iterable[Word]:
    """Awkward words, then the shortest, then random ones; each once."""
    words = search.words
    tried = max(_FEWEST, min(_TRIED, _PAIRS // (words.longest + 1) ** 2))
    chosen = words.sample(tried, np.random.default_rng(0))
    half = len(chosen) // 2
    return dict.fromkeys([*chosen[:half], *islice(words, half), *chosen[half:]])


def _distance(search: WordSearch, word: Word, wanted: list[list[Number]]) -> float:
    """How far a float evaluation is from the target; a word without tokens has no outputs."""
    if not wanted:
        return 0.0
    transformer = search.construction.transformer
    charge(100 * CALL, 1 + len(transformer.sublayers))
    charge(ENTRY, 4 * cost_of_word(transformer, len(word)))
    with np.errstate(all="ignore"):
        given = np.asarray(evaluate(transformer, list(word)), dtype=float)
        away = np.abs(given.reshape(len(wanted), -1) - np.array(wanted, dtype=float)).max()
    return math.inf if np.isnan(away) else float(away)


def _compare_steps(search: WordSearch, word: Word, wanted: list[list[Number]]) -> None:
    if search.steps is None or not word:
        return
    charge(FUNCTION, search.calls_of_target(len(word)))
    try:
        said = search.steps.rows([search.words.alphabet.index(symbol) for symbol in word])
    except IndexError:
        said = []
    if said != wanted:
        search.steps = None
        search.advice = f"The target and its steps disagree on {list(word)}."
