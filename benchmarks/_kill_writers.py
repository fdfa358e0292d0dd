"""Everything that writes a file, each in a few lines, with what makes its file a whole one."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from click.testing import CliRunner

import hardmax as hm
from hardmax.cli import main as hardmax
from hardmax.geometry.counting import _checkpoint

ON = "[-1,1]^2"


@dataclass(frozen=True)
class Writer:
    """`write` puts a new file at a place, where `old` may stand; `is_new` knows it again.

    `first` makes the old file, or is None where there is none before.
    """

    name: str
    first: Callable[[Path], None] | None
    write: Callable[[Path], None]
    is_new: Callable[[Path], bool]


def writers() -> tuple[Writer, ...]:
    _checkpoint._EVERY = -1.0  # a checkpoint after every piece, however quick
    return (
        Writer("save", _save_old, _save_new, _is_new_model),
        Writer("verify --write", _save_new, _verify, _is_certified),
        Writer("checkpoint", None, _count, _is_count),
        Writer("compile -o", _save_old, _compile, _is_compiled),
        Writer("write_onnx", _draw_old, _write_graph, _is_graph),
        Writer("export of a picture", _draw_old, _draw, _is_drawn),
    )


@cache
def _models() -> tuple[hm.Construction, hm.Construction]:
    old = hm.compile("x", on={"x": (0, 1)}, error=0.1)
    return old, hm.compile("x*y", on={"x": (0, 1), "y": (0, 1)}, error=0.05)


@cache
def _network() -> hm.ReluNetwork:
    rng = np.random.default_rng(3)
    weights = [rng.normal(size=(6, 2)), rng.normal(size=(1, 6))]
    return hm.ReluNetwork(weights, [rng.normal(size=len(W)) / 4 for W in weights])


def _save_old(place: Path) -> None:
    hm.save(_models()[0], place)


def _save_new(place: Path) -> None:
    hm.save(_models()[1], place)


@cache
def _kept(make: Callable[[Path], None], place: Path) -> bytes:
    """What a writer writes, where it always writes the same."""
    make(place)
    data = place.read_bytes()
    place.unlink()
    return data


def _is_new_model(place: Path) -> bool:
    return place.read_bytes() == _kept(_save_new, place.with_name("kept"))


def _call(*arguments: object) -> None:
    result = CliRunner().invoke(hardmax, [str(a) for a in arguments])
    if result.exit_code:
        raise RuntimeError(result.output)


def _verify(place: Path) -> None:
    _call("verify", place, "--write")


def _is_certified(place: Path) -> bool:
    """The seconds in a certificate differ from one to the next."""
    construction, certificate = hm.load_certified(place)
    return certificate is not None and not certificate.altered(construction)


def _count(place: Path) -> None:
    found = hm.regions(_network(), on=ON, checkpoint=place)
    if (found.cells, found.count) != _true_count():
        raise RuntimeError(f"{found.cells} cells")


@cache
def _true_count() -> tuple[int, int]:
    found = hm.regions(_network(), on=ON)
    return found.cells, found.count


def _is_count(place: Path) -> bool:
    """However much of it is done, the count can be gone on with, and is right in the end."""
    copy = place.with_name("copy.npz")
    copy.write_bytes(place.read_bytes())
    _count(copy)
    copy.unlink()
    return True


def _write_graph(place: Path) -> None:
    hm.interop.write_onnx(_models()[1], place)


def _is_graph(place: Path) -> bool:
    return place.read_bytes() == _kept(_write_graph, place.with_name("kept.onnx"))


def _compile(place: Path) -> None:
    bounds = ("--on", "x=0:1", "--on", "y=0:1", "--error", "0.05", "--points", "10")
    _call("compile", "x*y", *bounds, "-o", place)


def _is_compiled(place: Path) -> bool:
    return place.read_bytes() == _kept(_compile, place.with_name("kept.safetensors"))


def _draw_old(place: Path) -> None:
    place.write_bytes(b"<svg/>")


@cache
def _folder_of_keys() -> tempfile.TemporaryDirectory[str]:
    """A folder of its own: other writers clear theirs, and a killed one must not make it anew."""
    folder = tempfile.TemporaryDirectory()
    np.savez(Path(folder.name) / "keys.npz", keys=np.array([[0.0, 0], [1, 0], [0, 1], [1, 1.5]]))
    return folder


def _draw(place: Path) -> None:
    _call("diagram", Path(_folder_of_keys().name) / "keys.npz", "-o", place)


def _is_drawn(place: Path) -> bool:
    return place.read_bytes() == _kept(_draw, place.with_name("kept.svg"))
