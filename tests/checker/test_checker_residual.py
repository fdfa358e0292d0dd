"""Steps with several sources, from a witness: skip connections, maxima over groups, |.|.

The Transformers are written by hand. Hidden units and hard arithmetic compute the target exactly;
soft heads, which take a rectifier over a sink and the token itself, up to 0.2785/coldness each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker import Verdict, certify
from hardmax.checker._budget import Budget, Clock
from hardmax.checker.steps import Rejected, validate
from hardmax.core import (
    Affine,
    Attention,
    Claim,
    Construction,
    FeedForward,
    Head,
    Holding,
    Maximum,
    ReadOut,
    Share,
    Softmax,
    Steps,
    Sublayer,
    Transformer,
    Univariate,
    VectorInput,
    Witness,
    evaluate,
)
from hardmax.numerics import softmax_gap
from hardmax.testing import StepsTarget

Step = Affine | Maximum | Univariate

EXACTLY = 1e-12  # stated of what is computed without error: room for the checker's own rounding


def dyadic(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return np.round(rng.normal(size=shape) * 8) / 16


def promised(model: Transformer, steps: list[Step], held: list[Holding], error: float):
    target = StepsTarget(Steps(model.input.inputs, steps))
    domain = hm.Box(-np.ones(target.inputs), np.ones(target.inputs))
    claim = Claim(target, domain, [Share("approximation", "by hand", error)])
    return Construction(model, claim, Witness(held), "by hand")


def placed(width: int, *parts: tuple[int, np.ndarray]) -> np.ndarray:
    """Matrices side by side, each from its own column on, among zeros."""
    rows = np.zeros((len(parts[0][1]), width))
    for start, part in parts:
        rows[:, start : start + part.shape[1]] += part
    return rows


class Residual:
    """h <- h + B relu(A h + a), block after block, and w . (x + h) at the end."""

    def __init__(self, seed: int, inputs: int, hidden: int, blocks: int) -> None:
        rng = np.random.default_rng(seed)
        self.inputs, self.hidden = inputs, hidden
        self.blocks = [
            (dyadic(rng, hidden, inputs), dyadic(rng, hidden), dyadic(rng, inputs, hidden) / 4)
            for _ in range(blocks)
        ]
        self.last = dyadic(rng, 1, inputs)
        self.steps: list[Step] = []
        self.rectified: list[int] = []  # the value of each block's rectifiers ...
        self.sums: list[int] = [0]  # ... and of what the skip connection adds up
        for inner, bias, outer in self.blocks:
            self._add(Affine((self.sums[-1],), inner, bias))
            self.rectified.append(self._add(Univariate((len(self.steps),), "relu", hidden)))
            both = np.hstack([np.eye(inputs), outer])
            sources = (self.sums[-1], self.rectified[-1])
            self.sums.append(self._add(Affine(sources, both, np.zeros(inputs))))
        self._add(Affine((0, self.sums[-1]), np.hstack([self.last, self.last]), np.zeros(1)))

    def _add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps)

    def by_units(self) -> Construction:
        """Rectifiers wait in a place of their own, which the next layer adds and clears."""
        d, k = self.inputs, self.hidden
        width, eye = 2 * d + k, np.eye(k)
        layers: list[Sublayer] = []
        held = []
        for number, (inner, bias, outer) in enumerate(self.blocks):
            read = placed(width, (d, inner))
            layers.append(FeedForward(read, bias, placed(width, (2 * d, eye)).T, np.zeros(width)))
            moves = placed(width, (d, outer.T), (2 * d, -eye)).T
            waiting = placed(width, (2 * d, eye))
            layers.append(FeedForward(waiting, np.zeros(k), moves, np.zeros(width)))
            for sublayer, start, value, size in (
                (2 * number, 2 * d, self.rectified[number], k),
                (2 * number + 1, d, self.sums[number + 1], d),
            ):
                rows = np.arange(size)
                held.append(Holding(sublayer, 0, start + rows, value, rows, EXACTLY))
        maps = placed(width, (0, np.eye(d)), (d, np.eye(d))).T[None]
        readout = ReadOut(placed(width, (0, self.last), (d, self.last)), [0.0], 0)
        model = Transformer(VectorInput(maps, np.zeros((1, width))), layers, readout)
        return promised(model, self.steps, held, 1e-9)

    def by_heads(self, coldness: float) -> Construction:
        """Every unit a soft head over the sink, where all is 0, and the token itself."""
        d, width = self.inputs, 2 * self.inputs + 2
        one, flag = width - 2, width - 1  # everywhere; at the token that holds x
        layers: list[Sublayer] = []
        held = []
        error = 0.0
        for number, (inner, bias, outer) in enumerate(self.blocks):
            heads = []
            for row, offset, column in zip(inner, bias, outer.T, strict=True):
                value = placed(width, (d, row[None]), (flag, np.array([[offset]])))
                ask = placed(width, (one, np.ones((1, 1))))
                write = placed(width, (d, column[None])).T
                heads.append(Head(ask, value, value, write, Softmax(coldness), causal=True))
            layers.append(Attention(heads))
            grown = 1.0 + (np.abs(outer) @ np.abs(inner).sum(axis=1)).max()
            fresh = np.abs(outer).sum(axis=1).max() * softmax_gap(2) / coldness
            error = grown * error + fresh + 1e-14
            rows = np.arange(d)
            held.append(Holding(number, 1, d + rows, self.sums[number + 1], rows, error))
        maps = np.stack([np.zeros((width, d)), placed(width, (0, np.eye(d)), (d, np.eye(d))).T])
        offsets = np.zeros((2, width))
        offsets[:, one], offsets[1, flag] = 1.0, 1.0
        readout = ReadOut(placed(width, (0, self.last), (d, self.last)), [0.0], 1)
        model = Transformer(VectorInput(maps, offsets), layers, readout)
        return promised(model, self.steps, held, float(np.abs(self.last).sum() * error) + 1e-9)


def pooling(seed: int, inputs: int) -> Construction:
    """Of y = |max(x, relu(A x + a))|, the largest of each three of x + y, by hidden units."""
    rng, d, m = np.random.default_rng(seed), inputs, inputs // 3
    inner, bias, last = dyadic(rng, d, d), dyadic(rng, d), dyadic(rng, 1, m)
    eye, every = np.eye(d), np.arange(d)
    steps: list[Step] = [
        Affine((0,), inner, bias),
        Univariate((1,), "relu", d),
        Maximum((0, 2), np.stack([every, d + every], axis=1)),
        Univariate((3,), "abs", d),
        Affine((0, 4), np.hstack([eye, eye]), np.zeros(d)),
        Maximum((5,), every.reshape(m, 3)),
        Affine((6,), last, np.zeros(1)),
    ]
    x, f, y, z, p, width = 0, d, 2 * d, 3 * d, 4 * d, 4 * d + m
    first, second, third = (eye[j::3] for j in range(3))

    def layer(write: int, *units: tuple[float, np.ndarray], bias: np.ndarray | None = None):
        """Add sign * relu(...) of all units to the coordinates from `write` on."""
        read = np.vstack([rows for _, rows in units])
        to = placed(width, (write, np.eye(len(units[0][1])))).T
        out = np.hstack([sign * to for sign, _ in units])
        return FeedForward(
            read, np.zeros(len(read)) if bias is None else bias, out, np.zeros(width)
        )

    def both(start: int, rows: np.ndarray) -> list[tuple[float, np.ndarray]]:
        """The number itself: relu(v) - relu(-v)."""
        return [(1.0, placed(width, (start, rows))), (-1.0, placed(width, (start, -rows)))]

    layers = [
        layer(f, (1.0, placed(width, (x, inner))), bias=bias),
        layer(y, (1.0, placed(width, (f, eye), (x, -eye))), *both(x, eye)),
        layer(z, *both(x, eye), *((1.0, rows) for _, rows in both(y, eye))),
        layer(p, (1.0, placed(width, (z, second - first))), *both(z, first)),
        layer(p, (1.0, placed(width, (z, third), (p, -np.eye(m))))),
    ]
    held = [
        Holding(sublayer, 0, start + np.arange(size), value, np.arange(size), EXACTLY)
        for sublayer, start, size, value in ((0, f, d, 2), (1, y, d, 3), (2, z, d, 5), (4, p, m, 6))
    ]
    maps = placed(width, (x, eye)).T[None]
    readout = ReadOut(placed(width, (p, last)), [0.0], 0)
    model = Transformer(VectorInput(maps, np.zeros((1, width))), layers, readout)
    return promised(model, steps, held, 1e-9)


def measured(construction: Construction) -> float:
    points = construction.claim.domain.sample(400, np.random.default_rng(1))
    return float(np.abs(construction(points) - construction.claim.target(points)).max())


def validated(construction: Construction) -> float:
    return validate(construction, Clock(Budget.of("2e7 work")))[0]


@pytest.mark.parametrize(("inputs", "hidden", "blocks"), [(2, 3, 2), (3, 5, 3), (9, 7, 2)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_residual_network_of_hidden_units_is_exact_step_by_step(seed, inputs, hidden, blocks):
    """In two dimensions a row once had names for its sum that the target did not know."""
    construction = Residual(seed, inputs, hidden, blocks).by_units()
    assert measured(construction) <= 1e-12
    assert validated(construction) <= 1e-12
    assert certify(construction, budget="2e7 work").verdict is Verdict.PROVED


@pytest.mark.parametrize(("inputs", "hidden", "blocks"), [(2, 3, 3), (9, 6, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_residual_network_of_soft_heads_is_proved_by_steps(seed, inputs, hidden, blocks):
    construction = Residual(seed, inputs, hidden, blocks).by_heads(2.0**14)
    certificate = certify(construction, budget="2e7 work")
    assert (certificate.verdict, certificate.method) == (Verdict.PROVED, "steps")
    assert measured(construction) <= validated(construction) <= construction.claim.error


@pytest.mark.parametrize("inputs", [3, 9])
def test_maxima_over_groups_of_several_values_are_proved_by_steps(inputs):
    construction = pooling(0, inputs)
    certificate = certify(construction, budget="2e7 work")
    assert (certificate.verdict, certificate.method) == (Verdict.PROVED, "steps")
    assert validated(construction) <= 1e-12


@pytest.mark.parametrize("make", [lambda: Residual(0, 9, 5, 2).by_units(), lambda: pooling(0, 9)])
def test_a_weight_of_a_residual_network_that_is_not_the_targets_is_found(make):
    construction = make()
    sublayers = list(construction.transformer.sublayers)
    last = sublayers[-1]
    assert isinstance(last, FeedForward)
    outer = last.outer.copy()
    row, unit = np.argwhere(outer)[0]
    outer[row, unit] += 2.0**-10
    sublayers[-1] = replace(last, outer=outer)
    wrong = replace(
        construction, transformer=replace(construction.transformer, sublayers=sublayers)
    )
    with pytest.raises(Rejected):
        validated(wrong)
    assert certify(wrong, budget="2e7 work").verdict is not Verdict.PROVED


def test_the_bound_covers_weights_that_are_off_by_less_than_is_stated():
    """A witness that allows for it is verified, and what it says is at least what is attained."""
    construction = Residual(0, 9, 5, 2).by_units()
    sublayers = list(construction.transformer.sublayers)
    for number in (1, 3):
        layer = sublayers[number]
        assert isinstance(layer, FeedForward)
        noise = 1e-4 * (layer.outer != 0.0) * (np.arange(len(layer.outer)) < 18)[:, None]
        sublayers[number] = replace(layer, outer=layer.outer + noise)
    model = replace(construction.transformer, sublayers=sublayers)
    held = [replace(holding, errors=0.1) for holding in construction.witness.holdings]
    off = replace(construction, transformer=model, witness=Witness(held))
    points = construction.claim.domain.sample(400, np.random.default_rng(1))
    attained = np.abs(evaluate(model, points) - construction.claim.target(points)).max()
    assert 1e-5 < attained <= validated(off) <= 0.1
