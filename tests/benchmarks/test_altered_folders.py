"""A short run of the campaign's part `folders`, and cases that were once proved and are broken."""

from pathlib import Path

import pytest
from benchmarks.altered_folders import (
    ALTERATIONS,
    HOMES,
    altered_part,
    broken,
    job,
    specimen,
    try_one,
)

import hardmax as hm

COUNT = 3 * len(ALTERATIONS)  # each alteration in each home


def test_altered_folders_are_not_proved_for_broken_claims():
    found = altered_part(0, COUNT, 7)
    assert found["false"] == 0, found["failures"]
    assert found["cases"] == COUNT
    assert found["refused"] > 0
    assert found["refuted"] > 0
    assert found["proved"] > 0


def test_every_home_and_alteration_has_its_turn():
    assert {job(number, 7)[1:] for number in range(COUNT)} == {
        (home, kind) for home in HOMES for kind in ALTERATIONS
    }


def test_positions_that_are_added_to_real_inputs():
    """Once proved: GPT-2 adds its table of positions to `inputs_embeds`, too."""
    assert try_one(460, 0)[0] == "refused"


def with_claim(folder: Path, **changes: object) -> Path:
    """Another claim beside the same weights."""
    place = folder / "hardmax.safetensors"
    model = hm.load(place)
    fields = {"target": model.claim.target, "ledger": model.claim.ledger, **changes}
    claim = type(model.claim)(domain=model.claim.domain, **fields)
    hm.save(type(model)(model.transformer, claim, None, model.route), place)
    return folder


def laid_out(source: str, home: str, folder: Path) -> Path:
    for name, data in specimen(source, home, "float32").items():
        (folder / name).write_bytes(data)
    return folder


@pytest.mark.parametrize("home", HOMES)
def test_a_broken_folder_is_seen(home: str, tmp_path: Path):
    """The truth is found by running: answers from one place back are not those from two."""
    folder = laid_out("shift", home, tmp_path)
    assert broken(folder) is None
    further = hm.programs.program(lambda s: s.tokens.at(s.index - 2))
    other = hm.compile(further, alphabet="abc", length=3, float="float32")
    assert "words are wrong" in str(broken(with_claim(folder, target=other.claim.target)))


def test_a_function_that_is_off_is_seen(tmp_path: Path):
    folder = laid_out("product", "t5", tmp_path)
    assert broken(folder) is None
    share = hm.load(folder / "hardmax.safetensors").claim.ledger[0]
    tiny = type(share)(share.cause, share.where, 1e-9)
    assert "errs by" in str(broken(with_claim(folder, ledger=[tiny])))
