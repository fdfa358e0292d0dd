"""How a file is corrupted, and how it is forged by somebody who knows its format."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks._hostile_specimens import Specimen, specimens
from hardmax._archives import arrays_in
from hardmax.geometry.counting._checkpoint import _digest as checkpoint_digest
from hardmax.interop._safetensors import _canonical, _digest

Rng = np.random.Generator
Forgery = Callable[[Specimen, Rng], bytes]

STRANGE: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 10**30, -(10**30), 0.5, -0.0, 1e308, 5e-324,
    "", "x", "y" * 1000, "\u221e \x00 \U0001f600 \u202e", "nan", "infinity", "[-1,1]^99", [], {},
    [[]], [0, 1], {"a": 1}, ["1/3"], ["1e999999999"],
)  # fmt: skip
TOKENS = (
    "(", ")", "[", "]", "{", "}", "-", "**", "*", "/", "//", "%", "&", "|", "~", "==", "<", ",",
    ":", "=", "\n", " ", "x", "y", "0", "1e999", "1" * 50, "9**9**9", "'", '"', "lambda", "tokens",
    "index", "length", "there(", ".count()", ".at(", "max(", "exp(", "log(", "\x00", "\ufeff", "é",
    "__import__('os')", "nothing", "where(", "not ", "1j", "_",
)  # fmt: skip


# ---- any file ---------------------------------------------------------------------------------


def flipped(file: Specimen, rng: Rng) -> bytes:
    data = bytearray(file.data)
    for _ in range(int(rng.integers(1, 5))):
        data[rng.integers(len(data))] ^= 1 << int(rng.integers(8))
    return bytes(data)


def truncated(file: Specimen, rng: Rng) -> bytes:
    return file.data[: rng.integers(len(file.data))]


def lengthened(file: Specimen, rng: Rng) -> bytes:
    return file.data + rng.bytes(int(rng.integers(1, 1000)))


def cut_out(file: Specimen, rng: Rng) -> bytes:
    start, stop = sorted(rng.integers(len(file.data) + 1, size=2).tolist())
    filling = [b"", bytes(stop - start), file.data[start:stop] * 2][int(rng.integers(3))]
    return file.data[:start] + filling + file.data[stop:]


def spliced(file: Specimen, rng: Rng) -> bytes:
    others = specimens()
    other = others[rng.integers(len(others))].data
    return file.data[: rng.integers(len(file.data) + 1)] + other[rng.integers(len(other)) :]


def renamed(file: Specimen, rng: Rng) -> bytes:
    """Another kind of file by this one's name."""
    others = specimens()
    return others[rng.integers(len(others))].data


# ---- trees of JSON -----------------------------------------------------------------------------


def _strange(rng: Rng) -> Any:
    if rng.random() < 0.05:
        deep: Any = []
        for _ in range(int(rng.integers(1, 900))):
            deep = [deep]
        return deep
    return copy.deepcopy(STRANGE[rng.integers(len(STRANGE))])


def disturb(tree: Any, rng: Rng) -> None:
    """Change one place of a tree of lists and objects: replace, remove, double or swap."""
    place: Any = tree
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            place.update(a=1) if isinstance(place, dict) else place.append(1)
            return
        key = keys[rng.integers(len(keys))]
        if not isinstance(place[key], dict | list) or rng.random() < 0.15:
            break
        place = place[key]
    match int(rng.integers(5)):
        case 0:
            del place[key]
        case 1 if isinstance(place, list):
            place.append(copy.deepcopy(place[key]))
        case 2:
            other = keys[rng.integers(len(keys))]
            place[key], place[other] = place[other], place[key]
        case 3 if isinstance(place[key], int | float) and not isinstance(place[key], bool):
            scales = (0.0, -1.0, 0.5, 1.001, 1e3, 1e200)
            found = place[key] * scales[rng.integers(6)]
            place[key] = found if np.isfinite(found) else 0
        case _:
            place[key] = _strange(rng)


# ---- arrays ------------------------------------------------------------------------------------


def disturbed(array: np.ndarray, rng: Rng) -> np.ndarray:
    """Another array in place of one: other numbers, another type, another shape."""
    with np.errstate(all="ignore"):
        match int(rng.integers(12)):
            case 0 if array.size and array.dtype.kind == "f":
                values = (np.nan, np.inf, -np.inf, 1e308, 5e-324)
                array = array.copy()
                array.flat[rng.integers(array.size)] = values[rng.integers(5)]
            case 1 if array.dtype.kind == "f":
                array = array * 2.0 ** int(rng.integers(-1000, 1000))
            case 2:
                array = np.zeros_like(array)
            case 3 if array.size and array.dtype.kind in "fi":
                array = array.copy()
                array.flat[rng.integers(array.size)] += (1, -1, 1000)[rng.integers(3)]
            case 4:
                kinds = ("f4", "f2", "i8", "u1", "?", "i2", "u8")
                array = array.astype(kinds[rng.integers(7)]) if array.dtype.kind != "U" else array
            case 5:
                array = array.T.copy()
            case 6 if array.ndim:
                array = array[: rng.integers(len(array) + 1)]
            case 7:
                array = array[None]
            case 8:
                array = array.ravel()
            case 9:
                array = np.zeros((0, 2 ** int(rng.integers(50))), array.dtype)
            case 10 if array.ndim:
                array = np.concatenate([array, array])
            case _ if array.dtype.kind == "f":
                array = array * (1 + 0.1 * rng.normal(size=array.shape))
    return array


