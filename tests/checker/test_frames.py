"""Turned models: what is taken back, what strays, what is proved, and what is not."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from benchmarks._legible_mutants import PROGRAMS, WORDS, model_of

import hardmax as hm
from hardmax import programs as p
from hardmax.checker.blocks import BlockProof, Holdings, Unproved
from hardmax.checker.blocks._frame import check_orthogonal, taken_back
from hardmax.checker.blocks._holding import Cases, start_balls
from hardmax.checker.blocks._reading import length_of_rows, lost_in_frame, turned_format
from hardmax.checker.blocks._turned import Drift
from hardmax.core import Frame
from hardmax.numerics import FLOAT32, FLOAT64, REALS
from hardmax.passes import rotate, with_weights

s = p.Sequence()
PROVED = hm.Verdict.PROVED
LOUD = 2.0**-18  # of noise that is put somewhere
GRAIN = 12


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def proof_of(model: hm.Construction) -> BlockProof:
    claim = model.claim
    ids = np.arange(len(claim.domain.alphabet))
    return BlockProof(model.transformer, model.circuit, claim.target.steps(), claim.domain, ids)


# ---- what is taken back --------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_what_is_taken_back_is_what_was_turned(name):
    model = model_of(name)
    turned = rotate(model, 3, chance(1))
    taken = taken_back(turned.transformer, turned.circuit.frame)
    assert taken.largest == 0.0
    assert hm.core.to_text(taken.meant) == hm.core.to_text(model.transformer)


def test_what_has_too_many_digits_is_taken_back_to_its_grain():
    """A third, turned, is rounded; what is left beside multiples of the grain is charged."""
    program = p.Program((p.there(s.index) <= s.index).mean(s.tokens.map({"a": 1, "b": 0})))
    model = hm.compile(program, alphabet="ab", length=3, route="legible")
    third = hm.compile(p.Program([s.index / 3, s.tokens]), alphabet="ab", length=3, route="legible")
    for one in (model, third):
        turned = rotate(one, 3, chance(2))
        certificate = hm.certify(turned)
        assert certificate.verdict is PROVED
        left = proof_of(turned).left
        assert (turned.circuit.frame.grain is None) == (left == 0.0)
        assert any("beyond" in one for one in certificate.statements) == (left > 0.0)
    assert 0.0 < left < 2.0**-35


def test_the_rest_of_a_row_is_its_length():
    """3, 4 and 5: beside multiples of 2^-12 a row leaves (3, 4) 2^-20, turned or not."""
    model = model_of("histogram")
    source = model.transformer.input
    rows = source.embedding.copy()
    rows[0, 3:5] += np.array([3.0, 4.0]) * 2.0**-20
    held = replace(source, embedding=rows)
    other = hm.Transformer(held, model.transformer.sublayers, model.transformer.readout)
    turned = rotate(replace(model, transformer=other), 2, chance())
    frame = replace(turned.circuit.frame, grain=GRAIN)
    symbols, places, start = taken_back(turned.transformer, frame).embedding.written
    exact = 5 * 2.0**-20
    assert exact <= symbols[0] <= exact * (1 + 1e-12)
    assert not symbols[1:].any()
    assert not places.any()
    assert not start.any()


def test_frames_that_are_none():
    model = rotate(model_of("histogram"), 2, chance())
    frame = model.circuit.frame
    rows = np.array(frame.rows)
    for spoiled in (
        rows * 2,
        np.vstack([rows[1:], rows[1:2]]),
        rows + np.eye(len(rows), dtype=int),
    ):
        false = Frame(tuple(tuple(map(int, row)) for row in spoiled), frame.power)
        with pytest.raises(Unproved, match="not orthogonal"):
            check_orthogonal(false)
        lie = replace(model.circuit, frame=false)
        assert hm.certify(replace(model, circuit=lie)).verdict is not PROVED
    model = model_of("histogram")
    halved = with_weights(model.transformer, lambda rows: rows / 2 if rows.ndim == 2 else rows)
    twice = Frame(tuple(map(tuple, (2 * np.eye(model.transformer.width, dtype=int)).tolist())), 0)
    false = replace(model, transformer=halved, circuit=replace(model.circuit, frame=twice))
    with pytest.raises(Unproved, match="not orthogonal"):  # all else would be as it should
        proof_of(false)
    with pytest.raises(Unproved, match="as wide"):
        taken_back(model.transformer, Frame(((1,),), 0))
    with pytest.raises(hm.ShapeError, match="square"):
        Frame(((1, 0),), 0)
    with pytest.raises(hm.ShapeError, match="40 bits"):
        Frame(((1,),), 41)
    with pytest.raises(hm.ShapeError, match="grain"):
        Frame(((1,),), 0, 201)


def test_orthogonality_is_seen_where_floats_do_not_hold_the_sums():
    large = 2**40
    check_orthogonal(Frame(((large, 0), (0, large)), 40))
    with pytest.raises(Unproved, match="not orthogonal"):
        check_orthogonal(Frame(((large, 0), (1, large)), 40))


# ---- what strays ---------------------------------------------------------------------------------


def test_what_is_left_of_a_row_moves_what_it_reads_by_its_length():
    """With x along d the product d x is |d| |x|: the charge over the reals, and no less."""
    left = np.array([3.0, -4.0, 12.0]) * 2.0**-20
    x = 7.0 * left / np.linalg.norm(left)
    format = turned_format(REALS, 3, 7.0, float(length_of_rows(left[None])[0]), 0.25)
    charge = float(np.asarray(lost_in_frame(np.ones((1, 3)), np.zeros(1), format))[0])
    assert left @ x + 0.25 <= charge <= (left @ x + 0.25) * (1 + 1e-12)
    assert lost_in_frame(np.ones((1, 3)), np.zeros(1), FLOAT64) == 0.0


def test_what_a_dense_product_rounds():
    """gamma_{n+3} (|w| |x| + |b|), by hand."""
    format = turned_format(FLOAT32, 10, 5.0, 0.0, 0.0)
    charge = float(np.asarray(lost_in_frame(np.array([[3.0, 4.0]]), np.array([2.0]), format))[0])
    unit = 13 * 2.0**-24
    exact = unit / (1 - unit) * (5.0 * 5.0 + 2.0)
    assert exact <= charge <= exact * (1 + 1e-12) + 20 * FLOAT32.smallest


def parts(transformer: hm.Transformer) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every array of weights by the order in which `with_weights` comes to it."""
    found: list[tuple[int, ...]] = []

    def seen(rows: np.ndarray) -> np.ndarray:
        found.append(rows.shape)
        return rows

    with_weights(transformer, seen)
    yield from ((f"part {k}", shape) for k, shape in enumerate(found))


