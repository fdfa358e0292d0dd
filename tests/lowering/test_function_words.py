"""Every word of the language, compiled and certified: nobody has to be told of a new function."""

from __future__ import annotations

import pytest

import hardmax as hm
from hardmax.numerics import FUNCTION_WORDS, FUNCTIONS

DOMAIN = {None: (-1.5, 2.0), "positive": (0.5, 2.0), "nonnegative": (0.0, 2.0)}
DOMAIN |= {"larger than -1": (-0.5, 2.0), "away from poles": (-1.2, 1.2)}


def domain_of(name):
    condition = FUNCTIONS[name].condition
    return DOMAIN[None if condition is None else condition.kind]


@pytest.mark.parametrize("name", FUNCTION_WORDS)
def test_every_word_is_compiled_and_certified(name):
    built = hm.compile(f"{name}(x)", on={"x": domain_of(name)}, error=1e-2)
    assert hm.certify(built).verdict is hm.Verdict.PROVED


@pytest.mark.parametrize("route", ["recipe", "feedforward"])
@pytest.mark.parametrize("name", ["gelu", "erf", "mish", "log1p", "cosh"])
def test_new_words_go_along_every_way(name, route):
    built = hm.compile(f"{name}(x)", on={"x": domain_of(name)}, error=3e-2, route=route)
    assert hm.certify(built).verdict is hm.Verdict.PROVED


@pytest.mark.parametrize(
    ("text", "on"),
    [
        ("gelu(x*y)", {"x": (-1, 1), "y": (-1, 1)}),
        ("sign(x, gap=0.5)", {"x": (-2, 2)}),
        ("softmax(x, y, 0)", {"x": (-1, 1), "y": (-1, 1)}),
        ("norm(x, y)", {"x": (1, 2), "y": (-1, 1)}),
    ],
)
def test_compositions_are_compiled_and_certified(text, on):
    built = hm.compile(text, on=on, error=3e-2)
    assert hm.certify(built).verdict is hm.Verdict.PROVED
