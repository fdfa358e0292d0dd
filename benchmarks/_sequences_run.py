"""One model on one batch in a process of its own, so that its peak memory is its own.

python -m benchmarks._sequences_run sort 100 1000 3
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._measure import cpu_seconds
from hardmax import programs as p
from hardmax.core import Words, evaluate

PROGRAMS = {"reverse": p.reverse, "histogram": p.histogram, "sort": p.sort}
ALPHABET = "abcdefghij"


def measured(name: str, length: int, batch: int, rounds: int) -> dict[str, Any]:
    """CPU time of one call on a batch (a median), and the memory that the process ever took."""
    words = Words(ALPHABET, length, length)
    made: list[hm.Construction] = []
    compiling = cpu_seconds(lambda: made.append(hm.compile(PROGRAMS[name], on=words)))
    transformer = made[0].transformer
    rng = np.random.default_rng(0)
    sequences = words.words(rng.integers(len(ALPHABET), size=(batch, length)))
    before = _peak()
    evaluate(transformer, sequences[:2])  # warm
    spent = [cpu_seconds(lambda: evaluate(transformer, sequences)) for _ in range(rounds)]
    return {
        "compile s": compiling,
        "seconds": median(spent),
        "before MB": before,
        "peak MB": _peak(),
        "parameters": made[0].bill.parameters,
    }


def _peak() -> float:
    """In megabytes. On Linux `ru_maxrss` begins with what the parent held, VmHWM does not."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(one for one in status.read_text().splitlines() if one.startswith("VmHWM"))
        return float(line.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20  # macOS counts bytes


if __name__ == "__main__":
    try:
        print(json.dumps(measured(sys.argv[1], *map(int, sys.argv[2:]))))
    except hm.RequestError as refusal:
        print(json.dumps({"refused": str(refusal)}))
