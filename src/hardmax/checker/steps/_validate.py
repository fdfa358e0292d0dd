"""Translation validation: the witness, row by row, from the weights alone.

A witness says that a coordinate of the stream (or a combination) holds a component of one of the
target's values, up to an error. Nothing of it is believed. Rows are taken in the order of the
sublayers. For each, the coordinate F and the component V are written as forms over what has been
verified before: variables H, each standing for F on the Transformer's side and, up to its
deviation d = H - V, for V on the target's. Then

    F(H) - V(V) = [F(H) - V(H)] + [V(H) - V(H - d)]:

the first bracket compares two functions of the same few variables (exactly, by the lemma on soft
maxima, or by branch and bound on their own small box), the second is a slope of V times d. If the
sum stays within the stated error the row is verified, and H takes the place of F and of V in all
that follows. Otherwise the witness is rejected.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

import numpy as np

from hardmax.checker._budget import Clock
from hardmax.checker.boxes import SmallBoxes, Watch
from hardmax.checker.forms import (
    ONE,
    Form,
    Graph,
    Names,
    Relu,
    TargetForms,
    Unrolled,
    is_defined,
    renamed,
)
from hardmax.checker.steps._contests import Contest, flattened, hold_contest, split, with_crumbs
from hardmax.checker.steps._deviations import Deviations
from hardmax.checker.steps._partners import Match, Partners
from hardmax.checker.steps._rows import (
    ROUNDED,
    Pair,
    Rejected,
    Row,
    RowBoxes,
    Sides,
    atoms_of,
    check_holding,
    components,
    row_of,
    solved,
)
from hardmax.checker.steps._verified import Verified
from hardmax.core import Construction, Holding
from hardmax.numerics import FAINT, STEP, pair_between, up

_FEW_INPUTS = 8  # up to which a row may be written out without names
_SEVERAL = 3  # crumbs in a coordinate that are worth a name together
_DUST = 256.0 * STEP  # of the largest term: what is smaller is a crumb
_CRUMB = 2.0**-20  # of a row's error: what is smaller is bounded, not followed
_LEAK = 2.0**-30  # of a row's error: softmax weights of routing heads are far below


class Validation:
    """The state of a validation: graph, verified variables and their deviations."""

    def __init__(
        self,
        construction: Construction,
        clock: Clock,
        *,
        executor: Executor | None = None,
        watch: Watch | None = None,
        sweeps: bool = False,
    ) -> None:
        claim = construction.claim
        steps = claim.target.steps()
        if steps is None:
            raise Rejected("The target has no steps that a witness could point at.")
        self.graph = Graph(clock.look)
        self.inputs = self.graph.inputs(claim.domain)
        self.verified = Verified(self.graph)
        self.truth = self.verified.truth
        for i, (low, high) in enumerate(zip(claim.domain.low, claim.domain.high, strict=True)):
            self.truth.bounds.set(i, float(low), float(high))
        self.target = TargetForms(steps, self.graph, self.inputs, claim.domain.interval)
        if not is_defined(self.target.ranges or []):
            raise Rejected("Some step of the target may be infinite on the domain.")
        self.truth.known = self.target.known
        self.small = SmallBoxes(self.graph, clock, executor, watch)
        self.on_boxes = RowBoxes(self.small, self.verified)
        self.stream = Unrolled(construction.transformer, self.graph, self.inputs)
        self.leak = _LEAK * _least_error(construction)
        self._leaks: dict[Form, Form] = {}
        self.stream.swept = self._swept if sweeps else self._without_leaks
        self.sides = Sides(self.stream, self.target)
        self._plain: Sides | None = None
        self.our_names = Names()  # atoms of the Transformer
        self.their_names = Names()  # atoms of the target
        self.rows = 0

    def check(self, holding: Holding) -> None:
        """Verify a holding and give what is new in its rows names for all that follows."""
        rows = [
            row_of(holding, i, self.sides, self._written_out) for i in range(len(holding.errors))
        ]
        found = self.deviation(rows)
        for row, size in zip(rows, found.size, strict=True):
            if not size <= row.error * (1 + ROUNDED) + FAINT:
                raise Rejected(
                    f"The witness says that {row.where} within {row.error:.3g}, but only "
                    f"{size:.3g} could be shown."
                )
        rows = [self._renamed(row) for row in rows]
        named = [i for i, row in enumerate(rows) if not self._is_plain(row)]
        settled = self.verified.settled(found.only(np.array(named, dtype=int)))
        for place, i in enumerate(named):
            self._name(holding, i, self._renamed(rows[i]), settled[np.array([place])])

    def deviation(self, rows: list[Row]) -> Deviations:
        """F - V for each row, as deviations over all noises so far."""
        self.rows += len(rows)
        self._name_crumbs(rows)
        rows = [self._renamed(row) for row in rows]
        self._name_atoms(rows)
        rows = [self._renamed(row) for row in rows]
        parts = [self._bound(row) for row in rows]
        result: list[Deviations | None] = [None] * len(rows)
        contests = [(i, p) for i, p in enumerate(parts) if isinstance(p, Contest)]
        if contests:
            many = self.verified.of_contests([p for _, p in contests])
            if len(contests) == len(rows):
                return many
            for place, (i, _) in enumerate(contests):
                result[i] = many[np.array([place])]
        for i, part in enumerate(parts):
            if isinstance(part, Deviations):
                result[i] = part
        return Deviations.none().joined(*(one for one in result if one is not None))

    def _renamed(self, row: Row) -> Row:
        """The row with atoms that have a name called by it."""
        return replace(
            row,
            ours=renamed(row.ours, self.our_names),
            theirs=renamed(row.theirs, self.their_names),
        )

    def _name_crumbs(self, rows: list[Row]) -> None:
        """Leaks that are too small to matter: names whose true value is 0."""
        for row in rows:
            for atom in self._crumbs_of(row):
                name = self.verified.leak(*self.graph.bounds[atom])
                self._call_ours(atom, name)

    def _without_leaks(self, form: Form) -> Form:
        """A coordinate whose leaks are joined in one variable, whose true value is 0.

        What a row would name one by one, every row's error being larger by 2^30 at least: a
        routing head of a layer leaks into each of its columns, and thousands of leaks would be
        carried through all that follows. Equal sums of leaks are one variable, so that what was
        equal stays so. A coordinate of leaks alone, as a sink has, is one however few there are.
        """
        if form.is_constant:
            return form
        atoms, c = form.floats
        small = atoms[np.abs(c) * self.graph.bounds.sizes(atoms) <= self.leak]
        leaks = set(small[~self.graph.are_variables(small)].tolist())
        if not leaks or len(leaks) < min(_SEVERAL, len(form.atoms)):
            return form
        kept, joined = form.without(leaks, form.constant), form.only(leaks)
        if joined not in self._leaks:
            self._leaks[joined] = self.verified.leak(*self.graph.range(joined))
        return kept + self._leaks[joined]

    def _swept(self, form: Form) -> Form:
        """A coordinate whose crumbs are joined in one variable, whose true value is 0.

        What has a name elsewhere may be left over here, atom by atom, because weights are rounded.
        """
        if len(form.atoms) < _SEVERAL:
            return form
        atoms, c = form.floats
        sizes = np.abs(c) * self.graph.bounds.sizes(atoms)
        small = set(atoms[sizes <= _DUST * sizes.max()].tolist())
        if len(small) < _SEVERAL:
            return form
        kept = form.without(small, form.constant)
        low, high = self.graph.range(form - kept)
        if not math.isfinite(high - low):
            return form
        return kept + self.verified.leak(low, high)

    def _crumbs_of(self, row: Row) -> list[int]:
        if row.ours.is_constant:
            return []
        atoms, c = row.ours.floats
        sizes = np.abs(c) * self.graph.bounds.sizes(atoms)
        small = atoms[sizes <= _LEAK * row.error]
        small = small[~self.graph.are_variables(small)]
        return [a for a in small.tolist() if a not in self.our_names]

    def _name_atoms(self, rows: list[Row]) -> None:
        """Rows that add up several maxima: each gets a name, beside its likeness in the target."""
        rows = [row for row in rows if self._is_a_sum_of_rectifiers(row.theirs)]
        ours = atoms_of([row.ours for row in rows], self.graph, several=True)
        theirs = atoms_of([row.theirs for row in rows], self.graph, several=False)
        if not (ours or theirs):
            return
        self._name_copies([a for a in ours if a not in self.our_names])
        partners = Partners(self.graph, [a for a in theirs if a not in self.their_names])
        fresh = [a for a in ours if a not in self.our_names and not self._copy(a)]
        pairs: list[tuple[int, Match, Contest]] = []
        for atom, match in partners.matches(fresh, self.truth).items():
            if all(map(self.graph.is_plain, match.ours.forms)):
                contest = hold_contest(self.graph, match.ours, match.theirs, self.truth)
                if contest is not None:
                    pairs.append((atom, match, contest))
        if not pairs:
            return
        found = self.verified.settled(
            self.verified.of_contests([contest for _, _, contest in pairs])
        )
        for place, (atom, match, _) in enumerate(pairs):
            deviation = found[np.array([place])]
            ranges = np.array([self.truth.range(form) for form in match.theirs.forms])
            ends = ranges.min(axis=0) if match.ours.is_minimum else ranges.max(axis=0)
            true = float(ends[0]), float(ends[1])
            name = self.verified.variable(true, deviation, settle=False)
            self._call_ours(atom, name)
            if match.partner is None:
                self.truth.set(name, match.truth)
            elif match.partner not in self.their_names:
                self._call_theirs(match.partner, match.solved(name))
            else:
                self.truth.set(name, renamed(match.truth, self.their_names))

    def _is_a_sum_of_rectifiers(self, form: Form) -> bool:
        return self.graph.is_of_rectifiers(form)

    def _name_copies(self, atoms: list[int]) -> None:
        """Units that copy soft maxima which are never negative but for what they err by."""
        found = [(a, v) for a in atoms if (v := self._copied(a)) is not None]
        if not found:
            return
        deviations = self.verified.copies([variable for _, variable in found])
        for place, (atom, _) in enumerate(found):
            kind = self.graph.atoms[atom]
            assert isinstance(kind, Relu)
            low, high = self.truth.range(kind.argument)
            deviation = deviations[np.array([place])]
            name = self.verified.variable((low, high), deviation, settle=False)
            self.truth.set(name, kind.argument)
            self._call_ours(atom, name)

    def _copied(self, atom: int) -> int | None:
        """The variable that the atom is the positive part of, if it is such a maximum."""
        kind = self.graph.atoms[atom]
        if not isinstance(kind, Relu) or len(kind.argument.atoms) != 1:
            return None
        (variable,) = kind.argument.atoms
        same = kind.argument.terms[variable] == ONE and kind.argument.constant == 0
        return variable if same and variable in self.verified.copied else None

    def _copy(self, atom: int) -> bool:
        """relu(P) of verified variables, P's true value being never negative, gets a name.

        V >= 0 gives relu(V + d) - V between 0 and d: a feed-forward unit that copies P cuts off
        what a soft maximum fell short of 0.
        """
        kind = self.graph.atoms[atom]
        if not isinstance(kind, Relu) or not self.graph.is_plain(kind.argument):
            return False
        held = [a for a in kind.argument.atoms if a in self.verified.index]
        true = self.truth.range(kind.argument)
        if not held or true[0] < -ROUNDED * max(map(abs, true)):
            return False
        old = self.verified.combined(kind.argument)
        over = max(-true[0], 0.0)
        low, high = np.minimum(old.low, 0.0), up(np.maximum(old.high, 0.0) + over)
        cut = self.verified.none().shifted(*pair_between(low, high))
        name = self.verified.variable((max(true[0], 0.0), true[1]), cut)
        self.truth.set(name, kind.argument)
        self._call_ours(atom, name)
        return True

    def _name(self, holding: Holding, i: int, row: Row, deviation: Deviations) -> None:
        """H = F and H = V + d, solved for the weightiest atom of F and of V."""
        if self._is_plain(row):
            return
        chosen = components(holding, i)
        true = self.target.range(holding.value, chosen)
        name = self.verified.variable(true, deviation, settle=False)
        pivot = self._weightiest(row.ours)
        if pivot is not None:
            self._call_ours(pivot, solved(row.ours, pivot, name))
        pivot = self._weightiest(row.theirs)
        if pivot is not None:
            self._call_theirs(pivot, solved(row.theirs, pivot, name))
        else:  # a sum of what has names: the target goes on with these, and so must the truth
            self.truth.set(name, row.theirs)
        self.target.cut(holding.value, chosen, name)

    def _is_plain(self, row: Row) -> bool:
        return self.graph.is_plain(row.ours) and self.graph.is_plain(row.theirs)

    def _weightiest(self, form: Form) -> int | None:
        """The atom that moves a form most; not one that may be a mere leak."""
        every = form.body.array
        atoms = every[~self.graph.are_variables(every)].tolist()
        ranges = {a: self.graph.range(Form({a: form.coefficient(a)})) for a in atoms}
        return max(atoms, key=lambda a: ranges[a][1] - ranges[a][0], default=None)

    def _call_ours(self, atom: int, form: Form) -> None:
        self.our_names[atom] = form
        self.stream.name(atom, form)

    def _call_theirs(self, atom: int, form: Form) -> None:
        self.their_names[atom] = form
        self.target.name(atom, form)

    def _bound(self, row: Row) -> Contest | Deviations:
        """One row: by the lemma on maxima if it applies and suffices, else on a small box."""
        crumb = _CRUMB * row.error
        ours, our_atoms, our_crumbs = split(self.graph, row.ours, crumb)
        theirs, their_atoms, their_crumbs = split(self.graph, row.theirs, crumb)
        goal = flattened(self.graph, theirs, their_atoms)
        mine = None if goal is None else flattened(self.graph, ours, our_atoms)
        if mine is not None and goal is not None and all(map(self.graph.is_plain, mine.forms)):
            found = hold_contest(self.graph, mine, goal, self.truth)
            if found is not None:
                return with_crumbs(found, our_crumbs, their_crumbs)
        found = None if goal is None else self._without_names(row)
        return self.on_boxes.deviation(row) if found is None else found

    def _without_names(self, row: Row) -> Contest | None:
        """A maximum over the inputs themselves, if there are few.

        Names forget how what they stand for hangs together: max(x, y) = x + y - min(x, y).
        """
        if len(self.inputs) > _FEW_INPUTS or not self.our_names:
            return None
        sides = row.written_out()
        ours, goal = (flattened(self.graph, *split(self.graph, form, 0.0)[:2]) for form in sides)
        if ours is None or goal is None or not all(map(self._is_input, (*ours.forms, *goal.forms))):
            return None
        return hold_contest(self.graph, ours, goal, self.truth)

    def _written_out(self) -> Sides:
        """Both sides again, over the inputs alone."""
        if self._plain is None:
            stream, target = self.sides.stream, self.sides.target
            self._plain = Sides(
                Unrolled(stream.transformer, self.graph, self.inputs),
                TargetForms(target.steps, self.graph, self.inputs, target.domain),
            )
        return self._plain

    def output(self, i: int) -> Pair:
        """An output without names."""
        return self._written_out().read_out()[i]

    def _is_input(self, form: Form) -> bool:
        return all(a < len(self.inputs) for a in form.atoms)


def _least_error(construction: Construction) -> float:
    """The smallest error of any row that heads or units have a say in, but for 0."""
    holdings = () if construction.witness is None else construction.witness.holdings
    rows = [h.errors for h in holdings if h.sublayer >= 0]
    errors = np.concatenate([*rows, [construction.claim.error]])
    return float(min(errors[errors > 0.0], default=0.0))


def validate(
    construction: Construction,
    clock: Clock,
    *,
    executor: Executor | None = None,
    watch: Watch | None = None,
    verified: Callable[[int, int], object] = lambda done, of: None,
) -> tuple[float, int, int]:
    """A bound on the error from the witness, the boxes it took, and the rows verified.

    `verified` is told how many lines of the witness have been, and of how many. If the witness is
    rejected and there are few inputs, it is tried again with crumbs joined: that spares dimensions,
    but maxima are no longer recognised where crumbs differ.
    """
    if construction.witness is None:
        raise Rejected("There is no witness.")
    last = len(construction.transformer.sublayers) - 1
    for holding in construction.witness.holdings:
        check_holding(construction, holding, last)
    state = Validation(construction, clock, executor=executor, watch=watch)
    try:
        return _validated(state, construction, verified)
    except Rejected as reason:
        if len(state.inputs) > _FEW_INPUTS or clock.is_spent:
            raise
        state = Validation(construction, clock, executor=executor, watch=watch, sweeps=True)
        try:
            return _validated(state, construction, verified)
        except Rejected:
            raise reason from None


def _validated(
    state: Validation, construction: Construction, verified: Callable[[int, int], object]
) -> tuple[float, int, int]:
    assert construction.witness is not None
    holdings = sorted(construction.witness.holdings, key=lambda h: h.sublayer)
    for done, holding in enumerate(holdings):
        verified(done, len(holdings))
        state.check(holding)
    verified(len(holdings), len(holdings))
    rows = [
        Row(f, v, construction.claim.error, f"Output {i}", partial(state.output, i))
        for i, (f, v) in enumerate(state.sides.read_out())
    ]
    found = state.deviation(rows)
    return float(found.size.max()), state.small.boxes, state.rows
