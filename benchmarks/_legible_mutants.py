"""Legible models with a wrong weight, and whether they answer wrongly; circuits that lie."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

import hardmax as hm
from hardmax import programs as p
from hardmax.checker import ClosedSets
from hardmax.core import KINDS, Attention, Circuit, FeedForward, Transformer, Words

_s = p.Sequence()
_same = p.there(_s.tokens) == _s.tokens
PROGRAMS = {
    "reverse": p.reverse,
    "sort": p.Program(p.sorted_by(_s.tokens), "sort"),
    "ranked": p.sort,
    "sort by frequency": p.sort_by_frequency,
    "histogram": p.histogram,
    "most frequent": p.most_frequent,
    "fraction so far": p.fraction_so_far("a"),
    "shuffle-Dyck-1": p.shuffle_dyck("ab"),
    "machine": p.fsm("a(b|c)*", alphabet="abc"),
    "table": p.table({"ab": "ba", "cab": "aaa"}, otherwise="c"),
    "last": p.Program(_same.max(_s.index)),
    "detect": p.detect("ab"),
}
WORDS = Words("abc", 3)
_SHIFTS = (0.25, -0.25, 1.0, -1.0, 3.0)


@cache
def model_of(name: str) -> hm.Construction:
    return hm.compile(PROGRAMS[name], on=WORDS, route="legible")


def mutant(model: hm.Construction, chance: random.Random) -> hm.Construction:
    """One weight is changed: shifted, doubled, turned round or taken away; half are 0 before."""
    arrays = list(_arrays(model.transformer))
    place = chance.choices(range(len(arrays)), [array.size for array in arrays])[0]
    array = arrays[place].copy()
    flat = array.reshape(-1)
    held = np.flatnonzero(flat)
    some = held if len(held) and chance.random() < 0.7 else np.arange(flat.size)
    at = int(chance.choice(list(some)))
    change = chance.choice(["shift", "double", "turn", "drop"])
    value = float(flat[at])
    changed = {"double": 2 * value, "turn": -value, "drop": 0.0}.get(change, value)
    flat[at] = changed if changed != value else value + chance.choice(_SHIFTS)
    arrays[place] = array
    return replace(model, transformer=_rebuilt(model.transformer, iter(arrays)))


def _arrays(transformer: Transformer) -> Iterator[np.ndarray]:
    source = transformer.input
    yield from (source.embedding, source.positions, source.start)
    for layer in transformer.sublayers:
        if isinstance(layer, Attention):
            for head in layer.heads:
                yield from (head.query, head.key, head.value, head.output)
        else:
            yield from (layer.inner, layer.inner_bias, layer.outer, layer.outer_bias)
    yield from (transformer.readout.weights, transformer.readout.bias)


def _rebuilt(transformer: Transformer, arrays: Iterator[np.ndarray]) -> Transformer:
    source = replace(
        transformer.input, embedding=next(arrays), positions=next(arrays), start=next(arrays)
    )
    layers: list[Attention | FeedForward] = []
    for layer in transformer.sublayers:
        if isinstance(layer, Attention):
            names = ("query", "key", "value", "output")
            heads = [replace(h, **{name: next(arrays) for name in names}) for h in layer.heads]
            layers.append(Attention(heads))
        else:
            layers.append(FeedForward(*(next(arrays) for _ in range(4))))
    readout = replace(transformer.readout, weights=next(arrays), bias=next(arrays))
    return Transformer(source, layers, readout)


def breaks_a_word(model: hm.Construction, program: p.Program) -> bool:
    """Whether some word is answered otherwise than by the program."""
    words = list(WORDS)
    return any(a != program(w) for w, a in zip(words, model(words), strict=True))


def breaks_an_intervention(
    model: hm.Construction, program: p.Program, chance: random.Random, tries: int
) -> bool:
    """Whether one of so many random interventions is answered otherwise than by the program."""
    for _ in range(tries):
        word, where = random_intervention(model, chance)
        try:
            wanted = program(word, where=where)
        except hm.HardmaxError:
            continue
        if hm.intervene(model, word, where) != wanted:
            return True
    return False


@cache
def _closed_sets(target: object) -> ClosedSets:
    """What steps can hold as the checker sees it: other items are refused."""
    return ClosedSets(target.steps(), target.words)  # type: ignore[attr-defined]


def random_intervention(model: hm.Construction, chance: random.Random) -> tuple[tuple, dict]:
    """A word, and items for one to three steps at one or two positions."""
    target = model.claim.target
    closed = target.closed_steps
    word = tuple(chance.choice(WORDS.alphabet) for _ in range(chance.randint(1, WORDS.longest)))
    held, sets = model.circuit.steps, _closed_sets(target)
    values = [v for v in closed.place if closed.name(closed.place[v]) in held]
    where: dict[str, dict] = {}
    for value in chance.sample(values, min(len(values), chance.randint(1, 3))):
        places = chance.sample(range(len(word)), min(len(word), chance.randint(1, 2)))
        code, able = target.codes[value], sets.numbers(closed.place[value])
        items = [item for item in code.items if code.number(item) in able]
        where[closed.name(closed.place[value])] = {k: chance.choice(items) for k in places}
    return word, where


def random_interchange(model: hm.Construction, chance: random.Random) -> tuple[tuple, tuple, dict]:
    """A word, another one, and positions of both for one to three steps."""
    closed = model.claim.target.closed_steps
    word, other = (
        tuple(chance.choice(WORDS.alphabet) for _ in range(chance.randint(1, WORDS.longest)))
        for _ in range(2)
    )
    held = model.circuit.steps
    names = [name for name in map(closed.name, closed.place.values()) if name in held]
    both = range(min(len(word), len(other)))
    return (
        word,
        other,
        {
            name: sorted(chance.sample(both, min(len(both), chance.randint(1, 2))))
            for name in chance.sample(names, min(len(names), chance.randint(1, 3)))
        },
    )


LIES = (
    *("add", "remove", "move", "rename", "label", "item", "start", "owner", "place"),
    *("kind", "words", "numbers", "elsewhere"),
)


def forged(model: hm.Construction, chance: random.Random, lie: str | None = None) -> Circuit:
    """The model's circuit with something false: of nodes and blocks, or of what shows an edge."""
    lie = chance.choice(LIES) if lie is None else lie
    if lie in ("kind", "words", "numbers", "elsewhere"):
        return _shown_falsely(model, chance, lie)
    if lie in ("add", "remove", "move"):
        return _rewired(model.circuit, chance, lie)
    return _misstated(model.circuit, chance, lie)


