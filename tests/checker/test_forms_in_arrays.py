"""Forms in arrays and in rationals: the same terms, floats, orders and charges."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from flint import fmpq
from hypothesis import given, settings
from hypothesis import strategies as st

from hardmax import compile as compiled
from hardmax.checker import certify
from hardmax.checker._budget import ticks
from hardmax.checker.forms import NOTHING, ONE, Form, Names, constant, rational, renamed, total
from hardmax.checker.forms import _coefficients as coefficients
from hardmax.checker.forms._bodies import Body
from hardmax.checker.forms._coefficients import Coefficients, Summing
from hardmax.checker.forms._columns import Columns, sparse_rows
from hardmax.testing import random_relu

NEVER = 1 << 60
AWKWARD = [5e-324, 2.0**-1060, -(2.0**1000), 2.0**-500, 1e300, 1.0, -1.0, 3.0, 0.1, 2.0**-52]
dyadic = st.floats(-4.0, 4.0).filter(bool) | st.sampled_from(AWKWARD)
ratios = st.builds(fmpq, st.integers(-9, 9).filter(bool), st.integers(1, 9))
numbers = st.builds(rational, dyadic) | ratios
atoms = st.integers(0, 7)


@st.composite
def forms(draw) -> Form:
    found = Form(draw(st.dictionaries(atoms, numbers, max_size=6)), draw(numbers))
    if draw(st.booleans()):
        found = total([(draw(numbers), found), (ONE, Form({draw(atoms): ONE}))])
    return found.scaled(draw(numbers))


def spelled(form: Form):
    """All that anybody reads of a form; coefficients in their order."""
    places, floats = form.floats
    return (
        list(form.terms.items()),
        form.constant,
        (form.scale, form.body.bits, form.lead, hash(form)),
        (places.tolist(), floats.tolist()),
        sorted(form.atoms),
    )


def in_both_ways(monkeypatch, make):
    """What comes of it in arrays and in rationals, and what it is charged."""
    found = []
    for many in (2, NEVER):
        monkeypatch.setattr(coefficients, "MANY", many)
        before = ticks()
        result = make()
        found.append((result, ticks() - before))
    return found


def agree(monkeypatch, make) -> None:
    arrays, rationals = in_both_ways(monkeypatch, make)
    assert arrays == rationals


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_sums_scales_and_parts_agree(data):
    given_forms = data.draw(st.lists(st.tuples(numbers, forms()), min_size=1, max_size=4))
    given_terms = [(c, list(f.terms.items()), f.constant) for c, f in given_forms]
    chosen, factor = data.draw(st.sets(atoms)), data.draw(numbers)

    def make():
        parts = [(c, Form(dict(terms), k)) for c, terms, k in given_terms]
        whole = total([*parts, *parts])
        back = total([(ONE, whole), *((-c - c, form) for c, form in parts)])
        assert back.is_zero
        assert whole.scaled(factor) == total([(factor, whole)])
        pieces = whole.only(chosen, ONE), whole.without(chosen), whole.scaled(factor)
        heaviest = () if whole.is_constant else (whole.heaviest, whole.order < NOTHING.order)
        return [spelled(form) for form in (whole, *pieces)], heaviest

    with pytest.MonkeyPatch.context() as patch:
        agree(patch, make)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_names_agree(data):
    form = data.draw(forms())
    given_names = data.draw(st.dictionaries(atoms, forms(), max_size=4))
    few = data.draw(st.dictionaries(atoms, st.tuples(st.integers(8, 11), numbers), max_size=5))

    def make():
        names = Names()
        for atom, (other, scale) in few.items():
            names[atom] = Form({other: scale})
        for atom, name in given_names.items():
            names[atom] = name
        again = renamed(form.scaled(ONE), names)
        assert again == renamed(form, dict(names))
        return spelled(again)

    found = []
    for many in (2, NEVER):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(coefficients, "MANY", many)
            found.append(make())
    assert found[0] == found[1]


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_rows_of_a_matrix_agree(data):
    columns = data.draw(st.lists(forms(), min_size=3, max_size=5))
    matrix = np.array(
        data.draw(
            st.lists(
                st.lists(dyadic, min_size=len(columns), max_size=len(columns)),
                min_size=3,
                max_size=3,
            )
        )
    )
    before, offset = data.draw(forms()), data.draw(numbers)
    given_columns = [(list(f.terms.items()), f.constant) for f in columns]
    first_terms = dict(before.terms)

    def make():
        made = [Form(dict(terms), k) for terms, k in given_columns]
        rows, found = sparse_rows(matrix), Columns(made.__getitem__)
        first = Form(first_terms, before.constant)
        return [
            *(spelled(found.total(row, offset)) for row in rows),
            *(spelled(found.total(row, offset, first)) for row in rows),
        ]

    with pytest.MonkeyPatch.context() as patch:
        agree(patch, make)


def test_what_two_floats_cannot_hold_is_left_to_rationals(monkeypatch):
    """A third, three floats far apart, and numbers whose products would underflow."""
    monkeypatch.setattr(coefficients, "MANY", 2)
    far = rational(2.0**100) + ONE + rational(2.0**-100)
    for held, number in [
        (True, rational(0.1) * rational(0.3)),
        (True, rational(2.0**-500)),
        (False, fmpq(1, 3)),
        (False, far),
        (False, rational(5e-324)),
        (False, rational(2.0**1000)),
    ]:
        found = Coefficients.of({0: ONE, 5: number})
        assert (found is not None) is held
        form = Form({0: ONE, 5: number})
        assert (form + form).terms == {0: fmpq(2), 5: 2 * number}
    tiny = Coefficients.of({0: rational(2.0**-450), 1: ONE})
    assert tiny is not None
    assert tiny.scaled(rational(2.0**-450)) is None
    assert tiny.scaled(-ONE).at(0) == -rational(2.0**-450)


def test_quotients_are_taken_back_only_where_they_are_exact():
    product = Coefficients.of({0: rational(0.1) * rational(0.3), 1: rational(0.7)})
    assert product is not None
    found = product.divided(np.array([0.3, 1.0]))
    assert found is not None
    assert found.terms() == {0: rational(0.1), 1: rational(0.7)}
    assert product.divided(np.array([0.9, 1.0])) is None


def test_terms_of_one_atom_add_up_in_rounds_as_far_as_there_are_few():
    many = np.array([3, 1, 3, 2, 3, 1])
    found = Summing.of(many)
    assert found is not None
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0, 32.0])
    summed = found.sum((values, np.zeros(6)))
    assert summed is not None
    assert summed.terms() == {3: fmpq(21), 1: fmpq(34), 2: fmpq(8)}
    assert Summing.of(np.zeros(9, dtype=np.int64)) is None


def test_bodies_beside_terms_cancel_without_being_written_out(monkeypatch):
    """u/3 - (7 a + u/3) is -7 a, in a charge that does not depend on the shape."""

    def make():
        long = Form.of(Body({i: rational(0.1 * (i + 1)) for i in range(8)}), fmpq(1, 3))
        beside = total([(fmpq(7), Form({9: ONE})), (ONE, long)])
        return spelled(long - beside)

    arrays, rationals = in_both_ways(monkeypatch, make)
    assert arrays == rationals
    assert arrays[0][0] == [(9, fmpq(-7))]


def test_floats_of_a_multiple_by_a_third_are_those_of_the_rationals(monkeypatch):
    rng = np.random.default_rng(0)
    plain = {i: rational(c) for i, c in enumerate(rng.normal(size=40))}

    def make():
        form = Form(dict(plain)).scaled(fmpq(1, 3)) + Form({99: fmpq(5, 7)})
        return spelled(form), [float(Fraction(int(c.p), int(c.q))) for c in form.terms.values()]

    arrays, rationals = in_both_ways(monkeypatch, make)
    assert arrays == rationals
    assert arrays[0][0][3][1] == arrays[0][1]
    assert constant(ONE) == Form({}, ONE)


@pytest.mark.parametrize("route", ["attention", "attention-only", "feedforward"])
def test_certificates_agree(route, monkeypatch):
    """Verdict, numbers, boxes and work: nothing depends on how coefficients are kept."""
    network = random_relu(0, 12, 8, 8, 2)
    construction = compiled(network, on="[-1,1]^12", error=1e-3, route=route)

    def make():
        found = certify(construction)
        numbers = found.certified, found.measured, tuple(found.formats.items())
        return found.verdict, numbers, found.boxes, found.work, found.method, found.advice

    arrays, rationals = in_both_ways(monkeypatch, make)
    assert arrays == rationals
    assert arrays[0][-2] == "steps"
