"""Heads that weigh all words alike: what is left over of a sum is never forgotten."""

from dataclasses import dataclass
from typing import Any

import numpy as np

import hardmax as hm
from hardmax.checker.sequences.slots._slots import Slots
from hardmax.core import (
    INDEX,
    SYMBOL,
    Aggregate,
    Attention,
    Claim,
    Construction,
    FeedForward,
    Head,
    Pointwise,
    ReadOut,
    Selection,
    SequenceInput,
    SequenceSteps,
    Share,
    Transformer,
    Words,
    evaluate,
)


@dataclass(frozen=True)
class Target:
    alphabet: tuple[str, ...]
    program: SequenceSteps
    parameters: None = None
    outputs: int = 1
    each_symbol: bool = True

    def __call__(self, word: Any) -> Any:
        return self.program.rows([self.alphabet.index(symbol) for symbol in word])

    def steps(self) -> SequenceSteps:
        return self.program

    def encode(self) -> None:
        return None


def built(source, layers, row, steps, length):
    model = Transformer(source, layers, ReadOut([row], [0.0], None))
    words = Words(source.alphabet, length, length)
    claim = Claim(Target(source.alphabet, steps), words, [Share("routing", "by hand", 0.25)])
    return Construction(model, claim, None, "by hand")


def error(model, word):
    got = np.asarray(evaluate(model.transformer, word))
    return float(np.abs(got - np.array(model.claim.target(word), dtype=float)).max())


def test_values_that_are_nearly_nothing_add_up():
    """6 tokens of 0 or 1 beside 34 of 0 or 0.003: in units of 1 the latter are 0, but not together.

    The target asks whether none of the first 6 is on.
    """
    n, few, tiny = 40, 6, 0.00314159
    alphabet = tuple("abcdefghij")
    symbols, places = np.zeros((10, 6)), np.zeros((n + 1, 6))
    symbols[1:, 0], places[1 + few :, 1] = 1.0, 1.0
    source = SequenceInput(alphabet, symbols, places, np.zeros(6))
    values = np.zeros((6, 2))
    values[2] = 1.0, tiny
    first = FeedForward([[1, -1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]], [0, -1], values, np.zeros(6))
    bias = np.zeros((n + 1, n + 1))
    bias[:, 0] = 4.0
    outputs = np.zeros((6, 1))
    outputs[3] = np.exp(4.0) + n
    none = np.zeros((0, 6))
    head = Head(none, none, [[0, 0, 1, 0, 0, 0]], outputs, hm.Softmax(1.0), False, bias)
    size, flag = np.zeros((6, 2)), np.zeros((6, 1))
    size[4], flag[5] = 1.0, 1.0
    second = FeedForward([[0, 0, 0, 6, 0, 0], [0, 0, 0, -6, 0, 0]], [0, 0], size, np.zeros(6))
    third = FeedForward([[0, 0, 0, 0, -1, 0]], [1], flag, np.zeros(6))
    chosen = Selection((INDEX, SYMBOL), (), lambda i, s: i < few and s >= 1)
    steps = SequenceSteps([Aggregate(chosen, "count"), Pointwise((3,), lambda x: int(x == 0))], [4])
    layers = [first, Attention([head]), second, third]
    model = built(source, layers, [0, 0, 0, 0, 0, 1], steps, n)
    assert error(model, ["a"] * few + ["b"] * (n - few)) > 0.6
    assert hm.certify(model, budget="3e7 work").verdict is not hm.Verdict.PROVED


def test_weights_that_are_nearly_equal_do_not_cancel():
    """A bias of 127 * 2^-47 on three tokens, values 7 and -3 that add up to 0, much magnified."""
    n, few, tilt = 16, 3, 127 * 2.0**-47
    alphabet, value = ("a", "b", "d", "e", "c"), (0, 7, 7, 7, -3)
    symbols = np.zeros((5, 4))
    symbols[:, 0] = value
    source = SequenceInput(alphabet, symbols, np.zeros((n + 1, 4)), np.zeros(4))
    bias = np.zeros((n + 1, n + 1))
    bias[:, 0], bias[:, 1 : few + 1] = 4.0, tilt
    none, to = np.zeros((0, 4)), np.eye(4)
    head = Head(none, none, to[:1], to[:, 1:2], hm.Softmax(1.0), False, bias)
    large = 0.65 * (np.exp(4.0) + n) / (2 * 7 * few * tilt)
    size = np.zeros((4, 2))
    size[2] = 2.0
    second = FeedForward([[0, large, 0, 0], [0, -large, 0, 0]], [0, 0], size, np.zeros(4))
    third = FeedForward([[0, 0, -1, 0]], [1], to[:, 3:], np.zeros(4))
    steps = SequenceSteps(
        [
            Pointwise((SYMBOL,), lambda s: value[s]),
            Aggregate(Selection((), (), lambda: True), "sum", 3),
            Pointwise((4,), lambda x: int(x == 0)),
        ],
        [5],
    )
    model = built(source, [Attention([head]), second, third], [0, 0, 0, 1], steps, n)
    assert error(model, ["b"] * 3 + ["c"] * 7 + ["a"] * 6) > 0.6
    assert hm.certify(model, budget="3e7 work").verdict is not hm.Verdict.PROVED


def test_a_token_that_can_hold_nothing_is_not_thought_to_prove_anything():
    """The start token holds no value of the target: whoever looks at it may hold anything."""
    slots = Slots(5, 1, 3)
    possible = np.ones((5, 2), dtype=bool)
    possible[0] = False
    held = slots.held(7, possible)
    seen = slots.at(held, (), np.zeros(5, dtype=np.int64))
    assert slots.possible((seen,)).any(axis=1).all()
    assert slots.possible((held,)).any(axis=1).all()
