"""Programs as text: each step once, in the order in which they are computed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

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
    Value,
)

_DEEPEST = 6  # nested steps that are still written in one line


def step_text(node: Value | Selection, names: dict[int, str] | None = None, depth: int = 0) -> str:
    """A value or selection in one line; parts with a name are called by it."""
    names = {} if names is None else names
    if depth and id(node) in names:
        return names[id(node)]
    if depth > _DEEPEST:
        return "..."

    def inner(part: Value | Selection) -> str:
        return step_text(part, names, depth + 1)

    match node:
        case Given(what=what):
            return what
        case Constant(item=held):
            return repr(held) if isinstance(held, str) else str(held)
        case Applied(sources=sources, text=text):
            return text.format(*map(_in_brackets, map(inner, sources)))
        case Combined():
            return _sum(node, inner)
        case Aggregated(selection=selection, kind=kind, value=value, default=default):
            rest = "" if default is None or kind in ("sum", "count") else f", else {default!r}"
            if kind == "only" and value is not None:
                return f"{inner(value)} at [{inner(selection)}]{rest}"
            of = "" if value is None else f" of {inner(value)}"
            return f"{kind}{of} over [{inner(selection)}]{rest}"
        case Ranked(selection=selection, value=read, rank=rank):
            parts = [step_text(one, names, depth + 1) for one in (rank, read, selection)]
            return "number {} in order of {} where {}".format(*parts)
        case Scanned(source=source, machine=machine):
            return f"state of {machine!r} after {inner(source)}"
        case Memorised(source=source, rows=rows):
            return f"table of {len(rows)} words at {inner(source)}"
        case Related(keys=keys, queries=queries, text=text):
            return text.format(*map(_in_brackets, map(inner, (*keys, *queries))))
        case Joined(how="not", parts=(part,)):
            return f"not ({inner(part)})"
        case Joined(how=how, parts=parts):
            return f" {how} ".join(f"({inner(part)})" for part in parts)
    raise AssertionError(f"unknown node {type(node).__name__}")


def _in_brackets(text: str) -> str:
    return f"({text})" if " " in text else text


def _sum(node: Combined, inner: Callable[[Value], str]) -> str:
    parts = []
    for weight, source in zip(node.weights, node.sources, strict=True):
        text = _in_brackets(inner(source))
        size = "" if abs(weight) == 1 else f"{abs(weight)} * "
        parts.append((weight < 0, size + text))
    if node.constant or not parts:
        parts.append((node.constant < 0, str(abs(Fraction(node.constant)))))
    first, *others = parts
    start = ("-" if first[0] else "") + first[1]
    return start + "".join((" - " if minus else " + ") + text for minus, text in others)
