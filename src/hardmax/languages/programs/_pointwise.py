"""What a position works out by itself, from values that are given or come from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from hardmax.languages.programs._interpreter import (
    apply_function,
    combine_numbers,
    join_verdicts,
    relation_holds,
)
from hardmax.languages.programs._items import Item
from hardmax.languages.programs._nodes import Applied, Combined, Constant, Joined, Related
from hardmax.languages.programs._nodes import Selection as Selection
from hardmax.languages.programs._nodes import Value as Value


def roots_of(value: Value) -> list[Value]:
    """The values behind this one that no function of others at the same position makes."""
    roots: dict[Value, None] = {}
    stack = [value]
    seen: set[Value] = set()
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        match node:
            case Applied(sources=sources) | Combined(sources=sources):
                stack += reversed(sources)
            case Constant():
                pass
            case _:
                roots[node] = None
    return list(roots)


def evaluate_pointwise(value: Value, given: Mapping[Value, Item]) -> Item:
    """What the value is where its roots (or values on the way to them) hold given items."""
    if value in given:
        return given[value]
    match value:
        case Constant(item=same):
            return same
        case Applied(sources=sources):
            return apply_function(value, [evaluate_pointwise(source, given) for source in sources])
        case Combined(sources=sources):
            return combine_numbers(value, [evaluate_pointwise(source, given) for source in sources])
    raise KeyError(value)


def conjuncts(selection: Selection) -> list[Selection]:
    """The selections of which all must hold."""
    if isinstance(selection, Joined) and selection.how == "and":
        return [one for part in selection.parts for one in conjuncts(part)]
    return [selection]


def keys_and_queries(selection: Selection) -> tuple[list[Value], list[Value]]:
    """The values compared there and here, each once."""
    match selection:
        case Related(keys=keys, queries=queries):
            return list(dict.fromkeys(keys)), list(dict.fromkeys(queries))
        case Joined(parts=parts):
            pairs = [keys_and_queries(part) for part in parts]
            there = dict.fromkeys(key for own, _ in pairs for key in own)
            return list(there), list(dict.fromkeys(q for _, asked in pairs for q in asked))
    raise AssertionError(f"unknown selection {selection!r}")


def selects(selection: Selection, there: Mapping[Value, Item], here: Mapping[Value, Item]) -> bool:
    """Whether a position with these keys is selected by one with these queries."""
    match selection:
        case Related(keys=keys, queries=queries):
            own = [there[key] for key in keys]
            return relation_holds(selection, own, [here[query] for query in queries])
        case Joined(how=how, parts=parts):
            return join_verdicts(how, (selects(part, there, here) for part in parts))
    raise AssertionError(f"unknown selection {selection!r}")
