"""Certificates: values that check themselves, that say what they are about, and that are kept."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.checker import Standing
from hardmax.core import EncodedTarget, Share, Words
from hardmax.interop import read_safetensors, write_safetensors

SQUARE = {"x": (-1, 1), "y": (-1, 1)}
FINDINGS = {
    "verdict": hm.Verdict.PROVED,
    "certified": 0.00096,
    "measured": 0.00095,
    "worst": (1.0, -1.0),
    "method": "boxes",
    "boxes": 1234,
    "formats": {"float64": 0.00096, "float32": 0.00097, "float16": math.inf},
    "assumptions": ("exp is within 4 ULP",),
    "seconds": 0.5,
}


@pytest.fixture(scope="module")
def product() -> hm.Construction:
    return hm.compile("x*y", on=SQUARE, error=1e-3)


def certificate(construction: hm.Construction, **changes: Any) -> hm.Certificate:
    return hm.Certificate.about(construction, **(FINDINGS | changes))


def refuted(construction: hm.Construction) -> hm.Certificate:
    return certificate(
        construction, verdict=hm.Verdict.REFUTED, measured=0.5, certified=math.inf, worst=(1.0, 1.0)
    )


# ---------------------------------------------------------------- the value


def test_a_proof_needs_its_inequalities(product: hm.Construction) -> None:
    claimed = product.claim.error
    tight = certificate(product, measured=claimed, certified=claimed)  # equalities are allowed
    assert tight.verdict is hm.Verdict.PROVED
    above = float(np.nextafter(claimed, 1.0))
    for broken in (
        {"certified": above},
        {"measured": claimed, "certified": float(np.nextafter(claimed, 0.0))},
        {"measured": above, "certified": claimed},
        {"certified": math.inf},
    ):
        with pytest.raises(hm.RequestError, match="needs measured <= certified <= claimed"):
            certificate(product, **broken)
    for name in ("certified", "measured", "seconds"):
        with pytest.raises(hm.RequestError, match="nan"):
            certificate(product, **{name: math.nan})


def test_a_refutation_needs_its_counterexample(product: hm.Construction) -> None:
    found = refuted(product)
    assert found.counterexample == (1.0, 1.0)
    assert certificate(product).counterexample is None
    for broken in ({"worst": None}, {"measured": product.claim.error}):
        with pytest.raises(hm.RequestError, match="needs a point where the error exceeds"):
            replace(found, **broken)


def test_formats_hold_only_if_the_claim_is_proved(product: hm.Construction) -> None:
    found = certificate(product)
    assert found.holds_in == ("float64", "float32")
    assert replace(found, formats={"float16": found.claimed}).holds_in == ("float16",)
    assert replace(found, formats={"float16": math.nextafter(found.claimed, 1)}).holds_in == ()
    assert replace(found, verdict=hm.Verdict.UNDECIDED).holds_in == ()


def test_it_prints_its_inequalities(product: hm.Construction) -> None:
    claimed = f"{product.claim.error:.6g}"
    line = f"0.00095 measured <= 0.00096 certified <= {claimed} claimed: proved"
    assert str(certificate(product)) == line
    undecided = certificate(product, verdict=hm.Verdict.UNDECIDED, certified=math.inf)
    line = f"0.00095 measured <= {claimed} claimed < inf certified: undecided"
    assert str(undecided) == line
    line = f"{claimed} claimed < 0.5 measured <= inf certified: refuted at (1, 1)"
    assert str(refuted(product)) == line


def test_a_claim_exceeded_by_little_is_shown_to_be(product: hm.Construction) -> None:
    little = math.nextafter(product.claim.error, 1)
    text = str(replace(refuted(product), measured=little, certified=little))
    less, more = text.split(" claimed < ")
    assert float(less) < float(more.split()[0])


def test_round_trip(product: hm.Construction) -> None:
    for found in (certificate(product), refuted(product), certificate(product, worst=("a", "b"))):
        text = json.dumps(found.as_dict(), allow_nan=False)
        again = hm.Certificate.from_dict(json.loads(text))
        assert again == found
        assert again.as_dict() == found.as_dict()


def test_numpy_numbers_are_plain_data(product: hm.Construction) -> None:
    found = certificate(product, worst=(np.float64(1.0), np.int64(3)), boxes=np.int64(7))
    assert json.loads(json.dumps(found.as_dict()))["worst"] == [1.0, 3]
    assert hm.Certificate.from_dict(found.as_dict()).boxes == 7


def _edits(record: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The record with one field gone, or replaced by every kind of nonsense."""
    for f in fields(hm.Certificate):
        yield {name: value for name, value in record.items() if name != f.name}
        for nonsense in (None, True, -1, "x", "nan", [], [1], {}, {"a": "b"}, 10**400):
            yield record | {f.name: nonsense}


