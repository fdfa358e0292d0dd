"""What the steps of a target can hold under interventions, and what they are in terms of others.

Theorem (closed sets). Give every step any number of its set at each position, or what the program
makes of its sources there: then the program again makes numbers of the sets. Proof: the set of a
step is the image of the product of its sources' sets, taken here from the steps alone; an aggregate
of up to n numbers of a set is among the counts, sums or means of up to n, or one of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from hardmax._errors import HardmaxError
from hardmax.checker._budget import FUNCTION, charge
from hardmax.core import (
    GIVEN,
    INDEX,
    LENGTH,
    SYMBOL,
    Aggregate,
    Combination,
    Picked,
    Pointwise,
    SequenceStep,
    SequenceSteps,
    Words,
    plain,
)

Exact = int | Fraction
Given = tuple[Exact, ...]
_MOST_CASES = 2**21  # of one step
_MOST_NUMBERS = 2**14


class Unproved(Exception):
    """Something that the circuit states does not follow from the weights; says what."""


class ClosedSets:
    """The steps of a target on words, each with its closed set; found out once and for all."""

    def __init__(self, steps: SequenceSteps, words: Words) -> None:
        self.steps, self.words = steps, words
        self._numbers: dict[int, Given] = {
            SYMBOL: tuple(range(len(words.alphabet))),
            INDEX: tuple(range(words.longest)),
            LENGTH: tuple(n for n in words.lengths if n),
        }
        self._rows: dict[tuple[int, tuple[int, ...]], list[tuple[Given, Exact]]] = {}
        self._relations: dict[int, np.ndarray] = {}

    def step(self, number: int) -> SequenceStep:
        return self.steps.steps[number - GIVEN]

    def name(self, step: int) -> str:
        note = self.steps.notes.get(step)
        return f"step {step}" if note is None else note.name

    def numbers(self, step: int) -> Given:
        """All that the step can hold, in order."""
        pending = [step]
        while pending:
            now = pending[-1]
            missing = [s for s in self._read_by(now) if s not in self._numbers]
            if missing and now not in self._numbers:
                pending += missing
                continue
            pending.pop()
            if now not in self._numbers:
                found = sorted({plain(Fraction(n)) for n in self._made(now)})
                if len(found) > _MOST_NUMBERS:
                    raise Unproved(f"The step {self.name(now)} can hold {len(found):,} numbers.")
                self._numbers[now] = tuple(found)
        return self._numbers[step]

    def _read_by(self, step: int) -> tuple[int, ...]:
        if step < GIVEN:
            return ()
        made = self.step(step)
        if isinstance(made, Aggregate):
            return () if made.value is None else (made.value,)
        return made.sources

    def _made(self, step: int) -> Iterator[Exact] | set[Exact]:
        made = self.step(step)
        match made:
            case Pointwise():
                return {answer for _, answer in self.rows(step, tuple(dict.fromkeys(made.sources)))}
            case Combination():
                return self._sums(made)
            case Picked():
                held = [self.numbers(made.options[int(k)]) for k in self.numbers(made.number)]
                return set().union(*held)
            case Aggregate():
                return self._aggregates(made)
        raise Unproved(f"The step {self.name(step)} is no step that blocks can hold.")

    def _sums(self, made: Combination) -> set[Exact]:
        weights: dict[int, Fraction] = {}
        for source, weight in zip(made.sources, made.weights, strict=True):
            weights[source] = weights.get(source, Fraction(0)) + Fraction(weight)
        total = {Fraction(made.constant)}
        for source, weight in weights.items():
            own = self.numbers(source)
            if len(total) * len(own) > _MOST_CASES:
                raise Unproved("A sum can hold too many numbers.")
            total = {a + weight * Fraction(b) for a in total for b in own}
        return set(total)

    def _aggregates(self, made: Aggregate) -> set[Exact]:
        longest = self.words.longest
        if made.kind == "count":
            everybody = not made.selection.keys and not made.selection.queries
            if everybody and made.selection.relation():
                return {n for n in self.words.lengths if n}
            return set(range(longest + 1))
        assert made.value is not None
        read = self.numbers(made.value)
        if made.kind in ("min", "max") or (made.kind == "mean" and made.agree):
            return {*read, plain(Fraction(made.default))}
        sums = [{Fraction(0)}]
        for _ in range(longest):
            if len(sums[-1]) * len(read) > _MOST_CASES:
                raise Unproved("A sum can hold too many numbers.")
            sums.append({a + Fraction(b) for a in sums[-1] for b in read})
        if made.kind == "sum":
            return set().union(*sums)
        means = {one / k for k, found in enumerate(sums) if k for one in found}
        return {*means, plain(Fraction(made.default))}

    # ---- in terms of others --------------------------------------------------------------------

    def base(self, step: int, known: frozenset[int]) -> tuple[int, ...]:
        """The known steps that a step is a function of, at its own position."""
        found: dict[int, None] = {}
        stack = [step]
        while stack:
            now = stack.pop()
            if now in known:
                found[now] = None
            elif now < GIVEN or isinstance(self.step(now), Aggregate):
                raise Unproved(
                    f"The step {self.name(step)} depends on {self.name(now)}, which its component "
                    f"does not read."
                )
            else:
                stack += reversed(self.step(now).sources)
        return tuple(found)

    def value(self, step: int, held: Mapping[int, Exact]) -> Exact:
        """The number of a step for numbers of those that it is a function of."""
        if step in held:
            return held[step]
        made = self.step(step)
        match made:
            case Pointwise(sources=sources, function=function):
                charge(FUNCTION)
                return plain(Fraction(function(*[self.value(s, held) for s in sources])))
            case Combination(sources=sources, weights=weights):
                terms = (
                    Fraction(w) * Fraction(self.value(s, held))
                    for w, s in zip(weights, sources, strict=True)
                )
                return plain(sum(terms, Fraction(made.constant)))
            case Picked():
                return self.value(made.options[int(self.value(made.number, held))], held)
        raise Unproved(f"The step {self.name(step)} is no function of its own position.")

    def rows(self, step: int, base: tuple[int, ...]) -> list[tuple[Given, Exact]]:
        """All numbers of the base with what the step then is; those that it refuses are left out.

        Where a function refuses, the program has no answer, and nothing is stated.
        """
        if (step, base) not in self._rows:
            lists = [self.numbers(one) for one in base]
            self.limit(math.prod(map(len, lists)), step)
            found = []
            for given in itertools.product(*lists):
                try:
                    found.append((given, self.value(step, dict(zip(base, given, strict=True)))))
                except HardmaxError:
                    continue
                except (LookupError, TypeError, ValueError, ArithmeticError) as reason:
                    raise Unproved(
                        f"The step {self.name(step)} fails on {given}: {reason!r}."
                    ) from reason
            self._rows[step, base] = found
        return self._rows[step, base]

    def limit(self, cases: int, step: int) -> None:
        if cases > _MOST_CASES:
            raise Unproved(f"The step {self.name(step)} has {cases:,} cases, which is too many.")

    def relation(self, step: int) -> np.ndarray:
        """The table of an aggregate's relation: an axis for each key, then one for each query."""
        if step not in self._relations:
            made = self.step(step)
            assert isinstance(made, Aggregate)
            chosen = made.selection
            if chosen.causal:
                raise Unproved(f"The selection of {self.name(step)} looks back without saying how.")
            lists = [self.numbers(one) for one in (*chosen.keys, *chosen.queries)]
            self.limit(math.prod(map(len, lists)), step)
            charge(FUNCTION, math.prod(map(len, lists)))
            flat = [bool(chosen.relation(*given)) for given in itertools.product(*lists)]
            shape = tuple(map(len, lists))
            self._relations[step] = np.array(flat, dtype=bool).reshape(shape)
        return self._relations[step]

    @cached_property
    def symbols(self) -> Sequence[object]:
        return self.words.alphabet
