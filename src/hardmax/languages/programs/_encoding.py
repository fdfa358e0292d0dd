"""Programs as text that a file can hold, and back.

A program is made of Python functions, which a file cannot hold and nobody should load. On words
over an alphabet every function has finitely many arguments, so it is written as a table; those of
Python's `operator` are written by name. What is read back is data: nothing is ever run.
"""

from __future__ import annotations

import itertools
import json
import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import TypedDict, cast

from hardmax._errors import FileError, HardmaxError, SemanticsError
from hardmax.core import EncodedTarget, Words
from hardmax.languages.programs._interpreter import apply_function, relation_holds
from hardmax.languages.programs._items import Item, Kept
from hardmax.languages.programs._machines import Machine
from hardmax.languages.programs._nodes import (
    Aggregated,
    Applied,
    Combined,
    Constant,
    Given,
    Joined,
    Memorised,
    Ranked,
    Related,
    Scanned,
    Selection,
    Sequence,
    Value,
)
from hardmax.languages.programs._program import Program

KIND = "program"
_FRACTION = re.compile(r"-?[0-9]{1,4000}(/[0-9]{1,4000})?")
_MOST_ROWS = 2**18  # of all tables of one program
_NAMED = {
    name: getattr(operator, name)
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "mul", "floordiv", "mod", "not_", "abs")
}

Sets = Mapping[Value, tuple[Item, ...]]
Packed = str | int | float | list[str] | None  # an item in JSON; a list is a fraction, or `Kept`
FunctionPart = str | list[tuple[list[Packed], Packed]]  # its name, or its answers


class MachinePart(TypedDict, total=False):
    alphabet: list[Packed]
    moves: list[list[int]]
    accepting: list[int]


class SelectionPart(TypedDict, total=False):
    """and, or, not of parts; or keys and queries in a relation."""

    how: str
    parts: list[SelectionPart]
    keys: list[int]
    queries: list[int]
    text: str
    function: FunctionPart
    nothing: bool


class NodePart(MachinePart, total=False):
    """One value of a program, by its kind; values that it reads are told by their places."""

    kind: str
    name: str
    item: Packed
    sources: list[int]
    source: int
    text: str
    nothing: bool
    function: FunctionPart
    numbers: list[str]
    selection: SelectionPart
    how: str
    value: int | None
    rank: int
    default: Packed
    rows: list[tuple[list[Packed], list[Packed]]]
    otherwise: Packed


class _Unwritable(Exception):
    """The tables would be too long for a file, or hold what no file can."""


def encode_program(
    program: Program, words: Words, sets: Sets, *, closed: bool = False
) -> EncodedTarget | None:
    """The program on these words as JSON; None if its tables cannot be written."""
    writer = _JsonWriter(sets)
    try:
        nodes = [writer.named_node(value) for value in program.values]
    except _Unwritable:
        return None
    content: dict[str, object] = {
        "name": program.name,
        "at": program.at,
        "words": str(words),
        "nodes": nodes,
        "outputs": [writer.place[output] for output in program.outputs],
    }
    if closed:
        content["closed"] = True
    if program.beside:
        content["beside"] = [writer.place[value] for value in program.beside]
    return EncodedTarget(KIND, json.dumps(content, separators=(",", ":")), {})


