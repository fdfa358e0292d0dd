"""Heads, layers and coldness: products, reciprocals and maxima against their limits."""

from __future__ import annotations

import math

import numpy as np

import hardmax as hm
from benchmarks._functions_cases import (
    FLOAT32_PRODUCT,
    MAXIMUM,
    PRODUCTS,
    RECIPROCALS,
    WIDEST,
    Case,
)
from benchmarks._functions_points import hard_points
from benchmarks._functions_run import Run, as_run, command, run_offer
from benchmarks._measure import loglog_slope
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax._workbench import compile
from hardmax.interop import write_torch
from hardmax.numerics import softmax_gap

COLUMNS = ("·function", "·route", "layers", "heads", "limit", "claimed", "measured", "ratio", "·")
TENT_LOSS = 4.0995  # of a chain of soft tents, times coldness^2
LEAST_SHARE = 0.002  # of the error: what the layers always leave for softening
STEEPEST, FLATTEST = -0.55, -0.45  # exponents that count as -1/2, with a saw's teeth on top
RECIPE_LAYERS = 5
RECIPE_HEADS = 2


def products(settings: Settings) -> Report:
    """x*y directly, in float32, and by the recipe."""
    direct = _within_heads(settings, "products", "x*y directly", PRODUCTS)
    return _together([direct, _in_float32(settings), _recipe(settings), _recipe_coldness(settings)])


def reciprocals(settings: Settings) -> Report:
    """1/x in one layer; its error is proved by balls in one dimension."""
    return _within_heads(settings, "reciprocals", "1/x directly", RECIPROCALS)


def _within_heads(
    settings: Settings, part: str, what: str, limits: dict[Case, tuple[str, int]]
) -> Report:
    sheet = Sheet(
        command(settings, part),
        f"{what}. Required: one layer, heads within the limit, measured <= claimed <= error on "
        f"{settings.points:,} hard points.",
        *COLUMNS,
    )
    checks, runs = list[Check](), list[Run]()
    for case, (route, limit) in limits.items():
        run = run_offer(case, case.plan.offer(route), settings.points)
        small = run.counted["layers"] == 1 and run.counted["heads"] <= limit
        what = f"{case.name}: {_size(run)}, at most {limit} heads in one layer"
        own = [Check(what, small), run.honesty]
        sheet.table.add_row(*_row(run, str(limit)), _worst(own).mark)
        checks += own
        runs.append(run)
    return Report([sheet], checks, {part: [run.as_dict() for run in runs]})


def _in_float32(settings: Settings) -> Report:
    """The module in PyTorch, on float32 inputs, whose products float64 holds exactly."""
    case, limit = FLOAT32_PRODUCT, 2
    offer = case.plan.choose("float32")
    construction = offer.build()
    x = hard_points(case.function, case.domain, settings.points).astype(np.float32)
    try:
        single = _torch_error(construction, x)
    except hm.MissingExtra as reason:
        return Report([], [], {}, [f"The product in float32 was skipped: {reason}"])
    run = as_run(case, construction, offer.resources, settings.points)
    bound = offer.proposal.bound("float32") if offer.proposal is not None else math.inf
    sheet = Sheet(
        command(settings, "products"),
        f"x*y in float32: the PyTorch module against exact products. Required: error {case.error:g}"
        f" with at most {limit} heads in one layer; measured <= proved for float32 <= error.",
        *("·function", "·route", "layers", "heads", "limit"),
        *("proved, float32", "measured, float32", "claimed, float64", "measured, float64", "·"),
    )
    small = run.counted["layers"] == 1 and run.counted["heads"] <= limit
    checks = [
        Check(f"{case.name}: {_size(run)}, at most {limit} heads in one layer", small),
        Check(
            f"{case.name}: float32 measures {single:.3g} <= {bound:.3g}",
            single <= bound <= case.error,
        ),
        run.honesty,
    ]
    numbers = (f"{number:.3e}" for number in (bound, single, run.claimed, run.measured))
    layers, heads = str(run.counted["layers"]), str(run.counted["heads"])
    sheet.table.add_row(
        case.name, run.route, layers, heads, str(limit), *numbers, _worst(checks).mark
    )
    record = run.as_dict() | {"float32_measured": single, "float32_proved": bound}
    return Report([sheet], checks, {"float32": record})


