"""The programs of Tracr's table at alphabet 5 and length 5: our bills beside its own."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._measure import cpu_seconds
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._words import FORMATS, codes_of, evaluate_in, tables_of, wrong_words
from hardmax import programs as p
from hardmax.core import Words, evaluate

SIZE = LENGTH = 5
RATIO, MEAN_RATIO, SUM_RATIO, NONZERO = 5.0, 25.0, 80.0, 0.25


@dataclass(frozen=True)
class Rival:
    """What Tracr needs, as measured."""

    layers: int
    parameters: int
    nonzero: int


def rows() -> dict[str, tuple[p.Program, Any, Rival]]:
    """Program, alphabet and Tracr's figures, by the table's names."""
    letters, numbers = "abcde", range(SIZE)
    return {
        "length": (p.length, letters, Rival(1, 1_373, 98)),
        "histogram": (p.histogram, letters, Rival(1, 1_373, 78)),
        'count of "a"': (p.count_of("a"), letters, Rival(1, 1_373, 78)),
        "shift by 1": (p.shift(1), letters, Rival(1, 832, 40)),
        'detect "ab"': (p.detect("ab"), letters, Rival(2, 1_919, 64)),
        "fraction of previous tokens": (p.fraction_so_far("a"), letters, Rival(2, 1_199, 45)),
        "count of less frequent": (less_frequent(2), letters, Rival(2, 3_555, 151)),
        "sort (unique keys)": (sort_unique(), numbers, Rival(2, 3_091, 106)),
        "reverse": (p.reverse, letters, Rival(4, 20_649, 260)),
        "sort": (p.sort, letters, Rival(3, 24_968, 516)),
        "sort by frequency": (p.sort_by_frequency, letters, Rival(5, 66_114, 747)),
        "shuffle-Dyck-1": (p.shuffle_dyck("()"), "()abc", Rival(6, 69_845, 484)),
        "shuffle-Dyck-2": (p.shuffle_dyck(["()", "[]"]), "()[]a", Rival(8, 251_384, 804)),
        "ternary map": (ternary_map(), numbers, Rival(3, 137_840, 687)),
    }


def less_frequent(times: int) -> p.Program:
    """How many places hold a token that occurs at most so often."""
    return p.program(
        lambda s: s.everywhere.sum((p.there(s.tokens) == s.tokens).count() <= times),
        name="count of less frequent",
    )


def sort_unique() -> p.Program:
    """RASP's sort: a key's rank is the number of smaller keys; equal keys leave places empty."""

    def rule(s: p.Sequence) -> p.Value:
        rank = (p.there(s.tokens) < s.tokens).count()
        return (p.there(rank) == s.index).mean(s.tokens)

    return p.program(rule, name="sort (unique keys)")


def ternary_map() -> p.Program:
    """(a + 2 b + c) mod 5 of the number here and the two before it; what is missing is 0."""

    def rule(s: p.Sequence) -> p.Value:
        return (s.tokens + 2 * s.tokens.shifted(1, 0) + s.tokens.shifted(2, 0)) % SIZE

    return p.program(rule, name="ternary map")


def tracr(settings: Settings) -> Report:
    """Compile, count and try all words."""
    sheet = Sheet(
        f"python -m benchmarks.programs --only tracr{' --quick' * settings.quick}",
        f"Required at alphabet {SIZE}, length {LENGTH}: padded parameters at least {RATIO:g} times "
        f"fewer than Tracr's, {MEAN_RATIO:g} in the geometric mean,\n{SUM_RATIO:g} in the sum; "
        f"nonzero parameters at most {NONZERO:g} in the sum; never more layers; no wrong word.",
        *("·program", "layers", "Tracr", "padded", "dense", "Tracr", "times", "nonzero", "Tracr"),
        *("words", "wrong\nfloat64", "wrong\nfloat32", "error\nfloat32", "compile s", "·"),
    )
    record, checks = [], []
    for name, (program, alphabet, rival) in rows().items():
        row = _row(name, program, alphabet, rival, 300 if settings.quick else None)
        check = Check(_said(row), _is_met(row))
        checks.append(check)
        record.append(row)
        sheet.table.add_row(*_cells(row), check.mark)
    more, notes = _together(record)
    return Report([sheet], [*checks, *more], {"rows": record}, notes)


def _row(
    name: str, program: p.Program, alphabet: Any, rival: Rival, tried: int | None
) -> dict[str, Any]:
    words = Words(alphabet, LENGTH, 0)
    made: list[hm.Construction] = []
    seconds = cpu_seconds(lambda: made.append(hm.compile(program, on=words)))
    (model,) = made
    bill = model.bill
    return {
        "program": name,
        "layers": bill.layers,
        "padded": bill.padded_parameters,
        "dense": bill.parameters,
        "nonzero": bill.nonzero_parameters,
        "tracr": {"layers": rival.layers, "parameters": rival.parameters, "nonzero": rival.nonzero},
        "ratio": rival.parameters / bill.padded_parameters,
        "compile s": seconds,
        **tried_words(model, program, words, tried),
    }


def tried_words(
    model: hm.Construction, program: p.Program, words: Words, tried: int | None
) -> dict[str, Any]:
    """Wrong words and the largest distance from the right number: all words, or a sample."""
    code = codes_of(model)
    chosen = list(words) if tried is None else words.sample(tried, np.random.default_rng(0))
    found: dict[str, Any] = {"words": 0}
    for dtype in FORMATS:
        found |= {f"wrong {dtype}": 0, f"error {dtype}": 0.0}
    for table in tables_of(words, chosen):
        named = words.words(table)
        right = np.array([[float(code.number(one)) for one in program(word)] for word in named])
        answers = {
            "float64": np.stack(evaluate(model.transformer, named)),
            "float32": evaluate_in(model.transformer, table, "float32"),
        }
        found["words"] += len(table)
        for dtype, answer in answers.items():
            error = float(np.abs(answer[..., 0] - right).max())
            found[f"error {dtype}"] = max(found[f"error {dtype}"], error)
            found[f"wrong {dtype}"] += int(wrong_words(code, answer, right).sum())
    return found


def _is_met(row: dict[str, Any]) -> bool:
    right = all(row[f"wrong {dtype}"] == 0 for dtype in FORMATS)
    return right and row["ratio"] >= RATIO and row["layers"] <= row["tracr"]["layers"]


def _said(row: dict[str, Any]) -> str:
    wrong = ", ".join(f"{row[f'wrong {dtype}']} wrong in {dtype}" for dtype in FORMATS)
    return (
        f"{row['program']}: {row['ratio']:.1f} times fewer parameters, {row['layers']} layers "
        f"against {row['tracr']['layers']}, {wrong}"
    )


def _cells(row: dict[str, Any]) -> list[str]:
    return [
        row["program"],
        str(row["layers"]),
        str(row["tracr"]["layers"]),
        f"{row['padded']:,}",
        f"{row['dense']:,}",
        f"{row['tracr']['parameters']:,}",
        f"{row['ratio']:.1f}",
        f"{row['nonzero']:,}",
        f"{row['tracr']['nonzero']:,}",
        f"{row['words']:,}",
        str(row["wrong float64"]),
        str(row["wrong float32"]),
        f"{row['error float32']:.1e}",
        f"{row['compile s']:.2f}",
    ]


def _together(record: list[dict[str, Any]]) -> tuple[list[Check], list[str]]:
    """What is required of all rows together."""
    mean = math.exp(sum(math.log(row["ratio"]) for row in record) / len(record))
    theirs = sum(row["tracr"]["parameters"] for row in record)
    summed = theirs / sum(row["padded"] for row in record)
    share = sum(row["nonzero"] for row in record) / sum(r["tracr"]["nonzero"] for r in record)
    said = [
        (f"geometric mean of the ratios: {mean:.1f}, at least {MEAN_RATIO:g}", mean >= MEAN_RATIO),
        (f"ratio of the sums: {summed:.1f}, at least {SUM_RATIO:g}", summed >= SUM_RATIO),
        (f"nonzero, summed: {share:.3f} of Tracr's, at most {NONZERO:g}", share <= NONZERO),
    ]
    return [Check(*one) for one in said], [what for what, _ in said]
