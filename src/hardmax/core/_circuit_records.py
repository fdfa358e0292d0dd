"""Blocks, nodes and edges as plain data for JSON, and back.

What is missing or of the wrong kind ends in a LookupError, TypeError or ValueError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import cast

from hardmax.core._circuit_graphs import hook_name
from hardmax.core._circuit_parts import NOT_SHOWN, PORTS, Block, Edge, Exact, Node, Showing
from hardmax.core._sequence_target import plain
from hardmax.core._words import Word

Record = Mapping[str, object]


def block_record(block: Block) -> dict[str, object]:
    return {
        "step": block.step,
        "name": block.name,
        "form": block.form,
        "coordinates": [block.first, block.stop],
        "sublayer": block.sublayer,
        "items": [str(item) for item in block.items],
        "labels": list(block.labels),
        "at_start": list(block.at_start),
    }


def node_record(node: Node, layers: int) -> dict[str, object]:
    return {
        "name": node.name,
        "tl": hook_name(node.name, layers=layers),
        "sublayer": node.sublayer,
        "members": [node.first, node.stop],
        "step": node.step,
        "text": node.text,
        "reads": {port: list(numbers) for port, numbers in node.reads},
        "writes": list(node.writes),
        **({"masks": list(node.masks)} if node.masks else {}),
    }


def edge_record(edge: Edge) -> dict[str, object]:
    """What shows it is a pair of words; or a word, and numbers by their positions."""
    shown_by = [_shown(part) for part in edge.shown_by]
    return {
        "from": edge.source,
        "to": edge.target,
        "port": edge.port,
        "step": edge.step,
        "coordinates": list(edge.coordinates),
        "kind": edge.kind,
        "shown_by": shown_by,
    }


def _shown(part: object) -> object:
    """A text stays one, a word of other symbols is a list; numbers are texts, as those of items."""
    if isinstance(part, str):
        return part
    members = list(cast(Sequence[object], part))
    if members and isinstance(members[0], tuple):
        return {
            str(place): str(number) for place, number in cast(list[tuple[int, object]], members)
        }
    return members


def block_from(one: Record) -> Block:
    first, _ = as_list(one["coordinates"])
    return Block(
        whole(one["step"]),
        text(one["name"]),
        text(one["form"]),
        whole(first),
        whole(one["sublayer"]),
        tuple(plain(Fraction(text(item))) for item in as_list(one["items"])),
        tuple(map(text, as_list(one["labels"]))),
        tuple(map(_number, as_list(one["at_start"]))),
    )


def node_from(one: Record) -> Node:
    first, stop = map(whole, as_list(one["members"]))
    reads = cast(Record, one["reads"])
    if not isinstance(reads, Mapping) or any(port not in PORTS for port in reads):
        raise ValueError("a node reads at ports that there are not")
    in_order = sorted(reads.items(), key=lambda item: PORTS.index(item[0]))
    return Node(
        text(one["name"]),
        whole(one["sublayer"]),
        first,
        stop,
        text(one["step"]),
        text(one["text"]),
        tuple((port, tuple(map(whole, as_list(numbers)))) for port, numbers in in_order),
        tuple(map(whole, as_list(one["writes"]))),
        tuple(map(text, as_list(one.get("masks", [])))),
    )


def showing_from(one: Record, block: int) -> Showing | None:
    """What shows the edge of a record, which is from a block; None if nothing does."""
    kind, shown_by = text(one["kind"]), as_list(one["shown_by"])
    if kind == NOT_SHOWN:
        return None
    word, by = shown_by
    other: Word = ()
    numbers: tuple[tuple[int, Exact | None], ...] = ()
    if isinstance(by, Mapping):
        numbers = tuple((int(place), _held(number)) for place, number in by.items())
    else:
        other = _word(by)
    return Showing(text(one["to"]), text(one["port"]), block, kind, _word(word), other, numbers)


def _held(number: object) -> Exact | None:
    return None if number is None else plain(Fraction(text(number)))


def _word(part: object) -> Word:
    if isinstance(part, str):
        return tuple(part)
    symbols = as_list(part)
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in symbols):
        raise TypeError(f"{part!r} is no word")
    return tuple(cast(list[str | int], symbols))


def record_in(value: object) -> Record:
    """One record."""
    return records([value])[0]


def records(value: object) -> list[Record]:
    if not all(isinstance(one, Mapping) for one in as_list(value)):
        raise TypeError("an entry of the circuit is no record")
    return cast(list[Record], value)


def as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list")
    return value


def text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return float(value)
