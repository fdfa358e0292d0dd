"""Figures 5, 6a and 6b of arXiv 2604.14727 again, from seeds, with its numbers beside ours.

python examples/tropical_figures.py            tables, and pictures in out/
python examples/tropical_figures.py --quick    fewer draws
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

import hardmax as hm

OUT = Path("out")
PRINTED = {  # Fig. 6b as published: one draw for each N
    1: (2, 3, 4, 5, 6, 7),
    2: (4, 9, 16, 24, 28, 35),
    3: (8, 27, 45, 62, 87, 111),
}
TOKENS = range(2, 8)


def figure_5() -> None:
    """Five Gaussian keys in the plane, shaded by softmax weights at four temperatures."""
    from hardmax.plots import diagram_picture

    keys = np.random.default_rng(5).normal(size=(5, 2))
    diagram = hm.power_diagram(keys)
    place = OUT / "figure_5.svg"
    diagram_picture(diagram, on=(-4, 4), temperatures=(1, 0.5, 0.1, 0.001), path=place)
    print(f"Fig. 5: {len(diagram.live)} of 5 keys win somewhere without biases; drawn {place}")


def figure_6b(draws: int) -> None:
    """Vertices of Minkowski sums of Gaussian Newton polytopes, d = 4."""
    from hardmax.plots import growth_picture

    print(f"\nFig. 6b: vertices in d = 4; published (one draw), our mean of {draws}, the maximum")
    lines, maxima = {}, {}
    for heads, printed in PRINTED.items():
        means, most = [], []
        for n in TOKENS:
            rng = np.random.default_rng([6, heads, n])
            sums = [[rng.normal(size=(n, 4)) for _ in range(heads)] for _ in range(draws)]
            means.append(float(np.mean([hm.minkowski_sum(one).count for one in sums])))
            most.append(hm.bounds.several_heads(n, heads, dimension=4, bias_free=True).value)
        for n, one, mean, top in zip(TOKENS, printed, means, most, strict=True):
            print(f"  H = {heads}, N = {n}: {one:4d} {mean:8.2f} {top:6d}")
        lines[f"H = {heads}"] = (list(TOKENS), means)
        maxima[f"H = {heads}"] = (list(TOKENS), most)
    place = OUT / "figure_6b.svg"
    growth_picture(lines, bounds=maxima, path=place, y="vertices", title="Gaussian, d = 4")
    print(f"drawn {place}")


def figure_6a(draws: int) -> None:
    """Cells of random models with two heads in the plane, one and two layers."""
    from hardmax.plots import growth_picture

    tokens = (2, 3, 4, 6, 8, 12)
    print(f"\nFig. 6a: cells on [-4,4]^2 of random models with 2 heads, means of {draws}")
    lines, maxima = {}, {}
    for layers in (1, 2):
        means, most = [], []
        for n in tokens:
            counts = [
                hm.regions(random_model(n, layers, [layers, n, seed]), on="[-4,4]^2").cells
                for seed in range(draws)
            ]
            means.append(float(np.mean(counts)))
            sizes = {"tokens": n, "heads": 2, "width": 6, "key_width": 2, "dimension": 2}
            most.append(hm.bounds.transformer(layers=layers, **sizes).upper.value)
            print(f"  {layers} layer(s), N = {n}: {means[-1]:9.2f}, at most {most[-1]:,}")
        slope = np.polyfit(np.log(tokens[-3:]), np.log(means[-3:]), 1)[0]
        print(f"  {layers} layer(s): grows like N^{slope:.2f}; the maximum like N^{2 * layers}")
        lines[f"{layers} layer{'s' * (layers > 1)}"] = (tokens, means)
        maxima[f"{layers} layer{'s' * (layers > 1)}"] = (tokens, most)
    place = OUT / "figure_6a.svg"
    growth_picture(lines, bounds=maxima, path=place, title="random models, two heads, d = 2")
    print(f"drawn {place}")


def exponents() -> None:
    """Vertices of the sum of two N-gons in space: of order N^(d-1), not (NH)^floor(d/2)."""
    from published_statements import polygons

    from hardmax.plots import growth_picture

    sizes = (4, 8, 16, 32, 64, 128)
    counts = [hm.minkowski_sum(polygons(n)).count for n in sizes]
    slope = np.polyfit(np.log(sizes[-3:]), np.log(counts[-3:]), 1)[0]
    exact = [hm.bounds.two_polygons(n).value for n in sizes]
    lines = {
        f"counted: N^{slope:.2f}": (sizes, counts),
        "published order: NH": (sizes, [2 * n for n in sizes]),
    }
    place = OUT / "exponents.svg"
    growth_picture(
        lines, bounds={next(iter(lines)): (sizes, exact)}, path=place, y="vertices", title="d = 3"
    )
    print(f"\nV.2: two N-gons in space, N = {sizes}: {counts}")
    print(f"grows like N^{slope:.2f}; published: N^1; true: N^(d-1) = N^2; drawn {place}")


def random_model(tokens: int, layers: int, seed: list[int]) -> hm.Transformer:
    """Constant tokens with Gaussian keys and values; the last token is the query that moves.

    The stream has three slots of width 2: where the query is, keys, values. A position bias keeps
    the query from seeing itself, and gives every key a bias.
    """
    rng = np.random.default_rng(seed)
    maps = np.zeros((tokens + 1, 6, 2))
    maps[-1, :2] = np.eye(2)
    offsets = np.zeros((tokens + 1, 6))
    offsets[:-1, 2:] = rng.normal(size=(tokens, 4))
    place, key, value = np.eye(6)[:2], np.eye(6)[2:4], np.eye(6)[4:]
    made = []
    for _ in range(layers):
        heads = []
        for _ in range(2):
            bias = np.zeros((tokens + 1, tokens + 1))
            bias[-1, :-1] = rng.normal(size=tokens)
            bias[-1, -1] = -1e6
            read, asked = rng.normal(size=(2, 2)) @ key, rng.normal(size=(2, 2)) @ value
            heads.append(hm.Head(place, read, asked, place.T, position_bias=bias))
        made.append(hm.Attention(heads))
    prompt = hm.VectorInput(maps, offsets)
    return hm.Transformer(prompt, made, hm.ReadOut(place, np.zeros(2)))


def main() -> None:
    quick = "--quick" in sys.argv[1:]
    OUT.mkdir(exist_ok=True)
    figure_5()
    figure_6b(20 if quick else 300)
    figure_6a(3 if quick else 30)
    exponents()


if __name__ == "__main__":
    main()
