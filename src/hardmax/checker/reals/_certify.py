"""Claims about vectors of real numbers: rounding, the methods, and the certificate they make."""

from __future__ import annotations

import math
from concurrent.futures import Executor

from hardmax.checker._budget import Clock, Progress, Standing, charge
from hardmax.checker._certificate import INTERRUPTED, Certificate, Verdict, about_floats
from hardmax.checker._hosts import about_host
from hardmax.checker.reals._methods import bound_error
from hardmax.checker.reals._question import Findings, Question, work_of_rounding
from hardmax.checker.rounding import float_bounds
from hardmax.core import Construction, Host
from hardmax.numerics import FORMATS, down, up

_EXP = "NumPy's exp, tanh, sin and their likes are good to 4 ulp in float64."
_NEGLIGIBLE = 2.0**-10  # of the claim's error: what rounds less need not be bounded more closely,
_HOPELESS = 2.0**10  # nor what rounds more: norms gained a factor of 140 at the most
_CONTRADICTION = "An error was measured that the proof excludes; please report this model."


def certify_reals(
    construction: Construction,
    tolerance: float | None,
    clock: Clock,
    executor: Executor | None,
    progress: Progress | None,
    host: Host | None = None,
) -> Certificate:
    """In each format: the error over the reals, and what rounding adds to it at most."""
    claim = construction.claim
    interrupted = False
    rounding = dict.fromkeys(FORMATS, math.inf)
    found = Findings()
    try:
        if progress is not None:
            progress(Standing(math.inf, 0.0, claim.error, 0, "rounding"))
        charge(work_of_rounding(construction.transformer))
        worthwhile = _NEGLIGIBLE * claim.error, _HOPELESS * max(claim.error, claim.asked or 0.0)
        about = claim.format, "float64"
        bounds = float_bounds(
            construction.transformer,
            claim.domain,
            worthwhile=worthwhile,
            claimed=about,
            host=host,
        )
        rounding = {name: float(bound.max()) for name, bound in bounds.items()}
        added = _added(rounding, claim.format)
        limit = down(claim.error - _allowance(rounding, added, claim.error))
        bound_error(
            Question(construction, limit, added, tolerance, clock, executor, progress), found
        )
    except KeyboardInterrupt:
        interrupted = True
    return _conclude(construction, found, clock, rounding, interrupted, host)


def _added(rounding: dict[str, float], format: str) -> float:
    """What rounding adds in the claim's format; a claim about that one is about float64, too."""
    return max(rounding[format], rounding["float64"])


def _allowance(rounding: dict[str, float], added: float, error: float) -> float:
    """How much of the error is left to rounding: that of float32 where it is small beside it."""
    coarse = rounding["float32"]
    return max(coarse, added) if coarse <= 2.0**-9 * error else added


def _conclude(
    construction: Construction,
    found: Findings,
    clock: Clock,
    rounding: dict[str, float],
    interrupted: bool,
    host: Host | None,
) -> Certificate:
    error, format = construction.claim.error, construction.claim.format
    formats = {name: _sum(found.certified, off) for name, off in rounding.items()}
    certified = max(formats[format], formats["float64"], found.measured)
    if found.measured > error:
        verdict, advice = Verdict.REFUTED, ""
    elif found.measured > found.certified:
        verdict, advice = Verdict.UNDECIDED, _CONTRADICTION
    elif certified <= error:
        verdict, advice = Verdict.PROVED, ""
    else:
        narrow = None if _added(rounding, format) < error else format
        verdict, advice = Verdict.UNDECIDED, _advice(found.reasons, narrow, interrupted)
    return Certificate.about(
        construction,
        verdict=verdict,
        certified=certified,
        measured=found.measured,
        worst=tuple(float(v) for v in found.worst) if len(found.worst) else None,
        method=found.method,
        boxes=found.boxes,
        formats=formats,
        assumptions=(
            *_assumptions(construction, formats),
            *about_host(host),
            *clock.budget.assumptions,
        ),
        advice=advice,
        seconds=clock.seconds,
        work=math.ceil(clock.work),
    )


def _sum(a: float, b: float) -> float:
    """a + b, never rounded down; exact where one of them is 0."""
    return a + b if a == 0.0 or b == 0.0 else float(up(a + b))


def _advice(reasons: list[str], narrow: str | None, interrupted: bool) -> str:
    """What would help; `narrow` is a format whose rounding leaves no room for anything else."""
    why = " ".join(dict.fromkeys(reasons))
    if interrupted:
        return f"{INTERRUPTED}; let it run. {why}".strip()
    if narrow is not None:
        return f"The rounding of {narrow} alone may exceed the claim; ask for a larger error."
    return f"Raise the budget, shrink the domain, or claim a larger error. {why}".strip()


def _assumptions(construction: Construction, bounds: dict[str, float]) -> tuple[str, ...]:
    """What is trusted: our own functions, the exponentials behind each bound, and the user."""
    told = construction.claim.target.steps() is None
    return (
        _EXP,
        *about_floats(construction.transformer, bounds),
        *(("The bounds that the user gave for the target hold.",) if told else ()),
    )
