"""What may be compiled, and how its domain is written."""

from __future__ import annotations

from typing import Any, TypeGuard

from hardmax._errors import RequestError
from hardmax.core import Box, Construction, Target
from hardmax.languages import CallableFunction, Expression, Function


def as_target(source: Any) -> Target:
    """A target as it is; text and expressions as the function they mean."""
    if isinstance(source, str):
        return Function.parse(source)
    if isinstance(source, Expression):
        return Function(source)
    if isinstance(source, tuple | list) and all(isinstance(part, Expression) for part in source):
        return Function(source)
    if isinstance(source, Target):
        return source
    if isinstance(source, Construction):
        raise RequestError("This is compiled already: evaluate it, measure it or certify it.")
    if any(kind.__module__.startswith("torch.nn") for kind in type(source).__mro__):
        raise RequestError(
            "A module of PyTorch is read first: hm.compile(hm.ReluNetwork.from_torch(module), "
            "on=...)."
        )
    if callable(source):
        raise RequestError(
            "A plain callable needs a bound to be compiled: wrap it as "
            "hm.CallableFunction(f, inputs, lipschitz=...)."
        )
    raise RequestError(
        f"A value of type {type(source).__name__} cannot be compiled; give a function as text, "
        f"a ReluNetwork, MaxoutNetwork, PiecewiseLinear or MaxAffine, or a program."
    )


def is_function(target: Target) -> TypeGuard[Function | CallableFunction]:
    return isinstance(target, Function | CallableFunction)


def domain_of(target: Function | CallableFunction, on: Any) -> Box:
    """The box of a function's variables."""
    return target.domain(on)
