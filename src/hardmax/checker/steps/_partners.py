"""Which maximum of the Transformer stands for which maximum of the target: good guesses.

Nothing depends on a guess being right; a wrong one makes the contest that follows fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from hardmax.checker.forms import NOTHING, ONE, Form, Graph, Relu, nearest
from hardmax.checker.steps._contests import Tokens, Truth, as_tokens

_CROSSING = 0.01  # of its range: so far may a value stray beyond 0 and count as of one sign
_ALIKE = 1e-7  # relative distance of two directions that are taken for the same


@dataclass(frozen=True, eq=False)
class Match:
    """A soft maximum of 0 and d, and the target's: of 0 and s u, or without a partner one of both.

    With the rectifier B = relu(u), max(0, s u) is s B for s > 0 and -s (B - u) otherwise, and
    min(0, s u) is s u less that.
    """

    ours: Tokens
    theirs: Tokens
    truth: Form  # the target's value that the atom stands for
    partner: int | None = None
    factor: fmpq = ONE
    argument: Form = NOTHING

    def solved(self, name: Form) -> Form:
        """B, when `name` stands for max(0, s u) or min(0, s u)."""
        largest = name
        if self.ours.is_minimum:
            largest = self.argument.scaled(self.factor) - name
        if self.factor > 0:
            return largest.scaled(ONE / self.factor)
        return largest.scaled(-ONE / self.factor) + self.argument


class Partners:
    """The target's rectifiers, looked up by the direction of their arguments."""

    def __init__(self, graph: Graph, atoms: Sequence[int]) -> None:
        self.graph = graph
        rectifiers = [a for a in atoms if isinstance(graph.atoms[a], Relu)]
        marks = np.array([_mark(_argument(graph, a)) for a in rectifiers])
        order = np.argsort(marks)
        self.atoms = [rectifiers[i] for i in order]
        self.marks = marks[order] if len(marks) else marks
        arguments = {a: _argument(graph, a) for a in rectifiers}
        self.offsets = {a: nearest(u.constant / u.lead) for a, u in arguments.items()}

    def matches(self, atoms: Sequence[int], truth: Truth) -> dict[int, Match]:
        """For each soft maximum of two the rectifier whose argument it reads, if there is one.

        Where several read the same direction the closest constant decides, and a rectifier goes to
        those that are closest to it.
        """
        tokens = {a: as_tokens(self.graph, NOTHING, [(a, ONE)]) for a in atoms}
        pairs = {a: t for a, t in tokens.items() if t is not None and len(t.forms) == 2}
        values = {a: truth.form(t.forms[1]) for a, t in pairs.items()}
        found = {a: self._find(values[a]) for a in pairs}
        closest: dict[int, float] = {}
        for candidate in found.values():
            if candidate is not None:
                partner, distance = candidate
                closest[partner] = min(distance, closest.get(partner, math.inf))
        result = {}
        for a, candidate in found.items():
            if candidate is not None and candidate[1] <= closest[candidate[0]] * (1 + 1e-9) + 1e-12:
                result[a] = self._with_partner(pairs[a], values[a], candidate[0])
            elif (alone := self._alone(pairs[a], values[a], truth)) is not None:
                result[a] = alone
        return result

    def _alone(self, ours: Tokens, value: Form, truth: Truth) -> Match | None:
        """A value of one sign: the target need not rectify it."""
        low, high = truth.range(value)
        if min(-low, high) > _CROSSING * (high - low):
            return None
        keeps = value if (high > -low) != ours.is_minimum else NOTHING
        return Match(ours, Tokens((keeps,)), keeps)

    def _with_partner(self, ours: Tokens, value: Form, partner: int) -> Match:
        argument = _argument(self.graph, partner)
        factor = value.lead / argument.lead
        line = argument.scaled(factor)
        largest = Form({partner: abs(factor)})
        largest = largest if factor > 0 else largest + line
        truth = line - largest if ours.is_minimum else largest
        sign = -math.inf if ours.is_minimum else math.inf
        theirs = Tokens((NOTHING, line), sign)
        return Match(ours, theirs, truth, partner, factor, argument)

    def _find(self, value: Form) -> tuple[int, float] | None:
        if not len(self.marks) or not value.atoms:
            return None
        mark = _mark(value)
        reach = _ALIKE * (1.0 + abs(mark))
        first, last = np.searchsorted(self.marks, [mark - reach, mark + reach])
        offset = nearest(value.constant / value.lead)
        distances = [(abs(self.offsets[a] - offset), a) for a in self.atoms[first:last]]
        distance, atom = min(distances, default=(0.0, -1))
        return None if atom < 0 else (atom, distance)


def _argument(graph: Graph, atom: int) -> Form:
    kind = graph.atoms[atom]
    assert isinstance(kind, Relu)
    return kind.argument


def _mark(form: Form) -> float:
    """A number that forms of one direction share, whatever their scale and constant."""
    atoms, c = form.floats
    return float(c @ np.sin(1.0 + 12.9898 * atoms)) / nearest(form.lead) + 1e-3 * len(atoms)
