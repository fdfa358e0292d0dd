"""Commands that take a network take ONNX files, too, and refuse pickles by name."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import hardmax as hm
from hardmax.cli import main


@pytest.fixture
def fold(tmp_path):
    """|x| + |y| as an ONNX file."""
    weights = {
        "A": np.float32([[1, 0], [-1, 0], [0, 1], [0, -1]]),
        "a": np.zeros(4, np.float32),
        "B": np.ones((4, 1), np.float32),
    }
    nodes = [
        helper.make_node("Gemm", ["x", "A", "a"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "B"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "fold",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    path = tmp_path / "fold.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def call(*arguments, code=0):
    done = CliRunner().invoke(main, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else done.stderr


def test_onnx_files_are_networks_for_every_command(fold, tmp_path):
    counted = json.loads(call("regions", fold, "--on", "[-1,1]^2", "--json"))
    assert (counted["cells"], counted["regions"]) == (4, 4)
    assert "attention" in call("plan", fold, "--on", "[-1,1]^2")
    model = tmp_path / "model.safetensors"
    call("compile", fold, "--on", "[-1,1]^2", "--error", "1e-2", "-o", model)
    assert model.exists()
    assert "2-4-1" in call("show", fold)
    assert "is no compiled model" in call("run", fold, "0", "0", code=2)


def test_a_model_carries_its_layered_target(tmp_path):
    """What `verify` reads from the file is the network, bit for bit."""
    weights, biases = [[[1.0], [-0.3]], [[0.1, 2.0]]], [[0.5, 0.0], [0.25]]
    plain = hm.ReluNetwork(weights, biases)
    layered = hm.LayeredNetwork(plain.steps())
    model = hm.compile(plain, on="[-1,1]^1", error=1e-2)
    model = replace(model, claim=replace(model.claim, target=layered))
    hm.save(model, tmp_path / "model.safetensors")
    target = hm.load(tmp_path / "model.safetensors").claim.target
    assert isinstance(target, hm.LayeredNetwork)
    before, after = layered.encode(), target.encode()
    assert after.text == before.text == "layered network 1-1 of 3 steps"
    assert list(after.tensors) == list(before.tensors)
    assert all(after.tensors[name].tobytes() == a.tobytes() for name, a in before.tensors.items())
    assert "proved" in call("verify", tmp_path / "model.safetensors")


@pytest.mark.parametrize("suffix", ["pt", "pth", "pkl"])
def test_pickles_are_refused_by_name(tmp_path, suffix):
    path = tmp_path / f"network.{suffix}"
    path.write_bytes(b"\x80\x04.")
    for command in ("regions", "compile", "plan"):
        assert "is a pickle" in call(command, path, "--on", "[-1,1]^2", code=2)
