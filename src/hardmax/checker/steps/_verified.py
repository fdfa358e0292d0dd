"""What has been verified so far: variables, how far each may be off, and what it stands for."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from hardmax.checker.boxes import needed
from hardmax.checker.forms import (
    NOTHING,
    ONE,
    Body,
    Bounds,
    Form,
    Graph,
    Names,
    Variable,
    direction_of,
    is_moderate,
    nearest,
    renamed,
)
from hardmax.checker.steps._contests import Contest
from hardmax.checker.steps._deviations import Deviations, of_maximum
from hardmax.checker.steps._noises import NONE
from hardmax.numerics import down, pair_between, stray, up


class TrueValues:
    """What the names stand for in the target: ranges, and forms where several stand for one."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.known: dict[Form, tuple[float, float]] = {}
        self._forms = Names()
        self._spelled: dict[int, tuple[Body, Form]] = {}  # bodies by identity, as spelled out

    def set(self, name: Form, form: Form) -> None:
        """The true value behind a name is that of a form of others."""
        (atom,) = name.atoms
        self._forms[atom] = self.form(form)
        self._spelled.clear()

    def form(self, form: Form) -> Form:
        """A form over names that stand for themselves."""
        known = self._spelled.get(id(form.body))
        if known is None:
            plain = Form.of(form.body, ONE)
            known = self._spelled[id(form.body)] = form.body, renamed(plain, self._forms)
        spelled = known[1].scaled(form.scale)
        return Form.of(spelled.body, spelled.scale, spelled.constant + form.constant)

    def range(self, form: Form) -> tuple[float, float]:
        """From the names' ranges, and from what the target's own steps say of this direction."""
        form = self.form(form)
        low, high = self.bounds.range(form)
        if form.is_constant or not low < 0.0 < high or not self.known:
            return low, high
        direction, lead = direction_of(form)
        if direction not in self.known:
            return low, high
        scale, shift = nearest(lead), nearest(form.constant)
        if not is_moderate(scale):
            return low, high
        ends = sorted(scale * end for end in self.known[direction])
        # both numbers, the product, the sum and the step outward are rounded
        slack = float(stray(4, abs(shift) + max(map(abs, ends))))
        return max(low, ends[0] + shift - slack), min(high, ends[1] + shift + slack)


class Verified:
    """Names of what was verified: variables of a graph, with deviations over common noises."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.truth = TrueValues()
        self.index: dict[int, int] = {}  # variable -> row of the deviations
        self._rows = np.full(0, -1)  # the same by atoms
        self.deviations = Deviations.none()
        self.known = NONE  # all noises so far
        self.copied: dict[int, int] = {}  # variable -> the noise that copies may have, too

    def none(self) -> Deviations:
        """A row that does not deviate."""
        return Deviations.none(1).padded(self.known.count)

    def settled(self, deviations: Deviations) -> Deviations:
        """Rows that are to get names: what is left over of them becomes noises, in one ball."""
        settled, self.known = deviations.settled(self.known)
        return settled

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
        if atom < len(self._rows):
            self._rows[atom] = self.index[atom]
        known = self.settled(deviation) if settle else deviation
        self.deviations = self.deviations.joined(known)
        if known.copied is not None and known.copied[0] >= 0:
            self.copied[atom] = int(known.copied[0])
        self.truth.bounds.set(atom, *true)
        return form

    def leak(self, low: float, high: float) -> Form:
        """A name for something between two numbers that the target knows nothing of."""
        leak = self.none().shifted(*pair_between(np.array([low]), np.array([high])))
        name = self.variable((0.0, 0.0), leak, settle=False)
        self.truth.set(name, NOTHING)
        return name

    def copies(self, variables: list[int]) -> Deviations:
        """How far max(H, 0) may be off, for soft maxima H = M + s, M >= 0.

        M is the hard maximum of what the Transformer has there, s how the soft one errs. As
        max(M + s, 0) = M + c s for some 0 <= c <= 1, and c s lies in the interval about 0 that s
        does, it is off by as much as H; all of them lie in the ball that was found for all H. They
        are other numbers, though: what was left over of H has a noise of its own, and so have they.
        """
        own = np.array([self.copied[v] for v in variables])
        order = np.argsort(own, kind="stable")
        rows = self.deviations[np.array([self.index[v] for v in variables])[order]]
        old = rows.padded(self.known.count).noise
        for group, members in Counter(self.known.group_of(noise) for noise in own[order]).items():
            self.known = self.known.joined(members, self.known.lengths[group])
        place = np.arange(len(own))
        new = np.zeros((len(own), len(own)))
        new[place, place] = old[place, own[order]]
        old[place, own[order]] = 0.0
        back = np.argsort(order, kind="stable")
        noise = np.concatenate([old, new], axis=1)
        return Deviations(rows.mean, noise, rows.radius, self.known)[back]

    def of_contests(self, contests: list[Contest]) -> Deviations:
        """All contests at once: one matrix product for what the variables deviate."""
        most = max(len(c.functionals) for c in contests)
        rows = len(contests)
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
        if fallen.left is not None:
            rises = np.array([self._rises(contest) for contest in contests])
            fallen = replace(fallen, left=replace(fallen.left, rises=rises))
        return fallen.negated(np.array([c.is_minimum for c in contests]))

    def _rises(self, contest: Contest) -> bool:
        """Whether the maximum that is evaluated is never negative."""
        lowest = max(self.graph.range(form)[0] for form in contest.functionals)
        return not contest.is_minimum and lowest >= 0.0

    def fill(self, row: np.ndarray, form: Form) -> None:
        """A form's coefficients at the rows of the deviations that they multiply."""
        atoms, coefficients = form.floats
        if len(self._rows) <= int(atoms.max(initial=-1)):
            self._rows = np.full(2 * len(self.graph.atoms), -1)
            self._rows[list(self.index)] = list(self.index.values())
        held = self._rows[atoms]
        row[held[held >= 0]] = coefficients[held >= 0]
