"""Corruptions of what is promised: the claim and its target, and the witness behind them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from hardmax.core import Box, Claim, Construction, Holding, Share, Witness
from hardmax.languages import (
    Function,
    MaxAffine,
    MaxoutNetwork,
    PiecewiseLinear,
    ReluNetwork,
    log,
    sqrt,
    variable,
)
from hardmax.testing._search import worst_points

_ROUNDING = 1e-8  # errors below this, relative to the values, may be rounding

Rng = np.random.Generator
Changed = tuple[Construction, str] | None


# ---- claims ------------------------------------------------------------------------------------


def _claiming(
    construction: Construction,
    *,
    target: Any = None,
    domain: Box | None = None,
    ledger: Iterable[Share] | None = None,
) -> Construction:
    claim = construction.claim
    changed = Claim(
        claim.target if target is None else target,
        claim.domain if domain is None else domain,
        claim.ledger if ledger is None else ledger,
    )
    return replace(construction, claim=changed)


def claim_tightened(construction: Construction, rng: Rng) -> Changed:
    factor = float(rng.choice([rng.uniform(0.05, 0.95), rng.uniform(0.9, 0.999)]))
    ledger = [replace(share, amount=share.amount * factor) for share in construction.claim.ledger]
    return _claiming(construction, ledger=ledger), f"claim times {factor:.4g}"


def claim_refitted(construction: Construction, rng: Rng) -> Changed:
    """A claim just below an error that is attained: false by a hair, and hard to refute."""
    (_, attained), *_ = worst_points(construction)
    scale = float(
        np.abs(construction.claim.target(construction.claim.domain.interval.middle)).max()
    )
    if not _ROUNDING * (1.0 + scale) < attained < np.inf:
        return None
    less = 10.0 ** rng.uniform(-6.0, -1.5)
    ledger = [Share("approximation", "what is attained", attained * (1.0 - less))]
    return _claiming(construction, ledger=ledger), f"claim {less:.3g} below what is attained"


def domain_widened(construction: Construction, rng: Rng) -> Changed:
    box = construction.claim.domain
    i, share = int(rng.integers(box.dimension)), 10.0 ** rng.uniform(-3.0, 0.3)
    low, high = np.array(box.low), np.array(box.high)
    by = share * (high[i] - low[i])
    if rng.random() < 0.5:
        low[i] -= by
    else:
        high[i] += by
    return _claiming(construction, domain=Box(low, high)), f"domain widened by {by:.4g} in {i}"


def target_altered(construction: Construction, rng: Rng) -> Changed:
    """Another function of the same shape: shifted, scaled, or with one number changed."""
    target = construction.claim.target
    size = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-5.0, 0.0)
    changed: Any
    match target:
        case Function():
            changed, how = _function_altered(target, float(size), rng)
        case ReluNetwork() | MaxoutNetwork():
            layer = int(rng.integers(len(target.weights)))
            weights = [np.array(W) for W in target.weights]
            _nudge(weights[layer], float(size), rng)
            changed, how = type(target)(weights, target.biases), f"a weight of layer {layer}"
        case PiecewiseLinear():
            plus = np.array(target.plus.weights)
            _nudge(plus, float(size), rng)
            how = "a slope of plus"
            changed = PiecewiseLinear(MaxAffine(plus, target.plus.biases), target.minus)
        case MaxAffine():
            biases = np.array(target.biases)
            _nudge(biases, float(size), rng)
            changed, how = MaxAffine(target.weights, biases), "a bias"
        case _:
            return None
    return _claiming(construction, target=changed), f"target: {how} moved by {size:.4g}"


def target_with_a_hole(construction: Construction, rng: Rng) -> Changed:
    """The same function but for a crumb that is not defined on a part of the domain."""
    target, box = construction.claim.target, construction.claim.domain
    if not isinstance(target, Function):
        return None
    i = int(rng.integers(target.inputs))
    share = float(rng.choice([rng.uniform(0.05, 0.95), 10.0 ** rng.uniform(-2.5, -1.0)]))
    at = float(box.low[i] + share * (box.high[i] - box.low[i]))
    inner = variable(target.variables[i]) - at
    crumb = 1e-9 * construction.claim.error
    hole = [sqrt(inner), log(inner), 1 / inner][int(rng.integers(3))]
    expressions = list(target.expressions)
    expressions[0] = expressions[0] + crumb * hole
    changed = Function(expressions, target.variables)
    return _claiming(construction, target=changed), f"target: {hole} added"


def _nudge(array: np.ndarray, size: float, rng: Rng) -> None:
    place = tuple(int(rng.integers(n)) for n in array.shape)
    array[place] += size


def _function_altered(target: Function, size: float, rng: Rng) -> tuple[Function, str]:
    expressions = list(target.expressions)
    i = int(rng.integers(len(expressions)))
    kind = str(rng.choice(["shift", "scale", "bend", "exchange"]))
    match kind:
        case "exchange" if target.inputs > 1:
            first, second, *rest = target.variables
            return Function(expressions, (second, first, *rest)), "two variables exchanged, none"
        case "shift":
            expressions[i] = expressions[i] + size
        case "scale":
            expressions[i] = expressions[i] * (1.0 + size)
        case _:
            expressions[i] = expressions[i] + size * variable(target.variables[0]) ** 2
    return Function(expressions, target.variables), f"output {i} ({kind})"


# ---- witnesses ---------------------------------------------------------------------------------


def _one_holding(
    construction: Construction,
    rng: Rng,
    change: Callable[[Holding], tuple[Holding, str] | None],
) -> Changed:
    witness = construction.witness
    if witness is None or not witness.holdings:
        return None
    index = int(rng.integers(len(witness.holdings)))
    changed = change(witness.holdings[index])
    if changed is None:
        return None
    held = Witness((*witness.holdings[:index], changed[0], *witness.holdings[index + 1 :]))
    return replace(construction, witness=held), f"holding {index}: {changed[1]}"


def witness_error_shrunk(construction: Construction, rng: Rng) -> Changed:
    factor = float(rng.choice([0.0, 10.0 ** rng.uniform(-6.0, 0.0)]))

    def change(held: Holding) -> tuple[Holding, str]:
        return replace(held, errors=held.errors * factor), f"errors times {factor:.4g}"

    return _one_holding(construction, rng, change)


def witness_component_exchanged(construction: Construction, rng: Rng) -> Changed:
    def change(held: Holding) -> tuple[Holding, str] | None:
        if len(held.components) < 2:
            return None
        components = np.array(held.components)
        i, j = rng.choice(len(components), 2, replace=False)
        components[[i, j]] = components[[j, i]]
        return replace(held, components=components), f"components {i} and {j} exchanged"

    return _one_holding(construction, rng, change)


def witness_coordinate_changed(construction: Construction, rng: Rng) -> Changed:
    width = construction.transformer.width

    def change(held: Holding) -> tuple[Holding, str] | None:
        if not len(held.coordinates):
            return None
        coordinates = np.array(held.coordinates)
        i, to = int(rng.integers(len(coordinates))), int(rng.integers(width))
        before, coordinates[i] = int(coordinates[i]), to
        return replace(held, coordinates=coordinates), f"coordinate {before} -> {to}"

    return _one_holding(construction, rng, change)


def witness_weights_changed(construction: Construction, rng: Rng) -> Changed:
    by = rng.choice([-1, 1]) * 10.0 ** rng.uniform(-3.0, 0.5)

    def change(held: Holding) -> tuple[Holding, str] | None:
        if held.weights is None or held.constants is None:
            return None
        if rng.random() < 0.3 or not held.weights.size:
            constants = np.array(held.constants)
            _nudge(constants, by, rng)
            return replace(held, constants=constants), f"a constant moved by {by:.4g}"
        weights = np.array(held.weights)
        _nudge(weights, by, rng)
        return replace(held, weights=weights), f"a weight moved by {by:.4g}"

    return _one_holding(construction, rng, change)


def witness_value_changed(construction: Construction, rng: Rng) -> Changed:
    program = construction.claim.target.steps()
    values = 1 if program is None else len(program.steps) + 1

    def change(held: Holding) -> tuple[Holding, str]:
        to = int(rng.integers(values))
        return replace(held, value=to), f"value {held.value} -> {to}"

    return _one_holding(construction, rng, change)


def witness_place_changed(construction: Construction, rng: Rng) -> Changed:
    layers, tokens = len(construction.transformer.sublayers), construction.transformer.tokens

    def change(held: Holding) -> tuple[Holding, str]:
        if rng.random() < 0.5:
            to = int(rng.integers(-1, layers))
            return replace(held, sublayer=to), f"sublayer {held.sublayer} -> {to}"
        to = int(rng.integers(tokens))
        return replace(held, token=to), f"token {held.token} -> {to}"

    return _one_holding(construction, rng, change)