def loud(model: hm.Construction, number: int, noise: Callable) -> hm.Construction:
    """The model turned, with noise in one of its arrays of weights, along its own axes."""
    count = iter(range(10**6))

    def moved(rows: np.ndarray) -> np.ndarray:
        return rows + noise(rows.shape) if next(count) == number else rows

    noisy = replace(model, transformer=with_weights(model.transformer, moved))
    turned = rotate(noisy, 2, chance(3))
    frame = replace(turned.circuit.frame, grain=GRAIN)
    return replace(turned, circuit=replace(turned.circuit, frame=frame))


def strayed(model: hm.Construction, word: tuple) -> dict[int | str, tuple[float, float]]:
    """How far blocks are from what they mean at the end, at symbols and at the start token."""
    target, circuit = model.claim.target, model.circuit
    values = {step: value for value, step in target.closed_steps.place.items()}
    program = target.program.trace(word)
    along = hm.trace(model, word).streams[-1] @ circuit.axes
    off_one = np.abs(along[:, circuit.one] - 1.0)
    found: dict[int | str, tuple[float, float]] = {"one": (off_one[1:].max(), off_one[0])}
    for number, block in enumerate(circuit.blocks):
        held = along[:, block.first : block.stop]
        off = float(np.abs(held[0] - np.array(block.at_start)).max())
        if block.form == "share":
            found[number] = (0.0, off)  # at symbols: see `share_strayed`
        elif block.step in values:
            value = values[block.step]
            codes = [block.code(target.codes[value].number(one)) for one in program[value]]
            found[number] = (float(np.abs(held[1:] - np.array(codes)).max()), off)
    return found


def check_shares(model: hm.Construction, held: Holdings, word: tuple) -> None:
    """1/(1 + w) for the counts w of a step that one head counts, at the end."""
    circuit, target = model.circuit, model.claim.target
    program = target.program.trace(word)
    values = {step: value for value, step in target.closed_steps.place.items()}
    of_share = [b.step for b in circuit.blocks if b.form == "share"]
    along = hm.trace(model, word).streams[-1] @ circuit.axes
    for number, block in enumerate(circuit.blocks):
        if block.form == "share" and of_share.count(block.step) == 1:
            counts = np.array([int(one) for one in program[values[block.step]]])
            off = np.abs(along[1:, block.first] - 1.0 / (1.0 + counts))
            assert (off <= held.shares[number][counts]).all(), word


