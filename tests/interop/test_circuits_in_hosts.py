"""The circuit that an export carries is that of the host's own model: its hooks hold the steps.

For every block: what the host has in the stated coordinates behind the stated hook is the code of
what the step is, on words whose steps are known from the target alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax import programs as p
from hardmax.core import GIVEN, Attention, Circuit, FeedForward, Transformer, fingerprint
from hardmax.interop._hooks import StepHooks
from hardmax.interop.huggingface._circuit import host_circuit
from hardmax.interop.huggingface._following import NO_STEP
from hardmax.interop.huggingface._home import ids_of as ids_of_symbols
from hardmax.interop.huggingface._labels import labels_of
from hardmax.interop.huggingface._prepare import prepared
from hardmax.interop.huggingface._t5 import T5
from hardmax.interop.lens._files import read_lens_parts
from hardmax.numerics import FLOAT64

Stream = Callable[[str], np.ndarray]  # the name of a hook -> words x symbols x coordinates

PROGRAMS = {
    "reverse": (p.reverse, "abc", 4),
    "sort_by_frequency": (p.sort_by_frequency, "ab", 4),
    "dyck": (p.shuffle_dyck(["()"]), "()", 4),
    "previous": (p.shift(1), "abc", 4),
    "histogram": (p.histogram, "abc", 4),
}


@cache
def model(name: str) -> hm.Construction:
    program, alphabet, length = PROGRAMS[name]
    return hm.compile(program, alphabet=alphabet, length=length, route="legible")


def some_words(name: str) -> list[list[str]]:
    _, alphabet, length = PROGRAMS[name]
    return [list(word) for word in hm.Words(alphabet, length) if len(word) == length][::3]


def assert_steps_are_held(
    name: str, circuit: Circuit, hooks: StepHooks, stream: Stream, within: float
) -> None:
    """Every block of a step, in every place that `hooks` gives it."""
    target, source = model(name).claim.target, model(name).transformer.input
    steps = target.steps()
    known = np.array([steps.values(source.indices(word)) for word in some_words(name)], dtype=float)
    block_of = {(b.name, b.first): b for b in circuit.blocks}
    selected: dict[int, np.ndarray] = {}  # by the step: how many its heads select, together
    seen = 0
    for hook, held in hooks.items():
        numbers = stream(hook)
        for one in held:
            first, stop = one["coordinates"]
            block = block_of[one["step"], first]
            assert one["items"] == list(block.labels)
            assert one["form"] == block.form
            found, seen = numbers[..., first:stop], seen + 1
            if block.form == "share":
                count = 1 / found[..., 0] - 1
                selected[block.step] = selected.get(block.step, 0.0) + count
                assert np.abs(count - count.round()).max() <= 30 * within  # d(1/s) = -ds/s^2
            elif block.step != NO_STEP:
                codes = np.array([[block.code(v) for v in row] for row in known[:, block.step]])
                assert np.abs(found - codes).max() <= within
    assert seen == len(circuit.blocks)
    for step, count in selected.items():
        if steps.steps[step - GIVEN].kind == "count":
            assert (count.round() == known[:, step]).all()


# ---- homes of Hugging Face -----------------------------------------------------------------------


def module_inputs(
    host: torch.nn.Module, ids: torch.Tensor, names: Iterable[str]
) -> dict[str, np.ndarray]:
    """What modules are given."""
    seen: dict[str, np.ndarray] = {}

    def keep(name: str) -> Callable[..., None]:
        return lambda _module, given: seen.update({name: given[0].numpy(force=True).copy()})

    handles = [host.get_submodule(n).register_forward_pre_hook(keep(n)) for n in names]
    with torch.no_grad():
        host(ids)
    for handle in handles:
        handle.remove()
    return seen


def folder_of(name: str, home: str, place: Path) -> hm.interop.StoredHost:
    hm.interop.write_huggingface(model(name), place, home)
    return hm.interop.read_huggingface(place)


def ids_of(name: str) -> torch.Tensor:
    """The start token's number comes after the alphabet's and that of padding."""
    source = model(name).transformer.input
    start = len(source.alphabet) + 1
    return torch.tensor([[start, *source.indices(word)] for word in some_words(name)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_t5_holds_the_steps_where_its_circuit_says(name: str, tmp_path: Path) -> None:
    stored = folder_of(name, "t5", tmp_path)
    streams = module_inputs(stored.load(), ids_of(name), stored.hooks)
    assert_steps_are_held(
        name, stored.circuit, stored.hooks, lambda hook: streams[hook][:, 1:], 1e-6
    )


@pytest.mark.parametrize("home", ["gpt2", "llama"])
def test_language_models_hold_them_too(home: str, tmp_path: Path) -> None:
    """A program that looks back alone; Llama's positions come from within, GPT-2's from a table."""
    stored = folder_of("previous", home, tmp_path)
    streams = module_inputs(stored.load(), ids_of("previous"), stored.hooks)
    held = {name: stream[:, 1:] for name, stream in streams.items()}
    assert_steps_are_held("previous", stored.circuit, stored.hooks, held.__getitem__, 1e-3)
    assert {node.name for node in stored.circuit.nodes if node.name == "m0.positions"} == (
        {"m0.positions"} if home == "llama" else set()
    )


@pytest.mark.parametrize("name", ["sort_by_frequency", "dyck"])
def test_heads_stand_in_the_slots_that_their_nodes_name(name: str, tmp_path: Path) -> None:
    """A head writes into the coordinates of its node's blocks alone, and other slots write none."""
    stored = folder_of(name, "t5", tmp_path)
    host, circuit = stored.load(), stored.circuit
    heads = {node.name: node for node in circuit.nodes if node.name.startswith("a")}
    for i, block in enumerate(host.transformer.encoder.block):
        attention = block.layer[0].SelfAttention
        written = attention.o.weight.numpy(force=True)
        for slot, columns in enumerate(np.split(written, attention.n_heads, axis=1)):
            node = heads.pop(f"a{i}.h{slot}", None)
            numbers = () if node is None else node.writes
            allowed = {k for n in numbers for k in circuit.blocks[n].coordinates}
            assert set(np.flatnonzero(columns.any(axis=1)).tolist()) <= allowed
            assert columns.any() == bool(allowed)
    assert not heads


