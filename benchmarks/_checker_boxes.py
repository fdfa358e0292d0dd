"""Boxes: how many a second, against a loop over balls; how many at all, against plain intervals."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._checker_flint import enclose_in_a_loop
from benchmarks._checker_natural import boxes_needed
from benchmarks._checker_problem import enclose, posed, searched
from benchmarks._checker_tightness import command
from benchmarks._functions_cases import UNIT
from benchmarks._measure import interleaved_medians, threads
from benchmarks._report import Check, Report, Settings, Sheet

FASTER = 50.0
BOXES = 100_000
LOOPED = 2_000  # boxes in the loop: its time is proportional to them
SIDE = 2.0**-7  # of the domain, as the boxes of a search become
MOST = 2_000_000  # boxes after which plain intervals give up
MODELS = {
    "exp(x) at 1e-2, direct": ("exp(x)", {"x": (0.0, 1.0)}, 1e-2, 0.01),
    "exp(x) at 1e-4, direct": ("exp(x)", {"x": (0.0, 1.0)}, 1e-4, 0.01),
    "sin(x) at 1e-3, direct": ("sin(x)", {"x": UNIT}, 1e-3, 0.01),
    "x*y at 1e-2, direct": ("x*y", {"x": UNIT, "y": UNIT}, 1e-2, 0.02),
    "x*y at 1e-3, direct": ("x*y", {"x": UNIT, "y": UNIT}, 1e-3, 0.02),
    "max(x,y) at 1e-2, direct": ("max(x,y)", {"x": UNIT, "y": UNIT}, 1e-2, 0.02),
}
COMPARED = "x*y at 1e-3, direct"  # the model on which the ratio is required


def boxes(settings: Settings) -> Report:
    reports = [_rate(settings), _number(settings)]
    return Report(
        [sheet for report in reports for sheet in report.sheets],
        [check for report in reports for check in report.checks],
        {key: value for report in reports for key, value in report.record.items()},
    )


def _built(name: str) -> hm.Construction:
    text, on, error, _ = MODELS[name]
    return hm.compile(text, on=on, error=error, route="direct")


def _rate(settings: Settings) -> Report:
    sheet = Sheet(
        command(settings, "boxes"),
        f"Required: at least {FASTER:g} times as many boxes a second as a python-flint loop over "
        f"the same tape in the same form, at {BOXES:,} boxes ({LOOPED:,} in the loop). Medians of "
        f"{settings.rounds} interleaved rounds of CPU time, on {threads()}.",
        *("·model", "vectorised/s", "loop/s", "ratio", "bounds, ours/loop", "·"),
    )
    record: dict[str, Any] = {}
    checks = list[Check]()
    for name in (COMPARED, "exp(x) at 1e-4, direct"):
        tape, low, high = _batch(_built(name))
        few = slice(0, LOOPED)
        seconds = interleaved_medians(
            {
                "ours": lambda: enclose(tape, low, high),  # noqa: B023
                "loop": lambda: enclose_in_a_loop(tape, low[:, few], high[:, few]),  # noqa: B023
            },
            settings.rounds,
        )
        ours, loop = BOXES / seconds["ours"], LOOPED / seconds["loop"]
        bounds = enclose(tape, low[:, few], high[:, few]).most / enclose_in_a_loop(
            tape, low[:, few], high[:, few]
        )
        mark = ""
        if name == COMPARED:
            checks.append(Check(f"{name}: {ours / loop:.0f} times", ours / loop >= FASTER, True))
            mark = checks[-1].mark
        sheet.table.add_row(
            name, f"{ours:,.0f}", f"{loop:,.0f}", f"{ours / loop:.1f}", f"{bounds.mean():.4f}", mark
        )
        record[name] = {"vectorised_per_second": ours, "loop_per_second": loop}
    return Report([sheet], checks, {"rates": record})


def _batch(construction: hm.Construction) -> tuple[Any, np.ndarray, np.ndarray]:
    problem = posed(construction)
    rng = np.random.default_rng(0)
    width = (problem.high - problem.low)[:, None]
    low = problem.low[:, None] + rng.random((problem.dimension, BOXES)) * width * (1 - SIDE)
    return problem.tape, low, low + SIDE * width


def _number(settings: Settings) -> Report:
    sheet = Sheet(
        command(settings, "boxes"),
        "Required: fewer boxes than the natural interval form, to the same ratio of certified to "
        f"measured (the natural form gives up at {MOST:,} boxes).",
        *("·model", "ratio", "boxes", "natural form", "·"),
    )
    checks, record = list[Check](), dict[str, Any]()
    for name, (_, _, _, tolerance) in MODELS.items():
        construction = _built(name)
        found = searched(construction, tolerance)
        wanted = found.measured * (1 + tolerance)
        natural = boxes_needed(posed(construction), wanted, MOST)
        checks.append(Check(f"{name}: {found.boxes:,} boxes", found.boxes < (natural or MOST)))
        sheet.table.add_row(
            name,
            f"{found.certified / found.measured:.4f}",
            f"{found.boxes:,}",
            f"{natural:,}" if natural else f"> {MOST:,}",
            checks[-1].mark,
        )
        record[name] = {"boxes": found.boxes, "natural": natural, "most": MOST}
    return Report([sheet], checks, {"boxes": record})
