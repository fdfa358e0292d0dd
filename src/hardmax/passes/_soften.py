"""Hard heads become softmax heads, as warm as the error allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Real

import numpy as np

from hardmax._errors import PrecisionError, RequestError, SemanticsError
from hardmax.analysis import Flow, Reach, follow
from hardmax.core import (
    MARGIN,
    Affine,
    Attention,
    Claim,
    Construction,
    Holding,
    ReadOut,
    Share,
    Softmax,
    Transformer,
    VectorInput,
    Witness,
    with_margin,
)
from hardmax.numerics import FLOAT64, REALS, Format, format_named
from hardmax.passes._constants import Writer, constant_writers, with_constants

_JUST_BELOW = 1.0 - 1e-12  # of the budget: the claim, with its margin, is to be below the error
_ROUTING = 64.0  # constant scores: the losers' logits fall behind by this much, weight 1.6e-28
_TYPICAL = 2.0**12  # where the search for the largest logit starts ...
_SMALL = 2.0**-30  # of the largest score: what is smaller is rounding
_WARMEST = 2.0**-10  # ... one below this is not worth looking for ...
_COLDEST = 2.0**60  # ... and colder than this, rounding is all that is left
_COLDNESS = 2.0**1000  # of a single head: scores may be as small as they like
_FAINT_ROUNDING = 2.0**-10  # of the error: what is below is covered by the margin
_CLOSE = 1e-3  # the largest logit is minimal to within this
_ROOM = 1.05  # for whoever verifies a row in the middle, adding up in another order
_HeadKey = tuple[int, int]  # sublayer, head


def soften(
    construction: Construction, *, error: float | None, float: str = "float64"
) -> Construction:
    """Replace every hardmax by a softmax so that the total error stays within `error`.

    Let head h have score radius R_h on the domain. At coldness Lambda / R_h no logit exceeds
    Lambda, and every bound on the deviation decreases as a head gets colder; so for a given
    largest logit it is best to let all heads reach it, and the smallest Lambda whose deviation
    fits the error is optimal among all choices of coldness (for the bound at hand). For ReLU
    networks of one or two hidden layers it is Lambda = c sum_h A_h R_h / error, with
    c = `softmax_gap(2)`/2 and A_h the larger of the sums of positive and of negative path weights
    from head h to the output: noises of one head cancel where paths have opposite signs (see
    `Deviation`). In deeper ones the bound is close to that without feed-forward layers; with them
    it grows, because a hidden unit that cuts off what is below 0 forgets where its noise came
    from. Heads whose scores are constants are routing: their coldness comes from their gap alone.

    Softmax means fall short of maxima, never beyond: the deviation is one-sided, and a constant
    added where the target's affine values are stored (where a bias is stored anyway) centres it.
    That halves the coldness and costs no weight unless a bias was 0.

    The claim grows by the deviation of the evaluation in the format `float` from the hard skeleton,
    layer by layer, rounding apart, and by the margin. The witness's errors grow likewise. With
    `error=None` the heads stay hard, and only rounding enters the ledger. Weights stay those of
    the source, bit by bit: in a format that does not hold them their rounding is part of the claim.

    >>> network = hm.ReluNetwork([[[1.0], [-1.0]], [[1.0, 1.0]]], [[0.0, 0.0], [0.0]])  # |x|
    >>> hard = hm.compile(network, on="[-1,1]", error=None)
    >>> hm.soften(hard, error=1e-2).claim.error <= 1e-2
    True
    """
    error, format = None if error is None else _checked(error), format_named(float)
    if not isinstance(construction, Construction):
        raise RequestError(
            f"A hard model is softened, as hm.compile(network, on=..., error=None) makes it, not "
            f"a {type(construction).__name__}."
        )
    if not construction.transformer.is_hard:
        raise SemanticsError("This construction is soft already; soften its hard skeleton instead.")
    if error is None:
        return _keep_hard(construction, format)
    solver = _Solver.of(construction, format)
    budget = error / (1.0 + MARGIN) * _JUST_BELOW - construction.claim.error
    logit, soft, flow = solver.solve(budget)
    parts = list(solver.shares(logit, flow.error))
    room = _room_for_the_checker(parts[-1], budget, format)
    colder = (
        solver.colder(logit, budget - parts[-1].amount, budget, room) if room and logit else None
    )
    if colder is not None:
        warmer, (logit, soft, flow) = logit, colder
        parts = _with_room(parts, warmer / logit, flow.error + room)
    shares = [*construction.claim.ledger, *parts]
    return _with(construction, soft, flow, shares, format, error)


def _room_for_the_checker(rounding: Share, budget: float, format: Format) -> float:
    """What is left to the checker's own bound of rounding, where the margin would not do.

    In deep networks it has been seen to be eight times as large as this room's. A claim is worth
    nothing that is true and cannot be shown, so a few percent of the error are given away for it.
    In coarse formats, where rounding is most of the error, the two are closer together, because
    both know the 2-norms of what is added up: half as much again is left, and no more than half of
    what softening has.
    """
    if format is not FLOAT64:
        return min(0.5 * rounding.amount, 0.5 * (budget - rounding.amount))
    room = 8.0 * rounding.amount
    worthwhile = 8.0 * _FAINT_ROUNDING * budget < room < budget / 20.0  # beyond, it is a limit
    return room if worthwhile else 0.0


def _with_room(parts: list[Share], factor: float, total: float) -> list[Share]:
    """The ledger of a model that is colder by a factor; what is left of the total is rounding."""
    before = [replace(part, amount=part.amount * factor) for part in parts[:-1]]
    left = max(total - sum(part.amount for part in before), 0.0)
    return [*before, replace(parts[-1], amount=left)]


def _checked(error: float) -> float:
    """The error as a float: any real number > 0 that float64 can hold."""
    try:
        number = float(error) if isinstance(error, Real) and not isinstance(error, bool) else 0.0
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise RequestError(f"The error must be a number > 0, but it is {_short(error)}.")
    return number


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _keep_hard(construction: Construction, format: Format) -> Construction:
    transformer, claim = construction.transformer, construction.claim
    flow = follow(transformer, claim.domain, skeleton=transformer, format=format)
    shares = [*claim.ledger, Share("rounding", f"{format.name} evaluation", flow.error)]
    return _with(construction, transformer, flow, shares, format)


def _with(
    construction: Construction,
    transformer: Transformer,
    flow: Flow,
    shares: list[Share],
    format: Format,
    asked: float | None = None,
) -> Construction:
    claim = construction.claim
    return Construction(
        transformer,
        Claim(claim.target, claim.domain, with_margin(shares), format=format.name, asked=asked),
        _widened(construction.witness, flow),
        construction.route,
    )


def _widened(witness: Witness | None, flow: Flow) -> Witness | None:
    if witness is None:
        return None
    holdings = []
    for holding in witness.holdings:
        deviation = flow.places[holding.sublayer + 1].deviation.magnitude
        more = deviation[holding.token, holding.coordinates]
        if holding.weights is not None:
            more = np.abs(holding.weights) @ more
        holdings.append(replace(holding, errors=holding.errors + more * _ROOM))
    return Witness(holdings)


@dataclass(frozen=True, eq=False)
class _Solver:
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
    def of(cls, construction: Construction, format: Format = FLOAT64) -> _Solver:
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
        centre, writers = _centrable(construction), constant_writers(transformer)
        written = _written(construction, writers)
        return cls(construction, radius, routing, centre, writers, written, flow.reaches, format)

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

    def trial(self, logit: float) -> _Trial:
        return _Trial(logit, self.flow(self.coldness(logit)))

    def solve(self, budget: float) -> tuple[float, Transformer, Flow]:
        """The softmax Transformer of smallest largest logit, with what was proved of it.

        Centring stores rounded constants, so what is built may stray a little further than
        planned; then it is planned again with that much less.
        """
        target = budget
        for _ in range(8):
            trial = self.smallest_logit(target) if self.free else self.trial(0.0)
            if trial is None:
                break
            soft, flow = self.build(trial)
            if flow.error <= budget:
                return trial.logit, soft, flow
            target = max(target - 2 * (flow.error - budget), target / 2)
        return self._coldest_first_to_fit(budget)

    def _coldest_first_to_fit(self, budget: float) -> tuple[float, Transformer, Flow]:
        """Close to the limit planning fails; then colder and colder models are built and tried.

        Deviations fall with the logit until rounding is all that is left: where that alone is twice
        the budget, one model says by how much, and no others are tried.
        """
        errors = []
        powers = range(20, 61, 4) if self.free else range(1)
        if self.free and self.trial(_COLDEST).error > 2 * budget:
            powers = powers[-1:]
        for power in powers:
            trial = self.trial(2.0**power)
            soft, flow = self.build(trial)
            if flow.error <= budget:
                return trial.logit, soft, flow
            errors.append(flow.error)
        raise _too_small(budget, min(errors), self.construction.claim.error, self.format)

    def colder(
        self, logit: float, softening: float, budget: float, room: float
    ) -> tuple[float, Transformer, Flow] | None:
        """A model that leaves so much room of the budget, if the first one that should does.

        Only softening, which has what is given, gets smaller as heads get colder.
        """
        logit *= softening / (softening - room) * (1.0 + _CLOSE)
        soft, flow = self.build(self.trial(logit))
        return (logit, soft, flow) if flow.error <= budget - room else None

    def smallest_logit(self, budget: float) -> _Trial | None:
        """The smallest largest logit whose deviation fits, to within a part in a thousand.

        The deviation is close to a/logit + b, with b from rounding, so that steps in 1/logit land
        almost at once. What does not fit at 2^60 fits nowhere, and None is the answer: there
        only b is left.
        """
        low, high = None, self.trial(_TYPICAL)
        while high.error > budget:
            if high.logit >= _COLDEST:
                return None
            low = high
            step = min(max((1 + _CLOSE / 2) * high.error / budget, 2.0), 2.0**20)
            high = self.trial(min(high.logit * step, _COLDEST))
        for _ in range(20):  # three are typical
            if high.error >= budget * (1 - _CLOSE) or high.logit <= _WARMEST:
                break
            guess = self.trial(_between(low, high, budget))
            if guess.error > budget:
                low = guess
            else:
                high = guess
            if low is not None and high.logit <= low.logit * (1 + _CLOSE / 4):
                break
        return high

    def build(self, trial: _Trial) -> tuple[Transformer, Flow]:
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

    def shares(self, logit: float, total: float) -> Iterator[Share]:
        """Where the deviation comes from: routing, then the layers that were softened, rounding.

        Routing has what it makes alone, all other heads being hard. What softening adds to that,
        without rounding, is divided among the layers as the noises at the worst output are: a
        noise that maxima leave over of earlier ones counts for the layers where those were made,
        because the bound is linear in what each layer falls short by. What is left is rounding.
        """
        coldness = dict.fromkeys(_head_keys(self.construction.transformer), math.inf)
        routed = 0.0
        if self.routing:
            routed = min(self.flow(coldness | self.routing, format=REALS).error, total)
            yield Share("routing", "heads with constant scores", routed)
        softened = routed
        if self.radius:
            flow = self.flow(self.coldness(logit), format=REALS)
            softened = min(max(flow.error, routed), total)
            for where, part in self._parts(flow).items():
                yield Share("softening", where, (softened - routed) * part)
        yield Share("rounding", f"{self.format.name} evaluation", max(total - softened, 0.0))

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


@dataclass(frozen=True)
class _Trial:
    """A largest logit and the deviation that comes with it."""

    logit: float
    flow: Flow

    @property
    def error(self) -> float:
        return self.flow.error


def _between(low: _Trial | None, high: _Trial, budget: float) -> float:
    """Where a/logit + b through both trials (b = 0 if there is but one) just fits the budget.

    Error times logit is a + b logit. Where it is far larger at the lower end, some lemma holds at
    the upper end only, and the lower one says nothing of the line.
    """
    through_one = max(high.logit * high.error / budget * (1 + _CLOSE / 2), _WARMEST)
    if low is None:
        return through_one
    if low.error * low.logit > 2.0 * high.error * high.logit:
        is_new = through_one > low.logit * (1 + _CLOSE)
        return through_one if is_new else math.sqrt(low.logit * high.logit)
    slope = (low.error - high.error) / (1 / low.logit - 1 / high.logit)
    room = budget - (high.error - slope / high.logit)
    if not room > 0:
        return math.sqrt(low.logit * high.logit)
    nudge = 1 + _CLOSE / 8  # for speed: how far a guess stays from both ends
    return min(max(slope / room * (1 + _CLOSE / 2), low.logit * nudge), high.logit / nudge)


def _head_keys(transformer: Transformer) -> list[_HeadKey]:
    return [
        (number, index)
        for number, sublayer in enumerate(transformer.sublayers)
        if isinstance(sublayer, Attention)
        for index in range(len(sublayer.heads))
    ]


def _affine_holdings(construction: Construction) -> list[Holding]:
    """Where the target's affine values live: there a bias is stored, and a constant is free."""
    witness, steps = construction.witness, construction.claim.target.steps()
    if witness is None or steps is None:
        return []
    return [
        holding
        for holding in witness.holdings
        if holding.value and isinstance(steps.steps[holding.value - 1], Affine)
    ]


