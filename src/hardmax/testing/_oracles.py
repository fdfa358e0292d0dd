"""What networks compute, said a second time: slow, plain, and independent of the library's code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from hardmax.core import Affine, Maximum, Steps, Univariate
from hardmax.languages import MaxAffine, MaxoutNetwork, PiecewiseLinear, ReluNetwork
from hardmax.numerics import exact, gamma

Network = ReluNetwork | MaxoutNetwork | MaxAffine | PiecewiseLinear


def by_definition(network: Network, x: Iterable[Fraction]) -> list[Fraction]:
    """The value at x, straight from the formulas, without matrix products."""
    x = list(x)
    match network:
        case ReluNetwork(weights=Ws, biases=bs):
            for W, b in zip(Ws[:-1], bs[:-1], strict=True):
                x = [max(v, Fraction(0)) for v in _affine(W, b, x)]
            return _affine(Ws[-1], bs[-1], x)
        case MaxoutNetwork(weights=Ws, biases=bs):
            for W, b in zip(Ws, bs, strict=True):
                pieces = [_affine(W[p], b[p], x) for p in range(len(W))]
                x = [max(unit) for unit in zip(*pieces, strict=True)]
            return x
        case MaxAffine(weights=W, biases=b):
            return [max(_affine(W, b, x))]
        case PiecewiseLinear(plus=plus, minus=None):
            return by_definition(plus, x)
        case PiecewiseLinear(plus=plus, minus=MaxAffine() as minus):
            return [by_definition(plus, x)[0] - by_definition(minus, x)[0]]
    raise TypeError(f"There is no definition for a {type(network).__name__}.")


def _affine(W: np.ndarray, b: np.ndarray, x: Sequence[Fraction]) -> list[Fraction]:
    return [
        sum((Fraction(w) * v for w, v in zip(row, x, strict=True)), Fraction(c))
        for row, c in zip(W.tolist(), b.tolist(), strict=True)
    ]


def rounding_bound(steps: Steps, x: ArrayLike) -> np.ndarray:
    """How far a float64 run of the steps may stray at the floats x, in any order of summation.

    An affine step of n columns turns an error e into |W| e + gamma_{n+1} (|W| (|v| + e) + |b|),
    where v is the exact value that it reads: n products and n additions, each term passing
    through at most n + 1 roundings. A relu passes errors on, a maximum the largest of its group.
    Holds where nothing underflows. Products are not supported.
    """
    values, bounds = steps.values(exact(x)), [exact(np.zeros(steps.inputs))]
    for step in steps.steps:
        error = np.concatenate([bounds[source] for source in step.sources])
        size = error + abs(np.concatenate([values[source] for source in step.sources]))
        match step:
            case Affine():
                W, b = exact(abs(step.weights)), exact(abs(step.bias))
                bounds.append(W @ error + Fraction(gamma(W.shape[1] + 1)) * (W @ size + b))
            case Maximum():
                worst = [max(error[row[row >= 0]]) for row in step.groups]
                bounds.append(np.array(worst, dtype=object))
            case Univariate():
                bounds.append(error)
            case _:
                raise TypeError(f"There is no rounding bound for a {type(step).__name__}.")
    return bounds[-1]
