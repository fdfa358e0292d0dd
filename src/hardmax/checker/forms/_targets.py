"""A target's straight-line program, written out as forms over atoms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from hardmax.checker.forms._dominance import excess
from hardmax.checker.forms._forms import (
    NOTHING,
    ONE,
    Form,
    constant,
    direction_of,
    is_moderate,
    nearest,
    rational,
    renamed,
    total,
)
from hardmax.checker.forms._graph import Graph
from hardmax.checker.forms._unroll import Row, sparse_rows
from hardmax.core import Affine, Maximum, Product, Steps, Univariate
from hardmax.numerics import Interval, stray

_MOST_TERMS = 64  # of forms whose ranges are remembered


class TargetForms:
    """Every component of every value of a program, made when it is asked for.

    Atoms can be named: from then on variables that stand for coordinates of the stream take their
    place. So can the maximum of several components of one value. Rectifiers whose argument keeps
    its sign on the true domain are resolved by the program's own ranges, which names do not widen.
    """

    def __init__(
        self, steps: Steps, graph: Graph, inputs: Sequence[Form], domain: Interval | None = None
    ) -> None:
        self.steps, self.graph, self.domain = steps, graph, domain
        self._known = {(0, i): form for i, form in enumerate(inputs)}
        self._names: dict[int, Form] = {}
        self._fresh: set[int] = set()
        self._noted: dict[tuple[int, int], Form] = {}
        self.known: dict[Form, tuple[float, float]] = {}  # ranges of directions
        self._maxima: dict[int, list[tuple[frozenset[int], Form]]] = {}
        self._rows = cache(self._sparse)
        self.ranges = None if domain is None else steps.values(domain)

    def outputs(self) -> list[Form]:
        last = len(self.steps.steps)
        return [self.component(last, i) for i in range(self.steps.size(last))]

    def component(self, value: int, index: int) -> Form:
        if self._fresh:
            self._rename()
        if (value, index) not in self._known:
            self._known[value, index] = renamed(self._made(value, index), self._names)
        form = self._known[value, index]
        if self.ranges is not None and self._noted.get((value, index)) is not form:
            self._noted[value, index] = form
            self._note(form, self.ranges[value][index])
        return form

    def _note(self, form: Form, ends: Interval) -> None:
        """Remember the range of a component by its direction: c u + b, up to c and b."""
        if form.is_constant or len(form.atoms) > _MOST_TERMS:
            return
        direction, lead = direction_of(form)
        shift, scale = nearest(form.constant), nearest(lead)
        if not is_moderate(scale) or not (shift == 0.0 or is_moderate(shift)):
            return
        low, high = sorted((float(end) - shift) / scale for end in (ends.lo, ends.hi))
        # both numbers, their difference, the quotient and the step outward are rounded
        slack = float(stray(5, max(abs(low), abs(high)) + 2.0 * abs(shift / scale)))
        low, high = low - slack, high + slack
        before = self.known.get(direction, (-np.inf, np.inf))
        self.known[direction] = max(low, before[0]), min(high, before[1])

    def largest(self, value: int, indices: Iterable[int]) -> Form:
        """The maximum of some components, by way of maxima that have been cut, if any fit."""
        left, parts = set(indices), []
        joined: list[Form] = []
        for chosen, form in sorted(self._maxima.get(value, []), key=lambda m: -len(m[0])):
            if chosen <= left:
                parts.append(form)
                left -= chosen
                joined += [self.component(value, i) for i in sorted(chosen)]
        rest = [self.component(value, i) for i in sorted(left)]
        if joined:  # those that never lead are in what has been cut, too
            rest = [form for form in rest if excess(form, joined, self.graph.range) > 0.0]
        parts += rest
        return renamed(parts[0] if len(parts) == 1 else self.graph.maximum(parts), self._names)

    def name(self, atom: int, form: Form) -> None:
        """From here on, an atom is called by another name, in every component."""
        self._names[atom] = form
        self._fresh.add(atom)

    def _rename(self) -> None:
        """Call what is known by its new names, all at once."""
        for place, known in self._known.items():
            if not self._fresh.isdisjoint(known.atoms):
                self._known[place] = renamed(known, self._names)
        self._fresh.clear()

    def cut(self, value: int, indices: Iterable[int], form: Form) -> None:
        """The maximum of several components is called by another name."""
        chosen = frozenset(indices)
        if len(chosen) > 1:
            self._maxima.setdefault(value, []).append((chosen, form))

    def range(self, value: int, indices: Iterable[int]) -> tuple[float, float]:
        """The range of the maximum of some components on the true domain."""
        assert self.ranges is not None
        known = self.ranges[value]
        chosen = list(indices)
        return float(known.lo[chosen].max()), float(known.hi[chosen].max())

    def _sparse(self, number: int) -> list[Row]:
        step = self.steps.steps[number]
        assert isinstance(step, Affine)
        return sparse_rows(step.weights)

    def _made(self, value: int, index: int) -> Form:
        self.graph.look()
        step = self.steps.steps[value - 1]
        match step:
            case Affine():
                row = self._rows(value - 1)[index]
                parts = [(w, self._read(step, i)) for i, w in row]
                made = total([*parts, (ONE, constant(rational(step.bias[index])))])
                return self.graph.shared.form(made)
            case Maximum():
                return self._maximum(step, index)
            case Product():
                first, second = step.pairs[index]
                return self.graph.times(self._read(step, first), self._read(step, second))
            case Univariate():
                return self._univariate(step, value, index)

    def _source(self, step: Affine | Maximum | Product | Univariate, index: int) -> tuple[int, int]:
        for source in step.sources:
            size = self.steps.size(source)
            if index < size:
                return source, int(index)
            index -= size
        raise AssertionError("steps check what they read")

    def _read(self, step: Affine | Maximum | Product | Univariate, index: int) -> Form:
        return self.component(*self._source(step, index))

    def _maximum(self, step: Maximum, index: int) -> Form:
        places = [self._source(step, i) for i in step.groups[index] if i >= 0]
        sources = {source for source, _ in places}
        if len(sources) == 1:
            return self.largest(sources.pop(), [i for _, i in places])
        return self.graph.maximum([self.component(*place) for place in places])

    def _univariate(self, step: Univariate, value: int, index: int) -> Form:
        source = self._source(step, index)
        if step.name == "relu" and self.ranges is not None:
            known = self.ranges[source[0]]
            if known.hi[source[1]] <= 0.0:
                return NOTHING
            if known.lo[source[1]] >= 0.0:
                return self.component(*source)
        return self.graph.apply(step.name, self.component(*source), step.exponent)


def is_defined(ranges: list[Interval]) -> bool:
    """Whether the ranges of all values are finite."""
    return all(bool(np.isfinite(r.lo).all() and np.isfinite(r.hi).all()) for r in ranges)
