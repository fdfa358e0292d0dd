"""One program of a suite: its model, written for each tool in which it is proved.

A claim is made in float32 first, and in float64 where that is not proved. What is not proved in any
format, or fits no home, is not written, and the reason stands in the index.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hardmax import interop
from hardmax._errors import HardmaxError, RequestError
from hardmax._folders import open_folder
from hardmax._workbench import certify, compile, save
from hardmax.checker import Certificate, Verdict
from hardmax.core import Construction, Words
from hardmax.interop import circuit_record
from hardmax.languages.programs import GALLERY, Entry, Program, ProgramTarget, is_free
from hardmax.suites._card import card
from hardmax.suites._truth import chosen_words, truth_lines

FORMATS = ("float32", "float64")
HOMES = ("hf", "lens")
FOLDERS = {"hf": "huggingface", "lens": "lens"}
LARGEST = 2_000_000  # padded parameters: beyond, a model's folders take hundreds of megabytes
MODEL, CIRCUIT, TRUTH = "hardmax.safetensors", "circuit.json", "words.jsonl"
INTERPBENCH, EAP_IG, CERTIFICATE = "interpbench.json", "eap_ig.json", "certificate.json"
CARD = "README.md"
Record = dict[str, object]


@dataclass(frozen=True)
class Settings:
    """What a suite is made of: equal settings, equal bytes."""

    symbols: int
    length: int
    seed: int
    only: str | None

    @property
    def homes(self) -> tuple[str, ...]:
        return HOMES if self.only is None else (self.only,)


def write_program(name: str, settings: Settings, place: Path) -> Record:
    """Fill an empty folder, and say what is in it; or why the program is left out."""
    entry = GALLERY[name]
    says = (inspect.getdoc(entry) or "").splitlines()[0]
    record: Record = {"says": says}
    try:
        program, words = _shown(entry, settings)
        record |= {
            "program": str(program),
            "alphabet": list(words.alphabet),
            "lengths": [words.shortest, words.longest],
        }
        models = _models(program, words)
        made, certificate = _proved(models)
    except HardmaxError as reason:
        return record | {"left_out": str(reason)}
    return record | _write(name, settings, place, made, certificate, models)


def _shown(entry: Entry, settings: Settings) -> tuple[Program, Words]:
    """The program and its words; an entry with an alphabet of its own has a length of its own."""
    if is_free(entry):
        return entry(settings.symbols, settings.length)
    (own,) = inspect.signature(entry).parameters.values()
    return entry(min(settings.length, own.default))


def _models(program: Program, words: Words) -> dict[str, Construction]:
    """The legible model by the format of its claim; too large ones are refused."""
    found = {}
    for format in FORMATS:
        model = compile(program, on=words, route="legible", float=format)
        size = model.bill.padded_parameters
        if size > LARGEST:
            raise RequestError(
                f"The legible model has {size:,} padded parameters, and a suite takes up to "
                f"{LARGEST:,}: choose fewer symbols or a smaller length."
            )
        found[format] = model
    return found


def _proved(models: Mapping[str, Construction]) -> tuple[Construction, Certificate]:
    """The first model whose claim is proved, its certificate without the time that it took."""
    for model in models.values():
        certificate = replace(certify(model), seconds=0.0)
        if certificate.verdict is Verdict.PROVED:
            return model, certificate
    raise RequestError(f"The claim is not proved. {certificate.advice}".strip())


def _write(
    name: str,
    settings: Settings,
    place: Path,
    model: Construction,
    certificate: Certificate,
    models: Mapping[str, Construction],
) -> Record:
    target, circuit = model.claim.target, model.circuit
    assert isinstance(target, ProgramTarget)
    assert circuit is not None
    save(model, place / MODEL, certificate)
    _put(place / CERTIFICATE, certificate.as_dict())
    chosen = chosen_words(target.words, name, settings.seed)
    lines = "".join(f"{line}\n" for line in truth_lines(target, circuit, chosen))
    (place / TRUTH).write_text(lines, encoding="utf-8")
    record: Record = {
        "format": model.claim.format,
        "bill": asdict(model.bill),
        "claimed": model.claim.error,
        "certified": certificate.certified,
        "steps": list(circuit.steps),
        "words": len(chosen),
        "homes": {home: _home(home, models, place / FOLDERS[home]) for home in settings.homes},
    }
    own = circuit_record(circuit, lambda k: "embedding" if k < 0 else f"blocks.{k}")
    _put(place / CIRCUIT, own)
    named = _named_by(place) or own
    _put(place / INTERPBENCH, named["interpbench"])
    _put(place / EAP_IG, named["eap_ig"])
    (place / CARD).write_text(card(name, record, circuit, target), encoding="utf-8")
    return record | {"files": digests_of(place)}


def _named_by(place: Path) -> Record | None:
    """What is said in the words of the TransformerLens model, or else of the other one."""
    for home in reversed(HOMES):
        said = place / FOLDERS[home] / CIRCUIT
        if said.exists():
            found: Record = json.loads(said.read_text(encoding="utf-8"))
            return found
    return None


def _home(home: str, models: Mapping[str, Construction], place: Path) -> Record:
    """The model in a home, in the first format in which that is proved; or the reason why not."""
    reasons = []
    for format, model in models.items():
        try:
            said = _WRITERS[home](model, place)
            folder = open_folder(place)
            found = replace(folder.certify(), seconds=0.0)
        except HardmaxError as reason:
            reasons.append(f"{format}: {reason}")
            continue
        if found.verdict is Verdict.PROVED:
            folder.keep(found)
            numbers = {"method": found.method, "certified": found.certified}
            return said | {"folder": FOLDERS[home], "format": format} | numbers
        reasons.append(f"{format}: not proved. {found.advice}".strip())
    _remove(place)
    return {"left_out": " ".join(reasons)}


def _to_huggingface(model: Construction, place: Path) -> Record:
    written = interop.write_huggingface(model, place)
    return {"class": written.class_name, "why": written.why}


def _to_lens(model: Construction, place: Path) -> Record:
    return {"attention": interop.export_lens_files(model, place).attention}


_WRITERS: dict[str, Callable[[Construction, Path], Record]] = {
    "hf": _to_huggingface,
    "lens": _to_lens,
}


def _remove(place: Path) -> None:
    if place.exists():
        for file in place.iterdir():
            file.unlink()
        place.rmdir()


def _put(place: Path, value: object) -> None:
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False)
    place.write_text(text + "\n", encoding="utf-8")


def digests_of(place: Path) -> Record:
    """Sizes and SHA-256 of all files of a folder, by their paths in it."""
    files = sorted(path for path in place.rglob("*") if path.is_file())
    found: Record = {}
    for path in files:
        data = path.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        found[path.relative_to(place).as_posix()] = {"bytes": len(data), "sha256": digest}
    return found
