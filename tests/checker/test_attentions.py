"""Attention of the stock classes, eager and sdpa: what it does to weights, and what is charged.

Everything here runs the installed transformers; `core.Host.softmax_in` says what it does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, LlamaConfig, T5Config
from transformers.models.gpt2.modeling_gpt2 import GPT2Attention
from transformers.models.llama.modeling_llama import LlamaAttention
from transformers.models.t5.modeling_t5 import T5Attention

import hardmax as hm
from hardmax.checker._hosts import NoCharge, about_host, read_charge
from hardmax.checker.rounding import float_bounds
from hardmax.core import Head, Host, evaluate
from hardmax.interop import read_huggingface, write_huggingface
from hardmax.numerics import FLOAT32, FLOAT64

IMPLEMENTATIONS = ("eager", "sdpa")
START = 2.0**13  # where float32 has steps of 2^-10
STEP = 2.0**-10
WIDTH = 4  # key, value, one, answer


def chooser() -> hm.Transformer:
    """Token 1 asks both, which have the keys START + x and START + y and the values 1 and 0."""
    maps = np.zeros((2, WIDTH, 2))
    maps[0, 0, 0] = maps[1, 0, 1] = 1.0
    key, value, one, answer = np.eye(WIDTH)
    offsets = [START * key + value + one, START * key + one]
    head = Head(one[None], key[None], value[None], answer[:, None], hm.Softmax(1.0))
    return hm.Transformer(
        hm.VectorInput(maps=maps, offsets=offsets),
        [hm.Attention([head])],
        hm.ReadOut(answer[None], [0.0], token=1),
    )


def llama(tokens: torch.Tensor, weights: dict[str, torch.Tensor], how: str) -> torch.Tensor:
    config = LlamaConfig(hidden_size=WIDTH, num_attention_heads=1, head_dim=WIDTH)
    module = LlamaAttention(set_implementation(config, how), layer_idx=0)
    load(module, {f"{name}_proj.weight": array for name, array in weights.items()})
    still = torch.ones(1, len(tokens), WIDTH, dtype=tokens.dtype)
    return module(tokens[None], (still, 0.0 * still), None)[0][0, 1]


def gpt2(tokens: torch.Tensor, weights: dict[str, torch.Tensor], how: str) -> torch.Tensor:
    config = GPT2Config(n_embd=WIDTH, n_head=1, attn_pdrop=0.0, resid_pdrop=0.0)
    module = GPT2Attention(set_implementation(config, how), layer_idx=0)
    joined = torch.cat([weights[name].T for name in "qkv"], dim=1)
    load(module, {"c_attn.weight": joined, "c_proj.weight": weights["o"].T})
    return module(tokens[None])[0][0, 1]


def t5(tokens: torch.Tensor, weights: dict[str, torch.Tensor], how: str) -> torch.Tensor:
    config = T5Config(d_model=WIDTH, d_kv=WIDTH, num_heads=1, dropout_rate=0.0)
    module = T5Attention(set_implementation(config, how), layer_idx=0)
    scaled = {**weights, "q": weights["q"] / np.sqrt(WIDTH)}  # which it does not do itself
    load(module, {f"{name}.weight": array for name, array in scaled.items()})
    return module(tokens[None])[0][0, 1]


CLASSES: dict[str, Callable[[torch.Tensor, dict[str, torch.Tensor], str], torch.Tensor]]
CLASSES = {"t5": t5, "gpt2": gpt2, "llama": llama}
SOFTMAX_IN = {("llama", "eager"): "float32"}  # of a float64 model; all others take it in float64


def set_implementation(config: object, how: str) -> object:
    config._attn_implementation = how
    return config


def load(module: torch.nn.Module, weights: dict[str, torch.Tensor]) -> None:
    module.double().eval()
    state = {name: torch.zeros_like(array) for name, array in module.state_dict().items()}
    module.load_state_dict({**state, **weights})


def answers(home: str, how: str, points: np.ndarray) -> np.ndarray:
    """What the class's attention makes of `chooser`'s tokens, in float64."""
    made = chooser()
    (head,) = made.heads
    rows = {"q": head.query * np.sqrt(WIDTH), "k": head.key, "v": head.value, "o": head.output}
    weights = {}
    for name, matrix in rows.items():
        full = np.zeros((WIDTH, WIDTH))
        full[: matrix.shape[0], : matrix.shape[1]] = matrix
        weights[name] = torch.tensor(full)
    found = []
    for point in points:
        tokens = made.input.maps @ point + made.input.offsets
        with torch.no_grad():
            found.append(CLASSES[home](torch.tensor(tokens), weights, how)[-1].item())
    return np.array(found)


@pytest.mark.parametrize("home", CLASSES)
@pytest.mark.parametrize("how", IMPLEMENTATIONS)
def test_who_takes_weights_in_float32(home: str, how: str) -> None:
    """In float64 only eager Llama casts its scores; nobody casts what sdpa sees."""
    points = STEP * np.random.default_rng(0).uniform(0.0, 4.0, (20, 2))
    away = np.abs(answers(home, how, points) - evaluate(chooser(), points)[:, 0]).max()
    coarse = (home, how) in SOFTMAX_IN
    assert (away > 1e-5) if coarse else (away <= 8.0 * START * FLOAT64.unit)


def charged(softmax_in: str | None) -> float:
    made, near = chooser(), hm.Box([0.0, 0.0], [STEP, STEP])
    host = Host("llama", [None, None], [None], softmax_in, score_scale=0.5)
    return float(float_bounds(made, near, ["float64"], host=host)["float64"].max())


def test_the_charge_for_scores_that_are_cast_is_attained_by_eager_llama() -> None:
    """One score lies just above the middle of two floats of float32, the other one just below.

    Both are exact in float64, so that casts alone move them: by half a step each, apart. The mean
    moves by a quarter of that, and the other roundings are less than 1% of it.
    """
    apart = STEP * 2.0**-20
    point = np.array([[STEP / 2 + apart, STEP / 2 - apart]])
    away = float(np.abs(answers("llama", "eager", point) - evaluate(chooser(), point)[:, 0]).max())
    assert away == pytest.approx(STEP / 4, rel=0.01)
    assert away <= charged("float32") <= 1.02 * away
    assert charged(None) <= 1e-9 <= away  # without the charge nothing would be left of the bound


@pytest.mark.parametrize("home", CLASSES)
def test_folders_say_how_their_class_attends(home: str, tmp_path: Path) -> None:
    product = hm.compile("x*y", on="[-1,1]^2", error=1e-2)
    folder = write_huggingface(product, tmp_path / "x", home, dtype="float64").folder
    stored = read_huggingface(folder)
    assert stored.host.softmax_in == SOFTMAX_IN.get((home, "eager"))
    said = " ".join(about_host(stored.host))
    assert "eager or sdpa" in said
    assert ("weights taken in float32" in said) == (home == "llama")
    made, domain = stored.stored.transformer, product.claim.domain
    certified = float_bounds(made, domain, ["float64"], host=stored.host)["float64"].max()
    points = domain.sample(500, np.random.default_rng(0))
    tokens = torch.tensor(stored.embeddings(points))
    for how in IMPLEMENTATIONS:
        model = stored.load()
        model.set_attn_implementation(how)
        with torch.no_grad():
            given = model(inputs_embeds=tokens).logits[:, made.readout.token].numpy()
        assert np.abs(given - evaluate(made, points)).max() <= certified


@pytest.mark.parametrize("home", CLASSES)
def test_the_scale_of_scores_is_that_of_the_class(home: str, tmp_path: Path) -> None:
    seen = hm.compile(hm.programs.seen_before, alphabet="abc", length=3)
    stored = read_huggingface(write_huggingface(seen, tmp_path / "x", home).folder)
    parts = stored.load().modules()
    assert {part.scaling for part in parts if hasattr(part, "scaling")} == {stored.host.score_scale}
    assert stored.host.score_scale == {"t5": 1.0, "gpt2": 0.5, "llama": 0.125}[home]


def test_scores_have_room_before_they_are_scaled() -> None:
    """Eager attention multiplies them by their scale when they are there."""
    made = chooser()
    size = np.array([1e37, 1.0, 1.0, 1.0])

    def host(scale: float) -> Host:
        return Host("llama", [None, None], [None], score_scale=scale)

    assert read_charge(host(0.125), made, 0, size, FLOAT64).is_identity
    assert read_charge(host(1.0), made, 0, size, FLOAT32).is_identity
    with pytest.raises(NoCharge):  # 4 times 8e37 is less than the largest float32, 4 times 16 not
        read_charge(host(0.0625), made, 0, size, FLOAT32)
    with pytest.raises(hm.RequestError, match="power of two"):
        host(0.3)
