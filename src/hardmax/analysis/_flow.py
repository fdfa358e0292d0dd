"""Where the stream can be, and how far an evaluation of it can stray: one forward pass of proof.

`follow` carries two boxes through a Transformer, for every input of a domain at once:

- the *range* of the reference stream, and
- the *deviation* of the evaluated stream from it: signed, and with the noises it comes from.

The evaluated stream is what runs: soft heads at their coldness, in floats of the given format,
with any order of summation. The reference is either the hard skeleton (the same weights
with every head a hardmax; then the deviation is softening and rounding together), or the same
Transformer over the reals (then it is rounding alone). Signs are kept because softmax errs on one
side only: an interval [-c, 0] can be centred by a constant, a radius cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hardmax._errors import DomainError
from hardmax.analysis._affine_rounding import affine_stray, faint_stray, sum_stray
from hardmax.analysis._deviations import Deviation, deviation_of_relu
from hardmax.analysis._gated import follow_gates
from hardmax.analysis._heads import GroupFlow, follow_group
from hardmax.analysis._noises import NoiseCounter
from hardmax.analysis._outlines import (
    Outline,
    Reach,
    outline_of,
    outline_of_relu,
    with_own_noises,
)
from hardmax.analysis._own import OwnFactors
from hardmax.analysis._places import Place, scaled_in_place
from hardmax.analysis._question import HeadFlow
from hardmax.core import (
    Attention,
    Box,
    FeedForward,
    GatedFeedForward,
    Input,
    SequenceInput,
    Sublayer,
    Transformer,
    VectorInput,
)
from hardmax.numerics import (
    FLOAT64,
    FORMATS,
    Format,
    Interval,
    inflate,
    length_up,
    matmul_up,
    stray,
)


@dataclass(eq=False)
class Flow:
    """What `follow` found: places after the embedding and after each sublayer, and the answer."""

    places: list[Place]
    answer: Place  # at the read-out, outputs first
    heads: dict[tuple[int, int], HeadFlow]  # (sublayer, head) -> what is known of it
    shifts: np.ndarray  # tokens x width: constants that centre the deviation ...
    answer_shift: np.ndarray  # ... and those of the outputs
    later_shifts: dict[int, np.ndarray]  # ... and what heads of these sublayers are to write more
    peak: float  # no number on the way is larger
    reaches: list[Reach] | None  # what outlines say of the reference; None if there were none

    @property
    def origins(self) -> dict[int, float]:
        """Which sublayers the noises of the worst output come from, in parts that sum to 1."""
        deviation = self.answer.deviation
        if deviation.counter is None:
            return {}
        worst = np.unravel_index(deviation.magnitude.argmax(), deviation.magnitude.shape)
        return deviation.counter.origins_of(deviation.forms[worst])

    @property
    def error(self) -> float:
        """The largest deviation of any output."""
        return float(self.answer.deviation.magnitude.max())

    @property
    def largest_logit(self) -> float:
        return max((head.largest_logit for head in self.heads.values()), default=0.0)


Asked = tuple[Collection[int], Collection[int]]


class Peak:
    """The largest number seen so far."""

    def __init__(self) -> None:
        self.size = 0.0

    def see(self, sizes: np.ndarray) -> None:
        self.size = max(self.size, float(np.max(sizes, initial=0.0)))


@dataclass(frozen=True)
class Rules:
    """How the evaluation differs from the reference."""

    format: Format = FLOAT64
    against_skeleton: bool = True
    noises: NoiseCounter | None = None  # None: deviations are plain intervals
    coldness: Mapping[tuple[int, int], float] = field(default_factory=dict)
    peak: Peak = field(default_factory=Peak)
    asking: Mapping[int, Asked] = field(default_factory=dict)  # by sublayer

    @property
    def coarse(self) -> bool:
        """Whether what sums err by is worth noises of its own."""
        return self.noises is not None and self.format.is_coarse


def follow(
    transformer: Transformer,
    domain: Box | None,
    *,
    format: Format = FLOAT64,
    skeleton: Transformer | None = None,
    centre: np.ndarray | None = None,
    written: Mapping[int, np.ndarray] | None = None,
    coldness: Mapping[tuple[int, int], float] | None = None,
    reaches: Sequence[Reach] | None = None,
    round: bool | None = None,
) -> Flow:
    """Follow ranges and deviations through all sublayers.

    Sequences are followed at their full length. With a `skeleton` (equal weights, but possibly
    other offsets and read-out bias, and other constants that routing heads write) the reference
    is its hard semantics; without one it is the Transformer itself over the reals. `coldness`
    overrides that of single heads, keyed by (sublayer, head). `centre` (tokens x width) names
    coordinates whose
    deviation is centred by a constant as soon as it arises, unless something read them before;
    adding `shifts` to the input's offsets makes that true. The answer is centred likewise, by
    `answer_shift` in the read-out's bias. Afterwards it can be where a head writes a constant:
    `written` says so by sublayers (tokens x width), and `later_shifts` are those constants.

    How large the reference's numbers are is found by outlines, which cost as much as all the rest;
    `reaches` takes what an earlier flow with the same reference has found. They also say how long
    vectors are if they are to be `round`, as they are for coarse formats unless told otherwise.

    Beyond the first 16 tokens only those are followed on which the answer depends; the others'
    places stay as they were.
    """
    noises = None  # rounding alone makes none
    if skeleton is not None:
        noises = NoiseCounter(transformer.tokens * transformer.width)
    rules = Rules(
        format, skeleton is not None, noises, coldness or {}, asking=_asking_tokens(transformer)
    )
    place = _embed((skeleton or transformer).input, transformer.input, domain, format)
    if isinstance(transformer.input, VectorInput) and isinstance(
        reference_input := (skeleton or transformer).input, VectorInput
    ):
        place = place.shifted(Interval.point(transformer.input.offsets) - reference_input.offsets)
    reference = (skeleton or transformer).input
    outline = None
    if reaches is None and isinstance(reference, VectorInput) and domain is not None:
        outline = outline_of(reference, domain, round=format.is_coarse if round is None else round)
    place = place.outlined(outline, None if reaches is None else reaches[0].narrow)
    found = [] if place.narrow is None else [Reach(place.narrow)]
    shifts = np.zeros(place.range.shape)
    later: dict[int, np.ndarray] = {}
    places = [place]
    heads: dict[tuple[int, int], HeadFlow] = {}
    fresh = np.ones(transformer.width, dtype=bool)
    copied: np.ndarray | None = None
    for number, sublayer in enumerate(transformer.sublayers):
        if noises is not None:
            noises.sublayer = number
        fresh &= ~_reads(sublayer)
        match sublayer:
            case Attention():
                known = None if reaches is None else reaches[number + 1]
                base = sublayer if skeleton is None else skeleton.sublayers[number]
                assert isinstance(base, Attention)
                place, copied, reach = _attend(place, sublayer, base, number, rules, heads, known)
            case FeedForward():
                place, copied = _feed_forward(place, sublayer, rules, copied), None
                narrow = None if reaches is None else reaches[number + 1].narrow
                place = place.outlined(place.outline, narrow)
                reach = None if place.narrow is None else Reach(place.narrow)
            case GatedFeedForward():  # which keeps no outline, and so ends all reaches
                place, largest = follow_gates(place, sublayer, rules.format)
                rules.peak.see(np.array(largest))
                copied, reach = None, None
        found += [] if reach is None else [reach]
        here = None if written is None else written.get(number)
        if centre is not None:
            at_start = centre & fresh
            middle = np.where(
                at_start if here is None else at_start | here, _worthwhile(place.deviation), 0.0
            )
            shifts -= np.where(at_start, middle, 0.0)
            if here is not None:
                later[number] = np.where(at_start, 0.0, -middle)
            place = place.shifted(-middle)
            copied = None if copied is None else np.where(middle == 0.0, copied, -1)
        places.append(place)
    answer = _read(place, transformer, format)
    if skeleton is not None:
        change = (Interval.point(transformer.readout.bias) - skeleton.readout.bias)[:, None]
        answer = Place(answer.range - change, answer.deviation + change)
    answer_shift = np.zeros(transformer.outputs)
    if centre is not None:
        answer_shift -= _worthwhile(answer.deviation).mean(axis=1)
        answer = answer.shifted(answer_shift[:, None])
    rules.peak.see(place.close.magnitude)
    rules.peak.see(answer.where.magnitude)
    rules.peak.see(np.array([head.largest_logit for head in heads.values()]))
    complete = found if len(found) == len(places) else None
    return Flow(places, answer, heads, shifts, answer_shift, later, rules.peak.size, complete)


_MANY_TOKENS = 16
_AS_WIDE = 1.0 + 2.0**-20  # two ways to write a maximum are equally wide up to rounding


def _asking_tokens(transformer: Transformer) -> dict[int, Asked]:
    """For each sublayer which tokens are followed, and which of them somebody reads afterwards."""
    first = range(min(transformer.tokens, _MANY_TOKENS))
    matter = transformer.tokens_that_matter[1:]
    return {number: ({*first, *needed}, set(needed)) for number, needed in enumerate(matter)}


def _worthwhile(deviation: Deviation) -> np.ndarray:
    """The midpoints, but 0 where the interval is centred already: no weight for nothing."""
    middle = deviation.middle
    return np.where(np.abs(middle) > 2.0**-10 * (deviation.hi - deviation.lo), middle, 0.0)


def largest_logit(transformer: Transformer, domain: Box | None) -> float:
    """No |logit| on which an answer depends is larger, at any input of the domain."""
    return follow(transformer, domain).largest_logit


def rounding_bound(transformer: Transformer, domain: Box, dtype: str = "float64") -> np.ndarray:
    """By how much each output, evaluated in a float format, can differ from the real value.

    Holds for every order of summation, with the weights rounded to the format, a coldness folded
    into the query weights, and inputs that are numbers of the format already. Infinite if
    something may overflow on the domain. For sequences of the full length.
    """
    format = FORMATS[dtype]
    flow = follow(transformer, domain, format=format)
    bound = flow.answer.deviation.magnitude.max(axis=1)
    return bound if format.fits(flow.peak) else np.full_like(bound, np.inf)


def _embed(source: Input, evaluated: Input, domain: Box | None, format: Format) -> Place:
    """The range of the reference's tokens; `evaluated` may have other offsets to be rounded."""
    match source:
        case VectorInput():
            assert isinstance(evaluated, VectorInput)
            if domain is None or domain.dimension != source.inputs:
                raise DomainError(f"A domain of dimension {source.inputs} is needed here.")
            box = domain.interval
            start = source.maps @ box + source.offsets
            fixed = ~source.maps.any(axis=2)
            start = Interval(
                np.where(fixed, source.offsets, start.lo), np.where(fixed, source.offsets, start.hi)
            )
            offsets = np.maximum(np.abs(source.offsets), np.abs(evaluated.offsets))
            flat = source.maps.reshape(-1, source.inputs)
            _, rounded = affine_stray(flat, box.magnitude, offsets.ravel(), 3, format)
            stored = fixed & format.holds(evaluated.offsets)
            rounded = np.where(stored, 0.0, rounded.reshape(fixed.shape))
        case SequenceInput():
            symbols = source.embedding
            hull = Interval(symbols.min(axis=0), symbols.max(axis=0))
            rows = [hull] * source.longest
            if source.start is not None:
                rows.insert(0, Interval.point(source.start))
            start = (
                Interval(np.stack([r.lo for r in rows]), np.stack([r.hi for r in rows]))
                + source.positions
            )
            rounded = stray(3, start.magnitude, format)
    return Place(start, Deviation.of(Interval(-rounded, rounded)))


