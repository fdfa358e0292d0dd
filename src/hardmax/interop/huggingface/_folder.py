"""A folder of Hugging Face's making, written and read.

Written is what a stock class loads. Read is what the stored weights and the stored config mean,
and nothing that the writer says of them: the description beside them (`hardmax.safetensors`) is
asked for the claim, for what no class has a place for, and never for a weight.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from dataclasses import replace as replaced
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hardmax._atomic import write_folder_atomically
from hardmax._errors import FileError, HardmaxError, MissingExtra, PrecisionError, RequestError
from hardmax._reading import naming, path_of, read_file
from hardmax.core import Circuit, Construction, Host, SequenceTarget, Target, VectorInput, Words
from hardmax.interop import _safetensors
from hardmax.interop._description import StoredConstruction
from hardmax.interop._hooks import StepHooks, step_hooks
from hardmax.interop._standard_form import refuse_hard_heads
from hardmax.interop.huggingface._card import card
from hardmax.interop.huggingface._circuit import host_circuit, host_record, norm_inputs
from hardmax.interop.huggingface._columns import NORM_CHOICES
from hardmax.interop.huggingface._config import Config
from hardmax.interop.huggingface._gpt2 import GPT2
from hardmax.interop.huggingface._home import Files, Home, Promise, Written, ids_of
from hardmax.interop.huggingface._labels import Labels, labels_of
from hardmax.interop.huggingface._llama import LLAMA
from hardmax.interop.huggingface._prepare import prepared
from hardmax.interop.huggingface._t5 import T5
from hardmax.interop.huggingface._tensors import TYPES, from_bytes, to_bytes
from hardmax.interop.huggingface._tokenizer import check_tokenizer, tokenizer_files
from hardmax.interop.huggingface._trial import refuse_if_broken
from hardmax.languages import decode_target
from hardmax.numerics import Format, format_named

if TYPE_CHECKING:
    import torch

FIRST_HOST, AFTER_LAST_HOST = 5, 6  # versions of transformers, as the extra says
HOMES = {home.name: home for home in (T5, GPT2, LLAMA)}  # in the order of preference
CONFIG, WEIGHTS, DESCRIPTION, CARD = (
    "config.json",
    "model.safetensors",
    "hardmax.safetensors",
    "README.md",
)
TOKENIZER, SETTINGS = "tokenizer.json", "tokenizer_config.json"
CERTIFICATE, CIRCUIT = "certificate.json", "circuit.json"
_SHARDS = "model.safetensors.index.json"
_OTHER_PARTS = ("adapter_config.json", "added_tokens.json", "special_tokens_map.json")
_OURS = {CONFIG, WEIGHTS, DESCRIPTION, CARD, TOKENIZER, SETTINGS, CERTIFICATE, CIRCUIT, _SHARDS}


@dataclass(frozen=True)
class WrittenFolder:
    """Where a model was written, into which class, and why into this one.

    >>> import hardmax as hm, tempfile
    >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3)
    >>> written = hm.interop.write_huggingface(model, tempfile.mkdtemp())
    >>> written.architecture, written.class_name
    ('t5', 'T5ForTokenClassification')
    """

    folder: Path
    architecture: str
    class_name: str
    why: str
    dtype: str
    norm: str
    gain: float


@dataclass(frozen=True, eq=False)
class StoredHost:
    """What a folder holds, read from its weights: a Transformer with a claim, and its host.

    `labels` are the texts of the classes of a program, in their order; none for real inputs. A
    legible model has its `circuit`, in the heads and coordinates of the class, and `hooks`: by the
    name of a module the steps that are in the stream which it is given.
    """

    folder: Path
    stored: StoredConstruction
    host: Host
    class_name: str
    constants: np.ndarray
    labels: tuple[str, ...] = ()
    circuit: Circuit | None = None
    hooks: StepHooks = field(default_factory=dict)

    def embeddings(self, x: object) -> np.ndarray:
        """The `inputs_embeds` of real inputs: batch x tokens x width of the host.

        A row of x for each input; a single one may come without its axis.
        """
        source = self.stored.transformer.input
        if not isinstance(source, VectorInput):
            raise RequestError("This model reads words: use the folder's tokenizer.")
        rows = np.atleast_2d(np.asarray(x, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != source.inputs:
            raise RequestError(
                f"The inputs must be rows of {source.inputs} numbers, but their shape is "
                f"{rows.shape}."
            )
        tokens = np.einsum("twi,bi->btw", source.maps, rows) + source.offsets
        rest = np.broadcast_to(self.constants, (*tokens.shape[:2], len(self.constants)))
        return np.concatenate([tokens, rest], axis=2)

    def load(self) -> torch.nn.Module:
        """The folder in its class, ready to run; this needs transformers, of a version we know."""
        try:
            import transformers
        except ModuleNotFoundError:
            raise MissingExtra("transformers", "hf") from None
        if not FIRST_HOST <= int(transformers.__version__.split(".")[0]) < AFTER_LAST_HOST:
            raise RequestError(
                f"transformers {transformers.__version__} is installed, but folders are for "
                f"version {FIRST_HOST}. Try: pip install 'hardmax[hf]'"
            )
        model: torch.nn.Module = getattr(transformers, self.class_name).from_pretrained(self.folder)
        return model.eval()


# ---- writing -------------------------------------------------------------------------------------


def write_huggingface(
    construction: Construction,
    folder: str | os.PathLike[str],
    architecture: str = "auto",
    *,
    dtype: str | None = None,
    norm: str = "ballast",
) -> WrittenFolder:
    """Write a construction as a folder that an unmodified class of transformers loads.

    `architecture` is "t5" (T5ForTokenClassification), "gpt2" (GPT2LMHeadModel), "llama"
    (LlamaForCausalLM), or "auto": the first of these that takes the construction. `dtype` is
    "float64", "float32" or "bfloat16", by default the format that the claim is about. The norm is
    kept still by constant columns beside stock epsilons ("ballast"), or by an enormous epsilon
    ("epsilon").

    The folder is new, empty, or one that was written before, which is then replaced as a whole.

    A program becomes a classifier of tokens with a tokenizer for its alphabet; functions and
    networks take `inputs_embeds`, which `read_huggingface(folder).embeddings(x)` makes. What was
    written is read back before it is put in its place. Neither torch nor transformers is needed.
    """
    if not isinstance(construction, Construction):
        raise RequestError(
            f"write_huggingface takes a Construction, as hm.compile makes it, not a "
            f"{type(construction).__name__}."
        )
    path = path_of(folder)
    format = _format(construction.claim.format if dtype is None else dtype)
    if norm not in NORM_CHOICES:
        raise RequestError(f"norm is one of {', '.join(NORM_CHOICES)}, not {norm!r}.")
    refuse_hard_heads(construction.transformer)
    written, home, why = _housed(construction, architecture, format, norm)
    files = _files(written, home, format, norm)
    read = _read_files(files, path)
    target = construction.claim.target
    refuse_if_broken(construction, read.stored.join(target), read.host)
    with naming(path):
        write_folder_atomically(path, files, {*_OURS, *_OTHER_PARTS})
    gain = written.columns.gain
    return WrittenFolder(path, home.name, home.class_name, why, format.name, norm, gain)


def _format(dtype: object) -> Format:
    format = format_named(dtype)
    if format.name not in TYPES:
        raise PrecisionError(
            f"A norm cannot be kept still in {format.name}: its exponents end before the gain that "
            f"this takes. Choose dtype='float32', 'float64' or 'bfloat16'."
        )
    return format


def _housed(
    construction: Construction, architecture: str, format: Format, norm: str
) -> tuple[Written, Home, str]:
    """What the home makes of it, the home, and why it is this one."""
    if architecture != "auto":
        if architecture not in HOMES:
            known = ", ".join(["auto", *HOMES])
            raise RequestError(f"architecture is one of {known}, not {architecture!r}.")
        home = HOMES[architecture]
        return _made(construction, home, format, norm), home, "it was asked for"
    reasons: list[str] = []
    for home in HOMES.values():
        try:
            written = _made(construction, home, format, norm)
        except RequestError as reason:
            reasons.append(str(reason))
            continue
        return written, home, "; ".join([*reasons, f"{home.class_name}: {home.why}"])
    heads = construction.transformer.heads
    if construction.route == "attention-only" and any(h.position_bias is not None for h in heads):
        raise RequestError(
            "No home takes the position biases by which a deep network on the route "
            '"attention-only" uses its slots again: compile it with route="attention".'
        )
    nearest = next(iter(HOMES.values())).class_name
    raise RequestError(f"No home fits; {nearest} is the nearest one. {' '.join(reasons)}")


def _made(construction: Construction, home: Home, format: Format, norm: str) -> Written:
    labels = _labels(construction.claim.domain, construction.claim.target, format)
    try:
        fitted = prepared(construction, format, labels, home.abilities)
        more = labels.texts if labels is not None and home.one_vocabulary else ()
        ids = ids_of(fitted.transformer, more)
        if ids.symbols:
            tokenizer_files(ids, fitted.transformer.tokens)
        return home.write(fitted, format, labels, ids, norm)
    except PrecisionError:
        raise
    except RequestError as reason:
        raise RequestError(f"{home.class_name} does not fit: {reason}") from reason


def _labels(domain: object, target: Target | SequenceTarget, format: Format) -> Labels | None:
    return labels_of(target, format) if isinstance(domain, Words) else None


def _files(written: Written, home: Home, format: Format, norm: str) -> dict[str, bytes]:
    """All bytes of the folder, by their names."""
    transformer = written.construction.transformer
    if written.construction.claim.target.encode() is None:
        raise RequestError(
            "The target cannot be stored, and a folder without it could not be certified."
        )
    files = {
        CONFIG: _json(written.config),
        WEIGHTS: to_bytes(written.tensors, format),
        DESCRIPTION: _safetensors.to_bytes(written.construction, None),
        CARD: card(written, home.class_name, norm).encode(),
    }
    record = host_record(written.construction, home.name)
    if record is not None:
        files[CIRCUIT] = _json(record)
    if written.ids.symbols:
        tokenizer, settings = tokenizer_files(written.ids, transformer.tokens)
        files |= {TOKENIZER: _json(tokenizer), SETTINGS: _json(settings)}
    return files


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


# ---- reading -------------------------------------------------------------------------------------


def read_huggingface(folder: str | os.PathLike[str]) -> StoredHost:
    """What a folder's weights and config mean: a Transformer with its claim, and its host.

    The Transformer is made of the numbers in model.safetensors, folded by powers of two alone.
    Every field of the config that changes what is computed must have a value that is understood,
    and the tokenizer must map the alphabet to the rows of the embedding. The claim is about the
    format that the weights are stored in.
    """
    path = path_of(folder)
    with naming(path):
        if not path.is_dir():
            raise FileError("is not a folder.")
        if (path / _SHARDS).exists():
            raise FileError("holds sharded weights, and only one model.safetensors is read.")
        other = [name for name in _OTHER_PARTS if (path / name).exists()]
        if other:
            raise FileError(f"holds {other[0]}, which changes what is loaded: delete it.")
    names = [CONFIG, WEIGHTS, DESCRIPTION]
    names += [name for name in (TOKENIZER, SETTINGS, CIRCUIT) if (path / name).exists()]
    files: dict[str, bytes] = {}
    for name in names:
        with naming(path / name):
            files[name] = read_file(path / name)
    with naming(path):
        return _read_files(files, path)


def _read_files(files: Mapping[str, bytes], path: Path) -> StoredHost:
    try:
        return _read(files, path)
    except FileError:
        raise
    except HardmaxError as reason:
        raise FileError(f"holds parts that do not make a model: {reason}") from reason
    except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as reason:
        raise FileError("has a malformed config, tokenizer or description.") from reason


def _read(files: Mapping[str, bytes], path: Path) -> StoredHost:
    config = _object(files[CONFIG], CONFIG)
    stored = _safetensors.from_bytes(files[DESCRIPTION])
    tensors, dtype = from_bytes(files[WEIGHTS])
    home = next((h for h in HOMES.values() if h.name == config.get("model_type")), None)
    if home is None:
        known = ", ".join(HOMES)
        raise FileError(f"is for {config.get('model_type')!r}, but only {known} are understood.")
    if config.get("architectures") != [home.class_name] or config.get("dtype") != dtype:
        raise FileError(
            f"says architectures = {config.get('architectures')!r} and dtype = "
            f"{config.get('dtype')!r}, but its weights are {dtype} for {home.class_name}."
        )
    format = format_named(dtype)
    labels = _stored_labels(stored, format)
    more = labels.texts if labels is not None and home.one_vocabulary else ()
    ids = ids_of(stored.transformer, more)
    if ids.symbols:
        tokenizer, settings = (_object(files.get(n), n) for n in (TOKENIZER, SETTINGS))
        check_tokenizer(tokenizer, settings, ids, stored.transformer.tokens)
    promise = Promise(stored.transformer, labels, ids, format)
    transformer, host, constants = home.read(Files(config, tensors), promise)
    circuit, hooks = _stored_circuit(files, stored, home.name)
    return StoredHost(
        path,
        replaced(stored, transformer=transformer, format=dtype),
        host,
        home.class_name,
        constants,
        () if labels is None else labels.texts,
        circuit,
        hooks,
    )


def _stored_circuit(
    files: Mapping[str, bytes], stored: StoredConstruction, architecture: str
) -> tuple[Circuit | None, StepHooks]:
    """The circuit in the class's own names, and where its steps are; what lies there must agree."""
    if stored.circuit is None or stored.encoded_target is None:
        if CIRCUIT in files:
            raise FileError(f"has a {CIRCUIT}, but its model has no circuit.")
        return None, {}
    written = stored.join(decode_target(stored.encoded_target))
    meant = host_record(written, architecture)
    if CIRCUIT in files and json.loads(files[CIRCUIT]) != json.loads(_json(meant)):
        raise FileError(f"has a {CIRCUIT} that is not that of the construction beside it.")
    circuit = host_circuit(written, architecture)
    assert circuit is not None
    return circuit, step_hooks(circuit, norm_inputs(written, architecture))


def _object(data: bytes | None, name: str) -> Config:
    if data is None:
        raise FileError(f"lacks {name}.")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as reason:
        raise FileError(f"has a {name} that is not valid JSON.") from reason
    if not isinstance(found, dict):
        raise FileError(f"has a {name} that is no object.")
    return found


def _stored_labels(stored: StoredConstruction, format: Format) -> Labels | None:
    if stored.encoded_target is None:
        raise FileError("does not hold the target of its claim.")
    claim = stored.join(decode_target(stored.encoded_target)).claim
    labels = _labels(claim.domain, claim.target, format)
    if labels is not None and not labels.told_apart_within(claim.error):
        raise FileError("claims an error at which its answers are not told apart.")
    return labels
