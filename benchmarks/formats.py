"""Claims about float formats: what is proved in float32 and below, and whether plans agree.

    python -m benchmarks.formats                      everything
    python -m benchmarks.formats --only zoo           one part: zoo, heads, coarse, agreement, deep
    python -m benchmarks.formats --quick              the small specimens only
    python -m benchmarks.formats --json numbers.json  all numbers, for machines

Exit code 1 says that a requirement was missed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

import hardmax as hm
from benchmarks._driver import Part, parse, run
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.testing import Specimen, random_relu, zoo

FUNCTIONS = {  # at 1e-3: heads in float32 beside those of float64
    "1/x": (0.1, 1.0),
    "exp(x)": (0.0, 3.0),
    "sqrt(x)": (0.01, 1.0),
    "sin(4*x)": (-2.0, 2.0),
    "log(x)": (1.0, 2.0),
    "tan(x)": (-1.0, 1.0),
    "x**3": (-1.0, 1.0),
    "x**2": (-1.0, 1.0),
    "x**1.5": (0.0, 1.0),
    "cos(x)": (-1.0, 1.0),
    "sin(x)": (-1.0, 1.0),
    "abs(x)": (-1.0, 1.0),
}
_MOST_HEADS = 1.5  # times those of float64, over all functions
_PROVED = 0.9  # of the zoo
_BASELINES = ("feedforward", "gated")
_COARSE = 6  # of the functions at 1e-2 in bfloat16, or a stated floor
_QUICK = 12  # specimens of the zoo


def proved_in_float32(settings: Settings) -> Report:
    """The zoo at the errors that it has, compiled for float32."""
    sheet = Sheet(
        "python -m benchmarks.formats --only zoo",
        f"The zoo in float32. Required: {_PROVED:.0%} proved; what is not proved is listed.",
        *("·specimen", "·verdict", "claimed", "certified", "·why"),
    )
    rows = [compiled_for(specimen, "float32") for specimen in _specimens(settings)]
    for row in rows:
        if row["verdict"] != "PROVED":
            numbers = [f"{row[name]:.3g}" for name in ("claimed", "certified")]
            sheet.table.add_row(row["name"], row["verdict"], *numbers, row["why"])
    count = sum(row["verdict"] == "PROVED" for row in rows)
    what = f"{count} of {len(rows)} proved in float32 ({count / len(rows):.1%})"
    return Report([sheet], [Check(what, count >= _PROVED * len(rows))], {"zoo": rows}, [what])


def compiled_for(specimen: Specimen, format: str) -> dict:
    """One specimen, compiled for a format and certified; or why it was refused."""
    try:
        model = hm.compile(
            specimen.source(),
            on=specimen.domain,
            error=specimen.error,
            route=specimen.route,
            float=format,
        )
    except hm.PrecisionError as reason:
        blank = {"claimed": np.nan, "certified": np.nan, "holds_in": []}
        return {"name": specimen.name, "verdict": "refused", "why": str(reason), **blank}
    found = hm.certify(model)
    return {
        "name": specimen.name,
        "verdict": found.verdict.name,
        "why": found.advice,
        "claimed": found.claimed,
        "certified": found.certified,
        "holds_in": list(found.holds_in),
    }


def heads_in_float32(settings: Settings) -> Report:
    """Functions at 1e-3: heads in float32 beside those of float64."""
    sheet = Sheet(
        "python -m benchmarks.formats --only heads",
        f"Functions at 1e-3. Required: proved in float32 with {_MOST_HEADS:g} times the heads of "
        "float64 at most, all functions together.",
        *("·function", "float64", "float32", "certified", "·verdict"),
    )
    rows, checks = [], []
    for text, ends in FUNCTIONS.items():
        usual = hm.compile(text, on={"x": ends}, error=1e-3)
        model = hm.compile(text, on={"x": ends}, error=1e-3, float="float32")
        found = hm.certify(model)
        counts = usual.bill.heads, model.bill.heads
        sheet.table.add_row(text, *map(str, counts), f"{found.certified:.3g}", found.verdict.name)
        rows.append({"function": text, "heads": counts, "verdict": found.verdict.name})
        checks.append(Check(f"{text}: proved in float32", found.verdict is hm.Verdict.PROVED))
    before, after = (sum(row["heads"][i] for row in rows) for i in (0, 1))
    what = f"{after} heads in float32, {before} in float64"
    checks.append(Check(what, after <= _MOST_HEADS * before))
    return Report([sheet], checks, {"heads": rows}, [what])


def coarse_formats(settings: Settings) -> Report:
    """Functions at 1e-2 in float16 and bfloat16: proved, or refused with one that is proved."""
    sheet = Sheet(
        "python -m benchmarks.formats --only coarse",
        f"Functions at 1e-2. Required: {_COARSE} proved in bfloat16, or at the stated floor.",
        *("·function", "·format", "error", "certified", "·verdict"),
    )
    rows = []
    for text, ends in list(FUNCTIONS.items())[: 4 if settings.quick else None]:
        for format in ("float16", "bfloat16"):
            error = reachable_error(text, ends, format)
            model = hm.compile(text, on={"x": ends}, error=error, float=format)
            found = hm.certify(model)
            row = {"function": text, "format": format, "error": error}
            rows.append(row | {"certified": found.certified, "verdict": found.verdict.name})
            certified = f"{found.certified:.3g}"
            sheet.table.add_row(text, format, f"{error:g}", certified, found.verdict.name)
    proved = [row for row in rows if row["verdict"] == "PROVED" and row["format"] == "bfloat16"]
    what = f"{len(proved)} functions proved in bfloat16 at 1e-2 or at the floor that is stated"
    enough = len(proved) >= min(_COARSE, len(rows) // 2)
    return Report([sheet], [Check(what, enough)], {"coarse": rows}, [what])


def reachable_error(text: str, ends: tuple[float, float], format: str) -> float:
    """1e-2, or the floor that its refusal states; baselines are taken by name only."""
    plan = hm.plan(text, on={"x": ends}, error=1e-2, float=format)
    try:
        plan.choose()
        return 1e-2
    except hm.PrecisionError:
        return min(offer.reachable for offer in plan.offers if offer.route not in _BASELINES)


def disagreements(specimen: Specimen, format: str) -> list[str]:
    """What a plan says of formats and a certificate of what was built does not."""
    plan = hm.plan(specimen.source(), on=specimen.domain, error=specimen.error, float=format)
    offer = next((one for one in plan.open if one.route == specimen.route), None)
    if offer is None:
        return []
    found = hm.certify(offer.build())
    if found.verdict is not hm.Verdict.PROVED:
        return []  # nothing was established that could be compared
    missing = [name for name in offer.formats if name not in found.asked_holds_in]
    return [f"{specimen.name} for {format}: the plan says {name}" for name in missing]


def agreement(settings: Settings) -> Report:
    """Whatever format a plan says an error holds in, the certificate says it, too."""
    wrong, count = list[str](), 0
    for format in ("float64", "float32"):
        for specimen in _specimens(settings):
            wrong += disagreements(specimen, format)
            count += 1
    sheet = Sheet(
        "python -m benchmarks.formats --only agreement",
        "Plans beside certificates. Required: no plan says a format that the certificate does not.",
        "·disagreement",
    )
    for line in wrong:
        sheet.table.add_row(line)
    what = f"{len(wrong)} disagreements in {count} plans"
    return Report([sheet], [Check(what, not wrong)], {"agreement": wrong, "plans": count}, [what])


def deep_networks(settings: Settings) -> Report:
    """ReLU networks at 1e-2 in float32: proved, or the floor that the refusal states."""
    sheet = Sheet(
        "python -m benchmarks.formats --only deep",
        "ReLU networks at 1e-2 in float32. Required: two hidden layers of 32 are proved on every "
        "route, four and 64-256-256-10 on attention-only, and elsewhere the error that the refusal "
        "names.",
        *("·network", "·route", "·verdict", "certified", "·why"),
    )
    rows = []
    for layers in (1, 2) if settings.quick else (1, 2, 4):
        for route in ("attention", "attention-only", "feedforward"):
            named = layers > 2 and route != "attention-only"
            rows.append(_deep(f"8-(32 x {layers})-1", _he_network(layers), route, floor=named))
    if not settings.quick:
        rows.append(_deep("64-256-256-10", random_relu(0, 64, 256, 256, 10), "attention-only"))
        for route in ("attention", "attention-only", "feedforward"):
            rows.append(_deep("8-(32 x 8)-1", _he_network(8), route, floor=True))
    for row in rows:
        certified = f"{row['certified']:.3g}"
        sheet.table.add_row(row["name"], row["route"], row["verdict"], certified, row["why"])
    checks = [
        Check(f"{row['name']}, {row['route']}: {row['verdict']}", row["verdict"] == "PROVED")
        for row in rows
    ]
    return Report([sheet], checks, {"deep": rows})


def _he_network(layers: int) -> hm.ReluNetwork:
    rng = np.random.default_rng(0)
    widths = [8, *[32] * layers, 1]
    weights = [rng.normal(0.0, np.sqrt(2 / a), size=(b, a)) for a, b in pairwise(widths)]
    biases = [0.3 * rng.normal(size=b) for b in widths[1:-1]] + [0.1 * rng.normal(size=1)]
    return hm.ReluNetwork(weights, biases)


def _deep(name: str, network: hm.ReluNetwork, route: str, *, floor: bool = False) -> dict:
    """At 1e-2; with `floor`, what is refused is compiled at the error that the refusal names."""
    row, domain, error = {"name": name, "route": route}, f"[-1,1]^{network.inputs}", 1e-2
    while True:
        try:
            model = hm.compile(network, on=domain, error=error, route=route, float="float32")
        except hm.PrecisionError as reason:
            if not floor or error > 1e-2:
                return row | {"verdict": "refused", "certified": np.nan, "why": str(reason)}
            error = float(str(reason).split("Ask for ")[1].split(" or more")[0])
            continue
        found = hm.certify(model)
        why = found.advice if error == 1e-2 else f"at the floor of {error:.3g} that is stated"
        return row | {"verdict": found.verdict.name, "certified": found.certified, "why": why}


def _specimens(settings: Settings) -> Iterator[Specimen]:
    """All of the zoo but its largest networks, which take minutes; or a few small ones."""
    small = [one for one in zoo().values() if "64-256" not in one.name]
    if settings.quick:
        small = [one for one in small if not one.large][:: len(small) // _QUICK]
    yield from small


PARTS: dict[str, Part] = {
    "zoo": proved_in_float32,
    "heads": heads_in_float32,
    "coarse": coarse_formats,
    "agreement": agreement,
    "deep": deep_networks,
}


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse("benchmarks.formats", __doc__, PARTS, arguments)
    return run(options, PARTS, Settings.of(quick=options.quick, out=options.out))


if __name__ == "__main__":
    sys.exit(main())