def check_answers(model: hm.Construction, proof: BlockProof, held: Holdings, word: tuple) -> None:
    target = model.claim.target
    wanted = np.array([[float(one) for one in row] for row in target(word)])
    off = np.abs(hm.core.evaluate(model.transformer, word) - wanted).max()
    assert off <= proof.answers(held), word


def check_strayed(model: hm.Construction, held: Holdings) -> float:
    """Measured <= certified for every block; the largest share of it that was seen."""
    share = 0.0
    for word in list(WORDS)[1::8]:
        check_shares(model, held, word)
        for number, (symbols, first) in strayed(model, word).items():
            most = held.adrift if number == "one" else max(held.symbols[number])
            most_first = held.adrift if number == "one" else held.start[number]
            assert symbols <= most, (word, number)
            assert first <= most_first, (word, number)
            share = max(share, symbols / most, first / most_first)
    return share


@pytest.mark.parametrize("name", ["fraction so far", "last", "histogram"])
def test_noise_moves_no_block_further_than_is_certified(name):
    """In every array, all along one sign pattern: the stream strays by a good part of the bound."""
    model = model_of(name)
    shares = []
    for number, (_, shape) in enumerate(parts(model.transformer)):
        draw = np.random.default_rng(number)
        turned = loud(model, number, lambda shape, d=draw: LOUD * d.choice([-1.0, 1.0], shape))
        proof = proof_of(turned)
        assert proof.left >= LOUD
        held = proof.bound(FLOAT64)
        shares.append(check_strayed(turned, held))
        check_answers(turned, proof, held, tuple("aba"))
        assert shape
    assert max(shares) > 0.2


@pytest.mark.parametrize("name", ["reverse", "sort", "machine", "most frequent"])
def test_rounding_moves_no_block_further_than_is_certified(name):
    turned = rotate(model_of(name), 3, chance(4))
    held = proof_of(turned).bound(FLOAT64)
    assert check_strayed(turned, held) > 0.0
    assert held.farthest < 1e-8


_many = [(p.there(s.tokens) == one).count().named(f"n{one}") for one in "abc"]
_before = (p.there(s.index) < s.index).count().named("before")
SUM = p.Program(2 + sum(_many[1:], _many[0]) + _before, "sum")


@pytest.fixture(scope="module")
def large_sum() -> hm.Construction:
    """A sum whose cases are too many to be gone through: its weights are compared."""
    return hm.compile(SUM, alphabet="abc", length=16, route="legible")


def test_a_sum_of_many_cases_strays_no_further(large_sum):
    answer = next(k for k, b in enumerate(large_sum.circuit.blocks) if b.name == "answer")
    word = tuple("abcabcabcaabbccc")
    for number, (_, shape) in list(enumerate(parts(large_sum.transformer)))[-6:-2]:
        turned = loud(large_sum, number, lambda shape: np.full(shape, 8 * LOUD))
        held = proof_of(turned).bound(FLOAT64)
        off, _ = strayed(turned, word)[answer]
        assert shape
        assert off <= max(held.symbols[answer])


# ---- the coordinates that are 1 ------------------------------------------------------------------


NAMES = ["histogram", "last", "fraction so far", "detect", "sum", "reverse"]
_nothing = p.select(s.tokens, s.tokens, lambda a, b: False).count().named("nothing")
NOTHING = p.Program([_nothing, s.tokens], "nothing")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_with_the_coordinates_that_are_one(name, monkeypatch, large_sum):
    """Legible models whose `one` or `start` strays by as much as is said, on either side."""
    by = 2.0**-20 if name == "sum" else 2.0**-13
    model = large_sum if name == "sum" else model_of(name)
    straying = partial(Holdings, adrift=by)
    monkeypatch.setattr("hardmax.checker.blocks._prove.Holdings", straying)
    held = proof_of(model).bound(FLOAT64)
    source, words = model.transformer.input, [tuple("aba"), tuple("b"), tuple("cabab"[:3])]
    for place, row, sign in itertools.product((0, 1), (slice(1), slice(1, None)), (by, -by)):
        moved = source.positions.copy()
        moved[row, place] += sign
        layers, readout = model.transformer.sublayers, model.transformer.readout
        other = hm.Transformer(replace(source, positions=moved), layers, readout)
        shifted = replace(model, transformer=other)
        for word in words:
            check_shares(shifted, held, word)
            for number, (symbols, first) in strayed(shifted, word).items():
                if number != "one":
                    assert symbols <= max(held.symbols[number]), (place, row, sign, word)
                    assert first <= held.start[number], (place, row, sign, word)


