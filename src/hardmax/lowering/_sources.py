"""What may be compiled, and how its domain is written."""

from __future__ import annotations

import sys
from typing import TypeGuard

from hardmax._errors import RequestError
from hardmax.core import Box, Construction, Target
from hardmax.languages import CallableFunction, Expression, Function


def as_target(source: object) -> Target:
    """A target as it is; text and expressions as the function they mean."""
    if isinstance(source, Construction):
        raise RequestError("This is compiled already: evaluate it, measure it or certify it.")
    if isinstance(source, str):
        return Function.parse(source)
    if isinstance(source, Expression):
        return Function(source)
    if isinstance(source, tuple | list) and all(isinstance(part, Expression) for part in source):
        return Function(source)
    if isinstance(source, Target):
        return source
    if _is_torch_module(source):
        raise RequestError(
            f"A torch module ({type(source).__name__}) is compiled by way of the network that it "
            f"computes: give hm.from_torch(module, shape=...)."
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


def _is_torch_module(source: object) -> bool:
    """Without importing torch: whoever holds a module has done that."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(source, torch.nn.Module)


def is_function(target: Target) -> TypeGuard[Function | CallableFunction]:
    return isinstance(target, Function | CallableFunction)


def domain_of(target: Function | CallableFunction, on: object) -> Box:
    """The box of a function's variables."""
    return target.domain(on)
