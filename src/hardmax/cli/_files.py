"""Which file holds what, and whether a new one can be written, asked before any long work."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hardmax import (
    Certificate,
    Construction,
    FileError,
    RequestError,
    load,
    load_certified,
    load_network,
)
from hardmax._atomic import destination_of
from hardmax._reading import naming, read_file
from hardmax.core import SequenceInput, Target
from hardmax.interop import StoredConstruction, read_metadata, read_safetensors


def open_network(path: str) -> Target:
    """The network in a file; a compiled model is refused with a hint."""
    if _is_model(path):
        raise FileError(
            f"{path} holds a compiled model, not a network. Compile the network it was made from, "
            f"or look at it with: hardmax show {path}"
        )
    return load_network(path)


def open_model(path: str) -> Construction | StoredConstruction:
    """The compiled model in a file; a network is refused with a hint.

    A model of sequences runs without its target: where that is opaque, it comes as it is stored.
    """
    _refuse_archive(path)
    stored = read_safetensors(path)
    runs_alone = isinstance(stored.transformer.input, SequenceInput)
    return stored if runs_alone and stored.encoded_target is None else load(path)


def open_certified(path: str) -> tuple[Construction, Certificate | None]:
    """The compiled model in a file with its stored certificate, from one reading."""
    _refuse_archive(path)
    return load_certified(path)


def open_either(path: str) -> tuple[Construction | Target, Certificate | None]:
    """Whatever a file holds. Damaged files count as models: `load` says best what is wrong."""
    if _is_archive(path) or _is_pickle(path) or _is_bare(path):
        return load_network(path), None
    return load_certified(path)


def names_text(source: str) -> bool:
    """Whether a function or a program is not typed, but named: a .txt file holds it."""
    return Path(source).suffix.lower() == ".txt"


def read_text(path: str) -> str:
    """The text in a file."""
    try:
        with naming(path):
            return read_file(path).decode()
    except UnicodeDecodeError as reason:
        raise FileError(f"{path} holds no text. Save it as plain text, in UTF-8.") from reason


def check_writable(path: str, *, source: str | None = None, called: str = "the network") -> None:
    """Refuse a place that cannot be written to, or that would replace the source itself."""
    if os.path.isdir(path):
        raise FileError(f"{path} is a folder. Name a file inside it.")
    with naming(path):
        folder = destination_of(path).parent
    if not folder.is_dir():
        raise FileError(f"There is no folder {folder} for {path}. Make it, or choose another.")
    if source is not None and _is_same(path, source):
        raise FileError(f"{path} is {called} itself. Choose another name.")
    if not os.access(folder, os.W_OK):
        raise FileError(f"The folder {folder} cannot be written to. Choose another for {path}.")


def _is_same(path: str, source: str) -> bool:
    return all(map(os.path.exists, (path, source))) and os.path.samefile(path, source)


def check_picture_place(plot: str, *, source: str | None, called: str = "the network") -> None:
    """Whatever would spoil the picture in the end is found before the work."""
    from hardmax.plots import check_picture

    check_picture(plot)
    check_writable(plot, source=source, called=called)


def check_different(**places: str | None) -> None:
    """Refuse to write two things to one place."""
    seen: dict[str, str] = {}
    for option, place in places.items():
        if place is None:
            continue
        try:
            real = os.path.realpath(place)
        except ValueError:  # no file can have this name, as whoever writes it will say
            continue
        if real in seen:
            raise RequestError(f"--{seen[real]} and --{option} name one file. Give another name.")
        seen[real] = option


def _refuse_archive(path: str) -> None:
    if _is_archive(path):
        raise FileError(
            f"{path} is no compiled model. If it holds a network, compile it first: "
            f"hardmax compile {path} --on DOMAIN -o MODEL.safetensors"
        )


def _is_archive(path: str) -> bool:
    return Path(path).suffix.lower() in (".npz", ".onnx")


def _is_pickle(path: str) -> bool:
    """Whether `load_network` refuses the file by its name, and says what to do instead."""
    return Path(path).suffix.lower() in (".pt", ".pth", ".pkl")


def _is_model(path: str) -> bool:
    return "hardmax" in (_metadata(path) or {})


def _is_bare(path: str) -> bool:
    metadata = _metadata(path)
    return metadata is not None and "hardmax" not in metadata


def _metadata(path: str) -> Mapping[str, object] | None:
    """What a safetensors file says of itself; None if it is not one, or damaged."""
    try:
        return read_metadata(path)
    except FileError:
        return None
