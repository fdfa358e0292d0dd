"""Compiled programs on batches of sequences: time by length, and memory.

    python -m benchmarks.sequences                      lengths 10, 100, 1000; some minutes
    python -m benchmarks.sequences --quick              shorter sequences, and fewer
    python -m benchmarks.sequences --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed. Times are flagged in the tables but never decide:
they depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._driver import Part, parse, run
from benchmarks._report import Settings
from benchmarks._sequences_speed import forward

PARTS: dict[str, Part] = {"forward": forward}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.sequences", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
