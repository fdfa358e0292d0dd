"""Options that several commands share."""

from __future__ import annotations

import click

from hardmax.lowering import PREFERENCES

DEFAULT_ERROR = "1e-3"

source = click.argument("source", metavar="SOURCE")
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
as_json = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object instead of tables."
)
