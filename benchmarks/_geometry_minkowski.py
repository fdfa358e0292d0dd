"""Minkowski sums: exact counts at stated times, the means of Fig. 6b, and how both grow."""

from __future__ import annotations

import math
import resource
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._measure import cpu_seconds, interleaved_medians, loglog_slope
from benchmarks._report import Check, Report, Settings, Sheet
from hardmax.geometry.bounds import several_heads, two_polygons
from hardmax.geometry.polytopes._minkowski import MinkowskiSum, minkowski_sum

SPACE = 4
# Fig. 6b: earlier means of many draws, to one decimal
MEANS = {2: (4.0, 9.0, 15.3, 22.5, 28.8, 36.5), 3: (8.0, 24.7, 46.1, 67.8, 91.2, 115.4)}
# incremental hulls, one Gaussian draw each, measured earlier
PEERS = {(3, 8, 16): (639, 0.023), (4, 4, 12): (435, 0.028), (5, 3, 10): (324, 0.090)}
SIGMAS = 4.0  # standard errors of our mean; that of the other mean is not known
ROUNDING = 0.05  # of the other mean
COMPARED = 20  # draws whose count is compared with the hull of all N^H sums

COMMAND = "python -m benchmarks.geometry --only minkowski"


def minkowski(settings: Settings) -> Report:
    """Targets, peers, means, growth."""
    minkowski_sum(polygons(4))  # loads the compiled loops
    minkowski_sum(gaussian(SPACE, 2, 3, 0))
    parts = [_targets(settings), _peers(settings), _means(settings), _growth(settings)]
    peak = _peak_megabytes()
    return Report(
        [part.sheets[0] for part in parts],
        [check for part in parts for check in part.checks],
        {name: value for part in parts for name, value in part.record.items()} | {"peak MB": peak},
        [f"Peak memory of the whole process, with libraries: {peak:,.0f} MB."],
    )


def polygons(sides: int) -> list[np.ndarray]:
    """Two regular polygons, in the xz-plane and in the yz-plane, with generic phases."""
    first = (np.arange(sides) + 0.123) * 2.0 * np.pi / sides
    second = (np.arange(sides) + 0.457) * 2.0 * np.pi / sides
    zero = np.zeros(sides)
    return [
        np.stack([np.cos(first), zero, np.sin(first)], axis=1),
        np.stack([zero, np.cos(second), np.sin(second)], axis=1),
    ]


