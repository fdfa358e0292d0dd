"""Every door into other people's tools, held against the certificate's own rounding bounds.

    python -m benchmarks.doors                   23 models through every door, in three formats
    python -m benchmarks.doors --quick           two models
    python -m benchmarks.doors --only functions  one part: functions, programs, halves
    python -m benchmarks.doors --json out/doors.json

A model goes through a door in a format, answers, and is compared with its real value at the very
inputs, in balls of many digits. The share is the largest |answer - real value| / bound, the bound
being the one that a certificate adds for that format (`checker.rounding.float_bounds`, for all
inputs at once): 1 would be attained, and more than 1 refutes it. Batches and, of words, lengths
differ from call to call. There is a row of float16 for models whose claim holds there. A format
that a door refuses, or for which there is no finite bound, has no row and is listed.

A door is a line in `DOORS` of `_doors`.

Exit code 1 says that a bound was exceeded.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
from examples.gallery import GALLERY, is_free

import hardmax as hm
from benchmarks._doors import DOORS, deviations, real_values
from benchmarks._driver import Part, parse, run
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.checker.rounding import float_bounds
from hardmax.core import Box, Construction
from hardmax.testing import zoo

FUNCTIONS = (  # specimens of the zoo
    "x*y (direct, 0.01)",
    "x**2 (recipe, 0.001)",
    "1/x (anchors, 0.001)",
    "exp(x) (direct, 0.001)",
    "tanh(x) (direct, 0.001)",
    "max(x, y, z) (feedforward, 0.01)",
    "exp(x*y) - x (direct, 0.01)",
    "ReLU 2-8-1 (attention-only, 0.001)",
    "ReLU 3-6-6-2 (attention, 0.001)",
    "maxout 3-4-4-1 (attention-only, 0.001)",
)
PROGRAMS = (  # entries of the gallery, at alphabet 3 and length 4 where both are free
    "reverse",
    "shift",
    "histogram",
    "duplicates",
    "fraction_so_far",
    "seen_before",
    "first_occurrence",
    "detect",
    "sort",
    "if_else",
)
HALVES = {  # compiled for float16, at these errors
    "x*y": 0.1,
    "max(x, y)": 0.02,
    "tanh(x) + y/2": 0.05,
}
QUICK = {"functions": ("ReLU 2-8-1 (attention-only, 0.001)",)}
QUICK["halves"] = ("max(x, y)",)
QUICK["programs"] = ("reverse",)
ALWAYS, COARSE = ("float64", "float32"), "float16"
BATCHES = (1, 5, 18)  # of inputs to a function, and of words of each length


@dataclass(frozen=True)
class Share:
    """How much of the bound one model takes, through one door in one format."""

    model: str
    door: str
    dtype: str
    largest: float


@dataclass(frozen=True)
class Held:
    """A model with its bounds, and batches with their real values in every format."""

    name: str
    model: Construction
    bounds: dict[str, np.ndarray]
    few: bool = False  # whether the shortest and the longest words and few batches do

    def shares(self) -> tuple[list[Share], list[str]]:
        """What every door takes, and what there is none of, in words."""
        shares: list[Share] = []
        missing: list[str] = []
        for dtype, bound in self.bounds.items():
            if not np.isfinite(bound).all():
                missing.append(f"{self.name} has no finite bound in {dtype}")
                continue
            batches = [(b, real_values(self.model.transformer, b)) for b in self._batches(dtype)]
            for door, enter in DOORS.items():
                try:
                    runs = enter(self.model, dtype)
                except hm.RequestError as reason:
                    missing.append(f"{self.name}, {door}, {dtype}: {reason}")
                    continue
                if runs is not None:
                    off = [deviations(runs(b), real, len(bound)) for b, real in batches]
                    largest = float((np.max(off, axis=0) / bound).max())
                    shares.append(Share(self.name, door, dtype, largest))
        return shares, missing

    def _batches(self, dtype: str) -> list[np.ndarray]:
        """Inputs that the format holds, in the domain; words of every length."""
        rng, domain = np.random.default_rng(0), self.model.claim.domain
        if not isinstance(domain, Box):
            lengths = range(max(1, domain.shortest), domain.longest + 1)
            shapes = [*zip(itertools.cycle(BATCHES), lengths, strict=False)]
            shapes = shapes[:: len(shapes) - 1] if self.few else shapes
            return [rng.integers(0, len(domain.alphabet), size=shape) for shape in shapes]
        points = domain.sample(3 * sum(BATCHES), rng).astype(dtype)
        wide = points.astype(np.float64)
        points = points[((domain.low <= wide) & (wide <= domain.high)).all(axis=1)]
        batches = BATCHES[: 2 if self.few else None]
        ends = np.cumsum(batches)
        return [points[end - size : end] for size, end in zip(batches, ends, strict=True)]


def functions(settings: Settings) -> Report:
    """Functions and networks of the zoo."""
    names = QUICK["functions"] if settings.quick else FUNCTIONS
    return _through_doors(settings, "functions", names, lambda name: zoo()[name].construction)


def programs(settings: Settings) -> Report:
    """Programs of the gallery, word by word."""
    names = QUICK["programs"] if settings.quick else PROGRAMS
    return _through_doors(settings, "programs", names, compiled_program)


def halves(settings: Settings) -> Report:
    """Functions whose claims are about float16."""
    names = QUICK["halves"] if settings.quick else [*HALVES]
    return _through_doors(settings, "halves", names, compiled_half)


def compiled_half(text: str) -> Construction:
    variables = hm.Function.parse(text).variables
    on = dict.fromkeys(variables, (-1.0, 1.0))
    return hm.compile(text, on=on, error=HALVES[text], float=COARSE)


def compiled_program(name: str) -> Construction:
    entry = GALLERY[name]
    program, words = entry(3, 4) if is_free(entry) else entry()
    return hm.compile(program, on=words)


def held(name: str, model: Construction, *, few: bool = False) -> Held:
    """The bounds of the formats: of float16 only where the claim is proved to hold there."""
    domain = model.claim.domain if isinstance(model.claim.domain, Box) else None
    bounds = float_bounds(model.transformer, domain, (*ALWAYS, COARSE))
    fits = bounds[COARSE].max() < model.claim.error
    if not fits or COARSE not in hm.certify(model).holds_in:
        del bounds[COARSE]
    return Held(name, model, bounds, few)


def _through_doors(
    settings: Settings, part: str, names: Sequence[str], build: Callable[[str], Construction]
) -> Report:
    import jax

    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        found = [held(name, build(name), few=settings.quick).shares() for name in names]
    finally:
        jax.config.update("jax_enable_x64", before)
    shares = [share for some, _ in found for share in some]
    missing = [line for _, some in found for line in some]
    command = f"python -m benchmarks.doors --only {part}" + " --quick" * settings.quick
    sheet = Sheet(
        command,
        f"Shares of the certificate's rounding bound, {len(names)} models. Required: at most 1.",
        *("·door", "·format", "models", "median", "largest", "·of"),
    )
    checks = []
    for door in DOORS:
        for dtype in (*ALWAYS, COARSE):
            row = [share for share in shares if (share.door, share.dtype) == (door, dtype)]
            if row:
                most = max(row, key=lambda share: share.largest)
                middle = median(share.largest for share in row)
                numbers = [str(len(row)), f"{middle:.2g}", f"{most.largest:.2g}"]
                sheet.table.add_row(door, dtype, *numbers, most.model)
                what = f"{door} in {dtype}: {most.largest:.3g} of the bound, of {most.model}"
                checks.append(Check(what, most.largest <= 1.0))
    record = {"shares": [vars(share) for share in shares], "missing": missing}
    return Report([sheet], checks, record, missing)


PARTS: dict[str, Part] = {"functions": functions, "programs": programs, "halves": halves}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.doors", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