def _centrable(construction: Construction) -> np.ndarray:
    transformer = construction.transformer
    centre = np.zeros((transformer.tokens, transformer.width), dtype=bool)
    for holding in _affine_holdings(construction):
        centre[holding.token, holding.coordinates] = True
    return centre


def _written(
    construction: Construction, writers: dict[tuple[int, int, int], Writer]
) -> dict[int, np.ndarray]:
    """The same by sublayers, for values that come with a constant that a head writes."""
    transformer = construction.transformer
    found: dict[int, np.ndarray] = {}
    for holding in _affine_holdings(construction):
        number, token = holding.sublayer, holding.token % transformer.tokens
        for place in holding.coordinates.tolist():
            if (number, token, place) in writers:
                nothing = np.zeros((transformer.tokens, transformer.width), dtype=bool)
                found.setdefault(number, nothing)[token, place] = True
    return found


def _too_small(budget: float, reachable: float, claimed: float, format: Format) -> PrecisionError:
    """`claimed` is the error of the hard skeleton, which softening can only add to."""
    asked = (budget + claimed) * (1 + MARGIN)
    least = (reachable + claimed) * (1 + MARGIN) * 1.05
    why = "rounding alone, summed over the layers, allows"
    if claimed:
        why = f"rounding and the {claimed:.3g} claimed before softening allow"
    return PrecisionError(
        f"An error of {asked:.3g} is below what {format.name} can promise here: {why} no less than "
        f"{least:.3g}. Ask for {least:.3g} or more, or shrink the domain."
    )
