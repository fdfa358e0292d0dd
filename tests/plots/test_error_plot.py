"""Pictures of the error: they show every peak, the worst point, and both bounds to scale."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.plots import error_picture
from hardmax.plots._error_samples import curve, difference, heat

pytest.importorskip("matplotlib")

Off = Callable[[np.ndarray], np.ndarray]


def compiled(text: str, *sides: tuple[float, float], **options: object) -> hm.Construction:
    return hm.compile(text, on=list(sides), **{"error": 1e-3, **options})


def certificate(model: hm.Construction, share: float = 1.0) -> hm.Certificate:
    """What is measured, and a bound that is this share of the claim."""
    seen = hm.measure(model, 2000)
    bound = share * model.claim.error
    verdict = hm.Verdict.PROVED if share <= 1 else hm.Verdict.UNDECIDED
    return hm.Certificate.about(
        model, verdict=verdict, certified=bound, measured=seen.error, worst=seen.at, method="boxes"
    )


def drawn(model: hm.Construction, place: Path, *rest: hm.Certificate) -> str:
    error_picture(model, *rest, path=place)
    return place.read_text()


# ---------------------------------------------------------------- what is looked at


def test_a_curve_has_its_ends_its_worst_point_and_every_bend() -> None:
    box = hm.Box([-1 / 3], [0.7])
    worst = np.array([0.1234567])
    sharp: Off = lambda p: np.maximum(1 - 1e4 * np.abs(p - worst), 0.0)  # noqa: E731
    x, y = curve(sharp, box, worst, 0)
    assert (x[0], x[-1]) == (-1 / 3, 0.7)
    assert (np.diff(x) > 0).all()
    assert y.max() == 1.0  # at the worst point itself, though no even step is on the peak
    between = np.random.default_rng(0).uniform(worst[0] - 2e-4, worst[0] + 2e-4, size=5000)
    off = np.abs(np.interp(between, x, y[:, 0]) - sharp(between[:, None])[:, 0])
    assert off.max() <= 0.004  # twice what a middle may be off its chord


def test_a_straight_line_needs_no_more_than_the_even_points() -> None:
    x, y = curve(lambda p: 3 * p - 1, hm.Box([0.0], [1.0]), np.array([0.5]), 0)
    assert len(x) <= 2 * 4096 + 1  # each piece is asked once
    assert y.shape == (len(x), 1)


def test_a_curve_ends_though_the_error_is_noise() -> None:
    noise: Off = lambda p: np.sin(1e12 * p)  # noqa: E731
    x, _ = curve(noise, hm.Box([0.0], [1.0]), np.array([0.5]), 0)
    assert len(x) <= 40_000


def test_a_slice_moves_one_coordinate() -> None:
    seen: list[np.ndarray] = []

    def off(points: np.ndarray) -> np.ndarray:
        seen.append(points)
        return points[:, 1:2] ** 2

    curve(off, hm.Box([0, 0, 0], [1, 1, 1]), np.array([0.25, 0.5, 0.75]), 1)
    points = np.concatenate(seen)
    assert set(points[:, 0]) == {0.25}
    assert set(points[:, 2]) == {0.75}
    assert (points[:, 1].min(), points[:, 1].max()) == (0.0, 1.0)


def test_a_cell_shows_its_largest_error_with_its_sign() -> None:
    box = hm.Box([0, 0], [4, 4])
    off: Off = lambda p: np.where((p == [1.5, 3.0]).all(axis=1), -5.0, 0.5)[:, None]  # noqa: E731
    cells = heat(off, box, np.zeros(2), (0, 1), cells=4, steps=2)[..., 0]
    expected = np.full((4, 4), 0.5)
    expected[1, 2] = expected[1, 3] = -5.0  # the point lies on the edge that both share
    assert np.array_equal(cells, expected)


def test_a_heat_map_looks_at_the_corners() -> None:
    off: Off = lambda p: (p[:, :1] * p[:, 1:]) ** 3  # noqa: E731
    cells = heat(off, hm.Box([-1, -2], [1, 3]), np.zeros(2), (0, 1), cells=5, steps=1)[..., 0]
    assert (cells[0, 0], cells[-1, -1], cells[0, -1]) == (8.0, 27.0, -27.0)


def test_the_error_has_its_sign_and_must_be_a_number() -> None:
    model = compiled("x**2", (-1, 1))
    points = np.array([[0.0], [1.0]])
    assert np.array_equal(difference(model)(points), model(points) - points**2)
    low = hm.CallableFunction(lambda x: 0 * x - 1.7e308, ["x"], lipschitz=0.0)
    claim = hm.Claim(low, model.claim.domain, model.claim.ledger)
    high = replace(model.transformer.readout, bias=[1.7e308])
    broken = replace(model, claim=claim, transformer=replace(model.transformer, readout=high))
    with pytest.raises(hm.RequestError, match=r"no finite number at \[1"):
        difference(broken)(np.array([[1.0]]))


# ---------------------------------------------------------------- what is drawn


def test_one_variable(tmp_path: Path) -> None:
    model = compiled("sin(3*x)", (-1, 1))
    text = drawn(model, tmp_path / "error.svg", certificate(model, 0.99))
    claimed = model.claim.error
    for words in (f"claimed ±{claimed:.4g}", f"certified ±{0.99 * claimed:.4g}", "T(x) - f(x)"):
        assert words in text
    at = hm.measure(model, 2000).at[0]
    assert re.search(rf"largest seen [-+.e\d]+ at x = {at:.4g}", text)
    assert "measured &lt;= " in text


def test_two_variables_and_a_fixed_one(tmp_path: Path) -> None:
    model = compiled("x*y + z", (-1, 1), (2, 2), (0, 1))
    text = drawn(model, tmp_path / "error.svg", certificate(model))
    assert "<image" in text
    assert re.search(r"at x = [-.\d]+, z = [-.\d]+<", text)


def test_many_variables_are_cut_through_the_worst_point(tmp_path: Path) -> None:
    model = compiled("max(x, y, z)", (-1, 1), (-1, 1), (0, 1))
    text = drawn(model, tmp_path / "error.svg", certificate(model))
    assert "<image" not in text
    assert all(f">{name}</text>" in text for name in "xyz")


def test_several_outputs_are_told_apart(tmp_path: Path) -> None:
    text = drawn(compiled("x**2, sin(x)", (-1, 1)), tmp_path / "error.svg")
    assert "output y0" in text
    assert "output y1" in text
    plane = drawn(compiled("x + y, x*y", (-1, 1), (-1, 1)), tmp_path / "plane.svg")
    assert "output y1" in plane  # the only one that errs


def test_a_bound_far_from_the_claim_is_left_out(tmp_path: Path) -> None:
    model = compiled("x*y", (-1, 1), (-1, 1))
    near = drawn(model, tmp_path / "near.svg", certificate(model, 2.0))
    assert "certified ±" in near
    for share in (4.0, math.inf):
        far = drawn(model, tmp_path / "far.svg", certificate(model, share))
        assert "certified ±" not in far
        assert "certified: undecided" in far


def test_an_exact_model_has_a_flat_picture(tmp_path: Path) -> None:
    network = hm.ReluNetwork([np.eye(2), np.ones((1, 2))], [np.zeros(2), np.zeros(1)])
    model = hm.compile(network, on="[0,1]^2", error=None)
    exact = replace(model, claim=hm.Claim(network, model.claim.domain, ()))
    assert exact.claim.error == 0.0
    drawn(exact, tmp_path / "flat.svg")
    strip = hm.Claim(network, hm.Box([0, 0], [1, 0]), ())
    drawn(replace(exact, claim=strip), tmp_path / "line.svg")  # a curve of zeros has limits too


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_equal_pictures_are_equal_bytes(tmp_path: Path, kind: str) -> None:
    model = compiled("x*y", (-1, 1), (-1, 1))
    places = [tmp_path / f"{name}.{kind}" for name in ("first", "again")]
    for place in places:
        error_picture(model, certificate(model), path=place, title="x*y")
    first, again = (place.read_bytes() for place in places)
    assert first == again
    assert first.startswith(b"<?xml" if kind == "svg" else b"\x89PNG")
    assert sorted(os.listdir(tmp_path)) == sorted(place.name for place in places)


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    point = compiled("x**2", (0.5, 0.5))
    wide = hm.ReluNetwork([np.ones((1, 10))], [np.zeros(1)])
    many = hm.compile(wide, on="[-1,1]^10", error=1e-3)
    for model, count in ((point, 0), (many, 10)):
        with pytest.raises(hm.RequestError, match=f"over 1 to 9 variables, but {count} vary"):
            error_picture(model, path=tmp_path / "error.svg")
    with pytest.raises(hm.RequestError, match=r"an \.svg, a \.png or a \.pdf"):
        error_picture(compiled("x", (0, 1)), path=tmp_path / "error.gif")
    with pytest.raises(hm.FileError, match="could not be written"):
        error_picture(compiled("x", (0, 1)), path=tmp_path / "nowhere" / "error.svg")
    assert os.listdir(tmp_path) == []
