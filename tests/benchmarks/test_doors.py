"""Every door stays within the bounds on rounding of certificates: the benchmark in short."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks._doors import DOORS, deviations, real_values
from benchmarks._report import Settings

import hardmax as hm
from benchmarks import doors

SHORT = Settings.of(quick=True)


@pytest.mark.parametrize("part", ["programs", "halves"])  # in which all doors and formats are
def test_every_door_stays_within_the_bounds(part: str) -> None:
    report = doors.PARTS[part](SHORT)
    assert report.record["missing"] == []
    expected = {name for name in DOORS if part != "programs" or "folded" not in name}
    assert {share["door"] for share in report.record["shares"]} == expected
    dtypes = {share["dtype"] for share in report.record["shares"]}
    assert dtypes >= {"float64", "float32", *["float16"] * (part == "halves")}
    assert all(check.holds for check in report.checks)
    assert len(report.checks) == len({(s["door"], s["dtype"]) for s in report.record["shares"]})


def test_a_door_that_errs_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers moved by the bound itself exceed it, and are 1 or more of it."""
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    held = doors.held("product", model)
    most = float(held.bounds["float64"].max())

    def enter(model: hm.Construction, dtype: str) -> object:
        run = DOORS["onnx"](model, dtype)
        return lambda batch: run(batch).astype(np.float64) + 2.0 * most

    monkeypatch.setattr(doors, "DOORS", {"moved": enter})
    shares, _ = held.shares()
    assert [share.largest > 1.0 for share in shares if share.dtype == "float64"] == [True]


def test_real_values_are_real() -> None:
    """A sum is exact in balls; a deviation of less than a unit is seen."""
    model = hm.compile("x + y", on="[0,1]^2")
    batch = np.array([[0.1, 0.2]])
    (real,) = real_values(model.transformer, batch)
    assert abs(real[0] - (Fraction(0.1) + Fraction(0.2))) < Fraction(1, 2**100)
    off = deviations(np.array([[0.1 + 0.2]]), [real], 1)
    exact = abs(Fraction(0.1 + 0.2) - Fraction(0.1) - Fraction(0.2))
    assert off == float(exact) > 0.0
