"""How processes begin that work for a command."""

from __future__ import annotations

import signal
import warnings


def hide_warnings() -> None:
    """NumPy's warnings are for us, not for users: in a worker no more than in a command."""
    warnings.simplefilter("ignore")


def leave_interruptions() -> None:
    """Ctrl-C reaches every process of a terminal; here only the one that leads should answer."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    hide_warnings()
