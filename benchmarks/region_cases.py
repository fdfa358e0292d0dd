"""Region counts of tiny, degenerate, badly scaled sources against their counts by definition.

Weights are small whole numbers, so that walls coincide, units die and outputs cancel all the time;
then units, layers and domains are scaled by powers of two up to 2^500 both ways, so that products
in floats overflow and underflow. Wherever `hm.regions` says exact, cells and regions must be those
of `hardmax.testing`, and nothing but a refusal may be raised, warnings included.

    python -m benchmarks.region_cases --start 0 --count 1000 --seed 0
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
import warnings
from typing import Any

import numpy as np

import hardmax as hm
from hardmax._errors import HardmaxError
from hardmax.core import Attention, Box, FeedForward, Head, ReadOut, Transformer, VectorInput
from hardmax.testing import QuadraticScore, counts_by_definition

_KINDS = ("relu", "maxout", "attention")
_WEIGHTS = np.array([-2.0, -1.0, -1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0, 2.0])
_FAR, _FARTHEST = 500, 1000  # exponents of the scales: two of the first leave the floats


def regions_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Cases start to start + count - 1 of a seed, and what became of them.

    `false` and `tracebacks` list (case, what happened); `refused` counts requests that were turned
    down, `inexact` answers that do not call themselves exact.
    """
    found: dict[str, Any] = {"cases": 0, "exact": 0, "inexact": 0, "refused": 0, "false": []}
    found |= {"tracebacks": []}
    for number in range(start, start + count):
        source, domain, what = case(number, seed)
        found["cases"] += 1
        outcome, said = _outcome(source, domain)
        if outcome in ("false", "tracebacks"):
            found[outcome].append((number, f"{what}: {said}"))
        else:
            found[outcome] += 1
    return found