def gaussian(dimension: int, heads: int, tokens: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng([seed, dimension, heads, tokens])
    return [rng.normal(size=(tokens, dimension)) for _ in range(heads)]


def _targets(settings: Settings) -> Report:
    """Counts that are known exactly, and two times that are required."""
    sheet = Sheet(
        COMMAND,
        "Required: two N-gons in coordinate planes have exactly N^2/2 + 2N - 2 vertices, N = 1,000 "
        "in under 10 s;\nd = 4, N = 7, H = 3 Gaussian in under 0.1 s (CPU time).",
        *("·sum", "vertices", "formula", "CPU s", "allowed s", "·"),
    )
    checks, record = [], []
    for sides in (4, 8, 16, 32, 1_000):
        found, seconds = _timed(lambda n=sides: minkowski_sum(polygons(n)), 1)  # type: ignore[misc]
        wanted = two_polygons(sides).value
        allowed = 10.0 if sides == 1_000 else math.nan
        name = f"two {sides:,}-gons, d = 3"
        _judge(sheet, checks, record, name, found, wanted, seconds, allowed)
    found, seconds = _timed(lambda: minkowski_sum(gaussian(SPACE, 3, 7, 0)), settings.rounds)
    _judge(sheet, checks, record, "3 x 7 Gaussian, d = 4", found, None, seconds, 0.1)
    return Report([sheet], checks, {"targets": record})


def _judge(
    sheet: Sheet,
    checks: list[Check],
    record: list[dict[str, Any]],
    name: str,
    found: MinkowskiSum,
    wanted: int | None,
    seconds: float,
    allowed: float,
) -> None:
    right = wanted is None or found.count == wanted
    in_time = not seconds > allowed
    if wanted is not None:
        checks.append(
            Check(f"{name}: {found.count:,} vertices, the formula says {wanted:,}", right)
        )
    if not math.isnan(allowed):
        checks.append(Check(f"{name}: {seconds:.3f} s, allowed {allowed:g} s", in_time, timed=True))
    mark = Check(name, right and in_time).mark
    formula = "" if wanted is None else f"{wanted:,}"
    limit = "" if math.isnan(allowed) else f"{allowed:g}"
    sheet.table.add_row(name, f"{found.count:,}", formula, f"{seconds:.4f}", limit, mark)
    record.append({"sum": name, "vertices": found.count, "formula": wanted, "CPU s": seconds})


def _peers(settings: Settings) -> Report:
    """Sums for which times of incremental hulls are known."""
    sheet = Sheet(
        COMMAND,
        "Beside incremental hulls (other draws, another day): vertices and time.",
        *("d", "H", "N", "vertices", "at most", "ms", "peers'\nvertices", "peers' ms"),
    )
    record = []
    for (d, heads, tokens), (count, seconds) in PEERS.items():
        parts = gaussian(d, heads, tokens, 0)
        found, own = _timed(lambda p=parts: minkowski_sum(p), settings.rounds)  # type: ignore[misc]
        most = several_heads(tokens, heads, dimension=d, bias_free=True).value
        numbers = (d, heads, tokens, found.count, most)
        sheet.table.add_row(
            *(f"{one:,}" for one in numbers), f"{own * 1e3:.1f}", f"{count}", f"{seconds * 1e3:.0f}"
        )
        names = ("d", "H", "N", "vertices", "at most")
        record.append(dict(zip(names, numbers, strict=True)) | {"CPU s": own, "peer s": seconds})
    return Report([sheet], [], {"peers": record})


def _means(settings: Settings) -> Report:
    """Fig. 6b: the mean number of vertices over Gaussian draws."""
    draws = 60 if settings.quick else 400
    sheet = Sheet(
        COMMAND,
        f"Fig. 6b, d = {SPACE}, {draws} Gaussian draws each. Required: the first {COMPARED} equal "
        f"to the hull of all N^H sums, draw by draw.\nBeside earlier means of unknown many draws; "
        f"'differs' is more than {SIGMAS:g} of our standard errors.",
        *("H", "N", "mean", "standard\nerror", "earlier\nmean", "·mean", "·counts"),
    )
    checks, record = [], []
    for heads, means in MEANS.items():
        for tokens, wanted in enumerate(means, start=2):
            row = _mean_row(heads, tokens, wanted, draws)
            near = abs(row["mean"] - wanted) <= SIGMAS * row["error"] + ROUNDING
            same = f"H = {heads}, N = {tokens}: not the hull of all sums in {row['wrong']} draws"
            checks.append(Check(same, row["wrong"] == 0))
            numbers = (f"{row[key]:.2f}" for key in ("mean", "error", "wanted"))
            marks = ("agrees" if near else "differs", checks[-1].mark)
            sheet.table.add_row(str(heads), str(tokens), *numbers, *marks)
            record.append(row)
    return Report([sheet], checks, {"means": record})


def _mean_row(heads: int, tokens: int, wanted: float, draws: int) -> dict[str, Any]:
    parts = [gaussian(SPACE, heads, tokens, seed) for seed in range(draws)]
    counts = [minkowski_sum(one).count for one in parts]
    scatter = float(np.std(counts, ddof=1))
    return {
        "H": heads,
        "N": tokens,
        "mean": float(np.mean(counts)),
        "error": scatter / math.sqrt(draws),
        "wanted": wanted,
        "wrong": sum(
            count != _all_sums(one)
            for count, one in zip(counts[:COMPARED], parts[:COMPARED], strict=True)
        ),
    }


def _all_sums(parts: list[np.ndarray]) -> int:
    """The vertices of the hull of every sum, by Qhull: an answer from another method."""
    from scipy.spatial import ConvexHull

    total = np.zeros((1, parts[0].shape[1]))
    for one in parts:
        total = (total[:, None] + one).reshape(-1, one.shape[1])
    if len(total) <= total.shape[1] + 1:
        return len(np.unique(total, axis=0))  # so few generic points are all vertices
    return len(_vertices(ConvexHull, total))


def _vertices(hull: Callable[[np.ndarray], Any], total: np.ndarray) -> np.ndarray:
    """In as many coordinates as the points span: generic ones, the first that there are."""
    rank = np.linalg.matrix_rank(total - total[0])
    return np.asarray(hull(total[:, :rank]).vertices)


def _growth(settings: Settings) -> Report:
    """Vertices and time against N, and the slopes of both in double logarithms."""
    sheet = Sheet(
        COMMAND,
        "Growth with N; the exponents are those between a row and the one before.",
        *(
            "·family",
            "N",
            "vertices",
            "CPU s",
            "µs a\nvertex",
            "exponent\nvertices",
            "exponent\ntime",
        ),
    )
    record = []
    for name, sizes, parts in _families(settings):
        rows: list[tuple[int, int, float]] = []
        for size in sizes:
            given = parts(size)
            found, seconds = _timed(lambda p=given: minkowski_sum(p), 1)  # type: ignore[misc]
            rows.append((size, found.count, seconds))
            sheet.table.add_row(*_growth_cells(name, rows))
        record.append({"family": name, "rows": rows})
    return Report([sheet], [], {"growth": record})


def _families(
    settings: Settings,
) -> list[tuple[str, tuple[int, ...], Callable[[int], list[np.ndarray]]]]:
    small = settings.quick
    return [
        ("two polygons, d = 3", (100, 200, 400) if small else (124, 250, 500, 1_000), polygons),
        (
            "3 Gaussian, d = 4",
            (7, 14, 28) if small else (7, 14, 28, 56, 112),
            lambda n: gaussian(4, 3, n, 0),
        ),
        (
            "8 Gaussian, d = 3",
            (16, 32, 64) if small else (16, 32, 64, 128, 256),
            lambda n: gaussian(3, 8, n, 0),
        ),
    ]


def _growth_cells(name: str, rows: list[tuple[int, int, float]]) -> list[str]:
    size, count, seconds = rows[-1]
    cells = [name, f"{size:,}", f"{count:,}", f"{seconds:.4f}", f"{seconds / count * 1e6:.1f}"]
    if len(rows) < 2:
        return [*cells, "", ""]
    last = np.array(rows[-2:], dtype=float).T
    return [*cells, *(f"{loglog_slope(last[0], one):.2f}" for one in last[1:])]


def _timed(call: Callable[[], MinkowskiSum], rounds: int) -> tuple[MinkowskiSum, float]:
    found: list[MinkowskiSum] = []

    def once() -> None:
        found[:] = [call()]

    seconds = cpu_seconds(once) if rounds == 1 else interleaved_medians({"": once}, rounds)[""]
    return found[0], seconds


def _peak_megabytes() -> float:
    unit = 1.0 if sys.platform == "darwin" else 1024.0  # what ru_maxrss counts: bytes or kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6
