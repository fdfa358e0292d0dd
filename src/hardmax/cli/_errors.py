"""The guard around every command: whatever goes wrong ends in one line, never in a traceback."""

from __future__ import annotations

import functools
import io
import sys
from collections.abc import Callable
from typing import NoReturn, ParamSpec

import click

from hardmax import HardmaxError

BROKEN_CLAIM = 1
BAD_INPUT = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells count

_WRITTEN = "hardmax.written"
_P = ParamSpec("_P")


def guarded(command: Callable[_P, None]) -> Callable[_P, None]:
    """The command, with refusals and interruptions told in one line on stderr.

    A closed pipe is left to click, which ends in silence with exit code 1.
    """

    @functools.wraps(command)
    def safe(*args: _P.args, **kwargs: _P.kwargs) -> None:
        _print_anything()
        try:
            command(*args, **kwargs)
        except HardmaxError as reason:
            _leave(f"{type(reason).__name__}: {reason}", BAD_INPUT)
        except BrokenPipeError:
            raise
        except OSError as reason:
            _leave(f"OSError: The output could not be written ({reason.strerror}).", BAD_INPUT)
        except MemoryError:
            _leave("MemoryError: This does not fit into memory; try a smaller source.", BAD_INPUT)
        except KeyboardInterrupt:
            _interrupted()
        except RuntimeError as reason:
            # a Ctrl-C while loops are compiled is lost in a callback, and comes out like this
            if "no compiled object" not in str(reason):
                raise
            _interrupted()

    return safe


def _interrupted() -> NoReturn:
    written = click.get_current_context().meta.get(_WRITTEN, "nothing")
    _leave(f"Interrupted; {written} was written.", INTERRUPTED)


def note_written(path: str) -> None:
    """Remember, for an interruption from now on, that this file is there."""
    click.get_current_context().meta[_WRITTEN] = path


def _print_anything() -> None:
    """A file may have a name that the terminal's encoding lacks; print it with escapes."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _leave(sentence: str, code: int) -> NoReturn:
    click.echo(_on_one_line(sentence), err=True)
    raise click.exceptions.Exit(code)


def _on_one_line(sentence: str) -> str:
    """One line; a text with a caret below it, at the end of a sentence, keeps its two."""
    lines = sentence.splitlines()
    shown = lines[-2:] if len(lines) > 2 and lines[-1].strip() == "^" else []
    told = " ".join(" ".join(lines[: len(lines) - len(shown)]).split())
    return "\n".join([told, *shown])
