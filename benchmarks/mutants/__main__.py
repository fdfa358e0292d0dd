"""`python -m benchmarks.mutants`: see the package's own words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.mutants
from benchmarks.mutants import _results
from benchmarks.mutants._choice import Killers
from benchmarks.mutants._copies import installed
from benchmarks.mutants._map import Map, test_files
from benchmarks.mutants._mutation import KINDS, Site
from benchmarks.mutants._references import References
from benchmarks.mutants._report import listed, report, told
from benchmarks.mutants._run import Crew, Trial, record
from benchmarks.mutants._sites import drawn, sites
from benchmarks.mutants._source import Package


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw, record, try, report; 0 if every mutant was killed or is explained."""
    options = _parsed(arguments)
    package = Package.read(installed())
    found = sites(package, rooms=options.room, files=options.file)
    kinds = KINDS if options.kind == "all" else (options.kind,)
    fine = [_campaign(options, package, found, kind) for kind in kinds]
    return int(not all(fine))


def _campaign(
    options: argparse.Namespace, package: Package, found: Sequence[Site], kind: str
) -> bool:
    """The mutants of one kind; whether all of them were killed or are explained."""
    some = [one for one in found if one.kind == kind]
    sample = drawn(some, count=options.count, seed=options.seed)
    print(f"seed {options.seed}, kind {kind}: {len(sample)} of {len(some)} sites")
    print(*listed(sample), sep="\n", flush=True)
    if options.list:
        return True
    number, parts = options.part
    mine = sample[number - 1 :: parts]
    file = options.out / f"mutants-{options.seed}-{kind}.jsonl"
    _try_all(options, package, mine, file)
    known = _results.read(file)
    results = [known[one.key] for one in mine if one.key in known]
    print(*report(results), sep="\n", flush=True)
    reasons = _results.explanations()
    lived = [one for one in results if one.fate != _results.KILLED]
    return all(_results.explained(one, reasons) for one in lived)


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.mutants",
        description=benchmarks.mutants.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--kind", choices=(*KINDS, "all"), default="all", help="guards of rounding, or logic")
    add("--count", type=int, default=150, help="how many of each kind (150)")
    add("--seed", type=int, default=0, help="which ones (0)")
    add("--room", action="append", help="only this room; may be repeated")
    add("--file", action="append", help="only files whose path contains this; may be repeated")
    add("--part", type=_part, default=(1, 1), metavar="I/K", help="every K-th, from the I-th on")
    add("--jobs", type=int, default=1, help="workers beside each other (1)")
    add("--budget", type=float, default=90.0, help="recorded seconds of tests a mutant (90)")
    add("--tests", type=Path, nargs="+", help="only the tests of these files")
    add("--refresh", action="store_true", help="record again what changed sources concern")
    add("--record", action="store_true", help="only record what is missing")
    add("--again", action="store_true", help="try those that survived again")
    add("--list", action="store_true", help="only say what would be tried")
    add("--map", type=Path, default=Path("out/mutants/map"), help="where recordings are kept")
    add("--out", type=Path, default=Path("out"), help="where results go (out/)")
    return parser.parse_args(arguments)


def _part(text: str) -> tuple[int, int]:
    number, parts = (int(one) for one in text.split("/"))
    if not 1 <= number <= parts:
        raise argparse.ArgumentTypeError(f"A part is I/K with 1 <= I <= K, not {text}.")
    return number, parts


def _try_all(
    options: argparse.Namespace, package: Package, mine: Sequence[Site], file: Path
) -> None:
    """Everything that has no verdict yet."""
    before = _results.read(file)
    left = _results.still_open(mine, before, again=options.again)
    where, files = Map(options.map), test_files(options.tests)
    missing = where.missing(files, package, refresh=options.refresh)
    if not missing and not left:
        return
    with Crew(package, options.out / "mutants", options.jobs) as crew:
        record(crew, where, missing, lambda line: print(line, flush=True))
        if options.record:
            return
        recordings = [one for one in map(where.recorded, files) if one is not None]
        trial = Trial(References(package), recordings, _killers(options.out), options.budget)
        for result in crew.each(trial, left):
            _results.append(file, result)
            print(told(result), flush=True)


def _killers(folder: Path) -> Killers:
    """Whoever killed before, in any campaign whose results are kept."""
    killers = Killers()
    for file in sorted(folder.glob("mutants-*.jsonl")):
        for result in _results.read(file).values():
            if result.fate == _results.KILLED and "::" in result.test:
                killers.add(result.path, result.function, result.test)
    return killers


if __name__ == "__main__":
    sys.exit(main())