def _rewired(circuit: Circuit, chance: random.Random, lie: str) -> Circuit:
    """An edge is added, removed, or moved to another port or node, and what shows it with it."""
    nodes, showings = list(circuit.nodes), list(circuit.showings)
    number = chance.choice([k for k, n in enumerate(nodes) if any(own for _, own in n.reads)])
    node = nodes[number]
    reads = {port: list(own) for port, own in node.reads}
    port = chance.choice([port for port, own in node.reads if own])
    rest = [k for k in range(len(circuit.blocks)) if k not in reads[port]]
    others = [other for other in reads if other != port]
    if lie == "add" and rest:
        reads[port] = sorted([*reads[port], chance.choice(rest)])
    else:
        taken = chance.choice(reads[port])
        reads[port].remove(taken)
        mine = [s for s in showings if (s.target, s.port, s.block) == (node.name, port, taken)]
        showings = [s for s in showings if s not in mine]
        if lie == "move" and others:
            other = chance.choice(others)
            if taken not in reads[other]:
                showings += [replace(s, port=other) for s in mine]
            reads[other] = sorted({*reads[other], taken})
    nodes[number] = replace(node, reads=tuple((name, tuple(own)) for name, own in reads.items()))
    return replace(circuit, nodes=tuple(nodes), showings=tuple(showings))


def _misstated(circuit: Circuit, chance: random.Random, lie: str) -> Circuit:
    """A node or a block is renamed, or a block has other labels, items, values or coordinates."""
    blocks, nodes, showings = list(circuit.blocks), list(circuit.nodes), circuit.showings
    k = chance.randrange(len(blocks))
    block = blocks[k]
    if lie == "rename" and chance.random() < 0.5:
        n = chance.randrange(2, len(nodes) - 1) if len(nodes) > 3 else 0
        old, new = nodes[n].name, f"{nodes[n].name}0"
        nodes[n] = replace(nodes[n], name=new)
        showings = tuple(replace(s, target=new) if s.target == old else s for s in showings)
    elif lie == "rename":
        blocks[k] = replace(block, name=f"{block.name}0")
    elif lie == "label" and block.labels:
        blocks[k] = replace(block, labels=(f"{block.labels[0]}0", *block.labels[1:]))
    elif lie == "item" and block.items:
        blocks[k] = replace(block, items=(block.items[0] + 977, *block.items[1:]))
    elif lie == "start":
        blocks[k] = replace(block, at_start=(block.at_start[0] + 1.0, *block.at_start[1:]))
    elif lie == "place":
        blocks[k] = replace(block, first=block.first + chance.choice((-1, 1)))
    else:
        blocks[k] = replace(block, sublayer=block.sublayer + 1)
    return replace(circuit, blocks=tuple(blocks), nodes=tuple(nodes), showings=showings)


