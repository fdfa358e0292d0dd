"""Finite-state machines.

*A counter*, whose symbols turn a circle of states, is a sum and a look-up. *Resets*, symbols that
lead from everywhere to one state among symbols that change nothing, are a head that looks at the
last of them. *Any machine* is composed in ceil(log2 n) rounds: every token holds where each state
leads over the last d symbols, a head fetches the map held d places earlier, and hidden units apply
the one to the other by the scalar multiplexer. The start token holds the identity, attends to
itself, and so keeps it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax._errors import RequestError
from hardmax.languages.programs import (
    Given,
    Machine,
    Round,
    Scanned,
    Sequence,
    apply,
    evaluate_pointwise,
    exact_number,
    roots_of,
    there,
)
from hardmax.lowering.gadgets import hard_head, multiplexer
from hardmax.lowering.programs._placing import Made, Placing
from hardmax.lowering.programs._relations import Relations
from hardmax.lowering.sketch import Placed, WordForm, WordHead, WordRegister, WordSaying

Held = tuple[int, WordForm, int]  # after a sublayer, a form holds the value of a step


class Scans:
    """Turns machines into layers."""

    def __init__(self, placing: Placing, relations: Relations, parallel: bool) -> None:
        self.placing, self.relations, self.parallel = placing, relations, parallel
        self.sketch = placing.sketch
        self.held: list[Held] = []
        self.sayings: list[WordSaying] = []

    def is_composed(self, value: Scanned) -> bool:
        """Whether a machine takes its log2(n) rounds."""
        allows = value.machine.counter is not None or value.machine.resets
        return self.parallel or not allows

    def make(self, value: Scanned, rounds: list[Round]) -> Made:
        machine = value.machine
        levels = self.placing.natural(value)
        if not self.parallel and machine.counter is not None:
            return Made(self._by_counter(value), levels)
        if not self.parallel and machine.resets:
            return Made(self._by_resets(value), levels)
        return Made(self._by_rounds(value, rounds), levels)

    # ---- one layer -----------------------------------------------------------------------------

    def _by_counter(self, value: Scanned) -> Placed:
        machine = value.machine
        assert machine.counter is not None
        circle, shifts = machine.counter
        index = Sequence().index
        step = apply(lambda symbol: shifts[machine.number(symbol)], value.source)
        total = (there(index) <= index).sum(step)
        states = [
            float(circle[int(exact_number(one)) % len(circle)]) for one in self.placing.items(total)
        ]
        return self.placing.place(total, states)

    def _by_resets(self, value: Scanned) -> Placed:
        """Score: the index, and more than that for a reset; the start token in between."""
        machine, longest = value.machine, self.placing.words.longest
        symbols = self.placing.items(value.source)
        moves = [machine.map_of(symbol) for symbol in symbols]
        is_reset = np.array([float(len(set(leads)) == 1) for leads in moves])
        index = Sequence().index
        scores = np.add.outer(longest * is_reset, np.arange(float(longest)))
        asked = self.relations.by_key((value.source, index), scores, longest - 0.5, 0.5)
        held = self.placing.place(value.source, [float(leads[0]) for leads in moves], clean=True)
        self.sketch.needs_start = True
        names = self.placing.names
        return hard_head(
            self.sketch,
            names.text(value),
            asked,
            held,
            causal=True,
            agree=True,
            name=names.of(value),
        )

    # ---- rounds --------------------------------------------------------------------------------

    def _by_rounds(self, value: Scanned, rounds: list[Round]) -> Placed:
        maps, track, most = self._maps(value), self._track(), value.machine.states - 1.0
        before = [self.sketch.register(f"earlier {one.name}", most) for one in maps]
        for register in (*maps, *before):
            register.everywhere = True
        strides = [2**k for k in range((self.placing.words.longest - 1).bit_length())]
        for number, stride in enumerate(strides):
            sublayer, last = 2 * number, stride == strides[-1]
            self._fetch(value, maps, before, track, stride, sublayer)
            self._say(before, sublayer)
            self._say([] if last else maps, sublayer + 1)
            if number < len(rounds):
                self._note(rounds[number], maps, before, sublayer, last)
            self._compose(maps, before, sublayer + 1, last)
        sublayer = 2 * len(strides)
        return Placed(WordForm({maps[0]: 1.0}), sublayer, False)

    def _say(self, registers: list[WordRegister], sublayer: int) -> None:
        """That registers hold numbers of states after a sublayer, for people."""
        for one in registers:
            numbers = range(int(one.bound) + 1)
            levels, labels = tuple(map(float, numbers)), tuple(map(str, numbers))
            form = WordForm({one: 1.0})
            self.sayings.append(WordSaying(one.name, form, sublayer, levels, labels, True))

    def _maps(self, value: Scanned) -> list[WordRegister]:
        """Where each state leads on the symbol held here; the start token holds the identity."""
        roots = roots_of(value.source)
        if not all(isinstance(root, Given) and root.what == "tokens" for root in roots):
            raise RequestError(
                "A machine that is neither a counter nor made of resets reads tokens, or functions "
                "of tokens; this one reads a value that comes from other positions."
            )
        self.sketch.needs_start = True
        machine: Machine = value.machine
        tokens = Sequence().tokens
        read = [
            evaluate_pointwise(value.source, {tokens: one}) for one in self.placing.words.alphabet
        ]
        maps = []
        for state in range(machine.states):
            name = f"{self.placing.names.of(value)}<from {state}"
            register = self.sketch.register(name, machine.states - 1.0)
            register.symbols = np.array([float(machine.step(state, one)) for one in read])
            register.start = float(state)
            maps.append(register)
        return maps

    def _track(self) -> _Track:
        """The place from 1 on, its square, and 1, at the start token, too."""
        words = self.placing.words
        places, nothing = np.arange(words.longest) + 1.0, np.zeros(len(words.alphabet))
        place = self.sketch.linear(self.sketch.column("index", nothing, places))
        square = self.sketch.linear(self.sketch.column("index^2", nothing, places**2))
        return _Track(place, square, self.sketch.one)

    def _fetch(
        self,
        value: Scanned,
        maps: list[WordRegister],
        before: list[WordRegister],
        track: _Track,
        stride: int,
        sublayer: int,
    ) -> None:
        """What is held `stride` places earlier, or by the start token if there is no such place."""
        query = [(track.place + track.one * -float(stride)) * 2.0, track.one]
        key = [track.place, track.square * -1.0]
        values = [WordForm({register: 1.0}) for register in maps]
        output = [{register: 1.0} for register in before]
        weighting = self.sketch.coldness(1.0)
        step = f"{self.placing.names.text(value)}: maps {stride} earlier"
        head = WordHead(step, query, key, values, output, weighting, does="fetch")
        self.sketch.head(sublayer, head)

    def _compose(
        self, maps: list[WordRegister], before: list[WordRegister], sublayer: int, last: bool
    ) -> None:
        """maps[s] becomes maps[before[s]]; before[s] becomes 0. In the end one state is enough.

        What is there already is taken away by units that let it pass: all of it is >= 0.
        """
        most = len(maps) - 1.0
        unit, wanted = self.sketch.unit, range(1 if last else len(maps))
        for state in wanted:
            rungs = (
                WordForm({before[state]: most}) + WordForm({option: 1.0}) + -most * t
                for t, option in enumerate(maps)
            )
            multiplexer(self.sketch, sublayer, f"compose {state}", rungs, most, maps[state])
            unit(
                sublayer,
                f"compose {state}",
                WordForm({before[state]: 1.0}),
                {maps[state]: -most, before[state]: -1.0},
            )
            unit(sublayer, f"compose {state}", WordForm({maps[state]: 1.0}), {maps[state]: -1.0})

    def _note(
        self,
        steps: Round,
        maps: list[WordRegister],
        before: list[WordRegister],
        sublayer: int,
        last: bool,
    ) -> None:
        for step, register in zip(steps[0], before, strict=True):
            self.held.append((sublayer, WordForm({register: 1.0}), step))
        for step, register in zip(steps[1][: 1 if last else None], maps, strict=False):
            self.held.append((sublayer + 1, WordForm({register: 1.0}), step))


@dataclass(frozen=True, eq=False)
class _Track:
    place: WordForm
    square: WordForm
    one: WordForm
