"""A trace in words: which positions heads select, and what every step holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np

from hardmax.core._circuit import Circuit
from hardmax.core._circuit_parts import Block, Node
from hardmax.core._decoded import NOBODY, NOTHING, ROUND, WILD, Said, Shares, shown_shares

_UNCODED = "?"
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
    heading = ["", "", "start", *tokens[1:]]
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
    return _table(rows, 2)


def said_in_blocks(circuit: Circuit, streams: Sequence[np.ndarray]) -> Iterator[Said]:
    """What each block of a legible model says once it is written."""
    for block in circuit.blocks:
        stream = streams[block.sublayer + 1]
        texts = (_start(block), *(_shown(block, one, len(stream)) for one in stream[1:]))
        places = tuple(block.coordinates)
        numbers = tuple(stream[:, block.first].tolist()) if len(places) == 1 else ()
        yield Said(
            block.coordinate_names[0] if numbers else block.name,
            block.sublayer,
            places,
            texts,
            numbers,
        )


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
    return [one or NOBODY for one in found]


def _start(block: Block) -> str:
    if block.form == "share":
        return str(Fraction(block.at_start[0]).limit_denominator(10**6))
    return _coded(block, np.array(block.at_start)) if any(block.at_start) else NOTHING


def _shown(block: Block, stream: np.ndarray, tokens: int) -> str:
    held = stream[block.first : block.stop]
    if block.form == "share":
        return str(Fraction(float(held[0])).limit_denominator(tokens))
    return _coded(block, held)


def _coded(block: Block, held: np.ndarray) -> str:
    if block.form == "one-hot":
        lit = np.flatnonzero(held > _LIT)
        return _UNCODED if len(lit) > 1 else block.labels[lit[0]] if len(lit) else NOBODY
    away = [abs(float(item) - float(held[0])) for item in block.items]
    return block.labels[away.index(min(away))]


def decoded(
    tokens: Sequence[str],
    heads: Sequence[Sequence[tuple[str, bool, Sequence[Shares]]]],
    units: Sequence[str],
    said: Sequence[Said],
    has_start: bool,
) -> str:
    """The same for a compact model: for each sublayer what its heads share out, or what its hidden
    units do, and below that what it changes, with the code in brackets where it is another text.

    `heads` are step, whether it adds up and shares, sublayer by sublayer; `units` are steps.
    """
    rows = [["embedding", *tokens, "off by"]]
    rows += [_row(one) for one in said if one.sublayer == -1]
    layer, after_attention = -1, False
    for number, (own, steps) in enumerate(zip(heads, units, strict=True)):
        layer += bool(own) or not after_attention
        after_attention = bool(own)
        if not own:
            rows.append([f"m{layer}  {steps}".rstrip()])
        for head, (step, adds_up, shares) in enumerate(own):
            asked = shares[1:] if has_start else shares  # what the start token asks says nothing
            kept = f": {_kept(asked)}" if adds_up and has_start else ""
            rows.append([f"a{layer}.h{head}  {step}{kept}"])
            cells = [shown_shares(one, adds_up) for one in asked]
            start = [NOTHING] * has_start
            rows.append([f"  {'adds up' if adds_up else 'attends to'}", *start, *cells, ""])
        rows += [_row(one) for one in said if one.sublayer == number]
    if any(WILD in one.texts for one in said):
        rows.append([f"{WILD} at the start token: a number that nobody is meant to read"])
    return _table(rows, 1)


def _row(one: Said) -> list[str]:
    off = f"{one.off:.1e}" if one.off is not None and one.off > ROUND else ""
    return [f"  {one.label}", *one.texts, off]


def _kept(asked: Sequence[Shares]) -> str:
    """How much the start token keeps at least, of a sum: what is left of that is shared out."""
    left = max((1.0 - one.start for one in asked), default=1.0)
    kept = f"1 - {left:.2g}" if left < _LIT else f"{1.0 - left:.2g}"
    return f"start keeps {kept}, the rest is shared out"


def _table(rows: Iterable[list[str]], left: int) -> str:
    """Rows of one length, the first columns flush left; a row of one cell is a line of its own."""
    listed = list(rows)
    full = [row for row in listed if len(row) > 1]
    widths = [max(len(row[k]) for row in full) for k in range(len(full[0]))]
    lines = []
    for row in listed:
        own = [cell.ljust(width) for cell, width in zip(row[:left], widths, strict=False)]
        rest = [cell.rjust(width) for cell, width in zip(row[left:], widths[left:], strict=False)]
        lines.append("  ".join([*own, *rest]).rstrip())
    return "\n".join(lines)
