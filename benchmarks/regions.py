"""Linear regions: counts that are known, and how many a CPU second.

    python -m benchmarks.regions                      planes, boxes, lines, attention, processes
    python -m benchmarks.regions --only plane
    python -m benchmarks.regions --quick              smaller
    python -m benchmarks.regions --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed. With relucent installed beside us, the part `peer`
runs it, too.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks._driver import Part, parse, run
from benchmarks._regions_line import line
from benchmarks._regions_plane import plane
from benchmarks._regions_shared import peer, shared
from benchmarks._regions_space import space
from benchmarks._regions_switch import switch
from benchmarks._report import Settings

PARTS: dict[str, Part] = {
    "plane": plane,
    "space": space,
    "line": line,
    "switch": switch,
    "shared": shared,
    "peer": peer,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.regions", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick))


if __name__ == "__main__":
    sys.exit(main())
