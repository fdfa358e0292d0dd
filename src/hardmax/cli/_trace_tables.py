"""Answers to words, and one word's way through a model, as tables. Opening this loads Rich."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hardmax.cli._answers import WordAnswer, WordModel, shown_items
from hardmax.cli._tables import plain_console, plain_table, print_table
from hardmax.core import SequenceTrace

_LONGEST_LABEL = 48
_NOTHING = "·"
_CODE = r" \[[^ \]]*\]"  # behind a value
_WIDE = 10_000  # columns: a matrix that is folded cannot be read


def print_answers(model: WordModel, answers: list[WordAnswer], plot: str | None) -> None:
    """What the model answers beside what its program does, with the bound that is promised."""
    console, claim = plain_console(), model.claim
    promised = ("target", "difference", "bound") if claim is not None else ()
    table = plain_table("word", "Transformer", *promised)
    for answer in answers:
        row = [shown_items(answer.word), shown_items(answer.found)]
        if claim is not None and answer.difference is not None:
            bound = f"{claim.error:.6g}"
            row += [shown_items(answer.wanted), f"{answer.difference:.3g}", bound]
        table.add_row(*row)
    console.print(table)
    if plot is not None:
        console.print(f"drawn {plot}", soft_wrap=True)


def print_in_words(trace: SequenceTrace) -> None:
    """Which positions heads select and what every step holds; codes behind values are grey."""
    text = Text(f"\n{trace.in_words}")
    text.highlight_regex(_CODE, "bright_black")
    plain_console().print(text, soft_wrap=True)


def print_trace(trace: SequenceTrace) -> None:
    """The embedding; then, sublayer by sublayer, how heads attend and which coordinates change."""
    console = Console(markup=False, highlight=False, emoji=False, width=_WIDE)
    tokens = list(trace.headings)
    held = np.flatnonzero(trace.streams[0].any(axis=0))
    print_table(console, _stream_table("embedding, where not 0", trace, 0, held, tokens))
    for sublayer in range(len(trace.attention)):
        for head in trace.heads:
            if head.sublayer == sublayer:
                console.print(f"\nsublayer {sublayer}, head {head.head}: {head.step}")
                print_table(console, _attention_table(head.weights, tokens))
        if not len(trace.attention[sublayer]):
            console.print(
                f"\nsublayer {sublayer}, feed-forward: {'; '.join(trace.steps(sublayer))}"
            )
        changed = (trace.streams[sublayer + 1] != trace.streams[sublayer]).any(axis=0)
        title = f"changed by sublayer {sublayer}"
        rows = np.flatnonzero(changed)
        print_table(console, _stream_table(title, trace, sublayer + 1, rows, tokens))


def _attention_table(weights: np.ndarray, tokens: list[str]) -> Table:
    table = plain_table("asks", *tokens)
    for token, row in zip(tokens, weights, strict=True):
        table.add_row(token, *map(_weight, row))
    return table


def _stream_table(
    title: str, trace: SequenceTrace, number: int, rows: np.ndarray, tokens: list[str]
) -> Table:
    table = plain_table(title, *tokens)
    for coordinate in rows.tolist():
        values = trace.streams[number][:, coordinate]
        label = f"{coordinate}: {_short(trace.coordinates[coordinate])}"
        table.add_row(label, *(f"{value:.4g}" for value in values))
    return table


def _weight(weight: float) -> str:
    """Three digits; a weight that they do not show is as good as none."""
    text = f"{weight:.3f}"
    return {"0.000": _NOTHING, "1.000": "1"}.get(text, text)


def _short(label: str) -> str:
    return label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 3] + "..."