class _JsonWriter:
    def __init__(self, sets: Sets) -> None:
        self.sets = sets
        self.place: dict[Value, int] = {}
        self.rows = 0

    def named_node(self, value: Value) -> NodePart:
        part = self.node(value)
        if value.given_name is not None:
            part["name"] = value.given_name
        return part

    def node(self, value: Value) -> NodePart:
        self.place[value] = len(self.place)
        match value:
            case Given(what=what):
                return {"kind": what}
            case Constant(item=same):
                return {"kind": "constant", "item": _item_to_json(same)}
            case Applied():
                function = self._function(value.function, value.sources, _applier(value))
                return {
                    "kind": "applied",
                    "sources": self._places(value.sources),
                    "text": value.text,
                    "nothing": value.takes_nothing,
                    "function": function,
                }
            case Combined(sources=sources, weights=weights, constant=constant):
                numbers = [str(Fraction(one)) for one in (*weights, constant)]
                return {"kind": "combined", "sources": self._places(sources), "numbers": numbers}
            case Aggregated():
                read = None if value.value is None else self.place[value.value]
                return {
                    "kind": "aggregated",
                    "selection": self._selection(value.selection),
                    "how": value.kind,
                    "value": read,
                    "default": _item_to_json(value.default),
                }
            case Ranked():
                return {
                    "kind": "ranked",
                    "selection": self._selection(value.selection),
                    "value": self.place[value.value],
                    "rank": self.place[value.rank],
                    "default": _item_to_json(value.default),
                }
            case Scanned(source=source, machine=machine):
                return {"kind": "scanned", "source": self.place[source], **_machine(machine)}
            case Memorised(source=source, rows=rows, otherwise=otherwise):
                self._count(len(rows))
                pairs = [
                    (_items_to_json(word), _items_to_json(answer)) for word, answer in rows.items()
                ]
                return {
                    "kind": "memorised",
                    "source": self.place[source],
                    "rows": pairs,
                    "otherwise": _item_to_json(otherwise),
                }
        raise AssertionError(f"unknown value {type(value).__name__}")

    def _places(self, values: tuple[Value, ...]) -> list[int]:
        return [self.place[value] for value in values]

    def _selection(self, selection: Selection) -> SelectionPart:
        match selection:
            case Joined(how=how, parts=parts):
                return {"how": how, "parts": [self._selection(part) for part in parts]}
            case Related(keys=keys, queries=queries, relation=relation, text=text):

                def holds(*given: Item) -> bool:
                    return relation_holds(
                        selection, list(given[: len(keys)]), list(given[len(keys) :])
                    )

                function = self._function(relation, (*keys, *queries), holds)
                part: SelectionPart = {
                    "how": "related",
                    "keys": self._places(keys),
                    "queries": self._places(queries),
                    "text": text,
                    "function": function,
                }
                if selection.takes_nothing:
                    part["nothing"] = True
                return part
        raise AssertionError(f"unknown selection {type(selection).__name__}")

    def _function(
        self, function: Callable[..., object], sources: tuple[Value, ...], call: Callable[..., Item]
    ) -> FunctionPart:
        """Its name, or what it says to all arguments; those on which it fails are left out."""
        named = [name for name, known in _NAMED.items() if known is function]
        if named:  # by identity: a callable object need not have a hash
            return named[0]
        lists = [self.sets[source] for source in sources]
        self._count(math.prod(map(len, lists)))
        rows = []
        for given in itertools.product(*lists):
            try:
                rows.append((_items_to_json(given), _item_to_json(call(*given))))
            except SemanticsError:
                continue
        return rows

    def _count(self, rows: int) -> None:
        self.rows += rows
        if self.rows > _MOST_ROWS:
            raise _Unwritable


def _applier(value: Applied) -> Callable[..., Item]:
    return lambda *given: apply_function(value, list(given))


def _machine(machine: Machine) -> MachinePart:
    return {
        "alphabet": _items_to_json(machine.alphabet),
        "moves": [list(row) for row in machine.moves],
        "accepting": sorted(machine.accepting),
    }


def _items_to_json(items: Iterable[Item]) -> list[Packed]:
    return [_item_to_json(one) for one in items]


def _item_to_json(one: Item) -> Packed:
    """JSON has no fractions: they are written in a list of their own; so are floats and bools."""
    if isinstance(one, Kept):
        if type(one.seen) not in (bool, float):  # NumPy's numbers, say, which no file has
            raise _Unwritable
        return [str(Fraction(one)), *one.look]
    return [str(one)] if isinstance(one, Fraction) else one


def _item_from_json(one: Packed) -> Item:
    if isinstance(one, list):
        return _fraction(*one) if len(one) == 1 else _seen_number(*one)
    if one is not None and not isinstance(one, str | int | float):
        raise FileError("holds a program with an item that is no symbol and no number.")
    return one


def _seen_number(number: str, kind: str, look: str) -> Kept:
    """A float or a bool that functions saw as such."""
    seen = {"bool": look == "True", "float": float(_fraction(number))}.get(kind)
    if seen is None:
        raise FileError(f"holds a program with a number of the unknown kind {kind!r}.")
    return Kept(-0.0 if look == "-0.0" else seen)


