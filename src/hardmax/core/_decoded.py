"""A trace of a compact model in words: what heads share out, and what numbers in the stream say.

A compact model holds values as numbers that somebody else reads. Its legend knows what the numbers
stand for; what it does not know is shown as a number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax.core._legend import Legend, Reading

NOTHING, WILD, NOBODY = "·", "~", "–"
ROUND = 1e-9  # relative: so close to a fraction a number is shown as it; float64 leaves such room
_EQUAL = 2.0**-10  # relative: shares so close are one share; one in a hundred symbols is more
_FEW = 3  # symbols that are listed, though they are all
_LONG = 1e6  # numbers from here on are shown by their digits


@dataclass(frozen=True)
class Said:
    """What a form of coordinates says at every token once a sublayer has run.

    `texts` and `numbers` have an entry for each token, the start token, if any, first: there "~"
    stands for a number that nobody is meant to read. Of several coordinates of a legible model,
    which are a one-hot, there are no numbers. `off` is the largest distance of a symbol's number
    from the code of its text, None where numbers are shown as they are.
    """

    name: str
    sublayer: int
    coordinates: tuple[int, ...]
    texts: tuple[str, ...]
    numbers: tuple[float, ...]
    off: float | None = None
    carried: float = 0.0

    @property
    def label(self) -> str:
        carried = f" (+{shown_number(self.carried)} carried)" if self.carried else ""
        return self.name + carried


@dataclass(frozen=True)
class Shares:
    """How one asking token shares its weight out.

    `of_rest` are the weights of the symbols, divided by what the start token leaves over;
    `selected` are the positions that count, `with_start` says whether the start token is another.
    """

    start: float
    of_rest: tuple[float, ...]
    selected: tuple[int, ...]
    with_start: bool


def shares_of(row: np.ndarray, has_start: bool, adds_up: bool) -> Shares:
    """Which tokens a row of weights selects, and the shares of what the start token leaves.

    Of a sum, those symbols count that get a thousandth of an equal share of the rest at least;
    of any other head the tokens with half the weight of the heaviest one at least.
    """
    symbols = row[1:] if has_start else row
    start = float(row[0]) if has_start else 0.0
    rest = float(symbols.sum())
    of_rest = symbols / rest if rest > 0.0 else symbols
    least = 0.5 * float(row.max())
    chosen = of_rest * len(row) > _EQUAL if adds_up else symbols >= least
    with_start = has_start and not adds_up and start >= least
    return Shares(
        start, tuple(of_rest.tolist()), tuple(np.flatnonzero(chosen).tolist()), with_start
    )


def shown_shares(row: Shares, adds_up: bool) -> str:
    """Positions; with their shares of the rest where these differ, or are what is added up."""
    many = len(row.of_rest)
    shares = [row.of_rest[k] for k in row.selected]
    if shares and max(shares) - min(shares) > _EQUAL * max(shares):
        return " ".join(f"{k} ({shown_share(row.of_rest[k], many)})" for k in row.selected)
    is_all = len(shares) == many and many > _FEW
    names = ["all"] if is_all else [str(k) for k in row.selected]
    listed = ",".join([*(["start"] if row.with_start else []), *names]) or NOBODY
    return f"{listed} ({shown_share(shares[0], many)})" if adds_up and shares else listed


def shown_share(share: float, most: int) -> str:
    """A fraction whose denominator is at most `most`, to a thousandth; else three digits."""
    near = Fraction(share).limit_denominator(most)
    return str(near) if abs(float(near) - share) <= _EQUAL * share else f"{share:.3g}"


def said_of(
    legend: Legend | None,
    streams: Sequence[np.ndarray],
    names: Sequence[str],
    has_start: bool,
) -> Iterator[Said]:
    """What every sublayer changes or makes readable, by coordinates; then what several say."""
    width = streams[0].shape[1]
    readings = () if legend is None else legend.readings
    known = [one for one in readings if all(0 <= k < width for k in one.coordinates)]
    before = np.zeros_like(streams[0])
    for number, stream in enumerate(streams, -1):
        here = [one for one in known if one.sublayer == number]
        alone = {one.coordinates[0]: one for one in here if len(one.coordinates) == 1}
        changed = np.flatnonzero((stream != before).any(axis=0)).tolist()
        for place in sorted({*changed, *alone}):
            if place in alone:
                yield _decoded(alone[place], stream, has_start)
            else:
                yield _bare(names[place], number, place, stream[:, place], has_start)
        shown = {one.name for one in alone.values()}
        for one in here:
            if one.name not in shown:
                shown.add(one.name)
                yield _decoded(one, stream, has_start)
        before = stream


def _decoded(reading: Reading, stream: np.ndarray, has_start: bool) -> Said:
    numbers, most = reading.numbers_in(stream).tolist(), len(stream) + 1 - has_start
    texts, off = [], 0.0
    for place, number in enumerate(numbers):
        found = reading.said(number)
        if has_start and not place and not reading.at_start:
            texts.append(WILD if stream[0, list(reading.coordinates)].any() else NOTHING)
        elif found is None:
            texts.append(f"{shown_number(number, most)}?")
        else:
            code = shown_number(found[1], most)
            texts.append(found[0] if code == found[0] else f"{found[0]} [{code}]")
            off = max(off, abs(found[1] - number))
    where = reading.name, reading.sublayer, reading.coordinates
    return Said(*where, tuple(texts), tuple(numbers), off, reading.carried)


def _bare(name: str, sublayer: int, place: int, held: np.ndarray, has_start: bool) -> Said:
    texts = [shown_number(number, len(held) + 1 - has_start) for number in held.tolist()]
    if has_start and (held[0] == 0.0 or sublayer >= 0):
        texts[0] = WILD if held[0] else NOTHING
    return Said(name, sublayer, (place,), tuple(texts), tuple(held.tolist()))


def shown_number(number: float, most: int = 1) -> str:
    """A whole number, a fraction whose denominator is at most `most`, or four digits."""
    if not abs(number) < _LONG:
        return f"{number:.4g}"
    near = Fraction(number).limit_denominator(most)
    is_near = abs(float(near) - number) <= ROUND * max(1.0, abs(number))
    return str(near) if is_near else f"{number:.4g}"