def test_a_count_of_nothing_that_is_made_of_one(monkeypatch):
    """A unit relu(one - 1), which is 0, and as much as `one` strays."""
    model = hm.compile(NOTHING, on=WORDS, route="legible")
    (layer,) = model.transformer.sublayers
    circuit = model.circuit
    (block,) = [k for k, one in enumerate(circuit.blocks) if one.name == "nothing"]
    inner, bias, outer = layer.inner * 0.0, layer.inner_bias - 1.0, layer.outer * 0.0
    inner[0, circuit.one] = outer[circuit.blocks[block].first, 0] = 1.0
    layers = [hm.FeedForward(inner, bias, outer, layer.outer_bias)]
    other = hm.Transformer(model.transformer.input, layers, model.transformer.readout)
    straying = partial(Holdings, adrift=2.0**-9)
    monkeypatch.setattr("hardmax.checker.blocks._prove.Holdings", straying)
    held = proof_of(replace(model, transformer=other)).bound(FLOAT64)
    assert 2.0**-9 <= max(held.symbols[block]) <= 2.0**-9 * (1 + 1e-12)


def test_cases_are_read_with_coordinates_that_stray():
    proof = proof_of(model_of("histogram"))
    held = Holdings(FLOAT64, adrift=0.25)
    assert (Cases(proof.asked, (), ()).balls(held).radius == 0.25).all()
    assert (start_balls(proof.asked, (), held).radius == 0.25).all()


def test_streams_are_as_long_as_is_said():
    model = rotate(model_of("histogram"), 2, chance())
    proof = proof_of(model)
    drift, held = Drift(proof.asked, proof.taken, FLOAT64), Holdings(FLOAT64)
    assert np.sqrt(2) <= drift.length(-1, held) <= np.sqrt(2) * (1 + 1e-12)  # one and start
    held.adrift = 2.0  # of every coordinate
    longer = np.sqrt(2) + 2.0 * np.sqrt(model.transformer.width)
    assert longer <= drift.length(-1, held) <= longer * (1 + 1e-12)


def test_overwriting_is_charged():
    """Of a one-hot of 3 in a stream of 7, of length 1: by hand."""
    model = rotate(model_of("histogram"), 2, chance())
    proof = proof_of(model)
    drift, held = Drift(proof.asked, proof.taken, FLOAT32), Holdings(FLOAT32)
    (tokens,) = [b for b in model.circuit.blocks if b.sublayer == -1]
    unit, n, m = FLOAT32.unit, model.transformer.width, tokens.width
    read, put = (n + 4) * unit / (1 - (n + 4) * unit), (m + 4) * unit / (1 - (m + 4) * unit)
    exact = np.sqrt(m) * read * 2 + put * (1 + 2 * np.sqrt(m))
    assert exact <= drift._overwriting(-1, 1.0) <= exact * (1 + 1e-6)
    proof._embedded(held)
    drift.embed(held)
    assert held.adrift >= drift._overwriting(-1, 1.0)


@pytest.mark.parametrize("is_turned", [False, True])
def test_a_sublayer_without_units_writes_behind_everybodys_back(is_turned):
    """It adds 0.2 to the answer, which no node says and no word is answered wrongly for."""
    model = model_of("histogram")
    transformer, circuit = model.transformer, model.circuit
    answer = next(b for b in circuit.blocks if (b.name, b.form) == ("answer", "number"))
    width = transformer.width
    always = 0.2 * np.eye(width)[answer.first]
    empty = hm.FeedForward(np.zeros((0, width)), np.zeros(0), np.zeros((width, 0)), always)
    layers = [*transformer.sublayers, empty]
    *nodes, last = circuit.nodes
    longer = replace(circuit, nodes=(*nodes, replace(last, sublayer=len(layers))))
    other = hm.Transformer(transformer.input, layers, transformer.readout)
    false = replace(model, transformer=other, circuit=longer)
    false = rotate(false, 2, chance()) if is_turned else false
    certificate = hm.certify(false)
    assert certificate.verdict is not PROVED
    assert "has no units" in certificate.advice
