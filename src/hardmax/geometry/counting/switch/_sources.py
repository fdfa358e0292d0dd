"""How each source becomes a switch program, on a domain that may be a slice of its input space."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from hardmax.core import Construction, Transformer
from hardmax.geometry.counting._chain import Chain, Layer, Stepwise, chain_of
from hardmax.geometry.counting._domains import Domain, own_dimension
from hardmax.geometry.counting.switch._program import Group, Piece, SwitchLayer, SwitchProgram
from hardmax.geometry.counting.switch._rows import (
    Row,
    affine_rows,
    frame_of,
    rational,
    substitute_rows,
)
from hardmax.geometry.counting.switch._transformer import TransformerProgram
from hardmax.geometry.tropical._tropical import Tropical, TropicalRational


def switch_program(
    source: Transformer | Construction | Chain | Stepwise | Tropical | TropicalRational,
    domain: Domain,
) -> SwitchProgram:
    """The source on a domain: a box of its inputs, a segment or a plane slice."""
    if isinstance(source, Construction):
        source = source.transformer
    if isinstance(source, Transformer):
        return TransformerProgram(source, domain)
    return ChainProgram.of(source if isinstance(source, Chain) else chain_of(source), domain)


@dataclass(frozen=True, eq=False)
class ChainProgram:
    """Layers that are the same on every cell: networks and max-affine maps."""

    dimension: int
    layers: tuple[SwitchLayer, ...]
    output: tuple[Row, ...]
    chain: Chain = field(repr=False)
    domain: Domain = field(repr=False)

    @classmethod
    def of(cls, chain: Chain, domain: Domain) -> ChainProgram:
        """Affine layers are worked into what reads them, as the domain's frame is.

        Rows are exact, so that composing them rounds nothing; a layer without groups would cost a
        pass over all cells and split none.
        """
        inner, layers = frame_of(domain, chain.inputs), []
        dimension = width = own_dimension(domain)
        for layer in chain.layers:
            rows = substitute_rows(affine_rows(layer.weights, layer.biases), inner, width)
            if layer.deciding:
                layers.append(_choosing(layer, rows, width))
                inner, width = None, layer.units
            else:
                inner = rows
        output = substitute_rows(affine_rows(chain.weights, chain.biases), inner, width)
        return cls(dimension, tuple(layers), tuple(output), chain, domain)

    @property
    def depth(self) -> int:
        return len(self.layers)

    @property
    def outputs(self) -> int:
        return len(self.output)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        return tuple(len(layer.groups) for layer in self.layers)

    def layer(self, number: int, context: int) -> SwitchLayer:
        return self.layers[number]

    def after(self, number: int, context: int, winners: tuple[Piece, ...]) -> int:
        return 0

    def recast(self, number: int, context: int, forms: object) -> int:
        raise AssertionError("a layer of a chain is affine everywhere")

    def readout(self, context: int) -> tuple[Row, ...]:
        return self.output

    def __reduce__(self) -> tuple[Callable[..., ChainProgram], tuple[Chain, Domain]]:
        """Rationals of flint cannot be sent; the chain can, and makes them again."""
        return ChainProgram.of, (self.chain, self.domain)


def _choosing(layer: Layer, rows: list[Row], width: int) -> SwitchLayer:
    """Deciding units are groups whose payloads are their scores; the others are base rows."""
    if layer.groups is None:  # a unit that is 0 on an open set counts as off
        zero = (rational(0),) * (width + 1)
        units = [[zero, row] for row in rows]
    else:
        units = [[rows[q] for q in group if q >= 0] for group in layer.groups.tolist()]
    groups = tuple(
        Group.of([Piece(row, (row,), (p,)) for p, row in enumerate(scores)], (target,))
        for target, scores in enumerate(units[: layer.deciding])
    )
    handed = [scores[0] for scores in units[layer.deciding :]]
    return SwitchLayer(width, groups, (*(None,) * layer.deciding, *handed))
