"""A folder of ground truth, program by program: each is there as a whole, or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hardmax._atomic import folder_made_whole, write_atomically
from hardmax._errors import FileError, RequestError
from hardmax._reading import naming, path_of, read_file
from hardmax._version import __version__
from hardmax.languages.programs import GALLERY
from hardmax.suites._card import LICENCE
from hardmax.suites._model import HOMES, Record, Settings, digests_of, write_program

INDEX = "index.json"
SYMBOLS, LENGTH = 4, 4
_FORMAT = 1
SuiteProgress = Callable[[str, int, int], object]  # the program, how many are done, of how many


@dataclass(frozen=True)
class Suite:
    """Where a suite was written: which programs are in it, and why others were left out.

    `without` says by "program in home" why a program that is there has no model for a tool.

    >>> import hardmax as hm, tempfile
    >>> place = tempfile.mkdtemp()
    >>> made = hm.write_suite(place, programs=["shift"], symbols=2, length=2, only="lens")
    >>> made.written, made.left_out, made.without
    (('shift',), {}, {})
    """

    folder: Path
    written: tuple[str, ...]
    left_out: Mapping[str, str]
    without: Mapping[str, str]


def write_suite(
    folder: str | os.PathLike[str],
    *,
    programs: Iterable[str] | None = None,
    symbols: int = SYMBOLS,
    length: int | None = None,
    seed: int = 0,
    only: str | None = None,
    progress: SuiteProgress | None = None,
) -> Suite:
    """Write programs of the gallery as legible models with circuits, words, answers and proofs.

    Each program has a folder with its model for Hugging Face ("hf") and for TransformerLens
    ("lens"; `only` names one of the two), the circuit in its own form, InterpBench's and EAP-IG's,
    words with their answers and the values of all steps, certificates, and a page. `index.json` has
    sizes, digests and versions, and the reason for everything that is left out. Alphabets have
    `symbols` symbols and words up to `length` (4) where the program leaves that free.

    Equal settings make equal bytes with the same versions of hardmax and NumPy on one machine; no
    file holds a time. A folder that was begun is gone on with: what is there, and is what its
    index says, is kept.

    >>> import hardmax as hm, tempfile
    >>> place = tempfile.mkdtemp()
    >>> made = hm.write_suite(place, programs=["histogram"], symbols=2, length=3, only="lens")
    >>> made.written, hm.certify_folder(f"{place}/histogram/lens").method
    (('histogram',), 'blocks')
    """
    names = _checked_names(programs)
    settings = _settings(symbols, LENGTH if length is None else length, seed, only)
    path = path_of(folder)
    known = _begun(path, settings)
    with naming(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as reason:
            raise FileError(f"could not be written ({reason.strerror}).") from reason
    for number, name in enumerate(names):
        if progress is not None:
            progress(name, number, len(names))
        if name not in known or not _is_there(path / name, known[name]):
            known[name] = _written(path, name, settings)
            _keep_index(path, settings, known)
    _keep_index(path, settings, known)
    return _suite(path, {name: known[name] for name in names})


def _checked_names(programs: Iterable[str] | None) -> list[str]:
    if isinstance(programs, str):
        raise RequestError(f"programs is a list of names, such as [{programs!r}].")
    names = list(GALLERY if programs is None else dict.fromkeys(programs))
    unknown = [name for name in names if name not in GALLERY]
    if unknown or not names:
        said = f"There is no program {unknown[0]!r}" if unknown else "No program is named"
        raise RequestError(f"{said}; the gallery has {', '.join(GALLERY)}.")
    return names


def _settings(symbols: int, length: int, seed: int, only: str | None) -> Settings:
    for called, number, low, high in (("symbols", symbols, 2, 26), ("length", length, 1, 100)):
        whole = isinstance(number, int) and not isinstance(number, bool)
        if not whole or not low <= number <= high:
            raise RequestError(f"{called} is a whole number from {low} to {high}, not {number!r}.")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise RequestError(f"seed is a whole number from 0, not {seed!r}.")
    if only is not None and only not in HOMES:
        raise RequestError(f"only is one of {', '.join(HOMES)}, not {only!r}.")
    return Settings(symbols, length, seed, only)


def _begun(path: Path, settings: Settings) -> dict[str, Record]:
    """What a suite of these settings holds already; what else is there is somebody's."""
    if not path.exists():
        return {}
    with naming(path):
        if not path.is_dir():
            raise FileError("is a file, and a folder is needed.")
        if not (path / INDEX).exists():
            others = sorted(one for one in os.listdir(path) if not one.startswith(".hardmax-"))
            if others:
                raise FileError(f"holds {others[0]}, which is not ours: name a new folder.")
            return {}
        try:
            index = json.loads(read_file(path / INDEX))
            head, programs = dict(index), index["programs"]
        except (ValueError, TypeError, LookupError, RecursionError) as reason:
            raise FileError(f"has an {INDEX} that is none of a suite.") from reason
        del head["programs"]
        if head != _head(settings) or not isinstance(programs, dict):
            raise FileError(
                "holds a suite of other settings or versions: name a new folder, or delete it."
            )
        return programs


def _head(settings: Settings) -> Record:
    return {
        "format": _FORMAT,
        "licence": LICENCE,
        "versions": {"hardmax": __version__, "numpy": np.__version__},
        "settings": asdict(settings),
    }


def _is_there(place: Path, record: object) -> bool:
    """Whether a program's folder is what the index says of it."""
    if not isinstance(record, Mapping):
        return False
    if "left_out" in record:
        return not place.exists()
    homes = record.get("homes")
    if not isinstance(homes, Mapping) or not all(
        isinstance(one, Mapping) for one in homes.values()
    ):
        return False
    return place.is_dir() and digests_of(place) == record.get("files")


def _written(path: Path, name: str, settings: Settings) -> Record:
    """A program's folder, put in its place when it is whole; none if it is left out."""
    with naming(path / name):
        try:
            with folder_made_whole(path / name) as made:
                record = write_program(name, settings, made)
                if "left_out" in record:
                    raise _LeftOut(record)
        except _LeftOut as left:
            return left.record
        except OSError as reason:
            raise FileError(f"could not be written ({reason.strerror}).") from reason
    return record


class _LeftOut(Exception):
    """There is nothing to put in its place."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record


def _keep_index(path: Path, settings: Settings, programs: Mapping[str, Record]) -> None:
    in_order = {name: programs[name] for name in GALLERY if name in programs}
    text = json.dumps(
        _head(settings) | {"programs": in_order}, indent=1, sort_keys=True, allow_nan=False
    )
    with naming(path / INDEX):
        write_atomically(path / INDEX, (text + "\n").encode())


def _suite(path: Path, records: Mapping[str, Record]) -> Suite:
    left_out = {n: str(r["left_out"]) for n, r in records.items() if "left_out" in r}
    without = {}
    for name, record in records.items():
        homes = record.get("homes", {})
        assert isinstance(homes, Mapping)
        for home, said in homes.items():
            if "left_out" in said:
                without[f"{name} in {home}"] = str(said["left_out"])
    return Suite(path, tuple(n for n in records if n not in left_out), left_out, without)
