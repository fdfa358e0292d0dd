"""`hardmax warm`: loops compiled ahead."""

from __future__ import annotations

import time

import click

from hardmax.cli._errors import telling_refusals


@click.command("warm", short_help="Compile all loops ahead, for images and clusters.")
@telling_refusals
def warm_up() -> None:
    """Compile the loops that count regions, make hulls and locate points, and keep them on disk.

    Nobody has to: small questions are answered without, and large ones compile what they need once
    on a machine. Run it while an image is built, or before many jobs begin. It takes a minute or
    two, and no time where everything is kept already.

    \b
    Example:
      hardmax warm
    """
    from hardmax.geometry import warm

    begun = time.monotonic()
    for name in warm():
        click.echo(f"{time.monotonic() - begun:6.1f} s  {name}")
    click.echo(f"{time.monotonic() - begun:6.1f} s  ready")
