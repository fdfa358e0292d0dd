"""Published statements about the geometry of attention that fail, each beside what is true.

The statements are those of arXiv 2604.14727, version 1. Every number on the right is computed here,
from weights or by exact formulas that are attained.

    python examples/published_statements.py
"""

from __future__ import annotations

import math

import numpy as np

import hardmax as hm
from hardmax.geometry.temperature import PublishedExample, hessian_bound

Row = tuple[str, str, str, str]


def polygons(sides: int) -> list[np.ndarray]:
    """Two regular polygons in coordinate planes of space, in generic position."""
    first, second = ((np.arange(sides) + shift) * 2 * np.pi / sides for shift in (0.123, 0.457))
    zero = np.zeros(sides)
    return [
        np.stack([np.cos(first), zero, np.sin(first)], axis=1),
        np.stack([zero, np.cos(second), np.sin(second)], axis=1),
    ]


def vertices_of_sums() -> Row:
    counts = [hm.minkowski_sum(polygons(n)).count for n in (4, 8, 16, 32)]
    growth = math.log2(counts[-1] / counts[-2])
    return (
        "V.2: O((NH)^floor(d/2)) vertices",
        "d = 3: grows like N",
        f"N = 4, 8, 16, 32: {', '.join(map(str, counts))}",
        f"grows like N^{growth:.2f}: Theta(N^(d-1))",
    )


def bias_free_stacks() -> Row:
    """In the plane bias-free heads have at most H N cells, and heads with biases up to N^2."""
    found = []
    for bias_free in (True, False):
        keys = hm.bounds.attaining_keys(16, 2, dimension=2, bias_free=bias_free)
        found.append(hm.common_refinement(keys).count)
    return (
        "V.9: Theta(N^(dL)) without biases",
        "d = 2, N = 16, H = 2: of order 256",
        f"{found[0]} cells at most, attained",
        f"N^(dL) needs a bias for each key: then {found[1]}",
    )


def hessian() -> Row:
    gap, temperature = 4.0, 1.0
    p = 1.0 / (1.0 + math.exp(gap / temperature))
    norm = 2 * p * (1 - p) / temperature
    stated = math.exp(-gap / temperature) / temperature
    assert math.isclose(norm, float(hessian_bound(gap, 2, 1 / temperature)))
    return (
        "VI.1(3): Hessian <= (N-1) e^(-gap/T)/T",
        f"N = 2, gap 4, T = 1: {stated:.5f}",
        f"the norm is {norm:.5f}",
        "N e^(-gap/T)/T holds, sharp in the limit",
    )


def example_hessian() -> Row:
    example = PublishedExample()
    stated, true = example.published_hessian(1 / 8), example.true_hessian(1 / 8)
    return ("Example VI.2 (N = 512, T = 1/8)", f"{stated:.3e}", f"{true:.3e}", "attained")


def temperature() -> Row:
    example = PublishedExample()
    stated = example.published_hessian(8.0)
    return (
        'temperature "1/sqrt(d_k)", d_k = 64',
        "T = 1/8",
        "dividing by sqrt(d_k) is T = 8",
        f"there VI.2 says {stated:.1f}, where 1/16 always holds",
    )


def depth() -> Row:
    tokens, teeth, layers = 3, 1, 2
    model = hm.depth_construction(tokens=tokens, teeth=teeth, dimension=1, layers=layers)
    counted = hm.regions(model, on="[0,1]").cells
    return (
        "V.7: its construction has (wN)^(dL) regions",
        f"w = 1, N = 3, d = 1, L = 2: {(teeth * tokens) ** layers}",
        f"{counted}, counted",
        "(2wN)^(dL)",
    )


def figure_4() -> Row:
    most = hm.bounds.several_heads(6, 3, dimension=3, bias_free=True)
    keys = hm.bounds.attaining_keys(6, 3, dimension=3, bias_free=True)
    return (
        "Fig. 4: d = 3, N = 6, H = 3",
        "216 vertices",
        f"at most {most.value}",
        f"attained: {hm.common_refinement(keys, affine=False).count}",
    )


def figure_1() -> Row:
    most = hm.bounds.several_heads(4, 2, dimension=2, bias_free=True)
    keys = hm.bounds.attaining_keys(4, 2, dimension=2, bias_free=True)
    return (
        "Fig. 1: d = 2, N = 4, H = 2 without biases",
        "16 cells",
        f"at most {most.value}",
        f"attained: {hm.common_refinement(keys, affine=False).count}",
    )


def example_count() -> Row:
    split = hm.bounds.standard_split(512, 8, width=512)
    return ("Example V.3: 512^8", "1.1e21", split.scientific, "arithmetic")


def main() -> None:
    rows = [
        vertices_of_sums(),
        bias_free_stacks(),
        hessian(),
        example_hessian(),
        depth(),
        temperature(),
        figure_4(),
        figure_1(),
        example_count(),
    ]
    widths = [max(len(row[k]) for row in [*rows, HEAD]) for k in range(4)]
    for row in [HEAD, tuple("-" * width for width in widths), *rows]:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )


HEAD = ("statement", "published", "computed", "what is true")

if __name__ == "__main__":
    main()
