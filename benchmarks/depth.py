"""Depth: 8-(32 x L)-1 ReLU networks on [-1,1]^8 at 1e-3, on the attention routes.

    python -m benchmarks.depth                          L = 4, 8, 16, 32
    python -m benchmarks.depth --layers 8 --seeds 1 --json out/depth.json

Prints the dense parameters beside the network's, the largest logit beside the floor of one ReLU of
range 1 at that error, the verdict, and seconds of CPU. Refusals are printed with their reason.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

import hardmax as hm

ERROR = 1e-3
FLOOR = 0.139232 / ERROR / 2  # of one centred ReLU of a number in [-1, 1], its scores +-z/2
INITS = {"he-0.3": 0.3, "he-0.1": 0.1, "torch": None}


def network(layers: int, seed: int, init: str, width: int = 32, inputs: int = 8) -> hm.ReluNetwork:
    """He normal weights and normal biases, or both uniform in 1/sqrt(fan-in), as torch has it."""
    rng, sizes = np.random.default_rng(seed), [inputs, *[width] * layers, 1]
    weights, biases = [], []
    for fan, out in pairwise(sizes):
        scale = INITS[init]
        if scale is None:
            bound = 1 / math.sqrt(fan)
            weights.append(rng.uniform(-bound, bound, (out, fan)))
            biases.append(rng.uniform(-bound, bound, out))
        else:
            weights.append(rng.normal(size=(out, fan)) * math.sqrt(2 / fan))
            biases.append(scale * rng.normal(size=out))
    return hm.ReluNetwork(weights, biases)


def row(layers: int, route: str, init: str, seed: int) -> dict[str, object]:
    """Compiled and certified once: what came of it, and what it took."""
    source = network(layers, seed, init)
    result: dict[str, object] = {"layers": layers, "route": route, "init": init, "seed": seed}
    start = time.process_time()
    try:
        model = hm.compile(source, on="[-1,1]^8", error=ERROR, route=route)
    except hm.HardmaxError as reason:
        return result | {"refused": str(reason), "compile": time.process_time() - start}
    compiled = time.process_time()
    certificate = hm.certify(model)
    logit = model.bill.largest_logit
    return result | {
        "logit": logit,
        "ratio": logit / FLOOR,
        "dense": model.bill.parameters / source.parameters,
        "nonzero": model.bill.nonzero_parameters / source.parameters,
        "verdict": certificate.verdict.name,
        "certified": certificate.certified,
        "compile": compiled - start,
        "certify": time.process_time() - compiled,
    }


def rows(layers: list[int], seeds: int, inits: list[str]) -> Iterator[dict[str, object]]:
    for depth in layers:
        for route in ("attention", "attention-only"):
            for init in inits:
                for seed in range(seeds):
                    yield row(depth, route, init, seed)


def line(found: dict[str, object]) -> str:
    head = "{layers:>2} {route:<14} {init:<6} {seed}".format(**found)
    if "refused" in found:
        return head + "  refused in {compile:.1f} s: {refused}".format(**found)
    return head + (
        "  dense x {dense:.2f}  logit {logit:.2e} (x {ratio:.1e})"
        "  {verdict:<9} {certified:.3g}  compile {compile:.1f} s"
        "  certify {certify:.1f} s"
    ).format(**found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, nargs="+", default=[4, 8, 16, 32])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--init", nargs="+", choices=list(INITS), default=list(INITS))
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = []
    for result in rows(chosen.layers, chosen.seeds, chosen.init):
        print(line(result), flush=True)
        found.append(result)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
