"""Compiling and running 64-256-256-10, against the network itself in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._measure import interleaved_medians, threads
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import DOMAIN, ERROR, large_network
from hardmax.analysis import rounding_bound
from hardmax.lowering import routes_for

BATCH = 10_000
COMPILE_LIMIT = 2.0  # CPU seconds, attention-only
RUN_LIMIT = 10.0  # times the network's own
DTYPES = ("float64", "float32")


def speed(settings: Settings) -> Report:
    """Compile time, running time, and how far PyTorch and NumPy are apart."""
    network = large_network()
    routes = {route: _compiler(network, route) for route in routes_for(network)}
    compile_times = interleaved_medians(routes, 3)
    constructions = {route: compiler() for route, compiler in routes.items()}
    rng = np.random.default_rng(0)
    # Numbers that float32 holds too, so that every evaluation starts from the same input.
    x = rng.uniform(*DOMAIN, size=(BATCH, network.inputs)).astype(np.float32).astype(np.float64)
    reports = [
        _compiling(settings, compile_times, constructions),
        _running(settings, network, constructions, x),
    ]
    try:
        reports.append(_agreement(settings, constructions, x))
    except hm.MissingExtra as reason:
        reports[-1].notes.append(f"The PyTorch columns were skipped: {reason}")
    return Report(
        [sheet for report in reports for sheet in report.sheets],
        [check for report in reports for check in report.checks],
        {key: value for report in reports for key, value in report.record.items()},
        [note for report in reports for note in report.notes],
    )


def _compiler(network: hm.ReluNetwork, route: str) -> Callable[[], hm.Construction]:
    return lambda: hm.compile(network, on=DOMAIN, error=ERROR, route=route)


def _compiling(
    settings: Settings, seconds: dict[str, float], constructions: dict[str, hm.Construction]
) -> Report:
    sheet = Sheet(
        settings.command("speed"),
        f"Required: compiling 64-256-256-10 attention-only takes less than {COMPILE_LIMIT:g} s of "
        f"CPU. The median of 3, on {threads()}.",
        *("·route", "heads", "nonzero", "largest logit", "claimed", "CPU s", "limit", "·"),
    )
    checks = []
    for route, construction in constructions.items():
        bill, limited = construction.bill, route == "attention-only"
        what = f"compiling 64-256-256-10 {route}: {seconds[route]:.2f} s of CPU"
        check = Check(what, not limited or seconds[route] < COMPILE_LIMIT, timed=True)
        checks += [check] * limited
        sheet.table.add_row(
            route,
            str(bill.heads),
            f"{bill.nonzero_parameters / bill.source_parameters:.3f}",
            f"{bill.largest_logit:,.0f}",
            f"{construction.claim.error:.3e}",
            f"{seconds[route]:.2f}",
            f"{COMPILE_LIMIT:g}" if limited else "",
            check.mark if limited else "",
        )
    return Report([sheet], checks, {"compile_cpu_seconds": seconds})


def _running(
    settings: Settings,
    network: hm.ReluNetwork,
    constructions: dict[str, hm.Construction],
    x: np.ndarray,
) -> Report:
    calls: dict[str, Callable[[], object]] = {"source": lambda: network(x)}
    for route, construction in constructions.items():
        calls[route] = lambda construction=construction: construction(x)
    seconds = interleaved_medians(calls, settings.rounds)
    seconds |= interleaved_medians(_torch_calls(constructions, x), settings.rounds // 2)
    sheet = Sheet(
        settings.command("speed"),
        f"Required: a batch of {BATCH:,} inputs takes a soft Transformer at most {RUN_LIMIT:g} "
        f"times the source network in NumPy, {seconds['source']:.3f} s of CPU.\nThe median of "
        f"{settings.rounds}, interleaved; the PyTorch module beside it, the median of "
        f"{settings.rounds // 2}; on {threads()}.",
        *("·route", "NumPy s", "times", "limit", "torch float64 s", "times"),
        *("torch float32 s", "times", "·"),
    )
    checks = []
    for route, construction in constructions.items():
        ratio, soft = seconds[route] / seconds["source"], bool(construction.bill.heads)
        what = f"running 64-256-256-10 {route}: {ratio:.1f} times the source, at most {RUN_LIMIT:g}"
        check = Check(what, not soft or ratio <= RUN_LIMIT, timed=True)
        checks += [check] * soft
        beside = [_times(seconds, f"{route}, {dtype}") for dtype in DTYPES]
        limit, mark = (f"{RUN_LIMIT:g}", check.mark) if soft else ("", "")
        sheet.table.add_row(route, *_times(seconds, route), limit, *beside[0], *beside[1], mark)
    return Report([sheet], checks, {"run_cpu_seconds": seconds})


def _times(seconds: dict[str, float], name: str) -> tuple[str, str]:
    if name not in seconds:
        return "", ""
    return f"{seconds[name]:.3f}", f"{seconds[name] / seconds['source']:.1f}"


def _torch_calls(
    constructions: dict[str, hm.Construction], x: np.ndarray
) -> dict[str, Callable[[], object]]:
    """The PyTorch modules on the batch; none if PyTorch is not installed."""
    calls: dict[str, Callable[[], object]] = {}
    for route, construction in constructions.items():
        for dtype in DTYPES:
            try:
                run = _torch_runner(construction, dtype)
            except hm.MissingExtra:
                return {}
            calls[f"{route}, {dtype}"] = lambda run=run: run(x)
    return calls


def _torch_runner(construction: hm.Construction, dtype: str) -> Callable[[np.ndarray], np.ndarray]:
    module = hm.interop.write_torch(construction, dtype)
    import torch

    def run(x: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return module(torch.from_numpy(x).to(getattr(torch, dtype))).double().numpy()

    return run


def _agreement(
    settings: Settings, constructions: dict[str, hm.Construction], x: np.ndarray
) -> Report:
    sheet = Sheet(
        settings.command("speed"),
        f"Required: PyTorch and the NumPy evaluator differ on {BATCH:,} inputs by at most the "
        "rounding bounds of both evaluations together.",
        *("·route", "·dtype", "largest difference", "bound", "bound/difference", "·"),
    )
    checks: list[Check] = []
    record: list[dict[str, Any]] = []
    for route, construction in constructions.items():
        transformer, domain = construction.transformer, construction.claim.domain
        values, own = construction(x), rounding_bound(transformer, domain, "float64")
        for dtype in DTYPES:
            bounds = own + rounding_bound(transformer, domain, dtype)
            apart = np.abs(_torch_runner(construction, dtype)(x) - values).max(axis=0)
            worst, bound = float(apart.max()), float(bounds.max())
            what = f"{route} in torch {dtype}: {worst:.2e} from NumPy, bound {bound:.2e}"
            checks.append(Check(what, bool((apart <= bounds).all())))
            slack = f"{bound / max(worst, 5e-324):.3g}"
            sheet.table.add_row(
                route, dtype, f"{worst:.2e}", f"{bound:.2e}", slack, checks[-1].mark
            )
            row = {"route": route, "dtype": dtype, "difference": worst, "bound": bound}
            record.append(row)
    return Report([sheet], checks, {"torch_against_numpy": record})