def _disturb_arrays(arrays: dict[str, np.ndarray], rng: Rng) -> None:
    names = list(arrays)
    name = names[rng.integers(len(names))]
    match int(rng.integers(8)):
        case 0:
            del arrays[name]
        case 1:
            others = ("W1", "b1", "W0", "W999999", "W2", "3.weight", "-1.weight", "é", "", "knots")
            arrays[others[rng.integers(10)]] = arrays.pop(name)
        case 2:
            other = names[rng.integers(len(names))]
            arrays[name], arrays[other] = arrays[other], arrays[name]
        case _:
            arrays[name] = disturbed(arrays[name], rng)


# ---- safetensors --------------------------------------------------------------------------------


def header_of(data: bytes) -> tuple[dict[str, Any], bytes]:
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def with_header(text: str, body: bytes) -> bytes:
    header = text.encode("utf-8", "surrogatepass")
    return len(header).to_bytes(8, "little") + header + body


def forged_header(file: Specimen, rng: Rng) -> bytes:
    """Sizes, types, offsets and names that are not what follows."""
    header, body = header_of(file.data)
    for _ in range(int(rng.integers(1, 3))):
        disturb(header, rng)
    text = json.dumps(header)
    if rng.random() < 0.2 and len(text) > 2:  # the same keys twice
        text = text[:-1] + "," + text[1:]
    return with_header(text, body)


def forged_length(file: Specimen, rng: Rng) -> bytes:
    lengths = (0, 1, 2, len(file.data), len(file.data) - 8, 2**31, 2**63, 2**64 - 1, 10**8 + 1)
    return lengths[rng.integers(len(lengths))].to_bytes(8, "little") + file.data[8:]


def forged_model(file: Specimen, rng: Rng) -> bytes:
    """Description or tensors changed, and the digest made anew."""
    description, tensors = _opened(file.data)
    for _ in range(int(rng.integers(1, 3))):
        if rng.random() < 0.5:
            _disturb_arrays(tensors, rng)
        else:
            disturb(description, rng)
    return _signed(description, tensors)


def forged_claim(file: Specimen, rng: Rng) -> bytes:
    """A claim that says more: a smaller error, a larger domain, or another target."""
    description, tensors = _opened(file.data)
    claim, target = description["claim"], description["target"]
    match int(rng.integers(3)):
        case 0:
            factor = (0.0, 1e-6, 0.1, 0.5, 0.99)[rng.integers(5)]
            claim["ledger"] = [[c, w, a * factor] for c, w, a in claim["ledger"]]
        case 1 if "low" in claim["domain"]:
            factor = (1.01, 2.0, 1e6)[rng.integers(3)]
            claim["domain"]["high"] = [h * factor for h in claim["domain"]["high"]]
        case 1:
            claim["domain"]["lengths"][1] += int(rng.integers(1, 9))
        case _:
            target["text"] = str(target["text"]).replace("x", "(x+0.3)").replace('"b"', '"a"')
    return _signed(description, tensors)


def forged_certificate(file: Specimen, rng: Rng) -> bytes:
    """A certificate of another model, or one that says other numbers."""
    description, tensors = _opened(file.data)
    others = [one for one in specimens() if one.kind == "model"]
    other = _opened(others[rng.integers(len(others))].data)[0].get("certificate")
    if other is not None and rng.random() < 0.5:
        own = description.get("certificate") or {}
        subject = ("fingerprint", "target", "target_digest", "domain", "claimed")
        keep = subject if rng.random() < 0.5 else ()
        description["certificate"] = other | {name: own[name] for name in keep if name in own}
    elif isinstance(description.get("certificate"), dict):
        disturb(description["certificate"], rng)
    return _signed(description, tensors)


def perjured(file: Specimen, rng: Rng) -> bytes:
    """Weights that compute something else, under a certificate that says PROVED about them."""
    from hardmax.checker._certificate import subject
    from hardmax.interop._description import Tensors, rebuild
    from hardmax.languages import decode_target

    description, tensors = _opened(file.data)
    names = [name for name, a in tensors.items() if a.dtype.kind == "f" and "witness" not in name]
    name = names[rng.integers(len(names))]
    tensors[name] = tensors[name] * (1 + rng.normal(size=tensors[name].shape))
    certificate = description.get("certificate")
    if certificate is not None:
        stored = rebuild(copy.deepcopy(description), Tensors(tensors))
        if stored.encoded_target is not None:
            certificate |= subject(stored.join(decode_target(stored.encoded_target)))
            certificate |= {"verdict": "PROVED", "measured": 0.0, "certified": 0.0}
    return _signed(description, tensors)


