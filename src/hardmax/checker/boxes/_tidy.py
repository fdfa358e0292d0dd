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

import numpy as np
from flint import fmpq

from hardmax.checker.forms import (
    ONE,
    Apply,
    Atom,
    Body,
    Form,
    Gate,
    Graph,
    HardMean,
    Mean,
    Times,
    Variable,
    arguments,
    constant,
    nearest,
    rational,
    rebuilt,
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
        """The same atom over tidy forms, and how far it may be from it."""
        atom, same = self.graph.atoms[number], (Form({number: ONE}), 0.0)
        if isinstance(atom, HardMean | Variable):
            return same
        pairs = [self.form(form) for form in arguments(atom)]
        moves = [moved for _, moved in pairs]
        if not any(moves):
            return same
        change = self._change(atom, [form for form, _ in pairs], moves)
        if change is None:
            return same
        return rebuilt(self.graph, number, [form for form, _ in pairs]), change

    def _change(self, atom: Atom, new: list[Form], moves: list[float]) -> float | None:
        """How far an atom moves when its arguments do; None if it may without bound."""
        size = self._size
        half = len(moves) // 2
        match atom:
            case Gate(value=value):
                return moves[1] + 0.25 * size(value) * moves[0]
            case Mean(values=values):
                ends = [(0.0, 0.0), *(self.graph.range(value) for value in values)]
                spread = max(b for _, b in ends) - min(a for a, _ in ends)
                return max(moves[half:]) + 2.0 * spread * max(moves[:half])
            case Times(second=second):
                return size(new[0]) * moves[1] + size(second) * moves[0]
            case Apply(name=name, exponent=exponent, argument=argument):
                low, high = self.graph.range(argument)
                wide = np.array(down(low - moves[0])), np.array(up(high + moves[0]))
                slope = record_of(name, exponent).curve(*wide)[1]
                steep = float(np.abs(slope[0]) + slope[1])
                return steep * moves[0] if math.isfinite(steep) else None
        return max(moves)

    def _size(self, form: Form) -> float:
        return max(map(abs, self.graph.range(form)))


def tidied(graph: Graph, answer: Form, scale: float) -> tuple[Form, float]:
    """The answer without dust, if what that can change is small beside the scale."""
    form, change = Tidier(graph).form(answer)
    return (form, change) if change <= 2.0**-12 * scale else (answer, 0.0)
