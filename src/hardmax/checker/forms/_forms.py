"""Affine forms with exact rational coefficients over atoms, the alphabet of the checker.

An atom is a number that depends on the input in a way that is not affine: a softmax mean, a
rectified form, a product. Everything between atoms is affine and is carried exactly, so that
what cancels in the weights cancels here, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import numpy as np
from flint import fmpq

from hardmax.checker._budget import SUM, TERM, charge
from hardmax.checker.forms._bodies import (
    ONE,
    ZERO,
    Body,
    all_nearest,
    cost_of,
    cost_of_bits,
    scaled_terms,
)
from hardmax.checker.forms._coefficients import Coefficients, are_many, nearest

_SMALL, _LARGE = 1e-140, 1e140  # products of floats between these neither vanish nor overflow


def is_moderate(value: float) -> bool:
    """Whether products with such numbers, or quotients by them, neither vanish nor overflow."""
    return _SMALL < abs(value) < _LARGE


class Form:
    """constant + scale * body. Scaling is free, and so is the sum of forms that share a body."""

    _arrays: Coefficients | None = None
    _hash: int | None = None
    _terms: Mapping[int, fmpq] | None = None
    _is_spelled = False  # whether its terms have been charged for

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

    def _spell(self) -> None:
        """Charge for the terms, once."""
        if not self._is_spelled:
            self._is_spelled = True
            if self.scale != ONE:
                charge(cost_of(self.scale), self.body.count)

    @property
    def terms(self) -> Mapping[int, fmpq]:
        """Coefficients by the atoms' numbers."""
        if self._terms is None:
            self._spell()
            self._terms = scaled_terms(self.body.terms, self.scale)
        return self._terms

    def coefficient(self, atom: int) -> fmpq:
        """Of one of the atoms: what `terms` says of it."""
        self._spell()
        found = self.body.coefficient(atom)
        return found if self.scale == ONE else found * self.scale

    def get(self, atom: int) -> fmpq | None:
        """The same; None where there is no such atom."""
        self._spell()
        return self.coefficient(atom) if atom in self.atoms else None

    @property
    def arrays(self) -> Coefficients | None:
        """What `terms` says, in arrays; None if they are few, or two floats too few for some."""
        if self._arrays is None and self.body.arrays is not None:
            self._arrays = self.body.arrays.scaled(self.scale)
        return self._arrays

    def kept(self, keep: Callable[[np.ndarray], np.ndarray], constant: fmpq = ZERO) -> Form:
        """The terms of some atoms, which `keep` finds among all, and a constant."""
        self._spell()
        arrays = self.arrays
        if arrays is None:
            atoms = self.body.array
            chosen = set(atoms[keep(atoms)].tolist())
            return Form({a: c for a, c in self.terms.items() if a in chosen}, constant)
        return from_arrays(arrays.only(keep(arrays.atoms)), constant)

    def only(self, atoms: Collection[int], constant: fmpq = ZERO) -> Form:
        """The terms of these atoms."""
        among = np.array(list(atoms), dtype=np.int64)
        return self.kept(lambda own: np.isin(own, among), constant)

    def without(self, atoms: Collection[int], constant: fmpq = ZERO) -> Form:
        """The terms of all atoms but these."""
        among = np.array(list(atoms), dtype=np.int64)
        return self.kept(lambda own: ~np.isin(own, among), constant)

    @property
    def atoms(self) -> Mapping[int, object]:
        """The atoms; what they map to is of no meaning."""
        return self.body.keys

    @property
    def is_constant(self) -> bool:
        return not self.body.count

    @property
    def is_zero(self) -> bool:
        return not self.body.count and self.constant == ZERO

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
        return atoms, all_nearest(self.terms.values())

    @property
    def float_alone(self) -> float | None:
        """The coefficient of the only atom, as `floats` has it; None where that takes more."""
        scale = nearest(self.scale)
        if self.scale != ONE and not is_moderate(scale):
            return None
        self.body.charge_floats()
        return scale

    @property
    def order(self) -> Order:
        """Something to sort forms by."""
        charge(TERM, self.body.count)
        self._spell()
        return Order(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Form):
            return NotImplemented
        if self.constant != other.constant:
            return False
        if self.body is other.body:
            return bool(self.scale == other.scale) or not self.body.count
        if hash(self) != hash(other):
            return False
        if self.scale == other.scale:
            return self.body == other.body
        return self._has_terms_of(other)

    def _has_terms_of(self, other: Form) -> bool:
        self._spell()
        other._spell()
        mine, theirs = self.arrays, other.arrays
        if mine is not None and theirs is not None:
            return mine.equals(theirs)
        return self.terms == other.terms

    def __hash__(self) -> int:
        """From one coefficient: hashing all of a long form would cost more than it saves."""
        if self._hash is None:
            body, last = self.body, self.body.last
            few = [self.constant]
            if last >= 0:
                few.append(body.coefficient(last) * self.scale)
            self._hash = hash((body.count, last, *map(nearest, few)))
        return self._hash

    @property
    def heaviest(self) -> int:
        """The atom with the largest coefficient; the first of them, if there are several."""
        self._spell()
        return self.body.heaviest

    @property
    def lead(self) -> fmpq:
        """The coefficient of the first atom; the constant, if there is none."""
        body = self.body
        return body.coefficient(body.least) * self.scale if body.count else self.constant

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


