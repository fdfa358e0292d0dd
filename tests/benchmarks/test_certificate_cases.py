"""Altered certificates and altered models: none stands for other bytes."""

from __future__ import annotations

import pytest
from benchmarks.certificate_cases import SPECIMENS, certificates_part, essence, proved

from hardmax.checker import Certificate
from hardmax.testing import mutate, zoo


def test_no_certificate_stands_for_other_bytes():
    found = certificates_part(0, 300, 0)
    assert (found["cases"], found["false"], found["tracebacks"]) == (300, 0, 0), found["failures"]
    assert min(found["refused"], found["named"], found["untouched"]) >= 20


def test_a_certificate_that_is_about_everything_is_caught(monkeypatch):
    monkeypatch.setattr(Certificate, "altered", lambda self, construction: ())
    found = certificates_part(0, 40, 0)
    assert found["false"] == len(found["failures"]) >= 10


def test_a_record_that_ends_in_a_traceback_is_caught(monkeypatch):
    def fall(record):
        raise KeyError("verdict")

    monkeypatch.setattr(Certificate, "from_dict", fall)
    found = certificates_part(0, 10, 0)
    assert found["tracebacks"] == 5
    assert "KeyError" in found["failures"][0][1]


@pytest.mark.parametrize("name", SPECIMENS)
def test_the_essence_is_that_of_the_bytes(name):
    construction = zoo()[name].construction
    assert proved(name).altered(construction) == ()
    assert essence(construction) == essence(construction)
    for kind in ("weight nudged", "domain widened", "target altered"):
        mutant = mutate(construction, kind, 1)
        assert essence(mutant.construction) != essence(construction)