def _shown_falsely(model: hm.Construction, chance: random.Random, lie: str) -> Circuit:
    """An edge has another kind, or is shown by what does not show it, or by what there is not."""
    circuit = model.circuit
    k = chance.randrange(len(circuit.showings))
    one = circuit.showings[k]
    block = circuit.blocks[one.block]
    if lie == "kind":
        kinds = [kind for kind in KINDS if kind not in ("word", one.kind)]
        kinds = [kind for kind in kinds if (one.kind, kind) != ("word", "intervention")]
        overwritten = one.overwritten or ((0, block.items[0] if block.items else 0),)
        made = replace(one, kind=chance.choice(kinds), other=(), overwritten=overwritten)
    elif lie == "words":
        foreign = ("?", *one.word[1:])
        by = {"other": chance.choice([one.word, foreign])} if one.other else {"word": foreign}
        made = replace(one, **by)
    elif lie == "numbers":
        held = _held_on(model, one.word, block.step)[0]
        number = 977 if block.form == "share" else chance.choice([held, 977])
        kind = "intervention" if one.kind == "word" else one.kind
        made = replace(one, kind=kind, other=(), overwritten=((0, number),))
    else:
        node = next(node for node in circuit.nodes if node.name == one.target)
        read = dict(node.reads)[one.port]
        rest = [b for b in range(len(circuit.blocks)) if b not in read]
        made = replace(one, block=chance.choice(rest)) if rest else replace(one, target="embed")
    showings = (*circuit.showings[:k], made, *circuit.showings[k + 1 :])
    return replace(circuit, showings=showings)


def _held_on(model: hm.Construction, word: tuple, step: int) -> list:
    """What a step holds at the positions of a word."""
    steps = model.claim.target.steps()
    return steps.values([WORDS.alphabet.index(symbol) for symbol in word])[step]


# ---- parts of the campaign -----------------------------------------------------------------------

_MUTANTS, _TRIES = 200, 20  # that are looked through for one that breaks something; interventions


def mutants_part(start: int, count: int, seed: int) -> dict[str, object]:
    """Mutants that break a word (even cases) or interventions alone (odd ones): none is proved."""
    counts: dict[str, object] = {"words": 0, "interventions": 0, "harmless": 0}
    false: list[tuple[int, str]] = []
    for case in range(start, start + count):
        chance = random.Random(f"legible mutants {seed} {case}")
        name = chance.choice(sorted(PROGRAMS))
        kind = "interventions" if case % 2 else "words"
        found = _breaking(name, kind, chance)
        counts[kind if found is not None else "harmless"] += 1  # type: ignore[operator]
        if found is not None and hm.certify(found).verdict is hm.Verdict.PROVED:
            false.append((case, f"a mutant of {name} that breaks {kind} was proved"))
    return {**counts, "false": false}


def _breaking(name: str, kind: str, chance: random.Random) -> hm.Construction | None:
    program, model = PROGRAMS[name], model_of(name)
    for _ in range(_MUTANTS):
        found = mutant(model, chance)
        if breaks_a_word(found, program):
            if kind == "words":
                return found
        elif kind != "words" and breaks_an_intervention(found, program, chance, _TRIES):
            return found
    return None


def forgeries_part(start: int, count: int, seed: int) -> dict[str, object]:
    """Circuits that say something false of right weights: none is proved."""
    false: list[tuple[int, str]] = []
    for case in range(start, start + count):
        chance = random.Random(f"forged circuits {seed} {case}")
        name = chance.choice(sorted(PROGRAMS))
        model = model_of(name)
        lie = forged(model, chance)
        if lie == model.circuit:
            false.append((case, "the circuit was not altered"))
        elif hm.certify(replace(model, circuit=lie)).verdict is hm.Verdict.PROVED:
            false.append((case, f"a forged circuit of {name} was proved"))
    return {"forged": count, "false": false}


def interventions_part(start: int, count: int, seed: int) -> dict[str, object]:
    """Random interventions, every other one an interchange: the model answers as the program."""
    counts = {"interchanges": 0, "undefined": 0}
    wrong = []
    for case in range(start, start + count):
        chance = random.Random(f"interventions {seed} {case}")
        name = chance.choice(sorted(PROGRAMS))
        model, program = model_of(name), PROGRAMS[name]
        word, where = random_intervention(model, chance)
        try:
            if case % 2:
                word, other, places = random_interchange(model, chance)
                where = items_held(program, other, places)
            wanted = program(word, where=where)
        except hm.HardmaxError:
            counts["undefined"] += 1
            continue
        if case % 2:
            counts["interchanges"] += 1
            found = hm.interchange(model, word, other, places)
        else:
            found = hm.intervene(model, word, where)
        if found != wanted:
            wrong.append((case, f"{name} on {word} with {where}"))
    return {**counts, "wrong": wrong}


def items_held(program: p.Program, word: tuple, places: dict) -> dict[str, dict]:
    """What the program's steps hold at some positions of a word."""
    held = program.trace(word)
    named = program.values_by_name
    return {step: {k: held[named[step]][k] for k in own} for step, own in places.items()}
