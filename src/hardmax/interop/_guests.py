"""Packages that are opened only when somebody asks for them, and the versions that were tried."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from hardmax._errors import MissingExtra, RequestError

# From the first of these to before the second, as the extras of pyproject.toml say.
TRIED = {"onnx": ((1, 16), (2,)), "jax": ((0, 5), (0, 11))}


def check_guest(package: str) -> None:
    """Refuse a package that is missing or of a version that nobody tried; the extra has its name.

    What is asked is the version that is installed: nothing is imported.
    """
    lowest, below = TRIED[package]
    try:
        found = version(package)
    except PackageNotFoundError:
        raise MissingExtra(package, package) from None
    if not lowest <= _numbers(found) < below:
        raise RequestError(
            f"{package} {found} is installed, but models are written for versions from "
            f"{_dotted(lowest)} to before {_dotted(below)}. "
            f"Try: pip install 'hardmax[{package}]'"
        )


def _numbers(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: 1.23.0rc1 is (1, 23, 0)."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
        if digits != part:
            break
    return tuple(numbers)


def _dotted(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
