"""Thousands of corrupted models, and none of them may be called proved.

    python -m benchmarks.campaign                            3,000 mutants, 5 s each at most
    python -m benchmarks.campaign --mutants 300 --seed 7     fewer, others
    python -m benchmarks.campaign --only zoo                 the untouched zoo alone: all PROVED
    python -m benchmarks.campaign --jobs 2                   in processes

A mutant counts if a dense search, which knows nothing of the checker, breaks its claim. Exit code 1
says that something was called proved that is broken, that an untouched construction was not proved,
or that the checker fell over. Ctrl-C ends the campaign and prints what is known so far.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks._campaign_tables import faults_table, mutants_table, untouched_table
from hardmax.checker import Budget, Certificate, certify
from hardmax.core import Construction
from hardmax.testing import MUTATIONS, Trial, try_mutant, try_untouched, zoo

PARTS = ("zoo", "mutants")
LARGE_SHARE = 0.01  # of the mutants are of the largest specimens
Job = tuple[str, str, int]  # specimen, kind of mutation ("" for none), seed


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parsed(arguments)
    console = Console()
    trials: list[Trial] = []
    try:
        with Interruption() as interruption:
            for part in options.only or PARTS:
                _run(part, options, trials, console, interruption)
    except KeyboardInterrupt:
        console.print("Interrupted: what follows is what is known so far.")
    return _concluded(trials, options, console)


class Interruption:
    """Remembers Ctrl-C: the checker ends its search on one, and would go on to the next mutant."""

    def __init__(self) -> None:
        self.came = False

    def __enter__(self) -> Interruption:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _note(self, *_: object) -> None:
        self.came = True
        raise KeyboardInterrupt

    def check(self) -> None:
        if self.came:
            raise KeyboardInterrupt


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--mutants", type=int, default=3000, help="how many (3000)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("--budget", default="5e6 work", help="for each mutant (5e6 work)")
    parser.add_argument("--zoo-budget", default="1.8e8 work", help="for others (1.8e8 work)")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--json", type=Path, default=Path("out/campaign.json"), metavar="FILE")
    return parser.parse_args(arguments)


def jobs(part: str, mutants: int, seed: int) -> Iterator[Job]:
    """Every specimen once; or mutants at random, each kind of mutation in its turn."""
    names = list(zoo())
    if part == "zoo":
        yield from ((name, "", 0) for name in names)
        return
    rng = np.random.default_rng(seed)
    small = [name for name in names if not zoo()[name].large]
    large = [name for name in names if zoo()[name].large]
    kinds = list(MUTATIONS)
    for number in range(mutants):
        pool = large if rng.random() < LARGE_SHARE else small
        yield pool[rng.integers(len(pool))], kinds[number % len(kinds)], seed * 10**9 + number


def tried(budget: str, job: Job) -> Trial | None:
    """One job; a function of plain values, so that a process of its own can do it."""
    name, kind, seed = job
    check = partial(_certified, budget)
    return try_mutant(name, kind, seed, check) if kind else try_untouched(name, check)


def _certified(budget: str, construction: Construction) -> Certificate:
    return certify(construction, budget=Budget.of(budget))


def _run(
    part: str,
    options: argparse.Namespace,
    trials: list[Trial],
    console: Console,
    interruption: Interruption,
) -> None:
    wanted = list(jobs(part, options.mutants, options.seed))
    budget = options.zoo_budget if part == "zoo" else options.budget
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task(part, total=len(wanted))
        faults = 0
        for trial in _results(wanted, budget, options.jobs):
            if trial is not None:
                trials.append(trial)
                faults += trial.fault is not None
            progress.update(task, advance=1, description=f"{part}: {faults} faults")
            interruption.check()


def _results(wanted: list[Job], budget: str, processes: int) -> Iterator[Trial | None]:
    if processes == 1:
        yield from (tried(budget, job) for job in wanted)
        return
    with ProcessPoolExecutor(processes) as pool:
        futures = [pool.submit(tried, budget, job) for job in wanted]
        try:
            yield from (future.result() for future in as_completed(futures))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _concluded(trials: list[Trial], options: argparse.Namespace, console: Console) -> int:
    """Tables for people, a file for machines, an exit code for scripts."""
    faults = [trial for trial in trials if trial.fault is not None]
    for table in (untouched_table(trials), mutants_table(trials), faults_table(faults)):
        if table is not None:
            console.print(table)
    false = sum(trial.verdict == "PROVED" and trial.broken for trial in trials)
    console.print(f"{len(trials):,} checked, {false} false PROVED, {len(faults)} faults in all.")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(_record(trials, options), indent=1) + "\n")
    return int(bool(faults) or not trials)


def _record(trials: list[Trial], options: argparse.Namespace) -> dict[str, Any]:
    settings = {name: getattr(options, name) for name in ("mutants", "seed", "budget")}
    rows = [{k: _plain(v) for k, v in trial.as_dict().items()} for trial in trials]
    return {"settings": settings, "trials": rows}


def _plain(value: Any) -> Any:
    """JSON has no infinities."""
    return value if not isinstance(value, float) or np.isfinite(value) else str(value)


if __name__ == "__main__":
    sys.exit(main())