def _reads(sublayer: Sublayer) -> np.ndarray:
    """Which coordinates a sublayer looks at."""
    if isinstance(sublayer, FeedForward):
        return np.asarray(sublayer.inner.any(axis=0))
    if isinstance(sublayer, GatedFeedForward):
        return np.asarray(sublayer.inner.any(axis=0) | sublayer.gate.any(axis=0))
    reads = np.zeros(sublayer.width, dtype=bool)
    for group in sublayer.groups:
        for matrix in (group.query, group.key, group.value):
            reads |= matrix.any(axis=(0, 1))
    return reads


def _attend(
    place: Place,
    sublayer: Attention,
    base: Attention,
    number: int,
    rules: Rules,
    heads: dict[tuple[int, int], HeadFlow],
    reach: Reach | None,
) -> tuple[Place, np.ndarray, Reach | None]:
    """All heads of a layer act on the same stream; their outputs are added to it.

    Also says, by token and coordinate, which noises stand for copies, too (`_copies`), and what
    outlines say of the reference, unless that is known.
    """
    writers = sum((group.output != 0).sum(axis=(0, 2)) for group in sublayer.groups)
    change = Place.zero(place.range.shape)
    outlines: list[Outline | None] = []
    size, moved = np.zeros(place.range.shape), np.zeros(place.range.shape)
    alone: list[GroupFlow] = []
    copied = np.full(place.range.shape, -1)
    factor = low = high = Interval.point(np.zeros(place.range.shape))
    own: OwnFactors | None = None
    for group, reference in zip(sublayer.groups, base.groups, strict=True):
        override = [
            rules.coldness.get((number, member), own)
            for member, own in zip(group.members, group.coldness, strict=True)
        ]
        result = follow_group(
            place,
            group,
            np.array(override),
            np.asarray(writers),
            rules.format,
            rules.noises,
            rules.against_skeleton,
            rules.asking[number][0],
            rules.asking[number][1],
            reference,
        )
        change = change + result.change
        outlines.append(result.outline)
        size += result.size
        moved += result.moved
        factor = factor + result.scaling
        low, high = low + result.scaled[0], high + result.scaled[1]
        own = result.own if own is None else own + result.own
        alone.append(result)
        heads.update({(number, m): h for m, h in zip(group.members, result.heads, strict=True)})
    assert own is not None
    factor, low, high = (_unless(own.some, part) for part in (factor, low, high))
    kept = own.times(place)
    outline = _sum_of([kept.outline, *outlines])
    after = scaled_in_place(kept, change, factor, (low, high))
    for group_flow in alone:
        at, rows, values = group_flow.alone_at, group_flow.alone_rows, group_flow.alone
        known = after[at, rows]
        narrower = values.deviation.width <= known.deviation.width * _AS_WIDE
        both = Place(
            known.range.meet(values.range), known.deviation.overruled(narrower, values.deviation)
        )
        after = after.replaced(at, rows, both)
        copied[at, rows] = np.where(narrower, group_flow.copied, -1)
    rules.peak.see(size + place.close.magnitude)
    after = after.outlined(outline, None if reach is None else reach.narrow)
    if outline is not None and after.narrow is not None:
        sizes = None
        if len(alone) == 1 and alone[0].sizes is not None:
            sizes = alone[0].sizes
        reach = Reach(after.narrow, outline[size > 0.0], sizes, size > 0.0)
    return _rounded(place, after, np.asarray(writers), (size, moved), rules, reach), copied, reach