def _opened(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    from safetensors.numpy import load

    description = json.loads(header_of(data)[0]["__metadata__"]["hardmax"])
    del description["sha256"]
    return description, dict(sorted(load(data).items()))  # which come in any order


def _signed(description: dict[str, Any], tensors: dict[str, np.ndarray]) -> bytes:
    from safetensors.numpy import save

    tensors = {name: np.ascontiguousarray(array) for name, array in tensors.items()}
    description = description | {"sha256": _digest(description, tensors)}
    return save(tensors, metadata={"hardmax": _canonical(description)})


# ---- archives ------------------------------------------------------------------------------------


def forged_archive(file: Specimen, rng: Rng) -> bytes:
    """Other arrays under the same names, or the same under others."""
    arrays = arrays_in(file.data)
    for _ in range(int(rng.integers(1, 3))):
        if arrays:
            _disturb_arrays(arrays, rng)
    if file.kind == "checkpoint" and rng.random() < 0.5:
        arrays.pop("sha256", None)
        arrays["sha256"] = checkpoint_digest(arrays)
    buffer = io.BytesIO()
    write = np.savez_compressed if rng.random() < 0.5 else np.savez
    write(buffer, **arrays)  # type: ignore[operator]
    return buffer.getvalue()


def forged_directory(file: Specimen, rng: Rng) -> bytes:
    """One field of the zip directory: method, sums, sizes, offsets."""
    data = bytearray(file.data)
    entries = [i for i in range(len(data)) if data[i : i + 4] == b"PK\x01\x02"]
    entry = entries[rng.integers(len(entries))]
    place, width = ((8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (42, 4))[rng.integers(7)]
    values = (0, 1, 8, 14, 2**16 - 1, 2**30, 2**32 - 1)
    value = values[rng.integers(7)] % 2 ** (8 * width)
    data[entry + place : entry + place + width] = value.to_bytes(width, "little")
    return bytes(data)


def forged_array(file: Specimen, rng: Rng) -> bytes:
    """A header of an array that asks for something else than follows it."""
    swaps = (
        (b"<f8", b"|O8"), (b"<f8", b"<f2"), (b"<f8", b"|V0"), (b"<f8", b">f8"), (b"<f8", b"<M8"),
        (b"'shape': (", b"'shape': (9999999,"), (b"False", b"True "), (b"descr", b"descs"),
        (b"'shape': (", b"'shape': (-1, -"), (b"\x93NUMPY\x01", b"\x93NUMPY\x03"),
        (b"{'descr'", b"{[[[[[[["),
    )  # fmt: skip
    old, new = swaps[rng.integers(len(swaps))]
    if file.suffix == ".npy":
        return file.data.replace(old, new, 1)
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(file.data)) as source, zipfile.ZipFile(buffer, "w") as made:
        members = source.namelist()
        chosen = members[rng.integers(len(members))]
        for name in members:
            content = source.read(name)
            made.writestr(name, content.replace(old, new, 1) if name == chosen else content)
    return buffer.getvalue()


# ---- texts ---------------------------------------------------------------------------------------


def scribbled(file: Specimen, rng: Rng) -> bytes:
    """Words of the language, and others, put in at random."""
    text = file.data.decode()
    for _ in range(int(rng.integers(1, 6))):
        place = int(rng.integers(len(text) + 1))
        text = text[:place] + TOKENS[rng.integers(len(TOKENS))] + text[place:]
    return text.encode()


def nested(file: Specimen, rng: Rng) -> bytes:
    pairs = (("(", ")"), ("-", ""), ("~", ""), ("abs(", ")"), ("[", "]"))
    opening, closing = pairs[rng.integers(5)]
    times = int(10 ** rng.uniform(1, 5))
    return (opening * times + file.data.decode() + closing * times).encode()


def repeated(file: Specimen, rng: Rng) -> bytes:
    between = (b" + ", b"\n", b", ", b" * ", b"")[rng.integers(5)]
    return between.join([file.data] * int(10 ** rng.uniform(1, 4)))


ANY: tuple[Forgery, ...] = (flipped, truncated, lengthened, cut_out, spliced, renamed)
OF_MODELS = (forged_model, forged_model, forged_model, forged_claim, forged_certificate, perjured)
OF_SAFETENSORS = (forged_header, forged_header, forged_length)
OF_ARCHIVES = (forged_archive, forged_archive, forged_directory, forged_array)
OF_TEXTS = (scribbled, scribbled, scribbled, nested, repeated)


def forgeries_of(file: Specimen) -> tuple[Forgery, ...]:
    """What can be done to a file of this kind."""
    match file.kind, file.suffix:
        case "model", _:
            return (*ANY, *OF_MODELS, *OF_SAFETENSORS)
        case _, ".safetensors":
            return (*ANY, *OF_SAFETENSORS)
        case _, ".npz":
            return (*ANY, *OF_ARCHIVES)
        case _, ".npy":
            return (*ANY, forged_array)
        case _, ".onnx":
            return ANY
    return (*ANY, *OF_TEXTS)
