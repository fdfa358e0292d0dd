"""How far a Transformer strays from what its sketch stands for, on all words at once.

In a sketch heads are hard, sums are sums and numbers are real. The Transformer has softmaxes, whose
losers keep some weight, and floats, which round. For every register three numbers are carried from
sublayer to sublayer: how large it is at any symbol of any word, how far it strays there, and how
large it is at the start token (0 if it is 0 exactly). The lemmas:

*Forms.* c + sum w_i r_i of registers that stray by e_i strays by sum |w_i| e_i, and its rounding is
at most gamma_k of the sum of absolute values. Where all terms are multiples of one power of 2, as
tokens and places that nothing was added to are, and are not too large for it, nothing is rounded.

*Near a grid.* Let the numbers that are added be multiples of 2^g, small enough for all of their
sums to be floats, but for deviations that add up to D <= 2^g u/2. A partial sum that should not be
0 is at least 2^g, so half its ulp is at least 2^g u/2: it is rounded to what it should be, and its
deviation is gone. One that should be 0 is the sum of deviations, rounded relative to itself. So
the result is off by at most D (1 + gamma_k), as if nothing but D itself were rounded. The same is
true of products with weights on a grid.

*Means.* Let logits stray by d at most. Losers, ideally G behind, have at most n e^(2 d - G) of the
weight. Among the winners the mean of values in an interval of length s moves by at most
s tanh(d/2) (`weights_moved`). If all winners hold the same, it does not move. If there is one
winner, and the others have less than u/4 of the weight, its computed weight is 1 and its value is
what it was: adding a term t to a float errs by at most |t|, because the float itself is that near.

*Sums.* Each of n symbols has the weight r/(1 + r n) instead of r, so a sum S becomes S/(1 + r n),
off by less than r n |S|; the start token, whose weight is near 1, must hold 0 exactly.

*Look-ups.* All units of a look-up read one form x, whose levels are known. A polygon moves by its
slopes near a level times what x strays: by nothing if that is on a plateau.

*One of many.* Where at most one unit is on, and the others are off by a margin larger than they
stray, the worst of them counts, not their sum.

*Ladders.* clip(z_t, 0, C) with z_t = g_t + C (a - t), 0 <= g_t <= C: for |t - a| >= 2 it is C away
from where it changes, so at most three of the terms stray.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from hardmax.core import Softmax
from hardmax.lowering.sketch._layers import EXCLUDED, Ladder, Levels, OneOf
from hardmax.lowering.sketch._levels import Bends
from hardmax.lowering.sketch._word_layers import heir_of
from hardmax.lowering.sketch._word_sketch import (
    WordForm,
    WordHead,
    WordRegister,
    WordSketch,
    WordUnit,
)
from hardmax.numerics import FLOAT64, REALS, UNIT, Format, gamma, inflate, lowest_bit, weights_moved

_OPERATIONS = 1000  # that a bound of this file takes, at most
_ROOM = 4.0  # times: partial sums, and what is rounded, fit the format, too
_NEAR = 2.0**7 * UNIT  # relative: knots that are so close to a level may lie on either side of it


class Held(NamedTuple):
    """How large something is, ideally, and how far it strays from that."""

    size: float
    stray: float


class Passing(NamedTuple):
    """What a sum of units' values rounds, and the power of 2 of which it is ideally a multiple."""

    rounding: float
    grid: float


class Strays(NamedTuple):
    """How far answers stray: because heads are soft, and because floats round."""

    softening: float
    rounding: float


def strays_of(
    sketch: WordSketch, answers: Sequence[WordForm], format: Format = FLOAT64
) -> list[Strays]:
    """How far each answer strays in a format, on every word and at every symbol.

    Infinitely far where a number exceeds the format, or a sum's share of the weight vanishes.
    """
    for head in sketch.layers.all_heads:
        for form in head.forms:
            sketch.linear(form)  # may call for the token register
    found = []
    soft, both = (_Straying(sketch, answers, one) for one in (REALS, format))
    for answer in answers:
        softening, all_in_all = (run.form(answer).stray for run in (soft, both))
        softening = inflate(softening, _OPERATIONS)
        found.append(Strays(softening, inflate(max(all_in_all - softening, 0.0), _OPERATIONS)))
    return found


