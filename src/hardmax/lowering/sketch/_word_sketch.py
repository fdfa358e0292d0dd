"""The sketch of a Transformer that reads words: what each register holds is decided first.

Where it lies is decided afterwards (`WordAssembly`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Softmax, Words
from hardmax.lowering.sketch._layers import (
    EMBEDDING,
    Form,
    HeadSketch,
    Law,
    Layers,
    Levels,
    UnitSketch,
)
from hardmax.lowering.sketch._levels import spanned


@dataclass(eq=False)
class WordRegister:
    """One number per token: what the embedding gives symbols, places and the start token."""

    name: str
    symbols: np.ndarray
    places: np.ndarray
    start: float = 0.0
    bound: float = 0.0  # on the absolute value, at every symbol
    beyond: float = 0.0  # at the start token, if that may be more; no bound if it is wild
    is_wild: bool = False  # at the start token, where sums may become multiples of themselves
    everywhere: bool = False  # the start token holds it as symbols do, and strays no further

    def open_to(self, inner: WordForm, weight: float) -> None:
        """At the start token a unit that reads this form may be on, and write to the register."""
        self.is_wild |= any(one.is_wild for one in inner.terms)
        self.beyond += abs(weight) * inner.widest

    def __repr__(self) -> str:
        return f"WordRegister({self.name})"


WordForm = Form[WordRegister, float]
WordHead = HeadSketch[WordRegister, float]
WordUnit = UnitSketch[WordRegister, float]


@dataclass(frozen=True, eq=False)
class WordSaying:
    """What a form says once a sublayer has run: labels[k] where it is numbers[k]."""

    name: str
    form: WordForm
    sublayer: int
    numbers: tuple[float, ...]
    labels: tuple[str, ...]
    at_start: bool = False  # at the start token, too


@dataclass(frozen=True, eq=False)
class Placed:
    """A form, the first sublayer that can read it, and whether it is 0 at the start token.

    What is clean is so once its constant is held by the token register.
    """

    form: WordForm
    ready: int
    is_clean: bool

    def __add__(self, other: Placed) -> Placed:
        return Placed(
            self.form + other.form,
            max(self.ready, other.ready),
            self.is_clean and other.is_clean,
        )

    def scaled(self, factor: float, constant: float = 0.0, off: float = 0.0) -> Placed:
        form = (self.form * factor + constant).looser(off)
        return Placed(form, self.ready, self.is_clean)

    def looser(self, off: float) -> Placed:
        """The same place for what is so much further away."""
        return replace(self, form=self.form.looser(off))


class NeedsSaneStart(Exception):
    """A head's sum is read at the start token, too: it must be a sum there."""


@dataclass(frozen=True)
class Care:
    """How closely heads do what they stand for; what is closer has larger logits and weights."""

    bits: int = 16  # a sum of n numbers of at most 1 is right to 2^-16
    leak: float = 30.0  # e^-30 of the weight goes astray, divided by the number of tokens

    def coldness(self, gap: float, tokens: int) -> Softmax:
        """Cold enough that all losers together get less than e^-leak.

        A power of 2 rounds nothing.
        """
        wanted = (self.leak + math.log(tokens)) / gap
        return Softmax(2.0 ** math.ceil(math.log2(wanted)))


