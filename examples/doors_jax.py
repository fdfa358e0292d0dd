"""A function in JAX: many points at once, compiled, and its slopes.

python examples/doors_jax.py      (extra jax)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import hardmax as hm


def main() -> None:
    model = hm.compile("x*y", on="[-1,1]^2", error=1e-3)
    params, apply = hm.interop.to_jax(model, "float32")
    points = jnp.array([[0.5, -0.5], [1.0, 0.25], [-0.75, -1.0]])

    values = jax.jit(apply)(params, points)[:, 0]
    slopes = jax.jit(jax.vmap(jax.grad(lambda x: apply(params, x)[0])))(points)
    for (x, y), value, slope in zip(points, values, slopes, strict=True):
        print(f"{x:5.2f} * {y:5.2f} = {value:7.4f}   slopes {slope[0]:6.3f} {slope[1]:6.3f}")

    def loss(weights: dict) -> jax.Array:
        return jnp.mean((apply(weights, points)[:, 0] - points.prod(axis=1)) ** 2)

    sizes = jax.tree.map(jnp.abs, jax.jit(jax.grad(loss))(params))
    count = sum(leaf.size for leaf in jax.tree.leaves(params))
    steepest = max(map(jnp.max, jax.tree.leaves(sizes)))
    print(f"{count} weights, the steepest slope of the loss {steepest:.2g}")


if __name__ == "__main__":
    main()
