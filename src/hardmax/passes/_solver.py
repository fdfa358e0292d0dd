"""Choices of coldness: what they make of a hard construction, and the warmest one that fits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hardmax._errors import PrecisionError
from hardmax.analysis import Flow, Reach, follow
from hardmax.core import (
    MARGIN,
    Attention,
    Construction,
    ReadOut,
    Share,
    Softmax,
    Transformer,
    VectorInput,
)
from hardmax.numerics import FLOAT64, REALS, Format, softmax_gap
from hardmax.passes._constants import (
    Writer,
    centrable,
    centred_where_written,
    constant_writers,
    with_constants,
)
from hardmax.passes._search import CLOSE, COLDEST, WARMEST, Trial, smallest_that_fits
from hardmax.passes._sources import Room, Sources, with_room

_ROUTING = 64.0  # constant scores: the losers' logits fall behind by this much, weight 1.6e-28
_SMALL = 2.0**-30  # of the largest score: what is smaller is rounding
_TYPICAL = 2.0**12  # where the search for the largest logit starts if nothing is known
_ROUGH = 2.0**32  # logits beyond which rounding is likely to need room, in float64
_COLDNESS = 2.0**1000  # of a single head: scores may be as small as they like
_HeadKey = tuple[int, int]  # sublayer, head


@dataclass(frozen=True, eq=False)
class Softened:
    """A softmax Transformer, what was proved of it, and the parts of its deviation."""

    transformer: Transformer
    flow: Flow
    parts: list[Share]


@dataclass(frozen=True, eq=False)
class Solver:
    """A hard construction, its heads' score radii, and what can be centred."""

    construction: Construction
    radius: dict[_HeadKey, float]  # heads whose scores depend on the input
    routing: dict[_HeadKey, float]  # the other heads' coldness
    centre: np.ndarray
    writers: dict[tuple[int, int, int], Writer]  # constants that heads write ...
    written: dict[int, np.ndarray]  # ... and where they centre what the target's values deviate by
    reaches: list[Reach] | None  # where the skeleton's numbers are: the same in all trials
    format: Format = FLOAT64  # in which the deviation is to fit

    @classmethod
    def of(cls, construction: Construction, format: Format = FLOAT64) -> Solver:
        transformer, domain = construction.transformer, construction.claim.domain
        round = format.is_coarse
        flow = follow(transformer, domain, skeleton=transformer, format=REALS, round=round)
        radius, routing = {}, {}
        for key, head in flow.heads.items():
            if head.constant or head.radius == 0.0:
                routing[key] = min(_ROUTING / head.gap, _COLDNESS) if head.gap < math.inf else 1.0
            else:
                radius[key] = head.radius
        floor = max(radius.values(), default=0.0) * _SMALL
        radius = {key: max(r, floor) for key, r in radius.items()}
        centre, writers = centrable(construction), constant_writers(transformer)
        written = centred_where_written(construction, writers)
        return cls(construction, radius, routing, centre, writers, written, flow.reaches, format)

    @property
    def room(self) -> Room:
        alone = all(isinstance(s, Attention) for s in self.construction.transformer.sublayers)
        return Room(self.format, len({number for number, _ in self.radius}) if alone else 0)

    @property
    def free(self) -> bool:
        """Whether any coldness is left to choose."""
        return bool(self.radius)

    def coldness(self, logit: float) -> dict[_HeadKey, float]:
        return self.routing | {k: min(logit / r, _COLDNESS) for k, r in self.radius.items()}

    def flow(self, coldness: dict[_HeadKey, float], format: Format | None = None) -> Flow:
        transformer, domain = self.construction.transformer, self.construction.claim.domain
        return follow(
            transformer,
            domain,
            skeleton=transformer,
            centre=self.centre,
            written=self.written,
            coldness=coldness,
            format=format or self.format,
            reaches=self.reaches,
        )

    def trial(self, logit: float) -> Trial:
        return Trial(logit, self.flow(self.coldness(logit)))

    def solve(self, budget: float) -> Softened:
        """The softmax Transformer of smallest largest logit, with what was proved of it.

        Centring stores rounded constants, so what is built may stray a little further than
        planned; then it is planned again with that much less.
        """
        found = self._at_once(budget)
        if found is not None:
            return found
        target = budget
        for _ in range(8):
            trial = self.smallest_logit(target)
            if trial is None:
                break
            found = self.with_room(trial, budget)
            if found.flow.error <= budget:
                return found
            target = max(target - 2 * (found.flow.error - budget), target / 2)
        return self._coldest_first_to_fit(budget)

    def _coldest_first_to_fit(self, budget: float) -> Softened:
        """Close to the limit planning fails; then colder and colder models are built and tried.

        Deviations fall with the logit until rounding is all that is left: where that alone is twice
        the budget, one model says by how much, and no others are tried.
        """
        errors = []
        powers = range(20, 61, 4) if self.free else range(1)
        if self.free and self.trial(COLDEST).error > 2 * budget:
            powers = powers[-1:]
        for power in powers:
            trial = self.trial(2.0**power)
            soft, flow = self.build(trial)
            if flow.error <= budget:
                return self.with_room(trial, budget, Softened(soft, flow, []))
            errors.append(flow.error)
        raise _too_small(budget, min(errors), self.construction.claim.error, self.room)

    def _at_once(self, budget: float) -> Softened | None:
        """Where logits are so large that the checker is likely to need room: found in one step."""
        start = self.likely_logit(budget) if self.free else 0.0
        if self.format is not FLOAT64 or start < _ROUGH:
            return None
        trial = self.trial(start)
        if not 0.5 * budget < trial.error < 2.0 * budget:
            return None
        return self._colder(trial, self.sources(trial), budget)

    def with_room(self, trial: Trial, budget: float, built: Softened | None = None) -> Softened:
        """What is built of a trial; or of a colder one, that leaves the checker its room."""
        sources = self.sources(trial)
        colder = self._colder(trial, sources, budget)
        if colder is not None:
            return colder
        soft, flow = (built.transformer, built.flow) if built else self.build(trial)
        return Softened(soft, flow, sources.shares(flow.error, self.format))

    def _colder(self, trial: Trial, sources: Sources, budget: float) -> Softened | None:
        """A model that leaves the checker its room, if it is to have any and one of three does.

        Only softening, which has what is given, gets smaller as heads get colder.
        """
        rounding = sources.rounding(trial.error)
        room = self.room.after(rounding, budget) if trial.logit else 0.0
        if not room:
            return None
        target, colder = budget - room, trial
        for _ in range(3):
            softening = colder.error - rounding
            logit = colder.logit * softening / (target - rounding) * (1.0 + CLOSE)
            colder = self.trial(logit)
            if colder.error <= target:
                break
        soft, flow = self.build(colder)
        if flow.error > target:
            return None
        parts = sources.shares(trial.error, self.format)
        return Softened(soft, flow, with_room(parts, trial.logit / colder.logit, flow.error + room))

    def smallest_logit(self, budget: float) -> Trial | None:
        if not self.free:
            return self.trial(0.0)
        return smallest_that_fits(self.trial, self.likely_logit(budget), budget)

    def likely_logit(self, budget: float) -> float:
        """Where the search starts: close to where it ends, if answers are as large as outlines say.

        A noise of an early layer grows on its way as the numbers of that layer do, since both pass
        the same rectifiers, which halve what they have not cut. So each layer adds about as much to
        the deviation as if the answer itself were a maximum that softmax misses; twice that, so
        as to begin where deviations are small enough to be linear. For networks of 1 to 16 layers,
        of weights that keep sizes or let them fade, 0.15 to 1.05 times as much is found.
        """
        layers = len({sublayer for sublayer, _ in self.radius})
        largest = self.reaches[-1].narrow.magnitude.max() if self.reaches else 0.0
        likely = softmax_gap(2) * layers * float(largest) / budget
        return min(max(likely, WARMEST), COLDEST) if 0.0 < likely < math.inf else _TYPICAL

    def build(self, trial: Trial) -> tuple[Transformer, Flow]:
        """The softmax Transformer, centred; and how far it strays in the format."""
        skeleton, domain = self.construction.transformer, self.construction.claim.domain
        coldness, flow = self.coldness(trial.logit), trial.flow
        order = [coldness[key] for key in _head_keys(skeleton)]
        softened = skeleton.with_weightings(Softmax(beta) for beta in order)
        source, readout = softened.input, softened.readout
        assert isinstance(source, VectorInput)
        centred = Transformer(
            VectorInput(source.maps, source.offsets + flow.shifts),
            softened.sublayers,
            ReadOut(readout.weights, readout.bias + flow.answer_shift, readout.token),
        )
        centred = with_constants(centred, self.writers, flow.later_shifts)
        return centred, follow(
            centred, domain, skeleton=skeleton, format=self.format, reaches=self.reaches
        )

    def sources(self, trial: Trial) -> Sources:
        """Where the deviation comes from: routing, then the layers that were softened.

        Routing has what it makes alone, all other heads being hard. What softening adds to that,
        without rounding, is divided among the layers as the noises at the worst output are: a
        noise that maxima leave over of earlier ones counts for the layers where those were made,
        because the bound is linear in what each layer falls short by.
        """
        coldness = dict.fromkeys(_head_keys(self.construction.transformer), math.inf)
        routed, softened, layers = None, 0.0, {}
        if self.routing:
            routed = self.flow(coldness | self.routing, format=REALS).error
        if self.radius:
            flow = self.flow(self.coldness(trial.logit), format=REALS)
            softened, layers = flow.error, self._parts(flow)
        return Sources(routed, softened, layers)

    def _parts(self, flow: Flow) -> dict[str, float]:
        """The layers with heads that were softened, and their parts of what that adds.

        Layers whose heads select a token leak and make no noise: they have what they would have if
        all were alike, if there are no others.
        """
        sublayers = self.construction.transformer.sublayers
        layers = [n for n, s in enumerate(sublayers) if isinstance(s, Attention)]
        soft = {number for number, _ in self.radius}
        names = {n: f"attention layer {k}" for k, n in enumerate(layers, start=1) if n in soft}
        origins = {n: part for n, part in flow.origins.items() if n in names}
        total = sum(origins.values())
        if not total > 0.0:
            return {name: 1.0 / len(names) for name in names.values()}
        return {name: origins.get(n, 0.0) / total for n, name in names.items()}


def _head_keys(transformer: Transformer) -> list[_HeadKey]:
    return [
        (number, index)
        for number, sublayer in enumerate(transformer.sublayers)
        if isinstance(sublayer, Attention)
        for index in range(len(sublayer.heads))
    ]


def _too_small(budget: float, rounding: float, claimed: float, room: Room) -> PrecisionError:
    """`claimed` is the error of the hard skeleton, which softening can only add to."""
    asked = (budget + claimed) * (1 + MARGIN)
    reachable = room.smallest_budget(rounding)
    least = (reachable + claimed) * (1 + MARGIN) * 1.05
    why = "rounding alone, summed over the layers, allows"
    if reachable > rounding:
        why = "rounding, summed over the layers, and the room to prove it allow"
    if claimed:
        why = f"rounding and the {claimed:.3g} claimed before softening allow"
    return PrecisionError(
        f"An error of {asked:.3g} is below what {room.format.name} can promise here: {why} no less "
        f"than {least:.3g}. Ask for {least:.3g} or more, or shrink the domain."
    )
