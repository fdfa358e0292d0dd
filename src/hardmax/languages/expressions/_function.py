"""Functions given by expressions, as targets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hardmax._errors import FileError, HardmaxError, RequestError, ShapeError
from hardmax.core import Box, EncodedTarget, Steps, by_arithmetic
from hardmax.languages.expressions._domain import check_domain, named_box
from hardmax.languages.expressions._expression import Expression, as_expression, check_name
from hardmax.languages.expressions._print import to_text
from hardmax.languages.expressions._steps import Place, steps_of
from hardmax.languages.expressions._text import DEEPEST, parse
from hardmax.languages.expressions._values import evaluate_all
from hardmax.numerics import Interval

ARROW = "->"


@dataclass(frozen=True)
class Function:
    """R^inputs -> R^outputs, one expression per output, in an order of the variables.

    The variables are taken in the order of their first appearance unless they are given. Numbers
    mean what `Number` says, so the function is exact: calling it on Fractions gives true values
    where all operations are rational, on intervals enclosures.

        >>> f = Function.parse("x*y, x + y")
        >>> f([0.5, 3.0])
        array([1.5, 3.5])
        >>> f(x=0.5, y=3.0)
        array([1.5, 3.5])
    """

    expressions: tuple[Expression, ...]
    variables: tuple[str, ...]

    def __init__(self, outputs: object, variables: Iterable[str] | str | None = None) -> None:
        if isinstance(outputs, str):
            raise RequestError(f"A function as text is read by hm.Function.parse({outputs!r}).")
        given = outputs if isinstance(outputs, tuple | list) else (outputs,)
        expressions = tuple(as_expression(output) for output in given)
        if not expressions:
            raise RequestError("A function needs at least one output.")
        used = tuple(dict.fromkeys(name for e in expressions for name in e.variables()))
        names = used if variables is None else _names(variables)
        _check(expressions, names, used)
        object.__setattr__(self, "expressions", expressions)
        object.__setattr__(self, "variables", names)

    @classmethod
    def parse(cls, text: str, variables: Iterable[str] | str | None = None) -> Function:
        """Read "x*y", "x*y, x + y", or, with the order of the variables, "y, x -> x*y"."""
        names = None if variables is None else _names(variables)
        if isinstance(text, str) and ARROW in text:
            before, _, text = text.partition(ARROW)
            own = _names(before)
            if names is not None and names != own:
                raise RequestError("The variables are given twice; leave out one of the lists.")
            names = own
        return cls(parse(text, names), names)

    @property
    def inputs(self) -> int:
        return len(self.variables)

    @property
    def outputs(self) -> int:
        return len(self.expressions)

    @property
    def parameters(self) -> None:
        return None

    def __call__(self, x: Any = None, /, **values: Any) -> Any:
        """The outputs, along the last axis for numbers and the first for an `Interval`.

        x holds the variables in their order, or each is given by its name.
        """
        if x is None or values:
            x = self._stacked(x, values)
        return by_arithmetic(x, self.inputs, rows=self._rows, columns=self._columns)

    def _stacked(self, x: object, values: Mapping[str, object]) -> np.ndarray | Interval:
        if x is not None or set(values) != set(self.variables):
            raise ShapeError(
                f"Give the inputs as one array, or all by name: {', '.join(self.variables)}."
            )
        parts = [values[name] for name in self.variables]
        if not any(isinstance(part, Interval) for part in parts):
            return np.stack(np.broadcast_arrays(*map(np.asarray, parts)), axis=-1)
        boxes = [part if isinstance(part, Interval) else Interval.point(part) for part in parts]
        lows = np.broadcast_arrays(*(box.lo for box in boxes))
        highs = np.broadcast_arrays(*(box.hi for box in boxes))
        return Interval(np.stack(lows), np.stack(highs))

    def _rows(self, x: np.ndarray) -> np.ndarray:
        exactly = x.dtype == object
        values = evaluate_all(
            self.expressions, self._by_name(x.T), "fraction" if exactly else "float"
        )
        columns = [np.broadcast_to(np.asarray(values[e]), x.shape[:1]) for e in self.expressions]
        return np.stack(columns, axis=1)

    def _columns(self, x: Interval) -> Interval:
        values = evaluate_all(self.expressions, self._by_name(x), "interval")
        return Interval(
            np.stack([np.broadcast_to(values[e].lo, x.shape[1:]) for e in self.expressions]),
            np.stack([np.broadcast_to(values[e].hi, x.shape[1:]) for e in self.expressions]),
        )

    def _by_name(self, columns: np.ndarray | Interval) -> dict[str, np.ndarray | Interval]:
        return {name: columns[i] for i, name in enumerate(self.variables)}

    def steps(self) -> Steps:
        """The straight-line program; its last value holds the outputs."""
        return self._program[0]

    def places(self) -> dict[Expression, Place]:
        """For each part that has one: the number of the value of `steps()`, and the component."""
        return dict(self._program[1])

    @cached_property
    def _program(self) -> tuple[Steps, dict[Expression, Place]]:
        return steps_of(self.expressions, self.variables)

    def domain(self, on: object) -> Box:
        """The box that a user means, in the order of the variables.

        A mapping {"x": (-1, 1)}, texts such as ["x=-1:1"], a `Box`, or what `Box.of` takes.
        """
        return named_box(on, self.variables)

    def check_domain(self, on: object) -> Box:
        """The same box, refused unless everything in the function is defined and finite there."""
        box = self.domain(on)
        check_domain(self.expressions, dict(zip(self.variables, _edges(box), strict=True)))
        return box

    def encode(self) -> EncodedTarget:
        return EncodedTarget("function", str(self), {})

    @classmethod
    def decode(cls, text: str) -> Function:
        """The function whose encoding has this text."""
        try:
            return cls.parse(text)
        except HardmaxError as reason:
            raise FileError(f"The target is no function that can be read ({reason}).") from reason

    def __str__(self) -> str:
        outputs = ", ".join(to_text(expression) for expression in self.expressions)
        return f"{', '.join(self.variables)} {ARROW} {outputs}"

    def __repr__(self) -> str:
        text = str(self)
        return f"Function({text if len(text) <= 80 else text[:77] + '...'})"


def _names(variables: Iterable[str] | str) -> tuple[str, ...]:
    if isinstance(variables, str):
        variables = variables.replace(",", " ").split()
    names = tuple(variables)
    for name in names:
        check_name(name)
    if len(set(names)) < len(names):
        raise RequestError(f"The variables {', '.join(names)} are not different; name each once.")
    return names


def _check(
    expressions: tuple[Expression, ...], names: tuple[str, ...], used: tuple[str, ...]
) -> None:
    if not names:
        raise RequestError(
            "The function has no variables; write one that depends on something, as in x + 1."
        )
    strangers = [name for name in used if name not in names]
    if strangers:
        raise RequestError(
            f"{strangers[0]} is not among the variables {', '.join(names)}; add it to them."
        )
    if max(expression.depth for expression in expressions) > DEEPEST:
        raise RequestError(
            f"The function nests operations deeper than {DEEPEST} levels; split it up."
        )
    for expression in expressions:
        to_text(expression)  # refuses what is too long to be written down


def _edges(box: Box) -> list[tuple[float, float]]:
    return list(zip(box.low.tolist(), box.high.tolist(), strict=True))
