"""Forms in which atoms are called otherwise: by other atoms, for the most part, all at once."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flint import fmpq

from hardmax.checker._budget import SUM, VISIT, charge
from hardmax.checker.forms._bodies import ONE, ZERO, Body, cost_of, cost_of_bits, scaled_terms
from hardmax.checker.forms._coefficients import Coefficients, are_many, as_float, summed
from hardmax.checker.forms._forms import Form, from_arrays, total

_UNNAMED, _SUM = -1, -2  # instead of an atom: none at all, and something longer


class Names(dict[int, Form]):
    """What atoms are called, and for names that are multiples of an atom the same in arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._called = np.full(64, _UNNAMED)
        self._factors, self._divisors = np.ones(64), np.ones(64)  # of which one is 1

    def __setitem__(self, atom: int, name: Form) -> None:
        super().__setitem__(atom, name)
        while atom + 1 >= len(self._called):  # the last one stands for all further atoms
            more = len(self._called)
            self._called = np.concatenate([self._called, np.full(more, _UNNAMED)])
            self._factors = np.concatenate([self._factors, np.ones(more)])
            self._divisors = np.concatenate([self._divisors, np.ones(more)])
        ratio = _as_ratio(name.scale) if name.body.atom >= 0 and name.constant == ZERO else None
        self._called[atom] = _SUM if ratio is None else name.body.atom
        self._factors[atom], self._divisors[atom] = (1.0, 1.0) if ratio is None else ratio

    def called(self, atoms: np.ndarray) -> np.ndarray:
        """By atoms: what they are called."""
        return self._called.take(atoms, mode="clip")

    def rescaled(self, moved: Coefficients) -> Coefficients | None:
        """Coefficients of atoms that are called multiples of others as those of the others.

        Two of them may be called by one atom.
        """
        atoms = moved.atoms
        factors, divisors = self._factors[atoms], self._divisors[atoms]
        found: Coefficients | None = moved
        if (factors != 1.0).any():
            found = moved.times(factors)
        if found is not None and (divisors != 1.0).any():
            found = found.divided(divisors)
        return None if found is None else Coefficients(self._called[atoms], found.high, found.low)


def _as_ratio(scale: fmpq) -> tuple[float, float] | None:
    """A rational that is a float, or one divided by a float."""
    if scale is ONE:
        return 1.0, 1.0
    factor = as_float(scale)
    if factor is not None:
        return factor, 1.0
    divisor = as_float(ONE / scale)
    return None if divisor is None else (1.0, divisor)


def renamed(form: Form, names: Mapping[int, Form]) -> Form:
    """The form with some atoms replaced by forms."""
    body = form.body
    if _is_unnamed(body, names):
        return form
    charge(VISIT, body.count)
    inner = None
    if isinstance(names, Names) and are_many(body.count):
        inner = _renamed_in_arrays(body, names)
    if inner is None:
        kept = {atom: c for atom, c in body.terms.items() if atom not in names}
        parts = [(c, names[atom]) for atom, c in body.terms.items() if atom in names]
        inner = total([(ONE, Form(kept)), *parts])
    inner = inner.scaled(form.scale)
    return Form.of(inner.body, inner.scale, inner.constant + form.constant)


def _is_unnamed(body: Body, names: Mapping[int, Form]) -> bool:
    if are_many(body.count) and isinstance(names, Names):
        return bool((names.called(body.array) == _UNNAMED).all())
    return names.keys().isdisjoint(body.keys)


def _renamed_in_arrays(body: Body, names: Names) -> Form | None:
    arrays, scale = body.arrays, ONE
    if arrays is None:
        few, scale, base = body.inside
        arrays = base.arrays
        if few or arrays is None:
            return None
    called = names.called(arrays.atoms)
    kept, moved = arrays.only(called == _UNNAMED), arrays.only(called != _UNNAMED)
    first = from_arrays(kept)
    cost = cost_of_bits(1 + scale.height_bits() + first.body.bits)
    if cost != cost_of(ONE):
        return None  # long numbers are charged for by their digits, once they are multiplied
    if not (called == _SUM).any():
        whole = _called(kept, names.rescaled(moved))
        if whole is not None:
            charge(SUM + cost_of(ZERO) + (cost * len(kept) if len(kept) > 1 else 0))
            return _times(scale, whole)
    parts = [(moved.at(i) * scale, names[a]) for i, a in enumerate(moved.atoms.tolist())]
    inner = total([(scale, first), *parts])
    if inner.body is first.body and first.body.count > 1 and scale is not ONE:
        return Form.of(Body.beside({}, scale, inner.body), ONE, inner.constant)
    return inner


def _called(kept: Coefficients, moved: Coefficients | None) -> Coefficients | None:
    """What keeps its name, and what has a new one; as in `total` sums come last."""
    if moved is None:
        return None
    whole = kept.joined(moved) if len(kept) == 1 else moved.joined(kept)
    found = summed(whole.atoms, whole.double)
    return None if found is None else found.nonzero()


def _times(scale: fmpq, whole: Coefficients) -> Form:
    """A multiple of coefficients, as terms."""
    if scale is ONE:
        return from_arrays(whole)
    if not are_many(len(whole)):
        return Form(scaled_terms(whole.terms(), scale))
    return Form.of(Body.beside({}, scale, Body.of(whole)), ONE)
