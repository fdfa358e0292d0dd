"""Corrupted and forged files through every door that reads one.

    python -m benchmarks.hostile_files                          10,000 files
    python -m benchmarks.hostile_files --count 300 --seed 7     fewer, others
    python -m benchmarks.hostile_files --start 4217 --count 1   one of them again

A file must be refused in one sentence (an error of hardmax, exit code 2), or read; what is read is
run and verified, and what is called proved has to be so by points that the checker did not choose.
Exit code 1 says that there was a traceback, a false verdict, or a file that held us up.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

import hardmax as hm
from benchmarks._hostile_forgeries import Rng, forgeries_of
from benchmarks._hostile_specimens import SQUARE, exported, network, specimens
from hardmax.cli import main as hardmax
from hardmax.core import Words, fingerprint

COUNTS = ("accepted", "refused", "tracebacks", "false", "slow")
SECONDS = 30  # of the CPU for one file: far beyond what any needs that is not an attack
BUDGET = "100 boxes"
POINTS = 500
_LONGEST_WORD = 12  # what is measured again: a forged domain may have words of any length


class TooSlow(BaseException):
    """A file held us up."""


class Fault(Exception):
    """What a door did and should not have done."""


def run_part(start: int, count: int, seed: int, faults: list[str] | None = None) -> dict[str, int]:
    """Files number start, ..., start + count - 1 of a seed: how many were read, refused, and so on.

    Every file is made from its own number and the seed alone, so that parts can be run in any
    order. `faults` collects a line for each thing that should not be.
    """
    counts = Counter(dict.fromkeys(COUNTS, 0))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _warm(Path(folder))
        for number in range(start, start + count):
            outcome, told = _tried(number, seed, Path(folder))
            counts[outcome] += 1
            if told and faults is not None:
                faults.append(told)
    return dict(counts)


def _warm(folder: Path) -> None:
    """Have loops compiled before any file is timed: that takes longer than all else."""
    for file in specimens():
        if file.kind == "network":
            place = folder / f"file{file.suffix}"
            place.write_bytes(file.data)
            inputs = hm.load_network(place).inputs
            call("regions", place, "--on", f"[-1,1]^{inputs}", "--cells")


def _tried(number: int, seed: int, folder: Path) -> tuple[str, str]:
    """What became of one file, and what is wrong with that."""
    rng = np.random.default_rng([seed, number])
    file = specimens()[rng.integers(len(specimens()))]
    ways = forgeries_of(file)
    forge = ways[rng.integers(len(ways))]
    place = folder / f"file{file.suffix}"
    what = f"file {number} of seed {seed}, {file.kind}{file.suffix} {forge.__name__}"
    try:
        place.write_bytes(forge(file, rng))
    except (hm.HardmaxError, TypeError, ValueError, RecursionError, OverflowError, KeyError):
        place.write_bytes(file.data[: len(file.data) // 2])  # what no file can hold
    try:
        with _limited(SECONDS):
            return ("accepted" if DOORS[file.kind](place, rng) else "refused"), ""
    except TooSlow:
        return "slow", f"{what}: took over {SECONDS} s"
    except Fault as fault:
        return ("false" if fault.args[0] == "false" else "tracebacks"), f"{what}: {fault}"
    except Exception as reason:
        return "tracebacks", f"{what}: {type(reason).__name__}: {reason}"[:500]


@contextmanager
def _limited(seconds: int) -> Iterator[None]:
    def late(*_: object) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ---- doors: whether a file was read; a Fault if not as it should be ----------------------------


def call(*arguments: object) -> Result:
    """A command in this process; an end that no command may have is a fault."""
    result = CliRunner().invoke(hardmax, [str(a) for a in arguments])
    lines = result.stderr.splitlines()
    if result.exit_code not in (0, 1, 2):
        raise Fault("exit", result.exit_code, arguments[0], result.stderr[-300:])
    if "Traceback" in result.output or "Warning" in result.stderr:
        raise Fault("traceback", arguments[0], result.output[-300:])
    if result.exit_code == 2 and (result.stdout or len(lines) not in (1, 3)):
        raise Fault("refusal of more than a sentence", arguments[0], result.output[-300:])
    return result


def read(reader: Callable[[Path], Any], place: Path) -> Any:
    """What a reader finds; None if it refuses."""
    try:
        return reader(place)
    except hm.HardmaxError as reason:
        if not str(reason).strip() or len(str(reason)) > 3000:
            raise Fault("refusal of no sentence", str(reason)[:300]) from None
        return None


def model_door(place: Path, rng: Rng) -> bool:
    construction = read(hm.load, place)
    read(hm.load_certificate, place)
    if construction is None:
        if call("verify", place).exit_code != 2:
            raise Fault("verify reads what the library refuses")
        call("show", place)  # which shows networks, too
        return False
    call("show", place, "--json")
    if isinstance(construction.claim.domain, Words):
        call("run", place, "ab")
    else:
        call("run", place, *["0.25"] * construction.claim.domain.dimension)
    verified = call("verify", place, "--json", "--budget", BUDGET)
    if verified.exit_code == 0:
        _check_proof(construction, json.loads(verified.stdout))
    return True


def _check_proof(construction: hm.Construction, record: dict[str, Any]) -> None:
    """What is called proved has to be so at points that the checker did not choose."""
    if record["verdict"] != "PROVED" or record["altered"] or record["contradictions"]:
        raise Fault("false", "exit code 0", record["verdict"])
    domain = construction.claim.domain
    if isinstance(domain, Words) and domain.longest > _LONGEST_WORD:
        return
    seen = hm.measure(construction, POINTS).error
    certified = record["certificate"]["certified"]
    if not seen <= certified <= construction.claim.error or math.isnan(seen):
        raise Fault("false", "proved", f"measured {seen}, certified {certified}")


def graph_door(place: Path, rng: Rng) -> bool:
    """Whatever is read is what was written: labels may be altered, but no weight and no node."""
    found = read(hm.interop.read_onnx, place)
    if found is not None and fingerprint(found) not in _exported_fingerprints():
        raise Fault("false", "another model is read")
    return found is not None


@cache
def _exported_fingerprints() -> list[str]:
    return [fingerprint(construction.transformer) for construction in exported()]


def network_door(place: Path, rng: Rng) -> bool:
    found = read(hm.load_network, place)
    on = SQUARE if found is None else f"[-1,1]^{found.inputs}"
    commands: list[tuple[object, ...]] = [
        ("show", place),
        ("regions", place, "--on", on, "--cells", "--limit", 500),
        ("compile", place, "--on", on, "--error", "1e-2", "--points", 20),
    ]
    command = commands[rng.integers(len(commands))]
    ended = call(*command)
    if found is None and ended.exit_code != 2 and not _reads_as_model(command[0], place):
        raise Fault("a command reads what the library refuses")
    return found is not None


def _reads_as_model(command: object, place: Path) -> bool:
    """`show` and `regions` are about compiled models, too."""
    return command in ("show", "regions") and read(hm.load, place) is not None


@cache
def _counted() -> dict[str, Any]:
    return hm.regions(network(), on=SQUARE).as_dict()


def checkpoint_door(place: Path, rng: Rng) -> bool:
    """Counts that come from a file whose digest is right are believed; others are made anew."""
    before = place.read_bytes()
    own = place.with_name("network.npz")
    hm.save_network(network(), own)
    ended = call("regions", own, "--on", SQUARE, "--checkpoint", place, "--json")
    if ended.exit_code == 2:
        if place.read_bytes() != before:
            raise Fault("a checkpoint that was refused was replaced")
        return False
    found, true = json.loads(ended.stdout), _counted()
    same = (found["cells"], found["regions"]) == (true["cells"], true["regions"])
    if not same and not _is_signed(before):
        raise Fault("false", "count", found["cells"])
    return True


def _is_signed(data: bytes) -> bool:
    from hardmax._archives import arrays_in
    from hardmax.geometry.counting._checkpoint import _digest

    arrays = arrays_in(data)
    return bool(np.array_equal(arrays.pop("sha256"), _digest(arrays)))


def function_door(place: Path, rng: Rng) -> bool:
    found = read(_function, place) if _is_text(place) else None
    if found is not None and (len(found.variables) > 3 or rng.random() < 0.8):
        found(np.full((1, len(found.variables)), 0.25))
        return True
    names = ("x", "y") if found is None else found.variables
    on = [word for name in names for word in ("--on", f"{name}=0.5:1")]
    ended = call("compile", place, *on, "--error", "0.1", "--points", 20)
    if found is None and ended.exit_code != 2:
        raise Fault("a command reads what the library refuses")
    return found is not None


def _function(place: Path) -> hm.Function:
    return hm.Function.parse(place.read_text("utf-8"))


def _is_text(place: Path) -> bool:
    try:
        place.read_text("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def program_door(place: Path, rng: Rng) -> bool:
    words = ("--alphabet", "ab", "--length", 2, "ab")
    return call("run", "--program", place, *words).exit_code != 2


def points_door(place: Path, rng: Rng) -> bool:
    model = place.with_name("square.safetensors")
    if not model.exists():
        model.write_bytes(_square_model())
    return call("run", model, "--input", place, "--json").exit_code != 2


@cache
def _square_model() -> bytes:
    return next(file for file in specimens()[2:] if file.kind == "model").data


DOORS: dict[str, Callable[[Path, Rng], bool]] = {
    "model": model_door,
    "graph": graph_door,
    "network": network_door,
    "checkpoint": checkpoint_door,
    "function": function_door,
    "program": program_door,
    "points": points_door,
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.hostile_files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--start", type=int, default=0, help="the first file (0)")
    parser.add_argument("--count", type=int, default=10_000, help="how many (10,000)")
    parser.add_argument("--seed", type=int, default=0, help="which ones (0)")
    options = parser.parse_args(arguments)
    faults: list[str] = []
    begun = time.process_time()
    counts = run_part(options.start, options.count, options.seed, faults)
    for line in faults:
        print(line)
    told = ", ".join(f"{number:,} {name}" for name, number in counts.items())
    print(f"{options.count:,} hostile files: {told}, in {time.process_time() - begun:.0f} CPU s")
    return int(bool(faults))


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    sys.exit(main())
