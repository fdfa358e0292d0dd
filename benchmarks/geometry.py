"""The geometry of heads: how fast, beside what, and how exact.

    python -m benchmarks.geometry                      diagrams, Minkowski sums, stability
    python -m benchmarks.geometry --only diagrams
    python -m benchmarks.geometry --quick              smaller
    python -m benchmarks.geometry --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._driver import Part, parse, run
from benchmarks._geometry_diagrams import diagrams
from benchmarks._geometry_minkowski import minkowski
from benchmarks._geometry_stability import stability
from benchmarks._report import Settings

PARTS: dict[str, Part] = {"diagrams": diagrams, "minkowski": minkowski, "stability": stability}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.geometry", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
