"""The variables that have been verified so far, and how far each is from what it stands for."""

from __future__ import annotations

import numpy as np

from hardmax.checker.boxes import needed
from hardmax.checker.forms import NOTHING, Form, Graph, Variable
from hardmax.checker.steps._contests import Contest
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._truth import TrueValues
from hardmax.numerics import down, pair_between, up


class Verified:
    """Names of what was verified: variables of a graph, with deviations over common noises."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.truth = TrueValues()
        self.index: dict[int, int] = {}  # variable -> row of the deviations
        self.deviations = Deviations.none()

    @property
    def noises(self) -> int:
        return self.deviations.noise.shape[1]

    def none(self) -> Deviations:
        """A row that does not deviate."""
        return Deviations.none(1).padded(self.noises)

    def combined(self, form: Form) -> Deviations:
        """The deviation of an affine form of verified variables."""
        row = np.zeros((1, len(self.index)))
        self.fill(row[0], form)
        return self.deviations.combined(row)

    def sizes(self, form: Form) -> dict[int, float]:
        """By how much the verified variables behind a form may be off."""
        atoms = [a for a in needed(self.graph, form) if isinstance(self.graph.atoms[a], Variable)]
        moving = [a for a in atoms if a in self.index]
        return {a: float(self.deviations[np.array([self.index[a]])].size[0]) for a in moving}

    def variable(
        self, true: tuple[float, float], deviation: Deviations, *, settle: bool = True
    ) -> Form:
        """A name for something within a deviation of a value in `true`."""
        low, high = float(deviation.low[0]), float(deviation.high[0])
        form = self.graph.variable(down(true[0] + min(low, 0.0)), up(true[1] + max(high, 0.0)))
        (atom,) = form.atoms
        self.index[atom] = len(self.deviations.mean)
        known = deviation.settled(self.noises) if settle else deviation
        self.deviations = self.deviations.joined(known)
        self.truth.bounds.set(atom, *true)
        return form

    def leak(self, low: float, high: float) -> Form:
        """A name for something between two numbers that the target knows nothing of."""
        leak = self.none().shifted(*pair_between(np.array([low]), np.array([high])))
        name = self.variable((0.0, 0.0), leak, settle=False)
        self.truth.set(name, NOTHING)
        return name

    def of_contests(self, contests: list[Contest]) -> Deviations:
        """All contests at once: one matrix product for what the variables deviate."""
        most = max(len(c.functionals) for c in contests)
        rows = len(contests)
        signs = np.array([-1.0 if c.is_minimum else 1.0 for c in contests])
        active = np.zeros((most, rows), dtype=bool)
        low, high = np.zeros((most, rows)), np.zeros((most, rows))
        matrices = np.zeros((most, rows, len(self.index)))
        for r, contest in enumerate(contests):
            for t, (form, ends) in enumerate(
                zip(contest.functionals, contest.residuals, strict=True)
            ):
                active[t, r] = True
                low[t, r], high[t, r] = ends
                self.fill(matrices[t, r], form)
        middle, radius = pair_between(low, high)
        parts = [
            self.deviations.combined(matrices[t]).shifted(middle[t], radius[t]) for t in range(most)
        ]
        carried = of_maximum(parts, active)
        gap = np.array([c.gap for c in contests])
        stray = np.array([c.stray for c in contests])
        fallen = carried.shifted(-0.5 * gap, up(stray + 0.5 * gap))
        return Deviations(fallen.mean * signs, fallen.noise * signs[:, None], fallen.radius)

    def fill(self, row: np.ndarray, form: Form) -> None:
        """A form's coefficients at the rows of the deviations that they multiply."""
        atoms, coefficients = form.floats
        places = [self.index.get(atom, -1) for atom in atoms.tolist()]
        held = np.array(places, dtype=np.int64)
        row[held[held >= 0]] = coefficients[held >= 0]
