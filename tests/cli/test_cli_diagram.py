"""`hardmax diagram`, and the pictures of geometry."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main
from hardmax.plots import diagram_picture, growth_picture, polytope_picture


def call(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["diagram", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done.output if code == 0 else done.stderr


@pytest.fixture
def square(tmp_path: Path) -> Path:
    """The four corners of a square, and its middle, which never wins."""
    path = tmp_path / "keys.npz"
    np.savez(path, keys=np.array([[1.0, 1], [-1, 1], [-1, -1], [1, -1], [0, 0]]))
    return path


def test_a_table_of_cells(square: Path) -> None:
    shown = call(square, "--on", "[-1,1]^2")
    assert (
        "5 keys in 2 dimensions on [-1,1]^2: 4 live, 1 empty, 4 walls, 1 vertices (a fan)" in shown
    )
    assert shown.count(" 0.25 ") == 4
    assert "decided exactly" in shown


def test_json_has_everything(square: Path) -> None:
    (head,) = json.loads(call(square, "--on", "[-1,1]^2", "--json"))["heads"]
    assert head["live"] == [0, 1, 2, 3]
    assert head["empty"] == [4]
    assert head["neighbours"] == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert head["vertices"] == [[0.0, 0.0]]
    assert head["volumes"] == {"0": 1.0, "1": 1.0, "2": 1.0, "3": 1.0}


def test_several_heads_have_a_common_refinement(tmp_path: Path) -> None:
    """Two fans of four cells each, turned against each other: eight cells."""
    angles = np.arange(4) * np.pi / 2
    fans = [np.stack([np.cos(a), np.sin(a)], axis=1) for a in (angles, angles + 0.4)]
    np.savez(tmp_path / "two.npz", keys=np.array(fans))
    picture = tmp_path / "two.svg"
    found = json.loads(call(tmp_path / "two.npz", "-o", picture, "--json"))
    assert found["refinement_cells"] == 8
    assert picture.read_text(encoding="utf-8").count("head 1") == 1
    assert "together 8 cells" in call(tmp_path / "two.npz")


def test_top_k(square: Path, tmp_path: Path) -> None:
    """The two best corners of a square are the ends of a side: four sets."""
    found = json.loads(call(square, "--top-k", 2, "--json"))
    assert sorted(found["cells"]) == [[0, 1], [0, 3], [1, 2], [2, 3]]
    assert "4 sets of 2 keys" in call(square, "--top-k", 2, "-o", tmp_path / "two.svg")
    assert (tmp_path / "two.svg").exists()


def test_pictures_are_written_and_equal_for_equal_input(square: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    for place in (first, second):
        call(square, "--on", "[-2,2]^2", "--temperature", 1, "--temperature", 0.1, "-o", place)
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text(encoding="utf-8").count(">temperature ") == 2
    call(square, "--adjacency", "-o", tmp_path / "joined.png")
    assert (tmp_path / "joined.png").read_bytes().startswith(b"\x89PNG")


def test_polytopes_and_growth_are_drawn(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    solid = hm.Polytope.of(rng.normal(size=(7, 3)))
    both = hm.minkowski_sum([solid, rng.normal(size=(5, 3))]).polytope()
    polytope_picture([solid, both], path=tmp_path / "sum.svg", names=["P", "P + Q"])
    assert f"P + Q: {len(both.vertices)} vertices" in (tmp_path / "sum.svg").read_text("utf-8")
    flat = [hm.Polytope.of(np.array([[0.0, 0], [1, 0], [0, 1]]))]
    polytope_picture(flat, path=tmp_path / "flat.png")
    polytope_picture(hm.Polytope.of([[0, 0, 0], [1, 0, 0], [0, 1, 1]]), path=tmp_path / "3.png")
    lines = {"1 head": ([2, 3], [2, 3]), "2 heads": ([2, 3], [4, 9])}
    growth_picture(lines, bounds={"2 heads": ([2, 3], [4, 9])}, path=tmp_path / "growth.svg")
    text = (tmp_path / "growth.svg").read_text("utf-8")
    assert "2 heads" in text
    assert "exact maximum" in text


def test_refusals(square: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "nan.npz", keys=np.array([[np.nan, 1.0]]))
    np.savez(tmp_path / "other.npz", values=np.eye(2))
    np.savez(tmp_path / "solid.npz", keys=np.eye(3))
    np.savez(tmp_path / "high.npz", keys=np.eye(12))
    np.savez(tmp_path / "heads.npz", keys=np.zeros((2, 3, 2)), biases=np.zeros((3, 3)))
    (tmp_path / "broken.npz").write_bytes(b"PK nothing")
    wrong = [
        ((tmp_path / "none.npz",), "was not found"),
        ((tmp_path / "broken.npz",), "could not be read as arrays"),
        ((tmp_path / "other.npz",), "must hold keys, but it holds values"),
        ((tmp_path / "nan.npz",), "keys hold nan or infinities"),
        ((tmp_path / "high.npz",), "12 dimensions are too many to enumerate"),
        ((tmp_path / "heads.npz",), "biases of shape (3, 3)"),
        ((tmp_path / "solid.npz", "-o", tmp_path / "x.svg"), "drawn in the plane"),
        ((square, "--temperature", 1), "give -o FILE"),
        ((square, "--temperature", 0, "-o", tmp_path / "x.svg"), "larger than 0, but it is 0"),
        ((square, "-o", tmp_path / "x.gif"), "is none"),
        ((square, "--on", "[1,1]^2"), "misses every cell"),
        ((square, "--on", "[0,1]^3"), "has 2 inputs, but the domain has 3"),
        ((square, "--top-k", 9), "from 1 to 5, but it is 9"),
    ]
    for arguments, reason in wrong:
        told = call(*arguments, code=2)
        assert reason in told, (arguments, told)
        assert told.count("\n") == 1
    assert not list(tmp_path.glob("x.*"))


def test_pictures_refuse_what_they_cannot_draw(tmp_path: Path) -> None:
    place = tmp_path / "x.svg"
    plane = hm.power_diagram([[1, 0], [0, 1]])
    with pytest.raises(hm.RequestError, match="one head at a time"):
        diagram_picture([plane, plane], adjacency=True, path=place)
    with pytest.raises(hm.ShapeError, match="at least one"):
        diagram_picture([], path=place)
    with pytest.raises(hm.RequestError, match="two or three dimensions"):
        polytope_picture(hm.Polytope.of(np.eye(4)), path=place)
    with pytest.raises(hm.ShapeError, match="nothing to draw"):
        growth_picture({}, path=place)
    assert not place.exists()
