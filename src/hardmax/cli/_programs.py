"""Programs, alphabets and words as people type them. Nothing typed is ever evaluated as code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable

from hardmax import (
    Construction,
    HardmaxError,
    Program,
    ProgramPlan,
    RequestError,
    compile,
    plan,
    programs,
)
from hardmax.cli._files import names_text, read_text
from hardmax.core import Word

_MANY = (str, list, tuple)
_SYMBOL = (str, int)
# the makers of programs, with what their arguments must be; a name is always a text
_MAKERS: dict[str, dict[str, type | tuple[type, ...]]] = {
    "shift": {"by": int},
    "sort_by": {"key": dict},
    "count_of": {"symbol": _SYMBOL},
    "fraction_so_far": {"symbol": _SYMBOL},
    "prefix_count": {"symbol": _SYMBOL},
    "counter": {"symbol": _SYMBOL, "modulus": int},
    "detect": {"pattern": _MANY},
    "dyck": {"brackets": _MANY},
    "shuffle_dyck": {"brackets": _MANY},
    "fsm": {"transitions": (str, dict), "accepting": _MANY, "alphabet": _MANY},
    "table": {"rows": dict},
}
_READY = {name: value for name, value in vars(programs).items() if isinstance(value, Program)}
_LONGEST_NAME = 60
_LONGEST_CALL = 100_000  # beyond it a text is refused by whoever reads definitions


def compile_program(
    text: str,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    route: str | None,
    float_format: str | None = None,
) -> Construction:
    """The Transformer of a program for all words over an alphabet up to a length."""
    program, symbols, longest = _request(text, alphabet, length)
    return compile(
        program,
        alphabet=symbols,
        length=longest,
        positions=positions,
        route=route,
        float=float_format,
    )


def plan_of(
    text: str,
    alphabet: str | None,
    length: int | None,
    positions: str | None,
    float_format: str | None = None,
) -> ProgramPlan:
    """Every route of a program."""
    program, symbols, longest = _request(text, alphabet, length)
    return plan(program, alphabet=symbols, length=longest, positions=positions, float=float_format)


def _request(text: str, alphabet: str | None, length: int | None) -> tuple[Program, Word, int]:
    if alphabet is None or length is None:
        missing = "--alphabet" if alphabet is None else "--length"
        raise RequestError(
            f"A program needs the words it is for: {missing} is missing, as in "
            f"--alphabet abc --length 5."
        )
    symbols = read_alphabet(alphabet)
    text = read_text(text) if names_text(text) else text
    return read_program(text, symbols), symbols, length


def read_program(text: str, alphabet: Word) -> Program:
    """A program of the library by its name, one that it makes, or one that the text defines."""
    match _expression(text) if len(text) <= _LONGEST_CALL else None:
        case ast.Name(id=name) if name in _READY:
            return _READY[name]
        case ast.Name(id=name) if name in _MAKERS:
            return _make_program(name, [], {}, alphabet)
        case ast.Name(id=name) if name not in ("tokens", "index", "length"):
            raise RequestError(
                f"There is no program {name!r}. There are {', '.join([*_READY, *_MAKERS])}, or "
                f'write one, such as "tokens.at(length - 1 - index)".'
            )
        case ast.Call(func=ast.Name(id=name)) as call if name in _MAKERS:
            given = [_literal(name, argument) for argument in call.args]
            named = {str(k.arg): _literal(name, k.value) for k in call.keywords}
            return _make_program(name, given, named, alphabet)
        case ast.Call(func=ast.Name(id=name)) if name in _READY:
            raise RequestError(f"The program {name} takes no arguments. Write {name}.")
    name = " ".join(text.split())
    return programs.parse_program(text, name if len(name) <= _LONGEST_NAME else None)


def read_alphabet(text: str) -> Word:
    """Each character is a symbol, or each item between commas; all whole numbers are numbers."""
    if "," not in text:
        return tuple(text)
    symbols = [part.strip() for part in text.split(",")]
    if not all(symbols):
        raise RequestError(
            f"The alphabet {text!r} has an empty symbol. Write a text such as abc, or symbols "
            f"between commas, such as 0,1,2."
        )
    try:
        return tuple(int(symbol) for symbol in symbols)
    except ValueError:
        return tuple(symbols)


def read_word(text: str, alphabet: Word) -> Word:
    """A word over an alphabet: symbols between commas, one symbol, or one for each character."""
    known = {str(symbol): symbol for symbol in alphabet}
    if "," in text and "," not in known:
        parts = [part.strip() for part in text.split(",")]
    else:
        parts = [text] if text in known else list(text)
    return tuple(known.get(part, part) for part in parts)


def _expression(text: str) -> ast.expr | None:
    """What a text of a single expression says; None for definitions and for what is no program."""
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _literal(name: str, node: ast.expr) -> object:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise RequestError(
            f"The arguments of {name} must be plain values, such as 1, 'a' or ['()', '[]'], "
            f"but one is {_source_text(node)}."
        ) from None


def _source_text(node: ast.expr) -> str:
    try:
        return ast.unparse(node)[:60]
    except RecursionError:
        return "nested too deeply"


def _make_program(
    name: str, given: list[object], named: dict[str, object], alphabet: Word
) -> Program:
    maker: Callable[..., Program] = getattr(programs, name)
    signature = inspect.signature(maker)
    try:
        bound = signature.bind(*given, **named)
    except TypeError as reason:
        wanted = ", ".join(signature.parameters)
        raise RequestError(f"Write {name}({wanted}): {reason}.") from None
    kinds = _MAKERS[name] | {"name": str}
    for parameter, value in bound.arguments.items():
        if parameter in kinds and not isinstance(value, kinds[parameter]):
            raise RequestError(f"The argument {parameter} of {name} cannot be {value!r}.")
    if name == "fsm":
        bound.arguments.setdefault("alphabet", alphabet)
    try:
        return maker(*bound.args, **bound.kwargs)
    except HardmaxError:
        raise
    except (TypeError, ValueError, LookupError):
        raise RequestError(f"{name} cannot be made from these arguments.") from None
