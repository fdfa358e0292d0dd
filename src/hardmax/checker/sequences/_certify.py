"""Claims about words: enumeration where the words can be tried, value sets where they cannot."""

from __future__ import annotations

import math

from hardmax.checker._budget import PER_SECOND, Clock, Progress
from hardmax.checker._certificate import INTERRUPTED, Certificate, Verdict, about_floats
from hardmax.checker._hosts import about_host
from hardmax.checker.sequences._blocks import bound_blocks
from hardmax.checker.sequences._value_sets import bound_words
from hardmax.checker.sequences._word_search import WordSearch, try_words
from hardmax.checker.sequences.words import cost_of_enumeration, enumerate_words
from hardmax.core import Construction, Host

_AT_ONCE = 2e6  # units of work: enumeration is exact, so it goes first if it takes no more


def certify_sequences(
    construction: Construction,
    clock: Clock,
    progress: Progress | None = None,
    host: Host | None = None,
) -> Certificate:
    """Establish a claim on words, or break it, or say what is missing.

    First some words are tried, awkward ones among them. If all can be tried in a moment they are.
    Otherwise the Transformer and the steps of its target are followed on slots, for all words of a
    length at once; and if that does not decide it, all words are tried after all if the budget
    allows. An interruption ends the check with what is known so far.
    """
    search = WordSearch(construction, clock, progress, host)
    try:
        _check(search)
    except KeyboardInterrupt:
        search.advice = f"{INTERRUPTED}; let it run."
    return _conclude(search)


def _is_quick(search: WordSearch) -> bool:
    """Enumeration is exact, so it goes first if it is over in a moment."""
    cost = cost_of_enumeration(search)
    return cost.is_affordable and cost.work <= _AT_ONCE


def _is_affordable(search: WordSearch) -> bool:
    return cost_of_enumeration(search).is_affordable


def _needs_value_sets(search: WordSearch) -> bool:
    return search.steps is not None and not _is_quick(search)


def _is_legible(search: WordSearch) -> bool:
    """A circuit is stated of it, which is to be proved as well, by this method or not at all."""
    return search.construction.circuit is not None and search.host is None


METHODS = (  # to what it applies, and what it does
    (lambda search: True, try_words),
    (_is_legible, bound_blocks),
    (_needs_value_sets, bound_words),
    (_is_affordable, enumerate_words),
)


def _check(search: WordSearch) -> None:
    for applies, run in METHODS:
        if applies(search):
            run(search)
            if search.decided or run is bound_blocks:
                return
    if not _is_affordable(search):
        _advise(search)


def _advise(search: WordSearch) -> None:
    all_words = cost_of_enumeration(search)
    duration = _duration(all_words.work / PER_SECOND)
    cost = f"Trying all {_count(all_words.words)} words would take about {duration}"
    if search.steps is None:
        search.method = "enumeration"
        reason = search.advice or "The target does not say its steps()."
        search.advice = (
            f"{reason} {cost}. Claim shorter words or fewer symbols, or give a target whose steps "
            f"can be followed."
        )
    else:
        search.advice = f"{search.advice} {cost}.".strip()


def _conclude(search: WordSearch) -> Certificate:
    """What is certified includes the rounding of the claim's format; boxes are words tried, and
    cases compared."""
    certified, clock = search.certified, search.clock
    if search.refuted:
        verdict = Verdict.REFUTED
    elif certified <= search.claimed:
        verdict = Verdict.PROVED
    else:
        verdict = Verdict.UNDECIDED
    assumed = about_floats(search.construction.transformer, search.formats)
    assumed += about_host(search.host)
    return Certificate.about(
        search.construction,
        verdict=verdict,
        certified=certified,
        measured=search.measured,
        worst=search.worst,
        method=search.method,
        boxes=clock.boxes,
        formats=search.formats,
        assumptions=assumed + search.assumptions + clock.budget.assumptions,
        statements=search.statements if verdict is Verdict.PROVED else (),
        advice=_advice(search) if verdict is Verdict.UNDECIDED else "",
        seconds=clock.seconds,
        work=math.ceil(clock.work),
    )


def _advice(search: WordSearch) -> str:
    """What would help; nothing that was tried does if only the claim's format is too coarse."""
    format = search.construction.claim.format
    if search.formats.get("float64", math.inf) <= search.claimed:
        return f"It holds in float64, but was not shown in {format}: claim it in a finer format."
    return search.advice


def _count(words: int) -> str:
    if words < 10**7:
        return f"{words:,}"
    power = len(str(words)) - 1
    return f"{words / 10**power:.1f}e{power}" if power < 300 else f"1e{power}"


def _duration(seconds: float) -> str:
    if seconds < 120:
        return f"{max(seconds, 1):.0f} seconds"
    for unit, size in (("minutes", 60), ("hours", 3600), ("days", 86400)):
        if seconds < 200 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 31557600:.2g} years"
