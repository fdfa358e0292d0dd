"""What float32 does to compiled networks: bounds by intervals, by 2-norms too, and measured.

python -m benchmarks.rounding_of_networks            # four networks, under 10 s of CPU
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np

import hardmax as hm
from hardmax.checker.rounding import float_bounds
from hardmax.core import evaluate
from hardmax.numerics import FLOAT32
from hardmax.testing import random_relu, run_in_format


def deep(seed: int, layers: int) -> hm.ReluNetwork:
    """8-(32 x L)-1: He normal weights, biases 0.3 and 0.1 times normal."""
    rng, widths = np.random.default_rng(seed), [8, *[32] * layers, 1]
    weights, biases = [], []
    for k in range(layers + 1):
        a, b = widths[k : k + 2]
        weights.append(rng.normal(0.0, np.sqrt(2 / a), size=(b, a)))
        biases.append((0.3 if k < layers else 0.1) * rng.normal(size=b))
    return hm.ReluNetwork(weights, biases)


def networks() -> Iterator[tuple[str, hm.ReluNetwork]]:
    for layers in (2, 4, 8):
        yield f"8-(32 x {layers})-1", deep(0, layers)
    yield "64-256-256-10", random_relu(0, 64, 256, 256, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=20)
    points = parser.parse_args().points
    print("network         intervals   2-norms    measured   CPU seconds")
    for name, network in networks():
        size = network.inputs
        box = hm.Box([-1.0] * size, [1.0] * size)
        transformer = hm.compile(network, on=box, error=1e-2, route="attention-only").transformer
        by_intervals = float_bounds(
            transformer, box, ("float32",), worthwhile=(np.inf, np.inf), claimed=()
        )["float32"]
        begun = time.process_time()
        both = float_bounds(transformer, box, ("float32",))["float32"]
        spent = time.process_time() - begun
        rng = np.random.default_rng(1)
        inside = FLOAT32.stored(rng.uniform(-1.0, 1.0, size=(points, size)))
        computed = run_in_format(transformer, inside, FLOAT32, rng)
        measured = np.abs(computed - evaluate(transformer, inside)).max()
        numbers = f"{by_intervals.max():.2e}    {both.max():.2e}   {measured:.2e}   {spent:.2f}"
        print(f"{name:14}  {numbers}", flush=True)


if __name__ == "__main__":
    main()
