"""The campaign: record what is missing, put one fault after another into the copies, report."""

from __future__ import annotations

import fcntl
import queue
import signal
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from benchmarks.mutants._choice import Choice, Killers, chosen
from benchmarks.mutants._copies import Copy, Worker
from benchmarks.mutants._map import SLOWEST, Map, Recorded
from benchmarks.mutants._mutation import Site
from benchmarks.mutants._references import References
from benchmarks.mutants._results import KILLED, SURVIVED, UNDECIDED, Result
from benchmarks.mutants._source import Package
from benchmarks.mutants._worker import started

_SPARE = 20.0  # seconds of CPU that a test may take beyond ten times its own
_COMPILING = 120.0  # and so many more where kernels have to be compiled
_PATIENCE = 40.0  # times the recorded seconds: only a process that sleeps exhausts it

_MOST_COPIES = 64

Task = TypeVar("Task")
Told = Callable[[str], None]


@dataclass(eq=False)
class Crew:
    """Workers with a copy each; a task takes one that is free."""

    package: Package
    folder: Path
    jobs: int

    def __enter__(self) -> Crew:
        self._free: queue.Queue[Worker] = queue.Queue()
        self._locks: list[IO[bytes]] = []
        for number in range(_MOST_COPIES):
            if len(self._locks) < self.jobs and self._taken(number):
                copy = Copy(self.folder / f"copy-{number}")
                copy.prepare(self.package)
                self._free.put(Worker(copy))
        return self

    def _taken(self, number: int) -> bool:
        """Whether a copy is ours now: parts of a campaign may run beside each other."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = (self.folder / f"copy-{number}.lock").open("wb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            return False
        self._locks.append(lock)
        return True

    def __exit__(self, *_: object) -> None:
        while not self._free.empty():
            self._free.get().close()
        for lock in self._locks:
            lock.close()

    def each(self, do: Callable[[Worker, Task], Any], tasks: Iterable[Task]) -> Iterable[Any]:
        """The answers, as they come."""

        def with_worker(task: Task) -> Any:
            worker = self._free.get()
            try:
                return do(worker, task)
            finally:
                self._free.put(worker)

        with ThreadPoolExecutor(self.jobs) as pool:
            waiting = [pool.submit(with_worker, task) for task in tasks]
            try:
                for one in as_completed(waiting):
                    yield one.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def record(crew: Crew, where: Map, files: Sequence[Path], tell: Told) -> None:
    """Record the test files, one child each."""

    def one(worker: Worker, file: Path) -> tuple[Path, dict[str, Any]]:
        return file, worker.ask(where.request(file, crew.package))

    for number, (file, answer) in enumerate(crew.each(one, files), start=1):
        found = where.recorded(file)
        if answer["code"] or answer["signal"] or found is None:
            raise RuntimeError(f"{file} could not be recorded: {answer}")
        many, took = len(found.summary["tests"]), answer["cpu"]
        tell(f"recorded {number}/{len(files)} {file}: {many} tests pass, {took:.0f} s")


@dataclass(frozen=True, eq=False)
class Trial:
    """How mutants are tried: what is known of the tests, and how much they may take."""

    references: References
    recordings: Sequence[Recorded]
    killers: Killers
    budget: float

    def __call__(self, worker: Worker, site: Site) -> Result:
        choice = chosen(site, self.references, self.recordings, self.killers, self.budget)
        if not choice.batches:
            return Result.of(site, SURVIVED, why=_unseen(choice) or "no test executes it")
        with worker.copy.with_fault(self.references.package, site) as compiles:
            answer = worker.ask(_request(choice, compiles))
        result = _judged(site, choice, answer)
        if result.fate == KILLED and "::" in result.test:
            self.killers.add(site.path, site.function, result.test)
        return result


def _request(choice: Choice, compiles: bool) -> dict[str, Any]:
    allowance = _SPARE + (_COMPILING if compiles else 0.0)
    recorded = sum(sum(batch.values()) for batch in choice.batches)
    return {
        "task": "try",
        "batches": choice.batches,
        "allowance": allowance,
        "patience": _PATIENCE * (recorded + allowance),
    }


def _judged(site: Site, choice: Choice, answer: dict[str, Any]) -> Result:
    """Killed by a failure or by a runaway; survived if all tests passed and none was left out."""
    lines = list(started(answer["notes"]))
    failures = [line for line in lines if line[0] == "failed"]
    begun = [line[1] for line in lines if line[0] == "started"]
    about: dict[str, Any] = {"tests": len(begun), "cpu": round(answer["cpu"], 1)}
    last = begun[-1] if begun else ""
    if failures:
        return Result.of(site, KILLED, test=failures[0][1], why=failures[0][2], **about)
    if answer["signal"] == signal.SIGXCPU:
        return Result.of(site, KILLED, test=last, why="ran away", **about)
    if answer["signal"] == signal.SIGKILL:
        return Result.of(site, UNDECIDED, test=last, why="stood still", **about)
    if answer["signal"]:
        return Result.of(site, KILLED, test=last, why=f"signal {answer['signal']}", **about)
    stumbles = [line for line in lines if line[0] == "stumbled"]
    if stumbles or answer["code"] != 0:
        return Result.of(site, UNDECIDED, why=f"no verdict: {stumbles}", **about)
    wanted = sum(map(len, choice.batches))
    if len(begun) < wanted:
        return Result.of(site, UNDECIDED, why=f"{wanted - len(begun)} tests not found", **about)
    if choice.left_out:
        why = f"{choice.left_out} slower tests execute it, too"
        return Result.of(site, UNDECIDED, why=why, **about)
    return Result.of(site, SURVIVED, why=_unseen(choice), **about)


def _unseen(choice: Choice) -> str:
    """Tests that take so long that they are run on no mutant; they are named for honesty."""
    return f"not run: {choice.slow} tests of more than {SLOWEST:.0f} s" if choice.slow else ""
