"""What the package does, written down, so that a redesign can show that it does it still.

    python -m benchmarks.behaviour --write out/before.json       with the package as it was
    python -m benchmarks.behaviour --against out/before.json     with the package as it is

A record holds bills, fingerprints, claims and certificates of the zoo and of the gallery, region
counts of networks and hard Transformers, and what commands print (times left out). Every entry
that differs, is missing or is new is printed; the exit code is 0 if there is none. Budgets are in
work, so that a record does not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._driver import as_json
from hardmax.core import fingerprint
from hardmax.testing import Kind, random_maxout, random_relu, random_vector_transformer, zoo

HERE = Path(__file__).resolve().parents[1]
BUDGET = "5e6 work"
Entry = tuple[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Record, and compare if there is something to compare with."""
    options = _parsed(arguments)
    found: dict[str, Any] = {}
    for part in options.only or PARTS:
        for name, entry in PARTS[part]():
            found[f"{part}: {name}"] = json.loads(as_json({"entry": entry}))["entry"]
            print(f"\r{len(found):5} {part:10}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    if options.write is not None:
        options.write.parent.mkdir(parents=True, exist_ok=True)
        options.write.write_text(as_json(found))
    if options.against is None:
        return 0
    before = json.loads(options.against.read_text())
    parts = tuple(f"{part}: " for part in options.only or PARTS)
    differences = list(compared({k: v for k, v in before.items() if k.startswith(parts)}, found))
    print(*differences, sep="\n")
    print(f"{len(found)} entries, {len(differences)} differences")
    return int(bool(differences))


def compared(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    """One line for every entry that is not as it was."""
    for name in before.keys() | after.keys():
        if name not in after:
            yield f"{name}: missing"
        elif name not in before:
            yield f"{name}: new"
        elif before[name] != after[name]:
            yield f"{name}: {_difference(before[name], after[name])}"


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
        return "; ".join(f"{k} {before.get(k)} -> {after.get(k)}" for k in keys)
    if isinstance(before, list) and isinstance(after, list):
        pairs = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
        first = f"{pairs[0][0]!r} -> {pairs[0][1]!r}" if pairs else "one goes on"
        return f"{len(before)} and {len(after)} lines, {first}"
    return f"{before} -> {after}"


# ---- constructions -----------------------------------------------------------------------------


def _zoo() -> Iterator[Entry]:
    for name, specimen in zoo().items():
        yield name, _construction(specimen.construction)


def _gallery() -> Iterator[Entry]:
    sys.path.append(str(HERE / "examples"))
    from gallery import GALLERY

    for name, entry in GALLERY.items():
        program, words = entry()
        yield name, _construction(hm.compile(program, on=words))


def _construction(construction: hm.Construction) -> dict[str, Any]:
    claim, bill = construction.claim, construction.bill
    certificate = hm.certify(construction, budget=BUDGET)
    return {
        "fingerprint": fingerprint(construction.transformer),
        "bill": str(bill),
        "parameters": [bill.parameters, bill.padded_parameters, bill.nonzero_parameters],
        "largest": [bill.largest_weight, bill.largest_logit],
        "claim": claim.error,
        "ledger": [[share.cause, share.where, share.amount] for share in claim.ledger],
        "verdict": certificate.verdict.name,
        "numbers": [certificate.measured, certificate.certified, certificate.claimed],
        "holds in": list(certificate.holds_in),
        "method": certificate.method,
    }


# ---- regions -----------------------------------------------------------------------------------


def _regions() -> Iterator[Entry]:
    rng = np.random.default_rng(0)
    shapes = [(1, 20, 20, 1), (2, 16, 16, 1), (2, 32, 32, 32, 1), (3, 10, 10, 2), (4, 8, 8, 1)]
    for seed, widths in enumerate(shapes):
        box = hm.Box(-np.ones(widths[0]), np.ones(widths[0]))
        name = "-".join(map(str, widths))
        yield f"ReLU {name}", _counts(random_relu(seed, *widths), box)
        if widths[0] > 1:
            ends = rng.normal(size=(2, widths[0]))
            line = hm.Segment(*ends)
            yield f"ReLU {name} on a segment", _counts(random_relu(seed, *widths), line)
    for seed, widths in enumerate([(1, 9, 2), (2, 6, 6, 1), (3, 4, 4, 1)]):
        box = hm.Box(-np.ones(widths[0]), np.ones(widths[0]))
        yield f"maxout {widths}", _counts(random_maxout(seed, 3, *widths), box)
    for seed in range(8):
        kind = Kind(coarse=seed % 2 == 0, hard=1.0, steady=True, continuous=0.5)
        model = random_vector_transformer(np.random.default_rng(seed), 2, 1, kind)
        yield f"hard Transformer {seed}", _counts(model, hm.Box([-1, -1], [1, 1]))
        line = hm.Segment([-1.0, 0.3], [1.0, -0.2])
        yield f"hard Transformer {seed} on a segment", _counts(model, line)


def _counts(source: Any, on: Any) -> dict[str, Any]:
    found = hm.regions(source, on=on)
    return {"cells": found.cells, "count": found.count, "exact": found.exact}


# ---- commands ----------------------------------------------------------------------------------

_MADE = "made.safetensors"
_BUMP = f"{HERE}/examples/bump.npz --on [-1,1]^2"
COMMANDS = [
    "--help",
    "compile --help",
    f"compile x*y --on x=-1:1 --on y=-1:1 --error 1e-3 --certify -o {_MADE}",
    f"show {_MADE}",
    f"run {_MADE} x=0.3 y=0.5",
    f"verify {_MADE}",
    "plan x*y --on x=-1:1 --on y=-1:1 --error 1e-6",
    "plan 1/x --on x=0.1:1 --error 1e-4",
    "plan sin(x)*exp(-y) --on x=-1:1 --on y=0:1 --error 1e-3 --json",
    f"compile {_BUMP} --error 1e-3 --route attention -o net.safetensors",
    f"plan {_BUMP} --error 1e-3",
    f"regions {_BUMP}",
    f"regions {_BUMP} --json",
    "compile --program sort --alphabet abcd --length 6 -o sort.safetensors",
    "run sort.safetensors dcab --trace",
    "plan --program dyck --length 8",
    "bounds --help",
    "bounds transformer --tokens 5 --heads 2 --layers 2 --dimension 3",
    "compile x*/y --on x=-1:1 --on y=-1:1",
    "compile 1/x --on x=-1:1",
    "verify missing.safetensors",
    "compile foo(x) --on x=0:1",
]
_TIMES = re.compile(r"\d+(\.\d+)?(e[+-]\d+)? ?(s|ms|seconds)\b|\d+(\.\d+)? work")


def _commands() -> Iterator[Entry]:
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMANDS:
            ran = subprocess.run(
                [sys.executable, "-m", "hardmax", *command.split()],
                cwd=folder,
                capture_output=True,
                text=True,
                check=False,
                stdin=subprocess.DEVNULL,
            )
            text = (ran.stdout + ran.stderr).replace(str(HERE), "").replace(folder, "")
            yield (
                command.replace(str(HERE), ""),
                [ran.returncode, *_TIMES.sub("T", text).split("\n")],
            )


PARTS: dict[str, Callable[[], Iterator[Entry]]] = {
    "commands": _commands,
    "regions": _regions,
    "gallery": _gallery,
    "zoo": _zoo,
}


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.behaviour",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="where the record goes")
    parser.add_argument("--against", type=Path, metavar="FILE", help="an older record")
    parser.add_argument("--only", action="append", choices=PARTS, help="one part; may be repeated")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
