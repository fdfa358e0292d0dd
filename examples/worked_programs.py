"""Three worked programs, number by number: a head among waves, a reversal, and a sum at a query.

Each is a Transformer written down by hand, and each number is printed beside what theory says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np

import hardmax as hm
from hardmax.core import (
    Attention,
    Claim,
    Construction,
    EncodedTarget,
    Head,
    ReadOut,
    SequenceInput,
    SequenceSteps,
    Share,
    Softmax,
    Transformer,
    Words,
    evaluate,
)

LENGTH, WIDTH = 6, 8
NEAR, FAR = 50.0, -10.0  # the logits of the reversal


def main() -> None:
    waves()
    print()
    reversal()
    print()
    sum_at_a_query()


def tell(what: str, found: object, theory: object) -> None:
    print(f"  {what:<48} {found!s:<28} theory: {theory}")


# ---- (a) one head with sinusoidal positions ----------------------------------------------------


def sinusoids(positions: int, width: int) -> np.ndarray:
    """PE(pos, 2k) = sin(pos / 10000^(2k/width)), PE(pos, 2k+1) = cos of the same."""
    k = np.arange(width // 2)
    angle = np.arange(positions)[:, None] / 10000.0 ** (2 * k / width)
    return np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(positions, width)


def wave_head() -> Transformer:
    """Tokens in the first coordinates, waves added; one softmax head of key width 4."""
    rng = np.random.default_rng(0)
    query, key, value = rng.normal(size=(3, 4, WIDTH)) / np.sqrt(WIDTH)
    output = rng.normal(size=(WIDTH, 4)) / 2.0
    source = SequenceInput("abcd", np.eye(4, WIDTH), sinusoids(LENGTH, WIDTH))
    head = Head(query, key, value, output, Softmax(0.5))  # 1/sqrt(key width)
    return Transformer(source, [Attention([head])], ReadOut(np.eye(WIDTH), np.zeros(WIDTH), None))


def by_hand(transformer: Transformer, word: str) -> np.ndarray:
    """The same forward pass in plain NumPy: x + softmax(q k' / sqrt 4) v o'."""
    (head,) = transformer.heads
    x = np.eye(4, WIDTH)[["abcd".index(symbol) for symbol in word]] + sinusoids(len(word), WIDTH)
    scores = (x @ head.query.T) @ (x @ head.key.T).T / np.sqrt(4.0)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights = powers / powers.sum(axis=1, keepdims=True)
    return x + weights @ (x @ head.value.T) @ head.output.T


def waves() -> None:
    print("(a) One head with sinusoidal positions")
    model = wave_head()
    pe = sinusoids(LENGTH, WIDTH)
    tell("PE(0, .)", pe[0].tolist(), "0 and 1 in turn")
    tell("PE(1, 0), PE(1, 1)", f"{pe[1, 0]:.15f}, {pe[1, 1]:.15f}", "sin 1, cos 1")
    tell("PE(5, 2)", f"{pe[5, 2]:.15f}", f"sin(5 / 10000^(2/8)) = {np.sin(0.5):.15f}")
    answer, plain = evaluate(model, "abcdab"), by_hand(model, "abcdab")
    apart = float(np.abs(answer - plain).max())
    tell("forward pass of abcdab, first number", f"{answer[0, 0]:.15f}", f"{plain[0, 0]:.15f}")
    tell("largest distance from plain NumPy", f"{apart:.1e}", "at most 1e-15")
    assert apart <= 1e-15 * max(1.0, float(np.abs(plain).max()))
    same = evaluate(model, "aa")
    tell(
        "two equal symbols differ by", f"{np.abs(same[0] - same[1]).max():.3f}", "not 0: positions"
    )


# ---- (b) reversal by position bias -------------------------------------------------------------


@dataclass(frozen=True)
class Reversed:
    """The target: the word's numbers from right to left."""

    outputs: int = 1
    each_symbol: bool = True
    parameters: int | None = None

    def __call__(self, word: Sequence[int], /) -> list[list[int]]:
        return [[number] for number in reversed(word)]

    def steps(self) -> SequenceSteps | None:
        return None

    def encode(self) -> EncodedTarget | None:
        return None


def reversing() -> Transformer:
    """Logit 50 at j = L - 1 - i and -10 elsewhere; coordinate 0 is read, coordinate 1 written."""
    numbers = np.arange(1.0, LENGTH + 1)
    embedding = np.stack([numbers, np.zeros(LENGTH)], axis=1)
    source = SequenceInput(range(1, LENGTH + 1), embedding, np.zeros((LENGTH, 2)))
    bias = np.full((LENGTH, LENGTH), FAR)
    bias[np.arange(LENGTH), LENGTH - 1 - np.arange(LENGTH)] = NEAR
    nobody = np.zeros((0, 2))  # nothing is compared: key width 0
    head = Head(nobody, nobody, [[1.0, 0.0]], [[0.0], [1.0]], Softmax(1.0), position_bias=bias)
    return Transformer(source, [Attention([head])], ReadOut([[0.0, 1.0]], [0.0], None))


def exact_errors() -> list[Decimal]:
    """How far the weights e^50 : e^-10 lead from the reversed word, to 40 digits.

    Position i answers (v_i + r (S - v_i)) / (1 + 5 r) with r = e^-60, v_i = 6 - i and the sum
    S = 21, so that it is wrong by r (S - 6 v_i) / (1 + 5 r).
    """
    with localcontext() as context:
        context.prec = 40
        leak = (Decimal(FAR) - Decimal(NEAR)).exp()
        total = Decimal(sum(range(1, LENGTH + 1)))
        wanted = [Decimal(LENGTH - i) for i in range(LENGTH)]
        return [leak * (total - LENGTH * v) / (1 + (LENGTH - 1) * leak) for v in wanted]


def reversal() -> None:
    print("(b) Reversal by position bias, L = 6, logits 50 and -10")
    model = reversing()
    word = list(range(1, LENGTH + 1))
    answer = evaluate(model, word)[:, 0].tolist()
    tell("output for 1..6 in float64", answer, "6, 5, 4, 3, 2, 1 exactly")
    assert answer == [6.0, 5.0, 4.0, 3.0, 2.0, 1.0]
    with localcontext() as context:
        context.prec = 40
        leak = (LENGTH - 1) * Decimal(-60).exp()
    tell("weight that goes astray, 5 e^-60", f"{leak:.6e}", "about 5 e^-60 = 4.4e-26")
    errors = exact_errors()
    worst = max(map(abs, errors))
    tell("largest exact error on 1..6", f"{worst:.6e}", "15 e^-60, of the order of 5 e^-60")
    tell("half the float64 step below 1", f"{2.0**-54:.6e}", "far above that error")
    assert worst < Decimal(2) ** -54
    prove(model)


def prove(model: Transformer) -> None:
    """Every word of six numbers: 25 e^-60 is the worst that the weights do, floats round more."""
    domain = Words(range(1, LENGTH + 1), LENGTH, LENGTH)
    error = 2.0**-40  # the claim is about what floats answer, too
    claim = Claim(Reversed(), domain, [Share("leak", "head 0", error)])
    certificate = hm.certify(Construction(model, claim, None, "by hand"))
    tell(f"certificate for all {domain.count:,} words", certificate.verdict.name, "PROVED")
    print(" ", certificate)


# ---- (c) a query with equal logits -------------------------------------------------------------


def summing(length: int) -> Transformer:
    """The start token is the query (CLS) and sees itself, too; it is left out by position bias.

    All symbols have the logit 0, so that the query receives their mean.
    """
    embedding = np.stack([np.arange(1.0, length + 1), np.zeros(length)], axis=1)
    source = SequenceInput(range(1, length + 1), embedding, np.zeros((length + 1, 2)), np.zeros(2))
    bias = np.zeros((length + 1, length + 1))
    bias[:, 0] = -1.0  # with a hardmax any gap will do
    nobody = np.zeros((0, 2))
    head = Head(nobody, nobody, [[1.0, 0.0]], [[0.0], [1.0]], position_bias=bias)
    readout = ReadOut([[0.0, 1.0], [0.0, float(length)]], [0.0, 0.0], 0)
    return Transformer(source, [Attention([head])], readout)


def sum_at_a_query() -> None:
    print("(c) A CLS query with equal logits, input 1..5")
    mean, total = evaluate(summing(5), [1, 2, 3, 4, 5]).tolist()
    tell("mean", mean, 3)
    tell("mean times L = 5, the sum", total, 15)
    assert (Fraction(mean), Fraction(total)) == (3, 15)


if __name__ == "__main__":
    main()
