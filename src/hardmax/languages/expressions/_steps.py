"""Expressions as straight-line programs: one place per value, common parts once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from hardmax.core import Affine, Maximum, Product, Steps, Univariate
from hardmax.languages.expressions._expression import (
    ONE,
    Apply,
    Expression,
    Number,
    Variable,
    postorder,
)

Place = tuple[int, int]  # the number of a value, and a component of it


@dataclass(frozen=True)
class _Form:
    """constant + the sum of coefficient * place: what an affine step can compute."""

    weights: dict[Place, Fraction]
    constant: Fraction = Fraction(0)

    def is_exact(self) -> bool:
        """Whether float64 holds every number of it."""
        return all(map(is_float, (*self.weights.values(), self.constant)))

    def place(self) -> Place | None:
        """The place whose value it copies, if it does no more than that."""
        if len(self.weights) == 1 and not self.constant:
            ((place, weight),) = self.weights.items()
            return place if weight == 1 else None
        return None

    def scaled(self, factor: Fraction) -> _Form:
        weights = {place: factor * weight for place, weight in self.weights.items() if factor}
        return _Form(weights, factor * self.constant)


def is_float(value: Fraction) -> bool:
    """Whether float64 holds the number exactly."""
    return Fraction(float(value)) == value


def _total(forms: Sequence[_Form]) -> _Form:
    weights: dict[Place, Fraction] = {}
    for form in forms:
        for place, weight in form.weights.items():
            weights[place] = weights.get(place, Fraction(0)) + weight
    weights = {place: weight for place, weight in weights.items() if weight}
    return _Form(weights, sum((form.constant for form in forms), Fraction(0)))


def steps_of(
    outputs: Sequence[Expression], variables: Sequence[str]
) -> tuple[Steps, dict[Expression, Place]]:
    """The program that computes the outputs, and the place of every part that has one.

    Sums and multiples are carried along as affine forms and written down, all that a step needs
    in one affine step, only when something nonlinear reads them. Every number of the program is
    a float64 that means itself: a coefficient that is none, such as 1/3, becomes the reciprocal
    of 3 and a product, so that the program computes the expression exactly.
    """
    program = _Program(len(variables), outputs)
    for i, name in enumerate(variables):
        program.forms[Variable(name)] = _Form({(0, i): Fraction(1)})
    for node in postorder(*outputs):
        if node not in program.forms:
            program.forms[node] = program.form(node)
    program.finish(outputs)
    return Steps(program.inputs, program.steps), program.found()


@dataclass
class _Program:
    inputs: int
    outputs: Sequence[Expression]
    steps: list[Affine | Maximum | Product | Univariate] = field(default_factory=list)
    forms: dict[Expression, _Form] = field(default_factory=dict)
    copies: dict[Place, int] = field(default_factory=dict)

    def size(self, value: int) -> int:
        return self.inputs if value == 0 else self.steps[value - 1].size

    def found(self) -> dict[Expression, Place]:
        places = {node: form.place() for node, form in self.forms.items()}
        return {node: place for node, place in places.items() if place is not None}

    def form(self, node: Expression) -> _Form:
        """The affine form of a node whose arguments have theirs; adds the steps it needs."""
        if isinstance(node, Number):
            return self.number(node.value)
        assert isinstance(node, Apply)
        match node.operation:
            case "add":
                return self.sum(node)
            case "multiply":
                return self.multiple(node)
            case "divide":
                over, under = node.arguments
                inverse = self.univariate("reciprocal", under)
                return inverse if over is ONE else self.product(self.place(over), inverse.place())
            case "maximum":
                return self.maximum([self.forms[a] for a in node.arguments])
            case "minimum":
                forms = [self.forms[a].scaled(Fraction(-1)) for a in node.arguments]
                return self.maximum(forms).scaled(Fraction(-1))
        return self.univariate(node.operation, node.arguments[0], node.exponent)

    def number(self, value: Fraction) -> _Form:
        """A constant; one that float64 does not hold is a sum of floats, or a quotient of such."""
        if is_float(value):
            return _Form({}, value)
        numerator, denominator = value.numerator, value.denominator
        if denominator & (denominator - 1) == 0:
            parts = _floats_adding_to(value)
            return _Form(
                {place: Fraction(1) for place in self.write([_Form({}, p) for p in parts])}
            )
        (under,) = self.write([self.number(Fraction(denominator))])
        inverse = self.append(Univariate((self.alone(under),), "reciprocal", 1))
        return self.scale(self.number(Fraction(numerator)), inverse)

    def scale(self, form: _Form, by: _Form) -> _Form:
        """The product of a constant form with any other."""
        if not form.weights and by.scaled(form.constant).is_exact():
            return by.scaled(form.constant)
        first, second = self.write([form, by])
        return self.product(first, second)

    def sum(self, node: Apply) -> _Form:
        form = _total([self.forms[a] for a in node.arguments])
        if form.is_exact():
            return form
        return _total([_Form({self.place(a): Fraction(1)}) for a in node.arguments])

    def multiple(self, node: Apply) -> _Form:
        first, *rest = node.arguments
        if not isinstance(first, Number):
            halves = [_joined(part) for part in _paired(node.arguments)]
            for half in halves:
                if half not in self.forms:
                    self.forms[half] = self.form(half)
            return self.product(self.place(halves[0]), self.place(halves[1]))
        other = rest[0] if len(rest) == 1 else Apply("multiply", rest)
        if other not in self.forms:
            self.forms[other] = self.form(other)
        form = self.forms[other].scaled(first.value)
        if form.is_exact():
            return form
        alone = _Form({self.place(other): first.value})
        return alone if alone.is_exact() else self.scale(self.forms[first], self.forms[other])

    def maximum(self, forms: Sequence[_Form]) -> _Form:
        places = self.write(forms)
        sources, offsets = self.stacked(places)
        groups = [[offsets[value] + component for value, component in places]]
        return self.append(Maximum(sources, np.array(groups)))

    def product(self, first: Place, second: Place | None) -> _Form:
        assert second is not None
        sources, offsets = self.stacked([first, second])
        pair = [offsets[value] + component for value, component in (first, second)]
        return self.append(Product(sources, np.array([pair])))

    def univariate(
        self, name: str, argument: Expression, exponent: Fraction = Fraction(1)
    ) -> _Form:
        source = self.alone(self.place(argument))
        power = float(exponent) if is_float(exponent) else exponent
        return self.append(Univariate((source,), name, 1, power))

    def append(self, step: Maximum | Product | Univariate) -> _Form:
        self.steps.append(step)
        return _Form({(len(self.steps), 0): Fraction(1)})

    def place(self, node: Expression) -> Place:
        """Where the node's value stands, written down if it was a mere form so far."""
        (place,) = self.write([self.forms[node]])
        self.forms[node] = _Form({place: Fraction(1)})
        return place

    def alone(self, place: Place) -> int:
        """A value of size 1 that holds what stands at the place."""
        value, component = place
        if self.size(value) == 1:
            return value
        if place not in self.copies:
            weights = np.zeros((1, self.size(value)))
            weights[0, component] = 1.0
            self.steps.append(Affine((value,), weights, np.zeros(1)))
            self.copies[place] = len(self.steps)
        return self.copies[place]

    def write(self, forms: Sequence[_Form]) -> list[Place]:
        """Places that hold the forms: those that are places already, and one affine step."""
        places = [form.place() for form in forms]
        fresh = [form for form, place in zip(forms, places, strict=True) if place is None]
        if fresh:
            self.affine(fresh)
        rows = iter(range(len(fresh)))
        return [(len(self.steps), next(rows)) if place is None else place for place in places]

    def affine(self, forms: Sequence[_Form]) -> None:
        sources, offsets = self.stacked([place for form in forms for place in form.weights])
        weights = np.zeros((len(forms), sum(self.size(source) for source in sources)))
        for row, form in enumerate(forms):
            for (value, component), weight in form.weights.items():
                weights[row, offsets[value] + component] = float(weight)
        bias = np.array([float(form.constant) for form in forms])
        self.steps.append(Affine(sources, weights, bias))

    def stacked(self, places: Sequence[Place]) -> tuple[tuple[int, ...], dict[int, int]]:
        """The values behind the places, and where each begins when they stand in one column."""
        sources = tuple(sorted({value for value, _ in places})) or (0,)
        ends = np.cumsum([0, *(self.size(source) for source in sources)])
        return sources, {source: int(end) for source, end in zip(sources, ends, strict=False)}

    def finish(self, outputs: Sequence[Expression]) -> None:
        """Make the last step hold the outputs, one below the other."""
        wanted = [(len(self.steps), i) for i in range(len(outputs))]
        forms = [self.forms[output] for output in outputs]
        whole = bool(self.steps) and self.steps[-1].size == len(outputs)
        if whole and [form.place() for form in forms] == wanted:
            return
        self.affine(forms)
        for i, output in enumerate(outputs):
            if self.forms[output].place() is None:
                self.forms[output] = _Form({(len(self.steps), i): Fraction(1)})


def _paired(factors: Sequence[Expression]) -> tuple[Sequence[Expression], Sequence[Expression]]:
    """Where neighbours are multiplied pair by pair, the last product is of these two parts."""
    half = 1 << ((len(factors) - 1).bit_length() - 1)
    return factors[:half], factors[half:]


def _joined(factors: Sequence[Expression]) -> Expression:
    return factors[0] if len(factors) == 1 else Apply("multiply", factors)


def _floats_adding_to(value: Fraction) -> list[Fraction]:
    """Floats whose exact sum is a dyadic number: the nearest one, and so on with the rest.

    `Number` admits multiples of 2^-1074 only, the smallest float, so no rest is lost.
    """
    parts: list[Fraction] = []
    while value:
        parts.append(Fraction(float(value)))
        value -= parts[-1]
    return parts
