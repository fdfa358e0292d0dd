"""A Transformer in JAX: a tree of arrays and a pure function."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hardmax._errors import RequestError, ShapeError
from hardmax.core import Construction, Transformer
from hardmax.interop._guests import check_guest
from hardmax.interop._runnable import runnable
from hardmax.interop._standard_form import refuse_hard_heads
from hardmax.numerics import format_named

if TYPE_CHECKING:
    import jax
    from jax.typing import ArrayLike

    from hardmax.interop.standalone.jax_model import Params


def to_jax(
    model: Construction | Transformer, dtype: str | None = None
) -> tuple[Params, Callable[[Params, ArrayLike], jax.Array]]:
    """`params, apply`: a tree of arrays, and a pure function of them for vmap, jit and grad.

    `apply(params, x)` takes one input or a batch: (inputs,) or (batch, inputs) for reals, symbol
    numbers (length,) or (batch, length) for words, as `construction.transformer.input.indices`
    makes them. A number that is no symbol's becomes nan. Structure and masks are constants of the
    function, so `params` are weights alone, and differentiable.

    `dtype` is "float64", "float32", "float16" or "bfloat16"; None is JAX's own default, float32
    unless x64 is enabled. Weights are rounded to nearest, after a coldness is multiplied into the
    query weights, so that a certificate's bound for the format is about this function (see
    `write_torch`); products are taken at the highest precision, which processors with short floats
    would not do by themselves. A hardmax and weights beyond the format's range are refused.

    >>> import jax
    >>> params, apply = hm.interop.to_jax(hm.compile("x*y", on="[-1,1]^2"))
    >>> both = jax.jit(jax.value_and_grad(lambda x: apply(params, x)[0]))
    >>> value, slopes = both(np.array([0.5, -0.5]))
    >>> round(float(value), 2), np.round(slopes, 2).tolist()
    (-0.25, [-0.5, 0.5])
    """
    transformer = model.transformer if isinstance(model, Construction) else model
    if not isinstance(transformer, Transformer):
        raise RequestError(
            f"to_jax takes a Construction or a Transformer, not a {type(model).__name__}."
        )
    refuse_hard_heads(transformer)
    if dtype is not None:
        format_named(dtype)
    check_guest("jax")
    from hardmax.interop.standalone import jax_model

    has_x64 = jax_model.has_float64()
    if dtype == "float64" and not has_x64:
        raise RequestError(
            "JAX computes in float32 unless told otherwise: for float64 call "
            'jax.config.update("jax_enable_x64", True) first.'
        )
    made = runnable(transformer, format_named(dtype or ("float64" if has_x64 else "float32")))
    structure = made.structure

    def apply(params: Params, x: ArrayLike) -> jax.Array:
        reason = jax_model.fault(structure, params, x)
        if reason is not None:
            raise ShapeError(reason)
        return jax_model.run(structure, params, x)

    return jax_model.tree(structure, made.arrays), apply
