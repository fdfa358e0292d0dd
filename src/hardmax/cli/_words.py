"""What `hardmax run` does with a model that reads words: answers, and the way to them."""

from __future__ import annotations

from dataclasses import asdict

import click

from hardmax import FileError, RequestError
from hardmax._reading import naming, read_file, reason_in_words
from hardmax.cli._answers import WordAnswer, WordModel, shown_items
from hardmax.cli._errors import BROKEN_CLAIM, note_written
from hardmax.cli._points import standard_input
from hardmax.cli._programs import read_word
from hardmax.cli._records import print_json
from hardmax.core import SequenceTrace, Word, trace_sequence


def typed_words(values: tuple[str, ...], place: str | None, alphabet: Word) -> list[Word]:
    """The words from the command line, or one per line of a file or of - for stdin."""
    if place is not None and values:
        raise RequestError("Give the word as text or with --input, not both.")
    if place is None and not values:
        shown = alphabet[: min(3, len(alphabet))]
        raise RequestError(f"Say on which word: {shown_items(list(shown))}, or --input FILE.")
    return [read_word(text, alphabet) for text in (values if place is None else _lines(place))]


def run_words(
    model: WordModel,
    words: list[Word],
    trace: bool,
    plot: str | None,
    as_json: bool,
    raw: bool = False,
) -> None:
    """Answer every word, and follow one through the model if that is asked for.

    In words, unless the raw numbers are asked for; JSON has both.
    """
    followed = None
    if trace or plot is not None:
        if len(words) != 1:
            raise RequestError(f"--trace and --plot follow one word, but {len(words)} came.")
        followed = trace_sequence(model.transformer, words[0], model.legend, model.circuit)
    answers = [model.answer(word) for word in words]
    if plot is not None and followed is not None:
        _draw(followed, plot)
    if as_json:
        _print_record(model, answers, followed if trace else None, plot)
    else:
        from hardmax.cli._trace_tables import print_answers, print_in_words, print_trace

        print_answers(model, answers, plot)
        if trace and followed is not None:
            (print_trace if raw else print_in_words)(followed)
    _warn(model, answers)


def _lines(place: str) -> list[str]:
    try:
        if place == "-":
            return standard_input().read().splitlines()
        with naming(place):
            return read_file(place).decode().splitlines()
    except UnicodeDecodeError:
        raise FileError(f"{place} holds no text. Give one word per line.") from None
    except OSError as reason:
        raise FileError(
            f"The standard input could not be read ({reason_in_words(reason)})."
        ) from reason


def _draw(trace: SequenceTrace, plot: str) -> None:
    from hardmax.plots import attention_picture

    attention_picture(trace, path=plot)
    note_written(plot)


def _print_record(
    model: WordModel, answers: list[WordAnswer], trace: SequenceTrace | None, plot: str | None
) -> None:
    claim = model.claim
    print_json(
        {
            "claim": claim and {"error": claim.error, "domain": str(claim.domain)},
            "words": [answer.record() for answer in answers],
            "trace": None if trace is None else trace_record(trace),
            "plot": plot,
        }
    )


def trace_record(trace: SequenceTrace) -> dict[str, object]:
    """Everything that was seen on the way of one word: in words, decoded, and bare."""
    return {
        "in_words": trace.in_words,
        "said": [asdict(one) for one in trace.said],
        "tokens": list(trace.tokens),
        "coordinates": list(trace.coordinates),
        "streams": [stream.tolist() for stream in trace.streams],
        "heads": [
            {
                "sublayer": head.sublayer,
                "head": head.head,
                "step": head.step,
                "adds_up": head.adds_up,
                "shares": [asdict(one) for one in head.shares],
                "weights": head.weights.tolist(),
            }
            for head in trace.heads
        ],
    }


def _warn(model: WordModel, answers: list[WordAnswer]) -> None:
    if model.claim is None:
        click.echo("The file does not hold the program: the answers are bare numbers.", err=True)
        return
    differences = [answer.difference for answer in answers if answer.difference is not None]
    outside = len(answers) - len(differences)
    if outside:
        many = f"{outside} of {len(answers)} words lie " if len(answers) > 1 else ""
        click.echo(f"{many}outside the claimed {model.claim.domain}: no promise", err=True)
    if any(not difference <= model.claim.error for difference in differences):
        click.echo("A difference breaks the claim: do not use this model.", err=True)
        raise click.exceptions.Exit(BROKEN_CLAIM)