def test_heads_of_two_masks_are_found_in_their_slots() -> None:
    """Slots belong to masks, so that heads are turned round and leave gaps: the first head of
    `count2` sees earlier tokens only, and so does that of the answer.
    """
    given = model("sort_by_frequency")
    layers = list(given.transformer.sublayers)
    for number in (3, 6):
        first, *rest = layers[number].heads
        layers[number] = Attention([replace(first, causal=True), *rest])
    mixed = Transformer(given.transformer.input, layers, given.transformer.readout)
    labels = labels_of(given.claim.target, FLOAT64)
    fitted = prepared(replace(given, transformer=mixed), FLOAT64, labels, T5.abilities)
    written = T5.write(fitted, FLOAT64, labels, ids_of_symbols(fitted.transformer), "ballast")
    circuit, config = host_circuit(written.construction, "t5"), written.config
    heads = {node.name: node for node in circuit.nodes if node.name.startswith("a")}
    assert list(heads) == ["a0.h0", "a1.h1", "a3.h2", "a3.h1", "a5.h2"]
    for name, node in heads.items():
        layer, slot = (int(part) for part in name[1:].split(".h"))
        own = f"transformer.encoder.block.{layer}.layer.0.SelfAttention.o.weight"
        columns = np.split(written.tensors[own], config["num_heads"], axis=1)[slot]
        coordinates = {k for n in node.writes for k in circuit.blocks[n].coordinates}
        assert set(np.flatnonzero(columns.any(axis=1)).tolist()) == coordinates


def test_a_circuit_follows_when_dead_parts_are_dropped() -> None:
    """A head and units that write nothing, put before those that work, and a node of them."""
    given = model("sort_by_frequency")
    width, layers, circuit = (
        given.transformer.width,
        list(given.transformer.sublayers),
        given.circuit,
    )
    head = layers[3].heads[0]
    layers[3] = Attention([replace(head, output=np.zeros_like(head.output)), *layers[3].heads])
    units, none = layers[4], np.zeros((2, width))
    layers[4] = FeedForward(
        np.concatenate([none, units.inner]),
        np.concatenate([[1.0, 1.0], units.inner_bias]),
        np.concatenate([none.T, units.outer], axis=1),
        units.outer_bias,
    )
    moved = {3: 1, 4: 2}
    nodes = [
        replace(n, first=n.first + moved.get(n.sublayer, 0), stop=n.stop + moved.get(n.sublayer, 0))
        for n in circuit.nodes
    ]
    dead = replace(nodes[2], name="m2.nothing", sublayer=4, first=0, stop=2, reads=(), writes=(10,))
    idle = replace(circuit.blocks[0], name="nothing", sublayer=4)
    nodes[-1:-1] = [dead]
    padded = replace(
        given,
        transformer=Transformer(given.transformer.input, layers, given.transformer.readout),
        circuit=replace(circuit, nodes=tuple(nodes), blocks=(*circuit.blocks, idle)),
    )
    labels = labels_of(given.claim.target, FLOAT64)
    one, other = (prepared(c, FLOAT64, labels, T5.abilities) for c in (given, padded))
    assert other.circuit == one.circuit
    assert fingerprint(other.transformer) == fingerprint(one.transformer)


