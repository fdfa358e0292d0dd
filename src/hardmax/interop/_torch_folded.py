"""Blocks that follow the one token on which an answer depends; `_torch_folding` builds them.

The stream is (batch, slots): the token's coordinates that the input moves and that somebody still
reads. Everything else is a constant, and stands in the blocks as a bias, a key or a value.

Every number that is computed here is one that the stack may compute: only zeros are left out, sums
are taken in another order, and two numbers are multiplied beforehand only where one of them is a
power of two. So whatever bound holds for a stack in a format, in any order of summation, holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from hardmax.interop._torch_modules import check_vectors
from hardmax.numerics import FLOAT32, FORMATS


class Pick(nn.Module):
    """Some columns of x, in an order; neighbours are not copied."""

    index: Tensor | None

    def __init__(self, columns: Sequence[int], of: int) -> None:
        super().__init__()
        first, count = (columns[0] if columns else 0), len(columns)
        neighbours = list(columns) == list(range(first, first + count))
        self.place = slice(first, first + count) if neighbours else None
        self.every = neighbours and count == of
        index = None if neighbours else torch.tensor(columns)
        self.register_buffer("index", index, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.place] if self.index is None else x.index_select(1, self.index)

    def extra_repr(self) -> str:
        return "scattered" if self.place is None else f"{self.place.start}:{self.place.stop}"


class Projection(nn.Module):
    """x @ weight.T + bias; a pick of columns where every row has at most one entry.

    What is absent: a weight where all those entries are 1, a bias where it is 0, a pick of every
    column in its order.
    """

    weight: nn.Parameter | None
    bias: nn.Parameter | None

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        (rows, columns), entries = weight.shape, weight != 0
        self.dense = not (rows and columns and int(entries.sum(dim=1).max()) <= 1)
        self.pick: Pick | None = None
        if not self.dense:
            places = entries.int().argmax(dim=1)
            pick = Pick(places.tolist(), columns)
            self.pick = None if pick.every else pick
            weight = weight[torch.arange(rows), places]
        plain = not self.dense and bool((weight == 1).all())
        self.weight = None if plain else nn.Parameter(weight.clone())
        self.bias = nn.Parameter(bias.clone()) if bool(bias.any()) else None
        self.makes_new = not plain or self.bias is not None
        self.identity = self.pick is None and not self.makes_new

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if weight is not None and self.dense:
            return functional.linear(x, weight, bias)
        if self.pick is not None:
            x = self.pick(x)
        if weight is not None:
            x = x * weight
        return x if bias is None else x + bias

    def extra_repr(self) -> str:
        shape = "" if self.weight is None else f"weight {tuple(self.weight.shape)}"
        return f"{shape}{', bias' * (self.bias is not None)}".removeprefix(", ")


def through(projection: Projection, x: Tensor) -> Tensor:
    """projection(x), without a call for one that does nothing: of one input calls are the time."""
    return x if projection.identity else projection(x)


class FoldedEmbedding(nn.Module):
    """The coordinates of the followed token that depend on the input."""

    def __init__(self, maps: Tensor, offsets: Tensor) -> None:
        super().__init__()
        self.inputs = maps.shape[1]
        self.linear = Projection(maps, offsets)

    def forward(self, x: Tensor) -> Tensor:
        check_vectors(x, self.inputs)
        return through(self.linear, x)


class SteadyHeads(nn.Module):
    """Heads whose weights do not depend on the input: weight * own value + what the rest sends."""

    weight: nn.Parameter | None
    rest: nn.Parameter | None

    def __init__(self, value: Projection, weight: Tensor, rest: Tensor) -> None:
        super().__init__()
        self.value = value
        self.weight = None if bool((weight == 1).all()) else nn.Parameter(weight.clone())
        self.rest = nn.Parameter(rest.clone()) if bool(rest.any()) else None

    def forward(self, x: Tensor) -> Tensor:
        mixed = through(self.value, x)
        if self.weight is not None:
            mixed = mixed * self.weight
        return mixed if self.rest is None else mixed + self.rest


class GateHeads(nn.Module):
    """Heads over two tokens, one of which has the value 0: sigmoid(lead) * the other value.

    The softmax of two logits is a logistic function of their difference, and one of the two is 0.
    Beyond the edge from which on a certificate lets an exponential vanish the smaller weight is 0
    here: there exp is slow, and so is everything that is handed its subnormal numbers.
    """

    scale: nn.Parameter | None

    def __init__(self, query: Projection, scale: Tensor, value: Projection) -> None:
        super().__init__()
        self.query, self.value = query, value
        self.scale = None if bool((scale == 1).all()) else nn.Parameter(scale.clone())
        self.owned = self.scale is not None or query.makes_new

    def forward(self, x: Tensor) -> Tensor:
        lead = through(self.query, x)
        if self.scale is not None:
            lead = lead * self.scale
        value = through(self.value, x)
        edge, least = _EDGES[lead.dtype]
        if torch.is_grad_enabled():
            weight = lead.clamp(-edge, edge).sigmoid()
            return functional.threshold(weight, least, 0.0) * value
        own = lead.clamp_ if self.owned else lead.clamp  # else it may be the stream
        return torch.threshold_(own(-edge, edge).sigmoid_(), least, 0.0).mul_(value)


class SoftmaxHeads(nn.Module):
    """Heads over constant tokens, and over the own one: softmax(q k + bias) @ values.

    `keys` are heads x key width x tokens, `values` heads x tokens x value width, `bias` heads x 1
    x tokens; those of the own token are what is constant about them. `own_key` and `own_value`
    are what is not, or None.
    """

    bias: nn.Parameter | None

    def __init__(
        self,
        query: Projection,
        keys: Tensor,
        values: Tensor,
        bias: Tensor | None,
        own: int,
        own_key: Projection | None,
        own_value: Projection | None,
    ) -> None:
        super().__init__()
        self.query = query
        self.keys, self.values = nn.Parameter(keys.clone()), nn.Parameter(values.clone())
        self.bias = None if bias is None else nn.Parameter(bias.clone())
        self.own, self.own_key, self.own_value = own, own_key, own_value

    def forward(self, x: Tensor) -> Tensor:
        query = self._by_head(self.query(x))
        logits = query @ self.keys
        if self.own_key is not None:
            by_own = (query * self._by_head(self.own_key(x))).sum(dim=2, keepdim=True)
            logits = torch.cat([logits[:, :, : self.own], by_own, logits[:, :, self.own + 1 :]], 2)
        if self.bias is not None:
            logits = logits + self.bias
        weights = torch.softmax(logits, dim=2)
        mixed = weights @ self.values
        if self.own_value is not None:
            mixed = mixed + weights[:, :, self.own, None] * self._by_head(self.own_value(x))
        return mixed.transpose(0, 1).flatten(1)

    def _by_head(self, x: Tensor) -> Tensor:
        """(batch, heads * width) as (heads, batch, width)."""
        return x.unflatten(1, (len(self.keys), -1)).transpose(0, 1)


class Carrying(nn.Module):
    """The slots after a sublayer: those added to (`onto`), new ones, and those `kept`.

    The change has columns for the slots `onto` and, behind them, for the new ones.
    """

    def __init__(self, onto: Pick | None, old: int, kept: Pick | None) -> None:
        super().__init__()
        self.onto, self.old, self.kept = onto, old, kept

    def forward(self, x: Tensor, change: Tensor) -> Tensor:
        parts = []
        if self.onto is not None:
            onto = x if self.onto.every else self.onto(x)
            parts.append(onto + change[:, : self.old])
        if self.onto is None or self.old < change.shape[1]:
            parts.append(change[:, self.old :])
        if self.kept is not None:
            parts.append(self.kept(x))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class FoldedAttention(nn.Module):
    """The followed token asks those heads of a layer whose answers somebody reads.

    `change` is what is added to the stream; without `carry` that is all that is read behind.
    """

    def __init__(
        self, heads: Sequence[nn.Module], change: Projection, carry: Carrying | None
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.change, self.carry = change, carry

    def forward(self, x: Tensor) -> Tensor:
        mixed = [heads(x) for heads in self.heads] or [x[:, :0]]
        change = through(self.change, mixed[0] if len(mixed) == 1 else torch.cat(mixed, dim=1))
        return change if self.carry is None else self.carry(x, change)


class FoldedFeedForward(nn.Module):
    """Those hidden units that somebody reads."""

    def __init__(self, inner: Projection, change: Projection, carry: Carrying | None) -> None:
        super().__init__()
        self.inner, self.change, self.carry = inner, change, carry

    def forward(self, x: Tensor) -> Tensor:
        change = through(self.change, functional.relu(through(self.inner, x)))
        return change if self.carry is None else self.carry(x, change)


def _edges() -> dict[torch.dtype, tuple[float, float]]:
    """For each format the logit beyond which a weight is taken as 0 or 1, and that weight.

    PyTorch computes sigmoids of 16-bit numbers in float32.
    """
    found = {}
    for name, format in FORMATS.items():
        dtype = getattr(torch, name)
        edge = -min(format.exp_vanishes, FLOAT32.exp_vanishes)
        found[dtype] = (edge, float(torch.sigmoid(torch.tensor(-edge, dtype=dtype))))
    return found


_EDGES = _edges()
