"""`hardmax bounds`: how many cells an architecture can have, from above and from below."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import click

from hardmax import RequestError
from hardmax.cli import _options
from hardmax.cli._errors import telling_refusals
from hardmax.cli._records import print_json
from hardmax.geometry.bounds import Bound, Comparison, TransformerBounds, compare, transformer

_KINDS = {"upper": "at most", "lower": "at least", "exact": "exactly"}


@click.command("bounds", short_help="Bound the cells of an architecture, exactly.")
@click.option("--tokens", type=int, required=True, metavar="N", help="Keys that a head sees.")
@click.option("--heads", type=int, required=True, metavar="H", help="Heads in a layer.")
@click.option("--width", type=int, required=True, metavar="D", help="Width of the stream.")
@click.option("--layers", type=int, required=True, metavar="L", help="Layers in the stack.")
@click.option(
    "--feed-forward", type=int, metavar="M", help="Hidden ReLUs in a layer.  [default: none]"
)
@click.option(
    "--dimension", type=int, metavar="D", help="Of the query's inputs.  [default: the width]"
)
@click.option("--key-width", type=int, metavar="K", help="Of a head.  [default: width / heads]")
@click.option("--bias-free", is_flag=True, help="Scores <q, k> alone, without a bias for each key.")
@click.option("--compare", "versus", is_flag=True, help="Other shapes with the same parameters.")
@_options.as_json
@telling_refusals
def show_bounds(
    tokens: int,
    heads: int,
    width: int,
    layers: int,
    feed_forward: int | None,
    dimension: int | None,
    key_width: int | None,
    bias_free: bool,
    versus: bool,
    as_json: bool,
) -> None:
    """Count how many routing and activation cells a hard Transformer can have, as one query moves
    over fixed tokens: one head, a layer of heads, a feed-forward layer, the whole stack from above,
    and real weights from below. Every number is an exact integer; --json prints all its digits.

    \b
    Examples:
      hardmax bounds --tokens 512 --heads 8 --width 512 --layers 6
      hardmax bounds --tokens 6 --heads 3 --width 3 --layers 1 --key-width 2 --bias-free
      hardmax bounds --tokens 512 --heads 8 --width 512 --layers 6 --feed-forward 2048 --compare
    """
    if versus and key_width is not None:
        raise RequestError("--compare splits the width among the heads. Leave out --key-width.")
    bound = transformer(
        tokens=tokens,
        heads=heads,
        width=width,
        layers=layers,
        feed_forward=feed_forward,
        dimension=dimension,
        key_width=key_width,
        bias_free=bias_free,
    )
    others = _comparison(bound, dimension) if versus else None
    if as_json:
        comparison = {"comparison": others.as_dict()} if others else {}
        print_json(bound.as_dict() | comparison)
        return
    _print(bound)
    if others:
        _print_comparison(others)


def _comparison(found: TransformerBounds, dimension: int | None) -> Comparison:
    sizes = found.architecture
    return compare(
        sizes.tokens,
        heads=sizes.heads,
        width=sizes.width,
        layers=sizes.layers,
        feed_forward=sizes.feed_forward,
        dimension=dimension,
        bias_free=sizes.bias_free,
    )


def _print(found: TransformerBounds) -> None:
    from hardmax.cli._tables import plain_console, plain_table, print_table

    console, bounds = plain_console(), list(found.rows)
    console.print(f"{found.architecture}", soft_wrap=True)
    if found.feed_forward:
        alone = found.without_feed_forward
        bounds += [
            replace(bound, name=f"{bound.name}, attention only")
            for bound in (alone.upper, alone.lower)
        ]
    references = list(dict.fromkeys(bound.reference for bound in bounds))
    table = plain_table("bound", "kind", "value", "formula", "reference", gap=2)
    for column in (1, 3):
        table.columns[column].justify = "left"
    for bound in bounds:
        number = f"[{references.index(bound.reference) + 1}]"
        table.add_row(bound.name, _KINDS[bound.kind], bound.scientific, bound.formula, number)
    print_table(console, table)
    for line in _notes(found, bounds, references):
        console.print(line, soft_wrap=True)


def _notes(found: TransformerBounds, bounds: list[Bound], references: list[str]) -> Iterator[str]:
    """What stands below the table: references, hypotheses, and the weights from below."""
    yield ""
    yield from (f"[{number}] {reference}" for number, reference in enumerate(references, 1))
    yield "\nhypotheses"
    yield from dict.fromkeys(f"  {text}" for bound in bounds for text in bound.hypotheses)
    if found.is_sharp:
        yield "\nThe bounds of the stack meet: this is the maximum."
    if found.recipe:
        sizes = ", ".join(f"{name}={value}" for name, value in found.recipe.as_dict().items())
        yield f"\nweights: depth_construction({sizes})"


def _print_comparison(comparison: Comparison) -> None:
    from hardmax.cli._tables import plain_console, plain_table, print_table

    console = plain_console()
    console.print(
        f"\nat most {comparison.parameters:,} parameters, query in {comparison.dimension:,} "
        f"dimensions",
        soft_wrap=True,
    )
    columns = ("shape", "heads", "width", "hidden", "layers", "at least", "at most")
    table = plain_table(*columns, gap=2)
    for rival in comparison.rivals:
        a, ends = rival.architecture, rival.bounds
        sizes = (f"{size:,}" for size in (a.heads, a.width, a.feed_forward, a.layers))
        table.add_row(rival.name, *sizes, ends.lower.scientific, ends.upper.scientific)
    print_table(console, table)
