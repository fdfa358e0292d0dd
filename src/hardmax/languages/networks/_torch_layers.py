"""The weights of a PyTorch module that is a ReLU network."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import MissingExtra, RequestError

if TYPE_CHECKING:
    import torch
    from torch import nn


def torch_layers(module: nn.Module) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Weights and biases of linear layers with rectifiers between, as exact float64 arrays.

    Only the plain classes are read: a subclass may compute something else.
    """
    try:
        import torch
    except ImportError as reason:
        raise MissingExtra("torch", "torch") from reason
    nn = torch.nn
    weights: list[np.ndarray] = []
    biases: list[np.ndarray] = []
    expected: type[nn.Module] = nn.Linear
    ignored = (nn.Flatten, nn.Identity, nn.Dropout)
    name, part = "The module", module
    for name, part in _leaves(module, nn.Sequential):
        if type(part) in ignored:
            continue
        if type(part) is not expected:
            raise _refusal(name, part, f"an nn.{expected.__name__} was expected there")
        if isinstance(part, nn.Linear):
            zeros = torch.zeros(part.out_features)
            weights.append(_array(part.weight, torch.float64))
            biases.append(_array(zeros if part.bias is None else part.bias, torch.float64))
        expected = nn.ReLU if expected is nn.Linear else nn.Linear
    if expected is nn.Linear:
        raise _refusal(name, part, "nothing may follow the last nn.Linear, and there must be one")
    return weights, biases


def _leaves(
    module: nn.Module, sequential: type[nn.Sequential], prefix: str = ""
) -> Iterator[tuple[str, nn.Module]]:
    """Every module of nested sequences in order, one that is used twice twice, with its place."""
    if not isinstance(module, sequential) or type(module) is not sequential:
        yield f"Module {prefix}" if prefix else "The module", module
        return
    for place, part in enumerate(module):
        yield from _leaves(part, sequential, f"{prefix}.{place}" if prefix else str(place))


def _array(tensor: torch.Tensor, float64: torch.dtype) -> np.ndarray:
    return np.asarray(tensor.detach().to("cpu", float64).numpy())


def _refusal(name: str, part: object, why: str) -> RequestError:
    return RequestError(
        f"{name} is {type(part).__name__}, but {why}: from_torch reads an nn.Sequential of "
        f"nn.Linear and nn.ReLU by turns, ending in nn.Linear."
    )
