"""The domain of a function of named variables: what users write for it, and what is proved on it.

Expressions must be defined and finite on all of their box: intervals prove it, or it is refused.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from hardmax._errors import DomainError, SemanticsError
from hardmax.core import Box
from hardmax.languages.expressions._derivative import derivative
from hardmax.languages.expressions._domain_refusals import Finding, refuse
from hardmax.languages.expressions._expression import OF_SEVERAL, Apply, Expression, postorder
from hardmax.languages.expressions._values import evaluate, evaluate_all
from hardmax.numerics import FAINT, NONZERO, Condition, Interval, record_of

Edge = tuple[float, float]

LARGEST_VALUE = 1e300
_BUDGET = 20_000  # boxes per requirement
_FEW = 64  # undecided boxes that are worth a look at their corners
_SAMPLES = 2000

FINITE = Condition(
    "finite",
    unproved=lambda v: ~(v.magnitude < LARGEST_VALUE),
    violated=lambda v: (v.lo >= LARGEST_VALUE) | (v.hi <= -LARGEST_VALUE),
    of_ball=lambda x: bool(abs(x) < LARGEST_VALUE),
)


# ---- what users write ----------------------------------------------------------------------------


def named_box(on: object, variables: Sequence[str]) -> Box:
    """The box in the order of the variables.

    From a mapping {"x": (-1, 1)}, from texts such as "x=-1:1" (one of them, or a list), from a
    `Box`, or from whatever else `Box.of` takes.
    """
    if isinstance(on, str) and "=" in on:
        on = [on]
    if isinstance(on, list | tuple) and on and all(isinstance(item, str) for item in on):
        on = _read(on)
    if not isinstance(on, Mapping):
        try:
            return Box.of(on, len(variables))
        except DomainError as error:
            if "inputs" not in str(error):
                raise
            raise DomainError(
                f"{error} The variables are {', '.join(variables)}; pi and e are constants."
            ) from None
    _check_names(on, variables)
    edges = [_edge(name, on[name]) for name in variables]
    ends = np.array(edges, dtype=np.float64).reshape(-1, 2)
    return Box(ends[:, 0], ends[:, 1])


def _read(texts: Iterable[str]) -> dict[str, Edge]:
    domain: dict[str, Edge] = {}
    for text in texts:
        name, equals, ends = text.partition("=")
        low, colon, high = ends.partition(":")
        name = name.strip()
        if not (equals and colon and name):
            raise DomainError(f'The domain "{text}" could not be read; write it as x=-1:1.')
        if name in domain:
            raise DomainError(f"The domain of {name} is given twice; give it once.")
        try:
            domain[name] = float(low), float(high)
        except ValueError:
            raise DomainError(
                f'The domain "{text}" could not be read; its ends must be numbers, as in '
                f"{name}=-1:1."
            ) from None
    return domain


def _check_names(domain: Mapping[str, object], variables: Sequence[str]) -> None:
    unused = [str(name) for name in domain if name not in variables]
    missing = [name for name in variables if name not in domain]
    constant = next((name for name in unused if name in ("e", "pi")), None)
    if constant is not None:
        raise DomainError(
            f"{constant} is a constant, not a variable; give the variable another name."
        )
    if unused:
        near = difflib.get_close_matches(unused[0], missing or variables, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise DomainError(
            f"A domain was given for {unused[0]}, which the function does not use. {hint}"
            f"Its variables are {', '.join(variables)}."
        )
    if missing:
        raise DomainError(
            f"No domain was given for {', '.join(missing)}; add "
            f"{' '.join(f'--on {name}=LOW:HIGH' for name in missing)}, or "
            f"{', '.join(f'{name!r}: (low, high)' for name in missing)} in Python."
        )


def _edge(name: str, ends: object) -> Edge:
    try:
        low, high = (float(end) for end in (ends if isinstance(ends, Iterable) else ()))
    except (TypeError, ValueError, OverflowError):
        raise DomainError(
            f"The domain of {name} must be a pair (low, high) of numbers, not {ends!r}."
        ) from None
    if not (math.isfinite(low) and math.isfinite(high)):
        raise DomainError(
            f"The domain of {name} is [{low:g}, {high:g}]; give finite numbers for both ends."
        )
    if low > high:
        raise DomainError(
            f"The domain of {name} is inverted, [{low:g}, {high:g}]; give the smaller end first."
        )
    return low, high


# ---- what is proved ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Requirement:
    """What has to hold of `subject` so that `node` is defined, or of a node to be finite."""

    node: Expression
    subject: Expression
    condition: Condition

    @cached_property
    def slopes(self) -> dict[str, Expression] | None:
        """The partial derivatives of the subject, if it is smooth."""
        try:
            return {name: derivative(self.subject, name) for name in self.subject.variables()}
        except SemanticsError:
            return None


def check_domain(
    expressions: Sequence[Expression], domain: Mapping[str, tuple[float, float]]
) -> None:
    """Refuse the box unless every part of the expressions is defined and below 1e300 on it.

    Parts are taken from the inside out. A requirement that interval arithmetic proves on the
    whole box is done; otherwise the box is bisected, at most 20,000 pieces, and small pieces on
    which the part is monotone are judged at their corners, exactly where it is rational. Since
    the inner parts are proved defined, the argument is continuous: two signs mean a zero.
    """
    whole = {n: Interval(np.array([a]), np.array([b])) for n, (a, b) in domain.items()}
    values = evaluate_all(expressions, whole, "interval")
    for node in postorder(*expressions):
        for requirement in _requirements(node):
            if requirement.condition.unproved(values[requirement.subject]).any():
                finding = _search(requirement, domain)
                if finding is not None:
                    refuse(finding, is_safe=partial(_holds, requirement))


def _requirements(node: Expression) -> list[Requirement]:
    """What a node needs of its argument, and then of itself."""
    if not isinstance(node, Apply):
        return []
    condition = NONZERO if node.operation == "divide" else None
    if node.operation not in OF_SEVERAL:
        condition = record_of(node.operation, node.exponent).condition
    finite = Requirement(node, node, FINITE)
    if condition is None:
        return [finite]
    return [Requirement(node, node.arguments[-1], condition), finite]


def _search(requirement: Requirement, domain: Mapping[str, tuple[float, float]]) -> Finding | None:
    """None if the requirement is proved; otherwise what was found out."""
    names = requirement.subject.variables()
    used = {name: domain[name] for name in names}
    points = _sampled(used)
    refuted = _refuted(requirement, used, points)
    if refuted is not None:
        return refuted
    boxes = Interval(
        np.array([[used[n][0]] for n in names]).reshape(len(names), 1),
        np.array([[used[n][1]] for n in names]).reshape(len(names), 1),
    )
    width = np.maximum(boxes.hi - boxes.lo, FAINT)
    spent = 0
    while True:
        spent += boxes.shape[1]
        boxes = boxes[:, _open(requirement, boxes)]
        if not boxes.shape[1]:
            return None
        refuted = _refuted(requirement, used, np.concatenate([points, boxes.middle], axis=1))
        halves = _halved(boxes, width)
        if refuted is not None or halves is None or spent + halves.shape[1] > _BUDGET:
            return refuted or _undecided(requirement, used, boxes)
        boxes = halves


def _holds(requirement: Requirement, domain: Mapping[str, tuple[float, float]]) -> bool:
    return _search(requirement, domain) is None


def _named(requirement: Requirement, rows: Interval) -> dict[str, Interval]:
    return {name: rows[i] for i, name in enumerate(requirement.subject.variables())}


def _open(requirement: Requirement, boxes: Interval) -> np.ndarray:
    """Which boxes remain undecided."""
    values = evaluate(requirement.subject, _named(requirement, boxes), "interval")
    unproved = requirement.condition.unproved
    still = np.array(np.broadcast_to(unproved(values), boxes.shape[1:]))
    if 0 < still.sum() <= _FEW and requirement.slopes is not None:
        for i in np.flatnonzero(still):
            corners = _range_by_corners(requirement, boxes[:, i])
            still[i] = corners is None or bool(unproved(corners).any())
    return still


def _range_by_corners(requirement: Requirement, box: Interval) -> Interval | None:
    """The range over a box on which every slope has a sign: the values at two corners."""
    assert requirement.slopes is not None
    low, high = {}, {}
    named = _named(requirement, box)
    for name, slope in requirement.slopes.items():
        sign = evaluate(slope, named, "interval")
        if not (sign.lo >= 0.0).all() and not (sign.hi <= 0.0).all():
            return None
        ends = named[name].lo, named[name].hi
        low[name], high[name] = ends if (sign.lo >= 0.0).all() else ends[::-1]
    bottom, top = (_at(requirement.subject, corner) for corner in (low, high))
    return Interval(np.minimum(bottom.lo, top.hi), np.maximum(top.hi, bottom.lo))


def _at(subject: Expression, point: Mapping[str, np.ndarray]) -> Interval:
    """An enclosure of one value: of the exact one where all operations are rational."""
    try:
        exactly = {name: Fraction(float(value)) for name, value in point.items()}
        return Interval.point(evaluate(subject, exactly, "fraction"))
    except (SemanticsError, OverflowError):
        return evaluate(subject, point, "interval")


def _halved(boxes: Interval, width: np.ndarray) -> Interval | None:
    """Each box cut in two across its widest edge, relative to the domain's; None for points."""
    if not len(boxes):
        return None
    middle = boxes.middle
    cuttable = (boxes.lo < middle) & (middle < boxes.hi)
    if not cuttable.any(axis=0).all():
        return None
    edge = np.where(cuttable, (boxes.hi - boxes.lo) / width, -1.0).argmax(axis=0)
    columns = np.arange(boxes.shape[1])
    below, above = boxes.hi.copy(), boxes.lo.copy()
    below[edge, columns] = above[edge, columns] = middle[edge, columns]
    return Interval(
        np.concatenate([boxes.lo, above], axis=1), np.concatenate([below, boxes.hi], axis=1)
    )