def test_what_a_hook_writes_into_the_stream_is_an_intervention(tmp_path: Path) -> None:
    """In a stock T5: the block of a step overwritten, in place, where its circuit says."""
    program = p.parse_program("back = length - 1 - index; tokens.at(back)")
    model = hm.compile(program, alphabet="abc", length=4, route="legible")
    hm.interop.write_huggingface(model, tmp_path, "t5")
    stored = hm.interop.read_huggingface(tmp_path)
    host, block = stored.load(), stored.circuit.blocks_of("back")[0]
    (hook,) = (h for h, held in stored.hooks.items() if any(one["step"] == "back" for one in held))

    def overwrite(_module: object, given: tuple[torch.Tensor]) -> None:
        given[0][:, 2, block.first : block.stop] = torch.tensor(block.code(3), dtype=torch.float64)

    host.get_submodule(hook).register_forward_pre_hook(overwrite)
    start = len(model.transformer.input.alphabet) + 1
    ids = torch.tensor([[start, *model.transformer.input.indices("abca")]])
    with torch.no_grad():
        said = [stored.labels[k] for k in host(ids).logits[0, 1:].argmax(dim=-1)]
    assert said == program("abca", where={"back": {1: 3}}) != program("abca")


def test_a_circuit_json_that_was_altered_is_refused(tmp_path: Path) -> None:
    folder_of("histogram", "t5", tmp_path / "t5")
    hm.interop.export_lens_files(model("histogram"), tmp_path / "lens")
    for kind, read in (("t5", hm.interop.read_huggingface), ("lens", read_lens_parts)):
        place = tmp_path / kind / "circuit.json"
        record = json.loads(place.read_text())
        record["hooks"] = {name: [] for name in record["hooks"]}
        place.write_text(json.dumps(record))
        with pytest.raises(hm.FileError, match=r"has a circuit\.json that is not that of"):
            read(tmp_path / kind)
        place.unlink()
        read(tmp_path / kind)  # it is for people and tools, and need not be there


def test_compact_models_have_no_circuit(tmp_path: Path) -> None:
    compact = hm.compile(p.histogram, alphabet="ab", length=3)
    hm.interop.write_huggingface(compact, tmp_path / "t5", "t5")
    hm.interop.export_lens_files(compact, tmp_path / "lens")
    module = hm.interop.write_torch(compact)
    stored = hm.interop.read_huggingface(tmp_path / "t5")
    assert (stored.circuit, stored.hooks, module.circuit, module.step_hooks) == (None, {}, None, {})
    assert not list(tmp_path.glob("*/circuit.json"))
    (tmp_path / "t5" / "circuit.json").write_text("{}")
    with pytest.raises(hm.FileError, match=r"has a circuit\.json, but its model has no circuit"):
        hm.interop.read_huggingface(tmp_path / "t5")


# ---- TransformerLens, by its files ---------------------------------------------------------------


def lens_streams_of(tensors: dict[str, np.ndarray], ids: np.ndarray, layers: int) -> dict:
    """What the hooks of a HookedTransformer without norms hold, by its own equations."""
    tokens = ids.shape[1]
    stream = tensors["embed.W_E"][ids] + tensors["pos_embed.W_pos"][:tokens]
    seen = {"blocks.0.hook_resid_pre": stream}
    for i in range(layers):
        own = f"blocks.{i}"
        q, k, v = (
            np.einsum("btd,hdk->bhtk", stream, tensors[f"{own}.attn.W_{one}"]) for one in "QKV"
        )
        scores = q @ k.swapaxes(-1, -2)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (weights / weights.sum(axis=-1, keepdims=True)) @ v
        stream = stream + np.einsum("bhtk,hkd->btd", mixed, tensors[f"{own}.attn.W_O"])
        seen[f"{own}.hook_resid_mid"] = stream
        hidden = stream @ tensors[f"{own}.mlp.W_in"] + tensors[f"{own}.mlp.b_in"]
        stream = stream + np.maximum(hidden, 0) @ tensors[f"{own}.mlp.W_out"]
        stream = stream + tensors[f"{own}.mlp.b_out"]
        seen[f"{own}.hook_resid_post"] = stream
    return seen


