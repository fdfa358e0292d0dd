"""Modules of PyTorch against the source network in PyTorch, and programs with and without hooks.

    python -m benchmarks.torch_modules                    everything
    python -m benchmarks.torch_modules --only networks    one part: networks, programs
    python -m benchmarks.torch_modules --quick            fewer repetitions, no batch of 10,000

CPU times are medians over rounds in which every module has its turn, so that ratios survive a busy
machine. Exit code 0: times are flagged in the tables but never decide.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

import hardmax as hm
from benchmarks._driver import Part, parse, run
from benchmarks._measure import interleaved_medians
from benchmarks._report import Check, Report, Settings, Sheet
from benchmarks._sources import DOMAIN, ERROR, large_network, random_relu

if TYPE_CHECKING:
    import torch

LIMIT = 2.5  # times the source network in PyTorch, 64-256-256-10
LARGE = "64-256-256-10"
BATCHES = (1, 100, 1000, 10_000)
FROM = 100  # inputs at once; of a single one calls of PyTorch are the time, which is shown
ROUTES = ("attention", "attention-only")
DTYPES = ("float32", "float64")
PROGRAMS = ("sort", "reverse", "histogram")
LENGTH, WORDS = 20, 256


def networks(settings: Settings) -> Report:
    """The source, the stack (fold=False) and what `write_torch` returns."""
    import torch

    sheet = Sheet(
        _command(settings, "networks"),
        f"Required: the module of {LARGE} takes at most {LIMIT:g} times the network in PyTorch, "
        f"from batches of {FROM} on, on one thread.\nMicroseconds of CPU, medians; the stack is "
        f"fold=False, once.",
        *("·network", "·dtype", "threads", "batch", "source µs"),
        *(f"{route}{form}" for route in ROUTES for form in ("", ", stack")),
        "·",
    )
    checks: list[Check] = []
    record = []
    sources = {LARGE: large_network(), "8-32-32-1": random_relu(0, 8, 32, 32, 1)}
    sources["2-16-16-1"] = random_relu(0, 2, 16, 16, 1)
    made = {  # once: compiling takes longer than all that is measured
        name: {r: hm.compile(one, on=DOMAIN, error=ERROR, route=r) for r in ROUTES}
        for name, one in sources.items()
    }
    before = torch.get_num_threads()
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for name, source in sources.items():
            for dtype in DTYPES:
                for batch in BATCHES[: -1 if settings.quick else None]:
                    stack = threads == 1 and batch <= 1000
                    calls = _calls(source, made[name], dtype, batch, stack=stack)
                    seconds = interleaved_medians(calls, 5 if batch < BATCHES[-1] else 3)
                    row, check = _row(name, dtype, threads, batch, seconds)
                    sheet.table.add_row(*row)
                    checks += check
                    record.append([name, dtype, threads, batch, seconds])
    torch.set_num_threads(before)
    return Report([sheet], checks, {"networks": record})


def _calls(
    source: hm.ReluNetwork,
    made: dict[str, hm.Construction],
    dtype: str,
    batch: int,
    *,
    stack: bool,
) -> dict[str, Callable[[], object]]:
    """What is measured, by name; enough calls in one turn to see a time."""
    import torch

    x = torch.from_numpy(np.random.default_rng(0).uniform(*DOMAIN, size=(batch, source.inputs)))
    x = x.to(getattr(torch, dtype))
    modules = {"source": _source(source, dtype)}
    for route, construction in made.items():
        modules[route] = hm.interop.write_torch(construction, dtype)
        if stack:
            modules[f"{route}, stack"] = hm.interop.write_torch(construction, dtype, fold=False)
    times = max(1, 100 // batch)

    def call(module: torch.nn.Module) -> Callable[[], None]:
        def repeated() -> None:
            with torch.no_grad():
                for _ in range(times):
                    module(x)

        return repeated

    return {name: call(module) for name, module in modules.items()}


def _source(source: hm.ReluNetwork, dtype: str) -> torch.nn.Module:
    """The network itself."""
    import torch

    layers: list[torch.nn.Module] = []
    for weights, bias in zip(source.weights, source.biases, strict=True):
        layer = torch.nn.Linear(weights.shape[1], weights.shape[0])
        layer.weight.data, layer.bias.data = torch.tensor(weights), torch.tensor(bias)
        layers += [layer, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1]).to(getattr(torch, dtype))


def _row(
    name: str, dtype: str, threads: int, batch: int, seconds: dict[str, float]
) -> tuple[list[str], list[Check]]:
    times = {form: spent / seconds["source"] for form, spent in seconds.items()}
    limited = name == LARGE and batch >= FROM and threads == 1
    what = f"{name} in {dtype}, batch {batch:,}"
    checks = [
        Check(f"{what}: {route} {times[route]:.2f} times the source, at most {LIMIT:g}", met, True)
        for route in ROUTES * limited
        for met in [times[route] <= LIMIT]
    ]
    micro = 1e6 * seconds["source"] / max(1, 100 // batch)
    forms = [f"{route}{form}" for route in ROUTES for form in ("", ", stack")]
    shown = [f"{times[form]:.2f}" if form in times else "" for form in forms]
    marks = ", ".join(check.mark for check in checks)
    return [name, dtype, str(threads), f"{batch:,}", f"{micro:,.0f}", *shown, marks], checks


def programs(settings: Settings) -> Report:
    """Programs run as stacks: with fused attention, and with every pattern looked at."""
    import torch

    sheet = Sheet(
        _command(settings, "programs"),
        f"{WORDS} words of {LENGTH} symbols out of 10, milliseconds of CPU, medians, one thread.",
        *("·program", "·dtype", "forward", "with all patterns", "wrong words"),
    )
    record, before = [], torch.get_num_threads()
    checks = []
    torch.set_num_threads(1)
    for name in PROGRAMS:
        construction = hm.compile(getattr(hm.programs, name), alphabet="abcdefghij", length=LENGTH)
        words = construction.claim.domain.sample(2 * WORDS, np.random.default_rng(0))
        words = [list(word) for word in words if len(word) == LENGTH][:WORDS]
        meant = [construction.claim.target.program(word) for word in words]
        for dtype in DTYPES:
            module = hm.interop.write_torch(construction, dtype)
            ids = module.encode(words)
            with torch.no_grad():
                calls = {"forward": lambda m=module, x=ids: m(x)}
                calls["patterns"] = lambda m=module, x=ids: m.patterns(x)
                seconds = interleaved_medians(calls, settings.rounds)
                answers = module.decode(module(ids))
            wrong = sum(given != right for given, right in zip(answers, meant, strict=True))
            checks.append(
                Check(f"{name} in {dtype}: {wrong} wrong words of {len(words)}", not wrong)
            )
            shown = [f"{1e3 * spent:.2f}" for spent in seconds.values()]
            sheet.table.add_row(name, dtype, *shown, str(wrong))
            record.append([name, dtype, seconds])
    torch.set_num_threads(before)
    return Report([sheet], checks, {"programs": record})


def _command(settings: Settings, part: str) -> str:
    return f"python -m benchmarks.torch_modules --only {part}" + " --quick" * settings.quick


PARTS: dict[str, Part] = {"networks": networks, "programs": programs}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.torch_modules", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