def _rounded(
    before: Place,
    after: Place,
    writers: np.ndarray,
    sizes: tuple[np.ndarray, np.ndarray],
    rules: Rules,
    known: Reach | None,
) -> Place:
    """With the rounding of the sums that make up the stream after a layer of heads.

    What is written is at most `sizes[0]`, or what outlines say of the reference and `sizes[1]`. In
    a coarse format what sums err by are noises that lie in a ball; in float64 it is hardly
    anything.
    """
    (size, moved), here = sizes, before.close.magnitude
    length = np.inf
    if known is not None and known.sizes is not None:
        size = np.where(size > 0.0, np.minimum(size, inflate(known.sizes.entries + moved, 1)), 0.0)
        length = known.sizes.length + length_up(moved.ravel())
    written = size > 0.0
    terms = np.where(written, inflate(size + here, 1), 0.0)
    total = np.where(written, after.close.magnitude, 0.0)
    own, rest = sum_stray(writers + 1, terms, total, rules.format)
    own, rest = np.where(written, own, 0.0), np.where(written, rest, 0.0)
    if not rules.coarse:
        return after.strayed(inflate(own + rest, 1))
    assert rules.noises is not None
    most, many = int(writers.max(initial=0)) + 1, int(written.sum())
    away = length_up(after.deviation.magnitude[written])
    length = inflate(min(length + length_up(here[written]), length_up(terms.ravel())), 2)
    around = inflate((np.inf if known is None else known.length_in(written)) + away, 1)
    lengths = sum_stray(most, length, min(around, length_up(total.ravel())), rules.format)
    lost = many * (most + 8) * rules.format.smallest
    deviation = after.deviation
    for strays, joint in zip((own, rest), lengths, strict=True):
        deviation = deviation.strayed_together(strays, float(joint) + lost, rules.noises)
    return replace(after, deviation=deviation)


