"""The graph of atoms: equal things are one thing, and what is affine on the domain is a form.

Every maker below returns a form. Atoms are normalised before they are looked up (signs, scales,
a common reference), so that a hard head that takes a maximum and the target's own maximum become
the same atom, and their difference the form 0: that is how hard semantics is checked exactly.

A rectifier whose argument keeps its sign on the domain, or a hard head whose winner is clear, is
replaced by what it is there. Ranges are outward-rounded, so this is exact, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

import numpy as np
from flint import fmpq

from hardmax.checker._budget import ATOM, charge
from hardmax.checker.forms._atoms import (
    Apply,
    Atom,
    Bounds,
    Gate,
    HardMean,
    Maximum,
    Mean,
    Relu,
    Times,
    Variable,
    gate_range,
    hull_with_zero,
    mean_range,
    univariate_range,
)
from hardmax.checker.forms._bodies import ONE, ZERO, rational
from hardmax.checker.forms._coefficients import are_many
from hardmax.checker.forms._forms import NOTHING, Form, Shared, constant, total
from hardmax.core import Box
from hardmax.numerics import Interval, record_of

_TINY = 1e-100  # numbers below are left to the variables' ranges
_OTHER, _VARIABLE, _RECTIFIER = 0, 1, 2
_MOST_TERMS = 16  # forms with more are not written out a second time
_MOST_MONOMIALS = 9  # products of forms with more terms than this stay products


class Graph:
    """Atoms in the order in which they were made, each after those that it reads.

    Forms can grow beyond all measure; `look` is called now and then, and may end that by raising.
    """

    def __init__(self, look: Callable[[], object] = lambda: None) -> None:
        self.look = look
        self.atoms: list[Atom] = []
        self.variables: set[int] = set()  # those atoms that are free numbers
        self._kinds = np.zeros(64, dtype=np.int8)  # by atoms: what can be asked of many at once
        self.bounds = Bounds()
        self.shared = Shared()
        self._known: dict[Hashable, int] = {}
        self._facing: dict[Hashable, bool] = {}  # which of u and -u is rectified
        self._denominators: dict[Form, Form] = {}
        self._factors: dict[int, Counter[int]] = {}

    def variable(self, low: float, high: float) -> Form:
        """A new free number in [low, high]."""
        atom = Variable(len(self.variables))
        self.variables.add(len(self.atoms))
        return self._atom(("variable", atom.number), atom, (low, high))

    def inputs(self, domain: Box) -> list[Form]:
        """One variable for each side of a box; where the side is a point, it is not used.

        Except for numbers so small or large that floats could not follow what they multiply.
        """
        sides = zip(domain.low.tolist(), domain.high.tolist(), strict=True)
        free = [self.variable(low, high) for low, high in sides]
        sizes = np.abs(domain.low)
        plain = (sizes == 0.0) | ((sizes > _TINY) & (sizes < 1 / _TINY))
        fixed = (domain.low == domain.high) & plain
        return [
            constant(rational(low)) if is_fixed else form
            for form, low, is_fixed in zip(free, domain.low.tolist(), fixed.tolist(), strict=True)
        ]

    def is_plain(self, form: Form) -> bool:
        """Whether a form is one of variables alone."""
        if not are_many(form.body.count):
            return form.atoms.keys() <= self.variables
        return bool(self.are_variables(form.body.array).all())

    def are_variables(self, atoms: np.ndarray) -> np.ndarray:
        """Which of some atoms are free numbers."""
        return np.asarray(self._kinds[atoms] == _VARIABLE)

    def is_of_rectifiers(self, form: Form) -> bool:
        """Whether a form is one of variables and rectifiers alone."""
        return bool((self._kinds[form.body.array] != _OTHER).all())

    def range(self, form: Form) -> tuple[float, float]:
        """An enclosure of a form's values on the domain."""
        return self.bounds.range(form)

    def relu(self, form: Form) -> Form:
        """max(form, 0); of c u it is c relu(u) for c > 0, and relu(-u) = relu(u) - u.

        Which of u and -u is the atom was decided by whoever came first: the target, so that its
        own rectifiers stay short.
        """
        if form.is_constant:
            return constant(max(form.constant, ZERO))
        low, high = self.range(form)
        if low >= 0.0:
            return form
        if high <= 0.0:
            return NOTHING
        scale = abs(form.lead)
        unit = form.scaled(ONE / form.lead)
        argument = unit if self._facing.setdefault(unit, form.lead > 0) else -unit
        known = self.range(argument)
        atom = self._atom(
            ("relu", argument), Relu(argument), (max(known[0], 0.0), max(known[1], 0.0))
        )
        if (form.lead > 0) == self._facing[unit]:
            return atom.scaled(scale)
        return (atom - argument).scaled(scale)

    def gate(self, logit: Form, value: Form) -> Form:
        """sigmoid(logit) value; sigmoid(-l) v = v - sigmoid(l) v fixes a short logit's sign."""
        if value.is_zero:
            return NOTHING
        if logit.is_zero:
            return value.scaled(fmpq(1, 2))
        if logit.lead < 0 and len(logit.atoms) <= _MOST_TERMS:
            return value - self.gate(-logit, value)
        scale = value.lead
        unit = value.scaled(ONE / scale)
        known = gate_range(self.range(logit), self.range(unit))
        key = ("gate", logit, unit)
        return self._atom(key, Gate(logit, unit), known).scaled(scale)

    def mean(self, logits: Sequence[Form], values: Sequence[Form]) -> Form:
        """The softmax mean of the values."""
        logits, values = _sorted(logits, values)
        order, relative = self._leader_first(logits)
        base, rest = values[order[0]], [values[j] - values[order[0]] for j in order[1:]]
        if all(v.is_zero for v in rest):
            return base
        if len(rest) == 1:
            return base + self.gate(relative[0], rest[0])
        if all(logit.is_zero for logit in relative):
            return base + total([(fmpq(1, len(values)), v) for v in rest])
        key = ("mean", tuple(relative), tuple(rest))
        known = mean_range([self.range(f) for f in relative], [self.range(v) for v in rest])
        return base + self._atom(key, Mean(tuple(relative), tuple(rest)), known)

    def hard_mean(self, scores: Sequence[Form], values: Sequence[Form]) -> Form:
        """The mean of the values with the largest scores.

        Tokens that always lose are left out. If score differences are a positive multiple of the
        value differences, the mean is the maximum of the values, whoever ties.
        """
        living = self._contenders(scores)
        scores, values = [scores[j] for j in living], [values[j] for j in living]
        base, rest = values[0], [v - values[0] for v in values[1:]]
        if all(v.is_zero for v in rest):
            return base
        relative = [score - scores[0] for score in scores[1:]]
        if all(score.is_zero for score in relative):
            return base + total([(fmpq(1, len(values)), v) for v in rest])
        if _are_proportional(relative, rest):
            return self.maximum(values)
        key = ("hard", tuple(relative), tuple(rest))
        known = hull_with_zero([self.range(v) for v in rest])
        return base + self._atom(key, HardMean(tuple(relative), tuple(rest)), known)

    def maximum(self, forms: Sequence[Form]) -> Form:
        """The largest of the forms; of two it is f + relu(g - f)."""
        forms = sorted(set(forms), key=lambda form: form.order)
        forms = [forms[j] for j in self._contenders(forms)]
        base, rest = forms[0], [form - forms[0] for form in forms[1:]]
        if not rest:
            return base
        if len(rest) == 1:
            return base + self.relu(rest[0])
        scale = abs(rest[0].lead)
        rest = [form.scaled(ONE / scale) for form in rest]
        known = [self.range(form) for form in rest]
        ends = max(0.0, *(low for low, _ in known)), max(0.0, *(high for _, high in known))
        key = ("max", tuple(rest))
        return base + self._atom(key, Maximum(tuple(rest)), ends).scaled(scale)

    def times(self, first: Form, second: Form) -> Form:
        """The product; of short forms it is written out, so that equal monomials meet."""
        self.look()
        if first.is_constant or second.is_constant:
            factor, form = (first, second) if first.is_constant else (second, first)
            return form.scaled(factor.constant)
        for ratio in (self._over(first, second), self._over(second, first)):
            if ratio is not None:
                return ratio
        if len(first.atoms) * len(second.atoms) <= _MOST_MONOMIALS:
            return self._expanded(first, second)
        scale = first.lead * second.lead
        return self._product(
            first.scaled(ONE / first.lead), second.scaled(ONE / second.lead)
        ).scaled(scale)

    def apply(self, name: str, form: Form, exponent: float | Fraction = 1.0) -> Form:
        """A named function; rational ones of constants are computed.

        Functions with a kink become rectifiers, those of one sigmoid gates, so that they meet their
        likes: abs(x) = relu(2 x) - x, tanh(x) = 2 sigmoid(2 x) - 1.
        """
        function = record_of(name, exponent)
        if function.pieces:
            first, second = (_line(form, piece.slope, piece.offset) for piece in function.pieces)
            return second + self.relu(first - second)
        if function.gated is not None:
            gated = function.gated
            logit = form.scaled(fmpq(gated.steepness))
            gate = self.gate(logit, _line(form, gated.slope, gated.constant))
            return gate + constant(fmpq(gated.offset))
        if name == "power" and exponent == 1:
            return form
        if name == "power" and exponent == 2:
            return self.times(form, form)
        if name == "reciprocal" and form.constant != ZERO:
            mean = self._softmax(constant(ONE), form)
            if mean is not None:
                self._denominators[mean] = form
                return mean
        if form.is_constant and form.constant != ZERO:
            if name == "reciprocal":
                return constant(ONE / form.constant)
            whole = Fraction(exponent).denominator == 1
            if name == "power" and whole and -1000 < exponent < 1000:
                return constant(form.constant ** int(exponent))
        exponent = exponent if name == "power" else 1.0
        known = univariate_range(name, self.range(form), exponent)
        return self._atom((name, exponent, form), Apply(name, exponent, form), known)

    def _over(self, numerator: Form, inverse: Form) -> Form | None:
        """numerator * inverse as a softmax mean, the latter being 1/sum of exponentials."""
        denominator = self._denominators.get(inverse)  # 1/(1 + e^x + ...) is a mean already
        if denominator is not None:
            return self._softmax(numerator, denominator)
        atom = self.atoms[inverse.body.atom] if inverse.body.atom >= 0 else None
        if inverse.constant != ZERO or not isinstance(atom, Apply) or atom.name != "reciprocal":
            return None
        found = self._softmax(numerator, atom.argument)
        return None if found is None else found.scaled(inverse.scale)

    def _softmax(self, numerator: Form, denominator: Form) -> Form | None:
        """sum_j v_j e^(l_j) / sum_j e^(l_j) is the softmax mean of the v_j; a constant is e^0."""
        shares = set(denominator.terms.values())
        shares |= {denominator.constant} - {ZERO}
        logits = {}
        for number in denominator.atoms:
            atom = self.atoms[number]
            if not isinstance(atom, Apply) or atom.name != "exp":
                return None
            logits[number] = atom.argument
        if len(shares) != 1 or len(logits) < 1 or not numerator.atoms.keys() <= logits.keys():
            return None
        if numerator.constant != ZERO and denominator.constant == ZERO:
            return None
        (share,) = shares
        tokens = [
            (logit, constant(numerator.terms.get(number, ZERO) / share))
            for number, logit in logits.items()
        ]
        if denominator.constant != ZERO:
            tokens.append((NOTHING, constant(numerator.constant / share)))
        return self.mean([logit for logit, _ in tokens], [value for _, value in tokens])

    def square_of(self, form: Form) -> Form:
        """form^2, not written out."""
        return self._product(form, form)

    def unwritten(self, first: Form, second: Form) -> Form:
        """first * second, not written out."""
        return self._product(first, second)

    def _expanded(self, first: Form, second: Form) -> Form:
        parts = [
            (first.constant, second - constant(second.constant)),
            (second.constant, first),
        ]
        for a, p in first.terms.items():
            for b, q in second.terms.items():
                parts.append((p * q, self._monomial(a, b)))
        return total(parts)

    def _monomial(self, first: int, second: int) -> Form:
        """The product of two atoms, in one way only: (x y) x, x (x y) and x^2 y are the same.

        Powers of single atoms, by their numbers, are multiplied one after the other; from the third
        on they are what a target's x^n is.
        """
        powers = Counter(self._powers(first))
        powers.update(self._powers(second))
        found: Form | None = None
        for atom in sorted(powers):
            form, power = Form({atom: ONE}), powers[atom]
            if power == 2:
                form = self._product(form, form)
            elif power > 2:
                form = self.apply("power", form, Fraction(power))
            found = form if found is None else self._product(found, form)
        assert found is not None
        return found

    def _powers(self, atom: int) -> dict[int, int]:
        """The atoms whose product an atom is, and how often each is a factor."""
        if atom not in self._factors:
            made, factors = self.atoms[atom], Counter({atom: 1})
            match made:
                case Times(first=first, second=second):
                    inner = _sole_atom(first), _sole_atom(second)
                    if inner[0] is not None and inner[1] is not None:
                        factors = Counter(self._powers(inner[0]))
                        factors.update(self._powers(inner[1]))
                case Apply(name="power", exponent=exponent, argument=argument):
                    base, power = _sole_atom(argument), Fraction(exponent)
                    if base is not None and power.denominator == 1 and power > 1:
                        factors = Counter({base: int(power)})
            self._factors[atom] = factors
        return self._factors[atom]

    def _product(self, first: Form, second: Form) -> Form:
        if second.order < first.order:
            first, second = second, first
        (a, b), (c, d) = self.range(first), self.range(second)
        product = Interval(np.array(a), np.array(b)) * Interval(np.array(c), np.array(d))
        low, high = float(product.lo), float(product.hi)
        if first == second:
            low = max(low, 0.0)
        return self._atom(("times", first, second), Times(first, second), (low, high))

    def _leader_first(self, logits: Sequence[Form]) -> tuple[list[int], list[Form]]:
        """An order in which a token that leads everywhere is the reference, and logits beside it.

        The others' shares are small then. Where none leads the first is the reference.
        """
        order, relative = list(range(len(logits))), [logit - logits[0] for logit in logits[1:]]
        if len(logits) <= _MOST_TERMS:
            low = [0.0, *(self.range(logit)[0] for logit in relative)]
            best = max(order, key=lambda j: low[j])
            rest = [j for j in order if j != best]
            ahead = [logits[j] - logits[best] for j in rest] if best else []
            if best and all(self.range(logit)[1] <= 0.0 for logit in ahead):
                return [best, *rest], ahead
        return order, relative

    def _contenders(self, forms: Sequence[Form]) -> list[int]:
        """Those that are not everywhere below one of the others."""
        if len(forms) > 64 or len(forms) == 1:
            return list(range(len(forms)))
        best = max(range(len(forms)), key=lambda j: self.range(forms[j])[0])
        return [
            j
            for j, form in enumerate(forms)
            if j == best or not self.range(form - forms[best])[1] < 0.0
        ]

    def _atom(self, key: Hashable, atom: Atom, known: tuple[float, float]) -> Form:
        number = self._known.get(key)
        if number is None:
            charge(ATOM)
            self.look()
            number = len(self.atoms)
            self._known[key] = number
            self._note(number, atom)
            self.atoms.append(atom)
            self.bounds.append(*known)
        return Form({number: ONE})

    def _note(self, number: int, atom: Atom) -> None:
        if number == len(self._kinds):
            self._kinds = np.concatenate([self._kinds, np.zeros_like(self._kinds)])
        kinds = {Variable: _VARIABLE, Relu: _RECTIFIER}
        self._kinds[number] = kinds.get(type(atom), _OTHER)