class _Straying:
    """One passage through the sublayers, in reals or in floats."""

    def __init__(self, sketch: WordSketch, answers: Sequence[WordForm], format: Format) -> None:
        self.sketch, self.format = sketch, format
        self.exact = format is REALS
        self.floats = FLOAT64 if self.exact else format
        self._gammas: dict[float, float] = {}
        self.tokens = sketch.words.longest + 1
        self.heir = heir_of(sketch, answers)
        self.size: dict[WordRegister, float] = {}
        self.stray: dict[WordRegister, float] = {}
        self.start: dict[WordRegister, float] = {}  # |what the start token holds|
        self.grid: dict[WordRegister, float] = {}  # ideally a multiple of 2^grid; -inf if unknown
        for register in sketch.registers:
            self._embed(register)
        with np.errstate(over="ignore", invalid="ignore"):
            for number in sketch.layers.sublayers:
                if number % 2:
                    self._feed_forward(sketch.layers.units[number])
                else:
                    self._attend(sketch.layers.heads[number])

    def _gamma(self, terms: float) -> float:
        if terms not in self._gammas:
            self._gammas[terms] = float(gamma(terms, self.format))
        return self._gammas[terms]

    def _embed(self, register: WordRegister) -> None:
        held = register.symbols[:, None] + register.places
        self.size[register] = size = float(np.abs(held).max(initial=0.0))
        parts = np.concatenate([register.symbols, register.places, [register.start]])
        grid = float(lowest_bit(parts).min())
        is_sum = register.symbols.any() and register.places.any()
        is_held = bool(self.floats.holds(parts).all())
        is_exact = is_held and (
            not is_sum or bool(self.floats.is_exact(2.0 * np.abs(parts).max(), grid))
        )
        self.grid[register] = grid if is_exact and register is not self.heir else -math.inf
        whole = float(np.abs(register.symbols).max(initial=0.0) + np.abs(register.places).max())
        rounded = self._gamma(1) * size if is_held else self._gamma(2) * whole
        self.stray[register] = 0.0 if is_exact else rounded + self.floats.smallest
        self.start[register] = abs(register.start)

    # ---- forms ---------------------------------------------------------------------------------

    def form(self, form: WordForm) -> Held:
        """At any symbol, as floats work it out; a number that it stands for was rounded, too."""
        return self._held(form, self._drift(form) + self._rounding(form))

    def _held(self, form: WordForm, stray: float) -> Held:
        return Held(min(self._terms(form), form.most), stray)

    def _terms(self, form: WordForm) -> float:
        """The sum of absolute values, which partial sums do not exceed."""
        return abs(form.constant) + sum(abs(w) * self.size[r] for r, w in form.terms.items())

    def _drift(self, form: WordForm) -> float:
        """What comes from the registers, and from what was charged when the form was found."""
        moved = sum(abs(w) * self.stray[r] for r, w in form.terms.items())
        return moved if self.exact else moved + form.off

    def _grid(self, form: WordForm) -> float:
        """The power of 2 of which a form is ideally a multiple, if such sums are exact; or -inf."""
        found = _lowest_bit(form.constant)
        for register, weight in form.terms.items():
            found = min(found, self.grid[register] + _lowest_bit(weight))
        size = self._terms(form)
        return found if not form.off and self.floats.is_exact(size, found) else -math.inf

    def _is_near(self, grid: float, drift: float) -> bool:
        """Whether deviations are so small that sums on the grid are rounded to what they are."""
        if grid == -math.inf:
            return False
        return drift <= math.ldexp(0.25 * self.floats.unit, int(min(max(grid, -900.0), 900.0)))

    def _rounding(self, form: WordForm) -> float:
        if self.exact:
            return 0.0
        drift = self._drift(form)
        if self._is_near(self._grid(form), drift):
            return self._gamma(len(form.terms) + 4.0) * drift
        terms = len(form.terms) + 4.0  # weights and constants are rounded numbers themselves
        whole = abs(form.constant) + sum(
            abs(w) * (self.size[r] + self.stray[r] + (r is self.heir))
            for r, w in form.terms.items()
        )
        return self._gamma(terms) * whole + terms * self.format.normal

    def _at_start(self, form: WordForm) -> float:
        """How large a form without a constant is at the start token."""
        return sum(abs(w) * self.start[r] for r, w in form.terms.items())

    def _write(
        self,
        register: WordRegister,
        size: float,
        stray: float,
        start: float,
        grid: float,
        is_shared: bool = False,
    ) -> None:
        """Something is added to a register, ideally a multiple of 2^grid.

        It is shared if the start token gains what every symbol does.
        """
        before = self.size[register]
        self.size[register] = min(before + size, register.bound)
        if is_shared:  # what a symbol gains, it holds afterwards or held the opposite of before
            start = min(start, self.size[register] + before + stray)
        held = self.size[register] + (register is self.heir)
        self.stray[register] += stray
        grid = min(self.grid[register], grid)
        self.grid[register] = grid if self.floats.is_exact(2.0 * held, grid) else -math.inf
        if not self.floats.fits(_ROOM * held):
            self.stray[register] = math.inf
        near = self._is_near(self.grid[register], self.stray[register])
        self.stray[register] += self._gamma(2) * (self.stray[register] if near else held)
        self.start[register] = (self.start[register] + start) * (1.0 + self._gamma(4))
        if register.everywhere:
            self.start[register] = register.bound + self.stray[register]

    # ---- attention -----------------------------------------------------------------------------

    def _attend(self, heads: Iterable[WordHead]) -> None:
        written = []
        for head in heads:
            logits = self._logits(head)
            for form, column in zip(head.value, head.output, strict=True):
                row = self.sketch.linear(form)
                for register, weight in column.items():
                    gained = self._received(head, row, abs(weight), logits)
                    grid = -math.inf
                    if head.does == "fetch":
                        grid = self._grid(row) + _lowest_bit(weight)
                    written.append((register, *gained, grid, self._is_shared(head)))
        for one in written:
            self._write(*one)

    def _is_shared(self, head: WordHead) -> bool:
        """Whether the start token asks for the sum that every symbol asks for."""
        everybody = not head.causal and head.bias is None
        return head.does == "sum" and self.sketch.sane_start and everybody

    def _received(
        self, head: WordHead, row: WordForm, weight: float, logits: float
    ) -> tuple[float, float, float]:
        """What a register gains, how far that strays, and what the start token gains at most."""
        value, first = self.form(row), self._at_start(row)
        most = max(value.size + value.stray, first)
        at_start = 0.0
        if self.sketch.needs_start:
            at_start = weight * (first if head.causal else most) * (1.0 + self._gamma(8))
        noise = self._gamma(self.tokens + self.floats.exp_units + 8.0)
        if head.does == "sum":
            share, count = math.exp(-self._lag(head)), self.tokens - 1.0
            if self._lag(head) > -self.floats.exp_vanishes:
                return math.inf, math.inf, math.inf
            apart = share * count + noise * (1.0 + self._lag(head)) + math.exp(-EXCLUDED)
            stray = share * count * (value.stray + most * apart) + first
            if self.sketch.sane_start and not head.causal:
                at_start = weight * (share * count * value.size + stray)  # it asks as symbols do
            return weight * share * count * value.size, weight * stray, at_start
        behind = head.gap * _coldness(head) * (1.0 - self._gamma(8)) - 2.0 * logits
        lost = min(1.0, self.tokens * math.exp(-max(behind, 0.0)))
        if not head.query and head.bias is None:
            lost = 0.0  # everybody wins
        moved = weights_moved(logits) if head.does == "mean" else 0.0
        held = value.stray if head.does == "fetch" else max(value.stray, first)
        if head.does == "fetch" and lost <= 0.125 * self.floats.unit:
            noise = 2.0 * lost  # the one that wins has all of the weight
        stray = held + 2.0 * most * (lost + moved) + noise * most
        return weight * value.size, weight * stray, at_start

    def _lag(self, head: WordHead) -> float:
        """How far the symbols' logits are behind the start token's, in a sum."""
        return abs(self.sketch.linear(head.key[0]).terms[self._token])

    @property
    def _token(self) -> WordRegister:
        assert self.sketch.token_register is not None
        return self.sketch.token_register

    def _logits(self, head: WordHead) -> float:
        """How far the logits of a hard head stray."""
        if head.does == "sum":
            return 0.0
        stray = whole = first = 0.0
        grid = math.inf
        for asked, own in zip(head.query, head.key, strict=True):
            query, key = (self.form(self.sketch.linear(one)) for one in (asked, own))
            grid = min(grid, sum(self._grid(self.sketch.linear(one)) for one in (asked, own)))
            stray += query.size * key.stray + (key.size + key.stray) * query.stray
            whole += (query.size + query.stray) * (key.size + key.stray)
            if self.sketch.needs_start and head.does != "fetch":
                first += (query.size + query.stray) * self._at_start(self.sketch.linear(own))
        stray = max(stray, first)
        if not (stray == 0.0 and self.floats.is_exact(whole, grid)):
            stray += self._gamma(len(head.query) + 4.0) * whole
        if not self.floats.fits(_ROOM * whole * _coldness(head)):
            return math.inf
        return stray * _coldness(head)

    # ---- hidden units --------------------------------------------------------------------------

    def _feed_forward(self, units: Sequence[WordUnit]) -> None:
        groups: dict[object, list[WordUnit]] = {}
        for unit in units:
            groups.setdefault(self._group(unit), []).append(unit)
        gains: dict[WordRegister, list[tuple[float, float, float]]] = {}
        for members in groups.values():
            writers: dict[WordRegister, list[WordUnit]] = {}
            for unit in members:
                for register in unit.outer:
                    writers.setdefault(register, []).append(unit)
            for register, own in writers.items():
                gained = *self._gained(own, register), self._started(own, register)
                gains.setdefault(register, []).append(gained)
        passing = self._passing(units)
        for register, found in gains.items():
            size, stray, start = (sum(column) for column in zip(*found, strict=True))
            rounding, grid = passing[register]
            self._write(register, size, stray + rounding, start, grid)

    def _group(self, unit: WordUnit) -> object:
        """Units of a look-up belong together by the form they read, others by their law."""
        if isinstance(unit.law, Levels):
            return frozenset((id(r), w) for r, w in self._read(unit).terms.items())
        return id(unit) if unit.law is None else id(unit.law)

    def _read(self, unit: WordUnit) -> WordForm:
        """The inner form without the token register, which is 1 at symbols, and its constant."""
        token = self.sketch.token_register
        kept = {r: w for r, w in unit.inner.terms.items() if r is not token}
        constant = unit.inner.constant + self.sketch.token_weight(unit.inner)
        return WordForm(kept, constant, unit.inner.off, unit.inner.most)

    def _gained(self, units: list[WordUnit], register: WordRegister) -> tuple[float, float]:
        """What units of one group write to a register: how large, and how far it strays.

        How far the form strays moves all of them together; the rounding is each one's own.
        """
        weights = np.array([abs(unit.outer[register]) for unit in units])
        drifts = np.array([self._drift(unit.inner) for unit in units])
        rounding = np.array([self._rounding(unit.inner) for unit in units])
        own = float(weights @ rounding)
        worst = float((drifts + rounding).max())
        law = units[0].law
        if isinstance(law, Levels):
            size, moved = self._looked_up(units, register, float(drifts.max()))
            return size, moved + own
        size = float(weights @ [self._held(unit.inner, 0.0).size for unit in units])
        if isinstance(law, OneOf) and worst <= law.margin:
            return size, float((weights * (drifts + rounding)).max())
        if isinstance(law, Ladder) and worst <= law.rung:
            return size, 3.0 * float((weights * drifts).max()) + own
        return size, float(weights @ drifts) + own

    def _looked_up(
        self, units: list[WordUnit], register: WordRegister, drift: float
    ) -> tuple[float, float]:
        """How large a polygon is at its levels, and by how much it moves near them."""
        knots = np.array([-self._read(unit).constant for unit in units])
        bends = Bends(knots, np.array([unit.outer[register] for unit in units]))
        laws = [unit.law.numbers for unit in units if isinstance(unit.law, Levels)]
        levels = min(laws, key=len)
        reach = drift + _NEAR * float(np.abs(levels).max() + np.abs(knots).max())
        return bends.about(levels), drift * bends.steepest(levels, reach)

    def _passing(self, units: Sequence[WordUnit]) -> dict[WordRegister, Passing]:
        """What adding up the units' values rounds, for each register they are added to."""
        sums: dict[WordRegister, list[float]] = {}  # absolute values, deviations, grid, how many
        for unit in units:
            highest, grid = self._highest(unit), self._grid(unit.inner)
            apart = self._drift(unit.inner) + self._rounding(unit.inner)
            for register, weight in unit.outer.items():
                total = sums.setdefault(register, [0.0, 0.0, math.inf, 0.0])
                total[0] += abs(weight) * highest
                total[1] += abs(weight) * apart
                total[2] = min(total[2], grid + _lowest_bit(weight))
                total[3] += 1.0
        found = {}
        for register, (whole, apart, grid, count) in sums.items():
            near = FLOAT64.is_exact(whole, grid) and self._is_near(grid, apart)
            found[register] = Passing(self._gamma(count + 2.0) * (apart if near else whole), grid)
        return found

    def _highest(self, unit: WordUnit) -> float:
        """What a unit is at most, at a symbol."""
        stray = self._drift(unit.inner) + self._rounding(unit.inner)
        if isinstance(unit.law, Levels):
            top = float(unit.law.numbers.max()) + self._read(unit).constant
            return max(top, 0.0) + stray
        return self._held(unit.inner, 0.0).size + stray

    def _started(self, units: Sequence[WordUnit], register: WordRegister) -> float:
        """How much units of one group add to a register at the start token, at most.

        Units of a look-up read one number there, too: the polygon is as large as at its knots. A
        unit that is off whatever the number, with its rounding, adds nothing and rounds nothing.
        """
        if not self.sketch.needs_start:
            return 0.0
        total = rounding = reach = 0.0
        knots, weights = [], []
        for unit in units:
            moving, constant = self._at_start(unit.inner), unit.inner.constant
            slack = self._gamma(len(unit.inner.terms) + 4.0) * (moving + abs(constant))
            on = moving + constant + (slack if moving else 0.0)
            if on > 0.0:
                weight = unit.outer[register]
                total += abs(weight) * on
                rounding += abs(weight) * slack
                reach = max(reach, moving)
                knots.append(-constant)
                weights.append(weight)
        if not knots or not isinstance(units[0].law, Levels):
            return total
        return min(
            total, Bends(np.array(knots), np.array(weights)).largest_within(reach) + rounding
        )


@cache
def _lowest_bit(number: float) -> float:
    """`lowest_bit` of one number; there are few weights, and each of them is met many times."""
    return float(lowest_bit(number))


def _coldness(head: WordHead) -> float:
    assert isinstance(head.weighting, Softmax)
    return head.weighting.coldness
