"""Folders for stock classes, altered in one place: none may be PROVED for a claim that is broken.

What an altered folder does is found by running it in its class, every word or hundreds of points;
so an alteration that is harmless may well be PROVED. Nothing of the reader is asked for the truth.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import hardmax as hm
from benchmarks._folders_run import meant, worst_error, wrong_words
from hardmax import programs as p
from hardmax.core import Box

BUDGET = "1e7 work"
WEIGHTS, CONFIG, TOKENIZER, SETTINGS, DESCRIPTION = (
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "hardmax.safetensors",
)
HOMES = ("t5", "gpt2", "llama")
_SOURCES: dict[str, tuple[object, dict[str, Any]]] = {
    "shift": (p.program(lambda s: s.tokens.at(s.index - 1)), {"alphabet": "abc", "length": 3}),
    "seen before": (p.seen_before, {"alphabet": "ab", "length": 4}),
    "so far": (p.fraction_so_far("a"), {"alphabet": "ab", "length": 3}),
    "product": ("x*y", {"on": "[-1,1]^2", "error": 1e-2}),
    "corner": ("max(x, y)", {"on": "[-1,1]^2", "error": 1e-2}),
}
Files = dict[str, bytes]
Alteration = Callable[[Files, np.random.Generator], str]  # changes files, says how


@cache
def _compiled(source: str) -> hm.Construction:
    what, where = _SOURCES[source]
    return hm.compile(what, **where, float="float32")


@cache
def specimen(source: str, home: str, dtype: str) -> Mapping[str, bytes]:
    """The files of an honest folder."""
    with tempfile.TemporaryDirectory() as place:
        written = hm.interop.write_huggingface(
            _compiled(source), Path(place) / "one", home, dtype=dtype
        )
        return {path.name: path.read_bytes() for path in written.folder.iterdir()}


# ---- alterations -------------------------------------------------------------------------------


def _tensors(files: Files) -> tuple[dict[str, Any], bytearray, int]:
    """The header of the weights, all bytes, and where the tensors start."""
    data = bytearray(files[WEIGHTS])
    start = 8 + int.from_bytes(data[:8], "little")
    return json.loads(bytes(data[8:start])), data, start


def _entry(files: Files, rng: np.random.Generator, change: Callable[[float], float]) -> str:
    """One number of one tensor; of one that is not 0 in four of five cases."""
    header, data, start = _tensors(files)
    names = sorted(name for name in header if name != "__metadata__")
    name = names[rng.integers(len(names))]
    first, last = header[name]["data_offsets"]
    stored = np.frombuffer(bytes(data[start + first : start + last]), "<f4").copy()
    used = np.flatnonzero(stored)
    at = int(rng.choice(used) if len(used) and rng.random() < 0.8 else rng.integers(len(stored)))
    before = float(stored[at])
    stored[at] = np.float32(np.clip(change(before), -3e38, 3e38))
    data[start + first : start + last] = stored.tobytes()
    files[WEIGHTS] = bytes(data)
    return f"{name}[{at}]: {before:g} to {float(stored[at]):g}"


def _tensor(files: Files, rng: np.random.Generator) -> str:
    """A whole tensor: turned round, scaled, or with two of its rows exchanged."""
    header, data, start = _tensors(files)
    names = sorted(name for name in header if name != "__metadata__")
    name = names[rng.integers(len(names))]
    first, last = header[name]["data_offsets"]
    stored = np.frombuffer(bytes(data[start + first : start + last]), "<f4").copy()
    table = stored.reshape(header[name]["shape"][0], -1)
    kind = int(rng.integers(4))
    if kind == 0:
        table *= np.float32(-1.0)
    elif kind == 1:
        table *= np.float32(2.0 ** rng.integers(-40, 20))
    elif kind == 2:
        one, other = rng.integers(len(table), size=2)
        table[[one, other]] = table[[other, one]]
    else:
        table[:, rng.integers(table.shape[1])] += np.float32(rng.choice([1e-3, 1.0, 2.0**40]))
    data[start + first : start + last] = stored.tobytes()
    files[WEIGHTS] = bytes(data)
    return f"{name}: kind {kind}"


_VALUES: dict[str, tuple[object, ...]] = {
    "layer_norm_epsilon": (1e-5, 1e-3, 1.0, 4.0**40, 1e30, 0.0),
    "rms_norm_eps": (1e-5, 1e-3, 1.0, 4.0**40, 1e30, 0.0),
    "feed_forward_proj": ("gelu", "gated-gelu", "silu"),
    "activation_function": ("gelu", "relu", "silu"),
    "hidden_act": ("gelu", "relu"),
    "num_heads": (1, 2, 4),
    "n_head": (1, 2, 4, 16),
    "num_attention_heads": (1, 2, 4),
    "num_key_value_heads": (1, 2),
    "head_dim": (16, 64, 256),
    "num_layers": (1, 2),
    "n_layer": (1, 2),
    "relative_attention_num_buckets": (4, 8, 32),
    "relative_attention_max_distance": (1, 4, 4096),
    "n_positions": (1, 1024),
    "max_position_embeddings": (1, 1024),
    "rope_parameters": (
        {"rope_type": "default", "rope_theta": 1.0},
        {"rope_type": "default", "rope_theta": 1e6},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 1e30},
        {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    ),
    "attention_bias": (True,),
    "mlp_bias": (True,),
    "tie_word_embeddings": (True, False),
    "scale_attn_weights": (False,),
    "scale_attn_by_inverse_layer_idx": (True,),
    "reorder_and_upcast_attn": (True,),
    "is_decoder": (True,),
    "dtype": ("bfloat16", "float64", "float16"),
    "torch_dtype": ("bfloat16",),
    "vocab_size": (2, 100),
    "quantization_config": ({"load_in_8bit": True, "quant_method": "bitsandbytes"},),
}


def _config(files: Files, rng: np.random.Generator) -> str:
    config = json.loads(files[CONFIG])
    names = [name for name in _VALUES if name in config or rng.random() < 0.1]
    if "id2label" in config and rng.random() < 0.2:
        texts = list(config["id2label"].values())
        config["id2label"] = {str(i): text for i, text in enumerate(rng.permutation(texts))}
        name = "id2label"
    else:
        name = names[rng.integers(len(names))]
        config[name] = _VALUES[name][rng.integers(len(_VALUES[name]))]
    files[CONFIG] = json.dumps(config).encode()
    return f"{name} = {config[name]!r}"


def _words_table(files: Files, rng: np.random.Generator) -> str:
    """The tokenizer: other numbers for the symbols, another start, other settings."""
    if TOKENIZER not in files:
        return _config(files, rng)
    tokenizer, settings = json.loads(files[TOKENIZER]), json.loads(files[SETTINGS])
    kind = int(rng.integers(6))
    vocab = tokenizer["model"]["vocab"]
    if kind < 2:
        numbers = rng.permutation(list(vocab.values()))
        tokenizer["model"]["vocab"] = dict(zip(vocab, map(int, numbers), strict=True))
    elif kind == 2:
        tokenizer["post_processor"] = None
    elif kind == 3:
        tokenizer["normalizer"] = {"type": "Replace", "pattern": {"String": "a"}, "content": "b"}
    elif kind == 4:
        settings["extra_special_tokens"] = ["ab"]
    else:
        settings["tokenizer_class"] = "BertTokenizer"
    files[TOKENIZER], files[SETTINGS] = (json.dumps(one).encode() for one in (tokenizer, settings))
    return f"tokenizer: kind {kind}"


def _description(files: Files, rng: np.random.Generator) -> str:
    """Another claim beside the same weights: a smaller error, another target, other symbols."""
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / DESCRIPTION
        file.write_bytes(files[DESCRIPTION])
        model = hm.load(file)
        kind = int(rng.integers(3))
        claim = model.claim
        if kind == 0 or isinstance(claim.domain, Box):
            factor = float(10.0 ** rng.uniform(-8, 1))
            shares = [replace(one, amount=one.amount * factor) for one in claim.ledger]
            claim = replace(claim, ledger=shares)
            said = f"error times {factor:.2g}"
        else:
            other = sorted(set(_SOURCES) - {"product", "corner"})[int(rng.integers(3))]
            claim = replace(claim, target=_compiled(other).claim.target)
            said = f"the target of {other}"
        hm.save(replace(model, claim=claim), file)
        files[DESCRIPTION] = file.read_bytes()
    return said


ALTERATIONS: dict[str, Alteration] = {
    "an entry scaled": lambda f, r: _entry(f, r, lambda x: x * float(2.0 ** r.integers(-30, 60))),
    "an entry moved": lambda f, r: _entry(
        f, r, lambda x: x + float(r.choice([-1, 1]) * 10.0 ** r.uniform(-6, 6))
    ),
    "an entry turned": lambda f, r: _entry(f, r, lambda x: -x),
    "an entry dropped": lambda f, r: _entry(f, r, lambda x: 0.0),
    "a tensor": _tensor,
    "the config": _config,
    "the tokenizer": _words_table,
    "the description": _description,
}


# ---- trials ------------------------------------------------------------------------------------


def job(number: int, seed: int) -> tuple[str, str, str]:
    """Source, home and alteration of a case."""
    sources, kinds = list(_SOURCES), list(ALTERATIONS)
    rng = np.random.default_rng([seed, number])
    source = sources[rng.integers(len(sources))]
    return source, HOMES[number % len(HOMES)], kinds[number // len(HOMES) % len(kinds)]


def try_one(number: int, seed: int) -> tuple[str, str]:
    """How it went, and what was altered: refused, a verdict, or "false"."""
    source, home, kind = job(number, seed)
    rng = np.random.default_rng([seed, number, 1])
    files = dict(specimen(source, home, "float32"))
    said = f"{source} in {home}, {kind}: {ALTERATIONS[kind](files, rng)}"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, data in files.items():
            (folder / name).write_bytes(data)
        try:
            verdict = hm.certify_folder(folder, budget=BUDGET).verdict.name.lower()
        except hm.FileError:
            return "refused", said
        if verdict != "proved":
            return verdict, said
        trouble = broken(folder)
    return ("proved", said) if trouble is None else ("false", f"{said}; {trouble}")


def broken(folder: Path) -> str | None:
    """What the folder does against its claim, if anything is found."""
    claim = hm.open_folder(folder).construction.claim
    try:
        if isinstance(claim.domain, Box):
            rng = np.random.default_rng(0)
            points = np.concatenate([_corners(claim.domain), claim.domain.sample(300, rng)])
            worst = worst_error(folder, points)
            return f"it errs by {worst:g}" if not worst <= claim.error else None
        words = [word for word in claim.domain if len(word)]
        wrong = wrong_words(folder, words, meant(claim.target.program, words))
        return f"{wrong} of {len(words)} words are wrong" if wrong else None
    except (ValueError, RuntimeError, LookupError, TypeError, ArithmeticError, OSError) as reason:
        return f"it does not run: {reason}"


def _corners(box: Box) -> np.ndarray:
    ends = np.stack([box.low, box.high])
    grid = np.meshgrid(*[(0, 1)] * len(box.low), indexing="ij")
    rows = np.stack([one.ravel() for one in grid], axis=1)
    return np.take_along_axis(ends, rows, axis=0)


def altered_part(start: int, count: int, seed: int) -> dict[str, Any]:
    """Cases number `start` and after."""
    counts: Counter[str] = Counter({"cases": count, "false": 0})
    failures = []
    for number in range(start, start + count):
        outcome, said = try_one(number, seed)
        counts[outcome] += 1
        if outcome == "false":
            failures.append((number, said))
    return {**counts, "failures": failures}
