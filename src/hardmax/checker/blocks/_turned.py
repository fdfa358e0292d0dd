"""How far the stream of a turned model strays from what it means, along the axes of its frame.

Lemma (drift). What a sublayer adds to x', O' h, is off by at most gamma_T (|x'_i| + sum_m |O'_im|
h_m) in coordinate i, T being all roundings on the way of a term; so by gamma_T (|x| + sum_m |O_m|
h_m) in the 2-norm, with the columns O_m of O. Taken back, every coordinate of the frame strays by
as much: blocks that were written before, those that are written now, those that will be, and the
two that are 1. What is left of a column, D_m, adds |D_m| h_m.

Blocks that are overwritten in the format itself, x' <- x' + Q_b (code - Q_b' x'), stray no more
than is charged here for it, and so does all else then.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hardmax.checker.blocks._frame import Taken, weights_of
from hardmax.checker.blocks._holding import Holdings, Question
from hardmax.checker.blocks._reading import length_of_rows, lost_in_frame, turned_format
from hardmax.checker.blocks._sets import Unproved
from hardmax.core import Attention, Block, FeedForward, SequenceInput, square_code
from hardmax.numerics import Format, above_float, gamma, inflate, length_up, norm_up, stray


class Drift:
    """How far the stream of a turned model strays, sublayer by sublayer, in one format."""

    def __init__(self, asked: Question, taken: Taken, format: Format) -> None:
        self.asked, self.taken, self.format = asked, taken, format
        self.width = taken.turned.width
        for weights in weights_of(taken.turned):
            sizes = np.abs(weights)
            if not format.fits(sizes) or ((sizes < format.normal) & (sizes != 0.0)).any():
                raise Unproved(f"In {format.name} a weight is too large or too small.")

    def embed(self, holdings: Holdings) -> None:
        """Symbols and places are added once; both are cast."""
        source, left = self.taken.turned.input, self.taken.embedding
        assert isinstance(source, SequenceInput)
        assert source.start is not None
        tables = (source.embedding, source.positions, source.start[None])
        symbol, place, first = (float(length_of_rows(t).max(initial=0.0)) for t in tables)
        size = inflate(max(symbol, first) + place, 2)
        others = [float(one.max(initial=0.0)) for one in left.written]
        rest = inflate(max(others[0], others[2]) + others[1], 2)
        self._stray(-1, 5, size, rest, holdings)  # two more: the start token is added up here, too

    def before(self, sublayer: int, holdings: Holdings) -> None:
        """The format in which this sublayer, or the read-out, reads the stream."""
        left = self.taken.sublayers[sublayer]
        length = self.length(sublayer, holdings)
        holdings.format = turned_format(self.format, self.width, length, left.read, left.bias)

    def after(self, sublayer: int, holdings: Holdings) -> None:
        """All coordinates have strayed by what this sublayer rounded."""
        length = self.length(sublayer, holdings)
        layer = self.taken.turned.sublayers[sublayer]
        left = self.taken.sublayers[sublayer]
        if isinstance(layer, Attention):
            terms, sizes, rest = self._heads(layer, left.written, length)
        else:
            assert isinstance(layer, FeedForward)
            terms, sizes, rest = self._units(layer, sublayer, holdings, length)
        self._stray(sublayer, terms, inflate(length + sizes, 2), rest, holdings)

    # ---- how long ------------------------------------------------------------------------------

    def length(self, sublayer: int, holdings: Holdings) -> float:
        """The 2-norm of the stream before a sublayer, at symbols and at the start token."""
        blocks = [b for b in self._blocks if b.sublayer < sublayer]
        held = np.array([1.0, *(self._largest(k, sublayer) for k in range(len(self._blocks)))])
        first = np.array([1.0, 1.0, *(one for b in blocks for one in b.at_start)])
        away = inflate(math.sqrt(self.width) * self._farthest(sublayer, holdings), 3)
        return float(inflate(max(length_up(held), length_up(np.abs(first))) + away, 2))

    @property
    def _blocks(self) -> tuple[Block, ...]:
        return self.asked.circuit.blocks

    def _largest(self, number: int, sublayer: int) -> float:
        block = self._blocks[number]
        if block.sublayer >= sublayer:
            return 0.0
        if block.form in ("one-hot", "share"):
            return 1.0
        return max(above_float(abs(n)) for n in self._ends(block))

    def _ends(self, block: Block) -> tuple[Fraction, Fraction]:
        """The least and the largest that the coordinate of a number, or of a square, is to hold."""
        numbers = self.asked.sets.numbers(block.step)
        if block.form == "square":
            codes = [Fraction(square_code(n, block.items)) for n in numbers]
            return min(codes), max(codes)
        return Fraction(numbers[0]), Fraction(numbers[-1])

    def _farthest(self, sublayer: int, holdings: Holdings) -> float:
        """How far any coordinate is from what it is meant to be."""
        there = [k for k, b in enumerate(self._blocks) if b.sublayer < sublayer]
        away = [max(*holdings.symbols[k], holdings.start[k]) for k in there]
        return max([holdings.adrift, *away])

    # ---- how far -------------------------------------------------------------------------------

    def _heads(
        self, layer: Attention, written: tuple[np.ndarray, ...], length: float
    ) -> tuple[int, float, float]:
        """Terms of a sum, their sizes, and what is left: sum_v |O_v| |z_v| <= |O|_F |z|."""
        terms, sizes, rest = self.asked.tokens + 12, 0.0, 0.0
        shared = 1.0 + gamma(self.asked.tokens + 8, self.format)  # at most, by a row of weights
        for head, left in zip(layer.heads, written, strict=True):
            values = head.value
            off = float(stray(self.width + 3, length_up(np.abs(values).ravel()) * length))
            off += float(
                stray(self.width + 3, length_up(np.abs(values).ravel()) * length, self.format)
            )
            sent = inflate(shared * (norm_up(values) * length + math.sqrt(len(values)) * off), 8)
            sizes += length_up(np.abs(head.output).ravel()) * sent
            rest += length_up(left) * sent
            terms += head.value_width + 1
        return terms, float(inflate(sizes, 64)), float(inflate(rest, 64))

    def _units(
        self, layer: FeedForward, sublayer: int, holdings: Holdings, length: float
    ) -> tuple[int, float, float]:
        left = self.taken.sublayers[sublayer]
        hidden = self._hidden(sublayer, holdings)
        columns = length_of_rows(layer.outer.T)
        sizes = float(columns @ hidden) + length_up(np.abs(layer.outer_bias))
        rest = float(left.written[0] @ hidden) + left.added
        many = layer.hidden_width
        return many + 5, float(inflate(sizes, many + 8)), float(inflate(rest, many + 8))

    def _hidden(self, sublayer: int, holdings: Holdings) -> np.ndarray:
        """How large each hidden value can be, whatever the steps hold that it reads."""
        meant = self.taken.meant.sublayers[sublayer]
        assert isinstance(meant, FeedForward)
        circuit, inner = self.asked.circuit, meant.inner
        always = inner[:, circuit.one] + meant.inner_bias
        symbols, first = always.copy(), always + inner[:, circuit.start]
        for number, block in enumerate(self._blocks):
            if block.sublayer < sublayer:
                own = inner[:, block.first : block.stop]
                symbols = symbols + self._most_read(number, own)
                first = first + own @ np.array(block.at_start)
        sizes = np.abs(inner).sum(axis=1)
        largest = max(1.0, *(self._largest(k, sublayer) for k in range(len(self._blocks))))
        summed = stray(self.width + 8, inflate(sizes * largest + np.abs(meant.inner_bias), 64))
        away = sizes * self._farthest(sublayer, holdings) + summed
        away = away + lost_in_frame(inner, meant.inner_bias, holdings.format)
        return np.asarray(inflate(np.maximum(0.0, np.maximum(symbols, first)) + away, 64))

    def _most_read(self, number: int, own: np.ndarray) -> np.ndarray:
        """The most that rows read of a block, whatever its step holds."""
        block = self._blocks[number]
        if block.form == "share":
            return np.maximum(own[:, 0], 0.0)
        if block.form in ("number", "square"):
            least, most = map(float, self._ends(block))
            return np.maximum(own[:, 0] * least, own[:, 0] * most)
        numbers = self.asked.sets.numbers(block.step)
        lit = own.max(axis=1, initial=-np.inf)
        return lit if set(numbers) <= set(block.items) else np.maximum(lit, 0.0)

    def _stray(
        self, sublayer: int, terms: int, size: float, rest: float, holdings: Holdings
    ) -> None:
        """Coordinates stray; those that are written now have not been clean since the beginning."""
        tiny = math.sqrt(self.width) * (terms + 2) * self.format.smallest
        more = float(stray(terms, size, self.format)) + tiny + rest
        most = max(size, (1 + 2.0**-10) * self.length(sublayer + 1, holdings))
        more = float(inflate(more + self._overwriting(sublayer, most), 8))
        if not math.isfinite(more):
            raise Unproved(f"In {self.format.name} the stream strays too far to be followed.")
        before = holdings.adrift
        holdings.adrift = float(inflate(before + more, 2))
        for number, block in enumerate(self._blocks):
            if block.sublayer <= sublayer:
                one = more if block.sublayer < sublayer else holdings.adrift
                _add(number, one, holdings)

    def _overwriting(self, sublayer: int, size: float) -> float:
        """What an intervention rounds that overwrites the blocks of this sublayer one by one.

        Of m coordinates: each is read, off by gamma_{n+4} 2 |x|, and what is written along m
        columns has sizes up to |x| and 2 sqrt(m) |x| together.
        """
        widths = [b.width for b in self._blocks if b.sublayer == sublayer]
        if not widths:
            return 0.0
        root = math.sqrt(max(widths))
        read = root * float(stray(self.width + 4, 2.0 * size, self.format))
        put = float(stray(max(widths) + 4, (1.0 + 2.0 * root) * size, self.format))
        tiny = math.sqrt(self.width) * (max(widths) + 5) * self.format.smallest
        return float(inflate(len(widths) * (read + put + tiny), 16))


def _add(number: int, more: float, holdings: Holdings) -> None:
    lit, others = holdings.symbols[number]
    holdings.symbols[number] = (float(inflate(lit + more, 2)), float(inflate(others + more, 2)))
    holdings.start[number] = float(inflate(holdings.start[number] + more, 2))
    if number in holdings.shares:
        holdings.shares[number] = inflate(holdings.shares[number] + more, 2)
