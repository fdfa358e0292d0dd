"""`hardmax export --suite`: the gallery as a folder of ground truth."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

import click

from hardmax import Suite, write_suite
from hardmax.cli._errors import note_written
from hardmax.cli._progress import progress
from hardmax.cli._records import print_json
from hardmax.programs import GALLERY


def export_suite(asked: Mapping[str, str | int], as_json: bool) -> None:
    """Write it, with a bar for people who wait, and tell what is not in it."""
    options = dict(asked)
    place = str(options.pop("suite"))
    names = options.pop("programs", None)
    programs = None if names is None else [one.strip() for one in str(names).split(",")]
    total = len(GALLERY if programs is None else dict.fromkeys(programs))
    with progress("programs", total, not as_json and sys.stderr.isatty()) as advance:

        def tell(_name: str, done: int, of: int) -> None:
            if done:
                note_written(f"a suite with {done} of {of} (the same command goes on with it)")
            if advance is not None:
                advance(min(done, 1))

        made = write_suite(place, programs=programs, progress=tell, **options)  # type: ignore
    note_written(place)
    _tell(made, as_json)


def _tell(made: Suite, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "written": str(made.folder),
                "programs": list(made.written),
                "left_out": dict(made.left_out),
                "without": dict(made.without),
            }
        )
        return
    programs = f"{len(made.written)} program{'s' * (len(made.written) != 1)}"
    lines = [f"written     {made.folder}: {programs}, proved folder by folder"]
    lines += [f"left out    {name}: {reason}" for name, reason in made.left_out.items()]
    lines += [f"without     {name}: {reason}" for name, reason in made.without.items()]
    if made.written:
        shown = os.path.join(made.folder, made.written[0])
        lines.append(f"prove it    hardmax verify {os.path.join(shown, 'hardmax.safetensors')}")
        lines.append(f"            {shown} has its page, README.md, and a folder for each tool")
    click.echo("\n".join(lines))
