"""Linear equations in Fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction


def least_solution(rows: Sequence[Sequence[Fraction]], right: Sequence[Fraction]) -> list[Fraction]:
    """The solution of rows @ x = right that is nearest to 0; there must be one.

    It is a combination of the rows: x = R^T y with R R^T y = r over a maximal set R of independent
    rows, for which R R^T is invertible.
    """
    chosen, levels = _independent(rows, right)
    gram = [[_dot(a, b) for b in chosen] for a in chosen]
    weights = _solve(gram, levels)
    width = len(rows[0])
    return [
        sum((w * row[c] for w, row in zip(weights, chosen, strict=True)), Fraction(0))
        for c in range(width)
    ]


def _dot(a: Sequence[Fraction], b: Sequence[Fraction]) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _independent(
    rows: Iterable[Sequence[Fraction]], right: Iterable[Fraction]
) -> tuple[list[list[Fraction]], list[Fraction]]:
    """Rows that span all of them, with their right-hand sides."""
    reduced: list[tuple[int, list[Fraction]]] = []
    chosen, levels = [], []
    for row, level in zip(rows, right, strict=True):
        rest = [Fraction(x) for x in row]
        for pivot, other in reduced:
            if rest[pivot]:
                factor = rest[pivot] / other[pivot]
                rest = [x - factor * y for x, y in zip(rest, other, strict=True)]
        place = next((c for c, x in enumerate(rest) if x), None)
        if place is not None:
            reduced.append((place, rest))
            chosen.append([Fraction(x) for x in row])
            levels.append(Fraction(level))
    return chosen, levels


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of an invertible system, by elimination."""
    size = len(matrix)
    table = [[*row, level] for row, level in zip(matrix, right, strict=True)]
    for c in range(size):
        pivot = next(r for r in range(c, size) if table[r][c])
        table[c], table[pivot] = table[pivot], table[c]
        table[c] = [x / table[c][c] for x in table[c]]
        for r in range(size):
            if r != c and table[r][c]:
                factor = table[r][c]
                table[r] = [x - factor * y for x, y in zip(table[r], table[c], strict=True)]
    return [row[-1] for row in table]