def _torch_error(construction: hm.Construction, x: np.ndarray) -> float:
    module = write_torch(construction, "float32")
    import torch

    with torch.no_grad():
        outputs = module(torch.from_numpy(x)).numpy().astype(np.float64)
    return float(np.abs(outputs[:, 0] - x.astype(np.float64).prod(axis=1)).max())


def _recipe(settings: Settings) -> Report:
    case = next(iter(PRODUCTS))
    offer = case.plan.offer("recipe")
    construction = offer.build()
    run = as_run(case, construction, offer.resources, settings.points)
    most = max(heads_by_layer(construction))
    sheet = Sheet(
        command(settings, "products"),
        f"x*y by the recipe. Required: at most {RECIPE_LAYERS} layers of {RECIPE_HEADS} heads.",
        *COLUMNS,
    )
    small = run.counted["layers"] <= RECIPE_LAYERS and most <= RECIPE_HEADS
    what = f"{case.name} by the recipe: {run.counted['layers']} layers of at most {most} heads"
    checks = [Check(what, small), run.honesty]
    limit = f"{RECIPE_LAYERS} x {RECIPE_HEADS}"
    sheet.table.add_row(*_row(run, limit), _worst(checks).mark)
    return Report([sheet], checks, {"recipe": run.as_dict()})


def heads_by_layer(construction: hm.Construction) -> list[int]:
    """How many heads each attention sublayer has."""
    layers = construction.transformer.sublayers
    return [len(layer.heads) for layer in layers if isinstance(layer, hm.Attention)]


def _recipe_coldness(settings: Settings) -> Report:
    """The coldest head against the error, from the weights."""
    errors = 10.0 ** -np.arange(1, 9.001, 0.5 if settings.quick else 0.125)
    text, ranges = next(iter(PRODUCTS)).text, next(iter(PRODUCTS)).ranges
    cases = [Case(text, ranges, float(error)) for error in errors]
    made = [compile(case.text, on=case.on, error=case.error, route="recipe") for case in cases]
    cold = np.array([_coldest(construction) for construction in made])
    proved = np.array([proved_coldness(construction) for construction in made])
    slope, constant = loglog_slope(errors, cold), float((cold * np.sqrt(errors)).max())
    most = math.sqrt(TENT_LOSS / LEAST_SHARE) * 1.05  # the margin, and the share of rounding
    off = float(np.abs(cold / proved - 1).max())
    checks = [
        Check(f"coldness ~ error^{slope:.3f}", STEEPEST <= slope <= FLATTEST),
        Check(f"coldness * error^(1/2) is at most {constant:.1f} <= {most:.1f}", constant <= most),
        Check(f"coldness = sqrt({TENT_LOSS}/(error - 4^-L)) within {off:.1e}", off <= 1e-3),
    ]
    sheet = Sheet(
        command(settings, "products"),
        f"The coldest head of x*y by the recipe. Required: coldness <= C error^-1/2. The bound "
        f"sqrt({TENT_LOSS}/(e - 4^-L)), e the ledger's\nshare of the approximation, has teeth: "
        f"e - 4^-L >= {LEAST_SHARE} e, so C <= {most:.1f}. Fitted: error^{slope:.3f}, over "
        f"{len(errors)} errors.",
        *("error", "layers", "coldness", "bound", "coldness * error^1/2", "error^-1", "·"),
    )
    for i in np.flatnonzero(np.isin(np.arange(len(errors)) * 8 % (len(errors) - 1), 0)):
        sheet.table.add_row(
            f"{errors[i]:.0e}",
            str(made[i].bill.layers),
            f"{cold[i]:,.1f}",
            f"{proved[i]:,.1f}",
            f"{cold[i] * math.sqrt(errors[i]):.2f}",
            f"{1 / errors[i]:,.0f}",
            _worst(checks).mark,
        )
    record = {"errors": errors.tolist(), "coldness": cold.tolist(), "exponent": slope}
    return Report([sheet], checks, {"recipe_coldness": record | {"constant": constant}})