def test_whatever_cannot_be_a_certificate_is_refused(product: hm.Construction) -> None:
    record = certificate(product).as_dict()
    refused = 0
    for edited in _edits(record):
        try:
            again = hm.Certificate.from_dict(edited)
        except hm.FileError as reason:
            assert str(reason).startswith("has a certificate that cannot be")  # noqa: PT017
            refused += 1
        else:  # nonsense of the right kind: it must come back as it is
            wanted = {"work": 0, **edited}  # which older files do not say
            empty = {"statements": []}  # which is left out
            assert again.as_dict() == {k: v for k, v in wanted.items() if empty.get(k) != v}
            assert not any(value is True for value in edited.values())  # True == 1.0
    assert refused > 100
    for false in ({"certified": 1.0}, {"measured": 1.0}, {"verdict": "REFUTED"}):
        with pytest.raises(hm.FileError, match="cannot be true"):
            hm.Certificate.from_dict(record | false)
    with pytest.raises(hm.FileError, match="cannot be read"):
        hm.Certificate.from_dict(record | {"verdict": "CERTAINLY"})


# ---------------------------------------------------------------- what it is about


def altered_models(model: hm.Construction) -> dict[str, hm.Construction]:
    """The same model but for one part; its name is what a certificate has to say."""
    claim, transformer = model.claim, model.transformer
    readout = replace(transformer.readout, bias=transformer.readout.bias + 1e-9)
    ledger = claim.ledger
    return {
        "weights": replace(model, transformer=replace(transformer, readout=readout)),
        "target": replace(
            model, claim=hm.Claim(hm.Function.parse("x*y + 1e-9"), claim.domain, ledger)
        ),
        "domain": replace(
            model, claim=hm.Claim(claim.target, hm.Box([-1, -1], [1, 1 + 2**-52]), ledger)
        ),
        "claim": replace(model, claim=hm.Claim(claim.target, claim.domain, ledger[:-1])),
    }


@pytest.mark.parametrize("part", ["weights", "target", "domain", "claim"])
def test_every_alteration_is_named(product: hm.Construction, part: str) -> None:
    found = certificate(product)
    assert found.altered(product) == ()
    assert found.altered(altered_models(product)[part]) == (part,)


def test_a_network_is_known_by_its_tensors() -> None:
    """The text of a network says its shape only; the digest covers the numbers."""
    weights = [np.ones((3, 2)), np.ones((1, 3))]
    network = hm.ReluNetwork(weights, [np.zeros(3), np.zeros(1)])
    other = hm.ReluNetwork(weights, [np.zeros(3), np.full(1, 1e-9)])
    model = hm.compile(network, on="[-1,1]^2", error=1e-3)
    claim = hm.Claim(other, model.claim.domain, model.claim.ledger)
    found = certificate(model)
    assert found.target == "relu network 2-3-1"
    assert found.altered(replace(model, claim=claim)) == ("target",)


def test_several_alterations_are_all_named(product: hm.Construction) -> None:
    other = hm.compile("x*y", on=[(-1, 1), (0, 1)], error=1e-2)
    assert certificate(product).altered(other) == ("weights", "domain", "claim")


# ---------------------------------------------------------------- files


def test_a_certificate_goes_with_its_model(product: hm.Construction, tmp_path: Path) -> None:
    path = tmp_path / "product.safetensors"
    hm.save(product, path)
    assert hm.load_certificate(path) is None
    bare = path.read_bytes()
    found = certificate(product)
    hm.save(product, path, certificate=found)
    assert hm.load_certificate(path) == found
    model, stored = hm.load_certified(path)
    assert stored == found
    assert stored.altered(model) == ()
    hm.save(hm.load(path), path)
    assert path.read_bytes() == bare


@pytest.mark.parametrize("part", ["weights", "target", "domain", "claim"])
def test_only_its_own_certificate_is_stored(
    product: hm.Construction, tmp_path: Path, part: str
) -> None:
    path = tmp_path / "product.safetensors"
    with pytest.raises(hm.RequestError, match=f"is about another {part}"):
        hm.save(altered_models(product)[part], path, certificate(product))
    assert not path.exists()


