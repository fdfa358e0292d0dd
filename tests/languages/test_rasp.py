"""Programs read from RASP trees mean what RASP's evaluator says, told apart by a tiny evaluator."""

import itertools
import random
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Words

# Stand-ins with the names and fields of Tracr's classes; nothing of it is installed.


class Comparison(Enum):
    EQ = "=="
    NEQ = "!="
    LT = "<"
    LEQ = "<="
    GT = ">"
    GEQ = ">="
    TRUE = "True"
    FALSE = "False"


def node(name, *fields):
    return dataclass(eq=False)(type(name, (), {"__annotations__": dict.fromkeys(fields, Any)}))


TokensType, IndicesType, LengthType = node("TokensType"), node("IndicesType"), node("LengthType")
Map, SequenceMap = node("Map", "f", "inner"), node("SequenceMap", "f", "fst", "snd")
LinearSequenceMap = node("LinearSequenceMap", "fst", "snd", "fst_fac", "snd_fac")
Full, ConstantSOp = node("Full", "fill"), node("ConstantSOp", "value")
Select, SelectorWidth = (
    node("Select", "keys", "queries", "predicate"),
    node("SelectorWidth", "selector"),
)
Aggregate = node("Aggregate", "selector", "sop", "default")
SelectorAnd, SelectorOr = node("SelectorAnd", "fst", "snd"), node("SelectorOr", "fst", "snd")
SelectorNot, ConstantSelector = node("SelectorNot", "inner"), node("ConstantSelector", "value")
TOKENS, INDICES, LENGTH = TokensType(), IndicesType(), LengthType()


# ---- the meaning, written down once more --------------------------------------------------------


def row(tree, word):
    """What every position holds: Python's values, as the functions return them."""
    places = range(len(word))
    match type(tree).__name__:
        case "TokensType":
            return list(word)
        case "IndicesType":
            return list(places)
        case "LengthType":
            return [len(word)] * len(word)
        case "Map":
            return [None if x is None else tree.f(x) for x in row(tree.inner, word)]
        case "SequenceMap":
            return paired(tree.f, tree, word)
        case "LinearSequenceMap":
            return paired(lambda x, y: tree.fst_fac * x + tree.snd_fac * y, tree, word)
        case "Full":
            return [tree.fill] * len(word)
        case "ConstantSOp":
            if len(tree.value) != len(word):
                raise ValueError
            return list(tree.value)
        case "SelectorWidth":
            return [sum(marks) for marks in chosen(tree.selector, word)]
        case "Aggregate":
            held = row(tree.sop, word)
            return [
                mean([x for x, on in zip(held, marks, strict=True) if on], tree.default)
                for marks in chosen(tree.selector, word)
            ]
    raise AssertionError(tree)


def paired(f, tree, word):
    pairs = zip(row(tree.fst, word), row(tree.snd, word), strict=True)
    return [None if x is None or y is None else f(x, y) for x, y in pairs]


def mean(held, default):
    if not held:
        return default
    if len(held) == 1:
        return held[0]
    if not all(isinstance(one, int | float) for one in held):
        raise ValueError(held)
    return sum(held) / len(held)


def chosen(tree, word):
    """For each position, whether it selects each position."""
    match type(tree).__name__:
        case "Select":
            keys, queries = row(tree.keys, word), row(tree.queries, word)
            return [[bool(predicate(tree, k, q)) for k in keys] for q in queries]
        case "SelectorNot":
            return [[not on for on in marks] for marks in chosen(tree.inner, word)]
        case "ConstantSelector":
            if len(tree.value) != len(word):
                raise ValueError
            return tree.value
    both = all if isinstance(tree, SelectorAnd) else any
    pairs = zip(chosen(tree.fst, word), chosen(tree.snd, word), strict=True)
    return [[both(two) for two in zip(*rows, strict=True)] for rows in pairs]


ORDERS = {
    "EQ": lambda k, q: k == q,
    "NEQ": lambda k, q: k != q,
    "LT": lambda k, q: k < q,
    "LEQ": lambda k, q: k <= q,
    "GT": lambda k, q: k > q,
    "GEQ": lambda k, q: k >= q,
    "TRUE": lambda k, q: True,
    "FALSE": lambda k, q: False,
}


def predicate(tree, key, query):
    if callable(tree.predicate):
        return tree.predicate(key, query)
    if key is None or query is None:
        raise ValueError
    return ORDERS[tree.predicate.name](key, query)


