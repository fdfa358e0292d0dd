"""The page of each kind of value, from what the value says of itself; nothing is worked out here.

A page never starts work that may take long: regions that nobody counted are shown as such.
"""

from __future__ import annotations

import math
from functools import singledispatch
from html import escape
from itertools import islice

import numpy as np

from hardmax._shown import shortened
from hardmax.checker import Certificate, Verdict
from hardmax.core import Bill, Claim, Construction, padded_parameters
from hardmax.geometry import (
    MinkowskiSum,
    Polytope,
    PowerDiagram,
    Regions,
    Stability,
    StabilityReport,
)
from hardmax.geometry.bounds import Bound
from hardmax.languages.programs import ProgramTarget
from hardmax.lowering import Plan, ProgramPlan
from hardmax.notebook._drawings import Plane, around
from hardmax.notebook._html import BAD, GOOD, OPEN, card, folded, line, table

_MOST_CELLS = 240  # that a small drawing can show, and 50 kB can hold
_VERDICTS = {Verdict.PROVED: GOOD, Verdict.REFUTED: BAD, Verdict.UNDECIDED: OPEN}


@singledispatch
def html_of(thing: object) -> str:
    """What a notebook shows; of a kind without a page, what it prints."""
    return f"<pre>{escape(str(thing))}</pre>"


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# ---- models --------------------------------------------------------------------------------------


@html_of.register
def _bill(bill: Bill) -> str:
    rows = [
        (name.replace("_", " "), _number(value))
        for name, value in bill.as_dict().items()
        if value is not None
    ]
    return card("bill", table(("resource", "Transformer"), rows), note=str(bill))


@html_of.register
def _claim(claim: Claim) -> str:
    rows = [(share.cause, share.where, f"{share.amount:.4g}") for share in claim.ledger]
    told = f"error at most {claim.error:.6g} in {claim.format}, on {claim.domain}"
    ledger = table(("error by", "where", "at most"), rows) if rows else ""
    target = claim.target
    name = target.program.name if isinstance(target, ProgramTarget) else str(target)
    return card("claim", line(shortened(name, 400)), line(told), ledger)


@html_of.register
def _construction(model: Construction) -> str:
    parts = [line(str(model.bill), quiet=True), html_of(model.claim)]
    parts.append(folded("bill", html_of(model.bill)))
    return card(f"Transformer, route {model.route}", *parts)


@html_of.register
def _certificate(proof: Certificate) -> str:
    numbers = {"measured": proof.measured, "certified": proof.certified, "claimed": proof.claimed}
    rows = [
        (name, f"{number:.6g}", f"{number / proof.claimed:.1%}" if proof.claimed > 0 else "")
        for name, number in numbers.items()
    ]
    bounds = ", ".join(
        f"{name} {bound:.3g}" + ("" if bound <= proof.claimed else " (above the claim)")
        for name, bound in proof.formats.items()
        if bound < math.inf
    )
    told = [
        table(("error", "value", "of the claim"), rows),
        line(f"by {proof.method}; {proof.verdict.value}"),
    ]
    told += [line(f"bounds by float format: {bounds}", quiet=True)] if bounds else []
    told += [line(proof.advice)] if proof.advice else []
    told += [line(one) for one in proof.statements]
    if proof.counterexample is not None:
        told.append(line(f"counterexample: {proof.counterexample}"))
    if proof.assumptions:
        told.append(folded("taken on trust", "".join(map(line, proof.assumptions))))
    return card(
        proof.verdict.name, *told, colour=_VERDICTS[proof.verdict], note=f"on {proof.domain}"
    )


# ---- plans ---------------------------------------------------------------------------------------

_RESOURCES = ("layers", "heads", "width", "tokens", "parameters", "largest_logit")


@html_of.register
def _plan(plan: Plan) -> str:
    rows = [
        (
            offer.route,
            *(_number(offer.resources[name]) for name in _RESOURCES),
            offer.float_format,
            f"{offer.error:.4g}",
        )
        for offer in plan.open
    ]
    names = (*(name.replace("_", " ") for name in _RESOURCES), "format", "claimed")
    marked = [k for k, offer in enumerate(plan.open) if offer.route in plan.best]
    refused = [line(f"{o.route}: {o.refusal}", quiet=True) for o in plan.offers if o.refusal]
    return card(
        "plan",
        table(("route", *names), rows, marked=marked),
        *refused,
        note=f"{plan.target} to {plan.error:g} on {plan.domain}; bold: no other route beats it",
    )


