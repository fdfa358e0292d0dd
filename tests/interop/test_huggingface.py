"""Folders for stock classes: what is written runs there, and what is read is what was written."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import (
    Attention,
    FeedForward,
    Head,
    Rotary,
    Transformer,
    Words,
    evaluate,
    fingerprint,
    trace_sequence,
)
from hardmax.interop import read_huggingface, read_safetensors, write_huggingface
from hardmax.interop.huggingface._fold import trimmed_head
from hardmax.interop.huggingface._tensors import from_bytes, to_bytes
from hardmax.numerics import format_named

ALPHABET, LENGTH = "abc", 3
FITS = [  # programs by the home that takes them
    *[("t5", name) for name in ("reverse", "histogram", "sort", "seen_before", "fraction")],
    *[(home, name) for home in ("gpt2", "llama") for name in ("shift", "seen_before", "fraction")],
]


PROGRAMS = {
    "reverse": p.reverse,
    "histogram": p.histogram,
    "sort": p.sort,
    "seen_before": p.seen_before,
    "shift": p.program(lambda s: s.tokens.at(s.index - 1)),
    "fraction": p.fraction_so_far("a"),
    "dyck": p.dyck(["()", "[]"]),
}


@cache
def model(name: str) -> hm.Construction:
    if name == "product":
        return hm.compile("x*y", on="[-1,1]^2", error=1e-2, float="float32")
    if name == "relu":
        rng = np.random.default_rng(4)
        network = hm.ReluNetwork(
            [rng.normal(size=(4, 2)), rng.normal(size=(2, 4))], [rng.normal(size=4), np.ones(2)]
        )
        return hm.compile(network, on="[-1,1]^2", error=1e-2, float="float32")
    return hm.compile(PROGRAMS[name], alphabet=ALPHABET, length=LENGTH)


def written(name: str, home: str, folder: Path, **options: str) -> Path:
    write_huggingface(model(name), folder, home, **{"dtype": "float32", **options})
    return folder


# ---- what is read is what was written ------------------------------------------------------------


def folded(transformer: Transformer, dtype: str) -> Transformer:
    """The Transformer that a folder should hold: coldness in the queries, weights rounded."""
    stored = format_named(dtype).stored
    sublayers: list[Attention | FeedForward] = []
    for layer in transformer.sublayers:
        if isinstance(layer, Attention):
            sublayers.append(Attention(folded_head(head, dtype) for head in layer.heads))
        else:
            parts = (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
            sublayers.append(FeedForward(*map(stored, parts)))
    source = transformer.input
    fields = (
        ("maps", "offsets") if isinstance(source, hm.VectorInput) else ("embedding", "positions")
    )
    source = replace(source, **{field: stored(getattr(source, field)) for field in fields})
    readout = replace(
        transformer.readout,
        weights=stored(transformer.readout.weights),
        bias=stored(transformer.readout.bias),
    )
    return Transformer(source, sublayers, readout)


def folded_head(head: Head, dtype: str) -> Head:
    stored = format_named(dtype).stored
    bias = head.position_bias
    if bias is not None:
        bias = stored(head.coldness * bias[: len(bias)])
    found = trimmed_head(
        stored(head.coldness * head.query),
        stored(head.key),
        stored(head.value),
        stored(head.output),
        causal=head.causal,
        bias=bias,
    )
    assert found is not None
    return found


@pytest.mark.parametrize("norm", ["ballast", "epsilon"])
@pytest.mark.parametrize(
    ("home", "name"),
    [*FITS, *[(home, name) for home in ("t5", "gpt2", "llama") for name in ("product", "relu")]],
)
def test_round_trip(home: str, name: str, norm: str, tmp_path: Path) -> None:
    """The description beside the weights is the expectation, and of no use to the reader."""
    written(name, home, tmp_path, norm=norm)
    prepared = read_safetensors(tmp_path / "hardmax.safetensors").transformer
    read = read_huggingface(tmp_path)
    assert fingerprint(read.stored.transformer) == fingerprint(folded(prepared, "float32"))
    assert read.stored.format == "float32"
    assert read.stored.domain == model(name).claim.domain
    assert len(read.host.norms) == len(read.stored.transformer.sublayers) + 1


@pytest.mark.parametrize("dtype", ["float64", "bfloat16"])
@pytest.mark.parametrize("home", ["t5", "gpt2", "llama"])
def test_other_types(home: str, dtype: str, tmp_path: Path) -> None:
    written("seen_before", home, tmp_path, dtype=dtype)
    prepared = read_safetensors(tmp_path / "hardmax.safetensors").transformer
    read = read_huggingface(tmp_path)
    assert fingerprint(read.stored.transformer) == fingerprint(folded(prepared, dtype))
    assert read.stored.format == dtype


def test_equal_models_are_equal_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        written("reverse", "t5", tmp_path / name)
    for file in (tmp_path / "one").iterdir():
        assert file.read_bytes() == (tmp_path / "two" / file.name).read_bytes()


@pytest.mark.parametrize(
    ("home", "name"), [("t5", "reverse"), ("gpt2", "shift"), ("llama", "shift")]
)
def test_what_was_read_is_certified(home: str, name: str, tmp_path: Path) -> None:
    """The witness and the claim fit the Transformer that the weights make."""
    from hardmax.languages import decode_target

    stored = read_huggingface(written(name, home, tmp_path)).stored
    assert stored.encoded_target is not None
    whole = stored.join(decode_target(stored.encoded_target))
    assert hm.certify(whole).verdict is hm.Verdict.PROVED
    legend, transformer = stored.legend, stored.transformer
    assert legend is not None
    assert len(legend.coordinates) == transformer.width
    sizes = [
        len(one.heads) if isinstance(one, Attention) else one.hidden_width
        for one in transformer.sublayers
    ]
    assert [len(steps) for steps in legend.sublayers] == sizes
    seen = trace_sequence(transformer, "abb", legend)
    said = [one.texts[-3:] for one in seen.said if one.name == "answer"]
    wanted = [str(item).lower() for item in model(name).claim.target.program("abb")]
    assert [text.split(" [")[0] for text in said[-1]] == wanted  # by readings that moved along


def test_real_inputs_as_embeddings(tmp_path: Path) -> None:
    read = read_huggingface(written("product", "t5", tmp_path))
    x = model("product").claim.domain.sample(5, np.random.default_rng(0))
    tokens = read.embeddings(x)
    source = read.stored.transformer.input
    assert isinstance(source, hm.VectorInput)
    assert tokens.shape == (5, source.tokens, source.width + len(read.constants))
    assert np.array_equal(tokens[0], read.embeddings(x[0])[0])
    with pytest.raises(hm.RequestError, match="rows of 2 numbers"):
        read.embeddings([1.0, 2.0, 3.0])
    with pytest.raises(hm.RequestError, match="reads words: use the folder's tokenizer"):
        read_huggingface(written("histogram", "t5", tmp_path)).embeddings([1.0])


# ---- it runs where it belongs --------------------------------------------------------------------


@pytest.mark.parametrize(("home", "name"), FITS)
def test_stock_classes_answer_as_the_program(home: str, name: str, tmp_path: Path) -> None:
    """Every word, through from_pretrained and the stock forward pass."""
    import torch

    written(name, home, tmp_path)
    read = read_huggingface(tmp_path)
    host = read.load()
    vocabulary = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    texts = list(read.labels) if home == "t5" else list(vocabulary)
    for length in range(1, LENGTH + 1):
        words = list(itertools.product(ALPHABET, repeat=length))
        start = [vocabulary["<s>"]] if "<s>" in vocabulary else []
        ids = torch.tensor([start + [vocabulary[one] for one in word] for word in words])
        with torch.no_grad():
            best = host(input_ids=ids).logits.argmax(-1)[:, len(start) :].tolist()
        for word, row in zip(words, best, strict=True):
            answer = ["<none>" if one is None else str(one) for one in PROGRAMS[name](word)]
            assert [texts[i] for i in row] == answer, word


@pytest.mark.parametrize("name", ["product", "relu"])
@pytest.mark.parametrize("home", ["t5", "gpt2", "llama"])
def test_stock_classes_compute_functions(home: str, name: str, tmp_path: Path) -> None:
    """Within the error claimed, on the corners and inside; and the same by epsilon's trick."""
    import torch

    construction = model(name)
    x = construction.claim.domain.sample(40, np.random.default_rng(1))
    wanted = np.array([construction.claim.target(row) for row in x]).reshape(len(x), -1)
    for norm in ("ballast", "epsilon"):
        read = read_huggingface(written(name, home, tmp_path, norm=norm))
        tokens = torch.tensor(read.embeddings(x), dtype=torch.float32)
        with torch.no_grad():
            logits = read.load()(inputs_embeds=tokens).logits.numpy()
        answers = logits[:, read.stored.transformer.readout.token]
        assert np.abs(answers - wanted).max() <= construction.claim.error