def same(tree, word):
    """Whether the program answers as the evaluator does, or fails where it fails."""
    program = p.from_rasp(tree)
    try:
        wanted = row(tree, word)
    except Exception:
        with pytest.raises(hm.SemanticsError):
            program(word)
        return True
    return program(word) == wanted


# ---- what was read otherwise before -------------------------------------------------------------

EVERYWHERE = Select(TOKENS, TOKENS, Comparison.TRUE)
PREVIOUS = Select(INDICES, Map(lambda i: i - 1, INDICES), Comparison.EQ)
UP_TO_HERE = Select(INDICES, INDICES, Comparison.LEQ)
BEFORE = Aggregate(PREVIOUS, TOKENS, None)  # None at the first position
SHARE = Aggregate(EVERYWHERE, Map(lambda t: int(t == "a"), TOKENS), None)
THIRD = Map(lambda t: 0.1 + 0.2 if t == "a" else 0.3, TOKENS)

TREES = {
    "a predicate sees None": SelectorWidth(Select(BEFORE, TOKENS, lambda k, q: k is None)),
    "a predicate sees None here": SelectorWidth(
        Select(TOKENS, BEFORE, lambda k, q: q in (None, k))
    ),
    "a comparison fails on None": SelectorWidth(Select(BEFORE, TOKENS, Comparison.EQ)),
    "the one selected holds None": Aggregate(Select(INDICES, Full(0), Comparison.EQ), BEFORE, 7),
    "nothing is selected": Aggregate(Select(TOKENS, TOKENS, Comparison.FALSE), TOKENS, 7),
    "floats stay floats": Map(lambda y: y * 10 == 3, Map(lambda y: y, THIRD)),
    "means are floats": Map(str, SHARE),
    "a default stays an int": Map(str, Aggregate(PREVIOUS, INDICES, 7)),
    "bools stay bools": Map(str, Map(lambda t: t == "a", TOKENS)),
    "whole floats stay floats": Map(str, LinearSequenceMap(INDICES, LENGTH, 2.0, 1)),
    "zeros have signs": Map(str, Map(lambda i: i * -0.0, INDICES)),
    "several symbols have no mean": Aggregate(EVERYWHERE, TOKENS, None),
    "several floats have a mean": Aggregate(EVERYWHERE, Map(lambda i: i / 4, INDICES), None),
    "of bools, too": Aggregate(EVERYWHERE, Map(lambda t: t == "a", TOKENS), None),
    "of one int it is an int": Map(str, Aggregate(UP_TO_HERE, INDICES, None)),
    "of one bool it is a bool": Map(str, Aggregate(UP_TO_HERE, Map(bool, INDICES), 7)),
    "of one zero it has a sign": Map(
        str, Aggregate(UP_TO_HERE, Map(lambda i: -0.0, INDICES), None)
    ),
    "of one that is long it is not rounded": Aggregate(PREVIOUS, Full(2**60 + 1), None),
    "the one that is None": Map(
        str, Aggregate(Select(INDICES, Full(0), Comparison.LEQ), BEFORE, 7)
    ),
    "a part that fails decides nothing": SelectorWidth(
        SelectorAnd(Select(TOKENS, TOKENS, Comparison.FALSE), Select(BEFORE, TOKENS, Comparison.EQ))
    ),
    "nor does it in a union": SelectorWidth(
        SelectorOr(Select(TOKENS, TOKENS, Comparison.TRUE), Select(TOKENS, BEFORE, Comparison.EQ))
    ),
    "a symbol as the default": Aggregate(
        Select(TOKENS, Full("a"), Comparison.EQ), Map(lambda t: 2, TOKENS), "none"
    ),
    "None has no mean": Aggregate(EVERYWHERE, Map(len, BEFORE), None),
    "floats after an int": Aggregate(EVERYWHERE, Map(lambda i: i / 2 if i else 1, INDICES), None),
    "a constant of length 2": ConstantSOp([1, 2.0]),
    "a selector of length 2": SelectorWidth(ConstantSelector([[True, False], [True, True]])),
    "an average": SHARE,
}


@pytest.mark.parametrize("name", TREES)
def test_a_tree_means_what_the_evaluator_says(name):
    for length in (1, 2, 3):
        assert all(same(TREES[name], word) for word in itertools.product("ab", repeat=length))


