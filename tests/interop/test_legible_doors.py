"""Legible models go through the doors that others go through, and answer as the program there."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Words, fingerprint
from hardmax.interop import export_lens_files, read_huggingface, read_onnx, write_huggingface
from hardmax.interop.lens._files import read_lens_parts

WORDS = [word for word in Words("ab", 3) if len(word)]


@cache
def model(name: str) -> hm.Construction:
    return hm.compile(getattr(p, name), alphabet="ab", length=3, route="legible", float="float32")


@pytest.mark.parametrize("name", ["reverse", "histogram"])
def test_torch_and_onnx_answer_as_the_program(name: str, tmp_path: Path) -> None:
    import onnxruntime

    program, module = getattr(p, name), hm.interop.write_torch(model(name), "float32")
    hm.interop.write_onnx(model(name), tmp_path / "m.onnx", dtype="float32")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    for word in WORDS:
        said = list(program(word))
        assert module.decode(module(module.encode([word]))) == [said]
        ids = np.array([["ab".index(symbol) for symbol in word]])
        (rows,) = session.run(["outputs"], {"ids": ids})
        assert model(name).claim.target.decode(rows[0]) == said
    hm.interop.write_onnx(model(name), tmp_path / "exact.onnx", dtype="float64")
    again = read_onnx(tmp_path / "exact.onnx")
    assert fingerprint(again) == fingerprint(model(name).transformer)


@pytest.mark.parametrize("name", ["reverse", "histogram"])
def test_folders_are_proved_and_labels_are_kept(name: str, tmp_path: Path) -> None:
    written = write_huggingface(model(name), tmp_path / "t5", "t5")
    assert hm.certify_folder(written.folder).verdict is hm.Verdict.PROVED
    folder = read_huggingface(written.folder)
    assert folder.class_name == "T5ForTokenClassification"
    export_lens_files(model(name), tmp_path / "lens")
    parts = read_lens_parts(tmp_path / "lens")
    assert set(parts.legend["blocks.0.hook_resid_post"]) >= set(model(name).legend.coordinates)


@pytest.mark.parametrize("home", ["gpt2", "llama"])
def test_causal_homes_say_that_heads_look_ahead(home: str, tmp_path: Path) -> None:
    with pytest.raises(hm.RequestError, match="does not fit: its heads look at later tokens"):
        write_huggingface(model("reverse"), tmp_path, home)
