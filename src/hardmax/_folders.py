"""Folders of other people's classes: what they hold, and certificates about those very weights."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path

from hardmax import checker
from hardmax._atomic import write_atomically
from hardmax._errors import FileError, RequestError
from hardmax._reading import naming, path_of, read_file
from hardmax._version import __version__
from hardmax.checker import Budget, Certificate, Progress
from hardmax.core import Construction, Host
from hardmax.interop import read_huggingface, read_lens_construction
from hardmax.languages import decode_target

CERTIFICATE = "certificate.json"
_ABOUT = (
    "config.json",
    "model.safetensors",
    "hardmax.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "legend.json",
    "circuit.json",
)
_LENS = "legend.json"  # which no folder for a stock class has
_KEYS = {"certificate", "sha256", "format"}
_FORMAT = 1


@dataclass(frozen=True, eq=False)
class Folder:
    """A folder's weights as a construction, the architecture they run in, and what is said of them.

    `host` is None for TransformerLens, which computes what the construction says and adds nothing.
    `altered` names the files that are not those which the stored certificate is about.

    >>> import hardmax as hm, tempfile
    >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3, float="float32")
    >>> place = hm.interop.write_huggingface(model, tempfile.mkdtemp()).folder
    >>> hm.open_folder(place).host.architecture
    't5'
    """

    path: Path
    construction: Construction
    host: Host | None
    digests: Mapping[str, str]
    certificate: Certificate | None
    altered: tuple[str, ...]

    @property
    def certified(self) -> tuple[Construction, Certificate | None]:
        """The construction, and what was once said about it."""
        return self.construction, self.certificate

    def certify(
        self,
        *,
        tolerance: float | None = None,
        budget: Budget | str | float | None = None,
        executor: Executor | None = None,
        progress: Progress | None = None,
    ) -> Certificate:
        """What the checker establishes about these weights in that architecture."""
        found = checker.certify(
            self.construction,
            tolerance=tolerance,
            budget=budget,
            executor=executor,
            progress=progress,
            host=self.host,
        )
        return replace(found, version=__version__)

    def keep(self, certificate: Certificate) -> Path:
        """Write certificate.json, with the digests of the files that were read."""
        other = certificate.altered(self.construction)
        if other:
            raise RequestError(f"The certificate is about another {' and '.join(other)}.")
        record = {
            "format": _FORMAT,
            "certificate": certificate.as_dict(),
            "sha256": dict(self.digests),
        }
        place = self.path / CERTIFICATE
        with naming(place):
            write_atomically(place, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())
        return place


def open_folder(folder: str | os.PathLike[str]) -> Folder:
    """Read what `write_huggingface` or `export_lens_files` wrote, from its weights and its config.

    A certificate that lies there is read, too, and not believed; `Folder.certify` makes one.

    >>> import hardmax as hm
    >>> hm.open_folder("nowhere")
    Traceback (most recent call last):
        ...
    hardmax._errors.FileError: nowhere is not a folder.
    """
    path = path_of(folder)
    before = _digests(path)
    construction, host = _read(path)
    if _digests(path) != before:
        raise FileError(f"{path} was changed while it was read; try again.")
    certificate, about = _stored(path)
    altered = () if certificate is None else tuple(n for n in before if about.get(n) != before[n])
    return Folder(path, construction, host, before, certificate, altered)


def _read(path: Path) -> tuple[Construction, Host | None]:
    if (path / _LENS).exists():
        return read_lens_construction(path), None
    read = read_huggingface(path)
    target = read.stored.encoded_target
    if target is None:
        raise FileError(f"{path} does not hold the target of its claim.")
    return read.stored.join(decode_target(target)), read.host


def certify_folder(
    folder: str | os.PathLike[str],
    *,
    tolerance: float | None = None,
    budget: Budget | str | float | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
    write: bool = False,
) -> Certificate:
    """What an independent checker establishes about the weights in a folder.

    Those for Hugging Face are read back, as they are stored, and certified in the architecture that
    runs them: what its norms, activations and casts do to each read is charged from the stored
    config and from the checker's own ranges. Those for TransformerLens are the construction's own,
    bit for bit, and of a legible model its circuit and its interventions are proved, too.
    `write=True` puts certificate.json into the folder, unless the claim is undecided.

    >>> import hardmax as hm, tempfile
    >>> model = hm.compile(hm.programs.histogram, alphabet="ab", length=3, float="float32")
    >>> place = hm.interop.write_huggingface(model, tempfile.mkdtemp()).folder
    >>> certificate = hm.certify_folder(place)
    >>> certificate.verdict.name, "float32" in certificate.holds_in
    ('PROVED', True)
    """
    opened = open_folder(folder)
    found = opened.certify(tolerance=tolerance, budget=budget, executor=executor, progress=progress)
    if write and found.verdict is not checker.Verdict.UNDECIDED:
        opened.keep(found)
    return found


def _digests(path: Path) -> dict[str, str]:
    """SHA-256 of the files that a certificate is about, as far as they are there."""
    found = {}
    for name in _ABOUT:
        place = path / name
        if place.is_file():
            with naming(place):
                found[name] = hashlib.sha256(read_file(place)).hexdigest()
    return found


def _stored(path: Path) -> tuple[Certificate | None, Mapping[str, object]]:
    """The certificate that lies in a folder, and the digests of what it is about."""
    place = path / CERTIFICATE
    if not place.exists():
        return None, {}
    with naming(place):
        try:
            record = json.loads(read_file(place))
        except (ValueError, RecursionError) as reason:
            raise FileError(
                "is not valid JSON; delete it, and certify the folder again."
            ) from reason
        if not isinstance(record, dict) or set(record) != _KEYS or record["format"] != _FORMAT:
            raise FileError("is no certificate of a folder; delete it, and certify again.")
        about = record["sha256"]
        if not isinstance(record["certificate"], dict) or not isinstance(about, dict):
            raise FileError("is no certificate of a folder; delete it, and certify again.")
        return Certificate.from_dict(record["certificate"]), about
