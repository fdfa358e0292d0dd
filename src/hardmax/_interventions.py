"""Interventions on models of programs: steps are overwritten, and the program has the answer.

What the model does is in `core`, what the program means by it in `languages`; here names and items
become blocks and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hardmax._errors import HardmaxError, RequestError
from hardmax.core import (
    GIVEN,
    Combination,
    Construction,
    Overwritten,
    Pointwise,
    evaluate_overwritten,
)
from hardmax.languages.programs import ClosedSteps, Item, ProgramTarget, Value

Where = Mapping[str, Mapping[int, Item]]


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
    target = model.claim.target
    if not isinstance(target, ProgramTarget):
        raise RequestError("Interventions are on models of sequence programs; this is none.")
    circuit, steps = model.circuit, target.steps()
    if circuit is None or steps is None or not target.closed:
        raise RequestError(
            "This model is compact: its coordinates hold parts of several steps, and overwriting "
            'them is no intervention on one. Compile the program with route="legible".'
        )
    symbols = target.symbols_of(word)
    _check_held(model, target, where)
    try:
        target.program.rows(symbols, _where(where))
    except HardmaxError as reason:
        raise RequestError(f"The program has no answer under this intervention: {reason}") from None
    numbers = _numbers(target, where)
    outputs = evaluate_overwritten(model.transformer, circuit, steps, symbols, numbers)
    return target.decode((outputs if outputs.ndim == 2 else outputs[None]).tolist())


def _check_held(model: Construction, target: ProgramTarget, where: Where) -> None:
    """Refuse steps that masks stand for, and those that are made at once with others.

    What is a function of the token or the place alone need not be held: all that is made of it is
    embedded, and embedded again.
    """
    circuit, closed = model.circuit, target.closed_steps
    assert circuit is not None
    named = {closed.name(step): step for step in closed.place.values()}
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


def _where(where: Where) -> dict[str | Value, Mapping[int, Item]]:
    if not isinstance(where, Mapping) or not all(isinstance(h, Mapping) for h in where.values()):
        raise RequestError("Say what to overwrite as {step: {position: item}}.")
    found: dict[str | Value, Mapping[int, Item]] = {}
    found.update(where)
    return found


def _numbers(target: ProgramTarget, where: Where) -> Overwritten:
    """Items by the numbers of their steps; what a step cannot hold is refused."""
    closed = target.closed_steps
    steps = {closed.name(step): (step, value) for value, step in closed.place.items()}
    found = {}
    for name, held in where.items():
        if name not in steps:
            raise RequestError(
                f"The step {name!r} is a part of another one in this model, which holds "
                f"{', '.join(steps)}: give it a name of its own with .named({name!r})."
            )
        step, value = steps[name]
        code = target.codes[value]
        for one in held.values():
            if one not in code.items:
                shown = ", ".join("None" if i is None else str(i) for i in code.items[:12])
                more = ", ..." if len(code.items) > 12 else ""
                raise RequestError(
                    f"The step {name!r} cannot hold {one!r}; it holds {shown}{more}."
                )
        found[step] = {place: code.number(one) for place, one in held.items()}
    return found
