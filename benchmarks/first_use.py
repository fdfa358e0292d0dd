"""What a newcomer waits for: each first question in a new process, nothing compiled, nothing kept.

    python -m benchmarks.first_use            medians of 5 (CPU and wall seconds), beside numpy
    python -m benchmarks.first_use --quick    of one

Every run has empty folders for Numba's machine code and matplotlib's fonts. The last rows are the
same questions where `hardmax warm` has been run; they are left out of --quick, since it takes a
minute or two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

BUMP = Path(__file__).resolve().parents[1] / "examples" / "bump.npz"
_COMMAND = "import sys; sys.argv = ['hardmax', {}]; from _hardmax_command import main; main()"
_NETWORK = f"import hardmax as hm; r = hm.regions(hm.load_network({str(BUMP)!r}), on='[-1,1]^2')"
_KEYS = "import hardmax as hm, numpy as np; keys = np.random.default_rng(0).normal(size=(20, 2))"
QUESTIONS = {  # with the seconds that a newcomer may wait
    "import numpy": ("import numpy", None),
    "import hardmax": ("import hardmax", 0.15),
    "hardmax --help": (_COMMAND.format("'--help'"), 0.2),
    "first region count (2-16-16-1)": (f"{_NETWORK}; print(r.count)", 3.0),
    "first diagram (20 keys)": (f"{_KEYS}; hm.power_diagram(keys, on='[-1,1]^2').live", 3.0),
    "first plot (the diagram)": (
        f"{_KEYS}; d = hm.power_diagram(keys, on='[-1,1]^2'); "
        "hm.plots.diagram_picture(d, path='diagram.svg')",
        3.0,
    ),
    "compile x*y": ("import hardmax as hm; hm.compile('x*y', on='[-1,1]^2')", 3.0),
    "compile and certify sort": (
        "import hardmax as hm; "
        "hm.certify(hm.compile(hm.programs.sort, alphabet='abcde', length=5))",
        3.0,
    ),
}


def waited(program: str, folder: str) -> tuple[float, float]:
    """CPU and wall seconds of a process, its children included."""
    caches = {"NUMBA_CACHE_DIR": f"{folder}/numba", "MPLCONFIGDIR": f"{folder}/fonts"}
    known = {name: value for name, value in os.environ.items() if name != "HARDMAX_LOOPS"}
    before, begun = os.times(), time.monotonic()
    subprocess.run(
        [sys.executable, "-c", program],
        env=known | caches,
        cwd=folder,
        check=True,
        capture_output=True,
    )
    after, wall = os.times(), time.monotonic() - begun
    spent = after.children_user + after.children_system
    return spent - before.children_user - before.children_system, wall


def medians(rounds: int, warm: str | None) -> dict[str, tuple[float, float]]:
    """All questions by turns, so that a machine that slows down slows all of them down."""
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in QUESTIONS}
    for _ in range(rounds):
        for name, (program, _) in QUESTIONS.items():
            with tempfile.TemporaryDirectory() as empty:
                seconds[name].append(waited(program, warm or empty))
    return {
        name: (median(cpu for cpu, _ in both), median(wall for _, wall in both))
        for name, both in seconds.items()
    }


def show(title: str, found: Mapping[str, tuple[float, float]]) -> bool:
    """Print a table; whether everything took as little CPU time as it may."""
    base, fine = found["import numpy"][0], True
    print(f"\n{title:34} {'CPU s':>8} {'wall s':>8} {'x numpy':>8} {'may take':>9}")
    for name, (cpu, wall) in found.items():
        most = QUESTIONS[name][1]
        fine &= most is None or cpu <= most
        told = "" if most is None else f"{most:9.2f}" + ("" if cpu <= most else "  <- more")
        print(f"{name:34} {cpu:8.2f} {wall:8.2f} {cpu / base:8.1f} {told}")
    return fine


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="one round, on empty caches alone")
    parser.add_argument("--json", type=Path, help="write the seconds here")
    chosen = parser.parse_args(arguments)
    rounds = 1 if chosen.quick else 5
    told = {"empty caches": medians(rounds, None)}
    fine = show("empty caches", told["empty caches"])
    if not chosen.quick:
        with tempfile.TemporaryDirectory() as folder:
            waited(_COMMAND.format("'warm'"), folder)
            told["after hardmax warm"] = medians(rounds, folder)
        show("after hardmax warm", told["after hardmax warm"])
    if chosen.json:
        chosen.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
