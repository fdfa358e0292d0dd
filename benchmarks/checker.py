"""Certificates held against their requirements: how tight, how fast, from how many boxes.

    python -m benchmarks.checker                       everything
    python -m benchmarks.checker --only speed          one part: tightness, solids, deep, speed,
                                                       boxes, wide
    python -m benchmarks.checker --quick               fewer functions
    python -m benchmarks.checker --json numbers.json   all numbers, for machines

Exit code 1 says that a requirement was missed. Times are flagged in the tables but never decide:
they depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._checker_boxes import boxes
from benchmarks._checker_speed import speed
from benchmarks._checker_tightness import deep, three_dimensions, tightness
from benchmarks._checker_wide import wide
from benchmarks._driver import Part, parse, run
from benchmarks._report import Settings

PARTS: dict[str, Part] = {
    "speed": speed,
    "wide": wide,
    "boxes": boxes,
    "tightness": tightness,
    "solids": three_dimensions,
    "deep": deep,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.checker", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