def _fraction(text: str) -> Fraction:
    """A number as `str` writes it: 1e999999999 would be read, too, digit by digit."""
    if not _FRACTION.fullmatch(text):
        raise FileError(f"holds a program with {text[:20]!r} in place of a fraction.")
    return Fraction(text)


# ---- reading -----------------------------------------------------------------------------------


def decode_program(text: str) -> tuple[Program, Words, bool]:
    """The program that `encode_program` wrote, the words it is about, and whether it is closed."""
    try:
        content = json.loads(text)
        reader = _JsonReader()
        for node in content["nodes"]:
            reader.values.append(reader.named_value(node))
        outputs = [reader.values[place] for place in content["outputs"]]
        beside = [reader.values[place] for place in content.get("beside", [])]
        program = Program(outputs, str(content["name"]), content["at"], beside)
        return program, Words.parse(content["words"]), content.get("closed") is True
    except HardmaxError:
        raise
    except RecursionError as reason:
        raise FileError("holds a program that is nested too deeply to be read.") from reason
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ArithmeticError) as reason:
        raise FileError(f"holds a program that cannot be read: {reason!r:.200}.") from reason


class _JsonReader:
    def __init__(self) -> None:
        self.values: list[Value] = []

    def named_value(self, node: NodePart) -> Value:
        value = self.value(node)
        return value.named(str(node["name"])) if "name" in node else value

    def value(self, node: NodePart) -> Value:
        kind = node["kind"]
        if kind in ("tokens", "index", "length"):
            return getattr(Sequence(), kind)
        if kind == "constant":
            return Constant(_item_from_json(node["item"]))
        if kind == "applied":
            function = _function(node["function"])
            return Applied(function, self._all(node["sources"]), node["text"], node["nothing"])
        if kind == "combined":
            *weights, constant = map(_fraction, node["numbers"])
            return Combined(self._all(node["sources"]), tuple(weights), constant)
        if kind == "aggregated":
            read = None if node["value"] is None else self.values[node["value"]]
            default = _item_from_json(node["default"])
            return Aggregated(self._selection(node["selection"]), node["how"], read, default)
        if kind == "ranked":
            value, rank = self.values[cast(int, node["value"])], self.values[node["rank"]]
            default = _item_from_json(node["default"])
            return Ranked(self._selection(node["selection"]), value, rank, default)
        if kind == "scanned":
            return Scanned(self.values[node["source"]], _machine_from(node))
        if kind == "memorised":
            rows = {
                tuple(map(_item_from_json, word)): tuple(map(_item_from_json, answer))
                for word, answer in node["rows"]
            }
            otherwise = _item_from_json(node["otherwise"])
            return Memorised(self.values[node["source"]], rows, otherwise)
        raise FileError(f"holds a program with a step of the unknown kind {kind!r}.")

    def _all(self, places: list[int]) -> tuple[Value, ...]:
        return tuple(self.values[place] for place in places)

    def _selection(self, part: SelectionPart) -> Selection:
        if part["how"] in ("and", "or", "not"):
            return Joined(part["how"], tuple(map(self._selection, part["parts"])))
        keys, queries = self._all(part["keys"]), self._all(part["queries"])
        nothing = part.get("nothing") is True
        return Related(keys, queries, _function(part["function"]), part["text"], nothing)


def _function(written: FunctionPart) -> Callable[..., Item]:
    if isinstance(written, str):
        return _NAMED[written]
    table = {tuple(map(_item_from_json, given)): _item_from_json(found) for given, found in written}
    return lambda *given: table[given]


def _machine_from(node: NodePart) -> Machine:
    moves = tuple(tuple(map(int, row)) for row in node["moves"])
    alphabet = tuple(map(_item_from_json, node["alphabet"]))
    states = range(len(moves))
    if not all(len(row) == len(alphabet) and all(s in states for s in row) for row in moves):
        raise FileError("holds a machine whose transition table is incomplete.")
    return Machine(alphabet, tuple(states), moves, frozenset(map(int, node["accepting"])))
