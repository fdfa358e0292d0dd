"""What homes are handed and hand back: identities of symbols, files, and what a folder promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hardmax._errors import FileError, RequestError
from hardmax.core import Construction, Host, Input, SequenceInput, Transformer, VectorInput
from hardmax.interop.huggingface._columns import Columns
from hardmax.interop.huggingface._config import Config
from hardmax.interop.huggingface._labels import Labels
from hardmax.interop.huggingface._prepare import Abilities
from hardmax.numerics import Format

PAD, START = "<pad>", "<s>"


@dataclass(frozen=True)
class Ids:
    """The vocabulary: the alphabet's symbols by their numbers, then what the home needs besides.

    `symbols` are the texts of the alphabet, none for real inputs; `more` are texts of answers that
    are no symbols, where a home has one vocabulary for both.
    """

    symbols: tuple[str, ...]
    started: bool = False
    more: tuple[str, ...] = ()

    @cached_property
    def tokens(self) -> tuple[str, ...]:
        return (*self.symbols, PAD, *((START,) if self.started else ()), *self.more)

    @property
    def pad(self) -> int:
        return len(self.symbols)

    @property
    def start(self) -> int | None:
        return self.pad + 1 if self.started else None

    def table(self, transformer: Transformer, columns: Columns) -> np.ndarray:
        """A row for each token, constants included; what is no symbol holds nothing else."""
        rows = np.zeros((len(self.tokens), columns.width))
        source = transformer.input
        if isinstance(source, SequenceInput):
            rows[: len(self.symbols), : columns.ours] = source.embedding
            if source.start is not None and self.start is not None:
                rows[self.start, : columns.ours] = source.start
        rows[:, columns.ours :] = columns.constants
        return rows


def ids_of(transformer: Transformer, more: Sequence[str] = ()) -> Ids:
    """The vocabulary of a Transformer; symbols that are written alike are refused."""
    source = transformer.input
    if isinstance(source, VectorInput):
        return Ids((), more=tuple(more))
    texts = tuple(map(str, source.alphabet))
    if len(set(texts)) < len(texts):
        raise RequestError("Two symbols of the alphabet are written alike: give them other names.")
    reserved = sorted({PAD, START} & {*texts, *more})
    if reserved:
        raise RequestError(
            f"The symbol {reserved[0]!r} is a tokenizer's own: give the symbol another name."
        )
    new = [text for text in more if text not in texts]
    return Ids(texts, source.start is not None, tuple(dict.fromkeys(new)))


@dataclass(frozen=True, eq=False)
class Written:
    """What a home makes of a construction: its config, its weights, and where things stand."""

    construction: Construction
    config: Config
    tensors: dict[str, np.ndarray]
    columns: Columns
    ids: Ids
    notes: tuple[str, ...] = ()  # what the card says besides


@dataclass(frozen=True, eq=False)
class Files:
    """What a home reads: a config and the weights as they are stored."""

    config: Config
    tensors: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Promise:
    """What the description in a folder says and no class has a place for.

    Which columns are ours (the first ones), how many tokens there may be, at which token the answer
    is read, and for real inputs the maps that make tokens of them. Of its weights nothing is taken.
    """

    transformer: Transformer
    labels: Labels | None
    ids: Ids
    format: Format

    @property
    def ours(self) -> int:
        return self.transformer.width

    @property
    def tokens(self) -> int:
        return self.transformer.tokens

    @property
    def token(self) -> int | None:
        return self.transformer.readout.token

    @property
    def outputs(self) -> int:
        return self.transformer.outputs

    def input_from(self, table: np.ndarray, positions: np.ndarray | None = None) -> Input:
        """The input whose symbols are the rows of an embedding; maps are rounded."""
        source = self.transformer.input
        if isinstance(source, VectorInput):
            if positions is not None and positions.any():
                raise FileError("adds positions to real inputs, which were not made for them.")
            return VectorInput(self.format.stored(source.maps), self.format.stored(source.offsets))
        if len(table) != len(self.ids.tokens):
            raise FileError("has rows of an embedding that stand for no symbol.")
        rows = table[:, : self.ours]
        places = np.zeros((self.tokens, self.ours)) if positions is None else positions
        start = None if self.ids.start is None else rows[self.ids.start]
        return SequenceInput(source.alphabet, rows[: len(self.ids.symbols)], places, start)


Read = tuple[Transformer, Host, np.ndarray]  # and what the constant columns hold


@dataclass(frozen=True, eq=False)
class Home:
    """An architecture: what it can do, what it makes of a construction, and how it is read.

    `one_vocabulary` says that answers are symbols of the vocabulary, as in a language model.
    """

    name: str
    class_name: str
    abilities: Abilities
    write: Callable[[Construction, Format, Labels | None, Ids, str], Written]
    read: Callable[[Files, Promise], Read]
    one_vocabulary: bool
    why: str  # it is the one to take, if it takes a construction
