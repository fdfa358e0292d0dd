"""Programs become Transformers that answer as the interpreter does, and are proved to."""

import itertools
import operator
import random
from dataclasses import replace

import numpy as np
import pytest

import hardmax as hm
from hardmax import programs as p
from hardmax.core import (
    Attention,
    FeedForward,
    Holding,
    Transformer,
    Witness,
    Words,
    evaluate,
)
from hardmax.languages.programs import ProgramTarget
from hardmax.lowering.programs import _compile

S = p.Sequence()
ORDERS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def wrong(program, words, **options):
    """The words to which the compiled program answers something else."""
    model = hm.compile(program, on=words, **options)
    tried = [list(word) for word in words]
    return [w for w, got in zip(tried, model(tried), strict=True) if got != program(w)]


def machine(states, symbols="ab", seed=3):
    rng = random.Random(seed)
    return {(s, a): rng.randrange(states) for s in range(states) for a in symbols}


LIBRARY = {
    "copy": (p.copy, "abc", 4),
    "reverse": (p.reverse, "abc", 5),
    "shift": (p.shift(1), "abc", 4),
    "shift back": (p.shift(-2, "c"), "abc", 4),
    "sort": (p.sort, "bca", 5),
    "sort by key": (p.sort_by({"a": 1, "b": 0, "c": 1}), "abc", 5),
    "sort by frequency": (p.sort_by_frequency, "abc", 4),
    "histogram": (p.histogram, "abc", 5),
    "duplicates": (p.duplicates, "abc", 5),
    "seen before": (p.seen_before, "abc", 5),
    "most frequent": (p.most_frequent, "abc", 4),
    "length": (p.length, "ab", 5),
    "count": (p.count_of("a"), "ab", 6),
    "fraction": (p.fraction_so_far("a"), "ab", 6),
    "prefix sum": (p.prefix_sum, [-1, 0, 2], 4),
    "counter": (p.counter("a", 3), "ab", 7),
    "detect": (p.detect("aba"), "ab", 6),
    "Dyck-1": (p.dyck("()"), "()a", 5),
    "Dyck-2": (p.dyck(["()", "[]"]), "()[]", 4),
    "shuffle-Dyck": (p.shuffle_dyck(["()", "[]"]), "()[]", 4),
    "machine": (p.fsm(machine(4), 0), "ab", 6),
    "regular expression": (p.fsm("a(b|aa)*", alphabet="ab"), "ab", 6),
    "table": (p.table({"ab": "ba", "abb": "aab", "b": "a"}, "?"), "ab", 4),
    "table of numbers": (p.table({"ab": [3, -4], "aba": [1, 2, 7]}), "ab", 4),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_is_right_for_every_word(name):
    program, alphabet, length = LIBRARY[name]
    assert wrong(program, Words(alphabet, length, 0)) == []


RANKS = {
    "by key": p.sort_by({"a": 1, "b": 0, "c": 1}),
    "by frequency": p.sort_by_frequency,
    "greater or before": p.Program(
        ((p.there(S.tokens) > S.tokens) | (p.there(S.index) < S.index)).count()
    ),
}


@pytest.mark.parametrize("name", RANKS)
def test_ranks_by_values_are_right_for_every_word(name, monkeypatch):
    monkeypatch.setattr(_compile, "_SHARES_HOLD", 0)
    assert not wrong(RANKS[name], Words("abc", 5))


def test_several_outputs_and_one_position():
    both = p.program(lambda s: (s.length, s.tokens))
    assert wrong(both, Words("abc", 3, 0)) == []
    last = p.program(lambda s: (p.there(s.tokens) == s.tokens).count(), at=-1)
    assert wrong(last, Words("abc", 4)) == []
    second = p.program(lambda s: s.tokens.shifted(1), at=1)
    assert wrong(second, Words("abc", 4, 2)) == []


# ---- random programs ---------------------------------------------------------------------------


def random_value(rng, depth):
    if depth == 0:
        return rng.choice([S.tokens, S.index, S.length])
    value = lambda: random_value(rng, depth - 1)  # noqa: E731
    chosen = lambda: random_selection(rng, depth - 1)  # noqa: E731
    default = rng.randint(0, 2)
    return rng.choice(
        [
            lambda: value() + value(),
            lambda: value() - value(),
            lambda: value() % rng.choice([2, 3]),
            lambda: rng.choice(ORDERS)(value(), value()),
            lambda: p.where(rng.choice(ORDERS)(value(), value()), value(), value()),
            lambda: p.or_else(value().shifted(rng.choice([-1, 1, 2])), default),
            lambda: chosen().count(),
            lambda: chosen().sum(value()),
            lambda: chosen().mean(value(), default),
            lambda: chosen().min(value(), default),
            lambda: chosen().max(value(), default),
            lambda: chosen().first(value(), default),
            lambda: chosen().ranked(value(), S.index, default),
        ]
    )()


def random_selection(rng, depth):
    kind = rng.randrange(7)
    if kind == 0:
        return S.everywhere
    if kind == 1:
        return rng.choice(ORDERS)(p.there(S.index), S.index)
    if kind < 5:
        key, query = (random_value(rng, min(depth, 1)) for _ in range(2))
        return rng.choice(ORDERS)(p.there(key), query)
    parts = random_selection(rng, depth), random_selection(rng, depth)
    return parts[0] & parts[1] if kind == 5 else ~parts[0] | parts[1]


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_are_compiled_as_they_are_meant(seed):
    program = p.Program(random_value(random.Random(seed), 1 + seed % 2))
    assert wrong(program, Words([0, 1, 2], 3, 0)) == []


# ---- positions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", ["scalar", "one-hot", "sinusoidal"])
@pytest.mark.parametrize("name", ["reverse", "shift", "sort", "machine", "table", "Dyck-1"])
def test_positions_are_a_choice(name, positions):
    program, alphabet, length = LIBRARY[name]
    assert wrong(program, Words(alphabet, length, 0), positions=positions) == []


@pytest.mark.parametrize("name", ["shift", "shift back", "seen before", "fraction", "Dyck-1"])
def test_relative_biases_are_enough_for_order_alone(name):
    program, alphabet, length = LIBRARY[name]
    words = Words(alphabet, length, 0)
    assert wrong(program, words, positions="relative") == []
    model = hm.compile(program, on=words, positions="relative").transformer
    assert not model.input.positions.any()


@pytest.mark.parametrize("name", ["histogram", "duplicates", "length", "count"])
def test_programs_that_ignore_order_need_no_positions(name):
    program, alphabet, length = LIBRARY[name]
    assert wrong(program, Words(alphabet, length, 0), positions="none") == []


def test_two_words_show_that_a_program_depends_on_order():
    shown = r"answers \['b', 'a', 'a'\] to \['a', 'a', 'b'\], but \['a', 'b', 'a'\] to"
    with pytest.raises(hm.RequestError, match=shown):
        hm.compile(p.reverse, alphabet="ab", length=4, positions="none")
    toggles = {(s, a): (s + 1) % 3 if a == "a" else 0 for s in range(3) for a in "ab"}
    with pytest.raises(hm.RequestError, match="depends on the order"):
        hm.compile(p.fsm(toggles, 0), alphabet="ab", length=4, positions="none")
    with pytest.raises(hm.RequestError, match="needs the index itself"):
        hm.compile(p.reverse, alphabet="ab", length=4, positions="relative")
    with pytest.raises(hm.RequestError, match="There are no positions 'learned'"):
        hm.compile(p.reverse, alphabet="ab", length=4, positions="learned")


# ---- machines ----------------------------------------------------------------------------------


def test_a_machine_takes_as_many_layers_as_it_must():
    turns = p.fsm({(s, a): (s + 1 + (a == "b")) % 3 for s in range(3) for a in "ab"}, 0)
    resets = p.fsm({(s, a): {"a": 1, "b": 2, "c": s}[a] for s in range(3) for a in "abc"}, 0)
    for program, alphabet in ((turns, "ab"), (resets, "abc")):
        words = Words(alphabet, 6, 0)
        assert hm.compile(program, on=words).bill.layers == 1
        assert wrong(program, words) == []
        composed = hm.compile(program, on=words, route="parallel")
        assert composed.bill.layers == 3
        assert wrong(program, words, route="parallel") == []
    with pytest.raises(hm.RequestError, match="no route 'deep'"):
        hm.compile(turns, alphabet="ab", length=3, route="deep")


def test_the_plan_says_which_route_and_why():
    turns = p.fsm({(s, a): (s + (a == "a")) % 4 for s in range(4) for a in "ab"}, 0)
    plan = hm.plan_program(turns, alphabet="ab", length=8)
    assert [offer.route for offer in plan.offers] == ["shallow", "parallel", "legible"]
    assert [offer.construction.bill.layers for offer in plan.offers] == [1, 3, 1]
    assert "the same circle of 4 states" in str(plan)
    assert plan.build().bill.layers == 1
    assert len(hm.plan_program(p.reverse, alphabet="ab", length=4).offers) == 2
    refused = hm.plan_program(p.sort, alphabet="ab", length=4, positions="relative")
    with pytest.raises(hm.RequestError, match="needs the index"):
        refused.build()


@pytest.mark.parametrize("length", [1, 2, 3, 8, 9])
def test_composition_takes_log2_layers(length):
    program = p.fsm(machine(4), 0)
    assert (
        hm.compile(program, alphabet="ab", length=length).bill.layers == (length - 1).bit_length()
    )


# ---- the mathematics ---------------------------------------------------------------------------


def test_the_error_of_a_sum_is_attained():
    """n symbols of weight r and a start token of weight 1: the sum S becomes S/(1 + r n)."""
    n = 9
    model = hm.compile(p.length, alphabet="a", length=n)
    head = model.transformer.heads[0]
    score = float((head.query * head.key).sum())  # both read the token register, which is 1
    r = np.exp(score)
    got = float(evaluate(model.transformer, "a" * n)[0, 0])
    assert got == pytest.approx(n / (1 + r * n), rel=1e-13)
    assert n - got == pytest.approx(n * r * n / (1 + r * n), rel=1e-6)


def scores(model, word):
    """The scores of the first head: asking symbols x tokens, the start token first."""
    source, head = model.transformer.input, model.transformer.heads[0]
    ids = [source.alphabet.index(symbol) for symbol in word]
    stream = np.vstack([source.start, source.embedding[ids]]) + source.positions[: len(word) + 1]
    return ((stream @ head.query.T) @ (stream @ head.key.T).T)[1:]


def test_the_gaps_of_parabola_routing_are_attained():
    """Matches tie with the start token at 0, the nearest other key is 1 behind; or 1/2 and 1/2."""
    counted = scores(hm.compile(p.histogram, alphabet="abcde", length=5), "abcde")
    np.testing.assert_array_equal(np.diag(counted[:, 1:]), 0.0)
    np.testing.assert_array_equal(counted[:, 0], 0.0)
    others = np.where(np.eye(5, dtype=bool), -np.inf, counted[:, 1:])
    assert others.max() == -1.0
    back = scores(hm.compile(p.shift(-1), alphabet="ab", length=5), "ababa")  # nothing at the end
    assert [row.argmax() for row in back] == [2, 3, 4, 5, 0]
    best = np.sort(back, axis=1)
    assert (best[:, -1] - best[:, -2]).min() == 0.5


def test_the_multiplexer_applies_a_map_to_a_number():
    rng = np.random.default_rng(0)
    for states in (2, 5, 9):
        most = states - 1.0
        maps = rng.integers(0, states, (40, states)).astype(float)
        a = rng.integers(0, states, 40)
        inner = maps + most * (a[:, None] - np.arange(states))
        found = np.maximum(inner, 0) - np.maximum(inner - most, 0)
        np.testing.assert_array_equal(found.sum(axis=1) - most * a, maps[np.arange(40), a])


@pytest.mark.parametrize(("name", "most"), [("length", 1), ("count", 2), ("histogram", 4)])
def test_registers_are_used_again(name, most):
    program, alphabet, length = LIBRARY[name]
    assert hm.compile(program, alphabet=alphabet, length=length).bill.width <= most


# ---- proofs ------------------------------------------------------------------------------------

LONG = {
    "reverse": (p.reverse, "abcdefghij", 20),
    "sort": (p.sort, "abcdefghij", 14),
    "histogram": (p.histogram, "abcdefghij", 20),
    "prefix count": (p.prefix_count("a"), "abcdefghij", 20),
    "most frequent": (p.most_frequent, "abcdef", 11),
    "shuffle-Dyck-1": (p.shuffle_dyck("()"), "()abcdefgh", 14),
    "shuffle-Dyck-3": (p.shuffle_dyck(["()", "[]", "{}"]), "()[]{}ab", 9),
    "table": (p.table({"abcabcabc": "ccccccccc", "ab": "ba"}, "?"), "abcdefgh", 9),
}


@pytest.mark.parametrize("name", LONG)
def test_long_words_are_proved_without_trying_them(name):
    program, alphabet, length = LONG[name]
    model = hm.compile(program, alphabet=alphabet, length=length)
    assert model.claim.domain.count > 10**8
    found = hm.certify(model, budget="1.2e8 work")
    assert found.verdict is hm.Verdict.PROVED
    assert found.method == "value sets"
    assert found.measured <= found.certified <= found.claimed


def changed(model, sublayer, part, place, by):
    """The same construction with one weight changed."""
    layers = list(model.transformer.sublayers)
    old = layers[sublayer]
    if isinstance(old, Attention):
        weights = getattr(old.heads[0], part).copy()
        weights[place] += by
        layers[sublayer] = Attention([replace(old.heads[0], **{part: weights}), *old.heads[1:]])
    else:
        weights = getattr(old, part).copy()
        weights[place] += by
        layers[sublayer] = replace(old, **{part: weights})
    source = model.transformer
    return replace(model, transformer=Transformer(source.input, layers, source.readout))


def measured(model, words):
    """The largest error on some words."""
    raw = evaluate(model.transformer, [list(word) for word in words])
    wanted = [np.array(model.claim.target(word), dtype=float) for word in words]
    return max(np.abs(a - b).max() for a, b in zip(raw, wanted, strict=True) if b.size)


@pytest.mark.parametrize("name", ["sort", "shuffle-Dyck-1", "table", "most frequent"])
def test_what_is_proved_of_changed_weights_is_so(name):
    """A flag that is 1.6 times as large is as good a flag: what must hold is the bound."""
    program, alphabet, length = LONG[name]
    model = hm.compile(program, alphabet=alphabet, length=length)
    rng = np.random.default_rng(1)
    words = model.claim.domain.sample(300, rng)
    for _ in range(3):
        number = int(rng.integers(len(model.transformer.sublayers)))
        layer = model.transformer.sublayers[number]
        part = "outer" if isinstance(layer, FeedForward) else "output"
        weights = layer.outer if isinstance(layer, FeedForward) else layer.heads[0].output
        places = np.argwhere(weights)
        place = tuple(places[rng.integers(len(places))])
        spoilt = changed(model, number, part, place, 0.6 * weights[place])
        found = hm.certify(spoilt, budget="2e7 work")
        if found.verdict is hm.Verdict.PROVED:
            assert measured(spoilt, words) <= found.certified


def test_a_changed_answer_is_not_proved():
    model = hm.compile(p.sort, alphabet="abcdefghij", length=14)
    outer = model.transformer.sublayers[-1].outer
    place = tuple(np.argwhere(outer)[0])
    spoilt = changed(model, len(model.transformer.sublayers) - 1, "outer", place, 0.6)
    assert hm.certify(spoilt, budget="2e7 work").verdict is not hm.Verdict.PROVED


def test_a_lying_witness_proves_nothing():
    program, alphabet, length = LONG["shuffle-Dyck-3"]
    model = hm.compile(program, alphabet=alphabet, length=length)
    other = hm.compile(p.shuffle_dyck(["([", "])", "{}"]), alphabet=alphabet, length=length)
    assert model.transformer.width == other.transformer.width
    swapped = replace(model, transformer=other.transformer)  # the witness and claim of another
    assert hm.certify(swapped, budget="2e7 work").verdict is not hm.Verdict.PROVED
    turned = [
        replace(held, value=model.witness.holdings[k - 1].value)
        for k, held in enumerate(model.witness.holdings)
    ]
    twice = replace(model.witness.holdings[0], coordinates=[1, 1], weights=[[1.0, 0.0]])
    outside = replace(model.witness.holdings[0], value=999)
    lied = hm.certify(replace(model, witness=Witness([*turned, twice, outside])), budget="6e7 work")
    assert lied.verdict is not hm.Verdict.REFUTED  # the model is right, whatever the witness says
    assert all(isinstance(held, Holding) for held in turned)


# ---- files -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reverse", "fraction", "Dyck-2", "machine", "table", "sort"])
def test_programs_are_kept_in_files(tmp_path, name):
    program, alphabet, length = LIBRARY[name]
    model = hm.compile(program, alphabet=alphabet, length=length)
    certificate = hm.certify(model)
    path = tmp_path / "model.safetensors"
    hm.save(model, path, certificate)
    again, kept = hm.load_certified(path)
    assert kept.altered(again) == ()
    assert again.legend == model.legend
    for word in list(Words(alphabet, 3)):
        assert again(word) == program(word)
    assert hm.certify(again).verdict is hm.Verdict.PROVED


def test_a_program_in_a_damaged_file_is_refused():
    encoded = hm.compile(p.reverse, alphabet="ab", length=3).claim.target.encode()
    for text in ("{}", "[]", encoded.text.replace("aggregated", "unknown"), encoded.text[:-5]):
        with pytest.raises(hm.FileError):
            ProgramTarget.decode_text(text)


# ---- bad input ---------------------------------------------------------------------------------


def test_bad_requests_are_refused_in_a_sentence():
    with pytest.raises(hm.RequestError, match="needs the words it is for"):
        hm.compile(p.reverse)
    with pytest.raises(hm.RequestError, match="is compiled on words"):
        hm.compile(p.reverse, on="[0,1]")
    with pytest.raises(hm.DomainError, match="no symbol twice"):
        hm.compile(p.reverse, alphabet="aa", length=3)
    model = hm.compile(p.reverse, alphabet="ab", length=3)
    with pytest.raises(hm.RequestError, match="at most 3 symbols"):
        model("abab")
    with pytest.raises(hm.RequestError, match="not in the alphabet"):
        model("abc")
    assert model("") == []
    with pytest.raises(hm.RequestError, match="Say on which domain"):
        hm.compile("x*y")


def test_a_step_that_explodes_is_named_with_its_size():
    counts = [(p.there(S.tokens) == symbol).count() for symbol in "abcd"]
    many = p.Program(p.apply(lambda *n: sum(n), *counts))
    with pytest.raises(p.TooLarge, match=r"function\(.*\) may take 104,060,401 values"):
        hm.compile(many, alphabet="abcd", length=100)


@pytest.mark.parametrize(("length", "layers"), [(2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_acceptance_is_told_by_the_size_of_the_state(length: int, layers: int) -> None:
    """ceil(log2 n) layers, the answer included; the state next to the border attains the room.

    Of the four states of (a|b)*abb one accepts, the last; the others are up to 5/2 from the
    border, so that the nearest is 1/10 of the spacing from the middle, 2/5 from its code.
    """
    program = hm.programs.fsm("(a|b)*abb", alphabet="ab")
    model = hm.compile(program, alphabet="ab", length=length)
    assert model.bill.layers == layers
    words = ["".join(w) for n in range(1, length + 1) for w in itertools.product("ab", repeat=n)]
    assert [model(word) for word in words] == [program(word) for word in words]
    certificate = hm.certify(model)
    assert certificate.verdict is hm.Verdict.PROVED
    assert model.claim.error == pytest.approx(0.45)
    if length >= 3:  # "abb" is read, and the state before it is next to the border
        assert certificate.measured == pytest.approx(0.4)


def test_states_that_answer_alike_are_numbered_together() -> None:
    """Start and accepting states alternate on a path; what the machine says does not change."""
    moves = {(s, a): (s + 1) % 5 if a == "a" else 0 for s in range(5) for a in "ab"}
    program = hm.programs.fsm(moves, 0, accepting=[0, 2, 4])
    model = hm.compile(program, alphabet="ab", length=7)
    assert model.bill.layers == 3
    for word in ("a", "aa", "aaaaa", "abaaa", "bbbbbbb", "aaaabaa"):
        state, expected = 0, []
        for symbol in word:
            state = moves[state, symbol]
            expected.append(state in (0, 2, 4))
        assert program(word) == expected
        assert model(word) == expected
