"""A trace of a legible model in words: which positions heads select, and what every step holds."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np

from hardmax.core._circuit import Block, Circuit, Node

_NOTHING, _NOBODY, _UNCODED = "·", "–", "?"
_LIT = 0.5


def readable(
    circuit: Circuit,
    tokens: tuple[str, ...],
    streams: tuple[np.ndarray, ...],
    attention: tuple[np.ndarray, ...],
) -> str:
    """One row for the selections of each head, and one for each step that is written.

    Positions are numbered; the start token has its own column. A share is a fraction whose
    denominator is at most the number of tokens; a number is shown as the item that it codes.
    """
    heading = ["", "", "start", *(f"{k}:{one}" for k, one in enumerate(tokens[1:]))]
    rows = [heading]
    for node in circuit.nodes[:-1]:
        if not node.writes:
            continue
        stream = streams[node.sublayer + 1]
        label = node.name
        is_head = node.name.startswith("a")
        if is_head:
            weights = attention[node.sublayer][node.first]
            share = any(circuit.blocks[k].form == "share" for k in node.writes)
            said = "selects, besides start" if share else "attends to"
            rows.append([label, said, *_selections(weights, share)])
            label = ""
        for block in _once(circuit, node):
            name = f"1/(1+{block.name})" if block.form == "share" else block.name
            shown = [_start(block), *(_shown(block, one, len(tokens)) for one in stream[1:])]
            rows.append([label, name, *shown])
            label = ""
    return _table(rows)


def _once(circuit: Circuit, node: Node) -> list[Block]:
    """One block for each step that a node writes: the one-hot if there is one, never a square."""
    found: dict[str, Block] = {}
    for k in node.writes:
        block = circuit.blocks[k]
        if block.form != "square" and (block.name not in found or block.form == "one-hot"):
            found[block.name] = block
    return list(found.values())


def _selections(weights: np.ndarray, share: bool) -> list[str]:
    """For each asking token, the tokens with at least half of an equal share of all."""
    least = 0.5 / len(weights)
    found = []
    for row in weights:
        seen = np.flatnonzero(row >= least).tolist()
        names = ["start" if k == 0 else str(k - 1) for k in seen if k or not share]
        found.append(",".join(names) if len(names) < len(weights) - 1 or len(names) < 4 else "all")
    return [one or _NOBODY for one in found]


def _start(block: Block) -> str:
    if block.form == "share":
        return str(Fraction(block.at_start[0]).limit_denominator(10**6))
    return _coded(block, np.array(block.at_start)) if any(block.at_start) else _NOTHING


def _shown(block: Block, stream: np.ndarray, tokens: int) -> str:
    held = stream[block.first : block.stop]
    if block.form == "share":
        return str(Fraction(float(held[0])).limit_denominator(tokens))
    return _coded(block, held)


def _coded(block: Block, held: np.ndarray) -> str:
    if block.form == "one-hot":
        lit = np.flatnonzero(held > _LIT)
        return _UNCODED if len(lit) > 1 else block.labels[lit[0]] if len(lit) else _NOBODY
    away = [abs(float(item) - float(held[0])) for item in block.items]
    return block.labels[away.index(min(away))]


def _table(rows: Iterable[list[str]]) -> str:
    listed = list(rows)
    widths = [max(len(row[k]) for row in listed) for k in range(len(listed[0]))]
    lines = []
    for row in listed:
        left = [cell.ljust(width) for cell, width in zip(row[:2], widths[:2], strict=True)]
        rest = [cell.rjust(width) for cell, width in zip(row[2:], widths[2:], strict=True)]
        lines.append("  ".join([*left, *rest]).rstrip())
    return "\n".join(lines)
