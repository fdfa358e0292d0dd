"""The command `hardmax`, begun: nothing of the package is loaded before somebody can answer Ctrl-C.

Any file of the package would be too late, because Python runs `hardmax/__init__.py` first, which
takes most of a second on a cold machine. So this one stands beside it.
"""

from __future__ import annotations

import sys

_INTERRUPTED = 130  # as in hardmax.cli, which is not there yet


def main() -> None:
    try:
        from hardmax.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted; nothing was written.\n")
        sys.exit(_INTERRUPTED)
    command()