def _outcome(source: Any, domain: Any) -> tuple[str, str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answer = hm.regions(source, on=domain)
            if not answer.exact:
                return "inexact", ""
            said = answer.cells, answer.count
    except HardmaxError:
        return "refused", ""
    except Exception as reason:
        return "tracebacks", f"{type(reason).__name__}: {reason}"
    try:
        truth = counts_by_definition(source, domain)
    except QuadraticScore:
        return "false", f"{said} although walls are quadratic"
    return ("exact", "") if said == truth else ("false", f"{said} is not {truth}")


# ---- sources -------------------------------------------------------------------------------------


def case(number: int, seed: int) -> tuple[Any, Any, str]:
    """One source, its domain, and what they are."""
    rng = np.random.default_rng([seed, number])
    kind = _KINDS[rng.choice(3, p=[0.45, 0.35, 0.2])]
    shape = ("box", "segment", "slice", "space")[rng.choice(4, p=[0.6, 0.2, 0.17, 0.03])]
    inputs = {"box": 2, "segment": int(rng.integers(1, 4)), "slice": 3, "space": 3}[shape]
    make = {"relu": _relu, "maxout": _maxout, "attention": _attention}[kind]
    return make(rng, inputs), _domain(rng, shape, inputs), f"{kind} on a {shape}"


def _power(rng: np.random.Generator, size: Any = None) -> np.ndarray:
    """Mostly 1, else a power of two: near, or so far that products leave the floats."""
    near, far = rng.integers(-3, 4, size), rng.integers(-_FAR, _FAR + 1, size)
    farthest = np.where(rng.random(size) < 0.5, -_FARTHEST, _FARTHEST) - near
    kind = rng.random(size)
    exponent = np.select([kind < 0.45, kind < 0.6, kind < 0.95], [0, near, far], farthest)
    return np.ldexp(1.0, exponent)


def _whole(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.choice(_WEIGHTS, shape)


def _degenerate(rng: np.random.Generator, W: np.ndarray, b: np.ndarray) -> None:
    """Repeat, turn or kill units: the last axis but one of W is that of units."""
    for i in range(W.shape[-2]):
        if rng.random() < 0.25:
            j = int(rng.integers(W.shape[-2]))
            factor = rng.choice([1.0, -1.0, 0.0, 2.0])
            W[..., i, :], b[..., i] = factor * W[..., j, :], factor * b[..., j]


def _scaled(rng: np.random.Generator, W: np.ndarray, b: np.ndarray) -> None:
    """Units or a whole layer by powers of two; now and then single weights."""
    where = rng.random()
    if where < 0.3:
        W *= _power(rng)
        b *= _power(rng)
    elif where < 0.7:
        factor = _power(rng, W.shape[-2])
        W *= factor[:, None]
        b *= factor if rng.random() < 0.8 else 1.0
    elif where < 0.85:
        W *= _power(rng, W.shape)


def _relu(rng: np.random.Generator, inputs: int) -> hm.ReluNetwork:
    depth, outputs = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    widths = [inputs, *(int(rng.integers(1, 4)) for _ in range(depth)), outputs]
    weights, biases = [], []
    for a, b in itertools.pairwise(widths):
        W, c = _whole(rng, b, a), _whole(rng, b)
        _degenerate(rng, W, c)
        _scaled(rng, W, c)
        weights.append(W)
        biases.append(c)
    return hm.ReluNetwork(weights, biases)


def _maxout(rng: np.random.Generator, inputs: int) -> hm.MaxoutNetwork:
    depth, rank = int(rng.integers(1, 3)), int(rng.integers(2, 4))
    widths = [inputs, *(int(rng.integers(1, 3)) for _ in range(depth))]
    weights, biases = [], []
    for a, b in itertools.pairwise(widths):
        W, c = _whole(rng, rank, b, a), _whole(rng, rank, b)
        for unit in range(b):
            if rng.random() < 0.4:
                W[:, unit], c[:, unit] = _repeated(rng, W[:, unit], c[:, unit])
        _scaled(rng, W, c)
        weights.append(W)
        biases.append(c)
    return hm.MaxoutNetwork(weights, biases)


def _repeated(
    rng: np.random.Generator, W: np.ndarray, b: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Some pieces once more."""
    again = rng.integers(0, len(W), len(W))
    return W[again], b[again]


def _attention(rng: np.random.Generator, inputs: int) -> Transformer:
    """One token that moves with the input, and fixed ones; keys read only what is fixed."""
    tokens, fixed, layers = int(rng.integers(2, 5)), 2, int(rng.integers(1, 3))
    width = inputs + fixed
    maps, offsets = np.zeros((tokens, width, inputs)), _whole(rng, tokens, width)
    maps[-1, :inputs] = np.diag(_power(rng, inputs))
    offsets[-1, :inputs] = 0.0
    if rng.random() < 0.3:
        offsets[0] = offsets[rng.integers(tokens - 1)]
    offsets *= _power(rng)
    sublayers: list[Any] = []
    for _ in range(layers):
        sublayers.append(Attention([_head(rng, inputs, width) for _ in range(rng.integers(1, 3))]))
        if rng.random() < 0.3:
            sublayers.append(_feed(rng, inputs, width))
    read = ReadOut(_whole(rng, 1, width) * _power(rng), _whole(rng, 1), -1)
    return Transformer(VectorInput(maps, offsets), sublayers, read)


def _head(rng: np.random.Generator, inputs: int, width: int) -> Head:
    key = np.concatenate([np.zeros((2, inputs)), _whole(rng, 2, width - inputs)], axis=1)
    value, output = _whole(rng, 1, width) * _power(rng), _whole(rng, width, 1)
    if rng.random() < 0.5:
        value[:, :inputs] = 0.0
    else:
        output[inputs:] = 0.0  # what moves stays out of keys, or walls would be conics
    query, causal = _whole(rng, 2, width) * _power(rng), bool(rng.random() < 0.2)
    return Head(query, key * _power(rng), value, output, causal=causal)


def _feed(rng: np.random.Generator, inputs: int, width: int) -> FeedForward:
    hidden = int(rng.integers(1, 3))
    inner, outer = _whole(rng, hidden, width), _whole(rng, width, hidden)
    outer[inputs:] = 0.0
    return FeedForward(
        inner * _power(rng), _whole(rng, hidden), outer * _power(rng), _whole(rng, width)
    )


def _domain(rng: np.random.Generator, shape: str, inputs: int) -> Any:
    size = float(rng.choice([1.0, 8.0])) * _power(rng)
    if shape in ("box", "space"):
        return Box(np.full(inputs, -size), np.full(inputs, size))
    if shape == "segment":
        ends = _whole(rng, 2, inputs) * size
        ends[1] += (ends[0] == ends[1]).all() * size
        return hm.Segment(*ends)
    directions = np.concatenate([np.eye(2), _whole(rng, 2, 1)], axis=1)
    return hm.Slice(_whole(rng, 3), directions * _power(rng), Box([-size] * 2, [size] * 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    before = time.process_time()
    found = regions_part(given.start, given.count, given.seed)
    print(json.dumps(found | {"seconds": round(time.process_time() - before, 1)}, indent=1))


if __name__ == "__main__":
    main()
