"""Random programs, compiled and run against the interpreter: none may be wrong.

    python -m benchmarks.random_programs                          10,000 programs
    python -m benchmarks.random_programs --start 2000 --count 500 a part of them
    python -m benchmarks.random_programs --json out/programs.json keeps the counts of a part

A part is decided by its numbers and the seed, so a campaign can be run in parts, in any order, and
be added up. A program is right if on every word that was tried, short, long, constant, alternating
and random ones, each number of its answer is as close to the interpreter's as its claim says, the
margin of the claim not counted. What the compiler refuses is counted by its reason. Exit code 1
says that something was wrong or crashed.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.core import Construction, evaluate
from hardmax.testing import RandomProgram, random_program

EXHAUSTIVE, SAMPLED = 40, 24  # so many words are all tried; of more, a sample
_REASONS = {
    "too many values": r"may take [\d,]+ values",
    "too many combinations": r"depends on [\d,]+ combinations",
    "too many keys and queries": r"compares [\d,]+ keys",
    "too many numbers to sum": r"different numbers, whose",
    "too many kinds of queries": r"kinds of queries",
    "float64 cannot keep it apart": r"may stray by",
    "numbers too close or too large": r"too close to|too large",
    "the program itself fails": r" fails on |is about one position|adds numbers|of the symbols",
    "order without positions": r"[Nn]o positions|Only relative|depends on the order",
    "machine on other values": r"A machine that is neither",
}


def run_part(start: int, count: int, seed: int = 0) -> dict[str, Any]:
    """The programs number start, ..., start + count - 1 of a seed: what became of them."""
    found: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    faults = []
    for number in range(start, start + count):
        outcome, detail = tried(seed * 10**9 + number)
        found[outcome] += 1
        if outcome == "refused":
            refused[detail] += 1
        elif outcome != "right":
            faults.append({"number": number, "outcome": outcome, "detail": detail})
    counts = {name: found[name] for name in ("right", "wrong", "crashed", "refused")}
    return {"programs": count, **counts, "reasons": dict(refused.most_common()), "faults": faults}


def tried(seed: int) -> tuple[str, str]:
    """What became of one program, and why."""
    drawn = random_program(seed)
    try:
        model = hm.compile(
            drawn.program, on=drawn.words, positions=drawn.positions, route=drawn.route
        )
    except hm.HardmaxError as reason:
        return "refused", reason_of(str(reason))
    except Exception as reason:
        return "crashed", f"{type(reason).__name__}: {reason}"
    try:
        fault = fault_of(model, drawn, seed)
    except hm.HardmaxError as reason:
        return "refused", reason_of(str(reason))
    except Exception as reason:
        return "crashed", f"{type(reason).__name__}: {reason}"
    return ("right", "") if fault is None else ("wrong", fault)


def reason_of(message: str) -> str:
    """A refusal by its kind."""
    for name, pattern in _REASONS.items():
        if re.search(pattern, message):
            return name
    return f"other: {message[:80]}"


def fault_of(model: Construction, drawn: RandomProgram, seed: int) -> str | None:
    """A word whose answer is further from the interpreter than the claim says, if there is one."""
    words = drawn.words
    few = words.count <= EXHAUSTIVE
    chosen = list(words) if few else words.sample(SAMPLED, np.random.default_rng(seed))
    answers = evaluate(model.transformer, [list(word) for word in chosen])
    allowed = math.fsum(one.amount for one in model.claim.ledger if one.cause != "margin")
    for word, answer in zip(chosen, answers, strict=True):
        wanted = np.array(model.claim.target(word), dtype=np.float64)
        off = float(np.abs(np.reshape(answer, wanted.shape) - wanted).max(initial=0.0))
        if not off <= allowed:
            return f"{list(word)} is off by {off:.3g}, the claim accounts for {allowed:.3g}"
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.random_programs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--start", type=int, default=0, help="the first program (0)")
    parser.add_argument("--count", type=int, default=10_000, help="how many (10000)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep the counts")
    options = parser.parse_args(arguments)
    began = time.process_time()
    record = run_part(options.start, options.count, options.seed)
    print(json.dumps(record, indent=1))
    print(f"{time.process_time() - began:.0f} s of processor time")
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return int(bool(record["wrong"] or record["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
