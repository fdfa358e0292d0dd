"""The gallery at alphabet 10 and growing lengths: wrong answers in float64 and in float32."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from examples.gallery import GALLERY

import hardmax as hm
from benchmarks._oracles import ORACLES, wanted
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._words import (
    FORMATS,
    all_tables,
    codes_of,
    evaluate_in,
    tables_of,
    with_runs,
    wrong_words,
)
from hardmax.core import Words, evaluate

SIZE = 10
LENGTHS = (5, 10, 20, 40, 100)
TRIED = 10_000
EXHAUSTIVE = 200_000  # so many words are all tried


def sweep(settings: Settings) -> Report:
    """Every program whose alphabet and length are free, at every length."""
    lengths, tried = ((5, 10, 20), 500) if settings.quick else (LENGTHS, TRIED)
    sheet = Sheet(
        f"python -m benchmarks.programs --sweep{' --quick' * settings.quick}",
        f"Required: no wrong answer in float64 or float32. Alphabet {SIZE}; all words where there "
        f"are few,\notherwise {tried:,}: awkward, of few runs, random. All weights "
        "cast, all steps in the format.",
        *("·program", "length", "words", "wrong\nfloat64", "wrong\nfloat32", "parameters"),
        *("compile s", "run s", "·"),
    )
    checks, record = [], []
    for name in ORACLES:
        for length in lengths:
            row = swept(name, SIZE, length, tried)
            wrong = sum(row[f"wrong {dtype}"] for dtype in FORMATS)
            what = f"{name} at length {length}: {wrong} of {row['words']} words wrong"
            checks.append(Check(what, wrong == 0))
            sheet.table.add_row(*_cells(row), checks[-1].mark)
            record.append(row)
    totals = {dtype: sum(row[f"wrong {dtype}"] for row in record) for dtype in FORMATS}
    note = ", ".join(f"{count:,} in {dtype}" for dtype, count in totals.items())
    words = sum(row["words"] for row in record)
    return Report([sheet], checks, {"sweep": record}, [f"Wrong of {words:,} words: {note}."])


def _cells(row: dict[str, Any]) -> list[str]:
    numbers = ("length", "words", "wrong float64", "wrong float32", "parameters")
    times = ("compile s", "run s")
    return [
        row["program"],
        *(f"{row[key]:,}" for key in numbers),
        *(f"{row[t]:.1f}" for t in times),
    ]


def swept(name: str, size: int, length: int, tried: int) -> dict[str, Any]:
    """One program at one length."""
    start = time.process_time()
    program, words = GALLERY[name](size, length)
    model = hm.compile(program, on=words)
    compiled = time.process_time()
    wrong = dict.fromkeys(FORMATS, 0)
    count = 0
    example: dict[str, Any] = {}
    for table in _tables(words, tried):
        count += len(table)
        for dtype, flags in flagged(model, name, words, table).items():
            wrong[dtype] += int(flags.sum())
            if flags.any():
                example.setdefault(dtype, words.words(table[flags][:1])[0])
    return {
        "program": name,
        "length": length,
        "words": count,
        **{f"wrong {dtype}": wrong[dtype] for dtype in FORMATS},
        "parameters": model.bill.parameters,
        "compile s": compiled - start,
        "run s": time.process_time() - compiled,
        "example": example,
    }


def flagged(
    model: hm.Construction, name: str, words: Words, table: np.ndarray
) -> dict[str, np.ndarray]:
    """For each format, which words of one length are answered wrongly."""
    code = codes_of(model)
    right = wanted(name, table, words, code)
    answers = {
        "float64": np.stack(evaluate(model.transformer, words.words(table))),
        "float32": evaluate_in(model.transformer, table, "float32"),
    }
    return {dtype: wrong_words(code, found, right) for dtype, found in answers.items()}


def _tables(words: Words, tried: int) -> list[np.ndarray]:
    if words.count <= EXHAUSTIVE and tried >= TRIED:
        return list(all_tables(words))
    rng = np.random.default_rng(0)
    runs = with_runs(words, tried // 5, rng)
    return list(tables_of(words, [*words.sample(tried - len(runs), rng), *runs]))
