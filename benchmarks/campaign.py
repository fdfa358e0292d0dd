"""The long campaign: cases by the ten thousand whose truth is known, and nothing false.

    python -m benchmarks.campaign                          all parts, in two processes; resumes
    python -m benchmarks.campaign --part claims --count 500
    python -m benchmarks.campaign --shard 1/4              a quarter of the chunks of each part
    python -m benchmarks.campaign --replay claims 0 4711   one case of seed 0, here and now
    python -m benchmarks.campaign --list                   the parts

What is done is kept in out/campaign.jsonl, so that Ctrl-C, a crash or a restart lose one chunk at
most. Results of other sources are not counted, unless --keep says so. The exit code is 1 if
anything false was found, a part is missing, or cases are left; 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks._campaign_parts import PARTS, MissingPart, Part, faults
from benchmarks._campaign_pool import run_chunk, run_chunks
from benchmarks._campaign_state import (
    Chunk,
    Done,
    Shard,
    State,
    is_clean,
    pending,
    source_hash,
    total,
)
from benchmarks._campaign_tables import failures_table, parts_table, results_table

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parsed(arguments)
    console = Console(width=None if sys.stdout.isatty() else 160)
    if options.list:
        console.print(parts_table(PARTS.values()))
        return 0
    if options.replay:
        return _replay(options.replay, console)
    return Campaign(options, console).run()


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.campaign",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="one part; may be repeated")
    parser.add_argument("--count", type=int, help="cases of each part (as --list says)")
    parser.add_argument("--seed", type=int, default=0, help="which cases (0)")
    parser.add_argument("--shard", type=Shard.parse, default=Shard(), metavar="K/N")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2); 0: in this one")
    parser.add_argument("--keep", action="store_true", help="count results of other sources, too")
    parser.add_argument("--state", type=Path, default=Path("out/campaign.jsonl"), metavar="FILE")
    parser.add_argument("--replay", nargs=3, metavar=("PART", "SEED", "INDEX"), help="one case")
    parser.add_argument("--list", action="store_true", help="the parts and their cases")
    return parser.parse_args(arguments)


class Campaign:
    """The parts that were asked for, one after the other."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self.options, self.console = options, console
        self.parts = [PARTS[name] for name in options.part or PARTS]
        self.state = State(options.state)
        self.source = source_hash()
        self.missing: list[str] = []

    def run(self) -> int:
        self._tell_of_other_sources()
        try:
            for part in self.parts:
                self._run(part)
        except KeyboardInterrupt:
            self.console.print("Interrupted: the same command goes on from here.")
            self._conclude()
            return INTERRUPTED
        return self._conclude()

    def _cases(self, part: Part) -> int:
        return part.cases if self.options.count is None else self.options.count

    def _done(self, part: Part) -> list[Done]:
        source = None if self.options.keep else self.source
        known = self.state.of(part, self.options.seed, source, self._cases(part))
        return [done for done in known if self.options.shard.holds(part, done.start)]

    def _pending(self, part: Part) -> list[Chunk]:
        count, shard = self._cases(part), self.options.shard
        return pending(part, self.options.seed, count, shard, self._done(part))

    def _tell_of_other_sources(self) -> None:
        names = {part.name for part in self.parts}
        stale = sum(d.part in names and d.source != self.source for d in self.state.lines)
        if stale and self.options.keep:
            self.console.print(f"{stale} chunks were done with other sources; they are counted.")
        elif stale:
            self.console.print(
                f"The sources have changed: {stale} chunks that were done with others are not "
                f"counted, and their cases are tried again (--keep counts them)."
            )

    def _run(self, part: Part) -> None:
        try:
            part.function()
        except MissingPart as reason:
            self.missing.append(str(reason))
            self.console.print(f"[bold red]{escape(str(reason))}")
            return
        chunks = self._pending(part)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, TimeRemainingColumn(), console=self.console) as progress:
            left = sum(chunk.count for chunk in chunks)
            task = progress.add_task(part.name, total=left)
            for done in run_chunks(chunks, self.options.jobs, self.source):
                self.state.append(done)
                said = _spoken(faults(total(self._done(part))[0]), "nothing false")
                progress.update(task, advance=done.count, description=f"{part.name}: {said}")

    def _conclude(self) -> int:
        """One table for people, an exit code for scripts."""
        found = {part: self._done(part) for part in self.parts}
        left = {part: sum(chunk.count for chunk in self._pending(part)) for part in self.parts}
        self.console.print(results_table(found, left))
        failures = {part: total(done)[1] for part, done in found.items()}
        if any(failures.values()):
            self.console.print(failures_table(failures, self.options.seed))
        for reason in self.missing:
            self.console.print(f"[bold red]{escape(reason)}")
        clean = all(is_clean(done) for done in found.values())
        return int(not clean or any(left.values()) or bool(self.missing))


def _replay(case: Sequence[str], console: Console) -> int:
    name, seed, index = case
    if name not in PARTS:
        console.print(f"There is no part {escape(name)}; there are {', '.join(PARTS)}.")
        return 2
    done = run_chunk(Chunk(PARTS[name], int(seed), int(index), 1), "")
    console.print(escape(_spoken(done.counts, "no counts")))
    for number, said in done.failures:
        console.print(f"case {number}: {escape(said)}", soft_wrap=True)
    return int(not is_clean([done]))


def _spoken(counts: dict[str, int], nothing: str) -> str:
    parts: Iterable[str] = (f"{count:,} {name}" for name, count in counts.items())
    return ", ".join(parts) or nothing


if __name__ == "__main__":
    sys.exit(main())