@html_of.register
def _program_plan(plan: ProgramPlan) -> str:
    rows, refused = [], []
    for offer in plan.offers:
        if offer.construction is None:
            refused.append(line(f"{offer.route}: {offer.why}", quiet=True))
            continue
        bill = offer.construction.bill
        counts = (bill.layers, bill.heads, bill.width)
        padded = padded_parameters(offer.construction.transformer)
        rows.append((offer.route, *map(_number, (*counts, padded)), offer.why))
    names = ("route", "layers", "heads", "width", "padded parameters", "how")
    return card("plan", table(names, rows), *refused, note=f"{plan.program.name} on {plan.words}")


# ---- geometry ------------------------------------------------------------------------------------


@html_of.register
def _diagram(diagram: PowerDiagram) -> str:
    told = [line(repr(diagram))]
    if len(diagram.empty):
        never = ", ".join(map(str, diagram.empty[:40].tolist()))
        told.append(line(f"keys that never win: {never}{', ...' * (len(diagram.empty) > 40)}"))
    return card("power diagram", *told, _cells_of(diagram))


def _cells_of(diagram: PowerDiagram) -> str:
    if diagram.dimension != 2 or diagram.on is None or len(diagram.live) > _MOST_CELLS:
        return ""
    box = diagram.on
    plane = Plane(np.array([box.low, box.high]))
    for key in diagram.live.tolist():
        corners = np.array(diagram.cell(key).corners, dtype=np.float64)
        if len(corners):
            plane.polygon(corners, key, f"key {key}")
    return plane.svg("power diagram")


@html_of.register
def _polytope(polytope: Polytope) -> str:
    return card("polytope", line(repr(polytope)), _outline(polytope))


@html_of.register
def _sum_of_polytopes(found: MinkowskiSum) -> str:
    return card("Minkowski sum", line(repr(found)), _outline(found.polytope()))


def _outline(polytope: Polytope) -> str:
    points = polytope.points.floats
    vertices = points[polytope.vertices]
    if points.shape[1] != 2 or polytope.dimension != 2 or len(points) > 20 * _MOST_CELLS:
        return ""
    plane = Plane(points)
    plane.polygon(around(vertices), 0, "polytope")
    inner = sorted(set(range(len(points))) - set(polytope.vertices.tolist()))
    for k in polytope.vertices.tolist() if len(vertices) <= _MOST_CELLS else []:
        plane.dot(points[k], f"vertex {k}")
    for k in inner[:_MOST_CELLS]:
        plane.dot(points[k], f"point {k}", faint=True)
    return plane.svg("polytope")


@html_of.register
def _regions(found: Regions) -> str:
    known = vars(found)
    told = [line(repr(found))]
    if "_tally_of_regions" in known:
        told.append(line(f"{found.count:,} regions, {found.cells:,} cells"))
    elif "_tally_of_cells" in known:
        told.append(line(f"{found.cells:,} cells; regions are not counted yet"))
    else:
        told.append(line("not counted yet: ask for .cells or .count", quiet=True))
    if found.bound is not None:
        told.append(line(f"at most {found.bound.scientific} cells for this shape", quiet=True))
    return card("linear regions", *told, _regions_drawn(found))


def _regions_drawn(found: Regions) -> str:
    if getattr(found.on, "dimension", None) != 2:
        return ""
    cells = list(islice(found, _MOST_CELLS + 1))
    if len(cells) > _MOST_CELLS:
        return line(
            f"more than {_MOST_CELLS} cells: hm.plots.regions_picture draws them", quiet=True
        )
    corners = [np.asarray(cell.vertices, dtype=np.float64) for cell in cells]
    plane = Plane(np.concatenate(corners))
    for k, points in enumerate(corners):
        plane.polygon(around(points), k, f"cell {k}")
    return plane.svg("linear regions")


@html_of.register
def _bound(bound: Bound) -> str:
    return card("bound", line(str(bound)), line(f"= {bound.formula}", quiet=True))


@html_of.register
def _report(report: StabilityReport) -> str:
    return card("stability", table(report.columns, report.rows()), note=report.headline())


@html_of.register
def _stability(stability: Stability) -> str:
    return html_of(stability.report())
