"""Heads on registers: every token looks at one token, whatever the word, and copies what it holds.

Queries and keys read places alone, so who wins is the same for all words. What is fetched from one
position is a value of the target's own, if the target fetches it from the same position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hardmax.checker.sequences._scores import (
    is_hard,
    power_error,
    scores_by_token,
    seen_pairs,
    underflow,
)
from hardmax.checker.sequences._stream import check, check_sums, check_weights, strays
from hardmax.checker.sequences.registers._state import Register, State, near_grid
from hardmax.checker.sequences.registers._target import NOWHERE, RootForm, RootTarget
from hardmax.checker.sequences.registers._units import Hints
from hardmax.core import Aggregate, Attention, Head
from hardmax.numerics import Format, down, inflate, stray, up


class Look(NamedTuple):
    """Whom each token attends to, and the weight of all others as a multiple of the winner's."""

    winners: np.ndarray
    odds: np.ndarray  # infinite where the winner is not known
    sharp: bool  # so small that the format rounds all sums of weights to 1


def attend(
    state: State, layer: Attention, format: Format, hints: Hints, target: RootTarget
) -> State:
    """x + sum_h output_h @ (what the head receives), coordinate by coordinate."""
    looks = [look(state, head, format) for head in layer.heads]
    sizes = _received(state, layer, format)
    symbols, start = list(state.symbols), list(state.start or ())
    for c in np.flatnonzero(np.any([(h.output != 0.0).any(axis=1) for h in layer.heads], axis=0)):
        known = _copied(layer, int(c))
        copy = None
        if known is not None and not state.symbols[c].middle.any():
            copy = _Copy(state, known[1], int(c), looks[known[0]], format)
        fetched = None if copy is None else copy.fetched(hints.get(int(c), []), target)
        symbols[c] = Register.ball(sizes[c]) if fetched is None else fetched
        if state.start is not None:
            kept = None if copy is None else copy.kept()
            start[c] = Register.ball(sizes[c]) if kept is None else kept
    return State(state.length, tuple(symbols), tuple(start) if state.start is not None else None)


def _received(state: State, layer: Attention, format: Format) -> np.ndarray:
    """A bound on every coordinate after the layer, rounding included."""
    tokens, width = state.length + state.first, len(state.symbols)
    total, terms = state.sizes, 2
    for head in layer.heads:
        check_weights(format, head.value)
        check_weights(format, head.output)
        values = inflate(np.abs(head.value) @ state.sizes, width + 8)
        values = values + stray(width + 3, values, format)
        values = inflate(values + stray(2 * tokens + 8, values, format))
        check(format, values)
        if not is_hard(head):
            check_sums(format, tokens, values)
        total = total + np.abs(head.output) @ values
        terms += head.value_width
    total = inflate(total, terms + 8)
    total = inflate(total + stray(terms + 3, total, format))
    check(format, total)
    return np.asarray(total)


def _copied(layer: Attention, c: int) -> tuple[int, int] | None:
    """The one head that writes to a coordinate, and the coordinate that it copies, as it is."""
    writers = [(h, r) for h, head in enumerate(layer.heads) for r in np.flatnonzero(head.output[c])]
    if len(writers) != 1:
        return None
    number, row = writers[0]
    head = layer.heads[number]
    read = np.flatnonzero(head.value[row])
    if len(read) != 1 or head.value[row, read[0]] != 1.0 or head.output[c, row] != 1.0:
        return None
    return number, int(read[0])


def look(state: State, head: Head, format: Format) -> Look:
    """The largest score of each token, and by how much all others trail it.

    Others have together at most X times the winner's weight, X = sum_j exp(-gap_j); in floats a
    difference of logits is rounded once more, and powers are as good as `power_error` says.
    """
    middle, radius = scores_by_token(state.stream, head, format)
    tokens = len(middle)
    reach = np.where(radius > 0.0, up(radius + stray(2, np.abs(middle))), 0.0)
    seen = seen_pairs(head, tokens)
    everyone = np.arange(tokens)
    winners = np.where(seen, middle, -np.inf).argmax(axis=1)
    least = (middle - reach)[everyone, winners][:, None]
    gap = down(least - (middle + reach))
    others = seen & (everyone != winners[:, None])
    unclear = (others & ~(gap > 0.0)).any(axis=1)
    odds = np.zeros(tokens)
    if not is_hard(head):
        factor, faint = power_error(tokens, format), underflow(format)
        with np.errstate(under="ignore", over="ignore"):
            ratio = np.exp(strays(4, gap, format) - gap) * (1 + factor) + faint
        odds = inflate(np.where(others, ratio, 0.0).sum(axis=1), tokens + 16)
    odds = np.where(unclear, np.inf, odds)
    sharp = bool(np.isfinite(near_grid(tokens, 2.0, odds.max(), 0.0, format)))
    return Look(winners, odds, sharp)


