"""The law of the campaign: whatever is broken is never called proved."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

from hardmax.checker import Certificate, Verdict
from hardmax.core import Construction
from hardmax.testing._mutations import mutate
from hardmax.testing._search import belied, first_break, has_a_hole, surely_broken, worst_points
from hardmax.testing._zoo import zoo

Certify = Callable[[Construction], Certificate]

CRASHED = "CRASHED"
UNTOUCHED = "untouched"


@dataclass(frozen=True)
class Trial:
    """One construction that was checked, and what is wrong with the check, if anything."""

    specimen: str
    kind: str
    label: str
    seed: int
    verdict: str  # the name of a verdict, or CRASHED
    method: str
    broken: bool  # the dense search breaks the claim
    belied: bool  # the witness says something false
    claimed: float
    attained: float  # the largest error that the dense search saw, in float64
    certified: float
    measured: float
    seconds: float
    fault: str | None

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def try_untouched(name: str, certify: Certify) -> Trial:
    """A specimen as it is: only PROVED will do."""
    return _try_mutant(name, UNTOUCHED, "", 0, zoo()[name].construction, certify)


def try_mutant(name: str, kind: str, seed: int, certify: Certify) -> Trial | None:
    """A mutant of a specimen; None where this kind of mutation does not apply to it."""
    mutant = mutate(zoo()[name].construction, kind, seed)
    if mutant is None:
        return None
    return _try_mutant(name, kind, mutant.label, seed, mutant.construction, certify)


def _try_mutant(
    name: str, kind: str, label: str, seed: int, construction: Construction, certify: Certify
) -> Trial:
    worst = worst_points(construction)
    broken = first_break(construction, worst) is not None or has_a_hole(construction)
    false = kind.startswith("witness") and belied(construction) is not None
    began = time.perf_counter()
    try:
        certificate: Certificate | None = certify(construction)
        crash = ""
    except Exception as reason:  # a checker that falls over has decided nothing, and is at fault
        certificate, crash = None, f"{type(reason).__name__}: {reason}"
    seconds = time.perf_counter() - began
    attained = worst[0][1]
    fault = crash or fault_of(
        kind, construction, certificate, broken=broken, belied=false, attained=attained
    )
    return Trial(
        name,
        kind,
        label,
        seed,
        CRASHED if certificate is None else certificate.verdict.name,
        "" if certificate is None else certificate.method,
        broken,
        false,
        construction.claim.error,
        attained,
        float("nan") if certificate is None else certificate.certified,
        float("nan") if certificate is None else certificate.measured,
        seconds,
        fault,
    )


def fault_of(
    kind: str,
    construction: Construction,
    found: Certificate | None,
    *,
    broken: bool,
    belied: bool,
    attained: float = 0.0,
) -> str | None:
    """What a certificate says that it must not say.

    Whatever the verdict, `certified` bounds every float64 evaluation, so also those that the
    dense search made.
    """
    if found is None:
        return None
    proved = found.verdict is Verdict.PROVED
    if proved and broken:
        return "PROVED, but the dense search breaks the claim"
    if found.certified < attained < float("inf"):
        return f"certified {found.certified:.9g}, but an error of {attained:.9g} is attained"
    if proved and belied and found.method == "steps":
        return "PROVED by steps, with a witness that is false"
    if proved and not found.measured <= found.certified <= construction.claim.error:
        return "PROVED without measured <= certified <= claimed"
    if found.verdict is Verdict.REFUTED and (
        found.worst is None or not surely_broken(construction, found.worst, by=0.0)
    ):
        return "REFUTED by an input that does not break the claim"
    if kind == UNTOUCHED and not proved:
        return f"{found.verdict.name}, but nothing was touched"
    return None
