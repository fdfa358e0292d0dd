"""What a circuit is made of: blocks of coordinates, nodes, edges, and what shows that one matters.

The *patch* of an edge on a word: the model runs, and at every position the one port reads, instead
of the edge's block, other contents; everything else is as it is. The contents are those of the
block in the run on another word of the same length; or its own, with the codes of other numbers, or
with zeros (an ablation), at some positions. The edge is *shown* by a patch under which the answer
decodes as another one. Kinds:

- `word`: a pair of equally long words shows it: the model runs on the first, and the port reads
  the block of the run on the second.
- `length`, `position`, `constant`: no such pair can. The block is the same in all equally long
  words, since no path of edges leads to it from the embedding of tokens: overwritten numbers show
  the edge, or an ablation. A `length` block differs between words of different lengths at one
  position; a `position` block does not, and differs between positions; a `constant` never changes
  (in words of all lengths; where these are more than 64, of so many).
- `intervention`: the block comes from the tokens, but no pair of words that was tried shows the
  edge; overwritten numbers do, or an ablation.
- `not shown`: nothing that was tried shows it. Most often nothing does: part of a machine composes
  what would become of states in which no word is there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from hardmax._errors import ShapeError
from hardmax.core._squares import square_code
from hardmax.core._words import Word

FORMS = ("number", "square", "one-hot", "share")
PORTS = ("q", "k", "v", "in", "out")
KINDS = ("word", "length", "position", "constant", "intervention")
NOT_SHOWN = "not shown"
Exact = int | Fraction
_NAME = re.compile(r"embed|pos_embed|logits|a\d+\.h\d+|m\d+\..+", re.DOTALL | re.ASCII)


@dataclass(frozen=True)
class Block:
    """Coordinates `first` to `stop - 1` code what a step holds, once `sublayer` has run.

    A number is itself; a square, which stands beside it, is its `square_code`; a one-hot has a
    coordinate for each of its `items`, the numbers that the step can hold and that somebody looks
    for (for any other nothing is lit); a share is 1/(1 + w), w being the positions that its head
    selects. A sublayer of -1 stands for the embedding. At the start token the coordinates are
    `at_start`.
    """

    step: int
    name: str
    form: str
    first: int
    sublayer: int
    items: tuple[Exact, ...]
    labels: tuple[str, ...]
    at_start: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise ShapeError(f"A block is one of {', '.join(FORMS)}, not {self.form!r}.")
        if len(self.labels) != len(self.items):
            raise ShapeError(f"The block {self.name!r} needs a label for each of its items.")
        if len(self.at_start) != self.width:
            raise ShapeError(f"The block {self.name!r} of width {self.width} starts otherwise.")

    @property
    def width(self) -> int:
        return len(self.items) if self.form == "one-hot" else 1

    @property
    def stop(self) -> int:
        return self.first + self.width

    @property
    def coordinates(self) -> range:
        return range(self.first, self.stop)

    @property
    def coordinate_names(self) -> list[str]:
        """Each its own, among all of a circuit."""
        if self.form == "one-hot":
            return [f"{self.name}={label}" for label in self.labels]
        shown = {"number": self.name, "square": f"{self.name}²", "share": f"1/(1+{self.name})"}
        return [shown[self.form]]

    def code(self, number: Exact | None) -> list[float]:
        """The coordinates of a number, a share being of so many positions; zeros for None."""
        if number is None:
            return [0.0] * self.width
        if self.form == "one-hot":
            return [float(item == number) for item in self.items]
        if self.form == "square":
            return [float(square_code(number, self.items))]
        return [float(number) if self.form == "number" else 1.0 / (1.0 + float(number))]

    def label_of(self, item: Exact) -> str:
        return dict(zip(self.items, self.labels, strict=True)).get(item, str(item))


@dataclass(frozen=True)
class Node:
    """A head (`first` is its place in the layer) or hidden units `first` to `stop - 1`.

    `reads` are the numbers of blocks, port by port: q, k, v of a head, "in" of units. The
    embedding reads nothing; the read-out writes nothing. `masks` are the steps that the head's
    causal mask or position bias stands for: it reads the true place, which nobody overwrites.
    """

    name: str
    sublayer: int
    first: int
    stop: int
    step: str
    text: str
    reads: tuple[tuple[str, tuple[int, ...]], ...]
    writes: tuple[int, ...]
    masks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ShapeError(
                f"{self.name!r} is no node: they are embed, pos_embed, logits, heads a0.h1 and "
                f"units m0.step, by the number of their layer."
            )


@dataclass(frozen=True)
class Showing:
    """A patch that shows that an edge matters: the block numbered `block`, read by `target`.

    On `word` the port reads the block of the run on the `other` word; or, where there is none, its
    own with the code of a number, or zeros for None, at each of the `overwritten` positions.
    """

    target: str
    port: str
    block: int
    kind: str
    word: Word
    other: Word = ()
    overwritten: tuple[tuple[int, Exact | None], ...] = ()

    def __post_init__(self) -> None:
        places = [place for place, _ in self.overwritten]
        if self.kind not in KINDS:
            raise ShapeError(f"An edge is shown as one of {', '.join(KINDS)}, not {self.kind!r}.")
        if (self.kind == "word") != bool(self.other) or bool(self.other) == bool(places):
            raise ShapeError("An edge is shown by another word, or else by numbers at positions.")
        if self.other and len(self.other) != len(self.word):
            raise ShapeError("The two words that show an edge are to be of one length.")
        if places != sorted({*places} & {*range(len(self.word))}):
            raise ShapeError("An edge is shown at positions of the word, each once, in order.")

    @property
    def shown_by(self) -> tuple[object, ...]:
        """The two words; or the word, and the numbers by their positions."""
        return shown_word(self.word), shown_word(self.other) if self.other else self.overwritten


@dataclass(frozen=True)
class Edge:
    """A block on its way from the node that writes it to a port of one that reads it.

    `kind` says what shows that it matters, and `shown_by` is that: two words, or a word and
    (position, number) pairs that the port reads instead; nothing for an edge that is not shown.
    """

    source: str
    target: str
    port: str
    step: str
    coordinates: tuple[int, int]  # the first, and the one after the last
    kind: str = NOT_SHOWN
    shown_by: tuple[object, ...] = ()


def shown_word(word: Sequence[str | int]) -> str | Word:
    """A text where every symbol is one letter."""
    if all(isinstance(symbol, str) and len(symbol) == 1 for symbol in word):
        return "".join(map(str, word))
    return tuple(word)