def _unless(where: np.ndarray, part: Interval) -> Interval:
    return Interval(np.where(where, 0.0, part.lo), np.where(where, 0.0, part.hi))


def _sum_of(outlines: list[Outline | None]) -> Outline | None:
    """None if one of them is not known."""
    total, *others = outlines
    for other in others:
        total = total and other and total + other
    return total


def _feed_forward(
    place: Place, layer: FeedForward, rules: Rules, copied: np.ndarray | None
) -> Place:
    """Token-wise. A hidden unit that is off for reference and evaluation alike adds nothing."""
    stream, here = place.transposed(), place.close.magnitude.T
    bias = layer.inner_bias[:, None]
    before = Place(layer.inner @ stream.range + bias, layer.inner @ stream.deviation)
    before = _affine(before, layer.inner, here, bias, rules)
    copies, originals = _copies(layer, copied, before.range.shape)
    hidden = _rectify(before, rules, copies)
    forgotten = Deviation.of(stream.deviation.hull)
    stream = Place(stream.range, stream.deviation.overruled(originals, forgotten))
    bias = layer.outer_bias[:, None]
    change = Place(layer.outer @ hidden.range + bias, layer.outer @ hidden.deviation)
    after = _affine(stream + change, layer.outer, hidden.where.magnitude, bias, rules, here)
    return after.transposed().outlined(_outline_of_units(place, layer, before.range), None)


