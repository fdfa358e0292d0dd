"""Functions compiled, measured and held against their requirements.

    python -m benchmarks.functions                      everything
    python -m benchmarks.functions --only pieces        one part: products, reciprocals, maxima,
                                                        pieces, composites, slack, bills
    python -m benchmarks.functions --quick              fewer points
    python -m benchmarks.functions --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed. Times are flagged in the tables but never decide:
they depend on the machine.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._driver import Part, parse, run
from benchmarks._functions_composites import composites
from benchmarks._functions_heads import maxima, products, reciprocals
from benchmarks._functions_honesty import bills, slack
from benchmarks._functions_pieces import pieces
from benchmarks._report import Settings

PARTS: dict[str, Part] = {
    "products": products,
    "reciprocals": reciprocals,
    "maxima": maxima,
    "pieces": pieces,
    "composites": composites,
    "slack": slack,
    "bills": bills,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.functions", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
