"""Options that several commands share."""

from __future__ import annotations

import click

from hardmax.lowering import PREFERENCES
from hardmax.numerics import FORMATS

DEFAULT_ERROR = "1e-3"

source = click.argument("source", metavar="SOURCE")
optional_source = click.argument("source", metavar="[SOURCE]", required=False)
program = click.option(
    "--program",
    metavar="TEXT",
    help='A sequence program: its name, such as sort or "shift(1)", or its definitions, typed or '
    "in a .txt file.",
)
alphabet = click.option(
    "--alphabet",
    metavar="SYMBOLS",
    help="Of the program's words: abc, or symbols between commas, such as 0,1,2.",
)
length = click.option(
    "--length", type=click.IntRange(min=0), metavar="NUMBER", help="Of the program's longest word."
)
positions = click.option(
    "--positions",
    metavar="KIND",
    help="Of a program: scalar, one-hot, sinusoidal, relative or none.  "
    "[default: scalar, or one-hot for --route legible]",
)
on = click.option(
    "--on",
    "domain",
    metavar="DOMAIN",
    multiple=True,
    help='Where the error is promised: x=-1:1, once for each variable, or "[-1,1]^8".',
)
error = click.option(
    "--error", metavar="NUMBER", help=f"The largest error allowed.  [default: {DEFAULT_ERROR}]"
)
prefer = click.option("--prefer", metavar="WHAT", help=f"Pick a route by {', '.join(PREFERENCES)}.")
float_format = click.option(
    "--float",
    "float_format",
    metavar="FORMAT",
    help=f"What the claim is about: {', '.join(FORMATS)}.  [default: float64]",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)
tolerance = click.option(
    "--tolerance",
    metavar="NUMBER",
    help="Go on until certified is within this share of measured, such as 0.01.",
)
budget = click.option(
    "--budget",
    metavar="AMOUNT",
    help='Stop after "1e8 work" (a unit is about a microsecond, but counted: the verdict is the '
    'same on a busy machine), "1e6 boxes", or a time such as "30s" or "2 min".  '
    "[default: 6e7 work]",
)
jobs = click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="How many processes share the proof.",
)
plot = click.option(
    "--plot", metavar="FILE", help="Draw the error over the domain as .svg, .png or .pdf."
)