def test_a_failed_write_leaves_the_old_file(
    product: hm.Construction, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "product.safetensors"
    hm.save(product, path)
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("No space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(hm.FileError, match="could not be written"):
        hm.save(product, path, certificate(product))
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


@pytest.mark.parametrize("nonsense", [{}, {"verdict": "PROVED"}, {"certified": "small"}])
def test_an_unreadable_certificate_is_refused_but_the_model_loads(
    product: hm.Construction, tmp_path: Path, nonsense: dict[str, Any]
) -> None:
    path = tmp_path / "product.safetensors"
    write_safetensors(product, path, certificate=nonsense)
    for read in (hm.load_certificate, hm.load_certified):
        with pytest.raises(hm.FileError, match=r"product\.safetensors has a certificate.*drops it"):
            read(path)
    assert hm.load(path).claim.error == product.claim.error
    hm.save(hm.load(path), path)  # as the refusal says
    assert hm.load_certificate(path) is None


def test_a_python_function_cannot_be_verified_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "opaque.safetensors"
    function = hm.CallableFunction(lambda x: x / 2, ["x"], lipschitz=0.5)
    model = hm.compile(function, on={"x": (0, 1)}, error=0.1)
    hm.save(model, path, certificate(model, certified=0.02, measured=0.0, worst=None))
    assert read_safetensors(path).encoded_target is None
    assert hm.load_certificate(path) is not None
    for read in (hm.load, hm.load_certified):
        with pytest.raises(hm.FileError, match="Python function, which no file can hold"):
            read(path)


class Copy:
    """A target on words that a file can name."""

    outputs, parameters, each_symbol = 1, None, True

    def __call__(self, word: Any, /) -> list[list[int]]:
        return [[int(symbol)] for symbol in word]

    def steps(self) -> None:
        return None

    def encode(self) -> EncodedTarget:
        return EncodedTarget("copy", "copy", {})


@pytest.mark.parametrize("domain", [Words("01", 5), Words((0, "a", -3), 7, 7), Words("x", 2, 0)])
def test_a_claim_about_words_is_stored(tmp_path: Path, domain: Words) -> None:
    path = tmp_path / "copy.safetensors"
    size, longest = len(domain.alphabet), max(domain.longest, 1)
    source = hm.SequenceInput(domain.alphabet, np.ones((size, 1)), np.zeros((longest, 1)))
    transformer = hm.Transformer(source, [], hm.ReadOut([[1.0]], [0.0], None))
    claim = hm.Claim(Copy(), domain, [Share("margin", "all", 1.0)])
    model = hm.Construction(transformer, claim, None, "by hand")
    found = certificate(model, worst=tuple(domain.alphabet))
    hm.save(model, path, found)
    stored = read_safetensors(path)
    assert stored.domain == domain
    assert hm.load_certificate(path) == found
    assert found.altered(stored.join(Copy())) == ()
    longer = hm.Claim(Copy(), Words(domain.alphabet, longest, longest), claim.ledger)
    expected = ("domain",) if longer.domain != domain else ()
    assert found.altered(replace(model, claim=longer)) == expected
    write_safetensors(stored.join(Copy()), tmp_path / "again", certificate=found.as_dict())
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


# ---------------------------------------------------------------- budgets


@pytest.mark.parametrize(
    ("given", "budget"),
    [
        (None, hm.Budget(work=6e7)),
        (30, hm.Budget(30.0)),
        (0.5, hm.Budget(0.5)),
        (np.float32(2), hm.Budget(2.0)),
        ("30", hm.Budget(30.0)),
        ("30s", hm.Budget(30.0)),
        (" 1.5 min ", hm.Budget(90.0)),
        ("2 hours", hm.Budget(7200.0)),
        ("1e6 boxes", hm.Budget(math.inf, 1e6)),
        ("1box", hm.Budget(math.inf, 1)),
        ("1e8 work", hm.Budget(work=1e8)),
        (" 2.5e6work", hm.Budget(math.inf, math.inf, 2.5e6)),
        (hm.Budget(1.0, 2), hm.Budget(1.0, 2)),
    ],
)
def test_a_budget_as_people_write_it(given: object, budget: hm.Budget) -> None:
    assert hm.Budget.of(given) == budget


@pytest.mark.parametrize(
    "given", ["0", "0s", "0 boxes", "0 work", "-1s", 0, -5.0, math.nan, "0.5 boxes"]
)
def test_a_budget_of_nothing_is_refused(given: object) -> None:
    with pytest.raises(hm.RequestError, match="leaves no time to prove anything"):
        hm.Budget.of(given)


@pytest.mark.parametrize("given", ["soon", "", "3 days", "1.2.3s", "s", True, [30], "1e6 boxes 3"])
def test_a_budget_that_cannot_be_read_is_refused(given: object) -> None:
    with pytest.raises(hm.RequestError, match="could not be read"):
        hm.Budget.of(given)


# ---------------------------------------------------------------- the workbench


def test_certify_passes_everything_on_and_signs_with_its_version(
    product: hm.Construction, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}

    def checker(construction: hm.Construction, **options: Any) -> hm.Certificate:
        asked.update(options)
        options["progress"](Standing(1.0, 0.5, 0.7, 3))
        return certificate(construction)

    monkeypatch.setattr("hardmax.checker.certify", checker)
    told: list[Standing] = []
    found = hm.certify(product, tolerance=0.01, budget="30s", executor="pool", progress=told.append)
    assert found == replace(certificate(product), version=hm.__version__)
    assert {k: asked[k] for k in ("tolerance", "budget", "executor")} == {
        "tolerance": 0.01,
        "budget": "30s",
        "executor": "pool",
    }
    assert told == [Standing(1.0, 0.5, 0.7, 3)]
