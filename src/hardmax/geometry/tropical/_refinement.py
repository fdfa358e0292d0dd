"""The cells of several heads at once: the common refinement of their power diagrams."""

from __future__ import annotations

from collections.abc import Iterable

from numpy.typing import ArrayLike

from hardmax._errors import RequestError
from hardmax.geometry.bounds import Keys
from hardmax.geometry.hulls._points import Points
from hardmax.geometry.polytopes._minkowski import (
    MOST_VERTICES,
    MinkowskiSum,
    minkowski_sum,
    upper_sum,
)
from hardmax.geometry.polytopes._walk import Progress
from hardmax.geometry.tropical._tropical import Tropical
from hardmax.languages import MaxAffine

Table = Points | ArrayLike
Refined = Tropical | MaxAffine | Keys | Table | tuple[Table, Table]


def common_refinement(
    heads: Iterable[Refined],
    *,
    affine: bool | None = None,
    progress: Progress | None = None,
    most: int = MOST_VERTICES,
) -> MinkowskiSum:
    """Every cell that the heads have together: row i of `combinations` has one winner a head.

    A head is a `Tropical`, a `MaxAffine`, `bounds.Keys`, keys as a table, or a pair of keys and
    biases. A combination has a cell with an inside exactly if its sum is a vertex of the Minkowski
    sum of the keys (bias-free), or an upper vertex of that of the lifted keys (affine). Which of
    the two is asked is seen from the biases; affine=True lifts in any case, affine=False refuses
    heads with biases. The refinement's vertices are the sums of the keys, lifted if affine.

        >>> common_refinement([[[0], [1]], ([[0], [1], [2]], [0, -1, -3])]).count
        4
    """
    values = [_tropical(one) for one in heads]
    if not values:
        raise RequestError("A refinement needs at least one head; none was given.")
    biased = [h for h, one in enumerate(values) if _has_biases(one)]
    if affine is False and biased:
        raise RequestError(
            f"affine=False asks for cells without biases, but head {biased[0]} has some. Leave "
            f"them out, or drop affine=False."
        )
    if affine or biased:
        return upper_sum([one.lifted for one in values], progress=progress, most=most)
    return minkowski_sum([one.slopes for one in values], progress=progress, most=most)


def _has_biases(value: Tropical) -> bool:
    """Whether the biases differ: equal ones change no winner."""
    return len(value.offsets.distinct()[0]) > 1


def _tropical(head: Refined) -> Tropical:
    match head:
        case Tropical():
            return head
        case MaxAffine():
            return Tropical.of_max_affine(head)
        case Keys():
            return Tropical.of(head.keys, head.biases)
        case (keys, biases) if isinstance(head, tuple):
            return Tropical.of(keys, biases)
    return Tropical.of(head)
