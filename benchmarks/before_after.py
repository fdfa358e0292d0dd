"""Two installs of the package beside each other: which rows became slower, in one table.

    python -m benchmarks.before_after --before OLD/bin/python --after NEW/bin/python

Both interpreters run the same rows, which use public names only, by turns and one at a time; a row
is the median of five CPU times after one round that warms caches up, and short ones are repeated
until they take a third of a second. Rows that are slower by more
than 5% are marked, measured once more with three times the rounds, and decide the exit code.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import IO, Any

SLOWER = 1.05
LONG_ENOUGH = 0.33  # seconds: what is shorter is repeated
ROUNDS = 5
HERE = Path(__file__).resolve().parents[1]
Row = Callable[[], object]


# ---- the rows ------------------------------------------------------------------------------------


def rows() -> dict[str, Row]:
    """Every row, ready to be run; what it works on is made here and not timed."""
    import numpy as np

    import hardmax as hm
    from hardmax.testing import random_maxout, random_relu

    square = {"x": (-1, 1), "y": (-1, 1)}
    product = hm.compile("x*y", on=square, error=1e-3)
    inverse = hm.compile("1/x", on={"x": (0.1, 1)}, error=1e-4)
    relu = random_relu(0, 64, 64, 64, 4)
    relu_model = hm.compile(relu, on="[-1,1]^64", error=1e-3)
    maxout = random_maxout(3, 4, 4, 16, 16, 1)
    maxout_model = hm.compile(maxout, on="[-1,1]^4", error=1e-3)
    letters = "abcdefghij"
    sort = hm.compile(hm.programs.sort, alphabet=range(10), length=20)
    reverse = hm.compile(hm.programs.reverse, alphabet=letters, length=20)
    points = np.random.default_rng(0).uniform(-1, 1, size=(20_000, 64))
    words = [letters * 2] * 500
    keys = np.random.default_rng(1).normal(size=(20_000, 2))
    cloud = np.random.default_rng(2).normal(size=(400, 3))
    plane, space = random_relu(1, 2, 64, 64, 1), random_relu(2, 4, 12, 12, 1)
    heads = np.random.default_rng(3).normal(size=(3, 4, 256, 32))
    folded = random_maxout(1, 3, 2, 8, 8, 1)

    def cells(source: Any, on: Any) -> Row:
        return lambda: (hm.regions(source, on=on).cells, hm.regions(source, on=on).count)

    return {
        "compile x*y": lambda: hm.compile("x*y", on=square, error=1e-3),
        "compile 1/x at 1e-6": lambda: hm.compile("1/x", on={"x": (0.1, 1)}, error=1e-6),
        "plan sin(x)*exp(-y)": lambda: hm.plan(
            "sin(x)*exp(-y)", on={"x": (-1, 1), "y": (0, 1)}, error=1e-3
        ),
        "compile ReLU 64-64-64-4": lambda: hm.compile(relu, on="[-1,1]^64", error=1e-3),
        "compile maxout 4-16-16-1": lambda: hm.compile(maxout, on="[-1,1]^4", error=1e-3),
        "compile sort, 10 x 20": lambda: hm.compile(
            hm.programs.sort, alphabet=range(10), length=20
        ),
        "certify x*y": lambda: hm.certify(product),
        "certify 1/x": lambda: hm.certify(inverse),
        "certify ReLU 64-64-64-4": lambda: hm.certify(relu_model),
        "certify maxout 4-16-16-1": lambda: hm.certify(maxout_model),
        "certify sort, 10 x 20": lambda: hm.certify(sort),
        "certify reverse, 10 x 20": lambda: hm.certify(reverse),
        "evaluate ReLU, 20,000 points": lambda: relu_model(points),
        "evaluate reverse, 500 words": lambda: reverse(words),
        "diagram of 20,000 keys": lambda: hm.power_diagram(keys).vertices,
        "sum of two polytopes": lambda: hm.minkowski_sum([cloud[:200], cloud[200:]]),
        "stability of 4 x 256 x 32": lambda: hm.stability_of(*heads),
        "regions 2-64-64-1": cells(plane, "[-1,1]^2"),
        "regions 4-12-12-1": cells(space, "[-1,1]^4"),
        "regions maxout 2-8-8-1": cells(folded, "[-1,1]^2"),
        "regions on a segment": cells(relu, hm.Segment(-np.ones(64), np.ones(64))),
    }


# ---- both sides ----------------------------------------------------------------------------------


def serve() -> None:
    """Run the rows that are asked for on standard input, "times name" a line; say what it took."""
    known = rows()
    print(json.dumps(list(known)), flush=True)
    for line in sys.stdin:
        times, name = line.rstrip("\n").split(" ", 1)
        row = known[name]
        start = time.process_time()
        for _ in range(int(times)):
            row()
        print((time.process_time() - start) / int(times), flush=True)


class Side:
    """One interpreter with its install of the package."""

    def __init__(self, python: Path, stack: ExitStack) -> None:
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        self._process = stack.enter_context(
            subprocess.Popen(
                [str(python), "-m", "benchmarks.before_after", "--serve"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                cwd=HERE,
                env=environment,
            )
        )
        stack.callback(self._process.terminate)
        self.rows: list[str] = json.loads(self._answer())

    def seconds(self, row: str, times: int) -> float:
        asked: IO[str] = self._process.stdin  # type: ignore[assignment]
        asked.write(f"{times} {row}\n")
        asked.flush()
        return float(self._answer())

    def _answer(self) -> str:
        answers: IO[str] = self._process.stdout  # type: ignore[assignment]
        line = answers.readline()
        if not line:
            raise SystemExit("one of the interpreters has ended: see its message above")
        return line


def compare(before: Side, after: Side, row: str, rounds: int) -> tuple[float, float]:
    """The two medians; the sides take turns, so that a slow minute slows both."""
    for side in (before, after):
        side.seconds(row, 1)  # warms caches up
    shortest = min(side.seconds(row, 1) for side in (before, after))
    repeats = max(1, math.ceil(LONG_ENOUGH / max(shortest, 1e-4)))
    pairs = [(before.seconds(row, repeats), after.seconds(row, repeats)) for _ in range(rounds)]
    return median(a for a, _ in pairs), median(b for _, b in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 0 if no row is slower by more than 5%."""
    options = _parsed(arguments)
    if options.serve:
        serve()
        return 0
    slower = 0
    with ExitStack() as stack:
        before, after = Side(options.before, stack), Side(options.after, stack)
        print(f"{'row':34}{'before s':>10}{'after s':>10}{'ratio':>8}")
        for row in (one for one in after.rows if options.only in one):
            old, new = compare(before, after, row, options.rounds)
            if new > SLOWER * old:
                old, new = compare(before, after, row, 3 * options.rounds)
            mark = "  slower" * (new > SLOWER * old)
            slower += bool(mark)
            print(f"{row:34}{old:10.4f}{new:10.4f}{new / old:8.3f}{mark}", flush=True)
    print(f"{slower} slower by more than {SLOWER - 1:.0%}")
    return int(slower > 0)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.before_after",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    here = Path(sys.executable)
    parser.add_argument("--before", type=Path, default=here, help="the old install's interpreter")
    parser.add_argument("--after", type=Path, default=here, help="the new one's (this one)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each row (5)")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
