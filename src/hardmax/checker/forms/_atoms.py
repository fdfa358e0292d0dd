"""The kinds of atoms: what a Transformer and its target do beyond affine maps."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hardmax.checker.forms._forms import Form


@dataclass(frozen=True, eq=False)
class Variable:
    """A free number within its range: an input, or what a verified coordinate holds."""

    number: int


@dataclass(frozen=True, eq=False)
class Gate:
    """sigmoid(logit) * value: a softmax over two tokens, relative to the other token."""

    logit: Form
    value: Form


@dataclass(frozen=True, eq=False)
class Mean:
    """sum_j w_j values_j, w the softmax of the logits and of one more token.

    That token has logit 0 and value 0: logits and values are relative to it.
    """

    logits: tuple[Form, ...]
    values: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class HardMean:
    """The same for a hardmax: the mean of the values whose scores are largest."""

    scores: tuple[Form, ...]
    values: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class Relu:
    """max(argument, 0), the argument's first coefficient being 1 or -1."""

    argument: Form


@dataclass(frozen=True, eq=False)
class Maximum:
    """max(0, arguments...), two of them at least."""

    arguments: tuple[Form, ...]


@dataclass(frozen=True, eq=False)
class Times:
    """The product of two forms."""

    first: Form
    second: Form


@dataclass(frozen=True, eq=False)
class Apply:
    """A named function of one variable; the exponent belongs to `power`."""

    name: str
    exponent: float | Fraction
    argument: Form


Atom = Variable | Gate | Mean | HardMean | Relu | Maximum | Times | Apply


def arguments(atom: Atom) -> tuple[Form, ...]:
    """The forms that an atom reads."""
    match atom:
        case Variable():
            return ()
        case Gate(logit=logit, value=value):
            return (logit, value)
        case Mean(logits=logits, values=values):
            return logits + values
        case HardMean(scores=scores, values=values):
            return scores + values
        case Relu(argument=argument) | Apply(argument=argument):
            return (argument,)
        case Maximum(arguments=forms):
            return forms
        case Times(first=first, second=second):
            return (first, second)
