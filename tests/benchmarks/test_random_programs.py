"""The campaign of random programs in short: nothing wrong, nothing crashes, parts add up."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # benchmarks/ is not installed

from benchmarks.random_programs import fault_of, main, reason_of, run_part, tried

import hardmax as hm
from hardmax.core import ReadOut, Transformer
from hardmax.testing import random_program


def test_random_programs_are_compiled_right():
    found = run_part(20_000, 30)
    assert (found["wrong"], found["crashed"], found["faults"]) == (0, 0, [])
    assert found["right"] >= 25
    assert found["right"] + found["refused"] == found["programs"] == 30
    assert sum(found["reasons"].values()) == found["refused"]


def test_parts_add_up_and_are_kept(tmp_path):
    first, second, both = run_part(0, 3), run_part(3, 3), run_part(0, 6)
    for key in ("programs", "right", "wrong", "crashed", "refused"):
        assert first[key] + second[key] == both[key]
    path = tmp_path / "new" / "part.json"
    assert main(["--start", "0", "--count", "6", "--json", str(path)]) == 0
    assert json.loads(path.read_text()) == both


def test_a_wrong_model_is_found_out():
    drawn = random_program(2)
    model = hm.compile(drawn.program, on=drawn.words)
    assert fault_of(model, drawn, 0) is None
    source = model.transformer
    bias = source.readout.bias + 10.0 * model.claim.error
    readout = ReadOut(source.readout.weights, bias, source.readout.token)
    spoilt = replace(model, transformer=Transformer(source.input, source.sublayers, readout))
    assert "is off by" in fault_of(spoilt, drawn, 0)


def test_a_number_stands_for_the_same_program_in_every_release():
    """Faults are reported by number: whoever replays one must draw the program that failed."""
    lengths = [random_program(number).words.longest for number in range(60)]
    assert lengths == [
        int(digit, 16) for digit in "531336C4356554234638A33CA5A826612666488355815424625346326163"
    ]
    assert set(lengths) == {1, 2, 3, 4, 5, 6, 8, 10, 12}


def test_refusals_are_counted_by_their_reason():
    assert reason_of("The step x may take 20,000 values or more") == "too many values"
    assert reason_of("something else").startswith("other: ")
    refused = [tried(seed) for seed in range(12)]
    assert {"order without positions"} >= {why for what, why in refused if what == "refused"}
    assert np.all([what in ("right", "refused") for what, _ in refused])
