"""One feed-forward or maxout layer, and stacks of layers of any kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hardmax._errors import RequestError
from hardmax.geometry.bounds._bound import Bound
from hardmax.geometry.bounds._heads import several_heads
from hardmax.geometry.bounds._sums import binomial_sum, power, product, whole, wholes

_ZASLAVSKY = "Zaslavsky, Mem. Amer. Math. Soc. 154 (1975)"


def feed_forward(hidden: int, *, dimension: int, central: bool = False) -> Bound:
    """The activation cells of n ReLUs in R^d: the regions of n hyperplanes.

    In general position sum_{j <= d} C(n, j): the other n - 1 hyperplanes cut the last one into
    as many pieces as n - 1 cut R^(d-1), and each piece splits one region, so that
    r(n, d) = r(n - 1, d) + r(n - 1, d - 1), which is Pascal's rule. Special position only loses
    pieces. Without biases the hyperplanes go through the origin: 2 sum_{j < d} C(n - 1, j), since
    one of them, pushed off the origin to either side, carries the other n - 1 as a generic
    arrangement of R^(d-1), and each region meets exactly one of the two. The second number is also
    that of the vertices of a generic zonotope with n segments. A residual connection changes
    neither.
    """
    n, d = whole(hidden, "hidden"), whole(dimension, "dimension")
    if central:
        value = 2 * binomial_sum(n - 1, d - 1)
        formula, biases = "2 sum_{j<d} C(n - 1, j)", "no biases"
        built = "normals in general position, such as (1, t, ..., t^(d-1))"
    else:
        value = binomial_sum(n, d)
        formula, biases = "sum_{j<=d} C(n, j)", "a bias for each unit"
        built = "hyperplanes in general position"
    kind = "central " if central else ""
    name = f"{kind}feed-forward layer of {n:,} ReLUs in R^{d}"
    return Bound(value, "exact", name, formula, _ZASLAVSKY, (biases,), built)


def maxout_layer(units: int, *, rank: int, dimension: int, bias_free: bool = False) -> Bound:
    """The cells of n maxout units of rank k in R^d: those of n heads with k keys.

    A unit max_j (w_j . x + b_j) splits space as a head with keys w_j and biases b_j does, so this
    is `several_heads`: sum_{j <= d} C(n, j) (k - 1)^j. Rank 2 is a ReLU layer.
    """
    n, k = whole(units, "units"), whole(rank, "rank", least=2)
    heads = several_heads(k, n, dimension=dimension, bias_free=bias_free)
    biases = "no biases" if bias_free else "a bias for each piece"
    return Bound(
        heads.value,
        "exact",
        f"{'bias-free ' * bias_free}layer of {n:,} maxout units of rank {k} in R^{dimension}",
        heads.formula.replace("N_h", "k").replace("H", "n"),
        heads.reference,
        (biases,),
        heads.construction,
    )


def deep_stack(layers: Sequence[Bound], *, times: int = 1) -> Bound:
    """At most the product of the layers' bounds, the whole stack repeated `times` times.

    On a cell of the first l layers the stream is an affine function of the input, and the cell is
    convex. The next layer cuts it by the pull-back of its own cells under that affine map, which
    cannot be more than it has: each layer multiplies. A singular map restricts the cells to an
    affine subspace, which only loses some. The same holds for bias-free heads, although their
    pulled-back scores are affine and their walls no longer pass through the origin of the input:
    they cut the stream by cones, and an affine subspace cannot meet more cones than there are.
    """
    if not layers or not all(isinstance(layer, Bound) for layer in layers):
        raise RequestError("deep_stack needs a list with at least one Bound.")
    if any(layer.kind == "lower" for layer in layers):
        raise RequestError("A lower bound of a layer bounds no stack from above. Give upper ones.")
    depth = whole(times, "times")
    value = product(power(layer.value, depth) for layer in layers)
    held = dict.fromkeys(hypothesis for layer in layers for hypothesis in layer.hypotheses)
    return Bound(
        value,
        layers[0].kind if depth == len(layers) == 1 else "upper",
        f"stack of {depth * len(layers):,} layers",
        "prod_l R_l",
        "composition: each layer cuts each cell at most as often as it cuts space",
        (*held, "keys of a layer do not depend on the query"),
    )


def folding_network(teeth: int, *, dimension: int, layers: int) -> Bound:
    """The activation cells of L layers that fold the unit cube p times in each coordinate: p^(dL).

    The zigzag with p pieces maps each of them onto [0, 1], one to one; p units a coordinate do
    it. So each cell of a layer sees all cells of the next: p^d times as many. It is degenerate on
    purpose: walls touch without crossing.
    """
    p, d = whole(teeth, "teeth"), whole(dimension, "dimension")
    depth = whole(layers, "layers")
    return Bound(
        power(p, d * depth),
        "exact",
        f"folding network of {p:,} pieces, {depth:,} layers in R^{d}",
        "p^(dL)",
        "Montúfar, Pascanu, Cho, Bengio, NeurIPS (2014)",
        ("p units a coordinate and layer", "counted in the open unit cube"),
        "the zigzag p relu(x) + 2p sum_m (-1)^m relu(x - m/p) in each coordinate",
    )


def widths_of(widths: Iterable[int]) -> tuple[int, ...]:
    """The widths of a network's hidden layers."""
    return wholes(widths, "widths")
