"""The language of sequence programs: its interpreter against plain Python, and what it refuses."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax.core import (
    Attention,
    Claim,
    Construction,
    Head,
    ReadOut,
    SequenceInput,
    Share,
    Transformer,
    Words,
)
from hardmax.languages import programs as p


def words(alphabet: str, longest: int):
    for n in range(longest + 1):
        yield from ("".join(w) for w in itertools.product(alphabet, repeat=n))


def balanced(word: str, pairs: list[str]) -> bool:
    stack: list[str] = []
    closes = {pair[1]: pair[0] for pair in pairs}
    for symbol in word:
        if symbol in closes:
            if not stack or stack.pop() != closes[symbol]:
                return False
        else:
            stack.append(symbol)
    return not stack


def shuffled(word: str, pairs: list[str]) -> bool:
    return all(balanced("".join(s for s in word if s in pair), [pair]) for pair in pairs)


def frequent(word: str) -> list[str]:
    best = max(Counter(word).values(), default=0)
    first = next((s for s in word if word.count(s) == best), None)
    return [first] * len(word)


PLAIN = {
    "copy": (p.copy, list),
    "reverse": (p.reverse, lambda w: list(reversed(w))),
    "shift": (p.shift(2, "-"), lambda w: list(("--" + w)[: len(w)])),
    "shift left": (p.shift(-1), lambda w: [*w[1:], None][: len(w)]),
    "sort": (p.sort, sorted),
    "sort by": (
        p.sort_by({"a": 2, "b": 1, "c": 2}),
        lambda w: sorted(w, key={"a": 2, "b": 1, "c": 2}.get),
    ),
    "histogram": (p.histogram, lambda w: [w.count(s) for s in w]),
    "duplicates": (p.duplicates, lambda w: [w.count(s) > 1 for s in w]),
    "seen before": (p.seen_before, lambda w: [s in w[:i] for i, s in enumerate(w)]),
    "length": (p.length, lambda w: [len(w)] * len(w)),
    "most frequent": (p.most_frequent, frequent),
    "by frequency": (p.sort_by_frequency, lambda w: sorted(w, key=lambda s: -w.count(s))),
    "count of": (p.count_of("a"), lambda w: [w.count("a")] * len(w)),
    "so far": (p.prefix_count("b"), lambda w: [w[: i + 1].count("b") for i in range(len(w))]),
    "share": (
        p.fraction_so_far("c"),
        lambda w: [Fraction(w[: i + 1].count("c"), i + 1) for i in range(len(w))],
    ),
    "counter": (p.counter("a", 3), lambda w: [w[: i + 1].count("a") % 3 for i in range(len(w))]),
    "detect": (p.detect("ab"), lambda w: [w[: i + 1].endswith("ab") for i in range(len(w))]),
    "regex": (
        p.fsm("(a|bc)*c?", alphabet="abc"),
        lambda w: [bool(re.fullmatch("(a|bc)*c?", w[: i + 1])) for i in range(len(w))],
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_the_library_means_what_its_names_say(name):
    made, plain = PLAIN[name]
    for word in words("abc", 5):
        assert made(word) == plain(word), word


@pytest.mark.parametrize("pairs", [["()"], ["()", "[]"]])
def test_brackets(pairs):
    nested, mixed = p.dyck(pairs), p.shuffle_dyck(pairs)
    for word in words("".join(pairs), 6 if len(pairs) == 1 else 5):
        assert nested(word) == [balanced(word, pairs)] * len(word), word
        assert mixed(word) == [shuffled(word, pairs)] * len(word), word


def test_sums_and_machines_over_numbers():
    assert p.prefix_sum([3, -1, 4]) == [3, 2, 6]
    turn = {(s, a): (s + a) % 5 for s in range(5) for a in (1, 2)}
    assert p.fsm(turn, start=0)([1, 2, 2, 1]) == [1, 3, 0, 1]
    assert p.fsm(turn, start=0, accepting=[0])([1, 2, 2, 1]) == [0, 0, 1, 0]


def test_a_table_answers_off_its_rows_as_stated():
    table = p.table({"ab": "xy", "abc": [1, 2, 3]}, otherwise="?")
    assert table("ab") == ["x", "y"]
    assert table("abc") == [1, 2, 3]
    assert table("ba") == ["?", "?"]
    assert p.table({"ab": "xy"})("a") == [None]


# ---- nothing, defaults, selections -------------------------------------------------------------


def test_nothing_goes_through_maps_and_is_never_selected():
    s = p.Sequence()
    before = p.there(s.index) == s.index - 1
    previous = before.mean(s.index)
    assert p.Program(previous)("abc") == [None, 0, 1]
    assert p.Program(previous + 1)("abc") == [None, 1, 2]
    assert p.Program(p.or_else(previous, -7))("abc") == [-7, 0, 1]
    assert p.Program(before.mean(s.index, default="none"))("ab") == ["none", 0]
    assert p.Program((p.there(previous) == 0).count())("abc") == [1, 1, 1]
    assert p.Program(s.everywhere.sum(previous))("abc") == [1, 1, 1]
    assert p.Program(s.everywhere.min(previous))("abc") == [0, 0, 0]


def test_selections_are_joined():
    s = p.Sequence()
    same, before = p.there(s.tokens) == s.tokens, p.there(s.index) < s.index
    for word in words("ab", 4):
        n = len(word)
        both = [sum(word[j] == word[i] for j in range(i)) for i in range(n)]
        either = [sum(word[j] == word[i] or j < i for j in range(n)) for i in range(n)]
        neither = [n - k for k in either]
        assert p.Program((same & before).count())(word) == both
        assert p.Program((same | before).count())(word) == either
        assert p.Program((~(same | before)).count())(word) == neither
        assert p.Program((~same).causal().count())(word) == [
            sum(word[j] != word[i] for j in range(i + 1)) for i in range(n)
        ]


def test_any_all_first_and_last():
    s = p.Sequence()
    same = p.there(s.tokens) == s.tokens
    for word in words("ab", 4):
        places = [[j for j, t in enumerate(word) if t == here] for here in word]
        assert p.Program(same.first(s.index))(word) == [places[i][0] for i in range(len(word))]
        assert p.Program(same.last(s.index))(word) == [places[i][-1] for i in range(len(word))]
        assert p.Program(same.any(s.index > 1))(word) == [max(r) > 1 for r in places]
        assert p.Program(same.all(s.index > 0))(word) == [min(r) > 0 for r in places]
    nowhere = p.there(s.tokens) == "z"
    assert p.Program((nowhere.any(), nowhere.all(s.index > 5)))("a") == [(0, 1)]


def test_functions_of_several_values_and_arithmetic():
    s = p.Sequence()
    mixed = p.apply(lambda t, i, n: f"{t}{i}/{n}", s.tokens, s.index, s.length)
    assert p.Program(mixed)("ab") == ["a0/2", "b1/2"]
    number = 2 * s.index - s.length / 2 + Fraction(1, 2)
    assert p.Program(number)("abc") == [-1, 1, 3]
    assert p.Program(p.where(s.index % 2 == 0, s.tokens, "-"))("abc") == ["a", "-", "c"]
    assert p.Program(s.index * s.index // 2)("abcd") == [0, 0, 2, 4]
    assert p.Program(1 / s.index)("abc") == [None, 1, Fraction(1, 2)]
    assert p.Program(~(s.index > 0) | (s.index == 2))("abc") == [1, 0, 1]


def test_one_position_may_answer_for_the_word():
    total = p.program(lambda s: s.everywhere.sum(s.tokens), at=0, name="sum")
    assert total([1, 2, 3, 4, 5]) == 15
    with pytest.raises(hm.RequestError, match="answers at position 0"):
        total([])


def test_programs_print_their_steps():
    assert str(p.reverse).splitlines()[-1].strip() == (
        "tokens at [there index == ((length - 1) - index)]"
    )
    text = str(p.most_frequent)
    assert "v0 = count over [there tokens == tokens]" in text
    assert text.count("there tokens == tokens") == 1
    assert repr(p.copy) == "Program(copy: 1 values)"


# ---- refusals ----------------------------------------------------------------------------------


def test_mistakes_are_explained():
    s = p.Sequence()
    with pytest.raises(hm.RequestError, match="where"):
        bool(s.index > 0)
    with pytest.raises(hm.RequestError, match="neither true nor false"):
        bool(p.there(s.index) > 0)
    with pytest.raises(hm.RequestError, match="aggregate it first"):
        p.Program([p.there(s.index) == 0])
    with pytest.raises(hm.RequestError, match="there with what is held here"):
        _ = p.there(s.index) == p.there(s.tokens)
    with pytest.raises(hm.SemanticsError, match="symbols can be told apart"):
        p.Program(s.everywhere.mean(s.tokens))("ab")
    with pytest.raises(hm.SemanticsError, match="several were selected that hold"):
        p.Program(s.everywhere.only(s.index))("ab")
    with pytest.raises(hm.SemanticsError, match="adds numbers"):
        p.Program(s.tokens + 1)("ab")
    with pytest.raises(hm.SemanticsError, match="fails on 'a'"):
        p.Program(s.tokens.map(lambda t: 1 / 0))("a")
    with pytest.raises(hm.SemanticsError, match=r"step .* fails on 'a'.*exact numbers or None"):
        p.Program(s.tokens.map(lambda t: [t]))("a")
    with pytest.raises(hm.SemanticsError, match="selection there tokens < index fails"):
        p.Program((p.there(s.tokens) < s.index).count())("ab")
    with pytest.raises(hm.RequestError, match="exact numbers or None"):
        p.Program(s.index + object())
    with pytest.raises(hm.RequestError, match="at least one output"):
        p.Program([])
    with pytest.raises(hm.RequestError, match="rule is a function"):
        p.program("reverse")


def test_incomplete_machines_and_wrong_expressions_are_refused():
    with pytest.raises(hm.RequestError, match=r"1 of 4 entries are missing.*\(1, 'b'\)"):
        p.fsm({(0, "a"): 0, (0, "b"): 1, (1, "a"): 1}, start=0)
    with pytest.raises(hm.RequestError, match="no state of the machine"):
        p.fsm({(0, "a"): 0}, start=0, accepting=[3])
    with pytest.raises(hm.RequestError, match="none twice"):
        p.fsm({(0, "a"): 0}, start=0, alphabet="aa")
    with pytest.raises(hm.RequestError, match="word holds 'z'"):
        p.fsm("a*", alphabet="ab")("az")
    with pytest.raises(hm.RequestError, match="needs the alphabet"):
        p.fsm("a*")
    for pattern in ("(a", "a)", "*a", "a|z", "[a", "a\\"):
        with pytest.raises(hm.RequestError, match="expression"):
            p.fsm(pattern, alphabet="ab")
    with pytest.raises(hm.RequestError, match="each position needs one"):
        p.table({"ab": "x"})
    with pytest.raises(hm.RequestError, match="given as pairs"):
        p.dyck(["((("])
    with pytest.raises(hm.RequestError, match="bracket twice"):
        p.dyck(["()", ")("])


@pytest.mark.parametrize(
    "pattern", ["", "a", "(ab)*", "a*b|c", "[ab]+c?", "[^a]*", "(a|b)*abb", ".*"]
)
def test_machines_of_expressions_agree_with_the_standard_library(pattern):
    machine = p.machine_of_regex(pattern, "abc")
    for word in words("abc", 5):
        state = 0
        for symbol in word:
            state = machine.step(state, symbol)
        assert (state in machine.accepting) == bool(re.fullmatch(pattern, word))


def test_machines_are_minimal():
    assert p.machine_of_regex("(a|b)*abb", "ab").states == 4
    assert p.machine_of_regex("a|b", "ab").states == 3
    assert p.machine_of_regex(".*", "ab").states == 1


# ---- RASP --------------------------------------------------------------------------------------
# Stand-ins with the names and fields of Tracr's classes; nothing of it is installed.


class Comparison(Enum):
    EQ = "=="
    LT = "<"
    LEQ = "<="
    TRUE = "True"


@dataclass(eq=False)
class TokensType:
    pass


@dataclass(eq=False)
class IndicesType:
    pass


@dataclass(eq=False)
class LengthType:
    pass


@dataclass(eq=False)
class Map:
    f: Any
    inner: Any


@dataclass(eq=False)
class SequenceMap:
    f: Any
    fst: Any
    snd: Any


@dataclass(eq=False)
class LinearSequenceMap:
    fst: Any
    snd: Any
    fst_fac: float
    snd_fac: float


@dataclass(eq=False)
class Full:
    fill: Any


@dataclass(eq=False)
class ConstantSOp:
    value: Any


@dataclass(eq=False)
class Select:
    keys: Any
    queries: Any
    predicate: Any


@dataclass(eq=False)
class SelectorWidth:
    selector: Any


@dataclass(eq=False)
class Aggregate:
    selector: Any
    sop: Any
    default: Any = None


@dataclass(eq=False)
class SelectorAnd:
    fst: Any
    snd: Any


@dataclass(eq=False)
class SelectorOr:
    fst: Any
    snd: Any


@dataclass(eq=False)
class SelectorNot:
    inner: Any


@dataclass(eq=False)
class ConstantSelector:
    value: Any


TOKENS, INDICES, LENGTH = TokensType(), IndicesType(), LengthType()


def test_rasp_programs_are_read():
    opposite = SequenceMap(lambda i, n: n - i - 1, INDICES, LENGTH)
    turned = Aggregate(Select(INDICES, opposite, Comparison.EQ), TOKENS)
    smaller = Select(TOKENS, TOKENS, Comparison.LT)
    same = Select(TOKENS, TOKENS, lambda key, query: key == query)
    earlier = Select(INDICES, INDICES, Comparison.LT)
    rank = SelectorWidth(SelectorOr(smaller, SelectorAnd(same, earlier)))
    ordered = Aggregate(Select(rank, INDICES, Comparison.EQ), TOKENS)
    for word in words("abc", 4):
        assert p.from_rasp(turned)(word) == list(reversed(word))
        assert p.from_rasp(ordered)(word) == sorted(word)
    for tree in (turned, ordered):
        model = hm.compile(p.from_rasp(tree), alphabet="abc", length=4)
        assert all(model(word) == p.from_rasp(tree)(word) for word in words("abc", 4))


def test_rasp_details():
    everywhere = Select(TOKENS, TOKENS, Comparison.TRUE)
    share = Aggregate(everywhere, Map(lambda t: int(t == "a"), TOKENS))
    assert p.from_rasp(share, causal=True)("aba") == [1, 1 / 2, 2 / 3]  # floats, as RASP's are
    assert p.from_rasp(share)("ab") == [Fraction(1, 2)] * 2
    previous = Select(INDICES, Map(lambda i: i - 1, INDICES), Comparison.EQ)
    assert p.from_rasp(Aggregate(previous, TOKENS))("ab") == [None, "a"]
    assert p.from_rasp(Aggregate(previous, TOKENS, default="-"))("ab") == ["-", "a"]
    assert p.from_rasp(Map(str.upper, Aggregate(previous, TOKENS)))("ab") == [None, "A"]
    assert p.from_rasp(LinearSequenceMap(INDICES, LENGTH, 2, -1))("abc") == [-3, -1, 1]
    assert p.from_rasp(SelectorWidth(SelectorNot(previous)))("abc") == [3, 2, 2]
    assert p.from_rasp(SelectorWidth(SelectorNot(previous)), causal=True)("abc") == [1, 1, 2]
    assert p.from_rasp(Full(7))("ab") == [7, 7]
    assert p.from_rasp(ConstantSOp(["x", "y"]))("ab") == ["x", "y"]
    stated = ConstantSelector([[False, True], [True, False]])
    assert p.from_rasp(Aggregate(stated, TOKENS))("ab") == ["b", "a"]


def test_what_is_no_rasp_is_refused():
    with pytest.raises(hm.RequestError, match="object is not one of the RASP values"):
        p.from_rasp(object())
    with pytest.raises(hm.RequestError, match="RASP selectors"):
        p.from_rasp(SelectorWidth(TOKENS))
    with pytest.raises(hm.RequestError, match="predicate"):
        p.from_rasp(SelectorWidth(Select(TOKENS, TOKENS, "==")))
    cycle = Map(str, None)
    cycle.inner = cycle
    with pytest.raises(hm.RequestError, match="cyclic"):
        p.from_rasp(cycle)


# ---- value sets, numbers and steps -------------------------------------------------------------

MORE = {
    "table": p.table({"ab": "xy", "c": [7], "abc": [1, None, "z"]}, otherwise="?"),
    "machine": p.fsm({(s, a): (2 * s + (a == "a")) % 3 for s in range(3) for a in "abc"}, start=0),
    "two outputs": p.program(lambda s: (s.tokens, s.length - s.index)),
    "one answer": p.program(lambda s: s.everywhere.sum(s.tokens.map("abc".find)), at=-1),
    "means of what may be nothing": p.program(
        lambda s: (p.there(s.tokens) == "a").causal().mean(s.index.shifted(1) - 1)
    ),
    "largest of what may be nothing": p.program(
        lambda s: (p.there(s.tokens) != s.tokens).max(s.index.shifted(2), default="none")
    ),
}
TRANSLATED = {name: made for name, (made, _) in PLAIN.items()} | MORE


@pytest.mark.parametrize("name", TRANSLATED)
def test_the_steps_mean_what_the_interpreter_says(name):
    domain = Words("abc", 4)
    target = p.ProgramTarget(TRANSLATED[name], domain)
    steps = target.steps()
    sets = p.value_sets(target.program.outputs, domain)
    for word in domain:
        rows = target(word)
        assert steps.rows(["abc".index(s) for s in word]) == rows, word
        assert target.decode(rows) == target.program(word)
        for value, held in target.program.trace(word).items():
            assert set(held) <= set(sets[value])


def test_value_sets_are_exact_where_a_position_knows_enough():
    s = p.Sequence()
    value = s.length - 1 - s.index
    assert p.value_sets([value], Words("ab", 5))[value] == (0, 1, 2, 3, 4)
    parity = p.apply(lambda t, i: f"{t}{i % 2}", s.tokens, s.index)
    assert p.value_sets([parity], Words("ab", 5))[parity] == ("a0", "a1", "b0", "b1")
    share = s.everywhere.mean(s.tokens == "a")
    assert p.value_sets([share], Words("ab", 3))[share] == (
        0, Fraction(1, 3), Fraction(1, 2), Fraction(2, 3), 1,
    )  # fmt: skip
    total = s.everywhere.sum(s.index - 2)
    assert p.value_sets([total], Words("ab", 3))[total] == tuple(range(-6, 1))


def test_value_sets_that_explode_are_refused():
    s = p.Sequence()
    total = s.everywhere.sum(s.tokens.map(lambda t: 2**t))
    with pytest.raises(p.TooLarge, match=r"sum of .* may take 3,298,534,883,328 values"):
        p.value_sets([total], Words(range(40), 6))
    counts = [(p.there(s.tokens) == symbol).count() for symbol in "abcd"]
    with pytest.raises(p.TooLarge, match=r"function\(.*\) may take 104,060,401 values"):
        p.value_sets([p.apply(lambda *n: sum(n), *counts)], Words("abcd", 100))


def test_longer_words_and_foreign_symbols_are_refused():
    target = p.ProgramTarget(p.reverse, Words("abc", 4))
    with pytest.raises(hm.RequestError, match="1 to 4 symbols, but this one has 5"):
        target("abcab")
    with pytest.raises(hm.RequestError, match="'z' at place 1"):
        target("az")


# ---- programs as text --------------------------------------------------------------------------

SORT = """
sorted = (there(rank) == index).only(tokens)   # the answer is the last definition...
before = there(index) < index
rank = ((there(tokens) < tokens) | (there(tokens) == tokens) & before).count()
answer = sorted                                # ...and definitions may come in any order
"""
TEXTS = {
    "copy = tokens": p.copy,
    "tokens.at(length - 1 - index)": p.reverse,
    "h = (there(tokens) == tokens).count()": p.histogram,
    "seen = ((there(tokens) == tokens) and index > there(index)).any()": p.seen_before,
    "where(not (index < 1), tokens.shifted(2), nothing)": p.shift(2),
    "everywhere.sum(tokens.map({'a': 1, 'b': 0, 'c': 0}))": p.count_of("a"),
    SORT: p.sort,
}


@pytest.mark.parametrize("text", TEXTS)
def test_texts_say_what_programs_say(text):
    made = p.parse_program(text)
    for word in words("abc", 4):
        assert made(word) == TEXTS[text](word)


def test_several_outputs_are_a_tuple():
    assert p.parse_program("both = tokens, -index + 0.5")("ab") == [
        ("a", Fraction(1, 2)),
        ("b", Fraction(-1, 2)),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("a = ", "could not be read: invalid syntax in line 1"),
        ("a = b + 1\nb = a + 1", r"'b' is cyclic: b -> a -> b"),
        ("a = tokns", "uses 'tokns', which is not defined; there are tokens, index"),
        ("a = 1\na = 2", "defines 'a' a second time"),
        ("index = 1", "has a meaning already"),
        ("import os", "is no definition"),
        ("a = __import__('os')", "calls something that programs do not know"),
        ("a = tokens.__class__", "says something that programs do not know"),
        ("a = tokens.count()", "asks a value for 'count'; it knows at, shifted, map"),
        ("a = everywhere.at(1)", "asks a selection for 'at'; it knows count"),
        ("a = tokens.map(index)", "no table"),
        ("a = tokens.map({'a': index})", "does not consist of numbers and texts"),
        ("a = 'x' * 10", "no number"),
        ("a = '%s' % index", "no number"),
        ("a = 1 < 2", "two constants"),
        ("a = there(index) + 1", "do not go together"),
        ("a = there(index) < there(tokens)", "there with what is held here"),
        ("a = everywhere + 1", "do not go together"),
        ("a = 1 % 0", "do not go together"),
        ("a = there(index) == index", "aggregate it first"),
        ("a = [t for t in tokens]", "do not know"),
        ("a = lambda: 1", "do not know"),
        ("a = " + "(" * 5000 + "index" + ")" * 5000, "too deeply|too many nested"),
        ("a = " + "-" * 5000 + "index", "too deeply"),
    ],
)
def test_wrong_texts_are_refused_in_one_sentence(text, says):
    with pytest.raises(hm.RequestError, match=says) as refusal:
        p.parse_program(text)
    assert "\n" not in str(refusal.value)


# ---- the checker and programs ------------------------------------------------------------------


def reversal(alphabet: str, length: int, weightings: tuple[Any, Any], target: p.Program):
    """Two heads: the largest index is length - 1; key (j, -j^2/2) and query (q, 1) meet at j = q.

    q j - j^2/2 = q^2/2 - (q - j)^2/2 is largest at j = q = length - 1 - i, by 1/2 at least.
    """
    code, index, parabola, one, last, answer = np.eye(6)
    places = np.arange(length)[:, None]
    source = SequenceInput(
        tuple(alphabet),
        np.arange(len(alphabet))[:, None] * code,
        places * index - places**2 / 2 * parabola + one,
    )
    heads = [
        Head([one], [index], [index], last[:, None], weightings[0]),
        Head([last - index, one], [index, parabola], [code], answer[:, None], weightings[1]),
    ]
    layers = [Attention([head]) for head in heads]
    model = Transformer(source, layers, ReadOut(answer[None], np.zeros(1), None))
    domain = Words(alphabet, length)
    claim = Claim(p.ProgramTarget(target, domain), domain, [Share("softening", "by hand", 0.25)])
    return Construction(model, claim, None, "by hand")


SOFT = hm.Softmax(60.0), hm.Softmax(200.0)
HARD = hm.Hardmax(), hm.Hardmax()


@pytest.mark.parametrize(("alphabet", "length"), [("abc", 4), ("abcdefghij", 12)])
@pytest.mark.parametrize("weightings", [HARD, SOFT])
def test_a_reversal_made_by_hand_is_proved_for_every_word(alphabet, length, weightings):
    made = reversal(alphabet, length, weightings, p.reverse)
    found = hm.certify(made, budget="6e7 work")
    assert found.verdict is hm.Verdict.PROVED
    assert found.certified <= 1e-12
    assert found.formats["float32"] <= 1e-4
    assert made("cab") == ["b", "a", "c"]


def test_it_is_refuted_as_anything_else():
    made = reversal("abc", 4, SOFT, p.shift(0))  # the tokens as they are, by the same code
    found = hm.certify(made, budget="6e7 work")
    assert found.verdict is hm.Verdict.REFUTED
    word = "".join(found.worst)
    assert list(word) != list(reversed(word))
