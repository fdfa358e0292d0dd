"""The guard around every command: whatever goes wrong ends in one line, never in a traceback."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, ParamSpec

import click

from hardmax._errors import HardmaxError
from hardmax._reading import reason_in_words
from hardmax.cli._workers import hide_warnings

BROKEN_CLAIM = 1
BAD_INPUT = 2
INTERNAL = 70  # EX_SOFTWARE of sysexits.h
INTERRUPTED = 130  # 128 + SIGINT, as shells count
UNREAD = 141  # 128 + SIGPIPE

_WRITTEN = "hardmax.written"
_DEBUG = "hardmax.debug"
_LONGEST = 1000  # letters of a sentence that may quote what was given
_P = ParamSpec("_P")


def _remember(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        context.meta[_DEBUG] = True


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_remember,
    help="Show the traceback of whatever goes wrong, and warnings.",
)


def telling_refusals(command: Callable[_P, None]) -> Callable[_P, None]:
    """The command, with refusals and interruptions told in one line on stderr, and --debug.

    A closed pipe ends in silence. What nobody foresaw ends in a line, too. Both have exit codes
    of their own: they say nothing about the input, nor about a claim.
    """

    @debug
    @functools.wraps(command)
    def safe(*args: _P.args, **kwargs: _P.kwargs) -> None:
        _print_anything()
        try:
            with warnings.catch_warnings():
                if not _debugging():
                    hide_warnings()
                command(*args, **kwargs)
        except (click.exceptions.Exit, click.ClickException, click.Abort):
            raise
        except (BrokenPipeError, SystemExit):  # which is how Rich tells of a closed pipe
            _forget_output()
            raise click.exceptions.Exit(UNREAD) from None
        except KeyboardInterrupt:
            _leave_interrupted()
        except Exception as reason:
            _leave(*_verdict(reason))

    return safe


@contextlib.contextmanager
def _ends() -> Iterator[None]:
    """A closed pipe and Ctrl-C have the codes that they have in commands: click would say 1."""
    try:
        yield
    except BrokenPipeError:
        _forget_output()
        raise click.exceptions.Exit(UNREAD) from None
    except KeyboardInterrupt:
        _say("Interrupted; nothing was written.")
        raise click.exceptions.Exit(INTERRUPTED) from None


class Commands(click.Group):
    """A group that has the net where its commands do not: around help, version and usage.

    Which commands there are is for others to say.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        with _ends():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        with _ends():
            return super().invoke(ctx)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **kwargs)
        except OSError as reason:  # all that is done outside of commands is writing
            sentence, code = _verdict(reason)
            _say(sentence)
            sys.exit(code)


def _verdict(reason: Exception) -> tuple[str, int]:
    """One sentence about what went wrong, and the exit code."""
    match reason:
        case HardmaxError():
            return f"{type(reason).__name__}: {reason}", BAD_INPUT
        case OSError():
            return (
                f"OSError: The output could not be written ({reason_in_words(reason)}).",
                BAD_INPUT,
            )
        case MemoryError():
            return "MemoryError: This does not fit into memory; try a smaller source.", BAD_INPUT
        case RecursionError():
            return "RecursionError: This is nested too deeply; split it up.", BAD_INPUT
        case RuntimeError() if "no compiled object" in str(reason):
            # a Ctrl-C while loops are compiled is lost in a callback, and comes out like this
            return _interruption(), INTERRUPTED
    return (
        f"internal error: {type(reason).__name__}: {_short(str(reason))} "
        f"This is a fault of hardmax: please report it, with what --debug shows.",
        INTERNAL,
    )


def _short(message: str) -> str:
    """The beginning of a message that nobody wrote for people, as a sentence."""
    words = " ".join(message.split())
    words = words if len(words) <= 200 else f"{words[:200]}..."
    return words if words.endswith((".", "!", "?")) else f"{words}."


def _interruption() -> str:
    written = click.get_current_context().meta.get(_WRITTEN, "nothing")
    return f"Interrupted; {written} was written."


def _leave_interrupted() -> NoReturn:
    _leave(_interruption(), INTERRUPTED)


def note_written(path: str) -> None:
    """Remember, for an interruption from now on, that this file is there."""
    click.get_current_context().meta[_WRITTEN] = path


def _debugging() -> bool:
    return bool(click.get_current_context().meta.get(_DEBUG))


def _print_anything() -> None:
    """A file may have a name that the terminal's encoding lacks; print it with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave(sentence: str, code: int) -> NoReturn:
    if _debugging():
        _say(traceback.format_exc().rstrip("\n"))
    _say(_on_one_line(sentence))
    raise click.exceptions.Exit(code)


def _say(text: str) -> None:
    """On stderr; where that cannot be written to, the exit code has to do."""
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def _forget_output() -> None:
    """Python writes what is left in its buffers when it ends: to nobody."""
    with contextlib.suppress(OSError, AttributeError):  # a stream without a file
        nobody = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nobody, sys.stdout.fileno())
        os.close(nobody)


def _on_one_line(sentence: str) -> str:
    """One line; a text with a caret below it, at the end of a sentence, keeps its two."""
    lines = sentence.splitlines()
    shown = lines[-2:] if len(lines) > 2 and lines[-1].strip() == "^" else []
    words = " ".join(" ".join(lines[: len(lines) - len(shown)]).split())
    words = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}..."
    return "\n".join([words, *shown])
