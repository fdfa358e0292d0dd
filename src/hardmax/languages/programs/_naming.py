"""What the steps of a program are called: names that were given, and short ones for the others."""

from __future__ import annotations

from collections.abc import Iterable

from hardmax._errors import RequestError
from hardmax.languages.programs._interpreter import values_behind
from hardmax.languages.programs._nodes import (
    Aggregated,
    Applied,
    Combined,
    Constant,
    Given,
    Memorised,
    Ranked,
    Scanned,
    Value,
)

_CALLED = {
    Applied: "function",
    Combined: "combination",
    Ranked: "ranked",
    Scanned: "state",
    Memorised: "table",
}


def step_names(outputs: Iterable[Value], beside: Iterable[Value] = ()) -> dict[Value, str]:
    """A name for every value behind the outputs, and those beside, but constants, each its own.

    A value goes by the name that it was given, tokens, index and length by theirs, an output by
    "answer", and any other by what makes it: count, count2, gather, function, ... Sums that are
    parts of sums come last.
    """
    listed = dict.fromkeys(outputs)
    behind = [v for v in values_behind(*listed, *beside) if not isinstance(v, Constant)]
    parts = {s for v in behind if isinstance(v, Combined) for s in v.sources}
    parts = {s for s in parts if isinstance(s, Combined)}
    values = [v for v in behind if v not in parts] + [v for v in behind if v in parts]
    names: dict[Value, str] = {}
    taken: set[str] = set()
    for value in values:
        name = value.what if isinstance(value, Given) else value.given_name
        if name is None:
            continue
        if name in taken:
            raise RequestError(f"Two steps are named {name!r}; give each a name of its own.")
        taken.add(name)
        names[value] = name
    for value in values:
        if value not in names:
            kind = "answer" if value in listed else kind_of(value)
            names[value] = free_name(kind, taken)
    return names


def free_name(kind: str, taken: set[str]) -> str:
    """The first of kind, kind2, kind3, ... that is not taken; it is, from now on."""
    name, number = kind, 1
    while name in taken:
        number += 1
        name = f"{kind}{number}"
    taken.add(name)
    return name


def kind_of(value: Value) -> str:
    """What makes a value, in a word."""
    if isinstance(value, Aggregated):
        return "gather" if value.kind == "only" else value.kind
    return _CALLED[type(value)]
