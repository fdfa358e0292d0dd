"""Which function draws an operator, by the names that PyTorch and ONNX have for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

from hardmax._errors import FileError, RequestError, ShapeError
from hardmax.languages.networks._layers import fits_float64
from hardmax.languages.networks.operators._wiring import Wires, Wiring

Tensor = Wires | np.ndarray  # computed from the input, or constant
Operand = Tensor | float
Operator = Callable[..., object]

TORCH: dict[str, Operator] = {}
ONNX: dict[str, Operator] = {}

_F = TypeVar("_F", bound=Operator)


def torch_name(*names: str) -> Callable[[_F], _F]:
    """Read PyTorch's modules, functions and methods of these names by the function below.

    Its parameters after the wiring have the names that PyTorch gives to the arguments of the
    function, which are the names of the attributes of the module, too.
    """
    return _enter(TORCH, names)


def onnx_name(*names: str) -> Callable[[_F], _F]:
    """Read ONNX nodes of these types by the function below.

    Its parameters after the wiring are the node's inputs in their order; the attributes, by name.
    """
    return _enter(ONNX, names)


def _enter(table: dict[str, Operator], names: Sequence[str]) -> Callable[[_F], _F]:
    def enter(function: _F) -> _F:
        for name in names:
            if name in table:
                raise ValueError(f"There are two operators {name}.")
            table[name] = function
        return function

    return enter


def draw(
    operator: Operator,
    wiring: Wiring,
    label: str,
    inputs: Sequence[object],
    options: Mapping[str, object],
) -> object:
    """What the operator gives for these inputs; whatever is wrong begins with the node's label."""
    try:
        inspect.signature(operator).bind(wiring, *inputs, **options)
    except TypeError as reason:
        raise RequestError(
            f"{label} is called in a way that is not supported ({reason}): "
            f"write it with the operators that are."
        ) from None
    try:
        return operator(wiring, *inputs, **options)
    except (FileError, RequestError, ShapeError) as reason:
        raise type(reason)(f"{label} {reason}") from reason
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as reason:
        raise ShapeError(f"{label} does not fit what it reads: {reason}.") from reason


def unsupported_operator(label: str, supported: Mapping[str, Operator]) -> RequestError:
    """The refusal of an operator that is in no table, with those that are (of a module's name)."""
    names = sorted(name for name in supported if name[0].isupper())
    return RequestError(f"{label} is not supported; what is: {', '.join(names)}.")


def wires_of(x: object) -> Wires:
    """x, which must be computed from the input."""
    if not isinstance(x, Wires):
        raise RequestError("reads only constants: compute them before the network is saved.")
    return x


def constant_of(x: object, name: str) -> np.ndarray:
    """x as float64 numbers, which must not be computed from the input."""
    if isinstance(x, Wires):
        raise RequestError(
            f"needs constants as its {name}, but they are computed from the input, and products "
            f"of computed numbers are not piecewise linear."
        )
    return to_float64(np.asarray(x), name)


def to_float64(array: np.ndarray, name: str) -> np.ndarray:
    """The same numbers as float64, if that loses nothing."""
    if not fits_float64(array):
        raise RequestError(
            f"has whole numbers beyond 2^53 as its {name}, which float64 does not hold: scale them."
        )
    return array.astype(np.float64)
