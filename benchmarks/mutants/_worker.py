"""A warm interpreter that forks one child per request, and what the child does.

The parent has imported pytest, NumPy, PyTorch and the other guests, but nothing of the package
under test; the child imports the package from the private copy that comes first on its path, and
ends. Requests and answers are lines of JSON.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GUESTS = (
    *("pytest", "hypothesis", "numpy", "scipy.optimize", "scipy.spatial", "scipy.sparse"),
    *("numba", "flint", "click.testing", "rich.console", "rich.table", "safetensors.numpy"),
    *("matplotlib.figure", "torch", "coverage"),
)
_MEMORY = 10 * 2**30  # bytes of address space: a fault that asks for more has failed


def serve() -> None:
    """Import the guests, then answer one request after another."""
    _end_with_parent()
    for name in GUESTS:
        with contextlib.suppress(ImportError):
            __import__(name)
    _say({"ready": True})
    for line in sys.stdin:
        _say(_answered(json.loads(line)))


def _say(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _answered(request: dict[str, Any]) -> dict[str, Any]:
    """What came of the child: its notes, how it ended, and the CPU time it took."""
    notes = Path(request["notes"])
    notes.write_text("")
    child = os.fork()
    if child == 0:
        _in_child(request)
    status, usage = _awaited(child, request["patience"])
    return {
        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0,
        "code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else 0,
        "cpu": usage.ru_utime + usage.ru_stime,
    }


def _awaited(child: int, patience: float) -> tuple[int, resource.struct_rusage]:
    """Wait for the child; one that waits forever without working is ended."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            return status, usage
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    _, status, usage = os.wait4(child, 0)
    return status, usage


def _end_with_parent() -> None:
    """Nobody waits for an answer once the campaign is gone (Linux; elsewhere it is awaited)."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def _in_child(request: dict[str, Any]) -> None:
    os.setsid()
    _end_with_parent()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    code = 3
    try:
        _settle_hypothesis()
        _limited(resource.RLIMIT_AS, _MEMORY)
        if request["task"] == "record":
            from benchmarks.mutants._recording import record

            code = record(request)
        else:
            code = _tried(request)
    except BaseException as stumble:
        with Path(request["notes"]).open("a") as notes:
            notes.write(f"stumbled\t\t{stumble!r}\n")
    finally:
        os._exit(code)


def _settle_hypothesis() -> None:
    """The same examples every time, no deadline (neighbours), and no search for smaller ones."""
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")


def _limited(what: int, soft: int) -> None:
    _, hard = resource.getrlimit(what)
    resource.setrlimit(what, (soft, hard))


def _tried(request: dict[str, Any]) -> int:
    """Run batches of tests until one fails: 1 if one did, 0 if all passed."""
    import pytest

    with Path(request["notes"]).open("a", buffering=1) as notes:
        for batch in request["batches"]:
            chosen = Chosen(batch, request["allowance"], notes)
            files = sorted({name.split("::")[0] for name in batch})
            pytest.main([*PLAIN_OPTIONS, "-x", *files], plugins=[chosen])
            if chosen.failed:
                return 1
    return 0


PLAIN_OPTIONS = [
    *("-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line", "--no-header"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # hypothesis is a guest here
]


class Chosen:
    """A plugin: these tests in this order, each with its limit of CPU time, failures noted."""

    def __init__(self, batch: dict[str, float], allowance: float, notes: Any) -> None:
        self.batch, self.allowance, self.notes = batch, allowance, notes
        self.failed = False

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        order = {name: place for place, name in enumerate(self.batch)}
        items[:] = sorted(
            (item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid]
        )

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid, report)

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self.notes.write(f"started\t{nodeid}\t\n")
        spent = time.process_time()
        _limited(resource.RLIMIT_CPU, int(spent + self.allowance + 10 * self.batch[nodeid]) + 1)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self._note("failed", report.nodeid, report)

    def _note(self, what: str, nodeid: str, report: Any) -> None:
        self.failed = True
        crash = getattr(report.longrepr, "reprcrash", None)
        said = crash.message if crash is not None else str(report.longrepr)
        self.notes.write(f"{what}\t{nodeid}\t{' '.join(said.split())[:200]}\n")


def started(notes: str) -> Iterator[list[str]]:
    """The lines of a child's notes: what happened, to which test, and why."""
    for line in notes.splitlines():
        yield [*line.split("\t", 2), "", ""][:3]


if __name__ == "__main__":
    serve()
