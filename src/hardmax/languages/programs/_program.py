"""A sequence program: a function from words to words, with its own interpreter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Integral

from hardmax._errors import RequestError
from hardmax.languages.programs._interpreter import Row, sources_of, values_behind, values_on
from hardmax.languages.programs._items import Item, item
from hardmax.languages.programs._naming import step_names
from hardmax.languages.programs._nodes import Operand, Sequence, Value, as_value
from hardmax.languages.programs._printing import step_text

Where = Mapping["str | Value", Mapping[int, Item]]  # steps that hold other items, by position
Answer = list[Item] | list[tuple[Item, ...]] | tuple[Item, ...] | Item


@dataclass(frozen=True, eq=False)
class Program:
    """What every position (or, with `at`, one position) of a word answers.

        >>> reverse = program(lambda s: s.tokens.at(s.length - 1 - s.index))
        >>> reverse("abc")
        ['c', 'b', 'a']

    One output answers a list of items; several answer a list of tuples. With `at` the answer is
    one item (or tuple): that of the position `at`, negative from the end. The empty word has the
    empty answer, and none with `at`. What stands `beside` is worked out, too, and is no answer.
    """

    outputs: tuple[Value, ...]
    name: str = "program"
    at: int | None = None
    beside: tuple[Value, ...] = ()

    def __init__(
        self,
        outputs: Value | Iterable[Operand],
        name: str = "program",
        at: int | None = None,
        beside: Iterable[Value] = (),
    ) -> None:
        listed = (outputs,) if isinstance(outputs, Value) else tuple(outputs)
        object.__setattr__(self, "outputs", tuple(map(as_value, listed)))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "beside", tuple(beside))
        if at is not None and (isinstance(at, bool) or not isinstance(at, int)):
            raise RequestError(f"A position is a whole number, not {at!r}.")
        if not self.outputs:
            raise RequestError("A program needs at least one output.")

    def __call__(self, word: Iterable[Item], where: Where | None = None) -> Answer:
        """The answer for a word: a text, or a list of symbols.

        With `where`, {step: {position: item}}, some steps hold other items at some positions: a
        step is named by the value, or as `values_by_name` does.

        >>> reverse = program(lambda s: s.tokens.at((s.length - 1 - s.index).named("back")))
        >>> reverse("abc", where={"back": {0: 1}})
        ['b', 'b', 'a']
        """
        if not isinstance(word, Iterable):
            raise RequestError(f"A program reads a text or a list of symbols, not {word!r}.")
        return self.answer(self.rows(word, where))

    def rows(self, word: Iterable[Item], where: Where | None = None) -> list[tuple[Item, ...]]:
        """The outputs at every position that answers."""
        symbols = list(word)
        held = self.trace(symbols, where)
        rows = list(zip(*(held[output] for output in self.outputs), strict=True))
        if self.at is None:
            return rows
        if not -len(symbols) <= self.at < len(symbols):
            raise RequestError(
                f"The program answers at position {self.at}, which a word of "
                f"{len(symbols)} symbols does not have."
            )
        return [rows[self.at]]

    def answer(self, rows: list[tuple[Item, ...]]) -> Answer:
        """Rows as a user sees them: a single output without its row, a single answer as such."""
        if len(self.outputs) > 1:
            return rows if self.at is None else rows[0]
        items = [row[0] for row in rows]
        return items if self.at is None else items[0]

    def trace(self, word: Iterable[Item], where: Where | None = None) -> dict[Value, Row]:
        """What every position holds, value by value, in the order of the steps."""
        symbols = list(word)
        roots = (*self.outputs, *self.beside)
        return values_on(roots, symbols, self._overwritten(where or {}, len(symbols)))

    def _overwritten(self, where: Where, length: int) -> dict[Value, dict[int, Item]]:
        """By values, with positions that are there."""
        named = self.values_by_name
        known = dict.fromkeys(named.values())
        found: dict[Value, dict[int, Item]] = {}
        for step, held in where.items():
            value = named.get(step) if isinstance(step, str) else step
            if value is None or value not in known:
                raise RequestError(
                    f"There is no step {step!r} in this program; it has {', '.join(named)}."
                )
            for place in held:
                if not is_position(place, length):
                    raise RequestError(
                        f"A word of {length} symbols has {positions_of(length)}, but {place!r} was "
                        f"to be overwritten."
                    )
            found[value] = {place: item(one) for place, one in held.items()}
        return found

    @property
    def values_by_name(self) -> dict[str, Value]:
        """The steps by their names: those given by `named`, tokens, index, length, count, ...

        >>> list(program(lambda s: s.tokens.at(s.index - 1)).values_by_name)
        ['index', 'tokens', 'combination', 'answer']
        """
        return {name: value for value, name in step_names(self.outputs, self.beside).items()}

    @property
    def values(self) -> list[Value]:
        """All values, each after those that it reads."""
        return list(values_behind(*self.outputs, *self.beside))

    def __str__(self) -> str:
        """The steps, one line each; what is read more than once has a name."""
        readers: dict[int, int] = {}
        for value in self.values:
            for source in sources_of(value):
                readers[id(source)] = readers.get(id(source), 0) + 1
        names: dict[int, str] = {}
        lines = []
        for value in self.values:
            if value in self.beside or (readers.get(id(value), 0) > 1 and sources_of(value)):
                lines.append(f"v{len(names)} = {step_text(value, names)}")
                names[id(value)] = f"v{len(names)}"
        answer = ", ".join(names.get(id(out), step_text(out, names)) for out in self.outputs)
        where = "" if self.at is None else f" at position {self.at}"
        return "\n".join([f"{self.name}:", *(f"  {line}" for line in lines), f"  {answer}{where}"])

    def __repr__(self) -> str:
        return f"Program({self.name}: {len(self.values)} values)"


def positions_of(length: int) -> str:
    """The positions of a word, in words."""
    return f"the positions 0 to {length - 1}" if length else "no positions"


def is_position(place: object, length: int) -> bool:
    """Whether a word has this position; 1.0 and True are none."""
    is_whole = isinstance(place, Integral) and not isinstance(place, bool)
    return is_whole and place in range(length)


def program(
    rule: Callable[[Sequence], Operand | list[Operand] | tuple[Operand, ...]],
    *,
    name: str | None = None,
    at: int | None = None,
) -> Program:
    """The program that a rule writes down: a function of the sequence `s`.

    program(lambda s: (there(s.tokens) == s.tokens).count())

    >>> twice = hm.program(lambda s: 2 * s.index, name="twice")
    >>> twice("abc")
    [0, 2, 4]
    """
    if not callable(rule):
        raise RequestError(f"A rule is a function of the sequence, not {type(rule).__name__}.")
    made = rule(Sequence())
    called = getattr(rule, "__name__", "program") if name is None else name
    return Program(
        made if isinstance(made, Value | list | tuple) else as_value(made),
        "program" if called == "<lambda>" else called,
        at,
    )
