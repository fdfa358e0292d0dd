"""What may be compiled, and how its domain is written."""

from __future__ import annotations

from typing import TypeGuard

from hardmax._errors import RequestError
from hardmax.core import Box, Target
from hardmax.languages import CallableFunction, Expression, Function


def as_target(source: object) -> Target:
    """A target as it is; text and expressions as the function they mean."""
    if isinstance(source, str):
        return Function.parse(source)
    if isinstance(source, Expression):
        return Function(source)
    if isinstance(source, tuple | list) and all(isinstance(part, Expression) for part in source):
        return Function(source)
    if isinstance(source, Target):
        return source
    if callable(source):
        raise RequestError(
            "A plain callable needs a bound to be compiled: wrap it as "
            "hm.CallableFunction(f, inputs, lipschitz=...)."
        )
    raise RequestError(
        f"A {type(source).__name__} cannot be compiled; give a function as text, a ReluNetwork, "
        f"MaxoutNetwork, PiecewiseLinear or MaxAffine."
    )


def is_function(target: Target) -> TypeGuard[Function | CallableFunction]:
    return isinstance(target, Function | CallableFunction)


def domain_of(target: Function | CallableFunction, on: object) -> Box:
    """The box of a function's variables."""
    return target.domain(on)