DEFAULTS = [None, 7, 1.0, -0.0, True, "z"]


def random_tree(rng, depth):
    if depth == 0:
        return rng.choice([TOKENS, INDICES, LENGTH, Full(2), Full(0.5), Full(True)])
    one = lambda: random_tree(rng, depth - 1)  # noqa: E731
    return rng.choice(
        [
            lambda: Map(
                rng.choice([str, lambda x: x == 1, lambda x: None if x == 1 else x]), one()
            ),
            lambda: SequenceMap(rng.choice([lambda x, y: x, lambda x, y: x == y]), one(), one()),
            lambda: LinearSequenceMap(one(), one(), rng.choice([1, 2, 0.5]), rng.choice([1, -1])),
            lambda: SelectorWidth(random_selector(rng, depth - 1)),
            lambda: Aggregate(random_selector(rng, depth - 1), one(), rng.choice(DEFAULTS)),
        ]
    )()


def random_selector(rng, depth):
    kind = rng.random()
    if kind < 0.2 and depth:
        return SelectorNot(random_selector(rng, depth - 1))
    if kind < 0.4 and depth:
        both = rng.choice([SelectorAnd, SelectorOr])
        return both(random_selector(rng, depth - 1), random_selector(rng, depth - 1))
    relation = rng.choice([*Comparison, lambda k, q: k is None or k == q])
    return Select(random_tree(rng, depth), random_tree(rng, depth), relation)


def test_random_trees_mean_what_the_evaluator_says():
    rng = random.Random(0)
    for _ in range(400):
        tree = random_tree(rng, rng.choice([1, 2, 3]))
        assert all(same(tree, word) for word in ((0,), (1, 0), (0, 1, 1), (2, 1, 0)))


def test_compiled_trees_answer_as_the_evaluator_does():
    compiled = ["a predicate sees None", "the one selected holds None", "floats stay floats"]
    compiled += ["means are floats", "a default stays an int", "bools stay bools", "an average"]
    compiled += ["several floats have a mean", "of bools, too", "of one int it is an int"]
    compiled += ["of one bool it is a bool", "of one zero it has a sign", "a symbol as the default"]
    compiled += ["of one that is long it is not rounded"]
    for name in compiled:
        model = hm.compile(p.from_rasp(TREES[name]), alphabet="ab", length=3)
        for word in itertools.product("ab", repeat=3):
            assert model(word) == row(TREES[name], word)
    with pytest.raises(hm.SemanticsError, match="several positions are selected"):
        hm.compile(p.from_rasp(TREES["several symbols have no mean"]), alphabet="ab", length=3)


def test_random_trees_are_compiled_as_they_are_meant():
    """A tree that RASP evaluates on every word is answered as RASP does, and any other refused."""
    rng, every, made = random.Random(1), list(Words([0, 1], 3, 1)), 0
    for _ in range(40):
        tree = random_tree(rng, rng.choice([1, 2, 2, 3]))
        try:
            wanted = [row(tree, word) for word in every]
        except Exception:
            with pytest.raises(hm.SemanticsError):
                hm.compile(p.from_rasp(tree), on=Words([0, 1], 3, 1))
            continue
        try:
            model = hm.compile(p.from_rasp(tree), on=Words([0, 1], 3, 1))
        except hm.RequestError as reason:
            if "too close to each other" in str(reason):  # means of floats that are means
                continue
            raise
        made += 1
        assert model(every) == wanted
    assert made > 10


def test_what_no_file_can_hold_makes_a_target_opaque(tmp_path):
    tree = Map(lambda x: type(x).__name__, Map(lambda i: np.float64(i), INDICES))
    model = hm.compile(p.from_rasp(tree), alphabet="ab", length=2)
    assert model("ab") == ["float64"] * 2
    hm.save(model, tmp_path / "model.safetensors")
    with pytest.raises(hm.FileError, match="opaque target"):
        hm.load(tmp_path / "model.safetensors")


def test_what_functions_saw_is_kept_in_files(tmp_path):
    tree = Map(lambda x: f"{x}", Map(lambda i: [1, 1.0, True][i], INDICES))
    model = hm.compile(p.from_rasp(tree), alphabet="ab", length=3)
    hm.save(model, tmp_path / "model.safetensors")
    again = hm.load(tmp_path / "model.safetensors")
    assert again("aba") == ["1", "1.0", "True"]
    assert again.claim.target("aba") == model.claim.target("aba")
