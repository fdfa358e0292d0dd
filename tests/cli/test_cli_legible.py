"""Legible models from the command line: compiled, proved block by block, told in words."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result

import hardmax as hm
from hardmax.cli import main

ABC = ("--alphabet", "abc", "--length", "4")
BACK = ("--program", "back = length - 1 - index; tokens.at(back)", *ABC, "--route", "legible")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_compile_and_verify_a_legible_model(tmp_path: Path) -> None:
    place = tmp_path / "back.safetensors"
    assert run("compile", *BACK, "--certify", "-o", place).exit_code == 0
    result = run("verify", place)
    assert result.exit_code == 0
    assert "blocks" in result.stdout
    assert "there is no other edge" in " ".join(result.stdout.split())
    assert hm.load(place).circuit.steps == ("index", "length", "back", "tokens", "answer")


def test_a_trace_in_words_and_in_numbers() -> None:
    result = run("run", *BACK, "abca", "--trace")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "m1.back    back" in result.stdout
    raw = run("run", *BACK, "abca", "--trace", "--raw")
    assert "back=3" in raw.stdout
    assert "m1.back" not in raw.stdout


def test_the_plan_shows_it() -> None:
    result = run("plan", "--program", "reverse", *ABC)
    assert "one step, one component, one named block" in result.stdout


def test_what_the_route_refuses() -> None:
    result = run("compile", *BACK, "--positions", "sinusoidal")
    assert result.exit_code == 2
    assert "one-hot, relative, scalar, and not 'sinusoidal'" in result.stderr
    assert run("compile", *BACK, "--positions", "relative").exit_code == 0


def test_disguise(tmp_path: Path) -> None:
    place, hidden = tmp_path / "back.safetensors", tmp_path / "hidden.safetensors"
    assert run("compile", *BACK, "-o", place).exit_code == 0
    result = run("disguise", place, "-o", hidden, "--rotate", 2, "--distractors", 1, "--seed", 3)
    assert result.exit_code == 0, result.stderr
    assert "along the axes of its frame" in " ".join(result.stdout.split())
    model, certificate = hm.load_certified(hidden)
    assert certificate.verdict is hm.Verdict.PROVED
    assert model.circuit.projection("back").shape[1] == model.transformer.width
    assert "back" in run("run", hidden, "abca", "--trace").stdout
    assert run("verify", hidden).exit_code == 0
    refused = run("disguise", hidden, "-o", tmp_path / "twice.safetensors")
    assert (refused.exit_code, "disguised already" in refused.stderr) == (2, True)
    assert not (tmp_path / "twice.safetensors").exists()
