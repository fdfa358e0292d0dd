"""Legible models with a wrong weight, and whether they answer wrongly; circuits that lie."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np

import hardmax as hm
from hardmax import programs as p
from hardmax.core import Attention, Circuit, FeedForward, Transformer, Words

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


def random_intervention(model: hm.Construction, chance: random.Random) -> tuple[tuple, dict]:
    """A word, and items for one to three steps at one or two positions."""
    target = model.claim.target
    closed = target.closed_steps
    word = tuple(chance.choice(WORDS.alphabet) for _ in range(chance.randint(1, WORDS.longest)))
    held = model.circuit.steps
    values = [v for v in closed.place if closed.name(closed.place[v]) in held]
    where: dict[str, dict] = {}
    for value in chance.sample(values, min(len(values), chance.randint(1, 3))):
        places = chance.sample(range(len(word)), min(len(word), chance.randint(1, 2)))
        items = target.codes[value].items
        where[closed.name(closed.place[value])] = {k: chance.choice(items) for k in places}
    return word, where


def forged(circuit: Circuit, chance: random.Random) -> Circuit:
    """A circuit with an edge added, removed, renamed or moved, or another false statement."""
    blocks, nodes = list(circuit.blocks), list(circuit.nodes)
    number = chance.choice([k for k, n in enumerate(nodes) if any(own for _, own in n.reads)])
    node = nodes[number]
    reads = {port: list(own) for port, own in node.reads}
    port = chance.choice([port for port, own in node.reads if own])
    kind = chance.choice(["add", "remove", "move", "rename", "label", "item", "start", "owner"])
    block = chance.randrange(len(blocks))
    if kind == "add":
        rest = [k for k in range(len(blocks)) if k not in reads[port]]
        reads[port] = sorted([*reads[port], chance.choice(rest)]) if rest else []
    elif kind == "remove":
        reads[port].remove(chance.choice(reads[port]))
    elif kind == "move":
        moved = reads[port].pop()
        others = [other for other in reads if other != port]
        other = chance.choice(others) if others else "q"
        reads[other] = sorted({*reads.get(other, []), moved}) if others else [moved]
    elif kind == "rename":
        if chance.random() < 0.5:
            nodes[number] = node = replace(node, name=f"{node.name}0")
        else:
            blocks[block] = replace(blocks[block], name=f"{blocks[block].name}0")
    elif kind == "label" and blocks[block].labels:
        labels = list(blocks[block].labels)
        labels[0] += "0"
        blocks[block] = replace(blocks[block], labels=tuple(labels))
    elif kind == "item" and blocks[block].form == "one-hot":
        blocks[block] = replace(
            blocks[block], items=(blocks[block].items[0] + 977, *blocks[block].items[1:])
        )
    elif kind == "start":
        held = list(blocks[block].at_start)
        held[0] += 1.0
        blocks[block] = replace(blocks[block], at_start=tuple(held))
    else:
        blocks[block] = replace(blocks[block], sublayer=blocks[block].sublayer + 1)
    nodes[number] = replace(node, reads=tuple((name, tuple(own)) for name, own in reads.items()))
    return replace(circuit, blocks=tuple(blocks), nodes=tuple(nodes))


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
        lie = forged(model.circuit, chance)
        if lie == model.circuit:
            false.append((case, "the circuit was not altered"))
        elif hm.certify(replace(model, circuit=lie)).verdict is hm.Verdict.PROVED:
            false.append((case, f"a forged circuit of {name} was proved"))
    return {"forged": count, "false": false}


def interventions_part(start: int, count: int, seed: int) -> dict[str, object]:
    """Random interventions: the model answers as the program does, wherever that is defined."""
    undefined, wrong = 0, []
    for case in range(start, start + count):
        chance = random.Random(f"interventions {seed} {case}")
        name = chance.choice(sorted(PROGRAMS))
        model = model_of(name)
        word, where = random_intervention(model, chance)
        try:
            wanted = PROGRAMS[name](word, where=where)
        except hm.HardmaxError:
            undefined += 1
            continue
        if hm.intervene(model, word, where) != wanted:
            wrong.append((case, f"{name} on {word} with {where}"))
    return {"undefined": undefined, "wrong": wrong}
