"""Soft error against coldness: on extremal networks, where it is a theorem, and on random ones."""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._measure import loglog_slope, peak, points_beside_kinks
from benchmarks._plot import draw_coldness
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import DOMAIN, small_networks
from hardmax.core import evaluate
from hardmax.numerics import softmax_gap

CONTENDERS = (2, 3, 4, 8, 16, 64)
CLOSE = 0.01  # of the slope to -1, and of the constant to the theorem's, relatively
RELU = "ReLU neuron"


def coldness(settings: Settings) -> Report:
    """Tables, slopes and the plot."""
    betas = np.array(settings.coldnesses)
    extremal = extremal_curves(betas)
    networks = _random_curves(settings, betas)
    checks = [check for name, curve in extremal.items() for check in _checks(name, curve)]
    sheets = [
        _neuron_sheet(settings, betas, extremal[RELU]),
        _maxima_sheet(settings, betas, extremal),
        _networks_sheet(settings, betas, networks),
    ]
    record = {"coldness": betas.tolist(), "extremal": extremal, "random": networks}
    try:
        drawn = draw_coldness(betas, extremal, networks, settings.out)
        notes = [f"Drawn: {', '.join(str(path) for path in drawn)}"]
    except hm.MissingExtra as reason:
        notes = [f"The plot was skipped: {reason}"]
    return Report(sheets, checks, record, notes)


def extremal_curves(betas: np.ndarray) -> dict[str, dict[str, Any]]:
    """The neuron and the maxima whose largest errors the theorem states exactly."""
    neuron = hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]])
    hard = hm.compile(neuron, on=DOMAIN, error=None, route="attention-only")
    curves = {RELU: _curve(betas, [rectifier_error(hard, beta) for beta in betas], 2)}
    for n in CONTENDERS:
        function = hm.MaxAffine(np.eye(n), np.zeros(n))
        hard = hm.compile(function, on=DOMAIN, error=None, route="attention")
        errors = [maximum_error(hard, beta) for beta in betas]
        curves[f"max of {n}"] = _curve(betas, errors, n)
    return curves


def softened(hard: hm.Construction, beta: float) -> hm.Transformer:
    """The same weights, every head at one coldness: uncentred, and not what `compile` chooses."""
    return hard.transformer.with_weightings(repeat(hm.Softmax(beta)))


def rectifier_error(hard: hm.Construction, beta: float) -> float:
    """The largest error of relu(x) on [-1,1] by one head of this coldness.

    The theorem puts it at |x| = (1 + W(1/e))/beta; the search knows nothing of that.
    """
    soft = softened(hard, beta)

    def error(z: np.ndarray) -> np.ndarray:
        x = np.stack([z, -z])
        values = evaluate(soft, x.reshape(-1, 1)).reshape(x.shape)
        return np.abs(np.maximum(x, 0.0) - values).max(axis=0)

    return peak(error, 1e-3 / beta, 1.0)[0]


def maximum_error(hard: hm.Construction, beta: float) -> float:
    """The largest error found of max(x_1 ... x_n) on [-1,1]^n by one head of this coldness.

    The winner sits at 0. Losers all at one distance are searched for the worst distance; losers
    at independent distances, 4,000 draws around it, must not do worse, and count if they do.
    """
    n, soft = hard.claim.target.inputs, softened(hard, beta)

    def error(behind: np.ndarray) -> np.ndarray:
        x = np.zeros((len(behind), n))
        x[:, 1:] = -behind
        return np.abs(evaluate(soft, x)[:, 0])

    worst, at = peak(lambda t: error(t[:, None]), 1e-3 / beta, 1.0)
    spread = np.random.default_rng(n).lognormal(0.0, 0.5, size=(4000, n - 1))
    return max(worst, float(error(np.minimum(at * spread, 1.0)).max()))


def _curve(betas: np.ndarray, errors: list[float], n: int) -> dict[str, Any]:
    theorem = softmax_gap(n) / betas
    return {
        "contenders": n,
        "measured": list(errors),
        "theorem": theorem.tolist(),
        "ratio": (np.array(errors) / theorem).tolist(),
        "constant": float(np.median(np.array(errors) * betas)),
        "slope": loglog_slope(betas, np.array(errors)),
    }


def _checks(name: str, curve: dict[str, Any]) -> list[Check]:
    off = max(abs(ratio - 1) for ratio in curve["ratio"])
    return [
        Check(f"{name}: slope {curve['slope']:.6f}", abs(curve["slope"] + 1) <= CLOSE),
        Check(f"{name}: off the theorem's constant by {off:.1e}", off <= CLOSE),
    ]


