"""ONNX files as networks, against the reference evaluator of the onnx package and PyTorch's."""

from __future__ import annotations

import sys
import warnings
from itertools import pairwise

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from torch import nn

import hardmax as hm
from hardmax.languages import LayeredNetwork, ReluNetwork, load_network
from hardmax.languages.networks import _from_onnx
from hardmax.numerics import exact

RNG = np.random.default_rng(0)


def short(*shape):
    """Numbers k/8, with which neither evaluator rounds."""
    return RNG.integers(-8, 9, size=shape) / 8


def tensor(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def model(nodes, weights, shape, *, opset=17):
    """A graph from x to y with weights in float64."""
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, shape)],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
        [tensor(name, array) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def chain(*layers):
    """Nodes one behind the other: (type, further inputs, attributes)."""
    names = ["x", *[f"h{i}" for i in range(1, len(layers))], "y"]
    return [
        helper.make_node(kind, [before, *inputs], [after], f"{kind.lower()}{i}", **attributes)
        for i, ((kind, inputs, attributes), (before, after)) in enumerate(
            zip(layers, pairwise(names), strict=True)
        )
    ]


def residual():
    return [
        helper.make_node("Conv", ["x", "W", "b"], ["h"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Conv", ["r", "V"], ["g"], pads=[0, 1, 2, 1]),
        helper.make_node("Add", ["g", "x"], ["s"]),
        helper.make_node("Relu", ["s"], ["t"]),
        helper.make_node("Concat", ["t", "r"], ["c"], axis=1),
        helper.make_node("GlobalAveragePool", ["c"], ["y"]),
    ]


NORM = {
    "scale": short(2), "shift": short(2), "mean": short(2), "variance": np.array([0.25, 4.0]),
}  # fmt: skip
GRAPHS = {
    "gemm": (chain(("Gemm", ["A", "a"], {"transB": 1}), ("Relu", [], {}), ("Gemm", ["B"], {})),
             {"A": short(4, 3), "a": short(4), "B": short(4, 2)}, [1, 3]),
    "matmul": (chain(("MatMul", ["A"], {}), ("Add", ["a"], {}), ("Abs", [], {}),
                     ("Sub", ["a"], {}), ("Mul", ["f"], {}), ("Div", ["f"], {}), ("Neg", [], {})),
               {"A": short(3, 4), "a": short(4), "f": np.array(0.5)}, [1, 3]),
    "conv": (chain(("Conv", ["W", "b"], {"strides": [2, 1], "pads": [1, 0, 2, 1], "group": 2,
                                         "dilations": [1, 2], "kernel_shape": [3, 2]}),
                   ("LeakyRelu", [], {"alpha": 0.125}), ("Flatten", [], {}),
                   ("Gemm", ["G"], {})),
             {"W": short(4, 1, 3, 2), "b": short(4), "G": short(48, 2)}, [1, 2, 5, 5]),
    "same upper": (chain(("Conv", ["W"], {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),),
                   {"W": short(2, 1, 2, 3)}, [1, 1, 5, 4]),
    "same lower": (chain(("Conv", ["W"], {"auto_pad": "SAME_LOWER"}),),
                   {"W": short(2, 1, 2, 2)}, [1, 1, 5, 4]),
    "residual": (residual(), {"W": short(2, 2, 3, 3), "b": short(2), "V": short(2, 2, 3, 3)},
                 [1, 2, 4, 4]),
    "max pool": (chain(("MaxPool", [], {"kernel_shape": [3, 2], "strides": [2, 2],
                                        "pads": [1, 0, 1, 1]}), ("Flatten", [], {"axis": 2})),
                 {}, [1, 2, 5, 5]),
    "max pool ceil": (chain(("MaxPool", [], {"kernel_shape": [2, 2], "strides": [2, 2],
                                             "ceil_mode": 1}),), {}, [1, 1, 5, 5]),
    "average pool": (chain(("AveragePool", [], {"kernel_shape": [2, 2]}),
                           ("AveragePool", [], {"kernel_shape": [2, 2], "strides": [2, 2],
                                                "pads": [1, 1, 1, 1], "count_include_pad": 1})),
                     {}, [1, 1, 5, 5]),
    "average pool excluding": (
        chain(("AveragePool", [], {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0],
                                   "strides": [2, 2]}),), {}, [1, 1, 4, 4]),
    "norm": (chain(("Conv", ["W"], {}),
                   ("BatchNormalization", ["scale", "shift", "mean", "variance"],
                    {"epsilon": 0.0}), ("Relu", [], {})),
             {"W": short(2, 1, 2, 2), **NORM}, [1, 1, 3, 3]),
    "clip": (chain(("Clip", ["lo", "hi"], {}), ("Clip", ["", "lo"], {}), ("Max", ["m"], {}),
                   ("Min", ["m", "k"], {})),
             {"lo": np.array(-0.5), "hi": np.array(0.75), "m": short(3), "k": short(1, 1)},
             [1, 3]),
    "shapes": (chain(("Reshape", ["s"], {}), ("Transpose", [], {"perm": [0, 2, 1]}),
                     ("Unsqueeze", ["one"], {}), ("Squeeze", ["one"], {}), ("Identity", [], {}),
                     ("Dropout", [], {}), ("MatMul", ["A"], {}), ("ReduceMean", [], {"axes": [2]}),
                     ("Reshape", ["r"], {})),
               {"s": np.array([0, 2, -1]), "one": np.array([1]), "A": short(2, 4),
                "r": np.array([-1])}, [1, 6]),
    "left factor": ([helper.make_node("Reshape", ["x", "s"], ["h"]),
                     helper.make_node("MatMul", ["L", "h"], ["y"])],
                    {"s": np.array([3, 2]), "L": short(2, 3)}, [1, 6]),
    "constants": ([helper.make_node("Constant", [], ["c"], value=tensor("", short(3))),
                   helper.make_node("Constant", [], ["d"], value_float=0.5),
                   helper.make_node("Transpose", ["W"], ["T"]),
                   helper.make_node("Mul", ["d64", "x"], ["h"]),
                   helper.make_node("Add", ["c", "h"], ["g"]),
                   helper.make_node("MatMul", ["g", "T"], ["y"])],
                  {"W": short(2, 3), "d64": np.array(2.0)}, [1, 3]),
    "slopes": (chain(("PRelu", ["slope"], {}), ("GlobalMaxPool", [], {})),
               {"slope": np.abs(short(2, 1, 1))}, [1, 2, 3, 3]),
    "line": (chain(("Conv", ["W"], {"pads": [1, 1]}), ("MaxPool", [], {"kernel_shape": [2]})),
             {"W": short(2, 2, 3)}, [1, 2, 6]),
}  # fmt: skip


def saved(tmp_path, made, name="network.onnx"):
    path = tmp_path / name
    path.write_bytes(made.SerializeToString())
    return path


def graph_of(name):
    nodes, weights, shape = GRAPHS[name]
    return model(nodes, weights, shape)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_compute_what_the_reference_computes(tmp_path, name):
    """Numbers are short dyadics, so that both are exact."""
    made = graph_of(name)
    network = load_network(saved(tmp_path, made))
    evaluator = ReferenceEvaluator(made)
    for x in RNG.integers(-8, 9, size=(5, network.inputs)) / 4:
        (expected,) = evaluator.run(None, {"x": x.reshape(GRAPHS[name][2])})
        assert network(x).tolist() == expected.ravel().tolist()
        assert network(exact(x)).tolist() == expected.ravel().tolist()


def test_plain_graphs_are_relu_networks(tmp_path):
    made = graph_of("gemm")
    network = load_network(saved(tmp_path, made))
    assert isinstance(network, ReluNetwork)
    weights = GRAPHS["gemm"][1]
    assert network.weights[0].tolist() == weights["A"].tolist()
    assert isinstance(load_network(saved(tmp_path, graph_of("residual"))), LayeredNetwork)


@pytest.mark.parametrize("function", ["Tanh", "Sigmoid"])
def test_functions_keep_their_names(tmp_path, function):
    network = load_network(saved(tmp_path, model(chain((function, [], {})), {}, ["N", 3])))
    (step,) = network.steps().steps
    assert step.name == function.lower()
    assert network.inputs == 3


@pytest.mark.parametrize(
    ("kind", "array"),
    [
        (TensorProto.FLOAT16, np.float16([[1 / 3]])),
        (TensorProto.FLOAT, np.float32([[1 / 3]])),
        (TensorProto.INT8, np.int8([[-3]])),
        (TensorProto.INT64, np.int64([[7]])),
    ],
)
def test_weights_are_widened_without_loss(tmp_path, kind, array):
    network = load_network(saved(tmp_path, model(chain(("MatMul", ["A"], {})), {"A": array}, [1])))
    assert network.weights[0].tolist() == array.astype(float).tolist()
    assert numpy_helper.from_array(array).data_type == kind


def test_bfloat16_is_widened_without_loss(tmp_path):
    made = model(chain(("Mul", ["A"], {})), {}, [1])
    made.graph.initializer.append(
        helper.make_tensor(
            "A", TensorProto.BFLOAT16, [1], np.array([0x3EAB], "<u2").tobytes(), True
        )
    )
    network = load_network(saved(tmp_path, made))
    assert network.weights[0].tolist() == [[0.333984375]]


def test_exported_modules_are_read(tmp_path):
    module = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, 2, 1), nn.Hardtanh(-0.5, 0.5),
        nn.AvgPool2d(2, 1), nn.Flatten(), nn.Linear(8, 3),
    ).double().eval()  # fmt: skip
    path = tmp_path / "module.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # this exporter is deprecated; the other needs onnxscript
        torch.onnx.export(module, (torch.zeros(1, 1, 6, 6).double(),), path, dynamo=False)
    network, direct = load_network(path), LayeredNetwork.from_torch(module, (1, 6, 6))
    x = exact(RNG.integers(-8, 9, size=(3, 36)) / 4)
    assert network(x).tolist() == direct(x).tolist()


def outside(location):
    """A graph whose weight lies in another file."""
    made = model(chain(("MatMul", ["A"], {})), {"A": short(2, 2)}, [1, 2])
    weight = made.graph.initializer[0]
    data = weight.raw_data
    onnx.external_data_helper.set_external_data(weight, location, 8, len(data))
    weight.ClearField("raw_data")
    return made, data


@pytest.mark.parametrize("location", ["weights.bin", "data/weights.bin"])
def test_external_data_inside_the_folder_is_read(tmp_path, location):
    made, data = outside(location)
    (tmp_path / location).parent.mkdir(exist_ok=True)
    (tmp_path / location).write_bytes(bytes(8) + data)
    network = load_network(saved(tmp_path, made))
    assert network.weights[0].T.tobytes() == data
    (tmp_path / location).write_bytes(data)
    with pytest.raises(hm.FileError, match=r"keeps A in bytes 8 to 40 of .*, which has 32"):
        load_network(saved(tmp_path, made))
    (tmp_path / location).unlink()
    with pytest.raises(hm.FileError, match=r"weights.bin was not found"):
        load_network(saved(tmp_path, made))


@pytest.mark.parametrize("location", ["../weights.bin", "data/../weights.bin", "", ".", "/", "C:a"])
def test_external_data_outside_the_folder_is_refused(tmp_path, location):
    folder = tmp_path / "inner"
    folder.mkdir()
    made, data = outside(location)
    for place in (tmp_path / "weights.bin", folder / "weights.bin"):
        place.write_bytes(bytes(8) + data)
    with pytest.raises(hm.FileError, match=r"a link or lies outside its folder: save all data"):
        load_network(saved(folder, made))


def test_absolute_places_and_links_are_refused(tmp_path):
    folder = tmp_path / "inner"
    folder.mkdir()
    made, data = outside(str(tmp_path / "weights.bin"))
    (tmp_path / "weights.bin").write_bytes(bytes(8) + data)
    with pytest.raises(hm.FileError, match="outside its folder"):
        load_network(saved(folder, made))
    (folder / "weights.bin").symlink_to(tmp_path / "weights.bin")
    (folder / "data").symlink_to(tmp_path)
    for location in ("weights.bin", "data/weights.bin"):
        with pytest.raises(hm.FileError, match="a link or lies outside"):
            load_network(saved(folder, outside(location)[0]))


def test_bytes_that_are_read_again_and_again_are_refused(tmp_path, monkeypatch):
    """A small file must not become many large arrays."""
    monkeypatch.setattr(_from_onnx, "LARGEST_INFLATED", 100)
    made, data = outside("weights.bin")
    (tmp_path / "weights.bin").write_bytes(bytes(8) + data)
    for i in range(3):
        made.graph.initializer.append(made.graph.initializer[0])
        made.graph.initializer[-1].name = f"A{i}"
    with pytest.raises(hm.FileError, match="reads 128 bytes out of files with 40"):
        load_network(saved(tmp_path, made))


def doubled(times):
    """x and x, and that again: 2^times numbers from a few nodes."""
    names = ["x", *[f"h{i}" for i in range(1, times)], "y"]
    return model(
        [helper.make_node("Concat", [a, a], [b], axis=1) for a, b in pairwise(names)], {}, [1, 2]
    )


def two_outputs():
    made = graph_of("gemm")
    made.graph.output.append(helper.make_tensor_value_info("h1", TensorProto.DOUBLE, None))
    return made


def without_shape():
    made = graph_of("gemm")
    made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


def strange(kind, array):
    made = model(chain(("Add", ["A"], {})), {}, [1, 2])
    made.graph.initializer.append(helper.make_tensor("A", kind, [1], array))
    return made


def sparse():
    made = graph_of("gemm")
    made.graph.sparse_initializer.append(onnx.SparseTensorProto())
    return made


def foreign():
    made = model(chain(("Relu", [], {})), {}, [1, 2])
    made.graph.node[0].domain = "com.example"
    return made


NORM_INPUTS = ["scale", "shift", "mean", "variance"]
REFUSALS = {
    "operator": (model(chain(("Relu", [], {}), ("Softmax", [], {})), {}, [1, 2]),
                 r"node softmax1 \(Softmax\) is not supported; what is: Abs, Add, "),
    "domain": (foreign(), r"node relu0 \(Relu\) is not supported"),
    "dynamic": (model(chain(("Relu", [], {})), {}, ["N", 1, "height", 4]),
                r"its input x has the dynamic shape \[1, 1, 'height', 4\]"),
    "unknown": (model(chain(("Relu", [], {})), {}, [None, None]), "dynamic shape .*only the batch"),
    "no shape": (without_shape(), "its input x has no shape"),
    "chain": (model(chain(("Gemm", ["A"], {}), ("Gemm", ["A"], {})), {"A": short(3, 2)}, [1, 3]),
              r"node gemm1 \(Gemm\) has weights of shape \(2, 3\), but its input has .* \(1, 2\)"),
    "training": (model(chain(("BatchNormalization", NORM_INPUTS, {"training_mode": 1})), NORM,
                       [1, 2, 1, 1]), r"\(BatchNormalization\) is a batch norm in training mode"),
    "dropout": (model(chain(("Dropout", ["", "yes"], {})), {"yes": np.array(True)}, [1, 2]),
                "at random in training mode"),
    "outputs": (two_outputs(), "it has 1 inputs and 2 outputs"),
    "complex": (strange(TensorProto.COMPLEX64, [1j]), "it holds A as COMPLEX64: save it as FLOAT"),
    "string": (strange(TensorProto.STRING, [b"a"]), "it holds A as STRING"),
    "float8": (strange(TensorProto.FLOAT8E4M3FN, [1.0]), "it holds A as FLOAT8E4M3FN"),
    "sparse": (sparse(), "sparse weights"),
    "missing": (model(chain(("Add", ["nobody"], {})), {}, [1, 2]),
                "reads nobody, which no supported operator makes"),
    "opset": (model(chain(("Relu", [], {})), {}, [1, 2], opset=6), "its opset is 6, before 7"),
    "attribute": (model(chain(("Relu", [], {"slope": 2.0})), {}, [1, 2]),
                  r"\(Relu\) is called in a way that is not supported \(.*'slope'"),
    "product": (model([helper.make_node("Mul", ["x", "x"], ["y"])], {}, [1, 2]),
                "products of computed numbers"),
    "constant": (model([helper.make_node("Identity", ["A"], ["y"])], {"A": short(2)}, [1, 2]),
                 "its output y does not depend on x"),
    "constants": (model([helper.make_node("Add", ["A", "A"], ["y"])], {"A": short(2)}, [1, 2]),
                  "reads only constants"),
    "alpha": (model(chain(("Gemm", ["A"], {"alpha": 2.0})), {"A": short(2, 2)}, [1, 2]),
              "scales by alpha or beta"),
    "large": (model(chain(("Conv", ["W"], {"pads": [1, 1, 1, 1]})), {"W": short(64, 1, 3, 3)},
                    [1, 1, 64, 64]), "too large to be dense: it takes 262,144 x 4,096 numbers"),
    "absurd kernel": (model(chain(("MaxPool", [], {"kernel_shape": [2**40, 2**40],
                                                   "pads": [2**40] * 4})), {}, [1, 1, 2, 2]),
                      "too large to be dense"),
    "absurd input": (model(chain(("Relu", [], {})), {}, [1, 2**50]), "too large to be dense"),
    "doubled": (doubled(60), r"\(Concat\) is too large to be dense"),
    "beyond 2^53": (model(chain(("Add", ["A"], {})), {"A": np.array([2**53 + 1])}, [1, 1]),
                    r"\(Add\) has whole numbers beyond 2\^53 as its summand"),
    "negative": (model(chain(("MaxPool", [], {"kernel_shape": [2, 2], "pads": [-1, 0, 0, 0]})), {},
                       [1, 1, 3, 3]), "must not be negative"),
    "reshape": (model(chain(("Reshape", ["s"], {})), {"s": np.array([5])}, [1, 4]),
                r"\(Reshape\) makes \(5,\) of the shape \(1, 4\)"),
    "computed shape": (model(chain(("Reshape", ["x"], {})), {}, [1, 2]), "shape that is computed"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_what_cannot_be_read_is_named(tmp_path, name):
    made, complaint = REFUSALS[name]
    kinds = (hm.RequestError, hm.ShapeError, hm.FileError)
    with pytest.raises(kinds, match=complaint) as refusal:
        load_network(saved(tmp_path, made))
    assert str(refusal.value).startswith(f"{tmp_path}/network.onnx is no network: ")
    assert str(refusal.value).endswith(".")


def test_damage_is_noticed_or_harmless(tmp_path):
    """A truncated file is refused; a file with one byte changed never raises a foreign error."""
    path = saved(tmp_path, graph_of("norm"))
    whole = path.read_bytes()
    for length in range(0, len(whole), 3):
        path.write_bytes(whole[:length])
        with pytest.raises(hm.FileError, match=r"truncated|opset is None"):
            load_network(path)
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x5A]) + whole[place + 1 :])
        try:
            load_network(path)
        except hm.HardmaxError:
            continue


def test_onnx_is_named_if_it_is_missing(tmp_path, monkeypatch):
    path = saved(tmp_path, graph_of("gemm"))
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(hm.MissingExtra, match=r"pip install 'hardmax\[onnx\]'"):
        load_network(path)