@pytest.mark.parametrize(("home", "name"), [("t5", "reverse"), ("llama", "shift")])
@pytest.mark.parametrize("norm", ["ballast", "epsilon"])
def test_an_rms_norm_changes_no_bit(home: str, name: str, norm: str, tmp_path: Path) -> None:
    """The theorem of `_columns`, seen at every norm of a stock class."""
    import torch

    read = read_huggingface(written(name, home, tmp_path, norm=norm))
    host, ours = read.load(), read.stored.transformer.width
    seen = []

    def compare(module: object, given: tuple[torch.Tensor, ...], found: torch.Tensor) -> None:
        seen.append(torch.equal(given[0][..., :ours], found[..., :ours]))

    for module in host.modules():
        if type(module).__name__ in ("T5LayerNorm", "LlamaRMSNorm"):
            module.register_forward_hook(compare)
    with torch.no_grad():
        host(input_ids=torch.tensor([[4, 0, 1, 2]]))
    assert len(seen) >= 3
    assert all(seen)


def test_pipeline_and_tokenizer(tmp_path: Path) -> None:
    from transformers import AutoTokenizer, pipeline

    written("reverse", "t5", tmp_path)
    tagger = pipeline("token-classification", str(tmp_path))
    assert "".join(one["entity"] for one in tagger("cab")) == "bac"
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    assert tokenizer(["cab", "a"], padding=True)["input_ids"] == [[4, 2, 0, 1], [4, 0, 3, 3]]
    with pytest.raises(Exception, match="UNK"):
        tokenizer("cad")
    tokenizer.save_pretrained(str(tmp_path))  # what transformers writes itself is read, too
    assert read_huggingface(tmp_path).labels == tuple("abc")


