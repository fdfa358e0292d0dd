"""Legends of compiled programs: every coordinate its own name, and what readings say is true."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Legend, Reading, Words, told_apart
from hardmax.languages.programs import Scanned, labels_of
from hardmax.lowering.sketch import WordSketch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from gallery import GALLERY, is_free

s = p.Sequence()
LIBRARY = {
    "copy": p.copy,
    "reverse": p.reverse,
    "sort": p.sort,
    "histogram": p.histogram,
    "duplicates": p.duplicates,
    "length": p.length,
    "most_frequent": p.most_frequent,
    "sort_by_frequency": p.sort_by_frequency,
    "seen_before": p.seen_before,
    "prefix_count": p.prefix_count("a"),
    "shift": p.shift(1),
    "count_of": p.count_of("a"),
    "fraction_so_far": p.fraction_so_far("a"),
    "detect": p.detect("ab"),
    "fsm": p.fsm("(ab)*", alphabet="abc"),
    "table": p.table({"ab": "ba", "abc": "cab"}, otherwise="a"),
}
ABC = Words("abc", 4, 0)
OTHER_POSITIONS = ("one-hot", "sinusoidal", "relative", "none")
ENTRIES = [*GALLERY, *(f"library {name}" for name in LIBRARY)]


def shown(name: str) -> tuple[p.Program, Words]:
    if name.startswith("library "):
        return LIBRARY[name.removeprefix("library ")], ABC
    entry = GALLERY[name]
    return entry(3, 4) if is_free(entry) else entry()


@cache
def compact(name: str) -> hm.Construction:
    program, words = shown(name)
    return hm.compile(program, on=words)


def is_its_own(legend: Legend) -> None:
    names = legend.coordinates
    assert len(set(names)) == len(names)
    assert all(name.strip() == name != "" and not name.startswith("unused") for name in names)


@pytest.mark.parametrize("name", ENTRIES)
def test_no_two_coordinates_share_a_name(name: str) -> None:
    program, words = shown(name)
    is_its_own(compact(name).legend)
    if any(isinstance(value, Scanned) for value in program.values):
        is_its_own(hm.compile(program, on=words, route="parallel").legend)
    positions = OTHER_POSITIONS[len(name) % len(OTHER_POSITIONS)]
    if name != "addition":  # which takes seconds
        try:
            is_its_own(hm.compile(program, on=words, positions=positions).legend)
        except hm.RequestError:
            assert positions in ("relative", "none")
    if words.longest <= 4 and len(words.alphabet) <= 3:
        is_its_own(hm.compile(program, on=words, route="legible").legend)


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_read_is_what_the_program_holds(name: str) -> None:
    """Every reading that goes by the name of a step says what the interpreter says there."""
    model = compact(name)
    program, words = model.claim.target.program, model.claim.domain
    steps, codes = program.values_by_name, model.claim.target.codes
    seen = 0
    for word in words.sample(6, np.random.default_rng(1)):
        if not word:
            continue
        trace, true = hm.trace(model, word), program.trace(word)
        for one in trace.said:
            if one.off is None or one.name not in steps:
                continue
            value = steps[one.name]
            labels = labels_of(codes[value])
            wanted = [labels[codes[value].number(item)] for item in true[value]]
            texts = one.texts[len(trace.tokens) - len(word) :]
            assert [text.split(" [")[0] for text in texts] == wanted, (one.name, word)
            seen += 1
    assert seen


def test_steps_by_the_names_that_they_are_given() -> None:
    """By definitions in texts, by `named`, and otherwise by what makes them."""
    back = hm.compile(p.parse_program("back = length - 1 - index; tokens.at(back)"), on=ABC)
    assert {one.name for one in back.legend.readings} >= {"length", "back", "answer"}
    assert back.legend.sublayers[1] == ("answer = tokens at [there index == back]",)
    rank = ((p.there(s.tokens) < s.tokens).count()).named("rank")
    named = hm.compile(hm.program(lambda s: rank * 2 + s.index), on=ABC)
    assert "rank" in {one.name for one in named.legend.readings}
    twice = (p.there(s.index) < s.index).count() * 3 - (p.there(s.index) > s.index).count()
    counts = hm.compile(hm.program(lambda s: twice), on=ABC).legend
    assert "token, then count<so far+count2<all+count2<so far" in counts.coordinates


def test_parts_of_a_step_say_which() -> None:
    names = hm.compile(p.sort, alphabet="abcde", length=5).legend.coordinates
    assert names == (
        "tokens=a", "token, then n<=a", "index", "answer<n<=a..n<=d", "tokens<=b", "n<=b",
        "tokens<=c", "n<=c", "tokens=e", "n<=d",
    )  # fmt: skip


def test_what_is_carried() -> None:
    """The coordinate of a count still holds the 1 that tells symbols from the start token."""
    model = hm.compile(p.sort, alphabet="abcde", length=5)
    (count,) = [one for one in model.legend.readings if one.name == "n<=a"]
    assert (count.coordinates, count.carried) == ((1,), 1.0)
    assert count.numbers == tuple(float(k + 1) for k in range(6))
    assert count.labels == ("0", "1", "2", "3", "4", "5")
    assert model.legend.sums == {(0, 0)}


# ---- the laws ------------------------------------------------------------------------------------


def test_a_legend_refuses_two_coordinates_of_one_name() -> None:
    with pytest.raises(hm.ShapeError, match="Two coordinates are called 'x'"):
        Legend(["x", "y", "x"], [])
    assert told_apart(["x", "y", "x", "x"]) == ["x", "y", "x no. 2", "x no. 3"]


def test_a_sketch_gives_a_name_once() -> None:
    sketch = WordSketch(ABC)
    names = [sketch.register(name, 1.0).name for name in ("count", "count", "count.2", "count")]
    assert names == ["count", "count.2", "count.2.2", "count.3"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"coordinates": ()}, "a weight for each coordinate"),
        ({"weights": (1.0, 1.0)}, "a weight for each coordinate"),
        ({"labels": ("a",)}, "a label for each number"),
        ({"labels": (), "numbers": ()}, "a label for each number"),
    ],
)
def test_a_reading_checks_itself(change: dict[str, tuple], sentence: str) -> None:
    whole = Reading("x", 0, (1,), (1.0,), 0.0, (0.0, 1.0), ("a", "b"))
    with pytest.raises(hm.ShapeError, match=sentence):
        replace(whole, **change)


def test_what_is_no_code_is_not_decoded() -> None:
    """A third of the way to the next code is still read; more is not."""
    reading = Reading("x", 0, (1,), (1.0,), 0.0, (0.0, 3.0), ("a", "b"))
    assert reading.said(1.0) == ("a", 0.0)
    assert reading.said(np.nextafter(1.0, 2.0)) is None
    assert reading.said(2.0) == ("b", 3.0)
    alone = Reading("x", 0, (1,), (1.0,), 0.0, (2.0,), ("a",))
    assert (alone.said(2.25), alone.said(2.5)) == (("a", 2.0), None)
