"""The exact error of a hard Transformer against a piecewise affine target, over the rationals.

With queries that do not depend on the input, scores are affine on a cell on which everything
before them is; so are the values of heads, units and maxima, once it is known who wins. The box is
cut where that is not known, until it is, and on each closed cell the error is affine: its largest
size is attained at a vertex, or approached there. A face on which a head has more winners than
inside is a cell of its own, because a tie shares the weights, and whatever reads them may make
more of it than either side. The supremum over the box is the largest of all vertex values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations

from hardmax._errors import SemanticsError
from hardmax.core import Box, Hardmax, Steps, Transformer, Weighting
from hardmax.testing.truth._arithmetic import Row, weighted_sum
from hardmax.testing.truth._meaning import outputs_on_vector, values_of_steps

Point = tuple[Fraction, ...]
Evaluate = Callable[["Forms"], Sequence["AffineForm"]]


@dataclass(frozen=True)
class AffineForm:
    """constant + coefficients . x."""

    constant: Fraction
    coefficients: Point

    def __add__(self, other: AffineForm) -> AffineForm:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return AffineForm(self.constant + other.constant, tuple(a + b for a, b in pairs))

    def __sub__(self, other: AffineForm) -> AffineForm:
        return self + other.times(Fraction(-1))

    def __mul__(self, other: AffineForm) -> AffineForm:
        if not any(other.coefficients):
            return self.times(other.constant)
        if not any(self.coefficients):
            return other.times(self.constant)
        raise SemanticsError("A product of two values that depend on the input is not affine.")

    def times(self, factor: Fraction) -> AffineForm:
        return AffineForm(factor * self.constant, tuple(factor * c for c in self.coefficients))

    def at(self, point: Point) -> Fraction:
        products = (c * x for c, x in zip(self.coefficients, point, strict=True))
        return sum(products, self.constant)


class TakesBothSigns(Exception):
    """A form takes both signs on the cell."""

    def __init__(self, form: AffineForm) -> None:
        super().__init__("the cell has to be cut")
        self.form = form


@dataclass(frozen=True)
class Cell:
    """Where all the forms are >= 0, with the vertices of that polytope."""

    walls: tuple[AffineForm, ...]
    vertices: tuple[Point, ...]

    @classmethod
    def of(cls, box: Box) -> Cell:
        low, high = ([Fraction(v) for v in end.tolist()] for end in (box.low, box.high))
        walls = []
        for i in range(box.dimension):
            unit = tuple(Fraction(i == j) for j in range(box.dimension))
            walls += [AffineForm(-low[i], unit), AffineForm(high[i], tuple(-c for c in unit))]
        return cls(tuple(walls), _vertices(tuple(walls), ()))

    def within(self, form: AffineForm) -> Cell:
        """The part in which the form is >= 0; vertices that stay are kept, new ones lie on it."""
        kept = [vertex for vertex in self.vertices if form.at(vertex) >= 0]
        return Cell((*self.walls, form), tuple({*kept, *_vertices(self.walls, (form,))}))

    def face(self, form: AffineForm) -> Cell:
        """Where a form is 0 that is nowhere negative: a face, whose vertices are among these."""
        walls = (*self.walls, form, form.times(Fraction(-1)))
        return Cell(walls, tuple(vertex for vertex in self.vertices if not form.at(vertex)))


def _vertices(walls: tuple[AffineForm, ...], through: tuple[AffineForm, ...]) -> tuple[Point, ...]:
    """Points on as many walls as there are dimensions, inside of all the others."""
    dimension = len(walls[0].coefficients)
    found = set()
    for chosen in combinations(walls, dimension - len(through)):
        point = _solution((*through, *chosen))
        if point is not None and all(wall.at(point) >= 0 for wall in walls):
            found.add(point)
    return tuple(found)


def _solution(forms: Sequence[AffineForm]) -> Point | None:
    """Where all the forms are 0, if that is a point."""
    rows = [[*form.coefficients, -form.constant] for form in forms]
    for column in range(len(rows)):
        pivot = next((r for r in range(column, len(rows)) if rows[r][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for other in range(len(rows)):
            if other != column and (factor := rows[other][column]):
                pairs = zip(rows[other], rows[column], strict=True)
                rows[other] = [a - factor * b for a, b in pairs]
    return tuple(row[-1] for row in rows)


@dataclass(frozen=True)
class Forms:
    """The arithmetic of affine functions on one cell; what depends on a sign may ask for a cut.

    `ties` are the faces on which a head has more winners than inside.
    """

    cell: Cell
    ties: list[Cell] = field(default_factory=list)

    @property
    def inputs(self) -> list[AffineForm]:
        dimension = len(self.cell.vertices[0])
        units = [tuple(Fraction(i == j) for j in range(dimension)) for i in range(dimension)]
        return [AffineForm(Fraction(0), unit) for unit in units]

    def number(self, value: float) -> AffineForm:
        return AffineForm(Fraction(value), (Fraction(0),) * len(self.cell.vertices[0]))

    def is_at_least(self, a: AffineForm, b: AffineForm) -> bool:
        """Whether a >= b on all of the cell; if b > a on all of it, not."""
        difference = a - b
        values = [difference.at(vertex) for vertex in self.cell.vertices]
        if min(values) >= 0:
            return True
        if max(values) <= 0:
            return False
        raise TakesBothSigns(difference)

    def maximum(self, values: Sequence[AffineForm]) -> AffineForm:
        best = values[0]
        for value in values[1:]:
            best = best if self.is_at_least(best, value) else value
        return best

    def mix(self, scores: Sequence[AffineForm], weighting: Weighting, rows: Sequence[Row]) -> Row:
        if not isinstance(weighting, Hardmax):
            raise SemanticsError("A softmax is not piecewise affine.")
        best = self.maximum(scores)
        won = []
        for row, score in zip(rows, scores, strict=True):
            behind = best - score
            zeros = sum(not behind.at(vertex) for vertex in self.cell.vertices)
            if zeros == len(self.cell.vertices):
                won.append(row)
            elif zeros:
                self.ties.append(self.cell.face(behind))
        share = self.number(1).times(Fraction(1, len(won)))
        return weighted_sum([share] * len(won), won)

    def apply(self, name: str, value: AffineForm, exponent: float | Fraction) -> AffineForm:
        match name:
            case "relu":
                return self.maximum([value, self.number(0)])
            case "abs":
                return self.maximum([value, value.times(Fraction(-1))])
        raise SemanticsError(f"The {name} of an affine function is not piecewise affine.")


def largest_error_on_cells(transformer: Transformer, target: Steps, box: Box) -> Fraction:
    """sup |Transformer - target| over the box, over all outputs, exactly."""

    def differences(forms: Forms) -> list[AffineForm]:
        x = forms.inputs
        ours, theirs = outputs_on_vector(transformer, x, forms), values_of_steps(target, x, forms)
        return [a - b for a, b in zip(ours, theirs, strict=True)]

    return max(
        abs(form.at(vertex))
        for cell, forms in affine_pieces(box, differences)
        for form in forms
        for vertex in cell.vertices
    )


def affine_pieces(box: Box, evaluate: Evaluate) -> list[tuple[Cell, Sequence[AffineForm]]]:
    """Cells that cover a box, and what is evaluated on them as affine forms."""
    waiting, pieces, seen = [Cell.of(box)], [], set()
    while waiting:
        cell = waiting.pop()
        if (corners := frozenset(cell.vertices)) in seen:
            continue
        seen.add(corners)
        forms = Forms(cell)
        try:
            pieces.append((cell, evaluate(forms)))
            waiting += forms.ties
        except TakesBothSigns as cut:
            waiting += [cell.within(form) for form in (cut.form, cut.form.times(Fraction(-1)))]
    return pieces
