"""A function of several one-hots as few cases: a tree that asks one source after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

Given = tuple
Rows = Sequence[tuple[Given, object]]


class Case(NamedTuple):
    """Where each source named holds one of its items, the answer is this."""

    wanted: dict[int, frozenset]
    answer: object


def cases_of(rows: Rows, sources: int) -> list[Case]:
    """Cases that exclude each other and cover all rows.

    A source is asked where the answers differ, the one first whose items leave the fewest cases;
    items that leave the same are asked together.
    """
    return list(_split(rows, tuple(range(sources))))


def _split(rows: Rows, open_sources: tuple[int, ...]) -> list[Case]:
    answers = {answer for _, answer in rows}
    if len(answers) <= 1:
        return [Case({}, answer) for answer in answers]
    needed = list(open_sources)
    for source in open_sources:
        if not _matters(rows, source, needed):
            needed.remove(source)
    best: list[Case] | None = None
    for source in needed:
        found = _ask(rows, source, tuple(s for s in needed if s != source))
        if best is None or len(found) < len(best):
            best = found
        if len(rows) > _MANY:
            break
    assert best is not None
    return best


_MANY = 4096  # rows: of larger tables the first order is taken


def _ask(rows: Rows, source: int, rest: tuple[int, ...]) -> list[Case]:
    """One source, its items grouped by what the others then say."""
    by_item: dict[object, list] = {}
    for given, answer in rows:
        by_item.setdefault(given[source], []).append((given, answer))
    groups: dict[object, tuple[Rows, list]] = {}
    for item, own in by_item.items():
        says = frozenset((tuple(given[s] for s in rest), answer) for given, answer in own)
        groups.setdefault(says, (own, []))[1].append(item)
    return [
        Case({source: frozenset(items), **case.wanted}, case.answer)
        for own, items in groups.values()
        for case in _split(own, rest)
    ]


def _matters(rows: Rows, source: int, among: Sequence[int]) -> bool:
    """Whether two rows that differ in this source alone are answered differently."""
    seen: dict[Given, object] = {}
    others = [s for s in among if s != source]
    return any(
        seen.setdefault(tuple(given[s] for s in others), answer) != answer for given, answer in rows
    )
