"""Networks compiled, measured and held against their requirements.

    python -m benchmarks.networks                      everything
    python -m benchmarks.networks --only coldness      one part: bills, speed, coldness, economy
    python -m benchmarks.networks --quick              fewer seeds, points and repetitions
    python -m benchmarks.networks --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed. Times are flagged in the tables but never decide:
they depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._bills import bills
from benchmarks._coldness import coldness
from benchmarks._driver import Part, parse, run
from benchmarks._economy import economy
from benchmarks._report import Settings
from benchmarks._speed import speed

PARTS: dict[str, Part] = {
    "bills": bills,
    "speed": speed,
    "coldness": coldness,
    "economy": economy,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.networks", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
