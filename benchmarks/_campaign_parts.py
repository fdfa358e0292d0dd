"""What a campaign consists of: one line per part, and where its cases are tried.

A part is a function (start, count, seed, *arguments) -> dict of counts. It tries the cases number
start to start + count - 1 of a seed; a case depends on its number and the seed alone, so that it
can be tried again by itself. A count may also be a list of the cases that it counts, each a pair of
its number and a sentence, or a table of counts; "failures" and "faults" list cases that are counted
elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

MUST_BE_ZERO = ("false", "wrong", "lost", "tracebacks", "crashes", "crashed", "slow", "litter")
_COUNTED_ELSEWHERE = ("failures", "faults")

Case = tuple[int, str]  # its number, and what went wrong
Run = Callable[..., Mapping[str, Any]]


class MissingPart(Exception):
    """A part of the table that this installation does not have."""


@dataclass(frozen=True)
class Part:
    """One line of the campaign."""

    name: str
    what: str
    cases: int
    chunk: int  # cases that are tried, and written down, at once: about half a minute of them
    where: str  # module:function
    arguments: tuple[Any, ...] = ()

    def function(self) -> Run:
        """The function behind it; a part that cannot be imported is missing, never skipped."""
        module, _, name = self.where.partition(":")
        try:
            found: Run = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as reason:
            raise MissingPart(f"{self.name} is missing: {reason}") from reason
        return found


def table(parts: Iterable[Part]) -> dict[str, Part]:
    """The parts by their names."""
    return {part.name: part for part in parts}


def read_answer(answer: Mapping[str, Any]) -> tuple[dict[str, int], list[Case]]:
    """What a part answered, as plain counts and the cases that failed."""
    counts: dict[str, int] = {}
    failures: list[Case] = []
    for name, value in answer.items():
        match value:
            case Mapping():
                counts |= {f"{name}: {reason}": int(count) for reason, count in value.items()}
            case list() | tuple():
                failures += map(_case, value)
                if name not in _COUNTED_ELSEWHERE:
                    counts[name] = len(value)
            case _:
                counts[name] = int(value)
    return counts, failures


def _case(entry: Any) -> Case:
    if isinstance(entry, Mapping):
        said = ", ".join(str(value) for name, value in entry.items() if name != "number")
        return int(entry["number"]), said
    number, said = entry
    return int(number), str(said)


def faults(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts that must be 0 and are not."""
    return {name: counts[name] for name in MUST_BE_ZERO if counts.get(name)}


_ROUNDING = "hardmax.testing:rounding_part"
PARTS = table(
    (
        Part(
            "zoo",
            "every construction of the zoo as it is: all proved",
            300,
            4,
            "benchmarks.corrupted_models:zoo_part",
        ),
        Part(
            "corrupted",
            "corrupted models and witnesses: none proved",
            3_000,
            20,
            "benchmarks.corrupted_models:corrupted_part",
        ),
        Part(
            "claims",
            "random Transformers, claims just below and above their true error",
            10_000,
            200,
            "benchmarks.claim_cases:claims_part",
        ),
        Part(
            "certificates",
            "certificates altered in one field: none stands for other bytes",
            10_000,
            1_000,
            "benchmarks.certificate_cases:certificates_part",
        ),
        Part(
            "regions",
            "region counts of tiny networks in exact rationals",
            100_000,
            500,
            "benchmarks.region_cases:regions_part",
        ),
        *(
            Part(
                f"rounding-{name}",
                f"evaluations in {name} against the rounding bounds",
                10_000,
                200,
                _ROUNDING,
                (name,),
            )
            for name in ("float64", "float32", "float16", "bfloat16")
        ),
        Part(
            "hostile",
            "forged and hostile files: one sentence, never a traceback",
            10_000,
            100,
            "benchmarks.hostile_files:run_part",
        ),
        Part(
            "kills",
            "six writers killed at random moments: the old file or the new one",
            6_000,
            100,
            "benchmarks.kills:run_part",
        ),
        Part(
            "folders",
            "altered folders for stock classes: none proved for a broken claim",
            2_000,
            100,
            "benchmarks.altered_folders:altered_part",
        ),
        Part(
            "programs",
            "random programs against the interpreter",
            10_000,
            50,
            "benchmarks.random_programs:run_part",
        ),
        Part(
            "legible-mutants",
            "weights of legible models that break words or interventions: none proved",
            2_000,
            20,
            "benchmarks._legible_mutants:mutants_part",
        ),
        Part(
            "legible-circuits",
            "forged circuits of legible models, kinds and words of edges too: none proved",
            500,
            100,
            "benchmarks._legible_mutants:forgeries_part",
        ),
        Part(
            "interventions",
            "random interventions and interchanges on legible models against the interpreter",
            100_000,
            10_000,
            "benchmarks._legible_mutants:interventions_part",
        ),
        Part(
            "single-interventions",
            "every single intervention on the gallery, four symbols over three, all positions",
            81 * 3 * 21,
            100,
            "benchmarks._legible_positions:singles_part",
        ),
        Part(
            "legible-masks",
            "masks and position biases of legible models spoiled: none that errs is proved",
            1_000,
            50,
            "benchmarks._legible_masks:masks_part",
        ),
        Part(
            "disguised-interventions",
            "random interventions on disguised models, through the projections",
            10_000,
            1_000,
            "benchmarks.disguise:interventions_part",
        ),
        Part(
            "disguised-mutants",
            "weights of disguised models that break something, and forged frames: none proved",
            600,
            60,
            "benchmarks.disguise:mutants_part",
        ),
    )
)
