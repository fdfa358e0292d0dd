"""Tables from words to words, memorised exactly.

Every token learns the whole word, as digits: with i the index and c the number of the symbol (from
1 on), relu(c - K (i - p)^2) is c at place p and 0 elsewhere, and a sum brings x_p to everybody; it
is 0 beyond the end. Row r of the table is found by its squared distance, which is linear in the x_p
and in q = sum of x_p^2: relu(1 - 2 (q - 2 r.x + |r|^2)) is 1 at x = r, and 0 at any other word
with room to spare. So one hidden unit a row writes all answers, and a multiplexer picks that of
the own index.
"""

from __future__ import annotations

import numpy as np

from hardmax.languages.programs import Item, Memorised, Sequence
from hardmax.lowering.gadgets import multiplexer, soft_sum
from hardmax.lowering.programs._placing import Made, Placing
from hardmax.lowering.sketch import OneOf, Placed, WordForm, feed_forward_from

_BITS = 30  # of a digit: distances add up many of them


class Tables:
    """Turns memorised tables into layers."""

    def __init__(self, placing: Placing) -> None:
        self.placing, self.sketch = placing, placing.sketch
        self.longest = placing.words.longest

    def make(self, value: Memorised) -> Made:
        digits = {one: k + 1 for k, one in enumerate(self.placing.items(value.source))}
        places, square = self._word(value, len(digits))
        answers = self._answers(value, digits, places, square)
        return Made(self._own(value, answers), self.placing.natural(value))

    def _word(self, value: Memorised, symbols: int) -> tuple[list[Placed], Placed]:
        """The digit of every place, and the sum of their squares, at every token."""
        numbers = np.arange(symbols) + 1.0
        digit = self.placing.place(value.source, numbers, clean=True)
        index = self._index(1)
        parabola = self._index(2)
        sublayer = feed_forward_from(digit.ready)
        places = []
        for place in range(self.longest):
            away = parabola.form + index.form * (-2.0 * place) + float(place * place)
            name = f"symbol {place}"
            register = self.sketch.register(f"{name} if here", float(symbols))
            inner = self.sketch.linear(digit.form + away * -(symbols + 1.0))
            self.sketch.unit(sublayer, name, inner, {register: 1.0})
            own = Placed(WordForm({register: 1.0}), sublayer + 1, True)
            places.append(soft_sum(self.sketch, name, own, None, False, _BITS))
        squares = self.placing.place(value.source, numbers**2, clean=True)
        late = Placed(squares.form, max(squares.ready, sublayer + 1), True)
        return places, soft_sum(self.sketch, "sum of squares", late, None, False, _BITS)

    def _index(self, power: int) -> Placed:
        return self.placing.place(Sequence().index, np.arange(float(self.longest)) ** power)

    def _answers(
        self, value: Memorised, digits: dict[Item, int], places: list[Placed], square: Placed
    ) -> list[Placed]:
        """For each place, the answer's number less that of the answer off the table."""
        code = self.placing.code(value)
        usual = float(code.number(value.otherwise))
        numbers = self.placing.natural(value)
        answers = [
            self.sketch.register(f"answer {p}", float(np.ptp(numbers))) for p in range(self.longest)
        ]
        sublayer = feed_forward_from(square.ready)
        law = OneOf(1.0)
        for word, answer in value.rows.items():
            if len(word) > self.longest or not all(one in digits for one in word):
                continue  # no such word will come
            row = [float(digits[one]) for one in word]
            inner = square.form * -2.0 + (1.0 - 2.0 * sum(d * d for d in row))
            for d, place in zip(row, places, strict=False):
                inner = inner + place.form * (4.0 * d)
            outer = {
                answers[p]: float(code.number(one)) - usual
                for p, one in enumerate(answer)
                if code.number(one) != code.number(value.otherwise)
            }
            self.sketch.unit(sublayer, f"row {''.join(map(str, word))}", inner, outer, law)
            for register, weight in outer.items():
                register.open_to(inner, weight)
        return [Placed(WordForm({register: 1.0}), sublayer + 1, False) for register in answers]

    def _own(self, value: Memorised, answers: list[Placed]) -> Placed:
        """The answer of the own index: a multiplexer with the index as number."""
        numbers = self.placing.natural(value)
        low, most = float(numbers.min()), float(np.ptp(numbers))
        usual = float(self.placing.code(value).number(value.otherwise))
        index = self._index(1)
        sublayer = feed_forward_from(answers[0].ready)
        register = self.sketch.register(self.placing.names.of(value), most * self.longest)
        rungs = [
            option.form + index.form * most + (usual - low - most * t)
            for t, option in enumerate(answers)
        ]
        multiplexer(self.sketch, sublayer, "answer here", rungs, most, register)
        for rung in rungs:
            register.open_to(rung, 2.0)
        return Placed(WordForm({register: 1.0}, low) + index.form * -most, sublayer + 1, False)
