"""Doors into other people's tools as functions of a batch, and the real values beside them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from hardmax.core import Construction, SequenceInput, Transformer
from hardmax.interop import to_jax, write_onnx, write_standalone, write_torch
from hardmax.numerics import precision
from hardmax.testing.truth import Balls, outputs_on_vector, outputs_on_word

Run = Callable[[np.ndarray], np.ndarray]  # a batch of inputs -> a batch of outputs
Door = Callable[[Construction, str], Run | None]  # a model in a format; None: it has no such form
_BITS = 200  # of the balls that stand for real values: float64 has 53


def through_onnx(model: Construction, dtype: str) -> Run:
    """A file, in onnxruntime."""
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        write_onnx(model, f"{folder}/model.onnx", dtype=dtype)
        session = onnxruntime.InferenceSession(f"{folder}/model.onnx")
    (given,) = session.get_inputs()
    return lambda batch: np.asarray(session.run(None, {given.name: batch})[0])


def through_jax(model: Construction, dtype: str) -> Run:
    """A jitted function; x64 must be enabled for float64."""
    import jax

    params, apply = to_jax(model, dtype)
    compiled = jax.jit(apply)
    return lambda batch: np.asarray(compiled(params, batch))


def through_torch_stack(model: Construction, dtype: str) -> Run:
    return _torch_run(write_torch(model, dtype, fold=False))


def through_folded_torch(model: Construction, dtype: str) -> Run | None:
    module = write_torch(model, dtype)
    return _torch_run(module) if module.folded else None


def through_torch_file(model: Construction, dtype: str) -> Run:
    """The folder that runs without hardmax; its file of Python is a module of ours."""
    from hardmax.interop.standalone.torch_model import Model

    with tempfile.TemporaryDirectory() as folder:
        write_standalone(model, folder, "torch", dtype=dtype)
        return _torch_run(Model.load(folder))


def _torch_run(module: Callable[..., object]) -> Run:
    import torch

    def run(batch: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            found = module(torch.from_numpy(batch))
        assert isinstance(found, torch.Tensor)
        return found.numpy()

    return run


DOORS: Mapping[str, Door] = {
    "onnx": through_onnx,
    "jax": through_jax,
    "torch, stack": through_torch_stack,
    "torch, folded": through_folded_torch,
    "torch, file": through_torch_file,
}


def real_values(transformer: Transformer, batch: np.ndarray) -> list[list[Fraction]]:
    """The outputs over the reals, one list for each input, to more digits than any format has."""
    numbers, source = Balls(), transformer.input
    found: list[list[Fraction]] = []
    with precision(_BITS):
        for given in batch.tolist():
            if isinstance(source, SequenceInput):
                word = [source.alphabet[i] for i in given]
                rows = outputs_on_word(transformer, word, numbers)
            else:
                point = [numbers.number(float(one)) for one in given]
                rows = [outputs_on_vector(transformer, point, numbers)]
            found.append([_middle(ball) for row in rows for ball in row])
    return found


def _middle(ball: object) -> Fraction:
    mantissa, exponent = ball.mid().man_exp()  # type: ignore[attr-defined]
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def deviations(found: np.ndarray, real: list[list[Fraction]], outputs: int) -> np.ndarray:
    """The largest |found - real| for each output of the model, without any rounding on the way."""
    flat = np.asarray(found, dtype=np.float64).reshape(len(real), -1)
    off = [
        [abs(Fraction(a) - b) for a, b in zip(row, right, strict=True)]
        for row, right in zip(flat.tolist(), real, strict=True)
    ]
    rows = np.array([[float(one) for one in row] for row in off]).reshape(-1, outputs)
    return np.asarray(rows.max(axis=0, initial=0.0))
