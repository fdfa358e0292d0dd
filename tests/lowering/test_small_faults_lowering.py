"""Faults of logic that no other test sees, found by `make mutants`: registers of a sketch."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from hardmax.lowering.sketch import WordRegister


def test_a_unit_that_may_be_on_at_the_start_writes_what_it_reads_at_most() -> None:
    register = WordRegister("r", np.zeros(2), np.zeros(2))
    wide = SimpleNamespace(terms=[SimpleNamespace(is_wild=False)], widest=3.0)
    register.open_to(wide, -2.0)
    register.open_to(wide, 0.5)
    assert (register.beyond, register.is_wild) == (7.5, False)
    register.open_to(SimpleNamespace(terms=[SimpleNamespace(is_wild=True)], widest=1.0), 1.0)
    assert register.is_wild