def test_symbols_of_several_characters(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    machine = hm.compile(p.seen_before, on=Words(["push", "key", 7], 3))
    write_huggingface(machine, tmp_path, "t5", dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(str(tmp_path))
    assert tokenizer("key 7 push")["input_ids"] == [4, 1, 2, 0]
    read_huggingface(tmp_path)


# ---- auto ----------------------------------------------------------------------------------------


def test_auto_says_why(tmp_path: Path) -> None:
    found = write_huggingface(model("reverse"), tmp_path)
    assert (found.architecture, found.class_name) == ("t5", "T5ForTokenClassification")
    assert "both masks" in found.why
    assert found.dtype == "float64"
    assert found.gain == 2.0**40
    card = (tmp_path / "README.md").read_text()
    assert "ballast" in card
    assert f"{2.0**40:g}" in card
    write_huggingface(model("reverse"), tmp_path, norm="epsilon")
    assert "epsilon trick" in (tmp_path / "README.md").read_text()
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["layer_norm_epsilon"] == 4.0**40


def test_a_bias_that_is_not_of_the_distance_fits_nowhere(tmp_path: Path) -> None:
    dyck = hm.compile(PROGRAMS["dyck"], on=Words("()[]", 4))
    refusal = r"No home fits; T5For\w+ is the nearest one.*not of the distance.*which this class"
    with pytest.raises(hm.RequestError, match=refusal):
        write_huggingface(dyck, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_slots_that_are_used_again_fit_nowhere_and_another_route_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sizes = [(32, 8), (32, 32), (1, 32)]
    weights = [rng.normal(size=size) / np.sqrt(size[1]) for size in sizes]
    network = hm.ReluNetwork(weights, [0.1 * rng.normal(size=b) for b, _ in sizes])
    compiled = {
        route: hm.compile(network, on="[-1,1]^8", error=1e-2, route=route)
        for route in ("attention-only", "attention")
    }
    with pytest.raises(hm.RequestError, match=r'uses its slots again.*route="attention"'):
        write_huggingface(compiled["attention-only"], tmp_path / "x")
    assert not (tmp_path / "x").exists()
    assert write_huggingface(compiled["attention"], tmp_path / "y").architecture == "t5"


def test_rotary_positions_are_switched_off_where_they_must_be(tmp_path: Path) -> None:
    """Long words have large angles and large products; the config says so, and so does the card."""
    far = p.program(lambda s: s.tokens.at(s.index - 30))
    found = hm.compile(far, alphabet="ab", length=60)
    write_huggingface(found, tmp_path, "llama")
    rope = json.loads((tmp_path / "config.json").read_text())["rope_parameters"]
    assert rope == {"rope_type": "linear", "rope_theta": 10000.0, "factor": 1e30}
    assert read_huggingface(tmp_path).host.rotary is None
    assert "switched off" in (tmp_path / "README.md").read_text()
    short = read_huggingface(written("shift", "llama", tmp_path))
    assert short.host.rotary == Rotary(10000.0, planes=32, first=30)
    assert "on, as in stock" in (tmp_path / "README.md").read_text()


# ---- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "refusal"),
    [
        (("bert",), {}, r"architecture is one of auto, t5, gpt2, llama, not 'bert'"),
        (("t5",), {"norm": "none"}, "norm is one of ballast, epsilon"),
        (("t5",), {"dtype": "float16"}, "cannot be kept still in float16"),
        (("t5",), {"dtype": "int8"}, "There is no float format 'int8'"),
        (("gpt2",), {}, "GPT2LMHeadModel does not fit: its heads look at later tokens"),
        (("llama",), {}, "LlamaForCausalLM does not fit: its heads look at later tokens"),
    ],
)
def test_refusals(
    arguments: tuple[str, ...], options: dict[str, str], refusal: str, tmp_path: Path
) -> None:
    with pytest.raises(hm.RequestError, match=refusal):
        write_huggingface(model("reverse"), tmp_path / "x", *arguments, **options)
    assert not (tmp_path / "x").exists()


def test_what_is_no_construction_or_has_no_labels(tmp_path: Path) -> None:
    with pytest.raises(hm.RequestError, match=r"takes a Construction, as hm\.compile makes it"):
        write_huggingface(model("reverse").transformer, tmp_path)  # type: ignore[arg-type]
    hard = hm.compile(hm.ReluNetwork([[[1.0]], [[1.0]]], [[0.0], [0.0]]), on="[0,1]", error=None)
    if hard.transformer.heads:
        with pytest.raises(hm.SemanticsError, match="is a hardmax"):
            write_huggingface(hard, tmp_path)
    pair = p.program(lambda s: (s.tokens, s.index))
    with pytest.raises(hm.RequestError, match="one label, but the program answers with 2 values"):
        write_huggingface(hm.compile(pair, alphabet="ab", length=2), tmp_path)


@pytest.mark.parametrize(
    ("alphabet", "refusal"),
    [
        (["a b", "c"], "is empty or holds a space"),
        ([1, "1"], "Two symbols of the alphabet are written alike"),
        (["<s>", "b"], "is a tokenizer's own"),
        (list("<s>pad"), "Symbols that spell <s> would be read as the start"),
    ],
)
def test_symbols_that_no_tokenizer_keeps_apart(
    alphabet: list[str | int], refusal: str, tmp_path: Path
) -> None:
    found = hm.compile(p.seen_before, on=Words(alphabet, 2))
    with pytest.raises(hm.RequestError, match=refusal):
        write_huggingface(found, tmp_path, "t5")


def test_a_claim_that_the_format_breaks_is_refused(tmp_path: Path) -> None:
    network = hm.ReluNetwork([[[0.1]], [[0.7]]], [[0.3], [0.1]])
    fine = hm.compile(network, on="[0,1]", error=1e-9)
    with pytest.raises(hm.PrecisionError, match="In float32, answers move by"):
        write_huggingface(fine, tmp_path, "t5", dtype="float32")
    with pytest.raises(hm.PrecisionError, match="In float64, with norms in float32, answers move"):
        write_huggingface(fine, tmp_path, "llama")


def test_loading_needs_the_extra_and_a_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = read_huggingface(written("histogram", "t5", tmp_path))
    old = types.ModuleType("transformers")
    old.__version__ = "4.57.0"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", old)
    with pytest.raises(hm.RequestError, match=r"transformers 4.57.0 is installed, but folders are"):
        read.load()
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(hm.MissingExtra, match=r"Try: pip install 'hardmax\[hf\]'"):
        read.load()


# ---- folders that were changed, or are not ours --------------------------------------------------


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    places = {home: tmp_path_factory.mktemp(home) for home in ("t5", "gpt2", "llama")}
    for home, place in places.items():
        written("shift", home, place)
    return places


def copied(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


CHANGED_CONFIGS = [
    ("t5", "feed_forward_proj", "gated-gelu", "feed_forward_proj = 'gated-gelu'"),
    ("t5", "is_decoder", True, "is_decoder = True, but is understood with False alone"),
    ("t5", "d_kv", 9, "but its config asks for"),
    ("t5", "num_layers", 3, "lacks the tensor"),
    ("t5", "num_layers", 1, "which this class does not have"),
    ("t5", "relative_attention_num_buckets", 8, "but its config asks for"),
    ("t5", "id2label", {"0": "b", "1": "a"}, "id2label"),
    ("t5", "quantization_config", {"bits": 4}, "quantization_config"),
    ("t5", "layer_norm_epsilon", None, "layer_norm_epsilon to be a number"),
    ("t5", "model_type", "bert", "only t5, gpt2, llama are understood"),
    ("t5", "dtype", "float16", "its weights are float32 for T5"),
    ("t5", "architectures", ["T5Model"], "its weights are float32 for T5"),
    ("t5", "chunk_size_feed_forward", 2, "chunk_size_feed_forward = 2, which is not understood"),
    ("gpt2", "activation_function", "relu", "activation_function = 'relu'"),
    ("gpt2", "scale_attn_weights", False, "scale_attn_weights = False"),
    ("gpt2", "scale_attn_by_inverse_layer_idx", True, "scale_attn_by_inverse_layer_idx"),
    ("gpt2", "tie_word_embeddings", True, "tie_word_embeddings = True"),
    ("gpt2", "n_head", 4, "power of 4 alone"),
    ("gpt2", "n_positions", 3, "but its config asks for"),
    ("llama", "hidden_act", "gelu", "hidden_act = 'gelu'"),
    ("llama", "rope_parameters", {"rope_type": "yarn", "factor": 2.0}, "rope_parameters"),
    ("llama", "rope_parameters", {"rope_type": "default", "rope_theta": 5.0}, "rope_parameters"),
    ("llama", "attention_bias", True, "attention_bias = True"),
    ("llama", "num_key_value_heads", 7, "shares keys among heads|asks for"),
    ("llama", "max_position_embeddings", 2, "fewer positions than its words have tokens"),
]


@pytest.mark.parametrize(("home", "field", "value", "refusal"), CHANGED_CONFIGS)
def test_a_changed_config(
    home: str,
    field: str,
    value: object,
    refusal: str,
    folders: dict[str, Path],
    tmp_path: Path,
) -> None:
    folder = copied(folders[home], tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config[field] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(hm.FileError, match=refusal):
        read_huggingface(folder)


@pytest.mark.parametrize("home", ["t5", "gpt2", "llama"])
def test_a_config_says_everything(home: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """Each field is either of no consequence, or missed."""
    folder = copied(folders[home], tmp_path)
    config = json.loads((folder / "config.json").read_text())
    inert = {"label2id", "pad_token_id", "bos_token_id", "eos_token_id"}
    for field in config.keys() - inert:
        rest = {name: value for name, value in config.items() if name != field}
        (folder / "config.json").write_text(json.dumps(rest))
        with pytest.raises(hm.FileError):
            read_huggingface(folder)


@pytest.mark.parametrize("home", ["t5", "gpt2", "llama"])
def test_every_weight_counts(home: str, folders: dict[str, Path], tmp_path: Path) -> None:
    """A changed tensor is refused, or changes what is read; a digest is not asked."""
    folder = copied(folders[home], tmp_path)
    tensors, dtype = from_bytes((folder / "model.safetensors").read_bytes())
    before = read_huggingface(folder)
    for name, array in tensors.items():
        if not array.any():
            continue  # a zero may be of no consequence, where its partner in a product is one
        data = to_bytes({**tensors, name: -3.0 * array}, format_named(dtype))
        (folder / "model.safetensors").write_bytes(data)
        try:
            read = read_huggingface(folder)
        except hm.FileError:
            continue
        same = fingerprint(read.stored.transformer) == fingerprint(before.stored.transformer)
        assert not same or read.host != before.host, name


def all_ones(array: np.ndarray) -> None:
    array += 1.0


def first_up(array: np.ndarray) -> None:
    array.flat[0] += 1.0 + abs(array.flat[0])


def last_up(array: np.ndarray) -> None:
    array.flat[-1] += 1.0 + abs(array.flat[-1])


def turned_over(array: np.ndarray) -> None:
    array *= -1.0


_ENCODER = "transformer.encoder.block.0.layer"
CHANGED_WEIGHTS = [
    ("t5", "transformer.shared.weight", last_up, "constant columns differ"),
    ("t5", "transformer.encoder.final_layer_norm.weight", first_up, "not one number above 0"),
    ("t5", "transformer.encoder.final_layer_norm.weight", turned_over, "not one number above 0"),
    ("t5", f"{_ENCODER}.0.SelfAttention.q.weight", last_up, "heads that read constant columns"),
    ("t5", f"{_ENCODER}.0.SelfAttention.o.weight", last_up, "have to stay constant"),
    ("t5", f"{_ENCODER}.1.DenseReluDense.wo.weight", last_up, "have to stay constant"),
    ("t5", "classifier.bias", last_up, "not those of the codes of its answers"),
    ("t5", "classifier.weight", first_up, "not those of the codes of its answers"),
    ("gpt2", "transformer.h.0.attn.c_attn.weight", first_up, "does not add up to 0"),
    ("gpt2", "transformer.h.0.attn.c_attn.bias", first_up, "heads with biases"),
    ("gpt2", "transformer.h.0.mlp.c_fc.weight", first_up, "does not add up to 0"),
    ("gpt2", "transformer.ln_f.bias", first_up, "a norm with a bias"),
    ("gpt2", "transformer.wpe.weight", last_up, "positions in columns that have to stay constant"),
    ("gpt2", "lm_head.weight", last_up, "does not add up to 0"),
    ("llama", "model.layers.0.self_attn.q_proj.weight", all_ones, "constant columns, where"),
    ("llama", "lm_head.weight", first_up, "not those of the codes|no answers"),
]


@pytest.mark.parametrize(("home", "name", "change", "refusal"), CHANGED_WEIGHTS)
def test_changed_weights(
    home: str,
    name: str,
    change: Callable[[np.ndarray], None],
    refusal: str,
    folders: dict[str, Path],
    tmp_path: Path,
) -> None:
    folder = copied(folders[home], tmp_path)
    tensors, dtype = from_bytes((folder / "model.safetensors").read_bytes())
    tensors[name] = tensors[name].copy()
    change(tensors[name])
    (folder / "model.safetensors").write_bytes(to_bytes(tensors, format_named(dtype)))
    with pytest.raises(hm.FileError, match=refusal):
        read_huggingface(folder)


@pytest.mark.parametrize(
    ("file", "path", "value", "refusal"),
    [
        ("tokenizer.json", ("model", "vocab"), {"b": 0, "a": 1}, "its model is another one"),
        ("tokenizer.json", ("pre_tokenizer",), None, "its pre_tokenizer is another one"),
        ("tokenizer.json", ("post_processor",), None, "its post_processor is another one"),
        ("tokenizer.json", ("normalizer",), {"type": "Lowercase"}, "its normalizer is another one"),
        ("tokenizer.json", ("truncation",), {"max_length": 1}, "cuts or pads words by itself"),
        ("tokenizer_config.json", ("model_max_length",), 99, "model_max_length = 99"),
        ("tokenizer_config.json", ("add_prefix_space",), True, "add_prefix_space = True"),
    ],
)
def test_a_changed_tokenizer(
    file: str,
    path: tuple[str, ...],
    value: object,
    refusal: str,
    folders: dict[str, Path],
    tmp_path: Path,
) -> None:
    folder = copied(folders["t5"], tmp_path)
    whole = json.loads((folder / file).read_text())
    inner = whole
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    (folder / file).write_text(json.dumps(whole))
    with pytest.raises(hm.FileError, match=refusal):
        read_huggingface(folder)


@pytest.mark.parametrize(
    ("name", "data", "refusal"),
    [
        ("config.json", None, r"config\.json was not found"),
        ("model.safetensors", None, r"model\.safetensors was not found"),
        ("hardmax.safetensors", None, r"hardmax\.safetensors was not found"),
        ("tokenizer.json", None, r"lacks tokenizer\.json"),
        ("tokenizer_config.json", None, r"lacks tokenizer_config\.json"),
        ("config.json", b"{", r"has a config\.json that is not valid JSON"),
        ("config.json", b"[]", r"has a config\.json that is no object"),
        ("config.json", b"{}", "is for None, but only"),
        ("model.safetensors", b"", "is not a safetensors file"),
        ("model.safetensors", b"\x02" + 7 * b"\0" + b"{}", "is damaged|holds tensors of 0 types"),
        ("model.safetensors.index.json", b"{}", "holds sharded weights"),
    ],
)
def test_files_that_are_missing_or_foreign(
    name: str, data: bytes | None, refusal: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    folder = copied(folders["t5"], tmp_path)
    if data is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(data)
    with pytest.raises(hm.FileError, match=refusal):
        read_huggingface(folder)


def test_what_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(hm.FileError, match="is not a folder"):
        read_huggingface(tmp_path / "file")
    with pytest.raises(hm.FileError, match="is not a folder"):
        read_huggingface(tmp_path / "nowhere")
    with pytest.raises(hm.RequestError, match="named by a text or a path"):
        read_huggingface(3)  # type: ignore[arg-type]
    with pytest.raises(hm.FileError, match="could not be written"):
        write_huggingface(model("histogram"), tmp_path / "file")


def test_an_old_certificate_goes_with_its_model(tmp_path: Path) -> None:
    written("histogram", "t5", tmp_path)
    (tmp_path / "certificate.json").write_text("{}")
    written("reverse", "t5", tmp_path)
    assert not (tmp_path / "certificate.json").exists()


def test_answers_are_unchanged_by_what_is_put_in_front(tmp_path: Path) -> None:
    """Positions from a start token instead of a table; the start is hidden below e^-256."""
    for home in ("t5", "llama"):
        name = "reverse" if home == "t5" else "shift"
        read = read_huggingface(written(name, home, tmp_path, dtype="float64"))
        words = [list(word) for word in itertools.product(ALPHABET, repeat=LENGTH)]
        for before, after in zip(
            evaluate(model(name).transformer, words),
            evaluate(read.stored.transformer, words),
            strict=True,
        ):
            assert np.abs(before - after).max() <= 2.0**-30
