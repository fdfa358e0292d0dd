"""Answers as classes: a program's items by their logits, and the numbers back from the rows.

A program answers with a number y near the code c_v of an item v. The logit of v is 2 c_v y - c_v^2
= y^2 - (y - c_v)^2, so that the largest one names the nearest code; where |y - c| <= d/4, d being
the distance of codes, it leads by at least d^2/2. With y = w x + b the class v has the row 2 c_v w
and the bias 2 c_v b - c_v^2. A code takes at most half of a format's digits, so that its square is
exact; rows and biases have to be exact, too. So whoever reads the rows finds w again, exactly, or
knows that they are not of this kind. And y has to be one column, with b = 0: then what rounding
does to a logit depends on the codes alone. Where it is not, y is written into a column of its own.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hardmax._errors import FileError, RequestError
from hardmax.core import ReadOut, SequenceTarget, Target
from hardmax.languages.programs import ProgramTarget
from hardmax.numerics import Format, above_float

NOTHING = "<none>"  # how a label says that a program answers with nothing


@dataclass(frozen=True)
class Labels:
    """The items that a program may answer with: their texts, and the numbers they are coded by."""

    texts: tuple[str, ...]
    codes: tuple[float, ...]
    rounding: float = 0.0  # of codes, which have few digits

    def told_apart_within(self, error: float) -> bool:
        """Whether an answer that is off by so much is nearest to its own code."""
        return error + self.rounding < gaps(self) / 2.0

    @property
    def lowest(self) -> float:
        """A logit below that of every nearest code, whose logit is at least -(d/2)^2."""
        return -math.ldexp(1.0, math.frexp(4.0 * max(c * c for c in self.codes) + 4.0)[1])


def labels_of(target: Target | SequenceTarget, format: Format) -> Labels:
    """The classes of a program; what has no classes is refused."""
    if not isinstance(target, ProgramTarget):
        raise RequestError(
            "A word's answers become labels by the codes of a program, but this target on words "
            "is none: compile an hm.programs.Program."
        )
    if target.outputs != 1:
        raise RequestError(
            f"A token has one label, but the program answers with {target.outputs} values: give a "
            f"program with one output."
        )
    output = target.program.outputs[0]
    code = target.codes[output]
    texts = [NOTHING if one is None else str(one) for one in code.items]
    if len(set(texts)) < len(texts):
        texts = [NOTHING if one is None else repr(one) for one in code.items]
    exact = [Fraction(code.number(one)) for one in code.items]
    codes = tuple(_short(float(number), format) for number in exact)
    room = target.spacing(output) / 16
    off = max((abs(Fraction(c) - n) for c, n in zip(codes, exact, strict=True)), default=0)
    if off > room:
        raise RequestError(
            f"The codes of this program's answers need more than {format.digits // 2} digits: "
            f"choose dtype='float64', or a program whose answers are smaller numbers."
        )
    return Labels(tuple(texts), codes, above_float(Fraction(off)))


def _short(number: float, format: Format) -> float:
    """The nearest number of half as many digits as the format has."""
    mantissa, exponent = math.frexp(number)
    digits = format.digits // 2
    return math.ldexp(round(math.ldexp(mantissa, digits)), exponent - digits)


def logit_rows(
    readout: ReadOut, labels: Labels, format: Format
) -> tuple[np.ndarray, np.ndarray] | None:
    """The rows and the biases of the classes; None if y is no column, or the format lacks one."""
    if (readout.weights[0] != 0.0).sum() > 1 or readout.bias[0] != 0.0:
        return None
    weights, bias = format.stored(readout.weights[0]), Fraction(float(readout.bias[0]))
    rows = np.zeros((len(labels.codes), len(weights)))
    biases = np.zeros(len(labels.codes))
    for v, code in enumerate(map(Fraction, labels.codes)):
        for i in np.flatnonzero(weights):
            exact = 2 * code * Fraction(float(weights[i]))
            rows[v, i] = float(exact)
            if Fraction(rows[v, i]) != exact:
                return None
        exact = 2 * code * bias - code * code
        biases[v] = float(exact)
        if Fraction(biases[v]) != exact:
            return None
    if not (format.holds(rows).all() and format.holds(biases).all()):
        return None
    return rows, biases


def read_out_of(rows: np.ndarray, biases: np.ndarray, labels: Labels, token: int | None) -> ReadOut:
    """The read-out behind the rows of the classes, every one of which is held against it."""
    codes = [Fraction(code) for code in labels.codes]
    v = max(range(len(codes)), key=lambda i: abs(codes[i]))
    if codes[v] == 0:
        weights, bias = [Fraction(0)] * rows.shape[1], Fraction(0)
    else:
        weights = [Fraction(w) / (2 * codes[v]) for w in rows[v].tolist()]
        bias = (Fraction(float(biases[v])) + codes[v] ** 2) / (2 * codes[v])
    used = [i for i, w in enumerate(weights) if w or rows[:, i].any()]
    for code, row, constant in zip(codes, rows.tolist(), biases.tolist(), strict=True):
        fits = all(Fraction(row[i]) == 2 * code * weights[i] for i in used)
        if not fits or Fraction(constant) != 2 * code * bias - code * code:
            raise FileError("has classes whose rows are not those of the codes of its answers.")
    if bias or sum(w != 0 for w in weights) > 1:
        raise FileError("has classes that read several columns.")
    found, shift = np.array([float(w) for w in weights]), float(bias)
    if [Fraction(w) for w in found.tolist()] != weights or Fraction(shift) != bias:
        raise FileError("has a read-out that float64 does not hold.")
    return ReadOut(found[None], np.array([shift]), token)


def gaps(labels: Labels) -> float:
    """The smallest distance between two codes; 1 if there are not two."""
    ordered = sorted(labels.codes)
    return min((b - a for a, b in itertools.pairwise(ordered)), default=1.0)
