"""Disguise: 20 legible programs, turned, with distractors and with noise, and proved again.

    python -m benchmarks.disguise                        all of it
    python -m benchmarks.disguise --only models --seeds 2 --json out/disguise.json

- models: every program at every level from 1 on, for every seed: proved in float64, or the reason;
- interventions: random ones through the projections, against the interpreter;
- probes: what single coordinates say of a step, and what exchanging them between words does,
  beside the step's own projection;
- mutants: weights of disguised models that break a word or an intervention, and forged frames:
  none may be proved.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path

import numpy as np

import hardmax as hm
from benchmarks._legible_mutants import (
    PROGRAMS,
    WORDS,
    breaks_a_word,
    breaks_an_intervention,
    mutant,
    random_intervention,
)
from hardmax import programs as p
from hardmax.core import Circuit, Frame, streams

_s = p.Sequence()
_back = (_s.length - 1 - _s.index).named("back")
MORE = {
    "shift": p.shift(1),
    "duplicates": p.duplicates,
    "seen before": p.seen_before,
    "prefix count": p.prefix_count("a"),
    "palindrome so far": p.Program(_s.tokens == _s.tokens.at(_back)),
    "rank": p.Program((p.there(_s.tokens) < _s.tokens).count()),
    "first": p.Program([_s.tokens.at(0), _s.index / 3]),
    "parity of a": p.Program((p.there(_s.tokens) == "a").count().map(lambda n: n % 2)),
}
ALL = {**PROGRAMS, **MORE}
LEVELS = range(1, 4)
PROVED = hm.Verdict.PROVED


@cache
def legible(name: str) -> hm.Construction:
    return hm.compile(ALL[name], on=WORDS, route="legible")


@cache
def disguised(name: str, level: int, seed: int) -> hm.Construction:
    return hm.disguise(legible(name), level=level, seed=seed)


# ---- models --------------------------------------------------------------------------------------


def models(seeds: int, levels: range = LEVELS) -> dict[str, object]:
    """How many are proved, and in which formats; those that are not."""
    counts: Counter[str] = Counter()
    failures = []
    for level in levels:
        for name in ALL:
            for seed in range(seeds):
                certificate = hm.certify(disguised(name, level, seed))
                counts[f"level {level}: models"] += 1
                counts[f"level {level}: proved"] += certificate.verdict is PROVED
                for format in certificate.holds_in:
                    counts[f"level {level}: {format}"] += 1
                if certificate.verdict is not PROVED:
                    failures.append(f"{name}, level {level}, seed {seed}: {certificate.advice}")
    return {**counts, "not proved": failures}


# ---- interventions -------------------------------------------------------------------------------


def interventions_part(
    start: int, count: int, seed: int, levels: range = LEVELS, seeds: int = 2
) -> dict[str, object]:
    """Random interventions through the projections, distractors among them: as the program says.

    What is done to distractors changes nothing that the program answers.
    """
    undefined, wrong = 0, []
    for case in range(start, start + count):
        chance = random.Random(f"disguised interventions {seed} {case}")
        name, level = chance.choice(sorted(ALL)), chance.choice(levels)
        model = disguised(name, level, chance.randrange(seeds))
        word, where = random_intervention(model, chance)
        own = {step: held for step, held in where.items() if not step.startswith("aside")}
        try:
            wanted = ALL[name](word, where=own)
        except hm.HardmaxError:
            undefined += 1
            continue
        if hm.intervene(model, word, where) != wanted:
            wrong.append((case, f"{name}, level {level}, on {word} with {where}"))
    return {"undefined": undefined, "wrong": wrong}


# ---- probes --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Seen:
    """What a step holds at all positions of all words, and the stream once it is written."""

    model: hm.Construction
    step: str
    sublayer: int
    stream: np.ndarray  # positions x width
    codes: np.ndarray  # positions x coordinates of the step's blocks

    @cached_property
    def told(self) -> np.ndarray:
        """How much each coordinate of the stream says of each of the code: r squared."""
        varies = self.codes.std(axis=0) > 1e-6
        stream, codes = (
            (one - one.mean(axis=0)) / np.maximum(one.std(axis=0), 1e-9)
            for one in (self.stream, self.codes[:, varies])
        )
        return np.square(stream.T @ codes / len(stream))

    @cached_property
    def best(self) -> list[int]:
        """As many coordinates as the code has, those that say most of it."""
        order = np.argsort(-self.told.max(axis=1), kind="stable")
        return order[: self.codes.shape[1]].tolist()

    @property
    def best_probe(self) -> float:
        return float(self.told.max(axis=0).mean()) if self.told.size else 1.0

    @property
    def projected_probe(self) -> float:
        """How far the projection is from the code, at most."""
        read = self.stream @ self.model.circuit.projection(self.step).T
        return float(np.abs(read - self.codes).max())


def seen(model: hm.Construction, step: str) -> Seen:
    target, circuit = model.claim.target, model.circuit
    value = target.program.values_by_name[step]
    blocks = circuit.blocks_of(step)
    sublayer = max(block.sublayer for block in blocks)
    streams, codes = [], []
    for word in list(WORDS)[1:]:
        streams.append(hm.trace(model, word).streams[sublayer + 1][1:])
        for one in target.program.trace(word)[value]:
            number = target.codes[value].number(one)
            codes.append([n for block in blocks for n in block.code(number)])
    return Seen(model, step, sublayer, np.concatenate(streams), np.array(codes))


def interchanged(seen: Seen, chance: random.Random, tries: int) -> tuple[int, int, int]:
    """Interchange interventions that change an answer: how many are right by coordinates, how many
    through the projection, and how many there were.
    """
    model, step = seen.model, seen.step
    program = model.claim.target.program
    value = program.values_by_name[step]
    right = Counter[str]()
    for _ in range(tries):
        length = chance.randint(1, WORDS.longest)
        word, other = (tuple(chance.choices(WORDS.alphabet, k=length)) for _ in range(2))
        place = chance.randrange(length)
        held = program.trace(other)[value][place]
        try:
            wanted = program(word, where={step: {place: held}})
        except hm.HardmaxError:
            continue
        if wanted == program(word):
            continue
        own, there = (hm.trace(model, w).streams[seen.sublayer + 1] for w in (word, other))
        patched = own.copy()
        patched[place + 1, seen.best] = there[place + 1, seen.best]
        right["cases"] += 1
        right["coordinates"] += _rest(seen, patched) == wanted
        along = model.circuit.projection(step)
        patched = own.copy()
        patched[place + 1] += along.T @ (along @ (there - own)[place + 1])
        right["projection"] += _rest(seen, patched) == wanted
    return right["coordinates"], right["projection"], right["cases"]


def _rest(seen: Seen, stream: np.ndarray) -> object:
    """The answer of what comes after a stream."""
    model = seen.model.transformer
    after = hm.Transformer(model.input, model.sublayers[seen.sublayer + 1 :], model.readout)
    *_, last = streams(after, stream[None])
    read = last[0, 1:] if model.readout.token is None else last[0, [model.readout.token]]
    return seen.model.claim.target.decode(read @ model.readout.weights.T + model.readout.bias)


def probes(seeds: int, level: int = 2, names: Iterable[str] = ALL) -> dict[str, object]:
    """Steps that are worked out: what single coordinates say of them, and what patching them does.

    Of the codes' coordinates r squared with the best coordinate of the stream; of interchange
    interventions that change the answer, the share that answers as the program does.
    """
    rows = []
    for name in names:
        legible_model = legible(name)
        for step in legible_model.circuit.steps:
            blocks = legible_model.circuit.blocks_of(step)
            if step not in ALL[name].values_by_name or any(b.sublayer < 0 for b in blocks):
                continue  # a part of another step, or embedded
            for seed in range(seeds):
                chance = random.Random(f"probe {name} {step} {seed}")
                both = [seen(m, step) for m in (legible_model, disguised(name, level, seed))]
                rows.append([*map(_row, both, (chance, chance))])
    before, after = (np.array([row[k] for row in rows]) for k in (0, 1))
    found: dict[str, object] = {"steps": len(rows)}
    for label, table in (("legible", before), ("disguised", after)):
        cases = table[:, 4].sum()
        found |= {
            f"{label}: best coordinate, r squared": round(float(table[:, 0].mean()), 3),
            f"{label}: projection is off by at most": float(f"{table[:, 1].max():.3g}"),
            f"{label}: interchanges": int(cases),
            f"{label}: right by best coordinates": round(float(table[:, 2].sum() / cases), 3),
            f"{label}: right by projection": round(float(table[:, 3].sum() / cases), 3),
        }
    return found


def _row(one: Seen, chance: random.Random) -> list[float]:
    return [one.best_probe, one.projected_probe, *interchanged(one, chance, 12)]


# ---- what has to be refused ----------------------------------------------------------------------


def mutants_part(
    start: int, count: int, seed: int, levels: range = LEVELS, seeds: int = 2
) -> dict[str, object]:
    """Altered weights that break a word or an intervention, forged frames: none is proved."""
    counts: Counter[str] = Counter()
    false = []
    for case in range(start, start + count):
        chance = random.Random(f"disguised mutants {seed} {case}")
        name, level = chance.choice(sorted(ALL)), chance.choice(levels)
        model = disguised(name, level, chance.randrange(seeds))
        if case % 3 == 2:
            found: hm.Construction | None = replace(
                model, circuit=forged_frame(model.circuit, chance)
            )
            counts["frames"] += 1
        else:
            found = _breaking(name, model, chance)
            counts["broken" if found is not None else "harmless"] += 1
        if found is not None and hm.certify(found).verdict is PROVED:
            false.append((case, f"{name}, level {level}"))
    return {**counts, "false": false}


def _breaking(name: str, model: hm.Construction, chance: random.Random) -> hm.Construction | None:
    for _ in range(20):
        found = mutant(model, chance)
        if breaks_a_word(found, ALL[name]):
            return found
        if breaks_an_intervention(found, found.claim.target.program, chance, 5):
            return found
    return None


def forged_frame(circuit: Circuit, chance: random.Random) -> Circuit:
    """Two columns exchanged, one turned round, or a matrix that is not orthogonal."""
    frame = circuit.frame
    assert frame is not None
    rows = np.array(frame.rows)
    blocks = [b for b in circuit.blocks if b.form != "share"]
    first = chance.choice(blocks)
    kind = chance.choice(["exchange", "turn", "scale", "copy"])
    column = chance.choice(list(first.coordinates))
    if kind == "exchange":
        other = chance.choice([circuit.one, circuit.start])
        rows[:, [column, other]] = rows[:, [other, column]]
    elif kind == "turn":
        rows[:, column] *= -1
    elif kind == "scale":
        rows[:, column] *= 2
    else:
        rows[:, column] = rows[:, circuit.one]
    made = Frame(tuple(tuple(map(int, row)) for row in rows), frame.power, frame.grain)
    return replace(circuit, frame=made)


# ---- the table -----------------------------------------------------------------------------------

PARTS: dict[str, Callable[[int], dict[str, object]]] = {
    "models": models,
    "interventions": lambda seeds: interventions_part(0, 1000 * seeds, 0),
    "probes": lambda seeds: probes(min(seeds, 3)),
    "mutants": lambda seeds: mutants_part(0, 60 * seeds, 0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    found = {}
    for name, part in PARTS.items():
        if given.only in (None, name):
            began = time.process_time()
            found[name] = part(given.seeds)
            print(f"{name} ({time.process_time() - began:.0f} s of CPU)")
            for what, value in found[name].items():
                print(f"  {what}: {value}")
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
