"""A basis of the linear functionals that a problem really uses.

The search runs in these coordinates: where x*y is made of squares of x + y and x - y, every kink
is a wall u = const or v = const, and boxes in (u, v) need not cross it. The functionals that
occur most often are taken first, as long as they are independent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from flint import fmpq, fmpq_mat

from hardmax.checker._budget import TERM, charge
from hardmax.checker.forms._forms import ONE, ZERO, cost_of, cost_of_bits

Row = dict[int, fmpq]
Look = Callable[[], object]


class Basis:
    """Independent functionals, and the coordinates of whatever lies in their span.

    Beside the functionals stands their reduced row echelon form: there, coordinates are the
    entries at the pivots, and one k x k matrix translates them. Numbers grow on the way: `look` is
    called before they do, and may end it by raising.
    """

    def __init__(self, columns: int, look: Look = lambda: None) -> None:
        self.columns, self._look = columns, look
        self.rows: list[Row] = []
        self._echelon: dict[int, Row] = {}
        self._back: fmpq_mat | None = None

    @classmethod
    def of(
        cls,
        functionals: Iterable[Row],
        columns: int,
        look: Look = lambda: None,
    ) -> Basis:
        """The most frequent ones first; scale does not count."""
        counts: Counter[tuple] = Counter()
        units: dict[tuple, Row] = {}
        for row in functionals:
            if row:
                lead = row[min(row)]
                charge(3 * cost_of(lead), len(row))
                unit = {i: c / lead for i, c in row.items()}
                key = tuple(sorted(unit.items()))
                counts[key] += 1
                units.setdefault(key, unit)
        basis = cls(columns, look)
        for key in sorted(units, key=lambda key: (-counts[key], len(key))):
            look()
            basis.admit(units[key])
        return basis

    @property
    def rank(self) -> int:
        return len(self.rows)

    def residual(self, row: Row) -> Row:
        """What is left of a functional when its part in the span is taken away."""
        rest = dict(row)
        charge(TERM, len(self._echelon))
        for pivot, other in self._echelon.items():
            factor = rest.get(pivot, ZERO)
            if factor != ZERO:
                _subtract(rest, factor, other)
        return rest

    def admit(self, row: Row) -> None:
        """One more functional, scaled to begin with 1, unless it lies in the span already."""
        if self.rank == self.columns:
            return
        rest = self.residual(row)
        if not rest:
            return
        pivot = min(rest)
        rest = {i: c / rest[pivot] for i, c in rest.items()}
        for other in self._echelon.values():
            factor = other.get(pivot, ZERO)
            if factor != ZERO:
                _subtract(other, factor, rest)
        self._echelon[pivot] = rest
        lead = row[min(row)]
        self.rows.append({i: c / lead for i, c in row.items()})
        self._back = None

    def coordinates(self, row: Row) -> list[fmpq]:
        """c with c @ rows = row, for a functional in the span (up to its residual)."""
        if self._back is None:
            k = self.rank
            entries = [r.get(p, ZERO) for r in self.rows for p in self._echelon]
            longest = max((entry.height_bits() for entry in entries), default=0)
            charge(cost_of_bits(k * longest), k**3)  # determinants have as many digits
            self._look()
            self._back = fmpq_mat(k, k, entries).inv() if k else fmpq_mat(0, 0, [])
        own = [row.get(p, ZERO) for p in self._echelon]
        if not any(own):
            return [ZERO] * self.rank
        widest = max(own, key=fmpq.height_bits)
        charge(2 * cost_of(widest, self._back[0, 0]), 4 + self.rank * self.rank)
        return [
            sum((v * self._back[i, j] for i, v in enumerate(own) if v != ZERO), ZERO)
            for j in range(self.rank)
        ]


def _subtract(row: Row, factor: fmpq, other: Row) -> None:
    some = next(iter(other.values()), ONE)
    charge(2 * cost_of(factor, some), len(other))
    for i, c in other.items():
        value = row.get(i, ZERO) - factor * c
        if value == ZERO:
            row.pop(i, None)
        else:
            row[i] = value
