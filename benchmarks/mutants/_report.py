"""Killed, survived and undecided by room, and every survivor with its line."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from benchmarks.mutants._mutation import Site
from benchmarks.mutants._results import (
    KILLED,
    SURVIVED,
    UNDECIDED,
    Result,
    explained,
    explanations,
)

FATES = (KILLED, SURVIVED, UNDECIDED)


def listed(sites: Sequence[Site]) -> Iterable[str]:
    """The sites as drawn, one line each."""
    for number, site in enumerate(sites, start=1):
        yield f"{number:4} {site.path}:{site.line} {site.operator}: {site.before}"


def told(result: Result) -> str:
    by = f" by {result.test}" if result.test else ""
    why = f" ({result.why})" if result.why else ""
    where = f"{result.path}:{result.line} {result.operator}"
    return f"{result.fate:9} {where}, {result.tests} tests, {result.cpu} s{by}{why}"


def report(results: Sequence[Result]) -> Iterable[str]:
    """The table by room, the share killed, and whoever lived."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        rooms[result.room][result.fate] += 1
    yield f"{'room':<12}" + "".join(f"{fate:>11}" for fate in FATES)
    for room, fates in sorted(rooms.items()):
        yield f"{room:<12}" + "".join(f"{fates[fate]:>11}" for fate in FATES)
    total = Counter(result.fate for result in results)
    yield f"{'all':<12}" + "".join(f"{total[fate]:>11}" for fate in FATES)
    if results:
        yield f"killed {total[KILLED]} of {len(results)}: {total[KILLED] / len(results):.1%}"
    known = explanations()
    for result in results:
        if result.fate != KILLED:
            yield from _survivor(result, explained(result, known))


def _survivor(result: Result, reason: str) -> Iterable[str]:
    function = f" in {result.function}" if result.function else ""
    yield f"\n{result.fate}: {result.path}:{result.line}{function}, {result.operator}"
    yield f"  - {result.before}"
    yield f"  + {result.after}"
    yield f"  {result.tests} tests, {result.cpu} s{'; ' + result.why if result.why else ''}"
    if reason:
        yield f"  explained: {reason}"
