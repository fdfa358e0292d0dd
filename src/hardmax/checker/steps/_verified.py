"""What has been verified so far: variables, how far each may be off, and what it stands for.

The deviation of a variable from the target's value is  mean + sum_s noise_s e_s + rest,
|e_s| <= 1, |rest| <= radius: every soft maximum makes one noise e_s, and what two variables inherit
from it cancels where it should.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.checker._budget import CALL, ENTRY, FLOPS, charge
from hardmax.checker.boxes import needed
from hardmax.checker.forms import (
    NOTHING,
    ONE,
    Body,
    Bounds,
    Form,
    Graph,
    Variable,
    direction_of,
    is_moderate,
    nearest,
    renamed,
)
from hardmax.checker.steps._contests import Contest
from hardmax.numerics import MidRadius, down, inflate, pair_between, pair_radius, stray, up

_NO_WIDER = 1.01  # what it may cost to keep noises, which cancel later on


@dataclass(frozen=True, eq=False)
class Deviations:
    """Rows of deviations."""

    mean: np.ndarray  # rows
    noise: np.ndarray  # rows x noises
    radius: np.ndarray  # rows

    @classmethod
    def none(cls, rows: int = 0) -> Deviations:
        return cls(np.zeros(rows), np.zeros((rows, 0)), np.zeros(rows))

    @property
    def reach(self) -> np.ndarray:
        """How far they go from the mean."""
        spread = np.abs(self.noise).sum(axis=1) + self.radius
        return np.asarray(inflate(spread, self.noise.shape[1] + 1))

    @property
    def low(self) -> np.ndarray:
        return np.asarray(down(self.mean - self.reach))

    @property
    def high(self) -> np.ndarray:
        return np.asarray(up(self.mean + self.reach))

    @property
    def size(self) -> np.ndarray:
        return np.maximum(np.abs(self.low), np.abs(self.high))

    def padded(self, noises: int) -> Deviations:
        more = noises - self.noise.shape[1]
        if not more:
            return self
        return Deviations(self.mean, np.pad(self.noise, ((0, 0), (0, more))), self.radius)

    def __getitem__(self, rows: np.ndarray) -> Deviations:
        return Deviations(self.mean[rows], self.noise[rows], self.radius[rows])

    def joined(self, *others: Deviations) -> Deviations:
        """More rows."""
        noises = max(d.noise.shape[1] for d in (self, *others))
        every = [d.padded(noises) for d in (self, *others)]
        charge(4 * CALL + ENTRY * sum(d.noise.size for d in every))
        return Deviations(
            np.concatenate([d.mean for d in every]),
            np.concatenate([d.noise for d in every]),
            np.concatenate([d.radius for d in every]),
        )

    def combined(self, matrix: np.ndarray) -> Deviations:
        """matrix @ deviations, for a matrix whose entries were rounded up to three times.

        Means and noises alike stray by the roundings of n products: by as many units of all that
        the deviations can be.
        """
        charge(8 * CALL + matrix.size * (4 * ENTRY + self.noise.shape[1] // FLOPS))
        weights = np.abs(matrix)
        size = weights @ (np.abs(self.mean) + self.reach)
        radius = pair_radius(weights @ self.radius, size, len(self.mean) + 4)
        return Deviations(matrix @ self.mean, matrix @ self.noise, radius)

    def shifted(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Plus something within `radius` of `middle`."""
        mean, rest = MidRadius(self.mean, self.radius).plus(MidRadius(middle, radius))
        return Deviations(mean, self.noise, rest)

    def scaled(self, middle: np.ndarray, radius: np.ndarray) -> Deviations:
        """Times factors within `radius` of `middle`."""
        size, steep = self.size, np.abs(middle)
        rest = pair_radius(steep * self.radius + radius * size, steep * size, 2)
        return Deviations(self.mean * middle, self.noise * middle[:, None], rest)

    def combined_rows(self) -> Deviations:
        """The sum of all rows."""
        return self.combined(np.ones((1, len(self.mean))))

    def plus(self, other: Deviations) -> Deviations:
        """Row by row."""
        noises = max(self.noise.shape[1], other.noise.shape[1])
        a, b = self.padded(noises), other.padded(noises)
        rest = pair_radius(a.radius + b.radius, a.size + b.size, 2)
        return Deviations(a.mean + b.mean, a.noise + b.noise, rest)

    def settled(self, noises: int) -> Deviations:
        """Of a single variable: what is left over becomes a noise that its readers share."""
        kept = self.padded(noises)
        if not self.radius[0] > 0.0:
            return kept
        own = np.concatenate([kept.noise, self.radius[:, None]], axis=1)
        return Deviations(self.mean, own, np.zeros(1))


def of_maximum(parts: list[Deviations], active: np.ndarray) -> Deviations:
    """max_t (Q_t + d_t) - max_t Q_t, row by row, over the active t (parts x rows).

    It is sum_t l_t d_t with l_t >= 0, sum l_t = 1: a maximum is a convex, monotone function that
    moves by c when everything does. So it lies in the hull of the d_t; and also in m plus the
    hull of the d_t - m, for any m: with m the mean of the noises of all active parts, what they
    share passes through. The narrower is taken, row by row, but for a hundredth: for a rectifier, d
    and 0, they are equally wide up to rounding, and the second keeps half of the noise.
    """
    noises = max(p.noise.shape[1] for p in parts)
    parts = [p.padded(noises) for p in parts]
    charge(16 * CALL + 16 * ENTRY * sum(p.noise.size for p in parts))
    low = np.where(active, [p.low for p in parts], np.inf).min(axis=0)
    high = np.where(active, [p.high for p in parts], -np.inf).max(axis=0)
    count = np.maximum(active.sum(axis=0), 1)
    shared = sum(np.where(on[:, None], p.noise, 0.0) for on, p in zip(active, parts, strict=True))
    shared = shared / count[:, None]
    apart = [_less(p, shared) for p in parts]
    low_apart = np.where(active, [p.low for p in apart], np.inf).min(axis=0)
    high_apart = np.where(active, [p.high for p in apart], -np.inf).max(axis=0)
    reach = np.abs(shared).sum(axis=1)
    kept = (high_apart - low_apart) / 2 + reach <= (high - low) / 2 * _NO_WIDER
    low, high = np.where(kept, low_apart, low), np.where(kept, high_apart, high)
    mean, radius = pair_between(low, high)
    return Deviations(mean, np.where(kept[:, None], shared, 0.0), radius)


def _less(part: Deviations, noise: np.ndarray) -> Deviations:
    """Less so much of each noise; the differences are rounded."""
    left = part.noise - noise
    rest = pair_radius(part.radius, np.abs(left).sum(axis=1), noise.shape[1] + 1)
    return Deviations(part.mean, left, rest)


class TrueValues:
    """What the names stand for in the target: ranges, and forms where several stand for one."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.known: dict[Form, tuple[float, float]] = {}
        self._forms: dict[int, Form] = {}
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
