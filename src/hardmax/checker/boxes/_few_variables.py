"""As few variables as a problem really depends on: a basis of its functionals, and no dust.

The search runs in the coordinates of a basis: where x*y is made of squares of x + y and x - y,
every kink is a wall u = const or v = const, and boxes in (u, v) need not cross it. The functionals
that occur most often are taken first, as long as they are independent.

Dust is what rounded weights leave. A coordinate that a compiler meant to hold y may hold
y + 1e-16 x: x would be one more dimension to search, for nothing. Terms that are far below the rest
of their form are replaced by the middle of their range, and what that can change is carried to the
answer:

    a gate        |s(l) v - s(l') v'| <= |v - v'| + |v| |l - l'| / 4
    a softmax     mean moves by at most |v - v'| + 2 spread |l - l'|
    a maximum     by the largest change of an argument
    a product     |f| |g - g'| + |g'| |f - f'|
    a function    by its steepest slope on the range times the change of the argument
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
from flint import fmpq, fmpq_mat

from hardmax.checker._budget import TERM, charge
from hardmax.checker.forms import (
    ONE,
    ZERO,
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
    cost_of,
    cost_of_bits,
    nearest,
    rational,
    rebuilt,
    total,
)
from hardmax.numerics import down, inflate, record_of, up

Row = dict[int, fmpq]
Look = Callable[[], object]

_DUST = 2.0**-34  # of a form's own range


# ---- functionals ---------------------------------------------------------------------------------


class Basis:
    """Independent functionals, and the coordinates of whatever lies in their span.

    Beside the functionals stands their reduced row echelon form: there, coordinates are the
    entries at the pivots, and one k x k matrix translates them. Numbers grow on the way: `look` is
    called before they do, and may end it by raising.
    """

    def __init__(self, columns: int, look: Look = lambda: None) -> None:
        self.columns, self._look = columns, look
        self.rows: list[Row] = []
        self._echelon: dict[int, Row] = {}
        self._back: fmpq_mat | None = None

    @classmethod
    def of(
        cls,
        functionals: Iterable[Row],
        columns: int,
        look: Look = lambda: None,
    ) -> Basis:
        """The most frequent ones first; scale does not count."""
        counts: Counter[tuple] = Counter()
        units: dict[tuple, Row] = {}
        for row in functionals:
            if row:
                lead = row[min(row)]
                charge(3 * cost_of(lead), len(row))
                unit = {i: c / lead for i, c in row.items()}
                key = tuple(sorted(unit.items()))
                counts[key] += 1
                units.setdefault(key, unit)
        basis = cls(columns, look)
        for key in sorted(units, key=lambda key: (-counts[key], len(key))):
            look()
            basis.admit(units[key])
        return basis

    @property
    def rank(self) -> int:
        return len(self.rows)

    def residual(self, row: Row) -> Row:
        """What is left of a functional when its part in the span is taken away."""
        rest = dict(row)
        charge(TERM, len(self._echelon))
        for pivot, other in self._echelon.items():
            factor = rest.get(pivot, ZERO)
            if factor != ZERO:
                _subtract(rest, factor, other)
        return rest

    def admit(self, row: Row) -> None:
        """One more functional, scaled to begin with 1, unless it lies in the span already."""
        if self.rank == self.columns:
            return
        rest = self.residual(row)
        if not rest:
            return
        pivot = min(rest)
        rest = {i: c / rest[pivot] for i, c in rest.items()}
        for other in self._echelon.values():
            factor = other.get(pivot, ZERO)
            if factor != ZERO:
                _subtract(other, factor, rest)
        self._echelon[pivot] = rest
        lead = row[min(row)]
        self.rows.append({i: c / lead for i, c in row.items()})
        self._back = None

    def coordinates(self, row: Row) -> list[fmpq]:
        """c with c @ rows = row, for a functional in the span (up to its residual)."""
        if self._back is None:
            k = self.rank
            entries = [r.get(p, ZERO) for r in self.rows for p in self._echelon]
            longest = max((entry.height_bits() for entry in entries), default=0)
            charge(cost_of_bits(k * longest), k**3)  # determinants have as many digits
            self._look()
            self._back = fmpq_mat(k, k, entries).inv() if k else fmpq_mat(0, 0, [])
        own = [row.get(p, ZERO) for p in self._echelon]
        if not any(own):
            return [ZERO] * self.rank
        widest = max(own, key=fmpq.height_bits)
        charge(2 * cost_of(widest, self._back[0, 0]), 4 + self.rank * self.rank)
        return [
            sum((v * self._back[i, j] for i, v in enumerate(own) if v != ZERO), ZERO)
            for j in range(self.rank)
        ]


def _subtract(row: Row, factor: fmpq, other: Row) -> None:
    some = next(iter(other.values()), ONE)
    charge(2 * cost_of(factor, some), len(other))
    for i, c in other.items():
        value = row.get(i, ZERO) - factor * c
        if value == ZERO:
            row.pop(i, None)
        else:
            row[i] = value


# ---- dust ----------------------------------------------------------------------------------------


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