def position_columns(positions: str, longest: int) -> list[np.ndarray]:
    """What the positions hold whether or not it is needed: any function of the index is linear.

    One-hot: one column for each place but the first, where all are 0. Sinusoidal: sines and
    cosines of the multiples of one angle, which are orthogonal.
    """
    places = np.arange(longest)
    if positions == "one-hot":
        return [(places == place).astype(float) for place in range(1, longest)]
    if positions != "sinusoidal":
        return []
    waves = []
    for k in range(1, longest // 2 + 1):
        angle = 2 * np.pi * k * places / longest
        waves += [np.cos(angle)] if 2 * k == longest else [np.cos(angle), np.sin(angle)]
    return waves


class WordSketch:
    """WordRegisters, heads and hidden units of a Transformer of words."""

    def __init__(self, words: Words, positions: str = "scalar", care: Care | None = None) -> None:
        self.words, self.positions = words, positions
        self.care = Care() if care is None else care
        self.sane_start = False  # whether the start token, too, gets sums, not multiples of them
        self.registers: list[WordRegister] = []
        self.layers: Layers[WordRegister, float] = Layers()
        self.needs_start = False
        self.shared_heads: dict[object, WordHead] = {}  # by what they do
        self._units: dict[object, WordUnit] = {}
        self._columns: list[tuple[WordRegister, np.ndarray]] = []
        self._names: set[str] = set()
        self._token: WordRegister | None = None
        self._one: WordRegister | None = None
        for number, places in enumerate(position_columns(positions, words.longest)):
            register = self.register(f"position {number}", float(np.abs(places).max()))
            register.places = places - places[0]
            empty = np.zeros(len(words.alphabet))
            self._columns.append((register, np.concatenate([empty, register.places])))

    # ---- registers ---------------------------------------------------------------------------

    def register(self, name: str, bound: float) -> WordRegister:
        """A register that is empty at first; of several with one name, later ones are parts."""
        own = self.free_name(name)
        empty = np.zeros(len(self.words.alphabet)), np.zeros(self.words.longest)
        self.registers.append(WordRegister(own, *empty, bound=bound))
        return self.registers[-1]

    def free_name(self, name: str) -> str:
        """The first of name, name.2, name.3, ... that no register has; it is taken from now on."""
        own, part = name, 1
        while own in self._names:
            part += 1
            own = f"{name}.{part}"
        self._names.add(own)
        return own

    def _check_index(self, name: object) -> None:
        if self.positions in ("relative", "none"):
            known = "No positions are" if self.positions == "none" else "Only relative biases are"
            raise RequestError(
                f"{known} asked for, but the step {name} needs the index itself. Use "
                f'positions="scalar".'
            )

    @property
    def tokens(self) -> int:
        """Of the longest word, with a start token."""
        return self.words.longest + 1

    def coldness(self, gap: float) -> Softmax:
        return self.care.coldness(gap, self.tokens)

    def check_order(self, step: str) -> None:
        """A mask or a bias tells positions apart: not without positions."""
        if self.positions == "none":
            raise RequestError(
                f"No positions are asked for, but the step {step} selects by the index. Use "
                f'positions="scalar".'
            )

    def column(self, name: object, symbols: np.ndarray, places: np.ndarray) -> WordForm:
        """symbols[token] + places[index]: an affine function of a register, 0 at the start token.

        A combination of columns that are there needs no register of its own, and the name's text
        is not asked for.
        """
        if symbols.any() and places.any() and self.positions != "scalar":
            nowhere, nothing = np.zeros(len(places)), np.zeros(len(symbols))
            return self.column(name, symbols, nowhere) + self.column(name, nothing, places)
        base = float(symbols[0] + places[0])
        symbols, places = symbols - symbols[0], places - places[0]
        if places.any():
            self._check_index(name)
        if not (symbols.any() or places.any()):
            return Form({}, base)
        together = np.concatenate([symbols, places])
        known = spanned([column for _, column in self._columns], together)
        if known is None:
            register = self.register(str(name), float(np.abs(symbols[:, None] + places).max()))
            register.symbols, register.places = symbols, places
            self._columns.append((register, together))
            return Form({register: 1.0}, base)
        weights, off = known
        registers = [register for register, _ in self._columns]
        terms = {r: w for r, w in zip(registers, weights, strict=True) if w}
        return Form(terms, base, 2.0 * off)  # a symbol's and a place's

    @property
    def token(self) -> WordForm:
        """1 at every symbol, 0 at the start token."""
        if self._token is None:
            self._token = self.register("token", 1.0)
            self._token.symbols = np.ones(len(self.words.alphabet))
        return Form({self._token: 1.0})

    @property
    def one(self) -> WordForm:
        """1 at every token, the start token among them."""
        if self._one is None:
            self._one = self.register("one", 1.0)
            self._one.symbols, self._one.start = np.ones(len(self.words.alphabet)), 1.0
        return Form({self._one: 1.0})

    def sayings(self) -> list[WordSaying]:
        """That the constants are 1, for people."""
        known = [("token", self._token, False), ("one", self._one, True)]
        return [
            WordSaying(name, Form({register: 1.0}), EMBEDDING, (1.0,), ("1",), at_start)
            for name, register, at_start in known
            if register is not None
        ]

    @property
    def token_register(self) -> WordRegister | None:
        """The register behind `token`, if it was needed."""
        return self._token

    def token_weight(self, form: WordForm) -> float:
        """What the token register adds to a form, at every symbol."""
        return 0.0 if self._token is None else form.terms.get(self._token, 0.0)

    def linear(self, form: WordForm) -> WordForm:
        """The same at every symbol, without a constant: 0 where the registers are."""
        if form.constant == 0.0:
            return form
        return replace(Form(form.terms, 0.0, form.off) + self.token * form.constant, most=form.most)

    # ---- sublayers ---------------------------------------------------------------------------

    def head(self, sublayer: int, head: WordHead) -> WordHead:
        self.layers.heads.setdefault(sublayer, []).append(head)
        return head

    def unit(
        self,
        sublayer: int,
        step: str,
        inner: WordForm,
        outer: Mapping[WordRegister, float],
        law: Law = None,
    ) -> None:
        """relu(inner) into registers; one unit for everybody who needs the same."""
        key = (sublayer, inner.key)
        if key not in self._units:
            self._units[key] = WordUnit(step, inner, {}, law)
            self.layers.units.setdefault(sublayer, []).append(self._units[key])
        unit = self._units[key]
        unit.inner = unit.inner.looser(max(inner.off - unit.inner.off, 0.0))
        if not (law is unit.law or (isinstance(law, Levels) and isinstance(unit.law, Levels))):
            unit.law = None  # of two laws neither is about all that the unit writes
        for register, weight in outer.items():
            unit.outer[register] = unit.outer.get(register, 0.0) + weight
