"""Circuit discovery, scored against proved circuits: what `examples/circuits.py` says of itself."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).resolve().parents[2]))  # examples/ is not installed

from examples import circuits

import hardmax as hm
from hardmax.core import evaluate


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("circuits")


@pytest.fixture(scope="module")
def found(place: Path) -> dict[tuple[str, str], circuits.Score]:
    return circuits.results(circuits.PROGRAMS, str(place))


def test_the_scores_are_those_that_its_docstring_states(
    found: dict[tuple[str, str], circuits.Score],
) -> None:
    told = {}
    for line in (circuits.__doc__ or "").splitlines():
        parts = line.split()
        if len(parts) == 5 and parts[0] in circuits.PROGRAMS:
            told[parts[0], parts[1]] = [float(number) for number in parts[2:]]
    assert set(told) == set(found)
    for case, score in found.items():
        assert [round(n, 2) for n in (score.precision, score.recall, score.area)] == told[case]


def test_patching_never_errs_and_absent_edges_do_nothing(
    place: Path, found: dict[tuple[str, str], circuits.Score]
) -> None:
    """No other edge: exactly, from zero weights. What is missed carries places and lengths."""
    task = circuits.task_of(place / "reverse")
    edges = json.loads((place / "reverse" / "eap_ig.json").read_text())["edges"]
    truth = {name for name, said in edges.items() if said["in_graph"]}
    for (u, v, port), score in task.patched(removed=False).items():
        name = f"{u}->{v}" + (f"<{port}>" if port else "")
        assert score == 0.0 or name in truth
    missed = found["reverse", "patching"].missed
    assert {"a0.h0->m0", "input->m1", "m0->m1"} <= set(missed)
    assert "input->a2.h0<v>" not in missed


def test_removal_is_wrong_about_constants_alone(
    found: dict[tuple[str, str], circuits.Score],
) -> None:
    for (_, method), score in found.items():
        if method == "removal":
            assert all(name.startswith("input->") for name in score.false)
        else:
            assert score.false == ()


def test_its_forward_is_the_model(place: Path) -> None:
    """Right answers, and the numbers that the reference evaluator has for the same stream."""
    folder = place / "sort"
    model, stored = circuits.Model(folder / "lens"), hm.load(folder / "lens/hardmax.safetensors")
    words = ["cab", "bca"]
    logits, _ = model.run(model.embedded(words))
    codes = hm.interop.lens._files.read_lens_parts(folder / "lens").labels.codes
    for word, own in zip(words, logits, strict=True):
        (y,) = np.array(evaluate(stored.transformer, [list(word)]))
        meant = 2 * y * np.array(codes) - np.square(codes)
        assert np.abs(own.numpy() - meant).max() < 1e-9
        assert stored(word) == sorted(word)


def test_areas_and_thresholds_by_hand() -> None:
    """Two true edges and two false ones; one false one ties with a true one."""
    scores = {("a", "b", ""): 1.0, ("a", "c", "q"): 0.5, ("a", "d", ""): 0.5, ("a", "e", ""): 1e-4}
    score = circuits.scored(scores, {"a->b", "a->c<q>"})
    assert (score.precision, score.recall, score.area) == (2 / 3, 1.0, 3.5 / 4)
    assert (score.missed, score.false) == ((), ("a->d",))
    other = circuits.scored(scores, {"a->b", "a->e"})
    assert other.missed == ("a->e",)


def test_it_prints_a_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["circuits.py", "substitution"])
    path = Path(circuits.__file__)
    runpy.run_path(str(path), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["program", "method", "precision", "recall", "AUC", "missed"]
    assert [line.split()[1] for line in lines[1:]] == ["patching", "removal", "EAP", "EAP-IG"]
