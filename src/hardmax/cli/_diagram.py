"""`hardmax diagram`: which key wins where, as a table and as a picture."""

from __future__ import annotations

import math
from fractions import Fraction

import click
import numpy as np

from hardmax import PowerDiagram, RequestError, TopKDiagram, power_diagram, top_k_diagram
from hardmax.cli import _options
from hardmax.cli._arrays import read_archive
from hardmax.cli._errors import note_written, telling_refusals
from hardmax.cli._files import check_picture_place
from hardmax.cli._records import print_json

_SHOWN = 20  # cells that the table lists


@click.command("diagram", short_help="Show which key of a head wins where.")
@click.argument("file", metavar="KEYS.npz")
@click.option("-o", "--output", metavar="FILE", help="Draw it as .svg, .png, .pdf (in the plane).")
@click.option("--on", "domain", metavar="BOX", help='Restrict it to a box such as "[-4,4]^2".')
@click.option(
    "--temperature",
    "temperatures",
    type=float,
    multiple=True,
    metavar="T",
    help="Shade the picture by softmax weights; repeat it for several panels.",
)
@click.option("--adjacency", is_flag=True, help="Join the cells that share a wall.")
@click.option("--top-k", type=int, metavar="K", help="Cells of queries with the same K best keys.")
@_options.as_json
@telling_refusals
def show_diagram(
    file: str,
    output: str | None,
    domain: str | None,
    temperatures: tuple[float, ...],
    adjacency: bool,
    top_k: int | None,
    as_json: bool,
) -> None:
    """Decide exactly which of the keys in KEYS.npz win somewhere, who borders on whom and where
    walls meet. The file holds `keys`, one a row, and perhaps `biases`, one for each key; several
    heads are stacked (heads x keys x dimensions), and are drawn over each other.

    \b
    Examples:
      hardmax diagram keys.npz -o diagram.svg
      hardmax diagram keys.npz --on "[-4,4]^2" --temperature 1 --temperature 0.1 -o shaded.png
      hardmax diagram keys.npz --top-k 2 --json
    """
    if output is None and (temperatures or adjacency):
        raise RequestError("--temperature and --adjacency are about the picture; give -o FILE.")
    if output is not None:
        check_picture_place(output, source=file, called="the file of keys")
    if top_k is not None:
        _show_top_k(file, top_k, domain, output, as_json)
        return
    heads = [power_diagram(keys, biases, domain) for keys, biases in _heads(file)]
    if output is not None:
        from hardmax.plots import diagram_picture

        diagram_picture(heads, path=output, temperatures=temperatures, adjacency=adjacency)
        note_written(output)
    _report(heads, output, as_json)


def _heads(file: str) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Keys and biases of each head."""
    arrays = read_archive(file, ["keys"])
    keys, biases = arrays["keys"], arrays.get("biases")
    if keys.ndim < 3:
        return [(keys, biases)]
    levels = [None] * len(keys) if biases is None else biases
    shape = keys.shape[:1] if biases is None else biases.shape
    if keys.ndim > 3 or shape[:1] != keys.shape[:1]:
        raise RequestError(
            f"{file} has keys of shape {keys.shape} and biases of shape {shape}; give heads x keys "
            f"x dimensions, and heads x keys."
        )
    return list(zip(keys, levels, strict=True))


def _report(heads: list[PowerDiagram], output: str | None, as_json: bool) -> None:
    from hardmax.geometry import common_refinement

    cells = None
    if len(heads) > 1 and heads[0].on is None:
        cells = common_refinement([(one.sites, one.levels) for one in heads]).count
    if as_json:
        print_json(
            {
                "heads": [_record(head) for head in heads],
                "refinement_cells": cells,
                "picture": output,
            }
        )
        return
    from hardmax.cli._diagram_tables import print_diagram

    for number, head in enumerate(heads):
        print_diagram(head, f"head {number}: " if len(heads) > 1 else "", _SHOWN)
    if cells is not None:
        click.echo(f"together {cells:,} cells: the common refinement of {len(heads)} heads")
    if output is not None:
        click.echo(f"drawn {output}")


def _record(head: PowerDiagram) -> dict[str, object]:
    record: dict[str, object] = {
        "keys": len(head.sites),
        "dimension": head.dimension,
        "is_fan": head.is_fan,
        "live": head.live.tolist(),
        "empty": head.empty.tolist(),
        "neighbours": head.neighbours.tolist(),
        "vertices": head.vertices.tolist(),
        "exact_decisions": head.decided,
    }
    if head.on is not None:
        record["on"] = str(head.on)
        record["volumes"] = {str(key): _as_float(v) for key, v in head.volumes().items()}
    return record


def _as_float(volume: Fraction) -> float:
    try:
        return float(volume)
    except OverflowError:  # a cell of a box with sides of 1e300
        return math.inf


def _show_top_k(file: str, k: int, domain: str | None, output: str | None, as_json: bool) -> None:
    heads = _heads(file)
    if len(heads) > 1:
        raise RequestError("--top-k is about one head, but the file holds several.")
    diagram: TopKDiagram = top_k_diagram(heads[0][0], k, heads[0][1], domain)
    if output is not None:
        from hardmax.plots import diagram_picture

        names = [" ".join(map(str, cell)) for cell in diagram.sets]
        diagram_picture(diagram.diagram, path=output, names=names, title=f"the {k} best keys")
        note_written(output)
    if as_json:
        print_json(
            {
                "k": k,
                "cells": [list(cell) for cell in diagram.cells],
                "neighbours": [[list(a), list(b)] for a, b in diagram.neighbours],
                "vertices": diagram.vertices.tolist(),
                "picture": output,
            }
        )
        return
    click.echo(f"{len(diagram.cells):,} sets of {k} keys are the best somewhere")
    for cell in diagram.cells[:_SHOWN]:
        click.echo("  " + " ".join(map(str, cell)))
    if len(diagram.cells) > _SHOWN:
        click.echo(f"  and {len(diagram.cells) - _SHOWN:,} more; --json lists all")
    if output is not None:
        click.echo(f"drawn {output}")
