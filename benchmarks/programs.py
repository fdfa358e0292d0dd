"""Sequence programs compiled, counted beside Tracr, and tried on many words.

    python -m benchmarks.programs                      the fourteen rows of Tracr's table
    python -m benchmarks.programs --only legible       the same rows as legible models, in each kind
                                                       of positions
    python -m benchmarks.programs --sweep              the gallery at alphabet 10, lengths 5 to 100:
                                                       about five minutes
    python -m benchmarks.programs --sweep --quick      shorter words, and fewer
    python -m benchmarks.programs --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._driver import Part, parse, run
from benchmarks._legible_positions import legible
from benchmarks._programs_sweep import sweep
from benchmarks._programs_tracr import tracr
from benchmarks._report import Settings

PARTS: dict[str, Part] = {"tracr": tracr, "legible": legible, "sweep": sweep}


def main(arguments: Sequence[str] | None = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if "--sweep" in given:
        given[given.index("--sweep")] = "--only=sweep"
    options = parse("benchmarks.programs", __doc__, PARTS, given)
    options.only = options.only or ["tracr"]  # the sweep is long: it is asked for by name
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
