"""What a user may name as a source: a function as text, or a file that holds a network."""

from __future__ import annotations

import os
from pathlib import Path

from hardmax import Box, DomainError, Function, RequestError
from hardmax.cli._files import names_text, open_network, read_text
from hardmax.core import Target

_FILES = (".npz", ".safetensors", ".onnx", ".json", ".pt", ".pth", ".pkl", ".txt")


def is_file(source: str) -> bool:
    """Whether a source means a file: it is there, or it is named like one."""
    return os.path.exists(source) or Path(source).suffix.lower() in _FILES


def open_source(source: str) -> Target:
    """The network in a file, or the function that a text means, typed or in a .txt file."""
    if names_text(source):
        return Function.parse(read_text(source))
    return open_network(source) if is_file(source) else Function.parse(source)


def where(on: tuple[str, ...], target: Target) -> Box:
    """The domain from one or more --on: ranges by name for functions, one text for networks."""
    if isinstance(target, Function):
        if not on:
            example = " ".join(f"--on {name}=-1:1" for name in target.variables)
            raise DomainError(f"A claim needs a domain: say where, for example {example}.")
        named = len(on) > 1 or "=" in on[0]
        return target.domain(list(on) if named else on[0])
    return Box.of(_only(on, target), target.inputs)


def number(text: str) -> float:
    """An error as people type it; whether it makes sense is for the library to say."""
    try:
        return float(text)
    except ValueError:
        raise RequestError(
            f"The error must be a number > 0, such as 1e-3, but it is {text!r}."
        ) from None


def _only(on: tuple[str, ...], network: Target) -> str:
    example = f'--on "[-1,1]^{network.inputs}"'
    if not on:
        raise DomainError(
            f"A claim needs a domain. The network has {network.inputs} inputs: say where, for "
            f"example {example}."
        )
    if len(on) > 1:
        raise DomainError(
            f"The domain of a network is one text, but {len(on)} came; write {example}."
        )
    return on[0]
