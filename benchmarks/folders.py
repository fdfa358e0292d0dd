"""Folders for stock classes of Hugging Face: what is answered wrong there, and what is proved.

    python -m benchmarks.folders                      everything
    python -m benchmarks.folders --only programs      programs, functions, bfloat16, large or zoo
    python -m benchmarks.folders --quick              fewer of them, fewer words and points

`programs` are those of the gallery and some more that look back: every word of length 5 over 5
symbols, float32. `large`: 10 symbols, length 20, awkward words first, float32 and float64. What an
architecture does not take is listed with its reason. `zoo` is compiled for float32 at the error
that was asked for, and proved in Llama or GPT-2.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import numpy as np
from examples.gallery import GALLERY, is_free

import hardmax as hm
from benchmarks._driver import Part, parse, run
from benchmarks._folders_run import Answers, awkward_words, meant, worst_error, wrong_words
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax import programs as p
from hardmax.core import Words
from hardmax.testing import zoo

HOMES = ("t5", "gpt2", "llama")
BUDGET = "3e7 work"
ENOUGH = {"t5": 20, "gpt2": 8, "llama": 8}  # programs that have to be answered right
PROVED, PROVED_COARSELY, SHARE = 10, 3, 0.9
MORE: dict[str, p.Program] = {  # programs that look back only
    "two back": p.program(lambda s: s.tokens.at(s.index - 2)),
    "three back": p.program(lambda s: s.tokens.at(s.index - 3)),
    "same as before": p.program(lambda s: s.tokens == s.tokens.at(s.index - 1)),
    "ends abc": p.detect("abc"),
}
FUNCTIONS = {
    "x*y": 2, "x**2": 1, "x**3": 1, "exp(x)": 1, "sin(x)": 1, "tanh(x)": 1, "sigmoid(x)": 1,
    "abs(x)": 1, "relu(x)": 1, "min(x, y)": 2, "max(x, y)": 2, "max(x, y, z)": 3,
}  # fmt: skip
COARSE_FUNCTIONS = {"relu(x)": 1, "abs(x)": 1, "max(x, y)": 2, "x + y": 2, "x/2 - 1": 1}
COARSE_MAPS = {
    "exchanged": {"a": "b", "b": "a"},
    "is a": {"a": 1, "b": 0},
    "all a": {"a": "a", "b": "a"},
    "doubled": {"a": 0, "b": 2},
}


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as place:
        yield Path(place) / "folder"


def _reason(refusal: hm.HardmaxError) -> str:
    """The refusal without the numbers of this case."""
    text = str(refusal).split(" (its answers")[0].split(": ", 1)[-1]
    return re.sub(r"\.( .*)?$", "", text)[:90]


def _tried(
    construction: Callable[[], hm.Construction],
    home: str,
    dtype: str,
    wrong: Callable[[Path], float] | None,
    proves: bool = True,
) -> tuple[str, str, str]:
    """Verdict or refusal, its bound, and what was found wrong."""
    try:
        model = construction()
        with folder() as place:
            hm.interop.write_huggingface(model, place, home, dtype=dtype)
            certificate = hm.certify_folder(place, budget=BUDGET) if proves else None
            found = "" if wrong is None else f"{wrong(place):.3g}"
    except hm.HardmaxError as refusal:
        return "refused", _reason(refusal), ""
    if certificate is None:
        return "run", "", found
    bound = certificate.formats.get(dtype)  # none where the budget ended before any was found
    return certificate.verdict.name, "none" if bound is None else f"{bound:.2e}", found


def _row(*texts: str) -> list[str]:
    """One line of a table, told while others are still made: all of them take a while."""
    print(*texts, sep=" | ", file=sys.stderr, flush=True)
    return list(texts)


def _sheet(settings: Settings, part: str, note: str) -> Sheet:
    command = f"python -m benchmarks.folders --only {part}" + " --quick" * settings.quick
    return Sheet(command, note, "·what", "·home", "·dtype", "·verdict", "·bound or reason", "wrong")


def _counted(rows: list[list[str]], home: str, *outcomes: str) -> int:
    return sum(row[1] == home and row[3] in outcomes for row in rows)


def _report(sheet: Sheet, rows: list[list[str]], checks: list[Check], part: str) -> Report:
    for row in rows:
        sheet.table.add_row(*row)
    wrong = [row for row in rows if row[5] not in ("", "0") and row[3] in ("PROVED", "run")]
    return Report(
        [sheet], [*checks, Check(f"{part}: {len(wrong)} are wrong", not wrong)], {part: rows}
    )


def _program_rows(
    size: int, length: int, dtypes: Sequence[str], count: int, *, proves: bool
) -> list[list[str]]:
    rows = []
    sources = {name: make(size, length) for name, make in GALLERY.items() if is_free(make)}
    if proves:
        sources |= {name: make() for name, make in GALLERY.items() if not is_free(make)}
    words = Words("abcdefghij"[:size], length, 0)
    sources |= {name: (program, words) for name, program in MORE.items()}
    for name, (program, domain) in sources.items():
        few = domain.count <= count
        tried = [w for w in domain if len(w)] if few else awkward_words(domain, count)
        wanted = meant(program, tried)  # once: the interpreter takes longer than the classes

        def wrong(place: Path, tried: list = tried, wanted: Answers = wanted) -> float:
            return wrong_words(place, tried, wanted)

        for dtype in dtypes:
            made = _once(program, domain, dtype)
            for home in HOMES:
                rows.append(_row(name, home, dtype, *_tried(made, home, dtype, wrong, proves)))
    return rows


def _once(source: object, domain: Words, dtype: str) -> Callable[[], hm.Construction]:
    """Compiles when it is asked for the first time; a refusal is a refusal each time."""
    return cache(lambda: hm.compile(source, on=domain, float=dtype))


def _all_right(rows: list[list[str]]) -> Check:
    """Of programs nothing may be wrong, whatever the verdict was."""
    wrong = [row for row in rows if row[3] != "refused" and row[5] != "0"]
    return Check(f"{len(wrong)} folders answer wrongly", not wrong)


def programs(settings: Settings) -> Report:
    """Every word of length 5 over 5 symbols; proved where the checker gets through."""
    size = 3 if settings.quick else 5
    rows = _program_rows(size, size, ["float32"], 4_000, proves=True)
    checks = [_all_right(rows)]
    for home in HOMES:
        right = sum(r[1] == home and r[3] != "refused" and r[5] == "0" for r in rows)
        proved = _counted(rows, home, "PROVED")
        checks.append(
            Check(f"{home}: {right} programs right, {ENOUGH[home]}", right >= ENOUGH[home])
        )
        checks.append(Check(f"{home}: {proved} programs proved, {PROVED}", proved >= PROVED))
    note = "Stock values of the configuration; words answered differently from the interpreter."
    return _report(_sheet(settings, "programs", note), rows, checks, "programs")


def large(settings: Settings) -> Report:
    """10 symbols, length 20: extremes first, then words of few runs and random ones."""
    count = 500 if settings.quick else 10_000
    rows = _program_rows(10, 20, ["float32", "float64"], count, proves=False)
    note = f"{count:,} words each; nothing is proved here."
    return _report(_sheet(settings, "large", note), rows, [_all_right(rows)], "large")


def _function_rows(
    named: dict[str, int], error: float, dtype: str, networks: int
) -> list[list[str]]:
    sources: dict[str, tuple[object, str]] = {
        text: (text, "[-1,1]" + f"^{inputs}" * (inputs > 1)) for text, inputs in named.items()
    }
    for number in range(networks):
        rng = np.random.default_rng(number)
        weights = [rng.normal(size=(6, 2)).round(2), rng.normal(size=(1, 6)).round(2)]
        network = hm.ReluNetwork(weights, [rng.normal(size=6).round(2), np.zeros(1)])
        sources[f"ReLU 2-6-1, {number}"] = (network, "[-1,1]^2")
    rows = []
    for name, (source, domain) in sources.items():

        def made(source: object = source, domain: str = domain) -> hm.Construction:
            return hm.compile(source, on=domain, error=error, float=dtype)

        def wrong(place: Path) -> float:
            claim = hm.open_folder(place).construction.claim
            points = claim.domain.sample(300, np.random.default_rng(0))
            worst = worst_error(place, points)
            return 0.0 if worst <= claim.error else worst

        for home in HOMES:
            rows.append(_row(name, home, dtype, *_tried(made, home, dtype, wrong)))
    return rows


def functions(settings: Settings) -> Report:
    """Functions and networks through `inputs_embeds`; an error beyond the claim is wrong."""
    rows = _function_rows(FUNCTIONS, 1e-2, "float32", 1 if settings.quick else 4)
    checks = [
        Check(f"{home}: {n} functions proved, {PROVED}", n >= PROVED)
        for home in HOMES
        for n in [_counted(rows, home, "PROVED")]
    ]
    note = "An error of 1e-2, stock values of the configuration."
    return _report(_sheet(settings, "functions", note), rows, checks, "functions")


def bfloat16(settings: Settings) -> Report:
    """What is proved in bfloat16: few digits, so that symbols are mapped and errors are large."""
    rows = []
    for name, table in COARSE_MAPS.items():
        program = p.program(lambda s, table=table: s.tokens.map(table))

        def made(program: p.Program = program) -> hm.Construction:
            return hm.compile(program, alphabet="ab", length=3, float="bfloat16")

        def wrong(place: Path, program: p.Program = program) -> float:
            words = [w for w in Words("ab", 3, 0) if len(w)]
            return wrong_words(place, words, meant(program, words))

        for home in HOMES:
            rows.append(_row(name, home, "bfloat16", *_tried(made, home, "bfloat16", wrong)))
    rows += _function_rows(COARSE_FUNCTIONS, 0.3, "bfloat16", 0)
    checks = []
    for home in HOMES:
        for what, some in (("maps", COARSE_MAPS), ("functions", COARSE_FUNCTIONS)):
            proved = _counted([row for row in rows if row[0] in some], home, "PROVED")
            said = f"{home}: {proved} {what} proved in bfloat16, {PROVED_COARSELY}"
            checks.append(Check(said, proved >= PROVED_COARSELY))
    note = "Maps of symbols, and functions to an error of 0.3."
    return _report(_sheet(settings, "bfloat16", note), rows, checks, "bfloat16")


def zoo_in_homes(settings: Settings) -> Report:
    """Soft specimens, compiled for float32 at their error; the first home that is proved."""
    rows = []
    for name in list(zoo())[:: 24 if settings.quick else 1]:
        specimen = zoo()[name]
        if specimen.error is None:
            continue
        try:
            model = hm.compile(
                specimen.source(),
                on=specimen.domain,
                error=specimen.error,
                route=specimen.route,
                float="float32",
            )
        except hm.RequestError as refusal:
            rows.append(_row(name, "", "float32", "not compiled", _reason(refusal), ""))
            continue
        row = ["", "", ""]
        for home in ("llama", "gpt2"):
            row = _row(name, home, "float32", *_tried(lambda m=model: m, home, "float32", None))
            if row[3] == "PROVED":
                break
        rows.append(row)
    made = [row for row in rows if row[3] != "not compiled"]
    proved = sum(row[3] == "PROVED" for row in made)
    said = f"zoo: {proved} of {len(made)} that float32 takes are proved in a home, {SHARE:.0%}"
    note = "The error that was asked for, in Llama, else in GPT-2."
    return _report(
        _sheet(settings, "zoo", note), rows, [Check(said, proved >= SHARE * len(made))], "zoo"
    )


PARTS: dict[str, Part] = {
    "programs": programs,
    "functions": functions,
    "bfloat16": bfloat16,
    "large": large,
    "zoo": zoo_in_homes,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.folders", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
