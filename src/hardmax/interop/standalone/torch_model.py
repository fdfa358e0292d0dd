"""A compiled Transformer as a PyTorch module.

This file needs torch and safetensors, and nothing else. Beside it lie `params.safetensors`, the
weights, and `config.json`: the structure, and for words the alphabet and the codes of answers.

    model = Model.load(".")
    model.decode(model(model.encode(["cab", "abb"])))    # of a model of words
    model(torch.tensor([[0.5, -0.5]], dtype=model.dtype))  # of a model of real numbers

Matrices act from the right. The attention of a layer can be hooked at its module `pattern`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Structure = Mapping[str, Any]  # as JSON says it
Word = Sequence[str | int]


class Model(nn.Module):
    """Embedding, residual layers, read-out; `forward` takes a batch.

    Of words it takes symbol numbers, (batch, length), of real inputs (batch, inputs).
    """

    def __init__(self, config: Structure, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        structure = config["structure"]
        self.config = config
        self.dtype = getattr(torch, structure["dtype"])
        self.token = structure["readout"]["token"]
        self.input = Embedding(structure["input"], _below(tensors, "input"))
        self.sublayers = nn.ModuleList(
            _KINDS[layer["kind"]](layer, _below(tensors, layer["name"]))
            for layer in structure["layers"]
        )
        self.readout = nn.ParameterDict(_below(tensors, "readout"))

    @classmethod
    def load(cls, folder: str | Path) -> Model:
        """The model in a folder."""
        from safetensors.torch import load_file

        with open(Path(folder) / "config.json", encoding="utf-8") as file:
            config = json.load(file)
        return cls(config, load_file(Path(folder) / "params.safetensors"))

    def forward(self, x: Tensor) -> Tensor:
        stream: Tensor = self.input(x)
        for sublayer in self.sublayers:
            stream = stream + sublayer(stream)
        first = stream.shape[1] - x.shape[1]  # behind the start token, if there is one
        stream = stream[:, first:] if self.token is None else stream[:, self.token]
        return stream @ self.readout["weights"] + self.readout["bias"]

    def encode(self, words: Sequence[Word]) -> Tensor:
        """Symbol numbers of words of one length, (batch, length)."""
        alphabet = self.config["structure"]["input"]["alphabet"]
        number = {symbol: i for i, symbol in enumerate(alphabet)}
        return torch.tensor([[number[symbol] for symbol in word] for word in words])

    def decode(self, outputs: Tensor) -> object:
        """The items whose numbers are nearest: nested lists as the outputs are, less their axis."""
        places = []
        for place, code in enumerate(self.config["codes"]):
            numbers = torch.tensor(code["numbers"], dtype=torch.float64)
            nearest = (outputs[..., place, None].double() - numbers).abs().argmin(dim=-1)
            places.append(_items(nearest.tolist(), code["items"]))
        return places[0] if len(places) == 1 else _zipped(places, outputs.dim() - 1)


class Embedding(nn.Module):
    """A row for each symbol and position, or a linear map that makes the whole prompt."""

    maps: Tensor
    offsets: Tensor
    embedding: Tensor
    positions: Tensor
    start: Tensor

    def __init__(self, given: Structure, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.given = given
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, x: Tensor) -> Tensor:
        if self.given["kind"] == "reals":
            return (x @ self.maps).unflatten(-1, self.given["shape"]) + self.offsets
        stream = self.embedding[x]
        if self.given["start"]:
            stream = torch.cat([self.start.expand(len(x), 1, -1), stream], dim=1)
        if stream.shape[1] > len(self.positions):
            longest = len(self.positions) - self.given["start"]
            raise ValueError(f"Words have at most {longest} symbols, but these have {x.shape[1]}.")
        return stream + self.positions[: stream.shape[1]]


class Attention(nn.Module):
    """What all heads of a layer add to the stream. A coldness is in query and position bias."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    position_bias: Tensor
    free: Tensor

    def __init__(self, layer: Structure, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        self.heads = layer["heads"]
        self.bias = layer["bias"]
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))
        free = ~torch.tensor(layer["causal"])[:, None, None]
        self.register_buffer("free", free, persistent=False)
        self.pattern = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (
            (x @ part).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        tokens = x.shape[1]
        scores = query @ key.transpose(2, 3)
        if self.bias:
            scores = scores + self.position_bias[:, :tokens, :tokens]
        past = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        scores = scores.masked_fill(~(past | self.free), -torch.inf)
        mixed = self.pattern(torch.softmax(scores, dim=-1)) @ value
        return mixed.transpose(1, 2).flatten(2) @ self.output


class FeedForward(nn.Module):
    """What a layer of hidden units adds to the stream."""

    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def __init__(self, layer: Structure, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))
        self.hidden = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.hidden(x @ self.inner + self.inner_bias) @ self.outer + self.outer_bias


class GatedFeedForward(nn.Module):
    """The same with hidden units that are multiplied by their gates."""

    gate: Tensor
    gate_bias: Tensor
    inner: Tensor
    inner_bias: Tensor
    outer: Tensor
    outer_bias: Tensor

    def __init__(self, layer: Structure, tensors: Mapping[str, Tensor]) -> None:
        super().__init__()
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))
        self.act = nn.ReLU() if layer["activation"] == "relu" else nn.SiLU()
        self.hidden = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        gates = self.act(x @ self.gate + self.gate_bias)
        return (
            self.hidden(gates * (x @ self.inner + self.inner_bias)) @ self.outer + self.outer_bias
        )


_KINDS: dict[str, type[nn.Module]] = {
    "attention": Attention,
    "feed-forward": FeedForward,
    "gated": GatedFeedForward,
}


def _below(tensors: Mapping[str, Tensor], name: str) -> dict[str, Tensor]:
    """The tensors of one part, by their own names."""
    own = {key.removeprefix(f"{name}."): tensor for key, tensor in tensors.items()}
    return {key: tensor for key, tensor in own.items() if "." not in key}


def _items(nearest: object, items: Sequence[object]) -> object:
    if isinstance(nearest, list):
        return [_items(one, items) for one in nearest]
    assert isinstance(nearest, int)
    return items[nearest]


def _zipped(places: Sequence[object], depth: int) -> object:
    """Lists of single answers as lists of tuples of answers."""
    if depth == 0:
        return tuple(places)
    lists = [place for place in places if isinstance(place, list)]
    return [_zipped(each, depth - 1) for each in zip(*lists, strict=True)]
