"""Interventions on models of programs: steps are overwritten, and the program has the answer.

What the model does is in `core`, what the program means by it in `languages`; here names and items
become blocks and numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hardmax._errors import HardmaxError, RequestError
from hardmax.core import Construction, Overwritten, evaluate_overwritten
from hardmax.languages.programs import Item, ProgramTarget, Value

Where = Mapping[str, Mapping[int, Item]]


def intervene(model: Construction, word: Iterable[str | int], where: Where) -> object:
    """The answer of a legible model to a word, some steps being overwritten at some positions.

    `where` is {step: {position: item}}. The blocks of a step are overwritten right after they are
    written; `tokens` and `index` can be, too. The answer is that of `program(word, where=where)`,
    which a certificate of the method "blocks" proves for all words and interventions. What the
    program refuses is refused with its reason, and so are compact models, whose coordinates hold
    several steps at once, or parts of one.

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
    try:
        target.program.rows(symbols, _where(where))
    except HardmaxError as reason:
        raise RequestError(f"The program has no answer under this intervention: {reason}") from None
    numbers = _numbers(target, where)
    outputs = evaluate_overwritten(model.transformer, circuit, steps, symbols, numbers)
    return target.decode((outputs if outputs.ndim == 2 else outputs[None]).tolist())


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