def _sampled(domain: Mapping[str, tuple[float, float]]) -> np.ndarray:
    """Corners, the middle, and points all over, one per column."""
    ends = np.array(list(domain.values()), dtype=float).reshape(len(domain), 2)
    rng = np.random.default_rng(0)
    share = rng.random((len(ends), _SAMPLES))
    share[:, : _SAMPLES // 4] = share[:, : _SAMPLES // 4].round()
    share[:, 0], share[:, 1], share[:, 2] = 0.5, 0.0, 1.0
    points = ends[:, :1] * (1.0 - share) + ends[:, 1:] * share
    return np.clip(points, ends[:, :1], ends[:, 1:])


def _refuted(
    requirement: Requirement, domain: Mapping[str, tuple[float, float]], points: np.ndarray
) -> Finding | None:
    """What refutes the requirement, if values at the points do."""
    enclosures = evaluate(
        requirement.subject, _named(requirement, Interval(points, points)), "interval"
    )
    shape = points.shape[1:]
    enclosures = Interval(
        np.broadcast_to(enclosures.lo, shape), np.broadcast_to(enclosures.hi, shape)
    )
    wrong = requirement.condition.violated(enclosures)
    finite = np.isfinite(enclosures.magnitude)
    found = Finding(requirement.node, requirement.subject, requirement.condition, dict(domain))
    found = found.with_range(enclosures[finite].middle)
    if wrong.any():
        return found.at(points[:, int(np.argmax(wrong))])
    side = requirement.condition.side
    sides = None if side is None else side(enclosures)
    if sides is None or not (sides == 1).any() or not (sides == -1).any():
        return None
    crossing = _crossing(requirement, points[:, sides == -1][:, 0], points[:, sides == 1][:, 0])
    width = np.array([high - low for low, high in domain.values()])
    return found.at(np.where(np.abs(crossing) < 1e-12 * width, 0.0, crossing))


def _crossing(requirement: Requirement, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """A float near a forbidden value on the segment, by bisection: only for showing it."""
    for _ in range(60):
        middle = 0.5 * start + 0.5 * end
        pair = np.stack([start, middle], axis=1)
        values = evaluate(
            requirement.subject, _named(requirement, Interval(pair, pair)), "interval"
        )
        start, end = (start, middle) if requirement.condition.crosses(values) else (middle, end)
    return end


def _undecided(
    requirement: Requirement, domain: Mapping[str, tuple[float, float]], boxes: Interval
) -> Finding:
    box = boxes[:, 0] if boxes.shape[0] else boxes
    value = evaluate(requirement.subject, _named(requirement, box), "interval")
    found = Finding(requirement.node, requirement.subject, requirement.condition, dict(domain))
    found = found.with_range(np.array([float(value.lo.min()), float(value.hi.max())]))
    return found.near(box.middle.reshape(-1)[: boxes.shape[0]])