class Order:
    """Forms in the order of their constants, then of their terms by the atoms' numbers."""

    def __init__(self, form: Form) -> None:
        self.form = form

    def _terms(self) -> list[tuple[int, fmpq]]:
        return sorted(self.form.terms.items(), key=lambda term: term[0])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Order):
            return NotImplemented
        mine, theirs = self.form, other.form
        return mine is theirs or (
            bool(mine.constant == theirs.constant) and mine._has_terms_of(theirs)
        )

    def __lt__(self, other: Order) -> bool:
        if self.form.constant != other.form.constant:
            return bool(self.form.constant < other.form.constant)
        return self._terms() < other._terms()

    __hash__ = None  # type: ignore[assignment]


NOTHING = Form({})


def constant(value: fmpq) -> Form:
    return Form({}, value)


def direction_of(form: Form) -> tuple[Form, fmpq]:
    """The form without its constant, scaled to a first coefficient of 1, and the scale."""
    lead = form.lead
    return Form.of(form.body, form.scale / lead), lead


def from_arrays(arrays: Coefficients, constant: fmpq = ZERO) -> Form:
    """Coefficients, of which none is 0, and a constant."""
    if len(arrays) < 2:
        return Form(arrays.terms(), constant)
    return Form.of(Body.of(arrays), ONE, constant)


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
        elif body.count:
            known = scales.get(id(body))
            scales[id(body)] = (scale if known is None else known[0] + scale, body)
    long = [pair for pair in scales.values() if pair[0]]
    charge(SUM + cost_of(offset))
    if len(long) == 1 and not terms:
        return Form.of(long[0][1], long[0][0], offset)
    in_arrays = False
    for scale, body in long:
        charge(cost_of_bits(scale.height_bits() + body.bits), body.count)
        in_arrays = in_arrays or are_many(body.count)
    if in_arrays and all(terms.values()):
        found = _joined(terms, long, offset)
        if found is not None:
            return found
    for scale, body in long:
        _add(terms, scale, body)
    return Form({atom: c for atom, c in terms.items() if c}, offset)


def _add(terms: dict[int, fmpq], scale: fmpq, body: Body) -> None:
    """Add scale * body to some coefficients."""
    if scale == ONE and not terms:
        terms.update(body.terms)
        return
    for atom, coefficient in body.terms.items():
        term = scale if coefficient is ONE else coefficient * scale
        terms[atom] = terms[atom] + term if atom in terms else term


def _joined(terms: Mapping[int, fmpq], long: list[tuple[fmpq, Body]], offset: fmpq) -> Form | None:
    """A few terms and some long bodies; None if that is not to be had in arrays."""
    if len(long) == 1:
        scale, body = long[0]
        if body.keys.keys().isdisjoint(terms):
            return Form.of(Body.beside(terms, scale, body), ONE, offset)
    elif len(long) == 2 and not terms:
        left = _cancelled(*long)
        if left is not None:
            return Form(left, offset)
    scales = [scale for scale, _ in long]
    whole = _summed(terms, scales, [body for _, body in long])
    if whole is not None:
        return from_arrays(whole.nonzero(), offset)
    first = scales[0]
    left = {atom: c / first for atom, c in terms.items()}
    whole = _summed(left, [s / first for s in scales], [body for _, body in long])
    if whole is None:
        return None
    whole = whole.nonzero()
    if not are_many(len(whole)):
        return Form(scaled_terms(whole.terms(), first), offset)
    return Form.of(Body.beside({}, first, Body.of(whole)), ONE, offset)


def _summed(
    terms: Mapping[int, fmpq], scales: list[fmpq], bodies: list[Body]
) -> Coefficients | None:
    """A few terms, and then scale * body for each, with zeros."""
    whole = Coefficients.of(terms) if terms else None
    if terms and whole is None:
        return None
    for scale, body in zip(scales, bodies, strict=True):
        arrays = body.arrays if are_many(body.count) else Coefficients.of(body.terms)
        scaled = None if arrays is None else arrays.scaled(scale)
        if scaled is None:
            return None
        whole = scaled if whole is None else whole.plus(scaled)
        if whole is None:
            return None
    return whole


def _cancelled(first: tuple[fmpq, Body], second: tuple[fmpq, Body]) -> dict[int, fmpq] | None:
    """The terms beside bodies that cancel; None if there are no such bodies."""
    (a, one), (b, other) = first, second
    few, inside, base = one.inside
    more, scale, same = other.inside
    if base is not same or a * inside + b * scale != ZERO:
        return None
    left = {atom: c * a for atom, c in few.items()}
    for atom, c in more.items():
        left[atom] = left.get(atom, ZERO) + c * b
    return {atom: c for atom, c in left.items() if c}
