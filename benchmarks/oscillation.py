"""Functions of many waves, by every route that follows them: size, verdict and CPU seconds.

python -m benchmarks.oscillation            every row (a minute)
python -m benchmarks.oscillation --quick    the first three
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import get_context

import hardmax as hm


@dataclass(frozen=True)
class Row:
    """A request; without a route the planner picks."""

    text: str
    low: float
    high: float
    error: float
    route: str | None = None


def sines(count: int) -> str:
    return " + ".join(f"sin({k}*x)" for k in range(1, count + 1))


ROWS = (
    Row("sin(8*x)", -2, 2, 1e-3),
    Row("sin(8*x)", -2, 2, 1e-3, "direct"),
    Row("sin(8*x)", -2, 2, 1e-3, "anchors"),
    Row("sin(8*x)", -2, 2, 1e-6, "direct"),
    Row("sin(16*x)", -2, 2, 1e-3),
    Row("sin(16*x)", -2, 2, 1e-3, "direct"),
    Row(sines(8), -2, 2, 1e-3),
    Row(sines(8), -2, 2, 1e-6),
    Row(sines(16), -2, 2, 1e-3),
    Row(sines(16), -2, 2, 1e-6),
    Row("sin(64*x)", -2, 2, 1e-3),
    Row("sin(64*x)", -2, 2, 1e-6),
    Row("sin(64*x)", -2, 2, 1e-3, "anchors"),
    Row("sin(64*x)", -2, 2, 1e-3, "direct"),
    Row("sin(64*x)", -2, 2, 1e-3, "recipe"),
    Row("sin(x)", 0, 1000, 1e-3),
    Row("cos(x)", 0, 1000, 1e-6),
)


def run(row: Row) -> dict[str, object]:
    """What was built, what the checker says of it, and how long both took."""
    start = time.process_time()
    model = hm.compile(row.text, on={"x": (row.low, row.high)}, error=row.error, route=row.route)
    built = time.process_time()
    verdict = hm.certify(model).verdict.name
    bill = model.bill
    return {
        "function": row.text if len(row.text) < 20 else row.text[:17] + "...",
        "error": row.error,
        "route": model.route,
        "heads": bill.heads,
        "tokens": bill.tokens,
        "layers": bill.layers,
        "parameters": bill.parameters,
        "verdict": verdict,
        "compile": built - start,
        "certify": time.process_time() - built,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    rows = ROWS[:3] if parser.parse_args(arguments).quick else ROWS
    print(
        f"{'function':<21}{'error':>7} {'route':<9}{'heads':>6}{'tokens':>7}{'layers':>7}"
        f"{'parameters':>11} {'verdict':<10}{'compile s':>10}{'certify s':>10}"
    )
    proved = True
    with get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for f in pool.imap(run, rows):
            proved &= f["verdict"] == "PROVED"
            print(
                f"{f['function']:<21}{f['error']:>7.0e} {f['route']:<9}{f['heads']:>6}"
                f"{f['tokens']:>7}{f['layers']:>7}{f['parameters']:>11,} {f['verdict']:<10}"
                f"{f['compile']:>10.2f}{f['certify']:>10.2f}",
                flush=True,
            )
    return 0 if proved else 1


if __name__ == "__main__":
    raise SystemExit(main())
