"""Words in, words out; attention patterns that can be hooked, and names for everything."""

from __future__ import annotations

import copy
from functools import cache

import numpy as np
import pytest
import torch

import hardmax as hm
from hardmax.core import Attention
from hardmax.interop import write_torch
from hardmax.numerics import FLOAT64, gamma

PROGRAMS = ["sort", "reverse", "histogram", "most_frequent", "sort_by_frequency"]
EXP_UNITS = 2 * FLOAT64.power_units(8) + 8  # both sides: powers, a sum, quotients


@cache
def model(name: str) -> hm.Construction:
    return hm.compile(getattr(hm.programs, name), alphabet="abc", length=6)


def ending() -> hm.Construction:
    """A program that answers once, at the last symbol."""
    there = hm.programs.there
    often = hm.program(lambda s: (there(s.tokens) == s.tokens).count(), at=-1)
    return hm.compile(often, alphabet="()", length=4)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_words_come_out_as_calling_the_construction_gives_them(name: str, dtype: str) -> None:
    construction = model(name)
    module = write_torch(construction, dtype)
    for length in (1, 3, 6):
        rng = np.random.default_rng(length)
        words = [list(map(str, rng.choice([*"abc"], length))) for _ in range(4)]
        outputs = module(module.encode(words))
        assert outputs.shape == (len(words), length, 1)
        assert module.decode(outputs) == construction(words)
        assert module.decode(module(module.encode(words[0]))) == construction(words[0])
        assert module.decode(module(module.encode("".join(words[0])))) == construction(words[0])


def test_one_answer_for_a_word() -> None:
    construction = ending()
    module = write_torch(construction)
    assert module.token is not None
    assert module.decode(module(module.encode(["()()", "(()("]))) == construction(["()()", "(()("])
    assert module.decode(module(module.encode("()"))) == construction("()")


def test_a_copy_decodes_too() -> None:
    module = copy.deepcopy(write_torch(model("reverse"))).to(torch.float32)
    assert module.decode(module(module.encode("abb"))) == ["b", "b", "a"]


def test_words_that_make_no_batch_are_refused() -> None:
    module = write_torch(model("sort"))
    with pytest.raises(hm.ShapeError, match="need one length, but they have 1 to 3 symbols"):
        module.encode(["abc", "a", "ab"])
    with pytest.raises(hm.RequestError, match="not in the alphabet"):
        module.encode("abd")
    with pytest.raises(hm.ShapeError, match="have 2 axes and those of a batch one more"):
        module.decode(torch.zeros(3))
    with pytest.raises(hm.RequestError, match="give write_torch that, not its Transformer"):
        write_torch(model("sort").transformer).decode(torch.zeros(3, 1))
    vectors = write_torch(hm.compile("x*y", on="[-1,1]^2", error=0.1))
    with pytest.raises(hm.RequestError, match="a vector of numbers, not a sequence"):
        vectors.decode(torch.zeros(1))


# Patterns.


@pytest.mark.parametrize("name", PROGRAMS)
def test_patterns_are_those_of_the_trace(name: str) -> None:
    """Logits that are sums of at most n products of numbers of such sizes differ by `moved`.

    Each side rounds n + 4 times at most; a softmax whose logits are off by d has weights that are
    off by a factor e^(2d). In the first layer both sides read the same stream.
    """
    construction, word = model(name), "abacab"
    module, seen = write_torch(construction), hm.trace(construction, "abacab")
    patterns = module.patterns(module.encode(word))
    first = True
    for number, weights in enumerate(seen.attention):
        if not len(weights):
            assert f"blocks.{number}.pattern" not in patterns
            continue
        found = patterns[f"blocks.{number}.pattern"].detach().numpy()
        assert found.shape == weights.shape
        assert np.abs(found.sum(axis=2) - 1.0).max() <= gamma(weights.shape[2] + 2, FLOAT64)
        layer = construction.transformer.sublayers[number]
        assert isinstance(layer, Attention)
        if first:
            x = np.abs(seen.streams[number])
            for head, one, other in zip(layer.heads, found, weights, strict=True):
                query, key = x @ np.abs(head.query).T, x @ np.abs(head.key).T
                terms = 2 * head.width + head.key_width + 4
                moved = 2.0 * gamma(terms, FLOAT64) * head.coldness * (query @ key.T).max()
                assert moved < 1e-9  # it says something
                off = np.expm1(2.0 * moved) + gamma(EXP_UNITS, FLOAT64)
                assert (np.abs(one - other) <= off * other + np.exp(-500.0)).all()
        first = False


def test_a_hook_sees_the_pattern_and_may_replace_it() -> None:
    module = write_torch(model("reverse"))
    ids = module.encode(["abc", "bca"])
    before, names = module(ids), [*module.patterns(ids)]
    shapes = []
    point = module.get_submodule(names[-1])
    handle = point.register_forward_hook(lambda _point, _given, seen: shapes.append(seen.shape))
    looked_at = module(ids)
    handle.remove()
    assert shapes == [(2, 1, 3, 3)]
    assert module.decode(looked_at) == module.decode(before) == [list("cba"), list("acb")]
    uniform = point.register_forward_hook(lambda _point, _given, seen: torch.full_like(seen, 1 / 3))
    assert not torch.allclose(module(ids), before)
    assert torch.equal(
        module.patterns(ids)[names[-1]], torch.full((2, 1, 3, 3), 1 / 3, dtype=before.dtype)
    )
    uniform.remove()
    assert torch.equal(module(ids), before)


def test_only_a_hooked_layer_leaves_the_fused_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    module, calls = write_torch(model("reverse")), []
    attend = torch.nn.functional.scaled_dot_product_attention

    def count(*given: torch.Tensor, **more: object) -> torch.Tensor:
        calls.append(given[0].shape)
        return attend(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", count)
    for register in ("register_forward_hook", "register_forward_pre_hook"):
        handle = getattr(module.blocks[0].pattern, register)(lambda *_: None)
        module(module.encode("abc"))
        handle.remove()
    assert len(calls) == 2  # once for the other layer, each time
    module.patterns(module.encode("abc"))
    assert len(calls) == 2
    module(module.encode("abc"))
    assert len(calls) == 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_legend_names_every_axis_that_can_be_hooked(name: str) -> None:
    construction = model(name)
    module, seen = write_torch(construction), {}
    assert module.legend["embedding"] == construction.legend.coordinates
    for point in module.legend:
        submodule = module.get_submodule(point)
        submodule.register_forward_hook(lambda _m, _g, out, point=point: seen.update({point: out}))
    module(module.encode("abc"))
    for point, labels in module.legend.items():
        axis = 1 if point.endswith("pattern") else -1
        assert seen[point].shape[axis] == len(labels), point
    steps = [s for s in construction.legend.sublayers if s]
    assert [v for p, v in module.legend.items() if p.count(".") == 2] == steps


def test_without_a_legend_there_are_no_names() -> None:
    assert write_torch(model("sort").transformer).legend == {}
