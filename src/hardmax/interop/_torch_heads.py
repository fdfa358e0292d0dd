"""Heads as one token asks them, every other token being constant: the cheapest means for each.

Weights that do not depend on the input are made once. Two tokens, one of them with the value 0,
are a gate if the difference of their logits is a single product. Everything else is a softmax over
constant keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from hardmax.core import HeadGroup
from hardmax.interop._torch_folded import GateHeads, Projection, SoftmaxHeads, SteadyHeads
from hardmax.interop._torch_held import Held
from hardmax.interop._torch_tensors import cold, tensor
from hardmax.numerics import is_power_of_two


def folded_heads(
    group: HeadGroup, held: Held, alive: np.ndarray
) -> Iterator[tuple[nn.Module, Tensor]]:
    """The heads of a group that are alive, each with the outputs that belong to its columns."""
    every = Heads.of(group, held)
    steady, gate = every.steady(held), every.gates(held)
    own = every.others_send_nothing(held)
    kinds = (
        (steady, _steady_heads),
        (~steady & gate & own, _gates_of_own),
        (~steady & gate & ~own, _gates_of_other),
        (~steady & ~gate, _softmax_heads),
    )
    for members, make in kinds:
        heads = every.those(members & torch.tensor(alive))
        if len(heads.query):
            yield make(heads, held), heads.output.transpose(0, 1).flatten(1)


@dataclass(frozen=True, eq=False)
class Heads:
    """Some heads of one shape.

    `keys` (heads x key width x tokens) and `values` (heads x tokens x value width) are those of
    the tokens that are seen; the followed token's own are what is constant about them.
    """

    query: Tensor  # heads x key width x width
    key: Tensor
    value: Tensor
    output: Tensor  # heads x width x value width
    keys: Tensor
    values: Tensor
    bias: Tensor | None  # heads x 1 x tokens

    @classmethod
    def of(cls, group: HeadGroup, held: Held) -> Heads:
        dtype, token = held.still.dtype, held.token
        seen = token + 1 if group.causal else len(held.still)
        key, value, bias = tensor(group.key, dtype), tensor(group.value, dtype), None
        if group.position_bias is not None:
            rows = group.position_bias[:, token : token + 1, :seen]
            bias = tensor(cold(rows, group.coldness), dtype)
        return cls(
            tensor(cold(group.query, group.coldness), dtype),
            key,
            value,
            tensor(group.output, dtype),
            torch.einsum("hkw,tw->hkt", key, held.still[:seen]),
            torch.einsum("hvw,tw->htv", value, held.still[:seen]),
            bias,
        )

    def those(self, members: Tensor) -> Heads:
        return Heads(
            self.query[members],
            self.key[members],
            self.value[members],
            self.output[members],
            self.keys[members],
            self.values[members],
            None if self.bias is None else self.bias[members],
        )

    def steady(self, held: Held) -> Tensor:
        """Which have weights that do not depend on the input."""
        asking = held.moves(self.query) & (self.keys != 0).flatten(1).any(dim=1)
        return ~asking & ~held.moves(self.key)

    def gates(self, held: Held) -> Tensor:
        """Which are over two tokens, one with the value 0, whose keys are k and 0, or k and -k.

        The difference of the logits is then fl(q k), or fl(q k) - fl(-q k) = 2 fl(q k) = fl(q 2k):
        doubling rounds nothing. Other keys are rounded apart, and their difference a third time.
        """
        heads, key_width, seen = self.keys.shape
        if (key_width, seen, self.values.shape[2]) != (1, 2, 1) or self.bias is not None:
            return torch.zeros(heads, dtype=torch.bool)
        own, other = self.keys[:, 0, held.token], self.keys[:, 0, 1 - held.token]
        one_product = (own == 0) | (other == 0) | (own == -other)
        own_is_nothing = ~held.moves(self.value) & (self.values[:, held.token, 0] == 0)
        sends_one = self.others_send_nothing(held) | own_is_nothing
        return one_product & sends_one & ~held.moves(self.key)

    def others_send_nothing(self, held: Held) -> Tensor:
        """Which get the value 0 from every token but the own one."""
        others = [t for t in range(self.values.shape[1]) if t != held.token]
        return (self.values[:, others] == 0).flatten(1).all(dim=1)

    def without_own(self, held: Held) -> Tensor:
        """The values, 0 for the own token."""
        values = self.values.clone()
        values[:, held.token] = 0
        return values


def _steady_heads(heads: Heads, held: Held) -> nn.Module:
    query = (heads.query @ held.still[held.token]).unsqueeze(1)
    logits = query @ heads.keys
    weights = torch.softmax(logits if heads.bias is None else logits + heads.bias, dim=2)
    own = weights[:, 0, held.token, None].expand(-1, heads.values.shape[2])
    rest = weights @ heads.without_own(held)
    return SteadyHeads(held.read(heads.value.flatten(0, 1)), own.flatten(), rest.flatten())


def _gates_of_own(heads: Heads, held: Held) -> nn.Module:
    query, scale = _lead(heads, held)
    return GateHeads(query, scale, held.read(heads.value[:, 0]))


def _gates_of_other(heads: Heads, held: Held) -> nn.Module:
    query, scale = _lead(heads, held)
    sent = heads.values[:, 1 - held.token, 0]
    return GateHeads(query, -scale, Projection(sent.new_zeros(len(sent), len(held.slots)), sent))


def _lead(heads: Heads, held: Held) -> tuple[Projection, Tensor]:
    """The own logit minus the other one, as a query and a factor: the difference of the keys.

    Where the factor is a power of two from 1 on the query has it already: that rounds nothing, and
    less underflows.
    """
    own, other = heads.keys[:, 0, held.token], heads.keys[:, 0, 1 - held.token]
    factor = own - other
    whole = torch.tensor(is_power_of_two(factor.double().numpy())) & (factor.abs() >= 1)
    query, inside = heads.query[:, 0], torch.where(whole, factor, 1)[:, None]
    scaled = query * inside
    kept = torch.isfinite(scaled).all(dim=1) & whole
    return (
        held.read(torch.where(kept[:, None], scaled, query)),
        torch.where(kept, torch.ones_like(factor), factor),
    )


def _softmax_heads(heads: Heads, held: Held) -> nn.Module:
    moving_key, moving_value = (bool(held.moves(m).any()) for m in (heads.key, heads.value))
    return SoftmaxHeads(
        held.read(heads.query.flatten(0, 1)),
        heads.keys,
        heads.without_own(held) if moving_value else heads.values,
        heads.bias,
        held.token,
        held.read(heads.key.flatten(0, 1)) if moving_key else None,
        held.read(heads.value.flatten(0, 1)) if moving_value else None,
    )
