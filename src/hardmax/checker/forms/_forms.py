"""Affine forms with exact rational coefficients over atoms, the alphabet of the checker.

An atom is a number that depends on the input in a way that is not affine: a softmax mean, a
rectified form, a product. Everything between atoms is affine and is carried exactly, so that
what cancels in the weights cancels here, to the last bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import numpy as np
from flint import fmpq

from hardmax.checker._budget import DIGITS, FLOAT, SUM, TERM, VISIT, charge

ZERO, ONE = fmpq(0), fmpq(1)
_LONG = 512  # bits of a number whose digits are charged for
_SMALL, _LARGE = 1e-140, 1e140  # products of floats between these neither vanish nor overflow


def is_moderate(value: float) -> bool:
    """Whether products with such numbers, or quotients by them, neither vanish nor overflow."""
    return _SMALL < abs(value) < _LARGE


@lru_cache(maxsize=1 << 17)  # a weight is read as query, as value, by the target and in balls
def rational(value: float) -> fmpq:
    """The float as the exact rational that it is."""
    if value == 1.0:
        return ONE
    return fmpq(*float(value).as_integer_ratio())


def nearest(value: fmpq) -> float:
    """The float nearest to a rational; infinite beyond the largest."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _nearest(values: Collection[fmpq]) -> np.ndarray:
    """The floats nearest to rationals, which seldom lie beyond the largest."""
    try:
        return np.array([float(value) for value in values], dtype=float)
    except OverflowError:
        return np.array([nearest(value) for value in values], dtype=float)


def cost_of(*numbers: fmpq) -> int:
    """What an operation on such coefficients is charged for: long ones by their digits.

    Products of numbers with w words take about w^2 steps, greatest common divisors included.
    """
    return cost_of_bits(sum([number.height_bits() for number in numbers]))


def cost_of_bits(bits: int) -> int:
    return TERM if bits < _LONG else TERM + DIGITS * (bits >> 6) * (128 + (bits >> 6)) // 128


