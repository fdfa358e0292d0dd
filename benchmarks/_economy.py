"""What solving for the coldness saves, against a product of norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._coldness import softened
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import DOMAIN, ERROR, small_networks
from hardmax.core import count_bill, evaluate
from hardmax.lowering import routes_for
from hardmax.numerics import softmax_gap


def economy(settings: Settings) -> Report:
    """The largest logit, and the error measured, of both choices of coldness."""
    runs = [
        _run(name, network, route, seed, settings.points)
        for seed in range(settings.seeds)
        for name, network in small_networks(seed).items()
        for route in routes_for(network)
        if route != "feedforward"
    ]
    sheet = Sheet(
        settings.command("economy"),
        f"Largest logit at error {ERROR:g}: one coldness for all heads from the product of norms, "
        "sum_l c_n/beta prod Lip, uncentred; and ours.\nRequired: ours is no larger. Medians over "
        f"{settings.seeds} seeds; every error asked is {ERROR:g}.",
        *("·network", "·route", "coldness of norms", "its logit", "it measures"),
        *("our logit", "it measures", "saved", "least … most", "·"),
    )
    checks = []
    for name, route in dict.fromkeys((run["network"], run["route"]) for run in runs):
        group = [run for run in runs if (run["network"], run["route"]) == (name, route)]
        saved = [run["saved"] for run in group]
        what = f"{name}, {route}: the largest logit is {min(saved):.2f} times smaller"
        checks.append(Check(what, min(saved) >= 1))
        sheet.table.add_row(*_row(name, route, group), checks[-1].mark)
    return Report([sheet], checks, {"runs": runs})


def norms_coldness(network: hm.ReluNetwork | hm.MaxoutNetwork) -> float:
    """The coldness at which sum_l e_l prod_{l' > l} Lip_l' is the error, e_l = c_n/beta.

    In the sup norm a layer's Lipschitz constant is the largest 1-norm of a row (of any piece). A
    ReLU layer l errs before the affine layer l + 1, a maxout layer after its own.
    """
    norms = [float(np.abs(W).sum(axis=-1).max()) for W in network.weights]
    if isinstance(network, hm.ReluNetwork):
        after = [math.prod(norms[depth + 1 :]) for depth in range(len(norms) - 1)]
        return sum(softmax_gap(2) * factor for factor in after) / ERROR
    after = [math.prod(norms[depth + 1 :]) for depth in range(len(norms))]
    gaps = [softmax_gap(rank) for rank in network.ranks]
    return sum(gap * factor for gap, factor in zip(gaps, after, strict=True)) / ERROR


def _run(name: str, network: Any, route: str, seed: int, points: int) -> dict[str, Any]:
    beta = norms_coldness(network)
    hard = hm.compile(network, on=DOMAIN, error=None, route=route)
    ours = hm.compile(network, on=DOMAIN, error=ERROR, route=route)
    naive = softened(hard, beta)
    x = hard.claim.domain.sample(points, np.random.default_rng(seed))
    logit = count_bill(naive, hard.claim.domain).largest_logit
    return {
        "network": name,
        "route": route,
        "seed": seed,
        "norms_coldness": beta,
        "norms_logit": logit,
        "norms_measured": float(np.abs(evaluate(naive, x) - network(x)).max()),
        "our_logit": ours.bill.largest_logit,
        "our_measured": float(np.abs(ours(x) - network(x)).max()),
        "saved": logit / ours.bill.largest_logit,
    }


def _row(name: str, route: str, group: list[dict[str, Any]]) -> tuple[str, ...]:
    def middle(key: str) -> float:
        return float(np.median([run[key] for run in group]))

    saved = [run["saved"] for run in group]
    return (
        name,
        route,
        f"{middle('norms_coldness'):,.0f}",
        f"{middle('norms_logit'):,.0f}",
        f"{middle('norms_measured'):.2e}",
        f"{middle('our_logit'):,.0f}",
        f"{middle('our_measured'):.2e}",
        f"{middle('saved'):.2f}",
        f"{min(saved):.2f} … {max(saved):.2f}",
    )
