"""Which network a file means, by the names of its tensors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from hardmax._errors import FileError
from hardmax.core import Target
from hardmax.languages.networks._layered import LayeredNetwork
from hardmax.languages.networks._layers import fits_float64, needed_tensor, numbered_layers
from hardmax.languages.networks._maxout import MaxoutNetwork
from hardmax.languages.networks._piecewise import PiecewiseLinear
from hardmax.languages.networks._relu import ReluNetwork

Tensors = Mapping[str, np.ndarray]


def network_of(tensors: Tensors) -> Target:
    """The network that the names call for; a file that speaks two conventions is refused."""
    spoken = {}
    for pattern, reader in _CONVENTIONS.items():
        named = {name: tensors[name] for name in tensors if re.fullmatch(pattern, name)}
        if named:
            spoken[reader] = named
    names = (
        "W1, b1, ...; 0.weight, 0.bias, ...; plus.W, plus.b; or knots, values; or write the file "
        "with save_network"
    )
    if not spoken:
        raise FileError(f"It holds no weights; name them {names}.")
    if len(spoken) > 1:
        firsts = " and ".join(next(iter(named)) for named in spoken.values())
        raise FileError(f"It holds {firsts}, which do not go together; name weights {names}.")
    ((reader, named),) = spoken.items()
    if reader is _torch_style:
        _refuse_strays(tensors, named)
    return reader(checked_reals(named))


def checked_reals(tensors: Tensors) -> Tensors:
    """The tensors themselves, if float64 holds all of their numbers without loss."""
    for name, array in tensors.items():
        if not fits_float64(array):
            raise FileError(f"The tensor {name} holds {array.dtype}; save it as float64.")
    return tensors


def _network_of_layers(tensors: Tensors) -> Target:
    weights, biases = numbered_layers(tensors)
    ranks = {W.ndim: f"W{i}" for i, W in enumerate(weights, 1)}
    if ranks.keys() == {2, 3}:
        raise FileError(
            f"It mixes the matrix {ranks[2]} with the stack of matrices {ranks[3]}; give every "
            f"weight as out x in, or every one as pieces x out x in."
        )
    return MaxoutNetwork(weights, biases) if 3 in ranks else ReluNetwork(weights, biases)


def _interpolant(tensors: Tensors) -> Target:
    return PiecewiseLinear.from_knots(
        needed_tensor(tensors, "knots"), needed_tensor(tensors, "values")
    )


def _torch_style(tensors: Tensors) -> Target:
    """Linear layers in the order of the integers in their names, rectifiers between."""
    stems = sorted({re.sub("(weight|bias)$", "", name) for name in tensors}, key=_integers)
    for first, second in pairwise(stems):
        if _integers(first) == _integers(second):
            raise FileError(
                f"Nothing says whether {first}weight or {second}weight comes first; number the "
                f"layers."
            )
    weights = [needed_tensor(tensors, f"{stem}weight") for stem in stems]
    for stem, W in zip(stems, weights, strict=True):
        if W.ndim != 2:
            raise FileError(
                f"{stem}weight has shape {W.shape}, but only linear layers (out x in) with ReLU "
                f"between them can be read."
            )
        if W.size == 0:
            raise FileError(f"{stem}weight is empty: its shape is {W.shape}.")
    zeros = [np.zeros(len(W)) for W in weights]
    biases = [tensors.get(f"{stem}bias", zero) for stem, zero in zip(stems, zeros, strict=True)]
    return ReluNetwork(weights, biases)


def _integers(name: str) -> tuple[int, ...]:
    return tuple(int(digits) for digits in re.findall(r"\d+", name))


def _refuse_strays(tensors: Tensors, found: Tensors) -> None:
    """What else a module stores, such as a running mean, would change what it computes."""
    for name, array in tensors.items():
        if name not in found and array.ndim > 0:
            raise FileError(
                f"It also holds {name}, which belongs to no linear layer; keep the weights and "
                f"biases of linear layers only."
            )


_CONVENTIONS: dict[str, Callable[[Tensors], Target]] = {
    r"[Wb]\d+": _network_of_layers,
    r"(.+\.)?(weight|bias)": _torch_style,
    r"(plus|minus)\.[Wb]": PiecewiseLinear.decode,
    r"knots|values": _interpolant,
    r"0\.inputs|[1-9]\d*\.[a-z]\w*\.(sources|W|b|groups)": LayeredNetwork.decode,
}
