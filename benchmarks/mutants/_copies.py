"""Private copies of the installed package, one for each worker, into which faults are put."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.mutants._mutation import Site, spliced
from benchmarks.mutants._references import stale_kernels
from benchmarks.mutants._source import PACKAGE, Package

_COMPILED = (".nbi", ".nbc")  # Numba's index and code, beside the bytecode


def installed() -> Path:
    """The folder of the installed package, without importing it."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(f"{PACKAGE} is not installed here. Try: make mutants")
    return Path(found.origin).parent


@dataclass(frozen=True)
class Copy:
    """A folder that holds the package; it comes first on the worker's path.

    A marker stands while a fault is in it: a copy that was left with one is made anew.
    """

    folder: Path

    def prepare(self, package: Package) -> None:
        """Copy the package, times included, so that what Numba has compiled stays valid."""
        stamp = self.folder / "STAMP"
        if stamp.exists() and stamp.read_text() == package.digest and not self._marker.exists():
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(installed(), self.folder / PACKAGE)
        stamp.write_text(package.digest)

    @property
    def _marker(self) -> Path:
        return self.folder / "FAULTY"

    @contextlib.contextmanager
    def with_fault(self, package: Package, site: Site) -> Iterator[bool]:
        """The fault is in the file, and no kernel is compiled that might not know of it.

        Says whether there are such kernels: then tests have to compile.
        """
        file, module = self.folder / site.path, package.modules[site.path]
        stale = [self.folder / one for one in stale_kernels(package, site.path)]
        self._marker.write_text(site.key)
        original = file.with_suffix(".untouched")
        shutil.copy2(file, original)
        held = [_held(one) for one in stale]
        file.write_text(spliced(module.text, site.start, site.end, site.by))
        try:
            yield bool(stale)
        finally:
            original.replace(file)
            for one, kept in zip(stale, held, strict=True):
                _released(one, kept)
            self._marker.unlink()


def _compiled(kernels: Path) -> list[Path]:
    folder = kernels.parent / "__pycache__"
    return [one for one in folder.glob(f"{kernels.stem}.*") if one.suffix in _COMPILED]


def _held(kernels: Path) -> Path:
    """Put what was compiled aside."""
    aside = kernels.with_suffix(".compiled")
    aside.mkdir(exist_ok=True)
    for one in _compiled(kernels):
        one.replace(aside / one.name)
    return aside


def _released(kernels: Path, aside: Path) -> None:
    """Forget what was compiled with the fault, and put back what was before."""
    for one in _compiled(kernels):
        one.unlink()
    for one in aside.iterdir():
        one.replace(kernels.parent / "__pycache__" / one.name)
    aside.rmdir()


class Worker:
    """A warm interpreter in a process of its own: see `_worker`."""

    def __init__(self, copy: Copy) -> None:
        self.copy = copy
        paths = os.pathsep.join([str(copy.folder.resolve()), os.getcwd()])
        quiet = {"PYTHONPATH": paths, "PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": "agg"}
        threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.mutants._worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **quiet, **threads},
        )
        self._read()

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Do a request; the answer has the notes that the child left."""
        notes = self.copy.folder / "NOTES"
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**request, "notes": str(notes)}) + "\n")
        self._process.stdin.flush()
        answer = self._read()
        return {**answer, "notes": notes.read_text()}

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("The worker ended; its message stands above.")
        return dict(json.loads(line))

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
        self._process.wait()
