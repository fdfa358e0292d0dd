"""The driver: which method, in which order, and what comes out."""

from __future__ import annotations

import math
from concurrent.futures import Executor
from typing import Any

from hardmax._errors import RequestError
from hardmax.checker._budget import Budget, Clock, Progress, Standing, charge
from hardmax.checker._certificate import INTERRUPTED, Certificate, Verdict, about_floats
from hardmax.core import Box, Construction
from hardmax.numerics import FORMATS, down, up

_EXP = "NumPy's exp, tanh, sin and their likes are good to 4 ulp in float64."
_CONTRADICTION = "An error was measured that the proof excludes; please report this model."


def certify(
    construction: Construction,
    *,
    tolerance: float | None = None,
    budget: Any = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Establish the claim of a construction from its weights, or break it, or say what is missing.

    The search stops as soon as the claim is decided; with a `tolerance` it goes on until
    certified <= (1 + tolerance) measured. `budget` is a text such as "1e8 work" or "1e6 boxes", for
    which the verdict is the same on every machine, or a time such as "30s", or a `Budget`; a unit
    of work is about a microsecond, and 6e7 are the default. `executor` is any
    `concurrent.futures.Executor`: boxes are sent to it in batches. An interruption (Ctrl-C) ends
    the search with the best verdict so far.
    """
    if tolerance is not None and not 0 < tolerance < math.inf:
        raise RequestError(
            f"The tolerance must be a number > 0, for example 0.01, not {tolerance}."
        )
    clock = Clock(Budget.of(budget))
    if not isinstance(construction.claim.domain, Box):
        from hardmax.checker.sequences import certify_sequences

        return certify_sequences(construction, clock, progress)
    return _certify_reals(construction, tolerance, clock, executor, progress)


def _certify_reals(
    construction: Construction,
    tolerance: float | None,
    clock: Clock,
    executor: Executor | None,
    progress: Progress | None,
) -> Certificate:
    from hardmax.checker._measure import work_of_rounding
    from hardmax.checker._reals import RealBound, bound_error
    from hardmax.checker.rounding import float_bounds

    claim = construction.claim
    interrupted = False
    rounding = dict.fromkeys(FORMATS, math.inf)
    state = RealBound(construction, claim.error, clock, tolerance, executor, progress)
    try:
        if progress is not None:
            progress(Standing(math.inf, 0.0, claim.error, 0, "rounding"))
        charge(work_of_rounding(construction.transformer))
        bounds = float_bounds(construction.transformer, claim.domain)
        rounding = {name: float(bound.max()) for name, bound in bounds.items()}
        state.rounding = rounding["float64"]
        state.limit = down(claim.error - _allowance(rounding, claim.error))
        bound_error(state)
    except KeyboardInterrupt:
        interrupted = True
    return _conclude(state, rounding, interrupted)


def _allowance(rounding: dict[str, float], error: float) -> float:
    """How much of the error is left to rounding: that of float32 where it is small beside it."""
    coarse = rounding["float32"]
    return coarse if coarse <= 2.0**-9 * error else rounding["float64"]


def _conclude(state: Any, rounding: dict[str, float], interrupted: bool) -> Certificate:
    claim = state.construction.claim
    formats = {name: _sum(state.certified, off) for name, off in rounding.items()}
    certified = max(formats["float64"], state.measured)
    if state.measured > claim.error:
        verdict, advice = Verdict.REFUTED, ""
    elif state.measured > state.certified:
        verdict, advice = Verdict.UNDECIDED, _CONTRADICTION
    elif certified <= claim.error:
        verdict, advice = Verdict.PROVED, ""
    else:
        verdict, advice = Verdict.UNDECIDED, _advice(state, rounding, interrupted)
    return Certificate.about(
        state.construction,
        verdict=verdict,
        certified=certified,
        measured=state.measured,
        worst=tuple(float(v) for v in state.worst) if len(state.worst) else None,
        method=state.method,
        boxes=state.boxes,
        formats=formats,
        assumptions=_assumptions(state.construction, formats) + state.clock.budget.assumptions,
        advice=advice,
        seconds=state.clock.seconds,
        work=math.ceil(state.clock.work),
    )


def _sum(a: float, b: float) -> float:
    """a + b, never rounded down; exact where one of them is 0."""
    return a + b if a == 0.0 or b == 0.0 else float(up(a + b))


def _advice(state: Any, rounding: dict[str, float], interrupted: bool) -> str:
    reasons = " ".join(dict.fromkeys(state.reasons))
    if interrupted:
        return f"{INTERRUPTED}; let it run. {reasons}".strip()
    if not rounding["float64"] < state.construction.claim.error:
        return "The rounding of float64 alone may exceed the claim; ask for a larger error."
    return f"Raise the budget, shrink the domain, or claim a larger error. {reasons}".strip()


def _assumptions(construction: Construction, bounds: dict[str, float]) -> tuple[str, ...]:
    """What is trusted: our own functions, the exponentials behind each bound, and the user."""
    told = construction.claim.target.steps() is None
    return (
        _EXP,
        *about_floats(construction.transformer, bounds),
        *(("The bounds that the user gave for the target hold.",) if told else ()),
    )
