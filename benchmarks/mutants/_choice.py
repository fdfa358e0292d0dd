"""Which tests are run on a mutant, and in which order."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.mutants._map import Recorded
from benchmarks.mutants._mutation import Site
from benchmarks.mutants._references import References

_FIRST = 3.0  # seconds of tests that run before the rest is even collected
_FEW_FILES = 6


@dataclass(frozen=True)
class Choice:
    """Tests in batches, how many more the budget left out, and how many are too slow for any."""

    batches: list[dict[str, float]]
    left_out: int
    slow: int


@dataclass
class Killers:
    """Which tests have killed mutants of a function or of a file before."""

    by_function: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    by_file: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))

    def add(self, path: str, function: str, test: str) -> None:
        self.by_function[f"{path}:{function}"].add(test)
        self.by_file[path].add(test)

    def rank(self, site: Site, test: str) -> int:
        if test in self.by_function[f"{site.path}:{site.function}"]:
            return 0
        return 1 if test in self.by_file[site.path] else 2


def chosen(
    site: Site,
    references: References,
    recordings: Sequence[Recorded],
    killers: Killers,
    budget: float,
) -> Choice:
    """The tests that execute the site: killers of neighbours first, then the fast and special.

    What everybody uses is executed by a thousand tests, and seen by those of its own: the seconds
    of a test count as many times as its file executes files of the package.
    The first batch takes the fastest of a few test files, because collecting tests costs more
    than running fast ones. All together take at most `budget` seconds, as recorded.
    """
    lines = references.lines_of(site)
    found: dict[str, float] = {}
    weight: dict[str, float] = {}
    for one in recordings:
        some = one.executing(lines, references.package)
        found |= some
        weight |= {name: took * one.breadth for name, took in some.items()} if some else {}
    order = sorted(found, key=lambda name: (killers.rank(site, name), weight[name], name))
    kept, spent = [], 0.0
    for name in order:
        if spent + found[name] <= budget:
            kept.append(name)
            spent += found[name]
    first = _first_batch(kept, found)
    rest = {name: found[name] for name in kept if name not in first}
    slow = sum(took == math.inf for took in found.values())
    return Choice([one for one in (first, rest) if one], len(found) - len(kept) - slow, slow)


def _first_batch(order: list[str], seconds: dict[str, float]) -> dict[str, float]:
    files: dict[str, int] = defaultdict(int)
    batch: dict[str, float] = {}
    for name in order:
        file = name.split("::")[0]
        known = file in files or len(files) < _FEW_FILES
        if known and sum(batch.values()) + seconds[name] <= _FIRST:
            files[file] += 1
            batch[name] = seconds[name]
    return batch
