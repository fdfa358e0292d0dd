"""A form that never leads: below a convex combination of others, everywhere on the domain.

If sum_i l_i = 1, l_i >= 0 and f <= sum_i l_i f_i + e, then f <= max_i f_i + e. The weights come
from a linear program in floats and are made exact; what counts is the range of the difference
with them, so that a poor choice only makes e larger.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from flint import fmpq

from hardmax.checker._budget import PIVOT, PROGRAM, charge
from hardmax.checker.forms._bodies import ONE, ZERO, rational
from hardmax.checker.forms._coefficients import nearest
from hardmax.checker.forms._forms import Form, total

_MOST_VARIABLES = 256
Range = Callable[[Form], tuple[float, float]]


def excess(form: Form, others: Sequence[Form], range_of: Range) -> float:
    """By how much a form may exceed the largest of the others at most; 0 if it never leads."""
    best = min((range_of(form - other)[1] for other in others), default=math.inf)
    if best <= 0.0 or not others:
        return max(best, 0.0)
    weights = _weights(form, others, range_of)
    if weights is not None:
        mixed = total([(ONE, form), *((-w, f) for w, f in zip(weights, others, strict=True))])
        best = min(best, range_of(mixed)[1])
    return max(best, 0.0)


def _weights(form: Form, others: Sequence[Form], range_of: Range) -> list[fmpq] | None:
    """Convex weights that make the largest value of form - mixture small."""
    from scipy.optimize import linprog

    atoms = sorted({a for f in (form, *others) for a in f.atoms})
    if not atoms or len(atoms) > _MOST_VARIABLES:
        return None
    ends = np.array([range_of(Form({a: ONE})) for a in atoms])
    if not np.isfinite(ends).all():
        return None
    middle, reach = ends.mean(axis=1), 0.5 * (ends[:, 1] - ends[:, 0])
    own, *rest = (_row(f, atoms) for f in (form, *others))
    table, at_middle = np.stack([r[0] for r in rest]), [r[1] + r[0] @ middle for r in rest]
    n, k = len(others), len(atoms)
    # minimise own(middle) - sum l_i f_i(middle) + sum_j reach_j s_j with s_j >= |slope_j|
    cost = np.concatenate([-np.array(at_middle), reach])
    eye = np.eye(k)
    sides = np.vstack([np.hstack([-table.T, -eye]), np.hstack([table.T, -eye])])
    limits = np.concatenate([-own[0], own[0]])
    found = linprog(
        cost,
        sides,
        limits,
        A_eq=np.concatenate([np.ones(n), np.zeros(k)])[None],
        b_eq=[1.0],
        bounds=[(0, None)] * (n + k),
    )
    charge(PROGRAM + PIVOT * sides.size)
    if found.x is None:
        return None
    weights = [rational(max(w, 0.0)) for w in found.x[:n].tolist()]
    whole = sum(weights, ZERO)
    return None if whole == ZERO else [w / whole for w in weights]


def _row(form: Form, atoms: list[int]) -> tuple[np.ndarray, float]:
    terms = form.terms
    return np.array([nearest(terms.get(a, ZERO)) for a in atoms]), nearest(form.constant)
