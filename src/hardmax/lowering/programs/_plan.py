"""Which ways there are to compile a program, what each costs, and why it is possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hardmax._errors import RequestError
from hardmax._shown import shortened
from hardmax.core import Construction, Words, padded_parameters
from hardmax.languages.programs import Program, Scanned
from hardmax.lowering._planner import RoutePlan, ranking
from hardmax.lowering.programs._compile import ROUTES, lower_program
from hardmax.lowering.programs.legible import ROUTE as LEGIBLE
from hardmax.numerics import FLOAT64, Format


@dataclass(frozen=True, eq=False)
class ProgramOffer:
    """One route: what it builds, and why it can; or why it cannot."""

    route: str
    why: str
    construction: Construction | None

    def __repr__(self) -> str:
        told = self.why if self.construction is None else str(self.construction.bill)
        return f"ProgramOffer({self.route}: {told})"

    @property
    def refusal(self) -> str | None:
        return self.why if self.construction is None else None

    @property
    def resources(self) -> Mapping[str, float]:
        return self.build().bill.as_dict()

    @property
    def error(self) -> float:
        return self.build().claim.error

    def build(self) -> Construction:
        if self.construction is None:
            raise RequestError(self.why)
        return self.construction

    def as_dict(self) -> dict[str, object]:
        if self.construction is None:
            return {"route": self.route, "refusal": self.why}
        return {"route": self.route, "why": self.why, **self.construction.bill.as_dict()}


@dataclass(frozen=True, eq=False)
class ProgramPlan(RoutePlan[ProgramOffer]):
    """All offers for one program on some words.

    >>> import hardmax as hm
    >>> plan = hm.plan(hm.programs.fsm("(ab)*", alphabet="ab"), alphabet="ab", length=4)
    >>> [offer.route for offer in plan.open]
    ['shallow', 'parallel', 'legible']
    """

    program: Program
    words: Words
    offers: tuple[ProgramOffer, ...]

    def choose(self, prefer: str | None = None) -> ProgramOffer:
        """The first that stands, which is the shallow one; or the least of what is preferred.

        A legible model is larger, and built only when it is asked for by name.
        """
        if prefer == "float32":
            raise RequestError(
                "Routes of a program are not compared by float format: plan them for one, with "
                'float="float32"; prefer parameters, layers, heads or logit.'
            )
        rank = ranking(prefer)
        compact = [offer for offer in self.open if offer.route != LEGIBLE]
        if not compact:
            raise RequestError(self.offers[0].why)
        return compact[0] if prefer is None else min(compact, key=rank)

    def __repr__(self) -> str:
        routes = f"{len(self.open)} of {len(self.offers)} routes"
        return f"ProgramPlan({routes} for {shortened(self.program.name)} on {self.words})"

    def as_dict(self) -> dict[str, object]:
        offers = [offer.as_dict() for offer in self.offers]
        return {"program": self.program.name, "domain": str(self.words), "routes": offers}

    def __str__(self) -> str:
        lines = [f"{'route':<10}{'layers':>8}{'heads':>7}{'width':>7}{'parameters':>12}  why"]
        for offer in self.offers:
            if offer.construction is None:
                lines.append(f"{offer.route:<10} {offer.why}")
                continue
            bill = offer.construction.bill
            count = padded_parameters(offer.construction.transformer)
            numbers = f"{bill.layers:>8}{bill.heads:>7}{bill.width:>7}{count:>12,}"
            lines.append(f"{offer.route:<10}{numbers}  {offer.why}")
        return "\n".join(lines)


def plan_program(
    program: Program, words: Words, *, positions: str | None = None, format: Format = FLOAT64
) -> ProgramPlan:
    """The routes of a program: a compact one (two, if it runs a machine), and a legible one."""
    machines = [value for value in program.values if isinstance(value, Scanned)]
    offers = []
    for route in (*(ROUTES if machines else ROUTES[:1]), LEGIBLE):
        try:
            made = lower_program(program, words, positions=positions, route=route, format=format)
            offers.append(ProgramOffer(route, _why(machines, route, words), made))
        except RequestError as reason:
            offers.append(ProgramOffer(route, str(reason), None))
    return ProgramPlan(program, words, tuple(offers))


def _why(machines: list[Scanned], route: str, words: Words) -> str:
    """What the machines of a program allow."""
    if route == LEGIBLE:
        return "one step, one component, one named block"
    rounds = max(words.longest - 1, 0).bit_length()
    composed = f"where each state leads is composed in {rounds} rounds over 1, 2, 4, ... symbols"
    if not machines:
        return "every selection has a head, every function its look-up"
    reasons = []
    for machine in (value.machine for value in machines):
        if route == "shallow" and machine.counter is not None:
            reasons.append(
                f"every symbol turns the same circle of {machine.states} states, so that a sum "
                f"over the symbols so far decides"
            )
        elif route == "shallow" and machine.resets:
            reasons.append(
                "every symbol leads to one state or changes nothing, so that the last reset decides"
            )
        else:
            reasons.append(composed)
    return "; ".join(dict.fromkeys(reasons))
