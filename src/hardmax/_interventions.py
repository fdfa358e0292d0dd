"""Interventions on models of programs: steps are overwritten, and the program has the answer.

What the model does is in `core`, what the program means by it in `languages`; here names and items
become blocks and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from hardmax._errors import RequestError, SemanticsError
from hardmax.checker import ClosedSets, Unproved
from hardmax.core import (
    GIVEN,
    Circuit,
    Combination,
    Construction,
    Contents,
    Overwritten,
    Pointwise,
    contents_in_run,
    evaluate_overwritten,
)
from hardmax.languages.programs import (
    ClosedSteps,
    Item,
    ProgramTarget,
    Value,
    is_position,
    positions_of,
)

Where = Mapping["str | Value", Mapping[int, Item]]
Places = Mapping["str | Value", Iterable[int]]


def intervene(model: Construction, word: Iterable[str | int], where: Where) -> object:
    """The answer of a legible model to a word, some steps being overwritten at some positions.

    `where` is {step: {position: item}}. The blocks of a step are overwritten right after they are
    written; `tokens` and `index` can be, too. The answer is that of `program(word, where=where)`,
    which a certificate of the method "blocks" proves for all words and interventions. What the
    program refuses is refused with its reason. So are steps that a mask stands for (`index`, where
    positions are relative or scalar and selections go by order), since a mask does not move; steps
    without a name that are made at once with the one function that reads them; and compact models,
    whose coordinates hold several steps at once, or parts of one.

    >>> import hardmax as hm
    >>> reverse = hm.programs.parse_program("back = length - 1 - index; tokens.at(back)")
    >>> model = hm.compile(reverse, alphabet="abc", length=4, route="legible")
    >>> hm.intervene(model, "abca", {"back": {0: 1}})
    ['b', 'c', 'b', 'a']
    """
    legible = _Legible(model)
    symbols = legible.target.symbols_of(word)
    return legible.answer(symbols, where, None)


def interchange(
    model: Construction,
    word: Iterable[str | int],
    source: Iterable[str | int],
    places: Places,
) -> object:
    """The answer of a legible model to a word, some steps holding what they hold on another word.

    `places` is {step: positions}: there the blocks of a step are overwritten, in the run on the
    word, by what they hold at the same positions in the run on the source, which may be longer or
    shorter; `tokens` and `index` can be, too. The answer is that of the program whose steps hold
    the source's items there. Refusals are those of `intervene`.

    >>> import hardmax as hm
    >>> reverse = hm.programs.parse_program("back = length - 1 - index; tokens.at(back)")
    >>> model = hm.compile(reverse, alphabet="abc", length=4, route="legible")
    >>> hm.interchange(model, "abca", "cab", {"back": [0, 2]})  # there, back is 2 and 0
    ['c', 'c', 'a', 'a']
    """
    legible = _Legible(model)
    symbols, others = (legible.target.symbols_of(one) for one in (word, source))
    where = _held_in(legible.target, others, places)
    return legible.answer(
        symbols, where, contents_in_run(model.transformer, legible.circuit, others)
    )


class _Legible:
    """A model whose steps can be overwritten; all others are refused."""

    def __init__(self, model: Construction) -> None:
        target = model.claim.target if isinstance(model, Construction) else None
        if not isinstance(target, ProgramTarget):
            raise RequestError("Interventions are on models of sequence programs; this is none.")
        circuit, steps = model.circuit, target.steps()
        if circuit is None or steps is None or not target.closed:
            raise RequestError(
                "This model is compact: its coordinates hold parts of several steps, and "
                "overwriting them is no intervention on one. Compile the program with "
                'route="legible".'
            )
        self.target, self.circuit, self.steps = target, circuit, steps
        self.transformer = model.transformer

    def answer(self, symbols: list[Item], where: Where, contents: Contents | None) -> object:
        """What the model answers; the reason of the program where that has no answer."""
        where = _by_name(self.target, where)
        _check_held(self.circuit, self.target.closed_steps, where)
        try:
            self.target.program.rows(symbols, {**where})
        except SemanticsError as reason:
            raise RequestError(
                f"The program has no answer under this intervention: {reason}"
            ) from None
        outputs = evaluate_overwritten(
            self.transformer,
            self.circuit,
            self.steps,
            symbols,
            _numbers(self.target, where),
            contents,
        )
        return self.target.decode((outputs if outputs.ndim == 2 else outputs[None]).tolist())


def _held_in(target: ProgramTarget, source: list[Item], places: Places) -> Where:
    """The items that the program's steps hold at some positions of a word."""
    if not isinstance(places, Mapping) or not all(isinstance(p, Iterable) for p in places.values()):
        raise RequestError("Say what to take from the other word as {step: positions}.")
    program = target.program
    named = program.values_by_name
    known = dict.fromkeys(named.values())
    try:
        held = program.trace(source)
    except SemanticsError as reason:
        raise RequestError(f"The program has no answer on the other word: {reason}") from None
    found: dict[str | Value, dict[int, Item]] = {}
    for step, wanted in places.items():
        value = named.get(step) if isinstance(step, str) else step
        if value not in known:
            raise RequestError(
                f"There is no step {step!r} in this program; it has {', '.join(named)}."
            )
        row = held[value]
        found[step] = {}
        for place in wanted:
            if not is_position(place, len(row)):
                raise RequestError(
                    f"The other word of {len(row)} symbols has {positions_of(len(row))}, but "
                    f"{place!r} was to be taken from it."
                )
            found[step][place] = row[place]
    return found