def _random_curves(settings: Settings, betas: np.ndarray) -> dict[str, dict[str, Any]]:
    """All heads at one coldness; uniform points, and points beside the kinks."""
    curves: dict[str, dict[str, Any]] = {}
    for seed in range(settings.seeds):
        for name, network in small_networks(seed).items():
            route = "attention-only" if isinstance(network, hm.ReluNetwork) else "attention"
            hard = hm.compile(network, on=DOMAIN, error=None, route=route)
            errors = [_network_error(hard, beta, settings.points // 5, seed) for beta in betas]
            curves[f"{name}, seed {seed}"] = {
                "network": name,
                "measured": errors,
                "slope": loglog_slope(betas, np.array(errors)),
            }
    return curves


def _network_error(hard: hm.Construction, beta: float, points: int, seed: int) -> float:
    network: Any = hard.claim.target
    distance = (1 + softmax_gap(2)) / beta
    beside = points_beside_kinks(network, distance=distance, count=points // 4, seed=seed)
    uniform = hard.claim.domain.sample(points, np.random.default_rng(seed))
    x = np.concatenate([beside, uniform])
    return float(np.abs(evaluate(softened(hard, beta), x) - network(x)).max())


def _neuron_sheet(settings: Settings, betas: np.ndarray, curve: dict[str, Any]) -> Sheet:
    sheet = Sheet(
        settings.command("coldness"),
        "relu(x) on [-1,1], one head. Required: slope -1 and the constant of the theorem, "
        f"W(1/e) = {softmax_gap(2):.6f}, both within {CLOSE:.0%}.",
        *("coldness", "measured", "theorem", "measured/theorem"),
    )
    for row in zip(betas, curve["measured"], curve["theorem"], curve["ratio"], strict=True):
        beta, measured, theorem, ratio = row
        sheet.table.add_row(f"{beta:,.1f}", f"{measured:.6e}", f"{theorem:.6e}", f"{ratio:.9f}")
    sheet.table.add_section()
    slope, constant = _checks(RELU, curve)
    sheet.table.add_row("slope", f"{curve['slope']:.6f}", "-1", slope.mark)
    gap = f"{softmax_gap(2):.6f}"
    sheet.table.add_row("constant", f"{curve['constant']:.6f}", gap, constant.mark)
    return sheet


def _maxima_sheet(
    settings: Settings, betas: np.ndarray, extremal: dict[str, dict[str, Any]]
) -> Sheet:
    curves = {name: curve for name, curve in extremal.items() if name != RELU}
    sheet = Sheet(
        settings.command("coldness"),
        "max(x_1 ... x_n) on [-1,1]^n, one head. Required: slope -1 and the constant of the "
        f"theorem, W((n-1)/e), both within {CLOSE:.0%}.",
        *("coldness", *(f"n = {curve['contenders']}" for curve in curves.values())),
    )
    for i, beta in enumerate(betas):
        sheet.table.add_row(f"{beta:,.1f}", *(f"{c['measured'][i]:.6e}" for c in curves.values()))
    sheet.table.add_section()
    checks = [_checks(name, curve) for name, curve in curves.items()]
    rows = {
        "slope": [f"{c['slope']:.6f}" for c in curves.values()],
        "": [pair[0].mark for pair in checks],
        "constant": [f"{c['constant']:.6f}" for c in curves.values()],
        "theorem": [f"{softmax_gap(c['contenders']):.6f}" for c in curves.values()],
        "worst ratio": [f"{max(c['ratio'], key=_from_one):.9f}" for c in curves.values()],
        " ": [pair[1].mark for pair in checks],
    }
    for name, cells in rows.items():
        sheet.table.add_row(name, *cells)
    return sheet


def _from_one(ratio: float) -> float:
    return abs(ratio - 1)


def _networks_sheet(
    settings: Settings, betas: np.ndarray, curves: dict[str, dict[str, Any]]
) -> Sheet:
    names = list(dict.fromkeys(curve["network"] for curve in curves.values()))
    sheet = Sheet(
        settings.command("coldness"),
        "Random networks, every head at one coldness, uncentred: the largest error over "
        f"{settings.seeds} seeds, on {settings.points // 5:,} uniform points\nand on points "
        "beside the kinks. Nothing is required: a sampled error is a lower bound, and many units "
        "err at once while the coldness is small.",
        *("coldness", *(f"{name}\n{what}" for name in names for what in ("error", "times beta"))),
    )
    worst = {
        name: np.max([c["measured"] for c in curves.values() if c["network"] == name], axis=0)
        for name in names
    }
    for i, beta in enumerate(betas):
        cells = [(f"{worst[n][i]:.3e}", f"{worst[n][i] * beta:.3f}") for n in names]
        sheet.table.add_row(f"{beta:,.1f}", *(cell for pair in cells for cell in pair))
    sheet.table.add_section()
    cold = betas >= 1e4
    for label, part in (("slope", betas > 0), ("slope, beta >= 10^4", cold)):
        slopes = [f"{loglog_slope(betas[part], worst[name][part]):.4f}" for name in names]
        sheet.table.add_row(label, *(cell for slope in slopes for cell in (slope, "")))
    return sheet