def _coldest(construction: hm.Construction) -> float:
    return max(head.coldness for head in construction.transformer.heads)


def proved_coldness(construction: hm.Construction) -> float:
    """sqrt(4.0995/(e - 4^-L)), with e from the ledger: what the chain of tents proves it needs."""
    causes = ("approximation", "softening")
    e = math.fsum(s.amount for s in construction.claim.ledger if s.cause in causes)
    return math.sqrt(TENT_LOSS / (e - 4.0**-construction.bill.layers))


def maxima(settings: Settings) -> Report:
    """The maximum of 16 numbers: one head, as cold as the theorem says and no colder."""
    offer = MAXIMUM.plan.choose()
    construction = offer.build()
    run = as_run(MAXIMUM, construction, offer.resources, settings.points)
    extremal = extremal_maximum_error(construction)
    needed = softmax_gap(WIDEST) / MAXIMUM.error / 2
    ratio = run.coldness / needed
    sheet = Sheet(
        command(settings, "maxima"),
        f"max of {WIDEST} on [-1,1]^{WIDEST}, error {MAXIMUM.error:g}. Required: one layer, one "
        f"head, coldness within 3% of W({WIDEST - 1}/e)/error,\nhalf of it because centred. "
        "Extremal: measured with all losers (1 + W)/coldness below the winner.",
        *("·route", "layers", "heads", "coldness", "W/(2 error)", "ratio"),
        *("claimed", "measured", "extremal", "·"),
    )
    checks = [
        Check(f"max of {WIDEST}: {_size(run)}", _layers_and_heads(run) == (1, 1)),
        Check(f"max of {WIDEST}: {ratio:.4f} times the coldness needed", abs(ratio - 1) <= 0.03),
        Check(
            f"max of {WIDEST}: extremal {extremal:.3g} <= {run.claimed:.3g}",
            extremal <= run.claimed,
        ),
        run.honesty,
    ]
    sheet.table.add_row(
        run.route,
        *map(str, _layers_and_heads(run)),
        f"{run.coldness:,.2f}",
        f"{needed:,.2f}",
        f"{ratio:.4f}",
        *(f"{number:.4e}" for number in (run.claimed, run.measured, extremal)),
        _worst(checks).mark,
    )
    return Report([sheet], checks, {"maximum": run.as_dict() | {"extremal": extremal}})


def extremal_maximum_error(construction: hm.Construction) -> float:
    """The error with all losers (1 + W((n-1)/e))/coldness below the winner, and far below it.

    The softmax mean falls short by the most at the first point and by nothing at the second, so
    the centred error is the same at both, with opposite signs.
    """
    n, (head,) = construction.claim.domain.dimension, construction.transformer.heads
    drops = [(1 + softmax_gap(n)) / head.coldness, 2.0]
    x = np.ones((2, n)) - np.array(drops)[:, None]
    x[:, 0] = 1.0
    return float(np.abs(construction(x)[:, 0] - 1.0).min())


def _layers_and_heads(run: Run) -> tuple[int, int]:
    return run.counted["layers"], run.counted["heads"]


def _size(run: Run) -> str:
    layers, heads = _layers_and_heads(run)
    return f"{heads} heads in {layers} layer" + "s" * (layers != 1)


def _row(run: Run, limit: str) -> tuple[str, ...]:
    layers, heads = _layers_and_heads(run)
    numbers = f"{run.claimed:.3e}", f"{run.measured:.3e}", f"{run.slack:.3f}"
    return run.case, run.route, str(layers), str(heads), limit, *numbers


def _worst(checks: list[Check]) -> Check:
    return min(checks, key=lambda check: check.holds)


def _together(reports: list[Report]) -> Report:
    return Report(
        [sheet for report in reports for sheet in report.sheets],
        [check for report in reports for check in report.checks],
        {key: value for report in reports for key, value in report.record.items()},
        [note for report in reports for note in report.notes],
    )
