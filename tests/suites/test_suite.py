"""Suites of ground truth: equal bytes, whole folders, true words, reasons for what is missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import Circuit, Words
from hardmax.languages.programs import ProgramTarget
from hardmax.suites import _model
from hardmax.suites._truth import chosen_words, truth_lines

SMALL = ["histogram", "seen_before"]


def suite(place: Path, programs: list[str] = SMALL, **options: object) -> hm.Suite:
    return hm.write_suite(place, programs=programs, symbols=2, length=3, **options)


def files_of(place: Path) -> dict[str, bytes]:
    return {
        path.relative_to(place).as_posix(): path.read_bytes()
        for path in sorted(place.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "suite"
    assert suite(place).written == tuple(SMALL)
    return place


@pytest.fixture(scope="module")
def for_lens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("made") / "suite"
    suite(place, only="lens")
    return place


def test_two_runs_are_equal_byte_for_byte(made: Path, tmp_path: Path) -> None:
    """Whatever the order in which programs were asked for."""
    suite(tmp_path / "again", list(reversed(SMALL)))
    assert files_of(tmp_path / "again") == files_of(made)
    for name, data in files_of(made).items():
        assert name.endswith(".safetensors") or str(tmp_path.parent).encode() not in data
    certificate = json.loads((made / "histogram" / "certificate.json").read_text())
    assert certificate["seconds"] == 0.0


def test_every_folder_is_proved_again(made: Path) -> None:
    for name in SMALL:
        for home in ("huggingface", "lens"):
            folder = hm.open_folder(made / name / home)
            assert folder.certificate is not None
            assert folder.altered == ()
            assert folder.certify().verdict is hm.Verdict.PROVED
        model, certificate = hm.load_certified(made / name / "hardmax.safetensors")
        assert certificate is not None
        assert not certificate.altered(model)
        assert hm.certify(model).method == "blocks"


def test_the_index_says_what_is_there(made: Path) -> None:
    index = json.loads((made / "index.json").read_text())
    assert index["settings"] == {"symbols": 2, "length": 3, "seed": 0, "only": None}
    assert set(index["versions"]) == {"hardmax", "numpy"}
    for name, record in index["programs"].items():
        there = files_of(made / name)
        assert {path: len(data) for path, data in there.items()} == {
            path: said["bytes"] for path, said in record["files"].items()
        }
    homes = {name: record["homes"] for name, record in index["programs"].items()}
    assert homes["histogram"]["hf"]["format"] == "float32"
    assert homes["seen_before"]["hf"]["format"] == "float32"
    assert homes["seen_before"]["lens"] == {
        **homes["seen_before"]["lens"],
        "format": "float32",
        "method": "blocks",
    }


def test_circuits_are_in_three_forms(made: Path) -> None:
    place = made / "histogram"
    own = Circuit.from_dict(json.loads((place / "circuit.json").read_text())["circuit"])
    assert own == hm.load(place / "hardmax.safetensors").circuit
    lens = json.loads((place / "lens" / "circuit.json").read_text())
    assert json.loads((place / "interpbench.json").read_text()) == lens["interpbench"]
    assert json.loads((place / "eap_ig.json").read_text()) == lens["eap_ig"]
    assert lens["eap_ig"]["edges"]


# ---- words ---------------------------------------------------------------------------------------


def test_words_answers_and_steps_are_those_of_the_model(made: Path) -> None:
    """The label of a step is the coordinate that is lit, or the number that is held."""
    for name in SMALL:
        model = hm.load(made / name / "hardmax.safetensors")
        module, seen = hm.interop.write_torch(model), {}
        for hook in module.step_hooks:
            module.get_submodule(hook).register_forward_hook(
                lambda _m, _g, found, hook=hook, seen=seen: seen.update(
                    {hook: found[0].numpy(force=True)}
                )
            )
        lines = [json.loads(one) for one in (made / name / "words.jsonl").read_text().splitlines()]
        assert sorted(tuple(one["word"]) for one in lines) == sorted(Words("ab", 3, 0))
        for line in lines[1:]:
            ids = module.encode(line["word"])
            seen.clear()
            said = module.decode(module(ids))
            assert said == line["answer"] == model(line["word"])
            for hook, steps in module.step_hooks.items():
                for one in steps:
                    if one["form"] == "share":
                        continue
                    rows = seen[hook][1:, slice(*one["coordinates"])]
                    assert [label_of(row, one) for row in rows] == line["steps"][one["step"]]


def label_of(row: np.ndarray, one: dict) -> str:
    if one["form"] == "one-hot":
        return one["items"][int(row.argmax())]
    return str(round(float(row[0])))


def test_longer_words_come_with_extremes_and_a_seed() -> None:
    words = Words("abcd", 8, 0)
    chosen = chosen_words(words, "x", 1)
    assert len(dict(map(reversed, chosen))) == len(chosen)
    kinds = [kind for kind, _ in chosen]
    assert kinds.count("short") == 1 + 4 + 16 + 64
    longer = [word for kind, word in chosen if kind == "longer"]
    assert {tuple("aaaaaaaa"), tuple("dddddddd"), tuple("aabbccdd")} <= set(longer)
    assert chosen == chosen_words(words, "x", 1)
    assert chosen != chosen_words(words, "x", 2)
    assert chosen != chosen_words(words, "y", 1)


def test_words_without_an_answer_say_why() -> None:
    s = hm.programs.Sequence()
    lonely = hm.programs.Program((hm.programs.there(s.tokens) == "a").only(s.index))
    circuit = hm.compile(hm.programs.copy, alphabet="ab", length=2, route="legible").circuit
    words = [("short", ("a", "a")), ("short", ("a", "b"))]
    target = ProgramTarget(lonely, Words("ab", 2), closed=True)
    first, second = map(json.loads, truth_lines(target, circuit, words))
    assert set(first) == {"kind", "word", "undefined"}
    assert second["answer"] == [0, 0]


# ---- interrupted, altered, left out --------------------------------------------------------------


def test_an_interrupted_suite_holds_whole_folders_and_goes_on(
    for_lens: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, ran = tmp_path / "suite", []
    own = _model._home

    def stopped(home: str, *rest: object) -> object:
        ran.append(home)
        if len(ran) == 2:  # in the second program, when much of its folder is there
            raise KeyboardInterrupt
        return own(home, *rest)

    monkeypatch.setattr(_model, "_home", stopped)
    with pytest.raises(KeyboardInterrupt):
        suite(place, only="lens")
    assert sorted(path.name for path in place.iterdir()) == [SMALL[0], "index.json"]
    ran[:] = ["-"] * 10
    suite(place, only="lens")
    assert len(ran) == 11  # the first program was kept
    assert files_of(place) == files_of(for_lens)


def test_a_folder_that_its_index_does_not_know_is_made_again(
    for_lens: Path, tmp_path: Path
) -> None:
    suite(tmp_path / "suite", only="lens")
    altered = tmp_path / "suite" / "histogram" / "words.jsonl"
    altered.write_text("{}\n")
    (tmp_path / "suite" / "seen_before" / "lens" / "config.json").unlink()
    suite(tmp_path / "suite", only="lens")
    assert files_of(tmp_path / "suite") == files_of(for_lens)
    place = tmp_path / "suite" / "index.json"
    for forged in (3, {}, {"homes": 3}, {"homes": {"lens": 3}}, {"left_out": "a lie"}):
        index = json.loads(place.read_text())
        if isinstance(forged, dict) and "homes" in forged:
            forged |= {"files": index["programs"]["histogram"]["files"]}
        index["programs"]["histogram"] = forged
        place.write_text(json.dumps(index))
        suite(tmp_path / "suite", SMALL[:1], only="lens")
        assert files_of(tmp_path / "suite") == files_of(for_lens)


def test_what_fits_no_home_or_is_not_proved_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise hm.RequestError("No home fits.")

    own = hm.Folder.certify
    undecided = hm.Verdict.UNDECIDED
    monkeypatch.setitem(_model._WRITERS, "lens", refuse)
    monkeypatch.setattr(
        hm.Folder,
        "certify",
        lambda self: replace(own(self), verdict=undecided, advice="Raise the budget."),
    )
    monkeypatch.setattr(_model, "LARGEST", 20_000)
    found = suite(tmp_path / "suite", ["histogram", "addition"])
    assert found.written == ("histogram",)
    assert set(found.without) == {"histogram in hf", "histogram in lens"}
    index = json.loads((tmp_path / "suite" / "index.json").read_text())["programs"]
    homes = index["histogram"]["homes"]
    assert homes["lens"] == {"left_out": "float32: No home fits. float64: No home fits."}
    assert homes["hf"]["left_out"].startswith("float32: not proved. Raise the budget.")
    assert not [one for one in (tmp_path / "suite" / "histogram").iterdir() if one.is_dir()]
    assert "padded parameters, and a suite takes up to" in index["addition"]["left_out"]
    assert not (tmp_path / "suite" / "addition").exists()


def test_what_no_settings_are_is_refused(made: Path, tmp_path: Path) -> None:
    for options, said in (
        ({"symbols": 1}, "symbols is a whole number from 2 to 26, not 1"),
        ({"length": True}, "length is a whole number from 1 to 100, not True"),
        ({"seed": -1}, "seed is a whole number from 0, not -1"),
        ({"only": "onnx"}, "only is one of hf, lens, not 'onnx'"),
        ({"programs": "sort"}, r"a list of names, such as \['sort'\]"),
        ({"programs": []}, "No program is named; the gallery has reverse, "),
        ({"programs": ["rot13"]}, "There is no program 'rot13'; the gallery has reverse, "),
    ):
        with pytest.raises(hm.RequestError, match=said):
            hm.write_suite(tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()
    with pytest.raises(hm.FileError, match="holds a suite of other settings or versions"):
        hm.write_suite(made, programs=SMALL, symbols=3)
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(hm.FileError, match=r"holds notes\.txt, which is not ours"):
        suite(tmp_path)
    with pytest.raises(hm.FileError, match=r"notes\.txt is a file, and a folder is needed"):
        suite(tmp_path / "notes.txt")
    for text in ("[", "[]", "{}"):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(hm.FileError, match=r"has an index\.json that is none of a suite"):
            suite(tmp_path)


def test_only_one_tool(for_lens: Path) -> None:
    assert (for_lens / "histogram" / "lens").is_dir()
    assert not (for_lens / "histogram" / "huggingface").exists()


# ---- folders for TransformerLens are proved ------------------------------------------------------


def test_lens_weights_that_are_not_the_construction_s_are_refused(tmp_path: Path) -> None:
    """Config and names fit; one weight is another one."""
    from safetensors.numpy import load_file, save_file

    model = hm.compile(hm.programs.reverse, alphabet="ab", length=3, route="legible")
    hm.interop.export_lens_files(model, tmp_path)
    assert hm.certify_folder(tmp_path).statements
    tensors = load_file(tmp_path / "model.safetensors")
    tensors["blocks.0.attn.W_O"][0, 0, -1] += 2.0**-40
    save_file(tensors, tmp_path / "model.safetensors")
    with pytest.raises(hm.FileError, match=r"weights blocks\.0\.attn\.W_O that are not those of"):
        hm.certify_folder(tmp_path)


def test_the_writer_of_a_suite_tells_how_far_it_is(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    suite(tmp_path / "s", only="lens", progress=lambda *said: told.append(said))
    assert told == [("histogram", 0, 2), ("seen_before", 1, 2)]
