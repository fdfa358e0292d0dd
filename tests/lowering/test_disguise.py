"""Disguise: proved again, known along its projections, and nothing silently wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from benchmarks._legible_mutants import PROGRAMS, WORDS, model_of
from benchmarks.disguise import (
    disguised,
    interventions_part,
    legible,
    models,
    mutants_part,
    probes,
)

import hardmax as hm
from hardmax import programs as p
from hardmax.core import fingerprint, to_text, weight_arrays
from hardmax.languages.programs import with_distractors

s = p.Sequence()
PROVED = hm.Verdict.PROVED


# ---- what is proved ------------------------------------------------------------------------------


def test_every_program_is_proved_in_disguise():
    found = models(1, range(2, 3))
    assert found["not proved"] == []
    assert found["level 2: proved"] == found["level 2: models"] == 20
    assert {"float64", "float32"} <= set(hm.certify(disguised("reverse", 1, 0)).holds_in)


def test_noise_as_much_as_is_borne():
    model = disguised("histogram", 3, 0)
    certificate = hm.certify(model)
    assert certificate.verdict is PROVED
    beyond = "no other edge beyond rows and columns of weights of length"
    assert any(beyond in one for one in certificate.statements)
    assert any("in the model without noise" in one for one in certificate.statements)
    zeros = [(w == 0.0).mean() for w in weight_arrays(model.transformer)]
    assert max(zeros) < 0.3  # and in the legible one most weights are
    with pytest.raises(hm.RequestError, match=r"Noise of 0.25 is more.* noise of .* is borne"):
        hm.disguise(legible("histogram"), noise=0.25)
    quiet = hm.disguise(legible("histogram"), noise=2.0**-24, seed=5)  # not rotated
    assert hm.certify(quiet).verdict is PROVED
    assert quiet.circuit.frame.matrix.tolist() == np.eye(7).tolist()


def test_interventions_through_the_projections():
    found = interventions_part(0, 120, 0, range(2, 3), 1)
    assert found["wrong"] == []
    assert found["undefined"] < 90


def test_what_is_wrong_is_not_proved():
    found = mutants_part(0, 12, 0, range(2, 3), 1)
    assert found["false"] == []
    assert found["frames"] == 4
    assert found["broken"] >= 5


def test_coordinates_fail_where_projections_do_not():
    found = probes(1, 2, ["sort", "ranked", "sort by frequency", "most frequent"])
    assert found["legible: best coordinate, r squared"] == 1.0
    assert found["disguised: best coordinate, r squared"] < 0.75
    assert found["disguised: projection is off by at most"] < 1e-9
    assert found["legible: right by best coordinates"] > 0.8
    assert found["disguised: right by best coordinates"] < 0.4
    assert found["disguised: right by projection"] == 1.0
    assert found["disguised: interchanges"] > 20


# ---- frames --------------------------------------------------------------------------------------


def test_a_turned_model_is_the_same_function():
    for word in (tuple("abc"), tuple("b"), ()):
        for name in ("sort", "histogram"):
            assert disguised(name, 1, 0)(word) == legible(name)(word)


def test_seeds_and_parts_of_disguise():
    model = model_of("sort")
    made = [fingerprint(hm.disguise(model, rotate=2, seed=k).transformer) for k in (0, 0, 1)]
    assert made[0] == made[1] != made[2]
    assert hm.disguise(model, level=0) is model
    again = hm.disguise(model, level=1, rotate=0)
    assert to_text(again.transformer) == to_text(model.transformer)
    assert hm.disguise(model).circuit.frame == hm.disguise(model, level=1).circuit.frame
    assert hm.disguise(model, distractors=2).circuit.frame is None


# ---- distractors ---------------------------------------------------------------------------------


def test_distractors_are_steps_that_no_answer_reads():
    model = hm.disguise(model_of("sort"), distractors=3, seed=4)
    circuit = model.circuit
    asides = [step for step in circuit.steps if step.startswith("aside")]
    assert len(asides) >= 3
    assert not any(node.step.startswith("aside") for node in circuit.nodes if _matters(model, node))
    eap = circuit.to_eap_ig()
    marked = {edge for edge, said in eap["edges"].items() if not said["in_graph"]}
    assert marked
    assert set(circuit.to_interpbench()) < set(_all_pairs(circuit))
    chance = random.Random(0)
    for step in ("aside", "aside2", "aside3"):
        items = model.claim.target.codes[model.claim.target.program.values_by_name[step]].items
        for word in ("abc", "cab", "bb"):
            where = {step: {k: chance.choice(items) for k in range(len(word))}}
            assert hm.intervene(model, word, where) == model(word) == PROGRAMS["sort"](word)


def _matters(model: hm.Construction, node: object) -> bool:
    return node.name in model.circuit.relevant


def _all_pairs(circuit: object) -> list[tuple[str, str]]:
    everything = frozenset(node.name for node in circuit.nodes)
    copy = replace(circuit)
    copy.__dict__["relevant"] = everything
    return copy.to_interpbench()


def test_distractors_mean_what_they_say():
    """Total, of names of their own, and unseen by what the program answers."""
    for seed in range(12):
        chance = np.random.default_rng(seed)
        program = with_distractors(PROGRAMS["most frequent"], WORDS, 5, chance)
        assert len(program.beside) == 5
        for word in list(WORDS)[::5]:
            held = program.trace(word)
            assert program(word) == PROGRAMS["most frequent"](word)
            assert all(isinstance(one, int) for value in program.beside for one in held[value])
    alone = hm.Words("a", 3)
    one_letter = with_distractors(p.reverse, alone, 6, np.random.default_rng(0))
    assert hm.certify(hm.compile(one_letter, on=alone, route="legible")).verdict is PROVED
    compact = hm.compile(program, on=WORDS)
    assert compact.claim.target.program.beside == ()
    assert "aside = " not in str(PROGRAMS["sort"])


def test_files_keep_all_of_it(tmp_path):
    model = disguised("sort", 3, 1)
    certificate = hm.certify(model)
    hm.save(model, tmp_path / "hidden.safetensors", certificate)
    read, stored = hm.load_certified(tmp_path / "hidden.safetensors")
    assert read.circuit == model.circuit
    assert read.circuit.frame.grain == model.circuit.frame.grain
    assert stored == certificate
    assert stored.altered(read) == ()
    assert len(read.claim.target.program.beside) == 4
    where = {"count": {0: 2}, "aside": {1: 1}}
    assert hm.intervene(read, "cab", where) == hm.intervene(model, "cab", where)
    record = model.circuit.as_dict()
    for spoiled in ({"power": 1}, {"power": 1, "grain": None, "rows": [[1.5]]}, {"rows": 3}):
        with pytest.raises((LookupError, TypeError, ValueError)):
            hm.core.Circuit.from_dict(record | {"frame": spoiled})


# ---- what is refused, or goes through the projections --------------------------------------------


def test_traces_are_told_along_the_frame():
    model = model_of("sort")
    turned = hm.disguise(model, rotate=3)
    assert hm.trace(turned, "cab").in_words == hm.trace(model, "cab").in_words
    assert set(hm.trace(turned, "cab").coordinates) == {
        f"coordinate {k}" for k in range(model.transformer.width)
    }


def test_refusals():
    model = model_of("sort")
    compact = hm.compile(PROGRAMS["sort"], on=WORDS)
    narrow = hm.compile(p.Program(s.tokens), alphabet="a", length=2, route="legible")
    other = replace(
        model,
        transformer=model_of("sort").transformer.with_weightings(
            [hm.Softmax(32.0)] * len(model.transformer.heads)
        ),
    )
    for call, reason in (
        (lambda: hm.disguise(compact), r'compact.*route="legible"'),
        (lambda: hm.disguise(hm.disguise(model)), "disguised already"),
        (lambda: hm.disguise(3), "takes a model, not a int"),
        (lambda: hm.disguise(model, rotate=-1), "0 to 12 rounds, not -1"),
        (lambda: hm.disguise(model, rotate=1.5), "0 to 12 rounds, not 1.5"),
        (lambda: hm.disguise(model, distractors=65), "0 to 64 distractors, not 65"),
        (lambda: hm.disguise(model, noise=-0.5), "at least 0 and less than 1, not by -0.5"),
        (lambda: hm.disguise(model, level=4), "from 0 to 3, not 4"),
        (lambda: hm.disguise(model, seed=-1), "seed is a whole number"),
        (lambda: hm.disguise(narrow), "3 coordinates cannot be rotated"),
        (lambda: hm.disguise(other, distractors=1), "not those of its program"),
    ):
        with pytest.raises(hm.RequestError, match=reason):
            call()
