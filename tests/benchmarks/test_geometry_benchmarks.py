"""The benchmark of geometry in short: counts are required, times are only told."""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks import geometry


def test_the_quick_benchmark_meets_all_that_is_no_time(tmp_path: Path) -> None:
    record = tmp_path / "geometry.json"
    parts = [f"--only={part}" for part in ("diagrams", "stability")]
    assert geometry.main(["--quick", *parts, "--json", str(record)]) == 0
    assert set(json.loads(record.read_text("utf-8"))) == {"diagrams", "stability"}
