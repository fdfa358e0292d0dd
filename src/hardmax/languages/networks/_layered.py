"""Networks of any layers that are affine maps, maxima and named functions, however connected."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

import numpy as np

from hardmax._errors import FileError, RequestError, ShapeError
from hardmax.core import Affine, EncodedTarget, Maximum, Numbers, Steps, Univariate, by_arithmetic
from hardmax.languages.networks._from_torch import torch_program
from hardmax.languages.networks._layers import needed_tensor, number_and_noun
from hardmax.languages.networks._relu import ReluNetwork
from hardmax.numerics import Interval

if TYPE_CHECKING:
    import torch

Step = Affine | Maximum | Univariate


@dataclass(frozen=True, eq=False)
class LayeredNetwork:
    """x -> the last value of a straight-line program: residual, convolutional, pooling networks.

    The program holds affine maps, maxima and named functions; shapes are gone, and inputs and
    outputs are flat, in the order of `x.reshape(-1)` of one input without its batch. Weights are
    float64 and denote exact rationals: `program` *is* the network, and what a batch norm or an
    average over 9 places rounded when it was written as an affine map is rounded for good.

        >>> from hardmax.core import Affine, Maximum, Steps
        >>> pairs = Affine((0,), [[1.0], [-1.0]], [0.0, 0.0])
        >>> absolute = LayeredNetwork(Steps(1, [pairs, Maximum((1,), [[0, 1]])]))
        >>> absolute([-0.5])
        array([0.5])

    Cost: every affine map is a dense matrix, a convolution too, so that this is for small images.
    """

    program: Steps

    def __post_init__(self) -> None:
        if not isinstance(self.program, Steps) or not self.program.steps:
            raise ShapeError("A layered network needs a program of at least one step.")
        for number, step in enumerate(self.program.steps):
            if not isinstance(step, Step) or (
                isinstance(step, Univariate) and step.name == "power"
            ):
                raise ShapeError(
                    f"Step {number} is {_word(step)}, but a layered network has affine steps, "
                    f"maxima and functions without an exponent: write it as a function instead."
                )

    @classmethod
    def from_torch(cls, module: torch.nn.Module, shape: int | Sequence[int]) -> LayeredNetwork:
        """What a module computes in evaluation mode on one input of this shape, without a batch.

        It is traced by torch.fx, so `forward` must not branch on numbers; every supported
        operator is a function in `languages/networks/operators`. Weights of float16, bfloat16
        and float32 are float64 numbers already; what is rounded is said at the operator.

            >>> from torch import nn
            >>> LayeredNetwork.from_torch(nn.Hardtanh(), 2)([0.5, 3.0])
            array([0.5, 1. ])
        """
        return cls(torch_program(module, shape))

    @property
    def inputs(self) -> int:
        return self.program.inputs

    @property
    def outputs(self) -> int:
        return self.program.steps[-1].size

    @property
    def parameters(self) -> int:
        """Entries of all matrices and biases, the zeros of convolutions among them."""
        affine = [step for step in self.program.steps if isinstance(step, Affine)]
        return sum(step.weights.size + step.bias.size for step in affine)

    @overload
    def __call__(self, x: Interval, /) -> Interval: ...
    @overload
    def __call__(self, x: Numbers, /) -> np.ndarray: ...
    def __call__(self, x: Numbers | Interval, /) -> np.ndarray | Interval:
        return by_arithmetic(
            x,
            self.inputs,
            rows=lambda rows: np.asarray(self.program.values(rows.T)[-1].T),
            columns=lambda box: self.program.values(box)[-1],
        )

    def steps(self) -> Steps:
        """The program itself."""
        return self.program

    def encode(self) -> EncodedTarget:
        """Tensors "0.inputs" and "3.affine.sources", "3.affine.W", ...: step 3 makes value 3."""
        tensors = {"0.inputs": np.array([self.inputs])}
        for number, step in enumerate(self.program.steps, 1):
            stem = f"{number}.{_word(step)}"
            tensors[f"{stem}.sources"] = np.array(step.sources, dtype=np.int64)
            match step:
                case Affine(weights=weights, bias=bias):
                    tensors |= {f"{stem}.W": weights, f"{stem}.b": bias}
                case Maximum(groups=groups):
                    tensors[f"{stem}.groups"] = groups
        return EncodedTarget("layered", f"layered network {self._sizes()}", tensors)

    @classmethod
    def decode(cls, tensors: Mapping[str, np.ndarray]) -> LayeredNetwork:
        """The network whose encoding holds these tensors."""
        inputs = _whole(tensors, "0.inputs")
        if inputs.size != 1 or inputs.min() < 1:
            raise FileError(f"The tensor 0.inputs must be one number >= 1, not {inputs.tolist()}.")
        sizes = [int(inputs.ravel()[0])]
        steps: list[Step] = []
        for stem, word in _stems(tensors):
            steps.append(_decode_step(tensors, stem, word, sizes))
            sizes.append(steps[-1].size)
        return cls(Steps(sizes[0], steps))

    def _sizes(self) -> str:
        return f"{self.inputs}-{self.outputs} of {number_and_noun(len(self.program.steps), 'step')}"

    def __repr__(self) -> str:
        steps = number_and_noun(len(self.program.steps), "step")
        return (
            f"LayeredNetwork({self.inputs}-{self.outputs}, {steps}, {self.parameters} parameters)"
        )


def simplest_network(network: LayeredNetwork) -> LayeredNetwork | ReluNetwork:
    """The same network as a `ReluNetwork`, if it is affine maps with rectifiers between."""
    steps = network.program.steps
    affine = [step for step in steps[::2] if isinstance(step, Affine)]
    relus = [step for step in steps[1::2] if isinstance(step, Univariate) and step.name == "relu"]
    is_chain = all(step.sources == (number,) for number, step in enumerate(steps))
    if not is_chain or len(affine) != len(relus) + 1 or len(affine) + len(relus) != len(steps):
        return network
    return ReluNetwork([step.weights for step in affine], [step.bias for step in affine])


def from_torch(
    module: torch.nn.Module, *, shape: int | Sequence[int] | None = None
) -> LayeredNetwork | ReluNetwork:
    """What a module computes in evaluation mode, as the simplest network that says it.

    A `ReluNetwork` for linear layers with rectifiers between, else a `LayeredNetwork`. `shape` is
    that of one input without a batch, such as (3, 8, 8); an `nn.Sequential` of linear layers and
    rectifiers does not need it.

        >>> from torch import nn
        >>> from_torch(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1)))
        ReluNetwork(8-4-1, 41 parameters)
        >>> from_torch(nn.Sequential(nn.Conv2d(1, 2, 3), nn.MaxPool2d(2)), shape=(1, 6, 6))
        LayeredNetwork(36-8, 2 steps, 1184 parameters)
    """
    if shape is None:
        try:
            return ReluNetwork.from_torch(module)
        except RequestError as reason:
            raise RequestError(
                f"{reason} For other networks say the shape of one input, without a batch: "
                f"from_torch(module, shape=(3, 8, 8))."
            ) from reason
    return simplest_network(LayeredNetwork.from_torch(module, shape))


def _word(step: object) -> str:
    match step:
        case Univariate(name=name):
            return name
        case _:
            return type(step).__name__.lower()


def _stems(tensors: Mapping[str, np.ndarray]) -> Iterator[tuple[str, str]]:
    """The steps by their numbers, from 1 without a gap."""
    pattern = r"([1-9]\d{0,5})\.([a-z]\w{0,30})\.sources"
    words = {int(m[1]): m[2] for name in tensors if (m := re.fullmatch(pattern, name))}
    for number in range(1, max(words, default=1) + 1):
        if number not in words:
            raise FileError(f"Step {number} is missing; save the network again with all of them.")
        yield f"{number}.{words[number]}", words[number]


def _decode_step(
    tensors: Mapping[str, np.ndarray], stem: str, word: str, sizes: Sequence[int]
) -> Step:
    sources = tuple(int(source) for source in _whole(tensors, f"{stem}.sources").ravel())
    if not sources or not all(0 <= source < len(sizes) for source in sources):
        raise FileError(f"Step {stem} reads the values {sources}, which are not there yet.")
    match word:
        case "affine":
            return Affine(
                sources, needed_tensor(tensors, f"{stem}.W"), needed_tensor(tensors, f"{stem}.b")
            )
        case "maximum":
            return Maximum(sources, _whole(tensors, f"{stem}.groups"))
        case _:
            return Univariate(sources, word, sum(sizes[source] for source in sources))


def _whole(tensors: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    array = needed_tensor(tensors, name)
    if array.dtype.kind not in "iu":
        raise FileError(f"The tensor {name} must hold whole numbers, not {array.dtype}.")
    return array
