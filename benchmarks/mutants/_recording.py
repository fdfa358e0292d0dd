"""Which test executes which lines of the package: one test file recorded with coverage."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import coverage
import pytest

from benchmarks.mutants._source import PACKAGE
from benchmarks.mutants._worker import PLAIN_OPTIONS


def record(request: dict[str, Any]) -> int:
    """Run a test file under coverage; contexts are tests, shared fixtures, and collection.

    Everything is imported before, so that no line counts that runs on import. A test that takes
    too long is ended, and left out like one that fails.
    """
    _import_all()
    data, summary = Path(request["data"]), Path(request["summary"])
    data.unlink(missing_ok=True)
    where = os.path.dirname(importlib.import_module(PACKAGE).__file__ or "")
    tracer = coverage.Coverage(data_file=str(data), config_file=False, include=[f"{where}/*"])
    tracer.start()
    tracer.switch_context("collection")
    recorder = Recorder(tracer, request["slowest"])
    signal.signal(signal.SIGVTALRM, _too_slow)
    pytest.main([*PLAIN_OPTIONS, request["file"]], plugins=[recorder])
    tracer.stop()
    tracer.save()
    fresh = summary.with_suffix(".part")
    fresh.write_text(json.dumps({**request["about"], **recorder.found()}))
    fresh.replace(summary)
    return 0


def _import_all() -> None:
    package = importlib.import_module(PACKAGE)
    for found in pkgutil.walk_packages(package.__path__, f"{PACKAGE}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)


class TooSlow(Exception):
    """A test took more CPU time than one that is worth running on mutants."""


def _too_slow(*_: object) -> None:
    raise TooSlow


class Recorder:
    """A plugin that tells coverage whose lines come next, and takes the time."""

    def __init__(self, tracer: Any, slowest: float) -> None:
        self.tracer, self.slowest = tracer, slowest
        self.seconds: dict[str, float] = {}
        self.shared: dict[str, list[str]] = {}
        self.failed: set[str] = set()
        self.current = "collection"

    def pytest_runtest_logstart(self, nodeid: str, location: Any) -> None:
        self._switch(nodeid)
        self.seconds[nodeid] = -time.process_time()
        signal.setitimer(signal.ITIMER_VIRTUAL, self.slowest)

    def pytest_runtest_logfinish(self, nodeid: str, location: Any) -> None:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        self.seconds[nodeid] += time.process_time()

    def pytest_runtest_setup(self, item: Any) -> None:
        known = item._fixtureinfo.name2fixturedefs
        self.shared[item.nodeid] = [
            f"fixture {name}" for name, found in known.items() if found[-1].scope != "function"
        ]

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: Any, request: Any) -> Iterator[None]:
        """What a shared fixture computes belongs to all tests that use it."""
        before = self.current
        if fixturedef.scope != "function":
            self._switch(f"fixture {fixturedef.argname}")
        try:
            return (yield)
        finally:
            if self.current != before:
                self._switch(before)

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed or report.skipped:
            self.failed.add(report.nodeid)

    def _switch(self, context: str) -> None:
        self.current = context
        self.tracer.switch_context(context)

    def found(self) -> dict[str, Any]:
        """Seconds and shared contexts of every test that passed; the names of the slow ones."""
        ran = {name: took for name, took in self.seconds.items() if name not in self.failed}
        about = {name: [round(took, 4), self.shared.get(name, [])] for name, took in ran.items()}
        slow = [name for name in self.failed if self.seconds.get(name, 0.0) >= self.slowest]
        return {"tests": about, "slow": sorted(slow)}
