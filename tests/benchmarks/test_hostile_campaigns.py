"""The campaigns of hostile files and of kills, in short, and that they see what they look for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks._hostile_forgeries import ANY, forgeries_of, perjured
from benchmarks._hostile_specimens import specimens
from benchmarks._kill_writers import writers
from click.testing import CliRunner

import hardmax as hm
from benchmarks import hostile_files, kills
from hardmax import _atomic
from hardmax.cli import main

QUICK = [kind for kind in hostile_files.DOORS if kind not in ("network", "checkpoint")]


def test_files_are_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks and checkpoints are left to the long campaign, which compiles loops first."""
    few = tuple(file for file in specimens() if file.kind in QUICK)
    monkeypatch.setattr(hostile_files, "specimens", lambda: few)
    faults: list[str] = []
    counts = hostile_files.run_part(0, 40, 0, faults)
    assert not faults
    assert counts["accepted"] + counts["refused"] == 40
    assert min(counts["accepted"], counts["refused"]) > 5


def test_networks_are_read_or_refused(tmp_path: Path) -> None:
    """Through the library's door, which compiles no loops."""
    files = [file for file in specimens() if file.kind == "network"]
    found = set()
    for number in range(200):
        rng = np.random.default_rng([1, number])
        file = files[number % len(files)]
        forge = forgeries_of(file)[rng.integers(len(forgeries_of(file)))]
        place = tmp_path / f"n{file.suffix}"
        place.write_bytes(forge(file, rng))
        found.add(hostile_files.read(hm.load_network, place) is None)
    assert found == {True, False}


def test_every_file_is_made_from_its_number(tmp_path: Path) -> None:
    for file in specimens():
        for forge in forgeries_of(file):
            made = {forge(file, np.random.default_rng([0, 3])) for _ in range(2)}
            assert len(made) == 1, (file.kind, forge.__name__)


def test_specimens_are_whole(tmp_path: Path) -> None:
    """What is corrupted was right before; half of it is not."""
    for file in specimens():
        if file.kind not in ("model", "network"):
            continue
        place = tmp_path / f"f{file.suffix}"
        reader: Any = hm.load if file.kind == "model" else hm.load_network
        place.write_bytes(file.data)
        assert hostile_files.read(reader, place) is not None
        place.write_bytes(file.data[: len(file.data) // 2])
        assert hostile_files.read(reader, place) is None
    assert len(ANY) == 6


def test_perjury_is_not_believed(tmp_path: Path) -> None:
    """Other weights under a certificate that says PROVED about them: the verdict is made afresh."""
    product = specimens()[1]
    place = tmp_path / "perjured.safetensors"
    place.write_bytes(perjured(product, np.random.default_rng(1)))
    stored = hm.load_certificate(place)
    assert stored is not None
    assert stored.verdict is hm.Verdict.PROVED
    assert not stored.altered(hm.load(place))
    result = CliRunner().invoke(main, ["verify", str(place), "--json", "--budget", "100 boxes"])
    assert result.exit_code == 1
    assert json.loads(result.stdout)["verdict"] != "PROVED"


def test_a_verdict_that_is_false_is_seen() -> None:
    construction = hm.compile("x", on={"x": (0, 1)}, error=0.1)
    record = {"verdict": "PROVED", "altered": [], "contradictions": []}
    with pytest.raises(hostile_files.Fault, match="false"):
        hostile_files._check_proof(construction, record | {"certificate": {"certified": -1.0}})


# ---- kills ------------------------------------------------------------------------------------


def quick_writers() -> tuple[Any, ...]:
    return tuple(one for one in writers() if one.name == "save")


def test_a_kill_leaves_the_old_file_or_the_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kills, "writers", quick_writers)
    faults: list[str] = []
    counts = kills.run_part(0, 12, 0, faults)
    assert not faults
    assert counts["old"] + counts["new"] == 12
    assert counts["old"] > 3
    assert counts["killed"] > 6


def test_a_writer_that_is_not_atomic_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def in_place(destination: Path, data: bytes) -> None:
        with vars(_atomic).get("open", open)(destination, "wb") as file:
            file.write(data)

    monkeypatch.setattr(_atomic, "_write_beside", in_place)
    monkeypatch.setattr(kills, "writers", quick_writers)
    assert kills.run_part(0, 10, 0)["lost"] > 0


def test_litter_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_atomic, "_remove_abandoned", lambda folder: None)
    monkeypatch.setattr(kills, "writers", quick_writers)
    assert kills.run_part(0, 10, 0)["litter"] > 0