def _affine(
    result: Place,
    matrix: np.ndarray,
    sizes: np.ndarray,
    bias: np.ndarray,
    rules: Rules,
    stream: np.ndarray | float = 0.0,
) -> Place:
    """With the rounding of the sums matrix @ x + bias + stream that a token-wise layer makes.

    In a coarse format it is noises, one for each sum, as in `_rounded`.
    """
    if not rules.coarse:
        more = 3 if isinstance(stream, float) else 5
        size, rounded = affine_stray(matrix, sizes, bias, more, rules.format, stream)
        rules.peak.see(size + stream)
        return result.strayed(np.where(size > 0.0, rounded, 0.0))
    size = matmul_up(np.abs(matrix), sizes) + np.abs(bias)
    written, terms = size > 0.0, inflate(size + stream, 1)
    rules.peak.see(terms)
    count = (matrix != 0.0).sum(axis=1, keepdims=True) + 2
    strays = sum_stray(count, terms, result.where.magnitude, rules.format)
    faint = faint_stray(matrix, sizes, rules.format)
    deviation = result.deviation
    for part in (inflate(strays[0] + faint, 1), strays[1]):
        assert rules.noises is not None
        deviation = deviation.strayed_together(np.where(written, part, 0.0), np.inf, rules.noises)
    return replace(result, deviation=deviation)