class _Copy:
    """A coordinate that is 0, up to an error, receives what another token holds in `source`."""

    def __init__(self, state: State, source: int, place: int, found: Look, format: Format) -> None:
        self.state, self.look, self.format = state, found, format
        self.held, self.before = state.symbols[source], state.symbols[place]
        self.start = None if state.start is None else state.start[source]
        self.start_before = None if state.start is None else state.start[place]
        self.size = float(state.sizes[source])

    def fetched(self, hints: list[int], target: RootTarget) -> Register | None:
        """What the symbols' tokens receive."""
        first = self.state.first
        winners, odds = self.look.winners[first:], float(self.look.odds[first:].max())
        error = self._error(odds, self.before.radius)
        for value in hints:
            away, form = self._aggregated(value, winners, target), target.form(value)
            if (
                away is not None
                and form is not None
                and (away == 0.0 or self.held.root is not None)
            ):
                return Register.of(value, form.middle[None], inflate(error + away + form.away))
        if self.held.root is not None:
            return None
        column = np.broadcast_to(self.held.middle[:, 0], self.state.length)
        if self.start is not None:
            column = np.concatenate([self.start.middle[0], column])
        return Register.of(None, column[winners][:, None], error)

    def kept(self) -> Register | None:
        """What the start token receives, if it looks at itself."""
        if self.start is None or self.start_before is None or self.look.winners[0] != 0:
            return None
        if self.start_before.middle.any():
            return None
        error = self._error(float(self.look.odds[0]), self.start_before.radius)
        return Register.of(None, self.start.middle, error)

    def _aggregated(self, value: int, winners: np.ndarray, target: RootTarget) -> float | None:
        """How far what is fetched is from an aggregate of the target; None if it is none."""
        step = target.step(value)
        if not isinstance(step, Aggregate) or step.value is None or target.form(value) is None:
            return None
        form, chosen = target.form(step.value), target.chosen(step.selection)
        if form is None or chosen is None or self.held.root not in (None, form.root):
            return None
        first, places = self.state.first, np.array(chosen)
        if not np.array_equal(winners, np.where(places == NOWHERE, 0, places + first)):
            return None
        away = [0.0]
        if (places == NOWHERE).any():
            if self.start is None:
                return None
            default = RootForm(value, (step.default,))
            apart = abs(float(self.start.middle[0, 0]) - float(default.middle[0]))
            away.append(float(inflate(apart)) + default.away)
        apart = float(np.abs(self.held.middle - form.middle).max())
        return max(*away, float(inflate(apart)) + form.away)

    def _error(self, odds: float, before: float) -> float:
        """How far the sum is from what the winner holds, for the reals and the format.

        If the others' weights are below half a unit, the powers add up to 1 in the format, and the
        weights are 1 for the winner and the powers for others: see `near_grid`.
        """
        format = self.format
        tokens = self.state.length + self.state.first
        leak = 1.0 if np.isinf(odds) else odds / (1 + odds)
        radius = (
            self.held.radius if self.start is None else max(self.held.radius, self.start.radius)
        )
        real = float(inflate(radius + 2 * leak * self.size + before))
        full = float(inflate(self.size + before))
        rough = inflate(real + stray(2 * tokens + 8, full, format))
        if not self.look.sharp:
            return float(rough)
        grid = self.held.grid if self.start is None else min(self.held.grid, self.start.grid)
        noise = float(inflate(radius + 2 * odds * self.size + before))
        lost = float(near_grid(2 * tokens + 8, full, noise, grid, format))
        return min(float(rough), max(real, float(inflate(noise + lost))))
