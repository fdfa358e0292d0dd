"""From what a file holds back to the target it means."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from hardmax._errors import FileError
from hardmax.core import EncodedTarget, SequenceTarget, Target
from hardmax.languages.expressions._function import Function
from hardmax.languages.networks._layered import LayeredNetwork
from hardmax.languages.networks._max_affine import MaxAffine
from hardmax.languages.networks._maxout import MaxoutNetwork
from hardmax.languages.networks._piecewise import PiecewiseLinear
from hardmax.languages.networks._relu import ReluNetwork
from hardmax.languages.programs import ProgramTarget

DECODERS: dict[str, Callable[[Mapping[str, np.ndarray]], Target]] = {
    "relu": ReluNetwork.decode,
    "maxout": MaxoutNetwork.decode,
    "max-affine": MaxAffine.decode,
    "piecewise-linear": PiecewiseLinear.decode,
    "layered": LayeredNetwork.decode,
}


def decode_target(encoded: EncodedTarget) -> Target | SequenceTarget:
    """The target behind an encoding: decode_target(t.encode()) computes what t does, exactly.

    The text is for people, and meaning is in the kind and the tensors; a function has no
    tensors, and its text is its meaning, as is that of a sequence program.
    """
    if encoded.kind == "function":
        return Function.decode(encoded.text)
    if encoded.kind == "program":
        return ProgramTarget.decode_text(encoded.text)
    decoder = DECODERS.get(encoded.kind)
    if decoder is None:
        raise FileError(
            f"There is no target of kind {encoded.kind!r}; this version knows "
            f"{[*DECODERS, 'function', 'program']}."
        )
    return decoder(encoded.tensors)
