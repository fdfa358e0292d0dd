"""Wide networks: certifying with coefficients in arrays, beside rationals alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hardmax as hm
from benchmarks._checker_tightness import command
from benchmarks._measure import interleaved_medians, threads
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import large_network, random_maxout, random_relu
from hardmax.checker.forms import _coefficients

ROUNDS = 5
NEVER = 1 << 60  # coefficients in one form: none has so many
RELU, MAXOUT = 1.0, 5.0  # seconds that are asked for; times are reported, but decide nothing


def _cases() -> dict[str, tuple[hm.Source, str, str, float]]:
    relu, maxout = large_network(), random_maxout(0, 2, 64, 256, 256, 10)
    small = random_relu(0, 2, 16, 16, 1)
    return {
        "ReLU 64-256-256-10, attention": (relu, "[-1,1]^64", "attention", RELU),
        "ReLU 64-256-256-10, attention-only": (relu, "[-1,1]^64", "attention-only", RELU),
        "maxout 64-256-256-10, attention": (maxout, "[-1,1]^64", "attention", MAXOUT),
        "maxout 64-256-256-10, attention-only": (maxout, "[-1,1]^64", "attention-only", MAXOUT),
        "ReLU 2-16-16-1, attention": (small, "[-1,1]^2", "attention", RELU),
    }


def wide(settings: Settings) -> Report:
    """Medians of CPU time, the same certificates being found both ways."""
    sheet = Sheet(
        command(settings, "wide"),
        f"Asked for: {RELU:g} s for ReLU networks and {MAXOUT:g} s for maxout networks of rank 2; "
        f"the same certificate and work with rationals alone. Medians of {ROUNDS} interleaved "
        f"rounds of CPU time, on {threads()}.",
        *("·network", "CPU s", "rationals alone", "ratio", "us a parameter", "·"),
    )
    checks, record = list[Check](), dict[str, Any]()
    for name, (source, on, route, limit) in _cases().items():
        model = hm.compile(source, on=on, error=1e-3, route=route)
        found: dict[str, hm.Certificate] = {}
        seconds = interleaved_medians(
            {
                "arrays": _certifying(model, _coefficients.MANY, found, "arrays"),
                "rationals": _certifying(model, NEVER, found, "rationals"),
            },
            ROUNDS,
        )
        one, other = found["arrays"], found["rationals"]
        same = (one.certified, one.boxes, one.work) == (other.certified, other.boxes, other.work)
        own = [
            Check(f"{name}: the same certificate", same and one.verdict is hm.Verdict.PROVED),
            Check(f"{name}: {seconds['arrays']:.2f} s", seconds["arrays"] < limit, timed=True),
        ]
        checks += own
        sheet.table.add_row(
            name,
            f"{seconds['arrays']:.2f}",
            f"{seconds['rationals']:.2f}",
            f"{seconds['arrays'] / seconds['rationals']:.2f}",
            f"{1e6 * seconds['arrays'] / source.parameters:.1f}",
            " ".join(check.mark for check in own),
        )
        record[name] = {"parameters": source.parameters, **seconds}
    return Report([sheet], checks, {"wide": record})


def _certifying(
    model: hm.Construction, many: int, found: dict[str, hm.Certificate], name: str
) -> Callable[[], None]:
    def run() -> None:
        usual, _coefficients.MANY = _coefficients.MANY, many
        try:
            found[name] = hm.certify(model)
        finally:
            _coefficients.MANY = usual

    return run
