"""Forms without the dust of rounded weights.

A coordinate that a compiler meant to hold y may hold y + 1e-16 x: x would be one more dimension to
search, for nothing. Terms that are far below the rest of their form are replaced by the middle of
their range, and what that can change is carried to the answer:

    a gate        |s(l) v - s(l') v'| <= |v - v'| + |v| |l - l'| / 4
    a softmax     mean moves by at most |v - v'| + 2 spread |l - l'|
    a maximum     by the largest change of an argument
    a product     |f| |g - g'| + |g'| |f - f'|
    a function    by its steepest slope on the range times the change of the argument
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from flint import fmpq

from hardmax.checker.forms import (
    ONE,
    ZERO,
    Apply,
    Body,
    Form,
    Gate,
    Graph,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    constant,
    nearest,
    rational,
    total,
)
from hardmax.numerics import down, inflate, record_of, up

_DUST = 2.0**-34  # of a form's own range


class Tidier:
    """Rebuilds atoms over tidy forms, and remembers by how much each may have changed."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[int, tuple[Form, float]] = {}
        self._bodies: dict[int, tuple[Body, Form, float]] = {}  # by identity

    def form(self, form: Form) -> tuple[Form, float]:
        """A form like this one, and how far it may be from it."""
        if form.is_constant:
            return form, 0.0
        known = self._bodies.get(id(form.body))
        if known is None:
            known = (form.body, *self._tidy(Form.of(form.body, ONE)))
            self._bodies[id(form.body)] = known
        _, inner, change = known
        if not change:
            return form, 0.0
        # a scale, a coefficient and a product with each, n sums, and up to three within an atom
        moved = inflate(abs(nearest(form.scale)) * change, len(form.atoms) + 8)
        return inner.scaled(form.scale) + constant(form.constant), moved

    def _tidy(self, form: Form) -> tuple[Form, float]:
        """The same for a form of scale 1; what it may be off by is not yet rounded up."""
        low, high = self.graph.range(form)
        dust = _DUST * max(high - low, max(abs(low), abs(high)))
        atoms, c = form.floats
        small = np.abs(c) * self.graph.bounds.sizes(atoms) <= 2 * dust  # seen more closely below
        parts, change = [], 0.0
        for atom, is_small in zip(atoms.tolist(), small.tolist(), strict=True):
            inner, moved = self._tidied(atom, form.terms[atom], dust if is_small else 0.0)
            parts.append((form.terms[atom], inner))
            change += abs(nearest(form.terms[atom])) * moved if moved else 0.0
        return (total(parts), change) if change else (form, 0.0)

    def _tidied(self, atom: int, c: fmpq, dust: float) -> tuple[Form, float]:
        """A term's atom; the middle of its range if it is a variable and the term is dust."""
        if dust and isinstance(self.graph.atoms[atom], Variable):
            low, high = self.graph.bounds[atom]
            if 0.0 < max(abs(low), abs(high)) * abs(nearest(c)) <= dust:
                middle = 0.5 * (low + high)
                return constant(rational(middle)), max(high - middle, middle - low)
        if atom not in self._made:
            self._made[atom] = self._atom(atom)
        return self._made[atom]

    def _atom(self, number: int) -> tuple[Form, float]:
        atom, graph = self.graph.atoms[number], self.graph
        match atom:
            case Gate(logit=logit, value=value):
                (new_logit, moved), (new_value, shift) = self.form(logit), self.form(value)
                if not moved and not shift:
                    return Form({number: ONE}), 0.0
                size = max(map(abs, graph.range(value)))
                return graph.gate(new_logit, new_value), shift + 0.25 * size * moved
            case Mean(logits=logits, values=values):
                return self._mean(number, logits, values)
            case Relu(argument=argument):
                new, moved = self.form(argument)
                return (graph.relu(new), moved) if moved else (Form({number: ONE}), 0.0)
            case Maximum(arguments=arguments):
                pairs = [self.form(a) for a in arguments]
                moved = max(m for _, m in pairs)
                if not moved:
                    return Form({number: ONE}), 0.0
                return graph.maximum([constant(ZERO), *(f for f, _ in pairs)]), moved
            case Times(first=first, second=second):
                (f, moved), (g, shift) = self.form(first), self.form(second)
                if not moved and not shift:
                    return Form({number: ONE}), 0.0
                sizes = [max(map(abs, graph.range(form))) for form in (f, second)]
                return graph.times(f, g), sizes[0] * shift + sizes[1] * moved
            case Apply():
                return self._apply(number, atom)
            case HardMean() | Variable():
                return Form({number: ONE}), 0.0

    def _mean(
        self, number: int, logits: Sequence[Form], values: Sequence[Form]
    ) -> tuple[Form, float]:
        new_logits = [self.form(form) for form in logits]
        new_values = [self.form(form) for form in values]
        moved, shift = (max(m for _, m in pairs) for pairs in (new_logits, new_values))
        if not moved and not shift:
            return Form({number: ONE}), 0.0
        ends = [(0.0, 0.0), *(self.graph.range(value) for value in values)]
        spread = max(b for _, b in ends) - min(a for a, _ in ends)
        zero = constant(ZERO)
        made = self.graph.mean(
            [zero, *(f for f, _ in new_logits)], [zero, *(f for f, _ in new_values)]
        )
        return made, shift + 2.0 * spread * moved

    def _apply(self, number: int, atom: Apply) -> tuple[Form, float]:
        new, moved = self.form(atom.argument)
        if not moved:
            return Form({number: ONE}), 0.0
        low, high = self.graph.range(atom.argument)
        ends = np.array(down(low - moved)), np.array(up(high + moved))
        slope = record_of(atom.name, atom.exponent).curve(*ends)[1]
        steep = float(np.abs(slope[0]) + slope[1])
        if not math.isfinite(steep):
            return Form({number: ONE}), 0.0
        return self.graph.apply(atom.name, new, atom.exponent), steep * moved


def tidied(graph: Graph, answer: Form, scale: float) -> tuple[Form, float]:
    """The answer without dust, if what that can change is small beside the scale."""
    form, change = Tidier(graph).form(answer)
    return (form, change) if change <= 2.0**-12 * scale else (answer, 0.0)
