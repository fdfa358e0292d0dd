"""What users write for the domain of a function of named variables."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hardmax._errors import DomainError
from hardmax.core import Box

Edge = tuple[float, float]


def named_box(on: object, variables: Sequence[str]) -> Box:
    """The box in the order of the variables.

    From a mapping {"x": (-1, 1)}, from texts such as "x=-1:1" (one of them, or a list), from a
    `Box`, or from whatever else `Box.of` takes.
    """
    if isinstance(on, str) and "=" in on:
        on = [on]
    if isinstance(on, list | tuple) and on and all(isinstance(item, str) for item in on):
        on = _read(on)
    if not isinstance(on, Mapping):
        try:
            return Box.of(on, len(variables))
        except DomainError as error:
            if "inputs" not in str(error):
                raise
            raise DomainError(
                f"{error} The variables are {', '.join(variables)}; pi and e are constants."
            ) from None
    _check_names(on, variables)
    edges = [_edge(name, on[name]) for name in variables]
    ends = np.array(edges, dtype=np.float64).reshape(-1, 2)
    return Box(ends[:, 0], ends[:, 1])


def _read(texts: Iterable[str]) -> dict[str, Edge]:
    domain: dict[str, Edge] = {}
    for text in texts:
        name, equals, ends = text.partition("=")
        low, colon, high = ends.partition(":")
        name = name.strip()
        if not (equals and colon and name):
            raise DomainError(f'The domain "{text}" could not be read; write it as x=-1:1.')
        if name in domain:
            raise DomainError(f"The domain of {name} is given twice; give it once.")
        try:
            domain[name] = float(low), float(high)
        except ValueError:
            raise DomainError(
                f'The domain "{text}" could not be read; its ends must be numbers, as in '
                f"{name}=-1:1."
            ) from None
    return domain


def _check_names(domain: Mapping[str, object], variables: Sequence[str]) -> None:
    unused = [str(name) for name in domain if name not in variables]
    missing = [name for name in variables if name not in domain]
    constant = next((name for name in unused if name in ("e", "pi")), None)
    if constant is not None:
        raise DomainError(
            f"{constant} is a constant, not a variable; give the variable another name."
        )
    if unused:
        near = difflib.get_close_matches(unused[0], missing or variables, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise DomainError(
            f"A domain was given for {unused[0]}, which the function does not use. {hint}"
            f"Its variables are {', '.join(variables)}."
        )
    if missing:
        raise DomainError(
            f"No domain was given for {', '.join(missing)}; add "
            f"{' '.join(f'--on {name}=LOW:HIGH' for name in missing)}, or "
            f"{', '.join(f'{name!r}: (low, high)' for name in missing)} in Python."
        )


def _edge(name: str, ends: object) -> Edge:
    try:
        low, high = (float(end) for end in (ends if isinstance(ends, Iterable) else ()))
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            f"The domain of {name} must be a pair (low, high) of numbers, not {ends!r}."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DomainError(
            f"The domain of {name} is [{low:g}, {high:g}]; give finite numbers for both ends."
        )
    if low > high:
        raise DomainError(
            f"The domain of {name} is inverted, [{low:g}, {high:g}]; give the smaller end first."
        )
    return low, high
