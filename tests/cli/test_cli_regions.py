"""`hardmax regions` and `hardmax experiment`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.plots import regions_picture

DATA = Path(__file__).resolve().parents[1] / "data" / "regions"
PLANE, SPACE = DATA / "d2_16x2.npz", DATA / "d3_16x2.npz"


def call(command: str, *arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, [command, *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


def test_counts_for_people_and_for_scripts(tmp_path: Path) -> None:
    told = call("regions", PLANE, "--on", "[-1,1]^2", "--plot", tmp_path / "cells.svg")
    assert "95 cells, 95 maximal affine regions (exact)" in told
    assert "after each layer: 47, 95" in told
    assert "no weights of this shape have more than" in told
    assert ">95 cells<" in (tmp_path / "cells.svg").read_text("utf-8")
    found = json.loads(call("regions", SPACE, "--on", "[-1,1]^3", "--json"))
    assert (found["cells"], found["regions"], found["layers"]) == (882, 882, [182, 882])
    assert found["exact"] is True
    fast = json.loads(call("regions", PLANE, "--on", "[-1,1]^2", "--fast", "--cells", "--json"))
    assert (fast["cells"], fast["regions"], fast["exact"]) == (95, None, False)
    assert "fast: float signs believed" in call("regions", PLANE, "--on", "[-1,1]^2", "--fast")


def test_segments_and_slices() -> None:
    source = hm.load_network(SPACE)
    line = json.loads(call("regions", SPACE, "--from=-1,-1,-1", "--to", "1,1,1", "--json"))
    assert line["cells"] == hm.regions(source, on=hm.Segment([-1] * 3, [1] * 3)).cells
    ways = ("--origin", "0,0,0", "--direction", "1,0,0", "--direction", "0,1,1")
    flat = json.loads(call("regions", SPACE, *ways, "--on", "[-1,1]^2", "--json"))
    there = hm.Slice([0, 0, 0], [[1, 0, 0], [0, 1, 1]], "[-1,1]^2")
    assert flat["cells"] == hm.regions(source, on=there).cells


def test_models_are_counted_by_their_skeleton(tmp_path: Path) -> None:
    bump = hm.ReluNetwork([[[1.0, 1.0], [1.0, -1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])
    hm.save(hm.compile(bump, on="[-1,1]^2", error=1e-2), tmp_path / "model.safetensors")
    model = tmp_path / "model.safetensors"
    assert "smooth function" in call("regions", model, "--on", "[-1,1]^2", code=2)
    found = json.loads(call("regions", model, "--skeleton", "--on", "[-1,1]^2", "--json"))
    assert found["regions"] == 4
    picture = tmp_path / "winner.png"
    call(
        "regions", model, "--skeleton", "--on", "[-1,1]^2", "--plot", picture, "--colour", "winner"
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    np.savez(tmp_path / "points.npz", points=np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1], [2, 0]]))
    visited = call("regions", model, "--inputs", tmp_path / "points.npz")
    assert "5 inputs lie in 4 cells" in visited


def test_two_processes_and_a_checkpoint(tmp_path: Path) -> None:
    place = tmp_path / "count.npz"
    options = ("--on", "[-1,1]^3", "--json", "--checkpoint", place)
    assert json.loads(call("regions", SPACE, *options, "--jobs", 2))["cells"] == 882
    again = json.loads(call("regions", SPACE, *options))
    (note,) = again["notes"]
    assert re.fullmatch(r"(\d+) of \1 pieces were done before", note)


def test_refusals(tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    wrong = [
        ((tmp_path / "none.npz", "--on", "[-1,1]^2"), "none.npz"),
        ((tmp_path / "broken.npz", "--on", "[-1,1]^2"), "could not be read"),
        ((PLANE,), "give one, for example"),
        ((PLANE, "--on", "[-1,1]^3"), "2 inputs, but the domain has 3"),
        ((PLANE, "--on", "[-1,inf]^2"), "unbounded"),
        ((PLANE, "--from", "0,0"), "--from and --to"),
        ((PLANE, "--from", "0,x", "--to", "1,1"), "numbers between commas"),
        ((PLANE, "--from", "0,0", "--to", "0,0"), "two different ends"),
        ((SPACE, "--origin", "0,0,0", "--on", "[-1,1]^2"), "two directions, but got 0"),
        ((PLANE, "--on", "[-1,1]^2", "--limit", 10), "more than 10 cells: counting stopped at"),
        ((PLANE, "--on", "[-1,1]^2", "--skeleton"), "--skeleton is about compiled models"),
        ((SPACE, "--on", "[-1,1]^3", "--plot", tmp_path / "x.svg"), "drawn in the plane"),
        ((PLANE, "--on", "[-1,1]^2", "--plot", tmp_path / "x.gif"), "is none"),
    ]
    for arguments, reason in wrong:
        told = call("regions", *arguments, code=2)
        assert reason in told, (arguments, told)
        assert told.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))


def test_pictures_by_depth_have_a_line_for_each_layer(tmp_path: Path) -> None:
    found = hm.regions(hm.load_network(PLANE), on="[-1,1]^2")
    regions_picture(found, path=tmp_path / "depth.svg", colour="depth")
    text = (tmp_path / "depth.svg").read_text("utf-8")
    assert "layer 1" in text
    assert "layer 2" in text
    model = hm.depth_construction(tokens=2, teeth=1, dimension=2, layers=1)
    regions_picture(hm.regions(model, on="[0,1]^2"), path=tmp_path / "built.svg", colour="depth")
    assert "layer 1" in (tmp_path / "built.svg").read_text("utf-8")
    with pytest.raises(hm.RequestError, match="by map, depth or winner"):
        regions_picture(found, path=tmp_path / "x.svg", colour="mood")


def test_the_experiment_counts_what_is_promised(tmp_path: Path) -> None:
    picture = tmp_path / "growth.svg"
    found = json.loads(call("experiment", "--quick", "--seeds", 2, "--json", "--plot", picture))
    assert picture.exists()
    for row in found["constructed"]:
        assert row["counted"] == row["promised"]
    for row in found["random"] + found["equal_parameters"]:
        assert 1 <= row["regions"] <= row["cells"] <= int(row["at_most"])
    alike = [row["parameters"] / row["layers"] for row in found["equal_parameters"]]
    assert max(alike) / min(alike) < 1.06
    told = call("experiment", "--quick", "--seeds", 1)
    assert "1 layer: most regions by" in told
