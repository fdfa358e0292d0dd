"""Corruptions of weights, heads and layers."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from hardmax.core import (
    Attention,
    Construction,
    Hardmax,
    Head,
    Softmax,
    Sublayer,
    Transformer,
    VectorInput,
)

Rng = np.random.Generator
Changed = tuple[Construction, str] | None


# ---- weights -----------------------------------------------------------------------------------


def _arrays(value: object, path: str = "") -> Iterable[tuple[str, np.ndarray]]:
    """Every array of weights in a Transformer, by a path such as sublayers.0.heads.1.query."""
    if isinstance(value, np.ndarray):
        yield path, value
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            yield from _arrays(part, f"{path}.{index}")
    elif is_dataclass(value):
        for f in fields(value):
            yield from _arrays(getattr(value, f.name), f"{path}.{f.name}")


def _replace_at(value: Any, path: list[str], array: object) -> Any:
    """A copy of a frozen value in which the thing at the path is another one."""
    if not path:
        return array
    first, rest = path[0], path[1:]
    if isinstance(value, tuple):
        index = int(first)
        return (*value[:index], _replace_at(value[index], rest, array), *value[index + 1 :])
    if isinstance(value, Attention):
        return Attention(_replace_at(value.heads, rest, array))
    if isinstance(value, Transformer):
        parts = {name: getattr(value, name) for name in ("input", "sublayers", "readout")}
        return Transformer(**(parts | {first: _replace_at(parts[first], rest, array)}))
    return replace(value, **{first: _replace_at(getattr(value, first), rest, array)})


def _with_weights(construction: Construction, path: str, array: np.ndarray) -> Construction:
    changed = _replace_at(construction.transformer, path.strip(".").split("."), array)
    return replace(construction, transformer=changed)


def _pick_entry(
    construction: Construction, rng: Rng, wanted: Callable[[str, np.ndarray], np.ndarray]
) -> tuple[str, np.ndarray, tuple[int, ...]] | None:
    """An entry at random: first the array, so that small ones are not drowned, then its place."""
    arrays = [(p, a) for p, a in _arrays(construction.transformer) if wanted(p, a).any()]
    if not arrays:
        return None
    path, array = arrays[rng.integers(len(arrays))]
    places = np.argwhere(wanted(path, array))
    return path, np.array(array), tuple(places[rng.integers(len(places))])


def _entry_changed(
    construction: Construction,
    rng: Rng,
    wanted: Callable[[str, np.ndarray], np.ndarray],
    change: Callable[[float], float],
) -> Changed:
    entry = _pick_entry(construction, rng, wanted)
    if entry is None:
        return None
    path, array, place = entry
    before = float(array[place])
    array[place] = change(before)
    where = f"{path.strip('.')}[{', '.join(map(str, place))}]"
    return (
        _with_weights(construction, path, array),
        f"{where}: {before:.6g} -> {float(array[place]):.6g}",
    )


def _nonzero(path: str, array: np.ndarray) -> np.ndarray:
    return np.asarray(array != 0.0)


def _anything(path: str, array: np.ndarray) -> np.ndarray:
    return np.ones(array.shape, dtype=bool)


def weight_nudged(construction: Construction, rng: Rng) -> Changed:
    by = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-6.0, 1.0)
    return _entry_changed(construction, rng, _nonzero, lambda w: w * (1.0 + by))


def weight_replaced(construction: Construction, rng: Rng) -> Changed:
    to = rng.normal() * 10.0 ** rng.uniform(-2.0, 1.0)
    return _entry_changed(construction, rng, _anything, lambda w: to)


def sign_flipped(construction: Construction, rng: Rng) -> Changed:
    return _entry_changed(construction, rng, _nonzero, lambda w: -w)


def bias_dropped(construction: Construction, rng: Rng) -> Changed:
    def biases(path: str, array: np.ndarray) -> np.ndarray:
        return (array != 0.0) & (path.endswith(("bias", "offsets")))

    return _entry_changed(construction, rng, biases, lambda w: 0.0)


def row_zeroed(construction: Construction, rng: Rng) -> Changed:
    def rows(path: str, array: np.ndarray) -> np.ndarray:
        return (array != 0.0) & path.endswith((".query", ".key"))

    entry = _pick_entry(construction, rng, rows)
    if entry is None:
        return None
    path, array, place = entry
    array[place[0]] = 0.0
    return _with_weights(construction, path, array), f"{path.strip('.')}[{place[0]}, :] -> 0"


# ---- heads and layers --------------------------------------------------------------------------


def _layers(construction: Construction) -> list[Sublayer]:
    return list(construction.transformer.sublayers)


def _with_layers(construction: Construction, layers: Iterable[Sublayer]) -> Construction:
    old = construction.transformer
    return replace(construction, transformer=Transformer(old.input, layers, old.readout))


def _heads(construction: Construction) -> list[tuple[int, int]]:
    return [
        (number, index)
        for number, layer in enumerate(construction.transformer.sublayers)
        if isinstance(layer, Attention)
        for index in range(len(layer.heads))
    ]


def _head(construction: Construction, at: tuple[int, int]) -> Head:
    layer = construction.transformer.sublayers[at[0]]
    assert isinstance(layer, Attention)
    return layer.heads[at[1]]


def _with_head(construction: Construction, at: tuple[int, int], head: Head) -> Construction:
    layers = _layers(construction)
    layer = layers[at[0]]
    assert isinstance(layer, Attention)
    layers[at[0]] = Attention((*layer.heads[: at[1]], head, *layer.heads[at[1] + 1 :]))
    return _with_layers(construction, layers)


def _one_head(
    construction: Construction, rng: Rng, change: Callable[[Head], tuple[Head, str] | None]
) -> Changed:
    heads = _heads(construction)
    if not heads:
        return None
    at = heads[rng.integers(len(heads))]
    changed = change(_head(construction, at))
    if changed is None:
        return None
    return _with_head(construction, at, changed[0]), f"head {at}: {changed[1]}"


def heads_swapped(construction: Construction, rng: Rng) -> Changed:
    """Two heads change places, or exchange a part; within a layer places alone mean nothing."""
    heads = _heads(construction)
    if len(heads) < 2:
        return None
    first, second = (heads[i] for i in rng.choice(len(heads), 2, replace=False))
    one, other = _head(construction, first), _head(construction, second)
    part = str(rng.choice(["all", "value", "output", "query", "key", "weighting"]))
    if part == "all":
        swapped = (other, one)
    else:
        swapped = (
            replace(one, **{part: getattr(other, part)}),
            replace(other, **{part: getattr(one, part)}),
        )
    changed = _with_head(_with_head(construction, first, swapped[0]), second, swapped[1])
    return changed, f"heads {first} and {second} exchange {part}"


def coldness_changed(construction: Construction, rng: Rng) -> Changed:
    factor = 10.0 ** rng.uniform(-2.0, 2.0)

    def change(head: Head) -> tuple[Head, str] | None:
        if isinstance(head.weighting, Hardmax):
            return None
        colder = Softmax(head.weighting.coldness * factor)
        return replace(head, weighting=colder), f"coldness times {factor:.4g}"

    return _one_head(construction, rng, change)


def weighting_changed(construction: Construction, rng: Rng) -> Changed:
    coldness = 10.0 ** rng.uniform(-1.0, 3.0)

    def change(head: Head) -> tuple[Head, str]:
        new = Softmax(coldness) if isinstance(head.weighting, Hardmax) else Hardmax()
        return replace(head, weighting=new), f"{head.weighting} -> {new}"

    return _one_head(construction, rng, change)


def causal_flipped(construction: Construction, rng: Rng) -> Changed:
    return _one_head(
        construction,
        rng,
        lambda head: (replace(head, causal=not head.causal), f"causal -> {not head.causal}"),
    )


def position_bias_changed(construction: Construction, rng: Rng) -> Changed:
    tokens = min(construction.transformer.tokens, 64)
    if construction.transformer.tokens > tokens:
        return None
    t, j = rng.integers(tokens, size=2)
    by = rng.normal(scale=10.0 ** rng.uniform(-4.0, 1.0))

    def change(head: Head) -> tuple[Head, str]:
        bias = np.zeros((tokens, tokens)) if head.position_bias is None else head.position_bias
        bias = np.array(bias)
        bias[t, j] += by
        return replace(head, position_bias=bias), f"position bias [{t}, {j}] moved by {by:.4g}"

    return _one_head(construction, rng, change)


def layer_dropped(construction: Construction, rng: Rng) -> Changed:
    layers = _layers(construction)
    if not layers:
        return None
    number = int(rng.integers(len(layers)))
    del layers[number]
    return _with_layers(construction, layers), f"sublayer {number} dropped"


def logits_blown_up(construction: Construction, rng: Rng) -> Changed:
    """Keys, and so logits, many times larger: exponents at the ends of what floats can say."""
    factor = 10.0 ** rng.uniform(2.0, 7.0)
    return _one_head(
        construction,
        rng,
        lambda head: (replace(head, key=head.key * factor), f"key times {factor:.4g}"),
    )


def head_rescaled(construction: Construction, rng: Rng) -> Changed:
    """A head that takes values times a power of two and gives them back: the same function."""
    factor = 2.0 ** int(rng.integers(-30, 31))

    def change(head: Head) -> tuple[Head, str]:
        new = replace(head, value=head.value * factor, output=head.output / factor)
        return new, f"value times {factor:.4g}, output divided by it"

    return _one_head(construction, rng, change)


def token_added(construction: Construction, rng: Rng) -> Changed:
    """One more token at the end, which is another one but for a hair: who wins may change."""
    old = construction.transformer
    source = old.input
    heads = [_head(construction, at) for at in _heads(construction)]
    if not isinstance(source, VectorInput) or any(h.position_bias is not None for h in heads):
        return None
    token, coordinate = int(rng.integers(source.tokens)), int(rng.integers(source.width))
    by = rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(-9.0, 0.0)
    offset = np.array(source.offsets[token])
    offset[coordinate] += by
    longer = VectorInput(
        np.concatenate([source.maps, source.maps[token : token + 1]]),
        np.concatenate([source.offsets, offset[None]]),
    )
    readout = old.readout
    if readout.token is not None and readout.token < 0:
        readout = replace(readout, token=readout.token % source.tokens)
    changed = replace(construction, transformer=Transformer(longer, old.sublayers, readout))
    return changed, f"token {token} again, its coordinate {coordinate} moved by {by:.4g}"
