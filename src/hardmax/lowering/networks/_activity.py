"""What of a piecewise linear program matters on a domain: signs, leading pieces, live values."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hardmax.core import Affine, Box, Maximum, Steps
from hardmax.lowering.networks._max_layers import leads_of_pieces, undominated
from hardmax.numerics import Interval

Place = tuple[int, int]  # a value of the steps, and one of its components


class Activity:
    """Ranges of all values, from intervals propagated step by step.

    Outward rounding makes the answers safe: what is called never positive, or never leading, is so
    for every point of the domain, ties included.
    """

    def __init__(self, steps: Steps, domain: Box) -> None:
        self.steps = steps
        self.ranges: list[Interval] = steps.values(domain.interval)
        self.read_places = [
            [(source, i) for source in step.sources for i in range(steps.size(source))]
            for step in steps.steps
        ]

    def read_range(self, number: int) -> Interval:
        """The range of all components that a step reads."""
        parts = [self.ranges[source] for source in self.steps.steps[number].sources]
        return Interval(
            np.concatenate([part.lo for part in parts]), np.concatenate([part.hi for part in parts])
        )

    def low(self, places: tuple[Place, ...]) -> float:
        """The maximum of these components is never below this."""
        return max(float(self.ranges[value].lo[component]) for value, component in places)

    @cached_property
    def live(self) -> list[np.ndarray]:
        """Which components of each value an output depends on, by weights and by signs."""
        steps = self.steps.steps
        live = [np.zeros(self.steps.size(value), dtype=bool) for value in range(len(steps) + 1)]
        live[-1][:] = True
        for number in reversed(range(len(steps))):
            for j in self._needed(number, live[number + 1]):
                value, component = self.read_places[number][j]
                live[value][component] = True
        return live

    def _needed(self, number: int, wanted: np.ndarray) -> list[int]:
        """What a step has to read for the wanted components."""
        step = self.steps.steps[number]
        if isinstance(step, Affine):
            needed = step.weights[wanted].any(axis=0)
        elif isinstance(step, Maximum):
            return [j for row in np.flatnonzero(wanted) for j in self.leading[number, int(row)]]
        else:
            off = self.ranges[number + 1].hi <= 0.0  # a relu that is never on; |0| likewise
            needed = wanted & ~off
        return np.flatnonzero(needed).tolist()

    @cached_property
    def leading(self) -> dict[tuple[int, int], list[int]]:
        """By step and row: the pieces of a maximum that may lead somewhere on the domain."""
        return {
            (number, row): self._leading(number, group[group >= 0])
            for number, step in enumerate(self.steps.steps)
            if isinstance(step, Maximum)
            for row, group in enumerate(step.groups)
        }

    def _leading(self, number: int, pieces: np.ndarray) -> list[int]:
        """Pieces of one affine step are compared by their weights, others by their ranges."""
        values, components = zip(*(self.read_places[number][j] for j in pieces), strict=True)
        value, rows = values[0], list(components)
        affine = self.steps.steps[value - 1] if value and set(values) == {value} else None
        if isinstance(affine, Affine):
            box = self.read_range(value - 1)
            leads = leads_of_pieces(affine.weights[rows], affine.bias[rows], box)
        else:
            ends = self.read_range(number)[pieces]
            leads = ends.lo[:, None] - ends.hi[None, :]  # of which only the sign matters
        return [int(pieces[j]) for j in undominated(leads)]