@pytest.mark.parametrize("name", PROGRAMS)
def test_lens_files_hold_the_steps_where_their_circuit_says(name: str, tmp_path: Path) -> None:
    hm.interop.export_lens_files(model(name), tmp_path)
    parts = read_lens_parts(tmp_path)
    proved = hm.certify_folder(tmp_path)  # whose circuit is a statement of the certificate
    assert (proved.verdict.name, proved.method) == ("PROVED", "blocks")
    record = json.loads((tmp_path / "circuit.json").read_text())
    circuit = Circuit.from_dict(record["circuit"])
    assert circuit == parts.construction.circuit
    streams = lens_streams_of(parts.tensors, ids_of(name).numpy(), parts.sizes.n_layers)
    held = {hook: stream[:, 1:] for hook, stream in streams.items()}
    assert_steps_are_held(name, circuit, record["hooks"], held.__getitem__, 1e-9)
    for node in circuit.nodes:
        if node.name.startswith("a"):
            layer, head = (int(part) for part in node.name[1:].split(".h"))
            written = parts.tensors[f"blocks.{layer}.attn.W_O"][head].any(axis=0)
            own = {k for n in node.writes for k in circuit.blocks[n].coordinates}
            assert set(np.flatnonzero(written).tolist()) == own
    assert record["interpbench"] == [list(pair) for pair in circuit.to_interpbench()]
    assert record["eap_ig"] == circuit.to_eap_ig()


# ---- PyTorch, JAX, ONNX --------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_torch_modules_hold_the_steps_where_their_circuit_says(name: str, tmp_path: Path) -> None:
    module = hm.interop.write_torch(model(name))
    seen: dict[str, np.ndarray] = {}
    for hook in module.step_hooks:
        module.get_submodule(hook).register_forward_hook(
            lambda _m, _given, made, hook=hook: seen.update({hook: made.numpy(force=True)[:, 1:]})
        )
    module(module.encode(some_words(name)))
    assert module.circuit == model(name).circuit
    assert_steps_are_held(name, module.circuit, module.step_hooks, seen.__getitem__, 1e-9)


def standalone(name: str, folder: Path, framework: str) -> tuple[Circuit, StepHooks]:
    hm.interop.write_standalone(model(name), folder, framework)
    config = json.loads((folder / "config.json").read_text())
    return Circuit.from_dict(config["circuit"]), config["hooks"]


def test_a_folder_for_torch_holds_the_steps_where_its_circuit_says(tmp_path: Path) -> None:
    """Its modules return what they add, and nobody else writes into a block."""
    from hardmax.interop.standalone.torch_model import Model

    circuit, hooks = standalone("sort_by_frequency", tmp_path, "torch")
    module, seen = Model.load(tmp_path), {}
    for hook in hooks:
        module.get_submodule(hook).register_forward_hook(
            lambda _m, _given, made, hook=hook: seen.update({hook: made.numpy(force=True)[:, 1:]})
        )
    module(module.encode(some_words("sort_by_frequency")))
    assert_steps_are_held("sort_by_frequency", circuit, hooks, seen.__getitem__, 1e-9)


def test_a_folder_for_jax_holds_the_steps_where_its_circuit_says(tmp_path: Path) -> None:
    """Its function, ended behind a sublayer, and read as it stands there."""
    from safetensors.numpy import load_file

    from hardmax.interop.standalone import jax_model

    circuit, hooks = standalone("reverse", tmp_path, "jax")
    structure = json.loads((tmp_path / "config.json").read_text())["structure"]
    arrays = load_file(tmp_path / "params.safetensors")
    width = len(arrays["readout.weights"])
    arrays |= {"readout.weights": np.eye(width), "readout.bias": np.zeros(width)}
    ids = ids_of("reverse").numpy()[:, 1:]

    def stream(hook: str) -> np.ndarray:
        count = 0 if hook == "input" else int(hook.removeprefix("sublayers.")) + 1
        ended = {**structure, "dtype": "float32", "layers": structure["layers"][:count]}
        return np.asarray(jax_model.run(ended, jax_model.tree(ended, arrays), ids))

    assert_steps_are_held("reverse", circuit, hooks, stream, 1e-5)


def test_the_graph_of_onnx_holds_the_steps_where_its_circuit_says(tmp_path: Path) -> None:
    import onnx
    import onnxruntime

    hm.interop.write_onnx(model("sort_by_frequency"), tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx")
    texts = {prop.key: prop.value for prop in graph.metadata_props}
    hooks = json.loads(texts["hardmax.hooks"])
    circuit = Circuit.from_dict(json.loads(texts["hardmax.circuit"]))
    for hook in hooks:
        shown = onnx.helper.make_tensor_value_info(hook, onnx.TensorProto.DOUBLE, None)
        graph.graph.output.append(shown)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    ids = ids_of("sort_by_frequency").numpy()[:, 1:]

    def stream(hook: str) -> np.ndarray:
        return session.run([hook], {"ids": ids})[0][:, 1:]

    assert_steps_are_held("sort_by_frequency", circuit, hooks, stream, 1e-9)