class Body:
    """What forms of one direction share: coefficients by the atoms' numbers, none of them 0."""

    __slots__ = ("_bits", "_floats", "_hash", "atom", "terms")

    def __init__(self, terms: Mapping[int, fmpq]) -> None:
        self.terms = terms
        self.atom = next(iter(terms)) if len(terms) == 1 else -1  # alone, its coefficient is 1
        self._hash: int | None = None
        self._bits: int | None = None
        self._floats: tuple[np.ndarray, np.ndarray] | None = None

    @property
    def bits(self) -> int:
        """Of one of the coefficients, for what operations on all of them are charged."""
        if self._bits is None:
            self._bits = next(iter(self.terms.values()), ONE).height_bits()
        return self._bits

    @property
    def floats(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms, and the floats nearest to their coefficients."""
        if self._floats is None:
            charge(FLOAT + cost_of_bits(self.bits), len(self.terms))
            atoms = np.fromiter(self.terms, dtype=np.int64, count=len(self.terms))
            self._floats = atoms, _nearest(self.terms.values())
        return self._floats

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Body) and self.terms == other.terms

    def __hash__(self) -> int:
        """From one coefficient: hashing all of a long body would cost more than it saves."""
        if self._hash is None:
            last = max(self.terms, default=-1)
            value = nearest(self.terms[last]) if self.terms else 0.0
            self._hash = hash((len(self.terms), last, value))
        return self._hash


class Form:
    """constant + scale * body. Scaling is free, and so is the sum of forms that share a body."""

    __slots__ = ("_hash", "_terms", "body", "constant", "scale")

    def __init__(self, terms: Mapping[int, fmpq], constant: fmpq = ZERO) -> None:
        """The sum of coefficient * atom, atoms by their numbers, no coefficient being 0."""
        if len(terms) == 1:
            ((atom, scale),) = terms.items()
            self._set(Body({atom: ONE}), scale, constant)
        else:
            self._set(Body(terms), ONE, constant)

    @classmethod
    def of(cls, body: Body, scale: fmpq, constant: fmpq = ZERO) -> Form:
        """constant + scale * body, scale not being 0."""
        form = cls.__new__(cls)
        form._set(body, scale, constant)
        return form

    def _set(self, body: Body, scale: fmpq, constant: fmpq) -> None:
        self.body, self.scale, self.constant = body, scale, constant
        self._hash: int | None = None
        self._terms: Mapping[int, fmpq] | None = None

    @property
    def terms(self) -> Mapping[int, fmpq]:
        """Coefficients by the atoms' numbers."""
        if self._terms is None:
            plain, scale = self.body.terms, self.scale
            if scale != ONE:
                charge(cost_of(scale), len(plain))
            self._terms = plain if scale == ONE else {a: c * scale for a, c in plain.items()}
        return self._terms

    @property
    def atoms(self) -> Mapping[int, fmpq]:
        """The atoms; what they map to is of no meaning."""
        return self.body.terms

    @property
    def is_constant(self) -> bool:
        return not self.body.terms

    @property
    def is_zero(self) -> bool:
        return not self.body.terms and self.constant == ZERO

    @property
    def floats(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms, and floats within 2 ulp of their coefficients."""
        atoms, plain = self.body.floats
        if self.scale == ONE:
            return atoms, plain
        scale = nearest(self.scale)
        sizes = np.abs(plain)
        if not len(plain):
            return atoms, plain
        if is_moderate(scale) and sizes.min() > _SMALL and sizes.max() < _LARGE:
            return atoms, plain * scale
        return atoms, _nearest(self.terms.values())

    @property
    def order(self) -> tuple[fmpq, tuple[tuple[int, fmpq], ...]]:
        """Something to sort forms by."""
        charge(TERM, len(self.atoms))
        return self.constant, tuple(sorted(self.terms.items(), key=lambda term: term[0]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form):
            return NotImplemented
        if self.constant != other.constant:
            return False
        if self.body is other.body:
            return bool(self.scale == other.scale) or not self.body.terms
        if hash(self) != hash(other):
            return False
        if self.scale == other.scale:
            return self.body.terms == other.body.terms
        return self.terms == other.terms

    def __hash__(self) -> int:
        """From one coefficient: hashing all of a long form would cost more than it saves."""
        if self._hash is None:
            plain = self.body.terms
            last = max(plain, default=-1)
            few = [self.constant] if last < 0 else [self.constant, plain[last] * self.scale]
            self._hash = hash((len(plain), last, *map(nearest, few)))
        return self._hash

    @property
    def lead(self) -> fmpq:
        """The coefficient of the first atom; the constant, if there is none."""
        plain = self.body.terms
        return plain[min(plain)] * self.scale if plain else self.constant

    def __add__(self, other: Form) -> Form:
        return total(((ONE, self), (ONE, other)))

    def __sub__(self, other: Form) -> Form:
        return total(((ONE, self), (-ONE, other)))

    def __neg__(self) -> Form:
        return self.scaled(-ONE)

    def scaled(self, factor: fmpq) -> Form:
        if factor == ONE:
            return self
        if factor == ZERO:
            return NOTHING
        charge(cost_of(self.constant, factor))
        return Form.of(self.body, self.scale * factor, self.constant * factor)

    def __repr__(self) -> str:
        parts = [f"{c}*a{a}" for a, c in sorted(self.terms.items())]
        return " + ".join([*parts, str(self.constant)])


NOTHING = Form({})


def constant(value: fmpq) -> Form:
    return Form({}, value)


def direction_of(form: Form) -> tuple[Form, fmpq]:
    """The form without its constant, scaled to a first coefficient of 1, and the scale."""
    lead = form.lead
    return Form.of(form.body, form.scale / lead), lead


def renamed(form: Form, names: Mapping[int, Form]) -> Form:
    """The form with some atoms replaced by forms."""
    plain = form.body.terms
    if names.keys().isdisjoint(plain):
        return form
    charge(VISIT, len(plain))
    kept: dict[int, fmpq] = {}
    parts = []
    for atom, c in plain.items():
        if atom in names:
            parts.append((c, names[atom]))
        else:
            kept[atom] = c
    inner = total([(ONE, Form(kept)), *parts])
    inner = inner.scaled(form.scale)
    return Form.of(inner.body, inner.scale, inner.constant + form.constant)


class Shared:
    """Bodies that were met before: equal ones become one, so that they cancel at no cost."""

    def __init__(self) -> None:
        self._known: dict[Body, Body] = {}

    def form(self, form: Form) -> Form:
        """The same form, with the body of the first one that had an equal body."""
        body = self._known.setdefault(form.body, form.body)
        return form if body is form.body else Form.of(body, form.scale, form.constant)


def total(parts: Iterable[tuple[fmpq, Form]]) -> Form:
    """The sum of factor * form; forms that share a body are added by their scales."""
    terms: dict[int, fmpq] = {}
    scales: dict[int, tuple[fmpq, Body]] = {}
    offset = ZERO
    for factor, form in parts:
        if form.constant is not ZERO:
            offset += form.constant if factor is ONE else form.constant * factor
        scale = form.scale
        if factor is not ONE:
            scale = factor if scale is ONE else scale * factor
        body = form.body
        atom = body.atom
        if atom >= 0:
            terms[atom] = terms[atom] + scale if atom in terms else scale
        elif body.terms:
            known = scales.get(id(body))
            scales[id(body)] = (scale if known is None else known[0] + scale, body)
    long = [pair for pair in scales.values() if pair[0]]
    charge(SUM + cost_of(offset))
    if len(long) == 1 and not terms:
        return Form.of(long[0][1], long[0][0], offset)
    for scale, body in long:
        _add(terms, scale, body)
    return Form({atom: c for atom, c in terms.items() if c}, offset)


def _add(terms: dict[int, fmpq], scale: fmpq, body: Body) -> None:
    """Add scale * body to some coefficients."""
    charge(cost_of_bits(scale.height_bits() + body.bits), len(body.terms))
    if scale == ONE and not terms:
        terms.update(body.terms)
        return
    for atom, coefficient in body.terms.items():
        term = scale if coefficient is ONE else coefficient * scale
        terms[atom] = terms[atom] + term if atom in terms else term
