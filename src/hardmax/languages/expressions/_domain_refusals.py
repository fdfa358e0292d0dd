"""How a domain is refused: what is not defined there, where, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np

from hardmax._errors import DomainError, HardmaxError
from hardmax.languages.expressions._expression import Expression, Number
from hardmax.languages.expressions._values import ball_value, evaluate
from hardmax.numerics import Condition

_LONGEST = 60
Domain = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Finding:
    """Why `node` is refused on the domain: a point where it fails, or one where nobody knows."""

    node: Expression
    subject: Expression
    condition: Condition
    domain: dict[str, tuple[float, float]]
    low: float = np.nan
    high: float = np.nan
    point: tuple[float, ...] = ()
    certain: bool = False

    def with_range(self, values: np.ndarray) -> Finding:
        return self if not values.size else replace(self, low=values.min(), high=values.max())

    def at(self, point: np.ndarray) -> Finding:
        return replace(self, point=tuple(point.tolist()), certain=True)

    def near(self, point: np.ndarray) -> Finding:
        return replace(self, point=tuple(point.tolist()), certain=False)

    @property
    def range(self) -> str:
        return f"[{_short(self.low)}, {_short(self.high)}]"

    @property
    def where(self) -> str:
        """x = 0, y = 1."""
        pairs = zip(self.domain, self.point, strict=True)
        return ", ".join(f"{name} = {_short(value)}" for name, value in pairs)

    @property
    def on(self) -> str:
        """x in [-1, 1], y in [0, 1]."""
        return _domain_text(self.domain)


def refuse(finding: Finding, *, is_safe: Callable[[Domain], bool]) -> NoReturn:
    """Raise the refusal; `is_safe` tells whether an example of a better domain really is one."""
    if not finding.certain:
        raise DomainError(_undecided(finding))
    match finding.condition.kind:
        case "finite":
            raise DomainError(_overflow(finding))
        case "nonzero":
            raise DomainError(_division(finding, is_safe))
        case "away from poles":
            raise DomainError(
                f"{_text(finding.node)} has a pole where its argument is an odd multiple of pi/2, "
                f"but {_text(finding.subject)} ranges over {finding.range} on {finding.on}, with "
                f"a pole at {finding.where}. Give a domain between two poles."
            )
    raise DomainError(_sign(finding))


def _sign(finding: Finding) -> str:
    needed = f"{_text(finding.node)} needs {finding.condition.argument}"
    if not finding.domain:
        value = "" if isinstance(finding.subject, Number) else f", but it is {finding.low:.6g}"
        return f"{needed}{value}; change it."
    return (
        f"{needed}, but {_text(finding.subject)} ranges over {finding.range} on {finding.on}. "
        f"Give a domain on which it is {finding.condition.kind}."
    )


def _division(finding: Finding, is_safe: Callable[[Domain], bool]) -> str:
    node, subject = _text(finding.node), _text(finding.subject)
    if not finding.domain:
        return f"{node} is not defined, because {subject} is 0; change it."
    if len(finding.domain) > 1:
        return (
            f"{node} is not defined at {finding.where}, where {subject} is 0, and that lies in "
            f"the domain {finding.on}. Give a domain on which {subject} keeps one sign."
        )
    example = _better(finding, is_safe)
    return (
        f"{node} is not defined at {finding.where}, which lies in the domain {finding.on}. Give a "
        f"domain that excludes {_short(finding.point[0])}{example}."
    )


def _better(finding: Finding, is_safe: Callable[[Domain], bool]) -> str:
    """A domain on one side of the point, if one can be shown to be good."""
    ((name, (low, high)),) = finding.domain.items()
    (point,) = finding.point
    right = (_rounded(point + 0.1 * (high - point)), high)
    left = (low, _rounded(point - 0.1 * (point - low)))
    for ends in sorted((right, left), key=lambda ends: ends[0] - ends[1]):
        if low <= ends[0] < ends[1] <= high and is_safe({name: ends}):
            return f", for example {_domain_text({name: ends})}"
    return ""


def _overflow(finding: Finding) -> str:
    point = dict(zip(finding.domain, finding.point, strict=True))
    where = f" at {finding.where}" if point else ""
    return (
        f"{_text(finding.node)} overflows: it is {_huge(finding.node, point)}{where}, and values "
        f"must stay below 1e300 in size. Give a smaller domain or scale the function down."
    )


def _undecided(finding: Finding) -> str:
    near = f" near {finding.where}" if finding.point else ""
    on = f" on {finding.on}" if finding.domain else ""
    if finding.condition.kind == "finite":
        return (
            f"It could not be proved that {_text(finding.node)} stays below 1e300{on}; the "
            f"enclosure{near} is {finding.range}. Give a smaller domain."
        )
    kept = "" if finding.subject is finding.node else f" of {_text(finding.subject)}"
    return (
        f"It could not be proved that {_text(finding.node)} is defined everywhere{on}: its "
        f"argument must be {finding.condition.kind}, but the enclosure{kept}{near} is "
        f"{finding.range}. Give a smaller domain."
    )


def _huge(node: Expression, point: Mapping[str, float]) -> str:
    """The value in scientific notation, however large."""
    try:
        return str(ball_value(node, point).mid().str(4, radius=False))
    except (HardmaxError, ArithmeticError, ValueError):
        return f"{float(evaluate(node, point)):.4g}"


def _text(expression: Expression) -> str:
    text = str(expression)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def _domain_text(domain: Domain) -> str:
    edges = domain.items()
    return ", ".join(f"{name} in [{_short(low)}, {_short(high)}]" for name, (low, high) in edges)


def _short(number: float) -> str:
    return f"{number + 0.0:.6g}"


def _rounded(number: float) -> float:
    return float(f"{number:.3g}")
