"""Legible models in each kind of positions: sizes beside Tracr's, and every single intervention."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import hardmax as hm
from benchmarks._programs_tracr import LENGTH, Rival, rows
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax import programs as p
from hardmax.core import layers_of, padded_parameters

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
from gallery import GALLERY, is_free

POSITIONS = ("one-hot", "relative", "scalar")
DEFAULT_MEAN, BEST_MEAN, LONG_RATIO = 2.5, 3.5, 14.0
_LONG = {"reverse": (p.reverse, 592_769), "sort": (None, 973_113)}  # at alphabet 10, length 20


def rows_read() -> dict[str, tuple[p.Program, Any, Rival]]:
    """The rows of Tracr's table; sort is by rank and gather, as it is there."""
    listed = rows()
    _, alphabet, rival = listed["sort"]
    return {**listed, "sort": (ranked_sort(), alphabet, rival)}


def ranked_sort() -> p.Program:
    return p.program(lambda s: p.sorted_by(s.tokens), name="sort")


def sizes_of(program: p.Program, alphabet: Any, length: int) -> dict[str, tuple[int, int]]:
    """Layers and padded parameters in each kind of positions."""
    found = {}
    for kind in POSITIONS:
        model = hm.compile(
            program, alphabet=alphabet, length=length, route="legible", positions=kind
        )
        transformer = model.transformer
        layers = max(layers_of(transformer.sublayers), default=-1) + 1
        found[kind] = (layers, padded_parameters(transformer))
    return found


def legible(settings: Settings) -> Report:
    """Compile legibly, and count."""
    sheet = Sheet(
        "python -m benchmarks.programs --only legible",
        f"Legible models at alphabet 5, length {LENGTH}: padded parameters. Required: none larger, "
        f"and none with more layers, than Tracr's;\nthe geometric mean of the ratios at least "
        f"{DEFAULT_MEAN:g} with one-hot positions and {BEST_MEAN:g} with the best.",
        *("·program", "layers", "Tracr", *POSITIONS, "Tracr", "times", "best", "·"),
    )
    record, checks = [], []
    for name, (program, alphabet, rival) in rows_read().items():
        found = sizes_of(program, alphabet, LENGTH)
        counts = [found[kind][1] for kind in POSITIONS]
        layers = max(found[kind][0] for kind in POSITIONS)
        ratio, best = rival.parameters / counts[0], rival.parameters / min(counts)
        said = f"{name}: {ratio:.2f} times fewer parameters, at best {best:.2f}, {layers} layers"
        checks.append(Check(said, ratio >= 1.0 and layers <= rival.layers))
        record.append({"program": name, "sizes": found, "ratio": ratio, "best": best})
        shown = [f"{count:,}" for count in counts]
        theirs = f"{rival.parameters:,}"
        cells = [name, str(layers), str(rival.layers), *shown, theirs, f"{ratio:.2f}"]
        sheet.table.add_row(*cells, f"{best:.2f}", checks[-1].mark)
    checks += [_mean(record, "ratio", DEFAULT_MEAN), _mean(record, "best", BEST_MEAN), *_long()]
    return Report([sheet], checks, {"rows": record}, [one.what for one in checks[-4:]])


def _mean(record: list[dict[str, Any]], column: str, least: float) -> Check:
    mean = math.exp(sum(math.log(row[column]) for row in record) / len(record))
    return Check(f"geometric mean ({column}): {mean:.2f}, at least {least:g}", mean >= least)


def _long() -> Iterator[Check]:
    for name, (program, theirs) in _LONG.items():
        found = sizes_of(program or ranked_sort(), "abcdefghij", 20)
        worst = max(count for _, count in found.values())
        shown = ", ".join(f"{kind} {count:,}" for kind, (_, count) in found.items())
        said = f"{name} at (10, 20): {shown}; Tracr {theirs:,}"
        yield Check(said, theirs >= LONG_RATIO * worst)


# ---- interventions -------------------------------------------------------------------------------


@cache
def shown_in(name: str, kind: str) -> tuple[hm.Construction, p.Program]:
    program, words = GALLERY[name](3, 4)
    return hm.compile(program, on=words, route="legible", positions=kind), program


def free_names() -> list[str]:
    return [name for name in GALLERY if is_free(GALLERY[name])]


def single_interventions(model: hm.Construction, word: tuple) -> Iterator[dict[str, dict]]:
    """One item of one step that is held, at one position."""
    target = model.claim.target
    closed = target.closed_steps
    for value, step in closed.place.items():
        if closed.name(step) in model.circuit.steps:
            for place, one in itertools.product(range(len(word)), target.codes[value].items):
                yield {closed.name(step): {place: one}}


def disagreements(name: str, kind: str, word: tuple) -> tuple[int, list[dict]]:
    """How many single interventions on a word are defined, and those that are answered wrongly."""
    model, program = shown_in(name, kind)
    defined, wrong = 0, []
    for where in single_interventions(model, word):
        try:
            wanted = program(word, where=where)
        except hm.HardmaxError:
            continue
        defined += 1
        if hm.intervene(model, word, where) != wanted:
            wrong.append(where)
    return defined, wrong


def singles_part(start: int, count: int, seed: int) -> dict[str, object]:
    """All words of four symbols over three, in all kinds of positions, in an order of the seed."""
    del seed  # every case is tried, and there are no others
    cases = list(itertools.product(itertools.product(range(3), repeat=4), free_names(), POSITIONS))
    tried, wrong = 0, []
    for case in range(start, min(start + count, len(cases))):
        symbols, name, kind = cases[case]
        alphabet = shown_in(name, kind)[0].claim.domain.alphabet
        defined, found = disagreements(name, kind, tuple(alphabet[k] for k in symbols))
        tried += defined
        wrong += [(case, f"{name}, {kind}, {symbols}: {where}") for where in found[:1]]
    return {"interventions": tried, "wrong": wrong}