def _sole_atom(form: Form) -> int | None:
    """The atom that a form is, if it is one and nothing else."""
    if len(form.atoms) != 1 or form.constant != ZERO or form.lead != ONE:
        return None
    return next(iter(form.atoms))


def _line(form: Form, slope: int, offset: int) -> Form:
    return form.scaled(fmpq(slope)) + constant(fmpq(offset))


def _sorted(
    logits: Sequence[Form], values: Sequence[Form]
) -> tuple[Sequence[Form], Sequence[Form]]:
    """A few tokens in an order of their own, so that equal means become one atom."""
    if len(logits) > _MOST_TERMS or any(
        len(form.atoms) > _MOST_TERMS for form in (*logits, *values)
    ):
        return logits, values
    order = sorted(range(len(logits)), key=lambda j: (values[j].order, logits[j].order))
    return [logits[j] for j in order], [values[j] for j in order]


def _are_proportional(scores: Sequence[Form], values: Sequence[Form]) -> bool:
    """Whether scores_j = factor * values_j for all j, with one factor > 0."""
    first = next(j for j, value in enumerate(values) if not value.is_zero)
    if scores[first].is_zero:
        return False
    factor = scores[first].lead / values[first].lead
    return bool(factor > 0) and all(
        (score - value.scaled(factor)).is_zero for score, value in zip(scores, values, strict=True)
    )


def rebuilt(graph: Graph, number: int, again: Sequence[Form]) -> Form:
    """An atom of the same kind that reads these forms."""
    zero, half = constant(ZERO), len(again) // 2
    match graph.atoms[number]:
        case Gate():
            return graph.gate(*again)
        case Mean():
            return graph.mean([zero, *again[:half]], [zero, *again[half:]])
        case HardMean():
            return graph.hard_mean([zero, *again[:half]], [zero, *again[half:]])
        case Relu():
            return graph.relu(*again)
        case Maximum():
            return graph.maximum([zero, *again])
        case Times():
            return graph.times(*again)
        case Apply(name=name, exponent=exponent):
            return graph.apply(name, again[0], exponent)
        case Variable():
            return Form({number: ONE})