def _check_held(circuit: Circuit, closed: ClosedSteps, where: Where) -> None:
    """Refuse steps that masks stand for, and those that are made at once with others.

    What is a function of the token or the place alone need not be held: all that is made of it is
    embedded, and embedded again.
    """
    named: dict[str | Value, int] = {closed.name(step): step for step in closed.place.values()}
    for name in where:
        if name in circuit.masked:
            heads = ", ".join(node.name for node in circuit.nodes if name in node.masks)
            raise RequestError(
                f"The step {name!r} cannot be overwritten in this model: the mask of {heads} "
                f"stands for it, which goes by the true places. Compile the program with "
                f'positions="one-hot".'
            )
        step = named.get(name)
        if step is not None and name not in circuit.steps and not _is_embedded(closed, step):
            raise RequestError(
                f"The step {name!r} is not held by itself in this model, which makes "
                f"{', '.join(circuit.steps)}: give it a name of its own with .named({name!r})."
            )


def _is_embedded(closed: ClosedSteps, step: int) -> bool:
    """Whether a step is a function of the token or of the place alone, or of nothing."""
    if step < GIVEN:
        return True
    made = closed.steps.steps[step - GIVEN]
    return isinstance(made, Pointwise | Combination) and all(
        _is_embedded(closed, source) for source in made.sources
    )


def _by_name(target: ProgramTarget, where: Where) -> Where:
    """Steps may be named by their values, too, as the program allows."""
    if not isinstance(where, Mapping) or not all(isinstance(h, Mapping) for h in where.values()):
        raise RequestError("Say what to overwrite as {step: {position: item}}.")
    names = {value: name for name, value in target.program.values_by_name.items()}
    return {
        names.get(step, step) if isinstance(step, Value) else step: held
        for step, held in where.items()
    }


@lru_cache(maxsize=32)
def _closed_sets(target: ProgramTarget) -> ClosedSets:
    steps = target.steps()
    assert steps is not None
    return ClosedSets(steps, target.words)


def _able(target: ProgramTarget, step: int) -> frozenset[int | Fraction] | None:
    """What a step can hold as the checker sees it, who proves nothing about other numbers.

    None where that is too much for it: then nothing is proved at all.
    """
    try:
        return frozenset(_closed_sets(target).numbers(step))
    except Unproved:
        return None


def _numbers(target: ProgramTarget, where: Where) -> Overwritten:
    """Items by the numbers of their steps; what a step cannot hold is refused."""
    closed = target.closed_steps
    steps = {closed.name(step): (step, value) for value, step in closed.place.items()}
    found = {}
    for name, held in where.items():
        if not isinstance(name, str) or name not in steps:
            raise RequestError(
                f"The step {name!r} is a part of another one in this model, which holds "
                f"{', '.join(steps)}: give it a name of its own with .named({name!r})."
            )
        step, value = steps[name]
        code, able = target.codes[value], _able(target, step)
        items = [i for i in code.items if able is None or code.number(i) in able]
        for one in held.values():
            if one not in items:
                shown = ", ".join("None" if i is None else str(i) for i in items[:12])
                more = ", ..." if len(items) > 12 else ""
                raise RequestError(
                    f"The step {name!r} cannot hold {one!r}; it holds {shown}{more}."
                )
        found[step] = {place: code.number(one) for place, one in held.items()}
    return found