def _outline_of_units(place: Place, layer: FeedForward, before: Interval) -> Outline | None:
    """The reference after the layer as forms of the inputs, if it was known as such before it."""
    if place.outline is None:
        return None
    inner = layer.inner @ place.outline.transposed() + layer.inner_bias[:, None]
    hidden = outline_of_relu(inner, before.meet(inner.hull))
    change = layer.outer @ with_own_noises(hidden) + layer.outer_bias[:, None]
    return place.outline + change.transposed()


def _copies(
    layer: FeedForward, copied: np.ndarray | None, shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Units that copy a soft maximum M + s, M >= 0, made by the layer before; and what they copy.

    Here M is the hard maximum of what is evaluated, and s how the soft one errs, an interval that
    holds 0. A unit computes max(M + s, 0) = M + c s with 0 <= c <= 1: it errs within the same
    interval, and so deviates within the same bounds as what it copies. It is not the same number,
    however: the noise that stood for what is left over of the one now stands for the other, which
    is sound as long as the original, which nobody has read in between, forgets it.
    """
    units, originals = np.zeros(shape, dtype=bool), np.zeros((layer.inner.shape[1], shape[1]), bool)
    if copied is None:
        return units, originals
    single = ((layer.inner != 0.0).sum(axis=1) == 1) & (layer.inner_bias == 0.0)
    at = layer.inner.argmax(axis=1)
    single &= layer.inner[np.arange(len(at)), at] == 1.0
    units[single] = copied.T[at[single]] >= 0
    originals[at[single]] = units[single]
    return units, originals


def _rectify(before: Place, rules: Rules, same: np.ndarray) -> Place:
    """A unit that is on passes its deviation, one that is off has none.

    A unit whose reference is never negative is there to copy; only its evaluation may be cut off,
    where a soft maximum of 0 fell short of 0. What is left lies between the deviation and 0, and
    makes a noise of its own. Any other unit is a maximum with 0; those that are the `same` as what
    they copy deviate alike.
    """
    where, deviation = before.where, before.deviation
    off, on = where.hi <= 0.0, where.lo >= 0.0
    hull = deviation.hull
    cut = Deviation.of(Interval(np.minimum(hull.lo, 0.0), np.maximum(hull.hi, 0.0)))
    copies = (before.range.lo >= 0.0) & ~on & ~off & ~same
    if rules.noises is not None:
        cut = cut.with_noises(copies, rules.noises)
    bent = deviation_of_relu(deviation)
    if rules.coarse and rules.noises is not None:
        bent = bent.with_noises(~(copies | on | off | same), rules.noises)
    result = bent.overruled(copies, cut).overruled(on | same, deviation)
    nothing = Deviation.of(Interval.point(np.zeros(off.shape)))
    return Place(before.range.maximum(0.0), result.overruled(off, nothing))


def _read(place: Place, transformer: Transformer, format: Format) -> Place:
    readout = transformer.readout
    tokens = range(transformer.tokens) if readout.token is None else [readout.token]
    stream = place.transposed()[:, list(tokens)]
    bias = readout.bias[:, None]
    sizes = place.close.magnitude.T[:, list(tokens)]
    _, rounded = affine_stray(readout.weights, sizes, bias, 3, format)
    # One entry equal to 1 and no bias is a copy: nothing is rounded.
    terms, ones = ((readout.weights != k).sum(axis=1)[:, None] for k in (0, 1))
    copy = (terms == 1) & (ones == transformer.width - 1) & (bias == 0)
    read = Place(readout.weights @ stream.range + bias, readout.weights @ stream.deviation)
    return read.strayed(np.where(copy, 0.0, rounded))
