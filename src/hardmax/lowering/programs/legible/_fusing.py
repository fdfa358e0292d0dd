"""Functions that are made at once with what they are made of: a layer less for each.

A step that the program gave no name, and that one function alone reads, need not be held:

- a function of one step, read by a function of it alone, is a part of that function;
- a sum, read by a function of it alone, is the number that the function is looked up by;
- a count by one head, read by a function of it alone, is looked up in its share right away, unless
  keys depend on it that would not be exact, or the float format has few digits;
- a function of one symbol, among the arguments of a function of few cases, is a part of the cases.

What is not held cannot be overwritten: whoever wants to gives it a name, `value.named("rank")`.
"""

from __future__ import annotations

from collections.abc import Callable

from hardmax.core import GIVEN, Aggregate, Combination, Pointwise
from hardmax.languages.programs import Given
from hardmax.lowering.programs.legible._cases import cases_of
from hardmax.lowering.programs.legible._functions import FEW, Functions

_FEW_CASES = 8  # units of a function that takes in functions of symbols
_FEW_ROWS = 2**12


def fuse(functions: Functions, *, exact_keys: bool, shares: bool) -> None:
    """Find the steps that need not be held; sources come before their readers.

    Where keys are to be exact, they are looked up in a share only if that is; `shares` are looked
    up by functions at all.
    """
    readers = _readers(functions)
    named = _named(functions)
    delicate = _compared_by_counts(functions)
    keyed = _keys(functions) if exact_keys else set()

    def may_share(one: int, count: int) -> bool:
        """Whether a function may be looked up in a share."""
        if not shares or one in delicate:
            return False
        return one not in keyed or functions.is_sharp_in_share(one, count)

    for step in functions.numbered():
        made = functions.step(step)
        if step in functions.kinds or step in functions.constants:
            continue
        if not isinstance(made, Pointwise | Combination):
            continue
        own = [
            s
            for s in functions.direct(step)
            if s >= GIVEN and s not in named and s not in functions.kinds and readers[s] == {step}
        ]
        if own and functions.direct(step) == own[:1]:
            _take_in(functions, step, own[0], may_share)
        elif isinstance(made, Pointwise):
            for one in own:
                _take_in_cases(functions, step, one)


def _readers(functions: Functions) -> dict[int, set[int]]:
    """Who reads each step; the answer is a reader of its own."""
    closed = functions.closed
    found: dict[int, set[int]] = {step: set() for step in range(GIVEN + len(closed.steps.steps))}
    for step in functions.numbered():
        sides = [
            side
            for scored in closed.scored.get(step, ())
            for one in scored.conjuncts
            for side in (one.key, one.query)
            if side is not None
        ]
        for source in (*functions.step(step).sources, *sides):
            found[source].add(step)
    for out in closed.steps.outputs:
        found[out].add(-1)
    return found


def _named(functions: Functions) -> set[int]:
    """Steps that go by a name of the program's, what every word has included."""
    return {
        step
        for value, step in functions.closed.place.items()
        if value.given_name is not None or isinstance(value, Given)
    }


def _compared_by_counts(functions: Functions) -> set[int]:
    """Steps of many numbers that heads compare whose scores have to be equal, or are multiplied.

    What is looked up in a share is not sharp enough for them.
    """
    found: set[int] = set()
    for step, parts in functions.closed.scored.items():
        made = functions.step(step)
        if isinstance(made, Aggregate) and (made.kind != "mean" or not made.agree):
            for one in (one for scored in parts for one in scored.conjuncts):
                found.update(side for side in (one.key, one.query) if side is not None)
    return {step for step in found if len(functions.closed.numbers[step]) > FEW}


def _keys(functions: Functions) -> set[int]:
    """Keys of heads, and what they are made of."""
    closed, found = functions.closed, set()
    for step in reversed(functions.numbered()):
        for one in (one for scored in closed.scored.get(step, ()) for one in scored.conjuncts):
            if one.key is not None:
                found.add(one.key)
        if step in found and not isinstance(functions.step(step), Aggregate):
            found.update(functions.direct(step))
    return found


def _take_in(
    functions: Functions, step: int, source: int, may_share: Callable[[int, int], bool]
) -> None:
    """The only source of a function, as a part of it."""
    made = functions.step(source)
    if isinstance(made, Aggregate):
        parts = functions.closed.scored[source]
        if made.kind in ("count", "sum") and len(parts) == 1 and may_share(step, source):
            functions.look_up_in_share(step, source)
    elif isinstance(made, Pointwise | Combination):
        if source in functions.sums or len(functions.sources(source)) > 1:
            if isinstance(made, Combination) and isinstance(functions.step(step), Pointwise):
                functions.sums[step] = source
                functions.inner.add(source)
            return
        count = functions.share_of(source)
        if count is not None and not may_share(step, count):
            return
        functions.inner.add(source)
        if count is not None:
            functions.look_up_in_share(step, count)


def _take_in_cases(functions: Functions, step: int, source: int) -> None:
    """One of several arguments, if it is a function of a symbol and all cases are few."""
    if not isinstance(functions.step(source), Pointwise):
        return
    leaves = functions.sources(source)
    if len(leaves) != 1 or functions.is_numeric(leaves[0]) or functions.share_of(source):
        return
    rest = [s for s in functions.sources(step) if s != source]
    if any(len(functions.closed.numbers[s]) > FEW and functions.is_numeric(s) for s in rest):
        return
    functions.inner.add(source)
    if functions.cases(step) <= _FEW_ROWS:
        found = cases_of(list(functions.rows(step)), len(functions.sources(step)))
        if sum(1 for one in found if one.answer) <= _FEW_CASES:
            return
    functions.inner.discard(source)
