"""What forms of one direction share: coefficients of atoms, in whichever shape they were made.

A body is kept as a dictionary of rationals, as arrays (`Coefficients`), or as a scaled body beside
a few terms, which is written out when somebody looks. What it says is the same in each shape, and
so is the order of its atoms: sums of floats depend on it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache

import numpy as np
from flint import fmpq

from hardmax.checker._budget import DIGITS, FLOAT, TERM, charge
from hardmax.checker.forms._coefficients import Coefficients, are_many, nearest

ZERO, ONE = fmpq(0), fmpq(1)
_LONG = 512  # bits of a number whose digits are charged for


@lru_cache(maxsize=1 << 17)  # a weight is read as query, as value, by the target and in balls
def rational(value: float) -> fmpq:
    """The float as the exact rational that it is."""
    if value == 1.0:
        return ONE
    return fmpq(*float(value).as_integer_ratio())


def all_nearest(values: Collection[fmpq]) -> np.ndarray:
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
    """Coefficients by the atoms' numbers, none of them 0."""

    # not looked at so far
    _terms: Mapping[int, fmpq] | None = None
    _arrays: Coefficients | None = None
    _beside: tuple[Mapping[int, fmpq], fmpq, Body] | None = None
    _is_rational = False  # two floats are too few for some coefficient
    _atoms: np.ndarray | None = None
    _keys: Mapping[int, object] | None = None
    _hash: int | None = None
    _bits: int | None = None
    _least: int | None = None
    _floats: tuple[np.ndarray, np.ndarray] | None = None
    _is_charged = False  # for its floats

    def __init__(self, terms: Mapping[int, fmpq]) -> None:
        self._terms, self.count = terms, len(terms)
        self.atom = next(iter(terms)) if self.count == 1 else -1  # alone, its coefficient is 1

    @classmethod
    def of(cls, arrays: Coefficients) -> Body:
        """The same of several coefficients in arrays."""
        body = cls.__new__(cls)
        body._arrays, body._atoms = arrays, arrays.atoms
        body.count, body.atom = len(arrays), -1
        return body

    @classmethod
    def beside(cls, terms: Mapping[int, fmpq], scale: fmpq, body: Body) -> Body:
        """A few terms, and scale * body, which has none of their atoms: made when it is read."""
        made = cls.__new__(cls)
        made._beside = terms, scale, body.written()
        few = np.fromiter(terms, dtype=np.int64, count=len(terms))
        made._atoms = np.concatenate([few, body.array])
        made.count, made.atom = len(made._atoms), -1
        return made

    # ---- the shapes ------------------------------------------------------------------------------

    @property
    def terms(self) -> Mapping[int, fmpq]:
        """As rationals."""
        if self._terms is None:
            if self._arrays is not None:
                self._terms = self._arrays.terms()
            else:
                assert self._beside is not None
                few, scale, body = self._beside
                self._terms = {**few, **scaled_terms(body.terms, scale)}
        return self._terms

    @property
    def arrays(self) -> Coefficients | None:
        """As arrays, if they are worth it and two floats suffice for each coefficient."""
        if self._arrays is None and not self._is_rational:
            self._arrays = self._found()
            self._is_rational = self._arrays is None
        return self._arrays

    def _found(self) -> Coefficients | None:
        if not are_many(self.count):
            return None
        if self._beside is None:
            return Coefficients.of(self.terms)
        few, scale, body = self._beside
        first = Coefficients.of(few)
        rest = None if first is None or body.arrays is None else body.arrays.scaled(scale)
        return None if first is None or rest is None else first.joined(rest)

    def written(self) -> Body:
        """The same, in arrays or in rationals: what is put off is never put off twice."""
        if self._beside is not None:
            if self.arrays is None:
                self._terms = self.terms
            self._beside = None
        return self

    @property
    def inside(self) -> tuple[Mapping[int, fmpq], fmpq, Body]:
        """A few terms, and the body that is scaled beside them; this one, if there are none."""
        return ({}, ONE, self) if self._beside is None else self._beside

    # ---- what they say ---------------------------------------------------------------------------

    @property
    def array(self) -> np.ndarray:
        """The atoms in their order."""
        if self._atoms is None:
            self._atoms = np.fromiter(self.terms, dtype=np.int64, count=self.count)
        return self._atoms

    @property
    def keys(self) -> Mapping[int, object]:
        """The atoms, to look them up; what they map to is of no meaning."""
        if self._terms is not None:
            return self._terms
        if self._keys is None:
            self._keys = dict.fromkeys(self.array.tolist())
        return self._keys

    def coefficient(self, atom: int) -> fmpq:
        """Of an atom that there is."""
        if self._terms is not None:
            return self._terms[atom]
        place = int((self.array == atom).argmax())
        if self._arrays is not None:
            return self._arrays.at(place)
        assert self._beside is not None
        few, scale, body = self._beside
        return few[atom] if atom in few else body.coefficient(atom) * scale

    @property
    def least(self) -> int:
        """The first of all atoms by their numbers."""
        if self._least is None:
            self._least = int(self.array.min()) if are_many(self.count) else min(self.keys)
        return self._least

    @property
    def heaviest(self) -> int:
        """The atom with the largest coefficient; the first of them, if there are several."""
        atoms: Iterable[int] = self.keys
        if self.arrays is not None:
            sizes = np.abs(self.arrays.high)
            atoms = self.array[sizes == sizes.max()].tolist()
        return max(atoms, key=lambda atom: abs(self.coefficient(atom)))

    @property
    def bits(self) -> int:
        """Of one of the coefficients, for what operations on all of them are charged."""
        if self._bits is None:
            if self._terms is not None:
                first = next(iter(self._terms.values()), ONE)
            else:
                first = self.coefficient(int(self.array[0]))
            self._bits = first.height_bits()
        return self._bits

    @property
    def floats(self) -> tuple[np.ndarray, np.ndarray]:
        """The atoms, and the floats nearest to their coefficients."""
        if self._floats is None:
            self.charge_floats()
            self._floats = self.array, self._nearest()
        return self._floats

    def charge_floats(self) -> None:
        """For rounding the coefficients, once."""
        if not self._is_charged:
            self._is_charged = True
            charge(FLOAT + cost_of_bits(self.bits), self.count)

    def _nearest(self) -> np.ndarray:
        if self.arrays is not None:
            return self.arrays.high
        if self._terms is None and self._beside is not None:
            few, scale, body = self._beside
            if body.arrays is not None:
                near = body.arrays.nearest_times(scale)
                return np.concatenate([all_nearest(few.values()), near])
        return all_nearest(self.terms.values())

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Body) or self.count != other.count:
            return False
        if self._arrays is not None and other._arrays is not None:
            return self._arrays.equals(other._arrays)
        return self.terms == other.terms

    def __hash__(self) -> int:
        """From one coefficient: hashing all of a long body would cost more than it saves."""
        if self._hash is None:
            last = self.last
            value = nearest(self.coefficient(last)) if self.count else 0.0
            self._hash = hash((self.count, last, value))
        return self._hash

    @property
    def last(self) -> int:
        """The last of all atoms by their numbers; -1 if there is none."""
        return int(self.array.max()) if are_many(self.count) else max(self.keys, default=-1)


def scaled_terms(terms: Mapping[int, fmpq], scale: fmpq) -> Mapping[int, fmpq]:
    return terms if scale == ONE else {atom: c * scale for atom, c in terms.items()}
