"""Forms: exact affine arithmetic, whatever shape they are kept in."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given
from hypothesis import strategies as st

from hardmax.checker import Verdict, certify
from hardmax.checker._budget import Clock, Spent
from hardmax.checker.forms import Graph, TargetForms
from hardmax.checker.forms._bodies import ONE, ZERO, rational
from hardmax.checker.forms._coefficients import nearest
from hardmax.checker.forms._forms import (
    NOTHING,
    Form,
    Shared,
    constant,
    direction_of,
    total,
)
from hardmax.checker.forms._names import renamed
from hardmax.testing import zoo

fractions = st.builds(
    fmpq, st.integers(-9, 9), st.integers(1, 9)
)  # few, so that sums cancel and forms meet
nonzero = fractions.filter(lambda c: c != ZERO)
plain = st.builds(Form, st.dictionaries(st.integers(0, 5), nonzero, max_size=4), fractions)
forms = st.builds(lambda form, c: form.scaled(c), plain, nonzero)
POINT = [fmpq(3, 7), fmpq(-2), fmpq(5, 3), fmpq(11), fmpq(-1, 13), fmpq(17, 19)]


def at(form: Form) -> fmpq:
    return sum((c * POINT[a] for a, c in form.terms.items()), form.constant)


@given(st.lists(st.tuples(fractions, forms), max_size=4))
def test_sums_are_exact_and_without_zeros(parts):
    """Sums by shared bodies and term by term agree; 0 has no term left."""
    found = total([*parts, *parts])  # bodies meet themselves
    assert at(found) == 2 * sum((c * at(form) for c, form in parts), ZERO)
    assert ZERO not in found.terms.values()
    back = total([*parts, *((-c, form) for c, form in parts)])
    assert back.is_zero
    assert back == NOTHING


@given(forms, st.dictionaries(st.integers(0, 5), forms, max_size=3))
def test_renaming_replaces_atoms_by_what_they_stand_for(form, names):
    values = [at(names[a]) if a in names else POINT[a] for a in range(6)]
    expected = sum((c * values[a] for a, c in form.terms.items()), form.constant)
    assert at(renamed(form, names)) == expected


@given(forms, forms)
def test_forms_are_equal_if_their_terms_are(a, b):
    same = dict(a.terms) == dict(b.terms) and a.constant == b.constant
    assert (a == b) is same
    assert not same or hash(a) == hash(b)
    copy = Form(dict(a.terms), a.constant)
    assert copy == a
    assert hash(copy) == hash(a)


@given(forms.filter(lambda form: not form.is_constant))
def test_a_direction_and_its_scale_give_the_form_back(form):
    direction, lead = direction_of(form)
    assert direction.scaled(lead) + constant(form.constant) == form
    assert direction.lead == ONE
    assert direction.constant == ZERO


@given(forms)
def test_floats_are_near_the_coefficients(form):
    atoms, floats = form.floats
    for atom, value in zip(atoms.tolist(), floats.tolist(), strict=True):
        exact = form.terms[atom]
        assert abs(rational(value) - exact) <= abs(exact) * fmpq(1, 2**51)


def test_extreme_scales_do_not_spoil_the_floats():
    """1e-200 * 1e-200 vanishes, and 1e200 brings it back: only the exact product knows."""
    tiny = rational(1e-200)
    form = Form({0: tiny, 1: tiny}).scaled(tiny).scaled(ONE / tiny)
    assert form.floats[1].tolist() == [1e-200, 1e-200]
    assert form.scaled(ONE / tiny).floats[1].tolist() == [1.0, 1.0]


def test_equal_bodies_become_one():
    shared = Shared()
    first = shared.form(Form({0: ONE, 1: fmpq(1, 3)}))
    second = shared.form(Form({0: ONE, 1: fmpq(1, 3)}, ONE)).scaled(fmpq(2))
    assert first.body is second.body
    assert (second - first.scaled(fmpq(2))) == constant(fmpq(2))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_rationals_and_back(value):
    exact = rational(value)
    assert Fraction(int(exact.p), int(exact.q)) == Fraction(value)
    assert nearest(exact) == value
    above = rational(np.nextafter(1.0, 2.0))
    assert nearest((ONE + above) / fmpq(2)) in (1.0, float(np.nextafter(1.0, 2.0)))


def test_forms_that_grow_look_at_the_clock():
    """A budget that ends while a model is written out ends the writing."""
    looks = itertools.count()

    def look():
        if next(looks) == 50:
            raise Spent

    construction = zoo()["ReLU 8-32-32-1 (attention, 0.001)"].construction
    graph = Graph(look)
    inputs = graph.inputs(construction.claim.domain)
    with pytest.raises(Spent):
        TargetForms(construction.claim.target.steps(), graph, inputs).outputs()
    assert len(graph.atoms) <= 51


def test_a_budget_spent_on_forms_is_said_and_decides_nothing(monkeypatch):
    """The clock is spent at the second look: nothing is proved, and the advice says why."""
    construction = zoo()["ReLU 8-32-32-1 (attention, 0.001)"].construction
    monkeypatch.setattr(Clock, "is_spent", property(lambda clock: True))
    found = certify(construction)
    assert found.verdict is Verdict.UNDECIDED
    assert "budget was spent" in found.advice or "too large" in found.advice
