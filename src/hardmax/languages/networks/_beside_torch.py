"""A module beside what was read of it: both are run on a few inputs before anything is believed.

torch.fx sees what `forward` does to a stand-in and not what it means: branches on default
arguments, on `self.training` or on the type of its input, hooks, tensors that are changed in place
and read by an older name can all be traced into another function. Rules for each of them were
tried and left holes; whoever computes something else on five inputs is refused, whatever the cause.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import numpy as np

from hardmax._errors import RequestError
from hardmax.core import Steps

if TYPE_CHECKING:
    import torch

# Two evaluations of one formula in float64 differ by some units in the last place of the largest
# number on the way for every term of a sum, of which a network that fits has fewer than 2^22.
_TOLERANCE = 2.0**-30
_SCALES = (0.0, 1.0, 1.0, 0.05, 20.0)


def check_against_module(module: torch.nn.Module, program: Steps, shape: tuple[int, ...]) -> None:
    """Refuse a program that is not what the module computes in evaluation mode."""
    import torch

    rng = np.random.default_rng(0)
    points = np.stack([scale * rng.normal(size=program.inputs) for scale in _SCALES])
    values = program.values(points.T)
    largest = max(float(np.abs(value).max(initial=0.0)) for value in values)
    try:
        twin = deepcopy(module).to("cpu", torch.float64).eval()
        with torch.no_grad():
            inputs = torch.from_numpy(points).reshape(len(points), 1, *shape)
            answers = [np.asarray(twin(one.clone())).ravel() for one in inputs]
    except Exception as reason:  # whatever the user's own forward raises
        raise RequestError(
            f"The module could not be run on an input of shape {(1, *shape)} "
            f"({str(reason).splitlines()[0] if str(reason) else type(reason).__name__}), so that "
            f"nobody knows whether it was read rightly."
        ) from reason
    for ours, theirs in zip(values[-1].T, answers, strict=True):
        same = ours.shape == theirs.shape and np.allclose(
            ours, theirs, rtol=0.0, atol=_TOLERANCE * (1.0 + largest), equal_nan=False
        )
        if not same:
            raise RequestError(
                "The module does not compute what was read of it: it may change tensors in place, "
                "have hooks, or branch on arguments, on its mode or on types. Put it into "
                "evaluation mode, and write forward with plain operations."
            )
