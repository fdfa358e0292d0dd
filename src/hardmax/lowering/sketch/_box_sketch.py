"""The sketch of a Transformer whose input is a point of a box: functions, and networks.

The prompt is (sink, data, further tokens). The data token carries the computation in its registers.
A register starts as an affine function of the input (its preload) and heads add to it; the sink
holds 0 in all of them. Everything here is small and exact; `BoxAssembly` turns it into weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hardmax.core import Box
from hardmax.lowering.sketch._layers import EMBEDDING, Form, attention_from, feed_forward_from
from hardmax.numerics import Format

Pair = tuple[float, float]  # the ends of a range


@dataclass(eq=False)
class BoxRegister:
    """A register: offset + weights . input + sum over makers of writes[maker] * output.

    On the data token, that is. A `table` (tokens x (inputs + 1), the constant last) is what the
    embedding lays down on every token instead, for heads to look at.
    """

    name: str = ""
    inputs: dict[int, Fraction] = field(default_factory=dict)
    offset: Fraction = Fraction(0)
    writes: dict[int, Fraction] = field(default_factory=dict)
    table: np.ndarray | None = None
    bound: ClassVar[float] = math.inf  # ranges are found once everything is drawn
    beyond: ClassVar[float] = math.inf


BoxForm = Form[BoxRegister, Fraction]


def exact_form(number: Fraction | float = 0, register: BoxRegister | None = None) -> BoxForm:
    """A number exactly, plus a register if one is given."""
    return Form({} if register is None else {register: Fraction(1)}, Fraction(number))


@dataclass(frozen=True, eq=False)
class Gate:
    """One head over {sink, data}: value * sigmoid(coldness * gate), both read at its sublayer.

    Keys are +-1/2, so the data token leads the sink by `gate`, and the largest logit is half of
    coldness * |gate|. The sink's value is 0.
    """

    sublayer: int
    gate: BoxForm
    value: BoxForm
    coldness: float
    node: int
    gain: float  # how much the node's result moves with this head's output

    @property
    def is_soft_maximum(self) -> bool:
        """Of the value and 0: the gate is its own value."""
        return self.gate.key == self.value.key


@dataclass(frozen=True, eq=False)
class Unit:
    """One ReLU of a feed-forward layer: max(value, 0)."""

    sublayer: int
    value: BoxForm
    node: int
    gain: float


# by logits that are off by so much, questions that are, and the share that differences are off by
Moved = Callable[[float, Sequence[float], float], float]


@dataclass(frozen=True, eq=False)
class Chooser:
    """One head over all tokens, whose keys and values are laid down by the embedding.

    Token j scores query . (keys[j] as affine functions of the input) and holds values[j], affine
    in the input too; both are tables over tokens. `query` are forms of the data token.
    """

    sublayer: int
    query: tuple[BoxForm, ...]
    keys: tuple[np.ndarray, ...]  # one table (tokens x (inputs + 1)) for each query
    values: np.ndarray  # tokens x (inputs + 1): weights of the inputs, then the constant
    coldness: float
    node: int
    gain: float
    score_ends: tuple[np.ndarray, np.ndarray]  # each token's smallest and largest score
    value_range: Pair
    contest: bool = False  # the scores are the values
    spread: float = math.inf  # sum_jk p_j p_k |values_j - values_k| at most, whatever is asked
    weighed: float = math.inf  # and sum_k p_k |values_k|
    moved: Moved | None = None  # how far rounding moves the mean; the last query is 1
    heavy: Callable[[Format], int] | None = None  # tokens; all others weigh less than a rounding

    @property
    def tokens(self) -> int:
        return self.values.shape[0]


@dataclass(frozen=True, eq=False)
class Multiplier:
    """Two gated units of a feed-forward layer: first * second, exactly."""

    sublayer: int
    first: BoxForm
    second: BoxForm
    node: int
    gain: float

    @property
    def is_square(self) -> bool:
        return self.first.key == self.second.key


Maker = Gate | Unit | Chooser | Multiplier  # what writes to registers


def forms_of(maker: Maker) -> tuple[BoxForm, ...]:
    """All that a maker reads."""
    match maker:
        case Gate():
            return maker.gate, maker.value
        case Unit():
            return (maker.value,)
        case Chooser():
            return maker.query
        case Multiplier():
            return maker.first, maker.second


class BoxSketch:
    """Rows and makers, emitted node by node."""

    def __init__(self, domain: Box) -> None:
        self.domain = domain
        self.makers: list[Maker] = []
        self.registers: list[BoxRegister] = [
            BoxRegister(inputs={i: Fraction(1)}) for i in range(domain.dimension)
        ]
        self.outputs: list[BoxForm] = []
        self.views: dict[object, BoxForm] = {}

    def input(self, index: int) -> BoxForm:
        return exact_form(0, self.registers[index])

    def ready(self, *forms: BoxForm) -> int:
        """The first sublayer that can read all forms."""
        makers = {m for form in forms for register in form.terms for m in register.writes}
        return max((self.makers[m].sublayer for m in makers), default=EMBEDDING) + 1

    def register(self, preload: BoxForm | None = None) -> BoxRegister:
        """A new register, which follows a form if one is given."""
        self.registers.append(BoxRegister())
        if preload is not None:
            self.follow(self.registers[-1], preload)
        return self.registers[-1]

    def follow(self, register: BoxRegister, form: BoxForm) -> None:
        """Let a register follow a form: whatever writes to the form writes to it too."""
        register.offset += form.constant
        for source, factor in form.terms.items():
            register.offset += factor * source.offset
            for table, others in (
                (register.inputs, source.inputs),
                (register.writes, source.writes),
            ):
                for key, weight in others.items():
                    table[key] = table.get(key, Fraction(0)) + factor * weight

    def view(self, form: BoxForm, seen: BoxForm) -> None:
        """Note that what was preloaded with a form shows it until its own makers write there."""
        self.views.setdefault(form.key, seen)

    def gate(
        self,
        gate: BoxForm,
        value: BoxForm,
        *,
        coldness: float,
        node: int,
        gain: float,
        sublayer: int | None = None,
    ) -> int:
        """Emit value * sigmoid(coldness * gate) at the first attention layer that can."""
        if sublayer is None:
            sublayer = attention_from(self.ready(gate, value))
        return self._emit(Gate(sublayer, gate, value, coldness, node, gain))

    def unit(self, value: BoxForm, *, node: int, gain: float, sublayer: int | None = None) -> int:
        """Emit max(value, 0) at the first feed-forward layer that can."""
        sublayer = feed_forward_from(self.ready(value)) if sublayer is None else sublayer
        return self._emit(Unit(sublayer, value, node, gain))

    def multiply(self, first: BoxForm, second: BoxForm, *, node: int, gain: float) -> int:
        """Emit first * second at the first feed-forward layer that can."""
        sublayer = feed_forward_from(self.ready(first, second))
        return self._emit(Multiplier(sublayer, first, second, node, gain))

    def choose(self, chooser: Chooser) -> int:
        return self._emit(chooser)

    def write(self, register: BoxRegister, maker: int, weight: Fraction | float) -> None:
        register.writes[maker] = register.writes.get(maker, Fraction(0)) + Fraction(weight)

    def written(self, maker: int, weight: Fraction | float = 1) -> BoxForm:
        """A new register that holds what a maker writes, and nothing else."""
        register = self.register()
        self.write(register, maker, weight)
        return exact_form(0, register)

    def _emit(self, maker: Maker) -> int:
        self.makers.append(maker)
        return len(self.makers) - 1

    def reads(self) -> Iterator[tuple[int, BoxForm]]:
        """Every form that somebody reads, and at which sublayer; outputs after all of them."""
        for maker in self.makers:
            for form in forms_of(maker):
                yield maker.sublayer, form
        for form in self.outputs:
            yield self.last_sublayer + 1, form

    def drop(self, register: BoxRegister, after: int) -> None:
        """Leave a register out of all that is read after a sublayer."""
        for m, maker in enumerate(self.makers):
            if maker.sublayer > after:
                self.makers[m] = _without(maker, register)
        self.outputs = [_drop(form, register) for form in self.outputs]

    @property
    def last_sublayer(self) -> int:
        return max((maker.sublayer for maker in self.makers), default=EMBEDDING)

    @property
    def tokens(self) -> int:
        choosers = [m.tokens for m in self.makers if isinstance(m, Chooser)]
        gates = any(isinstance(m, Gate) for m in self.makers)
        return max([1 + gates, *choosers])

    @property
    def data(self) -> int:
        """The data token."""
        return 1 if self.tokens > 1 else 0


def _without(maker: Maker, register: BoxRegister) -> Maker:
    match maker:
        case Gate():
            return replace(
                maker, gate=_drop(maker.gate, register), value=_drop(maker.value, register)
            )
        case Unit():
            return replace(maker, value=_drop(maker.value, register))
        case Chooser():
            return replace(maker, query=tuple(_drop(form, register) for form in maker.query))
        case Multiplier():
            first, second = _drop(maker.first, register), _drop(maker.second, register)
            return replace(maker, first=first, second=second)


def _drop(form: BoxForm, register: BoxRegister) -> BoxForm:
    return Form({r: w for r, w in form.terms.items() if r is not register}, form.constant)
